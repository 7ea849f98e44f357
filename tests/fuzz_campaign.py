"""`Fuzz`: the mutants of `fuzzing` as a campaign, so that they run on every core and none is lost."""

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
    """One mutant: the `index`-th of `seed`; `loader` is what is tested, `mujoco` whether its opinion is asked."""

    index: int
    seed: int
    loader: str
    mujoco: bool


@dataclass(frozen=True, kw_only=True)
class Fuzz(Campaign[FuzzCase]):
    """Mutants of real URDFs against the guard; a case fails if it crashes, hangs or lies."""

    name: ClassVar[str] = "fuzz"
    Case: ClassVar[type[FuzzCase]] = FuzzCase

    number: int = field(default=40_000, metadata={"help": "of mutants"})
    seed: int = field(default=1, metadata={"help": "of the campaign"})
    loader: str = field(default="quaddyn", metadata={"help": "quaddyn, bodies (loops, mimics, shapes) or pinocchio"})
    mujoco: float = field(default=0.1, metadata={"help": "share of faultless files MuJoCo is asked about"})

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
        outcome = fuzzing.judge(mutant, _child(case.loader), _folder(), ask_mujoco=case.mujoco)
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
    """What became of every mutant; the bytes of those that failed are made again."""
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
    """The files that a loader's mutants are of."""
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
