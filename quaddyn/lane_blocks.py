"""Blocks of the lanes of a batch, which several threads pass to compiled code, and validation of masks of lanes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from .compiler import Record
from .errors import ArgumentError, ArgumentTypeError
from .operating_system import usable_processors
from .robot.arguments import check_integer
from .urdf.tree import Array

Worker = TypeVar("Worker")
Entry = TypeVar("Entry", bound=np.generic)

#: Maximum number of lanes in a block, which one call of compiled code steps.
BLOCK_SIZE = 64


def max_threads(threads: int | None) -> int:
    """Returns the maximum number of threads: the argument, or the cores available to this process.

    Raises:
        ArgumentError: `threads` is not a positive integer.
    """
    if threads is None:
        return usable_processors()
    return check_integer("threads", threads)


class LaneBlocks(Generic[Worker]):
    """Blocks of n lanes, and the threads that process them.

    Args:
        n: number of lanes.
        workers: workspaces of compiled code, one for each thread.
        title: name of the threads.

    Attributes:
        rows: lanes of each block.
    """

    __slots__ = ("_pool", "_workers", "rows")

    def __init__(self, n: int, workers: Sequence[Worker], title: str) -> None:
        size = max(1, min(BLOCK_SIZE, -(-n // (4 * len(workers)))))
        self.rows = tuple(slice(start, min(start + size, n)) for start in range(0, n, size))
        self._workers: SimpleQueue[Worker] = SimpleQueue()
        for worker in workers:
            self._workers.put(worker)
        self._pool = ThreadPoolExecutor(len(workers), title) if len(workers) > 1 else None

    def run(self, process: Callable[[Worker, int], None]) -> None:
        """Calls ``process(worker, index)`` for the index of each block, with a worker that no other thread uses.

        All blocks end before an exception is raised, so that no thread changes lanes after this call.
        """
        if self._pool is None or len(self.rows) == 1:
            for index in range(len(self.rows)):
                self._run_block(process, index)
        else:
            futures = [self._pool.submit(self._run_block, process, index) for index in range(len(self.rows))]
            for error in [future.exception() for future in futures]:
                if error is not None:
                    raise error

    def _run_block(self, process: Callable[[Worker, int], None], index: int) -> None:
        worker = self._workers.get()
        try:
            process(worker, index)
        finally:
            self._workers.put(worker)


def check_mask(mask: Any, n: int, name: str = "mask") -> NDArray[np.bool_]:
    """Returns the mask of n lanes that is the argument `name`; None stands for all lanes.

    Raises:
        ArgumentTypeError: `mask` is not an array of bools.
        ArgumentError: a wrong shape.
    """
    if mask is None:
        return np.ones(n, dtype=bool)
    array = np.asarray(mask)
    if array.dtype != bool:
        raise ArgumentTypeError(f"{name}: expected bools, got {array.dtype}")
    if array.shape != (n,):
        raise ArgumentError(f"{name}: expected shape ({n},), got {array.shape}")
    return array


def check_lane_rows(name: str, value: Any, n: int, size: int, *, one_row: bool = True) -> Array:
    """Returns an argument as a C-contiguous array (n, size) or (1, size) of floats, which may be NaN or infinite.

    Args:
        name: name of the argument.
        value: value of the argument.
        n: number of lanes.
        size: size of a row.
        one_row: whether the argument may be one row (size,) for all lanes.

    Raises:
        ArgumentTypeError: not an array of real numbers.
        ArgumentError: a wrong shape.
    """
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ArgumentTypeError(f"{name}: expected an array of numbers ({error})") from None
    expected = f"shape ({n}, {size}) or ({size},)" if one_row else f"shape ({n}, {size})"
    if array.dtype.kind not in "fiu":
        raise ArgumentTypeError(f"{name}: expected numbers of {expected}, got dtype {array.dtype}")
    if array.shape != (n, size) and not (one_row and array.shape == (size,)):
        raise ArgumentError(f"{name}: expected {expected}, got shape {array.shape}")
    return np.ascontiguousarray(array[np.newaxis] if array.ndim == 1 else array, dtype=np.float64)


def read_only(array: NDArray[Entry]) -> NDArray[Entry]:
    """Returns a read-only view."""
    view = array.view()
    view.flags.writeable = False
    return view


def count_bytes(value: Any) -> int:
    """Returns the memory of all arrays of a record."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, Record):
        return int(value.block.nbytes)
    return sum(count_bytes(each) for each in value) if isinstance(value, tuple) else 8
