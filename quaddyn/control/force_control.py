"""Control of measured contact forces: `ForceControl` along all rows of a frame, `HybridControl` along some of them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike

from ..contact.solvers.problem import NOMINAL_FRICTION
from ..deprecation import renamed_attributes, renamed_parameters
from ..dynamics import State
from ..errors import ArgumentError
from ..robot.arguments import check_sequence, check_vector
from ..robot.robot import Robot
from ..strict_attributes import StrictAttributes, ValidatedAttribute
from ..urdf.tree import Array, Pose
from .cartesian_control import CartesianController, TaskTorque
from .cartesian_task import check_magnitude
from .gains import as_gain_vector, positive_attribute
from .operational_space import NullSpacePosture


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

    kp, ki = positive_attribute("kp", zero=True), positive_attribute("ki", zero=True)
    dt = positive_attribute("dt")
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


def _check_forces(force: ArrayLike, measured: ArrayLike | None, rows: tuple[str, ...]) -> tuple[Array, Array | None]:
    """Returns target and measured forces as arrays, each with one finite, bounded force per row.

    Raises:
        ArgumentError: another shape or an entry out of range.
    """
    target, found = (
        None if value is None else check_magnitude(name, check_vector(name, value, (len(rows),), f"one per row {rows}"))
        for name, value in (("force", force), ("measured", measured))
    )
    assert target is not None
    return target, found


class _ForceController(CartesianController, fixed=("regulator",)):
    """Common parts of the controllers with force rows: the regulator of the forces, and damping along the rows."""

    damping_rate = positive_attribute("damping_rate", zero=True)

    def _regulate(self, n_forces: int, *, kp: float, ki: float, integral_limit: ArrayLike | None, dt: float) -> None:
        """Creates the regulator of a number of forces."""
        self.regulator = ForceRegulator(n_forces, kp=kp, ki=ki, integral_limit=integral_limit, dt=dt)

    def reset(self) -> None:
        """Sets the force integral to zero and fills the energy tank of the null space."""
        self.regulator.reset()
        super().reset()


class ForceControl(_ForceController):
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
        robot, frame, rows, axes, null_space, singular_tolerance: see `CartesianController`; the rows are linear.
        kp, ki, integral_limit, dt: see `ForceRegulator`, one force per row.
        damping_rate: rate at which the velocity along the rows is damped [1/s].

    Attributes:
        regulator: the `ForceRegulator`, with its integral.
    """

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
        super().__init__(
            robot, frame, rows=rows, axes=axes, null_space=null_space, singular_tolerance=singular_tolerance
        )
        if any(self.task.is_angular):
            raise ArgumentError(f"rows: expected linear rows, got {self.rows}; use HybridControl for moments")
        self.damping_rate = damping_rate
        self._regulate(self.task.k, kp=kp, ki=ki, integral_limit=integral_limit, dt=dt)

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

        `force` is the (k,) target force on the robot along the rows [N], `measured` the (k,) measured one; None without
        a sensor, for the feed-forward alone.  `CartesianController` describes the other parameters.

        Raises:
            ArgumentError: an argument of the wrong shape or not finite, or a state of another robot.
            UnknownNameError: `stance` names no foot.
            StaleStateError: the Dynamics of `s` was updated again.
        """
        force, measured = _check_forces(force, measured, self.rows)
        motion, feet = self.task.compute_motion(s, np.zeros(3)), self._stance_feet(stance)
        space = self._operational_space(s, motion, feet)
        rate = motion.J @ s.v
        damping_force = self.damping_rate * (space.inertia @ rate)
        out = self._torques(
            s, motion, space, feet, bias=s.gravity, force=-self.regulator.compute(force, measured) - damping_force,
            dissipated=float(damping_force @ rate), friction=friction,
            error=np.zeros(self.task.k) if measured is None else force - measured, frequencies=np.zeros(0),
        )  # fmt: skip
        self.regulator.integrate(force, measured, saturated=bool(out.saturated_joints))
        return out

    def storage(self, s: State, force: Array) -> float:
        """Returns V of the class's docstring [J], up to a constant: with the feed-forward alone it never grows.

        Args:
            s: the state.
            force: (k,) target force, as in `compute`.
        """
        force, _ = _check_forces(force, None, self.rows)
        y = -self.task.compute_motion(s, np.zeros(3)).error
        return s.energy.kinetic + float(force @ y) + self.null_space.tank_energy


class HybridControl(_ForceController, fixed=("force_rows",)):
    """Hybrid force and motion control: force along the rows in `force`, motion along a frame's other rows.

    Forces are those *on the robot*: to press on a wall in front, set a force along -x.  With J the Jacobian of all
    rows, Lambda their inertia and a_0 the acceleration that the stance feet impose, the load on the actuators is

        h + J^T (Lambda (a* - dJ/dt v - J a_0) - S_f u),
        motion rows: a* = a_desired + w^2 e + 2 zeta w de/dt,     force rows: a* = -damping_rate * rate,

    with u from `ForceRegulator`.  Both parts are weighted by the full Lambda of one operational space.  Therefore the
    motion part causes no acceleration along the force rows and no contact force, and the force part causes no motion
    once the contact force equals u: Khatib's consistent form of Raibert and Craig's selection.  Where dry friction
    keeps the frame off its target, the motion part causes, through Lambda, an error in the force rows; the integral
    removes it, feed-forward alone does not.

    Source: Raibert and Craig 1981, "Hybrid position/force control of manipulators"; Khatib 1987, secs. 7 and 8.

    *Gains.*  Along a force row the frame with its inertia m presses on a surface of any stiffness.  By Routh's
    criterion the loop is stable if ``ki < (1 + kp) (damping_rate + c / m)``, with c the surface's damping, whatever its
    stiffness.  With the default gains the force settles with the time constant 1 / ki = 0.1 s.  kp is 0 by default: a
    force error that is fed back one period late makes a stiff surface oscillate, and velocity damping alone would have
    to suppress that.  In free space the frame moves at the speed ``u / (m damping_rate)`` at most.

    Angular rows can be motion rows or, as moments, force rows.

    Args:
        robot, frame, rows, axes, null_space, singular_tolerance: see `CartesianController`.
        force: names of the force rows.
        bandwidth: w of the motion rows [Hz].
        damping_ratio: zeta of the motion rows, dimensionless.
        kp, ki, integral_limit, dt: see `ForceRegulator`, one force per force row.
        damping_rate: rate at which the velocity along the force rows is damped [1/s].

    Attributes:
        force_rows: names of the force rows, in the order of `rows`, which is that of the forces in `compute`.
        regulator: the `ForceRegulator`, with its integral.
    """

    bandwidth = positive_attribute("bandwidth")
    damping_ratio = positive_attribute("damping_ratio", zero=True)

    def __init__(
        self,
        robot: Robot,
        frame: str,
        *,
        force: Iterable[str],
        rows: Iterable[str] | None = None,
        axes: Array | None = None,
        bandwidth: float = 3.0,
        damping_ratio: float = 1.0,
        kp: float = 0.0,
        ki: float = 10.0,
        integral_limit: ArrayLike | None = None,
        damping_rate: float = 100.0,
        null_space: NullSpacePosture | None = None,
        singular_tolerance: float = 1e-4,
        dt: float = 1e-3,
    ) -> None:
        super().__init__(
            robot, frame, rows=rows, axes=axes, null_space=null_space, singular_tolerance=singular_tolerance
        )
        names = check_sequence("force", force, "names of rows")
        if not names or any(row not in self.rows for row in names) or len(set(names)) != len(names):
            raise ArgumentError(f"force: expected one or more of the rows {self.rows}, each once, got {names}")
        self.force_rows = tuple(row for row in self.rows if row in names)
        self._is_force_row = np.array([row in names for row in self.rows])
        self.bandwidth, self.damping_ratio, self.damping_rate = bandwidth, damping_ratio, damping_rate
        self._regulate(len(names), kp=kp, ki=ki, integral_limit=integral_limit, dt=dt)

    def compute(
        self,
        s: State,
        target: Array | Pose,
        force: Array,
        *,
        measured: Array | None = None,
        velocity: Array | None = None,
        acceleration: Array | None = None,
        stance: Iterable[str] | None = None,
        friction: float = NOMINAL_FRICTION,
    ) -> TaskTorque:
        """Computes the torques at one state.  Call it once per period: the integral advances.

        `force` is the target force on the robot along each of `force_rows` [N, N m], `measured` the measured one; None
        without a sensor, for the feed-forward alone.  `CartesianController` describes the other parameters; only the
        motion rows of the target have an effect.

        Raises:
            ArgumentError: an argument of the wrong shape or not finite, or a state of another robot.
            UnknownNameError: `stance` names no foot.
            StaleStateError: the Dynamics of `s` was updated again.
        """
        force, measured = _check_forces(force, measured, self.force_rows)
        motion, feet = self.task.compute_motion(s, target, velocity, acceleration), self._stance_feet(stance)
        space = self._operational_space(s, motion, feet)
        w, is_force_row = 2.0 * np.pi * self.bandwidth, self._is_force_row
        desired_acceleration = motion.acceleration + w * w * motion.error + 2.0 * self.damping_ratio * w * motion.rate
        desired_acceleration[is_force_row] = -self.damping_rate * (motion.J @ s.v)[is_force_row]
        task_force = space.inertia @ (desired_acceleration - motion.drift - motion.J @ space.stance_acceleration)
        task_force[is_force_row] -= self.regulator.compute(force, measured)
        out = self._torques(
            s, motion, space, feet, bias=s.h, force=task_force, dissipated=0.0, friction=friction,
            error=np.where(is_force_row, 0.0, motion.error), frequencies=np.full(int((~is_force_row).sum()), w),
        )  # fmt: skip
        self.regulator.integrate(force, measured, saturated=bool(out.saturated_joints))
        return out
