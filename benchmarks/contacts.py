"""Frictional contact: how many random problems each robot's solves prove solved, and in how long.

    python benchmarks/contacts.py [--check] [--states 10000]

Every answer is judged again from joint velocities, not by the solver's own residual.  With --check, a missed bar ends
the program with status 1.
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

#: Share of problems that must obey the laws to 1e-6, by kind.
BARS = {"four": 0.999, "straight": 0.99, "redundant": 0.95}
LAW = 1e-6


def campaign(name: str, kind: str, count: int) -> bool:
    """One robot, one kind; prints a line."""
    robot = qd.load(name)
    solver, core = FrictionalSolver(), FrictionalSolver(fallback=False)
    status: dict[str, int] = {}
    obeyed = alone = silent = not_finite = 0
    times = []
    for case in cases(robot, count, kind, seed=2024):
        problem = ContactProblem(case.G, case.g, case.friction)
        solution = solver.solve(problem)
        start = time.perf_counter()
        first = core.solve(problem)
        times.append(time.perf_counter() - start)
        good = violation(case, solution.impulses) <= LAW
        obeyed += good
        alone += first.converged
        not_finite += not (np.isfinite(solution.impulses).all() and np.isfinite(solution.velocities).all())
        silent += not good and solution.converged  # says solved, and is not
        status[solution.status] = status.get(solution.status, 0) + 1
    share = obeyed / count
    met = share >= BARS[kind] and not not_finite and not silent
    print(
        f"{name:9s} {kind:9s} {100 * share:7.3f} % obey the laws to {LAW:g} (bar {100 * BARS[kind]:g} %), "
        f"{100 * alone / count:7.3f} % by the compiled core alone; status {status}; falsely solved: {silent}; "
        f"not finite: {not_finite}; median {1e6 * np.median(times):.0f} us, p99 {1e6 * np.percentile(times, 99):.0f} us"
        f"{'' if met else '  MISSED'}",
        flush=True,
    )
    return met


def pile(points: int = 100) -> bool:
    """A hundred points on one rigid body: whatever comes of it, the status must be honest."""
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
        honest = solution.converged == (solution.status != "inaccurate") and (not solution.converged or into <= LAW)
        met &= honest and bool(np.isfinite(solution.impulses).all())
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
    parser.add_argument("--states", type=int, default=10_000, help="of each robot and kind")
    parser.add_argument("--robots", nargs="+", default=["go2", "solo12"])
    options = parser.parse_args()
    warmup()
    print(f"{cpu()}, Python {platform.python_version()}, numpy {np.__version__}")
    met = [campaign(name, kind, options.states) for name in options.robots for kind in KINDS]
    met.append(pile())
    return int(options.check and not all(met))


if __name__ == "__main__":
    sys.exit(main())
