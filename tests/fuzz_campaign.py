"""`Fuzz`: the mutants of `fuzzing` as a campaign, which runs on all cores and stores every result."""

from __future__ import annotations

import atexit
import functools
import random
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import fuzz_bodies
import fuzz_mutants
import fuzzing

from quaddyn.campaigns import Campaign, Failure, Record, hash_texts


@dataclass(frozen=True, kw_only=True)
class FuzzCase:
    """Mutant number `index` of `seed`, the tested loader, and whether MuJoCo loads the file, too."""

    index: int
    seed: int
    loader: str
    mujoco: bool


@dataclass(frozen=True, kw_only=True)
class Fuzz(Campaign[FuzzCase]):
    """Loads mutants of real URDFs; a case fails if the loader crashes, hangs, or returns a wrong robot."""

    name: ClassVar[str] = "fuzz"
    Case: ClassVar[type[FuzzCase]] = FuzzCase

    number: int = field(default=40_000, metadata={"help": "number of mutants"})
    seed: int = field(default=1, metadata={"help": "seed of the campaign"})
    loader: str = field(default="quaddyn", metadata={"help": "quaddyn, bodies (loops, mimics, shapes) or pinocchio"})
    mujoco: float = field(default=0.1, metadata={"help": "fraction of faultless files that MuJoCo loads, too"})

    def count(self) -> int:
        return self.number

    def cases(self) -> Iterator[FuzzCase]:
        for index in range(self.number):
            ask = random.Random(index).random() < self.mujoco
            yield FuzzCase(index=index, seed=self.seed, loader=self.loader, mujoco=ask)

    def model_hash(self) -> str:
        return hash_texts(*(base.data for base in bases(self.loader)))

    def run(self, case: FuzzCase) -> Record:
        mutant = drawn(case.index, case.seed, case.loader)
        outcome = fuzzing.evaluate(mutant, _child(case.loader), _folder(), ask_mujoco=case.mujoco)
        return {
            "success": not outcome.failed,
            "reason": (outcome.misfits[0] if outcome.misfits else outcome.verdict) if outcome.failed else None,
            "kind": mutant.kind,
            "base": mutant.base.name,
            "root": mutant.root,
            "via": mutant.via,
            "verdict": outcome.verdict,
            "message": outcome.message,
            "oracle": outcome.oracle,
            "misfits": "\n".join(outcome.misfits),
            "mujoco": outcome.mujoco,
            "reasons": "\n".join(outcome.reasons),
        }


def outcomes(results: Iterable[tuple[FuzzCase, Record | Failure]]) -> Iterator[fuzzing.Outcome]:
    """Outcomes of all mutants; the bytes of failed ones are generated again."""
    for case, record in results:
        if isinstance(record, Failure):
            raise RuntimeError(f"mutant {case.index}: {record.error}")
        base = fuzzing.Base(str(record["base"]), b"", None, frozenset())
        words = (str(record[name]) for name in ("kind", "via"))
        kind, via = words
        root = None if record["root"] is None else str(record["root"])
        mutant = fuzzing.Case(case.index, kind, base, root, via, b"")
        if not record["success"]:
            mutant = drawn(case.index, case.seed, case.loader)
        texts = {name: tuple(str(record[name]).split("\n")) if record[name] else () for name in ("misfits", "reasons")}
        opinion = record["mujoco"]
        yield fuzzing.Outcome(
            mutant, str(record["verdict"]), str(record["message"]), str(record["oracle"]), texts["misfits"], 0.0,
            None if opinion is None else bool(opinion), texts["reasons"],
        )  # fmt: skip


def bases(loader: str) -> tuple[fuzzing.Base, ...]:
    """The files whose mutants a loader is tested with."""
    return fuzz_bodies.body_bases() if loader == "bodies" else fuzzing.bases()


def drawn(index: int, seed: int, loader: str) -> fuzzing.Case:
    """A mutant for a loader."""
    mutate = fuzz_bodies.mutate if loader == "bodies" else fuzz_mutants.mutate
    return fuzzing.drawn(index, seed, bases(loader), mutate)


@functools.cache
def _child(loader: str) -> fuzzing.Child:
    child = fuzzing.Child(loader)
    atexit.register(child.close)
    return child


@functools.cache
def _folder() -> Path:
    folder = tempfile.TemporaryDirectory(prefix="mutants")
    atexit.register(folder.cleanup)
    return Path(folder.name)
