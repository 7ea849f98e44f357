"""Campaigns of walking robots: gaits, velocity limits, pushes, slopes, obstacles, friction drops, disturbances.

Disturbances of a walking robot by name: each has a size and draws the other fields of a `Trial` at random.

Times are in units of ``sqrt(l / g)`` and speeds in ``sqrt(g l)``, so that a run is comparable between robots of any
size.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType, SimpleNamespace
from typing import Any, ClassVar

import numpy as np

from ..deprecation import renamed_fields, renamed_names
from ..errors import ArgumentError
from ..locomotion import GAITS, Gait, LocomotionController, Morphology
from ..locomotion.gait import find_gait
from .campaign import campaign_option, case_rng, count_option, load_cached_robot
from .trial import ALL_PLANTS, PLANTS, Trial
from .trial_campaign import (
    DEFAULT_COMMAND_SPEED,
    GridCampaign,
    RobotGridCampaign,
    SeededGridCampaign,
    draw_velocity,
    error_option,
    period_option,
    robot_option,
)
from .trial_runner import COMMAND_START_TIME, FIELD_LENGTH, LEVEL_LENGTH, N_STAIR_STEPS, check_options

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
    """Kind of disturbance."""

    title: str  # title for tables, with the meaning of `size`
    unit: str  # unit of the size
    size: float  # default size, which most robots should survive
    bar: float  # expected fraction of successful trials at this size
    draw: Draw  # returns the fields of a trial

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


#: Velocities of unit size by name: forward and leftward in `unit_speed`, yaw rate in `unit_turn`.
DIRECTIONS = MappingProxyType(
    {"forward": (1.0, 0.0, 0.0), "backward": (-1.0, 0.0, 0.0), "sideways": (0.0, 1.0, 0.0), "turning": (0.0, 0.0, 1.0)}
)
#: Yaw rate that is commanded with the speed `DEFAULT_COMMAND_SPEED`, and maximum random yaw rate [rad/s].
YAW_RATE, MAX_YAW_RATE = 0.5, 0.5
#: Minimum commanded velocity, divided by the limit.
MIN_COMMAND_FRACTION = 0.3
#: Requested speed before clamping, above the limits of all gaits [sqrt(g l)].
UNREACHABLE_SPEED = 10.0
#: Number of push directions, evenly spread over the circle.
N_DIRECTIONS = 8
#: Number of cycles of the transition of gaits that begin as a trot.
TRANSITION_CYCLES = 4.0
#: Duration of a run after a push of `PushCampaign`, and evaluated time at its end [sqrt(l/g)].
TIME_AFTER_ONE_PUSH, EVALUATED_AFTER_ONE_PUSH = 16.0, 6.0
#: Maximum duration of a push of `PushCampaign` [s], which ends before the evaluated time also of small robots.
MAX_PUSH_DURATION = 1.0
#: Uphill direction from the forward direction of the robot [rad].
SLOPE_DIRECTIONS = MappingProxyType({"up": 0.0, "down": math.pi, "across": 0.5 * math.pi})
#: Maximum random deviation of the direction [rad], and of the speed as a fraction of it.
MAX_DIRECTION_DEVIATION, MAX_SPEED_DEVIATION = math.radians(10.0), 0.2
#: Length of level ground after the last edge, and distance added to the course for the time limit [l].
RUN_OUT_LENGTH, EXTRA_DISTANCE = 0.4, 1.0
#: Time limit of a run over obstacles, divided by its duration at the commanded speed.
TIME_LIMIT_FACTOR = 2.0
#: Options of a controller that estimates contacts, and of one that assumes the contact schedule.
CONTACT_DETECTION_OPTIONS = MappingProxyType(
    {name: (("controller.contact_detection", name),) for name in ("estimated", "scheduled")}
)
#: Options of a controller that estimates the friction from slip, and of one that assumes the nominal friction.
FRICTION_OPTIONS = MappingProxyType(
    {"estimated": (("controller.friction", "estimated"),), "assumed": (("controller.friction", "nominal"),)}
)
STEPPING_GAITS = ("crawl", "walk", "trot", "pace", "bound")
HALF_AVERAGED = "duration of each run [s]; velocities are averaged over the second half"


def starts_as_trot(gait: Gait) -> bool:
    """Returns whether a robot begins a gait as a trot, from which it changes to the footprint or forces of the gait."""
    return gait.footprint_scale != (1.0, 1.0) or not gait.vertical_force_profile.is_constant


def _averaged_over_second_half(seconds: float, dt: float) -> dict[str, Any]:
    """Returns duration and evaluated time of a run, rounded to whole periods [s], and no bound on the slowest speed."""
    half = round(0.5 * seconds / dt) * dt
    return {"seconds": 2.0 * half, "averaging_time": half, "min_velocity_ratio": 0.0}


@renamed_fields(miss="max_velocity_error")
@dataclass(frozen=True, kw_only=True)
class GaitCampaign(RobotGridCampaign):
    """Runs of every robot in every gait at every speed and direction.

    A run succeeds if no component of the velocity differs from the command by more than `max_velocity_error` times the
    commanded speed.
    """

    name: ClassVar[str] = "gaits"
    grid = ("robot", "plants", "gaits", "speeds", "directions")

    plants: tuple[str, ...] = campaign_option(("embedded",), among=ALL_PLANTS)
    gaits: tuple[str, ...] = campaign_option(STEPPING_GAITS, among=GAITS)
    speeds: tuple[float, ...] = campaign_option(
        (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4), "commanded speeds [sqrt(g l)]", expected="positive numbers"
    )
    directions: tuple[str, ...] = campaign_option(("forward",), among=DIRECTIONS)
    seconds: float = campaign_option(
        8.0,
        "duration of each run [s]; velocities are averaged after the first 4 s",
        expected="more than 4 s",
        valid=lambda seconds: seconds > 4.0,
    )
    max_velocity_error: float = error_option(0.15)

    def draw(self, cell: SimpleNamespace, p: Morphology, rng: np.random.Generator) -> dict[str, Any]:
        """Returns the velocity of a speed and direction; nothing is random."""
        unit_speed, unit_turn = cell.speed * p.speed_scale, cell.speed / DEFAULT_COMMAND_SPEED * YAW_RATE
        x, y, z = DIRECTIONS[cell.direction]
        return {
            "averaging_time": self.seconds - 4.0,
            "velocity": (x * unit_speed, y * unit_speed, z * unit_turn),
            "min_velocity_ratio": 0.0,
            "unit_speed": unit_speed,
            "unit_turn": unit_turn,
        }


@renamed_fields(miss="max_velocity_error")
@dataclass(frozen=True, kw_only=True)
class VelocityLimitCampaign(SeededGridCampaign):
    """Runs of robots at random velocities within the limits of `LocomotionController.clamp_velocity`.

    A run succeeds if the robot is upright at the end and no component of its velocity differs from the command by more
    than `max_velocity_error` times the speed of its fastest hip.  Combinations of robot and gait that the controller
    rejects have no cases.
    """

    name: ClassVar[str] = "velocity-limits"
    grid = ("robot", "gaits", "plants")

    plants: tuple[str, ...] = campaign_option(("embedded",), among=ALL_PLANTS)
    trials: int = count_option(100, "trials of each combination")
    gaits: tuple[str, ...] = campaign_option(STEPPING_GAITS, among=GAITS)
    seconds: float = campaign_option(20.0, HALF_AVERAGED, expected="a positive time")
    max_velocity_error: float = error_option(0.2)

    def cells(self) -> list[tuple[Any, ...]]:
        """Returns all combinations of robot, gait and plant that the controller accepts."""
        return [cell for cell in super().cells() if not gait_rejection(*cell[:2])]

    def draw(self, cell: SimpleNamespace, p: Morphology, rng: np.random.Generator) -> dict[str, Any]:
        """Draws a direction, the same everywhere, and a fraction of the limits of robot and gait."""
        velocity, fraction = rng.normal(size=3), rng.uniform(MIN_COMMAND_FRACTION, 1.0)
        radius = float(np.hypot(*np.abs(p.nominal_stance).max(axis=0)))
        velocity *= UNREACHABLE_SPEED * p.speed_scale / np.linalg.norm(velocity)
        limit = _cached_controller(cell.robot, cell.gait).clamp_velocity(velocity / (1.0, 1.0, radius))
        x, y, turn = (fraction * limit).tolist()
        speed = math.hypot(x, y) + abs(turn) * radius
        return {
            **_averaged_over_second_half(self.seconds, self.dt),
            "velocity": (x, y, turn),
            "unit_speed": speed,
            "unit_turn": speed / radius,
        }


@lru_cache(maxsize=64)
def gait_rejection(source: str, gait: str) -> str:
    """Returns the reason for which the controller rejects a gait for a robot; "" if it accepts the gait."""
    try:
        _cached_controller(source, gait)
    except ArgumentError as error:
        if not str(error).startswith("gait:"):  # the robot cannot walk in any gait
            raise
        return str(error)
    return ""


@lru_cache(maxsize=64)
def _cached_controller(source: str, gait: str) -> LocomotionController:
    """Returns the cached controller of a robot in a gait, whose `clamp_velocity` applies the velocity limits."""
    return LocomotionController(load_cached_robot(source), gait=gait)


@dataclass(frozen=True, kw_only=True)
class PushCampaign(SeededGridCampaign):
    """Runs of robots that are pushed at a random phase of the gait, for every robot, gait, push size and plant.

    A run succeeds if the robot is upright at the end and has reached 70 % of the commanded speed again; a standing
    robot only has to stay upright.
    """

    name: ClassVar[str] = "pushes"
    grid = ("robot", "gaits", "sizes", "plants")

    trials: int = count_option(8, f"trials of each combination, from {N_DIRECTIONS} directions in turn")
    gaits: tuple[str, ...] = campaign_option(("stand", "walk", "trot", "running_trot"), among=GAITS)
    sizes: tuple[float, ...] = campaign_option(
        (0.2, 0.3, 0.4, 0.5, 0.6, 0.7), "change of the velocity [sqrt(g l)]", expected="positive numbers"
    )
    duration: float = campaign_option(0.1, "duration of a push [s]")

    def draw(self, cell: SimpleNamespace, p: Morphology, rng: np.random.Generator) -> dict[str, Any]:
        """Draws velocity and phase of the push, the same for all robots, gaits, sizes and plants."""
        gait = GAITS[cell.gait]
        velocity, phase = draw_velocity(p, rng), rng.uniform()
        push_time = START_TIME + gait.period * (phase + (TRANSITION_CYCLES if starts_as_trot(gait) else 0.0))
        return {
            **run_time(p, push_time + TIME_AFTER_ONE_PUSH, EVALUATED_AFTER_ONE_PUSH, self.dt),
            "velocity": velocity if gait.has_swing_phase else (0.0, 0.0, 0.0),
            "push": cell.size * p.speed_scale,
            "push_direction": 2.0 * math.pi * (cell.number % N_DIRECTIONS) / N_DIRECTIONS,
            "push_time": push_time * p.time_scale,
            "push_duration": self.duration,
        }

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 < self.duration <= MAX_PUSH_DURATION:
            raise ArgumentError(
                f"duration: expected more than 0 and at most {MAX_PUSH_DURATION:g} s, got {self.duration:g} s; longer "
                "pushes would not end before the run is evaluated"
            )


@renamed_fields(miss="max_velocity_error")
@dataclass(frozen=True, kw_only=True)
class SlopeCampaign(SeededGridCampaign):
    """Runs of robots that start on a slope and walk forward, for every robot, slope, direction and plant.

    A run succeeds if the robot is upright at the end and no component of its velocity differs from the command by more
    than `max_velocity_error` times the commanded speed.  The limit that the controller predicts for the slope is
    recorded as "predicted_slope_limit", see `run_trial`: an empty text predicts a success, any other a failure.
    """

    name: ClassVar[str] = "slopes"
    grid = ("robot", "angles", "ways", "friction", "plants")

    angles: tuple[float, ...] = campaign_option(
        (10.0, 15.0, 20.0, 25.0),
        "slope angles of the ground [degrees]",
        expected="at least 0 and less than 60 degrees",
        valid=lambda angle: 0.0 <= angle < 60.0,
    )
    ways: tuple[str, ...] = campaign_option(tuple(SLOPE_DIRECTIONS), among=SLOPE_DIRECTIONS)
    gait: str = campaign_option("trot", "gait of the robots")
    friction: tuple[float, ...] = campaign_option(
        (0.8,), "friction coefficients of the ground", expected="positive numbers"
    )
    speed: float = campaign_option(DEFAULT_COMMAND_SPEED, "speed [sqrt(g l)], varied by up to 20 %")
    seconds: float = campaign_option(20.0, HALF_AVERAGED)
    max_velocity_error: float = error_option(0.2)

    def draw(self, cell: SimpleNamespace, p: Morphology, rng: np.random.Generator) -> dict[str, Any]:
        """Draws deviations of direction and speed, the same on all robots, slopes and plants."""
        direction_deviation = rng.uniform(-MAX_DIRECTION_DEVIATION, MAX_DIRECTION_DEVIATION)
        speed = (1.0 + rng.uniform(-MAX_SPEED_DEVIATION, MAX_SPEED_DEVIATION)) * self.speed * p.speed_scale
        return {
            **_averaged_over_second_half(self.seconds, self.dt),
            "velocity": (speed, 0.0, 0.0),
            "unit_speed": speed,
            "slope": math.radians(cell.angle),
            "slope_direction": SLOPE_DIRECTIONS[cell.way] + direction_deviation,
        }


@dataclass(frozen=True)
class ObstacleCourse:
    """Terrain ahead of the robot; lengths are in leg lengths."""

    size: float  # rise of each step, negative down; maximum height of rubble; amplitude of a relief
    bar: float = 0.9  # expected fraction of successful trials
    kind: str = "stairs"  # field of `Trial` that selects it: "stairs", "rubble" or "relief"
    tread: float = 0.0  # depth of each step
    terrain_known: bool = True  # whether the controller has a terrain map

    @property
    def length(self) -> float:
        """Horizontal length from the first edge on [leg lengths]."""
        return N_STAIR_STEPS * self.tread if self.kind == "stairs" else FIELD_LENGTH

    @property
    def rise(self) -> float:
        """Height of the last edge above the first [leg lengths]."""
        return N_STAIR_STEPS * self.size if self.kind == "stairs" else 0.0

    def fields(self, length: float, speed: float, dt: float) -> dict[str, Any]:
        """Returns the fields of a `Trial` straight ahead over the terrain.

        Args:
            length: leg length [m].
            speed: commanded speed [m/s].
            dt: period of controller and plant [s].
        """
        distance = LEVEL_LENGTH + EXTRA_DISTANCE + math.hypot(self.length, self.rise)
        seconds = round(TIME_LIMIT_FACTOR * (COMMAND_START_TIME + distance * length / speed) / dt) * dt
        fields = {
            self.kind: self.size * length,
            "terrain_known": self.terrain_known,
            "course_interval": (LEVEL_LENGTH * length, (LEVEL_LENGTH + self.length + RUN_OUT_LENGTH) * length),
            "seconds": seconds,
            "averaging_time": seconds,
        }
        return fields | ({"tread": self.tread * length} if self.tread else {})


#: All obstacles by name.
OBSTACLES: Mapping[str, ObstacleCourse] = MappingProxyType(
    {
        "up-0.15-0.6": ObstacleCourse(0.15, tread=0.6),
        "up-0.15-0.4": ObstacleCourse(0.15, tread=0.4),
        "up-0.25-0.6": ObstacleCourse(0.25, tread=0.6),
        "up-0.25-0.4": ObstacleCourse(0.25, tread=0.4),
        "down-0.15-0.6": ObstacleCourse(-0.15, tread=0.6),
        "down-0.15-0.4": ObstacleCourse(-0.15, tread=0.4),
        "down-0.25-0.6": ObstacleCourse(-0.25, tread=0.6),
        "down-0.25-0.4": ObstacleCourse(-0.25, tread=0.4),
        "blind-up-0.1-0.6": ObstacleCourse(0.1, 0.8, tread=0.6, terrain_known=False),
        "blind-down-0.1-0.6": ObstacleCourse(-0.1, 0.8, tread=0.6, terrain_known=False),
        "blind-up-0.1-0.4": ObstacleCourse(0.1, 0.8, tread=0.4, terrain_known=False),
        "blind-down-0.1-0.4": ObstacleCourse(-0.1, 0.8, tread=0.4, terrain_known=False),
        "rubble-0.15": ObstacleCourse(0.15, kind="rubble"),
        "blind-rubble-0.08": ObstacleCourse(0.08, kind="rubble", terrain_known=False),
        "blind-relief-0.15": ObstacleCourse(0.15, 0.95, kind="relief", terrain_known=False),
    }
)


@renamed_fields(miss="max_velocity_error")
@dataclass(frozen=True, kw_only=True)
class ObstacleCampaign(SeededGridCampaign):
    """Runs of robots straight ahead over stairs, rubble and uneven terrain, for every robot, obstacle and plant.

    A run succeeds if the robot passes the whole obstacle and no component of its velocity, along the ground, differs
    from the command by more than `max_velocity_error` times the commanded speed.
    """

    name: ClassVar[str] = "obstacles"
    grid = ("robot", "obstacles", "plants")

    obstacles: tuple[str, ...] = campaign_option(
        tuple(OBSTACLES), "one or more of {names}; lengths in leg lengths", among=OBSTACLES
    )
    gait: str = campaign_option("trot", "gait of the robots")
    touching: str = campaign_option("estimated", "detection of foot contacts: {names}", among=CONTACT_DETECTION_OPTIONS)
    friction: float = campaign_option(0.8, "friction coefficient of the ground")
    speed: float = campaign_option(DEFAULT_COMMAND_SPEED, "commanded speed [sqrt(g l)]", expected="a positive number")
    max_velocity_error: float = error_option(0.2)

    def __post_init__(self) -> None:
        super().__post_init__()
        find_gait(self.gait)

    def draw(self, cell: SimpleNamespace, p: Morphology, rng: np.random.Generator) -> dict[str, Any]:
        """Returns the obstacle, scaled by leg length; the terrain is random by the number of the trial."""
        speed = self.speed * p.speed_scale
        return {
            "options": CONTACT_DETECTION_OPTIONS[self.touching],
            "velocity": (speed, 0.0, 0.0),
            "min_velocity_ratio": 0.0,
            "unit_speed": speed,
            **OBSTACLES[cell.obstacle].fields(p.length, speed, self.dt),
        }


@dataclass(frozen=True)
class FrictionDrop:
    """Sudden drop of the friction of the ground."""

    friction: float  # Coulomb friction coefficient after the drop
    bar: float  # required success rate, as a fraction of all trials
    duration: float = 0.0  # duration of the drop [s]; 0: until the end
    # whether a successful run must track the commanded velocity; if False, the robot only has to stay upright
    walks: bool = True

    def fields(self, p: Morphology, rng: np.random.Generator, dt: float) -> dict[str, Any]:
        """Draws the fields of a `Trial`: random direction and yaw rate, and a drop at a random phase of the gait."""
        x, y, _ = draw_velocity(p, rng)
        yaw_rate = rng.uniform(-MAX_YAW_RATE, MAX_YAW_RATE)
        drop_time = (START_TIME + rng.uniform(0.0, TROT_PERIOD)) * p.time_scale
        seconds = round(((START_TIME + TROT_PERIOD + TIME_AFTER_PUSH) * p.time_scale + self.duration) / dt) * dt
        return {
            **run_time(p, EVALUATED_AFTER_PUSH, EVALUATED_AFTER_PUSH, dt),
            "seconds": seconds,
            "velocity": (x, y, yaw_rate),
            "min_velocity_ratio": 0.0 if self.walks else -math.inf,
            "slip_friction": self.friction,
            "slip_time": drop_time,
            "slip_duration": self.duration,
        }


#: All drops by name.
FRICTION_DROPS: Mapping[str, FrictionDrop] = MappingProxyType(
    {
        "0.2": FrictionDrop(0.2, 0.9),
        "0.1-1s": FrictionDrop(0.1, 0.7, duration=1.0),
        "ice": FrictionDrop(0.03, 0.0, walks=False),
    }
)


@renamed_fields(miss="max_velocity_error", noise="noise_scale")
@dataclass(frozen=True, kw_only=True)
class FrictionDropCampaign(SeededGridCampaign):
    """Runs of robots on ground whose friction drops suddenly, for every robot, drop, controller setting and plant.

    A run succeeds if the robot is upright at the end and no component of its velocity differs from the command by more
    than `max_velocity_error` times the commanded speed (for the yaw rate: in rad/s per unit).  On ice the
    robot only has to stay upright.  The record entry "peak_motor_power" is the largest power of one motor after the
    drop, see `run_trial`.
    """

    name: ClassVar[str] = "friction-drop"
    grid = ("robot", "slips", "friction", "plants")

    slips: tuple[str, ...] = campaign_option(tuple(FRICTION_DROPS), among=FRICTION_DROPS)
    friction: tuple[str, ...] = campaign_option(
        tuple(FRICTION_OPTIONS), "friction of the controller: {names}", among=FRICTION_OPTIONS
    )
    gait: str = campaign_option("trot", "gait of the robots")
    dry: float = campaign_option(0.6, "friction of the ground before the drop")
    noise_scale: float = campaign_option(
        0.0, "noise of the sensors relative to consumer parts, with 2 ms delay; 0: none"
    )
    max_velocity_error: float = error_option(0.2)

    def draw(self, cell: SimpleNamespace, p: Morphology, rng: np.random.Generator) -> dict[str, Any]:
        """Draws direction and phase of the gait, the same for all robots, plants and drops."""
        drop = FRICTION_DROPS[cell.slip]
        fields = drop.fields(p, rng, self.dt)
        return {
            "options": FRICTION_OPTIONS[cell.friction],
            "max_velocity_error": self.max_velocity_error if drop.walks else None,
            "unit_speed": math.hypot(*fields["velocity"][:2]),
            "friction": self.dry,
            "delay": 2e-3 if self.noise_scale else 0.0,
            **fields,
        }


@dataclass(frozen=True, kw_only=True)
class RobustnessCampaign(GridCampaign):
    """Seeded trials of every disturbance in every plant.

    A trial succeeds if the robot is upright at the end and has reached 70 % of the commanded speed.
    """

    name: ClassVar[str] = "robustness"
    grid = ("disturbances", "plants")

    robot: str = robot_option()
    trials: int = count_option(100, "trials of each disturbance in each plant")
    disturbances: tuple[str, ...] = campaign_option(
        (), "one or more of {names}; default: all but the last", among=DISTURBANCES
    )
    size: float | None = campaign_option(
        None, "size of the disturbance, if only one is selected; default: its default size"
    )
    plants: tuple[str, ...] = campaign_option(PLANTS, among=ALL_PLANTS)
    gait: str = campaign_option("trot", "gait of the robot")
    dt: float = period_option()
    seed: int = campaign_option(0, "seed of the campaign")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.size is not None and len(self.disturbances) != 1:
            raise ArgumentError(
                f"size: accepted only if one disturbance is selected, but {len(self.disturbances)} are; select one "
                "by disturbances"
            )

    @property
    def chosen(self) -> dict[str, Disturbance]:
        """Selected disturbances by name."""
        names = self.disturbances or tuple(name for name in DISTURBANCES if name != "nothing")
        return {name: DISTURBANCES[name] for name in names}

    def cells(self) -> list[tuple[Any, ...]]:
        """Returns all combinations of the selected disturbances and the plants."""
        return list(itertools.product(self.chosen, self.plants))

    def generator(self, cell: SimpleNamespace) -> np.random.Generator:
        """Returns the random generator of a trial; a number has the same disturbance in all plants."""
        return case_rng(self.seed, list(DISTURBANCES).index(cell.disturbance), cell.number)

    def draw(self, cell: SimpleNamespace, p: Morphology, rng: np.random.Generator) -> dict[str, Any]:
        """Draws a disturbance."""
        return DISTURBANCES[cell.disturbance].draw_fields(p, self.size, rng)


@dataclass(frozen=True, kw_only=True)
class SweepCampaign(GridCampaign):
    """Seeded trials repeated with each value of one option, such as ``controller.friction`` or ``gait.period``."""

    name: ClassVar[str] = "sweep"
    grid = ("values",)

    robot: str = robot_option()
    option: str = campaign_option(
        "controller.friction",
        "controller.NAME, gait.NAME or plant.NAME with an argument of the constructor; or dt",
    )
    values: tuple[float | str, ...] = campaign_option((0.2, 0.4, 0.6, 0.8), "values of the option")
    disturbance: str = campaign_option("push", "one of {names}", among=DISTURBANCES)
    size: float | None = campaign_option(None, "size of the disturbance; default: its default size")
    plant: str = campaign_option("embedded", "embedded or mujoco", among=ALL_PLANTS)
    gait: str = campaign_option("trot", "gait of the robot")
    trials: int = count_option(20, "trials of each value, with the same seeds for all values")
    seed: int = campaign_option(0, "seed of the campaign")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.values:
            raise ArgumentError("values: expected at least one value, got none")
        if self.option != "dt":
            check_options(Trial(robot=self.robot, plant=self.plant, options=((self.option, self.values[0]),)))

    def generator(self, cell: SimpleNamespace) -> np.random.Generator:
        """Returns the random generator of a trial; a number has the same random numbers for every value."""
        return case_rng(self.seed, list(DISTURBANCES).index(self.disturbance), cell.number)

    def draw(self, cell: SimpleNamespace, p: Morphology, rng: np.random.Generator) -> dict[str, Any]:
        """Draws the disturbance, and sets the option to its value."""
        fields = DISTURBANCES[self.disturbance].draw_fields(p, self.size, rng)
        value = {"dt": float(cell.value)} if self.option == "dt" else {"options": ((self.option, cell.value),)}
        return fields | value


__getattr__ = renamed_names(
    __name__,
    {
        "Gaits": "GaitCampaign",
        "Obstacle": "ObstacleCourse",
        "Obstacles": "ObstacleCampaign",
        "Pushes": "PushCampaign",
        "Reach": "VelocityLimitCampaign",
        "Robustness": "RobustnessCampaign",
        "Slip": "FrictionDrop",
        "Slippery": "FrictionDropCampaign",
        "Slopes": "SlopeCampaign",
        "Sweep": "SweepCampaign",
    },
)
