"""`row_factor`: which rows of a matrix are new, and an orthonormal basis of what they leave free."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quaddyn.hierarchy.level import Array

EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, slots=True, eq=False)
class RowFactor:
    """``R = L range^T`` to within the tolerance, ``[range, null]`` orthogonal.

    Attributes:
        L: (m, r) rows in the basis `range`.
        range: (d, r) orthonormal basis of what the independent rows see.
        null: (d, d - r) orthonormal basis of what they do not.
        pivots: (r,) the independent rows; ``L[pivots]`` is lower triangular.
    """

    L: Array
    range: Array
    null: Array
    pivots: NDArray[np.intp]

    @property
    def rank(self) -> int:
        """Number of independent rows."""
        return len(self.pivots)

    def least_squares(self, rhs: Array) -> Array:
        """The shortest y (d,) with the least ``|R y - rhs|``."""
        if not self.rank:
            return np.zeros(len(self.range))
        # Long rows first: Householder QR is then stable row by row, however differently the rows are scaled
        # (Cox and Higham 1998).
        order = np.argsort(-np.abs(self.L).max(axis=1), kind="stable")
        Q, R = np.linalg.qr(self.L[order])
        return self.range @ np.linalg.solve(R, Q.T @ rhs[order])

    def multipliers(self, gradient: Array) -> Array:
        """(m,) with ``R^T y = -gradient`` in the range of the rows, 0 for the dependent ones."""
        out = np.zeros(len(self.L))
        if self.rank:
            out[self.pivots] = np.linalg.solve(self.L[self.pivots].T, -(self.range.T @ gradient))
        return out


def row_factor(R: Array, lengths: Array, tolerance: float) -> RowFactor:
    """Householder QR of ``R^T`` with column pivoting, each row measured by its own length.

    A row counts as independent of those before it when what is left of it exceeds `tolerance` times its own length:
    a dimensionless measure that does not depend on the units of the rows.  A remainder at the rounding of the
    longest row is none.

    Args:
        R: (m, d) rows, perhaps projected.
        lengths: (m,) lengths of the rows before any projection.
        tolerance: relative, in [0, 1).
    """
    m, d = R.shape
    least = np.maximum(max(tolerance, 8.0 * EPS) * lengths, 16.0 * EPS * lengths.max(initial=0.0))
    work = R.copy()
    Q = np.eye(d)
    pivots: list[int] = []
    open_rows = np.ones(m, dtype=bool)
    for k in range(min(m, d)):
        left = np.sqrt(np.einsum("ij,ij->i", work[:, k:], work[:, k:]))
        score = np.where(open_rows & (left > least), left, 0.0)
        i = int(np.argmax(score))
        if not score[i] > 0.0:
            break
        v = work[i, k:].copy()
        v[0] += np.copysign(left[i], v[0])
        v /= np.linalg.norm(v)
        work[:, k:] -= 2.0 * np.outer(work[:, k:] @ v, v)
        Q[:, k:] -= 2.0 * np.outer(Q[:, k:] @ v, v)
        work[i, k + 1 :] = 0.0
        open_rows[i] = False
        pivots.append(i)
    r = len(pivots)
    return RowFactor(work[:, :r].copy(), Q[:, :r], Q[:, r:], np.array(pivots, dtype=np.intp))
