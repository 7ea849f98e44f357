"""`FootholdMap`: choice of footholds on known terrain, and clearance of the swings over it.

`TerrainWindow`: terrain around the robot as read once; `WindowReader`: reads it over several ticks.
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..compiler import Matrix, Tensor, Vector, entry
from ..errors import ArgumentError, ArgumentTypeError
from ..robot.units import warn_of_length
from ..urdf.tree import Array
from .morphology import Morphology
from .swing import APEX_PHASE, EVEN_TERRAIN_TOLERANCE, OVER_FIRST_TIMINGS, UNIFORM_TIMING, UP_FIRST_TIMINGS, SwingTiming

#: Number of steps that contradict the map, minus half the number of the others, at which a warning is given: two steps
#: of each foot.
N_COMPARED_STEPS = 8
#: Half the side of the patch of ground around a foothold that should be flat [cells].
PATCH_RADIUS = 3


@entry("footholds on known terrain")
def fit_planes(
    heights: Matrix,
    slopes: Tensor,
    cost: Matrix,
    cell: float,
    slope_scale: float,
    roughness_scale: float,
    begin: int,
    end: int,
) -> None:
    """Fits a plane to the patch around every cell of some rows; see `FootholdMap`.

    Args:
        heights: (n, m) heights of the ground, NaN where unknown [m].
        slopes: (n, m, 2) slopes of the planes along x and y; written, NaN where the patch is partly unknown.
        cost: (n, m) cost of a foothold; written, inf where the patch is partly unknown.
        cell: side of a cell [m].
        slope_scale: slope that costs 1.
        roughness_scale: distance from the plane that costs 1 [m].
        begin: first row to fit.
        end: row after the last one to fit.
    """
    n, m, side = heights.shape[0], heights.shape[1], 2 * PATCH_RADIUS + 1
    sum_of_squares = side * PATCH_RADIUS * (PATCH_RADIUS + 1) * side // 3  # the sum of k^2 over the patch
    for i in range(begin, end):
        for j in range(m):
            slopes[i, j, 0], slopes[i, j, 1], cost[i, j] = math.nan, math.nan, math.inf
            if PATCH_RADIUS <= i < n - PATCH_RADIUS and PATCH_RADIUS <= j < m - PATCH_RADIUS:
                center_height, total, slope_i, slope_j = heights[i, j], 0.0, 0.0, 0.0
                for a in range(-PATCH_RADIUS, PATCH_RADIUS + 1):
                    row = 0.0
                    for b in range(-PATCH_RADIUS, PATCH_RADIUS + 1):
                        h = heights[i + a, j + b] - center_height
                        row += h
                        slope_j += b * h
                    total += row
                    slope_i += a * row
                mean, slope_i, slope_j, max_deviation = (
                    total / (side * side),
                    slope_i / sum_of_squares,
                    slope_j / sum_of_squares,
                    0.0,
                )
                for a in range(-PATCH_RADIUS, PATCH_RADIUS + 1):
                    row_height, row_deviation = center_height + mean + a * slope_i, 0.0
                    for b in range(-PATCH_RADIUS, PATCH_RADIUS + 1):
                        row_deviation = max(row_deviation, abs(heights[i + a, j + b] - (row_height + b * slope_j)))
                    max_deviation = max(max_deviation, row_deviation)
                x, y, relative_deviation = slope_i / cell, slope_j / cell, max_deviation / roughness_scale
                total = (x * x + y * y) / (slope_scale * slope_scale) + relative_deviation * relative_deviation
                slopes[i, j, 0], slopes[i, j, 1] = x, y
                if math.isfinite(total):
                    cost[i, j] = total


@entry("footholds on known terrain")
def fit_plane_under_foot(
    heights: Matrix, i: int, j: int, z: float, cell: float, max_slope: float, tolerance: float, slope: Vector
) -> bool:
    """Computes the slope of the surface on which a foot stands, excluding ground across an edge.

    Since cells and edges do not coincide, the foot is assumed to stand on that of the nine cells around it whose height
    is nearest to the foot's.  All ground of the patch that an acceptable slope connects with this cell belongs to the
    surface, to which a plane is fitted by least squares.

    Args:
        heights: (n, m) heights of the ground, NaN where unknown [m].
        i: row of the foot's cell, at least `PATCH_RADIUS` from the border.
        j: column of the foot's cell, at least `PATCH_RADIUS` from the border.
        z: height of the foot's lowest point [m].
        cell: side of a cell [m].
        max_slope: slope up to which ground belongs to one surface.
        tolerance: unevenness up to which ground belongs to one surface [m].
        slope: (2,) slope along x and y; written.

    Returns:
        Whether a plane was found: False where too few cells are known, or the surface does not determine a plane.
    """
    foot_height, min_difference = math.nan, math.inf
    for a in range(-1, 2):
        for b in range(-1, 2):
            difference = abs(heights[i + a, j + b] - z)
            if difference < min_difference:
                foot_height, min_difference = heights[i + a, j + b], difference
    n, sa, sb, sh, aa, ab, bb, ah, bh = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for a in range(-PATCH_RADIUS, PATCH_RADIUS + 1):
        for b in range(-PATCH_RADIUS, PATCH_RADIUS + 1):
            h = heights[i + a, j + b] - foot_height
            if abs(h) <= max_slope * cell * math.sqrt(a * a + b * b) + tolerance:
                n, sa, sb, sh = n + 1.0, sa + a, sb + b, sh + h
                aa, ab, bb, ah, bh = aa + a * a, ab + a * b, bb + b * b, ah + a * h, bh + b * h
    if n < 3.0:
        return False
    aa, ab, bb, ah, bh = aa - sa * sa / n, ab - sa * sb / n, bb - sb * sb / n, ah - sa * sh / n, bh - sb * sh / n
    determinant = aa * bb - ab * ab
    if not determinant > 1e-3 * (aa + bb) * (aa + bb):
        return False
    slope[0], slope[1] = (bb * ah - ab * bh) / (determinant * cell), (aa * bh - ab * ah) / (determinant * cell)
    return True


@entry("footholds on known terrain")
def compute_required_lift(
    heights: Matrix,
    origin_x: float,
    origin_y: float,
    cell: float,
    start: Vector,
    end: Vector,
    path_fractions: Matrix,
    lift_fractions: Vector,
    half_widths: Vector,
    radius: float,
    mean_slope: float,
    tolerance: float,
) -> float:
    """Computes the lift for which the foot sphere clears the terrain along its path [m]; -inf over unknown ground.

    The sphere is widened to an ellipsoid of revolution, since the foot may deviate from its path.

    Args:
        heights: (n, m) heights of the ground, NaN where unknown [m].
        origin_x: x of the first cell, world [m].
        origin_y: y of the first cell, world [m].
        cell: side of a cell [m].
        start: (3,) center of the sphere at lift-off, world [m].
        end: (3,) center of the sphere at touchdown, world [m].
        path_fractions: (k, 3) fractions of the motion from start to end, along x, y and z, at the samples.
        lift_fractions: (k,) fractions of the lift at the samples.
        half_widths: (k,) half-width of the widened sphere at the samples [m].
        radius: radius of the foot sphere [m].
        mean_slope: mean slope of the terrain.
        tolerance: allowed penetration of the sphere into the ground [m].
    """
    n, m, max_lift = heights.shape[0], heights.shape[1], -math.inf
    for k in range(len(lift_fractions)):
        x = (start[0] + path_fractions[k, 0] * (end[0] - start[0]) - origin_x) / cell
        y = (start[1] + path_fractions[k, 1] * (end[1] - start[1]) - origin_y) / cell
        z, radius_in_cells = start[2] + path_fractions[k, 2] * (end[2] - start[2]), half_widths[k] / cell
        top = -math.inf
        for i in range(max(math.floor(x - radius_in_cells) + 1, 0), min(math.floor(x + radius_in_cells) + 1, n)):
            for j in range(max(math.floor(y - radius_in_cells) + 1, 0), min(math.floor(y + radius_in_cells) + 1, m)):
                fraction = ((i - x) * (i - x) + (j - y) * (j - y)) / (radius_in_cells * radius_in_cells)
                if fraction < 1.0:
                    height = heights[i, j] + radius * math.sqrt(1.0 - fraction)
                    if height > top:
                        top = height
        # On a slope, the widened sphere rests higher than the sphere itself.
        wide_rise, sphere_rise = mean_slope * half_widths[k], mean_slope * radius
        slope_rise = math.sqrt(radius * radius + wide_rise * wide_rise) - math.sqrt(
            radius * radius + sphere_rise * sphere_rise
        )
        max_lift = max(max_lift, (top - slope_rise - tolerance - z) / lift_fractions[k])
    return max_lift


# Lengths in units of l.
#: Side of a cell, and half the side of a window.
CELL_SIZE, HALF_WIDTH = 0.04, 1.6
#: Maximum distance of a foothold from the nominal one [cells].
SEARCH_RADIUS = 6
#: Minimum difference of heights that were read twice at which the terrain counts as changed.
MAX_HEIGHT_CHANGE = 0.02
#: Vertical distance of a stance foot from the ground of the map around it above which they contradict each other [l].
MAX_STANCE_DEVIATION = 0.1
#: Slope, roughness and distance from the nominal foothold that cost 1.
SLOPE_SCALE, ROUGHNESS_SCALE, DEVIATION_SCALE = 0.7, 0.012, 0.15


class TerrainWindow(NamedTuple):
    """Terrain around the robot as read once; constant after its `WindowReader` is done.

    Attributes:
        heights: (n, m) heights of the ground, NaN where unknown [m].
        slopes: (n, m, 2) slopes along x and y of the planes around each cell, NaN near unknown ground.
        cost: (n, m) cost of steepness and roughness, dimensionless; inf near unknown ground.
        corner: (2,) position of the first cell, world x and y [m].
        cell: side of a cell [m].
        deviation_scale: distance from the nominal foothold that costs 1 [m].
    """

    heights: Array
    slopes: Array
    cost: Array
    corner: tuple[float, float]
    cell: float
    deviation_scale: float

    @classmethod
    def empty(cls, x: float, y: float, length: float) -> TerrainWindow:
        """Creates an unread window around a robot.

        Args:
            x: position of the robot, world x [m].
            y: position of the robot, world y [m].
            length: leg length [m].
        """
        cell, half = CELL_SIZE * length, round(HALF_WIDTH / CELL_SIZE)
        side, corner = 2 * half + 1, ((round(x / cell) - half) * cell, (round(y / cell) - half) * cell)
        heights, slopes = np.full((side, side), np.nan), np.full((side, side, 2), np.nan)
        return cls(heights, slopes, np.full((side, side), np.inf), corner, cell, DEVIATION_SCALE * length)

    def find_cell(self, x: float, y: float) -> tuple[int, int] | None:
        """Returns row and column of the cell at a point (x, y) [m]; None within `SEARCH_RADIUS` cells of the border."""
        i, j = round((x - self.corner[0]) / self.cell), round((y - self.corner[1]) / self.cell)
        n, m = self.cost.shape
        return (i, j) if SEARCH_RADIUS <= i < n - SEARCH_RADIUS and SEARCH_RADIUS <= j < m - SEARCH_RADIUS else None

    def compute_deviation_costs(self, i: int, j: int, x: float, y: float) -> Array:
        """Computes the costs of the distance from (x, y) [m], for the cells around (i, j)."""
        offsets = self.cell * np.arange(-SEARCH_RADIUS, SEARCH_RADIUS + 1)
        dx, dy = self.corner[0] + i * self.cell - x, self.corner[1] + j * self.cell - y
        squared_distance = (offsets[:, None] + dx) ** 2 + (offsets[None, :] + dy) ** 2
        return np.asarray(squared_distance / self.deviation_scale**2)


class WindowReader:
    """Reader of a terrain window, a few rows per tick: all of it at once would take longer than a tick.

    If the terrain has changed at the end, for example by a map that corrects its drift, it is read again at once.

    Args:
        height_function: heights [m] of arrays x and y [m], world.
        x: position of the robot, world x [m].
        y: position of the robot, world y [m].
        length: leg length [m].
        time: time in which all of it is read [s]; 0 for at once.

    Attributes:
        window: terrain window, complete when `is_done`.
    """

    __slots__ = ("_axes", "_height_function", "_rows_fitted", "_rows_read", "_time", "window")

    def __init__(
        self, height_function: Callable[[Array, Array], Array], x: float, y: float, length: float, time: float = 0.0
    ) -> None:
        self._height_function, self._time = height_function, time
        self.window = window = TerrainWindow.empty(x, y, length)
        a, b = (np.arange(n) * window.cell + corner for n, corner in zip(window.cost.shape, window.corner, strict=True))
        self._axes = a, b
        self._rows_read = self._rows_fitted = 0

    @property
    def is_done(self) -> bool:
        """Whether the window is complete."""
        return self._rows_fitted == len(self.window.heights)

    def advance(self, dt: float) -> None:
        """Reads the rows of one tick, at least one.

        Args:
            dt: time since the last call [s].
        """
        window, n, begin = self.window, len(self.window.heights), self._rows_read
        end = n if dt >= self._time else min(n, begin + max(1, math.ceil(dt / self._time * n)))
        window.heights[begin:end] = self._read_rows(begin, end)
        if begin and end == n and self._has_changed():
            window.heights[:], self._rows_fitted = self._read_rows(0, n), 0
        self._rows_read, end_fitted = end, n if end == n else max(0, end - PATCH_RADIUS)
        roughness_scale = ROUGHNESS_SCALE * window.deviation_scale / DEVIATION_SCALE
        fit_planes(
            window.heights,
            window.slopes,
            window.cost,
            window.cell,
            SLOPE_SCALE,
            roughness_scale,
            self._rows_fitted,
            end_fitted,
        )
        self._rows_fitted = end_fitted

    def _has_changed(self) -> bool:
        """Returns whether the first row has other heights now; heights that have become known do not count."""
        with np.errstate(invalid="ignore"):  # infinite heights
            differences = np.abs(self._read_rows(0, 1)[0] - self.window.heights[0])
        return bool(np.fmax.reduce(differences, initial=0.0) > MAX_HEIGHT_CHANGE / CELL_SIZE * self.window.cell)

    def _read_rows(self, begin: int, end: int) -> Array:
        """Returns the present heights of some rows [m]."""
        x, y = self._axes
        return self._height_function(*np.meshgrid(x[begin:end], y, indexing="ij"))


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

    __slots__ = (
        "_age",
        "_contradictions",
        "_has_warned",
        "_height_function",
        "_morphology",
        "_read_position",
        "_reader",
        "_slope",
        "window",
    )

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
        self._age, self._has_warned = 0.0, False
        self.window = TerrainWindow.empty(0.0, 0.0, morphology.length)
        self._slope = np.zeros(2)
        self._contradictions = 0.0  # number of steps that contradict the map, less half of the others

    def compare_stance(self, x: float, y: float, z: float) -> None:
        """Compares the map with the contact point (x, y, z) [m] of a foot that stood there; once for each step.

        Warns:
            RuntimeWarning: feet stood far from the ground of the map in `N_COMPARED_STEPS` steps, or more; half of the
                steps in which they did not is subtracted; once.
        """
        index = self.window.find_cell(x, y)
        if index is None or self._contradictions >= N_COMPARED_STEPS:
            return
        i, j = index
        around = self.window.heights[i - 1 : i + 2, j - 1 : j + 2]  # a foot may stand across an edge
        if not np.isfinite(around).all():
            return
        lowest, highest = float(around.min()), float(around.max())
        deviation = z - min(max(z, lowest), highest)
        if abs(deviation) <= MAX_STANCE_DEVIATION * self._morphology.length:
            self._contradictions = max(self._contradictions - 0.5, 0.0)
            return
        self._contradictions += 1.0
        if self._contradictions >= N_COMPARED_STEPS:
            warnings.warn(
                f"terrain: the feet stand far from the ground of the map, the last one {abs(deviation):.2g} m "
                f"{'above' if deviation > 0.0 else 'below'} it at x = {x:.2f}, y = {y:.2f}, z = {z:.2f} m; check its "
                "origin, axes and unit, and the measured position of the base",
                RuntimeWarning,
                stacklevel=8,
            )

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
                if not self._has_warned and (known := reader.window.heights[np.isfinite(reader.window.heights)]).size:
                    self._has_warned = warn_of_length("terrain", float(np.ptp(known)), p.length, stacklevel=8)

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
