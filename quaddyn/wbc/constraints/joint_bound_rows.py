"""Rows of `JointBounds`: what it allows one joint, and whether that is viable."""

from __future__ import annotations

import math
from typing import NamedTuple

from ...compiler import Vector, compiled
from ..data import Instant
from ..rows import Item, bound_joint


class JointBoundParameters(NamedTuple):
    """Parameters in the order in which they lie."""

    horizon: float  # [s]
    recovery: float  # [s]
    viability: float  # whether to hold it
    lower: Vector  # (nu,)
    upper: Vector  # (nu,)
    velocity: Vector  # (nu,)
    acceleration: Vector  # (nu,)
    deceleration: Vector  # (nu,)


@compiled()
def joint_bound_parameters(z: Vector, nu: int) -> JointBoundParameters:
    """The parameters that begin z."""
    return JointBoundParameters(
        z[0], z[1], z[2], z[3 : 3 + nu], z[3 + nu : 3 + 2 * nu], z[3 + 2 * nu : 3 + 3 * nu],
        z[3 + 3 * nu : 3 + 4 * nu], z[3 + 4 * nu : 3 + 5 * nu],
    )  # fmt: skip


@compiled()
def braking(p: JointBoundParameters, i: int) -> float:
    """The deceleration that viability counts on: both limits of a narrow range must leave a common acceleration."""
    h, width = p.horizon, max(p.upper[i] - p.lower[i], 0.0)
    d: float = max(min(p.deceleration[i], min(width / (h * h), p.velocity[i] / h)), 1e-12)
    return d


@compiled(inline=False)
def stoppable_acceleration(room: float, v: float, d: float, h: float) -> float:
    """Largest acceleration over h that keeps `room` >= 0 and ends where braking with d does, too.

    With w the speed after h, ``w^2 + d h w = 2 d (room - h v / 2)``, if it comes to a stop no earlier; else the joint
    turns at the limit itself.
    """
    rest = room - 0.5 * h * v  # room after h if it stops there
    if rest >= 0.0:
        half = 0.5 * d * h
        return (2.0 * d * rest / (half + math.sqrt(half * half + 2.0 * d * rest)) - v) / h
    return -v * v / (2.0 * max(room, 1e-300))


@compiled()
def plain_acceleration(room: float, v: float, h: float) -> float:
    """Largest acceleration over h that keeps `room` >= 0 during h."""
    stop = -v / h
    end = 2.0 * (room - h * v) / (h * h)  # at the limit after h, if it still moves out then
    if end > stop:
        return end
    return min(stop, -v * v / (2.0 * max(room, 1e-300)))


@compiled(inline=False)
def largest_acceleration(p: JointBoundParameters, i: int, room: float, v: float) -> float:
    """Largest acceleration of joint i with `room` to its upper limit, v towards it; see `JointBounds`."""
    h, fastest = p.horizon, p.velocity[i]
    high: float = min(p.acceleration[i], (fastest - v) / h)
    if room < 0.0:
        back = max(room / max(p.recovery, h), -fastest)
        high = min(high, (back - v) / h)
    elif math.isfinite(room):
        if p.viability > 0.0:
            high = min(high, stoppable_acceleration(room, v, braking(p, i), h))
        else:
            high = min(high, plain_acceleration(room, v, h))
    least: float = -p.deceleration[i]
    return max(high, least)


@compiled()
def joint_bound(p: JointBoundParameters, i: int, q: float, v: float) -> tuple[float, float]:
    """Least and largest acceleration of joint i at (q, v)."""
    high = largest_acceleration(p, i, p.upper[i] - q, v)
    low = -largest_acceleration(p, i, q - p.lower[i], -v)
    if low > high:  # outside of the viable set only: what stops the joint, between the two
        low = min(max(-v / p.horizon, high), low)
        high = low
    return low, high


@compiled()
def joint_viable(p: JointBoundParameters, i: int, q: float, v: float) -> bool:
    """Whether joint i can keep its limits by braking."""
    d, slack = braking(p, i), 1e-9 * min(p.upper[i] - p.lower[i], 1.0)
    speed = abs(v)
    ahead = p.upper[i] - q if v > 0.0 else q - p.lower[i]
    behind = q - p.lower[i] if v > 0.0 else p.upper[i] - q
    within: bool = min(ahead, behind) >= -slack and speed <= p.velocity[i] * (1.0 + 1e-9)
    return within and speed * speed <= 2.0 * d * (ahead + slack) * (1.0 + 1e-9)


@compiled(inline=False)
def joint_bound_rows(item: Item, t: Instant) -> None:
    """``least <= a_j <= largest`` of each actuated joint; `index` has its place in q."""
    actuated = t.model.actuated
    p = joint_bound_parameters(item.numbers, len(actuated))
    for i in range(len(actuated)):
        j = actuated[i]
        low, high = joint_bound(p, i, t.q[t.model.index[item.first + i]], t.v[j])
        bound_joint(t, j, low, high, t.model.length, item.number, i)
