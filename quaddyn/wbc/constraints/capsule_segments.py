"""The capsules of `CollisionLimits` in the current state, and a conservative test for pairs that may need a row."""

from __future__ import annotations

from ...compiler import (
    Vector,
    broadcast8,
    column3,
    compiled,
    load8,
    max8,
    select8,
    set_column3,
    sqrt8,
    store8,
    sum8,
    vec3,
)
from ..collision_data import CapsuleMidpoints
from ..row_writing import Item
from ..tick_data import TickContext, frame_kinematics
from .capsule_parameters import HEADER_SIZE, capsule_parameters
from .distance_barrier import ROW_ACTIVATION_RATIO, SECOND_ORDER_MARGIN, Barrier, row_need
from .lane_vectors import abs8, broadcast3, difference3, dot8, load3_at, norm8
from .segment_motion import write_moving_segment, write_translating_segment

#: Speed [m/s] below which the approach of capsules is negligible.
NEGLIGIBLE_APPROACH_SPEED = 0.1
#: Position [m] of unused lanes, far from all capsules.
FAR_DISTANCE = 1e6


@compiled(inline=False)
def compute_segments(item: Item, t: TickContext) -> None:
    """Computes the segments of all capsules, and their midpoints."""
    segments, midpoints, parameters = t.work.collisions.segments, t.work.collisions.midpoints, item.parameters
    for k in range(item.size):
        capsule, i = capsule_parameters(parameters[HEADER_SIZE:], k), t.model.index[item.first + k]
        if i >= 0:
            f = frame_kinematics(t.terms, t.model, i)
            write_moving_segment(f.rotation, f.origin, f.velocity, f.drift, capsule, segments, k)
        else:
            write_translating_segment(capsule, segments, k)
        half_extent, half_extent_velocity = 0.5 * vec3(segments.extent[k]), 0.5 * vec3(segments.extent_velocity[k])
        set_column3(midpoints.half_extent, 0, k, half_extent)
        set_column3(midpoints.half_extent_velocity, 0, k, half_extent_velocity)
        set_column3(midpoints.position, 0, k, vec3(segments.start[k]) + half_extent)
        set_column3(midpoints.velocity, 0, k, vec3(segments.start_velocity[k]) + half_extent_velocity)
        midpoints.radius[k] = capsule.radius
    for k in range(item.size, item.size + 7):  # unused lanes beyond the last capsule
        midpoints.position[0, k] = FAR_DISTANCE


@compiled(inline=False)
def write_capsule_reaches(midpoints: CapsuleMidpoints, count: int, barrier: Barrier) -> bool:
    r"""Computes the reach of each capsule: a pair may need a row only if the midpoints are nearer than the sum of both.

    As in `distance_barrier.row_need`, with the relative speed s bounded by the sum of the speeds of the two, relative
    to the first capsule.  And :math:`(x + y)^2 \le 2 x^2 + 2 y^2`.

    Returns:
        Whether any speed exceeds `NEGLIGIBLE_APPROACH_SPEED`, so that speeds are worth evaluating.
    """
    first_velocity, excess_speed = broadcast3(column3(midpoints.velocity, 0, 0)), broadcast8(0.0)
    fixed_reach = 0.5 * (
        barrier.margin + SECOND_ORDER_MARGIN + 0.5 * barrier.max_acceleration / (barrier.p * barrier.p)
    )
    for k in range(0, count, 8):
        velocity = difference3(load3_at(midpoints.velocity, k), first_velocity)
        speed = norm8(velocity) + norm8(load3_at(midpoints.half_extent_velocity, k))
        excess_speed += max8(speed - NEGLIGIBLE_APPROACH_SPEED, broadcast8(0.0))
        braking_speed = (
            1.0 + 1.0 / ROW_ACTIVATION_RATIO
        ) * speed + 0.5 * ROW_ACTIVATION_RATIO * barrier.max_acceleration / barrier.p
        reach = load8(midpoints.radius, k) + fixed_reach
        store8(reach + braking_speed * braking_speed * (1.0 / barrier.max_acceleration), midpoints.reach, k)
    return sum8(excess_speed) > 0.0


@compiled(inline=True)
def may_be_near(midpoints: CapsuleMidpoints, a: int, first: int, out: Vector) -> bool:
    """Returns whether any of the eight capsules from `first` on may be within reach of capsule a.

    `out` (8,) is positive for those that may.  The distance of two segments is at least that of their projections on
    the line through their midpoints.
    """
    d = difference3(load3_at(midpoints.position, first), broadcast3(column3(midpoints.position, 0, a)))
    extent_a = dot8(broadcast3(column3(midpoints.half_extent, 0, a)), d)
    extent_b, square = dot8(d, load3_at(midpoints.half_extent, first)), dot8(d, d)
    reach = load8(midpoints.reach, first) + midpoints.reach[a]
    scaled_gap = square - abs8(extent_a) - abs8(extent_b)  # times the distance of the midpoints
    near = select8(scaled_gap, reach * reach * square - scaled_gap * scaled_gap, broadcast8(1.0))
    store8(near, out, 0)
    return sum8(max8(near, broadcast8(0.0))) > 0.0


@compiled(inline=False)
def may_approach(midpoints: CapsuleMidpoints, a: int, first: int, barrier: Barrier, out: Vector) -> bool:
    """Repeats `may_be_near` with the speed of approach, for the capsules that it marked.

    With r from a point of one segment to one of the other, and w its rate of change, r . w is bilinear in the
    positions, as rigid segments have ``u . u' = 0``, and so it is smallest at two ends.
    """
    d = difference3(load3_at(midpoints.position, first), broadcast3(column3(midpoints.position, 0, a)))
    w = difference3(load3_at(midpoints.velocity, first), broadcast3(column3(midpoints.velocity, 0, a)))
    u, u_rate = (
        broadcast3(column3(midpoints.half_extent, 0, a)),
        broadcast3(column3(midpoints.half_extent_velocity, 0, a)),
    )
    h, h_rate = load3_at(midpoints.half_extent, first), load3_at(midpoints.half_extent_velocity, first)
    square = dot8(d, d)
    scaled_gap = square - abs8(dot8(u, d)) - abs8(dot8(d, h))
    change_a, change_b = dot8(u_rate, d) + dot8(u, w), dot8(d, h_rate) + dot8(w, h)
    change_ab = dot8(u, h_rate) + dot8(u_rate, h)
    change = dot8(d, w) - abs8(change_a) - abs8(change_b) - abs8(change_ab)
    distance = max8(scaled_gap, broadcast8(0.0)) / sqrt8(select8(square, square, broadcast8(1.0)))
    reach = load8(midpoints.radius, first) + (midpoints.radius[a] + barrier.margin)
    near = select8(
        scaled_gap, row_need(distance * distance, change, broadcast8(FAR_DISTANCE), reach, barrier), broadcast8(1.0)
    )
    near = select8(load8(out, 0), near, broadcast8(0.0))
    store8(near, out, 0)
    return sum8(max8(near, broadcast8(0.0))) > 0.0
