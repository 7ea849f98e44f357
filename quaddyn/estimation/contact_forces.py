"""`ContactForceEstimator`: contact forces from the residual of a momentum observer.

The fit of contact forces to a generalized force minimizes ``|A f - b|`` with minimum norm of f, ``A = L^-T J^T`` and
``b = L^-T r`` with ``M = L^T L``, or selected rows of J^T and r.  Where a shifted Cholesky factorization of
``G = A^T A`` proves that no singular value of A is below the tolerance, the normal equations are solved and corrected
once, which is as accurate as a QR factorization (Björck 1987, *Stability analysis of the method of seminormal equations
for linear least squares problems*); otherwise by singular values from Jacobi rotations of A's columns (Golub and Van
Loan, *Matrix Computations*, 4th edition, section 8.6.3).

Positions and velocities of points on the robot's bodies are computed here, too.  All of it is compiled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np

from ..compiler import IntMatrix, IntVector, Matrix, Tensor, Vector, compiled, entry, local
from ..compiler.lanes import axpy, copy_columns, dot, gemm, gemv, scale
from ..compiler.linalg import aligned, cholesky, padded
from ..contact import ContactSet
from ..deprecation import renamed_attributes
from ..dynamics import State
from ..dynamics.inertia_factor import factorize
from ..dynamics.kinematic_tree import find_dof_parents
from ..errors import ArgumentError, ArgumentTypeError
from ..robot.arguments import check_number
from ..robot.robot import Robot
from ..strict_attributes import StrictAttributes
from ..urdf.tree import Array
from .momentum_observer import MomentumObserver


class BodyPoints(NamedTuple):
    """Points that are fixed on bodies of a robot, as arrays for compiled code."""

    joint: IntVector  # (n,) index of the joint that moves the body; 0 for the world
    position: Matrix  # (n, 3) position in the joint frame [m]
    chain: IntMatrix  # (n, 1 + nv) number of the velocities that move a point, and their indices


def make_body_points(robot: Robot, frame_points: Sequence[tuple[str, Array]]) -> BodyPoints:
    """Creates the arrays of points on a robot with independent joints.

    Args:
        robot: the robot.
        frame_points: name of a frame and position (3,) in it [m], for each point.
    """
    model, n = robot.model, len(frame_points)
    points = BodyPoints(np.zeros(n, np.int64), np.zeros((n, 3)), np.zeros((n, 1 + robot.nv), np.int64))
    for i, (name, position) in enumerate(frame_points):
        frame = model.frames[robot.frame_id(name)]
        points.joint[i] = frame.parentJoint
        points.position[i] = frame.placement.translation + frame.placement.rotation @ position
        moving = sorted(model.idx_vs[j] + k for j in model.supports[frame.parentJoint] for k in range(model.nvs[j]))
        points.chain[i, 0], points.chain[i, 1 : 1 + len(moving)] = len(moving), moving
    return points


@compiled()
def compute_position(points: BodyPoints, joint_placements: Tensor, i: int, out: Vector) -> None:
    """Computes the position of point i, world axes [m]; `joint_placements` see `State.kinematic_arrays`."""
    at, x = joint_placements[points.joint[i]], points.position[i]
    for r in range(3):
        out[r] = at[0, r] * x[0] + at[1, r] * x[1] + at[2, r] * x[2] + at[3, r]


@compiled()
def compute_body_velocity(points: BodyPoints, columns: Matrix, v: Vector, i: int, at: Vector, out: Vector) -> None:
    """Computes the velocity (6,) of the body of point i at a position, linear before angular, world axes.

    Args:
        points: points of the robot.
        columns: columns of the world Jacobian, see `State.kinematic_arrays`.
        v: (nv,) velocity.
        i: index of the point.
        at: (3,) position, world axes [m].
        out: (6,) velocity; written.
    """
    for r in range(6):
        out[r] = 0.0
    for c in range(1, points.chain[i, 0] + 1):
        k = points.chain[i, c]
        for r in range(6):
            out[r] += columns[k, r] * v[k]
    out[0] += out[4] * at[2] - out[5] * at[1]
    out[1] += out[5] * at[0] - out[3] * at[2]
    out[2] += out[3] * at[1] - out[4] * at[0]


#: Minimum tolerance that the normal equations can prove, and relative size of singular values lost in rounding.
MIN_PROVABLE_TOLERANCE, ROUNDING_TOLERANCE = 1e-5, 1e-15
#: Maximum number of sweeps of Jacobi rotations; about eight suffice.
MAX_JACOBI_SWEEPS = 30


class ContactSetArrays(NamedTuple):
    """Contacts of a `ContactSet` as arrays for compiled code."""

    points: BodyPoints  # centers of spheres or surfaces
    size: IntVector  # (contacts,) number of force components, 3 or 6
    lever: Matrix  # (contacts, 3) contact point relative to the center, world axes [m]
    use_inertia_metric: bool  # whether all rows of ``J^T f = r`` are used, in the metric M^-1
    actuated_rows: IntVector  # rows that are used otherwise
    tolerance: float  # ratio to the largest singular value below which others count as zero
    dof_parent: IntVector  # (nv,) see `KinematicTree`


class ForceFitWorkspace(NamedTuple):
    """Preallocated arrays of a fit of up to k force components to m rows."""

    M: Matrix  # (nv, nv) lower triangle, overwritten by its factor L
    J: Matrix  # (k, nv) Jacobian of the active contacts
    A: Matrix  # (m, k + 1) A, and b as the last column
    A_transposed: Matrix  # (k, m)
    b: Vector  # (m,)
    G: Matrix  # (k, k) A^T A
    shifted: Matrix  # (k, k) the same minus a multiple of the identity
    factor: Matrix  # (k, k) its upper triangular factor
    inverse_diagonal: Vector  # (k,) reciprocals of the diagonal of `factor`
    V: Matrix  # (k, k)
    forces: Vector  # (k,)
    step: Vector  # (k,)
    residual: Vector  # (nv,) generalized force minus that of the contact forces


def make_contact_set_arrays(robot: Robot, contacts: ContactSet, *, joints: bool, tolerance: float) -> ContactSetArrays:
    """Creates the arrays of a robot's contacts; the points are used where its joints are independent.

    Args:
        robot: the robot.
        contacts: all contacts.
        joints: whether only rows of actuated joints are used.
        tolerance: see `ContactSetArrays`.
    """
    members = [contacts[name] for name in contacts.names]
    return ContactSetArrays(
        points=make_body_points(robot, [] if robot.coupling else [(c.frame, c.offset) for c in members]),
        size=np.array([c.rows for c in members], np.int64),
        lever=np.array([-c.radius * c.normal for c in members]).reshape(-1, 3),
        use_inertia_metric=not joints,
        actuated_rows=np.array(robot.actuated_index, np.int64),
        tolerance=tolerance,
        dof_parent=find_dof_parents(robot.model, robot.coupling),
    )


def make_force_fit_workspace(k: int, nv: int) -> ForceFitWorkspace:
    """Allocates the arrays of a fit of k force components to nv generalized forces, padded for SIMD lanes."""
    return ForceFitWorkspace(
        M=np.zeros((nv, nv)),
        J=np.zeros((k, nv)),
        A=aligned(nv, padded(k + 1)),
        A_transposed=aligned(k, padded(nv)),
        b=aligned(padded(nv)),
        G=aligned(k, padded(k)),
        shifted=aligned(k, padded(k)),
        factor=aligned(k, padded(k)),
        inverse_diagonal=np.zeros(k),
        V=np.zeros((k, k)),
        forces=np.zeros(k),
        step=aligned(padded(k)),
        residual=np.zeros(nv),
    )


@compiled(inline=False)
def is_full_rank(w: ForceFitWorkspace, k: int, m: int, tolerance: float) -> bool:
    """Returns whether all singular values of A are provably above the tolerance; computes ``w.G = A^T A``."""
    max_row_sum = 0.0
    gemm(w.G, w.A_transposed, w.A, k, m, k)
    for i in range(k):
        s = 0.0
        for j in range(k):
            s += abs(w.G[i, j])
        max_row_sum = max(max_row_sum, s)  # no eigenvalue is larger
    threshold = max(tolerance, MIN_PROVABLE_TOLERANCE)
    copy_columns(w.shifted, w.G, k, k)
    for i in range(k):
        w.shifted[i, i] -= threshold * threshold * max_row_sum
    return k <= m and cholesky(w.shifted, w.factor, k, 0.0)


@compiled(inline=False)
def solve_normal_equations(w: ForceFitWorkspace, k: int, m: int) -> bool:
    """Solves ``G f = A^T b``, and once more for the residual of b; returns False if G is not positive definite."""
    factor, inverse, step = w.factor, w.inverse_diagonal, w.step
    if not cholesky(w.G, factor, k, 0.0):
        return False
    for i in range(k):
        w.forces[i] = 0.0
        inverse[i] = 1.0 / factor[i, i]
    for _ in range(2):
        gemv(step, w.b, w.A, m, k)
        for i in range(k):
            step[i] *= inverse[i]
            for j in range(i + 1, k):
                step[j] -= factor[i, j] * step[i]
        for i in range(k - 1, -1, -1):
            step[i] = (step[i] - dot(factor[i, i + 1 :], step[i + 1 :], k - i - 1)) * inverse[i]
        for i in range(k):
            w.forces[i] += step[i]
            axpy(w.b, -step[i], w.A_transposed[i], m)
    return True


@compiled(inline=False)
def solve_by_svd(w: ForceFitWorkspace, k: int, m: int, tolerance: float) -> int:
    """Solves the fit with the singular values of A above the tolerance; returns their number."""
    A, V = w.A_transposed, w.V
    for i in range(k):
        w.forces[i] = 0.0
        for j in range(k):
            V[i, j] = 1.0 if i == j else 0.0
    for _ in range(MAX_JACOBI_SWEEPS):
        rotated = False
        for i in range(k):
            for j in range(i):
                x, y, z = dot(A[i], A[i], m), dot(A[j], A[j], m), dot(A[i], A[j], m)
                if not abs(z) > ROUNDING_TOLERANCE * math.sqrt(x * y):
                    continue
                rotated = True
                cotangent = (y - x) / (2.0 * z)
                t = (1.0 if cotangent >= 0.0 else -1.0) / (abs(cotangent) + math.sqrt(1.0 + cotangent * cotangent))
                c = 1.0 / math.sqrt(1.0 + t * t)
                s = c * t
                for r in range(m):
                    a, b = A[i, r], A[j, r]
                    A[i, r], A[j, r] = c * a - s * b, s * a + c * b
                for r in range(k):
                    a, b = V[i, r], V[j, r]
                    V[i, r], V[j, r] = c * a - s * b, s * a + c * b
        if not rotated:
            break
    largest, rank = 0.0, 0
    for i in range(k):
        largest = max(largest, dot(A[i], A[i], m))
    threshold = max(tolerance, ROUNDING_TOLERANCE * float(max(k, m)))
    for i in range(k):
        squared_norm = dot(A[i], A[i], m)
        if squared_norm > threshold * threshold * largest:
            rank += 1
            scale = dot(A[i], w.b, m) / squared_norm
            for r in range(k):
                w.forces[r] += scale * V[i, r]
    return rank


@compiled()
def write_transposed_row(w: ForceFitWorkspace, j: int, k: int, r: Vector, out: Vector) -> None:
    """Writes row j of J^T, of k entries, and of the generalized force r."""
    for i in range(k):
        out[i] = w.J[i, j]
    out[k] = r[j]


@entry("the contact forces")
def solve_contact_forces(t: ContactSetArrays, w: ForceFitWorkspace, k: int, r: Vector) -> int:
    """Computes the contact forces that minimize ``|J^T f - r|`` and writes them to ``w.forces``.

    The residual is written to ``w.residual``.

    Args:
        t: contacts.
        w: workspace with the Jacobian, and the inertia where it is the metric.
        k: number of force components, the rows of the Jacobian.
        r: (nv,) generalized force.

    Returns:
        The number of singular values above the tolerance.
    """
    n, m, A = len(r), len(t.actuated_rows), w.A
    w.residual[:] = r
    if not t.use_inertia_metric:
        for j in range(m):
            write_transposed_row(w, t.actuated_rows[j], k, r, A[j])
    else:
        m = n
        for j in range(n):
            write_transposed_row(w, j, k, r, A[j])
        factorize(w.M, t.dof_parent)
        for i in range(n - 1, -1, -1):  # A = L^-T A
            scale(A[i], A[i], 1.0 / w.M[i, i], k + 1)
            j = t.dof_parent[i]
            while j >= 0:
                axpy(A[j], -w.M[i, j], A[i], k + 1)
                j = t.dof_parent[j]
    for j in range(m):
        w.b[j] = A[j, k]
        for i in range(k):
            w.A_transposed[i, j] = A[j, i]
    rank = k
    if not (is_full_rank(w, k, m, t.tolerance) and solve_normal_equations(w, k, m)):
        rank = solve_by_svd(w, k, m, t.tolerance)
    for i in range(k):
        for j in range(n):
            w.residual[j] -= w.J[i, j] * w.forces[i]
    return rank


@compiled(inline=False)
def compute_contact_jacobian(
    t: ContactSetArrays, w: ForceFitWorkspace, active: IntVector, columns: Matrix, joint_placements: Tensor
) -> int:
    """Computes the Jacobian of the active contacts, writes it to ``w.J`` and returns the number of its rows.

    Args:
        t: contacts.
        w: workspace.
        active: (contacts,) whether each contact is active.
        columns: columns of the world Jacobian, see `State.kinematic_arrays`.
        joint_placements: placements of the joints, see `State.kinematic_arrays`.
    """
    k, at, points = 0, local(3), t.points
    for i in range(len(active)):
        if active[i] == 0:
            continue
        compute_position(points, joint_placements, i, at)
        for x in range(3):
            at[x] += t.lever[i, x]
        for x in range(t.size[i]):
            for j in range(w.J.shape[1]):
                w.J[k + x, j] = 0.0
        for c in range(1, points.chain[i, 0] + 1):
            j = points.chain[i, c]
            column = columns[j]
            w.J[k, j] = column[0] + column[4] * at[2] - column[5] * at[1]
            w.J[k + 1, j] = column[1] + column[5] * at[0] - column[3] * at[2]
            w.J[k + 2, j] = column[2] + column[3] * at[1] - column[4] * at[0]
            for x in range(3, t.size[i]):
                w.J[k + x, j] = column[x]
        k += t.size[i]
    return k


@entry("the contact forces")
def fit_contact_forces(
    t: ContactSetArrays, w: ForceFitWorkspace, active: IntVector, columns: Matrix, joint_placements: Tensor, r: Vector
) -> int:
    """Computes the Jacobian of the active contacts and calls `solve_contact_forces`.

    Args:
        t: contacts.
        w: workspace with the inertia where it is the metric.
        active: (contacts,) whether each contact is active.
        columns: columns of the world Jacobian, see `State.kinematic_arrays`.
        joint_placements: placements of the joints, see `State.kinematic_arrays`.
        r: (nv,) generalized force.
    """
    k = compute_contact_jacobian(t, w, active, columns, joint_placements)
    return int(solve_contact_forces(t, w, k, r))


Rows = Literal["all", "joints"]


@renamed_attributes(unexplained="residual", undetermined="unobservable_dimensions", stacked="stacked_forces")
@dataclass(frozen=True, slots=True, eq=False)
class ContactForces:
    """Contact forces estimated by `ContactForceEstimator`.

    Attributes:
        forces: (3,) force of each point contact or (6,) wrench of each surface contact, by name, on the robot, world
            axes [N, N m].
        residual: (nv,) generalized force that the contact forces do not explain, ``tau_ext - sum J_i^T f_i`` [N m, N]:
            pushes elsewhere, model errors.
        unobservable_dimensions: number of directions of the forces that cannot be estimated from the motion: for
            example, the force along a straight leg does not act on its joints.  The forces are zero in these
            directions.
        stacked_forces: (rows,) all forces, in the order of the contacts [N, N m].
    """

    forces: Mapping[str, Array]
    residual: Array
    unobservable_dimensions: int
    stacked_forces: Array


class ContactForceEstimator(StrictAttributes, fixed=("contacts", "observer")):
    """Estimator of contact forces without foot sensors: a `MomentumObserver` and a least-squares fit of contact forces.

    The forces of the *active* contacts minimize ``|tau_ext - J^T f|`` in the metric ``M^-1`` ("all"), in which every
    mass of the robot has the same weight, or leg by leg in the joint torques alone ("joints"), which uses the root's
    motion for gravity and Coriolis terms only.  If the feet in contact are unknown, leave all contacts active: the
    estimated forces of swing feet are then nearly zero.

    Args:
        contacts: contacts of the robot.
        dt: time between updates [s].
        gain: gain of the observer [1/s], one or (nv,).
        rows: "all" or "joints".
        rank_tolerance: ratio to the largest singular value below which a singular value counts as zero.

    Raises:
        ArgumentTypeError: `contacts` is not a `ContactSet`.
        ArgumentError: a value is out of range.
    """

    def __init__(
        self,
        contacts: ContactSet,
        *,
        dt: float,
        gain: float | Array = 100.0,
        rows: Rows = "all",
        rank_tolerance: float = 1e-3,
    ) -> None:
        if not isinstance(contacts, ContactSet):
            raise ArgumentTypeError(f"contacts: expected a ContactSet, got {type(contacts).__name__}")
        if rows not in get_args(Rows):
            raise ArgumentError(f"rows: expected one of {get_args(Rows)}, got {rows!r}")
        tolerance = check_number("rank_tolerance", rank_tolerance)
        if not 0.0 <= tolerance < 1.0:
            raise ArgumentError(
                f"rank_tolerance: expected a fraction of the largest singular value, got {rank_tolerance}"
            )
        self.contacts, robot, joints = contacts, contacts.robot, rows == "joints"
        self.observer = MomentumObserver(robot, dt=dt, gain=gain)
        self._arrays = make_contact_set_arrays(robot, contacts, joints=joints, tolerance=tolerance)
        self._work = make_force_fit_workspace(int(self._arrays.size.sum()), robot.nv)
        self._metric, self._coupled = not joints, robot.coupling is not None
        self._is_active = np.zeros(len(contacts.names), dtype=np.int64)
        self._fit_contact_forces: Callable[..., int] | None = None  # bound to its arrays at the first update
        self._active: tuple[str, ...] = ()
        self._slices: dict[str, slice] = {}

    def reset(self) -> None:
        """Resets the observer; the next update is the first one."""
        self.observer.reset()

    def update(self, s: State, tau: Array) -> ContactForces:
        """Updates the observer by one step and fits the contact forces; see `MomentumObserver.update`.

        Args:
            s: present state, dt after the last one.
            tau: (nu,) motor torques since the last update, mean over the step [N m].
        """
        r, contacts, work = self.observer.update(s, tau), self.contacts, self._work
        active = contacts.active
        if active != self._active:
            self._active, self._slices = active, contacts.slices()
            self._is_active[:] = [name in active for name in contacts.names]
        if self._metric:
            work.M[:] = s.M.T  # symmetric; its transpose is contiguous
        k = next(reversed(self._slices.values())).stop if self._slices else 0
        if self._coupled:
            work.J[:k] = contacts.jacobian(s)
            rank = solve_contact_forces(self._arrays, work, k, r)
        else:
            if self._fit_contact_forces is None:
                self._fit_contact_forces = fit_contact_forces.bind(self._arrays, work)
            rank = self._fit_contact_forces(self._is_active, *s.kinematic_arrays(), r)
        forces = work.forces[:k].copy()
        by_name = {name: forces[at] for name, at in self._slices.items()}
        return ContactForces(by_name, work.residual.copy(), k - rank, forces)
