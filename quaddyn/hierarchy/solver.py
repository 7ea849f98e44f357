"""Solvers of strict hierarchies of linear equalities and inequalities.

- `solve`: solves one hierarchy.
- `HierarchySolver`: compiled solver for many hierarchies of one shape.
- `HierarchySolution`: the solution with its certificate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..deprecation import renamed_attributes, renamed_parameters
from ..errors import ArgumentError
from .core import solve_weighted_levels
from .level import Array, Level, check_levels, check_options
from .null_space import RANK_TOLERANCE
from .workspace import (
    VIOLATION_TOLERANCE,
    HierarchyProblem,
    LevelBuffers,
    SolutionBuffers,
    SolverSettings,
    make_solution_buffers,
    make_workspace,
)

#: Entry of `LevelSolution.active` where both bounds, which are equal, are active.
BOTH_BOUNDS = 2


@dataclass(frozen=True, slots=True, eq=False)
class LevelSolution:
    """Solution of one level of a hierarchy.

    Attributes:
        residual: (m,) ``b - A x``, unweighted, in the units of the rows.
        violation: (p,) by how much ``C x`` is above its upper bound (> 0) or below its lower one (< 0), in the units
            of the rows; 0 where satisfied.
        rank: number of independent directions in which this level determined x.
        active: (p,) of this level's inequalities, at the end of the whole hierarchy: -1 at or beyond the lower bound,
            +1 the upper, 2 both (equal bounds), 0 inactive.
        multipliers: per level above and this one, (p_j,) the cost of the bounds of level j for *this* level: the
            derivative of half its least-squares sum, > 0 for an active upper bound, < 0 for an active lower bound.  The
            last entry is the level's own violation.
        kkt: largest violation of this level's optimality conditions (stationarity in the null space of the levels
            above, signs of the multipliers), relative to the size of its terms.
        feasible: whether all its inequalities are satisfied and no bounds cross.
    """

    residual: Array
    violation: Array
    rank: int
    active: NDArray[np.int8]
    multipliers: tuple[Array, ...]
    kkt: float
    feasible: bool

    @property
    def error(self) -> float:
        """Squared unweighted residual plus squared violation."""
        return float(self.residual @ self.residual + self.violation @ self.violation)


@renamed_attributes(path="solver_path", working="working_sets")
@dataclass(frozen=True, slots=True, eq=False)
class HierarchySolution:
    """Solution of a hierarchy.

    Attributes:
        x: (n,) the solution; the shortest one in the null space that remains after the last level.
        levels: per level, its `LevelSolution`.
        status: "optimal"; "infeasible": optimal, but the first level's inequalities cannot all be satisfied and x
            violates them least; "inaccurate": the best x found within the allowed iterations, not verified.
        kkt: the largest `kkt` of the levels.
        iterations: number of changes of the active set, over all levels.
        solver_path: "equalities" if no inequality became active, "warm" if the given active set was optimal, otherwise
            "active set".
        working_sets: per level, and for the final minimization of ``|x|``, the side (-1, 0, 1) of every inequality of
            all levels in its working set; a warm start uses them.
    """

    x: Array
    levels: tuple[LevelSolution, ...]
    status: str
    kkt: float
    iterations: int
    solver_path: str
    working_sets: tuple[NDArray[np.int8], ...]

    @property
    def verified(self) -> bool:
        """Whether the optimality conditions of every level hold (to 1e-9, relative)."""
        return self.status != "inaccurate" and self.kkt <= 1e-9


def signed_violation(y: Array, lower: Array, upper: Array, allowed: Array) -> Array:
    """Returns the violation of the bounds by y: > 0 above the upper, < 0 below the lower, 0 up to `allowed`.

    Between bounds that cross, y violates both; the larger violation is returned.
    """
    above, below = y - upper, lower - y
    return np.where(above > np.maximum(below, 0.0) + allowed, above, np.where(below > allowed, -below, 0.0))


@renamed_attributes(
    recall="warm_start_from",
    forget="clear_warm_start",
    told="initial_working_sets",
    memory="working_sets",
    ended="converged",
)
class HierarchySolver:
    """Compiled solver for hierarchies of a fixed shape; owns its buffers and must be used by one thread.

    Write the problem into `levels` and call `solve`, or pass whole `Level` objects to `load`.  Values written into the
    buffers are not checked: a NaN results in the status "inaccurate", never in an endless loop.

    Args:
        n: number of unknowns.
        shapes: per level (number of equalities, number of inequalities).

    Attributes:
        n: number of unknowns.
        levels: per level its `LevelBuffers`; initially zero rows, weights 1 and infinite bounds.
        stacked: `LevelBuffers` of all levels' rows, one after the other, of which those of `levels` are views.

    Raises:
        ArgumentError: a negative size, or no level.
    """

    def __init__(self, n: int, shapes: Sequence[tuple[int, int]]) -> None:
        if n < 1 or not shapes or any(m < 0 or p < 0 for m, p in shapes):
            raise ArgumentError(
                "n, shapes: expected n >= 1 unknowns, and for each of one or more levels the numbers of equality and "
                f"inequality rows, got {n}, {shapes}"
            )
        self.n = n
        equality_starts = np.concatenate([[0], np.cumsum([m for m, _ in shapes])]).astype(np.int64)
        inequality_starts = np.concatenate([[0], np.cumsum([p for _, p in shapes])]).astype(np.int64)
        m, p, n_levels = int(equality_starts[-1]), int(inequality_starts[-1]), len(shapes)
        bounds = np.full(p, -np.inf), np.full(p, np.inf)
        self.stacked = LevelBuffers(np.zeros((m, n)), np.zeros(m), np.ones(m), np.zeros((p, n)), *bounds)
        A, b, weights, C, lower, upper = self.stacked
        self.levels = tuple(
            LevelBuffers(A[i:j], b[i:j], weights[i:j], C[f:t], lower[f:t], upper[f:t])
            for i, j, f, t in zip(
                equality_starts, equality_starts[1:], inequality_starts, inequality_starts[1:], strict=False
            )
        )
        self._inequality_starts = inequality_starts
        self._problem = HierarchyProblem(
            n,
            np.zeros((m, n)),
            np.zeros(m),
            np.zeros(m),
            C,
            lower,
            upper,
            np.zeros(p),
            equality_starts,
            inequality_starts,
        )
        self._solution = make_solution_buffers(n, p, n_levels)
        self._previous_solution = self._solution._replace(working_sets=np.zeros((n_levels + 1, p), dtype=np.int8))
        self._options, self._settings = (RANK_TOLERANCE, 0.0, 500), SolverSettings()
        self._work = make_workspace(n, max(m for m, _ in shapes), m, p, n_levels)
        self._bound_calls: tuple[Callable[..., Any], ...] | None = None
        self._has_warm_start = self._was_warm_started = False

    def load(self, levels: Sequence[Level]) -> None:
        """Copies whole levels into the buffers.

        Args:
            levels: as many levels as the solver has, with its shapes.

        Raises:
            ArgumentError: another number of levels, or a level of another shape.
        """
        if len(levels) != len(self.levels):
            raise ArgumentError(f"levels: expected {len(self.levels)} levels, got {len(levels)}")
        for k, (level, buffers) in enumerate(zip(levels, self.levels, strict=True)):
            if level.A.shape != buffers.A.shape or level.C.shape != buffers.C.shape:
                raise ArgumentError(
                    f"levels[{k}]: expected A of shape {buffers.A.shape} and C of shape {buffers.C.shape}, got "
                    f"{level.A.shape} and {level.C.shape}"
                )
            for name in LevelBuffers._fields:
                getattr(buffers, name)[...] = getattr(level, name)

    def clear_warm_start(self) -> None:
        """Makes the next solve a cold start, without working sets."""
        self._has_warm_start = False

    def warm_start_from(self, solution: HierarchySolution) -> None:
        """Makes the next solve try the working sets of `solution`, of a problem of the same shape, first.

        Args:
            solution: solution of any solver of the same shape.

        Raises:
            ArgumentError: it is of another shape.
        """
        if [sides.shape for sides in solution.working_sets] != [sides.shape for sides in self._solution.working_sets]:
            raise ArgumentError(
                "solution: expected the solution of a problem with the same numbers of levels and inequality rows as "
                f"the present one, {[len(sides) for sides in self._solution.working_sets]}, got "
                f"{[len(sides) for sides in solution.working_sets]}"
            )
        self.working_sets = np.array(solution.working_sets, dtype=np.int8)

    @property
    def working_sets(self) -> NDArray[np.int8] | None:
        """(levels + 1, inequalities) working sets from which the next solve starts; None for a cold start."""
        return self._solution.working_sets.copy() if self._has_warm_start else None

    @working_sets.setter
    def working_sets(self, sides: NDArray[np.int8] | None) -> None:
        if sides is not None and np.shape(sides) != self._solution.working_sets.shape:
            raise ArgumentError(
                f"working_sets: expected shape {self._solution.working_sets.shape}, got {np.shape(sides)}"
            )
        self._has_warm_start = sides is not None
        if sides is not None:
            self._solution.working_sets[...] = sides

    @property
    def initial_working_sets(self) -> NDArray[np.int8] | None:
        """(levels + 1, inequalities) working sets from which the last run started, a view; None after a cold start."""
        return self._previous_solution.working_sets if self._was_warm_started else None

    @property
    def x(self) -> Array:
        """(n,) solution of the last run, a view that the next one overwrites."""
        return self._solution.x

    @property
    def converged(self) -> bool:
        """Whether the last run converged within the allowed iterations."""
        return self._solution.summary.has_converged

    @property
    def kkt(self) -> float:
        """Largest residual of the optimality conditions in the last run, relative to the size of their terms."""
        return self._solution.summary.max_kkt

    @property
    def ranks(self) -> Array:
        """(levels,) rank of each level in the last run."""
        return self._solution.ranks[:-1].copy()

    def run(self, *, rank_tolerance: float = RANK_TOLERANCE, damping: float = 0.0, max_iterations: int = 500) -> Array:
        """Solves the buffers and returns x alone, a view that the next run overwrites; starts from the last run.

        A solution that is not verified is computed again without the warm start, and with rows of unit norm.

        Args:
            rank_tolerance: as in `solve`.
            damping: as in `solve`.
            max_iterations: as in `solve`.

        Returns:
            (n,) x.
        """
        options = (rank_tolerance, damping, max_iterations)
        if options != self._options:
            self._options, self._bound_calls = options, None
            self._settings = SolverSettings(float(rank_tolerance), float(damping), int(max_iterations))
        solution, self._previous_solution = (
            self._previous_solution,
            self._solution,
        )  # the working sets of the last run are the warm start
        self._solution, self._was_warm_started = solution, self._has_warm_start
        self._has_warm_start = self._bind_solver(solution)(self._previous_solution.working_sets, self._has_warm_start)
        return solution.x

    def _bind_solver(self, solution: SolutionBuffers) -> Callable[..., Any]:
        """Returns a function of the warm start that runs the compiled solver and writes to `solution`.

        The addresses of the arrays are bound once, from the second run with the same options on, because reading them
        takes longer than a solve.
        """
        if self._bound_calls is None:
            self._bound_calls = ()
            return lambda *warm_start: solve_weighted_levels(
                self.stacked, self._problem, self._settings, *warm_start, solution, self._work
            )
        if not self._bound_calls:
            self._bound_calls = tuple(
                solve_weighted_levels.bind(self.stacked, self._problem, self._settings, previous_solution, self._work)
                for previous_solution in (self._previous_solution, solution)
            )
        self._bound_calls = self._bound_calls[::-1]  # the two solutions alternate
        return self._bound_calls[0]

    def solve(
        self, *, rank_tolerance: float = RANK_TOLERANCE, damping: float = 0.0, max_iterations: int = 500
    ) -> HierarchySolution:
        """Solves the buffers; the working sets of the last solve are tried first.

        Args:
            rank_tolerance: as in `solve`.
            damping: as in `solve`.
            max_iterations: as in `solve`.

        Returns:
            As `solve`; later solves do not overwrite it.
        """
        was_warm_started = self._has_warm_start
        x = self.run(rank_tolerance=rank_tolerance, damping=damping, max_iterations=max_iterations).copy()
        solution, starts, n_levels, working_sets = (
            self._solution,
            self._inequality_starts,
            len(self.levels),
            self._solution.working_sets.copy(),
        )
        x_scale = max(float(np.linalg.norm(x)), solution.summary.equalities_norm)
        level_solutions = []
        for k, level in enumerate(self.levels):
            rows = slice(starts[k], starts[k + 1])
            y = level.C @ x
            allowed = 2.0 * VIOLATION_TOLERANCE * np.linalg.norm(level.C, axis=1) * x_scale
            violation = signed_violation(y, level.lower, level.upper, allowed)
            is_equality = level.upper <= level.lower + 4e-16 * np.abs(
                np.where(np.isfinite(level.lower), level.lower, 0.0)
            )
            active = working_sets[n_levels, rows].copy()
            for sides in working_sets[:, rows]:
                active = np.where(active == 0, sides, active)
            active = np.where(violation != 0.0, np.sign(violation), active)
            active = np.where(is_equality, BOTH_BOUNDS, active).astype(np.int8)
            own_violation = violation.copy()
            own_violation[is_equality] = y[is_equality] - 0.5 * (level.lower[is_equality] + level.upper[is_equality])
            multipliers_above = tuple(solution.multipliers[k, starts[j] : starts[j + 1]].copy() for j in range(k))
            level_solutions.append(
                LevelSolution(
                    residual=level.b - level.A @ x,
                    violation=violation,
                    rank=int(solution.ranks[k]),
                    active=active,
                    multipliers=(*multipliers_above, own_violation),
                    kkt=float(solution.kkt[k]),
                    feasible=not violation.any() and not bool((level.lower > level.upper).any()),
                )
            )
        status = "optimal" if level_solutions[0].feasible else "infeasible"
        if not self.converged or not np.isfinite(x).all():
            status = "inaccurate"
        path = ("equalities", "warm", "active set")[solution.summary.path]
        if (
            path == "active set"
            and was_warm_started
            and np.array_equal(working_sets, self._previous_solution.working_sets)
        ):
            path = "warm"  # the active-set method ended at the given working sets: they were optimal
        return HierarchySolution(
            x, tuple(level_solutions), status, self.kkt, solution.summary.iterations, path, tuple(working_sets)
        )


class SolverPool:
    """Cache of compiled solvers, one for each recent shape; must be used by one thread.

    Args:
        size: number of most recently used shapes to keep.
    """

    def __init__(self, size: int = 64) -> None:
        if size < 1:
            raise ArgumentError(f"size: expected at least 1, got {size}")
        self._size = size
        self._solvers: dict[tuple[object, ...], HierarchySolver] = {}

    @renamed_parameters(warm="warm_start")
    def solve(
        self,
        levels: Sequence[Level],
        *,
        rank_tolerance: float = RANK_TOLERANCE,
        damping: float = 0.0,
        max_iterations: int = 500,
        warm_start: HierarchySolution | None = None,
    ) -> HierarchySolution:
        """Solves like the function `solve`, with the same arguments and, to rounding, the same result.

        Args:
            levels: as in `solve`.
            rank_tolerance: as in `solve`.
            damping: as in `solve`.
            max_iterations: as in `solve`.
            warm_start: as in `solve`.

        Returns:
            As `solve`.

        Raises:
            ArgumentError: as `solve`.
        """
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
        if warm_start is None:
            solver.clear_warm_start()
        else:
            solver.warm_start_from(warm_start)
        return solver.solve(rank_tolerance=rank_tolerance, damping=damping, max_iterations=max_iterations)


@renamed_parameters(warm="warm_start")
def solve(
    levels: Sequence[Level],
    *,
    rank_tolerance: float = RANK_TOLERANCE,
    damping: float = 0.0,
    max_iterations: int = 500,
    warm_start: HierarchySolution | None = None,
) -> HierarchySolution:
    """Computes the x that is best for the first level, among those best for the second, and so on; then the shortest.

    The equalities are solved first, by projection; if that x satisfies every inequality, it is the solution.  Otherwise
    active-set methods solve level by level (`core`).  For a sequence of problems of the same shape, a `HierarchySolver`
    saves memory and time.

    Args:
        levels: in strict order of priority.  The first usually holds the constraints that must not be violated; if they
            are infeasible, x violates them least and the status reports it.
        rank_tolerance: a row is independent where its remainder in the null space of the levels above exceeds this
            fraction of its own norm; in [0, 1), dimensionless, whatever the units of the rows.
        damping: adds ``damping^2 |x|^2`` to the objective of every level, in the unit of its weighted rows (as in
            `solve_prioritized`); 0 for exact least squares.  Levels above stay undisturbed with damping, too.
        max_iterations: bound of the number of changes of the active set, per level.
        warm_start: solution of a problem of the same shape, such as the previous tick's; its active set is tried first.
            None for a cold start.

    Returns:
        A `HierarchySolution`; hard problems (rank deficient, infeasible, degenerate) are flagged there, not raised.

    Raises:
        ArgumentError: an option out of its range, levels of different widths, or a `warm_start` of another shape.
    """
    if warm_start is not None and [s.shape for s in warm_start.working_sets] != [(sum(len(v.C) for v in levels),)] * (
        len(levels) + 1
    ):
        raise ArgumentError(
            "warm_start: expected the solution of a problem with the same number of levels and inequality rows"
        )
    pool = SolverPool(size=1)
    return pool.solve(
        levels, rank_tolerance=rank_tolerance, damping=damping, max_iterations=max_iterations, warm_start=warm_start
    )
