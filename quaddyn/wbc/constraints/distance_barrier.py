"""The barrier function of `CollisionLimits`: largest approach speed of a pair, and the acceleration that keeps it."""

from __future__ import annotations

import math
from typing import NamedTuple

from ...compiler import Lanes, broadcast8, compiled, max8, min8, select8, sqrt8

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
