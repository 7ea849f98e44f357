"""`PlantData`: all arrays and records that compiled time stepping reads and writes, and their constant data.

`StepMemory`: state of a plant and of a step in progress, so that an interrupted step can be continued.

`StepModel`: contact law, contact spheres, terrain and joint stops.  A stop is an inelastic contact without friction:
the joint may reach its limit and stay there, but not pass it.

Contacts of a step that is split into substeps, whose impulses are summed; compiled.
"""

from __future__ import annotations

import enum
import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..compiler import ByteVector, IntVector, Matrix, Record, Vector, compiled
from ..compiler.lane_memory import replace_arrays, share_memory
from ..contact.solvers.frictional_core import ContactWorkspace as SolverWorkspace
from ..contact.solvers.frictional_core import make_contact_workspace as solver_workspace
from ..dynamics.kinematic_tree import KinematicTree, PointForces
from ..robot.robot import Robot
from .actuators import Drives, TorqueSpeedLimits
from .terms import Energies, StepTerms
from .terrain import CollisionBuffer, TerrainArrays


class JointStops(NamedTuple):
    """Finite position limits of the joints."""

    q: IntVector  # (n,) entry of q of each limit
    v: IntVector  # (n,) entry of v
    sides: Vector  # (n,) 1 for a lower limit, -1 for an upper one
    ends: Vector  # (n,) limit [rad or m]


def make_joint_stops(robot: Robot, *, enabled: bool = True) -> JointStops:
    """Returns all finite position limits of a robot's joints; none unless `enabled`."""
    limits = [
        (q, v, side, ends[q])
        for v, (q, entries) in robot.one_dof_joints.items()
        if enabled and entries == 1
        for side, ends in ((1.0, robot.lower), (-1.0, robot.upper))
        if np.isfinite(ends[q])
    ]
    table = np.array(limits, dtype=np.float64).reshape(-1, 4)
    q, v = table[:, :2].astype(np.int64).T
    return JointStops(q.copy(), v.copy(), table[:, 2].copy(), table[:, 3].copy())


@compiled()
def find_joint_stops(
    stops: JointStops, q: Vector, v: Vector, reach: float, dt: float, contacts: CollisionBuffer, k: int
) -> int:
    """Adds contacts for stops that a joint could reach within dt [s], or is closer to than `reach`, after k contacts.

    Stop j is entered as sphere -1 - j, without friction.

    Returns:
        The number of contacts; those that exceed the capacity are not written.
    """
    for j in range(len(stops.q)):
        gap = stops.sides[j] * (q[stops.q[j]] - stops.ends[j])
        if gap < reach + dt * abs(v[stops.v[j]]):
            if k < len(contacts.gaps):
                contacts.gaps[k], contacts.friction[k], contacts.spheres[k], contacts.surfaces[k] = gap, 0.0, -1 - j, 0
                for a in range(3):
                    contacts.normals[k, a] = 0.0
            k += 1
    return k


class ContactLaw(NamedTuple):
    """Parameters of contacts and joint friction."""

    dt: float  # time step [s]
    closing_time: float  # part of the time step during which positions advance with the new velocity [s]
    contact_distance: float  # gap below which a sphere takes part in the contact problem [m]
    slop: float  # penetration that is not corrected [m]
    recovery_fraction: float  # fraction of the remaining penetration that is corrected per step
    recovery_speed: float  # maximum speed of the correction [m/s]
    stiffness: float  # stiffness of the ground [N/m], inf for rigid ground
    damping: float  # damping of the ground [N s/m]
    creep: float  # tangential velocity of a sticking contact per tangential force, on compliant ground [m/s/N]
    stiction_speed: float  # joint speed below which Coulomb friction becomes viscous [rad/s or m/s]
    tolerance: float  # residual up to which a contact solution is accepted [m/s]; negative to skip the compiled solver
    allowed_work: float  # positive work that a contact may do in a step [J]


class StepModel(NamedTuple):
    """Data of a plant that do not change from step to step."""

    bodies: KinematicTree  # kinematic tree of the robot
    actuated: IntVector  # (nu,) degrees of freedom with a motor
    sphere_centers: Matrix  # (s, 3) sphere centers in the frames of their joints [m]
    radii: Vector  # (s,) radii of the spheres [m]
    joints: IntVector  # (s,) joint that carries each sphere
    # (s,) last row of `PlacedJoints.J` on the path from the root to each sphere, -1 for a fixed sphere
    last_rows: IntVector
    last_dofs: IntVector  # (s,) last degree of freedom on this path, -1 likewise; the last of all if joints are coupled
    clusters: IntVector  # (c,) index after the last sphere of each cluster; the spheres of a cluster are on one joint
    cluster_spheres: Matrix  # (c, 4) bounding sphere of each cluster: center in the frame of its joint and radius [m]
    terrain: TerrainArrays  # surfaces of the terrain
    stops: JointStops  # position limits of the joints
    law: ContactLaw  # contact law of a full step
    is_adaptive: bool  # whether steps whose energy balance does not hold are repeated
    rk4_in_flight: bool  # whether steps without contact are integrated by the Runge-Kutta method, in Python
    has_free_root: bool  # whether the root is free, so that gravity accelerates a robot without contacts as a whole
    weight: float  # weight of the robot [N]
    divergence_speed: float  # speed above which a motion has diverged [rad/s or m/s]


class StepState(NamedTuple):
    """State at the start of a step or substep."""

    q: Vector  # (nq,) configuration of the rigid-body terms
    v: Vector  # (nv,) velocity
    v_previous: Vector  # (nv,) velocity one step length earlier
    tau: Vector  # (nu,) motor torques [N m or N]
    external: Vector  # (nv,) generalized forces of pushes
    drives: Drives  # state of the motors, with the friction of the joints


class StepReport(Record):
    """Results of a step besides its velocity."""

    max_speed: float  # largest velocity of a joint [rad/s or m/s]
    residual: float  # of the contact law [m/s]
    has_rebound: bool  # whether a contact was solved as rebounding


class StepDynamics(NamedTuple):
    """Dynamics of a step apart from the velocity at its end."""

    f: Vector  # (nv,) joint friction divided by velocity [N m s/rad or N s/m]
    L: Matrix  # (nv, nv) factor of the inertia, ``M + dt f = L^T L``
    free_velocity: Vector  # (nv,) velocity at the end of the step without contacts
    correction: Vector  # (nv,) velocity that moves positions out of the ground
    work: Vector  # (3,) work of actuators, joints and contacts [J]
    report: StepReport  # speed, residual and flags


class StoredContacts(Record):
    """Contacts of the last step whose impulses are stored."""

    n_contacts: int


class SphereContacts(NamedTuple):
    """Up to n contacts of s spheres, with the contact problem; rows 3i, 3i + 1, 3i + 2 belong to contact i."""

    collisions: CollisionBuffer  # geometry of the contacts
    centers: Matrix  # (s, 3) sphere centers [m]
    Y: Matrix  # (3n, nv) contact Jacobian times L^-1
    G: Vector  # (9 n^2,) buffer; the Delassus matrix of k contacts in its first 9 k^2 entries [1/kg]
    T: Matrix  # (3n, 3) tangents and normal of each contact, world axes
    g: Vector  # (3n,) contact velocities at the end of the step without contact impulses [m/s]
    velocities_before: Vector  # (3n,) contact velocities at the start of the step [m/s]
    impulses: Vector  # (3n,) contact impulses [N s]
    offset: Vector  # (n,) permitted normal approach speed, or minus the required separation speed [m/s]
    depart_speed: Vector  # (n,) speed at which the position correction leaves a penetration [m/s]
    world_impulses: Matrix  # (n, 3) contact impulses of the last step, world axes [N s]
    keys: IntVector  # (n,) identifiers of the contacts with `world_impulses`
    stored: StoredContacts  # number of these contacts
    target_velocities: Vector  # (3n,) scratch: velocities of the problem passed to the solver [m/s]
    velocities_after: Vector  # (3n,) scratch: contact velocities at the end of the step [m/s]
    must_rebound: ByteVector  # (n,) scratch: whether each contact is solved as rebounding
    solver: SolverWorkspace  # scratch of the solver


def make_collision_buffer(n: int) -> CollisionBuffer:
    """Returns an empty buffer for n contact points."""
    spheres, surfaces = np.zeros((2, n), dtype=np.int64)
    return CollisionBuffer(np.zeros(n), np.zeros((n, 3)), np.zeros(n), spheres, surfaces)


def make_contact_buffers(n: int, spheres: int, nv: int) -> SphereContacts:
    """Returns empty buffers for n contacts of a robot with nv degrees of freedom and a number of contact spheres."""
    n_rows, integer, zeros = 3 * n, np.int64, np.zeros
    return SphereContacts(
        make_collision_buffer(n), zeros((spheres, 3)), zeros((n_rows, nv)), zeros(n_rows * n_rows), zeros((n_rows, 3)),
        zeros(n_rows), zeros(n_rows), zeros(n_rows), zeros(n), zeros(n), zeros((n, 3)), zeros(n, dtype=integer),
        StoredContacts.allocate(), zeros(n_rows), zeros(n_rows),
        zeros(n, dtype=np.int8), solver_workspace(n),
    )  # fmt: skip


def make_step_dynamics(nv: int) -> StepDynamics:
    """Returns the dynamics of a robot at rest."""
    return StepDynamics(
        np.zeros(nv), np.zeros((nv, nv)), np.zeros(nv), np.zeros(nv), np.zeros(3), StepReport.allocate()
    )


def persistent_arrays(contacts: SphereContacts) -> tuple[NDArray[Any], ...]:
    """Returns the arrays of the contacts that later steps or properties of the plant use."""
    (count,) = contacts.stored  # the array of its field
    return (*contacts.collisions, contacts.centers, contacts.world_impulses, contacts.keys, count.reshape(1))


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
