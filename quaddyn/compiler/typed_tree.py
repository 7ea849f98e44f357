"""Typed tree of a compiled function: output of `function_translator`, input of the LLVM and C99 writers.

Operands have the kind that their operation requires: conversions are separate nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from .kinds import Kind


@dataclass(frozen=True, slots=True, eq=False)
class Expression:
    """Node with a value of a kind."""

    kind: Kind

    def subexpressions(self) -> Iterator[Expression]:
        """Yields this expression and all expressions in it."""
        left: list[Expression] = [self]
        while left:
            each = left.pop()
            yield each
            left.extend(reversed(tuple(each.operands_in_order())))

    def operands_in_order(self) -> Iterator[Expression]:
        """Yields the direct operands in Python's order of evaluation."""
        for name in _operand_names(type(self)):  # type: ignore[arg-type]  # a class is hashable
            value = getattr(self, name)
            if isinstance(value, Expression):
                yield value
            elif isinstance(value, tuple):
                yield from (x for x in value if isinstance(x, Expression))

    @property
    def contains_call(self) -> bool:
        """Whether the expression calls a compiled function or a kernel."""
        return any(
            isinstance(each, Call) or (isinstance(each, Intrinsic) and each.name == "call_kernel")
            for each in self.subexpressions()
        )


@cache
def _operand_names(node: type[Expression]) -> tuple[str, ...]:
    """Returns the names of the fields that may hold operands."""
    return tuple(name for name in node.__dataclass_fields__ if name != "kind")


@dataclass(frozen=True, slots=True, eq=False)
class Constant(Expression):
    """Number known at compile time."""

    value: float | int | bool


@dataclass(frozen=True, slots=True, eq=False)
class Name(Expression):
    """Reference to a parameter or variable."""

    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Binary(Expression):
    """``left op right``; op is one of + - * / // % & |."""

    op: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Unary(Expression):
    """``-x`` or ``not x``."""

    op: str
    operand: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Compare(Expression):
    """Comparison chain ``a < b <= c`` with short-circuit evaluation; all operands are floats, or all ints."""

    operators: tuple[str, ...]
    operands: tuple[Expression, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Logic(Expression):
    """``a and b`` or ``a or b`` with short-circuit evaluation."""

    op: str
    values: tuple[Expression, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Conditional(Expression):
    """``then if test else other``; only one of them is evaluated."""

    test: Expression
    then: Expression
    other: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Convert(Expression):
    """Conversion of a number to another kind."""

    operand: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Call(Expression):
    """Call of a compiled function."""

    function: Callable[..., Any]
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Intrinsic(Expression):
    """Call of a function of `math` or `language`, or of a Python builtin, by name."""

    name: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Subscript(Expression):
    """Entry of an array."""

    array: Expression
    index: tuple[Expression, ...]


@dataclass(frozen=True, slots=True, eq=False)
class SlicedView(Expression):
    """View of an array: leading indices, then an optional slice from `start` to `stop` of the next axis."""

    array: Expression
    index: tuple[Expression, ...]
    start: Expression | None
    stop: Expression | None


@dataclass(frozen=True, slots=True, eq=False)
class AxisLength(Expression):
    """Length of `array` along `axis`, as ``array.shape[axis]``."""

    array: Expression
    axis: int


@dataclass(frozen=True, slots=True, eq=False)
class ReshapedView(Expression):
    """View of the given sizes of another array's memory, from entry `at` on."""

    array: Expression
    at: Expression
    sizes: tuple[Expression, ...]


@dataclass(frozen=True, slots=True, eq=False)
class LocalArray(Expression):
    """New array of fixed sizes that exists until the function returns; zero-initialized if `clear`."""

    sizes: tuple[int, ...]
    clear: bool


@dataclass(frozen=True, slots=True, eq=False)
class MakeTuple(Expression):
    """Tuple or record made of values."""

    values: tuple[Expression, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Field(Expression):
    """Field of a tuple or record."""

    record: Expression
    index: int


@dataclass(frozen=True, slots=True, eq=False)
class Statement:
    """Statement; `line` is its line in the source."""

    line: int


@dataclass(frozen=True, slots=True, eq=False)
class Assign(Statement):
    """``target = value``, where the target is a variable, an array entry, or a tuple of these."""

    target: Name | Subscript | Targets
    value: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Targets:
    """Targets of a tuple assignment; None for an item that is discarded."""

    items: tuple[Name | Subscript | Targets | None, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Evaluate(Statement):
    """Call whose result is discarded."""

    value: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Return(Statement):
    """``return``."""

    value: Expression | None


@dataclass(frozen=True, slots=True, eq=False)
class If(Statement):
    """``if`` with an optional ``else``."""

    test: Expression
    then: tuple[Statement, ...]
    other: tuple[Statement, ...]


@dataclass(frozen=True, slots=True, eq=False)
class While(Statement):
    """``while test``."""

    test: Expression
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True, eq=False)
class For(Statement):
    """``for name in range(start, stop, step)``."""

    name: str
    start: Expression
    stop: Expression
    step: int
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Break(Statement):
    """``break``."""


@dataclass(frozen=True, slots=True, eq=False)
class Continue(Statement):
    """``continue``."""


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """Typed tree of a function.

    Attributes:
        source: the Python function.
        symbol: its name in machine code and in C.
        parameters: (name, kind) in order.
        returns: kind of its result.
        variables: kinds of its variables, parameters included.
        assigned: parameters that are assigned to.
        body: its statements.
        doc: first paragraph of its docstring.
        inline: whether to inline it into callers; None leaves the decision to the writer of LLVM IR.
        calls: the compiled functions that it calls.
    """

    source: Callable[..., Any]
    symbol: str
    parameters: tuple[tuple[str, Kind], ...]
    returns: Kind
    variables: dict[str, Kind]
    assigned: frozenset[str]
    body: tuple[Statement, ...]
    doc: str
    inline: bool | None
    calls: tuple[Callable[..., Any], ...]
