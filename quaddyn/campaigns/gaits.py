"""`GaitCampaign`: measures how well robots follow a velocity command, by gait, speed and direction."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import ClassVar

from ..deprecation import renamed_fields, renamed_names
from ..errors import ArgumentError, UnknownNameError
from ..locomotion import GAITS
from .trial import ALL_PLANTS, Trial
from .trial_campaign import DEFAULT_COMMAND_SPEED, TrialCampaign, robot_proportions

#: Velocities of unit size by name: forward and leftward in `unit_speed`, yaw rate in `unit_turn`.
DIRECTIONS = MappingProxyType(
    {"forward": (1.0, 0.0, 0.0), "backward": (-1.0, 0.0, 0.0), "sideways": (0.0, 1.0, 0.0), "turning": (0.0, 0.0, 1.0)}
)
#: Yaw rate that is commanded with the speed `DEFAULT_COMMAND_SPEED` [rad/s].
YAW_RATE = 0.5


@renamed_fields(miss="max_velocity_error")
@dataclass(frozen=True, kw_only=True)
class GaitCampaign(TrialCampaign):
    """Runs of every robot in every gait at every speed and direction.

    A run succeeds if no component of the velocity differs from the command by more than `max_velocity_error` times the
    commanded speed.
    """

    name: ClassVar[str] = "gaits"

    robot: tuple[str, ...] = field(default=("go2",), metadata={"help": "catalogue names or URDF files"})
    gaits: tuple[str, ...] = field(
        default=("crawl", "walk", "trot", "pace", "bound"), metadata={"help": f"one or more of {', '.join(GAITS)}"}
    )
    speeds: tuple[float, ...] = field(
        default=(0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4), metadata={"help": "commanded speeds [sqrt(g l)]"}
    )
    directions: tuple[str, ...] = field(
        default=("forward",), metadata={"help": f"one or more of {', '.join(DIRECTIONS)}"}
    )
    plants: tuple[str, ...] = field(default=("embedded",), metadata={"help": f"one or more of {', '.join(ALL_PLANTS)}"})
    seconds: float = field(
        default=8.0, metadata={"help": "duration of each run [s]; velocities are averaged after the first 4 s"}
    )
    max_velocity_error: float = field(
        default=0.15, metadata={"help": "largest velocity error that is a success, relative to the command"}
    )
    dt: float = field(default=2e-3, metadata={"help": "period of controller and plant [s]"})

    def __post_init__(self) -> None:
        for kind, given, known in (
            ("gait", self.gaits, GAITS),
            ("direction", self.directions, DIRECTIONS),
            ("plant", self.plants, ALL_PLANTS),
        ):
            for name in given:
                if name not in known:
                    raise UnknownNameError(kind, name, known)
        if not self.seconds > 4.0:
            raise ArgumentError(f"seconds: expected more than 4 s, got {self.seconds}")
        if not all(speed > 0.0 for speed in self.speeds):
            raise ArgumentError(f"speeds: expected positive numbers, got {self.speeds}")

    @property
    def robots(self) -> tuple[str, ...]:
        """Sources of all robots of the campaign."""
        return self.robot

    def _grid(self) -> Iterator[tuple[str, str, str, float, str]]:
        """Returns all combinations of robot, plant, gait, speed and direction."""
        return itertools.product(self.robot, self.plants, self.gaits, self.speeds, self.directions)

    def count(self) -> int:
        """Returns the number of cases."""
        return sum(1 for _ in self._grid())

    def cases(self) -> Iterator[Trial]:
        """Yields the cases robot by robot."""
        for source, plant, gait, speed, direction in self._grid():
            unit_speed = speed * robot_proportions(source).speed_scale
            unit_turn = speed / DEFAULT_COMMAND_SPEED * YAW_RATE
            x, y, z = DIRECTIONS[direction]
            yield Trial(
                robot=source,
                plant=plant,
                gait=gait,
                dt=self.dt,
                seconds=self.seconds,
                averaging_time=self.seconds - 4.0,
                velocity=(x * unit_speed, y * unit_speed, z * unit_turn),
                max_velocity_error=self.max_velocity_error,
                min_velocity_ratio=0.0,
                unit_speed=unit_speed,
                unit_turn=unit_turn,
            )


__getattr__ = renamed_names(__name__, {"Gaits": "GaitCampaign"})
