"""`Slippery`: robots trot, and the ground becomes slippery under them, told nothing."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from ..errors import ArgumentError, UnknownNameError
from ..locomotion import Proportions
from .disturbances import AFTER, LATE, PERIOD, START, run_time
from .trial import ALL_PLANTS, PLANTS, Trial
from .trial_campaign import Trials, cruise, proportions
from .worker_memory import generator

#: Yaw rates are drawn up to this [rad/s].
TURN = 0.5
#: Options of a controller that finds out how slippery the ground is, and of one that goes on assuming.
BELIEVING = MappingProxyType(
    {"estimated": (("controller.friction", "estimated"),), "assumed": (("controller.friction", "assumed"),)}
)


@dataclass(frozen=True)
class Slip:
    """One kind of slippery ground.

    Attributes:
        friction: Coulomb's coefficient that the ground suddenly has.
        bar: share of trials that should succeed.
        duration: for how long [s]; 0 for good.
        walks: whether a robot is to go on at the commanded velocity; else it only has to stay up.
    """

    friction: float
    bar: float
    duration: float = 0.0
    walks: bool = True

    def fields(self, p: Proportions, rng: np.random.Generator, dt: float) -> dict[str, Any]:
        """Of a `Trial` in a direction at random, with a turn; it happens at some moment of the gait's period."""
        x, y, _ = cruise(p, rng)
        turn, when = rng.uniform(-TURN, TURN), (START + rng.uniform(0.0, PERIOD)) * p.time
        seconds = round(((START + PERIOD + AFTER) * p.time + self.duration) / dt) * dt
        return {
            **run_time(p, LATE, LATE, dt),
            "seconds": seconds,
            "velocity": (x, y, turn),
            "progress": 0.0 if self.walks else -math.inf,
            "slip": self.friction,
            "slip_time": when,
            "slip_duration": self.duration,
        }


#: All of them by name.
SLIPS: Mapping[str, Slip] = MappingProxyType(
    {"0.2": Slip(0.2, 0.9), "0.1-1s": Slip(0.1, 0.7, duration=1.0), "ice": Slip(0.03, 0.0, walks=False)}
)


@dataclass(frozen=True, kw_only=True)
class Slippery(Trials):
    """Every robot on ground that becomes slippery, in every plant.

    A run succeeds if the robot is upright at the end and misses no component of its velocity by more than `miss` of
    the commanded speed (rad/s of the yaw rate); on ice it has to stay up.  How violent it was is recorded: "burst", see
    `drive`.
    """

    name: ClassVar[str] = "slippery"

    robot: tuple[str, ...] = field(default=("go2",), metadata={"help": "catalogue names or URDF files"})
    slips: tuple[str, ...] = field(default=tuple(SLIPS), metadata={"help": f"some of {', '.join(SLIPS)}"})
    friction: tuple[str, ...] = field(
        default=tuple(BELIEVING), metadata={"help": "what the controller goes by: estimated, assumed"}
    )
    plants: tuple[str, ...] = field(default=PLANTS, metadata={"help": f"some of {', '.join(ALL_PLANTS)}"})
    trials: int = field(default=10, metadata={"help": "of each"})
    gait: str = field(default="trot", metadata={"help": "that the robots move with"})
    dry: float = field(default=0.6, metadata={"help": "friction of the ground before"})
    noise: float = field(default=0.0, metadata={"help": "of sensors, 1: consumer parts, 2 ms late; 0: none"})
    miss: float = field(default=0.2, metadata={"help": "most of the command that may be missed"})
    dt: float = field(default=2e-3, metadata={"help": "period of controller and plant [s]"})
    seed: int = field(default=0, metadata={"help": "of the campaign"})

    def __post_init__(self) -> None:
        for kind, given, known in (
            ("slip", self.slips, SLIPS),
            ("friction", self.friction, BELIEVING),
            ("plant", self.plants, ALL_PLANTS),
        ):
            for name in given:
                if name not in known:
                    raise UnknownNameError(kind, name, known)
        if self.trials < 1:
            raise ArgumentError(f"trials: expected at least 1, got {self.trials}")

    @property
    def robots(self) -> tuple[str, ...]:
        """All of them."""
        return self.robot

    def count(self) -> int:
        """How many cases there are."""
        return self.trials * math.prod(len(some) for some in (self.robot, self.slips, self.friction, self.plants))

    def cases(self) -> Iterator[Trial]:
        """Number by number, so that a part of the campaign is a smaller campaign."""
        for number in range(self.trials):
            for cell in itertools.product(self.robot, self.slips, self.friction, self.plants):
                yield self.case(*cell, number)

    def case(self, source: str, slip: str, friction: str, plant: str, number: int) -> Trial:
        """One case.  For all robots, plants and slips the same number is the same direction and moment of the gait."""
        p, kind = proportions(source), SLIPS[slip]
        fields = kind.fields(p, generator(self.seed, number), self.dt)
        speed = math.hypot(*fields["velocity"][:2])
        return Trial(
            robot=source,
            plant=plant,
            gait=self.gait,
            options=BELIEVING[friction],
            dt=self.dt,
            miss=self.miss if kind.walks else None,
            unit_speed=speed,
            friction=self.dry,
            noise=self.noise,
            delay=2e-3 if self.noise else 0.0,
            seed=self.seed,
            number=number,
            **fields,
        )
