"""What a step on contacts is computed from and into: the law, the model, the state, motion and contacts of a robot."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..compiler import ByteVector, IntVector, Matrix, Vector
from ..contact.solvers.frictional_core import Workspace as SolverWorkspace
from ..contact.solvers.frictional_core import workspace as solver_workspace
from .bodies import Bodies
from .collisions import Ground, Touching
from .drives import Drives
from .stops import Stops


class ContactLaw(NamedTuple):
    """How contacts and joint friction behave.

    Attributes:
        dt: time step [s].
        closing: of it, how long positions move on with the new velocity [s].
        reach: gap up to which a sphere takes part [m].
        slop: penetration that is left alone [m].
        recovery_share: share of the rest that is taken back in a step.
        recovery_speed: at which it is, at most [m/s].
        stiffness: of the ground [N/m], inf if it is rigid.
        damping: of the ground [N s/m].
        creep: velocity of a contact that holds per tangential force, of compliant ground [m/s/N].
        stiction: joint speed below which Coulomb friction is viscous [rad/s or m/s].
        tolerance: residual up to which a solve counts [m/s]; negative to leave out the solve.
        allowed: positive work that a contact may do [J].
    """

    dt: float
    closing: float
    reach: float
    slop: float
    recovery_share: float
    recovery_speed: float
    stiffness: float
    damping: float
    creep: float
    stiction: float
    tolerance: float
    allowed: float


class StepModel(NamedTuple):
    """What stays the same from step to step.

    Attributes:
        bodies: the robot's.
        actuated: (nu,) degrees of freedom that have a motor.
        places: (s, 3) centres of the spheres in their joints' frames [m].
        radii: (s,) [m].
        joints: (s,) joint that carries each sphere.
        last: (s,) the last row of the Jacobian that moves each sphere.
        ends: (s,) the last entry of v in line with those that move each sphere.
        clusters: (c,) spheres in turn that one joint carries: the number of the first after each cluster.
        around: (c, 4) a sphere around each cluster: centre in its joint's frame and radius [m].
        ground: the terrain.
        stops: ends of joints' ranges that hold.
        law: of contacts, for a whole step.
        adaptive: whether steps are taken again that make or lose energy.
        smooth: whether steps out of reach of the ground are left to somebody else.
        free: whether the root is, so that gravity accelerates all of a robot alike where nothing touches it.
        weight: of the robot [N].
        runaway: speed at which a motion has diverged [rad/s or m/s].
    """

    bodies: Bodies
    actuated: IntVector
    places: Matrix
    radii: Vector
    joints: IntVector
    last: IntVector
    ends: IntVector
    clusters: IntVector
    around: Matrix
    ground: Ground
    stops: Stops
    law: ContactLaw
    adaptive: bool
    smooth: bool
    free: bool
    weight: float
    runaway: float


class StepState(NamedTuple):
    """Where the step begins.

    Attributes:
        q: (nq,) configuration, that of the rigid-body terms.
        v: (nv,) velocity.
        before: (nv,) velocity one step earlier.
        tau: (nu,) torques of the motors.
        external: (nv,) generalized forces of pushes.
        drives: how they come to the joints, whose friction is there, too.
    """

    q: Vector
    v: Vector
    before: Vector
    tau: Vector
    external: Vector
    drives: Drives


class Motion(NamedTuple):
    """What a step makes of the robot, but for its velocity.

    Attributes:
        f: (nv,) joint friction over speed.
        L: (nv, nv) factor of the inertia.
        free: (nv,) velocity at the end of the step without contacts.
        correction: (nv,) velocity that takes positions out of the ground.
        work: (3,) of actuators, joints and contacts [J].
        report: (4,) see `SPEED` and what follows it.
    """

    f: Vector
    L: Matrix
    free: Vector
    correction: Vector
    work: Vector
    report: Vector


class Contacts(NamedTuple):
    """Data of up to n contacts of s spheres.

    Attributes:
        touching: where they are.
        centers: (s, 3) of the spheres [m].
        Y: (3n, nv) rows of the contacts' Jacobian times L^-1.
        G: (9 n^2,) the Delassus matrix of k contacts in the first 9 k^2.
        T: (3n, 3) tangents and normals, world axes.
        g: (3n,) velocities at the end of the step without contacts [m/s].
        before: (3n,) velocities at its start [m/s].
        impulses: (3n,) [N s].
        offset: (n,) normal speed at which each contact may approach, or minus that at which it must depart [m/s].
        depart: (n,) speed at which the positions alone leave a penetration [m/s].
        world: (n, 3) impulses of the last step, world axes [N s].
        keys: (n,) which contacts had the impulses `world`.
        held: (1,) how many these are.
        shifted: (3n,) work: velocities that are asked of the solver [m/s].
        after: (3n,) work: velocities at the end of the step [m/s].
        rebound: (n,) work: whether each contact has to rebound.
        solver: work of the solver.
    """

    touching: Touching
    centers: Matrix
    Y: Matrix
    G: Vector
    T: Matrix
    g: Vector
    before: Vector
    impulses: Vector
    offset: Vector
    depart: Vector
    world: Matrix
    keys: IntVector
    held: IntVector
    shifted: Vector
    after: Vector
    rebound: ByteVector
    solver: SolverWorkspace


def room_for_touching(n: int) -> Touching:
    """For n places."""
    spheres, surfaces = np.zeros((2, n), dtype=np.int64)
    return Touching(np.zeros(n), np.zeros((n, 3)), np.zeros(n), spheres, surfaces)


def room_for_contacts(n: int, spheres: int, nv: int) -> Contacts:
    """For up to n contacts, none to begin with."""
    r, i, whole = 3 * n, np.int64, np.zeros
    return Contacts(
        room_for_touching(n), whole((spheres, 3)), whole((r, nv)), whole(r * r), whole((r, 3)), whole(r), whole(r),
        whole(r), whole(n), whole(n), whole((n, 3)), whole(n, dtype=i), whole(1, dtype=i), whole(r), whole(r),
        whole(n, dtype=np.int8), solver_workspace(n),
    )  # fmt: skip


def room_for_motion(nv: int) -> Motion:
    """For a robot at rest."""
    return Motion(np.zeros(nv), np.zeros((nv, nv)), np.zeros(nv), np.zeros(nv), np.zeros(3), np.zeros(4))


def remembered(contacts: Contacts) -> tuple[NDArray[Any], ...]:
    """What of contacts outlives a step: it is shown, or the next one starts from it."""
    return (*contacts.touching, contacts.centers, contacts.world, contacts.keys, contacts.held)
