"""`VelocityLimitCampaign`: robots walk at random velocities within the limits that the controller reports."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import ClassVar

import numpy as np

from ..deprecation import renamed_fields, renamed_names
from ..errors import ArgumentError, UnknownNameError
from ..locomotion import GAITS, LocomotionController
from .trial import ALL_PLANTS, Trial
from .trial_campaign import TrialCampaign
from .worker_memory import case_rng, load_cached_robot

#: Minimum commanded velocity, divided by the limit.
MIN_COMMAND_FRACTION = 0.3
#: Requested speed before clamping, above the limits of all gaits [sqrt(g l)].
UNREACHABLE_SPEED = 10.0


@renamed_fields(miss="max_velocity_error")
@dataclass(frozen=True, kw_only=True)
class VelocityLimitCampaign(TrialCampaign):
    """Runs of robots at random velocities within the limits of `LocomotionController.clamp_velocity`.

    A run succeeds if the robot is upright at the end and no component of its velocity differs from the command by more
    than `max_velocity_error` times the speed of its fastest hip.  Combinations of robot and gait that the controller
    rejects have no cases.
    """

    name: ClassVar[str] = "velocity-limits"

    robot: tuple[str, ...] = field(default=("go2",), metadata={"help": "catalogue names or URDF files"})
    gaits: tuple[str, ...] = field(
        default=("crawl", "walk", "trot", "pace", "bound"), metadata={"help": f"one or more of {', '.join(GAITS)}"}
    )
    plants: tuple[str, ...] = field(default=("embedded",), metadata={"help": f"one or more of {', '.join(ALL_PLANTS)}"})
    trials: int = field(default=100, metadata={"help": "trials of each combination"})
    seconds: float = field(
        default=20.0, metadata={"help": "duration of each run [s]; velocities are averaged over the second half"}
    )
    max_velocity_error: float = field(
        default=0.2, metadata={"help": "largest velocity error that is a success, relative to the command"}
    )
    dt: float = field(default=2e-3, metadata={"help": "period of controller and plant [s]"})
    seed: int = field(default=0, metadata={"help": "seed of the campaign"})

    def __post_init__(self) -> None:
        for kind, given, known in (("gait", self.gaits, GAITS), ("plant", self.plants, ALL_PLANTS)):
            for name in given:
                if name not in known:
                    raise UnknownNameError(kind, name, known)
        if self.trials < 1:
            raise ArgumentError(f"trials: expected at least 1, got {self.trials}")
        if not self.seconds > 0.0:
            raise ArgumentError(f"seconds: expected a positive time, got {self.seconds}")

    @property
    def robots(self) -> tuple[str, ...]:
        """Sources of all robots of the campaign."""
        return self.robot

    def count(self) -> int:
        """Returns the number of cases."""
        return self.trials * len(self.cells())

    def cells(self) -> list[tuple[str, str, str]]:
        """Returns all combinations of robot, gait and plant that the controller accepts."""
        cells = itertools.product(self.robot, self.gaits, self.plants)
        return [cell for cell in cells if not gait_rejection(*cell[:2])]

    def cases(self) -> Iterator[Trial]:
        """Yields the cases by trial number, so that the first part of a campaign is a smaller campaign."""
        for number in range(self.trials):
            for cell in self.cells():
                yield self.case(*cell, number)

    def case(self, source: str, gait: str, plant: str, number: int) -> Trial:
        """Returns one case; a number has the same direction everywhere, scaled to the limits of robot and gait."""
        rng = case_rng(self.seed, number)
        velocity, fraction = rng.normal(size=3), rng.uniform(MIN_COMMAND_FRACTION, 1.0)
        morphology = _cached_controller(source, gait).morphology
        radius = float(np.hypot(*np.abs(morphology.nominal_stance).max(axis=0)))
        velocity *= UNREACHABLE_SPEED * morphology.speed_scale / np.linalg.norm(velocity)
        x, y, turn = (
            fraction * _cached_controller(source, gait).clamp_velocity(velocity / (1.0, 1.0, radius))
        ).tolist()
        speed = math.hypot(x, y) + abs(turn) * radius
        half_duration = round(0.5 * self.seconds / self.dt) * self.dt
        return Trial(
            robot=source,
            plant=plant,
            gait=gait,
            dt=self.dt,
            seconds=2.0 * half_duration,
            averaging_time=half_duration,
            velocity=(x, y, turn),
            min_velocity_ratio=0.0,
            max_velocity_error=self.max_velocity_error,
            unit_speed=speed,
            unit_turn=speed / radius,
            seed=self.seed,
            number=number,
        )


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


__getattr__ = renamed_names(__name__, {"Reach": "VelocityLimitCampaign"})
