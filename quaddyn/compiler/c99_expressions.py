"""Writer of typed expressions as C99, and of the lines and variable names of one C99 function.

C leaves the order of evaluation of operands open, Python does not.  Where the order matters, because a called function
may write memory that another operand reads, operands are stored in variables first.  Index and size arithmetic uses
plain operators; other integer arithmetic calls functions that wrap on overflow.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from .c99_types import (
    ADD,
    ATOM,
    COMPARE,
    CONDITIONAL,
    HELPERS,
    LOGIC,
    MULTIPLY,
    PREFIX,
    SIZES,
    Text,
    Types,
    identifier,
    leading_index_helper,
    literal,
    slice_helper,
)
from .kinds import BOOL, FLOAT, INT, LANE_WIDTH, LANES, ArrayKind, RecordKind
from .typed_tree import (
    AxisLength,
    Binary,
    Call,
    Compare,
    Conditional,
    Constant,
    Convert,
    Expression,
    Field,
    Function,
    Intrinsic,
    LocalArray,
    Logic,
    MakeTuple,
    Name,
    ReshapedView,
    SlicedView,
    Subscript,
    Unary,
)
from .variable_analysis import accesses_memory, conditionally_written_arrays, has_byte_entries


class LineWriter:
    """Collector of the lines of one C99 function.

    Args:
        function: typed tree of the function.
        types: C names of kinds.
        symbol: returns the C name of a compiled function.
        helpers: receives the definitions of helper functions by name.
    """

    def __init__(self, function: Function, types: Types, symbol: Callable[[Any], str], helpers: dict[str, str]) -> None:
        self.function, self.types, self.symbol, self.helpers = function, types, symbol, helpers
        self.lines: list[str] = []
        self.declarations: list[str] = []
        self.depth = 1
        self.unmodified_parameters = frozenset(name for name, _ in function.parameters) - function.assigned
        self.cleared_arrays = conditionally_written_arrays(function)
        self.names: dict[str, str] = {}
        for name in function.variables:
            c = identifier(name)
            while c in self.names.values() or c in HELPERS:
                c += "_"
            self.names[name] = c
        self.temporary_count = 0

    # -- lines -------------------------------------------------------------------------------------------------
    def line(self, text: str) -> None:
        """Appends a line to the current block."""
        self.lines.append("    " * self.depth + text)

    def temporary(self) -> str:
        """Returns an unused variable name."""
        self.temporary_count += 1
        name = f"t{self.temporary_count}"
        return name if name not in self.names.values() else self.temporary()

    def store_in_variable(self, e: Expression, text: str) -> str:
        """Writes a constant variable with the value of an expression and returns its name."""
        name = self.temporary()
        self.line(f"const {self.types.type_of(e.kind)} {name} = {text};")
        return name

    def capture_lines(self, write: Callable[[], str], deeper: int = 0) -> tuple[str, list[str]]:
        """Returns the text that `write` makes, and the lines that must precede it, without appending them."""
        lines, self.lines = self.lines, []
        self.depth += deeper
        text = write()
        self.depth -= deeper
        lines, self.lines = self.lines, lines
        return text, lines

    def helper(self, name: str, definition: str = "") -> str:
        """Returns the name of a helper function and registers its definition."""
        if name.startswith("lanes"):
            self.helper("Lanes")
        self.helpers.setdefault(name, definition or HELPERS[name])
        return name


#: C text that names an array: a variable or a chain of fields.
ARRAY_PATH = re.compile(r"[A-Za-z_]\w*((->|\.)[A-Za-z_]\w*)*")


class C99ExpressionWriter(LineWriter):
    """Writer of the expressions of one function as C99; same arguments as `LineWriter`."""

    # -- values ------------------------------------------------------------------------------------------------
    def value(self, e: Expression, level: int = CONDITIONAL) -> str:
        """Returns the C text of a value, in parentheses if its precedence is below `level`."""
        text, precedence = self.text(e)
        return text if precedence >= level else f"({text})"

    def operands(self, operands: Sequence[Expression], *levels: int, index: bool = False) -> list[str]:
        """Returns the C texts of operands that are evaluated from left to right.

        Args:
            operands: the operands.
            levels: minimum precedence of each operand; the last one holds for all that follow.
            index: whether the operands are indices or sizes.
        """
        out = []
        for k, e in enumerate(operands):
            following, level = operands[k + 1 :], levels[min(k, len(levels) - 1)] if levels else CONDITIONAL
            needs_variable = (e.contains_call and any(map(accesses_memory, following))) or (
                accesses_memory(e) and any(x.contains_call for x in following)
            )
            text = self.index(e, level) if index else self.value(e, level)
            out.append(self.store_in_variable(e, text) if needs_variable else text)
        return out

    def index(self, e: Expression, level: int = CONDITIONAL) -> str:
        """Returns the C text of an index or size, whose arithmetic cannot overflow since arrays fit in memory."""
        if isinstance(e, Binary) and e.op in ("+", "-", "*"):
            precedence = MULTIPLY if e.op == "*" else ADD
            if not (e.left.contains_call or e.right.contains_call):
                text = f"{self.index(e.left, precedence)} {e.op} {self.index(e.right, precedence + 1)}"
                return text if precedence >= level else f"({text})"
        return self.value(e, level)

    def text(self, e: Expression) -> Text:
        """Returns the C text of a value and the precedence of its outermost operator."""
        match e:
            case Constant():
                return literal(e)
            case Name():
                pointer = e.name in self.unmodified_parameters and isinstance(e.kind, RecordKind)
                return (f"*{self.names[e.name]}", PREFIX) if pointer else (self.names[e.name], ATOM)
            case Binary():
                return self.binary(e)
            case Unary():
                return self.unary(e)
            case Compare():
                return self.compare(e)
            case Logic():
                return self.all_or_any(e.op, [partial(self.value, each, COMPARE) for each in e.values])
            case Conditional():
                return self.conditional(e)
            case Convert():
                return self.convert(e)
            case Call():
                return self.call(e)
            case Intrinsic():
                return self.intrinsic(e)
            case Subscript():
                text = self.element(e.array, e.index)
                return (
                    (f"(int64_t){text}", PREFIX)
                    if has_byte_entries(e.array)
                    else (text, PREFIX if text[0] == "*" else ATOM)
                )
            case SlicedView():
                return self.view(e), ATOM
            case AxisLength():
                assert isinstance(e.array.kind, ArrayKind)
                return f"{self.value(e.array, ATOM)}.{SIZES[e.array.kind.rank][e.axis]}", ATOM
            case ReshapedView():
                base, at, *sizes = self.operands((e.array, e.at, *e.sizes), ADD, index=True)
                begin = f"{base}.at" if at == "0" else f"{base}.at + {at}"
                return f"({self.types.type_of(e.kind)}){{{', '.join([begin, *sizes])}}}", ATOM
            case LocalArray():
                name = self.temporary()
                begin = " = {0}" if e.clear or e in self.cleared_arrays else ""
                self.declarations.append(f"    double {name}[{math.prod(e.sizes) + LANE_WIDTH}]{begin};")
                return f"({self.types.type_of(e.kind)}){{{', '.join([name, *map(str, e.sizes)])}}}", ATOM
            case MakeTuple():
                values = self.operands(e.values)
                return f"({self.types.type_of(e.kind)}){{{', '.join(values)}}}", ATOM
            case Field():
                return self.field(e), ATOM
        raise AssertionError(e)

    def field(self, e: Field) -> str:
        """Returns the C text of one field of a tuple or record."""
        name = self.types.field_name(e.record.kind, e.index)
        record = e.record
        if (
            isinstance(record, Name)
            and record.name in self.unmodified_parameters
            and isinstance(record.kind, RecordKind)
        ):
            return f"{self.names[record.name]}->{name}"
        return f"{self.value(record, ATOM)}.{name}"

    # -- numbers -----------------------------------------------------------------------------------------------
    def binary(self, e: Binary) -> Text:
        """Returns the C text of a binary operation on numbers or lanes."""
        if e.kind == FLOAT:
            precedence = MULTIPLY if e.op in "*/" else ADD
            return f" {e.op} ".join(self.operands((e.left, e.right), precedence, precedence + 1)), precedence
        if e.op in ("&", "|"):
            if e.kind == BOOL and (e.left.contains_call or e.right.contains_call):
                x, y = (self.store_in_variable(each, self.value(each)) for each in (e.left, e.right))
            else:
                x, y = self.operands((e.left, e.right), PREFIX)
            return f"{x} {e.op} {y}", CONDITIONAL
        names = {"+": "add", "-": "sub", "*": "mul", "/": "div"}
        name = {"//": "floor_div", "%": "floor_mod"}.get(e.op) or (
            f"{'lanes' if e.kind == LANES else 'int'}_{names[e.op]}"
        )
        return f"{self.helper(name)}({', '.join(self.operands((e.left, e.right)))})", ATOM

    def unary(self, e: Unary) -> Text:
        """Returns the C text of ``-x`` or ``not x``."""
        if e.kind == INT:
            return f"{self.helper('int_sub')}(0, {self.value(e.operand)})", ATOM
        if e.kind == LANES:
            return f"{self.helper('lanes_neg')}({self.value(e.operand)})", ATOM
        x = self.value(e.operand, PREFIX)
        return f"{'!' if e.op == 'not' else '-'}{f'({x})' if x[0] == '-' else x}", PREFIX

    def convert(self, e: Convert) -> Text:
        """Returns the C text of a number converted to another kind."""
        if e.kind == LANES:
            return f"{self.helper('lanes_broadcast')}({self.value(e.operand)})", ATOM
        if e.kind == BOOL:
            return f"{self.value(e.operand, ADD)} != 0", COMPARE
        if e.operand.kind == FLOAT:
            return f"{self.helper('float_to_int')}({self.value(e.operand)})", ATOM
        return f"({self.types.type_of(e.kind)}){self.value(e.operand, PREFIX)}", PREFIX

    def compare(self, e: Compare) -> Text:
        """Returns the C text of a comparison chain with short-circuit evaluation; each operand is evaluated once."""
        if len(e.operators) == 1:
            x, y = self.operands(e.operands, ADD)
            return f"{x} {e.operators[0]} {y}", COMPARE
        left = ""

        def write_comparison(k: int) -> str:
            nonlocal left
            if k == 0:
                x, y = self.operands(e.operands[:2], ADD)
                left, y = (
                    x,
                    y if isinstance(e.operands[1], Name | Constant) else self.store_in_variable(e.operands[1], y),
                )
            else:
                y, is_plain = self.value(e.operands[k + 1], ADD), isinstance(e.operands[k + 1], Name | Constant)
                y = y if is_plain or k + 1 == len(e.operators) else self.store_in_variable(e.operands[k + 1], y)
            text = f"{left} {e.operators[k]} {y}"
            left = y
            return text

        return self.all_or_any("and", [partial(write_comparison, k) for k in range(len(e.operators))])

    def all_or_any(self, op: str, tests: Sequence[Callable[[], str]]) -> Text:
        """Returns the C text of whether all ("and") or any ("or") tests hold, with short-circuit evaluation."""
        found = [(tests[0](), list[str]()), *(self.capture_lines(test, k) for k, test in enumerate(tests[1:], 1))]
        if not any(lines for _, lines in found):
            return (" && " if op == "and" else " || ").join(text for text, _ in found), LOGIC
        name, depth = self.temporary(), self.depth
        self.line(f"bool {name} = {found[0][0]};")
        for text, lines in found[1:]:
            self.line(f"if ({'' if op == 'and' else '!'}{name}) {{")
            self.lines += lines
            self.depth += 1
            self.line(f"{name} = {text};")
        while self.depth > depth:
            self.depth -= 1
            self.line("}")
        return name, ATOM

    def conditional(self, e: Conditional) -> Text:
        """Returns the C text of a conditional expression, of which only the selected value is evaluated."""
        test = self.value(e.test, COMPARE)
        branches = [self.capture_lines(partial(self.value, each, COMPARE), 1) for each in (e.then, e.other)]
        (then, first), (other, second) = branches
        if not first and not second:
            return f"{test} ? {then} : {other}", CONDITIONAL
        name = self.temporary()
        self.line(f"{self.types.type_of(e.kind)} {name};")
        self.line(f"if ({test}) {{")
        self.lines += [*first, "    " * (self.depth + 1) + f"{name} = {then};", "    " * self.depth + "} else {"]
        self.lines += [*second, "    " * (self.depth + 1) + f"{name} = {other};", "    " * self.depth + "}"]
        return name, ATOM

    # -- calls -------------------------------------------------------------------------------------------------
    def call(self, e: Call) -> Text:
        """Returns the C text of a call of another compiled function; records are passed by reference."""
        operands = self.operands(e.arguments)
        for k, each in enumerate(e.arguments):
            if isinstance(each.kind, RecordKind):
                operands[k] = self.address(each, operands[k])
        return f"{self.symbol(e.function)}({', '.join(operands)})", ATOM

    def address(self, e: Expression, text: str) -> str:
        """Returns the C text of the address of a record, which is stored in a variable first if it is a temporary."""
        if isinstance(e, Name) and text[0] == "*":
            return text[1:]
        named = isinstance(e, Name | Field) and not e.contains_call
        return f"&{text if named else self.store_in_variable(e, text)}"

    # -- arrays ------------------------------------------------------------------------------------------------
    def element(self, array: Expression, index: Sequence[Expression]) -> str:
        """Returns the C text of an array entry, for reading or writing."""
        kind = array.kind
        assert isinstance(kind, ArrayKind)
        base = self.value(array, ATOM)
        if array.contains_call:
            base = self.store_in_variable(array, base)
        if kind.rank == 0:
            return f"*{base}"
        if kind.rank == 1:
            return f"{base}.at[{self.operands(index, index=True)[0]}]"
        if not ARRAY_PATH.fullmatch(base):
            name = self.helper(*leading_index_helper(kind, kind.rank))
            return f"*{name}({', '.join([base, *self.operands(index, index=True)])})"
        offset, *more = self.operands(index, MULTIPLY, ADD, index=True)
        for k, each in enumerate(more):
            rows = "" if offset == "0" else f"{offset if k == 0 else f'({offset})'} * {base}.{SIZES[kind.rank][k + 1]}"
            offset = " + ".join(x for x in (rows, "" if each == "0" else each) if x) or "0"
        return f"{base}.at[{offset}]"

    def view(self, e: SlicedView) -> str:
        """Returns the C text of a view of an array."""
        kind, n = e.array.kind, len(e.index)
        assert isinstance(kind, ArrayKind) and isinstance(e.kind, ArrayKind)
        bounds = [each for each in (e.start, e.stop) if each is not None]
        base, *operands = self.operands((e.array, *e.index, *bounds), index=True)
        out = base
        if n:
            out = f"{self.helper(*leading_index_helper(kind, n))}({', '.join([base, *operands[:n]])})"
        if bounds:
            start = operands[n] if e.start is not None else "0"
            stop = [operands[-1]] if e.stop is not None else []
            out = f"{self.helper(*slice_helper(e.kind, not stop))}({', '.join([out, start, *stop])})"
        return out

    def intrinsic(self, e: Intrinsic) -> Text:
        """Returns the C text of a call of an intrinsic function, of `quaddyn.compiler.language` or `math`."""
        name = e.name
        if name in ("load8", "store8"):
            lanes, (array, *index) = (e.arguments[:1], e.arguments[1:]) if name == "store8" else ((), e.arguments)
            operands = [self.value(each) for each in lanes]
            if lanes and any(each.contains_call for each in e.arguments):
                operands = [self.store_in_variable(lanes[0], operands[0])]
            operands.append(f"&{self.element(array, index)}")
            return f"{self.helper(f'lanes_{name[:-1]}')}({', '.join(operands)})", ATOM
        if name == "alignment":
            return f"{self.helper('line_begins')}({self.value(e.arguments[0], ATOM)}.at)", ATOM
        if name == "call_kernel":
            address, *vectors = self.operands(e.arguments, PREFIX, ATOM)
            function = f"((int64_t (*)(const double *, const double *, double *))(intptr_t){address})"
            return f"{function}({', '.join(f'{each}.at' for each in vectors)})", ATOM
        values = self.operands(e.arguments)
        match name:
            case "min" | "max":
                name, out = self.helper(f"{'int' if e.kind == INT else 'float'}_{name}"), values[0]
                for each in values[1:]:
                    out = f"{name}({out}, {each})"
                return out, ATOM
            case "abs":
                name = self.helper("int_abs") if e.kind == INT else "fabs"
            case "sum8" | "mask_range8" | "sqrt8" | "min8" | "max8" | "select8":
                name = self.helper(f"lanes_{name[:-1]}")
        return f"{name}({', '.join(values)})", ATOM
