"""`JointPositions`: positions of the actuated joints as encoders measure them, one number for each joint."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..urdf.tree import Array
from .robot import Robot


@dataclass(frozen=True, slots=True, eq=False)
class JointPositions:
    """Conversion between configurations and joint positions.

    Attributes:
        at: (n,) index in q of the first entry of each joint.
        turning: (n,) whether a joint is continuous: (cos, sin) in q, an angle within half a turn here.
    """

    at: NDArray[np.intp]
    turning: NDArray[np.bool_]

    @classmethod
    def actuated(cls, robot: Robot) -> JointPositions:
        """Returns the conversion for the actuated joints of a robot, in torque order."""
        endless = {b.joint.name for b in robot.bodies if b.joint is not None and b.joint.type == "continuous"}
        at = np.array([robot.configuration_index(name) for name in robot.actuated], dtype=np.intp)
        return cls(at, np.array([name in endless for name in robot.actuated], dtype=bool))

    def of(self, q: Array) -> Array:
        """Returns positions (..., n) of the joints in configurations q (..., nq) [rad or m]."""
        position = q[..., self.at]
        if self.turning.any():
            at = self.at[self.turning]
            position[..., self.turning] = np.arctan2(q[..., at + 1], q[..., at])
        return position

    def put(self, q: Array, position: Array) -> None:
        """Writes positions (n,) into a configuration q (nq,), in place."""
        if not self.turning.any():
            q[self.at] = position
            return
        plain, turning = ~self.turning, self.turning
        q[self.at[plain]] = position[plain]
        q[self.at[turning]], q[self.at[turning] + 1] = np.cos(position[turning]), np.sin(position[turning])
