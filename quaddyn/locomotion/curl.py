"""`Curl`: what legs do in a fall, and the pose in which a robot lies and gets up."""

from __future__ import annotations

import numpy as np
import pinocchio as pin

from ..dynamics import State
from ..errors import QuaddynError
from ..robot.joint_positions import JointPositions
from ..robot.robot import Robot
from ..urdf.tree import Array
from .motor_guard import MotorGuard
from .poses import Poses
from .proportions import FEET, Proportions

#: Feet of a folded leg are so near to the trunk, as shares of their distance at home; the first that joints allow.
FOLDS = (0.4, 0.45, 0.5, 0.55, 0.6, 0.7, 0.8)
#: How far a folded joint keeps from its stops, as a share of its range.
AWAY = 0.03
#: How fast joints fold in a fall at most, and in which time they go to their place [1/sqrt(l/g), sqrt(l/g)].
SPEED, TIME = 0.5, 1.0
#: How long they do [sqrt(l/g)].
LASTING = 15.0


class Curl:
    """Joints that are folded, by dampers alone, while the robot falls.

    The motors are dampers (`MotorGuard.damped`) against a frame that moves towards the folded pose, no faster than
    ``0.5 / sqrt(l/g)``.  A damper d against a frame that moves at w gives a joint the power ``d (w - v) v``, so
    ``d w^2 / 4`` at most, which is little; it takes power as a damper to rest does.  After ``15 sqrt(l/g)`` they are
    dampers to rest.

    Args:
        robot: a quadruped.
        proportions: of the robot.
        guard: of its motors.
        dt: [s].

    Attributes:
        pose: (nu,) of the folded robot [rad or m], see `folded`; None where its legs' kinematics are refused: it damps.
    """

    __slots__ = ("_dt", "_guard", "_joints", "_p", "_time", "pose")

    def __init__(self, robot: Robot, proportions: Proportions, guard: MotorGuard, dt: float) -> None:
        self._p, self._guard, self._dt = proportions, guard, dt
        self._joints, self.pose = JointPositions.actuated(robot), folded(robot)
        self.begin()

    def begin(self) -> None:
        """A fall begins."""
        self._time = 0.0

    def torques(self, state: State) -> Array:
        """(nu,) of a tick of a fall [N m]."""
        unit = self._p.time
        self._time += self._dt
        if self.pose is None or self._time > LASTING * unit:
            return self._guard.damped(state)
        most = SPEED / unit
        way = (self.pose - self._joints.of(state.q)) / (TIME * unit)
        return self._guard.damped(state, np.minimum(np.maximum(way, -most), most))


def folded(robot: Robot) -> Array | None:
    """(nu,) joints with each foot where it is at home, seen from above, but nearer to the trunk [rad or m].

    As near as joint limits allow with some room to the stops; 0.4 of the height below the base at home at least.  What
    is no leg is as at home.  None for legs whose kinematics are refused, or which cannot fold at all.
    """
    try:
        poses = Poses(robot)
    except QuaddynError:
        return None
    joints, home = JointPositions.actuated(robot), np.array(robot.q_home)
    up = pin.Quaternion(home[3:7]).toRotationMatrix()[2]
    low, high = ranges(robot)
    for share in FOLDS:
        q, reached = home.copy(), True
        for foot in FEET:
            kinematics = poses.legs[foot]
            place = kinematics.forward(np.array([home[robot.configuration_index(j)] for j in kinematics.joints]))
            reached = reached and poses.put(q, foot, place - (1.0 - share) * float(place @ up) * up)
        position = joints.of(q)
        if reached and (position >= low).all() and (position <= high).all():
            return position
    return None


def ranges(robot: Robot) -> tuple[Array, Array]:
    """(nu,) lowest and highest positions that keep away from the stops [rad or m], no more than half a turn from home.

    Where home itself is nearer to a stop than that, home is the bound.
    """
    joints, model = JointPositions.actuated(robot), robot.model
    home = joints.of(np.array(robot.q_home))
    low = np.where(joints.turning, -np.inf, model.lowerPositionLimit[joints.at])
    high = np.where(joints.turning, np.inf, model.upperPositionLimit[joints.at])
    low, high = np.maximum(low, home - np.pi), np.minimum(high, home + np.pi)
    room = AWAY * (high - low)
    return np.minimum(low + room, home), np.maximum(high - room, home)
