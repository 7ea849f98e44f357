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
def predict_path(time: float, path_motion: PathMotion) -> tuple[float, float]:
    """Computes the position of the path reference after `time` [s]; see `PathReference.predict`."""
    velocity, half = path_motion.velocity, 0.5 * path_motion.velocity[2] * time
    chord = time * (math.sin(half) / half if abs(half) > 1e-6 else 1.0)
    c, s = math.cos(path_motion.yaw + half) * chord, math.sin(path_motion.yaw + half) * chord
    x = path_motion.position[0] + velocity[0] * c - velocity[1] * s
    y = path_motion.position[1] + velocity[0] * s + velocity[1] * c
    return x, y


@compiled()
def predict_foothold(time: float, foot: int, path_motion: PathMotion) -> tuple[float, float]:
    """Computes the nominal foothold of a foot that is in mid-stance after `time` [s]; see `compute_footholds`."""
    stance, yaw = path_motion.stance, path_motion.yaw + path_motion.velocity[2] * time
    x, y = predict_path(time, path_motion)
    c, s = math.cos(yaw), math.sin(yaw)
    return x + c * stance[foot, 0] - s * stance[foot, 1], y + s * stance[foot, 0] + c * stance[foot, 1]


@entry("coming footholds")
def write_footholds(path_motion: PathMotion, times: Vector, out: Matrix) -> None:
    """Writes the nominal footholds for the mid-stance times `times` (4,) [s] to `out` (4, 2) [m]."""
    for i in range(4):
        out[i, 0], out[i, 1] = predict_foothold(times[i], i, path_motion)


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
    footfalls: Footfalls,
    path_motion: PathMotion,
    feet: Matrix,
    step: float,
    cop: Matrix,
    future_load: Vector,
    load_fractions: Vector,
) -> None:
    """Samples the center of pressure; in flight it is the previous one.

    Args:
        footfalls: timing of the stances.
        path_motion: motion of the path reference.
        feet: (4, 2) present positions of the feet, world [m].
        step: time between samples [s].
        cop: (N, 2) center of pressure at each sample, world [m]; written.
        future_load: (N,) fraction of the load on coming footholds; written.
        load_fractions: (4,) present load fractions of the feet; written.
    """
    phase, period, duty, first, last = (
        footfalls.phase,
        footfalls.period,
        footfalls.duty,
        footfalls.first,
        footfalls.last,
    )
    foothold, present_number, number, begin, end, load = local(4, 2), local(4), local(4), local(4), local(4), local(4)
    zx, zy, future_weight = 0.0, 0.0, 0.0
    for i in range(4):
        foothold[i, 0], foothold[i, 1] = feet[i, 0], feet[i, 1]
        zx += 0.25 * feet[i, 0]
        zy += 0.25 * feet[i, 1]
        n = find_swing_number(phase - footfalls.offsets[i], first[i], last[i])
        present_number[i], number[i] = n, n
        begin[i] = n if n > first[i] else -math.inf
        end[i] = n + duty if n <= last[i] else math.inf
    for k in range(len(future_load)):
        total = 0.0
        for i in range(4):
            x = phase + k * step / period - footfalls.offsets[i]
            if x >= number[i] + 1.0 and number[i] <= last[i]:  # x only grows
                n = find_swing_number(x, first[i], last[i])
                number[i] = n
                begin[i] = n if n > first[i] else -math.inf
                end[i] = n + duty if n <= last[i] else math.inf
                if n > present_number[i]:
                    time = (n + 0.5 * duty + footfalls.offsets[i] - phase) * period
                    foothold[i, 0], foothold[i, 1] = predict_foothold(time, i, path_motion)
            load[i] = compute_load_fraction(x, begin[i], end[i], footfalls.loading)
            total += load[i]
        if total > 0.0:
            zx, zy, future_weight = 0.0, 0.0, 0.0
        for i in range(4):
            load[i] /= max(total, 1e-12)
            if number[i] > present_number[i]:
                future_weight += load[i]
            zx += load[i] * foothold[i, 0]
            zy += load[i] * foothold[i, 1]
            if k == 0:
                load_fractions[i] = load[i]
        cop[k, 0], cop[k, 1], future_load[k] = zx, zy, future_weight


@entry("preview of the center of mass")
def preview_com(
    footfalls: Footfalls,
    path_motion: PathMotion,
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
        footfalls: timing of the stances.
        path_motion: motion of the path reference.
        feet: (4, 2) present positions of the feet, world [m].
        step: time between samples [s].
        frequency: natural frequency at the end of the samples and after [1/s].
        velocity: (2,) velocity of the path reference at the end of the samples, world [m/s].
        stiffness: (M,) acceleration divided by the distance from the center of pressure, over a cycle [1/s^2].
        out: (10,) written: present center of pressure (2) and divergent component (2) [m], load fractions (4), weight
            of the coming footholds in the divergent component, and its present frequency [1/s].
    """
    cop, future_load, load_fractions = local(N_SAMPLES, 2), local(N_SAMPLES), local(4)
    sample_cop(footfalls, path_motion, feet, step, cop, future_load, load_fractions)
    last = len(future_load) - 1
    a, b = 1.0, 1.0 / frequency
    x, y = predict_path(last * step, path_motion)  # from there on the pressure follows the path reference
    x, y, future_weight = x + velocity[0] / frequency, y + velocity[1] / frequency, 1.0
    stiffness_now, cosh, sinh_over_rate, rate_sinh = -1.0, 1.0, 0.0, 0.0
    for n_back in range(last):
        k = last - 1 - n_back
        cycle = footfalls.phase + (k + 0.5) * step / footfalls.period
        position = (cycle - math.floor(cycle)) * len(stiffness)
        i = min(int(position), len(stiffness) - 1)
        j = i + 1 if i + 1 < len(stiffness) else 0
        stiffness_next = stiffness[i] + (position - i) * (stiffness[j] - stiffness[i])
        if stiffness_next != stiffness_now:
            stiffness_now = stiffness_next
            rate = math.sqrt(stiffness_now)
            growth = math.exp(rate * step)
            cosh = 0.5 * (growth + 1.0 / growth)
            sinh_over_rate = 0.5 * (growth - 1.0 / growth) / rate if rate > 0.0 else step
            rate_sinh = stiffness_now * sinh_over_rate
        c, d = a * cosh + b * rate_sinh, a * sinh_over_rate + b * cosh
        # The pressure is interpolated linearly between samples.
        u, v, f = cop[k + 1, 0] - cop[k, 0], cop[k + 1, 1] - cop[k, 1], future_load[k + 1] - future_load[k]
        difference, slope = a - c, (b - d) / step
        x -= difference * cop[k, 0] + (a + slope) * u
        y -= difference * cop[k, 1] + (a + slope) * v
        future_weight -= difference * future_load[k] + (a + slope) * f
        a, b = c, d
    out[0], out[1], out[2], out[3] = cop[0, 0], cop[0, 1], x / a, y / a
    for i in range(4):
        out[4 + i] = load_fractions[i]
    out[8], out[9] = future_weight / a, a / b
