"""Identification from noisy motion: parameters predict torques to the noise level and are physically consistent."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import pickle
import re
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import numpy as np
import pinocchio as pin
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from raising import raises
from slow_parameters import others_slow
from typer.testing import CliRunner

import quaddyn as qd
from quaddyn.cli import app, identifying
from quaddyn.cli.console import use_one_linear_algebra_thread
from quaddyn.contact import contact_jacobian
from quaddyn.control import JointPD, gravity_compensation
from quaddyn.identification import (
    Accumulator,
    Identification,
    MotionRange,
    Samples,
    accelerations,
    base_parameters,
    exciting_trajectory,
    fit_accumulated,
    group_by_rule,
    identify,
    load_samples,
    low_pass,
    save_samples,
    split_samples,
    stream_samples,
)
from quaddyn.identification.base_parameters import StackedRegressor, random_states
from quaddyn.identification.consistent_fit import (
    fit_consistent,
    inertial_of,
    is_consistent,
    parameters_of,
    pseudo_inertia,
    thicken_pseudo_inertia,
    upper_cholesky,
)
from quaddyn.identification.fit import UNKNOWN_CAUSE, likely_causes
from quaddyn.identification.samples import MeasuredForces
from quaddyn.reference import Reference
from quaddyn.reference.algorithms import INERTIAL_PARAMETERS, unit_inertia
from quaddyn.robot import with_payload

Array = np.ndarray
runner = CliRunner()


def perturbed_parameters(robot: qd.Robot, rng: np.random.Generator, spread: float = 0.2) -> Array:
    """Physically consistent parameters that differ from those of the file, with friction and rotors."""
    delta = qd.Dynamics(robot).parameters().reshape(-1, 13).copy()
    for row, body in zip(delta, robot.bodies, strict=True):
        if row[9] > 0.0:
            J = thicken_pseudo_inertia(pseudo_inertia(row[:10]))
            U = np.eye(4) + spread * np.triu(rng.standard_normal((4, 4)))
            L = np.linalg.cholesky(J)
            row[:10] = parameters_of(L @ U @ U.T @ L.T)
        if body.joint is not None:
            row[10:] = rng.uniform(0.5, 1.5, 3) * [0.1, 0.2, 0.01]
    return delta.ravel()


def torques(robot: qd.Robot, delta: Array, states: tuple[Array, Array, Array]) -> Array:
    """Generalized forces (n, nv) of a robot with parameters delta, without a regressor.

    Computed by Pinocchio; the first three are compared with the recursion of the reference.
    """
    model, rows = robot.model.copy(), delta.reshape(-1, 13)
    damping, friction, armature = np.zeros((3, robot.nv))
    for body, row in zip(robot.bodies, rows, strict=True):
        joint = model.frames[robot.frame_id(body.name)].parentJoint
        xx, xy, xz, yy, yz, zz = row[:6]
        if joint:
            model.inertias[joint] = pin.Inertia.FromDynamicParameters(
                np.array([row[9], *row[6:9], xx, xy, yy, xz, yz, zz])
            )
        if body.joint is not None:
            damping[model.joints[joint].idx_v], friction[model.joints[joint].idx_v] = row[10:12]
            armature[model.joints[joint].idx_v] = row[12]
    model.armature = armature
    data = model.createData()
    out = [
        pin.rnea(model, data, q, v, a) + damping * v + friction * np.sign(v) for q, v, a in zip(*states, strict=True)
    ]
    first = torques_of_reference(robot, delta, tuple(x[:3] for x in states))
    np.testing.assert_allclose(out[:3], first, rtol=0.0, atol=1e-11 * (1.0 + np.abs(first).max()))
    return np.array(out)


def torques_of_reference(robot: qd.Robot, delta: Array, states: tuple[Array, ...]) -> Array:
    """The same as `torques`, by the recursion of the reference."""
    model = Reference(robot.source, root=robot.root).model
    rows = {body.name: row for body, row in zip(robot.bodies, delta.reshape(-1, 13), strict=True)}
    (damping, friction, armature), bodies = np.zeros((3, robot.nv)), []
    for body in model.bodies:
        row = rows.get(body.name, np.zeros(13))  # auxiliary bodies of a planar root
        bodies.append(
            dataclasses.replace(
                body, G=sum(x * unit_inertia(k) for x, k in zip(row, INERTIAL_PARAMETERS, strict=False))
            )
        )
        if not body.root:
            damping[body.v], friction[body.v], armature[body.v] = row[10:]
    model = dataclasses.replace(model, bodies=tuple(bodies))
    machine = Reference(model, armature=armature, damping=damping, friction=friction)
    return np.array([machine.rnea(q, v, a) + machine.joint_friction(v) for q, v, a in zip(*states, strict=True)])


def simulate_measurements(
    robot: qd.Robot,
    delta: Array,
    states: tuple[Array, Array, Array],
    rng: np.random.Generator,
    noise: float = 0.02,
    y: Array | None = None,
) -> tuple[Samples, Array, float]:
    """Simulated measurements of a robot with parameters delta: samples, noise of torques and noise of forces.

    y: generalized forces of the robot, computed by default.

    The feet of a floating base have the smallest forces that produce its motion.
    """
    q, v, a = states
    y = torques(robot, delta, states) if y is None else y
    forces, sigma = {}, 0.0
    if robot.root != "fixed":
        zero = np.zeros((len(q), 3))
        J = MeasuredForces(robot).jacobians(Samples(q, v, a, y[:, 6:], dict.fromkeys(robot.feet, zero), "ground"))
        f = np.einsum("nij,nj->ni", np.linalg.pinv(J[:, :, :6].transpose(0, 2, 1)), y[:, :6])
        y = y - np.einsum("nij,ni->nj", J, f)
        sigma = noise * float(np.sqrt(np.mean(f**2)))
        f = f + sigma * rng.standard_normal(f.shape)
        forces = {foot: f[:, 3 * i : 3 * i + 3] for i, foot in enumerate(robot.feet)}
    tau = y[:, robot.actuated_index]
    deviation = noise * np.sqrt(np.mean(tau**2, axis=0))
    tau = tau + deviation * rng.standard_normal(tau.shape)
    return Samples(q, v, a, tau, forces, "ground" if forces else "frame"), deviation, sigma


def rms(x: Array) -> Array:
    """Root mean square over the first axis."""
    return np.asarray(np.sqrt(np.mean(x**2, axis=0)))


@pytest.fixture(scope="module")
def ur5() -> qd.Robot:
    return qd.load("ur5")


@pytest.fixture(scope="module")
def ur5_data(ur5: qd.Robot) -> tuple[Array, Samples, Array]:
    rng = np.random.default_rng(0)
    delta = perturbed_parameters(ur5, rng)
    samples, deviation, _ = simulate_measurements(ur5, delta, random_states(ur5, 2000, rng), rng)
    return delta, samples, deviation


@functools.cache
def experiment(name: str) -> tuple[qd.Robot, Array, Samples, Array, float]:
    """A robot, generalized forces with other parameters at random states, and simulated measurements of them."""
    robot, rng = qd.load(name), np.random.default_rng(3)
    delta, states = perturbed_parameters(robot, rng), random_states(robot, 1200, rng)
    y = torques(robot, delta, states)
    return robot, y, *simulate_measurements(robot, delta, states, rng, y=y)


PREDICTED = ["ur5", "rx90", "go2", "solo8", "double_pendulum_continuous"]


# -- accuracy --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "method"),
    others_slow(
        [(name, method) for name in PREDICTED for method in ("weighted", "consistent")],
        [("ur5", "weighted"), ("go2", "consistent"), ("double_pendulum_continuous", "consistent")],
    ),
)
def test_prediction_error_of_unseen_torques_is_at_noise_level(name: str, method: str) -> None:
    """The prediction error is at most 1.2 times that of the true parameters, which is the noise."""
    robot, y, samples, deviation, force = experiment(name)
    learned, unseen, truth = samples[:800], samples[800:], y[800:]
    found = identify(robot, learned, method=method, torque_noise=deviation, force_noise=force or None)
    floor = rms(truth - measured_generalized_forces(robot, unseen))
    assert np.all(found.validate(unseen).error <= 1.2 * floor)
    assert found.n_identifiable == found.base.size
    assert found.converged
    # compared with noise-free torques, the error is at most half of the noise
    assert np.all(rms(found.predict(unseen.q, unseen.v, unseen.a) - truth) <= 0.5 * floor)
    if method == "consistent":
        assert found.inconsistent_bodies == ()


def measured_generalized_forces(robot: qd.Robot, samples: Samples) -> Array:
    return MeasuredForces(robot).generalized_forces(samples)


@pytest.fixture(scope="module")
def standing_samples(go2: qd.Robot) -> Samples:
    """Samples of a standing Go2 in the simulator, with oscillating legs."""
    sim, pd, dyn = qd.Simulation(go2), JointPD(go2), qd.Dynamics(go2)
    rng = np.random.default_rng(5)
    phases, rates = rng.uniform(0, 2 * np.pi, (2, go2.nu)), rng.uniform(1.0, 4.0, go2.nu)
    rows = []
    for k in range(1400):
        target = go2.q_home.copy()
        stir = np.sin(rates * sim.time * 2 * np.pi + phases[0]) + np.sin(0.6 * sim.time * 2 * np.pi + phases[1])
        target[7:] += 0.12 * stir * min(1.0, sim.time)
        hold = gravity_compensation(dyn.update(sim.q, sim.v))
        q, v = sim.q, sim.v
        sim.step(pd.compute(q, v, target, feedforward=hold.tau).tau)
        if k >= 400:
            rows.append((q, v, (sim.v - v) / sim.dt, sim.tau, *sim.contact_forces.values()))
    q, v, a, tau, *f = (np.array(x) for x in zip(*rows, strict=True))
    return Samples(q, v, a, tau, dict(zip(go2.feet, f, strict=True)), "ground")


def test_floating_base_is_identified_from_torques_and_contact_forces_of_the_simulator(
    go2: qd.Robot, standing_samples: Samples
) -> None:
    rng = np.random.default_rng(6)
    torque, force = 0.05, 0.5  # [N m], [N]
    noisy = Samples(
        standing_samples.q,
        standing_samples.v,
        standing_samples.a,
        standing_samples.tau + torque * rng.standard_normal(standing_samples.tau.shape),
        {foot: f + force * rng.standard_normal(f.shape) for foot, f in standing_samples.forces.items()},
        "ground",
    )
    wrong = perturbed_parameters(go2, rng)  # a wrong prior
    learned, unseen = noisy[np.arange(0, 1000, 2)], noisy[np.arange(1, 1000, 2)]
    states = unseen.q, unseen.v, unseen.a
    floor = rms(torques(go2, qd.Dynamics(go2).parameters(), states) - measured_generalized_forces(go2, unseen))
    for method in ("weighted", "consistent"):
        found = identify(go2, learned, method=method, torque_noise=torque, force_noise=force, prior=wrong)
        assert np.all(found.validate(unseen).error <= 1.1 * floor), method
    assert found.inconsistent_bodies == ()
    before = rms(torques(go2, wrong, states) - measured_generalized_forces(go2, unseen))
    assert np.median(before / floor) > 2.0  # the prior alone is inaccurate
    mass = sum(i.mass for i in found.inertials.values())
    assert mass == pytest.approx(go2.mass, rel=0.01)
    assert found.total_mass is not None
    total, deviation = found.total_mass
    assert total == pytest.approx(mass) and 0.0 < deviation < 0.05 * mass
    assert f"sum of all masses is {total:.4g}" in found.ambiguity


# -- streaming -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("method", ["least_squares", "weighted", "consistent"])
@pytest.mark.parametrize("whitened", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_streaming_equals_batch(method: str, whitened: bool) -> None:
    robot, rng = qd.load("solo8"), np.random.default_rng(1)
    delta = perturbed_parameters(robot, rng)
    samples, deviation, force = simulate_measurements(robot, delta, random_states(robot, 300, rng), rng)
    noise = {"torque_noise": deviation, "force_noise": force} if whitened else {}
    base = base_parameters(robot)
    batch = identify(base, samples, method=method, **noise)
    pieces = identify(base, (samples[i : i + 7] for i in range(0, 300, 7)), method=method, **noise)
    scale = np.abs(batch.beta).max()
    np.testing.assert_allclose(pieces.beta, batch.beta, atol=1e-10 * scale)
    np.testing.assert_allclose(pieces.covariance, batch.covariance, atol=1e-10 * np.abs(batch.covariance).max())
    np.testing.assert_allclose(pieces.noise, batch.noise, rtol=1e-10)
    halves = [Accumulator(base, **noise) for _ in range(2)]  # as in two processes
    halves[0].add(samples[:100])
    halves[1].add(samples[100:])
    halves[0].merge(halves[1])
    merged = fit_accumulated(halves[0], method=method)
    np.testing.assert_allclose(merged.beta, batch.beta, atol=1e-10 * scale)
    np.testing.assert_allclose(merged.noise, batch.noise, rtol=1e-10)
    one = Accumulator(base, **noise)
    one.add(samples)
    assert [row.rows for row in (*halves[0].rows, halves[0].whitened)] == [
        row.rows for row in (*one.rows, one.whitened)
    ]


def test_least_squares_equals_numpy_lstsq(ur5: qd.Robot, ur5_data: tuple[Array, Samples, Array]) -> None:
    _, samples, deviation = ur5_data
    base = base_parameters(ur5)
    H = base.regressor()(samples.q, samples.v, samples.a)
    plain = np.linalg.lstsq(H.reshape(-1, base.size), samples.tau.ravel(), rcond=None)[0]
    found = identify(base, samples, method="least_squares", offsets=False)
    np.testing.assert_allclose(found.beta, plain, atol=1e-10)
    assert not found.offset.any()
    A, z = (H / deviation[:, None]).reshape(-1, base.size), (samples.tau / deviation).ravel()
    found = identify(base, samples, method="weighted", torque_noise=deviation, offsets=False)
    np.testing.assert_allclose(found.beta, np.linalg.lstsq(A, z, rcond=None)[0], atol=1e-10)
    np.testing.assert_allclose(found.covariance, np.linalg.inv(A.T @ A), rtol=1e-8, atol=1e-12)
    # with a column for the offset of each joint
    A = np.hstack([A, np.tile(np.diag(1.0 / deviation), (len(samples), 1))])
    found = identify(base, samples, method="weighted", torque_noise=deviation)
    solution = np.linalg.lstsq(A, z, rcond=None)[0]
    np.testing.assert_allclose([*found.beta, *found.offset], solution, atol=1e-9)
    np.testing.assert_allclose(
        found.covariance, np.linalg.inv(A.T @ A)[: base.size, : base.size], rtol=1e-7, atol=1e-12
    )


@pytest.mark.parametrize("method", ["weighted", "consistent"])
def test_constant_torque_offsets_are_identified_and_drifts_are_reported(ur5: qd.Robot, method: str) -> None:
    rng = np.random.default_rng(5)
    delta, states = perturbed_parameters(ur5, rng), random_states(ur5, 1500, rng)
    samples, deviation, _ = simulate_measurements(ur5, delta, states, rng)
    offset = np.array([0.0, 4.0, 0.0, -3.0, 0.0, 1.0]) * deviation
    tau = samples.tau + offset
    tau[:, 5] += np.linspace(-2.0, 2.0, len(tau)) * deviation[5]
    shifted = Samples(samples.q, samples.v, samples.a, tau)
    base = base_parameters(ur5)
    true = identify(base, samples, method=method, torque_noise=deviation)
    found = identify(base, shifted, method=method, torque_noise=deviation)
    without = identify(base, shifted, method=method, torque_noise=deviation, offsets=False)
    np.testing.assert_allclose(found.offset - true.offset, offset, atol=0.4 * deviation.max())
    assert list(found.torque_offsets.values()) == found.offset.tolist() and true.remarks == ()
    joints = ur5.actuated
    remarks = found.remarks[:-1]
    listed = [[word.split()[0] for word in remark.split(": ")[1].split(", ")] for remark in remarks]
    assert listed == [[joints[1], joints[3], joints[5]], [joints[5]]]
    assert [remark.split()[0] for remark in remarks] == ["constant", "residuals"]
    assert f"larger than the given noise (ratio: {joints[5]}" in found.remarks[-1]  # drift does not count as noise
    assert found.drift[5, 0] == pytest.approx(4.0 * deviation[5], rel=0.2)
    assert any("have the mean" in remark and joints[1] in remark for remark in without.remarks)
    assert not without.offset.any() and found.noise[1] < without.noise[1]
    np.testing.assert_allclose(found.validate(shifted).error, found.noise, rtol=1e-9)
    # in two halves, of which the second follows the first
    halves = [Accumulator(base, torque_noise=deviation) for _ in range(2)]
    halves[0].add(shifted[:700])
    halves[1].add(shifted[700:])
    halves[0].merge(halves[1])
    merged = fit_accumulated(halves[0], method=method)
    np.testing.assert_allclose(merged.offset, found.offset, atol=1e-6)
    np.testing.assert_allclose(merged.drift, found.drift, rtol=1e-6, atol=1e-8)


def test_accumulator_size_is_independent_of_the_number_of_samples(
    ur5: qd.Robot, ur5_data: tuple[Array, Samples, Array]
) -> None:
    gathered = Accumulator(ur5)
    gathered.add(ur5_data[1])
    size = sum(row.R.size for row in gathered.rows)
    gathered.add(ur5_data[1])
    assert sum(row.R.size for row in gathered.rows) == size
    assert gathered.samples == 4000


# -- uncertainty -----------------------------------------------------------------------------------------------------
def test_standard_deviations_match_the_actual_errors(ur5: qd.Robot) -> None:
    """Over 60 repetitions, errors divided by their standard deviations have a mean square of 1."""
    base, rng = base_parameters(ur5), np.random.default_rng(2)
    delta, states = perturbed_parameters(ur5, rng), random_states(ur5, 100, rng)
    probe = random_states(ur5, 5, rng)
    truth, y = torques(ur5, delta, probe), torques(ur5, delta, states)
    scores, bands = [], []
    for _ in range(60):
        samples, deviation, _ = simulate_measurements(ur5, delta, states, rng, y=y)
        found = identify(base, samples, method="weighted", torque_noise=deviation)
        scores.append(((found.beta - base.project(delta)) / found.deviation) ** 2)
        bands.append(((found.predict(*probe) - truth) / found.prediction_std(*probe)) ** 2)
    assert np.mean(scores) == pytest.approx(1.0, abs=0.1)
    assert np.mean(bands) == pytest.approx(1.0, abs=0.2)


def test_standard_deviations_match_the_errors_with_force_noise_that_is_given_too_small() -> None:
    robot, rng = qd.load("solo8"), np.random.default_rng(2)
    base, delta, states = base_parameters(robot), perturbed_parameters(robot, rng), random_states(robot, 200, rng)
    y, scores = torques(robot, delta, states), []
    for _ in range(3):
        samples, deviation, force = simulate_measurements(robot, delta, states, rng, y=y)
        found = identify(base, samples, method="weighted", torque_noise=0.2 * deviation, force_noise=0.2 * force)
        scores.append(((found.beta - base.project(delta)) / found.deviation) ** 2)
        assert any("given noise" in text for text in found.remarks)
    assert 0.7 < np.sqrt(np.mean(scores)) < 1.4


def test_unknown_noise_is_estimated_for_each_torque(ur5: qd.Robot, ur5_data: tuple[Array, Samples, Array]) -> None:
    _, samples, deviation = ur5_data
    found = identify(ur5, samples, method="weighted")
    np.testing.assert_allclose(found.noise, deviation, rtol=0.1)
    known = identify(ur5, samples, method="weighted", torque_noise=deviation)
    np.testing.assert_allclose(found.deviation, known.deviation, rtol=0.1)


def test_unidentifiable_parameters_keep_prior_values_and_are_reported(ur5: qd.Robot) -> None:
    rng = np.random.default_rng(0)
    q, v, a = random_states(ur5, 200, rng)
    delta = perturbed_parameters(ur5, rng)
    samples, _, _ = simulate_measurements(ur5, delta, (q, 0 * v, 0 * a), rng)  # at rest: gravity alone
    for method in ("least_squares", "weighted", "consistent"):
        found = identify(ur5, samples, method=method)
        assert found.n_identifiable < found.base.size
        assert np.isfinite(found.beta).all()
    found = identify(ur5, samples, method="weighted")
    friction = [k for k, i in enumerate(found.base.independent) if found.base.names[i].startswith("fv")]
    assert np.isinf(found.deviation[friction]).all()
    np.testing.assert_allclose(found.beta[friction], ur5.damping, atol=1e-10)
    assert np.isfinite(found.prediction_std(q, v, a)).all()
    directions = found.parameter_band(2.0).directions
    spread = [
        np.linalg.norm(qd.Dynamics(ur5).regressor(*each) @ directions.T, axis=1) for each in zip(q, v, a, strict=True)
    ]
    np.testing.assert_allclose(spread, 2.0 * found.prediction_std(q, v, a), atol=1e-9)


def test_friction_and_rotors_are_fixed_for_an_inertial_base(ur5: qd.Robot) -> None:
    rng = np.random.default_rng(0)
    delta = perturbed_parameters(ur5, rng).reshape(-1, 13)
    delta[1:, 10], delta[1:, 11], delta[1:, 12] = ur5.damping, ur5.friction, ur5.armature
    states = random_states(ur5, 200, rng)
    samples, _, _ = simulate_measurements(ur5, delta.ravel(), states, rng, noise=1e-9)
    base = base_parameters(ur5, inertial=True)
    found = identify(base, samples, method="weighted")
    np.testing.assert_allclose(found.beta, base.project(delta[:, :10].ravel()), atol=1e-6)
    np.testing.assert_allclose(found.predict(*states), samples.tau, atol=1e-5)


@pytest.mark.parametrize("weight", [None, 1.0])
def test_deviations_contain_the_pull_of_a_prior_that_is_wrong(weight: float | None) -> None:
    """A payload of fifty times the mass of the finger that carries it, and friction that the file does not have."""
    rng, options = np.random.default_rng(0), {"root": "fixed", "mimic": False}
    robot = qd.load("panda", **options)  # type: ignore[arg-type]
    loaded = qd.load("panda", **options, damping=0.3, friction=0.2)  # type: ignore[arg-type]
    loaded = with_payload(loaded, 0.8, (0.0, 0.0, 0.05), link="panda_leftfinger")
    q, v, a = random_states(robot, 800, rng)
    dyn = qd.Dynamics(loaded)
    tau = np.array([dyn.rnea(*state) for state in zip(q, v, a, strict=True)])
    tau += 0.3 * v + 0.2 * np.sign(v) + rng.standard_normal(v.shape)
    found = identify(robot, Samples(q, v, a, tau), prior_weight=weight)
    scores = (found.beta - found.base.project(dyn.parameters())) / found.deviation
    assert np.abs(scores).max() < 3.5 and np.sqrt(np.mean(scores**2)) < 1.2
    assert (found.prior_weight < 1.0) == (weight is None)
    assert any("raise residuals" in remark for remark in found.remarks) == (weight is not None)


def test_friction_of_a_joint_that_sticks_is_not_identified(ur5: qd.Robot) -> None:
    """Static friction, which carries the gravity torque of the joint in 70 % of the samples, is no Coulomb friction."""
    rng, index = np.random.default_rng(0), ur5.actuated.index("elbow_joint")
    q, v, a = random_states(ur5, 400, rng)
    dyn, rests = qd.Dynamics(ur5), rng.random(400) < 0.7
    v[rests, index] = a[rests, index] = 0.0
    tau = np.array([dyn.rnea(*state) for state in zip(q, v, a, strict=True)]) + 2.0 * np.sign(v)
    v[rests, index] = 1e-4 * rng.standard_normal(rests.sum())  # noise of the encoder
    whole = Samples(q, v, a, tau + 0.1 * rng.standard_normal(v.shape))
    found = identify(ur5, whole)
    assert found.sticking_joints == ("elbow_joint",)
    assert found.joint_losses["elbow_joint"][1] < 1.5  # biased
    assert "fc elbow_joint" not in found.determined_parameters
    assert found.mark_losses("elbow_joint")[:2] == ["?", "?"] and found.mark_losses("wrist_1_joint")[:2] == [" ", " "]
    assert any("elbow_joint 7" in remark for remark in found.remarks)
    identified = found.identified_robot()
    assert identified.friction[index] == ur5.friction[index] and identified.friction[index - 1] > 1.9
    halves = [Accumulator(found.base), Accumulator(found.base)]
    for half, part in zip(halves, (whole[:150], whole[150:]), strict=True):
        half.add(part)
    halves[0].load(halves[1].dump())
    assert halves[0].sticking_fractions() == found.sticking


# -- physical consistency --------------------------------------------------------------------------------------------
LARGE_AND_SMALL = st.floats(-6.0, 6.0).map(lambda exponent: 10.0**exponent)


@settings(max_examples=40 if "QUADDYN_SLOW" in os.environ else 9, deadline=None, derandomize=True)
@example(name="ur5", seed=0, noise=11.0, count=3, weight=0.0078125)  # Newton's method on J alone takes too many steps
@example(name="finger_edu", seed=549260787, noise=855.0, count=29, weight=6.75e-5)
@example(name="two_link_leg", seed=1793051918, noise=494.0, count=59, weight=0.0399)
@given(
    name=st.sampled_from(["ur5", "two_link_leg", "double_pendulum_continuous", "planar_3r", "finger_edu"]),
    seed=st.integers(0, 2**31),
    noise=LARGE_AND_SMALL,
    count=st.integers(1, 60),
    weight=LARGE_AND_SMALL,
)
def test_consistent_fits_are_always_valid(name: str, seed: int, noise: float, count: int, weight: float) -> None:
    """Torques are pure noise, and samples may be few."""
    robot, rng = qd.load(name), np.random.default_rng(seed)
    q, v, a = random_states(robot, count, rng)
    tau = noise * rng.standard_normal((count, robot.nu))
    found = identify(robot, Samples(q, v, a, tau), torque_noise=1.0, prior_weight=weight)
    assert found.inconsistent_bodies == ()
    assert np.isfinite(found.covariance).all() and np.isfinite(found.delta).all()
    assert found.converged
    for body, inertial in found.inertials.items():
        if body != robot.bodies[0].name:
            first, second, third = np.linalg.eigvalsh(inertial.inertia)
            assert inertial.mass > 0.0
            assert 0.0 < third <= first + second + 1e-12 * third, body


def test_consistent_fit_is_the_minimum_of_a_convex_problem(
    ur5: qd.Robot, ur5_data: tuple[Array, Samples, Array]
) -> None:
    """The gradient with respect to the parameters vanishes, independent of coordinates and start of the search."""
    _, samples, deviation = ur5_data
    base, prior = base_parameters(ur5), qd.Dynamics(ur5).parameters()
    gathered = Accumulator(base, torque_noise=deviation)
    gathered.add(samples[:300])
    assert gathered.noise is not None
    R = gathered.weighted_factor(gathered.noise)
    A, z, w = R[:, :-1] @ base.K, R[:, -1], 0.7
    found = fit_consistent(A, z, prior, width=13, weight=w)
    assert found.converged
    g = (A.T @ (A @ found.phi - z)).reshape(-1, 13)
    units = pseudo_inertia(np.eye(10))
    for k, body in enumerate(ur5.bodies[1:], start=1):
        J0 = thicken_pseudo_inertia(pseudo_inertia(prior.reshape(-1, 13)[k, :10]))
        J = pseudo_inertia(found.phi.reshape(-1, 13)[k, :10])
        pull = np.einsum("aij,ji->a", units, w * (np.linalg.inv(J0) - np.linalg.inv(J)))
        np.testing.assert_allclose(g[k, :10], -pull, atol=1e-5 * np.abs(pull).max(), err_msg=body.name)


@given(theta=st.lists(st.floats(-2.0, 2.0), min_size=10, max_size=10))
def test_pseudo_inertias_with_cholesky_factors_are_physical_bodies(theta: list[float]) -> None:
    U = np.diag(np.exp(theta[:4]))
    U[np.triu_indices(4, 1)] = theta[4:]
    p = parameters_of(U @ U.T)
    assert is_consistent(p)
    np.testing.assert_allclose(upper_cholesky(pseudo_inertia(p)), U, rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(parameters_of(pseudo_inertia(p)), p, rtol=1e-12, atol=1e-12)


def test_inertial_of_inverts_the_parameters_of_a_robot(go2: qd.Robot) -> None:
    for body, p in zip(go2.bodies, qd.Dynamics(go2).parameters(inertial=True).reshape(-1, 10), strict=True):
        back = inertial_of(p)
        assert back.mass == pytest.approx(body.inertial.mass)
        np.testing.assert_allclose(back.com, body.inertial.com, atol=1e-15)
        np.testing.assert_allclose(back.inertia, body.inertial.inertia, atol=1e-12)
        assert is_consistent(p)
    assert not is_consistent(np.array([1.0, 0, 0, 1.0, 0, 3.0, 0, 0, 0, 1.0]))  # violates the triangle inequality
    assert not is_consistent(np.array([1.0, 0, 0, 1.0, 0, 1.0, 0, 0, 0, -1.0]))
    for thickness in (1e-3, -1e-3):  # about a distant center of mass
        J = np.outer([3.0, -2.0, 1.0, 1.0], [3.0, -2.0, 1.0, 1.0]) + np.diag([0.1, 0.1, thickness, 0.0])
        assert is_consistent(parameters_of(J)) is (thickness > 0.0)
    with pytest.raises(qd.ArgumentError, match="positive definite"):
        upper_cholesky(pseudo_inertia(np.array([1.0, 0, 0, 1.0, 0, 3.0, 0, 0, 0, 1.0])))


# -- exciting motion -------------------------------------------------------------------------------------------------
EXCITED = ["ur5", "z1", "planar_3r", "double_pendulum_continuous", "solo12"]


@pytest.mark.parametrize("name", others_slow(EXCITED, ["ur5", "double_pendulum_continuous", "solo12"]))
def test_exciting_motion_respects_limits_starts_at_rest_and_improves_the_condition_number(name: str) -> None:
    robot = qd.load(name, root="fixed")
    iterations = 60 if name == "solo12" else 30
    shares: list[float] = []
    motion = exciting_trajectory(robot, iterations=iterations, seed=4, progress=shares.append)
    q, v, a = motion.sample(np.linspace(0.0, 2.0 * motion.period, 4001))
    single = [j.idx_q for j in list(robot.model.joints)[1:] if j.nq == 1]
    assert np.all(q[:, single] >= robot.lower[single])
    assert np.all(q[:, single] <= robot.upper[single])
    assert np.all(np.abs(v) <= np.where(np.isfinite(robot.velocity_limits), robot.velocity_limits, np.inf))
    assert np.abs(a).max() <= 20.0
    np.testing.assert_allclose(np.abs(v[[0, 2000, 4000]]).max(), 0.0, atol=1e-9)
    np.testing.assert_allclose(np.abs(a[[0, 2000, 4000]]).max(), 0.0, atol=1e-8)
    np.testing.assert_allclose(np.gradient(v, motion.period / 2000, axis=0)[1:-1], a[1:-1], atol=1e-2 * np.abs(a).max())
    assert motion.condition < motion.initial_condition
    assert shares[-1] == 1.0
    assert shares == sorted(shares)
    again = exciting_trajectory(robot, iterations=iterations, seed=4)
    np.testing.assert_array_equal(again.sines, motion.sines)


def test_exciting_motion_of_a_joint_with_one_limit_stays_on_its_side() -> None:
    joints = qd.load("two_link_leg", root="fixed").actuated
    for limit, sign in (({"lower": 5.0, "upper": np.inf}, 1.0), ({"lower": -np.inf, "upper": -5.0}, -1.0)):
        robot = qd.load("two_link_leg", root="fixed", limits={joints[0]: limit}, q_home=[5.5 * sign, -1.0])
        q, _, _ = exciting_trajectory(robot, iterations=0).sample(np.linspace(0.0, 10.0, 200))
        assert (sign * q[:, 0]).min() >= 5.0 and np.ptp(q[:, 0]) > 0.5


@pytest.mark.parametrize(
    ("name", "options", "word"),
    [
        ("go2", {}, "fixed"),
        ("ur5", {"harmonics": 2}, "harmonics"),
        ("ur5", {"samples": 3}, "samples"),
        ("ur5", {"period": -1.0}, "period"),
        ("ur5", {"margin": 1.0}, "margin"),
        ("ur5", {"margin": "0.1"}, "margin"),
        ("ur5", {"seed": -1}, "seed"),
        ("ur5", {"iterations": 1.5}, "iterations"),
        ("ur5", {"acceleration": 1e-300}, "acceleration"),
    ],
)
def test_invalid_exciting_motion_is_rejected(name: str, options: dict[str, float], word: str) -> None:
    raises((qd.ArgumentError, qd.ArgumentTypeError), word, exciting_trajectory, qd.load(name), **options)


def test_exciting_motion_is_within_effort_limits() -> None:
    robot = qd.load("ur5", limits={"shoulder_pan_joint": qd.Limits(effort=10.0)})
    motion = exciting_trajectory(robot, iterations=3)
    dynamics = qd.Dynamics(robot)
    states = motion.sample(np.arange(0.0, motion.period, 0.01))
    tau = np.array([dynamics.rnea(*state) for state in zip(*states, strict=True)])
    needed = np.abs(tau).max(axis=0) / robot.effort_limits
    assert 0.8 < needed[0] < 1.0 and (needed < 1.0).all()
    np.testing.assert_allclose(motion.effort_fractions, needed, atol=0.01)
    joint = "shoulder_lift_joint"
    weak = qd.load("ur5", limits={joint: qd.Limits(effort=50.0)})  # less than gravity in the middle of the range
    with pytest.raises(qd.ArgumentError, match=f"{joint}.*needs 59.2 N m.* its effort limit is 50"):
        exciting_trajectory(weak, iterations=3)


def test_rounded_axes_do_not_count_for_an_exciting_motion() -> None:
    """An axis that is rounded to four digits makes parameters that no real motion identifies."""
    exact = qd.load("planar_3r")
    assert isinstance(exact.source, bytes)
    source = exact.source.decode()
    old = re.search(r'<joint name="joint2".*?(<axis xyz="[^"]*"\s*/>)', source, re.DOTALL)
    assert old is not None
    axis = exact.tree.joints_by_name["joint2"].axis + np.array([1e-4, 1e-4, 1e-4])
    text = source.replace(old[0], old[0].replace(old[1], f'<axis xyz="{axis[0]} {axis[1]} {axis[2]}"/>'))
    rounded = qd.load(text)
    assert base_parameters(rounded).size > base_parameters(exact).size
    found, expected = (exciting_trajectory(robot, iterations=3) for robot in (rounded, exact))
    assert found.certificate.rank == expected.certificate.rank and not found.certificate.is_unambiguous
    assert found.condition == pytest.approx(expected.condition, rel=0.01)
    with pytest.warns(RuntimeWarning, match="base parameters exist only because axes in the file of .* are rounded"):
        exciting_trajectory(base_parameters(rounded), iterations=0)
    exciting_trajectory(base_parameters(rounded, tolerance=1e-3), iterations=0)  # warnings are errors in tests


def test_advice_about_mimicking_joints_works_on_the_command_line(tmp_path: Path) -> None:
    source = qd.load("planar_3r").source
    assert isinstance(source, bytes)
    head, tail = source.split(b'<joint name="joint3"')
    file = tmp_path / "arm.urdf"
    file.write_bytes(head + b'<joint name="joint3"' + tail.replace(b"<axis", b'<mimic joint="joint2"/><axis', 1))
    words = ["excite", str(file), "--out", str(tmp_path / "x.csv"), "--iterations", "1"]
    with pytest.raises(qd.ModelError, match="--no-mimic"):
        CliRunner().invoke(app, words, catch_exceptions=False)
    assert CliRunner().invoke(app, [*words, "--no-mimic"], catch_exceptions=False).exit_code == 0


# -- data sets -------------------------------------------------------------------------------------------------------
@pytest.fixture
def sample(go2: qd.Robot) -> Samples:
    rng = np.random.default_rng(0)
    return simulate_measurements(go2, perturbed_parameters(go2, rng), random_states(go2, 50, rng), rng)[0]


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("ending", ["csv", "npz"])
def test_samples_are_saved_and_loaded_exactly(
    tmp_path: Path, go2: qd.Robot, sample: Samples, ending: str, order: Literal["C", "F"]
) -> None:
    """Arrays in row order and in column order, as from a transposed log."""
    path = tmp_path / f"data.{ending}"
    arrays = (np.array(x, order=order) for x in (sample.q, sample.v, sample.a, sample.tau))
    forces = {foot: np.array(f, order=order) for foot, f in sample.forces.items()}
    filtered = 0.2, np.tanh(sample.v)
    save_samples(path, go2, Samples(*arrays, forces, sample.force_application, *filtered))
    shares: list[float] = []
    whole, parts = load_samples(path, go2), list(stream_samples(path, go2, chunk=7, progress=shares.append))
    assert [len(p) for p in parts] == [7] * 7 + [1]
    assert shares[-1] == 1.0
    assert whole.noise_bandwidth == pytest.approx(0.2) and whole.direction is not None
    np.testing.assert_array_equal(whole.direction, filtered[1])
    for field in ("q", "v", "a", "tau"):
        np.testing.assert_array_equal(getattr(whole, field), getattr(sample, field))
        np.testing.assert_array_equal(np.concatenate([getattr(p, field) for p in parts]), getattr(sample, field))
    assert whole.force_application == sample.force_application
    for foot, f in sample.forces.items():
        np.testing.assert_array_equal(whole.forces[foot], f)


def test_time_column_empty_lines_and_byte_order_mark_are_accepted(
    tmp_path: Path, go2: qd.Robot, sample: Samples
) -> None:
    """Contents of CSV files written by `quaddyn excite`, editors and spreadsheets."""
    path, archive = tmp_path / "data.csv", tmp_path / "data.npz"
    save_samples(path, go2, sample)
    head, *lines = path.read_text(encoding="utf-8").splitlines()
    rows = "\n".join(f"{0.01 * k},{line}" for k, line in enumerate(lines[:20]))
    rest = "\n".join(f"{0.01 * k},{line}" for k, line in enumerate(lines[20:], start=20))
    path.write_text(f"t,{head}\n{rows}\n\n \n{rest}\n\n\n", encoding="utf-8-sig")
    for chunk in (1, 7, 1000):
        tau = np.concatenate([part.tau for part in stream_samples(path, go2, chunk=chunk)])
        np.testing.assert_array_equal(tau, sample.tau)
    path.write_text(f"t,{head}\n{rows}\n\nx,{lines[20]}\n", encoding="utf-8")
    raises(qd.ArgumentError, ":23: 'x'", load_samples, path, go2)
    np.savez(archive, q=sample.q, v=sample.v, a=sample.a, tau=sample.tau, t=np.arange(50.0))
    np.testing.assert_array_equal(load_samples(archive, go2).tau, sample.tau)


def test_columns_and_joints_in_another_order_are_reordered(tmp_path: Path, go2: qd.Robot, sample: Samples) -> None:
    path = tmp_path / "data.csv"
    save_samples(path, go2, sample)
    rows = [line.split(",") for line in path.read_text(encoding="utf-8").splitlines()]
    order = np.random.default_rng(0).permutation(len(rows[0]))
    order = np.array([*(i for i in order if rows[0][i][0] != "g"), *(i for i, n in enumerate(rows[0]) if n[0] == "g")])
    path.write_text("\n".join(",".join(np.array(row)[order]) for row in rows), encoding="utf-8")
    np.testing.assert_array_equal(load_samples(path, go2).tau, sample.tau)
    other = tmp_path / "data.npz"
    flipped = {"q": sample.q, "v": sample.v, "a": sample.a, "tau": sample.tau[:, ::-1]}
    np.savez(other, **flipped, joints=np.array(go2.actuated[::-1]))  # type: ignore[arg-type]
    np.testing.assert_array_equal(load_samples(other, go2).tau, sample.tau)


def invalid_csv_texts(text: str) -> Iterator[tuple[str, str]]:
    head, first, *rest = text.splitlines()
    tail = "\n".join(rest)
    yield "", "an empty file"
    yield head, "no samples"
    yield f"{head}\n{first},1\n{tail}", "numbers, got"
    yield f"{head}\n{first}\n{'x' + rest[0][1:]}\n", ":3: "
    yield f"{head}\n{'nan,' + first.split(',', 1)[1]}\n", "finite"
    yield head.replace("tau FL_hip_joint", "tau FL_hop_joint") + f"\n{first}", "'tau FL_hip_joint'"
    yield head.replace("q 1", "q 0") + f"\n{first}", "twice"
    yield f"{head},zeal\n{first},0", "is unknown"
    yield head.replace("g FL", "g FI") + f"\n{first}", "FI"
    yield head.replace("g FL", "f FL") + f"\n{first}", "mixes"


def test_invalid_csv_is_rejected_with_the_reason(tmp_path: Path, go2: qd.Robot, sample: Samples) -> None:
    path = tmp_path / "data.csv"
    save_samples(path, go2, sample)
    for k, (text, word) in enumerate(invalid_csv_texts(path.read_text(encoding="utf-8"))):
        bad = tmp_path / f"bad{k}.csv"
        bad.write_text(text, encoding="utf-8")
        raises(qd.ArgumentError, word, load_samples, bad, go2)


def test_invalid_npz_is_rejected_with_the_reason(tmp_path: Path, go2: qd.Robot, sample: Samples) -> None:
    good = {"q": sample.q, "v": sample.v, "a": sample.a, "tau": sample.tau}
    path = tmp_path / "bad.npz"
    for change, word in (
        ({"q": None}, "'q' is missing"),
        ({"a": sample.a[:-1]}, "differ"),
        ({"a": sample.a.astype(complex)}, "real numbers"),
        ({"a": np.asfortranarray(sample.a)}, "Fortran"),
        ({"v": sample.v * np.inf}, "finite"),
        ({"v": sample.v[:, 1:]}, "shape"),
        ({"joints": np.array(["a"])}, "joints"),
        ({"joints": np.array(go2.actuated, dtype="S")}, "'joints': expected names, got"),
        ({"joints": np.array(["a"] * 10_001)}, "'joints': expected names, got"),
        ({"joints": np.array(["a" * 257])}, "'joints': expected names, got"),
        ({"place": np.array("air")}, "force_application"),
        ({"f FL": np.zeros((50, 4))}, "shape"),
        ({"zeal": np.zeros(3)}, "is unknown"),
    ):
        with np.errstate(invalid="ignore"):
            np.savez(path, **{k: x for k, x in (good | change).items() if x is not None})
        raises(qd.ArgumentError, word, load_samples, path, go2)
    np.savez_compressed(path, **good)  # type: ignore[arg-type]
    whole = path.read_bytes()
    for start in range(50, 400, 50):
        path.write_bytes(whole[:start] + bytes(20) + whole[start + 20 :])
        raises(qd.ArgumentError, "array 'q'", load_samples, path, go2)
    path.write_bytes(b"PK\x03\x04 nothing")
    raises(qd.ArgumentError, "NPZ", load_samples, path, go2)
    (tmp_path / "data.txt").write_bytes(whole)
    raises(qd.ArgumentError, r"ending .* content is an NPZ archive", load_samples, tmp_path / "data.txt", go2)


def test_invalid_arguments_are_rejected_by_name(go2: qd.Robot, ur5: qd.Robot, sample: Samples) -> None:
    raises(qd.ArgumentError, "shape", identify, ur5, sample)
    with pytest.raises(qd.UnknownNameError, match="paw"):
        identify(go2, Samples(sample.q, sample.v, sample.a, sample.tau, {"paw": np.zeros((50, 3))}))
    raises(qd.ArgumentError, "torque_noise", identify, go2, sample, force_noise=1.0)
    raises(qd.ArgumentError, "test_fraction", split_samples, sample, 2.0)
    raises(qd.ArgumentError, "method", identify, go2, sample, method="magic")
    raises(qd.ArgumentError, "prior_weight", identify, go2, sample, prior_weight=0.0)
    raises(qd.ArgumentError, "none", identify, go2, [])
    raises(qd.ArgumentTypeError, "Samples", identify, go2, [3])
    with pytest.raises(qd.ArgumentError, match="other"):
        Accumulator(go2).merge(Accumulator(ur5))


# -- the command -----------------------------------------------------------------------------------------------------
def test_excite_and_identify_commands_work_together(tmp_path: Path, ur5: qd.Robot) -> None:
    motion = tmp_path / "motion.csv"
    result = runner.invoke(app, ["excite", "ur5", "--out", str(motion), "--iterations", "5", "--rate", "40"])
    assert result.exit_code == 0, result.output
    table = np.loadtxt(motion, delimiter=",", skiprows=1)
    q, v, a = (np.ascontiguousarray(x) for x in np.split(table[:, 1:], 3, axis=1))
    rng = np.random.default_rng(0)
    delta = perturbed_parameters(ur5, rng)
    samples, deviation, _ = simulate_measurements(ur5, delta, (q, v, a), rng)
    path, target = tmp_path / "data.csv", tmp_path / "found.json"
    save_samples(path, ur5, samples)
    result = runner.invoke(app, ["identify", str(path), "--robot", "ur5", "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["samples"] == 320
    assert found["held_out"]["samples"] == 80
    assert found["inconsistent"] == []
    assert np.all(np.array(found["held_out"]["error"]) < 1.5 * deviation)
    options = ["--method", "weighted", "--torque-noise", "0.1", "--out", str(target)]
    result = runner.invoke(app, ["identify", str(path), "--robot", "ur5", *options], env={"COLUMNS": "100"})
    assert result.exit_code == 0, result.output
    assert "shoulder_pan_joint" in result.stdout
    assert "rank 52 of 91" in result.stdout
    kept = json.loads(target.read_text(encoding="utf-8"))
    assert kept["method"] == "weighted"
    [line] = [x for x in result.stdout.split("joints, as identified")[1].splitlines() if "elbow_joint" in x]
    own = [kept["parameters"][f"{what} elbow_joint"] for what in ("fv", "fc", "Ia")]
    assert line.split()[1::2] == [f"{x:.3g}" for x in own]
    names = [f"{x} {i}" for x in "qva" for i in range(6)]
    assert path.read_text(encoding="utf-8").split("\n")[0].startswith(",".join(names))


@pytest.mark.parametrize("ending", [".csv", ".npz"])
def test_motion_of_the_excite_command_for_a_legged_robot_is_identified_with_a_fixed_root(
    tmp_path: Path, ending: str
) -> None:
    motion, path = tmp_path / "motion.csv", tmp_path / f"data{ending}"
    excite = ["excite", "solo8", "--out", str(motion), "--iterations", "0", "--period", "4", "--rate", "20"]
    assert runner.invoke(app, excite).exit_code == 0
    held = qd.load("solo8", root="fixed")
    q, v, a = (
        np.ascontiguousarray(x) for x in np.split(np.loadtxt(motion, delimiter=",", skiprows=1)[:, 1:], 3, axis=1)
    )
    tau = np.array([qd.Dynamics(held).rnea(*each) for each in zip(q, v, a, strict=True)])
    save_samples(path, held, Samples(q, v, a, tau))
    identified = ["identify", str(path), "--robot", "solo8", "--method", "least_squares"]
    result = runner.invoke(app, identified)
    assert result.exit_code == 0 and "root=fixed is used, because the data have 8 coordinates" in result.output
    raises(qd.ArgumentError, r"data", runner.invoke, app, [*identified, "--root", "free"], catch_exceptions=False)


# -- logs ------------------------------------------------------------------------------------------------------------
def test_low_pass_removes_noise_without_delay() -> None:
    t, rng = np.arange(0.0, 5.0, 1e-3), np.random.default_rng(0)
    motion = np.column_stack([np.sin(2 * np.pi * 0.7 * t), np.cos(2 * np.pi * 0.4 * t) + 3.0 * t])
    noisy = motion + 0.1 * rng.standard_normal(motion.shape)
    clean = low_pass(noisy, dt=1e-3, cutoff=5.0)
    inside = slice(500, -500)
    assert np.abs(low_pass(motion, dt=1e-3, cutoff=5.0) - motion)[inside].max() < 1e-4
    assert np.sqrt(np.mean((clean - motion)[inside] ** 2)) < 0.012  # 0.1 sqrt(10 Hz / 1000 Hz), with a margin
    np.testing.assert_allclose(low_pass(noisy[::-1], dt=1e-3, cutoff=5.0), clean[::-1], atol=1e-12)  # at both ends
    exact = 2 * np.pi * 0.7 * np.cos(2 * np.pi * 0.7 * t)
    np.testing.assert_allclose(accelerations(motion, dt=1e-3)[2:-2, 0], exact[2:-2], atol=1e-9)
    for call in (
        lambda: low_pass(motion, dt=1e-3, cutoff=600.0),
        lambda: low_pass(motion, dt=0.0, cutoff=1.0),
        lambda: low_pass(motion * np.nan, dt=1e-3, cutoff=1.0),
        lambda: low_pass(motion, dt=1e-3, cutoff=1.0, order=0),
        lambda: accelerations(motion[:3], dt=1e-3),
        lambda: accelerations(motion.astype(np.float32), dt=1e-3),
    ):
        raises(qd.ArgumentError, "expected", call)


def test_arm_is_identified_from_positions_and_torques_alone(ur5: qd.Robot) -> None:
    """Positions with 0.1 mrad noise and noisy torques at 500 Hz, without measured velocities and accelerations."""
    rng, dt = np.random.default_rng(0), 2e-3
    delta, base = perturbed_parameters(ur5, rng), base_parameters(ur5)
    motion = exciting_trajectory(base, iterations=10, seed=1)
    q, v, a = motion.sample(np.arange(0.0, motion.period, dt))
    truth = torques(ur5, delta, (q, v, a))
    deviation = 0.05 * np.sqrt(np.mean(truth**2, axis=0))
    tau = low_pass(truth + deviation * rng.standard_normal(truth.shape), dt=dt, cutoff=8.0)
    q = low_pass(q + 1e-4 * rng.standard_normal(q.shape), dt=dt, cutoff=8.0)
    v = accelerations(q, dt=dt)
    middle = slice(250, -250, 8)
    samples = Samples(*(np.ascontiguousarray(x[middle]) for x in (q, v, accelerations(v, dt=dt), tau)))
    found = identify(base, samples)
    assert found.inconsistent_bodies == ()
    states = motion.sample(rng.uniform(0.0, motion.period, 300))
    assert np.all(rms(found.predict(*states) - torques(ur5, delta, states)) < deviation)


# -- measured forces -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("root", ["free", "planar"])
def test_measured_forces_agree_with_external_forces_of_inverse_dynamics(root: str) -> None:
    robot, rng = qd.load("go2", root=root), np.random.default_rng(0)
    dyn, measure = qd.Dynamics(robot), MeasuredForces(robot)
    q, v, a = random_states(robot, 5, rng)
    tau, f, w = rng.standard_normal((5, robot.nu)), rng.standard_normal((5, 3)), rng.standard_normal((5, 6))
    at_frame = measure.generalized_forces(Samples(q, v, a, tau, {"FL": f, "base": w}))
    on_ground = measure.generalized_forces(Samples(q, v, a, tau, {"RR": f}, "ground"))
    for k in range(5):
        pushed = dyn.rnea(q[k], v[k], a[k]) - dyn.rnea(q[k], v[k], a[k], fext={"FL": f[k], "base": w[k]})
        np.testing.assert_allclose(at_frame[k], robot.generalized_torques(tau[k]) + pushed, atol=1e-12)
        J = contact_jacobian(dyn.update(q[k], v[k]), "RR")
        np.testing.assert_allclose(on_ground[k], robot.generalized_torques(tau[k]) + J.T @ f[k], atol=1e-12)


def test_planar_root_and_passive_joint_are_identified() -> None:
    for options in ({"root": "planar"}, {"root": "fixed", "actuated": qd.load("go2").actuated[:-1]}):
        robot, rng = qd.load("go2", **options), np.random.default_rng(0)
        delta, base = perturbed_parameters(robot, rng), base_parameters(robot)
        q, v, a = random_states(robot, 300, rng)
        y = torques(robot, delta, (q, v, a))
        tau, rest = y[:, robot.actuated_index], np.setdiff1d(np.arange(robot.nv), robot.actuated_index)
        J = MeasuredForces(robot).jacobians(Samples(q, v, a, tau, dict.fromkeys(robot.feet, np.zeros((300, 3)))))
        f = np.einsum("nij,nj->ni", np.linalg.pinv(J[:, :, rest].transpose(0, 2, 1)), y[:, rest])
        tau = (y - np.einsum("nij,ni->nj", J, f))[:, robot.actuated_index]
        samples = Samples(q, v, a, tau, {foot: f[:, 3 * i : 3 * i + 3] for i, foot in enumerate(robot.feet)})
        found = identify(base, samples, method="least_squares")
        np.testing.assert_allclose(found.beta, base.project(delta), atol=1e-9 * np.abs(base.project(delta)).max())


def test_invalid_noise_and_prior_are_rejected(go2: qd.Robot, sample: Samples) -> None:
    base = base_parameters(go2)
    empty = Samples(*(x[:0] for x in (sample.q, sample.v, sample.a, sample.tau)))
    gathered = Accumulator(base)
    gathered.add(empty)
    raises(qd.ArgumentError, "none", fit_accumulated, gathered)
    gathered.add(sample)
    gathered.add(empty)
    assert fit_accumulated(gathered, method="weighted").samples == 50
    for options, word in (
        ({"torque_noise": np.ones(3)}, "torque_noise"),
        ({"torque_noise": 1.0, "root_noise": 0.0}, "root_noise"),
        ({"torque_noise": 1.0, "force_noise": -1.0}, "force_noise"),
        ({"torque_noise": 1.0, "force_noise": "1"}, "force_noise"),
        ({"torque_noise": "one"}, "torque_noise"),
        ({"root_noise": 1.0}, "root_noise: requires torque_noise"),
    ):
        raises((qd.ArgumentError, qd.ArgumentTypeError), word, Accumulator, base, **options)
    own = qd.Dynamics(go2).parameters()
    for prior in (np.ones(3), np.full(169, np.nan), "own", -own, 0.0 * own):
        raises((qd.ArgumentError, qd.ArgumentTypeError), "prior", fit_accumulated, gathered, prior=prior)
    raises(qd.ArgumentTypeError, "prior_weight", fit_accumulated, gathered, prior_weight="1")
    raises(qd.ArgumentTypeError, "samples", identify, go2, None)
    raises(qd.ArgumentTypeError, "robot", identify, "go2", sample)
    with pytest.raises(qd.ArgumentError, match="none"):
        fit_accumulated(gathered).validate(empty)


def test_noise_free_torques_give_the_exact_parameters(ur5: qd.Robot) -> None:
    """Residuals within rounding are not used as noise estimate."""
    rng = np.random.default_rng(0)
    base, delta, states = base_parameters(ur5), perturbed_parameters(ur5, rng), random_states(ur5, 200, rng)
    tau = torques(ur5, delta, states)
    for options in ({}, {"torque_noise": 1e-9}, {"torque_noise": 1e-12}):
        found = identify(base, Samples(*states, tau), **options)  # type: ignore[arg-type]
        assert found.converged and found.inconsistent_bodies == ()
        assert found.noise.max() < 1e-5
        assert found.prior_weight == 1.0, "a lighter prior does not change fits whose noise is increased"
        np.testing.assert_allclose(found.beta, base.project(delta), atol=1e-5)


@pytest.mark.parametrize(
    ("name", "moves", "tau", "count"),
    [
        pytest.param("ur5", 1.0, "noise", 2, marks=pytest.mark.slow),
        pytest.param("ur5", 1.0, "none", 60, marks=pytest.mark.slow),
        ("planar_3r", 1.0, "none", 60),
        pytest.param("planar_3r", 1.0, "none", 2, marks=pytest.mark.slow),
        ("planar_3r", 0.0, "noise", 60),
    ],
)
def test_consistent_fits_of_little_data_with_unknown_noise_are_valid(
    name: str, moves: float, tau: str, count: int
) -> None:
    robot, rng = qd.load(name), np.random.default_rng(count)
    q, v, a = random_states(robot, count, rng)
    torques = 0.0 * v if tau == "none" else rng.standard_normal(v.shape)
    found = identify(robot, Samples(q, moves * v, moves * a, torques))
    assert found.inconsistent_bodies == ()
    assert np.isfinite(found.delta).all() and np.isfinite(found.deviation).all()


@pytest.mark.parametrize(
    ("moments", "sound"),
    [
        ((1e-10, 3e-10, 3e-10), True),  # small, but with similar principal moments
        ((1e-9, 0.5, 0.5), True),
        ((1e-11, 0.5, 0.5), False),  # a rod
        ((0.0, 0.5, 0.5), False),
        ((0.0, 0.0, 0.0), False),  # a point
    ],
)
def test_pseudo_inertia_of_points_and_rods_is_thickened(moments: tuple[float, ...], sound: bool) -> None:
    J = np.diag((*moments, 2.0))
    spread = thicken_pseudo_inertia(J)
    if sound:
        np.testing.assert_array_equal(spread, J)
    else:
        assert np.linalg.eigvalsh(spread)[0] >= 2e-6
        np.testing.assert_allclose(spread[:3, :3][J[:3, :3] == 0.5], 0.5)


# -- `quaddyn excite` and `quaddyn identify` as programs --------------------------------------------------------------
def read_motion(path: Path, robot: qd.Robot) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """t, q, v and a of a file of `quaddyn excite`."""
    table = np.loadtxt(path, delimiter=",", skiprows=1)
    t, q, v, a = np.split(table, np.cumsum([1, robot.nq, robot.nv]), axis=1)
    return t[:, 0], *map(np.ascontiguousarray, (q, v, a))


def run_program(*words: object, cwd: Path) -> tuple[str, float]:
    """Output of the `quaddyn` program, and its CPU time [s], with as many threads as linear algebra chooses."""
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, "-m", "quaddyn", *map(str, words)], cwd=cwd, env=environment,
                          capture_output=True, encoding="utf-8", timeout=300.0)  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr
    return done.stdout, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_go2_is_excited_and_identified_from_8000_samples_within_10_seconds(tmp_path: Path) -> None:
    """Both commands choose the same root without an option, and the fit finds the simulated friction."""
    run_program("excite", "go2", "--out", "motion.csv", "--period", 20, "--rate", 400, "--iterations", 0, cwd=tmp_path)
    robot = qd.load("go2", root="fixed")
    _, q, v, a = read_motion(tmp_path / "motion.csv", robot)
    assert len(q) == 8000
    dyn, rng = qd.Dynamics(robot), np.random.default_rng(0)
    tau = np.array([dyn.rnea(*state) for state in zip(q, v, a, strict=True)])
    tau += 0.3 * v + 0.2 * np.sign(v) + 0.05 * rng.standard_normal(v.shape)
    save_samples(tmp_path / "data.csv", robot, Samples(q, v, a, tau))
    text, seconds = run_program("identify", "data.csv", "--robot", "go2", "--json", cwd=tmp_path)
    assert seconds < 10.0
    found = json.loads(text)
    assert found["converged"] and found["samples"] == 6400 and found["inconsistent"] == []
    for joint in robot.actuated:
        assert abs(found["parameters"][f"fv {joint}"] - 0.3) < 0.03
        assert abs(found["parameters"][f"fc {joint}"] - 0.2) < 0.03


def test_linear_algebra_of_commands_uses_one_thread() -> None:
    assert use_one_linear_algebra_thread()


# -- base parameters --------------------------------------------------------------------------------------------------
INERTIA = '<inertial><origin xyz="0.01 0.02 0.03"/><mass value="1"/><inertia ixx="0.02" iyy="0.03" izz="0.04" '
INERTIA += 'ixy="0.001" ixz="0.002" iyz="0.003"/></inertial>'
LIMIT = '<limit lower="-1" upper="1" effort="10" velocity="5"/>'


def urdf(joints: list[tuple[str, int, str, str, str]]) -> str:
    """A tree of bodies of equal inertia; each joint is (type, parent, xyz, rpy, axis), body 0 the bare base."""
    parts = ['<link name="b0"/>']
    for k, (kind, parent, xyz, rpy, axis) in enumerate(joints, start=1):
        parts.append(
            f'<link name="b{k}">{INERTIA if kind != "fixed" else ""}</link><joint name="j{k}" type="{kind}">'
            f'<parent link="b{parent}"/><child link="b{k}"/><origin xyz="{xyz}" rpy="{rpy}"/><axis xyz="{axis}"/>'
            f"{LIMIT}</joint>"
        )
    return f'<robot name="tree">{"".join(parts)}</robot>'


#: Robots that are tested only in the nightly run.
MANY_JOINTS = ("g1", "talos", "wheeled_quadruped", "centauro", "b1_z1", "b1", "anymal_b_kinova")


def puma(tilt: float = 0.0) -> qd.Robot:
    """The Puma 560's geometry, modified Denavit-Hartenberg (Craig, Introduction to Robotics, section 3.7)."""
    h = np.pi / 2
    table = [(0, 0, 0), (-h, 0, 0), (0, 0.4318, 0.1501), (-h, 0.0203, 0.4318), (h, 0, 0), (-h, 0, 0)]
    joints = [("fixed", 0, "0 0 0", f"{tilt!r} 0 0", "0 0 1")]
    for k, (alpha, a, d) in enumerate(table, start=1):
        xyz = f"{a} {-d * np.sin(alpha):.17g} {d * np.cos(alpha):.17g}"
        joints.append(("revolute", k, xyz, f"{alpha!r} 0 0", "0 0 1"))
    return qd.load(urdf(joints), root="fixed")


def tilted(name: str, tilt: float) -> qd.Robot:
    """A catalogue arm with a tilted base."""
    source = qd.load(name).source
    text = source.decode() if isinstance(source, bytes) else source
    root = qd.load(name).tree.root.name
    slope = (
        f'<link name="slope"/><joint name="slope_joint" type="fixed"><parent link="slope"/><child link="{root}"/>'
        f'<origin rpy="{tilt!r} 0 0"/></joint></robot>'
    )
    return qd.load(text.replace("</robot>", slope), root="fixed")


# -- the table of known ranks ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["ur5", "rx90", "puma"])
def test_six_joint_arms_have_36_base_parameters_and_52_with_friction_and_rotors(name: str) -> None:
    """Khalil and Dombre 2002, ch. 9: 36, or 40 with rotor inertias, because Ia1 and Ia2 are grouped with Lzz."""
    robot = puma() if name == "puma" else qd.load(name)
    assert base_parameters(robot, inertial=True).size == 36
    assert base_parameters(robot).size == 36 + 12 + 4


@pytest.mark.parametrize("name", ["rx90", "puma"])
def test_first_axis_not_parallel_to_gravity_adds_two_base_parameters(name: str) -> None:
    robot = puma(0.3) if name == "puma" else tilted(name, 0.3)
    assert base_parameters(robot, inertial=True).size == 38
    assert base_parameters(robot).size == 38 + 12 + 4


@pytest.mark.parametrize("name", ["go2", "solo12", "anymal_b", "anymal_c"])
def test_floating_base_robot_with_twelve_joints_has_94_base_parameters(name: str) -> None:
    robot = qd.load(name)
    assert base_parameters(robot, inertial=True).size == 10 + 7 * 12
    assert base_parameters(robot).size == 10 + 7 * 12 + 3 * 12


@pytest.mark.parametrize("name", ["ur5", "rx90"])
def test_rotors_of_the_first_two_joints_are_grouped(name: str) -> None:
    base = base_parameters(qd.load(name))
    alone = [g for g in base.groups() if g.startswith("Ia") and " + " not in g and " - " not in g]
    joints = qd.load(name).actuated
    assert sorted(alone) == sorted(f"Ia {joint}" for joint in joints[2:])


# -- rules and QR ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=[pytest.mark.slow] if n in MANY_JOINTS else [])
        for n in qd.CATALOGUE
        if n != "closed_leg_biped"  # identification does not support loops
    ],
)
def test_rules_and_qr_find_the_same_null_space_on_every_catalogue_robot(name: str) -> None:
    robot = qd.load(name, mimic=False)
    for inertial in (True, False):
        base, rules = base_parameters(robot, inertial=inertial), group_by_rule(robot, inertial=inertial)
        assert rules.rank == base.size
        assert rules.disagreement(base) < 1e-8  # right angles of kinova and xarm7 have eleven and five digits


@st.composite
def trees(draw: st.DrawFn) -> str:
    joints = []
    for k in range(draw(st.integers(1, 6))):
        kinds = ["revolute", "revolute", "continuous", "prismatic", "planar", "floating"]
        kind = draw(st.sampled_from(kinds if k else kinds[:-1]))  # a floating joint at the base is the root itself
        axis = draw(st.sampled_from(["1 0 0", "0 1 0", "0 0 1", "0 0.6 0.8", "0.6 0 -0.8"]))
        xyz = draw(st.sampled_from(["0 0 0", "0.3 0 0", "0 0.2 0", "0 0 0.4", "0.1 -0.2 0.3"]))
        rpy = draw(st.sampled_from(["0 0 0", "1.5707963267948966 0 0", "0 1.5707963267948966 0", "0.3 -0.4 0.5"]))
        joints.append((kind, draw(st.integers(max(0, k - 2), k)), xyz, rpy, axis))
    return urdf(joints)


@settings(max_examples=20, deadline=None)
@given(text=trees(), root=st.sampled_from(["fixed", "planar", "free"]), seed=st.integers(0, 2**31))
def test_rules_and_qr_agree_on_trees_of_all_joint_types(text: str, root: str, seed: int) -> None:
    if root != "fixed":  # a floating base has mass
        text = text.replace('<link name="b0"/>', f'<link name="b0">{INERTIA}</link>')
    robot = qd.load(text, root=root)
    for inertial in (True, False):
        base, rules = base_parameters(robot, inertial=inertial, seed=seed), group_by_rule(robot, inertial=inertial)
        assert rules.rank == base.size, (base.certificate, rules.by_body)
        assert rules.disagreement(base) < 1e-9


def test_rank_is_ambiguous_for_a_tilt_of_1e_6_and_unambiguous_for_exact_geometry() -> None:
    exact, tiny = base_parameters(puma()).certificate, base_parameters(puma(1e-6)).certificate
    assert exact.is_unambiguous
    assert np.log10(exact.gap) > 13
    assert not tiny.is_unambiguous
    assert tiny.ambiguous.max() < 1e-3


# -- equivalence -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["go2", "ur5", "double_pendulum_continuous", "b1_z1"])
@pytest.mark.parametrize("inertial", [True, False])
def test_base_parameters_determine_the_torques(name: str, inertial: bool) -> None:
    robot = qd.load(name)
    dyn, base = qd.Dynamics(robot), base_parameters(robot, inertial=inertial)
    states = random_states(robot, 20, np.random.default_rng(7))
    full = StackedRegressor(robot, inertial=inertial)(*states)
    delta = dyn.parameters(inertial=inertial)
    for k, (q, v, a) in enumerate(zip(*states, strict=True)):
        np.testing.assert_array_equal(full[k], dyn.regressor(q, v, a, inertial=inertial))
    tau = full @ delta
    scale = np.abs(tau).max()
    np.testing.assert_allclose(base.regressor()(*states) @ base.project(delta), tau, atol=1e-12 * scale)
    np.testing.assert_allclose(full @ base.P[:, : base.size], base.regressor()(*states), atol=0)


def test_mapping_matrices_satisfy_the_relations_of_source_c(go2: qd.Robot) -> None:
    base = base_parameters(go2)
    Pb, Pd = np.split(base.P, [base.size], axis=1)
    np.testing.assert_array_equal(base.K, Pb.T + base.Kd @ Pd.T)
    np.testing.assert_array_equal(base.P.T @ base.P, np.eye(len(base.names)))


def test_nearest_parameters_keep_base_parameters_and_the_prior(go2: qd.Robot) -> None:
    base, delta = base_parameters(go2), qd.Dynamics(go2).parameters()
    np.testing.assert_allclose(base.nearest_parameters(base.project(delta), delta), delta, atol=1e-12)
    beta = base.project(delta) + np.random.default_rng(0).standard_normal(base.size)
    np.testing.assert_allclose(base.project(base.nearest_parameters(beta, delta)), beta, atol=1e-10)


def test_regressor_row_of_a_joint_depends_only_on_its_subtree(go2: qd.Robot) -> None:
    support = StackedRegressor(go2).support
    row = go2.velocity_index("FL_thigh_joint")
    known = base_parameters(go2).names
    names = {known[k].split()[1] for k in np.flatnonzero(support[row])}
    assert names == {"FL_thigh", "FL_calf", "FL_thigh_joint"}


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda q, v, a: (q[:, :-1], v, a), "shape"),
        (lambda q, v, a: (q, v[:2], a), "samples"),
        (lambda q, v, a: (q, v * np.nan, a), "finite"),
        (lambda q, v, a: (q.astype(np.float32), v, a), "float64"),
        (lambda q, v, a: (q * 2.0, v, a), "does not have norm 1"),
        (lambda q, v, a: (q, v * 1e200, a), "overflows"),
    ],
)
def test_invalid_samples_are_rejected_by_name(go2: qd.Robot, change: object, word: str) -> None:
    states = random_states(go2, 3, np.random.default_rng(0))
    with np.errstate(all="ignore"), pytest.raises(qd.ArgumentError, match=word):
        StackedRegressor(go2)(*change(*states))  # type: ignore[operator]


def test_invalid_rank_options_are_rejected(go2: qd.Robot) -> None:
    raises(qd.ArgumentError, "samples", base_parameters, go2, samples=3)
    raises(qd.ArgumentError, "tolerance", base_parameters, go2, tolerance=2.0)


# -- misuse of identification -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def arm() -> qd.Robot:
    return qd.load("ur5")


@pytest.fixture(scope="module")
def data(arm: qd.Robot) -> Samples:
    return moving(arm, 200)


def moving(robot: qd.Robot, count: int, *, noise: float = 0.01, seed: int = 0) -> Samples:
    """Random states and their noisy torques."""
    rng = np.random.default_rng(seed)
    q, v, a = random_states(robot, count, rng)
    dynamics = qd.Dynamics(robot)
    tau = np.array([dynamics.rnea(*x) for x in zip(q, v, a, strict=True)])
    return Samples(q, v, a, tau + noise * rng.standard_normal(tau.shape))


def still(robot: qd.Robot, count: int, tau: float | None = None) -> Samples:
    """Samples of one constant posture."""
    q, zero = np.full((count, robot.nq), 0.3), np.zeros((count, robot.nv))
    held = np.tile(qd.Dynamics(robot).gravity(q[0]), (count, 1)) if tau is None else np.full_like(zero, tau)
    return Samples(q, zero, zero, held)


# -- samples -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ("v", "a", "tau", "forces"))
def test_samples_of_different_lengths_are_rejected(name: str) -> None:
    arrays = {"q": np.zeros((5, 6)), "v": np.zeros((5, 6)), "a": np.zeros((5, 6)), "tau": np.zeros((5, 6))}
    short = {"FL": np.zeros((4, 3))} if name == "forces" else np.zeros((4, 6))
    raises(qd.ArgumentError, rf"{name}.*expected 5 samples.*got 4", Samples, **{**arrays, name: short})
    with pytest.raises(qd.ArgumentTypeError, match=rf"{name}.*array"):
        Samples(**{**arrays, name: {"FL": None} if name == "forces" else 3.0})


@pytest.mark.parametrize("name", ("q", "v", "a", "tau"))
def test_impossibly_large_entries_are_rejected(arm: qd.Robot, data: Samples, name: str) -> None:
    arrays = {x: getattr(data, x).copy() for x in ("q", "v", "a", "tau")}
    arrays[name][7, 2] = -1e200
    with pytest.raises(qd.ArgumentError, match=rf"{name}\[7, 2\] = -1e\+200"):
        identify(arm, Samples(**arrays))


@pytest.mark.parametrize("noise", (0.0, 1e-300, 1e300, np.nan, np.inf, -1.0))
def test_noise_out_of_range_is_rejected(arm: qd.Robot, data: Samples, noise: float) -> None:
    raises(qd.ArgumentError, "torque_noise", identify, arm, data, torque_noise=noise)


# -- files -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("a.csv", lambda text: text.replace("\n", "\r\n") + "\r\n\r\n"),
        ("A.CSV", lambda text: text),
    ],
)
def test_csv_variants_are_read_identically(
    tmp_path: Path, arm: qd.Robot, data: Samples, name: str, change: Callable[[str], str]
) -> None:
    """CRLF line ends, capital letters in the file name."""
    save_samples(tmp_path / "plain.csv", arm, data)
    (tmp_path / name).write_text(
        change((tmp_path / "plain.csv").read_text(encoding="utf-8")), encoding="utf-8", newline=""
    )
    got = load_samples(tmp_path / name, arm)
    assert all(np.array_equal(getattr(got, x), getattr(data, x)) for x in ("q", "v", "a", "tau"))


@pytest.mark.parametrize("mark", (";", "\t"))
def test_other_separators_are_reported(tmp_path: Path, arm: qd.Robot, data: Samples, mark: str) -> None:
    save_samples(tmp_path / "a.csv", arm, data)
    (tmp_path / "a.csv").write_text(
        (tmp_path / "a.csv").read_text(encoding="utf-8").replace(",", mark), encoding="utf-8"
    )
    raises(qd.ArgumentError, "separated by commas", load_samples, tmp_path / "a.csv", arm)


@pytest.mark.parametrize("by_index", (False, True))
def test_output_of_excite_with_added_torques_is_loaded(tmp_path: Path, arm: qd.Robot, by_index: bool) -> None:
    file = tmp_path / "motion.csv"
    done = runner.invoke(app, ["excite", "ur5", "--out", str(file), "--iterations", "2", "--rate", "20"])
    assert done.exit_code == 0
    first, *rest = file.read_text(encoding="utf-8").splitlines()
    tau = ",".join(f"tau {joint}" for joint in (range(arm.nu) if by_index else arm.actuated))
    file.write_text("\n".join([f"{first},{tau}", *(line + ",1,2,3,4,5,6" for line in rest)]), encoding="utf-8")
    found = load_samples(file, arm)
    assert len(found) == 200 and found.tau[0].tolist() == [1, 2, 3, 4, 5, 6]


# -- uninformative data ------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("method", "tau"),
    others_slow(
        [(method, tau) for method in ("least_squares", "weighted", "consistent") for tau in (None, 0.0)],
        [("least_squares", None), ("weighted", 0.0), ("consistent", None)],
    ),
)
def test_single_posture_reports_unidentifiable_parameters(arm: qd.Robot, method: str, tau: float | None) -> None:
    """Without motion, with correct or impossible torques, results are finite and unknown parameters are listed."""
    base = base_parameters(arm)
    found = identify(base, still(arm, 40, tau), method=method)  # type: ignore[arg-type]
    assert found.n_identifiable <= arm.nv
    assert np.isfinite(found.delta).all() and np.isfinite(found.beta).all() and not np.isnan(found.deviation).any()
    assert len(found.unidentifiable) > base.size - arm.nv - 6
    for friction in ("fv elbow_joint", "fc wrist_3_joint", "fv shoulder_pan_joint"):
        assert any(friction in name for name in found.unidentifiable)
    assert found.to_json()["hidden"] == list(found.unidentifiable)
    if tau is None:  # gravity torques are predicted
        q = np.full((1, 6), 0.3)
        assert np.abs(found.predict(q, 0 * q, 0 * q)[0] - qd.Dynamics(arm).gravity(q[0])).max() < 1e-3


def test_friction_of_a_joint_that_hardly_moves_is_taken_from_the_file(arm: qd.Robot) -> None:
    moved = moving(arm, 200)
    v, a = moved.v.copy(), moved.a.copy()
    v[:, 0], a[:, 0] = 1e-9 * v[:, 0], 1e-9 * a[:, 0]
    dynamics = qd.Dynamics(arm)
    tau = np.array([dynamics.rnea(*x) for x in zip(moved.q, v, a, strict=True)]) + 0.4 * v
    tau += 0.01 * np.random.default_rng(1).standard_normal(tau.shape)
    found = identify(arm, Samples(moved.q, v, a, tau), torque_noise=0.01)
    first, *others = (found.joint_losses[joint] for joint in arm.actuated)
    assert first[0] == 0.0 and "fv shoulder_pan_joint" in found.unidentifiable
    assert all(abs(row[0] - 0.4) < 0.02 for row in others)
    assert found.converged and not found.inconsistent_bodies
    assert found.n_identifiable == found.base.size - len(found.unidentifiable)


def test_sufficient_motion_identifies_all_parameters(arm: qd.Robot, data: Samples) -> None:
    assert identify(arm, data).unidentifiable == ()


@pytest.mark.slow
def test_identify_command_validates_only_on_held_out_samples(tmp_path: Path, arm: qd.Robot, data: Samples) -> None:
    """A single sample cannot be split: the fit is made with a warning."""
    save_samples(tmp_path / "one.csv", arm, data[:1])
    done = runner.invoke(app, ["identify", str(tmp_path / "one.csv"), "--robot", "ur5", "--json"])
    whole = json.loads(done.stdout)
    assert done.exit_code == 0 and "held_out" not in whole
    assert any("reserved for validation" in doubt for doubt in whole["doubts"]) and whole["hidden"]


@pytest.mark.parametrize("more", [-1, 0, 2])
def test_identify_command_lists_unidentifiable_parameters(
    tmp_path: Path, arm: qd.Robot, monkeypatch: pytest.MonkeyPatch, more: int
) -> None:
    hidden = len(identify(arm, still(arm, 50)).unidentifiable)
    monkeypatch.setattr(identifying, "MAX_LISTED_NAMES", hidden - more)
    save_samples(tmp_path / "still.npz", arm, still(arm, 50))
    done = runner.invoke(app, ["identify", str(tmp_path / "still.npz"), "--robot", "ur5"])
    said = " ".join(done.output.split())
    assert done.exit_code == 0 and "taken from the file" in said
    assert "more, see --json" not in said if more <= 0 else f"and {more} more, see --json" in said


def test_identify_command_counts_parameters_with_a_deviation_above_their_value(tmp_path: Path, arm: qd.Robot) -> None:
    save_samples(tmp_path / "still.npz", arm, still(arm, 50))
    words = ["identify", str(tmp_path / "still.npz"), "--robot", "ur5"]
    said = " ".join(runner.invoke(app, words).output.split())
    found = json.loads(runner.invoke(app, [*words, "--json"]).stdout)["base_parameters"]
    vague = [each for each in found if each["deviation"] is None or each["deviation"] > abs(each["value"])]
    assert 0 < len(vague) < len(found) and f"{len(vague)} of them with a standard deviation above their value" in said


# -- other units -------------------------------------------------------------------------------------------------
def test_data_in_degrees_raise_warnings(tmp_path: Path, arm: qd.Robot, data: Samples) -> None:
    degrees = 180.0 / np.pi
    save_samples(tmp_path / "deg.csv", arm, Samples(degrees * data.q, degrees * data.v, degrees * data.a, data.tau))
    done = runner.invoke(app, ["identify", str(tmp_path / "deg.csv"), "--robot", "ur5", "--json"])
    assert done.exit_code == 3
    doubts = json.loads(done.stdout)["doubts"]
    assert sum("degrees" in doubt for doubt in doubts) >= 5
    assert any("not explained" in doubt for doubt in doubts)


@pytest.mark.parametrize(
    ("order", "sign", "cause"),
    [
        (
            [0, 2, 1, 3, 4, 5],
            1.0,
            "of shoulder_lift_joint is that of elbow_joint, of elbow_joint is that of",
        ),
        ([0, 1, 2, 3, 4, 5], -1.0, "the torque of shoulder_lift_joint has the opposite sign"),
    ],
)
def test_unexplained_torques_exit_with_3_and_name_the_cause(
    tmp_path: Path, arm: qd.Robot, data: Samples, order: list[int], sign: float, cause: str
) -> None:
    tau = data.tau[:, order] * [1.0, sign, 1.0, 1.0, 1.0, 1.0]
    save_samples(tmp_path / "wrong.npz", arm, Samples(data.q, data.v, data.a, tau))
    words = ["identify", str(tmp_path / "wrong.npz"), "--robot", "ur5"]
    done = runner.invoke(app, words)
    assert done.exit_code == 3 and cause in " ".join(done.output.split())
    assert runner.invoke(app, [*words, "--held-out", "0"]).exit_code == 0, "nothing was validated"


def test_torques_of_another_scale_are_reported_and_exit_with_3(tmp_path: Path, arm: qd.Robot, data: Samples) -> None:
    base, elbow = base_parameters(arm), arm.actuated[2:3]
    for factors, joints, cause in (
        (np.ones(6), (), ""),
        (np.full(6, 1.0 / 6.0), arm.actuated, "gear ratio"),
        (np.where(np.arange(6) == 2, 1.0 / 9.0, 1.0), elbow, "gear ratio"),
        (np.full(6, 1e3), arm.actuated, "not in N m"),
    ):
        found = identify(base, Samples(data.q, data.v, data.a, data.tau * factors))
        assert tuple(found.scaled_torques) == joints
        np.testing.assert_allclose(list(found.scaled_torques.values()), factors[2], rtol=0.2)
        assert any("another scale" in x and cause in x for x in found.remarks) is bool(joints)
    save_samples(tmp_path / "motors.npz", arm, Samples(data.q, data.v, data.a, data.tau / 6.0))
    done = runner.invoke(app, ["identify", str(tmp_path / "motors.npz"), "--robot", "ur5", "--held-out", "0"])
    assert done.exit_code == 3 and "another scale" in " ".join(done.output.split())


def test_payload_and_rotors_are_not_taken_for_another_scale_of_the_torques(arm: qd.Robot) -> None:
    base, link = base_parameters(arm), arm.tree.joints_by_name[arm.actuated[-1]].child
    loaded = with_payload(arm, 0.3 * arm.mass, (0.0, 0.0, 0.1), link=link)
    for robot in (loaded, qd.load("ur5", armature=0.5)):
        assert not identify(base, moving(robot, 200)).scaled_torques
    assert not identify(loaded, moving(arm, 200)).scaled_torques


def test_shifted_positions_are_a_possible_cause(arm: qd.Robot, data: Samples) -> None:
    base = base_parameters(arm)
    shifted = Samples(data.q[1:], data.v[1:], data.a[1:], data.tau[:-1])
    assert likely_causes(base, shifted, arm.actuated[:2]) == (UNKNOWN_CAUSE,)
    still_data = still(arm, 5)
    assert likely_causes(base, still_data, arm.actuated[:2]) == (UNKNOWN_CAUSE,), "no correlation of constants"


def test_good_data_raise_no_warnings(tmp_path: Path, arm: qd.Robot) -> None:
    slow = moving(arm, 300, seed=1)
    q = np.clip(slow.q, arm.lower, arm.upper)
    dynamics = qd.Dynamics(arm)
    v, a = 0.5 * slow.v, 0.2 * slow.a
    tau = np.array([dynamics.rnea(*x) for x in zip(q, v, a, strict=True)])
    save_samples(tmp_path / "good.npz", arm, Samples(q, v, a, tau))
    done = runner.invoke(app, ["identify", str(tmp_path / "good.npz"), "--robot", "ur5", "--json"])
    assert done.exit_code == 0 and json.loads(done.stdout)["doubts"] == []


def test_motion_range_warns_of_speeds_and_torques(arm: qd.Robot) -> None:
    one, large = np.ones((1, 6)), 1e3 * np.array([[1.0, -1.0, 1.0, -1.0, 1.0, -1.0]])  # of either sign
    extent = MotionRange(arm)
    extent.add(Samples(0.0 * one, large, one, large))
    words = extent.warnings()
    assert sum(word.startswith("v of") for word in words) == 6
    assert sum(word.startswith("tau of") for word in words) == 6
    assert not any(word.startswith("q of") for word in words)
    assert MotionRange(arm).warnings() == ()
    for beyond in (arm.upper + 0.3 * (arm.upper - arm.lower), arm.lower - 0.3 * (arm.upper - arm.lower)):
        extent = MotionRange(arm)
        extent.add(Samples(beyond[None], np.zeros((1, 6)), np.zeros((1, 6)), np.zeros((1, 6))))
        assert sum(word.startswith("q of") for word in extent.warnings()) == 6


@pytest.mark.parametrize("options", (["--period", "1e9"], ["--rate", "1e12"], ["--rate", "inf"]))
def test_motions_with_too_many_samples_are_rejected(tmp_path: Path, options: list[str]) -> None:
    done = runner.invoke(app, ["excite", "ur5", "--out", str(tmp_path / "e.csv"), *options])
    assert done.exit_code == 2 and options[0] in done.output and not (tmp_path / "e.csv").exists()


# -- results of identification ----------------------------------------------------------------------------------------
def make_samples(robot: qd.Robot, count: int = 200) -> Samples:
    """Samples of a robot with friction and rotors, as a stand gives them."""
    rng, dyn = np.random.default_rng(0), qd.Dynamics(robot)
    q = np.array([robot.random_configuration(rng) for _ in range(count)])
    v, a = rng.normal(size=(2, count, robot.nv))
    tau = np.array([dyn.rnea(*x) + dyn.joint_friction(x[1]) for x in zip(q, v, a, strict=True)])
    return Samples(q, v, a, tau)


@pytest.fixture(scope="module")
def true_robot() -> qd.Robot:
    """The planar arm, heavier, with friction and rotors that its file does not have."""
    file = qd.load("planar_3r").source
    text = file if isinstance(file, str) else file.decode()
    text = re.sub('<mass value="([^"]+)"', lambda m: f'<mass value="{2.0 * float(m[1]):g}"', text)
    return qd.load(text, damping=0.3, friction=0.2, armature=0.01)


@pytest.fixture(scope="module")
def found(true_robot: qd.Robot) -> Identification:
    return identify(qd.load("planar_3r"), make_samples(true_robot), torque_noise=1e-3)


def test_identified_robot_moves_as_the_true_robot(true_robot: qd.Robot, found: Identification) -> None:
    robot = pickle.loads(pickle.dumps(found.identified_robot()))
    ours, truth = qd.Dynamics(robot), qd.Dynamics(true_robot)
    rng = np.random.default_rng(5)
    for _ in range(10):
        q, v, a = robot.random_configuration(rng), *rng.normal(size=(2, 3))
        wanted = truth.rnea(q, v, a) + truth.joint_friction(v)
        got = ours.rnea(q, v, a) + ours.joint_friction(v)
        np.testing.assert_allclose(got, wanted, atol=0.02 * np.abs(wanted).max())
        np.testing.assert_allclose(got, found.predict(q[None], v[None], a[None])[0], atol=1e-9)
    assert robot.actuated == true_robot.actuated and found.ok
    np.testing.assert_allclose(robot.damping, true_robot.damping, rtol=0.05)


def test_saved_urdf_is_the_identified_robot(found: Identification, tmp_path: Path) -> None:
    file = found.save_urdf(tmp_path / "found.urdf")
    robot, again = found.identified_robot(), qd.load(file)
    q, v, a = robot.random_configuration(1), np.ones(3), np.ones(3)
    np.testing.assert_allclose(qd.Dynamics(again).rnea(q, v, a), qd.Dynamics(robot).rnea(q, v, a), rtol=1e-9)
    for what in ("damping", "friction", "armature"):
        np.testing.assert_allclose(getattr(again, what), getattr(robot, what), rtol=1e-9)
    assert qd.cross_check(again, samples=2).passed and qd.cross_check(robot, samples=2).passed


def test_inertia_of_links_on_fixed_joints_is_added_to_their_body(tmp_path: Path) -> None:
    robot = qd.load("finger_edu", legs="leg")
    assert any(len(body.links) > 1 for body in robot.bodies)
    found = identify(robot, make_samples(robot, 80), torque_noise=1e-3)
    again = qd.load(found.save_urdf(tmp_path / "finger.urdf"), root="fixed", legs="leg")
    model = found.identified_robot()
    assert model.feet == robot.feet and model.legs["leg"].foot.radius == robot.legs["leg"].foot.radius
    q, v, a = robot.q_home, np.ones(robot.nv), np.ones(robot.nv)
    wanted = qd.Dynamics(model).rnea(q, v, a)
    np.testing.assert_allclose(qd.Dynamics(again).rnea(q, v, a), wanted, atol=1e-9)
    np.testing.assert_allclose(wanted, qd.Dynamics(robot).rnea(q, v, a), atol=0.02 * np.abs(wanted).max())


def test_kernels_accept_identified_parameters_at_run_time(found: Identification) -> None:
    fast = qd.compile(found.base.robot, "rnea", parameters="runtime", friction=True)
    q, v, a = np.array([0.1, 0.2, 0.3]), np.ones(3), np.ones(3)
    wanted = found.predict(q[None], v[None], a[None])[0]
    np.testing.assert_allclose(fast.rnea(q, v, a, fast.parameter_map @ found.delta), wanted, atol=1e-9)
    own = qd.compile(found.identified_robot(), "rnea", parameters="runtime", friction=True)
    np.testing.assert_allclose(own.rnea(q, v, a), wanted, atol=1e-9)


def test_overrides_of_load_are_in_the_identified_file(true_robot: qd.Robot) -> None:
    robot = qd.load("planar_3r", damping=0.3, friction=0.2, armature=0.01, limits={"joint2": {"velocity": 2.5}})
    found = identify(base_parameters(robot, inertial=True), make_samples(true_robot), torque_noise=1e-3)
    model = found.identified_robot()
    again = qd.load(model.source)
    np.testing.assert_array_equal(model.velocity_limits, robot.velocity_limits)
    for what in ("damping", "friction", "armature", "velocity_limits"):
        np.testing.assert_array_equal(getattr(again, what), getattr(robot, what))
    assert qd.cross_check(model, samples=2).passed


def test_identification_prints_on_one_screen(found: Identification) -> None:
    lines = str(found).splitlines()
    assert len(lines) <= 24 and max(map(len, lines)) <= 120
    assert "mass [kg]" in lines[3] and "Coulomb" in lines[3] and "residual" in lines[1] and "200 samples" in lines[0]
    assert lines[-1].startswith("* also depends on the robot's file")
    assert float(lines[-2].split()[-1].rstrip("*")) == pytest.approx(0.01, rel=0.02)  # rotor inertia
    wrong = dataclasses.replace(found, delta=-found.delta)
    first, second, third, *others = wrong.inconsistent_bodies
    says = f"not physical: {first}, {second}, {third} and {len(others)} more"
    assert others and str(wrong).splitlines()[0].endswith(says)


def test_non_physical_fit_gives_no_robot(true_robot: qd.Robot, tmp_path: Path) -> None:
    wrong = identify(qd.load("planar_3r"), make_samples(true_robot, 12), method="least_squares")
    assert wrong.inconsistent_bodies and not wrong.ok and "not physical" in str(wrong)
    with pytest.raises(qd.ModelError):
        wrong.save_urdf(tmp_path / "wrong.urdf")
    assert not (tmp_path / "wrong.urdf").exists()


def test_long_motion_at_a_high_rate_is_rejected(tmp_path: Path) -> None:
    options = ["--period", "3600", "--rate", "1e5"]
    done = runner.invoke(app, ["excite", "ur5", "--out", str(tmp_path / "e.csv"), *options])
    assert isinstance(done.exception, qd.ArgumentError) and "--period, --rate" in str(done.exception)
