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
from typing import NamedTuple

from ...compiler import compiled, local
from ..row_writing import Item
from ..tick_data import TickContext
from .capsule_parameters import HEADER_SIZE, capsule_parameters, collision_pair, collision_parameters
from .capsule_segments import compute_segments, may_approach, may_be_near, write_capsule_reaches
from .collision_blocks import compute_row_data, store_point_in_lane, store_segment_in_lane, store_two_points_in_lane
from .critical_points import (
    POINT_ITERATIONS,
    compute_distance_motion,
    find_critical_points,
    sliding_relaxation,
)
from .distance_barrier import Barrier
from .distance_rows import count_common_velocities, write_distance_rows
from .joint_screws import clear_screws


class PendingRow(NamedTuple):
    """Point whose row has not been written yet.

    Attributes:
        pair: index of the pair of capsules.
        part: index of the part of the pair, see `collision_rows`.
        frame: index of the frame of the point.
        other_frame: index of the frame of the segment.
        common: number of velocities that move both frames.
        reach: sum of the radii and of the margin [m].
        relaxation: relaxation of the bound [m/s^2].
    """

    pair: int
    part: int
    frame: int
    other_frame: int
    common: int
    reach: float
    relaxation: float


@compiled(inline=False)
def write_collision_rows(item: Item, t: TickContext) -> None:
    """Writes the rows of near pairs; the lists of the element have the capsules' frames, and the pairs, planes last."""
    dt, shared, capsules = t.model.period, collision_parameters(item.parameters), item.parameters[HEADER_SIZE:]
    p, base_velocities = shared.barrier_rate, 6 if shared.has_floating_base else 0
    barrier = Barrier(
        p, shared.max_acceleration, shared.margin, dt, 0.5 * dt * (1.0 + p * dt / 3.0), base_velocities
    )  # fmt: skip
    midpoints, block, points = t.work.collisions.midpoints, t.work.collisions.pairs, t.work.collisions.points
    compute_segments(item, t)
    any_fast = write_capsule_reaches(midpoints, item.size, barrier)
    clear_screws(t.work.collisions.screws)
    n_pairs, pairs = t.model.index[item.second], t.model.index[item.second + 1 :]
    may_need_row, k, queued, count = local(8), 0, 0, 0
    while k < n_pairs and not capsule_parameters(capsules, collision_pair(pairs, k).second).is_plane:
        a, first, end = (
            collision_pair(pairs, k).first,
            collision_pair(pairs, k).second,
            collision_pair(pairs, k).run_end,
        )
        if may_be_near(midpoints, a, first, may_need_row) and (
            not any_fast or may_approach(midpoints, a, first, barrier, may_need_row)
        ):
            for i in range(k, end):
                if may_need_row[collision_pair(pairs, i).second - first] > 0.0:
                    block.pair[queued] = i
                    queued += 1
                    if queued == 8:
                        count = add_parts_of_pairs(item, t, queued, count, barrier)
                        queued = 0
        k = end
    count = add_parts_of_pairs(item, t, queued, count, barrier)
    write_point_rows(item, t, count, False, barrier)
    count = 0
    for i in range(k, n_pairs):
        a, b = collision_pair(pairs, i).first, collision_pair(pairs, i).second
        capsule = capsule_parameters(capsules, a)
        has_ends = capsule.half_length > 0.0
        for part in range(1 if has_ends else 0, 3 if has_ends else 1):
            store_point_in_lane(points, count, t.work.collisions.segments, a, float(part // 2), b)
            row = PendingRow(i, part, t.model.index[item.first + a], -1, 0, barrier.margin + capsule.radius, 0.0)
            count = add_point(item, t, count, row, True, barrier)
    write_point_rows(item, t, count, True, barrier)


@compiled(inline=False)
def add_parts_of_pairs(item: Item, t: TickContext, queued: int, count: int, barrier: Barrier) -> int:
    """Adds the parts of the queued pairs that may need a row to the block of points.

    A pair with a sphere has no ends.  If the critical points of the whole pair are at an end, the row of that end is
    the same.

    Args:
        item: the element.
        t: the tick, with the block of pairs.
        queued: number of pairs in the block.
        count: number of points that wait in the block of points.
        barrier: parameters of the barrier.

    Returns:
        The number of points that wait in the block, fewer than eight.
    """
    block, points, segments = t.work.collisions.pairs, t.work.collisions.points, t.work.collisions.segments
    pairs, capsules, critical = t.model.index[item.second + 1 :], item.parameters[HEADER_SIZE:], block.critical
    for lane in range(queued):
        a, b = collision_pair(pairs, block.pair[lane]).first, collision_pair(pairs, block.pair[lane]).second
        store_segment_in_lane(block.first, lane, segments, a)
        store_segment_in_lane(block.second, lane, segments, b)
        radii = capsule_parameters(capsules, a).radius + capsule_parameters(capsules, b).radius
        block.reach[lane] = barrier.margin + radii
    if queued > 0:
        find_critical_points(block, barrier, POINT_ITERATIONS)
    for lane in range(queued):
        if not critical.part_needs_row[0, lane] > 0.0:
            continue
        k, reach = block.pair[lane], block.reach[lane]
        a, b = collision_pair(pairs, k).first, collision_pair(pairs, k).second
        i, j = t.model.index[item.first + a], t.model.index[item.first + b]
        common = count_common_velocities(t.model, i, j) if j >= 0 else 0
        half, other_half = capsule_parameters(capsules, a).half_length, capsule_parameters(capsules, b).half_length
        has_ball, relaxation = half == 0.0 or other_half == 0.0, 0.0
        if not has_ball:
            relaxation = sliding_relaxation(critical, lane, 2.0 * half, 2.0 * other_half, barrier)
        if relaxation < math.inf:
            store_two_points_in_lane(
                points, count, segments, a, critical.position[lane], b, critical.other_position[lane]
            )
            count = add_point(item, t, count, PendingRow(k, 0, i, j, common, reach, relaxation), False, barrier)
        if not has_ball:
            for part in range(1, 5):
                if critical.part_needs_row[part, lane] > 0.0:
                    if part < 3:
                        store_point_in_lane(points, count, segments, a, float(part - 1), b)
                        count = add_point(item, t, count, PendingRow(k, part, i, j, common, reach, 0.0), False, barrier)
                    else:
                        store_point_in_lane(points, count, segments, b, float(part - 3), a)
                        count = add_point(item, t, count, PendingRow(k, part, j, i, common, reach, 0.0), False, barrier)
    return count


@compiled()
def add_point(item: Item, t: TickContext, count: int, row: PendingRow, from_planes: bool, barrier: Barrier) -> int:
    """Adds a gathered point to the block, and writes the rows of a full block; returns the number of points in it."""
    points = t.work.collisions.points
    points.pair[count] = row.pair
    points.part[count] = row.part
    points.frame[count] = row.frame
    points.other_frame[count] = row.other_frame
    points.common[count] = row.common
    points.reach[count] = row.reach
    points.relaxation[count] = row.relaxation
    if count == 7:
        write_point_rows(item, t, 8, from_planes, barrier)
    return (count + 1) % 8


@compiled(inline=False)
def write_point_rows(item: Item, t: TickContext, count: int, from_planes: bool, barrier: Barrier) -> None:
    """Writes a row for each of the first `count` points of a block that needs one."""
    points = t.work.collisions.points
    if count > 0:
        compute_distance_motion(points, from_planes, barrier, POINT_ITERATIONS)
        compute_row_data(points, from_planes, barrier)
        write_distance_rows(item, t, points, count, barrier)
