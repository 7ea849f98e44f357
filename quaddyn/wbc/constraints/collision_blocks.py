"""Eight pairs side by side: which of them need a row of `CollisionLimits`, and what these rows are made of."""

from __future__ import annotations

import math
from typing import NamedTuple

from ...compiling import (
    Lanes,
    Matrix,
    Tensor,
    Vector,
    choose8,
    compiled,
    load8,
    max8,
    min8,
    splat8,
    sqrt8,
    store8,
)
from .pair_motion import (
    AT,
    AT_RATE,
    CROSSING,
    SECOND,
    THIRD,
    D,
    N,
    W,
    dot8,
    load3,
    store3,
)

#: Parts of a pair: the whole, the two ends of the first capsule, those of the second.
PARTS = 5
#: A pair has a row unless it could approach with this many times `most` and not come near its limit.
SPARE = 2.0
#: Room [m] that is kept for what happens within a period beyond the first order in dt.
KEPT = 1e-5
#: What a normal turns by within a period at most.
TURN = 0.5
#: What drifts may use up within a period of the speed that is left.
USED = 0.9

#: Rows of what is known of a part of eight pairs: what is not negative where it needs a row; speed that is left; its
#: bound, and what of it may be given up; the wrenches that make the row of the screws of joints and of their change;
#: the two points.
NEED, SPARE_SPEED, BOUND, GIVEN = 0, 1, 2, 3
WRENCH, WRENCH_CHANGE, FIRST, OTHER, PART = 4, 10, 16, 19, 22


class Barrier(NamedTuple):
    """Numbers that all rows have in common."""

    p: float  # rate [1/s]
    most: float  # largest acceleration [m/s^2]
    margin: float  # [m]
    period: float  # [s]
    ahead: float  # (dt / 2) (1 + p dt / 3) [s]
    grouped: int  # velocities below this one belong to one joint


class Block(NamedTuple):
    """Eight pairs side by side, see `pair_motion`; some may be left over from before, which are not looked at."""

    P: Matrix
    V: Matrix
    C: Matrix
    motion: Matrix  # (MOTION, 8)
    known: Tensor  # (PARTS, PART, 8)
    reach: Vector  # distance of the segments at which there is no room left
    close: Vector  # not negative where any part may need a row


@compiled(inline=False)
def gather(P: Matrix, V: Matrix, C: Matrix, lane: int, a: Vector, b: Vector) -> None:
    """Two segments as a pair of a block."""
    for k in range(6):
        P[k, lane] = a[k]
        V[k, lane] = a[6 + k]
        C[k, lane] = a[12 + k]
        P[6 + k, lane] = b[k]
        V[6 + k, lane] = b[6 + k]
        C[6 + k, lane] = b[12 + k]


@compiled()
def has_part(part: int, flat: bool, half: float, other_half: float) -> bool:
    """Whether a pair has this part: a ball has no ends, and to a plane a capsule is its ends."""
    if flat:
        return part == 0 if half == 0.0 else part == 1 or part == 2
    return part == 0 or (half > 0.0 and other_half > 0.0)


# -- the barrier -----------------------------------------------------------------------------------------------------
@compiled()
def largest_speed(room: float, p: float, most: float) -> float:
    """How fast a pair may approach: ``p h``, and beyond ``h = most / p^2`` what `most` stops in time."""
    soft = most / (p * p)
    if room <= soft:
        return p * room
    return math.sqrt(2.0 * most * (room - 0.5 * soft))


@compiled(inline=True)
def least_acceleration(room: Lanes, speed: Lanes, by: Barrier) -> tuple[Lanes, Lanes]:
    """What ``h'' `` has to be so that ``h' + k(h)`` decays by p at most, k being `largest_speed`; and ``h' + k(h)``."""
    soft, one = by.most / (by.p * by.p), splat8(1.0)
    beyond = room - soft
    brake = sqrt8(max8(2.0 * by.most * (room - 0.5 * soft), splat8(0.0)))
    allowed = choose8(beyond, brake, by.p * room)
    slope = choose8(beyond, by.most / choose8(beyond, brake, one), splat8(by.p))
    spare = speed + allowed
    return min8(-slope * speed - by.p * spare, splat8(by.most)), spare


@compiled(inline=False)
def judge(block: Block, part: int, flat: bool, by: Barrier) -> None:
    """Which pairs of a block need a row for a part, whose motion is known."""
    motion, known = block.motion, block.known[part]
    nx, ny, nz = load3(motion, N)
    wx, wy, wz = load3(motion, W)
    d = load8(motion, D, 0)
    least, spare = least_acceleration(d - load8(block.reach, 0) - KEPT, dot8(nx, ny, nz, wx, wy, wz), by)
    need = least + SPARE * by.most
    if not flat:  # where segments cross no direction leads out
        need = choose8(d - CROSSING, need, splat8(-1.0))
    store8(need, known, NEED, 0)
    store8(least, known, BOUND, 0)
    store8(spare, known, SPARE_SPEED, 0)
    # what comes acts little at first, whatever accelerates the pair: the bound rises from far below -SPARE `most`
    lack = max8(by.most - need, splat8(0.0))
    store8(lack * lack / max8(need, splat8(1e-6 * by.most)), known, GIVEN, 0)


@compiled(inline=False)
def finish(block: Block, part: int, flat: bool, by: Barrier) -> None:
    """What the rows of a part are made of, whose motion is known."""
    motion, known, time = block.motion, block.known[part], 3.0 * by.ahead
    nx, ny, nz = load3(motion, N)
    ax, ay, az = load3(motion, AT)
    px, py, pz = load3(motion, AT_RATE)
    mx, my, mz = splat8(0.0), splat8(0.0), splat8(0.0)  # how n turns
    d, drift = load8(motion, D, 0), load8(motion, SECOND, 0)
    if not flat:
        drift += by.ahead * min8(load8(motion, THIRD, 0), splat8(0.0))
        mx, my, mz = load3(motion, W)
        over = splat8(1.0) / max8(d, splat8(CROSSING))
        mx, my, mz = mx * over, my * over, mz * over
        along = dot8(nx, ny, nz, mx, my, mz)
        mx, my, mz = mx - along * nx, my - along * ny, mz - along * nz
        turn = time * sqrt8(dot8(mx, my, mz, mx, my, mz))
        less = TURN / max8(turn, splat8(TURN))
        mx, my, mz = less * mx, less * my, less * mz
    store8(load8(known, BOUND, 0) - drift, known, BOUND, 0)
    store3(ax, ay, az, known, FIRST)
    store3(ax + d * nx, ay + d * ny, az + d * nz, known, OTHER)
    # the force of a row, and its moment about the origin; what it becomes
    qx, qy, qz = cross8(ax, ay, az, nx, ny, nz)
    store3(time * nx, time * ny, time * nz, known, WRENCH_CHANGE)
    store3(time * qx, time * qy, time * qz, known, WRENCH_CHANGE + 3)
    store3(nx + time * mx, ny + time * my, nz + time * mz, known, WRENCH)
    ux, uy, uz = cross8(px, py, pz, nx, ny, nz)
    hx, hy, hz = cross8(ax, ay, az, mx, my, mz)
    store3(qx + time * (ux + hx), qy + time * (uy + hy), qz + time * (uz + hz), known, WRENCH + 3)


@compiled(inline=True)
def cross8(ax: Lanes, ay: Lanes, az: Lanes, bx: Lanes, by: Lanes, bz: Lanes) -> tuple[Lanes, Lanes, Lanes]:
    """``a x b`` of three."""
    return ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx
