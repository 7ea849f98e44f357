"""Layout of values in LLVM registers and in memory.

An array is a pointer and its sizes; a tuple or record is the sequence of its items.  In memory each register of a
record, nested records included, takes a word of 64 bits (lanes take `LANE_WIDTH` words).  Records are passed by
address, and a returned record is written to an address that the caller passes.  Records are immutable.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cache

from .kinds import BOOL, FLOAT, INT, LANE_WIDTH, LANES, ArrayKind, Kind, RecordKind, ScalarKind

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


def literal(x: float) -> str:
    """Returns the exact LLVM literal of a float."""
    return f"0x{struct.unpack('<Q', struct.pack('<d', x))[0]:016X}"
