"""`JointPD`: springs and dampers at the joints, sized by the robot's own inertia."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..dynamics import Dynamics
from ..dynamics.arguments import check_vector
from ..errors import ArgumentError
from ..robot.robot import Robot
from ..urdf.tree import Array, frozen


@dataclass(frozen=True, slots=True, eq=False)
class JointTorque:
    """What `JointPD` asks of the motors.

    Attributes:
        tau: (nu,) torques within ``robot.effort_limits`` [N m].
        saturated: names of the joints whose torque was cut.
    """

    tau: Array
    saturated: tuple[str, ...]


class JointPD:
    """Proportional-derivative control of the actuated joints, ``tau = kp (q* - q) + kd (v* - v) + feedforward``.

    Default gains come from the robot alone.  With J_f the column of a foot's Jacobian, a leg's joint sees in
    stance the inertia ``I = M_ii + (mass / feet) |J_f|^2`` (its share of the trunk, by its lever) and any other joint
    ``I = M_ii``, all at ``q_home``; then ``kp = I w^2`` and ``kd = 2 zeta I w`` with ``w = 2 pi bandwidth``.  A leg in
    the air is much lighter than one that stands, so that a digital damper sized for stance could be unstable there:
    kd is capped at ``1 / (2 dt (M^-1)_ii)``, where ``1 / (M^-1)_ii`` is the least inertia the joint can meet (all
    others free), which makes ``|1 - kd dt / inertia| < 1`` with room for the coupling between the joints of a leg;
    and kp at what that damper can damp critically, ``kd^2 (M^-1)_ii / 4``... never raised.

    Args:
        robot: any robot.
        kp: (nu,) or scalar stiffness [N m/rad or N/m]; from the inertia by default.
        kd: (nu,) or scalar damping [N m s/rad or N s/m]; from the inertia by default.
        bandwidth: natural frequency of the default gains [Hz].
        damping_ratio: zeta of the default gains.
        dt: period of the control loop [s], for the cap above.

    Attributes:
        robot: as given.
        kp: (nu,) read-only.
        kd: (nu,) read-only.

    Raises:
        ArgumentError: a gain that is negative, not finite or of the wrong shape, or another value out of range.
    """
