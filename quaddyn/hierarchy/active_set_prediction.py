"""Prediction of the working sets: the limits that are active if the levels are one weighted sum.

The prediction starts with the last level alone and adds one level after the other from below, until the limits can be
satisfied.  In coordinates y of the basis the weighted sum of squares is ``|W (y - y_0)|^2`` with W triangular level by
level; with ``u = W (y - y_0)`` its minimum is the shortest u with ``lower <= C x_0 + G u <= upper``, ``G W = C Q``.
"""

from __future__ import annotations

from ..compiler import Matrix, Vector, compiled
from ..compiler.kinds import LANE_WIDTH
from ..compiler.lanes import copy_columns, gemm, gemv_add, reflect_columns, row_squares
from ..compiler.linalg import column_reflector
from .dual_active_set import find_minimum_norm_point
from .equalities import move_along_basis
from .workspace import Hierarchy, LimitRole

#: Weight of a level relative to the level above it; small enough for the residual of a level to be 1e5 times that of
#: the level above.
LOWER_LEVEL_WEIGHT = 1e-6
#: Fraction of its reference norm below which a row has no component in the null space.
DETERMINED_ROW_TOLERANCE = 1e-10


@compiled(inline=False)
def triangularize(
    M: Matrix, m: int, first_column: int, first: int, last: int, weight: float, W: Matrix, scratch: Vector
) -> bool:
    """Triangularizes the rows of a level: writes W with ``|W w| = |M w|`` up to a factor, for one block of columns.

    Args:
        M: (>= last, >= m) columns of the level's rows; overwritten.
        m: number of rows.
        first_column: first column to transform.
        first: first column of the block, which becomes a triangle; the columns before it are transformed with it.
        last: end of the block.
        weight: mean of the block's diagonal after scaling.
        W: (>= last, >= last) output.
        scratch: (>= m,) buffer.

    Returns:
        Whether the columns are independent.
    """
    diagonal_sum = 0.0
    end = LANE_WIDTH * ((m + LANE_WIDTH - 1) // LANE_WIDTH)
    for j in range(first_column, last):
        for i in range(m, end):
            M[j, i] = 0.0
    for k in range(first, last):
        reflector_scale, diagonal = column_reflector(scratch, M[k], k - first, m)
        if not abs(diagonal) > 0.0:
            return False
        reflect_columns(M[first_column:], scratch, reflector_scale, first - first_column, m)
        reflect_columns(M[k + 1 :], scratch, reflector_scale, last - k - 1, m)
        M[k, k - first] = diagonal
        diagonal_sum += abs(diagonal)
    factor = weight * (last - first) / diagonal_sum
    for k in range(first, last):
        for j in range(first_column, last):
            W[k, j] = factor * M[j, k - first] if j < first or j >= k else 0.0
    return True


@compiled(inline=False)
def add_weighted_level(h: Hierarchy, k: int, first_column: int, q: int, r: int, weight: float) -> bool:
    """Adds the r rows of level k to W from row q on; returns False if the level lost rank."""
    Q, J, J_z, m = h.work.basis, h.work.J[k], h.work.J_z, h.work.J_count[k]
    gemm(J_z[first_column:], Q[first_column:], J, q + r - first_column, h.n, m)
    return triangularize(J_z, m, first_column, q, q + r, weight, h.work.prediction.W, h.work.row_values)


@compiled(inline=False)
def add_normals(h: Hierarchy, q: int, r: int, end: int) -> None:
    """Computes columns q to q + r of the inequality normals G in the coordinates ``u = W y``, from ``C Q^T = G W``.

    The rows of W up to `end` must be complete.  For a limit that the levels above determine, the component in the null
    space is a rounding error; its normal is set to zero.
    """
    W, G, C_z, coefficients = h.work.prediction.W, h.work.prediction.G, h.work.C_z, h.work.prediction.normal_coordinates
    norms_squared, free_norms_squared, norms = (
        h.work.prediction.G_norms_squared,
        h.work.prediction.free_norms_squared,
        h.problem.C_norms,
    )
    gemm(C_z[q:], h.work.basis[q:], h.work.C, r, h.n, h.p)
    copy_columns(G[q:], C_z[q:], r, h.p)
    row_squares(norms_squared, C_z[q:], r, h.p)
    for i in range(h.p):
        free_norms_squared[i] += norms_squared[i]
        threshold = DETERMINED_ROW_TOLERANCE * norms[i]
        if free_norms_squared[i] <= threshold * threshold:
            for c in range(q, q + r):
                G[c, i] = 0.0
    for c in range(q, q + r):
        column = G[c]
        for e in range(q, end):
            coefficients[e - q] = -W[e, c]
        gemv_add(column, column, coefficients, G[q:], c - q, h.p)
        if end > q + r:
            gemv_add(column, column, coefficients[r:], G[q + r :], end - q - r, h.p)
        inverse_diagonal = 1.0 / W[c, c]
        for i in range(h.p):
            column[i] *= inverse_diagonal


@compiled()
def move_to_prediction(h: Hierarchy, first: int, q: int) -> None:
    """Moves x to the predicted point ``x + Q^T y``, where ``W y = u`` is solved level by level from `first` on."""
    W, u, y = h.work.prediction.W, h.work.z, h.work.z_next
    start = q
    for k in range(first, h.levels):
        r = int(h.solution.ranks[k])
        for i in range(start, start + r):
            remainder = u[i - q]
            for j in range(q, start):
                remainder -= W[i, j] * y[j]
            y[i] = remainder
        for i in range(start + r - 1, start - 1, -1):
            remainder = y[i]
            for j in range(i + 1, start + r):
                remainder -= W[i, j] * y[j]
            y[i] = remainder / W[i, i]
        start += r
    for i in range(start, h.n):
        y[i] = u[i - q]
    move_along_basis(h, q, h.n - q, y[q:])


@compiled(inline=False)
def predict_active_set(h: Hierarchy, x_norm: float) -> int:
    """Predicts the working sets and moves x to the predicted point; returns the first level with limits, or -1.

    The point satisfies all limits of that level and of those above it; sets and multipliers are in `prediction`; `C_z`
    has the columns of that level and those below it.  Level 0 with inequalities is left to `find_least_violation`,
    because its own inequalities are not limits for it.
    """
    n, W, role, ranks, C_start = h.n, h.work.prediction.W, h.work.role, h.solution.ranks, h.problem.C_start
    q = n - int(ranks[h.levels])
    end = q
    first_column = int(ranks[0]) if C_start[1] > 0 else 0  # the weighted sum does not include level 0
    weight = 1.0
    h.work.prediction.free_norms_squared[: h.p] = 0.0
    for i in range(q, n):  # directions that no level determines: identity block
        for j in range(q, n):
            W[i, j] = 0.0
        W[i, i] = 1.0
    add_normals(h, q, n - q, n)
    gemv_add(h.work.C_at_start, h.work.zeros, h.solution.x, h.work.C, n, h.p)
    for first in range(h.levels - 1, -1, -1):
        r = int(ranks[first])
        if r == 0:
            continue
        if first == 0 and C_start[1] > 0:
            break
        q -= r
        weight /= LOWER_LEVEL_WEIGHT
        if not add_weighted_level(h, first, first_column, q, r, weight):
            return -1
        add_normals(h, q, r, end)
        for i in range(h.p):
            role[i] = LimitRole.LOWER_LEVEL
        for i in range(C_start[0], C_start[first + 1]):
            role[i] = LimitRole.FIXED if h.work.is_equality[i] != 0 else LimitRole.LIMIT
        is_found, changes = find_minimum_norm_point(h, h.work.prediction, q, x_norm)
        h.solution.summary.iterations += changes
        if is_found:
            move_to_prediction(h, first, q)
            return first
    return -1
