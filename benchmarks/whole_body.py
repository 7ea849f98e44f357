"""Whole-body control over thousands of random ticks, and across made and broken contacts.

    python benchmarks/whole_body.py            # 20,000 ticks each of five robots
    python benchmarks/whole_body.py --check    # exit code 1 if a bar is missed

Ticks go through every set of contacts in turn, calm, saturated and hard; each answer is judged by optimality conditions
that share no code with the solver, and its balance by the in-house reference (`tests/optimality.py`,
`tests/wbc_states.py`).  Torque steps are those of `tests/test_wbc.py`, on more robots.
"""

from __future__ import annotations

import argparse
import platform
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from test_wbc import largest_step
from wbc_states import judge

import quaddyn as qd

ROBOTS = ("go2", "solo12", "anymal_c", "hyq", "b1")
WALKERS = ("go2", "a1", "solo12", "anymal_b", "anymal_c", "hyq", "b1", "laikago")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ticks", type=int, default=20_000, help="per robot")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--robots", nargs="*", default=ROBOTS)
    parser.add_argument("--check", action="store_true", help="exit code 1 if a bar is missed")
    options = parser.parse_args()
    print(f"{platform.processor() or platform.machine()}, Python {platform.python_version()}, seed {options.seed}")
    missed = []
    for name in options.robots:
        start = time.perf_counter()
        tally = judge(qd.load(name), options.ticks, options.seed)
        print(f"{name}: {tally} ({time.perf_counter() - start:.0f} s)", flush=True)
        good = tally.nan == 0 and tally.imbalance < 1e-9 and tally.unflagged == 0
        if not (good and tally.verified >= 0.995 * tally.feasible and tally.proved >= 0.995 * tally.infeasible):
            missed.append(name)
    print("\nlargest torque step at 1 kHz while a contact is broken and made, in % of m g l / 4")
    for name in WALKERS:
        robot = qd.load(name)
        steps = [(largest_step(robot, foot, 0.05), largest_step(robot, foot, 0.0)) for foot in robot.feet]
        ramped, plain = max(s for s, _ in steps), max(s for _, s in steps)
        print(f"{name:10} {100 * ramped:5.1f} with ramps of 50 ms, {100 * plain:5.1f} without", flush=True)
        if ramped > 0.05:
            missed.append(f"{name} ramps")
    print("missed: " + ", ".join(missed) if missed else "all bars met")
    return 1 if options.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
