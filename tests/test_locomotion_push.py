"""Pushed robots step earlier and wider, and do not cross their legs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from raising import raises

import quaddyn as qd
from quaddyn.campaigns.walking_campaigns import PushCampaign
from quaddyn.errors import ArgumentError, UnknownNameError
from quaddyn.locomotion import Morphology
from quaddyn.locomotion.com_preview import allocate_com_reference, make_preview_parameters, update_com_reference
from quaddyn.locomotion.footwork import (
    MAX_INWARD_FRACTION,
    MAX_OUTWARD_OFFSET,
    Footwork,
    allocate_balance,
    compute_nominal_foothold,
)
from quaddyn.locomotion.friction_model import PYRAMID_FACE_RATIO, FrictionModel
from quaddyn.locomotion.gait import GaitScheduler
from quaddyn.locomotion.ground_plane import GroundPlane, allocate_ground_state
from quaddyn.locomotion.leg_margins import measure_leg_lengths
from quaddyn.locomotion.morphology import FEET, make_body_parameters
from quaddyn.locomotion.motion import allocate_motion
from quaddyn.locomotion.path_reference import PathReference
from quaddyn.locomotion.trunk_controller import (
    FAST_STEP_BASE_FRACTION,
    GROUND_FORCE_FRACTION,
    TrunkController,
    update_trunk_references,
)
from quaddyn.locomotion.walking import MAX_FOOTHOLD_SHIFT, MAX_RATE_SCALE, adapt_step_timing
from quaddyn.wbc import WholeBodyController

DT = 1e-3


def make_running_scheduler(gait: str, p: Morphology) -> GaitScheduler:
    """Returns a scheduler after some cycles of its gait."""
    clock = GaitScheduler(gait, p.time_scale)
    clock.start()
    for _ in range(round(12.0 * clock.period / DT)):
        clock.advance(DT)
    return clock


def adapt(clock: GaitScheduler, p: Morphology, x: float, y: float) -> None:
    """Adapts the step timing to an error of the divergent component."""
    adapt_step_timing(clock.state, make_body_parameters(p), p.joint_speed, float(x), float(y))


@pytest.mark.parametrize("gait", ["trot", "walk", "crawl", "pace", "bound"])
def test_error_does_not_grow_over_steps_of_adapted_duration(gait: str, morphology: Morphology) -> None:
    p, clock = morphology, make_running_scheduler(gait, morphology)
    own, before = clock.period, 1.0
    for away in np.linspace(0.0, 1.0, 101) * p.length:
        adapt(clock, p, 0.6 * away, -0.8 * away)
        assert before <= clock.rate_scale <= MAX_RATE_SCALE and clock.period * clock.rate_scale == pytest.approx(own)
        before = clock.rate_scale
        growth = away * (math.exp(p.natural_frequency * clock.swing_time) - 1.0)
        if clock.rate_scale < MAX_RATE_SCALE:
            assert growth < MAX_FOOTHOLD_SHIFT * p.length * (1.0 + 1e-9)
        if 1.0 < clock.rate_scale < MAX_RATE_SCALE:
            assert growth == pytest.approx(MAX_FOOTHOLD_SHIFT * p.length)
    assert clock.rate_scale == MAX_RATE_SCALE
    adapt(clock, p, 0.0, 0.0)
    assert clock.period == own


def test_step_timing_of_flight_gaits_is_not_adapted(morphology: Morphology) -> None:
    clock = make_running_scheduler("running_trot", morphology)
    assert not clock.vertical_force_profile.is_constant
    adapt(clock, morphology, morphology.length, 0.0)
    assert clock.rate_scale == 1.0


def test_swings_are_complete_under_varying_rate_scale(morphology: Morphology) -> None:
    rng, clock = np.random.default_rng(0), make_running_scheduler("trot", morphology)
    done: dict[int, float] = {}  # by swing foot: the completed fraction of its swing
    before, landed = clock.stance_mask, 0
    for k in range(6000):
        if k % 7 == 0:
            clock.rate_scale = rng.uniform(1.0, MAX_RATE_SCALE)
        share = DT / clock.swing_time
        clock.advance(DT)
        stance = clock.stance_mask
        done = {i: passed + share for i, passed in done.items()}
        for i in range(4):
            if before[i] and not stance[i]:
                done[i] = 0.0
            elif stance[i] and i in done:
                assert abs(done.pop(i) - 1.0) <= 1.5 * share
                landed += 1
        before = stance
    assert landed > 50


@pytest.mark.parametrize("seed", range(3))
def test_foothold_does_not_cross_the_neighboring_foot(seed: int, morphology: Morphology) -> None:
    p, rng, footwork = (
        morphology,
        np.random.default_rng(seed),
        Footwork(morphology, measure_leg_lengths(qd.load("go2"))),
    )
    path, scheduler, motion = PathReference(np.zeros(2), 0.0), GaitScheduler("trot", p.time_scale), allocate_motion()
    ground, balance = allocate_ground_state(), allocate_balance()  # the foothold of the path is its position
    for _ in range(300):
        i, yaw = int(rng.integers(4)), rng.uniform(-math.pi, math.pi)
        x, y, u, v = rng.uniform(-1.0, 1.0, 4) * p.length
        side, half = math.copysign(1.0, p.nominal_stance[i, 1]), abs(float(p.nominal_stance[i, 1]))
        path.position, ground.points[i ^ 1, :2], motion.yaw = np.array([x, y]), (u, v), yaw
        compute_nominal_foothold(
            footwork.state, make_body_parameters(p), scheduler.state, path.state, ground, motion, balance, i
        )
        place = footwork.state.request.nominal
        left = np.array([-math.sin(yaw), math.cos(yaw)])
        out, other = side * float(left @ place), side * float(left @ [u, v])
        assert out >= max(0.0, other) + (1.0 - MAX_INWARD_FRACTION) * half - 1e-12
        assert out <= max(half + MAX_OUTWARD_OFFSET * p.length, other + (1.0 - MAX_INWARD_FRACTION) * half) + 1e-12


def test_base_weight_is_reduced_and_friction_fully_used_only_during_fast_stepping(
    morphology: Morphology,
) -> None:
    p, robot = morphology, qd.load("go2")
    body, state = WholeBodyController(robot), qd.Dynamics(robot).update(np.array(robot.q_home), np.zeros(robot.nv))
    grip, ground = FrictionModel(body), GroundPlane(state.origins(FEET))
    trunk, course = TrunkController(p, body, grip, p.height), PathReference(ground.points[:, :2].mean(axis=0), 0.0)
    reference, clock, motion = allocate_com_reference(), GaitScheduler("trot", p.time_scale), allocate_motion()
    records = clock.state, course.state, p.nominal_stance, ground.points, np.zeros((2, 3)), reference
    update_com_reference(make_preview_parameters(p), *records)
    motion.com, motion.velocity = state.com, (0.0, 10.0 * p.speed_scale, 0.0)  # type: ignore[assignment]
    motion.R_base = np.eye(3)  # type: ignore[assignment]

    def update(hurried: bool) -> None:
        trunk.state.is_stepping_fast = hurried
        records = reference, course.state, ground.state, make_body_parameters(p), motion, grip.state
        update_trunk_references(trunk.state, *records, DT)
        trunk.write_references()

    own = np.array(body.tasks["base"].weight)
    for hurried, share, most in (
        (False, 1.0, PYRAMID_FACE_RATIO),
        (True, FAST_STEP_BASE_FRACTION, 1.0),
        (True, FAST_STEP_BASE_FRACTION, 1.0),
        (False, 1.0, PYRAMID_FACE_RATIO),
    ):
        update(hurried)
        assert np.allclose(body.tasks["base"].weight, share * own)
        pushed = body.tasks["com"].reference_acceleration[:2]  # type: ignore[attr-defined]
        assert np.linalg.norm(pushed) == pytest.approx(
            GROUND_FORCE_FRACTION * most * grip.friction * p.gravity, rel=1e-6
        )
    trunk.reduce_base_weight()  # in flight, from fast stepping and back
    update(True)
    assert np.allclose(body.tasks["base"].weight, FAST_STEP_BASE_FRACTION * own)
    trunk.reduce_base_weight()
    assert np.all(body.tasks["base"].weight < 1e-2 * own)
    trunk.restore_base_weight()
    assert np.array_equal(body.tasks["base"].weight, own)


def test_case_number_determines_push_and_gait_phase() -> None:
    raises(qd.ArgumentError, "duration: expected more than 0 and at most 1 s, got 100 s", PushCampaign, duration=100.0)
    campaign = PushCampaign(robot=("go2", "hyq"), gaits=("trot", "stand"), sizes=(0.2, 0.5), trials=9)
    assert len(list(campaign.cases())) == campaign.count() == 2 * 2 * 2 * 2 * 9
    weak, hard = (campaign.case("go2", "trot", size, "embedded", 3) for size in (0.2, 0.5))
    assert (weak.push_time, weak.push_direction, weak.velocity) == (hard.push_time, hard.push_direction, hard.velocity)
    assert hard.push == pytest.approx(2.5 * weak.push)
    a, b = (Morphology.from_robot(qd.load(name)) for name in ("go2", "hyq"))
    other = campaign.case("hyq", "trot", 0.2, "mujoco", 3)
    assert other.push_time / b.time_scale == pytest.approx(weak.push_time / a.time_scale)
    assert campaign.case("go2", "stand", 0.2, "embedded", 3).velocity == (0.0, 0.0, 0.0)


def test_invalid_push_campaigns_are_rejected() -> None:
    raises(UnknownNameError, "gait", PushCampaign, gaits=("tort",))
    raises(ArgumentError, r"sizes: expected positive numbers, got \(0.0,\)", PushCampaign, sizes=(0.0,))
    raises(ArgumentError, "trials: expected at least 1, got 0", PushCampaign, trials=0)
