"""`Campaign`: base class of experiments, which yields cases and runs each as a pure function of the case."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar

from ..deprecation import renamed_overrides
from ..errors import ArgumentError
from .plain_values import PlainValue, encode

if TYPE_CHECKING:
    from ..robot import Robot
    from ..viewer import Viewer

C = TypeVar("C")
Record = Mapping[str, PlainValue]


class Failure(NamedTuple):
    """Reason for which a case has no record.

    Attributes:
        error: type and text of the exception, or a description of how its worker processes died.
        killed_workers: whether the case was abandoned because its worker processes died.
        trace: traceback of the exception, or how the last worker process died.
    """

    error: str
    killed_workers: bool = False
    trace: str = ""


@renamed_overrides(failure="failure_reason", shown="case_robot")
class Campaign(ABC, Generic[C]):
    """Base class of experiments with many runs; subclasses are frozen dataclasses at the top level of a module.

    The fields of a campaign are its options.  They hold plain values (`PlainValue`), determine the cases, and become
    options of the command line with ``field(metadata={"help": ...})`` as their help.  A *case* holds everything on
    which its run depends, so that it can be replayed anywhere: robot, controller options, plant, disturbance, seed.

    Attributes:
        name: name of the campaign for `registry.find`, on the command line and in stores.
        Case: type of the cases, a frozen, hashable dataclass of plain values.
        renamed_entries: new names of entries of records, by the old names that stores of earlier versions have.
    """

    name: ClassVar[str]
    Case: ClassVar[type[Any]]
    renamed_entries: ClassVar[Mapping[str, str]] = {}

    @abstractmethod
    def cases(self) -> Iterator[C]:
        """Yields the cases one at a time, always in the same order; there may be millions of cases."""

    @abstractmethod
    def run(self, case: C) -> Record:
        """Runs one case and returns its record, a mapping of names to plain values.

        The record must depend on the case alone, not on time, host, order or earlier cases.  An exception is recorded
        with its text.  By convention the entry "success" (bool) is the outcome and "reason" (str) the cause of a
        failure.
        """

    def run_batch(self, cases: Sequence[C]) -> Sequence[Record]:
        """Runs several cases and returns the record of each, equal to that of `run`; override it if that is faster."""
        return [self.run(case) for case in cases]

    def count(self) -> int | None:
        """Returns the number of cases, for progress reports; None if unknown."""
        return None

    def model_hash(self) -> str:
        """Returns a hash of everything besides the case on which records depend, such as robot files.

        A store can be continued only with the same hash.  By default it is the hash of all options.
        """
        return hash_texts(self.name, encode(self))

    def failure_reason(self, record: Record) -> str | None:
        """Returns why a record is a failure, None for a success; by default from its "success" and "reason"."""
        return None if record.get("success", True) else str(record.get("reason") or "failed")

    def case_robot(self, case: C) -> Robot:
        """Returns the robot that `replay` shows for a case.

        Raises:
            ArgumentError: the campaign cannot be shown in the viewer.
        """
        raise ArgumentError(
            f"campaign {self.name!r}: its cases cannot be shown in the viewer, because the campaign does not support "
            "replay"
        )

    def replay(self, case: C, viewer: Viewer) -> Record:
        """Runs a case again and shows it in the viewer; returns the same record, equal to the bit.

        Raises:
            ArgumentError: the campaign cannot be shown in the viewer.
        """
        raise ArgumentError(
            f"campaign {self.name!r}: its cases cannot be shown in the viewer, because the campaign does not support "
            "replay"
        )


def hash_texts(*parts: str | bytes) -> str:
    """Returns a hash of 32 hexadecimal digits of texts or bytes, for `Campaign.model_hash`.

    Args:
        *parts: texts or bytes; their order and boundaries matter.
    """
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()
