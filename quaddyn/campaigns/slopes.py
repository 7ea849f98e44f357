"""`SlopeCampaign`: walks up, down and across slopes, by robot, angle, friction and plant."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import ClassVar

from ..deprecation import renamed_fields, renamed_names
from ..errors import ArgumentError, UnknownNameError
from .trial import ALL_PLANTS, PLANTS, Trial
from .trial_campaign import DEFAULT_COMMAND_SPEED, TrialCampaign, robot_proportions
from .worker_memory import case_rng

#: Uphill direction from the forward direction of the robot [rad].
SLOPE_DIRECTIONS = MappingProxyType({"up": 0.0, "down": math.pi, "across": 0.5 * math.pi})
#: Maximum random deviation of the direction [rad], and of the speed as a fraction of it.
MAX_DIRECTION_DEVIATION, MAX_SPEED_DEVIATION = math.radians(10.0), 0.2


@renamed_fields(miss="max_velocity_error")
@dataclass(frozen=True, kw_only=True)
class SlopeCampaign(TrialCampaign):
    """Runs of robots that start on a slope and walk forward, for every robot, slope, direction and plant.

    A run succeeds if the robot is upright at the end and no component of its velocity differs from the command by more
    than `max_velocity_error` times the commanded speed.  The limit that the controller predicts for the slope is
    recorded as "predicted_slope_limit", see `run_trial`: an empty text predicts a success, any other a failure.
    """

    name: ClassVar[str] = "slopes"

    robot: tuple[str, ...] = field(default=("go2",), metadata={"help": "catalogue names or URDF files"})
    angles: tuple[float, ...] = field(
        default=(10.0, 15.0, 20.0, 25.0), metadata={"help": "slope angles of the ground [degrees]"}
    )
    ways: tuple[str, ...] = field(
        default=tuple(SLOPE_DIRECTIONS), metadata={"help": f"one or more of {', '.join(SLOPE_DIRECTIONS)}"}
    )
    plants: tuple[str, ...] = field(default=PLANTS, metadata={"help": f"one or more of {', '.join(ALL_PLANTS)}"})
    trials: int = field(default=10, metadata={"help": "trials of each combination"})
    gait: str = field(default="trot", metadata={"help": "gait of the robots"})
    friction: tuple[float, ...] = field(default=(0.8,), metadata={"help": "friction coefficients of the ground"})
    speed: float = field(default=DEFAULT_COMMAND_SPEED, metadata={"help": "speed [sqrt(g l)], varied by up to 20 %"})
    seconds: float = field(
        default=20.0, metadata={"help": "duration of each run [s]; velocities are averaged over the second half"}
    )
    max_velocity_error: float = field(
        default=0.2, metadata={"help": "largest velocity error that is a success, relative to the command"}
    )
    dt: float = field(default=2e-3, metadata={"help": "period of controller and plant [s]"})
    seed: int = field(default=0, metadata={"help": "seed of the campaign"})

    def __post_init__(self) -> None:
        for kind, given, known in (("way", self.ways, SLOPE_DIRECTIONS), ("plant", self.plants, ALL_PLANTS)):
            for name in given:
                if name not in known:
                    raise UnknownNameError(kind, name, known)
        if not all(0.0 <= angle < 60.0 for angle in self.angles):
            raise ArgumentError(f"angles: expected 0 to 60 degrees, got {self.angles}")
        if not all(0.0 < friction < math.inf for friction in self.friction):
            raise ArgumentError(f"friction: expected positive numbers, got {self.friction}")
        if self.trials < 1:
            raise ArgumentError(f"trials: expected at least 1, got {self.trials}")

    @property
    def robots(self) -> tuple[str, ...]:
        """Sources of all robots of the campaign."""
        return self.robot

    def count(self) -> int:
        """Returns the number of cases."""
        each = self.robot, self.angles, self.ways, self.friction, self.plants
        return self.trials * math.prod(len(some) for some in each)

    def cases(self) -> Iterator[Trial]:
        """Yields the cases by trial number, so that the first part of a campaign is a smaller campaign."""
        for number in range(self.trials):
            for cell in itertools.product(self.robot, self.angles, self.ways, self.friction, self.plants):
                yield self.case(*cell, number)

    def case(self, source: str, angle: float, way: str, friction: float, plant: str, number: int) -> Trial:
        """Returns one case; a number has the same direction and speed on all robots, slopes and plants."""
        rng = case_rng(self.seed, number)
        direction_deviation, speed_deviation = (
            rng.uniform(-MAX_DIRECTION_DEVIATION, MAX_DIRECTION_DEVIATION),
            rng.uniform(-MAX_SPEED_DEVIATION, MAX_SPEED_DEVIATION),
        )
        speed = (1.0 + speed_deviation) * self.speed * robot_proportions(source).speed_scale
        half_duration = round(0.5 * self.seconds / self.dt) * self.dt
        return Trial(
            robot=source,
            plant=plant,
            gait=self.gait,
            dt=self.dt,
            seconds=2.0 * half_duration,
            averaging_time=half_duration,
            velocity=(speed, 0.0, 0.0),
            min_velocity_ratio=0.0,
            max_velocity_error=self.max_velocity_error,
            unit_speed=speed,
            friction=friction,
            slope=math.radians(angle),
            slope_direction=SLOPE_DIRECTIONS[way] + direction_deviation,
            seed=self.seed,
            number=number,
        )


__getattr__ = renamed_names(__name__, {"Slopes": "SlopeCampaign"})
