"""The optimum of one level with its working set held, all other inequalities forgotten.

Limits in the working set are equations, ``C_h z = bound``; the level's own inequalities in it are further rows of its
objective.  Two factorizations: the equations take their directions out of z, and the objective is least squares in what
they leave (null-space method); the equations' multipliers follow from the gradient that is left.
"""

from __future__ import annotations

from ..compiler import compiled
from ..compiler.lanes import copy_columns, gemv, gemv_transposed
from ..compiler.linalg import apply_reflectors, factor_rows, least_squares, row_multipliers, undo_reflectors
from .workspace import LIMIT, OWN, Subproblem, Workspace

#: Held limits are independent beyond this share of their reference length.
INDEPENDENT = 1e-12


@compiled()
def gather_held(s: Subproblem, work: Workspace) -> int:
    """Held limits as equations ``H step = H_rhs`` for a step from z; how many."""
    H, C_z, z, rhs, length, held = work.H, s.C_z, work.z, work.H_rhs, work.H_length, work.held
    count = 0
    for i in range(s.p):
        if s.role[i] == LIMIT and s.sides[i] != 0:
            rhs[count] = (s.upper[i] if s.sides[i] > 0 else s.lower[i]) - s.at_start[i]
            length[count] = s.c_norm[i]
            held[count] = i
            count += 1
    for j in range(s.d if count > 0 else 0):
        a = z[j]
        for i in range(count):
            H[j, i] = C_z[j, held[i]]
            rhs[i] -= a * H[j, i]
    return count


@compiled()
def gather_objective(s: Subproblem, work: Workspace) -> int:
    """Objective rows, then own inequalities held, as ``R step = R_rhs`` for a step from z; how many."""
    R, C_z, rhs, length, own, values = work.R, s.C_z, work.R_rhs, work.R_length, work.own, work.row_values
    residual, j_norm = s.residual, s.j_norm
    rows = s.m
    for i in range(s.m):
        rhs[i] = -residual[i]
        length[i] = j_norm[i]
    for i in range(s.p):
        if s.role[i] == OWN and s.sides[i] != 0:
            rhs[rows] = (s.upper[i] if s.sides[i] > 0 else s.lower[i]) - s.at_start[i]
            length[rows] = s.c_norm[i]
            own[rows - s.m] = i
            rows += 1
    copy_columns(R, s.J_z, s.d, s.m)
    for j in range(s.d):
        for i in range(s.m, rows):
            R[j, i] = C_z[j, own[i - s.m]]
    gemv(values, work.z, R, s.d, rows)
    for i in range(rows):
        rhs[i] -= values[i]
    return rows


@compiled(inline=False)
def solve_working_set(s: Subproblem, work: Workspace) -> int:
    """Put the optimum for the working set into `z_next`, and its multipliers; the number of directions it decides.

    Reflectors k < that number are then a basis of these directions.
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
    for i in range(s.p):
        multipliers[i] = 0.0
    held = gather_held(s, work)
    fixed = 0
    if held > 0:
        fixed = factor_rows(H, held, 0, d, work.H_length, INDEPENDENT, work.factor)
        least_squares(H, held, 0, fixed, work.H_length, H_rhs, y, work.factor)
    work.fixed[0] = fixed
    rows = gather_objective(s, work)
    if fixed > 0:
        apply_reflectors(R, rows, 0, fixed, d, V)
        gemv(values, y, R, fixed, rows)
        for i in range(rows):
            rhs[i] -= values[i]
    r = factor_rows(R, rows, fixed, d, work.R_length, s.tolerance, work.factor)
    least_squares(R, rows, fixed, r, work.R_length, rhs, y, work.factor)
    for j in range(fixed + r):
        z_next[j] = y[j]
    for j in range(fixed + r, d):
        z_next[j] = 0.0
    undo_reflectors(z_next, fixed + r, d, V)
    for j in range(d):
        z_next[j] += z[j]
    gemv(values, y[fixed:], R[fixed:], r, rows)
    for i in range(rows):
        values[i] -= rhs[i]
    for i in range(s.m, rows):
        multipliers[work.own[i - s.m]] = values[i]
    if fixed > 0:
        gemv_transposed(gradient, R, values, fixed, rows)
        for i in range(held):
            H_rhs[i] = 0.0
        row_multipliers(H, fixed, work.factor, gradient, H_rhs)
        for i in range(held):
            multipliers[work.held[i]] = H_rhs[i]
    return fixed + r
