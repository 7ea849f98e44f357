"""Geometry of kinematic loops in compiled code: placements of joints and cut frames, K and e, and ``dK/dt dx/dt``.

All quantities are in the axes of the body from which a group of loops starts; see `quaddyn.robot.loop_solver`.
"""

from __future__ import annotations

import math

from ..compiler import Matrix, Vector, compiled, local
from .loop_arrays import Closures, ClosureWorkspace


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
