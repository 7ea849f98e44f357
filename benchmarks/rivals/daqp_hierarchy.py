"""Compares DAQP's hierarchical solver with quaddyn's on the same hierarchies in one process, without warm start.

DAQP divides each row by its length, which changes what a level that cannot be met comes to; so both get rows of unit
length.  Equalities are rows whose bounds agree, a level's rows run from one break point to the next, and the quadratic
cost is |x|^2 (without one its answers are not to be relied on).  Settings are its own, tolerance 1e-6.
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
from .process import CPUS, share_cpu

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

import hierarchy_problems as hp

#: Absent bound of DAQP.
NO_BOUND = 1e30


def unit_rows(levels: list[Level]) -> list[Level]:
    """The hierarchy with weights in the rows and every row divided by its length; empty rows stay as they are."""
    out = []
    for level in levels:
        root = np.sqrt(level.weights)
        A, C = root[:, None] * level.A, level.C
        a, c = (np.where(length > 0.0, length, 1.0) for length in (np.linalg.norm(rows, axis=1) for rows in (A, C)))
        out.append(
            Level(A / a[:, None], root * level.b / a, C=C / c[:, None], lower=level.lower / c, upper=level.upper / c)
        )
    return out


@dataclass
class Tally:
    """Results for one kind of problem.

    Attributes:
        ours: least time of each problem [s].
        theirs: likewise DAQP's, driven from Python.
        inside: what DAQP says that it took, without Python.
        excess: per problem ours and DAQP's, (2, levels) residual norm less the oracle's best.
        doubtful: levels whose oracle did not converge.
        failed: problems that DAQP gave up, by its exit flag, or answered by what is not finite.
    """

    ours: list[float] = field(default_factory=list)
    theirs: list[float] = field(default_factory=list)
    inside: list[float] = field(default_factory=list)
    excess: list[np.ndarray] = field(default_factory=list)
    doubtful: int = 0
    failed: int = 0

    @property
    def ratio(self) -> float:
        """Our median time over DAQP's."""
        return float(np.median(self.ours) / np.median(self.theirs))


def best_norms(levels: list[Level], x: np.ndarray) -> list[float | None]:
    """Residual norm of each level at best, those above being as x leaves them; None where the oracle gave up."""
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
        off = np.where(y > upper, y - upper, np.where(y < lower, y - lower, 0.0))
        broken = np.abs(off) > 1e-10 * (np.linalg.norm(level.C, axis=1) * np.linalg.norm(x) + 1e-300)
        frozen = np.vstack([frozen, level.A[level.weights > 0], level.C[broken]])
        more = (level.C[~broken], lower[~broken], upper[~broken])
        limits = tuple(np.concatenate(pair) for pair in zip(limits, more, strict=True))
    return out


def compare(problems: Iterable[list[Level]], replays: int) -> Tally:
    """Both on each problem in turn.

    Raises:
        UnavailableError: DAQP is not installed.
    """
    try:
        import daqp
    except ImportError:
        raise UnavailableError("daqp is not installed: pip install 'daqp>=0.11,<0.12'") from None
    tally, clock = Tally(), time.perf_counter
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
        least = np.full(3, np.inf)
        for turn in range(replays + 1):
            share_cpu(number + turn, ())
            solver.clear_warm_start()
            spent = [0.0, 0.0, 0.0]
            # The first solver on a processor finds its caches empty: the order alternates on every processor.
            first = turn // len(CPUS) % 2
            for solver_index in (first, 1 - first):
                start = clock()
                if solver_index == 0:
                    solver.run()
                else:
                    x, _, flag, info = daqp.solve(H, f, A, upper, lower, sense, ends)
                spent[solver_index] = clock() - start
            spent[2] = info["setup_time"] + info["solve_time"]
            if turn:  # the first one is for the caches
                least = np.minimum(least, spent)
        for times, value in zip((tally.ours, tally.theirs, tally.inside), least.tolist(), strict=True):
            times.append(value)
        tally.failed += flag < 0 or not np.isfinite(x).all()
        ours = solver.x.copy()
        best = best_norms(levels, ours)
        tally.doubtful += best.count(None)
        norms = np.array([[np.sqrt(2.0 * hp.objective(level, y)) for level in levels] for y in (ours, x)])
        tally.excess.append(norms - [np.nan if value is None else value for value in best])
    return tally


def lines(tally: Tally) -> str:
    """Times, and the largest excess by level."""
    ours, theirs, inside = (1e6 * float(np.median(t)) for t in (tally.ours, tally.theirs, tally.inside))
    text = f"{ours:6.1f} {theirs:6.1f} ({inside:5.1f}) {tally.ratio:5.2f}"
    with np.errstate(invalid="ignore"):
        most = np.nanmax(np.array(tally.excess), axis=0, initial=-np.inf)
        least = np.nanmin(np.array(tally.excess), axis=0, initial=np.inf)
    both = np.where(np.abs(most) >= np.abs(least), most, least)  # below zero: a level above was not kept
    for row in both:
        text += "  " + " ".join(f"{value:8.1e}" for value in row)
    text += f"  DAQP failed {tally.failed}" if tally.failed else ""
    return text + (f"  oracle gave up {tally.doubtful}" if tally.doubtful else "")
