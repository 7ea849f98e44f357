"""Changes of the working set of one level by a primal active-set method.

Each iteration solves for the working set exactly and moves towards that solution until an inequality outside of the set
blocks, which is added.  After a full step the row whose multiplier (of own rows: whose slack) has the wrong sign by the
largest amount is removed; if there is none, the solution is optimal.  Every step satisfies the limits and decreases the
objective, so that even an interrupted solve disturbs no level above.

Source: Nocedal and Wright, *Numerical Optimization*, 2nd edition, section 16.5.

*Optimum for a fixed working set, without all other inequalities.*  Limits in the working set are equality constraints,
``C_h z = bound``; the level's own inequalities in it are further rows of its objective.  Two factorizations (null-space
method): the constraints determine their directions of z, and the objective is least squares in the remaining
directions.  The multipliers of the constraints follow from the remaining gradient.
"""

from __future__ import annotations

import math

from ..compiler import compiled
from ..compiler.lanes import copy_columns, gemv, gemv_add, gemv_transposed
from ..compiler.linalg import apply_reflectors, factor_rows, least_squares, norm, row_multipliers, undo_reflectors
from .workspace import FEASIBILITY_TOLERANCE, VIOLATION_TOLERANCE, HierarchyWorkspace, LimitRole, Subproblem

#: Fraction of its reference norm that the remainder of an active limit must exceed for the limit to be independent.
ACTIVE_ROW_INDEPENDENCE_TOLERANCE = 1e-12


@compiled()
def gather_active_limits(s: Subproblem, work: HierarchyWorkspace) -> int:
    """Writes the active limits as equations ``H step = H_rhs`` for a step from z; returns their number."""
    H, C_z, z, rhs, length, active_limits = work.H, s.C_z, work.z, work.H_rhs, work.H_norms, work.active_limits
    count = 0
    for i in range(s.p):
        if s.role[i] == LimitRole.LIMIT and s.sides[i] != 0:
            rhs[count] = (s.upper[i] if s.sides[i] > 0 else s.lower[i]) - s.C_at_start[i]
            length[count] = s.C_norms[i]
            active_limits[count] = i
            count += 1
    for j in range(s.d if count > 0 else 0):
        a = z[j]
        for i in range(count):
            H[j, i] = C_z[j, active_limits[i]]
            rhs[i] -= a * H[j, i]
    return count


@compiled()
def gather_objective(s: Subproblem, work: HierarchyWorkspace) -> int:
    """Writes objective and own active rows as ``R step = R_rhs`` for a step from z; returns the number of rows."""
    R, C_z, rhs, length, own_rows, values = work.R, s.C_z, work.R_rhs, work.R_norms, work.own_rows, work.row_values
    residual, objective_norms = s.residual, s.objective_norms
    rows = s.m
    for i in range(s.m):
        rhs[i] = -residual[i]
        length[i] = objective_norms[i]
    for i in range(s.p):
        if s.role[i] == LimitRole.OWN and s.sides[i] != 0:
            rhs[rows] = (s.upper[i] if s.sides[i] > 0 else s.lower[i]) - s.C_at_start[i]
            length[rows] = s.C_norms[i]
            own_rows[rows - s.m] = i
            rows += 1
    copy_columns(R, s.J_z, s.d, s.m)
    for j in range(s.d):
        for i in range(s.m, rows):
            R[j, i] = C_z[j, own_rows[i - s.m]]
    gemv(values, work.z, R, s.d, rows)
    for i in range(rows):
        rhs[i] -= values[i]
    return rows


@compiled(inline=False)
def solve_fixed_working_set(s: Subproblem, work: HierarchyWorkspace) -> int:
    """Computes the optimum for the working set in `z_next` and its multipliers; returns the number r of directions.

    Reflectors 0 to r - 1 are then a basis of the directions that the working set determines.
    """
    H, R, V, y, d, multipliers = work.H, work.R, work.factor.reflectors, work.y, s.d, s.multipliers
    rhs, H_rhs, values, gradient, z, z_next = (
        work.R_rhs,
        work.H_rhs,
        work.row_values,
        work.gradient,
        work.z,
        work.z_next,
    )
    multipliers[: s.p] = 0.0
    n_active = gather_active_limits(s, work)
    active_rank = 0
    if n_active > 0:
        active_rank = factor_rows(H, n_active, 0, d, work.H_norms, ACTIVE_ROW_INDEPENDENCE_TOLERANCE, work.factor)
        least_squares(H, n_active, 0, active_rank, work.H_norms, H_rhs, y, work.factor)
    work.optimum.active_rank = active_rank
    rows = gather_objective(s, work)
    if active_rank > 0:
        apply_reflectors(R, rows, 0, active_rank, d, V)
        gemv(values, y, R, active_rank, rows)
        for i in range(rows):
            rhs[i] -= values[i]
    r = factor_rows(R, rows, active_rank, d, work.R_norms, s.tolerance, work.factor)
    least_squares(R, rows, active_rank, r, work.R_norms, rhs, y, work.factor)
    z_next[: active_rank + r] = y[: active_rank + r]
    for j in range(active_rank + r, d):
        z_next[j] = 0.0
    undo_reflectors(z_next, active_rank + r, d, V)
    for j in range(d):
        z_next[j] += z[j]
    gemv(values, y[active_rank:], R[active_rank:], r, rows)
    for i in range(rows):
        values[i] -= rhs[i]
    for i in range(s.m, rows):
        multipliers[work.own_rows[i - s.m]] = values[i]
    if active_rank > 0:
        gemv_transposed(gradient, R, values, active_rank, rows)
        H_rhs[:n_active] = 0.0
        row_multipliers(H, active_rank, work.factor, gradient, H_rhs)
        for i in range(n_active):
            multipliers[work.active_limits[i]] = H_rhs[i]
    return active_rank + r


#: A multiplier has the wrong sign if it exceeds this fraction of the size of the gradient's terms, a slack if it
#: exceeds this fraction of the size of its row's terms.  The value is small because in a nearly flat level a multiplier
#: of the size of rounding may keep x far from the optimum.
MULTIPLIER_SIGN_TOLERANCE = 1e-14
#: Active limits must be reached to within this fraction of the size of their terms; otherwise they contradict each
#: other.
ACTIVE_BOUND_TOLERANCE = 1e-9
#: Multipliers of the wrong sign below MULTIPLIER_SIGN_TOLERANCE are examined again if they exceed the first fraction of
#: the sum of the gradient's terms.  The row is removed if the level's rows then change by more than the second fraction
#: of their own terms.
SMALL_MULTIPLIER_TOLERANCE, ROW_CHANGE_TOLERANCE = 1e-15, 1e-14
#: Largest number of removals of one row for such a small multiplier, per level.
MAX_ROW_RELEASES = 3
#: Number of consecutive steps of length 0 after which the first row with a wrong sign is removed (Bland's rule, which
#: prevents cycles).
MAX_DEGENERATE_STEPS = 20


@compiled()
def active_bound(s: Subproblem, i: int) -> float:
    """Returns the bound at which inequality i of the working set is active."""
    return float(s.upper[i] if s.sides[i] > 0 else s.lower[i])


@compiled()
def find_blocking_inequality(s: Subproblem, work: HierarchyWorkspace) -> tuple[float, int, int]:
    """Finds the first inequality that blocks the step from z to z_next.

    Writes the inequalities at z_next to `C_at_next`.

    Returns:
        The feasible fraction of the step (2 where nothing blocks); the blocking inequality, -1 for none; its side.
    """
    z, C_at_z, C_at_next, sides, role = work.z, work.C_at_z, work.C_at_next, s.sides, s.role
    lower, upper, C_norms, x_norm = s.lower, s.upper, s.C_norms, s.x_norm + norm(work.z_next, s.d)
    gemv_add(C_at_next, s.C_at_start, work.z_next, s.C_z, s.d, s.p)
    blocking = -1
    blocking_side = 0
    step_length = 2.0
    has_values = False
    for i in range(s.p):
        if (role[i] == LimitRole.LIMIT or role[i] == LimitRole.OWN) and sides[i] == 0:
            if C_at_next[i] > upper[i] + FEASIBILITY_TOLERANCE * (C_norms[i] * x_norm + abs(upper[i])):
                side = 1
                bound = upper[i]
            elif C_at_next[i] < lower[i] - FEASIBILITY_TOLERANCE * (C_norms[i] * x_norm + abs(lower[i])):
                side = -1
                bound = lower[i]
            else:
                continue
            if not has_values:
                gemv_add(C_at_z, s.C_at_start, z, s.C_z, s.d, s.p)
                has_values = True
            change = C_at_next[i] - C_at_z[i]
            alpha = 0.0
            if change * side > 0.0:
                alpha = min(max((bound - C_at_z[i]) / change, 0.0), 1.0)
            if alpha < step_length:
                step_length = alpha
                blocking = i
                blocking_side = side
    return step_length, blocking, blocking_side


@compiled()
def active_bounds_are_reached(s: Subproblem, work: HierarchyWorkspace, tolerance: float, x_norm: float) -> bool:
    """Returns whether `C_at_next` is at the bounds of the active limits, to a fraction of the size of their terms."""
    for i in range(s.p):
        if s.role[i] == LimitRole.LIMIT and s.sides[i] != 0:
            bound = active_bound(s, i)
            if not abs(work.C_at_next[i] - bound) <= tolerance * (s.C_norms[i] * x_norm + abs(bound)):
                return False
    return True


@compiled()
def gradient_scale(s: Subproblem, x_norm: float) -> float:
    """Returns an upper bound of the sum of the terms of the objective's gradient at an x of this norm."""
    scale = 1e-300
    for i in range(s.m):
        scale += s.objective_norms[i] * (abs(s.target[i]) + s.objective_norms[i] * x_norm)
    for i in range(s.p):
        if s.role[i] == LimitRole.OWN and s.sides[i] != 0:
            scale += s.C_norms[i] * (abs(active_bound(s, i)) + s.C_norms[i] * x_norm)
    return scale


@compiled()
def find_wrong_multiplier(s: Subproblem, x_norm: float, scale: float, first_index: bool) -> int:
    """Finds the row whose multiplier or slack has the wrong sign by the largest amount; -1 for none.

    With `first_index` it returns the first such row.
    """
    role, sides, multipliers, C_norms = s.role, s.sides, s.multipliers, s.C_norms
    worst = -1
    largest = 0.0
    for i in range(s.p):
        if sides[i] == 0:
            continue
        wrong = -multipliers[i] * sides[i]
        if role[i] == LimitRole.LIMIT:
            if wrong * C_norms[i] <= MULTIPLIER_SIGN_TOLERANCE * scale:
                continue
        elif role[i] == LimitRole.OWN:
            if wrong <= MULTIPLIER_SIGN_TOLERANCE * (C_norms[i] * x_norm + abs(active_bound(s, i))):
                continue
        else:
            continue
        if wrong * C_norms[i] > largest:
            largest = wrong * C_norms[i]
            worst = i
            if first_index:
                break
    return worst


@compiled()
def measure_wrong_signs(s: Subproblem, work: HierarchyWorkspace, x_norm: float) -> float:
    """Writes the sizes of multipliers with the wrong sign to `wrong_sign_sizes`; returns the threshold for rounding.

    The threshold is inf if all multipliers are rounding errors.
    """
    target, objective_norms, residuals, wrong, role, sides = (
        s.target,
        s.objective_norms,
        work.row_values,
        work.wrong_sign_sizes,
        s.role,
        s.sides,
    )
    gradient_sum = 0.0
    has_residual = False
    for i in range(s.m):
        gradient_sum += objective_norms[i] * abs(residuals[i])
        has_residual |= abs(residuals[i]) > ROW_CHANGE_TOLERANCE * (objective_norms[i] * x_norm + abs(target[i]))
    largest = 0.0
    for i in range(s.p):
        wrong[i] = 0.0
        if sides[i] == 0 or not (role[i] == LimitRole.LIMIT or role[i] == LimitRole.OWN):
            continue
        slack, length = s.multipliers[i], s.C_norms[i]
        wrong[i] = -slack * sides[i] * length
        largest = max(largest, wrong[i])
        if role[i] == LimitRole.OWN:
            gradient_sum += length * abs(slack)
            has_residual |= abs(slack) > ROW_CHANGE_TOLERANCE * (length * x_norm + abs(active_bound(s, i)))
    return SMALL_MULTIPLIER_TOLERANCE * gradient_sum if has_residual and largest > 0.0 else math.inf


@compiled()
def objective_changed(s: Subproblem, work: HierarchyWorkspace, x_norm: float, row: int, side: int) -> bool:
    """Returns whether the step from z to z_next, with `row` removed from its side, changes the objective's rows."""
    step, change, z, z_next, own_change = work.gradient, work.row_values, work.z, work.z_next, work.C_at_z
    changed = False
    for j in range(s.d):
        step[j] = z_next[j] - z[j]
    gemv(change, step, s.J_z, s.d, s.m)
    for i in range(s.m):
        changed |= abs(change[i]) > ROW_CHANGE_TOLERANCE * (s.objective_norms[i] * x_norm + abs(s.target[i]))
    gemv(own_change, step, s.C_z, s.d, s.p)
    for i in range(s.p):
        if s.role[i] == LimitRole.OWN and (s.sides[i] != 0 or i == row):
            bound = s.upper[i] if s.sides[i] + (side if i == row else 0) > 0 else s.lower[i]
            changed |= abs(own_change[i]) > ROW_CHANGE_TOLERANCE * (s.C_norms[i] * x_norm + abs(bound))
    return changed


@compiled(inline=False)
def find_small_wrong_multiplier(s: Subproblem, work: HierarchyWorkspace, rank: int, x_norm: float) -> tuple[int, int]:
    """Finds a row whose small multiplier of the wrong sign keeps the level from its optimum.

    Along a direction in which a level is nearly flat, a slope of 1e-9 may continue over a long distance.  A true
    multiplier is distinguished from rounding by whether the level's rows change once the row is removed.

    Args:
        s: the level; z is the optimum for its working set.
        work: workspace.
        rank: number of directions that the working set determines.
        x_norm: norm of x.

    Returns:
        The row that was removed, -1 for none, -2 if a row that was removed `MAX_ROW_RELEASES` times should be removed
        again; and the rank.
    """
    wrong_sign_sizes, sides, release_counts = work.wrong_sign_sizes, s.sides, work.release_counts
    threshold = measure_wrong_signs(s, work, x_norm)
    tried = False
    removed_row = -1
    while True:
        row = -1
        largest = threshold
        for i in range(s.p):
            if wrong_sign_sizes[i] > largest:
                largest = wrong_sign_sizes[i]
                row = i
        if row < 0:
            break
        wrong_sign_sizes[row] = 0.0
        side = sides[row]
        tried = True
        sides[row] = 0
        solve_fixed_working_set(s, work)
        changed = objective_changed(s, work, x_norm, row, side)
        if changed and release_counts[row] < MAX_ROW_RELEASES:
            release_counts[row] += 1
            return row, rank
        sides[row] = side
        if changed:
            removed_row = -2
            break
    if tried:
        rank = solve_fixed_working_set(s, work)
    return removed_row, rank


@compiled()
def initialize_working_set(s: Subproblem, work: HierarchyWorkspace) -> None:
    """Initializes the working set at z: violated inequalities of the level, and given limits that are reached."""
    C_at_z, sides, role, x_norm = work.C_at_z, s.sides, s.role, s.x_norm
    for j in range(s.d):
        x_norm += abs(work.z[j])
    gemv_add(C_at_z, s.C_at_start, work.z, s.C_z, s.d, s.p)
    for i in range(s.p):
        work.release_counts[i] = 0
        scale = s.C_norms[i] * x_norm
        if role[i] == LimitRole.OWN:
            sides[i] = 0
            if C_at_z[i] > s.upper[i] + FEASIBILITY_TOLERANCE * (scale + abs(s.upper[i])):
                sides[i] = 1
            elif C_at_z[i] < s.lower[i] - FEASIBILITY_TOLERANCE * (scale + abs(s.lower[i])):
                sides[i] = -1
        elif role[i] == LimitRole.LIMIT and sides[i] != 0:
            bound = active_bound(s, i)
            if abs(C_at_z[i] - bound) > VIOLATION_TOLERANCE * (scale + abs(bound)):
                sides[i] = 0


@compiled(inline=False)
def find_optimal_working_set(s: Subproblem, work: HierarchyWorkspace, max_changes: int) -> tuple[bool, int, int]:
    """Adds and removes rows of the working set until it is optimal; starts and ends at a z that satisfies the limits.

    Args:
        s: the level.
        work: workspace; z ends at the optimum.
        max_changes: bound of the number of iterations.

    Returns:
        Whether the optimum was found; the number of changes of the working set; the number of directions that it
        determines.
    """
    z, z_next, sides = work.z, work.z_next, s.sides
    initialize_working_set(s, work)
    degenerate_steps = 0
    changes = 0
    rank = 0
    for _ in range(max_changes):
        rank = solve_fixed_working_set(s, work)
        alpha, row, side = find_blocking_inequality(s, work)
        if row >= 0:
            changes += 1
            for j in range(s.d):
                z[j] += alpha * (z_next[j] - z[j])
            sides[row] = side
            degenerate_steps = degenerate_steps + 1 if alpha == 0.0 else 0
            continue
        z[: s.d] = z_next[: s.d]
        x_norm = s.x_norm + norm(z, s.d)
        row = find_wrong_multiplier(s, x_norm, gradient_scale(s, x_norm), degenerate_steps > MAX_DEGENERATE_STEPS)
        if row < 0:
            row, rank = find_small_wrong_multiplier(s, work, rank, x_norm)
        if row < 0:
            return row == -1 and active_bounds_are_reached(s, work, ACTIVE_BOUND_TOLERANCE, x_norm), changes, rank
        changes += 1
        sides[row] = 0
    return False, changes, rank


@compiled(inline=False)
def verify_working_set(s: Subproblem, work: HierarchyWorkspace) -> tuple[bool, int]:
    """Returns whether the working set is optimal, from z = 0, and its rank; if it is optimal, z is the optimum."""
    z = work.z
    rank = solve_fixed_working_set(s, work)
    x_norm = s.x_norm + norm(work.z_next, s.d)
    _alpha, row, _side = find_blocking_inequality(s, work)
    if row >= 0 or not active_bounds_are_reached(s, work, FEASIBILITY_TOLERANCE, x_norm):
        return False, rank
    if find_wrong_multiplier(s, x_norm, gradient_scale(s, x_norm), False) >= 0:
        return False, rank
    z[: s.d] = work.z_next[: s.d]
    work.release_counts[: s.p] = 0
    row, rank = find_small_wrong_multiplier(s, work, rank, x_norm)
    if row != -1:
        z[: s.d] = 0.0
    return row == -1, rank
