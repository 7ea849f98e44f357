"""`GroundPlane`: plane through the last footholds."""

from __future__ import annotations

import math

import numpy as np

from ..compiler import IntVector, Mat3, Matrix, Record, Vec3, Vector, compiled, entry, mat3, vec3
from ..urdf.tree import Array
from .state_fields import StateField

#: Maximum slope of the plane (tangent): a larger one is due to a foothold on a step.
MAX_SLOPE = 0.7
#: Determinant of the second moments of the feet, relative to their squared trace, below which they span no plane.
MIN_DETERMINANT = 1e-3


class GroundState(Record):
    """Plane through the last footholds; see `GroundPlane`."""

    points: Matrix  # (4, 3) last footholds, world [m]
    next_footholds: Matrix  # (4, 3) positions that replace the last footholds of swing feet, world [m]
    has_next_foothold: IntVector  # (4,)
    slope: Vector  # (2,) along world x and y
    slope_rate: Vector  # (2,) [1/s]
    climb_rate: float  # of the height of the plane minus `lowering`, at the center of the feet [m/s]
    lowering: float  # of the trunk relative to its height over the plane, on known terrain [m]
    follows_map: bool  # whether height and slope follow a known terrain
    map_height: float  # filtered height at `map_center` [m]
    map_center: Vector  # (2,) center of the feet, world [m]


@compiled()
def support_point(ground: GroundState, foot: int) -> Vec3:
    """Returns the last foothold of a foot, or the position that replaces it, world [m]."""
    if ground.has_next_foothold[foot] != 0:
        return vec3(ground.next_footholds[foot])
    return vec3(ground.points[foot])


@compiled()
def mean_support_point(ground: GroundState) -> Vec3:
    """Returns the mean of the four support points, world [m]."""
    front = support_point(ground, 0) + support_point(ground, 1)
    return (front + support_point(ground, 2) + support_point(ground, 3)) * 0.25


@compiled(inline=False)
def fit_slope(ground: GroundState) -> tuple[float, float]:
    """Returns the slope of the plane through the support points by least squares, limited to `MAX_SLOPE`."""
    mean = mean_support_point(ground)
    xx, xy, xz, yy, yz = 0.0, 0.0, 0.0, 0.0, 0.0
    for foot in range(4):
        p = support_point(ground, foot) - mean
        xx += p[0] * p[0]
        xy += p[0] * p[1]
        xz += p[0] * p[2]
        yy += p[1] * p[1]
        yz += p[1] * p[2]
    determinant = xx * yy - xy * xy
    if not determinant > MIN_DETERMINANT * (xx + yy) * (xx + yy):  # feet in a line span no plane
        return 0.0, 0.0
    a, b = (yy * xz - xy * yz) / determinant, (xx * yz - xy * xz) / determinant
    scale = min(1.0, MAX_SLOPE / max(math.sqrt(a * a + b * b), 1e-12))
    return a * scale, b * scale


@entry("plane of the feet")
def plane_height(ground: GroundState, x: float, y: float) -> float:
    """Returns the height of the plane at (x, y), world [m]."""
    mean = mean_support_point(ground)
    z = ground.map_height if ground.follows_map else mean[2]
    return float(z + ground.slope[0] * (x - mean[0]) + ground.slope[1] * (y - mean[1]))


@compiled()
def plane_normal(ground: GroundState) -> Vec3:
    """Returns the upward unit normal of the plane, world."""
    a, b = ground.slope[0], ground.slope[1]
    return vec3(-a, -b, 1.0) / math.sqrt(1.0 + a * a + b * b)


@compiled(inline=False)
def compute_heading_axes(yaw: float, slope_x: float, slope_y: float) -> Mat3:
    """Returns the heading axes on a slope: columns forward, left and normal, world; see `heading_axes`."""
    c, s, a, b = math.cos(yaw), math.sin(yaw), slope_x, slope_y
    rise, side = a * c + b * s, b * c - a * s  # forward and leftward
    f = 1.0 / math.sqrt(1.0 + rise * rise)
    n = 1.0 / math.sqrt(1.0 + a * a + b * b)
    x, y = -rise * side * f * n, n / f  # components of the leftward axis along horizontal forward and left
    return mat3(
        c * f, x * c - y * s, -a * n,
        s * f, x * s + y * c, -b * n,
        rise * f, side * n * f, n,
    )  # fmt: skip


@compiled()
def compute_horizontal_projection(ground: GroundState, yaw: float) -> tuple[float, float, float]:
    """Returns the factors with which lengths along the ground project onto the horizontal.

    Returns:
        Forward component of a forward unit length, and forward and leftward component of a leftward one.
    """
    c, s, a, b = math.cos(yaw), math.sin(yaw), ground.slope[0], ground.slope[1]
    rise, side = a * c + b * s, b * c - a * s
    f = 1.0 / math.sqrt(1.0 + rise * rise)
    n = 1.0 / math.sqrt(1.0 + a * a + b * b)
    return f, -rise * side * f * n, n / f


# -- entries ---------------------------------------------------------------------------------------------------------
@entry("plane of the feet")
def set_slope(ground: GroundState) -> None:
    """Sets the slope to the slope of the plane through the support points."""
    ground.slope[0], ground.slope[1] = fit_slope(ground)


@entry("plane of the feet")
def advance_slope(ground: GroundState, fraction: float) -> None:
    """Moves the slope by a fraction toward the slope of the support points, in blind locomotion."""
    a, b = fit_slope(ground)
    ground.slope[0] += fraction * (a - ground.slope[0])
    ground.slope[1] += fraction * (b - ground.slope[1])
    ground.slope_rate[0], ground.slope_rate[1] = 0.0, 0.0
    ground.climb_rate = 0.0
    ground.lowering = 0.0
    ground.follows_map = False


@entry("plane of the feet")
def advance_on_map(
    ground: GroundState, dt: float, slope_time: float, level_time: float, rise_time: float, lowering: float
) -> None:
    """Updates height, slope and lowering by one tick, on a known terrain.

    Args:
        ground: the plane; updated.
        dt: control period [s].
        slope_time: time constant of the slope [s].
        level_time: time constant of the height, and of the lowering as it grows [s].
        rise_time: time constant of the lowering as it shrinks [s].
        lowering: target of the lowering of the trunk [m], see `compute_required_lowering`.
    """
    mean = mean_support_point(ground)
    a, b = ground.slope[0], ground.slope[1]
    fitted_a, fitted_b = fit_slope(ground)
    fraction = min(1.0, dt / slope_time)
    ground.slope[0] += fraction * (fitted_a - a)
    ground.slope[1] += fraction * (fitted_b - b)
    ground.slope_rate[0], ground.slope_rate[1] = (fitted_a - a) / slope_time, (fitted_b - b) / slope_time
    if not ground.follows_map:
        ground.follows_map = True
        ground.map_height = mean[2]
        ground.map_center[0], ground.map_center[1] = mean[0], mean[1]
    height = ground.map_height + a * (mean[0] - ground.map_center[0]) + b * (mean[1] - ground.map_center[1])
    ground.map_center[0], ground.map_center[1] = mean[0], mean[1]
    height_error, lowering_error = mean[2] - height, lowering - ground.lowering
    lowering_time = level_time if lowering_error > 0.0 else rise_time
    ground.climb_rate = height_error / level_time - lowering_error / lowering_time
    ground.map_height = height + min(1.0, dt / level_time) * height_error
    ground.lowering += min(1.0, dt / lowering_time) * lowering_error


@entry("plane of the feet")
def write_heading_axes(yaw: float, slope_x: float, slope_y: float, axes: Matrix) -> None:
    """Writes the heading axes (3, 3) on a slope."""
    axes[:] = compute_heading_axes(yaw, slope_x, slope_y)


@entry("plane of the feet")
def write_projection(ground: GroundState, yaw: float, projection: Matrix) -> None:
    """Writes the matrix (2, 2) that projects lengths along the ground, forward and left, onto the horizontal."""
    projection[0, 0], projection[0, 1], projection[1, 1] = compute_horizontal_projection(ground, yaw)
    projection[1, 0] = 0.0


@entry("normals of the ground")
def write_ground_normals(ground: GroundState, normals: Matrix) -> None:
    """Writes the unit normal of the plane for each foot, (4, 3), world."""
    normal = plane_normal(ground)
    for foot in range(4):
        normals[foot] = normal


def allocate_ground_state() -> GroundState:
    """Returns a plane without footholds."""
    return GroundState.allocate(
        points=(4, 3), next_footholds=(4, 3), has_next_foothold=4, slope=2, slope_rate=2, map_center=2
    )


class GroundPlane:
    """Least-squares plane through the last four footholds, with a filtered slope.

    A single high foothold contributes to the height at once (the mean of all four), and to the slope gradually.

    On a known terrain, a swing foot counts with a position between its last foothold and the next one
    (`next_footholds`), and height and slope follow smoothly: the trunk moves before the foot lands.

    Args:
        points: (4, 3) contact points of the feet, world [m].

    Attributes:
        points: (4, 3) last footholds, world [m].
        next_footholds: (3,) position that replaces the last foothold of a swing foot, by index, world [m].
        slope: (2,) slope along world x and y.
    """

    __slots__ = ("state",)

    points = StateField[Array]()

    def __init__(self, points: Array) -> None:
        self.state = allocate_ground_state()
        self.points = points
        set_slope(self.state)

    @property
    def slope(self) -> Array:
        """(2,) slope along world x and y."""
        return self.state.slope.copy()

    @property
    def next_footholds(self) -> dict[int, tuple[float, float, float]]:
        """(3,) position that replaces the last foothold of a swing foot, by index, world [m]."""
        state = self.state
        return {i: tuple(state.next_footholds[i].tolist()) for i in range(4) if state.has_next_foothold[i]}

    def set_next_foothold(self, foot: int, x: float, y: float, z: float) -> None:
        """Sets the position that replaces the last foothold of a foot until its touchdown.

        Args:
            foot: index of the foot.
            x: world x [m].
            y: world y [m].
            z: world z [m].
        """
        self.state.next_footholds[foot] = x, y, z
        self.state.has_next_foothold[foot] = 1

    def height(self, x: float, y: float) -> float:
        """Computes the height of the plane at the point (x, y) [m]."""
        return float(plane_height(self.state, float(x), float(y)))

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
