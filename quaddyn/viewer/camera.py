"""Position of the camera."""

from __future__ import annotations

import numpy as np

from ..errors import ArgumentError
from ..robot.arguments import check_positive
from ..urdf.tree import Array


def camera_parameters(
    target: Array, size: float, distance: float | None, azimuth: float, elevation: float, fov: float
) -> dict[str, object]:
    """Returns position, target and field of view of the camera for the page.

    Args:
        target: (3,) point in the center of the picture, world [m].
        size: length that is completely visible if `distance` is None [m].
        distance: distance from the target [m], or None.
        azimuth: direction of the camera from the target about z, from the x axis [deg].
        elevation: angle above the horizon [deg].
        fov: vertical field of view [deg].

    Raises:
        ArgumentError: a number is out of range.
    """
    if not (np.isfinite(azimuth) and -90 <= elevation <= 90 and 0 < fov < 180):
        raise ArgumentError(
            "azimuth, elevation, fov: expected a finite azimuth, an elevation in [-90, 90] and an fov in (0, 180) "
            "degrees"
        )
    camera_distance = check_positive("distance", size / np.tan(np.deg2rad(fov) / 2) if distance is None else distance)
    a, e = np.deg2rad(azimuth), np.deg2rad(elevation)
    position = target + camera_distance * np.array([np.cos(e) * np.cos(a), np.cos(e) * np.sin(a), np.sin(e)])
    return {"position": position.tolist(), "target": target.tolist(), "fov": fov}
