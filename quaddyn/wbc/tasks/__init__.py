"""Tasks of whole-body control, one per file: class, parameters, and the compiled function that writes the rows."""

from .com import ComTask
from .foot import FootTask
from .force import ForceTask
from .frame import FrameTask
from .frame_axis import FrameAxisTask
from .frame_orientation import FrameOrientationTask
from .frame_position import FramePositionTask
from .joint_acceleration import JointAccelerationTask
from .momentum import MomentumTask
from .posture import PostureTask
from .relative_frame import RelativeFrameTask
from .task import Task

__all__ = [
    "ComTask",
    "FootTask",
    "ForceTask",
    "FrameAxisTask",
    "FrameOrientationTask",
    "FramePositionTask",
    "FrameTask",
    "JointAccelerationTask",
    "MomentumTask",
    "PostureTask",
    "RelativeFrameTask",
    "Task",
]
