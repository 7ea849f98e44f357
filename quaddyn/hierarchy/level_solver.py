"""Solution of the levels one after the other, each in the null space of the levels above.

The end of a level: x moved to its optimum, the KKT residual, and the basis of the remaining null space.

The KKT residual (certificate) is the residual of the optimality conditions of the level, computed from the rows of the
level and not from their factorizations.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ..compiler import ByteMatrix, ByteVector, Vector, compiled
from ..compiler.lanes import copy_columns, gemv_add, gemv_transposed
from ..compiler.linalg import EPS, apply_reflectors, factor_rows, norm, row_multipliers
from .equalities import compute_residual, load_level, move_along_basis, project_rows, reset_basis
from .working_set_changes import (
    MULTIPLIER_SIGN_TOLERANCE,
    active_bound,
    find_optimal_working_set,
    gradient_scale,
    verify_working_set,
)
from .workspace import (
    FEASIBILITY_TOLERANCE,
    KKT_SCALE_FLOOR,
    KKT_TOLERANCE,
    VIOLATION_TOLERANCE,
    Hierarchy,
    HierarchyWorkspace,
    LimitRole,
    SolverPath,
    Subproblem,
    forget_objectives,
    level_objective,
    make_subproblem,
    make_unit_row_subproblem,
    max_level_0_violation,
)

#: A limit is fixed for all levels below if its multiplier exceeds this fraction of the gradient's scale.
FIXING_MULTIPLIER_FRACTION = 1e-8
#: A limit with a small multiplier does not constrain the levels below if the determined directions imply it: if the
#: remainder of its row is below the first fraction of its norm, and its force along it below the second of the
#: gradient's scale.
IMPLIED_ROW_TOLERANCE, IMPLIED_FORCE_TOLERANCE = 1e-7, 1e-12
#: Fraction of the terms of the multipliers' gradient that may be rounding.
MULTIPLIER_ROUNDING = 4.0 * EPS


@compiled(inline=False)
def rotate_gradient(gradient: Vector, d: int, rank: int, work: HierarchyWorkspace) -> None:
    """Rotates a gradient into the basis whose first `rank` directions are the determined ones."""
    V = work.factor.reflectors
    for k in range(rank):
        v, rest = V[k, k:], gradient[k:]
        s = 0.0
        for j in range(d - k):
            s += v[j] * rest[j]
        s *= 2.0
        for j in range(d - k):
            rest[j] -= s * v[j]


@compiled()
def squared_norm(x: Vector, first: int, last: int) -> float:
    """Returns the squared norm of ``x[first:last]``."""
    s = 0.0
    for k in range(first, last):
        s += x[k] * x[k]
    return s


@compiled(inline=False)
def compute_kkt_gradient(s: Subproblem, work: HierarchyWorkspace, multipliers: Vector) -> None:
    """Computes in `gradient` the gradient of the residuals plus the inequality rows times their multipliers."""
    gradient, multiplier_gradient = work.gradient, work.multiplier_gradient
    gemv_transposed(gradient, s.J_z, work.row_values, s.d, s.m)
    gemv_transposed(multiplier_gradient, s.C_z, multipliers, s.d, s.p)
    for j in range(s.d):
        gradient[j] += multiplier_gradient[j]


@compiled(inline=False)
def remaining_kkt_violation(s: Subproblem, work: HierarchyWorkspace, rank: int) -> float:
    """Returns the violation of the optimality conditions that rounding errors of the multipliers do not explain.

    The gradient along the active limits (the first entries of `gradient`) is moved into corrections of the multipliers;
    a corrected multiplier may have the wrong sign, by an amount that is returned.  Active limits have no component in
    the other determined directions; there the norm of the gradient without the limits is returned.  The result is the
    larger of the two.
    """
    multipliers, correction, wrong_sign = work.C_at_z, work.H_rhs, 0.0
    count = 0
    for i in range(s.p):
        if s.role[i] == LimitRole.LIMIT:
            multipliers[i] = 0.0
            if s.sides[i] != 0:
                correction[count] = 0.0
                count += 1
    row_multipliers(work.H, work.optimum.active_rank, work.factor, work.gradient, correction)
    for k in range(count):
        i = work.active_limits[k]
        wrong_sign = max(wrong_sign, -(s.multipliers[i] + correction[k]) * s.sides[i] * s.C_norms[i])
    compute_kkt_gradient(s, work, multipliers)
    rotate_gradient(work.gradient, s.d, rank, work)
    return max(wrong_sign, math.sqrt(squared_norm(work.gradient, work.optimum.active_rank, rank)))


@compiled(inline=False)
def compute_kkt_residual(s: Subproblem, work: HierarchyWorkspace, rank: int, x_norm: float, scale: float) -> float:
    """Computes the largest violation of a level's optimality conditions at its z, relative to the size of their terms.

    The conditions are: the gradient with the multipliers vanishes in the directions that the level determines; limits
    with a multiplier are reached; limits are satisfied.  The scale is the actual size of the gradient's terms, not an
    upper bound, so that a large x cannot hide an error.  Large multipliers cannot hide one either: nearly dependent
    limits balance the gradient by multipliers many times its size, and where the remaining gradient is below their
    rounding error, `remaining_kkt_violation` separates the two.  In directions that the level does not determine, a
    slope beyond the rank tolerance is counted as the decrease of the objective over a distance of |x|, relative to the
    level's squared residual, because a nearly flat objective may have a distant minimum.

    Args:
        s: the level.
        work: workspace; `C_at_next` takes the values of the inequalities at z.
        rank: number of determined directions, the first ones in the basis of the reflectors.
        x_norm: norm of x at z.
        scale: upper bound of the gradient's terms, from `gradient_scale`.
    """
    z, values, residuals, signed_multipliers = work.z, work.C_at_next, work.row_values, work.C_at_z
    objective_norms, C_norms, multipliers, sides = s.objective_norms, s.C_norms, s.multipliers, s.sides
    kkt_scale = KKT_SCALE_FLOOR * scale
    # Sums over the rows: squared residuals, residuals times norms, residuals; multipliers of limits times norms. Max:
    # norm, multiplier times norm of a limit that is not reached, and violation of a limit.
    (
        residual_squared,
        max_norm,
        weighted_residual_sum,
        residual_sum,
        multiplier_sum,
        unreached_multiplier,
        limit_violation,
    ) = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    gemv_add(residuals, s.residual, z, s.J_z, s.d, s.m)
    for i in range(s.m):
        kkt_scale += objective_norms[i] * (2.0 * abs(s.target[i]) + abs(residuals[i]))
        max_norm = max(max_norm, objective_norms[i])
        residual_squared += residuals[i] * residuals[i]
        weighted_residual_sum += objective_norms[i] * abs(residuals[i])
        residual_sum += abs(residuals[i])
    gemv_add(values, s.C_at_start, z, s.C_z, s.d, s.p)
    for i in range(s.p):
        signed_multipliers[i] = multipliers[i]
        if s.role[i] == LimitRole.LIMIT:
            term_size = C_norms[i] * x_norm
            multiplier_sum += abs(multipliers[i]) * C_norms[i]
            bound = s.upper[i] if values[i] > s.upper[i] else s.lower[i]
            excess = max(values[i] - s.upper[i], s.lower[i] - values[i])
            if excess > VIOLATION_TOLERANCE * term_size and excess > VIOLATION_TOLERANCE * (term_size + abs(bound)):
                limit_violation = max(limit_violation, excess / max(term_size, 1e-300))
            if sides[i] != 0 and multipliers[i] != 0.0:
                bound = active_bound(s, i)
                if abs(values[i] - bound) > VIOLATION_TOLERANCE * (term_size + abs(bound)):
                    unreached_multiplier = max(unreached_multiplier, abs(multipliers[i]) * C_norms[i])
        elif s.role[i] == LimitRole.OWN and sides[i] != 0:
            slack = abs(multipliers[i])
            kkt_scale += C_norms[i] * (2.0 * abs(active_bound(s, i)) + slack)
            max_norm = max(max_norm, C_norms[i])
            residual_squared += slack * slack
            weighted_residual_sum += C_norms[i] * slack
            residual_sum += slack
    compute_kkt_gradient(s, work, signed_multipliers)
    rotate_gradient(work.gradient, s.d, rank, work)
    determined_squared, undetermined_squared = (
        squared_norm(work.gradient, 0, rank),
        squared_norm(work.gradient, rank, s.d),
    )
    explained_slope = 2.0 * (max(s.tolerance, 8.0 * EPS) * weighted_residual_sum + 16.0 * EPS * max_norm * residual_sum)
    slope = math.sqrt(undetermined_squared) - explained_slope
    missed_descent = 2.0 * x_norm * slope / max(residual_squared, 1e-300) if slope > 0.0 else 0.0
    gradient_norm = math.sqrt(determined_squared)
    if KKT_TOLERANCE * kkt_scale < gradient_norm <= MULTIPLIER_ROUNDING * multiplier_sum:
        gradient_norm = remaining_kkt_violation(s, work, rank)
    return max(max(gradient_norm, unreached_multiplier) / kkt_scale, limit_violation, missed_descent)


@compiled()
def is_implied_limit(h: Hierarchy, s: Subproblem, i: int, q: int, scale: float) -> bool:
    """Returns whether limit i, whose multiplier is small, is determined by the rows that are fixed up to q.

    ``sum_i multiplier_i C_i`` balances a gradient that no step in the null space changes; hence a single row with a
    small multiplier among rows with large ones does not change either.  Rounding divided by a small multiplier leaves
    that row a remainder, which must not count as a direction.
    """
    Q, C, norm_of_row = h.work.basis, h.work.C, s.C_norms[i]
    force = s.multipliers[i] * s.sides[i]
    if not force * norm_of_row > MULTIPLIER_SIGN_TOLERANCE * scale:
        return False
    square = 0.0
    for j in range(q, h.n):
        y = 0.0
        for c in range(h.n):
            y += Q[j, c] * C[c, i]
        square += y * y
    remainder = math.sqrt(square)
    return (
        remainder <= IMPLIED_ROW_TOLERANCE * float(norm_of_row)
        and float(force) * remainder <= IMPLIED_FORCE_TOLERANCE * scale
    )


@compiled()
def relax_bound_to_roundoff(s: Subproblem, i: int, value: float, x_norm: float) -> None:
    """Moves a bound of limit i to its value if that exceeds it by rounding, so that levels below start feasible."""
    tolerance = VIOLATION_TOLERANCE * s.C_norms[i] * x_norm
    if value > s.upper[i]:
        if value - s.upper[i] <= tolerance + VIOLATION_TOLERANCE * abs(s.upper[i]):
            s.upper[i] = value
    elif value < s.lower[i]:
        if s.lower[i] - value <= tolerance + VIOLATION_TOLERANCE * abs(s.lower[i]):
            s.lower[i] = value


@compiled()
def fix_active_rows(s: Subproblem, work: HierarchyWorkspace, x_norm: float, scale: float) -> tuple[int, int, bool]:
    """Fixes the rows that constrain the levels below: own violated inequalities, and limits with a large multiplier.

    All other own inequalities become limits.  The fixed rows are listed in `active_limits`.

    Returns:
        The number of fixed rows; the number of active limits; whether all rows of the working set are fixed.
    """
    role, sides, multipliers, fixed_rows, predicted_sides = (
        s.role,
        s.sides,
        s.multipliers,
        work.active_limits,
        work.prediction.sides,
    )
    n_fixed, n_active_limits = 0, 0
    all_active_are_fixed = True
    for i in range(s.p):
        is_fixed = False
        if role[i] == LimitRole.LIMIT and sides[i] != 0:
            is_fixed = abs(multipliers[i]) * s.C_norms[i] > FIXING_MULTIPLIER_FRACTION * scale
            all_active_are_fixed = all_active_are_fixed and is_fixed
            n_active_limits += 1
        elif role[i] == LimitRole.OWN:
            if sides[i] != 0:
                is_fixed = multipliers[i] * sides[i] > VIOLATION_TOLERANCE * (
                    s.C_norms[i] * x_norm + abs(active_bound(s, i))
                )
                all_active_are_fixed = all_active_are_fixed and is_fixed
            role[i] = LimitRole.LIMIT
        if is_fixed:
            role[i] = LimitRole.FIXED
            fixed_rows[n_fixed] = i
            n_fixed += 1
        elif role[i] == LimitRole.LIMIT:
            relax_bound_to_roundoff(s, i, work.C_at_next[i], x_norm)
        if sides[i] != 0:
            predicted_sides[i] = sides[i]
    return n_fixed, n_active_limits, all_active_are_fixed


@compiled()
def active_limits_are_independent(count: int, tolerance: float, work: HierarchyWorkspace) -> bool:
    """Returns whether the active limits, each of which is a pivot, are independent by the rank tolerance."""
    for k in range(count):
        i = work.factor.pivots[k]
        if not abs(work.H[k, i]) > tolerance * work.H_norms[i]:
            return False
    return True


@compiled(inline=False)
def update_null_space(h: Hierarchy, s: Subproblem, q: int, rank: int, x_norm: float, scale: float) -> int:
    """Fixes the rows that constrain the levels below, and rotates the basis so that its rows beyond the rank stay free.

    Args:
        h: the hierarchy.
        s: the level, solved.
        q: first row of the basis that spans the null space of the levels above.
        rank: number of directions that the level's own rows determine, if the reflectors are a basis of them, else -1.
        x_norm: norm of x.
        scale: upper bound of the gradient's terms, from `gradient_scale`.

    Returns:
        The rank of the level.
    """
    R, norms, C_z, fixed_rows = h.work.R, h.work.R_norms, s.C_z, h.work.active_limits
    m = s.m - s.damping_rows
    fixed, limits, is_working_set = fix_active_rows(s, h.work, x_norm, scale)
    r = rank
    if rank < 0 or not is_working_set or not active_limits_are_independent(limits, s.tolerance, h.work):
        norms[:m] = s.objective_norms[:m]
        for i in range(fixed):
            norms[m + i] = s.C_norms[fixed_rows[i]]
        copy_columns(R, s.J_z, s.d, m)
        for j in range(s.d):
            for i in range(fixed):
                R[j, m + i] = C_z[j, fixed_rows[i]]
        r = factor_rows(R, m + fixed, 0, s.d, norms, s.tolerance, h.work.factor)
    if r < s.d:  # else the levels below have no null space
        apply_reflectors(h.work.basis[q:], h.n, 0, r, s.d, h.work.factor.reflectors)
    for i in range(s.p):
        if s.role[i] == LimitRole.LIMIT and s.sides[i] != 0 and s.multipliers[i] != 0.0:
            if is_implied_limit(h, s, i, q + r, scale):
                s.role[i] = LimitRole.FIXED
    return r


@compiled(inline=False)
def finish_level(h: Hierarchy, k: int, q: int, rank: int, solved: Subproblem, level: Subproblem, scaled: bool) -> int:
    """Moves x to the optimum z of level k, computes the KKT residual and updates the null space; returns the rank.

    Args:
        h: the hierarchy.
        k: the level.
        q: first row of the basis that spans the null space of the levels above.
        rank: number of directions that the level determines, the first ones in the basis of the reflectors.
        solved: the level as it was solved.
        level: the same level with the inequalities as given; differs from `solved` if rows were scaled.
        scaled: whether rows were scaled to unit norm.
    """
    x, z, summary = h.solution.x, h.work.z, h.solution.summary
    move_along_basis(h, q, solved.d, z)
    x_norm = max(summary.equalities_norm, norm(x, h.n))
    scale = gradient_scale(solved, x_norm)
    kkt = compute_kkt_residual(solved, h.work, rank, x_norm, scale)
    h.solution.kkt[k] = kkt
    summary.max_kkt = max(summary.max_kkt, kkt)
    if scaled:
        gemv_add(h.work.C_at_next, level.C_at_start, z, level.C_z, level.d, level.p)
    if scaled or level.damping_rows > 0:
        rank = -1  # the reflectors belong to rows that were scaled or damped
    return update_null_space(h, level, q, rank, x_norm, scale)


#: Fraction of the largest predicted multiplier above which a row is part of the predicted working set of its first
#: level.
ACTIVE_MULTIPLIER_FRACTION = 1e-4


@compiled(inline=False)
def project_objective(h: Hierarchy, k: int, q: int, damping: float) -> int:
    """Projects the objective of level k into the null space from row q on, ``|J_z z + residual|^2``; returns its rows.

    The damping adds n rows, ``damping (x + Z z) = 0``.
    """
    J, all_targets, all_norms = level_objective(h, k)
    Q, J_z, x = h.work.basis, h.work.J_z, h.solution.x
    residual, target, objective_norms = h.work.residual, h.work.target, h.work.objective_norms
    n, m = h.n, load_level(h, k)
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
            forget_objectives(h)  # their memory may be that of the rows of unit norm
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
