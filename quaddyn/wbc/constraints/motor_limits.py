"""`MotorLimits`: torques that motors can give at the speeds that they have, through gears and linkages."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ...errors import ArgumentError
from ...robot.robot import Robot
from ...urdf.tree import Array, frozen
from ..scales import scales
from ..tick import Rows, Tick
from .constraint import Constraint, per_motor

#: Relative, what keeps the torques of a linkage at a dead point finite.
DEAD = 1e-9
#: Width of a torque-speed line without a corner [rad/s].
SHARP = 1e-9


class MotorLimits(Constraint):
    r"""Torques within what each motor can give at its speed.

    With the motors' speeds :math:`w = A(q)\,v` at the actuated joints' velocities, `Motors.matrix`, and from equal
    power :math:`\tau = A^T \tau_m`,

    .. math::

        -\sigma(-w_i)\, \tau_{max,i} \le (A^{-T} \tau)_i \le \sigma(w_i)\, \tau_{max,i}, \qquad
        \sigma(w) = \min\Big(1, \max\Big(0, \frac{w_0 - w}{w_0 - w_c}\Big)\Big)

    with the no-load speed :math:`w_0` and the corner speed :math:`w_c`: a motor drives with all its torque up to the
    corner, with none from the no-load speed on, and brakes with all of it at any speed, as `Actuators` of a plant do at
    the joints.  Limits of joints, `TorqueLimits`, hold besides.  At a dead point of a linkage, where its motor gives
    its joint no torque, the joint's torque is zero.

    Rows are computed with NumPy; controllers with them are not exported to C.

    Args:
        robot: the robot, whose `Robot.motors` count.
        effort: (nu,) or scalar, largest torques of the motors [N m].
        no_load_speed: (nu,) or scalar, at which no torque drives any more [rad/s]; none by default.
        corner_speed: (nu,) or scalar, up to which all of it does [rad/s]; the no-load speed by default.
        name: by which the controller knows it.

    Attributes:
        motors: of the robot.
        effort, no_load_speed, corner_speed: (nu,) as given.

    Raises:
        ArgumentError: numbers that are negative or of another shape, or a corner beyond the no-load speed.
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
        self.effort = frozen(per_motor(robot, "effort", effort))
        self.no_load_speed = frozen(per_motor(robot, "no_load_speed", no_load_speed))
        corner = self.no_load_speed if corner_speed is None else per_motor(robot, "corner_speed", corner_speed)
        if (corner > self.no_load_speed).any():
            raise ArgumentError(f"corner_speed: {corner_speed!r} is beyond the no-load speed {no_load_speed!r}")
        self.corner_speed = frozen(corner)
        limited = np.isfinite(self.no_load_speed)
        self._end = np.where(limited, self.no_load_speed, np.inf)
        self._fall = np.where(limited, np.maximum(self.no_load_speed - np.where(limited, corner, 0.0), SHARP), 1.0)
        unit = scales(robot)
        self._weight = 1.0 / (unit.mass * unit.length)
        self._names = tuple(f"motor of {joint}" for joint in self.motors.joints)

    def bounds(self, speeds: Array) -> tuple[Array, Array]:
        """(nu,) least and largest torques of the motors [N m] at these speeds (nu,) [rad/s]."""
        ahead, back = ((np.clip((self._end - w) / self._fall, 0.0, 1.0)) for w in (speeds, -speeds))
        return -back * self.effort, ahead * self.effort

    def rows(self, tick: Tick) -> list[Rows]:
        """One row for each motor."""
        s = tick.state
        A = self.motors.matrix(s.q)
        low, high = self.bounds(A @ s.v[self._index])
        here = np.isfinite(low) | np.isfinite(high)
        u, sizes, vt = np.linalg.svd(A.T)
        B = (vt.T / np.maximum(sizes, DEAD * sizes[0])) @ u.T
        weights = self._weight / np.linalg.norm(B, axis=1)
        names = tuple(name for name, there in zip(self._names, here, strict=True) if there)
        return [Rows(names, "N m", low[here], high[here], torque=B[here], weights=weights[here])]
