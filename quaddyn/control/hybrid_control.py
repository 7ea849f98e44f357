"""Hybrid control: force along some rows of a frame, motion along the others."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike

from ..contact.solvers.problem import NOMINAL_FRICTION
from ..dynamics import State
from ..errors import ArgumentError
from ..robot.arguments import check_positive, check_sequence
from ..robot.robot import Robot
from ..strict_attributes import StrictAttributes, ValidatedAttribute
from ..urdf.tree import Array, Pose
from .cartesian_task import CartesianTask
from .force_control import ForceRegulator, check_forces
from .gains import check_fraction
from .impedance import select_stance_feet
from .null_space_posture import NullSpacePosture, check_null_space
from .operational_space import compute_operational_space
from .task_torque import TaskTorque, make_task_torque


class HybridControl(
    StrictAttributes, fixed=("task", "robot", "frame", "rows", "force_rows", "regulator", "null_space")
):
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

    Angular rows can be motion rows or, as moments, force rows.  A floating root is supported by its `stance` feet.
    Null space, singular postures and clamped torques are treated as in `CartesianImpedance`.

    Args:
        robot: any robot.
        frame: name of a foot, link or joint.
        force: names of the force rows.
        rows: names of all rows; None for the linear ones that can move.
        axes: (3, 3) rotation whose columns are the axes of the rows in world axes, such as a surface's tangents and
            normal; None for the world's axes.
        bandwidth: w of the motion rows [Hz].
        damping_ratio: zeta of the motion rows, dimensionless.
        kp: proportional gain of the force error, dimensionless.
        ki: integral gain of the force error [1/s].
        integral_limit: (number of force rows,) or scalar bound of the integral's contribution [N, N m]; None for the
            magnitude of the target force.
        damping_rate: rate at which the velocity along the force rows is damped [1/s].
        null_space: joint damping, and a posture if it has one, in the null space of the task; None for damping alone.
        singular_tolerance: task-space mobilities below this fraction of the largest are raised to it.
        dt: period of the control loop [s].

    Attributes:
        robot, frame, rows: as given, or their defaults.
        force_rows: names of the force rows, in the order of `rows`, which is that of the forces in `compute`.
        regulator: the `ForceRegulator`, with its integral.

    Raises:
        UnknownNameError: no such frame.
        ArgumentError: rows, axes, gains or another argument out of range; the message names it.
    """

    bandwidth = ValidatedAttribute[float, float](lambda self, value: check_positive("bandwidth", value))
    damping_ratio = ValidatedAttribute[float, float](
        lambda self, value: check_positive("damping_ratio", value, zero=True)
    )
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
        self.task = task = CartesianTask(robot, frame, rows, axes=axes)
        force_names = check_sequence("force", force, "names of rows")
        if (
            not force_names
            or any(row not in task.rows for row in force_names)
            or len(set(force_names)) != len(force_names)
        ):
            raise ArgumentError(f"force: expected one or more of the rows {task.rows}, each once, got {force_names}")
        self.robot, self.frame, self.rows = robot, frame, task.rows
        self.force_rows = tuple(row for row in task.rows if row in force_names)
        self._force = np.array([row in force_names for row in task.rows])
        self.bandwidth, self.damping_ratio, self.damping_rate = bandwidth, damping_ratio, damping_rate
        self.regulator = ForceRegulator(len(self.force_rows), kp=kp, ki=ki, integral_limit=integral_limit, dt=dt)
        self.null_space = check_null_space(robot, null_space)
        self.singular_tolerance = singular_tolerance

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

        Args:
            s: the state.
            target: (3,) desired origin of the frame, world axes [m], of which only the motion rows have an effect; a
                `Pose` if there are angular rows.
            force: (number of force rows,) target force on the robot along each of `force_rows` [N, N m].
            measured: measured force, likewise; None without a sensor, for the feed-forward alone.
            velocity: (3,) or (6,) desired velocity of the frame, world axes [m/s, rad/s]; None for zero.
            acceleration: (3,) or (6,) desired acceleration of the frame, world axes [m/s^2, rad/s^2]; None for zero.
            stance: names of the stance feet of a free or planar root; None for all feet except the controlled one.
            friction: Coulomb's coefficient for the distribution over the stance feet, dimensionless.

        Raises:
            ArgumentError: an argument of the wrong shape or not finite, or a state of another robot.
            UnknownNameError: `stance` names no foot.
            StaleStateError: the Dynamics of `s` was updated again.
        """
        force = check_forces("force", force, self.force_rows)
        if measured is not None:
            measured = check_forces("measured", measured, self.force_rows)
        motion = self.task.compute_motion(s, target, velocity, acceleration)
        feet = select_stance_feet(self.robot, self.frame, stance)
        space = compute_operational_space(s, motion.J, self.task.is_angular, feet, tolerance=self.singular_tolerance)
        w, is_force_row = 2.0 * np.pi * self.bandwidth, self._force
        desired_acceleration = motion.acceleration + w * w * motion.error + 2.0 * self.damping_ratio * w * motion.rate
        desired_acceleration[is_force_row] = -self.damping_rate * (motion.J @ s.v)[is_force_row]
        task_force = space.inertia @ (desired_acceleration - motion.drift - motion.J @ space.stance_acceleration)
        task_force[is_force_row] -= self.regulator.compute(force, measured)
        load = s.h + motion.J.T @ task_force
        load += self.null_space.force(s, space, 0.0)
        out = make_task_torque(
            s,
            load,
            feet,
            friction=friction,
            force=task_force,
            error=np.where(is_force_row, 0.0, motion.error),
            frequencies=np.full(int((~is_force_row).sum()), w),
            is_singular=space.is_singular,
        )
        self.regulator.integrate(force, measured, saturated=bool(out.saturated_joints))
        return out

    def reset(self) -> None:
        """Sets the integral to zero and fills the energy tank of the null space."""
        self.regulator.reset()
        self.null_space.reset()
