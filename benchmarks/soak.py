"""Computes a million whole-body ticks in one process; checks memory growth and that wrong solutions are reported.

    python benchmarks/soak.py --ticks 1000000 --check

A third of the ticks is calm (sway on all feet), a third has contacts that flap (any set of feet, another one every few
ticks, ramps under way), a third is hostile (joint speeds of 4, 8 and 15 rad/s standard deviation, which no torque takes
away within the limits).  They come in rounds, by one controller that is never reset, from a pool of states in random
order.  Every answer has to be finite; one that is called solved has to keep level 0 to 1e-6 m/s^2; and of one in
`JUDGED` the equations of motion of the base, the friction cones and the limits of torque are judged with Pinocchio's
terms.  Times are as they came, load of the machine included: `ticks.py --infeasible` measures the code's own.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pinocchio as pin

import quaddyn as qd

KINDS = ("calm", "flapping", "hostile")
SPEEDS = (4.0, 8.0, 15.0)
#: States of each kind; ticks in a row of one kind; one judgement in so many ticks.
POOL, ROUND, JUDGED = 1500, 5000, 20
#: Violation of level 0 of a solved tick [m/s^2]; what the judge allows, in m g; memory that may be gained [MiB].
VIOLATION, BALANCE, GROWTH = 1e-6, 1e-8, 4.0


def memory() -> float:
    """Resident memory of this process [MiB]."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024.0


def pool(robot: qd.Robot, kind: str, rng: np.random.Generator) -> list[tuple[np.ndarray, np.ndarray]]:
    """States of a kind."""
    out = []
    for k in range(POOL):
        speed = SPEEDS[k % len(SPEEDS)] if kind == "hostile" else 0.2
        q = pin.integrate(robot.model, robot.q_home, (0.03 if kind == "calm" else 0.05) * rng.normal(size=robot.nv))
        out.append((q, np.r_[0.1 * rng.normal(size=6), speed * rng.normal(size=robot.nv - 6)]))
    return out


class Judge:
    """Laws that an answer called solved has to obey, by Pinocchio's terms of the state."""

    def __init__(self, robot: qd.Robot, friction: float) -> None:
        self.robot, self.friction, self.dynamics = robot, friction, qd.Dynamics(robot)
        self.weight = robot.mass * 9.81

    def broken(self, q: np.ndarray, v: np.ndarray, command: qd.Command, feet: Sequence[str]) -> str:
        """The first law that is broken, "" if none is."""
        state, robot = self.dynamics.update(q, v), self.robot
        left = (state.M @ command.acceleration + state.h)[:6]
        for foot, force in command.forces.items():
            moment = np.cross((0.0, 0.0, -robot.legs[foot].foot.radius), force[:3])  # it acts at the lowest point
            left -= state.jacobian(foot)[:, :6].T @ np.r_[force[:3], moment]
            if foot not in feet and np.abs(force).max() > BALANCE * self.weight:
                return f"a force at {foot}, which is in the air"
            if np.hypot(*force[:2]) > self.friction * force[2] + BALANCE * self.weight:
                return f"the force at {foot} is outside its cone"
        if np.abs(left).max() > BALANCE * self.weight:
            return "the equations of motion of the base are broken"
        if (np.abs(command.tau) > robot.effort_limits * (1.0 + 1e-9)).any():
            return "a torque is beyond its limit"
        return ""


def soak(name: str, ticks: int, seed: int) -> list[str]:
    """So many ticks; the bars that were missed."""
    robot, friction = qd.load(name), 0.6
    rng = np.random.default_rng(seed)
    dynamics, controller = qd.Dynamics(robot), qd.WholeBodyController(robot, friction=friction)
    states, judge = {kind: pool(robot, kind, rng) for kind in KINDS}, Judge(robot, friction)
    outcomes = {kind: Counter[str]() for kind in KINDS}
    rounds = -(-ticks // (ROUND * len(KINDS)))
    times = {kind: np.full((rounds, ROUND), -1.0) for kind in KINDS}  # all of the memory is taken here
    feasible, unflagged, judged, sizes = np.full((rounds, ROUND), True), Counter[str](), 0, []
    clock, feet, start = time.perf_counter, tuple(robot.feet), time.perf_counter()
    gc.collect()
    gc.disable()
    for turn in range(rounds):
        for kind in KINDS:
            on, until, taken = feet, 0, times[kind][turn]
            for k, which in enumerate(rng.integers(POOL, size=ROUND).tolist()):
                if kind == "flapping" and k == until:
                    on, until = tuple(f for f in feet if rng.random() < 0.6), k + int(rng.integers(1, 30))
                q, v = states[kind][which]
                begin = clock()
                command = controller.compute(dynamics.update(q, v), on)
                status = command.status
                taken[k] = clock() - begin
                outcomes[kind][status.outcome] += 1
                if kind == "hostile":
                    feasible[turn, k] = status.ok
                if not np.isfinite(command.tau).all():
                    unflagged["not finite"] += 1
                if status.ok and not status.violation <= VIOLATION:
                    unflagged["level 0 violated"] += 1
                if status.ok and k % JUDGED == 0:
                    judged += 1
                    # Contacts fade over the ramp of the controller: any foot may still carry then.
                    if law := judge.broken(q, v, command, feet if kind == "flapping" else on):
                        unflagged[law] += 1
        gc.collect()
        sizes.append(memory())
    gc.enable()
    base = float(np.median(times["hostile"][feasible]))
    warm = sizes[min(len(sizes) - 1, max(1, len(sizes) // 10))]
    print(
        f"{name}: {rounds * ROUND * len(KINDS)} ticks in {time.perf_counter() - start:.0f} s, seed {seed}; "
        f"{judged} judged; unflagged: {dict(unflagged) or 'none'}"
    )
    print(f"  memory {sizes[0]:.1f} MiB after the first round, {warm:.1f} after a tenth, {sizes[-1]:.1f} in the end")
    for kind in KINDS:
        values = np.percentile(times[kind], (50, 99, 99.9, 99.99)) / base
        percentiles = ", ".join(
            f"{p} {x:.1f}" for p, x in zip(("median", "p99", "p99.9", "p99.99"), values, strict=True)
        )
        print(f"  {kind:9s} {dict(outcomes[kind])}; in hostile feasible medians ({1e6 * base:.0f} us): {percentiles}")
    missed = [f"{name}: unflagged: {law} ({count} times)" for law, count in unflagged.items()]
    if sizes[-1] - warm > GROWTH:
        missed.append(f"{name}: memory grew by {sizes[-1] - warm:.1f} MiB")
    return missed


def main() -> int:
    """Soak; 1 if `--check` finds a bar missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ticks", type=int, default=1_000_000, help="of each robot (default 1000000)")
    parser.add_argument("--robots", nargs="*", default=("go2",), metavar="NAME")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--check", action="store_true", help="exit code 1 if a requirement is not met")
    options = parser.parse_args()
    missed = [line for name in options.robots for line in soak(name, options.ticks, options.seed)]
    for line in missed:
        print(f"MISSED {line}")
    return 1 if options.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
