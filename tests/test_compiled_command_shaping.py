"""Compiled limits of velocities, steering and mode decisions give the same results as in Python."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from test_simulation_compiled import assert_compiled_equals_python as assert_machine_code_equals_python
from unit_scaling import assert_compiled_equals_python

from quaddyn.locomotion import (
    LocomotionMode,
    modes,
    progress_monitor,
    slope_limiter,
    velocity_limits,
)
from quaddyn.locomotion import (
    steering as steering_rules,
)
from quaddyn.locomotion.friction_model import FrictionState
from quaddyn.locomotion.gait import GAITS, GaitScheduler, GaitState, write_gait_parameters
from quaddyn.locomotion.ground_plane import allocate_ground_state
from quaddyn.locomotion.modes import ModeCode
from quaddyn.locomotion.morphology import BodyParameters
from quaddyn.locomotion.motion import Motion, allocate_motion
from quaddyn.locomotion.path_reference import PathState
from quaddyn.locomotion.velocity_limits import GaitLimits, LegLimits, LimitReason
from quaddyn.locomotion.walking import adapt_step_timing
from quaddyn.wbc.tick_period import TickDisplacements, has_inconsistent_motion, reset_tick_period

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
    gait, limits = GAITS[str(rng.choice(sorted(GAITS)))], velocity_limits.allocate_gait_limits()
    write_gait_parameters(limits.timing, gait, body.time_scale)
    limits.max_stride, limits.has_end_support = gait.max_stride, gait.has_end_support
    limits.is_reach_known = bool(rng.integers(0, 2))
    limits.reach[:] = rng.uniform(0.1, 0.7, limits.reach.shape) * body.length
    limits.lifted_reach[:] = 0.5 * limits.reach
    return limits


def make_velocity(rng: np.random.Generator, scale: float = 3.0) -> Any:
    return rng.choice([0.0, 1.0]) * rng.choice([0.0, 1.0, 1.0], 3) * rng.normal(scale=scale, size=3)


@pytest.mark.parametrize("seed", SEEDS)
def test_compiled_velocity_limits_equal_python(seed: int) -> None:
    rng = make_generator("limits", seed)
    body = make_body(rng)
    legs, gait = make_legs(rng, body), make_gait_limits(rng, body)
    velocity = make_velocity(rng)
    assert LimitReason(assert_compiled_equals_python(velocity_limits.clamp_command, body, legs, gait, velocity)).name
    assert_compiled_equals_python(velocity_limits.clamp_velocity, body, legs, gait, velocity, 1.0)
    assert_compiled_equals_python(
        velocity_limits.clamp_velocity_on_rough_ground, body, legs, gait, velocity, 0.13, True
    )
    assert_compiled_equals_python(velocity_limits.compute_max_hip_speed, legs, *rng.normal(size=3).tolist())
    assert_compiled_equals_python(velocity_limits.compute_swing_length, legs, gait)


@pytest.mark.parametrize("seed", SEEDS)
def test_feet_stay_within_their_workspaces_ahead_and_back(seed: int) -> None:
    """Legs without other limits: one foot reaches the border of its workspace, and none passes it."""
    rng = make_generator("reach", seed)
    body = make_body(rng)
    gait = make_gait_limits(rng, body)
    legs = make_legs(rng, body, joint_speed=math.inf, half_width=9.0, max_inward_fraction=9.0, can_step_sideways=True)
    gait.is_reach_known, gait.max_stride, gait.timing.has_swing_phase = True, 99.0, True
    gait.timing.duty_factor, gait.timing.footprint_scale[:] = 0.5, rng.uniform(0.3, 1.0, 2)
    velocity, (length, width) = rng.normal(scale=9.0, size=3), gait.timing.footprint_scale
    reason = velocity_limits.clamp_velocity(body, legs, gait, velocity, 1.0)
    x, y, yaw_rate = velocity.tolist()
    stance = body.nominal_stance * (length, width)
    paths = 0.5 * gait.timing.duty_factor * gait.timing.period * (
        np.array([x, y]) + yaw_rate * np.column_stack((-stance[:, 1], stance[:, 0]))
    )  # fmt: skip
    n = velocity_limits.N_DIRECTIONS
    angles, directions = (
        2.0 * np.pi / n * (np.arange(n) + 0.5),
        [np.arctan2(s * paths[:, 1], s * paths[:, 0]) for s in (1, -1)],
    )
    radii = [
        [np.interp(a, angles, r, period=2.0 * np.pi) for a, r in zip(each, gait.reach, strict=True)]
        for each in directions
    ]
    used = np.linalg.norm(paths, axis=1) / (velocity_limits.USABLE_WORKSPACE_FRACTION * np.min(radii, axis=0))
    assert used.max() == pytest.approx(1.0) and reason == LimitReason.LEG_REACH + int(used.argmax())
    # On rough ground, with half of the reach of lifted feet, or with joints that cover half a stride.
    lifted = velocity.copy()
    assert velocity_limits.clamp_velocity_on_rough_ground(body, legs, gait, lifted, 0.15, True) == reason
    np.testing.assert_allclose(lifted, 0.5 * velocity)
    half_speed = 0.5 * velocity_limits.compute_max_hip_speed(legs, x, y, yaw_rate)
    stride = half_speed * velocity_limits.compute_stance_time(gait) / body.length
    legs.joint_speed = (stride + 0.15) / velocity_limits.SWING_SPEED_FRACTION / (0.5 * gait.timing.period)
    gait.is_reach_known, lifted[:] = False, velocity
    joint_reason = velocity_limits.clamp_velocity_on_rough_ground(body, legs, gait, lifted, 0.15, True)
    assert joint_reason == LimitReason.JOINT_SPEED
    np.testing.assert_allclose(lifted, 0.5 * velocity)


@pytest.mark.parametrize("seed", SEEDS)
def test_compiled_slope_limits_equal_python(seed: int) -> None:
    rng = make_generator("slope", seed)
    body, slope = make_body(rng), slope_limiter.allocate_slope_state()
    slope.min_velocity_change = slope_limiter.MIN_VELOCITY_CHANGE * body.speed_scale
    legs, limits, evaluations = make_legs(rng, body), make_gait_limits(rng, body), set()
    friction = FrictionState.allocate(normals=(4, 3), has_new_normal=4, normal=3)
    for _ in range(20):
        friction.normal[:] = *rng.choice([0.0, 0.3, 0.31]) * rng.normal(size=2), 1.0
        friction.normal[:] /= np.linalg.norm(friction.normal)
        friction.nominal, friction.is_given = 0.5, bool(rng.integers(0, 2))
        friction.assumed_bound = rng.choice([0.4, math.inf])
        gait, velocity = limits.timing, make_velocity(rng, 0.05)
        arguments = slope, gait, velocity, float(rng.normal()), friction
        evaluation = assert_compiled_equals_python(slope_limiter.update_slope, *arguments)
        slope_limiter.update_slope(*arguments)
        before = slope.copy()
        assert slope_limiter.update_slope(*arguments) == evaluation and repr(slope) == repr(before)
        evaluations.add(evaluation)
        if evaluation == slope_limiter.SlopeEvaluation.START:
            assert_compiled_equals_python(slope_limiter.begin_evaluation, slope, gait, velocity)
            slope_limiter.begin_evaluation(slope, gait, velocity)
            slope.is_evaluating = bool(rng.integers(0, 2))
            slope.fraction, slope.reason = 0.5, LimitReason.LEGS_ON_SLOPE
        assert_compiled_equals_python(slope_limiter.clamp_velocity_on_slope, slope, velocity)
        ground_limits = slope, body, legs, limits, 10.0 * velocity, friction
        assert_compiled_equals_python(slope_limiter.clamp_velocity_on_ground, *ground_limits)
    assert slope_limiter.SlopeEvaluation.START in evaluations
    assert_compiled_equals_python(slope_limiter.reset_slope, slope)


def make_path(rng: np.random.Generator) -> PathState:
    path = PathState.allocate(position=2, velocity=3)
    path.position[:], path.yaw, path.velocity[:] = rng.normal(size=2), rng.normal(scale=4.0), make_velocity(rng, 0.3)
    return path


def make_motion(rng: np.random.Generator) -> Motion:
    motion = allocate_motion()
    motion.com, motion.velocity, motion.yaw = rng.normal(size=3), rng.normal(scale=0.3, size=3), rng.normal()
    motion.feet[:] = rng.normal(size=(4, 3))
    return motion


def make_gait_state(rng: np.random.Generator) -> GaitState:
    scheduler = GaitScheduler(str(rng.choice(sorted(GAITS))), 0.2)
    if rng.integers(0, 2):
        scheduler.start()
        scheduler.advance(rng.uniform(0.0, 1.0))
    return scheduler.state


@pytest.mark.parametrize("seed", SEEDS)
def test_compiled_steering_equals_python(seed: int) -> None:
    rng = make_generator("steering", seed)
    body, steering = make_body(rng), steering_rules.allocate_steering_state(2e-3)
    legs, path, ground = make_legs(rng, body), make_path(rng), allocate_ground_state()
    ground.slope[:] = rng.normal(scale=0.2, size=2)
    for _ in range(6):
        gait, command = make_gait_limits(rng, body), make_velocity(rng, 0.5)
        steering.mean_lag[:] = rng.choice([0.0, 0.03, 1.0]) * rng.normal(size=2)
        conditions = float(rng.uniform(0.05, 1.0)), bool(rng.integers(0, 4) == 0), bool(rng.integers(0, 4) == 0)
        u, v, *error = rng.normal(scale=0.1, size=4).tolist()
        for entry, *arguments in (
            (steering_rules.set_conditions, *conditions),
            (steering_rules.update_speed_averages, body, path, u, v),
            (steering_rules.is_blocked, body),
            (steering_rules.update_steering, body, legs, gait, path, ground, command),
            (steering_rules.limit_reference_lead, body, path, *error, path.yaw + float(rng.normal())),
        ):
            assert_compiled_equals_python(entry, steering, *arguments)
            entry(steering, *arguments)
    assert_compiled_equals_python(steering_rules.reset_steering, steering)


@pytest.mark.parametrize("seed", SEEDS)
def test_compiled_progress_monitor_equals_python(seed: int) -> None:
    rng = make_generator("progress", seed)
    body, progress, motion = make_body(rng), progress_monitor.ProgressState.allocate(), make_motion(rng)
    progress.alpha, reasons = 0.2, set()
    for k in range(30):
        progress.is_saturated = bool(rng.integers(0, 2))
        motion.velocity = np.zeros(3) if seed % 2 else rng.normal(size=3)
        velocity = np.array([0.3, 0.0, 0.1]) if k % 10 else make_velocity(rng, 0.3)
        arguments = progress, body, velocity, motion, 0.0
        reasons.add(assert_compiled_equals_python(progress_monitor.filter_command, *arguments))
        progress_monitor.filter_command(*arguments)
    assert LimitReason.NO_PROGRESS in reasons or seed % 2 == 0
    assert_compiled_equals_python(progress_monitor.reset_progress, progress)


@pytest.mark.parametrize("seed", SEEDS)
def test_compiled_step_timing_equals_python(seed: int) -> None:
    rng = make_generator("timing", seed)
    for _ in range(4):
        g, body, error = make_gait_state(rng), make_body(rng), rng.choice([0.0, 0.01, 0.1]) * rng.normal(size=2)
        assert_compiled_equals_python(adapt_step_timing, g, body, float(rng.choice([5.0, math.inf])), *error.tolist())


@pytest.mark.parametrize("mode", ModeCode)
def test_compiled_mode_decisions_equal_python(mode: ModeCode) -> None:
    rng, state = make_generator("modes", int(mode)), modes.allocate_mode_state()
    assert LocomotionMode.from_code(mode).code is mode and LocomotionMode.from_code(mode).name == mode.name
    for _ in range(30):
        body, g, path = make_body(rng), make_gait_state(rng), make_path(rng)
        gait, velocity = make_gait_limits(rng, body).timing, make_velocity(rng)
        stance = np.array(body.nominal_stance)
        path.position[:] = 0.0
        path.velocity[:] *= rng.integers(0, 2)
        c, s = math.cos(path.yaw), math.sin(path.yaw)
        feet = np.column_stack((stance @ [[c, s], [-s, c]], np.zeros(4)))
        feet[0] += rng.choice([0.0, 0.2]) * body.length * rng.normal(size=3)
        error = rng.choice([0.01, 0.3]) * body.length * rng.normal(size=2)
        state.mode, conditions = mode, (0.5, *error.tolist(), *(rng.integers(0, 2, size=3) > 0).tolist())
        assert_compiled_equals_python(modes.set_mode_conditions, state, *conditions)
        modes.set_mode_conditions(state, *conditions)
        state.is_lying_requested = bool(rng.integers(0, 3) == 0)
        assert_compiled_equals_python(modes.next_mode, state, body, gait, g, path, velocity, feet, stance)
        assert_compiled_equals_python(modes.is_dcm_near_edge, *error.tolist(), feet, 0.5)
        assert_compiled_equals_python(modes.is_stance_misplaced, feet, path, stance, body.length)


def allocate_displacements(nv: int) -> TickDisplacements:
    names = ("last_v", "step", "net_change", "excursion", "squared_change", "squared_rate")
    return TickDisplacements.allocate(last_q=nv + 1, change_products=(nv, nv), **dict.fromkeys(names, nv))


def test_compiled_comparison_of_coordinates_equals_python() -> None:
    rng, conventions = make_generator("coordinates", 0), set()
    for fault in range(8):
        sums, q = allocate_displacements(9), np.zeros(10)
        sums.dt, sums.has_floating_base, sums.has_scalar_joints, q[6] = 0.01, True, True, 1.0
        for k in range(60):
            v = np.sin(0.3 * k + np.arange(9.0)) * (1.0 + 0.1 * rng.normal(size=9))
            q[7:] += 0.01 * v[6:]
            q[:3] += 0.01 * v[:3]
            q[3:6] += 0.001 * v[3:6]
            q[3:7] /= np.linalg.norm(q[3:7])
            given = [
                v,
                -v,
                57.0 * v,
                0.0 * v,
                np.r_[v[3:6], v[:3], v[6:]],
                np.r_[v[:7], -v[7], v[8]],
                v[[*range(6), 7, 8, 6]],
            ]
            arguments = sums, q[:3].copy(), v[:3], q.copy(), (*given, 9.5 * v)[fault]
            assert_machine_code_equals_python(has_inconsistent_motion, *arguments)
            has_inconsistent_motion(*arguments)
        conventions.add(int(sums.convention))
    assert len(conventions) >= 6


def test_compiled_tick_period_equals_python() -> None:
    rng, sums, com, periods = make_generator("ticks", 0), allocate_displacements(6), np.zeros(3), []
    sums.dt, sums.has_floating_base = 0.01, True
    for k in range(100):
        velocity = rng.normal(1.0, 0.1, 3)
        com = com + velocity * (0.01 if k < 30 else 0.02)
        q, v = np.concatenate([com, [0.0, 0.0, 0.0, 1.0]]), np.concatenate([velocity, np.zeros(3)])
        periods.append(assert_machine_code_equals_python(has_inconsistent_motion, sums, com, velocity, q, v))
        has_inconsistent_motion(sums, com, velocity, q, v)
    assert not any(periods[:30]) and any(periods)
    assert_compiled_equals_python(reset_tick_period, sums)
