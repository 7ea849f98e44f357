"""A controller that is called at another period than its own is reported by every caller."""

from __future__ import annotations

import functools
import pickle
import re
import warnings
from typing import Any

import numpy as np
import pinocchio as pin
import pytest
from raising import raises
from test_simulation import Stand

import quaddyn as qd
from quaddyn.compiler import Vec3, vec3
from quaddyn.locomotion import LocomotionController
from quaddyn.runtime import ControlLoop, MotorCommand, PlantInterface
from quaddyn.runtime.controller import Controller
from quaddyn.simulation import Simulation
from quaddyn.wbc import PostureTask
from quaddyn.wbc.tick_period import make_tick_displacements, measure_tick_period


@functools.cache
def go2() -> qd.Robot:
    return qd.load("go2")


@functools.cache
def walker(dt: float) -> LocomotionController:
    return LocomotionController(go2(), dt=dt)


def walk(dt: float, control_dt: float, seconds: float = 0.66) -> tuple[list[qd.Command], list[str]]:
    """Runs a walking Go2 in a custom loop; returns the commands and the warnings."""
    plant, dynamics, controller = Simulation(go2(), dt=dt), qd.Dynamics(go2()), walker(control_dt)
    controller.reset()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        out = []
        for _ in range(round(seconds / dt)):
            out.append(controller.compute(dynamics.update(plant.q, plant.v), (0.4, 0.0, 0.0)))
            plant.step(out[-1].tau)
    return out, [str(each.message) for each in caught]


#: Convention of the state, yaw of the base [rad] and expected warning.
CONVENTIONS = [
    *((kind, yaw, message) for kind, message in (("", ""), ("w first", r"q\[3:7\]")) for yaw in (0.0, 1.6, 3.0, -1.6)),
    *(("world", yaw, r"v\[:3\]") for yaw in (0.8, 1.6, 3.1, -1.6)),
]


@pytest.mark.parametrize("control_dt", [1e-3, 4e-3])
def test_custom_loop_at_another_period_is_detected(control_dt: float) -> None:
    commands, caught = walk(2e-3, control_dt)
    assert len(caught) == 1 and f"{control_dt:g} s" in caught[0]
    assert float(re.findall(r"period of (\S+) s", caught[0])[-1]) == pytest.approx(2e-3, rel=0.1)
    assert commands[0].ok and not commands[-1].ok
    assert commands[-1].timing == caught[0] and caught[0] in commands[-1].explain()


def test_custom_loop_at_the_correct_period_gives_no_warning() -> None:
    commands, caught = walk(2e-3, 2e-3)
    assert not caught and commands[-1].ok and commands[-1].timing == "" and commands[-1].dt == 2e-3


@pytest.mark.parametrize(("convention", "yaw", "message"), CONVENTIONS)
def test_custom_loop_with_another_convention_of_the_state_is_detected(
    convention: str, yaw: float, message: str
) -> None:
    """A base velocity in world axes and a quaternion with w first are named, whichever way the robot faces."""
    plant, dynamics, controller = Simulation(go2(), dt=2e-3), qd.Dynamics(go2()), walker(2e-3)
    controller.reset()
    q = go2().q_home.copy()
    q[3:7] = [0.0, 0.0, np.sin(0.5 * yaw), np.cos(0.5 * yaw)]
    plant.reset(q)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(350):
            q, v = np.array(plant.q), np.array(plant.v)
            if convention == "world":
                v[:3] = pin.Quaternion(*q[[6, 3, 4, 5]]).matrix() @ v[:3]
            elif convention == "w first":
                q[3:7] = q[[6, 3, 4, 5]]
            command = controller.compute(dynamics.update(q, v), (0.4, 0.0, 0.0))
            plant.step(command.tau)
    if not message:
        assert not caught and command.timing == ""
        return
    assert len(caught) == 1 and re.search(message, str(caught[0].message)) and caught[0].filename == __file__
    assert not command.ok and command.timing == str(caught[0].message)


ORDER = [3, 4, 5, 0, 1, 2, 9, 10, 11, 6, 7, 8]
#: Change of a velocity, and expected beginning and content of the warning.
VELOCITIES = [
    (lambda v: v, ""),
    (lambda v: np.r_[v[:6], np.degrees(v[6:])], r"v: the joints .* v\[6:\] were in deg/s"),
    (lambda v: np.r_[v[:6], 30.0 / np.pi * v[6:]], r"v: the joints .* revolutions per minute"),
    (lambda v: np.r_[v[:6], -v[6:]], r"v: the joints .* v\[6:\] had the opposite sign"),
    (lambda v: np.r_[v[:6], 3.0 * v[6:]], r"v: the joints .* 0\.3\d times"),
    (lambda v: np.r_[v[:7], -v[7], v[8:]], r"v: q\[8\] changes .* v\[7\] had the opposite sign"),
    (lambda v: np.r_[v[:6], v[6:][ORDER]], r"v: joints .* another order"),
    (lambda v: 0.0 * v, r"v: the joints .* v\[6:\] were not zero"),
    (lambda v: np.r_[v[3:6], v[:3], v[6:]], r"v: the base turns .* as if v\[:3\] were its angular velocity"),
    (lambda v: np.r_[v[:3], np.degrees(v[3:6]), v[6:]], r"v: the base turns .* v\[3:6\] were in deg/s"),
    (lambda v: np.r_[v[:3], -v[3:6], v[6:]], r"v: the base turns .* v\[3:6\] had the opposite sign"),
    (lambda v: np.r_[1e3 * v[:3], v[3:]], r"v: the base moves .* 0\.00\d+ times .* m/s"),
]


@pytest.mark.parametrize(("change", "message"), VELOCITIES)
def test_velocity_that_contradicts_the_change_of_the_configuration_is_named(change: Any, message: str) -> None:
    """The controller gets another velocity than that of the robot, which another controller moves."""
    plant, dynamics, controller = Simulation(go2(), dt=2e-3), qd.Dynamics(go2()), walker(2e-3)
    controller.reset()
    other, wbc = qd.Dynamics(go2()), qd.WholeBodyController(go2(), dt=2e-3)
    found: dict[str, None] = {}
    for _ in range(800):
        command = controller.compute(dynamics.update(plant.q, plant.v), (0.4, 0.0, 0.3))
        state = other.update(plant.q, change(np.array(plant.v)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found[wbc.compute(state, command.contacts).timing] = None
        plant.step(command.tau)
    texts = [text for text in found if text]
    assert len(texts) == bool(message) and command.timing == ""
    assert not texts or re.match(message, texts[0]), texts


@pytest.mark.parametrize("case", [3, 6])
def test_locomotion_controller_names_the_joint_velocities_with_which_a_robot_falls(case: int) -> None:
    plant, dynamics, controller = Simulation(go2(), dt=2e-3), qd.Dynamics(go2()), walker(2e-3)
    controller.reset()
    change, message = VELOCITIES[case]
    with pytest.warns(RuntimeWarning, match=message):
        for _ in range(500):
            plant.step(controller.compute(dynamics.update(plant.q, change(np.array(plant.v))), (0.3, 0.0, 0.0)).tau)


def test_plant_rejects_a_controller_of_another_period() -> None:
    plant, dynamics, controller = Simulation(go2(), dt=2e-3), qd.Dynamics(go2()), walker(1e-3)
    controller.reset()
    with pytest.raises(qd.ArgumentError, match=r"0\.001 s.*0\.002 s.*dt=0\.002"):
        plant.run(lambda p: controller.compute(dynamics.update(p.q, p.v)), 0.01)
    assert plant.time == 0.0
    whole = qd.WholeBodyController(go2(), dt=1e-3)
    raises(qd.ArgumentError, r"control_dt=0\.001", plant.run, lambda p: whole.compute(dynamics.update(p.q, p.v)), 0.01)
    finer = Simulation(go2(), dt=5e-4)
    assert len(finer.run(lambda p: whole.compute(dynamics.update(p.q, p.v)), 0.004, control_dt=1e-3).time) == 4
    stand = Stand(go2())
    stand.dt = 1e-3
    raises(qd.ArgumentError, "controller", plant.run, stand, 0.01)


class ZeroTorqueController(Controller):
    """Controller without torque."""

    def __init__(self, robot: qd.Robot, dt: float) -> None:
        self.robot, self.dt = robot, dt

    def compute(self, measurement: object, stage: object, velocity: object = None) -> MotorCommand:
        return MotorCommand.zero(self.robot.nu)


def test_control_loop_rejects_a_period_that_is_not_a_multiple_of_the_clock_step() -> None:
    side = PlantInterface(Simulation(go2(), dt=2e-3))
    for dt in (1e-3, 3e-3):
        with pytest.raises(qd.ArgumentError, match=r"controller: .*0\.002 s"):
            ControlLoop(side, ZeroTorqueController(go2(), dt), clock=side)
    ControlLoop(side, ZeroTorqueController(go2(), 4e-3), clock=side)


def run_wbc(
    robot: qd.Robot, dt: float, control_dt: float, convention: str = "", yaw: float = 0.0
) -> tuple[list[qd.Command], list[str]]:
    """Moves a robot by whole-body control in a custom loop; returns the commands and the warnings."""
    plant, dynamics = Simulation(robot, dt=dt), qd.Dynamics(robot)
    if robot.root == "free":
        q = robot.q_home.copy()
        q[3:7] = [0.0, 0.0, np.sin(0.5 * yaw), np.cos(0.5 * yaw)]
        plant.reset(q)
        wbc = qd.WholeBodyController(robot, dt=control_dt)
    else:
        wbc = qd.WholeBodyController(robot, dt=control_dt, tasks=[[PostureTask(robot, stiffness=100.0)]])
    out, com = [], dynamics.center_of_mass(plant.q)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for k in range(round(0.7 / dt)):
            q, v = np.array(plant.q), np.array(plant.v)
            if convention == "world":
                v[:3] = pin.Quaternion(*q[[6, 3, 4, 5]]).matrix() @ v[:3]
            elif convention == "w first":
                q[3:7] = q[[6, 3, 4, 5]]
            shift = np.sin(10.0 * dt * k)
            if robot.root == "free":
                wbc.tasks["com"].reference(com + shift * np.array([0.03, 0.02, -0.02]))
            else:
                wbc.tasks["posture"].reference(robot.q_home + 0.3 * shift)
            out.append(wbc.compute(dynamics.update(q, v)))
            plant.step(out[-1].tau)
    return out, [str(each.message) for each in caught]


@pytest.mark.parametrize("name", ["go2", "ur5"])
@pytest.mark.parametrize("control_dt", [1e-3, 2e-3, 4e-3])
def test_whole_body_controller_called_at_another_period_is_detected(name: str, control_dt: float) -> None:
    commands, caught = run_wbc(qd.load(name), 2e-3, control_dt)
    if control_dt == 2e-3:
        assert not caught and commands[-1].ok and commands[-1].timing == ""
        return
    assert len(caught) == 1 and f"{control_dt:g} s" in caught[0]
    assert float(re.findall(r"period of (\S+) s", caught[0])[-1]) == pytest.approx(2e-3, rel=0.1)
    assert commands[0].ok and not commands[-1].ok
    assert commands[-1].timing == caught[0] and commands[-1].explain().endswith(caught[0])
    assert pickle.loads(pickle.dumps(commands[-1])).timing == caught[0]


@pytest.mark.parametrize(("convention", "yaw", "message"), CONVENTIONS)
def test_whole_body_controller_detects_another_convention_of_the_state(
    convention: str, yaw: float, message: str
) -> None:
    commands, caught = run_wbc(go2(), 2e-3, 2e-3, convention, yaw)
    assert len(caught) == bool(message) and re.search(message, commands[-1].timing)


def make_motion(x: float, u: float) -> tuple[Vec3, Vec3, np.ndarray, np.ndarray]:
    return (
        vec3(x, 0.0, 0.3),
        vec3(u, 0.0, 0.0),
        np.array([x, 0.0, 0.3, 0.0, 0.0, 0.0, 1.0, *go2().q_home[7:]]),
        np.array([u, *np.zeros(go2().nv - 1)]),
    )


def test_inconsistent_motion_gives_no_period_estimate() -> None:
    """A robot at rest, the same state again and again, a state from elsewhere, and noise."""
    rng = np.random.default_rng(0)
    for states in (
        [(0.0, 0.0)] * 1000,
        [(0.0, 0.5)] * 1000,
        [(0.5 * 1e-3 * k + (1.0 if k > 300 else 0.0), 0.5) for k in range(1000)],
        [(x, 0.5) for x in rng.normal(0.0, 0.01, 1000)],
    ):
        sums = make_tick_displacements(go2(), 1e-3)
        assert [measure_tick_period(sums, *make_motion(*state)) for state in states] == [0.0] * 1000
    sums = make_tick_displacements(go2(), 1e-3)
    found = [p for k in range(1000) if (p := measure_tick_period(sums, *make_motion(0.5 * 1.5e-3 * k, 0.5)))]
    np.testing.assert_allclose(found, 1.5e-3)
    assert found


def test_vibrations_give_no_period_estimate() -> None:
    """Contacts of a robot that stands or has fallen vibrate faster than ticks, whose velocities do not show it."""
    sums, rate = make_tick_displacements(go2(), 2e-3), 2.0 * np.pi / 8.0
    for k in range(1000):
        x, u = 1e-4 * np.sin(rate * k), 1e-4 * rate / 2e-3 * np.cos(rate * k)
        assert measure_tick_period(sums, *make_motion(x, u / 1.5)) == 0.0
