"""Closing kinematic loops: coordinates, velocities and accelerations of dependent joints from the independent ones.

Every loop is cut at one point, where two frames, A and B, must coincide: ``e = p_B - p_A = 0``, and, for directions u
fixed to A and w fixed to B that stay perpendicular, ``u . w = 0``.  Let x be the coordinates of a loop's joints, y the
independent and z the dependent ones.  Then e(x) = 0 defines z as a function of y, on the branch that is continuous on
the straight line from home to y:

    K = de/dx = [K_y K_z],   dz/dt = -K_z^+ K_y dy/dt,   d2z/dt2 = -K_z^+ (K_y d2y/dt2 + dK/dt dx/dt)

K_z has full column rank and often more rows than columns (a planar loop in space); the equations are consistent.  If
they are consistent only up to the rounding of the file, as with a second rod beside a parallelogram, z minimizes |e|,
and the derivatives above have errors of the size of e.

All vectors are in the axes of the body at which the branches of the loop begin, since motion of this body moves the
loop as a whole.  Source: Featherstone, *Rigid Body Dynamics Algorithms*, 2008, sections 3.2 and 8.2 to 8.4; the line
from home to y is followed as in Allgower and Georg, *Numerical Continuation Methods*, 1990, chapter 2: along the
tangent, then by Newton's method, in steps that are halved where it does not contract.

Compiled code computes placements of joints and cut frames, K and e, and ``dK/dt dx/dt``, from loops stored as arrays.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..compiler import IntMatrix, IntVector, Matrix, Vector, compiled, entry, local


class Closures(NamedTuple):
    """All loops of a robot as arrays, for compiled code; loops that share joints form a group.

    With n joints in m loops.  ``K = de/dx`` is the constraint Jacobian of a group; K_y and K_z are its columns of the
    independent and of the dependent joints, see `loop_solver`.

    Attributes:
        joints, loops: (groups + 1,) index of the first joint and of the first loop of each group.
        size: (groups,) characteristic length of a group [m], by which lengths are divided.
        q, v: (n,) indices in q_all and v_all of each joint, parents before children.
        own: (n,) index in v of an independent joint, -1 for a dependent joint.
        column: (n,) column of the joint in K_z if it is dependent, in K_y if it is independent.
        parent: (n,) the previous joint, -1 for the body from which the group starts.
        slides: (n,) 1 for a prismatic, 0 for a revolute joint.
        placements: (n, 12) placement in the previous joint: rotation column by column, then translation [m].
        axes: (n, 3) unit axis in the joint frame.
        home: (n,) coordinates at home, the start of the straight line along which a configuration is reached.
        sides: (m, 2) the joints that carry frames A and B of each loop, -1 as in `parent`.
        frames: (2 m, 12) frames A and B of each loop in the frames of these joints; for a gear, the row of A begins
            with multiplier and offset of ``x_B = multiplier x_A + offset``.
        rows: (m,) number of constraints of each loop: 3 for a point, 5 for a revolute joint about z of both frames, 6
            for a weld, 1 for a gear.
        q_index, v_index: (nq,), (nv,) indices of the entries of q and v in q_all and v_all.
    """

    joints: IntVector
    loops: IntVector
    size: Vector
    q: IntVector
    v: IntVector
    own: IntVector
    column: IntVector
    parent: IntVector
    slides: IntVector
    placements: Matrix
    axes: Matrix
    home: Vector
    sides: IntMatrix
    frames: Matrix
    rows: IntVector
    q_index: IntVector
    v_index: IntVector


class ClosureWorkspace(NamedTuple):
    """Workspace to close loops.

    Attributes:
        x, before, rate: (n,) coordinates, those at the last step, and their rates along the line.
        at: (n,) coordinates at which the joints are placed.
        poses: (n, 12) placements of the joints.
        motions: (n, 12) velocity, acceleration, angular velocity and angular acceleration of the joints' bodies.
        ends: (2, 12) frames A and B.
        K: (m, n) constraint Jacobian of one group, columns by joint.
        e: (m,) residuals.
        Kz, last: (m, n) columns of the dependent joints, and those at the last step.
        Q: (m, n) Householder vectors and triangle of K_z.
        pivots: (n,) diagonal of the triangle.
        right: (m,) right-hand sides.
        correction: (n,) corrections of the dependent joints.
    """

    x: Vector
    before: Vector
    rate: Vector
    at: Vector
    poses: Matrix
    motions: Matrix
    ends: Matrix
    K: Matrix
    e: Vector
    Kz: Matrix
    last: Matrix
    Q: Matrix
    pivots: Vector
    right: Vector
    correction: Vector


def make_closure_workspace(closures: Closures) -> ClosureWorkspace:
    """Returns a workspace for these loops."""
    n, m = len(closures.q), int(closures.rows.sum())
    zeros = np.zeros
    return ClosureWorkspace(
        zeros(n), zeros(n), zeros(n), zeros(n), zeros((n, 12)), zeros((n, 12)), zeros((2 if n else 0, 12)),
        zeros((m, n)), zeros(m), zeros((m, n)), zeros((m, n)), zeros((m, n)), zeros(n), zeros(m), zeros(n),
    )  # fmt: skip


def empty_closures() -> Closures:
    """Returns the arrays of a robot without loops."""
    none, start, rows = np.zeros(0, dtype=np.int64), np.zeros(1, dtype=np.int64), np.zeros((0, 12))
    nothing = np.zeros(0)
    return Closures(
        start, start, nothing, none, none, none, none, none, none, rows, np.zeros((0, 3)), nothing,
        np.zeros((0, 2), dtype=np.int64), rows, none, none, none,
    )  # fmt: skip


# -- sizes -----------------------------------------------------------------------------------------------------------
@compiled()
def count_rows(closures: Closures, g: int) -> int:
    """Returns the number of constraints of a group."""
    total = 0
    for m in range(closures.loops[g], closures.loops[g + 1]):
        total += closures.rows[m]
    return total


@compiled()
def count_dependents(closures: Closures, g: int) -> int:
    """Returns the number of dependent joints of a group."""
    total = 0
    for i in range(closures.joints[g], closures.joints[g + 1]):
        if closures.own[i] < 0:
            total += 1
    return total


# -- kinematics ------------------------------------------------------------------------------------------------------
@compiled(inline=False)
def place_joints(closures: Closures, work: ClosureWorkspace, g: int, x: Vector) -> None:
    """Computes the placements of a group's joints at x."""
    pose, moved = local(12), local(12)
    for i in range(closures.joints[g], closures.joints[g + 1]):
        if closures.parent[i] < 0:
            for a in range(12):
                pose[a] = closures.placements[i, a]
        else:
            compose(work.poses[closures.parent[i]], closures.placements[i], pose)
        work.at[i] = x[i]
        _joint_placement(closures.slides[i], closures.axes[i], x[i], moved)
        compose(pose, moved, work.poses[i])


@compiled()
def _joint_placement(slides: int, axis: Vector, x: float, out: Vector) -> None:
    """Computes the placement of a joint's body in its joint frame: a rotation or a translation."""
    for a in range(3):
        out[9 + a] = axis[a] * x if slides == 1 else 0.0
    if slides == 1:
        rotation_about(axis, 1.0, 0.0, out)
    else:
        rotation_about(axis, math.cos(x), math.sin(x), out)


@compiled()
def rotation_about(axis: Vector, c: float, s: float, out: Vector) -> None:
    """Writes the rotation about a unit axis by an angle with this cosine and sine (Rodrigues), column by column."""
    x, y, z, t = axis[0], axis[1], axis[2], 1.0 - c
    out[0], out[1], out[2] = c + t * x * x, t * x * y + s * z, t * x * z - s * y
    out[3], out[4], out[5] = t * x * y - s * z, c + t * y * y, t * y * z + s * x
    out[6], out[7], out[8] = t * x * z + s * y, t * y * z - s * x, c + t * z * z


@compiled()
def compose(a: Vector, b: Vector, out: Vector) -> None:
    """Writes the product ``out = a b`` of placements; `out` is another array."""
    for k in range(4):
        x, y, z = b[3 * k], b[3 * k + 1], b[3 * k + 2]
        for r in range(3):
            out[3 * k + r] = a[r] * x + a[3 + r] * y + a[6 + r] * z
    for r in range(3):
        out[9 + r] += a[9 + r]


# -- constraints -----------------------------------------------------------------------------------------------------
@compiled()
def _place_ends(closures: Closures, work: ClosureWorkspace, loop: int) -> None:
    """Computes the frames A and B of a loop."""
    for side in range(2):
        joint = closures.sides[loop, side]
        if joint < 0:
            for a in range(12):
                work.ends[side, a] = closures.frames[2 * loop + side, a]
        else:
            compose(work.poses[joint], closures.frames[2 * loop + side], work.ends[side])


@compiled()
def _perpendicular_pair(row: int, ends: Matrix, u: Vector, w: Vector) -> None:
    """Writes the directions u of A and w of B that row 3, 4 or 5 keeps perpendicular: x and z, y and z, y and x."""
    of_a, of_b = (0 if row == 3 else 3), (0 if row == 5 else 6)
    for a in range(3):
        u[a], w[a] = ends[0, of_a + a], ends[1, of_b + a]


@compiled()
def _cross(a: Vector, b: Vector, out: Vector) -> None:
    """Writes the cross product ``a x b``."""
    out[0], out[1], out[2] = a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


@compiled()
def _joint_axis(closures: Closures, work: ClosureWorkspace, i: int, out: Vector) -> None:
    """Writes the axis of a joint."""
    pose, axis = work.poses[i], closures.axes[i]
    for a in range(3):
        out[a] = pose[a] * axis[0] + pose[3 + a] * axis[1] + pose[6 + a] * axis[2]


@compiled()
def _linearize_gear(closures: Closures, work: ClosureWorkspace, loop: int, row: int, scale: float) -> None:
    """Writes K and e of a mimic joint: ``x_B - (multiplier x_A + offset)``."""
    a, b, z = closures.sides[loop, 0], closures.sides[loop, 1], closures.frames[2 * loop]
    row_scale = scale if closures.slides[b] == 1 else 1.0
    work.K[row, b], work.K[row, a] = row_scale, -row_scale * z[0]
    work.e[row] = row_scale * (work.at[b] - (z[0] * work.at[a] + z[1]))


@compiled(inline=False)
def linearize(closures: Closures, work: ClosureWorkspace, g: int) -> int:
    """Writes K and e of a group at its placed joints (lengths by loop size); returns the number of rows."""
    begin, end, scale, top = closures.joints[g], closures.joints[g + 1], 1.0 / closures.size[g], 0
    u, w, normal, axis, arm, turned = local(3), local(3), local(3), local(3), local(3), local(3)
    for m in range(closures.loops[g], closures.loops[g + 1]):
        for r in range(top, top + closures.rows[m]):
            for c in range(begin, end):
                work.K[r, c] = 0.0
        if closures.rows[m] == 1:
            _linearize_gear(closures, work, m, top, scale)
            top += 1
            continue
        _place_ends(closures, work, m)
        for a in range(3):
            work.e[top + a] = scale * (work.ends[1, 9 + a] - work.ends[0, 9 + a])
        for side in range(2):
            sign, i = (1.0 if side == 1 else -1.0), closures.sides[m, side]
            while i >= 0:
                _joint_axis(closures, work, i, axis)
                for a in range(3):
                    arm[a] = work.ends[side, 9 + a] - work.poses[i, 9 + a]
                _cross(axis, arm, turned)
                for a in range(3):
                    work.K[top + a, i] += sign * scale * (axis[a] if closures.slides[i] == 1 else turned[a])
                i = closures.parent[i]
        for row in range(3, closures.rows[m]):
            _perpendicular_pair(row, work.ends, u, w)
            _cross(w, u, normal)
            work.e[top + row] = u[0] * w[0] + u[1] * w[1] + u[2] * w[2]
            for side in range(2):
                sign, i = (1.0 if side == 1 else -1.0), closures.sides[m, side]
                while i >= 0:
                    if closures.slides[i] == 0:
                        _joint_axis(closures, work, i, axis)
                        work.K[top + row, i] += sign * (axis[0] * normal[0] + axis[1] * normal[1] + axis[2] * normal[2])
                    i = closures.parent[i]
        top += closures.rows[m]
    return top


# -- motion ----------------------------------------------------------------------------------------------------------
@compiled()
def _point_motion(motion: Vector, arm: Vector, out: Vector) -> None:
    """Writes velocity and acceleration of a point of a body that is `arm` away from the point of known motion."""
    v, w, alpha, swept, turned = local(3), local(3), local(3), local(3), local(3)
    for a in range(3):
        w[a], alpha[a] = motion[6 + a], motion[9 + a]
    _cross(w, arm, v)
    _cross(w, v, swept)
    _cross(alpha, arm, turned)
    for a in range(3):
        out[a] = motion[a] + v[a]
        out[3 + a] = motion[3 + a] + turned[a] + swept[a]


@compiled(inline=False)
def _joint_motions(closures: Closures, work: ClosureWorkspace, g: int) -> None:
    """Computes the motions of a group's joints at the velocities `rate` and zero joint accelerations."""
    axis, arm, turned, still = local(3), local(3), local(3), local(12)
    still[:12] = 0.0
    for i in range(closures.joints[g], closures.joints[g + 1]):
        p, out = closures.parent[i], work.motions[i]
        before = still
        if p >= 0:
            before = work.motions[p]
        for a in range(3):
            arm[a] = work.poses[i, 9 + a] - (work.poses[p, 9 + a] if p >= 0 else 0.0)
        _point_motion(before, arm, out)
        _joint_axis(closures, work, i, axis)
        for a in range(3):
            axis[a] *= work.rate[i]
            arm[a] = before[6 + a]
        _cross(arm, axis, turned)
        for a in range(3):
            out[6 + a], out[9 + a] = before[6 + a], before[9 + a]
            if closures.slides[i] == 1:
                out[a] += axis[a]
                out[3 + a] += 2.0 * turned[a]
            else:
                out[6 + a] += axis[a]
                out[9 + a] += turned[a]


@compiled(inline=False)
def constraint_drift(closures: Closures, work: ClosureWorkspace, g: int) -> None:
    """Writes ``dK/dt dx/dt`` of a group at the velocities `rate` to `right`."""
    scale, top = 1.0 / closures.size[g], 0
    u, w, arm = local(3), local(3), local(3)
    ends, of_u, of_w, first, second = local(2, 12), local(3), local(3), local(3), local(3)
    _joint_motions(closures, work, g)
    for m in range(closures.loops[g], closures.loops[g + 1]):
        if closures.rows[m] == 1:
            work.right[top] = 0.0
            top += 1
            continue
        _place_ends(closures, work, m)
        for side in range(2):
            i = closures.sides[m, side]
            for a in range(12):
                ends[side, a] = 0.0
            if i >= 0:
                for a in range(3):
                    arm[a] = work.ends[side, 9 + a] - work.poses[i, 9 + a]
                    ends[side, 6 + a], ends[side, 9 + a] = work.motions[i, 6 + a], work.motions[i, 9 + a]
                _point_motion(work.motions[i], arm, ends[side])
        for a in range(3):
            work.right[top + a] = scale * (ends[1, 3 + a] - ends[0, 3 + a])
        for row in range(3, closures.rows[m]):
            _perpendicular_pair(row, work.ends, u, w)
            _cross(ends[0, 6:9], u, of_u)
            _cross(ends[1, 6:9], w, of_w)
            total = 0.0
            _cross(w, u, first)
            for a in range(3):
                total += (ends[1, 9 + a] - ends[0, 9 + a]) * first[a]
            _cross(of_w, u, first)
            _cross(w, of_u, second)
            for a in range(3):
                total += (ends[1, 6 + a] - ends[0, 6 + a]) * (first[a] + second[a])
            work.right[top + row] = total
        top += closures.rows[m]


#: Largest motion of a joint in a step of the continuation [rad; for prismatic joints divided by the size of the loop].
MAX_STEP = 0.2
#: Largest correction after a step that stays on the same branch of solutions, in the same units.
MAX_BRANCH_JUMP = 0.1
#: Newton's method ends with a correction of less than this; it converges quadratically.
NEWTON_TOLERANCE = 1e-8
#: Largest residual of a closed loop, divided by its size.
CLOSURE_TOLERANCE = 1e-13
#: Largest growth of the residual from home, for loops that close at home only up to the rounding of their file.
MAX_RESIDUAL_GROWTH = 100.0
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
@compiled(inline=False, separate="closed loops")
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


@compiled(inline=False, separate="closed loops")
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
    tolerance = MAX_RESIDUAL_GROWTH * _max_residual(work, linearize(closures, work, g))
    if tolerance <= MAX_RESIDUAL_GROWTH * CLOSURE_TOLERANCE:
        tolerance = CLOSURE_TOLERANCE
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
        if _correct_dependents(closures, work, g, tolerance) and _is_same_branch(closures, work, g):
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


@compiled()
def _max_residual(work: ClosureWorkspace, rows: int) -> float:
    """Returns the largest of the first residuals in e."""
    largest = 0.0
    for r in range(rows):
        largest = max(largest, abs(work.e[r]))
    return largest


@compiled(inline=False)
def _correct_dependents(closures: Closures, work: ClosureWorkspace, g: int, tolerance: float) -> bool:
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
        for r in range(rows):
            work.right[r] = work.e[r]
        if has_converged:
            return _max_residual(work, rows) <= tolerance
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
