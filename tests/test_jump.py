"""Single jumps: limits of the legs, plans that agree with inverse dynamics, and one jump from crouch to stance."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from raising import raises

import quaddyn as qd
from quaddyn.locomotion import FEET, JumpPlan, LocomotionController, LocomotionMode
from quaddyn.locomotion.command import JUMPS
from quaddyn.locomotion.jump_plan import place_footprint
from quaddyn.simulation import Simulation

DT = 2e-3


@pytest.fixture(scope="module")
def robot() -> qd.Robot:
    return qd.load("a1")


def make_standing_controller(
    robot: qd.Robot, **options: object
) -> tuple[LocomotionController, Simulation, qd.Dynamics]:
    """A controller after some ticks of standing."""
    controller = LocomotionController(robot, dt=DT, friction=0.8, **options)  # type: ignore[arg-type]
    plant, dynamics = Simulation(robot, dt=DT), qd.Dynamics(robot)
    plant.reset(robot.q_home, np.zeros(robot.nv))
    for _ in range(20):
        plant.step(controller.compute(dynamics.update(np.array(plant.q), np.array(plant.v))).tau)
    return controller, plant, dynamics


@pytest.fixture(scope="module")
def controller(robot: qd.Robot) -> LocomotionController:
    return make_standing_controller(robot)[0]


def test_jump_plan_is_push_ballistic_flight_and_reversed_push(controller: LocomotionController) -> None:
    p = controller.morphology
    far = np.array([0.7, -0.2]) * p.length
    plan = controller.plan_jump(distance=far, turn=0.3)
    v, g, (T, F) = plan.velocity, p.gravity, (plan.push_time, plan.flight_time)
    assert not plan.is_limited and plan.height == pytest.approx(v[2] ** 2 / (2.0 * g))
    assert plan.liftoff_com_height - plan.crouch_com_height == pytest.approx(0.5 * v[2] * T)
    assert plan.liftoff_com_height + v[2] * F - 0.5 * g * F**2 == pytest.approx(
        plan.landing_height + plan.touchdown_com_height
    )
    np.testing.assert_allclose(plan.liftoff_com_position + F * v[:2], far - plan.liftoff_com_position)
    # The force keeps its direction; at half the push height its line of action passes through the center of the feet.
    lean = (v[:2] / T) / (v[2] / T + g)
    begins, ends = (
        plan.com_offset - plan.crouch_com_height * lean,
        plan.liftoff_com_position - plan.liftoff_com_height * lean,
    )
    np.testing.assert_allclose(begins, -ends, atol=1e-12)
    assert plan.com_height(0.0) == pytest.approx(plan.liftoff_com_height) and plan.com_height(1.0) == pytest.approx(
        plan.touchdown_com_height
    )
    assert plan.com_height(0.5) < min(plan.liftoff_com_height, plan.touchdown_com_height)


def test_weak_motors_limit_jump_height_and_lower_ballistic_height(robot: qd.Robot) -> None:
    whole = LocomotionController(robot, dt=DT)
    p = whole.morphology
    strong = whole.plan_jump(height=0.4 * p.length)
    whole.wbc.tasks.torque.limits = 0.3 * robot.effort_limits
    weak = LocomotionController(robot, dt=DT, wbc=whole.wbc).plan_jump(height=0.4 * p.length)
    assert not strong.is_limited and weak.is_limited and weak.limit_reason.startswith("torque of ")
    assert weak.height < 0.9 * strong.height and weak.ballistic_height < 0.5 * strong.ballistic_height
    assert weak.requested[0] == pytest.approx(0.4 * p.length) and weak.limit_reason in str(weak)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"height": -1.0}, "height: expected a height above 0 m"),
        ({"distance": (1.0,)}, "distance, turn: expected two finite lengths"),
        ({"turn": math.inf}, "finite angle"),
    ],
)
def test_invalid_jumps_are_rejected(controller: LocomotionController, asked: dict, said: str) -> None:
    raises(qd.ArgumentError, said, controller.plan_jump, **asked)


def test_jump_is_rejected_if_robot_is_not_standing_or_cannot_turn(robot: qd.Robot) -> None:
    with pytest.raises(qd.ArgumentError, match="has not computed its first tick, but a jump can only start while"):
        LocomotionController(robot, dt=DT).jump(height=0.1)
    planar = LocomotionController(qd.load("solo8"), dt=DT)
    raises(qd.ArgumentError, "cannot perform this jump: legs without lateral motion", planar.plan_jump, turn=0.5)
    plan = planar.plan_jump(height=0.2 * planar.morphology.length)
    assert (
        not plan.is_limited and plan.angular_velocity[1] != 0.0 == plan.angular_velocity[0] == plan.angular_velocity[2]
    )


def step_ahead(robot: qd.Robot, height: float, depth: float = 9.0) -> tuple[Callable, float]:
    """Terrain with a step directly in front of the feet, and the jump distance onto it [m]."""
    p = LocomotionController(robot, dt=DT).morphology
    front = float(np.abs(p.nominal_stance[:, 0]).max())
    edge = front + 0.05 * p.length
    return lambda x, y: np.where((x > edge) & (x < edge + depth), height, 0.0), front + edge + 0.1 * p.length


def test_jump_onto_known_step_is_planned_or_rejected(robot: qd.Robot, controller: LocomotionController) -> None:
    p = controller.morphology
    ground, far = step_ahead(robot, 0.1 * p.length)
    try:
        controller.terrain = ground
        plan = controller.plan_jump(distance=(far, 0.0))
        assert plan.landing_height == pytest.approx(0.1 * p.length, abs=1e-3) and not plan.is_limited
        flat = place_footprint(p, np.array([far, 0.0]), 0.0)
        assert (ground(*flat.T) > 0.0).all()
        raises(qd.ArgumentError, "landing area is not even", controller.plan_jump, distance=(0.5 * far, 0.0))
        controller.terrain = step_ahead(robot, 2.0 * p.length)[0]
        with pytest.raises(qd.ArgumentError, match="a shorter jump would land on other terrain"):
            controller.plan_jump(distance=(far, 0.0))
        controller.terrain = step_ahead(robot, -2.0 * p.length, 0.5 * p.length)[0]  # a ditch
        with pytest.raises(qd.ArgumentError, match="a shorter jump would land on other terrain"):
            controller.plan_jump(distance=(9.0 * p.length, 0.0))
    finally:
        controller.terrain = None


def test_forward_jump_with_turn_lands_at_planned_pose(robot: qd.Robot) -> None:
    controller, plant, dynamics = make_standing_controller(robot)
    p, whole = controller.morphology, controller.wbc
    bounds = whole.tasks.joint_bounds
    kept = whole.ramp_time, bounds.horizon, np.array(bounds.acceleration), np.array(bounds.deceleration)
    plan = controller.jump(height=0.25 * p.length, distance=(0.4 * p.length, 0.0), turn=0.5)
    assert isinstance(plan, JumpPlan) and not plan.is_limited and controller.mode is LocomotionMode.CROUCHING
    raises(qd.ArgumentError, "is in the mode 'crouching', but a jump can only start while", controller.jump, height=0.1)
    start, yaw = controller.ground.points.mean(axis=0), controller.path_reference.yaw  # type: ignore[union-attr]
    modes, momentum, top = list[LocomotionMode](), None, -math.inf
    for _ in range(round(11.0 * p.time_scale / DT)):
        state = dynamics.update(np.array(plant.q), np.array(plant.v))
        command = controller.compute(state)
        assert command.ok
        if command.mode is LocomotionMode.JUMPING:
            assert command.jump_plan is plan and str(plan) in str(command)
            assert command.limit_reason == JUMPS or modes[-1] is LocomotionMode.CROUCHING
            if not command.contacts and momentum is None:
                momentum, left = np.array(state.centroidal_momentum[3:]), float(state.com[2])
        if command.mode in (LocomotionMode.JUMPING, LocomotionMode.AIRBORNE):
            top = max(top, float(state.com[2]))
        if command.mode not in modes[-1:]:
            modes.append(command.mode)
        plant.step(command.tau)
    assert modes == [
        LocomotionMode.CROUCHING,
        LocomotionMode.JUMPING,
        LocomotionMode.AIRBORNE,
        LocomotionMode.LANDING,
        LocomotionMode.RISING,
    ]
    assert momentum is not None and np.abs(momentum[:2]).max() < 0.02 * p.mass * p.length * p.speed_scale
    flying = controller._quadruped.capability.jump_planner._dynamics._compute_yaw_inertia(np.array(robot.q_home))
    assert 0.75 * plan.turn < momentum[2] / flying * (plan.flight_time + plan.push_time) < 1.25 * plan.turn
    assert top - left == pytest.approx(plan.height, rel=0.1)
    feet = dynamics.update(np.array(plant.q), np.array(plant.v)).origins(FEET)
    turn = np.array([[math.cos(yaw), -math.sin(yaw)], [math.sin(yaw), math.cos(yaw)]])
    miss = feet[:, :2] - start[:2] - place_footprint(p, plan.distance, plan.turn) @ turn.T
    assert np.linalg.norm(miss, axis=1).max() < 0.1 * p.length
    assert abs(math.remainder(p.yaw(np.array(plant.q)) - yaw - plan.turn, 2.0 * math.pi)) < 0.05
    now = whole.ramp_time, bounds.horizon, np.array(bounds.acceleration), np.array(bounds.deceleration)
    for before, after in zip(kept, now, strict=True):
        np.testing.assert_array_equal(before, after)
