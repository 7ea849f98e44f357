"""Tests the frictional contact solver on random problems: fraction of solved problems and computing time.

    python benchmarks/contacts.py [--check] [--states 10000]

Every solution is verified from joint velocities, independently of the solver's residual.  With --check the exit code is
1 if a requirement is not met.
"""

from __future__ import annotations

import argparse
import platform
import sys
import time
from pathlib import Path

import numpy as np

import quaddyn as qd
from quaddyn.contact.solvers import ContactProblem, FrictionalSolver, warmup

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from contact_states import KINDS, cases, violation

#: Required fraction of problems whose contact laws hold to `LAW_TOLERANCE`, by kind.
BARS = {"four": 0.999, "straight": 0.99, "redundant": 0.95}
LAW_TOLERANCE = 1e-6


def campaign(name: str, kind: str, count: int) -> bool:
    """Solves problems of one robot and kind and prints a line; returns whether the requirements are met."""
    robot = qd.load(name)
    solver, core = FrictionalSolver(), FrictionalSolver(fallback=False)
    status: dict[str, int] = {}
    n_obeyed = alone = n_false_solved = not_finite = 0
    times = []
    for case in cases(robot, count, kind, seed=2024):
        problem = ContactProblem(case.G, case.g, case.friction)
        solution = solver.solve(problem)
        start = time.perf_counter()
        first = core.solve(problem)
        times.append(time.perf_counter() - start)
        good = violation(case, solution.impulses) <= LAW_TOLERANCE
        n_obeyed += good
        alone += first.converged
        not_finite += not (np.isfinite(solution.impulses).all() and np.isfinite(solution.velocities).all())
        n_false_solved += not good and solution.converged  # reported as solved, but is not
        status[solution.status] = status.get(solution.status, 0) + 1
    share = n_obeyed / count
    met = share >= BARS[kind] and not not_finite and not n_false_solved
    print(
        f"{name:9s} {kind:9s} {100 * share:7.3f} % obey the laws to {LAW_TOLERANCE:g} (bar {100 * BARS[kind]:g} %), "
        f"{100 * alone / count:7.3f} % by the compiled core alone; status {status}; falsely solved: {n_false_solved}; "
        f"not finite: {not_finite}; median {1e6 * np.median(times):.0f} us, p99 {1e6 * np.percentile(times, 99):.0f} us"
        f"{'' if met else '  MISSED'}",
        flush=True,
    )
    return met


def pile(points: int = 100) -> bool:
    """Solves problems of a rigid body with many contact points; returns whether the reported status is right."""
    rng = np.random.default_rng(7)
    J = np.vstack([np.hstack((np.eye(3), -_skew(p))) for p in rng.uniform(-0.5, 0.5, (points, 3)) * (1.0, 1.0, 0.01)])
    G = J @ J.T
    solver = FrictionalSolver()
    met = True
    for g in (
        J @ np.array([0.0, 0.0, -1.0, 0.3, 0.2, 0.0]),
        J @ np.array([1.0, 0.0, -0.01, 0.0, 0.0, 1.0]),
        rng.normal(size=3 * points),
    ):
        start = time.perf_counter()
        solution = solver.solve(ContactProblem(0.5 * (G + G.T), g, 0.5))
        seconds = time.perf_counter() - start
        velocities = (G @ solution.impulses.ravel() + g).reshape(-1, 3)
        into = max(0.0, -float(velocities[:, 2].min()))
        status_is_right = solution.converged == (solution.status != "inaccurate") and (
            not solution.converged or into <= LAW_TOLERANCE
        )
        met &= status_is_right and bool(np.isfinite(solution.impulses).all())
        print(
            f"pile of {points}: {solution.status}, residual {solution.residual:.2g} m/s, sinking at {into:.2g} m/s, "
            f"{1e3 * seconds:.0f} ms",
            flush=True,
        )
    return met


def _skew(p: np.ndarray) -> np.ndarray:
    x, y, z = p
    return np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])


def cpu() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    return next((x.split(":", 1)[1].strip() for x in lines if x.startswith("model name")), platform.machine())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="exit code 1 if a requirement is not met")
    parser.add_argument("--states", type=int, default=10_000, help="number of problems of each robot and kind")
    parser.add_argument("--robots", nargs="+", default=["go2", "solo12"])
    options = parser.parse_args()
    warmup()
    print(f"{cpu()}, Python {platform.python_version()}, numpy {np.__version__}")
    met = [campaign(name, kind, options.states) for name in options.robots for kind in KINDS]
    met.append(pile())
    return int(options.check and not all(met))


if __name__ == "__main__":
    sys.exit(main())
