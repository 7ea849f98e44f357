"""`MotorGuard`: torques that motors may be sent, whatever was computed."""

from __future__ import annotations

import numpy as np

from ..control import JointPD
from ..dynamics import State
from ..robot.robot import Robot
from ..urdf.tree import Array
from ..wbc import TorqueLimits
from .proportions import Proportions

#: Joint speed that no motor adds to [1/sqrt(l/g)], about twice that of a trot: feet that lose the ground, and legs that
#: are nearly straight, would be hurled.
RACING = 6.0
#: Largest torque of a motor [m g l], of those whose limits are no limits.
HEAVY = 1.0


class MotorGuard:
    """Torques within the motors' limits, which an infeasible tick of whole-body control may violate.

    Where a joint races, its motor no longer adds to its speed, and brakes what is beyond.

    Args:
        robot: a quadruped.
        proportions: of the robot.
        dt: [s].
        limits: whose `limits` (nu,) hold at present [N m]; None for those of the robot.
    """

    __slots__ = ("_damping", "_heavy", "_index", "_limits", "_own", "racing")

    def __init__(self, robot: Robot, proportions: Proportions, dt: float, limits: TorqueLimits | None) -> None:
        p = proportions
        self._damping, self._index = JointPD(robot, dt=dt).kd, robot.actuated_index
        self._limits, self._own = limits, robot.effort_limits
        self._heavy, self.racing = HEAVY * p.mass * p.gravity * p.length, RACING / p.time

    @property
    def limits(self) -> Array:
        """(nu,) of the motors at present [N m]."""
        return self._own if self._limits is None else self._limits.limits

    @property
    def most(self) -> Array:
        """(nu,) largest torques that are sent [N m]."""
        return np.minimum(self.limits, self._heavy)

    def within(self, tau: Array, state: State) -> Array:
        """The torques (nu,) cut to what motors may be sent [N m]."""
        return self.cut(tau, state.v[self._index])

    def cut(self, tau: Array, speed: Array) -> Array:
        """The torques (nu,) cut to what motors at these speeds (nu,) may be sent [N m]."""
        limits = self.most
        tau = np.minimum(np.maximum(tau, -limits), limits)
        over = np.abs(speed) - self.racing
        if over.max() <= 0.0:
            return tau
        braking = -np.sign(speed) * self._damping * over
        cut = np.where(speed > 0.0, np.minimum(tau, braking), np.maximum(tau, braking))
        return np.minimum(np.maximum(np.where(over > 0.0, cut, tau), -limits), limits)

    def damped(self, state: State, moving: Array | float = 0.0) -> Array:
        """Torques (nu,) of dampers between the joints and what moves at these speeds (nu,) [N m]; nothing does: 0."""
        return self.within(self._damping * (moving - state.v[self._index]), state)
