"""The optimum of one level for a fixed working set, without all other inequalities.

Limits in the working set are equality constraints, ``C_h z = bound``; the level's own inequalities in it are further
rows of its objective.  Two factorizations (null-space method): the constraints determine their directions of z, and the
objective is least squares in the remaining directions.  The multipliers of the constraints follow from the remaining
gradient.
"""

from __future__ import annotations

from ..compiler import compiled
from ..compiler.lanes import copy_columns, gemv, gemv_transposed
from ..compiler.linalg import apply_reflectors, factor_rows, least_squares, row_multipliers, undo_reflectors
from .workspace import HierarchyWorkspace, LimitRole, Subproblem

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
