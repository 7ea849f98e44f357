"""Inputs of the live page.

- `Slider`: a number that the user sets.
- `Spring`: the force with which the mouse pulls a link of the robot.
- The position of the camera.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
import pinocchio as pin

from ..errors import ArgumentError
from ..robot.arguments import check_number, check_positive, check_type
from ..robot.robot import Robot
from ..urdf.tree import Array


@dataclass(frozen=True, slots=True)
class Slider:
    """Slider on the live page; `start` is its initial value, and `unit` is the text after the value."""

    name: str
    low: float
    high: float
    start: float
    unit: str
    group: str

    @classmethod
    def validated(cls, name: str, low: float, high: float, value: float, unit: str, group: str) -> Self:
        """Returns a slider from arguments of `Viewer.add_slider`.

        Raises:
            ArgumentTypeError: a text or number of a wrong type.
            ArgumentError: limits that are not finite and in order, or a value beyond them.
        """
        for argument, text in (("name", name), ("unit", unit), ("group", group)):
            check_type(argument, text, str, "a str")
        low, high, value = check_number("low", low), check_number("high", high), check_number("value", value)
        if not (np.isfinite([low, high, value]).all() and low < high and low <= value <= high):
            raise ArgumentError(f"slider {name!r}: expected low <= value <= high, got {low:g}, {value:g}, {high:g}")
        return cls(name, low, high, value, unit, group)


#: Extension at which the spring reaches its largest force [robot lengths].
MAX_EXTENSION = 0.5
#: Damping ratio of the spring with the mass of the whole robot.
DAMPING_RATIO = 0.2


class Pull(NamedTuple):
    """Spring that a page has attached to the robot."""

    body: int  # index of the body
    point: tuple[float, float, float]  # (3,) attached point in the frame of the body's slot [m]
    target: tuple[float, float, float]  # (3,) other end, world [m]


class Spring:
    """Spring with damping and a bounded force.

    Args:
        robot: robot that is pulled.
        joints: index of the Pinocchio joint that carries each body.
        size: length of the robot [m].
        max_force: largest force [N].
    """

    def __init__(self, robot: Robot, joints: Sequence[int], size: float, max_force: float) -> None:
        self._robot, self._joints, self._max_force = robot, joints, max_force
        self._stiffness = max_force / (MAX_EXTENSION * size)
        self._damping = 2.0 * DAMPING_RATIO * float(np.sqrt(self._stiffness * robot.mass))
        self._data = robot.model.createData()

    def compute_wrench(self, pull: Pull | None, q: Array, v: Array) -> dict[str, Array]:
        """Returns force and moment (6,) at the frame of the pulled link, world axes [N, N m]; {} without a pull.

        Args:
            pull: attached spring; None for none. One on a body that does not exist is ignored.
            q: (nq,) configuration.
            v: (nv,) velocity.
        """
        if pull is None or pull.body >= len(self._joints):
            return {}
        robot, data, name = self._robot, self._data, self._robot.bodies[pull.body].name
        robot.algorithms.forwardKinematics(robot.model, data, np.array(q), np.array(v))
        frame = pin.updateFramePlacement(robot.model, data, robot.frame_id(name))
        joint, point = self._joints[pull.body], np.array(pull.point)
        placement, velocity = data.oMi[joint], data.v[joint]
        position = placement.act(point)
        speed = placement.rotation @ (velocity.linear + np.cross(velocity.angular, point))
        force = self._stiffness * (np.array(pull.target) - position) - self._damping * speed
        force *= min(1.0, self._max_force / max(float(np.linalg.norm(force)), 1e-12))
        return {name: np.concatenate((force, np.cross(position - frame.translation, force)))}


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
