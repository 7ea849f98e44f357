"""`EmbeddedWalker`: a locomotion controller as compiled code on records, for programs without Python.

A *walker* is the locomotion controller with its whole-body controller.  This module is the compiled equivalent of the
Python code of `quaddyn.locomotion.LocomotionController` in blind locomotion, without the evaluation of the legs on
slopes: standing, walking, recovery steps, landing and falls.  It calls the controller of `quaddyn.wbc.embedded`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ..compiler import IntVector, Record, Vector, compiled, entry, vec3
from ..dynamics.arguments import MAX_KINETIC_ENERGY
from ..dynamics.joint_placements import WorldJacobian, compute_world_jacobian
from ..estimation.rotor_inertia import add_rotor_torques, reset_rotor_inertia
from ..locomotion.contact_estimation import reset_contact_estimate
from ..locomotion.fall_detection import FallSign
from ..locomotion.footwork import FootworkState
from ..locomotion.friction_estimation import reset_friction_estimate
from ..locomotion.friction_model import adapt_friction, is_slippery, set_assumed_bound
from ..locomotion.gait import set_target_gait
from ..locomotion.ground_plane import write_ground_normals
from ..locomotion.landing import (
    LandingState,
    balance_landing,
    begin_landing,
    begin_stop,
    detect_touchdowns,
    extend_legs,
    restore_com_weight,
    stop_fall,
    write_landing_references,
)
from ..locomotion.leg_folding import FoldingState, compute_folding_torques
from ..locomotion.modes import ModeCode
from ..locomotion.motion import read_motion
from ..locomotion.progress_monitor import reset_progress
from ..locomotion.slope_limiter import reset_slope
from ..locomotion.torque_limiter import LimitedMotors, clamp_torques, compute_damping_torques
from ..locomotion.trunk_controller import set_base_weight, write_force_references
from ..locomotion.velocity_limits import GaitLimits
from ..locomotion.walk_start import begin_walk, choose_initial_mode, is_in_the_air
from ..locomotion.walking import (
    OBSERVED_LOST_GROUND,
    OBSERVED_SUPPORT,
    TickCode,
    WalkData,
    limit_command,
    observe,
    walk,
)
from ..wbc.embedded import (
    EmbeddedController,
    controller_tick,
    embedded_result,
    kinetic_energy,
    reset,
    set_contact_cone,
    validate_state,
)
from ..wbc.tick_data import TickOutcome


class WalkerState(Record):
    """Mode and outputs of a walker."""

    mode: ModeCode
    has_started: bool  # whether there was a tick since the last start
    sign: FallSign  # reason of the last detected fall
    is_landing: bool  # whether the last tick of whole-body control was one of `land`
    lowering_fraction: float  # lowering of the trunk on slopes, divided by leg length and sine of the slope's angle
    contacts: IntVector  # (4,) whether each foot is planned to carry load
    tau: Vector  # (nu,) torques of the last tick [N m]


class EmbeddedWalker(NamedTuple):
    """A locomotion controller as records, for compiled code without Python.

    Attributes:
        walk: records of the tick on the ground.
        wbc: whole-body controller; its rigid-body terms must belong to the state of the tick.
        landing: state of the landing.
        folding: state of the folding of the legs.
        initial_footwork: footwork of a robot that has not moved.
        state: mode and commands.
        jacobian: placements and Jacobian of the robot's joints.
        foot_frames: (4,) index of the frame of each foot in the rigid-body terms.
        foot_contacts: (4,) index of the contact of each foot.
        motors: the motors.
    """

    walk: WalkData
    wbc: EmbeddedController
    landing: LandingState
    folding: FoldingState
    initial_footwork: FootworkState
    state: WalkerState
    jacobian: WorldJacobian
    foot_frames: IntVector
    foot_contacts: IntVector
    motors: LimitedMotors


# -- parts of a tick -------------------------------------------------------------------------------------------------
@compiled()
def request_contacts(e: EmbeddedWalker, mask: int) -> None:
    """Requests contacts by a bit mask of the feet: 1, 2, 4 and 8 for FL, FR, RL and RR."""
    e.wbc.requested[:] = 0
    rest = mask
    for foot in range(4):
        e.state.contacts[foot] = rest % 2
        e.wbc.requested[e.foot_contacts[foot]] = rest % 2
        rest = rest // 2


@compiled()
def write_forces(e: EmbeddedWalker) -> None:
    """Writes the references of the contact forces to the task "forces", the only force task."""
    write_force_references(e.walk.trunk.references, e.walk.tasks.forces)
    for foot in range(4):
        e.wbc.data.inputs.force_references[0, e.foot_contacts[foot]] = e.walk.tasks.forces[foot]


@compiled()
def apply_friction(e: EmbeddedWalker) -> None:
    """Sets friction and normals of the contacts of the feet."""
    friction = e.walk.friction
    for foot in range(4):
        set_contact_cone(e.wbc, e.foot_contacts[foot], vec3(friction.normals[foot]), friction.friction)
        friction.has_new_normal[foot] = 0


@compiled()
def limit_torques(e: EmbeddedWalker, v: Vector, is_damping: bool) -> None:
    """Adds the torques of the estimated rotor inertias and clamps the sums, or replaces them by joint damping."""
    if is_damping:
        compute_damping_torques(e.motors, v, e.state.tau)
    else:
        acceleration = embedded_result(e.wbc, e.wbc.last).acceleration
        add_rotor_torques(e.walk.contacts.rotors, e.motors.v_index, acceleration, e.state.tau)
        clamp_torques(e.motors, e.state.tau, v, e.state.tau)


@compiled(inline=False)
def start_walker(e: EmbeddedWalker, is_measured: bool) -> None:
    """Initializes the records at the first tick after a start or restart.

    Args:
        e: the walker.
        is_measured: whether foot sensors measure `WalkData.measured_contacts`.
    """
    w, state = e.walk, e.state
    state.mode = begin_walk(w, e.initial_footwork, state.lowering_fraction)
    state.has_started = True
    restore_com_weight(e.landing, w.tasks.com)
    if is_in_the_air(w):
        state.mode = ModeCode.AIRBORNE
        begin_landing(e.landing, w, 0.0)
    else:
        state.mode = choose_initial_mode(state.mode, w.measured_contacts, is_measured)


@compiled(inline=False)
def walk_on_ground(e: EmbeddedWalker, velocity: Vector, q: Vector, v: Vector) -> TickOutcome:
    """Computes one tick of a robot on the ground; for the arguments see `walker_tick`."""
    w, state = e.walk, e.state
    # The static evaluation of the legs on slopes needs inverse kinematics in Python: the velocity is not limited by it.
    limit_command(w, velocity, state.mode, w.friction.friction)
    code = walk(w, e.jacobian.columns, e.jacobian.placements, e.wbc.data.terms.M, v, state.tau)
    if code // TickCode.HAS_NEW_CONTACTS % 2 == 1:
        apply_friction(e)
    state.mode = ModeCode(code % TickCode.CARRYING)
    request_contacts(e, code // TickCode.CARRYING % 16)
    write_forces(e)
    outcome = controller_tick(e.wbc, q, v, state.tau)
    limit_torques(e, v, outcome != TickOutcome.SOLVED and is_slippery(w.friction))
    return outcome


@compiled(inline=False)
def land(e: EmbeddedWalker, q: Vector, v: Vector, is_measured: bool) -> TickOutcome:
    """Computes one tick in the air, or between touchdown and stance; for the arguments see `walker_tick`."""
    w, state, landing, mask = e.walk, e.state, e.landing, 0
    w.report.velocity[:] = 0.0
    M = e.wbc.data.terms.M
    if detect_touchdowns(landing, w, e.jacobian.columns, e.jacobian.placements, M, v, state.tau, is_measured) == 0:
        state.mode = ModeCode.AIRBORNE
        extend_legs(landing, w)
    else:
        if state.mode == ModeCode.AIRBORNE:
            begin_stop(w, w.motion.yaw)
        is_stopped = stop_fall(landing, w)
        write_ground_normals(w.ground, w.contact_inputs.normals)
        balance_landing(landing, w, is_stopped)
        apply_friction(e)
        write_forces(e)
        state.mode = ModeCode.RISING if is_stopped else ModeCode.LANDING
        mask = landing.in_contact[0] + 2 * landing.in_contact[1] + 4 * landing.in_contact[2] + 8 * landing.in_contact[3]
    write_landing_references(landing, w)
    request_contacts(e, mask)
    outcome = controller_tick(e.wbc, q, v, state.tau)
    limit_torques(e, v, outcome != TickOutcome.SOLVED)
    return outcome


# -- functions that programs call ------------------------------------------------------------------------------------
@entry("walker")
def walker_tick(
    e: EmbeddedWalker, q: Vector, v: Vector, velocity: Vector, measured_contacts: IntVector, tau: Vector
) -> TickOutcome:
    """Computes one tick from rigid-body terms that belong to (q, v), and returns the outcome of whole-body control.

    Torques are always finite and within the limits of the motors; for an invalid state they are those of the last tick.
    After a fall they fold the legs, then damp the joints, and the outcome is `TickOutcome.SOLVED`.

    Args:
        e: the walker.
        q: (nq,) configuration: position [m], world, and quaternion (x, y, z, w) of the base, then joint positions.
        v: (nv,) linear [m/s] and angular [rad/s] velocity of the base, base axes, then joint velocities.
        velocity: (3,) requested forward and leftward speed [m/s] and yaw rate [rad/s], heading frame; zero if it is not
            finite.
        measured_contacts: (4,) whether the sensor of each foot, in the order of `FEET`, measures contact; empty without
            foot sensors.
        tau: (nu,) written: torques [N m].
    """
    w, state, is_measured = e.walk, e.state, len(measured_contacts) == 4
    outcome = validate_state(e.wbc, q, v)
    if outcome == TickOutcome.SOLVED and not kinetic_energy(e.wbc.data.terms.M, v) < MAX_KINETIC_ENERGY:
        outcome = TickOutcome.INVALID_STATE
    if outcome != TickOutcome.SOLVED:
        tau[:] = state.tau
        return outcome
    for i in range(3):
        w.command.velocity[i] = velocity[i] if math.isfinite(velocity[0] + velocity[1] + velocity[2]) else 0.0
    if is_measured:
        w.measured_contacts[:] = measured_contacts
        w.contact_inputs.is_touching[:] = measured_contacts
    w.contact_inputs.has_sensors = is_measured
    read_motion(q, v, e.wbc.data.terms, e.foot_frames, w.body, 0.0, 0.0, w.motion)
    if not state.has_started:
        start_walker(e, is_measured)
    observed = observe(w, state.mode, is_measured)
    if observed >= OBSERVED_LOST_GROUND:
        observed -= OBSERVED_LOST_GROUND
        state.mode = ModeCode.AIRBORNE
        begin_landing(e.landing, w, 0.0)
    elif observed >= OBSERVED_SUPPORT:
        observed -= OBSERVED_SUPPORT
        state.mode = ModeCode.STANDING
    if observed > 0 and state.mode != ModeCode.FALLEN:
        state.mode = ModeCode.FALLEN
        state.sign = FallSign(observed)
        restore_com_weight(e.landing, w.tasks.com)
        set_base_weight(w.trunk, w.tasks.base, 1.0)
        e.folding.time = 0.0
    if state.mode == ModeCode.FALLEN:
        w.report.velocity[:] = 0.0
        request_contacts(e, 0)
        compute_folding_torques(e.folding, e.motors, q, v, state.tau)
    else:
        compute_world_jacobian(e.jacobian, q)
        state.is_landing = state.mode == ModeCode.AIRBORNE or state.mode == ModeCode.LANDING
        if state.is_landing:
            outcome = land(e, q, v, is_measured)
        else:
            outcome = walk_on_ground(e, w.command.velocity, q, v)
    tau[:] = state.tau
    return outcome


@compiled(inline=False)
def restart_walker(e: EmbeddedWalker) -> None:
    """Makes the next tick initialize motion and contacts; estimates of the friction are kept."""
    reset(e.wbc)
    e.state.has_started = False


@entry("walker")
def reset_walker(e: EmbeddedWalker) -> None:
    """Resets all estimates and the mode."""
    w = e.walk
    restart_walker(e)
    set_base_weight(w.trunk, w.tasks.base, 1.0)
    restore_com_weight(e.landing, w.tasks.com)
    reset_contact_estimate(w.contacts)
    reset_rotor_inertia(w.contacts.rotors)
    reset_friction_estimate(w.friction_parameters, w.slips)
    if set_assumed_bound(w.friction, math.inf) and adapt_friction(w.friction):
        apply_friction(e)
    reset_slope(w.slope)
    w.fall.duration = 0.0
    w.mode.is_lying_requested = False
    e.state.mode = ModeCode.STANDING
    e.state.sign = FallSign.NONE
    e.state.is_landing = False
    e.state.contacts[:] = 1
    e.state.tau[:] = 0.0


@entry("walker")
def stand_up(e: EmbeddedWalker) -> None:
    """Starts to rise to the home height; also leaves the fallen state and cancels `lie_down`."""
    mode = e.state.mode
    e.walk.mode.is_lying_requested = False
    reset_progress(e.walk.progress)
    if mode == ModeCode.LYING or mode == ModeCode.LOWERING or mode == ModeCode.FALLEN:
        restart_walker(e)


@entry("walker")
def lie_down(e: EmbeddedWalker) -> None:
    """Stops stepping, lowers the trunk to half of the home height, and holds it there."""
    if not e.state.has_started or (e.state.mode != ModeCode.FALLEN and e.state.mode != ModeCode.LYING):
        e.walk.mode.is_lying_requested = True


@entry("walker")
def set_gait(e: EmbeddedWalker, gait: GaitLimits) -> None:
    """Sets the gait of the next steps; the transition takes some cycles."""
    e.walk.gait_limits.copy_from(gait)
    if gait.timing.has_swing_phase and e.state.has_started:
        set_target_gait(e.walk.gait, gait.timing)


#: Functions that programs in C call.
FUNCTIONS = walker_tick, reset_walker, stand_up, lie_down, set_gait
