"""`MotorLimits`: torque-speed limits of motors, through gears and linkages."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ...errors import ArgumentError
from ...robot.robot import Robot
from ...urdf.tree import Array, frozen
from ..scales import scales
from ..tick import Rows, Tick
from .constraint import Constraint, check_motor_values

#: Smallest singular value of a linkage, relative to the largest: keeps its torques finite at a dead point.
DEAD_POINT_TOLERANCE = 1e-9
#: Smallest difference of no-load speed and corner speed [rad/s].
MIN_SPEED_RANGE = 1e-9


class MotorLimits(Constraint):
    r"""Joint torques within the torque that each motor can deliver at its speed.

    With the motor speeds :math:`w = A(q)\,v` (`Motors.matrix`, v the velocities of the actuated joints), and from equal
    power :math:`\tau = A^T \tau_m`,

    .. math::

        -\sigma(-w_i)\, \tau_{max,i} \le (A^{-T} \tau)_i \le \sigma(w_i)\, \tau_{max,i}, \qquad
        \sigma(w) = \min\Big(1, \max\Big(0, \frac{w_0 - w}{w_0 - w_c}\Big)\Big)

    with the no-load speed :math:`w_0` and the corner speed :math:`w_c`.  A motor drives with full torque up to the
    corner speed and with none from the no-load speed on, and brakes with full torque at any speed, like `Actuators` of
    a simulated plant.  Limits of joint torques, `TorqueLimits`, apply in addition.  At a dead point of a linkage, where
    the motor transmits no torque to the joint, the joint torque is zero.

    Use it on level 0 for robots with linkages, or for fast motions.  Rows are computed with NumPy; controllers with
    this constraint cannot be exported to C.

    Args:
        robot: the robot, with its `Robot.motors`.
        effort: (nu,) or scalar, largest motor torques [N m].
        no_load_speed: (nu,) or scalar, speed at which the driving torque is zero [rad/s]; unlimited by default.
        corner_speed: (nu,) or scalar, speed up to which the full torque is available [rad/s]; the no-load speed if
            None.
        name: name of the constraint in the controller.

    Attributes:
        motors: motors of the robot.
        effort: (nu,) largest motor torques [N m].
        no_load_speed: (nu,) [rad/s].
        corner_speed: (nu,) [rad/s], the no-load speed if None was given.

    Raises:
        ArgumentError: numbers that are negative or of another shape, or a corner speed above the no-load speed.
        ModelError: as `Robot.motors`.
    """

    unit = "N m"

    def __init__(
        self,
        robot: Robot,
        effort: ArrayLike,
        *,
        no_load_speed: ArrayLike = np.inf,
        corner_speed: ArrayLike | None = None,
        name: str = "motors",
    ) -> None:
        super().__init__(name, robot=robot)
        self.motors, self._index = robot.motors, robot.actuated_index
        self.effort = frozen(check_motor_values(robot, "effort", effort))
        self.no_load_speed = frozen(check_motor_values(robot, "no_load_speed", no_load_speed))
        corner = self.no_load_speed if corner_speed is None else check_motor_values(robot, "corner_speed", corner_speed)
        if (corner > self.no_load_speed).any():
            raise ArgumentError(
                f"corner_speed: expected at most the no-load speed {no_load_speed!r}, got {corner_speed!r}"
            )
        self.corner_speed = frozen(corner)
        limited = np.isfinite(self.no_load_speed)
        self._end_speed = np.where(limited, self.no_load_speed, np.inf)
        self._speed_range = np.where(
            limited, np.maximum(self.no_load_speed - np.where(limited, corner, 0.0), MIN_SPEED_RANGE), 1.0
        )
        unit = scales(robot)
        self._weight = 1.0 / (unit.mass * unit.length)
        self._names = tuple(f"motor of {joint}" for joint in self.motors.joints)

    def bounds(self, speeds: Array) -> tuple[Array, Array]:
        """Returns (nu,) smallest and largest motor torques [N m] at the motor speeds (nu,) [rad/s]."""
        forward, backward = ((np.clip((self._end_speed - w) / self._speed_range, 0.0, 1.0)) for w in (speeds, -speeds))
        return -backward * self.effort, forward * self.effort

    def rows(self, tick: Tick) -> list[Rows]:
        """Returns one row per motor."""
        s = tick.state
        A = self.motors.matrix(s.q)
        low, high = self.bounds(A @ s.v[self._index])
        is_limited = np.isfinite(low) | np.isfinite(high)
        u, sizes, vt = np.linalg.svd(A.T)
        B = (vt.T / np.maximum(sizes, DEAD_POINT_TOLERANCE * sizes[0])) @ u.T
        weights = self._weight / np.linalg.norm(B, axis=1)
        names = tuple(name for name, limited in zip(self._names, is_limited, strict=True) if limited)
        return [
            Rows(names, "N m", low[is_limited], high[is_limited], torque=B[is_limited], weights=weights[is_limited])
        ]
