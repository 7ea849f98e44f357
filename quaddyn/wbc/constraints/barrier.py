"""The barrier of `CollisionLimits`: how fast pairs may approach, and what they have to decelerate by."""

from __future__ import annotations

import math
from typing import NamedTuple

from ...compiling import Lanes, choose8, compiled, max8, min8, splat8, sqrt8

#: A pair has a row unless it could approach with this many times `most` and not come near its limit.
SPARE = 2.0
#: Room [m] that is kept for what happens within a period beyond the first order in dt.
KEPT = 1e-5
#: Share of k' that is left at least where capsules are far within each other.
FARTHEST = 0.2
#: What a normal turns by within a period at most.
TURN = 0.5
#: What drifts may use up within a period of the speed that is left.
USED = 0.9


class Barrier(NamedTuple):
    """Numbers that all rows have in common."""

    p: float  # rate [1/s]
    most: float  # largest acceleration [m/s^2]
    margin: float  # [m]
    period: float  # [s]
    ahead: float  # (dt / 2) (1 + p dt / 3) [s]
    grouped: int  # velocities below this one belong to one joint


@compiled()
def largest_speed(room: float, p: float, most: float) -> float:
    """How fast a pair may approach: ``p h``, and beyond ``h = most / p^2`` what `most` stops in time."""
    soft = most / (p * p)
    if room <= soft:
        return p * room
    return math.sqrt(2.0 * most * (room - 0.5 * soft))


@compiled(inline=True)
def least_acceleration(room: Lanes, speed: Lanes, by: Barrier) -> tuple[Lanes, Lanes]:
    """What ``h'' `` has to be so that ``h' + k(h)`` decays by p at most, k being `largest_speed`; and ``h' + k(h)``."""
    soft, one = by.most / (by.p * by.p), splat8(1.0)
    beyond = room - soft
    brake = sqrt8(max8(2.0 * by.most * (room - 0.5 * soft), splat8(0.0)))
    allowed = choose8(beyond, brake, by.p * room)
    slope = choose8(beyond, by.most / choose8(beyond, brake, one), splat8(by.p))
    spare = speed + allowed
    return min8(-slope * speed - by.p * spare, splat8(by.most)), spare
