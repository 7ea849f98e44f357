"""Result of validation and cross-check of a robot."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..errors import ModelError, UnreadableFileError
from ..robot import Robot, load

if TYPE_CHECKING:
    from ..verification import VerificationReport


@dataclass(frozen=True)
class Verdict:
    """Result of validation and cross-check of one robot.

    Attributes:
        source: catalogue name or file.
        robot: the loaded robot; None if validation rejected it.
        refusal: reason of the rejection; "" for an accepted robot.
        agreement: result of the cross-check; None without one.
    """

    source: str
    robot: Robot | None
    refusal: str
    agreement: VerificationReport | None

    @property
    def passed(self) -> bool:
        """Whether validation accepts the robot and the cross-check, if one was made, finds agreement."""
        return self.robot is not None and not self.refusal and (self.agreement is None or self.agreement.passed)

    def to_json(self) -> dict[str, object]:
        """Returns the result as JSON data."""
        out: dict[str, object] = {"source": self.source, "accepted": self.robot is not None, "passed": self.passed}
        if self.refusal:
            out["reason"] = self.refusal
        if self.robot is not None:
            report = self.robot.report
            out |= {
                "robot": self.robot.name,
                "root": self.robot.root,
                "findings": [
                    {"level": f.level, "where": str(f.where), "reason": f.reason, "advice": f.advice} for f in report
                ],
                "checks": dict(report.check_results),
            }
        if self.agreement is not None:
            out["agreement"] = self.agreement.to_json()
        return out


def validate(name: str, **options: Any) -> Verdict:
    """Validates a robot by loading it, and returns the result.

    Args:
        name: catalogue name or file.
        **options: see `quaddyn.load`.

    Raises:
        UnreadableFileError: there is no such file, or it cannot be opened.
        UnknownNameError: there is no such robot.
    """
    try:
        return Verdict(name, load(name, **options), "", None)
    except UnreadableFileError:  # a wrong argument, not a result
        raise
    except ModelError as error:
        return Verdict(name, None, str(error), None)


def add_cross_check(loaded: Verdict, *, samples: int, seed: int, source: bytes | str | None) -> Verdict:
    """Returns a validation result, completed by a cross-check against the reference.

    Args:
        loaded: result of `validate`.
        samples: number of random states.
        seed: seed of the random states.
        source: robot that the reference reads instead; None: the same robot.
    """
    from ..verification import cross_check

    if loaded.robot is None:
        return loaded
    try:
        return replace(loaded, agreement=cross_check(loaded.robot, samples=samples, seed=seed, source=source))
    except ModelError as error:  # accepted by validation, but not by the reader of the reference
        return replace(loaded, refusal=f"the reader of the reference rejects the file: {error}")
