"""`TerrainWindow`: terrain around the robot as read once; `WindowReader`: reads it over several ticks."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..urdf.tree import Array
from .foothold_kernel import PATCH_RADIUS, fit_planes

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
