"""`LegGeometry`: what a closed form needs to know of a leg, read off its chain whatever its axes and zero pose."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..robot.chain import Chain
from ..urdf.tree import Array

#: Axes are parallel when the sine of their angle is at most this; angles written with four digits still count, and
#: `LegKinematics` takes out what they leave.
PARALLEL_TOLERANCE = 1e-4
#: A foot nearer than this share of the leg's length to a joint's axis is not moved by that joint.
ON_AXIS_FRACTION = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class LegGeometry:
    """A leg as at most one joint that turns its plane, and 2 to 4 parallel joints that move the foot in that plane.

    The plane carries axes e1 ("forward"), e2 ("up") and the normal n ("left"), with e1 x e2 = -n; in-plane vectors are
    complex numbers, e1 real and e2 imaginary, and angles grow from forward to up.  All vectors are those of the zero
    configuration, in the base frame; points count from `origin`.  With an abduction joint, b and c = a x b complete
    its axis a to a frame such that n lies between a and b, and e2 = side * c.

    Attributes:
        active: number of joints that move the foot; those after them turn it on the spot.
        abducts: whether the first joint turns the plane.
        origin: (3,) a point on the first joint's axis [m].
        n, e1, e2: (3,) the plane's axes.
        a, b, c: (3,) the abduction frame (of a planar leg: n, e1, -e2).
        side: +1 or -1.
        lateral: constant component of the foot along n [m].
        hip: in-plane position of the first bending joint [m].
        links: (m,) in-plane vectors from joint to joint, the last one to the foot [m].
        signs: (m,) +1 where a joint coordinate turns its link from forward to up, else -1.
        q_ref: (n,) the joint values that names and redundancy refer to [rad].
        skew: by how much axes that are not quite parallel may displace the foot, roughly [m].
    """

    n_active: int
    has_abduction: bool
    origin: Array
    n: Array
    e1: Array
    e2: Array
    a: Array
    b: Array
    c: Array
    side: float
    lateral: float
    hip: complex
    links: NDArray[np.complex128]
    signs: Array
    q_ref: Array
    parallelism_error: float

    @property
    def reach(self) -> float:
        """Sum of the links' in-plane lengths [m]."""
        return float(np.abs(self.links).sum())


def read_leg_geometry(chain: Chain, q_ref: Array, forward: Array, left: Array) -> LegGeometry | None:
    """The geometry of `chain`, or None when it is no such leg.

    Args:
        chain: the leg's chain in the base frame.
        q_ref: (n,) the leg as it stands at home [rad]; it settles which side is left and which way is up.
        forward: (3,) unit vector of the base.
        left: (3,) unit vector of the base.
    """
    origins, axes, tip = chain.forward(np.zeros(chain.n))
    size = float(np.linalg.norm(np.diff(np.vstack((origins, tip)), axis=0), axis=1).sum())
    n_active = chain.n
    while (
        n_active
        and _is_revolute(chain, n_active - 1)
        and _distance_to_axis(tip, origins[n_active - 1], axes[n_active - 1]) < (ON_AXIS_FRACTION * size)
    ):
        n_active -= 1
    if n_active < 2 or not all(_is_revolute(chain, i) for i in range(n_active)):
        return None
    first = n_active - 1
    while first and np.linalg.norm(np.cross(axes[first - 1], axes[n_active - 1])) <= PARALLEL_TOLERANCE:
        first -= 1
    if first > 1 or not 2 <= n_active - first <= 4:
        return None

    up = np.cross(forward, left)
    home_origins, home_axes, home_tip = chain.forward(q_ref)
    n = axes[first] * _sign_along(home_axes[first], left, up, forward)
    if first == 1:
        a = axes[0]
        b = n - (n @ a) * a
        b /= np.linalg.norm(b)
        c = np.cross(a, b)
        if abs(a @ forward) > 0.5:  # an abduction axis along the body: up is up
            side = float(np.sign(a @ forward))
        else:  # a steep one: the foot counts as below on the side of the plane where it stands at home
            home_b = home_axes[first] * np.sign(n @ axes[first])
            below = np.cross(a, home_b) @ (home_tip - home_origins[0])
            side = -1.0 if below > 0.0 else 1.0
        e2 = side * c
        e1 = np.cross(n, e2)
    else:
        e1, e2 = _plane_axes(n, forward, up)
        a, b, c, side = n, e1, -e2, -1.0
    points = np.vstack((origins[first:n_active], tip)) - origins[0]
    flat = points @ e1 + 1j * (points @ e2)
    links = np.diff(flat)
    if np.abs(links[:2]).min() < ON_AXIS_FRACTION * size:
        return None
    signs = -np.sign(axes[first:n_active] @ n)
    lateral = float(points[-1] @ n)
    parallelism_error = (
        4.0 * size * float(np.linalg.norm(np.cross(axes[first:n_active], n), axis=1).max()) + 1e-14 * size
    )
    hip = complex(flat[0])
    return LegGeometry(
        n_active, first == 1, origins[0], n, e1, e2, a, b, c, side, lateral, hip, links, signs, q_ref, parallelism_error
    )


def _is_revolute(chain: Chain, i: int) -> bool:
    joint = chain.joints[i]
    return joint is not None and joint.type in ("revolute", "continuous")


def _distance_to_axis(point: Array, origin: Array, axis: Array) -> float:
    return float(np.linalg.norm(np.cross(axis, point - origin)))


def _sign_along(axis: Array, *directions: Array) -> float:
    """The sign that makes `axis` point along the first of `directions` that it is not perpendicular to."""
    for direction in directions:
        component = float(axis @ direction)
        if abs(component) > 1e-6:
            return 1.0 if component > 0.0 else -1.0
    return 1.0


def _plane_axes(n: Array, forward: Array, up: Array) -> tuple[Array, Array]:
    """Axes of the plane normal to n: e2 along up or, where n is upright, e1 along forward."""
    e2 = up - (up @ n) * n
    if np.linalg.norm(e2) < 1e-6:
        e2 = np.cross(forward, n)
        e2 -= (e2 @ n) * n
    e2 = e2 / np.linalg.norm(e2)
    return np.cross(n, e2), e2
