"""States of many equal plants in arrays, and their time stepping in the memory of one compiled plant; compiled.

A *lane* is one of n plants that differ in their state and in a few parameters.  A lane stores only what later steps
depend on: configuration, velocities, motors, and the contacts of the last step, as many as there were.  The terms,
factors and contact problem of a step lie in the memory of a plant, one for each thread, which steps one lane after the
other (`run_lanes`); a `LaneWorker` is such a plant.  Simulations of one robot do not need this compilation unit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import pinocchio as pin
from numpy.typing import NDArray

from ..compiler import ByteVector, IntMatrix, IntVector, Matrix, Record, Tensor, Vector, compiled, entry
from ..dynamics.kinematic_tree import PointForces
from ..robot.home import JointPositions
from ..robot.robot import Robot
from ..urdf.tree import Array
from .actuators import Actuators, Drives
from .integrator import begin_run, clear_last_step, separate_functions, take_step
from .plant_data import (
    ContactLaw,
    ContactStatus,
    PlantData,
    SphereContacts,
    StepDynamics,
    StepMemory,
    StepModel,
    StepPhase,
    StepResult,
    SubstepContacts,
    clear_totals,
)
from .terms import StepTerms
from .terrain import Box as BoxSurface
from .terrain import Plane, Terrain

#: Contacts for which a block of lanes has memory at first, as for a quadruped on its feet; it grows with the contacts
#: that occur.
INITIAL_CONTACTS = 4


class LaneStates(NamedTuple):
    """States of m lanes after their last steps."""

    q: Matrix  # (m, nq) configurations
    v: Matrix  # (m, nv) velocities
    v_previous: Matrix  # (m, nv) velocities one step earlier
    tau: Matrix  # (m, nu) motor torques of the last step [N m or N]
    work: Matrix  # (m, 6) work since the last reset, in the order of `StepWork` [J]
    residual: Vector  # (m,) largest violation of the contact law in the last step [m/s]
    status: ByteVector  # (m,) status of the last step, see `ContactStatus`
    was_in_flight: ByteVector  # (m,) whether the last step was in flight
    has_diverged: ByteVector  # (m,) whether the motion has diverged; such a lane is not stepped until it is reset
    n_steps: IntVector  # (m,) steps since the last reset
    n_inaccurate: IntVector  # (m,) inaccurate steps among them
    # (m, g, 3) sum of the contact impulses of the last step, divided by dt, in each group of spheres, world axes [N]
    forces: Tensor
    offset: Matrix  # (m, nu) position of motors relative to their joints; (m, 0) without backlash [rad or m]
    speed: Matrix  # (m, nu) velocities of motors with backlash; (m, 0) without backlash [rad/s or m/s]
    delay_buffer: Tensor  # (m, r, nu) ring buffers of delayed torques; r = 0 without delays [N m or N]
    buffer_row: IntVector  # (m,) row of `delay_buffer` of the next step
    n_contacts: IntVector  # (m,) contacts of the last step
    keys: IntMatrix  # (m, c) identifiers of these contacts
    impulses: Tensor  # (m, c, 3) impulses of these contacts, world axes [N s]


class LaneParameters(NamedTuple):
    """Parameters in which m lanes differ."""

    friction: Vector  # (m,) friction coefficient of surfaces without a coefficient
    strength: Vector  # (m,) maximum motor torque divided by that of the plant
    root_inertias: Matrix  # (m, 10) inertia of the first body, see `kinematic_tree.INERTIA`
    weights: Vector  # (m,) weight of the robot [N]
    allowed_work: Vector  # (m,) positive work that a contact may do in a step [J]


class LaneCommands(NamedTuple):
    """Commands of m lanes for T periods; k and l are m, or 1 if all lanes have the same command, for each array.

    Without PD targets `positions`, `velocities`, `stiffness` and `damping` have no rows.
    """

    torques: Tensor  # (k, T, nu) torques, in addition to those of PD targets [N m or N]
    positions: Matrix  # (l, nu) desired joint positions [rad or m]
    velocities: Matrix  # (l, nu) desired joint velocities [rad/s or m/s]
    stiffness: Matrix  # (l, nu) gains [N m/rad or N/m]
    damping: Matrix  # (l, nu) gains [N m s/rad or N s/m]
    steps_per_period: int  # steps for which each row of `torques` is commanded


class LaneLayout(NamedTuple):
    """Indices and nominal values that are the same for all lanes."""

    groups: IntVector  # (s,) entry of `LaneStates.forces` to which each sphere belongs
    positions: IntVector  # (nu,) entry of q of each motor's joint
    is_continuous: ByteVector  # (nu,) whether that joint is continuous, with (cos, sin) in q
    max_torque: Vector  # (nu,) maximum motor torque of the plant [N m or N]
    planes: IntVector  # surfaces without a friction coefficient
    boxes: IntVector  # likewise
    fields: IntVector  # likewise
    command: Vector  # (nu,) scratch: torques commanded in a step


class LaneCursor(Record):
    """Progress of `run_lanes`, so that it can continue after an interruption for work in Python."""

    lane: int  # lane that is being stepped
    is_loaded: bool  # whether its state is in the memory of the plant
    period: int  # row of `LaneCommands.torques`
    step: int  # step of this period
    required_contacts: int  # contacts for which lanes need memory


class LaneData(NamedTuple):
    """States, parameters and commands of m lanes."""

    states: LaneStates  # states of the lanes
    parameters: LaneParameters  # parameters in which they differ
    layout: LaneLayout  # indices and nominal values that are the same for all lanes
    commands: LaneCommands  # commands of the lanes
    cursor: LaneCursor  # progress of the run


def make_lane_states(m: int, robot: Robot, drives: Drives, n_groups: int) -> LaneStates:
    """Returns m lanes with zero states."""
    zeros, integer, byte = np.zeros, np.int64, np.int8
    n_offsets = robot.nu if len(drives.backlash_motors) else 0
    c = INITIAL_CONTACTS
    return LaneStates(
        zeros((m, robot.nq)), zeros((m, robot.nv)), zeros((m, robot.nv)), zeros((m, robot.nu)), zeros((m, 6)), zeros(m),
        zeros(m, byte), zeros(m, byte), zeros(m, byte), zeros(m, integer), zeros(m, integer), zeros((m, n_groups, 3)),
        zeros((m, n_offsets)), zeros((m, n_offsets)), zeros((m, len(drives.delay.torques), robot.nu)),
        zeros(m, integer), zeros(m, integer), zeros((m, c), integer), zeros((m, c, 3)),
    )  # fmt: skip


def reset_lanes(lanes: LaneStates, rows: NDArray[np.bool_] | slice, drives: Drives) -> None:
    """Clears everything in `rows` that depends on earlier steps; ``lanes.q`` and ``lanes.v`` are set before."""
    for array in (
        lanes.tau, lanes.work, lanes.residual, lanes.status, lanes.was_in_flight, lanes.has_diverged, lanes.n_steps,
        lanes.n_inaccurate, lanes.forces, lanes.offset, lanes.delay_buffer, lanes.buffer_row, lanes.n_contacts,
    ):  # fmt: skip
        array[rows] = 0
    lanes.v_previous[rows] = lanes.v[rows]
    if lanes.speed.shape[1]:
        lanes.speed[rows] = lanes.v[rows][:, drives.actuated]


def with_contact_capacity(lanes: LaneStates, capacity: int) -> LaneStates:
    """Returns the lanes with memory for more contacts each."""
    old = lanes.keys.shape[1]
    keys = np.zeros((len(lanes.keys), capacity), dtype=np.int64)
    impulses = np.zeros((len(lanes.keys), capacity, 3))
    keys[:, :old], impulses[:, :old] = lanes.keys, lanes.impulses
    return lanes._replace(keys=keys, impulses=impulses)


def make_lane_parameters(m: int, model: StepModel, friction: float) -> LaneParameters:
    """Returns the parameters of the plant for m lanes."""
    return LaneParameters(
        np.full(m, friction), np.ones(m), np.tile(model.bodies.root_inertia, (m, 1)), np.full(m, model.weight),
        np.full(m, model.law.allowed_work),
    )  # fmt: skip


def make_lane_layout(robot: Robot, terrain: Terrain, groups: NDArray[np.int64], max_torque: Vector) -> LaneLayout:
    """Returns the indices that `run_lanes` needs, for spheres in these `groups`."""
    joints = JointPositions.actuated(robot)
    unspecified: dict[str, list[int]] = {"plane": [], "box": [], "field": []}
    counts = dict.fromkeys(unspecified, 0)
    for surface in terrain.surfaces:
        kind = "plane" if isinstance(surface, Plane) else "box" if isinstance(surface, BoxSurface) else "field"
        if surface.friction is None:
            unspecified[kind].append(counts[kind])
        counts[kind] += 1
    planes, boxes, fields = (np.array(rows, dtype=np.int64) for rows in unspecified.values())
    return LaneLayout(
        groups, joints.at.astype(np.int64), joints.turning.astype(np.int8), max_torque.copy(), planes, boxes, fields,
        np.zeros(robot.nu),
    )  # fmt: skip


def make_ball_inertia(body: pin.Inertia, mass: float, position: NDArray[np.float64]) -> pin.Inertia:
    """Returns the inertia of a body with a point mass [kg] at a position (3,) in its axes [m]."""
    return body + pin.Inertia(mass, position, np.zeros((3, 3)))


@compiled()
def load_lane(i: int, data: LaneData, plant: PlantData) -> None:
    """Sets the memory of a plant to the state of lane i, and the parameters of its model and motors to those of i."""
    lanes, parameters, layout = data.states, data.parameters, data.layout
    model, motors, memory, contacts = plant.model, plant.motors, plant.memory, plant.contacts
    drives, progress, work, terrain = memory.drives, memory.progress, memory.work, model.terrain
    memory.q[:] = lanes.q[i]
    memory.v[:] = lanes.v[i]
    memory.v_previous[:] = lanes.v_previous[i]
    work.actuators, work.joints, work.contacts = lanes.work[i, 0], lanes.work[i, 1], lanes.work[i, 2]
    work.pushes, work.corrections, work.energy_gain = lanes.work[i, 3], lanes.work[i, 4], lanes.work[i, 5]
    clear_totals(memory.total)
    memory.total.residual = lanes.residual[i]
    progress.phase, progress.terms_are_current = StepPhase.NOT_STARTED, False
    progress.was_in_flight = lanes.was_in_flight[i] != 0
    progress.n_contacts, progress.status = lanes.n_contacts[i], ContactStatus(lanes.status[i])
    if lanes.offset.shape[1] > 0:
        drives.offset[:] = lanes.offset[i]
        drives.speed[:] = lanes.speed[i]
    for row in range(len(drives.delay.torques)):
        drives.delay.torques[row] = lanes.delay_buffer[i, row]
    drives.delay.row = lanes.buffer_row[i]
    contacts.stored.n_contacts = lanes.n_contacts[i]
    for p in range(lanes.n_contacts[i]):
        contacts.keys[p] = lanes.keys[i, p]
        contacts.world_impulses[p] = lanes.impulses[i, p]
    for p in range(len(layout.planes)):
        terrain.planes[layout.planes[p], 4] = parameters.friction[i]
    for p in range(len(layout.boxes)):
        terrain.boxes[layout.boxes[p], 15] = parameters.friction[i]
    for p in range(len(layout.fields)):
        terrain.fields[layout.fields[p], 7] = parameters.friction[i]
    for j in range(len(motors.max_torque)):
        motors.max_torque[j] = parameters.strength[i] * layout.max_torque[j]
    model.bodies.root_inertia[:] = parameters.root_inertias[i]


@compiled()
def with_lane_weight(i: int, plant: PlantData, parameters: LaneParameters) -> PlantData:
    """Returns the plant with the weight and the permitted work of contacts of lane i."""
    model, law = plant.model, plant.model.law
    lane_model = StepModel(
        model.bodies, model.actuated, model.sphere_centers, model.radii, model.joints, model.last_rows, model.last_dofs,
        model.clusters, model.cluster_spheres, model.terrain, model.stops,
        ContactLaw(
            law.dt, law.closing_time, law.contact_distance, law.slop, law.recovery_fraction, law.recovery_speed,
            law.stiffness, law.damping, law.creep, law.stiction_speed, law.tolerance,
            parameters.allowed_work[i],
        ),
        model.is_adaptive, model.rk4_in_flight, model.has_free_root, parameters.weights[i], model.divergence_speed,
    )  # fmt: skip
    return PlantData(
        lane_model, plant.motors, plant.pushes, plant.terms, plant.memory, plant.motion, plant.contacts,
        plant.accumulated,
    )  # fmt: skip


@compiled()
def compute_lane_command(
    i: int, period: int, commands: LaneCommands, layout: LaneLayout, drives: Drives, q: Vector, v: Vector
) -> None:
    """Computes the torques commanded to lane i at q and v into ``layout.command``: ``tau + kp (q* - q) + kd (v* - v)``.

    Positions and velocities are those of the motors, and continuous joints take the shorter way, as in `MotorCommand`.
    """
    out = layout.command
    out[:] = commands.torques[i if len(commands.torques) > 1 else 0, period]
    if len(commands.positions) > 0:
        row = i if len(commands.positions) > 1 else 0
        velocity_row = i if len(commands.velocities) > 1 else 0
        stiffness_row = i if len(commands.stiffness) > 1 else 0
        damping_row = i if len(commands.damping) > 1 else 0
        for j in range(len(out)):
            at = layout.positions[j]
            position = q[at] if layout.is_continuous[j] == 0 else math.atan2(q[at + 1], q[at])
            error = commands.positions[row, j] - (position + drives.offset[j])
            if layout.is_continuous[j] != 0:
                error -= 2.0 * math.pi * math.floor((error + math.pi) / (2.0 * math.pi))
            out[j] += commands.stiffness[stiffness_row, j] * error
            out[j] += commands.damping[damping_row, j] * (commands.velocities[velocity_row, j] - v[drives.actuated[j]])
        for p in range(len(drives.backlash_motors)):
            j = drives.backlash_motors[p]
            out[j] -= commands.damping[damping_row, j] * (drives.speed[j] - v[drives.actuated[j]])


@compiled()
def store_lane(i: int, data: LaneData, plant: PlantData) -> None:
    """Writes the state of a plant to lane i, which has memory for its contacts."""
    lanes, layout, memory, contacts, dt = data.states, data.layout, plant.memory, plant.contacts, plant.model.law.dt
    drives, progress, work = memory.drives, memory.progress, memory.work
    lanes.q[i] = memory.q
    lanes.v[i] = memory.v
    lanes.v_previous[i] = memory.v_previous
    lanes.work[i, 0], lanes.work[i, 1], lanes.work[i, 2] = work.actuators, work.joints, work.contacts
    lanes.work[i, 3], lanes.work[i, 4], lanes.work[i, 5] = work.pushes, work.corrections, work.energy_gain
    lanes.residual[i] = memory.total.residual
    lanes.was_in_flight[i], lanes.status[i] = 1 if progress.was_in_flight else 0, progress.status
    lanes.n_steps[i] += progress.n_steps
    lanes.n_inaccurate[i] += progress.n_inaccurate
    if progress.n_steps > 0:
        lanes.tau[i] = drives.delivered
    if lanes.offset.shape[1] > 0:
        lanes.offset[i] = drives.offset
        lanes.speed[i] = drives.speed
    for row in range(len(drives.delay.torques)):
        lanes.delay_buffer[i, row] = drives.delay.torques[row]
    lanes.buffer_row[i] = drives.delay.row
    for g in range(lanes.forces.shape[1]):
        lanes.forces[i, g] = 0.0
    lanes.n_contacts[i] = progress.n_contacts
    for p in range(progress.n_contacts):
        lanes.keys[i, p] = contacts.keys[p]
        lanes.impulses[i, p] = contacts.world_impulses[p]
        sphere = contacts.collisions.spheres[p]
        if sphere >= 0:
            for a in range(3):
                lanes.forces[i, layout.groups[sphere], a] += contacts.world_impulses[p, a] / dt


@compiled()
def is_finite(x: Vector) -> bool:
    """Returns whether all entries of a vector are finite."""
    size = 0.0
    for k in range(len(x)):
        size += abs(x[k])
    return math.isfinite(size)


@compiled(inline=False)
def run_lane(i: int, plant: PlantData, lanes: LaneData, states: Tensor) -> int:
    """Takes all commanded steps of lane i, as `run_lanes`, or continues where the last call for it returned early.

    Returns:
        `StepResult.DONE`, or what the caller must provide before the next call; the lane is then unchanged.
    """
    memory, contacts = plant.memory, plant.contacts
    present, layout, commands, cursor = lanes.states, lanes.layout, lanes.commands, lanes.cursor
    progress, nq, n_periods, steps_per_period = (
        memory.progress, len(memory.q), commands.torques.shape[1], commands.steps_per_period,
    )  # fmt: skip
    if not cursor.is_loaded:
        if present.n_contacts[i] > len(contacts.keys):
            progress.required_capacity = present.n_contacts[i]
            return StepResult.NEEDS_CAPACITY
        load_lane(i, lanes, plant)
        begin_run(memory)
        cursor.is_loaded, cursor.period, cursor.step = True, 0, 0
    lane_plant = with_lane_weight(i, plant, lanes.parameters)
    while cursor.period < n_periods and present.has_diverged[i] == 0:
        if progress.phase == StepPhase.NOT_STARTED:
            compute_lane_command(i, cursor.period, commands, layout, memory.drives, memory.q, memory.v)
        result: int = StepResult.DIVERGED
        if is_finite(layout.command):
            result = take_step(lane_plant, layout.command)
        if result == StepResult.DIVERGED:
            present.has_diverged[i] = 1
            clear_last_step(memory, contacts)
        elif result != StepResult.DONE:
            return result
        else:
            cursor.step += 1
            if cursor.step == steps_per_period:
                if len(states) > 0:
                    states[i, cursor.period, :nq] = memory.q
                    states[i, cursor.period, nq:] = memory.v
                cursor.step = 0
                cursor.period += 1
    if progress.n_contacts > present.keys.shape[1]:
        cursor.required_contacts = progress.n_contacts
        return StepResult.NEEDS_LANE_CAPACITY
    if len(states) > 0:
        for period in range(cursor.period, n_periods):
            states[i, period, :nq] = memory.q
            states[i, period, nq:] = memory.v
    store_lane(i, lanes, plant)
    cursor.is_loaded = False
    return StepResult.DONE


@compiled(inline=False)
def step_lane(i: int, plant: PlantData, lanes: LaneData, states: Tensor, results: IntVector) -> None:
    """Takes all commanded steps of lane i in a memory that is only for this lane; see `quaddyn.compiler.lane_kernels`.

    Args:
        i: number of the lane.
        plant: as for `run_lanes`.
        lanes: as for `run_lanes`.
        states: as for `run_lanes`.
        results: (m,) receives the `StepResult`; a lane whose result is not `DONE` is unchanged, and needs `run_lanes`.
    """
    lanes.cursor.is_loaded = False
    results[i] = run_lane(i, plant, lanes, states)


@entry(
    "the contact simulation of batches",
    release=True,
    callees=separate_functions,
)
def run_lanes(plant: PlantData, lanes: LaneData, states: Tensor, resume: bool) -> int:
    """Takes all commanded steps of m lanes, one lane after the other, in the memory of one plant.

    A lane that has diverged is not stepped. One that diverges, or whose command is not finite, keeps its last valid
    state.

    Args:
        plant: data and memory of the plant; its memory, limits of the motors, friction of the terrain, and inertia of
            the first body are those of the last lane afterwards.
        lanes: states, parameters and commands of the lanes.
        states: (m, T, nq + nv) receives q and v after each period; (0, ...) if they are not needed. Rows of steps that
            were not taken repeat the last state.
        resume: whether to continue where the last call returned early.

    Returns:
        `StepResult.DONE`, or what the caller must provide before the next call.
    """
    cursor = lanes.cursor
    if not resume:
        cursor.lane, cursor.is_loaded = 0, False
    while cursor.lane < len(lanes.states.q):
        result: int = run_lane(cursor.lane, plant, lanes, states)
        if result != StepResult.DONE:
            return result
        cursor.lane += 1
    return StepResult.DONE


class SteppedPlant(Protocol):
    """What `LaneWorker` needs of a `Simulation`: the constant data of a plant, and the memory of its step."""

    robot: Robot
    dt: float
    terrain: Terrain
    actuators: Actuators
    spheres: tuple[str, ...]
    _link_of_sphere: dict[str, str | None]
    _reported_names: tuple[str, ...]
    _step_model: StepModel
    _drives: Drives
    _terms: StepTerms
    _memory: StepMemory
    _motion: StepDynamics
    _contacts: SphereContacts
    _accumulated: SubstepContacts
    _no_pushes: PointForces
    _active_pushes: PointForces

    @property
    def friction(self) -> float:
        """Friction coefficient of surfaces without a coefficient."""

    def _make_buffers(self, n: int) -> tuple[SphereContacts, SubstepContacts]:
        """Returns buffers for n contacts."""

    def _warn_of_penetration(self, q: Array, *, argument: str = "q", stacklevel: int) -> None:
        """Warns if a contact sphere is deep in the ground in q (nq,); at most once."""

    def _plant_data(self) -> PlantData:
        """Returns data and memory of the plant."""

    def _run_resuming(self, call: Callable[[bool], int]) -> bool:
        """Calls compiled code until all its steps are taken."""


@dataclass(slots=True, eq=False)
class LaneBlock:
    """Lanes that one call of compiled code steps; they have memory for equally many contacts."""

    states: LaneStates  # states of the lanes
    parameters: LaneParameters  # parameters of the lanes


class LaneWorker:
    """Simulation whose memory steps lanes, one after the other.

    Args:
        simulation: the simulation; a call of `run` leaves it in the state of the last lane.

    Attributes:
        simulation: the simulation.
        links: names of the links with contact spheres that are not in ``simulation.spheres``.
    """

    __slots__ = ("_cursor", "_layout", "_motors", "_nominal", "links", "simulation")

    def __init__(self, simulation: SteppedPlant) -> None:
        self.simulation = simulation
        link_of_sphere = simulation._link_of_sphere
        links = (link_of_sphere[name] for name in simulation._reported_names)
        self.links = tuple(dict.fromkeys(link for link in links if link is not None))
        groups = []
        for name in simulation._reported_names:
            link = link_of_sphere[name]
            n_named = len(simulation.spheres)
            groups.append(simulation.spheres.index(name) if link is None else n_named + self.links.index(link))
        limits = simulation.actuators.torque_speed_limits
        self._motors = limits._replace(max_torque=limits.max_torque.copy())
        self._layout = make_lane_layout(
            simulation.robot, simulation.terrain, np.array(groups, dtype=np.int64), limits.max_torque
        )
        self._nominal = make_lane_parameters(1, simulation._step_model, simulation.friction)
        self._cursor = LaneCursor.allocate()

    def make_block(self, q: Array, v: Array) -> LaneBlock:
        """Returns m lanes with the parameters of the simulation, at time 0 in the states q (m, nq) and v (m, nv)."""
        simulation, m = self.simulation, len(q)
        states = make_lane_states(m, simulation.robot, simulation._drives, len(simulation.spheres) + len(self.links))
        states.q[:], states.v[:] = q, v
        reset_lanes(states, slice(None), simulation._drives)
        return LaneBlock(states, LaneParameters._make(np.repeat(array, m, axis=0) for array in self._nominal))

    def run(self, block: LaneBlock, commands: LaneCommands, states: NDArray[np.float64]) -> None:
        """Takes all commanded steps of the lanes; see `run_lanes`.

        Raises:
            ArgumentError: a lane has more than `MAX_CONTACTS` contacts at once.
        """
        simulation = self.simulation

        def call(resume: bool) -> int:
            while True:
                plant = simulation._plant_data()._replace(motors=self._motors, pushes=simulation._no_pushes)
                lanes = LaneData(block.states, block.parameters, self._layout, commands, self._cursor)
                result = run_lanes(plant, lanes, states, resume)
                if result != StepResult.NEEDS_LANE_CAPACITY:
                    return int(result)
                block.states = with_contact_capacity(block.states, 2 * self._cursor.required_contacts)
                resume = True

        simulation._active_pushes = simulation._no_pushes
        simulation._run_resuming(call)
