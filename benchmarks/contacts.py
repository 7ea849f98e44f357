"""Tests the frictional contact solver on random problems: fraction of solved problems and computing time.

    python benchmarks/contacts.py [--check] [--states 10000]

Every solution is verified from joint velocities, independently of the solver's residual.  Requirements: the contact
laws hold to 1e-6 in the fraction `MIN_SOLVED_FRACTION` of the problems, no solution is wrongly reported as converged,
and all results are finite.  With --check the exit code is 1 if a requirement is not met.
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
MIN_SOLVED_FRACTION = {"four": 0.999, "straight": 0.99, "redundant": 0.95}
LAW_TOLERANCE = 1e-6  # of the contact laws [m/s]


def solve_problems(name: str, kind: str, count: int) -> bool:
    """Solves the problems of a robot and kind and prints a line; returns whether the requirements are met."""
    robot = qd.load(name)
    solver, core_solver = FrictionalSolver(), FrictionalSolver(fallback=False)
    status_counts: dict[str, int] = {}
    n_satisfied = n_core_converged = n_wrongly_converged = not_finite = 0
    times = []
    for case in cases(robot, count, kind, seed=2024):
        problem = ContactProblem(case.G, case.g, case.friction)
        solution = solver.solve(problem)
        start = time.perf_counter()
        core_solution = core_solver.solve(problem)
        times.append(time.perf_counter() - start)
        satisfied = violation(case, solution.impulses) <= LAW_TOLERANCE
        n_satisfied += satisfied
        n_core_converged += core_solution.converged
        not_finite += not (np.isfinite(solution.impulses).all() and np.isfinite(solution.velocities).all())
        n_wrongly_converged += not satisfied and solution.converged
        status_counts[solution.status] = status_counts.get(solution.status, 0) + 1
    fraction = n_satisfied / count
    met = fraction >= MIN_SOLVED_FRACTION[kind] and not not_finite and not n_wrongly_converged
    print(
        f"{name:9s} {kind:9s} {100 * fraction:7.3f} % satisfy the contact laws to {LAW_TOLERANCE:g} "
        f"(required {100 * MIN_SOLVED_FRACTION[kind]:g} %), {100 * n_core_converged / count:7.3f} % without the "
        f"fallback; status {status_counts}; wrongly reported as converged: {n_wrongly_converged}; "
        f"not finite: {not_finite}; median {1e6 * np.median(times):.0f} us, p99 {1e6 * np.percentile(times, 99):.0f} us"
        f"{'' if met else '  MISSED'}",
        flush=True,
    )
    return met


def solve_pile(points: int = 100) -> bool:
    """Solves problems of a rigid body with many contact points; returns whether the reported status is correct."""
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
        penetration_velocity = max(0.0, -float(velocities[:, 2].min()))
        status_is_right = solution.converged == (solution.status != "inaccurate") and (
            not solution.converged or penetration_velocity <= LAW_TOLERANCE
        )
        met &= status_is_right and bool(np.isfinite(solution.impulses).all())
        print(
            f"pile of {points}: {solution.status}, residual {solution.residual:.2g} m/s, "
            f"penetration velocity {penetration_velocity:.2g} m/s, {1e3 * seconds:.0f} ms",
            flush=True,
        )
    return met


def _skew(p: np.ndarray) -> np.ndarray:
    """Returns the matrix of the cross product with p."""
    x, y, z = p
    return np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])


def cpu() -> str:
    """Returns the name of the processor."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    return next((x.split(":", 1)[1].strip() for x in lines if x.startswith("model name")), platform.machine())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="exit code 1 if a requirement is not met")
    parser.add_argument("--states", type=int, default=10_000, help="number of problems of each robot and kind")
    parser.add_argument("--robots", nargs="+", default=["go2", "solo12"], help="names of the catalogue")
    options = parser.parse_args()
    warmup()
    print(f"{cpu()}, Python {platform.python_version()}, numpy {np.__version__}")
    met = [solve_problems(name, kind, options.states) for name in options.robots for kind in KINDS]
    met.append(solve_pile())
    return int(options.check and not all(met))


if __name__ == "__main__":
    sys.exit(main())
