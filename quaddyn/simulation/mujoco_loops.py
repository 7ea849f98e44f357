"""Closed loops in MuJoCo: equality constraints between sites, and positions of dependent joints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pinocchio as pin

from ..robot.loops import LoopCoupling
from ..robot.robot import Robot
from ..urdf.tree import Array, Pose

#: Distance along the axis between the two connected points of a revolute loop [m].
HINGE_POINT_DISTANCE = 0.1


def add_loops(mujoco: Any, spec: Any, bodies: Sequence[Any], robot: Robot) -> None:
    """Adds equality constraints for the loops of a robot.

    A ball joint connects a point, a revolute joint two points on its axis, and a weld a frame.

    Args:
        mujoco: the module ``mujoco``.
        spec: ``mujoco.MjSpec`` of the robot.
        bodies: its bodies, in the order of the robot.
        robot: robot with loops.
    """
    kinds, sites = mujoco.mjtEq, mujoco.mjtObj.mjOBJ_SITE
    for loop in robot.loops:
        for k in range(2 if loop.kind == "revolute" else 1):
            names = [f"loop {loop.name} {side} {k}" for side in "AB"]
            ends = ((loop.link_a, loop.placement_a), (loop.link_b, loop.placement_b))
            for name, (link, placement) in zip(names, ends, strict=True):
                i, pose = _carrier(robot, link)
                at = pose @ placement
                place = at.translation + k * HINGE_POINT_DISTANCE * at.rotation[:, 2]
                bodies[i].add_site(name=name, pos=place, quat=wxyz(at.rotation))
            kind = kinds.mjEQ_WELD if loop.kind == "weld" else kinds.mjEQ_CONNECT
            made = spec.add_equality(type=kind, objtype=sites, name1=names[0], name2=names[1])
            if loop.kind == "weld":
                data = np.zeros(len(made.data))
                data[10] = 1.0  # torque per force: rotation and translation alike
                made.data = data


class LoopJoints:
    """Dependent joints of closed loops: entries in the full coordinates and in MuJoCo's qpos and qvel.

    Args:
        loops: loops of the robot.
        places: entries (q_all, v_all, qpos, qvel) of each joint.
    """

    def __init__(self, loops: LoopCoupling, places: Sequence[tuple[int, int, int, int]]) -> None:
        self.loops = loops
        self.q, self.v, self.qpos, self.qvel = np.array(places, dtype=np.intp).reshape(-1, 4).T

    def to_mujoco(self, q: Array, v: Array, qpos: Array, qvel: Array, zero: Array) -> None:
        """Writes the positions and velocities of the joints at (q, v) to `qpos` and `qvel`."""
        at = self.loops.at(q)
        qpos[self.qpos], qvel[self.qvel] = at.q[self.q] + zero[self.qpos], at.velocity(v)[self.v]


def _carrier(robot: Robot, link: str) -> tuple[int, Pose]:
    """Returns the index of the body of a link, and the placement of the link in it."""
    return next((i, pose) for i, body in enumerate(robot.bodies) for x, pose in body.links if x.name == link)


def wxyz(rotation: Array) -> Array:
    """Returns the quaternion (4,) of a rotation in MuJoCo's order, w first."""
    x, y, z, w = pin.Quaternion(np.array(rotation)).coeffs()
    return np.array([w, x, y, z])
