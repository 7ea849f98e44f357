"""Compiled functions of fall detection equal Python."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
from unit_scaling import assert_compiled_equals_python

from quaddyn.locomotion import Morphology, fall_detection
from quaddyn.locomotion.fall_detection import SIGN_TEXTS, FallSign, make_fall_detector
from quaddyn.locomotion.ground_plane import allocate_ground_state
from quaddyn.locomotion.morphology import make_body_parameters
from quaddyn.locomotion.motion import Motion, allocate_motion
from quaddyn.locomotion.path_reference import PathState


def random_motion(rng: np.random.Generator, p: Morphology) -> Motion:
    motion, R = allocate_motion(), pin.exp3(rng.normal(size=3) * rng.choice([0.05, 0.6]))
    motion.com = 0.1 * rng.normal(), 0.1 * rng.normal(), p.height * rng.uniform(0.1, 1.5)
    motion.velocity, motion.angular_velocity = (
        rng.normal(size=3) * p.speed_scale * rng.choice([0.1, 1.0]),
        rng.normal(size=3),
    )
    motion.R_base, motion.axes, motion.yaw = R, R @ p.heading, rng.uniform(-3.0, 3.0)
    motion.feet[:] = np.column_stack((p.nominal_stance, p.height * rng.uniform(-0.1, 0.3, 4)))
    return motion


def test_compiled_fall_detection_equals_python(morphology: Morphology) -> None:
    """All signs appear."""
    p, found = morphology, set()
    rng, body = np.random.default_rng(11), make_body_parameters(morphology)
    for i in range(60):
        motion, detector = random_motion(rng, p), make_fall_detector(p, 2e-3)
        ground, path = allocate_ground_state(), PathState.allocate(position=2, velocity=3)
        ground.points[:, :2] = p.nominal_stance + 0.01 * rng.normal(size=(4, 2))
        ground.slope[:], path.velocity[:] = 0.1 * rng.normal(size=2), rng.normal(size=3)
        detector.durations[:] = 0.1 * (i % 4 != 0)
        desired = p.height * float(rng.uniform(0.7, 1.1)), float(rng.normal())
        assert_compiled_equals_python(fall_detection.capture_margin, detector, body, motion, path)
        for upright in (False, True):
            arguments = detector, body, motion, ground, path, upright, *desired
            found.add(assert_compiled_equals_python(fall_detection.update_fall_detection, *arguments))
    assert found == set(FallSign)


def test_every_sign_has_a_text() -> None:
    assert set(SIGN_TEXTS) == set(FallSign) and len(set(SIGN_TEXTS.values())) == len(FallSign)
