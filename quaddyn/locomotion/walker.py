"""Compiled locomotion controller without whole-body control: modes, gait, landing and falls from one tick to the next.

    read the motion -> change the mode -> walk, land or fold the legs -> whole-body control -> limit the torques

`begin_tick` ends where whole-body control begins, and `finish_tick` follows it.  `LocomotionController` calls them from
Python; programs in C99 and batches call `quaddyn.locomotion.embedded`.  If a tick needs a computation that exists only
in Python, such as footholds on a terrain map, the push-off of a jump or the evaluation of the legs on slopes,
`begin_tick` returns a negative `TickStage`.
"""

import enum
import math
from typing import NamedTuple

from ..compiler import IntVector, Vector, compiled, entry
from ..dynamics.joint_placements import WorldJacobian, closure_functions, compute_world_jacobian
from ..estimation.rotor_inertia import add_rotor_torques, reset_rotor_inertia
from ..wbc.tick_data import RigidBodyTerms
from ..wbc.tick_period import StateConvention, TickDisplacements, measure_tick_period
from .contact_estimation import GroundEvent, check_ground, reset_contact_estimate
from .fall_detection import FallSign, update_fall_detection
from .footwork import FootworkState
from .friction_model import adapt_friction, is_slippery, reset_friction_estimate, set_assumed_bound
from .gait import set_target_gait
from .ground_plane import write_ground_normals
from .landing import (
    MIN_STOPPING_HEIGHT,
    LandingState,
    balance_landing,
    begin_landing,
    begin_stop,
    detect_touchdowns,
    extend_legs,
    is_fall_stopped,
    restore_com_weight,
    stop_fall,
    write_landing_references,
)
from .leg_folding import FoldingState
from .modes import ModeCode, is_upright
from .motion import read_motion
from .progress_monitor import reset_progress
from .slope_limiter import SlopeEvaluation, reset_slope
from .torque_limiter import LimitedMotors, clamp_torques, compute_damping_torques, has_saturated_torque
from .trunk_controller import set_base_weight
from .velocity_limits import GaitLimits
from .walk_start import begin_walk, choose_initial_mode, is_in_the_air
from .walking import TickCode, WalkData, filter_velocity, limit_command, stands_on_ground, walk


class TickStage(enum.IntEnum):
    """Stage of a tick that the caller of `begin_tick` computes; `begin_tick` returns its negative."""

    FOLDING = 1  # after a fall: `compute_folding_torques`
    RIGHTING = 2  # motions of a `RightingPlan`
    JUMPING = 3  # push-off and flight of a jump
    LANDING_ON_MAP = 4  # normals of the ground from the terrain map, then `finish_landing`
    WALKING = 5  # plus the `SlopeEvaluation`: the evaluation, then `continue_walk`, or the stages on a terrain map


class Walker(NamedTuple):
    """Records of a locomotion controller; those of whole-body control are separate."""

    walk: WalkData
    landing: LandingState
    folding: FoldingState
    initial_footwork: FootworkState  # of a robot that has not moved
    motors: LimitedMotors
    terms: RigidBodyTerms  # at the state of the tick
    foot_frames: IntVector  # (4,) index of the frame of each foot in `terms`
    jacobian: WorldJacobian  # buffers; not used if joints are coupled
    displacements: TickDisplacements


# -- changes of the mode -----------------------------------------------------------------------------------------------
@compiled(inline=False)
def start(e: Walker) -> None:
    """Initializes the records at the first tick after a start or restart."""
    w = e.walk
    w.mode.mode = begin_walk(w, e.initial_footwork, w.parameters.lowering_fraction)
    w.mode.has_started = True
    restore_com_weight(e.landing, w.tasks.com)
    if is_in_the_air(w):
        lose_ground(e)
    else:
        w.mode.mode = choose_initial_mode(w.mode.mode, w.contact_inputs.is_touching, w.contact_inputs.has_sensors)


@compiled()
def lose_ground(e: Walker) -> None:
    """Changes the mode of a robot without ground under its feet."""
    e.walk.mode.mode = ModeCode.AIRBORNE
    e.landing.is_jump = False
    begin_landing(e.landing, e.walk, 0.0)


@compiled()
def begin_folding(e: Walker) -> None:
    """Changes the mode of a robot that falls."""
    e.walk.mode.mode = ModeCode.FALLEN
    e.folding.time = 0.0
    restore_com_weight(e.landing, e.walk.tasks.com)
    set_base_weight(e.walk.trunk, e.walk.tasks.base, 1.0)


@compiled(inline=False)
def update_mode(e: Walker) -> None:
    """Detects lost ground and falls, and changes the mode; the velocity that determines footholds is filtered."""
    w, mode, trunk = e.walk, e.walk.mode.mode, e.walk.trunk
    filter_velocity(w)
    has_upright_trunk = is_upright(mode)
    if stands_on_ground(mode, w.gait.phase):
        x = w.contact_inputs
        event = check_ground(w.ground_contact, w.body, w.motion, x.is_touching, x.has_sensors)
        if event == GroundEvent.LOST:
            lose_ground(e)
            has_upright_trunk = False
        elif event == GroundEvent.SUPPORTED and mode == ModeCode.STARTING:
            w.mode.mode = ModeCode.STANDING
    if mode == ModeCode.FALLEN or mode == ModeCode.RIGHTING:
        return
    # A landing robot whose trunk stays below the lowest height of a landing lies on the ground.
    min_height = MIN_STOPPING_HEIGHT * w.body.height if mode == ModeCode.LANDING else 0.0
    desired_height = trunk.desired_height if has_upright_trunk else min_height
    w.fall.sign = update_fall_detection(
        w.fall, w.body, w.motion, w.ground, w.path, has_upright_trunk, desired_height, trunk.desired_rate
    )
    if w.fall.sign != FallSign.NONE and w.parameters.folds_legs:
        begin_folding(e)


# -- parts of a tick -------------------------------------------------------------------------------------------------
@compiled(inline=False)
def continue_walk(e: Walker, v: Vector, tau: Vector) -> int:
    """Computes a tick on the ground from `limit_command` on, in blind locomotion; see `begin_tick`."""
    return int(walk(e.walk, e.jacobian.columns, e.jacobian.placements, e.terms.M, v, tau))


@entry("locomotion")
def continue_tick(e: Walker, v: Vector, tau: Vector) -> int:
    """Computes the rest of a tick in blind locomotion after `TickStage.WALKING`; see `begin_tick`."""
    return int(continue_walk(e, v, tau))


@compiled(inline=False)
def land(e: Walker, v: Vector, tau: Vector) -> int:
    """Computes a tick in the air, or between touchdown and stance; see `begin_tick`."""
    w, landing, terms, jacobian = e.walk, e.landing, e.terms, e.jacobian
    w.report.velocity[:] = 0.0
    if detect_touchdowns(landing, w, jacobian.columns, jacobian.placements, terms.M, v, tau) > 0:
        if w.mode.mode == ModeCode.AIRBORNE:
            begin_stop(w, landing.jump_yaw if landing.is_jump else w.motion.yaw)
            landing.is_jump = False
        stop_fall(landing, w)
        if w.parameters.has_map:
            return -TickStage.LANDING_ON_MAP
        write_ground_normals(w.ground, w.contact_inputs.normals)
        return int(finish_landing(e))
    w.mode.mode = ModeCode.AIRBORNE
    if not landing.is_jump:
        extend_legs(landing, w)
        if w.parameters.writes_tasks:
            write_landing_references(landing, w)
    return ModeCode.AIRBORNE + TickCode.IS_LANDING


@entry("locomotion")
def finish_landing(e: Walker) -> int:
    """Computes the rest of a tick with feet in contact, from the normals of the ground on; see `begin_tick`."""
    w, landing = e.walk, e.landing
    is_stopped = is_fall_stopped(landing, w.body)
    w.mode.mode = ModeCode.RISING if is_stopped else ModeCode.LANDING
    friction = w.friction.friction
    balance_landing(landing, w, is_stopped)
    if w.parameters.writes_tasks:
        write_landing_references(landing, w)
    code, bit, has_new_contacts = w.mode.mode + TickCode.IS_LANDING, 1, w.friction.friction != friction
    for foot in range(4):
        code += TickCode.CARRYING * bit * landing.in_contact[foot]
        bit *= 2
        has_new_contacts = has_new_contacts or w.friction.has_new_normal[foot] != 0
    return code + TickCode.HAS_NEW_CONTACTS if has_new_contacts else code


# -- one tick ----------------------------------------------------------------------------------------------------------
@entry("locomotion", callees=lambda e: closure_functions(e.jacobian.joints))
def begin_tick(
    e: Walker, q: Vector, v: Vector, tau: Vector, requested: Vector, friction: float, measured_contacts: IntVector
) -> int:
    """Computes a tick up to the references of whole-body control, from rigid-body terms that belong to (q, v).

    Args:
        e: the records.
        q: (nq,) configuration: position [m], world, and quaternion (x, y, z, w) of the base, then joint positions.
        v: (nv,) linear [m/s] and angular [rad/s] velocity of the base, base axes, then joint velocities.
        tau: (nu,) torques since the last tick [N m].
        requested: (3,) requested forward and leftward speed [m/s] and yaw rate [rad/s], heading frame.
        friction: present friction coefficient of the contact constraints.
        measured_contacts: (4,) whether the sensor of each foot measures contact; empty without foot sensors.

    Returns:
        The code of the tick, see `TickCode`, if its references are set; or else ``-stage``, see `TickStage`.
    """
    w = e.walk
    w.contact_inputs.has_sensors = len(measured_contacts) == 4
    if len(measured_contacts) == 4:
        w.contact_inputs.is_touching[:] = measured_contacts
    read_motion(q, v, e.terms, e.foot_frames, w.body, w.motion)
    has_other_period = measure_tick_period(e.displacements, w.motion.com, w.motion.velocity, q, v) != 0.0
    is_inconsistent = has_other_period or e.displacements.convention != StateConvention.EXPECTED
    w.mode.is_first_tick = not w.mode.has_started
    if w.mode.is_first_tick:
        start(e)
    update_mode(e)
    mode = w.mode.mode
    e.landing.is_active = mode == ModeCode.AIRBORNE or mode == ModeCode.LANDING
    w.friction.friction = friction
    if mode == ModeCode.FALLEN:
        w.report.velocity[:] = 0.0
        return -TickStage.FOLDING
    if mode == ModeCode.RIGHTING:
        return -TickStage.RIGHTING
    if mode == ModeCode.JUMPING:
        return -TickStage.JUMPING
    if not w.parameters.has_coupled_joints:
        compute_world_jacobian(e.jacobian, q)
    if e.landing.is_active:
        code = int(land(e, v, tau))
    else:
        evaluation = limit_command(w, requested)
        if evaluation != SlopeEvaluation.NONE or w.parameters.has_map:
            return -(TickStage.WALKING + int(evaluation))
        code = int(continue_walk(e, v, tau))
    if code >= 0 and w.mode.is_first_tick:
        code += TickCode.IS_FIRST
    return code + TickCode.HAS_INCONSISTENT_MOTION if code >= 0 and is_inconsistent else code


@entry("locomotion")
def finish_tick(e: Walker, v: Vector, result: Vector, is_solved: bool, tau: Vector) -> None:
    """Replaces the torques of whole-body control by those for the motors.

    The torques of the estimated rotor inertias are added, and the sums are clamped.  Without a solution, a robot that
    lands or stands on slippery ground only damps its joints.

    Args:
        e: the records.
        v: (nv,) velocity.
        result: result of whole-body control, see `result_views`: torques (nu,), accelerations (nv,), and more.
        is_solved: whether whole-body control has a solution.
        tau: (nu,) torques [N m], replaced.
    """
    if not is_solved and (e.landing.is_active or is_slippery(e.walk.friction)):
        compute_damping_torques(e.motors, v, tau)
    else:
        acceleration = result[len(tau) : len(tau) + len(v)]
        add_rotor_torques(e.walk.contacts.rotors, e.motors.v_index, acceleration, tau)
        clamp_torques(e.motors, tau, v, tau)
        e.walk.progress.is_saturated = has_saturated_torque(e.motors, tau)


# -- commands ----------------------------------------------------------------------------------------------------------
@entry("locomotion")
def reset_walker(e: Walker) -> bool:
    """Resets all estimates and the mode; returns whether the friction coefficient of the constraints has changed."""
    w = e.walk
    w.mode.mode, w.mode.has_started, w.mode.is_lying_requested = ModeCode.STANDING, False, False
    w.fall.durations[:] = 0.0
    w.fall.sign = FallSign.NONE
    e.landing.is_active, e.landing.is_jump = False, False
    set_base_weight(w.trunk, w.tasks.base, 1.0)
    restore_com_weight(e.landing, w.tasks.com)
    reset_contact_estimate(w.contacts)
    reset_rotor_inertia(w.contacts.rotors)
    reset_friction_estimate(w.friction_parameters, w.slips)
    reset_slope(w.slope)
    has_changed: bool = set_assumed_bound(w.friction, math.inf) and adapt_friction(w.friction)
    return has_changed


@entry("locomotion")
def request_standing(w: WalkData) -> bool:
    """Cancels `request_lying`; returns whether the robot must restart, because it lies or has fallen."""
    mode = w.mode.mode
    w.mode.is_lying_requested = False
    reset_progress(w.progress)
    return mode == ModeCode.LYING or mode == ModeCode.LOWERING or mode == ModeCode.FALLEN


@entry("locomotion")
def request_lying(w: WalkData) -> None:
    """Makes the robot stop stepping, lower its trunk to half of the home height, and hold it there."""
    if not w.mode.has_started or (w.mode.mode != ModeCode.FALLEN and w.mode.mode != ModeCode.LYING):
        w.mode.is_lying_requested = True


@entry("locomotion")
def set_gait(w: WalkData, gait: GaitLimits) -> None:
    """Sets the gait of the next steps; the transition takes some cycles."""
    w.gait_limits.copy_from(gait)
    if gait.timing.has_swing_phase and w.mode.has_started:
        set_target_gait(w.gait, gait.timing)
