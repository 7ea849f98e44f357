"""Prediction of the working sets: the limits that are active if the levels are one weighted sum.

The prediction starts with the last level alone and adds one level after the other from below, until the limits can be
satisfied.  In coordinates y of the basis the weighted sum of squares is ``|W (y - y_0)|^2`` with W triangular level by
level; with ``u = W (y - y_0)`` its minimum is the shortest u with ``lower <= C x_0 + G u <= upper``, ``G W = C Q``.

This u is the point of a polyhedron nearest to the origin, and is found by a dual active-set method.

Source: Goldfarb and Idnani, *A numerically stable dual method for solving strictly convex quadratic programs*, 1983,
with the identity as Hessian.
"""

from __future__ import annotations

import math

from ..compiler import IntVector, Matrix, Vector, compiled
from ..compiler.kinds import LANE_WIDTH
from ..compiler.lanes import (
    copy_columns,
    gemm,
    gemv_add,
    gemv_transposed,
    reflect_columns,
    reflect_rows,
    rotate,
    row_squares,
)
from ..compiler.linalg import column_reflector, unit_reflector
from .equalities import load_level, move_along_basis
from .workspace import FEASIBILITY_TOLERANCE, Hierarchy, LimitRole, PredictionWorkspace, level_objective

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


#: Weight of a level relative to the level above it; small enough for the residual of a level to be 1e5 times that of
#: the level above.
LOWER_LEVEL_WEIGHT = 1e-6
#: Fraction of its reference norm below which a row has no component in the null space.
DETERMINED_ROW_TOLERANCE = 1e-10


@compiled(inline=False)
def triangularize(
    M: Matrix, m: int, first_column: int, first: int, last: int, weight: float, W: Matrix, scratch: Vector
) -> bool:
    """Triangularizes the rows of a level: writes W with ``|W w| = |M w|`` up to a factor, for one block of columns.

    Args:
        M: (>= last, >= m) columns of the level's rows; overwritten.
        m: number of rows.
        first_column: first column to transform.
        first: first column of the block, which becomes a triangle; the columns before it are transformed with it.
        last: end of the block.
        weight: mean of the block's diagonal after scaling.
        W: (>= last, >= last) output.
        scratch: (>= m,) buffer.

    Returns:
        Whether the columns are independent.
    """
    diagonal_sum = 0.0
    end = LANE_WIDTH * ((m + LANE_WIDTH - 1) // LANE_WIDTH)
    for j in range(first_column, last):
        for i in range(m, end):
            M[j, i] = 0.0
    for k in range(first, last):
        reflector_scale, diagonal = column_reflector(scratch, M[k], k - first, m)
        if not abs(diagonal) > 0.0:
            return False
        reflect_columns(M[first_column:], scratch, reflector_scale, first - first_column, m)
        reflect_columns(M[k + 1 :], scratch, reflector_scale, last - k - 1, m)
        M[k, k - first] = diagonal
        diagonal_sum += abs(diagonal)
    factor = weight * (last - first) / diagonal_sum
    for k in range(first, last):
        for j in range(first_column, last):
            W[k, j] = factor * M[j, k - first] if j < first or j >= k else 0.0
    return True


@compiled(inline=False)
def add_weighted_level(h: Hierarchy, k: int, first_column: int, q: int, r: int, weight: float) -> bool:
    """Adds the r rows of level k to W from row q on; returns False if the level lost rank."""
    Q, J, J_z, m = h.work.basis, level_objective(h, k).J, h.work.J_z, load_level(h, k)
    gemm(J_z[first_column:], Q[first_column:], J, q + r - first_column, h.n, m)
    return triangularize(J_z, m, first_column, q, q + r, weight, h.work.prediction.W, h.work.row_values)


@compiled(inline=False)
def add_normals(h: Hierarchy, q: int, r: int, end: int) -> None:
    """Computes columns q to q + r of the inequality normals G in the coordinates ``u = W y``, from ``C Q^T = G W``.

    The rows of W up to `end` must be complete.  For a limit that the levels above determine, the component in the null
    space is a rounding error; its normal is set to zero.
    """
    W, G, C_z, coefficients = h.work.prediction.W, h.work.prediction.G, h.work.C_z, h.work.prediction.normal_coordinates
    norms_squared, free_norms_squared, norms = (
        h.work.prediction.G_norms_squared,
        h.work.prediction.free_norms_squared,
        h.problem.C_norms,
    )
    gemm(C_z[q:], h.work.basis[q:], h.work.C, r, h.n, h.p)
    copy_columns(G[q:], C_z[q:], r, h.p)
    row_squares(norms_squared, C_z[q:], r, h.p)
    for i in range(h.p):
        free_norms_squared[i] += norms_squared[i]
        threshold = DETERMINED_ROW_TOLERANCE * norms[i]
        if free_norms_squared[i] <= threshold * threshold:
            for c in range(q, q + r):
                G[c, i] = 0.0
    for c in range(q, q + r):
        column = G[c]
        for e in range(q, end):
            coefficients[e - q] = -W[e, c]
        gemv_add(column, column, coefficients, G[q:], c - q, h.p)
        if end > q + r:
            gemv_add(column, column, coefficients[r:], G[q + r :], end - q - r, h.p)
        inverse_diagonal = 1.0 / W[c, c]
        for i in range(h.p):
            column[i] *= inverse_diagonal


@compiled()
def move_to_prediction(h: Hierarchy, first: int, q: int) -> None:
    """Moves x to the predicted point ``x + Q^T y``, where ``W y = u`` is solved level by level from `first` on."""
    W, u, y = h.work.prediction.W, h.work.z, h.work.z_next
    start = q
    for k in range(first, h.levels):
        r = int(h.solution.ranks[k])
        for i in range(start, start + r):
            remainder = u[i - q]
            for j in range(q, start):
                remainder -= W[i, j] * y[j]
            y[i] = remainder
        for i in range(start + r - 1, start - 1, -1):
            remainder = y[i]
            for j in range(i + 1, start + r):
                remainder -= W[i, j] * y[j]
            y[i] = remainder / W[i, i]
        start += r
    for i in range(start, h.n):
        y[i] = u[i - q]
    move_along_basis(h, q, h.n - q, y[q:])


@compiled(inline=False)
def predict_active_set(h: Hierarchy, x_norm: float) -> int:
    """Predicts the working sets and moves x to the predicted point; returns the first level with limits, or -1.

    The point satisfies all limits of that level and of those above it; sets and multipliers are in `prediction`; `C_z`
    has the columns of that level and those below it.  Level 0 with inequalities is left to `find_least_violation`,
    because its own inequalities are not limits for it.
    """
    n, W, role, ranks, C_start = h.n, h.work.prediction.W, h.work.role, h.solution.ranks, h.problem.C_start
    q = n - int(ranks[h.levels])
    end = q
    first_column = int(ranks[0]) if C_start[1] > 0 else 0  # the weighted sum does not include level 0
    weight = 1.0
    h.work.prediction.free_norms_squared[: h.p] = 0.0
    for i in range(q, n):  # directions that no level determines: identity block
        for j in range(q, n):
            W[i, j] = 0.0
        W[i, i] = 1.0
    add_normals(h, q, n - q, n)
    gemv_add(h.work.C_at_start, h.work.zeros, h.solution.x, h.work.C, n, h.p)
    for first in range(h.levels - 1, -1, -1):
        r = int(ranks[first])
        if r == 0:
            continue
        if first == 0 and C_start[1] > 0:
            break
        q -= r
        weight /= LOWER_LEVEL_WEIGHT
        if not add_weighted_level(h, first, first_column, q, r, weight):
            return -1
        add_normals(h, q, r, end)
        for i in range(h.p):
            role[i] = LimitRole.LOWER_LEVEL
        for i in range(C_start[0], C_start[first + 1]):
            role[i] = LimitRole.FIXED if h.work.is_equality[i] != 0 else LimitRole.LIMIT
        is_found, changes = find_minimum_norm_point(h, h.work.prediction, q, x_norm)
        h.solution.summary.iterations += changes
        if is_found:
            move_to_prediction(h, first, q)
            return first
    return -1
