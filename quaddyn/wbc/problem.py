"""`Problem`: the levels of one tick as plain matrices, with the names of their rows; and their solution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..urdf.tree import Array
from .elimination import Elimination
from .tick import Rows


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """The rows of one task or constraint (or of one contact of it) over x.

    Attributes:
        owner: name of the task or constraint.
        names: of the rows.
        unit: of the rows.
        A: (m, n).
        lower, upper: (m,) bounds of ``A x``; equal where a value is wanted.
        offset: (m,) to be added to ``A x`` for the rows' own value.
        weights: (m,).
    """

    owner: str
    names: tuple[str, ...]
    unit: str
    A: Array
    lower: Array
    upper: Array
    offset: Array
    weights: Array

    @property
    def wanted(self) -> NDArray[np.bool_]:
        """(m,) which rows want a value; the others have limits."""
        return np.asarray(self.lower == self.upper)

    def without(self) -> Group:
        """The same rows, saying nothing."""
        zero = np.zeros(0)
        return Group(self.owner, (), self.unit, np.zeros((0, self.A.shape[1])), zero, zero, zero, zero)


@dataclass(frozen=True, slots=True, eq=False)
class LevelRows:
    """One level's rows times their weights: ``A x = b`` wanted, ``lower <= C x <= upper`` limits."""

    A: Array
    b: Array
    C: Array
    lower: Array
    upper: Array


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """The levels of one tick, the first the most important.

    Attributes:
        levels: groups by level.
        n: size of x.
    """

    levels: tuple[tuple[Group, ...], ...]
    n: int

    @staticmethod
    def of(elimination: Elimination, levels: Sequence[Sequence[tuple[str, Rows]]]) -> Problem:
        """The problem over x of rows given over accelerations, forces and torques."""
        return Problem(
            tuple(tuple(_group(elimination, owner, rows) for owner, rows in level) for level in levels), elimination.n
        )

    @property
    def shape(self) -> tuple[tuple[int, int], ...]:
        """Per level, how many values are wanted and how many limits there are: what a warm start must share."""
        return tuple(
            (
                sum(int(np.count_nonzero(g.wanted)) for g in groups),
                sum(int(np.count_nonzero(~g.wanted)) for g in groups),
            )
            for groups in self.levels
        )

    def matrices(self) -> list[LevelRows]:
        """What the solver of hierarchies takes."""
        return [_level(groups, self.n) for groups in self.levels]

    def without(self, level: int, group: int) -> Problem:
        """The same problem had a group said nothing."""
        levels = [list(groups) for groups in self.levels]
        levels[level][group] = levels[level][group].without()
        return Problem(tuple(map(tuple, levels)), self.n)


def _group(elimination: Elimination, owner: str, rows: Rows) -> Group:
    A, c = elimination.express(rows)
    weights = np.ones(rows.size) if rows.weights is None else rows.weights
    return Group(owner, rows.names, rows.unit, A, rows.lower - c, rows.upper - c, c, weights)


def _level(groups: Sequence[Group], n: int) -> LevelRows:
    A, b, C, lower, upper = [np.zeros((0, n))], [np.zeros(0)], [np.zeros((0, n))], [np.zeros(0)], [np.zeros(0)]
    for g in groups:
        wanted, limits = g.wanted, ~g.wanted
        if wanted.any():
            w = g.weights[wanted]
            A.append(g.A[wanted] * w[:, None])
            b.append(g.lower[wanted] * w)
        if limits.any():
            w = g.weights[limits]
            C.append(g.A[limits] * w[:, None])
            lower.append(g.lower[limits] * w)
            upper.append(g.upper[limits] * w)
    return LevelRows(*(np.concatenate(parts) for parts in (A, b, C, lower, upper)))
