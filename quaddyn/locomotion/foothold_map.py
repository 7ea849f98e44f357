"""`FootholdMap`: choice of footholds on known terrain, and clearance of the swings over it."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from ..errors import ArgumentError, ArgumentTypeError
from ..urdf.tree import Array
from .morphology import Morphology
from .swing import APEX_PHASE, EVEN_TERRAIN_TOLERANCE, OVER_FIRST_TIMINGS, UNIFORM_TIMING, UP_FIRST_TIMINGS, SwingTiming
from .terrain_window import (
    SEARCH_RADIUS,
    SLOPE_SCALE,
    TerrainWindow,
    WindowReader,
    compute_required_lift,
    fit_plane_under_foot,
)

# Lengths in units of l, times in sqrt(l / g).
#: Distance and time after which the terrain is read again, duration of the reading, and distance above which it is read
#: at once.
REREAD_DISTANCE, REREAD_INTERVAL, READING_TIME, IMMEDIATE_READ_DISTANCE = 0.2, 3.0, 0.25, 0.8
#: Cost below which the nominal foothold is taken.
ACCEPTABLE_COST = 0.3
#: Clearance of the path of a foot sphere over the terrain, since fast feet lag behind their paths, and maximum
#: clearance.
TERRAIN_CLEARANCE, MAX_CLEARANCE = 0.08, 0.35
#: Fractions of the swing at which its path is compared with the terrain; near its ends the foot is at its footholds.
SWING_SAMPLES = np.linspace(0.15, 0.85, 15)
#: Lateral deviation of the foot from its path at `SWING_SAMPLES`: on its way up, where edges stop it, and down.
PATH_DEVIATION = np.where(SWING_SAMPLES < APEX_PHASE, 0.09, 0.03)


def _interpolate_minimum_jerk(fraction: Array) -> Array:
    """Returns the minimum-jerk interpolation from 0 to 1 at fractions of the time."""
    return np.asarray(fraction**3 * (10.0 - 15.0 * fraction + 6.0 * fraction**2))


@functools.lru_cache(maxsize=64)
def _compute_path_fractions(timing: SwingTiming) -> Array:
    """Computes the fractions (samples, 3) of the motion along x, y and z at `SWING_SAMPLES`; see `SwingTrajectory`."""
    return np.column_stack(
        [
            _interpolate_minimum_jerk(np.clip((SWING_SAMPLES - begin) / (end - begin), 0.0, 1.0))
            for begin, end in ((timing.horizontal_start, timing.horizontal_end),) * 2
            + ((timing.vertical_start, timing.vertical_end),)
        ]
    )


#: Fraction of the lift at `SWING_SAMPLES`; see `SwingTrajectory`.
LIFT_FRACTIONS = np.where(
    SWING_SAMPLES < APEX_PHASE,
    _interpolate_minimum_jerk(SWING_SAMPLES / APEX_PHASE),
    1.0 - _interpolate_minimum_jerk(np.clip((SWING_SAMPLES - APEX_PHASE) / (1.0 - APEX_PHASE), 0.0, 1.0)),
)


class HasHeight(Protocol):
    """Terrain with heights, such as `quaddyn.estimation.ElevationMap` and `quaddyn.simulation.Terrain`."""

    def height(self, x: Any, y: Any) -> Array:
        """Returns the heights of the ground at points (x, y) [m]; NaN where unknown."""
        ...


#: Heights of the ground [m] at arrays x and y [m], NaN where unknown: a function, or an object with a method `height`.
Heights = Callable[[Array, Array], Any] | HasHeight


class FootholdMap:
    """Foothold costs in a terrain window around the robot.

    To the heights of a patch around every cell of a grid a plane is fitted (least squares); its slope and the largest
    deviation of the ground from it, as at edges and on rubble, make the cost of a foothold there, to which the distance
    from the nominal foothold is added (Fankhauser et al. 2018, "Robust rough-terrain locomotion with a quadrupedal
    robot"; Jenelten et al. 2020, "Perceptive locomotion in rough terrain").  For unknown ground the methods return
    None, and the foot continues blind.

    Args:
        terrain: terrain heights.
        morphology: lengths and units of the robot.

    Attributes:
        window: last complete terrain window.

    Raises:
        ArgumentTypeError: `terrain` is neither a function nor an object with a method `height`.
    """

    __slots__ = ("_age", "_height_function", "_morphology", "_read_position", "_reader", "_slope", "window")

    def __init__(self, terrain: Heights, morphology: Morphology) -> None:
        height_function = terrain if callable(terrain) else getattr(terrain, "height", None)
        if not callable(height_function):
            raise ArgumentTypeError(
                "terrain: expected a function of x and y, or an object with a method height(x, y) such as "
                f"`plant.terrain`, got {type(terrain).__name__}"
            )
        self._height_function: Callable[[Array, Array], Any] = height_function
        self._morphology = morphology
        self._read_position: tuple[float, float] | None = None
        self._reader: WindowReader | None = None
        self._age = 0.0
        self.window = TerrainWindow.empty(0.0, 0.0, morphology.length)
        self._slope = np.zeros(2)

    def advance(self, x: float, y: float, dt: float) -> None:
        """Updates the window for a robot at (x, y) [m] after `dt` [s], if it has moved or some time has passed.

        Raises:
            ArgumentError: the terrain returns heights of a wrong shape.
        """
        p, distance = self._morphology, math.inf
        if self._read_position is not None:
            distance = math.hypot(x - self._read_position[0], y - self._read_position[1])
        read_at_once = distance > IMMEDIATE_READ_DISTANCE * p.length
        self._age += dt
        if read_at_once or (
            self._reader is None
            and (self._age >= REREAD_INTERVAL * p.time_scale or distance >= REREAD_DISTANCE * p.length)
        ):
            self._reader = WindowReader(
                self.heights, x, y, p.length, 0.0 if read_at_once else READING_TIME * p.time_scale
            )
            self._read_position, self._age = (x, y), 0.0
        reader = self._reader
        if reader is not None:
            reader.advance(dt)
            if reader.is_done:
                self.window, self._reader = reader.window, None

    def heights(self, x: Array, y: Array) -> Array:
        """Returns heights of the ground at points x and y of the same shape, world [m]; NaN where unknown.

        Raises:
            ArgumentError: the terrain returns heights of a wrong shape.
        """
        heights = np.asarray(self._height_function(x, y), dtype=np.float64)
        if heights.shape not in ((), x.shape):
            raise ArgumentError(f"terrain: expected heights of shape {x.shape}, got {heights.shape}")
        return np.broadcast_to(heights, x.shape)

    def choose_foothold(self, x: float, y: float) -> tuple[float, float, float, Array] | None:
        """Chooses the foothold of lowest cost near (x, y) [m]; returns position [m] and normal, None if unknown.

        Where the cost at (x, y) is acceptable, (x, y) itself is chosen.
        """
        heights, slopes, cost, corner, cell, _ = window = self.window
        index = window.find_cell(x, y)
        if index is None or not math.isfinite(heights[index]):
            return None
        i, j = index
        if cost[i, j] > ACCEPTABLE_COST:
            costs_around = cost[i - SEARCH_RADIUS : i + SEARCH_RADIUS + 1, j - SEARCH_RADIUS : j + SEARCH_RADIUS + 1]
            total = costs_around + window.compute_deviation_costs(i, j, x, y)
            best = int(total.argmin())
            a, b = divmod(best, 2 * SEARCH_RADIUS + 1)
            if math.isfinite(float(total[a, b])):
                i, j = i + a - SEARCH_RADIUS, j + b - SEARCH_RADIUS
                x, y = corner[0] + i * cell, corner[1] + j * cell
        slope_x, slope_y = slopes[i, j].tolist()
        if not math.isfinite(slope_x + slope_y):
            slope_x = slope_y = 0.0
        z = float(heights[i, j]) + slope_x * (x - corner[0] - i * cell)
        z += slope_y * (y - corner[1] - j * cell)
        return x, y, z, np.array(_compute_unit_normal(slope_x, slope_y))

    def lowest_height(self, x: float, y: float) -> float | None:
        """Returns the height of the lowest of the nine cells around a point [m]; None if unknown."""
        index = self.window.find_cell(x, y)
        if index is None:
            return None
        lowest = float(
            np.fmin.reduce(self.window.heights[index[0] - 1 : index[0] + 2, index[1] - 1 : index[1] + 2], axis=None)
        )
        return lowest if math.isfinite(lowest) else None

    def normal(self, x: float, y: float, z: float) -> tuple[float, float, float] | None:
        """Computes the unit normal of the ground under a foot, world; None if unknown.

        Near an edge it is that of the surface on which the foot stands.

        Args:
            x: x of the foot, world [m].
            y: y of the foot, world [m].
            z: height of the foot's lowest point [m].
        """
        index = self.window.find_cell(x, y)
        tolerance, slope = EVEN_TERRAIN_TOLERANCE * self._morphology.length, self._slope
        if index is None or not fit_plane_under_foot(
            self.window.heights, *index, z, self.window.cell, SLOPE_SCALE, tolerance, slope
        ):
            return None
        return _compute_unit_normal(*slope.tolist())

    def lift_direction(self, x: float, y: float) -> tuple[float, float, float] | None:
        """Returns the unit direction in which a foot at (x, y) [m] is lifted; None if the ground is partly unknown.

        It is the normal of all ground around the foot, which points away from rising edges.
        """
        index = self.window.find_cell(x, y)
        if index is None or not math.isfinite(self.window.cost[index]):
            return None
        return _compute_unit_normal(*self.window.slopes[index].tolist())

    def choose_swing_timing(
        self, start: Array, end: Array, radius: float, min_clearance: float, slope: Array
    ) -> SwingTiming:
        """Chooses the timing of the swing with the lowest foot speed; see `compute_clearance`.

        Args:
            start: (3,) center of the foot sphere at lift-off, world [m].
            end: (3,) center of the foot sphere at touchdown, world [m].
            radius: radius of the foot sphere [m].
            min_clearance: minimum clearance [m].
            slope: (2,) mean slope of the terrain along world x and y.
        """
        if self.compute_clearance(start, end, radius, min_clearance, slope) <= min_clearance:
            return UNIFORM_TIMING
        x, y, z = (end - start).tolist()
        distance, lift_fraction = math.hypot(x, y), 1.0 - APEX_PHASE if z < 0.0 else APEX_PHASE

        def estimate_foot_speed(timing: SwingTiming) -> float:
            clearance = self.compute_clearance(start, end, radius, min_clearance, slope, timing)
            horizontal_fraction, height = (
                timing.horizontal_end - timing.horizontal_start,
                timing.vertical_end - timing.vertical_start,
            )
            return float(distance / horizontal_fraction + abs(z) / height + clearance / lift_fraction)

        return min((UNIFORM_TIMING, *(UP_FIRST_TIMINGS if z > 0.0 else OVER_FIRST_TIMINGS)), key=estimate_foot_speed)

    def compute_clearance(
        self,
        start: Array,
        end: Array,
        radius: float,
        min_clearance: float,
        slope: Array,
        timing: SwingTiming = UNIFORM_TIMING,
    ) -> float:
        """Computes the height of the swing over the straight line from `start` to `end` [m].

        Terrain that rises with the mean slope is not a step: near the ends of the swing even a small rise would need a
        high swing.

        Args:
            start: (3,) center of the foot sphere at lift-off, world [m].
            end: (3,) center of the foot sphere at touchdown, world [m].
            radius: radius of the foot sphere [m].
            min_clearance: minimum clearance [m].
            slope: (2,) mean slope of the terrain along world x and y.
            timing: timing of the swing.
        """
        length, mean_slope = self._morphology.length, math.hypot(*slope.tolist())
        grid, tolerance = (*self.window.corner, self.window.cell), EVEN_TERRAIN_TOLERANCE * length
        lift: float = compute_required_lift(
            self.window.heights,
            *grid,
            start,
            end,
            _compute_path_fractions(timing),
            LIFT_FRACTIONS,
            radius + length * PATH_DEVIATION,
            radius,
            mean_slope,
            tolerance,
        )
        return max(min_clearance, min(TERRAIN_CLEARANCE * length + lift, MAX_CLEARANCE * length))


def _compute_unit_normal(slope_x: float, slope_y: float) -> tuple[float, float, float]:
    """Returns the upward unit normal of a plane with slopes along x and y."""
    n = 1.0 / math.sqrt(1.0 + slope_x * slope_x + slope_y * slope_y)
    return -slope_x * n, -slope_y * n, n
