"""`pressure_point`: where the pressure of a surface acts."""

from __future__ import annotations

import numpy as np

from ..urdf.tree import Array


def pressure_point(centre: Array, normal: Array, wrench: Array) -> Array | None:
    """The centre of pressure of a surface (Sardain and Bessonnet 2004, "Forces acting on a biped robot").

    Args:
        centre: (3,) of the surface, world axes [m].
        normal: (3,) its unit normal, out of the ground.
        wrench: (6,) force and moment about the centre, on the robot, world axes [N, N m].

    Returns:
        (3,) in the plane of the surface, world axes [m]; None where nothing presses.
    """
    pressing = float(normal @ wrench[:3])
    return np.asarray(centre + np.cross(normal, wrench[3:]) / pressing) if pressing > 0.0 else None
