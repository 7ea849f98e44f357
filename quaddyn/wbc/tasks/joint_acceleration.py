"""`JointAccelerationTask`: given joint accelerations."""

from __future__ import annotations

from collections.abc import Sequence

from ...robot.robot import Robot
from ..element_kind import ElementKind
from .posture import PostureTask, set_home_reference, write_posture_rows
from .task_gains import Gain


class JointAccelerationTask(PostureTask):
    r"""Joint accelerations [rad/s^2 or m/s^2] without feedback: ``reference(acceleration=a)``.

    .. math::

        a_j = \ddot q_j^\star

    Use it to track accelerations that another controller or planner has computed.

    Args:
        robot: the robot.
        name: name of the task in the controller.
        joints: names of 1-dof joints; the actuated ones if None.
        weight: scalar or (rows,), relative to the other rows of the level, dimensionless.
    """

    def __init__(
        self,
        robot: Robot,
        name: str = "joint acceleration",
        *,
        joints: Sequence[str] | None = None,
        weight: Gain = 1.0,
    ) -> None:
        super().__init__(robot, name, joints=joints, stiffness=0.0, damping=0.0, weight=weight)


JointAccelerationTask.kind = ElementKind(8, write_posture_rows, clear_reference=set_home_reference)
