"""Measures velocity errors of trotting quadrupeds with an unknown payload, with and without payload estimation.

The robot carries a load on its trunk from the start; the controller has the model without it.  The mean velocity along
the command is measured over whole gait cycles from `--after` seconds on.  ``--check`` exits with 1 if a robot with
payload estimation falls or has a velocity error above 5 %.
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
#: Period [s], largest relative error of the velocity, and number of gait cycles of its measurement.
DT, MAX_VELOCITY_ERROR, CYCLES = 2e-3, 0.05, 6


def trot(
    name: str, kind: str, mass_ratio: float, offset: tuple[float, float], after: float, payload: str | None
) -> str:
    """Simulates one run; returns the relative velocity error, and the estimated payload, as text."""
    robot = qd.load(name)
    controller = LocomotionController(robot, dt=DT, payload=payload)
    p = controller.morphology
    at = p.heading @ np.array([offset[0] * p.length, offset[1] * p.length, 0.1 * p.length])
    real = with_payload(robot, mass_ratio * robot.mass, at, diameter=0.3 * p.length)
    plant: Plant = PLANTS[kind](real, dt=DT, friction=0.6)
    dynamics, truth = qd.Dynamics(robot), qd.Dynamics(real)
    command_velocity = np.array([DEFAULT_COMMAND_SPEED * p.speed_scale, 0.0, 0.0])
    starts, flagged, estimated_mass = np.zeros(3), 0, 0.0
    cycle = controller.gait.period * p.time_scale
    first, last = round(after / DT), round((after + CYCLES * cycle) / DT)
    for k in range(last):
        if k == first:
            starts = truth.center_of_mass(np.array(plant.q))
        command = controller.compute(dynamics.update(np.array(plant.q), np.array(plant.v)), command_velocity)
        if command.mode is LocomotionMode.FALLEN:
            return f"fell at {k * DT:.1f} s"
        plant.step(command.tau)
        flagged += not command.ok
        estimated_mass = command.estimated_payload_mass
    displacement = truth.center_of_mass(np.array(plant.q)) - starts
    speed = float(np.hypot(displacement[0], displacement[1])) / ((last - first) * DT) / command_velocity[0]
    payload_text = f"  payload {estimated_mass / robot.mass:+.2f} m" if payload else ""
    return f"{100.0 * (speed - 1.0):+5.1f} %{payload_text}"


def main() -> int:
    """Prints the table; returns 1 if `--check` fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--robots", default=",".join(ROBOTS))
    parser.add_argument("--plants", default="embedded,mujoco")
    parser.add_argument("--loads", default="0.45", help="payload masses divided by the robot's mass")
    parser.add_argument(
        "--place", default="0,0", help="position of the payload, forward and left of the base [leg lengths]"
    )
    parser.add_argument(
        "--after", type=float, default=5.0, help="time at which the measurement of the speed begins [s]"
    )
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    x, y = (float(each) for each in options.place.split(","))
    missed = 0
    for name in options.robots.split(","):
        for kind in options.plants.split(","):
            for share in (float(each) for each in options.loads.split(",")):
                results = [trot(name, kind, share, (x, y), options.after, payload) for payload in (None, "estimated")]
                bad = results[1].startswith("fell") or abs(float(results[1].split()[0])) > 100.0 * MAX_VELOCITY_ERROR
                missed += bad
                print(f"{name:9s} {kind:8s} {share:+.2f} m: file {results[0]:>12s}; estimated {results[1]}", flush=True)
    return 1 if missed and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
