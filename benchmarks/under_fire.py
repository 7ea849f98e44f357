"""Fault injection into the runtime: sensor readings, signals and forks.

    python benchmarks/under_fire.py [--parts NAME ...] [--ticks 100000] [--signals 100000] [--forks 40] [--check]

Parts, each of which can be left out:

- ``safety``: the safety layer in Python and the exported one, compiled as C99, on drawn sequences of readings (NaN,
  infinite, missing, stuck, late, repeated, out of order; stamps and clocks that cannot be), as of a Go2 and of an arm
  without IMU and feet: faults, joints and motor commands must be the same to the last bit.
- ``signals``: handlers raise at random moments of `WholeBodyController.compute`, `Simulation.step` and bare locks:
  afterwards none may be locked, and the controller's torque be that of before.
- ``forks``: children make a controller while three threads of the process that was forked do, from its first import
  on: none may hang.

With ``--check`` the exit code says whether all of this was as it must be.
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
from quaddyn.demo.report import cpu_name
from quaddyn.exclusive_call import ExclusiveCall
from quaddyn.runtime import Safety
from quaddyn.simulation import Simulation

TESTS = Path(__file__).resolve().parents[1] / "tests"
PARTS = ("safety", "signals", "forks")
#: Forks of one process: its first ones meet imports.
TOGETHER = 10


def safety(ticks: int, seed: int) -> bool:
    """Whether Python and C agree."""
    if COMPILER is None:
        print("safety: not tried, there is no C compiler")
        return False
    agree = True
    for name in ("go2", "ur5"):
        with TemporaryDirectory() as folder:
            layer = SafetyInC(Safety(qd.load(name), dt=DT, limits=LIMITS), Path(folder))
            began = time.process_time()
            differ, faults, events = differences(layer, ticks // 2, seed)
            cost = 1e6 * (time.process_time() - began) / (ticks // 2)
        agree = agree and not differ
        print(f"safety, {name}: {len(differ)} differences in {ticks // 2} ticks, {cost:.0f} us a tick of both")
        print("  faults: " + ", ".join(f"{what} {n}" for what, n in faults.most_common()))
        print("  events: " + ", ".join(f"{what} {n}" for what, n in events.most_common()))
        for words in differ[:3]:
            print(f"  {words}")
    return agree


def signals(count: int, seed: int) -> bool:
    """Whether nothing is locked afterwards."""
    robot, rng, alone = qd.load("go2"), np.random.default_rng(seed), ExclusiveCall("controller")
    state = qd.Dynamics(robot).update(robot.q_home, np.zeros(robot.nv))
    controller, plant = qd.WholeBodyController(robot), Simulation(robot)
    tau = controller.compute(state).tau

    def lock() -> None:
        with alone.acquire("call"):
            pass

    calls: tuple[tuple[str, Callable[[], object], int, float], ...] = (
        ("bare lock", lock, count // 2, 3e-5),
        ("compute", lambda: controller.compute(state), count - count // 2 - count // 20, 1e-4),
        ("step", lambda: plant.step(tau), count // 20, 1e-3),
    )
    locked = 0
    for name, call, number, longest in calls:
        try:
            within = interrupt(call, number, longest, rng)
            call()
            print(f"signals, {name}: {within} of {number} came within a call, 0 locked")
        except qd.ConcurrencyError as error:
            locked += 1
            print(f"signals, {name}: locked, {error}")
    controller.reset()
    same = not locked and bool(np.allclose(controller.compute(state).tau, tau, rtol=1e-9))
    print(f"  torque afterwards {'as before' if same else 'ANOTHER'}")
    return same


def forks(count: int) -> bool:
    """Whether all children have made a controller."""
    found = list[str]()
    while len(found) < count:
        command = [sys.executable, str(TESTS / "forking.py"), str(min(TOGETHER, count - len(found))), "0.03", "300"]
        found += subprocess.run(command, stdout=subprocess.PIPE, encoding="utf-8", check=True).stdout.split()
    hung = len(found) - found.count("0")
    print(f"forks: {hung} of {len(found)} children hung or failed")
    return hung == 0


def main() -> int:
    """What was found; 1 with ``--check`` if something is not as it must be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="*", choices=PARTS, default=PARTS)
    parser.add_argument("--ticks", type=int, default=100_000, help="of both robots together")
    parser.add_argument("--signals", type=int, default=100_000)
    parser.add_argument("--forks", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    print(f"{cpu_name()}, Python {platform.python_version()}", flush=True)
    parts: dict[str, Callable[[], bool]] = {
        "safety": lambda: safety(options.ticks, options.seed),
        "signals": lambda: signals(options.signals, options.seed),
        "forks": lambda: forks(options.forks),
    }
    verdicts = {name: parts[name]() for name in PARTS if name in options.parts}
    print(", ".join(f"{name}: {'passed' if good else 'FAILED'}" for name, good in verdicts.items()))
    return int(options.check and not all(verdicts.values()))


if __name__ == "__main__":
    sys.exit(main())
