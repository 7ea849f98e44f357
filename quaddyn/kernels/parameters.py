"""Mass properties as a kernel reads them: folded constants, or base parameters that the caller gives at run time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..robot.robot import Robot
from ..urdf.tree import Array
from .graph import Expr, Graph
from .mechanism import PARAMETERS, TURNING, Mechanism, grouped, moved

#: Names of the ten mass properties of a link.
NAMES = ("m", "hx", "hy", "hz", "Kxx", "Kxy", "Kxz", "Kyy", "Kyz", "Kzz")
#: What grouping leaves of them, by kind of joint.
KEPT = {
    "revolute": (1, 2, 4, 5, 6, 7, 8),
    "continuous": (1, 2, 4, 5, 6, 7, 8),
    "driven": (1, 2, 4, 5, 6, 7, 8),
    "prismatic": (0, 1, 2, 3),
    "planar": (0, 1, 2, 3, 4, 5, 6, 7, 8),
    "floating": tuple(range(PARAMETERS)),
}
JOINT = ("fv", "fc", "Ia")


@dataclass(frozen=True, eq=False)
class Parameters:
    """Per link ten mass properties and, of its joint, friction (viscous, Coulomb) and rotor inertia: expressions."""

    inertia: list[list[Expr]]
    damping: list[Expr]
    friction: list[Expr]
    armature: list[Expr]


def folded(graph: Graph, mechanism: Mechanism) -> Parameters:
    """Constants, grouped."""
    links = mechanism.links
    P = grouped(links, np.array([link.inertia for link in links]))
    return Parameters(
        [[graph.constant(x) for x in p] for p in P],
        [graph.constant(link.damping) for link in links],
        [graph.constant(link.friction) for link in links],
        [graph.constant(link.armature) for link in links],
    )


def layout(mechanism: Mechanism) -> list[tuple[int, int]]:
    """(link, property) of each run-time parameter: mass properties first; 10, 11, 12 are those of the joint."""
    out = inertial_layout(mechanism)
    for i, link in enumerate(mechanism.links):
        if link.kind in (*TURNING, "prismatic") and link.source > 0:
            out += [(i, PARAMETERS + k) for k in range(3)]
    return out


def inertial_layout(mechanism: Mechanism) -> list[tuple[int, int]]:
    """(link, property) of the run-time parameters that are mass properties."""
    links = enumerate(mechanism.links)
    return [(i, k) for i, link in links for k in KEPT[link.kind] if link.source >= 0 or k == 0]


def names(robot: Robot, mechanism: Mechanism) -> tuple[str, ...]:
    """A name of each run-time parameter, such as "FL_calf.Kxx"."""
    words = (*NAMES, *JOINT)
    return tuple(f"{mechanism.links[i].name or f'root step {i}'}.{words[k]}" for i, k in layout(mechanism))


def at_run_time(graph: Graph, mechanism: Mechanism, given: list[Expr]) -> Parameters:
    """Inputs."""
    zero = graph.constant(0.0)
    table = [[zero] * (PARAMETERS + 3) for _ in mechanism.links]
    for (i, k), x in zip(layout(mechanism), given, strict=True):
        table[i][k] = x
    return Parameters(
        [row[:PARAMETERS] for row in table],
        [row[PARAMETERS] for row in table],
        [row[PARAMETERS + 1] for row in table],
        [row[PARAMETERS + 2] for row in table],
    )


def from_standard(robot: Robot, mechanism: Mechanism) -> Array:
    """(k, 13 nb) linear map to run-time parameters from ``[Lxx Lxy Lxz Lyy Lyz Lzz lx ly lz m fv fc Ia]`` per body.

    Bodies are those of ``robot.bodies``, inertia and first moments about the joint frame in the file's axes.
    """
    links, L = mechanism.links, mechanism.length
    place, scale = layout(mechanism), np.array([L**2, L, L, L, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    out = np.zeros((len(place), 13 * len(robot.bodies)))
    for i, link in enumerate(links):
        if link.source < 0:
            continue
        for column in range(PARAMETERS):
            P = np.zeros((len(links), PARAMETERS))
            P[i] = moved(second_moments_of(column), link.own.T, -link.own.T @ link.origin) * scale
            P = grouped(links, P)
            out[:, 13 * link.source + column] = [P[j, k] if k < PARAMETERS else 0.0 for j, k in place]
        for k in range(3):
            if (i, PARAMETERS + k) in place:
                out[place.index((i, PARAMETERS + k)), 13 * link.source + PARAMETERS + k] = 1.0
    return out


def second_moments_of(column: int) -> Array:
    """(10,) m, h, K where one of ``[Lxx Lxy Lxz Lyy Lyz Lzz lx ly lz m]`` is one: ``K = tr(L) / 2 - L``."""
    p = np.zeros(PARAMETERS)
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
