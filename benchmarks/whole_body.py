"""Checks whole-body control in thousands of random ticks, and the torque steps at contact switches.

    python benchmarks/whole_body.py            # 20,000 ticks each of five robots
    python benchmarks/whole_body.py --check    # exit code 1 if a requirement is not met

The ticks cycle through all sets of contacts, in calm, saturated and hard states.  Each solution is checked by an
interior-point solver, and its balance by the reference implementation (`tests/wbc_states.py`).  Torque steps are those
of `tests/test_wbc.py`, for more robots and feet.  Near the torque limits they are larger, since the strict optimum
itself changes faster there: at a tenth of the period they are a tenth.

Required are finite solutions, an imbalance below 1e-9, no violation without a status, verified optimality of 99.5 % of
the feasible ticks and proved infeasibility of 99.5 % of the others, and torque steps of at most `MAX_STEP` (near
the torque limits, with a `TorqueRate` only).
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
#: Duration of contact ramps [s], and largest torque step [m g l / 4].
RAMP_TIME, MAX_STEP = 0.05, 0.05
STEP_ROBOTS = ("go2", "a1", "solo12", "anymal_b", "anymal_c", "hyq", "b1", "laikago")


def main() -> int:
    """Prints the results; returns 1 if `--check` finds a requirement that is not met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ticks", type=int, default=20_000, help="number of ticks per robot")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--robots", nargs="*", default=ROBOTS)
    parser.add_argument("--check", action="store_true", help="exit code 1 if a requirement is not met")
    options = parser.parse_args()
    print(f"{platform.processor() or platform.machine()}, Python {platform.python_version()}, seed {options.seed}")
    not_met = []
    for name in options.robots:
        start = time.perf_counter()
        tally = check_random_ticks(qd.load(name), options.ticks, options.seed)
        print(f"{name}: {tally} ({time.perf_counter() - start:.0f} s)", flush=True)
        is_correct = tally.nan == 0 and tally.imbalance < 1e-9 and tally.unflagged == 0
        if not (is_correct and tally.verified >= 0.995 * tally.feasible and tally.proved >= 0.995 * tally.infeasible):
            not_met.append(name)
    print("\nlargest torque step at 1 kHz while contacts are broken and made [% of m g l / 4]")
    for name in STEP_ROBOTS:
        robot = qd.load(name)
        a, b, c, d = robot.feet
        single = [(foot,) for foot in robot.feet]
        several = [(a, d), (b, c), (a, c), (a, b, c, d)]
        step_ramped = max(largest_step(robot, feet, RAMP_TIME) for feet in single)
        step_without_ramp = max(largest_step(robot, feet, 0.0) for feet in single)
        step_several = max(largest_step(robot, feet, RAMP_TIME) for feet in several)
        step_repeated = max(
            largest_step(robot, feet, RAMP_TIME, apart=REVERSED_TRANSITIONS) for feet in single + several
        )
        print(
            f"{name:10} each foot {100 * step_ramped:4.1f} with ramps of 50 ms, {100 * step_without_ramp:4.1f} "
            f"without; diagonals, a side, all {100 * step_several:4.1f}; switched again in the ramp "
            f"{100 * step_repeated:4.1f}",
            flush=True,
        )
        if max(step_ramped, step_several, step_repeated) > MAX_STEP:
            not_met.append(f"{name} ramps")
    print("\nthe same for each foot, crouched near the torque limits")
    for name, limit_fraction in (("anymal_c", 0.5), ("anymal_c", 0.55), ("hyq", 0.5), ("b1", 0.35)):
        robot = qd.load(name)
        near_limits = {"crouch": 0.2, "share": limit_fraction}
        step_1khz = max(largest_step(robot, foot, RAMP_TIME, **near_limits) for foot in robot.feet)
        step_10khz = max(largest_step(robot, foot, RAMP_TIME, dt=1e-4, **near_limits) for foot in robot.feet)
        step_limited = max(largest_step(robot, foot, RAMP_TIME, rate=MAX_STEP, **near_limits) for foot in robot.feet)
        print(
            f"{name:10} {100 * limit_fraction:.0f} % of the limits: {100 * step_1khz:4.1f} at 1 kHz, "
            f"{100 * step_10khz:4.1f} at 10 kHz; {100 * step_limited:4.1f} with a TorqueRate of 5 % per ms",
            flush=True,
        )
        if step_limited > MAX_STEP + 1e-9:
            not_met.append(f"{name} torque rate")
    print("not met: " + ", ".join(not_met) if not_met else "all requirements met")
    return 1 if options.check and not_met else 0


if __name__ == "__main__":
    sys.exit(main())
