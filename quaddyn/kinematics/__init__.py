"""Kinematics: closed-form legs, numeric inverse kinematics, tasks on a robot's velocity."""

from .inverse import InverseSolution, inverse_kinematics
from .legs import LegKinematics, LegSolution
from .velocity import frame_task, joint_task

__all__ = [
    "InverseSolution",
    "LegKinematics",
    "LegSolution",
    "frame_task",
    "inverse_kinematics",
    "joint_task",
]
