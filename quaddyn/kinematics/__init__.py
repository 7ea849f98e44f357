"""Kinematics: closed-form legs, numeric inverse kinematics, tasks on a robot's velocity."""

from .capsule_model import CapsuleModel
from .capsules import Capsule
from .collision_model import CollisionModel, Separation
from .inverse import InverseSolution, inverse_kinematics
from .leg_kinematics import LegKinematics, LegSolution
from .leg_survey import Branch, LegSurvey, closed_curve, survey
from .obstacles import Obstacle
from .velocity_tasks import frame_task, joint_task

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
