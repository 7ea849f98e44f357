"""`Poses`: configurations of a robot whose trunk and feet are at given places."""

from __future__ import annotations

import numpy as np

from ..kinematics import LegKinematics
from ..robot.configuration import put, simple_joints
from ..robot.robot import Robot
from ..urdf.tree import Array
from .morphology import FEET


class LegPoseSolver:
    """Puts feet where they are wanted, leg by leg; all that is no leg stays as at home.

    Args:
        robot: a quadruped.

    Attributes:
        legs: kinematics by foot.

    Raises:
        QuaddynError: legs whose kinematics are refused, as of joints that follow others.
    """

    __slots__ = ("_joint_entries", "legs")

    def __init__(self, robot: Robot) -> None:
        known = simple_joints(robot.bodies)
        self.legs = {foot: LegKinematics(robot, foot) for foot in FEET}
        self._joint_entries = {
            foot: [(robot.configuration_index(joint), known[joint]) for joint in leg.joints]
            for foot, leg in self.legs.items()
        }

    def place_foot(self, q: Array, foot: str, points: Array) -> bool:
        """Set the joints of a leg in configurations, on its branch at home.

        Args:
            q: (nq,) or (n, nq) to be changed.
            foot: by name.
            points: (3,) or (n, 3) of its centre, base frame [m].

        Returns:
            Whether it gets there within the limits of its joints, in all of them.
        """
        found = self.legs[foot].inverse(points)
        if not (np.all(found.reached) and np.all(found.within_limits)):
            return False
        rows, values = np.atleast_2d(q), np.atleast_2d(found.q)
        for row, angles in zip(rows, values.tolist(), strict=True):
            for (index, joint), value in zip(self._joint_entries[foot], angles, strict=True):
                put(row, index, joint, value)
        return True
