"""`TickProblem`: the levels of one tick as plain matrices, with the names of their rows.

The certificate of a tick consists of its status and a report of each level.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..deprecation import renamed_attributes
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


Outcome = Literal["solved", "infeasible", "inaccurate", "fallback"]

#: Distance from its bound within which a limit is active, as a weighted value [m/s^2].
ACTIVE_LIMIT_TOLERANCE = 1e-7


@renamed_attributes(solved="ok")
@dataclass(frozen=True, slots=True)
class Status:
    """Status of one tick.

    Attributes:
        outcome: "solved": the command is the strict optimum; "infeasible": level 0 cannot be satisfied, and the command
            is the strict optimum of least violation; "inaccurate": the command is finite, but its residuals exceed the
            tolerances; "fallback": the solver found no finite solution, and the command has zero joint accelerations
            and contact forces, or zero torques if these are not finite.  Otherwise the equations of motion hold.
        violation: largest violation of a row of level 0, as an acceleration [m/s^2] (see `quaddyn.wbc.constraints`).
        kkt: largest residual of the optimality (KKT) conditions, relative to the size of their terms.
    """

    outcome: Outcome
    violation: float
    kkt: float

    @property
    def ok(self) -> bool:
        """Whether the command is the strict optimum and satisfies level 0."""
        return self.outcome == "solved"

    def __str__(self) -> str:
        return (
            f"{self.outcome} (level 0 violated by up to {self.violation:.1e} m/s^2, relative KKT residual "
            f"{self.kkt:.1e})"
        )


@dataclass(frozen=True, slots=True, eq=False)
class LevelReport:
    """Report about one level.

    Attributes:
        residual: norm of the residuals of the equalities and of the violations of the limits, each times its weight.
        rank: number of linearly independent directions that the level determined.
        tasks: (rows,) target minus achieved value by task, in the units of the rows.
        violations: largest violation by name of each violated limit, in the unit of the limit.
        active: names of the limits that are active.
    """

    residual: float
    rank: int
    tasks: Mapping[str, Array]
    violations: Mapping[str, float]
    active: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class TickDetails:
    """Optimization problem of a tick and its solution.

    Attributes:
        problem: the problem, level by level.
        x: (n,) solution: accelerations of the actuated joints, then contact forces divided by the robot's mass.
        ranks: rank of each level, as the solver found it.
        resolve: function that solves a modified problem like the controller, for explanations.
        remarks: further sentences for explanations, such as about joint friction.
        nonviable: names of joints and pairs outside their viable set; see `Command.nonviable`.
        has_fixed_root: whether the robot needs no contacts, because its base is fixed.
    """

    problem: TickProblem
    x: Array
    ranks: tuple[int, ...]
    resolve: Callable[[TickProblem], Array]
    remarks: tuple[str, ...] = ()
    nonviable: tuple[str, ...] = ()
    has_fixed_root: bool = False


def make_level_report(details: TickDetails, k: int) -> LevelReport:
    """Returns the report of level k."""
    tasks: dict[str, Array] = {}
    violations: dict[str, float] = {}
    active: list[str] = []
    sum_of_squares = 0.0
    for group in details.problem.levels[k]:
        y = group.A @ details.x
        residuals = np.where(group.is_equality, group.lower - y, 0.0)
        violation = np.where(
            group.is_equality, 0.0, np.maximum(y - group.upper, 0.0) + np.maximum(group.lower - y, 0.0)
        )
        sum_of_squares += float(np.sum((group.weights * (residuals + violation)) ** 2))
        if group.is_equality.any():
            task_residuals = residuals[group.is_equality]
            tasks[group.element] = (
                np.concatenate((tasks[group.element], task_residuals)) if group.element in tasks else task_residuals
            )
        for i in active_rows(group, y):
            if group.names[i] not in active:
                active.append(group.names[i])
        for name, amount, weight in zip(group.names, violation.tolist(), group.weights.tolist(), strict=True):
            if weight * amount > ACTIVE_LIMIT_TOLERANCE:
                violations[name] = max(amount, violations.get(name, 0.0))
    return LevelReport(float(np.sqrt(sum_of_squares)), details.ranks[k], tasks, violations, tuple(active))


def active_rows(group: RowGroup, y: Array) -> list[int]:
    """Returns the indices of the rows of `group` whose limit is active at ``A x = y``."""
    slack = group.weights * np.minimum(y - group.lower, group.upper - y)
    return [int(i) for i in np.flatnonzero(~group.is_equality & (slack <= ACTIVE_LIMIT_TOLERANCE))]
