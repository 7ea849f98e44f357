"""Lanes of `Simulation.batch` equal a `Simulation` bit for bit, with different resets and parameters in each lane."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from raising import raises

import quaddyn as qd
from quaddyn.compiler import interpret
from quaddyn.errors import ArgumentError, ArgumentTypeError, ConcurrencyError
from quaddyn.robot.home import JointPositions
from quaddyn.robot.inertial_update import with_payload
from quaddyn.runtime import MotorCommand
from quaddyn.simulation import Actuators, Box, HeightField, Plane, Simulation, SimulationBatch
from quaddyn.simulation.sensors import read_motor_state


@cache
def load(name: str) -> qd.Robot:
    return qd.load(name)


def rough_terrain() -> list[Any]:
    heights = 0.02 * np.random.default_rng(0).uniform(size=(20, 20))
    return [
        Plane.floor(-0.01), Box(np.array([0.2, 0.1, 0.0]), np.array([0.2, 0.2, 0.04])),
        HeightField(np.full(2, -1.0), np.full(2, 0.1), heights),
        Box(np.array([-0.2, 0.1, 0.0]), np.full(3, 0.1), friction=0.3),
    ]  # fmt: skip


PLANTS: dict[str, Callable[[qd.Robot], Simulation]] = {
    "default": Simulation,
    "compliant": lambda robot: Simulation(robot, contact="compliant", spheres={}),
    "rigid": lambda robot: Simulation(robot, contact="rigid", dt=2e-3, spheres={}),
    "rk4": lambda robot: Simulation(robot, integrator="rk4", spheres={}),
    "rough": lambda robot: Simulation(robot, terrain=rough_terrain(), spheres={}),
    "delayed": lambda robot: Simulation(
        robot,
        spheres={},
        actuators=Actuators(robot, delay=2.3e-3, backlash=0.01, rotor_inertia=1e-2, no_load_speed=20.0, viscous=0.1),
    ),
}


def random_states(robot: qd.Robot, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    q, v = np.tile(robot.q_home, (n, 1)), rng.normal(0.0, 0.5, (n, robot.nv))
    q[:, 2] += rng.uniform(-0.005, 0.02, n)
    return q, v


def assert_lane_equals(batch: SimulationBatch, i: int, sim: Simulation) -> None:
    assert batch.q[i].tobytes() == sim.q.tobytes() and batch.v[i].tobytes() == sim.v.tobytes()
    assert batch.tau[i].tobytes() == sim.tau.tobytes() and batch.time[i] == sim.time
    assert batch.status[i] == sim.status and batch.residual[i] == sim.residual
    expected = sim.contact_forces
    assert (batch.contact_forces[i] == np.array([expected[name] for name in batch.spheres])).all()
    on_bodies = sim.body_forces
    for link, force in zip(batch.links, batch.body_forces[i], strict=True):
        assert (force == on_bodies.get(link, np.zeros(3))).all()


@pytest.mark.parametrize("kind", PLANTS)
def test_lanes_of_all_kinds_of_plants_equal_single_ones(kind: str) -> None:
    robot, n, rng = load("solo12"), 5, np.random.default_rng(7)
    sim, alone = PLANTS[kind](robot), [PLANTS[kind](robot) for _ in range(5)]
    batch = sim.batch(n, threads=2)
    q, v = random_states(robot, n, rng)
    batch.reset(q=q, v=v)
    for i, each in enumerate(alone):
        each.reset(q[i], v[i])
    for _ in range(30):
        torques = rng.normal(0.0, 1.0, (n, robot.nu))
        batch.step(torques, steps=2)
        for i, each in enumerate(alone):
            each.step(torques[i])
            each.step(torques[i])
            assert_lane_equals(batch, i, each)
    assert sim.time == 0.0


def test_parameters_in_grams_millimeters_and_percent_give_warnings() -> None:
    batch = Simulation(load("solo12")).batch(2)
    for name, value, text in (
        ("payload", 500.0, "payload: 500 kg .* in grams"), ("motor_strength", 90.0, "motor_strength: 90 .* percentage"),
    ):  # fmt: skip
        with pytest.warns(RuntimeWarning, match=text):
            batch.set_parameters(**{name: value})
    with pytest.warns(RuntimeWarning, match="payload_position: 100 m .* pass meters"):
        batch.set_parameters(payload=0.1, payload_position=(100.0, 0.0, 0.0))
    batch.set_parameters(payload=0.5, motor_strength=1.2)  # no warning


def test_parameters_equal_those_of_single_simulations() -> None:
    robot, n, rng = load("go2"), 6, np.random.default_rng(3)
    friction, strength = rng.uniform(0.1, 1.0, n), rng.uniform(0.02, 1.5, n)
    batch = Simulation(robot, spheres={}, terrain=rough_terrain()).batch(n, threads=2)
    batch.set_parameters(friction=friction, motor_strength=strength)
    alone = [
        Simulation(
            robot, spheres={}, terrain=rough_terrain(), friction=friction[i],
            actuators=Actuators(robot, effort=strength[i] * robot.effort_limits),
        )
        for i in range(n)
    ]  # fmt: skip
    assert (batch.friction == friction).all() and (batch.motor_strength == strength).all()
    for _ in range(60):
        torques = rng.normal(0.0, 10.0, (n, robot.nu))
        batch.step(torques)
        for i, sim in enumerate(alone):
            sim.step(torques[i])
            assert_lane_equals(batch, i, sim)


def test_payload_equals_a_robot_with_payload() -> None:
    robot, masses, position = load("go2"), np.array([0.0, 3.0, -0.3]), (0.05, -0.02, 0.1)
    batch = Simulation(robot, spheres={}).batch(3)
    batch.set_parameters(payload=masses, payload_position=position)
    alone = [Simulation(with_payload(robot, mass, position), spheres={}) for mass in masses]
    rng = np.random.default_rng(0)
    for _ in range(30):
        torques = rng.normal(0.0, 5.0, (3, robot.nu))
        batch.step(torques)
        for tau, sim in zip(torques, alone, strict=True):
            sim.step(tau)
    for i, sim in enumerate(alone):
        np.testing.assert_allclose(batch.v[i], sim.v, rtol=0.0, atol=1e-8)
    assert batch.q[0].tobytes() == alone[0].q.tobytes()
    assert np.abs(batch.v[1] - batch.v[0]).max() > 1e-2
    assert batch.payload.tolist() == masses.tolist()
    batch.set_parameters(payload=0.0)
    batch.reset()
    batch.step()
    assert batch.v[1].tobytes() == batch.v[0].tobytes()


def test_pd_targets_are_those_of_motor_commands() -> None:
    robot, n, rng = load("go2"), 4, np.random.default_rng(5)
    motors = Actuators(robot, backlash=0.01, rotor_inertia=1e-2)
    batch = Simulation(robot, spheres={}, actuators=motors).batch(n, threads=1)
    alone = [Simulation(robot, spheres={}, actuators=motors) for _ in range(n)]
    position = robot.q_home[7:] + rng.normal(0.0, 0.1, (n, robot.nu))
    velocity, tau = rng.normal(0.0, 0.1, robot.nu), rng.normal(0.0, 1.0, (n, robot.nu))
    stiffness, damping = rng.uniform(20.0, 40.0, (n, robot.nu)), 1.0
    joints = JointPositions.actuated(robot)
    for _ in range(25):
        batch.step(tau, position=position, velocity=velocity, stiffness=stiffness, damping=damping, steps=4)
        for i, sim in enumerate(alone):
            command = MotorCommand.from_targets(
                position[i], velocity, stiffness[i], np.full(robot.nu, damping), tau=tau[i]
            )
            for _ in range(4):
                sim.step(command.compute_torque(*read_motor_state(sim, joints), joints.turning))
    for i, sim in enumerate(alone):
        np.testing.assert_allclose(batch.q[i], sim.q, rtol=0.0, atol=1e-8)
        np.testing.assert_allclose(batch.tau[i], sim.tau, rtol=0.0, atol=1e-5)
    assert (batch.tau != 0.0).all()


def test_pd_targets_of_continuous_joints_take_the_shorter_way() -> None:
    text = """<robot name="wheel"><link name="base"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0"
        ixz="0" iyz="0"/></inertial></link><link name="rim"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1"
        ixy="0" ixz="0" iyz="0"/></inertial></link><joint name="axle" type="continuous"><parent link="base"/><child
        link="rim"/><axis xyz="0 1 0"/><limit effort="100" velocity="100"/></joint></robot>"""
    wheel = qd.load(text, root="fixed")
    joints = JointPositions.actuated(wheel)
    assert joints.turning.all()
    angles = np.array([3.0, -3.0, 0.5])
    batch = Simulation(wheel).batch(3)
    batch.reset(q=np.column_stack([np.cos(angles), np.sin(angles)]))
    targets = np.array([[-3.0], [3.0], [0.6]])
    batch.step(position=targets, stiffness=10.0, damping=0.0)
    for i in range(3):
        command = MotorCommand.from_targets(targets[i], [0.0], [10.0], [0.0])
        expected = command.compute_torque(angles[i : i + 1], np.zeros(1), joints.turning)
        np.testing.assert_allclose(batch.tau[i], expected, rtol=0.0, atol=1e-12)
    assert batch.tau[0, 0] == pytest.approx(10.0 * (2.0 * np.pi - 6.0))


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["step", "reset", "parameters"]),
        st.lists(st.booleans(), min_size=4, max_size=4),
        st.integers(0, 5),
    ),
    min_size=1,
    max_size=8,
)


@settings(max_examples=25, deadline=None)
@given(actions=ACTIONS, threads=st.integers(1, 3))
def test_any_order_of_steps_resets_and_parameters(actions: list[tuple[str, list[bool], int]], threads: int) -> None:
    robot, n = load("go2"), 4
    sim = Simulation(robot, spheres={}, friction=0.3)
    sim.friction = 0.2
    batch = sim.batch(n, threads=threads)
    alone = [Simulation(robot, spheres={}, friction=0.2) for _ in range(n)]
    for kind, chosen, seed in actions:
        rng, mask = np.random.default_rng(seed), np.array(chosen)
        if kind == "step":
            torques = rng.normal(0.0, 10.0, (n, robot.nu))
            batch.step(torques, steps=1 + seed)
            for i, sim in enumerate(alone):
                for _ in range(1 + seed):
                    sim.step(torques[i])
        elif kind == "reset":
            q, v = random_states(robot, n, rng)
            q[~mask] = np.nan  # rows outside of the mask are not used
            batch.reset(mask, q=q, v=v)
            for i in np.flatnonzero(mask):
                alone[i].reset(q[i], v[i])
        else:
            friction = rng.uniform(0.0, 1.0, n)
            batch.set_parameters(mask, friction=friction)
            for i in np.flatnonzero(mask):
                alone[i].friction = friction[i]
        for i, sim in enumerate(alone):
            assert_lane_equals(batch, i, sim)


def test_a_lane_that_diverges_stops_alone() -> None:
    robot, n = load("solo12"), 70  # more than one block
    free = Actuators(robot, effort=np.inf)
    batch = Simulation(robot, actuators=free, spheres={}).batch(n, threads=2)
    torques = np.zeros((n, robot.nu))
    torques[3] = 1e12
    batch.step(torques, steps=3)
    assert batch.has_diverged.tolist() == [i == 3 for i in range(n)]
    assert np.isfinite(batch.q).all() and np.isfinite(batch.v).all()
    assert batch.time[3] < batch.time[0] == 3e-3 and not batch.contact_forces[3].any()
    sim = Simulation(robot, spheres={})
    for _ in range(3):
        sim.step(torques[0])
    assert (batch.q[[0, 2, 4, 69]] == sim.q).all()
    stopped = batch.q[3].copy()
    batch.step()
    assert (batch.q[3] == stopped).all()
    batch.reset(batch.has_diverged)
    batch.step()
    sim.reset()
    sim.step(np.zeros(robot.nu))
    assert (batch.q[3] == sim.q).all() and not batch.has_diverged.any()


def test_memory_of_a_lane_follows_the_contacts_that_occur() -> None:
    batch = Simulation(load("go2")).batch(64, threads=1)
    batch.step(steps=20)
    feet_only = batch.bytes_per_lane
    print(f"go2: {feet_only / 1024:.2f} kB a lane, {batch.bytes_per_thread / 1024:.0f} kB a thread")
    assert feet_only < 2048 and batch.bytes_per_thread < 28 * 1024
    assert "kB a lane" in repr(batch)
    many = Simulation(load("anymal_c")).batch(2, threads=1)
    before = many.bytes_per_lane
    many.step(steps=900)  # falls onto its trunk
    assert many.body_forces.any() and before < many.bytes_per_lane < 16384


def test_wrong_arguments_are_named() -> None:
    robot = load("go2")
    sim = Simulation(robot, spheres={})
    batch = sim.batch(3)
    before = batch.q.copy()
    tau = np.zeros((3, 12))
    tau[1, 4] = np.nan
    flat, held = np.zeros(12), np.zeros((3, 12))
    for call, words in (
        (lambda: sim.batch(0), "n: expected"),
        (lambda: sim.batch(2, device="gpu"), "device: expected 'cpu', 'cuda' or 'cuda:N', got 'gpu'"),
        (lambda: sim.batch(2, max_contacts=0), "max_contacts"),
        (lambda: sim.batch(2, threads=0), "threads"),
        (lambda: batch.step(tau), r"tau: expected finite numbers, got others in lanes \[1\]"),
        (lambda: batch.step(np.zeros((2, 12))), "tau"),
        (lambda: batch.step(np.zeros(11)), "tau"),
        (lambda: batch.step(steps=0), "steps"),
        (lambda: batch.step(position=flat, stiffness=1.0), "damping: required"),
        (lambda: batch.step(position=flat, damping=1.0), "stiffness: required"),
        (lambda: batch.step(stiffness=1.0), "position: required with stiffness"),
        (lambda: batch.step(position=held, stiffness=-1.0, damping=0.0), "stiffness: expected gains"),
        (lambda: batch.step(position=np.full(12, np.inf), stiffness=1.0, damping=0.0), "position"),
        (lambda: batch.reset(np.array([True, False])), "mask: expected shape"),
        (lambda: batch.reset(q=2.0 * robot.q_home), "q"),
        (lambda: batch.reset(q=np.zeros((2, 19))), "q"),
        (lambda: batch.reset(v=np.full(18, np.nan)), "v"),
        (lambda: batch.set_parameters(friction=-0.1), "friction: expected numbers from 0"),
        (lambda: batch.set_parameters(motor_strength=[1.0, -1.0, 1.0]), "motor_strength"),
        (lambda: batch.set_parameters(payload=-100.0), "payload"),
        (lambda: batch.set_parameters(payload=-5.0, payload_position=(1.0, 0.0, 0.0)), "impossible inertia"),
        (lambda: batch.set_parameters(payload=[1.0, 2.0]), "payload"),
        (lambda: Simulation(qd.load("two_link_leg", root="fixed")).batch(1).set_parameters(payload=1.0), "fixed"),
    ):
        raises(ArgumentError, words, call)
    raises(ArgumentTypeError, "mask: expected bools", batch.reset, np.array([0, 1, 2]))
    assert (batch.q == before).all()
    with pytest.raises(ValueError, match="read-only"):
        batch.q[0, 0] = 1.0
    with batch._exclusive_call.acquire("step"), pytest.raises(ConcurrencyError):
        batch.step()


def test_lanes_in_python_equal_lanes_in_machine_code() -> None:
    robot, runs = load("go2"), []
    for how in (nullcontext, interpret):
        batch = Simulation(robot, spheres={}).batch(2, threads=1)
        batch.set_parameters(friction=[0.2, 0.9], payload=[0.0, 2.0])
        position = np.stack([robot.q_home[7:], robot.q_home[7:] + 0.1])
        with how():
            batch.step(position=position, stiffness=30.0, damping=1.0, steps=3)
            batch.reset(np.array([True, False]))
            batch.step(0.9 * robot.q_home[7:])
        runs.append((batch.q.copy(), batch.v.copy(), batch.contact_forces.copy(), batch.time))
    for machine, python in zip(*runs, strict=True):
        np.testing.assert_allclose(machine, python, rtol=1e-9, atol=1e-9)
    assert runs[0][3].tolist() == [1e-3, 4e-3]
