"""The safety layer: faults inserted into the readings of a trot are named and end in damping in time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
from compiling_c import COMPILER
from runtime_faults import CALF, DT, FAULTS, Trot, recorded_trot, with_fault
from safety_in_c import LIMITS, SafetyInC, differences

import quaddyn as qd
from quaddyn.compiler import interpret
from quaddyn.runtime import MotorCommand, Safety, SafetyLimits, export_safety
from quaddyn.runtime.faults import FAULT_CODES
from quaddyn.runtime.safety_checks import FaultCode
from quaddyn.simulation import Measurement

FAULT_TICK = 150  # tick of the fault


@pytest.fixture(scope="module")
def go2() -> qd.Robot:
    return qd.load("go2")


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


def test_power_limit_is_enforced(go2: qd.Robot, trot: Trot) -> None:
    usual = max(np.maximum(m.torque * m.velocity, 0.0).sum() for m, _ in trot)
    assert run_safety(Safety(go2, dt=DT, limits=SafetyLimits(max_power=1.1 * usual)), trot)[-1].fault is None
    fault = run_safety(Safety(go2, dt=DT, limits=SafetyLimits(max_power=0.2 * usual)), trot)[-1].fault
    assert fault.name == "power limit" and fault.joint is None and "total power of the motors" in fault.reason


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


def test_commands_are_clamped_exactly_at_limits(go2: qd.Robot, trot: Trot) -> None:
    m, effort = replace(trot[0][0], velocity=np.zeros(12)), go2.effort_limits
    safety = Safety(go2, dt=DT, limits=SafetyLimits(max_stiffness=100.0, max_torque_rate=effort / 5e-3))
    wild = MotorCommand.from_targets(m.position + 3.0, m.velocity, np.full(12, 500.0), np.full(12, 1.0))
    reports = [safety.filter_command(replace(m, time=0.1 + DT * k), wild) for k in range(5)]
    torques = np.array([r.command.compute_torque(m.position, m.velocity) for r in reports])
    assert np.allclose(torques[0], 0.4 * effort)  # the full torque in 5 ms, from zero
    assert np.allclose(torques[-1], effort) and not reports[0].command.stiffness.any()
    assert safety.clamp_counts["gain"] == 60 and safety.clamp_counts["torque rate"] == 24 and reports[-1].fault is None

    mild = MotorCommand.from_targets(m.position + 0.1, m.velocity, np.full(12, 500.0), np.full(12, 1.0))
    given = Safety(go2, dt=DT, limits=SafetyLimits(max_stiffness=100.0)).filter_command(m, mild).command
    assert (given.stiffness == 100.0).all() and np.allclose(given.compute_torque(m.position, m.velocity), 10.0)
    # Numbers that do not cancel.
    wild = MotorCommand(np.full(12, -1e300), np.full(12, 1e290), np.zeros(12), np.full(12, 1e10), np.zeros(12))
    given = Safety(go2, dt=DT).filter_command(m, wild).command
    assert (np.abs(given.compute_torque(m.position, m.velocity)) <= effort).all()
    wild = MotorCommand.from_targets(*np.outer([1e301, -1e301, 1e301, 1e301], np.ones(12)))  # inf - inf
    assert not Safety(go2, dt=DT).filter_command(m, wild).command.tau.any()

    at_stop = replace(m, position=np.where(np.arange(12) == CALF, go2.upper_position_limits[CALF], m.position))
    safety = Safety(go2, dt=DT)
    assert safety.filter_command(at_stop, MotorCommand.from_torques(np.full(12, 5.0))).command.tau.tolist()[1:4] == [
        5.0,
        0.0,
        5.0,
    ]
    fast = replace(m, velocity=np.where(np.arange(12) == 1, 0.95 * go2.velocity_limits[1], 0.0))
    given = (
        Safety(go2, dt=DT, limits=SafetyLimits(max_torque_rate=1e6))
        .filter_command(fast, MotorCommand.from_torques(effort))
        .command.tau
    )
    assert np.isclose(given[1], 0.5 * effort[1]) and np.allclose(np.delete(given, 1), np.delete(effort, 1))


def at_rest(robot: qd.Robot, k: int = 0, **parts: object) -> Measurement:
    """A reading at the middle of all joints' ranges, k periods after the first; no two are equal."""
    noise, middle = 1e-6 * k, 0.5 * (robot.lower_position_limits + robot.upper_position_limits)
    m = Measurement(DT * k, middle + noise, np.zeros(12), np.full(3, noise), np.array([0.0, 0.0, 9.81 + noise]))
    return replace(m, **parts)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_clamps_and_joint_stops_are_equal_in_both_directions(go2: qd.Robot, sign: float) -> None:
    effort, safety = (
        go2.effort_limits,
        Safety(go2, dt=DT, limits=SafetyLimits(max_torque_rate=1e6, max_position_jump=1e3)),
    )
    stop = go2.upper_position_limits if sign > 0.0 else go2.lower_position_limits

    def given(push: float, **parts: object) -> np.ndarray:
        m = at_rest(go2, **parts)
        safety.reset()
        report = safety.filter_command(m, MotorCommand.from_torques(sign * push * effort))
        assert report.fault is None
        return sign * report.command.compute_torque(m.position, m.velocity) / effort

    np.testing.assert_allclose(given(3.0), 1.0)
    np.testing.assert_allclose(given(-3.0), -1.0)
    fast = sign * 0.95 * go2.velocity_limits
    np.testing.assert_allclose(given(1.0, velocity=fast), 0.5)  # driving torque
    np.testing.assert_allclose(given(-1.0, velocity=fast), -1.0)  # braking torque
    for inside, left in ((0.025, 0.5), (0.0, 0.0), (-0.05, 0.0)):
        for speed in (0.0, 0.5, -0.5):
            there = {"position": stop - sign * inside, "velocity": sign * speed * go2.velocity_limits}
            np.testing.assert_allclose(given(1.0, **there), left, atol=1e-9)
            np.testing.assert_allclose(given(-1.0, **there), -1.0)
    for joint in range(12):
        beyond = {"position": np.where(np.arange(12) == joint, stop + sign * 0.11, at_rest(go2).position)}
        safety.reset()
        fault = safety.filter_command(at_rest(go2, velocity=0.3 * fast, **beyond), MotorCommand.zero(12)).fault
        assert fault is not None and (fault.name, fault.joint) == ("position limit", go2.actuated[joint])


def test_torque_rate_is_limited_in_both_directions(go2: qd.Robot) -> None:
    effort, torque = go2.effort_limits, np.zeros(12)
    safety = Safety(go2, dt=DT, limits=SafetyLimits(max_torque_rate=0.1 * effort / DT))
    for k, sign in enumerate([1.0] * 3 + [-1.0] * 8 + [1.0] * 8 + [0.0] * 8):
        torque = torque + np.clip(sign * effort - torque, -0.1 * effort, 0.1 * effort)
        given = safety.filter_command(at_rest(go2, k), MotorCommand.from_torques(sign * effort)).command
        np.testing.assert_allclose(given.tau, torque, atol=1e-12)


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


@pytest.mark.parametrize("speed", [0.19, 0.21, -0.21])
@pytest.mark.parametrize("name", ["gyroscope frozen", "accelerometer frozen", "encoder frozen"])
def test_repeated_readings_are_a_fault_only_while_joints_move(go2: qd.Robot, name: str, speed: float) -> None:
    """A joint may rest while the others move, but its encoder has noise."""
    safety, off = Safety(go2, dt=DT, limits=SafetyLimits(max_position_jump=1e3)), MotorCommand.zero(12)
    frozen, first = np.arange(12) == 4, at_rest(go2)
    faults = []
    for k in range(27):
        m = at_rest(go2, k, velocity=np.full(12, speed))
        if name == "encoder frozen":
            still = {"position": np.where(frozen, first.position, m.position), "velocity": speed * ~frozen}
        else:
            part = name.split()[0].replace("scope", "")
            still = {part: getattr(first, part)}
        faults.append(safety.filter_command(replace(m, **still), off).fault)
    assert faults[24] is None and (faults[25] is None) == (speed == 0.19)
    assert speed == 0.19 or faults[25].name == name


def test_rotated_imu_gives_the_same_vertical(go2: qd.Robot, trot: Trot) -> None:
    R, states = pin.exp3(np.array([0.5, -0.8, 1.2])), []
    for mounted in (np.eye(3), R):
        turned = [
            (replace(m, gyro=mounted.T @ m.gyro, accelerometer=mounted.T @ m.accelerometer), tau) for m, tau in trot
        ]
        safety = Safety(go2, dt=DT, imu_rotation=mounted)
        run_safety(safety, turned[:300])
        states.append(np.array([safety.memory.vertical, safety.memory.tilt_drift_rate]))
    assert np.abs(states[0]).min() > 1e-6
    np.testing.assert_allclose(states[1], states[0], atol=1e-12)


@pytest.mark.parametrize("named", ["temperature limit", "torque limit", "velocity limit", "power limit"])
def test_only_persistent_violations_of_a_limit_are_faults(go2: qd.Robot, named: str) -> None:
    limits = SafetyLimits(
        max_torque_tracking_error=1e9,
        max_position_jump=1e3,
        max_power=100.0,
        max_speed=np.where(np.arange(12) == 1, 1.0, 30.0),
    )
    part, value = {
        "temperature limit": ("temperature", 90.0),
        "torque limit": ("torque", 1.2 * go2.effort_limits),
        "velocity limit": ("velocity", -1.1),
        "power limit": ("torque", 20.0),
    }[named]
    usual = {"temperature": np.full(12, 40.0), "torque": np.zeros(12)}
    if named == "power limit":
        usual["velocity"] = np.where(np.arange(12) == 1, 0.9, 6.0)
    at = 2 if named == "power limit" else 1
    wrong = usual | {part: np.where(np.arange(12) == at, value, usual.get(part, np.zeros(12)))}
    safety, off = Safety(go2, dt=DT, limits=limits), MotorCommand.zero(12)
    for k in range(40):  # one bad reading less than allowed, then a good one
        m = at_rest(go2, k, **(usual if k % 5 == 4 else wrong))
        assert safety.filter_command(m, off).fault is None, k
    faults = [safety.filter_command(at_rest(go2, k, **wrong), off).fault for k in range(40, 45)]
    assert faults[3] is None and faults[4] is not None and faults[4].name == named


def test_first_torque_after_damping_is_close_to_the_damping_torque(go2: qd.Robot) -> None:
    effort, velocity = go2.effort_limits, np.full(12, 1.0)
    for fault in (False, True):
        safety = Safety(
            go2, dt=DT, limits=SafetyLimits(max_torque_rate=effort / 20e-3, fault_damping=2.0, max_position_jump=1e3)
        )
        full = MotorCommand.from_torques(effort)
        for k in range(12):
            safety.filter_command(at_rest(go2, k, velocity=velocity), full)
        if fault:  # damping after the fault, within the motor limits; a reset starts from zero torque
            safety.raise_fault(FaultCode.OPERATOR_STOP, "")
        damped = safety.filter_command(at_rest(go2, 12, velocity=velocity), full if fault else None).command
        np.testing.assert_allclose(damped.compute_torque(at_rest(go2).position, velocity), -2.0)
        if fault:
            safety.reset()
        given = safety.filter_command(at_rest(go2, 13, velocity=velocity), full).command
        np.testing.assert_allclose(given.tau, 0.1 * effort - (0.0 if fault else 2.0))


@pytest.mark.parametrize(("force", "others_change", "valid"), [(0.0, 1, True), (37.0, 0, True), (37.0, 1, False)])
def test_foot_sensor_is_ignored_if_a_force_is_constant_while_others_change(
    go2: qd.Robot, force: float, others_change: int, valid: bool
) -> None:
    """A foot in the air may report 0 for any time."""
    safety, others = Safety(go2, dt=DT), np.array([20.0, 30.0, 40.0])
    for k in range(200):
        m = at_rest(go2, k, foot_forces=np.r_[force, others + others_change * k])
        report = safety.filter_command(m, MotorCommand.zero(12))
    assert report.fault is None and report.valid_foot_sensors.tolist() == [valid, True, True, True]
    changed = at_rest(go2, 200, foot_forces=np.r_[force + 1.0, others])
    assert safety.filter_command(changed, MotorCommand.zero(12)).valid_foot_sensors.all()


def test_damping_is_within_the_torque_limits(go2: qd.Robot, trot: Trot) -> None:
    safety = Safety(go2, dt=DT, limits=SafetyLimits(fault_damping=50.0))
    safety.raise_fault(FaultCode.OPERATOR_STOP, "")
    m = replace(trot[0][0], velocity=np.linspace(-20.0, 20.0, 12))
    given = safety.filter_command(m, MotorCommand.from_torques(np.zeros(12))).command
    assert np.allclose(
        given.compute_torque(m.position, m.velocity)[[0, -1]], [go2.effort_limits[0], -go2.effort_limits[-1]]
    )


def test_machine_code_agrees_with_its_python(go2: qd.Robot, trot: Trot) -> None:
    short = with_fault(trot, FAULTS["gyroscope bias of 1.2 rad/s"].change, FAULT_TICK)[
        FAULT_TICK - 10 : FAULT_TICK + 15
    ]
    compiled = run_safety(Safety(go2, dt=DT, limits=SafetyLimits(max_tilt_drift_rate=1e-3)), short)
    with interpret():
        plain = run_safety(Safety(go2, dt=DT, limits=SafetyLimits(max_tilt_drift_rate=1e-3)), short)
    assert compiled[-1].fault.name == plain[-1].fault.name == "IMU inconsistent"
    assert np.isclose(compiled[-1].fault.time, plain[-1].fault.time)


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
        with pytest.raises(qd.ArgumentError, match=next(iter(wrong))):
            Safety(go2, **({"dt": DT} | wrong))
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


def test_time_stamps_are_bounded_by_the_callers_clock_or_by_the_number_of_calls(go2: qd.Robot, trot: Trot) -> None:
    """After a gap the time stamp advances by the same time; the caller's clock is optional."""
    m, off = trot[0][0], MotorCommand.from_torques(np.zeros(12))
    for clock, ahead, counts in ((0.0, 0.04, True), (0.0, 0.06, False), (0.1, 0.13, True), (np.nan, 0.06, False)):
        safety = Safety(go2, dt=DT)
        safety.filter_command(m, off, now=0.0)
        safety.filter_command(replace(m, time=m.time + ahead, position=np.full(12, np.nan)), off, now=clock)
        assert (safety.fault is not None) == counts, (clock, ahead)


def test_readings_older_than_the_limit_are_a_fault(go2: qd.Robot) -> None:
    safety, off = Safety(go2, dt=DT, limits=SafetyLimits(max_reading_age=4.0 * DT)), MotorCommand.zero(12)
    faults = [safety.filter_command(at_rest(go2, min(k, 10)), off).fault for k in range(16)]
    assert faults[14] is None and faults[15].name == "stale reading"


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
