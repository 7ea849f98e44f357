"""`make_trial_terrain`: terrain of a trial, from the numbers of its case."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pinocchio as pin

from ..locomotion import Morphology
from ..robot import Robot
from ..simulation.terrain import Box, HeightField, Plane, Surface
from ..urdf.tree import Array
from .trial import Trial

#: Length of level ground before stairs, rubble and relief, from the center of the feet, and length of these [l].
LEVEL_LENGTH, FIELD_LENGTH = 1.0, 4.0
#: Number of steps of stairs, and width and thickness of their blocks [l].
N_STAIR_STEPS, TERRAIN_WIDTH, STEP_THICKNESS = 4, 8.0, 3.0
#: Fraction of the ground that rubble covers, and width of the rubble [l].
RUBBLE_COVERAGE, RUBBLE_WIDTH = 0.35, 2.4
#: Number of waves of a relief, range of wave numbers [1/l], grid spacing, and length of the transition from level
#: ground [l].
N_WAVES, WAVE_NUMBER_RANGE, GRID_SPACING, TRANSITION_LENGTH = 8, (2.0, 4.5), 0.05, 1.0


def make_trial_terrain(case: Trial, p: Morphology, robot: Robot, rng: np.random.Generator) -> list[Surface] | None:
    """Returns the terrain of a case in the initial heading of the robot; None for level ground."""
    yaw = p.yaw(robot.q_home)
    if case.slope:
        return [Plane.slope(case.slope, heading=case.slope_direction + yaw)]
    if case.step:
        return [Plane.floor(), _make_slab(case.step_distance, 40.0 * p.length, case.step, yaw)]
    if case.strips:
        return _make_strips(case.strips, p.length, yaw, rng)
    if case.boxes:
        return [Plane.floor(), *_make_boxes(case.boxes, p, yaw, rng)]
    if case.stairs:
        return _make_stairs(case.stairs, case.tread, p.length, yaw, rng)
    if case.rubble:
        return [Plane.floor(), *_make_rubble(case.rubble, p.length, yaw, rng)]
    if case.relief:
        return [_make_relief(case.relief, p.length, yaw, rng)]
    return None


def _make_slab(
    start: float, length: float, height: float, yaw: float, *, width: float = 20.0, depth: float = 1.0
) -> Box:
    """Returns solid ground up to a height over a length of the path [m], across its whole width."""
    R = pin.exp3(np.array([0.0, 0.0, yaw]))
    center = R @ np.array([start + 0.5 * length, 0.0, height - 0.5 * depth])
    return Box(center, np.array([length, width, depth]), R)


def _make_strips(max_height_step: float, length: float, yaw: float, rng: np.random.Generator) -> list[Surface]:
    """Returns level ground at the start, then strips of random length and height."""
    start = 0.7 * length
    strips: list[Surface] = [_make_slab(-10.0, 10.0 + start, 0.0, yaw)]
    height = 0.0
    while start < 15.0 * length:
        width = rng.uniform(0.5, 1.2) * length
        height += rng.uniform(-1.0, 1.0) * max_height_step
        strips.append(_make_slab(start, width, height, yaw))
        start += width
    return strips


def _make_boxes(height: float, p: Morphology, yaw: float, rng: np.random.Generator) -> list[Box]:
    """Returns boxes of one height that cover a tenth of the ground ahead, none under the first footholds."""
    front, half_width = float(np.abs(p.nominal_stance[:, 0]).max()), 2.0 * p.length
    boxes = []
    for _ in range(round(0.1 * 12.0 * 4.0 / 0.25)):
        size = rng.uniform(0.3, 0.7, 2) * p.length
        x = front + rng.uniform(0.6, 12.0) * p.length
        center = np.array([x, rng.uniform(-half_width, half_width), 0.5 * height])
        box_yaw = yaw + rng.uniform(-math.pi, math.pi)
        R = pin.exp3(np.array([0.0, 0.0, yaw]))
        boxes.append(Box(R @ center, np.array([*size, height]), pin.exp3(np.array([0.0, 0.0, box_yaw]))))
    return boxes


def _make_stairs(rise: float, tread: float, length: float, yaw: float, rng: np.random.Generator) -> list[Surface]:
    """Returns stairs that rise by `rise` per step, or descend, starting within the first tread."""
    first = LEVEL_LENGTH * length + rng.uniform(0.0, tread)
    edges = first + tread * np.arange(N_STAIR_STEPS)
    ends = [-10.0 * length, *edges, edges[-1] + 10.0 * length]
    return [
        _make_slab(a, b - a, rise * i, yaw, width=TERRAIN_WIDTH * length, depth=STEP_THICKNESS * length)
        for i, (a, b) in enumerate(itertools.pairwise(ends))
    ]


def _make_rubble(max_height: float, length: float, yaw: float, rng: np.random.Generator) -> list[Surface]:
    """Returns boxes of random size, height and heading on a floor."""
    R = pin.exp3(np.array([0.0, 0.0, yaw]))
    boxes: list[Surface] = []
    for _ in range(round(RUBBLE_COVERAGE * FIELD_LENGTH * RUBBLE_WIDTH / 0.25)):
        size = rng.uniform(0.3, 0.7, 2) * length
        height = rng.uniform(0.2, 1.0) * max_height
        x, y = LEVEL_LENGTH + 0.4 + rng.uniform(0.0, FIELD_LENGTH), rng.uniform(-0.5, 0.5) * RUBBLE_WIDTH
        box_yaw = yaw + rng.uniform(-math.pi, math.pi)
        center = R @ np.array([x * length, y * length, 0.5 * height])
        boxes.append(Box(center, np.array([*size, height]), pin.exp3(np.array([0.0, 0.0, box_yaw]))))
    return boxes


def _make_relief(amplitude: float, length: float, yaw: float, rng: np.random.Generator) -> HeightField:
    """Returns smooth random terrain, level where the robot starts."""
    low, high = _bounding_rectangle(np.array([-3.0, -0.5 * TERRAIN_WIDTH]), np.array([15.0, 0.5 * TERRAIN_WIDTH]), yaw)
    counts = np.ceil((high - low) / GRID_SPACING - 1e-9).astype(int) + 1
    X, Y = np.meshgrid(*(a + GRID_SPACING * np.arange(n) for a, n in zip(low, counts, strict=True)), indexing="ij")
    ahead, left = math.cos(yaw) * X + math.sin(yaw) * Y, math.cos(yaw) * Y - math.sin(yaw) * X
    heights = np.zeros_like(X)
    for _ in range(N_WAVES):
        wave_number, direction, phase = (
            rng.uniform(*WAVE_NUMBER_RANGE),
            rng.uniform(-math.pi, math.pi),
            rng.uniform(0.0, 2.0 * math.pi),
        )
        heights += np.sin(wave_number * (ahead * math.cos(direction) + left * math.sin(direction)) + phase)
    heights *= amplitude / np.abs(heights).max()
    ramp = np.clip((ahead - 0.6 * LEVEL_LENGTH) / TRANSITION_LENGTH, 0.0, 1.0)
    heights *= ramp * ramp * (3.0 - 2.0 * ramp)
    return HeightField(length * low, np.full(2, GRID_SPACING * length), heights)


def _bounding_rectangle(low: Array, high: Array, yaw: float) -> tuple[Array, Array]:
    """Returns the corners of the axis-aligned rectangle around a rotated one."""
    corners = np.array(list(itertools.product(*zip(low, high, strict=True))))
    c, s = math.cos(yaw), math.sin(yaw)
    rotated = corners @ np.array([[c, s], [-s, c]])
    return rotated.min(axis=0), rotated.max(axis=0)
