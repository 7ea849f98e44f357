"""Preflight checks of a robot in a stand: wiring errors are detected, and hints for visual inspection are given."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from raising import raises
from slow_parameters import NIGHT, others_slow
from typer.testing import CliRunner
from urdf_text import collision, inertial, joint, link, urdf

import quaddyn as qd
from quaddyn.cli import app
from quaddyn.runtime import HangingRobot, MotorCommand, OperatorPrompt, RealTimeOptions, preflight
from quaddyn.runtime.hanging_robot import STOP_PENETRATION
from quaddyn.runtime.preflight import _Preflight
from quaddyn.runtime.preflight_report import PreflightCheck, PreflightReport
from quaddyn.simulation import Measurement


def body(name: str, mass: float, z: float, *shapes: str) -> str:
    return link(name, inertial(mass, f"0 0 {z}", 0.004 * mass), *shapes)


LEG = urdf(
    body("trunk", 5.0, 0.0),
    body("hip", 0.6, 0.0),
    body("thigh", 1.0, -0.1),
    body("calf", 0.4, -0.1, collision('sphere radius="0.02"', "0 0 -0.2")),
    joint("hip", "trunk", "hip", "1 0 0", effort=8, velocity=20),
    joint("thigh", "hip", "thigh", xyz="0 0 -0.05", effort=8, velocity=20),
    joint("calf", "thigh", "calf", xyz="0 0 -0.2", effort=8, velocity=20),
    name="hopper",
)


@pytest.fixture(autouse=True)
def running_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves the garbage collector enabled: disabling it takes half a second of each run here."""
    monkeypatch.setattr(RealTimeOptions, "_disable_gc", lambda *_: None)


@pytest.fixture(scope="module")
def leg() -> qd.Robot:
    """A single leg under a trunk: hip, thigh and calf."""
    return qd.load(LEG, root="free", q_home=[0.0, 0.0, 0.5, 0.0, 0.0, 0.0, 1.0, 0.0, 0.7, -1.2])


class MiswiredRobot(HangingRobot):
    """A robot with faults in the connection of its motors and sensors."""

    def __init__(
        self,
        robot: qd.Robot,
        *,
        read: Callable[[Measurement], Measurement] = lambda m: m,
        write: Callable[[MotorCommand], MotorCommand] = lambda c: c,
    ) -> None:
        super().__init__(robot, dt=2e-3 if NIGHT else 4e-3)
        self._read, self._write = read, write

    def read(self) -> Measurement:
        return self._read(super().read())

    def write(self, command: MotorCommand) -> None:
        super().write(self._write(command))


def run_preflight(
    robot: qd.Robot, joints: tuple[str, ...] | None = None, **wrong: object
) -> dict[str, tuple[bool | None, str, str]]:
    side = MiswiredRobot(robot, **wrong)
    report = preflight(side, clock=side, prompt=side.perform, torque_fraction=0.5, joints=joints)
    assert report.passed == all(check.passed for check in report.checks)
    assert side.command.damping.all() and not side.command.stiffness.any()  # left damped
    return {check.name: (check.passed, check.result, check.inspection_hint) for check in report.checks}


def failed_checks(checks: dict[str, tuple[bool | None, str, str]]) -> set[str]:
    return {name for name, (passed, _, _) in checks.items() if passed is False}


def test_a_correct_robot_passes_with_hints_for_inspection(leg: qd.Robot) -> None:
    checks = run_preflight(leg)
    assert not failed_checks(checks) and all(passed for passed, _, _ in checks.values()), checks
    assert sum(name.startswith("order and sign") for name in checks) == leg.nu
    assert all("foot leg moves" in look for name, (_, _, look) in checks.items() if name.startswith("order"))
    assert {"gravity", "IMU axes, nose down", "IMU axes, left down", "effort limits"} <= set(checks)


def test_swapped_encoders_are_detected(leg: qd.Robot) -> None:
    a, b, c = leg.actuated
    order = [1, 0, 2]
    checks = run_preflight(leg, read=lambda m: replace(m, position=m.position[order], velocity=m.velocity[order]))
    assert {f"order and sign of {a}", f"order and sign of {b}"} <= failed_checks(checks)
    assert f"moved {b}" in checks[f"order and sign of {a}"][1] and checks[f"order and sign of {c}"][0]
    assert checks["gravity"][0] is None  # no stiffness before the signs are verified


def test_reversed_encoder_is_detected(leg: qd.Robot) -> None:
    sign = np.array([1.0, 1.0, -1.0])
    checks = run_preflight(
        leg, (leg.actuated[2],), read=lambda m: replace(m, position=sign * m.position, velocity=sign * m.velocity)
    )
    assert f"order and sign of {leg.actuated[2]}" in failed_checks(checks)
    assert "is wrong" in checks[f"order and sign of {leg.actuated[2]}"][1]


def test_disabled_motor_and_wrong_torque_constant_are_detected(leg: qd.Robot) -> None:
    on = np.array([1.0, 0.0, 1.0])
    checks = run_preflight(leg, (leg.actuated[1],), write=lambda c: replace(c, tau=on * c.tau))
    assert "did not move" in checks[f"order and sign of {leg.actuated[1]}"][1]
    checks = run_preflight(leg, read=lambda m: replace(m, torque=1.6 * m.torque))
    assert failed_checks(checks) == {"gravity"} and "times those of the model" in checks["gravity"][1]


TURNED = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
OVER = np.diag([1.0, -1.0, -1.0])


def rotate_imu(R: np.ndarray) -> Callable[[Measurement], Measurement]:
    return lambda m: replace(m, gyro=R @ m.gyro, accelerometer=R @ m.accelerometer)


UNITS = (lambda m: replace(m, accelerometer=m.accelerometer / 9.81), "accelerometer at rest", "expected 9.81")
AXES = (rotate_imu(TURNED), "IMU axes", "gravity moved to")
OTHER_WRONGS = [
    (lambda m: replace(m, gyro=-m.gyro), "IMU axes", "the vertical integrated from the gyroscope"),
    (rotate_imu(OVER), "IMU vertical", "-z axis points up"),
    (lambda m: replace(m, gyro=m.gyro + 0.2), "gyroscope at rest", "0.3"),
]


@pytest.mark.parametrize(("change", "where", "words"), others_slow([AXES, UNITS, *OTHER_WRONGS], [AXES, UNITS]))
def test_rotated_or_faulty_imu_is_detected(
    leg: qd.Robot, change: Callable[[Measurement], Measurement], where: str, words: str
) -> None:
    checks = run_preflight(leg, (), read=change)
    found = {name: said for name, (passed, said, _) in checks.items() if passed is False}
    assert found and all(name.startswith(where) for name in found), found
    assert any(words in said for said in found.values()), found


def test_zero_acceleration_readings_during_trunk_rotation_are_ignored(leg: qd.Robot) -> None:
    """A sensor drops out for a moment whenever the operator is prompted for a rotation."""
    asked: list[OperatorPrompt] = []
    dropped: list[OperatorPrompt] = []
    side = MiswiredRobot(leg)

    def read(m: Measurement) -> Measurement:
        if not asked:
            return m
        dropped.append(asked.pop())
        return replace(m, accelerometer=np.zeros(3))

    def ask(what: OperatorPrompt) -> None:
        side.perform(what)
        asked[:] = [what]

    side._read = read
    checks = {
        check.name: check.passed
        for check in preflight(side, clock=side, prompt=ask, torque_fraction=0.5, joints=()).checks
    }
    assert set(dropped) == set(OperatorPrompt)
    assert checks["IMU axes, nose down"] and checks["IMU axes, left down"]


def test_a_faulty_reading_during_preflight_ends_in_damping_and_is_reported(leg: qd.Robot) -> None:
    nan = np.full(3, np.nan)
    side = MiswiredRobot(leg)
    side._read = lambda m: replace(m, position=nan) if m.time > 3.0 else m
    report = preflight(side, clock=side, torque_fraction=0.5)
    assert report.checks[-1].name == "safety layer" and "NaN" in report.checks[-1].result
    assert not report.passed and side.now() < 3.1


def test_robot_with_half_the_reading_rate_is_not_moved(leg: qd.Robot) -> None:
    kept: list[Measurement] = []

    def every_other(m: Measurement) -> Measurement:
        kept.append(kept[-1] if len(kept) % 2 else m)
        return kept[-1]

    checks = run_preflight(leg, read=every_other)
    passed, found, look = checks["readings"]
    assert passed is False and found.startswith("50 %") and "send readings at this rate" in look
    assert checks["order and signs of joints"][0] is None


def test_the_command_tests_a_simulated_robot(tmp_path: Path) -> None:
    (tmp_path / "hopper.urdf").write_text(LEG, encoding="utf-8")
    done = CliRunner().invoke(app, ["preflight", str(tmp_path / "hopper.urdf"), "--torque-fraction", "0.5", "--json"])
    told = json.loads(done.stdout)
    assert done.exit_code == (0 if told["passed"] else 1) and told["passed"], told
    assert not any("IMU" in check["name"] for check in told["checks"])  # fixed base
    assert CliRunner().invoke(app, ["preflight", "go2", "--udp", "here"]).exit_code != 0


def hanging(leg: qd.Robot, **parts: object) -> Measurement:
    m = Measurement(0.0, np.zeros(3), np.zeros(3), np.zeros(3), np.array([0.0, 0.0, 9.81]))
    return replace(m, **parts)


def test_one_hot_motor_or_loaded_foot_sensor_is_reported(leg: qd.Robot) -> None:
    for parts, name in (
        ({"temperature": np.array([25.0, 61.0, 25.0])}, "motor temperatures"),
        ({"foot_forces": np.array([-100.0])}, "foot sensors in the air"),
        ({"foot_forces": np.array([0.0, 100.0, 0.0, 0.0])}, "foot sensors in the air"),
    ):
        pre = _Preflight(leg, 2e-3, 0.5, None, leg.actuated)
        assert pre._check_readings([hanging(leg, time=2e-3 * k, **parts) for k in range(20)])
        assert [check.name for check in pre.checks if check.passed is False] == [name]


def test_accelerometer_in_units_of_g_is_reported(leg: qd.Robot) -> None:
    pre = _Preflight(leg, 2e-3, 0.5, None, leg.actuated)
    for size, words in ((1.0, "units of g; multiply"), (5.0, "in m/s^2?")):
        assert not pre._check_imu_at_rest([hanging(leg, accelerometer=np.array([0.0, 0.0, size]))] * 20)
        assert words in pre.checks[-1].inspection_hint


@pytest.mark.parametrize(("position", "sign"), [(1.4, -1.0), (1.2, 1.0), (-1.4, 1.0)])
def test_a_joint_near_a_stop_is_pushed_away_from_it(leg: qd.Robot, position: float, sign: float) -> None:
    steps = _Preflight(leg, 2e-3, 0.5, None, leg.actuated)._excite_joint(1)
    command = next(steps)
    while not command.tau.any():
        command = steps.send(hanging(leg, position=np.full(3, position)))
    assert np.sign(command.tau).tolist() == [0.0, sign, 0.0]


def test_the_next_tilt_is_prompted_when_the_trunk_is_level_and_at_rest(leg: qd.Robot) -> None:
    prompts: list[OperatorPrompt] = []
    pre = _Preflight(leg, 2e-3, 0.5, None, leg.actuated)
    pre._bias, steps = np.zeros(3), pre._check_imu_axes(prompts.append)
    next(steps)
    tilted = 9.81 * np.array([-np.sin(0.4), 0.0, np.cos(0.4)])
    for k in range(400):
        level = OperatorPrompt.LEVEL in prompts
        turning = {"gyro": np.array([0.0, 1.0, 0.0])} if k < 300 else {}
        parts = turning if level else {} if k < 20 else {"accelerometer": tilted}
        steps.send(hanging(leg, time=2e-3 * k, **parts))
        assert (prompts.count(OperatorPrompt.LEFT_DOWN) == 1) == (k >= 300)


def test_joint_is_identified_by_the_motion_of_all_joints(leg: qd.Robot) -> None:
    """Also if a joint further out moves farther: the model predicts the motion for a torque at each joint."""
    pre = _Preflight(leg, 2e-3, 0.5, None, leg.actuated)
    position = np.zeros(leg.nu)  # stretched
    inertia = qd.Dynamics(leg).crba(pre._configuration(position))[6:, 6:]
    farther = 0
    for duration in (0.01, 0.3):
        drag = 6.0 / duration**2 * inertia + 2.0 / duration * np.diag(pre._kd)
        for i, moved in enumerate(-0.1 * np.linalg.inv(drag).T):
            for asked in range(leg.nu):
                if np.argmax(np.abs(moved)) != asked:
                    farther += asked == i
                    assert pre._identify_moved_joint(asked, moved, position, duration) == (i, -1.0)
    assert farther


def test_robots_that_cannot_hang_are_rejected(leg: qd.Robot) -> None:
    raises(qd.ArgumentError, "torque_fraction", preflight, HangingRobot(leg), torque_fraction=0.0)
    raises(qd.ArgumentError, "planar", HangingRobot, qd.load("go2", root="planar"))


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_both_joint_stops_have_equal_stiffness_and_damping(leg: qd.Robot, side: float) -> None:
    robot, asked = HangingRobot(leg), []
    q, v = np.full(leg.nu, 1.6 * side), np.full(leg.nu, 0.5 * side)
    robot.plant.reset(q, v)
    robot.plant.step = lambda tau: asked.append(tau)  # type: ignore[method-assign]
    robot.step()
    robot.plant.reset(q, 0.0 * v)
    robot.step()
    moving, still = (tau - robot.commanded_torque() for tau in asked)
    np.testing.assert_allclose(still, -side * robot._stop_stiffness * 0.1)
    np.testing.assert_allclose(moving, still - side * robot._stop_stiffness * 2.0 * STOP_PENETRATION * 0.5)


def test_report_ends_with_the_number_of_checks() -> None:
    good, bad, none = (
        PreflightCheck("one", True, "fine"),
        PreflightCheck("two", False, "odd", "here"),
        PreflightCheck("three", None, "not tried"),
    )
    assert str(PreflightReport((good, bad))).splitlines()[-1] == "2 checks, 1 failed"
    told = str(PreflightReport((good, bad, none)))
    assert told.splitlines()[-1] == "3 checks, 1 failed, 1 not tried" and "look: here" in told


def test_hints_describe_the_motion_of_a_foot() -> None:
    """Only main directions are described: components below a third of the motion are omitted."""

    def seen(name: str) -> dict[str, tuple[str, str]]:
        robot = qd.load(name)
        self = SimpleNamespace(robot=robot)
        self._configuration = lambda position: _Preflight._configuration(self, position)  # type: ignore[arg-type]
        home = np.array([robot.decompose(robot.q_home).joints[joint] for joint in robot.actuated])
        ways = ([_Preflight._describe_motion(self, i, sign, home) for sign in (1.0, -1.0)] for i in range(robot.nu))  # type: ignore[arg-type]
        return dict(zip(robot.actuated, map(tuple, ways), strict=True))

    dog, arm = seen("go2"), seen("ur5")
    assert dog["FL_hip_joint"] == ("foot FL moves left", "foot FL moves right")
    assert dog["RR_thigh_joint"] == ("foot RR moves backward", "foot RR moves forward")
    assert dog["FL_calf_joint"] == ("foot FL moves backward and down", "foot FL moves forward and up")
    turns = ("elbow_joint turns forward about its axis", "elbow_joint turns backward about its axis")
    assert arm["elbow_joint"] == turns
