"""Whole-body control over thousands of random ticks, and across made and broken contacts.

    python benchmarks/whole_body.py            # 20,000 ticks each of five robots
    python benchmarks/whole_body.py --check    # exit code 1 if a requirement is not met

Ticks go through every set of contacts in turn, calm, saturated and hard; each answer is judged by optimality conditions
that share no code with the solver, and its balance by the reference implementation (`tests/optimality.py`,
`tests/wbc_states.py`).  Torque steps are those of `tests/test_wbc.py`, on more robots and feet; next to the torque
limits they are larger, which is the strict optimum's own slope: a tenth in a tenth of the time.
"""

from __future__ import annotations

import argparse
import platform
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from test_wbc import REVERSED_TRANSITIONS, largest_step
from wbc_states import check_random_ticks

import quaddyn as qd

ROBOTS = ("go2", "solo12", "anymal_c", "hyq", "b1")
#: Ramps [s], and the largest step of a torque, per m g l / 4.
RAMP, STEP = 0.05, 0.05
WALKERS = ("go2", "a1", "solo12", "anymal_b", "anymal_c", "hyq", "b1", "laikago")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ticks", type=int, default=20_000, help="per robot")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--robots", nargs="*", default=ROBOTS)
    parser.add_argument("--check", action="store_true", help="exit code 1 if a requirement is not met")
    options = parser.parse_args()
    print(f"{platform.processor() or platform.machine()}, Python {platform.python_version()}, seed {options.seed}")
    missed = []
    for name in options.robots:
        start = time.perf_counter()
        tally = check_random_ticks(qd.load(name), options.ticks, options.seed)
        print(f"{name}: {tally} ({time.perf_counter() - start:.0f} s)", flush=True)
        good = tally.nan == 0 and tally.imbalance < 1e-9 and tally.unflagged == 0
        if not (good and tally.verified >= 0.995 * tally.feasible and tally.proved >= 0.995 * tally.infeasible):
            missed.append(name)
    print("\nlargest torque step at 1 kHz while contacts are broken and made, in % of m g l / 4")
    for name in WALKERS:
        robot = qd.load(name)
        a, b, c, d = robot.feet
        single = [(foot,) for foot in robot.feet]
        several = [(a, d), (b, c), (a, c), (a, b, c, d)]
        ramped = max(largest_step(robot, feet, RAMP) for feet in single)
        plain = max(largest_step(robot, feet, 0.0) for feet in single)
        together = max(largest_step(robot, feet, RAMP) for feet in several)
        wavering = max(largest_step(robot, feet, RAMP, apart=REVERSED_TRANSITIONS) for feet in single + several)
        print(
            f"{name:10} each foot {100 * ramped:4.1f} with ramps of 50 ms, {100 * plain:4.1f} without; diagonals, a "
            f"side, all {100 * together:4.1f}; made and broken again half-way {100 * wavering:4.1f}",
            flush=True,
        )
        if max(ramped, together, wavering) > STEP:
            missed.append(f"{name} ramps")
    print("\nthe same, each foot, crouched next to the torque limits")
    for name, share in (("anymal_c", 0.5), ("anymal_c", 0.55), ("hyq", 0.5), ("b1", 0.35)):
        robot = qd.load(name)
        near = {"crouch": 0.2, "share": share}
        steep = max(largest_step(robot, foot, RAMP, **near) for foot in robot.feet)
        fine = max(largest_step(robot, foot, RAMP, dt=1e-4, **near) for foot in robot.feet)
        held = max(largest_step(robot, foot, RAMP, rate=STEP, **near) for foot in robot.feet)
        print(
            f"{name:10} {100 * share:.0f} % of the limits: {100 * steep:4.1f} at 1 kHz, {100 * fine:4.1f} at 10 kHz; "
            f"{100 * held:4.1f} with a TorqueRate of 5 per ms",
            flush=True,
        )
        if held > STEP + 1e-9:
            missed.append(f"{name} torque rate")
    print("missed: " + ", ".join(missed) if missed else "all requirements met")
    return 1 if options.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
