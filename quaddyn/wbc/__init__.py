"""Whole-body control: tasks and constraints in strict priority become joint torques, with a certificate."""

__compilation_unit__ = "whole-body control"

from ..deprecation import renamed_names
from .batch_references import ForceReferences, MotionGains, MotionReferences
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
from .constraints.robust_limits import ParameterEllipsoid, PayloadSet
from .contact_settings import ContactSettings
from .controller import WholeBodyController
from .controller_batch import BatchCommand, ControllerBatch
from .custom_elements import CustomConstraint, CustomTask
from .elements import Elements, default_constraints, default_tasks
from .explanation import Loss
from .export import ControllerSource, controller_c, export_c
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
from .tick_file import TickRecord, TickReplay, replay
from .tick_problem import LevelReport, Status
from .velocity_controller import VelocityCommand, VelocityController

__getattr__ = renamed_names(
    __name__, {"ParameterBand": "ParameterEllipsoid", "PayloadBand": "PayloadSet", "Replay": "TickReplay"}
)

__all__ = [
    "BatchCommand",
    "CollisionLimits",
    "ComTask",
    "Command",
    "Constraint",
    "ContactMotion",
    "ContactSettings",
    "ControllerBatch",
    "ControllerSource",
    "CustomConstraint",
    "CustomTask",
    "Elements",
    "FootTask",
    "ForceReferences",
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
    "MotionGains",
    "MotionReferences",
    "MotorLimits",
    "NormalForce",
    "ParameterEllipsoid",
    "PayloadSet",
    "PostureTask",
    "RelativeFrameTask",
    "RobustLimits",
    "Status",
    "Task",
    "TickRecord",
    "TickReplay",
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
