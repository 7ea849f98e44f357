"""Joint-space inertia traced over a mechanism: composite rigid bodies with second moments.

A composite's m, h, K are the sum over a subtree.  Under a unit acceleration of its own joint about z, force and moment
are ``(-h_y, h_x, 0)`` and ``(-K_xz, -K_yz, K_xx + K_yy)``, which then climb to the root.

Source: Featherstone, *Rigid MassProperties Dynamics Algorithms*, 2008, section 6.2.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .graph import Expr, Graph, Vector, cross, plus
from .mechanism import ROTATING_KINDS, Mechanism, MechanismBody
from .rnea import JointPlacements, Rotation, Wrench, dot, joint_forces, wrench_in_parent

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
