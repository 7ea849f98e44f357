"""`TorqueLimiter`: clamping of torques to the limits of the motors."""

from __future__ import annotations

import numpy as np

from ..control import JointPD
from ..dynamics import State
from ..robot.robot import Robot
from ..urdf.tree import Array
from ..wbc import TorqueLimits
from .morphology import Morphology

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

    __slots__ = ("_damping", "_default_limit", "_index", "_limits", "_rated_limits", "max_driven_speed")

    def __init__(self, robot: Robot, morphology: Morphology, dt: float, limits: TorqueLimits | None) -> None:
        p = morphology
        self._damping, self._index = JointPD(robot, dt=dt).kd, robot.actuated_index
        self._limits, self._rated_limits = limits, robot.effort_limits
        self._default_limit, self.max_driven_speed = (
            DEFAULT_TORQUE_LIMIT * p.mass * p.gravity * p.length,
            MAX_DRIVEN_JOINT_SPEED / p.time_scale,
        )

    @property
    def limits(self) -> Array:
        """(nu,) present torque limits of the motors [N m]."""
        return self._rated_limits if self._limits is None else self._limits.limits

    @property
    def max_torque(self) -> Array:
        """(nu,) maximum torques that are commanded [N m]."""
        return np.minimum(self.limits, self._default_limit)

    def clamp(self, tau: Array, state: State) -> Array:
        """Returns the torques (nu,) clamped to the limits in a state [N m]."""
        return self.limit_overspeed(tau, state.v[self._index])

    def limit_overspeed(self, tau: Array, speed: Array) -> Array:
        """Returns the torques (nu,) clamped to the limits at joint speeds (nu,) [N m].

        Args:
            tau: (nu,) torques [N m].
            speed: (nu,) joint velocities [rad/s or m/s].
        """
        limits = self.max_torque
        tau = np.minimum(np.maximum(tau, -limits), limits)
        excess_speed = np.abs(speed) - self.max_driven_speed
        if excess_speed.max() <= 0.0:
            return tau
        braking = -np.sign(speed) * self._damping * excess_speed
        limited = np.where(speed > 0.0, np.minimum(tau, braking), np.maximum(tau, braking))
        return np.minimum(np.maximum(np.where(excess_speed > 0.0, limited, tau), -limits), limits)

    def damping_torque(self, state: State, reference_speed: Array | float = 0.0) -> Array:
        """Computes clamped damping torques (nu,) [N m].

        Args:
            state: present state of the robot.
            reference_speed: (nu,) joint velocities relative to which the joints are damped [rad/s or m/s].
        """
        return self.clamp(self._damping * (reference_speed - state.v[self._index]), state)
