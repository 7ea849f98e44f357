"""Rigid-body terms of a plant: compiled loops over any tree of joints, from inertial parameters that are data.

Every trial of a campaign may have a robot of its own (a payload, another centre of mass), so that nothing is generated
for one robot here, in contrast to the kernels of a controller's model (`quaddyn.kernels`).

Axes are those of the world.  Spatial vectors are about one point, the origin of the first joint, linear part first:
far from the world's origin no digits are lost.

Source: Featherstone, *Rigid Body Dynamics Algorithms*, 2008, chapters 5 (bias) and 6 (inertia).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..compiler import IntVector, Matrix, Vector, compiled, local
from ..robot.closure import close_all, drift_all
from ..robot.loop_geometry import compose
from ..robot.loop_numbers import Closing, room_for_closing
from .bodies import FREE, INERTIA, PLANAR, PRISMATIC, Bodies, Pushes
from .motions import joint_placement


class Terms(NamedTuple):
    """Terms at a state.

    Attributes:
        M: (nv, nv) inertia, its lower triangle; zero between limbs.
        h: (nv,) Coriolis, centrifugal and gravity terms.
        J: (nr, 6) by each speed, at each joint that it moves: velocity of the body's point at `origin`, and angular
            velocity.
        poses: (n, 12) of the joints: rotations column by column, and translations [m].
        origin: (3,) that spatial vectors are about [m].
        own: (n, 10) inertias of the bodies about `origin`.
        whole: (n, 10) of each body and all that it carries; number 0 is the whole robot.
        velocities: (n, 6) work.
        accelerations: (n, 6) work.
        forces: (n, 6) work.
        q_all, v_all, drift: coordinates of all joints, their velocities, and their accelerations where those of the
            independent ones are 0; empty without closed loops.
        G: (nv_all, nv) ``v_all = G v``, empty without closed loops.
        closing: work.
    """

    M: Matrix
    h: Vector
    J: Matrix
    poses: Matrix
    origin: Vector
    own: Matrix
    whole: Matrix
    velocities: Matrix
    accelerations: Matrix
    forces: Matrix
    q_all: Vector
    v_all: Vector
    drift: Vector
    G: Matrix
    closing: Closing


def room_for_terms(bodies: Bodies) -> Terms:
    """For a tree."""
    n, nv, nr, whole = len(bodies.kind), len(bodies.tree), len(bodies.own), np.zeros
    poses = whole((n, 12))
    poses[0, [0, 4, 8]] = 1.0
    followers = int((bodies.follows_q >= 0).sum())
    nq_all, nv_all = len(bodies.closures.q_index) + followers, len(bodies.closures.v_index) + followers
    return Terms(
        whole((nv, nv)), whole(nv), whole((nr, 6)), poses, whole(3), whole((n, INERTIA)), whole((n, INERTIA)),
        whole((n, 6)), whole((n, 6)), whole((n, 6)),
        whole(nq_all), whole(nv_all), whole(nv_all), whole((nv_all, nv)), room_for_closing(bodies.closures),
    )  # fmt: skip


# -- where everything is ---------------------------------------------------------------------------------------------
@compiled(inline=False)
def place_joints(bodies: Bodies, q: Vector, terms: Terms) -> None:
    """Poses of the joints, `origin`, and the columns of the Jacobian."""
    poses, origin = terms.poses, terms.origin
    before, moved, at = local(12), local(12), local(1)
    if len(terms.q_all) > 0:
        close_all(bodies.closures, terms.closing, q, terms.q_all, terms.G)
    for i in range(1, len(bodies.kind)):
        compose(poses[bodies.parent[i]], bodies.placements[i], before)
        if bodies.follows_q[i] >= 0:
            at[0] = terms.q_all[bodies.follows_q[i]]
            joint_placement(bodies.kind[i], bodies.axes[i], at, moved)
        elif bodies.gear[i] != 1.0 or bodies.bias[i] != 0.0:
            at[0] = bodies.gear[i] * q[bodies.q[i]] + bodies.bias[i]
            joint_placement(bodies.kind[i], bodies.axes[i], at, moved)
        else:
            joint_placement(bodies.kind[i], bodies.axes[i], q[bodies.q[i] :], moved)
        compose(before, moved, poses[i])
        if i == 1:
            for a in range(3):
                origin[a] = poses[1, 9 + a]
        _columns(bodies.kind[i], bodies.axes[i], poses[i], origin, terms.J[bodies.row[i] :])
        if bodies.gear[i] != 1.0:
            for a in range(6):
                terms.J[bodies.row[i], a] *= bodies.gear[i]
        if bodies.follows_v[i] >= 0:
            _share(terms.G[bodies.follows_v[i]], bodies.own, bodies.row[i], bodies.size[i], terms.J)


@compiled()
def _share(rates: Vector, own: IntVector, row: int, size: int, J: Matrix) -> None:
    """Rows of J of a joint that loops move, from the first, which is by its own speed, to as many as move it."""
    alone = local(6)
    for a in range(6):
        alone[a] = J[row, a]
    for d in range(row, row + size):
        for a in range(6):
            J[d, a] = rates[own[d]] * alone[a]


@compiled()
def _columns(kind: int, axis: Vector, pose: Vector, origin: Vector, J: Matrix) -> None:
    """Rows of J of one joint."""
    turned = local(3)
    if kind == FREE:
        for d in range(3):
            _slides(pose[3 * d : 3 * d + 3], J[d])
            _turns(pose[3 * d : 3 * d + 3], pose, origin, J[3 + d])
    elif kind == PLANAR:
        _slides(pose[0:3], J[0])
        _slides(pose[3:6], J[1])
        _turns(pose[6:9], pose, origin, J[2])
    else:
        for a in range(3):
            turned[a] = pose[a] * axis[0] + pose[3 + a] * axis[1] + pose[6 + a] * axis[2]
        if kind == PRISMATIC:
            _slides(turned, J[0])
        else:
            _turns(turned, pose, origin, J[0])


@compiled()
def _slides(along: Vector, out: Vector) -> None:
    """Motion along a direction."""
    for a in range(3):
        out[a], out[3 + a] = along[a], 0.0


@compiled()
def _turns(about: Vector, pose: Vector, origin: Vector, out: Vector) -> None:
    """Motion about an axis through a joint's origin."""
    x, y, z = pose[9] - origin[0], pose[10] - origin[1], pose[11] - origin[2]
    out[0], out[1], out[2] = y * about[2] - z * about[1], z * about[0] - x * about[2], x * about[1] - y * about[0]
    out[3], out[4], out[5] = about[0], about[1], about[2]


@compiled()
def carried(pose: Vector, place: Vector, out: Vector) -> None:
    """A point that moves with a joint, in the world."""
    for a in range(3):
        out[a] = pose[a] * place[0] + pose[3 + a] * place[1] + pose[6 + a] * place[2] + pose[9 + a]


# -- inertia ---------------------------------------------------------------------------------------------------------
@compiled(inline=False)
def joint_inertia(bodies: Bodies, terms: Terms) -> None:
    """M from the poses: composite bodies, from the leaves to the root."""
    n, M, J, own, whole, tree = len(bodies.kind), terms.M, terms.J, terms.own, terms.whole, bodies.tree
    if bodies.coupled:
        for d in range(len(tree)):
            for j in range(d):
                M[d, j] = 0.0
            M[d, d] = bodies.armature[d]
        for i in range(1, n):
            if bodies.follows_v[i] >= 0:
                rates = terms.G[bodies.follows_v[i]]
                for d in range(len(tree)):
                    for j in range(d + 1):
                        M[d, j] += bodies.rotors[i] * rates[d] * rates[j]
    momentum = local(6)
    for e in range(INERTIA):
        whole[0, e] = 0.0
    for i in range(1, n):
        _about(bodies.inertias[i], terms.poses[i], terms.origin, own[i])
        for e in range(INERTIA):
            whole[i, e] = own[i, e]
    for i in range(n - 1, 0, -1):
        for e in range(INERTIA):
            whole[bodies.parent[i], e] += whole[i, e]
        for d in range(bodies.row[i], bodies.row[i] + bodies.size[i]):
            _times(whole[i], J[d], momentum)
            if bodies.coupled:
                _add_inertia(bodies, d, J, momentum, M)
            else:
                j = d
                while j >= 0:
                    M[d, j] = _product(J[j], momentum)
                    j = tree[j]
                M[d, d] += bodies.armature[d]


@compiled()
def _add_inertia(bodies: Bodies, d: int, J: Matrix, momentum: Vector, M: Matrix) -> None:
    """What row d of J and those above it add to M, where several rows are of one speed."""
    b, j = bodies.own[d], d
    while j >= 0:
        a, x = bodies.own[j], _product(J[j], momentum)
        if a == b:
            M[a, a] += x if j == d else 2.0 * x
        elif a > b:
            M[a, b] += x
        else:
            M[b, a] += x
        j = bodies.above[j]


@compiled()
def _about(body: Vector, pose: Vector, origin: Vector, out: Vector) -> None:
    """A body's inertia in world axes about `origin`."""
    m = body[0]
    dx, dy, dz = pose[9] - origin[0], pose[10] - origin[1], pose[11] - origin[2]
    gx = pose[0] * body[1] + pose[3] * body[2] + pose[6] * body[3]
    gy = pose[1] * body[1] + pose[4] * body[2] + pose[7] * body[3]
    gz = pose[2] * body[1] + pose[5] * body[2] + pose[8] * body[3]
    turned = local(3, 3)  # R I
    for a in range(3):
        x, y, z = pose[a], pose[3 + a], pose[6 + a]
        turned[a, 0] = x * body[4] + y * body[5] + z * body[6]
        turned[a, 1] = x * body[5] + y * body[7] + z * body[8]
        turned[a, 2] = x * body[6] + y * body[8] + z * body[9]
    hx, hy, hz = gx + m * dx, gy + m * dy, gz + m * dz
    # with r = d + rho: the sum of m (r.r 1 - r r^T), of which the part of rho alone is R I R^T
    trace = gx * dx + gy * dy + gz * dz + hx * dx + hy * dy + hz * dz
    out[0], out[1], out[2], out[3] = m, hx, hy, hz
    out[4] = _entry(turned, pose, 0, 0) + trace - (gx * dx + hx * dx)
    out[5] = _entry(turned, pose, 0, 1) - (dx * gy + hx * dy)
    out[6] = _entry(turned, pose, 0, 2) - (dx * gz + hx * dz)
    out[7] = _entry(turned, pose, 1, 1) + trace - (gy * dy + hy * dy)
    out[8] = _entry(turned, pose, 1, 2) - (dy * gz + hy * dz)
    out[9] = _entry(turned, pose, 2, 2) + trace - (gz * dz + hz * dz)


@compiled()
def _entry(turned: Matrix, pose: Vector, a: int, b: int) -> float:
    """Entry (a, b) of ``R I R^T`` from ``R I``."""
    out: float = turned[a, 0] * pose[b] + turned[a, 1] * pose[3 + b] + turned[a, 2] * pose[6 + b]
    return out


@compiled()
def _times(body: Vector, motion: Vector, out: Vector) -> None:
    """Momentum, or force, of a body that moves as a whole."""
    m, hx, hy, hz = body[0], body[1], body[2], body[3]
    vx, vy, vz, wx, wy, wz = motion[0], motion[1], motion[2], motion[3], motion[4], motion[5]
    out[0] = m * vx + wy * hz - wz * hy
    out[1] = m * vy + wz * hx - wx * hz
    out[2] = m * vz + wx * hy - wy * hx
    out[3] = body[4] * wx + body[5] * wy + body[6] * wz + hy * vz - hz * vy
    out[4] = body[5] * wx + body[7] * wy + body[8] * wz + hz * vx - hx * vz
    out[5] = body[6] * wx + body[8] * wy + body[9] * wz + hx * vy - hy * vx


@compiled()
def _product(motion: Vector, force: Vector) -> float:
    """Power."""
    total = 0.0
    for a in range(6):
        total += motion[a] * force[a]
    return total


# -- forces ----------------------------------------------------------------------------------------------------------
@compiled(inline=False)
def bias(bodies: Bodies, v: Vector, terms: Terms) -> None:
    """Bias h of v where the joints are: recursive Newton-Euler, gravity as an acceleration of the world."""
    J, V, A, F, own, n = terms.J, terms.velocities, terms.accelerations, terms.forces, terms.own, len(bodies.kind)
    turn, inertial, speed = local(6), local(6), bodies.own
    if bodies.coupled:
        for d in range(len(terms.h)):
            terms.h[d] = 0.0
    if len(terms.q_all) > 0:
        _accelerate(bodies, v, terms)
    for a in range(6):
        V[0, a], A[0, a] = 0.0, 0.0
    for a in range(3):
        A[0, a] = -bodies.gravity[a]
    for i in range(1, n):
        b = bodies.parent[i]
        for a in range(6):
            turn[a] = 0.0
        for d in range(bodies.row[i], bodies.row[i] + bodies.size[i]):
            for a in range(6):
                turn[a] += J[d, a] * v[speed[d]]
        _motion_cross(V[b], turn, A[i])
        if bodies.follows_v[i] >= 0:
            _add_drift(bodies, i, terms, A[i])
        for a in range(6):
            V[i, a] = V[b, a] + turn[a]
            A[i, a] += A[b, a]
        _times(own[i], V[i], turn)
        _force_cross(V[i], turn, F[i])
        _times(own[i], A[i], inertial)
        for a in range(6):
            F[i, a] += inertial[a]
    for i in range(n - 1, 0, -1):
        for d in range(bodies.row[i], bodies.row[i] + bodies.size[i]):
            if bodies.coupled:
                terms.h[speed[d]] += _product(J[d], F[i])
            else:
                terms.h[d] = _product(J[d], F[i])
        for a in range(6):
            F[bodies.parent[i], a] += F[i, a]


@compiled(inline=False)
def _accelerate(bodies: Bodies, v: Vector, terms: Terms) -> None:
    """Drift of all joints at v, and what the rotors of those that loops move feel of it, into h."""
    for i in range(len(terms.v_all)):
        total = 0.0
        for d in range(len(v)):
            total += terms.G[i, d] * v[d]
        terms.v_all[i] = total
    drift_all(bodies.closures, terms.closing, terms.q_all, terms.v_all, terms.drift)
    for i in range(1, len(bodies.kind)):
        at = bodies.follows_v[i]
        if at >= 0:
            for d in range(len(v)):
                terms.h[d] += terms.G[at, d] * bodies.rotors[i] * terms.drift[at]


@compiled()
def _add_drift(bodies: Bodies, i: int, terms: Terms, out: Vector) -> None:
    """Acceleration of a joint that loops move where those of the independent ones are 0."""
    own = local(1, 6)
    _columns(bodies.kind[i], bodies.axes[i], terms.poses[i], terms.origin, own)
    for a in range(6):
        out[a] += own[0, a] * terms.drift[bodies.follows_v[i]]


@compiled()
def _motion_cross(a: Vector, b: Vector, out: Vector) -> None:
    """``a x b`` of motions: how b changes as it moves along with a."""
    out[0] = a[4] * b[2] - a[5] * b[1] + a[1] * b[5] - a[2] * b[4]
    out[1] = a[5] * b[0] - a[3] * b[2] + a[2] * b[3] - a[0] * b[5]
    out[2] = a[3] * b[1] - a[4] * b[0] + a[0] * b[4] - a[1] * b[3]
    out[3] = a[4] * b[5] - a[5] * b[4]
    out[4] = a[5] * b[3] - a[3] * b[5]
    out[5] = a[3] * b[4] - a[4] * b[3]


@compiled()
def _force_cross(a: Vector, f: Vector, out: Vector) -> None:
    """``a x* f``: how a momentum changes as it moves along with a."""
    out[0] = a[4] * f[2] - a[5] * f[1]
    out[1] = a[5] * f[0] - a[3] * f[2]
    out[2] = a[3] * f[1] - a[4] * f[0]
    out[3] = a[4] * f[5] - a[5] * f[4] + a[1] * f[2] - a[2] * f[1]
    out[4] = a[5] * f[3] - a[3] * f[5] + a[2] * f[0] - a[0] * f[2]
    out[5] = a[3] * f[4] - a[4] * f[3] + a[0] * f[1] - a[1] * f[0]


@compiled()
def push_forces(bodies: Bodies, terms: Terms, pushes: Pushes, out: Vector) -> None:
    """Generalized forces of pushes where the joints are, into `out` (nv,)."""
    at, wrench, J, above, origin = local(3), local(6), terms.J, bodies.above, terms.origin
    for d in range(len(out)):
        out[d] = 0.0
    for i in range(len(pushes.joints)):
        carried(terms.poses[pushes.joints[i]], pushes.points[i], at)
        x, y, z, f = at[0] - origin[0], at[1] - origin[1], at[2] - origin[2], pushes.wrenches[i]
        for a in range(6):
            wrench[a] = f[a]
        wrench[3] += y * f[2] - z * f[1]
        wrench[4] += z * f[0] - x * f[2]
        wrench[5] += x * f[1] - y * f[0]
        d = pushes.last[i]
        while d >= 0:
            out[bodies.own[d]] += _product(J[d], wrench)
            d = above[d]
