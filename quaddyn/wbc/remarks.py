"""`friction_remarks`: what a tick's joint friction takes from the motors, in words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..robot.robot import Robot
from ..urdf.tree import Array, first_largest
from .codes import JOINT_FRICTION
from .constraints.joint_friction import joint_friction_parameters
from .data import Model
from .problem_rows import CODE, START

#: Torque [N m] that is worth a sentence.
NOTED = 1e-3


def friction_remarks(robot: Robot, model: Model, numbers: Array, v: Array, taken: Array) -> tuple[str, ...]:
    """At most two sentences.

    Args:
        robot: whose record says what friction there is.
        model: of the controller.
        numbers: parameters of the elements at the tick.
        v: (nv,) the velocity.
        taken: (nu,) torques that overcome friction [N m].
    """
    covered = np.zeros(robot.nv, dtype=bool)
    for item in model.items:
        if item[CODE] == JOINT_FRICTION:
            p = joint_friction_parameters(numbers[item[START] :], robot.nv)
            covered |= ((p.damping > 0.0) | (p.coulomb > 0.0)) & (p.share > 0.0)
    left = np.where(covered, 0.0, robot.friction + robot.damping * np.abs(v))[robot.actuated_index]
    out = []
    if np.abs(taken).max(initial=0.0) > NOTED:
        out.append(f"joint friction takes {_largest(robot.actuated, taken)}")
    if left.max(initial=0.0) > NOTED:
        out.append(f"joint friction that nothing compensates takes {_largest(robot.actuated, left)}")
    return tuple(out)


def _largest(joints: Sequence[str], torques: Array) -> str:
    i = first_largest(np.abs(torques))
    return f"up to {abs(torques[i]):.3g} N m ({joints[i]})"
