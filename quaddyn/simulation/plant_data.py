"""`PlantData`: all arrays and records that compiled time stepping reads and writes.

`StepMemory`: state of a plant and of a step in progress, so that an interrupted step can be continued.

Contacts of a step that is split into substeps, whose impulses are summed; compiled.
"""

from __future__ import annotations

import enum
import math
from typing import NamedTuple

import numpy as np

from ..compiler import IntVector, Matrix, Record, Vector, compiled
from ..compiler.lane_memory import replace_arrays, share_memory
from ..dynamics.kinematic_tree import PointForces
from .actuators import Drives, TorqueSpeedLimits
from .contact_data import SphereContacts, StepDynamics, StepModel, make_collision_buffer
from .terms import Energies, StepTerms
from .terrain import CollisionBuffer


class StepResult(enum.IntEnum):
    """Result of `run_steps`: all steps are taken, the motion diverged, or what the caller must provide to continue."""

    DONE = 0
    NEEDS_CONTACT_SOLVER = 1  # impulses of `StepProgress.n_contacts` contacts
    NEEDS_CAPACITY = 2  # buffers for `StepProgress.required_capacity` contacts
    NEEDS_RK4_STEP = 3  # result of a Runge-Kutta step
    DIVERGED = 4
    NEEDS_LANE_CAPACITY = 5  # memory of lanes for `LaneCursor.required_contacts` contacts


class ContactStatus(enum.IntEnum):
    """Status of a contact solve, from best to worst; see `Simulation.status`."""

    FREE = 0
    SOLVED = 1
    PASSIVE = 2
    RETRIED = 3
    INACCURATE = 4


class StepPhase(enum.IntEnum):
    """Phase of a step."""

    NOT_STARTED = 0
    FLIGHT_STEP = 1  # in flight: by the midpoint rule first
    FULL_STEP = 2  # by the semi-implicit Euler method
    SUBSTEPS = 3


class StepProgress(Record):
    """Progress of a step, so that it can be continued after `run_steps` returned early."""

    phase: StepPhase
    terms_are_current: bool  # whether the rigid-body terms are those of the present state
    was_in_flight: bool  # whether the last step was in flight
    iteration: int  # midpoint iteration
    has_help: bool  # whether the caller has provided the contact impulses or the Runge-Kutta step
    has_rk4_step: bool  # whether the caller has provided a Runge-Kutta step
    n_contacts: int  # contacts of the substep, at the end of the step those of the step
    status: ContactStatus  # likewise
    n_pending: int  # substeps pending
    n_tried: int  # substeps tried
    n_taken: int  # substeps taken
    has_pending_contacts: bool  # whether contacts of a substep are not accumulated yet
    required_capacity: int  # required capacity of the contact buffers
    n_steps: int  # steps taken
    n_inaccurate: int  # inaccurate steps among them


class StepWork(Record):
    """Work [J], of a substep, a step, or all steps since the last reset."""

    actuators: float
    joints: float
    contacts: float
    pushes: float
    corrections: float  # of penetrations
    energy_gain: float  # gain of mechanical energy that no work explains


class StepTotals(Record):
    """Results of a substep or step."""

    work: StepWork
    energy_error: float  # part of the unexplained energy gain that is an error [J]
    residual: float  # largest violation of the contact law [m/s]
    max_speed: float  # largest velocity of a joint [rad/s or m/s]


@compiled()
def add_work(total: StepWork, part: StepWork) -> None:
    """Adds the work of a part of the time to a total."""
    total.actuators += part.actuators
    total.joints += part.joints
    total.contacts += part.contacts
    total.pushes += part.pushes
    total.corrections += part.corrections
    total.energy_gain += part.energy_gain


@compiled()
def clear_totals(totals: StepTotals) -> None:
    """Sets all results to zero."""
    work = totals.work
    work.actuators, work.joints, work.contacts, work.pushes, work.corrections, work.energy_gain = (
        0.0, 0.0, 0.0, 0.0, 0.0, 0.0,
    )  # fmt: skip
    totals.energy_error, totals.residual, totals.max_speed = 0.0, 0.0, 0.0


class StepMemory(NamedTuple):
    """State of a plant, and of a step in progress.

    A step consists of one or several substeps; "start" and "end" below are those of the present substep.
    """

    q: Vector  # (nq,) configuration at the start of the step
    v: Vector  # (nv,) velocity there
    v_previous: Vector  # (nv,) velocity one step earlier
    work: StepWork  # work since the last reset
    progress: StepProgress  # progress of the step
    tau: Vector  # (nu,) motor torques of the step [N m or N]
    external: Vector  # (nv,) generalized forces of pushes
    step_start: Energies  # energies and powers at the start of the step
    at_start: Energies  # energies and powers at the start of the substep
    at_end: Energies  # energies and powers at its end
    substep: StepTotals  # work, energy error, residual and speed of the substep
    total: StepTotals  # work, energy error, residual and speed of the step
    pending_lengths: Vector  # (16,) lengths of the substeps still to be taken, the next one last [s]
    q_start: Vector  # (nq,) configuration at the start
    v_start: Vector  # (nv,) velocity at the start
    v_previous_substep: Vector  # (nv,) velocity one substep length before the start
    q_middle: Vector  # (nq,) configuration at the middle
    v_middle: Vector  # (nv,) velocity at the middle
    # (nv,) velocity one substep length before the start for which the extrapolated velocity is that of the last
    # iteration
    v_mirrored: Vector
    v_last_iteration: Vector  # (nv,) velocity at the end in the last iteration
    displacement: Vector  # (nv,) tangent vector from `q_start` or `q_middle` to the next configuration
    q_end: Vector  # (nq,) configuration at the end
    v_end: Vector  # (nv,) velocity at the end
    drives: Drives  # state of the motors


def make_step_memory(nq: int, nv: int, drives: Drives) -> StepMemory:
    """Returns the memory for a robot with nq, nv and these motors."""
    zeros = np.zeros
    return StepMemory(
        zeros(nq), zeros(nv), zeros(nv), StepWork.allocate(), StepProgress.allocate(), zeros(len(drives.actuated)),
        zeros(nv), Energies.allocate(), Energies.allocate(), Energies.allocate(), StepTotals.allocate(),
        StepTotals.allocate(), zeros(16), zeros(nq), zeros(nv), zeros(nv), zeros(nq), zeros(nv), zeros(nv), zeros(nv),
        zeros(nv), zeros(nq), zeros(nv), drives,
    )  # fmt: skip


class SubstepSummary(Record):
    """Number and worst status of the contacts of all substeps of a step."""

    n_contacts: int  # number of stored contacts
    worst_status: ContactStatus  # worst result of their solves


class SubstepContacts(NamedTuple):
    """Up to n contacts of all substeps of a step."""

    collisions: CollisionBuffer  # geometry of each contact in the last substep that had it
    centers: Matrix  # (n, 3) sphere centers there [m]
    world_impulses: Matrix  # (n, 3) sum of the impulses of all substeps, world axes [N s]
    keys: IntVector  # (n,) identifier of each contact
    summary: SubstepSummary  # number of contacts, and the worst status of a substep


def make_substep_buffers(n: int) -> SubstepContacts:
    """Returns empty buffers for n contacts."""
    return SubstepContacts(
        make_collision_buffer(n), np.zeros((n, 3)), np.zeros((n, 3)), np.zeros(n, np.int64), SubstepSummary.allocate()
    )


@compiled()
def find_contact(key: int, accumulated: SubstepContacts) -> int:
    """Returns the index of the contact `key`, or the number of contacts if there is none."""
    for p in range(accumulated.summary.n_contacts):
        if accumulated.keys[p] == key:
            return p
    count: int = accumulated.summary.n_contacts
    return count


@compiled()
def copy_contact(a: CollisionBuffer, i: int, b: CollisionBuffer, j: int) -> None:
    """Copies contact i of `a` to entry j of `b`, without its normal."""
    b.gaps[j], b.friction[j], b.spheres[j], b.surfaces[j] = a.gaps[i], a.friction[i], a.spheres[i], a.surfaces[i]


#: Weight of the normal of a contact without force among those of its substeps [N s].
MIN_NORMAL_WEIGHT = 1e-12


@compiled(inline=False)
def accumulate_contacts(k: int, status: int, contacts: SphereContacts, accumulated: SubstepContacts) -> bool:
    """Adds the k contacts of a substep; returns False, and changes nothing, if the buffers are too small.

    The normal of a sphere that moves around an edge turns between substeps.  The sum of impulses that are in their
    friction cones is in the cone about the sum of the normals, weighted by the normal impulses, if they turn about the
    direction of the edge; `accumulated` contains this sum.
    """
    new, summary = 0, accumulated.summary
    for i in range(k):
        if find_contact(contacts.keys[i], accumulated) == summary.n_contacts:
            new += 1
    if summary.n_contacts + new > len(accumulated.keys):
        return False
    summary.worst_status = ContactStatus(max(summary.worst_status, status))
    for i in range(k):
        p: int = find_contact(contacts.keys[i], accumulated)
        if p == summary.n_contacts:
            summary.n_contacts += 1
            accumulated.keys[p] = contacts.keys[i]
            for a in range(3):
                accumulated.world_impulses[p, a], accumulated.collisions.normals[p, a] = 0.0, 0.0
        weight, impulse, normal = MIN_NORMAL_WEIGHT, contacts.world_impulses[i], contacts.collisions.normals[i]
        for a in range(3):
            weight += impulse[a] * normal[a]
        for a in range(3):
            accumulated.world_impulses[p, a] += impulse[a]
            accumulated.collisions.normals[p, a] += max(weight, MIN_NORMAL_WEIGHT) * normal[a]
        copy_contact(contacts.collisions, i, accumulated.collisions, p)
        if contacts.collisions.spheres[i] >= 0:  # not a joint's stop
            accumulated.centers[p] = contacts.centers[contacts.collisions.spheres[i]]
    return True


@compiled(inline=False)
def publish_step(accumulated: SubstepContacts, contacts: SphereContacts) -> tuple[int, ContactStatus]:
    """Copies the accumulated contacts to `contacts`; returns their number and the worst solver status."""
    count, normals = accumulated.summary.n_contacts, accumulated.collisions.normals
    for p in range(count):
        contacts.keys[p] = accumulated.keys[p]
        contacts.world_impulses[p] = accumulated.world_impulses[p]
        copy_contact(accumulated.collisions, p, contacts.collisions, p)
        x, y, z = normals[p, 0], normals[p, 1], normals[p, 2]
        length = math.sqrt(x * x + y * y + z * z)
        for a in range(3):  # opposite normals may add up to zero
            contacts.collisions.normals[p, a] = normals[p, a] / length if length > 0.0 else 0.0
        if accumulated.collisions.spheres[p] >= 0:
            contacts.centers[accumulated.collisions.spheres[p]] = accumulated.centers[p]
    contacts.stored.n_contacts = count
    return count, accumulated.summary.worst_status


class PlantData(NamedTuple):
    """Data and memory of a plant."""

    model: StepModel  # data that do not change from step to step
    motors: TorqueSpeedLimits  # torque-speed limits of the motors
    pushes: PointForces  # external forces, constant over all steps of a call
    terms: StepTerms  # rigid-body terms, overwritten
    memory: StepMemory  # state of the plant and progress of the step
    motion: StepDynamics  # dynamics and work of a substep, overwritten
    contacts: SphereContacts  # contacts of a substep, at the end of a step those of the step
    accumulated: SubstepContacts  # contacts of the substeps of a step, overwritten


def with_shared_memory(plant: PlantData) -> PlantData:
    """Returns a plant in which arrays that are not needed at the same time of a step share memory, for lanes on a GPU.

    The factor of the inertia is its lower triangle, below the upper triangle M.  The other arrays are needed for the
    energies, for the bias forces, from the contact Jacobian to the end velocity, and for the end configuration.
    """
    terms, contacts, L = plant.terms, plant.contacts, plant.motion.L
    triangles = np.zeros((len(L) + 1, len(L)))
    plant = replace_arrays(plant, {id(terms.M): triangles[:-1], id(L): triangles[1:]})
    return share_memory(
        plant,
        [terms.composite_inertias],
        [terms.velocities, terms.accelerations, terms.forces],
        [contacts.Y, contacts.G, contacts.solver.system],
        [plant.memory.displacement],
    )
