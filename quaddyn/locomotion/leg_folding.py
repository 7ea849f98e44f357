"""`LegFolding`: leg motion during a fall, and the folded pose in which a robot lies and gets up."""

from __future__ import annotations

import math

import numpy as np
import pinocchio as pin

from ..compiler import IntVector, Record, Vector, entry
from ..dynamics import State
from ..errors import QuaddynError
from ..robot.home import JointPositions
from ..robot.robot import Robot
from ..urdf.tree import Array
from .morphology import FEET, Morphology
from .torque_limiter import LimitedMotors, TorqueLimiter, clamp_torque
from .velocity_limits import LegPoseSolver

#: Distances of the feet from the trunk in the folded pose, as fractions of those at home; the first feasible one is
#: used.
FOLDED_HEIGHT_FRACTIONS = (0.4, 0.45, 0.5, 0.55, 0.6, 0.7, 0.8)
#: Distance of folded joints from their stops, as a fraction of their range.
JOINT_STOP_MARGIN = 0.03
#: Maximum speed [1/sqrt(l/g)] and time constant [sqrt(l/g)] with which joints fold in a fall.
MAX_FOLDING_SPEED, FOLDING_TIME_CONSTANT = 0.5, 1.0
#: Duration of the folding [sqrt(l/g)].
FOLDING_DURATION = 15.0


class FoldingState(Record):
    """Parameters and state of the folding of the legs."""

    dt: float  # control period [s]
    time_scale: float  # sqrt(l / g) [s]
    q_index: IntVector  # (nu,) first entry in q of each actuated joint
    is_continuous: IntVector  # (nu,) whether a joint is (cos, sin) in q
    has_pose: bool  # whether there is a folded pose; else the joints are damped only
    pose: Vector  # (nu,) folded pose [rad or m], see `folded_pose`
    time: float  # since the beginning of the fall [s]


@entry("folding of the legs")
def compute_folding_torques(folding: FoldingState, motors: LimitedMotors, q: Vector, v: Vector, tau: Vector) -> None:
    """Writes the torques (nu,) of one tick of a fall [N m].

    Args:
        folding: state of the folding; its time is advanced.
        motors: the motors.
        q: (nq,) configuration.
        v: (nv,) velocity.
        tau: (nu,) written.
    """
    folding.time += folding.dt
    is_moving = folding.has_pose and folding.time <= FOLDING_DURATION * folding.time_scale
    max_speed = MAX_FOLDING_SPEED / folding.time_scale
    for i in range(len(tau)):
        at, speed, reference_speed = folding.q_index[i], v[motors.v_index[i]], 0.0
        if is_moving:
            position = math.atan2(q[at + 1], q[at]) if folding.is_continuous[i] != 0 else q[at]
            error = folding.pose[i] - position
            reference_speed = min(max(error / (FOLDING_TIME_CONSTANT * folding.time_scale), -max_speed), max_speed)
        tau[i] = clamp_torque(motors, i, motors.parameters.damping[i] * (reference_speed - speed), speed)


class LegFolding:
    """Controller that folds the legs during a fall with joint damping alone.

    The motors act as dampers (`compute_folding_torques`) with the torque ``d (w - v)`` at a joint velocity v. The
    reference velocity w leads toward the folded pose and is at most ``0.5 / sqrt(l/g)``; it is zero after ``15
    sqrt(l/g)``. The power ``d (w - v) v`` of a motor is at most ``d w^2 / 4``, which is small, and an impact with a
    large ``|v|`` is damped as with ``w = 0``.

    Args:
        robot: a quadruped.
        morphology: lengths and units of the robot.
        limiter: torque limits of its motors.
        dt: control period [s].

    Attributes:
        state: state of the compiled function.
    """

    __slots__ = ("_limiter", "state")

    def __init__(self, robot: Robot, morphology: Morphology, limiter: TorqueLimiter, dt: float) -> None:
        joints, pose = JointPositions.actuated(robot), folded_pose(robot)
        self._limiter = limiter
        self.state = FoldingState.from_values(
            dt=dt,
            time_scale=morphology.time_scale,
            q_index=joints.at,
            is_continuous=joints.turning,
            has_pose=pose is not None,
            pose=np.zeros(robot.nu) if pose is None else pose,
            time=0.0,
        )

    def begin(self) -> None:
        """Starts the folding of the legs."""
        self.state.time = 0.0

    def torques(self, state: State) -> Array:
        """Computes the joint torques (nu,) of one tick of a fall [N m]."""
        (q, v), tau = state.writable_coordinates(), np.empty(len(self.state.pose))
        compute_folding_torques(self.state, self._limiter.motors, q, v, tau)
        return tau


def folded_pose(robot: Robot) -> Array | None:
    """Computes the folded pose (nu,): each foot below its home position, but nearer to the trunk [rad or m].

    The distance is the first of `FOLDED_HEIGHT_FRACTIONS` that the joint limits allow with a margin.  Joints that do
    not belong to legs stay at home.  Returns None for legs whose kinematics are not supported, or which cannot fold.

    Args:
        robot: a quadruped.
    """
    try:
        poses = LegPoseSolver(robot)
    except QuaddynError:
        return None
    joints, home = JointPositions.actuated(robot), np.array(robot.q_home)
    up = pin.Quaternion(home[3:7]).toRotationMatrix()[2]
    low, high = folding_ranges(robot)
    for fraction in FOLDED_HEIGHT_FRACTIONS:
        q, is_reached = home.copy(), True
        for foot in FEET:
            kinematics = poses.legs[foot]
            foot_position = kinematics.forward(
                np.array([home[robot.configuration_index(j)] for j in kinematics.joints])
            )
            is_reached = is_reached and poses.place_foot(
                q, foot, foot_position - (1.0 - fraction) * float(foot_position @ up) * up
            )
        position = joints.of(q)
        if is_reached and (position >= low).all() and (position <= high).all():
            return position
    return None


def folding_ranges(robot: Robot) -> tuple[Array, Array]:
    """Returns lowest and highest joint positions (nu,) with a margin to the stops [rad or m].

    They are within half a turn of home.  Where home is nearer to a stop than the margin, home is the bound.

    Args:
        robot: a quadruped.
    """
    joints, model = JointPositions.actuated(robot), robot.model
    home = joints.of(np.array(robot.q_home))
    low = np.where(joints.turning, -np.inf, model.lowerPositionLimit[joints.at])
    high = np.where(joints.turning, np.inf, model.upperPositionLimit[joints.at])
    low, high = np.maximum(low, home - np.pi), np.minimum(high, home + np.pi)
    margin = JOINT_STOP_MARGIN * (high - low)
    return np.minimum(low + margin, home), np.maximum(high - margin, home)
