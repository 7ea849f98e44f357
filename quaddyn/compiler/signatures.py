"""Signatures of compiled functions, and refusals that name file and line."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NoReturn

from ..errors import CompileError
from .kinds import NOTHING, Kind, kind_of

#: Parameters, a name and a kind each, and what is returned.
Signature = tuple[tuple[tuple[str, Kind], ...], Kind]


@dataclass(frozen=True, slots=True)
class DecoratorOptions:
    """Options of a decorator: `inline` as in `Function`."""

    inline: bool | None = None


def options_of(target: object) -> DecoratorOptions | None:
    """Of a function that may be called by compiled ones; None if it may not."""
    found = getattr(target, "__compiled__", None)
    return found if isinstance(found, DecoratorOptions) else None


def signature_of(target: Any) -> Signature | None:
    """Parameters and result of a compiled function, None if it is none.

    Raises:
        CompileError: an annotation is missing or names nothing that can be compiled.
    """
    return None if options_of(target) is None else _signature(inspect.unwrap(target))


@lru_cache(maxsize=4096)
def _signature(function: Any) -> Signature:
    scope, notes = function.__globals__, function.__annotations__
    parameters = []
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is not parameter.POSITIONAL_OR_KEYWORD:
            raise_compile_error(function, 0, f"parameter {name!r}: parameters must be plain, without *")
        kind = kind_of(notes.get(name, "?"), scope)
        if kind is None or kind == NOTHING:
            raise_compile_error(function, 0, f"parameter {name!r}: annotate it with a kind of quaddyn.compiler.kinds")
        parameters.append((name, kind))
    returns = kind_of(notes.get("return", "?"), scope)
    if returns is None:
        raise_compile_error(function, 0, "the return annotation must be a kind of quaddyn.compiler.kinds, or None")
    return tuple(parameters), returns


def raise_compile_error(target: Any, line: int, reason: str) -> NoReturn:
    """Raise an error about a function, so many lines below the first of its source.

    Raises:
        CompileError: always.
    """
    function = inspect.unwrap(target)
    code = function.__code__
    raise CompileError(f"{code.co_filename}:{code.co_firstlineno + line}: {function.__name__}: {reason}")
