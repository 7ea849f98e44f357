"""Level 0 where not all of it can be kept: which of its inequalities are violated when it is violated least.

Level 0 has no limits above: it is a sum of squares of equalities and of what inequalities are violated by, quadratic
piece by piece, and Newton's method with a line search changes many of its active rows at a time.  It works with normal
equations, which lose half of the digits: what it finds is a guess, to be verified.

Source: Mangasarian, *A finite Newton method for classification*, Optimization Methods and Software 2002.
"""

from __future__ import annotations

import math

from ..compiling import ByteMatrix, Matrix, Vector, compiled
from ..compiling.lanes import axpy, dot, gemv, gemv_transposed
from ..compiling.linalg import norm
from .equalities import load_level
from .problem import ITERATIONS
from .workspace import KEPT, LATER, Hierarchy

#: What is added to the diagonal of the normal equations, as a share of its largest entry.
STEADY = 1e-12
#: By how much lengths of rows may differ.
EVEN = 1e4
#: Rows of the guess may be kept by this share of the size of their terms, for rounding.
NEAR = 1e-6
#: A step of this share of x is none.
STILL = 1e-9
#: Rounds of Newton's method; of the line search, and the share of the slope that it may leave.
ROUNDS, SEARCH, LEVEL = 60, 20, 1e-3


@compiled()
def is_even(h: Hierarchy) -> bool:
    """Whether the squares of level 0's rows can be summed: their lengths do not differ by too much."""
    shortest, longest = math.inf, 0.0
    for i in range(h.problem.A_start[1]):
        if h.problem.A_length[i] > 0.0:
            shortest, longest = min(shortest, h.problem.A_length[i]), max(longest, h.problem.A_length[i])
    for i in range(h.problem.C_start[1]):
        if h.problem.C_length[i] > 0.0:
            shortest, longest = min(shortest, h.problem.C_length[i]), max(longest, h.problem.C_length[i])
    return longest <= EVEN * shortest


@compiled()
def was_violated(h: Hierarchy, guess: ByteMatrix) -> bool:
    """Whether in the guess level 0 cannot keep its inequalities."""
    for i in range(h.problem.C_start[1]):
        if guess[0, i] != 0 and h.work.equal[i] == 0:
            return True
    return False


@compiled()
def excess(h: Hierarchy, i: int, value: float) -> float:
    """By how much a value of inequality i is beyond its bounds."""
    return float(max(value - h.work.guess.upper[i], 0.0) + min(value - h.work.guess.lower[i], 0.0))


@compiled()
def change_row(h: Hierarchy, i: int, sign: float) -> None:
    """Add inequality i to the normal equations, or take it away."""
    H, row, C = h.work.guess.W, h.work.guess.normal, h.work.C
    for j in range(h.n):
        row[j] = C[j, i]
    for j in range(h.n):
        axpy(H[j], sign * row[j], row, h.n)


@compiled(inline=False)
def newton_step(h: Hierarchy, gradient: Vector, step: Vector) -> bool:
    """``(H + little) step = -gradient`` by Cholesky's factorization; False if it breaks down.  Destroys gradient."""
    n, H, R = h.n, h.work.guess.W, h.work.guess.J
    most = 0.0
    for j in range(n):
        most = max(most, H[j, j])
    for j in range(n):
        for k in range(j, n):
            R[j, k] = H[j, k]
        R[j, j] += STEADY * most
    for k in range(n):
        if not R[k, k] > 0.0:
            return False
        f = 1.0 / math.sqrt(R[k, k])
        for j in range(k, n):
            R[k, j] *= f
        start = k - k % 8
        for i in range(k + 1, n):
            axpy(R[i, start:], -R[k, i], R[k, start:], n - start)
    for k in range(n):
        f = -gradient[k] / R[k, k]
        step[k] = f
        for j in range(k + 1, n):
            gradient[j] += f * R[k, j]
    for k in range(n - 1, -1, -1):
        step[k] = (step[k] - dot(R[k, k + 1 :], step[k + 1 :], n - k - 1)) / R[k, k]
    return True


@compiled()
def slope_at(h: Hierarchy, t: float, flat: float, bend: float) -> tuple[float, float]:
    """Slope of level 0 at a share of the step, and how fast it grows; of its equalities it is ``flat + t bend``."""
    at, move = h.work.at_z, h.work.at_next
    slope, growth = flat + t * bend, bend
    for i in range(h.problem.C_start[1]):
        if h.work.equal[i] == 0:
            over = excess(h, i, at[i] + t * move[i])
            slope += over * move[i]
            growth += move[i] * move[i] if over != 0.0 else 0.0
    return slope, growth


@compiled(inline=False)
def search_line(h: Hierarchy, m: int, change: Vector) -> float:
    """The share of the step, 1 at most, at which level 0 is violated least: Newton's method within a bracket."""
    left, flat, bend, low, high, t = h.work.row_values, 0.0, 0.0, 0.0, 1.0, 1.0
    for i in range(m):
        flat += left[i] * change[i]
        bend += change[i] * change[i]
    first, _growth = slope_at(h, 0.0, flat, bend)
    for _ in range(SEARCH):
        slope, growth = slope_at(h, t, flat, bend)
        if abs(slope) <= LEVEL * abs(first) or (t == 1.0 and slope < 0.0):
            break
        if slope > 0.0:
            high = t
        else:
            low = t
        t = t - slope / growth if growth > 0.0 else low
        if not low < t < high:
            t = 0.5 * (low + high)
    return t


@compiled()
def start_newton(h: Hierarchy, guess: ByteMatrix, guessed: bool, reach: float) -> int:
    """Values at x, normal equations of the equalities and of the rows that are taken to be violated; equalities."""
    g, x, n, J = h.work.guess, h.solution.x, h.n, h.work.J[0]
    m = load_level(h, 0)
    for j in range(n):
        gemv_transposed(g.W[j], J, J[j], n, m)
    gemv(h.work.row_values, x, J, n, m)
    for i in range(m):
        h.work.row_values[i] -= h.work.J_target[0, i]
    gemv(h.work.at_z, x, h.work.C, n, h.p)
    for i in range(h.p):
        low, high, size = h.work.lower[i], h.work.upper[i], h.problem.C_length[i] * reach
        g.lower[i] = low - KEPT * (size + abs(low))
        g.upper[i] = high + KEPT * (size + abs(high))
        g.sides[i] = 0
        h.work.role[i] = LATER
        if i < h.problem.C_start[1] and h.work.equal[i] == 0:
            over = excess(h, i, h.work.at_z[i])
            if guessed:
                over = 0.0
                if (guess[0, i] > 0 and high < math.inf) or (guess[0, i] < 0 and low > -math.inf):
                    over = float(guess[0, i])
            g.sides[i] = 1 if over > 0.0 else (-1 if over < 0.0 else 0)
            if over != 0.0:
                change_row(h, i, 1.0)
    return m


@compiled(inline=False)
def gather_gradient(h: Hierarchy, m: int, gradient: Vector, J: Matrix) -> None:
    """Gradient of level 0 for the rows that are taken to be violated."""
    g, at, slack = h.work.guess, h.work.at_z, h.work.wrong_sign
    for i in range(h.p):
        side = g.sides[i]
        slack[i] = 0.0 if side == 0 else at[i] - (h.work.upper[i] if side > 0 else h.work.lower[i])
    gemv_transposed(gradient, J, h.work.row_values, h.n, m)
    gemv_transposed(h.work.pull, h.work.C, slack, h.n, h.p)
    axpy(gradient, 1.0, h.work.pull, h.n)


@compiled(inline=False)
def is_plausible(h: Hierarchy, guess: ByteMatrix, reach: float) -> bool:
    """Whether the rows of level 0 that the guess takes to be violated are so where their squares are least."""
    n, p, gradient, step, sides = h.n, h.problem.C_start[1], h.work.gradient, h.work.z_next, h.work.guess.sides
    m = start_newton(h, guess, True, reach)
    gather_gradient(h, m, gradient, h.work.J[0])
    if not newton_step(h, gradient, step):
        return False
    gemv(h.work.at_next, step, h.work.C, n, h.p)
    size = reach + norm(step, n)
    for i in range(p):
        bound = h.work.upper[i] if sides[i] > 0 else h.work.lower[i]
        if sides[i] != 0:
            inside = sides[i] * (bound - h.work.at_z[i] - h.work.at_next[i])
            if inside > NEAR * (h.problem.C_length[i] * size + abs(bound)):
                return False
    return True


@compiled(inline=False)
def find_least_violation(h: Hierarchy, guess: ByteMatrix, reach: float) -> bool:
    """Move x to where level 0 is violated least, as far as normal equations can tell; which rows are, in `sides`.

    Args:
        h: the hierarchy.
        guess: (levels + 1, p) any working sets.
        reach: size of x, for what rounding allows.

    Returns:
        Whether Newton's method ended at rows that are violated.
    """
    J, left, at, move, change = h.work.J[0], h.work.row_values, h.work.at_z, h.work.at_next, h.work.residual
    n, sides, gradient, step, x = h.n, h.work.guess.sides, h.work.gradient, h.work.z_next, h.solution.x
    m = start_newton(h, guess, False, reach)
    for _ in range(min(ROUNDS, h.settings.max_iterations)):
        gather_gradient(h, m, gradient, J)
        if not newton_step(h, gradient, step):
            return False
        gemv(move, step, h.work.C, n, h.p)
        gemv(change, step, J, n, m)
        t = search_line(h, m, change)
        for j in range(n):
            x[j] += t * step[j]
        axpy(left, t, change, m)
        axpy(at, t, move, h.p)
        changes, violated = 0, 0
        for i in range(h.problem.C_start[1]):
            over = excess(h, i, at[i]) if h.work.equal[i] == 0 else 0.0
            side = 1 if over > 0.0 else (-1 if over < 0.0 else 0)
            violated += abs(side)
            if side != sides[i]:
                changes += 1
                if side == 0:
                    change_row(h, i, -1.0)
                elif sides[i] == 0:
                    change_row(h, i, 1.0)
                sides[i] = side
        h.solution.summary[ITERATIONS] += changes
        if changes == 0 and (t == 1.0 or norm(step, n) <= STILL * norm(x, n)):
            return violated > 0
    return False
