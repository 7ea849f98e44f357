"""What a data sheet asks of a robot: quantities, their levels from easy to hard, and the trials at each level."""

from __future__ import annotations

import functools
import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..errors import ArgumentError
from ..locomotion import GAITS, LocomotionController, Morphology
from . import disturbances
from .disturbances import START_TIME, run_time
from .friction_drop import BELIEVING, FrictionDrop
from .obstacles import TOUCHING, ObstacleCourse
from .slopes import WAYS
from .trial import Trial
from .trial_campaign import DEFAULT_COMMAND_SPEED
from .worker_memory import case_rng, load_cached_robot

#: Gaits whose speed is measured.
MOVING = tuple(name for name, gait in GAITS.items() if gait.has_swing_phase)
#: A push that no trial of speed is told of, so that no two are alike [sqrt(g l)].
NUDGE = 0.05
#: Share of the commanded speed to be reached in trials of speed.
TRACKING = 0.9
#: How long a run goes on after a push, and how much of that counts [sqrt(l/g)].
AFTER, LATE = 14.0, 6.0
#: A run on difficult ground, and how much of it counts [sqrt(l/g)].
LENGTH, COUNTED = 20.0, 11.0
#: Ground whose size is measured: name, title and kind; the sign of its size is up or down.
OBSTACLES = (
    ("stairs up", "highest stairs up, told", ObstacleCourse(1.0, tread=0.5)),
    ("stairs down", "highest stairs down, told", ObstacleCourse(-1.0, tread=0.5)),
    ("rubble", "highest rubble, told", ObstacleCourse(1.0, kind="rubble")),
    ("relief", "highest relief, blind", ObstacleCourse(1.0, kind="relief", terrain_known=False)),
)
#: Decimals of the numbers of a case: results are kept under its text, and rounding differs between processors.
CASE_DECIMALS = 9
#: Friction of slopes that are gone straight up, down or across.
ROUGH = 0.8
#: Ground that becomes slippery: name, title and how long it is so [s], 0 for good.
SLIPS = (
    ("slip", "lowest friction, unannounced", 0.0),
    ("short slip", "lowest friction for 1 s, unannounced", 1.0),
)


@dataclass(frozen=True)
class BoundSpec:
    """One bound of a data sheet.

    Attributes:
        name: unique on the sheet of a robot, such as "push 45" or "speed trot".
        title: for people.
        unit: of `values`.
        values: by level, 0 the easiest.
        harder: "larger" or "smaller" values are harder.
        trial: the case of a level's index and a trial's number.
    """

    name: str
    title: str
    unit: str
    values: tuple[float, ...]
    harder: str
    trial: Callable[[int, int], Trial]


def make_bound_specs(source: str, *, plant: str, dt: float, seed: int, directions: int) -> list[BoundSpec]:
    """All bounds that are measured on a robot.

    Args:
        source: catalogue name, path or URDF text of a quadruped.
        plant: "embedded" or "mujoco".
        dt: period of controller and plant [s].
        seed: of all trials.
        directions: of pushes, evenly spread over the circle.

    Raises:
        ArgumentError: the robot cannot walk.
    """
    machine = load_cached_robot(source)
    p = Morphology.from_robot(machine)
    base = Trial(robot=source, plant=plant, dt=dt, seed=seed)
    forward = (DEFAULT_COMMAND_SPEED * p.speed_scale, 0.0, 0.0)

    def cell(
        name: str, title: str, unit: str, values: list[float], draw: Callable[[float, np.random.Generator], Any]
    ) -> BoundSpec:
        key = zlib.crc32(name.encode())  # each cell has random numbers of its own

        def trial(level: int, number: int) -> Trial:
            fields = draw(values[level], case_rng(seed, key, number))
            return replace(base, number=number, **_rounded(fields))

        return BoundSpec(name, title, unit, tuple(values), "larger" if values[-1] > values[0] else "smaller", trial)

    def push(angle: float) -> Callable[[float, np.random.Generator], Any]:
        return lambda size, rng: disturbances.push(p, size, rng, direction=angle, speed=forward, after=AFTER, late=LATE)

    def usual(draw: disturbances.Draw, **more: Any) -> Callable[[float, np.random.Generator], Any]:
        return lambda size, rng: {**draw(p, size, rng), **run_time(p, LENGTH, COUNTED, dt), **more}

    def rounded(step: float, count: int, first: float = 0.0) -> list[float]:
        return [round(first + step * k, CASE_DECIMALS) for k in range(count)]

    out = []
    for k in range(directions):
        angle = 2.0 * math.pi * k / directions
        values = rounded(p.speed_scale / 32.0, 33)
        out.append(cell(f"push {round(math.degrees(angle))}", "largest push", "m/s", values, push(angle)))
    out += [
        cell("friction", "lowest friction", "", rounded(-0.02, 30, 0.6), usual(disturbances.friction)),
        cell("slope", "steepest slope", "rad", rounded(math.radians(1.0), 46), usual(disturbances.slope)),
        cell("step", "highest step", "l", rounded(0.0125, 41), lambda size, rng: disturbances.step(p, size, rng)),
        cell("payload", "heaviest payload", "of the mass", rounded(0.025, 41), usual(disturbances.payload)),
        cell("delay", "longest delay", "s", rounded(dt, 21), usual(disturbances.delay, use_state_estimate=True)),
        cell("strength", "weakest motors", "of the limits", rounded(-0.025, 37, 1.0), usual(disturbances.strength)),
    ]
    for way, heading in WAYS.items():

        def on(size: float, rng: np.random.Generator, heading: float = heading) -> dict[str, Any]:
            slope = {"slope": size, "slope_direction": heading, "friction": ROUGH}
            return {**run_time(p, LENGTH, COUNTED, dt), "velocity": forward, **slope, **_nudge(p, rng)}

        values = rounded(math.radians(1.0), 46)
        out.append(cell(f"slope {way}", f"steepest slope {way}", "rad", values, on))
    for name, title, lasts in SLIPS:

        def slide(size: float, rng: np.random.Generator, lasts: float = lasts) -> dict[str, Any]:
            fields = FrictionDrop(size, 0.0, lasts).fields(p, rng, dt)
            return {**fields, "options": BELIEVING["estimated"], "min_velocity_ratio": Trial.min_velocity_ratio}

        out.append(cell(name, title, "", rounded(-0.02, 30, 0.6), slide))
    for name, title, kind in OBSTACLES:

        def over(size: float, rng: np.random.Generator, kind: ObstacleCourse = kind) -> dict[str, Any]:
            obstacle = replace(kind, size=math.copysign(size, kind.size))
            felt = TOUCHING["estimated"]
            return {"velocity": forward, "options": felt, **obstacle.fields(p.length, forward[0], dt)}

        out.append(cell(name, title, "l", rounded(0.0125, 41), over))
    for name, most in top_speeds(source, dt).items():
        if most > 0.0:
            values = [round(1.25 * most * k / 32.0, CASE_DECIMALS) for k in range(1, 33)]
            out.append(cell(f"speed {name}", f"largest speed, {name}", "m/s", values, at_speed(p, name, dt)))
    return out


@functools.lru_cache(maxsize=64)
def top_speeds(source: str, dt: float) -> dict[str, float]:
    """The largest forward speed that each gait is given on these legs [m/s]; see `LocomotionController.reach`."""
    controller = LocomotionController(load_cached_robot(source), dt=dt)
    out = {}
    for name in MOVING:
        try:
            controller.gait = GAITS[name]
        except ArgumentError:  # the motors are too weak to jump
            continue
        out[name] = float(controller.clamp_velocity((1e3, 0.0, 0.0))[0])
    return out


def _rounded(fields: dict[str, Any]) -> dict[str, Any]:
    """Fields of a trial, their numbers to `CASE_DECIMALS` decimals."""

    def near(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(near(each) for each in value)
        return round(value, CASE_DECIMALS) if isinstance(value, float) else value

    return {name: near(value) for name, value in fields.items()}


def _nudge(p: Morphology, rng: np.random.Generator) -> dict[str, float]:
    """A small push at some moment on the way, so that no two trials are alike."""
    return {
        "push": NUDGE * p.speed_scale,
        "push_direction": rng.uniform(-math.pi, math.pi),
        "push_time": (START_TIME + rng.uniform(0.0, 3.0)) * p.time_scale,
    }


def at_speed(p: Morphology, gait: str, dt: float) -> Callable[[float, np.random.Generator], dict[str, Any]]:
    """Draws runs straight ahead at a speed [m/s], whose last two cycles or more count."""
    kind = GAITS[gait]
    changes = kind.footprint_scale != (1.0, 1.0) or not kind.vertical_force_profile.is_constant  # begins as a trot
    settled = START_TIME + 3.0 + kind.period * (4.0 if changes else 1.0)
    cycles = max(2, math.ceil(COUNTED / kind.period))

    def draw(size: float, rng: np.random.Generator) -> dict[str, Any]:
        return {
            **run_time(p, settled + cycles * kind.period, cycles * kind.period, dt),
            "gait": gait,
            "velocity": (size, 0.0, 0.0),
            "min_velocity_ratio": TRACKING,
            "unit_speed": size,
            "push": NUDGE * p.speed_scale,
            "push_direction": rng.uniform(-math.pi, math.pi),
            "push_time": (settled - rng.uniform(1.0, 3.0)) * p.time_scale,
        }

    return draw


#: Speeds at which torque, power and cost of transport are measured, as shares of the gait's largest, and runs at each.
SHARES, RUNS = (1 / 6, 2 / 6, 3 / 6, 4 / 6, 5 / 6, 1.0), 3


def make_speed_trials(source: str, *, plant: str, dt: float, seed: int) -> dict[str, list[list[Trial]]]:
    """Runs of every gait at several speeds: by gait, by speed, by number."""
    p = Morphology.from_robot(load_cached_robot(source))
    base = Trial(robot=source, plant=plant, dt=dt, seed=seed)
    out: dict[str, list[list[Trial]]] = {}
    for g, (gait, most) in enumerate(top_speeds(source, dt).items()):
        draw = at_speed(p, gait, dt)
        if most > 0.0:
            out[gait] = [
                [replace(base, number=n, **_rounded(draw(share * most, case_rng(seed, g, i, n)))) for n in range(RUNS)]
                for i, share in enumerate(SHARES)
            ]
    return out
