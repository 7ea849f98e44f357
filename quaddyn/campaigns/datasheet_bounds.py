"""Bounds of a data sheet: quantities, their levels from easy to hard, and the trials at each level."""

from __future__ import annotations

import functools
import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..errors import ArgumentError
from ..locomotion import GAITS, LocomotionController, Morphology
from . import disturbances
from .disturbances import START_TIME, run_time
from .trial import Trial
from .trial_campaign import DEFAULT_COMMAND_SPEED
from .walking_campaigns import (
    CONTACT_DETECTION_OPTIONS,
    FRICTION_OPTIONS,
    SLOPE_DIRECTIONS,
    TRANSITION_CYCLES,
    FrictionDrop,
    ObstacleCourse,
    starts_as_trot,
)
from .worker import case_rng, load_cached_robot

#: Gaits whose speed is measured.
MOVING_GAITS = tuple(name for name, gait in GAITS.items() if gait.has_swing_phase)
#: Size of a push in trials of speed and slope, which makes trials with different seeds differ [sqrt(g l)].
SMALL_PUSH = 0.05
#: Minimum ratio of reached to commanded speed in trials of speed.
MIN_SPEED_RATIO = 0.9
#: Duration of a run after a push, and evaluated time at its end [sqrt(l/g)].
TIME_AFTER_PUSH, EVALUATED_AFTER_PUSH = 14.0, 6.0
#: Duration of a run with a lasting disturbance, and evaluated time at its end [sqrt(l/g)].
RUN_TIME, EVALUATED_TIME = 20.0, 11.0
#: Obstacles whose size is measured: name, title and kind; the sign of the size means up or down.
OBSTACLES = (
    ("stairs up", "highest stairs up, with terrain map", ObstacleCourse(1.0, tread=0.5)),
    ("stairs down", "highest stairs down, with terrain map", ObstacleCourse(-1.0, tread=0.5)),
    ("rubble", "highest rubble, with terrain map", ObstacleCourse(1.0, kind="rubble")),
    ("relief", "highest relief, blind", ObstacleCourse(1.0, kind="relief", terrain_known=False)),
)
#: Decimals of the numbers of a case: its text identifies its result, and rounding differs between processors.
CASE_DECIMALS = 9
#: Friction of the ground in trials straight up, down or across a slope.
SLOPE_FRICTION = 0.8
#: Drops of the friction: name, title and duration [s]; 0: until the end.
FRICTION_DROPS = (
    ("slip", "lowest friction after a sudden drop", 0.0),
    ("short slip", "lowest friction after a sudden drop, for 1 s", 1.0),
)


@dataclass(frozen=True)
class BoundSpec:
    """Definition of one bound of a data sheet.

    Attributes:
        name: unique name on the sheet of a robot, such as "push 45" or "speed trot".
        title: title in tables.
        unit: unit of `values`.
        values: value by level, from easy to hard.
        harder: "larger" or "smaller" values are harder.
        trial: function that returns the case of a level and a trial number.
    """

    name: str
    title: str
    unit: str
    values: tuple[float, ...]
    harder: str
    trial: Callable[[int, int], Trial]


#: Function that draws the fields of a trial from the value of its level and random numbers.
LevelDraw = Callable[[float, np.random.Generator], dict[str, Any]]


def make_bound_specs(source: str, *, plant: str, dt: float, seed: int, directions: int) -> list[BoundSpec]:
    """Returns all bounds that are measured on a robot.

    Args:
        source: catalogue name, path or URDF text of a quadruped.
        plant: "embedded" or "mujoco".
        dt: period of controller and plant [s].
        seed: seed of all trials.
        directions: number of push directions, evenly spread over the circle.

    Raises:
        ArgumentError: the robot cannot walk.
    """
    p = Morphology.from_robot(load_cached_robot(source))
    base = Trial(robot=source, plant=plant, dt=dt, seed=seed)
    forward = (DEFAULT_COMMAND_SPEED * p.speed_scale, 0.0, 0.0)
    specs: list[BoundSpec] = []

    def add(name: str, title: str, unit: str, values: Sequence[float], draw: LevelDraw) -> None:
        """Adds a bound; each has separate random numbers, by its name."""
        key = zlib.crc32(name.encode())

        def trial(level: int, number: int) -> Trial:
            return replace(base, number=number, **_rounded(draw(values[level], case_rng(seed, key, number))))

        harder = "larger" if values[-1] > values[0] else "smaller"
        specs.append(BoundSpec(name, title, unit, tuple(values), harder, trial))

    def lasting(draw: disturbances.Draw, **other_fields: Any) -> LevelDraw:
        return lambda size, rng: {**draw(p, size, rng), **run_time(p, RUN_TIME, EVALUATED_TIME, dt), **other_fields}

    def pushed(angle: float) -> LevelDraw:
        return lambda size, rng: disturbances.push(
            p, size, rng, direction=angle, speed=forward, after=TIME_AFTER_PUSH, late=EVALUATED_AFTER_PUSH
        )

    def on_slope(direction: float) -> LevelDraw:
        return lambda size, rng: {
            **run_time(p, RUN_TIME, EVALUATED_TIME, dt),
            "velocity": forward,
            "slope": size,
            "slope_direction": direction,
            "friction": SLOPE_FRICTION,
            **_small_push(p, rng),
        }

    def after_drop(duration: float) -> LevelDraw:
        return lambda size, rng: {
            **FrictionDrop(size, 0.0, duration).fields(p, rng, dt),
            "options": FRICTION_OPTIONS["estimated"],
            "min_velocity_ratio": Trial.min_velocity_ratio,
        }

    def over_obstacle(course: ObstacleCourse) -> LevelDraw:
        return lambda size, rng: {
            "velocity": forward,
            "options": CONTACT_DETECTION_OPTIONS["estimated"],
            **replace(course, size=math.copysign(size, course.size)).fields(p.length, forward[0], dt),
        }

    for k in range(directions):
        angle = 2.0 * math.pi * k / directions
        push_levels = even_levels(p.speed_scale / 32.0, 33)
        add(f"push {round(math.degrees(angle))}", "largest push", "m/s", push_levels, pushed(angle))
    friction_levels, slope_levels = even_levels(-0.02, 30, 0.6), even_levels(math.radians(1.0), 46)
    height_levels = even_levels(0.0125, 41)
    add("friction", "lowest friction", "", friction_levels, lasting(disturbances.friction))
    add("slope", "steepest slope", "rad", slope_levels, lasting(disturbances.slope))
    add("step", "highest step", "l", height_levels, lambda size, rng: disturbances.step(p, size, rng))
    add("payload", "heaviest payload", "of the mass", even_levels(0.025, 41), lasting(disturbances.payload))
    delayed = lasting(disturbances.delay, use_state_estimate=True)
    add("delay", "longest delay", "s", even_levels(dt, 21), delayed)
    weak_motors = lasting(disturbances.strength)
    add("strength", "weakest motors", "of the limits", even_levels(-0.025, 37, 1.0), weak_motors)
    for way, direction in SLOPE_DIRECTIONS.items():
        add(f"slope {way}", f"steepest slope {way}", "rad", slope_levels, on_slope(direction))
    for name, title, duration in FRICTION_DROPS:
        add(name, title, "", friction_levels, after_drop(duration))
    for name, title, course in OBSTACLES:
        add(name, title, "l", height_levels, over_obstacle(course))
    for gait, max_speed in top_speeds(source, dt).items():
        if max_speed > 0.0:
            speeds = [round(1.25 * max_speed * k / 32.0, CASE_DECIMALS) for k in range(1, 33)]
            add(f"speed {gait}", f"largest speed, {gait}", "m/s", speeds, make_speed_draw(p, gait, dt))
    return specs


def even_levels(step: float, count: int, first: float = 0.0) -> list[float]:
    """Returns the values of evenly spaced levels, rounded to `CASE_DECIMALS` decimals."""
    return [round(first + step * k, CASE_DECIMALS) for k in range(count)]


@functools.lru_cache(maxsize=64)
def top_speeds(source: str, dt: float) -> dict[str, float]:
    """Returns the largest forward speed of each gait [m/s]; see `LocomotionController.clamp_velocity`."""
    controller = LocomotionController(load_cached_robot(source), dt=dt)
    out = {}
    for name in MOVING_GAITS:
        try:
            controller.gait = GAITS[name]
        except ArgumentError:  # the motors are too weak to jump
            continue
        out[name] = float(controller.clamp_velocity((1e3, 0.0, 0.0))[0])
    return out


def _rounded(fields: dict[str, Any]) -> dict[str, Any]:
    """Returns the fields of a trial with numbers rounded to `CASE_DECIMALS` decimals."""

    def round_value(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(round_value(item) for item in value)
        return round(value, CASE_DECIMALS) if isinstance(value, float) else value

    return {name: round_value(value) for name, value in fields.items()}


def _small_push(p: Morphology, rng: np.random.Generator) -> dict[str, float]:
    """Draws a small push at a random time, which makes trials with different seeds differ."""
    return {
        "push": SMALL_PUSH * p.speed_scale,
        "push_direction": rng.uniform(-math.pi, math.pi),
        "push_time": (START_TIME + rng.uniform(0.0, 3.0)) * p.time_scale,
    }


def make_speed_draw(p: Morphology, gait: str, dt: float) -> LevelDraw:
    """Returns a function of a speed [m/s] and a random generator: the fields of a `Trial` that walks straight ahead.

    At least two gait cycles are evaluated.
    """
    period = GAITS[gait].period
    settling_time = START_TIME + 3.0 + period * (TRANSITION_CYCLES if starts_as_trot(GAITS[gait]) else 1.0)
    evaluated_time = max(2, math.ceil(EVALUATED_TIME / period)) * period
    return lambda size, rng: {
        **run_time(p, settling_time + evaluated_time, evaluated_time, dt),
        "gait": gait,
        "velocity": (size, 0.0, 0.0),
        "min_velocity_ratio": MIN_SPEED_RATIO,
        "unit_speed": size,
        "push": SMALL_PUSH * p.speed_scale,
        "push_direction": rng.uniform(-math.pi, math.pi),
        "push_time": (settling_time - rng.uniform(1.0, 3.0)) * p.time_scale,
    }


#: Speeds at which torque, power and cost of transport are measured, divided by the largest, and runs at each.
SPEED_FRACTIONS, RUNS_PER_SPEED = (1 / 6, 2 / 6, 3 / 6, 4 / 6, 5 / 6, 1.0), 3


def make_speed_trials(source: str, *, plant: str, dt: float, seed: int) -> dict[str, list[list[Trial]]]:
    """Returns the trials of every gait at several speeds, by gait, speed and number."""
    p = Morphology.from_robot(load_cached_robot(source))
    base = Trial(robot=source, plant=plant, dt=dt, seed=seed)
    out: dict[str, list[list[Trial]]] = {}
    for gait_index, (gait, max_speed) in enumerate(top_speeds(source, dt).items()):
        draw = make_speed_draw(p, gait, dt)
        for speed_index, fraction in enumerate(SPEED_FRACTIONS if max_speed > 0.0 else ()):
            generators = [case_rng(seed, gait_index, speed_index, number) for number in range(RUNS_PER_SPEED)]
            trials = [_rounded(draw(fraction * max_speed, rng)) for rng in generators]
            out.setdefault(gait, []).append([replace(base, number=k, **fields) for k, fields in enumerate(trials)])
    return out
