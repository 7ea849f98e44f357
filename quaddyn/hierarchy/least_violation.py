"""Prediction of the violated inequalities of an infeasible level 0.

No higher level limits level 0: its objective is the sum of squares of equality residuals and inequality violations,
a piecewise quadratic function.  Newton's method with a line search changes many of its active rows at a time.  It uses
normal equations, which lose half of the digits; therefore the result is a prediction that must be verified.

Source: Mangasarian, *A finite Newton method for classification*, Optimization Methods and Software 2002.
"""

from __future__ import annotations

import math

from ..compiler import LANE_WIDTH, ByteMatrix, Matrix, Vector, compiled
from ..compiler.lanes import axpy, clear, dot, gemv, gemv_transposed
from ..compiler.language import load8, store8
from ..compiler.linalg import cholesky, norm
from .equalities import load_level
from .workspace import FEASIBILITY_TOLERANCE, Hierarchy, LimitRole, PredictionWorkspace, level_objective

#: Added to the diagonal of the normal equations, as a fraction of their largest diagonal entry.
REGULARIZATION = 1e-12
#: A Newton step is unique if every squared pivot exceeds this fraction of the largest diagonal entry.
UNIQUENESS_TOLERANCE = 1e-8
#: Largest ratio of the reference norms of level 0 for which squares of its rows may be summed.
MAX_ROW_SCALE_RATIO = 1e4
#: Fraction of the size of its terms by which a row that the warm start marks as violated may be satisfied (rounding).
PLAUSIBILITY_TOLERANCE = 1e-6
#: A step below this fraction of |x| counts as zero, and so does a violation below this fraction of the size of its
#: terms.
STATIONARY_STEP_RATIO = 1e-9
#: A step below this fraction of |x| is lost in rounding.
MIN_STEP_RATIO = 1e-13
#: Relative decrease of the sum of squares below which it counts as zero: rounding of hundreds of terms is up to 1e-13.
DESCENT_TOLERANCE = 1e-12
#: Number of consecutive Newton steps without a decrease of the sum of squares after which the search ends.  On random
#: infeasible hierarchies where Newton's method converged, 96 runs of 103 had no such step, and 99 had at most 3.
MAX_IDLE_STEPS = 8
#: Bounds of the Newton steps and of the line-search steps; fraction of the initial slope at which the line search
#: stops.
MAX_NEWTON_STEPS, MAX_LINE_SEARCH_STEPS, SLOPE_REDUCTION = 60, 20, 1e-3


@compiled()
def has_uniform_row_scale(h: Hierarchy) -> bool:
    """Returns whether the reference norms of level 0 are similar enough for squares of its rows to be summed."""
    shortest, longest = math.inf, 0.0
    for i in range(h.problem.A_start[1]):
        if h.problem.A_norms[i] > 0.0:
            shortest, longest = min(shortest, h.problem.A_norms[i]), max(longest, h.problem.A_norms[i])
    for i in range(h.problem.C_start[1]):
        if h.problem.C_norms[i] > 0.0:
            shortest, longest = min(shortest, h.problem.C_norms[i]), max(longest, h.problem.C_norms[i])
    return longest <= MAX_ROW_SCALE_RATIO * shortest


@compiled()
def warm_start_violates_level_0(h: Hierarchy, warm_start: ByteMatrix) -> bool:
    """Returns whether the warm start has violated inequalities in level 0."""
    for i in range(h.problem.C_start[1]):
        if warm_start[0, i] != 0 and h.work.is_equality[i] == 0:
            return True
    return False


@compiled()
def constraint_violation(h: Hierarchy, i: int, value: float) -> float:
    """Returns by how much a value of inequality i exceeds its upper bound (> 0) or its lower bound (< 0)."""
    return float(max(value - h.work.prediction.upper[i], 0.0) + min(value - h.work.prediction.lower[i], 0.0))


@compiled(inline=False)
def add_outer_products(g: PredictionWorkspace, n: int, count: int) -> None:
    """Adds ``sum_k sign_k row_k row_k^T`` to the upper triangle of H; rows in `R`, signs in `normal_coordinates`."""
    H, rows, signs, products = g.W, g.R, g.normal_coordinates, g.multiplier_rates
    for j in range(n):
        for k in range(count):
            products[k] = signs[k] * rows[k, j]
        for i in range(j - j % LANE_WIDTH, n, LANE_WIDTH):
            s = load8(H, j, i)
            for k in range(count):
                s += products[k] * load8(rows, k, i)
            store8(s, H, j, i)


@compiled()
def warm_start_side(h: Hierarchy, warm_start: ByteMatrix, i: int) -> int:
    """Returns the side on which inequality i is violated in the warm start (-1, 1); 0 for none."""
    if (warm_start[0, i] > 0 and h.work.upper[i] < math.inf) or (warm_start[0, i] < 0 and h.work.lower[i] > -math.inf):
        return int(warm_start[0, i])
    return 0


@compiled()
def violated_side_at_x(h: Hierarchy, i: int) -> int:
    """Returns the side on which inequality i is violated at x (-1, 1); 0 for none."""
    violation = constraint_violation(h, i, h.work.C_at_z[i])
    return 1 if violation > 0.0 else (-1 if violation < 0.0 else 0)


@compiled(inline=False)
def update_violated_rows(h: Hierarchy, warm_start: ByteMatrix, from_warm_start: bool) -> int:
    """Updates the normal equations to the rows violated at x or in the warm start; returns the number of changes."""
    g, n, C = h.work.prediction, h.n, h.problem.C
    changes, count = 0, 0
    for i in range(h.problem.C_start[1]):
        if h.work.is_equality[i] != 0:
            continue
        side = warm_start_side(h, warm_start, i) if from_warm_start else violated_side_at_x(h, i)
        if side == g.sides[i]:
            continue
        if side == 0 or g.sides[i] == 0:
            g.normal_coordinates[count] = 1.0 if side != 0 else -1.0
            for j in range(n):
                g.R[count, j] = C[i, j]
            count += 1
            if count == n:
                add_outer_products(g, n, count)
                count = 0
        g.sides[i] = side
        changes += 1
    add_outer_products(g, n, count)
    return changes


@compiled(inline=False)
def compute_newton_step(h: Hierarchy, gradient: Vector, step: Vector) -> bool:
    """Solves ``(H + regularization) step = -gradient`` by Cholesky factorization; returns False if it breaks down.

    Overwrites `gradient`.
    """
    n, H, R = h.n, h.work.prediction.W, h.work.prediction.J
    largest = 0.0
    for j in range(n):
        largest = max(largest, H[j, j])
    if not cholesky(H, R, n, REGULARIZATION * largest):
        return False
    for k in range(n):
        f = -gradient[k] / R[k, k]
        step[k] = f
        start = k - k % LANE_WIDTH  # entries before k are not used again
        axpy(gradient[start:], f, R[k, start:], n - start)
    for k in range(n - 1, -1, -1):
        step[k] = (step[k] - dot(R[k, k + 1 :], step[k + 1 :], n - k - 1)) / R[k, k]
    return True


@compiled()
def is_newton_step_unique(h: Hierarchy) -> bool:
    """Returns whether the regularization of `compute_newton_step` determines no direction of the step."""
    H, R, largest, smallest = h.work.prediction.W, h.work.prediction.J, 0.0, math.inf
    for j in range(h.n):
        largest = max(largest, H[j, j])
        smallest = min(smallest, R[j, j])
    return smallest * smallest > UNIQUENESS_TOLERANCE * largest


@compiled()
def directional_derivative(h: Hierarchy, t: float, slope_at_zero: float, curvature: float) -> tuple[float, float]:
    """Returns the first and second derivative of half the sum of squares of level 0 by the step length.

    Args:
        h: the hierarchy, with the values of its inequalities at x and their changes over the whole step.
        t: step length, 1 for the whole step.
        slope_at_zero: first derivative of the equalities' part at ``t = 0``.
        curvature: second derivative of the equalities' part.
    """
    values, changes = h.work.C_at_z, h.work.C_at_next
    slope, growth = slope_at_zero + t * curvature, curvature
    for i in range(h.problem.C_start[1]):
        if h.work.is_equality[i] == 0:
            violation = constraint_violation(h, i, values[i] + t * changes[i])
            slope += violation * changes[i]
            growth += changes[i] * changes[i] if violation != 0.0 else 0.0
    return slope, growth


@compiled(inline=False)
def search_step_length(h: Hierarchy, m: int, change: Vector) -> float:
    """Returns the step length in [0, 1] that minimizes the violation of level 0: Newton's method in a bracket."""
    residuals, slope_at_zero, curvature, low, high, t = h.work.row_values, 0.0, 0.0, 0.0, 1.0, 1.0
    for i in range(m):
        slope_at_zero += residuals[i] * change[i]
        curvature += change[i] * change[i]
    initial_slope, _growth = directional_derivative(h, 0.0, slope_at_zero, curvature)
    for _ in range(MAX_LINE_SEARCH_STEPS):
        slope, growth = directional_derivative(h, t, slope_at_zero, curvature)
        if abs(slope) <= SLOPE_REDUCTION * abs(initial_slope) or (t == 1.0 and slope < 0.0):
            break
        if slope > 0.0:
            high = t
        else:
            low = t
        t = t - slope / growth if growth > 0.0 else low
        if not low < t < high:
            t = 0.5 * (low + high)
    return t


@compiled(inline=False)
def initialize_newton(h: Hierarchy, x_norm: float) -> None:
    """Computes the row values at x and the normal equations of the equalities; marks no inequality as violated."""
    g, x, n = h.work.prediction, h.solution.x, h.n
    J, target, _ = level_objective(h, 0)
    m, count = load_level(h, 0), 0
    for j in range(n):
        clear(g.W[j], n)
    for i in range(m):
        g.normal_coordinates[count] = 1.0
        for j in range(n):
            g.R[count, j] = J[j, i]
        count += 1
        if count == n:
            add_outer_products(g, n, count)
            count = 0
    add_outer_products(g, n, count)
    gemv(h.work.row_values, x, J, n, m)
    for i in range(m):
        h.work.row_values[i] -= target[i]
    gemv(h.work.C_at_z, x, h.work.C, n, h.p)
    for i in range(h.p):
        low, high, size = h.work.lower[i], h.work.upper[i], h.problem.C_norms[i] * x_norm
        g.lower[i] = low - FEASIBILITY_TOLERANCE * (size + abs(low))
        g.upper[i] = high + FEASIBILITY_TOLERANCE * (size + abs(high))
        g.sides[i] = 0
        h.work.role[i] = LimitRole.LOWER_LEVEL


@compiled(inline=False)
def compute_gradient(h: Hierarchy, m: int, gradient: Vector, J: Matrix) -> None:
    """Computes the gradient of level 0 for the rows marked as violated."""
    g, values, slack = h.work.prediction, h.work.C_at_z, h.work.wrong_sign_sizes
    for i in range(h.p):
        side = g.sides[i]
        slack[i] = 0.0 if side == 0 else values[i] - (h.work.upper[i] if side > 0 else h.work.lower[i])
    gemv_transposed(gradient, J, h.work.row_values, h.n, m)
    gemv_transposed(h.work.multiplier_gradient, h.work.C, slack, h.n, h.p)
    axpy(gradient, 1.0, h.work.multiplier_gradient, h.n)


@compiled()
def apply_step(h: Hierarchy, m: int, t: float) -> None:
    """Moves x and the values of all rows by `t` times the step."""
    change, x, step = h.work.residual, h.solution.x, h.work.z_next
    for j in range(h.n):
        x[j] += t * step[j]
    axpy(h.work.row_values, t, change, m)
    axpy(h.work.C_at_z, t, h.work.C_at_next, h.p)


@compiled(inline=False)
def compute_descent_step(h: Hierarchy) -> bool:
    """Computes the Newton step for the rows marked as violated, and its change of the row values."""
    n, J, step, m = h.n, level_objective(h, 0).J, h.work.z_next, load_level(h, 0)
    compute_gradient(h, m, h.work.gradient, J)
    if not compute_newton_step(h, h.work.gradient, step):
        return False
    gemv(h.work.C_at_next, step, h.work.C, n, h.p)
    gemv(h.work.residual, step, J, n, m)
    return True


@compiled(inline=False)
def is_violation_plausible(h: Hierarchy, warm_start: ByteMatrix, x_norm: float) -> bool:
    """Returns whether the rows that the warm start marks as violated are violated at the minimum of their squared sum.

    If that minimum is unique, the other rows must not be violated there.  `find_least_violation` can continue from the
    step.
    """
    n, p, step, sides = h.n, h.problem.C_start[1], h.work.z_next, h.work.prediction.sides
    initialize_newton(h, x_norm)
    update_violated_rows(h, warm_start, True)
    if not compute_descent_step(h):
        step[:n] = 0.0
        clear(h.work.residual, load_level(h, 0))
        clear(h.work.C_at_next, h.p)
        return False
    new_x_norm, is_unique = x_norm + norm(step, n), is_newton_step_unique(h)
    for i in range(p):
        if h.work.is_equality[i] != 0:
            continue
        value, tolerance = (
            h.work.C_at_z[i] + h.work.C_at_next[i],
            PLAUSIBILITY_TOLERANCE * h.problem.C_norms[i] * new_x_norm,
        )
        if sides[i] != 0:
            bound = h.work.upper[i] if sides[i] > 0 else h.work.lower[i]
            if sides[i] * (bound - value) > tolerance + PLAUSIBILITY_TOLERANCE * abs(bound):
                return False
        elif is_unique and abs(constraint_violation(h, i, value)) > tolerance + PLAUSIBILITY_TOLERANCE * abs(value):
            return False
    return True


@compiled()
def has_violation_above(h: Hierarchy, m: int, tolerance: float) -> bool:
    """Returns whether a row of level 0 is violated at x by more than rounding can explain.

    Args:
        h: the hierarchy.
        m: number of equality rows of level 0.
        tolerance: maximum violation, relative to the norm of the row times the norm of x.
    """
    scale, residuals, norms = tolerance * norm(h.solution.x, h.n), h.work.row_values, level_objective(h, 0).norms
    for i in range(h.problem.C_start[1]):
        if (
            h.work.is_equality[i] == 0
            and abs(constraint_violation(h, i, h.work.C_at_z[i])) > h.problem.C_norms[i] * scale
        ):
            return True
    for i in range(m):
        if abs(residuals[i]) > norms[i] * scale:
            return True
    return False


@compiled()
def sum_squared_violations(h: Hierarchy, m: int) -> float:
    """Returns the objective of level 0 at x: squared residuals of its equalities plus squared violations."""
    total = dot(h.work.row_values, h.work.row_values, m)
    for i in range(h.problem.C_start[1]):
        if h.work.is_equality[i] == 0:
            violation = constraint_violation(h, i, h.work.C_at_z[i])
            total += violation * violation
    return total


@compiled()
def is_clearly_infeasible(h: Hierarchy) -> bool:
    """Returns whether the least violation found exceeds the error of the normal equations."""
    return has_violation_above(h, load_level(h, 0), PLAUSIBILITY_TOLERANCE)


@compiled(inline=False)
def find_least_violation(h: Hierarchy, warm_start: ByteMatrix, is_started: bool, x_norm: float) -> bool:
    """Moves x to the minimum of the squared violations of level 0, with the accuracy of normal equations.

    The violated inequalities and their sides are in `PredictionWorkspace.sides`.

    Args:
        h: the hierarchy.
        warm_start: (levels + 1, p) working sets of any content: an argument of `update_violated_rows` without effect.
        is_started: whether to continue with the step that `is_violation_plausible` has just computed.
        x_norm: norm of x, which scales the rounding tolerance.

    Returns:
        Whether Newton's method converged at a point with violated rows.
    """
    m, n, step, x = load_level(h, 0), h.n, h.work.z_next, h.solution.x
    smallest_sum, idle_steps = math.inf, 0
    if is_started:
        apply_step(h, m, 1.0)
    else:
        initialize_newton(h, x_norm)
    update_violated_rows(h, warm_start, False)
    for _ in range(min(MAX_NEWTON_STEPS, h.settings.max_iterations)):
        if not compute_descent_step(h):
            return False
        step_length = search_step_length(h, m, h.work.residual)
        apply_step(h, m, step_length)
        if not has_violation_above(h, m, STATIONARY_STEP_RATIO):
            return False
        changes = update_violated_rows(h, warm_start, False)
        h.solution.summary.iterations += changes
        if changes == 0 and (step_length == 1.0 or norm(step, n) <= STATIONARY_STEP_RATIO * norm(x, n)):
            return True
        if changes == 0 and step_length * norm(step, n) <= MIN_STEP_RATIO * norm(
            x, n
        ):  # another iteration would be the same
            return False
        total = sum_squared_violations(h, m)
        idle_steps = 0 if total < (1.0 - DESCENT_TOLERANCE) * smallest_sum else idle_steps + 1
        if idle_steps == MAX_IDLE_STEPS:  # rounding determines the violated rows: no progress
            return False
        smallest_sum = min(smallest_sum, total)
    return False
