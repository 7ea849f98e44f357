"""The best physically consistent parameters: Newton's method where every point is a robot.

Minimizes ``|A phi - z|^2 / 2 + w sum_k D(J_k | J0_k)`` over the parameters phi of all bodies.  D is the
log-determinant divergence ``tr(J0^-1 J) - log det(J0^-1 J) - 4`` of pseudo-inertias, free of the choice of frames and
units; for friction and rotor inertia its one-dimensional form.  It settles what the data cannot tell, and is infinite
at the border of what is physical.  The problem is strictly convex: there is one minimum, and no other stationary point.

Each pseudo-inertia is held as its Cholesky factor, ``J = U U^T``, so that no iterate can be unphysical, and steps are
``U (1 + S) U^T``.  The minimum is the point of parameter w on the central path of a quadratic program over positive
definite matrices.  Newton's method on J alone, with a strong barrier, finds the path; a primal-dual method follows it
down to w: beside J there is the multiplier Z, the gradient of all but the logarithms, which on the path is a multiple
of ``J^-1``, and Nesterov and Todd's scaling treats the two alike.  Newton's method on J alone would creep once a body
or a friction has come near the border.

Source: Lee, Wensing, Park, *Geometric robot dynamic identification: a convex programming approach*, 2020 (divergence);
Rucker and Wensing, *Smooth parameterization of rigid-body inertia*, 2022 (Cholesky factors of pseudo-inertias); Todd,
Toh, Tutuncu, *On the Nesterov-Todd direction in semidefinite programming*, 1998.
"""

from __future__ import annotations

import itertools
from copy import copy
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..dynamics.regressor import N_INERTIAL_COLUMNS
from ..urdf.tree import Array
from .base_parameters import triangle
from .inertia import parameters_of, pseudo_inertia, upper_cholesky

#: A body whose second moments vanish along an axis has no log-Cholesky coordinates: its prior gets this radius [m].
LEAST_RADIUS = 1e-3

#: What a step aims at, as a share of the weight at which it is; and how much of the way to the border it may go.
PATH_STEP, BORDER_SHARE = 0.1, 0.9

#: Least eigenvalue of J Z over the weight, 1 on the central path: above the first, steps go along the path, below they
#: only return to it; below the second there is no multiplier yet, and Newton's method on J alone finds one.
NEAR_PATH, FAR_FROM_PATH = 0.3, 0.01


@dataclass(frozen=True, slots=True, eq=False)
class ConsistentSolution:
    """The minimum, and how near to it the iteration stopped.

    Attributes:
        phi: (n,) parameters; physically consistent.
        factor: (k, k) upper triangle R, ``R^T R`` the Hessian of the objective in k coordinates about the minimum.
        jacobian: (n, k) of phi by those coordinates.
        decrement: Newton's estimate of how far the objective is above its minimum.
        iterations: steps taken.
        converged: whether the decrement is below the tolerance.
    """

    phi: Array
    factor: Array
    jacobian: Array
    decrement: float
    iterations: int
    converged: bool


def minimize(
    A: Array, z: Array, prior: Array, *, width: int, weight: float, max_iterations: int = 100, tolerance: float = 1e-12
) -> ConsistentSolution:
    """The parameters that fit ``A phi = z`` best among those of physical robots.

    Args:
        A: (m, n) regressor of all parameters, rows divided by the noise.
        z: (m,) measured, divided by the noise.
        prior: (n,) parameters such as those of the file; bodies without mass stay as they are.
        width: parameters per body, 10 or 13.
        weight: w, of the divergence from the prior; above 0, and not so little that doubles lose it beside ``A^T A``.
        max_iterations: as a rule 20 to 60 are needed.
        tolerance: of the decrement, over the weight; that and rounding.
    """
    blocks = _blocks(A, prior, width)
    places = np.cumsum([0, *(block.size for block in blocks)])
    spans = [slice(i, j) for i, j in itertools.pairwise(places)]
    rounding = 1e-18 * float(z @ z)  # of a decrement, a square of gradients good to 9 digits
    phi = prior.copy()
    for block in blocks:
        phi[block.where] = block.value

    def fit(phi: Array) -> float:
        r = A @ phi - z
        return 0.5 * float(r @ r)

    def with_barrier(moves: list[_Move], share: float) -> float:
        trial, extra = phi.copy(), 0.0
        for block, move in zip(blocks, moves, strict=True):
            other = copy(block)
            other.take(move, share)
            trial[block.where], extra = other.value, extra + other.barrier(weight, at)
        return fit(trial) + extra

    identity = np.concatenate([block.identity for block in blocks])
    iterations, at = 0, max(weight, fit(phi))
    while True:
        jacobian, own = np.zeros((len(prior), places[-1])), np.zeros(places[-1])
        for block, span in zip(blocks, spans, strict=True):
            jacobian[block.where, span], own[span] = block.jacobian(), weight * block.pull()
        B, r = A @ jacobian, A @ phi - z
        slope = B.T @ r + own
        # how far the objective itself is above its minimum, by Newton's step on J alone
        root = np.sqrt(weight) * np.eye(places[-1])
        newton = _step(B, r, root, weight * identity - own)
        decrement = 0.5 * (float((B @ newton) @ (B @ newton)) + weight * float(newton @ newton))
        done = bool(decrement <= tolerance * weight + rounding)
        if done or iterations >= max_iterations:
            factor = triangle(np.concatenate([B, root]))
            return ConsistentSolution(phi, factor, jacobian, decrement, iterations, done)
        # Z = slope makes J stationary; it is a multiplier where it is positive definite
        for block, span in zip(blocks, spans, strict=True):
            block.multiply(slope[span])
        central = min(block.least() for block in blocks) / at
        target = max(weight, PATH_STEP * at) if central > NEAR_PATH else at
        if central > FAR_FROM_PATH:
            root = np.zeros((places[-1], places[-1]))
            for block, span in zip(blocks, spans, strict=True):
                root[span, span] = np.linalg.cholesky(block.scaling())
        else:
            root = np.sqrt(at) * np.eye(places[-1])
            for block in blocks:
                block.multiply(at * block.identity)
        step = _step(B, r, root, target * identity - own)
        moves = [block.move(step[span], target) for block, span in zip(blocks, spans, strict=True)]
        if central > FAR_FROM_PATH:
            share = min(1.0, BORDER_SHARE * min(move.room for move in moves))
            for _ in range(20):  # stay about the path
                goal = at + share * (target - at)
                least = min(block.least(move, share) for block, move in zip(blocks, moves, strict=True))
                if least >= min(0.9 * central, 2.0 * FAR_FROM_PATH) * goal:
                    break
                share *= 0.7
        else:  # Newton's method on J alone, with a line search
            share = min(1.0, BORDER_SHARE * min(move.room_of_S for move in moves))
            here, down = with_barrier(moves, 0.0), float((slope - at * identity) @ step)
            for _ in range(40):
                if with_barrier(moves, share) <= here + 1e-4 * share * down:
                    break
                share *= 0.5
        at += share * (target - at)
        for block, move in zip(blocks, moves, strict=True):
            block.take(move, share)
            phi[block.where] = block.value
        iterations += 1


def _step(B: Array, r: Array, L: Array, c: Array) -> Array:
    """``x = (B^T B + L L^T)^-1 (c - B^T r)`` as least squares, whose condition is the root of the matrix's own."""
    n = B.shape[1]
    upper = np.column_stack([B, -r]), np.column_stack([L.T, np.linalg.solve(L, c)])
    R = triangle(np.concatenate(upper))
    return np.asarray(np.linalg.solve(R[:n, :n], R[:n, n]), dtype=np.float64)


class _Move(NamedTuple):
    """A step of a block: S, the change of M, and the shares of it at which J or Z, and J alone, become singular."""

    S: Array
    dM: Array
    room: float
    room_of_S: float


class _Block:
    """A positive definite matrix ``J = U U^T`` with its multiplier Z, held as ``M = U^T Z U``; U0 is that of the prior.

    `basis` is an orthonormal one of the symmetric matrices, in which S has its coordinates.
    """

    basis: Array

    def __init__(self, where: slice, U: Array) -> None:
        self.where, self._U, self._ratio = where, U, np.eye(len(U))
        self._M = np.eye(len(U))
        self.size = len(self.basis)
        self.identity = np.trace(self.basis, axis1=1, axis2=2)

    def multiply(self, coordinates: Array) -> None:
        """Set the multiplier, by the coordinates of M."""
        self._M = np.tensordot(coordinates, self.basis, 1)

    def parameters(self, J: Array) -> Array:
        """(..., p) parameters of matrices J, a linear map."""
        raise NotImplementedError

    @property
    def value(self) -> Array:
        return self.parameters(self._U @ self._U.T)

    def jacobian(self) -> Array:
        """(p, size) derivatives of the parameters by the coordinates of S at S = 0."""
        return np.asarray(self.parameters(self._U @ self.basis @ self._U.T).T)

    def pull(self) -> Array:
        """(size,) derivatives of ``tr(J0^-1 J)``."""
        return np.asarray(np.tensordot(self.basis, self._ratio.T @ self._ratio, 2))

    def barrier(self, weight: float, at: float) -> float:
        """``weight tr(J0^-1 J) - at log det(J0^-1 J)``."""
        return weight * float((self._ratio**2).sum()) - 2.0 * at * float(np.log(self._ratio.diagonal()).sum())

    def scaling(self) -> Array:
        """(size, size) Nesterov and Todd's quadratic form ``tr(S M^1/2 S M^1/2)``."""
        root = self._root()
        return np.asarray(np.tensordot(self.basis, root @ self.basis @ root, ((1, 2), (1, 2))))

    def least(self, move: _Move | None = None, share: float = 0.0) -> float:
        """Least eigenvalue of ``J Z``, after a share of a move."""
        M = self._M
        if move is not None:
            root = upper_cholesky(np.eye(len(M)) + share * move.S)
            M = root.T @ (M + share * move.dM) @ root
        return float(np.linalg.eigvalsh(0.5 * (M + M.T))[0])

    def move(self, step: Array, target: float) -> _Move:
        """What a step in S does to the multiplier, aiming at ``Z = target J^-1``."""
        S, root = np.tensordot(step, self.basis, 1), self._root()
        dM = target * np.eye(len(S)) - self._M - root @ S @ root
        inverse = np.linalg.inv(root)
        alone = float(np.linalg.eigvalsh(S)[0])
        least = min(alone, float(np.linalg.eigvalsh(inverse @ dM @ inverse)[0]))
        return _Move(S, dM, *(-1.0 / x if x < 0.0 else np.inf for x in (least, alone)))

    def take(self, move: _Move, share: float) -> None:
        """Go a share of a move, below its room."""
        root = upper_cholesky(np.eye(len(self._U)) + share * move.S)
        self._U, self._ratio = self._U @ root, self._ratio @ root

    def _root(self) -> Array:
        values, axes = np.linalg.eigh(self._M)
        return np.asarray((axes * np.sqrt(np.maximum(values, np.finfo(float).tiny))) @ axes.T)


class _Body(_Block):
    """The pseudo-inertia of a body."""

    def __init__(self, where: slice, prior: Array) -> None:
        self.basis = _SYMMETRIC
        super().__init__(where, upper_cholesky(spread_out(pseudo_inertia(prior))))

    def parameters(self, J: Array) -> Array:
        return parameters_of(J)


class _Positive(_Block):
    """One positive number."""

    def __init__(self, where: slice, prior: float) -> None:
        self.basis = np.ones((1, 1, 1))
        super().__init__(where, np.array([[np.sqrt(prior)]]))

    def parameters(self, J: Array) -> Array:
        return np.asarray(J[..., 0])


def _blocks(A: Array, prior: Array, width: int) -> list[_Block]:
    blocks: list[_Block] = []
    lengths = np.linalg.norm(A, axis=0)
    for start in range(0, len(prior), width):
        body = slice(start, start + N_INERTIAL_COLUMNS)
        if prior[start + N_INERTIAL_COLUMNS - 1] > 0.0 and lengths[body].any():
            blocks.append(_Body(body, prior[body]))
        for k in range(start + N_INERTIAL_COLUMNS, start + width):
            if lengths[k] > 0.0:
                # A prior of zero means "unknown": the data could just see this much.
                blocks.append(_Positive(slice(k, k + 1), max(float(prior[k]), 1.0 / float(lengths[k]))))
    return blocks


def _symmetric() -> Array:
    """(10, 4, 4) an orthonormal basis of the symmetric matrices."""
    out = np.zeros((N_INERTIAL_COLUMNS, 4, 4))
    for k, (i, j) in enumerate(zip(*np.triu_indices(4), strict=True)):
        out[k, i, j] = out[k, j, i] = 1.0 if i == j else np.sqrt(0.5)
    return out


_SYMMETRIC = _symmetric()


def spread_out(J: Array) -> Array:
    """A pseudo-inertia that is positive definite: a point or a rod gets a radius of `LEAST_RADIUS`."""
    mass, com = J[3, 3], J[:3, 3] / J[3, 3]
    about_com = J[:3, :3] - mass * np.outer(com, com)
    values, axes = np.linalg.eigh(0.5 * (about_com + about_com.T))
    least = mass * LEAST_RADIUS**2
    if values[0] >= 1e-6 * least and values[0] >= 1e-9 * values[2]:
        return J
    out = J.copy()
    out[:3, :3] += axes @ np.diag(np.maximum(values, least) - values) @ axes.T
    return out
