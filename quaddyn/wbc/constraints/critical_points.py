"""The points of two capsules that are the first to approach too fast, and have the rows; for eight pairs at once.

With r from one point to the other and w its rate of change, these are the points that minimize
``|r|^2 / 2 + ahead r . w``, which is quadratic in their positions along the two segments: rigid segments have
``u . u' = 0``.  The preview time `ahead` depends on the distance of these points, so they are found by iteration; with
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
    CROSSING,
    OTHER,
    POINT,
    POINT_SPEED,
    add3,
    apart3,
    dot8,
    load3,
    plane_motion,
    point_motion,
    unit8,
)
from .segment_motion import ALONG, ALONG_SPEED, START, START_SPEED

#: Number of iterations for points, each with the preview time of the points before; the first one finds the nearest.
POINT_ITERATIONS = 4
#: Rows of what is found of pairs: where the whole, and each of the four ends with the other segment, may need a row,
#: positive ones; places along the two segments; how fast they slide while both are between the ends [1/s]; how far
#: ahead they are sought [s].
CLOSE, S, T, S_RATE, T_RATE, AHEAD, FOUND = 0, 5, 6, 7, 8, 9, 10
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
    d, soft = max8(sqrt8(max8(square, broadcast8(0.0))), broadcast8(CROSSING)), max_acceleration / (p * p)
    margin = d - reach - SECOND_ORDER_MARGIN
    beyond = margin - soft
    brake = sqrt8(max8(2.0 * max_acceleration * (margin - 0.5 * soft), broadcast8(0.0)))
    # k' = max_acceleration / brake, k = brake; and k' = p, k = p h, with a lower bound
    below = select8(beyond, max_acceleration * (d + 2.0 * margin - soft), p * max8(d + margin, MIN_SLOPE_FRACTION * d))
    return select8(beyond, brake, broadcast8(1.0)) * d / below


@compiled(inline=False)
def locate_pair_points(block: PairBlock, by: Barrier, rounds: int) -> None:
    """Finds which parts of eight pairs may need a row, and the points of the part "whole".

    Where the minimum is not inside both segments, S is 0 or 1.

    Args:
        block: the pairs; `found` is written.
        by: the barrier.
        rounds: `POINT_ITERATIONS`, or 1 for the nearest points.
    """
    P, V, out, zero, one, reach = block.P, block.V, block.found, broadcast8(0.0), broadcast8(1.0), load8(block.reach, 0)
    rx, ry, rz = apart3(P, 0, 6)
    ux, uy, uz = load3(P, 3)
    hx, hy, hz = load3(P, 9)
    wx, wy, wz = apart3(V, 0, 6)
    px, py, pz = load3(V, 3)
    qx, qy, qz = load3(V, 9)
    ax, ay, az = add3(wx, wy, wz, one, qx, qy, qz)
    bx, by_, bz = add3(wx, wy, wz, broadcast8(-1.0), px, py, pz)
    fast = max8(dot8(wx, wy, wz, wx, wy, wz), dot8(ax, ay, az, ax, ay, az))
    ax, ay, az = ax - px, ay - py, az - pz
    fast = max8(fast, max8(dot8(ax, ay, az, ax, ay, az), dot8(bx, by_, bz, bx, by_, bz)))
    rr, ur, hr = dot8(rx, ry, rz, rx, ry, rz), dot8(ux, uy, uz, rx, ry, rz), dot8(hx, hy, hz, rx, ry, rz)
    uu, uh, hh = dot8(ux, uy, uz, ux, uy, uz), dot8(ux, uy, uz, hx, hy, hz), dot8(hx, hy, hz, hx, hy, hz)
    uh_rate = dot8(px, py, pz, hx, hy, hz) + dot8(ux, uy, uz, qx, qy, qz)
    ur_rate = dot8(px, py, pz, rx, ry, rz) + dot8(ux, uy, uz, wx, wy, wz)
    hr_rate = dot8(qx, qy, qz, rx, ry, rz) + dot8(hx, hy, hz, wx, wy, wz)
    over_uu, over_hh, both = one / select8(uu, uu, one), one / select8(hh, hh, one), uu * hh
    # no part is nearer than its nearest points, nor faster than the fastest ends; and r . w, which is bilinear in
    # the positions, is smallest at two ends
    both_start = dot8(rx, ry, rz, wx, wy, wz)
    first_start, other_start = min8(both_start, both_start + hr_rate), min8(both_start, both_start - ur_rate)
    both_end = both_start + hr_rate - ur_rate - uh_rate
    first_end, other_end = min8(both_start - ur_rate, both_end), min8(both_start + hr_rate, both_end)
    fast = sqrt8(fast)
    t = unit8(-hr * over_hh)
    store8(row_need(rr + t * (2.0 * hr + t * hh), first_start, fast, reach, by), out, 8 * (CLOSE + 1))
    t = unit8((uh - hr) * over_hh)
    square = (rr - 2.0 * ur + uu) + t * (2.0 * (hr - uh) + t * hh)
    store8(row_need(square, first_end, fast, reach, by), out, 8 * (CLOSE + 2))
    s = unit8(ur * over_uu)
    store8(row_need(rr - s * (2.0 * ur - s * uu), other_start, fast, reach, by), out, 8 * (CLOSE + 3))
    s = unit8((ur + uh) * over_uu)
    square = (rr + 2.0 * hr + hh) - s * (2.0 * (ur + uh) - s * uu)
    store8(row_need(square, other_end, fast, reach, by), out, 8 * (CLOSE + 4))
    ahead, b, across = zero, uh, both
    for turn in range(rounds):
        if turn > 0:
            square = rr + t * (2.0 * (hr - s * uh) + t * hh) - s * (2.0 * ur - s * uu)
            if turn == 1:
                store8(row_need(square, min8(first_start, first_end), fast, reach, by), out, 8 * CLOSE)
            ahead = preview_time(square, reach, by.p, by.max_acceleration)
        b, c, f = uh + ahead * uh_rate, ur + ahead * ur_rate, hr + ahead * hr_rate
        across = both - b * b
        skew = across - PARALLEL_SINE_SQUARED * both
        s = select8(skew, unit8((c * hh - b * f) / select8(skew, across, one)), zero)
        t = (b * s - f) * over_hh
        kept = min8(t, one - t)
        t = unit8(t)
        s = select8(kept, s, unit8((b * t + c) * over_uu))
    store8(s, out, 8 * S)
    store8(t, out, 8 * T)
    # uu s - b t = c and hh t - b s = -f, and so their derivatives
    c, f = ur_rate + t * uh_rate, s * uh_rate - hr_rate
    over = one / select8(across, across, one)
    store8((hh * c + b * f) * over, out, 8 * S_RATE)
    store8((b * c + uu * f) * over, out, 8 * T_RATE)
    store8(ahead, out, 8 * AHEAD)


@compiled()
def sliding_relaxation(found: Vector, lane: int, length: float, other: float, by: Barrier) -> float:
    """Returns the relaxation of a pair's bound while its points are between the ends; infinite at an end.

    The relaxation is largest where the points may soon reach an end, or may just have left it, given their sliding
    speed.

    Args:
        found: results of a block of pairs.
        lane: index of the pair in the block.
        length: length of the first segment [m].
        other: length of the second segment [m].
        by: the barrier.
    """
    s, t, turn = found[8 * S + lane], found[8 * T + lane], found[8 * AHEAD + lane] * by.max_acceleration
    left, max_acceleration = (
        min(s, 1.0 - s),
        SLIDING_PERIODS * by.period * (abs(found[8 * S_RATE + lane]) + turn / length),
    )
    left_other, most_other = (
        min(t, 1.0 - t),
        SLIDING_PERIODS * by.period * (abs(found[8 * T_RATE + lane]) + turn / other),
    )
    if not (left > 0.0 and left_other > 0.0):
        return math.inf
    fraction = min(left / max_acceleration, left_other / most_other, 1.0)
    given: float = by.max_acceleration * (1.0 - fraction) * (1.0 - fraction) / fraction
    return given


@compiled(inline=False)
def evaluate_points(block: PointBlock, flat: bool, by: Barrier, rounds: int) -> None:
    """Computes the motion of the distances of eight points from segments or planes.

    Args:
        block: the points; `motion` is written.
        flat: whether the distances are from planes.
        by: the barrier.
        rounds: `POINT_ITERATIONS`, or 1 for the nearest points.
    """
    M, one, reach = block.M, broadcast8(1.0), load8(block.reach, 0)
    if flat:
        plane_motion(M, block.motion)
        return
    rx, ry, rz = apart3(M, POINT, OTHER + START)
    wx, wy, wz = apart3(M, POINT_SPEED, OTHER + START_SPEED)
    hx, hy, hz = load3(M, OTHER + ALONG)
    qx, qy, qz = load3(M, OTHER + ALONG_SPEED)
    rr, hr, hh = dot8(rx, ry, rz, rx, ry, rz), dot8(hx, hy, hz, rx, ry, rz), dot8(hx, hy, hz, hx, hy, hz)
    hr_rate = dot8(qx, qy, qz, rx, ry, rz) + dot8(hx, hy, hz, wx, wy, wz)
    over_hh = one / select8(hh, hh, one)
    position = unit8(-hr * over_hh)
    for _ in range(rounds - 1):
        ahead = preview_time(rr + position * (2.0 * hr + position * hh), reach, by.p, by.max_acceleration)
        position = unit8(-(hr + ahead * hr_rate) * over_hh)
    point_motion(M, position, block.motion)
