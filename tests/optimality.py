"""Optimality conditions of whole-body problems, checked without code of the solver.

Level k of a lexicographic least-squares problem is optimal at x if its gradient is balanced by the rows of the levels
above (which are fixed) and by active limits (Karush, Kuhn and Tucker on each level; Escande, Mansard and
Wieber 2014, section 3):

    g_k + E^T nu + N^T lambda = 0,   lambda >= 0,

with E the equality rows and violated limits above, N the outward normals of limits that are reached, at level k or
above.  nu is projected out by a QR factorization; lambda comes from non-negative least squares (Lawson and Hanson 1974,
chapter 23).  The result is |g + ...| relative to the size of the gradient's terms.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from quaddyn.wbc.tick_problem import TickProblem

Array = NDArray[np.float64]

#: A limit within this distance of its bound, in weighted units, counts as reached.
REACHED = 1e-7


def worst_residual(problem: TickProblem, x: Array) -> float:
    """Largest relative residual of the conditions over all levels, from the problem and x only."""
    n = problem.n
    fixed, outward = np.zeros((0, n)), np.zeros((0, n))
    worst = 0.0
    for groups in problem.levels:
        gradient, size = np.zeros(n), 1e-12
        rows, normals = [np.zeros((0, n))], [np.zeros((0, n))]
        for g in groups:
            A, low, high = (
                g.weights[:, None] * g.A,
                g.weights * g.lower,
                g.weights * g.upper,
            )
            y = A @ x
            over, under = y - high, low - y
            wanted = g.lower == g.upper
            held = wanted | (over > REACHED) | (under > REACHED)
            slack = np.where(wanted, y - low, np.maximum(over, 0.0) - np.maximum(under, 0.0))
            slack = np.where(held, slack, 0.0)
            gradient += A.T @ slack
            size += float(np.linalg.norm(A, axis=1) @ np.abs(np.where(wanted, np.abs(y) + np.abs(low), slack)))
            rows.append(A[held])
            top, bottom = ~held & (np.abs(over) <= REACHED), ~held & (np.abs(under) <= REACHED)
            normals += [A[top], -A[bottom]]
        outward = np.vstack((outward, *normals))
        worst = max(worst, _unbalanced(gradient, fixed, outward) / size)
        fixed = np.vstack((fixed, *rows))
    return worst


def _unbalanced(gradient: Array, fixed: Array, outward: Array) -> float:
    """Least ``|g + E^T nu + N^T lambda|`` over nu and ``lambda >= 0``."""
    basis = _range(fixed.T)
    free = gradient - basis @ (basis.T @ gradient)
    lengths = np.linalg.norm(outward, axis=1)
    N = (outward[lengths > 0.0] / lengths[lengths > 0.0, None]).T
    N = N - basis @ (basis.T @ N)
    left = np.linalg.norm(N, axis=0)
    N = N[:, left > 1e-9] / left[left > 1e-9]  # normals in the span of the rows above have no effect
    return float(np.linalg.norm(free + N @ non_negative_least_squares(N, -free)))


def _range(A: Array) -> Array:
    """Orthonormal basis of the column space of A with normalized columns."""
    lengths = np.linalg.norm(A, axis=0)
    A = A[:, lengths > 0.0] / lengths[lengths > 0.0]
    if not A.size:
        return np.zeros((len(A), 0))
    U, s, _ = np.linalg.svd(A, full_matrices=False)
    return U[:, s > 1e-9 * s[0]]


def non_negative_least_squares(A: Array, b: Array, iterations: int = 400) -> Array:
    """The x >= 0 that minimizes ``|A x - b|``."""
    n = A.shape[1]
    x, active = np.zeros(n), np.zeros(n, dtype=bool)
    scale = 1e-12 * (1.0 + float(np.abs(A.T @ b).max(initial=0.0)))
    for _ in range(iterations):
        w = A.T @ (b - A @ x)
        w[active] = -np.inf
        if not n or w.max() <= scale:
            break
        active[int(np.argmax(w))] = True
        while True:
            z = np.zeros(n)
            z[active] = np.linalg.lstsq(A[:, active], b, rcond=1e-12)[0]
            if (z[active] > 0.0).all():
                break
            bad = active & (z <= 0.0)
            step = np.min(x[bad] / np.maximum(x[bad] - z[bad], 1e-300))
            x = x + step * (z - x)
            active &= x > 1e-14
            if not active.any():
                break
        x = np.where(active, z, 0.0)
    return x
