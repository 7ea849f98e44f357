"""Explicit force control: feed-forward and PI control of a measured contact force."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike

from ..contact.solvers.problem import NOMINAL_FRICTION
from ..deprecation import renamed_attributes, renamed_parameters
from ..dynamics import State
from ..errors import ArgumentError
from ..robot.arguments import check_positive, check_vector
from ..robot.robot import Robot
from ..strict_attributes import StrictAttributes, ValidatedAttribute
from ..urdf.tree import Array
from .cartesian_task import CartesianTask, check_magnitude
from .gains import as_gain_vector, check_fraction
from .impedance import select_stance_feet
from .null_space_posture import NullSpacePosture, check_null_space
from .operational_space import compute_operational_space
from .task_torque import TaskTorque, make_task_torque


@renamed_attributes(command="compute", learn="integrate", limit="integral_limit")
class ForceRegulator(StrictAttributes, fixed=("size",)):
    """Feed-forward plus PI on a measured force, with anti-windup: ``u = f* + kp (f* - f) + ki int (f* - f) dt``.

    The integral is clamped, and it is not updated while the caller reports saturated motors.  The gains, the limit and
    the period are attributes, too, and may be set.

    Args:
        size: number of force components.
        kp: proportional gain, dimensionless.
        ki: integral gain [1/s].
        integral_limit: (size,) or scalar bound of the integral's contribution [N, N m]; None for the magnitude of the
            target force, component by component.
        dt: period of the control loop [s].

    Attributes:
        integral: (size,) contribution of the integral to u [N, N m].

    Raises:
        ArgumentError: a value out of range.
    """

    kp = ValidatedAttribute[float, float](lambda self, value: check_positive("kp", value, zero=True))
    ki = ValidatedAttribute[float, float](lambda self, value: check_positive("ki", value, zero=True))
    dt = ValidatedAttribute[float, float](lambda self, value: check_positive("dt", value))
    integral_limit = ValidatedAttribute[ArrayLike | None, Array | None](
        lambda self, value: None if value is None else as_gain_vector("integral_limit", value, self.size)
    )

    @renamed_parameters(limit="integral_limit")
    def __init__(self, size: int, *, kp: float, ki: float, integral_limit: ArrayLike | None, dt: float) -> None:
        self.size = size
        self.kp, self.ki, self.dt, self.integral_limit = kp, ki, dt, integral_limit
        self.integral = np.zeros(size)

    def reset(self) -> None:
        """Sets the integral to zero."""
        self.integral = np.zeros(self.size)

    @renamed_parameters(wanted="target")
    def compute(self, target: Array, measured: Array | None) -> Array:
        """Returns the force u (size,) [N, N m].

        Args:
            target: (size,) target force f* [N, N m].
            measured: (size,) measured force f [N, N m]; None without a sensor, for the feed-forward alone.
        """
        if measured is None:
            return target.copy()
        return np.asarray(target + self.kp * (target - measured) + self.integral)

    @renamed_parameters(wanted="target")
    def integrate(self, target: Array, measured: Array | None, *, saturated: bool) -> None:
        """Advances the integral by one period, unless the motors are saturated or there is no measurement.

        Args:
            target: (size,) target force f* [N, N m].
            measured: (size,) measured force f [N, N m]; None without a sensor.
            saturated: true if motors are saturated.
        """
        if measured is None or saturated:
            return
        limit = np.abs(target) if self.integral_limit is None else self.integral_limit
        self.integral = np.clip(self.integral + self.ki * self.dt * (target - measured), -limit, limit)


def check_forces(name: str, value: ArrayLike, rows: tuple[str, ...]) -> Array:
    """Returns the value as an array; raises `ArgumentError` unless it has one finite, bounded force per row."""
    return check_magnitude(name, check_vector(name, value, (len(rows),), f"one per row {rows}"))


class ForceControl(StrictAttributes, fixed=("task", "robot", "frame", "rows", "regulator", "null_space")):
    r"""Force control along the rows of a frame, with joint damping in all other directions.

    Forces are those *on the robot*.  The load on the actuators is ``g(q) - J^T (u + Lambda damping_rate rate)``, with u
    from `ForceRegulator` with the gains of `HybridControl`.  Without a sensor, u is the target force f* and the loop is
    passive: with y the rows' coordinates and the storage

    .. math::

        V = \tfrac{1}{2} v^\top M v + f^\star \cdot y, \qquad
        \dot V = -\rho\, \dot y^\top \Lambda\, \dot y - |N v|^2_{K_d} + P_{ext}

    with rho the damping rate and P_ext the power of external forces; an elastic surface adds its own energy to V.  To
    control also the frame's position perpendicular to the force, use `HybridControl`.

    Source: Whitney 1987, "Historical perspective and state of the art in robot force control", explicit force control.

    Args:
        robot: any robot.
        frame: name of a foot, link or joint.
        rows: names of the force rows; None for the linear ones that can move.
        axes: (3, 3) rotation whose columns are the axes of the rows in world axes; None for the world's axes.
        kp: proportional gain of the force error, dimensionless.
        ki: integral gain of the force error [1/s].
        integral_limit: (k,) or scalar bound of the integral's contribution [N]; None for the magnitude of the target
            force.
        damping_rate: rate at which the velocity along the rows is damped [1/s].
        null_space: joint damping, and a posture if it has one, in the null space of the task; None for damping alone.
        singular_tolerance: task-space mobilities below this fraction of the largest are raised to it.
        dt: period of the control loop [s].

    Attributes:
        robot, frame, rows: as given, or their defaults.
        regulator: the `ForceRegulator`, with its integral.

    Raises:
        UnknownNameError: no such frame.
        ArgumentError: rows, axes, gains or another argument out of range; the message names it.
    """

    damping_rate = ValidatedAttribute[float, float](
        lambda self, value: check_positive("damping_rate", value, zero=True)
    )
    singular_tolerance = ValidatedAttribute[float, float](
        lambda self, value: check_fraction("singular_tolerance", value)
    )

    def __init__(
        self,
        robot: Robot,
        frame: str,
        *,
        rows: Iterable[str] | None = None,
        axes: Array | None = None,
        kp: float = 0.0,
        ki: float = 10.0,
        integral_limit: ArrayLike | None = None,
        damping_rate: float = 100.0,
        null_space: NullSpacePosture | None = None,
        singular_tolerance: float = 1e-4,
        dt: float = 1e-3,
    ) -> None:
        self.task = CartesianTask(robot, frame, rows, axes=axes)
        if any(self.task.is_angular):
            raise ArgumentError(f"rows: expected linear rows, got {self.task.rows}; use HybridControl for moments")
        self.robot, self.frame, self.rows = robot, frame, self.task.rows
        self.damping_rate = damping_rate
        self.regulator = ForceRegulator(self.task.k, kp=kp, ki=ki, integral_limit=integral_limit, dt=dt)
        self.null_space = check_null_space(robot, null_space)
        self.singular_tolerance = singular_tolerance

    def compute(
        self,
        s: State,
        force: Array,
        *,
        measured: Array | None = None,
        stance: Iterable[str] | None = None,
        friction: float = NOMINAL_FRICTION,
    ) -> TaskTorque:
        """Computes the torques at one state.  Call it once per period: the integral advances.

        Args:
            s: the state.
            force: (k,) target force on the robot along the rows [N].
            measured: (k,) measured force, likewise; None without a sensor, for the feed-forward alone.
            stance: names of the stance feet of a free or planar root; None for all feet except the controlled one.
            friction: Coulomb's coefficient for the distribution over the stance feet, dimensionless.

        Raises:
            ArgumentError: an argument of the wrong shape or not finite, or a state of another robot.
            UnknownNameError: `stance` names no foot.
            StaleStateError: the Dynamics of `s` was updated again.
        """
        force = check_forces("force", force, self.rows)
        if measured is not None:
            measured = check_forces("measured", measured, self.rows)
        motion = self.task.compute_motion(s, np.zeros(3))
        feet = select_stance_feet(self.robot, self.frame, stance)
        space = compute_operational_space(s, motion.J, self.task.is_angular, feet, tolerance=self.singular_tolerance)
        rate = motion.J @ s.v
        damping_force = self.damping_rate * (space.inertia @ rate)
        task_force = -self.regulator.compute(force, measured) - damping_force
        load = s.gravity + motion.J.T @ task_force + self.null_space.force(s, space, float(damping_force @ rate))
        out = make_task_torque(
            s,
            load,
            feet,
            friction=friction,
            force=task_force,
            error=np.zeros(self.task.k) if measured is None else force - measured,
            frequencies=np.zeros(0),
            is_singular=space.is_singular,
        )
        self.regulator.integrate(force, measured, saturated=bool(out.saturated_joints))
        return out

    def storage(self, s: State, force: Array) -> float:
        """Returns V of the class's docstring [J], up to a constant: with the feed-forward alone it never grows.

        Args:
            s: the state.
            force: (k,) target force, as in `compute`.
        """
        force = check_forces("force", force, self.rows)
        y = -self.task.compute_motion(s, np.zeros(3)).error
        return s.energy.kinetic + float(force @ y) + self.null_space.tank_energy

    def reset(self) -> None:
        """Sets the force integral to zero, and fills the energy tank of the null-space controller to its capacity."""
        self.regulator.reset()
        self.null_space.reset()
