"""The strict hierarchy, compiled: `solve_hierarchy` and `solve_until_verified`.

**Problem.**  Level k = 0, 1, ... minimizes ``|A_k x - b_k|^2 + distance(C_k x, [lower_k, upper_k])^2`` among all x for
which the levels above stay at their minimum; the null space that remains after the last level goes to the x of minimum
norm.  An inequality that its level can satisfy becomes a *limit* for the levels below: a constraint that they must
satisfy exactly.  An inequality that its level cannot satisfy is fixed at its least violation.

**Null space.**  The rows of an orthogonal matrix Q span the space of x; the rows from q on, Z, span the null space of
the levels above.  A level is solved for z in ``x = x_start + Z z`` (`project_level`).  Afterwards its own rows and the
inequalities that it fixes are factored, ``J Z = [L 0] V``: V rotates Z, and its first rows, as many as the rank of the
level, leave Z (`finish_level`, `update_null_space`).

**One level** (`working_set_changes`).  A primal active-set method: the limits in the working set are equality
constraints, and the level's own violated inequalities are rows of the objective.  Each iteration solves for the fixed
working set (`solve_fixed_working_set`) and moves towards that solution until an inequality blocks, which is added to
the working set; a full step is followed by the removal of the row whose multiplier has the wrong sign by the largest
amount.

**A whole solve** makes up to four attempts, from the cheapest to the most robust (`solve_levels`):

1. `solve_equalities`: projections alone.  If x satisfies all inequalities, it is the solution.
2. `try_warm_start`, if the active inequalities of the previous problem are expected to be the same: its working sets,
  level by level.  If they are optimal, the solve is finished.  If only the last level had active inequalities, they are
  tried before the equalities of the last level are solved.
3. `predict_active_set`: a dual active-set method on a weighted sum of the levels.  Its active rows predict the working
  sets, which are then verified level by level and, where they are not optimal, corrected by a few iterations. If level
  0 is infeasible, `find_least_violation` predicts its violated rows instead; if it was infeasible in the previous
  problem, `try_violated_warm_start` starts from the rows that were violated then.
4. `solve_remaining_levels` from level 0: each level by its active-set method, started from the working set of the level
  above.

Every level has a certificate (`compute_kkt_residual`): the residual of its optimality conditions, computed from its own
rows.  If x of the equalities alone is much longer than the solution, so that its rounding error matters, the levels are
solved again from the solution.  If a solution is not verified, `solve_until_verified` solves without the warm start,
with rows of unit norm, and from the best solution so far.

**Rank.**  A row is independent if its remainder exceeds a fraction of its reference norm (`factor_rows`).

Sources: Escande, Mansard and Wieber, *Hierarchical quadratic programming: fast online humanoid-robot motion
generation*, IJRR 2014; Goldfarb and Idnani 1983 (`find_minimum_norm_point`); Golub and Van Loan, *Matrix Computations*
(`compiler.linalg`); Nocedal and Wright, *Numerical Optimization*, section 16.5 (`working_set_changes`).

The warm start: verifies the working sets of the previous problem, level by level.
"""

from __future__ import annotations

import math

from ..compiler import LANE_WIDTH, ByteMatrix, compiled, entry
from ..compiler.lanes import gemv_add
from ..compiler.language import load8, store8
from ..compiler.linalg import norm
from .active_set_prediction import predict_active_set
from .equalities import load_bounds, load_inequalities, reset_basis, satisfies_inequalities, solve_equalities
from .least_violation import (
    find_least_violation,
    has_uniform_row_scale,
    is_clearly_infeasible,
    is_violation_plausible,
    warm_start_violates_level_0,
)
from .level_solver import (
    finish_level,
    flag_infeasible,
    project_level,
    propose_working_set,
    restart_cold,
    skip_if_determined,
    solve_remaining_levels,
)
from .working_set_changes import verify_working_set
from .workspace import (
    FEASIBILITY_TOLERANCE,
    Hierarchy,
    HierarchyProblem,
    HierarchyWorkspace,
    LevelBuffers,
    LimitRole,
    SolutionBuffers,
    SolutionSummary,
    SolverPath,
    SolverSettings,
    is_finite,
    is_verified,
    make_subproblem,
    max_level_0_violation,
    restore_solution,
    save_solution,
)


@compiled()
def violated_side(h: Hierarchy, i: int, x_norm: float) -> int:
    """Returns the side on which the value `C_at_next` of inequality i is violated (-1, 1), 0 if it is satisfied."""
    value, lower, upper, terms = h.work.C_at_next[i], h.work.lower[i], h.work.upper[i], h.problem.C_norms[i] * x_norm
    if value > upper + FEASIBILITY_TOLERANCE * (terms + abs(upper)):
        return 1
    if value < lower - FEASIBILITY_TOLERANCE * (terms + abs(lower)):
        return -1
    return 0


@compiled()
def find_first_active_level(h: Hierarchy, warm_start: ByteMatrix) -> int:
    """Returns the first level with a working set in the warm start; the number of levels if there is none."""
    for k in range(h.levels):
        for i in range(h.p):
            if warm_start[k, i] != 0:
                return k
    return h.levels


@compiled(inline=False)
def try_warm_start_level(h: Hierarchy, k: int, q: int, warm_start: ByteMatrix) -> tuple[bool, int]:
    """Solves level k with its previous working set alone; returns whether that is optimal, and the rank."""
    sides, role, equal = warm_start[k], h.work.role, h.work.is_equality
    for i in range(h.problem.C_start[k]):
        if equal[i] != 0 or role[i] == LimitRole.FIXED:
            role[i] = LimitRole.FIXED
        else:
            role[i] = LimitRole.LIMIT if sides[i] != 0 else LimitRole.LOWER_LEVEL
    x_norm = max(h.solution.summary.equalities_norm, norm(h.solution.x, h.n))
    m = project_level(h, k, q, 0.0, False)
    propose_working_set(h, sides, -1.0, h.solution.working_sets[k])
    level = make_subproblem(h, k, h.n - q, m, 0, x_norm)
    is_optimal, rank = verify_working_set(level, h.work)
    if not is_optimal:
        return False, 0
    return True, finish_level(h, k, q, rank, level, level, False)


@compiled(inline=False)
def try_warm_start(h: Hierarchy, warm_start: ByteMatrix, first_level: int) -> bool:
    """Returns whether the previous working sets are optimal; if so, the problem is solved.

    Starting with the first level that had a working set, each level keeps its previous one, and other limits are
    ignored.  If the resulting x satisfies all of them, it is the optimum: each level reached its optimum under weaker
    limits without violating the others.  Otherwise the state is restored.

    Args:
        h: the hierarchy; x solves at least the equalities of the levels above `first_level`.
        warm_start: (levels + 1, p) working sets of the previous problem.
        first_level: the first level that had a working set.
    """
    n, x, ranks, summary, Q = h.n, h.solution.x, h.solution.ranks, h.solution.summary, h.work.basis
    saved_basis, role = h.work.saved_basis, h.work.role
    save_solution(h, h.work.saved_solution)
    for i in range(n):
        for j in range(n):
            saved_basis[i, j] = Q[i, j]
    is_optimal = True
    q = 0
    for k in range(first_level):
        q += int(ranks[k])
    for k in range(first_level, h.levels + 1):
        if skip_if_determined(h, k, q):
            continue
        if q == 0:
            reset_basis(h)
        is_optimal, r = try_warm_start_level(h, k, q, warm_start)
        if not is_optimal:
            break
        ranks[k] = r
        q += r
    if is_optimal:
        gemv_add(h.work.C_at_next, h.work.zeros, x, h.work.C, n, h.p)
        x_norm = max(summary.equalities_norm, norm(x, n))
        for i in range(h.p):
            if role[i] != LimitRole.FIXED and violated_side(h, i, x_norm) != 0:
                is_optimal = False
    if is_optimal:
        summary.path = SolverPath.WARM_START
        flag_infeasible(h)
        return True
    restore_solution(h, h.work.saved_solution)
    for i in range(n):
        for j in range(n):
            Q[i, j] = saved_basis[i, j]
    for i in range(h.p):
        role[i] = LimitRole.LOWER_LEVEL
        h.work.lower[i] = h.work.lower_given[i]
        h.work.upper[i] = h.work.upper_given[i]
    return False


#: Ratio of reference norms in a level above which it is first solved with rows of unit norm: squares of larger ratios
#: exhaust the 16 digits of double precision.
ROW_SCALING_RATIO = 1e3
#: Ratio of |x| of the equalities alone to |x| of the solution above which the levels are solved again from the
#: solution; largest number of such refinements.
MAX_SOLUTION_NORM_RATIO, MAX_REFINEMENTS = 1e1, 3


@compiled()
def clear_solution(h: Hierarchy) -> None:
    """Sets all working sets and multipliers of the solution to zero."""
    for k in range(h.levels + 1):
        for i in range(h.p):
            h.solution.working_sets[k, i] = 0
            h.solution.multipliers[k, i] = 0.0


@compiled()
def initialize_solve(h: Hierarchy) -> None:
    """Resets status and counters of the solution, and copies the bounds of the rows into the working memory."""
    summary = h.solution.summary
    summary.has_converged = True
    summary.path = SolverPath.EQUALITIES
    summary.iterations = 0
    summary.max_kkt = 0.0
    summary.is_infeasible = False
    load_bounds(h)


@compiled()
def store_equality_solution(h: Hierarchy) -> float:
    """Stores x of the equalities alone as the starting point of the levels; returns its norm."""
    h.work.x_equalities[: h.n] = h.solution.x[: h.n]
    for i in range(h.p):
        h.work.role[i] = LimitRole.LOWER_LEVEL
    x_norm = norm(h.solution.x, h.n)
    h.solution.summary.equalities_norm = x_norm
    return x_norm


@compiled()
def stop_if_infeasible(h: Hierarchy) -> bool:
    """Returns whether the solve ends because level 0 is infeasible; if so, stores its violated rows.

    Applies only with `SolverSettings.feasible_only`.
    """
    if not (h.settings.feasible_only and is_clearly_infeasible(h)):
        return False
    if max_level_0_violation(h.problem, h.solution.x) <= 2.0 * h.settings.infeasibility_tolerance:
        return False
    summary, sides = h.solution.summary, h.work.prediction.sides
    summary.path = SolverPath.ACTIVE_SET
    summary.is_infeasible = True
    for i in range(h.p):
        h.solution.working_sets[0, i] = sides[i]
    h.solution.ranks[: h.levels + 1] = 0.0
    return True


@compiled(inline=False)
def try_violated_warm_start(h: Hierarchy, warm_start: ByteMatrix) -> bool:
    """Solves a problem whose level 0 was infeasible in the previous problem; returns whether a solution was found.

    The equalities of the levels below are often far from feasible, so they are solved only if the warm start is
    plausible for level 0.
    """
    clear_solution(h)
    solve_equalities(h, 0, 1)
    x_norm = store_equality_solution(h)
    load_inequalities(h)
    if is_violation_plausible(h, warm_start, x_norm):
        solve_equalities(h, 1, h.levels)
        x_norm = store_equality_solution(h)
        if try_warm_start(h, warm_start, 0):
            return True
        is_violation_plausible(h, warm_start, x_norm)
    if not find_least_violation(h, warm_start, True, x_norm):
        return False
    return stop_if_infeasible(h) or solve_remaining_levels(h, 0, True, warm_start, True)


@compiled(inline=False)
def solve_levels(h: Hierarchy, warm_start: ByteMatrix, has_warm_start: bool, refine: bool) -> None:
    """Solves all levels once, by the cheapest of the four attempts that succeeds.

    Args:
        h: the hierarchy.
        warm_start: (levels + 1, p) working sets to try first.
        has_warm_start: whether `warm_start` holds working sets.
        refine: whether x is already a solution from which the levels start, instead of x of the equalities alone.
    """
    # A damped step is not a projection, and rows are scaled only after a prediction has failed: no prediction then.
    may_predict = h.settings.damping == 0.0 and not refine and h.row_scaling_ratio > 0.0
    initialize_solve(h)
    try_violated = (
        may_predict and has_warm_start and warm_start_violates_level_0(h, warm_start) and has_uniform_row_scale(h)
    )
    if try_violated:
        if try_violated_warm_start(h, warm_start):
            return
        initialize_solve(h)
    warm_level = h.levels
    if may_predict and has_warm_start and h.settings.expects_same_sets and not try_violated:
        warm_level = find_first_active_level(h, warm_start)
    # Only working sets of the last level replace the solution of its equalities as a start: on other levels that are
    # ill-conditioned, the long steps from there lose digits.
    n_solved = warm_level if warm_level == h.levels - 1 else h.levels
    if not refine:
        clear_solution(h)
        solve_equalities(h, 0, n_solved)
    x_norm = store_equality_solution(h)
    if not refine and n_solved == h.levels and satisfies_inequalities(h, x_norm):
        flag_infeasible(h)
        return
    load_inequalities(h)
    if warm_level < h.levels and try_warm_start(h, warm_start, warm_level):
        return
    if n_solved < h.levels:
        solve_equalities(h, n_solved, h.levels)
        x_norm = store_equality_solution(h)
        if satisfies_inequalities(h, x_norm):
            flag_infeasible(h)
            return
    if may_predict:
        first_level = predict_active_set(h, x_norm)
        if first_level < 0 and has_uniform_row_scale(h) and find_least_violation(h, warm_start, False, x_norm):
            if stop_if_infeasible(h):
                return
            first_level = 0
        elif first_level < 0:
            h.solution.x[: h.n] = h.work.x_equalities[: h.n]
        if first_level >= 0 and solve_remaining_levels(h, first_level, True, warm_start, has_warm_start):
            return
    restart_cold(h)
    solve_remaining_levels(h, 0, False, warm_start, has_warm_start)


@compiled(inline=False)
def solve_and_refine(h: Hierarchy, warm_start: ByteMatrix, has_warm_start: bool) -> None:
    """Solves all levels, and again from the solution while it is much shorter than x of the equalities alone."""
    solution, summary = h.solution, h.solution.summary
    solve_levels(h, warm_start, has_warm_start, False)
    for _ in range(MAX_REFINEMENTS):
        is_much_shorter = 0.0 < MAX_SOLUTION_NORM_RATIO * norm(solution.x, h.n) < summary.equalities_norm
        if (
            summary.path == SolverPath.EQUALITIES
            or summary.is_infeasible
            or not summary.has_converged
            or not is_much_shorter
        ):
            return
        save_solution(h, h.work.saved_solution)
        path, changes = summary.path, summary.iterations
        solve_levels(h, solution.working_sets, True, True)
        if not solution.summary.has_converged:
            restore_solution(h, h.work.saved_solution)
            return
        summary.path = path
        summary.iterations += changes


@compiled(inline=False)
def solve_hierarchy(
    problem: HierarchyProblem,
    settings: SolverSettings,
    warm_start: ByteMatrix,
    has_warm_start: bool,
    solution: SolutionBuffers,
    work: HierarchyWorkspace,
) -> None:
    """Solves a hierarchy.

    Args:
        problem: the stacked levels.
        settings: tolerances and limits of the solver.
        warm_start: (levels + 1, p) working sets to try first, such as those of the previous solution.
        has_warm_start: whether `warm_start` holds working sets.
        solution: output; must not share memory with `warm_start`.
        work: workspace from `make_workspace` for at least the sizes of the problem.
    """
    levels = problem.A_start.shape[0] - 1
    h = Hierarchy(problem, settings, solution, work, problem.n, problem.C_start[levels], levels, ROW_SCALING_RATIO)
    solve_and_refine(h, warm_start, has_warm_start)


@compiled(inline=False)
def solve_until_verified(
    problem: HierarchyProblem,
    settings: SolverSettings,
    warm_start: ByteMatrix,
    has_warm_start: bool,
    solution: SolutionBuffers,
    work: HierarchyWorkspace,
) -> bool:
    """Solves a hierarchy, with further attempts if the solution is not verified; returns whether it is verified.

    The further attempts are: without the warm start; with rows of unit norm in all levels that have inequalities; and
    from the best solution so far.  If none is verified, the best one is returned.  Arguments as for `solve_hierarchy`.
    """
    levels = problem.A_start.shape[0] - 1
    n, p = problem.n, problem.C_start[levels]
    h = Hierarchy(problem, settings, solution, work, n, p, levels, ROW_SCALING_RATIO)
    solve_and_refine(h, warm_start, has_warm_start)
    if is_verified(solution, n):
        return True
    scaled = Hierarchy(problem, settings, solution, work, n, p, levels, 0.0)
    summary, changes, has_finite = solution.summary, solution.summary.iterations, is_finite(solution, n)
    save_solution(h, work.best_solution)
    for attempt in range(0 if has_warm_start else 1, 2 + MAX_REFINEMENTS):
        if attempt == 0:
            solve_and_refine(h, warm_start, False)
        elif attempt == 1:
            solve_and_refine(scaled, warm_start, False)
        elif has_finite:  # from the best solution so far, whose norm then bounds the rounding error
            restore_solution(h, work.best_solution)
            solve_levels(h, warm_start, False, True)
        else:
            break
        changes += solution.summary.iterations
        if is_finite(solution, n) and (is_better_solution(summary, work.best_solution.summary) or not has_finite):
            save_solution(h, work.best_solution)
            has_finite = True
        if is_verified(solution, n):
            break
    restore_solution(h, work.best_solution)
    solution.summary.iterations = changes
    return is_verified(solution, n)


@compiled()
def is_better_solution(a: SolutionSummary, b: SolutionSummary) -> bool:
    """Returns whether solution `a` is better than `b` by their summaries: convergence first, then the KKT residual."""
    if a.has_converged != b.has_converged:
        return a.has_converged
    return a.max_kkt < b.max_kkt


@entry("the hierarchy solver")
def solve_weighted_levels(
    rows: LevelBuffers,
    problem: HierarchyProblem,
    settings: SolverSettings,
    warm_start: ByteMatrix,
    has_warm_start: bool,
    solution: SolutionBuffers,
    work: HierarchyWorkspace,
) -> bool:
    """Solves the weighted rows of `HierarchySolver`; returns whether all active sets converged.

    Args:
        rows: rows of all levels as the caller wrote them.
        problem: takes the rows of A and b times the square roots of their weights, and all reference norms; its C and
            bounds are those of `rows`.
        settings: tolerances and limits of the solver.
        warm_start: (levels + 1, p) working sets to try first.
        has_warm_start: whether `warm_start` holds working sets.
        solution: output; must not share memory with `warm_start`.
        work: workspace from `make_workspace`.
    """
    A, b, n = problem.A, problem.b, problem.n
    for i in range(A.shape[0]):
        root = math.sqrt(rows.weights[i])
        for j in range(0, n - 7, LANE_WIDTH):
            store8(root * load8(rows.A, i, j), A, i, j)
        for j in range(n - n % LANE_WIDTH, n):
            A[i, j] = root * rows.A[i, j]
        b[i] = root * rows.b[i]
        problem.A_norms[i] = root * norm(rows.A[i], n)
    for i in range(rows.C.shape[0]):
        problem.C_norms[i] = norm(rows.C[i], n)
    solve_until_verified(problem, settings, warm_start, has_warm_start, solution, work)
    return solution.summary.has_converged
