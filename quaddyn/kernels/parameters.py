"""Mass properties in a kernel: folded constants, or base parameters that the caller gives at run time.

Regressors are torques traced over a mechanism as a linear map of mass properties, friction and rotor inertia.

Source: Khalil and Dombre, *Modeling, Identification and Control of Robots*, 2002, section 12.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..robot.robot import Robot
from ..urdf.tree import Array
from .graph import Expr, Graph, Vector, cross
from .mechanism import N_INERTIAL_PARAMETERS, ROTATING_KINDS, Mechanism, group_inertias, transform_inertia
from .rnea import BodyMotion, JointPlacements, Wrench, body_motions, joint_forces, wrench_in_parent

#: Names of the ten mass properties of a link.
INERTIAL_NAMES = ("m", "hx", "hy", "hz", "Kxx", "Kxy", "Kxz", "Kyy", "Kyz", "Kzz")
#: Indices of the mass properties that remain after grouping (`group_inertias`), by kind of joint.
BASE_PARAMETERS = {
    "revolute": (1, 2, 4, 5, 6, 7, 8),
    "continuous": (1, 2, 4, 5, 6, 7, 8),
    "driven": (1, 2, 4, 5, 6, 7, 8),
    "prismatic": (0, 1, 2, 3),
    "planar": (0, 1, 2, 3, 4, 5, 6, 7, 8),
    "floating": tuple(range(N_INERTIAL_PARAMETERS)),
}
JOINT_NAMES = ("fv", "fc", "Ia")


@dataclass(frozen=True, eq=False)
class Parameters:
    """Mass properties (10) of each body, and viscous friction, Coulomb friction and rotor inertia of its joint."""

    inertia: list[list[Expr]]
    damping: list[Expr]
    friction: list[Expr]
    armature: list[Expr]


def constant_parameters(graph: Graph, mechanism: Mechanism) -> Parameters:
    """Returns the robot's own parameters, grouped, as constants."""
    links = mechanism.links
    P = group_inertias(links, np.array([link.inertia for link in links]))
    return Parameters(
        [[graph.constant(x) for x in p] for p in P],
        [graph.constant(link.damping) for link in links],
        [graph.constant(link.friction) for link in links],
        [graph.constant(link.armature) for link in links],
    )


def parameter_layout(mechanism: Mechanism) -> list[tuple[int, int]]:
    """Returns (body, property) of each run-time parameter: mass properties first; 10, 11, 12 are those of the joint."""
    out = inertial_layout(mechanism)
    for i, link in enumerate(mechanism.links):
        if link.kind in (*ROTATING_KINDS, "prismatic") and link.body_index > 0:
            out += [(i, N_INERTIAL_PARAMETERS + k) for k in range(3)]
    return out


def inertial_layout(mechanism: Mechanism) -> list[tuple[int, int]]:
    """Returns (body, property) of the run-time parameters that are mass properties."""
    links = enumerate(mechanism.links)
    return [(i, k) for i, link in links for k in BASE_PARAMETERS[link.kind] if link.body_index >= 0 or k == 0]


def parameter_names(robot: Robot, mechanism: Mechanism) -> tuple[str, ...]:
    """Returns a name of each run-time parameter, such as "FL_calf.Kxx"."""
    words = (*INERTIAL_NAMES, *JOINT_NAMES)
    return tuple(f"{mechanism.links[i].name or f'root step {i}'}.{words[k]}" for i, k in parameter_layout(mechanism))


def input_parameters(graph: Graph, mechanism: Mechanism, given: list[Expr]) -> Parameters:
    """Returns parameters that are inputs of the program."""
    zero = graph.constant(0.0)
    table = [[zero] * (N_INERTIAL_PARAMETERS + 3) for _ in mechanism.links]
    for (i, k), x in zip(parameter_layout(mechanism), given, strict=True):
        table[i][k] = x
    return Parameters(
        [row[:N_INERTIAL_PARAMETERS] for row in table],
        [row[N_INERTIAL_PARAMETERS] for row in table],
        [row[N_INERTIAL_PARAMETERS + 1] for row in table],
        [row[N_INERTIAL_PARAMETERS + 2] for row in table],
    )


def standard_to_base_map(robot: Robot, mechanism: Mechanism) -> Array:
    """Returns the linear map (k, 13 nb) to run-time parameters from 13 standard parameters of each body.

    Standard parameters are ``[Lxx Lxy Lxz Lyy Lyz Lzz lx ly lz m fv fc Ia]`` of each of ``robot.bodies``, inertia and
    first moments about the joint frame in the file's axes.
    """
    links, L = mechanism.links, mechanism.length
    layout, scale = parameter_layout(mechanism), np.array([L**2, L, L, L, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    out = np.zeros((len(layout), 13 * len(robot.bodies)))
    for i, link in enumerate(links):
        if link.body_index < 0:
            continue
        for column in range(N_INERTIAL_PARAMETERS):
            P = np.zeros((len(links), N_INERTIAL_PARAMETERS))
            P[i] = (
                transform_inertia(
                    unit_inertial_parameters(column), link.file_axes.T, -link.file_axes.T @ link.file_origin
                )
                * scale
            )
            P = group_inertias(links, P)
            out[:, 13 * link.body_index + column] = [P[j, k] if k < N_INERTIAL_PARAMETERS else 0.0 for j, k in layout]
        for k in range(3):
            if (i, N_INERTIAL_PARAMETERS + k) in layout:
                out[layout.index((i, N_INERTIAL_PARAMETERS + k)), 13 * link.body_index + N_INERTIAL_PARAMETERS + k] = (
                    1.0
                )
    return out


def unit_inertial_parameters(column: int) -> Array:
    """Returns m, h, K (10,) of a unit of one of ``[Lxx Lxy Lxz Lyy Lyz Lzz lx ly lz m]``: ``K = tr(L) / 2 - L``."""
    p = np.zeros(N_INERTIAL_PARAMETERS)
    if column < 6:
        row, col = ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))[column]
        L = np.zeros((3, 3))
        L[row, col] = L[col, row] = 1.0
        K = 0.5 * np.trace(L) * np.eye(3) - L
        p[4:] = K[np.triu_indices(3)]
    elif column < 9:
        p[1 + column - 6] = 1.0
    else:
        p[0] = 1.0
    return p


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
    whose joint has none, as `losses` and `rotors` state for each body.  The other arguments are those of `rnea`.
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
        first = 13 * link.body_index + N_INERTIAL_PARAMETERS
        joint_columns = _friction_columns(graph, mechanism, link.v, v, a) if rotors[link.body_index] else []
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
