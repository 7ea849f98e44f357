"""The capsules of `CollisionLimits` in the current state, and a conservative test for pairs that may need a row."""

from __future__ import annotations

from ...compiler import Matrix, Vector, broadcast8, compiled, load8, max8, select8, sqrt8, store8, sum8
from ..row_writing import Item
from ..tick_data import TickContext, frame_kinematics
from .distance_barrier import ROW_ACTIVATION_RATIO, SECOND_ORDER_MARGIN, Barrier, row_need
from .pair_motion import dot8, load3_at
from .segment_motion import (
    EXTENT,
    EXTENT_VELOCITY,
    START,
    START_VELOCITY,
    write_moving_segment,
    write_translating_segment,
)

#: Speed [m/s] below which the approach of capsules is negligible.
NEGLIGIBLE_APPROACH_SPEED = 0.1
#: Position [m] of unused lanes, far from all capsules.
FAR_DISTANCE = 1e6
#: Number of parameters before those of the capsules, and per capsule: ends of its segment, radius, half length, whether
#: it is a plane (given by its normal and a point), velocity of an obstacle.
HEADER_SIZE, CAPSULE_SIZE = 4, 12
RADIUS, HALF_LENGTH, IS_PLANE, OBSTACLE_VELOCITY = 6, 7, 8, 9
#: Rows of `TickScratch.midpoints`: midpoint of a segment and its velocity; vector from the midpoint to the second end
#: and its velocity; radius; contribution of the capsule to the distance of midpoints within which a row may be needed.
MIDPOINT, MIDPOINT_VELOCITY, HALF_EXTENT, HALF_EXTENT_VELOCITY, CAPSULE_RADIUS, REACH, N_MIDPOINT_ROWS = (
    0,
    3,
    6,
    9,
    12,
    13,
    14,
)


@compiled()
def capsule_parameters(item: Item, k: int) -> Vector:
    """Returns the parameters of capsule k."""
    return item.parameters[HEADER_SIZE + CAPSULE_SIZE * k : HEADER_SIZE + CAPSULE_SIZE * (k + 1)]


@compiled(inline=False)
def compute_segments(item: Item, t: TickContext) -> None:
    """Computes the segments of all capsules, and their midpoints."""
    M = t.work.midpoints
    for k in range(item.size):
        z, x, i = capsule_parameters(item, k), t.work.segments[k], t.model.index[item.first + k]
        if i >= 0:
            f = frame_kinematics(t.terms, t.model, i)
            write_moving_segment(f.rotation, f.origin, f.velocity, f.drift, z, x)
        else:
            write_translating_segment(z, z[OBSTACLE_VELOCITY:], x)
        ax, ay, az = 0.5 * x[EXTENT], 0.5 * x[EXTENT + 1], 0.5 * x[EXTENT + 2]
        M[HALF_EXTENT, k] = ax
        M[HALF_EXTENT + 1, k] = ay
        M[HALF_EXTENT + 2, k] = az
        M[MIDPOINT, k] = x[START] + ax
        M[MIDPOINT + 1, k] = x[START + 1] + ay
        M[MIDPOINT + 2, k] = x[START + 2] + az
        ax, ay, az = 0.5 * x[EXTENT_VELOCITY], 0.5 * x[EXTENT_VELOCITY + 1], 0.5 * x[EXTENT_VELOCITY + 2]
        M[HALF_EXTENT_VELOCITY, k] = ax
        M[HALF_EXTENT_VELOCITY + 1, k] = ay
        M[HALF_EXTENT_VELOCITY + 2, k] = az
        M[MIDPOINT_VELOCITY, k] = x[START_VELOCITY] + ax
        M[MIDPOINT_VELOCITY + 1, k] = x[START_VELOCITY + 1] + ay
        M[MIDPOINT_VELOCITY + 2, k] = x[START_VELOCITY + 2] + az
        M[CAPSULE_RADIUS, k] = z[RADIUS]
    for k in range(item.size, item.size + 7):  # unused lanes beyond the last capsule
        M[MIDPOINT, k] = FAR_DISTANCE


@compiled(inline=False)
def write_capsule_reaches(midpoints: Matrix, count: int, barrier: Barrier) -> bool:
    r"""Computes the reach of each capsule: a pair may need a row only if the midpoints are nearer than the sum of both.

    As in `distance_barrier.row_need`, with the relative speed s bounded by the sum of the speeds of the two, relative
    to the first capsule.  And :math:`(x + y)^2 \le 2 x^2 + 2 y^2`.

    Returns:
        Whether any speed exceeds `NEGLIGIBLE_APPROACH_SPEED`, so that speeds are worth evaluating.
    """
    ux, uy, uz = (
        midpoints[MIDPOINT_VELOCITY, 0],
        midpoints[MIDPOINT_VELOCITY + 1, 0],
        midpoints[MIDPOINT_VELOCITY + 2, 0],
    )
    excess_speed = broadcast8(0.0)
    fixed_reach = 0.5 * (
        barrier.margin + SECOND_ORDER_MARGIN + 0.5 * barrier.max_acceleration / (barrier.p * barrier.p)
    )
    for k in range(0, count, 8):
        vx, vy, vz = load3_at(midpoints, MIDPOINT_VELOCITY, k)
        vx, vy, vz = vx - ux, vy - uy, vz - uz
        sx, sy, sz = load3_at(midpoints, HALF_EXTENT_VELOCITY, k)
        speed = sqrt8(dot8(vx, vy, vz, vx, vy, vz)) + sqrt8(dot8(sx, sy, sz, sx, sy, sz))
        excess_speed += max8(speed - NEGLIGIBLE_APPROACH_SPEED, broadcast8(0.0))
        braking_speed = (
            1.0 + 1.0 / ROW_ACTIVATION_RATIO
        ) * speed + 0.5 * ROW_ACTIVATION_RATIO * barrier.max_acceleration / barrier.p
        store8(
            load8(midpoints, CAPSULE_RADIUS, k)
            + fixed_reach
            + braking_speed * braking_speed * (1.0 / barrier.max_acceleration),
            midpoints,
            REACH,
            k,
        )
    return sum8(excess_speed) > 0.0


@compiled(inline=True)
def may_be_near(midpoints: Matrix, a: int, first: int, out: Vector) -> bool:
    """Returns whether any of the eight capsules from `first` on may be within reach of capsule a.

    `out` (8,) is positive for those that may.  The distance of two segments is at least that of their projections on
    the line through their midpoints.
    """
    dx, dy, dz = load3_at(midpoints, MIDPOINT, first)
    dx, dy, dz = dx - midpoints[MIDPOINT, a], dy - midpoints[MIDPOINT + 1, a], dz - midpoints[MIDPOINT + 2, a]
    hx, hy, hz = load3_at(midpoints, HALF_EXTENT, first)
    extent_a = midpoints[HALF_EXTENT, a] * dx + midpoints[HALF_EXTENT + 1, a] * dy + midpoints[HALF_EXTENT + 2, a] * dz
    extent_b, square = dot8(dx, dy, dz, hx, hy, hz), dot8(dx, dy, dz, dx, dy, dz)
    reach = load8(midpoints, REACH, first) + midpoints[REACH, a]
    scaled_gap = square - max8(extent_a, -extent_a) - max8(extent_b, -extent_b)  # times the distance of the midpoints
    near = select8(scaled_gap, reach * reach * square - scaled_gap * scaled_gap, broadcast8(1.0))
    store8(near, out, 0)
    return sum8(max8(near, broadcast8(0.0))) > 0.0


@compiled(inline=False)
def may_approach(midpoints: Matrix, a: int, first: int, barrier: Barrier, out: Vector) -> bool:
    """Repeats `may_be_near` with the speed of approach, for the capsules that it marked.

    With r from a point of one segment to one of the other, and w its rate of change, r . w is bilinear in the
    positions, as rigid segments have ``u . u' = 0``, and so it is smallest at two ends.
    """
    dx, dy, dz = load3_at(midpoints, MIDPOINT, first)
    dx, dy, dz = dx - midpoints[MIDPOINT, a], dy - midpoints[MIDPOINT + 1, a], dz - midpoints[MIDPOINT + 2, a]
    wx, wy, wz = load3_at(midpoints, MIDPOINT_VELOCITY, first)
    wx, wy, wz = (
        wx - midpoints[MIDPOINT_VELOCITY, a],
        wy - midpoints[MIDPOINT_VELOCITY + 1, a],
        wz - midpoints[MIDPOINT_VELOCITY + 2, a],
    )
    hx, hy, hz = load3_at(midpoints, HALF_EXTENT, first)
    qx, qy, qz = load3_at(midpoints, HALF_EXTENT_VELOCITY, first)
    ux, uy, uz = midpoints[HALF_EXTENT, a], midpoints[HALF_EXTENT + 1, a], midpoints[HALF_EXTENT + 2, a]
    px, py, pz = (
        midpoints[HALF_EXTENT_VELOCITY, a],
        midpoints[HALF_EXTENT_VELOCITY + 1, a],
        midpoints[HALF_EXTENT_VELOCITY + 2, a],
    )
    term_a, term_b = ux * dx + uy * dy + uz * dz, dot8(dx, dy, dz, hx, hy, hz)
    square = dot8(dx, dy, dz, dx, dy, dz)
    scaled_gap = square - max8(term_a, -term_a) - max8(term_b, -term_b)
    term_a, term_b = px * dx + py * dy + pz * dz, dot8(dx, dy, dz, qx, qy, qz)
    term_a, term_b = term_a + (ux * wx + uy * wy + uz * wz), term_b + dot8(wx, wy, wz, hx, hy, hz)
    term_ab = ux * qx + uy * qy + uz * qz + px * hx + py * hy + pz * hz
    change = dot8(dx, dy, dz, wx, wy, wz) - max8(term_a, -term_a) - max8(term_b, -term_b) - max8(term_ab, -term_ab)
    d = max8(scaled_gap, broadcast8(0.0)) / sqrt8(select8(square, square, broadcast8(1.0)))
    reach = load8(midpoints, CAPSULE_RADIUS, first) + (midpoints[CAPSULE_RADIUS, a] + barrier.margin)
    near = select8(scaled_gap, row_need(d * d, change, broadcast8(FAR_DISTANCE), reach, barrier), broadcast8(1.0))
    near = select8(load8(out, 0), near, broadcast8(0.0))
    store8(near, out, 0)
    return sum8(max8(near, broadcast8(0.0))) > 0.0
