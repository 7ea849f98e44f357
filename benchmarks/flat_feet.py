"""Tests whole-body control of humanoids on flat feet: standing, shifting weight and squatting, in both plants.

    python benchmarks/flat_feet.py                       # g1, talos, alexander
    python benchmarks/flat_feet.py --robots g1 --check
    python benchmarks/flat_feet.py --robots path/to/robot.urdf

Soles are those of the files' shapes (`Contact.from_sole`), the controller is the default one with these soles for feet,
the plants' robots stand on the soles' corners.  Each stands for half a second, moves the center of mass a quarter of
the feet's distance to the left, then by 8 % of its height down, and back up.  Printed are ticks not solved, by
how much the center of mass misses at the end of each motion, how far a center of pressure stays from the edge of its
sole, and how far the ground's is from the controller's.

Bar: 0 ticks unsolved, misses below 5 mm, pressure inside, of the ground as of the controller within 10 mm.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np

import quaddyn as qd
from quaddyn.contact import Contact, ContactSet, flat_foot_stance
from quaddyn.robot.catalogue import example_robot_folder

ROBOTS = {
    "g1": "g1_description/urdf/g1_29dof_rev_1_0.urdf",
    "talos": "talos_data/robots/talos_reduced.urdf",
    "alexander": "alexander_description/urdf/alexander_v1.lowerBodyOnly.urdf",
}
#: Lengths of a motion and of the rest behind it [ticks of 1 ms].
MOVING, RESTING = 700, 300


def trial(robot: qd.Robot, kind: type[qd.Simulation | qd.MujocoPlant]) -> tuple[int, float, float, float]:
    """Runs a trial.

    Returns:
        Number of unsolved ticks; largest error of the center of mass, least distance of a center of pressure from the
        edge of its sole, and largest difference of the ground's and the controller's centers of pressure [m].
    """
    soles = [Contact.from_sole(robot, foot) for foot in robot.feet]
    plant, contacts = kind(robot, soles=soles), ContactSet(robot, soles)
    plant.reset(flat_foot_stance(robot, soles))
    dyn, wbc = qd.Dynamics(robot), qd.WholeBodyController(robot, contacts=soles)
    s = dyn.update(plant.q, plant.v)
    start, places = np.array(s.com), contacts.positions(s)
    left = 0.25 * (places[soles[0].name] - places[soles[1].name])
    ways = [np.zeros(3), np.array([*left[:2], 0.0]), np.array([0.0, 0.0, -0.08 * start[2]]), np.zeros(3)]
    unsolved, miss, room, apart, before = 0, 0.0, np.inf, 0.0, np.zeros(3)
    for way in ways:
        for tick in range(MOVING + RESTING if before.any() or way.any() else 500):
            t, step = min(tick / MOVING, 1.0), way - before
            rate = (6.0 - 12.0 * t) / (1e-3 * MOVING) ** 2 if t < 1.0 else 0.0
            wbc.tasks.com.reference(
                start + before + (3.0 - 2.0 * t) * t**2 * step, velocity=6.0 * (t - t**2) / (1e-3 * MOVING) * step,
                acceleration=rate * step,
            )  # fmt: skip
            command = wbc.compute(dyn.update(plant.q, plant.v))
            unsolved += not (command.ok and plant.ok)
            plant.step(command.tau)
        s = dyn.update(plant.q, plant.v)
        miss, before = max(miss, float(np.abs(s.com - start - way).max())), way
        for sole in soles:
            points = [(p.point, p.force[2]) for p in plant.contacts if p.sphere == sole.name]
            felt = sum(f * x for x, f in points) / sum(f for _, f in points)
            axes, center = sole.axes_at(s.placement(sole.frame).rotation), contacts.positions(s)[sole.name]
            for place in (felt, command.centers_of_pressure[sole.name]):
                room = min(room, float((sole.half_size - np.abs(axes @ (place - center))[:2]).min()))
            apart = max(apart, float(np.linalg.norm(felt - command.centers_of_pressure[sole.name])))
    return unsolved, miss, room, apart


def main() -> int:
    """Print a line per robot and plant; 1 if the bar is missed and asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robots", nargs="+", default=list(ROBOTS))
    parser.add_argument("--check", action="store_true", help="exit code 1 if the requirement is not met")
    options = parser.parse_args()
    missed = False
    for name in options.robots:
        robot = qd.load(example_robot_folder() / ROBOTS[name] if name in ROBOTS else name)
        half = Contact.from_sole(robot, robot.feet[0]).half_size
        print(f"{name}: {robot.mass:.1f} kg, {robot.nu} motors, soles {2e3 * half[0]:.0f} x {2e3 * half[1]:.0f} mm")
        for kind in (qd.Simulation, qd.MujocoPlant):
            unsolved, miss, room, apart = trial(robot, kind)
            bad = unsolved > 0 or miss > 5e-3 or room < 0.0 or apart > 1e-2
            missed |= bad
            print(
                f"  {kind.__name__:12s} {unsolved} ticks unsolved, misses by {1e3 * miss:.1f} mm, pressure "
                f"{1e3 * room:.0f} mm from an edge, the ground's {1e3 * apart:.1f} mm off{'  MISSED' if bad else ''}",
                flush=True,
            )
    return int(missed and options.check)


if __name__ == "__main__":
    sys.exit(main())
