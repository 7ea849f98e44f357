"""Which variables and which memory statements and expressions name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .kinds import LANES, ArrayKind
from .lifetimes import expressions, statements
from .syntax import (
    Assign,
    Binary,
    Call,
    Constant,
    Element,
    Expression,
    For,
    If,
    Intrinsic,
    Name,
    Size,
    Statement,
    Targets,
    While,
)

Target = Name | Element | Targets | None


def touches(e: Expression) -> bool:
    """Whether memory is read or written for a value."""
    return any(isinstance(x, Element | Call) or (isinstance(x, Intrinsic) and x.kind == LANES) for x in e.within())


def names_in(e: Expression) -> Iterator[str]:
    """Variables in an expression."""
    return (x.name for x in e.within() if isinstance(x, Name))


def targeted(target: Target) -> set[str]:
    """Variables that are assigned to."""
    if isinstance(target, Targets):
        return set().union(*map(targeted, target.items))
    return {target.name} if isinstance(target, Name) else set()


def written(s: Statement) -> set[str]:
    """Variables that a statement assigns to, without those of statements in it."""
    return targeted(s.target) if isinstance(s, Assign) else {s.name} if isinstance(s, For) else set()


def mentions(s: Statement) -> set[str]:
    """Variables that a statement names, in its blocks too."""
    out: set[str] = set()
    for each, _ in statements((s,)):
        out |= written(each)
        for e in expressions(each):
            out |= set(names_in(e))
    return out


def names_read(body: Sequence[Statement]) -> Iterator[str]:
    """Variables whose values are wanted."""
    for s, _ in statements(body):
        for e in expressions(s):
            yield from names_in(e)


def lasts(e: Expression, changed: set[str]) -> bool:
    """Whether a value is the same whenever it is computed again while these variables change."""
    if isinstance(e, Size):
        return isinstance(e.array, Name) and e.array.name not in changed
    if isinstance(e, Name):
        return e.name not in changed
    if isinstance(e, Binary) and e.op in ("+", "-", "*"):
        return lasts(e.left, changed) and lasts(e.right, changed)
    return isinstance(e, Constant)


def within_one_block(s: Statement, name: str) -> bool:
    """Whether all that names a variable in a statement is in one of its blocks."""
    if any(name in names_in(e) for e in expressions(s)) or name in written(s):
        return False
    if isinstance(s, If):
        return not all(any(name in mentions(each) for each in block) for block in (s.then, s.other))
    return isinstance(s, While | For)


def only_counts(body: Sequence[Statement], name: str, inside: bool = False) -> bool:
    """Whether a variable is nothing but the counter of loops, each for itself; `inside` one of them."""
    for s in body:
        if isinstance(s, For) and s.name == name:
            bounds = any(name in names_in(e) for e in (s.start, s.stop))
            if inside or bounds or not only_counts(s.body, name, True):
                return False
            continue
        if name in written(s) or (not inside and any(name in names_in(e) for e in expressions(s))):
            return False
        blocks = (s.then, s.other) if isinstance(s, If) else (s.body,) if isinstance(s, While | For) else ()
        if not all(only_counts(each, name, inside) for each in blocks):
            return False
    return True


def byte(array: Expression) -> bool:
    """Whether the entries of an array are bytes."""
    return isinstance(array.kind, ArrayKind) and array.kind.item == "byte"
