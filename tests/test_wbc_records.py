"""Ticks in files, replayed bit for bit; joint bounds that stay viable; velocities through the same hierarchy."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import quaddyn as qd
from quaddyn.cli import app
from quaddyn.contact import contact_jacobian
from quaddyn.wbc import (
    ComTask,
    FootTask,
    FramePositionTask,
    JointBounds,
    MomentumTask,
    PostureTask,
    VelocityController,
    WholeBodyController,
    replay,
)


# -- files ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("compiled", [True, False])
def test_a_saved_tick_replays_bit_for_bit(tmp_path: Path, compiled: bool) -> None:
    robot = qd.load("go2")
    dyn = qd.Dynamics(robot)
    wbc = WholeBodyController(robot, friction=0.3, compiled=compiled)
    with pytest.raises(qd.ArgumentError, match="no tick"):
        wbc.save_tick(tmp_path / "none.npz")
    rng = np.random.default_rng(0)
    for i in range(12):  # limits active, contacts half made: a tick with a past
        q = pin.integrate(robot.model, robot.q_home, 0.02 * rng.normal(size=robot.nv))
        s = dyn.update(q, 0.1 * rng.normal(size=robot.nv))
        wbc.tasks["com"].reference(s.com, acceleration=np.array([4.0, 1.0, -1.0]))
        command = wbc.compute(s, robot.feet if i < 6 else robot.feet[:3])
    path = tmp_path / "tick.npz"
    wbc.save_tick(path)
    again = replay(path)
    assert again.identical and again.difference == 0.0
    np.testing.assert_array_equal(again.command.tau, command.tau)
    np.testing.assert_array_equal(again.command.acceleration, command.acceleration)
    assert again.command.explain() == command.explain()
    assert again.record.command.status == command.status
    assert again.record.shares == {name: wbc.shares[name] for name in command.forces}
    np.testing.assert_array_equal(again.record.q, s.q)
    assert again.command.margins == command.margins


def test_files_that_are_no_ticks_are_refused_by_name(tmp_path: Path) -> None:
    for i, content in enumerate((b"", b"not an archive", b"PK\x03\x04 broken")):
        path = tmp_path / f"{i}.npz"
        path.write_bytes(content)
        with pytest.raises(qd.ArgumentError, match=f"{i}.npz"):
            replay(path)
    np.savez(tmp_path / "other.npz", a=np.zeros(3))
    with pytest.raises(qd.ArgumentError, match=r"other\.npz"):
        replay(tmp_path / "other.npz")
    np.savez(tmp_path / "pickle.npz", meta=np.array([{}], dtype=object))
    with pytest.raises(qd.ArgumentError, match=r"pickle\.npz"):
        replay(tmp_path / "pickle.npz")
    with pytest.raises(FileNotFoundError):
        replay(tmp_path / "absent.npz")


def test_the_command_line_replays_a_tick_and_explains_it(tmp_path: Path) -> None:
    robot = qd.load("go2")
    wbc = WholeBodyController(robot, friction=0.1)
    s = qd.Dynamics(robot).update(robot.q_home, np.zeros(robot.nv))
    wbc.tasks["com"].reference(s.com, acceleration=np.array([3.0, 0.0, 0.0]))
    command = wbc.compute(s)
    wbc.save_tick(tmp_path / "tick.npz")
    shown = CliRunner().invoke(app, ["replay", str(tmp_path / "tick.npz")])
    assert shown.exit_code == 0
    assert "bit for bit" in shown.stdout and "com x" in shown.stdout and "FL_calf_joint" in shown.stdout
    data = json.loads(CliRunner().invoke(app, ["replay", str(tmp_path / "tick.npz"), "--json"]).stdout)
    assert data["identical"] and list(data["tau"].values()) == command.tau.tolist()
    assert CliRunner().invoke(app, ["replay", str(tmp_path / "absent.npz")]).exit_code != 0


def test_without_a_place_for_its_cache_the_controller_still_works(tmp_path: Path) -> None:
    code = (
        "import numba.core.caching as c\n"
        "for locator in c.CacheImpl._locator_classes: locator.from_function = classmethod(lambda *a: None)\n"
        "import numpy as np\n"
        "from quaddyn.hierarchy.jit import jit\n"
        "f = jit(lambda x: x + 1.0)\n"
        "assert f(1.0) == 2.0\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120, env={**os.environ})


# -- joint bounds --------------------------------------------------------------------------------------------------
@given(
    start=st.floats(-0.99, 0.99),
    speed=st.floats(-1.0, 1.0),
    push=st.lists(st.sampled_from([-1.0, 0.0, 1.0]), min_size=5, max_size=60),
)
@settings(max_examples=60, deadline=None)
def test_joints_that_start_viable_never_leave_their_range(start: float, speed: float, push: list[float]) -> None:
    robot = qd.load("two_link_leg", limits={"hip": {"lower": -1.0, "upper": 1.0, "velocity": 5.0}})
    most = 40.0
    bounds = JointBounds(robot, 1e-2, acceleration=most, horizon=1e-2)
    # a viable start: it can brake in time
    room = 1.0 - start if speed > 0.0 else 1.0 + start
    q, v = start, speed * min(5.0, 0.95 * float(np.sqrt(2.0 * most * max(room - 0.06, 0.0))))
    for wish in push * 2:
        low, high = bounds.bounds(np.array([q, 0.0]), np.array([v, 0.0]))
        assert (low <= high).all() and (np.abs(low) <= most + 1e-9).all() and (np.abs(high) <= most + 1e-9).all()
        a = float(np.clip(wish * most, low[0], high[0]))
        q, v = q + 1e-2 * v + 0.5e-4 * a, v + 1e-2 * a
        assert abs(q) <= 1.0 + 1e-9 and abs(v) <= 5.0 + 1e-9


def test_joints_outside_come_back() -> None:
    robot = qd.load("two_link_leg", limits={"hip": {"lower": -1.0, "upper": 1.0, "velocity": 5.0}})
    bounds = JointBounds(robot, 1e-3, acceleration=50.0)
    q, v = 1.2, 2.0
    for _ in range(2000):
        _, high = bounds.bounds(np.array([q, 0.0]), np.array([v, 0.0]))
        a = high[0]
        q, v = q + 1e-3 * v + 0.5e-6 * a, v + 1e-3 * a
    assert q <= 1.0 + 1e-3


def test_bounds_of_the_controller_keep_a_joint_inside() -> None:
    robot = qd.load("three_link_leg")
    dyn = qd.Dynamics(robot)
    wbc = WholeBodyController(robot, dt=2e-3)
    target = robot.q_home.copy()
    target[0] = robot.upper[0] + 0.5  # where the joint cannot go
    wbc.tasks["posture"].reference(target)
    q, v = robot.q_home.copy(), np.zeros(robot.nv)
    for _ in range(800):
        c = wbc.compute(dyn.update(q, v))
        a = dyn.aba(q, v, robot.expand(c.tau))
        q, v = q + 2e-3 * v + 2e-6 * a, v + 2e-3 * a
        assert q[0] <= robot.upper[0] + 1e-6
    assert q[0] > robot.upper[0] - 0.02


# -- velocities ----------------------------------------------------------------------------------------------------
def test_the_worked_example_of_source_e_on_velocity_level() -> None:
    arm = qd.load("planar_3r")
    s = qd.Dynamics(arm).update(np.radians([30.0, 60.0, 60.0]), np.zeros(3))
    hand = FramePositionTask(arm, "tool", "hand", axes=("x", "z"))
    rest = PostureTask(arm, "rest", joints=("joint1", "joint2"))
    rest.reference(s.q)
    wish = np.array([1.0, 0.0, 1.0])
    hand.reference(s.placement("tool").translation, wish)
    c = VelocityController(arm, tasks=[hand, rest], joint_limits=False, compiled=False).compute(s)
    again = VelocityController(arm, tasks=[hand, rest], joint_limits=False).compute(s)
    np.testing.assert_allclose(again.v, c.v, atol=1e-12)
    np.testing.assert_allclose(c.v, (-0.1691, -0.0845, -1.0702), atol=5e-5)
    assert float(c.residuals["hand"] @ c.residuals["hand"]) < 1e-28
    assert float(c.residuals["rest"] @ c.residuals["rest"]) == pytest.approx(0.0357, abs=5e-5)
    assert c.ranks[1:] == (2, 1)


def test_velocities_carry_a_robot_to_its_goal_with_its_feet_where_they_are() -> None:
    for name in ("go2", "solo8"):
        robot = qd.load(name)
        dyn = qd.Dynamics(robot)
        ik = VelocityController(robot, dt=1e-2)
        s = dyn.update(robot.q_home, np.zeros(robot.nv))
        goal = s.com + np.array([0.02, 0.0, -0.03]) * s.com[2] / 0.3
        feet = {foot: s.placement(foot).translation.copy() for foot in robot.feet}
        ik.tasks["com"].reference(goal)
        for _ in range(120):
            c = ik.compute(s)
            assert c.status == "optimal"
            for foot in robot.feet:
                assert np.abs(contact_jacobian(s, foot) @ c.v).max() < 1e-9
            s = dyn.update(c.q, np.zeros(robot.nv))
        np.testing.assert_allclose(s.com, goal, atol=1e-5)
        for foot, place in feet.items():  # rolling feet wander a little
            np.testing.assert_allclose(s.placement(foot).translation, place, atol=0.02)


def test_velocity_levels_are_strict_and_limits_hold() -> None:
    robot = qd.load("go2")
    dyn = qd.Dynamics(robot)
    s = dyn.update(robot.q_home, np.zeros(robot.nv))
    ik = VelocityController(robot)
    ik.tasks["FL"].reference(s.placement("FL").translation + np.array([0.0, 0.0, 0.05]))
    c = ik.compute(s, robot.feet[1:])
    assert np.abs(c.residuals["FL"]).max() < 1e-9 and np.abs(c.residuals["com"]).max() < 1e-9
    ik.tasks["FL"].reference(s.placement("FL").translation, np.array([0.0, 0.0, 50.0]))
    c = ik.compute(s, robot.feet[1:])
    assert c.active
    assert (np.abs(c.v[robot.actuated_index]) <= robot.velocity_limits + 1e-9).all()
    assert (c.q[7:] <= robot.upper[7:] + 1e-9).all() and (c.q[7:] >= robot.lower[7:] - 1e-9).all()


def test_velocity_controllers_refuse_what_they_cannot_do() -> None:
    robot = qd.load("go2")
    with pytest.raises(qd.ArgumentTypeError, match="tasks"):
        VelocityController(robot, tasks=[MomentumTask(robot)])
    with pytest.raises(qd.ArgumentError, match="gain"):
        VelocityController(robot, dt=0.1, gain=20.0)
    with pytest.raises(qd.ArgumentError, match="two of the name"):
        VelocityController(robot, tasks=[ComTask(robot), ComTask(robot)])
    ik = VelocityController(robot, tasks=[ComTask(robot), FootTask(robot, "FL")])
    with pytest.raises(qd.UnknownNameError, match="LF"):
        ik.compute(qd.Dynamics(robot).update(robot.q_home, np.zeros(robot.nv)), ("LF",))


# -- compilation ---------------------------------------------------------------------------------------------------
def test_warmup_says_what_it_waits_for(capsys: pytest.CaptureFixture[str]) -> None:
    wbc = WholeBodyController(qd.load("go2"))
    took = wbc.warmup()
    said = capsys.readouterr()
    assert took > 0.0 and "compiling" in said.err and said.err.endswith(" s\n") and not said.out
    wbc.warmup(quiet=True)
    assert capsys.readouterr().err == ""
    assert WholeBodyController(qd.load("go2"), compiled=False).warmup() == 0.0


def test_the_compiled_and_the_plain_solver_agree() -> None:
    rng = np.random.default_rng(0)
    for name in ("go2", "b1_z1", "solo8"):
        robot = qd.load(name)
        dyn = qd.Dynamics(robot)
        both = [WholeBodyController(robot, ramp=0.0, friction=0.3, compiled=compiled) for compiled in (True, False)]
        for i in range(6):
            q = pin.integrate(robot.model, robot.q_home, 0.1 * rng.normal(size=robot.nv))
            v, wish = 0.3 * rng.normal(size=robot.nv), 4.0 * rng.normal(size=3)
            torques = []
            for wbc in both:
                s = dyn.update(q, v)
                wbc.tasks["com"].reference(s.com, acceleration=wish)
                torques.append(wbc.compute(s, robot.feet if i % 2 else robot.feet[:3]).tau)
            np.testing.assert_allclose(torques[0], torques[1], atol=1e-7 * (1.0 + np.abs(torques[1]).max()))
