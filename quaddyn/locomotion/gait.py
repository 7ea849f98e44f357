"""`Gait`: a periodic footfall pattern; `GaitScheduler`: its timing, with smooth starts, stops and transitions.

`VerticalForceProfile`: vertical contact force of a gait over its cycle, and the vertical motion that it causes.
"""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from ..compiler import IntVector, Record, Vector, compiled, entry
from ..deprecation import renamed_attributes, renamed_fields
from ..errors import ArgumentError, UnknownNameError
from ..robot.arguments import check_number, check_sequence
from ..urdf.tree import Array, FrozenArrays
from .state_fields import StateField

#: Time over which the load of a foot ramps up after touchdown and down before lift-off [cycles].
LOADING_TIME = 0.06
#: Number of samples per cycle.
N_CYCLE_SAMPLES = 256
#: Number of fully loaded feet that carry the full vertical force; with less load the force is proportionally smaller.
FULL_SUPPORT_FEET = 2.0
#: Rounding of the load [feet].
LOAD_TOLERANCE = 1e-9
#: Shapes of the arrays of a `ForceProfile`.
FORCE_PROFILE_SHAPES = {
    "phase_offsets": 4,
    "force": N_CYCLE_SAMPLES,
    "rate": N_CYCLE_SAMPLES,
    "height": N_CYCLE_SAMPLES,
}


class ForceProfile(Record):
    """Vertical contact force over a cycle, and the vertical motion that it causes; see `VerticalForceProfile`."""

    phase_offsets: Vector  # (4,) for which the samples were computed [cycles]
    duty_factor: float  # likewise
    force: Vector  # (N_CYCLE_SAMPLES,) vertical force, divided by the weight
    rate: Vector  # (N_CYCLE_SAMPLES,) vertical velocity, divided by g T with the period T
    height: Vector  # (N_CYCLE_SAMPLES,) height minus its mean, divided by g T^2
    has_flight_phase: bool  # whether no foot is loaded at some instant
    is_constant: bool  # whether the force equals the weight at all times


@compiled()
def compute_load(phase: float, phase_offsets: Vector, duty_factor: float) -> float:
    """Returns the number of loaded feet at a phase of the cycle [cycles]."""
    load = 0.0
    for foot in range(len(phase_offsets)):
        x = phase - phase_offsets[foot]
        x -= math.floor(x)
        load += min(max(min(x, duty_factor - x) / LOADING_TIME, 0.0), 1.0)
    return load


@compiled()
def subtract_mean(x: Vector) -> None:
    """Subtracts the mean of the entries from each of them."""
    total = 0.0
    for i in range(len(x)):
        total += x[i]
    mean = total / len(x)
    for i in range(len(x)):
        x[i] -= mean


@entry("vertical force of the gait")
def compute_force_profile(profile: ForceProfile, phase_offsets: Vector, duty_factor: float) -> None:
    """Computes the samples of a gait, unless the profile has them already.

    Args:
        profile: written.
        phase_offsets: (4,) phase of each foot's touchdown [cycles].
        duty_factor: stance time of each foot divided by the period.
    """
    is_known = profile.duty_factor == duty_factor
    for foot in range(len(phase_offsets)):
        is_known = is_known and profile.phase_offsets[foot] == phase_offsets[foot]
    if is_known:
        return
    profile.duty_factor = duty_factor
    profile.phase_offsets[:] = phase_offsets
    n = len(profile.force)
    total, min_load = 0.0, math.inf
    for i in range(n):
        load = compute_load(i / n, phase_offsets, duty_factor)
        min_load = min(min_load, load)
        profile.force[i] = min(load / FULL_SUPPORT_FEET, 1.0)
        total += profile.force[i]
    profile.has_flight_phase = min_load <= 0.0
    profile.is_constant = min_load >= FULL_SUPPORT_FEET - LOAD_TOLERANCE
    rate, height = 0.0, 0.0
    for i in range(n):
        profile.force[i] *= n / total
        rate += (profile.force[i] - 1.0) / n
        profile.rate[i] = rate
    subtract_mean(profile.rate)
    for i in range(n):
        height += profile.rate[i] / n
        profile.height[i] = height
    subtract_mean(profile.height)


def allocate_force_profile() -> ForceProfile:
    """Returns a profile without samples."""
    return ForceProfile.allocate(**FORCE_PROFILE_SHAPES)


@dataclass(frozen=True, slots=True, eq=False)
class VerticalForceProfile(FrozenArrays):
    """Vertical contact force over a cycle, and the vertical motion that it causes.

    The force is proportional to the load of the feet, up to that of two: constant for gaits that always stand on two
    feet, a trapezoid per stance for gaits with flight phases, zero in flight.  Its mean is the weight, so that the
    motion is periodic: ``zddot = g (force - 1)``.

    Attributes:
        force: (N_CYCLE_SAMPLES,) vertical force, divided by the weight.
        rate: (N_CYCLE_SAMPLES,) vertical velocity, divided by ``g T`` with the period T.
        height: (N_CYCLE_SAMPLES,) height minus its mean, divided by ``g T^2``.
        has_flight_phase: whether no foot is loaded at some instant.
        is_constant: whether the force equals the weight at all times.
    """

    force: Array
    rate: Array
    height: Array
    has_flight_phase: bool
    is_constant: bool


@functools.lru_cache(maxsize=256)
def compute_vertical_force_profile(phase_offsets: tuple[float, ...], duty_factor: float) -> VerticalForceProfile:
    """Computes the vertical force profile of a gait.

    Args:
        phase_offsets: (4,) phase of each foot's touchdown [cycles].
        duty_factor: stance time of each foot divided by the period.
    """
    profile = allocate_force_profile()
    compute_force_profile(profile, np.array(phase_offsets), float(duty_factor))
    return VerticalForceProfile(
        profile.force, profile.rate, profile.height, profile.has_flight_phase, profile.is_constant
    )


#: Rates of a gait transition, per cycle: of the phase offsets [cycles], and of stance and swing time as fractions of
#: the target times.
OFFSET_RATE, TIME_RATE = 0.25, 0.5
#: Amount by which the duty factor may be below that of a trot while the phase offsets change [cycles].
DUTY_TOLERANCE = 0.01
#: Tolerances at which a gait transition is complete: of a phase [cycles] (rounding), and relative, of the footprint.
PHASE_TOLERANCE, TRANSITION_TOLERANCE = 1e-9, 1e-5
#: Minimum duration of a swing that is divided by [cycles].
MIN_SWING_FRACTION = 1e-9


class GaitParameters(Record):
    """Parameters of a gait; see `Gait`."""

    period: float  # [s]
    duty_factor: float
    phase_offsets: Vector  # (4,) [cycles]
    footprint_scale: Vector  # (2,)
    has_swing_phase: bool
    has_constant_force: bool  # whether the vertical contact force equals the weight at all times


class GaitState(Record):
    """Phases of the four feet, and the transition between two gaits."""

    target: GaitParameters
    trot: GaitParameters
    phase: float  # of the cycle, never wrapped [cycles]
    nominal_period: float  # at rate scale 1 [s]
    rate_scale: float  # factor by which the cycle is faster
    duty_factor: float
    phase_offsets: Vector  # (4,) not wrapped [cycles]
    footprint_scale: Vector  # (2,)
    first_swing: Vector  # (4,) number of the first swing of each foot
    last_swing: Vector  # (4,) number of the last swing of each foot; inf while stepping goes on
    is_running: bool
    is_stopping: bool
    force_profile: ForceProfile


class FeetTiming(Record):
    """Timing of the four feet at the present phase."""

    in_stance: IntVector  # (4,)
    is_loaded: IntVector  # (4,) whether the foot is to carry load
    time_to_mid_stance: Vector  # (4,) until the middle of the next stance, the present one excluded [s]
    time_to_liftoff: Vector  # (4,) [s]; 0 for swing feet and for feet that stay in stance
    swing_phase: Vector  # (4,) completed fraction of the present swing; 0 in stance


@compiled()
def clamp(x: float, low: float, high: float) -> float:
    """Returns the value in [low, high] that is nearest to x."""
    return min(max(x, low), high)


@compiled()
def compute_period(g: GaitState) -> float:
    """Returns the present duration of one cycle [s]."""
    return g.nominal_period / g.rate_scale


@compiled()
def compute_swing_number(g: GaitState, foot: int) -> float:
    """Returns the number of the present stance and of the swing that follows it."""
    return clamp(math.floor(g.phase - g.phase_offsets[foot]), g.first_swing[foot], g.last_swing[foot] + 1.0)


@compiled()
def compute_contact_state(g: GaitState, foot: int) -> tuple[bool, bool]:
    """Returns whether a foot is in stance, and whether it is to carry load."""
    x, n = g.phase - g.phase_offsets[foot], compute_swing_number(g, foot)
    end = n + g.duty_factor if n <= g.last_swing[foot] else math.inf
    in_stance = (n <= g.first_swing[foot] or n <= x) and x < end
    return in_stance, in_stance and x < end - LOADING_TIME


@compiled()
def compute_time_to_mid_stance(g: GaitState, foot: int) -> float:
    """Returns the time until the middle of the next stance of a foot, the present one excluded [s]."""
    x = g.phase - g.phase_offsets[foot]
    return float((compute_swing_number(g, foot) + 1.0 + 0.5 * g.duty_factor - x) * compute_period(g))


@compiled()
def compute_time_to_liftoff(g: GaitState, foot: int) -> float:
    """Returns the time until a stance foot lifts off [s]; 0 for swing feet and for feet that stay in stance."""
    x, n = g.phase - g.phase_offsets[foot], compute_swing_number(g, foot)
    return max(0.0, n + g.duty_factor - x) * compute_period(g) if n <= g.last_swing[foot] else 0.0


@compiled()
def compute_swing_phase(g: GaitState, foot: int) -> float:
    """Returns the completed fraction of the present swing of a foot, from 0 to 1; 0 in stance."""
    if compute_contact_state(g, foot)[0]:
        return 0.0
    x = g.phase - g.phase_offsets[foot]
    return float((x - compute_swing_number(g, foot) - g.duty_factor) / max(1.0 - g.duty_factor, MIN_SWING_FRACTION))


@entry("timing of the gait")
def write_timing(g: GaitState, timing: FeetTiming) -> None:
    """Writes the timing of all feet at the present phase."""
    for foot in range(4):
        in_stance, is_loaded = compute_contact_state(g, foot)
        timing.in_stance[foot] = int(in_stance)
        timing.is_loaded[foot] = int(is_loaded)
        timing.time_to_mid_stance[foot] = compute_time_to_mid_stance(g, foot)
        timing.time_to_liftoff[foot] = compute_time_to_liftoff(g, foot)
        timing.swing_phase[foot] = compute_swing_phase(g, foot)


# -- commands --------------------------------------------------------------------------------------------------------
@entry("timing of the gait")
def reset_cycle(g: GaitState, phase: float) -> None:
    """Sets the cycle to its start, in the target gait, or in a trot from which the transition to it begins.

    Gaits with a narrower footprint or with flight phases start as a trot.
    """
    is_direct = (
        g.target.has_constant_force and g.target.footprint_scale[0] == 1.0 and g.target.footprint_scale[1] == 1.0
    )
    if is_direct:
        set_parameters(g, g.target)
    else:
        set_parameters(g, g.trot)
    g.phase = phase
    for foot in range(4):
        g.first_swing[foot] = -float(math.floor(g.phase_offsets[foot] + g.duty_factor))
        g.last_swing[foot] = math.inf


@entry("timing of the gait")
def restart_gait(g: GaitState, gait: GaitParameters, lead_phase: float) -> None:
    """Sets all feet to stance, and the gait to move with.

    Args:
        g: state of the gait; written.
        gait: gait to move with.
        lead_phase: time from a start until the first foot may lift off [cycles].
    """
    g.target.copy_from(gait)
    g.rate_scale = 1.0
    g.is_running = False
    reset_cycle(g, -lead_phase)
    stop_stepping(g)


@compiled()
def set_parameters(g: GaitState, gait: GaitParameters) -> None:
    """Sets the present parameters of the gait state to the parameters of a gait."""
    g.duty_factor, g.nominal_period = gait.duty_factor, gait.period
    g.phase_offsets[:] = gait.phase_offsets
    g.footprint_scale[:] = gait.footprint_scale
    compute_force_profile(g.force_profile, g.phase_offsets, g.duty_factor)


@compiled()
def set_target_gait(g: GaitState, gait: GaitParameters) -> None:
    """Starts the transition to another gait over the next cycles; if not running, from the next start on."""
    g.target.copy_from(gait)
    if not gait.has_swing_phase:
        stop_stepping(g)


@entry("timing of the gait")
def start_stepping(g: GaitState, lead_phase: float) -> None:
    """Starts to step `lead_phase` cycles before the first lift-off, or cancels a stop."""
    if g.is_running:
        if g.is_stopping:
            g.last_swing[:] = math.inf
            g.is_stopping = False
    elif g.target.has_swing_phase:
        reset_cycle(g, -lead_phase)
        g.is_running = True
        g.is_stopping = False


@entry("timing of the gait")
def stop_stepping(g: GaitState) -> None:
    """Requests a stop: swing feet land, and no other foot lifts off; gaits with flight phases trot first."""
    g.is_stopping = True
    set_last_swings(g)


@compiled()
def set_last_swings(g: GaitState) -> None:
    """Sets the numbers of the last swings, unless the present gait has flight phases."""
    if not g.force_profile.is_constant:
        return
    for foot in range(4):
        stance = float(math.floor(g.phase - g.phase_offsets[foot]))
        if compute_contact_state(g, foot)[0]:
            stance -= 1.0
        g.last_swing[foot] = min(g.last_swing[foot], stance)


@entry("timing of the gait")
def advance_phase(g: GaitState, dt: float) -> None:
    """Advances phase, transition and stop by `dt` [s]."""
    if not g.is_running:
        return
    cycles = dt / compute_period(g)
    g.phase += cycles
    if g.is_stopping and (g.last_swing[0] == math.inf or not g.target.has_constant_force):
        approach_gait(g, g.trot, cycles)
    else:
        approach_gait(g, g.target, cycles)
    if g.is_stopping and g.last_swing[0] == math.inf:
        set_last_swings(g)
    if g.is_stopping:
        has_stopped = True
        for foot in range(4):
            if not g.phase - g.phase_offsets[foot] >= g.last_swing[foot] + 1.0:
                has_stopped = False
        if has_stopped:
            g.is_running = False


@compiled(inline=False)
def approach_gait(g: GaitState, gait: GaitParameters, cycles: float) -> None:
    """Moves the present parameters toward the parameters of a gait.

    The phase offsets change more slowly than the phase, so that the phase of a foot never decreases.  The duty factor
    is reduced for flight phases after the other parameters, and increased before them: the order of the feet changes
    while they are on the ground.

    Args:
        g: state of the gait.
        gait: gait to approach.
        cycles: time since the last call [cycles].
    """
    if not gait.has_swing_phase or (g.phase < 0.0 and not gait.has_constant_force):
        return  # no flight phase before the first lift-off
    pattern_reached = True
    for i in range(2):
        tolerance = PHASE_TOLERANCE + TRANSITION_TOLERANCE * gait.footprint_scale[i]
        if not abs(g.footprint_scale[i] - gait.footprint_scale[i]) <= tolerance:
            pattern_reached = False
    for foot in range(4):
        if not abs(compute_offset_change(g, gait, foot)) <= PHASE_TOLERANCE:
            pattern_reached = False
    min_duty_factor = g.trot.duty_factor - DUTY_TOLERANCE
    if not pattern_reached and g.duty_factor > min_duty_factor:
        max_change = OFFSET_RATE * cycles
        for foot in range(4):
            g.phase_offsets[foot] += clamp(compute_offset_change(g, gait, foot), -max_change, max_change)
        max_change = TIME_RATE * cycles
        for i in range(2):
            g.footprint_scale[i] += clamp(gait.footprint_scale[i] - g.footprint_scale[i], -max_change, max_change)
    duty_factor, period = g.trot.duty_factor, g.trot.period
    if pattern_reached or gait.duty_factor > min_duty_factor:
        duty_factor, period = gait.duty_factor, gait.period
    stance_time = approach_duration(g.duty_factor * g.nominal_period, duty_factor * period, cycles)
    swing_time = approach_duration((1.0 - g.duty_factor) * g.nominal_period, (1.0 - duty_factor) * period, cycles)
    g.nominal_period = stance_time + swing_time
    g.duty_factor = stance_time / (stance_time + swing_time)
    compute_force_profile(g.force_profile, g.phase_offsets, g.duty_factor)


@compiled()
def compute_offset_change(g: GaitState, gait: GaitParameters, foot: int) -> float:
    """Returns the shortest change of a foot's phase offset that makes it equal to the gait's [cycles].

    Differences of half a cycle are all taken backward: the feet then change order while two of a trot's feet stand.
    """
    change = gait.phase_offsets[foot] - g.phase_offsets[foot]
    return float(change - math.floor(change + 0.5 + PHASE_TOLERANCE))


@compiled()
def approach_duration(present: float, target: float, cycles: float) -> float:
    """Returns a stance or swing time [s] that is nearer to its target, at the rate of a transition."""
    return present + clamp(target - present, -TIME_RATE * cycles * present, TIME_RATE * cycles * target)


@entry("timing of the gait")
def is_transitioning(g: GaitState) -> bool:
    """Returns whether the transition to the target gait is not complete."""
    gait = g.target
    if (
        abs(g.duty_factor - gait.duty_factor) > TRANSITION_TOLERANCE
        or abs(g.nominal_period - gait.period) > TRANSITION_TOLERANCE * g.nominal_period
    ):
        return True
    for i in range(2):
        if abs(g.footprint_scale[i] - gait.footprint_scale[i]) > 2.0 * TRANSITION_TOLERANCE:
            return True
    for foot in range(4):
        error = g.phase_offsets[foot] - gait.phase_offsets[foot]
        if abs(error - math.floor(error + 0.5)) > TRANSITION_TOLERANCE:
            return True
    return False


def allocate_gait_state() -> GaitState:
    """Returns the state of a scheduler without gaits."""
    gait = {"phase_offsets": 4, "footprint_scale": 2}
    return GaitState.allocate(
        target=gait,
        trot=gait,
        phase_offsets=4,
        footprint_scale=2,
        first_swing=4,
        last_swing=4,
        force_profile=FORCE_PROFILE_SHAPES,
    )


def allocate_feet_timing() -> FeetTiming:
    """Returns a record for `write_timing`."""
    return FeetTiming.allocate(in_stance=4, is_loaded=4, time_to_mid_stance=4, time_to_liftoff=4, swing_phase=4)


#: Minimum duty factor: contact forces grow as its inverse.
MIN_DUTY_FACTOR = 0.3


@renamed_fields(duty="duty_factor", offsets="phase_offsets", spread="footprint_scale", stride="max_stride")
@renamed_attributes(moves="has_swing_phase", rocks="has_end_support", thrust="vertical_force_profile")
@dataclass(frozen=True, slots=True)
class Gait:
    """Periodic footfall pattern of a quadruped.

    Source: Hildebrand 1965, "Symmetrical gaits of horses".

    Attributes:
        name: name of the gait.
        period: duration of one cycle [sqrt(l/g)]; see `Morphology.time_scale`.
        duty_factor: stance time of each foot divided by the period, in [0.3, 1].
        phase_offsets: (4,) phase of each foot's touchdown [cycles], from 0 to below 1, in the order FL, FR, RL, RR.
        footprint_scale: (2,) ratios of length and width of the footprint to those of the home stance.  In gaits that
            are supported by one side or one end alone, the center of mass accelerates away from the support at ``(c -
            z) g / h``, which friction limits; so their footprints are narrower.
        max_stride: maximum path of a stance foot during one stance [leg lengths]; commanded velocities
            beyond it are clamped.
    """

    name: str
    period: float
    duty_factor: float
    phase_offsets: tuple[float, float, float, float]
    footprint_scale: tuple[float, float] = (1.0, 1.0)
    max_stride: float = 0.6

    def __post_init__(self) -> None:
        if not (np.isfinite(check_number("period", self.period)) and self.period > 0.0):
            raise ArgumentError(
                f"period: expected a positive number, in units of sqrt(l/g) with the leg length l, got {self.period}"
            )
        if not MIN_DUTY_FACTOR <= check_number("duty_factor", self.duty_factor) <= 1.0:
            raise ArgumentError(
                f"duty_factor: expected a fraction of the period in [{MIN_DUTY_FACTOR}, 1], got {self.duty_factor}"
            )
        for field in (
            "phase_offsets",
            "footprint_scale",
        ):  # stored as tuples, so that gaits compare by their numbers
            values = check_sequence(field, getattr(self, field), "numbers")
            object.__setattr__(self, field, tuple(check_number(field, value) for value in values))
        if len(self.phase_offsets) != 4 or not all(0.0 <= o < 1.0 for o in self.phase_offsets):
            raise ArgumentError(f"phase_offsets: expected four phases in [0, 1), FL FR RL RR, got {self.phase_offsets}")
        if len(self.footprint_scale) != 2 or not all(0.0 < s <= 2.0 for s in self.footprint_scale):
            raise ArgumentError(
                f"footprint_scale: expected two factors in (0, 2], of length and width, got {self.footprint_scale}"
            )
        if not 0.0 < check_number("max_stride", self.max_stride) <= 1.0:
            raise ArgumentError(f"max_stride: expected a fraction of the leg length in (0, 1], got {self.max_stride}")

    @property
    def has_swing_phase(self) -> bool:
        """Whether feet ever leave the ground."""
        return self.duty_factor < 1.0

    @property
    def vertical_force_profile(self) -> VerticalForceProfile:
        """Vertical force and vertical motion over a cycle."""
        return compute_vertical_force_profile(self.phase_offsets, self.duty_factor)

    @property
    def has_end_support(self) -> bool:
        """Whether the robot is supported at times by the front feet alone or by the rear feet alone."""
        return has_end_support(self.phase_offsets, self.duty_factor)


#: Time between two contact events below which they count as simultaneous (rounding) [periods].
EVENT_TOLERANCE = 1e-9


@functools.lru_cache(maxsize=64)
def has_end_support(phase_offsets: tuple[float, ...], duty_factor: float) -> bool:
    """Returns whether the front feet alone or the rear feet alone are in stance between two contact events.

    Args:
        phase_offsets: (4,) phase of each foot's touchdown [cycles].
        duty_factor: stance time divided by the period.
    """
    events = sorted([phase % 1.0 for offset in phase_offsets for phase in (offset, offset + duty_factor)])
    for before, after in itertools.pairwise([*events, events[0] + 1.0]):
        fl, fr, rl, rr = ((0.5 * (before + after) - offset) % 1.0 < duty_factor for offset in phase_offsets)
        if after - before > EVENT_TOLERANCE and (fl or fr) != (rl or rr):
            return True
    return False


#: Known gaits.  Their periods keep the swing time at about ``sqrt(l / g)``, the natural swing time of a leg of length
#: l. The walk has diagonal couplets: support by three feet and by diagonal pairs alternate, never a pair of one side.
#: The gallop is the transverse one of horses: left rear, right rear, left front, right front, then all feet gathered in
#: the air (Hildebrand 1977, "Analysis of asymmetrical gaits"; Bertram, Gutmann 2009, "Motions of the running horse and
#: cheetah revisited: fundamental mechanics of the transverse and rotary gallop").  Its strides are short: with longer
#: ones, robots with a long wheelbase for their height fall, ANYmal B above a speed of 0.28 sqrt(g l).
GAITS = MappingProxyType(
    {
        gait.name: gait
        for gait in (
            Gait("stand", 2.2, 1.0, (0.0, 0.0, 0.0, 0.0)),
            Gait("crawl", 6.0, 0.82, (0.25, 0.75, 0.0, 0.5), (1.0, 1.0), 0.32),
            Gait("walk", 3.4, 0.72, (0.35, 0.85, 0.0, 0.5), (1.0, 1.0), 0.5),
            Gait("trot", 2.2, 0.56, (0.0, 0.5, 0.5, 0.0)),
            Gait("pace", 1.8, 0.56, (0.0, 0.5, 0.0, 0.5), (1.0, 0.4), 0.45),
            Gait("bound", 1.8, 0.56, (0.0, 0.0, 0.5, 0.5), (0.35, 1.0), 0.4),
            Gait("running_trot", 1.9, 0.38, (0.0, 0.5, 0.5, 0.0)),
            Gait("pronk", 2.0, 0.5, (0.0, 0.0, 0.0, 0.0)),
            Gait("gallop", 1.8, 0.42, (0.085, 0.235, 0.765, 0.915), (0.6, 1.0), 0.27),
        )
    }
)


def find_gait(gait: str | Gait) -> Gait:
    """Returns the gait of a name, or the `Gait` that was given.

    Raises:
        UnknownNameError: there is no gait of this name.
    """
    if isinstance(gait, Gait):
        return gait
    if not isinstance(gait, str) or gait not in GAITS:
        raise UnknownNameError("gait", gait, GAITS)
    return GAITS[gait]


def write_gait_parameters(parameters: GaitParameters, gait: Gait, time_scale: float) -> None:
    """Writes the parameters of a gait to a record.

    Args:
        parameters: written.
        gait: the gait.
        time_scale: ``sqrt(l / g)`` [s].
    """
    parameters.period, parameters.duty_factor = gait.period * time_scale, gait.duty_factor
    parameters.phase_offsets[:], parameters.footprint_scale[:] = gait.phase_offsets, gait.footprint_scale
    parameters.has_swing_phase = gait.has_swing_phase
    parameters.has_constant_force = gait.vertical_force_profile.is_constant


class GaitScheduler:
    """Phases of the four feet over time, with starts, stops and transitions between gaits.

    The phase phi of the cycle grows by 1 per period and is never wrapped.  The n-th stance of a foot with offset o
    lasts from ``phi = o + n`` to ``o + n + duty_factor``, its n-th swing from there to ``o + n + 1``.

    *Start*: all feet are in stance until phi reaches 0, and perform only swings that begin after that.  The phase
    starts at a negative value, so that the center of mass has time to accelerate.  *Stop*: swing feet land as planned
    and stay.  *Transition*: phase offsets and times move to those of the new gait at limited rates, each offset along
    the shorter direction, while the cycle goes on.  Gaits with a narrower footprint start as a trot and change.  Gaits
    with flight phases start as a trot, too, and stop as one.

    Args:
        gait: gait to start with.
        time_scale: ``sqrt(l / g)`` [s].
        lead_phase: time from the start until the first foot may lift off [cycles].

    Attributes:
        gait: target gait of the transition.
        state: record of the compiled functions, with all of the state.
        phase: phase phi of the cycle [cycles].
        time_scale: ``sqrt(l / g)`` [s].
        lead_phase: as given [cycles].
        is_running: whether any foot may still swing.
        rate_scale: factor by which the cycle is at present faster than that of the gait, see `adapt_step_timing`.
        duty_factor: present duty factor.
        phase_offsets: (4,) present phase offsets, not wrapped [cycles].
        footprint_scale: (2,) present length and width of the footprint, divided by those of the home stance.
        first_swing: (4,) number of the first swing of each foot.
        last_swing: (4,) number of the last swing of each foot; inf while stepping goes on.
    """

    phase = StateField[float]()
    rate_scale = StateField[float]()
    duty_factor = StateField[float]()
    phase_offsets = StateField[Array]()
    footprint_scale = StateField[Array]()
    first_swing = StateField[Array]()
    last_swing = StateField[Array]()
    is_running = StateField[bool]()

    def __init__(self, gait: str | Gait, time_scale: float, *, lead_phase: float = 0.5) -> None:
        self.time_scale, self.lead_phase = time_scale, lead_phase
        self.state = allocate_gait_state()
        self._timing = allocate_feet_timing()
        write_gait_parameters(self.state.trot, GAITS["trot"], time_scale)
        self._set_target(find_gait(gait))
        restart_gait(self.state, self.state.target, float(lead_phase))

    def _set_target(self, gait: Gait) -> None:
        """Sets the gait that transitions approach."""
        self.gait = gait
        write_gait_parameters(self.state.target, gait, self.time_scale)

    # -- commands ------------------------------------------------------------------------------------------------
    def start(self, *, lead_phase: float | None = None) -> None:
        """Starts to step, or cancels a stop.

        Args:
            lead_phase: time until the first foot may lift off [cycles]; None for that of the scheduler.
        """
        start_stepping(self.state, float(self.lead_phase if lead_phase is None else lead_phase))

    def stop_stepping(self) -> None:
        """Requests a stop: swing feet land, and no other foot lifts off; gaits with flight phases trot first."""
        stop_stepping(self.state)

    def set_gait(self, gait: str | Gait) -> None:
        """Starts the transition to another gait over the next cycles; if not running, from the next start on.

        Raises:
            UnknownNameError: there is no gait of this name.
        """
        self._set_target(find_gait(gait))
        if not self.gait.has_swing_phase:
            self.stop_stepping()

    def advance(self, dt: float) -> None:
        """Advances the phase by `dt` [s]."""
        advance_phase(self.state, float(dt))

    # -- present phases ------------------------------------------------------------------------------------------
    def contact_states(self) -> list[tuple[bool, bool]]:
        """Returns for each foot whether it is in stance, and whether it is to carry load.

        Before lift-off a foot is unloaded for `LOADING_TIME` cycles.
        """
        timing = self._feet_timing()
        return [
            (bool(in_stance), bool(is_loaded))
            for in_stance, is_loaded in zip(timing.in_stance.tolist(), timing.is_loaded.tolist(), strict=True)
        ]

    def _feet_timing(self) -> FeetTiming:
        """Returns the timing of the feet at the present phase, until the next call."""
        write_timing(self.state, self._timing)
        return self._timing

    @property
    def period(self) -> float:
        """Present duration of one cycle [s]."""
        return self.state.nominal_period / self.rate_scale

    @property
    def is_transitioning(self) -> bool:
        """Whether the transition to the target gait is not complete."""
        return bool(is_transitioning(self.state))

    @property
    def has_constant_force(self) -> bool:
        """Whether the present vertical contact force equals the weight at all times."""
        return self.state.force_profile.is_constant

    @property
    def vertical_force_profile(self) -> VerticalForceProfile:
        """Present vertical force and vertical motion over a cycle."""
        return compute_vertical_force_profile(tuple(self.phase_offsets.tolist()), self.duty_factor)

    @property
    def stance_mask(self) -> NDArray[np.bool_]:
        """(4,) whether each foot is in stance."""
        return np.asarray(self._feet_timing().in_stance != 0)

    @property
    def time_to_mid_stance(self) -> Array:
        """(4,) time until the middle of the next stance of each foot, the present one excluded [s]."""
        return self._feet_timing().time_to_mid_stance.copy()

    @property
    def time_to_liftoff(self) -> list[float]:
        """(4,) time until lift-off of each stance foot [s]; 0 for swing feet and for feet that stay in stance."""
        times: list[float] = self._feet_timing().time_to_liftoff.tolist()
        return times

    @property
    def swing_phase(self) -> Array:
        """(4,) fraction of the present swing that each foot has completed, from 0 to 1; 0 in stance."""
        return self._feet_timing().swing_phase.copy()

    @property
    def swing_time(self) -> float:
        """Duration of a swing [s]."""
        return (1.0 - self.duty_factor) * self.period

    @property
    def stance_time(self) -> float:
        """Duration of a stance [s]."""
        return self.duty_factor * self.period
