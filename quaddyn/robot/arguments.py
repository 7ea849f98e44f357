"""Checks of arguments: numbers, integers, arrays, sequences and vectors of a given shape."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from math import isfinite
from types import UnionType
from typing import Any, Final

import numpy as np
import pinocchio as pin
from numpy.typing import NDArray

from ..errors import ArgumentError, ArgumentTypeError
from ..urdf.tree import Array

#: What is taken for an array of real numbers, see `check_vector`.  Not numpy's ArrayLike, since loops look first
#: whether it is an array that can be used as it is.
Numbers = Any

FLOAT: Final = np.dtype(np.float64)


def check_number(argument: str, value: object) -> float:
    """Returns the value of an argument as a float.

    Raises:
        ArgumentError: the value is an integer beyond the range of floats.
        ArgumentTypeError: the value is not a number.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise ArgumentTypeError(f"{argument}: expected a number, got {type(value).__name__} {str(value)[:40]!r}")
    try:
        return float(value)
    except OverflowError:
        raise ArgumentError(f"{argument}: the integer is beyond the range of floats, 1.8e308") from None


def check_positive(argument: str, value: object, *, zero: bool = False, infinite: bool = False) -> float:
    """Returns the value of an argument as a finite float above zero.

    Args:
        argument: name of the argument, for the message.
        value: value of the argument.
        zero: whether 0 is accepted.
        infinite: whether infinity is accepted.

    Raises:
        ArgumentError: the value is out of range.
        ArgumentTypeError: the value is not a number.
    """
    x = check_number(argument, value)
    if not ((x > 0.0 or (zero and x == 0.0)) and (infinite or isfinite(x))):
        raise ArgumentError(f"{argument}: expected a {'number >= 0' if zero else 'positive number'}, got {x}")
    return x


def check_integer(argument: str, value: object, *, least: int = 1) -> int:
    """Returns the value of an argument as an int.

    Args:
        argument: name of the argument, for the message.
        value: value of the argument.
        least: smallest accepted value.

    Raises:
        ArgumentError: the value is not an integer, or too small.
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ArgumentError(f"{argument}: expected a whole number >= {least}, got {value!r}")
    return int(value)


def check_type(argument: str, value: object, kind: type | UnionType, expected: str) -> None:
    """Raises `ArgumentTypeError` unless `value` is of a type; `expected` describes it, such as "a plant"."""
    if not isinstance(value, kind):
        raise ArgumentTypeError(f"{argument}: expected {expected}, got {type(value).__name__}")


def check_array(argument: str, value: object) -> NDArray[np.float64]:
    """Returns the value of an argument as a float64 array; the caller checks shape and values.

    Raises:
        ArgumentError: an entry is an integer beyond the range of floats.
        ArgumentTypeError: an entry is not a number.
    """
    try:
        return np.asarray(value, dtype=np.float64)
    except OverflowError:
        raise ArgumentError(f"{argument}: an integer is beyond the range of floats, 1.8e308") from None
    except (TypeError, ValueError):
        kind = type(value).__name__
        raise ArgumentTypeError(f"{argument}: expected numbers, got {kind} {str(value)[:40]!r}") from None


def check_sequence(argument: str, value: Any, what: str) -> tuple[Any, ...]:
    """Returns the items of an argument that takes several; a single string or path is rejected.

    Raises:
        ArgumentTypeError: a single string or path, or an object that cannot be iterated.
    """
    if isinstance(value, str | bytes | os.PathLike) or not isinstance(value, Iterable):
        raise ArgumentTypeError(
            f"{argument}: expected a sequence of {what}, got {type(value).__name__} {str(value)[:40]!r}"
        )
    return tuple(value)


def check_vector(name: str, value: object, shape: tuple[int, ...], meaning: str) -> Array:
    """Returns the argument as a finite float64 array of `shape`: itself, or converted from other real numbers.

    Args:
        name: name of the argument, for the message.
        value: value of the argument: a list, a tuple, an array of floats or integers of any width.
        shape: the exact shape it must have.
        meaning: what the shape stands for, such as "nq of go2", for the message.

    Raises:
        ArgumentTypeError: not an array of real numbers: strings, complex or boolean values, matrices, masked arrays.
        ArgumentError: another shape, or an entry that is NaN or infinite.
    """
    if type(value) is np.ndarray and value.dtype is FLOAT and value.shape == shape and isfinite(np.vdot(value, value)):
        return value  # the sum of squares is finite: so is every entry; whatever fails here is examined at leisure
    expected = f"numbers of shape {shape} ({meaning})"
    given = value
    if type(given) is not np.ndarray:
        kind = type(given)
        if isinstance(given, np.ma.MaskedArray | np.matrix | str | bytes) or not (
            isinstance(given, Sequence) or hasattr(given, "__array__")
        ):
            advice = "fill the masked entries and pass" if isinstance(given, np.ma.MaskedArray) else "pass"
            advice += " its attribute tau" if name == "tau" and hasattr(given, name) else " a plain array or list"
            raise ArgumentTypeError(f"{name}: expected {expected}, got {kind.__module__}.{kind.__qualname__}; {advice}")
        try:
            given = np.asarray(given)
        except (TypeError, ValueError) as error:
            raise ArgumentTypeError(f"{name}: expected {expected}, got {kind.__name__} ({error})") from None
    if given.dtype.kind not in "fiu":
        got = given.dtype.str if given.dtype.fields is None else given.dtype
        raise ArgumentTypeError(f"{name}: expected {expected}, got dtype {got}")
    array = np.asarray(given, dtype=FLOAT)
    if array.shape != shape:
        advice = f"; pass {name}.ravel()" if array.size == np.prod(shape) else ""
        if not advice and array.ndim == 2 and array.shape[1:] == shape and meaning.startswith(("nq of", "nv of")):
            advice = "; for a batch of states use the functions of qd.compile(robot, ...)"
        raise ArgumentError(f"{name}: expected {expected}, got shape {array.shape}{advice}")
    bad = np.flatnonzero(~np.isfinite(array))
    if bad.size:
        more = f" (and {bad.size - 1} more)" if bad.size > 1 else ""
        raise ArgumentError(f"{name}: every entry must be finite, got {name}[{bad[0]}] = {array.ravel()[bad[0]]}{more}")
    return array


def spatial_vector(value: object) -> Any:
    """Returns the array (6,) of Pinocchio's Force or Motion, linear before angular; other values unchanged."""
    return value.vector if isinstance(value, (pin.Force, pin.Motion)) else value


def check_wrench(name: str, value: object, meaning: str) -> Array:
    """Returns a force (3,), a force and moment (6,), or a ``pinocchio.Force``, as an array; see `check_vector`.

    Raises:
        ArgumentTypeError, ArgumentError: see `check_vector`.
    """
    value = spatial_vector(value)
    size = 6 if isinstance(value, Sequence | np.ndarray) and len(np.atleast_1d(value)) == 6 else 3
    return check_vector(name, value, (size,), meaning)
