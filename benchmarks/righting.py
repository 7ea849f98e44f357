"""Robots that lie on their back and their sides, in both plants: who gets onto its feet again and walks on.

    python benchmarks/righting.py --robots go2
    python benchmarks/righting.py --check          # exit code 1 if a requirement is not met

Plans are those of `plan_righting`, sought in the embedded plant where none is kept.  A robot is let fall from a little
above the ground, folds its legs, is told to stand up, and then to walk for some seconds.  Beside who does: when it
stood, and the most power of one joint in m g sqrt(g l).  From where its plan is refused a robot is not tried; the
reason is printed.  Bar: nine of ten of those that are tried, in either plant.
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
TURNED = {"back": np.pi - 0.1, "left": -0.5 * np.pi, "right": 0.5 * np.pi}
#: Period, when it is told to stand up, how long that may take, how long it stands, and how long it walks [s].
DT, CALL, MOST, PAUSE, WALK = 2e-3, 1.0, 20.0, 0.5, 3.0
#: Share of the trials that succeed.
BAR = 0.9


@dataclass(frozen=True)
class Trial:
    """When a robot stood [s], whether it then walked at least half as far as it was told, the most power."""

    stood: float | None
    walked: bool
    power: float


def trial(robot: qd.Robot, plan: RightingPlan, plant_name: str, side: str, seed: int) -> Trial:
    """One fall from a random attitude about that side."""
    rng = np.random.default_rng(seed)
    plant, controller = PLANTS[plant_name](robot, dt=DT), LocomotionController(robot, dt=DT, righting_plan=plan)
    dynamics, p = qd.Dynamics(robot), controller.morphology
    q, turn = np.array(robot.q_home), TURNED[side] + rng.uniform(-0.2, 0.2)
    q[3:7] = pin.Quaternion(pin.exp3(np.array([turn, 0.0, 0.0])) @ p.heading.T).coeffs()
    q[2] += 0.1 * p.length
    plant.reset(q)
    wanted, power, called = 0.2 * p.speed_scale, 0.0, False
    stood: float | None = None
    begin, end = np.zeros(2), np.zeros(2)
    for k in range(round((MOST + WALK) / DT)):
        time = k * DT
        if time > CALL and controller.mode is LocomotionMode.FALLEN:
            if called:  # it has given up, or fell again
                break
            controller.stand_up()
            called = True
        walking = stood is not None and time > stood + PAUSE
        command = controller.compute(dynamics.update(plant.q, plant.v), (wanted if walking else 0.0, 0.0, 0.0))
        if time > CALL:
            power = max(power, float(np.abs(command.tau * plant.v[robot.actuated_index]).max()))
        if stood is None and called and command.mode is LocomotionMode.STANDING:
            stood = time
        if not walking:
            begin = plant.q[:2].copy()
        end = plant.q[:2].copy()
        if time > (MOST if stood is None else stood + PAUSE + WALK):
            break
        plant.step(command.tau)
    far = float(np.hypot(*(end - begin)))
    went = stood is not None and controller.mode is LocomotionMode.MOVING and far > 0.5 * wanted * WALK
    return Trial(stood, went, power / (p.mass * p.gravity * p.speed_scale))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robots", nargs="+", default=ROBOTS)
    parser.add_argument("--plants", nargs="+", default=tuple(PLANTS), choices=tuple(PLANTS))
    parser.add_argument("--seeds", type=int, default=3, help="of each robot, plant and side (default %(default)s)")
    parser.add_argument("--check", action="store_true", help="exit code 1 if the requirement is not met")
    options = parser.parse_args()
    print(f"{cpu()}; powers in m g sqrt(g l)")
    good = dict.fromkeys(options.plants, 0)
    tried = dict.fromkeys(options.plants, 0)
    for name in options.robots:
        robot = qd.load(name)
        plan = plan_righting(robot)
        for side, reason in plan.infeasible.items():
            print(f"{name:10s} {side:5s} refused: {reason}")
        for plant in options.plants:
            for side in TURNED:
                if side in plan.infeasible:
                    continue
                runs = [trial(robot, plan, plant, side, seed) for seed in range(options.seeds)]
                well = [run for run in runs if run.walked]
                good[plant], tried[plant] = good[plant] + len(well), tried[plant] + len(runs)
                latest = max((run.stood or 0.0 for run in well), default=float("nan"))
                title = f"{name:10s} {side:5s} {plant:8s} {len(well)} of {len(runs)} walk on"
                most = max(run.power for run in runs)
                print(f"{title}; stood after {latest:.1f} s at the latest, power {most:.2f}", flush=True)
    for plant in options.plants:
        print(f"{plant}: {good[plant]} of {tried[plant]} walk on")
    missed = [plant for plant in options.plants if good[plant] < BAR * tried[plant]]
    print(f"missed: {', '.join(missed)}" if missed else "bar met")
    return 1 if options.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
