"""What a campaign is: cases, and a pure function of a case."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar

from ..errors import ArgumentError
from .plain_values import Plain, encode

if TYPE_CHECKING:
    from ..robot import Robot
    from ..viewer import Viewer

C = TypeVar("C")
Record = Mapping[str, Plain]


class Failure(NamedTuple):
    """Why there is no record of a case.

    Attributes:
        error: type and text of the exception, or how its workers died.
        poison: whether its workers died.
        trace: where it was raised, or how the last worker died.
    """

    error: str
    poison: bool = False
    trace: str = ""


class Campaign(ABC, Generic[C]):
    """Many runs of one experiment; subclasses are frozen dataclasses at the top of a module.

    The fields of a campaign are its options: plain values (`Plain`), which say what cases there are.  They become the
    options of the command line; ``field(metadata={"help": ...})`` is their help there.  A *case* holds everything that
    its run depends on, so that it can be replayed anywhere: robot, controller options, plant, disturbance, seed.

    Attributes:
        name: by which `registry.find` knows it; also in the store.
        Case: frozen, hashable dataclass of plain values.
    """

    name: ClassVar[str]
    Case: ClassVar[type[Any]]

    @abstractmethod
    def cases(self) -> Iterator[C]:
        """The cases, always in the same order and one at a time: there may be ten million."""

    @abstractmethod
    def run(self, case: C) -> Record:
        """The record of a case: plain numbers and words by name.

        It depends on the case alone: not on time, host, order or what ran before.  An exception is recorded with its
        text.  By convention "success" (bool) says whether what was tried went well, and "reason" (str) why not.
        """

    def run_batch(self, cases: Sequence[C]) -> Sequence[Record]:
        """The records of several cases, each as `run` would give it; override where running together is faster."""
        return [self.run(case) for case in cases]

    def count(self) -> int | None:
        """How many cases there are, for the progress; None if unknown."""
        return None

    def model_hash(self) -> str:
        """Digest of what the records depend on beside the case, such as robot files.

        A store goes on only with the same digest.  By default that of all options.
        """
        return digest(self.name, encode(self))

    def failure(self, record: Record) -> str | None:
        """Why a record counts as a failure; None for a success.  By default its "success" and "reason"."""
        return None if record.get("success", True) else str(record.get("reason") or "failed")

    def shown(self, case: C) -> Robot:
        """The robot that `replay` shows."""
        raise ArgumentError(f"campaign {self.name!r} has nothing to show")

    def replay(self, case: C, viewer: Viewer) -> Record:
        """Run a case again, drawing it; the same record, bit for bit."""
        raise ArgumentError(f"campaign {self.name!r} has nothing to show")


def digest(*parts: str | bytes) -> str:
    """Short digest of texts, for `Campaign.model_hash`."""
    state = hashlib.blake2b(digest_size=16)
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        state.update(len(data).to_bytes(8, "little") + data)
    return state.hexdigest()
