"""Verifies the hierarchical solver on random and recorded problems with an independent interior-point solver.

    python benchmarks/hierarchy.py --check
    python benchmarks/hierarchy.py --rivals --check    # the recorded ones, beside DAQP's hierarchical solver

3,250 random problems of every nasty kind; 1,512 recorded from ticks (Go2, Solo12, ANYmal C; stand and trot; calm,
saturated, hard), of which the tick's own answer is judged.  Per kind: the largest improvement of any level that the
reference found, as a share of what is allowed (1e-9 relative plus the reference's own error), the largest violation of
what a level above had kept, how far strictness holds (weights below times 1e4), how far the compiled solver is from its
twin (the NumPy oracle; for a recorded problem, the tick), how often the certificate verifies, and the compiled solver's
time.  Ends with exit code 1 if a bar is missed.  Needs `piqp` (the extra `test`).

With `--rivals` both solvers start cold on every recorded problem, its rows scaled to unit length; per kind: the median
time of either, driven from Python (in brackets what DAQP says of itself), their ratio, and by how much each level's
residual norm exceeds the least that the reference finds, at most.  DAQP's may be below it: then a level above was lost.
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
import numpy_hierarchy as oracle
import recorded_problems as recordings

import quaddyn as qd
from quaddyn.hierarchy import HierarchySolver, Level, SolverPool

sys.path.insert(0, str(Path(__file__).resolve().parent))

from bench_wbc import cpu
from rivals import daqp_hierarchy
from rivals.environments import UnavailableError

ROBOTS = ("go2", "solo12", "anymal_c")

#: Levels, and the answer of the tick that they are recorded from.
Problem = tuple[list[Level], np.ndarray | None]

#: Our median time over DAQP's.
FASTER = 0.5

#: Share of problems whose reference may fail to converge.
DOUBTFUL = 0.01


def moved(pool: SolverPool, levels: list[Level], before: object) -> float:
    """Largest change of a residual or violation above, relative, when everything below weighs 1e4 times more."""
    worst = 0.0
    for k in range(1, len(levels)):
        heavier = [
            Level(v.A, v.b, weights=v.weights * (1e4 if j >= k else 1.0), C=v.C, lower=v.lower, upper=v.upper)
            for j, v in enumerate(levels)
        ]
        after = pool.solve(heavier)
        for j in range(k):
            size = 1.0 + np.abs(levels[j].b).max(initial=0.0) + np.abs(before.levels[j].residual).max(initial=0.0)
            for part in ("residual", "violation"):
                change = getattr(after.levels[j], part) - getattr(before.levels[j], part)
                worst = max(worst, float(np.abs(change).max(initial=0.0)) / size)
    return worst


class Campaign:
    """Kind after kind, a line each."""

    def __init__(self) -> None:
        self.pool = SolverPool()
        self.failed = self.total = self.doubtful = 0
        print(f"{'kind':24s} {'excess':>8s} {'violated':>9s} {'moved':>8s} {'twins':>8s} {'verified':>9s} {'us':>7s}")

    def judge(self, title: str, problems: Iterator[Problem], bar: float) -> None:
        """Judge problems of one kind; `bar` is for strictness."""
        excess = violation = strict = twins = 0.0
        verified, spent = 0, []
        for i, (levels, answer) in enumerate(problems):
            start = time.perf_counter()
            solution = self.pool.solve(levels)
            spent.append(time.perf_counter() - start)
            verdict = hp.judge(levels, solution.x if answer is None else answer)
            excess, violation = max(excess, verdict.excess), max(violation, verdict.violation)
            verified += solution.verified
            self.doubtful += verdict.doubtful > 0
            if i % 5 == 0:
                twin = oracle.solve(levels).x if answer is None else answer
                twins = max(twins, float(np.abs(twin - solution.x).max()) / (1.0 + float(np.abs(twin).max())))
                strict = max(strict, moved(self.pool, levels, solution))
        self.total += len(spent)
        good = excess <= 1.0 and violation <= 1e-7 and strict <= bar and verified == len(spent)
        self.failed += not good
        median = 1e6 * float(np.median(spent))
        print(
            f"{title:24s} {excess:8.1e} {violation:9.1e} {strict:8.1e} {twins:8.1e} {verified:5d}/{len(spent)}"
            f" {median:7.0f}{'' if good else '   MISSED'}",
            flush=True,
        )


def random(kind: str, count: int, seed: int) -> Iterator[Problem]:
    """Problems of a kind of `hierarchy_problems`."""
    rng = np.random.default_rng([seed, hp.KINDS.index(kind)])
    for _ in range(count):
        yield hp.problem(kind, rng), None


def recorded(robot: qd.Robot, gait: str, regime: str, count: int, seed: int) -> Iterator[Problem]:
    """Problems of whole-body ticks, with their answers."""
    for command in recordings.recorded(robot, gait, regime, count, seed):
        yield recordings.levels_of(command), command.details.x


def rivals(count: int, replays: int, seed: int) -> int:
    """Kind after kind beside DAQP; how many missed the bar."""
    failed = 0
    print(f"{cpu()}; median us, cold; bar for the ratio {FASTER}")
    print(f"{'kind':24s} {'ours':>6s} {'DAQP':>6s} {'':7s} {'ratio':>5s}  our excess by level, then DAQP's")
    for name in ROBOTS:
        robot = qd.load(name)
        for gait in recordings.GAITS:
            for regime in recordings.REGIMES:
                problems = (levels for levels, _ in recorded(robot, gait, regime, count, seed))
                tally = daqp_hierarchy.compare(problems, replays)
                failed += tally.ratio > FASTER
                missed = "   MISSED" if tally.ratio > FASTER else ""
                print(f"{name + ' ' + gait + ' ' + regime:24s} {daqp_hierarchy.lines(tally)}{missed}", flush=True)
    return failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--problems", type=int, default=250, help="random problems of each kind (default 250)")
    parser.add_argument("--recorded", type=int, default=84, help="ticks of each kind (default 84)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the campaign (default 1)")
    parser.add_argument("--rivals", action="store_true", help="the recorded ticks beside DAQP, and nothing else")
    parser.add_argument("--replays", type=int, default=10, help="beside DAQP, of each problem (default 10)")
    parser.add_argument("--check", action="store_true", help="exit code 1 if a requirement is not met")
    options = parser.parse_args()
    HierarchySolver(1, [(1, 1)]).solve()
    if options.rivals:
        try:
            failed = rivals(options.recorded, options.replays, options.seed)
        except UnavailableError as reason:
            sys.exit(f"DAQP left out: {reason}")
        return 1 if options.check and failed else 0
    campaign = Campaign()
    for kind in hp.KINDS if options.problems else ():
        # Rows that differ by seven decades have a meaning to as many digits fewer.
        bar = 1e-10 if kind != "badly scaled" else 1e-7
        campaign.judge(kind, random(kind, options.problems, options.seed), bar)
    for name in ROBOTS if options.recorded else ():
        robot = qd.load(name)
        for gait in recordings.GAITS:
            for regime in recordings.REGIMES:
                problems = recorded(robot, gait, regime, options.recorded, options.seed)
                campaign.judge(f"{name} {gait} {regime}", problems, 1e-10)
    print(f"{campaign.total} problems; the reference gave up on a level of {campaign.doubtful}")
    campaign.failed += campaign.doubtful > DOUBTFUL * campaign.total
    return 1 if options.check and campaign.failed else 0


if __name__ == "__main__":
    sys.exit(main())
