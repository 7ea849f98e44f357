"""Trials depend only on their cases, disturbances have the given size, and campaigns the declared number of cases."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from raising import raises

import quaddyn as qd
from quaddyn.campaigns import trial_campaign
from quaddyn.campaigns.campaign import Campaign, decode, encode, encode_record, find, names
from quaddyn.campaigns.trial import Trial
from quaddyn.campaigns.trial_campaign import robot_proportions
from quaddyn.campaigns.trial_runner import RunEvaluation, make_sensors, make_trial_setup, run_trial, with_trunk_load
from quaddyn.campaigns.walking_campaigns import (
    DISTURBANCES,
    FrictionDropCampaign,
    GaitCampaign,
    RobustnessCampaign,
    SlopeCampaign,
    SweepCampaign,
    VelocityLimitCampaign,
)
from quaddyn.locomotion import LocomotionController, LocomotionMode, Morphology

SHORT: dict[str, Any] = {"robot": "go2", "dt": 4e-3, "seconds": 0.5, "averaging_time": 0.2, "velocity": (0.3, 0.1, 0.0)}

#: Runs a trial on the next day with other seeds of the global random generators.
CHILD = """
import random, sys, time
import numpy as np
now, perf_counter = time.time, time.perf_counter
time.time, time.perf_counter = (lambda: now() + 86400.0), (lambda: perf_counter() + 86400.0)
random.seed(1)
np.random.seed(1)
from quaddyn.campaigns.trial_runner import run_trial
from quaddyn.campaigns.campaign import decode, encode_record
from quaddyn.campaigns import trial_campaign
from quaddyn.campaigns.trial import Trial
print(encode_record(run_trial(decode(Trial, sys.argv[1]))))
"""


def test_trials_in_one_batch_have_the_records_of_single_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    first = Trial(**SHORT | {"seconds": 1.2})
    cases = [
        first,
        dataclasses.replace(first, velocity=(0.0, 0.1, 0.4), max_velocity_error=0.2, seconds=0.9),
        dataclasses.replace(first, friction=0.4, slip_friction=0.3, slip_time=0.6, slip_duration=0.2),
        dataclasses.replace(first, velocity=(1.0, 0.0, 1.0), slip_friction=1e-3, slip_time=0.6, seconds=3.0),  # falls
        dataclasses.replace(first, push=0.2, push_time=0.3, seconds=0.5),
        dataclasses.replace(first, gait="walk", seconds=0.5),
        dataclasses.replace(first, gait="walk", seconds=0.7, averaging_time=0.4),
        dataclasses.replace(first, options=(("controller.payload", "estimated"),), seconds=0.3),
        dataclasses.replace(first, options=(("controller.payload", "estimated"),), seconds=0.4),
    ]
    alone: list[Trial] = []
    monkeypatch.setattr(trial_campaign, "run_trial", lambda case: alone.append(case) or run_trial(case))
    records = VelocityLimitCampaign(robot=("go2",)).run_batch(cases)
    assert [encode_record(record) for record in records] == [encode_record(run_trial(case)) for case in cases]
    assert records[3]["fell"] is not None and alone == [cases[i] for i in (3, 4, 7, 8)]


def test_record_depends_only_on_the_case() -> None:
    short = SHORT | {"seconds": 0.3, "averaging_time": 0.1}
    case = Trial(**short, push=0.3, push_time=0.1, noise_scale=1.0, delay=4e-3, seed=3, number=7)
    other = Trial(**short, payload=2.0, strips=0.02)
    first = encode_record(run_trial(case))
    assert encode_record(run_trial(other)) != first
    assert encode_record(run_trial(case)) == first
    other_hashes = {**os.environ, "PYTHONHASHSEED": "12345", "TZ": "Pacific/Auckland"}
    answer = subprocess.run(
        [sys.executable, "-c", CHILD, encode(case)],
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        env=other_hashes,
    )
    assert answer.stdout.strip() == first, answer.stderr
    assert encode_record(run_trial(dataclasses.replace(case, number=8))) != first  # other noise


def test_fall_ends_the_run_with_a_reason() -> None:
    record = run_trial(Trial(robot="go2", seconds=3.0, averaging_time=1.0, push=3.0, push_direction=1.5, push_time=0.1))
    assert record["success"] is False and record["velocity_ratio"] is None and record["cost"] is None
    assert 0.1 < float(record["fell"] or 0.0) < 2.0 and "feet due on the ground" in str(record["reason"])


def test_friction_drops_at_slip_time_and_a_fall_is_simulated_for_one_more_second() -> None:
    """With friction 0.005 the robot falls; the run continues for 1 s, and motor power is recorded in that time."""
    seen: list[tuple[float, float, LocomotionMode]] = []
    case = Trial(
        robot="go2", velocity=(0.5, 0.0, 0.5), friction=0.7, slip_friction=0.005, slip_time=0.6, slip_duration=4.0,
        seconds=4.0, averaging_time=0.5,
    )  # fmt: skip
    record = run_trial(case, lambda plant, command: seen.append((plant.time, plant.friction, command.mode)))
    assert all(mu == (0.005 if t >= 0.6 - 1e-9 else 0.7) for t, mu, _ in seen)
    fell = float(record["fell"] or 0.0)
    assert record["success"] is False and 0.6 < fell < 2.9
    assert seen[-1][0] == pytest.approx(fell + 1.0, abs=3e-3) and seen[-1][2] is LocomotionMode.FALLEN
    assert 0.05 < float(record["peak_motor_power"] or 0.0) < 10.0 and record["predicted_slope_limit"] is None
    assert record["flagged"] <= 1.0 and record["power"] is None  # type: ignore[operator]


def test_friction_is_restored_after_slip_duration() -> None:
    seen: dict[float, float] = {}
    case = dataclasses.replace(Trial(**SHORT), slip_friction=0.3, slip_time=0.1, slip_duration=0.2)
    record = run_trial(case, lambda plant, command: seen.update({round(plant.time, 6): plant.friction}))
    assert {t: mu for t, mu in seen.items() if (mu == 0.3) != (0.0999 < t < 0.2999)} == {}
    assert set(seen.values()) == {0.3, 0.6} and record["peak_motor_power"] is not None
    assert run_trial(Trial(**SHORT))["peak_motor_power"] is None


@pytest.mark.parametrize(("friction", "said"), [(0.5, ""), (0.2, "friction of the ground")])
def test_record_contains_the_predicted_slope_limit(friction: float, said: str) -> None:
    case = dataclasses.replace(Trial(**SHORT), seconds=0.02, averaging_time=0.01, slope=0.25, friction=friction)
    assert run_trial(case)["predicted_slope_limit"] == said


def test_friction_drop_cases_are_the_same_for_all_robots_and_plants() -> None:
    campaign = FrictionDropCampaign(robot=("go2", "anymal_c"), trials=2)
    cases = list(campaign.cases())
    assert len(set(cases)) == len(cases) == campaign.count() == 2 * 2 * 3 * 2 * 2
    for number in range(2):
        those = [case for case in cases if case.number == number]
        ways = {round(math.atan2(case.velocity[1], case.velocity[0]), 9) for case in those}
        moments = {round(case.slip_time / robot_proportions(case.robot).time_scale, 9) for case in those}
        assert len(ways) == len(moments) == len({case.velocity[2] for case in those}) == 1
    assert {case.slip_friction for case in cases} == {0.2, 0.1, 0.03} and {case.slip_duration for case in cases} == {
        0.0,
        1.0,
    }
    assert {case.options for case in cases} == {(("controller.friction", by),) for by in ("nominal", "estimated")}
    for wrong in ({"slips": ("mud",)}, {"friction": ("guessed",)}, {"plants": ("bullet",)}):
        with pytest.raises(qd.UnknownNameError):
            FrictionDropCampaign(**wrong)  # type: ignore[arg-type]
    for bad in (
        lambda: FrictionDropCampaign(trials=0),
        lambda: SlopeCampaign(friction=(0.0,)),
        lambda: Trial(robot="go2", slip_friction=-0.1),
    ):
        with pytest.raises(qd.ArgumentError):
            bad()


def test_velocity_limit_campaign_draws_velocities_within_limits_reproducibly() -> None:
    campaign = VelocityLimitCampaign(robot=("go2", "a1"), gaits=("trot", "bound"), trials=3, seconds=4.0)
    cases = list(campaign.cases())
    assert cases == list(campaign.cases()) and len(set(cases)) == len(cases) == campaign.count() == 2 * 2 * 3
    made = {of: LocomotionController(qd.load(of[0]), gait=of[1]) for of in {(c.robot, c.gait) for c in cases}}
    for case in cases:
        controller = made[case.robot, case.gait]
        np.testing.assert_array_equal(controller.clamp_velocity(case.velocity), case.velocity)
        most = controller.clamp_velocity(np.multiply(case.velocity, 100.0))
        assert 0.3 <= case.velocity[0] / most[0] <= 1.0
        assert case.seconds == 4.0 == 2.0 * case.averaging_time
    assert len({case.velocity for case in cases if case.robot == "go2" and case.gait == "trot"}) == 3
    for wrong in ({"gaits": ("moonwalk",)}, {"plants": ("bullet",)}):
        with pytest.raises(qd.UnknownNameError):
            VelocityLimitCampaign(**wrong)  # type: ignore[arg-type]
    for bad in (lambda: VelocityLimitCampaign(trials=0), lambda: VelocityLimitCampaign(seconds=0.0)):
        with pytest.raises(qd.ArgumentError):
            bad()


def test_velocity_limit_campaign_omits_gaits_that_a_robot_cannot_use() -> None:
    campaign = VelocityLimitCampaign(robot=("anymal_c", "go2"), gaits=("bound", "trot"), trials=2)
    cells = {(case.robot, case.gait) for case in campaign.cases()}
    assert cells == {("anymal_c", "trot"), ("go2", "bound"), ("go2", "trot")} and campaign.count() == 2 * len(cells)
    raises(qd.ArgumentError, "quadruped", VelocityLimitCampaign(robot=("ur5",)).count)


@pytest.mark.parametrize("payload", [0.0, 3.0])
def test_com_offset_of_a_case_is_applied(go2: qd.Robot, payload: float) -> None:
    p = Morphology.from_robot(go2)
    case = Trial(robot="go2", payload=payload, com_offset=0.02, com_offset_direction=0.5)
    real = with_trunk_load(go2, p, case)
    q = np.array(go2.q_home)
    before, after = (qd.Dynamics(robot).center_of_mass(q) for robot in (go2, real))
    assert real.mass == pytest.approx(go2.mass + payload, rel=1e-12)
    assert (after - before)[:2] == pytest.approx([0.02 * math.cos(0.5), 0.02 * math.sin(0.5)], abs=1e-9)
    # Model and record agree: Pinocchio's inverse dynamics and the mass of the bodies.
    assert qd.Dynamics(real).crba(q)[0, 0] == pytest.approx(real.mass, rel=1e-12)


def test_model_error_is_bounded_and_the_same_for_every_plant(go2: qd.Robot) -> None:
    case = Trial(robot="go2", model_error=0.25)
    real, again = (
        make_trial_setup(dataclasses.replace(case, plant=plant), go2, np.random.default_rng(3)).plant.robot
        for plant in ("embedded", "mujoco")
    )
    masses = np.array([b.inertial.mass / a.inertial.mass for a, b in zip(go2.bodies, real.bodies, strict=True)])
    assert masses.min() >= 0.8 and masses.max() <= 1.25 and np.ptp(masses) > 0.2
    radii = np.array([real.legs[foot].foot.radius / go2.legs[foot].foot.radius for foot in go2.feet])
    assert 0.7 <= radii.min() < radii.max() <= 1.3
    assert (real.armature[6:] > go2.armature[6:]).all() and (real.damping[6:] > go2.damping[6:]).all()
    assert real.mass == again.mass and real.armature.tolist() == again.armature.tolist()
    assert (
        make_trial_setup(dataclasses.replace(case, model_error=0.0), go2, np.random.default_rng(3)).plant.robot is go2
    )


@pytest.mark.parametrize("kind", [name for name in DISTURBANCES])
def test_robot_stands_at_the_start_of_every_disturbance(go2: qd.Robot, kind: str) -> None:
    """No foot starts inside the ground or in the air: after 25 steps contact forces equal the weight."""
    case = RobustnessCampaign(robot="go2", disturbances=(kind,), plants=("embedded",), trials=1).case(
        kind, "embedded", 3
    )
    assert decode(Trial, encode(case)) == case and hash(case) == hash(decode(Trial, encode(case)))
    made = make_trial_setup(case, go2, np.random.default_rng(0))
    dynamics = qd.Dynamics(made.robot)
    for _ in range(25):
        state = dynamics.update(np.array(made.plant.q), np.array(made.plant.v))
        made.plant.step(made.controller.compute(state).tau)
    carried = sum(force[2] for force in made.plant.contact_forces.values())
    assert carried == pytest.approx(made.plant.robot.mass * 9.81, rel=0.15)


def test_disturbance_depends_only_on_its_number() -> None:
    campaign = RobustnessCampaign(robot="solo12", trials=2)
    cases = list(campaign.cases())
    assert len(cases) == campaign.count() == 2 * 2 * (len(DISTURBANCES) - 1) == len(set(cases))
    for a, b in zip(cases[::2], cases[1::2], strict=True):
        assert a == dataclasses.replace(b, plant="embedded") and a != b
    larger = RobustnessCampaign(robot="solo12", disturbances=("push",), size=0.9).case("push", "embedded", 1)
    usual = campaign.case("push", "embedded", 1)
    assert (
        larger == dataclasses.replace(usual, push=0.9)
        and usual.push_time != campaign.case("push", "mujoco", 0).push_time
    )
    # The cases of a smaller campaign are a subset, and both may use one store.
    assert set(RobustnessCampaign(robot="solo12", trials=1).cases()) < set(cases)
    assert (
        campaign.model_hash()
        == RobustnessCampaign(robot="solo12", trials=1).model_hash()
        != RobustnessCampaign().model_hash()
    )


def test_sweep_changes_one_option_and_nothing_else() -> None:
    sweep = SweepCampaign(robot="go2", option="gait.duty_factor", values=(0.6, 0.7), trials=2, disturbance="friction")
    cases = list(sweep.cases())
    assert len(cases) == sweep.count() == 4
    assert cases[0].options == (("gait.duty_factor", 0.6),)
    assert dataclasses.replace(cases[1], options=cases[0].options) == cases[0]
    made = make_trial_setup(cases[1], qd.load("go2"), np.random.default_rng(0))
    assert made.controller.gait.duty_factor == 0.7
    stiff = Trial(
        robot="go2", options=(("plant.contact", "compliant"), ("plant.stiffness", 9e3), ("controller.friction", 0.3))
    )
    made = make_trial_setup(stiff, qd.load("go2"), np.random.default_rng(0))
    assert made.controller.wbc.friction == 0.3
    assert next(SweepCampaign(option="dt", values=(1e-3,), trials=1).cases()).dt == 1e-3


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Trial(robot="go2", slope=0.1, step=0.1), "slope and step"),
        (lambda: Trial(robot="go2", push=-1.0), "push"),
        (lambda: Trial(robot="go2", torque_scale=0.0), "torque_scale"),
        (lambda: Trial(robot="go2", averaging_time=9.0), "averaging_time"),
        (lambda: Trial(robot="go2", plant="bullet"), "plant"),
        (lambda: RobustnessCampaign(disturbances=("pussh",)), "push"),
        (lambda: RobustnessCampaign(size=1.0), "size"),
        (lambda: RobustnessCampaign(plants=("bullet",)), "plant"),
        (lambda: GaitCampaign(gaits=("moonwalk",)), "gait"),
        (lambda: SweepCampaign(option="controller.frictoin"), "controller.friction"),
        (lambda: SweepCampaign(option="plant.integrator", plant="mujoco", disturbance="nix"), "disturbance"),
        (lambda: SweepCampaign(values=()), "values"),
    ],
)
def test_invalid_options_are_rejected_before_any_run(make: Callable[[], object], message: str) -> None:
    raises(qd.QuaddynError, message, make)


def test_campaigns_are_registered_and_their_options_are_serialized() -> None:
    for name in ("verification", "datasheet", "gaits", "robustness", "sweep"):
        kind: type[Campaign[Any]] = find(name)
        raises(TypeError, "positional", kind, ())
        assert name in names() and kind.name == name
        assert decode(kind, encode(kind())) == kind() and json.loads(encode(kind()))


class RecordingViewer:
    """Viewer that records its calls."""

    def __init__(self) -> None:
        self.terrains: list[Any] = []
        self.frames: list[dict[str, Any]] = []

    def show_terrain(self, terrain: Any) -> None:
        self.terrains.append(terrain)

    def show(self, q: np.ndarray, **options: Any) -> None:
        self.frames.append({"q": q.copy(), **options})


def test_replay_shows_the_terrain_of_its_case_and_the_reason() -> None:
    case = Trial(**SHORT, boxes=0.02, seed=2, number=1)
    drawn = RecordingViewer()
    record = RobustnessCampaign().replay(case, drawn)  # type: ignore[arg-type]
    assert encode_record(record) == encode_record(run_trial(case))
    (terrain,) = drawn.terrains
    heights = [s.size[2] for s in terrain.surfaces[1:]]
    assert len(heights) > 10 and set(heights) == {0.02}
    assert len(drawn.frames) == 16  # 30 Hz for 0.5 s, and the last frame
    assert record["reason"] == "slower than 70 % of the command"
    assert drawn.frames[-1]["caption"] == "0.50 s, slower than 70 % of the command"


def test_motor_power_counts_only_positive_power(go2: qd.Robot) -> None:
    v, tau = np.zeros(go2.nv), np.zeros(go2.nu)
    v[6:9], tau[:3] = (2.0, -1.0, 3.0), (4.0, 5.0, 0.5)
    plant = SimpleNamespace(robot=go2, q=np.array(go2.q_home), v=v, tau=tau)
    made = SimpleNamespace(plant=plant, controller=SimpleNamespace(morphology=Morphology.from_robot(go2)))
    figures = RunEvaluation(
        Trial(robot="go2", seconds=0.1, averaging_time=0.1, dt=2e-3), made.plant, made.controller.morphology
    )
    for _ in range(4):
        figures.add(SimpleNamespace(ok=True, requested_velocity=np.zeros(3)))
    assert figures._power_sum / figures._evaluated_ticks == pytest.approx(2.0 * 4.0 + 3.0 * 0.5) == figures._peak_power


@pytest.mark.parametrize("size", [0.0, 2.0])
def test_noise_of_every_sensor_scales_with_noise_scale(go2: qd.Robot, size: float) -> None:
    def numbers(noise: float) -> dict[str, float]:
        made = make_sensors(go2, Trial(**SHORT, noise_scale=noise), np.random.default_rng(0))
        settings = (
            *((made.imu, each.name) for each in dataclasses.fields(made.imu)),
            (made.encoders, "position_noise"),
        )
        return {
            name: getattr(of, name) for of, name in (*settings, (made.encoders, "velocity_noise")) if name != "frame"
        }

    one, other = numbers(1.0), numbers(size)
    assert len(one) == 8 and min(one.values()) > 0.0
    assert other == pytest.approx({name: size * value for name, value in one.items()})


def test_cases_and_options_of_earlier_versions_are_read_under_their_new_names() -> None:
    old = '{"robot":"go2","seconds":0.2,"measured":0.1,"progress":0.0,"miss":0.3,"com":0.01,"strength":0.9}'
    case = decode(Trial, old)
    assert (case.averaging_time, case.min_velocity_ratio, case.max_velocity_error) == (0.1, 0.0, 0.3)
    assert (case.com_offset, case.torque_scale) == (0.01, 0.9) and decode(Trial, encode(case)) == case
    assert decode(GaitCampaign, '{"miss":0.1}').max_velocity_error == 0.1
    assert find("reach") is VelocityLimitCampaign and find("slippery") is FrictionDropCampaign
    assert VelocityLimitCampaign.renamed_entries["burst"] == "peak_motor_power"
