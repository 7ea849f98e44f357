"""Payloads: a robot with a payload equals the robot of a file with one more link, and payloads are estimated."""

from __future__ import annotations

import re

import numpy as np
import pinocchio as pin
import pytest
import urdf_text
from raising import raises

import quaddyn as qd
from quaddyn.estimation import PayloadEstimator
from quaddyn.locomotion import LocomotionController
from quaddyn.robot import with_payload
from quaddyn.robot.saving import from_record, to_record

PLACE = (0.05, -0.03, 0.08)


@pytest.mark.parametrize(
    ("name", "link"),
    [("go2", None), ("go2", "FL_calf"), ("ur5", "tool0"), ("anymal_c", "LF_SHANK")],
)
def test_payload_is_equivalent_to_one_more_link(name: str, link: str | None) -> None:
    robot = qd.load(name)
    carrier = link or robot.bodies[0].name
    real = with_payload(robot, 2.5, PLACE, link=link, diameter=0.2)
    text = robot.source if isinstance(robot.source, str) else robot.source.decode()
    inertia = 0.1 * 2.5 * 0.2**2
    strap = urdf_text.joint("strap", carrier, "load", xyz="{} {} {}".format(*PLACE), kind="fixed")
    load = urdf_text.link("load", urdf_text.inertial(2.5, moments=inertia))
    wanted = qd.load(text.replace("</robot>", f"{load}{strap}</robot>"))
    assert real.mass == pytest.approx(wanted.mass, rel=1e-14)
    rng, ours, theirs = np.random.default_rng(0), qd.Dynamics(real), qd.Dynamics(wanted)
    for _ in range(5):
        q = pin.integrate(robot.model, robot.q_home, rng.normal(size=robot.nv))
        v, a = rng.normal(size=(2, robot.nv))
        tau = theirs.rnea(q, v, a)
        np.testing.assert_allclose(ours.rnea(q, v, a), tau, atol=1e-12 * np.abs(tau).max())
    H = ours.regressor(q, v, a) @ ours.parameters()
    np.testing.assert_allclose(H, tau + ours.joint_friction(v), atol=1e-10 * np.abs(tau).max())
    again = from_record(to_record(real))  # as stored in recordings
    assert again.mass == pytest.approx(real.mass, rel=1e-14)
    np.testing.assert_allclose(qd.Dynamics(again).rnea(q, v, a), tau, atol=1e-12 * np.abs(tau).max())
    assert qd.Dynamics(qd.load(real.source)).rnea(q, v, a) == pytest.approx(tau, abs=1e-12 * np.abs(tau).max())
    assert robot.mass < real.mass
    assert with_payload(robot, 0.0) is robot
    unknown = qd.load(re.sub('velocity="[^"]*"', 'velocity="0"', text, count=1))  # assumed to be unlimited
    assert with_payload(unknown, 1.0, link=link).source.count('velocity="0"') == 1


def test_impossible_payloads_raise_errors(solo12: qd.Robot) -> None:
    raises(qd.UnknownNameError, "FL_UPPER_LEG", with_payload, solo12, 1.0, link="FL_UPPER_LEX")
    raises(qd.ModelError, r"^mass: -10 kg.*'base_link'.* 1\.1\d* kg", with_payload, solo12, -10.0)
    raises(qd.ModelError, r"^mass: with -1 kg at .* link 'base_link'", with_payload, solo12, -1.0, (0.5, 0.0, 0.0))
    for options in ({"mass": np.nan}, {"mass": 1.0, "diameter": -1.0}, {"mass": 1.0, "position": (0.0, np.inf, 0.0)}):
        with pytest.raises(qd.ArgumentError):
            with_payload(solo12, **options)


@pytest.mark.parametrize(
    ("mass", "position", "diameter", "text"),
    [
        (5000.0, (0.0, 0.0, 0.1), 0.1, "^mass: 5000 kg is 311 times .* grams; pass kilograms"),
        (5.0, (0.0, 0.0, 200.0), 0.1, "^position: 200 m .* millimeters; pass meters"),
        (5.0, (0.0, 0.0, 0.1), 80.0, "^diameter: 80 m .* millimeters; pass meters"),
    ],
)
def test_payloads_in_other_units_give_a_warning(
    mass: float, position: tuple[float, float, float], diameter: float, text: str
) -> None:
    with pytest.warns(RuntimeWarning, match=text) as caught:
        assert with_payload(qd.load("go2"), mass, position, diameter=diameter).mass > mass
    assert len(caught) == 1 and caught[0].filename == __file__


@pytest.mark.parametrize("name", ["go2", "solo12", "ur5", "anymal_c"])
def test_large_payloads_give_no_warning(name: str) -> None:
    robot = qd.load(name)
    with_payload(robot, 2.0 * robot.mass, (0.3, 0.0, 0.3), diameter=0.3)  # warnings are errors in tests
    with_payload(robot, -0.01 * robot.mass)


def test_the_payload_of_an_arm_at_rest_is_estimated_with_an_uncertainty_that_does_not_depend_on_the_period() -> None:
    robot = qd.load("ur5")
    real, dyn = with_payload(robot, 3.0, PLACE, link="tool0"), qd.Dynamics(robot)
    truth, rng = qd.Dynamics(real), np.random.default_rng(1)
    estimator = PayloadEstimator(robot, dt=0.01, link="tool0", noise=0.01)
    for _ in range(4):
        q = rng.uniform(-2.0, 2.0, robot.nq)
        estimator.observer.reset()
        for _ in range(10):
            found = estimator.update(dyn.update(q, np.zeros(robot.nv)), truth.gravity(q))
    assert found.mass == pytest.approx(3.0, abs=0.01)
    np.testing.assert_allclose(found.com, PLACE, atol=0.003)
    assert estimator.loaded_robot().mass == pytest.approx(real.mass, abs=0.01)
    stds = []
    for dt in (0.01, 0.001):
        estimator = PayloadEstimator(robot, dt=dt, link="tool0")
        for _ in range(round(0.5 / dt) + 1):
            found = estimator.update(dyn.update(q, np.zeros(robot.nv)), truth.gravity(q))
        stds.append(found.standard_deviation)
    np.testing.assert_allclose(stds[0], stds[1], rtol=0.01)


def test_the_payload_of_a_standing_and_trotting_robot_is_estimated(solo12: qd.Robot) -> None:
    real = with_payload(solo12, 0.3 * solo12.mass, PLACE, diameter=0.1)
    plant, dyn = qd.Simulation(real, dt=1e-3), qd.Dynamics(solo12)
    controller, estimator = LocomotionController(solo12, dt=2e-3), PayloadEstimator(solo12, dt=2e-3)
    tau, found = np.zeros(solo12.nu), []
    for k in range(900):
        state = dyn.update(plant.q, plant.v)
        estimate = estimator.update(state, tau)
        tau = controller.compute(state, (0.2 if k > 400 else 0.0, 0.0, 0.0)).tau
        plant.step(tau)
        plant.step(tau)
        if k in (400, 899):
            found.append(estimate)
    for estimate, share in zip(found, (0.02, 0.06), strict=True):
        assert estimate.mass == pytest.approx(0.3 * solo12.mass, rel=share)
        np.testing.assert_allclose(estimate.com[:2], PLACE[:2], atol=0.015)
        assert (estimate.standard_deviation > 0.0).all()


def test_payload_estimate_is_zero_without_a_payload() -> None:
    robot = qd.load("ur5")
    dyn, estimator = qd.Dynamics(robot), PayloadEstimator(robot, dt=0.01, link="tool0")
    state = dyn.update(np.full(robot.nq, 0.3), np.zeros(robot.nv))
    for _ in range(5):
        found = estimator.update(state, state.gravity)
    assert abs(found.mass) < 1e-9
    assert not found.com.any()
    raises(qd.UnknownNameError, "tool", PayloadEstimator, robot, dt=0.01, link="tool")
    raises(qd.ArgumentError, "time_constant", PayloadEstimator, robot, dt=0.01, time_constant=0.0)
