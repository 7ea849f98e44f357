"""The compiled search for edges along a way; see `Steps`."""

from __future__ import annotations

import math
from typing import NamedTuple

from ..compiler import Matrix, Vector, compiled, entry, local

#: Lines along the way, beside each other.
LINES = 5


class Way(NamedTuple):
    """Over which ground a way leads, and where."""

    heights: Matrix  # (n, m) of the ground, NaN where unknown [m]
    from_x: float  # where the first of them is, along x [m]
    from_y: float  # along y [m]
    cell: float  # distance between them, and between places along the way [m]
    x: float  # where the way passes, world [m]
    y: float  # the same
    yaw: float  # of the way [rad]
    back: float  # where it begins, behind (x, y) [m]
    wide: float  # half its width [m]
    highest: float  # absolute height beyond which ground counts as this high [m]


@entry("steps on ground that is known")
def find_edges(way: Way, gap: int, run: int, middle: int, steep: float, work: Matrix, edges: Vector) -> None:
    """Find the highest edges that rise and fall along a way, and its steepest part.

    Across the way the height is the lower median of those that are known at `LINES` points, and where none is known it
    is that of before.  Ditches are filled, which leaves open those at the end of what is seen: nothing falls there.

    Args:
        way: of the robot.
        gap: width of the ditches that are filled, in places; edges in the first `gap` places do not count.
        run: over how many places its slope is taken.
        middle: place from which on edges are ahead.
        steep: rise over two places from which on that is an edge [m].
        work: (2, places); is written, the first row with the heights along the way.
        edges: (5,) rise and fall behind, the same ahead, and rise or fall over `run`, 0 where there is none [m]; is
            set.
    """
    count, along, spare, line = work.shape[1], work[0], work[1], local(LINES)
    seen = profile(way, line, along)
    close(along, gap, spare)
    for k in range(5):
        edges[k] = 0.0
    for k in range(run, count):
        rise = abs(along[k] - along[k - run])
        if rise > edges[4]:
            edges[4] = rise
    for k in range(gap, count - 2):
        rise, at = along[k + 2] - along[k], 0 if k < middle else 2
        if rise > steep and rise > edges[at]:
            edges[at] = rise
        if -rise > steep and -rise > edges[at + 1] and k < seen - gap - 2:  # beyond may be a narrow ditch
            edges[at + 1] = -rise


@compiled()
def profile(way: Way, line: Vector, along: Vector) -> int:
    """Heights along a way, as `find_edges` says, NaN where nothing before is known; how many are seen, the last too."""
    heights, cell = way.heights, way.cell
    n, m, c, s = heights.shape[0], heights.shape[1], math.cos(way.yaw), math.sin(way.yaw)
    seen, before = 0, math.nan
    for k in range(len(along)):
        known, forward = 0, k * cell - way.back
        for a in range(LINES):
            aside = way.wide * (2.0 * a / (LINES - 1.0) - 1.0)
            i = math.floor((way.x + c * forward - s * aside - way.from_x) / cell + 0.5)
            j = math.floor((way.y + s * forward + c * aside - way.from_y) / cell + 0.5)
            if 0 <= i < n and 0 <= j < m and abs(heights[i, j]) <= math.inf:  # not NaN
                h, b = heights[i, j], known
                while b > 0 and line[b - 1] > h:
                    line[b] = line[b - 1]
                    b -= 1
                line[b] = h
                known += 1
        if known > 0:
            before, seen = min(max(line[(known - 1) // 2], -way.highest), way.highest), k + 1
        along[k] = before
    return seen


@compiled()
def close(along: Vector, count: int, spare: Vector) -> None:
    """Fill ditches of up to `count` places in heights along a way, NaN where unknown: a morphological closing."""
    n, less, more = len(along), count // 2, count - count // 2
    for k in range(n):
        top = -math.inf
        for i in range(max(k - less, 0), min(k + more + 1, n)):
            if along[i] > top:
                top = along[i]
        spare[k] = top
    for k in range(n):
        low = math.inf
        for i in range(max(k - more, 0), min(k + less + 1, n)):
            if abs(along[i]) <= math.inf and spare[i] < low:
                low = spare[i]
        if abs(along[k]) <= math.inf:
            along[k] = low
