"""`TorqueLimiter`: clamping of torques to the limits of the motors."""

from __future__ import annotations

import numpy as np

from ..compiler import Record, Vector, compiled, entry
from ..control import JointPD
from ..dynamics import State
from ..robot.robot import Robot
from ..urdf.tree import Array
from ..wbc import TorqueLimits
from .morphology import Morphology


class MotorParameters(Record):
    """Damping, speed limit and default torque limit of the motors."""

    damping: Vector  # (nu,) of a joint that brakes [N m s/rad or N s/m]
    max_driven_speed: float  # joint speed above which a motor only brakes [rad/s or m/s]
    default_limit: float  # maximum torque of motors without a meaningful limit [N m]


@compiled()
def clamp_torque(motors: MotorParameters, limit: float, i: int, tau: float, speed: float) -> float:
    """Returns the torque of a motor [N m], clamped to its limit; above the maximum driven speed it brakes.

    Args:
        motors: parameters of the motors.
        limit: torque limit of the motor [N m].
        i: index of the motor.
        tau: torque [N m].
        speed: joint velocity [rad/s or m/s].
    """
    max_torque = min(limit, motors.default_limit)
    torque, excess_speed = min(max(tau, -max_torque), max_torque), abs(speed) - motors.max_driven_speed
    if excess_speed > 0.0:
        braking = motors.damping[i] * excess_speed
        torque = min(torque, -braking) if speed > 0.0 else max(torque, braking)
    return min(max(torque, -max_torque), max_torque)


@entry("clamping of torques")
def clamp_torques(motors: MotorParameters, limits: Vector, tau: Vector, speed: Vector, clamped: Vector) -> None:
    """Writes the torques (nu,) clamped to the limits at joint velocities (nu,) [N m].

    Args:
        motors: parameters of the motors.
        limits: (nu,) torque limits [N m].
        tau: (nu,) torques [N m].
        speed: (nu,) joint velocities [rad/s or m/s].
        clamped: (nu,) written; may be `tau`.
    """
    for i in range(len(tau)):
        clamped[i] = clamp_torque(motors, limits[i], i, tau[i], speed[i])


@entry("clamping of torques")
def compute_damping_torques(motors: MotorParameters, limits: Vector, speed: Vector, tau: Vector) -> None:
    """Writes clamped damping torques (nu,) [N m].

    Args:
        motors: parameters of the motors.
        limits: (nu,) torque limits [N m].
        speed: (nu,) joint velocities [rad/s or m/s].
        tau: (nu,) written.
    """
    for i in range(len(tau)):
        tau[i] = clamp_torque(motors, limits[i], i, -motors.damping[i] * speed[i], speed[i])


#: Joint speed above which motors only brake [1/sqrt(l/g)], about twice that of a trot: it bounds the speed of feet that
#: lose the ground and of legs that are nearly straight.
MAX_DRIVEN_JOINT_SPEED = 6.0
#: Maximum torque of motors without a meaningful limit [m g l].
DEFAULT_TORQUE_LIMIT = 1.0


class TorqueLimiter:
    """Limiter of motor torques, which an infeasible tick of the whole-body controller may exceed.

    Above the maximum driven speed of a joint its motor no longer accelerates it, but brakes it.

    Args:
        robot: a quadruped.
        morphology: lengths and units of the robot.
        dt: control period [s].
        limits: torque limits of the whole-body controller; None for those of the robot.

    Attributes:
        max_driven_speed: joint speed above which a motor only brakes [rad/s or m/s].
        motors: parameters of the motors.
    """

    __slots__ = ("_index", "_limits", "_rated_limits", "max_driven_speed", "motors")

    def __init__(self, robot: Robot, morphology: Morphology, dt: float, limits: TorqueLimits | None) -> None:
        p = morphology
        self._limits, self._rated_limits, self._index = limits, np.array(robot.effort_limits), robot.actuated_index
        self.max_driven_speed = MAX_DRIVEN_JOINT_SPEED / p.time_scale
        self.motors = MotorParameters.from_values(
            damping=JointPD(robot, dt=dt).kd,
            max_driven_speed=self.max_driven_speed,
            default_limit=DEFAULT_TORQUE_LIMIT * p.mass * p.gravity * p.length,
        )

    @property
    def limits(self) -> Array:
        """(nu,) present torque limits of the motors [N m]."""
        return self._rated_limits if self._limits is None else self._limits.limits

    @property
    def max_torque(self) -> Array:
        """(nu,) maximum torques that are commanded [N m]."""
        return np.minimum(self.limits, self.motors.default_limit)

    def clamp(self, tau: Array, state: State) -> Array:
        """Returns the torques (nu,) clamped to the limits in a state [N m]."""
        return self.limit_overspeed(tau, state.writable_coordinates()[1][self._index])

    def limit_overspeed(self, tau: Array, speed: Array) -> Array:
        """Returns the torques (nu,) clamped to the limits at joint speeds (nu,) [N m].

        Args:
            tau: (nu,) torques [N m].
            speed: (nu,) joint velocities [rad/s or m/s].
        """
        clamped = np.empty(len(tau))
        clamp_torques(self.motors, self.limits, tau, speed, clamped)
        return clamped

    def damping_torque(self, state: State) -> Array:
        """Computes clamped damping torques (nu,) in a state [N m]."""
        speed, tau = state.writable_coordinates()[1][self._index], np.empty(len(self._rated_limits))
        compute_damping_torques(self.motors, self.limits, speed, tau)
        return tau
