"""Checks of local arrays, which exist once per call until the function returns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NoReturn

from .kinds import ArrayKind, Kind, RecordKind, ScalarKind
from .typed_tree import (
    Assign,
    Call,
    Evaluate,
    Expression,
    For,
    Function,
    If,
    LocalArray,
    Name,
    Return,
    Statement,
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
    if not any(isinstance(x, LocalArray) for _, _, e in found for x in e.subexpressions()):
        return
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
