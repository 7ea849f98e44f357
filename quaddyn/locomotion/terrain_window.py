"""`TerrainWindow`: terrain around the robot as read once; `WindowReader`: reads it over several ticks."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..compiler import Matrix, Tensor, Vector, entry
from ..urdf.tree import Array

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
