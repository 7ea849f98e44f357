"""Compares the speed of `quaddyn.simulation.rollout` with that of `mujoco.rollout`, in robot-seconds per second.

    python benchmarks/rollouts.py                      # go2 on level ground, 1 kHz, sixteen robots, one and two threads
    python benchmarks/rollouts.py --robot solo12 --plants 64 --seconds 1

The same scene on both sides: every robot stands under the torques of joint springs, recorded once and then played.
MuJoCo's is the model that `MujocoPlant` makes.  Beside them: `Simulation.step` from Python, and `rollout` in worker
processes of `quaddyn.campaigns.process_pool`.  All of ours are compared bit for bit.  Wall time is the best of several
rounds in alternation, so that it means something on a machine with neighbours; CPU time of a step is given, too.
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
def scene(name: str) -> tuple[qd.Robot, Simulation, Array]:
    """A robot, its plant at home, and torques (steps, nu) of joint springs over a second."""
    robot = qd.load(name)
    sim, torques = Simulation(robot), []
    stiffness = 30.0 * robot.mass * robot.q_home[2]
    for _ in range(1000):
        torques.append(stiffness * (robot.q_home[7:] - sim.q[7:]) - 0.02 * stiffness * sim.v[6:])
        sim.step(torques[-1])
    return robot, sim, np.array(torques)


def starts(robot: qd.Robot, count: int) -> list[Array]:
    """Configurations at home, each a little higher than the last."""
    out = []
    for i in range(count):
        q = robot.q_home.copy()
        q[2] += 1e-4 * i
        out.append(q)
    return out


def played(name: str, steps: int) -> Array:
    """Torques (steps, nu)."""
    return np.resize(scene(name)[2], (steps, scene(name)[0].nu))


def stepped(name: str, count: int, steps: int) -> list[bytes]:
    """Step the plants one after the other from Python: their last states."""
    begin, torques, out = starts(scene(name)[0], count), played(name, steps), []
    for i in range(count):
        sim = plant(name, i)
        sim.reset(begin[i])
        for tau in torques:
            sim.step(tau)
        out.append(sim.q.tobytes() + sim.v.tobytes())
    return out


def ours(name: str, chosen: Sequence[int], count: int, steps: int, threads: int = 1) -> list[bytes]:
    """Roll some of the plants out: their last states."""
    begin = starts(scene(name)[0], count)
    q = np.array([begin[i] for i in chosen])
    found = rollout([plant(name, i) for i in chosen], played(name, steps), q=q, threads=threads)
    return [q[-1].tobytes() + v[-1].tobytes() for q, v in zip(found.q, found.v, strict=True)]


@cache
def plant(name: str, number: int) -> Simulation:
    """The plant of a number, kept."""
    return Simulation(scene(name)[0])


def spread(pool: Executor, workers: int, name: str, count: int, steps: int) -> list[bytes]:
    """The same over workers."""
    shares = [range(i, count, workers) for i in range(workers)]
    found = [pool.submit(ours, name, share, count, steps) for share in shares]
    states: dict[int, bytes] = {}
    for share, future in zip(shares, found, strict=True):
        states |= dict(zip(share, future.result(), strict=True))
    return [states[i] for i in range(count)]


class Mujocos:
    """The same scene in MuJoCo, rolled out by its own thread pool."""

    def __init__(self, name: str, count: int, steps: int) -> None:
        robot, _, torques = scene(name)
        made = MujocoPlant(robot)
        self.model, self.count, self.steps = made.model, count, steps
        states = []
        for q in starts(robot, count):
            made.reset(q)
            state = np.empty(mujoco.mj_stateSize(made.model, mujoco.mjtState.mjSTATE_FULLPHYSICS))
            mujoco.mj_getState(made.model, made.data, state, mujoco.mjtState.mjSTATE_FULLPHYSICS)
            states.append(state)
        self.states = np.array(states)
        self.controls = np.array([torques[k % len(torques)] for k in range(steps)])[None]

    def run(self, threads: int) -> None:
        """Roll out."""
        data = [mujoco.MjData(self.model) for _ in range(threads)]
        with mujoco.rollout.Rollout(nthread=threads) as rollout:
            rollout.rollout(self.model, data, self.states, self.controls, nstep=self.steps)


def rates(calls: dict[str, Callable[[], object]], robot_seconds: float, rounds: int) -> dict[str, float]:
    """Robot-seconds per second of each, the best of some rounds, in alternation."""
    best = dict.fromkeys(calls, np.inf)
    for _ in range(rounds):
        for title, call in calls.items():
            start = time.perf_counter()
            call()
            best[title] = min(best[title], time.perf_counter() - start)
    return {title: robot_seconds / took for title, took in best.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robot", default="go2")
    parser.add_argument("--plants", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=0.5, help="of each rollout [s]")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    name, count, steps = given.robot, given.plants, round(given.seconds * 1e3)
    theirs = Mujocos(name, count, steps)
    with campaigns.process_pool(2) as two:
        alone, everyone = stepped(name, count, steps), range(count)
        others = [ours(name, everyone, count, steps, threads) for threads in (1, 2)]
        same = all(each == alone for each in (*others, spread(two, 2, name, count, steps)))
        start = time.thread_time()
        ours(name, everyone, count, steps)
        per_step = (time.thread_time() - start) / (count * steps)
        calls: dict[str, Callable[[], object]] = {
            "Simulation.step from Python": lambda: stepped(name, count, steps),
            "rollout, 1 thread": lambda: ours(name, everyone, count, steps, 1),
            "rollout, 2 threads": lambda: ours(name, everyone, count, steps, 2),
            "rollout, 2 processes": lambda: spread(two, 2, name, count, steps),
            "mujoco.rollout, 1 thread": lambda: theirs.run(1),
            "mujoco.rollout, 2 threads": lambda: theirs.run(2),
        }
        found = rates(calls, count * steps * 1e-3, given.rounds)
    print(f"{cpu()}\n{count} of {name}, {steps} steps of 1 ms; robot-seconds per second:")
    for title, rate in found.items():
        print(f"  {title:30} {rate:8.1f}")
    print(f"a step of a rollout takes {1e6 * per_step:.1f} us of CPU time")
    print(f"threads and processes {'give the bits of' if same else 'DIFFER FROM'} stepping one after the other")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
