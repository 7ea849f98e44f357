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

#: Level ground before stairs, rubble and relief, from the middle of the feet, and how far these go on [l].
LEAD, FIELD = 1.0, 4.0
#: Steps of stairs, of which each is so wide, and so deep a block [l].
STEPS, WIDE, DEEP = 4, 8.0, 3.0
#: Share of the ground that rubble covers, and how wide it lies [l].
COVERED, ACROSS = 0.35, 2.4
#: Waves of a relief, their wave numbers [1/l], the distance of its points, and over how far it rises from level [l].
WAVES, NUMBERS, SPACING, RISING = 8, (2.0, 4.5), 0.05, 1.0


def make_trial_terrain(case: Trial, p: Morphology, robot: Robot, rng: np.random.Generator) -> list[Surface] | None:
    """Returns the terrain of a case in the initial heading of the robot; None for level ground."""
    yaw = p.yaw(robot.q_home)
    if case.slope:
        return [Plane.slope(case.slope, heading=case.slope_direction + yaw)]
    if case.step:
        return [Plane.floor(), _slab(case.step_distance, 40.0 * p.length, case.step, yaw)]
    if case.strips:
        return _strips(case.strips, p.length, yaw, rng)
    if case.boxes:
        return [Plane.floor(), *_boxes(case.boxes, p, yaw, rng)]
    if case.stairs:
        return _stairs(case.stairs, case.tread, p.length, yaw, rng)
    if case.rubble:
        return [Plane.floor(), *_rubble(case.rubble, p.length, yaw, rng)]
    if case.relief:
        return [_relief(case.relief, p.length, yaw, rng)]
    return None


def _slab(start: float, length: float, height: float, yaw: float, *, width: float = 20.0, depth: float = 1.0) -> Box:
    """Returns solid ground up to a height over a length of the path [m], across its whole width."""
    R = pin.exp3(np.array([0.0, 0.0, yaw]))
    center = R @ np.array([start + 0.5 * length, 0.0, height - 0.5 * depth])
    return Box(center, np.array([length, width, depth]), R)


def _strips(most: float, length: float, yaw: float, rng: np.random.Generator) -> list[Surface]:
    """Returns level ground at the start, then strips of random length and height."""
    start = 0.7 * length
    out: list[Surface] = [_slab(-10.0, 10.0 + start, 0.0, yaw)]
    height = 0.0
    while start < 15.0 * length:
        width = rng.uniform(0.5, 1.2) * length
        height += rng.uniform(-1.0, 1.0) * most
        out.append(_slab(start, width, height, yaw))
        start += width
    return out


def _boxes(height: float, p: Morphology, yaw: float, rng: np.random.Generator) -> list[Box]:
    """Returns boxes of one height that cover a tenth of the ground ahead, none under the first footholds."""
    front, half_width = float(np.abs(p.nominal_stance[:, 0]).max()), 2.0 * p.length
    out = []
    for _ in range(round(0.1 * 12.0 * 4.0 / 0.25)):
        size = rng.uniform(0.3, 0.7, 2) * p.length
        x = front + rng.uniform(0.6, 12.0) * p.length
        center = np.array([x, rng.uniform(-half_width, half_width), 0.5 * height])
        turn = yaw + rng.uniform(-math.pi, math.pi)
        R = pin.exp3(np.array([0.0, 0.0, yaw]))
        out.append(Box(R @ center, np.array([*size, height]), pin.exp3(np.array([0.0, 0.0, turn]))))
    return out


def _stairs(rise: float, tread: float, length: float, yaw: float, rng: np.random.Generator) -> list[Surface]:
    """Returns stairs that rise by `rise` per step, or descend, starting within the first tread."""
    first = LEAD * length + rng.uniform(0.0, tread)
    edges = first + tread * np.arange(STEPS)
    ends = [-10.0 * length, *edges, edges[-1] + 10.0 * length]
    return [
        _slab(a, b - a, rise * i, yaw, width=WIDE * length, depth=DEEP * length)
        for i, (a, b) in enumerate(itertools.pairwise(ends))
    ]


def _rubble(most: float, length: float, yaw: float, rng: np.random.Generator) -> list[Surface]:
    """Returns boxes of random size, height and heading on a floor."""
    R = pin.exp3(np.array([0.0, 0.0, yaw]))
    out: list[Surface] = []
    for _ in range(round(COVERED * FIELD * ACROSS / 0.25)):
        size = rng.uniform(0.3, 0.7, 2) * length
        height = rng.uniform(0.2, 1.0) * most
        x, y = LEAD + 0.4 + rng.uniform(0.0, FIELD), rng.uniform(-0.5, 0.5) * ACROSS
        turn = yaw + rng.uniform(-math.pi, math.pi)
        center = R @ np.array([x * length, y * length, 0.5 * height])
        out.append(Box(center, np.array([*size, height]), pin.exp3(np.array([0.0, 0.0, turn]))))
    return out


def _relief(amplitude: float, length: float, yaw: float, rng: np.random.Generator) -> HeightField:
    """Returns smooth random terrain, level where the robot starts."""
    low, high = _around(np.array([-3.0, -0.5 * WIDE]), np.array([15.0, 0.5 * WIDE]), yaw)
    counts = np.ceil((high - low) / SPACING - 1e-9).astype(int) + 1
    X, Y = np.meshgrid(*(a + SPACING * np.arange(n) for a, n in zip(low, counts, strict=True)), indexing="ij")
    ahead, left = math.cos(yaw) * X + math.sin(yaw) * Y, math.cos(yaw) * Y - math.sin(yaw) * X
    heights = np.zeros_like(X)
    for _ in range(WAVES):
        number, way, shift = rng.uniform(*NUMBERS), rng.uniform(-math.pi, math.pi), rng.uniform(0.0, 2.0 * math.pi)
        heights += np.sin(number * (ahead * math.cos(way) + left * math.sin(way)) + shift)
    heights *= amplitude / np.abs(heights).max()
    share = np.clip((ahead - 0.6 * LEAD) / RISING, 0.0, 1.0)
    heights *= share * share * (3.0 - 2.0 * share)
    return HeightField(length * low, np.full(2, SPACING * length), heights)


def _around(low: Array, high: Array, yaw: float) -> tuple[Array, Array]:
    """Returns the corners of the axis-aligned rectangle around a rotated one."""
    corners = np.array(list(itertools.product(*zip(low, high, strict=True))))
    c, s = math.cos(yaw), math.sin(yaw)
    turned = corners @ np.array([[c, s], [-s, c]])
    return turned.min(axis=0), turned.max(axis=0)
