"""`LegGeometry`: the geometry of a leg that closed-form kinematics needs, computed from its chain of joints.

It does not depend on the directions of the axes and the zero pose in the file.

`TwoLinks` is a planar leg of 2 to 4 links reduced to two rigid links, by a named rule where it has more than two.  For
an unreachable target the nearest point of the leg's workspace is computed exactly, without joint limits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..robot.bodies import Chain
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
    """

    n_active: int  # number of joints that move the foot; the joints after them only rotate it
    has_abduction: bool  # whether the first joint rotates the plane
    origin: Array  # (3,) a point on the first joint's axis [m]
    n: Array  # (3,) normal and axes of the plane
    e1: Array  # likewise
    e2: Array  # likewise
    a: Array  # (3,) axes of the abduction frame (of a planar leg: n, e1, -e2)
    b: Array  # likewise
    c: Array  # likewise
    side: float  # +1 or -1
    lateral: float  # constant component of the foot's position along n [m]
    hip: complex  # in-plane position of the first parallel joint [m]
    links: NDArray[np.complex128]  # (m,) in-plane vectors from joint to joint, the last one to the foot [m]
    signs: Array  # (m,) +1 where a joint coordinate rotates its link from forward to up, else -1
    q_ref: Array  # (n,) joint values at home [rad], to which branch names and redundant joints refer
    parallelism_error: float  # approximate displacement of the foot by axes that are not exactly parallel [m]

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


Complex = NDArray[np.complex128]

#: Rules for joints beyond the knee if the direction of the last link is not given.
REDUNDANCY_MODES = ("hold", "parallel")


@dataclass(frozen=True, slots=True, eq=False)
class TwoLinks:
    """Two links that rotate, `A` with the thigh and `B` with the shank, and one with a given direction, `G` [m].

    The foot is at ``hip + A exp(i t_A) + B exp(i t_B) + G``, with the angles t relative to the zero configuration.
    """

    hip: complex  # in-plane position of the hip [m]
    A: complex  # rotating links as complex numbers [m]
    B: complex  # likewise
    G: Complex  # last link where its angle is given, () or (N,), else 0 [m]
    groups: tuple[int, ...]  # for each link of the leg, which of the three it belongs to: 0, 1 or 2
    # for each link, its angle relative to that of its group; for the last link with a given angle, the whole angle, ()
    # or (N,) [rad]
    offsets: tuple[Array, ...]
    signs: Array  # for each joint, as in `LegGeometry`

    @property
    def longest(self) -> float:
        """Length of the stretched leg [m]."""
        return abs(self.A) + abs(self.B)

    @property
    def shortest(self) -> float:
        """Length of the folded leg [m]."""
        return abs(abs(self.A) - abs(self.B))

    def select(self, rows: NDArray[np.bool_] | slice) -> TwoLinks:
        """Returns the links for some of the N targets."""
        if self.G.ndim == 0:
            return self
        offsets = tuple(x[rows] if x.ndim else x for x in self.offsets)
        return replace(self, G=self.G[rows], offsets=offsets)

    def solve(self, foot: Complex, bend: int) -> Array:
        """Computes the joint values for in-plane positions of the foot.

        Beyond its reach the leg is stretched, or folded if the foot is too near.  Law of cosines, with the sine in
        factored form (Kahan 2014), which is accurate at full stretch.

        Args:
            foot: (...) in-plane positions as complex numbers [m].
            bend: -1 for a knee forward, +1 for a knee backward.

        Returns:
            (..., m) [rad], not yet wrapped to the joints' ranges.
        """
        hip_to_foot = foot - self.hip - self.G
        a, b, r = abs(self.A), abs(self.B), np.abs(hip_to_foot)
        sine_product = (a + b - r) * (a + b + r) * (r - abs(a - b)) * (r + abs(a - b))
        delta = bend * np.arctan2(np.sqrt(np.maximum(sine_product, 0.0)), (r - a) * (r + a) - b * b)
        thigh = np.angle(hip_to_foot) - np.angle(a + b * np.exp(1j * delta))
        turns = (thigh - np.angle(self.A), thigh + delta - np.angle(self.B), np.zeros_like(thigh))
        q = np.empty((*hip_to_foot.shape, len(self.groups)))
        previous: Array = np.zeros(())
        for k, (group, offset) in enumerate(zip(self.groups, self.offsets, strict=True)):
            turn = turns[group] + offset
            q[..., k] = self.signs[k] * (turn - previous)
            previous = turn
        return q

    @property
    def joint_rates(self) -> Array:
        """(m, 2) joint rates for unit rates of the two angles t_A and t_B."""
        turns = np.array([[group == 0, group == 1] for group in self.groups], dtype=np.float64)
        return np.asarray(self.signs[:, None] * np.diff(turns, axis=0, prepend=0.0))

    def bend_sign(self, q: Array) -> int:
        """Returns -1 for a knee forward, +1 for one backward, 0 for a straight one, at joint values (m,)."""
        turn = np.cumsum(self.signs * q)
        delta = np.angle(self.B) - np.angle(self.A) + turn[1] - turn[0]
        return int(np.sign(np.round(np.sin(delta), 12)))


def reduce_links(geometry: LegGeometry, angle: Array | None, redundancy: str) -> TwoLinks:
    """Reduces a planar leg to two links.

    Args:
        geometry: the leg.
        angle: () or (N,) direction of the last of three or four links [rad], from forward to up; None to leave it free.
        redundancy: rule for free joints beyond the knee: "hold" for their home values, so that the shank and all links
            below it are one rigid link, or "parallel" to keep each link parallel to the one before the last, as in a
            pantograph.
    """
    links, m = geometry.links, len(geometry.links)
    first = geometry.n_active - m
    groups, offsets = [0, 1], [np.zeros(()), np.zeros(())]
    n_free = m if angle is None or m == 2 else m - 1
    for k in range(2, n_free):
        if redundancy == "hold":
            groups.append(1)
            offsets.append(offsets[-1] + geometry.signs[k] * geometry.q_ref[first + k])
        else:
            groups.append(groups[k - 2])
            offsets.append(offsets[k - 2] + np.angle(links[k - 2]) - np.angle(links[k]))
    if n_free < m:
        assert angle is not None
        groups.append(2)
        offsets.append(np.asarray(angle - np.angle(links[-1])))
    total: list[Complex] = [np.zeros((), dtype=np.complex128) for _ in range(3)]
    for link, group, offset in zip(links, groups, offsets, strict=True):
        total[group] = total[group] + link * np.exp(1j * offset)
    return TwoLinks(
        geometry.hip, complex(total[0]), complex(total[1]), total[2], tuple(groups), tuple(offsets), geometry.signs
    )


#: Number of points that are evaluated on each boundary circle before the best one is refined.
_N_CIRCLE_SAMPLES = 256
#: Number of targets that are computed at once.
_BATCH_SIZE = 512
#: Number of bisections of the interval around the best point, from 2 pi / 256 to the rounding error.
_N_BISECTIONS = 52
#: Distance up to which a target counts as being on the hip or its axis, as a fraction of the stretched leg.
HIP_TOLERANCE = 1e-12


def clamp_to_annulus(foot: Complex, leg: TwoLinks) -> Complex:
    """Returns the in-plane positions nearest to `foot` (N,) between the folded and the stretched leg [m]."""
    center = leg.hip + leg.G
    hip_to_foot = foot - center
    r = np.abs(hip_to_foot)
    is_off_hip = r > HIP_TOLERANCE * leg.longest
    direction = np.where(is_off_hip, hip_to_foot / np.where(is_off_hip, r, 1.0), -1j)  # at the hip itself: down
    return np.asarray(center + direction * np.clip(r, leg.shortest, leg.longest))


def nearest_in_turned_plane(geometry: LegGeometry, leg: TwoLinks, along: Array, away: Array, hip: float) -> Complex:
    """Computes the in-plane foot position whose rotated copy is nearest to a target, for a leg with an abduction joint.

    The workspace is a solid of revolution about the abduction axis, so that the nearest point is in the half-plane of
    the axis and the target, with the coordinates `along` the axis and `away` from it.  There the plane of the leg has
    the points ``(along, away)(x, s)`` with x forward and s up; the foot can be anywhere between two circles of that
    plane, below (s <= 0) or above.  The nearest point to an unreachable target is on one of the circles or on the line
    s = 0, where the plane meets its mirror image.

    Args:
        geometry: a leg with abduction.
        leg: its two links.
        along: (N,) coordinate of the targets along the abduction axis [m].
        away: (N,) distance of the targets from the abduction axis [m].
        hip: -1.0 for a foot below the abduction axis, in the plane that rotates with it, +1.0 for one above.

    Returns:
        (N,) in-plane positions [m].
    """
    if len(along) > _BATCH_SIZE:  # the samples of all targets at once would need much memory
        batches = [slice(i, i + _BATCH_SIZE) for i in range(0, len(along), _BATCH_SIZE)]
        return np.concatenate(
            [nearest_in_turned_plane(geometry, leg.select(b), along[b], away[b], hip) for b in batches]
        )
    plane = _TurnedPlane(geometry, along, away)
    center = np.broadcast_to(np.asarray(leg.hip + leg.G), along.shape)
    candidates = [plane.nearest_on_line(center, leg)]
    candidates += [plane.nearest_on_circle(center, radius, hip) for radius in {leg.longest, leg.shortest}]
    feet = np.stack([foot for foot, _ in candidates])
    costs = np.stack([cost for _, cost in candidates])
    return np.asarray(np.take_along_axis(feet, costs.argmin(axis=0)[None], axis=0)[0])


class _TurnedPlane:
    """Squared distances of in-plane positions ``x + i s`` from targets, for any abduction angle of the plane."""

    def __init__(self, geometry: LegGeometry, along: Array, away: Array) -> None:
        self.along, self.away = along, away
        self.ea, self.eb = float(geometry.e1 @ geometry.a), float(geometry.e1 @ geometry.b)
        self.a0 = geometry.lateral * float(geometry.n @ geometry.a)
        self.b0 = geometry.lateral * float(geometry.n @ geometry.b)

    def squared_distance(self, foot: Complex) -> Array:
        """Returns squared distances (N,) from the targets [m^2]."""
        u, v, _, _ = self._cylindrical_coordinates(foot)
        return np.asarray(u * u + v * v)

    def half_directional_derivative(self, foot: Complex, tangent: Complex) -> Array:
        """Returns half of the derivative of the squared distance along `tangent`."""
        u, v, b, away = self._cylindrical_coordinates(foot)
        dv = (b * self.eb * tangent.real + foot.imag * tangent.imag) / np.where(away > 0.0, away, 1.0)
        return np.asarray(u * self.ea * tangent.real + v * dv)

    def _cylindrical_coordinates(self, foot: Complex) -> tuple[Array, Array, Array, Array]:
        """Returns errors and coordinates of in-plane positions relative to the abduction axis, (N,) each [m].

        Returns:
            Coordinate along the axis minus the target's, distance from the axis minus the target's, coordinate along b
            (see `LegGeometry`), and distance from the axis.
        """
        b = self.b0 + self.eb * foot.real
        away = np.hypot(b, foot.imag)
        return self.a0 + self.ea * foot.real - self.along, away - self.away, b, away

    def nearest_on_line(self, center: Complex, leg: TwoLinks) -> tuple[Complex, Array]:
        """Returns the nearest positions on s = 0 between the circles, and squared distances, inf where none exist."""
        outer = np.sqrt(np.maximum(leg.longest**2 - center.imag**2, 0.0))
        inner = np.sqrt(np.maximum(leg.shortest**2 - center.imag**2, 0.0))
        # On the line both coordinates are linear in x, except for the sign of b: least-squares x for each sign.
        size = self.ea**2 + self.eb**2
        feet, costs = [], []
        for sign in (1.0, -1.0):
            x = (self.ea * (self.along - self.a0) + self.eb * (sign * self.away - self.b0)) / size
            for lower, upper in ((inner, outer), (-outer, -inner)):
                foot = np.asarray(center.real + np.clip(x - center.real, lower, upper) + 0j)
                feet.append(foot)
                costs.append(np.where(np.abs(center.imag) <= leg.longest, self.squared_distance(foot), np.inf))
        best = np.stack(costs).argmin(axis=0)[None]
        foot = np.take_along_axis(np.stack(feet), best, axis=0)[0]
        return foot, np.take_along_axis(np.stack(costs), best, axis=0)[0]

    def nearest_on_circle(self, center: Complex, radius: float, hip: float) -> tuple[Complex, Array]:
        """Returns the nearest positions on a circle with ``hip s >= 0``, and squared distances, inf for none."""

        def point_at(phi: Array) -> Complex:
            return np.asarray(center + radius * np.exp(1j * phi))

        def is_on_side(foot: Complex) -> NDArray[np.bool_]:
            return np.asarray(hip * foot.imag >= 0.0)

        step = 2.0 * np.pi / _N_CIRCLE_SAMPLES
        feet = point_at(np.asarray(step * np.arange(_N_CIRCLE_SAMPLES)[:, None], dtype=np.float64))
        costs = np.where(is_on_side(feet), self.squared_distance(feet), np.inf)
        best, cost = step * costs.argmin(axis=0), costs.min(axis=0)
        low, high = best - step, best + step
        for _ in range(_N_BISECTIONS):
            middle = 0.5 * (low + high)
            foot = point_at(middle)
            rising = self.half_directional_derivative(foot, 1j * (foot - center)) > 0.0
            low, high = np.where(rising, low, middle), np.where(rising, middle, high)
        refined = point_at(0.5 * (low + high))
        refined_cost = np.where(is_on_side(refined), self.squared_distance(refined), np.inf)
        foot = np.where(refined_cost <= cost, refined, point_at(best))
        return foot, np.minimum(cost, refined_cost)
