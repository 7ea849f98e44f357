"""Common attributes of commands and statuses, requested and clamped values; docstrings state former behavior."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from raising import raises

import quaddyn as qd
from quaddyn import demo
from quaddyn.contact import ContactSet
from quaddyn.contact.solvers import FrictionalSolver
from quaddyn.control import JointPD
from quaddyn.kinematics import inverse_kinematics
from quaddyn.wbc import VelocityController


def test_ok_is_a_property_of_every_command_and_status() -> None:
    """Formerly ``Command.ok`` was missing."""
    robot = qd.load("go2")
    sim, dyn = qd.Simulation(robot), qd.Dynamics(robot)
    s = dyn.update(robot.q_home, np.zeros(robot.nv))
    command = qd.WholeBodyController(robot).compute(s)
    walking = qd.LocomotionController(robot).compute(s)
    velocity = VelocityController(robot).compute(s)
    problem = ContactSet.from_feet(robot).contact_problem(s, s.v)
    for each in (
        command, command.status, walking, velocity, velocity.status, sim, FrictionalSolver().solve(problem),
        inverse_kinematics(robot, {"FL": s.placement("FL").translation}),
    ):  # fmt: skip
        assert each.ok is True, type(each)
    assert velocity.status.outcome == command.status.outcome == "solved"
    assert JointPD(robot).compute(robot.q_home, s.v, robot.q_home).ok is True


def test_an_infeasible_command_is_not_ok() -> None:
    robot = qd.load("go2")
    dyn, wbc = qd.Dynamics(robot), qd.WholeBodyController(robot)
    wbc.tasks.torque.limits = 0.01
    command = wbc.compute(dyn.update(robot.q_home, np.zeros(robot.nv)))
    assert command.ok is command.status.ok is False
    assert command.status.outcome == "infeasible"


def test_velocity_beyond_the_gait_is_reported_with_its_limit() -> None:
    """Formerly 9 m/s resulted in less than 1 m/s without a report."""
    robot = qd.load("solo12")
    dyn, controller = qd.Dynamics(robot), qd.LocomotionController(robot)
    s = dyn.update(robot.q_home, np.zeros(robot.nv))
    command = controller.compute(s, (9.0, 0.0, 0.0))
    np.testing.assert_array_equal(command.requested_velocity, [9.0, 0.0, 0.0])
    np.testing.assert_array_equal(command.clamped_velocity, controller.clamp_velocity((9.0, 0.0, 0.0)))
    assert (
        command.is_limited
        and command.limit_reason == controller.velocity_limit_reason([9, 0, 0]) == "stride of the gait"
    )
    assert "requested +9.000" in str(command) and "limit of the gait on these legs: stride of the gait" in str(command)
    slow = controller.compute(s, (0.1, 0.0, 0.0))
    assert not slow.is_limited and slow.limit_reason == "" and "asked" not in str(slow)
    assert controller.velocity_limit_reason((0.0, 9.0, 0.0)) == "feet would cross"
    controller.gait = "stand"
    assert controller.velocity_limit_reason((0.1, 0.0, 0.0)) == "gait does not step"


def test_demo_reports_requested_and_clamped_velocity(capsys: pytest.CaptureFixture[str]) -> None:
    robot = qd.load("go2")
    report = demo.run_locomotion_demo(robot, velocity=(9.0, 0.0, 0.0), duration=0.2)
    assert report.requested_velocity == (9.0, 0.0, 0.0) and report.limit_reason and report.clamped_velocity is not None
    assert 0.1 < report.clamped_velocity[0] < 2.0

    from quaddyn.cli.tables import demo_json, print_demo
    from quaddyn.verification import cross_check

    plain = json.loads(json.dumps(demo_json(report)))
    assert plain["requested_velocity"] == [9.0, 0.0, 0.0] and plain["limit_reason"] == report.limit_reason
    print_demo(report, cross_check(robot, samples=1, n_derivative_samples=False))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 23 and max(map(len, lines)) <= 80, "one screen of 24 lines, with the robot"
    assert lines[1].split(maxsplit=5)[:5] == ["forward,", "left", "[m/s],", "turn", "[rad/s]"]
    assert "requested +9.000" in lines[1] and "commanded" in lines[2] and "measured" in lines[3]
    words = " ".join(" ".join(lines).split())
    assert "requested" in words and "+9.000" in words and f"limited by {report.limit_reason}" in words


def test_arguments_are_validated_before_anything_is_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Formerly a demo with an invalid argument compiled for minutes before the error."""

    def never(self: object, **options: object) -> float:
        raise AssertionError("compiled")

    monkeypatch.setattr(qd.LocomotionController, "warmup", never)
    monkeypatch.setattr(qd.Simulation, "warmup", never)
    robot = qd.load("go2")
    for wrong in (
        {"velocity": (1.0, 2.0)},
        {"velocity": (1.0, np.nan, 0.0)},
        {"record": tmp_path / "none" / "page.html"},
        {"plot": tmp_path / "none" / "plot.png"},
        {"plot": "plot.doc"},
        {"gait": "moonwalk"},
        {"plant": "bullet"},
        {"friction": -1.0},
        {"dt": 1.0},
        {"pushes": [demo.Push(10.0, 100.0)]},
    ):
        with pytest.raises(qd.QuaddynError):
            demo.run_locomotion_demo(robot, **wrong)  # type: ignore[arg-type]
    for wrong in ({"record": tmp_path}, {"duration": 0.0}):
        with pytest.raises(qd.ArgumentError):
            demo.run_squat_demo(robot, **wrong)  # type: ignore[arg-type]
    raises(AssertionError, "compiled", demo.run_locomotion_demo, robot, duration=0.2)


def test_objects_have_informative_texts() -> None:
    """Formerly: <quaddyn.wbc.controller.WholeBodyController object at 0x7fef681206d0>."""
    robot = qd.load("go2")
    wbc = qd.WholeBodyController(robot, friction=0.5)
    first, *levels, contacts = str(wbc).splitlines()
    assert first == repr(wbc) == "WholeBodyController('go2_description', dt=0.001, friction=0.5, ramp_time=0.05)"
    assert levels == [f"level {k}: {', '.join(names)}" for k, names in enumerate(wbc.levels)]
    assert levels[2] == "level 2: posture, forces" and contacts == "contacts: FL, FR, RL, RR"
    assert repr(qd.Simulation(robot, dt=2e-3)) == "Simulation('go2_description', dt=0.002, friction=0.6)"
