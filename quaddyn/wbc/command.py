"""`Command`: what is asked of the motors, with the certificate that it is what was asked of the controller."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from ..urdf.tree import Array
from .problem import Group, Problem
from .solving import Outcome


@dataclass(frozen=True, slots=True)
class Status:
    """How a tick went.

    Attributes:
        outcome: "solved": the strict optimum; "infeasible": the strict optimum of least violation, since level 0
            cannot be met; "inaccurate": finite, but its certificate is beyond tolerance; "fallback": the solver had no
            finite answer and a damped least-squares one stands in.  In all four the equations of motion hold.
        path: "dense", or "compiled" for the fast path.
        violation: largest violation of a level-0 row, as an acceleration [m/s^2] (see `quaddyn.wbc.constraints`).
        kkt: largest residual of the optimality conditions.
    """

    outcome: Outcome
    path: Literal["dense", "compiled"]
    violation: float
    kkt: float

    @property
    def ok(self) -> bool:
        """Whether this is the strict optimum and level 0 holds."""
        return self.outcome == "solved"

    def __str__(self) -> str:
        return f"{self.outcome} ({self.path} path, level 0 to {self.violation:.1e} m/s^2, KKT to {self.kkt:.1e})"


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
    """What stands behind a command: the problem, its solution x, and the ranks that the solver found.

    Attributes:
        problem: the levels.
        x: (n,) the solution.
        ranks: per level.
        resolve: solves a changed problem in the same way, for explanations.
    """

    problem: Problem
    x: Array
    ranks: tuple[int, ...]
    resolve: Callable[[Problem], Array]


class Command:
    """Torques, and everything that was decided with them.

    Attributes:
        tau: (nu,) torques of the actuated joints [N m].
        acceleration: (nv,) accelerations that result [m/s^2, rad/s^2].
        forces: by contact, (3,) at a point or (6,) on a surface, on the robot at the contact point, world axes
            [N, N m].
        status: `Status`.
        details: `Details`, the problem behind the command.
        levels: `LevelReport` of each level.
    """

    __slots__ = ("acceleration", "details", "forces", "levels", "status", "tau")

    acceleration: Array
    details: Details
    forces: Mapping[str, Array]
    levels: tuple[LevelReport, ...]
    status: Status
    tau: Array

    #: By name, how an attribute is made when it is first read.
    made: ClassVar[dict[str, Callable[[Any], Any]]] = {}

    def __init__(
        self, tau: Array, acceleration: Array, forces: Mapping[str, Array], status: Status, details: Details
    ) -> None:
        self.tau, self.acceleration, self.forces, self.status = tau, acceleration, forces, status
        self.details = details

    def __getattr__(self, name: str) -> Any:
        make = type(self).made.get(name)
        if make is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        value = make(self)
        setattr(self, name, value)
        return value

    @property
    def margins(self) -> Mapping[str, float]:
        """By name of a limit, the least distance to its bounds in its own unit; negative where it is violated."""
        out: dict[str, float] = {}
        found = self.details
        for groups in found.problem.levels:
            for group in groups:
                y = group.A @ found.x
                slack = np.minimum(y - group.lower, group.upper - y)
                for name, wanted, room in zip(group.names, group.wanted.tolist(), slack.tolist(), strict=True):
                    if not wanted:
                        out[name] = min(room, out.get(name, np.inf))
        return out

    def explain(self, *, threshold: float = 1e-3, last: bool = False) -> str:
        """In words, what was lost to what; see `quaddyn.wbc.explanation`, which solves again for every suspect.

        Args:
            threshold: losses below this are not worth a sentence, in the rows' own units.
            last: also of the last of three or more levels, whose wishes are there to fill what the others leave.
        """
        from .explanation import explain

        return explain(self, threshold=threshold, last=last)

    def __repr__(self) -> str:
        return f"Command({self.status}, max|tau| = {np.abs(self.tau).max(initial=0.0):.4g} N m)"


#: A limit counts as reached within this distance, relative to its size or to 1 m/s^2.
REACHED = 1e-7


def _report(found: Details, k: int) -> LevelReport:
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


def _levels(command: Command) -> tuple[LevelReport, ...]:
    found = command.details
    return tuple(_report(found, k) for k in range(len(found.problem.levels)))


Command.made = {"levels": _levels}


def active_rows(group: Group, y: Array) -> list[int]:
    """Rows of `group` whose limit is reached at ``A x = y``."""
    slack = group.weights * np.minimum(y - group.lower, group.upper - y)
    return [int(i) for i in np.flatnonzero(~group.wanted & (slack <= REACHED))]
