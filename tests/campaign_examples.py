"""Small campaigns for the tests, in a module because workers have to import them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from quaddyn import Robot
from quaddyn.campaigns import Campaign, Record, case_rng, hash_texts, load_cached_robot

if TYPE_CHECKING:
    from quaddyn.viewer import Viewer


@dataclass(frozen=True)
class Throw:
    """One throw: `seed` and `number` of its random numbers, and `what` it does first (raise, die, exit)."""

    number: int
    seed: int = 0
    what: str = ""
    folder: str = ""


@dataclass(frozen=True)
class Throws(Campaign[Throw]):
    """Random numbers; some cases raise, wait, or kill their worker."""

    name: ClassVar[str] = "throws"
    Case: ClassVar[type] = Throw

    trials: int = field(default=20, metadata={"help": "number of throws"})
    seed: int = 0
    what: str = ""
    every: int = 1
    folder: str = ""
    seconds: float = 0.0

    def cases(self) -> Iterator[Throw]:
        for i in range(self.trials):
            yield Throw(i, self.seed, self.what if i % self.every == self.every - 1 else "", self.folder)

    def count(self) -> int:
        return self.trials

    def model_hash(self) -> str:
        return hash_texts("throws")

    def run(self, case: Throw) -> Record:
        if case.what == "raise":
            raise ValueError(f"throw {case.number} fails\nfor a test")
        if case.what == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if case.what == "die once":
            mark = Path(case.folder) / str(case.number)
            if not mark.exists():
                mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)
        if case.what == "exit":
            raise SystemExit(3)
        if case.folder:
            with (Path(case.folder) / "ran").open("a") as file:
                file.write(f"{case.number}\n")
        time.sleep(self.seconds)
        x = case_rng(case.seed, case.number).standard_normal(3)
        success = bool(x[0] < 1.0)
        return {
            "x": float(x[0]),
            "tiny": x[1] * 1e-310,
            "sum": float(x.sum()),
            "count": case.number,
            "success": success,
            "reason": None if success else "too far",
        }


@dataclass(frozen=True)
class Together(Throws):
    """The same throws in batches."""

    name: ClassVar[str] = "together"

    def run_batch(self, cases: Sequence[Throw]) -> list[Record]:
        assert len(cases) > 1
        return [self.run(case) for case in cases]


@dataclass(frozen=True)
class Shown(Throws):
    """Throws with a replay that moves a robot's base."""

    name: ClassVar[str] = "shown"

    def case_robot(self, case: Throw) -> Robot:
        return load_cached_robot("go2")

    def replay(self, case: Throw, viewer: Viewer) -> Record:
        record = self.run(case)
        q = viewer.robot.q_home.copy()
        for i in range(3):
            q[0] = 0.1 * i
            viewer.show(q, time=0.1 * i)
        return record


@dataclass(frozen=True)
class Sizes:
    size: float | str
    names: tuple[str, ...]
    wide: bool
    label: str | None


@dataclass(frozen=True)
class Options(Campaign[Sizes]):
    """Options of every type."""

    name: ClassVar[str] = "options"
    Case: ClassVar[type] = Sizes

    needed: str
    sizes: tuple[float | str, ...] = (1.0,)
    names: tuple[str, ...] = field(default=(), metadata={"help": "of something"})
    wide: bool = True
    label: str | None = None
    half: float | None = None

    def cases(self) -> Iterator[Sizes]:
        for size in self.sizes:
            yield Sizes(size, self.names, self.wide, self.label)

    def run(self, case: Sizes) -> Record:
        return {"size": case.size, "half": self.half, "names": len(case.names), "needed": self.needed}
