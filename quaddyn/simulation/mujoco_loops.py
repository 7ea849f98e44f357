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
        for n_point in range(2 if loop.kind == "revolute" else 1):
            names = [f"loop {loop.name} {side} {n_point}" for side in "AB"]
            ends = ((loop.link_a, loop.placement_a), (loop.link_b, loop.placement_b))
            for name, (link, placement) in zip(names, ends, strict=True):
                body_index, link_pose = _find_body_of_link(robot, link)
                pose_in_body = link_pose @ placement
                position = pose_in_body.translation + n_point * HINGE_POINT_DISTANCE * pose_in_body.rotation[:, 2]
                bodies[body_index].add_site(name=name, pos=position, quat=mujoco_quaternion(pose_in_body.rotation))
            kind = kinds.mjEQ_WELD if loop.kind == "weld" else kinds.mjEQ_CONNECT
            equality = spec.add_equality(type=kind, objtype=sites, name1=names[0], name2=names[1])
            if loop.kind == "weld":
                data = np.zeros(len(equality.data))
                data[10] = 1.0  # torque per force: rotation and translation alike
                equality.data = data


class LoopJoints:
    """Dependent joints of closed loops: entries in the full coordinates and in MuJoCo's qpos and qvel.

    Args:
        loops: loops of the robot.
        entries: indices of each joint in q_all, v_all, qpos and qvel.
    """

    def __init__(self, loops: LoopCoupling, entries: Sequence[tuple[int, int, int, int]]) -> None:
        self.loops = loops
        self.q, self.v, self.qpos, self.qvel = np.array(entries, dtype=np.intp).reshape(-1, 4).T

    def to_mujoco(self, q: Array, v: Array, qpos: Array, qvel: Array, zero: Array) -> None:
        """Writes the positions and velocities of the joints at (q, v) to `qpos` and `qvel`."""
        joint_state = self.loops.at(q)
        qpos[self.qpos], qvel[self.qvel] = joint_state.q[self.q] + zero[self.qpos], joint_state.velocity(v)[self.v]


def _find_body_of_link(robot: Robot, link: str) -> tuple[int, Pose]:
    """Returns the index of the body that contains a link, and the placement of the link in that body."""
    return next(
        (i, pose) for i, body in enumerate(robot.bodies) for body_link, pose in body.links if body_link.name == link
    )


def mujoco_quaternion(rotation: Array) -> Array:
    """Returns the quaternion (4,) of a rotation in MuJoCo's order, w first."""
    x, y, z, w = pin.Quaternion(np.array(rotation)).coeffs()
    return np.array([w, x, y, z])
