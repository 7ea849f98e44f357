"""`LegPoseSolver`: robot configurations for given foot positions."""

from __future__ import annotations

import numpy as np

from ..kinematics import LegKinematics
from ..robot.configuration import independent_joints, set_joint_value
from ..robot.robot import Robot
from ..urdf.tree import Array
from .morphology import FEET


class LegPoseSolver:
    """Inverse kinematics that places feet leg by leg; joints that do not belong to legs stay at home.

    Args:
        robot: a quadruped.

    Attributes:
        legs: leg kinematics by name of the foot.

    Raises:
        QuaddynError: the kinematics of the legs are not supported, for example for coupled joints.
    """

    __slots__ = ("_joint_entries", "legs")

    def __init__(self, robot: Robot) -> None:
        joints_by_name = independent_joints(robot.bodies)
        self.legs = {foot: LegKinematics(robot, foot) for foot in FEET}
        self._joint_entries = {
            foot: [(robot.configuration_index(joint), joints_by_name[joint]) for joint in leg.joints]
            for foot, leg in self.legs.items()
        }

    def place_foot(self, q: Array, foot: str, points: Array) -> bool:
        """Sets the joints of a leg in configurations, on its branch at home.

        Args:
            q: (nq,) or (n, nq) configurations, updated.
            foot: name of the foot.
            points: (3,) or (n, 3) positions of the center of the foot sphere, base frame [m].

        Returns:
            Whether all positions are reached within the joint limits.
        """
        solution = self.legs[foot].inverse(points)
        if not (np.all(solution.reached) and np.all(solution.within_limits)):
            return False
        rows, values = np.atleast_2d(q), np.atleast_2d(solution.q)
        for row, angles in zip(rows, values.tolist(), strict=True):
            for (index, joint), value in zip(self._joint_entries[foot], angles, strict=True):
                set_joint_value(row, index, joint, value)
        return True
