"""Compares the speed of `quaddyn.simulation.rollout` with that of `mujoco.rollout`, in robot-seconds per second.

    python benchmarks/rollouts.py                      # go2 on level ground, 1 kHz, sixteen robots, one and two threads
    python benchmarks/rollouts.py --robot solo12 --plants 64 --seconds 1

Both simulate the same scene: every robot stands with the torques of joint springs, which are recorded once and then
applied without feedback.  MuJoCo simulates the model that `MujocoPlant` creates.  Measured for comparison are
`Simulation.step` called from Python, and `rollout` in worker processes of `quaddyn.campaigns.process_pool`.  All
results of quaddyn are compared bit for bit; the exit code is 1 if they differ.  The wall time is the shortest of
several rounds in alternation, which reduces the influence of other processes; the processor time of a step is printed,
too.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import cache

import mujoco
import mujoco.rollout
import numpy as np
from boundary import cpu

import quaddyn as qd
from quaddyn import campaigns
from quaddyn.simulation import MujocoPlant, Simulation, rollout

Array = np.ndarray


@cache
def make_scene(name: str) -> tuple[qd.Robot, Simulation, Array]:
    """Returns a robot, its plant, and torques (steps, nu) of joint springs over a second."""
    robot = qd.load(name)
    sim, torques = Simulation(robot), []
    stiffness = 30.0 * robot.mass * robot.q_home[2]
    for _ in range(1000):
        torques.append(stiffness * (robot.q_home[7:] - sim.q[7:]) - 0.02 * stiffness * sim.v[6:])
        sim.step(torques[-1])
    return robot, sim, np.array(torques)


def start_configurations(robot: qd.Robot, count: int) -> list[Array]:
    """Returns home configurations, each with the base 0.1 mm higher than the preceding one."""
    configurations = []
    for i in range(count):
        q = robot.q_home.copy()
        q[2] += 1e-4 * i
        configurations.append(q)
    return configurations


def recorded_torques(name: str, steps: int) -> Array:
    """Returns the recorded torques, repeated, (steps, nu)."""
    return np.resize(make_scene(name)[2], (steps, make_scene(name)[0].nu))


def step_one_by_one(name: str, count: int, steps: int) -> list[bytes]:
    """Steps the plants one after the other from Python; returns their final states."""
    initial_configurations, torques, states = (
        start_configurations(make_scene(name)[0], count),
        recorded_torques(name, steps),
        [],
    )
    for i in range(count):
        sim = get_plant(name, i)
        sim.reset(initial_configurations[i])
        for tau in torques:
            sim.step(tau)
        states.append(sim.q.tobytes() + sim.v.tobytes())
    return states


def run_rollout(name: str, numbers: Sequence[int], count: int, steps: int, threads: int = 1) -> list[bytes]:
    """Runs a rollout of some of the plants; returns their final states."""
    initial_configurations = start_configurations(make_scene(name)[0], count)
    q = np.array([initial_configurations[i] for i in numbers])
    result = rollout([get_plant(name, i) for i in numbers], recorded_torques(name, steps), q=q, threads=threads)
    return [q[-1].tobytes() + v[-1].tobytes() for q, v in zip(result.q, result.v, strict=True)]


@cache
def get_plant(name: str, number: int) -> Simulation:
    """Returns the plant with a number; it is created once."""
    return Simulation(make_scene(name)[0])


def run_in_processes(pool: Executor, workers: int, name: str, count: int, steps: int) -> list[bytes]:
    """Runs the rollouts in worker processes; returns the final states."""
    worker_numbers = [range(i, count, workers) for i in range(workers)]
    futures = [pool.submit(run_rollout, name, numbers, count, steps) for numbers in worker_numbers]
    states: dict[int, bytes] = {}
    for numbers, future in zip(worker_numbers, futures, strict=True):
        states |= dict(zip(numbers, future.result(), strict=True))
    return [states[i] for i in range(count)]


class MujocoRollouts:
    """Rollouts of the same scene by MuJoCo's thread pool."""

    def __init__(self, name: str, count: int, steps: int) -> None:
        robot, _, torques = make_scene(name)
        mujoco_plant = MujocoPlant(robot)
        self.model, self.count, self.steps = mujoco_plant.model, count, steps
        states = []
        for q in start_configurations(robot, count):
            mujoco_plant.reset(q)
            state = np.empty(mujoco.mj_stateSize(mujoco_plant.model, mujoco.mjtState.mjSTATE_FULLPHYSICS))
            mujoco.mj_getState(mujoco_plant.model, mujoco_plant.data, state, mujoco.mjtState.mjSTATE_FULLPHYSICS)
            states.append(state)
        self.states = np.array(states)
        self.controls = np.array([torques[k % len(torques)] for k in range(steps)])[None]

    def run(self, threads: int) -> None:
        """Runs the rollouts."""
        data = [mujoco.MjData(self.model) for _ in range(threads)]
        with mujoco.rollout.Rollout(nthread=threads) as rollout:
            rollout.rollout(self.model, data, self.states, self.controls, nstep=self.steps)


def measure_rates(calls: dict[str, Callable[[], object]], robot_seconds: float, rounds: int) -> dict[str, float]:
    """Returns robot-seconds per second of each call: the best of several rounds in alternation."""
    shortest = dict.fromkeys(calls, np.inf)
    for _ in range(rounds):
        for title, call in calls.items():
            start = time.perf_counter()
            call()
            shortest[title] = min(shortest[title], time.perf_counter() - start)
    return {title: robot_seconds / duration for title, duration in shortest.items()}


def main() -> int:
    """Prints the rates; returns 1 if the results of quaddyn differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robot", default="go2")
    parser.add_argument("--plants", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=0.5, help="duration of each rollout [s]")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    name, count, steps = options.robot, options.plants, round(options.seconds * 1e3)
    mujoco_rollouts = MujocoRollouts(name, count, steps)
    with campaigns.process_pool(2) as pool:
        expected, numbers = step_one_by_one(name, count, steps), range(count)
        results = [run_rollout(name, numbers, count, steps, threads) for threads in (1, 2)]
        is_identical = all(result == expected for result in (*results, run_in_processes(pool, 2, name, count, steps)))
        start = time.thread_time()
        run_rollout(name, numbers, count, steps)
        per_step = (time.thread_time() - start) / (count * steps)
        calls: dict[str, Callable[[], object]] = {
            "Simulation.step from Python": lambda: step_one_by_one(name, count, steps),
            "rollout, 1 thread": lambda: run_rollout(name, numbers, count, steps, 1),
            "rollout, 2 threads": lambda: run_rollout(name, numbers, count, steps, 2),
            "rollout, 2 processes": lambda: run_in_processes(pool, 2, name, count, steps),
            "mujoco.rollout, 1 thread": lambda: mujoco_rollouts.run(1),
            "mujoco.rollout, 2 threads": lambda: mujoco_rollouts.run(2),
        }
        rates_by_title = measure_rates(calls, count * steps * 1e-3, options.rounds)
    print(f"{cpu()}\n{count} of {name}, {steps} steps of 1 ms; robot-seconds per second:")
    for title, rate in rates_by_title.items():
        print(f"  {title:30} {rate:8.1f}")
    print(f"processor time of a step of a rollout: {1e6 * per_step:.1f} us")
    comparison = "equal" if is_identical else "DIFFER FROM"
    print(f"results of threads and processes {comparison} those of single steps, bit for bit")
    return 0 if is_identical else 1


if __name__ == "__main__":
    sys.exit(main())
