"""The barrier function of `CollisionLimits`: largest approach speed of a pair, and the deceleration it requires."""

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
#: Fraction of the remaining speed that drifts may use up within a period.
DRIFT_SPEED_FRACTION = 0.9
#: Rounding error of distances [m], added to the distance within which a pair may need a row.
DISTANCE_ROUNDING = 1e-9


class Barrier(NamedTuple):
    """Parameters of the barrier that all rows share."""

    p: float  # barrier rate [1/s]
    max_acceleration: float  # largest acceleration [m/s^2]
    margin: float  # [m]
    period: float  # [s]
    ahead: float  # (dt / 2) (1 + p dt / 3) [s]
    grouped: int  # velocities with a smaller index belong to one joint, the floating base


@compiled()
def max_approach_speed(margin: float, p: float, max_acceleration: float) -> float:
    """Returns the largest approach speed: ``p h``, and for ``h > b / p^2`` the speed that b can stop.

    Args:
        margin: h, distance above the minimum distance [m].
        p: barrier rate [1/s].
        max_acceleration: b, largest acceleration [m/s^2].
    """
    soft = max_acceleration / (p * p)
    if margin <= soft:
        return p * margin
    return math.sqrt(2.0 * max_acceleration * (margin - 0.5 * soft))


@compiled(inline=True)
def min_acceleration(margin: Lanes, speed: Lanes, by: Barrier) -> tuple[Lanes, Lanes]:
    """Returns the smallest ``h''`` with which ``h' + k(h)`` decays by at most p, and ``h' + k(h)``.

    k is `max_approach_speed`.
    """
    soft, one = by.max_acceleration / (by.p * by.p), broadcast8(1.0)
    beyond = margin - soft
    brake = sqrt8(max8(2.0 * by.max_acceleration * (margin - 0.5 * soft), broadcast8(0.0)))
    allowed = select8(beyond, brake, by.p * margin)
    slope = select8(beyond, by.max_acceleration / select8(beyond, brake, one), broadcast8(by.p))
    remaining_speed = speed + allowed
    return min8(-slope * speed - by.p * remaining_speed, broadcast8(by.max_acceleration)), remaining_speed


@compiled(inline=True)
def row_need(square: Lanes, change: Lanes, fast: Lanes, reach: Lanes, by: Barrier) -> Lanes:
    r"""Returns positive numbers where points may need a row, from an upper bound of their approach speed.

    No row is needed beyond the margin at which the largest speed is :math:`R = (x + \sqrt{x^2 + 4 p b s}) / 2p`, s
    being the speed and :math:`x = p s + \sigma b` with `ROW_ACTIVATION_RATIO` for sigma.  Without the root, R is at
    most :math:`(1 + 1 / \sigma) s + \sigma b / p`.

    Args:
        square: square of their smallest distance [m^2].
        change: smallest r . w [m^2/s].
        fast: largest length of w [m/s].
        reach: distance with zero margin [m].
        by: the barrier.
    """
    d = sqrt8(max8(square, broadcast8(0.0)))
    speed = min8(max8(-change, broadcast8(0.0)), fast * d)  # times d
    brake = (1.0 + 1.0 / ROW_ACTIVATION_RATIO) * speed + (ROW_ACTIVATION_RATIO * by.max_acceleration / by.p) * d
    margin = d - (reach + (SECOND_ORDER_MARGIN + DISTANCE_ROUNDING + 0.5 * by.max_acceleration / (by.p * by.p)))
    return (
        brake * brake * (0.5 / by.max_acceleration)
        - margin * max8(square, broadcast8(0.0))
        + DISTANCE_ROUNDING * DISTANCE_ROUNDING
    )
