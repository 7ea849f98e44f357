"""`FootholdMap`: where feet may stand on ground that is known, and how high they must swing over it."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from ..errors import ArgumentError, ArgumentTypeError
from ..urdf.tree import Array
from .foothold_kernel import fit_plane_under_foot, required_lift
from .morphology import Morphology
from .swing import APEX_PHASE, OVER_FIRST_TIMINGS, UNIFORM_TIMING, UP_FIRST_TIMINGS, SwingTiming
from .terrain_window import SEARCH_RADIUS, SLOPE_SCALE, TerrainWindow, WindowReader

# Lengths in units of l, times in sqrt(l / g).
#: How far the robot goes, and how long it waits, until the ground is read again; how long that takes, and from how far
#: on it is read at once.
REREAD_DISTANCE, REREAD_INTERVAL, READING_TIME, IMMEDIATE_READ_DISTANCE = 0.2, 3.0, 0.25, 0.8
#: A place that costs less is good enough to take it as wanted.
ACCEPTABLE_COST = 0.3
#: How far above the ground the path of a swinging foot's sphere passes, as feet that go up fast are behind theirs, and
#: how high it swings at most.
TERRAIN_CLEARANCE, MAX_CLEARANCE = 0.08, 0.35
#: What counts as even, when heights are compared with the way of a foot.
EVEN_TERRAIN_TOLERANCE = 0.02
#: When a swing is compared with the ground below, as shares of its time; near its ends feet are where they stand.
SWING_SAMPLES = np.linspace(0.15, 0.85, 15)
#: How far beside its path the sphere of a foot may be at `TIMES`: on its way up, where edges stop it, and down.
PATH_DEVIATION = np.where(SWING_SAMPLES < APEX_PHASE, 0.09, 0.03)


def _interpolate_minimum_jerk(share: Array) -> Array:
    """Of the shortest-jerk path."""
    return np.asarray(share**3 * (10.0 - 15.0 * share + 6.0 * share**2))


@functools.lru_cache(maxsize=64)
def _path_fractions(timing: SwingTiming) -> Array:
    """(times, 3) shares of the ways over the ground and up or down, at `TIMES`; see `Swing`."""
    return np.column_stack(
        [
            _interpolate_minimum_jerk(np.clip((SWING_SAMPLES - begin) / (end - begin), 0.0, 1.0))
            for begin, end in ((timing.horizontal_start, timing.horizontal_end),) * 2
            + ((timing.vertical_start, timing.vertical_end),)
        ]
    )


#: Share of the lift at `TIMES`; see `Swing`.
LIFT_FRACTIONS = np.where(
    SWING_SAMPLES < APEX_PHASE,
    _interpolate_minimum_jerk(SWING_SAMPLES / APEX_PHASE),
    1.0 - _interpolate_minimum_jerk(np.clip((SWING_SAMPLES - APEX_PHASE) / (1.0 - APEX_PHASE), 0.0, 1.0)),
)


class HasHeight(Protocol):
    """Such as `quaddyn.estimation.ElevationMap` and `quaddyn.simulation.Terrain`."""

    def height(self, x: Any, y: Any) -> Array:
        """Of the ground at points (x, y) [m]; NaN where unknown."""
        ...


#: Heights of the ground [m] of arrays x and y [m], NaN where unknown; a function, or something that has one.
Heights = Callable[[Array, Array], Any] | HasHeight


class FootholdMap:
    """Costs of footholds in a window about the robot.

    About every cell of a grid a plane is fitted to the heights of a patch (least squares); how steep it is and how far
    the ground departs from it, as it does at edges and on rubble, make the cost of a foothold there, to which the
    distance from where the foot is wanted is added (Fankhauser et al. 2018, "Robust rough-terrain locomotion with a
    quadrupedal robot"; Jenelten et al. 2020, "Perceptive locomotion in rough terrain").  Unknown ground costs nothing
    to ask for: who wants a foot there gets None, and goes on blind.

    Args:
        terrain: heights.
        morphology: of the robot.

    Attributes:
        window: the ground as it was last read to the end.

    Raises:
        ArgumentTypeError: nothing to ask for heights.
    """

    __slots__ = ("_age", "_height_function", "_p", "_read_position", "_reader", "_slope", "window")

    def __init__(self, terrain: Heights, morphology: Morphology) -> None:
        ask = terrain if callable(terrain) else getattr(terrain, "height", None)
        if not callable(ask):
            raise ArgumentTypeError(
                f"terrain: expected a function of x and y, or something with `height(x, y)`, got "
                f"{type(terrain).__name__}"
            )
        self._height_function: Callable[[Array, Array], Any] = ask
        self._p = morphology
        self._read_position: tuple[float, float] | None = None
        self._reader: WindowReader | None = None
        self._age = 0.0
        self.window = TerrainWindow.empty(0.0, 0.0, morphology.length)
        self._slope = np.zeros(2)

    def advance(self, x: float, y: float, dt: float) -> None:
        """The robot is at (x, y) [m], `dt` later [s]: read the ground about it, or some of it, when it is time to.

        Raises:
            ArgumentError: heights of another shape than what was asked for.
        """
        p, gone = self._p, math.inf
        if self._read_position is not None:
            gone = math.hypot(x - self._read_position[0], y - self._read_position[1])
        far = gone > IMMEDIATE_READ_DISTANCE * p.length
        self._age += dt
        if far or (
            self._reader is None and (self._age >= REREAD_INTERVAL * p.time_scale or gone >= REREAD_DISTANCE * p.length)
        ):
            self._reader = WindowReader(self.heights, x, y, p.length, 0.0 if far else READING_TIME * p.time_scale)
            self._read_position, self._age = (x, y), 0.0
        reading = self._reader
        if reading is not None:
            reading.advance(dt)
            if reading.is_done:
                self.window, self._reader = reading.window, None

    def heights(self, x: Array, y: Array) -> Array:
        """Of the ground at points x and y of the same shape, world [m]; NaN where unknown.

        Raises:
            ArgumentError: heights of another shape than what was asked for.
        """
        heights = np.asarray(self._height_function(x, y), dtype=np.float64)
        if heights.shape not in ((), x.shape):
            raise ArgumentError(f"terrain: expected heights of shape {x.shape}, got {heights.shape}")
        return np.broadcast_to(heights, x.shape)

    def choose_foothold(self, x: float, y: float) -> tuple[float, float, float, Array] | None:
        """The best foothold near (x, y): its place and height [m], and the ground's (3,) normal there; None if unknown.

        Where the ground is good enough, that is (x, y) itself.
        """
        heights, slopes, cost, corner, cell, _ = window = self.window
        at = window.find_cell(x, y)
        if at is None or not math.isfinite(heights[at]):
            return None
        i, j = at
        if cost[i, j] > ACCEPTABLE_COST:
            near = cost[i - SEARCH_RADIUS : i + SEARCH_RADIUS + 1, j - SEARCH_RADIUS : j + SEARCH_RADIUS + 1]
            total = near + window.compute_deviation_costs(i, j, x, y)
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
        return x, y, z, np.array(_unit_normal(slope_x, slope_y))

    def lowest_height(self, x: float, y: float) -> float | None:
        """Height of the lowest ground right about a point [m]; None if unknown."""
        at = self.window.find_cell(x, y)
        if at is None:
            return None
        low = float(np.fmin.reduce(self.window.heights[at[0] - 1 : at[0] + 2, at[1] - 1 : at[1] + 2], axis=None))
        return low if math.isfinite(low) else None

    def normal(self, x: float, y: float, z: float) -> tuple[float, float, float] | None:
        """Of the ground under a foot; None if unknown.

        Next to an edge it is that of the surface that the foot stands on.

        Args:
            x: of the foot, world [m].
            y: of it [m].
            z: of its bottom [m].
        """
        at = self.window.find_cell(x, y)
        slack, slope = EVEN_TERRAIN_TOLERANCE * self._p.length, self._slope
        if at is None or not fit_plane_under_foot(
            self.window.heights, *at, z, self.window.cell, SLOPE_SCALE, slack, slope
        ):
            return None
        return _unit_normal(*slope.tolist())

    def lift_direction(self, x: float, y: float) -> tuple[float, float, float] | None:
        """Where to a foot at a point is lifted: along the normal of all ground about it, away from edges that rise.

        None if not all of that is known.
        """
        at = self.window.find_cell(x, y)
        if at is None or not math.isfinite(self.window.cost[at]):
            return None
        return _unit_normal(*self.window.slopes[at].tolist())

    def choose_swing_timing(
        self, start: Array, end: Array, radius: float, min_clearance: float, slope: Array
    ) -> SwingTiming:
        """When to go over the ground and when up or down, so that a foot is at no time very fast; see `clearance`."""
        if self.compute_clearance(start, end, radius, min_clearance, slope) <= min_clearance:
            return UNIFORM_TIMING
        x, y, z = (end - start).tolist()
        far, rest = math.hypot(x, y), 1.0 - APEX_PHASE if z < 0.0 else APEX_PHASE

        def speed(timing: SwingTiming) -> float:
            high = self.compute_clearance(start, end, radius, min_clearance, slope, timing)
            way, height = timing.horizontal_end - timing.horizontal_start, timing.vertical_end - timing.vertical_start
            return float(far / way + abs(z) / height + high / rest)

        return min((UNIFORM_TIMING, *(UP_FIRST_TIMINGS if z > 0.0 else OVER_FIRST_TIMINGS)), key=speed)

    def compute_clearance(
        self,
        start: Array,
        end: Array,
        radius: float,
        min_clearance: float,
        slope: Array,
        timing: SwingTiming = UNIFORM_TIMING,
    ) -> float:
        """How high a foot has to swing from `start` to `end`, over the straight way between them [m].

        What rises as the ground does on the whole is no step: near either end even a little of it would take a high
        swing to pass over.

        Args:
            start: (3,) of the sphere's centre at lift-off, world [m].
            end: (3,) at touchdown.
            radius: of the foot's sphere [m].
            min_clearance: that it swings in any case [m].
            slope: (2,) rise of the ground on the whole, along world x and y.
            timing: of the swing.
        """
        length, steep = self._p.length, math.hypot(*slope.tolist())
        place, slack = (*self.window.corner, self.window.cell), EVEN_TERRAIN_TOLERANCE * length
        lift: float = required_lift(
            self.window.heights,
            *place,
            start,
            end,
            _path_fractions(timing),
            LIFT_FRACTIONS,
            radius + length * PATH_DEVIATION,
            radius,
            steep,
            slack,
        )
        return max(min_clearance, min(TERRAIN_CLEARANCE * length + lift, MAX_CLEARANCE * length))


def _unit_normal(slope_x: float, slope_y: float) -> tuple[float, float, float]:
    """Upwards, of a plane that rises so along x and y."""
    n = 1.0 / math.sqrt(1.0 + slope_x * slope_x + slope_y * slope_y)
    return -slope_x * n, -slope_y * n, n
