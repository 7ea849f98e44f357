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
   that turn past each other in parallel.  ``h + h' / p`` is least where ``|r|^2 / 2 + r . w / p`` is, to first order in
   the room over the distance of the segments, and so exactly where it matters.  That is quadratic in the two places;
   its least value is between the ends, which has a row, or at one of them, each of which has one (`pair_motion`).
7. A row is over the joints that move one of the two bodies alone: no distance between them depends on the others.

Pairs are looked at eight at a time: middles of all capsules first, from which most pairs are seen to need no row; then
the motion of each part (`pair_motion`), and numbers of the rows of those that do (`collision_blocks`).
"""

from __future__ import annotations

import math

from ...compiling import (
    IntMatrix,
    IntVector,
    Lanes,
    Matrix,
    Tensor,
    Vector,
    compiled,
    entry,
    load8,
    local,
    min8,
    sqrt8,
    store8,
    zeros,
)
from ..data import Instant, Model, frame_of
from ..rows import Item, bound_motion
from .collision_blocks import (
    BOUND,
    FIRST,
    GIVEN,
    KEPT,
    NEED,
    OTHER,
    PART,
    PARTS,
    SPARE,
    SPARE_SPEED,
    USED,
    WRENCH,
    WRENCH_CHANGE,
    Barrier,
    Block,
    finish,
    gather,
    has_part,
    judge,
    least_acceleration,
    part_motion,
)
from .joint_screws import BEFORE, CHANGE, KNOWN, TURNED, fill_screws, forget_screws
from .pair_motion import CROSSING, MOTION, D, N, S, T, W, dot8, fastest, pair_motion
from .segment_motion import moving_ends, resting_ends

#: Numbers before those of the capsules, and of each capsule: ends of its segment, radius, half its length, whether it
#: is a plane (its normal and a point of it), velocity of an obstacle.
HEAD, WIDTH = 4, 12
RADIUS, HALF, FLAT, SPEED = 6, 7, 8, 9
#: Entries of `Work.segments`: ends of a segment, their velocities, their accelerations at a = 0.
SEGMENT = 18
#: Rows of `Work.middles`: middle of a segment and its velocity; how much faster the ends are than that; radius and half
#: of the length.
MIDDLE, MIDDLE_SPEED, SPIN, SIZE, MIDDLES = 0, 3, 6, 7, 8
#: Entries of `Work.near`: near pairs, fewer than sixteen; those that wait to be looked at; velocities of a row.
WAITING, CHAIN = 16, 24


# -- rows ------------------------------------------------------------------------------------------------------------
@compiled()
def capsule_of(item: Item, k: int) -> Vector:
    """Numbers of a capsule."""
    return item.numbers[HEAD + WIDTH * k : HEAD + WIDTH * (k + 1)]


@compiled(inline=False)
def place_segments(item: Item, t: Instant) -> None:
    """Segments of all capsules, and their middles."""
    middles = t.work.middles
    for k in range(item.size):
        z, x, i = capsule_of(item, k), t.work.segments[k], t.model.index[item.first + k]
        if i >= 0:
            f = frame_of(t.terms, t.model, i)
            moving_ends(f.rotation, f.origin, f.velocity, f.drift, z, x, x[6:], x[12:])
        else:
            resting_ends(z, z[SPEED:], x, x[6:], x[12:])
        spin = 0.0
        for d in range(3):
            middles[MIDDLE + d, k] = 0.5 * (x[d] + x[3 + d])
            middles[MIDDLE_SPEED + d, k] = 0.5 * (x[6 + d] + x[9 + d])
            spin += (x[9 + d] - x[6 + d]) * (x[9 + d] - x[6 + d])
        middles[SPIN, k] = 0.5 * math.sqrt(spin)
        middles[SIZE, k] = z[RADIUS] + z[HALF]


@compiled(inline=False)
def may_be_near(middles: Matrix, a: int, first: int, by: Barrier, out: Vector) -> None:
    r"""Which of eight capsules may need a row with another one, from their middles alone: `out` is positive there.

    None is needed from the room where the largest speed is :math:`R = (x + \sqrt{x^2 + 4 p b s}) / 2p` on, s being the
    speed and :math:`x = p s + \sigma b` with `SPARE` for sigma.  Without the root, R is no more than
    :math:`s + (\sigma + 1) b / p`, nor than :math:`(1 + 1 / \sigma) s + \sigma b / p`.
    """
    dx, dy, dz = load3_from(middles, MIDDLE, a, first)
    vx, vy, vz = load3_from(middles, MIDDLE_SPEED, a, first)
    speed = sqrt8(dot8(vx, vy, vz, vx, vy, vz)) + load8(middles, SPIN, first) + middles[SPIN, a]
    brake = min8(speed + (SPARE + 1.0) * by.most / by.p, (1.0 + 1.0 / SPARE) * speed + SPARE * by.most / by.p)
    reach = load8(middles, SIZE, first) + (middles[SIZE, a] + by.margin + KEPT + 0.5 * by.most / (by.p * by.p))
    reach += brake * brake * (0.5 / by.most)
    store8(reach * reach - dot8(dx, dy, dz, dx, dy, dz), out, 0)


@compiled(inline=True)
def load3_from(M: Matrix, row: int, a: int, first: int) -> tuple[Lanes, Lanes, Lanes]:
    """Eight columns less another one, three rows of them."""
    return (
        load8(M, row, first) - M[row, a],
        load8(M, row + 1, first) - M[row + 1, a],
        load8(M, row + 2, first) - M[row + 2, a],
    )


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
    pair_motion(block.P, block.V, block.C, 0.0, block.motion)
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
            part_motion(block.P, block.V, block.C, 1.0 / by.p, part, flat, motion)
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


@entry("gaps of pairs")
def pair_gaps(
    numbers: Matrix,
    frames: IntVector,
    pairs: IntMatrix,
    rotations: Tensor,
    origins: Matrix,
    velocities: Matrix,
    segments: Matrix,
    out: Matrix,
    rates: Matrix,
    ahead: float,
) -> int:
    """Distances of capsules' surfaces, and how they change; how many pairs there are.

    Args:
        numbers: (capsules, WIDTH).
        frames: (capsules,) numbers of bodies, -1 for obstacles.
        pairs: (pairs, 2) numbers of capsules.
        rotations: (bodies, 3, 3).
        origins: (bodies, 3).
        velocities: (bodies, 6) linear, angular.
        segments: (capsules, SEGMENT), memory.
        out: (pairs, PARTS) [m]; left as it is where there is no such part.
        rates: (pairs, PARTS) [m/s].
        ahead: [s], as of `pair_motion`.
    """
    P, V, C, motion, still = zeros(12, 8), zeros(12, 8), zeros(12, 8), local(MOTION, 8), zeros(6)
    for k in range(len(frames)):
        z, x, i = numbers[k], segments[k], frames[k]
        if i >= 0:
            moving_ends(rotations[i], origins[i], velocities[i], still, z, x, x[6:], x[12:])
        else:
            resting_ends(z, z[SPEED:], x, x[6:], x[12:])
    count: int = pairs.shape[0]
    for first in range(0, count, 8):
        here = min(count - first, 8)
        for lane in range(here):
            gather(P, V, C, lane, segments[pairs[first + lane, 0]], segments[pairs[first + lane, 1]])
        for part in range(2 * PARTS):
            flat = part >= PARTS
            part_motion(P, V, C, ahead, part % PARTS, flat, motion)
            for lane in range(here):
                a, b, at = pairs[first + lane, 0], pairs[first + lane, 1], first + lane
                its_own = (numbers[b, FLAT] != 0.0) == flat
                if its_own and has_part(part % PARTS, flat, numbers[a, HALF], numbers[b, HALF]):
                    d = motion[D, lane]
                    speed = 0.0
                    for e in range(3):
                        speed += motion[N + e, lane] * motion[W + e, lane]
                    crossing = not flat and d < CROSSING
                    out[at, part % PARTS] = (0.0 if crossing else d) - numbers[a, RADIUS] - numbers[b, RADIUS]
                    rates[at, part % PARTS] = 0.0 if crossing else speed
    return count
