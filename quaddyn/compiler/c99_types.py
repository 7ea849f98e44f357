"""C names of kinds, variables and functions, and the helper functions that expressions call."""

from __future__ import annotations

import math
import re
import textwrap
from typing import TYPE_CHECKING

from .kinds import BOOL, FLOAT, INT, LANE_WIDTH, ArrayKind, Kind, RecordKind, ScalarKind, SmallArrayKind, item_kinds

if TYPE_CHECKING:
    from .typed_tree import Constant

#: Precedence of the outermost operator of a C text, ascending.
CONDITIONAL, LOGIC, COMPARE, ADD, MULTIPLY, PREFIX, ATOM = range(7)
Text = tuple[str, int]

#: Sizes of an array by its rank, as fields of its structure.
SIZES = {1: ("n",), 2: ("rows", "columns"), 3: ("count", "rows", "columns")}
_ITEMS = {"float": ("", "double"), "int": ("Int", "int64_t"), "byte": ("Byte", "int8_t")}
_RANKS = {1: "Vector", 2: "Matrix", 3: "Tensor"}

#: Names reserved by C, C++ or an included header; variables of these names are renamed.
RESERVED = frozenset(
    """
    auto break case char const continue default do double else enum extern float for goto if inline int long register
    restrict return short signed sizeof static struct switch typedef union unsigned void volatile while asm fortran
    bool true false NULL NAN INFINITY I unix linux i386 near far
    alignas alignof and and_eq bitand bitor catch class compl constexpr const_cast decltype delete dynamic_cast explicit
    export friend mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public
    reinterpret_cast requires static_assert static_cast template this thread_local throw try typeid typename using
    virtual wchar_t xor xor_eq concept consteval constinit co_await co_return co_yield
    acos asin atan atan2 ceil cos cosh exp fabs floor fmod frexp ldexp log log10 modf pow sin sinh sqrt tan tanh
    acosh asinh atanh cbrt copysign erf erfc exp2 expm1 fdim fma fmax fmin hypot ilogb lgamma llrint llround log1p log2
    logb lrint lround nan nearbyint nextafter nexttoward remainder remquo rint round scalbln scalbn tgamma trunc
    j0 j1 jn y0 y1 yn gamma signgam significand drem finite isinf isnan isfinite isnormal signbit fpclassify
    abs labs main index
    """.split()
)


def array_name(kind: ArrayKind) -> str:
    """Returns the C name of the structure of an array."""
    return _ITEMS[kind.item][0] + _RANKS[kind.rank]


#: The structures of all arrays.
ARRAYS = "\n".join(
    f"typedef struct {{ {item} *at; int64_t {', '.join(SIZES[rank])}; }} {prefix}{_RANKS[rank]};"
    for prefix, item in _ITEMS.values()
    for rank in SIZES
)


def identifier(text: str) -> str:
    """Returns a text as a valid C identifier that is not reserved."""
    out = re.sub(r"[^0-9A-Za-z_]", lambda found: f"u{ord(found[0]):04x}" if ord(found[0]) > 127 else "_", text)
    return f"{out}_" if out in RESERVED else f"_{out}" if out[:1].isdigit() else out


class Types:
    """C names of kinds; structures of tuples and records are declared when they are first named.

    Attributes:
        declarations: declarations of structures, in an order valid in C.
    """

    def __init__(self) -> None:
        self.declarations: list[str] = []
        self._names: dict[Kind, str] = {}

    def type_of(self, kind: Kind) -> str:
        """Returns the C type of a kind."""
        if isinstance(kind, ScalarKind):
            return {FLOAT: "double", INT: "int64_t", BOOL: "bool"}.get(kind, "Lanes")
        if isinstance(kind, ArrayKind):
            return array_name(kind) if kind.rank else f"{_ITEMS[kind.item][1]} *"
        if kind not in self._names:
            types = [self.type_of(each) for each in item_kinds(kind)]
            if not types:
                return "void"
            named = kind.name if isinstance(kind, RecordKind | SmallArrayKind) else "_".join(["Tuple", *types])
            name = identifier(named)
            taken = {*self._names.values(), "Lanes", *(p + r for p, _ in _ITEMS.values() for r in _RANKS.values())}
            while name in taken:
                name += "_"
            fields = "".join(f"    {t} {self.field_name(kind, k)};\n".replace("* ", "*") for k, t in enumerate(types))
            self.declarations.append(f"typedef struct {{\n{fields}}} {name};")
            self._names[kind] = name
        return self._names[kind]

    @staticmethod
    def field_name(kind: Kind, k: int) -> str:
        """Returns the C name of field k of a tuple or record."""
        if isinstance(kind, SmallArrayKind):
            return kind.fields[k]
        return identifier(kind.fields[k][0]) if isinstance(kind, RecordKind) else f"_{k}"

    def parameter_declaration(self, name: str, kind: Kind) -> str:
        """Returns the C declaration of a parameter; records are passed by reference."""
        if isinstance(kind, RecordKind):
            return f"const {self.type_of(kind)} *{name}"
        return f"{self.type_of(kind)} {name}".replace("* ", "*")


def _lanes_function(name: str, parameters: str, value: str) -> str:
    """Returns a C function that returns lanes, written without a loop so that compilers keep lanes in registers."""
    values = ",\n        ".join(value.format(k=k) for k in range(LANE_WIDTH))
    return _inline_function("Lanes", name, parameters, f"return (Lanes){{{{\n        {values},\n    }}}};")


def _pairwise_sum(values: list[str]) -> str:
    """Returns the C text of a pairwise sum: the upper half is added to the lower half until one value remains."""
    while len(values) > 1:
        half = len(values) // 2
        values = [f"({a} + {b})" for a, b in zip(values[:half], values[half:], strict=True)]
    return values[0][1:-1]


def _inline_function(type_: str, name: str, parameters: str, body: str) -> str:
    """Returns the definition of a static inline C function."""
    return f"static inline {type_} {name}({parameters})\n{{\n    {body}\n}}"


_PAIR = "int64_t a, int64_t b"

#: Definitions of helpers by name, in the order in which they are written out.
HELPERS = {
    "Lanes": f"/* A vector of {LANE_WIDTH} numbers (lanes). */\ntypedef struct {{ double at[{LANE_WIDTH}]; }} Lanes;",
    "int_add": "/* Integer arithmetic wraps around. */\n"
    + _inline_function("int64_t", "int_add", _PAIR, "return (int64_t)((uint64_t)a + (uint64_t)b);"),
    "int_sub": _inline_function("int64_t", "int_sub", _PAIR, "return (int64_t)((uint64_t)a - (uint64_t)b);"),
    "int_mul": _inline_function("int64_t", "int_mul", _PAIR, "return (int64_t)((uint64_t)a * (uint64_t)b);"),
    "int_abs": _inline_function("int64_t", "int_abs", "int64_t a", "return a < 0 ? (int64_t)(0 - (uint64_t)a) : a;"),
    "int_min": _inline_function("int64_t", "int_min", _PAIR, "return b < a ? b : a;"),
    "int_max": _inline_function("int64_t", "int_max", _PAIR, "return b > a ? b : a;"),
    "floor_div": "/* Floor of a / b, and remainder, for positive b. */\n"
    + _inline_function("int64_t", "floor_div", _PAIR, "return a / b - (a % b < 0);"),
    "floor_mod": _inline_function("int64_t", "floor_mod", _PAIR, "return a % b < 0 ? a % b + b : a % b;"),
    "float_min": "/* Returns a unless b is smaller (larger); therefore a if one of them is NaN. */\n"
    + _inline_function("double", "float_min", "double a, double b", "return b < a ? b : a;"),
    "float_max": _inline_function("double", "float_max", "double a, double b", "return b > a ? b : a;"),
    "float_to_int": "/* Rounds towards zero and saturates; NaN results in 0. */\n"
    + _inline_function(
        "int64_t", "float_to_int", "double x",
        "if (x >= 9223372036854775808.0) {\n        return INT64_MAX;\n    }\n"
        "    if (x < -9223372036854775808.0) {\n        return INT64_MIN;\n    }\n"
        "    return x == x ? (int64_t)x : 0;",
    ),
    "line_begins": "/* Number of doubles before the first one that is aligned to a cache line. */\n"
    + _inline_function("int64_t", "line_begins", "const double *at", "return (int64_t)((0 - (uintptr_t)at) % 64 / 8);"),
    "lanes_broadcast": _lanes_function("lanes_broadcast", "double x", "x"),
    "lanes_load": _lanes_function("lanes_load", "const double *from", "from[{k}]"),
    "lanes_store": _inline_function(
        "void", "lanes_store", "Lanes x, double *to", "\n    ".join(f"to[{k}] = x.at[{k}];" for k in range(LANE_WIDTH)),
    ),
    "lanes_add": _lanes_function("lanes_add", "Lanes a, Lanes b", "a.at[{k}] + b.at[{k}]"),
    "lanes_sub": _lanes_function("lanes_sub", "Lanes a, Lanes b", "a.at[{k}] - b.at[{k}]"),
    "lanes_mul": _lanes_function("lanes_mul", "Lanes a, Lanes b", "a.at[{k}] * b.at[{k}]"),
    "lanes_div": _lanes_function("lanes_div", "Lanes a, Lanes b", "a.at[{k}] / b.at[{k}]"),
    "lanes_neg": _lanes_function("lanes_neg", "Lanes a", "-a.at[{k}]"),
    "lanes_sqrt": _lanes_function("lanes_sqrt", "Lanes a", "sqrt(a.at[{k}])"),
    "lanes_min": "/* Each lane of a unless that of b is smaller (larger). */\n"
    + _lanes_function("lanes_min", "Lanes a, Lanes b", "b.at[{k}] < a.at[{k}] ? b.at[{k}] : a.at[{k}]"),
    "lanes_max": _lanes_function("lanes_max", "Lanes a, Lanes b", "b.at[{k}] > a.at[{k}] ? b.at[{k}] : a.at[{k}]"),
    "lanes_select": "/* Lanes of a for positive lanes of test, otherwise lanes of b. */\n"
    + _lanes_function("lanes_select", "Lanes test, Lanes a, Lanes b", "test.at[{k}] > 0.0 ? a.at[{k}] : b.at[{k}]"),
    "lanes_mask_range": "/* Lanes first to last - 1; zero in the other lanes. */\n"
    + _lanes_function(
        "lanes_mask_range", "Lanes x, int64_t first, int64_t last", "{k} >= first && {k} < last ? x.at[{k}] : 0.0",
    ),
    "lanes_sum": "/* Pairwise sum of the lanes. */\n"
    + _inline_function(
        "double", "lanes_sum", "Lanes x", f"return {_pairwise_sum([f'x.at[{k}]' for k in range(LANE_WIDTH)])};",
    ),
}  # fmt: skip


def leading_index_helper(kind: ArrayKind, given: int) -> tuple[str, str]:
    """Returns name and definition of the C function that applies leading indices to an array.

    Its result is a smaller array, or the address of an entry if there is an index for every axis.
    """
    name, sizes = array_name(kind), SIZES[kind.rank]
    offset = "i"
    for k in range(1, kind.rank):
        offset = f"{offset if k == 1 else f'({offset})'} * x.{sizes[k]}" + (f" + {'ijk'[k]}" if k < given else "")
    index = ", ".join(f"int64_t {c}" for c in "ijk"[:given])
    if given == kind.rank:
        item = _ITEMS[kind.item][1]
        return f"{name}_at", _inline_function(
            f"{item} *", f"{name}_at", f"{name} x, {index}", f"return x.at + ({offset});"
        )
    out = array_name(ArrayKind(kind.item, kind.rank - given))
    helper = f"{name}_{'row' if kind.rank - given == 1 else 'page'}"
    fields = ", ".join(f"x.{each}" for each in sizes[given:])
    return helper, _inline_function(
        out, helper, f"{name} x, {index}", f"return ({out}){{x.at + ({offset}), {fields}}};"
    )


def slice_helper(kind: ArrayKind, whole: bool) -> tuple[str, str]:
    """Returns name and definition of the C function that slices an array by its first axis.

    Args:
        kind: kind of the array.
        whole: whether the slice extends to the end of the array.
    """
    name, sizes = array_name(kind), SIZES[kind.rank]
    helper = f"{name}_{'from' if whole else 'slice'}"
    stride = "".join(f" * x.{each}" for each in sizes[1:])
    fields = ", ".join([f"{'x.' + sizes[0] if whole else 'stop'} - start", *(f"x.{each}" for each in sizes[1:])])
    return helper, _inline_function(
        name, helper, f"{name} x, int64_t start" + ("" if whole else ", int64_t stop"),
        f"return ({name}){{x.at + start{stride}, {fields}}};",
    )  # fmt: skip


def c_comment(doc: str) -> str:
    """Returns a docstring as a C comment."""
    text = " ".join(doc.split()).replace("*/", "* /").replace("/*", "/ *").replace("??", "? ?").replace("``", "'")
    return textwrap.fill(f"/* {text}", 112, subsequent_indent="   ") + " */\n" if text else ""


def literal(e: Constant) -> Text:
    """Returns the exact C literal of a number, and its precedence."""
    if e.kind == BOOL:
        return ("true" if e.value else "false"), ATOM
    if e.kind == FLOAT:
        x = float(e.value)
        text = "NAN" if math.isnan(x) else "INFINITY" if math.isinf(x) else repr(abs(x))
        return (f"-{text}", PREFIX) if math.copysign(1.0, x) < 0.0 and not math.isnan(x) else (text, ATOM)
    n = int(e.value)
    if n == -(2**63):
        return "INT64_MIN", ATOM
    text = str(abs(n)) if abs(n) < 2**31 else f"INT64_C({abs(n)})"
    return (f"-{text}", PREFIX) if n < 0 else (text, ATOM)
