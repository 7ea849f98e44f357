"""Tests robots with closed loops: closure errors, agreement with the reference and MuJoCo, kernels, ticks, a trot.

    python benchmarks/loops.py            # print the results
    python benchmarks/loops.py --check    # exit code 1 if a requirement is not met

The robots are a leg with a four-bar knee, a parallel ankle, random planar linkages and a quadruped with four-bar knees.
The requirements are the constants below.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from loop_robots import ankle, knee_leg, planar, quadruped

import quaddyn as qd
from quaddyn.kernels import TickTerms
from quaddyn.kernels.operations import KernelOptions, trace_operation

#: Largest closure error [m], relative error of the dynamics, and difference from MuJoCo with a short step [rad].
MAX_CLOSURE_ERROR, MAX_RELATIVE_ERROR, MAX_MUJOCO_DIFFERENCE = 1e-12, 1e-10, 1e-6
#: Smallest distance of the trot [m], and largest time of a tick divided by that of the robot without loops.
MIN_DISTANCE, MAX_TIME_RATIO = 0.8, 2.0


def measure_closure(robot: qd.Robot, seconds: float) -> tuple[float, float]:
    """Moves a robot with sinusoidal torques; returns the largest gap of its loops and the time of a step.

    The gap [m] is computed by `Dynamics` from the joint positions; the time [s] is processor time.
    """
    plant, dyn, max_gap = qd.Simulation(robot, dt=1e-3, floor=-np.inf), qd.Dynamics(robot), 0.0
    begin_time, steps = time.process_time(), round(seconds * 1e3)
    for k in range(steps):
        excitation = np.sin(2.0 * np.pi * (0.4 + 0.13 * np.arange(robot.nu)) * k * 1e-3)
        plant.step(2.0 * excitation - 0.1 * plant.v[robot.actuated_index])
        if k % 20 == 0:
            for loop in robot.loops:
                a, b = dyn.frame_placement(plant.q, loop.link_a), dyn.frame_placement(plant.q, loop.link_b)
                gap = a.apply(loop.placement_a.translation) - b.apply(loop.placement_b.translation)
                max_gap = max(max_gap, float(np.linalg.norm(gap)))
    return max_gap, (time.process_time() - begin_time) / steps


def compare_with_mujoco(robot: qd.Robot, dt: float) -> tuple[float, float]:
    """Simulates 0.2 s in both plants; returns their difference and the displacement from the start [rad]."""
    q = robot.configuration(joints={robot.joint_names[-1]: -0.2})
    plants = [plant_type(robot, dt=dt, floor=-np.inf) for plant_type in (qd.Simulation, qd.MujocoPlant)]
    for plant in plants:
        plant.reset(q, np.full(robot.nv, 0.3))
        for _ in range(round(0.2 / dt)):
            plant.step(np.linspace(0.3, -0.2, robot.nu))
    return float(np.abs(plants[0].q - plants[1].q).max()), float(np.abs(plants[0].q - q).max())


def remove_loops(text: str) -> str:
    """Returns the URDF of the same robot with cranks and rods fixed to the thighs."""
    text = re.sub("<loop_joint.*?</loop_joint>", "", text)
    for pin in ("knee_motor", "rod_pin"):
        text = re.sub(rf'(<joint name="\w*{pin}") type="revolute"', r'\1 type="fixed"', text)
    return text


def check_kernels(seeds: int) -> tuple[float, float]:
    """Compares the kernels of random linkages with `Dynamics` and the reference implementation.

    Returns the largest relative error and the largest gap of a loop [m].
    """
    max_error = max_gap = 0.0
    for seed in range(seeds):
        for pivots, follow in ((4, (0, 2)), (4, (1, 2)), (5, (0, 3)), (5, (2, 3))):
            try:
                robot = qd.load(planar(seed, pivots, follow), armature=0.01)
            except qd.errors.ModelError:  # the loop is singular in the home configuration
                continue
            report = qd.cross_check(robot, samples=2, tolerance=MAX_RELATIVE_ERROR, kernels=True)
            max_error = max(max_error, *report.errors.values())
            frames = (robot.loops[0].link_a, robot.loops[0].link_b)
            terms, dyn, rng = TickTerms(robot, frames), qd.Dynamics(robot), np.random.default_rng(seed)
            for _ in range(20):
                q, v = robot.random_configuration(rng), rng.normal(size=robot.nv)
                compiled, s = terms.layout.views(terms(q, v, np.empty(terms.size))), dyn.update(q, v)
                pairs = [(compiled["M"], s.M), (compiled["h"], s.h)]
                pairs += [(compiled[f"{name}.drift"], s.drift(name)) for name in frames]
                max_error = max(max_error, *(float(np.abs(x - y).max() / max(np.abs(y).max(), 1.0)) for x, y in pairs))
                placements = robot.loops[0].placement_a, robot.loops[0].placement_b
                ends = [
                    compiled[f"{name}.rotation"] @ placement.translation + compiled[f"{name}.origin"]
                    for name, placement in zip(frames, placements, strict=True)
                ]
                max_gap = max(max_gap, float(np.linalg.norm(ends[0] - ends[1])))
    return max_error, max_gap


def measure_ticks(texts: tuple[str, ...], count: int = 400) -> list[float]:
    """Returns the processor time of a whole-body tick of each robot, the smallest of several rounds [s]."""
    cases = []
    for text in texts:
        robot = qd.load(text)
        cases.append((robot, qd.Dynamics(robot), qd.WholeBodyController(robot)))
    fastest = [np.inf] * len(cases)
    for _ in range(8):
        for k, (robot, dyn, controller) in enumerate(cases):
            rng = np.random.default_rng(0)
            configurations = [robot.integrate(robot.q_home, 0.05 * rng.normal(size=robot.nv)) for _ in range(count)]
            states, v = [np.clip(q, robot.lower, robot.upper) for q in configurations], np.full(robot.nv, 0.1)
            start = time.process_time()
            for q in states:
                controller.compute(dyn.update(q, v), contacts=robot.feet)
            fastest[k] = min(fastest[k], (time.process_time() - start) / count)
    return fastest


def run_trot(seconds: float, speed: float) -> tuple[float, int, float]:
    """Simulates a trot; returns the distance [m], the number of ticks without a solution and the time of a tick [s]."""
    robot = qd.load(quadruped())
    plant, dyn = qd.Simulation(robot, dt=2e-3), qd.Dynamics(robot)
    controller = qd.LocomotionController(robot, dt=2e-3, gait="trot")
    n_failed, total_time, n_ticks = 0, 0.0, round(seconds / 2e-3)
    for _ in range(n_ticks):
        start = time.process_time()
        command = controller.compute(dyn.update(plant.q, plant.v), (speed, 0.0, 0.0))
        total_time += time.process_time() - start
        n_failed += not command.wbc_command.ok
        plant.step(command.tau)
    return float(plant.q[0]), n_failed, total_time / n_ticks


def main() -> int:
    """Prints the results; returns the number of requirements that are not met if `--check` is given."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--seconds", type=float, default=60.0, help="duration of the motion that tests the closure [s]")
    parser.add_argument("--linkages", type=int, default=10, help="number of seeds of the random planar linkages")
    arguments = parser.parse_args()
    not_met = []

    def check(name: str, value: float, is_met: bool, details: str = "") -> None:
        """Prints a result and records it if its requirement is not met."""
        print(f"{name:48} {value:.3g} {details}{'' if is_met else '  NOT MET'}", flush=True)
        if not is_met:
            not_met.append(name)

    for robot in (qd.load(knee_leg(), armature=0.01), qd.load(ankle(), armature=0.01)):
        gap, step = measure_closure(robot, arguments.seconds)
        details = f"m in {arguments.seconds:g} s; {1e6 * step:.0f} us per step"
        check(f"{robot.name}: closure error", gap, gap <= MAX_CLOSURE_ERROR, details)
        report = qd.cross_check(robot, samples=10, tolerance=MAX_RELATIVE_ERROR, kernels=robot.coupling.spatial is None)
        check(f"{robot.name}: relative error of the dynamics", max(report.errors.values()), report.passed)
        for dt in (1e-3, 2.5e-4, 5e-5):
            difference, displacement = compare_with_mujoco(robot, dt)
            is_met = dt > 1e-4 or difference <= MAX_MUJOCO_DIFFERENCE
            check(
                f"{robot.name}: difference from MuJoCo, dt {dt:g} s",
                difference,
                is_met,
                f"rad, displacement {displacement:.2g} rad",
            )
    error, gap = check_kernels(arguments.linkages)
    check("random planar linkages: error of kernels", error, error <= MAX_RELATIVE_ERROR)
    check("random planar linkages: closure error of kernels", gap, gap <= MAX_CLOSURE_ERROR, "m")
    texts = quadruped(), remove_loops(quadruped())
    for operation in ("rnea", "crba", "aba"):
        operations = [trace_operation(operation, qd.load(text), KernelOptions()).operations for text in texts]
        print(f"quadruped: {operation:37} {operations[0]}\n{'':48} {operations[1]} without loops")
    tick, tick_without_loops = measure_ticks(texts)
    details = f"times {1e6 * tick_without_loops:.1f} us without loops"
    check(
        "quadruped: time of a whole-body tick",
        tick / tick_without_loops,
        tick <= MAX_TIME_RATIO * tick_without_loops,
        details,
    )
    distance, n_failed, tick = run_trot(4.0, 0.3)
    check(
        "quadruped: distance of a trot, 4 s at 0.3 m/s",
        distance,
        distance >= MIN_DISTANCE and not n_failed,
        f"m, {n_failed} ticks failed",
    )
    print(f"{'quadruped: time of a locomotion tick':48} {1e6 * tick:.0f} us")
    return len(not_met) if arguments.check else 0


if __name__ == "__main__":
    sys.exit(min(main(), 1))
