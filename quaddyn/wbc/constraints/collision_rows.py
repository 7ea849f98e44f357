"""Rows of `CollisionLimits`, and the data that they read.

Proof of the guarantee.  Let ``phi = h' + k(h)`` for any two points, one of each capsule's segment, with h
the margin of their distance; and let ``h >= 0`` and ``phi >= 0`` for all of them at the start of a period.

1. k(0) = 0, and the slope of k is at most p; so ``h' >= -k(h)`` keeps ``h >= 0`` for as long as ``phi >= 0``.
2. ``phi' = h'' + k'(h) h'``: the row is ``phi' >= -p phi``.  Where phi = 0 it requires ``h'' = k' k <= b``.
3. Over a period with constant a, ``h''(t) = h''(0) + t y`` to first order in t.  ``y = 3 J' a + z``, with J' the time
   derivative of the row along the current velocities (`joint_screws`), and z the time derivative of the drift.  The row
   bounds ``h'' + (dt / 2) (1 + p dt / 3) y``, which determines phi(dt).
4. phi may decay faster than with p, by at most nine tenths of its value within the period and hence never below 0, in
   three cases: where drifts alone would require more than the largest acceleration b of a pair; where a row has just
   appeared (below -b, bounds continue like -1 / x, to -infinity where there is no row); and, in the same way, where
   points between the ends of their segments may reach an end within a few periods, where their row disappears.
5. z is at least the derivative of the drift, if it is negative, minus the jerk of the two points.
6. Bounds at the two points with the smallest phi hold for all points: the derivative of a minimum is that of the
   function at the minimizer, however fast the minimizer moves (Danskin 1966).  The nearest points cannot be used: the
   second derivative of their distance is discontinuous where one leaves the end of its segment, and unbounded for
   segments that rotate past each other in parallel.  With d the distance of two points, ``d phi = r . w + d k(h)`` may
   replace phi: rows keep ``(d phi)' >= (d' / d - p) d phi``.  ``d k(h)`` is nearly linear in ``|r|^2 / 2``; linearized,
   d phi is quadratic in the two positions, and a few iterations find its slope (`critical_points`).  The minimum is
   between the ends, which gives one more row, or at an end; both ends always have a row (`pair_motion`).
7. A row contains only the joints that move one of the two bodies alone: no distance between them depends on the others.

Eight pairs or points are processed at a time.  A test of the midpoints of all capsules excludes most pairs
(`capsule_segments`).  For the other pairs, `critical_points` finds the parts that may need a row, and the critical
points of the whole pair.  A part is the distance of a point from a segment: of an end, or, for the whole pair, of one
critical point from the other.  The rows of eight parts are computed together (`pair_motion`, `collision_blocks`) and
written in the order of pairs and parts (`distance_rows`).
"""

from __future__ import annotations

import math

from ...compiler import compiled, local, zeros
from ..row_writing import Item
from ..tick_data import TickContext
from .capsule_segments import (
    CAPSULE_SIZE,
    HALF_LENGTH,
    HEADER_SIZE,
    IS_PLANE,
    RADIUS,
    compute_segments,
    may_approach,
    may_be_near,
    write_capsule_reaches,
)
from .collision_blocks import (
    N_ROW_DATA,
    PairBlock,
    PointBlock,
    compute_row_data,
    store_pair_in_lane,
    store_point_in_lane,
    store_two_points_in_lane,
)
from .critical_points import (
    FIRST_POSITION,
    N_CRITICAL_POINT_ROWS,
    PART_NEEDS_ROW,
    POINT_ITERATIONS,
    SECOND_POSITION,
    compute_distance_motion,
    find_critical_points,
    sliding_relaxation,
)
from .distance_barrier import Barrier
from .distance_rows import PendingRow, count_common_velocities, store_point_in_queue, write_distance_rows
from .joint_screws import clear_screws
from .pair_motion import N_MOTION_ROWS, N_POINT_ROWS

#: Number of entries of a pair in `ControllerModel.index`: its two capsules, and the end of its run: the pairs with the
#: same first capsule and nearby second ones, which are processed together.
PAIR_ENTRIES = 3


@compiled(inline=False)
def write_collision_rows(item: Item, t: TickContext) -> None:
    """Writes the rows of near pairs; the lists of the element have the capsules' frames, and the pairs, planes last."""
    dt, p = t.model.period, item.parameters[1]
    base_velocities = 6 if item.parameters[3] > 0.0 else 0
    barrier = Barrier(p, item.parameters[2], item.parameters[0], dt, 0.5 * dt * (1.0 + p * dt / 3.0), base_velocities)
    block = PairBlock(zeros(96), zeros(96), zeros(8), local(8 * N_CRITICAL_POINT_ROWS))
    points = PointBlock(zeros(8 * N_POINT_ROWS), zeros(8), zeros(8), local(8 * N_MOTION_ROWS), local(8 * N_ROW_DATA))
    compute_segments(item, t)
    any_fast = write_capsule_reaches(t.work.midpoints, item.size, barrier)
    clear_screws(t.work.screws)
    n_pairs, pair_list = t.model.index[item.second], t.model.index[item.second + 1 :]
    may_need_row, queue, k, queued, count = local(8), t.work.pair_queue, 0, 0, 0
    while (
        k < n_pairs and item.parameters[HEADER_SIZE + CAPSULE_SIZE * pair_list[PAIR_ENTRIES * k + 1] + IS_PLANE] == 0.0
    ):
        first, end = pair_list[PAIR_ENTRIES * k + 1], pair_list[PAIR_ENTRIES * k + 2]
        a, midpoints = pair_list[PAIR_ENTRIES * k], t.work.midpoints
        if may_be_near(midpoints, a, first, may_need_row) and (
            not any_fast or may_approach(midpoints, a, first, barrier, may_need_row)
        ):
            for i in range(k, end):
                if may_need_row[pair_list[PAIR_ENTRIES * i + 1] - first] > 0.0:
                    queue[queued] = i
                    queued += 1
                    if queued == 8:
                        count = add_parts_of_pairs(item, t, block, queued, points, count, barrier)
                        queued = 0
        k = end
    count = add_parts_of_pairs(item, t, block, queued, points, count, barrier)
    write_point_rows(item, t, points, count, False, barrier)
    count = 0
    for i in range(k, n_pairs):
        a, b = pair_list[PAIR_ENTRIES * i], pair_list[PAIR_ENTRIES * i + 1]
        z = item.parameters[HEADER_SIZE + CAPSULE_SIZE * a :]
        for part in range(1 if z[HALF_LENGTH] > 0.0 else 0, 3 if z[HALF_LENGTH] > 0.0 else 1):
            store_point_in_lane(points.M, count, t.work.segments[a], float(part // 2), t.work.segments[b])
            row = PendingRow(i, t.model.index[item.first + a], -1, 0, part, barrier.margin + z[RADIUS], 0.0)
            count = add_point(item, t, points, count, row, True, barrier)
    write_point_rows(item, t, points, count, True, barrier)


@compiled(inline=False)
def add_parts_of_pairs(
    item: Item, t: TickContext, block: PairBlock, queued: int, points: PointBlock, count: int, barrier: Barrier
) -> int:
    """Adds the parts of the queued pairs that may need a row to the block of points.

    A pair with a sphere has no ends.  If the critical points of the whole pair are at an end, the row of that end is
    the same.

    Returns:
        The number of points that wait in the block, fewer than eight.
    """
    pair_list, segments = t.model.index[item.second + 1 :], t.work.segments
    for lane in range(queued):
        a, b = pair_list[PAIR_ENTRIES * t.work.pair_queue[lane]], pair_list[PAIR_ENTRIES * t.work.pair_queue[lane] + 1]
        store_pair_in_lane(block, lane, segments[a], segments[b])
        radii = (
            item.parameters[HEADER_SIZE + CAPSULE_SIZE * a + RADIUS]
            + item.parameters[HEADER_SIZE + CAPSULE_SIZE * b + RADIUS]
        )
        block.reach[lane] = barrier.margin + radii
    if queued > 0:
        find_critical_points(block, barrier, POINT_ITERATIONS)
    critical_points = block.critical_points
    for lane in range(queued):
        if not critical_points[8 * PART_NEEDS_ROW + lane] > 0.0:
            continue
        k, reach = t.work.pair_queue[lane], block.reach[lane]
        a, b = pair_list[PAIR_ENTRIES * k], pair_list[PAIR_ENTRIES * k + 1]
        i, j = t.model.index[item.first + a], t.model.index[item.first + b]
        common = count_common_velocities(t.model, i, j) if j >= 0 else 0
        x, y = segments[a], segments[b]
        half, other_half = (
            item.parameters[HEADER_SIZE + CAPSULE_SIZE * a + HALF_LENGTH],
            item.parameters[HEADER_SIZE + CAPSULE_SIZE * b + HALF_LENGTH],
        )
        has_ball, relaxation = half == 0.0 or other_half == 0.0, 0.0
        if not has_ball:
            relaxation = sliding_relaxation(critical_points, lane, 2.0 * half, 2.0 * other_half, barrier)
        if relaxation < math.inf:
            store_two_points_in_lane(
                points.M,
                count,
                x,
                critical_points[8 * FIRST_POSITION + lane],
                y,
                critical_points[8 * SECOND_POSITION + lane],
            )
            row = PendingRow(k, i, j, common, 0, reach, relaxation)
            count = add_point(item, t, points, count, row, False, barrier)
        if not has_ball:
            for part in range(1, 5):
                if critical_points[8 * (PART_NEEDS_ROW + part) + lane] > 0.0:
                    if part < 3:
                        store_point_in_lane(points.M, count, x, float(part - 1), y)
                        row = PendingRow(k, i, j, common, part, reach, 0.0)
                        count = add_point(item, t, points, count, row, False, barrier)
                    else:
                        store_point_in_lane(points.M, count, y, float(part - 3), x)
                        row = PendingRow(k, j, i, common, part, reach, 0.0)
                        count = add_point(item, t, points, count, row, False, barrier)
    return count


@compiled()
def add_point(
    item: Item, t: TickContext, points: PointBlock, count: int, row: PendingRow, from_planes: bool, barrier: Barrier
) -> int:
    """Adds a gathered point to the block, and writes the rows of a full block; returns the number of points in it."""
    points.reach[count] = row.reach
    points.relaxation[count] = row.relaxation
    store_point_in_queue(t, count, row)
    if count == 7:
        write_point_rows(item, t, points, 8, from_planes, barrier)
    return (count + 1) % 8


@compiled(inline=False)
def write_point_rows(
    item: Item, t: TickContext, points: PointBlock, count: int, from_planes: bool, barrier: Barrier
) -> None:
    """Writes a row for each of the first `count` points of a block that needs one."""
    if count > 0:
        compute_distance_motion(points, from_planes, barrier, POINT_ITERATIONS)
        compute_row_data(points, from_planes, barrier)
        write_distance_rows(item, t, points, count, barrier)
