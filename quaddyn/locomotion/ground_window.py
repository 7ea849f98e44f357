"""`Window`: the ground about a robot as it was read once; `Reading`: one that is being read, some rows at a time."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..urdf.tree import Array
from .foothold_kernel import PATCH, fit_planes

# Lengths in units of l.
#: Side of a cell, and half the side of a window.
CELL, HALF = 0.04, 1.6
#: How far from where it is wanted a foot may be put, in cells.
AROUND = 6
#: Slope, distance from a plane and deviation from the wanted place that cost 1.
STEEP, ROUGH, ASIDE = 0.7, 0.012, 0.15


class Window(NamedTuple):
    """Ground about a robot as it was read once; nothing in it is written again.

    Attributes:
        heights: (n, m) of the ground, NaN where unknown [m].
        slopes: (n, m, 2) rise along x and y of the planes about each cell, NaN where not all of the patch is known.
        cost: (n, m) of steepness and roughness, inf where not all of the patch is known.
        corner: x and y of the first cell, world [m].
        cell: side of a cell [m].
        aside: distance from the wanted place that costs 1 [m].
    """

    heights: Array
    slopes: Array
    cost: Array
    corner: tuple[float, float]
    cell: float
    aside: float

    @classmethod
    def unread(cls, x: float, y: float, length: float) -> Window:
        """About a robot at (x, y) [m] with legs of a length [m], to be written by a `Reading`."""
        cell, half = CELL * length, round(HALF / CELL)
        side, corner = 2 * half + 1, ((round(x / cell) - half) * cell, (round(y / cell) - half) * cell)
        heights, slopes = np.full((side, side), np.nan), np.full((side, side, 2), np.nan)
        return cls(heights, slopes, np.full((side, side), np.inf), corner, cell, ASIDE * length)

    def locate(self, x: float, y: float) -> tuple[int, int] | None:
        """Of the cell at a point, with `AROUND` cells on all sides of it."""
        i, j = round((x - self.corner[0]) / self.cell), round((y - self.corner[1]) / self.cell)
        n, m = self.cost.shape
        return (i, j) if AROUND <= i < n - AROUND and AROUND <= j < m - AROUND else None

    def deviation(self, i: int, j: int, x: float, y: float) -> Array:
        """(2 `AROUND` + 1, 2 `AROUND` + 1) what the distance from (x, y) [m] costs, of the cells about (i, j)."""
        away = self.cell * np.arange(-AROUND, AROUND + 1)
        dx, dy = self.corner[0] + i * self.cell - x, self.corner[1] + j * self.cell - y
        way = (away[:, None] + dx) ** 2 + (away[None, :] + dy) ** 2
        return np.asarray(way / self.aside**2)


class Reading:
    """A window that is being read: all of it at once would take longer than a tick may.

    Args:
        ask: for heights of arrays x and y.
        x: of the robot, world [m].
        y: the same.
        length: of its legs [m].

    Attributes:
        place: x and y of the robot when it began [m].
        window: complete when it is `done`.
    """

    __slots__ = ("_ask", "_fitted", "_read", "place", "window")

    def __init__(self, ask: Callable[[Array, Array], Array], x: float, y: float, length: float) -> None:
        self.place, self._ask = (x, y), ask
        self.window = Window.unread(x, y, length)
        self._read = self._fitted = 0

    @property
    def done(self) -> bool:
        """Whether all of it is read."""
        return self._fitted == len(self.window.heights)

    def advance(self, dt: float, time: float) -> None:
        """Read as many rows as are to be read in `dt`, of all in `time` [s]: one at least."""
        window, (n, m) = self.window, self.window.heights.shape
        begin, end = self._read, n if dt >= time else min(n, self._read + max(1, math.ceil(dt / time * n)))
        axes = (np.arange(k) * window.cell + corner for k, corner in zip((n, m), window.corner, strict=True))
        X, Y = np.meshgrid(next(axes)[begin:end], next(axes), indexing="ij")
        window.heights[begin:end] = self._ask(X, Y)
        self._read, ready = end, n if end == n else max(0, end - PATCH)
        rough = ROUGH * window.aside / ASIDE
        fit_planes(window.heights, window.slopes, window.cost, window.cell, STEEP, rough, self._fitted, ready)
        self._fitted = ready
