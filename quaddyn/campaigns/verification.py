"""`VerificationCampaign`: compares Pinocchio with the reference implementation on many robots and random states."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from ..deprecation import renamed_names
from ..errors import ModelError
from ..robot import load
from ..robot.catalogue import example_robot_folder, own_robot_folder
from ..verification import cross_check
from .campaign import Campaign, Record, campaign_option, count_option, hash_texts


@dataclass(frozen=True, kw_only=True)
class VerificationCase:
    """Block of random states of one robot."""

    file: str  # URDF file, relative to the folder of example-robot-data or of the robots of this package
    samples: int  # number of random states
    derivatives: int  # number of these states in which derivatives are compared, too
    seed: int  # seed of the states


@dataclass(frozen=True, kw_only=True)
class VerificationCampaign(Campaign[VerificationCase]):
    """Comparison of Pinocchio with the reference for every valid URDF of example-robot-data and of this package."""

    name: ClassVar[str] = "verification"
    Case: ClassVar[type[VerificationCase]] = VerificationCase

    names: tuple[str, ...] = campaign_option((), "parts of file names; default: all files")
    samples: int = count_option(100, "random states of each robot")
    derivatives: int = count_option(10, "number of these states in which derivatives are compared, too", minimum=0)
    block: int = count_option(100, "number of states in one case")
    seed: int = campaign_option(0, "seed of the states")

    def files(self) -> list[str]:
        """Returns the URDF files of the robots, as in `VerificationCase.file`."""
        found = [str(p.relative_to(example_robot_folder())) for p in sorted(example_robot_folder().rglob("*.urdf"))]
        found += [p.name for p in sorted(own_robot_folder().glob("*.urdf"))]
        return [f for f in found if not self.names or any(n in Path(f).name for n in self.names)]

    def count(self) -> int:
        """Returns the number of cases."""
        return len(self.files()) * -(-self.samples // self.block)

    def cases(self) -> Iterator[VerificationCase]:
        """Yields the cases robot by robot; each block of states of a robot has a separate seed."""
        for file in self.files():
            for number, start in enumerate(range(0, self.samples, self.block)):
                size = min(self.block, self.samples - start)
                n_derivatives = min(max(self.derivatives - start, 0), size)
                yield VerificationCase(file=file, samples=size, derivatives=n_derivatives, seed=self.seed + number)

    def model_hash(self) -> str:
        """Returns a hash of the files, so that more states may be added to a store."""
        return hash_texts(*(locate_file(file).read_bytes() for file in self.files()))

    def run(self, case: VerificationCase) -> Record:
        """Compares all algorithms on the states of a case.

        Returns:
            "success" and "reason"; "refused", the reason of a rejection by validation, or None; "errors NAME",
            "medians NAME" and "ratios NAME" (error over tolerance) by algorithm; "condition" of M; "third" and
            "third_error", result and error of the comparison with MuJoCo.
        """
        path = locate_file(case.file)
        try:
            robot = load(path, packages=[example_robot_folder().parent.parent])
        except ModelError as error:
            return {"success": True, "refused": str(error)}
        report = cross_check(
            robot, samples=case.samples, seed=case.seed, source=path, n_derivative_samples=case.derivatives
        )
        worst = max(report.ratios, key=lambda name: report.ratios[name])
        deviations = [str(d) for d in report.deviations] or [f"{worst} differs by {report.errors[worst]:.1e}"]
        record: dict[str, float | int | bool | str | None] = {
            "success": report.passed,
            "reason": None if report.passed else "; ".join(deviations)[:1000],
            "refused": None,
            "root": report.root,
            "nv": robot.nv,
            "condition": report.condition[1],
            "third": report.third_opinion.verdict,
            "third_error": report.third_opinion.error,
        }
        for kind in ("errors", "medians", "ratios"):
            record |= {f"{kind} {name}": value for name, value in getattr(report, kind).items()}
        return record


def locate_file(file: str) -> Path:
    """Returns the path of the file of a case on this machine."""
    own = own_robot_folder() / file
    return own if own.is_file() else example_robot_folder() / file


__getattr__ = renamed_names(
    __name__, {"AgreementCampaign": "VerificationCampaign", "AgreementCase": "VerificationCase"}
)
