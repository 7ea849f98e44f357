"""Data of a time step with contacts: contact law, model, state, dynamics and contacts; for compiled code.

Joints near the limits of their range are part of it.  A stop is an inelastic contact without friction: the joint may
reach its limit and stay there, but not pass it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..compiler import ByteVector, IntVector, Matrix, Record, Vector, compiled
from ..contact.solvers.frictional_core import ContactWorkspace as SolverWorkspace
from ..contact.solvers.frictional_core import make_contact_workspace as solver_workspace
from ..dynamics.kinematic_tree import KinematicTree
from ..robot.robot import Robot
from .actuators import Drives
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
