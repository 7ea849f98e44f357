"""Whole-body control: tasks and constraints in strict priority become joint torques, with a certificate."""

from .certificate import LevelReport, Status
from .command import Command
from .constraints import (
    Constraint,
    ContactMotion,
    FrictionPyramid,
    LinearConstraint,
    NormalForce,
    TorqueLimits,
    TorqueRate,
)
from .contacts import ContactSettings
from .controller import WholeBodyController, default_constraints, default_tasks
from .explanation import Loss, losses
from .forces import ForceTask
from .joint_bounds import JointBounds
from .motion import (
    ComTask,
    FootTask,
    FrameOrientationTask,
    FramePositionTask,
    FrameTask,
    JointAccelerationTask,
    MomentumTask,
    PostureTask,
    RelativeFrameTask,
)
from .task import Task
from .tick_file import Replay, TickRecord, replay
from .velocity import VelocityCommand, VelocityController

__all__ = [
    "ComTask",
    "Command",
    "Constraint",
    "ContactMotion",
    "ContactSettings",
    "FootTask",
    "ForceTask",
    "FrameOrientationTask",
    "FramePositionTask",
    "FrameTask",
    "FrictionPyramid",
    "JointAccelerationTask",
    "JointBounds",
    "LevelReport",
    "LinearConstraint",
    "Loss",
    "MomentumTask",
    "NormalForce",
    "PostureTask",
    "RelativeFrameTask",
    "Replay",
    "Status",
    "Task",
    "TickRecord",
    "TorqueLimits",
    "TorqueRate",
    "VelocityCommand",
    "VelocityController",
    "WholeBodyController",
    "default_constraints",
    "default_tasks",
    "losses",
    "replay",
]
