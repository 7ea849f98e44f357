"""The nearest point that a leg's foot can reach, joint limits aside: exact, on the boundary of its workspace."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..urdf.tree import Array
from .leg_geometry import LegGeometry
from .two_link import Complex, TwoLinks

#: Points tried on each boundary circle before the best is refined.
_N_CIRCLE_SAMPLES = 256
#: Targets treated at once.
_BATCH_SIZE = 512
#: Halvings of the bracket around the best: 2 pi / 256 down to below one unit in the last place.
_N_BISECTIONS = 52
#: Distance from the hip, or from its axis, up to which a target is there, as a fraction of the stretched leg: rounding.
HIP_TOLERANCE = 1e-12


def clamp_to_annulus(foot: Complex, leg: TwoLinks) -> Complex:
    """The in-plane position nearest to `foot` (N,) between the folded and the stretched leg [m]."""
    center = leg.hip + leg.G
    line = foot - center
    r = np.abs(line)
    away = r > HIP_TOLERANCE * leg.longest
    direction = np.where(away, line / np.where(away, r, 1.0), -1j)  # at the hip itself: down
    return np.asarray(center + direction * np.clip(r, leg.shortest, leg.longest))


def nearest_in_turned_plane(geometry: LegGeometry, leg: TwoLinks, along: Array, away: Array, hip: float) -> Complex:
    """The in-plane foot position whose turned copy comes nearest to a target, for a leg with an abduction joint.

    The workspace is a solid of revolution about the abduction axis, so that the nearest point lies beside the target,
    in the half-plane of the axis: coordinates `along` the axis and `away` from it.  There the plane of the leg appears
    as ``(along, away)(x, s)`` with x forward and s up; the foot may be anywhere between two circles of that plane,
    below (s <= 0) or above.  An unreachable target has its nearest point on one of the circles or on the line s = 0,
    where the plane touches its own mirror image.

    Args:
        geometry: the leg; abducts.
        leg: its two links.
        along: (N,) [m].
        away: (N,) [m], >= 0.
        hip: -1.0 for a foot below the abduction axis, seen in the plane that turns with it, +1.0 above.

    Returns:
        (N,) in-plane positions [m].
    """
    if len(along) > _BATCH_SIZE:  # the samples of all targets at once would need much memory
        parts = [slice(i, i + _BATCH_SIZE) for i in range(0, len(along), _BATCH_SIZE)]
        return np.concatenate([nearest_in_turned_plane(geometry, leg.select(x), along[x], away[x], hip) for x in parts])
    plane = _TurnedPlane(geometry, along, away)
    center = np.broadcast_to(np.asarray(leg.hip + leg.G), along.shape)
    candidates = [plane.nearest_on_line(center, leg)]
    candidates += [plane.nearest_on_circle(center, radius, hip) for radius in {leg.longest, leg.shortest}]
    feet = np.stack([foot for foot, _ in candidates])
    costs = np.stack([cost for _, cost in candidates])
    return np.asarray(np.take_along_axis(feet, costs.argmin(axis=0)[None], axis=0)[0])


class _TurnedPlane:
    """Squared distance of in-plane positions ``x + i s`` from targets, all turned about the abduction axis."""

    def __init__(self, geometry: LegGeometry, along: Array, away: Array) -> None:
        self.along, self.away = along, away
        self.ea, self.eb = float(geometry.e1 @ geometry.a), float(geometry.e1 @ geometry.b)
        self.a0 = geometry.lateral * float(geometry.n @ geometry.a)
        self.b0 = geometry.lateral * float(geometry.n @ geometry.b)

    def squared_distance(self, foot: Complex) -> Array:
        u, v, _, _ = self._parts(foot)
        return np.asarray(u * u + v * v)

    def half_directional_derivative(self, foot: Complex, tangent: Complex) -> Array:
        """Half the derivative of the cost along `tangent`."""
        u, v, b, away = self._parts(foot)
        dv = (b * self.eb * tangent.real + foot.imag * tangent.imag) / np.where(away > 0.0, away, 1.0)
        return np.asarray(u * self.ea * tangent.real + v * dv)

    def _parts(self, foot: Complex) -> tuple[Array, Array, Array, Array]:
        b = self.b0 + self.eb * foot.real
        away = np.hypot(b, foot.imag)
        return self.a0 + self.ea * foot.real - self.along, away - self.away, b, away

    def nearest_on_line(self, center: Complex, leg: TwoLinks) -> tuple[Complex, Array]:
        """The best position on s = 0 between the circles; an infinite cost where the line misses them."""
        half = np.sqrt(np.maximum(leg.longest**2 - center.imag**2, 0.0))
        gap = np.sqrt(np.maximum(leg.shortest**2 - center.imag**2, 0.0))
        # On the line both coordinates are linear in x, but for the sign of b: one least-squares x for each sign.
        size = self.ea**2 + self.eb**2
        feet, costs = [], []
        for sign in (1.0, -1.0):
            x = (self.ea * (self.along - self.a0) + self.eb * (sign * self.away - self.b0)) / size
            for lower, upper in ((gap, half), (-half, -gap)):
                foot = np.asarray(center.real + np.clip(x - center.real, lower, upper) + 0j)
                feet.append(foot)
                costs.append(np.where(np.abs(center.imag) <= leg.longest, self.squared_distance(foot), np.inf))
        best = np.stack(costs).argmin(axis=0)[None]
        foot = np.take_along_axis(np.stack(feet), best, axis=0)[0]
        return foot, np.take_along_axis(np.stack(costs), best, axis=0)[0]

    def nearest_on_circle(self, center: Complex, radius: float, hip: float) -> tuple[Complex, Array]:
        """The best position on a circle, on the side `hip` of s = 0; an infinite cost where none is there."""

        def at(phi: Array) -> Complex:
            return np.asarray(center + radius * np.exp(1j * phi))

        def allowed(foot: Complex) -> NDArray[np.bool_]:
            return np.asarray(hip * foot.imag >= 0.0)

        step = 2.0 * np.pi / _N_CIRCLE_SAMPLES
        feet = at(np.asarray(step * np.arange(_N_CIRCLE_SAMPLES)[:, None], dtype=np.float64))
        costs = np.where(allowed(feet), self.squared_distance(feet), np.inf)
        best, cost = step * costs.argmin(axis=0), costs.min(axis=0)
        low, high = best - step, best + step
        for _ in range(_N_BISECTIONS):
            middle = 0.5 * (low + high)
            foot = at(middle)
            rising = self.half_directional_derivative(foot, 1j * (foot - center)) > 0.0
            low, high = np.where(rising, low, middle), np.where(rising, middle, high)
        refined = at(0.5 * (low + high))
        refined_cost = np.where(allowed(refined), self.squared_distance(refined), np.inf)
        foot = np.where(refined_cost <= cost, refined, at(best))
        return foot, np.minimum(cost, refined_cost)
