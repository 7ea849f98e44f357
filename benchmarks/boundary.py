"""Measures the overhead of calls of `Dynamics` over the Pinocchio functions that they call.

Direct, validated and unvalidated calls alternate in one process; each round gives one ratio, and the table shows the
median over all rounds.  Function, model, data and arrays of the direct calls are looked up beforehand.

    python benchmarks/boundary.py            # print the table
    python benchmarks/boundary.py --check    # exit code 1 if a limit is exceeded
"""

from __future__ import annotations

import argparse
import gc
import platform
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pinocchio as pin
from rich.console import Console
from rich.table import Table

import quaddyn as qd

LOAD_BAR = 15.0  # largest time of loading and validation, without meshes [ms]


@dataclass(frozen=True)
class Case:
    """Call of an algorithm directly (`raw`) and by a `Dynamics` (`bound`), and the largest ratios of their times."""

    name: str
    raw: Callable[[], object]
    bound: Callable[[qd.Dynamics], Callable[[], object]]
    validated_bar: float
    unvalidated_bar: float


def cases(robot: qd.Robot, rng: np.random.Generator) -> list[Case]:
    """Returns the calls that are compared, at a random state."""
    model, data, update_data = robot.model, robot.model.createData(), robot.model.createData()
    q = pin.integrate(model, robot.q_home, 0.3 * rng.standard_normal(robot.nv))
    v, a, tau = rng.standard_normal((3, robot.nv))
    rnea, aba, crba, nle, all_terms = pin.rnea, pin.aba, pin.crba, pin.nonLinearEffects, pin.computeAllTerms

    def bind(name: str, *args: np.ndarray) -> Callable[[qd.Dynamics], Callable[[], object]]:
        def bound(dynamics: qd.Dynamics) -> Callable[[], object]:
            call = getattr(dynamics, name)
            # Written out, so that the time contains no unpacking of arguments, which calls of users do not have.
            if len(args) == 1:
                (x,) = args
                return lambda: call(x)
            if len(args) == 2:
                x, y = args
                return lambda: call(x, y)
            x, y, z = args
            return lambda: call(x, y, z)

        return bound

    def bind_update(dynamics: qd.Dynamics) -> Callable[[], object]:
        update = dynamics.update
        return lambda: update(q, v).M  # the state computes its quantities when they are read

    return [
        Case("rnea", lambda: rnea(model, data, q, v, a), bind("rnea", q, v, a), 1.6, 1.3),
        Case("aba", lambda: aba(model, data, q, v, tau), bind("aba", q, v, tau), 1.6, 1.3),
        Case("crba", lambda: crba(model, data, q), bind("crba", q), 2.0, 1.3),
        Case("nle", lambda: nle(model, data, q, v), bind("nle", q, v), 2.0, 1.3),
        Case("update, M", lambda: all_terms(model, update_data, q, v), bind_update, 1.3, 1.3),
    ]


def seconds(call: Callable[[], object], repeats: int) -> float:
    """Measures the time per call [s]."""
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - start) / repeats


def overhead(repeats: int) -> float:
    """Measures the time per call [s] of the loop and an empty lambda, which is subtracted from the measured times."""
    return seconds(lambda: None, repeats)


def measure(case: Case, robot: qd.Robot, rounds: int, repeats: int) -> tuple[float, float, float, float, float]:
    """Returns the median times [us] of direct, validated and unvalidated calls, and the medians of the two ratios."""
    calls = (case.raw, case.bound(qd.Dynamics(robot)), case.bound(qd.Dynamics(robot, validate=False)))
    for call in calls:
        seconds(call, repeats)
    times: list[list[float]] = [[], [], []]
    for index in range(rounds):
        empty = overhead(repeats)
        order = range(3) if index % 2 else range(2, -1, -1)
        for k in order:
            times[k].append(seconds(calls[k], repeats) - empty)
    raw, validated, unvalidated = times
    ratio = [statistics.median(x / r for x, r in zip(side, raw, strict=True)) for side in (validated, unvalidated)]
    return *(1e6 * statistics.median(side) for side in times), *ratio  # type: ignore[return-value]


def load_time(name: str, rounds: int) -> float:
    """Returns the median time [ms] of loading and validating a robot; meshes are found but not opened."""
    qd.load(name)
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        qd.load(name)
        times.append(time.perf_counter() - start)
    return 1e3 * statistics.median(times)


def cpu() -> str:
    """Returns the name of the processor."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robot", default="go2")
    parser.add_argument("--rounds", type=int, default=200, help="alternations per call")
    parser.add_argument("--repeats", type=int, default=500, help="calls of each kind per round")
    parser.add_argument("--check", action="store_true", help="exit code 1 if a requirement is not met")
    options = parser.parse_args()

    robot = qd.load(options.robot)
    console = Console()
    table = Table(title=f"Overhead of Dynamics: {robot.name}, nv = {robot.nv}, root = {robot.root}")
    for column in ("call", "direct [us]", "validated [us]", "ratio", "bar", "unvalidated [us]", "ratio", "bar"):
        table.add_column(column, justify="left" if column == "call" else "right")
    missed = []

    def color_value(name: str, value: float, bar: float, digits: int = 2) -> str:
        if value <= bar:
            return f"[green]{value:.{digits}f}[/green]"
        missed.append(name)
        return f"[red]{value:.{digits}f}[/red]"

    gc.collect()
    gc.disable()
    for case in cases(robot, np.random.default_rng(0)):
        raw, validated, unvalidated, ratio, unvalidated_ratio = measure(case, robot, options.rounds, options.repeats)
        table.add_row(
            case.name,
            f"{raw:.2f}",
            f"{validated:.2f}",
            color_value(f"{case.name} validated", ratio, case.validated_bar),
            f"{case.validated_bar}",
            f"{unvalidated:.2f}",
            color_value(f"{case.name} unvalidated", unvalidated_ratio, case.unvalidated_bar),
            f"{case.unvalidated_bar}",
        )
    gc.enable()
    console.print(table)
    loading = color_value("load", load_time(options.robot, 20), LOAD_BAR, 1)
    console.print(f"loading and validation without meshes: {loading} ms (bar {LOAD_BAR:g} ms)")
    console.print(f"{cpu()}, Python {platform.python_version()}, pin {pin.__version__}, numpy {np.__version__}")
    if missed:
        console.print(f"[red]bars missed: {', '.join(missed)}[/red]")
    return 1 if missed and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
