"""External forces from torques and motion: momentum observer, contact forces, touchdown."""

from __future__ import annotations

import numpy as np
import pytest
from raising import raises
from slow_parameters import others_slow

import quaddyn as qd
from quaddyn.contact import ContactSet
from quaddyn.control import JointPD, gravity_compensation
from quaddyn.estimation import ContactForceEstimator, MomentumObserver, TouchdownDetector

G = 9.81


class StandingController:
    """Joint PD control at home with gravity compensation."""

    def __init__(self, robot: qd.Robot) -> None:
        self.robot, self.dyn, self.pd = robot, qd.Dynamics(robot), JointPD(robot)

    def __call__(self, sim: qd.Simulation) -> np.ndarray:
        hold = gravity_compensation(self.dyn.update(sim.q, sim.v))
        return self.pd.compute(sim.q, sim.v, self.robot.q_home, feedforward=hold.tau).tau


# -- contact forces ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", others_slow(["go2", "solo12", "anymal_c"], ["go2"]))
@pytest.mark.parametrize("rows", ["all", "joints"])
def test_estimated_forces_of_stance_feet_match_the_plant(name: str, rows: str) -> None:
    robot = qd.load(name)
    sim, stand, dyn = qd.Simulation(robot), StandingController(robot), qd.Dynamics(robot)
    estimator = ContactForceEstimator(ContactSet.from_feet(robot), dt=sim.dt, rows=rows)  # type: ignore[arg-type]
    for _ in range(600):
        sim.step(stand(sim))
        estimate = estimator.update(dyn.update(sim.q, sim.v), sim.tau)
    total = np.zeros(3)
    for foot, true in sim.contact_forces.items():
        np.testing.assert_allclose(estimate.forces[foot], true, atol=0.01 * robot.mass * G / 4)
        total += estimate.forces[foot]
    assert total[2] == pytest.approx(robot.mass * G, rel=5e-3)
    assert estimate.unobservable_dimensions == 0 and np.abs(estimate.residual).max() < 0.01 * robot.mass * G


# -- touchdown -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", others_slow(["go2", "solo12", "hyq"], ["go2"]))
def test_touchdown_is_detected_within_20_ms_and_not_early(name: str) -> None:
    robot = qd.load(name)
    sim, stand, dyn = qd.Simulation(robot), StandingController(robot), qd.Dynamics(robot)
    q = robot.q_home.copy()
    q[2] += 0.1
    sim.reset(q)
    estimator = ContactForceEstimator(ContactSet.from_feet(robot), dt=sim.dt, gain=300.0)
    detector = TouchdownDetector(robot)
    landed = None
    for _ in range(1500):
        sim.step(stand(sim))
        if landed is None and any(f[2] > 0.0 for f in sim.contact_forces.values()):
            landed = sim.time
        detector.update(sim.time, estimator.update(dyn.update(sim.q, sim.v), sim.tau).forces)
        if landed is None:
            assert not detector.feet_in_contact
    first = {event.name: event for event in reversed(detector.events.history)}
    assert set(first) == set(robot.feet) == set(detector.feet_in_contact)
    for event in first.values():
        assert event.kind == "touchdown" and landed is not None and 0.0 <= event.time - landed < 0.02


def test_raised_thresholds_keep_their_ratio_and_stay_above_the_given_ones(go2: qd.Robot) -> None:
    detector = TouchdownDetector(go2, touchdown_threshold=20.0, liftoff_threshold=10.0, dwell_time=0.0)
    for raised, on, off in ((60.0, 60.0, 30.0), (5.0, 20.0, 10.0)):
        detector.reset()
        detector.raise_thresholds(raised)
        for time, force, touches in ((0.0, 0.99 * on, False), (1.0, 1.01 * on, True), (2.0, 1.01 * off, True)):
            detector.update(time, {"FL": np.array([0.0, 0.0, force])})
            assert (detector.feet_in_contact == ("FL",)) is touches
        detector.update(3.0, {"FL": np.array([0.0, 0.0, 0.99 * off])})
        assert detector.feet_in_contact == ()


# -- misuse --------------------------------------------------------------------------------------------------------
def test_invalid_arguments_are_rejected_by_name(go2: qd.Robot, solo12: qd.Robot) -> None:
    dyn = qd.Dynamics(go2)
    s, zero = dyn.update(go2.q_home, np.zeros(go2.nv)), np.zeros(go2.nu)
    for name, options in (
        ("dt", {"dt": 0.0}),
        ("gain", {"gain": -1.0}),
        ("gain", {"gain": np.nan}),
        ("gain", {"gain": np.ones(3)}),
        ("stiction_speed", {"stiction_speed": 0.0}),
    ):
        raises(qd.ArgumentError, name, MomentumObserver, go2, **{"dt": 1e-3} | options)
    observer = MomentumObserver(go2, dt=1e-3)
    for tau in (np.zeros(3), np.full(12, np.nan), ["0.0"] * 11 + ["a"]):
        raises(qd.ArgumentError, "tau", observer.update, s, tau)
    raises(
        qd.ArgumentError, "s:", observer.update, qd.Dynamics(solo12).update(solo12.q_home, np.zeros(solo12.nv)), zero
    )
    dyn.update(go2.q_home, np.zeros(go2.nv))
    with pytest.raises(qd.StaleStateError):
        observer.update(s, zero)
    raises(qd.ArgumentTypeError, "contacts", ContactForceEstimator, go2, dt=1e-3)
    raises(qd.ArgumentError, "rows", ContactForceEstimator, ContactSet.from_feet(go2), dt=1e-3, rows="some")
    raises(qd.ArgumentError, "off", TouchdownDetector, go2, touchdown_threshold=10.0, liftoff_threshold=20.0)
    raises(qd.ArgumentError, "feet", TouchdownDetector, qd.load("ur5"))
    raises(qd.UnknownNameError, "FX", TouchdownDetector(go2).update, 0.0, {"FX": np.zeros(3)})
    raises(qd.ArgumentError, "FL", TouchdownDetector(go2).update, 0.0, {"FL": np.full(3, np.nan)})
    detector = TouchdownDetector(go2, dwell_time=0.001)
    detector.update(1.0, {})
    for time, forces in ((0.5, {"FL": np.array([0.0, 0.0, 1e3])}), (1.0, {"FL": np.array([0.0, 0.0, 1e3]), "X": 0})):
        with pytest.raises((qd.ArgumentError, qd.UnknownNameError)):
            detector.update(time, forces)  # type: ignore[dict-item]
    assert detector.update(1.0, {"FL": np.array([0.0, 0.0, 1e3])}) == ()  # rejected calls do not start the dwell time
