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
            low, high, value = _range(robot, joint)
            unit = "m" if joint.type == "prismatic" else "rad"
            viewer.add_slider(name, low, high, value, unit=unit, group="joints")
        self._shown: dict[str, float] | None = None

    def update(self) -> Array | None:
        """Shows the robot in the configuration of the sliders.

        Returns:
            (nq,) configuration if it has changed, else None.
        """
        set_to = self._viewer.sliders
        if set_to == self._shown:
            return None
        self._shown, q = set_to, np.array(self._robot.q_home)
        for name, joint in self._joints.items():
            set_joint_value(q, self._robot.configuration_index(name), joint, set_to[name])
        self._viewer.show(q)
        return q


def _range(robot: Robot, joint: Joint) -> tuple[float, float, float]:
    """Returns minimum, maximum and home value of a joint's slider."""
    k = robot.configuration_index(joint.name)
    if joint.type == "continuous":
        return -math.pi, math.pi, math.atan2(robot.q_home[k + 1], robot.q_home[k])
    value, low, high = float(robot.q_home[k]), float(robot.lower[k]), float(robot.upper[k])
    low, high = (end if math.isfinite(end) else value + turn for end, turn in ((low, -math.pi), (high, math.pi)))
    if not low < high:  # a joint that its limits hold still
        low, high = low - 1e-3, high + 1e-3
    return low, high, min(max(value, low), high)
