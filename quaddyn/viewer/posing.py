"""`JointSliders`: sliders on the live page that move the joints of a robot."""

from __future__ import annotations

import math

import numpy as np

from ..deprecation import renamed_attributes
from ..robot.configuration import independent_joints, set_joint_value
from ..robot.robot import Robot
from ..urdf.tree import Array, Joint
from .viewer import Viewer


@renamed_attributes(follow="update")
class JointSliders:
    """Slider for each joint with one degree of freedom, between its limits; from -pi to pi about home without limits.

    Args:
        viewer: viewer whose page has the sliders.
    """

    def __init__(self, viewer: Viewer) -> None:
        self._viewer = viewer
        self._robot = robot = viewer.robot
        self._joints = independent_joints(robot.bodies)
        for name, joint in self._joints.items():
            low, high, value = _slider_range(robot, joint)
            unit = "m" if joint.type == "prismatic" else "rad"
            viewer.add_slider(name, low, high, value, unit=unit, group="joints")
        self._shown: dict[str, float] | None = None

    def update(self) -> Array | None:
        """Shows the robot in the configuration of the sliders.

        Returns:
            (nq,) configuration if it has changed, else None.
        """
        values = self._viewer.sliders
        if values == self._shown:
            return None
        self._shown, q = values, np.array(self._robot.q_home)
        for name, joint in self._joints.items():
            set_joint_value(q, self._robot.configuration_index(name), joint, values[name])
        self._viewer.show(q)
        return q


def _slider_range(robot: Robot, joint: Joint) -> tuple[float, float, float]:
    """Returns minimum, maximum and home value of a joint's slider."""
    index = robot.configuration_index(joint.name)
    if joint.type == "continuous":
        return -math.pi, math.pi, math.atan2(robot.q_home[index + 1], robot.q_home[index])
    value, low, high = float(robot.q_home[index]), float(robot.lower[index]), float(robot.upper[index])
    low, high = (
        limit if math.isfinite(limit) else value + half_turn for limit, half_turn in ((low, -math.pi), (high, math.pi))
    )
    if not low < high:  # equal limits: the joint cannot move
        low, high = low - 1e-3, high + 1e-3
    return low, high, min(max(value, low), high)
