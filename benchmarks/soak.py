"""Computes a million whole-body ticks in one process; checks memory growth and that wrong solutions are reported.

    python benchmarks/soak.py --ticks 1000000 --objects 1000 --check

A third of the ticks is calm (a slow motion on all feet).  In a third, contacts switch at random (any set of feet,
another one every few ticks, also during ramps).  A third is hostile (joint speeds with standard deviations of 4, 8 and
15 rad/s, which no torques within the limits can stop).  They alternate in rounds, with one controller that is never
reset, and with states in random order.  Required is that every solution is finite, that one with the status solved
violates level 0 by at most 1e-6 m/s^2, and that memory does not grow.  One of `CHECK_INTERVAL` solutions is checked
with Pinocchio's terms: the equations of motion of the base, the friction cones and the torque limits.  Times include
other load of the machine; `ticks.py --infeasible` measures without it.

Afterwards it makes and drops `--objects` controllers, plants and viewers that serve a page, each used once; required
is that memory, threads and open files do not grow.
"""

from __future__ import annotations

import argparse
import gc
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pinocchio as pin

import quaddyn as qd
from quaddyn.simulation import Simulation
from quaddyn.viewer import Viewer

KINDS = ("calm", "switching", "hostile")
SPEEDS = (4.0, 8.0, 15.0)
#: Number of states of each kind; consecutive ticks of one kind; a solution is checked every `CHECK_INTERVAL` ticks.
N_STATES, ROUND_TICKS, CHECK_INTERVAL = 1500, 5000, 20
#: Largest violation of level 0 of a solved tick [m/s^2]; tolerance of the checks [m g]; largest memory growth [MiB].
MAX_VIOLATION, BALANCE_TOLERANCE, MAX_MEMORY_GROWTH = 1e-6, 1e-8, 4.0


def resident_memory() -> float:
    """Returns the resident memory of this process [MiB]."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024.0


def make_states(robot: qd.Robot, kind: str, rng: np.random.Generator) -> list[tuple[np.ndarray, np.ndarray]]:
    """Draws states of a kind."""
    states = []
    for k in range(N_STATES):
        speed = SPEEDS[k % len(SPEEDS)] if kind == "hostile" else 0.2
        q = pin.integrate(robot.model, robot.q_home, (0.03 if kind == "calm" else 0.05) * rng.normal(size=robot.nv))
        states.append((q, np.r_[0.1 * rng.normal(size=6), speed * rng.normal(size=robot.nv - 6)]))
    return states


class SolutionChecker:
    """Checker of physical laws that solved ticks have to satisfy, by Pinocchio's terms of the state."""

    def __init__(self, robot: qd.Robot, friction: float) -> None:
        self.robot, self.friction, self.dynamics = robot, friction, qd.Dynamics(robot)
        self.weight = robot.mass * 9.81

    def first_violation(self, q: np.ndarray, v: np.ndarray, command: qd.Command, feet: Sequence[str]) -> str:
        """Returns the first law that is violated, "" if there is none."""
        state, robot = self.dynamics.update(q, v), self.robot
        residual = (state.M @ command.acceleration + state.h)[:6]
        for foot, force in command.forces.items():
            # The force acts at the lowest point of the foot.
            moment = np.cross((0.0, 0.0, -robot.legs[foot].foot.radius), force[:3])
            residual -= state.jacobian(foot)[:, :6].T @ np.r_[force[:3], moment]
            if foot not in feet and np.abs(force).max() > BALANCE_TOLERANCE * self.weight:
                return f"force at the swing foot {foot}"
            if np.hypot(*force[:2]) > self.friction * force[2] + BALANCE_TOLERANCE * self.weight:
                return f"force at {foot} outside its friction cone"
        if np.abs(residual).max() > BALANCE_TOLERANCE * self.weight:
            return "equations of motion of the base violated"
        if (np.abs(command.tau) > robot.effort_limits * (1.0 + 1e-9)).any():
            return "torque beyond its limit"
        return ""


def run_robot(name: str, ticks: int, seed: int) -> list[str]:
    """Computes the ticks of one robot, prints the results and returns the requirements that are not met."""
    robot, friction = qd.load(name), 0.6
    rng = np.random.default_rng(seed)
    dynamics, controller = qd.Dynamics(robot), qd.WholeBodyController(robot, friction=friction)
    states, checker = {kind: make_states(robot, kind, rng) for kind in KINDS}, SolutionChecker(robot, friction)
    outcomes = {kind: Counter[str]() for kind in KINDS}
    rounds = -(-ticks // (ROUND_TICKS * len(KINDS)))
    times = {kind: np.full((rounds, ROUND_TICKS), -1.0) for kind in KINDS}  # allocates all memory before the first tick
    feasible, violations, n_checked, memory_sizes = np.full((rounds, ROUND_TICKS), True), Counter[str](), 0, []
    clock, feet, start = time.perf_counter, tuple(robot.feet), time.perf_counter()
    gc.collect()
    gc.disable()
    for round_index in range(rounds):
        for kind in KINDS:
            contacts, switch_tick, durations = feet, 0, times[kind][round_index]
            for k, index in enumerate(rng.integers(N_STATES, size=ROUND_TICKS).tolist()):
                if kind == "switching" and k == switch_tick:
                    contacts, switch_tick = tuple(f for f in feet if rng.random() < 0.6), k + int(rng.integers(1, 30))
                q, v = states[kind][index]
                begin = clock()
                command = controller.compute(dynamics.update(q, v), contacts)
                status = command.status
                durations[k] = clock() - begin
                outcomes[kind][status.outcome] += 1
                if kind == "hostile":
                    feasible[round_index, k] = status.ok
                if not np.isfinite(command.tau).all():
                    violations["not finite"] += 1
                if status.ok and not status.violation <= MAX_VIOLATION:
                    violations["level 0 violated"] += 1
                if status.ok and k % CHECK_INTERVAL == 0:
                    n_checked += 1
                    # Contacts are ramped: with switching contacts any foot may have a force.
                    if violation := checker.first_violation(q, v, command, feet if kind == "switching" else contacts):
                        violations[violation] += 1
        gc.collect()
        memory_sizes.append(resident_memory())
    gc.enable()
    reference_time = float(np.median(times["hostile"][feasible]))
    warm_memory = memory_sizes[min(len(memory_sizes) - 1, max(1, len(memory_sizes) // 10))]
    print(
        f"{name}: {rounds * ROUND_TICKS * len(KINDS)} ticks in {time.perf_counter() - start:.0f} s, seed {seed}; "
        f"{n_checked} checked; unreported violations: {dict(violations) or 'none'}"
    )
    print(
        f"  memory {memory_sizes[0]:.1f} MiB after the first round, {warm_memory:.1f} after a tenth of them, "
        f"{memory_sizes[-1]:.1f} at the end"
    )
    for kind in KINDS:
        values = np.percentile(times[kind], (50, 99, 99.9, 99.99)) / reference_time
        percentiles = ", ".join(
            f"{p} {x:.1f}" for p, x in zip(("median", "p99", "p99.9", "p99.99"), values, strict=True)
        )
        print(
            f"  {kind:9s} {dict(outcomes[kind])}; times in medians of feasible hostile ticks "
            f"({1e6 * reference_time:.0f} us): {percentiles}"
        )
    not_met = [f"{name}: not reported: {violation} ({count} times)" for violation, count in violations.items()]
    if memory_sizes[-1] - warm_memory > MAX_MEMORY_GROWTH:
        not_met.append(f"{name}: memory grew by {memory_sizes[-1] - warm_memory:.1f} MiB")
    return not_met


def make_and_drop(name: str, count: int) -> list[str]:
    """Makes, uses and drops controllers, plants and viewers; returns the requirements that are not met."""
    robot, start = qd.load(name), time.perf_counter()
    dynamics, sizes = qd.Dynamics(robot), []
    for k in range(count):
        tau = qd.WholeBodyController(robot).compute(dynamics.update(robot.q_home, np.zeros(robot.nv))).tau
        Simulation(robot).step(tau)
        viewer = Viewer(robot, open_browser=False)
        viewer.show(robot.q_home)
        if k % 2:  # every other viewer is only deleted
            viewer.close()
        del viewer
        if (k + 1) % max(1, count // 10) == 0:
            gc.collect()
            sizes.append((resident_memory(), threading.active_count(), len(list(Path("/proc/self/fd").iterdir()))))
    print(
        f"{name}: {count} controllers, plants and viewers in {time.perf_counter() - start:.0f} s; MiB, threads, files "
        "after each tenth: " + ", ".join(f"{size:.1f} {threads} {files}" for size, threads, files in sizes)
    )
    first, last = sizes[0], sizes[-1]
    is_flat = last[0] - first[0] <= MAX_MEMORY_GROWTH and last[1:] <= first[1:]
    return [] if is_flat else [f"{name}: memory, threads or files grew with objects that were dropped"]


def main() -> int:
    """Runs all robots; returns 1 if `--check` finds a requirement that is not met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ticks", type=int, default=1_000_000, help="ticks of each robot (default %(default)s)")
    parser.add_argument("--objects", type=int, default=0, help="objects of each kind made and dropped")
    parser.add_argument("--robots", nargs="*", default=("go2",), metavar="NAME")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--check", action="store_true", help="exit code 1 if a requirement is not met")
    options = parser.parse_args()
    not_met = list[str]()
    if options.ticks:
        not_met += [line for name in options.robots for line in run_robot(name, options.ticks, options.seed)]
    if options.objects:
        not_met += [line for name in options.robots for line in make_and_drop(name, options.objects)]
    for line in not_met:
        print(f"NOT MET {line}")
    return 1 if options.check and not_met else 0


if __name__ == "__main__":
    sys.exit(main())
