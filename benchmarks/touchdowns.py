"""Quadrupeds feel the ground without sensors: touchdowns from the torques against the plants' contact forces.

Each robot trots on level ground and on strips of uneven height,
which it knows nothing of.  A touchdown is a contact of at least a tenth of sqrt(l/g) after as long a time in the air;
it is found if it is felt at most 0.3 sqrt(l/g) later.  What is felt in the air is false.  ``--check`` exits with 1
where a robot falls, finds less than 95 %, or feels more than 5 % false ones.
"""

from __future__ import annotations

import argparse
import itertools
import sys

import numpy as np
from numpy.typing import NDArray

import quaddyn as qd
from quaddyn.campaigns.trial import Trial
from quaddyn.campaigns.trial_campaign import DEFAULT_COMMAND_SPEED
from quaddyn.campaigns.trial_setup import make_trial_setup
from quaddyn.locomotion import LocomotionMode, Morphology

ROBOTS = ("go2", "a1", "solo12", "anymal_c", "b1")
DT, LONG, SOON, EARLY, LOAD = 2e-3, 0.1, 0.3, 2, 0.02
FOUND, FALSE = 0.95, 0.05


def edges(on: NDArray[np.bool_]) -> list[int]:
    """Where a signal rises."""
    return (np.flatnonzero(on[1:] & ~on[:-1]) + 1).tolist()


def touchdowns(on: NDArray[np.bool_], shortest: int) -> list[int]:
    """Where contacts begin, without gaps and then without contacts shorter than so many ticks."""
    on = on.copy()
    for value in (False, True):
        ends = [*(np.flatnonzero(on[1:] != on[:-1]) + 1).tolist()]
        for begin, end in itertools.pairwise(ends):
            if on[begin] == value and end - begin < shortest:
                on[begin:end] = not value
    return edges(on)


def feel(name: str, kind: str, strips: float, seconds: float) -> tuple[str, bool]:
    """One run in words, and whether it meets the bar."""
    robot = qd.load(name)
    p = Morphology.from_robot(robot)
    speed = DEFAULT_COMMAND_SPEED * p.speed_scale
    case = Trial(
        robot=name,
        plant=kind,
        strips=strips * p.length,
        velocity=(speed, 0.0, 0.0),
        options=(("controller.contact_detection", "estimated"),),
    )
    made = make_trial_setup(case, robot, np.random.default_rng(0))
    dynamics, plant = qd.Dynamics(robot), made.plant
    true, felt = [], []
    for k in range(round(seconds / DT)):
        touches = (
            [plant.contact_forces[foot][2] > LOAD * p.mass * p.gravity for foot in robot.feet] if k else [True] * 4
        )
        command = made.controller.compute(dynamics.update(np.array(plant.q), np.array(plant.v)), case.velocity)
        if command.mode is LocomotionMode.FALLEN:
            return f"fell at {k * DT:.1f} s", False
        if command.detected_contacts is not None:
            true.append(touches)
            felt.append([foot in command.detected_contacts for foot in robot.feet])
        plant.step(command.tau)
    wanted, found, false, delays = 0, 0, 0, []
    late, short = round(SOON * p.time_scale / DT), max(2, round(LONG * p.time_scale / DT))
    for foot in range(4):
        real, said = np.array(true)[:, foot], edges(np.array(felt)[:, foot])
        begins = touchdowns(real, short)
        wanted += len(begins)
        for at in begins:
            near = [k for k in said if at - EARLY <= k <= at + late]
            if near:
                found += 1
                delays.append(1e3 * DT * (near[0] - at))
                said = [k for k in said if k not in near]
        false += sum(not real[max(0, k - EARLY) : k + EARLY].any() for k in said)
    median, most = (float(np.median(delays)), max(delays)) if delays else (np.nan, np.nan)
    good = found >= FOUND * wanted and false <= FALSE * wanted
    return f"found {found}/{wanted}, false {false}, delay {median:.0f} ms, at most {most:.0f} ms", good


def main() -> int:
    """Prints the table; returns 1 if `--check` fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--robots", default=",".join(ROBOTS))
    parser.add_argument("--plants", default="embedded,mujoco")
    parser.add_argument("--strips", default="0,0.04", help="largest difference of height of neighbours [leg lengths]")
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    missed = 0
    for name in options.robots.split(","):
        for kind in options.plants.split(","):
            for strips in (float(each) for each in options.strips.split(",")):
                said, good = feel(name, kind, strips, options.seconds)
                missed += not good
                print(f"{name:9s} {kind:8s} strips {strips:.2f} l: {said}", flush=True)
    return 1 if missed and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
