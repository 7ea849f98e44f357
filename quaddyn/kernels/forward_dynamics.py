"""Forward dynamics traced over a mechanism: ``M^-1 b``, by sparse factorization or by articulated bodies.

`solve_by_factorization` costs least where chains are short: composite inertias give the columns of M, which are
eliminated as soon as they are known.  `solve_by_articulated_bodies` never forms M and grows linearly with the number of
joints, so that it costs less on long chains.  Both take b alone: bias forces are those of inverse dynamics, so that the
recursions are those at rest.

Source: Featherstone, *Rigid Body Dynamics Algorithms*, 2008, sections 6.5 (``M = L^T D L`` with the sparsity of
branches) and 7.3 (articulated bodies).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .graph import Expr, Graph, Vector, cross, plus
from .mechanism import COORDINATE_COUNTS, ROTATING_KINDS, Mechanism, MechanismBody
from .rnea import (
    JointPlacements,
    Rotation,
    Wrench,
    add_to_parent,
    dot,
    joint_forces_to_root,
    link_inertias,
    rotate_inertia,
    unit_wrenches,
    wrench_in_parent,
)

Parameters = Sequence[Sequence[Expr]]


def ancestors(mechanism: Mechanism) -> list[list[int]]:
    """Returns, per entry of v, those before it that move its body, nearest first."""
    out: list[list[int]] = [[] for _ in range(mechanism.nv)]
    for link in mechanism.links:
        above: list[int] = []
        if link.parent >= 0:
            parent = mechanism.links[link.parent]
            last = parent.v + COORDINATE_COUNTS[parent.kind][1] - 1
            above = [last, *out[last]]
        for k in range(link.v, link.v + COORDINATE_COUNTS[link.kind][1]):
            out[k] = above
            above = [k, *above]
    return out


def solve_by_factorization(
    graph: Graph,
    mechanism: Mechanism,
    at: JointPlacements,
    parameters: Parameters,
    rotors: Sequence[Expr],
    b: Sequence[Expr],
) -> Vector:
    """Returns ``M^-1 b`` through ``M = L^T D L``, where L has the sparsity of the tree.

    `rotors` are added to the diagonal of M.
    """
    zero, above, x, n = graph.constant(0.0), ancestors(mechanism), list(b), mechanism.nv
    H = [[zero] * n for _ in range(n)]
    inverse = [zero] * n
    bodies = link_inertias(parameters)
    for i in range(len(mechanism.links) - 1, -1, -1):
        link = mechanism.links[i]
        dofs = range(link.v, link.v + COORDINATE_COUNTS[link.kind][1])
        for column, wrench in zip(dofs, unit_wrenches(graph, link, bodies[i], mechanism.length), strict=True):
            for row, value in joint_forces_to_root(mechanism, at, i, wrench):
                if row <= column:
                    H[column][row] = H[column][row] + value
            H[column][column] = H[column][column] + rotors[column]
        for k in reversed(dofs):
            inverse[k] = 1.0 / H[k][k]
            factors = {j: H[k][j] * inverse[k] for j in above[k]}
            for row in above[k]:
                for column in [row, *above[row]]:
                    H[row][column] = H[row][column] - factors[row] * H[k][column]
            for j in above[k]:
                H[k][j] = factors[j]
                x[j] = x[j] - factors[j] * x[k]
        add_to_parent(mechanism, at, bodies, i)
    for k in range(n):
        x[k] = x[k] * inverse[k]
        for j in above[k]:
            x[k] = x[k] - H[k][j] * x[j]
    return x


def solve_by_elimination(graph: Graph, M: Sequence[Sequence[Expr]], b: Sequence[Expr]) -> Vector:
    """Returns ``M^-1 b`` of any positive definite M.

    ``M = L^T D L`` is factored from the last entry on; zeros are skipped.
    """
    n, x, H = len(b), list(b), [list(row) for row in M]
    inverse = [graph.zero] * n
    for k in reversed(range(n)):
        inverse[k] = 1.0 / H[k][k]
        above = [j for j in range(k) if not H[k][j].is_zero]
        factors = {j: H[k][j] * inverse[k] for j in above}
        for row in above:
            for column in above:
                if column <= row:
                    H[row][column] = H[row][column] - factors[row] * H[k][column]
            x[row] = x[row] - factors[row] * x[k]
        for j in above:
            H[k][j] = factors[j]
    for k in range(n):
        x[k] = x[k] * inverse[k]
        for j in range(k):
            if not H[k][j].is_zero:
                x[k] = x[k] - H[k][j] * x[j]
    return x


@dataclass(eq=False)
class ArticulatedInertia:
    """Articulated-body inertia of a body with its subtree, about its origin in its axes.

    Force ``C^T dw + M a`` and moment ``J dw + C a``, minus `bias`.
    """

    J: Vector  # moment of angular acceleration, symmetric, as xx, xy, xz, yy, yz, zz
    C: list[Vector]  # moment of linear acceleration, (3, 3) by rows
    M: Vector  # force of linear acceleration, symmetric
    bias: Wrench  # force and moment due to b of the joints below


@dataclass(frozen=True, eq=False)
class EliminatedJoint:
    """Quantities of one eliminated degree of freedom."""

    axis: Wrench  # linear and angular velocity of the body at unit joint speed
    row: Wrench  # force and moment on the body for unit joint acceleration
    inverse: Expr  # inverse of its articulated inertia
    free_acceleration: Expr  # its acceleration if the parent does not accelerate


def solve_by_articulated_bodies(
    graph: Graph,
    mechanism: Mechanism,
    at: JointPlacements,
    parameters: Parameters,
    rotors: Sequence[Expr],
    b: Sequence[Expr],
) -> Vector:
    """Returns ``M^-1 b`` by the articulated-body algorithm; `rotors` are added to the diagonal of M."""
    zero = graph.constant(0.0)
    nothing = ([zero] * 3, [zero] * 3)
    bodies = [_rigid_body_inertia(p, zero) for p in parameters]
    pivots: dict[int, EliminatedJoint] = {}
    for i in range(len(mechanism.links) - 1, -1, -1):
        link, body = mechanism.links[i], bodies[i]
        for k, axis in reversed(list(enumerate(joint_axes(graph, link, mechanism.length), start=link.v))):
            pivots[k] = _eliminate_joint(body, axis, rotors[k], b[k])
        if link.parent >= 0:
            _add_to_parent(bodies[link.parent], body, at.rotations[i], at.origins[i])
    x = list(b)
    motions: list[Wrench] = []
    for i, link in enumerate(mechanism.links):
        linear, angular = motions[link.parent] if link.parent >= 0 else nothing
        linear = at.rotations[i].to_child(plus(linear, cross(angular, at.origins[i])))
        angular = at.rotations[i].to_child(angular)
        for k in range(link.v, link.v + COORDINATE_COUNTS[link.kind][1]):
            p = pivots[k]
            x[k] = p.free_acceleration - (dot(p.row[0], linear) + dot(p.row[1], angular)) * p.inverse
            linear = plus(linear, [x[k] * s for s in p.axis[0]])
            angular = plus(angular, [x[k] * s for s in p.axis[1]])
        motions.append((linear, angular))
    return x


def joint_axes(graph: Graph, link: MechanismBody, length: float) -> list[Wrench]:
    """Returns the linear and angular velocities of a body per degree of freedom of its joint, in units of length."""
    zero, one, unit = graph.constant(0.0), graph.constant(1.0), graph.constant(1.0 / length)
    along = [([unit if j == k else zero for j in range(3)], [zero] * 3) for k in range(3)]
    about = [([zero] * 3, [one if j == k else zero for j in range(3)]) for k in range(3)]
    if link.kind in ROTATING_KINDS:
        return [about[2]]
    if link.kind == "prismatic":
        return [([unit * float(d) for d in link.sliding_axis], [zero] * 3)]
    return [*along[:2], about[2]] if link.kind == "planar" else [*along, *about]


def _rigid_body_inertia(p: Sequence[Expr], zero: Expr) -> ArticulatedInertia:
    """Returns the articulated inertia of a single rigid body."""
    m, (x, y, z), (xx, xy, xz, yy, yz, zz) = p[0], p[1:4], p[4:]
    return ArticulatedInertia(
        [yy + zz, -xy, -xz, xx + zz, -yz, xx + yy],
        [[zero, -z, y], [z, zero, -x], [-y, x, zero]],
        [m, zero, zero, m, zero, m],
        ([zero] * 3, [zero] * 3),
    )


def _eliminate_joint(body: ArticulatedInertia, axis: Wrench, rotor: Expr, b: Expr) -> EliminatedJoint:
    """Eliminates one degree of freedom, reducing the body's articulated inertia by what the joint cannot transmit."""
    s, w = axis
    force = plus(_symmetric_product(body.M, s), [dot([row[k] for row in body.C], w) for k in range(3)])
    moment = plus(_symmetric_product(body.J, w), [dot(row, s) for row in body.C])
    inverse = 1.0 / (dot(force, s) + dot(moment, w) + rotor)
    free_acceleration = (b - (dot(body.bias[0], s) + dot(body.bias[1], w))) * inverse
    normalized = [x * inverse for x in force], [x * inverse for x in moment]
    pairs = ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))
    body.M = [x - normalized[0][i] * force[j] for x, (i, j) in zip(body.M, pairs, strict=True)]
    body.J = [x - normalized[1][i] * moment[j] for x, (i, j) in zip(body.J, pairs, strict=True)]
    body.C = [[body.C[i][j] - moment[i] * normalized[0][j] for j in range(3)] for i in range(3)]
    if rotor.is_zero:  # nothing resists along an axis that yields freely: exactly zero, and not only up to rounding
        for k in range(3):
            along = [not x.is_zero for x in (*s, *w)]
            if along == [j == k for j in range(6)]:
                body.M = [rotor if k in pair else x for x, pair in zip(body.M, pairs, strict=True)]
                body.C = [[rotor if j == k else x for j, x in enumerate(row)] for row in body.C]
            if along == [j == 3 + k for j in range(6)]:
                body.J = [rotor if k in pair else x for x, pair in zip(body.J, pairs, strict=True)]
                body.C = [[rotor] * 3 if i == k else row for i, row in enumerate(body.C)]
    body.bias = (
        plus(body.bias[0], [free_acceleration * x for x in force]),
        plus(body.bias[1], [free_acceleration * x for x in moment]),
    )
    return EliminatedJoint(axis, (force, moment), inverse, free_acceleration)


def _add_to_parent(above: ArticulatedInertia, body: ArticulatedInertia, R: Rotation, r: Vector) -> None:
    """Adds the articulated inertia of a body to that of its parent."""
    M, J = rotate_inertia(R, body.M), rotate_inertia(R, body.J)
    columns = [R.to_parent([row[k] for row in body.C]) for k in range(3)]
    C = [R.to_parent([column[k] for column in columns]) for k in range(3)]
    full = [[M[0], M[1], M[2]], [M[1], M[3], M[4]], [M[2], M[4], M[5]]]
    # A point at r accelerates with a + dw x r, and its force has the moment r x f.
    shifted = [cross(r, column) for column in full]  # [r]x M by columns
    new = [[C[i][j] + shifted[j][i] for j in range(3)] for i in range(3)]
    first = [cross(r, row) for row in new]  # [r]x C'^T by columns
    second = [cross(r, row) for row in C]
    pairs = ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))
    above.J = [x + y + first[j][i] + second[i][j] for x, y, (i, j) in zip(above.J, J, pairs, strict=True)]
    above.C = [plus(x, y) for x, y in zip(above.C, new, strict=True)]
    above.M = plus(above.M, M)
    f, n = wrench_in_parent(R, r, body.bias)
    above.bias = plus(above.bias[0], f), plus(above.bias[1], n)


def _symmetric_product(S: Sequence[Expr], x: Sequence[Expr]) -> Vector:
    """Returns the product of x with a symmetric matrix, given by its upper triangle."""
    rows = [[S[0], S[1], S[2]], [S[1], S[3], S[4]], [S[2], S[4], S[5]]]
    return [dot(row, x) for row in rows]
