"""Runs tests on mutants in a copy of the checkout: one process per mutant, tests that execute the changed line first.

`benchmarks/mutation.py` draws the mutants.  The tests first run once without a mutant, under coverage, which measures
the duration of each test and the lines that it executes.  Each mutant is then tested in a fork of a process that has
imported all dependencies: by the tests that execute its line first, in the order of their duration, until one fails.
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
#: Time limit of a test: the larger one of `MIN_TIMEOUT` [s] and `TIMEOUT_FACTOR` times its duration without a mutant;
#: time limit of imports and collection [s].
MIN_TIMEOUT, TIMEOUT_FACTOR, IMPORT_TIMEOUT = 60.0, 10.0, 120.0
#: Modules that the process of a mutant has imported already; the package itself is imported after the mutation.
PREIMPORTED = ("numpy", "pinocchio", "llvmlite.binding", "pytest", "typer", "rich.console", "meshcat",
            "tornado.web", "defusedxml.ElementTree", "mujoco")  # fmt: skip


class MutantResult(NamedTuple):
    """Result of a mutant: whether a test failed and which, or the number of tests that passed; time [s]."""

    killed: bool
    by: str
    tests: int
    seconds: float


class DurationRecorder:
    """Pytest plugin that writes the duration of each test to a file and reports each test before it starts."""

    def __init__(self, file: Path, report_start: Callable[[str], None]) -> None:
        self.file, self.report_start = file, report_start
        self.seconds: dict[str, float] = {}

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Reports a test before it starts."""
        self.report_start(f"{nodeid}\n")

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Adds the duration of the setup, the call or the teardown of a test."""
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + report.duration

    def pytest_sessionfinish(self) -> None:
        """Writes the durations after all tests."""
        self.file.write_text(json.dumps(self.seconds), encoding="utf-8")


class TestSelection:
    """Pytest plugin that runs only the given tests, in the given order, and reports each before it starts."""

    def __init__(self, tests: Sequence[str], report_start: Callable[[str], None]) -> None:
        self.order = {test: k for k, test in enumerate(tests)}
        self.report_start = report_start

    def pytest_collection_finish(self, session: Any) -> None:
        """Selects and sorts the tests."""
        # Sort here, not earlier: pytest reorders tests by their fixtures during collection.
        selected = (item for item in session.items if item.nodeid in self.order)
        session.items[:] = sorted(selected, key=lambda item: self.order[item.nodeid])

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Reports a test before it starts."""
        self.report_start(f"{nodeid}\n")


class Copy:
    """Copy of the checkout in which mutants are tested, with durations and executed lines of the unmutated tests.

    Args:
        folder: an empty folder, or that of an earlier `Copy` of the same checkout and tests.
        module: folder of the package that is mutated, relative to the checkout.
        tests: test files, relative to the checkout.
        only: pytest's option ``-k``; "" for all tests.
        interpreted: whether compiled functions run as Python.
    """

    def __init__(self, folder: Path, module: str, tests: Sequence[str], only: str, interpreted: bool) -> None:
        self.folder, self.checkout = folder, folder / "copy"
        self.pytest_options = [
            "-q",
            "-x",
            "-n0",
            "-p",
            "no:cacheprovider",
            *(("-p", "interpreting") if interpreted else ()),
        ]
        self.module, self.files, self.only = module, tuple(tests), only
        self.paths = [str(self.checkout), str(self.checkout / "tests")]
        self.seconds: dict[str, float] = {}
        self.tests_by_line: dict[str, dict[int, set[str]]] = {}

    def prepare(self) -> None:
        """Copies the checkout and runs its tests once, unless an earlier run has left the results.

        Raises:
            SystemExit: tests fail without a mutant.
        """
        baseline_file = self.folder / "baseline.json"
        if not baseline_file.exists():
            if self.checkout.exists():
                shutil.rmtree(self.checkout)
            files = subprocess.run(
                ["git", "ls-files", "-coz", "--exclude-standard"],
                cwd=ROOT,
                check=True,
                capture_output=True,
                encoding="utf-8",
            )
            for name in filter(None, files.stdout.split("\0")):
                if (ROOT / name).is_file():
                    (self.checkout / name).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy2(ROOT / name, self.checkout / name)
            self._run_without_mutant(baseline_file)
        baseline = json.loads(baseline_file.read_text(encoding="utf-8"))
        self.seconds = baseline["seconds"]
        self.tests_by_line = {f: {int(n): set(t) for n, t in lines.items()} for f, lines in baseline["reached"].items()}

    def _run_without_mutant(self, baseline_file: Path) -> None:
        """Runs the tests under coverage and writes their durations and executed lines to a file."""
        from coverage import CoverageData

        durations_file, coverage_path = self.folder / "times.json", self.folder / "coverage"
        only = ["-k", self.only] if self.only else []
        coverage_options = [f"--cov={self.module}", "--cov-context=test", "--cov-report="]
        (self.folder / "cache").mkdir(mode=0o700, exist_ok=True)
        environment = {"COVERAGE_FILE": str(coverage_path), "QUADDYN_CACHE": str(self.folder / "cache")}
        code, last_test = self._run_forked(
            [*coverage_options, *self.files, *only],
            lambda report_start: DurationRecorder(durations_file, report_start),
            environment,
        )
        if code:
            raise SystemExit(
                f"{self.module}: tests fail without a mutant, at {last_test}; see {self.folder / 'last.txt'}"
            )
        coverage_data = CoverageData(str(coverage_path))
        coverage_data.read()
        tests_by_line: dict[str, dict[int, list[str]]] = {}
        for file in coverage_data.measured_files():
            by_line = coverage_data.contexts_by_lineno(file)
            name = str(Path(file).relative_to(self.checkout))
            tests_by_line[name] = {
                n: sorted({c.split("|")[0] for c in contexts if c}) for n, contexts in by_line.items()
            }
        baseline_file.write_text(
            json.dumps({"seconds": json.loads(durations_file.read_text(encoding="utf-8")), "reached": tests_by_line}),
            encoding="utf-8",
        )

    def order_tests(self, file: str, line: int) -> tuple[list[str], int]:
        """Returns the tests in the order in which they run for a line, and the number of those that execute it.

        Tests that execute the statement come first, then those that execute the file, then the others, which may
        execute it in another process or in machine code.  Tests of one file stay together, so that their fixtures are
        made once.
        """
        tests_by_line_of_file = self.tests_by_line.get(file, {})
        first, last = statement_lines(self.checkout / file, line)
        line_tests: set[str] = set().union(*(tests_by_line_of_file.get(n, set()) for n in range(first, last + 1)))
        file_tests: set[str] = set().union(*tests_by_line_of_file.values()) - line_tests
        ordered: list[str] = []
        for group in (line_tests, file_tests, set(self.seconds) - line_tests - file_tests):
            cost: dict[str, float] = {}
            present = [test for test in group if test in self.seconds]
            for test in present:
                cost[test.split("::")[0]] = cost.get(test.split("::")[0], 0.0) + self.seconds[test]
            ordered += sorted(present, key=lambda t: (cost[t.split("::")[0]], t.split("::")[0], self.seconds[t]))
        return ordered, len(line_tests)

    def run_tests(self, file: str, line: int, source: str, budget: float) -> MutantResult:
        """Tests a module with the text `source`, which differs from that of the copy at `line`.

        Args:
            file: the module, relative to the checkout.
            line: number of the changed line.
            source: text of the mutant.
            budget: duration of the tests without a mutant after which no further tests run [s].
        """
        tests, total_time = [], 0.0
        for test in self.order_tests(file, line)[0]:
            total_time += self.seconds[test]
            if tests and total_time > budget:
                break
            tests.append(test)
        path = self.checkout / file
        original, original_time = path.read_text(encoding="utf-8"), path.stat().st_mtime
        # A mutant has a separate copy of the code cache.
        cache = self.folder / "mutant_cache"
        shutil.rmtree(cache, ignore_errors=True)
        shutil.copytree(self.folder / "cache", cache, copy_function=os.link)
        begin_time = time.perf_counter()
        try:
            path.write_text(source, encoding="utf-8")
            # The modification time differs from that of the original, whose byte code stays valid.
            os.utime(path, (original_time + 7.0, original_time + 7.0))
            environment = {"PYTHONDONTWRITEBYTECODE": "1", "QUADDYN_CACHE": str(cache)}
            files = dict.fromkeys(test.split("::")[0] for test in tests)
            code, by = self._run_forked(files, lambda report_start: TestSelection(tests, report_start), environment)
        finally:
            path.write_text(original, encoding="utf-8")
            os.utime(path, (original_time, original_time))
        if code == 5:
            raise SystemExit(f"no test was found; see {self.folder / 'last.txt'}")
        return MutantResult(code != 0, by if code else "", len(tests), time.perf_counter() - begin_time)

    def _run_forked(
        self, arguments: Iterable[str], plugin: Callable[[Callable[[str], None]], object], environment: dict[str, str]
    ) -> tuple[int, str]:
        """Runs pytest in a forked process; returns its exit code and the last test that it started."""
        read_end, write_end = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read_end)
            self._run(arguments, plugin(lambda line: os.write(write_end, line.encode()) and None), environment)
        os.close(write_end)
        current, timed_out, rest = "", False, b""
        deadline = time.monotonic() + IMPORT_TIMEOUT
        while not timed_out:
            if not select.select([read_end], [], [], max(0.0, deadline - time.monotonic()))[0]:
                timed_out = True
            elif received := os.read(read_end, 65536):
                *lines, rest = (rest + received).split(b"\n")
                current = lines[-1].decode() if lines else current
                deadline = time.monotonic() + max(MIN_TIMEOUT, TIMEOUT_FACTOR * self.seconds.get(current, MIN_TIMEOUT))
            else:
                break
        os.close(read_end)
        if timed_out:
            _end(child)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        _end(child)
        return code, (current or "the import") + (", timed out" if timed_out else "")

    def _run(self, arguments: Iterable[str], plugin: object, environment: dict[str, str]) -> NoReturn:
        """Runs pytest in this process and ends the process."""
        code = 3
        try:
            os.setsid()
            os.chdir(self.checkout)
            os.environ.update(environment, PYTHONPATH=os.pathsep.join(self.paths))
            sys.dont_write_bytecode = "PYTHONDONTWRITEBYTECODE" in environment
            sys.path[:0] = self.paths
            # Processes that tests start with multiprocessing import the main module again: it must not be this program.
            sys.modules["__main__"] = ModuleType("__main__")
            output = os.open(self.folder / "last.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(output, 1)
            os.dup2(output, 2)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            import pytest

            code = int(
                pytest.main([*self.pytest_options, f"--basetemp={self.folder / 'tmp'}", *arguments], plugins=[plugin])
            )
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)


def _end(group: int) -> None:
    """Ends a forked process that leads a process group, and all processes that its tests have started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def import_dependencies() -> None:
    """Imports the dependencies once, before forking; the package itself is not imported."""
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    for name in PREIMPORTED:
        try:
            __import__(name)
        except ImportError:
            continue


def statement_lines(path: Path, line: int) -> tuple[int, int]:
    """Returns first and last line of the innermost statement at a line, without the body of a compound statement."""
    best = (line, line)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            last = body[0].lineno - 1 if isinstance(body, list) else node.end_lineno or node.lineno
            if node.lineno <= line <= last:
                # `ast.walk` yields inner statements after those that contain them.
                best = (node.lineno, last)
    return best
