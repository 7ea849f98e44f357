"""Compiled estimators of contacts, slips and friction give the same results as in Python and as the public classes."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
from foot_estimates import ContactRecords, FrictionRecords
from test_simulation_compiled import assert_compiled_equals_python

import quaddyn as qd
from quaddyn.contact import ContactSet
from quaddyn.estimation import ContactForceEstimator, SlipDetector, TouchdownDetector
from quaddyn.locomotion import FEET, Morphology
from quaddyn.locomotion import contact_estimation as contacts
from quaddyn.locomotion import friction_model as friction
from quaddyn.locomotion import friction_model as model
from quaddyn.locomotion.contact_estimation import CONTACT_DWELL_TIME, FORCE_TIME_CONSTANT
from quaddyn.locomotion.stumble_reflex import allocate_foot_contacts
from quaddyn.robot import Robot

DT = 2e-3
UP = np.array([0.0, 0.0, 1.0])
Sample = tuple[qd.State, np.ndarray]


def random_states(robot: Robot, rng: np.random.Generator, n: int, speed: float = 0.1) -> Iterator[Sample]:
    """States and torques near standing."""
    dynamics, tau = qd.Dynamics(robot), qd.WholeBodyController(robot, dt=DT)
    for _ in range(n):
        q = robot.algorithms.integrate(robot.model, robot.q_home, rng.normal(0.0, 0.05, robot.nv))
        s = dynamics.update(q, rng.normal(0.0, speed, robot.nv))
        yield s, tau.compute(s).tau + rng.normal(0.0, 1.0, robot.nu)


def random_normals(rng: np.random.Generator) -> np.ndarray:
    normals = rng.normal(0.0, 0.1, (4, 3)) + UP
    return np.asarray(normals / np.linalg.norm(normals, axis=1)[:, None])


def randomize_inputs(rng: np.random.Generator, x: contacts.ContactInputs) -> None:
    x.normals[:] = random_normals(rng)
    x.is_blocked[:], x.is_mid_swing[:], x.is_touching[:], x.is_too_fast[:] = rng.integers(0, 2, (4, 4))
    x.has_sensors, x.has_flight_phase = bool(rng.integers(0, 2)), bool(rng.integers(0, 2))


@pytest.mark.parametrize(("detects_contacts", "needs_forces"), [(True, True), (True, False), (False, False)])
def test_compiled_contact_estimate_equals_python(go2: Robot, detects_contacts: bool, needs_forces: bool) -> None:
    rng = np.random.default_rng([1, detects_contacts, needs_forces])
    made = ContactRecords(go2, DT, detects_contacts=detects_contacts, needs_forces=needs_forces)
    e, x = made.estimate, made.inputs
    for s, tau in random_states(go2, rng, 6):
        randomize_inputs(rng, x)
        e.trigger.in_contact[:], e.time = rng.integers(0, 2, 4), rng.uniform(0.0, 0.1)
        arrays = (*s.kinematic_arrays(), np.ascontiguousarray(s.M.T), s.writable_coordinates()[1], tau)
        assert_compiled_equals_python(contacts.estimate_contacts, made.model, e, x, *arrays)
        assert_compiled_equals_python(contacts.estimate_contacts_of_coupled_joints, made.model, e, x, *arrays[2:])
        contacts.estimate_contacts(made.model, e, x, *arrays)
        assert_compiled_equals_python(contacts.write_foot_contacts, made.model, e, x, allocate_foot_contacts())
    assert_compiled_equals_python(contacts.reset_contact_estimate, e)


@pytest.mark.parametrize("seed", range(4))
def test_compiled_friction_estimate_equals_python(go2: Robot, seed: int) -> None:
    rng, sensed, made = np.random.default_rng([2, seed]), ContactRecords(go2, DT), FrictionRecords(go2, DT)
    e, c, f, x = sensed.estimate, sensed.inputs, made.estimate, friction.FrictionInputs.allocate(is_carrying=4)
    for s, _ in random_states(go2, rng, 6):
        randomize_inputs(rng, c)
        e.is_known, e.in_contact[:] = bool(rng.random() < 0.8), rng.integers(0, 2, 4)
        e.forces[:] = rng.normal(0.0, 5.0, (4, 3)) + 40.0 * UP
        f.slip.is_slipping[:], f.slip.unbraked_updates[:] = rng.integers(0, 2, 4), rng.uniform(0.0, 20.0, 4)
        f.slip.probability[:], f.slip.evidence[:] = rng.uniform(0.0, 1.0, 4), rng.uniform(100.0, 200.0, (4, 2))
        f.slip.held_ratio[:], f.bound = rng.uniform(0.0, 0.8, 4), rng.choice([math.inf, 0.4])
        x.is_carrying[:], x.may_lower, x.is_rough = rng.integers(0, 2, 4), rng.random() < 0.8, rng.random() < 0.5
        arrays = (*s.kinematic_arrays(), s.writable_coordinates()[1])
        assert_compiled_equals_python(friction.update_friction, made.parameters, f, x, e, c, *arrays)
        friction.set_foot_loads(f, x, e, c)
        assert_compiled_equals_python(friction.update_slips, made.parameters, f, x.may_lower, x.is_rough)
        f.bound, f.time_since_slip, p = 0.3 * rng.random(), rng.random(), made.parameters
        expected = f.bound * math.exp(p.growth_rate * (f.time_since_slip + DT))
        friction.update_slips(
            p, f, False, False
        )  # without slips the bound grows, and follows the forces that feet hold
        held = float(max(f.slip.held_ratio)) - friction.HOLDING_UNCERTAINTY
        if friction.SLIP_SAFETY_FACTOR * held > expected:
            expected += p.holding_alpha * (held - expected)
        assert f.bound == pytest.approx(expected, rel=1e-12)
    assert_compiled_equals_python(friction.reset_friction_estimate, made.parameters, f)


@pytest.mark.parametrize("seed", range(8))
def test_compiled_friction_of_contacts_equals_python(seed: int) -> None:
    rng, f = np.random.default_rng([3, seed]), model.allocate_friction_state(0.4)
    f.friction, f.assumed_bound = rng.uniform(0.1, 0.5), rng.choice([math.inf, 0.1, 0.35])
    f.normals[:] = random_normals(rng)
    assert not assert_compiled_equals_python(model.set_normals, f, f.normals + 1e-3)
    normals = f.normals.copy()
    normals[seed % 4] = random_normals(rng)[0]
    assert assert_compiled_equals_python(model.set_normals, f, normals)
    assert model.set_normals(f, normals) and f.has_new_normal.tolist() == [int(i == seed % 4) for i in range(4)]
    assert_compiled_equals_python(model.adapt_friction, f)
    assert not assert_compiled_equals_python(model.set_assumed_bound, f, f.assumed_bound)
    assert assert_compiled_equals_python(model.set_assumed_bound, f, 0.2)


def test_contact_estimate_agrees_with_the_public_classes(go2: Robot) -> None:
    rng, p = np.random.default_rng(4), Morphology.from_robot(go2)
    made = ContactRecords(go2, DT)
    estimator = ContactForceEstimator(
        ContactSet.from_feet(go2, FEET), dt=DT, gain=1.0 / (FORCE_TIME_CONSTANT * p.time_scale)
    )
    detector = TouchdownDetector(go2, dwell_time=CONTACT_DWELL_TIME * p.time_scale)
    seen = set()
    for k, (s, all_torques) in enumerate(random_states(go2, rng, 150, 1e-3)):
        normals, tau = random_normals(rng), (k // 25 % 2) * all_torques
        found = made.update(s, tau, normals)
        forces = estimator.update(s, tau).forces
        detector.update(k * DT, forces, normal=normals[[FEET.index(foot) for foot in go2.feet]])
        for estimated, foot in zip(made.estimate.forces, FEET, strict=True):
            np.testing.assert_allclose(estimated, forces[foot], rtol=0.0, atol=1e-9)
        if found is not None:
            assert set(found) == set(detector.feet_in_contact)
            seen.add(found)
    assert len(seen) > 1


def test_slips_agree_with_the_public_class(go2: Robot) -> None:
    rng, p = np.random.default_rng(5), Morphology.from_robot(go2)
    made, detector = FrictionRecords(go2, DT), SlipDetector(go2, dt=DT, length=p.length)
    for s, _ in random_states(go2, rng, 60):
        forces = {foot: rng.normal(0.0, 5.0, 3) + 40.0 * UP for foot in FEET}
        touching = [foot for foot in FEET if rng.random() < 0.95]
        made.update(s, forces, touching)
        assert set(detector.update(s, forces, touching)) == set(made.slipping_feet)
        for foot, probability in zip(FEET, made.estimate.slip.probability, strict=True):
            assert detector.slip_probability[foot] == pytest.approx(probability, rel=1e-9)


def test_contacts_are_measured_estimated_or_unknown(go2: Robot) -> None:
    s = qd.Dynamics(go2).update(go2.q_home, np.zeros(go2.nv))
    tau, up = qd.WholeBodyController(go2, dt=DT).compute(s).tau, np.tile(UP, (4, 1))
    for detects_contacts, needs_forces in ((True, True), (True, False), (False, True), (False, False)):
        made = ContactRecords(go2, DT, detects_contacts=detects_contacts, needs_forces=needs_forces)
        assert made.update(s, tau, up) is None and not made.estimate.is_known  # startup
        for _ in range(60):
            found = made.update(s, tau, up)
        assert found == (FEET if detects_contacts else None)
        assert made.estimate.is_known == (detects_contacts or needs_forces)
        written = allocate_foot_contacts()
        contacts.write_foot_contacts(made.model, made.estimate, made.inputs, written)
        assert written.has_forces == (detects_contacts or needs_forces)
        assert made.update(s, tau, up, has_flight_phase=True) is None
        assert made.update(s, tau, up, measured=("FL",), has_flight_phase=True) == ("FL",) and made.estimate.is_known
