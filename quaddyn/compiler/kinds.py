"""Kinds (types) of the values of compiled functions, and the annotations that declare them.

A function's annotations are its signature: ``float``, ``int``, ``bool``, `Lanes`, the arrays below, tuples of these,
and named tuples (`typing.NamedTuple`) with such fields.  To a type checker the arrays are NumPy's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, get_args

import numpy as np
from numpy.typing import NDArray

#: Numbers that one SIMD operation works on.
LANE_WIDTH = 8


@dataclass(frozen=True, slots=True)
class ScalarKind:
    """Kind of a number.

    "float" (64 bits), "int" (64 bits), "bool", or "lanes", a SIMD register of `LANE_WIDTH` floats.
    """

    name: str

    def __str__(self) -> str:
        return self.name


FLOAT, INT, BOOL, LANES = ScalarKind("float"), ScalarKind("int"), ScalarKind("bool"), ScalarKind("lanes")


@dataclass(frozen=True, slots=True)
class ArrayKind:
    """Kind of a C-contiguous array.

    Attributes:
        item: type of the entries, "float" (float64), "int" (int64) or "byte" (int8).
        rank: number of axes.
    """

    item: str
    rank: int

    def __str__(self) -> str:
        return f"{self.item} array of rank {self.rank}"

    @property
    def element(self) -> ScalarKind:
        """Kind of an entry after reading it; bytes become ints."""
        return FLOAT if self.item == "float" else INT

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's type of the entries."""
        return np.dtype({"float": np.float64, "int": np.int64, "byte": np.int8}[self.item])


@dataclass(frozen=True, slots=True)
class TupleKind:
    """Kind of a tuple, from the kinds of its items."""

    items: tuple[Kind, ...]

    def __str__(self) -> str:
        return f"tuple of {', '.join(map(str, self.items))}"


@dataclass(frozen=True, slots=True)
class SmallArrayKind(TupleKind):
    """Kind of an immutable vector or matrix of a few floats, which compiled code holds in registers.

    Attributes:
        name: of the annotation, such as "Vec3".
        shape: of the NumPy array that represents it in Python.
        fields: names of the entries in C, row by row.
    """

    name: str
    shape: tuple[int, ...]
    fields: tuple[str, ...]

    def __str__(self) -> str:
        return self.name


def _small(name: str, shape: tuple[int, ...], fields: str) -> SmallArrayKind:
    return SmallArrayKind((FLOAT,) * len(fields.split()), name, shape, tuple(fields.split()))


VEC3 = _small("Vec3", (3,), "x y z")
MAT3 = _small("Mat3", (3, 3), "xx xy xz yx yy yz zx zy zz")
QUAT = _small("Quat", (4,), "x y z w")


@dataclass(frozen=True, slots=True, eq=False)
class RecordKind:
    """Kind of a named tuple; `record_kind` returns the only instance for each class.

    Attributes:
        name: name of the class.
        fields: (name, kind) of each field, in order.
        cls: the class.
    """

    name: str
    fields: tuple[tuple[str, Kind], ...]
    cls: type

    def __str__(self) -> str:
        return self.name

    def index(self, field: str) -> int:
        """Returns the position of a field.

        Raises:
            ValueError: the record has no field of this name.
        """
        return [name for name, _ in self.fields].index(field)


Kind = ScalarKind | ArrayKind | TupleKind | RecordKind

#: Kind of the result of a function that returns nothing.
NOTHING = TupleKind(())

Vector = Annotated[NDArray[np.float64], ArrayKind("float", 1)]
Matrix = Annotated[NDArray[np.float64], ArrayKind("float", 2)]
Tensor = Annotated[NDArray[np.float64], ArrayKind("float", 3)]
IntVector = Annotated[NDArray[np.int64], ArrayKind("int", 1)]
IntMatrix = Annotated[NDArray[np.int64], ArrayKind("int", 2)]
IntTensor = Annotated[NDArray[np.int64], ArrayKind("int", 3)]
ByteVector = Annotated[NDArray[np.int8], ArrayKind("byte", 1)]
ByteMatrix = Annotated[NDArray[np.int8], ArrayKind("byte", 2)]
Lanes = Annotated[NDArray[np.float64], LANES]
#: Small arrays: three coordinates, a matrix of three rows and columns, a quaternion (x, y, z, w).
Vec3 = Annotated[Any, VEC3]
Mat3 = Annotated[Any, MAT3]
Quat = Annotated[Any, QUAT]


def kind_of(annotation: object, scope: dict[str, Any]) -> Kind | None:
    """Returns the kind that an annotation declares, or None if it declares none.

    Args:
        annotation: an object, or its source text.
        scope: namespace in which source text is evaluated.
    """
    if isinstance(annotation, str):
        try:
            annotation = eval(annotation, scope)
        except (NameError, AttributeError, SyntaxError, TypeError):
            return None
    simple: dict[object, Kind] = {float: FLOAT, int: INT, bool: BOOL, None: NOTHING, type(None): NOTHING}
    if isinstance(annotation, type) or annotation is None:
        if annotation in simple:
            return simple[annotation]
    for note in getattr(annotation, "__metadata__", ()):
        if isinstance(note, ArrayKind | ScalarKind | SmallArrayKind):
            return note
    if getattr(annotation, "__origin__", None) is tuple:
        items = [kind_of(each, scope) for each in get_args(annotation)]
        known = [each for each in items if each is not None]
        return TupleKind(tuple(known)) if len(known) == len(items) else None
    if isinstance(annotation, type) and issubclass(annotation, tuple) and hasattr(annotation, "_fields"):
        return record_kind(annotation)
    return None


_records: dict[type, RecordKind | None] = {}


def record_kind(cls: type) -> RecordKind | None:
    """Returns the kind of a `typing.NamedTuple` class, or None if a field has no kind that can be compiled."""
    if cls not in _records:
        import sys

        scope = vars(sys.modules[cls.__module__])
        fields: list[tuple[str, Kind]] = []
        for name, annotation in cls.__annotations__.items():
            text = annotation.__forward_arg__ if hasattr(annotation, "__forward_arg__") else annotation
            kind = kind_of(text, scope)
            if kind is None or kind == NOTHING:
                _records[cls] = None
                return None
            fields.append((name, kind))
        _records[cls] = RecordKind(cls.__name__, tuple(fields), cls)
    return _records[cls]
