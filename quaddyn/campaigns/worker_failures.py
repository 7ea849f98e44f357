"""Exceptions by which executors report the death of worker processes."""

from __future__ import annotations

from concurrent.futures import BrokenExecutor

#: Number of deaths of its workers after which a case is recorded as one that kills workers.
MAX_WORKER_DEATHS = 3


class WorkerDied(BrokenExecutor):
    """Exception of a call whose worker process died; another process replaces it."""


def count_worker_deaths(error: BaseException) -> int | None:
    """Returns the number of workers that died during a call, from its exception; None for other exceptions."""
    if isinstance(error, WorkerDied):
        return 1
    kind = type(error)
    if kind.__name__ == "KilledWorker" and kind.__module__.startswith("distributed"):
        return MAX_WORKER_DEATHS  # Dask has repeated the call so often already
    return None
