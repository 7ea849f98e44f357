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

#: Least share of what is possible that is commanded.
SLOW = 0.3
#: Speed, in sqrt(g l), that no gait reaches: what is asked for before the controller cuts it.
BEYOND = 10.0


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
        default=("crawl", "walk", "trot", "pace", "bound"), metadata={"help": f"some of {', '.join(GAITS)}"}
    )
    plants: tuple[str, ...] = field(default=("embedded",), metadata={"help": f"some of {', '.join(ALL_PLANTS)}"})
    trials: int = field(default=100, metadata={"help": "trials of each combination"})
    seconds: float = field(default=20.0, metadata={"help": "of each run [s]; velocities count over the second half"})
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
        """Robots, gaits and plants, without the gaits that the controller refuses to a robot."""
        cells = itertools.product(self.robot, self.gaits, self.plants)
        return [cell for cell in cells if not refused(*cell[:2])]

    def cases(self) -> Iterator[Trial]:
        """Yields the cases by trial number, so that the first part of a campaign is a smaller campaign."""
        for number in range(self.trials):
            for cell in self.cells():
                yield self.case(*cell, number)

    def case(self, source: str, gait: str, plant: str, number: int) -> Trial:
        """Returns one case; a number has the same direction everywhere, scaled to the limits of robot and gait."""
        rng = case_rng(self.seed, number)
        way, haste = rng.normal(size=3), rng.uniform(SLOW, 1.0)
        p = _controller(source, gait).morphology
        radius = float(np.hypot(*np.abs(p.nominal_stance).max(axis=0)))
        way *= BEYOND * p.speed_scale / np.linalg.norm(way)
        x, y, turn = (haste * _controller(source, gait).clamp_velocity(way / (1.0, 1.0, radius))).tolist()
        speed = math.hypot(x, y) + abs(turn) * radius
        half = round(0.5 * self.seconds / self.dt) * self.dt
        return Trial(
            robot=source,
            plant=plant,
            gait=gait,
            dt=self.dt,
            seconds=2.0 * half,
            averaging_time=half,
            velocity=(x, y, turn),
            min_velocity_ratio=0.0,
            max_velocity_error=self.max_velocity_error,
            unit_speed=speed,
            unit_turn=speed / radius,
            seed=self.seed,
            number=number,
        )


@lru_cache(maxsize=64)
def refused(source: str, gait: str) -> str:
    """Why the controller refuses a gait to a robot, "" if it does not."""
    try:
        _controller(source, gait)
    except ArgumentError as error:
        if not str(error).startswith("gait:"):  # no gait of a robot that cannot walk at all
            raise
        return str(error)
    return ""


@lru_cache(maxsize=64)
def _controller(source: str, gait: str) -> LocomotionController:
    """One that knows what the robot can do."""
    return LocomotionController(load_cached_robot(source), gait=gait)


__getattr__ = renamed_names(__name__, {"Reach": "VelocityLimitCampaign"})
