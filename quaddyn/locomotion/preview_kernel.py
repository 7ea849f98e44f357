"""The compiled inner loop of `Preview`; imported when first used, for it brings the compiler along."""

from __future__ import annotations

import math

import numpy as np

from ..hierarchy.jit import jit
from ..urdf.tree import Array


@jit
def foothold(
    time: float, foot: int, x: float, y: float, yaw: float, velocity: Array, stance: Array
) -> tuple[float, float]:
    """Where a foot stands that is in the middle of its stance after `time`; see `course.footholds`."""
    turn = velocity[2] * time
    middle = yaw + 0.5 * turn
    half = 0.5 * turn
    reach = time * (math.sin(half) / half if abs(half) > 1e-6 else 1.0)
    c, s = math.cos(middle) * reach, math.sin(middle) * reach
    x += velocity[0] * c - velocity[1] * s
    y += velocity[0] * s + velocity[1] * c
    c, s = math.cos(yaw + turn), math.sin(yaw + turn)
    return x + c * stance[foot, 0] - s * stance[foot, 1], y + s * stance[foot, 0] + c * stance[foot, 1]


@jit
def aim(
    phase: float,
    period: float,
    duty: float,
    offsets: Array,
    first: Array,
    last: Array,
    loading: float,
    feet: Array,
    position: Array,
    yaw: float,
    velocity: Array,
    stance: Array,
    step: float,
    weights: Array,
    out: Array,
) -> None:
    """Pressure now and its discounted integral over the samples.

    Args:
        phase: of the cycle.
        period: of the cycle [s].
        duty: share of the cycle on the ground.
        offsets: (4,) of the feet.
        first: (4,) number of each foot's first swing.
        last: (4,) number of each foot's last swing.
        loading: time over which a foot takes its load [cycles].
        feet: (4, 2) footholds of now [m].
        position: (2,) of the course [m].
        yaw: of the course [rad].
        velocity: (3,) of the course.
        stance: (4, 2) of the feet about the course, heading axes [m].
        step: time between samples [s].
        weights: (N,) of the samples.
        out: (11,) pressure now, integral, pressure at the end (2 each), the shares of the load now (4), and the
            integral of the load on footholds to come.
    """
    point = feet.copy()
    number = np.empty(4)
    begin, end = np.empty(4), np.empty(4)
    share = np.empty(4)
    for i in range(4):
        number[i] = min(max(math.floor(phase - offsets[i]), first[i]), last[i] + 1.0)
    now = number.copy()
    for i in range(4):
        begin[i] = number[i] if number[i] > first[i] else -np.inf
        end[i] = number[i] + duty if number[i] <= last[i] else np.inf
    out[:] = 0.0
    for k in range(len(weights)):
        total = 0.0
        for i in range(4):
            x = phase + k * step / period - offsets[i]
            n = min(max(math.floor(x), first[i]), last[i] + 1.0)
            if n != number[i]:
                number[i] = n
                begin[i] = n if n > first[i] else -np.inf
                end[i] = n + duty if n <= last[i] else np.inf
                if n > now[i]:
                    time = (n + 0.5 * duty + offsets[i] - phase) * period
                    point[i, 0], point[i, 1] = foothold(time, i, position[0], position[1], yaw, velocity, stance)
            share[i] = 0.0
            if x < end[i]:  # 1e-6: at the instant of an exchange somebody carries
                share[i] = min(max(min(x - begin[i], end[i] - x) / loading, 1e-6), 1.0)
            total += share[i]
        zx, zy = 0.0, 0.0
        for i in range(4):
            share[i] /= max(total, 1e-12)
            if number[i] > now[i]:
                out[10] += weights[k] * share[i]
            zx += share[i] * point[i, 0]
            zy += share[i] * point[i, 1]
        out[2] += weights[k] * zx
        out[3] += weights[k] * zy
        out[4], out[5] = zx, zy
        if k == 0:
            out[0], out[1] = zx, zy
            out[6:10] = share
