"""`compute_center_of_pressure`: the center of pressure of a surface contact."""

from __future__ import annotations

import numpy as np

from ..urdf.tree import Array


def compute_center_of_pressure(center: Array, normal: Array, wrench: Array) -> Array | None:
    """Computes the center of pressure of a surface (Sardain and Bessonnet 2004, "Forces acting on a biped robot").

    Args:
        center: (3,) center of the surface, world axes [m].
        normal: (3,) unit normal of the surface, out of the ground, world axes.
        wrench: (6,) force and moment about the center, on the robot, world axes [N, N m].

    Returns:
        (3,) in the plane of the surface, world axes [m]; None where the normal force is not positive.
    """
    normal_force = float(normal @ wrench[:3])
    return np.asarray(center + np.cross(normal, wrench[3:]) / normal_force) if normal_force > 0.0 else None
