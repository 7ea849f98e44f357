"""A row of `CollisionLimits` over the joints that change a distance, from the wrench that it is."""

from __future__ import annotations

import math

from ...compiling import Vector, compiled, local
from ..data import Instant, Model, frame_of
from ..rows import Item, bound_motion
from .collision_blocks import (
    BOUND,
    FIRST,
    GIVEN,
    OTHER,
    PART,
    PARTS,
    SPARE_SPEED,
    USED,
    WRENCH,
    WRENCH_CHANGE,
    Barrier,
    Block,
)
from .joint_screws import BEFORE, CHANGE, KNOWN, TURNED, fill_screws
from .placed_capsules import CHAIN


@compiled()
def pair_of(item: Item, t: Instant, lane: int) -> tuple[int, int]:
    """Capsules of a pair of the block."""
    at = item.second + 1 + 2 * t.work.near[lane]
    return t.model.index[at], t.model.index[at + 1]


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
def write_row(item: Item, t: Instant, block: Block, part: int, lane: int, by: Barrier) -> None:
    """The row of a part of a pair, over the joints that move one of the two and not the other."""
    z, known, k = local(PART), block.known[part], t.work.near[lane]
    for d in range(PART):
        z[d] = known[d, lane]
    a, b = pair_of(item, t, lane)
    i, j = t.model.index[item.first + a], t.model.index[item.first + b]
    common = common_entries(t.model, i, j) if j >= 0 else 0
    count, jerk = add_joints(t, i, common, z, z[FIRST:], -1.0, 0, by.grouped)
    if j >= 0:
        count, more = add_joints(t, j, common, z, z[OTHER:], 1.0, count, by.grouped)
        jerk += more
    lower = z[BOUND] + by.ahead * jerk
    if z[SPARE_SPEED] > 0.0:
        given = z[SPARE_SPEED] * max(USED / by.period - by.p, 0.0)
        lower = max(lower - given, min(lower - z[GIVEN], by.most))
    J, chain = t.work.vectors[0], t.work.near[CHAIN : CHAIN + count]
    bound_motion(t, J, chain, lower, math.inf, 1.0, item.number, PARTS * k + part)


@compiled(inline=False)
def add_joints(
    t: Instant, i: int, common: int, z: Vector, p: Vector, sign: float, first: int, grouped: int
) -> tuple[int, float]:
    """Entries of a row for the joints that move frame i beyond the common ones.

    Args:
        t: the instant.
        i: the frame.
        common: entries of its chain that move the other one, too.
        z: (PART,) what is known of the row.
        p: (3,) the frame's nearest point.
        sign: of the frame in the row.
        first: entries that are there.
        grouped: as of `Barrier`.

    Returns:
        How many entries there are, and what the third derivative of p is no longer than at a = 0 [m/s^3], by these
        joints: no partial derivative of p, of any order, is longer than the column of the outermost of its joints.
    """
    J, chain, count, screws = t.work.vectors[0], t.model.chains[i, 1:], t.model.chains[i, 0], t.work.screws
    if count > 0 and screws[chain[count - 1], KNOWN] == 0.0:
        fill_screws(frame_of(t.terms, t.model, i), t.v, grouped, screws)
    jerk = 0.0
    start = screws[chain[common - 1], TURNED] if common > 0 else 0.0
    for k in range(common, count):
        x, at = screws[chain[k]], first + k - common
        total = z[WRENCH] * x[0] + z[WRENCH + 1] * x[1] + z[WRENCH + 2] * x[2]
        turned = z[WRENCH + 3] * x[3] + z[WRENCH + 4] * x[4] + z[WRENCH + 5] * x[5]
        change = z[WRENCH_CHANGE] * x[CHANGE] + z[WRENCH_CHANGE + 1] * x[CHANGE + 1]
        change += z[WRENCH_CHANGE + 2] * x[CHANGE + 2]
        turning = z[WRENCH_CHANGE + 3] * x[CHANGE + 3] + z[WRENCH_CHANGE + 4] * x[CHANGE + 4]
        turning += z[WRENCH_CHANGE + 5] * x[CHANGE + 5]
        J[at] = sign * ((total + turned) + (change + turning))
        t.work.near[CHAIN + at] = chain[k]
        cx = x[0] + x[4] * p[2] - x[5] * p[1]
        cy = x[1] + x[5] * p[0] - x[3] * p[2]
        cz = x[2] + x[3] * p[1] - x[4] * p[0]
        after, before = x[TURNED] - start, x[BEFORE] - start
        turns = after * after + after * before + before * before
        jerk += math.sqrt(cx * cx + cy * cy + cz * cz) * abs(t.v[chain[k]]) * turns
    return first + max(count - common, 0), jerk
