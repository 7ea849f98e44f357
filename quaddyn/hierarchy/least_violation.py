"""Level 0 where not all of it can be kept: which of its inequalities are violated when it is violated least.

Level 0 has no limits above: it is a sum of squares of equalities and of what inequalities are violated by, quadratic
piece by piece, and Newton's method with a line search changes many of its active rows at a time.  It works with normal
equations, which lose half of the digits: what it finds is a guess, to be verified.

Source: Mangasarian, *A finite Newton method for classification*, Optimization Methods and Software 2002.
"""

from __future__ import annotations

import math

from ..compiler import LANE_WIDTH, ByteMatrix, Matrix, Vector, compiled
from ..compiler.lanes import axpy, clear, dot, gemv, gemv_transposed
from ..compiler.language import load8, store8
from ..compiler.linalg import cholesky, norm
from .equalities import load_level
from .problem import ITERATIONS
from .workspace import KEPT, LATER, GuessWork, Hierarchy

#: What is added to the diagonal of the normal equations, as a share of its largest entry.
STEADY = 1e-12
#: Share of that entry beyond which what is left of a diagonal entry comes from rows.
DECIDED = 1e-8
#: By how much lengths of rows may differ.
EVEN = 1e4
#: Rows of the guess may be kept by this share of the size of their terms, for rounding.
NEAR = 1e-6
#: A step of this share of x is none, nor is a violation of this share of the size of its terms.
STILL = 1e-9
#: A move of this share of x is lost in rounding.
STUCK = 1e-13
#: Relative decrease of the sum of squares up to which it counts as none: rounding of hundreds of terms is up to 1e-13.
DESCENT_TOLERANCE = 1e-12
#: Rounds in a row without a decrease of the sum of squares, after which the search ends.  Where Newton's method ended
#: on random infeasible hierarchies, 96 runs of 103 had no such round, and 99 had at most 3.
MAX_IDLE_ROUNDS = 8
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


@compiled(inline=False)
def add_squares(g: GuessWork, n: int, count: int) -> None:
    """``H += sum_k sign_k row_k row_k^T``, its upper triangle, for the rows in `R` and their signs in `along`."""
    H, rows, sign, f = g.W, g.R, g.along, g.rate
    for j in range(n):
        for k in range(count):
            f[k] = sign[k] * rows[k, j]
        for i in range(j - j % LANE_WIDTH, n, LANE_WIDTH):
            s = load8(H, j, i)
            for k in range(count):
                s += f[k] * load8(rows, k, i)
            store8(s, H, j, i)


@compiled()
def guessed_side(h: Hierarchy, guess: ByteMatrix, i: int) -> int:
    """On which side inequality i is violated in the guess; 0 for neither."""
    if (guess[0, i] > 0 and h.work.upper[i] < math.inf) or (guess[0, i] < 0 and h.work.lower[i] > -math.inf):
        return int(guess[0, i])
    return 0


@compiled()
def side_at(h: Hierarchy, i: int) -> int:
    """On which side inequality i is violated at x; 0 for neither."""
    over = excess(h, i, h.work.at_z[i])
    return 1 if over > 0.0 else (-1 if over < 0.0 else 0)


@compiled(inline=False)
def take_violated(h: Hierarchy, guess: ByteMatrix, guessed: bool) -> int:
    """Take the rows that are violated, at x or in the guess, into the normal equations, and no others; changes."""
    g, n, C = h.work.guess, h.n, h.problem.C
    changes, count = 0, 0
    for i in range(h.problem.C_start[1]):
        if h.work.equal[i] != 0:
            continue
        side = guessed_side(h, guess, i) if guessed else side_at(h, i)
        if side == g.sides[i]:
            continue
        if side == 0 or g.sides[i] == 0:
            g.along[count] = 1.0 if side != 0 else -1.0
            for j in range(n):
                g.R[count, j] = C[i, j]
            count += 1
            if count == n:
                add_squares(g, n, count)
                count = 0
        g.sides[i] = side
        changes += 1
    add_squares(g, n, count)
    return changes


@compiled(inline=False)
def newton_step(h: Hierarchy, gradient: Vector, step: Vector) -> bool:
    """``(H + little) step = -gradient`` by Cholesky's factorization; False if it breaks down.  Destroys gradient."""
    n, H, R = h.n, h.work.guess.W, h.work.guess.J
    most = 0.0
    for j in range(n):
        most = max(most, H[j, j])
    if not cholesky(H, R, n, STEADY * most):
        return False
    for k in range(n):
        f = -gradient[k] / R[k, k]
        step[k] = f
        start = k - k % LANE_WIDTH  # entries before k are done with
        axpy(gradient[start:], f, R[k, start:], n - start)
    for k in range(n - 1, -1, -1):
        step[k] = (step[k] - dot(R[k, k + 1 :], step[k + 1 :], n - k - 1)) / R[k, k]
    return True


@compiled()
def decides_step(h: Hierarchy) -> bool:
    """Whether no direction is left to what `newton_step` has added to the diagonal."""
    H, R, most, least = h.work.guess.W, h.work.guess.J, 0.0, math.inf
    for j in range(h.n):
        most = max(most, H[j, j])
        least = min(least, R[j, j])
    return least * least > DECIDED * most


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


@compiled(inline=False)
def start_newton(h: Hierarchy, reach: float) -> None:
    """Values at x, and the normal equations of the equalities; no row is taken to be violated."""
    g, x, n, J = h.work.guess, h.solution.x, h.n, h.work.J[0]
    m, count = load_level(h, 0), 0
    for j in range(n):
        clear(g.W[j], n)
    for i in range(m):
        g.along[count] = 1.0
        for j in range(n):
            g.R[count, j] = J[j, i]
        count += 1
        if count == n:
            add_squares(g, n, count)
            count = 0
    add_squares(g, n, count)
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


@compiled()
def move(h: Hierarchy, m: int, t: float) -> None:
    """Go a share of the step: x, and the values of all rows."""
    change, x, step = h.work.residual, h.solution.x, h.work.z_next
    for j in range(h.n):
        x[j] += t * step[j]
    axpy(h.work.row_values, t, change, m)
    axpy(h.work.at_z, t, h.work.at_next, h.p)


@compiled(inline=False)
def step_down(h: Hierarchy) -> bool:
    """Newton's step for the rows that are taken to be violated, and by how much it changes the values of rows."""
    n, J, step, m = h.n, h.work.J[0], h.work.z_next, load_level(h, 0)
    gather_gradient(h, m, h.work.gradient, J)
    if not newton_step(h, h.work.gradient, step):
        return False
    gemv(h.work.at_next, step, h.work.C, n, h.p)
    gemv(h.work.residual, step, J, n, m)
    return True


@compiled(inline=False)
def is_plausible(h: Hierarchy, guess: ByteMatrix, reach: float) -> bool:
    """Whether the rows of level 0 that the guess takes to be violated are so where their squares are least.

    If that is at one point alone, the others must not be violated there.  `find_least_violation` can go on from there.
    """
    n, p, step, sides = h.n, h.problem.C_start[1], h.work.z_next, h.work.guess.sides
    start_newton(h, reach)
    take_violated(h, guess, True)
    if not step_down(h):
        for j in range(n):
            step[j] = 0.0
        clear(h.work.residual, load_level(h, 0))
        clear(h.work.at_next, h.p)
        return False
    size, unique = reach + norm(step, n), decides_step(h)
    for i in range(p):
        if h.work.equal[i] != 0:
            continue
        value, room = h.work.at_z[i] + h.work.at_next[i], NEAR * h.problem.C_length[i] * size
        if sides[i] != 0:
            bound = h.work.upper[i] if sides[i] > 0 else h.work.lower[i]
            if sides[i] * (bound - value) > room + NEAR * abs(bound):
                return False
        elif unique and abs(excess(h, i, value)) > room + NEAR * abs(value):
            return False
    return True


@compiled()
def exceeds(h: Hierarchy, m: int, share: float) -> bool:
    """Whether a row of level 0 is violated at x by more than a share of the size of its terms."""
    size, left, length = share * norm(h.solution.x, h.n), h.work.row_values, h.work.J_length
    for i in range(h.problem.C_start[1]):
        if h.work.equal[i] == 0 and abs(excess(h, i, h.work.at_z[i])) > h.problem.C_length[i] * size:
            return True
    for i in range(m):
        if abs(left[i]) > length[0, i] * size:
            return True
    return False


@compiled()
def sum_of_squares(h: Hierarchy, m: int) -> float:
    """What level 0 is at x: the squares of its equalities and of what its inequalities are violated by."""
    total = dot(h.work.row_values, h.work.row_values, m)
    for i in range(h.problem.C_start[1]):
        if h.work.equal[i] == 0:
            over = excess(h, i, h.work.at_z[i])
            total += over * over
    return total


@compiled()
def is_infeasible_beyond_doubt(h: Hierarchy) -> bool:
    """Whether the least violation that was found is more than normal equations may be wrong by."""
    return exceeds(h, load_level(h, 0), NEAR)


@compiled(inline=False)
def find_least_violation(h: Hierarchy, guess: ByteMatrix, started: bool, reach: float) -> bool:
    """Move x to where level 0 is violated least, as far as normal equations can tell; which rows are, in `sides`.

    Args:
        h: the hierarchy.
        guess: (levels + 1, p) any working sets.
        started: whether to go on from where `is_plausible` has just come to.
        reach: size of x, for what rounding allows.

    Returns:
        Whether Newton's method ended, and at rows that are violated.
    """
    m, n, step, x = load_level(h, 0), h.n, h.work.z_next, h.solution.x
    least, idle = math.inf, 0
    if started:
        move(h, m, 1.0)
    else:
        start_newton(h, reach)
    take_violated(h, guess, False)
    for _ in range(min(ROUNDS, h.settings.max_iterations)):
        if not step_down(h):
            return False
        t = search_line(h, m, h.work.residual)
        move(h, m, t)
        if not exceeds(h, m, STILL):
            return False
        changes = take_violated(h, guess, False)
        h.solution.summary[ITERATIONS] += changes
        if changes == 0 and (t == 1.0 or norm(step, n) <= STILL * norm(x, n)):
            return True
        if changes == 0 and t * norm(step, n) <= STUCK * norm(x, n):  # another round would be the same
            return False
        total = sum_of_squares(h, m)
        idle = 0 if total < (1.0 - DESCENT_TOLERANCE) * least else idle + 1
        if idle == MAX_IDLE_ROUNDS:  # rounding decides which rows are violated, and the step leads nowhere
            return False
        least = min(least, total)
    return False
