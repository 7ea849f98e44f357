"""Analysis of the variables and the memory that statements and expressions read and write.

Checks of local arrays, which exist once per call until the function returns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NoReturn

from .kinds import LANES, ArrayKind, Kind, RecordKind, ScalarKind
from .typed_tree import (
    Assign,
    AxisLength,
    Binary,
    Call,
    Constant,
    Evaluate,
    Expression,
    Field,
    For,
    Function,
    If,
    Intrinsic,
    LocalArray,
    MakeTuple,
    Name,
    Return,
    Statement,
    Subscript,
    Targets,
    While,
)


def check_local_arrays(function: Function, fail: Callable[[int, str], NoReturn]) -> None:
    """Raises an error for local arrays that are created in a loop or returned.

    Args:
        function: typed tree of the function.
        fail: raises an error about a line.
    """
    found = [(s, inside, e) for s, inside in walk_statements(function.body) for e in expressions_of(s)]
    names: set[str] = set()
    before = -1
    while len(names) > before:  # until no further variable of this kind is found
        before = len(names)
        for s, _, _ in found:
            if isinstance(s, Assign) and holds_arrays(s.value.kind) and _may_be_local_array(s.value, names):
                names |= set(_assigned_variables(s.target))
    for s, inside, e in found:
        if inside and any(isinstance(x, LocalArray) for x in e.subexpressions()):
            fail(s.line, "a local array is made in a loop; make it before the loop")
        if isinstance(s, Return) and holds_arrays(e.kind) and _may_be_local_array(e, names):
            fail(
                s.line,
                "a local array exists only during the call and cannot be returned; pass an array from the caller",
            )


def _may_be_local_array(e: Expression, names: set[str]) -> bool:
    """Returns whether an array in a value may be a local array of the function."""
    if isinstance(e, LocalArray):
        return True
    if isinstance(e, Name):
        return e.name in names
    inner = e.arguments if isinstance(e, Call) else tuple(e.operands_in_order())
    return any(holds_arrays(each.kind) and _may_be_local_array(each, names) for each in inner)


def holds_arrays(kind: Kind) -> bool:
    """Returns whether values of a kind contain an array."""
    if isinstance(kind, ScalarKind | ArrayKind):
        return isinstance(kind, ArrayKind)
    items = [field for _, field in kind.fields] if isinstance(kind, RecordKind) else kind.items
    return any(map(holds_arrays, items))


def walk_statements(body: Sequence[Statement], inside: bool = False) -> Iterator[tuple[Statement, bool]]:
    """Yields all statements of a body, nested ones included, each with whether it is in a loop."""
    for s in body:
        yield s, inside
        if isinstance(s, If):
            yield from walk_statements(s.then, inside)
            yield from walk_statements(s.other, inside)
        elif isinstance(s, While | For):
            yield from walk_statements(s.body, True)


def expressions_of(s: Statement) -> Iterator[Expression]:
    """Yields the expressions of a statement in Python's order of evaluation, without those of nested statements."""
    match s:
        case Assign():
            yield s.value
            yield from _target_expressions(s.target)
        case Evaluate():
            yield s.value
        case Return():
            if s.value is not None:
                yield s.value
        case If() | While():
            yield s.test
        case For():
            yield s.start
            yield s.stop


def _target_expressions(target: Expression | Targets | None) -> Iterator[Expression]:
    if isinstance(target, Targets):
        for each in target.items:
            yield from _target_expressions(each)
    elif target is not None and not isinstance(target, Name):
        yield target


def _assigned_variables(target: Expression | Targets | None) -> Iterator[str]:
    """Yields the names of the variables that a target assigns."""
    if isinstance(target, Name):
        yield target.name
    elif isinstance(target, Targets):
        for each in target.items:
            yield from _assigned_variables(each)


Target = Name | Subscript | Targets | None


def accesses_memory(e: Expression) -> bool:
    """Returns whether the evaluation of an expression reads or writes memory."""
    return any(
        isinstance(x, Subscript | Call) or (isinstance(x, Intrinsic) and (x.kind == LANES or x.name == "call_kernel"))
        for x in e.subexpressions()
    )


def names_in(e: Expression) -> Iterator[str]:
    """Yields the variables in an expression."""
    return (x.name for x in e.subexpressions() if isinstance(x, Name))


def assigned_names(target: Target) -> set[str]:
    """Returns the variables that a target assigns."""
    if isinstance(target, Targets):
        return set().union(*map(assigned_names, target.items))
    return {target.name} if isinstance(target, Name) else set()


def written_variables(s: Statement) -> set[str]:
    """Returns the variables that a statement assigns, without those of nested statements."""
    return assigned_names(s.target) if isinstance(s, Assign) else {s.name} if isinstance(s, For) else set()


def assigned_values(f: Function) -> dict[str, list[Expression | None]]:
    """Returns all values assigned to each variable, in order; None for a value without an expression, as of a loop."""
    out: dict[str, list[Expression | None]] = {}
    for s, _ in walk_statements(f.body):
        for name, value in _target_values(s.target, s.value) if isinstance(s, Assign) else ():
            out.setdefault(name, []).append(value)
        if isinstance(s, For):
            out.setdefault(s.name, []).append(None)
    return out


def _target_values(target: Target, value: Expression | None) -> Iterator[tuple[str, Expression | None]]:
    if isinstance(target, Name):
        yield target.name, value
    elif isinstance(target, Targets):
        values = value.values if isinstance(value, MakeTuple) else (None,) * len(target.items)
        for each, of in zip(target.items, values, strict=True):
            yield from _target_values(each, of)


def aliases(f: Function) -> dict[str, Expression]:
    """Returns variables that only ever name a record in a parameter that is never assigned, and the record of each."""
    fixed = {name for name, _ in f.parameters} - f.assigned
    out: dict[str, Expression] = {}
    for name, values in assigned_values(f).items():
        root = values[0]
        while isinstance(root, Field):
            root = root.record
        once = len(values) == 1 and not any(name == parameter for parameter, _ in f.parameters)
        if once and isinstance(f.variables[name], RecordKind) and isinstance(root, Name):
            if root.name in fixed or root.name in out:
                assert values[0] is not None
                out[name] = values[0]
    return out


def mentioned_variables(s: Statement) -> set[str]:
    """Returns the variables that a statement reads or assigns, nested statements included."""
    out: set[str] = set()
    for each, _ in walk_statements((s,)):
        out |= written_variables(each)
        for e in expressions_of(each):
            out |= set(names_in(e))
    return out


def conditionally_written_arrays(f: Function) -> set[LocalArray]:
    """Returns the uninitialized local arrays that are first used in an ``if`` or ``while``.

    A C compiler may find a path to a read of such an array on which it is not written.
    """
    return {
        value
        for name, values in assigned_values(f).items()
        for value in values
        if isinstance(value, LocalArray) and not value.clear and _is_first_used_conditionally(f.body, name)
    }


def _is_first_used_conditionally(body: Sequence[Statement], name: str) -> bool:
    """Returns whether the first statement that uses a variable, after its assignments, is an ``if`` or ``while``."""
    first = next((s for s in body if name in mentioned_variables(s) and name not in written_variables(s)), None)
    return isinstance(first, If | While) or (isinstance(first, For) and _is_first_used_conditionally(first.body, name))


def names_read(body: Sequence[Statement]) -> Iterator[str]:
    """Yields the variables that statements read."""
    for s, _ in walk_statements(body):
        for e in expressions_of(s):
            yield from names_in(e)


def is_invariant(e: Expression, changed: set[str]) -> bool:
    """Returns whether an expression keeps its value while the variables `changed` change."""
    if isinstance(e, AxisLength):
        return isinstance(e.array, Name) and e.array.name not in changed
    if isinstance(e, Name):
        return e.name not in changed
    if isinstance(e, Binary) and e.op in ("+", "-", "*"):
        return is_invariant(e.left, changed) and is_invariant(e.right, changed)
    return isinstance(e, Constant)


def within_one_block(s: Statement, name: str) -> bool:
    """Returns whether all uses of a variable in a statement are in a single one of its blocks."""
    if any(name in names_in(e) for e in expressions_of(s)) or name in written_variables(s):
        return False
    if isinstance(s, If):
        return not all(any(name in mentioned_variables(each) for each in block) for block in (s.then, s.other))
    return isinstance(s, While | For)


def is_only_loop_counter(body: Sequence[Statement], name: str, inside: bool = False) -> bool:
    """Returns whether a variable is only used as the counter of separate loops; `inside` one of these loops."""
    for s in body:
        if isinstance(s, For) and s.name == name:
            bounds = any(name in names_in(e) for e in (s.start, s.stop))
            if inside or bounds or not is_only_loop_counter(s.body, name, True):
                return False
            continue
        if name in written_variables(s) or (not inside and any(name in names_in(e) for e in expressions_of(s))):
            return False
        blocks = (s.then, s.other) if isinstance(s, If) else (s.body,) if isinstance(s, While | For) else ()
        if not all(is_only_loop_counter(each, name, inside) for each in blocks):
            return False
    return True


def has_byte_entries(array: Expression) -> bool:
    """Returns whether the entries of an array are bytes."""
    return isinstance(array.kind, ArrayKind) and array.kind.item == "byte"
