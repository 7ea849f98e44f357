"""Kinematics: closed-form legs, numeric inverse kinematics, tasks on a robot's velocity."""

from .velocity import frame_task, joint_task

__all__ = ["frame_task", "joint_task"]
