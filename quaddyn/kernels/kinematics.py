"""Frames traced over a mechanism: placements, Jacobians, drift, and the wrenches of external forces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import UnknownNameError
from ..robot.robot import Robot
from ..urdf.tree import Array, Pose
from .graph import Expr, Graph, Vector, cross, plus
from .mechanism import ROTATING_KINDS, Mechanism
from .rnea import JointPlacements, Wrench, body_motions, times


@dataclass(frozen=True, slots=True, eq=False)
class FramePlacement:
    """A frame on a body."""

    link: int  # index of the body, -1 for the world
    point: Array  # (3,) its origin in the body, in units of length
    rotation: Array  # (3, 3) its axes in the body


def frame_poses(robot: Robot, mechanism: Mechanism) -> dict[str, tuple[int, Pose]]:
    """Returns, by name, the body that carries a frame (-1: the world), and its pose in the file's frame of that body.

    If names coincide, feet take precedence over links, links over moving joints, and those over fixed joints and the
    root's.
    """
    index = {link.body_index: i for i, link in enumerate(mechanism.links)}
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


def frame_placement(robot: Robot, mechanism: Mechanism, name: str) -> FramePlacement:
    """Returns the placement of a named frame in a mechanism.

    Raises:
        UnknownNameError: no such frame.
    """
    known = frame_poses(robot, mechanism)
    if name not in known:
        raise UnknownNameError("frame", name, known)
    index, pose = known[name]
    if index < 0:
        return FramePlacement(-1, pose.translation / mechanism.length, pose.rotation)
    link = mechanism.links[index]
    point = link.file_axes.T @ (pose.translation - link.file_origin) / mechanism.length
    return FramePlacement(index, _zero_rounding(point), _zero_rounding(link.file_axes.T @ pose.rotation))


def _zero_rounding(x: Array) -> Array:
    """Returns `x` with entries at rounding level set to zero."""
    return np.where(np.abs(x) < 1e-15, 0.0, x)


def path_from_root(mechanism: Mechanism, link: int) -> list[int]:
    """Returns the bodies from the root to this one."""
    out: list[int] = []
    while link >= 0:
        out.append(link)
        link = mechanism.links[link].parent
    return out[::-1]


def orientations(
    graph: Graph, mechanism: Mechanism, at: JointPlacements, chain: Sequence[int]
) -> dict[int, list[Vector]]:
    """Returns the world axes in each body of a chain: ``R_world_link`` by rows."""
    zero, one = graph.constant(0.0), graph.constant(1.0)
    rows = [[one if i == j else zero for j in range(3)] for i in range(3)]
    out: dict[int, list[Vector]] = {}
    for i in chain:
        rows = [at.rotations[i].to_child(row) for row in rows]
        out[i] = rows
    return out


def frame_jacobian(graph: Graph, mechanism: Mechanism, at: JointPlacements, frame: FramePlacement) -> list[Vector]:
    """Returns the Jacobian (6, nv) of a frame by rows: linear and angular velocity of its origin, world axes."""
    return jacobian_and_origin(graph, mechanism, at, frame)[0]


def jacobian_and_origin(
    graph: Graph, mechanism: Mechanism, at: JointPlacements, frame: FramePlacement
) -> tuple[list[Vector], Vector]:
    """Returns the Jacobian of a frame, and its origin (3,) in the world, in units of length."""
    zero, one = graph.constant(0.0), graph.constant(1.0)
    J = [[zero] * mechanism.nv for _ in range(6)]
    chain, L = path_from_root(mechanism, frame.link), mechanism.length
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
        if link.kind in ROTATING_KINDS:
            put(link.v, turns[2], axes[2])
        elif link.kind == "prismatic":
            put(link.v, [graph.constant(float(d)) for d in link.sliding_axis], still)
        else:
            free = 2 if link.kind == "planar" else 3
            for k in range(free):
                put(link.v + k, axes[k], still)
            for k in range(2, 3) if link.kind == "planar" else range(3):
                put(link.v + free + k - (2 if link.kind == "planar" else 0), turns[k], axes[k])
        arm = plus(at.origins[i], at.rotations[i].to_parent(arm))
    return J, arm


def frame_acceleration(
    graph: Graph, mechanism: Mechanism, at: JointPlacements, v: Sequence[Expr], a: Sequence[Expr], frame: FramePlacement
) -> Vector:
    """Returns the classical acceleration of the frame's origin and the angular acceleration (6,), world axes."""
    zero = graph.constant(0.0)
    if frame.link < 0:
        return [zero] * 6
    motion = body_motions(graph, mechanism, at, v, a, gravity=0.0)[frame.link]
    point = [graph.constant(float(x)) for x in frame.point]
    linear = [x * mechanism.length for x in plus(motion.a, times(motion.U, point))]
    chain = path_from_root(mechanism, frame.link)
    angular = motion.dw
    for i in reversed(chain):
        linear, angular = at.rotations[i].to_parent(linear), at.rotations[i].to_parent(angular)
    return [*linear, *angular]


def external_wrenches(
    graph: Graph, mechanism: Mechanism, at: JointPlacements, frames: Sequence[FramePlacement], forces: Sequence[Expr]
) -> Mapping[int, Wrench]:
    """Returns the wrenches on bodies, about their origins in their axes, of forces at frames.

    Forces are (6,) per frame, force before torque, in world axes.
    """
    out: dict[int, Wrench] = {}
    L = mechanism.length
    for k, frame in enumerate(frames):
        if frame.link < 0:
            continue
        f, n = list(forces[6 * k : 6 * k + 3]), list(forces[6 * k + 3 : 6 * k + 6])
        for i in path_from_root(mechanism, frame.link):
            f, n = at.rotations[i].to_child(f), at.rotations[i].to_child(n)
        f = [x * L for x in f]
        point = [graph.constant(float(x)) for x in frame.point]
        wrench = f, plus(n, cross(point, f))
        if frame.link in out:
            old = out[frame.link]
            wrench = plus(old[0], wrench[0]), plus(old[1], wrench[1])
        out[frame.link] = wrench
    return out
