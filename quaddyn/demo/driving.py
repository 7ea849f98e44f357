"""Driving by keys: what is held down on the viewer's page becomes a commanded velocity."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from ..locomotion import Proportions
from ..urdf.tree import Array

#: Forward, leftward and turning share of what each key asks for.
DIRECTIONS = {
    "KeyW": (1.0, 0.0, 0.0),
    "ArrowUp": (1.0, 0.0, 0.0),
    "KeyS": (-1.0, 0.0, 0.0),
    "ArrowDown": (-1.0, 0.0, 0.0),
    "KeyQ": (0.0, 1.0, 0.0),
    "KeyE": (0.0, -1.0, 0.0),
    "KeyA": (0.0, 0.0, 1.0),
    "ArrowLeft": (0.0, 0.0, 1.0),
    "KeyD": (0.0, 0.0, -1.0),
    "ArrowRight": (0.0, 0.0, -1.0),
}
#: Speeds along and across [sqrt(g l)] and yaw rate [sqrt(g / l)] of a key, and how many times faster with shift.
SPEEDS, FASTER = (0.25, 0.2, 0.12), 1.5
HELP = "W S or up down: along; A D or left right: turn; Q E: sideways; shift: faster"


def commanded(keys: Collection[str], proportions: Proportions) -> Array | None:
    """Velocity (3,) that held keys ask for: forward, leftward [m/s] and yaw rate [rad/s]; None without any of them.

    Opposite keys cancel, and two for the same count once.
    """
    held = [DIRECTIONS[key] for key in keys if key in DIRECTIONS]
    if not held:
        return None
    share = np.clip(np.sum(held, axis=0), -1.0, 1.0) * (FASTER if "ShiftLeft" in keys else 1.0)
    p = proportions
    return np.asarray(share * np.array([SPEEDS[0] * p.speed, SPEEDS[1] * p.speed, SPEEDS[2] / p.time]))
