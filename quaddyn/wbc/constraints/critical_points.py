"""Critical points of two capsules, where the limit of the speed of approach is reached first; for eight pairs at once.

With r from one point to the other and w its rate of change, these are the points that minimize
``|r|^2 / 2 + preview r . w``, which is quadratic in their positions along the two segments: rigid segments have
``u . u' = 0``.  The time `preview` depends on the distance of these points, so they are found by iteration; with
zero preview time they are the nearest points.  An iteration needs only a few dot products of the starts and directions
of the segments.  Positions are computed as in Ericson 2005, "Real-Time Collision Detection", section 5.1.9, without
branches: the first position on lines, and again where the second one left its segment.
"""

from __future__ import annotations

import math

from ...compiler import Lanes, Vector, broadcast8, compiled, load8, max8, min8, select8, sqrt8, store8
from ...kinematics.segment_distances import PARALLEL_SINE_SQUARED
from .collision_blocks import PairBlock, PointBlock
from .distance_barrier import MIN_SLOPE_FRACTION, SECOND_ORDER_MARGIN, Barrier, row_need
from .pair_motion import (
    MIN_SEPARATION,
    OTHER_SEGMENT,
    POINT,
    POINT_VELOCITY,
    add_scaled3,
    clamp_to_unit8,
    compute_plane_motion,
    compute_point_motion,
    difference3,
    dot8,
    load3,
)
from .segment_motion import EXTENT, EXTENT_VELOCITY, START, START_VELOCITY

#: Number of iterations for the points, each with the preview time of the previous points; the first finds the nearest.
POINT_ITERATIONS = 4
#: Rows of the critical points of pairs: numbers that are > 0 where the whole pair, and each of the four ends with the
#: other segment, may need a row; positions along the two segments; their rates while both are between the ends [1/s];
#: preview time [s].
PART_NEEDS_ROW, FIRST_POSITION, SECOND_POSITION, FIRST_RATE, SECOND_RATE, PREVIEW_TIME, N_CRITICAL_POINT_ROWS = (
    0,
    5,
    6,
    7,
    8,
    9,
    10,
)
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

    Where the minimum is not inside both segments, the first position is 0 or 1.

    Args:
        block: the pairs; `critical_points` is written.
        barrier: parameters of the barrier.
        iterations: `POINT_ITERATIONS`, or 1 for the nearest points.
    """
    P, V, out, zero, one, reach = (
        block.P,
        block.V,
        block.critical_points,
        broadcast8(0.0),
        broadcast8(1.0),
        load8(block.reach, 0),
    )
    rx, ry, rz = difference3(P, 0, 6)
    ux, uy, uz = load3(P, 3)
    hx, hy, hz = load3(P, 9)
    wx, wy, wz = difference3(V, 0, 6)
    px, py, pz = load3(V, 3)
    qx, qy, qz = load3(V, 9)
    ax, ay, az = add_scaled3(wx, wy, wz, one, qx, qy, qz)
    bx, by_, bz = add_scaled3(wx, wy, wz, broadcast8(-1.0), px, py, pz)
    max_speed = max8(dot8(wx, wy, wz, wx, wy, wz), dot8(ax, ay, az, ax, ay, az))
    ax, ay, az = ax - px, ay - py, az - pz
    max_speed = max8(max_speed, max8(dot8(ax, ay, az, ax, ay, az), dot8(bx, by_, bz, bx, by_, bz)))
    rr, ur, hr = dot8(rx, ry, rz, rx, ry, rz), dot8(ux, uy, uz, rx, ry, rz), dot8(hx, hy, hz, rx, ry, rz)
    uu, uh, hh = dot8(ux, uy, uz, ux, uy, uz), dot8(ux, uy, uz, hx, hy, hz), dot8(hx, hy, hz, hx, hy, hz)
    uh_rate = dot8(px, py, pz, hx, hy, hz) + dot8(ux, uy, uz, qx, qy, qz)
    ur_rate = dot8(px, py, pz, rx, ry, rz) + dot8(ux, uy, uz, wx, wy, wz)
    hr_rate = dot8(qx, qy, qz, rx, ry, rz) + dot8(hx, hy, hz, wx, wy, wz)
    over_uu, over_hh, uu_hh = one / select8(uu, uu, one), one / select8(hh, hh, one), uu * hh
    # bounds for each part: distance of the nearest points, speed of the fastest ends; r . w, which is bilinear in the
    # positions, is smallest at two ends
    both_start = dot8(rx, ry, rz, wx, wy, wz)
    first_start, other_start = min8(both_start, both_start + hr_rate), min8(both_start, both_start - ur_rate)
    both_end = both_start + hr_rate - ur_rate - uh_rate
    first_end, other_end = min8(both_start - ur_rate, both_end), min8(both_start + hr_rate, both_end)
    max_speed = sqrt8(max_speed)
    t = clamp_to_unit8(-hr * over_hh)
    store8(
        row_need(rr + t * (2.0 * hr + t * hh), first_start, max_speed, reach, barrier), out, 8 * (PART_NEEDS_ROW + 1)
    )
    t = clamp_to_unit8((uh - hr) * over_hh)
    square = (rr - 2.0 * ur + uu) + t * (2.0 * (hr - uh) + t * hh)
    store8(row_need(square, first_end, max_speed, reach, barrier), out, 8 * (PART_NEEDS_ROW + 2))
    s = clamp_to_unit8(ur * over_uu)
    store8(
        row_need(rr - s * (2.0 * ur - s * uu), other_start, max_speed, reach, barrier), out, 8 * (PART_NEEDS_ROW + 3)
    )
    s = clamp_to_unit8((ur + uh) * over_uu)
    square = (rr + 2.0 * hr + hh) - s * (2.0 * (ur + uh) - s * uu)
    store8(row_need(square, other_end, max_speed, reach, barrier), out, 8 * (PART_NEEDS_ROW + 4))
    preview, b, determinant = zero, uh, uu_hh
    for iteration in range(iterations):
        if iteration > 0:
            square = rr + t * (2.0 * (hr - s * uh) + t * hh) - s * (2.0 * ur - s * uu)
            if iteration == 1:
                store8(
                    row_need(square, min8(first_start, first_end), max_speed, reach, barrier), out, 8 * PART_NEEDS_ROW
                )
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
    store8(s, out, 8 * FIRST_POSITION)
    store8(t, out, 8 * SECOND_POSITION)
    # uu s - b t = c and hh t - b s = -f, and so their derivatives
    c, f = ur_rate + t * uh_rate, s * uh_rate - hr_rate
    inverse_determinant = one / select8(determinant, determinant, one)
    store8((hh * c + b * f) * inverse_determinant, out, 8 * FIRST_RATE)
    store8((b * c + uu * f) * inverse_determinant, out, 8 * SECOND_RATE)
    store8(preview, out, 8 * PREVIEW_TIME)


@compiled()
def sliding_relaxation(
    critical_points: Vector, lane: int, length: float, other_length: float, barrier: Barrier
) -> float:
    """Returns by how much the lower bound of a pair's row may be lowered, because its critical points slide [m/s^2].

    While both points are between the ends of their segments, the value is larger the sooner one of them may reach an
    end, or the more recently it may have left one, at the present sliding speeds.  It is infinite with a point at an
    end.

    Args:
        critical_points: rows of eight pairs, see `find_critical_points`.
        lane: index of the pair, 0 to 7.
        length: length of the first segment [m].
        other_length: length of the second segment [m].
        barrier: parameters of the barrier.
    """
    s, t, preview_speed = (
        critical_points[8 * FIRST_POSITION + lane],
        critical_points[8 * SECOND_POSITION + lane],
        critical_points[8 * PREVIEW_TIME + lane] * barrier.max_acceleration,
    )
    end_distance, sliding_distance = (
        min(s, 1.0 - s),
        SLIDING_PERIODS * barrier.period * (abs(critical_points[8 * FIRST_RATE + lane]) + preview_speed / length),
    )
    other_end_distance, other_sliding_distance = (
        min(t, 1.0 - t),
        SLIDING_PERIODS
        * barrier.period
        * (abs(critical_points[8 * SECOND_RATE + lane]) + preview_speed / other_length),
    )
    if not (end_distance > 0.0 and other_end_distance > 0.0):
        return math.inf
    fraction = min(end_distance / sliding_distance, other_end_distance / other_sliding_distance, 1.0)
    relaxation: float = barrier.max_acceleration * (1.0 - fraction) * (1.0 - fraction) / fraction
    return relaxation


@compiled(inline=False)
def compute_distance_motion(block: PointBlock, from_planes: bool, barrier: Barrier, iterations: int) -> None:
    """Computes the distances of eight points from segments or planes, and their derivatives.

    Args:
        block: the points; `motion` is written.
        from_planes: whether the distances are from planes.
        barrier: parameters of the barrier.
        iterations: `POINT_ITERATIONS`, or 1 for the nearest points.
    """
    M, one, reach = block.M, broadcast8(1.0), load8(block.reach, 0)
    if from_planes:
        compute_plane_motion(M, block.motion)
        return
    rx, ry, rz = difference3(M, POINT, OTHER_SEGMENT + START)
    wx, wy, wz = difference3(M, POINT_VELOCITY, OTHER_SEGMENT + START_VELOCITY)
    hx, hy, hz = load3(M, OTHER_SEGMENT + EXTENT)
    qx, qy, qz = load3(M, OTHER_SEGMENT + EXTENT_VELOCITY)
    rr, hr, hh = dot8(rx, ry, rz, rx, ry, rz), dot8(hx, hy, hz, rx, ry, rz), dot8(hx, hy, hz, hx, hy, hz)
    hr_rate = dot8(qx, qy, qz, rx, ry, rz) + dot8(hx, hy, hz, wx, wy, wz)
    over_hh = one / select8(hh, hh, one)
    position = clamp_to_unit8(-hr * over_hh)
    for _ in range(iterations - 1):
        preview = preview_time(rr + position * (2.0 * hr + position * hh), reach, barrier.p, barrier.max_acceleration)
        position = clamp_to_unit8(-(hr + preview * hr_rate) * over_hh)
    compute_point_motion(M, position, block.motion)
