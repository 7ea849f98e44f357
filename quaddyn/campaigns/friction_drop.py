"""`FrictionDropCampaign`: sudden drops of the ground friction, of which the controller of the robot is not informed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from ..deprecation import renamed_fields, renamed_names
from ..errors import ArgumentError, UnknownNameError
from ..locomotion import Morphology
from .disturbances import EVALUATED_AFTER_PUSH, START_TIME, TIME_AFTER_PUSH, TROT_PERIOD, run_time
from .trial import ALL_PLANTS, PLANTS, Trial
from .trial_campaign import TrialCampaign, draw_velocity, robot_proportions
from .worker_memory import case_rng

#: Maximum magnitude of the random yaw rate [rad/s].
MAX_YAW_RATE = 0.5
#: Options of a controller that estimates the friction from slip, and of one that assumes the nominal friction.
FRICTION_OPTIONS = MappingProxyType(
    {"estimated": (("controller.friction", "estimated"),), "assumed": (("controller.friction", "nominal"),)}
)


@dataclass(frozen=True)
class FrictionDrop:
    """Sudden drop of the friction of the ground.

    Attributes:
        friction: Coulomb friction coefficient after the drop.
        bar: required success rate, as a fraction of all trials.
        duration: duration of the drop [s]; 0: until the end.
        walks: whether a successful run must track the commanded velocity; if False, the robot only has to stay upright.
    """

    friction: float
    bar: float
    duration: float = 0.0
    walks: bool = True

    def fields(self, p: Morphology, rng: np.random.Generator, dt: float) -> dict[str, Any]:
        """Draws the fields of a `Trial`: random direction and yaw rate, and a drop at a random phase of the gait."""
        x, y, _ = draw_velocity(p, rng)
        yaw_rate, drop_time = (
            rng.uniform(-MAX_YAW_RATE, MAX_YAW_RATE),
            (START_TIME + rng.uniform(0.0, TROT_PERIOD)) * p.time_scale,
        )
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
class FrictionDropCampaign(TrialCampaign):
    """Runs of robots on ground whose friction drops suddenly, for every robot, drop, controller setting and plant.

    A run succeeds if the robot is upright at the end and no component of its velocity differs from the command by more
    than `max_velocity_error` times the commanded speed (for the yaw rate: in rad/s per unit).  On ice the
    robot only has to stay upright.  The record entry "peak_motor_power" is the largest power of one motor after the
    drop, see `run_trial`.
    """

    name: ClassVar[str] = "friction-drop"

    robot: tuple[str, ...] = field(default=("go2",), metadata={"help": "catalogue names or URDF files"})
    slips: tuple[str, ...] = field(
        default=tuple(FRICTION_DROPS), metadata={"help": f"one or more of {', '.join(FRICTION_DROPS)}"}
    )
    friction: tuple[str, ...] = field(
        default=tuple(FRICTION_OPTIONS), metadata={"help": "friction of the controller: estimated, assumed"}
    )
    plants: tuple[str, ...] = field(default=PLANTS, metadata={"help": f"one or more of {', '.join(ALL_PLANTS)}"})
    trials: int = field(default=10, metadata={"help": "trials of each combination"})
    gait: str = field(default="trot", metadata={"help": "gait of the robots"})
    dry: float = field(default=0.6, metadata={"help": "friction of the ground before the drop"})
    noise_scale: float = field(
        default=0.0, metadata={"help": "noise of the sensors relative to consumer parts, with 2 ms delay; 0: none"}
    )
    max_velocity_error: float = field(
        default=0.2, metadata={"help": "largest velocity error that is a success, relative to the command"}
    )
    dt: float = field(default=2e-3, metadata={"help": "period of controller and plant [s]"})
    seed: int = field(default=0, metadata={"help": "seed of the campaign"})

    def __post_init__(self) -> None:
        for kind, given, known in (
            ("slip", self.slips, FRICTION_DROPS),
            ("friction", self.friction, FRICTION_OPTIONS),
            ("plant", self.plants, ALL_PLANTS),
        ):
            for name in given:
                if name not in known:
                    raise UnknownNameError(kind, name, known)
        if self.trials < 1:
            raise ArgumentError(f"trials: expected at least 1, got {self.trials}")

    @property
    def robots(self) -> tuple[str, ...]:
        """Sources of all robots of the campaign."""
        return self.robot

    def count(self) -> int:
        """Returns the number of cases."""
        return self.trials * math.prod(len(some) for some in (self.robot, self.slips, self.friction, self.plants))

    def cases(self) -> Iterator[Trial]:
        """Yields the cases by trial number, so that the first part of a campaign is a smaller campaign."""
        for number in range(self.trials):
            for cell in itertools.product(self.robot, self.slips, self.friction, self.plants):
                yield self.case(*cell, number)

    def case(self, source: str, slip: str, friction: str, plant: str, number: int) -> Trial:
        """Returns one case; a number has the same direction and phase of the gait for all robots, plants and drops."""
        p, kind = robot_proportions(source), FRICTION_DROPS[slip]
        fields = kind.fields(p, case_rng(self.seed, number), self.dt)
        speed = math.hypot(*fields["velocity"][:2])
        return Trial(
            robot=source,
            plant=plant,
            gait=self.gait,
            options=FRICTION_OPTIONS[friction],
            dt=self.dt,
            max_velocity_error=self.max_velocity_error if kind.walks else None,
            unit_speed=speed,
            friction=self.dry,
            noise_scale=self.noise_scale,
            delay=2e-3 if self.noise_scale else 0.0,
            seed=self.seed,
            number=number,
            **fields,
        )


__getattr__ = renamed_names(__name__, {"Slip": "FrictionDrop", "Slippery": "FrictionDropCampaign"})
