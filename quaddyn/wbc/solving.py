"""`Solver`: problems of whole-body control through the strict hierarchy, each tick helped by the one before."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..hierarchy import Buffers, HierarchySolution, HierarchySolver, Level, solve
from ..urdf.tree import Array
from .problem import LevelRows, Problem

Outcome = Literal["solved", "infeasible", "inaccurate", "fallback"]

#: Level-0 violation [m/s^2] up to which level 0 counts as met.
VIOLATION = 1e-6

#: Slope of the squared violation of level 0, relative to its terms, up to which it is the least.
STATIONARY = 1e-6

#: Shapes of problems (sets of contacts, mostly) that memory is kept for.
SHAPES = 64

#: Least damping of the second rung of the ladder, and of the third.
SECOND, THIRD = 1e-6, 1e-4

Memory = NDArray[np.int8]


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """What came of one problem.

    Attributes:
        x: (n,) finite.
        outcome: see `quaddyn.wbc.command.Status`.
        violation: largest weighted violation of a row of level 0 [m/s^2].
        kkt: largest residual of the optimality conditions; inf for a fallback.
        ranks: per level.
    """

    x: Array
    outcome: Outcome
    violation: float
    kkt: float
    ranks: tuple[int, ...]


class Solver:
    """Solves `Problem` after `Problem`; problems of one shape start from the last one's active limits.

    Args:
        rank_tolerance: relative, see `quaddyn.hierarchy.solve`.
        damping: likewise.
        compiled: whether to use the compiled solver, which takes its time on its very first call (see
            `WholeBodyController.warmup`), or the plain one, some twenty times slower.
    """

    def __init__(self, *, rank_tolerance: float, damping: float, compiled: bool) -> None:
        self.rank_tolerance, self.damping, self.compiled = rank_tolerance, damping, compiled
        self._solvers: dict[object, HierarchySolver] = {}
        self._last: dict[object, HierarchySolution] = {}

    # -- memory ----------------------------------------------------------------------------------------------
    def forget(self) -> None:
        """Start cold on every shape."""
        self._solvers.clear()
        self._last.clear()

    def memory(self, problem: Problem) -> Memory | None:
        """The active limits that the next problem of this shape starts from, None for a cold start."""
        if self.compiled:
            solver = self._solvers.get(problem.shape)
            return None if solver is None else solver.memory
        last = self._last.get(problem.shape)
        return None if last is None else np.array(last.working, dtype=np.int8)

    def remember(self, problem: Problem, memory: Memory | None) -> None:
        """Let the next problem of this shape start from `memory`.

        Raises:
            ArgumentError: memory of another shape.
        """
        if memory is None:
            self._solvers.pop(problem.shape, None)
            self._last.pop(problem.shape, None)
        elif self.compiled:
            self._solvers[problem.shape] = solver = HierarchySolver(problem.n, problem.shape)
            solver.memory = memory
        else:
            self._last[problem.shape] = replace(self.plain(problem), working=tuple(memory))

    # -- solving ---------------------------------------------------------------------------------------------
    def decide(self, problem: Problem) -> Decision:
        """The ladder: the exact hierarchy; damped, if its certificate fails; at last damped least squares of all."""
        outcome: Outcome = "solved"
        solution = self.solve(problem)
        if not solution.verified:
            damped = self.plain(problem, damping=max(self.damping, SECOND))
            if damped.kkt < solution.kkt or not np.isfinite(solution.x).all():
                solution = damped
            outcome = "inaccurate"
        elif problem.violation(solution.x) > VIOLATION and not least_violation(problem.matrices()[0], solution.x):
            solution = self.plain(problem)
        x, kkt = solution.x, solution.kkt
        if not np.isfinite(x).all():
            x, kkt, outcome = _least_squares(problem), np.inf, "fallback"
            self.forget()
        violation = problem.violation(x)
        if outcome == "solved" and violation > VIOLATION:
            outcome = "infeasible"
        return Decision(x, outcome, violation, float(kkt), tuple(level.rank for level in solution.levels))

    def solve(self, problem: Problem) -> HierarchySolution:
        """The strict solution, warm; cold once more where a warm start led astray, and by the plain solver at last."""
        shape = problem.shape
        if len(self._solvers) > SHAPES or len(self._last) > SHAPES:
            self.forget()
        if not self.compiled:
            out = self.plain(problem, warm=self._last.get(shape))
            self._last[shape] = out
            return out
        solver = self._solvers.get(shape)
        if solver is None:
            solver = self._solvers[shape] = HierarchySolver(problem.n, shape)
        for rows, to in zip(problem.matrices(), solver.levels, strict=True):
            to.A[...], to.b[...] = rows.A, rows.b
            to.C[...], to.lower[...], to.upper[...] = rows.C, rows.lower, rows.upper
        out = solver.solve(rank_tolerance=self.rank_tolerance, damping=self.damping)
        if not out.verified:
            solver.forget()
            out = solver.solve(rank_tolerance=self.rank_tolerance, damping=self.damping)
        return out if out.verified else self.plain(problem)

    def plain(
        self, problem: Problem, *, warm: HierarchySolution | None = None, damping: float | None = None
    ) -> HierarchySolution:
        """The strict solution by the plain solver."""
        return solve(
            [Level(rows.A, rows.b, C=rows.C, lower=rows.lower, upper=rows.upper) for rows in problem.matrices()],
            rank_tolerance=self.rank_tolerance,
            damping=self.damping if damping is None else damping,
            warm=warm,
        )

    def again(self, problem: Problem) -> Array:
        """The solution by the plain solver, for explanations."""
        return self.plain(problem).x

    def __getstate__(self) -> dict[str, object]:
        """A copy starts cold."""
        return self.__dict__ | {"_solvers": {}, "_last": {}}


def least_violation(level: LevelRows | Buffers, x: Array) -> bool:
    """Whether no other x violates `level` less: its squared violation is stationary at x (and convex)."""
    y = level.C @ x
    lack = np.concatenate((level.A @ x - level.b, np.maximum(y - level.upper, 0.0) - np.maximum(level.lower - y, 0.0)))
    rows = np.concatenate((level.A, level.C))
    slope, size = rows.T @ lack, np.abs(rows).T @ np.abs(lack)
    return bool(np.abs(slope).max() <= STATIONARY * size.max())


def _least_squares(problem: Problem) -> Array:
    """All wanted values at once, upper levels heavier, damped: a finite answer to any finite problem."""
    A, b = [THIRD * np.eye(problem.n)], [np.zeros(problem.n)]
    for k, groups in enumerate(problem.levels):
        for group in groups:
            rows = group.wanted
            weight = 10.0 ** (-2 * k) * group.weights[rows]
            A.append(weight[:, None] * group.A[rows])
            b.append(weight * group.lower[rows])
    return np.asarray(np.linalg.lstsq(np.vstack(A), np.concatenate(b), rcond=None)[0])
