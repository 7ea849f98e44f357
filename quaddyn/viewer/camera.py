"""Where the camera stands."""

from __future__ import annotations

import numpy as np

from ..errors import ArgumentError
from ..robot.arguments import positive
from ..urdf.tree import Array


def placed(
    target: Array, size: float, distance: float | None, azimuth: float, elevation: float, fov: float
) -> dict[str, object]:
    """Position, target and field of view, for the page.

    Args:
        target: (3,) point in the middle of the picture, world [m].
        size: of what should be seen whole where there is no distance [m].
        distance: from the target [m], or None.
        azimuth: turned about z from the x axis [deg].
        elevation: above the horizon [deg].
        fov: vertical field of view [deg].

    Raises:
        ArgumentError: a number is out of range.
    """
    if not (np.isfinite(azimuth) and -90 <= elevation <= 90 and 0 < fov < 180):
        raise ArgumentError("azimuth, elevation in [-90, 90], fov in (0, 180): expected degrees in range")
    far = positive("distance", size / np.tan(np.deg2rad(fov) / 2) if distance is None else distance)
    a, e = np.deg2rad(azimuth), np.deg2rad(elevation)
    position = target + far * np.array([np.cos(e) * np.cos(a), np.cos(e) * np.sin(a), np.sin(e)])
    return {"position": position.tolist(), "target": target.tolist(), "fov": fov}
