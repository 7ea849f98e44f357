"""Measures velocity errors of trotting quadrupeds with an unknown payload, with and without payload estimation.

The robot has a payload on its trunk from the beginning, and the controller the model without payload.  The mean
velocity along the command is measured over whole gait cycles from `--after` seconds on.  ``--check`` exits with 1 if a
robot with payload estimation falls or has a velocity error above 5 %.
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


def run_trot(
    name: str, plant_name: str, mass_ratio: float, offset: tuple[float, float], after: float, payload: str | None
) -> str:
    """Simulates one run; returns the relative velocity error, and the estimated payload, as text."""
    robot = qd.load(name)
    controller = LocomotionController(robot, dt=DT, payload=payload)
    p = controller.morphology
    position = p.heading @ np.array([offset[0] * p.length, offset[1] * p.length, 0.1 * p.length])
    loaded_robot = with_payload(robot, mass_ratio * robot.mass, position, diameter=0.3 * p.length)
    plant: Plant = PLANTS[plant_name](loaded_robot, dt=DT, friction=0.6)
    dynamics, loaded_dynamics = qd.Dynamics(robot), qd.Dynamics(loaded_robot)
    command_velocity = np.array([DEFAULT_COMMAND_SPEED * p.speed_scale, 0.0, 0.0])
    start_position, n_flagged, estimated_mass = np.zeros(3), 0, 0.0
    cycle = controller.gait.period * p.time_scale
    first_tick, last_tick = round(after / DT), round((after + CYCLES * cycle) / DT)
    for k in range(last_tick):
        if k == first_tick:
            start_position = loaded_dynamics.center_of_mass(np.array(plant.q))
        command = controller.compute(dynamics.update(np.array(plant.q), np.array(plant.v)), command_velocity)
        if command.mode is LocomotionMode.FALLEN:
            return f"fell at {k * DT:.1f} s"
        plant.step(command.tau)
        n_flagged += not command.ok
        estimated_mass = command.estimated_payload_mass
    displacement = loaded_dynamics.center_of_mass(np.array(plant.q)) - start_position
    speed = float(np.hypot(displacement[0], displacement[1])) / ((last_tick - first_tick) * DT) / command_velocity[0]
    payload_text = f"  payload {estimated_mass / robot.mass:+.2f} m" if payload else ""
    return f"{100.0 * (speed - 1.0):+5.1f} %{payload_text}"


def main() -> int:
    """Prints the table; returns 1 if `--check` finds a requirement that is not met."""
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
    parser.add_argument("--check", action="store_true", help="exit code 1 if a requirement is not met")
    options = parser.parse_args()
    x, y = (float(each) for each in options.place.split(","))
    n_not_met = 0
    for name in options.robots.split(","):
        for plant_name in options.plants.split(","):
            for mass_ratio in (float(each) for each in options.loads.split(",")):
                results = [
                    run_trot(name, plant_name, mass_ratio, (x, y), options.after, payload)
                    for payload in (None, "estimated")
                ]
                is_violated = (
                    results[1].startswith("fell") or abs(float(results[1].split()[0])) > 100.0 * MAX_VELOCITY_ERROR
                )
                n_not_met += is_violated
                print(
                    f"{name:9s} {plant_name:8s} {mass_ratio:+.2f} m: "
                    f"without estimation {results[0]:>12s}; with estimation {results[1]}",
                    flush=True,
                )
    return 1 if n_not_met and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
