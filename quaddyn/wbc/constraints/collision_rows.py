"""Rows of `CollisionLimits`, and the data that they read.

Proof that rows keep a pair apart.  Let ``phi = h' + k(h)`` for any two points, one of each capsule's segment, with h
the margin of their distance; and let ``h >= 0`` and ``phi >= 0`` for all of them at the start of a period.

1. k(0) = 0, and the slope of k is at most p; so ``h' >= -k(h)`` keeps ``h >= 0`` for as long as ``phi >= 0``. 2. ``phi'
= h'' + k'(h) h'``: the row is ``phi' >= -p phi``.  Where phi = 0 it requires ``h'' = k' k <= b``. 3. Over a period,
with a constant, ``h''(t) = h''(0) + t y`` to first order in t.  ``y = 3 J' a + z``, with J' the time derivative of the
row along the current velocities (`joint_screws`), and z that of the drift.  The row bounds ``h'' + (dt / 2) (1 + p dt /
3) y``, the value that determines phi(dt). 4. phi may decay faster than with p, by nine tenths within the period at most
and so never beyond 0, in three cases: where drifts alone would require more than the largest acceleration b of a pair;
where a row has just appeared: below -b bounds continue like -1 / x, to -infinity where there is no row; and, in the
same way, where points between the ends of their segments may reach an end within a few periods, where their row
disappears. 5. z is at least the derivative of the drift, if it is negative, minus the jerk of the two points. 6. Bounds
at the two points of the smallest phi hold for all points: the derivative of a minimum is that of the function at the
minimizer, however fast the minimizer moves (Danskin 1966).  Nearest points have no such rows: the second derivative of
their distance is discontinuous where one leaves the end of its segment, and is unbounded for segments that rotate past
each other in parallel.  With d the distance of two points, ``d phi = r . w + d k(h)`` may replace phi: rows keep ``(d
phi)' >= (d' / d - p) d phi``.  ``d k(h)`` is nearly linear in ``|r|^2 / 2``; linearized, d phi is quadratic in the two
positions; a few iterations find its slope (`critical_points`).  The minimum is between the ends, which has a row, or at
one of them, each of which has one (`pair_motion`). 7. A row is over the joints that move one of the two bodies alone:
no distance between them depends on the others.

Eight pairs or points are processed at a time.  The midpoints of all capsules show that most pairs need no row; of the
others, which parts may need one is computed, and the points of the whole (`critical_points`).  Parts are points that
keep away from segments: ends, and for the whole a point from a point.  Eight of them form rows together
(`pair_motion`, `collision_blocks`), which are written in the order of pairs and parts (`distance_rows`).
"""

from __future__ import annotations

import math

from ...compiler import compiled, local, zeros
from ..row_writing import Item
from ..tick_data import TickContext
from .capsule_segments import (
    FLAT,
    HALF,
    HEAD,
    RADIUS,
    WIDTH,
    may_approach,
    may_be_near,
    place_segments,
    write_capsule_reaches,
)
from .collision_blocks import (
    KNOWN,
    PairBlock,
    PointBlock,
    flag_active_pairs,
    gather_pair,
    gather_point,
    gather_points,
)
from .critical_points import (
    CLOSE,
    FOUND,
    POINT_ITERATIONS,
    S,
    T,
    evaluate_points,
    locate_pair_points,
    sliding_relaxation,
)
from .distance_barrier import Barrier
from .distance_rows import PendingRow, common_entries, list_point, write_rows
from .joint_screws import clear_screws
from .pair_motion import KEEPING, MOTION

#: Number of entries of a pair in `ControllerModel.index`: its capsules, and the first pair behind those that are
#: processed together with it, which have the same first capsule and second ones within eight.
LISTED = 3


@compiled(inline=False)
def write_collision_rows(item: Item, t: TickContext) -> None:
    """Writes the rows of near pairs; the lists of the element have the capsules' frames, and the pairs, planes last."""
    dt, p = t.model.period, item.parameters[1]
    grouped = 6 if item.parameters[3] > 0.0 else 0
    by = Barrier(p, item.parameters[2], item.parameters[0], dt, 0.5 * dt * (1.0 + p * dt / 3.0), grouped)
    block = PairBlock(zeros(96), zeros(96), zeros(8), local(8 * FOUND))
    points = PointBlock(zeros(8 * KEEPING), zeros(8), zeros(8), local(8 * MOTION), local(8 * KNOWN))
    place_segments(item, t)
    swift = write_capsule_reaches(t.work.midpoints, item.size, by)
    clear_screws(t.work.screws)
    pairs, listed = t.model.index[item.second], t.model.index[item.second + 1 :]
    gaps, near, k, waiting, count = local(8), t.work.pair_queue, 0, 0, 0
    while k < pairs and item.parameters[HEAD + WIDTH * listed[LISTED * k + 1] + FLAT] == 0.0:
        first, end = listed[LISTED * k + 1], listed[LISTED * k + 2]
        a, middles = listed[LISTED * k], t.work.midpoints
        if may_be_near(middles, a, first, gaps) and (not swift or may_approach(middles, a, first, by, gaps)):
            for i in range(k, end):
                if gaps[listed[LISTED * i + 1] - first] > 0.0:
                    near[waiting] = i
                    waiting += 1
                    if waiting == 8:
                        count = add_parts(item, t, block, waiting, points, count, by)
                        waiting = 0
        k = end
    count = add_parts(item, t, block, waiting, points, count, by)
    write_points(item, t, points, count, False, by)
    count = 0
    for i in range(k, pairs):
        a, b = listed[LISTED * i], listed[LISTED * i + 1]
        z = item.parameters[HEAD + WIDTH * a :]
        pair = PendingRow(i, t.model.index[item.first + a], -1, 0)
        for part in range(1 if z[HALF] > 0.0 else 0, 3 if z[HALF] > 0.0 else 1):
            gather_point(points.M, count, t.work.segments[a], float(part // 2), t.work.segments[b])
            count = add_point(item, t, points, count, pair, part, by.margin + z[RADIUS], 0.0, True, by)
    write_points(item, t, points, count, True, by)


@compiled(inline=False)
def add_parts(
    item: Item, t: TickContext, block: PairBlock, waiting: int, points: PointBlock, count: int, by: Barrier
) -> int:
    """Adds the parts of the queued pairs that may need a row to the block of points.

    A pair with a ball has no ends.  Where the points of a whole are at an end, its row would equal that of the end.

    Returns:
        The number of points that wait in the block, fewer than eight.
    """
    listed, segments = t.model.index[item.second + 1 :], t.work.segments
    for lane in range(waiting):
        a, b = listed[LISTED * t.work.pair_queue[lane]], listed[LISTED * t.work.pair_queue[lane] + 1]
        gather_pair(block, lane, segments[a], segments[b])
        radii = item.parameters[HEAD + WIDTH * a + RADIUS] + item.parameters[HEAD + WIDTH * b + RADIUS]
        block.reach[lane] = by.margin + radii
    if waiting > 0:
        locate_pair_points(block, by, POINT_ITERATIONS)
    found = block.found
    for lane in range(waiting):
        if not found[8 * CLOSE + lane] > 0.0:
            continue
        k, reach = t.work.pair_queue[lane], block.reach[lane]
        a, b = listed[LISTED * k], listed[LISTED * k + 1]
        i, j = t.model.index[item.first + a], t.model.index[item.first + b]
        common = common_entries(t.model, i, j) if j >= 0 else 0
        x, y, pair, turned = segments[a], segments[b], PendingRow(k, i, j, common), PendingRow(k, j, i, common)
        half, other = item.parameters[HEAD + WIDTH * a + HALF], item.parameters[HEAD + WIDTH * b + HALF]
        balls, given = half == 0.0 or other == 0.0, 0.0
        if not balls:
            given = sliding_relaxation(found, lane, 2.0 * half, 2.0 * other, by)
        if given < math.inf:
            gather_points(points.M, count, x, found[8 * S + lane], y, found[8 * T + lane])
            count = add_point(item, t, points, count, pair, 0, reach, given, False, by)
        if not balls:
            for part in range(1, 5):
                if found[8 * (CLOSE + part) + lane] > 0.0:
                    if part < 3:
                        gather_point(points.M, count, x, float(part - 1), y)
                        count = add_point(item, t, points, count, pair, part, reach, 0.0, False, by)
                    else:
                        gather_point(points.M, count, y, float(part - 3), x)
                        count = add_point(item, t, points, count, turned, part, reach, 0.0, False, by)
    return count


@compiled()
def add_point(
    item: Item,
    t: TickContext,
    points: PointBlock,
    count: int,
    pair: PendingRow,
    part: int,
    reach: float,
    given: float,
    flat: bool,
    by: Barrier,
) -> int:
    """Adds a gathered point to the block, and writes the rows of a full block; returns the number of points in it."""
    points.reach[count] = reach
    points.given[count] = given
    list_point(t, count, pair, part)
    if count == 7:
        write_points(item, t, points, 8, flat, by)
    return (count + 1) % 8


@compiled(inline=False)
def write_points(item: Item, t: TickContext, points: PointBlock, count: int, flat: bool, by: Barrier) -> None:
    """Writes the rows of the first points of a block that need one."""
    if count > 0:
        evaluate_points(points, flat, by, POINT_ITERATIONS)
        flag_active_pairs(points, flat, by)
        write_rows(item, t, points, count, by)
