"""`IdentificationCampaign`: accumulates the QR factors of many log files in parallel and merges them."""

from __future__ import annotations

import base64
import functools
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from ..deprecation import renamed_names
from ..errors import ArgumentError
from ..identification import Accumulator, BaseParameters, base_parameters, stream_samples
from ..robot import Robot
from .campaign import Campaign, Failure, Record, hash_texts
from .worker_memory import hash_robot, load_cached_robot


@dataclass(frozen=True, kw_only=True)
class LogCase:
    """One log file.

    Attributes:
        robot: catalogue name, path or URDF text.
        root: "free", "planar" or "fixed"; None for what suits the robot.
        file: CSV or NPZ, as `quaddyn.identification.stream_samples` reads it.
        content: digest of the file: another file of the same name is another case.
        torque_noise, force_noise: see `Accumulator`.
    """

    robot: str
    root: str | None
    file: str
    content: str
    torque_noise: float | None
    force_noise: float | None


@dataclass(frozen=True, kw_only=True)
class IdentificationCampaign(Campaign[LogCase]):
    """QR factors of many log files; `merge_results` combines them, and `quaddyn.identification` fits the parameters."""

    name: ClassVar[str] = "identification"
    Case: ClassVar[type[LogCase]] = LogCase

    robot: str = field(metadata={"help": "catalogue name or URDF file"})
    files: tuple[str, ...] = field(metadata={"help": "logs, CSV or NPZ, where every worker can read them"})
    root: str | None = field(default=None, metadata={"help": "free, planar or fixed; default: what suits the robot"})
    torque_noise: float | None = field(default=None, metadata={"help": "of the measured torques [N m]"})
    force_noise: float | None = field(default=None, metadata={"help": "of the measured contact forces [N]"})

    def __post_init__(self) -> None:
        if not self.files:
            raise ArgumentError("files: expected at least one")

    def count(self) -> int:
        """How many files there are."""
        return len(self.files)

    def cases(self) -> Iterator[LogCase]:
        """File by file.

        Raises:
            OSError: a file cannot be read.
        """
        for file in self.files:
            yield LogCase(
                robot=self.robot,
                root=self.root,
                file=str(Path(file).absolute()),  # workers have folders of their own
                content=_digest(Path(file)),
                torque_noise=self.torque_noise,
                force_noise=self.force_noise,
            )

    def model_hash(self) -> str:
        """Of the robot: more files may be added to a store."""
        return hash_texts(hash_robot(self.robot, root=self.root))

    def run(self, case: LogCase) -> Record:
        """Read a file.

        Returns:
            "samples", how many it holds, and "factors", `Accumulator.dump` as base64 text.

        Raises:
            ArgumentError: it is no data set of this robot, or has changed since the case was made.
        """
        if _digest(Path(case.file)) != case.content:
            raise ArgumentError(f"{case.file}: it has changed since the campaign began")
        machine = load_cached_robot(case.robot, root=case.root)
        gathered = make_accumulator(case)
        for part in stream_samples(case.file, machine):
            gathered.add(part)
        return {"samples": gathered.samples, "factors": base64.b64encode(gathered.dump()).decode("ascii")}


def make_accumulator(case: LogCase) -> Accumulator:
    """Returns an empty accumulator for the robot and noise of a case."""
    base = _base(case.robot, case.root)
    return Accumulator(base, torque_noise=case.torque_noise, force_noise=case.force_noise)


def merge_results(results: Iterable[tuple[LogCase, Record | Failure]]) -> Accumulator:
    """Merges the QR factors of all files of a campaign pair by pair as a tree.

    The QR factor of stacked triangular factors is that of all their rows, in any order, up to rounding.  A tree keeps
    the rounding errors small and allows pairs to be merged anywhere (Demmel et al. 2012, "Communication-optimal
    parallel and sequential QR and LU factorizations").

    Args:
        results: such as ``run(campaign, ...).results``.

    Raises:
        ArgumentError: no result, or a file without a record.
    """
    leaves = []
    for case, record in results:
        if isinstance(record, Failure):
            raise ArgumentError(f"{case.file}: {record.error}")
        leaf = make_accumulator(case)
        leaf.load(base64.b64decode(str(record["factors"])))
        leaves.append(leaf)
    if not leaves:
        raise ArgumentError("results: expected those of at least one file")
    return merge_accumulators(leaves)


def merge_accumulators(parts: Sequence[Accumulator]) -> Accumulator:
    """Merges accumulators pair by pair, into the first of each pair, and returns the last one left."""
    while len(parts) > 1:
        for one, other in zip(parts[::2], parts[1::2], strict=False):
            one.merge(other)
        parts = parts[::2]
    return parts[0]


@functools.lru_cache(maxsize=16)
def _base(source: str, root: str | None) -> BaseParameters:
    machine: Robot = load_cached_robot(source, root=root)
    return base_parameters(machine)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()[:32]


__getattr__ = renamed_names(
    __name__,
    {
        "LogIdentification": "IdentificationCampaign",
        "gathered": "merge_results",
        "merged": "merge_accumulators",
    },
)
