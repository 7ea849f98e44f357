"""Measures the energy errors of the embedded plant's integrators at high joint speeds, and the time of a step.

Free flight and drops without motors at random joint speeds: what appears beyond the work of friction and contacts.
Costs are taken in alternation in one process: the least of several runs of the same step, and the median of the steps.
"euler" keeps the account of energy, too.  Before there was one and a step was one compiled call, a step of go2 on its
feet took 18.6 us and one of ur5 18.7 us, where they take 12.6 us and 7.8 us now (least of three runs in alternation).

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
#: Bars: of fast flight, a share of the kinetic energy; of slow flight and of drops, a height [m]; of cost, a ratio.
FLIGHT, DRIFT, RISE, COST = 2e-3, 1e-3, 1e-2, 1.3
#: Speeds of joints in fast and in slow flight [rad/s].
FAST, SLOW = 10.0, 1.0


@dataclass(frozen=True)
class Figure:
    """One number beside that of "euler", and the bar it has to pass from below."""

    what: str
    euler: float
    value: float
    bar: float

    @property
    def held(self) -> bool:
        """Whether the bar is passed."""
        return self.value <= self.bar

    def __str__(self) -> str:
        mark = "held" if self.held else "MISSED"
        return f"{self.what:<62} euler {self.euler:>9.3g}   adaptive {self.value:>9.3g}  <= {self.bar:<7.3g} {mark}"


def flight(robot: qd.Robot, integrator: str, speed: float, number: int) -> tuple[float, float, float]:
    """Mean and largest error of the energy after 0.3 s, over the kinetic energy at the start; as a height [m]."""
    errors, heights = [], []
    for seed in range(number):
        sim = Simulation(robot, floor=-np.inf, spheres={}, integrator=integrator)
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
    """How far a robot thrown down from 0.3 m above its stance rises above its first energy [m]; flagged steps."""
    sim, v = Simulation(robot, dt=dt, integrator=integrator), np.random.default_rng(seed).normal(0.0, speed, robot.nv)
    q = robot.q_home.copy()
    q[2] += 0.3
    v[2] = -abs(v[2])
    sim.reset(q, v)
    start, highest, flagged = sim.energy, -np.inf, 0
    try:
        for _ in range(round(0.4 / dt)):
            sim.step(np.zeros(robot.nu))
            highest, flagged = max(highest, sim.energy - start), flagged + (not sim.ok)
    except qd.DivergenceError:
        highest = np.inf
    return highest / (robot.mass * G), flagged


def energies(name: str, number: int) -> Iterator[Figure]:
    """Flights, and drops where there is ground."""
    robot = qd.load(name)
    (mean, most, _), (good, best, _) = (flight(robot, each, FAST, number) for each in ("euler", "adaptive"))
    scene = f"{name}, flight at {FAST:g} rad/s for 0.3 s, error"
    yield Figure(f"{scene} / kinetic, mean", mean, good, FLIGHT)
    yield Figure(f"{scene} / kinetic, max", most, best, 2.0 * FLIGHT)
    (*_, most), (*_, best) = (flight(robot, each, SLOW, number) for each in ("euler", "adaptive"))
    yield Figure(f"{name}, flight at {SLOW:g} rad/s for 0.3 s, largest error [m]", most, best, DRIFT)
    if robot.root != "fixed":
        poor, good = ([drop(robot, each, 10.0, seed) for seed in range(number)] for each in ("euler", "adaptive"))
        scene = f"{name}, {number} passive drops at 10 rad/s"
        yield Figure(f"{scene}: highest rise [m]", max(r for r, _ in poor), max(r for r, _ in good), RISE)
        yield Figure(f"{scene}: that rose by 0.5 m", sum(r > 0.5 for r, _ in poor), sum(r > 0.5 for r, _ in good), 0)
        share = [100.0 * sum(n for _, n in each) / (400 * number) for each in (poor, good)]
        yield Figure(f"{scene}: steps that are flagged [%]", *share, 0.5)


def cost(name: str, rounds: int = 12, steps: int = 100) -> Figure:
    """A step of a robot that holds its pose: on its feet, or an arm in the air."""
    robot = qd.load(name)
    sims = [Simulation(robot, integrator=each) for each in ("euler", "adaptive")]
    dynamics, pd, starts, torques = qd.Dynamics(robot), JointPD(robot), [], []
    for sim in sims:
        sim.warmup(quiet=True)
        for _ in range(200):
            hold = gravity_compensation(dynamics.update(sim.q, sim.v)).tau
            tau = pd.compute(sim.q, sim.v, robot.q_home, feedforward=hold).tau
            sim.step(tau)
        starts.append(sim.checkpoint())
        torques.append(tau)
    clocks = np.full((2, steps), np.inf)
    gc.disable()
    for _ in range(rounds):
        for k, sim in enumerate(sims):
            sim.restore(starts[k])
            for i in range(steps):
                begin = time.perf_counter_ns()
                sim.step(torques[k])
                clocks[k, i] = min(clocks[k, i], time.perf_counter_ns() - begin)
    gc.enable()
    euler, adaptive = np.median(clocks, axis=1)
    print(f"{name}, held pose, one step: euler {euler / 1e3:.1f} us, adaptive {adaptive / 1e3:.1f} us")
    return Figure(f"{name}, held pose: cost of a step over that of euler", 1.0, float(adaptive / euler), COST)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robots", nargs="*", default=ROBOTS)
    parser.add_argument("--number", type=int, default=40, help="flights and drops of each robot")
    parser.add_argument("--check", action="store_true", help="exit code 1 if a requirement is not met")
    options = parser.parse_args()
    print(cpu())
    figures = []
    for name in options.robots:
        for figure in (*energies(name, options.number), cost(name)):
            print(figure, flush=True)
            figures.append(figure)
    return int(options.check and not all(figure.held for figure in figures))


if __name__ == "__main__":
    sys.exit(main())
