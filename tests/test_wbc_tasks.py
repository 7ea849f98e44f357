"""Tasks alone: Jacobians, drifts and errors against finite differences, on any robot; gains, masks, references."""

from __future__ import annotations

import copy

import numpy as np
import pinocchio as pin
import pytest
from finite_differences import along
from raising import raises

import quaddyn as qd
from quaddyn.contact import Contact
from quaddyn.wbc import (
    ComTask,
    FootTask,
    ForceTask,
    FrameAxisTask,
    FrameOrientationTask,
    FramePositionTask,
    FrameTask,
    JointAccelerationTask,
    MomentumTask,
    PostureTask,
    RelativeFrameTask,
    Task,
)


def tasks(robot: qd.Robot) -> list[Task]:
    foot, base = robot.feet[0], robot.bodies[0].name
    return [
        ComTask(robot),
        FramePositionTask(robot, foot, "position"),
        FootTask(robot, foot, "foot"),
        FrameOrientationTask(robot, foot, "orientation"),
        FrameAxisTask(robot, foot, "axis", axis="y"),
        FrameTask(robot, base, "base"),
        RelativeFrameTask(robot, foot, robot.feet[-1] if len(robot.feet) > 1 else base, "relative"),
        PostureTask(robot),
        JointAccelerationTask(robot),
        MomentumTask(robot, axes=None),
    ]


def states(robot: qd.Robot, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    q = pin.integrate(robot.model, robot.q_home, 0.3 * rng.normal(size=robot.nv))
    return q, rng.normal(size=robot.nv), rng.normal(size=robot.nv)


ROBOTS = [("go2", "free"), ("solo8", "free"), ("anymal_c", "free"), ("hyq", "planar"), ("four_link_leg", "fixed")]


@pytest.mark.parametrize(("name", "root"), ROBOTS)
def test_velocity_is_the_jacobian_times_v_and_its_rate_is_jacobian_times_a_plus_drift(name: str, root: str) -> None:
    robot = qd.load(name, root=root)
    dyn = qd.Dynamics(robot)
    q, v, a = states(robot, 0)
    for task in tasks(robot):
        s = dyn.update(q, v)
        np.testing.assert_allclose(task.jacobian(s) @ v, task.velocity(s), atol=1e-10 * robot.mass)
        predicted = task.jacobian(s) @ a + task.drift(s)
        measured = along(robot.model, lambda q, v, t=task: np.array(t.velocity(dyn.update(q, v))), q, v, a)
        np.testing.assert_allclose(measured, predicted, atol=1e-8 * max(1.0, robot.mass), err_msg=task.name)


@pytest.mark.parametrize(("name", "root"), ROBOTS)
def test_small_errors_decrease_at_the_rate_of_the_velocity(name: str, root: str) -> None:
    robot = qd.load(name, root=root)
    dyn = qd.Dynamics(robot)
    q, v, _ = states(robot, 1)
    for task in tasks(robot):
        if not task.size:
            continue
        task.hold_position(dyn.update(q, v))
        assert np.abs(task.error(dyn.update(q, v))).max() < 1e-12
        velocity = np.array(task.velocity(dyn.update(q, v)))
        rate = along(robot.model, lambda q, v, t=task: np.array(t.error(dyn.update(q, v))), q, v)
        np.testing.assert_allclose(rate, -velocity, atol=1e-8, err_msg=task.name)


def test_desired_acceleration_is_feedback_plus_feed_forward(go2: qd.Robot) -> None:
    s = qd.Dynamics(go2).update(*states(go2, 2)[:2])
    task = ComTask(go2, stiffness=100.0)
    np.testing.assert_allclose(task.desired(s), -20.0 * s.com_velocity)  # critical damping; no target position yet
    position, velocity, acceleration = np.random.default_rng(0).normal(size=(3, 3))
    task.reference(position, velocity, acceleration)
    np.testing.assert_allclose(
        task.desired(s), acceleration + 20.0 * (velocity - s.com_velocity) + 100.0 * (position - s.com)
    )
    task.gains((1.0, 4.0, 9.0), 7.0)
    np.testing.assert_allclose(
        task.desired(s), acceleration + 7.0 * (velocity - s.com_velocity) + (1.0, 4.0, 9.0) * (position - s.com)
    )
    task.reference(position)  # velocity and acceleration are reset to zero
    np.testing.assert_allclose(task.desired(s), -7.0 * s.com_velocity + (1.0, 4.0, 9.0) * (position - s.com))


@pytest.mark.parametrize("name", ["go2", "solo12", "anymal_c", "hyq"])
def test_default_gains_are_critically_damped_and_scale_with_the_leg(name: str) -> None:
    robot = qd.load(name)
    rates = []
    for task in (ComTask(robot), PostureTask(robot), FootTask(robot, "FL")):
        np.testing.assert_allclose(task._damping, 2.0 * np.sqrt(task._stiffness))
        rates.append(task._stiffness[0])
    home = qd.Dynamics(robot).update(robot.q_home, np.zeros(robot.nv)).com[2]
    # the natural frequency relative to that of a pendulum of the robot's height does not depend on its size
    assert 4.0 < rates[0] * home / 9.81 < 7.0


def test_parameters_of_a_task_can_be_moved_to_an_external_array(go2: qd.Robot) -> None:
    task = ComTask(go2)
    place = np.zeros(100)[10 : 10 + len(task.block)]
    task.move(place)
    task.reference(np.array([1.0, 2.0, 3.0]))
    assert place[0] == 1.0
    np.testing.assert_array_equal(place[-3:], [1.0, 2.0, 3.0])
    place[-1] = 5.0
    np.testing.assert_array_equal(task._position, [1.0, 2.0, 5.0])


def test_invalid_references_gains_and_axes_are_rejected_by_name(go2: qd.Robot) -> None:
    com = ComTask(go2)
    for bad in (np.zeros(2), np.array([0.0, np.nan, 0.0]), np.array([0.0, np.inf, 0.0])):
        raises(qd.ArgumentError, r"com\.reference: position", com.reference, bad)
        raises(qd.ArgumentError, r"com\.reference: acceleration", com.reference, np.zeros(3), None, bad)
    for gain in (-1.0, np.nan, (1.0, 2.0), np.inf):
        raises(qd.ArgumentError, "stiffness", com.gains, gain)
    raises(qd.UnknownNameError, "axis", com.select, ("x", "up"))
    raises(qd.UnknownNameError, "frame", FrameTask, go2, "FLL")
    with pytest.raises(qd.ArgumentError, match="rotation"):
        FrameOrientationTask(go2, "FL").reference(2.0 * np.eye(3))


def test_task_with_one_row_accepts_scalars(go2: qd.Robot) -> None:
    task = PostureTask(go2, joints=go2.actuated[:1])
    task.reference(None, 0.5, 2)
    assert task.reference_velocity.tolist() == [0.5] and task.reference_acceleration.tolist() == [2.0]
    with pytest.raises(qd.ArgumentError, match=r"velocity: expected 1 finite number, got \[nan\]"):
        task.reference(None, float("nan"))
    with pytest.raises(qd.ArgumentError, match=r"velocity: expected 12 finite numbers, got 0\.5"):
        PostureTask(go2).reference(None, 0.5)


def test_references_of_forces_take_effect_at_the_next_tick_and_belong_to_their_tick(go2: qd.Robot) -> None:
    wbc, s = qd.WholeBodyController(go2), qd.Dynamics(go2).update(np.array(go2.q_home), np.zeros(go2.nv))
    task = wbc.tasks["forces"]
    assert isinstance(task, ForceTask)
    commands = []
    for forces in ({}, {"FL": [1.0, 2.0, 60.0]}, {"FL": np.full(6, 7.0), "RR": [0.0, 0.0, 30.0]}):
        task.reference(forces)
        commands.append(wbc.compute(s))
        twin = qd.WholeBodyController(go2)
        twin.tasks["forces"].references = forces
        assert twin.compute(s).tau.tobytes() == commands[-1].tau.tobytes()
    assert len({command.tau.tobytes() for command in commands}) == 3
    given = commands[1].inputs.force_references
    assert given[0, :, :2].tolist() == [[1, 1], [1, 0], [1, 0], [1, 0]] and given[0, 0, 2:5].tolist() == [1, 2, 60]
    copied = copy.deepcopy(task)
    task.clear_references()
    assert commands[0].tau.tobytes() == wbc.compute(s).tau.tobytes() and not task.references
    assert set(copied.references) == {"FL", "RR"} and copied.references["FL"].shape == (6,)
    rows = np.column_stack([np.ones((4, 2)), np.arange(12.0).reshape(4, 3), np.zeros((4, 3))])
    task.set_point_forces(go2.feet, rows)
    wbc.add_contact(Contact(name="belly", frame=go2.bodies[0].name))
    np.testing.assert_array_equal(task.references["RR"], [9.0, 10.0, 11.0])
    np.testing.assert_array_equal(wbc.compute(s, go2.feet).inputs.force_references[0, :4], rows)


def test_rotation_about_the_axis_is_free(go2: qd.Robot) -> None:
    rng = np.random.default_rng(0)
    s = qd.Dynamics(go2).update(go2.q_home, rng.normal(size=go2.nv))
    task = FrameAxisTask(go2, "FL", axis="z")
    n = task.position(s)
    task.reference(rng.normal(size=3), rng.normal(size=3), rng.normal(size=3))
    assert np.linalg.matrix_rank(task.jacobian(s)) == 2
    for rows in (task.jacobian(s), task.error(s), task.velocity(s), task.desired(s)):
        np.testing.assert_allclose(n @ rows, 0.0, atol=1e-12 * (1.0 + np.abs(rows).max()))


def test_invalid_axes_and_directions_are_rejected(go2: qd.Robot) -> None:
    raises(qd.ArgumentError, "axis: expected one of x, y, z", FrameAxisTask, go2, "FL", axis="w")
    task = FrameAxisTask(go2, "FL")
    for bad in (np.zeros(3), np.ones(2), np.array([np.nan, 0.0, 1.0]), np.array([np.inf, 0.0, 1.0])):
        raises(qd.ArgumentError, r"FL\.reference: position", task.reference, bad)
    task.reference(np.array([0.0, 0.0, 5.0]))
    np.testing.assert_array_equal(task.block[-3:], [0.0, 0.0, 1.0])
