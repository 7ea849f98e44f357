"""`GroundPlane`: plane through the last footholds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..urdf.tree import Array

#: Maximum slope of the plane (tangent): a larger one is due to a foothold on a step.
MAX_SLOPE = 0.7
#: Time constant of the slope in blind locomotion [sqrt(l/g)].
SLOPE_TIME = 2.0


class GroundPlane:
    """Least-squares plane through the last four footholds, with a filtered slope.

    A single high foothold contributes to the height at once (the mean of all four), and to the slope gradually.

    On a known terrain, a swing foot counts with a position between its last foothold and the next one
    (`next_footholds`), and height and slope follow smoothly: the trunk moves before the foot lands.

    Args:
        points: (4, 3) contact points of the feet, world [m].
        time: time constant of the slope [s].

    Attributes:
        points: (4, 3) last footholds, world [m].
        next_footholds: (3,) position that replaces the last foothold of a swing foot, by index, world [m].
        slope: (2,) slope along world x and y.
        lowering: lowering of the trunk relative to its height over a plane, on known terrain [m]; see
            `TrunkHeightLimiter`.
        climb_rate: rate of the height of the plane minus `lowering`, at the center of the feet [m/s].
        slope_rate: (2,) rate of change of `slope`, on known terrain [1/s].
    """

    __slots__ = (
        "_map_center",
        "_map_height",
        "_time",
        "climb_rate",
        "lowering",
        "next_footholds",
        "points",
        "slope",
        "slope_rate",
    )

    def __init__(self, points: Array, time: float) -> None:
        self.points = np.array(points)
        self._time = time
        self.next_footholds: dict[int, tuple[float, float, float]] = {}
        self._map_height: float | None = None  # filtered height at the center of the feet; None for the mean
        self._map_center, self.climb_rate, self.lowering, self.slope_rate = (0.0, 0.0), 0.0, 0.0, (0.0, 0.0)
        self.slope = self._fit_slope()

    @classmethod
    def from_feet(cls, feet: Array, radii: Array, time: float) -> GroundPlane:
        """Creates the plane under the foot spheres.

        Args:
            feet: (4, 3) centers of the spheres, world [m].
            radii: (4,) radii of the spheres [m].
            time: time constant of the slope [s].
        """
        plane = cls(feet, time)  # through the centers: parallel to the ground if the radii are equal
        plane.points -= radii[:, None] * plane.normal
        return plane

    def advance(self, dt: float, time: float | None = None) -> None:
        """Updates the slope by one tick, in blind locomotion.

        Args:
            dt: control period [s].
            time: time constant of the slope [s]; None for that of the constructor.
        """
        alpha = min(1.0, dt / (self._time if time is None else time))
        self.slope = self.slope + alpha * (self._fit_slope() - self.slope)
        self._map_height, self.climb_rate, self.lowering, self.slope_rate = None, 0.0, 0.0, (0.0, 0.0)

    def advance_on_map(
        self, dt: float, slope_time: float, level_time: float, rise_time: float, lowering: float
    ) -> None:
        """Updates height, slope and lowering by one tick, on a known terrain.

        Args:
            dt: control period [s].
            slope_time: time constant of the slope [s].
            level_time: time constant of the height, and of `lowering` as it grows [s].
            rise_time: time constant of `lowering` as it shrinks [s].
            lowering: target of the lowering [m].
        """
        points, (a, b) = self.list_support_points(), self.slope.tolist()
        mx, my, mz = _compute_mean_point(points)
        slope_error = self._fit_slope() - self.slope
        self.slope = self.slope + min(1.0, dt / slope_time) * slope_error
        self.slope_rate = float(slope_error[0]) / slope_time, float(slope_error[1]) / slope_time
        if self._map_height is None:
            self._map_height, self._map_center = mz, (mx, my)
        (x, y), self._map_center = self._map_center, (mx, my)
        height = self._map_height + a * (mx - x) + b * (my - y)
        height_error, lowering_error = mz - height, lowering - self.lowering
        lowering_time = level_time if lowering_error > 0.0 else rise_time
        self.climb_rate = height_error / level_time - lowering_error / lowering_time
        self._map_height, self.lowering = (
            height + min(1.0, dt / level_time) * height_error,
            self.lowering + min(1.0, dt / lowering_time) * lowering_error,
        )

    @property
    def follows_map(self) -> bool:
        """Whether the plane follows a known terrain instead of past footholds."""
        return self._map_height is not None

    def height(self, x: float, y: float) -> float:
        """Computes the height of the plane at the point (x, y) [m]."""
        mx, my, mz = _compute_mean_point(self.list_support_points())
        slope_x, slope_y = self.slope.tolist()
        mz = mz if self._map_height is None else self._map_height
        return float(mz + slope_x * (x - mx) + slope_y * (y - my))

    @property
    def normal(self) -> Array:
        """(3,) unit normal, upward, world."""
        a, b = self.slope.tolist()
        n = 1.0 / math.sqrt(1.0 + a * a + b * b)
        return np.array([-a * n, -b * n, n])

    def axes(self, yaw: float) -> Array:
        """Computes the `heading_axes` (3, 3) on this plane for a yaw angle [rad]."""
        a, b = self.slope.tolist()
        return heading_axes(yaw, a, b)

    def compute_projection(self, yaw: float) -> Array:
        """Computes the matrix (2, 2) that projects lengths along the ground, forward and left, onto the horizontal.

        Args:
            yaw: yaw angle of the forward direction [rad].
        """
        c, s = math.cos(yaw), math.sin(yaw)
        a, b = self.slope.tolist()
        rise, side = a * c + b * s, b * c - a * s
        f = 1.0 / math.sqrt(1.0 + rise * rise)
        n = 1.0 / math.sqrt(1.0 + a * a + b * b)
        return np.array([[f, -rise * side * f * n], [0.0, n / f]])

    def list_support_points(self) -> list[Any]:
        """Returns x, y and z of the last foothold of each foot, or of its replacement in `next_footholds` [m]."""
        points: list[Any] = self.points.tolist()
        for i, point in self.next_footholds.items():
            points[i] = point
        return points

    def _fit_slope(self) -> Array:
        """Fits the slope (2,) of the plane by least squares, limited to `MAX_SLOPE`."""
        points = self.list_support_points()
        mx, my, mz = _compute_mean_point(points)
        xx = xy = xz = yy = yz = 0.0
        for x, y, z in points:  # plain floats are faster than small arrays
            x, y, z = x - mx, y - my, z - mz
            xx, xy, xz, yy, yz = xx + x * x, xy + x * y, xz + x * z, yy + y * y, yz + y * z
        determinant = xx * yy - xy * xy
        if not determinant > 1e-3 * (xx + yy) ** 2:  # feet in a line span no plane
            return np.zeros(2)
        a, b = (yy * xz - xy * yz) / determinant, (xx * yz - xy * xz) / determinant
        slope_size = math.hypot(a, b)
        return np.array([a, b]) * min(1.0, MAX_SLOPE / max(slope_size, 1e-12))


def heading_axes(yaw: float, slope_x: float = 0.0, slope_y: float = 0.0) -> Array:
    """Computes the axes in which velocities along the ground are given: columns forward, left and normal, world.

    Args:
        yaw: yaw angle of the forward direction [rad].
        slope_x: slope of the ground along world x, dimensionless.
        slope_y: slope of the ground along world y, dimensionless.

    Returns:
        (3, 3) rotation; forward and left lie in the ground plane.
    """
    c, s = math.cos(yaw), math.sin(yaw)
    a, b = slope_x, slope_y
    rise, side = a * c + b * s, b * c - a * s  # forward and leftward
    f = 1.0 / math.sqrt(1.0 + rise * rise)
    n = 1.0 / math.sqrt(1.0 + a * a + b * b)
    x, y = -rise * side * f * n, n / f  # components of the leftward axis along horizontal forward and left
    return np.array(
        [
            [c * f, x * c - y * s, -a * n],
            [s * f, x * s + y * c, -b * n],
            [rise * f, side * n * f, n],
        ]
    )


def _compute_mean_point(points: list[Any]) -> tuple[float, float, float]:
    """Returns the mean (x, y, z) of four points."""
    (ax, ay, az), (bx, by, bz), (cx, cy, cz), (dx, dy, dz) = points
    return 0.25 * (ax + bx + cx + dx), 0.25 * (ay + by + cy + dy), 0.25 * (az + bz + cz + dz)
