"""Terrains of the demo from a text specification: a slope, stairs or waves."""

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

#: Format of each kind of terrain.
KINDS = {
    "slope": "slope=DEGREES[,DIRECTION]: a plane that rises ahead of the robot, or DIRECTION degrees to its left",
    "stairs": "stairs=RISE,TREAD [m]: five steps up to a platform",
    "waves": "waves=HEIGHT,LENGTH [m]: smooth waves, level where the robot starts",
}
#: Number of steps of the stairs, and length of the platform at their top [m].
N_STAIR_STEPS, PLATFORM_LENGTH = 5, 20.0
#: Half the side length of the field of waves [m], and samples per wave length.
WAVES_HALF_SIZE, SAMPLES_PER_WAVE = 8.0, 12


class DemoTerrain(NamedTuple):
    """Terrain of a demo.

    Attributes:
        terrain: surfaces.
        tilt: (3, 3) rotation from level ground to a slope; identity for other terrains.
    """

    terrain: Terrain
    tilt: Array


def parse_terrain(text: str, robot: Robot) -> DemoTerrain:
    """Returns the terrain of a specification, ahead of a robot in its home configuration.

    Args:
        text: specification as in `KINDS`, such as "slope=10", "slope=10,180" (downhill), "stairs=0.05,0.3" or
            "waves=0.05,0.6".
        robot: quadruped with a free root.

    Raises:
        UnknownNameError: an unknown kind of terrain.
        ArgumentError: wrong number of values, or a value out of range.
    """
    kind, _, values = text.partition("=")
    if kind not in KINDS:
        raise UnknownNameError("terrain", kind, KINDS)
    try:
        numbers = [float(part) for part in values.split(",")]
    except ValueError:
        numbers = []
    min_count, max_count = (1, 2) if kind == "slope" else (2, 2)
    if not (min_count <= len(numbers) <= max_count and all(map(math.isfinite, numbers))):
        raise ArgumentError(f"terrain: expected {KINDS[kind]}; got {text!r}")
    scales = Morphology.from_robot(robot)
    yaw = scales.yaw(robot.q_home)
    if kind == "slope":
        angle, direction = math.radians(numbers[0]), math.radians(sum(numbers[1:]))
        if not abs(angle) <= math.radians(45.0):
            raise ArgumentError(f"terrain: expected a slope of at most 45 degrees, got {text!r}")
        plane = Plane.slope(angle, heading=yaw + direction)
        return DemoTerrain(Terrain.from_surfaces(plane), plane.tilt)
    height, length = numbers
    if not (0.0 < height <= 2.0 * scales.length and 0.2 * height <= length <= 100.0 * scales.length):
        raise ArgumentError(
            f"terrain: expected {KINDS[kind]}, with HEIGHT at most twice the leg length {scales.length:.2f} m; "
            f"got {text!r}"
        )
    start_distance = float(np.abs(scales.nominal_stance[:, 0]).max()) + 0.5 * scales.length
    if kind == "stairs":
        stairs_end = start_distance + N_STAIR_STEPS * length
        platform_center = stairs_end + 0.5 * PLATFORM_LENGTH
        R = pin.exp3(np.array([0.0, 0.0, yaw]))
        platform = Box(
            R @ (platform_center, 0.0, 0.5 * N_STAIR_STEPS * height),
            np.array([PLATFORM_LENGTH, 4.0, N_STAIR_STEPS * height]),
            R,
        )
        stair_boxes = stairs(N_STAIR_STEPS, rise=height, tread=length, distance=start_distance, heading=yaw)
        return DemoTerrain(Terrain.from_surfaces([Plane.floor(), *stair_boxes, platform]), frozen(np.eye(3)))

    def waves(x: Array, y: Array) -> Array:
        amplitude_scale = np.clip((np.hypot(x, y) - start_distance) / length, 0.0, 1.0)
        wave_number = 2.0 * math.pi / length
        return np.asarray(0.5 * height * amplitude_scale * np.sin(wave_number * x) * np.cos(wave_number * y))

    half_size = max(WAVES_HALF_SIZE, 10.0 * scales.length)
    field = HeightField.from_function(
        waves,
        (-half_size, half_size),
        (-half_size, half_size),
        spacing=max(length / SAMPLES_PER_WAVE, half_size / 500.0),
    )
    return DemoTerrain(Terrain.from_surfaces(field), frozen(np.eye(3)))
