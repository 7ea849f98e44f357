"""Compiled timing of the feet: phases, touchdowns and lift-offs, and transitions between gaits; see `GaitScheduler`."""

import math

from ..compiler import IntVector, Record, Vector, compiled, entry
from .vertical_force import FORCE_PROFILE_SHAPES, LOADING_TIME, ForceProfile, compute_force_profile

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


@compiled()
def set_parameters(g: GaitState, gait: GaitParameters) -> None:
    """Sets the present parameters of the gait state to the parameters of a gait."""
    g.duty_factor, g.nominal_period = gait.duty_factor, gait.period
    g.phase_offsets[:] = gait.phase_offsets
    g.footprint_scale[:] = gait.footprint_scale
    compute_force_profile(g.force_profile, g.phase_offsets, g.duty_factor)


@compiled()
def copy_gait_parameters(target: GaitParameters, gait: GaitParameters) -> None:
    """Copies the parameters of a gait."""
    target.period, target.duty_factor = gait.period, gait.duty_factor
    target.phase_offsets[:] = gait.phase_offsets
    target.footprint_scale[:] = gait.footprint_scale
    target.has_swing_phase, target.has_constant_force = gait.has_swing_phase, gait.has_constant_force


@compiled()
def set_target_gait(g: GaitState, gait: GaitParameters) -> None:
    """Starts the transition to another gait over the next cycles; if not running, from the next start on."""
    copy_gait_parameters(g.target, gait)
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
