"""Compiled functions of `ComPreview`."""

from __future__ import annotations

import math
from typing import NamedTuple

from ..compiler import Matrix, Vector, compiled, entry, local

#: Number of samples of the preview.
N_SAMPLES = 256


class Footfalls(NamedTuple):
    """Timing of the stances.

    Attributes:
        phase: phase of the cycle [cycles].
        period: duration of the cycle [s].
        duty: duty factor.
        loading: time over which a foot takes its load [cycles].
        offsets: (4,) phase offsets of the feet [cycles].
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


class PathMotion(NamedTuple):
    """Motion of the path reference.

    Attributes:
        position: (2,) position of the path reference, world [m].
        yaw: yaw angle of the path reference [rad].
        velocity: (3,) forward and leftward speed [m/s] and yaw rate [rad/s].
        stance: (4, 2) nominal positions of the feet about the path reference, heading axes [m].
    """

    position: Vector
    yaw: float
    velocity: Vector
    stance: Matrix


@compiled()
def predict_path(time: float, travel: PathMotion) -> tuple[float, float]:
    """Computes the position of the path reference after `time` [s]; see `PathReference.predict`."""
    velocity, half = travel.velocity, 0.5 * travel.velocity[2] * time
    chord = time * (math.sin(half) / half if abs(half) > 1e-6 else 1.0)
    c, s = math.cos(travel.yaw + half) * chord, math.sin(travel.yaw + half) * chord
    x = travel.position[0] + velocity[0] * c - velocity[1] * s
    y = travel.position[1] + velocity[0] * s + velocity[1] * c
    return x, y


@compiled()
def predict_foothold(time: float, foot: int, travel: PathMotion) -> tuple[float, float]:
    """Computes the nominal foothold of a foot that is in mid-stance after `time` [s]; see `compute_footholds`."""
    stance, yaw = travel.stance, travel.yaw + travel.velocity[2] * time
    x, y = predict_path(time, travel)
    c, s = math.cos(yaw), math.sin(yaw)
    return x + c * stance[foot, 0] - s * stance[foot, 1], y + s * stance[foot, 0] + c * stance[foot, 1]


@entry("the footholds to come")
def write_footholds(travel: PathMotion, times: Vector, out: Matrix) -> None:
    """Writes the nominal footholds for the mid-stance times `times` (4,) [s] to `out` (4, 2) [m]."""
    for i in range(4):
        out[i, 0], out[i, 1] = predict_foothold(times[i], i, travel)


@compiled()
def find_swing_number(x: float, first: float, last: float) -> float:
    """Returns the number of the stance or swing of a foot, x cycles after its phase offset."""
    return min(max(math.floor(x), first), last + 1.0)


@compiled()
def compute_load_fraction(x: float, begin: float, end: float, loading: float) -> float:
    """Computes the load fraction of a foot in a stance from `begin` to `end` [cycles]."""
    if not x < end:
        return 0.0
    return min(
        max(min(x - begin, end - x) / loading, 1e-6), 1.0
    )  # the loads must not all vanish at an exchange of feet


@compiled()
def sample_cop(
    falls: Footfalls, travel: PathMotion, feet: Matrix, step: float, points: Matrix, future: Vector, shares: Vector
) -> None:
    """Samples the center of pressure; in flight it is the previous one.

    Args:
        falls: timing of the stances.
        travel: motion of the path reference.
        feet: (4, 2) present positions of the feet, world [m].
        step: time between samples [s].
        points: (N, 2) center of pressure at each sample, world [m]; written.
        future: (N,) fraction of the load on coming footholds; written.
        shares: (4,) present load fractions of the feet; written.
    """
    phase, period, duty, first, last = falls.phase, falls.period, falls.duty, falls.first, falls.last
    point, now, number, begin, end, load = local(4, 2), local(4), local(4), local(4), local(4), local(4)
    zx, zy, later = 0.0, 0.0, 0.0
    for i in range(4):
        point[i, 0], point[i, 1] = feet[i, 0], feet[i, 1]
        zx += 0.25 * feet[i, 0]
        zy += 0.25 * feet[i, 1]
        n = find_swing_number(phase - falls.offsets[i], first[i], last[i])
        now[i], number[i] = n, n
        begin[i] = n if n > first[i] else -math.inf
        end[i] = n + duty if n <= last[i] else math.inf
    for k in range(len(future)):
        total = 0.0
        for i in range(4):
            x = phase + k * step / period - falls.offsets[i]
            if x >= number[i] + 1.0 and number[i] <= last[i]:  # x only grows
                n = find_swing_number(x, first[i], last[i])
                number[i] = n
                begin[i] = n if n > first[i] else -math.inf
                end[i] = n + duty if n <= last[i] else math.inf
                if n > now[i]:
                    time = (n + 0.5 * duty + falls.offsets[i] - phase) * period
                    point[i, 0], point[i, 1] = predict_foothold(time, i, travel)
            load[i] = compute_load_fraction(x, begin[i], end[i], falls.loading)
            total += load[i]
        if total > 0.0:
            zx, zy, later = 0.0, 0.0, 0.0
        for i in range(4):
            load[i] /= max(total, 1e-12)
            if number[i] > now[i]:
                later += load[i]
            zx += load[i] * point[i, 0]
            zy += load[i] * point[i, 1]
            if k == 0:
                shares[i] = load[i]
        points[k, 0], points[k, 1], future[k] = zx, zy, later


@entry("the preview of the centre of mass")
def preview_com(
    falls: Footfalls,
    travel: PathMotion,
    feet: Matrix,
    step: float,
    frequency: float,
    velocity: Vector,
    stiffness: Vector,
    out: Vector,
) -> None:
    """Computes the only bounded motion of the center of mass: its present center of pressure and divergent component.

    The samples are traversed backward from the steady motion at their end.  With `w` the covector of the growing error
    of position and velocity at the end of a step, and the transition matrix Phi over the step, the covector at its
    beginning is ``w Phi``.

    Args:
        falls: timing of the stances.
        travel: motion of the path reference.
        feet: (4, 2) present positions of the feet, world [m].
        step: time between samples [s].
        frequency: natural frequency at the end of the samples and after [1/s].
        velocity: (2,) velocity of the path reference at the end of the samples, world [m/s].
        stiffness: (M,) acceleration divided by the distance from the center of pressure, over a cycle [1/s^2].
        out: (10,) written: present center of pressure (2) and divergent component (2) [m], load fractions (4), weight
            of the coming footholds in the divergent component, and its present frequency [1/s].
    """
    points, future, shares = local(N_SAMPLES, 2), local(N_SAMPLES), local(4)
    sample_cop(falls, travel, feet, step, points, future, shares)
    last = len(future) - 1
    a, b = 1.0, 1.0 / frequency
    x, y = predict_path(last * step, travel)  # from there on the pressure follows the path reference
    x, y, later = x + velocity[0] / frequency, y + velocity[1] / frequency, 1.0
    square, grow, reach, turn = -1.0, 1.0, 0.0, 0.0
    for back in range(last):
        k = last - 1 - back
        cycle = falls.phase + (k + 0.5) * step / falls.period
        position = (cycle - math.floor(cycle)) * len(stiffness)
        i = min(int(position), len(stiffness) - 1)
        j = i + 1 if i + 1 < len(stiffness) else 0
        at = stiffness[i] + (position - i) * (stiffness[j] - stiffness[i])
        if at != square:
            square = at
            rate = math.sqrt(square)
            up = math.exp(rate * step)
            grow = 0.5 * (up + 1.0 / up)
            reach = 0.5 * (up - 1.0 / up) / rate if rate > 0.0 else step
            turn = square * reach
        c, d = a * grow + b * turn, a * reach + b * grow
        # The pressure is interpolated linearly between samples.
        u, v, f = points[k + 1, 0] - points[k, 0], points[k + 1, 1] - points[k, 1], future[k + 1] - future[k]
        to, along = a - c, (b - d) / step
        x -= to * points[k, 0] + (a + along) * u
        y -= to * points[k, 1] + (a + along) * v
        later -= to * future[k] + (a + along) * f
        a, b = c, d
    out[0], out[1], out[2], out[3] = points[0, 0], points[0, 1], x / a, y / a
    for i in range(4):
        out[4 + i] = shares[i]
    out[8], out[9] = later / a, a / b
