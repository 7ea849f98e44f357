"""Restricted Python read as a typed tree; what is not part of it is refused by file and line, with a remedy.

The subset: annotated functions of numbers, C-contiguous arrays, tuples and named tuples; assignments, ``if``,
``while``, ``for`` over a ``range``, calls of other compiled functions and of what `expressions` lists.  A variable has
one kind, and a value on every way that leads to its use.  All means what it means to Python, but for this:

* Indices and sizes are not checked, and only constant indices count from the end.
* Ints have 64 bits and wrap; beside a float they become floats first.
* A float beyond the ints becomes the nearest of them, NaN becomes 0.
* Where Python raises for a number (division by zero, the root of a negative one) the result is infinite or NaN.
* A range ends at least a step before the largest int.
"""

from __future__ import annotations

import ast
import inspect
import linecache
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NoReturn

from .expression_translator import ExpressionReader
from .kinds import FLOAT, INT, NOTHING, ArrayKind, Kind, RecordKind, SmallArrayKind, TupleKind
from .local_arrays import check_local_arrays
from .operator_translator import OPERATORS, promoted
from .signatures import DecoratorOptions, Signature, options_of, raise_compile_error, signature_of
from .typed_tree import (
    Assign,
    Break,
    Call,
    Constant,
    Continue,
    Evaluate,
    Expression,
    For,
    Function,
    If,
    Intrinsic,
    MakeTuple,
    Name,
    Return,
    SlicedView,
    Statement,
    Subscript,
    Targets,
    While,
)


def translate_function(target: Any, symbol: str) -> Function:
    """The typed tree of a compiled function.

    Args:
        target: a function with a decorator of this room.
        symbol: its name in machine code.

    Raises:
        CompileError: something in it cannot be compiled; names file and line.
    """
    options, signature = options_of(target), signature_of(target)
    assert options is not None and signature is not None
    return _Reader(inspect.unwrap(target), signature).function(symbol, options)


@lru_cache(maxsize=64)
def _definitions(lines: tuple[str, ...]) -> dict[int, ast.FunctionDef]:
    """Functions of a file by their first line, decorators included, as `__code__.co_firstlineno` counts."""
    found = _functions(ast.parse("".join(lines)))
    return {each.decorator_list[0].lineno if each.decorator_list else each.lineno: each for each in found}


def _functions(node: ast.AST) -> Iterator[ast.FunctionDef]:
    """All functions that are defined in a node: only statements have statements in them."""
    for each in ast.iter_child_nodes(node):
        if isinstance(each, ast.FunctionDef):
            yield each
        if isinstance(each, ast.stmt | ast.ExceptHandler | ast.match_case):
            yield from _functions(each)


class _Reader:
    """Reads one function."""

    def __init__(self, function: Callable[..., Any], signature: Signature) -> None:
        self.source = function
        self.parameters, self.returns = signature
        self.first, file = function.__code__.co_firstlineno, function.__code__.co_filename
        linecache.checkcache(file)
        tree = _definitions(tuple(linecache.getlines(file))).get(self.first)
        if tree is None:
            raise_compile_error(function, 0, "only functions that are defined by 'def' can be compiled")
        self.tree = tree
        self.kinds = dict(self.parameters)
        self.assigned: set[str] = set()
        self.loops = 0
        self.leaving: list[set[str]] = []  # variables with a value, wherever the innermost loop is left
        self.expressions = ExpressionReader(function.__globals__, self.kinds, signature_of, self.fail)
        self.expressions.bound = frozenset(function.__code__.co_varnames)

    def fail(self, node: ast.AST, reason: str) -> NoReturn:
        """Refuse a node."""
        raise_compile_error(self.source, getattr(node, "lineno", self.first) - self.first, reason)

    def function(self, symbol: str, options: DecoratorOptions) -> Function:
        """The whole function."""
        doc = ast.get_docstring(self.tree) or ""
        body = self.tree.body[1:] if doc else self.tree.body
        statements, ended = self.block(body)
        if not ended and self.returns != NOTHING:
            self.fail(self.tree, "it may end without a return; return something on every way")
        calls = tuple(dict.fromkeys(self.expressions.calls))
        names = frozenset(name for name, _ in self.parameters)
        out = Function(
            self.source, symbol, self.parameters, self.returns, dict(self.kinds), names & self.assigned, statements,
            doc.split("\n\n")[0], options.inline, calls,
        )  # fmt: skip
        check_local_arrays(out, lambda line, reason: raise_compile_error(self.source, line - self.first, reason))
        return out

    # -- statements ------------------------------------------------------------------------------------------
    def block(self, body: Sequence[ast.stmt]) -> tuple[tuple[Statement, ...], bool]:
        """Statements, and whether they never come to their end."""
        out: list[Statement] = []
        ended = False
        for node in body:
            if ended:
                self.fail(node, "this is never reached")
            found, ended = self.statement(node)
            out += found
        return tuple(out), ended

    def statement(self, node: ast.stmt) -> tuple[list[Statement], bool]:
        """One statement, and whether nothing comes after it."""
        line, e = node.lineno, self.expressions
        match node:
            case ast.Assign():
                value, out = e.read(node.value), list[Statement]()
                if len(node.targets) > 1 and not isinstance(value, Constant):  # the value is computed once
                    name = f"value_{line - self.first + 1}_{node.col_offset}"
                    out += self.assign(ast.Name(name, ast.Store(), lineno=line), value, line)
                    value = Name(self.kinds[name], name)
                for target in node.targets:
                    out += self.assign(target, value, line)
                return out, False
            case ast.AnnAssign() if node.value is not None:
                return self.assign(node.target, e.read(node.value), line), False
            case ast.AugAssign():
                if type(node.op) not in OPERATORS:
                    self.fail(node, f"the operator {type(node.op).__name__} is not part of what can be compiled")
                before = ast.copy_location(ast.parse(ast.unparse(node.target), mode="eval").body, node)
                for each in ast.walk(before):
                    ast.copy_location(each, node)
                old = e.read(before)
                if old.contains_call:
                    self.fail(node, "write the index to a variable first: it is used twice")
                change = e.read(node.value)
                if isinstance(old.kind, ArrayKind) and isinstance(change.kind, SmallArrayKind):
                    old = e.small_array(node, old, change.kind)
                value = e.binary(node, node.op, old, change)
                return self.assign(node.target, value, line), False
            case ast.If():
                return self.branch(node)
            case ast.While():
                return self.loop_while(node)
            case ast.For():
                return [self.loop_for(node)], False
            case ast.Return():
                given = None if node.value is None else self.result(node, node.value)
                if given is None and self.returns != NOTHING:
                    self.fail(node, f"expected a result, {self.returns}")
                return [Return(line, given)], True
            case ast.Break() | ast.Continue():
                if not self.loops:
                    self.fail(node, "there is no loop here")
                if isinstance(node, ast.Continue):
                    return [Continue(line)], True
                self.leaving.append(set(e.defined))
                return [Break(line)], True
            case ast.Expr(value=ast.Call()):
                value = e.read(node.value)
                if not isinstance(value, Call | Intrinsic):
                    self.fail(node, "this does nothing")
                return [Evaluate(line, value)], False
            case ast.Pass():
                return [], False
        self.fail(node, f"{type(node).__name__} is not part of what can be compiled")

    def result(self, node: ast.Return, given: ast.expr) -> Expression:
        """Returns the value of a return statement, converted to the annotated kind."""
        value = self.expressions.read(given)
        if self.returns == NOTHING:
            self.fail(node, "it is annotated to return None")
        if type(self.returns) is type(value.kind) is TupleKind and isinstance(value, MakeTuple):
            assert isinstance(self.returns, TupleKind)
            if len(value.values) != len(self.returns.items):
                self.fail(node, f"expected {self.returns}, got {value.kind}")
            fits = [
                self.expressions.fits(node, each, kind, "return")
                for each, kind in zip(value.values, self.returns.items, strict=True)
            ]
            return MakeTuple(self.returns, tuple(fits))
        return self.expressions.fits(node, value, self.returns, "return")

    def branch(self, node: ast.If) -> tuple[list[Statement], bool]:
        """``if``."""
        e = self.expressions
        test, before = e.test(node.test), set(e.defined)
        then, then_ended = self.block(node.body)
        after_then, e.defined = e.defined, set(before)
        other, other_ended = self.block(node.orelse)
        if then_ended and not other_ended:
            pass
        elif other_ended:
            e.defined = after_then
        else:
            e.defined &= after_then
        return [If(node.lineno, test, then, other)], then_ended and other_ended

    def loop_while(self, node: ast.While) -> tuple[list[Statement], bool]:
        """``while``; one of ``while True`` ends where it is left."""
        if node.orelse:
            self.fail(node, "else after a loop is not part of what can be compiled")
        e = self.expressions
        endless = isinstance(node.test, ast.Constant) and node.test.value is True
        test, before, outer = e.test(node.test), set(e.defined), self.leaving
        self.leaving = []
        self.loops += 1
        body, _ = self.block(node.body)
        self.loops -= 1
        left, self.leaving = self.leaving, outer
        e.defined = before if not endless else set.intersection(*left) if left else set(e.defined)
        return [While(node.lineno, test, body)], endless and not left

    def loop_for(self, node: ast.For) -> Statement:
        """``for name in range(...)``."""
        e, call = self.expressions, node.iter
        if not (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Name)
            and call.func.id == "range"
            and 1 <= len(call.args) <= 3
            and isinstance(node.target, ast.Name)
            and not node.orelse
        ):
            self.fail(node, "a loop must be 'for name in range(...)', without else")
        bounds = [e.integer(each) for each in call.args]
        start, stop = (
            (bounds[0], bounds[1]) if len(bounds) > 1 else (e.convert(e.read(ast.Constant(0)), INT), bounds[0])
        )
        step = e.read(call.args[2]) if len(bounds) == 3 else None
        stride = 1 if step is None else getattr(step, "value", 0)
        if not isinstance(stride, int) or stride == 0:
            self.fail(node, "the step of a range must be a constant that is not 0")
        before, outer = set(e.defined), self.leaving
        if self.bind(node, node.target.id, INT) != INT:
            self.fail(node, f"{node.target.id!r} is {self.kinds[node.target.id]} and counts; use two names")
        self.leaving = []
        self.loops += 1
        body, _ = self.block(node.body)
        self.loops -= 1
        self.leaving = outer
        e.defined = before
        return For(node.lineno, node.target.id, start, stop, stride, body)

    # -- assignments -----------------------------------------------------------------------------------------
    def bind(self, node: ast.AST, name: str, kind: Kind) -> Kind:
        """A variable gets a value of a kind; the kind that it has."""
        known = self.kinds.get(name)
        if known is None:
            if isinstance(kind, TupleKind) and not kind.items:
                self.fail(node, f"{name!r} would be nothing")
            self.kinds[name] = known = kind
        elif not promoted(known, kind):
            hint = f"; begin with {name} = 0.0" if (known, kind) == (INT, FLOAT) else "; use two names"
            self.fail(node, f"{name!r} is {known} and becomes {kind}{hint}")
        self.expressions.defined.add(name)
        self.assigned.add(name)
        return known

    def assign(self, target: ast.expr, value: Expression, line: int) -> list[Statement]:
        """``target = value``."""
        if isinstance(value.kind, SmallArrayKind) and isinstance(target, ast.Subscript):
            return self.write_entries(target, value, line)
        if isinstance(target, ast.Tuple):
            if not isinstance(value.kind, TupleKind | RecordKind):
                self.fail(target, f"{value.kind} cannot be taken apart")
            place = self.places(target, value.kind)
            if isinstance(value, MakeTuple) and isinstance(value.kind, TupleKind):
                kinds = tuple(self._wanted(p, k) for p, k in zip(place.items, value.kind.items, strict=True))
                fits = tuple(
                    self.expressions.fits(target, v, k, "assignment") for v, k in zip(value.values, kinds, strict=True)
                )
                value = MakeTuple(TupleKind(kinds), fits)
            return [Assign(line, place, value)]
        place_, kind = self.place(target, value.kind)
        return [Assign(line, place_, self.expressions.fits(target, value, kind, ast.unparse(target)))]

    def write_entries(self, target: ast.Subscript, value: Expression, line: int) -> list[Statement]:
        """Returns the statements of ``x[:] = value`` and ``A[i] = value``; the value is computed before writing."""
        place = self.expressions.read(target)
        kind = value.kind
        assert isinstance(kind, SmallArrayKind)
        if place.kind != ArrayKind("float", len(kind.shape)) or not isinstance(place, SlicedView):
            self.fail(target, f"a {kind} can be assigned to a slice or row of a float array of rank {len(kind.shape)}")
        if place.contains_call:
            self.fail(target, "write the index to a variable first: it is used several times")
        name = f"small_{line - self.first + 1}_{target.col_offset}"
        out = self.assign(ast.Name(name, ast.Store(), lineno=line), value, line)
        entries = self.expressions.entries(target, Name(kind, name))
        places = self.expressions.entries_of_array(place, kind)
        return [*out, *(Assign(line, at, x) for at, x in zip(places, entries, strict=True))]

    @staticmethod
    def _wanted(place: Name | Subscript | Targets | None, kind: Kind) -> Kind:
        return place.kind if isinstance(place, Name | Subscript) else kind

    def place(self, target: ast.expr, kind: Kind) -> tuple[Name | Subscript, Kind]:
        """A name or an entry, and the kind that it wants."""
        if isinstance(target, ast.Name):
            known = self.bind(target, target.id, kind)
            return Name(known, target.id), known
        if isinstance(target, ast.Subscript):
            base = self.expressions.read(target)
            if isinstance(base, Subscript):
                array = base.array.kind
                assert isinstance(array, ArrayKind)
                if array.element == INT and kind == FLOAT:
                    self.fail(target, "a float for an entry that is an int; write int(...)")
                return base, FLOAT if array.element == FLOAT else INT
            self.fail(target, "only single entries can be assigned to; write a loop")
        self.fail(target, f"{ast.unparse(target)} cannot be assigned to")

    def places(self, target: ast.Tuple, kind: TupleKind | RecordKind) -> Targets:
        """Targets for the values of a tuple."""
        kinds = kind.items if isinstance(kind, TupleKind) else tuple(k for _, k in kind.fields)
        if len(kinds) != len(target.elts):
            self.fail(target, f"{len(target.elts)} targets for {len(kinds)} values")
        out: list[Name | Subscript | Targets | None] = []
        for each, item in zip(target.elts, kinds, strict=True):
            if isinstance(each, ast.Name) and each.id.startswith("_"):
                out.append(None)
            elif isinstance(each, ast.Tuple):
                if not isinstance(item, TupleKind | RecordKind):
                    self.fail(each, f"{item} cannot be taken apart")
                out.append(self.places(each, item))
            else:
                found, wanted = self.place(each, item)
                if not promoted(wanted, item):
                    self.fail(each, f"expected {wanted}, got {item}")
                out.append(found)
        return Targets(tuple(out))
