"""Base parameters: the combinations of parameters that motion and torque determine.

`base_parameters` computes them for any robot, with a certificate of their number.

Source: fast inverse dynamics of a serial robot (the patent), step 3; Gautier, *Numerical calculation of the base
inertial parameters of robots*, 1991.

Null space of the parameters from the joint axes: inertia that can move from a body to its parent, joint by joint.

No state is sampled here: the rules follow from the joint axes alone, so that they check the numeric rank
independently.  They hold for every joint type, for prismatic joints and for axes parallel to the first one, where rules
given as tables have gaps.

Source: Wensing, Niemeyer, Slotine, *A geometric characterization of observability in inertial parameter
identification* (2017, arXiv:1711.03896), the recursive parameter nullspace algorithm; rotor inertias are added here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..deprecation import renamed_attributes
from ..dynamics.regressor import N_COLUMNS, N_INERTIAL_COLUMNS
from ..errors import ArgumentError, ArgumentTypeError
from ..robot.arguments import check_number
from ..robot.bodies import CompositeBody
from ..robot.robot import Robot
from ..urdf.tree import Array, FrozenArrays
from .stacked_regressor import StackedRegressor, parameter_names, random_states

#: Singular values between these, relative to the largest, are neither clearly there nor clearly rounding.
AMBIGUOUS_RANGE = (1e-12, 1e-3)

#: A column is a pivot if its remainder is at least this fraction of the largest remainder.  Among these the first in
#: the robot's order is used, so that the choice is the same on all machines.
PIVOT_FRACTION = 0.5


@renamed_attributes(certain="is_unambiguous")
@dataclass(frozen=True, slots=True, eq=False)
class RankCertificate(FrozenArrays):
    """Evidence for the number of base parameters.

    Attributes:
        rank: number of singular values above `tolerance`.
        columns: number of parameters.
        singular_values: (columns,) singular values of the stacked regressor with columns scaled to unit length, divided
            by the largest; dimensionless.
        gap: ratio of the smallest singular value above `tolerance` to the largest below it; inf if none is below.
        ambiguous: (k,) relative singular values, and lengths of columns relative to the longest, within 1e-12 to 1e-3:
            those of axes that are parallel up to 1 urad to 1 mrad; empty for exact geometry.
        residual: largest entry of the dependent columns minus their expression in the independent ones, divided by the
            unit length of the columns (dimensionless): the check of ``tau = Hb K delta``.
        samples: number of random states that were stacked.
        seed: seed of the states.
        tolerance: threshold of the singular values, relative to the largest.
    """

    rank: int
    columns: int
    singular_values: Array
    gap: float
    ambiguous: Array
    residual: float
    samples: int
    seed: int
    tolerance: float

    @property
    def is_unambiguous(self) -> bool:
        """Whether no singular value is ambiguous."""
        return self.ambiguous.size == 0

    def __str__(self) -> str:
        doubt = (
            ""
            if self.is_unambiguous
            else f"; {self.ambiguous.size} ambiguous, {_format_range(self.ambiguous)} of the largest"
        )
        gap = "nothing dropped" if not np.isfinite(self.gap) else f"gap of {np.log10(self.gap):.1f} decades"
        return f"rank {self.rank} of {self.columns}, {gap}{doubt} ({self.samples} states, seed {self.seed})"


@dataclass(frozen=True, slots=True, eq=False)
class BaseParameters(FrozenArrays):
    """Base parameters ``beta = K delta``: the combinations of the parameters delta that determine all torques.

    With the regressor H of all parameters and its independent columns ``Hb = H[:, independent]``, the torques are
    ``H delta = Hb beta`` in every state.

    With P the permutation that puts the independent columns first, ``P = [Pb Pd]``, ``Hd = Hb Kd`` and
    ``K = Pb^T + Kd Pd^T`` (source C, step 3).  Each base parameter is an independent parameter plus a combination of
    dependent ones.

    Attributes:
        robot: the robot.
        inertial: whether delta has ten parameters a body instead of 13.
        names: (n,) names of all parameters, see `parameter_names`.
        independent: (r,) indices of the independent columns, ascending.
        dependent: (n - r,) indices of the others, ascending.
        Kd: (r, n - r) coefficients of the dependent parameters in each base parameter.
        K: (r, n) map from parameters to base parameters, each in its unit, see `names`.
        certificate: evidence for the rank r.
    """

    robot: Robot
    inertial: bool
    names: tuple[str, ...]
    independent: NDArray[np.intp]
    dependent: NDArray[np.intp]
    Kd: Array
    K: Array
    certificate: RankCertificate

    @property
    def size(self) -> int:
        """Number r of base parameters."""
        return len(self.independent)

    @property
    def P(self) -> Array:
        """(n, n) permutation ``[Pb Pd]``: ``H @ P`` has the independent columns first."""
        return np.eye(len(self.names))[:, np.concatenate([self.independent, self.dependent])]

    def project(self, delta: Array) -> Array:
        """Returns the base parameters (r,) of parameters delta (n,)."""
        delta = np.asarray(delta)
        if delta.dtype.kind not in "fiu" or delta.shape != (len(self.names),):
            raise ArgumentError(f"delta: expected {len(self.names)} numbers, got shape {delta.shape} of {delta.dtype}")
        return np.asarray(self.K @ delta)

    def nearest_parameters(self, beta: Array, prior: Array) -> Array:
        """Returns the parameters with given base parameters that are nearest to a prior.

        Args:
            beta: (r,) base parameters.
            prior: (n,) parameters, such as `Dynamics.parameters`; the distance is measured in each parameter's own
                unit.

        Returns:
            (n,) delta with ``K delta = beta``, not necessarily physically consistent: see `fit_consistent`.
        """
        beta = np.asarray(beta)
        if beta.dtype.kind not in "fiu" or beta.shape != (self.size,):
            raise ArgumentError(f"beta: expected {self.size} numbers, got shape {beta.shape} of {beta.dtype}")
        correction = np.linalg.lstsq(self.K, beta - self.project(prior), rcond=None)[0]
        return np.asarray(prior + correction, dtype=np.float64)

    def regressor(self) -> StackedRegressor:
        """Returns the function that computes Hb, regressors in the independent columns only."""
        return StackedRegressor(self.robot, inertial=self.inertial, columns=self.independent)

    def groups(self, *, digits: int = 6) -> tuple[str, ...]:
        """Returns each base parameter (r,) as text, such as "Lzz link1 + Ia joint1 + 0.25 m link2".

        Args:
            digits: significant digits of the coefficients; those below ``10^-digits`` are left out.
        """
        out = []
        for i, own in enumerate(self.independent):
            words = [self.names[own]]
            for j in np.flatnonzero(np.abs(self.Kd[i]) > 10.0**-digits):
                factor, name = self.Kd[i, j], self.names[self.dependent[j]]
                size = "" if abs(abs(factor) - 1.0) < 10.0**-digits else f"{abs(factor):.{digits}g} "
                words.append(f"{'-' if factor < 0.0 else '+'} {size}{name}")
            out.append(" ".join(words))
        return tuple(out)


def base_parameters(
    robot: Robot, *, inertial: bool = False, samples: int | None = None, seed: int = 0, tolerance: float = 1e-9
) -> BaseParameters:
    """Computes the base parameters of any robot by column-pivoted QR of a stacked random regressor.

    The regressor of `samples` random states is stacked and its columns are scaled to unit length, since units such as
    kg m^2 and kg do not determine what is measurable.  Singular values determine the rank; Householder QR with column
    pivoting selects the independent columns (Golub and Van Loan 2013, section 5.4.2).

    Args:
        robot: any robot.
        inertial: ten parameters a body instead of 13 with friction and rotor inertia.
        samples: number of random states; by default four times as many rows as columns, and at least 60 states.
        seed: seed of the states.
        tolerance: threshold of the singular values, relative to the largest, and of the lengths of columns, relative to
            the longest.

    Raises:
        ArgumentError: fewer rows than columns, or a tolerance outside (0, 1).
    """
    if not 0.0 < check_number("tolerance", tolerance) < 1.0:
        raise ArgumentError(f"tolerance: expected a fraction in (0, 1), got {tolerance}")
    stacked = StackedRegressor(robot, inertial=inertial)
    names = parameter_names(robot, inertial=inertial)
    n = len(names)
    count = max(60, -(-4 * n // max(robot.nv, 1))) if samples is None else samples
    if count * robot.nv < n:
        raise ArgumentError(
            f"samples: expected enough states for at least {n} rows, the number of parameters; {count} states give "
            f"{count * robot.nv} rows"
        )
    rng = np.random.default_rng(seed)
    R = np.zeros((0, n))
    for start in range(0, count, 64):
        H = stacked(*random_states(robot, min(64, count - start), rng))
        R = triangular_factor(np.concatenate([R, H.reshape(-1, n)]))
    lengths = np.linalg.norm(R, axis=0)
    short = lengths / max(lengths.max(initial=0.0), np.finfo(float).tiny)
    R[:, short <= tolerance] = 0.0  # rounding, which must not be scaled up
    lengths[short <= tolerance] = 1.0
    R = R / lengths
    sigma = np.linalg.svd(R, compute_uv=False)
    sigma = sigma / max(sigma[0], np.finfo(float).tiny)
    r = int(np.count_nonzero(sigma > tolerance))
    independent = np.sort(_select_pivot_columns(R, r))
    dependent = np.setdiff1d(np.arange(n), independent)
    Kd, residual = np.zeros((r, n - r)), 0.0
    if n > r:
        Kd = np.linalg.lstsq(R[:, independent], R[:, dependent], rcond=None)[0]
        residual = float(np.abs(R[:, dependent] - R[:, independent] @ Kd).max())
        # What rounding leaves of exact zeros would read as tiny groupings.
        Kd[np.abs(Kd) < 1e-13 * np.abs(Kd).max(initial=1.0)] = 0.0
        Kd = Kd * lengths[dependent] / lengths[independent, None]
    K = np.zeros((r, n))
    K[np.arange(r), independent] = 1.0
    K[:, dependent] = Kd
    doubtful = np.concatenate([sigma, short])  # scaled to unit length, a short column leaves no small singular value
    ambiguous = doubtful[(doubtful > AMBIGUOUS_RANGE[0]) & (doubtful < AMBIGUOUS_RANGE[1])]
    gap = float(sigma[r - 1] / max(sigma[r], np.finfo(float).tiny)) if 0 < r < n else np.inf
    certificate = RankCertificate(r, n, sigma, gap, ambiguous, residual, count, seed, tolerance)
    return BaseParameters(robot, inertial, names, independent, dependent, Kd, K, certificate)


def _select_pivot_columns(R: Array, rank: int) -> NDArray[np.intp]:
    """Returns the indices of `rank` well-conditioned columns of R, by Householder QR with column pivoting."""
    R = R.copy()
    left = np.arange(R.shape[1])
    taken: list[int] = []
    for k in range(rank):
        news = (R[k:, left] ** 2).sum(axis=0)
        best = int(np.argmax(news >= PIVOT_FRACTION**2 * news.max()))
        column = int(left[best])
        left = np.delete(left, best)
        taken.append(column)
        x = R[k:, column].copy()
        x[0] += np.copysign(np.linalg.norm(x), x[0])
        x /= np.linalg.norm(x)
        R[k:, left] -= 2.0 * np.outer(x, x @ R[k:, left])
    return np.array(taken, dtype=np.intp)


def triangular_factor(A: Array) -> Array:
    """Returns the upper triangle R of the factorization ``A = Q R``."""
    return np.asarray(np.linalg.qr(A, mode="r"), dtype=np.float64)


def _format_range(values: Array) -> str:
    return f"{values.min():.0e} to {values.max():.0e}"


@dataclass(frozen=True, slots=True, eq=False)
class Grouping(FrozenArrays):
    """Null space of the parameters: the changes that no motion can reveal, from the joint axes.

    Attributes:
        columns: number n of parameters.
        null_space: (n, d) orthonormal parameter changes that leave the torques of every motion unchanged; each row
            in the unit of its parameter.
        by_body: number of these changes that are due to the joint of each body, by body name.
    """

    columns: int
    null_space: Array
    by_body: dict[str, int]

    @property
    def rank(self) -> int:
        """Number of base parameters."""
        return self.columns - len(self.null_space.T)

    def disagreement(self, base: BaseParameters) -> float:
        """Compares the null space with that of numerically computed base parameters; 0 if they are equal.

        Args:
            base: base parameters of the same robot and parameters.

        Returns:
            Sine of the largest angle between the two null spaces; inf where their dimensions differ.
        """
        if self.rank != base.size:
            return np.inf
        Q = np.linalg.qr(base.K.T)[0]  # changes that motions reveal; the null space must be orthogonal to them
        return float(np.linalg.norm(Q.T @ self.null_space, 2)) if self.null_space.size and Q.size else 0.0


def group_by_rule(robot: Robot, *, inertial: bool = False, tolerance: float = 1e-9) -> Grouping:
    """Computes the null space of the parameters of a robot from its joint axes.

    A change of a body's inertia has no effect if the opposite change of its parent compensates for it: if it puts no
    momentum on the joint's axis, for any velocity that the parent can have, and if moving the joint does not change its
    effect on the parent.  The velocities that a parent can have form a subspace, computed from the base outwards;
    gravity is an acceleration of the world, hence one of them.

    Args:
        robot: any robot.
        inertial: whether to use ten parameters per body instead of 13.
        tolerance: threshold of the singular values of each small matrix, relative to the largest.
    """
    if not isinstance(robot, Robot):
        raise ArgumentTypeError(f"robot: expected a Robot from quaddyn.load, got {type(robot).__name__}")
    robot.reject_coupled_joints("base parameters")
    width = N_INERTIAL_COLUMNS if inertial else N_COLUMNS
    n = width * len(robot.bodies)
    gravity = robot.model.gravity.linear
    world = np.zeros((6, 0))
    if gravity.any():
        world = np.concatenate([gravity / np.linalg.norm(gravity), np.zeros(3)])[:, None]
    spans: list[Array] = []  # for each body, a basis of the velocities that it can have, in its own frame
    null, by_body = [], {}
    for i, body in enumerate(robot.bodies):
        Phi = _motion_subspace(body, robot.root)
        X = _transform_from_parent(body)
        before = _invariant_closure(X @ (world if body.parent < 0 else spans[body.parent]), Phi, tolerance)
        spans.append(_span(np.hstack([before, Phi]), tolerance))
        if body.parent < 0 and not Phi.shape[1]:  # fixed to the world
            free = np.eye(N_INERTIAL_COLUMNS + 1)[:, :N_INERTIAL_COLUMNS]
        else:
            free = _unobservable_changes(
                before, Phi, rotor=not inertial and Phi.shape[1] == 1 and body.parent >= 0, tol=tolerance
            )
        by_body[body.name] = free.shape[1]
        for change in free.T:
            parameter_change = np.zeros((len(robot.bodies), width))
            parameter_change[i, :N_INERTIAL_COLUMNS] = change[:N_INERTIAL_COLUMNS]
            if not inertial:
                parameter_change[i, N_COLUMNS - 1] = change[N_INERTIAL_COLUMNS]
            if body.parent >= 0:
                inertia_in_parent = X.T @ np.tensordot(change[:N_INERTIAL_COLUMNS], UNIT_INERTIAS, 1) @ X
                parameter_change[body.parent, :N_INERTIAL_COLUMNS] -= _parameters(inertia_in_parent)
            null.append(parameter_change.ravel())
        if not inertial:  # the base and joints of several degrees of freedom have no joint parameters
            for k in range(N_INERTIAL_COLUMNS, N_COLUMNS):
                if body.parent < 0 or Phi.shape[1] != 1:
                    by_body[body.name] += 1
                    null.append(np.eye(n)[width * i + k])
    basis = np.linalg.qr(np.array(null).T)[0] if null else np.zeros((n, 0))
    return Grouping(n, basis, by_body)


def _unobservable_changes(before: Array, Phi: Array, *, rotor: bool, tol: float) -> Array:
    """Returns the changes of a body that an opposite change of its parent compensates.

    Args:
        before: (6, k) basis of the velocities of the body that its parent can cause.
        Phi: (6, dof) motion subspace of the joint.
        rotor: whether the joint has a rotor inertia.
        tol: relative tolerance of the rank.

    Returns:
        (11, d) changes of the ten inertial parameters and the rotor inertia.
    """
    pairs = np.triu_indices(before.shape[1])
    joint_crosses = [_cross(phi) for phi in Phi.T]
    conditions = []
    for G in UNIT_INERTIAS:
        on_axes = Phi.T @ G @ np.hstack([Phi, before])
        # Derivative of the inertia seen by the parent with respect to the joint coordinate, d/dq X^T G X.
        derivatives = [(before.T @ (G @ cross + cross.T @ G) @ before)[pairs] for cross in joint_crosses]
        conditions.append(np.concatenate([on_axes.ravel(), *derivatives]))
    rotor_condition = np.zeros_like(conditions[0])
    rotor_condition[0] = 1.0
    A = np.array([*conditions, rotor_condition]).T
    if not rotor:
        A = np.vstack([A, np.eye(N_INERTIAL_COLUMNS + 1)[-1]])
    scale = np.linalg.norm(A, axis=1)
    A = A[scale > tol * max(scale.max(initial=0.0), 1e-300)]
    _, sigma, Vt = np.linalg.svd(A)
    return np.asarray(Vt[np.count_nonzero(sigma > tol * sigma.max(initial=0.0)) :].T)


def _motion_subspace(body: CompositeBody, root: str) -> Array:
    """Returns the motion subspace (6, dof) of the joint of a body, linear before angular, in the frame of the body."""
    eye = np.eye(6)
    if body.joint is None:
        return {"free": eye, "planar": eye[:, [0, 2, 4]], "fixed": eye[:, :0]}[root]
    axis, zero = body.joint.axis / np.linalg.norm(body.joint.axis), np.zeros(3)
    kind = body.joint.type
    if kind == "floating":
        return eye
    if kind == "prismatic":
        return np.concatenate([axis, zero])[:, None]
    rotation = np.concatenate([zero, axis])[:, None]
    if kind == "planar":
        normals = np.linalg.svd(axis[None])[2][1:].T
        return np.hstack([np.vstack([normals, np.zeros((3, 2))]), rotation])
    return rotation


def _transform_from_parent(body: CompositeBody) -> Array:
    """Returns the motion transform (6, 6) from the frame of the parent to that of the body, with the joint at zero."""
    Rt, p = body.placement.rotation.T, body.placement.translation
    return np.block([[Rt, -Rt @ _skew(p)], [np.zeros((3, 3)), Rt]])


def _invariant_closure(V: Array, Phi: Array, tolerance: float) -> Array:
    """Returns a basis of the smallest subspace that contains V and is invariant under every motion of the joint."""
    V = _span(V, tolerance)
    while True:
        extended = _span(np.hstack([V, *(_cross(phi) @ V for phi in Phi.T)]), tolerance)
        if extended.shape[1] == V.shape[1]:
            return extended
        V = extended


def _span(V: Array, tolerance: float) -> Array:
    """Returns an orthonormal basis of the span of the columns of V."""
    U, sigma, _ = np.linalg.svd(V, full_matrices=False)
    return np.asarray(U[:, sigma > tolerance * sigma.max(initial=0.0)])


def _skew(p: Array) -> Array:
    """Returns the matrix (3, 3) of the cross product with p."""
    x, y, z = p
    return np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])


def _cross(twist: Array) -> Array:
    """Returns the motion cross product (6, 6) of a twist (linear, angular)."""
    v, w = _skew(twist[:3]), _skew(twist[3:])
    return np.block([[w, v], [np.zeros((3, 3)), w]])


def _parameters(G: Array) -> Array:
    """Returns the inertial parameters (10,) of a spatial inertia (6, 6), linear before angular."""
    return np.array([*G[3:, 3:][np.triu_indices(3)], G[5, 1], G[3, 2], G[4, 0], G[0, 0]])


def _units() -> Array:
    """Returns the spatial inertias (10, 6, 6) of the unit parameters ``[Lxx Lxy Lxz Lyy Lyz Lzz lx ly lz m]``."""
    out = np.zeros((N_INERTIAL_COLUMNS, 6, 6))
    for k, (row, column) in enumerate(zip(*np.triu_indices(3), strict=True)):
        out[k, 3 + row, 3 + column] = out[k, 3 + column, 3 + row] = 1.0
    for k in range(3):
        H = _skew(np.eye(3)[k])
        out[6 + k, :3, 3:], out[6 + k, 3:, :3] = -H, H
    out[9, :3, :3] = np.eye(3)
    return out


UNIT_INERTIAS = _units()
