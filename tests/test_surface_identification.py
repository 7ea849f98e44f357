"""Results of identification: a robot, a URDF, one screen of text."""

from __future__ import annotations

import dataclasses
import pickle
from pathlib import Path

import numpy as np
import pytest

import quaddyn as qd
from quaddyn.identification import Identification, Samples, base_parameters, identify


def make_samples(robot: qd.Robot, count: int = 200) -> Samples:
    """Samples of a robot with friction and rotors, as a stand gives them."""
    rng, dyn = np.random.default_rng(0), qd.Dynamics(robot)
    q = np.array([robot.random_configuration(rng) for _ in range(count)])
    v, a = rng.normal(size=(2, count, robot.nv))
    tau = np.array([dyn.rnea(*x) + dyn.joint_friction(x[1]) for x in zip(q, v, a, strict=True)])
    return Samples(q, v, a, tau)


@pytest.fixture(scope="module")
def true_robot() -> qd.Robot:
    """The planar arm, heavier, with friction and rotors that its file does not have."""
    file = qd.load("planar_3r").source
    text = (file if isinstance(file, str) else file.decode()).replace('<mass value="', '<mass value="1')
    return qd.load(text, damping=0.3, friction=0.2, armature=0.01)


@pytest.fixture(scope="module")
def found(true_robot: qd.Robot) -> Identification:
    return identify(qd.load("planar_3r"), make_samples(true_robot), torque_noise=1e-3)


def test_identified_robot_moves_as_the_true_robot(true_robot: qd.Robot, found: Identification) -> None:
    robot = pickle.loads(pickle.dumps(found.identified_robot()))
    ours, truth = qd.Dynamics(robot), qd.Dynamics(true_robot)
    rng = np.random.default_rng(5)
    for _ in range(10):
        q, v, a = robot.random_configuration(rng), *rng.normal(size=(2, 3))
        wanted = truth.rnea(q, v, a) + truth.joint_friction(v)
        got = ours.rnea(q, v, a) + ours.joint_friction(v)
        np.testing.assert_allclose(got, wanted, atol=0.02 * np.abs(wanted).max())
        np.testing.assert_allclose(got, found.predict(q[None], v[None], a[None])[0], atol=1e-9)
    assert robot.actuated == true_robot.actuated and found.ok
    np.testing.assert_allclose(robot.damping, true_robot.damping, rtol=0.05)


def test_saved_urdf_is_the_identified_robot(found: Identification, tmp_path: Path) -> None:
    file = found.save_urdf(tmp_path / "found.urdf")
    robot, again = found.identified_robot(), qd.load(file)
    q, v, a = robot.random_configuration(1), np.ones(3), np.ones(3)
    np.testing.assert_allclose(qd.Dynamics(again).rnea(q, v, a), qd.Dynamics(robot).rnea(q, v, a), rtol=1e-9)
    for what in ("damping", "friction", "armature"):
        np.testing.assert_allclose(getattr(again, what), getattr(robot, what), rtol=1e-9)
    assert qd.cross_check(again, samples=2).passed and qd.cross_check(robot, samples=2).passed


def test_inertia_of_links_on_fixed_joints_is_added_to_their_body(tmp_path: Path) -> None:
    robot = qd.load("finger_edu", legs="leg")
    assert any(len(body.links) > 1 for body in robot.bodies)
    found = identify(robot, make_samples(robot, 80), torque_noise=1e-3)
    again = qd.load(found.save_urdf(tmp_path / "finger.urdf"), root="fixed", legs="leg")
    model = found.identified_robot()
    assert model.feet == robot.feet and model.legs["leg"].foot.radius == robot.legs["leg"].foot.radius
    q, v, a = robot.q_home, np.ones(robot.nv), np.ones(robot.nv)
    wanted = qd.Dynamics(model).rnea(q, v, a)
    np.testing.assert_allclose(qd.Dynamics(again).rnea(q, v, a), wanted, atol=1e-9)
    np.testing.assert_allclose(wanted, qd.Dynamics(robot).rnea(q, v, a), atol=0.02 * np.abs(wanted).max())


def test_kernels_accept_identified_parameters_at_run_time(found: Identification) -> None:
    fast = qd.compile(found.base.robot, "rnea", parameters="runtime", friction=True)
    q, v, a = np.array([0.1, 0.2, 0.3]), np.ones(3), np.ones(3)
    wanted = found.predict(q[None], v[None], a[None])[0]
    np.testing.assert_allclose(fast.rnea(q, v, a, fast.parameter_map @ found.delta), wanted, atol=1e-9)
    own = qd.compile(found.identified_robot(), "rnea", parameters="runtime", friction=True)
    np.testing.assert_allclose(own.rnea(q, v, a), wanted, atol=1e-9)


def test_overrides_of_load_are_in_the_identified_file(true_robot: qd.Robot) -> None:
    robot = qd.load("planar_3r", damping=0.3, friction=0.2, armature=0.01, limits={"joint2": {"velocity": 2.5}})
    found = identify(base_parameters(robot, inertial=True), make_samples(true_robot), torque_noise=1e-3)
    model = found.identified_robot()
    again = qd.load(model.source)
    np.testing.assert_array_equal(model.velocity_limits, robot.velocity_limits)
    for what in ("damping", "friction", "armature", "velocity_limits"):
        np.testing.assert_array_equal(getattr(again, what), getattr(robot, what))
    assert qd.cross_check(model, samples=2).passed


def test_identification_prints_on_one_screen(found: Identification) -> None:
    lines = str(found).splitlines()
    assert len(lines) <= 24 and max(map(len, lines)) <= 120
    assert "mass [kg]" in lines[3] and "Coulomb" in lines[3] and "residual" in lines[1] and "200 samples" in lines[0]
    assert lines[-1].startswith("* also depends on the robot's file")
    assert float(lines[-2].split()[-1].rstrip("*")) == pytest.approx(0.01, rel=0.02)  # rotor inertia
    wrong = dataclasses.replace(found, delta=-found.delta)
    first, second, third, *others = wrong.inconsistent_bodies
    says = f"not physical: {first}, {second}, {third} and {len(others)} more"
    assert others and str(wrong).splitlines()[0].endswith(says)


def test_non_physical_fit_gives_no_robot(true_robot: qd.Robot, tmp_path: Path) -> None:
    wrong = identify(qd.load("planar_3r"), make_samples(true_robot, 12), method="least_squares")
    assert wrong.inconsistent_bodies and not wrong.ok and "not physical" in str(wrong)
    with pytest.raises(qd.ModelError):
        wrong.save_urdf(tmp_path / "wrong.urdf")
    assert not (tmp_path / "wrong.urdf").exists()
