"""Friction compensation: what the joints' own friction takes from the motors."""

from __future__ import annotations

import numpy as np

from ..robot.arguments import check_positive, check_vector
from ..robot.robot import Robot
from ..urdf.tree import Array
from .gains import check_robot


def friction_compensation(robot: Robot, v_wanted: Array, *, stiction_speed: float = 1e-3) -> Array:
    """Torques that the joints' viscous and Coulomb friction take at a wanted velocity.

    ``damping v + friction v / max(|v|, stiction_speed)``: Coulomb's law, made continuous, so that a joint that should
    stand still gets no push from the sign of a rounding error.  Give it the wanted velocity, not the measured one,
    whose noise it would feed back.

    Args:
        robot: whose ``damping`` and ``friction`` are compensated.
        v_wanted: (nv,) wanted velocity [rad/s or m/s].
        stiction_speed: speed below which Coulomb friction is proportional to the velocity [rad/s or m/s].

    Returns:
        (nu,) torques of the actuated joints [N m or N].

    Raises:
        ArgumentError: `v_wanted` of the wrong shape or not finite, or a speed that is not positive.
    """
    check_robot(robot)
    speed = check_positive("stiction_speed", stiction_speed)
    v_wanted = check_vector("v_wanted", v_wanted, (robot.nv,), f"nv of {robot.name}")
    coulomb = robot.friction * v_wanted / np.maximum(np.abs(v_wanted), speed)
    return np.asarray((robot.damping * v_wanted + coulomb)[robot.actuated_index])
