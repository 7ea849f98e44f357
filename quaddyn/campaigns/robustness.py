"""`RobustnessCampaign`: success rate under pushes, payloads, low friction, slopes, steps and weak motors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from ..deprecation import renamed_names
from ..errors import ArgumentError, UnknownNameError
from .disturbances import DISTURBANCES, Disturbance
from .trial import ALL_PLANTS, PLANTS, Trial
from .trial_campaign import TrialCampaign, robot_proportions
from .worker_memory import case_rng


@dataclass(frozen=True, kw_only=True)
class RobustnessCampaign(TrialCampaign):
    """Seeded trials of every disturbance in every plant.

    A trial succeeds if the robot is upright at the end and has reached 70 % of the commanded speed.
    """

    name: ClassVar[str] = "robustness"

    robot: str = field(default="go2", metadata={"help": "catalogue name or URDF file"})
    trials: int = field(default=100, metadata={"help": "trials of each disturbance in each plant"})
    disturbances: tuple[str, ...] = field(
        default=(), metadata={"help": f"one or more of {', '.join(DISTURBANCES)}; default: all but the last"}
    )
    size: float | None = field(
        default=None, metadata={"help": "size of the disturbance, if only one is selected; default: its default size"}
    )
    plants: tuple[str, ...] = field(default=PLANTS, metadata={"help": f"one or more of {', '.join(ALL_PLANTS)}"})
    gait: str = field(default="trot", metadata={"help": "gait of the robot"})
    dt: float = field(default=2e-3, metadata={"help": "period of controller and plant [s]"})
    seed: int = field(default=0, metadata={"help": "seed of the campaign"})

    def __post_init__(self) -> None:
        for kind, given, known in (
            ("disturbance", self.disturbances, DISTURBANCES),
            ("plant", self.plants, ALL_PLANTS),
        ):
            for name in given:
                if name not in known:
                    raise UnknownNameError(kind, name, known)
        if self.size is not None and len(self.disturbances) != 1:
            raise ArgumentError(
                f"size: accepted only if one disturbance is selected, but {len(self.disturbances)} are; select one "
                "by disturbances"
            )
        if self.trials < 1:
            raise ArgumentError(f"trials: expected at least 1, got {self.trials}")

    @property
    def robots(self) -> tuple[str, ...]:
        """Source of the robot, as a tuple."""
        return (self.robot,)

    @property
    def chosen(self) -> dict[str, Disturbance]:
        """Selected disturbances by name."""
        names = self.disturbances or tuple(name for name in DISTURBANCES if name != "nothing")
        return {name: DISTURBANCES[name] for name in names}

    def count(self) -> int:
        """Returns the number of cases."""
        return self.trials * len(self.chosen) * len(self.plants)

    def cases(self) -> Iterator[Trial]:
        """Yields the cases by trial number, so that the first part of a campaign is a smaller campaign."""
        for number in range(self.trials):
            for name in self.chosen:
                for plant in self.plants:
                    yield self.case(name, plant, number)

    def case(self, disturbance: str, plant: str, number: int) -> Trial:
        """Returns one case; a number has the same disturbance in all plants."""
        chosen = DISTURBANCES[disturbance]
        rng = case_rng(self.seed, list(DISTURBANCES).index(disturbance), number)
        size = chosen.size if self.size is None else self.size
        return Trial(
            robot=self.robot,
            plant=plant,
            gait=self.gait,
            dt=self.dt,
            seed=self.seed,
            number=number,
            **chosen.draw(robot_proportions(self.robot), size, rng),
        )


__getattr__ = renamed_names(__name__, {"Robustness": "RobustnessCampaign"})
