"""Measures the time of a walking tick beside the whole-body tick in it and beside TSID's tick.

    python benchmarks/walker.py                              # Go2, Solo12 and ANYmal C
    python benchmarks/walker.py --robots go2 --ticks 4000 --check

Each robot trots and turns in the embedded plant; `LocomotionController.compute` is called from Python at every tick.
TSID runs in a separate process on the recorded ticks of `bench_wbc.py` (trot, calm), references included; the programs
alternate after each chunk of ticks; the first ticks of each chunk, whose caches hold the data of the other program,
are not counted.  Both are repeated: the walk starts again from the same state with the same result,
and the time of a tick is the minimum over the repetitions.  Times are CPU times of the thread.  Printed are median,
99th and 99.9th percentile in microseconds, and the parts of a tick: rigid-body terms, `walk_blind` (from the state to
the references of the tasks), the whole-body controller, and everything else, which is Python.  The changes of the
solver's working sets in a tick are counted, too: these numbers are the same on every machine under any load.

``--check`` exits with 1 unless the median is at most that of TSID, and median and 99th percentile are at most 2.5 and 4
times the median of the whole-body controller.
"""

from __future__ import annotations

import argparse
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import quaddyn as qd
from quaddyn.operating_system import cpu_name

sys.path.insert(0, str(Path(__file__).resolve().parent))

from bench_wbc import record
from rivals import environments
from rivals.process import Rival

ROBOTS = ("go2", "solo12", "anymal_c")
#: Control period [s], commanded speed [sqrt(g l)] and yaw rate [rad/s], and time after which ticks are measured [s].
DT, SPEED, YAW_RATE, START_TIME = 2e-3, 0.15, 0.1, 2.0
#: Number of ticks after each alternation that are not counted.
SETTLING_TICKS = 5
#: Maximum ratios: of the median to TSID's, of the median and of the 99th percentile to the whole-body median.
MAX_TSID_RATIO, MAX_WBC_RATIO, MAX_WBC_TAIL_RATIO = 1.0, 2.5, 4.0


class Stopwatch:
    """Function that adds up the CPU time of its calls since `reset` [s].

    Args:
        function: function that is called.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self.seconds = function, 0.0

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Calls the function and adds the time of the call."""
        start = time.thread_time()
        result = self.function(*arguments, **named)
        self.seconds += time.thread_time() - start
        return result


class WalkingRobot:
    """Robot that trots in the embedded plant.

    Args:
        name: name of the catalogue.
    """

    def __init__(self, name: str) -> None:
        self.robot = robot = qd.load(name)
        self.controller = qd.LocomotionController(robot, dt=DT)
        self.controller.warmup(quiet=True)
        self.plant, self.dynamics = qd.Simulation(robot, dt=DT), qd.Dynamics(robot)
        self.plant.reset()
        self.command = (SPEED * self.controller.morphology.speed_scale, 0.0, YAW_RATE)
        self.times: list[float] = []
        self.parts: dict[str, list[float]] = {"terms": [], "walk": [], "whole-body": []}
        self.changes: list[int] = []  # changes of the working sets, by tick
        self.limits: list[int] = []  # numbers of inequalities, by tick
        self.watches: dict[str, Stopwatch] = {}
        self.run(0, settling=round(START_TIME / DT))

    def split(self) -> None:
        """Measures also the parts of a tick from now on, which takes time itself."""
        controller = self.controller
        calls, wbc = controller._walking.bind(), controller.wbc
        self.watches = {
            "terms": Stopwatch(calls.update_terms), "walk": Stopwatch(calls.begin_tick),
            "whole-body": Stopwatch(wbc.compute),
        }  # fmt: skip
        calls.update_terms, calls.begin_tick = self.watches["terms"], self.watches["walk"]
        controller._quadruped.wbc = _Wrapped(wbc, self.watches["whole-body"])  # type: ignore[assignment]

    def run(self, ticks: int, settling: int = SETTLING_TICKS) -> None:
        """Computes and simulates ticks, of which those after the first ``settling`` ones are measured."""
        clock, compute, data = time.thread_time, self.controller.compute, self.controller.wbc.solver.data
        for tick in range(-settling, ticks):
            state = self.dynamics.update(self.plant.q, self.plant.v)
            for watch in self.watches.values():
                watch.seconds = 0.0
            start = clock()
            command = compute(state, self.command)
            seconds = clock() - start
            if tick >= 0:
                self.times.append(seconds)
                self.changes.append(int(data.work.summary.iterations))
                self.limits.append(int(data.rows.n_limits))
                for name, watch in self.watches.items():
                    self.parts[name].append(watch.seconds)
            self.plant.step(command.tau)


class _Wrapped:
    """Whole-body controller whose `compute` is measured.

    Args:
        wbc: the controller.
        compute: function that replaces its `compute`.
    """

    def __init__(self, wbc: qd.WholeBodyController, compute: Callable[..., Any]) -> None:
        self._wbc, self.compute = wbc, compute

    def __getattr__(self, name: str) -> Any:
        return getattr(self._wbc, name)


def percentiles(times: list[float]) -> tuple[float, float, float]:
    """Returns median, 99th and 99.9th percentile of times [s] in microseconds."""
    median, tail, far = np.percentile(np.array(times) * 1e6, (50.0, 99.0, 99.9)).tolist()
    return median, tail, far


def measure(name: str, options: argparse.Namespace) -> list[str]:
    """Prints the times of one robot, and returns the requirements that are not met."""
    walkers = [WalkingRobot(name) for _ in range(options.repetitions)]
    r = record(qd.load(name), "trot", "calm", options.chunk, options.seed)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "recording.npz"
        np.savez(path, **r)
        try:
            tsid = Rival("tsid", path)
        except environments.UnavailableError as reason:
            print(f"TSID skipped: {reason}")
            tsid = None
        for walker in walkers:
            for _ in range(options.ticks // options.chunk):
                walker.run(options.chunk)
                if tsid is not None:
                    tsid.run(0, options.chunk)
        times = np.min([walker.times for walker in walkers], axis=0).tolist()
        if tsid is not None:
            answer = tsid.answer()
            tsid_median = 1e6 * float(np.median(answer["solve"] + answer["references"]))
    for walker in walkers:
        walker.times.clear()
        walker.split()
        walker.run(options.ticks)
    names = walkers[0].parts
    parts = {part: percentiles(np.min([w.parts[part] for w in walkers], axis=0).tolist())[0] for part in names}
    median, tail, far = percentiles(times)
    wbc = parts["whole-body"]
    rest = percentiles(np.min([w.times for w in walkers], axis=0).tolist())[0] - sum(parts.values())
    pieces = ", ".join(f"{part} {value:.1f}" for part, value in {**parts, "rest": rest}.items())
    line = f"{name}: walking tick {median:.1f} (p99 {tail:.1f}, p99.9 {far:.1f}) us, whole-body tick in it {wbc:.1f}"
    missed = []
    if tsid is not None:
        line += f", TSID {tsid_median:.1f}: {median / tsid_median:.2f} of TSID"
        if median > MAX_TSID_RATIO * tsid_median:
            missed.append(f"{name}: {median / tsid_median:.2f} > {MAX_TSID_RATIO:g} of TSID")
    print(f"{line}; median {median / wbc:.1f} and p99 {tail / wbc:.1f} of the whole-body tick\n  parts: {pieces} us")
    changes, limits = np.array(walkers[0].changes), np.array(walkers[0].limits)
    with_new_rows = changes[1:][np.diff(limits) != 0]
    print(
        f"  changes of the working sets: mean {changes.mean():.2f}, p99 {np.percentile(changes, 99.0):.0f}, at most "
        f"{changes.max()}; in the {len(with_new_rows)} ticks in which contacts change mean {with_new_rows.mean():.1f}, "
        f"at most {with_new_rows.max()}"
    )
    if median > MAX_WBC_RATIO * wbc:
        missed.append(f"{name}: median {median / wbc:.2f} > {MAX_WBC_RATIO:g} of the whole-body tick")
    if tail > MAX_WBC_TAIL_RATIO * wbc:
        missed.append(f"{name}: p99 {tail / wbc:.2f} > {MAX_WBC_TAIL_RATIO:g} of the whole-body tick")
    return missed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--robots", nargs="+", default=list(ROBOTS), help="names of the catalogue")
    parser.add_argument("--ticks", type=int, default=4000, help="number of measured ticks (default 4000)")
    parser.add_argument("--chunk", type=int, default=100, help="ticks after which the programs alternate (default 100)")
    parser.add_argument("--repetitions", type=int, default=3, help="repetitions of the walk (default 3)")
    parser.add_argument("--seed", type=int, default=1, help="seed of TSID's recording")
    parser.add_argument("--check", action="store_true", help="exit code 1 if a requirement is not met")
    options = parser.parse_args()
    print(f"{cpu_name()}; times in microseconds, called from Python {platform.python_version()}")
    missed = [line for name in options.robots for line in measure(name, options)]
    for line in missed:
        print(f"MISSED {line}")
    return 1 if options.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
