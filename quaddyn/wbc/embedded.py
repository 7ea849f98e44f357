"""`EmbeddedController`: the code around a tick, in the compiled subset of Python, for programs without Python.

A tick in C is the same code as in Python (`quaddyn.wbc.tick_core`).  This module repeats over arrays what
`WholeBodyController` does around it: validation of states, contact ramps, references by element, and the last result.

`make_embedded_controller` converts a controller to arrays, for C99 and for batches.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..compiler import IntMatrix, IntVector, Matrix, Record, Tensor, Vec3, Vector, compiled, cross, norm, vec3
from ..contact import friction_pyramid, pyramid_friction_ratio
from ..dynamics.arguments import MAX_CONFIGURATION_NORM, MAX_KINETIC_ENERGY, UNIT_NORM_TOLERANCE
from ..robot.robot import Robot
from ..urdf.tree import Array
from .contact_ramps import ContactRamps, advance_contacts, make_ramps, set_ramp
from .controller_structure import ControllerStructure
from .elements import ELEMENT_KINDS
from .row_writing import get_item
from .tasks.motion_parameters import motion_parameters, set_has_reference
from .tick_core import clear_working_sets, tick
from .tick_data import (
    ContactRole,
    TickData,
    TickOutcome,
    TickResult,
    force_reference,
    read_certificate,
    result_views,
    write_certificate,
    write_force_reference,
)
from .tick_solver import TickSolver

#: Largest friction coefficient, as for `WholeBodyController.friction`.
MAX_FRICTION = 10.0


class ControllerProgress(Record):
    """What a controller stores from tick to tick, besides the data of the tick."""

    has_request: bool  # whether contacts were requested before
    ticks: int  # number of ticks so far


class EmbeddedController(NamedTuple):
    """A controller as arrays, for compiled code without Python."""

    data: TickData
    ramps: ContactRamps
    values: Vector  # the result of the tick that is being computed, without parameters; see `result_views`
    last: Vector  # the last valid result, likewise
    requested: IntVector  # (contacts,) whether each contact should be made; those of the last tick until set
    progress: ControllerProgress
    home: Vector  # (nq,) home configuration, the default reference of postures
    unit_norm_parts: IntMatrix  # first index and size of each part of q that has unit norm, such as a quaternion
    frictionless_pyramids: Tensor  # (contacts, faces + 1, 3) rows of friction pyramids without friction
    activation_step: float  # change of an activation per tick, infinite to switch at once
    weight: float  # weight of the robot [N]
    pyramid_friction_ratio: float  # friction coefficient at the middle of a pyramid's faces, divided by mu


@compiled()
def embedded_result(e: EmbeddedController, values: Vector) -> TickResult:
    """Returns views of the parts of a result vector."""
    model = e.data.model
    return result_views(
        values,
        len(model.actuated),
        len(model.slot),
        len(e.data.contacts.size),
        model.levels,
        e.data.inputs.force_references.shape[0],
    )


@compiled(inline=False)
def validate_state(e: EmbeddedController, q: Vector, v: Vector) -> TickOutcome:
    """Returns whether (q, v) is a valid state, with the checks of `Dynamics.update`.

    Returns:
        `TickOutcome.SOLVED`, `NOT_A_NUMBER` or `INVALID_STATE`.
    """
    norm_squared_q = 0.0
    for i in range(len(v)):
        if not math.isfinite(v[i]):
            return TickOutcome.NOT_A_NUMBER
    for i in range(len(q)):
        if not math.isfinite(q[i]):
            return TickOutcome.NOT_A_NUMBER
        norm_squared_q += q[i] * q[i]
    if not math.sqrt(norm_squared_q) < MAX_CONFIGURATION_NORM:
        return TickOutcome.INVALID_STATE
    for i in range(e.unit_norm_parts.shape[0]):
        norm_squared = 0.0
        for k in range(e.unit_norm_parts[i, 1]):
            norm_squared += q[e.unit_norm_parts[i, 0] + k] * q[e.unit_norm_parts[i, 0] + k]
        if not abs(math.sqrt(norm_squared) - 1.0) <= UNIT_NORM_TOLERANCE:
            return TickOutcome.INVALID_STATE
    return TickOutcome.SOLVED


@compiled()
def kinetic_energy(M: Matrix, v: Vector) -> float:
    """Returns ``v^T M v / 2``."""
    total = 0.0
    for i in range(len(v)):
        row = 0.0
        for j in range(len(v)):
            row += M[i, j] * v[j]
        total += row * v[i]
    return 0.5 * total


@compiled(inline=False)
def advance_embedded_contacts(e: EmbeddedController) -> None:
    """Advances the contacts by one tick toward the requested ones.

    A contact that is made clears the references of its foot task.
    """
    contacts, has_request = e.data.contacts, e.progress.has_request
    advance_contacts(
        e.ramps,
        contacts,
        e.requested,
        e.activation_step if has_request else math.inf,
        e.weight,
        embedded_result(e, e.last).force,
    )
    for c in range(len(contacts.size)):
        if (
            has_request
            and e.ramps.was_completed[c] != 0
            and contacts.foot_task[c] >= 0
            and contacts.role[c] <= ContactRole.BILATERAL
        ):
            clear_reference(e, contacts.foot_task[c])
    e.progress.has_request = True


@compiled(inline=False)
def controller_tick(e: EmbeddedController, q: Vector, v: Vector, torque: Vector) -> TickOutcome:
    """Computes one tick from terms that belong to (q, v), and returns its outcome.

    Torques are always finite: those of the last tick if there are no new ones, and zero before the first.

    Args:
        e: the controller; `requested` states which contacts should be made.
        q: (nq,) valid configuration, see `validate_state`.
        v: (nv,) velocity.
        torque: (nu,) takes the torques [N m].
    """
    last, outcome = embedded_result(e, e.last), TickOutcome.INVALID_STATE
    if kinetic_energy(e.data.terms.M, v) < MAX_KINETIC_ENERGY:
        advance_embedded_contacts(e)
        e.values[:] = math.nan
        outcome = tick(q, v, e.data, e.values)
        torque_sum, result = 0.0, embedded_result(e, e.values)
        for i in range(len(result.torque)):
            torque_sum += abs(result.torque[i])
        if outcome < TickOutcome.OVERFLOW:
            e.progress.ticks += 1
            if math.isfinite(torque_sum):
                e.last[:] = e.values
            else:
                outcome = TickOutcome.FALLBACK
                write_certificate(last, math.inf, read_certificate(last).kkt)
            e.data.inputs.previous.exists = True
            e.data.inputs.previous.torque[: len(torque)] = last.torque[: len(torque)]
    torque[:] = last.torque
    return outcome


@compiled(inline=False)
def clear_reference(e: EmbeddedController, i: int) -> None:
    """Clears the references of element i.

    A posture returns to home, forces to zero, and other tasks take the current position at the next tick.
    """
    item = get_item(e.data.model, e.data.inputs, i)
    for kind in ELEMENT_KINDS:
        if e.data.model.elements.code[i] == kind.code:
            kind.clear_reference(item, e.data.inputs, e.home)


@compiled(inline=False)
def reset(e: EmbeddedController) -> None:
    """Clears contacts, references and the last torques, so that the next tick is a first one."""
    for i in range(len(e.data.model.elements.code)):
        clear_reference(e, i)
    for c in range(len(e.data.contacts.size)):
        set_ramp(e.ramps, c, False)
    e.last[:] = 0.0
    e.progress.has_request = False
    e.progress.ticks = 0
    e.data.inputs.previous.exists = False
    clear_working_sets(e.data.memory)


@compiled(inline=False)
def is_finite_vector(x: Vector) -> bool:
    """Returns whether all entries and the sum of their squares are finite."""
    square = 0.0
    for i in range(len(x)):
        square += x[i] * x[i]
    return math.isfinite(square)


@compiled(inline=False)
def set_motion_reference(
    e: EmbeddedController, i: int, position: Vector, velocity: Vector, acceleration: Vector
) -> bool:
    """Sets the reference of motion task i, and returns whether it was accepted.

    An empty position leaves the position unchanged; an empty velocity or acceleration is zero.
    """
    item = get_item(e.data.model, e.data.inputs, i)
    if not (is_finite_vector(position) and is_finite_vector(velocity) and is_finite_vector(acceleration)):
        return False
    divisor = 1.0
    if len(position) > 0:
        for kind in ELEMENT_KINDS:
            if e.data.model.elements.code[i] == kind.code:
                divisor = kind.reference_divisor(position)
        if divisor == 0.0:
            return False
    p = motion_parameters(item.parameters, item.size)
    if len(position) > 0:
        set_has_reference(p, True)
    for k in range(len(position)):
        p.position[k] = position[k] / divisor
    for k in range(item.size):
        p.velocity[k] = velocity[k] if len(velocity) > 0 else 0.0
        p.acceleration[k] = acceleration[k] if len(acceleration) > 0 else 0.0
    return True


@compiled(inline=False)
def set_gains(e: EmbeddedController, i: int, stiffness: Vector, damping: Vector) -> bool:
    """Sets the feedback gains of motion task i, and returns whether they were accepted.

    Empty damping is critical damping.
    """
    item = get_item(e.data.model, e.data.inputs, i)
    for k in range(len(stiffness)):
        if not 0.0 <= stiffness[k] < math.inf or (len(damping) > 0 and not 0.0 <= damping[k] < math.inf):
            return False
    p = motion_parameters(item.parameters, item.size)
    for k in range(len(stiffness)):
        p.stiffness[k] = stiffness[k]
        p.damping[k] = damping[k] if len(damping) > 0 else 2.0 * math.sqrt(stiffness[k])
    return True


@compiled(inline=False)
def set_force_reference(e: EmbeddedController, i: int, c: int, force: Vector) -> bool:
    """Sets the reference force of contact c in force task i, and returns whether it was accepted.

    An empty force is zero.
    """
    if c < 0 or c >= len(e.data.contacts.size) or not is_finite_vector(force):
        return False
    task = e.data.model.elements.first[i]
    if not force_reference(e.data.inputs, task, c).is_in_task and len(force) > 0:
        return False
    write_force_reference(e.data.inputs, task, c, force)
    return True


@compiled(inline=False)
def set_parameters(
    e: EmbeddedController, i: int, first: int, values: Vector, min_value: float, must_be_finite: bool
) -> bool:
    """Sets the parameters of constraint i from index `first` on, and returns whether they were accepted.

    Rejects NaN, values below `min_value` and, if `must_be_finite`, infinite values.
    """
    for k in range(len(values)):
        if not values[k] >= min_value or (must_be_finite and not math.isfinite(values[k])):
            return False
    start = e.data.model.elements.first_parameter[i] + first
    for k in range(len(values)):
        e.data.inputs.parameters[start + k] = values[k]
    return True


@compiled(inline=False)
def set_friction(e: EmbeddedController, c: int, mu: float) -> bool:
    """Sets the friction coefficient of a point contact with a friction pyramid, and returns whether it was accepted."""
    contacts, faces = e.data.contacts, e.data.model.faces
    if c < 0 or c >= len(contacts.size) or not 0.0 <= mu <= MAX_FRICTION:
        return False
    if contacts.is_surface[c] != 0 or contacts.is_unilateral[c] == 0 or faces == 0:
        return False
    contacts.cone_row_count[c] = faces if mu > 0.0 else faces + 1
    for row in range(faces + 1):
        for k in range(3):
            friction_term = mu * e.pyramid_friction_ratio * contacts.normal[c, k] if row < faces else 0.0
            contacts.cone[c, row, k] = (
                e.frictionless_pyramids[c, row, k] - friction_term if row < contacts.cone_row_count[c] else 0.0
            )
    return True


@compiled(inline=False)
def set_contact_cone(e: EmbeddedController, c: int, normal: Vec3, mu: float) -> bool:
    """Sets unit normal and friction coefficient of a point contact; returns whether `set_friction` accepted it.

    The faces of the pyramid begin at world x without its component along the normal, as in
    `quaddyn.contact.contact_axes`.
    """
    contacts, faces, pyramid = e.data.contacts, e.data.model.faces, e.frictionless_pyramids[c]
    x = vec3(0.0, 1.0, 0.0)
    if abs(normal[0]) < 0.9:
        x = vec3(1.0, 0.0, 0.0)
    x = x - normal * (x @ normal)
    x = x / norm(x)
    y = cross(normal, x)
    for face in range(faces):
        angle = 2.0 * math.pi * face / faces
        pyramid[face] = x * math.cos(angle) + y * math.sin(angle)
    pyramid[faces] = -normal
    contacts.normal[c] = normal
    contacts.surface_normal[c] = normal
    return set_friction(e, c, mu)


@compiled(inline=False)
def set_force_limits(e: EmbeddedController, c: int, min_force: float, max_force: float) -> bool:
    """Sets the bounds of a contact's normal force [N], and returns whether they were accepted."""
    if c < 0 or c >= len(e.data.contacts.size) or not 0.0 <= min_force <= max_force or min_force == math.inf:
        return False
    e.data.contacts.min_force[c] = min_force
    e.data.contacts.max_force[c] = max_force
    return True


#: Functions that programs in C call.
FUNCTIONS = (
    validate_state, controller_tick, reset, set_motion_reference, set_gains, set_force_reference, set_parameters,
    set_friction,
    set_force_limits,
)  # fmt: skip


def make_embedded_controller(structure: ControllerStructure, dt: float, ramp_time: float) -> EmbeddedController:
    """Returns a copy of a controller as arrays, before its first tick.

    Args:
        structure: elements and contacts of the controller; no element may be a custom one.
        dt: control period [s].
        ramp_time: time over which contacts are made and broken [s].
    """
    solver = structure.solver
    robot, data, count, scale = solver.robot, solver.make_first_tick_data(), len(solver.names), solver.scales
    size = solver.result_size - len(data.inputs.parameters)
    return EmbeddedController(
        data=data,
        ramps=make_ramps(count),
        values=np.zeros(size),
        last=np.zeros(size),
        requested=np.zeros(count, dtype=np.int64),
        progress=ControllerProgress.allocate(),
        home=np.array(robot.q_home, dtype=np.float64),
        unit_norm_parts=_unit_norm_parts(robot),
        frictionless_pyramids=_frictionless_pyramids(solver),
        activation_step=dt / ramp_time if ramp_time > 0.0 else np.inf,
        weight=scale.mass * scale.gravity,
        pyramid_friction_ratio=pyramid_friction_ratio(data.model.faces) if data.model.faces else 0.0,
    )


def _unit_norm_parts(robot: Robot) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """Returns first index and size (n, 2) of each part of q that has unit norm, such as a quaternion."""
    return np.array([(first, size) for _, first, size in robot.unit_norm_slices], dtype=np.int64).reshape(-1, 2)


def _frictionless_pyramids(solver: TickSolver) -> Array:
    """Returns the rows (contacts, faces + 1, 3) of the friction pyramids at zero friction; zeros without a pyramid."""
    faces, contacts = solver.tables.model.faces, solver.contacts
    pyramids = np.zeros((len(contacts), faces + 1, 3))
    for rows, settings in zip(pyramids, contacts, strict=True):
        if faces and settings.contact.unilateral and settings.contact.kind != "surface":
            rows[:] = friction_pyramid(replace(settings.contact, friction=0.0), faces=faces)
    return pyramids
