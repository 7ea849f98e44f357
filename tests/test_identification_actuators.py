"""Fit of actuators to simulated data: known delays, friction, torque-speed lines and backlash are recovered."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from raising import raises
from slow_parameters import others_slow

import quaddyn as qd
from quaddyn.identification import ActuatorFit, fit_actuators
from quaddyn.simulation import Actuators, MujocoPlant, Plant, Simulation

DT, N, LATE = 2e-3, 3000, 3
#: Parameters of the two joints.
VISCOUS, COULOMB, EFFORT = np.array([0.3, 0.1]), np.array([0.5, 1.2]), np.array([20.0, 12.0])
CORNER, NO_LOAD, PLAY = 8.0, 20.0, 0.02


@pytest.fixture(scope="module")
def leg() -> qd.Robot:
    return qd.load("two_link_leg", root="fixed")


@pytest.fixture(scope="module")
def data(leg: qd.Robot) -> dict[str, np.ndarray]:
    """Simulated data of a test stand with sensors at motors and joints, with noise."""
    rng, t = np.random.default_rng(0), DT * np.arange(N)[:, None]
    v = 7.0 * np.sin([3.0, 4.1] * t + [0.3, 1.1]) + 4.0 * np.sin([6.9, 9.4] * t)
    asked = EFFORT * (1.2 * np.sin([9.3, 12.7] * t + 1.0) + 0.05 * rng.standard_normal((N, 2)).cumsum(axis=0) / 20.0)
    motors = Actuators(leg, effort=EFFORT, corner_speed=CORNER, no_load_speed=NO_LOAD)
    late = np.vstack((np.repeat(asked[:1], LATE, axis=0), asked[:-LATE]))
    delivered = np.array([motors.apply_limits(tau, speed) for tau, speed in zip(late, v, strict=True)])
    load = delivered - VISCOUS * v - COULOMB * np.sign(v)
    noise = {"velocity": 0.05, "motor_torque": 0.15, "joint_torque": 0.2, "backlash_offset": 1e-3}
    clean = {
        "velocity": v,
        "motor_torque": delivered,
        "joint_torque": load,
        "backlash_offset": 0.5 * PLAY * np.sign(load),
    }
    noisy = {name: x + noise[name] * rng.standard_normal(x.shape) for name, x in clean.items()}
    return {"commanded": asked, **noisy}


def check(found: ActuatorFit, tolerance: float) -> None:
    np.testing.assert_allclose(found.delay, LATE * DT, atol=0.1 * DT)
    np.testing.assert_allclose(found.viscous, VISCOUS, atol=tolerance)
    np.testing.assert_allclose(found.coulomb, COULOMB, atol=5.0 * tolerance)
    np.testing.assert_allclose(found.effort, EFFORT, rtol=0.02)
    np.testing.assert_allclose(found.corner_speed, CORNER, rtol=0.05)
    np.testing.assert_allclose(found.no_load_speed, NO_LOAD, rtol=0.05)


@pytest.mark.parametrize(("length", "is_limit"), [(1, False), (2, True), (3, True)])
def test_torques_that_saturate_for_two_samples_or_more_determine_the_effort(
    leg: qd.Robot, length: int, is_limit: bool
) -> None:
    rng, k = np.random.default_rng(4), np.arange(1000)[:, None]
    commanded = EFFORT * np.where(k % 20 < length, 1.6, 0.4 * np.sin([0.31, 0.23] * k))
    torque = np.clip(commanded, -EFFORT, EFFORT) + 0.01 * rng.standard_normal(commanded.shape)
    found = fit_actuators(leg, dt=DT, commanded=commanded, velocity=np.ones_like(torque), motor_torque=torque)
    np.testing.assert_allclose(found.effort, EFFORT if is_limit else np.full(2, np.nan), rtol=1e-3)


def test_actuator_parameters_are_recovered(leg: qd.Robot, data: dict[str, np.ndarray]) -> None:
    found = fit_actuators(leg, dt=DT, **data)
    check(found, 0.01)
    np.testing.assert_allclose(found.backlash, PLAY, rtol=0.02)
    np.testing.assert_allclose(found.noise, 0.15, rtol=0.15)
    motors = found.actuators(leg, rotor_inertia=0.01)
    np.testing.assert_array_equal(motors.effort, found.effort)
    np.testing.assert_array_equal(motors.backlash, found.backlash)
    np.testing.assert_array_equal(motors.delay, found.delay)
    np.testing.assert_array_equal(motors.damping[leg.actuated_index], found.viscous)
    assert str(found).count("\n") == 2 and "0.02" in str(found)


@pytest.mark.parametrize("value", [50.0, -50.0])
def test_samples_that_are_not_valid_do_not_enter_the_fit(
    leg: qd.Robot, data: dict[str, np.ndarray], value: float
) -> None:
    valid = np.random.default_rng(1).random(N) > 0.5
    damaged = {name: np.where(valid[:, None] | (name == "commanded"), x, value - x) for name, x in data.items()}
    found = fit_actuators(leg, dt=DT, valid=valid, **damaged)
    check(found, 0.02)
    np.testing.assert_allclose(found.backlash, PLAY, rtol=0.03)


def test_joint_or_motor_torque_is_sufficient(leg: qd.Robot, data: dict[str, np.ndarray]) -> None:
    parts = {name: x for name, x in data.items() if name not in ("motor_torque", "backlash_offset")}
    found = fit_actuators(leg, dt=DT, **parts)
    check(found, 0.02)
    assert np.isnan(found.backlash).all()
    parts = {name: data[name] for name in ("commanded", "velocity", "motor_torque")}
    found = fit_actuators(leg, dt=DT, **parts)
    assert np.isnan(found.viscous).all() and np.isnan(found.coulomb).all()
    np.testing.assert_allclose(found.effort, EFFORT, rtol=0.02)


def test_unidentifiable_actuator_parameters_are_nan(leg: qd.Robot, data: dict[str, np.ndarray]) -> None:
    """Data with small torques on joints at rest."""
    rng, asked = np.random.default_rng(1), 0.1 * data["commanded"]
    found = fit_actuators(
        leg, dt=DT, commanded=asked, velocity=np.zeros((N, 2)), motor_torque=asked + 0.01 * rng.standard_normal((N, 2))
    )
    np.testing.assert_allclose(found.delay, 0.0, atol=0.1 * DT)
    for name in ("viscous", "coulomb", "effort", "corner_speed", "no_load_speed", "backlash"):
        assert np.isnan(getattr(found, name)).all(), name
    assert "-" in str(found) and np.isinf(found.actuators(leg).no_load_speed).all()
    still = fit_actuators(
        leg, dt=DT, commanded=np.zeros((N, 2)), velocity=np.zeros((N, 2)), motor_torque=np.zeros((N, 2))
    )
    assert np.isnan(still.delay).all()


@pytest.mark.parametrize("kind", ["motor_torque", "joint_torque"])
def test_torques_below_the_noise_determine_no_delay(leg: qd.Robot, data: dict[str, np.ndarray], kind: str) -> None:
    """Torques of the first joint are below the noise, those of the second determine the delay."""
    rng, scale = np.random.default_rng(4), np.array([0.02, 1.0])
    asked = 0.2 * scale * data["commanded"]
    late = np.vstack((np.repeat(asked[:1], LATE, axis=0), asked[:-LATE]))
    noisy = {kind: late + 2.0 * rng.standard_normal((N, 2))}
    found = fit_actuators(leg, dt=DT, commanded=asked, velocity=data["velocity"], **noisy)
    assert np.isnan(found.delay[0])
    assert abs(found.delay[1] - LATE * DT) <= 2.0 * DT
    np.testing.assert_allclose(found.noise, 2.0, rtol=0.1)
    assert found.actuators(leg).delay[0] == 0.0 and str(found).splitlines()[1].split()[1] == "-"


def test_invalid_data_are_rejected(leg: qd.Robot, data: dict[str, np.ndarray]) -> None:
    some = {name: data[name] for name in ("commanded", "velocity", "motor_torque")}
    for name in some:
        raises(qd.ArgumentError, name, fit_actuators, leg, dt=DT, **some | {name: np.full((N, 2), np.nan)})
        with pytest.raises(qd.ArgumentError):
            fit_actuators(leg, dt=DT, **some | {name: data[name][:, :1]})
    with pytest.raises(qd.ArgumentError, match="motor_torque, joint_torque"):
        fit_actuators(leg, dt=DT, commanded=data["commanded"], velocity=data["velocity"])
    raises(qd.ArgumentError, "dt", fit_actuators, leg, dt=0.0, **some)
    raises(qd.ArgumentError, "max_delay", fit_actuators, leg, dt=DT, max_delay=3.0, **some)
    with pytest.raises(qd.ArgumentError, match="robot"):
        fit_actuators(leg, dt=DT, **some).actuators(qd.load("go2"))


# -- round trip ----------------------------------------------------------------------------------------------------
ROTOR = 0.03
PLANTED = {
    "delay": [0.004, 0.0065], "viscous": VISCOUS, "coulomb": COULOMB, "effort": [40.0, 14.0], "corner_speed": 4.0,
    "no_load_speed": 9.0, "backlash": [PLAY, 1.5 * PLAY],
}  # fmt: skip


def recorded(plant: Plant, asked: np.ndarray | None = None) -> dict[str, np.ndarray]:
    """Simulates 4 s of position control of a hanging leg, or of given torques."""
    out: dict[str, list[Any]] = {name: [] for name in ("commanded", "q", "velocity", "motor_torque", "backlash_offset")}
    hanging = np.array([-0.5 * np.pi, 0.0])
    plant.reset(hanging)
    for k in range(4000):
        t, ahead, faster = plant.time, *(plant.backlash_state or (0.0, 0.0))
        goal = hanging + 0.8 * np.sin([3.1 * t, 4.3 * t]) + 0.2 * np.sin([11.0 * t, 13.0 * t])
        tau = [60.0, 25.0] * (goal - plant.q - ahead) - [3.0, 1.0] * (plant.v + faster)
        tau = tau + [12.0, 6.0] * np.sin([17.0 * t, 23.0 * t]) if asked is None else asked[k]
        out["q"].append(plant.q)
        out["velocity"].append(plant.v)
        plant.step(tau)
        out["commanded"].append(tau)
        out["motor_torque"].append(plant.tau)
        out["backlash_offset"].append(ahead)
    return {name: np.array(rows) for name, rows in out.items()}


@pytest.mark.parametrize("kind", others_slow([Simulation, MujocoPlant], [Simulation]))
def test_plant_with_fitted_actuators_reproduces_the_recorded_motion(kind: type[Any]) -> None:
    leg, dt, rng = qd.load("two_link_leg", root="fixed", armature=ROTOR), 1e-3, np.random.default_rng(1)
    log = recorded(kind(leg, dt=dt, actuators=Actuators(leg, **PLANTED)))
    q, dyn = log.pop("q"), qd.Dynamics(leg)
    v = log["velocity"]
    a = np.diff(v, axis=0, append=v[-1:]) / dt
    clean = {**log, "joint_torque": np.array([dyn.rnea(*state) for state in zip(q, v, a, strict=True)])}
    noise = {"commanded": 0.0, "velocity": 0.01, "motor_torque": 0.1, "joint_torque": 0.2, "backlash_offset": 1e-3}
    noisy = {name: x + noise[name] * rng.standard_normal(x.shape) for name, x in clean.items()}
    found = fit_actuators(leg, dt=dt, **noisy)
    for name, value in PLANTED.items():
        np.testing.assert_allclose(getattr(found, name), value, rtol=0.15, err_msg=name)
    again = recorded(kind(leg, dt=dt, actuators=found.actuators(leg)), log["commanded"])["q"]
    assert np.ptp(q, axis=0).min() > 1.9
    assert np.abs(again - q).max() < 0.025
    # Both parts matter: without either, the same torques give another motion.
    for name in ("delay", "backlash"):
        other = Actuators(leg, **{**PLANTED, name: 0.0})
        assert np.abs(recorded(kind(leg, dt=dt, actuators=other), log["commanded"])["q"] - q).max() > 0.03, name


def test_control_period_is_subtracted_from_the_actuator_delay(leg: qd.Robot, data: dict[str, np.ndarray]) -> None:
    found = fit_actuators(
        leg, dt=DT, commanded=data["commanded"], velocity=data["velocity"], motor_torque=data["motor_torque"]
    )
    np.testing.assert_allclose(found.actuators(leg, period=DT).delay, (LATE - 1) * DT, atol=0.1 * DT)
    np.testing.assert_array_equal(found.actuators(leg, delay=0.0).delay, 0.0)


def test_backlash_is_fitted_where_the_torque_is_large(leg: qd.Robot, data: dict[str, np.ndarray]) -> None:
    """At weak torques, which occur most of the time here, the teeth are between the flanks."""
    weak = np.arange(N)[:, None] % 10 < 7
    torque = np.where(weak, 0.1, 1.0) * data["joint_torque"]
    play = np.where(weak, 0.1, 0.5) * PLAY * np.sign(torque)
    measured = {"motor_torque": torque, "joint_torque": torque, "backlash_offset": play}
    rest = measured | {"commanded": np.roll(torque, -LATE, axis=0)}
    np.testing.assert_allclose(fit_actuators(leg, dt=DT, **data | rest).backlash, PLAY, rtol=0.05)


def test_noise_is_not_identified_as_backlash(leg: qd.Robot, data: dict[str, np.ndarray]) -> None:
    play = 1e-3 * np.random.default_rng(3).standard_normal((N, 2))
    found = fit_actuators(leg, dt=DT, **data | {"backlash_offset": play})
    np.testing.assert_array_equal(found.backlash, 0.0)
    with pytest.raises(qd.ArgumentError, match="rotor_inertia"):
        fit_actuators(leg, dt=DT, **data).actuators(leg)


def test_frozen_readings_are_not_identified_as_torque_limit(leg: qd.Robot, data: dict[str, np.ndarray]) -> None:
    """Readings are frozen for three samples at times, while motors deliver the commanded torques."""
    rng, asked = np.random.default_rng(2), 0.5 * data["commanded"]
    delivered = np.vstack((np.repeat(asked[:1], LATE, axis=0), asked[:-LATE]))
    delivered = delivered + 0.05 * rng.standard_normal((N, 2))
    new = np.ones(N, dtype=bool)
    for k in rng.integers(100, N - 10, 60):
        delivered[k : k + 3], new[k : k + 3] = 0.3 * delivered[k], False
    for counted in (None, new):
        found = fit_actuators(
            leg, dt=DT, commanded=asked, velocity=data["velocity"], motor_torque=delivered, valid=counted
        )
        np.testing.assert_allclose(found.delay, LATE * DT, atol=0.1 * DT)
        assert np.isnan(found.effort).all() and np.isnan(found.no_load_speed).all()
    np.testing.assert_allclose(found.noise, 0.05, rtol=0.05)
    few = fit_actuators(leg, dt=DT, **data, valid=np.arange(N) < 10)
    assert np.isnan(few.delay).all()
    raises(qd.ArgumentError, "valid", fit_actuators, leg, dt=DT, **data, valid=np.ones(N))
