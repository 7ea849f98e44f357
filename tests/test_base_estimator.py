"""The base's state from encoders, an IMU and standing feet, against the plant's own."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest

import quaddyn as qd
from quaddyn.estimation import BaseEstimator
from quaddyn.locomotion import LocomotionController
from quaddyn.simulation import Encoders, Imu, MujocoPlant, Sensors

DT = 2e-3


def follow(encoders: Encoders, imu: Imu, seconds: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Go2 trots on its true state; estimated and true q and v, tick by tick."""
    robot = qd.load("go2")
    plant, controller, dynamics = MujocoPlant(robot, dt=DT), LocomotionController(robot, dt=DT), qd.Dynamics(robot)
    sensors = Sensors(robot, np.random.default_rng(0), encoders=encoders, imu=imu)
    estimator = BaseEstimator(robot, dt=DT)
    standing: tuple[str, ...] = robot.feet
    rows = []
    for _ in range(round(seconds / DT)):
        m = sensors.read(plant)
        readings = (np.array(x) for x in (m.position, m.velocity, m.gyro, m.accelerometer))
        q, v = estimator.update(*readings, standing)
        rows.append((q, v, plant.q, plant.v))
        command = controller.compute(dynamics.update(np.array(plant.q), np.array(plant.v)), (0.4, 0.1, 0.3))
        standing = command.contacts
        plant.step(command.tau)
    return tuple(np.array(x) for x in zip(*rows, strict=True))  # type: ignore[return-value]


def attitude_error(q: np.ndarray, truth: np.ndarray) -> float:
    """Largest angle between the verticals in base axes [rad]."""

    def up(x: np.ndarray) -> np.ndarray:
        return pin.Quaternion(x[3:7].copy()).toRotationMatrix()[2]

    return max(float(np.arccos(np.clip(up(a) @ up(b), -1.0, 1.0))) for a, b in zip(q, truth, strict=True))


def test_perfect_sensors_give_the_true_state_of_a_trot() -> None:
    q, v, q_true, v_true = follow(Encoders(), Imu(), 1.6)
    assert np.abs(v[:, :3] - v_true[:, :3]).max() < 0.03
    assert np.abs(v[:, 3:6] - v_true[:, 3:6]).max() < 3e-3  # what the filter takes for the bias
    assert attitude_error(q, q_true) < 0.01
    assert np.linalg.norm(q[-1, :3] - q_true[-1, :3]) < 0.03 * np.linalg.norm(q_true[-1, :2] - q_true[0, :2])
    np.testing.assert_allclose(q[:, 7:], q_true[:, 7:], atol=1e-12)


def test_noisy_sensors_give_a_velocity_one_can_walk_with() -> None:
    encoders = Encoders(position_noise=5e-4, velocity_noise=0.05)
    imu = Imu(gyro_noise=5e-3, accelerometer_noise=0.05, gyro_bias=5e-3, accelerometer_bias=0.05)
    q, v, q_true, v_true = follow(encoders, imu, 1.6)
    error = (v - v_true)[:, :3]
    assert np.sqrt((error**2).mean(axis=0)).max() < 0.02
    assert np.abs(error).max() < 0.08
    assert attitude_error(q, q_true) < 0.03


def test_standing_still_stays_still_and_learns_the_bias() -> None:
    robot = qd.load("solo12")
    estimator = BaseEstimator(robot, dt=DT, gravity_rate=2.0, floor=True)
    position = np.array(robot.q_home[7:])
    bias = np.array([0.02, -0.01, 0.0])
    for _ in range(20000):
        q, v = estimator.update(position, np.zeros(12), bias, np.array([0.0, 0.0, 9.81]), robot.feet)
    np.testing.assert_allclose(q[:3], robot.q_home[:3], atol=6e-3)
    np.testing.assert_allclose(v[:3], 0.0, atol=5e-3)
    np.testing.assert_allclose(estimator.gyro_bias, bias, atol=2e-3)


def test_bad_arguments_are_refused_by_name() -> None:
    robot = qd.load("go2")
    with pytest.raises(qd.ArgumentError, match="root"):
        BaseEstimator(qd.load("ur5"))
    for name in ("dt", "gravity_rate", "leg_rate", "settling"):
        with pytest.raises(qd.ArgumentError, match=name):
            BaseEstimator(robot, **{name: 0.0})
    estimator, zero = BaseEstimator(robot), np.zeros(3)
    with pytest.raises(qd.ArgumentError, match="gyro"):
        estimator.update(np.zeros(12), np.zeros(12), np.full(3, np.nan), zero, ())
    with pytest.raises(qd.UnknownNameError, match="foot"):
        estimator.update(np.zeros(12), np.zeros(12), zero, zero, ("FLL",))
    other = BaseEstimator(robot)
    with pytest.raises(qd.UnknownNameError, match="foot"):
        estimator.update(np.zeros(12), np.zeros(12), np.ones(3), np.ones(3), ("FLL",))
    with pytest.raises(qd.ArgumentTypeError, match="standing"):
        estimator.update(np.zeros(12), np.zeros(12), np.ones(3), np.ones(3), "FL")
    reading = np.zeros(12), np.zeros(12), zero, np.array([0.0, 0.0, 9.81]), robot.feet
    for ours, untouched in zip(estimator.update(*reading), other.update(*reading), strict=True):
        np.testing.assert_array_equal(ours, untouched)  # what was refused left no trace
    with pytest.raises(qd.ArgumentTypeError, match="robot"):
        BaseEstimator(None)  # type: ignore[arg-type]
    with pytest.raises(qd.ArgumentError, match="q"):
        estimator.reset(np.zeros(19))
