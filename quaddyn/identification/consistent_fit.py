"""Physically consistent least squares: Newton's method over parameters that a rigid body can have.

Minimizes ``|A phi - z|^2 / 2 + w sum_k D(J_k | J0_k)`` over the parameters phi of all bodies.  D is the
log-determinant divergence ``tr(J0^-1 J) - log det(J0^-1 J) - 4`` of pseudo-inertias, which does not depend on frames
and units; for friction and rotor inertia its one-dimensional form.  It determines what the data do not, and is infinite
at the boundary of the physically consistent set.  The problem is strictly convex: it has one minimum and no other
stationary point.

Each pseudo-inertia is stored as its Cholesky factor, ``J = U U^T``, so that every iterate is physically consistent;
steps are ``U (1 + S) U^T``.  The minimum is the point of parameter w on the central path of a quadratic program over
positive definite matrices.  Newton's method on J alone, with a strong barrier, finds the path; a primal-dual method
follows it down to w.  Beside J it has a multiplier Z, the gradient of all terms but the logarithms, which is a multiple
of ``J^-1`` on the path, and uses Nesterov-Todd scaling.  Newton's method on J alone would converge slowly once a body
or a friction coefficient is close to the boundary.

Sources: Wensing, Kim, Slotine, *Linear matrix inequalities for physically consistent inertial parameter
identification*, 2018 (pseudo-inertias, which are positive definite for physical bodies); Lee, Wensing, Park, *Geometric
robot dynamic identification: a convex programming approach*, 2020 (divergence); Rucker and Wensing, *Smooth
parameterization of rigid-body inertia*, 2022 (Cholesky factors of pseudo-inertias); Todd, Toh, Tutuncu, *On the
Nesterov-Todd direction in semidefinite programming*, 1998.
"""

from __future__ import annotations

import itertools
from copy import copy
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..dynamics.regressor import N_INERTIAL_COLUMNS
from ..errors import ArgumentError
from ..robot.bodies import point_mass_inertia
from ..urdf.tree import Array, Inertial, frozen
from .base_parameters import triangular_factor


def pseudo_inertia(parameters: Array) -> Array:
    """Returns the pseudo-inertia of ten inertial parameters.

    It is ``[[Sigma, h], [h^T, m]]`` with ``Sigma = tr(L)/2 1 - L``.

    Args:
        parameters: (..., 10) ``[Lxx Lxy Lxz Lyy Lyz Lzz lx ly lz m]`` about the joint frame.

    Returns:
        (..., 4, 4), positive definite exactly if a mass distribution of nonzero extent has these parameters.
    """
    p = np.asarray(parameters, dtype=np.float64)
    return np.asarray(np.tensordot(p, _BASIS, axes=1))


def parameters_of(J: Array) -> Array:
    """Returns the inertial parameters (..., 10) of pseudo-inertias (..., 4, 4)."""
    J = np.asarray(J, dtype=np.float64)
    Sigma = J[..., :3, :3]
    L = np.trace(Sigma, axis1=-2, axis2=-1)[..., None, None] * np.eye(3) - Sigma
    row, column = np.triu_indices(3)
    return np.concatenate([L[..., row, column], J[..., :3, 3], J[..., 3:, 3]], axis=-1)


def upper_cholesky(J: Array) -> Array:
    """Returns the upper triangle U (n, n) with positive diagonal and ``J = U U^T``.

    Raises:
        ArgumentError: J is not positive definite.
    """
    try:
        return np.asarray(np.linalg.cholesky(J[::-1, ::-1])[::-1, ::-1])
    except np.linalg.LinAlgError:
        least = np.linalg.eigvalsh(0.5 * (J + J.T))[0]
        raise ArgumentError(
            f"the pseudo-inertia is not positive definite: its smallest eigenvalue is {least:.3g}"
        ) from None


def is_consistent(parameters: Array) -> bool:
    """Returns whether ten parameters (10,) are physically consistent.

    The mass must be positive and the second moments positive definite.  They are tested about the center of mass, so
    that a distant origin costs no digits.
    """
    J = pseudo_inertia(parameters)
    mass = J[3, 3]
    if not (np.isfinite(J).all() and mass > 0.0):
        return False
    return bool(np.linalg.eigvalsh(J[:3, :3] - np.outer(J[:3, 3], J[:3, 3]) / mass)[0] > 0.0)


def inertial_of(parameters: Array) -> Inertial:
    """Returns mass, center of mass and inertia about it, in the axes of the joint frame, of ten parameters (10,)."""
    p = np.asarray(parameters, dtype=np.float64)
    mass = float(p[9])
    com = p[6:9] / mass if mass else np.zeros(3)
    L = np.zeros((3, 3))
    L[np.triu_indices(3)] = p[:6]
    L = L + np.triu(L, 1).T
    return Inertial(mass, frozen(com), frozen(L - mass * point_mass_inertia(com)))


def _basis() -> Array:
    """Returns the pseudo-inertias (10, 4, 4) of the unit parameters."""
    out = np.zeros((10, 4, 4))
    for k, (row, column) in enumerate(zip(*np.triu_indices(3), strict=True)):
        L = np.zeros((3, 3))
        L[row, column] = L[column, row] = 1.0
        out[k, :3, :3] = 0.5 * np.trace(L) * np.eye(3) - L
    for k in range(3):
        out[6 + k, k, 3] = out[6 + k, 3, k] = 1.0
    out[9, 3, 3] = 1.0
    return out


_BASIS = _basis()


#: Radius of the prior along axes where its second moments vanish, as a singular J has no Cholesky factor [m].
MIN_RADIUS = 1e-3

#: Barrier weight after a step, divided by that before; fraction of the distance to the boundary that a step may go.
BARRIER_REDUCTION, MAX_BOUNDARY_FRACTION = 0.1, 0.9

#: Smallest eigenvalue of J Z divided by the weight, 1 on the central path.  Above the first value, steps go along the
#: path, below it they only return to it; below the second, Newton's method on J alone computes a multiplier first.
MIN_EIGENVALUE_NEAR_PATH, MIN_EIGENVALUE_PRIMAL_DUAL = 0.3, 0.01


@dataclass(frozen=True, slots=True, eq=False)
class ConsistentSolution:
    """Result of `fit_consistent`."""

    phi: Array  # (n,) parameters; physically consistent
    factor: Array  # (k, k) upper triangle R, ``R^T R`` the Hessian of the objective in k coordinates about the minimum
    jacobian: Array  # (n, k) derivatives of phi with respect to those coordinates
    decrement: float  # Newton's estimate of the objective minus its minimum
    iterations: int  # number of steps
    converged: bool  # whether the decrement is below the tolerance


def fit_consistent(
    A: Array, z: Array, prior: Array, *, width: int, weight: float, max_iterations: int = 100, tolerance: float = 1e-12
) -> ConsistentSolution:
    """Computes the physically consistent parameters that fit ``A phi = z`` best.

    Args:
        A: (m, n) regressor of all parameters, rows divided by the noise.
        z: (m,) measured generalized forces, divided by the noise.
        prior: (n,) parameters such as those of the file; bodies without mass keep their parameters.
        width: parameters per body, 10 or 13.
        weight: weight w of the divergence from the prior; positive, and large enough not to be lost beside ``A^T A`` in
            double precision.
        max_iterations: limit of the steps; usually 20 to 60 are needed.
        tolerance: largest decrement at convergence, divided by the weight; a bound of the rounding error is added.
    """
    blocks = _make_blocks(A, prior, width)
    offsets = np.cumsum([0, *(block.size for block in blocks)])
    slices = [slice(i, j) for i, j in itertools.pairwise(offsets)]
    rounding = 1e-18 * float(z @ z)  # rounding error of a decrement, a square of gradients with 9 correct digits
    phi = prior.copy()
    for block in blocks:
        phi[block.indices] = block.value

    def fit(phi: Array) -> float:
        r = A @ phi - z
        return 0.5 * float(r @ r)

    def with_barrier(block_steps: list[_BlockStep], alpha: float) -> float:
        trial, barrier_sum = phi.copy(), 0.0
        for block, block_step in zip(blocks, block_steps, strict=True):
            trial_block = copy(block)
            trial_block.apply_step(block_step, alpha)
            trial[block.indices], barrier_sum = (
                trial_block.value,
                barrier_sum + trial_block.barrier(weight, barrier_weight),
            )
        return fit(trial) + barrier_sum

    identity = np.concatenate([np.zeros(0), *(block.identity for block in blocks)])
    iterations, barrier_weight = 0, max(weight, fit(phi))
    while True:
        jacobian, prior_gradient = np.zeros((len(prior), offsets[-1])), np.zeros(offsets[-1])
        for block, columns in zip(blocks, slices, strict=True):
            jacobian[block.indices, columns], prior_gradient[columns] = (
                block.jacobian(),
                weight * block.divergence_gradient(),
            )
        B, r = A @ jacobian, A @ phi - z
        slope = B.T @ r + prior_gradient
        # estimate of the objective minus its minimum, by Newton's step on J alone
        scaling_root = np.sqrt(weight) * np.eye(offsets[-1])
        newton = _solve_newton_step(B, r, scaling_root, weight * identity - prior_gradient)
        decrement = 0.5 * (float((B @ newton) @ (B @ newton)) + weight * float(newton @ newton))
        converged = bool(decrement <= tolerance * weight + rounding)
        if converged or iterations >= max_iterations:
            factor = triangular_factor(np.concatenate([B, scaling_root]))
            return ConsistentSolution(phi, factor, jacobian, decrement, iterations, converged)
        # Z = slope makes J stationary; it is a multiplier where it is positive definite
        for block, columns in zip(blocks, slices, strict=True):
            block.set_multiplier(slope[columns])
        path_eigenvalue = min(block.min_eigenvalue() for block in blocks) / barrier_weight
        target = (
            max(weight, BARRIER_REDUCTION * barrier_weight)
            if path_eigenvalue > MIN_EIGENVALUE_NEAR_PATH
            else barrier_weight
        )
        if path_eigenvalue > MIN_EIGENVALUE_PRIMAL_DUAL:
            scaling_root = np.zeros((offsets[-1], offsets[-1]))
            for block, columns in zip(blocks, slices, strict=True):
                scaling_root[columns, columns] = np.linalg.cholesky(block.scaling())
        else:
            scaling_root = np.sqrt(barrier_weight) * np.eye(offsets[-1])
            for block in blocks:
                block.set_multiplier(barrier_weight * block.identity)
        step = _solve_newton_step(B, r, scaling_root, target * identity - prior_gradient)
        block_steps = [block.make_step(step[columns], target) for block, columns in zip(blocks, slices, strict=True)]
        if path_eigenvalue > MIN_EIGENVALUE_PRIMAL_DUAL:
            alpha = min(1.0, MAX_BOUNDARY_FRACTION * min(block_step.max_alpha for block_step in block_steps))
            for _ in range(20):  # shorten the step until it ends near the path
                trial_weight = barrier_weight + alpha * (target - barrier_weight)
                smallest_eigenvalue = min(
                    block.min_eigenvalue(block_step, alpha)
                    for block, block_step in zip(blocks, block_steps, strict=True)
                )
                if smallest_eigenvalue >= min(0.9 * path_eigenvalue, 2.0 * MIN_EIGENVALUE_PRIMAL_DUAL) * trial_weight:
                    break
                alpha *= 0.7
        else:  # Newton's method on J alone, with a line search
            alpha = min(1.0, MAX_BOUNDARY_FRACTION * min(block_step.max_primal_alpha for block_step in block_steps))
            start_value = with_barrier(block_steps, 0.0)
            directional_derivative = float((slope - barrier_weight * identity) @ step)
            for _ in range(40):
                if with_barrier(block_steps, alpha) <= start_value + 1e-4 * alpha * directional_derivative:
                    break
                alpha *= 0.5
        barrier_weight += alpha * (target - barrier_weight)
        for block, block_step in zip(blocks, block_steps, strict=True):
            block.apply_step(block_step, alpha)
            phi[block.indices] = block.value
        iterations += 1


def _solve_newton_step(B: Array, r: Array, L: Array, c: Array) -> Array:
    """Solves ``x = (B^T B + L L^T)^-1 (c - B^T r)`` as least squares.

    The condition number of the least-squares problem is the square root of that of the matrix.
    """
    n = B.shape[1]
    upper = np.column_stack([B, -r]), np.column_stack([L.T, np.linalg.solve(L, c)])
    R = triangular_factor(np.concatenate(upper))
    return np.asarray(np.linalg.solve(R[:n, :n], R[:n, n]), dtype=np.float64)


class _BlockStep(NamedTuple):
    """Step of a block."""

    S: Array  # relative change of J: ``J = U (1 + S) U^T``
    dM: Array  # change of M
    max_alpha: float  # step length at which J or Z becomes singular
    max_primal_alpha: float  # step length at which J becomes singular


class _DefiniteBlock:
    """Positive definite matrix ``J = U U^T`` with its multiplier Z, stored as ``M = U^T Z U``; U0 is the prior's U.

    `basis` is an orthonormal basis of the symmetric matrices, in which S has its coordinates.
    """

    basis: Array

    def __init__(self, indices: slice, U: Array) -> None:
        self.indices, self._U, self._ratio = indices, U, np.eye(len(U))
        self._M = np.eye(len(U))
        self.size = len(self.basis)
        self.identity = np.trace(self.basis, axis1=1, axis2=2)

    def set_multiplier(self, coordinates: Array) -> None:
        """Sets the multiplier from the coordinates of M in the basis."""
        self._M = np.tensordot(coordinates, self.basis, 1)

    def parameters(self, J: Array) -> Array:
        """Returns the parameters (..., p) of matrices J, a linear map."""
        raise NotImplementedError

    @property
    def value(self) -> Array:
        """Parameters (p,) that correspond to the present J."""
        return self.parameters(self._U @ self._U.T)

    def jacobian(self) -> Array:
        """Returns the derivatives (p, size) of the parameters with respect to a step: coordinates of S, at S = 0."""
        return np.asarray(self.parameters(self._U @ self.basis @ self._U.T).T)

    def divergence_gradient(self) -> Array:
        """Returns the gradient (size,) of ``tr(J0^-1 J)``."""
        return np.asarray(np.tensordot(self.basis, self._ratio.T @ self._ratio, 2))

    def barrier(self, weight: float, barrier_weight: float) -> float:
        """Returns ``weight tr(J0^-1 J) - at log det(J0^-1 J)``."""
        return weight * float((self._ratio**2).sum()) - 2.0 * barrier_weight * float(
            np.log(self._ratio.diagonal()).sum()
        )

    def scaling(self) -> Array:
        """Returns the matrix (size, size) of the Nesterov-Todd quadratic form ``tr(S M^1/2 S M^1/2)``."""
        root = self._root()
        return np.asarray(np.tensordot(self.basis, root @ self.basis @ root, ((1, 2), (1, 2))))

    def min_eigenvalue(self, block_step: _BlockStep | None = None, alpha: float = 0.0) -> float:
        """Returns the smallest eigenvalue of ``J Z``, after a step of length `alpha` if one is given."""
        M = self._M
        if block_step is not None:
            root = upper_cholesky(np.eye(len(M)) + alpha * block_step.S)
            M = root.T @ (M + alpha * block_step.dM) @ root
        return float(np.linalg.eigvalsh(0.5 * (M + M.T))[0])

    def make_step(self, step: Array, target: float) -> _BlockStep:
        """Returns the step of the block for coordinates of S, aiming at ``Z = target J^-1``."""
        S, root = np.tensordot(step, self.basis, 1), self._root()
        dM = target * np.eye(len(S)) - self._M - root @ S @ root
        inverse = np.linalg.inv(root)
        min_eigenvalue_of_S = float(np.linalg.eigvalsh(S)[0])
        smallest_eigenvalue = min(min_eigenvalue_of_S, float(np.linalg.eigvalsh(inverse @ dM @ inverse)[0]))
        return _BlockStep(S, dM, *(-1.0 / x if x < 0.0 else np.inf for x in (smallest_eigenvalue, min_eigenvalue_of_S)))

    def apply_step(self, block_step: _BlockStep, alpha: float) -> None:
        """Applies a step of length `alpha`, which must be below its maximum."""
        root = upper_cholesky(np.eye(len(self._U)) + alpha * block_step.S)
        self._U, self._ratio = self._U @ root, self._ratio @ root

    def _root(self) -> Array:
        values, axes = np.linalg.eigh(self._M)
        return np.asarray((axes * np.sqrt(np.maximum(values, np.finfo(float).tiny))) @ axes.T)


class _BodyBlock(_DefiniteBlock):
    """Block of the pseudo-inertia (4, 4) of a body."""

    def __init__(self, indices: slice, prior: Array) -> None:
        self.basis = _SYMMETRIC
        super().__init__(indices, upper_cholesky(thicken_pseudo_inertia(pseudo_inertia(prior))))

    def parameters(self, J: Array) -> Array:
        return parameters_of(J)


class _PositiveScalarBlock(_DefiniteBlock):
    """Block (1, 1) of a friction coefficient or a rotor inertia."""

    def __init__(self, indices: slice, prior: float) -> None:
        self.basis = np.ones((1, 1, 1))
        super().__init__(indices, np.array([[np.sqrt(prior)]]))

    def parameters(self, J: Array) -> Array:
        return np.asarray(J[..., 0])


def _make_blocks(A: Array, prior: Array, width: int) -> list[_DefiniteBlock]:
    """Returns the blocks of all bodies and joint parameters on which the data depend."""
    blocks: list[_DefiniteBlock] = []
    lengths = np.linalg.norm(A, axis=0)
    for start in range(0, len(prior), width):
        body = slice(start, start + N_INERTIAL_COLUMNS)
        if prior[start + N_INERTIAL_COLUMNS - 1] > 0.0 and lengths[body].any():
            blocks.append(_BodyBlock(body, prior[body]))
        for k in range(start + N_INERTIAL_COLUMNS, start + width):
            if lengths[k] > 0.0:
                # A prior of zero means "unknown": it is replaced by the smallest value that the data determine.
                blocks.append(_PositiveScalarBlock(slice(k, k + 1), max(float(prior[k]), 1.0 / float(lengths[k]))))
    return blocks


def _symmetric() -> Array:
    """Returns an orthonormal basis (10, 4, 4) of the symmetric matrices."""
    out = np.zeros((N_INERTIAL_COLUMNS, 4, 4))
    for k, (i, j) in enumerate(zip(*np.triu_indices(4), strict=True)):
        out[k, i, j] = out[k, j, i] = 1.0 if i == j else np.sqrt(0.5)
    return out


_SYMMETRIC = _symmetric()


def thicken_pseudo_inertia(J: Array) -> Array:
    """Returns a positive definite pseudo-inertia: point masses and thin rods get a radius of `MIN_RADIUS`."""
    mass, com = J[3, 3], J[:3, 3] / J[3, 3]
    about_com = J[:3, :3] - mass * np.outer(com, com)
    values, axes = np.linalg.eigh(0.5 * (about_com + about_com.T))
    min_moment = mass * MIN_RADIUS**2
    if values[0] >= 1e-6 * min_moment and values[0] >= 1e-9 * values[2]:
        return J
    out = J.copy()
    out[:3, :3] += axes @ np.diag(np.maximum(values, min_moment) - values) @ axes.T
    return out
