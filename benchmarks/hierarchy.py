"""Strict hierarchies against an independent interior-point solver: 3,250 random problems of every nasty kind.

    python benchmarks/hierarchy.py --check

Per kind: the largest improvement of any level that the reference found, as a share of what is allowed (1e-9 relative
plus the reference's own error), the largest violation of what a level above had kept, how far strictness holds (weights
below times 1e4), how often the certificate verifies, and the compiled solver's time.  Ends with exit code 1 if a bar is
missed.  Needs `piqp` (the extra `test`).
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import hierarchy_problems as hp

from quaddyn.hierarchy import HierarchySolver, Level, SolverPool, solve

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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--problems", type=int, default=250, help="problems of each kind (default 250)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the campaign (default 1)")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a bar is missed")
    options = parser.parse_args()
    pool = SolverPool()
    HierarchySolver(1, [(1, 1)]).solve()
    failed = total = doubtful = 0
    print(f"{'kind':20s} {'excess':>8s} {'violated':>9s} {'moved':>8s} {'twins':>8s} {'verified':>9s} {'us':>7s}")
    for number, kind in enumerate(hp.KINDS):
        rng = np.random.default_rng([options.seed, number])
        excess = violation = strict = twins = 0.0
        verified, spent = 0, []
        for i in range(options.problems):
            levels = hp.problem(kind, rng)
            start = time.perf_counter()
            solution = pool.solve(levels)
            spent.append(time.perf_counter() - start)
            verdict = hp.judge(levels, solution.x)
            excess, violation = max(excess, verdict.excess), max(violation, verdict.violation)
            verified += solution.verified
            doubtful += verdict.doubtful > 0
            if i % 5 == 0:
                twin = solve(levels)
                twins = max(twins, float(np.abs(twin.x - solution.x).max()) / (1.0 + float(np.abs(twin.x).max())))
                strict = max(strict, moved(pool, levels, solution))
        total += options.problems
        # Rows that differ by seven decades have a meaning to as many digits fewer.
        bar = 1e-10 if kind != "badly scaled" else 1e-7
        good = excess <= 1.0 and violation <= 1e-7 and strict <= bar and verified == options.problems
        failed += not good
        median = 1e6 * float(np.median(spent))
        print(
            f"{kind:20s} {excess:8.1e} {violation:9.1e} {strict:8.1e} {twins:8.1e} {verified:5d}/{options.problems}"
            f" {median:7.0f}{'' if good else '   MISSED'}",
            flush=True,
        )
    print(f"{total} problems; the reference gave up on a level of {doubtful}")
    failed += doubtful > DOUBTFUL * total
    return 1 if options.check and failed else 0


if __name__ == "__main__":
    sys.exit(main())
