"""Lanes of `LocomotionController.batch` equal single controllers bit for bit, also with invalid states of others."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from raising import raises
from slow_parameters import NIGHT, others_slow

import quaddyn as qd
from quaddyn.locomotion import FEET, LocomotionController, LocomotionMode

DT = 2e-3


class Walkers:
    """A batch and as many single controllers, each with a plant that gets the torques of the batch."""

    def __init__(self, robot: qd.Robot, n: int, *, threads: int, seed: int, **options: Any) -> None:
        self.robot, self.n, self.rng = robot, n, np.random.default_rng(seed)
        self.batch = LocomotionController(robot, dt=DT, **options).batch(n, threads=threads)
        self.alone = [LocomotionController(robot, dt=DT, **options) for _ in range(n)]
        self.plants, self.dynamics = [qd.Simulation(robot, dt=DT) for _ in range(n)], [qd.Dynamics(robot)] * n
        scale = self.alone[0].morphology.speed_scale
        self.velocity = scale * np.array([0.3, 0.1, 0.3]) * self.rng.uniform(-1.0, 1.0, (n, 3))
        for i, plant in enumerate(self.plants):  # some are in the air
            q = np.array(robot.q_home)
            q[2] += 0.1 * (i % 3) * self.alone[0].morphology.length
            plant.reset(q)

    def run(self, ticks: int, *, is_measured: bool = False, moves: bool = True, modes: set[str] | None = None) -> None:
        """Computes ticks of all, and compares them."""
        velocity = self.velocity if moves else np.zeros(3)
        for _ in range(ticks):
            q, v = np.array([p.q for p in self.plants]), np.array([p.v for p in self.plants])
            measured = [[p.contact_forces.get(f, np.zeros(3))[2] > 1.0 for f in FEET] for p in self.plants]
            command = self.batch.compute(q, v, velocity, measured_contacts=np.array(measured) if is_measured else None)
            for i, (controller, plant) in enumerate(zip(self.alone, self.plants, strict=True)):
                contacts = [f for f, touches in zip(FEET, measured[i], strict=True) if touches] if is_measured else None
                requested = velocity[i] if moves else velocity
                one = controller.compute(self.dynamics[i].update(q[i], v[i]), requested, measured_contacts=contacts)
                assert one.tau.tobytes() == command.tau[i].tobytes()
                assert (one.mode.value, one.limit_reason) == (command.mode[i], command.limit_reason[i])
                assert one.contacts == tuple(f for f, carries in zip(FEET, command.contacts[i], strict=True) if carries)
                assert one.mode is LocomotionMode.FALLEN or one.friction == command.friction[i]
                assert one.ok == command.ok[i]
                plant.step(command.tau[i])
            if modes is not None:
                modes |= set(command.mode.tolist())


@pytest.mark.parametrize("name", others_slow(("go2", "anymal_c", "hyq"), {"go2"}))
def test_lanes_equal_single_controllers(name: str) -> None:
    robot, modes = qd.load(name), set[str]()
    walkers = Walkers(robot, 5, threads=2, seed=1)
    walkers.run(150, moves=False, modes=modes)
    walkers.run(250, modes=modes)
    walkers.batch.set_gait("pace", np.arange(5) < 2)
    for controller in walkers.alone[:2]:
        controller.gait = "pace"
    walkers.batch.lie_down(np.arange(5) == 2)
    walkers.alone[2].lie_down()
    weight = walkers.alone[0].morphology.mass * walkers.alone[0].morphology.gravity
    walkers.plants[3].push(robot.bodies[0].name, np.array([0.0, 2.0 * weight, 0.0]), duration=0.2)
    walkers.run(1200 if NIGHT else 450, modes=modes)
    walkers.batch.stand_up(np.arange(5) == 2)
    walkers.alone[2].stand_up()
    walkers.batch.reset(np.arange(5) == 4)
    walkers.alone[4].reset()
    walkers.run(150, is_measured=True, modes=modes)
    assert modes >= {"airborne", "landing", "starting", "standing", "moving", "lowering", "fallen"}


def test_invalid_states_change_no_other_lane_and_keep_torques(go2: qd.Robot) -> None:
    controller, rng = LocomotionController(go2, dt=DT), np.random.default_rng(2)
    clean, broken = controller.batch(6, threads=1), controller.batch(6, threads=2)
    q, v = np.tile(go2.q_home, (6, 1)), 0.01 * rng.normal(size=(6, go2.nv))
    for _ in range(20):
        expected = clean.compute(q, v, (0.2, 0.0, 0.0))
        broken.compute(q, v, (0.2, 0.0, 0.0))
    bad_q, bad_v = q.copy(), v.copy()
    bad_q[1, 9], bad_q[3, 3:7], bad_v[4, 2] = np.nan, 2.0, np.inf
    command = broken.compute(bad_q, bad_v, np.tile([0.2, np.nan, 0.0], (6, 1)))
    assert command.outcome.tolist() == ["solved", "not_a_number", "solved", "invalid_state", "not_a_number", "solved"]
    assert command.ok.tolist() == [True, False, True, False, False, True]
    for i in (1, 3, 4):
        assert command.tau[i].tobytes() == expected.tau[i].tobytes()
    after = clean.compute(q, v)  # a velocity that is not finite is zero
    for i in (0, 2, 5):
        assert command.tau[i].tobytes() == after.tau[i].tobytes()
    np.testing.assert_array_equal(broken.compute(q, v).tau[[0, 2, 5]], clean.compute(q, v).tau[[0, 2, 5]])


def test_arguments_are_validated(go2: qd.Robot) -> None:
    controller = LocomotionController(go2, dt=DT)
    batch = controller.batch(2, threads=1)
    q, v = np.tile(go2.q_home, (2, 1)), np.zeros((2, go2.nv))
    for call, words in (
        (lambda: batch.compute(q[:1], v), r"q: expected shape \(2, 19\)"),
        (lambda: batch.compute(q, v, (0.1, 0.0)), "velocity: expected shape"),
        (
            lambda: batch.compute(q, v, measured_contacts=np.ones((2, 3), dtype=bool)),
            "measured_contacts: expected shape",
        ),
        (lambda: batch.reset(np.ones(3, dtype=bool)), "mask: expected shape"),
        (lambda: controller.batch(0), "n"),
        (lambda: LocomotionController(go2, dt=DT, payload="estimated").batch(2), "run in a batch: it estimates"),
    ):
        raises(qd.ArgumentError, words, call)
    with pytest.raises(qd.ArgumentTypeError, match="measured_contacts: expected bools"):
        batch.compute(q, v, measured_contacts=np.ones((2, 4)))  # type: ignore[arg-type]
    with pytest.raises(qd.UnknownNameError):
        batch.set_gait("sprint")
    command = batch.compute(q, v)
    assert not any(
        x.flags.writeable for x in (command.tau, command.contacts, command.mode_codes, command.clamped_velocity)
    )
    assert "2 starting" in repr(command) and "2 x " in repr(batch)
    assert batch.bytes_per_lane < 64 * 1024


def test_a_batch_rejects_concurrent_calls(go2: qd.Robot) -> None:
    batch, errors = LocomotionController(go2, dt=DT).batch(64, threads=1), list[str]()
    q, v = np.tile(go2.q_home, (64, 1)), np.zeros((64, go2.nv))

    def compute(results: NDArray[np.float64]) -> None:
        for k in range(40):
            try:
                results[k] = batch.compute(q, v).tau[0, 0]
            except qd.ConcurrencyError as error:
                errors.append(str(error))

    threads = [threading.Thread(target=compute, args=(np.zeros(40),)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors and "another call of this batch" in errors[0]
