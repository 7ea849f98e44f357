"""Hybrid control: force along some axes of a frame, motion along the others."""

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
    """Force along the rows named in `force`, motion along the other rows of a frame, in axes of the caller's.

    Forces are those *on the robot*, as everywhere: to press on a wall in front, ask for a force along -x.  With J the
    Jacobian of all rows, Lambda their inertia and a_0 what the stance feet impose, the load on the actuators is

        h + J^T (Lambda (a* - dJ/dt v - J a_0) - S_f u),
        motion rows: a* = a_wanted + w^2 e + 2 zeta w de/dt,     force rows: a* = -damping_rate * rate,

    u from `ForceRegulator`.  Because both halves pass through the full Lambda of one operational space, the motion
    half makes no acceleration along the force rows and hence no contact force, and once the contact answers with u
    the force half makes no motion: Khatib's consistent form of Raibert and Craig's selection.  Where dry friction holds
    the frame off its target, what the motion half pushes in vain reaches the force rows through Lambda: the integral
    takes it out, feed-forward alone does not.
    Source: Raibert, Craig 1981, "Hybrid position/force control of manipulators"; Khatib 1987, secs. 7 and 8.

    *Gains.*  Along a force row the frame with its inertia m presses on a surface of any stiffness: by Routh the loop
    is stable where ``ki < (1 + kp) (damping_rate + c / m)``, c the surface's damping, whatever its stiffness.  With the
    defaults the force settles with the time constant 1 / ki = 0.1 s.  kp is 0 by default: a force error fed back a
    period late makes a stiff surface oscillate, which velocity damping alone must then hold down.  In free space the
    frame moves off at the speed ``u / (m damping_rate)`` at most.

    Angular rows can be motion rows or, as moments, force rows.  A floating root stands on its `stance` feet; null
    space, singular postures and cut torques are as in `CartesianImpedance`.

    Args:
        robot: any.
        frame: a foot, link or joint.
        force: names of the force rows.
        rows: all rows; by default the linear ones that can move.
        axes: (3, 3) rotation whose columns are the axes of the rows in world axes, such as a surface's tangents and
            normal; the world's by default.
        bandwidth: w of the motion rows [Hz].
        damping_ratio: zeta of the motion rows.
        kp: proportional gain of the force error [1].
        ki: integral gain [1/s].
        integral_limit: bound of the integral's contribution [N, N m]; by default the size of the wanted force.
        damping_rate: of the force rows [1/s].
        null_space: as in `CartesianImpedance`.
        singular_tolerance: mobilities below this share of the largest are raised to it.
        dt: period of the control loop [s].

    Attributes:
        robot, frame, rows: as given or found.
        force_rows: names of the force rows, in the order of `rows`: that of `compute`'s forces.
        regulator: the `ForceRegulator`, with its integral.

    Raises:
        UnknownNameError: no such frame.
        ArgumentError: rows, axes, gains or another argument out of range, named.
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
            raise ArgumentError(f"force: expected some of the rows {task.rows}, each once, got {force_names}")
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
        """Torques at one state; call it once per period: the integral advances.

        Args:
            s: the state.
            target: (3,) wanted origin of the frame, world axes [m], of which the motion rows count; a `Pose` if there
                are angular rows.
            force: wanted force on the robot along each of `force_rows` [N, N m].
            measured: the measured one, in the same order; None for no sensor: feed-forward alone.
            velocity: (3,) or (6,) wanted velocity of the frame, world axes [m/s, rad/s].
            acceleration: (3,) or (6,) wanted acceleration of the frame, world axes [m/s^2, rad/s^2].
            stance: feet held by the ground, on a free or planar root; by default all, without the one controlled.
            friction: Coulomb's coefficient for the distribution over the stance feet.

        Raises:
            ArgumentError: an argument of the wrong shape or not finite, or a state of another robot.
            UnknownNameError: `stance` names no foot.
            StaleStateError: the Dynamics of `s` was updated again.
        """
        force = check_forces("force", force, self.force_rows)
        if measured is not None:
            measured = check_forces("measured", measured, self.force_rows)
        motion = self.task.motion(s, target, velocity, acceleration)
        feet = select_stance_feet(self.robot, self.frame, stance)
        space = compute_operational_space(s, motion.J, self.task.angular, feet, tolerance=self.singular_tolerance)
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
        """Forget the past: the integral and what the tank gave."""
        self.regulator.reset()
        self.null_space.reset()
