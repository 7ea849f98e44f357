"""`HostileTicks`: a campaign that compares the ticks of `hostile_ticks` with optima of 300 digits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from exact_optimum import excess
from hostile_ticks import HANDS, of_controller

from quaddyn.campaigns import Campaign, Record, hash_robot, hash_texts

#: Number of levels of the controllers; largest excess of a level.
LEVELS, LEAST = 5, 1e-9


@dataclass(frozen=True, kw_only=True)
class ControllerCase:
    """Ticks of one controller, number `number` of `seed`."""

    robot: str
    number: int
    ticks: int
    seed: int


@dataclass(frozen=True, kw_only=True)
class HostileTicks(Campaign[ControllerCase]):
    """Hard ticks; a case succeeds if all ticks that are not flagged are optimal on the first two levels."""

    name: ClassVar[str] = "hostile"
    Case: ClassVar[type[ControllerCase]] = ControllerCase

    robot: tuple[str, ...] = field(default=tuple(HANDS), metadata={"help": "robots with arms"})
    ticks: int = field(default=30, metadata={"help": "ticks of each robot, five per controller"})
    seed: int = field(default=0, metadata={"help": "seed of the campaign"})

    def cases(self) -> Iterator[ControllerCase]:
        """Yields the cases of every robot."""
        for name in self.robot:
            for number in range(-(-self.ticks // 5)):
                yield ControllerCase(robot=name, number=number, ticks=5, seed=self.seed)

    def count(self) -> int:
        """Returns the number of cases."""
        return len(self.robot) * -(-self.ticks // 5)

    def model_hash(self) -> str:
        """Returns the hash of the robots."""
        return hash_texts(*(hash_robot(name) for name in sorted(self.robot)))

    def run(self, case: ControllerCase) -> Record:
        """Computes the ticks of a case and compares them with their optima."""
        outcomes, wrong = [], []
        worst = [0.0] * LEVELS
        judged = good = 0
        for i, command in enumerate(of_controller(case.robot, case.number, case.seed, ticks=case.ticks)):
            outcomes.append(command.status.outcome)
            if command.status.outcome in ("inaccurate", "fallback"):
                continue
            over = excess(command.details.problem.matrices(), command.details.x)
            if over is None:
                continue
            judged += 1
            good += max(over) <= LEAST
            worst = [max(a, b) for a, b in zip(worst, over + [0.0] * LEVELS, strict=False)]
            if max(over[:2]) > LEAST:
                wrong.append(f"tick {i}: {command.status}: {[f'{v:.1e}' for v in over]}")
        return {
            "success": not wrong,
            "reason": "; ".join(wrong) or None,
            "outcomes": " ".join(outcomes),
            "judged": judged,
            "good": good,
            **{f"worst {level}": value for level, value in enumerate(worst)},
        }
