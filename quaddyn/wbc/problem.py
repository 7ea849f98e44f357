"""`Problem`: the levels of one tick as plain matrices, with the names of their rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

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


@dataclass(frozen=True, slots=True, eq=False)
class Stack:
    """All rows of one level, the groups one after the other; arrays as in `Group`.

    Attributes:
        groups: per group its owner, the names of its rows and their unit.
    """

    groups: tuple[tuple[str, tuple[str, ...], str], ...]
    A: Array
    lower: Array
    upper: Array
    offset: Array
    weights: Array

    @staticmethod
    def of(elimination: Elimination, rows: Sequence[tuple[str, Rows]]) -> Stack:
        """The rows of a level, given over accelerations, forces and torques."""
        e = elimination
        m = sum(len(part.lower) for _, part in rows)
        A, offset = np.zeros((m, e.n)), np.zeros(m)
        lower, upper, weights = np.zeros(m), np.zeros(m), np.ones(m)
        a, f, tau = np.zeros((m, len(e.h))), A[:, e.nu :], np.zeros((m, e.nu))
        moves = turns = False
        start = 0
        for _, part in rows:
            here = slice(start, start + len(part.lower))
            start = here.stop
            lower[here], upper[here] = part.lower, part.upper
            if part.weights is not None:
                weights[here] = part.weights
            if part.acceleration is not None:
                a[here], moves = part.acceleration, True
            if part.force is not None:
                f[here] = part.force
            if part.torque is not None:
                tau[here], turns = part.torque, True
        f *= e.mass
        if moves:
            A += a @ e.T
            offset += a @ e.t
        if turns:
            A += tau @ e.W
            offset += tau @ e.w
        groups = tuple((owner, part.names, part.unit) for owner, part in rows)
        return Stack(groups, A, lower - offset, upper - offset, offset, weights)

    @staticmethod
    def joined(groups: Sequence[Group], n: int) -> Stack:
        """The stack of given groups."""
        parts = [np.concatenate([np.zeros((0, n)), *(g.A for g in groups)])]
        for name in ("lower", "upper", "offset", "weights"):
            parts.append(np.concatenate([np.zeros(0), *(getattr(g, name) for g in groups)]))
        return Stack(tuple((g.owner, g.names, g.unit) for g in groups), *parts)

    def split(self) -> tuple[Group, ...]:
        """Its groups, as views."""
        out, start = [], 0
        for owner, names, unit in self.groups:
            here = slice(start, start + len(names))
            start = here.stop
            parts = (self.A[here], self.lower[here], self.upper[here], self.offset[here], self.weights[here])
            out.append(Group(owner, names, unit, *parts))
        return tuple(out)


@dataclass(frozen=True, slots=True, eq=False)
class LevelRows:
    """One level's rows times their weights: ``A x = b`` wanted, ``lower <= C x <= upper`` limits."""

    A: Array
    b: Array
    C: Array
    lower: Array
    upper: Array


class Problem:
    """The levels of one tick, the first the most important.

    Args:
        stacks: the levels.
        n: size of x.

    Attributes:
        stacks, n: as given.
        shape: per level, how many values are wanted and how many limits there are: what a warm start must share.
    """

    __slots__ = ("_levels", "_wanted", "n", "shape", "stacks")

    def __init__(self, stacks: Sequence[Stack], n: int) -> None:
        self.stacks, self.n = tuple(stacks), n
        self._wanted = tuple(stack.lower == stack.upper for stack in self.stacks)
        counts = [(int(np.count_nonzero(w)), len(w)) for w in self._wanted]
        self.shape = tuple((wanted, rows - wanted) for wanted, rows in counts)
        self._levels: tuple[tuple[Group, ...], ...] | None = None

    @staticmethod
    def of(elimination: Elimination, levels: Sequence[Sequence[tuple[str, Rows]]]) -> Problem:
        """The problem over x of rows given over accelerations, forces and torques."""
        return Problem([Stack.of(elimination, level) for level in levels], elimination.n)

    @property
    def levels(self) -> tuple[tuple[Group, ...], ...]:
        """Groups by level."""
        if self._levels is None:
            self._levels = tuple(stack.split() for stack in self.stacks)
        return self._levels

    def matrices(self) -> list[LevelRows]:
        """What the solver of hierarchies takes."""
        out = []
        for stack, wanted in zip(self.stacks, self._wanted, strict=True):
            limits = ~wanted
            w, v = stack.weights[wanted], stack.weights[limits]
            out.append(
                LevelRows(
                    A=stack.A[wanted] * w[:, None],
                    b=stack.lower[wanted] * w,
                    C=stack.A[limits] * v[:, None],
                    lower=stack.lower[limits] * v,
                    upper=stack.upper[limits] * v,
                )
            )
        return out

    def violation(self, x: Array) -> float:
        """Largest weighted violation of a row of level 0."""
        stack = self.stacks[0]
        y = stack.A @ x
        over = np.maximum(y - stack.upper, stack.lower - y) * stack.weights
        return max(0.0, float(over.max(initial=0.0)))

    def without(self, level: int, group: int) -> Problem:
        """The same problem had a group said nothing; other groups keep their places."""
        groups = list(self.levels[level])
        none, gone = np.zeros(0), groups[group]
        groups[group] = replace(
            gone, names=(), A=np.zeros((0, self.n)), lower=none, upper=none, offset=none, weights=none
        )
        stacks = list(self.stacks)
        stacks[level] = Stack.joined(groups, self.n)
        return Problem(stacks, self.n)
