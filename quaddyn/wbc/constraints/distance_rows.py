"""Rows of `CollisionLimits`: products of the wrench of a distance with the screws of the joints that change it."""

from __future__ import annotations

import math
from typing import NamedTuple

from ...compiler import broadcast8, compiled, load8, local, mask_range8, sqrt8, store8, sum8
from ...compiler.lanes import axpy, clear
from ..row_writing import Item, finish_limit
from ..tick_data import ControllerModel, TickContext, frame_kinematics
from .collision_blocks import (
    LOWER_BOUND,
    N_PARTS,
    OTHER_POINT,
    RELAXATION,
    REMAINING_SPEED,
    ROW_NEED,
    WRENCH,
    WRENCH_OF_RATES,
    PointBlock,
)
from .distance_barrier import DRIFT_SPEED_FRACTION, Barrier
from .joint_screws import ABSOLUTE_SPEED, IS_FILLED, SCREW, SCREW_RATE, TURN_SUM, TURN_SUM_BEFORE, fill_screws
from .pair_motion import POINT, dot8, load3_at

#: Entries of `TickScratch.pair_queue`: eight queued pairs; then of each of eight points: pair, part, two frames, and
#: the number of velocities that move both frames.
FIRST_POINT_ENTRY, POINT_ENTRIES, QUEUE_SIZE = 8, 5, 48


class PendingRow(NamedTuple):
    """Pair of shapes whose row has not been written yet.

    Attributes:
        pair: number of the pair.
        frame: index of the frame of the point.
        other: index of the frame of the segment.
        common: number of velocities that move both frames.
        part: index of the part of the pair, see `collision_rows`.
        reach: sum of the radii and of the margin [m].
        relaxation: relaxation of the bound [m/s^2].
    """

    pair: int
    frame: int
    other: int
    common: int
    part: int
    reach: float
    relaxation: float


@compiled()
def store_point_in_queue(t: TickContext, lane: int, row: PendingRow) -> None:
    """Stores the pair, part and frames of a point in the queue.

    Args:
        t: the tick, with the queue.
        lane: index of the point in the block, 0 to 7.
        row: the pair, its frames and the part.
    """
    first, queue = FIRST_POINT_ENTRY + POINT_ENTRIES * lane, t.work.pair_queue
    queue[first] = row.pair
    queue[first + 1] = row.part
    queue[first + 2] = row.frame
    queue[first + 3] = row.other
    queue[first + 4] = row.common


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
    S, rows, joint_unknown, lengths = t.work.screws, t.rows, t.maps.joint_unknown, t.maps.acceleration_length
    values, n = local(8), t.maps.n
    for lane in range(count):
        z, entry = points.row_data[lane:], t.work.pair_queue[FIRST_POINT_ENTRY + POINT_ENTRIES * lane :]
        if not z[8 * ROW_NEED] >= 0.0:
            continue
        px, py, pz = points.M[8 * POINT + lane], points.M[8 * POINT + 8 + lane], points.M[8 * POINT + 16 + lane]
        common, length, jerk, row = entry[4], 0.0, broadcast8(0.0), rows.C[rows.n_limits]
        clear(row, n + 1)
        for side in range(2):
            i, k, end, start = entry[2 + side], common, 0, 0.0
            chain = t.model.chains[max(i, 0), 1:]
            if i >= 0:
                end = t.model.chains[i, 0]
            if end > common:
                if S[IS_FILLED, chain[end - 1]] == 0.0:
                    fill_screws(frame_kinematics(t.terms, t.model, i), t.v, barrier.base_velocities, S)
                if common > 0:
                    start = S[TURN_SUM, chain[common - 1]]
            while k < end:  # velocities with consecutive indices together
                first, block_size = chain[k], min(8, end - k)
                while chain[k + block_size - 1] != first + block_size - 1:
                    block_size -= 1
                ax, ay, az = load3_at(S, SCREW, first)
                x, y, w = load3_at(S, SCREW + 3, first)
                value = z[8 * WRENCH] * ax + z[8 * WRENCH + 8] * ay + z[8 * WRENCH + 16] * az
                value += z[8 * WRENCH + 24] * x + z[8 * WRENCH + 32] * y + z[8 * WRENCH + 40] * w
                ax, ay, az = ax + y * pz - w * py, ay + w * px - x * pz, az + x * py - y * px
                turn_after, turn_before = load8(S, TURN_SUM, first) - start, load8(S, TURN_SUM_BEFORE, first) - start
                turns = (turn_after * (turn_after + turn_before) + turn_before * turn_before) * load8(
                    S, ABSOLUTE_SPEED, first
                )
                jerk += mask_range8(sqrt8(dot8(ax, ay, az, ax, ay, az)) * turns, 0, block_size)
                ax, ay, az = load3_at(S, SCREW_RATE, first)
                x, y, w = load3_at(S, SCREW_RATE + 3, first)
                change = (
                    z[8 * WRENCH_OF_RATES] * ax + z[8 * WRENCH_OF_RATES + 8] * ay + z[8 * WRENCH_OF_RATES + 16] * az
                )
                change += (
                    z[8 * WRENCH_OF_RATES + 24] * x + z[8 * WRENCH_OF_RATES + 32] * y + z[8 * WRENCH_OF_RATES + 40] * w
                )
                store8(value + change, values, 0)
                for j in range(block_size):
                    coefficient = values[j] if side == 1 else -values[j]
                    if joint_unknown[first + j] >= 0:
                        row[joint_unknown[first + j]] += coefficient
                    else:
                        axpy(row, coefficient, t.maps.acceleration[first + j], n + 1)
                    length += abs(coefficient) * lengths[first + j]
                k += block_size
            px, py, pz = z[8 * OTHER_POINT], z[8 * OTHER_POINT + 8], z[8 * OTHER_POINT + 16]
        lower, remaining_speed = z[8 * LOWER_BOUND] + barrier.midpoint_time * sum8(jerk), z[8 * REMAINING_SPEED]
        if remaining_speed > 0.0:
            allowed_relaxation = remaining_speed * max(DRIFT_SPEED_FRACTION / barrier.period - barrier.p, 0.0)
            lower = max(lower - allowed_relaxation, min(lower - z[8 * RELAXATION], barrier.max_acceleration))
        finish_limit(rows, n, lower, math.inf, length, 1.0, item.element_index, N_PARTS * entry[0] + entry[1])
