"""Compiled plan of the center-of-mass motion from the coming footfalls."""

from __future__ import annotations

import math

import numpy as np

from ..compiler import (
    LANE_WIDTH,
    Lanes,
    Matrix,
    Record,
    Vector,
    broadcast8,
    compiled,
    entry,
    load8,
    local,
    mask_range8,
    max8,
    min8,
    select8,
    store8,
    sum8,
)
from .gait import LOADING_TIME, N_CYCLE_SAMPLES, GaitState, clamp, compute_period, compute_swing_number
from .morphology import Morphology
from .path_reference import PathState, compute_displacement, compute_foothold, compute_world_velocity

#: Number of samples of the preview.
N_SAMPLES = 256
#: Horizon of the preview, in time constants ``1 / omega`` of the divergent dynamics; later samples have a weight below
#: e^-5.
HORIZON_TIME_CONSTANTS = 5.0
#: Change of the load fraction of a foot after touchdown and before lift-off [1/cycle].
LOADING_RATE = 1.0 / LOADING_TIME
#: Minimum load of a foot in stance, since the loads must not all vanish at an exchange of feet.
MIN_LOAD = 1e-6


class PreviewParameters(Record):
    """Parameters of `preview_com`."""

    gravity: float  # [m/s^2]
    height: float  # of the center of mass [m]
    frequency: float  # natural frequency at constant height [1/s]
    step: float  # time between samples [s]
    # Weights of the pressure at the samples, and of the steady motion behind the last one, in the bounded divergent
    # component at constant height; their sum is 1.
    weights: Vector  # (N,)
    end_weight: float


class ComReference(Record):
    """Reference of the center of mass at one tick."""

    cop: Vector  # (2,) desired center of pressure, world [m]
    dcm: Vector  # (2,) desired divergent component of motion c + cdot / omega, world [m]
    load_fractions: Vector  # (4,) of the weight on each foot; 0 in flight
    # Derivative of `dcm` with respect to a common shift of all coming footholds: the weight of the future pressure, in
    # (0, 1], that does not rest on the present stance feet; 0 for a robot that stays standing.
    foothold_gain: float
    frequency: float  # [1/s]
    vertical_force: float  # divided by the weight
    height: float  # minus its mean [m]
    height_rate: float  # [m/s]


@compiled()
def find_next_cycle(x: Vector, offset: float, number: float, first: int) -> int:
    """Returns the first sample after `first` that lies in a later cycle of a foot; N if there is none.

    Args:
        x: (N,) phases of the samples, in equal steps [cycles].
        offset: phase offset of the foot [cycles].
        number: number of the cycle of the foot at the sample `first`.
        first: a sample.
    """
    count = len(x)
    distance = (number + 1.0 + offset - x[0]) / (x[1] - x[0])
    if not distance < count:
        return count
    k = max(int(distance) - 1, first + 1)  # the quotient is rounded
    while k < count and x[k] - offset < number + 1.0:
        k += 1
    return k


@compiled()
def compute_load_fractions(x: Lanes, begin: float, end: float) -> Lanes:
    """Computes the load fraction of a foot in one stance at `LANE_WIDTH` samples.

    Args:
        x: positions of the samples in the cycle of the foot [cycles].
        begin: touchdown [cycles].
        end: lift-off [cycles].
    """
    since_begin, until_end = x - broadcast8(begin), broadcast8(end) - x
    ramp = min8(since_begin, until_end) * broadcast8(LOADING_RATE)
    return select8(until_end, min8(max8(ramp, broadcast8(MIN_LOAD)), broadcast8(1.0)), broadcast8(0.0))


@compiled(inline=False)
def sample_loads(
    g: GaitState,
    path: PathState,
    stance: Matrix,
    feet: Matrix,
    step: float,
    cop: Matrix,
    loads: Matrix,
    load_fractions: Vector,
) -> float:
    """Samples the loads of the feet and their footholds, and returns the smallest load of all feet together.

    Args:
        g: phases of the gait.
        path: path reference.
        stance: (4, 2) nominal positions of the feet about the path reference, heading axes [m].
        feet: (4, 3) present positions of the feet, world [m].
        step: time between samples [s].
        cop: (2, N) sum of the footholds, world [m], weighted with their loads, at each sample; written.
        loads: (2, N) sum of the loads of all feet at each sample, and the part of it on coming footholds; written.
        load_fractions: (4,) present load fractions of the feet; written.
    """
    period, duty, count = compute_period(g), g.duty_factor, N_SAMPLES
    x, now = local(N_SAMPLES), local(LANE_WIDTH)
    for k in range(count):
        x[k] = g.phase + k * (step / period)
    cop[:] = 0.0
    loads[:] = 0.0
    for foot in range(4):
        first, last, offset = g.first_swing[foot], g.last_swing[foot], g.phase_offsets[foot]
        px, py, present, k = feet[foot, 0], feet[foot, 1], compute_swing_number(g, foot), 0
        number = present
        now[0] = 0.0
        while k < count:  # one cycle of the foot after the other
            if x[k] - offset >= number + 1.0 and number <= last:
                number = clamp(math.floor(x[k] - offset), first, last + 1.0)
                if number > present:
                    time = (number + 0.5 * duty + offset - g.phase) * period
                    px, py = compute_foothold(path, stance, foot, time)
            stop = find_next_cycle(x, offset, number, k) if number <= last else count
            begin = number if number > first else -math.inf
            end = number + duty if number <= last else math.inf
            loaded = stop
            if number <= last:  # from the lift-off on, the foot carries no load
                loaded = min(stop, int((end + offset - x[0]) / (x[1] - x[0])) + 2)
            for i in range(k // LANE_WIDTH * LANE_WIDTH, loaded, LANE_WIDTH):
                load = compute_load_fractions(load8(x, i) - broadcast8(offset), begin, end)
                if i < k or stop < i + LANE_WIDTH:
                    load = mask_range8(load, k - i, stop - i)
                if k == 0 and i == 0:
                    store8(load, now, 0)
                store8(load8(cop, 0, i) + load * broadcast8(px), cop, 0, i)
                store8(load8(cop, 1, i) + load * broadcast8(py), cop, 1, i)
                store8(load8(loads, 0, i) + load, loads, 0, i)
                if number > present:
                    store8(load8(loads, 1, i) + load, loads, 1, i)
            k = stop
        load_fractions[foot] = now[0]
    for foot in range(4):
        load_fractions[foot] /= max(loads[0, 0], 1e-12)
    smallest = broadcast8(math.inf)
    for i in range(0, count, LANE_WIDTH):
        smallest = min8(smallest, load8(loads, 0, i))
    store8(smallest, now, 0)
    for i in range(1, LANE_WIDTH):
        now[0] = min(now[0], now[i])
    return float(now[0])


@compiled()
def sample_cop(feet: Matrix, cop: Matrix, loads: Matrix) -> None:
    """Samples the center of pressure: the mean of the footholds, weighted with their loads; in flight the previous one.

    Args:
        feet: (4, 3) present positions of the feet, world [m].
        cop: see `sample_loads`; the sums are replaced by means.
        loads: see `sample_loads`; the loads on coming footholds are replaced by fractions of all loads.
    """
    zx = 0.25 * (feet[0, 0] + feet[1, 0] + feet[2, 0] + feet[3, 0])
    zy = 0.25 * (feet[0, 1] + feet[1, 1] + feet[2, 1] + feet[3, 1])
    future_load = 0.0
    for k in range(N_SAMPLES):
        # The last sample of a flight phase has the pressure of the touchdown: the force rises after the touchdown only.
        i = k + 1 if loads[0, k] == 0.0 and k + 1 < N_SAMPLES else k
        if loads[0, i] > 0.0:
            scale = 1.0 / loads[0, i]
            zx, zy, future_load = scale * cop[0, i], scale * cop[1, i], scale * loads[1, i]
        cop[0, k], cop[1, k], loads[1, k] = zx, zy, future_load


@compiled(inline=False)
def preview_at_constant_height(
    preview: PreviewParameters, x: float, y: float, cop: Matrix, loads: Matrix, reference: ComReference
) -> None:
    """Computes the reference of `preview_com` without flight phases: means with constant weights.

    Args:
        preview: parameters of the preview.
        x: divergent component of the steady motion at the last sample, world [m].
        y: its second component [m].
        cop: see `sample_loads`.
        loads: see `sample_loads`.
        reference: written.
    """
    sum_x, sum_y, future = broadcast8(0.0), broadcast8(0.0), broadcast8(0.0)
    for i in range(0, N_SAMPLES, LANE_WIDTH):
        weight = load8(preview.weights, i) / load8(loads, 0, i)
        sum_x += weight * load8(cop, 0, i)
        sum_y += weight * load8(cop, 1, i)
        future += weight * load8(loads, 1, i)
    reference.cop[0], reference.cop[1] = cop[0, 0] / loads[0, 0], cop[1, 0] / loads[0, 0]
    reference.dcm[0] = preview.end_weight * x + sum8(sum_x)
    reference.dcm[1] = preview.end_weight * y + sum8(sum_y)
    reference.foothold_gain = preview.end_weight + sum8(future)
    reference.frequency = preview.frequency


@compiled()
def sample_stiffness(preview: PreviewParameters, g: GaitState, stiffness: Matrix) -> None:
    """Samples ``(g + zddot) / (h + z)``, the acceleration divided by the distance from the center of pressure.

    Nothing is written if it is constant.

    Args:
        preview: parameters of the preview.
        g: phases of the gait.
        stiffness: (2, N_CYCLE_SAMPLES + 1) its values [1/s^2] over a cycle, and their integral over the phase; written.
    """
    profile, unit = g.force_profile, preview.gravity * compute_period(g) * compute_period(g)
    if profile.is_constant:
        return
    for i in range(N_CYCLE_SAMPLES + 1):
        k = i if i < N_CYCLE_SAMPLES else 0
        stiffness[0, i] = preview.gravity * profile.force[k] / (preview.height + unit * profile.height[k])
        if i > 0:
            mean = 0.5 * (stiffness[0, i - 1] + stiffness[0, i])
            stiffness[1, i] = stiffness[1, i - 1] + mean / N_CYCLE_SAMPLES
        else:
            stiffness[1, i] = 0.0


@compiled()
def integrate_stiffness(stiffness: Matrix, phase: float) -> float:
    """Returns the integral of the stiffness, interpolated linearly, over the phase from 0 to `phase` [cycles/s^2]."""
    cycles = math.floor(phase)
    position = (phase - cycles) * N_CYCLE_SAMPLES
    i = min(int(position), N_CYCLE_SAMPLES - 1)
    fraction = position - i
    mean = stiffness[0, i] + 0.5 * fraction * (stiffness[0, i + 1] - stiffness[0, i])
    integral: float = cycles * stiffness[1, N_CYCLE_SAMPLES] + stiffness[1, i] + fraction * mean / N_CYCLE_SAMPLES
    return integral


@compiled(inline=False)
def preview_com(
    preview: PreviewParameters,
    g: GaitState,
    path: PathState,
    stance: Matrix,
    feet: Matrix,
    reference: ComReference,
) -> None:
    """Computes the only bounded motion of the center of mass: its present center of pressure and divergent component.

    At constant height over the ground, level or not, the center of mass c obeys ``cddot = omega^2 (c - z)`` in the
    horizontal projection, with the center of pressure z.  Its divergent component ``xi = c + cdot / omega`` diverges
    from z, ``xidot = omega (xi - z)``, and c converges to xi.  Only one xi stays bounded under the coming pressure,

        xi(t) = omega int_0^inf e^(-omega s) z(t + s) ds,

    (Englsberger, Ott, Albu-Schaeffer 2015, "Three-dimensional bipedal walking control based on divergent component of
    motion"; Lanari, Hutchinson 2014 call it the stable inversion).  The coming pressure is the mean of the footholds,
    weighted with the load that the gait gives to each foot; present stance feet stay, later footholds follow the path
    reference.  The lean of a crawl away from the next swing leg, the sway of a pace and the pitching of a bound all
    follow from this formula.

    *With flight phases* (`VerticalForceProfile`) the vertical contact force is ``m (g + zddot)``, hence ``cddot =
    lambda (c - z)`` with ``lambda = (g + zddot) / (h + height)``, zero in flight.  With the solution of ``omegadot =
    omega^2 - lambda`` that stays positive, the divergent component is still decoupled, ``xidot = (lambda / omega) (xi -
    z)`` (Hopkins, Hong, Leonessa 2014, "Humanoid locomotion on uneven terrain using the time-varying divergent
    component of motion"), and the same boundedness condition determines it.

    The coming pressure is interpolated linearly between `N_SAMPLES` samples; beyond them it follows the path reference.

    The samples are traversed backward from the steady motion at their end.  With `w` the covector of the growing error
    of position and velocity at the end of a step, and the transition matrix Phi over the step, the covector at its
    beginning is ``w Phi``.

    Args:
        preview: parameters of the preview.
        g: phases of the gait.
        path: path reference.
        stance: (4, 2) nominal positions of the feet about the path reference, heading axes [m].
        feet: (4, 3) present positions of the feet, world [m].
        reference: written.
    """
    cop, loads, stiffness = local(2, N_SAMPLES), local(2, N_SAMPLES), local(2, N_CYCLE_SAMPLES + 1)
    step, frequency = preview.step, preview.frequency
    min_load = sample_loads(g, path, stance, feet, step, cop, loads, reference.load_fractions)
    last = N_SAMPLES - 1
    # From the last sample on, the pressure follows the path reference.
    x, y = compute_displacement(path, last * step)
    velocity_x, velocity_y = compute_world_velocity(path, last * step)
    x, y = path.position[0] + x + velocity_x / frequency, path.position[1] + y + velocity_y / frequency
    if g.force_profile.is_constant and min_load > 0.0:
        preview_at_constant_height(preview, x, y, cop, loads, reference)
        return
    sample_cop(feet, cop, loads)
    sample_stiffness(preview, g, stiffness)
    a, b = 1.0, 1.0 / frequency
    future_weight, step_cycles, sample_rate = 1.0, step / compute_period(g), 1.0 / step
    stiffness_now, cosh, sinh_over_rate, rate_sinh = -1.0, 1.0, 0.0, 0.0
    stiffness_next, integral_next = frequency * frequency, 0.0
    if not g.force_profile.is_constant:
        integral_next = integrate_stiffness(stiffness, g.phase + last * step_cycles)
    for n_back in range(last):
        k = last - 1 - n_back
        if not g.force_profile.is_constant:
            integral = integrate_stiffness(stiffness, g.phase + k * step_cycles)
            stiffness_next = (integral_next - integral) / step_cycles
            integral_next = integral
        if stiffness_next != stiffness_now:
            stiffness_now = stiffness_next
            rate = math.sqrt(stiffness_now)
            growth = math.exp(rate * step)
            cosh = 0.5 * (growth + 1.0 / growth)
            sinh_over_rate = 0.5 * (growth - 1.0 / growth) / rate if rate > 0.0 else step
            rate_sinh = stiffness_now * sinh_over_rate
        c, d = a * cosh + b * rate_sinh, a * sinh_over_rate + b * cosh
        # The pressure is interpolated linearly between samples.
        u, v, f = cop[0, k + 1] - cop[0, k], cop[1, k + 1] - cop[1, k], loads[1, k + 1] - loads[1, k]
        difference, slope = a - c, (b - d) * sample_rate
        x -= difference * cop[0, k] + (a + slope) * u
        y -= difference * cop[1, k] + (a + slope) * v
        future_weight -= difference * loads[1, k] + (a + slope) * f
        a, b = c, d
    reference.cop[0], reference.cop[1] = cop[0, 0], cop[1, 0]
    reference.dcm[0], reference.dcm[1] = x / a, y / a
    reference.foothold_gain = future_weight / a
    reference.frequency = a / b
    sample_vertical_motion(preview, g, reference)


@compiled()
def sample_vertical_motion(preview: PreviewParameters, g: GaitState, reference: ComReference) -> None:
    """Computes the present vertical force and vertical motion, by linear interpolation of the profile."""
    profile, period = g.force_profile, compute_period(g)
    if profile.is_constant:
        return
    position = (g.phase - math.floor(g.phase)) * N_CYCLE_SAMPLES
    i = int(position) % N_CYCLE_SAMPLES
    j, fraction = (i + 1) % N_CYCLE_SAMPLES, position - int(position)
    reference.vertical_force = profile.force[i] + fraction * (profile.force[j] - profile.force[i])
    height = profile.height[i] + fraction * (profile.height[j] - profile.height[i])
    rate = profile.rate[i] + fraction * (profile.rate[j] - profile.rate[i])
    reference.height = preview.gravity * period * period * height
    reference.height_rate = preview.gravity * period * rate


@entry("preview of the center of mass")
def update_com_reference(
    preview: PreviewParameters,
    g: GaitState,
    path: PathState,
    stance: Matrix,
    feet: Matrix,
    offset: Matrix,
    reference: ComReference,
) -> None:
    """Computes the reference of the center of mass at this tick.

    Args:
        preview: parameters of the preview.
        g: phases of the gait.
        path: path reference.
        stance: (4, 2) nominal positions of the feet about the path reference, heading axes [m].
        feet: (4, 3) positions of the feet, of swing feet those at lift-off, world [m].
        offset: (2, 3) offset of the center of mass of a standing robot from the center of the feet along world x and
            y: position [m], velocity [m/s] and acceleration [m/s^2].
        reference: written.
    """
    reference.vertical_force = 1.0
    reference.height = 0.0
    reference.height_rate = 0.0
    if g.is_running:
        preview_com(preview, g, path, stance, feet, reference)
        return
    omega = preview.frequency
    for i in range(2):
        center = 0.25 * (feet[0, i] + feet[1, i] + feet[2, i] + feet[3, i])
        reference.cop[i] = center + (offset[i, 0] - offset[i, 2] / (omega * omega))
        reference.dcm[i] = center + (offset[i, 0] + offset[i, 1] / omega)
    reference.load_fractions[:] = 0.25
    reference.foothold_gain = 0.0
    reference.frequency = omega


def make_preview_parameters(morphology: Morphology) -> PreviewParameters:
    """Creates the parameters of the preview of a robot."""
    p, omega = morphology, morphology.natural_frequency
    step = HORIZON_TIME_CONSTANTS / omega / (N_SAMPLES - 1)
    # The integral of ``omega e^(-omega t) z(t)`` for z that is linear between samples; the means of the exponential
    # over the intervals between samples, and the differences of adjacent ones.
    decay = np.exp(-omega * step * np.arange(N_SAMPLES))
    means = -np.diff(decay) / (omega * step)
    weights = -np.diff(means, prepend=1.0, append=decay[-1])
    return PreviewParameters.from_values(
        gravity=p.gravity, height=p.height, frequency=omega, step=step, weights=weights, end_weight=float(decay[-1])
    )


def allocate_com_reference() -> ComReference:
    """Returns a record for `update_com_reference`."""
    return ComReference.allocate(cop=2, dcm=2, load_fractions=4)
