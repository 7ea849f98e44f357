"""Driving from the viewer's page: keys and a gamepad become a commanded velocity, sliders become gains."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

import numpy as np

from ..locomotion import FEET, LocomotionController, Morphology
from ..urdf.tree import Array

if TYPE_CHECKING:
    from ..viewer import Viewer

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
HELP = "W S or up down: along; A D or left right: turn; Q E: sideways; shift: faster; or a gamepad"
#: Tasks of whole-body control by what the page calls them, and how far stiffness and damping may be changed.
TASKS = {"height": ("com",), "attitude of the trunk": ("base",), "feet in the air": FEET}
SOFTEST, STIFFEST, LOOSEST, TIGHTEST = 0.25, 4.0, 0.3, 2.0


def keyed_velocity(
    keys: Collection[str], proportions: Morphology, axes: tuple[float, float, float] = (0.0, 0.0, 0.0)
) -> Array | None:
    """Velocity (3,) that is asked for: forward, leftward [m/s] and yaw rate [rad/s]; None where nothing is.

    Opposite keys cancel, and two for the same count once.  Sticks that are held fully to one side count as a key with
    shift, and add to what keys ask for.
    """
    held = [DIRECTIONS[key] for key in keys if key in DIRECTIONS]
    if not held and not any(axes):
        return None
    pressed = np.array(held, dtype=np.float64).reshape(-1, 3).sum(axis=0)
    share = np.clip(pressed, -1.0, 1.0) * (FASTER if "ShiftLeft" in keys else 1.0)
    share = np.clip(share + FASTER * np.array(axes), -FASTER, FASTER)
    p = proportions
    return np.asarray(
        share * np.array([SPEEDS[0] * p.speed_scale, SPEEDS[1] * p.speed_scale, SPEEDS[2] / p.time_scale])
    )


class GainSliders:
    """Sliders for the feedback of whole-body control.

    Args:
        controller: whose tasks they act on, from their present gains on.
        viewer: whose page they are put on.
    """

    def __init__(self, controller: LocomotionController, viewer: Viewer) -> None:
        self._tasks = controller.wbc.tasks
        names = [name for group in TASKS.values() for name in group]
        self._start = {name: (self._tasks[name].stiffness, self._tasks[name].damping) for name in names}
        for what in TASKS:
            viewer.add_slider(_stiffness(what), SOFTEST, STIFFEST, 1.0, unit="x", group="gains")
            viewer.add_slider(_damping(what), LOOSEST, TIGHTEST, 1.0, unit="x critical", group="gains")
        self._set = viewer.sliders

    def apply(self, sliders: Mapping[str, float]) -> None:
        """Takes over what has been changed."""
        if sliders == self._set:
            return
        self._set = dict(sliders)
        for what, names in TASKS.items():
            stiff, tight = sliders[_stiffness(what)], sliders[_damping(what)]
            for name in names:
                kp, kd = self._start[name]
                self._tasks[name].gains(stiff * kp, tight * np.sqrt(stiff) * kd)


def _stiffness(what: str) -> str:
    return f"{what}: stiffness"


def _damping(what: str) -> str:
    return f"{what}: damping"
