"""Whole-body control: tasks and constraints in strict priority become joint torques, with a certificate."""

from .certificate import LevelReport, Status
from .command import Command
from .constraints import (
    CollisionLimits,
    Constraint,
    ContactMotion,
    FrictionPyramid,
    HeldObject,
    JointBounds,
    JointFriction,
    LinearConstraint,
    MotorLimits,
    NormalForce,
    RobustLimits,
    TorqueLimits,
    TorqueRate,
)
from .contacts import ContactSettings
from .controller import WholeBodyController
from .custom import CustomConstraint, CustomTask
from .defaults import default_constraints, default_tasks
from .elements import Elements
from .explanation import Loss
from .export import ControllerSource, controller_c, export_c
from .parameter_band import ParameterBand
from .payload_band import PayloadBand
from .tasks import (
    ComTask,
    FootTask,
    ForceTask,
    FrameAxisTask,
    FrameOrientationTask,
    FramePositionTask,
    FrameTask,
    JointAccelerationTask,
    MomentumTask,
    PostureTask,
    RelativeFrameTask,
    Task,
)
from .tick_file import Replay, TickRecord, replay
from .velocity import VelocityCommand, VelocityController

__all__ = [
    "CollisionLimits",
    "ComTask",
    "Command",
    "Constraint",
    "ContactMotion",
    "ContactSettings",
    "ControllerSource",
    "CustomConstraint",
    "CustomTask",
    "Elements",
    "FootTask",
    "ForceTask",
    "FrameAxisTask",
    "FrameOrientationTask",
    "FramePositionTask",
    "FrameTask",
    "FrictionPyramid",
    "HeldObject",
    "JointAccelerationTask",
    "JointBounds",
    "JointFriction",
    "LevelReport",
    "LinearConstraint",
    "Loss",
    "MomentumTask",
    "MotorLimits",
    "NormalForce",
    "ParameterBand",
    "PayloadBand",
    "PostureTask",
    "RelativeFrameTask",
    "Replay",
    "RobustLimits",
    "Status",
    "Task",
    "TickRecord",
    "TorqueLimits",
    "TorqueRate",
    "VelocityCommand",
    "VelocityController",
    "WholeBodyController",
    "controller_c",
    "default_constraints",
    "default_tasks",
    "export_c",
    "replay",
]
