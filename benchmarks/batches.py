"""Measures the processor time of batches of simulations and controllers, and the memory of a lane.

    python benchmarks/batches.py                         # go2, 1,000 robots, two threads
    python benchmarks/batches.py --robot solo12 --lanes 4000
    python benchmarks/batches.py --what controllers
    python benchmarks/batches.py --what walkers --lanes 200
    python benchmarks/batches.py --states 100000         # compares batches with single calls, on eight robots

With ``--states`` kernels, ticks of whole-body control and time steps of eight robots are computed in batches and one
by one, each for this number of states; the exit code is 1 if any bit of the results differs.

The robots of the simulations follow random joint targets by PD control on level ground.  The controllers compute ticks
at random states near the home configuration, each lane also by single controllers in a Python loop.  The walkers are
locomotion controllers that trot with different velocities in a batch of simulations; a few are also computed by single
controllers.  The processor time includes all threads and does not depend on other processes as much as the wall time
does.  Steps and ticks per second are those of the threads on idle cores.
"""

from __future__ import annotations

import argparse
import platform
import time
from pathlib import Path

import numpy as np

import quaddyn as qd


def processor_name() -> str:
    """Name of the processor."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def measure_simulations(robot: qd.Robot, n: int, threads: int) -> None:
    """Prints the times of time steps of `Simulation.batch`."""
    rng = np.random.default_rng(0)
    stiffness = 10.0 * robot.mass * robot.q_home[2]
    targets = robot.q_home[7:] + rng.normal(0.0, 0.03, (n, robot.nu))
    for name, options in (("feet", {"spheres": {}}), ("feet and bodies", {})):
        batch = qd.Simulation(robot, **options).batch(n, threads=threads)
        for _ in range(10):
            batch.step(position=targets, stiffness=stiffness, damping=0.03 * stiffness, steps=20)
        for steps in (1, 4, 20):
            start, cpu, calls = time.perf_counter(), time.process_time(), 40 // steps
            for _ in range(calls):
                batch.step(position=targets, stiffness=stiffness, damping=0.03 * stiffness, steps=steps)
            count = calls * steps * n
            cpu, wall = (time.process_time() - cpu) / count, (time.perf_counter() - start) / count
            print(
                f"contacts of {name}, {steps} steps a call: {1e6 * cpu:.1f} us a step, "
                f"{threads / cpu:,.0f} steps/s by processor time, {1.0 / wall:,.0f} steps/s by wall time"
            )
        print(repr(batch))


def measure_controllers(robot: qd.Robot, n: int, threads: int) -> None:
    """Prints the times of ticks of `WholeBodyController.batch`, and of a loop over single controllers."""
    rng, ticks = np.random.default_rng(0), 20
    q, v = np.tile(robot.q_home, (n, 1)), np.zeros((n, robot.nv))
    changes = [rng.normal(0.0, 0.02, (n, robot.nv)) for _ in range(ticks)]
    batch = qd.WholeBodyController(robot).batch(n, threads=threads)
    batch.compute(q, v)
    start, cpu = time.perf_counter(), time.process_time()
    for change in changes:
        command = batch.compute(q, change)
    count = ticks * n
    cpu, wall = (time.process_time() - cpu) / count, (time.perf_counter() - start) / count
    print(
        f"batch of controllers: {1e6 * cpu:.1f} us a tick, {threads / cpu:,.0f} ticks/s by processor time, "
        f"{1.0 / wall:,.0f} ticks/s by wall time ({command!r})"
    )
    n_alone = min(n, 50)  # each has its own workspace
    alone, dynamics = [qd.WholeBodyController(robot) for _ in range(n_alone)], qd.Dynamics(robot)
    for i, controller in enumerate(alone):
        controller.compute(dynamics.update(q[i], v[i]))
    cpu = time.process_time()
    for change in changes:
        singles = [c.compute(dynamics.update(q[i], change[i])) for i, c in enumerate(alone)]
    cpu = (time.process_time() - cpu) / (ticks * n_alone)
    equal = all(single.tau.tobytes() == command.tau[i].tobytes() for i, single in enumerate(singles))
    print(
        f"loop over single controllers: {1e6 * cpu:.1f} us a tick, {1.0 / cpu:,.0f} ticks/s by processor time of one "
        f"thread; torques {'equal' if equal else 'NOT EQUAL'}"
    )
    print(repr(batch))


def measure_walkers(robot: qd.Robot, n: int, threads: int) -> None:
    """Prints the times of ticks of `LocomotionController.batch` of trotting robots, and of single controllers."""
    dt, n_alone = 2e-3, min(n, 4)
    plants = qd.Simulation(robot, dt=dt, spheres={}).batch(n, threads=threads)
    batch = qd.LocomotionController(robot, dt=dt).batch(n, threads=threads)
    alone, dynamics = [qd.LocomotionController(robot, dt=dt) for _ in range(n_alone)], qd.Dynamics(robot)
    speed = alone[0].morphology.speed_scale
    velocity = speed * np.random.default_rng(0).uniform((0.1, -0.05, -0.1), (0.3, 0.05, 0.1), (n, 3))
    times, single_times, count, error = 0.0, 0.0, 0, 0.0
    for k in range(1000):
        q, v = plants.q, plants.v
        cpu = time.process_time()
        command = batch.compute(q, v, velocity)
        times += (time.process_time() - cpu) if k >= 500 else 0.0
        for i, controller in enumerate(alone):
            state = dynamics.update(q[i], v[i])
            cpu = time.process_time()
            tau = controller.compute(state, velocity[i]).tau
            single_times += (time.process_time() - cpu) if k >= 500 else 0.0
            error = max(error, float(np.abs(tau - command.tau[i]).max()))
        count += k >= 500
        plants.step(command.tau)
    times, single_times = times / (count * n), single_times / (count * n_alone)
    print(
        f"batch of walkers: {1e6 * times:.1f} us a tick, {threads / times:,.0f} ticks/s by processor time "
        f"({command!r}); single controllers: {1e6 * single_times:.1f} us without `Dynamics.update`; "
        f"largest difference {error:g} N m"
    )
    print(repr(batch))


#: Robots whose batches are compared with single calls: quadrupeds, and a biped.
COMPARED_ROBOTS = ("go2", "solo12", "anymal_c", "hyq", "a1", "b1", "laikago", "bolt")


def compare(name: str, n_states: int, threads: int) -> dict[str, int]:
    """Returns the number of states whose results of a batch and of single calls differ, by the kind of call."""
    robot, rng, n = qd.load(name), np.random.default_rng(0), 50
    different = dict.fromkeys(("kernels", "ticks", "steps"), 0)
    fast = qd.compile(robot, ("rnea", "aba", "crba"))
    batch = qd.WholeBodyController(robot).batch(n, threads=threads)
    controllers, dynamics = [qd.WholeBodyController(robot) for _ in range(n)], qd.Dynamics(robot)
    plants = qd.Simulation(robot, spheres={}).batch(n, threads=threads)
    singles = [qd.Simulation(robot, spheres={}) for _ in range(n)]
    for _ in range(-(-n_states // n)):
        v, a = rng.normal(0.0, 0.5, (2, n, robot.nv))
        q = np.array([robot.integrate(robot.q_home, change) for change in rng.normal(0.0, 0.3, (n, robot.nv))])
        for operation, arguments in (("rnea", (q, v, a)), ("aba", (q, v, a)), ("crba", (q,))):
            together = getattr(fast, operation)(*arguments)
            alone = [getattr(fast, operation)(*(x[i] for x in arguments)) for i in range(n)]
            different["kernels"] += sum(x.tobytes() != y.tobytes() for x, y in zip(alone, together, strict=True))
        q, v = plants.q.copy(), plants.v.copy()
        command = batch.compute(q, v)
        for i, controller in enumerate(controllers):
            tau = controller.compute(dynamics.update(q[i], v[i])).tau
            different["ticks"] += tau.tobytes() != command.tau[i].tobytes()
        tau = command.tau + rng.normal(0.0, 0.1 * robot.mass * robot.q_home[2], (n, robot.nu))
        plants.step(tau)
        for i, single in enumerate(singles):
            single.step(tau[i])
            same = single.q.tobytes() == plants.q[i].tobytes() and single.v.tobytes() == plants.v[i].tobytes()
            different["steps"] += not same
        if (fallen := plants.q[:, 2] < 0.6 * robot.q_home[2]).any():
            plants.reset(fallen)
            for i in np.flatnonzero(fallen):
                singles[i].reset()
    return different


#: Measurements by the value of ``--what``.
MEASUREMENTS = {"simulations": measure_simulations, "controllers": measure_controllers, "walkers": measure_walkers}


def main() -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--robot", default="go2", help="name of the robot")
    parser.add_argument("--lanes", type=int, default=1000, help="number of robots")
    parser.add_argument("--threads", type=int, default=2, help="number of threads")
    parser.add_argument("--what", choices=["all", *MEASUREMENTS], default="all", help="what to measure")
    parser.add_argument("--states", type=int, help="number of states of each kind that are compared with single calls")
    arguments = parser.parse_args()
    print(processor_name())
    if arguments.states is not None:
        failed = False
        for name in COMPARED_ROBOTS:
            n_states = -(-arguments.states // len(COMPARED_ROBOTS))
            different = compare(name, n_states, arguments.threads)
            print(f"{name}: {n_states} states each, different: {different}", flush=True)
            failed |= any(different.values())
        return int(failed)
    robot = qd.load(arguments.robot)
    for name, measure in MEASUREMENTS.items():
        if arguments.what in ("all", name):
            measure(robot, arguments.lanes, arguments.threads)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
