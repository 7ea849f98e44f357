"""Tests self-righting of robots that lie on their back or side: fraction that stands up and walks, in both plants.

    python benchmarks/righting.py --robots go2
    python benchmarks/righting.py --check          # exit code 1 if a requirement is not met

The plans are computed by `plan_righting` with the embedded plant, unless they are cached.  A robot is dropped from a
small height, folds its legs, gets the command to stand up, and then walks for some seconds.  Printed are the successes,
the time at which the robot stood, and the largest power of one joint in m g sqrt(g l).  Sides for which there is no
feasible plan are skipped; the reason is printed.  Required is a success rate of 90 % in either plant.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pinocchio as pin
from bench_wbc import cpu

import quaddyn as qd
from quaddyn.locomotion import LocomotionController, LocomotionMode
from quaddyn.locomotion.righting import RightingPlan
from quaddyn.planning import plan_righting

ROBOTS = ("go2", "a1", "solo12", "anymal_b", "anymal_c", "hyq", "b1", "laikago")
PLANTS: dict[str, Callable[..., qd.Simulation | qd.MujocoPlant]] = {"embedded": qd.Simulation, "mujoco": qd.MujocoPlant}
ROLL_ANGLES = {"back": np.pi - 0.1, "left": -0.5 * np.pi, "right": 0.5 * np.pi}
#: Period, time of the command to stand up, latest time of standing, durations of standing and walking [s].
DT, COMMAND_TIME, MAX_TIME, PAUSE, WALK = 2e-3, 1.0, 20.0, 0.5, 3.0
#: Required fraction of successful trials.
MIN_SUCCESS = 0.9


@dataclass(frozen=True)
class TrialResult:
    """Time of standing [s], whether the robot then walked half the commanded distance, and largest joint power."""

    stood: float | None
    walked: bool
    power: float


def run_trial(robot: qd.Robot, plan: RightingPlan, plant_name: str, side: str, seed: int) -> TrialResult:
    """Simulates one trial that starts from a random attitude about a side."""
    rng = np.random.default_rng(seed)
    plant, controller = PLANTS[plant_name](robot, dt=DT), LocomotionController(robot, dt=DT, righting_plan=plan)
    dynamics, p = qd.Dynamics(robot), controller.morphology
    q, roll_angle = np.array(robot.q_home), ROLL_ANGLES[side] + rng.uniform(-0.2, 0.2)
    q[3:7] = pin.Quaternion(pin.exp3(np.array([roll_angle, 0.0, 0.0])) @ p.heading.T).coeffs()
    q[2] += 0.1 * p.length
    plant.reset(q)
    speed, power, commanded = 0.2 * p.speed_scale, 0.0, False
    stood: float | None = None
    begin, end = np.zeros(2), np.zeros(2)
    for k in range(round((MAX_TIME + WALK) / DT)):
        time = k * DT
        if time > COMMAND_TIME and controller.mode is LocomotionMode.FALLEN:
            if commanded:  # righting failed, or the robot fell again
                break
            controller.stand_up()
            commanded = True
        walking = stood is not None and time > stood + PAUSE
        command = controller.compute(dynamics.update(plant.q, plant.v), (speed if walking else 0.0, 0.0, 0.0))
        if time > COMMAND_TIME:
            power = max(power, float(np.abs(command.tau * plant.v[robot.actuated_index]).max()))
        if stood is None and commanded and command.mode is LocomotionMode.STANDING:
            stood = time
        if not walking:
            begin = plant.q[:2].copy()
        end = plant.q[:2].copy()
        if time > (MAX_TIME if stood is None else stood + PAUSE + WALK):
            break
        plant.step(command.tau)
    distance = float(np.hypot(*(end - begin)))
    has_walked = stood is not None and controller.mode is LocomotionMode.MOVING and distance > 0.5 * speed * WALK
    return TrialResult(stood, has_walked, power / (p.mass * p.gravity * p.speed_scale))


def main() -> int:
    """Prints the results; returns 1 if `--check` finds that the requirement is not met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robots", nargs="+", default=ROBOTS)
    parser.add_argument("--plants", nargs="+", default=tuple(PLANTS), choices=tuple(PLANTS))
    parser.add_argument(
        "--seeds", type=int, default=3, help="trials of each robot, plant and side (default %(default)s)"
    )
    parser.add_argument("--check", action="store_true", help="exit code 1 if the requirement is not met")
    options = parser.parse_args()
    print(f"{cpu()}; powers in m g sqrt(g l)")
    n_success = dict.fromkeys(options.plants, 0)
    n_trials = dict.fromkeys(options.plants, 0)
    for name in options.robots:
        robot = qd.load(name)
        plan = plan_righting(robot)
        for side, reason in plan.infeasible.items():
            print(f"{name:10s} {side:5s} no feasible plan: {reason}")
        for plant in options.plants:
            for side in ROLL_ANGLES:
                if side in plan.infeasible:
                    continue
                results = [run_trial(robot, plan, plant, side, seed) for seed in range(options.seeds)]
                successes = [result for result in results if result.walked]
                n_success[plant], n_trials[plant] = n_success[plant] + len(successes), n_trials[plant] + len(results)
                latest = max((result.stood or 0.0 for result in successes), default=float("nan"))
                title = f"{name:10s} {side:5s} {plant:8s} {len(successes)} of {len(results)} walk"
                max_power = max(result.power for result in results)
                print(f"{title}; stood after at most {latest:.1f} s, power {max_power:.2f}", flush=True)
    for plant in options.plants:
        print(f"{plant}: {n_success[plant]} of {n_trials[plant]} walk")
    not_met = [plant for plant in options.plants if n_success[plant] < MIN_SUCCESS * n_trials[plant]]
    print(f"requirement not met: {', '.join(not_met)}" if not_met else "requirement met")
    return 1 if options.check and not_met else 0


if __name__ == "__main__":
    sys.exit(main())
