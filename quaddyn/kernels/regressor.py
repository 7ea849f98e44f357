"""Regressors traced over a mechanism: torques as a linear map of mass properties, friction and rotor inertia.

Source: Khalil and Dombre, *Modeling, Identification and Control of Robots*, 2002, section 12.2.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..urdf.tree import Array
from .graph import Expr, Graph, Vector, cross
from .mechanism import N_INERTIAL_PARAMETERS, Mechanism, transform_inertia
from .parameters import inertial_layout, unit_inertial_parameters
from .rnea import BodyMotion, JointPlacements, Wrench, body_motions, joint_forces, wrench_in_parent


def parameter_wrenches(graph: Graph, motion: BodyMotion) -> list[Wrench]:
    """Returns the wrenches on a body under this motion for unit m, h and K (xx, xy, xz, yy, yz, zz)."""
    zero, one = graph.constant(0.0), graph.constant(1.0)
    U, spread, still = motion.U, motion.diagonal_differences, [zero] * 3
    out: list[Wrench] = [(list(motion.a), still)]
    for k in range(3):
        axis = [one if j == k else zero for j in range(3)]
        out.append(([row[k] for row in U], cross(axis, motion.a)))
    moments: list[Vector] = [
        [zero, -U[2][0], U[1][0]],
        [U[2][0], -U[2][1], spread[2]],
        [-U[1][0], spread[1], U[1][2]],
        [U[2][1], zero, -U[0][1]],
        [spread[0], U[0][1], -U[0][2]],
        [-U[1][2], U[0][2], zero],
    ]
    return out + [(still, n) for n in moments]


def _joint_forces_of(graph: Graph, mechanism: Mechanism, at: JointPlacements, link: int, wrench: Wrench) -> Vector:
    """Returns the joint forces (nv,) due to a wrench on a body."""
    tau = [graph.constant(0.0)] * mechanism.nv
    while link >= 0:
        for k, x in joint_forces(mechanism.links[link], *wrench, mechanism.length):
            tau[k] = x
        wrench = wrench_in_parent(at.rotations[link], at.origins[link], wrench)
        link = mechanism.links[link].parent
    return tau


def _friction_columns(
    graph: Graph, mechanism: Mechanism, index: int, v: Sequence[Expr], a: Sequence[Expr]
) -> list[Vector]:
    """Returns the columns (nv,) of viscous friction, Coulomb friction and rotor inertia of a body's joint."""
    out = []
    for x in (v[index], graph.sign(v[index]), a[index]):
        column = [graph.constant(0.0)] * mechanism.nv
        column[index] = x
        out.append(column)
    return out


def base_regressor(
    graph: Graph, mechanism: Mechanism, at: JointPlacements, v: Sequence[Expr], a: Sequence[Expr]
) -> list[Vector]:
    """Returns the regressor (nv, k) by rows, with one column for each parameter of the `inertial_layout`."""
    every = body_motions(graph, mechanism, at, v, a)
    wrenches = [parameter_wrenches(graph, motion) for motion in every]
    out = [_joint_forces_of(graph, mechanism, at, i, wrenches[i][k]) for i, k in inertial_layout(mechanism)]
    return [list(row) for row in zip(*out, strict=True)]


def regressor(
    graph: Graph,
    mechanism: Mechanism,
    at: JointPlacements,
    v: Sequence[Expr],
    a: Sequence[Expr],
    losses: Sequence[bool],
    rotors: Sequence[bool],
) -> list[Vector]:
    """Returns the regressor (nv, 13 nb) by rows, for ``[Lxx Lxy Lxz Lyy Lyz Lzz lx ly lz m fv fc Ia]`` of each body.

    Inertia and moments refer to the file's body frames.  Columns of friction and rotor inertia are zero for bodies
    whose joint has none.

    Args:
        graph: records the operations.
        mechanism: the robot.
        at: placements of its joints at q.
        v: nv expressions.
        a: nv expressions.
        losses: for each body, whether its joint has friction.
        rotors: for each body, whether its joint has a rotor.
    """
    zero = graph.constant(0.0)
    out = [[zero] * mechanism.nv for _ in range(13 * len(rotors))]
    for i, (link, motion) in enumerate(zip(mechanism.links, body_motions(graph, mechanism, at, v, a), strict=True)):
        if link.body_index < 0:
            continue
        wrenches = parameter_wrenches(graph, motion)
        for j in range(N_INERTIAL_PARAMETERS):
            p = transform_inertia(
                unit_inertial_parameters(j), link.file_axes.T, -link.file_axes.T @ link.file_origin
            ) * unit_scale(mechanism.length)
            p[np.abs(p) < 1e-15 * np.abs(p).max()] = 0.0
            out[13 * link.body_index + j] = _joint_forces_of(graph, mechanism, at, i, _weighted_sum(p, wrenches))
        first, joint_columns = (
            13 * link.body_index + N_INERTIAL_PARAMETERS,
            _friction_columns(graph, mechanism, link.v, v, a) if rotors[link.body_index] else [],
        )
        if losses[link.body_index]:
            out[first : first + 2] = joint_columns[:2]
        if rotors[link.body_index]:
            out[first + 2] = joint_columns[2]
    return [list(row) for row in zip(*out, strict=True)]


def unit_scale(length: float) -> Array:
    """Returns the factors (10,) that convert m, h, K to units of length."""
    return np.array([length**2, *[length] * 3, *[1.0] * 6])


def _weighted_sum(p: Array, wrenches: Sequence[Wrench]) -> Wrench:
    """Returns the sum of wrenches with weights p."""
    f = [_sum([w[0][k] * float(x) for x, w in zip(p, wrenches, strict=True) if x]) for k in range(3)]
    n = [_sum([w[1][k] * float(x) for x, w in zip(p, wrenches, strict=True) if x]) for k in range(3)]
    return f, n


def _sum(terms: Sequence[Expr]) -> Expr:
    out = terms[0]
    for x in terms[1:]:
        out = out + x
    return out
