"""Pushed robots step sooner, and wider, and never cross their legs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sparing import NIGHT, others_slow

import quaddyn as qd
from quaddyn.campaigns.pushes import PushCampaign
from quaddyn.campaigns.trial_runner import run_trial
from quaddyn.errors import ArgumentError, UnknownNameError
from quaddyn.locomotion import LocomotionCommand, Proportions
from quaddyn.locomotion.course import Course, Preview
from quaddyn.locomotion.footwork import INWARDS, OUTWARDS, Footwork
from quaddyn.locomotion.gait import Clock
from quaddyn.locomotion.grip import FACE, Grip
from quaddyn.locomotion.ground import GroundPlane
from quaddyn.locomotion.pace import MOST, ROOM, Pace
from quaddyn.locomotion.proportions import FEET
from quaddyn.locomotion.stretch import Stretch
from quaddyn.locomotion.trunk import HURRIED_BASE, PUSH, Trunk
from quaddyn.simulation import Plant
from quaddyn.wbc import WholeBodyController

DT = 1e-3


@pytest.fixture(scope="module")
def go2() -> Proportions:
    return Proportions.of(qd.load("go2"))


def walking(gait: str, p: Proportions) -> Clock:
    """A clock in the middle of its gait."""
    clock = Clock(gait, p.time)
    clock.start()
    for _ in range(round(12.0 * clock.period / DT)):
        clock.advance(DT)
    return clock


@pytest.mark.parametrize("gait", ["trot", "walk", "crawl", "pace", "bound"])
def test_an_error_does_not_grow_over_steps_of_the_duration_that_is_chosen_for_it(gait: str, go2: Proportions) -> None:
    p, clock, pace = go2, walking(gait, go2), Pace(go2)
    own, before = clock.period, 1.0
    for away in np.linspace(0.0, 1.0, 101) * p.length:
        pace.adapt(clock, (0.6 * away, -0.8 * away))
        assert before <= clock.haste <= MOST and clock.period * clock.haste == pytest.approx(own)
        before = clock.haste
        growth = away * (math.exp(p.frequency * clock.swing_time) - 1.0)
        if clock.haste < MOST:
            assert growth < ROOM * p.length * (1.0 + 1e-9)
        if 1.0 < clock.haste < MOST:
            assert growth == pytest.approx(ROOM * p.length)
    assert clock.haste == MOST
    pace.adapt(clock, (0.0, 0.0))
    assert clock.period == own


def test_small_errors_leave_the_gait_its_own_time_to_the_last_bit(go2: Proportions) -> None:
    clock, pace = walking("trot", go2), Pace(go2)
    own = clock.period
    pace.adapt(clock, (0.08 * go2.length, 0.0))
    assert clock.haste == 1.0 and clock.period == own


def test_who_falls_freely_is_not_hurried(go2: Proportions) -> None:
    clock = walking("running_trot", go2)
    assert not clock.thrust.steady
    Pace(go2).adapt(clock, (go2.length, 0.0))
    assert clock.haste == 1.0


def test_joints_too_slow_for_a_shorter_swing_keep_the_gaits_own() -> None:
    slow = Proportions.of(qd.load("go2", limits={name: {"velocity": 3.0} for name in qd.load("go2").actuated}))
    clock = walking("trot", slow)
    Pace(slow).adapt(clock, (slow.length, 0.0))
    assert clock.haste == 1.0


def test_swings_are_whole_however_the_haste_changes(go2: Proportions) -> None:
    rng, clock = np.random.default_rng(0), walking("trot", go2)
    done: dict[int, float] = {}  # by foot in the air since it lifted: the share of its swing that has passed
    before, landed = clock.stance, 0
    for k in range(6000):
        if k % 7 == 0:
            clock.haste = rng.uniform(1.0, MOST)
        share = DT / clock.swing_time
        clock.advance(DT)
        stance = clock.stance
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
def test_a_foothold_is_on_its_own_side_of_the_foot_beside_it(seed: int, go2: Proportions) -> None:
    p, rng, footwork = go2, np.random.default_rng(seed), Footwork(go2, Stretch(qd.load("go2"), go2).reach)
    for _ in range(300):
        i, yaw = int(rng.integers(4)), rng.uniform(-math.pi, math.pi)
        x, y, u, v = rng.uniform(-1.0, 1.0, 4) * p.length
        side, half = math.copysign(1.0, p.stance[i, 1]), abs(float(p.stance[i, 1]))
        place = footwork._within_reach(i, x, y, yaw, 1.0, (u, v))
        left = np.array([-math.sin(yaw), math.cos(yaw)])
        out, other = side * float(left @ place), side * float(left @ [u, v])
        assert out >= max(0.0, other) + (1.0 - INWARDS) * half - 1e-12
        assert out <= max(half + OUTWARDS * p.length, other + (1.0 - INWARDS) * half) + 1e-12


def test_trunks_give_way_and_push_as_hard_as_friction_allows_while_a_robot_hurries_and_only_then(
    go2: Proportions,
) -> None:
    p, robot = go2, qd.load("go2")
    body, state = WholeBodyController(robot), qd.Dynamics(robot).update(np.array(robot.q_home), np.zeros(robot.nv))
    grip, ground = Grip(body), GroundPlane.under(state.origins(FEET), go2.radii, 1.0)
    trunk, course = Trunk(p, body, grip, p.height), Course(ground.points[:, :2].mean(axis=0), 0.0)
    reference = Preview(p).reference(Clock("trot", p.time), course, ground.points[:, :2], p.stance)
    com, away = tuple(state.com), (0.0, 10.0 * p.speed, 0.0)
    own = np.array(body.tasks["base"].weight)
    for hurried, share, most in (
        (False, 1.0, FACE),
        (True, HURRIED_BASE, 1.0),
        (True, HURRIED_BASE, 1.0),
        (False, 1.0, FACE),
    ):
        trunk.guide(reference, course, ground, com, away, np.eye(3), DT, hurried=hurried)
        assert np.allclose(body.tasks["base"].weight, share * own)
        pushed = body.tasks["com"].reference_acceleration[:2]  # type: ignore[attr-defined]
        assert np.linalg.norm(pushed) == pytest.approx(PUSH * most * grip.friction * p.gravity, rel=1e-6)
    trunk.give_way()  # in flight, from a hurry and back
    trunk.guide(reference, course, ground, com, away, np.eye(3), DT, hurried=True)
    assert np.allclose(body.tasks["base"].weight, HURRIED_BASE * own)
    trunk.give_way()
    assert np.all(body.tasks["base"].weight < 1e-2 * own)
    trunk.end()
    assert np.array_equal(body.tasks["base"].weight, own)


@pytest.mark.parametrize("number", others_slow([2, 6], [2]))  # from the left and from the right
def test_pushes_of_a_third_of_the_unit_of_speed_are_recovered_from_without_crossing_legs(number: int) -> None:
    case = PushCampaign(dt=2e-3 if NIGHT else 4e-3).case("go2", "trot", 0.35, "embedded", number)
    dynamics, gaps, modes = qd.Dynamics(qd.load("go2")), [], set()

    def watch(plant: Plant, command: LocomotionCommand) -> None:
        modes.add(command.mode)
        if plant.time > case.push_time:
            s = dynamics.update(np.array(plant.q), np.array(plant.v))
            feet, yaw = s.origins(("FL", "FR", "RL", "RR")), Proportions.of(dynamics.robot).yaw(plant.q)
            gaps.append((feet[::2] - feet[1::2])[:, :2] @ [-math.sin(yaw), math.cos(yaw)])

    record = run_trial(case, watch)
    assert record["success"], record["reason"]
    assert np.min(gaps) > 0.0


def test_the_same_number_is_the_same_push_at_the_same_phase() -> None:
    campaign = PushCampaign(robot=("go2", "hyq"), gaits=("trot", "stand"), sizes=(0.2, 0.5), trials=9)
    assert len(list(campaign.cases())) == campaign.count() == 2 * 2 * 2 * 2 * 9
    weak, hard = (campaign.case("go2", "trot", size, "embedded", 3) for size in (0.2, 0.5))
    assert (weak.push_time, weak.push_direction, weak.velocity) == (hard.push_time, hard.push_direction, hard.velocity)
    assert hard.push == pytest.approx(2.5 * weak.push)
    a, b = (Proportions.of(qd.load(name)) for name in ("go2", "hyq"))
    other = campaign.case("hyq", "trot", 0.2, "mujoco", 3)
    assert other.push_time / b.time == pytest.approx(weak.push_time / a.time)
    assert campaign.case("go2", "stand", 0.2, "embedded", 3).velocity == (0.0, 0.0, 0.0)


def test_bad_pushes_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="gait"):
        PushCampaign(gaits=("tort",))
    with pytest.raises(ArgumentError, match=r"sizes: expected positive numbers, got \(0.0,\)"):
        PushCampaign(sizes=(0.0,))
    with pytest.raises(ArgumentError, match="trials: expected at least 1, got 0"):
        PushCampaign(trials=0)
