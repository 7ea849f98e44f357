"""Number of threads of simulations."""

from __future__ import annotations

import os

from ..robot.arguments import check_integer


def max_threads(threads: int | None) -> int:
    """Returns the maximum number of threads: the argument, or the cores available to this process.

    Raises:
        ArgumentError: `threads` is not a positive integer.
    """
    if threads is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return check_integer("threads", threads)
