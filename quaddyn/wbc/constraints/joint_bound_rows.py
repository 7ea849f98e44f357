"""Rows of `JointBounds`: the acceleration bounds of a joint, and the test of viability."""

from __future__ import annotations

import math
from typing import NamedTuple

from ...compiler import Vector, compiled
from ..row_writing import Item, add_joint_bounds
from ..tick_data import TickContext


class JointBoundParameters(NamedTuple):
    """Parameters of `JointBounds`: views of its parameter array, in this order; all but three are limits."""

    horizon: float  # [s]
    recovery: float  # [s]
    applies_viability: bool
    lower: Vector  # (nu,)
    upper: Vector  # (nu,)
    velocity: Vector  # (nu,)
    acceleration: Vector  # (nu,)
    deceleration: Vector  # (nu,)


@compiled()
def joint_bound_parameters(z: Vector, nu: int) -> JointBoundParameters:
    """Returns views of the parameters at the beginning of z."""
    return JointBoundParameters(
        z[0], z[1], z[2] > 0.0, z[3 : 3 + nu], z[3 + nu : 3 + 2 * nu], z[3 + 2 * nu : 3 + 3 * nu],
        z[3 + 3 * nu : 3 + 4 * nu], z[3 + 4 * nu : 3 + 5 * nu],
    )  # fmt: skip


@compiled()
def viable_deceleration(p: JointBoundParameters, i: int) -> float:
    """Returns the deceleration that viability assumes: reduced for a narrow range or a low velocity limit."""
    h, width = p.horizon, max(p.upper[i] - p.lower[i], 0.0)
    d: float = max(min(p.deceleration[i], min(width / (h * h), p.velocity[i] / h)), 1e-12)
    return d


@compiled(inline=False)
def max_stoppable_acceleration(distance: float, v: float, d: float, h: float) -> float:
    """Returns the largest acceleration over h that keeps `distance` >= 0, during h and while braking with d afterwards.

    With w the speed after h, ``w^2 + d h w = 2 d (distance - h v / 2)``, unless the joint stops earlier; otherwise it
    reverses exactly at the limit.
    """
    rest = distance - 0.5 * h * v  # distance to the limit if the joint stops at the end of h
    if rest >= 0.0:
        half = 0.5 * d * h
        return (2.0 * d * rest / (half + math.sqrt(half * half + 2.0 * d * rest)) - v) / h
    return -v * v / (2.0 * max(distance, 1e-300))


@compiled()
def max_bounded_acceleration(distance: float, v: float, h: float) -> float:
    """Returns the largest acceleration over h that keeps `distance` >= 0 during h."""
    stopping = -v / h
    reaching = 2.0 * (distance - h * v) / (h * h)  # at the limit after h, if it still moves out then
    if reaching > stopping:
        return reaching
    return min(stopping, -v * v / (2.0 * max(distance, 1e-300)))


@compiled(inline=False)
def max_acceleration_toward(p: JointBoundParameters, i: int, distance: float, v: float) -> float:
    """Returns the largest acceleration of joint i, `distance` below its upper limit, with v toward the limit."""
    h, max_speed = p.horizon, p.velocity[i]
    high: float = min(p.acceleration[i], (max_speed - v) / h)
    if distance < 0.0:
        return_velocity = max(distance / max(p.recovery, h), -max_speed)
        high = min(high, (return_velocity - v) / h)
    elif math.isfinite(distance):
        if p.applies_viability:
            high = min(high, max_stoppable_acceleration(distance, v, viable_deceleration(p, i), h))
        else:
            high = min(high, max_bounded_acceleration(distance, v, h))
    lowest: float = -p.deceleration[i]
    return max(high, lowest)


@compiled()
def acceleration_bounds(p: JointBoundParameters, i: int, q: float, v: float) -> tuple[float, float]:
    """Returns the smallest and largest acceleration of joint i at (q, v)."""
    high = max_acceleration_toward(p, i, p.upper[i] - q, v)
    low = -max_acceleration_toward(p, i, q - p.lower[i], -v)
    if low > high:  # possible outside the viable set only: the acceleration that stops the joint, between the two
        low = min(max(-v / p.horizon, high), low)
        high = low
    return low, high


@compiled()
def is_joint_viable(p: JointBoundParameters, i: int, q: float, v: float) -> bool:
    """Returns whether joint i can keep its limits by braking."""
    d, slack = viable_deceleration(p, i), 1e-9 * min(p.upper[i] - p.lower[i], 1.0)
    speed = abs(v)
    ahead = p.upper[i] - q if v > 0.0 else q - p.lower[i]
    behind = q - p.lower[i] if v > 0.0 else p.upper[i] - q
    within: bool = min(ahead, behind) >= -slack and speed <= p.velocity[i] * (1.0 + 1e-9)
    return within and speed * speed <= 2.0 * d * (ahead + slack) * (1.0 + 1e-9)


@compiled(inline=False)
def write_joint_bound_rows(item: Item, t: TickContext) -> None:
    """Writes the acceleration bounds of each actuated joint."""
    actuated = t.model.actuated
    p = joint_bound_parameters(item.parameters, len(actuated))
    for i in range(len(actuated)):
        j = actuated[i]
        low, high = acceleration_bounds(p, i, t.q[t.model.index[item.first + i]], t.v[j])
        add_joint_bounds(t, j, low, high, t.model.length, item.element_index, i)
