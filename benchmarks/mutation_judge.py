"""Runs tests on mutants: in a copy of the checkout, tests that reach the line first, one process for every mutant.

`benchmarks/mutation.py` draws the mutants.  The tests run once without a mutant, under coverage, which tells how long
each takes and which lines it reaches.  A mutant is then judged in a fork of a process that has imported what others
wrote, by the tests that reach its line first, in the order of their cost, up to the first that fails.
"""

from __future__ import annotations

import ast
import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, NoReturn

ROOT = Path(__file__).resolve().parents[1]
#: Seconds that a test may take, and times what it takes without a mutant; seconds of its whole file being imported.
LEAST, SLOWER, START = 60.0, 10.0, 120.0
#: What a mutant's process finds imported: all but the package.
IMPORTED = ("numpy", "pinocchio", "llvmlite.binding", "pytest", "typer", "rich.console", "meshcat",
            "tornado.web", "defusedxml.ElementTree", "mujoco")  # fmt: skip


class Verdict(NamedTuple):
    """Whether a mutant was noticed: by which test, or after how many, and the seconds that it took."""

    killed: bool
    by: str
    tests: int
    seconds: float


class Recorder:
    """A pytest plugin: how long each test takes, kept in a file at the end; each is told of before it begins."""

    def __init__(self, file: Path, tell: Callable[[str], None]) -> None:
        self.file, self.tell = file, tell
        self.seconds: dict[str, float] = {}

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Before each test."""
        self.tell(f"{nodeid}\n")

    def pytest_runtest_logreport(self, report: Any) -> None:
        """After each test's setup, call and teardown."""
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + report.duration

    def pytest_sessionfinish(self) -> None:
        """After all tests."""
        self.file.write_text(json.dumps(self.seconds), encoding="utf-8")


class Chosen:
    """A pytest plugin: only some tests, in their order, each told of before it begins."""

    def __init__(self, tests: Sequence[str], tell: Callable[[str], None]) -> None:
        self.order = {test: k for k, test in enumerate(tests)}
        self.tell = tell

    def pytest_collection_finish(self, session: Any) -> None:
        """Before the first test."""
        # Here and no earlier: pytest itself puts tests of one fixture side by side.
        chosen = (item for item in session.items if item.nodeid in self.order)
        session.items[:] = sorted(chosen, key=lambda item: self.order[item.nodeid])

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Before each test."""
        self.tell(f"{nodeid}\n")


class Copy:
    """A copy of the checkout in which mutants are judged, with what its tests need and say without one.

    Args:
        place: an empty folder, or one of an earlier `Copy` of the same checkout and tests.
        module: the folder of the package that is mutated, from the checkout.
        tests: test files, from the checkout.
        only: pytest's ``-k``; "" for all.
        interpreted: whether compiled functions run as Python.
    """

    def __init__(self, place: Path, module: str, tests: Sequence[str], only: str, interpreted: bool) -> None:
        self.place, self.folder = place, place / "copy"
        self.words = ["-q", "-x", "-n0", "-p", "no:cacheprovider", *(("-p", "interpreting") if interpreted else ())]
        self.module, self.files, self.only = module, tuple(tests), only
        self.paths = [str(self.folder), str(self.folder / "tests")]
        self.seconds: dict[str, float] = {}
        self.reached: dict[str, dict[int, set[str]]] = {}

    def prepare(self) -> None:
        """Copy the checkout and run its tests once; nothing of it where that was done before.

        Raises:
            SystemExit: tests fail without a mutant.
        """
        kept = self.place / "healthy.json"
        if not kept.exists():
            if self.folder.exists():
                shutil.rmtree(self.folder)
            listed = subprocess.run(
                ["git", "ls-files", "-coz", "--exclude-standard"],
                cwd=ROOT,
                check=True,
                capture_output=True,
                encoding="utf-8",
            )
            for name in filter(None, listed.stdout.split("\0")):
                if (ROOT / name).is_file():
                    (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy2(ROOT / name, self.folder / name)
            self._run_healthy(kept)
        said = json.loads(kept.read_text(encoding="utf-8"))
        self.seconds = said["seconds"]
        self.reached = {f: {int(n): set(t) for n, t in lines.items()} for f, lines in said["reached"].items()}

    def _run_healthy(self, kept: Path) -> None:
        from coverage import CoverageData

        times, data = self.place / "times.json", self.place / "coverage"
        only = ["-k", self.only] if self.only else []
        measured = [f"--cov={self.module}", "--cov-context=test", "--cov-report="]
        (self.place / "cache").mkdir(mode=0o700, exist_ok=True)
        around = {"COVERAGE_FILE": str(data), "QUADDYN_CACHE": str(self.place / "cache")}
        code, at = self._forked([*measured, *self.files, *only], lambda tell: Recorder(times, tell), around)
        if code:
            raise SystemExit(f"{self.module}: fails without a mutant, at {at}: {self.place / 'last.txt'}")
        lines = CoverageData(str(data))
        lines.read()
        reached: dict[str, dict[int, list[str]]] = {}
        for file in lines.measured_files():
            by_line = lines.contexts_by_lineno(file)
            name = str(Path(file).relative_to(self.folder))
            reached[name] = {n: sorted({c.split("|")[0] for c in contexts if c}) for n, contexts in by_line.items()}
        kept.write_text(
            json.dumps({"seconds": json.loads(times.read_text(encoding="utf-8")), "reached": reached}), encoding="utf-8"
        )

    def order(self, file: str, line: int) -> tuple[list[str], int]:
        """Tests in the order in which they judge a line, and how many of them reach it.

        Those that reach the statement come first, then those that reach the file, then the rest, which may do so in
        another process or in machine code.  Files of tests stay whole, so that their fixtures are made once.
        """
        known = self.reached.get(file, {})
        first, last = statement(self.folder / file, line)
        near: set[str] = set().union(*(known.get(n, set()) for n in range(first, last + 1)))
        beside: set[str] = set().union(*known.values()) - near
        ordered: list[str] = []
        for group in (near, beside, set(self.seconds) - near - beside):
            cost: dict[str, float] = {}
            present = [test for test in group if test in self.seconds]
            for test in present:
                cost[test.split("::")[0]] = cost.get(test.split("::")[0], 0.0) + self.seconds[test]
            ordered += sorted(present, key=lambda t: (cost[t.split("::")[0]], t.split("::")[0], self.seconds[t]))
        return ordered, len(near)

    def judge(self, file: str, line: int, source: str, budget: float) -> Verdict:
        """What the tests say of a module whose text is `source`, that differs at `line` from the copy's own.

        Args:
            file: the module, from the checkout.
            line: where it was changed.
            source: its new text.
            budget: seconds that tests take without a mutant, after which no more are tried.
        """
        tests, spent = [], 0.0
        for test in self.order(file, line)[0]:
            spent += self.seconds[test]
            if tests and spent > budget:
                break
            tests.append(test)
        path = self.folder / file
        was, at = path.read_text(encoding="utf-8"), path.stat().st_mtime
        # Machine code that a mutant leaves is its own.
        cache = self.place / "mutant_cache"
        shutil.rmtree(cache, ignore_errors=True)
        shutil.copytree(self.place / "cache", cache, copy_function=os.link)
        begun = time.perf_counter()
        try:
            path.write_text(source, encoding="utf-8")
            # No two texts of a module are of one time: kept byte code is that of the healthy one.
            os.utime(path, (at + 7.0, at + 7.0))
            around = {"PYTHONDONTWRITEBYTECODE": "1", "QUADDYN_CACHE": str(cache)}
            files = dict.fromkeys(test.split("::")[0] for test in tests)
            code, by = self._forked(files, lambda tell: Chosen(tests, tell), around)
        finally:
            path.write_text(was, encoding="utf-8")
            os.utime(path, (at, at))
        if code == 5:
            raise SystemExit(f"no test was found: {self.place / 'last.txt'}")
        return Verdict(code != 0, by if code else "", len(tests), time.perf_counter() - begun)

    def _forked(
        self, words: Iterable[str], plugin: Callable[[Callable[[str], None]], object], around: dict[str, str]
    ) -> tuple[int, str]:
        """One run of pytest in a process of its own: its exit code, and the last test that it began."""
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            self._run(words, plugin(lambda line: os.write(writing, line.encode()) and None), around)
        os.close(writing)
        current, late, rest = "", False, b""
        until = time.monotonic() + START
        while not late:
            if not select.select([reading], [], [], max(0.0, until - time.monotonic()))[0]:
                late = True
            elif read := os.read(reading, 65536):
                *lines, rest = (rest + read).split(b"\n")
                current = lines[-1].decode() if lines else current
                until = time.monotonic() + max(LEAST, SLOWER * self.seconds.get(current, LEAST))
            else:
                break
        os.close(reading)
        if late:
            _end(child)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        _end(child)
        return code, (current or "its import") + (", without end" if late else "")

    def _run(self, words: Iterable[str], plugin: object, around: dict[str, str]) -> NoReturn:
        """Run pytest in this process and end it."""
        code = 3
        try:
            os.setsid()
            os.chdir(self.folder)
            os.environ.update(around, PYTHONPATH=os.pathsep.join(self.paths))
            sys.dont_write_bytecode = "PYTHONDONTWRITEBYTECODE" in around
            sys.path[:0] = self.paths
            # What tests start by multiprocessing imports the main module again: it must not be this program.
            sys.modules["__main__"] = ModuleType("__main__")
            said = os.open(self.place / "last.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(said, 1)
            os.dup2(said, 2)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            import pytest

            code = int(pytest.main([*self.words, f"--basetemp={self.place / 'tmp'}", *words], plugins=[plugin]))
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)


def _end(group: int) -> None:
    """End a fork that leads a group of its own, and every program that its tests have started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def import_others() -> None:
    """Import once what every fork would: all but the package itself."""
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    for name in IMPORTED:
        try:
            __import__(name)
        except ImportError:
            continue


def statement(path: Path, line: int) -> tuple[int, int]:
    """First and last line of the innermost statement at a line; of one with a body, up to the body."""
    best = (line, line)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            last = body[0].lineno - 1 if isinstance(body, list) else node.end_lineno or node.lineno
            if node.lineno <= line <= last:
                # Inner statements are walked after those that hold them.
                best = (node.lineno, last)
    return best
