"""`JointAccelerationTask`: joint accelerations as such."""

from __future__ import annotations

from collections.abc import Sequence

from ...robot.robot import Robot
from ..codes import JOINT_ACCELERATION
from .gains import Gain
from .posture import PostureTask


class JointAccelerationTask(PostureTask):
    r"""Joint accelerations as such [rad/s^2 or m/s^2]: a posture without feedback; ``reference(acceleration=a)``.

    .. math::

        a_j = \ddot q_j^\star
    """

    code = JOINT_ACCELERATION

    def __init__(
        self,
        robot: Robot,
        name: str = "joint acceleration",
        *,
        joints: Sequence[str] | None = None,
        weight: Gain = 1.0,
    ) -> None:
        super().__init__(robot, name, joints=joints, stiffness=0.0, damping=0.0, weight=weight)
