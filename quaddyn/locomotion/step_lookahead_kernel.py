"""Compiled search for terrain edges along the path; see `StepLookahead`."""

from __future__ import annotations

import math
from typing import NamedTuple

from ..compiler import Matrix, Vector, compiled, entry, local

#: Number of parallel lines along the path.
N_LINES = 5


class StepPath(NamedTuple):
    """Strip of terrain along the direction of motion."""

    heights: Matrix  # (n, m) heights of the ground, NaN where unknown [m]
    origin_x: float  # x of the first cell, world [m]
    origin_y: float  # y of the first cell, world [m]
    cell: float  # side of a cell, and distance between samples along the path [m]
    x: float  # position of the robot, world x [m]
    y: float  # position of the robot, world y [m]
    yaw: float  # direction of the path [rad]
    start_distance: float  # distance of its start behind (x, y) [m]
    half_width: float  # half its width [m]
    max_height: float  # absolute height to which heights are clamped [m]


@entry("terrain steps ahead")
def find_edges(
    path: StepPath, max_ditch: int, slope_length: int, middle: int, min_rise: float, work: Matrix, edges: Vector
) -> None:
    """Finds the highest rising and falling edges along a path, and its steepest part.

    Across the path the height is the lower median of the known heights at `N_LINES` points; where none is known it is
    the previous one.  Ditches are filled, except at the end of the known ground, where a fall does not count.

    Args:
        path: strip of terrain along the direction of motion.
        max_ditch: width up to which ditches are filled [samples]; edges in the first `max_ditch` samples do not count.
        slope_length: length over which the slope is measured [samples].
        middle: sample from which on edges are ahead of the robot.
        min_rise: minimum rise over two samples of an edge [m].
        work: (2, samples) scratch; the first row receives the heights along the path.
        edges: (5,) written: rise and fall behind, rise and fall ahead, and rise or fall over `slope_length`; 0 where
            there is none [m].
    """
    count, profile, scratch, line = work.shape[1], work[0], work[1], local(N_LINES)
    n_known = sample_heights(path, line, profile)
    fill_ditches(profile, max_ditch, scratch)
    edges[:5] = 0.0
    for k in range(slope_length, count):
        rise = abs(profile[k] - profile[k - slope_length])
        if rise > edges[4]:
            edges[4] = rise
    for k in range(max_ditch, count - 2):
        rise, index = profile[k + 2] - profile[k], 0 if k < middle else 2
        if rise > min_rise and rise > edges[index]:
            edges[index] = rise
        if (
            -rise > min_rise and -rise > edges[index + 1] and k < n_known - max_ditch - 2
        ):  # beyond may be a narrow ditch
            edges[index + 1] = -rise


@compiled()
def sample_heights(path: StepPath, line: Vector, profile: Vector) -> int:
    """Computes the heights along a path, NaN before the first known one; returns the number of known samples."""
    heights, cell = path.heights, path.cell
    n, m, c, s = heights.shape[0], heights.shape[1], math.cos(path.yaw), math.sin(path.yaw)
    n_known, last_height = 0, math.nan
    for k in range(len(profile)):
        n_heights, forward = 0, k * cell - path.start_distance
        for a in range(N_LINES):
            lateral = path.half_width * (2.0 * a / (N_LINES - 1.0) - 1.0)
            i = math.floor((path.x + c * forward - s * lateral - path.origin_x) / cell + 0.5)
            j = math.floor((path.y + s * forward + c * lateral - path.origin_y) / cell + 0.5)
            if 0 <= i < n and 0 <= j < m and abs(heights[i, j]) <= math.inf:  # not NaN
                h, b = heights[i, j], n_heights
                while b > 0 and line[b - 1] > h:
                    line[b] = line[b - 1]
                    b -= 1
                line[b] = h
                n_heights += 1
        if n_heights > 0:
            last_height, n_known = min(max(line[(n_heights - 1) // 2], -path.max_height), path.max_height), k + 1
        profile[k] = last_height
    return n_known


@compiled()
def fill_ditches(heights: Vector, width: int, scratch: Vector) -> None:
    """Fills ditches of up to `width` samples in heights along a path, NaN where unknown, by morphological closing.

    Args:
        heights: (n,) heights along the path [m]; updated.
        width: maximum width of the ditches [samples].
        scratch: (n,) scratch.
    """
    n, half_left, half_right = len(heights), width // 2, width - width // 2
    for k in range(n):
        top = -math.inf
        for i in range(max(k - half_left, 0), min(k + half_right + 1, n)):
            if heights[i] > top:
                top = heights[i]
        scratch[k] = top
    for k in range(n):
        low = math.inf
        for i in range(max(k - half_right, 0), min(k + half_left + 1, n)):
            if abs(heights[i]) <= math.inf and scratch[i] < low:
                low = scratch[i]
        if abs(heights[k]) <= math.inf:
            heights[k] = low
