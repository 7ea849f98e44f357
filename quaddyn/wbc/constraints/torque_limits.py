"""Constraints of joint torques.

- `TorqueLimits`: joint torques within the limits of the motors.
- `TorqueRate`: bounds of the rate of change of joint torques.
- `MotorLimits`: torque-speed limits of motors, through gears and linkages.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ...compiler import compiled
from ...deprecation import renamed_parameters
from ...errors import ArgumentError
from ...robot.arguments import check_positive
from ...robot.robot import Robot
from ...urdf.tree import Array, frozen
from ..element import ElementKind, Layout, RowCounts, VectorParameter, scales
from ..row_writing import Item, add_torque_bounds
from ..tick import Rows, Tick
from ..tick_data import TickContext
from .constraint import Constraint, check_motor_values

#: Limits from this value on mean "no limit" in robot files [N m].
NO_LIMIT = 1e17


class TorqueLimits(Constraint):
    r"""Joint torques within the limits of the robot.

    .. math::

        |\tau_i| \le \sigma\, \tau_{max,i}

    with sigma the usable fraction of the limits.  Use it on level 0 of every controller.

    Args:
        robot: the robot.
        limits: (nu,) or scalar, largest torques [N m]; ``robot.effort_limits`` if None.
        scale: sigma, fraction of the limits that may be used, dimensionless.
        name: name of the constraint in the controller.

    Attributes:
        limits: (nu,) limits times sigma [N m]; never None; may be set at any time, also entry by entry.
    """

    unit = "N m"
    limits = VectorParameter(minimum=0.0)

    @renamed_parameters(share="scale")
    def __init__(
        self, robot: Robot, *, limits: Array | float | None = None, scale: float = 1.0, name: str = "torque"
    ) -> None:
        super().__init__(name, robot.nu, robot=robot)
        bound = check_motor_values(robot, "limits", robot.effort_limits if limits is None else limits)
        self.limits = bound * check_positive("scale", scale, zero=True)
        self._names = tuple(f"{joint} torque limit" for joint in robot.actuated)

    @classmethod
    def declare_layout(cls, counts: RowCounts) -> Layout:
        """Returns a layout of one parameter and one limit per motor."""
        return Layout(0, counts.nu, limits=counts.nu)

    def row_name(self, contact: str, row: int) -> str:
        """Returns the name of a row for explanations."""
        return self._names[row]


@compiled(inline=False)
def write_torque_limit_rows(item: Item, t: TickContext) -> None:
    """Writes ``|tau_i| <= limit_i``."""
    weight, limits = 1.0 / (t.model.mass * t.model.length), item.parameters
    for i in range(len(t.model.actuated)):
        if limits[i] < NO_LIMIT:
            add_torque_bounds(t, i, -limits[i], limits[i], weight, item.element_index, i)


TorqueLimits.kind = ElementKind(104, write_torque_limit_rows)


class TorqueRate(Constraint):
    r"""Joint torques that change by at most ``rate dt`` from one tick to the next; unbounded on the first tick.

    .. math::

        |\tau_i(t) - \tau_i(t - dt)| \le r_i\, dt

    Use it for robots that work close to their torque limits.  The ramps of contacts move bounds.  Where those bounds
    leave a level above nearly a single solution, the strict optimum traverses the feasible set that they open quickly:
    continuously, but with tens of percent of ``m g l / 4`` in a millisecond.  With a rate of 5 % per millisecond, lower
    levels take longer to converge, and upper levels lose nothing.

    Args:
        robot: the robot.
        rate: (nu,) or scalar [N m/s].
        name: name of the constraint in the controller.

    Attributes:
        rate: (nu,) [N m/s]; may be set at any time, also entry by entry.

    Raises:
        ArgumentError: a rate that is not positive and finite.
    """

    unit = "N m"
    rate = VectorParameter(minimum=0.0)

    def __init__(self, robot: Robot, rate: Array | float, *, name: str = "torque rate") -> None:
        super().__init__(name, robot.nu, robot=robot)
        given = np.asarray(rate, dtype=np.float64)
        if given.shape not in ((), (robot.nu,)) or not (np.isfinite(given).all() and (given > 0.0).all()):
            raise ArgumentError(f"rate: expected a positive number or {robot.nu} positive numbers [N m/s], got {rate}")
        self.rate = given
        self._names = tuple(f"{joint} torque rate" for joint in robot.actuated)

    @classmethod
    def declare_layout(cls, counts: RowCounts) -> Layout:
        """Returns a layout of one parameter and one limit per motor."""
        return Layout(0, counts.nu, limits=counts.nu)

    def row_name(self, contact: str, row: int) -> str:
        """Returns the name of a row for explanations."""
        return self._names[row]


@compiled(inline=False)
def write_torque_rate_rows(item: Item, t: TickContext) -> None:
    """Writes ``|tau_i - previous_i| <= rate_i dt``, from the second tick on."""
    weight, rate = 1.0 / (t.model.mass * t.model.length), item.parameters
    if t.inputs.previous.exists:
        for i in range(len(t.model.actuated)):
            step, previous = rate[i] * t.model.period, t.inputs.previous.torque[i]
            add_torque_bounds(t, i, previous - step, previous + step, weight, item.element_index, i)


TorqueRate.kind = ElementKind(105, write_torque_rate_rows)


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
