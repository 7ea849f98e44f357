"""Analysis of the variables and the memory that statements and expressions read and write."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .kinds import LANES, ArrayKind, RecordKind
from .local_arrays import expressions_of, walk_statements
from .typed_tree import (
    Assign,
    AxisLength,
    Binary,
    Call,
    Constant,
    Expression,
    Field,
    For,
    Function,
    If,
    Intrinsic,
    MakeTuple,
    Name,
    Statement,
    Subscript,
    Targets,
    While,
)

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
