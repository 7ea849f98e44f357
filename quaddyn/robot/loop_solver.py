"""Closing kinematic loops: coordinates, velocities and accelerations of dependent joints from the independent ones.

The tree is cut at one place of every loop.  There two frames, A and B, have to stay together: ``e = p_B - p_A = 0``,
and, for directions u fixed to A and w fixed to B that stay perpendicular, ``u . w = 0``.  With the coordinates x of a
loop's joints, y of them independent and z dependent, e(x) = 0 makes z a function of y, the one that leads continuously
from home to y along a straight line:

    K = de/dx = [K_y K_z],   dz/dt = -K_z^+ K_y dy/dt,   d2z/dt2 = -K_z^+ (K_y d2y/dt2 + dK/dt dx/dt)

K_z has full column rank and often more rows than columns (a planar loop in space), which agree with each other.

All of this is in the axes of the body that the loop's branches start from, as what moves that body moves the loop as a
whole.  Source: Featherstone, *Rigid Body Dynamics Algorithms*, 2008, sections 3.2 and 8.2 to 8.4; the line from home to
y is followed as in Allgower and Georg, *Numerical Continuation Methods*, 1990, chapter 2: along the tangent, then by
Newton's method, in steps that are halved where it does not contract.
"""

from __future__ import annotations

import math

from ..compiler import Matrix, Vector, compiled, entry
from .loop_arrays import Closures, ClosureWorkspace
from .loop_geometry import constraint_drift, count_dependents, count_rows, linearize, place_joints

#: Farthest that a joint moves in a step of the continuation [rad, or shares of the loop's size].
MAX_STEP = 0.2
#: Largest correction after a step that is taken for the same branch, in the same units.
MAX_BRANCH_JUMP = 0.1
#: Newton's method ends with a correction of less than this; it converges quadratically.
NEWTON_TOLERANCE = 1e-8
#: Residual of a closed loop, as a share of its size.
CLOSURE_TOLERANCE = 1e-13
#: A pivot of K_z below this share of the largest makes the loop singular.
SINGULARITY_TOLERANCE = 1e-7
#: Corrections at a step, and steps, at most.
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
    for i in range(len(q_all)):
        q_all[i] = 0.0
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
    for i in range(len(out)):
        out[i] = 0.0
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
    """Moves a group from home to the independent coordinates in q_all; False, with NaN, if impossible."""
    begin, end = closures.joints[g], closures.joints[g + 1]
    x, done, share, steps = work.x, 0.0, 1.0, 0
    for i in range(begin, end):
        x[i] = closures.home[i]
    place_joints(closures, work, g, x)
    linearize(closures, work, g)
    well = _factor(closures, work, g)
    while well and done < 1.0:
        fastest = _compute_rates(closures, work, g, q_all)
        step = share * (MAX_STEP / fastest if fastest > MAX_STEP else 1.0)
        if done + step > 1.0 - 1e-12:
            step = 1.0 - done
        for i in range(begin, end):
            work.before[i] = x[i]
            x[i] += step * work.rate[i]
            if closures.own[i] >= 0 and done + step >= 1.0:
                x[i] = q_all[closures.q[i]]  # to the last bit
        _store_columns(closures, work, g)
        if _correct_dependents(closures, work, g) and _is_same_branch(closures, work, g):
            done += step
            share = min(1.0, 2.0 * share)
        else:
            share *= 0.5
            for i in range(begin, end):
                x[i] = work.before[i]
            place_joints(closures, work, g, x)
            linearize(closures, work, g)
            well = _factor(closures, work, g) and share > 1e-5
        steps += 1
        if steps > MAX_STEPS:
            well = False
    if not well:
        for i in range(begin, end):
            x[i] = math.nan
    return well


@compiled()
def _compute_rates(closures: Closures, work: ClosureWorkspace, g: int, q_all: Vector) -> float:
    """Computes the joint rates of loop group g on the straight line from home to `q_all`; returns the largest one."""
    begin, end, fastest = closures.joints[g], closures.joints[g + 1], 0.0
    rows = count_rows(closures, g)
    for r in range(rows):
        work.right[r] = 0.0
    for i in range(begin, end):
        if closures.own[i] >= 0:
            work.rate[i] = q_all[closures.q[i]] - closures.home[i]
            for r in range(rows):
                work.right[r] += work.K[r, i] * work.rate[i]
    _solve(closures, work, g)
    for i in range(begin, end):
        if closures.own[i] < 0:
            work.rate[i] = -work.correction[closures.column[i]]
        fastest = max(fastest, abs(work.rate[i]) * _angle_scale(closures, g, i))
    return fastest


@compiled()
def _angle_scale(closures: Closures, g: int, i: int) -> float:
    """Returns the factor by which a joint coordinate is multiplied to be compared with angles."""
    return 1.0 / closures.size[g] if closures.slides[i] == 1 else 1.0


@compiled(inline=False)
def _correct_dependents(closures: Closures, work: ClosureWorkspace, g: int) -> bool:
    """Applies Newton's method to the dependent joints; returns whether it converged close to its start."""
    begin, end, before, ended = closures.joints[g], closures.joints[g + 1], 2.0 * MAX_BRANCH_JUMP, False
    for _ in range(MAX_CORRECTIONS):
        place_joints(closures, work, g, work.x)
        rows = linearize(closures, work, g)
        if not _factor(closures, work, g):
            return False
        worst = 0.0
        for r in range(rows):
            work.right[r] = work.e[r]
            worst = max(worst, abs(work.e[r]))
        if ended:
            return worst <= CLOSURE_TOLERANCE
        _solve(closures, work, g)
        largest = 0.0
        for i in range(begin, end):
            if closures.own[i] < 0:
                largest = max(largest, abs(work.correction[closures.column[i]]) * _angle_scale(closures, g, i))
        if not largest <= 0.5 * before:
            return False
        for i in range(begin, end):
            if closures.own[i] < 0:
                work.x[i] -= work.correction[closures.column[i]]
        before, ended = largest, largest <= NEWTON_TOLERANCE
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
    square = work.Q  # factored again before it is needed
    for a in range(n):
        for b in range(n):
            total = 0.0
            for r in range(rows):
                total += work.last[r, a] * work.Kz[r, b]
            work.correction[b] = total
        for b in range(n):
            square[a, b] = work.correction[b]
    for k in range(n):
        best = k
        for a in range(k, n):
            if abs(square[a, k]) > abs(square[best, k]):
                best = a
        if best != k:
            sign = -sign
            for b in range(n):
                square[k, b], square[best, b] = square[best, b], square[k, b]
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
    n, rows, Q, largest, least = count_dependents(closures, g), count_rows(closures, g), work.Q, 0.0, 1e300
    for i in range(closures.joints[g], closures.joints[g + 1]):
        if closures.own[i] < 0:
            for r in range(rows):
                work.Kz[r, closures.column[i]] = work.K[r, i]
                Q[r, closures.column[i]] = work.K[r, i]
    for k in range(n):
        whole, length = 0.0, 0.0
        for r in range(rows):
            whole += work.Kz[r, k] * work.Kz[r, k]
        for r in range(k, rows):
            length += Q[r, k] * Q[r, k]
        whole, length = math.sqrt(whole), math.sqrt(length)
        largest, least = max(largest, length), min(least, length / whole if whole > 0.0 else 0.0)
        pivot = -length if Q[k, k] >= 0.0 else length
        work.pivots[k] = pivot
        Q[k, k] -= pivot
        square = 0.0
        for r in range(k, rows):
            square += Q[r, k] * Q[r, k]
        if square > 0.0:
            for c in range(k + 1, n):
                along = 0.0
                for r in range(k, rows):
                    along += Q[r, k] * Q[r, c]
                along *= 2.0 / square
                for r in range(k, rows):
                    Q[r, c] -= along * Q[r, k]
    return least > SINGULARITY_TOLERANCE


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
