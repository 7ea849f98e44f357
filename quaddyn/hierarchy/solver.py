"""`HierarchySolver`: hierarchies of one shape, many times a second."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import ArgumentError
from .core import solve_buffers
from .level import Array, Level, check_levels, check_options
from .null_space import RANK_TOLERANCE
from .problem import (
    PATH,
    REACH,
    Buffers,
    Problem,
    Settings,
    Solution,
    empty_solution,
    has_ended,
    iterations,
    worst_kkt,
)
from .solution import BOTH, HierarchySolution, LevelSolution, signed_violation
from .workspace import VIOLATED, workspace


class HierarchySolver:
    """`solve`, compiled, for hierarchies of a fixed shape; owns all memory, belongs to one thread.

    Write the problem into `levels`, then call `solve`; or give whole `Level` objects to `load`.  Nothing is checked
    that is written into the buffers: a NaN comes out flagged "inaccurate", never as an endless loop.

    Args:
        n: number of unknowns.
        shapes: per level (number of equalities, number of inequalities).

    Attributes:
        n: as given.
        levels: per level its `Buffers`; to begin with zero rows, weights 1 and no bounds.
        stacked: `Buffers` of all levels' rows, one after the other, of which those of `levels` are views.

    Raises:
        ArgumentError: a size that is negative, or no level.
    """

    def __init__(self, n: int, shapes: Sequence[tuple[int, int]]) -> None:
        if n < 1 or not shapes or any(m < 0 or p < 0 for m, p in shapes):
            raise ArgumentError(
                f"n, shapes: expected n >= 1 and at least one level (m >= 0, p >= 0), got {n}, {shapes}"
            )
        self.n = n
        ms = np.concatenate([[0], np.cumsum([m for m, _ in shapes])]).astype(np.int64)
        ps = np.concatenate([[0], np.cumsum([p for _, p in shapes])]).astype(np.int64)
        m, p, K = int(ms[-1]), int(ps[-1]), len(shapes)
        bounds = np.full(p, -np.inf), np.full(p, np.inf)
        self.stacked = Buffers(np.zeros((m, n)), np.zeros(m), np.ones(m), np.zeros((p, n)), *bounds)
        A, b, weights, C, lower, upper = self.stacked
        self.levels = tuple(
            Buffers(A[i:j], b[i:j], weights[i:j], C[f:t], lower[f:t], upper[f:t])
            for i, j, f, t in zip(ms, ms[1:], ps, ps[1:], strict=False)
        )
        self._starts = ps
        self._problem = Problem(n, np.zeros((m, n)), np.zeros(m), np.zeros(m), C, lower, upper, np.zeros(p), ms, ps)
        self._solution = empty_solution(n, p, K)
        self._other = self._solution._replace(working=np.zeros((K + 1, p), dtype=np.int8))
        self._options, self._settings = (RANK_TOLERANCE, 0.0, 500), Settings()
        self._work = workspace(n, max(m for m, _ in shapes), p, K)
        self._calls: tuple[Callable[..., Any], ...] | None = None
        self._guessed = self._told = False

    def load(self, levels: Sequence[Level]) -> None:
        """Copy whole levels into the buffers.

        Raises:
            ArgumentError: another number of levels, or a level of another shape.
        """
        if len(levels) != len(self.levels):
            raise ArgumentError(f"levels: expected {len(self.levels)}, got {len(levels)}")
        for k, (level, to) in enumerate(zip(levels, self.levels, strict=True)):
            if level.A.shape != to.A.shape or level.C.shape != to.C.shape:
                raise ArgumentError(
                    f"levels[{k}]: expected A {to.A.shape} and C {to.C.shape}, got {level.A.shape} and {level.C.shape}"
                )
            for name in Buffers._fields:
                getattr(to, name)[...] = getattr(level, name)

    def forget(self) -> None:
        """Start cold: the next solve is not told the last one's working sets."""
        self._guessed = False

    def recall(self, solution: HierarchySolution) -> None:
        """Start warm: the next solve first tries the working sets of `solution`, of a problem of the same shape.

        Raises:
            ArgumentError: it is of another shape.
        """
        if [sides.shape for sides in solution.working] != [sides.shape for sides in self._solution.working]:
            raise ArgumentError("solution: expected that of a problem with as many levels and inequalities")
        self.memory = np.array(solution.working, dtype=np.int8)

    @property
    def memory(self) -> NDArray[np.int8] | None:
        """(levels + 1, inequalities) the working sets that the next solve is told, None for a cold start."""
        return self._solution.working.copy() if self._guessed else None

    @memory.setter
    def memory(self, sides: NDArray[np.int8] | None) -> None:
        if sides is not None and np.shape(sides) != self._solution.working.shape:
            raise ArgumentError(f"memory: expected shape {self._solution.working.shape}, got {np.shape(sides)}")
        self._guessed = sides is not None
        if sides is not None:
            self._solution.working[...] = sides

    @property
    def told(self) -> NDArray[np.int8] | None:
        """(levels + 1, inequalities) the working sets that the last run was told, a view; None if it started cold."""
        return self._other.working if self._told else None

    @property
    def x(self) -> Array:
        """(n,) the last run's answer, a view that the next one overwrites."""
        return self._solution.x

    @property
    def ended(self) -> bool:
        """Whether the last run ended within its rounds."""
        return bool(has_ended(self._solution))

    @property
    def kkt(self) -> float:
        """The last run's largest residual of the optimality conditions."""
        return float(worst_kkt(self._solution))

    @property
    def ranks(self) -> Array:
        """(levels,) of the last run."""
        return self._solution.ranks[:-1].copy()

    def run(self, *, rank_tolerance: float = RANK_TOLERANCE, damping: float = 0.0, max_iterations: int = 500) -> Array:
        """Solve what is in the buffers and return x alone, a view that the next run overwrites; warm by itself.

        An answer that is not verified is looked for again without what is remembered, and with rows of equal length.
        """
        options = (rank_tolerance, damping, max_iterations)
        if options != self._options:
            self._options, self._calls = options, None
            self._settings = Settings(float(rank_tolerance), float(damping), int(max_iterations))
        solution, self._other = self._other, self._solution  # the last answer's working sets are the guess
        self._solution, self._told = solution, self._guessed
        self._guessed = self._prepared(solution)(self._other.working, self._guessed)
        return solution.x

    def _prepared(self, solution: Solution) -> Callable[..., Any]:
        """The compiled solver, to be told a guess alone; its answer goes into `solution`.

        Where arrays lie is looked up once, from the second run with the same options on: it takes longer than a solve.
        """
        if self._calls is None:
            self._calls = ()
            return lambda *guess: solve_buffers(
                self.stacked, self._problem, self._settings, *guess, solution, self._work
            )
        if not self._calls:
            self._calls = tuple(
                solve_buffers.bind(self.stacked, self._problem, self._settings, each, self._work)
                for each in (self._other, solution)
            )
        self._calls = self._calls[::-1]  # two solutions take turns
        return self._calls[0]

    def solve(
        self, *, rank_tolerance: float = RANK_TOLERANCE, damping: float = 0.0, max_iterations: int = 500
    ) -> HierarchySolution:
        """Solve what is in the buffers; the working sets of the last solve are tried first.

        Args:
            rank_tolerance: as in `solve`.
            damping: as in `solve`.
            max_iterations: as in `solve`.

        Returns:
            As `solve`; nothing in it is overwritten later.
        """
        guessed = self._guessed
        x = self.run(rank_tolerance=rank_tolerance, damping=damping, max_iterations=max_iterations).copy()
        answer, starts, K, working = self._solution, self._starts, len(self.levels), self._solution.working.copy()
        size = max(float(np.linalg.norm(x)), float(answer.summary[REACH]))
        out = []
        for k, level in enumerate(self.levels):
            mine = slice(starts[k], starts[k + 1])
            y = level.C @ x
            allowed = 2.0 * VIOLATED * np.linalg.norm(level.C, axis=1) * size
            violation = signed_violation(y, level.lower, level.upper, allowed)
            equal = level.upper <= level.lower + 4e-16 * np.abs(np.where(np.isfinite(level.lower), level.lower, 0.0))
            active = working[K, mine].copy()
            for sides in working[:, mine]:
                active = np.where(active == 0, sides, active)
            active = np.where(violation != 0.0, np.sign(violation), active)
            active = np.where(equal, BOTH, active).astype(np.int8)
            own = violation.copy()
            own[equal] = y[equal] - 0.5 * (level.lower[equal] + level.upper[equal])
            above = tuple(answer.multipliers[k, starts[j] : starts[j + 1]].copy() for j in range(k))
            out.append(
                LevelSolution(
                    residual=level.b - level.A @ x,
                    violation=violation,
                    rank=int(answer.ranks[k]),
                    active=active,
                    multipliers=(*above, own),
                    kkt=float(answer.kkt[k]),
                    feasible=not violation.any() and not bool((level.lower > level.upper).any()),
                )
            )
        status = "optimal" if out[0].feasible else "infeasible"
        if not self.ended or not np.isfinite(x).all():
            status = "inaccurate"
        path = ("equalities", "warm", "active set")[int(answer.summary[PATH])]
        if path == "active set" and guessed and np.array_equal(working, self._other.working):
            path = "warm"  # found again: it was the right one
        return HierarchySolution(x, tuple(out), status, self.kkt, int(iterations(answer)), path, tuple(working))


class SolverPool:
    """`solve` with compiled solvers, one for each shape met so far; belongs to one thread.

    Args:
        size: how many shapes to keep, those used last.
    """

    def __init__(self, size: int = 64) -> None:
        if size < 1:
            raise ArgumentError(f"size: expected at least 1, got {size}")
        self._size = size
        self._solvers: dict[tuple[object, ...], HierarchySolver] = {}

    def solve(
        self,
        levels: Sequence[Level],
        *,
        rank_tolerance: float = RANK_TOLERANCE,
        damping: float = 0.0,
        max_iterations: int = 500,
        warm: HierarchySolution | None = None,
    ) -> HierarchySolution:
        """As `solve`, which see; the same arguments, the same answer to rounding."""
        check_levels(levels)
        check_options(rank_tolerance, damping, max_iterations)
        shapes = tuple((len(level.A), len(level.C)) for level in levels)
        key = (levels[0].n, shapes)
        solver = self._solvers.pop(key, None)
        if solver is None:
            solver = HierarchySolver(levels[0].n, shapes)
            while len(self._solvers) >= self._size:
                del self._solvers[next(iter(self._solvers))]
        self._solvers[key] = solver
        solver.load(levels)
        if warm is None:
            solver.forget()
        else:
            solver.recall(warm)
        return solver.solve(rank_tolerance=rank_tolerance, damping=damping, max_iterations=max_iterations)
