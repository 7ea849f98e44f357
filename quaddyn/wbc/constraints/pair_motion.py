"""Distances of eight points from their segments or planes and their derivatives, one point per SIMD lane.

Segments may be points.
"""

from __future__ import annotations

from ...compiler import Lanes, broadcast8, compiled, max8, store8
from ..collision_data import PointBlock
from .lane_vectors import add_scaled3, difference3, dot8, load3, negative3, norm8, scaled3, store3

#: Distance [m] below which the direction between two points is undefined.
MIN_SEPARATION = 1e-9


@compiled(inline=False)
def compute_point_motion(points: PointBlock, position: Lanes) -> None:
    """Computes the distances of eight points from given points of their segments, and the derivatives.

    With the direction n, and relative velocity w and acceleration c of the segment's point, the second derivative of
    the distance is ``n . c + |w across n|^2 / d``.  Where the points coincide n is 0, and terms divided by d are
    finite.

    Args:
        points: the points; `motion` is written.
        position: position along the segments, in [0, 1].
    """
    segment, motion = points.segment, points.motion
    r = add_scaled3(difference3(load3(segment.start), load3(points.position)), position, load3(segment.extent))
    w = add_scaled3(
        difference3(load3(segment.start_velocity), load3(points.velocity)), position, load3(segment.extent_velocity)
    )
    c = add_scaled3(difference3(load3(points.start_drift), load3(points.drift)), position, load3(points.extent_drift))
    d = norm8(r)
    inverse_distance = broadcast8(1.0) / max8(d, broadcast8(MIN_SEPARATION))
    n = scaled3(inverse_distance, r)
    normal_speed = dot8(n, w)
    second_derivative = dot8(n, c)
    second_derivative += max8(dot8(w, w) - normal_speed * normal_speed, broadcast8(0.0)) * inverse_distance
    store8(d, motion.distance, 0)
    store3(n, motion.normal)
    store3(w, motion.relative_velocity)
    store8(second_derivative, motion.second_derivative, 0)
    store8(
        3.0 * inverse_distance * (dot8(w, c) - normal_speed * second_derivative), motion.third_derivative, 0
    )  # fmt: skip


@compiled(inline=False)
def compute_plane_motion(points: PointBlock) -> None:
    """Computes the distances of eight points from planes, and their derivatives; writes `motion`."""
    motion = points.motion
    n, point_of_plane = load3(points.segment.start), load3(points.segment.extent)
    height = difference3(difference3(load3(points.position), point_of_plane), n)
    store8(dot8(n, height), motion.distance, 0)
    store3(negative3(n), motion.normal)
    store3(difference3(load3(points.segment.start_velocity), load3(points.velocity)), motion.relative_velocity)
    store8(dot8(n, load3(points.drift)), motion.second_derivative, 0)
    store8(broadcast8(0.0), motion.third_derivative, 0)
