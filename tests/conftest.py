"""What every test may rely on, whatever started them."""

from __future__ import annotations

import gc
import importlib.util
import os
import signal
import sys
from collections.abc import Generator

import pytest

# One worker a core: threads inside NumPy's linear algebra would wait for each other, at ten times the cost of a small
# factorization.  It must be said before NumPy is imported, and holds for every program that a test starts.
for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

# What a shell or a service says of its terminal decides neither widths nor colours of what tests compare.  Libraries
# read it when they are imported.
for name in ("NO_COLOR", "FORCE_COLOR", "PY_COLORS", "CLICOLOR_FORCE", "GITHUB_ACTIONS", "TERMINAL_WIDTH", "LINES"):
    os.environ.pop(name, None)
os.environ.update(TERM="xterm", COLUMNS="80")

# Where Python is told to write no byte code, every program that a test starts would compile the whole package from its
# source, as would each worker the tests.  It is written after all: to __pycache__, for workers and programs alike.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# A shell that starts the tests in the background has them ignore Ctrl-C, and so would every program that they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

from hypothesis import settings  # noqa: E402  # once the environment is as it should be

# Every change is tested on the same examples; the nightly run draws new ones.
settings.register_profile("change", derandomize=True, deadline=None, database=None)
settings.register_profile("night", deadline=None, print_blob=True)
settings.load_profile("night" if "QUADDYN_SLOW" in os.environ else "change")


def pytest_collection_finish() -> None:
    """Excludes what was collected from garbage collection, which would otherwise take a tenth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


# -- optional packages ------------------------------------------------------------------------------------------------
#: What an error says when an optional package is not installed: the package's own sentence, Python's and pytest's.
WANTING = {
    "mujoco": ("MuJoCo is not installed", "No module named 'mujoco", "could not import 'mujoco"),
    "imageio_ffmpeg": ("No module named 'imageio_ffmpeg", "could not import 'imageio_ffmpeg"),
}
ABSENT = [name for name in WANTING if importlib.util.find_spec(name) is None]
#: Whether a test fails, instead of being skipped, where a package or program that it needs is missing.
REQUIRED = os.environ.get("QUADDYN_REQUIRE_TOOLS") == "1"


def absent_package(error: BaseException | None) -> str | None:
    """The optional package that an error is about, if it is not installed; causes and output of programs count."""
    while error is not None:
        said = f"{error} {getattr(error, 'stdout', '')} {getattr(error, 'stderr', '')}"
        for name in ABSENT:
            if any(sentence in said for sentence in WANTING[name]):
                return name
        error = error.__cause__ or error.__context__
    return None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test ended by an absent package is skipped; it fails with QUADDYN_REQUIRE_TOOLS=1, even if it asks to skip."""
    report = yield
    if call.excinfo is None or (name := absent_package(call.excinfo.value)) is None:
        return report
    if REQUIRED and report.skipped:
        report.outcome, report.longrepr = "failed", f"{name} is not installed, but QUADDYN_REQUIRE_TOOLS=1"
    elif report.failed and not REQUIRED:
        path, line, _ = item.location
        report.outcome, report.longrepr = "skipped", (path, (line or 0) + 1, f"Skipped: {name} is not installed")
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """With QUADDYN_REQUIRE_TOOLS=1, a module that would be skipped because a package is absent is an error."""
    report = yield
    if REQUIRED and report.skipped and any(f"'{name}" in str(report.longrepr) for name in ABSENT):
        report.outcome, report.longrepr = "failed", f"{report.longrepr}, but QUADDYN_REQUIRE_TOOLS=1"
    return report
