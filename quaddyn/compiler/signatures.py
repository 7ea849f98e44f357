"""Signatures of compiled functions, and compile errors that name file and line.

Checks of the arguments that Python passes to an entry, with errors that name what is wrong.
"""

from __future__ import annotations

import enum
import inspect
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NoReturn

import numpy as np

from ..errors import ArgumentTypeError, CompileError
from .kinds import BOOL, FLOAT, INT, NOTHING, ArrayKind, Kind, RecordKind, ScalarKind, kind_of

#: (name, kind) of each parameter, and the kind of the result.
Signature = tuple[tuple[tuple[str, Kind], ...], Kind]


@dataclass(frozen=True, slots=True)
class DecoratorOptions:
    """Options of the decorator of a compiled function; `inline` as in `Function`, `separate` as in `compiled`."""

    inline: bool | None = None
    separate: str = ""


def options_of(target: object) -> DecoratorOptions | None:
    """Returns the decorator options of a compiled function, None for other objects."""
    options = getattr(target, "__compiled__", None)
    return options if isinstance(options, DecoratorOptions) else None


def is_separate(target: object) -> bool:
    """Returns whether a compiled function has a compilation unit other than that of its callers."""
    options = options_of(target)
    return options is not None and bool(options.separate)


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


def can_pass_from_python(kind: Kind) -> bool:
    """Returns whether Python can pass values of a kind: numbers, arrays and records of them."""
    if isinstance(kind, RecordKind):
        return all(can_pass_from_python(field) for _, field in kind.fields)
    return isinstance(kind, ArrayKind) or (isinstance(kind, ScalarKind) and kind in (FLOAT, INT, BOOL))


def check_arguments(which: Any, arguments: tuple[object, ...], *, records: bool = False) -> None:
    """Raises if arguments do not match the parameters of an entry exactly.

    Args:
        which: the entry.
        arguments: the arguments.
        records: whether `arguments` are those of record parameters only.

    Raises:
        ArgumentTypeError: names the argument, the expected type and the given one.
    """
    signature = signature_of(which)
    assert signature is not None
    parameters = [each for each in signature[0] if not records or isinstance(each[1], RecordKind)]
    if len(arguments) != len(parameters):
        names = ", ".join(name for name, _ in parameters)
        raise ArgumentTypeError(f"{which.__name__}: expected the arguments {names}, got {len(arguments)} arguments")
    for x, (name, kind) in zip(arguments, parameters, strict=True):
        _check_value(f"{which.__name__}: {name}", x, kind)


def _check_value(what: str, x: object, kind: Kind) -> None:
    """Raises if a value is not of a kind; `what` names the value in the message."""
    if isinstance(kind, ArrayKind):
        if type(x) is not np.ndarray:
            raise ArgumentTypeError(f"{what}: expected {_array_requirement(kind)}, got {type(x).__name__}")
        if x.dtype != kind.dtype or x.ndim != kind.rank or not (x.flags.c_contiguous and x.flags.aligned):
            order = "" if x.flags.c_contiguous else ", not contiguous"
            raise ArgumentTypeError(
                f"{what}: expected {_array_requirement(kind)}, got {x.dtype} of shape {x.shape}{order}"
            )
    elif isinstance(kind, RecordKind):
        if type(x) is not kind.cls:
            raise ArgumentTypeError(f"{what}: expected {kind.name}, got {type(x).__name__}")
        for value, (name, field) in zip(x, kind.fields, strict=True):  # type: ignore[call-overload]
            _check_value(f"{what}.{name}", value, field)
    else:
        expected_type = {FLOAT: float, INT: int, BOOL: bool}[kind]  # type: ignore[index]
        if type(x) is not expected_type and not (kind == INT and isinstance(x, enum.IntEnum)):
            raise ArgumentTypeError(f"{what}: expected {expected_type.__name__}, got {type(x).__name__}")
        if isinstance(x, int) and not -(2**63) <= x < 2**63:
            raise ArgumentTypeError(f"{what}: expected an int of 64 bits, got {x}")


def _array_requirement(kind: ArrayKind) -> str:
    """Returns the description of an array of this kind for error messages."""
    return f"a C-contiguous array of {kind.dtype} of rank {kind.rank}"


def with_exact_types(x: object, kind: Kind) -> Any:
    """Returns a valid argument as machine code recognizes it.

    Members of an enumeration become ints.  Dtypes become NumPy's own objects, of which unpickled arrays have copies.
    """
    if isinstance(x, enum.IntEnum):
        return int(x)
    if isinstance(kind, ArrayKind):
        assert isinstance(x, np.ndarray)
        return x if x.dtype is kind.dtype else x.view(kind.dtype)
    if isinstance(kind, RecordKind):
        assert isinstance(x, tuple)
        fields = [with_exact_types(value, field) for value, (_, field) in zip(x, kind.fields, strict=True)]
        return kind.cls(*fields) if any(a is not b for a, b in zip(x, fields, strict=True)) else x
    return x


def symbol_name(target: Any) -> str:
    """Returns the symbol of a compiled function: its module's name within the package and its qualified name."""
    function = inspect.unwrap(target)
    module = function.__module__.removeprefix(f"{__package__.partition('.')[0]}.")
    return f"{module}.{function.__qualname__.replace('.<locals>', '')}"
