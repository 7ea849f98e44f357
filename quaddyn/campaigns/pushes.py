"""`PushCampaign`: pushes from all directions at random moments of each gait."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

from ..deprecation import renamed_names
from ..errors import ArgumentError, UnknownNameError
from ..locomotion import GAITS
from .disturbances import START_TIME, run_time
from .trial import ALL_PLANTS, PLANTS, Trial
from .trial_campaign import TrialCampaign, draw_velocity, robot_proportions
from .worker_memory import case_rng

#: Number of push directions, evenly spread over the circle.
N_DIRECTIONS = 8
#: Number of cycles of the transition of gaits that begin as a trot.
TRANSITION_CYCLES = 4.0
#: Duration of a run after a push, and evaluated time at its end [sqrt(l/g)].
TIME_AFTER_PUSH, EVALUATED_AFTER_PUSH = 16.0, 6.0


@dataclass(frozen=True, kw_only=True)
class PushCampaign(TrialCampaign):
    """Runs of robots that are pushed at a random phase of the gait, for every robot, gait, push size and plant.

    A run succeeds if the robot is upright at the end and has reached 70 % of the commanded speed again; a standing
    robot only has to stay upright.
    """

    name: ClassVar[str] = "pushes"

    robot: tuple[str, ...] = field(default=("go2",), metadata={"help": "catalogue names or URDF files"})
    gaits: tuple[str, ...] = field(
        default=("stand", "walk", "trot", "running_trot"), metadata={"help": f"one or more of {', '.join(GAITS)}"}
    )
    sizes: tuple[float, ...] = field(
        default=(0.2, 0.3, 0.4, 0.5, 0.6, 0.7), metadata={"help": "change of the velocity [sqrt(g l)]"}
    )
    plants: tuple[str, ...] = field(default=PLANTS, metadata={"help": f"one or more of {', '.join(ALL_PLANTS)}"})
    trials: int = field(
        default=8, metadata={"help": f"trials of each combination, from {N_DIRECTIONS} directions in turn"}
    )
    duration: float = field(default=0.1, metadata={"help": "duration of a push [s]"})
    dt: float = field(default=2e-3, metadata={"help": "period of controller and plant [s]"})
    seed: int = field(default=0, metadata={"help": "seed of the campaign"})

    def __post_init__(self) -> None:
        for kind, given, known in (("gait", self.gaits, GAITS), ("plant", self.plants, ALL_PLANTS)):
            for name in given:
                if name not in known:
                    raise UnknownNameError(kind, name, known)
        if not all(0.0 < size < math.inf for size in self.sizes):
            raise ArgumentError(f"sizes: expected positive numbers, got {self.sizes}")
        if self.trials < 1:
            raise ArgumentError(f"trials: expected at least 1, got {self.trials}")

    @property
    def robots(self) -> tuple[str, ...]:
        """Sources of all robots of the campaign."""
        return self.robot

    def count(self) -> int:
        """Returns the number of cases."""
        return self.trials * math.prod(len(some) for some in (self.robot, self.gaits, self.sizes, self.plants))

    def cases(self) -> Iterator[Trial]:
        """Yields the cases by trial number, so that the first part of a campaign is a smaller campaign."""
        for number in range(self.trials):
            for cell in itertools.product(self.robot, self.gaits, self.sizes, self.plants):
                yield self.case(*cell, number)

    def case(self, source: str, gait: str, size: float, plant: str, number: int) -> Trial:
        """Returns one case; a number has the same push at the same phase for all robots, gaits, sizes and plants."""
        p, kind = robot_proportions(source), GAITS[gait]
        rng = case_rng(self.seed, number)
        velocity, phase = draw_velocity(p, rng), rng.uniform()
        starts_as_trot = kind.footprint_scale != (1.0, 1.0) or not kind.vertical_force_profile.is_constant
        push_time = START_TIME + kind.period * (phase + (TRANSITION_CYCLES if starts_as_trot else 0.0))
        times: dict[str, Any] = run_time(p, push_time + TIME_AFTER_PUSH, EVALUATED_AFTER_PUSH, self.dt)
        return Trial(
            robot=source,
            plant=plant,
            gait=gait,
            dt=self.dt,
            **times,
            velocity=velocity if kind.has_swing_phase else (0.0, 0.0, 0.0),
            push=size * p.speed_scale,
            push_direction=2.0 * math.pi * (number % N_DIRECTIONS) / N_DIRECTIONS,
            push_time=push_time * p.time_scale,
            push_duration=self.duration,
            seed=self.seed,
            number=number,
        )


__getattr__ = renamed_names(__name__, {"Pushes": "PushCampaign"})
