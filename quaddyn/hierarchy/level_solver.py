"""Solution of the levels one after the other, each in the null space of the levels above."""

from __future__ import annotations

import math
from typing import NamedTuple

from ..compiler import ByteMatrix, ByteVector, compiled
from ..compiler.lanes import gemv_add
from ..compiler.linalg import norm
from .equalities import compute_residual, load_level, project_rows, reset_basis
from .level_completion import finish_level
from .problem import SolverPath, max_level_0_violation
from .working_set_changes import find_optimal_working_set, verify_working_set
from .workspace import (
    FEASIBILITY_TOLERANCE,
    Hierarchy,
    HierarchyWorkspace,
    LimitRole,
    Subproblem,
    make_subproblem,
    make_unit_row_subproblem,
)

#: Fraction of the largest predicted multiplier above which a row is part of the predicted working set of its first
#: level.
ACTIVE_MULTIPLIER_FRACTION = 1e-4


@compiled(inline=False)
def project_objective(h: Hierarchy, k: int, q: int, damping: float) -> int:
    """Projects the objective of level k into the null space from row q on, ``|J_z z + residual|^2``; returns its rows.

    The damping adds n rows, ``damping (x + Z z) = 0``.
    """
    J, all_targets, all_norms = h.work.J[k], h.work.J_target[k], h.work.J_norms[k]
    Q, J_z, x = h.work.basis, h.work.J_z, h.solution.x
    residual, target, objective_norms = h.work.residual, h.work.target, h.work.objective_norms
    n, m = h.n, int(h.work.J_count[k])
    for i in range(m):
        target[i] = all_targets[i]
        objective_norms[i] = all_norms[i]
    project_rows(J, m, n, Q, q, J_z)
    compute_residual(target, J, m, n, x, residual)
    for i in range(m):
        residual[i] = -residual[i]
    if not damping > 0.0:
        return m
    for i in range(n):
        for j in range(n - q):
            J_z[j, m + i] = damping * Q[q + j, i]
        target[m + i] = 0.0
        objective_norms[m + i] = damping
        residual[m + i] = damping * x[i]
    return m + n


@compiled(inline=False)
def project_level(h: Hierarchy, k: int, q: int, damping: float, is_projected: bool) -> int:
    """Projects objective and inequalities of level k into the null space from row q on and sets z = 0.

    Args:
        h: the hierarchy.
        k: the level.
        q: first row of the basis that spans the null space of the levels above.
        damping: weight of |x|, 0 for none.
        is_projected: whether `C_z` holds the projected inequalities already.

    Returns:
        The number of objective rows.
    """
    role, equal, z, C_z, C_at_start = h.work.role, h.work.is_equality, h.work.z, h.work.C_z, h.work.C_at_start
    load_level(h, k)
    m = project_objective(h, k, q, damping)
    if k < h.levels:
        for i in range(h.problem.C_start[k], h.problem.C_start[k + 1]):
            role[i] = LimitRole.FIXED if equal[i] != 0 else LimitRole.OWN
    if not is_projected:
        project_rows(h.work.C, h.p, h.n, h.work.basis, q, C_z[q:])
    gemv_add(C_at_start, h.work.zeros, h.solution.x, h.work.C, h.n, h.p)
    z[: h.n - q] = 0.0
    return m


@compiled()
def propose_working_set(h: Hierarchy, candidate: ByteVector, max_multiplier: float, sides: ByteVector) -> None:
    """Writes the working set to try to `sides`: the candidate rows that belong to the level and have a finite bound.

    Args:
        h: the hierarchy.
        candidate: (p,) sides of a predicted or previous working set; may be `sides` itself.
        max_multiplier: largest predicted multiplier, of which rows below `ACTIVE_MULTIPLIER_FRACTION` are left out;
            negative to keep all rows.
        sides: (p,) output.
    """
    role, lower, upper = h.work.role, h.work.lower, h.work.upper
    multipliers, norms = h.work.prediction.multipliers, h.problem.C_norms
    for i in range(h.p):
        side = candidate[i]
        sides[i] = 0
        if role[i] == LimitRole.LIMIT or role[i] == LimitRole.OWN:
            if (side > 0 and upper[i] < math.inf) or (side < 0 and lower[i] > -math.inf):
                if max_multiplier < 0.0 or multipliers[i] * norms[i] > ACTIVE_MULTIPLIER_FRACTION * max_multiplier:
                    sides[i] = side


@compiled()
def select_reached_limits(h: Hierarchy, k: int, s: Subproblem, has_prediction: bool) -> None:
    """Selects the initial working set: the predicted limits that x reaches, or the working set of the level above."""
    sides, predicted_sides = s.sides, h.work.prediction.sides
    for i in range(h.p):
        sides[i] = 0
        if s.role[i] == LimitRole.LIMIT:
            if has_prediction:
                bound = s.upper[i] if predicted_sides[i] > 0 else s.lower[i]
                is_reached = abs(s.C_at_start[i] - bound) <= FEASIBILITY_TOLERANCE * (
                    s.C_norms[i] * s.x_norm + abs(bound)
                )
                if predicted_sides[i] != 0 and is_reached:
                    sides[i] = predicted_sides[i]
            elif k > 0:
                sides[i] = h.solution.working_sets[k - 1, i]


@compiled()
def row_norms_differ(s: Subproblem, ratio: float) -> bool:
    """Returns whether a level with own inequalities has rows whose reference norms differ by more than a ratio."""
    shortest = math.inf
    longest = 0.0
    has_own = False
    for i in range(s.m):
        shortest = min(shortest, s.objective_norms[i])
        longest = max(longest, s.objective_norms[i])
    for i in range(s.p):
        if s.role[i] == LimitRole.OWN and s.C_norms[i] > 0.0:
            has_own = True
            shortest = min(shortest, s.C_norms[i])
            longest = max(longest, s.C_norms[i])
    return has_own and longest > ratio * shortest


@compiled(inline=False)
def normalize_rows(level: Subproblem, s: Subproblem) -> None:
    """Scales the rows of `level` to reference norm 1 into `s`; the objective rows in place."""
    for i in range(s.m):
        factor = 1.0 / s.objective_norms[i]
        for j in range(s.d):
            s.J_z[j, i] *= factor
        s.residual[i] *= factor
        s.target[i] *= factor
        s.objective_norms[i] = 1.0
    for i in range(s.p):
        factor = 1.0 / level.C_norms[i] if level.C_norms[i] > 0.0 else 1.0
        for j in range(s.d):
            s.C_z[j, i] = level.C_z[j, i] * factor
        s.C_at_start[i] = level.C_at_start[i] * factor
        s.lower[i] = level.lower[i] * factor
        s.upper[i] = level.upper[i] * factor
        s.C_norms[i] = level.C_norms[i] * factor


@compiled(inline=False)
def solve_with_unit_rows(
    level: Subproblem, s: Subproblem, work: HierarchyWorkspace, max_changes: int
) -> tuple[bool, int, int]:
    """Solves a level with rows of unit norm, which is valid where all of its rows can be satisfied.

    In that case the norms of the rows do not influence the solution, and no digits are lost to long rows.

    Returns:
        Whether all rows are satisfied; the number of changes of the working set; the rank.
    """
    normalize_rows(level, s)
    converged, changes, rank = find_optimal_working_set(s, work, max_changes)
    z, values = work.z, work.C_at_next
    x_norm = s.x_norm + norm(z, s.d)
    gemv_add(work.row_values, s.residual, z, s.J_z, s.d, s.m)
    for i in range(s.m):
        if abs(work.row_values[i]) > FEASIBILITY_TOLERANCE * (x_norm + abs(s.target[i])):
            converged = False
    gemv_add(values, s.C_at_start, z, s.C_z, s.d, s.p)
    for i in range(s.p):
        if s.role[i] == LimitRole.OWN:
            tolerance = FEASIBILITY_TOLERANCE * s.C_norms[i] * x_norm
            upper, lower = (
                s.upper[i] + FEASIBILITY_TOLERANCE * abs(s.upper[i]),
                s.lower[i] - FEASIBILITY_TOLERANCE * abs(s.lower[i]),
            )
            if values[i] > upper + tolerance or values[i] < lower - tolerance:
                converged = False
    if converged:
        s.multipliers[: s.p] = 0.0
    return converged, changes, rank


class LevelStart(NamedTuple):
    """Where the iterations of a level start.

    Attributes:
        has_prediction: whether `predict_active_set` has a working set.
        is_projected: whether `C_z` holds the projected inequalities already.
        max_multiplier: largest predicted multiplier, see `propose_working_set`; negative to keep all predicted rows.
        has_warm_start: whether there are previous working sets.
        max_changes: maximum number of changes of the working set.
    """

    has_prediction: bool
    is_projected: bool
    max_multiplier: float
    has_warm_start: bool
    max_changes: int


@compiled(inline=False)
def solve_level(h: Hierarchy, k: int, q: int, start: LevelStart, warm_start: ByteMatrix) -> int:
    """Solves level k in the null space from row q on; returns the rank of the level.

    A predicted or previous working set is tried first.  If there is none or it is not optimal, the active-set method
    iterates.

    Args:
        h: the hierarchy.
        k: the level.
        q: first row of the basis that spans the null space of the levels above.
        start: where the iterations start.  If those from a prediction do not converge,
            `SolutionSummary.has_converged` is False and the level is left unfinished.
        warm_start: (levels + 1, p) previous working sets.
    """
    n, p, summary, sides = h.n, h.p, h.solution.summary, h.solution.working_sets[k]
    damping = h.settings.damping if k < h.levels else 0.0
    x_norm = max(summary.equalities_norm, norm(h.solution.x, n))
    m = project_level(h, k, q, damping, start.is_projected)
    level = make_subproblem(h, k, n - q, m, n if damping > 0.0 else 0, x_norm)
    scaled = make_unit_row_subproblem(h, level)
    converged = False
    rows_scaled = False
    rank = 0
    if start.has_prediction:
        sides[:p] = h.work.prediction.sides[:p]
        propose_working_set(h, sides, start.max_multiplier, sides)
        converged, rank = verify_working_set(level, h.work)
    elif start.has_warm_start:
        propose_working_set(h, warm_start[k], -1.0, sides)
        converged, rank = verify_working_set(level, h.work)
    if not converged:
        summary.path = SolverPath.ACTIVE_SET
        select_reached_limits(h, k, level, start.has_prediction)
        if damping == 0.0 and row_norms_differ(level, h.row_scaling_ratio):
            converged, changes, rank = solve_with_unit_rows(level, scaled, h.work, h.settings.max_iterations)
            summary.iterations += changes
            rows_scaled = converged
            if not converged:
                project_objective(h, k, q, 0.0)
    if not converged:
        converged, changes, rank = find_optimal_working_set(level, h.work, start.max_changes)
        summary.iterations += changes
        if not converged:
            summary.has_converged = False
            if start.has_prediction:
                return 0
    return finish_level(h, k, q, rank, scaled if rows_scaled else level, level, rows_scaled)


@compiled()
def skip_if_determined(h: Hierarchy, k: int, q: int) -> bool:
    """Returns whether level k has neither null space nor own inequalities left; if so, writes its (empty) solution."""
    sides = h.solution.working_sets
    if q < h.n or (k < h.levels and h.problem.C_start[k] < h.problem.C_start[k + 1]):
        return False
    for i in range(h.p):
        sides[k, i] = sides[k - 1, i] if k > 0 else 0
        h.solution.multipliers[k, i] = 0.0
    h.solution.ranks[k] = 0.0
    h.solution.kkt[k] = 0.0
    return True


@compiled(inline=False)
def solve_remaining_levels(
    h: Hierarchy, first_level: int, has_prediction: bool, warm_start: ByteMatrix, has_warm_start: bool
) -> bool:
    """Solves the levels from `first_level` on; returns False if the iterations from a prediction did not converge.

    Args:
        h: the hierarchy; x satisfies the limits of all levels down to the first; the basis is that of the levels above
            it, if these have a rank.
        first_level: the first level to solve, which is the first one that limits influence.
        has_prediction: whether `predict_active_set` has predicted working sets.
        warm_start: (levels + 1, p) previous working sets, used where there is no prediction.
        has_warm_start: whether `warm_start` holds working sets.
    """
    ranks, summary, n, max_changes = h.solution.ranks, h.solution.summary, h.n, h.settings.max_iterations
    multipliers, norms = h.work.prediction.multipliers, h.problem.C_norms
    summary.has_converged = True
    summary.path = SolverPath.WARM_START if has_warm_start and not has_prediction else SolverPath.ACTIVE_SET
    allowed_changes = min(max_changes, 2 * n + 10) if has_prediction else max_changes
    max_multiplier = 0.0
    for i in range(h.p if has_prediction else 0):
        max_multiplier = max(max_multiplier, multipliers[i] * norms[i])
    q = 0
    for k in range(first_level):
        q += int(ranks[k])
    if q == 0:
        reset_basis(h)
    for k in range(first_level, h.levels + 1):
        if skip_if_determined(h, k, q):
            continue
        only_strong_rows = has_prediction and 0 < k == first_level and k < h.levels - 1
        use_prediction = has_prediction and (
            k == 0 or first_level > 0 or not has_warm_start
        )  # the violated rows of level 0 do not predict the working sets of the levels below
        is_projected = has_prediction and k == first_level and q > 0
        start = LevelStart(
            use_prediction, is_projected, max_multiplier if only_strong_rows else -1.0, has_warm_start, allowed_changes
        )
        r = solve_level(h, k, q, start, warm_start)
        if has_prediction and not summary.has_converged:
            return False
        ranks[k] = r
        q += r
        if k == 0 and flag_infeasible(h):
            for j in range(1, h.levels + 1):
                ranks[j] = 0.0
                h.solution.kkt[j] = 0.0
            return True
    return True


@compiled()
def flag_infeasible(h: Hierarchy) -> bool:
    """Returns whether x violates level 0, and flags it in the summary; only with `SolverSettings.feasible_only`."""
    if not h.settings.feasible_only:
        return False
    if max_level_0_violation(h.problem, h.solution.x) <= h.settings.infeasibility_tolerance:
        return False
    h.solution.summary.is_infeasible = True
    return True


@compiled()
def restart_cold(h: Hierarchy) -> None:
    """Resets x to the solution of the equalities alone, and the bounds to the given ones."""
    role, work_lower, work_upper = h.work.role, h.work.lower, h.work.upper
    h.solution.summary.max_kkt = 0.0
    h.solution.x[: h.n] = h.work.x_equalities[: h.n]
    for i in range(h.p):
        role[i] = LimitRole.LOWER_LEVEL
        work_lower[i] = h.work.lower_given[i]
        work_upper[i] = h.work.upper_given[i]
