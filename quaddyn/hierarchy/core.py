"""The strict hierarchy, compiled: `solve_hierarchy` and `solve_verified`.

**Problem.**  Levels k = 0, 1, ... each minimize ``|A_k x - b_k|^2 + distance(C_k x, [lower_k, upper_k])^2`` among all
x that leave the levels above at their minimum; what freedom is left goes to the x of minimum norm.  An inequality that
its level can keep is from then on a limit for the levels below; one that it cannot keep is held where it is.

**Freedom.**  The rows of an orthogonal matrix Q span the space of x; those from q on, Z, span what the levels above
leave free.  A level is solved for z in ``x = x_start + Z z`` (`project_level`).  When it is done, its own rows and the
inequalities that it holds for good are factored, ``J Z = [L 0] V``: V turns Z, and the rank of the level takes its
first rows away (`finish_level`, `update_null_space`).

**One level** (`active_set`).  A primal active set: the working set's limits are held exactly, the level's own violated
inequalities count as rows of the objective.  Solve for the working set (`working_set`); walk there until an inequality
blocks, which joins; on arrival the row with the worst sign of its multiplier leaves.

**A whole solve** is four attempts, from the cheapest to the surest (`solve_levels`):

1. `solve_equalities`: projections alone.  If x keeps all inequalities, it is the answer.
2. `try_warm_start`: the working sets of the problem before, level by level.  If they are the optimum's, done.
3. `guess_active_set`: the levels as one weighted sum, by a dual active set; its active rows are a good guess of the
   working sets, which are then verified level by level, and repaired by a few rounds where they are not the optimum's.
   If not even level 0 can be kept, `find_least_violation` guesses which of its rows are violated instead; where they
   were violated in the problem before, `solve_violated` does so at once, from the rows that were.
4. `sweep_from` level 0: each level by its active set, from that of the level above.

Every level carries a certificate (`certify`): the residual of its optimality conditions, from its own rows.  Where
the equalities alone led so far away that their rounding is felt near by, the sweep is made once more from the answer.
If an answer is not verified, `solve_verified` tries without the guess, with rows of equal length, and from where it is.

**Rank.**  A row is independent if more is left of it than a share of its reference length (`factor_rows`).

Sources: Escande, Mansard and Wieber, *Hierarchical quadratic programming: fast online humanoid-robot motion
generation*, IJRR 2014; Goldfarb and Idnani 1983 (`nearest`); Golub and Van Loan, *Matrix Computations*
(`compiler.linalg`); Nocedal and Wright, *Numerical Optimization*, section 16.5 (`active_set`).
"""

from __future__ import annotations

import math

from ..compiler import LANE_WIDTH, ByteMatrix, Vector, compiled, entry
from ..compiler.language import load8, store8
from ..compiler.linalg import norm
from .active_set_prediction import guess_active_set
from .equalities import keeps_inequalities, load_bounds, load_inequalities, solve_equalities
from .least_violation import (
    find_least_violation,
    is_even,
    is_infeasible_beyond_doubt,
    is_plausible,
    was_violated,
)
from .level_solver import flag_infeasible, start_over, sweep_from
from .problem import (
    ACTIVE_SET,
    ENDED,
    EQUALITIES,
    INFEASIBLE,
    ITERATIONS,
    PATH,
    REACH,
    WORST_KKT,
    Buffers,
    Problem,
    Settings,
    Solution,
    has_ended,
    is_finite,
    is_infeasible,
    is_verified,
    iterations,
    level_0_violation,
)
from .warm_start import try_warm_start
from .workspace import LATER, Hierarchy, Workspace, restore, save

#: Ratio of reference lengths beyond which a level is first tried with rows of equal length: squares leave 1e-16 only
#: so far.
SPREAD = 1e3
#: Where x of the equalities alone is so many times longer than the answer, the sweep is made again from the answer, so
#: often at most.
FAR, AGAIN = 1e1, 3


@compiled()
def clear(h: Hierarchy) -> None:
    """An empty solution."""
    for k in range(h.levels + 1):
        for i in range(h.p):
            h.solution.working[k, i] = 0
            h.solution.multipliers[k, i] = 0.0


@compiled()
def begin(h: Hierarchy) -> None:
    """Nothing is known yet."""
    summary = h.solution.summary
    summary[ENDED] = 1.0
    summary[PATH] = EQUALITIES
    summary[ITERATIONS] = 0.0
    summary[WORST_KKT] = 0.0
    summary[INFEASIBLE] = 0.0
    load_bounds(h)


@compiled()
def start_from_equalities(h: Hierarchy) -> float:
    """Take x, that of the equalities alone, for where sweeps begin; its length."""
    for i in range(h.n):
        h.work.x_equalities[i] = h.solution.x[i]
    for i in range(h.p):
        h.work.role[i] = LATER
    reach = norm(h.solution.x, h.n)
    h.solution.summary[REACH] = reach
    return reach


@compiled()
def give_up(h: Hierarchy) -> bool:
    """Whether nothing more is asked for, since level 0 cannot be met; if so, which of its rows are violated."""
    if not (h.settings.feasible_only and is_infeasible_beyond_doubt(h)):
        return False
    if level_0_violation(h.problem, h.solution.x) <= 2.0 * h.settings.infeasible_above:
        return False
    summary, sides = h.solution.summary, h.work.guess.sides
    summary[PATH] = ACTIVE_SET
    summary[INFEASIBLE] = 1.0
    for i in range(h.p):
        h.solution.working[0, i] = sides[i]
    for k in range(h.levels + 1):
        h.solution.ranks[k] = 0.0
    return True


@compiled(inline=False)
def solve_violated(h: Hierarchy, guess: ByteMatrix) -> bool:
    """Solve where level 0 was violated in the problem before, and may be so again; whether it is.

    What levels below ask for by equalities is mostly far away, and only counts if the guess may be right.
    """
    clear(h)
    solve_equalities(h, 0, 1)
    reach = start_from_equalities(h)
    load_inequalities(h)
    if is_plausible(h, guess, reach):
        solve_equalities(h, 1, h.levels)
        reach = start_from_equalities(h)
        if try_warm_start(h, guess):
            return True
        is_plausible(h, guess, reach)
    if not find_least_violation(h, guess, True, reach):
        return False
    return give_up(h) or sweep_from(h, 0, True, guess, True)


@compiled(inline=False)
def solve_levels(h: Hierarchy, guess: ByteMatrix, guessed: bool, refine: bool) -> None:
    """Solve once.

    Args:
        h: the hierarchy.
        guess: (levels + 1, p) working sets to try first,
        guessed: if there are any.
        refine: whether x is an answer already, from which the sweep starts instead of from that of the equalities.
    """
    # A damped step is no projection, and rows are scaled where a guess has failed: there nothing is guessed.
    guessing = h.settings.damping == 0.0 and not refine and h.spread > 0.0
    begin(h)
    violated = guessing and guessed and was_violated(h, guess) and is_even(h)
    if violated:
        if solve_violated(h, guess):
            return
        begin(h)
    if not refine:
        clear(h)
        solve_equalities(h, 0, h.levels)
    reach = start_from_equalities(h)
    if not refine and keeps_inequalities(h, reach):
        flag_infeasible(h)
        return
    load_inequalities(h)
    if guessing:
        if guessed and not violated and try_warm_start(h, guess):
            return
        first = guess_active_set(h, reach)
        if first < 0 and is_even(h) and find_least_violation(h, guess, False, reach):
            if give_up(h):
                return
            first = 0
        elif first < 0:
            for i in range(h.n):
                h.solution.x[i] = h.work.x_equalities[i]
        if first >= 0 and sweep_from(h, first, True, guess, guessed):
            return
    start_over(h)
    sweep_from(h, 0, False, guess, guessed)


@compiled(inline=False)
def solve_and_refine(h: Hierarchy, guess: ByteMatrix, guessed: bool) -> None:
    """Solve; once more from the answer as long as that is much nearer than what rounding was measured by."""
    solution, summary = h.solution, h.solution.summary
    solve_levels(h, guess, guessed, False)
    for _ in range(AGAIN):
        near = 0.0 < FAR * norm(solution.x, h.n) < summary[REACH]
        if summary[PATH] == EQUALITIES or is_infeasible(solution) or not has_ended(solution) or not near:
            return
        save(h, h.work.before)
        path, changes = summary[PATH], summary[ITERATIONS]
        solve_levels(h, solution.working, True, True)
        if not has_ended(solution):
            restore(h, h.work.before)
            return
        summary[PATH] = path
        summary[ITERATIONS] += changes


@compiled(inline=False)
def solve_hierarchy(
    problem: Problem, settings: Settings, guess: ByteMatrix, guessed: bool, solution: Solution, work: Workspace
) -> None:
    """Solve a problem.

    Args:
        problem: what is asked for.
        settings: how.
        guess: (levels + 1, p) working sets to try first, such as the last solution's,
        guessed: if there are any.
        solution: takes the answer; not the memory of the guess.
        work: memory, of `workspace` for at least the problem's sizes.
    """
    levels = problem.A_start.shape[0] - 1
    h = Hierarchy(problem, settings, solution, work, problem.n, problem.C_start[levels], levels, SPREAD)
    solve_and_refine(h, guess, guessed)


@compiled(inline=False)
def solve_verified(
    problem: Problem, settings: Settings, guess: ByteMatrix, guessed: bool, solution: Solution, work: Workspace
) -> bool:
    """Solve a problem, as often as it takes; whether the answer is verified.

    If need be once more without the guess; with rows of equal length in all levels with inequalities of their own;
    and from the best answer so far.  If none is verified, the best one stays.  Arguments as of `solve_hierarchy`.
    """
    levels = problem.A_start.shape[0] - 1
    n, p = problem.n, problem.C_start[levels]
    h = Hierarchy(problem, settings, solution, work, n, p, levels, SPREAD)
    solve_and_refine(h, guess, guessed)
    if is_verified(solution, n):
        return True
    scaled = Hierarchy(problem, settings, solution, work, n, p, levels, 0.0)
    summary, changes, known = solution.summary, iterations(solution), is_finite(solution, n)
    save(h, work.best)
    for attempt in range(0 if guessed else 1, 2 + AGAIN):
        if attempt == 0:
            solve_and_refine(h, guess, False)
        elif attempt == 1:
            solve_and_refine(scaled, guess, False)
        elif known:  # from the best answer so far: rounding is then measured by what it is long
            restore(h, work.best)
            solve_levels(h, guess, False, True)
        else:
            break
        changes += iterations(solution)
        if is_finite(solution, n) and (is_better(summary, work.best.summary) or not known):
            save(h, work.best)
            known = True
        if is_verified(solution, n):
            break
    restore(h, work.best)
    solution.summary[ITERATIONS] = changes
    return is_verified(solution, n)


@compiled()
def is_better(a: Vector, b: Vector) -> bool:
    """Whether of two summaries a is that of the better answer: found by active sets that ended, then by kkt."""
    if a[ENDED] != b[ENDED]:
        return float(a[ENDED]) == 1.0
    return float(a[WORST_KKT]) < float(b[WORST_KKT])


@entry("the hierarchy solver")
def solve_buffers(
    rows: Buffers,
    problem: Problem,
    settings: Settings,
    guess: ByteMatrix,
    guessed: bool,
    solution: Solution,
    work: Workspace,
) -> bool:
    """`solve_verified` for the weighted rows of `HierarchySolver`; whether every active set was found.

    The problem takes the rows of A and b times the root of their weights, and all lengths; its C and bounds are those
    of the rows.  Other arguments as of `solve_hierarchy`.
    """
    A, b, n = problem.A, problem.b, problem.n
    for i in range(A.shape[0]):
        root = math.sqrt(rows.weights[i])
        for j in range(0, n - 7, LANE_WIDTH):
            store8(root * load8(rows.A, i, j), A, i, j)
        for j in range(n - n % LANE_WIDTH, n):
            A[i, j] = root * rows.A[i, j]
        b[i] = root * rows.b[i]
        problem.A_length[i] = root * norm(rows.A[i], n)
    for i in range(rows.C.shape[0]):
        problem.C_length[i] = norm(rows.C[i], n)
    solve_verified(problem, settings, guess, guessed, solution, work)
    return has_ended(solution)
