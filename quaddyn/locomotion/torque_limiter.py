"""`TorqueLimiter`: clamping of torques to the limits of the motors."""

from __future__ import annotations

import numpy as np

from ..control import JointPD
from ..dynamics import State
from ..robot.robot import Robot
from ..urdf.tree import Array
from ..wbc import TorqueLimits
from .morphology import Morphology
from .torque_clamping import MotorParameters, clamp_torques, compute_damping_torques, limit_overspeed

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
    """

    __slots__ = ("_limits", "_motors", "_rated_limits", "max_driven_speed")

    def __init__(self, robot: Robot, morphology: Morphology, dt: float, limits: TorqueLimits | None) -> None:
        p = morphology
        self._limits, self._rated_limits = limits, np.array(robot.effort_limits)
        self.max_driven_speed = MAX_DRIVEN_JOINT_SPEED / p.time_scale
        self._motors = MotorParameters.from_values(
            damping=JointPD(robot, dt=dt).kd,
            velocity_index=robot.actuated_index,
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
        return np.minimum(self.limits, self._motors.default_limit)

    def clamp(self, tau: Array, state: State) -> Array:
        """Returns the torques (nu,) clamped to the limits in a state [N m]."""
        clamped = np.empty(len(tau))
        clamp_torques(self._motors, self.limits, tau, state.writable_coordinates()[1], clamped)
        return clamped

    def limit_overspeed(self, tau: Array, speed: Array) -> Array:
        """Returns the torques (nu,) clamped to the limits at joint speeds (nu,) [N m].

        Args:
            tau: (nu,) torques [N m].
            speed: (nu,) joint velocities [rad/s or m/s].
        """
        clamped = np.empty(len(tau))
        limit_overspeed(self._motors, self.limits, tau, speed, clamped)
        return clamped

    def damping_torque(self, state: State, reference_speed: Array | float = 0.0) -> Array:
        """Computes clamped damping torques (nu,) [N m].

        Args:
            state: present state of the robot.
            reference_speed: (nu,) joint velocities relative to which the joints are damped [rad/s or m/s].
        """
        tau, speed = np.empty(len(self._rated_limits)), np.empty(len(self._rated_limits))
        speed[:] = reference_speed
        compute_damping_torques(self._motors, self.limits, state.writable_coordinates()[1], speed, tau)
        return tau
