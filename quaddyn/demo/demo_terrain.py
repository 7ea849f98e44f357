"""Grounds of the demo, by a word and its numbers: a slope, stairs or waves."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pinocchio as pin

from ..errors import ArgumentError, UnknownNameError
from ..locomotion import Morphology
from ..robot import Robot
from ..simulation.terrain import Box, HeightField, Plane, Terrain, stairs
from ..urdf.tree import Array, frozen

#: Each kind, its numbers and what they mean.
KINDS = {
    "slope": "slope=DEGREES[,DIRECTION]: all of the ground rises, ahead of the robot or so many degrees to its left",
    "stairs": "stairs=RISE,TREAD [m]: five steps up to a platform",
    "waves": "waves=HEIGHT,LENGTH [m]: smooth relief, level where the robot starts",
}
STEPS, PLATFORM = 5, 20.0
#: How far waves go [m], and samples over each.
EXTENT, SAMPLES = 8.0, 12


class DemoTerrain(NamedTuple):
    """What a robot of the demo walks on.

    Attributes:
        terrain: the surfaces.
        tilt: (3, 3) rotation from level ground to a slope; none on other ground.
    """

    terrain: Terrain
    tilt: Array


def parse_terrain(text: str, robot: Robot) -> DemoTerrain:
    """The ground that is called for, ahead of a robot that stands at home.

    Args:
        text: as in `KINDS`, such as "slope=10", "slope=10,180" (downhill), "stairs=0.05,0.3" or "waves=0.05,0.6".
        robot: a quadruped with a free root.

    Raises:
        UnknownNameError: another kind of ground.
        ArgumentError: numbers that are missing, too many, or out of range.
    """
    kind, _, rest = text.partition("=")
    if kind not in KINDS:
        raise UnknownNameError("ground", kind, KINDS)
    try:
        numbers = [float(part) for part in rest.split(",")]
    except ValueError:
        numbers = []
    least, most = (1, 2) if kind == "slope" else (2, 2)
    if not (least <= len(numbers) <= most and all(map(math.isfinite, numbers))):
        raise ArgumentError(f"ground: expected {KINDS[kind]}; got {text!r}")
    p = Morphology.from_robot(robot)
    yaw = p.yaw(robot.q_home)
    if kind == "slope":
        angle, direction = math.radians(numbers[0]), math.radians(sum(numbers[1:]))
        if not abs(angle) <= math.radians(45.0):
            raise ArgumentError(f"ground: expected a slope of at most 45 degrees, got {text!r}")
        plane = Plane.slope(angle, heading=yaw + direction)
        return DemoTerrain(Terrain.from_surfaces(plane), plane.tilt)
    height, length = numbers
    if not (0.0 < height <= 2.0 * p.length and 0.2 * height <= length <= 100.0 * p.length):
        raise ArgumentError(
            f"ground: expected {KINDS[kind]}, of a height that legs of {p.length:.2f} m know; got {text!r}"
        )
    front = float(np.abs(p.nominal_stance[:, 0]).max()) + 0.5 * p.length
    if kind == "stairs":
        end = front + STEPS * length
        middle = end + 0.5 * PLATFORM
        R = pin.exp3(np.array([0.0, 0.0, yaw]))
        top = Box(R @ (middle, 0.0, 0.5 * STEPS * height), np.array([PLATFORM, 4.0, STEPS * height]), R)
        steps = stairs(STEPS, rise=height, tread=length, distance=front, heading=yaw)
        return DemoTerrain(Terrain.from_surfaces([Plane.floor(), *steps, top]), frozen(np.eye(3)))

    def waves(x: Array, y: Array) -> Array:
        away = np.clip((np.hypot(x, y) - front) / length, 0.0, 1.0)
        k = 2.0 * math.pi / length
        return np.asarray(0.5 * height * away * np.sin(k * x) * np.cos(k * y))

    far = max(EXTENT, 10.0 * p.length)
    field = HeightField.from_function(waves, (-far, far), (-far, far), spacing=max(length / SAMPLES, far / 500.0))
    return DemoTerrain(Terrain.from_surfaces(field), frozen(np.eye(3)))
