"""Teleoperation from the viewer's page: velocity commands from keys and a gamepad, gains from sliders."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

import numpy as np

from ..locomotion import FEET, LocomotionController, Morphology
from ..urdf.tree import Array

if TYPE_CHECKING:
    from ..viewer import Viewer

#: Direction of each key: forward, leftward, turning left.
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
#: Forward and lateral speed [sqrt(g l)] and yaw rate [sqrt(g / l)] of a key, and their factor with shift.
KEY_SPEEDS, SHIFT_FACTOR = (0.25, 0.2, 0.12), 1.5
HELP = "W S or up down: along; A D or left right: turn; Q E: sideways; shift: faster; or a gamepad"
#: Tasks of whole-body control by their title on the page, and limits of the scales of stiffness and damping.
TASKS = {"height": ("com",), "attitude of the trunk": ("base",), "feet in the air": FEET}
MIN_STIFFNESS_SCALE, MAX_STIFFNESS_SCALE, MIN_DAMPING_SCALE, MAX_DAMPING_SCALE = 0.25, 4.0, 0.3, 2.0


def velocity_from_keys(
    keys: Collection[str], proportions: Morphology, axes: tuple[float, float, float] = (0.0, 0.0, 0.0)
) -> Array | None:
    """Returns the velocity command (3,) of pressed keys and gamepad sticks; None without either.

    Opposite keys cancel, and two keys for the same direction count once. A stick at its end counts as a key with shift;
    sticks add to keys.

    Args:
        keys: pressed keys.
        proportions: scales of the robot.
        axes: gamepad stick deflections forward, leftward and turning left, -1 to 1.

    Returns:
        Forward and leftward velocity [m/s] and yaw rate [rad/s], or None.
    """
    directions = [DIRECTIONS[key] for key in keys if key in DIRECTIONS]
    if not directions and not any(axes):
        return None
    pressed = np.array(directions, dtype=np.float64).reshape(-1, 3).sum(axis=0)
    fraction = np.clip(pressed, -1.0, 1.0) * (SHIFT_FACTOR if "ShiftLeft" in keys else 1.0)
    fraction = np.clip(fraction + SHIFT_FACTOR * np.array(axes), -SHIFT_FACTOR, SHIFT_FACTOR)
    p = proportions
    return np.asarray(
        fraction
        * np.array([KEY_SPEEDS[0] * p.speed_scale, KEY_SPEEDS[1] * p.speed_scale, KEY_SPEEDS[2] / p.time_scale])
    )


class GainSliders:
    """Sliders for the gains of whole-body control.

    Args:
        controller: controller whose gains are scaled, from their present values on.
        viewer: viewer whose page has the sliders.
    """

    def __init__(self, controller: LocomotionController, viewer: Viewer) -> None:
        self._tasks = controller.wbc.tasks
        names = [name for group in TASKS.values() for name in group]
        self._initial_gains = {name: (self._tasks[name].stiffness, self._tasks[name].damping) for name in names}
        for task_group in TASKS:
            viewer.add_slider(
                _stiffness_slider(task_group), MIN_STIFFNESS_SCALE, MAX_STIFFNESS_SCALE, 1.0, unit="x", group="gains"
            )
            viewer.add_slider(
                _damping_slider(task_group), MIN_DAMPING_SCALE, MAX_DAMPING_SCALE, 1.0, unit="x critical", group="gains"
            )
        self._last_values = viewer.sliders

    def apply(self, sliders: Mapping[str, float]) -> None:
        """Sets the gains of all tasks if a slider has changed.

        Args:
            sliders: scale of stiffness or damping by slider name, dimensionless.
        """
        if sliders == self._last_values:
            return
        self._last_values = dict(sliders)
        for group, names in TASKS.items():
            stiffness_scale, damping_scale = sliders[_stiffness_slider(group)], sliders[_damping_slider(group)]
            for name in names:
                kp, kd = self._initial_gains[name]
                self._tasks[name].gains(stiffness_scale * kp, damping_scale * np.sqrt(stiffness_scale) * kd)


def _stiffness_slider(group: str) -> str:
    """Returns the name of the stiffness slider of a group of tasks."""
    return f"{group}: stiffness"


def _damping_slider(group: str) -> str:
    """Returns the name of the damping slider of a group of tasks."""
    return f"{group}: damping"
