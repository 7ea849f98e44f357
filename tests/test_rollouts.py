"""`rollout` equals `Simulation.step` bit for bit, for any number of threads."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from raising import raises

import quaddyn as qd
from quaddyn.errors import ArgumentError, ArgumentTypeError
from quaddyn.simulation import Actuators, Box, Plane, Simulation, rollout

STEPS = 60


@pytest.fixture(scope="module")
def solo() -> qd.Robot:
    return qd.load("solo12")


def random_initial_states(robot: qd.Robot, count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Initial states from which robots land within some steps."""
    rng = np.random.default_rng(seed)
    q, v = np.tile(robot.q_home, (count, 1)), rng.normal(0.0, 1.0, (count, robot.nv))
    q[:, 2] += rng.uniform(0.0, 0.02, count)
    return q, v


def step_individually(sim: Simulation, torques: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """States of individual steps, and the number of inaccurate steps."""
    states, poor = [], 0
    for tau in torques:
        sim.step(tau)
        states.append((sim.q, sim.v))
        poor += not sim.ok
    return np.array([q for q, _ in states]), np.array([v for _, v in states]), poor


PLANTS: dict[str, Callable[[qd.Robot], Simulation]] = {
    "frictional": Simulation,
    "compliant": lambda robot: Simulation(robot, contact="compliant"),
    "rigid": lambda robot: Simulation(robot, contact="rigid", dt=2e-3),
    "rk4": lambda robot: Simulation(robot, integrator="rk4"),
    "rough": lambda robot: Simulation(
        robot, terrain=[Plane.floor(0.0), Box(np.array([0.2, 0.1, 0.0]), np.array([0.2, 0.2, 0.04]))]
    ),
    "weak": lambda robot: Simulation(
        robot, actuators=Actuators(robot, effort=1.0, no_load_speed=10.0, corner_speed=4.0, rotor_inertia=1e-3)
    ),
}


@pytest.mark.parametrize("kind", PLANTS)
def test_rollout_equals_individual_steps(kind: str, solo: qd.Robot) -> None:
    torques = np.random.default_rng(1).normal(0.0, 0.5, (3, STEPS, 12))
    q, v = random_initial_states(solo, 3)
    plants, alone = [PLANTS[kind](solo) for _ in range(3)], PLANTS[kind](solo)
    for threads in (1, 3):
        found = rollout(plants, torques, q=q, v=v, threads=threads)
        for i, sim in enumerate(plants):
            alone.reset(q[i], v[i])
            expected_q, expected_v, poor = step_individually(alone, torques[i])
            assert found.q[i].tobytes() == expected_q.tobytes() and found.v[i].tobytes() == expected_v.tobytes()
            assert found.n_steps[i] == STEPS and found.n_inaccurate_steps[i] == poor
            assert sim.q.tobytes() == alone.q.tobytes() and sim.time == alone.time
            assert sim.tau.tobytes() == alone.tau.tobytes() and sim.work == alone.work and sim.status == alone.status
            sim.step(torques[i, 0])  # continues from its state
            alone.step(torques[i, 0])
            assert sim.v.tobytes() == alone.v.tobytes()


def test_rollouts_reuse_a_smaller_number_of_plants(solo: qd.Robot) -> None:
    torques, (q, v) = np.zeros((STEPS, 12)), random_initial_states(solo, 7, seed=2)
    few = rollout([Simulation(solo) for _ in range(2)], torques, q=q, v=v, threads=2)
    one = rollout(Simulation(solo), torques, q=q, v=v)
    assert few.q.shape == (7, STEPS, solo.nq) and few.v.shape == (7, STEPS, solo.nv)
    assert few.q.tobytes() == one.q.tobytes() and few.v.tobytes() == one.v.tobytes()
    assert len({each.tobytes() for each in few.q}) == 7
    assert not few.q.flags.writeable and not few.v.flags.writeable and not few.n_steps.flags.writeable


def test_plants_with_different_parameters_keep_their_pushes(solo: qd.Robot) -> None:
    def made() -> list[Simulation]:
        out = [Simulation(solo, friction=mu) for mu in (0.2, 0.9)] + [Simulation(solo, terrain=Plane.floor(-0.1))]
        for i, sim in enumerate(out):
            sim.push(solo.frame_names[-1], np.array([5.0 * i, 3.0, 1.0]), duration=0.01)
            sim.push("base_link", np.array([1.0, 2.0, 3.0, 0.1, 0.2, 0.3]), duration=0.025)
        return out

    torques = np.random.default_rng(3).normal(0.0, 0.5, (STEPS, 12))
    plants = made()
    found = rollout(plants, torques, threads=2)
    for i, alone in enumerate(made()):
        expected_q, expected_v, _ = step_individually(alone, torques)
        assert found.q[i].tobytes() == expected_q.tobytes() and found.v[i].tobytes() == expected_v.tobytes()
        assert plants[i].work == alone.work


def test_divergence_ends_only_its_own_rollout(solo: qd.Robot) -> None:
    torques = np.zeros((2, STEPS, 12))
    torques[0, 20:] = 1e12
    free = Actuators(solo, effort=np.inf)
    plants = [Simulation(solo, actuators=free) for _ in range(2)]
    found = rollout(plants, torques, threads=2)
    last = found.n_steps[0]
    assert 20 <= last < STEPS and found.n_steps[1] == STEPS
    assert np.isfinite(found.q).all() and np.isfinite(found.v).all()
    assert (found.q[0, last:] == found.q[0, last - 1]).all() and plants[0].q.tobytes() == found.q[0, -1].tobytes()
    with pytest.raises(qd.errors.DivergenceError):
        plants[0].step(torques[0, last])
    plants[0].reset()
    plants[0].step(np.zeros(12))


def test_mismatched_arguments_are_named(solo: qd.Robot) -> None:
    sim, other, tau = Simulation(solo), Simulation(qd.load("two_link_leg")), np.zeros((5, 12))
    q = solo.q_home
    for call, words in (
        (lambda: rollout([], tau), "at least one"),
        (lambda: rollout([sim, sim], tau), "twice"),
        (lambda: rollout([sim, other], tau), "of the same sizes"),
        (lambda: rollout(sim, np.zeros((5, 11))), "torques"),
        (lambda: rollout(sim, np.zeros((2, 5, 12))), "torques: 2 rollouts, but 1 plant without .* pass q= "),
        (lambda: rollout(sim, np.zeros(12)), "torques"),
        (lambda: rollout(sim, np.full((5, 12), np.nan)), "finite"),
        (lambda: rollout(sim, tau, q=q[:-1]), "q"),
        (lambda: rollout(sim, tau, q=2.0 * q), "q"),
        (lambda: rollout(sim, tau, q=[q, q], v=np.zeros((3, 18))), "v"),
        (lambda: rollout(sim, tau, v=np.zeros(18)), "together with the initial configurations"),
        (lambda: rollout(sim, tau, threads=0), "threads"),
    ):
        raises(ArgumentError, words, call)
    raises(ArgumentTypeError, "Simulation objects", rollout, [sim, "plant"], tau)
    none = rollout(sim, np.zeros((0, 12)))
    assert none.q.shape == (1, 0, solo.nq) and sim.time == 0.0
