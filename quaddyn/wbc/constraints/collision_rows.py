"""Rows of `CollisionLimits`, and the numbers that they read.

Why rows keep a pair apart.  Let ``phi = h' + k(h)`` for any two points, one of each capsule's segment, h being their
room; with ``h >= 0`` and ``phi >= 0`` for all of them at the start of a period.

1. k(0) = 0, and k has no slope above p; so ``h' >= -k(h)`` keeps ``h >= 0`` for as long as ``phi >= 0``.
2. ``phi' = h'' + k'(h) h'``: the row is ``phi' >= -p phi``.  Where phi = 0 it asks for ``h'' = k' k <= most``.
3. Over a period, with a constant, ``h''(t) = h''(0) + t y``, but for second order in t.  ``y = 3 J' a + z``: J' is the
   derivative of the row by time along the velocities now (`joint_screws`), z that of the drift.  The row asks
   its bound of ``h'' + (dt / 2) (1 + p dt / 3) y``, which is what phi(dt) is made of.
4. phi may decay faster than by p, by nine tenths within the period at most and so never beyond 0, in three cases: where
   drifts alone would ask a pair for more than `most`; and by the less, the more is asked, where a row has just come:
   from -`most` downwards bounds fall like -1 / x, to -infinity where there is no row.  In the same way bounds fall
   where points between the ends of their segments may be at an end within a few periods, where their row goes.
5. z is no less than the derivative of the drift, as far as it falls, minus the jerk of the two points.
6. What holds for the two points of the least phi holds for all: the derivative of a least value is that of the value
   where it is least, however fast that place moves (Danskin 1966).  Nearest points have no such rows: the second
   derivative of their distance falls at once where one leaves the end of its segment, and has no bound for segments
   that turn past each other in parallel.  With d the distance of two points, ``d phi = r . w + d k(h)`` is as good as
   phi: rows keep ``(d phi)' >= (d' / d - p) d phi``.  ``d k(h)`` is nearly linear in ``|r|^2 / 2``, and with its slope
   in place of it d phi is quadratic in the two places; a few rounds find that slope (`barrier_points`).  The least
   value is between the ends, which has a row, or at one of them, each of which has one (`pair_motion`).
7. A row is over the joints that move one of the two bodies alone: no distance between them depends on the others.

Eight things are looked at at a time.  By the middles of all capsules most pairs are seen to need no row; of the others,
which parts may need one, and where the whole does (`barrier_points`).  These parts are points that keep away from
segments: ends, and of the whole a point from a point.  Eight of them make rows together (`pair_motion`,
`collision_blocks`), which are written in the order of pairs and parts (`distance_row`).
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

#: Entries of a pair in `Model.index`: its capsules; the first pair behind those that are looked at with it, of the same
#: first capsule and of second ones that lie within eight.
LISTED = 3


@compiled(inline=False)
def write_collision_rows(item: Item, t: TickContext) -> None:
    """Rows of the near pairs; `index` has the capsules' frames, and the pairs behind their number, planes last."""
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
    """Add those parts of the pairs of `Work.near` that may need a row to points; how many wait there, fewer than eight.

    A pair with a ball has no ends.  Where the points of a whole are at an end, the row of that end is the same.
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
    """List a point that has been gathered; rows of eight if there are as many.  How many wait."""
    points.reach[count] = reach
    points.given[count] = given
    list_point(t, count, pair, part)
    if count == 7:
        write_points(item, t, points, 8, flat, by)
    return (count + 1) % 8


@compiled(inline=False)
def write_points(item: Item, t: TickContext, points: PointBlock, count: int, flat: bool, by: Barrier) -> None:
    """Rows of the first points of a block that need one."""
    if count > 0:
        evaluate_points(points, flat, by, POINT_ITERATIONS)
        flag_active_pairs(points, flat, by)
        write_rows(item, t, points, count, by)
