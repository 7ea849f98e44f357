"""Regressors of many samples at once: ``y = H(q, v, a) delta`` row by row, and validation of the samples."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pinocchio as pin
from numpy.typing import NDArray

from ..dynamics.arguments import UNIT_NORM_TOLERANCE
from ..dynamics.regressor import N_COLUMNS, N_INERTIAL_COLUMNS, RegressorColumns
from ..errors import ArgumentError, ArgumentTypeError
from ..robot.robot import Robot
from ..urdf.tree import Array

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
        # Structure, not chance: a joint's row sees the columns of the joints that it supports (Featherstone 2008, 3.5).
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

    Args:
        robot: the robot.
        count: number N of states.
        rng: random generator.

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
