"""Natural units of a robot (length, mass, gravity), from which default gains are derived."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pinocchio as pin

from ..robot.robot import Robot

#: Gravity that is used if the model has none [m/s^2].
STANDARD_GRAVITY = 9.80665


@dataclass(frozen=True, slots=True)
class Scales:
    """Natural units of a robot.

    Attributes:
        length: leg length [m]: from the joint that bends the leg to the center of the foot, along the links, of the
            longest leg; for a robot without legs, the reach of its longest limb.
        mass: total mass [kg].
        gravity: magnitude of gravity [m/s^2].
    """

    length: float
    mass: float
    gravity: float

    @property
    def frequency(self) -> float:
        """``sqrt(g / l)`` [rad/s], the natural frequency of a pendulum as long as the leg."""
        return float(np.sqrt(self.gravity / self.length))

    @property
    def torque(self) -> float:
        """``m g l / 4`` [N m], the torque of a quarter of the weight on a lever of one leg length."""
        return 0.25 * self.mass * self.gravity * self.length


def scales(robot: Robot) -> Scales:
    """Computes the natural units of `robot`."""
    gravity = float(np.linalg.norm(robot.model.gravity.linear))
    length = max((_leg_length(robot, name) for name in robot.legs), default=0.0)
    if not length > 0.0:
        length = _limb_length(robot)
    return Scales(length if length > 0.0 else 1.0, robot.mass, gravity if gravity > 0.0 else STANDARD_GRAVITY)


def _leg_length(robot: Robot, name: str) -> float:
    """Returns the length of a leg [m]."""
    data = robot.model.createData()
    robot.algorithms.forwardKinematics(robot.model, data, robot.neutral)
    leg = robot.legs[name]
    joints = leg.joints[1:] if leg.n >= 3 else leg.joints
    points = [data.oMi[robot.model.getJointId(joint)].translation.copy() for joint in joints]
    points.append(pin.updateFramePlacement(robot.model, data, robot.frame_id(name)).translation.copy())
    return float(np.linalg.norm(np.diff(points, axis=0), axis=1).sum())


def _limb_length(robot: Robot) -> float:
    """Returns the longest sum of distances between joints from the base outward [m]."""
    model = robot.model
    reach = np.zeros(model.njoints)
    first = 1 if robot.root == "fixed" else 2
    for i in range(first, model.njoints):
        step = float(np.linalg.norm(model.jointPlacements[i].translation))
        reach[i] = reach[model.parents[i]] + step
    return float(reach.max())
