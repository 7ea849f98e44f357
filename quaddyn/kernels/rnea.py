"""Inverse dynamics and joint-space inertia, traced over a mechanism.

*Inverse dynamics*: recursive Newton-Euler with second moments.  With the angular velocity w and acceleration dw of a
body, a point r accelerates with

    a + U r,    U = [dw]x + [w]x [w]x,

so that force and moment about the origin are ``m a + U h`` and ``h x a`` plus the antisymmetric part of ``U K``.  A
joint's axis z is fixed in both bodies, hence ``U z = R^T U_parent z``: the third column of U is only rotated.  Its
entries

    U13 = wx wz + dwy,    U23 = wy wz - dwx,    U33 = -(wx^2 + wy^2)

contain dw, which therefore need not be propagated.

Sources: Featherstone, *Rigid Body Dynamics Algorithms*, 2008, chapter 5; Khalil and Kleinfinger, *Minimum operations
and minimum parameters of the dynamic models of tree structure robots*, 1987.

*Joint-space inertia*: composite rigid bodies with second moments.  The mass m, the first moments h and the second
moments K of a composite body are sums over a subtree.  If the joint of a composite body accelerates by 1 rad/s^2 about
z, the force and the moment on the body are

    (-h_y, h_x, 0),    (-K_xz, -K_yz, K_xx + K_yy),

which are then propagated to the root.

Source: Featherstone, *Rigid Body Dynamics Algorithms*, 2008, section 6.2.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from .graph import Expr, Graph, Vector, cross, plus
from .mechanism import COORDINATE_COUNTS, GRAVITY, ROTATING_KINDS, Mechanism, MechanismBody, _cos_sin

Matrix = list[Vector]


class Rotation:
    """``R_parent_body`` of a joint as a sequence of plane rotations, or, for a floating joint, as a full matrix."""

    def __init__(self, graph: Graph, turns: Sequence[tuple[str, Expr, Expr]], matrix: Matrix | None = None) -> None:
        self.graph, self.turns, self.matrix = graph, turns, matrix

    def to_child(self, x: Sequence[Expr]) -> Vector:
        """Returns ``R^T x``: converts components in the parent's axes to the body's axes."""
        out = list(x)
        for axis, c, s in self.turns:
            i, j = (0, 1) if axis == "z" else (1, 2)
            out[i], out[j] = c * out[i] + s * out[j], c * out[j] - s * out[i]
        if self.matrix is not None:
            R = self.matrix
            out = [R[0][k] * out[0] + R[1][k] * out[1] + R[2][k] * out[2] for k in range(3)]
        return out

    def to_parent(self, x: Sequence[Expr]) -> Vector:
        """Returns ``R x``: converts components in the body's axes to the parent's axes."""
        out = list(x)
        if self.matrix is not None:
            R = self.matrix
            out = [R[k][0] * out[0] + R[k][1] * out[1] + R[k][2] * out[2] for k in range(3)]
        for axis, c, s in reversed(self.turns):
            i, j = (0, 1) if axis == "z" else (1, 2)
            out[i], out[j] = c * out[i] - s * out[j], s * out[i] + c * out[j]
        return out


def rotation(graph: Graph, link: MechanismBody, q: Sequence[Expr]) -> Rotation:
    """Returns the orientation of a body in its parent at q."""
    turns = []
    gamma, alpha, beta = link.rotation_angles
    for axis, angle in (("z", gamma), ("x", alpha)):
        if angle:
            c, s = _cos_sin(angle)
            turns.append((axis, graph.constant(c), graph.constant(s)))
    if link.kind == "revolute":
        s_, c_ = graph.sin_cos(q[link.q], beta)
        turns.append(("z", c_, s_))
    elif link.kind == "driven":
        turns.append(("z", q[link.q], q[link.q + 1]))
    elif beta and link.kind != "prismatic":
        c, s = _cos_sin(beta)
        turns.append(("z", graph.constant(c), graph.constant(s)))
    if link.kind == "continuous":
        turns.append(("z", q[link.q], q[link.q + 1]))
    elif link.kind == "planar":
        turns.append(("z", q[link.q + 2], q[link.q + 3]))
    elif link.kind == "floating":
        return Rotation(graph, turns, quaternion_matrix(q[link.q + 3 : link.q + 7]))
    return Rotation(graph, turns)


def quaternion_matrix(quaternion: Sequence[Expr]) -> Matrix:
    """Returns the rotation (3, 3) of a quaternion x, y, z, w, with Eigen's polynomial."""
    x, y, z, w = quaternion
    tx, ty, tz = 2.0 * x, 2.0 * y, 2.0 * z
    twx, twy, twz, txx, txy, txz, tyy, tyz, tzz = tx * w, ty * w, tz * w, tx * x, ty * x, tz * x, ty * y, tz * y, tz * z
    return [
        [1.0 - (tyy + tzz), txy - twz, txz + twy],
        [txy + twz, 1.0 - (txx + tzz), tyz - twx],
        [txz - twy, tyz + twx, 1.0 - (txx + tyy)],
    ]


def displacement(graph: Graph, link: MechanismBody, q: Sequence[Expr], length: float) -> Vector:
    """Returns the origin of a body in its parent's frame at q, in units of length."""
    out = [graph.constant(float(x)) for x in link.offset]
    if link.kind == "prismatic":
        step = q[link.q] * (1.0 / length)
        return [o + float(d) * step for o, d in zip(out, link.sliding_axis, strict=True)]
    if link.kind in ("planar", "floating"):
        translation = [q[link.q + k] * (1.0 / length) for k in range(2 if link.kind == "planar" else 3)]
        translation += [graph.constant(0.0)] * (3 - len(translation))
        fixed = Rotation(graph, rotation(graph, link, q).turns[: _constant_turns(link)])
        return plus(out, fixed.to_parent(translation))
    return out


def _constant_turns(link: MechanismBody) -> int:
    return sum(1 for angle in link.rotation_angles if angle)


@dataclass(eq=False)
class BodyMotion:
    """Motion of a body in its frame: angular velocity w, U, angular acceleration dw, acceleration a of the origin.

    Gravity is subtracted from a.  `diagonal_differences` holds U33 - U22, U11 - U33 and U22 - U11.
    """

    w: Vector
    U: Matrix
    dw: Vector
    a: Vector
    diagonal_differences: Vector


def world_motion(graph: Graph, gravity: float, length: float) -> BodyMotion:
    """Returns the motion of the world, which accelerates upwards to represent gravity."""
    zero = graph.constant(0.0)
    nothing = [zero] * 3
    fall = [zero, zero, graph.constant(gravity / length)]
    return BodyMotion(nothing, [list(nothing) for _ in range(3)], nothing, fall, nothing)


def acceleration_matrix(w: Sequence[Expr], dw: Sequence[Expr]) -> tuple[Matrix, Vector]:
    """Returns ``U = [dw]x + [w]x [w]x`` and the differences of its diagonal entries."""
    xx, yy, zz = (x * x for x in w)
    xy, xz, yz = w[0] * w[1], w[0] * w[2], w[1] * w[2]
    U = [
        [-(yy + zz), xy - dw[2], xz + dw[1]],
        [xy + dw[2], -(xx + zz), yz - dw[0]],
        [xz - dw[1], yz + dw[0], -(xx + yy)],
    ]
    return U, [zz - yy, xx - zz, yy - xx]


def propagate_motion(
    graph: Graph,
    link: MechanismBody,
    above: BodyMotion,
    R: Rotation,
    r: Vector,
    v: Sequence[Expr],
    a: Sequence[Expr],
    length: float,
) -> BodyMotion:
    """Computes the motion of a body from the motion of its parent and of its joint.

    Args:
        graph: records the operations.
        link: the body.
        above: motion of the parent.
        R: orientation of the body in the parent.
        r: (3,) origin of the body in the parent's frame, in units of length.
        v: velocities of all joints.
        a: accelerations of all joints.
        length: unit of length [m].
    """
    transported = R.to_child(plus(above.a, times(above.U, r)))
    if link.kind in ROTATING_KINDS:
        return _rotating_joint_motion(link, above, R, transported, v[link.v], a[link.v])
    if link.kind == "prismatic":
        sliding_speed, sliding_acceleration = v[link.v] * (1.0 / length), a[link.v] * (1.0 / length)
        along = [float(d) * sliding_speed for d in link.sliding_axis]
        w = above.w
        coriolis = [x + x for x in cross(w, along)]
        origin_acceleration = plus(
            plus(transported, coriolis), [float(d) * sliding_acceleration for d in link.sliding_axis]
        )
        return BodyMotion(w, above.U, above.dw, origin_acceleration, above.diagonal_differences)
    if link.kind == "planar":
        zero = graph.constant(0.0)
        linear_velocity, linear_acceleration = [v[link.v], v[link.v + 1], zero], [a[link.v], a[link.v + 1], zero]
        angular_velocity, angular_acceleration = [zero, zero, v[link.v + 2]], [zero, zero, a[link.v + 2]]
    else:
        linear_velocity, linear_acceleration = list(v[link.v : link.v + 3]), list(a[link.v : link.v + 3])
        angular_velocity, angular_acceleration = list(v[link.v + 3 : link.v + 6]), list(a[link.v + 3 : link.v + 6])
    w_above = R.to_child(above.w)
    w = plus(w_above, angular_velocity)
    dw = plus(plus(R.to_child(above.dw), cross(w_above, angular_velocity)), angular_acceleration)
    # R v is the origin's velocity seen from the parent.  Its derivative is R (a + angular_velocity x v); the Coriolis
    # acceleration is 2 w_above x v.
    w_sum = plus(w, w_above)
    joint_acceleration = [x * (1.0 / length) for x in plus(linear_acceleration, cross(w_sum, linear_velocity))]
    U, diagonal_differences = acceleration_matrix(w, dw)
    return BodyMotion(w, U, dw, plus(transported, joint_acceleration), diagonal_differences)


def _rotating_joint_motion(
    link: MechanismBody, above: BodyMotion, R: Rotation, transported: Vector, v: Expr, a: Expr
) -> BodyMotion:
    """Computes the motion of a body from the motion of its parent and of a revolute joint, as in the module's text."""
    w = R.to_child(above.w)
    w[2] = w[2] + v
    axis = R.to_parent([v.graph.zero, v.graph.zero, v.graph.one])
    U_z = R.to_child(times(above.U, axis))
    dwz = dot(axis, above.dw) + a
    x, y, z = w
    xy, xz, yz, xx, zz = x * y, x * z, y * z, x * x, z * z
    dwx, dwy = yz - U_z[1], U_z[0] - xz
    U33 = U_z[2]  # -(xx + yy)
    U11_minus_U33 = xx - zz
    U11, U22 = U33 + U11_minus_U33, -(xx + zz)
    U33_minus_U22 = U33 - U22
    U = [[U11, xy - dwz, U_z[0]], [xy + dwz, U22, U_z[1]], [xz - dwy, yz + dwx, U33]]
    return BodyMotion(
        w, U, [dwx, dwy, dwz], transported, [U33_minus_U22, U11_minus_U33, -(U33_minus_U22 + U11_minus_U33)]
    )


def times(M: Sequence[Sequence[Expr]], x: Sequence[Expr]) -> Vector:
    """Returns ``M x``."""
    return [row[0] * x[0] + row[1] * x[1] + row[2] * x[2] for row in M]


def dot(a: Sequence[Expr], b: Sequence[Expr]) -> Expr:
    """Returns ``a . b``."""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def inertial_wrench(motion: BodyMotion, p: Sequence[Expr]) -> tuple[Vector, Vector]:
    """Returns force and moment about the origin that give a body of parameters m, h, K this motion."""
    m, h = p[0], p[1:4]
    xx, xy, xz, yy, yz, zz = p[4:]
    U, a = motion.U, motion.a
    force = plus([m * x for x in a], times(U, h))
    n = [
        U[2][0] * xy + U[2][1] * yy - U[1][0] * xz + motion.diagonal_differences[0] * yz - U[1][2] * zz,
        U[0][1] * yz - U[2][0] * xx - U[2][1] * xy + motion.diagonal_differences[1] * xz + U[0][2] * zz,
        U[1][0] * xx - U[0][1] * yy + motion.diagonal_differences[2] * xy + U[1][2] * xz - U[0][2] * yz,
    ]
    return force, plus(cross(h, a), n)


@dataclass(eq=False)
class JointPlacements:
    """Placement of every body in its parent at q: orientation, and origin in units of length."""

    rotations: list[Rotation]
    origins: list[Vector]


def joint_placements(graph: Graph, mechanism: Mechanism, q: Sequence[Expr]) -> JointPlacements:
    """Returns the placements of a mechanism at q."""
    return JointPlacements(
        [rotation(graph, link, q) for link in mechanism.links],
        [displacement(graph, link, q, mechanism.length) for link in mechanism.links],
    )


def body_motions(
    graph: Graph,
    mechanism: Mechanism,
    at: JointPlacements,
    v: Sequence[Expr],
    a: Sequence[Expr],
    *,
    gravity: float = GRAVITY,
) -> list[BodyMotion]:
    """Returns the motion of every body at (v, a), where the world accelerates upwards with `gravity` [m/s^2]."""
    ground = world_motion(graph, gravity, mechanism.length)
    out: list[BodyMotion] = []
    for link, R, r in zip(mechanism.links, at.rotations, at.origins, strict=True):
        above = out[link.parent] if link.parent >= 0 else ground
        out.append(propagate_motion(graph, link, above, R, r, v, a, mechanism.length))
    return out


Wrench = tuple[Vector, Vector]


def wrench_in_parent(R: Rotation, r: Vector, wrench: Wrench) -> Wrench:
    """Returns a wrench on a body as force and moment about the parent's origin in the parent's axes."""
    f = R.to_parent(wrench[0])
    return f, plus(R.to_parent(wrench[1]), cross(r, f))


def add_wrenches(a: Wrench, b: Wrench) -> Wrench:
    """Returns the sum of two wrenches about one origin."""
    return plus(a[0], b[0]), plus(a[1], b[1])


def rnea(
    graph: Graph,
    mechanism: Mechanism,
    at: JointPlacements,
    v: Sequence[Expr],
    a: Sequence[Expr],
    parameters: Sequence[Sequence[Expr]],
    loads: Mapping[int, Wrench] | None = None,
) -> Vector:
    """Returns the generalized forces (nv), without rotor inertia and friction.

    Args:
        graph: records the operations.
        mechanism: the robot.
        at: placements of its joints at q.
        v: nv expressions.
        a: nv expressions.
        parameters: per body m, h, K.
        loads: external wrenches on bodies, about their origins in their axes, by index.
    """
    tau = [graph.constant(0.0)] * mechanism.nv

    def visit(i: int, above: BodyMotion) -> Wrench:
        """Traverses the subtree of body i and returns the wrench that it exerts on its parent."""
        link, R, r = mechanism.links[i], at.rotations[i], at.origins[i]
        motion = propagate_motion(graph, link, above, R, r, v, a, mechanism.length)
        child_wrenches = [visit(c, motion) for c in mechanism.children[i]]
        wrench = inertial_wrench(motion, parameters[i])
        for child_wrench in child_wrenches:
            wrench = add_wrenches(wrench, child_wrench)
        if loads and i in loads:
            f, n = loads[i]
            wrench = add_wrenches(wrench, ([-x for x in f], [-x for x in n]))
        for k, x in joint_forces(link, *wrench, mechanism.length):
            tau[k] = x
        return wrench_in_parent(R, r, wrench)

    ground = world_motion(graph, GRAVITY, mechanism.length)
    for i, link in enumerate(mechanism.links):
        if link.parent < 0:
            visit(i, ground)
    return tau


def joint_forces(link: MechanismBody, f: Vector, n: Vector, length: float) -> list[tuple[int, Expr]]:
    """Returns (index in tau, value): the components of a wrench on a body along the axes of its joint."""
    if link.kind in ROTATING_KINDS:
        return [(link.v, n[2])]
    if link.kind == "prismatic":
        along = (
            f[0] * float(link.sliding_axis[0]) + f[1] * float(link.sliding_axis[1]) + f[2] * float(link.sliding_axis[2])
        )
        return [(link.v, along * (1.0 / length))]
    scaled = [x * (1.0 / length) for x in f]
    components = [scaled[0], scaled[1], n[2]] if link.kind == "planar" else [*scaled, *n]
    return [(link.v + k, x) for k, x in enumerate(components)]


MassProperties = tuple[Expr, Vector, Vector]  # m, h, and K as xx, xy, xz, yy, yz, zz


def link_inertias(parameters: Sequence[Sequence[Expr]]) -> list[MassProperties]:
    """Returns the mass properties of each body without its subtree."""
    return [(p[0], list(p[1:4]), list(p[4:])) for p in parameters]


def add_to_parent(mechanism: Mechanism, at: JointPlacements, bodies: list[MassProperties], i: int) -> None:
    """Adds the mass properties of composite body i to those of its parent."""
    parent = mechanism.links[i].parent
    if parent >= 0:
        m, h, K = shift_inertia(at.rotations[i], at.origins[i], bodies[i])
        M, H, S = bodies[parent]
        bodies[parent] = M + m, plus(H, h), plus(S, K)


def shift_inertia(R: Rotation, r: Vector, body: MassProperties) -> MassProperties:
    """Returns the mass properties of a body in the parent's frame."""
    m, h, K = body
    h, K = R.to_parent(h), rotate_inertia(R, K)
    x, y, z = r
    both = [h[0] * x, h[0] * y, h[0] * z, h[1] * y, h[1] * z, h[2] * z]
    mirror = [both[0], h[1] * x, h[2] * x, both[3], h[2] * y, both[5]]
    mr = [m * k for k in r]
    square = [mr[0] * x, mr[0] * y, mr[0] * z, mr[1] * y, mr[1] * z, mr[2] * z]
    return m, plus(h, mr), plus(plus(K, square), plus(both, mirror))


def rotate_inertia(R: Rotation, K: Sequence[Expr]) -> Vector:
    """Returns ``R K R^T`` of a symmetric matrix given as xx, xy, xz, yy, yz, zz."""
    xx, xy, xz, yy, yz, zz = K
    if R.matrix is not None:
        rows = [[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]
        half = [[dot(r, k) for k in rows] for r in R.matrix]  # R K, as K is symmetric
        pairs = ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))
        xx, xy, xz, yy, yz, zz = (dot(half[i], R.matrix[j]) for i, j in pairs)
    for axis, c, s in reversed(R.turns):
        if axis == "z":
            xx, xy, yy = _rotate_symmetric_2x2(c, s, xx, xy, yy)
            xz, yz = c * xz - s * yz, s * xz + c * yz
        else:
            yy, yz, zz = _rotate_symmetric_2x2(c, s, yy, yz, zz)
            xy, xz = c * xy - s * xz, s * xy + c * xz
    return [xx, xy, xz, yy, yz, zz]


def _rotate_symmetric_2x2(c: Expr, s: Expr, xx: Expr, xy: Expr, yy: Expr) -> tuple[Expr, Expr, Expr]:
    """Returns the entries of a symmetric (2, 2) matrix rotated by the angle with cosine c and sine s."""
    if c.is_zero:
        return yy, -xy, xx
    if s.is_zero:
        return xx, xy, yy
    u = s * (xx - yy) + c * (xy + xy)
    return xx - s * u, c * u - xy, yy + s * u


def unit_wrenches(graph: Graph, link: MechanismBody, body: MassProperties, length: float) -> list[Wrench]:
    """Returns the wrenches on a composite body at rest for unit accelerations of its joint, in units of length."""
    m, h, K = body
    xx, xy, xz, yy, yz, zz = K
    zero, one = graph.constant(0.0), graph.constant(1.0)
    about = [
        ([zero, -h[2], h[1]], [yy + zz, -xy, -xz]),
        ([h[2], zero, -h[0]], [-xy, xx + zz, -yz]),
        ([-h[1], h[0], zero], [-xz, -yz, xx + yy]),
    ]
    if link.kind in ROTATING_KINDS:
        return [about[2]]

    def along(d: Sequence[Expr]) -> Wrench:
        d = [x * (1.0 / length) for x in d]
        return [m * x for x in d], cross(h, d)

    if link.kind == "prismatic":
        return [along([one * float(d) for d in link.sliding_axis])]
    steps = [along([one if k == j else zero for k in range(3)]) for j in range(3)]
    return [*steps[:2], about[2]] if link.kind == "planar" else [*steps, *about]


def wrenches_to_root(mechanism: Mechanism, at: JointPlacements, i: int, wrench: Wrench) -> Iterator[tuple[int, Wrench]]:
    """Yields (body, wrench about its origin in its axes): a wrench on body i, transmitted from there to the root."""
    while True:
        yield i, wrench
        if mechanism.links[i].parent < 0:
            return
        wrench = wrench_in_parent(at.rotations[i], at.origins[i], wrench)
        i = mechanism.links[i].parent


def joint_forces_to_root(
    mechanism: Mechanism, at: JointPlacements, i: int, wrench: Wrench
) -> Iterator[tuple[int, Expr]]:
    """Yields (index in tau, value): the joint forces from body i to the root due to a wrench on it."""
    for k, here in wrenches_to_root(mechanism, at, i, wrench):
        yield from joint_forces(mechanism.links[k], *here, mechanism.length)


def crba(
    graph: Graph,
    mechanism: Mechanism,
    at: JointPlacements,
    parameters: Sequence[Sequence[Expr]],
    rotors: Sequence[Expr],
) -> list[list[Expr]]:
    """Returns M (nv, nv), both triangles; `rotors` (nv) adds to its diagonal."""
    zero = graph.constant(0.0)
    M = [[zero] * mechanism.nv for _ in range(mechanism.nv)]
    bodies = link_inertias(parameters)
    for i in range(len(bodies) - 1, -1, -1):
        add_to_parent(mechanism, at, bodies, i)
    for i, link in enumerate(mechanism.links):
        for column, wrench in enumerate(unit_wrenches(graph, link, bodies[i], mechanism.length), start=link.v):
            for row, x in joint_forces_to_root(mechanism, at, i, wrench):
                if row <= column:
                    M[row][column] = M[column][row] = x
    for k, x in enumerate(rotors):
        M[k][k] = M[k][k] + x
    return M


def configuration_rates(graph: Graph, mechanism: Mechanism, q: Sequence[Expr]) -> list[dict[int, Expr]]:
    """Returns, per entry of v, the rates of the entries of q: ``d integrate(q, t e_k) / dt`` at 0."""
    one = graph.constant(1.0)
    out: list[dict[int, Expr]] = [{} for _ in range(mechanism.nv)]
    for link in mechanism.links:
        if COORDINATE_COUNTS[link.kind] == (1, 1):
            out[link.v] = {link.q: one}
        elif link.kind in ROTATING_KINDS:
            c, s = q[link.q], q[link.q + 1]
            out[link.v] = {link.q: -s, link.q + 1: c}
        elif link.kind == "planar":
            c, s = q[link.q + 2], q[link.q + 3]
            out[link.v] = {link.q: c, link.q + 1: s}
            out[link.v + 1] = {link.q: -s, link.q + 1: c}
            out[link.v + 2] = {link.q + 2: -s, link.q + 3: c}
        else:
            _floating_joint_rates(q, link.q, link.v, out)
    return out


def _floating_joint_rates(q: Sequence[Expr], first: int, v: int, out: list[dict[int, Expr]]) -> None:
    x, y, z, w = (0.5 * k for k in q[first + 3 : first + 7])
    R = quaternion_matrix(q[first + 3 : first + 7])
    for k in range(3):
        out[v + k] = {first + row: R[row][k] for row in range(3)}
    quaternion_entries = range(first + 3, first + 7)
    # Half the product of the quaternion with i, j and k.
    for k, rates in enumerate(((w, z, -y, -x), (-z, w, x, -y), (y, -x, w, -z))):
        out[v + 3 + k] = dict(zip(quaternion_entries, rates, strict=True))
