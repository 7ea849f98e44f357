"""Signatures of compiled functions, and compile errors that name file and line."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NoReturn

from ..errors import CompileError
from .kinds import NOTHING, Kind, kind_of

#: (name, kind) of each parameter, and the kind of the result.
Signature = tuple[tuple[tuple[str, Kind], ...], Kind]


@dataclass(frozen=True, slots=True)
class DecoratorOptions:
    """Options of the decorator of a compiled function; `inline` as in `Function`."""

    inline: bool | None = None


def options_of(target: object) -> DecoratorOptions | None:
    """Returns the decorator options of a compiled function, None for other objects."""
    options = getattr(target, "__compiled__", None)
    return options if isinstance(options, DecoratorOptions) else None


def signature_of(target: Any) -> Signature | None:
    """Returns parameters and result kind of a compiled function, None for other objects.

    Raises:
        CompileError: an annotation is missing or is not a kind that can be compiled.
    """
    return None if options_of(target) is None else _signature(inspect.unwrap(target))


@lru_cache(maxsize=4096)
def _signature(function: Any) -> Signature:
    scope, annotations = function.__globals__, function.__annotations__
    parameters = []
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is not parameter.POSITIONAL_OR_KEYWORD:
            raise_compile_error(
                function, 0, f"parameter {name!r}: * and ** parameters are not supported in compiled code"
            )
        kind = kind_of(annotations.get(name, "?"), scope)
        if kind is None or kind == NOTHING:
            raise_compile_error(
                function, 0, f"parameter {name!r}: must be annotated with a kind of quaddyn.compiler.kinds"
            )
        parameters.append((name, kind))
    returns = kind_of(annotations.get("return", "?"), scope)
    if returns is None:
        raise_compile_error(function, 0, "the return annotation must be a kind of quaddyn.compiler.kinds, or None")
    return tuple(parameters), returns


def raise_compile_error(target: Any, line: int, reason: str) -> NoReturn:
    """Raises an error about a function.

    Args:
        target: the function.
        line: line of the error, counted from the first line of the function's source.
        reason: text of the error.

    Raises:
        CompileError: always.
    """
    function = inspect.unwrap(target)
    code = function.__code__
    raise CompileError(f"{code.co_filename}:{code.co_firstlineno + line}: {function.__name__}: {reason}")
