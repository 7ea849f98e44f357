"""The capsules of `CollisionLimits` in the current state, and which of them may be near each other."""

from __future__ import annotations

from ...compiler import Matrix, Vector, broadcast8, compiled, load8, max8, select8, sqrt8, store8, sum8
from ..row_writing import Item
from ..tick_data import TickContext, frame_kinematics
from .distance_barrier import ROW_ACTIVATION_RATIO, SECOND_ORDER_MARGIN, Barrier, row_need
from .pair_motion import dot8, load3_at
from .segment_motion import (
    ALONG,
    ALONG_SPEED,
    START,
    START_SPEED,
    moving_segment,
    resting_segment,
)

#: Speed [m/s] below which the approach of capsules is negligible.
NEGLIGIBLE_APPROACH_SPEED = 0.1
#: Position [m] that is far from everything.
FAR_DISTANCE = 1e6
#: Numbers before those of the capsules, and of each capsule: ends of its segment, radius, half its length, whether it
#: is a plane (its normal and a point of it), velocity of an obstacle.
HEAD, WIDTH = 4, 12
RADIUS, HALF, FLAT, SPEED = 6, 7, 8, 9
#: Rows of `Work.middles`: middle of a segment and its velocity; from the middle to the second end, and how that
#: changes; radius; its share of the distance of two middles within which there may be a row.
MIDDLE, MIDDLE_SPEED, ARM, ARM_SPEED, SIZE, SHARE, MIDDLES = 0, 3, 6, 9, 12, 13, 14


@compiled()
def capsule_of(item: Item, k: int) -> Vector:
    """Returns the parameters of capsule k."""
    return item.parameters[HEAD + WIDTH * k : HEAD + WIDTH * (k + 1)]


@compiled(inline=False)
def place_segments(item: Item, t: TickContext) -> None:
    """Computes the segments of all capsules, and their midpoints."""
    M = t.work.midpoints
    for k in range(item.size):
        z, x, i = capsule_of(item, k), t.work.segments[k], t.model.index[item.first + k]
        if i >= 0:
            f = frame_kinematics(t.terms, t.model, i)
            moving_segment(f.rotation, f.origin, f.velocity, f.drift, z, x)
        else:
            resting_segment(z, z[SPEED:], x)
        ax, ay, az = 0.5 * x[ALONG], 0.5 * x[ALONG + 1], 0.5 * x[ALONG + 2]
        M[ARM, k] = ax
        M[ARM + 1, k] = ay
        M[ARM + 2, k] = az
        M[MIDDLE, k] = x[START] + ax
        M[MIDDLE + 1, k] = x[START + 1] + ay
        M[MIDDLE + 2, k] = x[START + 2] + az
        ax, ay, az = 0.5 * x[ALONG_SPEED], 0.5 * x[ALONG_SPEED + 1], 0.5 * x[ALONG_SPEED + 2]
        M[ARM_SPEED, k] = ax
        M[ARM_SPEED + 1, k] = ay
        M[ARM_SPEED + 2, k] = az
        M[MIDDLE_SPEED, k] = x[START_SPEED] + ax
        M[MIDDLE_SPEED + 1, k] = x[START_SPEED + 1] + ay
        M[MIDDLE_SPEED + 2, k] = x[START_SPEED + 2] + az
        M[SIZE, k] = z[RADIUS]
    for k in range(item.size, item.size + 7):  # padding lanes beyond the last capsule are far from everything
        M[MIDDLE, k] = FAR_DISTANCE


@compiled(inline=False)
def write_capsule_reaches(middles: Matrix, count: int, by: Barrier) -> bool:
    r"""Computes the part of each capsule in the distance of two midpoints within which a pair may have a row.

    As in `distance_barrier.row_need`, with the relative speed s bounded by the sum of the speeds of the two, relative
    to the first capsule.  And :math:`(x + y)^2 \le 2 x^2 + 2 y^2`.

    Returns:
        Whether any speed exceeds `NEGLIGIBLE_APPROACH_SPEED`, so that speeds are worth evaluating.
    """
    ux, uy, uz = middles[MIDDLE_SPEED, 0], middles[MIDDLE_SPEED + 1, 0], middles[MIDDLE_SPEED + 2, 0]
    swift = broadcast8(0.0)
    fixed = 0.5 * (by.margin + SECOND_ORDER_MARGIN + 0.5 * by.max_acceleration / (by.p * by.p))
    for k in range(0, count, 8):
        vx, vy, vz = load3_at(middles, MIDDLE_SPEED, k)
        vx, vy, vz = vx - ux, vy - uy, vz - uz
        sx, sy, sz = load3_at(middles, ARM_SPEED, k)
        speed = sqrt8(dot8(vx, vy, vz, vx, vy, vz)) + sqrt8(dot8(sx, sy, sz, sx, sy, sz))
        swift += max8(speed - NEGLIGIBLE_APPROACH_SPEED, broadcast8(0.0))
        brake = (1.0 + 1.0 / ROW_ACTIVATION_RATIO) * speed + 0.5 * ROW_ACTIVATION_RATIO * by.max_acceleration / by.p
        store8(load8(middles, SIZE, k) + fixed + brake * brake * (1.0 / by.max_acceleration), middles, SHARE, k)
    return sum8(swift) > 0.0


@compiled(inline=True)
def may_be_near(middles: Matrix, a: int, first: int, out: Vector) -> bool:
    """Returns whether any of eight capsules may need a row with another one, by their midpoints; `out` > 0 marks them.

    Two capsules are no nearer than along the line of their midpoints.
    """
    dx, dy, dz = load3_at(middles, MIDDLE, first)
    dx, dy, dz = dx - middles[MIDDLE, a], dy - middles[MIDDLE + 1, a], dz - middles[MIDDLE + 2, a]
    hx, hy, hz = load3_at(middles, ARM, first)
    mine = middles[ARM, a] * dx + middles[ARM + 1, a] * dy + middles[ARM + 2, a] * dz
    other, square = dot8(dx, dy, dz, hx, hy, hz), dot8(dx, dy, dz, dx, dy, dz)
    reach = load8(middles, SHARE, first) + middles[SHARE, a]
    apart = square - max8(mine, -mine) - max8(other, -other)  # times the distance of the middles
    near = select8(apart, reach * reach * square - apart * apart, broadcast8(1.0))
    store8(near, out, 0)
    return sum8(max8(near, broadcast8(0.0))) > 0.0


@compiled(inline=False)
def may_approach(middles: Matrix, a: int, first: int, by: Barrier, out: Vector) -> bool:
    """Repeats `may_be_near` with the speed of approach, for the capsules that it marked.

    With r from a point of one segment to one of the other, and w its rate of change, r . w is bilinear in the
    positions, as rigid segments have ``u . u' = 0``, and so it is smallest at two ends.
    """
    dx, dy, dz = load3_at(middles, MIDDLE, first)
    dx, dy, dz = dx - middles[MIDDLE, a], dy - middles[MIDDLE + 1, a], dz - middles[MIDDLE + 2, a]
    wx, wy, wz = load3_at(middles, MIDDLE_SPEED, first)
    wx, wy, wz = wx - middles[MIDDLE_SPEED, a], wy - middles[MIDDLE_SPEED + 1, a], wz - middles[MIDDLE_SPEED + 2, a]
    hx, hy, hz = load3_at(middles, ARM, first)
    qx, qy, qz = load3_at(middles, ARM_SPEED, first)
    ux, uy, uz = middles[ARM, a], middles[ARM + 1, a], middles[ARM + 2, a]
    px, py, pz = middles[ARM_SPEED, a], middles[ARM_SPEED + 1, a], middles[ARM_SPEED + 2, a]
    mine, other = ux * dx + uy * dy + uz * dz, dot8(dx, dy, dz, hx, hy, hz)
    square = dot8(dx, dy, dz, dx, dy, dz)
    apart = square - max8(mine, -mine) - max8(other, -other)
    mine, other = px * dx + py * dy + pz * dz, dot8(dx, dy, dz, qx, qy, qz)
    mine, other = mine + (ux * wx + uy * wy + uz * wz), other + dot8(wx, wy, wz, hx, hy, hz)
    both = ux * qx + uy * qy + uz * qz + px * hx + py * hy + pz * hz
    change = dot8(dx, dy, dz, wx, wy, wz) - max8(mine, -mine) - max8(other, -other) - max8(both, -both)
    d = max8(apart, broadcast8(0.0)) / sqrt8(select8(square, square, broadcast8(1.0)))
    reach = load8(middles, SIZE, first) + (middles[SIZE, a] + by.margin)
    near = select8(apart, row_need(d * d, change, broadcast8(FAR_DISTANCE), reach, by), broadcast8(1.0))
    near = select8(load8(out, 0), near, broadcast8(0.0))
    store8(near, out, 0)
    return sum8(max8(near, broadcast8(0.0))) > 0.0
