"""Explicit force control: feed-forward and PI on a measured contact force."""

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

    The integral is clamped, and stands still while the caller reports saturated motors.

    Args:
        size: number of components.
        kp: proportional gain [1].
        ki: integral gain [1/s].
        limit: (size,) or scalar bound of the integral's contribution [N]; None for the wanted force's own size.
        dt: period of the control loop [s].

    Attributes:
        kp, ki, limit, dt: as given; may be set.
        integral: (size,) the integral's contribution to u [N].

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
        """Forget the integral."""
        self.integral = np.zeros(self.size)

    def compute(self, wanted: Array, measured: Array | None) -> Array:
        """The force u (size,) [N]; without a measurement the feed-forward alone."""
        if measured is None:
            return wanted.copy()
        return np.asarray(wanted + self.kp * (wanted - measured) + self.integral)

    def integrate(self, target: Array, measured: Array | None, *, saturated: bool) -> None:
        """Advance the integral by one period, unless the motors are at their limits."""
        if measured is None or saturated:
            return
        limit = np.abs(target) if self.integral_limit is None else self.integral_limit
        self.integral = np.clip(self.integral + self.ki * self.dt * (target - measured), -limit, limit)


def check_forces(name: str, value: ArrayLike, rows: tuple[str, ...]) -> Array:
    """The value as an array; raises `ArgumentError` unless it is one finite, bounded force per row."""
    return check_magnitude(name, check_vector(name, value, (len(rows),), f"one per row {rows}"))


class ForceControl(StrictAttributes, fixed=("task", "robot", "frame", "rows", "regulator", "null_space")):
    r"""Force along the rows of a frame; along all other directions the frame is free but for dampers at the joints.

    Forces are those *on the robot*.  The load on the actuators is ``g(q) - J^T (u + Lambda damping_rate rate)``, u from
    `ForceRegulator` with the gains of `HybridControl`.  Without a sensor, u is the wanted force f* and the loop is
    passive: with y the rows' coordinates and the storage

    .. math::

        V = \tfrac{1}{2} v^\top M v + f^\star \cdot y, \qquad
        \dot V = -\rho\, \dot y^\top \Lambda\, \dot y - |N v|^2_{K_d} + P_{ext}

    with rho the damping rate and P_ext the power of external forces; an elastic surface adds its own energy to V.
    To hold the frame's place across the force, use `HybridControl`.
    Source: Whitney 1987, "Historical perspective and state of the art in robot force control", explicit force control.

    Args:
        robot: any.
        frame: a foot, link or joint.
        rows: force rows; by default the linear ones that can move.
        axes: (3, 3) rotation whose columns are the axes of the rows in world axes; the world's by default.
        kp, ki, integral_limit, damping_rate: as in `HybridControl`.
        null_space: as in `CartesianImpedance`.
        singular_tolerance: mobilities below this share of the largest are raised to it.
        dt: period of the control loop [s].

    Attributes:
        robot, frame, rows: as given or found.
        regulator: the `ForceRegulator`, with its integral.

    Raises:
        UnknownNameError: no such frame.
        ArgumentError: rows, axes, gains or another argument out of range, named.
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
        if any(self.task.angular):
            raise ArgumentError(f"rows: expected linear ones (moments: HybridControl), got {self.task.rows}")
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
        """Torques at one state; call it once per period: the integral advances.

        Args:
            s: the state.
            force: (k,) wanted force on the robot along the rows [N].
            measured: (k,) the measured one; None for no sensor: feed-forward alone.
            stance: feet held by the ground, on a free or planar root; by default all, without the one controlled.
            friction: Coulomb's coefficient for the distribution over the stance feet.

        Raises:
            ArgumentError: an argument of the wrong shape or not finite, or a state of another robot.
            UnknownNameError: `stance` names no foot.
            StaleStateError: the Dynamics of `s` was updated again.
        """
        force = check_forces("force", force, self.rows)
        if measured is not None:
            measured = check_forces("measured", measured, self.rows)
        motion = self.task.motion(s, np.zeros(3))
        feet = select_stance_feet(self.robot, self.frame, stance)
        space = compute_operational_space(s, motion.J, self.task.angular, feet, tolerance=self.singular_tolerance)
        rate = motion.J @ s.v
        damper = self.damping_rate * (space.inertia @ rate)
        task_force = -self.regulator.compute(force, measured) - damper
        load = s.gravity + motion.J.T @ task_force + self.null_space.force(s, space, float(damper @ rate))
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
        """V of the class's docstring [J], up to a constant: for feed-forward alone it never grows.

        Args:
            s: the state.
            force: as in `compute`.
        """
        force = check_forces("force", force, self.rows)
        y = -self.task.motion(s, np.zeros(3)).error
        return s.energy.kinetic + float(force @ y) + self.null_space.tank_energy

    def reset(self) -> None:
        """Forget the past: the integral and what the tank gave."""
        self.regulator.reset()
        self.null_space.reset()
