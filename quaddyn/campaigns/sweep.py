"""`SweepCampaign`: varies one option of controller, gait or plant under one disturbance."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from ..deprecation import renamed_names
from ..errors import ArgumentError, UnknownNameError
from .disturbances import DISTURBANCES
from .plain_values import PlainValue
from .trial import ALL_PLANTS, Trial
from .trial_campaign import TrialCampaign, robot_proportions
from .trial_setup import check_options
from .worker_memory import case_rng


@dataclass(frozen=True, kw_only=True)
class SweepCampaign(TrialCampaign):
    """Seeded trials repeated with each value of one option, such as ``controller.friction`` or ``gait.period``."""

    name: ClassVar[str] = "sweep"

    robot: str = field(default="go2", metadata={"help": "catalogue name or URDF file"})
    option: str = field(
        default="controller.friction",
        metadata={"help": "controller.NAME, gait.NAME or plant.NAME with an argument of the constructor; or dt"},
    )
    values: tuple[float | str, ...] = field(default=(0.2, 0.4, 0.6, 0.8), metadata={"help": "values of the option"})
    disturbance: str = field(default="push", metadata={"help": f"one of {', '.join(DISTURBANCES)}"})
    size: float | None = field(default=None, metadata={"help": "size of the disturbance; default: its default size"})
    plant: str = field(default="embedded", metadata={"help": "embedded or mujoco"})
    gait: str = field(default="trot", metadata={"help": "gait of the robot"})
    trials: int = field(default=20, metadata={"help": "trials of each value, with the same seeds for all values"})
    seed: int = field(default=0, metadata={"help": "seed of the campaign"})

    def __post_init__(self) -> None:
        if self.disturbance not in DISTURBANCES:
            raise UnknownNameError("disturbance", self.disturbance, DISTURBANCES)
        if self.plant not in ALL_PLANTS:
            raise UnknownNameError("plant", self.plant, ALL_PLANTS)
        if not self.values or self.trials < 1:
            raise ArgumentError(
                f"values, trials: expected at least one value and one trial, got {self.values}, {self.trials}"
            )
        if self.option != "dt":
            check_options(Trial(robot=self.robot, plant=self.plant, options=((self.option, self.values[0]),)))

    @property
    def robots(self) -> tuple[str, ...]:
        """Source of the robot, as a tuple."""
        return (self.robot,)

    def count(self) -> int:
        """Returns the number of cases."""
        return self.trials * len(self.values)

    def cases(self) -> Iterator[Trial]:
        """Yields the cases by trial number; a number has the same random numbers for every value."""
        disturbance = DISTURBANCES[self.disturbance]
        size = disturbance.size if self.size is None else self.size
        for number in range(self.trials):
            for value in self.values:
                rng = case_rng(self.seed, list(DISTURBANCES).index(self.disturbance), number)
                fields = disturbance.draw(robot_proportions(self.robot), size, rng)
                if self.option == "dt":
                    fields["dt"] = float(value)
                else:
                    option: tuple[str, PlainValue] = (self.option, value)
                    fields["options"] = (option,)
                yield Trial(robot=self.robot, plant=self.plant, gait=self.gait, seed=self.seed, number=number, **fields)


__getattr__ = renamed_names(__name__, {"Sweep": "SweepCampaign"})
