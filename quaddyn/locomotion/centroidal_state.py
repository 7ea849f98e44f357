"""`Motion`: what a tick of locomotion takes from the robot's state."""

from __future__ import annotations

import math
from typing import NamedTuple

from ..dynamics import State
from ..urdf.tree import Array
from .morphology import FEET


class CentroidalState(NamedTuple):
    """Centre of mass, heading and feet of the robot now, in world axes.

    Attributes:
        com: of the robot and of what it is taken to carry [m].
        velocity: of the robot's centre of mass [m/s].
        R_base: (3, 3) attitude of the base.
        axes: (3, 3) heading axes of the trunk: columns forward, left and up.
        yaw: of forward [rad].
        feet: (4, 3) centres of the feet's spheres [m].
    """

    com: tuple[float, float, float]
    velocity: tuple[float, float, float]
    R_base: Array
    axes: Array
    yaw: float
    feet: Array

    @classmethod
    def from_state(cls, state: State, base: str, heading: Array, com_shift: tuple[float, float]) -> CentroidalState:
        """The motion of a state.

        Args:
            state: of a quadruped.
            base: name of its root link.
            heading: (3, 3) heading axes in those of the root link.
            com_shift: of the centre of mass with a load from that of the robot, along world x and y [m].
        """
        x, y, z = state.com.tolist()
        u, v, w = state.com_velocity.tolist()
        R_base = state.placement(base).rotation
        axes = R_base @ heading
        yaw = math.atan2(axes[1, 0], axes[0, 0])
        return cls((x + com_shift[0], y + com_shift[1], z), (u, v, w), R_base, axes, yaw, state.origins(FEET))
