"""Distances of the pairs of `CollisionLimits` in SIMD registers: vectors, segments, critical points and the barrier."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ...compiler import (
    IntVector,
    Lanes,
    Matrix,
    Vec3,
    Vector,
    broadcast8,
    compiled,
    cross,
    load8,
    mat3,
    max8,
    min8,
    select8,
    sqrt8,
    store8,
    vec3,
)
from ...kinematics.capsule_model import PARALLEL_SINE_SQUARED
from ...urdf.tree import Array
from ..collision_data import CapsuleSegments, CriticalPoints, PairBlock, PointBlock


class Lanes3(NamedTuple):
    """Eight vectors."""

    x: Lanes
    y: Lanes
    z: Lanes


@compiled(inline=True)
def load3(A: Vector) -> Lanes3:
    """Loads the eight vectors of a field of a block, (24,)."""
    return Lanes3(load8(A, 0), load8(A, 8), load8(A, 16))


@compiled(inline=True)
def store3(a: Lanes3, out: Vector) -> None:
    """Stores eight vectors in a field of a block, (24,)."""
    store8(a.x, out, 0)
    store8(a.y, out, 8)
    store8(a.z, out, 16)


@compiled(inline=True)
def set_lane3(out: Vector, lane: int, x: Vec3) -> None:
    """Writes one of the eight vectors of a field of a block, (24,)."""
    out[lane] = x[0]
    out[8 + lane] = x[1]
    out[16 + lane] = x[2]


@compiled(inline=True)
def lane3(A: Vector, lane: int) -> Vec3:
    """Returns one of the eight vectors of a field of a block, (24,)."""
    return vec3(A[lane], A[8 + lane], A[16 + lane])


@compiled(inline=True)
def load3_at(A: Matrix, first: int) -> Lanes3:
    """Loads eight columns of a matrix of three rows."""
    return Lanes3(load8(A, 0, first), load8(A, 1, first), load8(A, 2, first))


@compiled(inline=True)
def broadcast3(x: Vec3) -> Lanes3:
    """Returns a vector in all lanes."""
    return Lanes3(broadcast8(x[0]), broadcast8(x[1]), broadcast8(x[2]))


@compiled(inline=True)
def sum3(a: Lanes3, b: Lanes3) -> Lanes3:
    """Returns ``a + b``."""
    return Lanes3(a.x + b.x, a.y + b.y, a.z + b.z)


@compiled(inline=True)
def difference3(a: Lanes3, b: Lanes3) -> Lanes3:
    """Returns ``a - b``."""
    return Lanes3(a.x - b.x, a.y - b.y, a.z - b.z)


@compiled(inline=True)
def negative3(a: Lanes3) -> Lanes3:
    """Returns ``-a``."""
    return Lanes3(-a.x, -a.y, -a.z)


@compiled(inline=True)
def scaled3(s: Lanes, a: Lanes3) -> Lanes3:
    """Returns ``s a``."""
    return Lanes3(s * a.x, s * a.y, s * a.z)


@compiled(inline=True)
def add_scaled3(a: Lanes3, s: Lanes, b: Lanes3) -> Lanes3:
    """Returns ``a + s b``."""
    return Lanes3(a.x + s * b.x, a.y + s * b.y, a.z + s * b.z)


@compiled(inline=True)
def dot8(a: Lanes3, b: Lanes3) -> Lanes:
    """Returns ``a . b``."""
    return a.x * b.x + a.y * b.y + a.z * b.z


@compiled(inline=True)
def cross8(a: Lanes3, b: Lanes3) -> Lanes3:
    """Returns ``a x b``."""
    return Lanes3(a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x)


@compiled(inline=True)
def add_cross8(a: Lanes3, b: Lanes3, c: Lanes3) -> Lanes3:
    """Returns ``a + b x c``."""
    return Lanes3(a.x + b.y * c.z - b.z * c.y, a.y + b.z * c.x - b.x * c.z, a.z + b.x * c.y - b.y * c.x)


@compiled(inline=True)
def norm8(a: Lanes3) -> Lanes:
    """Returns the lengths of the vectors."""
    return sqrt8(dot8(a, a))


@compiled(inline=True)
def abs8(x: Lanes) -> Lanes:
    """Returns absolute values."""
    return max8(x, -x)


@compiled(inline=True)
def clamp_to_unit8(x: Lanes) -> Lanes:
    """Returns x clamped to [0, 1]."""
    return min8(max8(x, broadcast8(0.0)), broadcast8(1.0))


#: Number of parameters before those of the capsules, and per capsule.
HEADER_SIZE, CAPSULE_SIZE = 4, 12
#: Number of integers of a pair in its list.
PAIR_ENTRIES = 3


class CollisionParameters(NamedTuple):
    """Parameters that all pairs share."""

    margin: float  # [m]
    barrier_rate: float  # [1/s]
    max_acceleration: float  # [m/s^2]
    has_floating_base: bool


class CapsuleParameters(NamedTuple):
    """Parameters of a capsule or plane, in its body, or in the world for an obstacle."""

    start: Vector  # (3,) first end of its segment [m]; of a plane, the normal
    end: Vector  # (3,) second end [m]; of a plane, one of its points
    radius: float  # [m]
    half_length: float  # of the segment [m]
    is_plane: bool
    velocity: Vector  # (3,) of an obstacle [m/s]


class CollisionPair(NamedTuple):
    """Pair of capsules."""

    first: int  # index of the first capsule
    second: int  # index of the second capsule
    run_end: int  # end of its run: the pairs with the same first capsule and nearby second ones


@compiled()
def collision_parameters(z: Vector) -> CollisionParameters:
    """Returns the parameters at the beginning of a parameter block."""
    return CollisionParameters(z[0], z[1], z[2], z[3] > 0.0)


@compiled()
def capsule_parameters(z: Vector, k: int) -> CapsuleParameters:
    """Returns views of the parameters of capsule k.

    Args:
        z: parameters of all capsules, one after the other.
        k: index of the capsule.
    """
    c = z[CAPSULE_SIZE * k :]
    return CapsuleParameters(c[0:3], c[3:6], c[6], c[7], c[8] != 0.0, c[9:12])


def make_capsule_parameters(ends: Array, radius: float, *, is_plane: bool = False) -> Array:
    """Returns the (CAPSULE_SIZE,) parameters of a capsule or plane at rest.

    Args:
        ends: (2, 3) ends of its segment; of a plane, the normal and one of its points [m].
        radius: radius [m].
        is_plane: whether it is a plane.
    """
    half_length = 0.0 if is_plane else 0.5 * float(np.linalg.norm(ends[1] - ends[0]))
    return np.array([*ends.ravel(), radius, half_length, float(is_plane), 0.0, 0.0, 0.0])


@compiled()
def collision_pair(pairs: IntVector, k: int) -> CollisionPair:
    """Returns pair k of a list of pairs."""
    first = PAIR_ENTRIES * k
    return CollisionPair(pairs[first], pairs[first + 1], pairs[first + 2])


@compiled(inline=False)
def write_moving_segment(
    rotation: Matrix, origin: Vector, velocity: Vector, drift: Vector, capsule: CapsuleParameters,
    segments: CapsuleSegments, k: int,
) -> None:  # fmt: skip
    """Computes the motion of a segment that is fixed to a body.

    Args:
        rotation: (3, 3) rotation of the body.
        origin: (3,) position of its origin.
        velocity: (6,) linear and angular velocity.
        drift: (6,) acceleration at a = 0.
        capsule: the capsule in the body.
        segments: takes the motion.
        k: index of the capsule.
    """
    R, omega, alpha = mat3(rotation), vec3(velocity[3:6]), vec3(drift[3:6])
    start = R @ vec3(capsule.start)
    start_velocity = cross(omega, start)
    segments.start[k] = vec3(origin) + start
    segments.start_velocity[k] = vec3(velocity[0:3]) + start_velocity
    segments.start_drift[k] = vec3(drift[0:3]) + cross(omega, start_velocity) + cross(alpha, start)
    extent = R @ (vec3(capsule.end) - vec3(capsule.start))
    extent_velocity = cross(omega, extent)
    segments.extent[k] = extent
    segments.extent_velocity[k] = extent_velocity
    segments.extent_drift[k] = cross(omega, extent_velocity) + cross(alpha, extent)


@compiled()
def write_translating_segment(capsule: CapsuleParameters, segments: CapsuleSegments, k: int) -> None:
    """Writes the motion of a segment whose ends both move with the velocity of an obstacle."""
    zero = vec3(0.0, 0.0, 0.0)
    segments.start[k] = vec3(capsule.start)
    segments.extent[k] = vec3(capsule.end) - vec3(capsule.start)
    segments.start_velocity[k] = vec3(capsule.velocity)
    segments.extent_velocity[k] = zero
    segments.start_drift[k] = zero
    segments.extent_drift[k] = zero


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


#: A pair has a row unless it could accelerate toward its limit by this multiple of `max_acceleration` without
#: reaching it.
ROW_ACTIVATION_RATIO = 2.0
#: Additional margin [m] for the terms of second order in dt within a period.
SECOND_ORDER_MARGIN = 1e-5
#: Smallest fraction of the slope k' where capsules penetrate deeply.
MIN_SLOPE_FRACTION = 0.2
#: Largest rotation of a normal within a period [rad].
MAX_NORMAL_TURN = 0.5
#: Fraction of the remaining speed of approach that drifts may consume within a period.
DRIFT_SPEED_FRACTION = 0.9
#: Rounding error of distances [m], added to the distance within which a pair may need a row.
DISTANCE_ROUNDING = 1e-9


class Barrier(NamedTuple):
    """Parameters of the barrier that all rows share."""

    p: float  # barrier rate [1/s]
    max_acceleration: float  # largest acceleration [m/s^2]
    margin: float  # [m]
    period: float  # [s]
    midpoint_time: float  # (dt / 2) (1 + p dt / 3) [s]
    base_velocities: int  # velocities with a smaller index belong to one joint, the floating base


@compiled()
def max_approach_speed(margin: float, p: float, max_acceleration: float) -> float:
    """Returns the largest approach speed: ``p h``, and for ``h > b / p^2`` the speed that b can stop.

    Args:
        margin: h, distance above the minimum distance [m].
        p: barrier rate [1/s].
        max_acceleration: b, largest acceleration [m/s^2].
    """
    linear_margin = max_acceleration / (p * p)
    if margin <= linear_margin:
        return p * margin
    return math.sqrt(2.0 * max_acceleration * (margin - 0.5 * linear_margin))


@compiled(inline=True)
def min_acceleration(margin: Lanes, speed: Lanes, barrier: Barrier) -> tuple[Lanes, Lanes]:
    """Returns the smallest ``h''`` with which ``h' + k(h)`` decays by at most p, and ``h' + k(h)``.

    k is `max_approach_speed`.
    """
    linear_margin, one = barrier.max_acceleration / (barrier.p * barrier.p), broadcast8(1.0)
    is_beyond = margin - linear_margin
    braking_speed = sqrt8(max8(2.0 * barrier.max_acceleration * (margin - 0.5 * linear_margin), broadcast8(0.0)))
    allowed_speed = select8(is_beyond, braking_speed, barrier.p * margin)
    slope = select8(is_beyond, barrier.max_acceleration / select8(is_beyond, braking_speed, one), broadcast8(barrier.p))
    remaining_speed = speed + allowed_speed
    return min8(-slope * speed - barrier.p * remaining_speed, broadcast8(barrier.max_acceleration)), remaining_speed


@compiled(inline=True)
def row_need(square: Lanes, change: Lanes, max_speed: Lanes, reach: Lanes, barrier: Barrier) -> Lanes:
    r"""Returns, for eight pairs of points, numbers that are positive if the pair may need a row; only the sign counts.

    The pairs are given by bounds of their distance and approach speed s.  No row is needed beyond the margin at which
    `max_approach_speed` is :math:`R = (x + \sqrt{x^2 + 4 p b s}) / 2p`, where :math:`x = p s + \sigma b`, b is
    `max_acceleration`, and sigma is `ROW_ACTIVATION_RATIO`.  The number is computed with the upper bound
    :math:`(1 + 1 / \sigma) s + \sigma b / p` of R, which has no root.

    Args:
        square: square of the smallest distance of the points, whose difference is r [m^2].
        change: smallest ``r . w``, w being their relative velocity [m^2/s].
        max_speed: largest length of w [m/s].
        reach: distance with zero margin [m].
        barrier: parameters of the barrier.
    """
    d = sqrt8(max8(square, broadcast8(0.0)))
    speed = min8(max8(-change, broadcast8(0.0)), max_speed * d)  # times d
    braking_speed = (1.0 + 1.0 / ROW_ACTIVATION_RATIO) * speed + (
        ROW_ACTIVATION_RATIO * barrier.max_acceleration / barrier.p
    ) * d
    margin = d - (
        reach + (SECOND_ORDER_MARGIN + DISTANCE_ROUNDING + 0.5 * barrier.max_acceleration / (barrier.p * barrier.p))
    )
    return (
        braking_speed * braking_speed * (0.5 / barrier.max_acceleration)
        - margin * max8(square, broadcast8(0.0))
        + DISTANCE_ROUNDING * DISTANCE_ROUNDING
    )


#: Number of iterations for the points, each with the preview time of the previous points; the first finds the nearest.
POINT_ITERATIONS = 4
#: Number of periods over which rows of points between the ends appear and disappear.
SLIDING_PERIODS = 10.0


@compiled(inline=True)
def preview_time(square: Lanes, reach: Lanes, p: float, max_acceleration: float) -> Lanes:
    """Returns the preview time of the points with the least ``d (h' + k(h))`` [s]: ``1 / (k'(h) + k(h) / d)``.

    ``d (h' + k(h))`` is ``r . w + d k(h)``, and the derivative of ``d k(h)`` by ``|r|^2 / 2`` is the inverse of this
    time.

    Args:
        square: square of the current distance [m^2].
        reach: distance with zero margin [m].
        p: barrier rate [1/s].
        max_acceleration: largest acceleration [m/s^2].
    """
    d, linear_margin = (
        max8(sqrt8(max8(square, broadcast8(0.0))), broadcast8(MIN_SEPARATION)),
        max_acceleration / (p * p),
    )
    margin = d - reach - SECOND_ORDER_MARGIN
    is_beyond = margin - linear_margin
    braking_speed = sqrt8(max8(2.0 * max_acceleration * (margin - 0.5 * linear_margin), broadcast8(0.0)))
    # k' = max_acceleration / brake, k = brake; and k' = p, k = p h, with a lower bound
    denominator = select8(
        is_beyond, max_acceleration * (d + 2.0 * margin - linear_margin), p * max8(d + margin, MIN_SLOPE_FRACTION * d)
    )
    return select8(is_beyond, braking_speed, broadcast8(1.0)) * d / denominator


@compiled(inline=False)
def find_critical_points(block: PairBlock, barrier: Barrier, iterations: int) -> None:
    """Finds which parts of eight pairs may need a row, and the critical points of the whole pairs.

    With segments from x along u and from y along h, the points are ``x + s u`` and ``y + t h``, r is ``y - x`` and w
    its rate of change.  Where the minimum is not inside both segments, the first position is 0 or 1.

    Args:
        block: the pairs; `critical` is written.
        barrier: parameters of the barrier.
        iterations: `POINT_ITERATIONS`, or 1 for the nearest points.
    """
    first, second, out, zero, one = block.first, block.second, block.critical, broadcast8(0.0), broadcast8(1.0)
    reach = load8(block.reach, 0)
    r, w = (
        difference3(load3(second.start), load3(first.start)),
        difference3(load3(second.start_velocity), load3(first.start_velocity)),
    )
    u, u_rate = load3(first.extent), load3(first.extent_velocity)
    h, h_rate = load3(second.extent), load3(second.extent_velocity)
    # speeds of the four pairs of ends
    w_ends = sum3(w, h_rate)
    max_speed = max8(dot8(w, w), dot8(w_ends, w_ends))
    w_ends = difference3(w_ends, u_rate)
    w_end = difference3(w, u_rate)
    max_speed = sqrt8(max8(max_speed, max8(dot8(w_ends, w_ends), dot8(w_end, w_end))))
    rr, ur, hr = dot8(r, r), dot8(u, r), dot8(h, r)
    uu, uh, hh = dot8(u, u), dot8(u, h), dot8(h, h)
    uh_rate = dot8(u_rate, h) + dot8(u, h_rate)
    ur_rate = dot8(u_rate, r) + dot8(u, w)
    hr_rate = dot8(h_rate, r) + dot8(h, w)
    over_uu, over_hh, uu_hh = one / select8(uu, uu, one), one / select8(hh, hh, one), uu * hh
    # bounds for each part: distance of the nearest points, speed of the fastest ends; r . w, which is bilinear in the
    # positions, is smallest at two ends
    both_start = dot8(r, w)
    first_start, other_start = min8(both_start, both_start + hr_rate), min8(both_start, both_start - ur_rate)
    both_end = both_start + hr_rate - ur_rate - uh_rate
    first_end, other_end = min8(both_start - ur_rate, both_end), min8(both_start + hr_rate, both_end)
    t = clamp_to_unit8(-hr * over_hh)
    square = rr + t * (2.0 * hr + t * hh)
    store8(row_need(square, first_start, max_speed, reach, barrier), out.part_needs_row, 1, 0)
    t = clamp_to_unit8((uh - hr) * over_hh)
    square = (rr - 2.0 * ur + uu) + t * (2.0 * (hr - uh) + t * hh)
    store8(row_need(square, first_end, max_speed, reach, barrier), out.part_needs_row, 2, 0)
    s = clamp_to_unit8(ur * over_uu)
    square = rr - s * (2.0 * ur - s * uu)
    store8(row_need(square, other_start, max_speed, reach, barrier), out.part_needs_row, 3, 0)
    s = clamp_to_unit8((ur + uh) * over_uu)
    square = (rr + 2.0 * hr + hh) - s * (2.0 * (ur + uh) - s * uu)
    store8(row_need(square, other_end, max_speed, reach, barrier), out.part_needs_row, 4, 0)
    preview, b, determinant = zero, uh, uu_hh
    for iteration in range(iterations):
        if iteration > 0:
            square = rr + t * (2.0 * (hr - s * uh) + t * hh) - s * (2.0 * ur - s * uu)
            if iteration == 1:
                change = min8(first_start, first_end)
                store8(row_need(square, change, max_speed, reach, barrier), out.part_needs_row, 0, 0)
            preview = preview_time(square, reach, barrier.p, barrier.max_acceleration)
        b, c, f = uh + preview * uh_rate, ur + preview * ur_rate, hr + preview * hr_rate
        determinant = uu_hh - b * b
        is_not_parallel = determinant - PARALLEL_SINE_SQUARED * uu_hh
        s = select8(
            is_not_parallel, clamp_to_unit8((c * hh - b * f) / select8(is_not_parallel, determinant, one)), zero
        )
        t = (b * s - f) * over_hh
        t_is_inside = min8(t, one - t)
        t = clamp_to_unit8(t)
        s = select8(t_is_inside, s, clamp_to_unit8((b * t + c) * over_uu))
    store8(s, out.position, 0)
    store8(t, out.other_position, 0)
    # uu s - b t = c and hh t - b s = -f, and so their derivatives
    c, f = ur_rate + t * uh_rate, s * uh_rate - hr_rate
    inverse_determinant = one / select8(determinant, determinant, one)
    store8((hh * c + b * f) * inverse_determinant, out.rate, 0)
    store8((b * c + uu * f) * inverse_determinant, out.other_rate, 0)
    store8(preview, out.preview_time, 0)


@compiled()
def sliding_relaxation(
    critical: CriticalPoints, lane: int, length: float, other_length: float, barrier: Barrier
) -> float:
    """Returns by how much the lower bound of a pair's row may be lowered, because its critical points slide [m/s^2].

    While both points are between the ends of their segments, the value is larger the sooner one of them may reach an
    end, or the more recently it may have left one, at the present sliding speeds.  It is infinite with a point at an
    end.

    Args:
        critical: critical points of eight pairs.
        lane: index of the pair, 0 to 7.
        length: length of the first segment [m].
        other_length: length of the second segment [m].
        barrier: parameters of the barrier.
    """
    s, t = critical.position[lane], critical.other_position[lane]
    end_distance, other_end_distance = min(s, 1.0 - s), min(t, 1.0 - t)
    preview_speed, sliding_time = (
        critical.preview_time[lane] * barrier.max_acceleration,
        SLIDING_PERIODS * barrier.period,
    )
    sliding_distance = sliding_time * (abs(critical.rate[lane]) + preview_speed / length)
    other_sliding_distance = sliding_time * (abs(critical.other_rate[lane]) + preview_speed / other_length)
    if not (end_distance > 0.0 and other_end_distance > 0.0):
        return math.inf
    fraction = min(end_distance / sliding_distance, other_end_distance / other_sliding_distance, 1.0)
    relaxation: float = barrier.max_acceleration * (1.0 - fraction) * (1.0 - fraction) / fraction
    return relaxation


@compiled(inline=False)
def compute_distance_motion(points: PointBlock, from_planes: bool, barrier: Barrier, iterations: int) -> None:
    """Computes the distances of eight points from segments or planes, and their derivatives.

    Args:
        points: the points; `motion` is written.
        from_planes: whether the distances are from planes.
        barrier: parameters of the barrier.
        iterations: `POINT_ITERATIONS`, or 1 for the nearest points.
    """
    segment, one, reach = points.segment, broadcast8(1.0), load8(points.reach, 0)
    if from_planes:
        compute_plane_motion(points)
        return
    r = difference3(load3(segment.start), load3(points.position))
    w = difference3(load3(segment.start_velocity), load3(points.velocity))
    h, h_rate = load3(segment.extent), load3(segment.extent_velocity)
    rr, hr, hh = dot8(r, r), dot8(h, r), dot8(h, h)
    hr_rate = dot8(h_rate, r) + dot8(h, w)
    over_hh = one / select8(hh, hh, one)
    position = clamp_to_unit8(-hr * over_hh)
    for _ in range(iterations - 1):
        preview = preview_time(rr + position * (2.0 * hr + position * hh), reach, barrier.p, barrier.max_acceleration)
        position = clamp_to_unit8(-(hr + preview * hr_rate) * over_hh)
    compute_point_motion(points, position)
