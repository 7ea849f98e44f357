"""The typed tree of a compiled function: what `reading` makes of Python and `llvm` and `c99` write out.

Operands have the kinds that their operation wants: conversions are nodes of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from .kinds import Kind


@dataclass(frozen=True, slots=True, eq=False)
class Expression:
    """Anything with a value; `kind` is what it is."""

    kind: Kind

    def subexpressions(self) -> Iterator[Expression]:
        """It and all that it consists of."""
        yield self
        for each in self.operands_in_order():
            yield from each.subexpressions()

    def operands_in_order(self) -> Iterator[Expression]:
        """What it is computed from, as Python looks at it."""
        for name in self.__dataclass_fields__:
            value = getattr(self, name)
            if isinstance(value, Expression):
                yield value
            elif isinstance(value, tuple):
                yield from (x for x in value if isinstance(x, Expression))

    @property
    def contains_call(self) -> bool:
        """Whether a compiled function is called in it."""
        return any(isinstance(each, Call) for each in self.subexpressions())


@dataclass(frozen=True, slots=True, eq=False)
class Constant(Expression):
    """A number that is known."""

    value: float | int | bool


@dataclass(frozen=True, slots=True, eq=False)
class Name(Expression):
    """A parameter or a variable."""

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
    """``a < b <= c``: from left to right and no further than needed; all operands are floats, or all ints."""

    operators: tuple[str, ...]
    operands: tuple[Expression, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Logic(Expression):
    """``a and b`` or ``a or b``, from left to right and no further than needed."""

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
    """A number as another kind of number."""

    operand: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Call(Expression):
    """Another compiled function."""

    function: Callable[..., Any]
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Intrinsic(Expression):
    """Something of `math` or `language`, or a builtin, by name."""

    name: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Subscript(Expression):
    """One entry of an array."""

    array: Expression
    index: tuple[Expression, ...]


@dataclass(frozen=True, slots=True, eq=False)
class SlicedView(Expression):
    """What leading indices leave of an array, from `start` to `stop` where these are given."""

    array: Expression
    index: tuple[Expression, ...]
    start: Expression | None
    stop: Expression | None


@dataclass(frozen=True, slots=True, eq=False)
class AxisLength(Expression):
    """Length of an axis."""

    array: Expression
    axis: int


@dataclass(frozen=True, slots=True, eq=False)
class ReshapedView(Expression):
    """An array of the given sizes in the memory of another one, from `at` on."""

    array: Expression
    at: Expression
    sizes: tuple[Expression, ...]


@dataclass(frozen=True, slots=True, eq=False)
class LocalArray(Expression):
    """A new array of fixed sizes, zero if `clear`; it lives as long as the call."""

    sizes: tuple[int, ...]
    clear: bool


@dataclass(frozen=True, slots=True, eq=False)
class MakeTuple(Expression):
    """A tuple or a record of values."""

    values: tuple[Expression, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Field(Expression):
    """One value of a tuple or a record."""

    record: Expression
    index: int


@dataclass(frozen=True, slots=True, eq=False)
class Statement:
    """Anything that is done; `line` of the source."""

    line: int


@dataclass(frozen=True, slots=True, eq=False)
class Assign(Statement):
    """``target = value``: a name, an entry of an array, or a tuple of names and entries."""

    target: Name | Subscript | Targets
    value: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Targets:
    """What the values of a tuple are assigned to; None where one is not wanted."""

    items: tuple[Name | Subscript | Targets | None, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Evaluate(Statement):
    """A call whose value is not wanted."""

    value: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Return(Statement):
    """The end of the call."""

    value: Expression | None


@dataclass(frozen=True, slots=True, eq=False)
class If(Statement):
    """Two ways."""

    test: Expression
    then: tuple[Statement, ...]
    other: tuple[Statement, ...]


@dataclass(frozen=True, slots=True, eq=False)
class While(Statement):
    """A loop as long as `test` holds."""

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
    """Out of the loop."""


@dataclass(frozen=True, slots=True, eq=False)
class Continue(Statement):
    """To the next round of the loop."""


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """A function.

    Attributes:
        source: the Python function.
        symbol: its name in machine code and in C.
        parameters: (name, kind) in order.
        returns: kind of its result.
        variables: kinds of its variables, parameters included.
        assigned: parameters that are assigned to.
        body: what it does.
        doc: first paragraph of its docstring.
        inline: whether callers should take it in (None: as the optimizer likes).
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
