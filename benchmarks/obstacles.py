"""Quadrupeds over obstacles in proportion to their legs: stairs up and down, boxes, relief; with a map and blind.

Cells of robot, obstacle and plant, some trials each.  A trial succeeds if the robot passes the whole obstacle without a
fall, at the commanded speed along the way give or take a fifth.  All lengths are in leg lengths l and speeds in
``sqrt(g l)``.  ``--check`` exits with 1 where a cell misses the bar of its obstacle.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pinocchio as pin

import quaddyn as qd
from quaddyn.campaigns.worker_memory import generator, robot
from quaddyn.compiling import quietly
from quaddyn.locomotion import LocomotionController, Mode, Proportions
from quaddyn.simulation import MujocoPlant, Plant, Simulation
from quaddyn.simulation.terrain import Box, HeightField, Plane, Surface, Terrain

PLANTS: Mapping[str, type[Simulation] | type[MujocoPlant]] = {"embedded": Simulation, "mujoco": MujocoPlant}
ROBOTS = ("go2", "solo12", "anymal_c", "hyq", "b1", "laikago")
#: Level ground before the first edge, from the middle of the feet, and after the last [l].
LEAD, BEYOND = 1.0, 0.4
#: Commanded speed, what may be missed of it, and when it begins.
SPEED, MISS, START = 0.25, 0.2, 0.3
#: Width of the ground, and how deep solid blocks go [l].
WIDE, DEEP = 8.0, 3.0
#: Extent of boxes and relief along the way [l], and the share of the ground that boxes lie on.
FIELD, COVERED = 4.0, 0.35
#: A foot that presses with less than this share of the weight is not felt.
TOUCH = 0.02


@dataclass(frozen=True)
class Obstacle:
    """Ground in the robot's own heading frame, in units of its leg length.

    Attributes:
        make: its surfaces, of random numbers.
        length: from the first edge to the last [l].
        rise: from the first edge to the last [l].
        told: whether the controller is given the heights.
        bar: share of trials that should succeed.
    """

    make: Callable[[np.random.Generator], list[Surface]]
    length: float
    rise: float
    told: bool
    bar: float


def slab(start: float, end: float, height: float) -> Box:
    """Solid ground up to a height, across all of the way."""
    return Box(
        np.array([0.5 * (start + end), 0.0, height - 0.5 * DEEP]), np.array([end - start, WIDE, DEEP]), np.eye(3)
    )


def steps(rise: float, tread: float, count: int = 4) -> Obstacle:
    """Stairs that climb by `rise` a step, or go down."""

    def make(rng: np.random.Generator) -> list[Surface]:
        first = LEAD + rng.uniform(0.0, tread)
        edges = [-10.0, *(first + tread * np.arange(count)), first + tread * (count - 1) + 10.0]
        return [slab(a, b, rise * i) for i, (a, b) in enumerate(itertools.pairwise(edges))]

    return Obstacle(make, tread * count, rise * count, True, 0.9)


def boxes(most: float, told: bool) -> Obstacle:
    """Boxes of random size, height and heading, thrown about a floor."""

    def make(rng: np.random.Generator) -> list[Surface]:
        out: list[Surface] = [Plane.floor()]
        across = 2.4
        for _ in range(round(COVERED * FIELD * across / 0.25)):
            size = rng.uniform(0.3, 0.7, 2)
            height = rng.uniform(0.2, 1.0) * most
            center = LEAD + 0.4 + rng.uniform(0.0, FIELD), rng.uniform(-0.5, 0.5) * across, 0.5 * height
            turn = pin.exp3(np.array([0.0, 0.0, rng.uniform(-math.pi, math.pi)]))
            out.append(Box(np.array(center), np.array([*size, height]), turn))
        return out

    return Obstacle(make, FIELD, 0.0, told, 0.9)


def relief(amplitude: float, told: bool) -> Obstacle:
    """Smooth random ground, level where the robot starts."""

    def make(rng: np.random.Generator) -> list[Surface]:
        waves = [
            (rng.uniform(2.0, 4.5), rng.uniform(-math.pi, math.pi), rng.uniform(0.0, 2.0 * math.pi)) for _ in range(8)
        ]

        def raw(x: np.ndarray, y: np.ndarray) -> np.ndarray:
            return sum(np.sin(k * (x * math.cos(a) + y * math.sin(a)) + b) for k, a, b in waves) + 0.0 * x

        X, Y = np.meshgrid(np.linspace(-3.0, 15.0, 361), np.linspace(-0.5 * WIDE, 0.5 * WIDE, 161), indexing="ij")
        heights = raw(X, Y)
        heights *= amplitude / np.abs(heights).max()
        ramp = np.clip((X - 0.6 * LEAD) / 1.0, 0.0, 1.0)
        heights *= ramp * ramp * (3.0 - 2.0 * ramp)
        return [HeightField(np.array([-3.0, -0.5 * WIDE]), np.array([0.05, 0.05]), heights)]

    return Obstacle(make, FIELD, 0.0, told, 0.95)


def blind(obstacle: Obstacle, bar: float) -> Obstacle:
    """The same ground, of which the controller is told nothing."""
    return Obstacle(obstacle.make, obstacle.length, obstacle.rise, False, bar)


OBSTACLES: Mapping[str, Obstacle] = {
    "up 0.15/0.6": steps(0.15, 0.6),
    "up 0.15/0.4": steps(0.15, 0.4),
    "up 0.25/0.6": steps(0.25, 0.6),
    "up 0.25/0.4": steps(0.25, 0.4),
    "down 0.15/0.6": steps(-0.15, 0.6),
    "down 0.15/0.4": steps(-0.15, 0.4),
    "down 0.25/0.6": steps(-0.25, 0.6),
    "down 0.25/0.4": steps(-0.25, 0.4),
    "blind up 0.1/0.6": blind(steps(0.1, 0.6), 0.8),
    "blind down 0.1/0.6": blind(steps(-0.1, 0.6), 0.8),
    "blind up 0.1/0.4": blind(steps(0.1, 0.4), 0.8),
    "blind down 0.1/0.4": blind(steps(-0.1, 0.4), 0.8),
    "boxes 0.15": boxes(0.15, True),
    "blind boxes 0.08": boxes(0.08, False),
    "blind relief 0.15": relief(0.15, False),
}


def scaled(surface: Surface, length: float, yaw: float) -> Surface:
    """From leg lengths to metres, and to the robot's heading at the start."""
    R = pin.exp3(np.array([0.0, 0.0, yaw]))
    if isinstance(surface, Box):
        return Box(length * R @ surface.center, length * surface.size, R @ surface.rotation)
    if isinstance(surface, HeightField):
        if abs(yaw) > 1e-6:
            raise SystemExit("relief wants a robot that looks along x at home")
        return HeightField(length * surface.origin, length * surface.spacing, length * surface.heights)
    return surface


@functools.cache
def proportions(name: str) -> Proportions:
    """Of a robot of the catalogue, or of a file."""
    return Proportions.of(robot(name))


@dataclass(frozen=True)
class Outcome:
    """Of one trial: why it failed, "" where it did not; speed as a share of the command, and that of ticks flagged."""

    reason: str
    speed: float
    flagged: float


def trial(
    name: str,
    obstacle: Obstacle,
    plant: str,
    number: int,
    options: argparse.Namespace,
    watch: Callable[[Plant, LocomotionController, object], object] | None = None,
) -> Outcome:
    """Run it."""
    known, p = robot(name), proportions(name)
    length, yaw = p.length, p.yaw(known.q_home)
    ground = Terrain.of([scaled(each, length, yaw) for each in obstacle.make(generator(options.seed, number))])
    touching = "estimated" if options.touching == "estimated" else None
    controller = LocomotionController(
        known, dt=options.dt, gait=options.gait, terrain=ground if obstacle.told else None, touching=touching
    )
    world = PLANTS[plant](known, dt=options.dt, friction=options.friction, terrain=ground)
    world.reset(np.array(known.q_home))
    dynamics, speed = qd.Dynamics(known), options.speed * p.speed
    forward = np.array([math.cos(yaw), math.sin(yaw)])
    origin, started, flagged, ticks = None, None, 0, 0
    along = math.hypot(obstacle.length, obstacle.rise) * length
    least = START + (LEAD + 1.0) * length / speed + along / speed
    load = TOUCH * known.mass * p.gravity
    for k in range(round(2.0 * least / options.dt)):
        state = dynamics.update(np.array(world.q), np.array(world.v))
        at = float(forward @ state.com[:2])
        if origin is None:
            origin = at
        if started is None and at - origin > LEAD * length:
            started = k * options.dt
        if at - origin > (LEAD + obstacle.length + BEYOND) * length:
            assert started is not None
            way = along + BEYOND * length
            share = way / (k * options.dt - started) / speed
            said = "" if abs(share - 1.0) <= MISS else f"speed {share:.2f}"
            return Outcome(said, share, flagged / ticks)
        felt = None
        if options.touching == "felt" and k:
            forces = world.contact_forces
            felt = [foot for foot in known.feet if forces[foot][2] > load]
        command = controller.compute(state, (speed if k * options.dt > START else 0.0, 0.0, 0.0), touching=felt)
        ticks, flagged = ticks + 1, flagged + (not command.ok)
        if watch is not None:
            watch(world, controller, command)
        if command.mode is Mode.FALLEN:
            where = (at - origin) / length - LEAD
            return Outcome(f"fell at {where:.1f} l", 0.0, flagged / ticks)
        world.step(command.tau)
    return Outcome(f"stuck at {(at - origin) / length - LEAD:.1f} l", 0.0, flagged / ticks)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--robots", default=",".join(ROBOTS))
    parser.add_argument("--obstacles", default="", help="those whose name contains one of these words; all by default")
    parser.add_argument("--plants", default="embedded,mujoco")
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--gait", default="trot")
    parser.add_argument("--speed", type=float, default=SPEED, help="commanded [sqrt(g l)]")
    parser.add_argument("--friction", type=float, default=0.8)
    parser.add_argument("--touching", default="estimated", choices=("estimated", "felt", "scheduled"))
    parser.add_argument("--dt", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    words = [word for word in options.obstacles.split(",") if word]
    missed = []
    for name in options.robots.split(","):
        for plant in options.plants.split(","):
            for title, obstacle in OBSTACLES.items():
                if words and not any(word in title for word in words):
                    continue
                with quietly():
                    runs = [trial(name, obstacle, plant, number, options) for number in range(options.trials)]
                good = [run for run in runs if not run.reason]
                causes = "; ".join(run.reason for run in runs if run.reason)
                speeds = [run.speed for run in runs if run.speed]
                pace = f"{np.mean(speeds):.2f}" if speeds else "   -"
                flagged = 100.0 * float(np.mean([run.flagged for run in runs]))
                print(
                    f"{name:9s} {plant:9s} {title:19s} {len(good):3d}/{len(runs):<3d} speed {pace} "
                    f"flagged {flagged:4.1f} %  {causes}",
                    flush=True,
                )
                missed += [f"{name} {plant} {title}"] if len(good) < obstacle.bar * len(runs) else []
    if missed:
        print("missed:", "; ".join(missed))
    return 1 if missed and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
