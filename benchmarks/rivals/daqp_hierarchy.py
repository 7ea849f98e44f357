"""Compares DAQP's hierarchical solver with quaddyn's on the same hierarchies in one process, without warm start.

DAQP divides each row by its length, which changes the least-violation solution of an infeasible level; therefore both
solvers get rows of unit length.  For DAQP, equalities are rows with equal bounds, the rows of a level are those between
two break points, and the quadratic cost is |x|^2 (without a cost its solutions are not reliable).  DAQP's settings are
the default ones, with tolerance 1e-6.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from quaddyn.hierarchy import HierarchySolver, Level

from .environments import UnavailableError
from .process import CPUS, pin_to_cpu

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

import hierarchy_problems as hp

#: Value of a missing bound for DAQP.
NO_BOUND = 1e30


def unit_rows(levels: list[Level]) -> list[Level]:
    """Returns the hierarchy with weights included in the rows and every nonzero row divided by its length."""
    out = []
    for level in levels:
        sqrt_weights = np.sqrt(level.weights)
        A, C = sqrt_weights[:, None] * level.A, level.C
        a, c = (np.where(length > 0.0, length, 1.0) for length in (np.linalg.norm(rows, axis=1) for rows in (A, C)))
        out.append(
            Level(
                A / a[:, None],
                sqrt_weights * level.b / a,
                C=C / c[:, None],
                lower=level.lower / c,
                upper=level.upper / c,
            )
        )
    return out


@dataclass
class SolverComparison:
    """Results for one kind of problem.

    Attributes:
        quaddyn: minimum time of quaddyn's solver for each problem [s].
        daqp: the same of DAQP, called from Python.
        daqp_reported: the same as reported by DAQP, without Python.
        excess: residual norms of quaddyn and DAQP minus that of the reference solver (2, levels), for each problem.
        doubtful: number of levels for which the reference solver did not converge.
        failed: number of problems for which DAQP returned an error or a solution that is not finite.
    """

    quaddyn: list[float] = field(default_factory=list)
    daqp: list[float] = field(default_factory=list)
    daqp_reported: list[float] = field(default_factory=list)
    excess: list[np.ndarray] = field(default_factory=list)
    doubtful: int = 0
    failed: int = 0

    @property
    def ratio(self) -> float:
        """Median time of quaddyn's solver relative to that of DAQP."""
        return float(np.median(self.quaddyn) / np.median(self.daqp))


def best_norms(levels: list[Level], x: np.ndarray) -> list[float | None]:
    """Returns the minimum residual norm of each level while the levels above keep their values at x.

    An entry is None if the reference solver does not converge.
    """
    import piqp

    n, out = levels[0].n, []
    frozen, limits = np.zeros((0, n)), (np.zeros((0, n)), np.zeros(0), np.zeros(0))
    for level in levels:
        Z, value = hp.null_space(frozen), hp.objective(level, x)
        lower, upper = hp.merged(level)
        best: float | None = value
        if Z.shape[1] and value > 0.0:
            _, best = hp.reference(level, lower, upper, x, Z, limits, piqp)
        out.append(None if best is None else float(np.sqrt(2.0 * max(min(best, value), 0.0))))
        y = level.C @ x
        violation = np.where(y > upper, y - upper, np.where(y < lower, y - lower, 0.0))
        broken = np.abs(violation) > 1e-10 * (np.linalg.norm(level.C, axis=1) * np.linalg.norm(x) + 1e-300)
        frozen = np.vstack([frozen, level.A[level.weights > 0], level.C[broken]])
        new_limits = (level.C[~broken], lower[~broken], upper[~broken])
        limits = tuple(np.concatenate(pair) for pair in zip(limits, new_limits, strict=True))
    return out


def compare(problems: Iterable[list[Level]], replays: int) -> SolverComparison:
    """Solves each problem with both solvers.

    Args:
        problems: hierarchies.
        replays: number of measured repetitions.

    Raises:
        UnavailableError: DAQP is not installed.
    """
    try:
        import daqp
    except ImportError:
        raise UnavailableError("daqp is not installed: pip install 'daqp>=0.11,<0.12'") from None
    comparison, clock = SolverComparison(), time.perf_counter
    solvers: dict[tuple[object, ...], HierarchySolver] = {}
    for number, problem in enumerate(problems):
        levels = unit_rows(problem)
        shapes = tuple((len(level.A), len(level.C)) for level in levels)
        solver = solvers.get(shapes) or solvers.setdefault(shapes, HierarchySolver(levels[0].n, shapes))
        solver.load(levels)
        A = np.ascontiguousarray(np.vstack([part for level in levels for part in (level.A, level.C)]))
        upper = np.minimum(np.concatenate([part for level in levels for part in (level.b, level.upper)]), NO_BOUND)
        lower = np.maximum(np.concatenate([part for level in levels for part in (level.b, level.lower)]), -NO_BOUND)
        ends = np.cumsum([0, *(m + p for m, p in shapes)]).astype(np.intc)
        H, f, sense = np.eye(levels[0].n), np.zeros(levels[0].n), np.zeros(len(upper), dtype=np.intc)
        min_times = np.full(3, np.inf)
        for turn in range(replays + 1):
            pin_to_cpu(number + turn, ())
            solver.clear_warm_start()
            times = [0.0, 0.0, 0.0]
            # On each processor, the caches are empty for the first solver: the order alternates.
            first = turn // len(CPUS) % 2
            for solver_index in (first, 1 - first):
                start = clock()
                if solver_index == 0:
                    solver.run()
                else:
                    x, _, flag, info = daqp.solve(H, f, A, upper, lower, sense, ends)
                times[solver_index] = clock() - start
            times[2] = info["setup_time"] + info["solve_time"]
            if turn:  # the first one fills the caches
                min_times = np.minimum(min_times, times)
        for all_times, value in zip(
            (comparison.quaddyn, comparison.daqp, comparison.daqp_reported), min_times.tolist(), strict=True
        ):
            all_times.append(value)
        comparison.failed += flag < 0 or not np.isfinite(x).all()
        own_x = solver.x.copy()
        best = best_norms(levels, own_x)
        comparison.doubtful += best.count(None)
        norms = np.array([[np.sqrt(2.0 * hp.objective(level, y)) for level in levels] for y in (own_x, x)])
        comparison.excess.append(norms - [np.nan if value is None else value for value in best])
    return comparison


def format_comparison(comparison: SolverComparison) -> str:
    """Formats the times and the largest excess of each level."""
    quaddyn, daqp, daqp_reported = (
        1e6 * float(np.median(t)) for t in (comparison.quaddyn, comparison.daqp, comparison.daqp_reported)
    )
    text = f"{quaddyn:6.1f} {daqp:6.1f} ({daqp_reported:5.1f}) {comparison.ratio:5.2f}"
    with np.errstate(invalid="ignore"):
        max_excess = np.nanmax(np.array(comparison.excess), axis=0, initial=-np.inf)
        min_excess = np.nanmin(np.array(comparison.excess), axis=0, initial=np.inf)
    # A negative excess means that a level above was violated.
    excess = np.where(np.abs(max_excess) >= np.abs(min_excess), max_excess, min_excess)
    for row in excess:
        text += "  " + " ".join(f"{value:8.1e}" for value in row)
    text += f"  DAQP failed {comparison.failed}" if comparison.failed else ""
    return text + (f"  reference solver failed {comparison.doubtful}" if comparison.doubtful else "")
