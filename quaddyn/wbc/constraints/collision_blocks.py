"""Blocks of eight pairs and of eight points: which need a row of `CollisionLimits`, and the data of the rows."""

from __future__ import annotations

from typing import NamedTuple

from ...compiler import (
    Lanes,
    Vector,
    broadcast8,
    compiled,
    load8,
    max8,
    min8,
    select8,
    sqrt8,
    store8,
)
from .distance_barrier import MAX_NORMAL_TURN, ROW_ACTIVATION_RATIO, SECOND_ORDER_MARGIN, Barrier, min_acceleration
from .pair_motion import (
    CROSSING,
    OTHER,
    POINT,
    POINT_DRIFT,
    POINT_SPEED,
    SECOND,
    THIRD,
    D,
    N,
    W,
    add3,
    dot8,
    load3,
    store3,
)
from .segment_motion import ALONG, ALONG_DRIFT, ALONG_SPEED, START, START_DRIFT, START_SPEED

#: Number of parts of a pair: the whole, the two ends of the first capsule, those of the second.
PARTS = 5
#: Rows of what is known of eight points: what is not negative where one needs a row; speed that is left; its bound, and
#: what of it may be given up; the wrenches that make the row of the screws of joints and of their change; the point
#: that it keeps away from.
NEED, REMAINING_SPEED, BOUND, GIVEN = 0, 1, 2, 3
WRENCH, LATER, THERE, KNOWN = 4, 10, 16, 19


class PairBlock(NamedTuple):
    """Eight pairs of segments side by side; unused lanes contain old data, which are ignored."""

    P: Vector  # 12 rows: starts and directions of both
    V: Vector  # 12 rows: their velocities
    reach: Vector  # distance of the segments with zero margin [m]
    found: Vector  # FOUND rows of `barrier_points`


class PointBlock(NamedTuple):
    """Eight points, each with a segment or plane from which it keeps away; unused lanes contain old data."""

    M: Vector  # KEEPING rows of `pair_motion`
    reach: Vector  # distance with zero margin [m]
    given: Vector  # relaxation of the bounds of sliding points [m/s^2]
    motion: Vector  # MOTION rows
    known: Vector  # KNOWN rows


@compiled()
def gather_pair(block: PairBlock, lane: int, a: Vector, b: Vector) -> None:
    """Writes two segments as a pair of a block."""
    P, V = block.P[lane:], block.V[lane:]
    gather3(P, 0, a, START)
    gather3(P, 3, a, ALONG)
    gather3(P, 6, b, START)
    gather3(P, 9, b, ALONG)
    gather3(V, 0, a, START_SPEED)
    gather3(V, 3, a, ALONG_SPEED)
    gather3(V, 6, b, START_SPEED)
    gather3(V, 9, b, ALONG_SPEED)


@compiled(inline=True)
def gather3(out: Vector, row: int, x: Vector, at: int) -> None:
    """Writes three numbers to one lane of three rows."""
    out[8 * row] = x[at]
    out[8 * row + 8] = x[at + 1]
    out[8 * row + 16] = x[at + 2]


@compiled(inline=True)
def gather_place(out: Vector, row: int, x: Vector, start: int, along: int, position: float) -> None:
    """Writes a point of a segment to one lane of three rows."""
    out[8 * row] = x[start] + position * x[along]
    out[8 * row + 8] = x[start + 1] + position * x[along + 1]
    out[8 * row + 16] = x[start + 2] + position * x[along + 2]


@compiled()
def gather_point(M: Vector, lane: int, a: Vector, position: float, b: Vector) -> None:
    """Writes a point of one segment, at a position in [0, 1], and another segment."""
    out = M[lane:]
    gather_place(out, POINT, a, START, ALONG, position)
    gather_place(out, POINT_SPEED, a, START_SPEED, ALONG_SPEED, position)
    gather_place(out, POINT_DRIFT, a, START_DRIFT, ALONG_DRIFT, position)
    gather3(out, OTHER + START, b, START)
    gather3(out, OTHER + ALONG, b, ALONG)
    gather3(out, OTHER + START_SPEED, b, START_SPEED)
    gather3(out, OTHER + ALONG_SPEED, b, ALONG_SPEED)
    gather3(out, OTHER + START_DRIFT, b, START_DRIFT)
    gather3(out, OTHER + ALONG_DRIFT, b, ALONG_DRIFT)


@compiled(inline=False)
def gather_points(M: Vector, lane: int, a: Vector, position: float, b: Vector, other: float) -> None:
    """Writes a point of each of two segments."""
    gather_point(M, lane, a, position, b)
    out = M[lane:]
    gather_place(out, OTHER + START, b, START, ALONG, other)
    gather_place(out, OTHER + START_SPEED, b, START_SPEED, ALONG_SPEED, other)
    gather_place(out, OTHER + START_DRIFT, b, START_DRIFT, ALONG_DRIFT, other)
    for d in range(3):
        out[8 * (OTHER + ALONG + d)] = 0.0
        out[8 * (OTHER + ALONG_SPEED + d)] = 0.0
        out[8 * (OTHER + ALONG_DRIFT + d)] = 0.0


@compiled(inline=False)
def flag_active_pairs(block: PointBlock, flat: bool, by: Barrier) -> None:
    """Computes which points of a block need a row, and the data of these rows, from the motion of the points."""
    motion, known, time = block.motion, block.known, 3.0 * by.ahead
    nx, ny, nz = load3(motion, N)
    wx, wy, wz = load3(motion, W)
    d, drift = load8(motion, 8 * D), load8(motion, 8 * SECOND)
    approach = dot8(nx, ny, nz, wx, wy, wz)
    required, remaining_speed = min_acceleration(d - load8(block.reach, 0) - SECOND_ORDER_MARGIN, approach, by)
    need = required + ROW_ACTIVATION_RATIO * by.max_acceleration
    if not flat:  # where segments intersect there is no direction apart
        need = select8(d - CROSSING, need, broadcast8(-1.0))
    store8(need, known, 8 * NEED)
    store8(remaining_speed, known, 8 * REMAINING_SPEED)
    # a new row acts little at first: its bound rises from far below -ROW_ACTIVATION_RATIO max_acceleration
    lack = max8(by.max_acceleration - need, broadcast8(0.0))
    store8(load8(block.given, 0) + lack * lack / max8(need, broadcast8(1e-6 * by.max_acceleration)), known, 8 * GIVEN)
    mx, my, mz = broadcast8(0.0), broadcast8(0.0), broadcast8(0.0)  # rate of change of n
    if not flat:
        drift += by.ahead * min8(load8(motion, 8 * THIRD), broadcast8(0.0))
        over = broadcast8(1.0) / max8(d, broadcast8(CROSSING))
        mx, my, mz = add3(wx, wy, wz, -approach, nx, ny, nz)
        mx, my, mz = mx * over, my * over, mz * over
        turn = time * sqrt8(dot8(mx, my, mz, mx, my, mz))
        less = MAX_NORMAL_TURN / max8(turn, broadcast8(MAX_NORMAL_TURN))
        mx, my, mz = less * mx, less * my, less * mz
    store8(required - drift, known, 8 * BOUND)
    # the force of a row and its moment about the origin, now and as they change
    ax, ay, az = load3(block.M, POINT)
    px, py, pz = load3(block.M, POINT_SPEED)
    store3(ax + d * nx, ay + d * ny, az + d * nz, known, THERE)
    qx, qy, qz = cross8(ax, ay, az, nx, ny, nz)
    store3(time * nx, time * ny, time * nz, known, LATER)
    store3(time * qx, time * qy, time * qz, known, LATER + 3)
    store3(nx + time * mx, ny + time * my, nz + time * mz, known, WRENCH)
    ux, uy, uz = cross8(px, py, pz, nx, ny, nz)
    hx, hy, hz = cross8(ax, ay, az, mx, my, mz)
    store3(qx + time * (ux + hx), qy + time * (uy + hy), qz + time * (uz + hz), known, WRENCH + 3)


@compiled(inline=True)
def cross8(ax: Lanes, ay: Lanes, az: Lanes, bx: Lanes, by: Lanes, bz: Lanes) -> tuple[Lanes, Lanes, Lanes]:
    """Returns ``a x b``."""
    return ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx
