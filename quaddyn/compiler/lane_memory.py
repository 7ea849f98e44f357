"""`LaneMemory`: the arrays of a record once for each of n lanes, entries of neighboring lanes next to each other.

Entry k of the lanes 32 b to 32 b + 31 lies in 32 words at ``[b, start + k]``, so that the threads of a warp access
neighboring addresses (see `lane_functions`).  Bytes lie likewise, eight entries of 32 lanes in 32 words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..errors import ArgumentError
from .kinds import ArrayKind, Kind, RecordKind
from .python_calls import registers

T = TypeVar("T")
#: Lanes of a block, which are the threads of a warp.
BLOCK_LANES: Final = 32
#: Bit of the addresses of arrays that every lane has for itself.
LANE_FLAG: Final = 1 << 63


class LaneMemory:
    """Memory of values for n lanes.

    Arrays that share memory, such as views of one array, also share it in each lane.

    Args:
        values: records or arrays.
        kinds: kinds of the values.
        n: number of lanes.
        shared: arrays that all lanes share, which code must not write; they stay where they are.

    Attributes:
        words: (blocks, words of a lane, 32) words of all lanes.

    Raises:
        ArgumentError: arrays of different item sizes share memory.
    """

    def __init__(
        self, values: Sequence[object], kinds: Sequence[Kind], n: int, shared: Sequence[NDArray[np.generic]] = ()
    ) -> None:
        self._values, self._kinds = tuple(values), tuple(kinds)
        arrays = [x for value, kind in zip(values, kinds, strict=True) for x in collect_arrays(value, kind)]
        self._shared = {_address(x) for x in shared if x.size}
        parts, self._segments = [x for x in arrays if x.size and _address(x) not in self._shared], list[_Segment]()
        for x in sorted(parts, key=_address):
            start, end = _address(x), _address(x) + x.nbytes
            last = self._segments[-1] if self._segments else None
            if last is None or start >= last.end:
                first_word = 0 if last is None else last.first_word + last.n_words
                self._segments.append(_Segment(start, end, x.itemsize, first_word))
            else:
                if x.itemsize != last.item_size:
                    raise ArgumentError("values: arrays of different item sizes share memory")
                last.end = max(last.end, end)
        n_words = self._segments[-1].first_word + self._segments[-1].n_words if self._segments else 0
        self.words = np.zeros((-(-n // BLOCK_LANES), n_words, BLOCK_LANES), dtype=np.int64)
        self._parts = parts

    @property
    def bytes_per_lane(self) -> int:
        """Memory of a lane [bytes]."""
        return 8 * self.words.shape[1]

    @property
    def block_bytes(self) -> int:
        """Memory of a block of lanes [bytes]."""
        return BLOCK_LANES * self.bytes_per_lane

    def store(self, lane: int) -> None:
        """Copies the entries of the arrays to the memory of a lane."""
        block, thread = divmod(lane, BLOCK_LANES)
        for x in self._parts:
            self._entries(block, x)[:, thread] = x.reshape(-1).view(np.int8 if x.itemsize == 1 else np.int64)

    def load(self, lane: int) -> None:
        """Copies the memory of a lane to the arrays."""
        block, thread = divmod(lane, BLOCK_LANES)
        for x in self._parts:
            x.reshape(-1)[:] = np.ascontiguousarray(self._entries(block, x)[:, thread]).view(x.dtype)

    def registers(self, base: int, locate: Callable[[NDArray[np.generic]], int] | None = None) -> list[list[int]]:
        """Returns the registers of each value as 64-bit ints, see `python_calls.registers`, with addresses of lanes.

        Args:
            base: address of the words where the code runs.
            locate: returns the address of a shared array where the code runs; None: that of the array itself.
        """
        where = locate or _address

        def address(x: NDArray[np.generic]) -> int:
            if x.size and _address(x) not in self._shared:
                return LANE_FLAG | (base + self.first_byte(x))
            return where(x)

        return [place_registers(value, kind, address) for value, kind in zip(self._values, self._kinds, strict=True)]

    def first_byte(self, x: NDArray[np.generic]) -> int:
        """Returns the offset of the first entry of an array of the first lane in its block [bytes]."""
        address = _address(x)
        segment = next(s for s in self._segments if s.start <= address < s.end)
        return BLOCK_LANES * (8 * segment.first_word + address - segment.start)

    def _entries(self, block: int, x: NDArray[np.generic]) -> NDArray[np.generic]:
        """Returns a view (entries, 32) of an array in the lanes of a block."""
        words: NDArray[np.generic] = self.words[block].view(np.int8 if x.itemsize == 1 else np.int64)
        start = self.first_byte(x) // (BLOCK_LANES * x.itemsize)
        return words.reshape(-1, BLOCK_LANES)[start : start + x.size]


class _Segment:
    """Addresses that arrays cover without a gap, the size of their items, and their first word in a lane."""

    __slots__ = ("end", "first_word", "item_size", "start")

    def __init__(self, start: int, end: int, item_size: int, first_word: int) -> None:
        self.start, self.end, self.item_size, self.first_word = start, end, item_size, first_word

    @property
    def n_words(self) -> int:
        """Number of words in a lane."""
        return -(-(self.end - self.start) // 8)


def place_registers(value: object, kind: Kind, address: Callable[[NDArray[np.generic]], int]) -> list[int]:
    """Returns the registers of a value as 64-bit ints, see `python_calls.registers`, with other addresses of arrays.

    Args:
        value: number, array or record.
        kind: its kind.
        address: returns the address of an array where the code runs.
    """
    if isinstance(kind, RecordKind):
        assert isinstance(value, tuple)
        return [r for x, (_, k) in zip(value, kind.fields, strict=True) for r in place_registers(x, k, address)]
    if isinstance(kind, ArrayKind) and isinstance(value, np.ndarray):
        return [address(value), *value.shape]
    return registers(value, kind)


def replace_arrays(value: T, arrays: Mapping[int, NDArray[Any]]) -> T:
    """Returns a record with other arrays in place of those with these identities, also in its records."""
    if isinstance(value, tuple):
        return type(value)(*(replace_arrays(x, arrays) for x in value))
    return arrays.get(id(value), value)  # type: ignore[return-value]


def share_memory(value: T, *groups: Sequence[NDArray[Any]]) -> T:
    """Returns a record in which groups of arrays, of items of 8 bytes, share memory; the arrays are zero.

    Args:
        value: the record.
        groups: arrays that are in use at the same time; no code needs the entries of two groups at the same time.
    """
    memory, arrays = np.zeros(max(sum(x.size for x in group) for group in groups)), dict[int, NDArray[Any]]()
    for group in groups:
        start = 0
        for x in group:
            arrays[id(x)] = memory[start : start + x.size].view(x.dtype).reshape(x.shape)
            start += x.size
    return replace_arrays(value, arrays)


def collect_arrays(value: object, kind: Kind) -> list[NDArray[np.generic]]:
    """Returns all arrays of a value, those of nested records included."""
    if isinstance(kind, RecordKind):
        assert isinstance(value, tuple)
        return [x for each, (_, k) in zip(value, kind.fields, strict=True) for x in collect_arrays(each, k)]
    return [value] if isinstance(kind, ArrayKind) and isinstance(value, np.ndarray) else []


def _address(x: NDArray[np.generic]) -> int:
    return int(x.__array_interface__["data"][0])
