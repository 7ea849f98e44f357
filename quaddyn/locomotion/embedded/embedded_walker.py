"""`EmbeddedWalker`: a locomotion controller with its whole-body controller, for programs without Python.

The controller is that of `quaddyn.locomotion.walker`, which `LocomotionController` also calls, in blind locomotion and
without the evaluation of the legs on slopes; whole-body control is that of `quaddyn.wbc.embedded`.

`make_embedded_walker` makes one from a locomotion controller, for C99 and for batches.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...compiler import IntVector, Record, Vector, compiled, entry, interpret, vec3
from ...dynamics.arguments import MAX_KINETIC_ENERGY
from ...dynamics.joint_placements import closure_functions, make_world_jacobian
from ...errors import ArgumentError
from ...urdf.tree import Array
from ...wbc.embedded import (
    EmbeddedController,
    controller_tick,
    kinetic_energy,
    make_embedded_controller,
    reset,
    set_contact_cone,
    validate_state,
)
from ...wbc.tick_core import element_functions
from ...wbc.tick_data import TickOutcome
from ..ground_phase import GroundPhaseController
from ..leg_folding import compute_folding_torques
from ..modes import LocomotionMode
from ..morphology import FEET
from ..quadruped import Quadruped
from ..trunk_controller import write_force_references
from ..velocity_limits import GaitLimits
from ..walker import (
    TickStage,
    Walker,
    begin_tick,
    continue_tick,
    finish_tick,
    request_lying,
    request_standing,
    reset_walker,
    set_gait,
)
from ..walking import TickCode, WalkTasks


class WalkerOutput(Record):
    """Output of a walker's last tick."""

    contacts: IntVector  # (4,) whether each foot is planned to carry load
    tau: Vector  # (nu,) torques [N m]


class EmbeddedWalker(NamedTuple):
    """A locomotion controller with its whole-body controller as records, for compiled code without Python.

    Attributes:
        walker: records of the locomotion controller.
        wbc: whole-body controller; its rigid-body terms must belong to the state of the tick.
        output: torques and contacts of the last tick.
        foot_contacts: (4,) index of the contact of each foot.
    """

    walker: Walker
    wbc: EmbeddedController
    output: WalkerOutput
    foot_contacts: IntVector


@compiled()
def request_contacts(e: EmbeddedWalker, mask: int) -> None:
    """Requests contacts by a bit mask of the feet: 1, 2, 4 and 8 for FL, FR, RL and RR."""
    e.wbc.requested[:] = 0
    rest = mask
    for foot in range(4):
        e.output.contacts[foot] = rest % 2
        e.wbc.requested[e.foot_contacts[foot]] = rest % 2
        rest = rest // 2


@compiled()
def write_forces(e: EmbeddedWalker) -> None:
    """Writes the references of the contact forces to the task "forces", the only force task."""
    forces = e.walker.walk.tasks.forces
    write_force_references(e.walker.walk.trunk.references, forces)
    for foot in range(4):
        e.wbc.data.inputs.force_references[0, e.foot_contacts[foot]] = forces[foot]


@compiled()
def apply_friction(e: EmbeddedWalker) -> None:
    """Sets friction and normals of the contacts of the feet."""
    friction = e.walker.walk.friction
    for foot in range(4):
        set_contact_cone(e.wbc, e.foot_contacts[foot], vec3(friction.normals[foot]), friction.friction)
        friction.has_new_normal[foot] = 0


@compiled(inline=False)
def finish_with_whole_body_control(e: EmbeddedWalker, code: int, q: Vector, v: Vector) -> TickOutcome:
    """Computes the torques of a tick whose references are set; `code` is a `TickCode`."""
    mask, tau = code // TickCode.CARRYING % 16, e.output.tau
    if code // TickCode.HAS_NEW_CONTACTS % 2 == 1:
        apply_friction(e)
    if mask != 0 or code // TickCode.IS_LANDING % 2 == 0:
        write_forces(e)
    request_contacts(e, mask)
    outcome = controller_tick(e.wbc, q, v, tau)
    finish_tick(e.walker, v, e.wbc.last, outcome == TickOutcome.SOLVED, tau)
    return outcome


# -- functions that programs call ------------------------------------------------------------------------------------
def separate_functions(e: EmbeddedWalker) -> list[Callable[..., Any]]:
    """Returns the separately compiled functions that the ticks of a walker can reach."""
    return [*element_functions(e.wbc.data), *closure_functions(e.walker.jacobian.joints)]


@entry("walker", callees=separate_functions)
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
    walker, walk, out = e.walker, e.walker.walk, e.output
    outcome = validate_state(e.wbc, q, v)
    if outcome == TickOutcome.SOLVED and not kinetic_energy(e.wbc.data.terms.M, v) < MAX_KINETIC_ENERGY:
        outcome = TickOutcome.INVALID_STATE
    if outcome == TickOutcome.SOLVED:
        for i in range(3):
            walk.command.velocity[i] = velocity[i] if math.isfinite(velocity[0] + velocity[1] + velocity[2]) else 0.0
        velocity_command, friction = walk.command.velocity, walk.friction.friction
        code = begin_tick(walker, q, v, out.tau, velocity_command, friction, measured_contacts)
        if code <= -TickStage.WALKING:
            # The evaluation of the legs on slopes needs inverse kinematics in Python: it does not limit the velocity.
            code = continue_tick(walker, v, out.tau)
        if code >= 0:
            outcome = finish_with_whole_body_control(e, code, q, v)
        else:
            request_contacts(e, 0)
            compute_folding_torques(walker.folding, walker.motors, q, v, out.tau)
    tau[:] = out.tau
    return outcome


@compiled(inline=False)
def restart_walker(e: EmbeddedWalker) -> None:
    """Makes the next tick initialize motion and contacts; estimates of the friction are kept."""
    reset(e.wbc)
    e.walker.walk.mode.has_started = False


@entry("walker")
def reset_embedded_walker(e: EmbeddedWalker) -> None:
    """Resets all estimates and the mode."""
    restart_walker(e)
    if reset_walker(e.walker):
        apply_friction(e)
    e.output.contacts[:] = 1
    e.output.tau[:] = 0.0


@entry("walker")
def stand_up(e: EmbeddedWalker) -> None:
    """Starts to rise to the home height; also leaves the fallen state and cancels `lie_down`."""
    if request_standing(e.walker.walk):
        restart_walker(e)


@entry("walker")
def lie_down(e: EmbeddedWalker) -> None:
    """Stops stepping, lowers the trunk to half of the home height, and holds it there."""
    request_lying(e.walker.walk)


@entry("walker")
def select_gait(e: EmbeddedWalker, gait: GaitLimits) -> None:
    """Sets the gait of the next steps; the transition takes some cycles."""
    set_gait(e.walker.walk, gait)


#: Functions that programs in C call.
FUNCTIONS = walker_tick, reset_embedded_walker, stand_up, lie_down, select_gait


#: Fields of `WalkTasks` that are views of the parameters of the whole-body controller.
TASK_BLOCKS = "com", "base", "fl", "fr", "rl", "rr"


def make_embedded_walker(walking: GroundPhaseController) -> EmbeddedWalker:
    """Returns a locomotion controller as records, before its first tick, with its gait, gains and nominal friction.

    Args:
        walking: the `GroundPhaseController` of a controller without terrain map and payload estimate, with the standard
            tasks.

    Raises:
        ArgumentError: the controller uses a feature that only Python has.
    """
    quad, wbc, records = walking.quadruped, walking.quadruped.wbc, walking.records.walker
    _require_exportable(quad, records)
    quad.capability.velocity_limits.gait_limits(quad.gait)
    embedded = make_embedded_controller(wbc._structure, wbc.dt, wbc.ramp_time)
    parameters, solver, tasks = embedded.data.inputs.parameters, wbc.solver, records.walk.tasks
    blocks = {name: _rebase(getattr(tasks, name), wbc.parameter_vector, parameters) for name in TASK_BLOCKS}
    limiter, limits = quad.torque_limiter, np.array(records.motors.limits)
    if limiter.element in wbc.tasks.values():
        limits = _rebase(limiter.limits, wbc.parameter_vector, parameters)
    walker = EmbeddedWalker(
        walker=Walker(
            walk=_copy(records.walk)._replace(tasks=WalkTasks(forces=np.zeros((4, 8)), **blocks)),
            landing=records.landing.copy(),
            folding=records.folding.copy(),
            initial_footwork=records.initial_footwork.copy(),
            motors=_copy(records.motors)._replace(limits=limits),
            terms=embedded.data.terms,
            foot_frames=records.foot_frames,
            jacobian=make_world_jacobian(quad.robot),
            displacements=records.displacements.copy(),
        ),
        wbc=embedded,
        output=WalkerOutput.allocate(contacts=4, tau=quad.robot.nu),
        foot_contacts=np.array([solver.names.index(foot) for foot in FEET], dtype=np.int64),
    )
    walk = walker.walker.walk
    walk.friction.friction = wbc.friction
    walk.parameters.lowering_fraction = quad.capability.slope_lowering
    with interpret():
        reset_embedded_walker(walker)
    return walker


def _require_exportable(quad: Quadruped, records: Walker) -> None:
    """Validates that compiled code computes all of a controller's ticks.

    Args:
        quad: components of the controller.
        records: its records.

    Raises:
        ArgumentError: it does not; names what must change.
    """
    wbc, data = quad.wbc, records.walk
    is_jumping = quad.mode in (LocomotionMode.CROUCHING, LocomotionMode.JUMPING) or records.landing.is_jump
    wbc._structure.levels.validate_parameters()
    custom = [element.name for _, element in wbc.solver.tables.custom_elements]
    force_tasks = wbc.solver.tables.force_tasks
    contacts = [wbc.contacts[foot].contact for foot in FEET if foot in wbc.contacts]
    for is_invalid, reason in (
        (is_jumping, "a jump is in progress; export it before or after the jump"),
        (
            any(wbc.contacts[foot].has_friction_override for foot in FEET if foot in wbc.contacts),
            "feet have friction coefficients of their own; set LocomotionController.friction instead",
        ),
        (quad.foothold_map is not None, "it has a terrain map; create it without terrain"),
        (quad.estimators.estimates_payload, 'it estimates the payload; create it without payload="estimated"'),
        (
            quad.robot.coupling is not None,
            f"joints of {quad.robot.name!r} depend on others; load it with mimic=False and loops=False",
        ),
        (bool(custom), f"the elements {', '.join(map(repr, custom))} are computed in Python; remove them"),
        (
            not data.parameters.writes_tasks,
            'its tasks "com", "base" or of the feet are custom ones; use the default tasks',
        ),
        (len(force_tasks) != 1 or force_tasks[0].contacts is not None, 'its only force task must be "forces"'),
        (len(contacts) < len(FEET) or any(c.kind != "point" for c in contacts), "its feet must be point contacts"),
        (not wbc.solver.tables.model.faces, "its friction cones must be pyramids"),
        (not set(FEET) <= set(wbc.solver.tables.frames), "its whole-body controller does not use all feet"),
    ):
        if is_invalid:
            raise ArgumentError(f"controller: cannot be exported or run in a batch: {reason}")


def _copy(x: Any) -> Any:
    """Returns a tree of named tuples with copies of all records and arrays."""
    if isinstance(x, Record):
        return x.copy()
    if isinstance(x, np.ndarray):
        return x.copy()
    return type(x)(*map(_copy, x)) if isinstance(x, tuple) else x


def _rebase(view: Array, memory: Array, copy: Array) -> Array:
    """Returns the view of `copy` that `view` is of `memory`, at the same offset.

    Raises:
        ArgumentError: it is not a view of `memory`.
    """
    begin = (view.ctypes.data - memory.ctypes.data) // view.itemsize
    if not 0 <= begin <= len(memory) - len(view):
        raise ArgumentError(
            "controller: cannot be exported or run in a batch: an element belongs to another controller"
        )
    return copy[begin : begin + len(view)]
