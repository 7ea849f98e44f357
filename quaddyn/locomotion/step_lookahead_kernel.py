"""The compiled search for edges along a way; see `Steps`."""

from __future__ import annotations

import math
from typing import NamedTuple

from ..compiler import Matrix, Vector, compiled, entry, local

#: Lines along the way, beside each other.
N_LINES = 5


class StepPath(NamedTuple):
    """Over which ground a way leads, and where."""

    heights: Matrix  # (n, m) of the ground, NaN where unknown [m]
    origin_x: float  # where the first of them is, along x [m]
    origin_y: float  # along y [m]
    cell: float  # distance between them, and between places along the way [m]
    x: float  # where the way passes, world [m]
    y: float  # the same
    yaw: float  # of the way [rad]
    start_distance: float  # where it begins, behind (x, y) [m]
    half_width: float  # half its width [m]
    max_height: float  # absolute height beyond which ground counts as this high [m]


@entry("steps on ground that is known")
def find_edges(
    path: StepPath, max_ditch: int, slope_length: int, middle: int, min_rise: float, work: Matrix, edges: Vector
) -> None:
    """Find the highest edges that rise and fall along a way, and its steepest part.

    Across the way the height is the lower median of those that are known at `LINES` points, and where none is known it
    is that of before.  Ditches are filled, which leaves open those at the end of what is seen: nothing falls there.

    Args:
        path: of the robot.
        max_ditch: width of the ditches that are filled, in places; edges in the first `max_ditch` places do not count.
        slope_length: over how many places its slope is taken.
        middle: place from which on edges are ahead.
        min_rise: rise over two places from which on that is an edge [m].
        work: (2, places); is written, the first row with the heights along the way.
        edges: (5,) rise and fall behind, the same ahead, and rise or fall over `slope_length`, 0 where there is none
            [m]; is set.
    """
    count, along, spare, line = work.shape[1], work[0], work[1], local(N_LINES)
    seen = sample_heights(path, line, along)
    fill_ditches(along, max_ditch, spare)
    for k in range(5):
        edges[k] = 0.0
    for k in range(slope_length, count):
        rise = abs(along[k] - along[k - slope_length])
        if rise > edges[4]:
            edges[4] = rise
    for k in range(max_ditch, count - 2):
        rise, at = along[k + 2] - along[k], 0 if k < middle else 2
        if rise > min_rise and rise > edges[at]:
            edges[at] = rise
        if -rise > min_rise and -rise > edges[at + 1] and k < seen - max_ditch - 2:  # beyond may be a narrow ditch
            edges[at + 1] = -rise


@compiled()
def sample_heights(path: StepPath, line: Vector, profile: Vector) -> int:
    """Heights along a way, as `find_edges` says, NaN where nothing before is known; how many are seen, the last too."""
    heights, cell = path.heights, path.cell
    n, m, c, s = heights.shape[0], heights.shape[1], math.cos(path.yaw), math.sin(path.yaw)
    seen, before = 0, math.nan
    for k in range(len(profile)):
        known, forward = 0, k * cell - path.start_distance
        for a in range(N_LINES):
            aside = path.half_width * (2.0 * a / (N_LINES - 1.0) - 1.0)
            i = math.floor((path.x + c * forward - s * aside - path.origin_x) / cell + 0.5)
            j = math.floor((path.y + s * forward + c * aside - path.origin_y) / cell + 0.5)
            if 0 <= i < n and 0 <= j < m and abs(heights[i, j]) <= math.inf:  # not NaN
                h, b = heights[i, j], known
                while b > 0 and line[b - 1] > h:
                    line[b] = line[b - 1]
                    b -= 1
                line[b] = h
                known += 1
        if known > 0:
            before, seen = min(max(line[(known - 1) // 2], -path.max_height), path.max_height), k + 1
        profile[k] = before
    return seen


@compiled()
def fill_ditches(heights: Vector, width: int, scratch: Vector) -> None:
    """Fill ditches of up to `width` places in heights along a way, NaN where unknown: a morphological closing."""
    n, less, more = len(heights), width // 2, width - width // 2
    for k in range(n):
        top = -math.inf
        for i in range(max(k - less, 0), min(k + more + 1, n)):
            if heights[i] > top:
                top = heights[i]
        scratch[k] = top
    for k in range(n):
        low = math.inf
        for i in range(max(k - more, 0), min(k + less + 1, n)):
            if abs(heights[i]) <= math.inf and scratch[i] < low:
                low = scratch[i]
        if abs(heights[k]) <= math.inf:
            heights[k] = low
