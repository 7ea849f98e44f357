"""What every test may rely on, whatever started them."""

from __future__ import annotations

import gc
import os
import signal
import sys

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
