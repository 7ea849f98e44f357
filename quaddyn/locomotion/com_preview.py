"""Compiled plan of the center-of-mass motion from the coming footfalls."""

from __future__ import annotations

import math

from ..compiler import Matrix, Record, Vector, compiled, entry, local
from .gait import GaitState, clamp, compute_period, compute_swing_number
from .morphology import Morphology
from .path_reference import PathState, compute_displacement, compute_foothold, compute_world_velocity
from .vertical_force import LOADING_TIME, N_CYCLE_SAMPLES

#: Number of samples of the preview.
N_SAMPLES = 256
#: Horizon of the preview, in time constants ``1 / omega`` of the divergent dynamics; later samples have a weight below
#: e^-5.
HORIZON_TIME_CONSTANTS = 5.0
#: Change of the load fraction of a foot after touchdown and before lift-off [1/cycle].
LOADING_RATE = 1.0 / LOADING_TIME


class PreviewParameters(Record):
    """Parameters of `preview_com`."""

    gravity: float  # [m/s^2]
    height: float  # of the center of mass [m]
    frequency: float  # natural frequency at constant height [1/s]
    step: float  # time between samples [s]


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
def compute_load_fraction(x: float, begin: float, end: float) -> float:
    """Computes the load fraction of a foot in a stance from `begin` to `end` [cycles]."""
    if not x < end:
        return 0.0
    # The loads must not all vanish at an exchange of feet.
    return min(max(min(x - begin, end - x) * LOADING_RATE, 1e-6), 1.0)


@compiled()
def sample_cop(
    g: GaitState,
    path: PathState,
    stance: Matrix,
    feet: Matrix,
    step: float,
    cop: Matrix,
    future_load: Vector,
    load_fractions: Vector,
) -> None:
    """Samples the center of pressure; in flight it is the previous one.

    Args:
        g: phases of the gait.
        path: path reference.
        stance: (4, 2) nominal positions of the feet about the path reference, heading axes [m].
        feet: (4, 3) present positions of the feet, world [m].
        step: time between samples [s].
        cop: (N, 2) center of pressure at each sample, world [m]; written.
        future_load: (N,) fraction of the load on coming footholds; written.
        load_fractions: (4,) present load fractions of the feet; written.
    """
    phase, period, duty, first, last = g.phase, compute_period(g), g.duty_factor, g.first_swing, g.last_swing
    foothold, present_number, number, begin, end, load = local(4, 2), local(4), local(4), local(4), local(4), local(4)
    zx, zy, future_weight = 0.0, 0.0, 0.0
    for i in range(4):
        foothold[i, 0], foothold[i, 1] = feet[i, 0], feet[i, 1]
        zx += 0.25 * feet[i, 0]
        zy += 0.25 * feet[i, 1]
        n = compute_swing_number(g, i)
        present_number[i], number[i] = n, n
        begin[i] = n if n > first[i] else -math.inf
        end[i] = n + duty if n <= last[i] else math.inf
    step_cycles = step / period
    for k in range(len(future_load)):
        total = 0.0
        for i in range(4):
            x = phase + k * step_cycles - g.phase_offsets[i]
            if x >= number[i] + 1.0 and number[i] <= last[i]:  # x only grows
                n = clamp(math.floor(x), first[i], last[i] + 1.0)
                number[i] = n
                begin[i] = n if n > first[i] else -math.inf
                end[i] = n + duty if n <= last[i] else math.inf
                if n > present_number[i]:
                    time = (n + 0.5 * duty + g.phase_offsets[i] - phase) * period
                    foothold[i, 0], foothold[i, 1] = compute_foothold(path, stance, i, time)
            load[i] = compute_load_fraction(x, begin[i], end[i])
            total += load[i]
        if total > 0.0:
            zx, zy, future_weight = 0.0, 0.0, 0.0
        scale = 1.0 / max(total, 1e-12)
        for i in range(4):
            load[i] *= scale
            if number[i] > present_number[i]:
                future_weight += load[i]
            zx += load[i] * foothold[i, 0]
            zy += load[i] * foothold[i, 1]
            if k == 0:
                load_fractions[i] = load[i]
        cop[k, 0], cop[k, 1], future_load[k] = zx, zy, future_weight


@compiled()
def sample_stiffness(preview: PreviewParameters, g: GaitState, stiffness: Vector) -> None:
    """Samples ``(g + zddot) / (h + z)``: acceleration divided by the distance from the center of pressure.

    Args:
        preview: parameters of the preview.
        g: phases of the gait.
        stiffness: (N_CYCLE_SAMPLES,) written [1/s^2].
    """
    profile, unit = g.force_profile, preview.gravity * compute_period(g) * compute_period(g)
    for i in range(len(stiffness)):
        if profile.is_constant:
            stiffness[i] = preview.frequency * preview.frequency
        else:
            stiffness[i] = preview.gravity * profile.force[i] / (preview.height + unit * profile.height[i])


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
    cop, future_load, stiffness = local(N_SAMPLES, 2), local(N_SAMPLES), local(N_CYCLE_SAMPLES)
    step, frequency = preview.step, preview.frequency
    sample_cop(g, path, stance, feet, step, cop, future_load, reference.load_fractions)
    sample_stiffness(preview, g, stiffness)
    last = len(future_load) - 1
    a, b = 1.0, 1.0 / frequency
    # From the last sample on, the pressure follows the path reference.
    x, y = compute_displacement(path, last * step)
    velocity_x, velocity_y = compute_world_velocity(path, last * step)
    x, y = path.position[0] + x + velocity_x / frequency, path.position[1] + y + velocity_y / frequency
    future_weight, step_cycles, sample_rate = 1.0, step / compute_period(g), 1.0 / step
    stiffness_now, cosh, sinh_over_rate, rate_sinh = -1.0, 1.0, 0.0, 0.0
    for n_back in range(last):
        k = last - 1 - n_back
        cycle = g.phase + (k + 0.5) * step_cycles
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
        difference, slope = a - c, (b - d) * sample_rate
        x -= difference * cop[k, 0] + (a + slope) * u
        y -= difference * cop[k, 1] + (a + slope) * v
        future_weight -= difference * future_load[k] + (a + slope) * f
        a, b = c, d
    reference.cop[0], reference.cop[1] = cop[0, 0], cop[0, 1]
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
    return PreviewParameters.from_values(gravity=p.gravity, height=p.height, frequency=omega, step=step)


def allocate_com_reference() -> ComReference:
    """Returns a record for `update_com_reference`."""
    return ComReference.allocate(cop=2, dcm=2, load_fractions=4)
