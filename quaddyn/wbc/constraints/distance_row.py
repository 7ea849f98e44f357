"""A row of `CollisionLimits` over the joints that change a distance, from the wrench that it is."""

from __future__ import annotations

import math
from typing import NamedTuple

from ...compiling import Matrix, compiled
from ...compiling.lanes import clear
from ..data import Instant, Model, frame_of
from ..rows import Item, add_acceleration, finish_limit
from .collision_blocks import (
    BOUND,
    GIVEN,
    LATER,
    PARTS,
    SPARE_SPEED,
    THERE,
    USED,
    WRENCH,
    Barrier,
    PointBlock,
)
from .joint_screws import BEFORE, CHANGE, FILLED, TURNED, fill_screws
from .pair_motion import POINT

#: Entries of `Work.near`: pairs that wait, eight; of each of eight points, pair and part, the two frames, and how many
#: velocities move both.
POINTS, POINT_ENTRIES, NEAR = 8, 5, 48


class Listed(NamedTuple):
    """A pair: its number, the frames of a point and of what that keeps away from, velocities that move both."""

    pair: int
    frame: int
    other: int
    common: int


@compiled()
def list_point(t: Instant, lane: int, of: Listed, part: int) -> None:
    """Keep what a point of a block belongs to."""
    at, near = POINTS + POINT_ENTRIES * lane, t.work.near
    near[at] = of.pair
    near[at + 1] = part
    near[at + 2] = of.frame
    near[at + 3] = of.other
    near[at + 4] = of.common


@compiled()
def common_entries(model: Model, first: int, second: int) -> int:
    """How many velocities, counted from the root, move both of two frames."""
    count = 0
    while (
        count < min(model.chains[first, 0], model.chains[second, 0])
        and model.chains[first, 1 + count] == model.chains[second, 1 + count]
    ):
        count += 1
    return count


@compiled(inline=False)
def write_row(item: Item, t: Instant, points: PointBlock, lane: int, by: Barrier) -> None:
    """The row of a point, over the joints that move one of the two bodies and not the other."""
    known, near, at, rows = points.known, t.work.near, POINTS + POINT_ENTRIES * lane, t.rows
    common, length, jerk = near[at + 4], 0.0, 0.0
    clear(rows.C[rows.count[1]], t.maps.n + 1)
    if near[at + 2] >= 0:
        length, jerk = add_joints(t, near[at + 2], common, known, points.M, POINT, lane, -1.0, by.grouped)
    if near[at + 3] >= 0:
        more, more_jerk = add_joints(t, near[at + 3], common, known, known, THERE, lane, 1.0, by.grouped)
        length += more
        jerk += more_jerk
    lower, spare = known[BOUND, lane] + by.ahead * jerk, known[SPARE_SPEED, lane]
    if spare > 0.0:
        given = spare * max(USED / by.period - by.p, 0.0)
        lower = max(lower - given, min(lower - known[GIVEN, lane], by.most))
    finish_limit(rows, t.maps.n, lower, math.inf, length, 1.0, item.number, PARTS * near[at] + near[at + 1])


@compiled(inline=False)
def add_joints(
    t: Instant, i: int, common: int, known: Matrix, P: Matrix, at: int, lane: int, sign: float, grouped: int
) -> tuple[float, float]:
    """Add the joints that move frame i beyond the common ones to a row.

    Args:
        t: the instant.
        i: the frame.
        common: entries of its chain that move the other one, too.
        known: (KNOWN, 8) what is known of rows.
        P: of whose lane three numbers from row `at` on are the frame's point.
        at: the first of them.
        lane: of the row.
        sign: of the frame in the row.
        grouped: as of `Barrier`.

    Returns:
        By what the row's length grows, and what the third derivative of the point is no longer than at a = 0 [m/s^3],
        by these joints: no partial derivative of it, of any order, is longer than the column of the outermost of its
        joints.
    """
    chain, count, screws = t.model.chains[i, 1:], t.model.chains[i, 0], t.work.screws
    if count > 0 and screws[chain[count - 1], FILLED] == 0.0:
        fill_screws(frame_of(t.terms, t.model, i), t.v, grouped, screws)
    fx, fy, fz = sign * known[WRENCH, lane], sign * known[WRENCH + 1, lane], sign * known[WRENCH + 2, lane]
    mx, my, mz = sign * known[WRENCH + 3, lane], sign * known[WRENCH + 4, lane], sign * known[WRENCH + 5, lane]
    gx, gy, gz = sign * known[LATER, lane], sign * known[LATER + 1, lane], sign * known[LATER + 2, lane]
    nx, ny, nz = sign * known[LATER + 3, lane], sign * known[LATER + 4, lane], sign * known[LATER + 5, lane]
    px, py, pz = P[at, lane], P[at + 1, lane], P[at + 2, lane]
    start = screws[chain[common - 1], TURNED] if common > 0 else 0.0
    row, length, jerk = t.rows.C[t.rows.count[1]], 0.0, 0.0
    for k in range(common, count):
        x, j = screws[chain[k]], chain[k]
        ax, ay, az, zx, zy, zz = x[0], x[1], x[2], x[3], x[4], x[5]
        moved = (fx * ax + fy * ay + fz * az) + (mx * zx + my * zy + mz * zz)
        changed = gx * x[CHANGE] + gy * x[CHANGE + 1] + gz * x[CHANGE + 2]
        turned = nx * x[CHANGE + 3] + ny * x[CHANGE + 4] + nz * x[CHANGE + 5]
        length += add_acceleration(t, row, j, moved + (changed + turned))
        cx, cy, cz = ax + zy * pz - zz * py, ay + zz * px - zx * pz, az + zx * py - zy * px
        after, before = x[TURNED] - start, x[BEFORE] - start
        turns = after * after + after * before + before * before
        jerk += math.sqrt(cx * cx + cy * cy + cz * cz) * abs(t.v[j]) * turns
    return length, jerk
