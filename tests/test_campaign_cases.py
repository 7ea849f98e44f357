"""Cases that campaigns draw, evaluation of trials, pages of data sheets, and messages of stores and clusters."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import re
import sqlite3
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pinocchio as pin
import pytest
from campaign_examples import Throws
from expected_outputs import check_expected_file, rounded
from raising import raises

import quaddyn as qd
from quaddyn.campaigns import (
    Failure,
    OutcomeCounts,
    Progress,
    Store,
    campaign_runner,
    dask_executor,
    executors,
    run,
    store,
    trial_campaign,
    trial_runner,
)
from quaddyn.campaigns.binomial_bounds import (
    Search,
    Threshold,
    interim_tests,
    interval,
    lower_bound,
    search,
    upper_bound,
)
from quaddyn.campaigns.campaign import Campaign, case_rng, decode, encode, encode_record, find, hash_texts, names
from quaddyn.campaigns.datasheet import (
    DataSheet,
    FailedCase,
    Point,
    _describe_failure,
    _summarize_runs,
    facts,
    make_bound_specs,
    make_speed_trials,
)
from quaddyn.campaigns.executors import (
    DaskExecutor,
    InsecureClusterWarning,
    WorkerDied,
    _warn_if_exposed,
    count_worker_deaths,
)
from quaddyn.campaigns.identification import IdentificationCampaign, merge_accumulators, merge_results
from quaddyn.campaigns.store import StoredCase, _column_types, _common_type, _convert
from quaddyn.campaigns.trial import Trial
from quaddyn.campaigns.trial_campaign import robot_proportions
from quaddyn.campaigns.trial_runner import (
    RunEvaluation,
    _make_relief,
    make_sensors,
    make_trial_setup,
    make_trial_terrain,
    run_trial,
    sensor_noise,
    with_trunk_load,
)
from quaddyn.campaigns.verification import VerificationCampaign
from quaddyn.campaigns.walking_campaigns import (
    DISTURBANCES,
    FrictionDropCampaign,
    GaitCampaign,
    ObstacleCampaign,
    RobustnessCampaign,
    SlopeCampaign,
    SweepCampaign,
    VelocityLimitCampaign,
)
from quaddyn.errors import CampaignError
from quaddyn.identification import Accumulator, Samples, fit_accumulated, save_samples
from quaddyn.identification.base_parameters import random_states
from quaddyn.locomotion import LocomotionController, LocomotionMode, Morphology
from quaddyn.reference import Reference
from quaddyn.robot.inertial_update import with_payload
from quaddyn.simulation import Simulation


@pytest.fixture(scope="module")
def p(go2: qd.Robot) -> Morphology:
    return Morphology.from_robot(go2)


def non_default_fields(case: Trial) -> str:
    """Fields of a trial that differ from the default trial."""
    plain = Trial(robot=case.robot)
    pairs = ((f.name, getattr(case, f.name)) for f in dataclasses.fields(case))
    return rounded(", ".join(f"{name}={value!r}" for name, value in pairs if value != getattr(plain, name)))


# -- drawn cases ---------------------------------------------------------------------------------------------------
def test_drawn_cases_are_unchanged() -> None:
    """Stores of earlier versions hold these cases, which have to stay comparable."""
    lines = []
    campaigns: tuple[Any, ...] = (
        RobustnessCampaign(robot="go2", trials=2, plants=("embedded",), disturbances=tuple(DISTURBANCES)),
        GaitCampaign(
            robot=("go2",), gaits=("trot", "pace"), speeds=(0.1, 0.3), directions=("forward", "sideways", "turning")
        ),
        SlopeCampaign(robot=("go2",), trials=2, angles=(15.0,), plants=("embedded",)),
        SweepCampaign(values=(0.2, 0.8), trials=2),
        ObstacleCampaign(robot=("go2",), trials=1, plants=("embedded",)),
        FrictionDropCampaign(robot=("go2",), trials=2, plants=("embedded",)),
        VelocityLimitCampaign(robot=("go2",), gaits=("trot", "bound"), trials=2),
    )
    for campaign in campaigns:
        found = list(campaign.cases())
        lines += [f"{campaign.name}, {len(found)} of {campaign.count()}", *map(non_default_fields, found)]
    check_expected_file("cases", "\n".join(lines))


def test_bound_names_select_bounds_and_curves() -> None:
    sheet = DataSheet(robot=("go2",), bounds=("speed trot", "friction"))
    assert [cell.name for cell in sheet.cells("go2")] == ["friction", "speed trot"]
    assert list(sheet.curves("go2")) == ["trot"] and len(list(sheet.cases())) == 18
    assert sheet.count() is None and sheet.robots == ("go2",)


def test_trial_terrains_are_unchanged(go2: qd.Robot, p: Morphology) -> None:
    assert make_trial_terrain(Trial(robot="go2"), p, go2, case_rng(0)) is None
    lines = []
    for change in ({"slope": 0.2, "slope_direction": 1.0}, {"step": 0.05, "step_distance": 0.7}, {"strips": 0.04},
                   {"boxes": 0.03}, {"stairs": -0.05, "tread": 0.2}, {"rubble": 0.06}):  # fmt: skip
        laid = make_trial_terrain(Trial(robot="go2", **change), p, go2, case_rng(0)) or []  # type: ignore[arg-type]
        lines.append(f"{change}: {len(laid)}")
        for each in laid[:5]:
            names = ("point", "normal") if hasattr(each, "normal") else ("center", "size", "rotation")
            numbers = np.concatenate([np.ravel(getattr(each, name)) for name in names])
            lines.append(", ".join(f"{x + 0.0:.5f}" for x in numbers + 0.0))
    check_expected_file("grounds", "\n".join(lines).replace("-0.00000", "0.00000"))


@pytest.mark.parametrize("yaw", [0.0, 0.7])
def test_relief_is_ahead_of_the_robot_for_any_yaw(yaw: float) -> None:
    """Waves depend only on the random numbers, and the terrain is level where the robot starts."""
    field, straight = _make_relief(0.1, 0.5, yaw, case_rng(0)), _make_relief(0.1, 0.5, 0.0, case_rng(0))
    ahead, left = np.meshgrid(np.linspace(-1.0, 6.0, 40), np.linspace(-1.5, 1.5, 20))
    x, y = math.cos(yaw) * ahead - math.sin(yaw) * left, math.sin(yaw) * ahead + math.cos(yaw) * left
    heights = field.height(x, y)
    assert np.abs(heights[ahead < 0.3]).max() == 0.0 and 0.05 < heights.max() <= 0.1
    np.testing.assert_allclose(heights, straight.height(ahead, left), atol=5e-3)


def test_a_controller_has_a_terrain_map_if_the_case_requests_it(go2: qd.Robot) -> None:
    for told in (False, True):
        made = make_trial_setup(Trial(robot="go2", stairs=0.05, tread=0.2, terrain_known=told), go2, case_rng(0))
        assert (made.controller.terrain is not None) is told
        x = np.linspace(-0.5, 2.0, 7)
        if made.controller.terrain is not None:
            heights = made.controller.terrain.height(x, 0.0 * x)
            np.testing.assert_array_equal(heights, made.plant.terrain.height(x, 0.0 * x))


@pytest.mark.parametrize(
    ("change", "has_foot_sensors", "uses_sensors"),
    [
        ({}, False, False),
        ({"use_state_estimate": True}, False, True),
        ({"delay": 4e-3}, False, True),
        ({"noise_scale": 1.0}, False, True),
        ({"step": 0.01, "step_distance": 0.5}, True, False),
        ({"strips": 0.01}, True, False),
        ({"boxes": 0.01}, True, False),
        ({"slope": 0.1}, False, False),
        ({"relief": 0.05}, False, False),
    ],
)
def test_trial_setups_have_the_objects_that_their_cases_need(
    change: dict[str, Any], has_foot_sensors: bool, uses_sensors: bool, go2: qd.Robot
) -> None:
    made = make_trial_setup(Trial(robot="go2", dt=4e-3, **change), go2, case_rng(0))
    assert made.has_foot_sensors is has_foot_sensors and (made.sensors is not None) is uses_sensors
    assert (made.estimator is not None) is uses_sensors
    assert made.plant.dt == made.controller.dt == 4e-3 and made.robot is go2


def test_torque_scale_and_payload_of_a_case_are_applied(go2: qd.Robot, p: Morphology) -> None:
    made = make_trial_setup(Trial(robot="go2", torque_scale=0.5, friction=0.3), go2, case_rng(0))
    assert made.plant.friction == 0.3
    for _ in range(3):
        made.plant.step(np.full(go2.nu, 1e3))
    np.testing.assert_allclose(made.plant.tau, 0.5 * go2.effort_limits)
    loaded = make_trial_setup(Trial(robot="go2", payload=2.0), go2, case_rng(0)).plant.robot
    expected = with_payload(
        go2, 2.0, p.heading @ ((0.0, 0.0, 0.1 * p.length) - p.base_offset), diameter=0.1 * math.sqrt(10) * p.length
    )
    np.testing.assert_allclose(loaded.bodies[0].inertial.inertia, expected.bodies[0].inertial.inertia, rtol=1e-12)
    np.testing.assert_allclose(loaded.bodies[0].inertial.com, expected.bodies[0].inertial.com, atol=1e-12)


def test_sensor_noise_of_trials_is_unchanged(go2: qd.Robot) -> None:
    made = make_trial_setup(Trial(robot="go2", noise_scale=1.0, delay=4e-3), go2, case_rng(0)).sensors
    assert made is not None
    lines = [rounded(repr(part), 5) for part in (made.encoders, made.imu, made.delay, sensor_noise())]
    check_expected_file("sensors", "\n".join(lines))
    silent = make_trial_setup(Trial(robot="go2", use_state_estimate=True), go2, case_rng(0)).sensors
    assert silent is not None and silent.encoders.resolution == 0.0


# -- inputs and records of a run -----------------------------------------------------------------------------------
def test_run_applies_one_push_and_commands_velocity_from_its_start_time(
    go2: qd.Robot, monkeypatch: pytest.MonkeyPatch
) -> None:
    pushes, told = [], []
    push, compute = Simulation.push, LocomotionController.compute

    def pushed(self: Simulation, frame: str, force: np.ndarray, **options: Any) -> object:
        pushes.append((round(self.time, 9), frame, np.array(force), options))
        return push(self, frame, force, **options)

    def computed(self: LocomotionController, state: Any, velocity: Any, **options: Any) -> Any:
        told.append((tuple(velocity), options["measured_contacts"]))
        return compute(self, state, velocity, **options)

    monkeypatch.setattr(Simulation, "push", pushed)
    monkeypatch.setattr(LocomotionController, "compute", computed)
    dt, velocity = 4e-3, (0.1, 0.05, 0.2)
    case = Trial(robot="go2", dt=dt, seconds=0.4, averaging_time=0.2, velocity=velocity, push=0.2, push_direction=0.5,
                 push_time=0.2, push_duration=0.05, step=0.01, step_distance=2.0)  # fmt: skip
    run_trial(case)
    ((at, frame, force, options),) = pushes
    assert (at, frame, options) == (0.2, go2.bodies[0].name, {"duration": 0.05})
    np.testing.assert_allclose(np.linalg.norm(force), go2.mass * 0.2 / 0.05, rtol=1e-12)
    assert force[2] == 0.0 and math.atan2(force[1], force[0]) == pytest.approx(0.5, abs=0.05)
    begun = [k for k, (wanted, _) in enumerate(told) if wanted != (0.0, 0.0, 0.0)]
    assert begun == list(range(76, 100)) and told[-1][0] == velocity and len(told) == 100  # beyond 0.3 s
    assert told[0][1] is None and all(sorted(feet) == sorted(go2.feet) for _, feet in told[5:70])


class KinematicWalk:
    """Plant that moves at a given velocity with constant torques."""

    def __init__(
        self, robot: qd.Robot, velocity: tuple[float, float, float], slope: tuple[float, float], dt: float
    ) -> None:
        self.robot, self.velocity, self.slope, self.dt = robot, velocity, slope, dt
        self.v, self.tau = np.zeros(robot.nv), np.full(robot.nu, 2.0)
        self.v[6] = 3.0
        self.yaw, self.q = 0.3, np.array(robot.q_home)
        self.advance(0.0)

    def advance(self, dt: float | None = None) -> None:
        dt = self.dt if dt is None else dt
        x, y, turn = self.velocity
        c, s = math.cos(self.yaw), math.sin(self.yaw)
        self.q[:2] += dt * np.array([c * x - s * y, s * x + c * y])
        self.q[2] += 0.01 * math.sin(50.0 * self.q[0])  # vertical motion, which is not evaluated
        self.yaw += dt * turn
        self.q[3:7] = pin.Quaternion(pin.rpy.rpyToMatrix(0.0, 0.0, self.yaw)).coeffs()


def evaluate_walk(
    go2: qd.Robot, case: Trial, velocity: tuple[float, float, float], flagged: int = 0
) -> tuple[RunEvaluation, KinematicWalk]:
    plant = KinematicWalk(go2, velocity, (0.0, 0.0), case.dt)
    made: Any = SimpleNamespace(plant=plant, controller=SimpleNamespace(morphology=Morphology.from_robot(go2)))
    figures = RunEvaluation(case, made.plant, made.controller.morphology)
    for k in range(round(case.seconds / case.dt)):
        plant.advance()
        asked, slow = np.array(case.velocity), 0.5 if k % 2 else 1.0  # half the velocity in every other tick
        told: Any = SimpleNamespace(
            ok=k >= flagged, requested_velocity=asked, clamped_velocity=slow * asked, limit_reason="slow" * (k % 2)
        )
        figures.add(told)
    return figures, plant


def test_evaluation_of_a_known_walk_is_exact(go2: qd.Robot) -> None:
    case = Trial(
        robot="go2",
        dt=2e-3,
        seconds=0.2,
        averaging_time=0.1,
        velocity=(0.5, 0.2, 0.3),
        max_velocity_error=0.05,
        unit_speed=2.0,
    )
    figures, _ = evaluate_walk(go2, case, (0.5, 0.2, 0.3), flagged=3)
    found: Any = figures.record(None, None)
    p = Morphology.from_robot(go2)
    assert found["success"] is True and found["reason"] is None and found["fell"] is None
    # The evaluation uses the heading at the first tick, not that at the middle of the interval.
    assert (found["vx"], found["vy"], found["wz"]) == pytest.approx((0.5, 0.2, 0.3), abs=2e-3)
    assert found["flagged"] == 0.03 and found["torque_rms"] == pytest.approx(2.0)
    assert found["torque"] == pytest.approx(2.0 / go2.effort_limits.min())
    assert found["power"] == pytest.approx(6.0) == found["power_peak"]
    speed = math.hypot(found["vx"], found["vy"])
    assert found["cost"] == pytest.approx(6.0 / (go2.mass * p.gravity * speed))
    assert figures._evaluated_ticks == 51 and figures._ticks == 100
    wanted = np.array([0.25, 0.1, 0.3])
    got = np.array([found["vx"] / 2.0, found["vy"] / 2.0, found["wz"]])
    assert found["velocity_ratio"] == pytest.approx(got @ wanted / (wanted @ wanted))
    assert found["velocity_error"] == pytest.approx(np.abs(got - wanted).max())
    assert found["allowed_fraction"] == pytest.approx(0.75) and found["limit_reason"] == "slow"


def test_velocity_on_a_slope_is_measured_along_the_ground(go2: qd.Robot) -> None:
    flat = {"robot": "go2", "dt": 2e-3, "seconds": 0.1, "averaging_time": 0.1, "velocity": (0.5, 0.0, 0.0)}
    for way, factor in ((0.0, 1.0 / math.cos(0.4)), (0.5 * math.pi, 1.0)):
        case = Trial(**flat, slope=0.4, slope_direction=way)  # type: ignore[arg-type]
        found: Any = evaluate_walk(go2, case, (0.5, 0.0, 0.0))[0].record(None, None)
        assert found["vx"] == pytest.approx(0.5 * factor, rel=1e-6) and found["vy"] == pytest.approx(0.0, abs=1e-6)


def test_course_interval_limits_evaluation_and_run(go2: qd.Robot) -> None:
    """Velocities on stairs are measured along their slope."""
    case = Trial(robot="go2", dt=2e-3, seconds=0.8, averaging_time=0.8, velocity=(0.5, 0.0, 0.0), stairs=0.1, tread=0.2,
                 course_interval=(0.0995, 0.3), max_velocity_error=0.2, unit_speed=0.5)  # fmt: skip
    figures, _ = evaluate_walk(go2, case, (0.5, 0.0, 0.0))
    found: Any = figures.record(None, None)
    assert figures.passed and found["ahead"] == pytest.approx(0.4, abs=2e-3) and figures._evaluated_ticks == 301
    assert found["vx"] == pytest.approx(0.5 * math.hypot(1.0, 0.5), rel=1e-6) and found["success"]
    short: Any = evaluate_walk(go2, dataclasses.replace(case, course_interval=(0.1, 0.5)), (0.5, 0.0, 0.0))[0]
    assert not short.passed and short.record(None, "late")["reason"] == "late"


@pytest.mark.parametrize(
    ("velocity", "change", "reason"),
    [
        ((0.36, 0.0, 0.0), {}, None),
        ((0.34, 0.0, 0.0), {}, "slower than 70 % of the command"),
        ((0.36, 0.0, 0.0), {"min_velocity_ratio": 0.8}, "slower than 80 % of the command"),
        ((0.5, 0.0, 0.09), {"max_velocity_error": 0.1}, None),
        ((0.5, 0.0, 0.11), {"max_velocity_error": 0.1}, "misses the command by more than 10 %"),
        ((0.5, 0.0, 0.11), {"max_velocity_error": 0.1, "unit_turn": 2.0}, None),
        ((0.5, -0.11, 0.0), {"max_velocity_error": 0.1}, "misses the command by more than 10 %"),
        ((0.5, -0.11, 0.0), {"max_velocity_error": 0.1, "unit_speed": 2.0}, None),
    ],
)
def test_success_of_a_run_depends_on_its_velocity(
    velocity: tuple[float, float, float], change: dict[str, Any], reason: str | None, go2: qd.Robot
) -> None:
    case = Trial(robot="go2", dt=2e-3, seconds=0.1, averaging_time=0.1, velocity=(0.5, 0.0, 0.0), **change)
    figures, _ = evaluate_walk(go2, case, velocity)
    found = figures.record(None, None)
    assert (found["reason"], found["success"]) == (reason, reason is None)
    fell = figures.record(1.5, "sank")
    kept = {name: found[name] for name in ("flagged", "allowed_fraction", "limit_reason")}
    assert fell == dict.fromkeys(found, None) | {"success": False, "reason": "sank", "fell": 1.5} | kept
    assert kept["flagged"] == 0.0
    still = Trial(robot="go2", dt=2e-3, seconds=0.1, averaging_time=0.1)
    nothing = evaluate_walk(go2, still, (0.0, 0.0, 0.0))[0].record(None, None)
    assert (
        nothing["success"] is True and nothing["velocity_ratio"] is nothing["velocity_error"] is nothing["cost"] is None
    )


@pytest.mark.parametrize(
    ("roll", "pitch", "height", "words"),
    [
        (0.1, 0.0, 0.3, "sank, 3 feet due on the ground"),
        (0.1, 0.0, 0.6, "rolled over, 3 feet due on the ground"),
        (0.1, 0.2, 0.6, "pitched over, 3 feet due on the ground"),
        (0.7, 0.1, 0.3, "rolled over, 3 feet due on the ground"),
        (0.1, -0.7, 0.3, "pitched over, 3 feet due on the ground"),
    ],
)
@pytest.mark.parametrize("known", [None, 0.2])
def test_cause_of_a_fall_is_classified(
    roll: float, pitch: float, height: float, words: str, known: float | None, go2: qd.Robot, p: Morphology
) -> None:
    q = np.array(go2.q_home)
    q[3:7] = pin.Quaternion(pin.rpy.rpyToMatrix(roll, pitch, 0.4)).coeffs()
    com = qd.Dynamics(go2).center_of_mass(q)
    q[2] += height * p.height - com[2] + (known or 0.0)
    plant = SimpleNamespace(robot=go2, q=q, v=np.zeros(go2.nv))
    below = None if known is None else SimpleNamespace(height=lambda x, y: known)
    stance = np.array([True, True, False, True])
    controller: Any = SimpleNamespace(
        morphology=p, robot=go2, ground=below, gait_scheduler=SimpleNamespace(stance_mask=stance)
    )
    made: Any = SimpleNamespace(plant=plant, controller=controller)
    assert RunEvaluation(Trial(robot="go2"), made.plant, made.controller.morphology).describe_fall(controller) == words


def test_divergence_of_the_plant_ends_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def burst(*_: object) -> Any:
        raise qd.DivergenceError("state: expected finite", 0.5, None, None)

    monkeypatch.setattr(trial_runner, "_simulate", burst)
    record = run_trial(Trial(robot="go2"))
    assert (record["success"], record["reason"], record["fell"]) == (False, "the plant diverged", 0.0)


# -- searches ------------------------------------------------------------------------------------------------------
def search_requests(outcome: Callable[[int, int], bool], levels: int, **options: Any) -> Iterator[str]:
    task = search(levels, **options)
    try:
        ask = next(task)
        while True:
            went = [outcome(ask.level, k) for k in ask.trials]
            yield f"  level {ask.level}: {ask.trials[0]} to {ask.trials[-1]}, {sum(went)} of {len(went)}"
            ask = task.send(went)
    except StopIteration as end:
        found: Threshold = end.value
        counts = ", ".join(f"{level}: {good}/{all_}" for level, (good, all_) in found.counts.items())
        yield (
            f"  level {found.level}, {found.successes} of {found.trials}, top {found.top}, upper {found.upper:.4f}, "
            f"exceptions {found.exceptions}, inversions {found.inversions}; {counts}"
        )


def test_requests_of_searches_are_unchanged() -> None:
    """Stores of earlier versions hold these trials; a search that requests others cannot continue with them."""
    curves: dict[str, tuple[Callable[[int, int], bool], dict[str, Any]]] = {
        "steep": (lambda level, k: level <= 13, {}),
        "always": (lambda level, k: True, {}),
        "never": (lambda level, k: False, {}),
        "at the easiest alone": (lambda level, k: level == 0, {}),
        "one in twenty fails": (lambda level, k: k % 20 != 19, {}),
        "one in fifty fails": (lambda level, k: k % 50 != 30, {}),
        "one in ten fails from level 5 on": (lambda level, k: level < 5 or k % 10 != 9, {"checks": 3}),
        "a hole": (lambda level, k: not 2 <= level <= 4 or k % 2 == 0, {"checks": 4}),
        "a quick one": (lambda level, k: level <= 5, {"probability": 0.8, "pilot": 6, "checks": 1}),
        "a long pilot": (lambda level, k: level <= 5, {"pilot": 20, "confidence": 0.8}),
        "nothing checked": (lambda level, k: level <= 5, {"pilot": 1, "checks": 0}),
    }
    lines = []
    for name, (outcome, options) in curves.items():
        lines += [f"{name} {options}", *search_requests(outcome, 24, **options)]
    lines += [
        "one level",
        *search_requests(lambda level, k: True, 1),
        "two levels",
        *search_requests(lambda level, k: level < 1, 2),
    ]
    check_expected_file("searches", "\n".join(lines))


# -- the page ------------------------------------------------------------------------------------------------------


def row(case: Trial, result: Any, number: int = 1) -> StoredCase:
    return StoredCase(number, case, result, 0.5, 0.0, "w", "v", "m")


def test_gait_points_are_means_and_peaks_of_successful_runs() -> None:
    case = Trial(robot="go2", velocity=(0.4, 0.0, 0.0))
    names = ("vx", "velocity_error", "cost", "power", "power_peak", "torque", "torque_rms")

    def result(value: float, success: bool = True) -> dict[str, Any]:
        return {"success": success, **dict.fromkeys(names, value)}

    one = result(3.0) | {"cost": None}
    rows = [row(case, result(1.0)), row(case, one), row(case, result(9.0, success=False)), row(case, Failure("x"))]
    assert _summarize_runs(rows) == Point(0.4, 2, 4, 2.0, 2.0, 1.0, 2.0, 3.0, 3.0, 2.0)
    assert _summarize_runs(rows[2:]) == Point(0.4, 0, 2, *[None] * 7)


def test_failed_cases_list_the_fields_that_differ() -> None:
    case = Trial(robot="go2", push=0.123456, velocity=(0.25, 0.0, -0.5), gait="walk", seed=0, number=12)
    told = "gait = walk, velocity = (0.25, 0, -0.5), push = 0.1235, seed = 0, number = 12"
    fell = {"success": False, "reason": "sank", "fell": 2.5}
    assert _describe_failure(row(case, fell, 17), 3.0) == FailedCase(17, 3.0, "sank", 2.5, told)
    assert _describe_failure(row(case, fell | {"fell": None}), 3.0).fell is None
    assert _describe_failure(row(case, Failure("ValueError: x\nmore")), 3.0) == FailedCase(
        1, 3.0, "ValueError: x", None, told
    )


def test_data_sheet_facts_match_the_robot(go2: qd.Robot, p: Morphology) -> None:
    found = facts("go2")
    assert (found.source, found.name, found.mass, found.degrees, found.title) == ("go2", go2.name, go2.mass, 18, "go2")
    assert (found.length, found.height, found.speed) == (p.length, p.height, p.speed_scale)
    assert list(found.reach) == ["FL", "FR", "RL", "RR"]
    for near, far in found.reach.values():
        assert 0.05 < near < 0.2 < 0.4 < far < 0.45
    assert [joint[0] for joint in found.joints] == list(go2.actuated)
    np.testing.assert_array_equal([joint[1] for joint in found.joints], go2.lower_position_limits)
    np.testing.assert_array_equal([joint[2] for joint in found.joints], go2.upper_position_limits)
    np.testing.assert_array_equal([joint[3] for joint in found.joints], go2.velocity_limits)
    np.testing.assert_array_equal([joint[4] for joint in found.joints], go2.effort_limits)
    assert dataclasses.replace(found, source="a/dog.urdf").title == go2.name


# -- stores, tallies, progress -------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("error", "free", "said"),
    [
        ("database is locked", 1 << 30, "another process is writing to the store"),
        ("database table is busy", 1 << 30, "another process is writing to the store"),
        (
            "database or disk is full",
            1 << 30,
            "no space is left on the disk; committed results are stored: free some space",
        ),
        ("disk I/O error", (1 << 16) - 1, "no space is left on the disk"),
        ("disk I/O error", 1 << 16, "the file is damaged or not a store of a campaign (disk I/O error)"),
        (
            "database disk image is malformed",
            0,
            "the file is damaged or not a store of a campaign (database disk image",
        ),
        ("file is not a database", 0, "the file is damaged or not a store of a campaign (file is not"),
        ("something else", 0, "something else"),
    ],
)
def test_store_errors_name_their_cause(error: str, free: int, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store.shutil, "disk_usage", lambda place: SimpleNamespace(free=free))
    with pytest.raises(qd.QuaddynError) as caught, store._sqlite_errors("runs.db"):
        raise sqlite3.OperationalError(error)
    assert str(caught.value).startswith(f"runs.db: {said}")
    monkeypatch.setattr(store.shutil, "disk_usage", lambda place: (_ for _ in ()).throw(OSError()))
    assert store._no_space("runs.db") is False


def test_added_results_are_committed_after_0_2_seconds(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(store.time, "monotonic", lambda: clock.now)
    path, campaign = tmp_path / "runs.db", Throws(3)

    def safe() -> int:
        with Store.read(path, Throws) as there:
            return len(there)

    with Store.open(path, campaign) as kept:
        assert kept._connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert kept._connection.execute("PRAGMA synchronous").fetchone() == (2,)
        kept.add_killed_case("one", "the worker process of this case died", "SIGKILL")
        clock.now += 0.1
        kept.add_killed_case("two", "the worker process of this case died", "SIGKILL")
        kept.commit(now=False)
        assert (safe(), len(kept), "one" in kept, "none" in kept) == (0, 2, True, False)
        clock.now += 0.09
        kept.commit(now=False)
        assert safe() == 0
        clock.now += 0.02
        kept.commit(now=False)
        assert safe() == 2
        kept.add_killed_case("three", "the worker process of this case died", "SIGKILL")
        kept.commit()
        assert safe() == 3
        kept.add_killed_case("four", "the worker process of this case died", "SIGKILL")
    assert safe() == 4


def test_store_of_another_format_is_rejected(tmp_path: Any) -> None:
    path = tmp_path / "runs.db"
    run(Throws(2), store=path)
    with Store.read(path, Throws) as there:
        (worker,) = {row.worker for row in there.rows()}
        assert worker.rpartition(":")[2].isdecimal() and all(row.seconds >= 0.0 for row in there.rows())
        with pytest.raises(
            qd.QuaddynError, match=r"runs\.db#3: the case does not exist; the store contains 2 cases, numbered from 1$"
        ):
            there.row(3)
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE about SET format = 2")
    for use in (lambda: Store.read(path, Throws), lambda: Store.open(path, Throws(2))):
        with pytest.raises(qd.QuaddynError) as caught:
            use()
        assert str(caught.value) == f"{path}: the store has format 2, but this version of quaddyn reads format 1"


def test_outcome_counts_have_five_examples_each_and_are_sorted_by_frequency() -> None:
    case, campaign = Trial(robot="go2"), RobustnessCampaign()
    results = (
        [{"success": True}] * 2 + [{"success": False, "reason": "a"}] * 2 + [{"success": False, "reason": "b"}] * 7
    )
    results += [{"success": False, "reason": None}]
    failures = [
        Failure("E: 1 and -2.5e-3\nmore"),
        Failure("F"),
        Failure("E: 7 and 8"),
        Failure("x", True),
        Failure("y", True),
    ]
    rows = [row(case, result, number) for number, result in enumerate([*results, *failures], 1)]
    found = OutcomeCounts.from_rows(campaign, rows)
    assert (found.successes, found.killed_workers, found.total) == (2, 2, 17)
    assert list(found.failures.items()) == [("b", 7), ("a", 2), ("failed", 1)]
    assert list(found.errors.items()) == [("E: … and …", 2), ("F", 1)]
    assert found.examples == {
        "a": (3, 4), "b": (5, 6, 7, 8, 9), "failed": (12,), "E: … and …": (13, 15), "F": (14,), "poison": (16, 17),
    }  # fmt: skip


def test_progress_is_reported_ten_times_per_second_with_rate_and_remaining_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, told = SimpleNamespace(now=50.0), []
    monkeypatch.setattr(campaign_runner.time, "monotonic", lambda: clock.now)
    task = campaign_runner._CampaignRun(Throws(1), campaign_runner._InProcessExecutor(), None, told.append, 100)  # type: ignore[arg-type]
    task.ran, task.skipped, task.failures = 20, 30, 4
    clock.now += 0.09
    task._report_progress()
    assert told == []
    clock.now += 3.91
    task._report_progress()
    clock.now += 0.05
    task._report_progress()
    assert told == [Progress(50, 100, 5.0, 10.0, 4)]
    task._report_progress(last=True)
    assert told[1].rate == pytest.approx(20 / 4.05) and len(told) == 2
    task._total = None
    task._report_progress(last=True)
    assert told[2].remaining is None
    task._total, task.ran = 100, 0
    task._report_progress(last=True)
    assert told[3][2:] == (0.0, None, 4)


def test_cases_in_flight_scale_with_workers_and_executor_errors_are_described() -> None:
    for executor, most in ((campaign_runner._InProcessExecutor(), 1), (SimpleNamespace(slots=20), 80),
                           (SimpleNamespace(slots=2), 64),
                           (SimpleNamespace(_max_workers=30), 120)):  # fmt: skip
        assert campaign_runner._max_in_flight(executor) == most  # type: ignore[arg-type]
    own = CampaignError("mine")
    assert campaign_runner._executor_error(own) is own
    for error, words in ((OSError("x"), "connection .* lost"), (ValueError("x"), "cannot run .* ValueError: x")):
        assert re.search(words, str(campaign_runner._executor_error(error)))


def test_table_columns_have_one_type_each(tmp_path: Any) -> None:
    with Store.open(":memory:", Throws(4)) as kept:
        run(Throws(4), store=kept)
        kinds = _column_types(kept)
        assert kinds["number"] is int and kinds["record.x"] is float and kinds["record.success"] is bool
        assert kinds["case.what"] is str and kinds["error"] is str  # columns without entries
    for types, common in (({int, float}, float), ({int, bool}, str), ({bool}, bool), (set(), str)):
        assert _common_type(types) is common
    assert type(_convert(float, 3)) is float and _convert(str, True) == "True"


# -- workers -------------------------------------------------------------------------------------------------------
def test_worker_deaths_are_counted_by_the_exception() -> None:
    killed = type("KilledWorker", (Exception,), {"__module__": "distributed.scheduler"})
    other = type("KilledWorker", (Exception,), {"__module__": "elsewhere"})
    found = [count_worker_deaths(error) for error in (WorkerDied(), killed(), other(), ValueError())]
    assert found == [1, 3, None, None]


def test_worker_processes_use_one_thread_of_linear_algebra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("BLIS_NUM_THREADS", raising=False)
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")
    with executors._one_thread_each():
        assert [executors.os.environ[name] for name in names] == ["1"] * 4
    assert executors.os.environ["OMP_NUM_THREADS"] == "7" and "BLIS_NUM_THREADS" not in executors.os.environ
    made: list[int] = []
    monkeypatch.setattr(executors, "ProcessPool", made.append)
    monkeypatch.setattr(
        executors.operating_system.os, "sched_getaffinity", lambda pid: {1, 5, 7} if pid == 0 else set()
    )
    executors.process_pool()
    executors.process_pool(2)
    assert made == [3, 2]


@pytest.mark.parametrize("count", [0, -1, True, 1.0, "2"])
def test_number_of_workers_must_be_a_positive_integer(count: Any) -> None:
    with pytest.raises(qd.ArgumentError, match=f"count: expected a positive number of processes, got {count!r}"):
        executors.ProcessPool(count)


@pytest.mark.parametrize(
    ("address", "open_to_all"),
    [
        ("tcp://127.0.0.1:8786", False), ("tcp://[::1]:8786", False), ("tcp://localhost:8786", False),
        ("tls://10.0.0.1:8786", False), ("tcp://10.0.0.1:8786", True), ("tcp://scheduler:8786", True),
        ("tcp://[2001:db8::1]:8786", True),
    ],
)  # fmt: skip
def test_scheduler_on_a_network_without_tls_raises_a_warning(address: str, open_to_all: bool) -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        _warn_if_exposed(address)
    assert [w.category for w in told] == [InsecureClusterWarning] * open_to_all
    if told:
        assert str(told[0].message).startswith(
            f"the scheduler {address} is neither on the loopback interface of this machine nor protected by TLS"
        )


def test_dask_executor_counts_workers_every_two_seconds_and_replaces_local_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, threads, scaled = SimpleNamespace(now=10.0), {"a": 2, "b": 3}, []
    monkeypatch.setattr("time.monotonic", lambda: clock.now)
    client = SimpleNamespace(nthreads=lambda: threads)
    there = DaskExecutor(client)
    assert there.slots == 5
    threads.clear()
    clock.now += 1.9
    assert there.slots == 5
    clock.now += 0.2
    assert there.slots == 1  # workers may reconnect
    own = DaskExecutor(client, SimpleNamespace(workers={"a": 1, "b": 2, "c": 3}, scale=scaled.append))
    assert own.slots == 1 and scaled == [3]


def test_local_cluster_listens_on_the_loopback_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("dask")
    made: list[dict[str, Any]] = []
    fake = SimpleNamespace(
        LocalCluster=lambda **options: made.append(options) or SimpleNamespace(workers={"a": 1}),
        Client=lambda *_, **options: SimpleNamespace(options=options),
    )
    monkeypatch.setitem(dask_executor.__globals__, "_import_distributed", lambda: fake)
    assert dask_executor("local:3")._count == 1 and made[0]["n_workers"] == 3 and made[0]["threads_per_worker"] == 1
    listening = {str(made[0][name]) for name in ("host", "dashboard_address", "worker_dashboard_address")}
    assert listening == {"127.0.0.1", "127.0.0.1:0"}
    for address in ("local:", "local:0", "local:-1", "local:x"):
        raises(qd.ArgumentError, "address: expected local:N with the number of workers N", dask_executor, address)
    with pytest.raises(qd.ArgumentError, match="expected tcp://HOST:PORT, tls://HOST:PORT or local:N, got 'http://x'"):
        dask_executor("http://x")


def test_numbers_in_cases_are_rounded_to_nine_decimals() -> None:
    drawn = [cell.trial(3, 1) for cell in make_bound_specs("go2", plant="embedded", dt=2e-3, seed=0, directions=3)]
    drawn += [
        trial for levels in make_speed_trials("go2", plant="embedded", dt=2e-3, seed=0).values() for trial in levels[0]
    ]
    for trial in drawn:
        for value in (getattr(trial, field.name) for field in dataclasses.fields(trial)):
            for number in value if isinstance(value, tuple) else (value,):
                assert not isinstance(number, float) or number == round(number, 9)


# -- verification and identification as campaigns give the same results as one pass in one process --------------------
def test_verification_blocks_report_their_largest_errors() -> None:
    campaign = VerificationCampaign(names=("two_link_leg", "three_link_leg"), samples=5, block=3, derivatives=4)
    cases = list(campaign.cases())
    assert len(cases) == campaign.count() == 4
    assert [(c.samples, c.derivatives, c.seed) for c in cases[:2]] == [(3, 3, 0), (2, 1, 1)]
    for case, record in run(campaign).results:
        assert not isinstance(record, Failure) and record["success"] and record["refused"] is None
        alone = qd.cross_check(
            qd.load(Path(case.file).stem),
            samples=case.samples,
            seed=case.seed,
            n_derivative_samples=case.derivatives,
            mujoco=False,
        )
        assert record["errors rnea"] == alone.errors["rnea"] and record["ratios crba"] == alone.ratios["crba"]


def logs(robot: qd.Robot, folder: Path, count: int) -> tuple[list[str], list[Samples]]:
    """Noisy logs of different length."""
    rng, oracle = np.random.default_rng(0), Reference(robot.source, root=robot.root)
    names, all_samples = [], []
    for i in range(count):
        q, v, a = random_states(robot, 40 + 7 * i, rng)
        tau = np.array([oracle.rnea(*x) + oracle.joint_friction(x[1]) for x in zip(q, v, a, strict=True)])
        tau += 1e-2 * rng.standard_normal(v.shape)
        samples = Samples(q, v, a, tau[:, robot.actuated_index], {}, "frame")
        path = folder / f"log {i}.npz"
        save_samples(path, robot, samples)
        names.append(str(path))
        all_samples.append(samples)
    return names, all_samples


def test_merged_accumulators_equal_one_pass(tmp_path: Path) -> None:
    robot = qd.load("ur5")
    names, parts = logs(robot, tmp_path, 7)
    campaign = IdentificationCampaign(robot="ur5", files=tuple(names), torque_noise=0.01)
    found = merge_results(run(campaign, store=tmp_path / "logs.db").results)
    once = Accumulator(robot, torque_noise=0.01)
    for part in parts:
        once.add(part)
    assert found.samples == once.samples == sum(map(len, parts))
    assert [row.rows for row in found.rows] == [row.rows for row in once.rows]
    one, other = fit_accumulated(found, method="weighted"), fit_accumulated(once, method="weighted")
    assert np.abs(one.beta - other.beta).max() <= 1e-12 * np.abs(other.beta).max()
    # The result is independent of the order of merging.
    for order in ([3, 1, 6, 0, 5, 2, 4], list(range(6, -1, -1))):
        leaves = []
        for i in order:
            leaves.append(Accumulator(found.base, torque_noise=0.01))
            leaves[-1].add(parts[i])
        again = fit_accumulated(merge_accumulators(leaves), method="weighted")
        assert np.abs(again.beta - other.beta).max() <= 1e-12 * np.abs(other.beta).max()


def test_changed_or_invalid_log_is_rejected(tmp_path: Path) -> None:
    names, _ = logs(qd.load("planar_3r"), tmp_path, 2)
    campaign = IdentificationCampaign(robot="planar_3r", files=tuple(names))
    first, second = campaign.cases()
    Path(names[0]).write_bytes(Path(names[1]).read_bytes())
    raises(qd.ArgumentError, "changed", campaign.run, first)
    Path(names[1]).write_text("nothing", encoding="utf-8")
    results = run(campaign, cases=[dataclasses.replace(second, content=next(iter(campaign.cases())).content)]).results
    raises(qd.ArgumentError, "log 1", merge_results, results)
    raises(qd.ArgumentError, "at least one", merge_results, [])
    raises(qd.ArgumentError, "dump", Accumulator(qd.load("planar_3r")).load, b"nothing")
    with pytest.raises(qd.ArgumentError, match="of the same robot"):
        Accumulator(qd.load("planar_3r")).load(Accumulator(qd.load("ur5")).dump())


def test_hashes_separate_parts_and_are_unchanged() -> None:
    assert hash_texts("ab", "c") != hash_texts("a", "bc") and hash_texts("a") == hash_texts(b"a")
    assert hash_texts() == "cae66941d9efbd404e4d88758ea67670" and len(hash_texts("a")) == 32


# -- clopper-pearson bounds against tables and the binomial sum -------------------------------------------------------
def tail(k: int, n: int, p: float) -> float:
    """P(at least k of n), summed term by term."""
    return math.fsum(math.comb(n, i) * p**i * (1.0 - p) ** (n - i) for i in range(k, n + 1))


@pytest.mark.parametrize(("n", "k"), [(1, 0), (1, 1), (10, 3), (59, 59), (100, 95), (300, 1)])
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_clopper_pearson_bounds_match_the_binomial_sum(n: int, k: int, confidence: float) -> None:
    low, high = lower_bound(k, n, confidence), upper_bound(k, n, confidence)
    assert low == 0.0 if k == 0 else tail(k, n, low) == pytest.approx(1.0 - confidence, rel=1e-9)
    assert high == 1.0 if k == n else 1.0 - tail(k + 1, n, high) == pytest.approx(1.0 - confidence, rel=1e-9)
    assert 0.0 <= low <= k / n <= high <= 1.0


def test_clopper_pearson_bounds_match_published_values() -> None:
    # Clopper and Pearson 1934, and every table since: two-sided 95 % of 5 in 10, and of 0 in 20.
    assert interval(5, 10) == pytest.approx((0.18709, 0.81291), abs=1e-5)
    assert interval(0, 20) == pytest.approx((0.0, 0.16843), abs=1e-5)


def test_bounds_agree_with_scipy() -> None:
    beta = pytest.importorskip("scipy.stats").beta
    rng = np.random.default_rng(0)
    for n in (1, 7, 200, 100_000):
        for k in {0, 1, n // 3, n - 1, n, int(rng.integers(0, n + 1))} - {-1}:
            low = beta.ppf(0.05, k, n - k + 1) if k else 0.0
            high = beta.ppf(0.95, k + 1, n - k) if k < n else 1.0
            assert lower_bound(k, n) == pytest.approx(low, abs=1e-11)
            assert upper_bound(k, n) == pytest.approx(high, abs=1e-11)


@pytest.mark.parametrize("wrong", [(-1, 5, 0.95), (6, 5, 0.95), (0, 0, 0.95), (1, 2, 1.0), (1, 2, math.nan)])
def test_impossible_counts_are_rejected(wrong: tuple[int, int, float]) -> None:
    raises(qd.ArgumentError, "expected", lower_bound, *wrong)


def test_interim_tests_divide_the_risk() -> None:
    plan = interim_tests(0.95, 0.05)
    assert [look.failures for look in plan] == [0, 2]
    assert math.fsum(1.0 - look.confidence for look in plan) == pytest.approx(0.05)
    for look in plan:
        assert lower_bound(look.trials - look.failures, look.trials, look.confidence) >= 0.95
        assert lower_bound(look.trials - 1 - look.failures, look.trials - 1, look.confidence) < 0.95
    # Exact risk of the test at success rate 0.95: P(pass the first or the second interim test).
    (n, _), (m, c) = ((look.trials, look.failures) for look in plan)
    at_once = 0.95**n
    later = math.fsum(
        math.comb(n, i) * 0.05**i * 0.95 ** (n - i) * (1.0 - tail(c - i + 1, m - n, 0.05)) for i in range(1, c + 1)
    )
    assert 0.02 < at_once + later <= 0.05


def run_search(task: Search, success: Callable[[int], float], rng: np.random.Generator) -> tuple[Threshold, int]:
    """Runs a search with random numbers common to all levels; returns the threshold and the number of trials."""
    luck: dict[int, float] = {}
    asked = 0
    try:
        ask = next(task)
        while True:
            asked += len(ask.trials)
            ask = task.send([luck.setdefault(k, rng.random()) < success(ask.level) for k in ask.trials])
    except StopIteration as end:
        return end.value, asked


def logistic(middle: float, width: float) -> Callable[[int], float]:
    return lambda level: 1.0 / (1.0 + math.exp((level - middle) / width))


@pytest.mark.parametrize(
    "success",
    [
        pytest.param(logistic(20.0, 0.5), id="steep"),
        pytest.param(logistic(15.0, 3.0), id="gentle"),
        pytest.param(lambda level: 0.945, id="just below everywhere"),
        pytest.param(lambda level: 0.97 if level % 2 else 0.9, id="jagged"),
    ],
)
def test_claims_hold_at_their_confidence(success: Callable[[int], float]) -> None:
    """The fraction of wrong claims over 300 searches is consistent with at most 5 %."""
    rng, wrong = np.random.default_rng(7), 0
    for _ in range(300):
        found, _ = run_search(search(32), success, rng)
        wrong += found.level is not None and success(found.level) < found.probability
    assert lower_bound(wrong, 300, 0.999) <= 0.05


def test_steep_threshold_is_found_within_one_level() -> None:
    rng = np.random.default_rng(3)
    for middle in (1, 7, 30):
        found, trials = run_search(search(32), lambda level, middle=middle: float(level <= middle), rng)
        assert found.level == middle - 1 and found.monotone and not found.top and trials < 180
        assert lower_bound(found.successes, found.trials) >= 0.95


def test_failures_at_easier_levels_are_detected() -> None:
    found, _ = run_search(
        search(33), lambda level: 0.5 if 5 < level < 25 else float(level <= 30), np.random.default_rng(1)
    )
    hole, _ = run_search(
        search(33), lambda level: 0.5 if 5 < level < 12 else float(level <= 20), np.random.default_rng(1)
    )
    assert found.level is not None and found.level <= 5
    assert hole.level == 19 and not hole.monotone and hole.exceptions == (9,) and hole.inversions > 0


def test_search_rejects_arguments_out_of_range() -> None:
    for options in ({"probability": 1.0}, {"confidence": 0.0}, {"pilot": 0}):
        with pytest.raises(qd.ArgumentError):
            search(10, **options)  # type: ignore[arg-type]
    with pytest.raises(qd.ArgumentError):
        search(0)


@pytest.mark.parametrize("n_failed", range(5))
def test_attempts_at_a_claim_use_new_trials_and_half_of_the_remaining_risk(n_failed: int) -> None:
    """The pilot trials of every level succeed, but the trials of the first attempts fail."""
    task, levels = search(64, checks=0), list[int]()
    asked: list[tuple[int, int]] = []
    ask = next(task)
    while True:
        asked += [(ask.level, k) for k in ask.trials]
        if min(ask.trials) >= 12 and ask.level not in levels:
            levels.append(ask.level)
        try:
            ask = task.send([k < 12 or levels.index(ask.level) >= n_failed for k in ask.trials])
        except StopIteration as end:
            found = end.value
            break
    plan = interim_tests(0.95, 0.05 / 2.0 ** (n_failed + 1), failures=(0,) if n_failed < 2 else (0, 2))
    assert levels == [63, 62, 60, 56, 48][: n_failed + 1] and found.level == levels[-1]
    assert found.trials == plan[0].trials == found.successes
    numbers = [k for _, k in asked if k >= 12]
    assert len(set(numbers)) == len(numbers) and min(numbers) == 12, "a trial supports one attempt only"


# -- trials depend only on their cases, disturbances have the given size, and campaigns the declared number of cases --
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
        (lambda: RobustnessCampaign(dt=2.0), r"dt: expected more than 0 and at most 0\.01 s, got 2"),
        (lambda: GaitCampaign(dt=2.0), r"dt: expected more than 0 and at most 0\.01 s, got 2"),
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
