"""Translator of functions in restricted Python to typed trees; errors name file and line and suggest a remedy.

The subset: annotated functions of numbers, C-contiguous arrays, tuples and named tuples; assignments, ``if``,
``while``, ``for`` over a ``range`` or over a global tuple (which is unrolled), calls of other compiled functions and of
the functions in `expression_translator`.  A variable has one kind, and must have a value on every path that leads to
its use.  The semantics are Python's, except:

* Indices and sizes are not checked, and only constant indices count from the end.
* Ints have 64 bits and wrap; combined with a float they are converted to floats first.
* A float beyond the range of ints becomes the nearest int, NaN becomes 0.
* Where Python raises for a number (division by zero, the root of a negative one) the result is infinite or NaN.
* A range ends at least one step before the largest int.

The module also finds all functions that entries reach, and gives each its symbol name.
"""

from __future__ import annotations

import ast
import inspect
import linecache
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from typing import Any, NoReturn

from .expression_translator import OPERATORS, ExpressionTranslator, can_assign
from .kinds import BOOL, FLOAT, INT, NOTHING, ArrayKind, Kind, RecordKind, SmallArrayKind, TupleKind
from .signatures import (
    DecoratorOptions,
    Signature,
    is_separate,
    options_of,
    raise_compile_error,
    signature_of,
    symbol_name,
)
from .typed_tree import (
    Assign,
    AxisLength,
    Break,
    Call,
    Constant,
    Continue,
    Convert,
    Evaluate,
    Expression,
    Field,
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
from .variable_analysis import check_local_arrays


def translate_function(target: Any, symbol: str) -> Function:
    """Returns the typed tree of a compiled function.

    Args:
        target: a function with the decorator `compiled` or `entry`.
        symbol: its name in machine code.

    Raises:
        CompileError: a part of it cannot be compiled; names file and line.
    """
    options, signature = options_of(target), signature_of(target)
    assert options is not None and signature is not None
    return _FunctionTranslator(inspect.unwrap(target), signature).translate(symbol, options)


@lru_cache(maxsize=64)
def _definitions(lines: tuple[str, ...]) -> dict[int, ast.FunctionDef]:
    """Returns the functions of a file by their first line, decorators included, as in `__code__.co_firstlineno`."""
    found = _nested_functions(ast.parse("".join(lines)))
    return {each.decorator_list[0].lineno if each.decorator_list else each.lineno: each for each in found}


def _nested_functions(node: ast.AST) -> Iterator[ast.FunctionDef]:
    """Yields all functions defined below a node; only blocks of statements can contain definitions."""
    for block in ("body", "orelse", "finalbody", "handlers", "cases"):
        for each in getattr(node, block, ()):
            if isinstance(each, ast.FunctionDef):
                yield each
            yield from _nested_functions(each)


def _raise_error(function: Any, node: ast.AST, reason: str) -> NoReturn:
    """Raises a `CompileError` about a node of a function."""
    first_line = function.__code__.co_firstlineno
    raise_compile_error(function, getattr(node, "lineno", first_line) - first_line, reason)


class _FunctionTranslator:
    """Translator of one function."""

    def __init__(self, function: Callable[..., Any], signature: Signature) -> None:
        self.source = function
        self.parameters, self.returns = signature
        self.first_line, file = function.__code__.co_firstlineno, function.__code__.co_filename
        linecache.checkcache(file)
        tree = _definitions(tuple(linecache.getlines(file))).get(self.first_line)
        if tree is None:
            raise_compile_error(function, 0, "only functions that are defined by 'def' can be compiled")
        self.tree = tree
        self.kinds = dict(self.parameters)
        self.assigned: set[str] = set()
        self.loop_depth = 0
        self.defined_at_breaks: list[set[str]] = []  # variables with a value, wherever the innermost loop is left
        self.fail = partial(_raise_error, function)  # not a method, so that translators are freed without a collection
        self.expressions = ExpressionTranslator(function.__globals__, self.kinds, signature_of, self.fail)
        self.expressions.local_names = frozenset(function.__code__.co_varnames)

    def translate(self, symbol: str, options: DecoratorOptions) -> Function:
        """Returns the typed tree of the function."""
        doc = ast.get_docstring(self.tree) or ""
        body = self.tree.body[1:] if doc else self.tree.body
        statements, ended = self.translate_block(body)
        if not ended and self.returns != NOTHING:
            self.fail(self.tree, "the function may end without a return; return a value on every path")
        calls = tuple(dict.fromkeys(self.expressions.calls))
        names = frozenset(name for name, _ in self.parameters)
        out = Function(
            self.source, symbol, self.parameters, self.returns, dict(self.kinds), names & self.assigned, statements,
            doc.split("\n\n")[0], options.inline, calls,
        )  # fmt: skip
        if self.expressions.makes_local_arrays:
            check_local_arrays(
                out, lambda line, reason: raise_compile_error(self.source, line - self.first_line, reason)
            )
        return out

    # -- statements ------------------------------------------------------------------------------------------
    def translate_block(self, body: Sequence[ast.stmt]) -> tuple[tuple[Statement, ...], bool]:
        """Translates statements and returns whether control never reaches their end."""
        out: list[Statement] = []
        ended = False
        for node in body:
            if ended:
                self.fail(node, "this statement is never reached")
            found, ended = self.translate_statement(node)
            out += found
        return tuple(out), ended

    def translate_statement(self, node: ast.stmt) -> tuple[list[Statement], bool]:
        """Translates one statement and returns whether control never continues after it."""
        line, e = node.lineno, self.expressions
        match node:
            case ast.Assign():
                value, out = e.read(node.value), list[Statement]()
                if len(node.targets) > 1 and not isinstance(value, Constant):  # the value is computed once
                    name = f"value_{line - self.first_line + 1}_{node.col_offset}"
                    out += self.translate_assignment(ast.Name(name, ast.Store(), lineno=line), value, line)
                    value = Name(self.kinds[name], name)
                for target in node.targets:
                    out += self.translate_assignment(target, value, line)
                return out, False
            case ast.AnnAssign() if node.value is not None:
                return self.translate_assignment(node.target, e.read(node.value), line), False
            case ast.AugAssign():
                if type(node.op) not in OPERATORS:
                    self.fail(node, f"the operator {type(node.op).__name__} is not supported in compiled code")
                before = ast.copy_location(ast.parse(ast.unparse(node.target), mode="eval").body, node)
                for each in ast.walk(before):
                    ast.copy_location(each, node)
                old = e.read(before)
                if old.contains_call:
                    self.fail(node, "assign the index to a variable first, because it is used twice")
                change = e.read(node.value)
                if isinstance(old.kind, ArrayKind) and isinstance(change.kind, SmallArrayKind):
                    old = e.small_array(node, old, change.kind)
                value = e.binary(node, node.op, old, change)
                return self.translate_assignment(node.target, value, line), False
            case ast.If():
                return self.translate_if(node)
            case ast.While():
                return self.translate_while(node)
            case ast.For():
                found, items = e.find_constant(node.iter)
                if found and isinstance(items, tuple):
                    return self.unroll(node, items)
                return [self.translate_for(node)], False
            case ast.Return():
                returned = None if node.value is None else self.return_value(node, node.value)
                if returned is None and self.returns != NOTHING:
                    self.fail(node, f"expected a return value of kind {self.returns}")
                return [Return(line, returned)], True
            case ast.Break() | ast.Continue():
                if not self.loop_depth:
                    self.fail(node, "break and continue are only allowed in a loop over a range or a while loop")
                if isinstance(node, ast.Continue):
                    return [Continue(line)], True
                self.defined_at_breaks.append(set(e.defined))
                return [Break(line)], True
            case ast.Expr(
                value=ast.Call(func=ast.Attribute(value=target, attr="copy_from"), args=[source], keywords=[])
            ):
                return self.copy_record(node, e.read(target), e.read(source)), False
            case ast.Expr(value=ast.Call()):
                value = e.read(node.value)
                if not isinstance(value, Call | Intrinsic):
                    self.fail(node, "this statement has no effect")
                return [Evaluate(line, value)], False
            case ast.Pass():
                return [], False
        self.fail(node, f"{type(node).__name__} is not supported in compiled code")

    def return_value(self, node: ast.Return, returned: ast.expr) -> Expression:
        """Returns the value of a return statement, converted to the annotated kind."""
        value = self.expressions.read(returned)
        if self.returns == NOTHING:
            self.fail(node, "the function is annotated to return None, but returns a value")
        if type(self.returns) is type(value.kind) is TupleKind and isinstance(value, MakeTuple):
            assert isinstance(self.returns, TupleKind)
            if len(value.values) != len(self.returns.items):
                self.fail(node, f"expected {self.returns}, got {value.kind}")
            converted = [
                self.expressions.convert_to(node, item, kind, "return")
                for item, kind in zip(value.values, self.returns.items, strict=True)
            ]
            return MakeTuple(self.returns, tuple(converted))
        return self.expressions.convert_to(node, value, self.returns, "return")

    def translate_if(self, node: ast.If) -> tuple[list[Statement], bool]:
        """Translates an ``if`` statement."""
        e = self.expressions
        test, before = e.test(node.test), set(e.defined)
        then, then_ended = self.translate_block(node.body)
        after_then, e.defined = e.defined, set(before)
        other, other_ended = self.translate_block(node.orelse)
        if then_ended and not other_ended:
            pass
        elif other_ended:
            e.defined = after_then
        else:
            e.defined &= after_then
        return [If(node.lineno, test, then, other)], then_ended and other_ended

    def translate_while(self, node: ast.While) -> tuple[list[Statement], bool]:
        """Translates a ``while`` loop; ``while True`` ends only at a ``break``."""
        if node.orelse:
            self.fail(node, "else after a loop is not supported in compiled code")
        e = self.expressions
        endless = isinstance(node.test, ast.Constant) and node.test.value is True
        test, before, outer = e.test(node.test), set(e.defined), self.defined_at_breaks
        self.defined_at_breaks = []
        self.loop_depth += 1
        body, _ = self.translate_block(node.body)
        self.loop_depth -= 1
        left, self.defined_at_breaks = self.defined_at_breaks, outer
        e.defined = before if not endless else set.intersection(*left) if left else set(e.defined)
        return [While(node.lineno, test, body)], endless and not left

    def translate_for(self, node: ast.For) -> Statement:
        """Translates ``for name in range(...)``."""
        e, call = self.expressions, node.iter
        if not (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Name)
            and call.func.id == "range"
            and 1 <= len(call.args) <= 3
            and isinstance(node.target, ast.Name)
            and not node.orelse
        ):
            self.fail(node, "a loop must be 'for name in range(...)' or over a global tuple, without else")
        bounds = [e.integer(each) for each in call.args]
        start, stop = (
            (bounds[0], bounds[1]) if len(bounds) > 1 else (e.convert(e.read(ast.Constant(0)), INT), bounds[0])
        )
        step = e.read(call.args[2]) if len(bounds) == 3 else None
        stride = 1 if step is None else getattr(step, "value", 0)
        if not isinstance(stride, int) or stride == 0:
            self.fail(node, "the step of a range must be a constant that is not 0")
        before, outer = set(e.defined), self.defined_at_breaks
        if self.declare_variable(node, node.target.id, INT) != INT:
            self.fail(
                node,
                f"{node.target.id!r} is {self.kinds[node.target.id]} and cannot be the variable of this loop; use "
                "another name",
            )
        self.defined_at_breaks = []
        self.loop_depth += 1
        body, _ = self.translate_block(node.body)
        self.loop_depth -= 1
        self.defined_at_breaks = outer
        e.defined = before
        return For(node.lineno, node.target.id, start, stop, stride, body)

    def unroll(self, node: ast.For, items: tuple[Any, ...]) -> tuple[list[Statement], bool]:
        """Translates a loop over a constant tuple: its body once for each item, with the item as a constant.

        An item may be a number, a compiled function or any object with such attributes.
        """
        constants = self.expressions.loop_constants
        if not isinstance(node.target, ast.Name) or node.orelse:
            self.fail(node, "a loop over a constant tuple must be 'for name in TUPLE', without else")
        name, depth, out, ended = node.target.id, self.loop_depth, list[Statement](), False
        if name in self.kinds or name in constants:
            self.fail(node, f"{name!r} is a variable already; use two names")
        self.loop_depth = 0  # there is no loop left to break
        for item in items:
            constants[name] = item
            statements, ended = self.translate_block(node.body)
            out += statements
            if ended:
                break
        self.loop_depth = depth
        constants.pop(name, None)
        return out, ended

    # -- assignments -----------------------------------------------------------------------------------------
    def declare_variable(self, node: ast.AST, name: str, kind: Kind) -> Kind:
        """Declares a variable at its first assignment, else checks the kind of the new value; returns its kind."""
        declared = self.kinds.get(name)
        if declared is None:
            if isinstance(kind, TupleKind) and not kind.items:
                self.fail(node, f"{name!r} would have no value, because the call returns None")
            self.kinds[name] = declared = kind
        elif not can_assign(declared, kind):
            hint = f"; begin with {name} = 0.0" if (declared, kind) == (INT, FLOAT) else "; use two names"
            self.fail(node, f"{name!r} has the kind {declared} and would change to {kind}{hint}")
        self.expressions.defined.add(name)
        self.assigned.add(name)
        return declared

    def translate_assignment(self, target: ast.expr, value: Expression, line: int) -> list[Statement]:
        """Translates ``target = value``."""
        if isinstance(value.kind, SmallArrayKind) and isinstance(target, ast.Subscript | ast.Attribute):
            return self.assign_small_array(target, value, line)
        if isinstance(target, ast.Subscript) and self.is_view(target):
            return self.assign_array(target, value, line)
        if isinstance(target, ast.Tuple):
            if not isinstance(value.kind, TupleKind | RecordKind):
                self.fail(target, f"{value.kind} cannot be unpacked")
            destination = self.tuple_targets(target, value.kind)
            if isinstance(value, MakeTuple) and isinstance(value.kind, TupleKind):
                kinds = tuple(self._target_kind(p, k) for p, k in zip(destination.items, value.kind.items, strict=True))
                fits = tuple(
                    self.expressions.convert_to(target, v, k, "assignment")
                    for v, k in zip(value.values, kinds, strict=True)
                )
                value = MakeTuple(TupleKind(kinds), fits)
            return [Assign(line, destination, value)]
        single_target, kind = self.assignment_target(target, value.kind)
        value = self.expressions.convert_to(target, value, kind, ast.unparse(target))
        if kind == BOOL != single_target.kind:  # a bool of a mutable record, which is an int in memory
            value = self.expressions.convert(value, INT)
        return [Assign(line, single_target, value)]

    def copy_record(self, node: ast.stmt, target: Expression, source: Expression, path: str = "") -> list[Statement]:
        """Returns the statements of ``record.copy_from(other)`` of mutable records, one for each number and array.

        Args:
            node: the statement in the source.
            target: record that is written.
            source: record that is read, with arrays of the same sizes.
            path: names of the fields that lead to these records from those of the statement.
        """
        kind = target.kind
        if not isinstance(kind, RecordKind) or not kind.values or source.kind != kind:
            self.fail(node, f"copy_from requires two mutable records of the same class, got {source.kind} and {kind}")
        if target.contains_call or source.contains_call:
            self.fail(node, "assign the records to variables first, because their fields are copied one by one")
        out: list[Statement] = []
        for k, (name, stored) in enumerate(kind.fields):
            field, given = Field(stored, target, k), Field(stored, source, k)
            shown = kind.values[k]
            if isinstance(stored, RecordKind):
                out += self.copy_record(node, field, given, f"{path}{name}_")
            elif isinstance(shown, SmallArrayKind):
                places = [(Constant(INT, i),) for i in range(len(shown.items))]
                out += [Assign(node.lineno, Subscript(FLOAT, field, i), Subscript(FLOAT, given, i)) for i in places]
            elif shown is not None:
                assert isinstance(stored, ArrayKind)
                number = Subscript(stored.element, given, ())
                out.append(Assign(node.lineno, Subscript(stored.element, field, ()), number))
            else:
                assert isinstance(stored, ArrayKind)
                suffix = f"{path}{name}_{node.lineno - self.first_line + 1}_{node.col_offset}"
                out += self.copy_entries(node, field, given, suffix)
        return out

    def assign_small_array(
        self, target: ast.Subscript | ast.Attribute, value: Expression, line: int
    ) -> list[Statement]:
        """Returns the statements of ``x[:] = value``, ``A[i] = value`` and ``record.v = value``.

        The value is computed before anything is written.
        """
        destination = self.expressions.read(target)
        kind = value.kind
        assert isinstance(kind, SmallArrayKind)
        name = f"small_{line - self.first_line + 1}_{target.col_offset}"
        if isinstance(target, ast.Attribute):
            if destination.kind != kind:
                self.fail(target, f"{ast.unparse(target)}: expected {destination.kind}, got {kind}")
            stored = [x for x in self.expressions.entries(target, destination) if isinstance(x, Subscript)]
            out = self.translate_assignment(ast.Name(name, ast.Store(), lineno=line), value, line)
            entries = self.expressions.entries(target, Name(kind, name))
            return [*out, *(Assign(line, at, x) for at, x in zip(stored, entries, strict=True))]
        if destination.kind != ArrayKind("float", len(kind.shape)) or not isinstance(destination, SlicedView):
            self.fail(target, f"a {kind} can be assigned to a slice or row of a float array of rank {len(kind.shape)}")
        if destination.contains_call:
            self.fail(target, "assign the index to a variable first, because it is used several times")
        out = self.translate_assignment(ast.Name(name, ast.Store(), lineno=line), value, line)
        entries = self.expressions.entries(target, Name(kind, name))
        entry_targets = self.expressions.entries_of_array(destination, kind)
        return [*out, *(Assign(line, at, x) for at, x in zip(entry_targets, entries, strict=True))]

    def is_view(self, target: ast.Subscript) -> bool:
        """Returns whether a target is a slice or row of an array, rather than one entry."""
        return isinstance(self.expressions.read(target), SlicedView)

    def assign_array(self, target: ast.Subscript, value: Expression, line: int) -> list[Statement]:
        """Returns the statements of ``x[:] = array`` and ``x[:] = number``: a loop over every axis."""
        view = self.expressions.read(target)
        assert isinstance(view.kind, ArrayKind)
        if isinstance(value.kind, ArrayKind):
            is_rounded = value.kind.element == FLOAT != view.kind.element
            if value.kind.rank != view.kind.rank or is_rounded:
                self.fail(target, f"{ast.unparse(target)}: expected {view.kind}, got {value.kind}")
        else:
            value = self.expressions.convert_to(target, value, view.kind.element, ast.unparse(target))
        return self.copy_entries(target, view, value, f"{line - self.first_line + 1}_{target.col_offset}")

    def copy_entries(
        self, node: ast.expr | ast.stmt, view: Expression, value: Expression, suffix: str
    ) -> list[Statement]:
        """Returns a loop over every axis that assigns an array, or a number, to the entries of an array.

        Args:
            node: the statement or its target, for its line.
            view: array that is written.
            value: array of the same sizes, or a number.
            suffix: end of the names of the variables of the loop, different for each array of a function.
        """
        line, kind = node.lineno, view.kind
        assert isinstance(kind, ArrayKind)
        names = [ast.Name(f"{name}_{suffix}", ast.Store(), lineno=line) for name in ("view", "source")]
        out = [*self.translate_assignment(names[0], view, line), *self.translate_assignment(names[1], value, line)]
        to, source = Name(kind, names[0].id), Name(value.kind, names[1].id)
        counters = [Name(INT, f"index_{axis}_{suffix}") for axis in range(kind.rank)]
        index = tuple(counters)
        entry: Expression = source
        if isinstance(value.kind, ArrayKind):
            entry = self.expressions.convert(Subscript(value.kind.element, source, index), kind.element)
        body: Statement = Assign(line, Subscript(kind.element, to, index), entry)
        for axis, counter in reversed(list(enumerate(counters))):
            self.declare_variable(node, counter.name, INT)
            body = For(line, counter.name, Constant(INT, 0), AxisLength(INT, to, axis), 1, (body,))
        return [*out, body]

    @staticmethod
    def _target_kind(destination: Name | Subscript | Targets | None, kind: Kind) -> Kind:
        return destination.kind if isinstance(destination, Name | Subscript) else kind

    def assignment_target(self, target: ast.expr, kind: Kind) -> tuple[Name | Subscript, Kind]:
        """Translates a variable or an array entry as the target of an assignment, and returns it with its kind."""
        if isinstance(target, ast.Name):
            declared = self.declare_variable(target, target.id, kind)
            return Name(declared, target.id), declared
        if isinstance(target, ast.Subscript):
            base = self.expressions.read(target)
            if isinstance(base, Subscript):
                array = base.array.kind
                assert isinstance(array, ArrayKind)
                if array.element == INT and kind == FLOAT:
                    self.fail(target, "a float cannot be assigned to an int entry; write int(...)")
                return base, FLOAT if array.element == FLOAT else INT
            self.fail(
                target,
                "values can only be assigned to single entries of arrays",
            )
        if isinstance(target, ast.Attribute):
            stored = self.expressions.read(target)
            shown = stored.kind
            if isinstance(stored, Convert):  # a bool, which is an int in memory
                stored = next(stored.operands_in_order())
            if isinstance(stored, Subscript) and not stored.index:
                return stored, shown
            self.fail(
                target, f"{ast.unparse(target)} cannot be assigned to, because it is not a number in a mutable record"
            )
        self.fail(target, f"{ast.unparse(target)} cannot be assigned to")

    def tuple_targets(self, target: ast.Tuple, kind: TupleKind | RecordKind) -> Targets:
        """Translates the targets of a tuple assignment; a name that begins with "_" discards its item."""
        kinds = kind.items if isinstance(kind, TupleKind) else tuple(k for _, k in kind.fields)
        if len(kinds) != len(target.elts):
            self.fail(target, f"{len(target.elts)} targets for {len(kinds)} values")
        out: list[Name | Subscript | Targets | None] = []
        for each, item in zip(target.elts, kinds, strict=True):
            if isinstance(each, ast.Name) and each.id.startswith("_"):
                out.append(None)
            elif isinstance(each, ast.Tuple):
                if not isinstance(item, TupleKind | RecordKind):
                    self.fail(each, f"{item} cannot be unpacked")
                out.append(self.tuple_targets(each, item))
            else:
                found, target_kind = self.assignment_target(each, item)
                if not can_assign(target_kind, item):
                    self.fail(each, f"expected {target_kind}, got {item}")
                out.append(found)
        return Targets(tuple(out))


def collect_functions(entries: Iterable[Any], *, include_separate: bool = True) -> list[Function]:
    """Returns all functions reachable from entries, callees before callers.

    Args:
        entries: the entries.
        include_separate: whether to include functions that are compiled separately from those that call them.

    Raises:
        CompileError: one of them cannot be compiled, or calls itself.
    """
    done: dict[str, Function] = {}
    for each in entries:
        _collect(each, done, [], include_separate)
    _definitions.cache_clear()  # the syntax trees of whole modules, which few other units need
    return list(done.values())


def _collect(target: Any, done: dict[str, Function], path: list[str], include_separate: bool) -> None:
    """Adds a function, after those that it calls, to `done`; `path` has the names of its callers."""
    name = symbol_name(target)
    if name in path:
        raise_compile_error(
            target,
            0,
            f"the function calls itself through {' -> '.join(path[path.index(name) :])}; use a loop instead of "
            "recursion",
        )
    if name in done:
        if done[name].source is not inspect.unwrap(target):
            raise_compile_error(target, 0, f"two functions have the name {name}; rename one of them")
        return
    function = translate_function(target, name)
    for each in function.calls:
        if include_separate or not is_separate(each):
            _collect(each, done, [*path, name], include_separate)
    done[name] = function
