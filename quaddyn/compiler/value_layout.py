"""How values lie in LLVM's registers and in memory.

Arrays are a pointer and sizes, tuples and records what they consist of, one after the other.  In memory each register
of a record takes a word of 64 bits (lanes `LANE_WIDTH` of them), records in records included; functions are handed its
address, and write those that they return where their caller says.  No record changes once it is made.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cache

from .kinds import BOOL, FLOAT, INT, LANE_WIDTH, LANES, ArrayKind, Kind, RecordKind, ScalarKind

VECTOR, INT_VECTOR, BOOL_VECTOR = f"<{LANE_WIDTH} x double>", f"<{LANE_WIDTH} x i64>", f"<{LANE_WIDTH} x i1>"
SCALARS: dict[Kind, str] = {FLOAT: "double", INT: "i64", BOOL: "i1", LANES: VECTOR}
#: Type of an item in memory, its alignment and its kind of memory.
ITEMS = {"float": ("double", 8, "!1"), "int": ("i64", 8, "!2"), "byte": ("i8", 1, "!3")}
#: Of floats and of ints; every comparison with NaN is false, but for "!=".
RELATIONS = {
    "==": ("oeq", "eq"), "!=": ("une", "ne"), "<": ("olt", "slt"), "<=": ("ole", "sle"), ">": ("ogt", "sgt"),
    ">=": ("oge", "sge"),
}  # fmt: skip

#: What follows the functions of a module: intrinsics, libm, and which memory is of which kind.
EPILOGUE = "\n".join(
    [f"declare double @llvm.{n}.f64(double)" for n in ("sqrt", "fabs", "floor")]
    + [f"declare double @{n}(double)" for n in ("sin", "cos", "exp", "log")]
    + [
        f"declare {VECTOR} @llvm.sqrt.v{LANE_WIDTH}f64({VECTOR})",
        "declare double @atan2(double, double)",
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
    """What a caller must know of a function."""

    symbol: str
    parameters: tuple[Kind, ...]
    returns: Kind


def register_types(kind: Kind) -> list[str]:
    """Types of the registers that a value of a kind takes."""
    match kind:
        case ScalarKind():
            return [SCALARS[kind]]
        case ArrayKind():
            return ["ptr"] + ["i64"] * kind.rank
    return [each for item in item_kinds(kind) for each in register_types(item)]


def item_kinds(kind: Kind) -> tuple[Kind, ...]:
    """Kinds of what a tuple or a record consists of."""
    if isinstance(kind, RecordKind):
        return tuple(field for _, field in kind.fields)
    return () if isinstance(kind, ScalarKind | ArrayKind) else kind.items


def argument_types(kind: Kind) -> list[str]:
    """Types of the registers in which a value is passed to a function."""
    return ["ptr"] if isinstance(kind, RecordKind) else register_types(kind)


def return_type(kind: Kind) -> str:
    """Type of what a function returns in registers."""
    types = [] if isinstance(kind, RecordKind) else register_types(kind)
    return "void" if not types else types[0] if len(types) == 1 else "{" + ", ".join(types) + "}"


@cache
def word_count(kind: Kind) -> int:
    """How many words of memory a value takes."""
    return sum(LANE_WIDTH if t == VECTOR else 1 for t in register_types(kind))


def literal(x: float) -> str:
    """A float as LLVM writes it, exactly."""
    return f"0x{struct.unpack('<Q', struct.pack('<d', x))[0]:016X}"
