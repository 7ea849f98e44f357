"""Mutable records: classes whose annotated fields Python, machine code and C99 read and assign in the same memory.

::

    class FilterState(Record):
        R: Mat3              # a small array: read and assigned as a whole
        mode: Mode           # an enumeration (`enum.IntEnum`)
        is_initialized: bool
        P: Matrix            # an array: its entries change, its shape does not

    state = FilterState.allocate(P=(15, 15))
    state.mode = Mode.MOVING

Everything that `Record.allocate` makes, records in records included, lies in one block of memory, so that a snapshot is
a copy of the block.
"""

from __future__ import annotations

import enum
import math
import sys
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ..errors import ArgumentError, ArgumentTypeError
from . import language
from .kinds import BOOL, INT, MAT3, QUAT, VEC3, ArrayKind, RecordKind, SmallArrayKind, enumeration, record_kind

#: Alignment of arrays of at least as many bytes, a line of the cache [bytes].
_LINE = 64
#: Types of integers and truth values.
_INTEGERS: tuple[type, ...] = (int, np.integer, np.bool_)
_MAKE_SMALL = {VEC3: language.vec3, MAT3: language.mat3, QUAT: language.quat}


class Record(tuple[Any, ...]):
    """Base of mutable records.

    To the compiler a record is a tuple of arrays, one for each field, and of the records in it: numbers lie in arrays
    of rank 0, small arrays in vectors.  Attributes hide these arrays: reading one returns the number or a small array
    with its present entries, assigning writes them.  Array fields cannot be replaced: write ``record.x[:] = y``.

    Args:
        arrays: one array, or record, for each field, in order; most records are made by `allocate`.

    Raises:
        ArgumentError: an array has another shape than the field needs.
        ArgumentTypeError: a field is missing, or has another type.
    """

    #: Names of the fields, in order.
    _fields: ClassVar[tuple[str, ...]] = ()
    #: Global names where the class is defined, with which its annotations are evaluated.
    _namespace: ClassVar[dict[str, Any]] = {}

    def __init_subclass__(cls) -> None:
        """Adds a property for each annotated field."""
        if cls.__mro__[1] is not Record:
            raise TypeError(
                f"{cls.__name__}: the class must be derived directly from Record, because fields are not inherited"
            )
        cls._namespace = sys._getframe(1).f_globals  # also of programs that are not modules, such as notebooks
        cls._fields = tuple(name for name, note in cls.__annotations__.items() if not _is_class_variable(note))
        for index, name in enumerate(cls._fields):
            if name.startswith("_") or name in vars(Record):
                raise TypeError(f"{cls.__name__}.{name}: this name is reserved by Record; choose another name")
            setattr(cls, name, _FieldProperty(index, name))

    def __new__(cls, *arrays: Any) -> Self:
        """Makes a record of arrays that exist."""
        kind = cls._kind()
        if len(arrays) != len(kind.fields):
            raise ArgumentTypeError(
                f"{cls.__name__}: expected the fields {', '.join(cls._fields)}, got {len(arrays)} fields"
            )
        for x, (name, stored), shown in zip(arrays, kind.fields, kind.values, strict=True):
            what = f"{cls.__name__}.{name}"
            if isinstance(stored, RecordKind):
                if type(x) is not stored.cls:
                    raise ArgumentTypeError(f"{what}: expected a record of class {stored.name}, got {type(x).__name__}")
                continue
            assert isinstance(stored, ArrayKind)
            if not isinstance(x, np.ndarray) or x.dtype != stored.dtype or x.ndim != stored.rank:
                raise ArgumentTypeError(f"{what}: expected {stored}, got {getattr(x, 'dtype', type(x).__name__)}")
            if isinstance(shown, SmallArrayKind) and len(x) != len(shown.items):
                raise ArgumentError(f"{what}: expected {len(shown.items)} floats, got {len(x)}")
        return super().__new__(cls, arrays)

    @classmethod
    def allocate(cls, **shapes: Any) -> Self:
        """Makes a record with zeros in every field, all of it in one block of memory.

        Args:
            shapes: shape of each array field (an int for a vector), and a dictionary of shapes for each record field
                with arrays.

        Raises:
            ArgumentError: the shape of a field is missing or has another rank than the field.
        """
        size, _ = _layout(cls._kind(), shapes, 0)
        return cls._within(_aligned(np.zeros(size + _LINE, dtype=np.uint8)), shapes, 0)

    @classmethod
    def from_values(cls, **values: Any) -> Self:
        """Makes a record in one block of memory, with the shapes and entries of given values.

        Args:
            values: one for each field: a number, an array (copied), or a record (copied).

        Raises:
            ArgumentError: a field is missing, or has another shape.
            ArgumentTypeError: a record field got a value that is not this record.
        """
        kind, shapes = cls._kind(), dict[str, Any]()
        if values.keys() != set(cls._fields):
            wrong = ", ".join(sorted(values.keys() ^ set(cls._fields)))
            raise ArgumentError(f"{cls.__name__}: expected {', '.join(cls._fields)}; missing or unknown: {wrong}")
        for (name, stored), shown in zip(kind.fields, kind.values, strict=True):
            if isinstance(stored, RecordKind):
                if type(values[name]) is not stored.cls:
                    found = type(values[name]).__name__
                    raise ArgumentTypeError(
                        f"{cls.__name__}.{name}: expected a record of class {stored.name}, got {found}"
                    )
                shapes[name] = values[name]._shapes()
            elif shown is None:
                shapes[name] = np.shape(values[name])
        out = cls.allocate(**shapes)
        for name, mine, shown in zip(cls._fields, out, kind.values, strict=True):
            if isinstance(mine, Record):
                mine.copy_from(values[name])
            elif shown is None:
                mine[...] = values[name]
            else:
                setattr(out, name, values[name])
        return out

    @classmethod
    def _within(cls, block: NDArray[np.uint8], shapes: Mapping[str, Any], at: int) -> Self:
        """Returns a record in a block of memory, from a byte on."""
        kind, fields = cls._kind(), list[Any]()
        _, offsets = _layout(kind, shapes, at)
        for (name, stored), (begin, shape) in zip(kind.fields, offsets, strict=True):
            if isinstance(stored, RecordKind):
                fields.append(stored.cls._within(block, shapes.get(name, {}), begin))  # type: ignore[attr-defined]
            else:
                assert isinstance(stored, ArrayKind)
                fields.append(np.ndarray(shape, stored.dtype, block, begin))
        return cls(*fields)

    @classmethod
    def _kind(cls) -> RecordKind:
        kind = record_kind(cls)
        if kind is None:
            raise TypeError(f"{cls.__name__}: every field must be annotated with a kind of quaddyn.compiler.kinds")
        return kind

    @property
    def block(self) -> NDArray[np.uint8]:
        """The memory of a record that `allocate` made, as bytes; of a record in a record, that of all of it.

        Raises:
            ArgumentError: the record was made of separate arrays.
        """
        first = self[0]
        while isinstance(first, Record):
            first = first[0]
        if first.base is None or first.base.dtype != np.uint8:
            raise ArgumentError(
                f"{type(self).__name__}: the record must have been made by allocate, but it was made of separate arrays"
            )
        return _aligned(first.base)

    def copy_from(self, other: Self) -> None:
        """Copies the entries of all fields of a record of the same shapes.

        Raises:
            ArgumentError: a field has another shape there.
        """
        for name, mine, given in zip(self._fields, self, other, strict=True):
            if isinstance(mine, Record):
                mine.copy_from(given)
            elif mine.shape != given.shape:
                raise ArgumentError(f"{type(self).__name__}.{name}: expected shape {mine.shape}, got {given.shape}")
            else:
                mine[...] = given

    def copy(self) -> Self:
        """Returns a record with the same entries in separate memory."""
        out = self.allocate(**self._shapes())
        out.copy_from(self)
        return out

    def field_sizes(self) -> dict[str, int]:
        """Returns the bytes of memory of each field."""
        return {
            name: sum(x.field_sizes().values()) if isinstance(x, Record) else x.nbytes
            for name, x in zip(self._fields, self, strict=True)
        }

    def _shapes(self) -> dict[str, Any]:
        """Returns the arguments with which `allocate` makes a record of the same shapes."""
        kind = self._kind()
        return {
            name: x._shapes() if isinstance(x, Record) else x.shape
            for (name, _), shown, x in zip(kind.fields, kind.values, self, strict=True)
            if isinstance(x, Record) or shown is None
        }

    def __setattr__(self, name: str, value: Any) -> None:
        """Assigns a field; raises for names that are not fields."""
        if name not in self._fields:
            raise AttributeError(f"{type(self).__name__} has no field {name!r}; it has {', '.join(self._fields)}")
        super().__setattr__(name, value)

    def __repr__(self) -> str:
        """Returns all fields by name."""
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in self._fields)})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the shapes and the entries."""
        leaves = [np.array(x) if isinstance(x, np.ndarray) else x for x in self]
        return _restored, (type(self), self._shapes(), leaves)


def _aligned(memory: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Returns the block that begins with a line of the cache, in memory that is a line larger."""
    offset = -memory.__array_interface__["data"][0] % _LINE
    return memory[offset : offset + len(memory) - _LINE]


def _restored(cls: type[Record], shapes: dict[str, Any], leaves: list[Any]) -> Record:
    """Returns a pickled record."""
    out = cls.allocate(**shapes)
    out.copy_from(cls(*leaves))
    return out


def _reader(shown: Any, members: type[enum.IntEnum] | None) -> Callable[[Any], Any]:
    """Returns a function of the array in which a record holds a field that returns the value of the field.

    Args:
        shown: kind of the value; None for an array or a record.
        members: enumeration of the value; None for other values.
    """
    if shown is None:
        return _identity
    if isinstance(shown, SmallArrayKind):
        make, shape = _MAKE_SMALL[shown], shown.shape
        return lambda stored: make(stored.reshape(shape))
    if members is not None:
        by_value = members._value2member_map_
        return lambda stored: by_value.get(stored.item(), stored.item())
    read_number: Any = np.ndarray.item
    return (lambda stored: bool(stored)) if shown == BOOL else read_number


def _identity(stored: Any) -> Any:
    return stored


def _writer(owner: type[Record], index: int, name: str) -> Callable[[Any, Any], None]:
    """Returns a function of the array in which a record holds a field, and of a value, that assigns the value.

    The function raises an ArgumentTypeError or ArgumentError for values that compiled code would not accept.

    Args:
        owner: class of the record.
        index: index of the field.
        name: name of the field.
    """
    shown: Any = owner._kind().values[index]
    what, members = f"{owner.__name__}.{name}", enumeration(owner, name)

    def reject(stored: Any, value: Any) -> None:
        raise AttributeError(f"{what}: an array or record in a record cannot be replaced; write into it instead")

    def write_small_array(stored: Any, value: Any) -> None:
        given = np.asarray(value, dtype=np.float64)
        if given.shape != shown.shape:
            raise ArgumentError(f"{what}: expected shape {shown.shape}, got {given.shape}")
        stored[:] = given.ravel()

    def write_number(stored: Any, value: Any) -> None:
        fits = isinstance(value, types) and (shown != BOOL or value in (0, 1))  # saved states contain ints as bools
        if not fits:
            raise ArgumentTypeError(f"{what}: expected {shown}, got {type(value).__name__}")
        if members is not None and int(value) not in members._value2member_map_:
            raise ArgumentError(f"{what}: expected a member of {members.__name__}, got {value}")
        stored[()] = value

    if shown is None:
        return reject
    types = _INTEGERS if shown in (BOOL, INT) else (*_INTEGERS, float, np.floating)
    return write_small_array if isinstance(shown, SmallArrayKind) else write_number


class _FieldProperty:
    """Attribute of a record: the value of one field."""

    def __init__(self, index: int, name: str) -> None:
        self._index, self._name = index, name
        self._read: Callable[[Any], Any] | None = None
        self._write: Callable[[Any, Any], None] | None = None

    def __get__(self, record: Record | None, owner: type[Record]) -> Any:
        if record is None:
            return self
        if self._read is None:  # annotations may name classes that are defined later
            self._read = _reader(owner._kind().values[self._index], enumeration(owner, self._name))
        return self._read(record[self._index])

    def __set__(self, record: Record, value: Any) -> None:
        if self._write is None:
            self._write = _writer(type(record), self._index, self._name)
        self._write(record[self._index], value)


def _layout(kind: RecordKind, shapes: Mapping[str, Any], at: int) -> tuple[int, list[tuple[int, tuple[int, ...]]]]:
    """Returns the end of a record that begins at a byte, and the first byte and shape of each field."""
    needed = [
        name
        for (name, stored), shown in zip(kind.fields, kind.values, strict=True)
        if shown is None and isinstance(stored, ArrayKind)
    ]
    missing = [name for name in needed if name not in shapes]
    unknown = [name for name in shapes if name not in [name for name, _ in kind.fields]]
    if missing or unknown:
        found = f"no shape is given for {', '.join(missing)}" if missing else f"it has no field {', '.join(unknown)}"
        raise ArgumentError(f"{kind.name}: {found}; shapes are required for {', '.join(needed) or 'no field'}")
    offsets: list[tuple[int, tuple[int, ...]]] = []
    for (name, stored), shown in zip(kind.fields, kind.values, strict=True):
        if isinstance(stored, RecordKind):
            end, _ = _layout(stored, shapes.get(name, {}), at)
            offsets.append((at, ()))
        else:
            assert isinstance(stored, ArrayKind)
            shape: Any = (len(shown.items),) if isinstance(shown, SmallArrayKind) else ()
            if shown is None:
                shape = shapes[name]
                shape = (shape,) if isinstance(shape, int) else tuple(shape)
            if len(shape) != stored.rank or not all(n >= 0 for n in shape):
                raise ArgumentError(f"{kind.name}.{name}: expected a shape with {stored.rank} sizes, got {shape}")
            size = stored.dtype.itemsize * math.prod(shape)
            at += -at % (_LINE if size >= _LINE else 8)
            offsets.append((at, shape))
            end = at + size
        at = end
    return at, offsets


def _is_class_variable(annotation: object) -> bool:
    return "ClassVar" in (annotation if isinstance(annotation, str) else repr(annotation))
