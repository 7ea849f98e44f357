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

# Where Python is told to write no byte code, every program that a test starts would compile the whole package from its
# source, as would each worker the tests.  It is written after all: to __pycache__, for workers and programs alike.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# A shell that starts the tests in the background has them ignore Ctrl-C, and so would every program that they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Excludes what was collected from garbage collection, which would otherwise take a tenth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
