"""`Slider`: a number that the user sets on the live page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from ..errors import ArgumentError, ArgumentTypeError
from ..robot.arguments import check_number


@dataclass(frozen=True, slots=True)
class Slider:
    """Slider on the live page; `start` is its initial value, and `unit` is the text after the value."""

    name: str
    low: float
    high: float
    start: float
    unit: str
    group: str

    @classmethod
    def validated(cls, name: str, low: float, high: float, value: float, unit: str, group: str) -> Self:
        """Returns a slider from arguments of `Viewer.add_slider`.

        Raises:
            ArgumentTypeError: a text or number of a wrong type.
            ArgumentError: limits that are not finite and in order, or a value beyond them.
        """
        for argument, text in (("name", name), ("unit", unit), ("group", group)):
            if not isinstance(text, str):
                raise ArgumentTypeError(f"{argument}: expected a str, got {type(text).__name__}")
        low, high, value = check_number("low", low), check_number("high", high), check_number("value", value)
        if not (np.isfinite([low, high, value]).all() and low < high and low <= value <= high):
            raise ArgumentError(f"slider {name!r}: expected low <= value <= high, got {low:g}, {value:g}, {high:g}")
        return cls(name, low, high, value, unit, group)
