"""The levels' equalities alone: if no limit forbids what they ask for, the hierarchy is solved.

Level after level, ``x = x + Z y`` with the least ``|J (x + Z y) - target|^2``, Z a basis of what the levels above leave
free; y lives in the range of ``J Z``, and Z loses it.  Before that, the problem's rows are laid out for the core.
"""

from __future__ import annotations

import math

from ..compiler import Matrix, Vector, compiled
from ..compiler.lanes import clear, copy_columns, dot, gemm, gemv, gemv_transposed
from ..compiler.linalg import (
    RowFactor,
    apply_reflectors,
    factor_rows,
    inverse_square,
    least_squares,
    norm,
    undo_reflectors,
)
from .problem import WORST_KKT
from .workspace import FLOOR, KEPT, Hierarchy

#: A bound of at least this size is no bound.
UNBOUNDED = 1e100

#: Least singular value, relative to the longest row, beyond which the rank needs no closer look.
SURE = 1e-6


@compiled()
def load_bounds(h: Hierarchy) -> None:
    """Bounds in `lower` and `upper`; where they meet or cross, their middle, and the row is an equality."""
    lower, upper, equal = h.work.lower, h.work.upper, h.work.equal
    for i in range(h.p):
        low, high = h.problem.lower[i], h.problem.upper[i]
        a = low if low > -UNBOUNDED else -math.inf
        c = high if high < UNBOUNDED else math.inf
        equal[i] = 0
        if a > -math.inf and c < math.inf and c <= a + 4e-16 * abs(a):
            equal[i] = 1
            a = 0.5 * (a + c)
            c = a
        lower[i] = a
        upper[i] = c


@compiled()
def load_inequalities(h: Hierarchy) -> None:
    """Inequalities as columns in `C`, and their bounds once more in `lower_given` and `upper_given`."""
    given, columns, lower, upper = h.problem.C, h.work.C, h.work.lower, h.work.upper
    lower_given, upper_given = h.work.lower_given, h.work.upper_given
    for i in range(h.p):
        for j in range(h.n):
            columns[j, i] = given[i, j]
        lower_given[i] = lower[i]
        upper_given[i] = upper[i]


@compiled(inline=False)
def load_level(h: Hierarchy, k: int) -> int:
    """Level k's objective ``|J x - target|^2`` in `J`, `J_target` and `J_length`, once; the number of its rows.

    They are its equalities and its inequalities whose bounds meet; rows of length 0 are left out.  The level below
    the last asks for the x of minimum norm.
    """
    J, target, length = h.work.J[k], h.work.J_target[k], h.work.J_length[k]
    problem, count, lower, equal, n = h.problem, h.work.J_count, h.work.lower, h.work.equal, h.n
    if count[k] >= 0:
        return int(count[k])
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
        if problem.A_length[i] > 0.0:
            for j in range(n):
                J[j, m] = problem.A[i, j]
            target[m] = problem.b[i]
            length[m] = problem.A_length[i]
            m += 1
    for i in range(problem.C_start[k], problem.C_start[k + 1]):
        if equal[i] != 0 and problem.C_length[i] > 0.0:
            for j in range(n):
                J[j, m] = problem.C[i, j]
            target[m] = lower[i]
            length[m] = problem.C_length[i]
            m += 1
    count[k] = m
    return m


@compiled()
def reset_basis(h: Hierarchy) -> None:
    """The identity for a basis: all is free."""
    Q = h.work.basis
    for i in range(h.n):
        clear(Q[i], h.n)
        Q[i, i] = 1.0


@compiled()
def project(M: Matrix, m: int, n: int, Q: Matrix, q: int, out: Matrix) -> None:
    """``out = M Z``: m rows in the basis ``Z^T = Q[q:]``, which is the identity as long as all is free."""
    if q == 0:
        copy_columns(out, M, n, m)
    else:
        gemm(out, Q[q:], M, n - q, n, m)


@compiled()
def subtract_from(target: Vector, M: Matrix, m: int, n: int, x: Vector, out: Vector) -> None:
    """``out = target - M x`` over m rows."""
    gemv(out, x, M, n, m)
    for i in range(m):
        out[i] = target[i] - out[i]


@compiled()
def step_along(h: Hierarchy, q: int, d: int, step: Vector) -> None:
    """Move x by a step in d directions of the basis from q on."""
    x, move = h.solution.x, h.work.pull
    gemv(move, step, h.work.basis[q:], d, h.n)
    for i in range(h.n):
        x[i] += move[i]


@compiled()
def decides_all(
    R: Matrix, m: int, d: int, tolerance: float, length: Vector, rhs: Vector, y: Vector, scratch: Vector, f: RowFactor
) -> bool:
    """Whether m rows decide all d directions beyond doubt; if so, y is what they ask for.

    The least singular value is at least ``1 / |R^-1|`` (Frobenius).  Where `factor_rows` finds less than full rank it
    is at most sqrt(m) times the tolerance times the longest row.
    """
    if m <= d:
        return False
    longest = 0.0
    for i in range(m):
        longest = max(longest, length[i])
    least_squares(R, m, 0, d, length, rhs, y, f)
    bound = max(SURE, math.sqrt(m) * tolerance) * longest
    for k in range(d):
        if not abs(f.triangle[k, k]) > bound:  # the least singular value is at most that
            return False
    return 1.0 > bound * math.sqrt(inverse_square(f.triangle, d, scratch, f.triangle[d + 1]))


@compiled()
def append_damping(h: Hierarchy, r: int, m: int, q: int) -> None:
    """Rows below m others that pull r directions of the freedom to ``x = 0``: ``damping (x + Z y) = 0``."""
    Q, R, length, rhs, x, damping = (
        h.work.basis,
        h.work.R,
        h.work.R_length,
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
    """Move x to the optimum of level k's equalities in the freedom from q on; the rank."""
    m, n, x, d, damping, tolerance = (
        load_level(h, k),
        h.n,
        h.solution.x,
        h.n - q,
        h.settings.damping,
        h.settings.rank_tolerance,
    )
    Q, R, rhs, length, y = h.work.basis, h.work.R, h.work.R_rhs, h.work.R_length, h.work.y
    J, target, given_length = h.work.J[k], h.work.J_target[k], h.work.J_length[k]
    gradient, left = h.work.gradient, h.work.row_values
    m = load_level(h, k)
    if m == 0:
        return 0
    project(J, m, n, Q, q, R)
    subtract_from(target, J, m, n, x, rhs)
    for i in range(m):
        length[i] = given_length[i]
    r, rows, turned = d, m, False
    if damping > 0.0 or not decides_all(R, m, d, tolerance, length, rhs, y, gradient, h.work.factor):
        # The rank is that of the level itself; a damped step lives in its range.
        r = factor_rows(R, m, 0, d, length, tolerance, h.work.factor)
        turned = r == d and damping == 0.0  # of a basis of which nothing is left: the step is turned back instead
        if not turned:
            apply_reflectors(Q[q:], n, 0, r, d, h.work.factor.reflectors)
        if damping > 0.0:
            append_damping(h, r, m, q)
            rows = m + r
        least_squares(R, rows, 0, r, length, rhs, y, h.work.factor)
    # The certificate: the gradient vanishes in the range.
    gemv(left, y, R, r, rows)
    for i in range(rows):
        left[i] -= rhs[i]
    gemv_transposed(gradient, R, left, r, rows)
    square = 0.0
    for j in range(r):
        square += gradient[j] * gradient[j]
    if turned:
        undo_reflectors(y, r, d, h.work.factor.reflectors)
    step_along(h, q, r, y)
    size = norm(x, n)
    unit = 1e-300
    for i in range(m):
        unit += given_length[i] * ((2.0 + FLOOR) * abs(target[i]) + abs(left[i]) + FLOOR * given_length[i] * size)
    h.solution.kkt[k] = math.sqrt(square) / unit
    return r


@compiled(inline=False)
def solve_equalities(h: Hierarchy, first: int, last: int) -> None:
    """Solve by equalities alone, from a level up to before another: x, ranks and kkt of every level, and the basis.

    Those before the first must have been solved.
    """
    x, ranks, kkt, summary, n = h.solution.x, h.solution.ranks, h.solution.kkt, h.solution.summary, h.n
    if first == 0:
        reset_basis(h)
        for i in range(n):
            x[i] = 0.0
        for k in range(h.levels + 1):
            h.work.J_count[k] = -1
            ranks[k] = 0.0
            kkt[k] = 0.0
    q = 0
    for k in range(first):
        q += int(ranks[k])
    for k in range(first, last):
        if q == n:
            break
        r = solve_equality_level(h, k, q)
        summary[WORST_KKT] = max(summary[WORST_KKT], kkt[k])
        ranks[k] = r
        q += r
    ranks[h.levels] = n - q


@compiled()
def keeps_inequalities(h: Hierarchy, reach: float) -> bool:
    """Whether x, of length `reach`, keeps all inequalities."""
    C, length, x, lower, upper = h.problem.C, h.problem.C_length, h.solution.x, h.work.lower, h.work.upper
    equal = h.work.equal
    for i in range(h.p):
        y = dot(C[i], x, h.n)
        size = length[i] * reach
        if y > upper[i] + KEPT * (size + abs(upper[i])) or y < lower[i] - KEPT * (size + abs(lower[i])):
            if equal[i] == 0:
                return False
    return True
