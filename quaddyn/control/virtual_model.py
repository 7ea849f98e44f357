"""`VirtualModel`: virtual springs and dampers on the trunk, realized by the stance legs."""

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

#: Rows of the trunk by type of root, in the order in which they are added while the legs can move them independently.
TRUNK_ROWS = {"free": ("z", "rx", "ry", "x", "y", "rz"), "planar": ("z", "ry", "x")}


class VirtualModel(StrictAttributes, fixed=("robot", "frame", "impedance", "rows")):
    """Springs and dampers between the trunk and the world, realized by the stance legs; gravity is compensated.

    The wrench of the virtual components on the trunk is converted to joint torques by the Jacobians of the legs, with
    the contact forces of `distribute_load`.  This is `CartesianImpedance` of the trunk's frame, with its passivity and
    storage, as long as the feet do not move (``residual`` 0) and their forces are inside the friction cones (``margin``
    > 0).

    Source: Pratt, Chew, Torres, Dilworth and Pratt 2001, "Virtual model control: an intuitive approach for bipedal
    locomotion".

    Default stiffnesses come from the robot: ``K_ii = w^2 Lambda_ii`` per row, with Lambda the operational-space inertia
    of the trunk at home with every foot on the ground; the default damping comes from Lambda at the current state.

    Args:
        robot: a robot with legs on a free or planar root.
        stiffness: (k,) or (k, k) by `rows` [N/m, N m/rad]; None for the default from the inertia.
        damping: (k,) or (k, k), likewise [N s/m, N m s/rad]; None for the default from the inertia.
        bandwidth: w of the default stiffness [Hz].
        damping_ratio: zeta of the default damping, dimensionless; 1 is critical.
        rows: names of the controlled rows, world axes; None for all that the legs can move independently at home (all
            six with three-joint legs; four on a quadruped whose two-joint legs move in parallel planes).
        null_space: joint damping, and a posture if it has one, of swing legs and other joints that do not move the
            trunk; None for damping alone.
        singular_tolerance: task-space mobilities below this fraction of the largest are raised to it.

    Attributes:
        robot: as given.
        frame: name of the trunk's frame, the root link.
        rows: as given, or their defaults.
        impedance: the underlying `CartesianImpedance`.

    Raises:
        ArgumentError: a fixed root, no legs, or another argument out of range; the message names it.
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
        controlled_rows = _find_independent_rows(robot, self.frame, singular_tolerance) if rows is None else rows
        if stiffness is None:
            task = CartesianTask(robot, self.frame, controlled_rows)
            stiffness = w * w * _operational_space_at_home(task, singular_tolerance).inertia.diagonal()
        self.impedance = CartesianImpedance(
            robot,
            self.frame,
            stiffness=stiffness,
            damping=damping,
            damping_ratio=damping_ratio,
            rows=controlled_rows,
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
        """Computes the torques at one state.

        Args:
            s: the state.
            target: desired placement of the trunk's frame in the world.
            velocity: (6,) desired velocity of the trunk, linear before angular, world axes [m/s, rad/s]; None for zero.
            acceleration: (6,) desired acceleration of the trunk, linear before angular, world axes [m/s^2, rad/s^2];
                None for zero.
            stance: names of the stance feet; None for all feet.
            friction: Coulomb's coefficient for the distribution, dimensionless.

        Raises:
            ArgumentError: an argument of the wrong shape or not finite, or a state of another robot.
            UnknownNameError: `stance` names no foot.
            StaleStateError: the Dynamics of `s` was updated again.
        """
        return self.impedance.compute(
            s, target, velocity=velocity, acceleration=acceleration, stance=stance, friction=friction
        )

    def storage(self, s: State, target: Pose) -> float:
        """Returns the kinetic energy plus that of the virtual springs [J], see `CartesianImpedance.storage`."""
        return self.impedance.storage(s, target)

    def reset(self) -> None:
        """Fills the energy tank of the null space."""
        self.impedance.reset()


def _operational_space_at_home(task: CartesianTask, tolerance: float) -> OperationalSpace:
    """Computes the operational space of a task in ``q_home`` with all feet on the ground."""
    robot = task.robot
    s = Dynamics(robot).update(robot.q_home, np.zeros(robot.nv))
    motion = task.compute_motion(s, s.placement(task.frame))
    return compute_operational_space(s, motion.J, task.is_angular, robot.feet, tolerance=tolerance)


def _find_independent_rows(robot: Robot, frame: str, tolerance: float) -> tuple[str, ...]:
    """Finds the rows of the trunk that the legs can move independently at home, with the priority of `TRUNK_ROWS`."""
    rows: tuple[str, ...] = ()
    for row in TRUNK_ROWS[robot.root]:
        if not _operational_space_at_home(CartesianTask(robot, frame, (*rows, row)), tolerance).is_singular:
            rows = (*rows, row)
    if not rows:
        raise ArgumentError(f"robot: at q_home the legs of {robot.name!r} cannot move its trunk in any direction")
    return tuple(row for row in FRAME_ROWS if row in rows)
