"""`GroundPlane`: a plane fitted to the last footholds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..urdf.tree import Array

#: Steepest slope that is believed (its tangent): beyond, a foothold stands on a step.
MAX_SLOPE = 0.7
#: Time constant of the slope of ground that is only felt [sqrt(l/g)].
SLOPE_TIME = 2.0


class GroundPlane:
    """The plane of least squares through the four last footholds, its slope smoothed.

    A single high foothold is taken as it is for the height (the mean of all four), and tilts the plane little by
    little.

    Args:
        points: (4, 3) where the feet touch the ground, world [m].
        time: time constant of the slope [s].

    Where the ground is known, a foot in the air counts with a place between its last foothold and the coming one
    (`next_footholds`), and height and slope follow smoothly: the trunk is on its way before the foot is there.

    Attributes:
        points: (4, 3) last footholds, world [m].
        next_footholds: (3,) by number of the foot, instead of its last foothold, world [m].
        slope: (2,) rise of the ground along world x and y.
        lowering: how much lower than over a plane the trunk is to be, where the ground is known [m]; see `Stretch`.
        climb_rate: how fast the plane less `lowering` rises in the middle of the feet there [m/s].
        slope_rate: (2,) how fast `slope` changes there [1/s].
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
        self._map_height: float | None = None  # of the middle of the feet, where it is not just the mean of theirs
        self._map_center, self.climb_rate, self.lowering, self.slope_rate = (0.0, 0.0), 0.0, 0.0, (0.0, 0.0)
        self.slope = self._fit_slope()

    @classmethod
    def from_feet(cls, feet: Array, radii: Array, time: float) -> GroundPlane:
        """The plane that spheres stand on.

        Args:
            feet: (4, 3) centres of the spheres, world [m].
            radii: (4,) of them [m].
            time: time constant of the slope [s].
        """
        plane = cls(feet, time)  # of the centres: parallel, where the radii are alike
        plane.points -= radii[:, None] * plane.normal
        return plane

    def advance(self, dt: float, time: float | None = None) -> None:
        """Let `dt` pass [s], with another time constant of the slope [s] if there is one."""
        share = min(1.0, dt / (self._time if time is None else time))
        self.slope = self.slope + share * (self._fit_slope() - self.slope)
        self._map_height, self.climb_rate, self.lowering, self.slope_rate = None, 0.0, 0.0, (0.0, 0.0)

    def advance_on_map(
        self, dt: float, slope_time: float, level_time: float, rise_time: float, lowering: float
    ) -> None:
        """Let `dt` pass on ground that is known.

        Args:
            dt: [s].
            slope_time: time constant of the slope [s].
            level_time: that of the height, and of `dip` as it grows [s].
            rise_time: that of `dip` as it shrinks [s].
            lowering: what `dip` goes to [m].
        """
        places, (a, b) = self.list_support_points(), self.slope.tolist()
        mx, my, mz = _mean_point(places)
        turn = self._fit_slope() - self.slope
        self.slope = self.slope + min(1.0, dt / slope_time) * turn
        self.slope_rate = float(turn[0]) / slope_time, float(turn[1]) / slope_time
        if self._map_height is None:
            self._map_height, self._map_center = mz, (mx, my)
        (x, y), self._map_center = self._map_center, (mx, my)
        level = self._map_height + a * (mx - x) + b * (my - y)
        up, down = mz - level, lowering - self.lowering
        lowering = level_time if down > 0.0 else rise_time
        self.climb_rate = up / level_time - down / lowering
        self._map_height, self.lowering = (
            level + min(1.0, dt / level_time) * up,
            self.lowering + min(1.0, dt / lowering) * down,
        )

    @property
    def follows_map(self) -> bool:
        """Whether it follows ground that is known, instead of what feet have met."""
        return self._map_height is not None

    def height(self, x: float, y: float) -> float:
        """Of the plane at a point (x, y) [m]."""
        mx, my, mz = _mean_point(self.list_support_points())
        slope_x, slope_y = self.slope.tolist()
        mz = mz if self._map_height is None else self._map_height
        return float(mz + slope_x * (x - mx) + slope_y * (y - my))

    @property
    def normal(self) -> Array:
        """(3,) unit, upwards."""
        a, b = self.slope.tolist()
        n = 1.0 / math.sqrt(1.0 + a * a + b * b)
        return np.array([-a * n, -b * n, n])

    def axes(self, yaw: float) -> Array:
        """(3, 3) `heading_axes` on this plane."""
        a, b = self.slope.tolist()
        return heading_axes(yaw, a, b)

    def compute_projection(self, yaw: float) -> Array:
        """(2, 2) from lengths along the ground, forward and left, to those seen from above.

        Args:
            yaw: of forward [rad].
        """
        c, s = math.cos(yaw), math.sin(yaw)
        a, b = self.slope.tolist()
        rise, side = a * c + b * s, b * c - a * s
        f = 1.0 / math.sqrt(1.0 + rise * rise)
        n = 1.0 / math.sqrt(1.0 + a * a + b * b)
        return np.array([[f, -rise * side * f * n], [0.0, n / f]])

    def list_support_points(self) -> list[Any]:
        """Of each foot, x, y and z of its last foothold, or of what stands for the coming one [m]."""
        points: list[Any] = self.points.tolist()
        for i, place in self.next_footholds.items():
            points[i] = place
        return points

    def _fit_slope(self) -> Array:
        points = self.list_support_points()
        mx, my, mz = _mean_point(points)
        xx = xy = xz = yy = yz = 0.0
        for x, y, z in points:  # plain numbers: quicker than arrays of so few
            x, y, z = x - mx, y - my, z - mz
            xx, xy, xz, yy, yz = xx + x * x, xy + x * y, xz + x * z, yy + y * y, yz + y * z
        determinant = xx * yy - xy * xy
        if not determinant > 1e-3 * (xx + yy) ** 2:  # feet in a line span no plane
            return np.zeros(2)
        a, b = (yy * xz - xy * yz) / determinant, (xx * yz - xy * xz) / determinant
        steep = math.hypot(a, b)
        return np.array([a, b]) * min(1.0, MAX_SLOPE / max(steep, 1e-12))


def heading_axes(yaw: float, slope_x: float = 0.0, slope_y: float = 0.0) -> Array:
    """Axes in which velocities along the ground are commanded and measured: columns forward, left and normal, world.

    Args:
        yaw: where forward points, seen from above [rad].
        slope_x: rise of the ground along world x.
        slope_y: rise of the ground along world y.

    Returns:
        (3, 3) rotation; forward and left lie in the ground.
    """
    c, s = math.cos(yaw), math.sin(yaw)
    a, b = slope_x, slope_y
    rise, side = a * c + b * s, b * c - a * s  # forward and leftward
    f = 1.0 / math.sqrt(1.0 + rise * rise)
    n = 1.0 / math.sqrt(1.0 + a * a + b * b)
    x, y = -rise * side * f * n, n / f  # of the leftward axis, along forward and left of the level
    return np.array(
        [
            [c * f, x * c - y * s, -a * n],
            [s * f, x * s + y * c, -b * n],
            [rise * f, side * n * f, n],
        ]
    )


def _mean_point(points: list[Any]) -> tuple[float, float, float]:
    (ax, ay, az), (bx, by, bz), (cx, cy, cz), (dx, dy, dz) = points
    return 0.25 * (ax + bx + cx + dx), 0.25 * (ay + by + cy + dy), 0.25 * (az + bz + cz + dz)
