"""Compiled functions of the contact monitor equal Python; the coplanarity of feet is that of singular values."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest
from test_compiled_falls import random_motion
from unit_scaling import assert_compiled_equals_python

from quaddyn.locomotion import Morphology, contact_estimation
from quaddyn.locomotion.contact_estimation import COPLANARITY_TOLERANCE, GroundEvent, allocate_ground_contact
from quaddyn.locomotion.ground_plane import allocate_ground_state, write_ground_normals
from quaddyn.locomotion.morphology import BodyParameters, make_body_parameters

DT = 2e-3


@pytest.mark.parametrize("is_measured", [False, True])
def test_compiled_contact_monitor_equals_python(morphology: Morphology, is_measured: bool) -> None:
    """All events appear."""
    p, found = morphology, set()
    rng, body = np.random.default_rng([12, is_measured]), make_body_parameters(morphology)
    for _ in range(40):
        motion, state = random_motion(rng, p), allocate_ground_contact(DT)
        contacts = rng.integers(0, 2, 4)
        state.has_last_rate, state.has_ground_force, state.stance_time = rng.random() < 0.8, rng.random() < 0.5, 1.0
        state.last_rate = float(motion.velocity[2] + p.gravity * DT * rng.uniform(0.0, 2.0))
        state.last_feet[:], state.ground_force = motion.feet + 1e-3 * rng.normal(size=(4, 3)), p.gravity * rng.random()
        state.no_contact_time, state.few_contacts_time = 0.1 * rng.random(2)
        found.add(
            assert_compiled_equals_python(contact_estimation.check_ground, state, body, motion, contacts, is_measured)
        )
        assert_compiled_equals_python(
            contact_estimation.ground_lost, state, body, 0.1, motion.feet, contacts, is_measured
        )
        assert_compiled_equals_python(contact_estimation.is_in_free_fall, state, body, 0.1)
        for entry in (contact_estimation.is_supported, contact_estimation.is_settled):
            assert_compiled_equals_python(entry, state, body)
        assert_compiled_equals_python(contact_estimation.is_coplanar, body, motion.feet)
    assert found == set(GroundEvent)


def plane_deviation(feet: np.ndarray, body: BodyParameters) -> float:
    """The smallest singular value of the lowest points of the feet about their center, in tolerances."""
    points = feet - np.outer(body.radii, [0.0, 0.0, 1.0])
    deviation = np.linalg.svd(points - points.mean(axis=0), compute_uv=False)[2]
    return float(deviation / (COPLANARITY_TOLERANCE * body.length))


@pytest.mark.parametrize("seed", range(200))
def test_feet_are_coplanar_up_to_a_singular_value(morphology: Morphology, seed: int) -> None:
    """The decision is that of the singular value, except within 1e-11 of the tolerance; stances in a line included."""
    rng, body = np.random.default_rng([13, seed]), make_body_parameters(morphology)
    stance = np.column_stack((morphology.nominal_stance, np.zeros(4)))
    stance *= rng.choice([1.0, 1.0, 0.1], size=3) if seed % 2 else 1.0
    stance += 0.05 * body.length * rng.normal(size=(4, 3)) * (1.0, 1.0, 0.1)
    R, offset = pin.exp3(rng.normal(size=3)), np.outer(body.radii, [0.0, 0.0, 1.0])
    warp = np.outer([1.0, -1.0, -1.0, 1.0], [0.0, 0.0, 1.0])
    world = rng.normal(size=3)

    def feet(amount: float) -> np.ndarray:
        return np.asarray((stance + amount * warp) @ R.T + offset + world)

    low, high = 0.0, body.length
    for amount in (low, high):
        assert contact_estimation.is_coplanar(body, feet(amount)) == (plane_deviation(feet(amount), body) <= 1.0)
    if plane_deviation(feet(low), body) <= 1.0 < plane_deviation(feet(high), body):
        for _ in range(60):  # the amount at which the decision changes
            middle = 0.5 * (low + high)
            low, high = (middle, high) if contact_estimation.is_coplanar(body, feet(middle)) else (low, middle)
        assert plane_deviation(feet(low), body) == pytest.approx(1.0, abs=1e-11)


def test_feet_in_a_point_or_a_line_are_coplanar(morphology: Morphology) -> None:
    body = make_body_parameters(morphology)
    offset = np.outer(body.radii, [0.0, 0.0, 1.0])
    for direction in (np.zeros(3), np.array([1.0, 0.0, 0.0]), np.array([0.0, 1.0, 0.0]), np.ones(3)):
        assert contact_estimation.is_coplanar(body, np.outer([0.0, 0.3, -0.2, 1.0], direction) + offset)


@pytest.mark.parametrize("seed", range(3))
def test_compiled_ground_normals_equal_python(seed: int) -> None:
    rng, ground = np.random.default_rng([14, seed]), allocate_ground_state()
    ground.slope[:] = rng.normal(size=2)
    assert_compiled_equals_python(write_ground_normals, ground, np.full((4, 3), np.nan))
