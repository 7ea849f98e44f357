"""Lanes of `WholeBodyController.batch` equal single controllers bit for bit: states, contacts, references, resets."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from loop_robots import ankle
from raising import raises
from wbc_elements import IN_PYTHON, check_that_every_kind_is_there, controller_of_every_kind

import quaddyn as qd
from quaddyn.compiler import interpret
from quaddyn.contact import Contact
from quaddyn.errors import ArgumentError, ArgumentTypeError, ConcurrencyError, UnknownNameError
from quaddyn.wbc import (
    ControllerBatch,
    CustomTask,
    FrameAxisTask,
    PostureTask,
    TorqueLimits,
    TorqueRate,
    WholeBodyController,
    default_constraints,
)


@cache
def load(name: str) -> qd.Robot:
    return qd.load(name)


def short_ramps(robot: qd.Robot) -> WholeBodyController:
    return WholeBodyController(robot, ramp_time=0.02)


def weak_motors(robot: qd.Robot) -> WholeBodyController:
    """A controller with limits that cannot always be satisfied."""
    constraints = [*default_constraints(robot, 1e-3), TorqueRate(robot, 1000.0)]
    limits = next(e for e in constraints if isinstance(e, TorqueLimits))
    limits.limits = 0.35 * limits.limits
    return WholeBodyController(robot, constraints=constraints, ramp_time=0.02)


class Twins:
    """A batch, and as many single controllers."""

    def __init__(
        self, robot: qd.Robot, n: int, make: Callable[[qd.Robot], WholeBodyController], *, threads: int, seed: int
    ) -> None:
        self.robot, self.n, self.rng = robot, n, np.random.default_rng(seed)
        self.batch = make(robot).batch(n, threads=threads)
        self.alone, self.dynamics = [make(robot) for _ in range(n)], [qd.Dynamics(robot) for _ in range(n)]
        self.q, self.v = np.tile(robot.q_home, (n, 1)), np.zeros((n, robot.nv))
        self.contacts = np.ones((n, len(self.batch.contacts)), dtype=bool)
        self.tau = np.zeros((n, robot.nu))
        self.outcomes: dict[str, int] = {}

    def change_contacts(self) -> None:
        changed = self.rng.random(self.n) < 0.03
        self.contacts[changed] = self.rng.random((int(changed.sum()), self.contacts.shape[1])) < 0.8

    def reset(self, mask: Any) -> None:
        self.batch.reset(mask)
        for i in np.flatnonzero(mask):
            self.alone[i].reset()
            self.q[i], self.v[i], self.tau[i] = self.robot.q_home, 0.0, 0.0

    def tick(self, bad: Any = ()) -> None:
        """Computes one tick of all, compares, and moves the robots by the accelerations; states of `bad` are broken."""
        q, v, broken = self.q.copy(), self.v.copy(), (np.nan, np.inf, -np.inf, 1e200)
        for i in bad:
            x = (q, v)[self.rng.integers(2)][i]
            x[self.rng.integers(len(x))] = broken[self.rng.integers(4)]
        command = self.batch.compute(q, v, self.contacts)
        assert np.isfinite(command.tau).all() and np.isfinite(command.accelerations).all()
        for i, (controller, dynamics) in enumerate(zip(self.alone, self.dynamics, strict=True)):
            self.outcomes[command.outcome[i]] = self.outcomes.get(command.outcome[i], 0) + 1
            if i in bad:
                with pytest.raises(ArgumentError):
                    dynamics.update(q[i], v[i])
                assert command.outcome[i] in ("not_a_number", "invalid_state")
                assert not command.ok[i] and command.violation[i] == command.kkt[i] == np.inf
                assert command.tau[i].tobytes() == self.tau[i].tobytes()
                continue
            names = [name for name, on in zip(self.batch.contacts, self.contacts[i], strict=True) if on]
            single = controller.compute(dynamics.update(q[i], v[i]), names)
            self.compare(i, command, single)
            self.tau[i] = single.tau
            noise = np.clip(single.acceleration, -50.0, 50.0) + self.rng.normal(0.0, 3.0, self.robot.nv)
            self.v[i] = 0.995 * self.v[i] + 1e-3 * noise
            self.q[i] = self.robot.algorithms.integrate(self.robot.model, q[i], 1e-3 * self.v[i])

    def compare(self, i: int, command: Any, single: qd.wbc.Command) -> None:
        assert command.outcome[i] == single.status.outcome and command.ok[i] == single.status.ok
        assert command.tau[i].tobytes() == single.tau.tobytes()
        assert command.accelerations[i].tobytes() == single.acceleration.tobytes()
        assert (command.violation[i], command.kkt[i]) == (single.status.violation, single.status.kkt)
        for name, row in zip(self.batch.contacts, command.forces[i], strict=True):
            expected = single.forces.get(name, np.zeros(0))
            assert row[: len(expected)].tobytes() == expected.tobytes() and not row[len(expected) :].any()
        assert self.batch.contact_activations[i].tolist() == list(self.alone[i].contact_activations.values())

    def run(self, ticks: int) -> None:
        for _ in range(ticks):
            self.change_contacts()
            if self.rng.random() < 0.05:
                self.reset(self.rng.random(self.n) < 0.3)
            self.tick(np.flatnonzero(self.rng.random(self.n) < 0.02))


@pytest.mark.parametrize(("name", "threads"), [("go2", 1), ("solo12", 2), ("panda", 2)])
def test_lanes_equal_single_controllers(name: str, threads: int) -> None:
    """Contact changes, resets of some lanes and invalid states of some lanes."""
    twins = Twins(load(name), 6, short_ramps, threads=threads, seed=1)
    twins.run(250)
    assert twins.outcomes["solved"] > 1000
    assert min(twins.outcomes["not_a_number"], twins.outcomes["invalid_state"]) > 3


@pytest.mark.parametrize("make", [weak_motors, controller_of_every_kind])
def test_lanes_of_hard_problems_equal_single_controllers(make: Callable[[qd.Robot], WholeBodyController]) -> None:
    twins = Twins(load("go2"), 4, make, threads=2, seed=2)
    twins.v[:] = twins.rng.normal(0.0, 2.0, twins.v.shape)
    twins.run(60 if make is controller_of_every_kind else 120)
    assert twins.outcomes["infeasible"] > 10, twins.outcomes
    assert make is controller_of_every_kind or twins.outcomes["solved"] > 10
    if make is controller_of_every_kind:
        check_that_every_kind_is_there(twins.alone[0].tasks.values(), *IN_PYTHON)


def test_references_of_each_lane_equal_those_of_single_controllers() -> None:
    robot, n = load("go2"), 3
    twins = Twins(robot, n, controller_of_every_kind, threads=1, seed=4)
    rng, state = twins.rng, qd.Dynamics(robot).update(robot.q_home, np.zeros(robot.nv))
    for step in range(30):
        if step % 10 == 3:
            mask = rng.random(n) < 0.7
            for name, references in twins.batch.references.items():
                task = twins.alone[0].tasks[name]
                if isinstance(task, qd.wbc.ForceTask):
                    forces = {c: rng.normal(0.0, 10.0, (n, x.shape[1])) for c, x in references.force.items()}
                    references.set(forces, mask=mask)
                    for i in np.flatnonzero(mask):
                        twins.alone[i].tasks[name].reference({c: x[i] for c, x in forces.items()})
                    continue
                assert isinstance(task, qd.wbc.Task)
                velocity = rng.normal(0.0, 0.1, (n, len(task.labels)))
                position = None
                if task.size:
                    position = np.tile(task.position(state), (n, 1))
                    if len(task.labels) == 3 and task.size == 3 and not isinstance(task, FrameAxisTask):
                        position += rng.normal(0.0, 0.02, position.shape)
                references.set(position, velocity, mask=mask)
                for i in np.flatnonzero(mask):
                    twins.alone[i].tasks[name].reference(None if position is None else position[i], velocity[i])
        twins.tick()
    for name, references in twins.batch.references.items():
        for i, controller in enumerate(twins.alone):
            task = controller.tasks[name]
            if isinstance(task, qd.wbc.Task):
                assert references.has_position[i] == task.has_reference
                assert (references.velocity[i] == task.reference_velocity).all()
                assert (references.acceleration[i] == task.reference_acceleration).all()
                if task.reference_position is not None:
                    assert (references.position[i] == task.reference_position).all()


def test_references_are_read_and_assigned_as_arrays() -> None:
    robot = load("go2")
    controller = WholeBodyController(robot)
    controller.tasks["com"].reference([0.0, 0.0, 0.3], velocity=[0.1, 0.0, 0.0])
    batch = controller.batch(3, threads=1)
    com = batch.references["com"]
    assert com.position.tolist() == [[0.0, 0.0, 0.3]] * 3 and com.velocity[2].tolist() == [0.1, 0.0, 0.0]
    assert com.has_position.all() and not batch.references["base"].has_position.any()
    com.position = [[0.0, 0.0, 0.2], [0.0, 0.0, 0.25], [0.0, 0.0, 0.3]]
    com.acceleration = np.array([0.0, 0.0, 1.0])
    assert com.position[:, 2].tolist() == [0.2, 0.25, 0.3] and com.velocity[0, 0] == 0.1
    com.velocity = np.zeros((3, 3))
    assert not com.velocity.any() and com.acceleration[:, 2].tolist() == [1.0] * 3
    command = batch.compute(np.tile(robot.q_home, (3, 1)), np.zeros((3, robot.nv)))
    assert command.forces[:, :, 2].sum(axis=1).argsort().tolist() == [0, 1, 2]
    batch.reset(np.array([True, False, False]))
    assert com.has_position.tolist() == [False, True, True]


def test_directions_are_normalized() -> None:
    robot = load("go2")
    axis = FrameAxisTask(robot, robot.bodies[0].name, "axis")
    batch = WholeBodyController(robot, tasks=[[axis], [PostureTask(robot)]]).batch(2)
    batch.references["axis"].position = [[0.0, 0.0, 2.0], [3.0, 0.0, 4.0]]
    np.testing.assert_allclose(batch.references["axis"].position, [[0.0, 0.0, 1.0], [0.6, 0.0, 0.8]], atol=1e-15)
    with pytest.raises(ArgumentError, match=r"axis: position: .*lane 1"):
        batch.references["axis"].position = [[0.0, 0.0, 2.0], [0.0, 0.0, 0.0]]
    assert batch.references["axis"].position[0].tolist() == [0.0, 0.0, 1.0]


def test_references_that_captured_positions_are_copied_and_later_changes_are_not() -> None:
    robot = load("solo12")
    controller = WholeBodyController(robot)
    state = qd.Dynamics(robot).update(robot.q_home, np.zeros(robot.nv))
    controller.compute(state)
    batch = controller.batch(2)
    controller.tasks["com"].reference([0.0, 0.0, 0.1])
    controller.friction = 0.1
    np.testing.assert_allclose(batch.references["com"].position, np.tile(state.com, (2, 1)), rtol=0.0, atol=1e-12)
    assert batch.friction.min() == 0.6


def test_friction_of_each_lane_equals_that_of_single_controllers() -> None:
    robot, n = load("go2"), 4
    twins = Twins(robot, n, WholeBodyController, threads=1, seed=5)
    friction = np.array([0.6, 0.1, 0.0, 0.3])
    twins.batch.set_parameters(friction=friction)
    for controller, mu in zip(twins.alone, friction, strict=True):
        controller.friction = mu
    for step in range(60):
        twins.v[:] = twins.rng.normal(0.0, 0.3, twins.v.shape)
        if step == 30:
            twins.batch.set_parameters(np.array([True, True, False, False]), friction=0.6)
            for i in (0, 1):
                twins.alone[i].friction = 0.6
        command = twins.batch.compute(twins.q, twins.v)
        for i, (controller, dynamics) in enumerate(zip(twins.alone, twins.dynamics, strict=True)):
            single = controller.compute(dynamics.update(twins.q[i], twins.v[i]))
            np.testing.assert_allclose(command.tau[i], single.tau, rtol=0.0, atol=1e-9)
            if twins.batch.friction[i, 0] == 0.6:
                twins.compare(i, command, single)
    rows = np.tile(friction[:, np.newaxis], (1, 4))
    twins.batch.set_parameters(friction=rows)
    assert (twins.batch.friction == rows).all()


def test_gains_of_each_lane_equal_those_of_single_controllers() -> None:
    robot, n = load("go2"), 4
    twins = Twins(robot, n, WholeBodyController, threads=2, seed=6)
    rng, com, posture = np.random.default_rng(0), twins.batch.gains["com"], twins.batch.gains["posture"]
    stiffness, weight = rng.uniform(5.0, 200.0, (n, 3)), rng.uniform(0.1, 2.0, (n, robot.nu))
    mask, damping = np.array([False, True, True, False]), np.linspace(2.0, 9.0, 3)
    com.set(stiffness=stiffness)
    com.set(damping=damping, mask=mask)
    posture.set(weight=weight, damping=3.0)
    for i, controller in enumerate(twins.alone):
        controller.tasks["com"].stiffness = stiffness[i]
        if mask[i]:
            controller.tasks["com"].damping = damping
        controller.tasks["posture"].weight, controller.tasks["posture"].damping = weight[i], 3.0
        assert com.stiffness[i].tobytes() == controller.tasks["com"].stiffness.tobytes()
        assert com.damping[i].tobytes() == controller.tasks["com"].damping.tobytes()
    assert posture.weight.tobytes() == weight.tobytes() and (posture.damping == 3.0).all()
    twins.run(30)
    assert list(twins.batch.gains) == [
        name for name, task in twins.alone[0].tasks.items() if hasattr(task, "stiffness")
    ]


def test_gains_are_validated_before_any_is_set() -> None:
    batch = WholeBodyController(load("go2")).batch(3)
    com, before = batch.gains["com"], batch.gains["com"].stiffness.copy()
    stiffness = np.full((3, 3), 50.0)
    stiffness[1, 2] = np.nan
    for options, error, text in (
        ({"stiffness": stiffness}, ArgumentError, "com.stiffness: .*in lane 1"),
        ({"stiffness": 1.0, "damping": -1.0}, ArgumentError, "com.damping: .*not negative"),
        ({"weight": np.ones((3, 4))}, ArgumentError, r"com.weight: expected shape \(3, 3\)"),
        ({"weight": "heavy"}, ArgumentTypeError, "com.weight: expected numbers"),
        ({"stiffness": 1.0, "mask": [1, 0, 1]}, ArgumentTypeError, "mask: expected bools"),
    ):
        raises(error, text, com.set, **options)
        assert (com.stiffness == before).all()
    com.set(stiffness=stiffness, mask=np.array([True, False, True]))  # the row that is not valid is not used
    assert (com.stiffness[[0, 2]] == 50.0).all() and (com.stiffness[1] == before[1]).all()
    with pytest.raises(UnknownNameError, match="motion task"):
        batch.gains["forces"]


def test_contacts_are_names_or_bools() -> None:
    robot = load("go2")
    q, v = np.tile(robot.q_home, (2, 1)), np.zeros((2, robot.nv))
    make = WholeBodyController(robot)
    by_names, by_bools, by_default = (make.batch(2, threads=1) for _ in range(3))
    first = by_names.compute(q, v, ("FL", "RR"))
    second = by_bools.compute(q, v, np.array([[True, False, False, True], [True, True, True, True]]))
    assert first.tau[0].tobytes() == second.tau[0].tobytes()
    assert by_default.compute(q, v).tau[1].tobytes() == second.tau[1].tobytes()
    assert first.forces.shape == (2, 4, 3) and not first.forces[:, 1:3].any()
    raises(UnknownNameError, "FX", by_names.compute, q, v, ["FX"])
    raises(ArgumentTypeError, r"contacts: .* got dtype int64", by_names.compute, q, v, np.ones((2, 4), dtype=np.int64))
    raises(ArgumentError, r"contacts: .* got shape \(4,\)", by_names.compute, q, v, np.ones(4, dtype=bool))


def test_surface_contacts_have_six_force_components() -> None:
    robot = load("go2")
    belly = Contact(name="belly", frame=robot.bodies[0].name, kind="surface", half_size=(0.1, 0.05))
    batch = WholeBodyController(robot, contacts=[belly]).batch(2)
    command = batch.compute(np.tile(robot.q_home, (2, 1)), np.zeros((2, robot.nv)))
    assert command.forces.shape == (2, 5, 6)
    with pytest.raises(ArgumentError, match=r"friction: belly has no friction pyramid"):
        batch.set_parameters(friction=np.full((2, 5), 0.2))
    batch.set_parameters(friction=0.2)
    assert batch.friction[0].tolist() == [0.2] * 4 + [belly.friction]


def make_batch(n: int = 3) -> ControllerBatch:
    return WholeBodyController(load("go2")).batch(n, threads=1)


def test_wrong_arguments_are_rejected_by_name() -> None:
    batch, robot = make_batch(), load("go2")
    q, v = np.tile(robot.q_home, (3, 1)), np.zeros((3, robot.nv))
    wrong: list[tuple[type[Exception], str, Callable[[], object]]] = [
        (ArgumentError, r"q: expected shape \(3, 19\), got shape \(19,\)", lambda: batch.compute(q[0], v)),
        (ArgumentError, r"v: expected shape \(3, 18\)", lambda: batch.compute(q, v[:2])),
        (ArgumentTypeError, "q: .* dtype complex", lambda: batch.compute(q * 1j, v)),
        (ArgumentTypeError, "v: .* dtype bool", lambda: batch.compute(q, v == 0.0)),
        (ArgumentTypeError, "v: ", lambda: batch.compute(q, [[0.0], [0.0, 1.0]])),
        (ArgumentTypeError, "mask: expected bools", lambda: batch.reset([0, 1, 0])),
        (ArgumentError, r"mask: expected shape \(3,\)", lambda: batch.reset(np.ones(2, dtype=bool))),
        (ArgumentError, "friction: expected numbers from 0 to 10", lambda: batch.set_parameters(friction=-0.1)),
        (ArgumentError, "friction: .*nan", lambda: batch.set_parameters(friction=np.full(3, np.nan))),
        (ArgumentError, "friction: expected shape", lambda: batch.set_parameters(friction=np.ones(2))),
        (ArgumentTypeError, "friction: ", lambda: batch.set_parameters(friction="high")),
        (UnknownNameError, "cmo", lambda: batch.references["cmo"]),
        (ArgumentError, r"com.position: expected shape \(3, 3\)", lambda: batch.references["com"].set(np.ones(2))),
        (
            ArgumentError, "com: velocity: expected finite numbers.*lane 1",
            lambda: batch.references["com"].set(velocity=[[0.0] * 3, [np.nan] * 3, [0.0] * 3]),
        ),
        (ArgumentError, "base: position: .*lane 0", lambda: batch.references["base"].set(np.ones(9))),
        (UnknownNameError, "FX", lambda: batch.references["forces"].set({"FX": np.zeros(3)})),
        (ArgumentTypeError, "force: expected a mapping", lambda: batch.references["forces"].set(np.zeros(3))),
        (ArgumentError, "finite", lambda: batch.references["forces"].set({"FL": np.full(3, np.inf)})),
        (ArgumentError, "n: ", lambda: WholeBodyController(robot).batch(0)),
        (ArgumentError, "threads: ", lambda: WholeBodyController(robot).batch(1, threads=0)),
        (ArgumentError, "device: .*'gpu'", lambda: WholeBodyController(robot).batch(1, device="gpu")),
    ]  # fmt: skip
    before = batch.references["com"].velocity.copy(), batch.friction.copy()
    for error, message, call in wrong:
        raises(error, message, call)
    assert (batch.references["com"].velocity == before[0]).all() and (batch.friction == before[1]).all()
    assert batch.compute(q.tolist(), v.astype(int)).ok.all()


def test_custom_elements_and_spatial_loops_have_no_batch() -> None:
    robot = load("go2")

    class EqualFootHeights(CustomTask):
        def error(self, s: qd.State) -> Any:
            return s.placement("FR").translation[2:] - s.placement("FL").translation[2:]

        def jacobian(self, s: qd.State) -> Any:
            return s.jacobian("FL")[2:3] - s.jacobian("FR")[2:3]

    mine = EqualFootHeights(robot, "mine", 1, stiffness=1.0)
    with pytest.raises(ArgumentError, match="'mine' are not supported"):
        WholeBodyController(robot, tasks=[[mine], [PostureTask(robot)]]).batch(2)
    with pytest.raises(ArgumentError, match="the closed loops of 'ankle' have no closed-form solution"):
        WholeBodyController(qd.load(ankle())).batch(2)


def test_memory_is_small_and_reported() -> None:
    batch = make_batch(100)
    assert batch.bytes_per_lane < 8_000 and batch.bytes_per_thread < 2_000_000
    assert repr(batch).startswith("<ControllerBatch of 100 x go2") and "kB a lane" in repr(batch)


def test_concurrent_calls_are_rejected() -> None:
    batch, robot = make_batch(400), load("go2")
    q, v = np.tile(robot.q_home, (400, 1)), np.zeros((400, robot.nv))
    batch.warmup()
    batch.compute(q, v)
    errors = list[Exception]()

    def compute() -> None:
        try:
            for _ in range(5):
                batch.compute(q, v)
        except ConcurrencyError as error:
            errors.append(error)

    threads = [threading.Thread(target=compute) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors and "use one batch per thread" in str(errors[0])


def test_ticks_run_as_plain_python() -> None:
    robot = load("panda")
    q, v = robot.q_home[np.newaxis], np.zeros((1, robot.nv))
    expected = WholeBodyController(robot).batch(1).compute(q, v)
    with interpret():
        command = WholeBodyController(robot).batch(1).compute(q, v)
    np.testing.assert_allclose(command.tau, expected.tau, rtol=0.0, atol=1e-9)
