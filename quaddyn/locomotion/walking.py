"""Compiled tick of a robot on the ground, from its measured motion to the references of the whole-body controller.

    limit the command -> steer the path -> detect contacts -> plan the motion -> decide the mode -> write references

Python calls the stages one by one where a terrain map is read between them, and `walk` in blind locomotion.

Step durations are adapted to an error of the divergent component of motion: steps are shorter after a push.
"""

from __future__ import annotations

import enum
import math
from typing import NamedTuple

from ..compiler import IntVector, Matrix, Record, Tensor, Vector, compiled, entry, local
from .com_preview import ComReference, PreviewParameters, update_com_reference
from .contact_estimation import (
    ContactEstimate,
    ContactInputs,
    ContactModel,
    GroundContactState,
    estimate_contacts,
    estimate_contacts_of_coupled_joints,
    has_model_mismatch,
    is_settled,
    write_foot_contacts,
)
from .fall_detection import FallDetectorState
from .footwork import (
    BalanceState,
    FootworkState,
    advance_swings,
    is_at_rest,
    is_blocked,
    is_grounded,
    is_mid_swing,
    is_too_fast,
    is_waiting_for_touchdown,
    set_foot_reference,
    update_contacts,
)
from .friction_model import (
    FrictionEstimate,
    FrictionInputs,
    FrictionParameters,
    FrictionState,
    adapt_friction,
    count_slipping_feet,
    is_slippery,
    is_steep,
    set_assumed_bound,
    set_foot_loads,
    set_normals,
    update_friction,
    update_slips,
)
from .gait import GaitState, advance_phase, is_transitioning
from .ground_plane import GroundState, advance_slope, compute_horizontal_projection, write_ground_normals
from .modes import ModeCode, ModeState, next_mode, set_mode_conditions
from .morphology import BodyParameters
from .motion import Motion
from .path_reference import PathState, advance_path_reference
from .progress_monitor import ProgressState, filter_command
from .slope_limiter import SlopeEvaluation, SlopeState, clamp_velocity_on_ground, update_slope
from .steering import SteeringState, limit_reference_lead, set_conditions, update_speed_averages, update_steering
from .stumble_reflex import FootContacts, compute_extra_clearance, has_lowered_foot, is_rough
from .trunk_controller import (
    TrunkState,
    is_trunk_moving,
    start_trunk_motion,
    update_trunk_references,
    write_task_references,
)
from .velocity_limits import (
    GaitLimits,
    LegLimits,
    LimitReason,
    clamp_command,
    clamp_velocity_on_rough_ground,
    is_zero_velocity,
)

#: Maximum shift of a foothold from that of the gait [l].
MAX_FOOTHOLD_SHIFT = 0.25
#: Maximum factor by which the cycle is accelerated.
MAX_RATE_SCALE = 1.5
#: Length of a swing [l], and mean speed divided by peak speed of a minimum-jerk path: leg length times the speed of the
#: slowest joint bounds the peak speed.
SWING_LENGTH, MEAN_TO_PEAK_SPEED = 0.6, 8.0 / 15.0


@entry("step timing")
def adapt_step_timing(g: GaitState, body: BodyParameters, joint_speed: float, error_x: float, error_y: float) -> None:
    """Sets the rate scale of the gait for an error of the divergent component, beside the adaptation of the footholds.

    Between steps the error e grows as ``exp(omega t)``, and each step can correct at most the maximum shift b of a
    foothold.  Steps of duration T keep the error bounded if

        e (exp(omega T) - 1) <= b

    (Koolen et al. 2012, "Capturability-based analysis and control of legged locomotion", the limit of many steps;
    Khadiv et al. 2020, "Walking control based on step timing adaptation", where T is optimized).  If the swings of the
    gait are too slow for an error, ``T = log(1 + b / e) / omega`` accelerates the whole cycle, as far as the joints
    allow: swing feet land sooner, and the next ones lift off sooner.  In gaits with flight phases the ballistic flight
    determines the timing, and the cycle is not changed.

    Args:
        g: state of the gait.
        body: parameters of the robot.
        joint_speed: smallest velocity limit of the leg joints [rad/s or m/s]; inf where there is none.
        error_x: error of the divergent component along world x [m].
        error_y: error along world y [m].
    """
    error, rate_scale = math.sqrt(error_x * error_x + error_y * error_y), 1.0
    if g.is_running and error > 0.0 and g.force_profile.is_constant:
        swing_time = (1.0 - g.duty_factor) * g.nominal_period
        required = swing_time * body.natural_frequency / math.log1p(MAX_FOOTHOLD_SHIFT * body.length / error)
        max_swing_rate = MEAN_TO_PEAK_SPEED * joint_speed / SWING_LENGTH  # swings per second
        rate_scale = max(1.0, min(required, MAX_RATE_SCALE, swing_time * max_swing_rate))
    g.rate_scale = rate_scale


#: Time constant of the velocity that determines footholds [sqrt(l/g)].
VELOCITY_FILTER_TIME = 0.2
#: Time constants of the slope of the ground in blind locomotion: on even ground, and on rough ground or on a known
#: terrain, where it changes with every step [sqrt(l/g)].
SLOPE_TIME, ROUGH_SLOPE_TIME = 2.0, 0.75
#: Height of footholds over the plane of the feet above which strides are limited to the reach of lifted feet [l]; it is
#: above the height that is assumed of an obstacle which has only blocked a foot.
MIN_HIGH_STEP = 0.125
#: Height of the center of mass when lying, as a fraction of that at home, and time to stand up or to lie down
#: [sqrt(l/g)].
LYING_HEIGHT, RISING_TIME = 0.5, 6.0


class WalkParameters(Record):
    """Parameters of `walk` that belong to no other record."""

    dt: float  # control period [s]
    lead_phase: float  # time from the start until the first foot may lift off [cycles]
    writes_tasks: bool  # whether the tasks in `WalkTasks` have the expected parameters
    has_coupled_joints: bool  # whether Python computes momenta, Jacobians and foot velocities
    has_map: bool  # whether Python computes stages of a tick from a terrain map
    reads_map: bool  # whether these give the normals of the ground
    lowering_fraction: float  # lowering of the trunk on slopes, divided by leg length and sine of the slope's angle
    folds_legs: bool  # whether a detected fall ends locomotion: the legs are folded


class WalkCommand(Record):
    """Commanded velocity of a tick, and the reason for its limit."""

    velocity: Vector  # (3,) forward and leftward speed [m/s] and yaw rate [rad/s], heading frame; clamped
    reason: LimitReason
    friction: float  # coefficient of the contact constraints before the tick
    has_high_steps: bool  # whether the unknown ground has had steps above `MIN_HIGH_STEP` since it was last even


class WalkTasks(NamedTuple):
    """Parameters of the tasks of the whole-body controller whose references a tick writes."""

    com: Vector
    base: Vector
    fl: Vector
    fr: Vector
    rl: Vector
    rr: Vector
    forces: Matrix  # (4, 8), see `write_force_references`


class TickReport(Record):
    """What the command of a tick shows besides the torques, see `LocomotionCommand`."""

    cop: Vector  # (2,) desired center of pressure, world [m]
    velocity: Vector  # (3,) clamped command
    reference_velocity: Vector  # (3,) of the path reference
    reason: LimitReason
    normals: Matrix  # (4, 3) of the ground under the feet, world
    in_contact: IntVector  # (4,) as measured or estimated
    follows_contacts: bool  # whether the gait follows them in place of its schedule
    is_slipping: IntVector  # (4,)
    friction: float  # coefficient of the contact constraints
    has_model_mismatch: bool


class TickCode(enum.IntEnum):
    """Bit fields of the integer that a tick returns; its four lowest bits are the `ModeCode`.

    `CARRYING` is the unit of a mask of four bits; the other values are flags.
    """

    CARRYING = 16  # times the mask of the feet that are to carry load: 1, 2, 4 and 8 for FL, FR, RL and RR
    HAS_NEW_CONTACTS = 256  # whether friction or normals of the contacts have changed
    HAS_COMMAND = 512  # whether the clamped velocity is not zero
    HAS_INCONSISTENT_MOTION = 1024  # whether the motion between ticks shows another period or another state convention
    IS_FIRST = 4096  # whether it is the first tick after a start or restart
    IS_LANDING = 2048  # whether the robot is in the air, or between touchdown and stance


class WalkData(NamedTuple):
    """Records of all parts of the controller that a tick on the ground reads and writes."""

    parameters: WalkParameters
    body: BodyParameters
    legs: LegLimits
    gait_limits: GaitLimits
    motion: Motion
    command: WalkCommand
    slope: SlopeState
    progress: ProgressState
    steering: SteeringState
    gait: GaitState
    path: PathState
    ground: GroundState
    ground_contact: GroundContactState
    fall: FallDetectorState
    footwork: FootworkState
    foot_contacts: FootContacts
    balance: BalanceState
    contact_model: ContactModel
    contact_inputs: ContactInputs
    contacts: ContactEstimate
    friction_parameters: FrictionParameters
    friction_inputs: FrictionInputs
    slips: FrictionEstimate
    friction: FrictionState
    preview: PreviewParameters
    reference: ComReference
    trunk: TrunkState
    mode: ModeState
    tasks: WalkTasks
    report: TickReport


# -- stages ----------------------------------------------------------------------------------------------------------
@compiled()
def filter_velocity(w: WalkData) -> None:
    """Updates the filtered horizontal velocity of the center of mass by one tick."""
    velocity, alpha = w.balance.velocity, min(1.0, w.parameters.dt / (VELOCITY_FILTER_TIME * w.body.time_scale))
    for i in range(2):
        velocity[i] += alpha * (w.motion.velocity[i] - velocity[i])


@compiled()
def stands_on_ground(mode: ModeCode, phase: float) -> bool:
    """Returns whether all feet are in stance in a mode, and at a phase of the gait, negative before its first step."""
    return (
        mode == ModeCode.STARTING
        or mode == ModeCode.STANDING
        or mode == ModeCode.RISING
        or mode == ModeCode.CROUCHING
        or (mode == ModeCode.MOVING and phase < 0.0)
    )


@entry("walking")
def limit_command(w: WalkData, requested: Vector) -> SlopeEvaluation:
    """Begins a tick, and clamps the requested velocity to the limits of gait and legs on level ground.

    Args:
        w: records of the controller.
        requested: (3,) forward and leftward speed [m/s] and yaw rate [rad/s], heading frame.

    Returns:
        The evaluation of slopes that is required before the next stage.
    """
    velocity = w.command.velocity
    velocity[:] = requested
    w.command.friction = w.friction.friction
    w.command.reason = clamp_command(w.body, w.legs, w.gait_limits, velocity)
    return SlopeEvaluation(update_slope(w.slope, w.gait_limits.timing, velocity, w.motion.yaw, w.friction))


@entry("walking")
def limit_command_on_ground(w: WalkData) -> None:
    """Clamps the velocity to the limits of unknown rough ground, and to those of slope and friction of the ground."""
    command, clearance = w.command, compute_extra_clearance(w.footwork.stumble)
    command.has_high_steps = clearance > 0.0 and (command.has_high_steps or clearance > MIN_HIGH_STEP)
    if clearance > 0.0 and not w.parameters.has_map:
        rough_reason = clamp_velocity_on_rough_ground(
            w.body, w.legs, w.gait_limits, command.velocity, clearance, command.has_high_steps
        )
        if rough_reason != LimitReason.NONE:
            command.reason = rough_reason
    reason = clamp_velocity_on_ground(w.slope, w.body, w.legs, w.gait_limits, w.command.velocity, w.friction)
    if reason != LimitReason.NONE:
        w.command.reason = reason


@compiled()
def is_obstructed(w: WalkData) -> bool:
    """Returns whether an unknown obstacle or slipping feet block the robot."""
    stumble = w.footwork.stumble
    return is_rough(stumble) or has_lowered_foot(stumble) or is_slippery(w.friction) or count_slipping_feet(w.slips) > 0


@entry("walking")
def steer(w: WalkData) -> None:
    """Moves the path reference and the phase of the gait by one tick.

    After a push that accelerates the steps, the gait does not wait for late touchdowns.
    """
    dt, gait, velocity = w.parameters.dt, w.gait, w.command.velocity
    reason = filter_command(w.progress, w.body, velocity, w.motion, w.motion.angular_velocity[2])
    if reason != LimitReason.NONE:
        w.command.reason = reason
    mode, path_velocity = w.mode.mode, local(3)
    path_velocity[:] = 0.0
    if (mode == ModeCode.MOVING or mode == ModeCode.RECOVERING) and gait.phase >= 0.0:
        path_velocity[:] = velocity
    update_speed_averages(w.steering, w.body, w.path, w.motion.velocity[0], w.motion.velocity[1])
    set_conditions(w.steering, w.friction.friction, is_transitioning(gait), is_obstructed(w))
    update_steering(w.steering, w.body, w.legs, w.gait_limits, w.path, w.ground, path_velocity)
    if gait.rate_scale > 1.0 or not is_waiting_for_touchdown(w.footwork, gait):
        advance_phase(gait, dt)
    advance_path_reference(w.path, dt)


@compiled()
def prepare_contact_inputs(w: WalkData) -> None:
    """Sets the inputs of the contact estimate but those of foot sensors and terrain maps."""
    x = w.contact_inputs
    if not w.parameters.reads_map:
        write_ground_normals(w.ground, x.normals)
    for foot in range(4):
        x.is_blocked[foot] = int(is_blocked(w.footwork, w.body, w.motion.feet, x.normals, foot))
        x.is_at_rest[foot] = int(is_at_rest(w.footwork, w.body, w.motion, x.normals, foot))
        x.is_mid_swing[foot] = int(is_mid_swing(w.footwork, foot))
        # On slippery ground, feet in contact slide as fast.
        x.is_too_fast[foot] = int(not is_slippery(w.friction) and is_too_fast(w.body, w.motion, x.normals, foot))
    x.has_flight_phase = not w.gait.force_profile.is_constant


@compiled()
def bound_friction(w: WalkData, columns: Matrix, joint_placements: Tensor, v: Vector) -> None:
    """Updates slips, the bound of the friction coefficient, and the coefficient of the contact constraints.

    On a slope at the friction limit feet creep, which gives no estimate of the friction.  On rough ground a single foot
    may scrape along an edge.  During slip, the deviation from the plan must not be classified as roughness.
    """
    x, friction = w.friction_inputs, w.friction
    if set_normals(friction, w.contact_inputs.normals):
        adapt_friction(friction)
    x.is_rough = is_rough(w.footwork.stumble) and not is_slippery(friction)
    x.may_lower = not is_steep(friction)
    for foot in range(4):
        x.is_carrying[foot] = int(is_grounded(w.footwork, foot))
    if not w.friction_parameters.is_enabled:
        return
    if not w.parameters.has_coupled_joints:
        update_friction(w.friction_parameters, w.slips, x, w.contacts, w.contact_inputs, columns, joint_placements, v)
    elif w.contacts.is_known:
        set_foot_loads(w.slips, x, w.contacts, w.contact_inputs)
        update_slips(w.friction_parameters, w.slips, x.may_lower, x.is_rough)
    if set_assumed_bound(friction, w.slips.bound):
        adapt_friction(friction)


@entry("walking")
def detect(w: WalkData, columns: Matrix, joint_placements: Tensor, M: Matrix, v: Vector, tau: Vector) -> None:
    """Estimates contacts and friction, and starts and ends swings.

    Args:
        w: records of the controller.
        columns: columns of the world Jacobian, see `State.kinematic_arrays`.
        joint_placements: placements of the joints, see `State.kinematic_arrays`.
        M: (nv, nv) inertia; only its lower triangle is read.
        v: (nv,) velocity.
        tau: (nu,) torques since the last tick [N m].
    """
    prepare_contact_inputs(w)
    if w.parameters.has_coupled_joints:
        estimate_contacts_of_coupled_joints(w.contact_model, w.contacts, w.contact_inputs, M, v, tau)
    else:
        estimate_contacts(w.contact_model, w.contacts, w.contact_inputs, columns, joint_placements, M, v, tau)
    write_foot_contacts(w.contact_model, w.contacts, w.contact_inputs, w.foot_contacts)
    feet, normals = w.motion.feet, w.contact_inputs.normals
    update_contacts(w.footwork, w.body, w.gait, w.ground, feet, normals, w.foot_contacts, w.parameters.dt)
    bound_friction(w, columns, joint_placements, v)


@compiled()
def advance_blind_ground(w: WalkData) -> None:
    """Updates the slope of the plane of the feet by one tick, in blind locomotion."""
    time = ROUGH_SLOPE_TIME if is_rough(w.footwork.stumble) else SLOPE_TIME
    advance_slope(w.ground, min(1.0, w.parameters.dt / (time * w.body.time_scale)))


@compiled()
def update_stance(w: WalkData) -> None:
    """Computes the nominal positions of the feet on the slope, about the path reference."""
    forward_x, forward_y, leftward_y = compute_horizontal_projection(w.ground, w.path.yaw)
    for foot in range(4):
        x = w.body.nominal_stance[foot, 0] * w.gait.footprint_scale[0]
        y = w.body.nominal_stance[foot, 1] * w.gait.footprint_scale[1]
        w.balance.stance[foot, 0] = forward_x * x + forward_y * y
        w.balance.stance[foot, 1] = leftward_y * y


@entry("walking")
def plan_com_motion(w: WalkData) -> None:
    """Computes the reference of the center of mass and the error of its divergent component."""
    update_stance(w)
    balance, reference = w.balance, w.reference
    update_com_reference(w.preview, w.gait, w.path, balance.stance, w.ground.points, w.trunk.com_offset, reference)
    for i in range(2):
        dcm = w.motion.com[i] + balance.velocity[i] / reference.frequency
        balance.error[i] = dcm - reference.dcm[i]
    balance.foothold_gain = reference.foothold_gain
    limit_reference_lead(w.steering, w.body, w.path, balance.error[0], balance.error[1], w.motion.yaw)


@compiled()
def write_tasks(w: WalkData) -> None:
    """Writes the references of the tasks of the whole-body controller."""
    tasks, feet, swings = w.tasks, w.motion.feet, w.footwork.swings
    write_task_references(w.trunk, tasks.com, tasks.base, tasks.forces)
    set_foot_reference(swings, feet, 0, tasks.fl)
    set_foot_reference(swings, feet, 1, tasks.fr)
    set_foot_reference(swings, feet, 2, tasks.rl)
    set_foot_reference(swings, feet, 3, tasks.rr)


@compiled()
def write_report(w: WalkData) -> None:
    """Writes what the command of the tick shows."""
    report = w.report
    report.cop[:] = w.reference.cop
    report.velocity[:] = w.command.velocity
    report.reference_velocity[:] = w.path.velocity
    report.reason = w.command.reason
    report.normals[:] = w.contact_inputs.normals
    report.in_contact[:] = w.contacts.in_contact
    report.follows_contacts = w.contacts.is_followed
    report.is_slipping[:] = w.slips.slip.is_slipping
    report.friction = w.friction.friction
    report.has_model_mismatch = has_model_mismatch(w.contacts)


@compiled()
def compute_tick_code(w: WalkData) -> int:
    """Returns mode, carrying feet and changes of the tick as one integer, see `TickCode`."""
    code, bit, has_new_contacts = int(w.mode.mode), 1, w.friction.friction != w.command.friction
    for foot in range(4):
        code += TickCode.CARRYING * bit * w.footwork.is_carrying[foot]
        bit *= 2
        has_new_contacts = has_new_contacts or w.friction.has_new_normal[foot] != 0
    if has_new_contacts:
        code += TickCode.HAS_NEW_CONTACTS
    return code if is_zero_velocity(w.command.velocity) else code + TickCode.HAS_COMMAND


@entry("walking")
def decide(w: WalkData) -> int:
    """Decides the mode of the robot, computes the references of the trunk, and returns the code of the tick."""
    state, error = w.mode, w.balance.error
    adapt_step_timing(w.gait, w.body, w.legs.joint_speed, error[0], error[1])
    is_lowering = state.mode == ModeCode.LOWERING
    set_mode_conditions(
        state,
        w.parameters.lead_phase,
        error[0],
        error[1],
        is_trunk_moving(w.trunk),
        is_settled(w.ground_contact, w.body),
        w.progress.is_stuck,
    )
    state.mode = next_mode(
        state, w.body, w.gait_limits.timing, w.gait, w.path, w.command.velocity, w.motion.feet, w.balance.stance
    )
    if state.mode == ModeCode.LOWERING and not is_lowering:
        start_trunk_motion(w.trunk, LYING_HEIGHT * w.body.height, 0.0, 0.0, RISING_TIME * w.body.time_scale)
    w.trunk.is_stepping_fast = w.gait.rate_scale > 1.0
    update_trunk_references(w.trunk, w.reference, w.path, w.ground, w.body, w.motion, w.friction, w.parameters.dt)
    if w.parameters.writes_tasks:
        write_tasks(w)
    write_report(w)
    return compute_tick_code(w)


@entry("walking")
def walk(w: WalkData, columns: Matrix, joint_placements: Tensor, M: Matrix, v: Vector, tau: Vector) -> int:
    """Computes a tick of blind locomotion, after `limit_command`; the arguments are those of `detect`."""
    limit_command_on_ground(w)
    steer(w)
    detect(w, columns, joint_placements, M, v, tau)
    advance_blind_ground(w)
    plan_com_motion(w)
    advance_swings(w.footwork, w.body, w.gait, w.path, w.ground, w.motion, w.balance, w.parameters.dt)
    return int(decide(w))


def allocate_tick_report() -> TickReport:
    """Returns a report of a tick."""
    return TickReport.allocate(cop=2, velocity=3, reference_velocity=3, normals=(4, 3), in_contact=4, is_slipping=4)
