"""`FrameAxisTask`: an axis follows a direction, and rotation about it is free.  Its rows: `test_wbc_rows.py`."""

from __future__ import annotations

import numpy as np
import pytest

import quaddyn as qd
from quaddyn.wbc import ComTask, ForceTask, FrameAxisTask, PostureTask, default_constraints


def direction(t: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A direction that draws a figure of eight around x, its angular velocity and acceleration."""
    w, yaw, pitch = 2.0 * np.pi / 2.0, 0.10, 0.06
    y, p = yaw * np.sin(w * t), pitch * np.sin(2.0 * w * t)
    dy, dp = yaw * w * np.cos(w * t), 2.0 * pitch * w * np.cos(2.0 * w * t)
    ddy, ddp = -w * w * y, -4.0 * w * w * p
    u = np.array([1.0, np.tan(y), -np.tan(p)])
    du = np.array([0.0, dy * (1.0 + u[1] ** 2), -dp * (1.0 + u[2] ** 2)])
    ddu = np.array(
        [
            0.0,
            ddy * (1.0 + u[1] ** 2) + 2.0 * dy * u[1] * du[1],
            -ddp * (1.0 + u[2] ** 2) - 2.0 * dp * u[2] * du[2],
        ]
    )
    square = u @ u
    turning = np.cross(u, du) / square
    return u, turning, np.cross(u, ddu) / square - 2.0 * turning * (u @ du) / square


def test_trunk_of_go2_tracks_a_moving_direction() -> None:
    """To 0.05 degrees, with the velocity and acceleration of the direction fed forward."""
    robot = qd.load("go2")
    dyn, sim = qd.Dynamics(robot), qd.Simulation(robot)
    axis = FrameAxisTask(robot, robot.bodies[0].name, "forward")
    wbc = qd.WholeBodyController(
        robot,
        constraints=default_constraints(robot, 1e-3),
        tasks=[[ComTask(robot), axis], [PostureTask(robot), ForceTask(robot)]],
    )
    worst = 0.0
    for tick in range(3000):
        t = 1e-3 * tick
        blend = min(1.0, t)
        d, w, a = direction(t)
        axis.reference(d if blend == 1.0 else np.array([1.0, blend * d[1], blend * d[2]]), w, a)
        s = dyn.update(sim.q, sim.v)
        command = wbc.compute(s)
        assert command.status.ok, command.status
        sim.step(command.tau)
        if t > 1.5:
            worst = max(worst, float(np.linalg.norm(np.cross(axis.position(s), d / np.linalg.norm(d)))))
    assert worst < np.radians(0.05)
    assert axis.position(s)[0] > 0.9


def test_rotation_about_the_axis_is_free() -> None:
    robot = qd.load("go2")
    rng = np.random.default_rng(0)
    s = qd.Dynamics(robot).update(robot.q_home, rng.normal(size=robot.nv))
    task = FrameAxisTask(robot, "FL", axis="z")
    n = task.position(s)
    task.reference(rng.normal(size=3), rng.normal(size=3), rng.normal(size=3))
    assert np.linalg.matrix_rank(task.jacobian(s)) == 2
    for rows in (task.jacobian(s), task.error(s), task.velocity(s), task.desired(s)):
        np.testing.assert_allclose(n @ rows, 0.0, atol=1e-12 * (1.0 + np.abs(rows).max()))


def test_invalid_axes_and_directions_are_rejected() -> None:
    robot = qd.load("go2")
    with pytest.raises(qd.ArgumentError, match="axis: expected one of x, y, z"):
        FrameAxisTask(robot, "FL", axis="w")
    task = FrameAxisTask(robot, "FL")
    for bad in (np.zeros(3), np.ones(2), np.array([np.nan, 0.0, 1.0]), np.array([np.inf, 0.0, 1.0])):
        with pytest.raises(qd.ArgumentError, match=r"FL\.reference: position"):
            task.reference(bad)
    task.reference(np.array([0.0, 0.0, 5.0]))
    np.testing.assert_array_equal(task.block[-3:], [0.0, 0.0, 1.0])
