"""Compares the embedded plant with MuJoCo: motions of the same scenes, time of a step, standing for a minute.

The feet have the same radius in both plants; MuJoCo's contacts are as stiff as its step allows (solref 0.002 at 1 ms,
impratio 100).  Times are measured in alternation in one process.  The requirements are the largest values in `Result`.

    python benchmarks/plants.py            # all comparisons
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
class Result:
    """One result and the largest value that meets its requirement."""

    title: str
    value: float
    maximum: float
    unit: str

    @property
    def is_met(self) -> bool:
        """Whether the requirement is met."""
        return self.value <= self.maximum

    def __str__(self) -> str:
        mark = "met" if self.is_met else "NOT MET"
        return f"{self.title:<74} {self.value:>10.4g} {self.unit:<6} <= {self.maximum:<8.4g} {mark}"


class StandingController:
    """Joint PD control around `q_home` with gravity compensation, for either plant."""

    def __init__(self, robot: qd.Robot) -> None:
        self.robot, self.dyn, self.pd = robot, qd.Dynamics(robot), JointPD(robot)

    def __call__(self, plant: Plant) -> Array:
        """Returns the joint torques (nu,)."""
        gravity_torque = gravity_compensation(self.dyn.update(plant.q, plant.v))
        return self.pd.compute(plant.q, plant.v, self.robot.q_home, feedforward=gravity_torque.tau).tau


# -- scenes --------------------------------------------------------------------------------------------------------
def drop(name: str, velocity: tuple[float, float, float], dt: float) -> list[Result]:
    """Compares one second of a drop from 5 cm with an initial velocity."""
    robot = qd.load(name)
    base_paths, forces = [], []
    for plant_type in (Simulation, MujocoPlant):
        plant = plant_type(robot, dt=dt)
        q, v = robot.q_home.copy(), np.zeros(robot.nv)
        q[2] += 0.05
        v[:3] = velocity
        plant.reset(q, v)
        log = plant.run(StandingController(robot), 1.0)
        base_paths.append(log.q[:, :3])
        forces.append(log.forces[:, :, 2].sum(axis=1).mean())
    scene = f"{name}, dropped at {velocity} m/s, dt {dt * 1e3:g} ms"
    return [
        Result(
            f"{scene}: largest distance of the bases",
            1e3 * float(np.linalg.norm(base_paths[0] - base_paths[1], axis=1).max()),
            1.0,
            "mm",
        ),
        Result(f"{scene}: difference of the mean force", 100.0 * abs(forces[0] / forces[1] - 1.0), 0.5, "%"),
    ]


def box_slide() -> list[Result]:
    """Compares the sliding distance of a box at 1 m/s with the analytic one, v0^2 / (2 mu g), mu = 0.6."""
    text = """<robot name="box"><link name="base"><inertial><mass value="2"/>
    <inertia ixx="0.01" iyy="0.02" izz="0.03" ixy="0" ixz="0" iyz="0"/></inertial></link></robot>"""
    corners = ((0.2, 0.1), (0.2, -0.1), (-0.2, 0.1), (-0.2, -0.1))
    spheres = {f"{i}": ContactSphere("base", 0.02, np.array([x, y, 0.0])) for i, (x, y) in enumerate(corners)}
    results = []
    for plant_type in (Simulation, MujocoPlant):
        plant = plant_type(qd.load(text, root="free"), spheres=spheres)
        q, v = plant.robot.q_home.copy(), np.zeros(6)
        q[:3], v[0] = (0.0, 0.0, 0.02), 1.0
        plant.reset(q, v)
        for _ in range(400):
            plant.step(np.zeros(0))
        error = abs(plant.q[0] - 1.0 / (2.0 * 0.6 * G))
        results.append(
            Result(f"box slide, {plant_type.__name__}: error of the distance", error / plant.dt, 1.0, "v0 dt")
        )
    return results


def standing(name: str, seconds: float) -> list[Result]:
    """Measures the displacement of the base of a standing robot, and the work of its contacts."""
    robot = qd.load(name)
    base_positions = []
    results = []
    for plant_type in (Simulation, MujocoPlant):
        plant, control = plant_type(robot), StandingController(robot)
        max_work, work_before = -np.inf, 0.0
        for _ in range(round(seconds / plant.dt)):
            plant.step(control(plant))
            if isinstance(plant, Simulation):
                max_work, work_before = max(max_work, plant.work.contacts - work_before), plant.work.contacts
        base_positions.append(plant.q[:3])
        scene = f"{name} stands for {seconds:g} s, {plant_type.__name__}"
        results.append(
            Result(
                f"{scene}: displacement of the base",
                1e3 * float(np.linalg.norm(plant.q[:3] - robot.q_home[:3])),
                10.0,
                "mm",
            )
        )
        if isinstance(plant, Simulation):
            work_fraction = max_work / (robot.mass * G * robot.q_home[2])
            results.append(Result(f"{scene}: largest contact work in a step", work_fraction, 1e-9, "m g h"))
    return [
        *results,
        Result(
            f"{name}: difference of the base heights", 1e3 * abs(base_positions[0][2] - base_positions[1][2]), 2.0, "mm"
        ),
    ]


def random_drops(drops: int) -> list[Result]:
    """Measures the largest work of contacts in a step over random drops."""
    max_work, steps, n_inaccurate = -np.inf, 0, 0
    for seed in range(drops):
        rng = np.random.default_rng(seed)
        robot = qd.load(("go2", "solo12", "anymal_c", "hyq")[seed % 4])
        sim = Simulation(robot, friction=float(rng.uniform(0.0, 1.2)))
        q = robot.q_home.copy()
        q[2] += 0.05
        sim.reset(q, rng.normal(0.0, 0.5, robot.nv))
        for _ in range(400):
            work_before = sim.work.contacts
            sim.step(10.0 * robot.mass * (robot.q_home[7:] - sim.q[7:]) - 0.05 * robot.mass * sim.v[6:])
            max_work = max(max_work, (sim.work.contacts - work_before) / (robot.mass * G * 0.05))
            steps, n_inaccurate = steps + 1, n_inaccurate + (sim.status == "inaccurate")
    return [
        Result(f"{drops} random drops of 5 cm: largest contact work in a step", max_work, 1e-9, "m g h"),
        Result(f"{drops} random drops: steps not solved to 1e-8 m/s", 100.0 * n_inaccurate / steps, 0.1, "%"),
    ]


# -- cost ----------------------------------------------------------------------------------------------------------
def step_time(name: str, rounds: int, steps: int = 1000) -> list[Result]:
    """Measures the time of a step of a standing robot with the same torques in both plants, in alternation."""
    robot = qd.load(name)
    sim, mujoco_plant = Simulation(robot), MujocoPlant(robot)
    sim.warmup()
    checkpoints, torques = [], []
    for plant in (sim, mujoco_plant):
        control = StandingController(robot)
        for _ in range(300):
            plant.step(control(plant))
        checkpoints.append(plant.checkpoint())
        torques.append(plant.run(control, steps * plant.dt).tau)
    assert sim.status in ("solved", "passive") and all(f[2] > 0.0 for f in sim.contact_forces.values())

    def step_embedded(i: int) -> None:
        sim.step(torques[0][i])

    def step_mujoco(i: int) -> None:
        mujoco_plant.data.ctrl[:] = torques[1][i]
        mujoco.mj_step(mujoco_plant.model, mujoco_plant.data)

    def step_mujoco_plant(i: int) -> None:
        mujoco_plant.step(torques[1][i])

    calls: tuple[tuple[Plant, int, Callable[[int], None]], ...] = (
        (sim, 0, step_embedded), (mujoco_plant, 1, step_mujoco), (mujoco_plant, 1, step_mujoco_plant),
    )  # fmt: skip
    durations = np.empty((len(calls), rounds, steps))
    gc.disable()
    for r in range(rounds):
        for c, (plant, start, call) in enumerate(calls):
            plant.restore(checkpoints[start])
            for i in range(steps):
                begin = time.perf_counter_ns()
                call(i)
                durations[c, r, i] = time.perf_counter_ns() - begin
    gc.enable()
    # Median over rounds of the ratio of medians: other load of the processor affects both plants of a round alike.
    medians = np.median(durations, axis=2)
    ratios = np.median(medians[0] / medians[1])
    fastest_of_five = durations[:, :5].min(axis=1)  # the fastest of five replays of each step
    tail_ratios = [np.quantile(x, 0.999) / np.median(x) for x in fastest_of_five]
    fastest = durations.min(axis=1)
    print(
        f"{name}, four feet, one step [us], median over steps of their fastest round: "
        f"embedded {np.median(fastest[0]) / 1e3:.1f}, mj_step {np.median(fastest[1]) / 1e3:.1f}, "
        f"MujocoPlant.step {np.median(fastest[2]) / 1e3:.1f}; "
        f"{sim.dt / (np.median(fastest[0]) * 1e-9):.0f} times real time; "
        f"p99.9 of mj_step over its median: {tail_ratios[1]:.1f}"
    )
    return [
        Result(f"{name}, four feet: embedded step over mj_step", float(ratios), 3.0, "x"),
        Result(f"{name}, four feet: p99.9 of the embedded step over its median", float(tail_ratios[0]), 5.0, "x"),
    ]


def main() -> int:
    """Prints all comparisons; returns 1 if `--check` finds a requirement that is not met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="exit code 1 if a requirement is not met")
    parser.add_argument("--rounds", type=int, default=40, help="rounds of the time measurement")
    parser.add_argument("--seconds", type=float, default=60.0, help="duration of standing [s]")
    parser.add_argument("--drops", type=int, default=40, help="number of random drops")
    arguments = parser.parse_args()
    print(f"{cpu()}; MuJoCo {mujoco.__version__}")
    radii = {f"{leg.foot.radius:.4f}" for leg in qd.load("go2").legs.values()}
    print(f"foot radius in both plants: {', '.join(radii)} m; solref 2 dt, impratio 100, elliptic cones")
    results = []
    for run_comparison in (
        lambda: step_time("go2", arguments.rounds),
        lambda: drop("go2", (0.0, 0.0, -0.5), 1e-3),
        lambda: drop("go2", (0.5, 0.0, 0.0), 5e-4),
        box_slide,
        lambda: standing("go2", arguments.seconds),
        lambda: random_drops(arguments.drops),
    ):
        for result in run_comparison():
            print(result, flush=True)
            results.append(result)
    return int(arguments.check and not all(f.is_met for f in results))


if __name__ == "__main__":
    sys.exit(main())
