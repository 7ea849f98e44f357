"""Joints of the embedded plant stop at their limits."""

from __future__ import annotations

import numpy as np
import pytest
from urdf_text import inertial, joint, link, urdf

import quaddyn as qd
from quaddyn.simulation.simulation import SLOP


def pendulum(lower: float = -0.5, upper: float = 1.0) -> qd.Robot:
    """One link of 1 kg, 1 m long, that rotates about y and hangs at 0."""
    hinge = joint("hinge", "world", "rod", ends=f"{lower} {upper}", effort=100, velocity=100)
    rod = link("rod", inertial(1.0, "0 0 -1", 0.01))
    return qd.load(urdf(link("world"), rod, hinge), root="fixed", q_home=np.zeros(1))


@pytest.mark.parametrize("contact", ["frictional", "rigid", "compliant"])
@pytest.mark.parametrize(("speed", "end"), [(4.0, 1.0), (-4.0, -0.5), (60.0, 1.0), (-60.0, -0.5)])
def test_joint_stop_absorbs_energy(contact: str, speed: float, end: float) -> None:
    """Also at speeds beyond `simulation.MAX_APPROACH_SPEED`."""
    robot = pendulum()
    sim = qd.Simulation(robot, contact=contact)
    sim.reset([0.0], [speed])
    start = sim.energy
    for _ in range(600):
        sim.step([20.0 * np.sign(end)])  # more than the torque of gravity
        assert sim.status != "inaccurate"
        assert np.sign(end) * (sim.q[0] - end) <= 1.1 * SLOP
    assert sim.q[0] == pytest.approx(end, abs=2 * SLOP)
    assert sim.v[0] == pytest.approx(0.0, abs=1e-9)
    assert sim.work.joints < -8.0  # the stop dissipates the initial energy and the work of the motor
    assert sim.work.contacts == 0.0
    assert sim.work.total + sim.work.constraint_corrections + sim.work.integration_error == pytest.approx(
        sim.energy - start, abs=1e-9
    )
    assert sim.contacts == ()


@pytest.mark.parametrize("kind", [qd.Simulation, qd.MujocoPlant])
def test_plant_joints_stay_within_limits_of_file(kind: type[qd.Simulation]) -> None:
    """Go2 with a fixed base, whose legs fall; the limit of its knees is -0.84."""
    robot = qd.load("go2", root="fixed")
    plant = kind(robot)
    beyond = 0.0
    for _ in range(600):
        plant.step(np.zeros(robot.nu))
        beyond = max(beyond, *(robot.lower - plant.q), *(plant.q - robot.upper))
    assert beyond < (1.1 * SLOP if kind is qd.Simulation else 0.02)
    assert (np.minimum(plant.q - robot.lower, robot.upper - plant.q) < 0.01).any()  # and reach their limits


def test_joint_with_equal_limits_is_fixed_and_joint_without_limits_turns() -> None:
    robot = qd.load("two_link_leg", root="fixed", limits={"hip": {"lower": -0.3, "upper": -0.3}})
    robot_free = qd.load("two_link_leg", root="fixed", limits={"hip": {"lower": -np.inf, "upper": np.inf}})
    held, free = qd.Simulation(robot), qd.Simulation(robot_free)
    i = robot.configuration_index("hip")
    q = robot.q_home.copy()
    q[i] = -0.3
    held.reset(q)
    free.reset(q)
    for _ in range(300):
        held.step([5.0, 0.0])
        free.step([5.0, 0.0])
        assert held.ok and abs(held.q[i] + 0.3) < 2.0 * SLOP
    assert abs(free.q[i] + 0.3) > 0.1


def test_joint_leaves_its_stop_freely_and_stops_can_be_disabled() -> None:
    robot = pendulum()
    held, free = qd.Simulation(robot), qd.Simulation(robot, joint_stops=False)
    for sim in (held, free):
        sim.reset([1.0], [0.0])
        for _ in range(50):
            sim.step([0.0])  # it falls away from its stop
    np.testing.assert_allclose(held.q, free.q, atol=1e-9)
    free.reset([0.9], [3.0])
    for _ in range(100):
        free.step([0.0])
    assert free.q[0] > 1.1


def test_joint_starting_beyond_its_limit_is_moved_back_without_velocity() -> None:
    sim = qd.Simulation(pendulum())
    sim.reset([1.05], [0.0])
    for _ in range(1500):
        sim.step([20.0])
        assert abs(sim.v[0]) < 1e-6
    assert 1.0 - SLOP <= sim.q[0] <= 1.0 + 1.1 * SLOP
