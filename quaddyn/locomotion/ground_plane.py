"""`GroundPlane`: plane through the last footholds."""

from __future__ import annotations

import math

import numpy as np

from ..urdf.tree import Array
from .ground_state import (
    advance_on_map,
    advance_slope,
    allocate_ground_state,
    compute_plane_height,
    set_slope,
    write_heading_axes,
    write_projection,
)
from .state_fields import StateField

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
            `compute_required_lowering`.
        climb_rate: rate of the height of the plane minus `lowering`, at the center of the feet [m/s].
        slope_rate: (2,) rate of change of `slope`, on known terrain [1/s].
    """

    __slots__ = ("_time", "state")

    points = StateField[Array]()
    climb_rate = StateField[float]()
    lowering = StateField[float]()
    follows_map = StateField[bool]()

    def __init__(self, points: Array, time: float) -> None:
        self._time, self.state = time, allocate_ground_state()
        self.points = points
        set_slope(self.state)

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
        advance_slope(self.state, min(1.0, dt / (self._time if time is None else time)))

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
        advance_on_map(self.state, float(dt), float(slope_time), float(level_time), float(rise_time), float(lowering))

    @property
    def slope(self) -> Array:
        """(2,) slope along world x and y."""
        return self.state.slope.copy()

    @property
    def slope_rate(self) -> tuple[float, float]:
        """(2,) rate of change of `slope`, on known terrain [1/s]."""
        x, y = self.state.slope_rate.tolist()
        return x, y

    @property
    def next_footholds(self) -> dict[int, tuple[float, float, float]]:
        """(3,) position that replaces the last foothold of a swing foot, by index, world [m]."""
        state = self.state
        return {i: tuple(state.next_footholds[i].tolist()) for i in range(4) if state.has_next_foothold[i]}

    def set_next_foothold(self, foot: int, x: float, y: float, z: float) -> None:
        """Sets the position that replaces the last foothold of a foot, until `clear_next_foothold`.

        Args:
            foot: index of the foot.
            x: world x [m].
            y: world y [m].
            z: world z [m].
        """
        self.state.next_footholds[foot] = x, y, z
        self.state.has_next_foothold[foot] = 1

    def clear_next_foothold(self, foot: int) -> None:
        """Makes the last foothold of a foot count again."""
        self.state.has_next_foothold[foot] = 0

    def height(self, x: float, y: float) -> float:
        """Computes the height of the plane at the point (x, y) [m]."""
        return float(compute_plane_height(self.state, float(x), float(y)))

    @property
    def normal(self) -> Array:
        """(3,) unit normal, upward, world."""
        a, b = self.state.slope.tolist()
        n = 1.0 / math.sqrt(1.0 + a * a + b * b)
        return np.array([-a * n, -b * n, n])

    def axes(self, yaw: float) -> Array:
        """Computes the `heading_axes` (3, 3) on this plane for a yaw angle [rad]."""
        a, b = self.state.slope.tolist()
        return heading_axes(yaw, a, b)

    def compute_projection(self, yaw: float) -> Array:
        """Computes the matrix (2, 2) that projects lengths along the ground, forward and left, onto the horizontal.

        Args:
            yaw: yaw angle of the forward direction [rad].
        """
        projection = np.zeros((2, 2))
        write_projection(self.state, float(yaw), projection)
        return projection


def heading_axes(yaw: float, slope_x: float = 0.0, slope_y: float = 0.0) -> Array:
    """Computes the axes in which velocities along the ground are given: columns forward, left and normal, world.

    Args:
        yaw: yaw angle of the forward direction [rad].
        slope_x: slope of the ground along world x, dimensionless.
        slope_y: slope of the ground along world y, dimensionless.

    Returns:
        (3, 3) rotation; forward and left lie in the ground plane.
    """
    axes = np.empty((3, 3))
    write_heading_axes(float(yaw), float(slope_x), float(slope_y), axes)
    return axes
