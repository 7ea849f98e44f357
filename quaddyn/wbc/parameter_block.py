"""`ParameterBlock`: the parameters of an element in one flat array, which a controller moves into one vector.

Compiled code reads every gain, reference and limit of a tick as one array, and a changed parameter needs no copy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, overload

import numpy as np

from ..errors import ArgumentError
from ..robot.arguments import check_array, check_number
from ..strict_attributes import StrictAttributes
from ..urdf.tree import Array


class ParameterBlock(StrictAttributes, fixed=("block",)):
    """Base class of objects whose parameters are in one array.

    Attributes:
        block: flat float64 array of the parameters.
    """

    block: Array

    #: Function that is called when the block is moved to another controller.
    _on_moved: Callable[[], None] | None = None

    def move(self, block: Array, on_moved: Callable[[], None] | None = None) -> None:
        """Moves the parameters to another array.

        Args:
            block: array of the same size.
            on_moved: function to call when the parameters are moved again; None for none.
        """
        if self._on_moved is not None:
            self._on_moved()
        self._on_moved = on_moved
        block[:] = self.block
        self._attach(block)

    def release(self) -> None:
        """Moves the parameters to a new array, which belongs to no controller."""
        self._on_moved = None
        self._attach(np.array(self.block))

    def _attach(self, block: Array) -> None:
        """Sets the array of the parameters."""
        object.__setattr__(self, "block", block)  # read-only for users

    def __getstate__(self) -> dict[str, Any]:
        """Returns the state of a copy, which belongs to no controller."""
        return self.__dict__ | {"_on_moved": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._attach(np.array(self.block))


class ScalarParameter:
    """Descriptor of one nonnegative number of a `ParameterBlock`.

    Args:
        at: index in the block.
        zero: whether it may be zero.
    """

    def __init__(self, at: int, *, zero: bool = True) -> None:
        self.at, self.zero = at, zero

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, owner: None, kind: type) -> ScalarParameter: ...
    @overload
    def __get__(self, owner: ParameterBlock, kind: type) -> float: ...
    def __get__(self, owner: ParameterBlock | None, kind: type) -> ScalarParameter | float:
        return self if owner is None else float(owner.block[self.at])

    def __set__(self, owner: ParameterBlock, value: float) -> None:
        given = check_number(self.name, value)
        if not (0.0 <= given < np.inf and (self.zero or given > 0.0)):
            raise ArgumentError(f"{self.name}: expected a finite number {'>=' if self.zero else '>'} 0, got {value}")
        owner.block[self.at] = given


class VectorParameter:
    """Descriptor of one of several vectors of equal length in a `ParameterBlock`: reads as a view, is set by value.

    Args:
        start: index of the first of the vectors.
        count: number of vectors, up to the end of the block.
        row: index of this vector.
        minimum: smallest value of an entry.
        finite: whether entries must be finite.
    """

    def __init__(
        self, start: int = 0, count: int = 1, row: int = 0, *, minimum: float = -np.inf, finite: bool = False
    ) -> None:
        self.start, self.count, self.row, self.minimum, self.finite = start, count, row, minimum, finite

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, owner: None, kind: type) -> VectorParameter: ...
    @overload
    def __get__(self, owner: ParameterBlock, kind: type) -> Array: ...
    def __get__(self, owner: ParameterBlock | None, kind: type) -> VectorParameter | Array:
        if owner is None:
            return self
        size = (len(owner.block) - self.start) // self.count
        return owner.block[self.start + self.row * size : self.start + (self.row + 1) * size]

    def __set__(self, owner: ParameterBlock, value: Any) -> None:
        vector, given = self.__get__(owner, type(owner)), check_array(self.name, value)
        is_valid = (given >= self.minimum) & (np.isfinite(given) | (not self.finite))
        if given.shape not in ((), vector.shape) or not is_valid.all():
            minimum = "" if self.minimum == -np.inf else f", none below {self.minimum:g}"
            condition = "finite" if self.finite else "no NaN"
            raise ArgumentError(
                f"{self.name}: expected a number or {len(vector)} numbers, {condition}{minimum}, got {value}"
            )
        vector[:] = given
