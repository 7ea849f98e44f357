"""`VirtualModel`: the trunk hangs on springs and dampers, which the stance legs make."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike

from ..contact.solvers.problem import NOMINAL_FRICTION
from ..dynamics import Dynamics, State
from ..errors import ArgumentError
from ..kinematics.velocity_tasks import FRAME_ROWS
from ..robot.arguments import check_positive
from ..robot.robot import Robot
from ..strict_attributes import StrictAttributes
from ..urdf.tree import Array, Pose
from .cartesian_task import CartesianTask
from .gains import check_fraction, check_robot
from .impedance import CartesianImpedance
from .null_space_posture import NullSpacePosture
from .operational_space import OperationalSpace, compute_operational_space
from .task_torque import TaskTorque

#: Rows of the trunk by root, those that a stance needs most first.
TRUNK_ROWS = {"free": ("z", "rx", "ry", "x", "y", "rz"), "planar": ("z", "ry", "x")}


class VirtualModel(StrictAttributes, fixed=("robot", "frame", "impedance", "rows")):
    """Springs and dampers between the trunk and the world, realized by the stance legs; gravity is compensated.

    A virtual component's wrench on the trunk becomes joint torques through the legs' Jacobians; of the contact forces
    that make it those of `distribute` are taken.  This is `CartesianImpedance` of the trunk's frame, with its passivity
    and storage, where the feet stay put (``residual`` 0) and inside their cones (``margin`` > 0).
    Source: Pratt, Chew, Torres, Dilworth, Pratt 2001, "Virtual model control: an intuitive approach for bipedal
    locomotion".

    Default stiffnesses come from the robot: ``K_ii = w^2 Lambda_ii`` per row, Lambda the inertia that the trunk feels
    at home with every foot on the ground, and the default damping from the posture's own Lambda.

    Args:
        robot: one with legs on a free or planar root.
        stiffness: (k,) or (k, k) by `rows` [N/m, N m/rad]; from the inertia by default.
        damping: alike [N s/m, N m s/rad]; from the inertia by default.
        bandwidth: w of the default stiffness [Hz].
        damping_ratio: zeta of the default damping; 1 is critical.
        rows: what is controlled, world axes; by default all that the legs can move independently at home (all six with
            three-joint legs; four on a quadruped whose two-joint legs move in parallel planes).
        null_space: for legs in the air and joints that the trunk leaves free, as in `CartesianImpedance`.
        singular_tolerance: as in `CartesianImpedance`.

    Attributes:
        robot: as given.
        frame: name of the trunk's frame, the root link.
        rows: as given or found.
        impedance: the `CartesianImpedance` behind it.

    Raises:
        ArgumentError: a fixed root, no legs, or another argument out of range, named.
    """

    def __init__(
        self,
        robot: Robot,
        *,
        stiffness: ArrayLike | None = None,
        damping: ArrayLike | None = None,
        bandwidth: float = 2.0,
        damping_ratio: float = 1.0,
        rows: Iterable[str] | None = None,
        null_space: NullSpacePosture | None = None,
        singular_tolerance: float = 1e-4,
    ) -> None:
        check_robot(robot)
        if robot.root not in TRUNK_ROWS or not robot.feet:
            raise ArgumentError(f"robot: expected legs on a free or planar root, got {robot!r}")
        self.robot, self.frame = robot, robot.tree.root.name
        w = 2.0 * np.pi * check_positive("bandwidth", bandwidth)
        singular_tolerance = check_fraction("singular_tolerance", singular_tolerance)
        chosen_rows = _find_independent_rows(robot, self.frame, singular_tolerance) if rows is None else rows
        if stiffness is None:
            task = CartesianTask(robot, self.frame, chosen_rows)
            stiffness = w * w * _operational_space_at_home(task, singular_tolerance).inertia.diagonal()
        self.impedance = CartesianImpedance(
            robot,
            self.frame,
            stiffness=stiffness,
            damping=damping,
            damping_ratio=damping_ratio,
            rows=chosen_rows,
            null_space=null_space,
            singular_tolerance=singular_tolerance,
        )
        self.rows = self.impedance.rows

    def compute(
        self,
        s: State,
        target: Pose,
        *,
        velocity: Array | None = None,
        acceleration: Array | None = None,
        stance: Iterable[str] | None = None,
        friction: float = NOMINAL_FRICTION,
    ) -> TaskTorque:
        """Torques at one state.

        Args:
            s: the state.
            target: wanted placement of the trunk's frame in the world.
            velocity: (6,) wanted velocity of the trunk, linear before angular, world axes [m/s, rad/s].
            acceleration: (6,) wanted acceleration of the trunk, linear before angular, world axes [m/s^2, rad/s^2].
            stance: names of the feet on the ground; all by default.
            friction: Coulomb's coefficient for the distribution.

        Raises:
            ArgumentError: an argument of the wrong shape or not finite, or a state of another robot.
            UnknownNameError: `stance` names no foot.
            StaleStateError: the Dynamics of `s` was updated again.
        """
        return self.impedance.compute(
            s, target, velocity=velocity, acceleration=acceleration, stance=stance, friction=friction
        )

    def storage(self, s: State, target: Pose) -> float:
        """Kinetic energy and that of the virtual springs [J], see `CartesianImpedance.storage`."""
        return self.impedance.storage(s, target)

    def reset(self) -> None:
        """Forget the past: fill the tank of the null space."""
        self.impedance.reset()


def _operational_space_at_home(task: CartesianTask, tolerance: float) -> OperationalSpace:
    robot = task.robot
    s = Dynamics(robot).update(robot.q_home, np.zeros(robot.nv))
    motion = task.motion(s, s.placement(task.frame))
    return compute_operational_space(s, motion.J, task.angular, robot.feet, tolerance=tolerance)


def _find_independent_rows(robot: Robot, frame: str, tolerance: float) -> tuple[str, ...]:
    """The rows of the trunk that the legs can move independently at home, the earlier of `TRUNK_ROWS` first served."""
    chosen_rows: tuple[str, ...] = ()
    for row in TRUNK_ROWS[robot.root]:
        if not _operational_space_at_home(CartesianTask(robot, frame, (*chosen_rows, row)), tolerance).is_singular:
            chosen_rows = (*chosen_rows, row)
    if not chosen_rows:
        raise ArgumentError(f"robot: the legs of {robot.name!r} cannot move its trunk at home")
    return tuple(row for row in FRAME_ROWS if row in chosen_rows)
