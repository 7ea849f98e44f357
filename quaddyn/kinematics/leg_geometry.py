"""`LegGeometry`: the geometry of a leg that closed-form kinematics needs, computed from its chain of joints.

It does not depend on the directions of the axes and the zero pose in the file.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..robot.chain import Chain
from ..urdf.tree import Array

#: Axes count as parallel up to this sine of their angle, as in files with angles of four digits; `LegKinematics`
#: corrects the remaining error.
PARALLEL_TOLERANCE = 1e-4
#: A joint whose axis is nearer to the foot than this fraction of the leg's length does not move it.
ON_AXIS_FRACTION = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class LegGeometry:
    """A leg with at most one joint that rotates its plane, and 2 to 4 parallel joints that move the foot in that plane.

    The plane has the axes e1 ("forward") and e2 ("up") and the normal n ("left"), with e1 x e2 = -n.  In-plane vectors
    are complex numbers, e1 real and e2 imaginary, and angles are positive from forward to up.  All vectors are those of
    the zero configuration, in the base frame; points are relative to `origin`.  With an abduction joint, b and c = a x
    b complete its axis a to a frame in which n is in the span of a and b, and e2 = side * c.

    Attributes:
        n_active: number of joints that move the foot; the joints after them only rotate it.
        has_abduction: whether the first joint rotates the plane.
        origin: (3,) a point on the first joint's axis [m].
        n, e1, e2: (3,) normal and axes of the plane.
        a, b, c: (3,) axes of the abduction frame (of a planar leg: n, e1, -e2).
        side: +1 or -1.
        lateral: constant component of the foot's position along n [m].
        hip: in-plane position of the first parallel joint [m].
        links: (m,) in-plane vectors from joint to joint, the last one to the foot [m].
        signs: (m,) +1 where a joint coordinate rotates its link from forward to up, else -1.
        q_ref: (n,) joint values at home [rad], to which branch names and redundant joints refer.
        parallelism_error: approximate displacement of the foot by axes that are not exactly parallel [m].
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
    """Computes the geometry of a leg from its chain; None if it does not have this structure.

    Args:
        chain: the leg's chain in the base frame.
        q_ref: (n,) joint values at home [rad]; they determine the sides that are called left and up.
        forward: (3,) forward unit vector of the base.
        left: (3,) left unit vector of the base.
    """
    origins, axes, tip = chain.forward(np.zeros(chain.n))
    length = float(np.linalg.norm(np.diff(np.vstack((origins, tip)), axis=0), axis=1).sum())
    n_active = chain.n
    while (
        n_active
        and _is_revolute(chain, n_active - 1)
        and _distance_to_axis(tip, origins[n_active - 1], axes[n_active - 1]) < (ON_AXIS_FRACTION * length)
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
        if abs(a @ forward) > 0.5:  # an abduction axis along the body: e2 points up
            side = float(np.sign(a @ forward))
        else:  # a steep axis: "below" is the side of the plane on which the foot is at home
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
    if np.abs(links[:2]).min() < ON_AXIS_FRACTION * length:
        return None
    signs = -np.sign(axes[first:n_active] @ n)
    lateral = float(points[-1] @ n)
    parallelism_error = (
        4.0 * length * float(np.linalg.norm(np.cross(axes[first:n_active], n), axis=1).max()) + 1e-14 * length
    )
    hip = complex(flat[0])
    return LegGeometry(
        n_active, first == 1, origins[0], n, e1, e2, a, b, c, side, lateral, hip, links, signs, q_ref, parallelism_error
    )


def _is_revolute(chain: Chain, i: int) -> bool:
    """Returns whether joint i of the chain is revolute or continuous."""
    joint = chain.joints[i]
    return joint is not None and joint.type in ("revolute", "continuous")


def _distance_to_axis(point: Array, origin: Array, axis: Array) -> float:
    """Returns the distance of a point from a joint's axis [m]."""
    return float(np.linalg.norm(np.cross(axis, point - origin)))


def _sign_along(axis: Array, *directions: Array) -> float:
    """Returns the sign with which `axis` points along the first of `directions` to which it is not perpendicular."""
    for direction in directions:
        component = float(axis @ direction)
        if abs(component) > 1e-6:
            return 1.0 if component > 0.0 else -1.0
    return 1.0


def _plane_axes(n: Array, forward: Array, up: Array) -> tuple[Array, Array]:
    """Returns e1 and e2 of the plane with normal n: e2 along up or, where n is vertical, e1 along forward."""
    e2 = up - (up @ n) * n
    if np.linalg.norm(e2) < 1e-6:
        e2 = np.cross(forward, n)
        e2 -= (e2 @ n) * n
    e2 = e2 / np.linalg.norm(e2)
    return np.cross(n, e2), e2
