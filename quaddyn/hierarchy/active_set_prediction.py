"""A guess of the working sets: which limits would be active if the levels were one weighted sum.

It is looked for on the last level alone first, then with one level more after the other, until the limits can be kept.
In coordinates y of the basis the weighted sum of squares is ``|W (y - y_0)|^2``, W triangular level by level; with
``u = W (y - y_0)`` the sum is least where u is shortest within ``lower <= C x_0 + G u <= upper``, G W = C Q.
"""

from __future__ import annotations

from ..compiler import Matrix, Vector, compiled
from ..compiler.kinds import LANE_WIDTH
from ..compiler.lanes import copy_columns, gemm, gemv_add, reflect_columns, row_squares
from ..compiler.linalg import column_reflector
from .dual_active_set import nearest
from .equalities import step_along
from .problem import ITERATIONS
from .workspace import FIXED, LATER, LIMIT, Hierarchy

#: Weight of a level against the one above it: faint enough for what a level lacks to be 1e5 times what that one does.
FAINT = 1e-6
#: Share of a row's length that counts as none of it.
DECIDED = 1e-10


@compiled(inline=False)
def triangularize(
    M: Matrix, m: int, free: int, first: int, last: int, weight: float, W: Matrix, scratch: Vector
) -> bool:
    """Rows of a block: ``W[first:last, free:last]``, ``|W w| = |M w|`` but for a factor; False if columns depend.

    Args:
        M: (>= last, >= m) columns of the level's rows; destroyed.
        m: number of rows.
        free: first column that counts.
        first: first column of the block, which becomes a triangle; those before it are turned along.
        last: end of the block.
        weight: what the block's diagonal has for a mean in the end.
        W: (>= last, >= last) takes it.
        scratch: (>= m,).
    """
    size = 0.0
    end = LANE_WIDTH * ((m + LANE_WIDTH - 1) // LANE_WIDTH)
    for j in range(free, last):
        for i in range(m, end):
            M[j, i] = 0.0
    for k in range(first, last):
        half, landing = column_reflector(scratch, M[k], k - first, m)
        if not abs(landing) > 0.0:
            return False
        reflect_columns(M[free:], scratch, half, first - free, m)
        reflect_columns(M[k + 1 :], scratch, half, last - k - 1, m)
        M[k, k - first] = landing
        size += abs(landing)
    f = weight * (last - first) / size
    for k in range(first, last):
        for j in range(free, last):
            W[k, j] = f * M[j, k - first] if j < first or j >= k else 0.0
    return True


@compiled(inline=False)
def weigh_level(h: Hierarchy, k: int, free: int, q: int, r: int, weight: float) -> bool:
    """Level k's r rows of W, the first in row q, from column `free` on; False if it has lost its rank."""
    Q, J, J_z, m = h.work.basis, h.work.J[k], h.work.J_z, h.work.J_count[k]
    gemm(J_z[free:], Q[free:], J, q + r - free, h.n, m)
    return triangularize(J_z, m, free, q, q + r, weight, h.work.guess.W, h.work.row_values)


@compiled(inline=False)
def add_normals(h: Hierarchy, q: int, r: int, end: int) -> None:
    """Columns q to q + r of G, with ``C_z = C Q^T = G W``; those of the rows of W up to `end` must be there.

    A limit that the levels above have decided has rounding for a normal: no step changes it, and it has none.
    """
    W, G, C_z, less = h.work.guess.W, h.work.guess.G, h.work.C_z, h.work.guess.along
    square, reach, length = h.work.guess.G_square, h.work.guess.reach, h.problem.C_length
    gemm(C_z[q:], h.work.basis[q:], h.work.C, r, h.n, h.p)
    copy_columns(G[q:], C_z[q:], r, h.p)
    row_squares(square, C_z[q:], r, h.p)
    for i in range(h.p):
        reach[i] += square[i]
        least = DECIDED * length[i]
        if reach[i] <= least * least:
            for c in range(q, q + r):
                G[c, i] = 0.0
    for c in range(q, q + r):
        column = G[c]
        for e in range(q, end):
            less[e - q] = -W[e, c]
        gemv_add(column, column, less, G[q:], c - q, h.p)
        if end > q + r:
            gemv_add(column, column, less[r:], G[q + r :], end - q - r, h.p)
        f = 1.0 / W[c, c]
        for i in range(h.p):
            column[i] *= f


@compiled()
def move_to_guess(h: Hierarchy, first: int, q: int) -> None:
    """``x = x + Q^T y`` with ``W y = u``, block by block from the first level to the last."""
    W, u, y = h.work.guess.W, h.work.z, h.work.z_next
    low = q
    for k in range(first, h.levels):
        r = int(h.solution.ranks[k])
        for i in range(low, low + r):
            t = u[i - q]
            for j in range(q, low):
                t -= W[i, j] * y[j]
            y[i] = t
        for i in range(low + r - 1, low - 1, -1):
            t = y[i]
            for j in range(i + 1, low + r):
                t -= W[i, j] * y[j]
            y[i] = t / W[i, i]
        low += r
    for i in range(low, h.n):
        y[i] = u[i - q]
    step_along(h, q, h.n - q, y[q:])


@compiled(inline=False)
def guess_active_set(h: Hierarchy, reach: float) -> int:
    """The first level that limits touch, or -1; x moved to the guess's point, sets and multipliers in `guess`.

    All limits of that level and of those above it are kept by the point; `C_z` has the columns of that level and those
    below it.  Level 0 with inequalities is left to `find_least_violation`: its own do not limit it.
    """
    n, W, role, ranks, C_start = h.n, h.work.guess.W, h.work.role, h.solution.ranks, h.problem.C_start
    q = n - int(ranks[h.levels])
    end = q
    free = int(ranks[0]) if C_start[1] > 0 else 0  # level 0 is no part of the sum
    weight = 1.0
    for i in range(h.p):
        h.work.guess.reach[i] = 0.0
    for i in range(q, n):  # what no level decides: the identity, beside which nothing stands
        for j in range(q, n):
            W[i, j] = 0.0
        W[i, i] = 1.0
    add_normals(h, q, n - q, n)
    gemv_add(h.work.at_start, h.work.zero, h.solution.x, h.work.C, n, h.p)
    for first in range(h.levels - 1, -1, -1):
        r = int(ranks[first])
        if r == 0:
            continue
        if first == 0 and C_start[1] > 0:
            break
        q -= r
        weight /= FAINT
        if not weigh_level(h, first, free, q, r, weight):
            return -1
        add_normals(h, q, r, end)
        for i in range(h.p):
            role[i] = LATER
        for i in range(C_start[0], C_start[first + 1]):
            role[i] = FIXED if h.work.equal[i] != 0 else LIMIT
        found, changes = nearest(h, h.work.guess, q, reach)
        h.solution.summary[ITERATIONS] += changes
        if found:
            move_to_guess(h, first, q)
            return first
    return -1
