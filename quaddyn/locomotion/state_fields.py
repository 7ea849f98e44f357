"""`StateField`: an attribute that lies in the record of compiled functions.

`RecordSnapshot`: a copy of a record that costs little until it is read.
"""

from __future__ import annotations

from typing import Any, Generic, Self, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from ..compiler import Record

T = TypeVar("T")


class StateField(Generic[T]):
    """Attribute that is a field of the record `state` of its object.

    Numbers are read and assigned; array fields are read as views, and assigning one writes its entries.

    Args:
        name: name of the field; None for that of the attribute.
    """

    def __init__(self, name: str | None = None) -> None:
        self._name = name

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = self._name or name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: Any, owner: type) -> Self | T:
        if instance is None:
            return self
        value: T = getattr(instance.state, self._name)  # type: ignore[arg-type]
        return value

    def __set__(self, instance: Any, value: T) -> None:
        state, name = instance.state, self._name
        stored = getattr(state, name)  # type: ignore[arg-type]
        if hasattr(stored, "flags") and stored.flags.writeable:  # an array, which is not replaced
            stored[...] = value
        else:
            setattr(state, name, value)  # type: ignore[arg-type]


R = TypeVar("R", bound=Record)


class RecordSnapshot(Generic[R]):
    """Copies of a record and of everything that lies in its block of memory.

    Taking a copy copies the memory only.

    Args:
        record: a record that `Record.allocate` made, or a part of one.
    """

    __slots__ = ("_block", "_layout")

    def __init__(self, record: R) -> None:
        self._block = record.block
        self._layout = find_layout(record, address(record.block))

    def take(self) -> bytearray:
        """Returns the memory of a copy, for `restore`."""
        return bytearray(self._block.data)

    def restore(self, memory: bytearray) -> R:
        """Returns the record as it was when the memory was copied."""
        record: R = place_record(self._layout, memory)
        return record


#: Class of a record, and of each field its layout, or its shape, type and offset in the memory [byte].
Layout = tuple[type[Record], list[Any]]


def find_layout(record: Record, start: int) -> Layout:
    """Returns where the fields of a record lie in a block of memory.

    Args:
        record: a record.
        start: address of the memory in which the record lies.
    """
    return type(record), [
        find_layout(x, start) if isinstance(x, Record) else (x.shape, x.dtype, address(x) - start) for x in record
    ]


def place_record(layout: Layout, memory: bytearray | NDArray[np.uint8]) -> Any:
    """Returns a record with a known layout in a block of memory; its fields are not validated again."""
    cls, fields = layout
    return tuple.__new__(
        cls,
        [
            np.ndarray(field[0], field[1], memory, field[2]) if len(field) == 3 else place_record(field, memory)
            for field in fields
        ],
    )


def address(x: NDArray[np.generic]) -> int:
    """Returns the address of the first entry of an array."""
    found: int = x.__array_interface__["data"][0]
    return found
