"""Data that one tick reads and writes: records of arrays that Python creates once and compiled code uses.

The unknowns u of a tick are joint accelerations, and contact forces divided by the robot's mass.  Accelerations,
torques and forces are affine in u: a *map* is a matrix with ``value_i = sum_j row_i[j] u[j] + row_i[n]`` over n
unknowns.  Rows are padded to a multiple of the SIMD width (`quaddyn.compiler.lanes`).
"""

from __future__ import annotations

import enum
from typing import NamedTuple

from ..compiler import (
    LANE_WIDTH,
    ByteVector,
    IntMatrix,
    IntVector,
    Matrix,
    Record,
    Tensor,
    Vec3,
    Vector,
    compiled,
    matrix,
    vec3,
)
from ..hierarchy.workspace import HierarchyWorkspace, SolutionSummary
from .collision_data import CollisionScratch


class TickOutcome(enum.IntEnum):
    """Outcome of a tick: see `quaddyn.wbc.tick_problem.Status`; the last three are of inputs that cannot be solved."""

    SOLVED = 0
    INFEASIBLE = 1
    INACCURATE = 2
    FALLBACK = 3
    OVERFLOW = 4  # the dynamics overflow
    NOT_A_NUMBER = 5  # a parameter or a row is not a number
    INVALID_STATE = 6  # q is not a configuration, or q or v is out of bounds; only without Python


class ContactRole(enum.IntEnum):
    """Role of a contact, see `quaddyn.wbc.ContactSettings`."""

    UNILATERAL = 0
    BILATERAL = 1
    COMPLIANT = 2
    FORCED = 3


class StrictQuantity(enum.IntEnum):
    """Quantity that a contact prescribes strictly: none, the acceleration of its point, or its force."""

    NOTHING = 0
    MOTION = 1
    FORCE = 2


#: Names of the members of `ContactRole`.
ROLES = ("unilateral", "bilateral", "compliant", "force")


class ElementTable(NamedTuple):
    """Tasks and constraints in order, one entry per element."""

    level: IntVector
    code: IntVector  # see `quaddyn.wbc.element.ElementKind`
    first_parameter: IntVector  # index of its first parameter in `TickInputData.parameters`
    size: IntVector  # number of rows of a motion task, of capsules, or of hands
    first: IntVector  # the two integers that `quaddyn.wbc.element.Element.bind` returned
    second: IntVector


class ControllerModel(NamedTuple):
    """Data that stay the same from tick to tick: the robot, and the elements in order."""

    mass: float  # mass of the robot [kg], the unit of forces
    total_mass: float  # mass of all bodies of the model [kg], which may be slightly larger
    length: float  # leg length [m]
    period: float  # control period [s]
    floating: bool  # whether only contact forces and gravity move the center of mass
    faces: int  # number of faces of friction pyramids; 0 without friction pyramids
    rank_tolerance: float  # relative tolerance below which directions count as dependent
    damping: float  # damping of the solver
    contact_motion_start: int  # first parameter of the `ContactMotion` constraint; -1 without one
    has_strict_contacts: bool  # whether that constraint is on level 0, and the solver has no damping
    levels: int  # number of levels
    gravity: Vector  # (3,) gravity [m/s^2]
    passive: IntVector  # indices of unactuated velocities
    actuated: IntVector  # indices of actuated velocities
    slot: IntVector  # (nv,) index among the unactuated velocities, or -2 minus the index among the actuated ones
    chains: IntMatrix  # (frames, 1 + nv) number of velocities that move a frame, and their indices
    limbs: IntMatrix  # (contacts, 9) number of actuated joints that move this contact alone, and their indices
    couplings: IntMatrix  # (nu, 1 + nv) number of velocities that M couples with a motor, and their indices
    elements: ElementTable
    index: IntVector  # type: ignore[assignment]  # not the method of tuples: lists of integers of the elements


class RigidBodyTerms(NamedTuple):
    """Rigid-body terms at (q, v): views of the vector that `quaddyn.kernels.TickTerms` fills; world axes."""

    M: Matrix  # (nv, nv) mass matrix
    h: Vector  # (nv,) bias forces [N, N m]
    com: Vector  # (3,) center of mass [m]
    com_velocity: Vector  # (3,) [m/s]
    com_jacobian: Matrix  # (3, nv), empty for a floating root
    com_drift: Vector  # (3,)
    momentum: Vector  # (6,), empty if no task uses it
    momentum_matrix: Matrix  # (6, nv)
    momentum_drift: Vector  # (6,)
    values: Vector  # the whole vector
    frames: IntVector  # index in `values` of the first term of each frame


class FrameKinematics(NamedTuple):
    """Kinematics of one frame, world axes."""

    rotation: Matrix  # (3, 3)
    origin: Vector  # (3,) [m]
    velocity: Vector  # (6,) linear [m/s], angular [rad/s]
    drift: Vector  # (6,) acceleration at a = 0
    jacobian: Matrix  # (6, len(chain))
    chain: IntVector  # indices of the velocities that move the frame, ascending


class ContactStateData(NamedTuple):
    """State and settings of the contacts, one entry or row per contact."""

    activation: Vector  # 0 inactive, 1 closed
    cap: Vector  # largest normal force while it is made or broken [N]
    role: IntVector  # `ContactRole`
    size: IntVector  # components of its force, 3 or 6
    frame: IntVector  # index of its frame
    foot_task: IntVector  # index of the element that is the foot task of the same frame, or -1
    is_unilateral: IntVector  # whether the contact only pushes
    is_surface: IntVector  # whether its cone rotates with the frame
    cone_row_count: IntVector  # number of rows of its cone
    radius: Vector  # [m]
    min_force: Vector  # smallest normal force [N]
    max_force: Vector  # largest normal force [N]
    surface_height: Vector  # position of undeformed compliant ground along the normal [m]
    stiffness: Vector  # [N/m]
    damping: Vector  # [N s/m]
    moment_arm: Vector  # lever by which moments are weighted as forces: mean of the half sizes of a surface [m], else 1
    normal: Matrix  # (contacts, 3)
    offset: Matrix  # (contacts, 3) position in the frame [m]
    surface_normal: Matrix  # (contacts, 3) normal of a surface, in the frame
    cone: Tensor  # (contacts, rows, 6): cone @ force <= 0


class ContactPointData(NamedTuple):
    """Kinematics of the contact points in the current state."""

    first_force: IntVector  # index of the first component of its force among all, -1 if the contact is inactive
    strict_kind: IntVector  # `StrictQuantity`
    is_eliminated: IntVector  # whether its limb is eliminated
    jacobian: Tensor  # (contacts, 6, nv) over the chain of the frame, world axes
    drift: Matrix  # (contacts, 6) acceleration at a = 0
    target: Matrix  # (contacts, 6) acceleration that keeps the point at rest, or the force of the spring


class PreviousTick(Record):
    """Data of the previous tick."""

    exists: bool  # whether there was a previous tick
    torque: Vector  # (nu,) its torques [N m]


class TickInputData(NamedTuple):
    """Inputs that may change between ticks, besides state and contacts."""

    parameters: Vector  # parameters of all elements, one after the other
    previous: PreviousTick
    force_references: Tensor  # (force tasks, contacts, 8): is in the task, has a reference, the reference (6)
    custom_rows: Matrix  # (rows, 6 + nv + 6 contacts + nu): level, lower, upper, weight, element, index; coefficients


class ForceReference(NamedTuple):
    """Reference of a contact in a force task: views of its entries."""

    is_in_task: bool  # whether the contact belongs to the task
    has_reference: bool
    force: Vector  # (6,) [N, N m]


class AffineMaps(NamedTuple):
    """Accelerations, torques and forces as affine functions of the unknowns."""

    n: int  # number of unknowns
    acceleration: Matrix  # (nv, ...)
    torque: Matrix  # (nu, ...)
    acceleration_length: Vector  # (nv,) scale of each row, see `RowBuffer.A_length`
    torque_length: Vector  # (nu,) sum of the lengths of its terms
    force: IntVector  # (contacts,) index of the first unknown of the contact's force over the mass, or -1
    joint_unknown: IntVector  # (nv,) index of the unknown that is this acceleration, or -1


class RowBuffer(Record):
    """Rows of the levels as they are written: ``A u = b`` and ``lower <= C u <= upper``."""

    A: Matrix  # (capacity, ...)
    b: Vector
    A_length: Vector  # scale of each row before elimination; a row that is far shorter now is rounding
    A_weight: Vector
    A_source: IntMatrix  # (capacity, 3) element, contact or -1, row of the element
    C: Matrix
    lower: Vector
    upper: Vector
    C_length: Vector
    C_weight: Vector
    C_source: IntMatrix
    n_equalities: int  # number of equalities that are written
    n_limits: int  # number of limits that are written
    A_start: IntVector  # (levels + 2,) first row of each level
    C_start: IntVector
    applies_weights: bool  # whether rows are multiplied by their weights, as the solver requires


class TickScratch(NamedTuple):
    """Scratch arrays of one tick."""

    acceleration: Matrix
    torque: Matrix
    acceleration_length: Vector
    torque_length: Vector
    force: IntVector
    joint_unknown: IntVector
    passive_matrix: Matrix  # (passive, lanes) matrix of the unactuated equations
    passive_rhs: Matrix  # (passive, ...) their right-hand side
    limb_map: (
        Tensor  # (contacts, 8, lanes) joint accelerations of a limb: ``limb[:, :passive] a_passive + limb[:, passive]``
    )
    limb_redundancy: Tensor  # (contacts, 8, 8) directions of the redundant joints of a limb
    limb_leftover: Tensor  # (contacts, 8, 8) combinations of the contact's rows for which the limb has too few joints
    limb_inverse: Tensor  # (contacts, 8, 8)
    limb_scratch: Tensor  # (3, 8, 8)
    limb_unknown: IntVector  # (contacts,) index of the first unknown of the redundant joints
    leftover_columns: Matrix  # (unknowns, ...) columns: contact equations that no limb satisfies
    leftover_targets: Vector
    null_space_map: Matrix  # (unknowns, ...) map from the null space of these equations to u
    reflectors: Matrix
    scratch_rows: Matrix  # (4, ...)
    permutation: IntVector
    J: Matrix  # (6, nv) Jacobian of a task
    J_other: Matrix  # (6, nv)
    task_state: Matrix  # (3, 6) error, velocity and drift of a motion task
    matrix3: Matrix  # (3, 3)
    # Scratch vectors of the running function, not kept after it returns to `tick`.  A function that is called from
    # another one uses other rows than the caller: contact points 0 to 3, rows of an element 0 to 4, recovery 5, 6.
    vectors: Matrix  # (8, nv or more)
    collisions: CollisionScratch
    bias: Vector  # (nv,) forces of the equations of motion at a = 0: h plus joint friction
    all_velocities: IntVector  # (nv,) indices of all velocities, the chain of quantities that all of them move
    full_unknowns: Vector
    unknowns: Vector
    row_values: Vector
    ranks: Vector
    kkt: Vector
    summary: SolutionSummary
    multipliers: Vector
    solver: HierarchyWorkspace


#: Smallest `FormulationMemory.steadiness` at which the solver tries the working sets of the last tick first, and its
#: maximum.
MIN_STEADINESS, MAX_STEADINESS = 2, 4


class FormulationMemory(Record):
    """Working sets of a tick in one of two formulations: with closed contacts eliminated, or as rows of level 0.

    A working set states for each limit whether its bound is active: -1 the lower one, 1 the upper one, 0 none.
    `current` takes those of the tick that is being solved; at its beginning they are still those of the tick before,
    and are moved to `previous`, from which the solver starts.
    """

    # counter of solves with unchanged working sets: 0 without a solution in `current`; `MAX_STEADINESS` after a solve
    # that did not change them; each solve that changes them reduces it by one, to at least 1
    steadiness: int
    start_steadiness: int  # the same of `previous`, from which the last solve started; 0 for a start without sets
    limit_starts: IntVector  # (levels + 2,) first limit of each level; if it changed, the working sets do not fit
    previous: ByteVector  # (levels + 2, limits), flat; the last two levels are those of the minimum norm
    current: ByteVector


class WorkingSetMemory(Record):
    """Working sets and decisions that one tick passes to the next."""

    eliminated: FormulationMemory  # closed contacts are eliminated beforehand
    as_rows: FormulationMemory  # closed contacts are rows of level 0
    needs_min_norm: bool  # whether a tick left freedom below the levels; from then on a minimum-norm level resolves it
    skips_elimination: bool  # whether the next tick does not try elimination, since the last one found no solution
    skipped_elimination: bool  # whether the last tick did not try elimination


class TickContext(NamedTuple):
    """All data of one tick, as the functions that write rows use them."""

    q: Vector
    v: Vector
    model: ControllerModel
    terms: RigidBodyTerms
    contacts: ContactStateData
    points: ContactPointData
    inputs: TickInputData
    work: TickScratch
    maps: AffineMaps
    rows: RowBuffer
    contacts_as_rows: bool  # whether closed contacts are rows of level 0, instead of being eliminated beforehand


class TickData(NamedTuple):
    """All data that Python passes to a tick besides the state."""

    model: ControllerModel
    terms: RigidBodyTerms
    contacts: ContactStateData
    points: ContactPointData
    inputs: TickInputData
    rows: RowBuffer
    work: TickScratch
    memory: WorkingSetMemory


class TickCertificate(NamedTuple):
    """Accuracy of the solution of a tick."""

    violation: float  # largest violation of level 0 [m/s^2]
    kkt: float  # residual of the optimality conditions


class TickResult(NamedTuple):
    """Result of a tick: views of one vector."""

    torque: Vector  # (nu,) [N m]
    acceleration: Vector  # (nv,)
    force: Matrix  # (contacts, 6) [N, N m]
    ranks: Vector  # (levels,)
    certificate: Vector  # (2,) entries of `TickCertificate`
    friction: Vector  # (nu,) part of the torque that compensates joint friction [N m]
    activation: Vector  # (contacts,) activations and caps of the contacts at the tick
    cap: Vector  # (contacts,) [N]
    force_references: Vector  # references of the force tasks at the tick, as in `TickInputData`, flat
    parameters: Vector  # parameters of the elements at the tick


@compiled()
def result_views(values: Vector, nu: int, nv: int, contacts: int, levels: int, force_tasks: int) -> TickResult:
    """Returns views of the parts of a result vector; behind its parameters may be more entries."""
    a = nu + nv
    b = a + 6 * contacts
    c = b + levels
    d = c + 2 + nu
    e = d + 2 * contacts
    f = e + 8 * force_tasks * contacts
    return TickResult(
        values[:nu], values[nu:a], matrix(values, a, contacts, 6), values[b:c], values[c : c + 2], values[c + 2 : d],
        values[d : d + contacts], values[d + contacts : e], values[e:f], values[f:],
    )  # fmt: skip


def result_length(nu: int, nv: int, contacts: int, levels: int, force_tasks: int, parameters: int) -> int:
    """Returns the number of entries of a result vector."""
    return 2 * nu + nv + (8 + 8 * force_tasks) * contacts + levels + 2 + parameters


@compiled()
def read_certificate(result: TickResult) -> TickCertificate:
    """Returns the accuracy of the solution of a tick."""
    return TickCertificate(result.certificate[0], result.certificate[1])


@compiled()
def write_certificate(result: TickResult, violation: float, kkt: float) -> None:
    """Writes the entries of `TickCertificate`."""
    result.certificate[0], result.certificate[1] = violation, kkt


@compiled()
def force_reference(inputs: TickInputData, task: int, c: int) -> ForceReference:
    """Returns the reference of contact c in a force task."""
    z = inputs.force_references[task, c]
    return ForceReference(z[0] != 0.0, z[1] != 0.0, z[2:8])


@compiled()
def write_force_reference(inputs: TickInputData, task: int, c: int, force: Vector) -> None:
    """Writes the reference of contact c in a force task; without a reference, `force` is empty."""
    z = inputs.force_references[task, c]
    z[1] = 1.0 if len(force) > 0 else 0.0
    for k in range(6):
        z[2 + k] = force[k] if k < len(force) else 0.0


@compiled()
def frame_kinematics(terms: RigidBodyTerms, model: ControllerModel, i: int) -> FrameKinematics:
    """Returns the kinematics of frame i."""
    first, count = terms.frames[i], model.chains[i, 0]
    x = terms.values
    return FrameKinematics(
        matrix(x, first, 3, 3), x[first + 9 : first + 12], x[first + 12 : first + 18], x[first + 18 : first + 24],
        matrix(x, first + 24, 6, count), model.chains[i, 1 : 1 + count],
    )  # fmt: skip


@compiled()
def frame_origin(terms: RigidBodyTerms, i: int) -> Vec3:
    """Returns the origin of frame i, world [m]; `frame_kinematics` returns all kinematics."""
    first = terms.frames[i]
    return vec3(terms.values[first + 9 : first + 12])


@compiled()
def frame_velocity(terms: RigidBodyTerms, i: int) -> Vec3:
    """Returns the linear velocity of the origin of frame i, world [m/s]."""
    first = terms.frames[i]
    return vec3(terms.values[first + 12 : first + 15])


def padded_length(n: int) -> int:
    """Returns the length of a row of n numbers, padded to whole SIMD lanes."""
    return LANE_WIDTH * ((n + LANE_WIDTH - 1) // LANE_WIDTH)
