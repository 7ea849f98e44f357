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

`StackedRegressor`: regressors of many samples at once, ``y = H(q, v, a) delta`` row by row, with their validation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pinocchio as pin
from numpy.typing import NDArray

from ..deprecation import renamed_attributes
from ..dynamics.arguments import UNIT_NORM_TOLERANCE
from ..dynamics.regressor import N_COLUMNS, N_INERTIAL_COLUMNS, RegressorColumns
from ..errors import ArgumentError, ArgumentTypeError
from ..robot.arguments import check_number
from ..robot.bodies import CompositeBody
from ..robot.robot import Robot
from ..urdf.tree import Array, FrozenArrays

#: The 13 parameters of a body in the order of `Dynamics.regressor`'s columns (source C, step 2).
PARAMETERS = ("Lxx", "Lxy", "Lxz", "Lyy", "Lyz", "Lzz", "lx", "ly", "lz", "m", "fv", "fc", "Ia")

#: Samples whose regressors stay in the cache until their columns are picked.
_CACHED = 32

_joint_regressor = pin.computeJointTorqueRegressor


def parameter_names(robot: Robot, *, inertial: bool = False) -> tuple[str, ...]:
    """Returns the names of the entries of `Dynamics.parameters`.

    "m FL_thigh" of a body, "fv FL_thigh_joint" of its joint.

    Args:
        robot: the robot.
        inertial: only the first ten of each body.
    """
    names = []
    for body in robot.bodies:
        for k, parameter in enumerate(PARAMETERS[: N_INERTIAL_COLUMNS if inertial else N_COLUMNS]):
            owner = body.name if k < N_INERTIAL_COLUMNS or body.joint is None else body.joint.name
            names.append(f"{parameter} {owner}")
    return tuple(names)


class StackedRegressor:
    """Regressor H of many samples, in selected columns only.

    Owns mutable memory: one per thread.

    Args:
        robot: the robot.
        inertial: columns of the ten inertial parameters only, instead of all 13, of each body.
        columns: indices of the selected columns of `Dynamics.regressor`; by default all.

    Attributes:
        robot: the robot.
        columns: indices of its columns among those of `Dynamics.regressor`.
        support: (nv, len(columns)) whether an entry of H can be nonzero: the torque of a joint depends only on the
            bodies that it carries.
    """

    def __init__(self, robot: Robot, *, inertial: bool = False, columns: NDArray[np.intp] | None = None) -> None:
        if not isinstance(robot, Robot):
            raise ArgumentTypeError(f"robot: expected a Robot from quaddyn.load, got {type(robot).__name__}")
        robot.reject_coupled_joints("identification")
        self.robot = robot
        self._model, self._data = robot.model, robot.model.createData()
        of_bodies = RegressorColumns(robot)
        width = N_INERTIAL_COLUMNS if inertial else N_COLUMNS
        selected = np.arange(width * of_bodies.bodies) if columns is None else np.asarray(columns, dtype=np.intp)
        self.columns: NDArray[np.intp] = selected
        # Pinocchio's columns become ours by one constant matrix, mostly a permutation.
        size = 10 * (robot.model.njoints - 1)
        T = np.zeros((size, width * of_bodies.bodies)).reshape(size, of_bodies.bodies, width)
        rest = np.zeros(size)
        T[:, :, :N_INERTIAL_COLUMNS] = of_bodies.regressor(np.eye(size), rest, rest, rest, only_inertial=True).reshape(
            size, -1, N_INERTIAL_COLUMNS
        )
        self._T = T.reshape(size, -1)[:, selected]
        single = (np.count_nonzero(self._T, axis=0) <= 1) & (self._T.max(axis=0, initial=0.0) == self._T.sum(axis=0))
        ones = np.isin(self._T, (0.0, 1.0)).all(axis=0) & single
        # Columns before rows, as Pinocchio's matrices lie in memory.
        self._scratch = np.empty((_CACHED, size, robot.nv))
        # A selection of columns is several times cheaper than a product.
        self._pick = np.argmax(self._T, axis=0) if ones.all() else None
        self._empty = np.flatnonzero(~self._T.any(axis=0))
        parameter, body = selected % width, selected // width
        axes = np.array(of_bodies.axes, dtype=np.intp)[body]
        self._joint_columns = tuple(
            (np.flatnonzero(own), axes[own])
            for own in (
                (parameter == k) & (axes >= 0)
                for k in (N_INERTIAL_COLUMNS, N_INERTIAL_COLUMNS + 1, N_INERTIAL_COLUMNS + 2)
            )
        )
        self.support = self._find_support(axes, parameter)

    @property
    def width(self) -> int:
        """Number of columns."""
        return len(self.columns)

    def __call__(self, q: Array, v: Array, a: Array, direction: Array | None = None) -> Array:
        """(N, nv, width) regressors of N samples.

        Args:
            q: (N, nq) configurations.
            v: (N, nv) velocities [rad/s, m/s].
            a: (N, nv) accelerations [rad/s^2, m/s^2].
            direction: (N, nv) columns of Coulomb friction, see `Samples`; None: the signs of v.

        Raises:
            ArgumentError: wrong shapes, entries that are not finite, or a quaternion or (cos, sin) not of unit length.
            ArgumentTypeError: not float64 arrays.
        """
        direction = np.sign(v) if direction is None else direction
        check_samples(self.robot, q=q, v=v, a=a, direction=direction)
        N, nv = len(q), self.robot.nv
        H = np.empty((N, nv, self.width))
        model, data = self._model, self._data
        for part in iterate_chunks(N, _CACHED):
            Y_T = self._scratch[: part.stop - part.start]
            for y, k in zip(Y_T, range(part.start, part.stop), strict=True):
                y[...] = _joint_regressor(model, data, q[k], v[k], a[k]).reshape(nv, -1).T
            H[part] = (np.take(Y_T, self._pick, axis=1) if self._pick is not None else self._T.T @ Y_T).transpose(
                0, 2, 1
            )
        H[:, :, self._empty] = 0.0
        for (at, axis), values in zip(self._joint_columns, (v, direction, a), strict=True):
            H[:, axis, at] = values[:, axis]
        if not np.isfinite(H).all():
            raise ArgumentError("regressor: the result overflows although the samples are finite; pass smaller values")
        return H

    def _find_support(self, axes: NDArray[np.intp], parameter: NDArray[np.intp]) -> NDArray[np.bool_]:
        robot = self.robot
        rng = np.random.default_rng(0)
        q, v, a = random_states(robot, 3, rng)
        inertial = parameter < N_INERTIAL_COLUMNS
        out = np.zeros((robot.nv, self.width), dtype=bool)
        # A joint's row is nonzero only in the columns of the bodies that it supports (Featherstone 2008, sec. 3.5).
        for i in range(1, robot.model.njoints):
            joint = robot.model.joints[i]
            rows = slice(joint.idx_v, joint.idx_v + joint.nv)
            below = [10 * (j - 1) + p for j in robot.model.subtrees[i] for p in range(10)]
            out[rows] = (self._T[below] != 0.0).any(axis=0) & inertial
        for at, axis in self._joint_columns:
            out[axis, at] = True
        assert out[(self(q, v, a) != 0.0).any(axis=0)].all()
        return out


def random_states(robot: Robot, count: int, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """Returns random states that excite all parameters: any configuration regardless of limits, and fast motion.

    Returns:
        q (N, nq), v (N, nv), a (N, nv); angles over the full turn, slides within half a meter, angular (linear)
        velocities of up to 3 rad/s (m/s), accelerations of up to 10 rad/s^2 (m/s^2).
    """
    model, nv = robot.model, robot.nv
    reach = np.full(nv, np.pi)
    for body in robot.bodies[1:]:
        if body.joint is not None and body.joint.type == "prismatic":
            reach[robot.velocity_index(body.joint.name)] = 0.5
    zero, steps = pin.neutral(model), reach * rng.uniform(-1.0, 1.0, (count, nv))
    q = np.array([pin.integrate(model, zero, step) for step in steps]).reshape(count, robot.nq)
    return q, rng.uniform(-3.0, 3.0, (count, nv)), rng.uniform(-10.0, 10.0, (count, nv))


def check_samples(robot: Robot, **arrays: Array) -> None:
    """Raises unless each array holds one finite row per sample, and all have the same number of rows.

    q has nq columns, tau nu, others nv.
    """
    count = -1
    for name, value in arrays.items():
        size, word = {"q": (robot.nq, "nq"), "tau": (robot.nu, "nu")}.get(name, (robot.nv, "nv"))
        expected = f"a float64 numpy array of shape (N, {size}) ({word} of {robot.name})"
        if type(value) is not np.ndarray or value.dtype != np.float64:
            got = f"dtype {value.dtype}" if isinstance(value, np.ndarray) else type(value).__name__
            raise ArgumentTypeError(f"{name}: expected {expected}, got {got}")
        if value.ndim != 2 or value.shape[1] != size:
            raise ArgumentError(f"{name}: expected {expected}, got shape {value.shape}")
        if count >= 0 and len(value) != count:
            raise ArgumentError(f"{name}: expected {count} samples, as in the preceding arrays, got {len(value)}")
        count = len(value)
        if not np.isfinite(value).all():
            row, column = np.argwhere(~np.isfinite(value))[0]
            raise ArgumentError(
                f"{name}: every entry must be finite, got {name}[{row}, {column}] = {value[row, column]}"
            )
    if "q" in arrays:
        _check_unit(robot, arrays["q"])


def _check_unit(robot: Robot, q: Array) -> None:
    """Raises unless all quaternions and (cos, sin) in q have unit norm."""
    for name, first, size in robot.unit_norm_slices:
        part = slice(first, first + size)
        error = np.abs(np.linalg.norm(q[:, part], axis=1) - 1.0)
        if error.size and error.max() > UNIT_NORM_TOLERANCE:
            what, row = "quaternion (x, y, z, w)" if size == 4 else "(cos, sin)", int(error.argmax())
            raise ArgumentError(
                f"q: the {what} of joint {name!r} in sample {row}, {q[row, part]}, does not have norm 1 to within "
                f"{UNIT_NORM_TOLERANCE:g}; divide it by its norm"
            )


def iterate_chunks(count: int, size: int) -> Iterator[slice]:
    """Yields slices of at most `size` that cover `count` samples."""
    return (slice(i, min(i + size, count)) for i in range(0, count, size))


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
