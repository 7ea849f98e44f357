"""Measures the processor time of a time step of `Simulation.batch`, and the memory of a lane.

    python benchmarks/batches.py                         # go2, 1,000 robots, two threads
    python benchmarks/batches.py --robot solo12 --lanes 4000

The robots follow random joint targets by PD control on level ground.  The processor time includes all threads and does
not depend on other processes as much as the wall time does.  Steps per second are those of the threads on idle cores.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import quaddyn as qd


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--robot", default="go2", help="name of the robot")
    parser.add_argument("--lanes", type=int, default=1000, help="number of robots")
    parser.add_argument("--threads", type=int, default=2, help="number of threads")
    arguments = parser.parse_args()
    robot = qd.load(arguments.robot)
    n, rng = arguments.lanes, np.random.default_rng(0)
    stiffness = 10.0 * robot.mass * robot.q_home[2]
    targets = robot.q_home[7:] + rng.normal(0.0, 0.03, (n, robot.nu))
    for name, options in (("feet", {"spheres": {}}), ("feet and bodies", {})):
        batch = qd.Simulation(robot, **options).batch(n, threads=arguments.threads)
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
                f"{arguments.threads / cpu:,.0f} steps/s by processor time, {1.0 / wall:,.0f} steps/s by wall time"
            )
        print(repr(batch))


if __name__ == "__main__":
    main()
