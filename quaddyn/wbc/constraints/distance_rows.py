"""Rows of `CollisionLimits` over the joints that change a distance, from the wrench that represents the row."""

from __future__ import annotations

import math
from typing import NamedTuple

from ...compiler import broadcast8, compiled, load8, local, mask_range8, sqrt8, store8, sum8
from ...compiler.lanes import axpy, clear
from ..row_writing import Item, finish_limit
from ..tick_data import ControllerModel, TickContext, frame_kinematics
from .collision_blocks import (
    BOUND,
    GIVEN,
    LATER,
    NEED,
    PARTS,
    REMAINING_SPEED,
    THERE,
    WRENCH,
    PointBlock,
)
from .distance_barrier import DRIFT_SPEED_FRACTION, Barrier
from .joint_screws import BEFORE, CHANGE, FILLED, SCREW, SPEED, TURNED, fill_screws
from .pair_motion import POINT, dot8, load3_at

#: Entries of `TickScratch.pair_queue`: eight waiting pairs; of each of eight points, pair and part, the two frames, and
#: the number of velocities that move both.
POINTS, POINT_ENTRIES, NEAR = 8, 5, 48


class PendingRow(NamedTuple):
    """A pair whose row waits to be written.

    Fields: its number, the frames of point and segment, and the number of velocities that move both.
    """

    pair: int
    frame: int
    other: int
    common: int


@compiled()
def list_point(t: TickContext, lane: int, of: PendingRow, part: int) -> None:
    """Stores the pair and the frames of a point of a block."""
    at, near = POINTS + POINT_ENTRIES * lane, t.work.pair_queue
    near[at] = of.pair
    near[at + 1] = part
    near[at + 2] = of.frame
    near[at + 3] = of.other
    near[at + 4] = of.common


@compiled()
def common_entries(model: ControllerModel, first: int, second: int) -> int:
    """Returns the number of velocities, counted from the root, that move both of two frames."""
    count = 0
    while (
        count < min(model.chains[first, 0], model.chains[second, 0])
        and model.chains[first, 1 + count] == model.chains[second, 1 + count]
    ):
        count += 1
    return count


@compiled(inline=False)
def write_rows(item: Item, t: TickContext, points: PointBlock, count: int, by: Barrier) -> None:
    """Writes the rows of the first points that need one, over the joints that move one of the two bodies alone.

    The third derivatives of the two points at a = 0 are bounded by those joints: no partial derivative of a point, of
    any order, is longer than the column of the outermost of its joints.
    """
    S, rows, joint, lengths = t.work.screws, t.rows, t.maps.joint, t.maps.acceleration_length
    values, n = local(8), t.maps.n
    for lane in range(count):
        z, of = points.known[lane:], t.work.pair_queue[POINTS + POINT_ENTRIES * lane :]
        if not z[8 * NEED] >= 0.0:
            continue
        px, py, pz = points.M[8 * POINT + lane], points.M[8 * POINT + 8 + lane], points.M[8 * POINT + 16 + lane]
        common, length, jerk, row = of[4], 0.0, broadcast8(0.0), rows.C[rows.count[1]]
        clear(row, n + 1)
        for side in range(2):
            i, k, end, start = of[2 + side], common, 0, 0.0
            chain = t.model.chains[max(i, 0), 1:]
            if i >= 0:
                end = t.model.chains[i, 0]
            if end > common:
                if S[FILLED, chain[end - 1]] == 0.0:
                    fill_screws(frame_kinematics(t.terms, t.model, i), t.v, by.grouped, S)
                if common > 0:
                    start = S[TURNED, chain[common - 1]]
            while k < end:  # velocities with consecutive indices together
                first, some = chain[k], min(8, end - k)
                while chain[k + some - 1] != first + some - 1:
                    some -= 1
                ax, ay, az = load3_at(S, SCREW, first)
                x, y, z_ = load3_at(S, SCREW + 3, first)
                value = z[8 * WRENCH] * ax + z[8 * WRENCH + 8] * ay + z[8 * WRENCH + 16] * az
                value += z[8 * WRENCH + 24] * x + z[8 * WRENCH + 32] * y + z[8 * WRENCH + 40] * z_
                ax, ay, az = ax + y * pz - z_ * py, ay + z_ * px - x * pz, az + x * py - y * px
                after, before = load8(S, TURNED, first) - start, load8(S, BEFORE, first) - start
                turns = (after * (after + before) + before * before) * load8(S, SPEED, first)
                jerk += mask_range8(sqrt8(dot8(ax, ay, az, ax, ay, az)) * turns, 0, some)
                ax, ay, az = load3_at(S, CHANGE, first)
                x, y, z_ = load3_at(S, CHANGE + 3, first)
                change = z[8 * LATER] * ax + z[8 * LATER + 8] * ay + z[8 * LATER + 16] * az
                change += z[8 * LATER + 24] * x + z[8 * LATER + 32] * y + z[8 * LATER + 40] * z_
                store8(value + change, values, 0)
                for j in range(some):
                    value_ = values[j] if side == 1 else -values[j]
                    if joint[first + j] >= 0:
                        row[joint[first + j]] += value_
                    else:
                        axpy(row, value_, t.maps.acceleration[first + j], n + 1)
                    length += abs(value_) * lengths[first + j]
                k += some
            px, py, pz = z[8 * THERE], z[8 * THERE + 8], z[8 * THERE + 16]
        lower, remaining_speed = z[8 * BOUND] + by.ahead * sum8(jerk), z[8 * REMAINING_SPEED]
        if remaining_speed > 0.0:
            given = remaining_speed * max(DRIFT_SPEED_FRACTION / by.period - by.p, 0.0)
            lower = max(lower - given, min(lower - z[8 * GIVEN], by.max_acceleration))
        finish_limit(rows, n, lower, math.inf, length, 1.0, item.element_index, PARTS * of[0] + of[1])
