"""Compares touchdowns that are estimated from joint torques with the contact forces of the plants.

Each robot trots on level ground and on strips of different heights, without a terrain map and contact sensors.  A
touchdown is the beginning of a contact of at least 0.1 sqrt(l/g) after a swing of at least the same duration.  It is
detected if the estimated contact begins at most 0.3 sqrt(l/g) later.  A detection is false if the foot is not in
contact in the plant.  ``--check`` exits with 1 if a robot falls, if less than 95 % of its touchdowns are detected, or
if the number of false detections exceeds 5 % of the touchdowns.
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
from quaddyn.campaigns.trial_runner import make_trial_setup
from quaddyn.locomotion import LocomotionMode, Morphology

ROBOTS = ("go2", "a1", "solo12", "anymal_c", "b1")
#: Period [s], shortest contact and largest delay [sqrt(l/g)], largest lead of a detection [ticks], smallest contact
#: force [m g].
DT, MIN_CONTACT_TIME, MAX_DELAY, MAX_EARLY_TICKS, MIN_FORCE = 2e-3, 0.1, 0.3, 2, 0.02
#: Required fraction of detected touchdowns, and largest number of false detections divided by that of touchdowns.
MIN_DETECTED, MAX_FALSE = 0.95, 0.05


def rising_edges(signal: NDArray[np.bool_]) -> list[int]:
    """Returns the indices at which a signal rises."""
    return (np.flatnonzero(signal[1:] & ~signal[:-1]) + 1).tolist()


def touchdown_ticks(signal: NDArray[np.bool_], min_ticks: int) -> list[int]:
    """Returns the ticks at which contacts begin, without gaps and contacts shorter than `min_ticks`."""
    signal = signal.copy()
    for value in (False, True):
        changes = [*(np.flatnonzero(signal[1:] != signal[:-1]) + 1).tolist()]
        for begin, end in itertools.pairwise(changes):
            if signal[begin] == value and end - begin < min_ticks:
                signal[begin:end] = not value
    return rising_edges(signal)


def run_trot(name: str, plant_name: str, strips: float, seconds: float) -> tuple[str, bool]:
    """Simulates one run; returns its figures as text, and whether it meets the requirements."""
    robot = qd.load(name)
    p = Morphology.from_robot(robot)
    speed = DEFAULT_COMMAND_SPEED * p.speed_scale
    case = Trial(
        robot=name,
        plant=plant_name,
        strips=strips * p.length,
        velocity=(speed, 0.0, 0.0),
        options=(("controller.contact_detection", "estimated"),),
    )
    setup = make_trial_setup(case, robot, np.random.default_rng(0))
    dynamics, plant = qd.Dynamics(robot), setup.plant
    true_contacts, estimated_contacts = [], []
    for k in range(round(seconds / DT)):
        in_contact = (
            [plant.contact_forces[foot][2] > MIN_FORCE * p.mass * p.gravity for foot in robot.feet] if k else [True] * 4
        )
        command = setup.controller.compute(dynamics.update(np.array(plant.q), np.array(plant.v)), case.velocity)
        if command.mode is LocomotionMode.FALLEN:
            return f"fell at {k * DT:.1f} s", False
        if command.detected_contacts is not None:
            true_contacts.append(in_contact)
            estimated_contacts.append([foot in command.detected_contacts for foot in robot.feet])
        plant.step(command.tau)
    n_touchdowns, n_detected, n_false, delays = 0, 0, 0, []
    max_delay_ticks, min_contact_ticks = (
        round(MAX_DELAY * p.time_scale / DT),
        max(2, round(MIN_CONTACT_TIME * p.time_scale / DT)),
    )
    for foot in range(4):
        in_contact_ticks, estimated_begins = (
            np.array(true_contacts)[:, foot],
            rising_edges(np.array(estimated_contacts)[:, foot]),
        )
        begins = touchdown_ticks(in_contact_ticks, min_contact_ticks)
        n_touchdowns += len(begins)
        for touchdown in begins:
            matching = [k for k in estimated_begins if touchdown - MAX_EARLY_TICKS <= k <= touchdown + max_delay_ticks]
            if matching:
                n_detected += 1
                delays.append(1e3 * DT * (matching[0] - touchdown))
                estimated_begins = [k for k in estimated_begins if k not in matching]
        n_false += sum(
            not in_contact_ticks[max(0, k - MAX_EARLY_TICKS) : k + MAX_EARLY_TICKS].any() for k in estimated_begins
        )
    median, max_delay = (float(np.median(delays)), max(delays)) if delays else (np.nan, np.nan)
    is_met = n_detected >= MIN_DETECTED * n_touchdowns and n_false <= MAX_FALSE * n_touchdowns
    return (
        f"detected {n_detected}/{n_touchdowns}, false {n_false}, delay {median:.0f} ms, at most {max_delay:.0f} ms",
        is_met,
    )


def main() -> int:
    """Prints the table; returns 1 if `--check` finds a requirement that is not met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--robots", default=",".join(ROBOTS))
    parser.add_argument("--plants", default="embedded,mujoco")
    parser.add_argument(
        "--strips", default="0,0.04", help="largest height difference of neighboring strips [leg lengths]"
    )
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--check", action="store_true", help="exit code 1 if a requirement is not met")
    options = parser.parse_args()
    n_not_met = 0
    for name in options.robots.split(","):
        for plant_name in options.plants.split(","):
            for strips in (float(each) for each in options.strips.split(",")):
                results, is_met = run_trot(name, plant_name, strips, options.seconds)
                n_not_met += not is_met
                print(f"{name:9s} {plant_name:8s} strips {strips:.2f} l: {results}", flush=True)
    return 1 if n_not_met and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
