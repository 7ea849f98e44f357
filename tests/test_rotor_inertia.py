"""Rotor inertias that the model lacks: the fit on synthetic residuals, and in walking."""

from __future__ import annotations

import numpy as np
import pytest
from raising import raises

import quaddyn as qd
from quaddyn.errors import UnknownNameError
from quaddyn.estimation.momentum_observer import make_residual_filter
from quaddyn.estimation.rotor_inertia import (
    RotorInertiaEstimate,
    add_rotor_torques,
    correct_residual,
    filter_motion,
    make_rotor_inertia_estimate,
    make_rotor_inertia_parameters,
    reset_rotor_inertia,
    update_rotor_inertia,
)
from quaddyn.locomotion import FEET, LocomotionController, LocomotionMode, Morphology
from quaddyn.locomotion.contact_estimation import MAX_ROTOR_INERTIA
from quaddyn.robot import Robot
from quaddyn.robot.inertial_update import with_inertials
from quaddyn.simulation import MujocoPlant, Plant, Simulation

DT = 2e-3
SPEED = 0.7  # 0.4 sqrt(g l) of Solo12 [m/s]


def fit_swings(robot: Robot, inertia: float, damping: float, noise: float, seed: int) -> RotorInertiaEstimate:
    """Returns the estimate after 0.94 s of swings of the foot FL with a residual due to rotor inertia and friction."""
    parameters = make_rotor_inertia_parameters(robot, FEET, 1.0, memory=1.0, correlation_time=0.02, dt=DT)
    estimate, rng = make_rotor_inertia_estimate(robot), np.random.default_rng(seed)
    observer = make_residual_filter(robot, DT, np.full(robot.nv, 0.8))
    is_swinging, last = np.array([1, 0, 0, 0]), np.zeros(robot.nv)
    for k in range(470):  # ends in motion
        phase = 2.0 * np.pi * (np.arange(robot.nv) + 3.0) * k * DT
        v = np.sin(phase) * 5.0 + np.sin(1.7 * phase)
        filter_motion(estimate, observer, v)
        if observer.is_initialized:
            torque = -inertia * (v - last) / DT - damping * 0.5 * (v + last) + noise * rng.standard_normal(robot.nv)
            observer.r[:] = 0.8 * observer.r + 0.2 * torque
        observer.is_initialized, last = True, v
        update_rotor_inertia(parameters, estimate, observer.r, is_swinging)
    corrected = np.empty(robot.nv)
    correct_residual(estimate, observer.r, corrected)
    leg = parameters.foot == 0
    assert leg.sum() == 3 and not estimate.inertia[~leg].any()
    if not noise and inertia > 10.0 * parameters.negligible_inertia[leg].max():
        assert np.abs(corrected[leg]).max() < 0.05 * np.abs(observer.r[leg]).max()
    return estimate


def test_fit_recovers_rotor_inertia_and_friction(solo12: Robot) -> None:
    estimate = fit_swings(solo12, 0.01, 0.5, 0.0, 0)  # torques of both are of the same size
    assert estimate.inertia[6:9] == pytest.approx(0.01, rel=0.02)
    assert estimate.damping[6:9] == pytest.approx(0.5, rel=1e-3)
    assert estimate.is_active
    reset_rotor_inertia(estimate)
    assert not (estimate.is_active or estimate.inertia.any() or estimate.weights.any() or estimate.squares.any())


@pytest.mark.parametrize("seed", range(3))
def test_noisy_fit_remains_below_the_true_rotor_inertia(solo12: Robot, seed: int) -> None:
    estimate = fit_swings(solo12, 0.01, 0.0, 0.05, seed)
    assert (estimate.inertia[6:9] > 0.005).all() and (estimate.inertia[6:9] < 0.0102).all()


@pytest.mark.parametrize(("inertia", "noise"), [(0.0, 0.05), (-0.01, 0.0)])
def test_no_rotor_inertia_is_used_without_evidence(solo12: Robot, inertia: float, noise: float) -> None:
    estimate = fit_swings(solo12, inertia, 0.0, noise, 0)
    assert not estimate.inertia.any() and not estimate.damping.any() and not estimate.is_active


def test_torques_accelerate_the_rotor_inertias(solo12: Robot) -> None:
    estimate = make_rotor_inertia_estimate(solo12)
    estimate.inertia[6:] = np.arange(solo12.nu)
    tau, acceleration = np.ones(solo12.nu), np.arange(solo12.nv, dtype=float)
    add_rotor_torques(estimate, np.array(solo12.actuated_index), acceleration, tau)
    assert tau.tolist() == [1.0 + i * (6.0 + i) for i in range(solo12.nu)]


def trot(
    robot: Robot, plant: Plant, seconds: float, rotor_inertia: str, *, lag: float = 0.0
) -> tuple[LocomotionController, list[float]]:
    """Walks for some seconds, and returns the controller and the error of the speed after each tick [m/s].

    The velocities of the joints are filtered with a time constant of `lag` seconds.
    """
    controller, dynamics = LocomotionController(robot, dt=DT, rotor_inertia=rotor_inertia), qd.Dynamics(robot)
    errors, v = [], np.array(plant.v)
    for k in range(round(seconds / DT)):
        velocity = (SPEED if k * DT > 0.3 else 0.0, 0.0, 0.0)
        v[:6], v[6:] = plant.v[:6], v[6:] + (plant.v[6:] - v[6:]) * DT / (lag + DT)
        command = controller.compute(dynamics.update(plant.q, np.array(v)), velocity)
        if command.mode is LocomotionMode.FALLEN:
            break
        errors.append(float(plant.v[0]) - SPEED)
        plant.step(command.tau)
    return controller, errors


def test_correct_model_is_not_changed(solo12: Robot) -> None:
    runs = [trot(solo12, Simulation(solo12, dt=DT), 1.5, option) for option in ("estimated", "model")]
    assert np.array_equal(runs[0][1], runs[1][1]) and not any(runs[0][0].estimated_rotor_inertia.values())


def test_filtered_velocities_are_not_mistaken_for_rotor_inertias(solo12: Robot) -> None:
    """Their error is the same in every swing, so that only the poor fit shows that it has another cause."""
    controller, errors = trot(solo12, Simulation(solo12, dt=DT), 2.0, "estimated", lag=8e-3)
    M = qd.Dynamics(solo12).update(solo12.q_home, np.zeros(solo12.nv)).M.diagonal()[solo12.actuated_index]
    assert len(errors) == 1000
    assert (np.array(list(controller.estimated_rotor_inertia.values())) < 0.02 * M).all()


def test_proportional_regressors_give_no_estimate(solo12: Robot) -> None:
    parameters = make_rotor_inertia_parameters(solo12, FEET, 1.0, memory=1.0, correlation_time=0.02, dt=DT)
    estimate = make_rotor_inertia_estimate(solo12)
    for k in range(500):
        estimate.acceleration[:] = np.sin(0.1 * k) + 1.0
        estimate.velocity[:] = 1e-9 * estimate.acceleration
        update_rotor_inertia(parameters, estimate, -estimate.acceleration, np.ones(4, dtype=np.int64))
    assert estimate.weights[6:].all() and not (estimate.inertia.any() or estimate.damping.any())


def test_joints_that_carry_several_feet_are_not_estimated(solo12: Robot) -> None:
    feet = FEET[0], FEET[0]
    parameters = make_rotor_inertia_parameters(solo12, feet, 1.0, memory=1.0, correlation_time=0.02, dt=DT)
    assert (parameters.foot == -1).all()


def test_no_estimate_runs_without_contact_forces(solo12: Robot) -> None:
    controller = LocomotionController(solo12, dt=DT, contact_detection="scheduled", friction="nominal")
    plant, dynamics = Simulation(solo12, dt=DT), qd.Dynamics(solo12)
    for _ in range(300):
        plant.step(controller.compute(dynamics.update(plant.q, plant.v), (SPEED, 0.0, 0.0)).tau)
    assert not controller._quadruped.estimators.contacts.rotors.weights.any()


def test_rotor_inertias_of_a_plant_are_found_and_compensated(solo12: Robot) -> None:
    p, inertia = Morphology.from_robot(solo12), 1.5e-3  # three times the inertia of the shank about the knee
    real = with_inertials(solo12, {}, {joint: np.array([0.0, 0.0, inertia]) for joint in solo12.actuated}, said="test")
    assert inertia < MAX_ROTOR_INERTIA * p.mass * p.length**2
    controller, errors = trot(solo12, MujocoPlant(real, dt=DT, contact="menagerie"), 4.0, "estimated")
    assert len(errors) == 2000 and abs(np.mean(errors[-250:])) < 0.1 * SPEED
    estimates = np.array(list(controller.estimated_rotor_inertia.values())) / inertia
    assert estimates.min() > 0.7 and estimates.max() < 1.05
    controller.reset()
    assert not any(controller.estimated_rotor_inertia.values())
    controller, errors = trot(solo12, MujocoPlant(real, dt=DT, contact="menagerie"), 4.0, "model")
    assert len(errors) < 2000 or abs(np.mean(errors[-250:])) > 0.2 * SPEED  # it falls, or is slow
    assert not any(controller.estimated_rotor_inertia.values())


def test_unknown_option_is_rejected(solo12: Robot) -> None:
    raises(UnknownNameError, "rotor_inertia", LocomotionController, solo12, dt=DT, rotor_inertia="nominal")
