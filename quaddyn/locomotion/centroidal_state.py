"""`CentroidalState`: the quantities that a locomotion tick takes from the robot's state."""

from __future__ import annotations

import math
from typing import NamedTuple

from ..dynamics import State
from ..urdf.tree import Array
from .morphology import FEET


class CentroidalState(NamedTuple):
    """Center of mass, heading and feet of the robot at one tick, in world axes.

    Attributes:
        com: center of mass of the robot with its estimated payload [m].
        velocity: velocity of the robot's center of mass [m/s].
        R_base: (3, 3) attitude of the base.
        axes: (3, 3) heading axes of the trunk: columns forward, left and up.
        yaw: yaw angle of the forward direction [rad].
        feet: (4, 3) centers of the foot spheres [m].
    """

    com: tuple[float, float, float]
    velocity: tuple[float, float, float]
    R_base: Array
    axes: Array
    yaw: float
    feet: Array

    @classmethod
    def from_state(cls, state: State, base: str, heading: Array, com_shift: tuple[float, float]) -> CentroidalState:
        """Computes these quantities from a state.

        Args:
            state: state of a quadruped.
            base: name of its root link.
            heading: (3, 3) rotation from heading axes to the root link.
            com_shift: center of mass with payload minus that of the robot, world x and y [m].
        """
        x, y, z = state.com.tolist()
        u, v, w = state.com_velocity.tolist()
        R_base = state.placement(base).rotation
        axes = R_base @ heading
        yaw = math.atan2(axes[1, 0], axes[0, 0])
        return cls((x + com_shift[0], y + com_shift[1], z), (u, v, w), R_base, axes, yaw, state.origins(FEET))
