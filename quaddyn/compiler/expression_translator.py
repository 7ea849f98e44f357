"""Translator of expressions of restricted Python to typed trees: numbers, names, operators, arrays and calls."""

from __future__ import annotations

import ast
import builtins
import enum
import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NoReturn

import numpy as np

from . import language
from .kinds import (
    BOOL,
    FLOAT,
    INT,
    LANES,
    MAT3,
    NOTHING,
    QUAT,
    VEC3,
    ArrayKind,
    Kind,
    RecordKind,
    ScalarKind,
    SmallArrayKind,
    TupleKind,
    record_kind,
)
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
        self.makes_local_arrays = False

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


#: Names of the intrinsics of one or two floats, by the Python function.
FLOAT_FUNCTIONS: dict[object, str] = {
    math.sqrt: "sqrt", math.sin: "sin", math.cos: "cos", math.acos: "acos", math.atan2: "atan2", math.exp: "exp",
    math.log: "log", math.log1p: "log1p", math.copysign: "copysign",
}  # fmt: skip
#: Number of arguments of functions that work on each lane separately, by name.
LANE_FUNCTIONS = {"sqrt8": 1, "min8": 2, "max8": 2, "select8": 3}


class ExpressionTranslator(OperandTranslator):
    """Translator of the expressions of one function; same arguments as `OperandTranslator`."""

    # -- arrays ----------------------------------------------------------------------------------------------
    def _subscript(self, node: ast.Subscript) -> Expression:
        base = self.read(node.value)
        if isinstance(base.kind, SmallArrayKind):
            return self._small_array_subscript(node, base)
        if isinstance(base.kind, TupleKind):
            which = self.read(node.slice)
            if which.kind != INT or not isinstance(which, Constant) or not 0 <= which.value < len(base.kind.items):
                self.fail(node, "the index of a tuple must be a constant within its length")
            at = int(which.value)
            if isinstance(base, MakeTuple) and not base.contains_call:
                return base.values[at]
            return Field(base.kind.items[at], base, at)
        if not isinstance(base.kind, ArrayKind):
            self.fail(node, f"{base.kind} cannot be indexed")
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if len(parts) > base.kind.rank:
            self.fail(node, f"{len(parts)} indices into an array of rank {base.kind.rank}")
        index: list[Expression] = []
        for k, part in enumerate(parts):
            if isinstance(part, ast.Slice):
                if part.step is not None or k + 1 < len(parts):
                    self.fail(
                        node,
                        "only the last index may be a slice, without a step, so that the selected entries are "
                        "contiguous",
                    )
                rank = base.kind.rank - k
                bounds = [self._slice_bound(each, base, k) for each in (part.lower, part.upper)]
                return SlicedView(ArrayKind(base.kind.item, rank), base, tuple(index), bounds[0], bounds[1])
            index.append(self._index(part, base, k))
        if len(index) == base.kind.rank:
            return Subscript(base.kind.element, base, tuple(index))
        return SlicedView(ArrayKind(base.kind.item, base.kind.rank - len(index)), base, tuple(index), None, None)

    def _small_array_subscript(self, node: ast.Subscript, base: Expression) -> Expression:
        """Returns an entry of a small array, or a row of a matrix."""
        assert isinstance(base.kind, SmallArrayKind)
        shape = base.kind.shape
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        index = [self.integer(part) for part in parts]
        if len(index) > len(shape):
            self.fail(node, f"{len(index)} indices into a {base.kind}")
        if not all(isinstance(i, Constant) for i in index):
            if len(shape) > 1:
                self.fail(node, f"the index into a {base.kind} must be a constant")
            return self._small_array_operation(node, "[]", base, index[0])
        at = [int(i.value) for i in index if isinstance(i, Constant)]
        at = [k + size if k < 0 else k for k, size in zip(at, shape, strict=False)]
        if not all(0 <= k < size for k, size in zip(at, shape, strict=False)):
            self.fail(node, f"the index into a {base.kind} must be within its shape")
        if len(at) < len(shape):  # a row
            columns = shape[1]
            return MakeTuple(VEC3, self.entries(node, base)[at[0] * columns : (at[0] + 1) * columns])
        k = at[0] if len(at) == 1 else at[0] * shape[1] + at[1]
        return base.values[k] if isinstance(base, MakeTuple) and not base.contains_call else Field(FLOAT, base, k)

    def _slice_bound(self, node: ast.expr | None, base: Expression, axis: int) -> Expression | None:
        return None if node is None else self._index(node, base, axis)

    def _index(self, node: ast.expr, base: Expression, axis: int) -> Expression:
        x = self.number(node)
        if x.kind != INT:
            self.fail(node, f"expected an int for an index, got {x.kind}; write int(...)")
        if isinstance(x, Constant) and x.value < 0:  # from the end
            self._reject_repeated_call(node, base)
            return Binary(INT, "+", AxisLength(INT, base, axis), x)
        return x

    # -- calls -----------------------------------------------------------------------------------------------
    def _call(self, node: ast.Call) -> Expression:
        if isinstance(node.func, ast.Attribute) and node.func.attr == "reshape":
            return self._reshape(node, self.read(node.func.value))
        target = self._callee(node.func)
        if not isinstance(target, Hashable):
            self.fail(node, f"{ast.unparse(node.func)} cannot be called")
        if isinstance(target, type) and hasattr(target, "_fields") and record_kind(target) is not None:
            return self._make_record(node, target)
        if isinstance(target, type) and issubclass(target, enum.IntEnum):
            self._require_argument_count(node, 1)
            return self.integer(node.args[0])
        signature = self.signature(target)
        if signature is not None:
            return self._compiled_call(node, target, signature)
        if node.keywords:
            self.fail(node, f"{ast.unparse(node.func)} does not accept keyword arguments")
        builtin = FLOAT_FUNCTIONS.get(target)
        if builtin is not None:
            self._require_argument_count(node, 2 if builtin in ("atan2", "copysign") else 1)
            given = tuple(self.convert(self.number(each), FLOAT) for each in node.args)
            return Intrinsic(FLOAT, builtin, given)
        reader = self._builtins().get(target)
        if reader is None:
            self.fail(node, f"{ast.unparse(node.func)} is not a compiled function; decorate it with @compiled")
        return reader(node)

    def _callee(self, node: ast.expr) -> Any:
        found, constant = self.find_constant(node)
        if found:
            return constant
        base = node.value if isinstance(node, ast.Attribute) else node
        if isinstance(base, ast.Name) and (base.id in self.kinds or base.id in self.local_names):
            self.fail(node, f"{ast.unparse(node)} is a variable, not a function")
        if isinstance(node, ast.Name) and hasattr(builtins, node.id):
            return getattr(builtins, node.id)
        self.fail(node, f"{ast.unparse(node)} is not defined")

    def _builtins(self) -> dict[Any, Callable[[ast.Call], Expression]]:
        return {
            min: self._min_or_max,
            max: self._min_or_max,
            abs: self._abs,
            int: self._cast,
            float: self._cast,
            len: self._len,
            math.isfinite: self._isfinite,
            math.floor: self._floor,
            language.matrix: self._reshaped_memory,
            language.tensor: self._reshaped_memory,
            language.alignment: self._alignment,
            language.call_kernel: self._call_kernel,
            language.load8: self._load_lanes,
            language.store8: self._store_lanes,
            language.broadcast8: self._broadcast_lanes,
            language.sum8: self._sum_lanes,
            language.mask_range8: self._mask_lanes,
            language.local: self._local_array,
            language.zeros: self._local_array,
            language.sqrt8: self._lanewise_function,
            language.min8: self._lanewise_function,
            language.max8: self._lanewise_function,
            language.select8: self._lanewise_function,
            language.vec3: self._make_small_array,
            language.mat3: self._make_small_array,
            language.quat: self._make_small_array,
        }

    def _compiled_call(self, node: ast.Call, target: Any, signature: Signature) -> Expression:
        parameters, returns = signature
        arguments = self._converted_arguments(node, parameters)
        self.calls.append(target)
        return Call(returns, target, arguments)

    def _make_record(self, node: ast.Call, cls: type) -> Expression:
        kind = record_kind(cls)
        assert kind is not None
        if kind.values:
            self.fail(
                node,
                f"{kind.name} is a mutable record, which compiled code cannot create; create it in Python by "
                f"{kind.name}.allocate and pass it",
            )
        return MakeTuple(kind, self._converted_arguments(node, kind.fields))

    def _converted_arguments(self, node: ast.Call, parameters: Sequence[tuple[str, Kind]]) -> tuple[Expression, ...]:
        """Returns the arguments of a call in the order of the parameters, converted to their kinds."""
        given = self._arguments_in_order(node, [name for name, _ in parameters])
        what = ast.unparse(node.func)
        out = tuple(
            self.convert_to(each, self.read(each), kind, f"{name} of {what}")
            for (name, kind), each in zip(parameters, given, strict=True)
        )
        named = [keyword.value for keyword in node.keywords]
        if named != given[len(node.args) :] and any(each.contains_call for each in out):
            self.fail(
                node, f"pass the arguments of {what} in the order of its parameters, because one of them is a call"
            )
        return out

    def _arguments_in_order(self, node: ast.Call, names: list[str]) -> list[ast.expr]:
        """Returns the nodes of the positional and keyword arguments in the order of `names`."""
        what = ast.unparse(node.func)
        found = dict(zip(names, node.args, strict=False))
        for keyword in node.keywords:
            if keyword.arg is None or keyword.arg not in names or keyword.arg in found:
                self.fail(node, f"{what} takes {', '.join(names)} once each, got {keyword.arg!r}")
            found[keyword.arg] = keyword.value
        if len(node.args) > len(names) or len(found) < len(names) or any(isinstance(a, ast.Starred) for a in node.args):
            self.fail(node, f"{what} takes {len(names)} arguments: {', '.join(names)}")
        return [found[name] for name in names]

    def _require_argument_count(self, node: ast.Call, count: int) -> None:
        if len(node.args) != count:
            self.fail(node, f"{ast.unparse(node.func)} takes {count} arguments, got {len(node.args)}")

    def _min_or_max(self, node: ast.Call) -> Expression:
        given = [self.number(each) for each in node.args]
        if len(given) < 2:
            self.fail(node, f"{ast.unparse(node.func)} requires at least two numbers")
        kind = FLOAT if FLOAT in {each.kind for each in given} else INT
        name = "min" if self._callee(node.func) is min else "max"
        return Intrinsic(kind, name, tuple(self.convert(each, kind) for each in given))

    def _abs(self, node: ast.Call) -> Expression:
        self._require_argument_count(node, 1)
        x = self.number(node.args[0])
        x = self.convert(x, INT) if x.kind == BOOL else x
        return Intrinsic(x.kind, "abs", (x,))

    def _cast(self, node: ast.Call) -> Expression:
        self._require_argument_count(node, 1)
        return self.convert(self.number(node.args[0]), INT if self._callee(node.func) is int else FLOAT)

    def _floor(self, node: ast.Call) -> Expression:
        self._require_argument_count(node, 1)
        x = self.convert(self.number(node.args[0]), FLOAT)
        return Convert(INT, Intrinsic(FLOAT, "floor", (x,)))

    def _isfinite(self, node: ast.Call) -> Expression:
        self._require_argument_count(node, 1)
        return Intrinsic(BOOL, "isfinite", (self.convert(self.number(node.args[0]), FLOAT),))

    def _len(self, node: ast.Call) -> Expression:
        self._require_argument_count(node, 1)
        return AxisLength(INT, self._require_array(node.args[0]), 0)

    def _require_array(self, node: ast.expr, item: str | None = None) -> Expression:
        x = self.read(node)
        if not isinstance(x.kind, ArrayKind) or (item is not None and x.kind.item != item):
            self.fail(node, f"expected an array{'' if item is None else f' of {item}s'}, got {x.kind}")
        return x

    def _reshaped_memory(self, node: ast.Call) -> Expression:
        rank = 2 if self._callee(node.func) is language.matrix else 3
        self._require_argument_count(node, 2 + rank)
        memory = self._require_array(node.args[0])
        assert isinstance(memory.kind, ArrayKind)
        if memory.kind.rank != 1:
            self.fail(node, f"{ast.unparse(node.func)} requires a vector as its memory, got {memory.kind}")
        at, *sizes = (self.integer(each) for each in node.args[1:])
        return ReshapedView(ArrayKind(memory.kind.item, rank), memory, at, tuple(sizes))

    def _reshape(self, node: ast.Call, base: Expression) -> Expression:
        given = node.args[0].elts if len(node.args) == 1 and isinstance(node.args[0], ast.Tuple) else node.args
        if not isinstance(base.kind, ArrayKind):
            self.fail(node, f"{base.kind} cannot be reshaped")
        sizes = tuple(self.integer(each) for each in given)
        if not 1 <= len(sizes) <= 3:
            self.fail(node, f"an array of rank {len(sizes)} is not supported")
        if any(isinstance(each, Constant) and each.value < 0 for each in sizes):
            self.fail(node, "a size of -1 is not supported; pass the size")
        return ReshapedView(ArrayKind(base.kind.item, len(sizes)), base, Constant(INT, 0), sizes)

    def _local_array(self, node: ast.Call) -> Expression:
        sizes = []
        for each in node.args:
            x = self.read(each)
            if not isinstance(x, Constant) or x.kind != INT or not 0 < x.value <= 4096:
                self.fail(node, "the sizes of a local array must be constants from 1 to 4096")
            sizes.append(int(x.value))
        if not 1 <= len(sizes) <= 3:
            self.fail(node, f"an array of rank {len(sizes)} is not supported")
        if math.prod(sizes) > 65536:
            self.fail(node, f"{math.prod(sizes)} numbers are too many for a local array")
        clear = self._callee(node.func) is language.zeros
        self.makes_local_arrays = True
        return LocalArray(ArrayKind("float", len(sizes)), tuple(sizes), clear)

    # -- small arrays ----------------------------------------------------------------------------------------
    def _make_small_array(self, node: ast.Call) -> Expression:
        """Returns the small array that ``vec3``, ``mat3`` or ``quat`` makes from numbers, rows or an array."""
        kind: SmallArrayKind = {language.vec3: VEC3, language.mat3: MAT3, language.quat: QUAT}[self._callee(node.func)]
        given = [self.read(each) for each in node.args]
        if len(given) == 1 and isinstance(given[0].kind, ArrayKind):
            return self.small_array(node, given[0], kind)
        if len(given) == len(kind.items):
            values = tuple(self.convert_to(each, x, FLOAT, str(kind)) for each, x in zip(node.args, given, strict=True))
            return MakeTuple(kind, values)
        if kind == MAT3 and len(given) == 3:
            rows = tuple(self.small_array(node, x, VEC3) if isinstance(x.kind, ArrayKind) else x for x in given)
            return self._small_array_operation(node, "rows", *rows)
        sizes = " x ".join(map(str, kind.shape))
        self.fail(node, f"{ast.unparse(node.func)} takes {len(kind.items)} numbers or an array of {sizes} floats")

    def small_array(self, node: ast.AST, array: Expression, kind: SmallArrayKind) -> Expression:
        """Returns a small array made of the first entries of an array."""
        if array.kind != ArrayKind("float", len(kind.shape)):
            self.fail(node, f"a {kind} is made of a float array of rank {len(kind.shape)}, got {array.kind}")
        self._reject_repeated_call(node, array)
        return MakeTuple(kind, self.entries_of_array(array, kind))

    def entries_of_array(self, array: Expression, kind: SmallArrayKind) -> tuple[Subscript, ...]:
        """Returns the first entries of an array, as many as a small array has, in its order."""
        view = array if isinstance(array, SlicedView) else SlicedView(array.kind, array, (), None, None)
        out = []
        for at in np.ndindex(kind.shape):
            index: list[Expression] = [Constant(INT, k) for k in at]
            if view.start is not None:
                index[0] = Binary(INT, "+", view.start, index[0]) if at[0] else view.start
            out.append(Subscript(FLOAT, view.array, (*view.index, *index)))
        return tuple(out)

    # -- lanes -----------------------------------------------------------------------------------------------
    def _alignment(self, node: ast.Call) -> Expression:
        self._require_argument_count(node, 1)
        return Intrinsic(INT, "alignment", (self._require_array(node.args[0], "float"),))

    def _call_kernel(self, node: ast.Call) -> Expression:
        self._require_argument_count(node, 4)
        vectors = [self._require_array(each, "float") for each in node.args[1:]]
        if any(each.kind != ArrayKind("float", 1) for each in vectors):
            self.fail(node, "call_kernel takes an address and three vectors")
        return Intrinsic(INT, "call_kernel", (self.integer(node.args[0]), *vectors))

    def _load_lanes(self, node: ast.Call) -> Expression:
        return Intrinsic(LANES, "load8", self._array_and_index(node, node.args))

    def _store_lanes(self, node: ast.Call) -> Expression:
        if not node.args:
            self.fail(node, "store8 takes lanes, an array and indices")
        value = self.convert_to(node, self.read(node.args[0]), LANES, "store8")
        return Intrinsic(NOTHING, "store8", (value, *self._array_and_index(node, node.args[1:])))

    def _array_and_index(self, node: ast.Call, given: list[ast.expr]) -> tuple[Expression, ...]:
        if not given:
            self.fail(node, f"{ast.unparse(node.func)} takes an array and indices")
        array = self._require_array(given[0], "float")
        assert isinstance(array.kind, ArrayKind)
        if len(given) != 1 + array.kind.rank:
            self.fail(node, f"{ast.unparse(node.func)} into {array.kind} takes {array.kind.rank} indices")
        return (array, *(self.integer(each) for each in given[1:]))

    def _broadcast_lanes(self, node: ast.Call) -> Expression:
        self._require_argument_count(node, 1)
        return self.convert_to(node, self.read(node.args[0]), LANES, "broadcast8")

    def _sum_lanes(self, node: ast.Call) -> Expression:
        self._require_argument_count(node, 1)
        return Intrinsic(FLOAT, "sum8", (self.convert_to(node, self.read(node.args[0]), LANES, "sum8"),))

    def _mask_lanes(self, node: ast.Call) -> Expression:
        self._require_argument_count(node, 3)
        lanes = self.convert_to(node, self.read(node.args[0]), LANES, "mask_range8")
        return Intrinsic(LANES, "mask_range8", (lanes, self.integer(node.args[1]), self.integer(node.args[2])))

    def _lanewise_function(self, node: ast.Call) -> Expression:
        name = self._callee(node.func).__name__
        self._require_argument_count(node, LANE_FUNCTIONS[name])
        return Intrinsic(LANES, name, tuple(self.convert_to(each, self.read(each), LANES, name) for each in node.args))
