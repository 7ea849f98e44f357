"""Rows of `CollisionLimits`, and the data that they read.

Proof of the guarantee.  Let ``phi = h' + k(h)`` for any two points, one of each capsule's segment, with h
the margin of their distance; and let ``h >= 0`` and ``phi >= 0`` for all of them at the start of a period.

1. k(0) = 0, and the slope of k is at most p; so ``h' >= -k(h)`` keeps ``h >= 0`` for as long as ``phi >= 0``.
2. ``phi' = h'' + k'(h) h'``: the row is ``phi' >= -p phi``.  Where phi = 0 it requires ``h'' = k' k <= b``.
3. Over a period with constant a, ``h''(t) = h''(0) + t y`` to first order in t.  ``y = 3 J' a + z``, with J' the time
   derivative of the row along the current velocities (`fill_screws`), and z the time derivative of the drift.  The row
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
   d phi is quadratic in the two positions, and a few iterations find its slope (`find_critical_points`).  The minimum
   is between the ends, which gives one more row, or at an end; both ends always have a row
   (`compute_distance_motion`).
7. A row contains only the joints that move one of the two bodies alone: no distance between them depends on the others.

Eight pairs or points are processed at a time.  A test of the midpoints of all capsules excludes most pairs
(`write_capsule_reaches`).  For the other pairs, `find_critical_points` finds the parts that may need a row, and the
critical points of the whole pair.  A part is the distance of a point from a segment: of an end, or, for the whole pair,
of one critical point from the other.  The rows of eight parts are computed together (`compute_distance_motion`,
`compute_row_data`) and written in the order of pairs and parts (`write_distance_rows`).

A row is the product of the wrench of a distance with the screws of the joints that change it, about the origin of the
world.  A point p of a body has the velocity ``sum_k (a_k + z_k x p) v_k`` over the joints k of its chain, with (a_k,
z_k) the screw of joint k, which is the same for all bodies that the joint moves.  The derivative of a screw follows
from the motion that moves it: with V_k, the sum of ``S_j v_j`` up to joint k, ``S_k' = V_k x S_k`` (Featherstone 2008,
"Rigid Body Dynamics Algorithms", section 2.9).
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ...compiler import (
    Lanes,
    Vec3,
    Vector,
    broadcast8,
    column3,
    compiled,
    cross,
    load8,
    local,
    mask_range8,
    max8,
    min8,
    norm,
    select8,
    set_column3,
    sqrt8,
    store8,
    sum8,
    vec3,
)
from ...compiler.lanes import axpy, clear
from ..collision_data import N_PARTS, CapsuleMidpoints, CapsuleSegments, JointScrews, PointBlock, SegmentBlock
from ..row_writing import Item, finish_limit
from ..tick_data import ControllerModel, FrameKinematics, TickContext, frame_kinematics
from .collision_distances import (
    DRIFT_SPEED_FRACTION,
    HEADER_SIZE,
    MAX_NORMAL_TURN,
    MIN_SEPARATION,
    POINT_ITERATIONS,
    ROW_ACTIVATION_RATIO,
    SECOND_ORDER_MARGIN,
    Barrier,
    abs8,
    add_cross8,
    add_scaled3,
    broadcast3,
    capsule_parameters,
    collision_pair,
    collision_parameters,
    compute_distance_motion,
    cross8,
    difference3,
    dot8,
    find_critical_points,
    lane3,
    load3,
    load3_at,
    min_acceleration,
    norm8,
    row_need,
    scaled3,
    set_lane3,
    sliding_relaxation,
    store3,
    sum3,
    write_moving_segment,
    write_translating_segment,
)


@compiled(inline=True)
def store_segment_in_lane(block: SegmentBlock, lane: int, segments: CapsuleSegments, k: int) -> None:
    """Writes the segment of capsule k to one lane of a block."""
    set_lane3(block.start, lane, vec3(segments.start[k]))
    set_lane3(block.extent, lane, vec3(segments.extent[k]))
    set_lane3(block.start_velocity, lane, vec3(segments.start_velocity[k]))
    set_lane3(block.extent_velocity, lane, vec3(segments.extent_velocity[k]))


@compiled(inline=True)
def store_motion_in_lane(
    position: Vector, velocity: Vector, drift: Vector, lane: int, segments: CapsuleSegments, k: int, s: float
) -> None:
    """Writes the motion of the point of capsule k's segment at position s in [0, 1] to one lane of three fields."""
    set_lane3(position, lane, vec3(segments.start[k]) + s * vec3(segments.extent[k]))
    set_lane3(velocity, lane, vec3(segments.start_velocity[k]) + s * vec3(segments.extent_velocity[k]))
    set_lane3(drift, lane, vec3(segments.start_drift[k]) + s * vec3(segments.extent_drift[k]))


@compiled()
def store_point_in_lane(points: PointBlock, lane: int, segments: CapsuleSegments, a: int, s: float, b: int) -> None:
    """Writes the point of segment a at position s in [0, 1], and segment b, to one lane of a block of points."""
    store_motion_in_lane(points.position, points.velocity, points.drift, lane, segments, a, s)
    store_segment_in_lane(points.segment, lane, segments, b)
    set_lane3(points.start_drift, lane, vec3(segments.start_drift[b]))
    set_lane3(points.extent_drift, lane, vec3(segments.extent_drift[b]))


@compiled(inline=False)
def store_two_points_in_lane(
    points: PointBlock, lane: int, segments: CapsuleSegments, a: int, s: float, b: int, t: float
) -> None:
    """Writes the points of segments a and b at positions s and t to one lane; the second one as a segment."""
    other, zero = points.segment, vec3(0.0, 0.0, 0.0)
    store_motion_in_lane(points.position, points.velocity, points.drift, lane, segments, a, s)
    store_motion_in_lane(other.start, other.start_velocity, points.start_drift, lane, segments, b, t)
    set_lane3(other.extent, lane, zero)
    set_lane3(other.extent_velocity, lane, zero)
    set_lane3(points.extent_drift, lane, zero)


@compiled(inline=False)
def compute_row_data(points: PointBlock, from_planes: bool, barrier: Barrier) -> None:
    """Computes from the motion of eight points which of them need a row, and the bounds and wrenches of the rows."""
    motion, rows, time = points.motion, points.rows, broadcast8(3.0 * barrier.midpoint_time)
    n, w = load3(motion.normal), load3(motion.relative_velocity)
    d, drift = load8(motion.distance, 0), load8(motion.second_derivative, 0)
    approach = dot8(n, w)
    required, remaining_speed = min_acceleration(d - load8(points.reach, 0) - SECOND_ORDER_MARGIN, approach, barrier)
    row_need = required + ROW_ACTIVATION_RATIO * barrier.max_acceleration
    if not from_planes:  # intersecting segments have no separating direction
        row_need = select8(d - MIN_SEPARATION, row_need, broadcast8(-1.0))
    store8(row_need, rows.need, 0)
    store8(remaining_speed, rows.remaining_speed, 0)
    # a new row has little effect at first: its bound rises from far below -ROW_ACTIVATION_RATIO max_acceleration
    activation_deficit = max8(barrier.max_acceleration - row_need, broadcast8(0.0))
    activation = max8(row_need, broadcast8(1e-6 * barrier.max_acceleration))
    store8(
        load8(points.relaxation, 0) + activation_deficit * activation_deficit / activation, rows.relaxation, 0
    )  # fmt: skip
    n_rate = broadcast3(vec3(0.0, 0.0, 0.0))
    if not from_planes:
        drift += barrier.midpoint_time * min8(load8(motion.third_derivative, 0), broadcast8(0.0))
        inverse_distance = broadcast8(1.0) / max8(d, broadcast8(MIN_SEPARATION))
        n_rate = scaled3(inverse_distance, add_scaled3(w, -approach, n))
        turn = time * norm8(n_rate)
        n_rate = scaled3(MAX_NORMAL_TURN / max8(turn, broadcast8(MAX_NORMAL_TURN)), n_rate)
    store8(required - drift, rows.lower, 0)
    # the force of a row and its moment about the origin, now and as they change
    p, p_rate = load3(points.position), load3(points.velocity)
    store3(add_scaled3(p, d, n), rows.other_point)
    moment, moment_rate = cross8(p, n), sum3(cross8(p_rate, n), cross8(p, n_rate))
    store3(scaled3(time, n), rows.rate_force)
    store3(scaled3(time, moment), rows.rate_moment)
    store3(add_scaled3(n, time, n_rate), rows.force)
    store3(add_scaled3(moment, time, moment_rate), rows.moment)


@compiled()
def clear_screws(screws: JointScrews) -> None:
    """Marks all columns as empty."""
    for j in range(len(screws.is_filled)):
        screws.is_filled[j] = 0


@compiled(inline=True)
def add_cross3(a: Vec3, b: Vec3, c: Vec3) -> Vec3:
    """Returns ``a + b x c``."""
    return vec3(a[0] + b[1] * c[2] - b[2] * c[1], a[1] + b[2] * c[0] - b[0] * c[2], a[2] + b[0] * c[1] - b[1] * c[0])


@compiled(inline=False)
def fill_screws(frame: FrameKinematics, v: Vector, base_velocities: int, screws: JointScrews) -> None:
    """Fills the columns of the joints that move a frame.

    Args:
        frame: kinematics of the frame.
        v: (nv,) velocity.
        base_velocities: velocities with a smaller index belong to one joint, the floating base.
        screws: the screws.
    """
    chain, count, origin = frame.chain, len(frame.chain), vec3(frame.origin)
    k = 0
    while k < count:
        end = k + 1
        while end < count and chain[end] < base_velocities:
            end += 1
        if screws.is_filled[chain[k]] == 0:
            body_linear, body_angular, turn_sum_before = vec3(0.0, 0.0, 0.0), vec3(0.0, 0.0, 0.0), 0.0
            if k > 0:
                before = chain[k - 1]
                body_linear, body_angular = (
                    column3(screws.body_linear, 0, before),
                    column3(screws.body_angular, 0, before),
                )
                turn_sum_before = screws.turn_sum[before]
            turn_sum = turn_sum_before
            for i in range(k, end):
                j, angular = chain[i], column3(frame.jacobian, 3, i)
                linear = add_cross3(column3(frame.jacobian, 0, i), origin, angular)
                set_column3(screws.linear, 0, j, linear)
                set_column3(screws.angular, 0, j, angular)
                body_linear += linear * v[j]
                body_angular += angular * v[j]
                turn_sum += norm(angular) * abs(v[j])
            for i in range(k, end):
                j = chain[i]
                linear, angular = column3(screws.linear, 0, j), column3(screws.angular, 0, j)
                set_column3(
                    screws.linear_rate, 0, j, add_cross3(cross(body_angular, linear), body_linear, angular)
                )  # fmt: skip
                set_column3(screws.angular_rate, 0, j, cross(body_angular, angular))
                set_column3(screws.body_linear, 0, j, body_linear)
                set_column3(screws.body_angular, 0, j, body_angular)
                screws.turn_sum[j] = turn_sum
                screws.turn_sum_before[j] = turn_sum if end > k + 1 else turn_sum_before
                screws.speed[j] = abs(v[j])
                screws.is_filled[j] = 1
        k = end


@compiled()
def count_common_velocities(model: ControllerModel, first: int, second: int) -> int:
    """Returns the number of velocities, counted from the root, that move both of two frames."""
    count = 0
    while (
        count < min(model.chains[first, 0], model.chains[second, 0])
        and model.chains[first, 1 + count] == model.chains[second, 1 + count]
    ):
        count += 1
    return count


@compiled(inline=False)
def write_distance_rows(item: Item, t: TickContext, points: PointBlock, count: int, barrier: Barrier) -> None:
    """Writes a row for each of the first `count` points that needs one.

    Only joints that move exactly one of the two bodies change the distance, so that only they have coefficients.  Each
    row also needs a bound of the third derivative of the distance at ``a = 0``.  It is the sum of bounds over these
    joints: a partial derivative of a point with respect to several joints, of any order, is at most as long as the
    column of its Jacobian for the outermost of these joints.
    """
    screws, rows, joint_unknown, lengths = (
        t.work.collisions.screws,
        t.rows,
        t.maps.joint_unknown,
        t.maps.acceleration_length,
    )
    values, n, data = local(8), t.maps.n, points.rows
    for lane in range(count):
        if not data.need[lane] >= 0.0:
            continue
        common, length, jerk, row = points.common[lane], 0.0, broadcast8(0.0), rows.C[rows.n_limits]
        clear(row, n + 1)
        force, moment = lane3(data.force, lane), lane3(data.moment, lane)
        rate_force, rate_moment = lane3(data.rate_force, lane), lane3(data.rate_moment, lane)
        for side in range(2):
            i = points.frame[lane] if side == 0 else points.other_frame[lane]
            point = lane3(points.position, lane) if side == 0 else lane3(data.other_point, lane)
            k, end, start = common, 0, 0.0
            chain = t.model.chains[max(i, 0), 1:]
            if i >= 0:
                end = t.model.chains[i, 0]
            if end > common:
                if screws.is_filled[chain[end - 1]] == 0:
                    fill_screws(frame_kinematics(t.terms, t.model, i), t.v, barrier.base_velocities, screws)
                if common > 0:
                    start = screws.turn_sum[chain[common - 1]]
            while k < end:  # velocities with consecutive indices together
                first, block_size = chain[k], min(8, end - k)
                while chain[k + block_size - 1] != first + block_size - 1:
                    block_size -= 1
                linear, angular = load3_at(screws.linear, first), load3_at(screws.angular, first)
                value = dot8(broadcast3(force), linear)
                value += dot8(broadcast3(moment), angular)
                column_length = norm8(add_cross8(linear, angular, broadcast3(point)))
                jerk += mask_range8(column_length * jerk_factors(screws, first, start), 0, block_size)
                change = dot8(broadcast3(rate_force), load3_at(screws.linear_rate, first))
                change += dot8(broadcast3(rate_moment), load3_at(screws.angular_rate, first))
                store8(value + change, values, 0)
                for j in range(block_size):
                    coefficient = values[j] if side == 1 else -values[j]
                    if joint_unknown[first + j] >= 0:
                        row[joint_unknown[first + j]] += coefficient
                    else:
                        axpy(row, coefficient, t.maps.acceleration[first + j], n + 1)
                    length += abs(coefficient) * lengths[first + j]
                k += block_size
        lower, remaining_speed = data.lower[lane] + barrier.midpoint_time * sum8(jerk), data.remaining_speed[lane]
        if remaining_speed > 0.0:
            allowed_relaxation = remaining_speed * max(DRIFT_SPEED_FRACTION / barrier.period - barrier.p, 0.0)
            lower = max(lower - allowed_relaxation, min(lower - data.relaxation[lane], barrier.max_acceleration))
        row_of_element = N_PARTS * points.pair[lane] + points.part[lane]
        finish_limit(rows, n, lower, math.inf, length, 1.0, item.element_index, row_of_element)


@compiled(inline=True)
def jerk_factors(screws: JointScrews, first: int, start: float) -> Lanes:
    """Returns, for eight joints, by what the lengths of their Jacobian columns contribute to the bound of the jerk.

    Args:
        screws: screws of the joints.
        first: index of the first joint.
        start: sum of the absolute angular velocities of the joints that also move the other body [rad/s].
    """
    turn_after, turn_before = load8(screws.turn_sum, first) - start, load8(screws.turn_sum_before, first) - start
    return (turn_after * (turn_after + turn_before) + turn_before * turn_before) * load8(screws.speed, first)


#: Speed [m/s] below which the approach of capsules is negligible.
NEGLIGIBLE_APPROACH_SPEED = 0.1
#: Position [m] of unused lanes, far from all capsules.
FAR_DISTANCE = 1e6


@compiled(inline=False)
def compute_segments(item: Item, t: TickContext) -> None:
    """Computes the segments of all capsules, and their midpoints."""
    segments, midpoints, parameters = t.work.collisions.segments, t.work.collisions.midpoints, item.parameters
    for k in range(item.size):
        capsule, i = capsule_parameters(parameters[HEADER_SIZE:], k), t.model.index[item.first + k]
        if i >= 0:
            f = frame_kinematics(t.terms, t.model, i)
            write_moving_segment(f.rotation, f.origin, f.velocity, f.drift, capsule, segments, k)
        else:
            write_translating_segment(capsule, segments, k)
        half_extent, half_extent_velocity = 0.5 * vec3(segments.extent[k]), 0.5 * vec3(segments.extent_velocity[k])
        set_column3(midpoints.half_extent, 0, k, half_extent)
        set_column3(midpoints.half_extent_velocity, 0, k, half_extent_velocity)
        set_column3(midpoints.position, 0, k, vec3(segments.start[k]) + half_extent)
        set_column3(midpoints.velocity, 0, k, vec3(segments.start_velocity[k]) + half_extent_velocity)
        midpoints.radius[k] = capsule.radius
    for k in range(item.size, item.size + 7):  # unused lanes beyond the last capsule
        midpoints.position[0, k] = FAR_DISTANCE


@compiled(inline=False)
def write_capsule_reaches(midpoints: CapsuleMidpoints, count: int, barrier: Barrier) -> bool:
    r"""Computes the reach of each capsule: a pair may need a row only if the midpoints are nearer than the sum of both.

    As in `row_need`, with the relative speed s bounded by the sum of the speeds of the two, relative
    to the first capsule.  And :math:`(x + y)^2 \le 2 x^2 + 2 y^2`.

    Returns:
        Whether any speed exceeds `NEGLIGIBLE_APPROACH_SPEED`, so that speeds are worth evaluating.
    """
    first_velocity, excess_speed = broadcast3(column3(midpoints.velocity, 0, 0)), broadcast8(0.0)
    fixed_reach = 0.5 * (
        barrier.margin + SECOND_ORDER_MARGIN + 0.5 * barrier.max_acceleration / (barrier.p * barrier.p)
    )
    for k in range(0, count, 8):
        velocity = difference3(load3_at(midpoints.velocity, k), first_velocity)
        speed = norm8(velocity) + norm8(load3_at(midpoints.half_extent_velocity, k))
        excess_speed += max8(speed - NEGLIGIBLE_APPROACH_SPEED, broadcast8(0.0))
        braking_speed = (
            1.0 + 1.0 / ROW_ACTIVATION_RATIO
        ) * speed + 0.5 * ROW_ACTIVATION_RATIO * barrier.max_acceleration / barrier.p
        reach = load8(midpoints.radius, k) + fixed_reach
        store8(reach + braking_speed * braking_speed * (1.0 / barrier.max_acceleration), midpoints.reach, k)
    return sum8(excess_speed) > 0.0


@compiled(inline=True)
def may_be_near(midpoints: CapsuleMidpoints, a: int, first: int, out: Vector) -> bool:
    """Returns whether any of the eight capsules from `first` on may be within reach of capsule a.

    `out` (8,) is positive for those that may.  The distance of two segments is at least that of their projections on
    the line through their midpoints.
    """
    d = difference3(load3_at(midpoints.position, first), broadcast3(column3(midpoints.position, 0, a)))
    extent_a = dot8(broadcast3(column3(midpoints.half_extent, 0, a)), d)
    extent_b, square = dot8(d, load3_at(midpoints.half_extent, first)), dot8(d, d)
    reach = load8(midpoints.reach, first) + midpoints.reach[a]
    scaled_gap = square - abs8(extent_a) - abs8(extent_b)  # times the distance of the midpoints
    near = select8(scaled_gap, reach * reach * square - scaled_gap * scaled_gap, broadcast8(1.0))
    store8(near, out, 0)
    return sum8(max8(near, broadcast8(0.0))) > 0.0


@compiled(inline=False)
def may_approach(midpoints: CapsuleMidpoints, a: int, first: int, barrier: Barrier, out: Vector) -> bool:
    """Repeats `may_be_near` with the speed of approach, for the capsules that it marked.

    With r from a point of one segment to one of the other, and w its rate of change, r . w is bilinear in the
    positions, as rigid segments have ``u . u' = 0``, and so it is smallest at two ends.
    """
    d = difference3(load3_at(midpoints.position, first), broadcast3(column3(midpoints.position, 0, a)))
    w = difference3(load3_at(midpoints.velocity, first), broadcast3(column3(midpoints.velocity, 0, a)))
    u, u_rate = (
        broadcast3(column3(midpoints.half_extent, 0, a)),
        broadcast3(column3(midpoints.half_extent_velocity, 0, a)),
    )
    h, h_rate = load3_at(midpoints.half_extent, first), load3_at(midpoints.half_extent_velocity, first)
    square = dot8(d, d)
    scaled_gap = square - abs8(dot8(u, d)) - abs8(dot8(d, h))
    change_a, change_b = dot8(u_rate, d) + dot8(u, w), dot8(d, h_rate) + dot8(w, h)
    change_ab = dot8(u, h_rate) + dot8(u_rate, h)
    change = dot8(d, w) - abs8(change_a) - abs8(change_b) - abs8(change_ab)
    distance = max8(scaled_gap, broadcast8(0.0)) / sqrt8(select8(square, square, broadcast8(1.0)))
    reach = load8(midpoints.radius, first) + (midpoints.radius[a] + barrier.margin)
    near = select8(
        scaled_gap, row_need(distance * distance, change, broadcast8(FAR_DISTANCE), reach, barrier), broadcast8(1.0)
    )
    near = select8(load8(out, 0), near, broadcast8(0.0))
    store8(near, out, 0)
    return sum8(max8(near, broadcast8(0.0))) > 0.0


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


@compiled(separate="collision limits")
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
