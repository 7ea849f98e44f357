"""Measures the overhead of calls of `Dynamics` over the Pinocchio functions that they call, and the time of loading.

Direct, validated and unvalidated calls alternate in one process; each round gives one ratio, and the table shows the
median over all rounds.  The direct calls use function, model, data and arrays that were looked up beforehand.  The
limits of the ratios are in `make_cases`; loading and validation must take at most `MAX_LOAD_TIME`.

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

MAX_LOAD_TIME = 15.0  # of loading and validation, without meshes [ms]


@dataclass(frozen=True)
class Case:
    """Call of an algorithm directly and by a `Dynamics`.

    Attributes:
        name: of the algorithm.
        direct: call of the Pinocchio function.
        bind: returns a call by a given `Dynamics`.
        max_validated_ratio: largest time relative to the direct call with validation.
        max_unvalidated_ratio: the same without validation.
    """

    name: str
    direct: Callable[[], object]
    bind: Callable[[qd.Dynamics], Callable[[], object]]
    max_validated_ratio: float
    max_unvalidated_ratio: float


def make_cases(robot: qd.Robot, rng: np.random.Generator) -> list[Case]:
    """Returns the calls that are compared, at a random state."""
    model, data, update_data = robot.model, robot.model.createData(), robot.model.createData()
    q = pin.integrate(model, robot.q_home, 0.3 * rng.standard_normal(robot.nv))
    v, a, tau = rng.standard_normal((3, robot.nv))
    rnea, aba, crba, nle, all_terms = pin.rnea, pin.aba, pin.crba, pin.nonLinearEffects, pin.computeAllTerms

    def make_binder(name: str, *args: np.ndarray) -> Callable[[qd.Dynamics], Callable[[], object]]:
        def bind_dynamics(dynamics: qd.Dynamics) -> Callable[[], object]:
            call = getattr(dynamics, name)
            # Written out: unpacking of arguments, which a user's call does not have, must not be measured.
            if len(args) == 1:
                (x,) = args
                return lambda: call(x)
            if len(args) == 2:
                x, y = args
                return lambda: call(x, y)
            x, y, z = args
            return lambda: call(x, y, z)

        return bind_dynamics

    def bind_update(dynamics: qd.Dynamics) -> Callable[[], object]:
        update = dynamics.update
        return lambda: update(q, v).M  # the state computes its quantities when they are read

    return [
        Case("rnea", lambda: rnea(model, data, q, v, a), make_binder("rnea", q, v, a), 1.6, 1.3),
        Case("aba", lambda: aba(model, data, q, v, tau), make_binder("aba", q, v, tau), 1.6, 1.3),
        Case("crba", lambda: crba(model, data, q), make_binder("crba", q), 2.0, 1.3),
        Case("nle", lambda: nle(model, data, q, v), make_binder("nle", q, v), 2.0, 1.3),
        Case("update, M", lambda: all_terms(model, update_data, q, v), bind_update, 1.3, 1.3),
    ]


def measure_time(call: Callable[[], object], repeats: int) -> float:
    """Measures the time per call [s]."""
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - start) / repeats


def measure_loop_overhead(repeats: int) -> float:
    """Measures the time per call [s] of an empty lambda in the loop, which is subtracted from the measured times."""
    return measure_time(lambda: None, repeats)


def compare(case: Case, robot: qd.Robot, rounds: int, repeats: int) -> tuple[float, float, float, float, float]:
    """Returns the median times [us] of direct, validated and unvalidated calls, and the medians of the two ratios."""
    calls = (case.direct, case.bind(qd.Dynamics(robot)), case.bind(qd.Dynamics(robot, validate=False)))
    for call in calls:
        measure_time(call, repeats)
    times: list[list[float]] = [[], [], []]
    for round_number in range(rounds):
        empty = measure_loop_overhead(repeats)
        order = range(3) if round_number % 2 else range(2, -1, -1)
        for k in order:
            times[k].append(measure_time(calls[k], repeats) - empty)
    direct, validated, unvalidated = times
    ratio = [
        statistics.median(x / r for x, r in zip(times_of_kind, direct, strict=True))
        for times_of_kind in (validated, unvalidated)
    ]
    return *(1e6 * statistics.median(times_of_kind) for times_of_kind in times), *ratio  # type: ignore[return-value]


def measure_load_time(name: str, rounds: int) -> float:
    """Returns the median time [ms] of loading and validating a robot; mesh files are located but not opened."""
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
    parser.add_argument("--robot", default="go2", help="name of the catalogue")
    parser.add_argument("--rounds", type=int, default=200, help="number of alternating rounds per algorithm")
    parser.add_argument("--repeats", type=int, default=500, help="number of calls of each kind per round")
    parser.add_argument("--check", action="store_true", help="exit code 1 if a requirement is not met")
    options = parser.parse_args()

    robot = qd.load(options.robot)
    console = Console()
    table = Table(title=f"Overhead of Dynamics: {robot.name}, nv = {robot.nv}, root = {robot.root}")
    for column in ("call", "direct [us]", "validated [us]", "ratio", "limit", "unvalidated [us]", "ratio", "limit"):
        table.add_column(column, justify="left" if column == "call" else "right")
    exceeded = []

    def color_value(name: str, value: float, limit: float, digits: int = 2) -> str:
        if value <= limit:
            return f"[green]{value:.{digits}f}[/green]"
        exceeded.append(name)
        return f"[red]{value:.{digits}f}[/red]"

    gc.collect()
    gc.disable()
    for case in make_cases(robot, np.random.default_rng(0)):
        direct, validated, unvalidated, ratio, unvalidated_ratio = compare(case, robot, options.rounds, options.repeats)
        table.add_row(
            case.name,
            f"{direct:.2f}",
            f"{validated:.2f}",
            color_value(f"{case.name} validated", ratio, case.max_validated_ratio),
            f"{case.max_validated_ratio}",
            f"{unvalidated:.2f}",
            color_value(f"{case.name} unvalidated", unvalidated_ratio, case.max_unvalidated_ratio),
            f"{case.max_unvalidated_ratio}",
        )
    gc.enable()
    console.print(table)
    loading = color_value("load", measure_load_time(options.robot, 20), MAX_LOAD_TIME, 1)
    console.print(f"loading and validation without meshes: {loading} ms (limit {MAX_LOAD_TIME:g} ms)")
    console.print(f"{cpu()}, Python {platform.python_version()}, pin {pin.__version__}, numpy {np.__version__}")
    if exceeded:
        console.print(f"[red]limits exceeded: {', '.join(exceeded)}[/red]")
    return 1 if exceeded and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
