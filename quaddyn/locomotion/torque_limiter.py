"""`TorqueLimiter`: clamping of torques to the limits of the motors."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..compiler import IntVector, Record, Vector, compiled, entry
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


class LimitedMotors(NamedTuple):
    """The motors of a robot with their present torque limits."""

    parameters: MotorParameters
    limits: Vector  # (nu,) torque limits [N m]
    v_index: IntVector  # (nu,) index of each joint among the velocities


#: Fraction of its limit from which a torque is at the limit.
SATURATED_FRACTION = 0.99


@compiled()
def clamp_torque(motors: LimitedMotors, i: int, tau: float, speed: float) -> float:
    """Returns the torque of a motor [N m], clamped to its limit; above the maximum driven speed it brakes.

    Args:
        motors: the motors.
        i: index of the motor.
        tau: torque [N m].
        speed: joint velocity [rad/s or m/s].
    """
    p = motors.parameters
    max_torque: float = min(motors.limits[i], p.default_limit)
    torque, excess_speed = min(max(tau, -max_torque), max_torque), abs(speed) - p.max_driven_speed
    if excess_speed > 0.0:
        braking = p.damping[i] * excess_speed
        torque = min(torque, -braking) if speed > 0.0 else max(torque, braking)
    return min(max(torque, -max_torque), max_torque)


@entry("clamping of torques")
def clamp_torques(motors: LimitedMotors, tau: Vector, v: Vector, clamped: Vector) -> None:
    """Writes the torques (nu,) clamped to the limits at a velocity v [N m].

    Args:
        motors: the motors.
        tau: (nu,) torques [N m].
        v: velocity, of which the entries `LimitedMotors.v_index` are the joint velocities [rad/s or m/s].
        clamped: (nu,) written; may be `tau`.
    """
    for i in range(len(tau)):
        clamped[i] = clamp_torque(motors, i, tau[i], v[motors.v_index[i]])


@compiled()
def has_saturated_torque(motors: LimitedMotors, tau: Vector) -> bool:
    """Returns whether one of the torques (nu,) [N m] is at the limit of its motor."""
    for i in range(len(tau)):
        if abs(tau[i]) >= SATURATED_FRACTION * min(motors.limits[i], motors.parameters.default_limit):
            return True
    return False


@entry("clamping of torques")
def compute_damping_torques(motors: LimitedMotors, v: Vector, tau: Vector) -> None:
    """Writes clamped damping torques (nu,) at a velocity v [N m]; see `clamp_torques`."""
    for i in range(len(tau)):
        speed = v[motors.v_index[i]]
        tau[i] = clamp_torque(motors, i, -motors.parameters.damping[i] * speed, speed)


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
        element: the torque limits of the whole-body controller; None for those of the robot.
    """

    __slots__ = ("_block", "_clamp", "_index", "_parameters", "_rated_limits", "element", "max_driven_speed")

    def __init__(self, robot: Robot, morphology: Morphology, dt: float, limits: TorqueLimits | None) -> None:
        p = morphology
        self.element, self._rated_limits = limits, np.array(robot.effort_limits)
        self._index = np.array(robot.actuated_index, dtype=np.int64)
        self.max_driven_speed = MAX_DRIVEN_JOINT_SPEED / p.time_scale
        self._parameters = MotorParameters.from_values(
            damping=JointPD(robot, dt=2.0 * dt).kd,  # stable also if torques take effect a period late
            max_driven_speed=self.max_driven_speed,
            default_limit=DEFAULT_TORQUE_LIMIT * p.mass * p.gravity * p.length,
        )
        # Function that clamps to the present limits, and the parameter array that contains these limits.
        self._clamp: Callable[..., None] | None = None
        self._block: Array | None = None

    @property
    def limits(self) -> Array:
        """(nu,) present torque limits of the motors [N m]."""
        return self._rated_limits if self.element is None else self.element.limits

    @property
    def motors(self) -> LimitedMotors:
        """The motors with their present limits, for compiled code."""
        return LimitedMotors(self._parameters, self.limits, self._index)

    @property
    def max_torque(self) -> Array:
        """(nu,) maximum torques that are commanded [N m]."""
        return np.minimum(self.limits, self._parameters.default_limit)

    def _bind_clamp(self) -> Callable[..., None]:
        """Returns the function that clamps to the present limits."""
        block = None if self.element is None else self.element.block
        if self._clamp is None or block is not self._block:
            self._clamp, self._block = clamp_torques.bind(self.motors), block
        return self._clamp

    def clamp(self, tau: Array, state: State) -> Array:
        """Returns the torques (nu,) clamped to the limits in a state [N m]."""
        clamped = np.empty(len(tau))
        self._bind_clamp()(tau, state.writable_coordinates()[1], clamped)
        return clamped

    def limit_overspeed(self, tau: Array, speed: Array) -> Array:
        """Returns the torques (nu,) clamped to the limits at joint speeds (nu,) [N m].

        Args:
            tau: (nu,) torques [N m].
            speed: (nu,) joint velocities [rad/s or m/s].
        """
        clamped = np.empty(len(tau))
        clamp_torques(self.motors._replace(v_index=np.arange(len(tau))), tau, speed, clamped)
        return clamped
