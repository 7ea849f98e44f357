"""Closed loops: closure along a motion, agreement with the reference and with MuJoCo, and a trot on four-bar knees.

python benchmarks/loops.py            # figures
python benchmarks/loops.py --check    # exit 1 if a bar is missed
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from loop_robots import ankle, knee_leg, quadruped

import quaddyn as qd

#: Bars: closure [m], relative error against the reference, difference from MuJoCo [rad], distance trotted [m].
CLOSURE, AGREES, HARD, FAR = 1e-12, 1e-10, 1e-6, 0.8


def closure(robot: qd.Robot, seconds: float) -> tuple[float, float]:
    """Largest gap of the loops, by the robot's own kinematics, along a motion under torques [m], and time of a step."""
    plant, dyn, worst = qd.Simulation(robot, dt=1e-3, floor=-np.inf, joint_stops=True), qd.Dynamics(robot), 0.0
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
        failed += not command.whole_body.ok
        plant.step(command.tau)
    return float(plant.q[0]), failed, spent / ticks


def main() -> int:
    """Print the figures; how many bars are missed, if they are checked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--seconds", type=float, default=60.0, help="of motion")
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
        report = qd.cross_check(robot, samples=10, tolerance=AGREES)
        bar(f"{robot.name}: against the reference", max(report.errors.values()), report.passed)
        for dt in (1e-3, 2.5e-4, 5e-5):
            difference, moved = apart(robot, dt)
            met = dt > 1e-4 or difference <= HARD
            bar(f"{robot.name}: against MuJoCo, dt {dt:g} s", difference, met, f"rad of {moved:.2g}")
    far, failed, tick = trot(4.0, 0.3)
    bar("quadruped: trotted in 4 s at 0.3 m/s", far, far >= FAR and not failed, f"m, {failed} ticks failed")
    print(f"{'quadruped: a tick':48} {1e6 * tick:.0f} us")
    return len(missed) if arguments.check else 0


if __name__ == "__main__":
    sys.exit(min(main(), 1))
