"""Base state estimated from encoders, IMU and stance feet, compared with the true state of the plant."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np
import pinocchio as pin
import pytest
from loop_robots import quadruped
from raising import raises

import quaddyn as qd
from quaddyn.compiler import diagonal3, interpret, vec3
from quaddyn.estimation import BaseEstimator, SensorNoise
from quaddyn.estimation.invariant_filter import (
    FEET,
    POSITION,
    apply_correction,
    compute_encoder_noise,
    evaluate_innovation,
    find_loaded_feet,
    set_foothold,
)
from quaddyn.locomotion import LocomotionController
from quaddyn.simulation import Encoders, FootSensors, Imu, MujocoPlant, Sensors
from quaddyn.simulation.sensors import Observable

DT = 2e-3


@dataclass
class Trot:
    """Trot with feedback of the true state: states, contact forces and the controller's accelerations at each tick."""

    robot: qd.Robot
    q: np.ndarray
    v: np.ndarray
    forces: np.ndarray
    accelerations: np.ndarray


class RecordedTrot(Observable):
    """Plant that replays a trot for the sensors."""

    def __init__(self, trot: Trot) -> None:
        self.robot, self.trot, self.k = trot.robot, trot, 0

    q = property(lambda self: self.trot.q[self.k])
    v = property(lambda self: self.trot.v[self.k])
    time = property(lambda self: self.k * DT)
    tau = property(lambda self: np.zeros(self.robot.nu))
    contact_forces = property(lambda self: dict(zip(self.robot.feet, self.trot.forces[self.k], strict=True)))


@pytest.fixture(scope="module")
def trot() -> Trot:
    return trotting(qd.load("go2"), 800)


def trotting(robot: qd.Robot, ticks: int) -> Trot:
    """Simulates `ticks` ticks of a robot that starts to trot."""
    plant, controller, dynamics = MujocoPlant(robot, dt=DT), LocomotionController(robot, dt=DT), qd.Dynamics(robot)
    rows = []
    for _ in range(ticks):
        q, v, felt = np.array(plant.q), np.array(plant.v), plant.contact_forces
        command = controller.compute(dynamics.update(q, v), (0.4, 0.1, 0.3))
        forces = np.array([felt.get(foot, np.zeros(3)) for foot in robot.feet])
        rows.append((q, v, forces, command.wbc_command.acceleration))
        plant.step(command.tau)
    return Trot(robot, *(np.array(x) for x in zip(*rows, strict=True)))


def run_estimator(
    trot: Trot, encoders: Encoders, imu: Imu, *, delay: float = 0.0, estimator: BaseEstimator | None = None
) -> Iterator[tuple[int, BaseEstimator, np.ndarray, np.ndarray]]:
    """Yields tick, estimator, estimated q and v; a foot with over 1/20 of the weight is in contact."""
    robot, played = trot.robot, RecordedTrot(trot)
    feet = FootSensors()
    sensors = Sensors(robot, np.random.default_rng(0), encoders=encoders, imu=imu, feet=feet, delay=delay)
    estimator = BaseEstimator(robot, dt=DT) if estimator is None else estimator
    for played.k in range(len(trot.q)):
        m = sensors.read(played)
        standing = [foot for foot, f in zip(robot.feet, m.foot_forces, strict=True) if f > 0.05 * 9.81 * robot.mass]
        yield played.k, estimator, *estimator.update(m.position, m.velocity, m.gyro, m.accelerometer, standing)


def states(trot: Trot, encoders: Encoders, imu: Imu) -> tuple[np.ndarray, np.ndarray]:
    """Estimated q and v at all ticks."""
    rows = [(q, v) for _, _, q, v in run_estimator(trot, encoders, imu)]
    return tuple(np.array(x) for x in zip(*rows, strict=True))  # type: ignore[return-value]


def attitude_error(q: np.ndarray, truth: np.ndarray) -> float:
    """Largest angle between the verticals in base axes [rad]."""

    def up(x: np.ndarray) -> np.ndarray:
        return pin.Quaternion(x[3:7].copy()).toRotationMatrix()[2]

    return max(float(np.arccos(np.clip(up(a) @ up(b), -1.0, 1.0))) for a, b in zip(q, truth, strict=True))


VENDOR = Encoders(position_noise=5e-4, velocity_noise=0.05)
VENDOR_IMU = Imu(gyro_noise=5e-3, accelerometer_noise=0.05, initial_gyro_bias=5e-3, initial_accelerometer_bias=0.05)


def test_perfect_sensors_give_the_true_state_of_a_trot(trot: Trot) -> None:
    q, v = states(trot, Encoders(), Imu())
    assert (
        np.abs(v - trot.v)[50:, :3].max() < 0.02
    )  # at first all feet sink into the ground, which looks like a rising trunk
    assert np.abs(v[:, 3:6] - trot.v[:, 3:6]).max() < 3e-3  # the filter's estimate of the bias
    assert attitude_error(q, trot.q) < 0.005
    assert np.linalg.norm(q[-1, :3] - trot.q[-1, :3]) < 0.01 * np.linalg.norm(trot.q[-1, :2] - trot.q[0, :2])
    np.testing.assert_allclose(q[:, 7:], trot.q[:, 7:], atol=1e-12)


def test_angular_velocity_is_the_reading_less_its_estimated_bias(trot: Trot) -> None:
    gyro = np.array([0.1, -0.2, 0.3])
    for k, estimator, _, _ in run_estimator(trot, VENDOR, VENDOR_IMU):
        bias = estimator.gyro_bias
        if k == 20:
            break
    m = Sensors(trot.robot, np.random.default_rng(0)).read(RecordedTrot(trot))
    _, v = estimator.update(m.position, m.velocity, gyro, m.accelerometer, trot.robot.feet)
    assert np.abs(estimator.gyro_bias - bias).max() > 1e-5
    np.testing.assert_allclose(v[3:6], gyro - estimator.gyro_bias, atol=1e-12)


def test_velocity_error_with_noisy_sensors_is_below_1_cm_per_s_rms(trot: Trot) -> None:
    q, v = states(trot, VENDOR, VENDOR_IMU)
    error = (v - trot.v)[:, :3]
    assert np.sqrt((error**2).mean(axis=0)).max() < 0.01
    assert np.abs(error[50:]).max() < 0.03
    assert attitude_error(q, trot.q) < 0.02


def test_covariance_is_consistent_with_estimation_errors(trot: Trot) -> None:
    """Normalized squared errors of attitude, velocity and position follow a chi-square distribution (nine DOF)."""
    found = []
    for k, estimator, _, _ in run_estimator(trot, VENDOR, VENDOR_IMU):
        f, lever = estimator._state, np.array(estimator._model.lever)
        R = pin.Quaternion(trot.q[k, 3:7].copy()).toRotationMatrix()
        turned = np.array(f.R) @ R.T
        v = f.v - turned @ R @ (trot.v[k, :3] + np.cross(trot.v[k, 3:6], lever))
        p = f.p - turned @ (trot.q[k, :3] + R @ lever)
        error, P = np.concatenate([pin.log3(turned), v, p]), estimator.covariance[:9, :9]
        found.append(error @ np.linalg.solve(P + 1e-14 * np.eye(9), error))
    assert np.linalg.eigvalsh(estimator._state.P).min() > -1e-12
    assert 2.7 < np.mean(found[200:]) < 19.0  # 95 % of chi-square with nine degrees of freedom
    assert np.max(found[50:]) < 40.0


def test_yaw_and_position_are_unobservable(trot: Trot) -> None:
    """From another start position and yaw, all other estimates are equal, and the covariance transforms accordingly."""
    robot, far = trot.robot, BaseEstimator(trot.robot, dt=DT)
    turn, shift = pin.exp3(np.array([0.0, 0.0, 2.0])), np.array([3.0, -7.0, 0.5])
    q = np.array(robot.q_home)
    q[:3] = turn @ q[:3] + shift
    q[3:7] = pin.Quaternion(turn @ pin.Quaternion(q[3:7].copy()).toRotationMatrix()).coeffs()
    far.reset(q)
    here, there = run_estimator(trot, VENDOR, VENDOR_IMU), run_estimator(trot, VENDOR, VENDOR_IMU, estimator=far)
    for (k, made, q, v), (_, _, other, same) in zip(here, there, strict=True):
        near = made
        np.testing.assert_allclose(same, v, atol=1e-7)
        np.testing.assert_allclose(other[:3], turn @ q[:3] + shift, atol=1e-7)
        if k == 300:
            break
    G = np.zeros((9, 9))  # adjoint of the displacement, which transforms the invariant error
    for i in range(3):
        G[3 * i : 3 * i + 3, 3 * i : 3 * i + 3] = turn
    G[6:, :3] = pin.skew(shift) @ turn
    np.testing.assert_allclose(far.covariance[:9, :9], G @ near.covariance[:9, :9] @ G.T, atol=1e-9)


def test_prediction_with_the_model_compensates_delayed_readings(trot: Trot) -> None:
    late, ahead = [], []
    for k, estimator, _, v in run_estimator(trot, Encoders(), Imu(), delay=3 * DT):
        if k >= 3:
            late.append(v - trot.v[k])
            ahead.append(estimator.predict(trot.accelerations[k - 3 : k])[1] - trot.v[k])
    before, after = (np.sqrt((np.array(x)[100:] ** 2).mean(axis=0)) for x in (late, ahead))
    assert (after[:3] < 0.5 * before[:3]).all(), (before, after)
    assert after[6:].mean() < 0.7 * before[6:].mean()
    raises(qd.ArgumentError, "accelerations", estimator.predict, [np.zeros(3)])


def test_odometry_is_continuous_under_attitude_corrections_far_from_the_start(trot: Trot) -> None:
    """After 60 m an attitude error has caused a height error; the state is corrected, the odometry stays continuous."""
    robot, estimator = trot.robot, BaseEstimator(trot.robot, dt=DT)
    q, far = np.array(robot.q_home), np.array([60.0, 0.0, 0.0])
    estimator.reset(q)
    f = estimator._state
    # The attitude error is about the start position.
    f.R = pin.exp3(np.array([0.0, 0.004, 0.0])) @ np.array(f.R)
    f.p = f.p + far
    f.P[:] = 0.0
    f.P[:2, :2] = 0.01**2 * np.eye(2)
    f.P[9:15, 9:15] = np.diag([1e-3] * 3 + [0.02] * 3) ** 2
    heights = []
    for k, _, found, _ in run_estimator(trot, Encoders(), Imu(), estimator=estimator):
        heights.append((found[2], estimator.odometry()[0][2], trot.q[k, 2]))
    state, odometry, true = np.array(heights).T
    assert np.ptp(state - true) > 0.1 and np.abs(np.diff(state - true)).max() > 0.01
    assert np.abs(np.diff(odometry - true)[5:]).max() < 1e-3 and np.ptp((odometry - true)[5:]) < 0.02


def test_estimate_stays_accurate_when_readings_are_lost(trot: Trot) -> None:
    """40 % of the readings are lost, up to eight in a row; errors and detected slips stay small."""
    robot, played, rng = trot.robot, RecordedTrot(trot), np.random.default_rng(3)
    sensors = Sensors(robot, np.random.default_rng(0), encoders=VENDOR, imu=VENDOR_IMU, feet=FootSensors())
    estimator, last, errors, slips = BaseEstimator(robot, dt=DT), -1, [], 0
    for played.k in range(len(trot.q)):
        m = sensors.read(played)
        if played.k - last < 9 and (rng.random() < 0.3 or played.k % 60 in range(20, 28)):
            continue
        standing = [foot for foot, x in zip(robot.feet, m.foot_forces, strict=True) if x > 0.05 * 9.81 * robot.mass]
        periods, last = played.k - last, played.k
        q, v = estimator.update(m.position, m.velocity, m.gyro, m.accelerometer, standing, periods=periods)
        errors.append((v - trot.v[played.k])[:3])
        slips += len(estimator.slipping_feet)
    rms, largest = np.sqrt(np.mean(np.square(errors), axis=0)).max(), np.abs(errors[30:]).max()
    assert rms < 0.012 and largest < 0.05 and slips < 0.02 * len(errors), (rms, largest, slips)
    assert attitude_error(q[None], trot.q[-1:]) < 0.02
    for wrong in (0, 1.5, True):
        with pytest.raises(qd.ArgumentError, match="periods"):
            estimator.update(m.position, m.velocity, m.gyro, m.accelerometer, (), periods=wrong)


def resting(estimator: BaseEstimator, ticks: int, **readings: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    robot = estimator.robot
    m = {"position": np.array(robot.q_home[7:]), "velocity": np.zeros(12), "gyro": np.zeros(3)}
    m = m | {"accelerometer": np.array([0.0, 0.0, 9.81])} | readings
    for _ in range(ticks):
        q, v = estimator.update(*m.values(), robot.feet)
    return q, v


@pytest.mark.parametrize("lost", [1, 3])
def test_lost_readings_are_interpolated(lost: int) -> None:
    robot, rng = qd.load("go2"), np.random.default_rng(1)
    joints, still = robot.q_home[7:], np.zeros(robot.nu)
    start, end = (np.array([*rng.normal(size=3), *rng.normal([0.0, 0.0, 9.8])]) for _ in range(2))
    states = []
    for steps in (1, lost + 1):
        estimator = BaseEstimator(robot, dt=DT)
        estimator.update(joints, still, start[:3], start[3:], ())
        for k in range(1, steps + 1):
            reading = start + k / steps * (end - start)
            q, v = estimator.update(joints, still, reading[:3], reading[3:], (), periods=(lost + 1) // steps)
        states.append((q, v))
    for one, each in zip(*states, strict=True):
        np.testing.assert_allclose(one, each, atol=1e-12)


def test_standing_estimate_is_constant_and_gyro_bias_converges() -> None:
    robot, bias = qd.load("solo12"), np.array([0.02, -0.01, 0.0])
    estimator = BaseEstimator(robot, dt=DT, flat_ground=True)
    q, v = resting(estimator, 4000, gyro=bias)
    np.testing.assert_allclose(q[:3], robot.q_home[:3], atol=2e-3)
    np.testing.assert_allclose(v[:3], 0.0, atol=1e-3)
    np.testing.assert_allclose(estimator.gyro_bias, bias, atol=5e-4)
    assert estimator.slipping_feet == ()


def test_slipping_foot_is_excluded(go2: qd.Robot) -> None:
    estimator = BaseEstimator(go2, dt=DT)
    resting(estimator, 300)
    # FL slides at 0.5 m/s: its thigh and calf joints move.
    position, rates = np.array(go2.q_home[7:]), np.zeros(12)
    rates[:3] = 0.0, 1.5, -1.5
    for _ in range(100):
        position = position + DT * rates
        q, v = resting(estimator, 1, position=position, velocity=rates)
        assert estimator.slipping_feet == ("FL",)
    assert np.abs(v[:3]).max() < 5e-3 and np.abs(q[:3] - go2.q_home[:3]).max() < 2e-3
    resting(estimator, 1, position=position)
    assert estimator.slipping_feet == ()
    # If all feet disagree in the same way, the estimate is wrong.
    estimator.reset(go2.q_home, np.r_[1.0, np.zeros(17)])
    q, v = resting(estimator, 200)
    assert np.abs(v[:3]).max() < 0.02


def test_external_pose_measurements_remove_drift(go2: qd.Robot) -> None:
    estimator = BaseEstimator(go2, dt=DT, imu="imu")
    resting(estimator, 10)
    place, facing = np.add(go2.q_home[:3], [0.02, -0.03, 0.01]), {"rpy": [0.0, 0.0, 0.03]}
    for _ in range(3000):
        resting(estimator, 1)
        q, _ = estimator.correct_pose(place, facing, position_noise=2e-3, orientation_noise=2e-3)
    np.testing.assert_allclose(q[:3], place, atol=2e-3)
    R = pin.Quaternion(q[3:7].copy()).toRotationMatrix()
    np.testing.assert_allclose(R, pin.rpy.rpyToMatrix(0.0, 0.0, 0.03), atol=2e-3)
    assert np.sqrt(np.diag(estimator.covariance)[[2, 6, 7, 8]]).max() < 1e-3
    # A position is weighted with its own noise alone.
    moved = []
    for noise in ({}, {"orientation_noise": 1e-3}, {"position_noise": 1.0}):
        estimator.reset(go2.q_home)
        resting(estimator, 10)
        moved.append(estimator.correct_pose(place, **noise)[0])
    np.testing.assert_array_equal(moved[0], moved[1])
    assert np.linalg.norm(moved[2] - moved[0]) > 1e-5
    for wrong in ({"position_noise": 0.0}, {"orientation": np.ones((3, 3))}, {"position": np.full(3, np.nan)}):
        raises(qd.ArgumentError, next(iter(wrong)), estimator.correct_pose, **wrong)


def test_encoder_noise_of_a_foot_is_that_of_all_joints_of_its_leg(go2: qd.Robot) -> None:
    estimator = BaseEstimator(go2, dt=DT)
    resting(estimator, 3)
    q, _ = estimator.state()
    s = qd.Dynamics(go2).update(q, np.zeros(go2.nv))
    for i, foot in enumerate(go2.feet):
        J = s.jacobian(foot)[:3, 6:]
        found = compute_encoder_noise(estimator._model, estimator._state, estimator._term_values, i, 0.25)
        np.testing.assert_allclose(np.asarray(found), 0.25 * J @ J.T, atol=1e-9)


def test_weight_of_a_correction_scales_it(go2: qd.Robot) -> None:
    estimator = BaseEstimator(go2, dt=DT)
    resting(estimator, 50)
    changes = []
    for weight in (1.0, 0.25):
        f, z = estimator._state.copy(), vec3(1e-6, -2e-6, 3e-6)
        noise = diagonal3(float(np.asarray(f.P)[POSITION, POSITION]))
        _, S = evaluate_innovation(f, POSITION, diagonal3(1.0), FEET, diagonal3(-1.0), noise, z)
        before = np.concatenate((f.v, f.p, f.gyro_bias, f.force_bias))
        apply_correction(f, z, S, weight)
        changes.append(np.concatenate((f.v, f.p, f.gyro_bias, f.force_bias)) - before)
    assert np.abs(changes[0]).max() > 1e-9
    np.testing.assert_allclose(changes[1], 0.25 * changes[0], atol=1e-4 * np.abs(changes[0]).max())


def test_flat_ground_determines_the_height_of_footholds_far_from_the_start(go2: qd.Robot) -> None:
    """The measured height is a combination of the errors of foothold and attitude, whose variance becomes small."""
    estimator, q = BaseEstimator(go2, dt=DT, flat_ground=True), go2.q_home.copy()
    q[:2] = 30.0, -20.0
    estimator.reset(q)
    resting(estimator, 1)
    state, model, rng = estimator._state, estimator._model, np.random.default_rng(0)
    for i in range(len(go2.feet)):
        A = 0.1 * rng.normal(size=state.P.shape)
        state.P[:] = A @ A.T
        set_foothold(model, state, estimator._term_values, i)
        H = np.zeros(len(A))
        H[:2], H[FEET + 3 * i + 2] = (state.feet[i, 1], -state.feet[i, 0]), 1.0
        assert 0.0 <= H @ state.P @ H <= 1.001 * model.variance.ground_height


def test_initialization_at_rest_uses_measured_tilt_and_lowest_foot(go2: qd.Robot) -> None:
    estimator = BaseEstimator(go2, dt=DT)
    position = np.array(go2.q_home[7:])
    lean = pin.exp3(np.array([0.1, -0.2, 0.0]))
    estimator.initialize_at_rest(position, lean.T @ np.array([0.0, 0.0, 9.81]))
    q, v = estimator.state()
    dynamics = qd.Dynamics(go2).update(q, v)
    lowest = min(dynamics.placement(foot).translation[2] - go2.legs[foot].foot.radius for foot in go2.feet)
    np.testing.assert_allclose(pin.Quaternion(q[3:7].copy()).toRotationMatrix()[2], lean[2], atol=1e-12)
    assert abs(lowest) < 1e-12 and not v.any()


def test_compiled_estimator_agrees_with_python(trot: Trot) -> None:
    fast = run_estimator(trot, VENDOR, VENDOR_IMU)
    kept = [next(fast) for _ in range(3)]
    with interpret():
        slow = run_estimator(trot, VENDOR, VENDOR_IMU)
        for (_, _, q, v), (_, _, other, same) in zip(kept, slow, strict=False):
            np.testing.assert_allclose(other, q, atol=1e-12)
            np.testing.assert_allclose(same, v, atol=1e-12)


def test_invalid_arguments_are_rejected_by_name(go2: qd.Robot) -> None:
    raises(qd.ArgumentError, "root", BaseEstimator, qd.load("ur5"))
    raises(qd.ArgumentError, "dt", BaseEstimator, go2, dt=0.0)
    for field in fields(SensorNoise):
        raises(qd.ArgumentError, field.name, SensorNoise, **{field.name: 0.0})
    raises(qd.ArgumentTypeError, "noise", BaseEstimator, go2, noise=0.1)
    estimator, zero = BaseEstimator(go2), np.zeros(3)
    raises(qd.ArgumentError, "gyro", estimator.update, np.zeros(12), np.zeros(12), np.full(3, np.nan), zero, ())
    raises(qd.UnknownNameError, "foot", estimator.update, np.zeros(12), np.zeros(12), zero, zero, ("FLL",))
    other = BaseEstimator(go2)
    raises(qd.UnknownNameError, "foot", estimator.update, np.zeros(12), np.zeros(12), np.ones(3), np.ones(3), ("FLL",))
    raises(qd.ArgumentTypeError, "stance", estimator.update, np.zeros(12), np.zeros(12), np.ones(3), np.ones(3), "FL")
    reading = np.zeros(12), np.zeros(12), zero, np.array([0.0, 0.0, 9.81]), go2.feet
    for ours, untouched in zip(estimator.update(*reading), other.update(*reading), strict=True):
        np.testing.assert_array_equal(ours, untouched)  # rejected calls did not change the state
    raises(qd.ArgumentTypeError, "robot", BaseEstimator, None)
    raises(qd.ArgumentError, "q", estimator.reset, np.zeros(19))


def test_robot_with_kinematic_loops_is_estimated() -> None:
    """Robot with four-bar knees: readings of hips and knees determine cranks and rods."""
    robot = qd.load(quadruped())
    trot = trotting(robot, 300)
    q, v = states(trot, Encoders(), Imu())
    assert np.abs(trot.v[:, :2]).max() > 0.2
    assert np.abs(v - trot.v)[50:, :3].max() < 0.04
    assert attitude_error(q, trot.q) < 0.01
    np.testing.assert_allclose(q[:, 7:], trot.q[:, 7:], atol=1e-12)
    estimator = BaseEstimator(robot, dt=DT)
    beyond = trot.q[0, 7:].copy()
    beyond[robot.actuated.index("FL_knee")] = -1.9
    with pytest.raises(qd.ArgumentError, match="close"):
        estimator.update(beyond, np.zeros(robot.nu), np.zeros(3), np.array([0.0, 0.0, 9.81]), robot.feet)


def test_error_names_the_first_of_several_unknown_feet(go2: qd.Robot) -> None:
    estimator, q = BaseEstimator(go2, dt=DT), np.zeros(go2.nu)
    for names in (("one", "two", "three", "four"), ("four", "three", "two", "one"), ("two", "one", "four", "three")):
        raises(qd.UnknownNameError, names[0], estimator.update, q, q, np.zeros(3), np.array([0.0, 0.0, 9.81]), names)


def test_loaded_feet_are_unknown_if_a_force_is_not_finite() -> None:
    forces = np.array([np.nan, 30.0, 10.0, 20.0, 19.0, np.nan])
    assert find_loaded_feet(forces, 1, 4, 19.0) == 0b0101
    for value in (np.nan, np.inf):
        forces[4] = value
        assert find_loaded_feet(forces, 1, 4, 19.0) == -1
