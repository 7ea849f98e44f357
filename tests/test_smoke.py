"""One test of every subpackage, in under a minute: ``pytest -m smoke``."""

from __future__ import annotations

import pkgutil
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import quaddyn
import quaddyn as qd

pytestmark = pytest.mark.smoke


@pytest.fixture(scope="module")
def robot() -> qd.Robot:
    return qd.load("go2")


@pytest.fixture
def state(robot: qd.Robot) -> qd.State:
    return qd.Dynamics(robot).update(robot.q_home, np.zeros(robot.nv))


def test_every_subpackage_has_a_smoke_test() -> None:
    subpackages = {info.name for info in pkgutil.iter_modules(quaddyn.__path__) if info.ispkg}
    assert {
        name.removeprefix("test_subpackage_") for name in globals() if name.startswith("test_subpackage_")
    } == subpackages


def test_subpackage_envs(robot: qd.Robot) -> None:
    from quaddyn.envs import VelocityTask

    task = VelocityTask(3, robot, threads=1)
    observations, rewards, has_fallen, _ = task.step(np.zeros((3, robot.nu)))
    assert observations.shape == (3, 48) and (rewards > 0.0).all() and not has_fallen.any()


def test_subpackage_urdf() -> None:
    from quaddyn.urdf import parse

    assert [link.name for link in parse(b'<robot name="r"><link name="base"/></robot>').links] == ["base"]


def test_subpackage_robot(robot: qd.Robot) -> None:
    assert robot.feet == ("FL", "FR", "RL", "RR") and robot.nu == 12
    with pytest.raises(qd.ModelError):
        qd.load('<robot name="r"><link name="base"/><link name="base"/></robot>')


def test_subpackage_dynamics(robot: qd.Robot) -> None:
    dyn, rng = qd.Dynamics(robot), np.random.default_rng(0)
    v, a = rng.standard_normal((2, robot.nv))
    tau = dyn.rnea(robot.q_home, v, a)
    assert np.allclose(dyn.aba(robot.q_home, v, tau), a)


def test_subpackage_kernels(robot: qd.Robot) -> None:
    zero = np.zeros((2, robot.nv))
    tau = qd.compile(robot, ("rnea",)).rnea(np.tile(robot.q_home, (2, 1)), zero, zero)
    assert np.allclose(tau, qd.Dynamics(robot).gravity(robot.q_home))


def test_subpackage_torch(robot: qd.Robot, monkeypatch: pytest.MonkeyPatch) -> None:
    from quaddyn.torch import TorchDynamics

    monkeypatch.setitem(sys.modules, "torch", None)  # as if it were not installed
    with pytest.raises(qd.QuaddynError, match=r"PyTorch is not installed; .* 'quaddyn\[torch\]'"):
        TorchDynamics(robot)


def test_subpackage_jax(robot: qd.Robot, monkeypatch: pytest.MonkeyPatch) -> None:
    from quaddyn.jax import JaxDynamics

    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(qd.QuaddynError, match=r"JAX is not installed; .* 'quaddyn\[jax\]'"):
        JaxDynamics(robot)


def test_subpackage_compiler() -> None:
    from quaddyn.compiler import interpret
    from quaddyn.contact.solvers import ContactProblem, FrictionalSolver

    problem = ContactProblem(np.eye(3), np.array([0.0, 0.0, -1.0]), 0.6)
    with interpret():
        slow = FrictionalSolver().solve(problem).impulses
    assert np.allclose(slow, FrictionalSolver().solve(problem).impulses)


def test_subpackage_hierarchy() -> None:
    from quaddyn.hierarchy import Level, solve

    found = solve([Level(C=np.array([[1.0, 0.0]]), upper=np.array([1.0])), Level(A=np.eye(2), b=np.array([2.0, 3.0]))])
    assert np.allclose(found.x, [1.0, 3.0])


def test_subpackage_kinematics(robot: qd.Robot) -> None:
    from quaddyn.kinematics import LegKinematics

    leg = LegKinematics(robot, "FL")
    q = np.array([0.1, 0.8, -1.6])
    assert np.allclose(leg.inverse(leg.forward(q), knee="backward", hip="below").q, q)


def test_subpackage_contact(robot: qd.Robot, state: qd.State) -> None:
    from quaddyn.contact import ContactSet, inverse_dynamics

    held = inverse_dynamics(state, ContactSet.from_feet(robot), np.zeros(robot.nv))
    assert np.isclose(sum(held.forces.values())[2], robot.mass * 9.81)


def test_subpackage_control(robot: qd.Robot, state: qd.State) -> None:
    from quaddyn.control import gravity_compensation

    assert np.isclose(sum(gravity_compensation(state).forces.values())[2], robot.mass * 9.81)


def test_subpackage_wbc(robot: qd.Robot, state: qd.State) -> None:
    command = qd.WholeBodyController(robot).compute(state)
    assert command.status.ok and np.isclose(sum(command.forces.values())[2], robot.mass * 9.81)


def test_subpackage_locomotion(robot: qd.Robot) -> None:
    plant, dyn, walker = qd.Simulation(robot, dt=2e-3), qd.Dynamics(robot), qd.LocomotionController(robot, dt=2e-3)
    for _ in range(600):
        command = walker.compute(dyn.update(plant.q, plant.v), (0.3, 0.0, 0.0))
        plant.step(command.tau)
    assert command.mode.is_upright and plant.q[0] > 0.05


def test_subpackage_planning(robot: qd.Robot, monkeypatch: pytest.MonkeyPatch) -> None:
    from quaddyn.planning import plan_righting, righting_search

    monkeypatch.setattr(righting_search, "FIRST_GENERATION_SIZE", 1)  # tries of the first generation
    said: list[str] = []
    plan = plan_righting(robot, max_trials=1, use_cache=False, progress=said.append)
    assert "back" in {*plan.motions, *plan.infeasible} and all("deg" in reason for reason in plan.infeasible.values())


def test_subpackage_estimation(robot: qd.Robot) -> None:
    from quaddyn.contact import ContactSet
    from quaddyn.control import gravity_compensation
    from quaddyn.estimation import ContactForceEstimator

    dyn, estimator = qd.Dynamics(robot), ContactForceEstimator(ContactSet.from_feet(robot), dt=1e-3, gain=np.inf)
    still, tau = np.zeros(robot.nv), gravity_compensation(dyn.update(robot.q_home, np.zeros(robot.nv))).tau
    for _ in range(3):
        found = estimator.update(dyn.update(robot.q_home, still), tau)
    assert np.isclose(sum(found.forces.values())[2], robot.mass * 9.81)


def test_subpackage_simulation(robot: qd.Robot) -> None:
    sim = qd.Simulation(robot)
    sim.reset(robot.q_home + 0.2 * np.eye(robot.nq)[2])
    for _ in range(100):
        sim.step(np.zeros(robot.nu))
    assert sim.status == "free" and np.isclose(sim.v[2], -0.981, atol=1e-3)


def test_subpackage_identification() -> None:
    from quaddyn.identification import group_by_rule

    assert group_by_rule(qd.load("ur5")).rank == 52


def test_subpackage_runtime(robot: qd.Robot) -> None:
    from quaddyn.runtime import MotorCommand, PlantInterface

    side = PlantInterface(qd.Simulation(robot, dt=2e-3))
    side.write(MotorCommand.from_targets(robot.q_home[7:], np.zeros(12), np.full(12, 80.0), np.full(12, 2.0)))
    side.sleep_until(0.1)
    assert np.isclose(side.read().time, 0.1) and np.abs(side.read().position - robot.q_home[7:]).max() < 0.2


def test_subpackage_campaigns() -> None:
    from campaign_examples import Throws

    from quaddyn.campaigns import run

    assert run(Throws(trials=3)).ran == 3


def test_subpackage_reference(robot: qd.Robot) -> None:
    from quaddyn.reference import Reference
    from quaddyn.reference.momentum import mass

    assert np.isclose(mass(Reference(robot.source, root="free").forward_kinematics(robot.q_home)), robot.mass)


def test_subpackage_verification() -> None:
    assert qd.cross_check(qd.load("two_link_leg"), samples=2, seed=0).passed


def test_subpackage_viewer(robot: qd.Robot, tmp_path: Path) -> None:
    viewer = qd.Viewer(robot, serve=False)
    viewer.show(robot.q_home)
    assert "<html" in viewer.record(tmp_path / "page.html").read_text(encoding="utf-8")[:2000]


def test_subpackage_demo() -> None:
    from quaddyn.demo import run_squat_demo

    assert run_squat_demo(qd.load("two_link_leg"), duration=0.5).passed


def test_subpackage_cli() -> None:
    from quaddyn.cli import app

    assert CliRunner().invoke(app, ["check", "two_link_leg"], env={"COLUMNS": "200"}).exit_code == 0
