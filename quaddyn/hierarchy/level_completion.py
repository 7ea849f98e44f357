"""The end of a level: x moved to its optimum, the KKT residual, and the basis of the remaining null space.

The KKT residual (certificate) is the residual of the optimality conditions of the level, computed from the rows of the
level and not from their factorizations.
"""

from __future__ import annotations

import math

from ..compiler import Vector, compiled
from ..compiler.lanes import copy_columns, gemv_add, gemv_transposed
from ..compiler.linalg import EPS, apply_reflectors, factor_rows, norm, row_multipliers
from .equalities import move_along_basis
from .problem import KKT_TOLERANCE
from .working_set_changes import MULTIPLIER_SIGN_TOLERANCE, active_bound, gradient_scale
from .workspace import KKT_SCALE_FLOOR, VIOLATION_TOLERANCE, Hierarchy, HierarchyWorkspace, LimitRole, Subproblem

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
