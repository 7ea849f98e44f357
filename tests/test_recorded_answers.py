"""Recorded numbers of the safety layer, the walking program, whole-body control and identification; see `recorded`."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from recorded import SMALL, note
from safety_in_c import DT, LIMITS, RandomSequences
from test_identification_logs import data, leg  # noqa: F401  # fixtures
from wbc_elements import ELEMENTS, ROBOTS, contacts_for, state

import quaddyn as qd
from quaddyn.identification import base_parameters, exciting_trajectory, fit_actuators, identify
from quaddyn.identification.base_parameters import random_states
from quaddyn.identification.samples import Samples
from quaddyn.runtime import ControlLoop, HangingRobot, Operator, RealTimeOptions, Safety, WalkingController, preflight
from quaddyn.runtime.simulated_interface import PlantInterface
from quaddyn.simulation import Encoders, FootSensors, Imu, Sensors, Simulation
from quaddyn.wbc import ContactMotion, JointAccelerationTask, WholeBodyController


def numbers(x: Any) -> Any:
    """Fields of dataclasses and records of them, for `note`."""
    if dataclasses.is_dataclass(x) and not isinstance(x, type):
        names = [each.name for each in dataclasses.fields(x) if not each.name.startswith("_")]
        return {name: numbers(getattr(x, name)) for name in names}
    if isinstance(x, dict):
        return {key: numbers(value) for key, value in x.items()}
    return [numbers(each) for each in x] if isinstance(x, list | tuple) else x


# -- runtime ---------------------------------------------------------------------------------------------------------
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", ["go2", "ur5"])
def test_commands_of_the_safety_layer(name: str, seed: int) -> None:
    """Random readings, clocks and commands with faults."""
    robot = qd.load(name)
    sequences, safety = RandomSequences(robot, np.random.default_rng([5, seed])), Safety(robot, dt=DT, limits=LIMITS)
    for _ in range(15):
        safety.reset()
        for m, command, now, raised in sequences.sequence(120):
            if raised or command is None:
                continue
            report = safety.filter_command(m, command, now=now)
            note("commands", numbers(report.command))
            note("sensors", report.valid_foot_sensors)
            if report.fault is not None:
                note("faults", (report.fault.name, report.fault.joint))
                break
        note("clamped", safety.clamp_counts)


def test_a_walk_on_sensor_readings() -> None:
    """Stands up, walks, turns and lies down with noisy sensors."""
    robot = qd.load("go2")
    plant = Simulation(robot, dt=DT)
    sensors = Sensors(
        robot,
        np.random.default_rng(6),
        encoders=Encoders(position_noise=3e-4, velocity_noise=0.05, torque_noise=0.2, resolution=1e-4),
        imu=Imu(gyro_noise=0.01, accelerometer_noise=0.1, initial_gyro_bias=0.01, gyro_bias_walk=1e-3),
        feet=FootSensors(noise=1.0),
        delay=2.0 * DT,
    )
    side, operator, rows = PlantInterface(plant, sensors=sensors), Operator(), []
    walker = WalkingController(robot, dt=2.0 * DT, delay=2.0 * DT)
    loop = ControlLoop(side, walker, operator=operator, clock=side, real_time=RealTimeOptions(disable_gc=False))
    write = side.write
    side.write = lambda command: (rows.append(numbers(command)), write(command))[1]  # type: ignore[method-assign]
    operator.walk((0.3, 0.1, 0.2))
    stages = [loop.run(3.0).stage.value]
    operator.damp()
    stages.append(loop.run(2.0).stage.value)
    note("stages", stages)
    for k in range(0, len(rows) - 50, 50):
        for key in rows[0]:
            mean = np.mean([row[key] for row in rows[k : k + 50]], axis=0)
            note(key, mean / (1.0 + np.abs(mean)) * SMALL, 5e-3)


def test_measurements_of_preflight_checks() -> None:
    robot = qd.load("go2")
    report = preflight(HangingRobot(robot, dt=4e-3))
    note("report", [(check.name, check.passed) for check in report.checks])
    note("text", str(report))


# -- whole-body control ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", ELEMENTS)
def test_commands_with_every_kind_of_element(kind: str) -> None:
    for name in ("go2", "solo8"):
        robot = ROBOTS[name]()
        dynamics, rng = qd.Dynamics(robot), np.random.default_rng([7, len(kind)])
        element = ELEMENTS[kind](robot)
        motion = [] if isinstance(element, ContactMotion) else [ContactMotion(robot)]
        wbc = WholeBodyController(
            robot,
            constraints=motion,
            tasks=[element, [], JointAccelerationTask(robot, "rest")],
            contacts=contacts_for(kind, robot, rng),
            ramp_time=0.004,
        )
        names = tuple(wbc.contacts)
        for k in range(8):
            s = dynamics.update(*state(robot, rng))
            command = wbc.compute(s, [each for i, each in enumerate(names) if (k // 3 + i) % 3])
            note(
                "rows",
                [
                    (g.A, g.lower, g.upper, g.offset, g.weights)
                    for level in command.details.problem.levels
                    for g in level
                ],
            )
            note("ok", command.ok)


# -- identification --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("method", ["least_squares", "weighted", "consistent"])
def test_identified_parameters(method: str) -> None:
    robot, rng = qd.load("ur5"), np.random.default_rng(8)
    q, v, a = random_states(robot, 200, rng)
    dynamics = qd.Dynamics(robot)
    tau = np.array([dynamics.rnea(*x) for x in zip(q, v, a, strict=True)])
    tau += 0.3 * np.sign(v) + 0.1 * v + rng.normal(0.2, 0.05, tau.shape)
    noise = 0.05 if method != "least_squares" else None
    found = identify(robot, Samples(q, v, a, tau), method=method, torque_noise=noise)  # type: ignore[arg-type]
    for name in ("beta", "covariance", "delta", "noise", "offset", "mean_residual", "drift", "n_identifiable"):
        note(name, getattr(found, name), 1e-3)
    note("error", numbers(found.validate(Samples(q[:50], v[:50], a[:50], tau[:50]))), 1e-3)


def test_base_parameters_and_exciting_motion() -> None:
    robot = qd.load("two_link_leg", root="fixed")
    base = base_parameters(robot)
    note("base", [str(x) for x in base.names])
    trajectory = exciting_trajectory(base)
    note("trajectory", [trajectory.sample(t) for t in (0.0, 0.7, 2.1)], 1e-4)


def test_fitted_actuators(leg: qd.Robot, data: dict[str, np.ndarray]) -> None:  # noqa: F811
    note("fit", numbers(fit_actuators(leg, dt=2e-3, **data)), 1e-3)
