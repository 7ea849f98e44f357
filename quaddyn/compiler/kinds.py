"""Kinds (types) of the values of compiled functions, and the annotations that declare them.

A function's annotations are its signature: ``float``, ``int``, ``bool``, `Lanes`, the arrays below, tuples of these,
and named tuples (`typing.NamedTuple`) with such fields.  To a type checker the arrays are NumPy's.

*Layout in LLVM registers and in memory.*  An array is a pointer and its sizes; a tuple or record is the sequence of its
items.  In memory each register of a record, nested records included, takes a word of 64 bits (lanes take `LANE_WIDTH`
words).  Records are passed by address, and a returned record is written to an address that the caller passes.  Records
are immutable.
"""

from __future__ import annotations

import enum
import struct
import sys
from dataclasses import dataclass
from functools import cache
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
        rank: number of axes; 0 for a number in a mutable record, which machine code and C pass by its address.
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
    """Kind of a named tuple or of a mutable record (`Record`); `record_kind` returns the only instance for each class.

    Attributes:
        name: name of the class.
        fields: (name, kind) of each field, in order.  In mutable records, the kind of the array that holds the field.
        cls: the class.
        values: kind of the value that a field of a mutable record has where it is read and assigned; None where that
            is the array or record itself.  Empty for named tuples.
    """

    name: str
    fields: tuple[tuple[str, Kind], ...]
    cls: type
    values: tuple[Kind | None, ...] = ()

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
        if isinstance(annotation, enum.EnumType) and issubclass(annotation, int):
            return INT
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
#: Array in which a mutable record holds a field, by the kind of its value.
_STORED: dict[Kind, ArrayKind] = {
    FLOAT: ArrayKind("float", 0), INT: ArrayKind("int", 0), BOOL: ArrayKind("int", 0), VEC3: ArrayKind("float", 1),
    MAT3: ArrayKind("float", 1), QUAT: ArrayKind("float", 1),
}  # fmt: skip


def record_kind(cls: type) -> RecordKind | None:
    """Returns the kind of a named tuple or mutable record, or None if a field has no kind that can be compiled."""
    if cls not in _records:
        fields: list[tuple[str, Kind]] = []
        for name in cls._fields:  # type: ignore[attr-defined]
            kind = kind_of(_annotation(cls, name), _namespace(cls))
            if kind is None or kind == NOTHING:
                _records[cls] = None
                return None
            fields.append((name, kind))
        _records[cls] = RecordKind(cls.__name__, tuple(fields), cls)
        if not hasattr(cls, "_replace"):  # a mutable record: numbers and small arrays lie in arrays
            stored = [(name, _STORED.get(kind, kind)) for name, kind in fields]
            values = [kind if kind in _STORED else None for _, kind in fields]
            fits = all(isinstance(kind, ArrayKind | RecordKind) for _, kind in stored)
            _records[cls] = RecordKind(cls.__name__, tuple(stored), cls, tuple(values)) if fits else None
    return _records[cls]


def enumeration(cls: type, field: str) -> type[enum.IntEnum] | None:
    """Returns the enumeration that a field of a record is annotated with, or None for other annotations."""
    annotation = _annotation(cls, field)
    if isinstance(annotation, str):
        annotation = eval(annotation, _namespace(cls))
    return annotation if isinstance(annotation, type) and issubclass(annotation, enum.IntEnum) else None


def _namespace(cls: type) -> dict[str, Any]:
    """Returns the names with which annotations of a class are evaluated: those of its module."""
    found: dict[str, Any] = getattr(cls, "_namespace", None) or vars(sys.modules[cls.__module__])
    return found


def _annotation(cls: type, field: str) -> Any:
    annotation = cls.__annotations__[field]
    return annotation.__forward_arg__ if hasattr(annotation, "__forward_arg__") else annotation


VECTOR, INT_VECTOR, BOOL_VECTOR = f"<{LANE_WIDTH} x double>", f"<{LANE_WIDTH} x i64>", f"<{LANE_WIDTH} x i1>"
SCALARS: dict[Kind, str] = {FLOAT: "double", INT: "i64", BOOL: "i1", LANES: VECTOR}
#: LLVM type of an array item, its alignment [bytes] and its alias class (TBAA).
ITEMS = {"float": ("double", 8, "!1"), "int": ("i64", 8, "!2"), "byte": ("i8", 1, "!3")}
#: LLVM predicates for floats and for ints; every comparison with NaN is false, except "!=".
RELATIONS = {
    "==": ("oeq", "eq"), "!=": ("une", "ne"), "<": ("olt", "slt"), "<=": ("ole", "sle"), ">": ("ogt", "sgt"),
    ">=": ("oge", "sge"),
}  # fmt: skip

#: End of every module: declarations of intrinsics and libm functions, and the alias classes (TBAA).
EPILOGUE = "\n".join(
    [f"declare double @llvm.{n}.f64(double)" for n in ("sqrt", "fabs", "floor")]
    + [f"declare double @{n}(double)" for n in ("sin", "cos", "acos", "exp", "log", "log1p")]
    + [
        f"declare {VECTOR} @llvm.sqrt.v{LANE_WIDTH}f64({VECTOR})",
        "declare double @atan2(double, double)",
        "declare double @copysign(double, double)",
        "declare i64 @llvm.fptosi.sat.i64.f64(double)",
        "declare i64 @llvm.abs.i64(i64, i1)",
    ]
    + ["declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)", "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)"]
    + ['!0 = !{!"memory"}', '!4 = !{!"numbers", !0}', '!5 = !{!"integers", !0}', '!6 = !{!"bytes", !0}']
    + ['!7 = !{!"records", !0}', "!1 = !{!4, !4, i64 0}", "!2 = !{!5, !5, i64 0}", "!3 = !{!6, !6, i64 0}"]
    + ["!8 = !{!7, !7, i64 0}"]
)


@dataclass(frozen=True, slots=True)
class Callee:
    """Symbol and signature of a function that is called."""

    symbol: str
    parameters: tuple[Kind, ...]
    returns: Kind


def register_types(kind: Kind) -> list[str]:
    """Returns the LLVM types of the registers of a value."""
    match kind:
        case ScalarKind():
            return [SCALARS[kind]]
        case ArrayKind():
            return ["ptr"] + ["i64"] * kind.rank
    return [each for item in item_kinds(kind) for each in register_types(item)]


def item_kinds(kind: Kind) -> tuple[Kind, ...]:
    """Returns the kinds of the items of a tuple or the fields of a record; empty for numbers and arrays."""
    if isinstance(kind, RecordKind):
        return tuple(field for _, field in kind.fields)
    return () if isinstance(kind, ScalarKind | ArrayKind) else kind.items


def argument_types(kind: Kind) -> list[str]:
    """Returns the LLVM types of the registers in which a value is passed to a function."""
    return ["ptr"] if isinstance(kind, RecordKind) else register_types(kind)


def return_type(kind: Kind) -> str:
    """Returns the LLVM type of a function's result in registers."""
    types = [] if isinstance(kind, RecordKind) else register_types(kind)
    return "void" if not types else types[0] if len(types) == 1 else "{" + ", ".join(types) + "}"


@cache
def word_count(kind: Kind) -> int:
    """Returns the number of 64-bit words of a value in memory."""
    return sum(LANE_WIDTH if t == VECTOR else 1 for t in register_types(kind))


@cache
def field_offset(kind: Kind, index: int) -> int:
    """Returns the number of 64-bit words before a field of a record or an item of a tuple."""
    return sum(word_count(each) for each in item_kinds(kind)[:index])


def literal(x: float) -> str:
    """Returns the exact LLVM literal of a float."""
    return f"0x{struct.unpack('<Q', struct.pack('<d', x))[0]:016X}"
