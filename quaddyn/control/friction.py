"""Friction compensation: torques that overcome the joints' own friction."""

from __future__ import annotations

import numpy as np

from ..deprecation import renamed_parameters
from ..robot.arguments import check_positive, check_vector
from ..robot.robot import Robot
from ..urdf.tree import Array
from .gains import check_robot


@renamed_parameters(v_wanted="v_desired")
def friction_compensation(robot: Robot, v_desired: Array, *, stiction_speed: float = 1e-3) -> Array:
    """Computes the torques of the joints' viscous and Coulomb friction at a desired velocity.

    ``damping v + friction v / max(|v|, stiction_speed)``: Coulomb's law, made continuous, so that rounding errors cause
    no torque at rest.  Pass the desired velocity, not the measured one, whose noise would be fed back.

    Args:
        robot: its ``damping`` and ``friction`` are compensated.
        v_desired: (nv,) desired velocity [rad/s or m/s].
        stiction_speed: speed below which Coulomb friction is proportional to the velocity [rad/s or m/s].

    Returns:
        (nu,) torques of the actuated joints [N m or N].

    Raises:
        ArgumentError: `v_desired` of the wrong shape or not finite, or a speed that is not positive.
    """
    check_robot(robot)
    speed = check_positive("stiction_speed", stiction_speed)
    v_desired = check_vector("v_desired", v_desired, (robot.nv,), f"nv of {robot.name}")
    coulomb = robot.friction * v_desired / np.maximum(np.abs(v_desired), speed)
    return np.asarray((robot.damping * v_desired + coulomb)[robot.actuated_index])
