"""Tasks of whole-body control: classes, parameters, and the compiled functions that write the rows."""

from .force import ForceTask
from .frame_axis import FrameAxisTask
from .momentum import ComTask, MomentumTask
from .posture import JointAccelerationTask, PostureTask
from .relative_frame import RelativeFrameTask
from .single_frame_task import FootTask, FrameOrientationTask, FramePositionTask, FrameTask
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
