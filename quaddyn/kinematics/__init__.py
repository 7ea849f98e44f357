"""Kinematics: closed-form legs, numeric inverse kinematics, velocity tasks, and distances between links."""

from ..deprecation import renamed_names
from .capsule_model import Capsule, CapsuleModel, Obstacle
from .collision_model import CollisionModel, Separation
from .inverse import InverseSolution, frame_task, inverse_kinematics, joint_task
from .leg_kinematics import LegKinematics, LegSolution
from .leg_survey import IkBranch, LegSurvey, reachable_curve, survey_leg

__all__ = [
    "Capsule",
    "CapsuleModel",
    "CollisionModel",
    "IkBranch",
    "InverseSolution",
    "LegKinematics",
    "LegSolution",
    "LegSurvey",
    "Obstacle",
    "Separation",
    "frame_task",
    "inverse_kinematics",
    "joint_task",
    "reachable_curve",
    "survey_leg",
]

__getattr__ = renamed_names(__name__, {"Branch": "IkBranch", "closed_curve": "reachable_curve", "survey": "survey_leg"})
