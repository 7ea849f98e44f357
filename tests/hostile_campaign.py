"""`HostileTicks`: the ticks of `hostile_ticks`, judged to three hundred digits, as a campaign."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from exact_optimum import excess
from hostile_ticks import HANDS, of_controller

from quaddyn.campaigns import Campaign, Record, hash_robot, hash_texts

#: Levels of the controllers; largest excess of one.
LEVELS, LEAST = 5, 1e-9


@dataclass(frozen=True, kw_only=True)
class ControllerCase:
    """The ticks of one controller: the `number`-th of `seed`."""

    robot: str
    number: int
    ticks: int
    seed: int


@dataclass(frozen=True, kw_only=True)
class HostileTicks(Campaign[ControllerCase]):
    """Ticks made to fail; a case succeeds if none that is not flagged lacks more than it must on the first levels."""

    name: ClassVar[str] = "hostile"
    Case: ClassVar[type[ControllerCase]] = ControllerCase

    robot: tuple[str, ...] = field(default=tuple(HANDS), metadata={"help": "with arms"})
    ticks: int = field(default=30, metadata={"help": "of each robot, five for a controller"})
    seed: int = field(default=0, metadata={"help": "of the campaign"})

    def cases(self) -> Iterator[ControllerCase]:
        for name in self.robot:
            for number in range(-(-self.ticks // 5)):
                yield ControllerCase(robot=name, number=number, ticks=5, seed=self.seed)

    def count(self) -> int:
        return len(self.robot) * -(-self.ticks // 5)

    def model_hash(self) -> str:
        return hash_texts(*(hash_robot(name) for name in sorted(self.robot)))

    def run(self, case: ControllerCase) -> Record:
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
