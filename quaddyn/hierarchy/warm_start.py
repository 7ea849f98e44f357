"""The warm start: verifies the working sets of the previous problem, level by level."""

from __future__ import annotations

from ..compiler import ByteMatrix, compiled
from ..compiler.lanes import gemv_add
from ..compiler.linalg import norm
from .equalities import reset_basis
from .level_completion import finish_level
from .level_solver import flag_infeasible, project_level, propose_working_set, skip_if_determined
from .problem import SolverPath
from .working_set_changes import verify_working_set
from .workspace import FEASIBILITY_TOLERANCE, Hierarchy, LimitRole, make_subproblem, restore_solution, save_solution


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
def is_warm_start_plausible(h: Hierarchy, warm_start: ByteMatrix, x_norm: float) -> bool:
    """Returns whether the warm start contains at least half of the inequalities that the equalities alone violate."""
    violated = 0
    in_working_sets = 0
    for i in range(h.p):
        side = violated_side(h, i, x_norm)
        if side != 0 and h.work.is_equality[i] == 0:
            violated += 1
            for k in range(h.levels + 1):
                if warm_start[k, i] == side:
                    in_working_sets += 1
                    break
    return 0 < violated <= 2 * in_working_sets


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
def try_warm_start(h: Hierarchy, warm_start: ByteMatrix) -> bool:
    """Returns whether the previous working sets are optimal; if so, the problem is solved, else its state is restored.

    From the first level that had a working set on, each level keeps its previous one, and other limits are ignored.  If
    the resulting x satisfies all of them, it is the optimum: each level reached its optimum under weaker limits without
    violating the others.

    Args:
        h: the hierarchy; x is that of the equalities alone.
        warm_start: (levels + 1, p) working sets of the previous problem.
    """
    n, x, ranks, summary, Q = h.n, h.solution.x, h.solution.ranks, h.solution.summary, h.work.basis
    saved_basis, role, equalities_norm = h.work.saved_basis, h.work.role, h.solution.summary.equalities_norm
    gemv_add(h.work.C_at_next, h.work.zeros, x, h.work.C, n, h.p)
    if not is_warm_start_plausible(h, warm_start, equalities_norm):
        return False
    save_solution(h, h.work.saved_solution)
    for i in range(n):
        for j in range(n):
            saved_basis[i, j] = Q[i, j]
    is_optimal = True
    any_working_set = False
    q = 0
    for k in range(h.levels + 1):
        for i in range(h.p):
            any_working_set |= warm_start[k, i] != 0
        if not any_working_set:
            q += int(ranks[k])
            continue
        if skip_if_determined(h, k, q):
            continue
        if q == 0:
            reset_basis(h)
        is_optimal, r = try_warm_start_level(h, k, q, warm_start)
        if not is_optimal:
            break
        ranks[k] = r
        q += r
    gemv_add(h.work.C_at_next, h.work.zeros, x, h.work.C, n, h.p)
    x_norm = max(equalities_norm, norm(x, n))
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
