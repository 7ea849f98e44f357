"""Compares closed-form inverse kinematics of legs with damped Newton iterations on Pinocchio: time and error.

Both are measured in alternation in one process.  The Newton iteration is favored: Pinocchio computes the kinematics of
this leg alone, all functions are bound beforehand, and the start is within 0.2 rad of the solution; it takes at most 10
iterations to the same tolerance.  The closed form solves the same targets in one batch and in single calls; a single
call is also compared with one `pin.forwardKinematics` of the robot.  Required is a ratio of times per target, Newton
over batch, of at least `MIN_RATIO`, and an error of the closed form of at most `MAX_ERROR`.

    python benchmarks/legs.py            # print the table
    python benchmarks/legs.py --check    # exit code 1 if a requirement is not met
"""

from __future__ import annotations

import argparse
import gc
import platform
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pinocchio as pin
from rich.console import Console
from rich.table import Table

import quaddyn as qd
from quaddyn.kinematics import LegKinematics

ROBOTS = ("go2", "anymal_c", "hyq", "solo12")
COUNT, ROUNDS = 1000, 11
TOLERANCE, DAMPING, ITERATIONS = 1e-10, 1e-12, 10
MIN_RATIO = 20.0  # time of Newton over that of the closed form, per target in a batch
MAX_ERROR = 1e-12  # of the closed form [m]


def make_newton_solver(robot: qd.Robot, leg: LegKinematics) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """Returns a function (target, start) -> joint positions: damped Newton with the kinematics of this leg alone."""
    model, data, frame = robot.model, robot.model.createData(), robot.frame_id(leg.name)
    first, column = robot.configuration_index(leg.joints[0]), robot.velocity_index(leg.joints[0])
    joint_slice, columns = slice(first, first + leg.n), slice(column, column + leg.n)
    full = np.array(pin.neutral(model))
    eye = DAMPING * np.eye(3)
    jacobian, update_placement, lwa = pin.computeFrameJacobian, pin.updateFramePlacement, pin.LOCAL_WORLD_ALIGNED

    def solve(p: np.ndarray, q: np.ndarray) -> np.ndarray:
        for _ in range(ITERATIONS):
            full[joint_slice] = q
            J = jacobian(model, data, full, frame, lwa)[:3, columns]
            e = p - update_placement(model, data, frame).translation
            if e @ e < TOLERANCE * TOLERANCE:
                break
            q = q + J.T @ np.linalg.solve(J @ J.T + eye, e)
        return q

    return solve


def measure_time(call: Callable[[], object]) -> float:
    """Returns the wall time of a call [s]."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def measure_robot(name: str) -> dict[str, float]:
    """Measures times per target [us], their ratios, errors [m] and the fraction of failed Newton solves."""
    robot = qd.load(name)
    leg = LegKinematics(robot, "FL")
    rng = np.random.default_rng(0)
    low, high = np.maximum(leg.lower, -2.5), np.minimum(leg.upper, 2.5)
    q = rng.uniform(low + 0.1 * (high - low), high - 0.1 * (high - low), (COUNT, leg.n))
    # Move knees away from the straight position, near which Newton converges slowly.
    q[:, 2] = np.where(np.abs(q[:, 2]) < 0.4, -0.8, q[:, 2])
    p, starts = leg.forward(q), q + rng.uniform(-0.2, 0.2, q.shape)
    solve, data = make_newton_solver(robot, leg), robot.model.createData()
    q_full = robot.q_home
    out = np.empty_like(q)

    def run_newton() -> None:
        for i in range(COUNT):
            out[i] = solve(p[i], starts[i])

    def run_single_calls() -> None:
        for x in p[:200]:
            leg.inverse(x)

    def run_forward_kinematics() -> None:
        for _ in range(200):
            pin.forwardKinematics(robot.model, data, q_full)

    times: dict[str, list[float]] = {"newton": [], "batch": [], "single": [], "fk": []}
    gc.disable()
    try:
        for _ in range(ROUNDS):
            times["newton"].append(measure_time(run_newton) / COUNT)
            times["batch"].append(measure_time(lambda: leg.inverse(p)) / COUNT)
            times["single"].append(measure_time(run_single_calls) / 200)
            times["fk"].append(measure_time(run_forward_kinematics) / 200)
    finally:
        gc.enable()
    newton_errors = np.linalg.norm(leg.forward(out) - p, axis=1)
    return {
        **{key: 1e6 * statistics.median(value) for key, value in times.items()},
        "ratio": statistics.median(a / b for a, b in zip(times["newton"], times["batch"], strict=True)),
        "single_ratio": statistics.median(a / b for a, b in zip(times["single"], times["fk"], strict=True)),
        "newton_error": float(np.median(newton_errors)),
        "newton_failed": float((newton_errors > 10.0 * TOLERANCE).mean()),
        "error": float(leg.inverse(p).distance.max()),
    }


def cpu_name() -> str:
    """Returns the name of the processor."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    return next((x.split(":", 1)[1].strip() for x in lines if x.startswith("model name")), platform.processor())


def main() -> int:
    """Prints the table; returns 1 if `--check` finds a requirement that is not met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="exit code 1 if a requirement is not met")
    check = parser.parse_args().check
    table = Table(title=f"inverse kinematics of leg FL, times per target (us); {cpu_name()}, pin {pin.__version__}")
    for column in (
        "robot", "Newton", "error (m)", "failed", "closed form, batch", "error (m)", "ratio",
        "single call", "/ forwardKinematics",
    ):  # fmt: skip
        table.add_column(column)
    not_met = False
    for name in ROBOTS:
        m = measure_robot(name)
        not_met |= m["ratio"] < MIN_RATIO or m["error"] > MAX_ERROR
        table.add_row(
            name,
            f"{m['newton']:.1f}",
            f"{m['newton_error']:.0e}",
            f"{m['newton_failed']:.1%}",
            f"{m['batch']:.2f}",
            f"{m['error']:.0e}",
            f"{m['ratio']:.0f}",
            f"{m['single']:.0f}",
            f"{m['single_ratio']:.0f}",
        )
    Console(width=150).print(table)
    print(f"ratio >= {MIN_RATIO:g}, error <= {MAX_ERROR:g} m: {'not met' if not_met else 'met'}")
    return 1 if check and not_met else 0


if __name__ == "__main__":
    sys.exit(main())
