"""Tests the runtime with injected faults: sensor readings, signals and forks.

    python benchmarks/under_fire.py [--parts NAME ...] [--ticks 100000] [--signals 100000] [--forks 40] [--check]

Parts, each of which can be omitted:

- ``safety``: compares the safety layer in Python with the exported one, compiled as C99, on random sequences of
  readings of a Go2 and of an arm without IMU and feet: values that are NaN, infinite, missing, constant, late, repeated
  or out of order, and impossible time stamps.  Required are identical faults and joints, and motor commands that are
  equal up to rounding.
- ``signals``: signal handlers raise exceptions at random moments of `WholeBodyController.compute`, `Simulation.step`
  and bare locks.  Required is that no lock is held afterwards and that the controller returns the same torques as
  before.
- ``forks``: forked child processes create a controller while three threads of the parent process do so, too, from its
  first import on.  Required is that no child process hangs.

With ``--check`` the exit code is 1 if a requirement is not met.
"""

from __future__ import annotations

import argparse
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from compiling_c import COMPILER
from interrupting import interrupt
from safety_in_c import DT, LIMITS, SafetyInC, differences

import quaddyn as qd
from quaddyn.exclusive_call import ExclusiveCall
from quaddyn.operating_system import cpu_name
from quaddyn.runtime import Safety
from quaddyn.simulation import Simulation

TESTS = Path(__file__).resolve().parents[1] / "tests"
PARTS = ("safety", "signals", "forks")
#: Forks of one process; the first ones occur during its imports.
FORKS_PER_PROCESS = 10


def check_safety(ticks: int, seed: int) -> bool:
    """Compares the safety layer in Python and in C; returns whether they are identical."""
    if COMPILER is None:
        print("safety: not tested, no C compiler was found")
        return False
    is_identical = True
    for name in ("go2", "ur5"):
        with TemporaryDirectory() as folder:
            layer = SafetyInC(Safety(qd.load(name), dt=DT, limits=LIMITS), Path(folder))
            begin_time = time.process_time()
            deviations, faults, events = differences(layer, ticks // 2, seed)
            microseconds = 1e6 * (time.process_time() - begin_time) / (ticks // 2)
        is_identical = is_identical and not deviations
        print(
            f"safety, {name}: {len(deviations)} differences in {ticks // 2} ticks, "
            f"{microseconds:.0f} us per tick of both"
        )
        print("  faults: " + ", ".join(f"{event} {n}" for event, n in faults.most_common()))
        print("  events: " + ", ".join(f"{event} {n}" for event, n in events.most_common()))
        for text in deviations[:3]:
            print(f"  {text}")
    return is_identical


def check_signals(count: int, seed: int) -> bool:
    """Interrupts calls by signals; returns whether no lock is held afterwards and the torques are unchanged."""
    robot, rng, bare_lock = qd.load("go2"), np.random.default_rng(seed), ExclusiveCall("controller")
    state = qd.Dynamics(robot).update(robot.q_home, np.zeros(robot.nv))
    controller, plant = qd.WholeBodyController(robot), Simulation(robot)
    tau = controller.compute(state).tau

    def lock() -> None:
        """Acquires and releases a lock."""
        with bare_lock.acquire("call"):
            pass

    calls: tuple[tuple[str, Callable[[], object], int, float], ...] = (
        ("bare lock", lock, count // 2, 3e-5),
        ("compute", lambda: controller.compute(state), count - count // 2 - count // 20, 1e-4),
        ("step", lambda: plant.step(tau), count // 20, 1e-3),
    )
    n_locked = 0
    for name, call, n_signals, max_delay in calls:
        try:
            n_interrupted = interrupt(call, n_signals, max_delay, rng)
            call()
            print(f"signals, {name}: {n_interrupted} of {n_signals} signals during a call, no lock held")
        except qd.ConcurrencyError as error:
            n_locked += 1
            print(f"signals, {name}: lock held: {error}")
    controller.reset()
    is_met = not n_locked and bool(np.allclose(controller.compute(state).tau, tau, rtol=1e-9))
    print(f"  torques afterwards: {'as before' if is_met else 'DIFFERENT'}")
    return is_met


def check_forks(count: int) -> bool:
    """Forks processes that create a controller; returns whether all succeed."""
    results = list[str]()
    while len(results) < count:
        command = [
            sys.executable,
            str(TESTS / "forking.py"),
            str(min(FORKS_PER_PROCESS, count - len(results))),
            "0.03",
            "300",
        ]
        results += subprocess.run(command, stdout=subprocess.PIPE, encoding="utf-8", check=True).stdout.split()
    n_failed = len(results) - results.count("0")
    print(f"forks: {n_failed} of {len(results)} children hung or failed")
    return n_failed == 0


def main() -> int:
    """Runs the selected parts; returns 1 if `--check` finds a requirement that is not met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="*", choices=PARTS, default=PARTS)
    parser.add_argument("--ticks", type=int, default=100_000, help="number of ticks of both robots together")
    parser.add_argument("--signals", type=int, default=100_000, help="number of signals")
    parser.add_argument("--forks", type=int, default=40, help="number of forked processes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--check", action="store_true", help="exit code 1 if a requirement is not met")
    options = parser.parse_args()
    print(f"{cpu_name()}, Python {platform.python_version()}", flush=True)
    parts: dict[str, Callable[[], bool]] = {
        "safety": lambda: check_safety(options.ticks, options.seed),
        "signals": lambda: check_signals(options.signals, options.seed),
        "forks": lambda: check_forks(options.forks),
    }
    verdicts = {name: parts[name]() for name in PARTS if name in options.parts}
    print(", ".join(f"{name}: {'passed' if is_passed else 'FAILED'}" for name, is_passed in verdicts.items()))
    return int(options.check and not all(verdicts.values()))


if __name__ == "__main__":
    sys.exit(main())
