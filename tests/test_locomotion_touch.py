"""Feet that feel the ground by the torques of their legs alone."""

from __future__ import annotations

import numpy as np
import pytest

import quaddyn as qd
from quaddyn.locomotion import LocomotionController, Mode
from quaddyn.robot import Robot
from quaddyn.simulation.terrain import Box, Plane

DT = 2e-3


@pytest.fixture(scope="module")
def robot() -> Robot:
    return qd.load("solo12")


def test_touchdowns_are_felt_on_uneven_ground_told_nothing(robot: Robot) -> None:
    controller = LocomotionController(robot, dt=DT, touching="estimated")
    p = controller.proportions
    slabs = [
        Box(np.array([x, 0.0, 0.0]), np.array([0.5, 20.0, 0.06]) * p.length)  # 0.03 l high
        for x in np.arange(0.5, 8.5) * p.length
    ]
    plant, dynamics = qd.Simulation(robot, dt=DT, terrain=[Plane.floor(), *slabs]), qd.Dynamics(robot)
    load = 0.05 * robot.mass * p.gravity
    agreed, wrong, early = [], 0, 0
    for k in range(750):
        touches = {foot for foot in robot.feet if plant.contact_forces[foot][2] > load}
        command = controller.compute(dynamics.update(plant.q, plant.v), (0.25 * p.speed if k > 50 else 0.0, 0.0, 0.0))
        if command.felt is not None and k > 50:
            agreed.append(len(touches ^ set(command.felt)))
            wrong = wrong + 1 if agreed[-1] else 0
            early += sum(foot in command.swings for foot in command.contacts)
            assert wrong < 0.15 * p.time / DT  # never long
        plant.step(command.tau)
    assert command.mode is Mode.MOVING
    assert np.mean(agreed) < 0.2
    assert early > 0  # feet carried before they were due


def test_what_is_told_comes_before_what_is_estimated(robot: Robot) -> None:
    controller = LocomotionController(robot, dt=DT, touching="estimated")
    plant, dynamics = qd.Simulation(robot, dt=DT), qd.Dynamics(robot)
    felt = []
    for _ in range(40):
        felt.append(controller.compute(dynamics.update(plant.q, plant.v)))
        plant.step(felt[-1].tau)
    assert felt[0].felt is None  # not known yet
    assert set(felt[-1].felt or ()) == set(robot.feet)
    told = controller.compute(dynamics.update(plant.q, plant.v), touching=["FL", "FR", "RR"])
    assert set(told.felt or ()) == {"FL", "FR", "RR"}
    with pytest.raises(qd.UnknownNameError, match="touching"):
        LocomotionController(robot, touching="guessed")
