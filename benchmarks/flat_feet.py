"""Tests whole-body control of humanoids on flat feet: standing, shifting weight and squatting, in both plants.

    python benchmarks/flat_feet.py                       # g1, talos, alexander
    python benchmarks/flat_feet.py --robots g1 --check
    python benchmarks/flat_feet.py --robots path/to/robot.urdf

The soles are those of the collision shapes of the files (`Contact.from_sole`), the controller is the default one with
these soles as contacts, and the robots in the plants stand on the corners of the soles.  Each robot stands for half a
second, moves the center of mass to the left by a quarter of the distance of the feet, then down by 8 % of its height,
and back to the start.  The number of unsolved ticks, the error of the center of mass at the end of each motion, the
distance of the centers of pressure from the edges of the soles, and the difference of measured and commanded centers of
pressure are printed.

Requirements: no unsolved tick, errors below 5 mm, centers of pressure inside the soles, differences below 10 mm.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np

import quaddyn as qd
from quaddyn.contact import Contact, ContactSet, flat_foot_stance
from quaddyn.robot.catalogue import example_robot_folder

#: URDF files by name, in example-robot-data.
ROBOTS = {
    "g1": "g1_description/urdf/g1_29dof_rev_1_0.urdf",
    "talos": "talos_data/robots/talos_reduced.urdf",
    "alexander": "alexander_description/urdf/alexander_v1.lowerBodyOnly.urdf",
}
#: Durations of a motion and of the rest after it [ticks of 1 ms].
MOVING, RESTING = 700, 300


def run_trial(robot: qd.Robot, plant_class: type[qd.Simulation | qd.MujocoPlant]) -> tuple[int, float, float, float]:
    """Runs a trial.

    Returns:
        Number of unsolved ticks; largest error of the center of mass, smallest distance of a center of pressure from
        the edge of its sole, and largest difference of measured and commanded centers of pressure [m].
    """
    soles = [Contact.from_sole(robot, foot) for foot in robot.feet]
    plant, contacts = plant_class(robot, soles=soles), ContactSet(robot, soles)
    plant.reset(flat_foot_stance(robot, soles))
    dyn, wbc = qd.Dynamics(robot), qd.WholeBodyController(robot, contacts=soles)
    s = dyn.update(plant.q, plant.v)
    start_com, positions = np.array(s.com), contacts.positions(s)
    left = 0.25 * (positions[soles[0].name] - positions[soles[1].name])
    displacements = [np.zeros(3), np.array([*left[:2], 0.0]), np.array([0.0, 0.0, -0.08 * start_com[2]]), np.zeros(3)]
    unsolved, com_error, edge_distance, cop_difference, previous = 0, 0.0, np.inf, 0.0, np.zeros(3)
    for displacement in displacements:
        for tick in range(MOVING + RESTING if previous.any() or displacement.any() else 500):
            t, change = min(tick / MOVING, 1.0), displacement - previous
            rate = (6.0 - 12.0 * t) / (1e-3 * MOVING) ** 2 if t < 1.0 else 0.0
            wbc.tasks.com.reference(
                start_com + previous + (3.0 - 2.0 * t) * t**2 * change,
                velocity=6.0 * (t - t**2) / (1e-3 * MOVING) * change,
                acceleration=rate * change,
            )
            command = wbc.compute(dyn.update(plant.q, plant.v))
            unsolved += not (command.ok and plant.ok)
            plant.step(command.tau)
        s = dyn.update(plant.q, plant.v)
        com_error, previous = max(com_error, float(np.abs(s.com - start_com - displacement).max())), displacement
        for sole in soles:
            points = [(p.point, p.force[2]) for p in plant.contacts if p.sphere == sole.name]
            measured_cop = sum(force * x for x, force in points) / sum(force for _, force in points)
            axes, center = sole.axes_at(s.placement(sole.frame).rotation), contacts.positions(s)[sole.name]
            for cop in (measured_cop, command.centers_of_pressure[sole.name]):
                edge_distance = min(edge_distance, float((sole.half_size - np.abs(axes @ (cop - center))[:2]).min()))
            cop_difference = max(
                cop_difference, float(np.linalg.norm(measured_cop - command.centers_of_pressure[sole.name]))
            )
    return unsolved, com_error, edge_distance, cop_difference


def main() -> int:
    """Prints a line for each robot and plant; returns 1 if a requirement of `--check` is not met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robots", nargs="+", default=list(ROBOTS), help="names or paths of URDF files")
    parser.add_argument("--check", action="store_true", help="exit code 1 if a requirement is not met")
    options = parser.parse_args()
    missed = False
    for name in options.robots:
        robot = qd.load(example_robot_folder() / ROBOTS[name] if name in ROBOTS else name)
        half_size = Contact.from_sole(robot, robot.feet[0]).half_size
        print(
            f"{name}: {robot.mass:.1f} kg, {robot.nu} motors, "
            f"soles {2e3 * half_size[0]:.0f} x {2e3 * half_size[1]:.0f} mm"
        )
        for plant_class in (qd.Simulation, qd.MujocoPlant):
            unsolved, com_error, edge_distance, cop_difference = run_trial(robot, plant_class)
            is_missed = unsolved > 0 or com_error > 5e-3 or edge_distance < 0.0 or cop_difference > 1e-2
            missed |= is_missed
            print(
                f"  {plant_class.__name__:12s} {unsolved} ticks unsolved, error of the center of mass "
                f"{1e3 * com_error:.1f} mm, center of pressure {1e3 * edge_distance:.0f} mm from an edge, "
                f"measured and commanded {1e3 * cop_difference:.1f} mm apart{'  MISSED' if is_missed else ''}",
                flush=True,
            )
    return int(missed and options.check)


if __name__ == "__main__":
    sys.exit(main())
