"""`PreflightReport`: what was looked at before a robot stands for the first time, and what a person is asked for."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from ..deprecation import renamed_fields


class OperatorPrompt(enum.Enum):
    """What the person at the robot is asked for."""

    NOSE_DOWN = "lean the trunk forward, nose down, by 20 degrees"
    LEVEL = "bring the trunk back to level"
    LEFT_DOWN = "lean the trunk to its left, left side down, by 20 degrees"


@renamed_fields(found="result", look="inspection_hint")
@dataclass(frozen=True, slots=True)
class PreflightCheck:
    """One thing that was looked at.

    Attributes:
        name: such as "order and sign of FL_hip_joint".
        passed: None where it was not tried, or is for a person alone to judge.
        found: in words.
        look: what to look at on the real robot; "" for nothing.
    """

    name: str
    passed: bool | None
    result: str
    inspection_hint: str = ""

    def __str__(self) -> str:
        mark = {True: "ok  ", False: "FAIL", None: "--  "}[self.passed]
        return f"{mark} {self.name}: {self.result}" + (
            f"\n     look: {self.inspection_hint}" if self.inspection_hint else ""
        )


@dataclass(frozen=True, slots=True)
class PreflightReport:
    """What a preflight found.

    Attributes:
        checks: in order.
    """

    checks: tuple[PreflightCheck, ...]

    @property
    def passed(self) -> bool:
        """Whether all that was tried is as it must be, and everything was tried."""
        return all(check.passed for check in self.checks)

    def __str__(self) -> str:
        wrong = [check for check in self.checks if check.passed is False]
        untried = [check for check in self.checks if check.passed is None]
        end = f"{len(self.checks)} checks, {len(wrong)} failed" + (f", {len(untried)} not tried" if untried else "")
        return "\n".join([*map(str, self.checks), end])
