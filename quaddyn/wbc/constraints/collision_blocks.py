"""Blocks of eight pairs and points: their segments, and which points need rows of `CollisionLimits`."""

from __future__ import annotations

from ...compiler import (
    Vector,
    broadcast8,
    compiled,
    load8,
    max8,
    min8,
    select8,
    store8,
    vec3,
)
from ..collision_data import CapsuleSegments, PointBlock, SegmentBlock
from .distance_barrier import MAX_NORMAL_TURN, ROW_ACTIVATION_RATIO, SECOND_ORDER_MARGIN, Barrier, min_acceleration
from .lane_vectors import add_scaled3, broadcast3, cross8, dot8, load3, norm8, scaled3, set_lane3, store3, sum3
from .pair_motion import MIN_SEPARATION


@compiled(inline=True)
def store_segment_in_lane(block: SegmentBlock, lane: int, segments: CapsuleSegments, k: int) -> None:
    """Writes the segment of capsule k to one lane of a block."""
    set_lane3(block.start, lane, vec3(segments.start[k]))
    set_lane3(block.extent, lane, vec3(segments.extent[k]))
    set_lane3(block.start_velocity, lane, vec3(segments.start_velocity[k]))
    set_lane3(block.extent_velocity, lane, vec3(segments.extent_velocity[k]))


@compiled(inline=True)
def store_motion_in_lane(
    position: Vector, velocity: Vector, drift: Vector, lane: int, segments: CapsuleSegments, k: int, s: float
) -> None:
    """Writes the motion of the point of capsule k's segment at position s in [0, 1] to one lane of three fields."""
    set_lane3(position, lane, vec3(segments.start[k]) + s * vec3(segments.extent[k]))
    set_lane3(velocity, lane, vec3(segments.start_velocity[k]) + s * vec3(segments.extent_velocity[k]))
    set_lane3(drift, lane, vec3(segments.start_drift[k]) + s * vec3(segments.extent_drift[k]))


@compiled()
def store_point_in_lane(points: PointBlock, lane: int, segments: CapsuleSegments, a: int, s: float, b: int) -> None:
    """Writes the point of segment a at position s in [0, 1], and segment b, to one lane of a block of points."""
    store_motion_in_lane(points.position, points.velocity, points.drift, lane, segments, a, s)
    store_segment_in_lane(points.segment, lane, segments, b)
    set_lane3(points.start_drift, lane, vec3(segments.start_drift[b]))
    set_lane3(points.extent_drift, lane, vec3(segments.extent_drift[b]))


@compiled(inline=False)
def store_two_points_in_lane(
    points: PointBlock, lane: int, segments: CapsuleSegments, a: int, s: float, b: int, t: float
) -> None:
    """Writes the points of segments a and b at positions s and t to one lane; the second one as a segment."""
    other, zero = points.segment, vec3(0.0, 0.0, 0.0)
    store_motion_in_lane(points.position, points.velocity, points.drift, lane, segments, a, s)
    store_motion_in_lane(other.start, other.start_velocity, points.start_drift, lane, segments, b, t)
    set_lane3(other.extent, lane, zero)
    set_lane3(other.extent_velocity, lane, zero)
    set_lane3(points.extent_drift, lane, zero)


@compiled(inline=False)
def compute_row_data(points: PointBlock, from_planes: bool, barrier: Barrier) -> None:
    """Computes from the motion of eight points which of them need a row, and the bounds and wrenches of the rows."""
    motion, rows, time = points.motion, points.rows, broadcast8(3.0 * barrier.midpoint_time)
    n, w = load3(motion.normal), load3(motion.relative_velocity)
    d, drift = load8(motion.distance, 0), load8(motion.second_derivative, 0)
    approach = dot8(n, w)
    required, remaining_speed = min_acceleration(d - load8(points.reach, 0) - SECOND_ORDER_MARGIN, approach, barrier)
    row_need = required + ROW_ACTIVATION_RATIO * barrier.max_acceleration
    if not from_planes:  # intersecting segments have no separating direction
        row_need = select8(d - MIN_SEPARATION, row_need, broadcast8(-1.0))
    store8(row_need, rows.need, 0)
    store8(remaining_speed, rows.remaining_speed, 0)
    # a new row has little effect at first: its bound rises from far below -ROW_ACTIVATION_RATIO max_acceleration
    activation_deficit = max8(barrier.max_acceleration - row_need, broadcast8(0.0))
    activation = max8(row_need, broadcast8(1e-6 * barrier.max_acceleration))
    store8(
        load8(points.relaxation, 0) + activation_deficit * activation_deficit / activation, rows.relaxation, 0
    )  # fmt: skip
    n_rate = broadcast3(vec3(0.0, 0.0, 0.0))
    if not from_planes:
        drift += barrier.midpoint_time * min8(load8(motion.third_derivative, 0), broadcast8(0.0))
        inverse_distance = broadcast8(1.0) / max8(d, broadcast8(MIN_SEPARATION))
        n_rate = scaled3(inverse_distance, add_scaled3(w, -approach, n))
        turn = time * norm8(n_rate)
        n_rate = scaled3(MAX_NORMAL_TURN / max8(turn, broadcast8(MAX_NORMAL_TURN)), n_rate)
    store8(required - drift, rows.lower, 0)
    # the force of a row and its moment about the origin, now and as they change
    p, p_rate = load3(points.position), load3(points.velocity)
    store3(add_scaled3(p, d, n), rows.other_point)
    moment, moment_rate = cross8(p, n), sum3(cross8(p_rate, n), cross8(p, n_rate))
    store3(scaled3(time, n), rows.rate_force)
    store3(scaled3(time, moment), rows.rate_moment)
    store3(add_scaled3(n, time, n_rate), rows.force)
    store3(add_scaled3(moment, time, moment_rate), rows.moment)
