"""The barrier of `CollisionLimits`: how fast pairs may approach, and what they have to decelerate by."""

from __future__ import annotations

import math
from typing import NamedTuple

from ...compiler import Lanes, broadcast8, compiled, max8, min8, select8, sqrt8

#: A pair has a row unless it could approach with this many times `most` and not come near its limit.
ROW_ACTIVATION_RATIO = 2.0
#: Room [m] that is kept for what happens within a period beyond the first order in dt.
SECOND_ORDER_MARGIN = 1e-5
#: Share of k' that is left at least where capsules are far within each other.
MIN_SLOPE_FRACTION = 0.2
#: What a normal turns by within a period at most.
MAX_NORMAL_TURN = 0.5
#: What drifts may use up within a period of the speed that is left.
DRIFT_SPEED_FRACTION = 0.9
#: Distance [m] by which pairs count as close that are not.
DISTANCE_ROUNDING = 1e-9


class Barrier(NamedTuple):
    """Numbers that all rows have in common."""

    p: float  # rate [1/s]
    most: float  # largest acceleration [m/s^2]
    margin: float  # [m]
    period: float  # [s]
    ahead: float  # (dt / 2) (1 + p dt / 3) [s]
    grouped: int  # velocities below this one belong to one joint


@compiled()
def max_approach_speed(room: float, p: float, most: float) -> float:
    """How fast a pair may approach: ``p h``, and beyond ``h = most / p^2`` what `most` stops in time."""
    soft = most / (p * p)
    if room <= soft:
        return p * room
    return math.sqrt(2.0 * most * (room - 0.5 * soft))


@compiled(inline=True)
def min_acceleration(room: Lanes, speed: Lanes, by: Barrier) -> tuple[Lanes, Lanes]:
    """What ``h'' `` has to be so that ``h' + k(h)`` decays by p at most, k being `largest_speed`; and ``h' + k(h)``."""
    soft, one = by.most / (by.p * by.p), broadcast8(1.0)
    beyond = room - soft
    brake = sqrt8(max8(2.0 * by.most * (room - 0.5 * soft), broadcast8(0.0)))
    allowed = select8(beyond, brake, by.p * room)
    slope = select8(beyond, by.most / select8(beyond, brake, one), broadcast8(by.p))
    spare = speed + allowed
    return min8(-slope * speed - by.p * spare, broadcast8(by.most)), spare


@compiled(inline=True)
def row_need(square: Lanes, change: Lanes, fast: Lanes, reach: Lanes, by: Barrier) -> Lanes:
    r"""Positive where points may need a row, by the most that their speed of approach can be.

    There is none from the room on where the largest speed is :math:`R = (x + \sqrt{x^2 + 4 p b s}) / 2p`, s being the
    speed and :math:`x = p s + \sigma b` with `SPARE` for sigma.  Without the root, R is no more than
    :math:`(1 + 1 / \sigma) s + \sigma b / p`.

    Args:
        square: of their least distance.
        change: the least r . w.
        fast: the most of the length of w.
        reach: distance at which there is no room left [m].
        by: the barrier.
    """
    d = sqrt8(max8(square, broadcast8(0.0)))
    speed = min8(max8(-change, broadcast8(0.0)), fast * d)  # times d
    brake = (1.0 + 1.0 / ROW_ACTIVATION_RATIO) * speed + (ROW_ACTIVATION_RATIO * by.most / by.p) * d
    room = d - (reach + (SECOND_ORDER_MARGIN + DISTANCE_ROUNDING + 0.5 * by.most / (by.p * by.p)))
    return (
        brake * brake * (0.5 / by.most) - room * max8(square, broadcast8(0.0)) + DISTANCE_ROUNDING * DISTANCE_ROUNDING
    )
