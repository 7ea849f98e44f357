"""The certificate of a tick: how it went, how each level came out, and the problem behind it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ..deprecation import renamed_attributes
from ..urdf.tree import Array
from .problem import Group, Problem

Outcome = Literal["solved", "infeasible", "inaccurate", "fallback"]

#: A limit counts as reached within this distance, relative to its size or to 1 m/s^2.
REACHED = 1e-7


@renamed_attributes(solved="ok")
@dataclass(frozen=True, slots=True)
class Status:
    """How a tick went.

    Attributes:
        outcome: "solved": the strict optimum; "infeasible": the strict optimum of least violation, since level 0
            cannot be met; "inaccurate": finite, but its certificate is beyond tolerance; "fallback": the solver had no
            finite answer and the minimum-norm one stands in.  In all four the equations of motion hold.
        violation: largest violation of a level-0 row, as an acceleration [m/s^2] (see `quaddyn.wbc.constraints`).
        kkt: largest residual of the optimality conditions.
    """

    outcome: Outcome
    violation: float
    kkt: float

    @property
    def ok(self) -> bool:
        """Whether this is the strict optimum and level 0 holds."""
        return self.outcome == "solved"

    def __str__(self) -> str:
        return f"{self.outcome} (level 0 to {self.violation:.1e} m/s^2, KKT to {self.kkt:.1e})"


@dataclass(frozen=True, slots=True, eq=False)
class LevelReport:
    """How one level came out.

    Attributes:
        residual: weighted norm of what its wanted values lack and its limits are violated by.
        rank: independent directions that it decided.
        tasks: per task, (rows,) wanted minus reached, in the rows' own units.
        violations: by name, how far limits are violated, in their own units; those that hold are left out.
        active: names of its limits that are reached.
    """

    residual: float
    rank: int
    tasks: Mapping[str, Array]
    violations: Mapping[str, float]
    active: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Details:
    """The problem behind a command, its solution x, and the ranks that the solver found.

    Attributes:
        problem: the levels.
        x: (n,) the solution.
        ranks: per level.
        resolve: solves a changed problem in the same way, for explanations.
        remarks: sentences about what is no loss.
        nonviable: what was outside of the states from which a limit can be kept, by name; see `Command.nonviable`.
    """

    problem: Problem
    x: Array
    ranks: tuple[int, ...]
    resolve: Callable[[Problem], Array]
    remarks: tuple[str, ...] = ()
    nonviable: tuple[str, ...] = ()


def report(found: Details, k: int) -> LevelReport:
    """How level k came out."""
    tasks: dict[str, Array] = {}
    violations: dict[str, float] = {}
    active: list[str] = []
    square = 0.0
    for group in found.problem.levels[k]:
        y = group.A @ found.x
        lack = np.where(group.wanted, group.lower - y, 0.0)
        over = np.where(group.wanted, 0.0, np.maximum(y - group.upper, 0.0) + np.maximum(group.lower - y, 0.0))
        square += float(np.sum((group.weights * (lack + over)) ** 2))
        if group.wanted.any():
            mine = lack[group.wanted]
            tasks[group.owner] = np.concatenate((tasks[group.owner], mine)) if group.owner in tasks else mine
        for i in active_rows(group, y):
            if group.names[i] not in active:
                active.append(group.names[i])
        for name, amount, weight in zip(group.names, over.tolist(), group.weights.tolist(), strict=True):
            if weight * amount > REACHED:
                violations[name] = max(amount, violations.get(name, 0.0))
    return LevelReport(float(np.sqrt(square)), found.ranks[k], tasks, violations, tuple(active))


def active_rows(group: Group, y: Array) -> list[int]:
    """Rows of `group` whose limit is reached at ``A x = y``."""
    slack = group.weights * np.minimum(y - group.lower, group.upper - y)
    return [int(i) for i in np.flatnonzero(~group.wanted & (slack <= REACHED))]
