"""Verifies the hierarchical solver on random and recorded problems with an independent interior-point solver.

    python benchmarks/hierarchy.py --check
    python benchmarks/hierarchy.py --rivals --check    # only recorded problems, compared with DAQP's solver

The problems are 3,250 random ones of many ill-conditioned or degenerate kinds, and 1,512 that are recorded from ticks
(Go2, Solo12, ANYmal C; stand and trot; calm, saturated, hard), of which the solution of the tick is verified.  The
table has for each kind:

- excess: the largest improvement of a level that the reference solver finds, as a fraction of the tolerance (1e-9
  relative plus the error of the reference solver);
- violated: the largest violation of a condition that a level above satisfied;
- change: the largest relative change of the levels above if the weights of the levels below are multiplied by 1e4;
- differ: the largest difference between the solutions of the solver and of the tick, for recorded problems;
- verified: the number of solutions that pass their certificate;
- us: the median computing time of the compiled solver.

The exit code of ``--check`` is 1 if a requirement is missed, see `Campaign.verify` and `MAX_UNCONVERGED`.  The extra
`test` is required (`piqp`).

With `--rivals` quaddyn's solver and DAQP's hierarchical solver solve every recorded problem without warm start, with
rows scaled to unit length.  The table has for each kind the median time of both solvers called from Python (in brackets
the time that DAQP reports), their ratio, and the largest excess of the residual norm of each level over the minimum
that the reference solver finds.  A negative excess of DAQP means that a level above was violated.  Requirement: the
ratio is at most `MAX_TIME_RATIO`.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import hierarchy_problems as hp

import quaddyn as qd
from quaddyn.hierarchy import HierarchySolver, Level, SolverPool

sys.path.insert(0, str(Path(__file__).resolve().parent))

from bench_wbc import GAITS, REGIMES, QuaddynRunner, cpu, record
from rivals import daqp_hierarchy
from rivals.environments import UnavailableError

ROBOTS = ("go2", "solo12", "anymal_c")

#: Levels, and the solution of the tick from which they are recorded (None: a random problem).
Problem = tuple[list[Level], np.ndarray | None]

#: Maximum median time relative to DAQP.
MAX_TIME_RATIO = 0.5

#: Maximum fraction of problems for which the reference solver does not converge.
MAX_UNCONVERGED = 0.01


def max_change_above(pool: SolverPool, levels: list[Level], solution: object) -> float:
    """Returns the largest relative change of residuals and violations if the levels below have 1e4 times the weight."""
    worst = 0.0
    for k in range(1, len(levels)):
        reweighted = [
            Level(v.A, v.b, weights=v.weights * (1e4 if j >= k else 1.0), C=v.C, lower=v.lower, upper=v.upper)
            for j, v in enumerate(levels)
        ]
        changed = pool.solve(reweighted)
        for j in range(k):
            scale = 1.0 + np.abs(levels[j].b).max(initial=0.0) + np.abs(solution.levels[j].residual).max(initial=0.0)
            for part in ("residual", "violation"):
                change = getattr(changed.levels[j], part) - getattr(solution.levels[j], part)
                worst = max(worst, float(np.abs(change).max(initial=0.0)) / scale)
    return worst


class Campaign:
    """Verification of the solver on problems of several kinds; prints a line for each kind."""

    def __init__(self) -> None:
        self.pool = SolverPool()
        self.failed = self.total = self.n_unconverged = 0
        print(f"{'kind':24s} {'excess':>8s} {'violated':>9s} {'change':>8s} {'differ':>8s} {'verified':>9s} {'us':>7s}")

    def verify(self, title: str, problems: Iterator[Problem], max_change: float) -> None:
        """Verifies the solutions of problems of one kind and prints a line.

        Args:
            title: title of the kind.
            problems: problems of the kind.
            max_change: maximum change of a level if the weights of the levels below are multiplied by 1e4, relative.
        """
        excess = violation = change = difference = 0.0
        verified, times = 0, []
        for i, (levels, tick_solution) in enumerate(problems):
            start = time.perf_counter()
            solution = self.pool.solve(levels)
            times.append(time.perf_counter() - start)
            verdict = hp.check_optimality(levels, solution.x if tick_solution is None else tick_solution)
            excess, violation = max(excess, verdict.excess), max(violation, verdict.violation)
            verified += solution.verified
            self.n_unconverged += verdict.doubtful > 0
            if tick_solution is not None:
                size = 1.0 + float(np.abs(tick_solution).max())
                difference = max(difference, float(np.abs(tick_solution - solution.x).max()) / size)
            if i % 5 == 0:
                change = max(change, max_change_above(self.pool, levels, solution))
        self.total += len(times)
        passed = excess <= 1.0 and violation <= 1e-7 and change <= max_change and verified == len(times)
        self.failed += not passed
        median = 1e6 * float(np.median(times))
        print(
            f"{title:24s} {excess:8.1e} {violation:9.1e} {change:8.1e} {difference:8.1e} {verified:5d}/{len(times)}"
            f" {median:7.0f}{'' if passed else '   MISSED'}",
            flush=True,
        )


def random_problems(kind: str, count: int, seed: int) -> Iterator[Problem]:
    """Yields random problems of a kind of `hierarchy_problems`."""
    rng = np.random.default_rng([seed, hp.KINDS.index(kind)])
    for _ in range(count):
        yield hp.problem(kind, rng), None


def recorded_problems(robot: qd.Robot, gait: str, regime: str, count: int, seed: int) -> Iterator[Problem]:
    """Yields problems of ticks of whole-body control, with their solutions."""
    recording = record(robot, gait, regime, count, seed)
    ours = QuaddynRunner(robot, recording, bounds=True)
    for k in range(count):
        ours.limits.limits[:] = recording["effort"][k]
        ours.set_references(k)
        state = ours.dyn.update(recording["q"][k].copy(), recording["v"][k].copy())
        details = ours.wbc.compute(state, ours.stand[k]).details
        yield hp.levels_of(details.problem), details.x


def compare_with_daqp(count: int, replays: int, seed: int) -> int:
    """Compares the solver with DAQP on recorded problems; returns the number of kinds that miss the requirement."""
    failed = 0
    print(f"{cpu()}; median times in us, without warm start; maximum ratio {MAX_TIME_RATIO}")
    print(f"{'kind':24s} {'own':>6s} {'DAQP':>6s} {'':7s} {'ratio':>5s}  own excess by level, then that of DAQP")
    for name in ROBOTS:
        robot = qd.load(name)
        for gait in GAITS:
            for regime in REGIMES:
                problems = (levels for levels, _ in recorded_problems(robot, gait, regime, count, seed))
                comparison = daqp_hierarchy.compare(problems, replays)
                failed += comparison.ratio > MAX_TIME_RATIO
                missed = "   MISSED" if comparison.ratio > MAX_TIME_RATIO else ""
                print(
                    f"{name + ' ' + gait + ' ' + regime:24s} {daqp_hierarchy.format_comparison(comparison)}{missed}",
                    flush=True,
                )
    return failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument(
        "--problems", type=int, default=250, help="number of random problems of each kind (default 250)"
    )
    parser.add_argument("--recorded", type=int, default=84, help="number of recorded ticks of each kind (default 84)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the campaign (default 1)")
    parser.add_argument("--rivals", action="store_true", help="only compare with DAQP on recorded ticks")
    parser.add_argument(
        "--replays", type=int, default=10, help="number of repetitions of each problem with --rivals (default 10)"
    )
    parser.add_argument("--check", action="store_true", help="exit code 1 if a requirement is not met")
    options = parser.parse_args()
    HierarchySolver(1, [(1, 1)]).solve()
    if options.rivals:
        try:
            failed = compare_with_daqp(options.recorded, options.replays, options.seed)
        except UnavailableError as reason:
            sys.exit(f"DAQP is not available: {reason}")
        return 1 if options.check and failed else 0
    campaign = Campaign()
    for kind in hp.KINDS if options.problems else ():
        # Rows whose scales differ by seven decades have seven significant digits fewer.
        max_change = 1e-10 if kind != "badly scaled" else 1e-7
        campaign.verify(kind, random_problems(kind, options.problems, options.seed), max_change)
    for name in ROBOTS if options.recorded else ():
        robot = qd.load(name)
        for gait in GAITS:
            for regime in REGIMES:
                problems = recorded_problems(robot, gait, regime, options.recorded, options.seed)
                campaign.verify(f"{name} {gait} {regime}", problems, 1e-10)
    print(f"{campaign.total} problems; the reference solver did not converge on a level of {campaign.n_unconverged}")
    campaign.failed += campaign.n_unconverged > MAX_UNCONVERGED * campaign.total
    return 1 if options.check and campaign.failed else 0


if __name__ == "__main__":
    sys.exit(main())
