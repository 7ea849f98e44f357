"""Compares touchdowns that are estimated from joint torques with the contact forces of the plants.

Each robot trots on level ground and on strips of different heights, without a terrain map and contact sensors.  A
touchdown is the begin of a contact of at least 0.1 sqrt(l/g) after a swing of the same duration.  It is detected if the
estimated contact begins at most 0.3 sqrt(l/g) later.  An estimated contact in the air is a n_false one.  ``--check``
exits with 1 if a robot falls, detects less than 95 % of the touchdowns, or reports more than 5 % n_false ones.
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
#: Period [s], shortest contact and largest delay [sqrt(l/g)], largest lead of a detection [ticks], least
#: force [m g].
DT, MIN_CONTACT_TIME, MAX_DELAY, MAX_EARLY_TICKS, MIN_FORCE = 2e-3, 0.1, 0.3, 2, 0.02
#: Required fraction of detected touchdowns, and largest fraction of n_false ones.
MIN_DETECTED, MAX_FALSE = 0.95, 0.05


def edges(on: NDArray[np.bool_]) -> list[int]:
    """Returns the indices at which a signal rises."""
    return (np.flatnonzero(on[1:] & ~on[:-1]) + 1).tolist()


def touchdowns(on: NDArray[np.bool_], shortest: int) -> list[int]:
    """Returns the indices at which contacts begin, after removing gaps and contacts shorter than `shortest` ticks."""
    on = on.copy()
    for value in (False, True):
        ends = [*(np.flatnonzero(on[1:] != on[:-1]) + 1).tolist()]
        for begin, end in itertools.pairwise(ends):
            if on[begin] == value and end - begin < shortest:
                on[begin:end] = not value
    return edges(on)


def run_trot(name: str, kind: str, strips: float, seconds: float) -> tuple[str, bool]:
    """Simulates one run; returns its figures as text, and whether it meets the requirements."""
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
    true_contacts, estimated_contacts = [], []
    for k in range(round(seconds / DT)):
        in_contact = (
            [plant.contact_forces[foot][2] > MIN_FORCE * p.mass * p.gravity for foot in robot.feet] if k else [True] * 4
        )
        command = made.controller.compute(dynamics.update(np.array(plant.q), np.array(plant.v)), case.velocity)
        if command.mode is LocomotionMode.FALLEN:
            return f"fell at {k * DT:.1f} s", False
        if command.detected_contacts is not None:
            true_contacts.append(in_contact)
            estimated_contacts.append([foot in command.detected_contacts for foot in robot.feet])
        plant.step(command.tau)
    n_touchdowns, n_detected, n_false, delays = 0, 0, 0, []
    late, short = round(MAX_DELAY * p.time_scale / DT), max(2, round(MIN_CONTACT_TIME * p.time_scale / DT))
    for foot in range(4):
        real, estimated_begins = np.array(true_contacts)[:, foot], edges(np.array(estimated_contacts)[:, foot])
        begins = touchdowns(real, short)
        n_touchdowns += len(begins)
        for at in begins:
            matching = [k for k in estimated_begins if at - MAX_EARLY_TICKS <= k <= at + late]
            if matching:
                n_detected += 1
                delays.append(1e3 * DT * (matching[0] - at))
                estimated_begins = [k for k in estimated_begins if k not in matching]
        n_false += sum(not real[max(0, k - MAX_EARLY_TICKS) : k + MAX_EARLY_TICKS].any() for k in estimated_begins)
    median, most = (float(np.median(delays)), max(delays)) if delays else (np.nan, np.nan)
    good = n_detected >= MIN_DETECTED * n_touchdowns and n_false <= MAX_FALSE * n_touchdowns
    return f"detected {n_detected}/{n_touchdowns}, false {n_false}, delay {median:.0f} ms, at most {most:.0f} ms", good


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
                estimated_begins, good = run_trot(name, kind, strips, options.seconds)
                missed += not good
                print(f"{name:9s} {kind:8s} strips {strips:.2f} l: {estimated_begins}", flush=True)
    return 1 if missed and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
