"""`PreflightReport`: results of the preflight checks, and the actions requested from a person."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from ..deprecation import renamed_fields


class OperatorPrompt(enum.Enum):
    """Action requested from the person at the robot."""

    NOSE_DOWN = "lean the trunk forward, nose down, by 20 degrees"
    LEVEL = "bring the trunk back to level"
    LEFT_DOWN = "lean the trunk to its left, left side down, by 20 degrees"


@renamed_fields(found="result", look="inspection_hint")
@dataclass(frozen=True, slots=True)
class PreflightCheck:
    """Result of one check.

    Attributes:
        name: name, such as "order and sign of FL_hip_joint".
        passed: None if it was not performed, or if only a person can decide.
        result: result as text.
        inspection_hint: what to inspect on the real robot; "" for nothing.
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
    """Results of a preflight.

    Attributes:
        checks: the checks in order.
    """

    checks: tuple[PreflightCheck, ...]

    @property
    def passed(self) -> bool:
        """Whether every check was performed and passed."""
        return all(check.passed for check in self.checks)

    def __str__(self) -> str:
        wrong = [check for check in self.checks if check.passed is False]
        untried = [check for check in self.checks if check.passed is None]
        end = f"{len(self.checks)} checks, {len(wrong)} failed" + (f", {len(untried)} not tried" if untried else "")
        return "\n".join([*map(str, self.checks), end])
