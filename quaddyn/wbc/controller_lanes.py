"""Many equal controllers in arrays, and their transfer to and from the memory of one `EmbeddedController`; compiled.

A *lane* is one of n controllers that differ in state, references and friction.  A lane stores only what later ticks
depend on: parameters and references, contact ramps, working sets, and the result of the last tick.  Rigid-body terms,
rows, factors and multipliers of a tick lie in the memory of an `EmbeddedController`, one for each thread, which
computes the ticks of one lane after the other.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..compiler import (
    ByteMatrix,
    ByteVector,
    IntMatrix,
    IntVector,
    Matrix,
    Tensor,
    Vector,
    call_kernel,
    compiled,
    entry,
)
from .embedded import (
    EmbeddedController,
    controller_tick,
    embedded_result,
    reset,
    set_friction,
    set_motion_reference,
    validate_state,
)
from .row_writing import get_item
from .tick_core import element_functions
from .tick_data import FormulationMemory, TickOutcome, read_certificate

#: Single controllers do not need these entries.
__compilation_unit__ = ""

#: Result of `set_lane_references` if all references are valid.
NO_LANE = -1


class ControllerLanes(NamedTuple):
    """States of m controllers after their last ticks.

    Attributes:
        parameters: (m, parameters) parameters of all elements, references included.
        force_references: (m, force tasks, 8 contacts) references of force tasks, in the order of `TickInputData`.
        friction: (m, contacts) friction coefficients.
        activation: (m, contacts) activations, 0 to 1; this and the following five as in `ContactRamps`.
        cap: (m, contacts) largest normal forces [N].
        start_cap: (m, contacts) largest normal forces at the beginning of the ramp [N].
        start_activation: (m, contacts) activations at the beginning of the ramp.
        force_unit: (m, contacts) force units [N].
        is_rising: (m, contacts) whether each activation is increasing.
        has_request: (m,) whether contacts were requested before.
        has_previous_tick: (m,) whether there was a tick before.
        eliminated_steadiness: (m,) `FormulationMemory.steadiness` of the working sets with eliminated contacts.
        rows_steadiness: (m,) likewise of those with contacts as rows.
        needs_min_norm: (m,) as in the memory of the tick.
        skips_elimination: (m,) likewise.
        is_infeasible: (m,) whether level 0 was infeasible in the last tick.
        limit_starts: (m, 2 (levels + 2)) first limit of each level, with eliminated contacts, then with contacts as
            rows.
        working_sets: (m, 2 (levels + 2) limits) working sets of the two formulations, one after the other.
        tau: (m, nu) torques of the last valid tick [N m or N].
        accelerations: (m, nv) its accelerations.
        forces: (m, contacts, 6) its contact forces, world axes [N, N m].
        violation: (m,) largest violation of level 0 in the last tick [m/s^2]; infinite without a solution.
        kkt: (m,) residual of the optimality conditions in the last tick; infinite without a solution.
        outcome: (m,) `TickOutcome` of the last tick.
    """

    parameters: Matrix
    force_references: Tensor
    friction: Matrix
    activation: Matrix
    cap: Matrix
    start_cap: Matrix
    start_activation: Matrix
    force_unit: Matrix
    is_rising: ByteMatrix
    has_request: ByteVector
    has_previous_tick: ByteVector
    eliminated_steadiness: ByteVector
    rows_steadiness: ByteVector
    needs_min_norm: ByteVector
    skips_elimination: ByteVector
    is_infeasible: ByteVector
    limit_starts: IntMatrix
    working_sets: ByteMatrix
    tau: Matrix
    accelerations: Matrix
    forces: Tensor
    violation: Vector
    kkt: Vector
    outcome: ByteVector


class LaneFriction(NamedTuple):
    """Friction cones of the controller from which the lanes were made, and those in the memory of a thread.

    Attributes:
        nominal: (contacts,) friction coefficients of the controller.
        cones: (contacts, rows, 6) its friction cones.
        cone_row_count: (contacts,) number of rows of these cones.
        loaded: (contacts,) friction coefficients of the cones in the memory of the thread.
    """

    nominal: Vector
    cones: Tensor
    cone_row_count: IntVector
    loaded: Vector


class ReferenceRows(NamedTuple):
    """References of one motion task; each array has one row for all lanes, or one for each.

    Attributes:
        position: (1 or m, size) positions, or (1, 0) to leave them unchanged.
        velocity: (1 or m, rows) velocities, or (1, 0) for zero.
        acceleration: (1 or m, rows) feed-forward accelerations, or (1, 0) for zero.
    """

    position: Matrix
    velocity: Matrix
    acceleration: Matrix


def make_controller_lanes(m: int, e: EmbeddedController, friction: Vector) -> ControllerLanes:
    """Returns m lanes like `e`, before their first ticks."""
    data, zeros, byte = e.data, np.zeros, np.int8
    count, memory, inputs = len(data.contacts.size), data.memory.eliminated, data.inputs
    references = inputs.force_references.reshape(1, len(inputs.force_references), 8 * count)
    return ControllerLanes(
        np.tile(inputs.parameters, (m, 1)), np.tile(references, (m, 1, 1)), np.tile(friction, (m, 1)),
        zeros((m, count)), zeros((m, count)), zeros((m, count)), zeros((m, count)), zeros((m, count)),
        zeros((m, count), byte), zeros(m, byte), zeros(m, byte), zeros(m, byte), zeros(m, byte), zeros(m, byte),
        zeros(m, byte), zeros(m, byte),
        zeros((m, 2 * len(memory.limit_starts)), np.int64), zeros((m, 2 * len(memory.current)), byte),
        zeros((m, len(data.model.actuated))), zeros((m, len(data.model.slot))), zeros((m, count, 6)), zeros(m),
        zeros(m), zeros(m, byte),
    )  # fmt: skip


@compiled()
def load_working_sets(memory: FormulationMemory, starts: IntVector, working_sets: ByteVector, steadiness: int) -> None:
    """Sets the working sets of one formulation."""
    memory.limit_starts[:] = starts
    memory.current[:] = working_sets
    memory.steadiness = steadiness


@compiled(inline=False)
def load_lane(i: int, lanes: ControllerLanes, friction: LaneFriction, e: EmbeddedController) -> None:
    """Sets the memory of a controller to the state of lane i."""
    inputs, contacts, ramps, memory = e.data.inputs, e.data.contacts, e.ramps, e.data.memory
    inputs.parameters[:] = lanes.parameters[i]
    for task in range(inputs.force_references.shape[0]):
        for c in range(len(contacts.size)):
            inputs.force_references[task, c] = lanes.force_references[i, task, 8 * c : 8 * c + 8]
    for c in range(len(contacts.size)):
        ramps.activation[c] = lanes.activation[i, c]
        ramps.cap[c] = lanes.cap[i, c]
        ramps.start_cap[c] = lanes.start_cap[i, c]
        ramps.start_activation[c] = lanes.start_activation[i, c]
        ramps.force_unit[c] = lanes.force_unit[i, c]
        ramps.is_rising[c] = lanes.is_rising[i, c]
        if lanes.friction[i, c] != friction.loaded[c]:
            load_friction(e, c, lanes.friction[i, c], friction)
    n_starts, n_limits = len(memory.eliminated.limit_starts), len(memory.eliminated.current)
    starts, working_sets = lanes.limit_starts[i], lanes.working_sets[i]
    load_working_sets(memory.eliminated, starts[:n_starts], working_sets[:n_limits], lanes.eliminated_steadiness[i])
    load_working_sets(memory.as_rows, starts[n_starts:], working_sets[n_limits:], lanes.rows_steadiness[i])
    memory.needs_min_norm = lanes.needs_min_norm[i] != 0
    memory.skips_elimination = lanes.skips_elimination[i] != 0
    e.data.work.summary.is_infeasible = lanes.is_infeasible[i] != 0
    e.progress.has_request = lanes.has_request[i] != 0
    inputs.previous.exists = lanes.has_previous_tick[i] != 0
    inputs.previous.torque[:] = lanes.tau[i]
    last = embedded_result(e, e.last)
    last.torque[:] = lanes.tau[i]
    last.acceleration[:] = lanes.accelerations[i]
    for c in range(len(contacts.size)):
        last.force[c] = lanes.forces[i, c]


@compiled(inline=False)
def load_friction(e: EmbeddedController, c: int, mu: float, friction: LaneFriction) -> None:
    """Writes the friction cone of contact c for a friction coefficient."""
    if mu == friction.nominal[c]:
        e.data.contacts.cone_row_count[c] = friction.cone_row_count[c]
        for row in range(friction.cones.shape[1]):
            e.data.contacts.cone[c, row] = friction.cones[c, row]
    else:
        set_friction(e, c, mu)
    friction.loaded[c] = mu


@compiled(inline=False)
def store_lane(i: int, lanes: ControllerLanes, e: EmbeddedController) -> None:
    """Writes the state of a controller after a tick to lane i, without violation, residual and outcome."""
    inputs, contacts, ramps, memory = e.data.inputs, e.data.contacts, e.ramps, e.data.memory
    lanes.parameters[i] = inputs.parameters
    for task in range(inputs.force_references.shape[0]):
        for c in range(len(contacts.size)):
            lanes.force_references[i, task, 8 * c : 8 * c + 8] = inputs.force_references[task, c]
    for c in range(len(contacts.size)):
        lanes.activation[i, c] = ramps.activation[c]
        lanes.cap[i, c] = ramps.cap[c]
        lanes.start_cap[i, c] = ramps.start_cap[c]
        lanes.start_activation[i, c] = ramps.start_activation[c]
        lanes.force_unit[i, c] = ramps.force_unit[c]
        lanes.is_rising[i, c] = ramps.is_rising[c]
    n_starts, n_limits = len(memory.eliminated.limit_starts), len(memory.eliminated.current)
    lanes.limit_starts[i, :n_starts] = memory.eliminated.limit_starts
    lanes.limit_starts[i, n_starts:] = memory.as_rows.limit_starts
    lanes.working_sets[i, :n_limits] = memory.eliminated.current
    lanes.working_sets[i, n_limits:] = memory.as_rows.current
    lanes.eliminated_steadiness[i] = memory.eliminated.steadiness
    lanes.rows_steadiness[i] = memory.as_rows.steadiness
    lanes.needs_min_norm[i] = int(memory.needs_min_norm)
    lanes.skips_elimination[i] = int(memory.skips_elimination)
    lanes.is_infeasible[i] = int(e.data.work.summary.is_infeasible)
    lanes.has_request[i] = int(e.progress.has_request)
    lanes.has_previous_tick[i] = int(inputs.previous.exists)
    last = embedded_result(e, e.last)
    lanes.tau[i] = last.torque
    lanes.accelerations[i] = last.acceleration
    for c in range(len(contacts.size)):
        lanes.forces[i, c] = last.force[c]


@compiled(inline=False)
def compute_lane(
    i: int,
    e: EmbeddedController,
    lanes: ControllerLanes,
    friction: LaneFriction,
    q: Matrix,
    v: Matrix,
    requested: ByteMatrix,
    kernel: int,
) -> None:
    """Computes one tick of lane i; arguments as for `compute_lanes`."""
    outcome = validate_state(e, q[i], v[i])
    if outcome == TickOutcome.SOLVED and call_kernel(kernel, q[i], v[i], e.data.terms.values) != 0:
        outcome = TickOutcome.INVALID_STATE
    if outcome == TickOutcome.SOLVED:
        load_lane(i, lanes, friction, e)
        row = i if len(requested) > 1 else 0
        for c in range(requested.shape[1]):
            e.requested[c] = requested[row, c]
        outcome = controller_tick(e, q[i], v[i], lanes.tau[i])
        store_lane(i, lanes, e)
    certificate, has_solution = read_certificate(embedded_result(e, e.last)), outcome < TickOutcome.FALLBACK
    lanes.violation[i] = certificate.violation if has_solution else math.inf
    lanes.kkt[i] = certificate.kkt if has_solution else math.inf
    lanes.outcome[i] = outcome


@entry("batches of whole-body controllers", release=True, callees=lambda e: element_functions(e.data))
def compute_lanes(
    e: EmbeddedController,
    lanes: ControllerLanes,
    friction: LaneFriction,
    q: Matrix,
    v: Matrix,
    requested: ByteMatrix,
    kernel: int,
) -> None:
    """Computes one tick of m lanes, one lane after the other, in the memory of one controller.

    The state of a lane with an invalid state (q, v) does not change, and its torques are those of its last tick.

    Args:
        e: memory of the controller; its state is that of the last lane afterwards.
        lanes: states of the lanes.
        friction: friction cones of the controller.
        q: (m, nq) configurations.
        v: (m, nv) velocities.
        requested: (1 or m, contacts) whether each contact should be made, for all lanes or for each.
        kernel: address of the kernel of the rigid-body terms, see `quaddyn.kernels.TickTerms.address`.
    """
    for i in range(len(lanes.outcome)):
        compute_lane(i, e, lanes, friction, q, v, requested, kernel)


@entry("batches of whole-body controllers", release=True)
def reset_lanes(e: EmbeddedController, lanes: ControllerLanes, friction: LaneFriction, mask: ByteVector) -> None:
    """Clears contacts, references and the last results of lanes, as `embedded.reset`.

    Args:
        e: memory of a controller.
        lanes: states of the lanes.
        friction: friction cones of the controller.
        mask: (m,) whether each lane is reset.
    """
    for i in range(len(mask)):
        if mask[i] != 0:
            load_lane(i, lanes, friction, e)
            reset(e)
            store_lane(i, lanes, e)
            lanes.violation[i], lanes.kkt[i] = 0.0, 0.0
            lanes.outcome[i] = TickOutcome.SOLVED


@entry("batches of whole-body controllers", release=True)
def set_lane_references(
    e: EmbeddedController, lanes: ControllerLanes, task: int, references: ReferenceRows, mask: ByteVector, store: bool
) -> int:
    """Sets the references of a motion task, as `embedded.set_motion_reference`.

    Args:
        e: memory of a controller.
        lanes: states of the lanes.
        task: index of the task among the elements.
        references: the references.
        mask: (m,) lanes whose references are set.
        store: whether to store the references; otherwise they are validated only.

    Returns:
        The first lane whose reference is not valid, or `NO_LANE`; with `store`, earlier lanes have been set.
    """
    position, velocity, acceleration = references.position, references.velocity, references.acceleration
    parameters = get_item(e.data.model, e.data.inputs, task).parameters
    first, size = e.data.model.elements.first_parameter[task], 1 + 6 * e.data.model.elements.size[task]
    for i in range(len(mask)):
        if mask[i] != 0:
            parameters[:size] = lanes.parameters[i, first : first + size]
            p, w, a = (
                i if len(position) > 1 else 0,
                i if len(velocity) > 1 else 0,
                i if len(acceleration) > 1 else 0,
            )
            if not set_motion_reference(e, task, position[p], velocity[w], acceleration[a]):
                return i
            if store:
                end = size + position.shape[1]
                lanes.parameters[i, first : first + end] = parameters[:end]
    return NO_LANE
