"""`GroundPlane`: a plane fitted to the last footholds."""

from __future__ import annotations

import math

import numpy as np

from ..urdf.tree import Array

#: Steepest slope that is believed (its tangent): beyond, a foothold stands on a step.
STEEPEST = 0.4


class GroundPlane:
    """The plane of least squares through the four last footholds, its slope smoothed.

    A single high foothold is taken as it is for the height (the mean of all four), and tilts the plane little by
    little.

    Args:
        points: (4, 3) where the feet touch the ground, world [m].
        time: time constant of the slope [s].

    Attributes:
        points: (4, 3) last footholds, world [m].
        slope: (2,) rise of the ground along world x and y.
    """

    __slots__ = ("_time", "points", "slope")

    def __init__(self, points: Array, time: float) -> None:
        self.points = np.array(points)
        self._time = time
        self.slope = self._fit()

    def advance(self, dt: float) -> None:
        """Let `dt` pass [s]."""
        share = min(1.0, dt / self._time)
        self.slope = self.slope + share * (self._fit() - self.slope)

    def height(self, x: float, y: float) -> float:
        """Of the plane at a point (x, y) [m]."""
        (ax, ay, az), (bx, by, bz), (cx, cy, cz), (dx, dy, dz) = self.points.tolist()
        mx, my, mz = 0.25 * (ax + bx + cx + dx), 0.25 * (ay + by + cy + dy), 0.25 * (az + bz + cz + dz)
        slope_x, slope_y = self.slope.tolist()
        return float(mz + slope_x * (x - mx) + slope_y * (y - my))

    @property
    def tilt(self) -> Array:
        """(3, 3) shortest rotation that turns the vertical into the plane's normal."""
        a, b = -float(self.slope[0]), -float(self.slope[1])
        n = 1.0 / math.sqrt(1.0 + a * a + b * b)
        x, y, z = a * n, b * n, n
        k = 1.0 / (1.0 + z)  # Rodrigues' formula for the axis (-y, x, 0)
        return np.array([[1.0 - k * x * x, -k * x * y, x], [-k * x * y, 1.0 - k * y * y, y], [-x, -y, z]])

    def _fit(self) -> Array:
        d = self.points - 0.25 * np.add.reduce(self.points)
        (xx, xy, xz), (_, yy, yz), _ = (d.T @ d).tolist()
        determinant = xx * yy - xy * xy
        if not determinant > 1e-3 * (xx + yy) ** 2:  # feet in a line span no plane
            return np.zeros(2)
        a, b = (yy * xz - xy * yz) / determinant, (xx * yz - xy * xz) / determinant
        steep = math.hypot(a, b)
        return np.array([a, b]) * min(1.0, STEEPEST / max(steep, 1e-12))
