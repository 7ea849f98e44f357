"""Rows of `CollisionLimits`, and the numbers that they read.

Why rows keep a pair apart.  Let ``phi = h' + k(h)`` for any two points, one of each capsule's segment, h being their
room; with ``h >= 0`` and ``phi >= 0`` for all of them at the start of a period.

1. k(0) = 0, and k has no slope above p; so ``h' >= -k(h)`` keeps ``h >= 0`` for as long as ``phi >= 0``.
2. ``phi' = h'' + k'(h) h'``: the row is ``phi' >= -p phi``.  Where phi = 0 it asks for ``h'' = k' k <= most``.
3. Over a period, with a constant, ``h''(t) = h''(0) + t y``, but for second order in t.  ``y = 3 J' a + z``: J' is the
   derivative of the row by time along the velocities now (`joint_screws`), z that of the drift.  The row asks
   its bound of ``h'' + (dt / 2) (1 + p dt / 3) y``, which is what phi(dt) is made of.
4. phi may decay faster than by p, by nine tenths within the period at most and so never beyond 0, in two cases: where
   drifts alone would ask a pair for more than `most`; and by the less, the more is asked, where a row has just come:
   from -`most` downwards bounds fall like -1 / x, to -infinity where there is no row.
5. z is no less than the derivative of the drift, as far as it falls, minus the jerk of the two points.
6. What holds for the two points of the least phi holds for all: the derivative of a least value is that of the value
   where it is least, however fast that place moves (Danskin 1966).  Nearest points have no such rows: the second
   derivative of their distance falls at once where one leaves the end of its segment, and has no bound for segments
   that turn past each other in parallel.  With d the distance of two points, ``d phi = r . w + d k(h)`` is as good as
   phi: rows keep ``(d phi)' >= (d' / d - p) d phi``.  ``d k(h)`` is nearly linear in ``|r|^2 / 2``, and with its slope
   in place of it d phi is quadratic in the two places; a few rounds find that slope (`barrier_points`).  The least
   value is between the ends, which has a row, or at one of them, each of which has one (`pair_motion`).
7. A row is over the joints that move one of the two bodies alone: no distance between them depends on the others.

Pairs are looked at eight at a time: middles of all capsules first, from which most pairs are seen to need no row; then
the motion of each part (`pair_motion`), and numbers of the rows of those that do (`collision_blocks`).
"""

from __future__ import annotations

from ...compiling import compiled, load8, local, store8, zeros
from ..data import Instant
from ..rows import Item
from .barrier_points import part_motion
from .collision_blocks import (
    NEED,
    PART,
    PARTS,
    SPARE,
    Barrier,
    Block,
    finish,
    gather,
    has_part,
    judge,
    least_acceleration,
)
from .distance_row import pair_of, write_row
from .joint_screws import forget_screws
from .pair_motion import MOTION, D, S, T, fastest
from .placed_capsules import FLAT, HALF, HEAD, RADIUS, WAITING, WIDTH, may_be_near, place_segments


@compiled(inline=False)
def collision_limit_rows(item: Item, t: Instant) -> None:
    """Rows of the near pairs; `index` has the capsules' frames, and the pairs behind their number."""
    dt, p = t.model.period, item.numbers[1]
    grouped = 6 if item.numbers[3] > 0.0 else 0
    by = Barrier(p, item.numbers[2], item.numbers[0], dt, 0.5 * dt * (1.0 + p * dt / 3.0), grouped)
    P, V, C = zeros(12, 8), zeros(12, 8), zeros(12, 8)
    motion, known = local(MOTION, 8), local(PARTS, PART, 8)
    reach, close, gaps = zeros(8), local(8), local(8)
    block = Block(P, V, C, motion, known, reach, close)
    place_segments(item, t)
    forget_screws(t.work.screws)
    count, waiting, planes, of, group = 0, 0, 0, -1, -1
    pairs, near = t.model.index[item.second], t.work.near
    for k in range(pairs):
        a, b = t.model.index[item.second + 1 + 2 * k], t.model.index[item.second + 2 + 2 * k]
        if item.numbers[HEAD + WIDTH * b + FLAT] != 0.0:
            planes += 1
        else:
            if a != of or b // 8 != group:
                of = a
                group = b // 8
                may_be_near(t.work.middles, a, 8 * group, by, gaps)
            if gaps[b - 8 * group] > 0.0:
                near[WAITING + waiting] = k
                waiting += 1
                if waiting == 8:
                    count = sift(item, t, block, count, waiting, by)
                    waiting = 0
    if waiting > 0:
        count = sift(item, t, block, count, waiting, by)
    if count > 0:
        load_block(item, t, block, 0, count, by)
        block_rows(item, t, block, count, False, by)
    count = 0
    for k in range(pairs if planes > 0 else 0):
        b = t.model.index[item.second + 2 + 2 * k]
        if item.numbers[HEAD + WIDTH * b + FLAT] != 0.0:
            near[count] = k
            count += 1
            planes -= 1
            if count == 8 or planes == 0:
                load_block(item, t, block, 0, count, by)
                block_rows(item, t, block, count, True, by)
                count = 0


@compiled(inline=False)
def load_block(item: Item, t: Instant, block: Block, first: int, count: int, by: Barrier) -> None:
    """Pairs of `Work.near` side by side."""
    for lane in range(count):
        a, b = pair_of(item, t, first + lane)
        gather(block.P, block.V, block.C, lane, t.work.segments[a], t.work.segments[b])
        radii = item.numbers[HEAD + WIDTH * a + RADIUS] + item.numbers[HEAD + WIDTH * b + RADIUS]
        block.reach[lane] = by.margin + radii


@compiled(inline=False)
def sift(item: Item, t: Instant, block: Block, count: int, waiting: int, by: Barrier) -> int:
    """Put those of the waiting pairs that are near behind `count` others; rows of the first eight if there are as many.

    Returns:
        How many pairs are left.
    """
    near = t.work.near
    load_block(item, t, block, WAITING, waiting, by)
    part_motion(block, 0, False, 0.0, by.most)
    find_close(block, by)
    for lane in range(waiting):
        if block.close[lane] >= 0.0:
            near[count] = near[WAITING + lane]
            count += 1
    if count < 8:
        return count
    load_block(item, t, block, 0, 8, by)
    block_rows(item, t, block, 8, False, by)
    for lane in range(8, count):
        near[lane - 8] = near[lane]
    return count - 8


@compiled(inline=False)
def find_close(block: Block, by: Barrier) -> None:
    """Which pairs are near: no part of one is nearer than the whole, whose motion is known, nor approaches faster."""
    room = load8(block.motion, D, 0) - load8(block.reach, 0)
    store8(least_acceleration(room, -fastest(block.V), by)[0] + SPARE * by.most, block.close, 0)


@compiled(inline=False)
def block_rows(item: Item, t: Instant, block: Block, count: int, flat: bool, by: Barrier) -> None:
    """Rows of the first pairs of a block."""
    known, motion, ends = block.known, block.motion, False
    for part in range(PARTS):
        if part == 0 or (part < 3 if flat else ends):
            part_motion(block, part, flat, by.p, by.most)
            judge(block, part, flat, by)
            wanted = False
            for lane in range(count):
                a, b = pair_of(item, t, lane)
                half, other_half = item.numbers[HEAD + WIDTH * a + HALF], item.numbers[HEAD + WIDTH * b + HALF]
                both = half > 0.0 and other_half > 0.0
                has = has_part(part, flat, half, other_half)
                if part == 0 and has and not flat:
                    ends = ends or both
                    if both:  # at an end, the row of the end is the same
                        s, t_ = motion[S, lane], motion[T, lane]
                        has = s > 0.0 and s < 1.0 and t_ > 0.0 and t_ < 1.0
                if not has:
                    known[part, NEED, lane] = -1.0
                wanted = wanted or known[part, NEED, lane] >= 0.0
            if wanted:
                finish(block, part, flat, by)
        else:
            for lane in range(count):
                known[part, NEED, lane] = -1.0
    for lane in range(count):
        for part in range(PARTS):
            if known[part, NEED, lane] >= 0.0:
                write_row(item, t, block, part, lane, by)
