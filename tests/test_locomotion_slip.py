"""Slips are detected, and the friction estimate follows from them."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from foot_estimates import FrictionRecords
from raising import raises

import quaddyn as qd
from quaddyn.dynamics import State
from quaddyn.estimation import SlipDetector
from quaddyn.estimation.slip_detector import update_touchdown_variance
from quaddyn.locomotion import LocomotionController, Morphology
from quaddyn.locomotion.friction_model import (
    MIN_FRICTION,
    PYRAMID_FACE_RATIO,
    RECOVERY_TIME,
    SLIP_MARGIN_FRACTION,
    SLIP_SAFETY_FACTOR,
    FrictionModel,
    adapt_friction,
    reset_friction_estimate,
    set_normals,
)
from quaddyn.locomotion.torque_limiter import TorqueLimiter
from quaddyn.locomotion.velocity_limits import FRICTION_SPEED_RATIO, GROUND_FRICTION
from quaddyn.robot import Robot
from quaddyn.wbc import WholeBodyController

DT = 2e-3


def sliding_state(robot: Robot, speed: float) -> State:
    """At home, the whole robot moving forward over the ground."""
    v = np.zeros(robot.nv)
    v[0] = speed
    return qd.Dynamics(robot).update(np.array(robot.q_home), v)


def foot_forces(robot: Robot, ratio: float) -> dict[str, np.ndarray]:
    force = 0.25 * robot.mass * 9.81 * np.array([-ratio, 0.0, 1.0])
    return dict.fromkeys(robot.feet, force)


def test_fast_contact_points_are_slips_that_reveal_friction(solo12: Robot) -> None:
    detector = SlipDetector(solo12, dt=DT, length=0.3)
    still, fast = sliding_state(solo12, 0.02), sliding_state(solo12, 0.5)
    for _ in range(100):
        assert detector.update(still, foot_forces(solo12, 0.3), solo12.feet) == ()
    assert max(detector.slip_probability.values()) < 0.01
    assert detector.friction_estimate is None
    first = next(k for k in range(1, 20) if detector.update(fast, foot_forces(solo12, 0.07), solo12.feet))
    assert first * DT <= 0.01
    for _ in range(20):
        detector.update(fast, foot_forces(solo12, 0.07), ("FL", "RR"))
    assert detector.slipping_feet == ("FL", "RR")
    assert detector.slip_probability["FR"] == 0.0  # in the air
    assert detector.friction_estimate == pytest.approx(0.07, rel=0.05)
    for _ in range(200):
        detector.update(still, foot_forces(solo12, 0.3), solo12.feet)
    assert detector.slipping_feet == ()


def test_rolling_foot_does_not_slip(solo12: Robot) -> None:
    detector, p = SlipDetector(solo12, dt=DT, length=0.3), Morphology.from_robot(solo12)
    v = np.zeros(solo12.nv)
    v[4] = 2.0  # pitches, and its feet roll without slip
    v[0] = 2.0 * float(p.radii[0])
    q = np.array(solo12.q_home)
    s = qd.Dynamics(solo12).update(q, v)
    base = s.placement(solo12.bodies[0].name).translation
    v[0] -= 2.0 * (s.placement("FL").translation[2] - base[2])
    rolls = qd.Dynamics(solo12).update(q, v)
    assert np.linalg.norm(rolls.velocity("FL")[:2]) > 0.02
    for _ in range(100):
        assert detector.update(rolls, {}, ("FL",)) == ()
    assert detector.slip_probability["FL"] < 0.01


def test_friction_estimate_is_bounded_and_recovers_slowly(solo12: Robot) -> None:
    p = Morphology.from_robot(solo12)
    felt, fast, still = FrictionRecords(solo12, DT), sliding_state(solo12, 0.5), sliding_state(solo12, 0.0)
    assert felt.update(still, foot_forces(solo12, 0.3), solo12.feet) == math.inf
    for _ in range(100):
        felt.update(fast, foot_forces(solo12, 0.1), solo12.feet)
    assert felt.estimate.bound == pytest.approx(SLIP_SAFETY_FACTOR * 0.1, rel=0.1)
    for _ in range(100):
        felt.update(fast, foot_forces(solo12, 0.001), solo12.feet)
    assert felt.estimate.bound == pytest.approx(MIN_FRICTION, rel=0.1)
    low, ticks = felt.estimate.bound, 200
    for _ in range(ticks):
        felt.update(still, foot_forces(solo12, 0.0), ())
    growth = 0.5 * ticks * (ticks + 1) * (DT / (RECOVERY_TIME * p.time_scale)) ** 2
    assert felt.estimate.bound == pytest.approx(low * math.exp(growth), rel=1e-6)
    reset_friction_estimate(felt.parameters, felt.estimate)
    assert felt.estimate.bound == math.inf


def test_creep_proportional_to_load_is_not_a_slip(solo12: Robot) -> None:
    """Loaded feet of a soft contact creep at the velocity ``-c f``; only a faster motion is a slip."""
    detector, p = SlipDetector(solo12, dt=DT, length=0.3), Morphology.from_robot(solo12)
    weight, creep = 0.25 * solo12.mass * p.gravity, 0.25 * math.sqrt(p.gravity * 0.3) / (0.25 * solo12.mass * p.gravity)
    for k in range(1500):
        ratio = 0.2 + 0.3 * math.sin(0.01 * k)
        assert (
            detector.update(sliding_state(solo12, creep * ratio * weight), foot_forces(solo12, ratio), solo12.feet)
            == ()
        )
    assert detector.creep_compliance == pytest.approx(creep, rel=0.1)
    for _ in range(30):
        detector.update(sliding_state(solo12, creep * 0.2 * weight + 0.4), foot_forces(solo12, 0.2), solo12.feet)
    assert detector.slipping_feet == solo12.feet
    assert detector.friction_estimate == pytest.approx(0.2, rel=0.05)


def test_variance_of_a_touchdown_decays_and_starts_again_after_more_than_the_longest_gap() -> None:
    model: Any = SimpleNamespace(touchdown_variance=8.0, max_gap=1.0, touchdown_decay=0.5)
    memory: Any = SimpleNamespace(unloaded_updates=[0.0], touchdown_variance=[4.0])
    for is_loaded, variance in ((True, 2.0), (False, 1.0), (True, 0.5), (False, 0.25), (False, 8.0), (True, 4.0)):
        update_touchdown_variance(model, memory, 0, is_loaded)
        assert memory.touchdown_variance == [variance]


@pytest.mark.parametrize(("gap", "detected"), [(1, True), (30, False)])
def test_contact_lost_for_one_reading_is_not_a_touchdown(solo12: Robot, gap: int, detected: bool) -> None:
    """A foot that gathers way at the end of its stance slips; one that lands is braked at first."""
    detector, p = SlipDetector(solo12, dt=DT, length=0.3), Morphology.from_robot(solo12)
    for _ in range(200):
        detector.update(sliding_state(solo12, 0.01), foot_forces(solo12, 0.1), solo12.feet)
    for _ in range(gap):
        detector.update(sliding_state(solo12, 0.1 * p.speed_scale), foot_forces(solo12, 0.1), ())
    for k in range(6):
        speed = (0.12 + 0.02 * k) * p.speed_scale
        detector.update(sliding_state(solo12, speed), foot_forces(solo12, 0.2), solo12.feet)
    assert detector.slipping_feet == (solo12.feet if detected else ())


def test_jolted_foot_that_is_braked_tells_nothing_of_friction(solo12: Robot) -> None:
    """A contact that drops out for one reading jolts a foot, and a soft contact brakes it with less than friction."""
    felt, p = FrictionRecords(solo12, DT), Morphology.from_robot(solo12)
    for _ in range(200):
        felt.update(sliding_state(solo12, 0.01), foot_forces(solo12, 0.04), solo12.feet)
    for k in range(50):
        speed = 0.25 * p.speed_scale * math.exp(-k * DT / (0.09 * p.time_scale))
        felt.update(sliding_state(solo12, speed), foot_forces(solo12, 0.04), solo12.feet)
    assert felt.estimate.bound == math.inf


def test_short_slip_and_single_slip_on_rough_ground_are_ignored(solo12: Robot) -> None:
    felt, fast, still = (
        FrictionRecords(solo12, DT),
        sliding_state(solo12, 0.5),
        sliding_state(solo12, 0.0),
    )
    for _ in range(100):
        felt.update(still, foot_forces(solo12, 0.1), solo12.feet)
    while not felt.slipping_feet:
        felt.update(fast, foot_forces(solo12, 0.05), solo12.feet)
    assert felt.estimate.bound == math.inf  # the slip has to last
    reset_friction_estimate(felt.parameters, felt.estimate)
    for _ in range(60):
        felt.update(fast, foot_forces(solo12, 0.05), ("FL",), is_rough=True)
    assert felt.slipping_feet == ("FL",) and felt.estimate.bound == math.inf
    for _ in range(60):
        felt.update(fast, foot_forces(solo12, 0.05), ("FL", "RR"), is_rough=True)
    assert felt.estimate.bound < 0.1


def test_friction_is_the_minimum_of_nominal_and_bound_except_as_a_slope_requires(solo12: Robot) -> None:
    whole = WholeBodyController(solo12, dt=DT, friction=0.4)
    grip = FrictionModel(whole)
    grip.set_slip_bound(0.08)
    assert whole.friction == pytest.approx(0.08)
    assert grip.is_slippery
    grip.set_slip_bound(0.9)
    assert whole.friction == 0.4
    grip.nominal = 0.05  # also if no slope was estimated
    assert whole.friction == 0.05
    tilted = (-math.sin(0.3), 0.0, math.cos(0.3))
    set_normals(grip.state, np.tile(tilted, (4, 1)))
    adapt_friction(grip.state)
    grip.apply()
    assert whole.friction > math.tan(0.3) / PYRAMID_FACE_RATIO
    grip.set_slip_bound(0.03)
    assert whole.friction == pytest.approx((1.0 + SLIP_MARGIN_FRACTION) * math.tan(0.3) / PYRAMID_FACE_RATIO, abs=0.02)


@pytest.mark.parametrize(("friction", "cut"), [(0.03, True), (0.2, False), (0.6, False)])
def test_known_friction_limits_the_speed(solo12: Robot, friction: float, cut: bool) -> None:
    controller = LocomotionController(solo12, dt=DT, friction=friction)
    p, gait = controller.morphology, controller.gait
    state, wanted = sliding_state(solo12, 0.0), (0.25 * p.speed_scale, 0.0, 0.0)
    command = controller.compute(state, wanted)
    fastest = FRICTION_SPEED_RATIO * 2.0 * p.height * friction / (gait.duty_factor * gait.period * p.time_scale)
    assert (command.limit_reason == GROUND_FRICTION) is cut
    assert command.clamped_velocity[0] == pytest.approx(min(wanted[0], fastest))
    if not cut:  # slips reveal a lower friction
        controller._quadruped.friction_model.set_slip_bound(0.8 * 0.03)
        command = controller.compute(state, wanted)
        assert command.limit_reason == GROUND_FRICTION and command.clamped_velocity[0] < 0.5 * wanted[0]


def test_assumed_friction_does_not_limit_the_speed(solo12: Robot) -> None:
    controller = LocomotionController(solo12, dt=DT)
    wanted = (0.3 * controller.morphology.speed_scale, 0.0, 0.0)
    assert controller.compute(sliding_state(solo12, 0.0), wanted).limit_reason == ""


def test_torque_limiter_does_not_accelerate_joints_above_max_driven_speed(solo12: Robot) -> None:
    guard, v = TorqueLimiter(solo12, Morphology.from_robot(solo12), DT, None), np.zeros(solo12.nv)
    v[6], v[7] = 2.0 * guard.max_driven_speed, -2.0 * guard.max_driven_speed
    state = qd.Dynamics(solo12).update(np.array(solo12.q_home), v)
    tau = guard.clamp(np.array([1.0, -1.0, 1.0] * 4), state)
    assert tau[0] < 0.0 < tau[1]
    np.testing.assert_array_equal(tau[2:], np.array([1.0, -1.0, 1.0] * 4)[2:])


def test_invalid_arguments_are_rejected(solo12: Robot) -> None:
    raises(qd.UnknownNameError, "friction", LocomotionController, solo12, friction="guessed")
    raises(qd.ArgumentError, "length", SlipDetector, solo12, dt=DT, length=0.0)
    with pytest.raises(qd.UnknownNameError, match="foot"):
        SlipDetector(solo12, dt=DT, length=0.3).update(sliding_state(solo12, 0.0), {}, ("XX",))
    for normal in ([[0.0, 0.0, 1.0], [0.0, 1.0]], np.zeros((3, 3)), [0.0, 0.0, np.nan]):
        with pytest.raises(qd.QuaddynError, match="normal"):
            SlipDetector(solo12, dt=DT, length=0.3).update(sliding_state(solo12, 0.0), {}, (), normal=normal)  # type: ignore[arg-type]
