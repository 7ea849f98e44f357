"""Compiled limits of velocities, steering and mode decisions give the same results as in Python."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from test_simulation_compiled import assert_compiled_equals_python

from quaddyn.locomotion import slope_clamping, velocity_clamping
from quaddyn.locomotion.body_parameters import BodyParameters
from quaddyn.locomotion.gait import GAITS, write_gait_parameters
from quaddyn.locomotion.velocity_clamping import GaitLimits, LegLimits, LimitReason

SEEDS = range(12)


def make_generator(name: str, seed: int) -> np.random.Generator:
    return np.random.default_rng([seed, *name.encode()])


def make_body(rng: np.random.Generator) -> BodyParameters:
    """A robot with legs of random length."""
    length = rng.uniform(0.2, 0.6)
    return BodyParameters.from_values(
        length=length,
        height=rng.uniform(0.7, 0.9) * length,
        gravity=9.81,
        mass=rng.uniform(2.0, 60.0),
        time_scale=math.sqrt(length / 9.81),
        speed_scale=math.sqrt(length * 9.81),
        natural_frequency=math.sqrt(9.81 / length),
        nominal_stance=length * np.array([[0.6, 0.4], [0.6, -0.4], [-0.6, 0.4], [-0.6, -0.4]]),
        radii=np.full(4, 0.02),
        hips=np.zeros((4, 3)),
        heading=np.eye(3),
    )


def make_legs(rng: np.random.Generator, body: BodyParameters, **values: Any) -> LegLimits:
    return LegLimits.from_values(
        **{
            "joint_speed": rng.choice([5.0, 30.0, math.inf]),
            "radius": body.length,
            "half_width": 0.4 * body.length,
            "max_inward_fraction": 0.5,
            "can_step_sideways": bool(rng.integers(0, 4)),
            **values,
        }
    )


def make_gait_limits(rng: np.random.Generator, body: BodyParameters) -> GaitLimits:
    gait, limits = GAITS[str(rng.choice(sorted(GAITS)))], velocity_clamping.allocate_gait_limits()
    write_gait_parameters(limits.timing, gait, body.time_scale)
    limits.max_stride, limits.has_end_support = gait.max_stride, gait.has_end_support
    limits.is_reach_known = bool(rng.integers(0, 2))
    limits.reach[:] = rng.uniform(0.1, 0.7, limits.reach.shape) * body.length
    return limits


def make_velocity(rng: np.random.Generator, scale: float = 3.0) -> Any:
    return rng.choice([0.0, 1.0]) * rng.choice([0.0, 1.0, 1.0], 3) * rng.normal(scale=scale, size=3)


@pytest.mark.parametrize("seed", SEEDS)
def test_compiled_velocity_limits_equal_python(seed: int) -> None:
    rng = make_generator("limits", seed)
    body = make_body(rng)
    legs, gait = make_legs(rng, body), make_gait_limits(rng, body)
    for for_reference in (False, True):
        velocity = make_velocity(rng)
        reason = assert_compiled_equals_python(
            velocity_clamping.clamp_to_gait, body, legs, gait, velocity, for_reference
        )
        assert LimitReason(reason).name
    for friction in (math.inf, 0.0, 0.3):
        velocity = make_velocity(rng)
        assert_compiled_equals_python(velocity_clamping.clamp_to_friction, body, legs, gait, velocity, friction)
    assert_compiled_equals_python(velocity_clamping.measure_hip_speed, legs, *rng.normal(size=3).tolist())
    assert_compiled_equals_python(velocity_clamping.measure_swing_length, legs, gait)
    displacements = rng.choice([0.0, 1.0, 1.0], (4, 1)) * rng.normal(size=(4, 2))
    assert_compiled_equals_python(velocity_clamping.write_stride_scale, gait.reach, displacements, np.zeros(1))


@pytest.mark.parametrize("seed", SEEDS)
def test_compiled_slope_limits_equal_python(seed: int) -> None:
    rng = make_generator("slope", seed)
    body, slope = make_body(rng), slope_clamping.allocate_slope_state()
    slope.min_velocity_change = slope_clamping.MIN_VELOCITY_CHANGE * body.speed_scale
    gait, evaluations = make_gait_limits(rng, body).timing, set()
    for _ in range(20):
        normal = np.array([*rng.choice([0.0, 0.3, 0.31]) * rng.normal(size=2), 1.0])
        normal /= np.linalg.norm(normal)
        velocity, bounds = make_velocity(rng, 0.05), [float(x) for x in rng.choice([0.4, math.inf], 2)]
        arguments = slope, gait, velocity, float(rng.normal()), normal, *bounds
        evaluation = assert_compiled_equals_python(slope_clamping.advance_slope_case, *arguments)
        slope_clamping.advance_slope_case(*arguments)
        before = slope.copy()
        assert slope_clamping.advance_slope_case(*arguments) == evaluation and repr(slope) == repr(before)
        evaluations.add(evaluation)
        if evaluation == slope_clamping.SlopeEvaluation.START:
            assert_compiled_equals_python(slope_clamping.begin_evaluation, slope, gait, velocity)
            slope_clamping.begin_evaluation(slope, gait, velocity)
            slope.is_evaluating = bool(rng.integers(0, 2))
            slope.fraction, slope.reason = 0.5, LimitReason.LEGS_ON_SLOPE
        assert_compiled_equals_python(slope_clamping.clamp_to_slope, slope, velocity)
    assert slope_clamping.SlopeEvaluation.START in evaluations
    assert_compiled_equals_python(slope_clamping.reset_slope_state, slope)
