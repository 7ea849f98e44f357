"""Rows of `CollisionLimits`: products of the wrench of a distance with the screws of the joints that change it."""

from __future__ import annotations

import math

from ...compiler import Lanes, broadcast8, compiled, load8, local, mask_range8, store8, sum8
from ...compiler.lanes import axpy, clear
from ..collision_data import N_PARTS, JointScrews, PointBlock
from ..row_writing import Item, finish_limit
from ..tick_data import ControllerModel, TickContext, frame_kinematics
from .distance_barrier import DRIFT_SPEED_FRACTION, Barrier
from .joint_screws import fill_screws
from .lane_vectors import add_cross8, broadcast3, dot8, lane3, load3_at, norm8


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
