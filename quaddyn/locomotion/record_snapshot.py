"""`RecordSnapshot`: a copy of a record that costs little until it is read; `LazyMapping`: made at the first access."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..compiler import Record

K = TypeVar("K")
V = TypeVar("V")
R = TypeVar("R", bound=Record)


class RecordSnapshot(Generic[R]):
    """Copies of a record and of everything that lies in its block of memory.

    Taking a copy copies the memory only.

    Args:
        record: a record that `Record.allocate` made, or a part of one.
    """

    __slots__ = ("_block", "_record", "_start")

    def __init__(self, record: R) -> None:
        self._record, self._block = record, record.block
        self._start = address(self._block)

    def take(self) -> NDArray[np.uint8]:
        """Returns the memory of a copy, for `restore`."""
        return self._block.copy()

    def restore(self, memory: NDArray[np.uint8]) -> R:
        """Returns the record as it was when the memory was copied."""
        return move_record(self._record, self._start, memory)


def move_record(record: R, start: int, memory: NDArray[np.uint8]) -> R:
    """Returns a record with the same layout in other memory.

    Args:
        record: a record.
        start: address of the memory in which the record lies.
        memory: copy of that memory.
    """
    return type(record)(
        *(
            move_record(x, start, memory)
            if isinstance(x, Record)
            else np.ndarray(x.shape, x.dtype, memory, address(x) - start)
            for x in record
        )
    )


def address(x: NDArray[np.generic]) -> int:
    """Returns the address of the first entry of an array."""
    found: int = x.__array_interface__["data"][0]
    return found


class LazyMapping(Mapping[K, V]):
    """Mapping whose items are made at the first access.

    Args:
        make: function that returns the items.
        arguments: its arguments.
    """

    __slots__ = ("_arguments", "_items", "_make")

    def __init__(self, make: Callable[..., Mapping[K, V]], *arguments: object) -> None:
        self._make, self._arguments = make, arguments
        self._items: Mapping[K, V] | None = None

    @property
    def items_by_key(self) -> Mapping[K, V]:
        """The items."""
        if self._items is None:
            self._items, self._arguments = self._make(*self._arguments), ()
        return self._items

    def __getitem__(self, key: K) -> V:
        return self.items_by_key[key]

    def __iter__(self) -> Iterator[K]:
        return iter(self.items_by_key)

    def __len__(self) -> int:
        return len(self.items_by_key)

    def __repr__(self) -> str:
        return repr(dict(self.items_by_key))
