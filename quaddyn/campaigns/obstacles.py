"""`ObstacleCampaign`: stairs, rubble and uneven terrain, scaled by leg length, with and without a terrain map."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar

from ..deprecation import renamed_fields, renamed_names
from ..errors import ArgumentError, UnknownNameError
from ..locomotion.gait import find_gait
from .trial import ALL_PLANTS, PLANTS, Trial
from .trial_campaign import DEFAULT_COMMAND_SPEED, TrialCampaign, robot_proportions
from .trial_runner import COMMAND_START_TIME
from .trial_terrain import FIELD_LENGTH, LEVEL_LENGTH, N_STAIR_STEPS

#: Length of level ground after the last edge, and distance added to the course for the time limit [l].
RUN_OUT_LENGTH, EXTRA_DISTANCE = 0.4, 1.0
#: Time limit of a run, divided by its duration at the commanded speed.
TIME_LIMIT_FACTOR = 2.0
#: Options of a controller that estimates contacts, and of one that assumes the contact schedule.
CONTACT_DETECTION_OPTIONS = MappingProxyType(
    {
        "estimated": (("controller.contact_detection", "estimated"),),
        "scheduled": (("controller.contact_detection", "scheduled"),),
    }
)


@dataclass(frozen=True)
class ObstacleCourse:
    """Terrain ahead of the robot; lengths are in leg lengths.

    Attributes:
        size: rise of each step, negative down; maximum height of rubble; amplitude of a relief.
        bar: expected fraction of successful trials.
        kind: field of `Trial` that selects it: "stairs", "rubble" or "relief".
        tread: depth of each step.
        terrain_known: whether the controller has a terrain map.
    """

    size: float
    bar: float = 0.9
    kind: str = "stairs"
    tread: float = 0.0
    terrain_known: bool = True

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
class ObstacleCampaign(TrialCampaign):
    """Runs of robots straight ahead over stairs, rubble and uneven terrain, for every robot, obstacle and plant.

    A run succeeds if the robot passes the whole obstacle and no component of its velocity, along the ground, differs
    from the command by more than `max_velocity_error` times the commanded speed.
    """

    name: ClassVar[str] = "obstacles"

    robot: tuple[str, ...] = field(default=("go2",), metadata={"help": "catalogue names or URDF files"})
    obstacles: tuple[str, ...] = field(
        default=tuple(OBSTACLES), metadata={"help": f"one or more of {', '.join(OBSTACLES)}; lengths in leg lengths"}
    )
    plants: tuple[str, ...] = field(default=PLANTS, metadata={"help": f"one or more of {', '.join(ALL_PLANTS)}"})
    trials: int = field(default=10, metadata={"help": "trials of each combination"})
    gait: str = field(default="trot", metadata={"help": "gait of the robots"})
    touching: str = field(default="estimated", metadata={"help": "detection of foot contacts: estimated, scheduled"})
    friction: float = field(default=0.8, metadata={"help": "friction coefficient of the ground"})
    speed: float = field(default=DEFAULT_COMMAND_SPEED, metadata={"help": "commanded speed [sqrt(g l)]"})
    max_velocity_error: float = field(
        default=0.2, metadata={"help": "largest velocity error that is a success, relative to the command"}
    )
    dt: float = field(default=2e-3, metadata={"help": "period of controller and plant [s]"})
    seed: int = field(default=0, metadata={"help": "seed of the campaign"})

    def __post_init__(self) -> None:
        for kind, given, known in (("obstacle", self.obstacles, OBSTACLES), ("plant", self.plants, ALL_PLANTS)):
            for name in given:
                if name not in known:
                    raise UnknownNameError(kind, name, known)
        if self.touching not in CONTACT_DETECTION_OPTIONS:
            raise UnknownNameError("touching", self.touching, CONTACT_DETECTION_OPTIONS)
        if self.trials < 1:
            raise ArgumentError(f"trials: expected at least 1, got {self.trials}")
        find_gait(self.gait)
        if not 0.0 < self.dt < math.inf:
            raise ArgumentError(f"dt: expected a positive period [s], got {self.dt}")
        if not 0.0 < self.speed < math.inf:
            raise ArgumentError(f"speed: expected a positive number, got {self.speed}")

    @property
    def robots(self) -> tuple[str, ...]:
        """Sources of all robots of the campaign."""
        return self.robot

    def count(self) -> int:
        """Returns the number of cases."""
        return self.trials * len(self.robot) * len(self.obstacles) * len(self.plants)

    def cases(self) -> Iterator[Trial]:
        """Yields the cases by trial number, so that the first part of a campaign is a smaller campaign."""
        for number in range(self.trials):
            for source, obstacle, plant in itertools.product(self.robot, self.obstacles, self.plants):
                yield self.case(source, obstacle, plant, number)

    def case(self, source: str, obstacle: str, plant: str, number: int) -> Trial:
        """Returns one case; a number has the same terrain for all robots and plants, scaled by leg length."""
        p = robot_proportions(source)
        speed = self.speed * p.speed_scale
        return Trial(
            robot=source,
            plant=plant,
            gait=self.gait,
            options=CONTACT_DETECTION_OPTIONS[self.touching],
            dt=self.dt,
            velocity=(speed, 0.0, 0.0),
            min_velocity_ratio=0.0,
            max_velocity_error=self.max_velocity_error,
            unit_speed=speed,
            friction=self.friction,
            seed=self.seed,
            number=number,
            **OBSTACLES[obstacle].fields(p.length, speed, self.dt),
        )


__getattr__ = renamed_names(__name__, {"Obstacle": "ObstacleCourse", "Obstacles": "ObstacleCampaign"})
