"""Translator of numbers, names and operators of restricted Python to typed trees."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, NoReturn

from .kinds import BOOL, FLOAT, INT, LANES, NOTHING, ArrayKind, Kind, RecordKind, ScalarKind, SmallArrayKind, TupleKind
from .language import OPERATIONS
from .signatures import Signature
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
    Logic,
    MakeTuple,
    Name,
    Subscript,
    Unary,
)

OPERATORS: dict[type, str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.BitAnd: "&",
    ast.BitOr: "|", ast.MatMult: "@",
}  # fmt: skip
RELATIONS: dict[type, str] = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
}  # fmt: skip


class OperandTranslator:
    """Translator of the operands and operators in expressions of one function.

    Args:
        scope: globals of the function.
        kinds: kinds of its variables declared so far.
        signature: returns the signature of a compiled function, None for other objects.
        fail: raises an error about a node.
    """

    def __init__(
        self,
        scope: dict[str, Any],
        kinds: dict[str, Kind],
        signature: Callable[[Any], Signature | None],
        fail: Callable[[ast.AST, str], NoReturn],
    ) -> None:
        self.scope, self.kinds, self.signature, self.fail = scope, kinds, signature, fail
        self.defined: set[str] = set(kinds)
        self.local_names: frozenset[str] = frozenset()
        self.loop_constants: dict[str, Any] = {}  # items of constant tuples in unrolled loops, by variable
        self.calls: list[Any] = []

    def read(self, node: ast.expr) -> Expression:
        """Translates any expression."""
        reader = getattr(self, f"_{type(node).__name__.lower()}", None)
        if reader is None:
            self.fail(node, f"{type(node).__name__} is not supported in compiled code")
        out: Expression = reader(node)
        return out

    def find_constant(self, node: ast.expr) -> tuple[bool, Any]:
        """Returns whether an expression is a constant object, known when it is translated, and the object.

        Constant objects are globals, variables of loops over constant tuples, and attributes of both.
        """
        if isinstance(node, ast.Attribute):
            found, owner = self.find_constant(node.value)
            return (True, getattr(owner, node.attr)) if found and hasattr(owner, node.attr) else (False, None)
        if not isinstance(node, ast.Name):
            return False, None
        if node.id in self.loop_constants:
            return True, self.loop_constants[node.id]
        if node.id in self.kinds or node.id in self.local_names or node.id not in self.scope:
            return False, None
        return True, self.scope[node.id]

    # -- numbers ---------------------------------------------------------------------------------------------
    def number(self, node: ast.expr) -> Expression:
        """Translates an expression that must be a float, int or bool."""
        out = self.read(node)
        if out.kind not in (FLOAT, INT, BOOL):
            self.fail(node, f"expected a number, got {out.kind}")
        return out

    def integer(self, node: ast.expr) -> Expression:
        """Translates an expression that must be an int, for an index or a size."""
        out = self.number(node)
        if out.kind == FLOAT:
            self.fail(node, "expected an int; write int(...)")
        return self.convert(out, INT)

    def test(self, node: ast.expr) -> Expression:
        """Translates a condition: a bool, or an int that counts as true if it is not zero."""
        if isinstance(node, ast.BoolOp):
            return self._logic(node, self.test)
        out = self.number(node)
        if out.kind == FLOAT:
            self.fail(node, "a float is not accepted as a condition; write a comparison")
        return self.convert(out, BOOL)

    def convert(self, x: Expression, kind: Kind) -> Expression:
        """Returns a number converted to another kind."""
        if x.kind == kind:
            return x
        if isinstance(x, Constant) and kind == FLOAT:
            return Constant(FLOAT, float(x.value))
        if isinstance(x, Constant) and kind == INT and x.kind == BOOL:
            return Constant(INT, int(x.value))
        return Convert(kind, x)

    def convert_to(self, node: ast.AST, x: Expression, kind: Kind, what: str) -> Expression:
        """Returns a value implicitly converted to `kind` (int to float, bool to int or float), or raises an error."""
        if x.kind == kind:
            return x
        if (kind == FLOAT and x.kind in (INT, BOOL)) or (kind == INT and x.kind == BOOL):
            return self.convert(x, kind)
        if kind == LANES and x.kind in (FLOAT, INT):
            return self.convert(self.convert(x, FLOAT), LANES)
        self.fail(node, f"{what}: expected {kind}, got {x.kind}")

    def _constant(self, node: ast.Constant) -> Expression:
        return self._constant_value(node, node.value)

    def _constant_value(self, node: ast.AST, value: object) -> Expression:
        if isinstance(value, bool):
            return Constant(BOOL, value)
        if isinstance(value, int):
            if not -(2**63) <= value < 2**63:
                self.fail(node, f"the constant {value} has more than 64 bits")
            return Constant(INT, int(value))  # also of a member of an enumeration
        if isinstance(value, float):
            return Constant(FLOAT, float(value))
        self.fail(node, f"a constant of type {type(value).__name__} is not supported in compiled code")

    def _name(self, node: ast.Name) -> Expression:
        name = node.id
        if name in self.loop_constants:
            return self._constant_value(node, self.loop_constants[name])
        if name in self.kinds:
            if name not in self.defined:
                self.fail(node, f"{name!r} may have no value here; assign a value on every path before this line")
            return Name(self.kinds[name], name)
        if name in self.local_names:
            self.fail(node, f"{name!r} has no value yet")
        if name not in self.scope:
            self.fail(node, f"{name!r} is not defined")
        return self._constant_value(node, self.scope[name])

    def _attribute(self, node: ast.Attribute) -> Expression:
        found, constant = self.find_constant(node)
        if found:
            return self._constant_value(node, constant)
        if self.find_constant(node.value)[0]:
            self.fail(node, f"{ast.unparse(node)!r} is not defined")
        value = self.read(node.value)
        if isinstance(value.kind, SmallArrayKind) and node.attr == "T":
            return self._small_array_operation(node, "T", value)
        if isinstance(value.kind, ArrayKind) and node.attr == "shape":
            self._reject_repeated_call(node, value)
            return MakeTuple(
                TupleKind((INT,) * value.kind.rank), tuple(AxisLength(INT, value, k) for k in range(value.kind.rank))
            )
        if isinstance(value.kind, RecordKind):
            names = [name for name, _ in value.kind.fields]
            if node.attr not in names:
                self.fail(node, f"{value.kind.name} has no field {node.attr!r}; it has {', '.join(names)}")
            k = names.index(node.attr)
            stored = Field(value.kind.fields[k][1], value, k)
            shown = value.kind.values[k] if value.kind.values else None
            return stored if shown is None else self._stored_value(node, stored, shown)
        self.fail(node, f"{value.kind} has no attribute {node.attr!r}")

    def _stored_value(self, node: ast.AST, stored: Field, kind: Kind) -> Expression:
        """Returns the value of a field of a mutable record, from the array that holds it."""
        self._reject_repeated_call(node, stored)
        if isinstance(kind, SmallArrayKind):
            entries = range(len(kind.items))
            return MakeTuple(kind, tuple(Subscript(FLOAT, stored, (Constant(INT, k),)) for k in entries))
        assert isinstance(stored.kind, ArrayKind)
        return self.convert(Subscript(stored.kind.element, stored, ()), kind)

    def _binop(self, node: ast.BinOp) -> Expression:
        return self.binary(node, node.op, self.read(node.left), self.read(node.right))

    def binary(self, node: ast.AST, operator: ast.operator, left: Expression, right: Expression) -> Expression:
        """Returns the expression of a binary operation on numbers, lanes or small arrays."""
        op = OPERATORS.get(type(operator))
        if op is None:
            remedy = "; write the product out" if isinstance(operator, ast.Pow) else ""
            self.fail(node, f"the operator {type(operator).__name__} is not supported in compiled code{remedy}")
        if isinstance(left.kind, SmallArrayKind) or isinstance(right.kind, SmallArrayKind):
            return self._small_array_operation(node, op, left, right)
        kinds = {left.kind, right.kind}
        if op == "@":
            self.fail(
                node,
                f"@ is not defined for {left.kind} and {right.kind}; convert them to small arrays, such as vec3(x)",
            )
        if not kinds <= {FLOAT, INT, BOOL, LANES}:
            self.fail(node, f"{op} is not defined for {left.kind} and {right.kind}")
        if LANES in kinds:
            if op not in ("+", "-", "*", "/"):
                self.fail(node, f"{op} is not defined on lanes")
            return Binary(LANES, op, self.convert_to(node, left, LANES, op), self.convert_to(node, right, LANES, op))
        if op in ("&", "|"):
            if FLOAT in kinds:
                self.fail(node, f"{op} is not defined for a float")
            kind = BOOL if kinds == {BOOL} else INT
        elif op == "/" or FLOAT in kinds:
            kind = FLOAT
        else:
            kind = INT
        if op in ("//", "%"):
            if kind != INT or not (isinstance(right, Constant) and right.value > 0):
                self.fail(node, f"{op} is only supported for an int and a positive constant")
        x, y = self.convert(left, kind), self.convert(right, kind)
        if kind == INT and isinstance(x, Constant) and isinstance(y, Constant):
            compute = {"+": int.__add__, "-": int.__sub__, "*": int.__mul__, "//": int.__floordiv__}.get(op)
            if compute is not None:
                return Constant(INT, wrap_int64(compute(int(x.value), int(y.value))))
        return Binary(kind, op, x, y)

    def _small_array_operation(self, node: ast.AST, operator: str, *operands: Expression) -> Expression:
        """Returns a call of the compiled function that implements an operator on small arrays."""
        given = [self.convert(x, FLOAT) if x.kind in (INT, BOOL) and operator != "[]" else x for x in operands]
        function = OPERATIONS.get((operator, *(x.kind for x in given)))
        if function is None and operator == "*" and given[0].kind == FLOAT:
            given.reverse()
            function = OPERATIONS.get((operator, *(x.kind for x in given)))
        if function is None:
            self.fail(node, f"{operator} of {' and '.join(str(x.kind) for x in operands)} is not defined")
        signature = self.signature(function)
        assert signature is not None
        self.calls.append(function)
        return Call(signature[1], function, tuple(given))

    def entries(self, node: ast.AST, x: Expression) -> tuple[Expression, ...]:
        """Returns the entries of a small array, row by row.

        An array that contains a function call is rejected unless it has a name: each entry would repeat the call.
        """
        assert isinstance(x.kind, SmallArrayKind)
        if isinstance(x, MakeTuple):
            return x.values
        if x.contains_call:
            self.fail(node, f"assign the {x.kind} to a variable first, because its entries are read one by one")
        return tuple(Field(FLOAT, x, k) for k in range(len(x.kind.items)))

    def _unaryop(self, node: ast.UnaryOp) -> Expression:
        if isinstance(node.op, ast.Not):
            return Unary(BOOL, "not", self.test(node.operand))
        if not isinstance(node.op, ast.USub):
            self.fail(node, f"the operator {type(node.op).__name__} is not supported in compiled code")
        x = self.read(node.operand)
        if isinstance(x.kind, SmallArrayKind):
            return self._small_array_operation(node, "-", x)
        if x.kind not in (FLOAT, INT, BOOL, LANES):
            self.fail(node, f"- is not defined for {x.kind}")
        if x.kind == BOOL:
            x = self.convert(x, INT)
        if isinstance(x, Constant):
            return Constant(x.kind, wrap_int64(-int(x.value)) if x.kind == INT else -x.value)
        return Unary(x.kind, "-", x)

    def _compare(self, node: ast.Compare) -> Expression:
        for operator in node.ops:
            if type(operator) not in RELATIONS:
                self.fail(node, f"the comparison {type(operator).__name__} is not supported in compiled code")
        operands = [self.number(each) for each in (node.left, *node.comparators)]
        kind = FLOAT if any(each.kind == FLOAT for each in operands) else INT
        relations = tuple(RELATIONS[type(operator)] for operator in node.ops)
        return Compare(BOOL, relations, tuple(self.convert(each, kind) for each in operands))

    def _boolop(self, node: ast.BoolOp) -> Expression:
        return self._logic(node, self._require_bool)

    def _logic(self, node: ast.BoolOp, read: Callable[[ast.expr], Expression]) -> Expression:
        return Logic(BOOL, "and" if isinstance(node.op, ast.And) else "or", tuple(read(each) for each in node.values))

    def _require_bool(self, node: ast.expr) -> Expression:
        out = self.read(node)
        if out.kind != BOOL:  # Python gives one of the two, not whether they hold
            self.fail(node, f"expected a bool, got {out.kind}; write a comparison")
        return out

    def _ifexp(self, node: ast.IfExp) -> Expression:
        test, then, other = self.test(node.test), self.read(node.body), self.read(node.orelse)
        if then.kind != other.kind:
            self.fail(node, f"the two branches are {then.kind} and {other.kind}; they must be of the same kind")
        return Conditional(then.kind, test, then, other)

    def _tuple(self, node: ast.Tuple) -> Expression:
        values = tuple(self.read(each) for each in node.elts)
        for each, value in zip(node.elts, values, strict=True):
            if value.kind == NOTHING:
                self.fail(each, f"{ast.unparse(each)} has no value, because the call returns None")
        return MakeTuple(TupleKind(tuple(each.kind for each in values)), values)

    def _reject_repeated_call(self, node: ast.AST, array: Expression) -> None:
        """Raises an error if an array that is read several times would call a function each time."""
        if array.contains_call:
            self.fail(node, "assign the array that the call returns to a variable first")


def can_assign(a: Kind, b: Kind) -> bool:
    """Returns whether a variable of kind `a` can be assigned a value of kind `b`."""
    return a == b or (isinstance(a, ScalarKind) and (a, b) in ((FLOAT, INT), (FLOAT, BOOL), (INT, BOOL)))


def wrap_int64(value: int) -> int:
    """Returns an int wrapped to 64 bits (two's complement)."""
    return (value + 2**63) % 2**64 - 2**63
