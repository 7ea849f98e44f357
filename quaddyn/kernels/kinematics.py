"""Frames traced over a mechanism: where they are, Jacobians, drift, and the wrenches of external forces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import UnknownNameError
from ..robot.robot import Robot
from ..urdf.tree import Array, Pose
from .graph import Expr, Graph, Vector, cross, plus
from .mechanism import TURNING, Mechanism
from .rnea import Joints, Wrench, motions, times


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """A frame on `link` (-1: the world): `point` (3,) its origin in units of length, `rotation` (3, 3) its axes."""

    link: int
    point: Array
    rotation: Array


def places(robot: Robot, mechanism: Mechanism) -> dict[str, tuple[int, Pose]]:
    """By name the link that carries a frame (-1: the world), and its pose in the file's frame of that link.

    Feet come before links, links before moving joints, those before fixed joints and the root's.
    """
    index = {link.source: i for i, link in enumerate(mechanism.links)}
    at: dict[str, tuple[int, Pose]] = {}
    for i, body in enumerate(robot.bodies):
        at |= {link.name: (index.get(i, -1), pose) for link, pose in body.links}
    steps = {"free": ("root_joint",), "planar": ("root_x", "root_z", "root_pitch"), "fixed": ()}[robot.root]
    out = {name: (k, Pose.identity()) for k, name in enumerate(steps)}
    for moving in (False, True):
        out |= {j.name: at[j.child] for j in robot.tree.joints if (j.type != "fixed") is moving}
    out |= at
    for name, leg in robot.legs.items():
        i, pose = at[leg.foot.frame]
        out[name] = i, pose @ Pose.of(np.eye(3), leg.foot.offset)
    return out


def place(robot: Robot, mechanism: Mechanism, name: str) -> Place:
    """Where a named frame is in a mechanism.

    Raises:
        UnknownNameError: no such frame.
    """
    known = places(robot, mechanism)
    if name not in known:
        raise UnknownNameError("frame", name, known)
    index, pose = known[name]
    if index < 0:
        return Place(-1, pose.translation / mechanism.length, pose.rotation)
    link = mechanism.links[index]
    point = link.own.T @ (pose.translation - link.origin) / mechanism.length
    return Place(index, _clean(point), _clean(link.own.T @ pose.rotation))


def _clean(x: Array) -> Array:
    """`x` without entries that are rounding."""
    return np.where(np.abs(x) < 1e-15, 0.0, x)


def lineage(mechanism: Mechanism, link: int) -> list[int]:
    """Links from the root to this one."""
    out: list[int] = []
    while link >= 0:
        out.append(link)
        link = mechanism.links[link].parent
    return out[::-1]


def orientations(graph: Graph, mechanism: Mechanism, at: Joints, chain: Sequence[int]) -> dict[int, list[Vector]]:
    """World axes in each link of a chain: ``R_world_link`` by rows."""
    zero, one = graph.constant(0.0), graph.constant(1.0)
    rows = [[one if i == j else zero for j in range(3)] for i in range(3)]
    out: dict[int, list[Vector]] = {}
    for i in chain:
        rows = [at.rotations[i].down(row) for row in rows]
        out[i] = rows
    return out


def jacobian(graph: Graph, mechanism: Mechanism, at: Joints, frame: Place) -> list[Vector]:
    """(6, nv) by rows: linear and angular velocity of the frame's origin, world axes."""
    return reach(graph, mechanism, at, frame)[0]


def reach(graph: Graph, mechanism: Mechanism, at: Joints, frame: Place) -> tuple[list[Vector], Vector]:
    """The Jacobian of a frame, and (3,) its origin in the world, in units of length."""
    zero, one = graph.constant(0.0), graph.constant(1.0)
    J = [[zero] * mechanism.nv for _ in range(6)]
    chain, L = lineage(mechanism, frame.link), mechanism.length
    R = orientations(graph, mechanism, at, chain)
    arm = [graph.constant(float(x)) for x in frame.point]
    for i in reversed(chain):
        link = mechanism.links[i]
        axes = [[one if k == j else zero for k in range(3)] for j in range(3)]

        def put(column: int, linear: Sequence[Expr], angular: Sequence[Expr], rows: list[Vector] = R[i]) -> None:
            for k, x in enumerate([*times(rows, linear), *times(rows, angular)]):
                J[k][column] = x

        turns = [[x * L for x in cross(axis, arm)] for axis in axes]
        still = [zero] * 3
        if link.kind in TURNING:
            put(link.v, turns[2], axes[2])
        elif link.kind == "prismatic":
            put(link.v, [graph.constant(float(d)) for d in link.slide], still)
        else:
            free = 2 if link.kind == "planar" else 3
            for k in range(free):
                put(link.v + k, axes[k], still)
            for k in range(2, 3) if link.kind == "planar" else range(3):
                put(link.v + free + k - (2 if link.kind == "planar" else 0), turns[k], axes[k])
        arm = plus(at.places[i], at.rotations[i].up(arm))
    return J, arm


def acceleration(
    graph: Graph, mechanism: Mechanism, at: Joints, v: Sequence[Expr], a: Sequence[Expr], frame: Place
) -> Vector:
    """(6,) classical acceleration of the frame's origin, and angular acceleration, world axes."""
    zero = graph.constant(0.0)
    if frame.link < 0:
        return [zero] * 6
    motion = motions(graph, mechanism, at, v, a, gravity=0.0)[frame.link]
    point = [graph.constant(float(x)) for x in frame.point]
    linear = [x * mechanism.length for x in plus(motion.a, times(motion.U, point))]
    chain = lineage(mechanism, frame.link)
    angular = motion.dw
    for i in reversed(chain):
        linear, angular = at.rotations[i].up(linear), at.rotations[i].up(angular)
    return [*linear, *angular]


def loads(
    graph: Graph, mechanism: Mechanism, at: Joints, frames: Sequence[Place], forces: Sequence[Expr]
) -> Mapping[int, Wrench]:
    """Wrenches on links, about their origins in their axes, of forces and torques (6 each) at frames in world axes."""
    out: dict[int, Wrench] = {}
    L = mechanism.length
    for k, frame in enumerate(frames):
        if frame.link < 0:
            continue
        f, n = list(forces[6 * k : 6 * k + 3]), list(forces[6 * k + 3 : 6 * k + 6])
        for i in lineage(mechanism, frame.link):
            f, n = at.rotations[i].down(f), at.rotations[i].down(n)
        f = [x * L for x in f]
        point = [graph.constant(float(x)) for x in frame.point]
        wrench = f, plus(n, cross(point, f))
        if frame.link in out:
            old = out[frame.link]
            wrench = plus(old[0], wrench[0]), plus(old[1], wrench[1])
        out[frame.link] = wrench
    return out
