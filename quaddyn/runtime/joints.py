"""Joints of a robot as encoders read them: one number each, whatever they are in q."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..robot.robot import Robot
from ..urdf.tree import Array


def turning_joints(robot: Robot) -> NDArray[np.bool_]:
    """(nu,) which actuated joints turn without end."""
    turning = {b.joint.name for b in robot.bodies if b.joint is not None and b.joint.type == "continuous"}
    return np.array([name in turning for name in robot.actuated], dtype=bool)


class Joints:
    """Positions of the actuated joints, in torque order, out of configurations.

    Args:
        robot: whose joints.

    Attributes:
        turning: (nu,) which turn without end; they are angles within half a turn.
    """

    def __init__(self, robot: Robot) -> None:
        self.turning = turning_joints(robot)
        self._at = np.array([robot.configuration_index(name) for name in robot.actuated], dtype=np.intp)
        self._sin = np.where(self.turning, self._at + 1, self._at)

    def of(self, q: Array) -> Array:
        """(nu,) positions in the configuration q (nq,) [rad or m]."""
        position = q[self._at]
        return np.where(self.turning, np.arctan2(q[self._sin], position), position) if self.turning.any() else position
