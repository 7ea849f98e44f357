"""Measures the processor time of a step of the environments of `quaddyn.envs`, with random joint targets.

    python benchmarks/environments.py                       # go2, 1,000 environments, two threads
    python benchmarks/environments.py --robot anymal_c --environments 4096

Needs the extra ``quaddyn[envs]``.  The processor time includes all threads; steps per second are those of the threads
on idle cores.
"""

from __future__ import annotations

import argparse
import time

import gymnasium
import numpy as np

import quaddyn.envs  # noqa: F401  # registers the environment


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--robot", default="go2", help="name of the robot")
    parser.add_argument("--environments", type=int, default=1000, help="number of environments")
    parser.add_argument("--threads", type=int, default=2, help="number of threads")
    parser.add_argument("--steps", type=int, default=60, help="number of steps")
    arguments = parser.parse_args()
    n = arguments.environments
    for options in ({}, {"control_dt": 0.004}, {"integrator": "adaptive"}):
        envs = gymnasium.make_vec(
            "quaddyn/QuadrupedVelocity-v0", num_envs=n, robot=arguments.robot, threads=arguments.threads, **options
        )
        envs.reset(seed=0)
        rng = np.random.default_rng(0)
        actions = rng.uniform(-1.0, 1.0, (arguments.steps, *envs.action_space.shape)).astype(np.float32)
        wall, cpu, n_falls = time.perf_counter(), time.process_time(), 0
        for action in actions:
            n_falls += int(envs.step(action)[2].sum())
        count = n * arguments.steps
        cpu, wall = (time.process_time() - cpu) / count, (time.perf_counter() - wall) / count
        print(
            f"{options or 'default'}: {1e6 * cpu:.1f} us an action, {arguments.threads / cpu:,.0f} actions/s by "
            f"processor time, {1.0 / wall:,.0f} actions/s by wall time, {n_falls} falls"
        )
        envs.close()


if __name__ == "__main__":
    main()
