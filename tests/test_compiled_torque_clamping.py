"""Compiled clamping of torques equals the same functions in Python."""

from __future__ import annotations

import numpy as np
import pytest
from test_simulation_compiled import assert_compiled_equals_python

from quaddyn.locomotion import torque_limiter


@pytest.mark.parametrize("seed", range(10))
def test_compiled_torque_clamping_equals_python(seed: int) -> None:
    rng = np.random.default_rng([13, seed])
    parameters = torque_limiter.MotorParameters.from_values(
        damping=rng.uniform(0.0, 2.0, 12), max_driven_speed=1.0, default_limit=2.5
    )
    limits, tau, v, out = rng.uniform(0.5, 4.0, 12), 3.0 * rng.normal(size=12), rng.normal(size=18), np.zeros(12)
    limits[3], v[6] = np.inf, 0.0
    motors, speed = torque_limiter.LimitedMotors(parameters, limits, np.arange(6, 18)), v[6:]
    assert_compiled_equals_python(torque_limiter.clamp_torques, motors, tau, v, out)
    assert_compiled_equals_python(torque_limiter.compute_damping_torques, motors, v, out)
    torque_limiter.clamp_torques(motors, tau, v, out)
    most = np.minimum(limits, 2.5)
    assert (np.abs(out) <= most).all()
    slow = np.abs(speed) <= 1.0
    np.testing.assert_array_equal(out[slow], np.clip(tau, -most, most)[slow])
    assert (out[~slow] * speed[~slow] <= 0.0).all()
