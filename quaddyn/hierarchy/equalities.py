"""The equalities of all levels alone: if their solution violates no inequality, the hierarchy is solved.

Each level sets ``x = x + Z y``, y minimizing ``|J (x + Z y) - target|^2``, Z a basis of the null space of the levels
above; y lies in the row space of ``J Z``, which is then removed from Z.  Before that, the problem's rows are arranged
by columns for the compiled solver.
"""

from __future__ import annotations

import math

from ..compiler import Matrix, Vector, compiled
from ..compiler.lanes import clear, copy_columns, dot, gemm, gemv, gemv_transposed
from ..compiler.linalg import (
    apply_reflectors,
    factor_rows,
    inverse_square,
    least_squares,
    norm,
    undo_reflectors,
)
from .workspace import (
    FEASIBILITY_TOLERANCE,
    KKT_SCALE_FLOOR,
    Hierarchy,
    forget_objectives,
    level_objective,
    reserve_objectives,
)

#: A bound of at least this size counts as infinite.
INFINITE_BOUND = 1e100

#: Smallest singular value, relative to the longest row, above which the rank is full without a rank-revealing
#: factorization.
RANK_DECISION_TOLERANCE = 1e-6


@compiled()
def load_bounds(h: Hierarchy) -> None:
    """Loads the bounds; an inequality with equal or crossing bounds becomes an equality at their mean."""
    lower, upper, equal = h.work.lower, h.work.upper, h.work.is_equality
    for i in range(h.p):
        given_lower, given_upper = h.problem.lower[i], h.problem.upper[i]
        low_bound = given_lower if given_lower > -INFINITE_BOUND else -math.inf
        high_bound = given_upper if given_upper < INFINITE_BOUND else math.inf
        equal[i] = 0
        if low_bound > -math.inf and high_bound < math.inf and high_bound <= low_bound + 4e-16 * abs(low_bound):
            equal[i] = 1
            low_bound = 0.5 * (low_bound + high_bound)
            high_bound = low_bound
        lower[i] = low_bound
        upper[i] = high_bound


@compiled()
def load_inequalities(h: Hierarchy) -> None:
    """Loads the inequalities as columns into `C`, and copies their bounds to `lower_given` and `upper_given`."""
    given, columns, lower, upper = h.problem.C, h.work.C, h.work.lower, h.work.upper
    lower_given, upper_given = h.work.lower_given, h.work.upper_given
    for i in range(h.p):
        for j in range(h.n):
            columns[j, i] = given[i, j]
        lower_given[i] = lower[i]
        upper_given[i] = upper[i]


@compiled(inline=False)
def load_level(h: Hierarchy, k: int) -> int:
    """Loads the objective of level k, ``|J x - target|^2``, unless it is loaded; returns the number of its rows.

    The rows are the level's equalities and its inequalities whose bounds meet; rows of reference norm 0 are left out.
    The level below the last one minimizes the norm of x.
    """
    J, target, length = level_objective(h, k)
    problem, count, lower, equal, n = h.problem, h.work.J_count, h.work.lower, h.work.is_equality, h.n
    if count[k] >= 0:
        return int(count[k])
    if h.work.J_start[h.levels] == 0:  # all levels use the same memory
        forget_objectives(h)
    m = 0
    if k == h.levels:
        for i in range(n):
            for j in range(n):
                J[i, j] = 0.0
            J[i, i] = 1.0
            target[i] = 0.0
            length[i] = 1.0
        count[k] = n
        return n
    for i in range(problem.A_start[k], problem.A_start[k + 1]):
        if problem.A_norms[i] > 0.0:
            for j in range(n):
                J[j, m] = problem.A[i, j]
            target[m] = problem.b[i]
            length[m] = problem.A_norms[i]
            m += 1
    for i in range(problem.C_start[k], problem.C_start[k + 1]):
        if equal[i] != 0 and problem.C_norms[i] > 0.0:
            for j in range(n):
                J[j, m] = problem.C[i, j]
            target[m] = lower[i]
            length[m] = problem.C_norms[i]
            m += 1
    count[k] = m
    return m


@compiled()
def reset_basis(h: Hierarchy) -> None:
    """Sets the basis to the identity: no level has determined any direction."""
    Q = h.work.basis
    for i in range(h.n):
        clear(Q[i], h.n)
        Q[i, i] = 1.0


@compiled()
def project_rows(M: Matrix, m: int, n: int, Q: Matrix, q: int, out: Matrix) -> None:
    """Computes ``out = M Z`` for m rows, ``Z^T = Q[q:]``; with q = 0 the basis is the identity and `M` is copied."""
    if q == 0:
        copy_columns(out, M, n, m)
    else:
        gemm(out, Q[q:], M, n - q, n, m)


@compiled()
def compute_residual(target: Vector, M: Matrix, m: int, n: int, x: Vector, out: Vector) -> None:
    """Computes ``out = target - M x`` over m rows."""
    gemv(out, x, M, n, m)
    for i in range(m):
        out[i] = target[i] - out[i]


@compiled()
def move_along_basis(h: Hierarchy, q: int, d: int, step: Vector) -> None:
    """Moves x by a step in d directions of the basis from row q on."""
    x, displacement = h.solution.x, h.work.multiplier_gradient
    gemv(displacement, step, h.work.basis[q:], d, h.n)
    for i in range(h.n):
        x[i] += displacement[i]


@compiled()
def solve_if_full_rank(h: Hierarchy, m: int, d: int) -> bool:
    """Solves the m rows of ``h.work.R`` for all d directions if their rank is clearly full; returns whether it is.

    The smallest singular value is at least ``1 / |R^-1|`` (Frobenius norm).  Where `factor_rows` finds less than full
    rank, it is at most sqrt(m) times the tolerance times the longest row.
    """
    if m <= d:
        return False
    R, length, rhs, factor = h.work.R, h.work.R_norms, h.work.R_rhs, h.work.factor
    longest = 0.0
    for i in range(m):
        longest = max(longest, length[i])
    least_squares(R, m, 0, d, length, rhs, h.work.y, factor)
    bound = max(RANK_DECISION_TOLERANCE, math.sqrt(m) * h.settings.rank_tolerance) * longest
    for k in range(d):
        if not abs(factor.triangle[k, k]) > bound:  # an upper bound of the smallest singular value
            return False
    return 1.0 > bound * math.sqrt(inverse_square(factor.triangle, d, h.work.gradient, factor.triangle[d + 1]))


@compiled()
def append_damping_rows(h: Hierarchy, r: int, m: int, q: int) -> None:
    """Appends the rows ``damping (x + Z y) = 0`` for r directions of the null space below m other rows."""
    Q, R, length, rhs, x, damping = (
        h.work.basis,
        h.work.R,
        h.work.R_norms,
        h.work.R_rhs,
        h.solution.x,
        h.settings.damping,
    )
    for i in range(r):
        for j in range(r):
            R[j, m + i] = 0.0
        R[i, m + i] = damping
        s = 0.0
        for c in range(h.n):
            s -= Q[q + i, c] * x[c]
        rhs[m + i] = damping * s
        length[m + i] = damping


@compiled(inline=False)
def solve_equality_level(h: Hierarchy, k: int, q: int) -> int:
    """Moves x to the optimum of level k's equalities in the null space from row q on; returns the rank."""
    m, n, x, d, damping, tolerance = (
        load_level(h, k),
        h.n,
        h.solution.x,
        h.n - q,
        h.settings.damping,
        h.settings.rank_tolerance,
    )
    Q, R, rhs, length, y = h.work.basis, h.work.R, h.work.R_rhs, h.work.R_norms, h.work.y
    J, target, norms_of_level = level_objective(h, k)
    gradient, residual = h.work.gradient, h.work.row_values
    m = load_level(h, k)
    if m == 0:
        return 0
    project_rows(J, m, n, Q, q, R)
    compute_residual(target, J, m, n, x, rhs)
    length[:m] = norms_of_level[:m]
    r, rows, undo_rotation = d, m, False
    if damping > 0.0 or not solve_if_full_rank(h, m, d):
        # The rank is that of the level itself; a damped step lies in its row space.
        r = factor_rows(R, m, 0, d, length, tolerance, h.work.factor)
        undo_rotation = r == d and damping == 0.0  # no null space is left: rotate the step back, not the basis
        if not undo_rotation:
            apply_reflectors(Q[q:], n, 0, r, d, h.work.factor.reflectors)
        if damping > 0.0:
            append_damping_rows(h, r, m, q)
            rows = m + r
        least_squares(R, rows, 0, r, length, rhs, y, h.work.factor)
    # The certificate: the gradient vanishes in the row space.
    gemv(residual, y, R, r, rows)
    for i in range(rows):
        residual[i] -= rhs[i]
    gemv_transposed(gradient, R, residual, r, rows)
    gradient_squared = 0.0
    for j in range(r):
        gradient_squared += gradient[j] * gradient[j]
    if undo_rotation:
        undo_reflectors(y, r, d, h.work.factor.reflectors)
    move_along_basis(h, q, r, y)
    x_norm = norm(x, n)
    scale = 1e-300
    for i in range(m):
        scale += norms_of_level[i] * (
            (2.0 + KKT_SCALE_FLOOR) * abs(target[i]) + abs(residual[i]) + KKT_SCALE_FLOOR * norms_of_level[i] * x_norm
        )
    h.solution.kkt[k] = math.sqrt(gradient_squared) / scale
    return r


@compiled(inline=False)
def solve_equalities(h: Hierarchy, first: int, last: int) -> None:
    """Solves levels `first` to `last` - 1 by their equalities alone: x, ranks, KKT residuals and the basis.

    The levels before the first must have been solved.
    """
    x, ranks, kkt, summary, n = h.solution.x, h.solution.ranks, h.solution.kkt, h.solution.summary, h.n
    if first == 0:
        x[:n] = 0.0
        reserve_objectives(h)
        for k in range(h.levels + 1):
            ranks[k] = 0.0
            kkt[k] = 0.0
    q = 0
    for k in range(first):
        q += int(ranks[k])
    if q == 0:
        reset_basis(h)
    for k in range(first, last):
        if q == n:
            break
        r = solve_equality_level(h, k, q)
        summary.max_kkt = max(summary.max_kkt, kkt[k])
        ranks[k] = r
        q += r
    ranks[h.levels] = n - q


@compiled()
def satisfies_inequalities(h: Hierarchy, x_norm: float) -> bool:
    """Returns whether x, of norm `x_norm`, satisfies all inequalities."""
    C, norms, x, lower, upper = h.problem.C, h.problem.C_norms, h.solution.x, h.work.lower, h.work.upper
    equal = h.work.is_equality
    for i in range(h.p):
        value = dot(C[i], x, h.n)
        scale = norms[i] * x_norm
        if value > upper[i] + FEASIBILITY_TOLERANCE * (scale + abs(upper[i])) or value < lower[
            i
        ] - FEASIBILITY_TOLERANCE * (scale + abs(lower[i])):
            if equal[i] == 0:
                return False
    return True
