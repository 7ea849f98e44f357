"""Contact detection from the torques of the legs alone."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
import pytest
from foot_estimates import ContactRecords
from raising import raises

import quaddyn as qd
from quaddyn.locomotion import LocomotionController, LocomotionMode, Morphology
from quaddyn.locomotion.contact_estimation import has_model_mismatch, reset_contact_estimate
from quaddyn.locomotion.footwork import allocate_footwork, is_at_rest, is_blocked
from quaddyn.locomotion.morphology import make_body_parameters
from quaddyn.locomotion.motion import allocate_motion
from quaddyn.locomotion.swing import SwingTrajectory, start_swing
from quaddyn.robot import Robot
from quaddyn.simulation.terrain import Box, Plane

DT = 2e-3


def test_touchdowns_are_detected_on_unknown_uneven_ground(solo12: Robot) -> None:
    controller = LocomotionController(solo12, dt=DT, contact_detection="estimated")
    p = controller.morphology
    slabs = [
        Box(np.array([x, 0.0, 0.0]), np.array([0.5, 20.0, 0.06]) * p.length)  # 0.03 l high
        for x in np.arange(0.5, 8.5) * p.length
    ]
    plant, dynamics = qd.Simulation(solo12, dt=DT, terrain=[Plane.floor(), *slabs]), qd.Dynamics(solo12)
    load = 0.05 * solo12.mass * p.gravity
    agreed, wrong, early = [], 0, 0
    for k in range(750):
        touches = {foot for foot in solo12.feet if plant.contact_forces[foot][2] > load}
        command = controller.compute(
            dynamics.update(plant.q, plant.v), (0.25 * p.speed_scale if k > 50 else 0.0, 0.0, 0.0)
        )
        if command.detected_contacts is not None and k > 50:
            agreed.append(len(touches ^ set(command.detected_contacts)))
            wrong = wrong + 1 if agreed[-1] else 0
            early += sum(foot in command.swings for foot in command.contacts)
            assert wrong < 0.15 * p.time_scale / DT  # only briefly
        plant.step(command.tau)
    assert command.mode is LocomotionMode.MOVING
    assert np.mean(agreed) < 0.2
    assert early > 0  # feet carried load before their scheduled touchdown


def test_measured_contacts_override_estimated_contacts(solo12: Robot) -> None:
    controller = LocomotionController(solo12, dt=DT, contact_detection="estimated")
    plant, dynamics = qd.Simulation(solo12, dt=DT), qd.Dynamics(solo12)
    felt = []
    for _ in range(40):
        felt.append(controller.compute(dynamics.update(plant.q, plant.v)))
        plant.step(felt[-1].tau)
    assert felt[0].detected_contacts is None  # not known yet
    assert set(felt[-1].detected_contacts or ()) == set(solo12.feet)
    told = controller.compute(dynamics.update(plant.q, plant.v), measured_contacts=["FL", "FR", "RR"])
    assert set(told.detected_contacts or ()) == {"FL", "FR", "RR"}
    raises(qd.UnknownNameError, "contact_detection", LocomotionController, solo12, contact_detection="guessed")


def test_late_foot_with_a_faint_force_is_a_touchdown(solo12: Robot) -> None:
    """A swing path below the ground together with a faint force is a touchdown; neither alone is."""
    p = Morphology.from_robot(solo12)
    feet = np.array([[0.3, 0.2, 0.1], [0.3, -0.2, 0.1], [-0.3, 0.2, 0.1], [-0.3, -0.2, 0.1]])
    up, footwork, body = np.tile([0.0, 0.0, 1.0], (4, 1)), allocate_footwork(), make_body_parameters(p)
    for i, end in ((0, 1.1), (1, 0.9)):  # a late foot, and one that is due
        start_swing(footwork.swings, i, feet[i], np.zeros(3), up[i], 0.2, 0.05, 0.1)
        swing = SwingTrajectory.from_row(footwork.swings, i)
        while swing.progress < end:
            swing.advance(0.01, tuple(swing.start), 0.2)
    assert not any(is_blocked(footwork, body, feet, up, i) for i in range(4))  # hardly below the ground yet
    feet[:, 2] += 0.03 * p.length
    # The other one is above its path, and not late.
    assert [is_blocked(footwork, body, feet, up, i) for i in range(4)] == [True, False, False, False]
    # A foot at rest far above its path is stuck, one that moves down is not.
    motion = allocate_motion()
    for height, rate, found in ((0.03, 0.0, False), (0.1, 0.0, True), (0.1, 0.5, False)):
        motion.feet[:] = footwork.swings.position[0] + [0.0, 0.0, height * p.length]
        motion.foot_velocities[0, 2] = rate * footwork.swings.velocity[0, 2]
        assert is_at_rest(footwork, body, motion, up, 0) is found and not is_at_rest(footwork, body, motion, up, 1)

    felt, dynamics = ContactRecords(solo12, DT), qd.Dynamics(solo12)
    plant, standing = qd.Simulation(solo12, dt=DT), qd.WholeBodyController(solo12, dt=DT)
    for _ in range(60):
        s = dynamics.update(plant.q, plant.v)
        command = standing.compute(s)
        plant.step(command.tau)
        felt.update(s, command.tau, up)
    faint = 0.07 * solo12.mass * p.gravity / 4.0
    # From now on a foot presses faintly: its leg torques change by those of such a force.
    missing = command.forces["FL"] - [0.0, 0.0, faint]
    for _ in range(60):
        tau = command.tau + (s.jacobian("FL")[:3].T @ missing)[solo12.actuated_index]
        alone = felt.update(s, tau, up)
    assert 0.8 * faint < felt.estimate.forces[0, 2] < 1.3 * faint and "FL" not in (alone or ())
    assert "FL" in (felt.update(s, tau, up, ("FL",)) or ())


def test_force_at_one_swing_foot_is_an_obstacle_and_at_two_a_bounded_model_error(solo12: Robot) -> None:
    p, up = Morphology.from_robot(solo12), np.tile([0.0, 0.0, 1.0], (4, 1))
    felt, s = ContactRecords(solo12, DT), qd.Dynamics(solo12).update(solo12.q_home, np.zeros(solo12.nv))
    on = 0.2 * solo12.mass * p.gravity / 4.0
    standing = qd.WholeBodyController(solo12, dt=DT).compute(s)  # forces of a quarter of the weight at each foot
    for _ in range(60):
        felt.update(s, standing.tau, up, (), ("FL",))
    assert felt.estimate.error < 0.2 * on and not has_model_mismatch(felt.estimate)
    for _ in range(60):
        felt.update(s, standing.tau, up, (), ("FL", "RR"))
    assert felt.estimate.error == pytest.approx(0.4 / 0.2 * on) and has_model_mismatch(felt.estimate)
    for _ in range(60):  # the next swing of a foot replaces the one before
        felt.update(s, standing.tau, up)
        felt.update(s, np.zeros(solo12.nu), up, (), ("RR",))
    reset_contact_estimate(felt.estimate)
    assert felt.estimate.error == 0.0


def test_robot_with_a_mimic_joint_walks_with_estimated_contacts() -> None:
    """Pinocchio then computes momenta, Jacobians and foot velocities, since joints are coupled."""
    document = ElementTree.fromstring(qd.load("go2").source)
    for name, side in (("finger_a", 0.05), ("finger_b", -0.05)):
        link = ElementTree.SubElement(document, "link", name=name)
        inertial = ElementTree.SubElement(link, "inertial")
        ElementTree.SubElement(inertial, "mass", value="0.2")
        ElementTree.SubElement(inertial, "inertia", ixx="1e-3", iyy="1e-3", izz="1e-3", ixy="0", ixz="0", iyz="0")
        joint = ElementTree.SubElement(document, "joint", name=f"{name}_joint", type="revolute")
        ElementTree.SubElement(joint, "parent", link="base")
        ElementTree.SubElement(joint, "child", link=name)
        ElementTree.SubElement(joint, "origin", xyz=f"0.1 {side} 0.1")
        ElementTree.SubElement(joint, "axis", xyz="1 0 0")
        ElementTree.SubElement(joint, "limit", lower="-1", upper="1", effort="10", velocity="5")
    ElementTree.SubElement(joint, "mimic", joint="finger_a_joint", multiplier="-1")
    robot = qd.load(ElementTree.tostring(document, encoding="unicode"))
    assert robot.coupling is not None
    controller, plant = qd.LocomotionController(robot, dt=DT), qd.Simulation(robot, dt=DT)
    dynamics = qd.Dynamics(robot)
    plant.reset()
    lifted = set[str]()
    for _ in range(600):
        command = controller.compute(dynamics.update(plant.q, plant.v), (0.3, 0.0, 0.0))
        plant.step(command.tau)
        if command.detected_contacts is not None:
            lifted |= set(robot.feet) - set(command.detected_contacts)
    assert command.mode is LocomotionMode.MOVING and plant.q[0] > 0.1
    assert lifted == set(robot.feet) and command.slipping_feet == () and not command.model_mismatch
