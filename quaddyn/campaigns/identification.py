"""`IdentificationCampaign`: accumulates the QR factors of many log files in parallel and merges them."""

from __future__ import annotations

import base64
import functools
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from ..deprecation import renamed_names
from ..errors import ArgumentError
from ..identification import Accumulator, BaseParameters, base_parameters, stream_samples
from ..robot import Robot
from .campaign import Campaign, Failure, Record, campaign_option, hash_robot, hash_texts, load_cached_robot


@dataclass(frozen=True, kw_only=True)
class LogCase:
    """One log file."""

    robot: str  # catalogue name, path or URDF text
    root: str | None  # "free", "planar" or "fixed"; None: chosen by the kind of robot
    file: str  # CSV or NPZ, as `quaddyn.identification.stream_samples` reads it
    content: str  # hash of the file, so that another file of the same name is another case
    torque_noise: float | None  # see `Accumulator`
    force_noise: float | None  # likewise


@dataclass(frozen=True, kw_only=True)
class IdentificationCampaign(Campaign[LogCase]):
    """QR factors of many log files; `merge_results` combines them, and `quaddyn.identification` fits the parameters."""

    name: ClassVar[str] = "identification"
    Case: ClassVar[type[LogCase]] = LogCase

    robot: str = campaign_option(help_text="catalogue name or URDF file")
    files: tuple[str, ...] = campaign_option(help_text="log files (CSV or NPZ) that every worker can read")
    root: str | None = campaign_option(None, "root joint: free, planar or fixed; default: by the kind of robot")
    torque_noise: float | None = campaign_option(None, "standard deviation of the measured torques [N m]")
    force_noise: float | None = campaign_option(None, "standard deviation of the measured contact forces [N]")

    def __post_init__(self) -> None:
        if not self.files:
            raise ArgumentError("files: expected at least one file, got none")

    def count(self) -> int:
        """Returns the number of files."""
        return len(self.files)

    def cases(self) -> Iterator[LogCase]:
        """Yields one case per file.

        Raises:
            OSError: a file cannot be read.
        """
        for file in self.files:
            yield LogCase(
                robot=self.robot,
                root=self.root,
                file=str(Path(file).absolute()),  # workers may run in other folders
                content=_hash_file(Path(file)),
                torque_noise=self.torque_noise,
                force_noise=self.force_noise,
            )

    @property
    def robots(self) -> tuple[str, ...]:
        """Source of the robot, as a tuple."""
        return (self.robot,)

    def model_hash(self) -> str:
        """Returns a hash of the robot, so that more files may be added to a store."""
        return hash_texts(hash_robot(self.robot, root=self.root))

    def run(self, case: LogCase) -> Record:
        """Computes the QR factors of a file.

        Returns:
            "samples", the number of samples, and "factors", `Accumulator.dump` as base64 text.

        Raises:
            ArgumentError: the file is not a data set of this robot, or has changed since the case was made.
        """
        if _hash_file(Path(case.file)) != case.content:
            raise ArgumentError(f"{case.file}: the file has changed since the campaign began; start a new campaign")
        robot = load_cached_robot(case.robot, root=case.root)
        accumulator = make_accumulator(case)
        for samples in stream_samples(case.file, robot):
            accumulator.add(samples)
        return {"samples": accumulator.samples, "factors": base64.b64encode(accumulator.dump()).decode("ascii")}


def make_accumulator(case: LogCase) -> Accumulator:
    """Returns an empty accumulator for the robot and noise of a case."""
    base = _cached_base_parameters(case.robot, case.root)
    return Accumulator(base, torque_noise=case.torque_noise, force_noise=case.force_noise)


def merge_results(results: Iterable[tuple[LogCase, Record | Failure]]) -> Accumulator:
    """Merges the QR factors of all files of a campaign pair by pair as a tree.

    The QR factor of stacked triangular factors is that of all their rows, in any order, up to rounding.  A tree keeps
    the rounding errors small and allows pairs to be merged anywhere (Demmel et al. 2012, "Communication-optimal
    parallel and sequential QR and LU factorizations").

    Args:
        results: cases with their records, such as ``run(campaign, ...).results``.

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
        raise ArgumentError("results: expected the results of at least one file, got none")
    return merge_accumulators(leaves)


def merge_accumulators(parts: Sequence[Accumulator]) -> Accumulator:
    """Merges accumulators pair by pair, into the first of each pair, and returns the merged one."""
    while len(parts) > 1:
        for first, second in zip(parts[::2], parts[1::2], strict=False):
            first.merge(second)
        parts = parts[::2]
    return parts[0]


@functools.lru_cache(maxsize=16)
def _cached_base_parameters(source: str, root: str | None) -> BaseParameters:
    """Returns the base parameters of a robot, cached by source and root."""
    robot: Robot = load_cached_robot(source, root=root)
    return base_parameters(robot)


def _hash_file(path: Path) -> str:
    """Returns a hash of the content of a file."""
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
