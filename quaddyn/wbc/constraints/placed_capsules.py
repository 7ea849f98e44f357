"""The capsules of `CollisionLimits` where they are now, and which of them may be near each other."""

from __future__ import annotations

import math

from ...compiling import Lanes, Matrix, Vector, compiled, load8, max8, min8, splat8, sqrt8, store8
from ..data import Instant, frame_of
from ..rows import Item
from .collision_blocks import KEPT, SPARE, Barrier
from .pair_motion import dot8
from .segment_motion import moving_ends, resting_ends

#: Numbers before those of the capsules, and of each capsule: ends of its segment, radius, half its length, whether it
#: is a plane (its normal and a point of it), velocity of an obstacle.
HEAD, WIDTH = 4, 12
RADIUS, HALF, FLAT, SPEED = 6, 7, 8, 9
#: Entries of `Work.segments`: ends of a segment, their velocities, their accelerations at a = 0.
SEGMENT = 18
#: Rows of `Work.middles`: middle of a segment and its velocity; from the middle to the second end; how much faster the
#: ends are than the middle; radius.
MIDDLE, MIDDLE_SPEED, ARM, SPIN, SIZE, MIDDLES = 0, 3, 6, 9, 10, 11
#: Entries of `Work.near`: near pairs, fewer than sixteen; those that wait to be looked at; velocities of a row.
WAITING, CHAIN = 16, 24


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
            middles[ARM + d, k] = 0.5 * (x[3 + d] - x[d])
            middles[MIDDLE_SPEED + d, k] = 0.5 * (x[6 + d] + x[9 + d])
            spin += (x[9 + d] - x[6 + d]) * (x[9 + d] - x[6 + d])
        middles[SPIN, k] = 0.5 * math.sqrt(spin)
        middles[SIZE, k] = z[RADIUS]


@compiled(inline=False)
def may_be_near(middles: Matrix, a: int, first: int, by: Barrier, out: Vector) -> None:
    r"""Which of eight capsules may need a row with another one, from their middles alone: `out` is positive there.

    Two capsules are no nearer than along the line of their middles.  None is needed from the room where the largest
    speed is :math:`R = (x + \sqrt{x^2 + 4 p b s}) / 2p` on, s being the speed and :math:`x = p s + \sigma b` with
    `SPARE` for sigma.  Without the root, R is no more than :math:`s + (\sigma + 1) b / p`, nor than
    :math:`(1 + 1 / \sigma) s + \sigma b / p`.
    """
    dx, dy, dz = load3_from(middles, MIDDLE, a, first)
    vx, vy, vz = load3_from(middles, MIDDLE_SPEED, a, first)
    speed = sqrt8(dot8(vx, vy, vz, vx, vy, vz)) + load8(middles, SPIN, first) + middles[SPIN, a]
    brake = min8(speed + (SPARE + 1.0) * by.most / by.p, (1.0 + 1.0 / SPARE) * speed + SPARE * by.most / by.p)
    reach = load8(middles, SIZE, first) + (middles[SIZE, a] + by.margin + KEPT + 0.5 * by.most / (by.p * by.p))
    reach += brake * brake * (0.5 / by.most)
    hx, hy, hz = load8(middles, ARM, first), load8(middles, ARM + 1, first), load8(middles, ARM + 2, first)
    mine = middles[ARM, a] * dx + middles[ARM + 1, a] * dy + middles[ARM + 2, a] * dz
    other, square = dot8(dx, dy, dz, hx, hy, hz), dot8(dx, dy, dz, dx, dy, dz)
    apart = square - max8(mine, -mine) - max8(other, -other)  # times the distance of the middles
    store8(reach * reach * square - apart * max8(apart, splat8(0.0)), out, 0)


@compiled(inline=True)
def load3_from(M: Matrix, row: int, a: int, first: int) -> tuple[Lanes, Lanes, Lanes]:
    """Eight columns less another one, three rows of them."""
    return (
        load8(M, row, first) - M[row, a],
        load8(M, row + 1, first) - M[row + 1, a],
        load8(M, row + 2, first) - M[row + 2, a],
    )
