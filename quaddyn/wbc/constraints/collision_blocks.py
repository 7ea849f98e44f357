"""Blocks of eight pairs and of eight points: which need rows of `CollisionLimits`, and the data of the rows."""

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
    DISTANCE,
    MIN_SEPARATION,
    NORMAL,
    OTHER_SEGMENT,
    POINT,
    POINT_DRIFT,
    POINT_VELOCITY,
    RELATIVE_VELOCITY,
    SECOND_DERIVATIVE,
    THIRD_DERIVATIVE,
    add_scaled3,
    dot8,
    load3,
    store3,
)
from .segment_motion import EXTENT, EXTENT_DRIFT, EXTENT_VELOCITY, START, START_DRIFT, START_VELOCITY

#: Number of parts of a pair: the whole pair, the two ends of the first capsule, the two ends of the second.
N_PARTS = 5
#: Rows of the row data of eight points: a number that is >= 0 where the point needs a row; remaining speed of approach;
#: lower bound of the row, and its relaxation; wrenches whose products with the joint screws and with the rates of the
#: screws are the row; position of the other point.
ROW_NEED, REMAINING_SPEED, LOWER_BOUND, RELAXATION = 0, 1, 2, 3
WRENCH, WRENCH_OF_RATES, OTHER_POINT, N_ROW_DATA = 4, 10, 16, 19


class PairBlock(NamedTuple):
    """Eight pairs of segments, one per SIMD lane; unused lanes contain old data, which are ignored."""

    P: Vector  # 12 rows: starts and directions of both
    V: Vector  # 12 rows: their velocities
    reach: Vector  # distance of the segments with zero margin [m]
    critical_points: Vector  # N_CRITICAL_POINT_ROWS rows of `critical_points`


class PointBlock(NamedTuple):
    """Eight points, each with the segment or plane to which its distance is limited; unused lanes contain old data."""

    M: Vector  # N_POINT_ROWS rows of `pair_motion`
    reach: Vector  # distance with zero margin [m]
    relaxation: Vector  # relaxation of the bounds of sliding points [m/s^2]
    motion: Vector  # N_MOTION_ROWS rows of `pair_motion`
    row_data: Vector  # N_ROW_DATA rows, see above


@compiled()
def store_pair_in_lane(block: PairBlock, lane: int, a: Vector, b: Vector) -> None:
    """Writes two segments to one lane of a block of pairs."""
    P, V = block.P[lane:], block.V[lane:]
    store_vector_in_lane(P, 0, a, START)
    store_vector_in_lane(P, 3, a, EXTENT)
    store_vector_in_lane(P, 6, b, START)
    store_vector_in_lane(P, 9, b, EXTENT)
    store_vector_in_lane(V, 0, a, START_VELOCITY)
    store_vector_in_lane(V, 3, a, EXTENT_VELOCITY)
    store_vector_in_lane(V, 6, b, START_VELOCITY)
    store_vector_in_lane(V, 9, b, EXTENT_VELOCITY)


@compiled(inline=True)
def store_vector_in_lane(out: Vector, row: int, x: Vector, first: int) -> None:
    """Writes three numbers to one lane of three rows."""
    out[8 * row] = x[first]
    out[8 * row + 8] = x[first + 1]
    out[8 * row + 16] = x[first + 2]


@compiled(inline=True)
def store_segment_point_in_lane(out: Vector, row: int, x: Vector, start: int, extent: int, position: float) -> None:
    """Writes a point of a segment to one lane of three rows."""
    out[8 * row] = x[start] + position * x[extent]
    out[8 * row + 8] = x[start + 1] + position * x[extent + 1]
    out[8 * row + 16] = x[start + 2] + position * x[extent + 2]


@compiled()
def store_point_in_lane(M: Vector, lane: int, a: Vector, position: float, b: Vector) -> None:
    """Writes a point of one segment, at a position in [0, 1], and another segment to one lane of a block of points."""
    out = M[lane:]
    store_segment_point_in_lane(out, POINT, a, START, EXTENT, position)
    store_segment_point_in_lane(out, POINT_VELOCITY, a, START_VELOCITY, EXTENT_VELOCITY, position)
    store_segment_point_in_lane(out, POINT_DRIFT, a, START_DRIFT, EXTENT_DRIFT, position)
    store_vector_in_lane(out, OTHER_SEGMENT + START, b, START)
    store_vector_in_lane(out, OTHER_SEGMENT + EXTENT, b, EXTENT)
    store_vector_in_lane(out, OTHER_SEGMENT + START_VELOCITY, b, START_VELOCITY)
    store_vector_in_lane(out, OTHER_SEGMENT + EXTENT_VELOCITY, b, EXTENT_VELOCITY)
    store_vector_in_lane(out, OTHER_SEGMENT + START_DRIFT, b, START_DRIFT)
    store_vector_in_lane(out, OTHER_SEGMENT + EXTENT_DRIFT, b, EXTENT_DRIFT)


@compiled(inline=False)
def store_two_points_in_lane(M: Vector, lane: int, a: Vector, position: float, b: Vector, other: float) -> None:
    """Writes a point of each of two segments to one lane of a block of points."""
    store_point_in_lane(M, lane, a, position, b)
    out = M[lane:]
    store_segment_point_in_lane(out, OTHER_SEGMENT + START, b, START, EXTENT, other)
    store_segment_point_in_lane(out, OTHER_SEGMENT + START_VELOCITY, b, START_VELOCITY, EXTENT_VELOCITY, other)
    store_segment_point_in_lane(out, OTHER_SEGMENT + START_DRIFT, b, START_DRIFT, EXTENT_DRIFT, other)
    for d in range(3):
        out[8 * (OTHER_SEGMENT + EXTENT + d)] = 0.0
        out[8 * (OTHER_SEGMENT + EXTENT_VELOCITY + d)] = 0.0
        out[8 * (OTHER_SEGMENT + EXTENT_DRIFT + d)] = 0.0


@compiled(inline=False)
def compute_row_data(block: PointBlock, from_planes: bool, barrier: Barrier) -> None:
    """Computes from the motion of eight points which of them need a row, and the bounds and wrenches of the rows."""
    motion, row_data, time = block.motion, block.row_data, 3.0 * barrier.midpoint_time
    nx, ny, nz = load3(motion, NORMAL)
    wx, wy, wz = load3(motion, RELATIVE_VELOCITY)
    d, drift = load8(motion, 8 * DISTANCE), load8(motion, 8 * SECOND_DERIVATIVE)
    approach = dot8(nx, ny, nz, wx, wy, wz)
    required, remaining_speed = min_acceleration(d - load8(block.reach, 0) - SECOND_ORDER_MARGIN, approach, barrier)
    row_need = required + ROW_ACTIVATION_RATIO * barrier.max_acceleration
    if not from_planes:  # intersecting segments have no separating direction
        row_need = select8(d - MIN_SEPARATION, row_need, broadcast8(-1.0))
    store8(row_need, row_data, 8 * ROW_NEED)
    store8(remaining_speed, row_data, 8 * REMAINING_SPEED)
    # a new row has little effect at first: its bound rises from far below -ROW_ACTIVATION_RATIO max_acceleration
    activation_deficit = max8(barrier.max_acceleration - row_need, broadcast8(0.0))
    store8(
        load8(block.relaxation, 0)
        + activation_deficit * activation_deficit / max8(row_need, broadcast8(1e-6 * barrier.max_acceleration)),
        row_data,
        8 * RELAXATION,
    )
    mx, my, mz = broadcast8(0.0), broadcast8(0.0), broadcast8(0.0)  # rate of change of n
    if not from_planes:
        drift += barrier.midpoint_time * min8(load8(motion, 8 * THIRD_DERIVATIVE), broadcast8(0.0))
        inverse_distance = broadcast8(1.0) / max8(d, broadcast8(MIN_SEPARATION))
        mx, my, mz = add_scaled3(wx, wy, wz, -approach, nx, ny, nz)
        mx, my, mz = mx * inverse_distance, my * inverse_distance, mz * inverse_distance
        turn = time * sqrt8(dot8(mx, my, mz, mx, my, mz))
        turn_scale = MAX_NORMAL_TURN / max8(turn, broadcast8(MAX_NORMAL_TURN))
        mx, my, mz = turn_scale * mx, turn_scale * my, turn_scale * mz
    store8(required - drift, row_data, 8 * LOWER_BOUND)
    # the force of a row and its moment about the origin, now and as they change
    ax, ay, az = load3(block.M, POINT)
    px, py, pz = load3(block.M, POINT_VELOCITY)
    store3(ax + d * nx, ay + d * ny, az + d * nz, row_data, OTHER_POINT)
    qx, qy, qz = cross8(ax, ay, az, nx, ny, nz)
    store3(time * nx, time * ny, time * nz, row_data, WRENCH_OF_RATES)
    store3(time * qx, time * qy, time * qz, row_data, WRENCH_OF_RATES + 3)
    store3(nx + time * mx, ny + time * my, nz + time * mz, row_data, WRENCH)
    ux, uy, uz = cross8(px, py, pz, nx, ny, nz)
    hx, hy, hz = cross8(ax, ay, az, mx, my, mz)
    store3(qx + time * (ux + hx), qy + time * (uy + hy), qz + time * (uz + hz), row_data, WRENCH + 3)


@compiled(inline=True)
def cross8(ax: Lanes, ay: Lanes, az: Lanes, bx: Lanes, by: Lanes, bz: Lanes) -> tuple[Lanes, Lanes, Lanes]:
    """Returns ``a x b``."""
    return ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx
