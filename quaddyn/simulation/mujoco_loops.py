"""Closed loops in MuJoCo: equality constraints between sites, and where joints are that loops move."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pinocchio as pin

from ..robot.loops import Loops
from ..robot.robot import Robot
from ..urdf.tree import Array, Pose

#: Along the axis of a revolute loop, how far apart its two points are [m].
APART = 0.1


def add_loops(mujoco: Any, spec: Any, bodies: Sequence[Any], robot: Robot) -> None:
    """Constraints for the robot's loops: a ball connects points, a revolute joint two of them, a weld frames.

    Args:
        mujoco: the module.
        spec: of the model.
        bodies: its bodies, in the robot's order.
        robot: the robot.
    """
    kinds, sites = mujoco.mjtEq, mujoco.mjtObj.mjOBJ_SITE
    for loop in robot.loops:
        for k in range(2 if loop.kind == "revolute" else 1):
            names = [f"loop {loop.name} {side} {k}" for side in "AB"]
            ends = ((loop.link_a, loop.placement_a), (loop.link_b, loop.placement_b))
            for name, (link, placement) in zip(names, ends, strict=True):
                i, pose = _carrier(robot, link)
                at = pose @ placement
                place = at.translation + k * APART * at.rotation[:, 2]
                bodies[i].add_site(name=name, pos=place, quat=wxyz(at.rotation))
            kind = kinds.mjEQ_WELD if loop.kind == "weld" else kinds.mjEQ_CONNECT
            made = spec.add_equality(type=kind, objtype=sites, name1=names[0], name2=names[1])
            if loop.kind == "weld":
                data = np.zeros(len(made.data))
                data[10] = 1.0  # torque per force: rotation and translation alike
                made.data = data


class Followers:
    """Joints that loops move: entries in q_all and v_all, and in MuJoCo's qpos and qvel."""

    def __init__(self, loops: Loops, places: Sequence[tuple[int, int, int, int]]) -> None:
        self.loops = loops
        self.q, self.v, self.qpos, self.qvel = np.array(places, dtype=np.intp).reshape(-1, 4).T

    def to_mujoco(self, q: Array, v: Array, qpos: Array, qvel: Array, zero: Array) -> None:
        """Write where they are at (q, v)."""
        at = self.loops.at(q)
        qpos[self.qpos], qvel[self.qvel] = at.q[self.q] + zero[self.qpos], at.velocity(v)[self.v]


def _carrier(robot: Robot, link: str) -> tuple[int, Pose]:
    """The body that a link is part of, and where in it."""
    return next((i, pose) for i, body in enumerate(robot.bodies) for x, pose in body.links if x.name == link)


def wxyz(rotation: Array) -> Array:
    """(4,) MuJoCo's quaternion of a rotation."""
    x, y, z, w = pin.Quaternion(np.array(rotation)).coeffs()
    return np.array([w, x, y, z])
