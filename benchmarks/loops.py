"""Tests robots with closed loops: closure errors, agreement with the reference and MuJoCo, kernels, a trot.

python benchmarks/loops.py            # figures
python benchmarks/loops.py --check    # exit code 1 if a requirement is not met
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

#: Bars: closure [m], relative error against the reference, difference from MuJoCo [rad], distance trotted [m], and how
#: many times as long as without loops a tick takes.
CLOSURE, AGREES, HARD, FAR, SLOWER = 1e-12, 1e-10, 1e-6, 0.8, 2.0


def closure(robot: qd.Robot, seconds: float) -> tuple[float, float]:
    """Largest gap of the loops, by the robot's own kinematics, along a motion under torques [m], and time of a step."""
    plant, dyn, worst = qd.Simulation(robot, dt=1e-3, floor=-np.inf), qd.Dynamics(robot), 0.0
    start, steps = time.process_time(), round(seconds * 1e3)
    for k in range(steps):
        swing = np.sin(2.0 * np.pi * (0.4 + 0.13 * np.arange(robot.nu)) * k * 1e-3)
        plant.step(2.0 * swing - 0.1 * plant.v[robot.actuated_index])
        if k % 20 == 0:
            for loop in robot.loops:
                a, b = dyn.frame_placement(plant.q, loop.link_a), dyn.frame_placement(plant.q, loop.link_b)
                gap = a.apply(loop.placement_a.translation) - b.apply(loop.placement_b.translation)
                worst = max(worst, float(np.linalg.norm(gap)))
    return worst, (time.process_time() - start) / steps


def apart(robot: qd.Robot, dt: float) -> tuple[float, float]:
    """How far the embedded plant and MuJoCo are from each other after 0.2 s, and from where they began [rad]."""
    q = robot.configuration(joints={robot.joint_names[-1]: -0.2})
    plants = [kind(robot, dt=dt, floor=-np.inf) for kind in (qd.Simulation, qd.MujocoPlant)]
    for plant in plants:
        plant.reset(q, np.full(robot.nv, 0.3))
        for _ in range(round(0.2 / dt)):
            plant.step(np.linspace(0.3, -0.2, robot.nu))
    return float(np.abs(plants[0].q - plants[1].q).max()), float(np.abs(plants[0].q - q).max())


def without_loops(text: str) -> str:
    """The same robot whose cranks and rods are bolted to its thighs."""
    text = re.sub("<loop_joint.*?</loop_joint>", "", text)
    for pin in ("knee_motor", "rod_pin"):
        text = re.sub(rf'(<joint name="\w*{pin}") type="revolute"', r'\1 type="fixed"', text)
    return text


def by_kernels(seeds: int) -> tuple[float, float]:
    """Largest relative error of kernels of random linkages, against `Dynamics` and the reference; gap of loops [m]."""
    worst = gap = 0.0
    for seed in range(seeds):
        for pivots, follow in ((4, (0, 2)), (4, (1, 2)), (5, (0, 3)), (5, (2, 3))):
            try:
                robot = qd.load(planar(seed, pivots, follow), armature=0.01)
            except qd.errors.ModelError:  # singular at home
                continue
            report = qd.cross_check(robot, samples=2, tolerance=AGREES, kernels=True)
            worst = max(worst, *report.errors.values())
            frames = (robot.loops[0].link_a, robot.loops[0].link_b)
            terms, dyn, rng = TickTerms(robot, frames), qd.Dynamics(robot), np.random.default_rng(seed)
            for _ in range(20):
                q, v = robot.random_configuration(rng), rng.normal(size=robot.nv)
                found, s = terms.layout.views(terms(q, v, np.empty(terms.size))), dyn.update(q, v)
                pairs = [(found["M"], s.M), (found["h"], s.h)]
                pairs += [(found[f"{name}.drift"], s.drift(name)) for name in frames]
                worst = max(worst, *(float(np.abs(x - y).max() / max(np.abs(y).max(), 1.0)) for x, y in pairs))
                placed = robot.loops[0].placement_a, robot.loops[0].placement_b
                ends = [
                    found[f"{name}.rotation"] @ at.translation + found[f"{name}.origin"]
                    for name, at in zip(frames, placed, strict=True)
                ]
                gap = max(gap, float(np.linalg.norm(ends[0] - ends[1])))
    return worst, gap


def ticks(texts: tuple[str, ...], count: int = 400) -> list[float]:
    """CPU time of a tick of whole-body control, of each robot in turn: the least of some rounds [s]."""
    made = []
    for text in texts:
        robot = qd.load(text)
        made.append((robot, qd.Dynamics(robot), qd.WholeBodyController(robot)))
    best = [np.inf] * len(made)
    for _ in range(8):
        for k, (robot, dyn, controller) in enumerate(made):
            rng = np.random.default_rng(0)
            moved = [robot.integrate(robot.q_home, 0.05 * rng.normal(size=robot.nv)) for _ in range(count)]
            states, v = [np.clip(q, robot.lower, robot.upper) for q in moved], np.full(robot.nv, 0.1)
            start = time.process_time()
            for q in states:
                controller.compute(dyn.update(q, v), contacts=robot.feet)
            best[k] = min(best[k], (time.process_time() - start) / count)
    return best


def trot(seconds: float, speed: float) -> tuple[float, int, float]:
    """Distance trotted without tuning [m], ticks without an answer, and time of a tick."""
    robot = qd.load(quadruped())
    plant, dyn = qd.Simulation(robot, dt=2e-3), qd.Dynamics(robot)
    controller = qd.LocomotionController(robot, dt=2e-3, gait="trot")
    failed, spent, ticks = 0, 0.0, round(seconds / 2e-3)
    for _ in range(ticks):
        start = time.process_time()
        command = controller.compute(dyn.update(plant.q, plant.v), (speed, 0.0, 0.0))
        spent += time.process_time() - start
        failed += not command.wbc_command.ok
        plant.step(command.tau)
    return float(plant.q[0]), failed, spent / ticks


def main() -> int:
    """Print the figures; how many bars are missed, if they are checked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--seconds", type=float, default=60.0, help="of motion")
    parser.add_argument("--linkages", type=int, default=10, help="random seeds of planar linkages")
    arguments = parser.parse_args()
    missed = []

    def bar(name: str, value: float, met: bool, more: str = "") -> None:
        print(f"{name:48} {value:.3g} {more}{'' if met else '  MISSED'}", flush=True)
        if not met:
            missed.append(name)

    for robot in (qd.load(knee_leg(), armature=0.01), qd.load(ankle(), armature=0.01)):
        gap, step = closure(robot, arguments.seconds)
        more = f"m in {arguments.seconds:g} s; {1e6 * step:.0f} us a step"
        bar(f"{robot.name}: closure", gap, gap <= CLOSURE, more)
        report = qd.cross_check(robot, samples=10, tolerance=AGREES, kernels=robot.coupling.spatial is None)
        bar(f"{robot.name}: against the reference", max(report.errors.values()), report.passed)
        for dt in (1e-3, 2.5e-4, 5e-5):
            difference, moved = apart(robot, dt)
            met = dt > 1e-4 or difference <= HARD
            bar(f"{robot.name}: against MuJoCo, dt {dt:g} s", difference, met, f"rad of {moved:.2g}")
    worst, gap = by_kernels(arguments.linkages)
    bar("random planar linkages: kernels against the others", worst, worst <= AGREES)
    bar("random planar linkages: closure of kernels", gap, gap <= CLOSURE, "m")
    texts = quadruped(), without_loops(quadruped())
    for what in ("rnea", "crba", "aba"):
        both = [trace_operation(what, qd.load(text), KernelOptions()).operations for text in texts]
        print(f"quadruped: {what:37} {both[0]}\n{'':48} {both[1]} without loops")
    tick, plain = ticks(texts)
    more = f"times {1e6 * plain:.1f} us without its loops"
    bar("quadruped: a tick of whole-body control", tick / plain, tick <= SLOWER * plain, more)
    far, failed, tick = trot(4.0, 0.3)
    bar("quadruped: trotted in 4 s at 0.3 m/s", far, far >= FAR and not failed, f"m, {failed} ticks failed")
    print(f"{'quadruped: a tick of locomotion':48} {1e6 * tick:.0f} us")
    return len(missed) if arguments.check else 0


if __name__ == "__main__":
    sys.exit(min(main(), 1))
