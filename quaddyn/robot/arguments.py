"""Checks of plain arguments: a number is a number, a list of names is no string."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import ArgumentTypeError


def number(argument: str, value: object) -> float:
    """The value of an argument as a float.

    Raises:
        ArgumentTypeError: it is no number.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise ArgumentTypeError(f"{argument}: expected a number, got {type(value).__name__} {str(value)[:40]!r}")
    return float(value)


def floats(argument: str, value: object) -> NDArray[np.float64]:
    """The value of an argument as an array of float64, new or itself; its shape and values are the caller's to judge.

    Raises:
        ArgumentTypeError: something in it is no number.
    """
    try:
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        kind = type(value).__name__
        raise ArgumentTypeError(f"{argument}: expected numbers, got {kind} {str(value)[:40]!r}") from None


def several(argument: str, value: Any, what: str) -> tuple[Any, ...]:
    """The items of an argument that takes several; one alone is a mistake that would fall apart into letters.

    Raises:
        ArgumentTypeError: a single string or path, or nothing that can be iterated.
    """
    if isinstance(value, str | bytes | os.PathLike) or not isinstance(value, Iterable):
        raise ArgumentTypeError(f"{argument}: expected several {what}, got {type(value).__name__} {str(value)[:40]!r}")
    return tuple(value)
