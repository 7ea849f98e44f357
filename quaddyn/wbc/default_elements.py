"""The default constraints and tasks of a `WholeBodyController`."""

from __future__ import annotations

from ..robot.robot import Robot
from .constraints import ContactMotion, FrictionPyramid, JointBounds, JointFriction, NormalForce, TorqueLimits
from .element import Element
from .tasks import ComTask, FootTask, ForceTask, FrameOrientationTask, PostureTask


def default_constraints(robot: Robot, dt: float) -> list[Element]:
    """Returns level 0: contact motion, friction pyramids, normal forces, torque limits, joint bounds, joint friction.

    Args:
        robot: the robot.
        dt: control period [s].
    """
    return [
        ContactMotion(robot), FrictionPyramid(), NormalForce(), TorqueLimits(robot), JointBounds(robot, dt),
        JointFriction(robot),
    ]  # fmt: skip


def default_tasks(robot: Robot) -> list[list[Element]]:
    """Returns level 1 ("com", "base" orientation, swing feet by their names) and level 2 ("posture" and "forces").

    With a fixed root there is only a posture task, since contact forces move neither the center of mass nor the base.

    Args:
        robot: the robot.
    """
    if robot.root == "fixed":
        return [[PostureTask(robot)]]
    first: list[Element] = [ComTask(robot), FrameOrientationTask(robot, robot.bodies[0].name, "base")]
    first += [FootTask(robot, foot) for foot in robot.feet]
    return [first, [PostureTask(robot), ForceTask(robot)]]
