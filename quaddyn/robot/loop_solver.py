"""Closing kinematic loops: coordinates, velocities and accelerations of dependent joints from the independent ones.

Every loop is cut at one point, where two frames, A and B, must coincide: ``e = p_B - p_A = 0``, and, for directions u
fixed to A and w fixed to B that stay perpendicular, ``u . w = 0``.  Let x be the coordinates of a loop's joints, y the
independent and z the dependent ones.  Then e(x) = 0 defines z as a function of y, on the branch that is continuous on
the straight line from home to y:

    K = de/dx = [K_y K_z],   dz/dt = -K_z^+ K_y dy/dt,   d2z/dt2 = -K_z^+ (K_y d2y/dt2 + dK/dt dx/dt)

K_z has full column rank and often more rows than columns (a planar loop in space); the equations are consistent.

All vectors are in the axes of the body at which the branches of the loop begin, since motion of this body moves the
loop as a whole.  Source: Featherstone, *Rigid Body Dynamics Algorithms*, 2008, sections 3.2 and 8.2 to 8.4; the line
from home to y is followed as in Allgower and Georg, *Numerical Continuation Methods*, 1990, chapter 2: along the
tangent, then by Newton's method, in steps that are halved where it does not contract.
"""

from __future__ import annotations

import math

from ..compiler import Matrix, Vector, compiled, entry
from .loop_arrays import Closures, ClosureWorkspace
from .loop_geometry import constraint_drift, count_dependents, count_rows, linearize, place_joints

#: Largest motion of a joint in a step of the continuation [rad; for prismatic joints divided by the size of the loop].
MAX_STEP = 0.2
#: Largest correction after a step that stays on the same branch of solutions, in the same units.
MAX_BRANCH_JUMP = 0.1
#: Newton's method ends with a correction of less than this; it converges quadratically.
NEWTON_TOLERANCE = 1e-8
#: Largest residual of a closed loop, divided by its size.
CLOSURE_TOLERANCE = 1e-13
#: A loop is singular if a pivot of K_z, divided by the length of its column, is below this.
SINGULARITY_TOLERANCE = 1e-7
#: Maximum number of corrections in a step, and of steps.
MAX_CORRECTIONS, MAX_STEPS = 12, 4000


# -- what Python calls -----------------------------------------------------------------------------------------------
@entry("closed loops")
def close_loops(closures: Closures, work: ClosureWorkspace, q: Vector, q_all: Vector, G: Matrix) -> int:
    """Closes all loops at q: writes q_all (nq_all,) and G (nv_all, nv) with ``v_all = G v``.

    Returns:
        The index of a loop that does not close, or -1 if all close.
    """
    return close_all(closures, work, q, q_all, G)


@entry("closed loops")
def loop_drift(closures: Closures, work: ClosureWorkspace, q_all: Vector, v_all: Vector, out: Vector) -> None:
    """Writes the accelerations `out` (nv_all,) of all joints at zero accelerations of the independent joints."""
    drift_all(closures, work, q_all, v_all, out)


@entry("closed loops")
def loop_residual(closures: Closures, work: ClosureWorkspace, group: int, x: Vector, K: Matrix, e: Vector) -> None:
    """Writes K and e of one group at coordinates x (n,) of all loop joints; entries of other groups are unchanged."""
    place_joints(closures, work, group, x)
    rows = linearize(closures, work, group)
    for r in range(rows):
        e[r] = work.e[r]
        for c in range(closures.joints[group], closures.joints[group + 1]):
            K[r, c] = work.K[r, c]


# -- what compiled code calls ----------------------------------------------------------------------------------------
@compiled(inline=False)
def close_all(closures: Closures, work: ClosureWorkspace, q: Vector, q_all: Vector, G: Matrix) -> int:
    """Closes all loops; see `close_loops`."""
    q_all[:] = 0.0
    for i in range(len(closures.q_index)):
        q_all[closures.q_index[i]] = q[i]
    for i in range(G.shape[0]):
        for j in range(G.shape[1]):
            G[i, j] = 0.0
    for j in range(len(closures.v_index)):
        G[closures.v_index[j], j] = 1.0
    failed = -1
    for g in range(len(closures.size)):
        if not _trace_branch(closures, work, g, q_all):
            failed = closures.loops[g]
        for i in range(closures.joints[g], closures.joints[g + 1]):
            if closures.own[i] < 0:
                q_all[closures.q[i]] = work.x[i]
        _write_map(closures, work, g, G)
    return failed


@compiled(inline=False)
def drift_all(closures: Closures, work: ClosureWorkspace, q_all: Vector, v_all: Vector, out: Vector) -> None:
    """Computes the drift; see `loop_drift`."""
    out[:] = 0.0
    for g in range(len(closures.size)):
        for i in range(closures.joints[g], closures.joints[g + 1]):
            work.x[i] = q_all[closures.q[i]]
            work.rate[i] = v_all[closures.v[i]]
        place_joints(closures, work, g, work.x)
        linearize(closures, work, g)
        _factor(closures, work, g)
        constraint_drift(closures, work, g)
        _solve(closures, work, g)
        for i in range(closures.joints[g], closures.joints[g + 1]):
            if closures.own[i] < 0:
                out[closures.v[i]] = -work.correction[closures.column[i]]


# -- continuation ----------------------------------------------------------------------------------------------------
@compiled(inline=False)
def _trace_branch(closures: Closures, work: ClosureWorkspace, g: int, q_all: Vector) -> bool:
    """Moves group g from home to the independent coordinates in q_all; returns False, with NaN in x, if impossible."""
    begin, end = closures.joints[g], closures.joints[g + 1]
    x, progress, step_scale, steps = work.x, 0.0, 1.0, 0
    for i in range(begin, end):
        x[i] = closures.home[i]
    place_joints(closures, work, g, x)
    linearize(closures, work, g)
    is_regular = _factor(closures, work, g)
    while is_regular and progress < 1.0:
        max_rate = _compute_rates(closures, work, g, q_all)
        step = step_scale * (MAX_STEP / max_rate if max_rate > MAX_STEP else 1.0)
        if progress + step > 1.0 - 1e-12:
            step = 1.0 - progress
        for i in range(begin, end):
            work.before[i] = x[i]
            x[i] += step * work.rate[i]
            if closures.own[i] >= 0 and progress + step >= 1.0:
                x[i] = q_all[closures.q[i]]  # exactly
        _store_columns(closures, work, g)
        if _correct_dependents(closures, work, g) and _is_same_branch(closures, work, g):
            progress += step
            step_scale = min(1.0, 2.0 * step_scale)
        else:
            step_scale *= 0.5
            for i in range(begin, end):
                x[i] = work.before[i]
            place_joints(closures, work, g, x)
            linearize(closures, work, g)
            is_regular = _factor(closures, work, g) and step_scale > 1e-5
        steps += 1
        if steps > MAX_STEPS:
            is_regular = False
    if not is_regular:
        for i in range(begin, end):
            x[i] = math.nan
    return is_regular


@compiled()
def _compute_rates(closures: Closures, work: ClosureWorkspace, g: int, q_all: Vector) -> float:
    """Computes the joint rates of loop group g on the straight line from home to `q_all`; returns the largest one."""
    begin, end, max_rate = closures.joints[g], closures.joints[g + 1], 0.0
    rows = count_rows(closures, g)
    work.right[:rows] = 0.0
    for i in range(begin, end):
        if closures.own[i] >= 0:
            work.rate[i] = q_all[closures.q[i]] - closures.home[i]
            for r in range(rows):
                work.right[r] += work.K[r, i] * work.rate[i]
    _solve(closures, work, g)
    for i in range(begin, end):
        if closures.own[i] < 0:
            work.rate[i] = -work.correction[closures.column[i]]
        max_rate = max(max_rate, abs(work.rate[i]) * _angle_scale(closures, g, i))
    return max_rate


@compiled()
def _angle_scale(closures: Closures, g: int, i: int) -> float:
    """Returns the factor by which a joint coordinate is multiplied to be compared with angles."""
    return 1.0 / closures.size[g] if closures.slides[i] == 1 else 1.0


@compiled(inline=False)
def _correct_dependents(closures: Closures, work: ClosureWorkspace, g: int) -> bool:
    """Applies Newton's method to the dependent joints; returns whether it converged close to its start."""
    begin, end, previous_correction, has_converged = (
        closures.joints[g],
        closures.joints[g + 1],
        2.0 * MAX_BRANCH_JUMP,
        False,
    )
    for _ in range(MAX_CORRECTIONS):
        place_joints(closures, work, g, work.x)
        rows = linearize(closures, work, g)
        if not _factor(closures, work, g):
            return False
        max_residual = 0.0
        for r in range(rows):
            work.right[r] = work.e[r]
            max_residual = max(max_residual, abs(work.e[r]))
        if has_converged:
            return max_residual <= CLOSURE_TOLERANCE
        _solve(closures, work, g)
        largest = 0.0
        for i in range(begin, end):
            if closures.own[i] < 0:
                largest = max(largest, abs(work.correction[closures.column[i]]) * _angle_scale(closures, g, i))
        if not largest <= 0.5 * previous_correction:
            return False
        for i in range(begin, end):
            if closures.own[i] < 0:
                work.x[i] -= work.correction[closures.column[i]]
        previous_correction, has_converged = largest, largest <= NEWTON_TOLERANCE
    return False


@compiled()
def _store_columns(closures: Closures, work: ClosureWorkspace, g: int) -> None:
    """Stores K_z for comparison after the next step."""
    for r in range(count_rows(closures, g)):
        for c in range(count_dependents(closures, g)):
            work.last[r, c] = work.Kz[r, c]


@compiled(inline=False)
def _is_same_branch(closures: Closures, work: ClosureWorkspace, g: int) -> bool:
    """Returns whether ``det(K_z_before^T K_z) > 0``: the sign changes where K_z is singular and branches meet."""
    n, rows, sign = count_dependents(closures, g), count_rows(closures, g), 1.0
    square = work.Q  # scratch: Q is computed again below
    for a in range(n):
        for b in range(n):
            product = 0.0
            for r in range(rows):
                product += work.last[r, a] * work.Kz[r, b]
            work.correction[b] = product
        for b in range(n):
            square[a, b] = work.correction[b]
    for k in range(n):
        pivot = k
        for a in range(k, n):
            if abs(square[a, k]) > abs(square[pivot, k]):
                pivot = a
        if pivot != k:
            sign = -sign
            for b in range(n):
                square[k, b], square[pivot, b] = square[pivot, b], square[k, b]
        if square[k, k] < 0.0:
            sign = -sign
        for a in range(k + 1, n):
            factor = square[a, k] / square[k, k]
            for b in range(k, n):
                square[a, b] -= factor * square[k, b]
    _factor(closures, work, g)
    return sign > 0.0


# -- linear algebra --------------------------------------------------------------------------------------------------
@compiled(inline=False)
def _factor(closures: Closures, work: ClosureWorkspace, g: int) -> bool:
    """Factors ``K_z = Q R`` by Householder reflections; returns whether its columns are independent."""
    n, rows, Q, largest, min_ratio = count_dependents(closures, g), count_rows(closures, g), work.Q, 0.0, 1e300
    for i in range(closures.joints[g], closures.joints[g + 1]):
        if closures.own[i] < 0:
            for r in range(rows):
                work.Kz[r, closures.column[i]] = work.K[r, i]
                Q[r, closures.column[i]] = work.K[r, i]
    for k in range(n):
        column_length, length = 0.0, 0.0
        for r in range(rows):
            column_length += work.Kz[r, k] * work.Kz[r, k]
        for r in range(k, rows):
            length += Q[r, k] * Q[r, k]
        column_length, length = math.sqrt(column_length), math.sqrt(length)
        largest, min_ratio = (
            max(largest, length),
            min(min_ratio, length / column_length if column_length > 0.0 else 0.0),
        )
        pivot = -length if Q[k, k] >= 0.0 else length
        work.pivots[k] = pivot
        Q[k, k] -= pivot
        square = 0.0
        for r in range(k, rows):
            square += Q[r, k] * Q[r, k]
        if square > 0.0:
            for c in range(k + 1, n):
                projection = 0.0
                for r in range(k, rows):
                    projection += Q[r, k] * Q[r, c]
                projection *= 2.0 / square
                for r in range(k, rows):
                    Q[r, c] -= projection * Q[r, k]
    return min_ratio > SINGULARITY_TOLERANCE


@compiled(inline=False)
def _solve(closures: Closures, work: ClosureWorkspace, g: int) -> None:
    """Solves ``correction = K_z^+ right``; `right` is overwritten."""
    n, rows, Q, b = count_dependents(closures, g), count_rows(closures, g), work.Q, work.right
    for k in range(n):
        square, along = 0.0, 0.0
        for r in range(k, rows):
            square += Q[r, k] * Q[r, k]
            along += Q[r, k] * b[r]
        if square > 0.0:
            along *= 2.0 / square
            for r in range(k, rows):
                b[r] -= along * Q[r, k]
    for k in range(n - 1, -1, -1):
        total = b[k]
        for c in range(k + 1, n):
            total -= Q[k, c] * work.correction[c]
        work.correction[k] = total / work.pivots[k]


@compiled(inline=False)
def _write_map(closures: Closures, work: ClosureWorkspace, g: int, G: Matrix) -> None:
    """Writes the rows of G of a group's dependent joints, after K_z is factored."""
    begin, end, rows = closures.joints[g], closures.joints[g + 1], count_rows(closures, g)
    for i in range(begin, end):
        if closures.own[i] >= 0:
            for r in range(rows):
                work.right[r] = work.K[r, i]
            _solve(closures, work, g)
            for j in range(begin, end):
                if closures.own[j] < 0:
                    G[closures.v[j], closures.own[i]] = -work.correction[closures.column[j]]
