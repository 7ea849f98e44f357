"""Compares the energy errors and step times of the embedded plant's integrators at high joint speeds.

Robots fly freely or are dropped without motor torques, at random joint speeds.  The energy error is the change of
energy minus the work of friction and contacts.  Times are measured in alternation in one process: the fastest of
several runs of each step, and the median over steps.  The integrator "euler" computes the energy balance, too.  Before
that, when a step was one compiled call without the balance, a step of go2 on its feet took 18.6 us and one of ur5 18.7
us; now they take 12.6 us and 7.8 us (fastest of three runs in alternation).  The requirements are the constants below.

    python benchmarks/simulation_energy.py            # five robots, some ten seconds each
    python benchmarks/simulation_energy.py --check    # exit code 1 if a requirement is not met
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from boundary import cpu

import quaddyn as qd
from quaddyn.control import JointPD, gravity_compensation
from quaddyn.simulation import Simulation

G = 9.81
ROBOTS = ("go2", "solo12", "anymal_c", "b1_z1", "ur5")
#: Largest mean energy error of fast flight, divided by the kinetic energy; largest error of slow flight and largest
#: rise after a drop, as heights [m]; largest ratio of step times.
MAX_FAST_ERROR, MAX_SLOW_ERROR, MAX_RISE, MAX_TIME_RATIO = 2e-3, 1e-3, 1e-2, 1.3
#: Standard deviation of joint speeds in fast and in slow flight [rad/s].
FAST_SPEED, SLOW_SPEED = 10.0, 1.0


@dataclass(frozen=True)
class Result:
    """Result of the integrator "adaptive", that of "euler", and the largest value that meets the requirement."""

    title: str
    euler: float
    value: float
    maximum: float

    @property
    def is_met(self) -> bool:
        """Whether the requirement is met."""
        return self.value <= self.maximum

    def __str__(self) -> str:
        mark = "met" if self.is_met else "NOT MET"
        return (
            f"{self.title:<62} euler {self.euler:>9.3g}   adaptive {self.value:>9.3g}  <= {self.maximum:<7.3g} {mark}"
        )


def fly(robot: qd.Robot, integrator: str, speed: float, n_trials: int) -> tuple[float, float, float]:
    """Returns the mean and the largest energy error divided by the kinetic energy, and the largest as a height [m]."""
    errors, heights = [], []
    for seed in range(n_trials):
        sim = Simulation(robot, floor=-np.inf, spheres={}, integrator=integrator, joint_stops=False)
        v = np.zeros(robot.nv)
        v[-robot.nu :] = np.random.default_rng(seed).normal(0.0, speed, robot.nu)
        sim.reset(None, v)
        start, kinetic = sim.energy, qd.Dynamics(robot).energy(sim.q, v).kinetic
        for _ in range(300):
            sim.step(np.zeros(robot.nu))
        error = abs(sim.energy - start - sim.work.total)
        errors.append(error / kinetic)
        heights.append(error / (robot.mass * G))
    return float(np.mean(errors)), max(errors), max(heights)


def drop(robot: qd.Robot, integrator: str, speed: float, seed: int, dt: float = 1e-3) -> tuple[float, int]:
    """Throws a robot down from 0.3 m above its stance; returns the energy rise as a height [m], and flagged steps."""
    sim, v = Simulation(robot, dt=dt, integrator=integrator), np.random.default_rng(seed).normal(0.0, speed, robot.nv)
    q = robot.q_home.copy()
    q[2] += 0.3
    v[2] = -abs(v[2])
    sim.reset(q, v)
    start, max_energy_rise, n_flagged = sim.energy, -np.inf, 0
    try:
        for _ in range(round(0.4 / dt)):
            sim.step(np.zeros(robot.nu))
            max_energy_rise, n_flagged = max(max_energy_rise, sim.energy - start), n_flagged + (not sim.ok)
    except qd.DivergenceError:
        max_energy_rise = np.inf
    return max_energy_rise / (robot.mass * G), n_flagged


def compare_energies(name: str, number: int) -> Iterator[Result]:
    """Compares the integrators in flights and, for robots with a free root, in drops."""
    robot = qd.load(name)
    (euler_mean, euler_max, _), (adaptive_mean, adaptive_max, _) = (
        fly(robot, integrator, FAST_SPEED, number) for integrator in ("euler", "adaptive")
    )
    scene = f"{name}, flight at {FAST_SPEED:g} rad/s for 0.3 s, error"
    yield Result(f"{scene} / kinetic energy, mean", euler_mean, adaptive_mean, MAX_FAST_ERROR)
    yield Result(f"{scene} / kinetic energy, max", euler_max, adaptive_max, 2.0 * MAX_FAST_ERROR)
    (*_, euler_max), (*_, adaptive_max) = (
        fly(robot, integrator, SLOW_SPEED, number) for integrator in ("euler", "adaptive")
    )
    yield Result(
        f"{name}, flight at {SLOW_SPEED:g} rad/s for 0.3 s, largest error [m]", euler_max, adaptive_max, MAX_SLOW_ERROR
    )
    if robot.root != "fixed":
        euler_drops, adaptive_drops = (
            [drop(robot, integrator, 10.0, seed) for seed in range(number)] for integrator in ("euler", "adaptive")
        )
        scene = f"{name}, {number} passive drops at 10 rad/s"
        yield Result(
            f"{scene}: largest rise [m]", max(r for r, _ in euler_drops), max(r for r, _ in adaptive_drops), MAX_RISE
        )
        yield Result(
            f"{scene}: rises above 0.5 m",
            sum(r > 0.5 for r, _ in euler_drops),
            sum(r > 0.5 for r, _ in adaptive_drops),
            0,
        )
        percentages = [100.0 * sum(n for _, n in drops) / (400 * number) for drops in (euler_drops, adaptive_drops)]
        yield Result(f"{scene}: steps with a status other than ok [%]", *percentages, 0.5)


def compare_step_times(name: str, rounds: int = 12, steps: int = 100) -> Result:
    """Compares the times of a step of a robot that holds its pose: on its feet, or an arm without contact."""
    robot = qd.load(name)
    simulations = [Simulation(robot, integrator=each) for each in ("euler", "adaptive")]
    dynamics, pd, checkpoints, torques = qd.Dynamics(robot), JointPD(robot), [], []
    for sim in simulations:
        sim.warmup(quiet=True)
        for _ in range(200):
            gravity_torque = gravity_compensation(dynamics.update(sim.q, sim.v)).tau
            tau = pd.compute(sim.q, sim.v, robot.q_home, feedforward=gravity_torque).tau
            sim.step(tau)
        checkpoints.append(sim.checkpoint())
        torques.append(tau)
    durations = np.full((2, steps), np.inf)
    gc.disable()
    for _ in range(rounds):
        for k, sim in enumerate(simulations):
            sim.restore(checkpoints[k])
            for i in range(steps):
                begin = time.perf_counter_ns()
                sim.step(torques[k])
                durations[k, i] = min(durations[k, i], time.perf_counter_ns() - begin)
    gc.enable()
    euler, adaptive = np.median(durations, axis=1)
    print(f"{name}, held pose, one step: euler {euler / 1e3:.1f} us, adaptive {adaptive / 1e3:.1f} us")
    return Result(f"{name}, held pose: time of a step over that of euler", 1.0, float(adaptive / euler), MAX_TIME_RATIO)


def main() -> int:
    """Prints the results; returns 1 if `--check` finds a requirement that is not met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robots", nargs="*", default=ROBOTS)
    parser.add_argument("--number", type=int, default=40, help="number of flights and of drops of each robot")
    parser.add_argument("--check", action="store_true", help="exit code 1 if a requirement is not met")
    options = parser.parse_args()
    print(cpu())
    results = []
    for name in options.robots:
        for result in (*compare_energies(name, options.number), compare_step_times(name)):
            print(result, flush=True)
            results.append(result)
    return int(options.check and not all(result.is_met for result in results))


if __name__ == "__main__":
    sys.exit(main())
