"""The point of a leg's workspace nearest to an unreachable target, exact and without joint limits."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..urdf.tree import Array
from .leg_geometry import LegGeometry
from .two_link import Complex, TwoLinks

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
