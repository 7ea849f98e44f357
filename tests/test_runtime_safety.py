"""The safety layer: faults inserted into the readings of a trot are named and end in damping in time."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pinocchio as pin
import pytest
from compiling_c import COMPILER
from numpy_safety import NumpySafety
from raising import raises
from runtime_faults import DT, FAULTS, Trot, recorded_trot, with_fault
from safety_in_c import LIMITS, RandomSequences, SafetyInC, differences

import quaddyn as qd
from quaddyn.runtime import MotorCommand, Safety, SafetyLimits, export_safety
from quaddyn.runtime.faults import FAULT_CODES, Fault
from quaddyn.runtime.safety_checks import FaultCode
from quaddyn.simulation import Measurement

FAULT_TICK = 150  # tick of the fault


@pytest.fixture(scope="module")
def trot(go2: qd.Robot) -> Trot:
    return recorded_trot(go2)


def run_safety(safety: Safety, trot: Trot) -> list[object]:
    """Reports of all ticks; torques are within limits at every one."""
    effort, out = safety.limit_arrays.max_torque, []
    for k, (m, tau) in enumerate(trot):
        with np.errstate(invalid="ignore"):
            report = safety.filter_command(m, MotorCommand.from_torques(tau), now=DT * k)
        given = report.command.validated(12)
        if m.position.shape == m.velocity.shape == (12,) and np.isfinite([m.position, m.velocity]).all():
            assert (np.abs(given.compute_torque(m.position, m.velocity)) <= effort * (1.0 + 1e-12)).all()
        out.append(report)
    return out


def test_commands_of_a_trot_are_not_changed(go2: qd.Robot, trot: Trot) -> None:
    safety = Safety(go2, dt=DT)
    first = run_safety(safety, trot[:1])  # starts from zero torque with a limited torque rate
    cuts, reports = safety.clamp_counts, first + run_safety(safety, trot[1:])
    assert all(r.fault is None for r in reports) and safety.clamp_counts == cuts
    assert all(np.allclose(r.command.tau, tau) for r, (_, tau) in zip(reports[1:], trot[1:], strict=True))
    assert all(r.valid_foot_sensors.all() for r in reports)


def test_free_fall_during_the_first_readings_is_not_a_fault(go2: qd.Robot, trot: Trot) -> None:
    weightless = np.array([0.3, 0.1, -0.05])
    readings = [
        (replace(m, accelerometer=weightless + 1e-3 * k) if k < 60 else m, tau)
        for k, (m, tau) in enumerate(trot[:1000])
    ]
    assert all(report.fault is None for report in run_safety(Safety(go2, dt=DT), readings))


def test_lost_readings_cause_no_encoder_fault(go2: qd.Robot) -> None:
    """Legs accelerate and stop within one period, as at touchdown; every tenth gap is up to 14 ms."""
    rng, time = np.random.default_rng(0), DT * np.arange(5000)
    phase = (time[:, None] / 0.4 + rng.random(12)) % 1.0
    velocity = np.where(phase < 0.4, 10.0 * phase / 0.4, -10.0 / 3.0)
    position = DT * np.cumsum(velocity, axis=0) - 0.5 * DT * velocity
    position += 0.5 * (go2.lower_position_limits + go2.upper_position_limits) - position.mean(axis=0)
    velocity += rng.normal(0.0, 0.05, velocity.shape)
    up = np.array([0.0, 0.0, 9.81]) + rng.normal(0.0, 0.01, (len(time), 3))
    safety, off, k = Safety(go2, dt=DT), MotorCommand.from_torques(np.zeros(12)), 0
    while k < len(time):
        m = Measurement(time[k], position[k], velocity[k], 1e-3 * rng.standard_normal(3), up[k])
        assert safety.filter_command(m, off).fault is None, k
        k += 1 if rng.random() < 0.9 else int(rng.integers(2, 8))


def test_repeated_impacts_cause_no_encoder_fault(go2: qd.Robot) -> None:
    """Impacts of one direction reverse the joints fifty times per second, each just after a reading."""
    k = np.arange(1000)
    ramp = -5.0 + 100.0 / 81.0 * (k % 10)  # returns to its start
    moved = np.where(k % 10 == 0, -5.0, ramp - 50.0 / 81.0)  # within the previous period
    velocity, position = (np.tile(x[:, None], (1, 12)) for x in (ramp, DT * np.cumsum(moved)))
    position += 0.5 * (go2.lower_position_limits + go2.upper_position_limits) - position.mean(axis=0)
    safety, off, rng = Safety(go2, dt=DT), MotorCommand.from_torques(np.zeros(12)), np.random.default_rng(0)
    for at, q, v in zip((DT * k).tolist(), position, velocity, strict=True):
        noise = 1e-3 * rng.standard_normal(3)
        m = Measurement(at, q, v + rng.normal(0.0, 0.02, 12), noise, np.array([0.0, 0.0, 9.81]) + noise)
        assert safety.filter_command(m, off).fault is None, at


@pytest.mark.parametrize(("speed", "is_fault"), [(0.19, False), (0.21, True)])
def test_frozen_encoder_is_a_fault_only_if_the_other_joints_move(go2: qd.Robot, speed: float, is_fault: bool) -> None:
    """The frozen joint reports 0.19 rad/s, the mean speed of the others is just below or above the limit."""
    safety, off, rng = Safety(go2, dt=DT), MotorCommand.from_torques(np.zeros(12)), np.random.default_rng(0)
    velocity, faults = np.r_[0.19, np.full(11, speed)], set()
    middle = 0.5 * (go2.lower_position_limits + go2.upper_position_limits)
    for k in range(100):
        position = middle + DT * k * np.r_[0.0, velocity[1:]]
        noise = 1e-3 * rng.standard_normal(3)
        m = Measurement(DT * k, position, velocity, noise, np.array([0.0, 0.0, 9.81]) + noise)
        fault = safety.filter_command(m, off).fault
        faults |= {(fault.name, fault.joint)} if fault is not None else set()
    assert faults == ({("encoder frozen", go2.actuated[0])} if is_fault else set())


@pytest.mark.parametrize(
    ("dt", "counts"), [(0.002, (5, 5, 25)), (0.003, (3, 3, 17)), (0.006, (2, 2, 8)), (0.2, (1, 1, 1))]
)
def test_times_of_limits_are_rounded_to_whole_periods(go2: qd.Robot, dt: float, counts: tuple[int, int, int]) -> None:
    limits = SafetyLimits().to_arrays(go2, dt)
    assert (limits.max_reading_periods, limits.violation_readings, limits.max_frozen_readings) == counts


@pytest.mark.parametrize("wrong", [np.diag([1.0, 1.0, -1.0]), -np.eye(3), 2.0 * np.eye(3), np.eye(2)])
def test_matrices_that_are_no_rotations_of_an_imu_are_rejected(go2: qd.Robot, wrong: np.ndarray) -> None:
    with pytest.raises(qd.ArgumentError, match="imu_rotation: expected a rotation matrix"):
        SafetyLimits().to_arrays(go2, DT, wrong)


def test_foot_sensor_is_invalid_after_values_that_repeat_while_others_change(go2: qd.Robot) -> None:
    """Readings in which no sensor changes, and a foot in the air, neither count nor restart the count."""
    safety, off, rng = Safety(go2, dt=DT), MotorCommand.from_torques(np.zeros(12)), np.random.default_rng(0)
    middle = 0.5 * (go2.lower_position_limits + go2.upper_position_limits)
    feet, repeats, found = np.full(4, 1.0), np.zeros(4), set()
    for k in range(3000):
        last = feet.copy()
        changes = rng.random(4) < np.array([0.01, 0.03, 0.3, 0.3]) * rng.choice([0.0, 1.0])
        feet = np.where(changes, rng.choice([0.0, 1.0], 4) * rng.random(4), feet)
        noise = 1e-3 * rng.standard_normal(3)
        m = Measurement(DT * k, middle, np.zeros(12), noise, np.array([0.0, 0.0, 9.81]) + noise, foot_forces=feet)
        report = safety.filter_command(m, off)
        if k > 0:
            counts = (feet == last) & (feet != 0.0) & (feet != last).any()
            repeats = np.where(feet != last, 0, repeats + counts)
        is_valid = repeats < safety.limit_arrays.max_frozen_readings
        assert report.fault is None and report.valid_foot_sensors.tolist() == is_valid.tolist(), k
        found.update(is_valid.tolist())
    assert found == {True, False}


@pytest.mark.parametrize("name", [name for name, fault in FAULTS.items() if "integrated velocity" in fault.by])
def test_inconsistent_encoder_is_detected_despite_lost_readings(name: str, go2: qd.Robot, trot: Trot) -> None:
    fault, rng = FAULTS[name], np.random.default_rng(1)
    kept = [each for each in with_fault(trot, fault.change, FAULT_TICK) if rng.random() > 0.05]
    end = trot[FAULT_TICK][0].time + 2.0 * fault.within
    found = run_safety(Safety(go2, dt=DT), [each for each in kept if each[0].time <= end])[-1].fault
    assert found is not None and found.name == fault.named


@pytest.mark.parametrize("name", FAULTS)
def test_fault_is_named_and_handled_in_time(name: str, go2: qd.Robot, trot: Trot) -> None:
    fault = FAULTS[name]
    safety = Safety(go2, dt=DT)
    reports = run_safety(safety, with_fault(trot, fault.change, FAULT_TICK))
    assert all(r.fault is None and r.valid_foot_sensors.all() for r in reports[:FAULT_TICK])
    deadline = FAULT_TICK + round(fault.within / DT)
    if not fault.named:
        assert all(r.fault is None for r in reports)
        if fault.reaction == "ignored":
            assert reports[deadline].valid_foot_sensors.tolist() == [True, False, True, True]
        else:
            assert safety.clamp_counts["torque"] > 0 and safety.clamp_counts["torque rate"] > 0
        return
    first = next((k for k, r in enumerate(reports) if r.fault is not None), len(reports))
    assert first < len(reports), "not found"
    found = reports[first].fault
    assert found.name == fault.named, str(found)
    assert first + 1 <= deadline
    assert np.isclose(found.time, DT * first) and found.code == FAULT_CODES[fault.named]
    assert all(r.fault is found for r in reports[first:])  # latched
    for r in reports[first:]:
        assert not r.command.tau.any() and not r.command.stiffness.any() and (r.command.damping > 0.0).all()


def test_safety_guide_lists_the_tested_faults() -> None:
    text = (Path(__file__).parent.parent / "docs" / "safety.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    told = {row[0]: row[1:] for row in rows}
    for name, fault in FAULTS.items():
        assert told[name] == [fault.by, fault.named or "-", fault.reaction, f"{1e3 * fault.within:g} ms"], name


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (FaultCode.CONTROLLER_FAILURE, "controller failed"),
        (FaultCode.CONTROLLER_OVERRUN, "controller late"),
        (FaultCode.LINK_LOSS, "link lost"),
        (FaultCode.OPERATOR_STOP, "stopped"),
        (FaultCode.ROBOT_STOP, "robot stopped"),
        (FaultCode.CONTROLLER_ABORT, "controller aborted"),
    ],
)
def test_faults_detected_elsewhere_are_latched(go2: qd.Robot, trot: Trot, code: int, name: str) -> None:
    safety = Safety(go2, dt=DT)
    run_safety(safety, trot[:20])
    safety.raise_fault(code, "ZeroDivisionError: division by zero")
    safety.raise_fault(FaultCode.OPERATOR_STOP, "too late")
    fault = run_safety(safety, trot[20:22])[0].fault
    assert fault.name == name and "division by zero" in fault.reason
    safety.reset()
    assert run_safety(safety, trot[22:24])[-1].fault is None


def random_limits(rng: np.random.Generator, nu: int) -> SafetyLimits:
    """Limits near the random readings, commands and torques."""

    def per_joint(low: float, high: float) -> np.ndarray:
        return rng.uniform(low, high, nu) if rng.random() < 0.15 else np.full(nu, 1e3)

    return SafetyLimits(
        max_torque=rng.uniform(8.0, 30.0, nu),
        max_torque_rate=per_joint(200.0, 2e4),
        max_stiffness=per_joint(20.0, 200.0),
        max_damping=per_joint(1.0, 10.0),
        max_speed=per_joint(0.3, 3.0),
        max_power=5.0 if rng.random() < 0.2 else 1e3,
        max_temperature=per_joint(45.0, 90.0),
        max_tilt=0.002 if rng.random() < 0.1 else 1.0,
        max_overtravel=0.02 if rng.random() < 0.2 else 1.0,
        max_position_jump=rng.choice([0.003, 0.05, 1.0]),
        max_tilt_drift_rate=2e-4 if rng.random() < 0.1 else 0.15,
        max_torque_tracking_error=0.02 if rng.random() < 0.2 else 1e3,
        max_reading_age=DT * rng.integers(1, 8),
        violation_time=DT * rng.integers(1, 8),
        max_frozen_time=DT * rng.integers(1, 20),
        fault_damping=rng.uniform(0.5, 20.0),
    )


@np.errstate(all="ignore")
def test_random_ticks_give_the_commands_faults_and_counts_of_the_reference(go2: qd.Robot) -> None:
    """Readings, clocks, commands and limits are random; all kinds of faults and of clamped commands appear."""
    rng, faults, counts = np.random.default_rng(9), Counter[int](), np.zeros(6, dtype=int)
    drawn = RandomSequences(go2, rng)
    for _ in range(600):
        R = pin.exp3(rng.choice([0.0, 1.0]) * rng.normal(size=3))
        safety = Safety(go2, dt=DT, limits=random_limits(rng, 12), imu_rotation=R)
        for m, command, now, _ in drawn.sequence(3):
            safety.filter_command(m, command, now=now)
        safety.reset()
        reference = NumpySafety(safety)
        for m, command, now, raised in drawn.sequence(int(rng.integers(2, 80))):
            imu = {name: x @ R for name in ("gyro", "accelerometer") if (x := getattr(m, name)) is not None}
            turned = replace(m, **imu)
            if raised:
                safety.raise_fault(raised, "")
            report = safety.filter_command(turned, command, now=now)
            expected = reference.filter_command(turned, command, now, raised)
            code, joint = (0, None) if report.fault is None else (report.fault.code, report.fault.joint)
            assert code == reference.fault[0] and joint in (None, go2.actuated[reference.fault[1]]), report.fault
            given = report.command
            given = [given.tau, given.position, given.velocity, given.stiffness, given.damping]
            np.testing.assert_allclose(given, expected, rtol=1e-9, atol=1e-9)
            assert (np.abs(given[0]) <= safety.limit_arrays.max_torque).all()
            if code:
                faults[code] += 1
                break
            if len(report.valid_foot_sensors):
                np.testing.assert_array_equal(report.valid_foot_sensors, reference.valid_feet)
            assert safety.clamp_counts == reference.counts
        counts += list(safety.clamp_counts.values())
    assert (counts > 0).all() and set(faults) == set(FAULT_CODES.values())


@pytest.mark.parametrize("speed", [4.0, -4.0])
def test_continuous_joints_turn_through_half_a_turn_without_a_fault_or_a_jump_of_the_torque(speed: float) -> None:
    robot = qd.load("double_pendulum_continuous")
    safety = Safety(robot, dt=DT, limits=SafetyLimits(max_torque=2.0, max_torque_rate=1e6))
    for k in range(1000):
        angle, velocity = np.array([0.3, 2.0]) + speed * DT * k, np.full(2, speed)
        position, ahead = (np.remainder(x + np.pi, 2.0 * np.pi) - np.pi for x in (angle, angle + 0.1))
        m = Measurement(DT * k, position, velocity + 1e-9 * k, np.zeros(3), np.zeros(3))
        command = MotorCommand.from_targets(ahead, velocity, np.full(2, 10.0), np.zeros(2))
        report = safety.filter_command(m, command)
        assert report.fault is None, k
        np.testing.assert_allclose(report.command.compute_torque(position, velocity, np.ones(2, dtype=bool)), 1.0)


def test_a_fixed_arm_needs_no_imu() -> None:
    arm = qd.load("ur5")
    safety, position, velocity = Safety(arm, dt=DT), np.zeros(6), np.full(6, 0.3)
    for k in range(60):
        m = Measurement(DT * k, position + velocity * DT * k, velocity + 1e-6 * k, np.zeros(3), np.zeros(3))
        assert safety.filter_command(m, MotorCommand.from_torques(np.zeros(6))).fault is None


def test_invalid_limits_are_rejected(go2: qd.Robot) -> None:
    for wrong in ({"max_torque": -1.0}, {"max_speed": np.ones(3)}, {"max_tilt": np.nan}, {"max_reading_age": 0.0}):
        with pytest.raises(qd.ArgumentError, match=next(iter(wrong))):
            Safety(go2, dt=DT, limits=SafetyLimits(**wrong))
    for wrong in ({"dt": 0.0}, {"imu_rotation": 2.0 * np.eye(3)}, {"limits": {"max_tilt": 1.0}}):
        raises(qd.ArgumentError, next(iter(wrong)), Safety, go2, **{"dt": DT} | wrong)
    with pytest.raises(qd.ArgumentError, match="name"):
        export_safety(Safety(go2, dt=DT), "unused", name="2 legs")
    with pytest.raises(qd.ArgumentError, match="code"):
        Safety(go2, dt=DT).raise_fault(FAULT_CODES["tilted"], "")


@pytest.mark.parametrize("stamp", [np.nan, np.inf, -np.inf, -1.0, 0.0, "again", "ahead"])
def test_invalid_time_stamp_disables_no_check(go2: qd.Robot, trot: Trot, stamp: float | str) -> None:
    fault = FAULTS["axes of the IMU permuted"]
    readings = with_fault(trot[FAULT_TICK - 10 :], fault.change, 10)[: 10 + round(fault.within / DT)]
    m, tau = readings[10]
    wrong = {"again": m.time - DT, "ahead": m.time + 0.1}.get(stamp, stamp)  # type: ignore[call-overload]
    readings[10] = replace(m, time=wrong), tau
    report = run_safety(Safety(go2, dt=DT), readings)[-1]
    assert report.fault is not None and report.fault.name == fault.named


def test_motor_without_readings_does_not_mask_another(go2: qd.Robot, trot: Trot) -> None:
    m, tau = trot[0]
    hot = np.where(np.arange(12) == 5, 150.0, 40.0)
    for value in (np.nan, np.inf):
        safety = Safety(go2, dt=DT)
        safety.filter_command(
            replace(m, temperature=np.where(np.arange(12) == 0, value, hot)), MotorCommand.from_torques(tau)
        )
        assert safety.fault is not None and safety.fault.joint == go2.actuated[0]
    # A sensor that was never present is ignored, as NaN and as None; one that appears later must stay.
    for part in (np.full(12, np.nan), None):
        safety = Safety(go2, dt=DT)
        for k, (m, tau) in enumerate(trot[:4]):
            given = hot - 100.0 if k == 2 else part
            safety.filter_command(replace(m, temperature=given, foot_forces=part), MotorCommand.from_torques(tau))
            assert (safety.fault is not None) == (k == 3)
        assert safety.fault.name == "sensor missing" and "temperatures" in safety.fault.reason
    wrong = replace(m, time=9.0, temperature=np.zeros(3))  # an array of another shape is not a missing sensor
    assert Safety(go2, dt=DT).filter_command(wrong, MotorCommand.from_torques(tau)).fault.name == "reading not a number"


@pytest.fixture(scope="module")
def in_c(go2: qd.Robot, tmp_path_factory: pytest.TempPathFactory) -> SafetyInC:
    if COMPILER is None:
        pytest.skip("no C compiler")
    return SafetyInC(Safety(go2, dt=DT, limits=LIMITS), tmp_path_factory.mktemp("safety"))


def test_exported_c_agrees_on_random_readings(in_c: SafetyInC) -> None:
    """More readings, and a robot without IMU and feet: benchmarks/under_fire.py."""
    differ, faults, _ = differences(in_c, 2000, 0)
    assert not differ, differ[0]
    assert len(faults) > 6 and faults["sensor missing"] and faults["stale reading"]


@pytest.mark.parametrize("name", ["swapped legs", "gyroscope bias of 1.2 rad/s", "joint too fast"])
def test_exported_c_gives_the_same_results_for_any_time_between_readings(
    name: str, go2: qd.Robot, trot: Trot, in_c: SafetyInC
) -> None:
    """The same torques and the same fault, tick by tick, if the caller passes which readings are new."""
    trot = [
        each
        for k, each in enumerate(with_fault(trot, FAULTS[name].change, FAULT_TICK))
        if k >= FAULT_TICK - 30 and k % 7
    ]
    in_c.reset()
    safety, last = Safety(go2, dt=DT, limits=LIMITS), None
    for (m, tau), report in zip(trot, run_safety(safety, trot), strict=True):
        elapsed = DT if last is None else m.time - last
        code, joint, command = in_c.tick(m, MotorCommand.from_torques(tau), last != m.time, elapsed)
        last = m.time
        given = report.command
        assert np.allclose(command, [given.tau, given.position, given.velocity, given.stiffness, given.damping])
        assert code == (0 if report.fault is None else report.fault.code)
    assert (in_c.name(code), joint) == (report.fault.name, report.fault.joint)


@pytest.mark.parametrize(
    ("name", "value"),
    [("max_tilt", 60.0), ("max_tilt", 4.0), ("max_reading_age", 10.0), ("violation_time", 10.0),
     ("max_frozen_time", 50.0)],
)  # fmt: skip
def test_limits_in_degrees_and_milliseconds_are_rejected(go2: qd.Robot, name: str, value: float) -> None:
    with pytest.raises(qd.ArgumentError, match=f"{name}: .*pass (radians|seconds)"):
        Safety(go2, dt=DT, limits=SafetyLimits(**{name: value}))


def test_an_infinite_tilt_limit_permits_every_tilt(go2: qd.Robot) -> None:
    assert SafetyLimits(max_tilt=np.inf).to_arrays(go2, DT).min_cos_tilt == -1.0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_position_jump", 3.0),
        ("max_position_jump", np.full(12, 3.0)),
        ("max_overtravel", 5.7),
        ("max_speed", 287.0),
        ("max_torque", 23700.0),
        ("max_tilt_drift_rate", 8.6),
        ("max_torque_tracking_error", 15.0),
        ("max_temperature", 353.0),
    ],
)
def test_limits_that_no_reading_exceeds_raise_warnings(go2: qd.Robot, name: str, value: Any) -> None:
    with pytest.warns(RuntimeWarning, match=rf"{name}: .* so that nothing is checked"):
        Safety(go2, dt=DT, limits=SafetyLimits(**{name: value}))


def test_default_limits_raise_no_warnings() -> None:
    for name in ("double_pendulum", "centauro", "z1"):  # with a locked joint, wheels, and a gripper
        SafetyLimits().to_arrays(robot := qd.load(name), DT)
        SafetyLimits(max_speed=1.5 * robot.velocity_limits, max_position_jump=np.inf).to_arrays(robot, DT)


@pytest.mark.parametrize(
    ("scale", "unit"), [(1.0, ""), (1.0 / 9.81, "in g;"), (1e3 / 9.81, "in mg"), (1e3, r"in mm/s\^2")]
)
def test_accelerometers_in_other_units_are_a_fault(go2: qd.Robot, trot: Trot, scale: float, unit: str) -> None:
    still = replace(trot[0][0], velocity=np.zeros(12), torque=None, gyro=np.zeros(3))
    standing = replace(still, accelerometer=scale * np.array([0.3, -0.2, 9.8]))
    falling = replace(standing, accelerometer=np.full(3, 0.05), gyro=np.full(3, 0.2))
    safety = Safety(go2, dt=DT)
    for k in range(round(1.5 / DT)):
        m = falling if 0.2 < k * DT < 0.7 and not unit else standing
        fault = safety.filter_command(replace(m, time=1.0 + k * DT), None, now=k * DT).fault
    if unit:
        assert fault is not None and fault.name == "IMU unit" and re.search(unit, fault.reason)
    else:
        assert fault is None


@pytest.mark.parametrize(
    ("code", "value", "allowed", "text"),
    [
        (FaultCode.POWER_LIMIT, 0.61, 0.5, "is 0.61 W, the limit is 0.5 W"),
        (FaultCode.POWER_LIMIT, 12345.6, 900.0, "is 12346 W, the limit is 900 W"),
        (FaultCode.TEMPERATURE_LIMIT, 80.004, 80.0, "80.004 degrees Celsius, the limit is 80"),
        (FaultCode.VELOCITY_LIMIT, -30.1004, 30.1, "-30.1004 rad/s, the limit is 30.1 rad/s"),
        (FaultCode.STALE_READING, np.inf, 0.01, "no new reading for inf s"),
    ],
)
def test_faults_tell_values_and_limits_apart(
    go2: qd.Robot, code: FaultCode, value: float, allowed: float, text: str
) -> None:
    assert text in Fault.from_code(code, 0, value, allowed, go2).reason
