"""The point of a polyhedron nearest to the origin, by a dual active-set method.

Source: Goldfarb and Idnani, *A numerically stable dual method for solving strictly convex quadratic programs*, 1983,
with the identity as Hessian.
"""

from __future__ import annotations

import math

from ..compiler import IntVector, Matrix, Vector, compiled
from ..compiler.lanes import gemv_add, gemv_transposed, reflect_rows, rotate, row_squares
from ..compiler.linalg import unit_reflector
from .workspace import FEASIBILITY_TOLERANCE, Hierarchy, LimitRole, PredictionWorkspace

#: Fraction of its norm that the remainder of a normal must exceed to be independent of the active ones.
NORMAL_INDEPENDENCE_TOLERANCE = 1e-10


@compiled()
def initialize_dual_active_set(h: Hierarchy, g: PredictionWorkspace, G: Matrix, d: int, x_norm: float) -> None:
    """Prepares the dual method at u = 0: no active rows, J the identity, relaxed bounds, and the weights of the rows.

    The bounds are relaxed by half of `FEASIBILITY_TOLERANCE` times the size of the terms of their row, so that rounding
    errors are not violations.  The weight of a row of role `LimitRole.LIMIT` is 1 / (squared norm of its normal); other
    rows have the weight 0 and never become active.

    Args:
        h: the hierarchy; its u is written to ``h.work.z``.
        g: workspace of the method, written.
        G: (d, p) normals of the p inequalities in the coordinates u.
        d: number of entries of u.
        x_norm: norm of x, for the size of the terms.
    """
    u, lower, upper, length = h.work.z, h.work.lower, h.work.upper, h.problem.C_norms
    row_squares(g.G_norms_squared, G, d, h.p)
    for i in range(h.p):
        g.sides[i] = 0
        g.multipliers[i] = 0.0
        g.lower[i] = lower[i] - 0.5 * FEASIBILITY_TOLERANCE * (length[i] * x_norm + abs(lower[i]))
        g.upper[i] = upper[i] + 0.5 * FEASIBILITY_TOLERANCE * (length[i] * x_norm + abs(upper[i]))
        g.candidate_weights[i] = 1.0 / g.G_norms_squared[i] if h.work.role[i] == LimitRole.LIMIT else 0.0
    for j in range(d):
        u[j] = 0.0
        for k in range(d):
            g.J[j, k] = 0.0
        g.J[j, j] = 1.0


@compiled()
def find_most_violated(g: PredictionWorkspace, value: Vector, p: int) -> int:
    """Finds the inequality with the largest violation measured along its normal; -1 if all are satisfied."""
    lower, upper, weights = g.lower, g.upper, g.candidate_weights
    worst = -1
    largest = 0.0
    for i in range(p):
        violation = max(value[i] - upper[i], lower[i] - value[i])
        scaled_violation = violation * abs(violation) * weights[i]
        if scaled_violation > largest:
            largest = scaled_violation
            worst = i
    return worst


@compiled()
def add_active_row(g: PredictionWorkspace, i: int, count: int, d: int, remainder_squared: float) -> None:
    """Adds row i to the active set at position `count`: a reflection rotates the rest of its normal into J[count]."""
    R, coordinates = g.R, g.normal_coordinates
    remainder = coordinates[count:]
    for k in range(count):
        R[count, k] = coordinates[k]
    R[count, count] = unit_reflector(remainder, math.sqrt(remainder_squared), d - count)
    reflect_rows(g.J[count:], remainder, d - count, d)
    g.active_rows[count] = i
    g.candidate_weights[i] = 0.0


@compiled()
def remove_active_row(R: Matrix, J: Matrix, active: IntVector, leaving: int, count: int, d: int) -> None:
    """Removes the active row at a position out of `count` + 1; rotations make R triangular again."""
    for k in range(leaving, count):
        active[k] = active[k + 1]
        for j in range(k + 2):
            R[k, j] = R[k + 1, j]
    for k in range(leaving, count):
        cosine, sine = R[k, k], R[k, k + 1]
        length = math.sqrt(cosine * cosine + sine * sine)
        if length == 0.0:
            continue
        cosine /= length
        sine /= length
        R[k, k] = length
        R[k, k + 1] = 0.0
        for j in range(k + 1, count):
            x, y = R[j, k], R[j, k + 1]
            R[j, k] = cosine * x + sine * y
            R[j, k + 1] = cosine * y - sine * x
        rotate(J[k], J[k + 1], cosine, sine, d)


@compiled()
def compute_dual_step(g: PredictionWorkspace, count: int, d: int) -> tuple[float, float, int]:
    """Computes how the active multipliers change with the new row's multiplier, and which reaches zero first.

    Returns:
        The squared norm of the remainder of the new row's normal; the multiplier at which an active row leaves (inf for
        none), and its position.
    """
    R, coordinates, rates, multipliers, active = (
        g.R,
        g.normal_coordinates,
        g.multiplier_rates,
        g.multipliers,
        g.active_rows,
    )
    gemv_transposed(coordinates, g.J, g.new_normal, d, d)
    remainder_squared = 0.0
    for k in range(count, d):
        remainder_squared += coordinates[k] * coordinates[k]
    rates[:count] = coordinates[:count]
    for k in range(count - 1, -1, -1):
        rate = rates[k] / R[k, k]
        rates[k] = rate
        for j in range(k):
            rates[j] -= rate * R[k, j]
    max_step = math.inf
    leaving = -1
    for k in range(count):
        if rates[k] > 0.0 and multipliers[active[k]] / rates[k] < max_step:
            max_step = multipliers[active[k]] / rates[k]
            leaving = k
    return remainder_squared, max_step, leaving


@compiled(inline=False)
def find_minimum_norm_point(h: Hierarchy, g: PredictionWorkspace, first_column: int, x_norm: float) -> tuple[bool, int]:
    """Finds the u of minimum norm with ``lower <= C_at_start + G u <= upper`` for the limits.

    From u = 0, the most violated limit is added; rows whose multipliers would become negative leave.  The result is in
    `z`, the active rows are in `sides` and their multipliers (>= 0) in `multipliers`.

    Args:
        h: the hierarchy; `role` marks the inequalities that are limits.
        g: normals G, and workspace.
        first_column: first column of G to use.
        x_norm: norm of x, which scales the rounding tolerance.

    Returns:
        Whether a point was found; the number of changes of the active set.
    """
    G, J, d, u, value = g.G[first_column:], g.J, h.n - first_column, h.work.z, h.work.C_at_z
    lower, upper, multipliers, active, normal, rates = (
        h.work.lower,
        h.work.upper,
        g.multipliers,
        g.active_rows,
        g.new_normal,
        g.multiplier_rates,
    )
    initialize_dual_active_set(h, g, G, d, x_norm)
    count = 0
    changes = 0
    for _ in range(4 * d + 50):
        gemv_add(value, h.work.C_at_start, u, G, d, h.p)
        joining = find_most_violated(g, value, h.p)
        if joining < 0:
            return True, changes
        if not g.G_norms_squared[joining] > 0.0:
            return False, changes
        changes += 1
        side = 1 if value[joining] > upper[joining] else -1
        violation = (value[joining] - upper[joining]) if side > 0 else (lower[joining] - value[joining])
        for j in range(d):
            normal[j] = -side * G[j, joining]
        joining_multiplier = 0.0
        while True:
            remainder_squared, drop_step, leaving = compute_dual_step(g, count, d)
            full_step = (
                violation / remainder_squared
                if remainder_squared
                > NORMAL_INDEPENDENCE_TOLERANCE * NORMAL_INDEPENDENCE_TOLERANCE * g.G_norms_squared[joining]
                else math.inf
            )
            step_length = min(drop_step, full_step)
            if not step_length < math.inf:
                return False, changes
            for k in range(count):
                multipliers[active[k]] -= step_length * rates[k]
            joining_multiplier += step_length
            if full_step < math.inf:
                step = rates[count:]
                for k in range(d - count):
                    step[k] = step_length * g.normal_coordinates[count + k]
                gemv_add(u, u, step, J[count:], d - count, d)
                violation -= step_length * remainder_squared
            if full_step <= drop_step:
                add_active_row(g, joining, count, d, remainder_squared)
                multipliers[joining] = joining_multiplier
                g.sides[joining] = side
                count += 1
                break
            left_row = active[leaving]
            g.sides[left_row] = 0
            multipliers[left_row] = 0.0
            g.candidate_weights[left_row] = 1.0 / g.G_norms_squared[left_row]
            count -= 1
            remove_active_row(g.R, J, active, leaving, count, d)
    return False, changes
