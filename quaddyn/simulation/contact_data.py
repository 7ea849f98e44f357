"""Data of a time step with contacts: contact law, model, state, dynamics and contacts; for compiled code."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..compiler import ByteVector, IntVector, Matrix, Record, Vector
from ..contact.solvers.frictional_core import ContactWorkspace as SolverWorkspace
from ..contact.solvers.frictional_core import make_contact_workspace as solver_workspace
from ..dynamics.kinematic_tree import KinematicTree
from .drives import Drives
from .joint_stops import JointStops
from .terrain import CollisionBuffer, TerrainArrays


class ContactLaw(NamedTuple):
    """Parameters of contacts and joint friction.

    Attributes:
        dt: time step [s].
        closing_time: part of the time step during which positions advance with the new velocity [s].
        contact_distance: gap below which a sphere takes part in the contact problem [m].
        slop: penetration that is not corrected [m].
        recovery_fraction: fraction of the remaining penetration that is corrected per step.
        recovery_speed: maximum speed of the correction [m/s].
        stiffness: stiffness of the ground [N/m], inf for rigid ground.
        damping: damping of the ground [N s/m].
        creep: tangential velocity of a sticking contact per tangential force, on compliant ground [m/s/N].
        stiction_speed: joint speed below which Coulomb friction becomes viscous [rad/s or m/s].
        tolerance: residual up to which a contact solution is accepted [m/s]; negative to skip the compiled solver.
        allowed_work: positive work that a contact may do in a step [J].
    """

    dt: float
    closing_time: float
    contact_distance: float
    slop: float
    recovery_fraction: float
    recovery_speed: float
    stiffness: float
    damping: float
    creep: float
    stiction_speed: float
    tolerance: float
    allowed_work: float


class StepModel(NamedTuple):
    """Data of a plant that do not change from step to step.

    Attributes:
        bodies: kinematic tree of the robot.
        actuated: (nu,) degrees of freedom with a motor.
        sphere_centers: (s, 3) sphere centers in the frames of their joints [m].
        radii: (s,) radii of the spheres [m].
        joints: (s,) joint that carries each sphere.
        last_rows: (s,) last row of `PlacedJoints.J` on the path from the root to each sphere, -1 for a fixed sphere.
        last_dofs: (s,) last degree of freedom on this path, -1 likewise; the last of all if joints are coupled.
        clusters: (c,) index after the last sphere of each cluster; the spheres of a cluster are on one joint.
        cluster_spheres: (c, 4) bounding sphere of each cluster: center in the frame of its joint and radius [m].
        terrain: surfaces of the terrain.
        stops: position limits of the joints.
        law: contact law of a full step.
        is_adaptive: whether steps whose energy balance does not hold are repeated.
        rk4_in_flight: whether steps without contact are integrated by the Runge-Kutta method, in Python.
        has_free_root: whether the root is free, so that gravity accelerates a robot without contacts as a whole.
        weight: weight of the robot [N].
        divergence_speed: speed above which a motion has diverged [rad/s or m/s].
    """

    bodies: KinematicTree
    actuated: IntVector
    sphere_centers: Matrix
    radii: Vector
    joints: IntVector
    last_rows: IntVector
    last_dofs: IntVector
    clusters: IntVector
    cluster_spheres: Matrix
    terrain: TerrainArrays
    stops: JointStops
    law: ContactLaw
    is_adaptive: bool
    rk4_in_flight: bool
    has_free_root: bool
    weight: float
    divergence_speed: float


class StepState(NamedTuple):
    """State at the start of a step or substep.

    Attributes:
        q: (nq,) configuration of the rigid-body terms.
        v: (nv,) velocity.
        v_previous: (nv,) velocity one step length earlier.
        tau: (nu,) motor torques [N m or N].
        external: (nv,) generalized forces of pushes.
        drives: state of the motors, with the friction of the joints.
    """

    q: Vector
    v: Vector
    v_previous: Vector
    tau: Vector
    external: Vector
    drives: Drives


class StepReport(Record):
    """Results of a step besides its velocity."""

    max_speed: float  # largest velocity of a joint [rad/s or m/s]
    residual: float  # of the contact law [m/s]
    has_rebound: bool  # whether a contact was solved as rebounding


class StepDynamics(NamedTuple):
    """Dynamics of a step apart from the velocity at its end.

    Attributes:
        f: (nv,) joint friction divided by velocity [N m s/rad or N s/m].
        L: (nv, nv) factor of the inertia, ``M + dt f = L^T L``.
        free_velocity: (nv,) velocity at the end of the step without contacts.
        correction: (nv,) velocity that moves positions out of the ground.
        work: (3,) work of actuators, joints and contacts [J].
        report: speed, residual and flags.
    """

    f: Vector
    L: Matrix
    free_velocity: Vector
    correction: Vector
    work: Vector
    report: StepReport


class StoredContacts(Record):
    """Contacts of the last step whose impulses are stored."""

    n_contacts: int


class SphereContacts(NamedTuple):
    """Up to n contacts of s spheres, with the contact problem; rows 3i, 3i + 1, 3i + 2 belong to contact i.

    Attributes:
        collisions: geometry of the contacts.
        centers: (s, 3) sphere centers [m].
        Y: (3n, nv) contact Jacobian times L^-1.
        G: (9 n^2,) buffer; the Delassus matrix of k contacts in its first 9 k^2 entries [1/kg].
        T: (3n, 3) tangents and normal of each contact, world axes.
        g: (3n,) contact velocities at the end of the step without contact impulses [m/s].
        velocities_before: (3n,) contact velocities at the start of the step [m/s].
        impulses: (3n,) contact impulses [N s].
        offset: (n,) permitted normal approach speed, or minus the required separation speed [m/s].
        depart_speed: (n,) speed at which the position correction leaves a penetration [m/s].
        world_impulses: (n, 3) contact impulses of the last step, world axes [N s].
        keys: (n,) identifiers of the contacts with `world_impulses`.
        stored: number of these contacts.
        target_velocities: (3n,) scratch: velocities of the problem passed to the solver [m/s].
        velocities_after: (3n,) scratch: contact velocities at the end of the step [m/s].
        must_rebound: (n,) scratch: whether each contact is solved as rebounding.
        solver: scratch of the solver.
    """

    collisions: CollisionBuffer
    centers: Matrix
    Y: Matrix
    G: Vector
    T: Matrix
    g: Vector
    velocities_before: Vector
    impulses: Vector
    offset: Vector
    depart_speed: Vector
    world_impulses: Matrix
    keys: IntVector
    stored: StoredContacts
    target_velocities: Vector
    velocities_after: Vector
    must_rebound: ByteVector
    solver: SolverWorkspace


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
