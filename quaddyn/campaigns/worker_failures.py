"""How executors tell that a worker died with a case."""

from __future__ import annotations

from concurrent.futures import BrokenExecutor

#: A case that its worker does not survive this often is poison.
LIVES = 3


class WorkerDied(BrokenExecutor):
    """The process that ran a call died; another takes its place."""


def deaths(error: BaseException) -> int | None:
    """How many workers died with a call, as its exception tells; None for any other exception."""
    if isinstance(error, WorkerDied):
        return 1
    kind = type(error)
    if kind.__name__ == "KilledWorker" and kind.__module__.startswith("distributed"):
        return LIVES  # Dask has tried as often itself
    return None
