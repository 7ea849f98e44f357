"""Environment, Hypothesis profiles and handling of optional packages for all tests."""

from __future__ import annotations

import functools
import gc
import importlib.util
import os
import signal
import sys
import zlib
from collections.abc import Generator, Iterator
from typing import Any

import pytest

# There is one test worker per core: threads of NumPy's linear algebra would wait for each other, which makes a small
# factorization ten times slower.  To be set before NumPy is imported; programs started by tests inherit it.
for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

# Outputs that tests compare must not depend on the terminal settings of the environment.  Libraries read these when
# they are imported.
for name in ("NO_COLOR", "FORCE_COLOR", "PY_COLORS", "CLICOLOR_FORCE", "GITHUB_ACTIONS", "TERMINAL_WIDTH", "LINES"):
    os.environ.pop(name, None)
os.environ.update(TERM="xterm", COLUMNS="80")

# Without byte code files, every program that a test starts would compile the whole package, and each worker the tests.
# Byte code is therefore written to __pycache__, also if the environment disables it.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# In a background job of a shell, Ctrl-C is ignored, and also in programs started by tests.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

import recorded  # noqa: E402  # after the environment is set
import typer.main  # noqa: E402
import typer.testing  # noqa: E402
from hypothesis import settings  # noqa: E402
from smoke_tests import SMOKE_TESTS  # noqa: E402

# Typer reads the signatures of all commands at every call of a program, which takes 80 ms for `quaddyn`.  They do not
# change during the tests.
typer.main.get_command = typer.testing._get_command = functools.cache(typer.main.get_command)  # type: ignore[attr-defined]

# Every change is tested on the same examples; the nightly run draws new ones.
settings.register_profile("change", derandomize=True, deadline=None, database=None)
settings.register_profile("night", deadline=None, print_blob=True)
settings.load_profile("night" if "QUADDYN_SLOW" in os.environ else "change")


@pytest.fixture(scope="session")
def go2() -> Any:
    """The robot of most tests."""
    import quaddyn as qd

    return qd.load("go2")


@pytest.fixture(scope="session")
def solo12() -> Any:
    """The robot of many tests of locomotion."""
    import quaddyn as qd

    return qd.load("solo12")


@pytest.fixture(scope="session")
def morphology(go2: Any) -> Any:
    """Lengths and units of Go2."""
    from quaddyn.locomotion import Morphology

    return Morphology.from_robot(go2)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks `SMOKE_TESTS`, and mixes the modules in a fixed order, which spreads tests that wait for a browser.

    In the order of the names they would run at the same time, and leave the processor idle.
    """
    quick = set(SMOKE_TESTS.values())
    for item in items:
        if f"{item.path.stem}::{getattr(item, 'originalname', '')}" in quick:
            item.add_marker("smoke")
    items.sort(key=lambda item: zlib.crc32(item.path.name.encode()))


def pytest_collection_finish() -> None:
    """Excludes what was collected from garbage collection, which would otherwise take a tenth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


@pytest.fixture(scope="session", autouse=os.environ.get("QUADDYN_INTERPRET") == "1")
def interpreted_entries() -> Iterator[None]:
    """Runs all compiled functions as plain Python, where array indices are checked, if QUADDYN_INTERPRET=1."""
    from quaddyn.compiler import interpret

    with interpret():
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Compares the numbers that a test noted with the recorded ones."""
    recorded.begin()
    yield
    recorded.check(item)


# -- optional packages ------------------------------------------------------------------------------------------------
#: Messages about an optional package that is not installed: of quaddyn, Python and pytest.
MISSING_PACKAGE_MESSAGES = {
    "mujoco": ("MuJoCo is not installed", "No module named 'mujoco", "could not import 'mujoco"),
    "imageio_ffmpeg": ("No module named 'imageio_ffmpeg", "could not import 'imageio_ffmpeg"),
    "rosbags": ("No module named 'rosbags", "could not import 'rosbags"),
    "torch": ("PyTorch is not installed", "No module named 'torch", "could not import 'torch"),
    "jax": ("JAX is not installed", "No module named 'jax", "could not import 'jax"),
    "onnxruntime": ("onnxruntime is not installed", "No module named 'onnxruntime", "could not import 'onnxruntime"),
    "onnx": ("No module named 'onnx'", "could not import 'onnx'"),
}
MISSING_PACKAGES = [name for name in MISSING_PACKAGE_MESSAGES if importlib.util.find_spec(name) is None]
#: Whether a test fails, instead of being skipped, if a required package or program is missing.
REQUIRED = os.environ.get("QUADDYN_REQUIRE_TOOLS") == "1"


def missing_package(error: BaseException | None) -> str | None:
    """The missing optional package that an error, a cause of it or a program's output names, else None."""
    while error is not None:
        said = f"{error} {getattr(error, 'stdout', '')} {getattr(error, 'stderr', '')}"
        for name in MISSING_PACKAGES:
            if any(sentence in said for sentence in MISSING_PACKAGE_MESSAGES[name]):
                return name
        error = error.__cause__ or error.__context__
    return None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Skips a test that a missing package ended; with QUADDYN_REQUIRE_TOOLS=1 it fails, even if it was skipped."""
    report = yield
    if call.excinfo is None or (name := missing_package(call.excinfo.value)) is None:
        return report
    if REQUIRED and report.skipped:
        report.outcome, report.longrepr = "failed", f"{name} is not installed, but QUADDYN_REQUIRE_TOOLS=1"
    elif report.failed and not REQUIRED:
        path, line, _ = item.location
        report.outcome, report.longrepr = "skipped", (path, (line or 0) + 1, f"Skipped: {name} is not installed")
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """With QUADDYN_REQUIRE_TOOLS=1, a module that would be skipped because of a missing package is an error."""
    report = yield
    if REQUIRED and report.skipped and any(f"'{name}" in str(report.longrepr) for name in MISSING_PACKAGES):
        report.outcome, report.longrepr = "failed", f"{report.longrepr}, but QUADDYN_REQUIRE_TOOLS=1"
    return report
