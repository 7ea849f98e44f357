"""The best physically consistent parameters: Newton's method where every point is a robot.

Minimizes ``|A phi - z|^2 / 2 + w sum_k D(J_k | J0_k)`` over the parameters phi of all bodies.  D is the
log-determinant divergence ``tr(J0^-1 J) - log det(J0^-1 J) - 4`` of pseudo-inertias, free of the choice of frames and
units; for friction and rotor inertia its one-dimensional form.  It settles what the data cannot tell, and is infinite
at the border of what is physical.  The problem is strictly convex: there is one minimum, and no other stationary point.

Each pseudo-inertia is held as its Cholesky factor, ``J = U U^T``, so that no iterate can be unphysical, and steps are
``U (1 + S) U^T``, in which the Hessian of D is the identity.  As in interior-point methods the weight is lowered to w
by factors of ten from where the prior dominates, which bounds the number of steps (Boyd and Vandenberghe, *Convex
Optimization*, 2004, sections 9.6 and 11.3).

Source: Lee, Wensing, Park, *Geometric robot dynamic identification: a convex programming approach*, 2020 (divergence);
Rucker and Wensing, *Smooth parameterization of rigid-body inertia*, 2022 (Cholesky factors of pseudo-inertias).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from ..dynamics.regressor import INERTIAL
from ..urdf.tree import Array
from .inertia import parameters_of, pseudo_inertia, upper_cholesky

#: A body whose second moments vanish along an axis has no log-Cholesky coordinates: its prior gets this radius [m].
LEAST_RADIUS = 1e-3


@dataclass(frozen=True, slots=True, eq=False)
class ConsistentSolution:
    """The minimum, and how near to it the iteration stopped.

    Attributes:
        phi: (n,) parameters; physically consistent.
        hessian: (k, k) of the objective in k coordinates about the minimum.
        jacobian: (n, k) of phi by those coordinates.
        decrement: Newton's estimate of how far the objective is above its minimum.
        iterations: steps taken.
        converged: whether the decrement is below the tolerance.
    """

    phi: Array
    hessian: Array
    jacobian: Array
    decrement: float
    iterations: int
    converged: bool


def minimize(
    A: Array, z: Array, prior: Array, *, width: int, weight: float, max_iterations: int = 500, tolerance: float = 1e-12
) -> ConsistentSolution:
    """The parameters that fit ``A phi = z`` best among those of physical robots.

    Args:
        A: (m, n) regressor of all parameters, rows divided by the noise.
        z: (m,) measured, divided by the noise.
        prior: (n,) parameters such as those of the file; bodies without mass stay as they are.
        width: parameters per body, 10 or 13.
        weight: w, of the divergence from the prior; above 0.
        max_iterations: of Newton's method, over all weights.
        tolerance: of the decrement, over the weight, plus rounding of the objective.
    """
    blocks = _blocks(A, prior, width)
    places = np.cumsum([0, *(block.size for block in blocks)])
    spans = [slice(i, j) for i, j in itertools.pairwise(places)]
    gram, pull = A.T @ A, A.T @ z
    phi = prior.copy()
    for block in blocks:
        phi[block.where] = block.value

    def fit(phi: Array) -> float:
        r = A @ phi - z
        return 0.5 * float(r @ r)

    iterations, at = 0, max(weight, fit(phi))
    while True:
        # Newton's method for the objective with the weight `at`
        jacobian = np.zeros((len(prior), places[-1]))
        gradient = np.zeros(places[-1])
        for block, span in zip(blocks, spans, strict=True):
            jacobian[block.where, span], gradient[span] = block.jacobian(), at * block.gradient()
        gradient += jacobian.T @ (gram @ phi - pull)
        hessian = jacobian.T @ gram @ jacobian + at * np.eye(places[-1])
        step = np.asarray(-np.linalg.solve(hessian, gradient), dtype=np.float64)
        decrement = -0.5 * float(gradient @ step)
        cost = fit(phi)
        last = at <= weight
        done = decrement <= (tolerance * at if last else 0.1 * at) + 1e-14 * cost
        if (done and last) or iterations >= max_iterations:
            return ConsistentSolution(phi, hessian, jacobian, decrement, iterations, done and last)
        if done:
            at = max(weight, 0.1 * at)
            continue
        objective = cost + at * sum(block.divergence() for block in blocks)
        share = 1.0
        for _ in range(60):
            moved = [block.moved(share * step[span]) for block, span in zip(blocks, spans, strict=True)]
            inside = [block for block in moved if block is not None]
            trial = prior.copy()
            for block in inside:
                trial[block.where] = block.value
            if len(inside) == len(blocks):
                new = fit(trial) + at * sum(block.divergence() for block in inside)
                if new <= objective + 1e-4 * share * float(gradient @ step):
                    break
            share *= 0.5
        else:  # no progress in finite digits
            return ConsistentSolution(phi, hessian, jacobian, decrement, iterations, False)
        blocks, phi, iterations = inside, trial, iterations + 1


class _Body:
    """The pseudo-inertia of a body by its upper triangle, ``J = U U^T``: positive definite whatever happens."""

    size = INERTIAL

    def __init__(self, where: slice, U0: Array, U: Array) -> None:
        self.where, self._U0, self._U = where, U0, U
        self._ratio = np.linalg.solve(U0, U)  # upper triangular, as both are

    @classmethod
    def at_prior(cls, where: slice, prior: Array) -> _Body:
        U = upper_cholesky(spread_out(pseudo_inertia(prior)))
        return cls(where, U, U)

    @property
    def value(self) -> Array:
        """(10,) parameters."""
        return parameters_of(self._U @ self._U.T)

    def jacobian(self) -> Array:
        """(10, 10) derivatives of the parameters by the ten coordinates of S in ``J = U (1 + S) U^T`` at S = 0."""
        return np.asarray(parameters_of(self._U @ _SYMMETRIC @ self._U.T).T)

    def gradient(self) -> Array:
        """(10,) of the divergence; its Hessian in S is the identity."""
        return np.asarray(np.tensordot(_SYMMETRIC, self._ratio.T @ self._ratio - np.eye(4), 2))

    def divergence(self) -> float:
        return float((self._ratio**2).sum() - 2.0 * np.log(self._ratio.diagonal()).sum() - 4.0)

    def moved(self, step: Array) -> _Body | None:
        """At ``U (1 + S) U^T``; None where that is no longer positive definite."""
        try:
            root = np.linalg.cholesky((np.eye(4) + np.tensordot(step, _SYMMETRIC, 1))[::-1, ::-1])[::-1, ::-1]
        except np.linalg.LinAlgError:
            return None
        return _Body(self.where, self._U0, self._U @ root)


class _Positive:
    """One positive number."""

    size = 1

    def __init__(self, where: slice, prior: float, x: float) -> None:
        self.where, self._prior, self._x = where, prior, x

    @property
    def value(self) -> Array:
        return np.array([self._x])

    def jacobian(self) -> Array:
        return np.array([[self._x]])

    def gradient(self) -> Array:
        return np.array([self._x / self._prior - 1.0])

    def divergence(self) -> float:
        ratio = self._x / self._prior
        return float(ratio - np.log(ratio) - 1.0)

    def moved(self, step: Array) -> _Positive | None:
        x = self._x * (1.0 + float(step[0]))
        return _Positive(self.where, self._prior, x) if x > 0.0 else None


def _blocks(A: Array, prior: Array, width: int) -> list[_Body | _Positive]:
    blocks: list[_Body | _Positive] = []
    lengths = np.linalg.norm(A, axis=0)
    for start in range(0, len(prior), width):
        body = slice(start, start + INERTIAL)
        if prior[start + INERTIAL - 1] > 0.0 and lengths[body].any():
            blocks.append(_Body.at_prior(body, prior[body]))
        for k in range(start + INERTIAL, start + width):
            if lengths[k] > 0.0:
                # A prior of zero means "unknown": the data could just see this much.
                x = max(float(prior[k]), 1.0 / float(lengths[k]))
                blocks.append(_Positive(slice(k, k + 1), x, x))
    return blocks


def _symmetric() -> Array:
    """(10, 4, 4) an orthonormal basis of the symmetric matrices."""
    out = np.zeros((INERTIAL, 4, 4))
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
