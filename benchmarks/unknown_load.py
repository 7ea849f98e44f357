"""Quadrupeds that carry mass nobody told the controller of: how fast they trot, trusting the file and estimating.

A load on the trunk, from the start, at a commanded trot; the mean velocity along the command counts over whole cycles
of the gait from `--after` seconds on.  ``--check`` exits with 1 where a robot that estimates falls, or misses the
command by more than 5 %.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np

import quaddyn as qd
from quaddyn.campaigns.trial_campaign import DEFAULT_COMMAND_SPEED
from quaddyn.locomotion import LocomotionController, LocomotionMode
from quaddyn.robot import with_payload
from quaddyn.simulation import MujocoPlant, Plant, Simulation

ROBOTS = ("go2", "a1", "solo12", "anymal_c", "b1")
PLANTS = {"embedded": Simulation, "mujoco": MujocoPlant}
DT, BAR, CYCLES = 2e-3, 0.05, 6


def trot(name: str, kind: str, share: float, place: tuple[float, float], after: float, payload: str | None) -> str:
    """One run in words: share of the commanded speed, share of the load that was found."""
    robot = qd.load(name)
    controller = LocomotionController(robot, dt=DT, payload=payload)
    p = controller.morphology
    at = p.heading @ np.array([place[0] * p.length, place[1] * p.length, 0.1 * p.length])
    real = with_payload(robot, share * robot.mass, at, diameter=0.3 * p.length)
    plant: Plant = PLANTS[kind](real, dt=DT, friction=0.6)
    dynamics, truth = qd.Dynamics(robot), qd.Dynamics(real)
    wanted, starts, flagged, found = np.array([DEFAULT_COMMAND_SPEED * p.speed_scale, 0.0, 0.0]), np.zeros(3), 0, 0.0
    cycle = controller.gait.period * p.time_scale
    first, last = round(after / DT), round((after + CYCLES * cycle) / DT)
    for k in range(last):
        if k == first:
            starts = truth.center_of_mass(np.array(plant.q))
        command = controller.compute(dynamics.update(np.array(plant.q), np.array(plant.v)), wanted)
        if command.mode is LocomotionMode.FALLEN:
            return f"fell at {k * DT:.1f} s"
        plant.step(command.tau)
        flagged += not command.ok
        found = command.estimated_payload_mass
    way = truth.center_of_mass(np.array(plant.q)) - starts
    speed = float(np.hypot(way[0], way[1])) / ((last - first) * DT) / wanted[0]
    return f"{100.0 * (speed - 1.0):+5.1f} %" + (f"  found {found / robot.mass:+.2f} m" if payload else "")


def main() -> int:
    """Prints the table; returns 1 if `--check` fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--robots", default=",".join(ROBOTS))
    parser.add_argument("--plants", default="embedded,mujoco")
    parser.add_argument("--loads", default="0.45", help="shares of the robot's mass")
    parser.add_argument("--place", default="0,0", help="of the load ahead and to the left of the base [leg lengths]")
    parser.add_argument("--after", type=float, default=5.0, help="seconds before speed counts")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    x, y = (float(each) for each in options.place.split(","))
    missed = 0
    for name in options.robots.split(","):
        for kind in options.plants.split(","):
            for share in (float(each) for each in options.loads.split(",")):
                said = [trot(name, kind, share, (x, y), options.after, payload) for payload in (None, "estimated")]
                bad = said[1].startswith("fell") or abs(float(said[1].split()[0])) > 100.0 * BAR
                missed += bad
                print(f"{name:9s} {kind:8s} {share:+.2f} m: file {said[0]:>12s}; estimated {said[1]}", flush=True)
    return 1 if missed and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
