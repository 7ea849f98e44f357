"""Disturbances of a walking robot by name: each has a size and draws the other fields of a `Trial` at random.

Times are in units of ``sqrt(l / g)`` and speeds in ``sqrt(g l)``, so that a run is comparable between robots of any
size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from ..locomotion import Morphology
from .trial_campaign import DEFAULT_COMMAND_SPEED, draw_velocity

#: Function that returns the fields of a trial other than robot, plant and seed, from a size and random numbers.
Draw = Callable[[Morphology, float, np.random.Generator], dict[str, Any]]
#: Time in which the robot starts to move, and period of the trot after it, in which a push occurs [sqrt(l/g)].
START_TIME, TROT_PERIOD = 6.0, 2.2
#: Duration of a run after a push, and evaluated time at its end [sqrt(l/g)].
TIME_AFTER_PUSH, EVALUATED_AFTER_PUSH = 24.0, 10.0
#: Duration of a run with a lasting disturbance, and evaluated time at its end [sqrt(l/g)].
RUN_TIME, EVALUATED_TIME = 31.0, 19.0


@dataclass(frozen=True)
class Disturbance:
    """Kind of disturbance.

    Attributes:
        title: title for tables, with the meaning of `size`.
        unit: unit of the size.
        size: default size, which most robots should survive.
        bar: expected fraction of successful trials at this size.
        draw: returns the fields of a trial.
    """

    title: str
    unit: str
    size: float
    bar: float
    draw: Draw

    def draw_fields(self, p: Morphology, size: float | None, rng: np.random.Generator) -> dict[str, Any]:
        """Draws the fields of a trial at a size; None: the default size."""
        return self.draw(p, self.size if size is None else size, rng)


def run_time(p: Morphology, length: float, counted: float, dt: float = 2e-3) -> dict[str, float]:
    """Returns duration and evaluated time of a run as fields of a `Trial`, rounded to whole periods [s].

    Args:
        p: scales of the robot.
        length: duration [sqrt(l/g)].
        counted: evaluated time at the end [sqrt(l/g)].
        dt: period of controller and plant [s].
    """
    return {
        "seconds": round(length * p.time_scale / dt) * dt,
        "averaging_time": round(counted * p.time_scale / dt) * dt,
    }


def push(
    p: Morphology,
    size: float,
    rng: np.random.Generator,
    *,
    direction: float | None = None,
    speed: tuple[float, float, float] | None = None,
    after: float = TIME_AFTER_PUSH,
    late: float = EVALUATED_AFTER_PUSH,
) -> dict[str, Any]:
    """Draws a push at a random phase of the gait.

    Args:
        p: proportions of the robot.
        size: change of its velocity [m/s].
        rng: random generator.
        direction: direction of the push from the heading [rad]; None: left or right at random.
        speed: commanded velocity, see `Trial`; None: default speed in a random direction.
        after: duration of the run after the push [sqrt(l/g)].
        late: evaluated time at the end of the run [sqrt(l/g)].
    """
    push_time = START_TIME + rng.uniform(0.0, TROT_PERIOD)
    side = math.copysign(0.5 * math.pi, rng.uniform(-1.0, 1.0))
    drawn = draw_velocity(p, rng)
    return {
        **run_time(p, START_TIME + TROT_PERIOD + after, late),
        "velocity": drawn if speed is None else speed,
        "push": size,
        "push_direction": side if direction is None else direction,
        "push_time": push_time * p.time_scale,
    }


def _lasting(p: Morphology, velocity: tuple[float, float, float], **fields: Any) -> dict[str, Any]:
    """Returns the fields of a run with a lasting disturbance."""
    return {**run_time(p, RUN_TIME, EVALUATED_TIME), "velocity": velocity, **fields}


def _ahead(p: Morphology) -> tuple[float, float, float]:
    """Returns the velocity straight ahead at the default speed."""
    return (DEFAULT_COMMAND_SPEED * p.speed_scale, 0.0, 0.0)


def standing_push(p: Morphology, size: float, rng: np.random.Generator) -> dict[str, Any]:
    """Draws a push from the side on a standing robot."""
    return push(p, size, rng, speed=(0.0, 0.0, 0.0))


def friction(p: Morphology, size: float, rng: np.random.Generator) -> dict[str, Any]:
    """Draws a run on slippery ground, with a turn."""
    x, y, _ = draw_velocity(p, rng)
    return _lasting(p, (x, y, rng.uniform(-0.5, 0.5)), friction=size)


def payload(p: Morphology, size: float, rng: np.random.Generator) -> dict[str, Any]:
    """Draws the velocity of a run with a payload of `size` robot masses at the center of the trunk."""
    return _lasting(p, draw_velocity(p, rng), payload=size * p.mass)


def com(p: Morphology, size: float, rng: np.random.Generator) -> dict[str, Any]:
    """Draws a run in which the center of mass is displaced by `size` [m], unlike in the model."""
    return _lasting(p, draw_velocity(p, rng), com_offset=size, com_offset_direction=rng.uniform(-math.pi, math.pi))


def shifted_payload(p: Morphology, size: float, rng: np.random.Generator) -> dict[str, Any]:
    """Draws a run with an eccentric payload; a payload of 20 % of the mass displaces the center of mass by 3 cm."""
    return {**com(p, 0.15 * size, rng), "payload": size * p.mass}


def slope(p: Morphology, size: float, rng: np.random.Generator) -> dict[str, Any]:
    """Draws a run on a slope [rad] that rises in a random direction."""
    return _lasting(p, draw_velocity(p, rng), slope=size, slope_direction=rng.uniform(-math.pi, math.pi))


def strips(p: Morphology, size: float, rng: np.random.Generator) -> dict[str, Any]:
    """Draws a run over strips of ground with random height differences of at most `size` leg lengths."""
    return {**run_time(p, RUN_TIME + 5.0, EVALUATED_TIME), "velocity": _ahead(p), "strips": size * p.length}


def step(p: Morphology, size: float, rng: np.random.Generator) -> dict[str, Any]:
    """Draws a run up a stair step with a height of `size` leg lengths, at a random distance in front of the robot."""
    distance = float(p.nominal_stance[:, 0].max()) + rng.uniform(0.3, 0.6) * p.length
    # Distance until all feet are on the step, plus half a leg length, and the time for it at 70 % of the speed.
    path_length = (distance + float(np.abs(p.nominal_stance[:, 0]).max())) / p.length + 0.5
    duration = path_length / (0.7 * DEFAULT_COMMAND_SPEED)
    times = run_time(p, START_TIME + duration, duration)
    return {**times, "velocity": _ahead(p), "step": size * p.length, "step_distance": distance}


def boxes(p: Morphology, size: float, rng: np.random.Generator) -> dict[str, Any]:
    """Draws a run over scattered boxes of `size` leg lengths in height."""
    return {**run_time(p, RUN_TIME + 5.0, EVALUATED_TIME), "velocity": _ahead(p), "boxes": size * p.length}


def delay(p: Morphology, size: float, rng: np.random.Generator) -> dict[str, Any]:
    """Draws a run with delayed but otherwise exact sensors; the size is the delay [s]."""
    return _lasting(p, draw_velocity(p, rng), delay=size)


def noise(p: Morphology, size: float, rng: np.random.Generator) -> dict[str, Any]:
    """Draws a run with consumer sensors and a delay of 2 ms; the size is the scale of the noise."""
    return _lasting(p, draw_velocity(p, rng), noise_scale=size, delay=2e-3)


def strength(p: Morphology, size: float, rng: np.random.Generator) -> dict[str, Any]:
    """Draws a run with weak motors; the size is the available fraction of the effort limits."""
    return _lasting(p, draw_velocity(p, rng), torque_scale=size)


def nothing(p: Morphology, size: float, rng: np.random.Generator) -> dict[str, Any]:
    """Draws a run without disturbance in a random direction; the size is the speed [sqrt(g l)]."""
    x, y, _ = draw_velocity(p, rng)
    scale = size / DEFAULT_COMMAND_SPEED
    return _lasting(p, (scale * x, scale * y, 0.0))


#: All disturbances by name.
DISTURBANCES: Mapping[str, Disturbance] = MappingProxyType(
    {
        "push-standing": Disturbance("push from the side, standing", "m/s", 0.5, 0.95, standing_push),
        "push": Disturbance("push from the side, trotting", "m/s", 0.5, 0.95, push),
        "friction": Disturbance("slippery ground", "", 0.4, 0.95, friction),
        "payload": Disturbance("payload with displaced center of mass", "m", 0.2, 0.95, shifted_payload),
        "com": Disturbance("displaced center of mass", "m", 0.05, 0.8, com),
        "slope": Disturbance("slope", "rad", math.radians(10.0), 0.9, slope),
        "strips": Disturbance("steps up and down", "l", 0.05, 0.9, strips),
        "step": Disturbance("one step up", "l", 0.1, 0.9, step),
        "boxes": Disturbance("scattered boxes", "l", 0.1, 0.5, boxes),
        "noise": Disturbance("noise of consumer sensors, 2 ms delay", "", 1.0, 0.9, noise),
        "delay": Disturbance("delayed sensors", "s", 10e-3, 0.5, delay),
        "strength": Disturbance("weak motors", "of the limits", 0.27, 0.7, strength),
        "nothing": Disturbance("speed", "sqrt(g l)", DEFAULT_COMMAND_SPEED, 0.95, nothing),
    }
)
