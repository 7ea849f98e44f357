"""`Spring`: force with which the mouse on a live page pulls a link of the robot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pinocchio as pin

from ..robot.robot import Robot
from ..urdf.tree import Array

#: Extension at which the spring reaches its largest force [robot lengths].
MAX_EXTENSION = 0.5
#: Damping ratio of the spring with the mass of the whole robot.
DAMPING_RATIO = 0.2


class Pull(NamedTuple):
    """Spring that a page has attached to the robot.

    Attributes:
        body: index of the body.
        point: (3,) attached point in the frame of the body's slot [m].
        target: (3,) other end, world [m].
    """

    body: int
    point: tuple[float, float, float]
    target: tuple[float, float, float]


class Spring:
    """Spring with damping and a bounded force.

    Args:
        robot: robot that is pulled.
        joints: index of the Pinocchio joint that carries each body.
        size: length of the robot [m].
        max_force: largest force [N].
    """

    def __init__(self, robot: Robot, joints: Sequence[int], size: float, max_force: float) -> None:
        self._robot, self._joints, self._max_force = robot, joints, max_force
        self._stiffness = max_force / (MAX_EXTENSION * size)
        self._damping = 2.0 * DAMPING_RATIO * float(np.sqrt(self._stiffness * robot.mass))
        self._data = robot.model.createData()

    def compute_wrench(self, pull: Pull | None, q: Array, v: Array) -> dict[str, Array]:
        """Returns force and moment (6,) at the frame of the pulled link, world axes [N, N m]; {} without a pull.

        Args:
            pull: attached spring; None for none. One on a body that does not exist is ignored.
            q: (nq,) configuration.
            v: (nv,) velocity.
        """
        if pull is None or pull.body >= len(self._joints):
            return {}
        robot, data, name = self._robot, self._data, self._robot.bodies[pull.body].name
        robot.algorithms.forwardKinematics(robot.model, data, np.array(q), np.array(v))
        frame = pin.updateFramePlacement(robot.model, data, robot.frame_id(name))
        joint, point = self._joints[pull.body], np.array(pull.point)
        placement, velocity = data.oMi[joint], data.v[joint]
        position = placement.act(point)
        speed = placement.rotation @ (velocity.linear + np.cross(velocity.angular, point))
        force = self._stiffness * (np.array(pull.target) - position) - self._damping * speed
        force *= min(1.0, self._max_force / max(float(np.linalg.norm(force)), 1e-12))
        return {name: np.concatenate((force, np.cross(position - frame.translation, force)))}
