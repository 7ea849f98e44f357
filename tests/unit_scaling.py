"""Dimensional analysis of compiled functions: results do not depend on the units of length, mass and time."""

from __future__ import annotations

import copy
import functools
import inspect
import math
import re
from typing import Any

import numpy as np
import test_simulation_compiled
from symmetry import assert_symmetric
from test_simulation_compiled import as_python, assert_close

from quaddyn.compiler import Entry

#: Sizes of new units of length, mass and time.  Powers of two change no digit, and therefore no comparison.
LENGTH, MASS, TIME = 4.0, 0.25, 2.0
FACTORS = {"m": LENGTH, "kg": MASS, "s": TIME, "N": MASS * LENGTH / TIME**2}

#: Units of arguments that docstrings describe elsewhere.
DESCRIPTIONS = {
    **dict.fromkeys(("error_x", "error_y", "height", "offset_x", "offset_y", "position", "clearance"), "[m]"),
    **dict.fromkeys(("length", "distance", "min_height", "feet", "point"), "[m]"),
    **dict.fromkeys(("time", "duration", "dt"), "[s]"),
    **dict.fromkeys(("x", "y", "touchdown_speed", "rate"), "[m/s]"),
    "velocity": "[m/s, rad/s]",
    "yaw_rate": "[rad/s]",
}


def unit_factor(unit: str) -> float:
    """The factor of a quantity by its unit, such as "N m" or "m/s^2"; alternatives such as "rad or m" count first."""
    top, *below = unit.split(" or ")[0].split(",")[0].split("/")
    factors = [
        FACTORS.get(match[1], 1.0) ** (sign * int(match[2] or 1))
        for sign, part in [(1, top), *((-1, each) for each in below)]
        for match in re.finditer(r"([A-Za-z]+)(?:\^(\d))?", part)
    ]
    return math.prod(factors)


def described_factors(text: str) -> list[float]:
    """The factors of all units in a description."""
    return [unit_factor(each) for unit in re.findall(r"\[([^\]]*[a-zA-Z][^\]]*)\]", text) for each in unit.split(", ")]


@functools.cache
def field_descriptions(cls: type) -> dict[str, str]:
    """The comment of each field of a record."""
    return dict(re.findall(r"^    (\w+): [^#\n]*(?:#(.*))?$", inspect.getsource(cls), re.MULTILINE))


@functools.cache
def argument_descriptions(entry: Entry) -> dict[str, str]:
    """The description of each argument, and of the result under "return"."""
    text = inspect.getdoc(entry.python) or ""
    head, _, rest = text.partition("\nArgs:")
    out = {name: " ".join(words.split()) for name, words in re.findall(r"\n    (\w+): (.*(?:\n {6,}.*)*)", rest)}
    returns = rest.partition("\nReturns:")[2] or head.partition("Returns:")[2] or head
    return out | {"return": " ".join(returns.split())}


def scaled(value: Any, text: str = "") -> Any:
    """A copy of a quantity in the new units."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        texts = field_descriptions(type(value))
        parts = [scaled(x, texts.get(name, "")) for name, x in zip(value._fields, value, strict=True)]
        return type(value)(*parts)
    factors = described_factors(text) or [1.0]
    if len(factors) == 2:  # two components of one unit, and one of another, such as velocities and a yaw rate
        factors = [factors[0], *factors]
    if isinstance(value, tuple):
        pairs = zip(value, factors if len(factors) == len(value) else factors[:1] * len(value), strict=True)
        return tuple(
            scaled(x, text) if hasattr(x, "_fields") else x * k if isinstance(x, float) else x for x, k in pairs
        )
    if isinstance(value, np.ndarray) and value.dtype == np.float64:
        return np.asarray(value * (factors if len(factors) == 3 == value.shape[-1] else factors[0]))
    return float(value * factors[0]) if isinstance(value, float) else copy.deepcopy(value)


def assert_compiled_equals_python(entry: Entry, *arguments: Any, **units: str) -> Any:
    """Asserts equal results in machine code, in Python, in other units, elsewhere and mirrored; returns the result.

    Args:
        entry: the function.
        arguments: its arguments.
        units: units of arguments in brackets, by name, if they differ from `DESCRIPTIONS` and the docstring.
    """
    texts = DESCRIPTIONS | argument_descriptions(entry) | units
    names = list(inspect.signature(entry.python).parameters)
    other = [scaled(x, texts.get(name, "")) for name, x in zip(names, arguments, strict=True)]
    mine = copy.deepcopy(arguments)
    with as_python():
        expected = scaled(entry.python(*mine), texts["return"])
        assert_close(entry.python(*other), expected, entry.__name__)
    for name, x, y in zip(names, other, mine, strict=True):
        assert_close(x, scaled(y, texts.get(name, "")), f"{entry.__name__}.{name}")
    assert_symmetric(entry, *arguments)
    return test_simulation_compiled.assert_compiled_equals_python(entry, *arguments)
