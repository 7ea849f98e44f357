"""`TickProblem`: the levels of one tick as plain matrices, with the names of their rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..urdf.tree import Array


@dataclass(frozen=True, slots=True, eq=False)
class RowGroup:
    """Rows of one element (or of one contact of an element) over x.

    Attributes:
        element: name of the task or constraint.
        names: names of the rows.
        unit: unit of the rows.
        A: (m, n) matrix.
        lower, upper: (m,) bounds of ``A x``; equal for equalities.
        offset: (m,) constants to add to ``A x`` for the values of the rows.
        weights: (m,) weights.
        contact: name of the contact of all its rows, "" for none.
    """

    element: str
    names: tuple[str, ...]
    unit: str
    A: Array
    lower: Array
    upper: Array
    offset: Array
    weights: Array
    contact: str = ""

    @property
    def is_equality(self) -> NDArray[np.bool_]:
        """(m,) mask of the rows that are equalities; the others are limits."""
        return np.asarray(self.lower == self.upper)


@dataclass(frozen=True, slots=True, eq=False)
class LevelRows:
    """Rows of one level times their weights: equalities ``A x = b`` and limits ``lower <= C x <= upper``."""

    A: Array
    b: Array
    C: Array
    lower: Array
    upper: Array


class TickProblem:
    """Levels of one tick, the most important first.

    Args:
        levels: groups of rows by level.
        n: size of x.

    Attributes:
        levels, n: as given.
    """

    __slots__ = ("levels", "n")

    def __init__(self, levels: Sequence[Sequence[RowGroup]], n: int) -> None:
        self.levels, self.n = tuple(tuple(level) for level in levels), n

    @property
    def shape(self) -> tuple[tuple[int, int], ...]:
        """Numbers of equalities and of limits, by level."""
        equalities = [sum(int(np.count_nonzero(g.is_equality)) for g in level) for level in self.levels]
        return tuple(
            (count, sum(len(g.lower) for g in level) - count)
            for count, level in zip(equalities, self.levels, strict=True)
        )

    def matrices(self) -> list[LevelRows]:
        """Returns the matrices of all levels, for the hierarchical solver."""
        return [_stack_groups(level, self.n) for level in self.levels]

    def violation(self, x: Array) -> float:
        """Returns the largest weighted violation of a row of level 0."""
        largest = 0.0
        for group in self.levels[0]:
            y = group.A @ x
            violations = np.maximum(y - group.upper, group.lower - y) * group.weights
            largest = max(largest, float(violations.max(initial=0.0)))
        return largest

    def without_groups(self, *groups: tuple[int, int]) -> TickProblem:
        """Returns the same problem without the rows of some groups; the other groups keep their indices.

        Args:
            groups: level and index in the level of each group.
        """
        levels, empty = [list(each) for each in self.levels], np.zeros(0)
        for level, i in groups:
            levels[level][i] = replace(
                levels[level][i],
                names=(),
                A=np.zeros((0, self.n)),
                lower=empty,
                upper=empty,
                offset=empty,
                weights=empty,
            )
        return TickProblem(levels, self.n)


def _stack_groups(groups: Sequence[RowGroup], n: int) -> LevelRows:
    """Returns the rows of all groups of a level as one `LevelRows`."""
    A = np.concatenate([np.zeros((0, n)), *(g.A for g in groups)])
    lower, upper, weights = (
        np.concatenate([np.zeros(0), *(getattr(g, name) for g in groups)]) for name in ("lower", "upper", "weights")
    )
    equalities = lower == upper
    limits = ~equalities
    equality_weights, limit_weights = weights[equalities], weights[limits]
    return LevelRows(
        A[equalities] * equality_weights[:, None],
        lower[equalities] * equality_weights,
        A[limits] * limit_weights[:, None],
        lower[limits] * limit_weights,
        upper[limits] * limit_weights,
    )
