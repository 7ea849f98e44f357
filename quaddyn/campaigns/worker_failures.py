"""Deaths of worker processes, as executors report them."""

from __future__ import annotations

from concurrent.futures import BrokenExecutor

#: Number of deaths of its workers after which a case is recorded as one that kills workers.
MAX_WORKER_DEATHS = 3


class WorkerDied(BrokenExecutor):
    """The process that ran a call died; another process replaces it."""


def count_worker_deaths(error: BaseException) -> int | None:
    """Returns how many workers died with a call according to its exception; None for any other exception."""
    if isinstance(error, WorkerDied):
        return 1
    kind = type(error)
    if kind.__name__ == "KilledWorker" and kind.__module__.startswith("distributed"):
        return MAX_WORKER_DEATHS  # Dask has tried as often itself
    return None
