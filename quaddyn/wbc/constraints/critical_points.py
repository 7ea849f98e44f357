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

from ...compiler import Lanes, broadcast8, compiled, load8, max8, min8, select8, sqrt8, store8
from ...kinematics.capsule_model import PARALLEL_SINE_SQUARED
from ..collision_data import CriticalPoints, PairBlock, PointBlock
from .distance_barrier import MIN_SLOPE_FRACTION, SECOND_ORDER_MARGIN, Barrier, row_need
from .lane_vectors import clamp_to_unit8, difference3, dot8, load3, sum3
from .pair_motion import MIN_SEPARATION, compute_plane_motion, compute_point_motion

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
