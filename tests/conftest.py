"""What every test may rely on, whatever started them."""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import sys
from pathlib import Path

import pytest

# One worker a core: threads inside NumPy's linear algebra would wait for each other, at ten times the cost of a small
# factorization.  It must be said before NumPy is imported, and holds for every program that a test starts.
for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

# Where Python is told to write no byte code, every program that a test starts would compile the whole package from its
# source, as would each worker the tests.  It is written after all: to __pycache__, for workers and programs alike.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# A shell that starts the tests in the background has them ignore Ctrl-C, and so would every program that they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Share between workers what pytest makes of the source of test modules, which takes it ten seconds.

    Every worker imports all of them.  Each begins at another one, and finds the later ones compiled by the others.
    """
    count = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if count == 1 or session.config.args_source is not pytest.Config.ArgsSource.TESTPATHS:
        return
    names = sorted(path.stem for path in Path(__file__).parent.glob("test_*.py"))
    start = len(names) * int(os.environ["PYTEST_XDIST_WORKER"].removeprefix("gw")) // count
    for name in names[start:] + names[:start]:
        with contextlib.suppress(Exception, pytest.skip.Exception):  # collecting says what is wrong with it
            importlib.import_module(name)
