"""Encoders and IMUs measure true values plus the configured errors on both plants."""

from __future__ import annotations

import pickle
from dataclasses import fields, replace

import numpy as np
import pinocchio as pin
import pytest
from raising import raises
from test_simulation import Stand

import quaddyn as qd
from quaddyn.simulation import Encoders, Imu, Measurement, MujocoPlant, Sensors, Simulation

G = 9.81


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_perfect_sensors_return_true_values(go2: qd.Robot) -> None:
    sim, sensors = Simulation(go2, floor=-np.inf, dt=1e-4), Sensors(go2, rng())
    q = pin.integrate(go2.model, go2.q_home, rng(1).normal(size=go2.nv))
    sim.reset(q, rng(2).normal(size=go2.nv))
    R = pin.XYZQUATToSE3(q[:7]).rotation
    first = sensors.read(sim)
    np.testing.assert_array_equal(first.position, sim.q[7:])
    np.testing.assert_array_equal(first.velocity, sim.v[6:])
    np.testing.assert_allclose(first.gyro, sim.v[3:6], atol=1e-14)
    np.testing.assert_allclose(first.accelerometer, R.T @ [0.0, 0.0, G], atol=1e-12)
    v = sim.v
    sim.step(np.zeros(go2.nu))
    second = sensors.read(sim)
    assert second.time == pytest.approx(1e-4)
    # the proper acceleration of the base's origin, by forward dynamics: the classical one less gravity
    a = qd.Dynamics(go2).aba(q, v, np.zeros(go2.nv))
    np.testing.assert_allclose(second.accelerometer, a[:3] + np.cross(v[3:6], v[:3]) - R.T @ [0.0, 0.0, -G], atol=0.02)


def test_imu_measures_zero_in_free_fall_and_centripetal_acceleration_on_a_lever() -> None:
    robot = qd.load("planar_3r", root="fixed")
    sim = Simulation(robot, dt=1e-4)
    v = np.array([2.0, 0.0, 0.0])
    sim.reset(np.zeros(3), v)
    sensors, hand = Sensors(robot, rng(), imu=Imu(frame="tool")), qd.Dynamics(robot)
    sensors.read(sim)
    hold = hand.rnea(sim.q, v, np.zeros(3))  # no angular acceleration
    sim.step(hold)
    pull = np.linalg.norm(hand.frame_placement(np.zeros(3), "tool").translation) * 4.0
    felt = sensors.read(sim).accelerometer
    R = hand.frame_placement(sim.q, "tool").rotation
    inward = -hand.frame_placement(sim.q, "tool").translation / np.linalg.norm(
        hand.frame_placement(sim.q, "tool").translation
    )
    np.testing.assert_allclose(R @ felt, pull * inward - robot.model.gravity.linear, atol=0.01)


@pytest.mark.parametrize("kind", [Simulation, MujocoPlant])
def test_imu_of_a_standing_robot_measures_gravity_and_noise_has_the_given_deviation(kind: type, go2: qd.Robot) -> None:
    if kind is MujocoPlant:
        pytest.importorskip("mujoco")
    plant, stand = kind(go2), Stand(go2)
    for _ in range(300):
        plant.step(stand(plant))
    sensors = Sensors(
        go2,
        rng(3),
        encoders=Encoders(position_noise=1e-3, velocity_noise=0.1),
        imu=Imu(gyro_noise=0.02, accelerometer_noise=0.3),
    )
    errors: dict[str, list[np.ndarray]] = {"position": [], "velocity": [], "gyro": [], "accelerometer": []}
    for _ in range(400):
        plant.step(stand(plant))
        m = sensors.read(plant)
        errors["position"].append(m.position - plant.q[7:])
        errors["velocity"].append(m.velocity - plant.v[6:])
        errors["gyro"].append(m.gyro - plant.v[3:6])
        errors["accelerometer"].append(m.accelerometer - [0.0, 0.0, G])
    for name, size in (("position", 1e-3), ("velocity", 0.1), ("gyro", 0.02), ("accelerometer", 0.3)):
        assert np.std(errors[name]) == pytest.approx(size, rel=0.1), name
        assert abs(np.mean(errors[name])) < 0.15 * size, name


def test_positions_are_whole_multiples_of_the_resolution(go2: qd.Robot) -> None:
    sim, sensors = Simulation(go2), Sensors(go2, rng(), encoders=Encoders(resolution=0.01))
    position = sensors.read(sim).position
    np.testing.assert_allclose(position / 0.01, np.round(position / 0.01), atol=1e-9)
    assert np.abs(position - sim.q[7:]).max() <= 0.005 + 1e-12


def test_continuous_joints_are_read_as_angles() -> None:
    robot = qd.load("double_pendulum_continuous")
    sim = Simulation(robot)
    sim.reset(np.array([np.cos(2.5), np.sin(2.5), np.cos(-1.0), np.sin(-1.0)]))
    np.testing.assert_allclose(Sensors(robot, rng()).read(sim).position, [2.5, -1.0], atol=1e-12)


def test_packed_readings_have_the_same_sensors(go2: qd.Robot) -> None:
    numbers = [rng(n).normal(size=n) for n in (12, 12, 3, 3, 4)]
    given = Measurement(0.5, *numbers[:4], foot_forces=numbers[4])
    packed = Measurement.from_packed(0.5, 12, 4, given.packed(12, 4))
    for reading in (packed, pickle.loads(pickle.dumps(packed)), replace(packed, time=0.5)):
        found = [getattr(reading, f.name) for f in fields(given) if f.init]
        np.testing.assert_equal(found, [0.5, *numbers[:4], None, numbers[4], None])
        np.testing.assert_array_equal(reading.packed(12, 4), given.packed(12, 4))
    assert replace(packed, torque=np.zeros(3)).packed(12, 4)[30:42].tolist() == [np.inf] * 12  # another shape
    assert not np.isnan(packed.packed(12, 4)[:30]).any() and np.isnan(packed.packed(12, 4)[30:42]).all()


def test_readings_have_the_given_delay(go2: qd.Robot) -> None:
    with pytest.warns(RuntimeWarning, match="delay: 4 s seems to be in milliseconds"):
        Sensors(go2, rng(), delay=4.0)
    sim, sensors = Simulation(go2), Sensors(go2, rng(), delay=0.004)
    truth = []
    for k in range(12):
        truth.append(sim.q[7:])
        m = sensors.read(sim)
        assert m.time == pytest.approx(max(k - 2, 0) * 2e-3, abs=1e-12)
        np.testing.assert_array_equal(m.position, truth[max(k - 2, 0)])
        for _ in range(2):
            sim.step(np.full(go2.nu, 1.0))


def test_bias_random_walk_grows_with_the_square_root_of_time(go2: qd.Robot) -> None:
    ends, sim = [], Simulation(go2, floor=-np.inf, dt=0.01)
    for seed in range(60):
        sim.reset()
        sensors = Sensors(go2, rng(seed), imu=Imu(initial_gyro_bias=0.1, gyro_bias_walk=0.5))
        for _ in range(25):
            sensors.read(sim)
            sim.step(np.zeros(go2.nu))
        ends.append(sensors.read(sim).gyro - sim.v[3:6])
    assert np.std(ends) == pytest.approx(np.hypot(0.1, 0.5 * np.sqrt(0.25)), rel=0.2)


def test_readings_are_reproducible_and_continue_from_a_checkpoint(go2: qd.Robot) -> None:
    noisy = {
        "encoders": Encoders(position_noise=0.1),
        "imu": Imu(gyro_noise=0.1, accelerometer_bias_walk=0.2),
        "delay": 0.003,
    }

    def run(sim: Simulation, sensors: Sensors, steps: int) -> list[bytes]:
        out = []
        for _ in range(steps):
            m = sensors.read(sim)
            out += [m.position.tobytes(), m.gyro.tobytes(), m.accelerometer.tobytes()]
            sim.step(np.full(go2.nu, 0.5))
        return out

    first, second, other = (Sensors(go2, rng(seed), **noisy) for seed in (4, 4, 5))  # type: ignore[arg-type]
    sims = [Simulation(go2) for _ in range(3)]
    one, two, three = (run(sim, s, 20) for sim, s in zip(sims, (first, second, other), strict=True))
    assert one == two and one != three
    saved = first.checkpoint(), sims[0].checkpoint()
    later = run(sims[0], first, 20)
    first.restore(saved[0])
    sims[0].restore(saved[1])
    assert run(sims[0], first, 20) == later
    first.reset(rng(4))
    sims[0].reset()
    assert run(sims[0], first, 20) == one


def test_invalid_sensor_options_are_rejected_by_name(go2: qd.Robot) -> None:
    for make, name in (
        (lambda: Sensors(go2, 5), "rng"),  # type: ignore[arg-type]
        (lambda: Sensors("go2", rng()), "robot"),  # type: ignore[arg-type]
        (lambda: Sensors(go2, rng(), delay=-1.0), "delay"),
        (lambda: Sensors(go2, rng(), encoders=3), "encoders"),  # type: ignore[arg-type]
        (lambda: Sensors(go2, rng(), imu="base"), "imu"),  # type: ignore[arg-type]
        (lambda: Sensors(go2, rng()).reset(None), "rng"),  # type: ignore[arg-type]
        (lambda: Sensors(go2, rng()).read(None), "plant"),  # type: ignore[arg-type]
        (lambda: Encoders(position_noise=-1.0), "position_noise"),
        (lambda: Encoders(resolution=np.nan), "resolution"),
        (lambda: Imu(gyro_bias_walk=np.inf), "gyro_bias_walk"),
        (lambda: Sensors(go2, rng()).read(Simulation(qd.load("solo12"))), "plant"),
    ):
        raises(qd.ArgumentError, name, make)
    raises(qd.UnknownNameError, "bas", Sensors, go2, rng(), imu=Imu(frame="bas"))
    sim, sensors = Simulation(go2), Sensors(go2, rng())
    sim.step(np.zeros(go2.nu))
    sensors.read(sim)
    sim.reset()
    raises(qd.ArgumentError, "time", sensors.read, sim)
