"""`VerificationCampaign`: compares Pinocchio with the reference implementation on many robots and random states."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from ..deprecation import renamed_names
from ..errors import ArgumentError, ModelError
from ..robot import load
from ..robot.catalogue import example_robot_folder, own_robot_folder
from ..verification import cross_check
from .campaign import Campaign, Record, hash_texts


@dataclass(frozen=True, kw_only=True)
class VerificationCase:
    """One block of states of one robot.

    Attributes:
        file: of the robot, from the folder of example-robot-data or of this package's own robots.
        samples: random states.
        derivatives: in how many of them derivatives are compared too.
        seed: of the states.
    """

    file: str
    samples: int
    derivatives: int
    seed: int


@dataclass(frozen=True, kw_only=True)
class VerificationCampaign(Campaign[VerificationCase]):
    """Comparison of Pinocchio with the reference for every valid URDF of example-robot-data and of this package."""

    name: ClassVar[str] = "verification"
    Case: ClassVar[type[VerificationCase]] = VerificationCase

    names: tuple[str, ...] = field(default=(), metadata={"help": "parts of file names; by default all"})
    samples: int = field(default=100, metadata={"help": "states of each robot"})
    derivatives: int = field(default=10, metadata={"help": "in how many of them derivatives are compared too"})
    block: int = field(default=100, metadata={"help": "states in one case"})
    seed: int = field(default=0, metadata={"help": "of the states"})

    def __post_init__(self) -> None:
        if self.samples < 1 or self.block < 1 or self.derivatives < 0:
            raise ArgumentError("samples, block, derivatives: expected at least 1, 1 and 0")

    def files(self) -> list[str]:
        """Of the robots, as in `VerificationCase.file`."""
        found = [str(p.relative_to(example_robot_folder())) for p in sorted(example_robot_folder().rglob("*.urdf"))]
        found += [p.name for p in sorted(own_robot_folder().glob("*.urdf"))]
        return [f for f in found if not self.names or any(n in Path(f).name for n in self.names)]

    def count(self) -> int:
        """Returns the number of cases."""
        return len(self.files()) * -(-self.samples // self.block)

    def cases(self) -> Iterator[VerificationCase]:
        """Robot by robot; every block of a robot has a seed of its own."""
        for file in self.files():
            for number, start in enumerate(range(0, self.samples, self.block)):
                size = min(self.block, self.samples - start)
                slow = min(max(self.derivatives - start, 0), size)
                yield VerificationCase(file=file, samples=size, derivatives=slow, seed=self.seed + number)

    def model_hash(self) -> str:
        """Of the files: more states may be added to a store."""
        return hash_texts(*(path_of(file).read_bytes() for file in self.files()))

    def run(self, case: VerificationCase) -> Record:
        """The largest error of every algorithm, and what else there is to know.

        Returns:
            "success" and "reason"; "refused", the guard's reason or None; "errors NAME", "medians NAME" and
            "ratios NAME" (error over tolerance) by algorithm; "condition" of M; "third", MuJoCo's opinion.
        """
        path = path_of(case.file)
        try:
            robot = load(path, packages=[example_robot_folder().parent.parent])
        except ModelError as error:
            return {"success": True, "refused": str(error)}
        found = cross_check(
            robot, samples=case.samples, seed=case.seed, source=path, n_derivative_samples=case.derivatives
        )
        worst = max(found.ratios, key=lambda name: found.ratios[name])
        wrong = [str(d) for d in found.deviations] or [f"{worst} differs by {found.errors[worst]:.1e}"]
        out: dict[str, float | int | bool | str | None] = {
            "success": found.passed,
            "reason": None if found.passed else "; ".join(wrong)[:1000],
            "refused": None,
            "root": found.root,
            "nv": robot.nv,
            "condition": found.condition[1],
            "third": found.third_opinion.verdict,
            "third_error": found.third_opinion.error,
        }
        for kind in ("errors", "medians", "ratios"):
            out |= {f"{kind} {name}": value for name, value in getattr(found, kind).items()}
        return out


def path_of(file: str) -> Path:
    """Where a file of a case is on this machine."""
    own = own_robot_folder() / file
    return own if own.is_file() else example_robot_folder() / file


__getattr__ = renamed_names(
    __name__, {"AgreementCampaign": "VerificationCampaign", "AgreementCase": "VerificationCase"}
)
