"""The constraints and tasks of a `WholeBodyController` that is given none."""

from __future__ import annotations

from ..robot.robot import Robot
from .constraints import ContactMotion, FrictionPyramid, JointBounds, JointFriction, NormalForce, TorqueLimits
from .element import Element
from .tasks import ComTask, FootTask, ForceTask, FrameOrientationTask, PostureTask


def default_constraints(robot: Robot, dt: float) -> list[Element]:
    """Level 0: contacts hold, friction pyramids, normal forces, torque limits, joint bounds, friction of the joints."""
    return [
        ContactMotion(robot), FrictionPyramid(), NormalForce(), TorqueLimits(robot), JointBounds(robot, dt),
        JointFriction(robot),
    ]  # fmt: skip


def default_tasks(robot: Robot) -> list[list[Element]]:
    """Level 1: "com", "base" (orientation) and each foot in the air by its name; level 2: "posture" and "forces".

    With a fixed root there is only a posture: neither centre of mass nor base can be controlled by contact forces.
    """
    if robot.root == "fixed":
        return [[PostureTask(robot)]]
    first: list[Element] = [ComTask(robot), FrameOrientationTask(robot, robot.bodies[0].name, "base")]
    first += [FootTask(robot, foot) for foot in robot.feet]
    return [first, [PostureTask(robot), ForceTask(robot)]]
