"""Virtual-model control: stance legs produce the wrench of virtual springs on the trunk."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest
from control_scene import constrained_dynamics, unlimited_robot
from raising import raises
from slow_parameters import others_slow

import quaddyn as qd
from quaddyn.control import VirtualModel
from quaddyn.control.operational_space import compute_operational_space
from quaddyn.urdf.tree import Pose

G = 9.81
CASES = (("go2", "free"), ("anymal_c", "free"), ("solo8", "free"), ("small_quadruped", "planar"), ("hyq", "planar"))


@pytest.mark.parametrize(("name", "root"), CASES)
def test_contact_forces_balance_weight_and_spring_wrench(name: str, root: str) -> None:
    robot = unlimited_robot(name, root)
    model = VirtualModel(robot)
    dyn, q, v = qd.Dynamics(robot), np.array(robot.q_home), np.zeros(robot.nv)
    s = dyn.update(q, v)
    place = s.placement(model.frame)
    still = model.compute(s, place)
    assert still.residual < 1e-7 * robot.mass * G
    np.testing.assert_allclose(constrained_dynamics(robot, dyn, q, v, still.tau, robot.feet, {})[0], 0.0, atol=1e-6)
    shift = 0.004 * np.array([1.0, 0.0, 0.5])
    out = model.compute(s, Pose.of(place.rotation, place.translation + shift))
    wrench = np.zeros(6)
    wrench[["x y z rx ry rz".split().index(row) for row in model.rows]] = out.force
    np.testing.assert_allclose(out.force, model.impedance.stiffness @ out.error, atol=1e-9 * robot.mass * G)
    # force and moment of the feet about the trunk's origin equal weight and spring wrench
    total = sum(out.forces.values())
    np.testing.assert_allclose(total, wrench[:3] + np.array([0.0, 0.0, robot.mass * G]), atol=1e-6 * robot.mass * G)
    moment = sum(np.cross(s.placement(foot).translation - place.translation, f) for foot, f in out.forces.items())
    weight = np.cross(s.com - place.translation, [0.0, 0.0, -robot.mass * G])
    index = 3 + np.flatnonzero([row in model.rows for row in ("rx", "ry", "rz")])
    np.testing.assert_allclose((moment + weight)[index - 3], wrench[index], atol=1e-6 * robot.mass * G)


@pytest.mark.parametrize("name", others_slow(["go2", "anymal_c", "solo8"], ["go2"]))
def test_trunk_reaches_its_target_on_the_plant_within_torque_limits(name: str) -> None:
    robot = qd.load(name)
    model, dyn, sim = VirtualModel(robot), qd.Dynamics(robot), qd.Simulation(robot)
    place = dyn.frame_placement(robot.q_home, model.frame)
    leg = place.translation[2]
    lower = Pose.of(place.rotation, place.translation + leg * np.array([0.03, 0.0, -0.1]))
    for _ in range(1200):
        out = model.compute(dyn.update(sim.q, sim.v), lower)
        assert not out.saturated_joints
        sim.step(out.tau)
    got = dyn.frame_placement(sim.q, model.frame)
    assert np.linalg.norm(got.translation - lower.translation) < 0.02 * leg
    assert np.linalg.norm(pin.log3(got.rotation)) < 0.03
    assert out.margin > 0.0
    up = sum(f[2] for f in sim.contact_forces.values())
    assert up == pytest.approx(robot.mass * G, rel=0.02)


def test_three_feet_support_the_trunk_and_two_report_the_unbalanced_wrench() -> None:
    robot = unlimited_robot("go2")
    model = VirtualModel(robot)
    dyn = qd.Dynamics(robot)
    s = dyn.update(robot.q_home, np.zeros(robot.nv))
    place = s.placement(model.frame)
    three = model.compute(s, place, stance=("FL", "FR", "RL"))
    assert three.residual < 1e-6
    assert set(three.forces) == {"FL", "FR", "RL"}
    target = Pose.of(pin.exp3(np.array([0.1, 0.1, 0.0])), place.translation)
    two = model.compute(s, target, stance=("FL", "RR"))
    assert two.residual > 0.1
    assert np.isfinite(two.tau).all()
    none = model.compute(s, target, stance=())
    assert np.isfinite(none.tau).all() and none.residual > 1.0


def test_default_stiffness_follows_from_the_inertia_and_invalid_gains_raise_errors(go2: qd.Robot) -> None:
    s, default = qd.Dynamics(go2).update(go2.q_home, np.zeros(go2.nv)), VirtualModel(go2, bandwidth=3.0)
    motion = default.task.compute_motion(s, s.placement(default.frame))
    inertia = compute_operational_space(s, motion.J, default.task.is_angular, go2.feet).inertia
    np.testing.assert_allclose(default.stiffness, np.diag((6.0 * np.pi) ** 2 * inertia.diagonal()), rtol=1e-12)
    given = VirtualModel(go2, stiffness=np.arange(1.0, 7.0), damping=np.ones(6))
    np.testing.assert_array_equal(given.impedance.stiffness.diagonal(), np.arange(1.0, 7.0))
    for options, word in (
        ({"stiffness": -np.ones(6)}, "stiffness"),
        ({"stiffness": np.ones(5)}, "stiffness"),
        ({"stiffness": 100.0}, "stiffness.*radians"),
        ({"bandwidth": 0.0}, "bandwidth"),
        ({"rows": ("q",)}, "rows"),
    ):
        raises(qd.ArgumentError, word, VirtualModel, go2, **options)
    raises(qd.ArgumentTypeError, "robot", VirtualModel, "go2")
    for name in ("ur5", "two_link_leg"):
        raises(qd.ArgumentError, "robot", VirtualModel, qd.load(name))
    raises(qd.ArgumentError, "Pose", given.compute, s, np.zeros(3))
    with pytest.raises(qd.UnknownNameError):
        given.compute(s, s.placement(given.frame), stance=("LF",))
