"""`Block`: the numbers of an element in one flat array, which a controller keeps beside those of all its others.

So compiled code reads every gain, reference and limit of a tick as one array, and nothing is copied when one changes.
"""

from __future__ import annotations

from typing import Any, overload

import numpy as np

from ..errors import ArgumentError
from ..robot.arguments import number
from ..urdf.tree import Array


class Block:
    """Something that keeps its numbers in `block`.

    Attributes:
        block: flat, float64.
    """

    block: Array

    def move(self, block: Array) -> None:
        """Keep the numbers in `block` from now on, an array of the same size."""
        block[:] = self.block
        self._attach(block)

    def _attach(self, block: Array) -> None:
        self.block = block


class Scalar:
    """One number of a `Block` as an attribute, not negative.

    Args:
        at: where it is.
    """

    def __init__(self, at: int) -> None:
        self.at = at

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, owner: None, kind: type) -> Scalar: ...
    @overload
    def __get__(self, owner: Block, kind: type) -> float: ...
    def __get__(self, owner: Block | None, kind: type) -> Scalar | float:
        return self if owner is None else float(owner.block[self.at])

    def __set__(self, owner: Block, value: float) -> None:
        given = number(self.name, value)
        if not 0.0 <= given < np.inf:
            raise ArgumentError(f"{self.name}: expected a finite number >= 0, got {value}")
        owner.block[self.at] = given


class Vector:
    """One of several vectors of the same length in a `Block` as an attribute: a view, set by value.

    Args:
        start: where the first of them begins.
        count: how many there are, up to the end of the block.
        row: which one this is.
    """

    def __init__(self, start: int = 0, count: int = 1, row: int = 0) -> None:
        self.start, self.count, self.row = start, count, row

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, owner: None, kind: type) -> Vector: ...
    @overload
    def __get__(self, owner: Block, kind: type) -> Array: ...
    def __get__(self, owner: Block | None, kind: type) -> Vector | Array:
        if owner is None:
            return self
        size = (len(owner.block) - self.start) // self.count
        return owner.block[self.start + self.row * size : self.start + (self.row + 1) * size]

    def __set__(self, owner: Block, value: Any) -> None:
        to, given = self.__get__(owner, type(owner)), np.asarray(value, dtype=np.float64)
        if given.shape not in ((), to.shape) or np.isnan(given).any():
            raise ArgumentError(f"{self.name}: expected a number or {len(to)} of them, no NaN, got {value}")
        to[:] = given
