"""Kinematics: closed-form legs, numeric inverse kinematics, tasks on a robot's velocity."""

from .capsule_model import CapsuleModel
from .capsules import Capsule
from .collision import CollisionModel, Separation
from .inverse import InverseSolution, inverse_kinematics
from .legs import LegKinematics, LegSolution
from .obstacles import Obstacle
from .survey import Branch, LegSurvey, closed_curve, survey
from .velocity import frame_task, joint_task

__all__ = [
    "Branch",
    "Capsule",
    "CapsuleModel",
    "CollisionModel",
    "InverseSolution",
    "LegKinematics",
    "LegSolution",
    "LegSurvey",
    "Obstacle",
    "Separation",
    "closed_curve",
    "frame_task",
    "inverse_kinematics",
    "joint_task",
    "survey",
]
