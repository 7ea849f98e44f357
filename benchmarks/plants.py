"""Compares the embedded plant with MuJoCo: motions of the same scenes, time of a step, standing for a minute.

Both sides have feet of equal radius; MuJoCo's contacts are as hard as its step allows (solref 0.002 at 1 ms, impratio
100).  Times are taken in alternation in one process.

    python benchmarks/plants.py            # everything
    python benchmarks/plants.py --check    # exit code 1 if a requirement is not met
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import mujoco
import numpy as np
from boundary import cpu

import quaddyn as qd
from quaddyn.control import JointPD, gravity_compensation
from quaddyn.simulation import ContactSphere, MujocoPlant, Plant, Simulation

G = 9.81
Array = np.ndarray


@dataclass(frozen=True)
class Figure:
    """One number and the bar it has to pass, from below."""

    what: str
    value: float
    bar: float
    unit: str

    @property
    def held(self) -> bool:
        """Whether the bar is passed."""
        return self.value <= self.bar

    def __str__(self) -> str:
        mark = "held" if self.held else "MISSED"
        return f"{self.what:<74} {self.value:>10.4g} {self.unit:<6} <= {self.bar:<8.4g} {mark}"


class Stand:
    """Joint PD around home and gravity compensation, the same object for both plants."""

    def __init__(self, robot: qd.Robot) -> None:
        self.robot, self.dyn, self.pd = robot, qd.Dynamics(robot), JointPD(robot)

    def __call__(self, plant: Plant) -> Array:
        """Torques (nu,)."""
        hold = gravity_compensation(self.dyn.update(plant.q, plant.v))
        return self.pd.compute(plant.q, plant.v, self.robot.q_home, feedforward=hold.tau).tau


# -- scenes --------------------------------------------------------------------------------------------------------
def drop(name: str, velocity: tuple[float, float, float], dt: float) -> list[Figure]:
    """5 cm at 0.5 m/s, one second."""
    robot = qd.load(name)
    ways, forces = [], []
    for kind in (Simulation, MujocoPlant):
        plant = kind(robot, dt=dt)
        q, v = robot.q_home.copy(), np.zeros(robot.nv)
        q[2] += 0.05
        v[:3] = velocity
        plant.reset(q, v)
        log = plant.run(Stand(robot), 1.0)
        ways.append(log.q[:, :3])
        forces.append(log.forces[:, :, 2].sum(axis=1).mean())
    scene = f"{name}, dropped at {velocity} m/s, dt {dt * 1e3:g} ms"
    return [
        Figure(f"{scene}: apart", 1e3 * float(np.linalg.norm(ways[0] - ways[1], axis=1).max()), 1.0, "mm"),
        Figure(f"{scene}: mean force apart", 100.0 * abs(forces[0] / forces[1] - 1.0), 0.5, "%"),
    ]


def box_slide() -> list[Figure]:
    """A box at 1 m/s on mu = 0.6 stops after v0^2 / (2 mu g)."""
    text = """<robot name="box"><link name="base"><inertial><mass value="2"/>
    <inertia ixx="0.01" iyy="0.02" izz="0.03" ixy="0" ixz="0" iyz="0"/></inertial></link></robot>"""
    places = ((0.2, 0.1), (0.2, -0.1), (-0.2, 0.1), (-0.2, -0.1))
    spheres = {f"{i}": ContactSphere("base", 0.02, np.array([x, y, 0.0])) for i, (x, y) in enumerate(places)}
    out = []
    for kind in (Simulation, MujocoPlant):
        plant = kind(qd.load(text, root="free"), spheres=spheres)
        q, v = plant.robot.q_home.copy(), np.zeros(6)
        q[:3], v[0] = (0.0, 0.0, 0.02), 1.0
        plant.reset(q, v)
        for _ in range(400):
            plant.step(np.zeros(0))
        off = abs(plant.q[0] - 1.0 / (2.0 * 0.6 * G))
        out.append(Figure(f"box slide, {kind.__name__}: off the analytic way", off / plant.dt, 1.0, "v0 dt"))
    return out


def stand(name: str, seconds: float) -> list[Figure]:
    """Standing: how far the base sinks or drifts, and what the ground gives."""
    robot = qd.load(name)
    ends = []
    out = []
    for kind in (Simulation, MujocoPlant):
        plant, control = kind(robot), Stand(robot)
        worst, before = -np.inf, 0.0
        for _ in range(round(seconds / plant.dt)):
            plant.step(control(plant))
            if isinstance(plant, Simulation):
                worst, before = max(worst, plant.work.contacts - before), plant.work.contacts
        ends.append(plant.q[:3])
        scene = f"{name} stands for {seconds:g} s, {kind.__name__}"
        out.append(Figure(f"{scene}: moved", 1e3 * float(np.linalg.norm(plant.q[:3] - robot.q_home[:3])), 10.0, "mm"))
        if isinstance(plant, Simulation):
            share = worst / (robot.mass * G * robot.q_home[2])
            out.append(Figure(f"{scene}: largest work of contacts in a step", share, 1e-9, "m g h"))
    return [*out, Figure(f"{name}: height apart", 1e3 * abs(ends[0][2] - ends[1][2]), 2.0, "mm")]


def falls(drops: int) -> list[Figure]:
    """Random drops: the largest work that contacts do in any step."""
    worst, steps, inaccurate = -np.inf, 0, 0
    for seed in range(drops):
        rng = np.random.default_rng(seed)
        robot = qd.load(("go2", "solo12", "anymal_c", "hyq")[seed % 4])
        sim = Simulation(robot, friction=float(rng.uniform(0.0, 1.2)))
        q = robot.q_home.copy()
        q[2] += 0.05
        sim.reset(q, rng.normal(0.0, 0.5, robot.nv))
        for _ in range(400):
            before = sim.work.contacts
            sim.step(10.0 * robot.mass * (robot.q_home[7:] - sim.q[7:]) - 0.05 * robot.mass * sim.v[6:])
            worst = max(worst, (sim.work.contacts - before) / (robot.mass * G * 0.05))
            steps, inaccurate = steps + 1, inaccurate + (sim.status == "inaccurate")
    return [
        Figure(f"{drops} random drops of 5 cm: largest work of contacts in a step", worst, 1e-9, "m g h"),
        Figure(f"{drops} random drops: steps not solved to 1e-8 m/s", 100.0 * inaccurate / steps, 0.1, "%"),
    ]


# -- cost ----------------------------------------------------------------------------------------------------------
def cost(name: str, rounds: int, steps: int = 1000) -> list[Figure]:
    """A step of the standing robot on four feet, the same torques on both sides, in alternation."""
    robot = qd.load(name)
    sim, other = Simulation(robot), MujocoPlant(robot)
    sim.warmup()
    starts, torques = [], []
    for plant in (sim, other):
        control = Stand(robot)
        for _ in range(300):
            plant.step(control(plant))
        starts.append(plant.checkpoint())
        torques.append(plant.run(control, steps * plant.dt).tau)
    assert sim.status in ("solved", "passive") and all(f[2] > 0.0 for f in sim.contact_forces.values())

    def ours(i: int) -> None:
        sim.step(torques[0][i])

    def mujocos(i: int) -> None:
        other.data.ctrl[:] = torques[1][i]
        mujoco.mj_step(other.model, other.data)

    def through_plant(i: int) -> None:
        other.step(torques[1][i])

    calls: tuple[tuple[Plant, int, Callable[[int], None]], ...] = (
        (sim, 0, ours), (other, 1, mujocos), (other, 1, through_plant),
    )  # fmt: skip
    clocks = np.empty((len(calls), rounds, steps))
    gc.disable()
    for r in range(rounds):
        for c, (plant, start, call) in enumerate(calls):
            plant.restore(starts[start])
            for i in range(steps):
                begin = time.perf_counter_ns()
                call(i)
                clocks[c, r, i] = time.perf_counter_ns() - begin
    gc.enable()
    # Median over rounds of the ratio of medians: the machine's load is the same on both sides of a round.
    medians = np.median(clocks, axis=2)
    ratios = np.median(medians[0] / medians[1])
    least = clocks[:, :5].min(axis=1)  # of five replays of the same step
    tail = [np.quantile(x, 0.999) / np.median(x) for x in least]
    best = clocks.min(axis=1)
    print(
        f"{name}, four feet, one step [us], median of the steps' least: embedded {np.median(best[0]) / 1e3:.1f}, "
        f"mj_step {np.median(best[1]) / 1e3:.1f}, MujocoPlant.step {np.median(best[2]) / 1e3:.1f}; "
        f"{sim.dt / (np.median(best[0]) * 1e-9):.0f} times real time; p99.9 of mj_step over its median: {tail[1]:.1f}"
    )
    return [
        Figure(f"{name}, four feet: embedded step over mj_step", float(ratios), 3.0, "x"),
        Figure(f"{name}, four feet: p99.9 of the embedded step over its median", float(tail[0]), 5.0, "x"),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="exit code 1 if a requirement is not met")
    parser.add_argument("--rounds", type=int, default=40, help="of the timing")
    parser.add_argument("--seconds", type=float, default=60.0, help="of standing")
    parser.add_argument("--drops", type=int, default=40, help="random drops")
    arguments = parser.parse_args()
    print(f"{cpu()}; MuJoCo {mujoco.__version__}")
    radii = {f"{leg.foot.radius:.4f}" for leg in qd.load("go2").legs.values()}
    print(f"foot radius on both sides: {', '.join(radii)} m; solref 2 dt, impratio 100, elliptic cones")
    figures = []
    for make in (
        lambda: cost("go2", arguments.rounds),
        lambda: drop("go2", (0.0, 0.0, -0.5), 1e-3),
        lambda: drop("go2", (0.5, 0.0, 0.0), 5e-4),
        box_slide,
        lambda: stand("go2", arguments.seconds),
        lambda: falls(arguments.drops),
    ):
        for figure in make():
            print(figure, flush=True)
            figures.append(figure)
    return int(arguments.check and not all(f.held for f in figures))


if __name__ == "__main__":
    sys.exit(main())
