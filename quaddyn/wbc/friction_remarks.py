"""`friction_remarks`: sentences about joint friction at a tick, for explanations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..robot.robot import Robot
from ..urdf.tree import Array, first_largest
from .constraints.joint_friction import JointFriction, joint_friction_parameters
from .tick_data import ControllerModel

#: Smallest friction torque [N m] that is reported.
MIN_REPORTED_TORQUE = 1e-3


def friction_remarks(
    robot: Robot, model: ControllerModel, parameters: Array, v: Array, compensating_torque: Array
) -> tuple[str, ...]:
    """Returns at most two sentences about joint friction.

    Args:
        robot: the robot, with the friction and damping of its joints.
        model: model of the controller.
        parameters: parameters of the elements at the tick.
        v: (nv,) velocity.
        compensating_torque: (nu,) torques that compensate friction [N m].
    """
    is_compensated = np.zeros(robot.nv, dtype=bool)
    elements = model.elements
    for code, start in zip(elements.code, elements.first_parameter, strict=True):
        if code == JointFriction.kind.code:
            p = joint_friction_parameters(parameters[start:], robot.nv)
            is_compensated |= ((p.damping > 0.0) | (p.coulomb > 0.0)) & (p.compensation_fraction > 0.0)
    uncompensated = np.where(is_compensated, 0.0, robot.friction + robot.damping * np.abs(v))[robot.actuated_index]
    sentences = []
    if np.abs(compensating_torque).max(initial=0.0) > MIN_REPORTED_TORQUE:
        sentences.append(
            f"compensation of joint friction requires torques {_describe_largest(robot.actuated, compensating_torque)}"
        )
    if uncompensated.max(initial=0.0) > MIN_REPORTED_TORQUE:
        sentences.append(
            "joint friction that is not compensated causes torque errors "
            f"{_describe_largest(robot.actuated, uncompensated)}"
        )
    return tuple(sentences)


def _describe_largest(joints: Sequence[str], torques: Array) -> str:
    """Returns the largest torque and its joint as text."""
    i = first_largest(np.abs(torques))
    return f"up to {abs(torques[i]):.3g} N m ({joints[i]})"
