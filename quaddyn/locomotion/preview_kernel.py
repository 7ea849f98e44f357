"""The compiled inner loop of `Preview`."""

from __future__ import annotations

import math
from typing import NamedTuple

from ..compiling import Matrix, Vector, compiled, entry, local


class Footfalls(NamedTuple):
    """When feet stand.

    Attributes:
        phase: of the cycle.
        period: of the cycle [s].
        duty: share of the cycle on the ground.
        loading: time over which a foot takes its load [cycles].
        offsets: (4,) of the feet.
        first: (4,) number of each foot's first swing.
        last: (4,) number of each foot's last swing.
    """

    phase: float
    period: float
    duty: float
    loading: float
    offsets: Vector
    first: Vector
    last: Vector


class Travel(NamedTuple):
    """Where feet go.

    Attributes:
        position: (2,) of the course [m].
        yaw: of the course [rad].
        velocity: (3,) of the course.
        stance: (4, 2) of the feet about the course, heading axes [m].
    """

    position: Vector
    yaw: float
    velocity: Vector
    stance: Matrix


@compiled()
def foothold(time: float, foot: int, travel: Travel) -> tuple[float, float]:
    """Where a foot stands that is in the middle of its stance after `time`; see `course.footholds`."""
    velocity, stance, yaw = travel.velocity, travel.stance, travel.yaw
    turn = velocity[2] * time
    half = 0.5 * turn
    chord = time * (math.sin(half) / half if abs(half) > 1e-6 else 1.0)
    c, s = math.cos(yaw + half) * chord, math.sin(yaw + half) * chord
    x = travel.position[0] + velocity[0] * c - velocity[1] * s
    y = travel.position[1] + velocity[0] * s + velocity[1] * c
    c, s = math.cos(yaw + turn), math.sin(yaw + turn)
    return x + c * stance[foot, 0] - s * stance[foot, 1], y + s * stance[foot, 0] + c * stance[foot, 1]


@entry("the footholds to come")
def landings(travel: Travel, times: Vector, out: Matrix) -> None:
    """The foothold of each foot: of `times` (4,) into `out` (4, 2)."""
    for i in range(4):
        out[i, 0], out[i, 1] = foothold(times[i], i, travel)


@compiled()
def swing(x: float, first: float, last: float) -> float:
    """The number of a foot's last swing or stance before it has come x cycles, as far as it swings at all."""
    return min(max(math.floor(x), first), last + 1.0)


@entry("the preview of the centre of mass")
def preview(falls: Footfalls, travel: Travel, feet: Matrix, step: float, weights: Vector, out: Vector) -> None:
    """Pressure now and its discounted integral over the samples.

    Args:
        falls: when feet stand.
        travel: where they go.
        feet: (4, 2) footholds of now [m].
        step: time between samples [s].
        weights: (N,) of the samples.
        out: (11,) pressure now, integral, pressure at the end (2 each), the shares of the load now (4), and the
            integral of the load on footholds to come.
    """
    phase, period, duty, first, last = falls.phase, falls.period, falls.duty, falls.first, falls.last
    point, now, number, begin, end, share = local(4, 2), local(4), local(4), local(4), local(4), local(4)
    for i in range(4):
        point[i, 0], point[i, 1] = feet[i, 0], feet[i, 1]
        n = swing(phase - falls.offsets[i], first[i], last[i])
        now[i], number[i] = n, n
        begin[i] = n if n > first[i] else -math.inf
        end[i] = n + duty if n <= last[i] else math.inf
    for i in range(11):
        out[i] = 0.0
    for k in range(len(weights)):
        total = 0.0
        for i in range(4):
            x = phase + k * step / period - falls.offsets[i]
            if x >= number[i] + 1.0 and number[i] <= last[i]:  # x only grows
                n = swing(x, first[i], last[i])
                number[i] = n
                begin[i] = n if n > first[i] else -math.inf
                end[i] = n + duty if n <= last[i] else math.inf
                if n > now[i]:
                    time = (n + 0.5 * duty + falls.offsets[i] - phase) * period
                    point[i, 0], point[i, 1] = foothold(time, i, travel)
            share[i] = 0.0
            if x < end[i]:  # 1e-6: at the instant of an exchange somebody carries
                share[i] = min(max(min(x - begin[i], end[i] - x) / falls.loading, 1e-6), 1.0)
            total += share[i]
        zx, zy = 0.0, 0.0
        for i in range(4):
            share[i] /= max(total, 1e-12)
            if number[i] > now[i]:
                out[10] += weights[k] * share[i]
            zx += share[i] * point[i, 0]
            zy += share[i] * point[i, 1]
            if k == 0:
                out[6 + i] = share[i]
        out[2] += weights[k] * zx
        out[3] += weights[k] * zy
        out[4], out[5] = zx, zy
        if k == 0:
            out[0], out[1] = zx, zy
