"""Detection of robots that make no progress."""

from __future__ import annotations

import math

import numpy as np
import pytest
from slow_parameters import NIGHT

import quaddyn as qd
from quaddyn.locomotion import Morphology
from quaddyn.locomotion.morphology import make_body_parameters
from quaddyn.locomotion.motion import Motion, allocate_motion
from quaddyn.locomotion.progress_monitor import (
    AVERAGING_TIME,
    MIN_PROGRESS_FRACTION,
    allocate_progress,
    filter_command,
)
from quaddyn.locomotion.velocity_limits import LimitReason
from quaddyn.robot import Robot

DT = 2e-3 if NIGHT else 4e-3  # [s]


def moving(velocity: tuple[float, float], yaw: float) -> Motion:
    """Motion with a velocity in world axes."""
    motion = allocate_motion()
    motion.velocity, motion.yaw = (*velocity, 0.0), yaw  # type: ignore[assignment]
    return motion


@pytest.mark.parametrize("share", [0.5 * MIN_PROGRESS_FRACTION, 2.0 * MIN_PROGRESS_FRACTION])
@pytest.mark.parametrize("command", [(0.3, 0.0, 0.0), (0.0, -0.2, 0.0), (0.0, 0.0, 0.8), (-0.2, 0.1, -0.4)])
def test_robot_below_a_tenth_of_its_commanded_velocity_is_stuck_after_the_averaging_time(
    solo12: Robot, share: float, command: tuple[float, float, float]
) -> None:
    p, yaw = Morphology.from_robot(solo12), 0.7
    headway, body = allocate_progress(DT, p.time_scale), make_body_parameters(p)
    wanted = np.array(command) * (p.speed_scale, p.speed_scale, 1.0 / p.time_scale)
    c, s = math.cos(yaw), math.sin(yaw)
    x, y = share * wanted[:2]
    motion, turn = moving((c * x - s * y, s * x + c * y), yaw), share * wanted[2]
    averaging_ticks = round(AVERAGING_TIME * p.time_scale / DT)
    for k in range(4 * averaging_ticks):
        within = wanted.copy()
        limit = filter_command(headway, body, within, motion, float(turn))
        if headway.is_stuck:
            assert k == pytest.approx(averaging_ticks, rel=0.01)
            break
        assert np.array_equal(within, wanted) and limit == LimitReason.NONE
    assert headway.is_stuck == (share < MIN_PROGRESS_FRACTION)
    if headway.is_stuck:
        still = 1.2 * wanted  # nearly the same command
        assert filter_command(headway, body, still, motion, float(turn)) == LimitReason.NO_PROGRESS
        assert not still.any()
        for other in (-wanted, 0.3 * wanted, np.zeros(3)):
            headway.is_stuck = True
            assert filter_command(headway, body, other.copy(), motion, float(turn)) == LimitReason.NONE


def test_robot_with_weak_motors_reports_its_torque_limits_and_stands_without_progress() -> None:
    strong = qd.load("go2")
    limits = {
        joint: {"effort": 0.2 * effort} for joint, effort in zip(strong.actuated, strong.effort_limits, strict=True)
    }
    robot = qd.load("go2", limits=limits)
    plant, dynamics = qd.Simulation(robot, dt=2e-3), qd.Dynamics(robot)
    controller = qd.LocomotionController(robot, dt=2e-3)
    for _ in range(1500):
        command = controller.compute(dynamics.update(plant.q, plant.v), (0.3, 0.0, 0.0))
        plant.step(command.tau)
    assert command.mode.value == "moving" and command.is_limited and command.limit_reason == "torque of the joints"
    controller._walking.records.walker.walk.progress.is_stuck = True
    for _ in range(300):
        command = controller.compute(dynamics.update(plant.q, plant.v), (0.3, 0.0, 0.0))
        plant.step(command.tau)
    assert command.mode.value == "standing" and command.limit_reason == "no progress: stopped"
    assert abs(plant.v[0]) < 0.1
