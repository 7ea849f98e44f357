"""Force control reaches the desired force on any surface; hybrid control also moves along the surface."""

from __future__ import annotations

from typing import Any

import numpy as np
import pinocchio as pin
import pytest
from control_scene import bent_configuration, constrained_dynamics, random_state, run, unlimited_robot
from finite_differences import along
from hypothesis import given, settings
from hypothesis import strategies as st
from raising import raises
from slow_parameters import others_slow

import quaddyn as qd
from quaddyn.contact import CompliantPlane
from quaddyn.control import ForceControl, HybridControl, NullSpacePosture, TaskTorque
from quaddyn.control.cartesian_task import CartesianTask
from quaddyn.control.force_control import ForceRegulator
from quaddyn.urdf.tree import Pose

Array = np.ndarray
G = 9.81
LEGS = (
    ("go2", "FL"),
    ("hyq", "RR"),
    ("solo8", "FR"),
    ("anymal_c", "RL"),
    ("four_link_leg", "leg"),
    ("two_link_leg", "leg"),
)
ROBOTS: dict[str, qd.Robot] = {}


def fixed(name: str) -> qd.Robot:
    return ROBOTS.setdefault(name, unlimited_robot(name, "fixed"))


def wall_at(robot: qd.Robot, foot: str, q: Array, gap: float = 0.0, **options: float) -> CompliantPlane:
    x = qd.Dynamics(robot).frame_placement(q, foot).translation[0] + robot.legs[foot].foot.radius + gap
    return CompliantPlane.wall(x, **{"stiffness": 1e5, "damping": 100.0, "friction": 0.4, **options})


def press(
    control: Any, wall: CompliantPlane, q: Array, wanted: float, seconds: float, sensor: bool = True, **options: Any
) -> tuple[Array, Array]:
    """Presses a foot on a wall: its normal force [N] in every period, and the last joint velocities."""
    robot, foot, seen = control.robot, control.frame, []
    start = [qd.Dynamics(robot).frame_placement(q, foot).translation] if isinstance(control, HybridControl) else []
    _, v = run(
        robot, q, np.zeros(robot.nv),
        lambda s, f: control.compute(s, *start, [wanted], measured=f[foot][:1].copy() if sensor else None).tau,
        seconds, planes=(wall,), touch=(foot,), each=lambda t, q_, v_, f: seen.append(float(f[foot][0])), **options,
    )  # fmt: skip
    return np.array(seen), v


# -- desired force: 0.3 m g on a stiff wall ------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "foot", "sensor"),
    others_slow(
        [(*leg, sensor) for leg in LEGS for sensor in (True, False)],
        [("go2", "FL", True), ("four_link_leg", "leg", False)],
    ),
)
def test_foot_reaches_the_desired_force_on_a_stiff_wall(name: str, foot: str, sensor: bool) -> None:
    robot = fixed(name)
    q = bent_configuration(robot)
    # Without sensor there is no friction: the force rows cannot compensate it.
    wall = wall_at(robot, foot, q, gap=5e-4, friction=0.4 if sensor else 0.0)
    wanted = -0.3 * robot.mass * G  # on the robot, from the wall in front of it
    seen, _ = press(HybridControl(robot, foot, force=("x",)), wall, q, wanted, 0.6, sensor)
    np.testing.assert_allclose(seen[-200:], wanted, rtol=0.02)


def test_integral_term_removes_the_steady_force_error() -> None:
    robot = fixed("go2")
    q = bent_configuration(robot)
    wall = wall_at(robot, "FL", q, friction=0.0)
    wanted, unknown = -0.3 * robot.mass * G, 0.2 * robot.mass * G  # the unknown force: towards the wall
    for ki, end in ((0.0, wanted - unknown), (10.0, wanted)):
        control = HybridControl(robot, "FL", force=("x",), ki=ki)
        seen, _ = press(control, wall, q, wanted, 0.6, external={"FL": np.array([unknown, 0.0, 0.0])})
        assert seen[-1] == pytest.approx(end, rel=0.02)


def test_pure_force_control_reaches_its_force_and_damps_tangential_motion() -> None:
    robot = fixed("four_link_leg")
    q = bent_configuration(robot)
    wall = wall_at(robot, "leg", q, friction=0.0)
    control = ForceControl(robot, "leg", rows=("x",), null_space=NullSpacePosture(robot, q))
    wanted = -0.3 * robot.mass * G
    seen, v = press(control, wall, q, wanted, 1.0)
    np.testing.assert_allclose(seen[-100:], wanted, rtol=0.02)
    assert np.abs(v).max() < 1e-2


@pytest.mark.parametrize("stiffness", [1e3, 1e5])
def test_default_gains_are_stable_on_undamped_soft_and_stiff_walls(stiffness: float) -> None:
    robot = fixed("go2")
    q = bent_configuration(robot)
    wall = wall_at(robot, "FL", q, stiffness=stiffness, damping=0.0)
    wanted = -0.3 * robot.mass * G
    seen, _ = press(HybridControl(robot, "FL", force=("x",)), wall, q, wanted, 0.5, dt=2e-4)
    np.testing.assert_allclose(seen[-100:], wanted, rtol=0.02)


# -- hybrid control ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "foot"), LEGS)
def test_motion_rows_are_exact_without_contact(name: str, foot: str) -> None:
    robot = fixed(name)
    dyn = qd.Dynamics(robot)
    for seed in range(5):
        q, v = random_state(robot, seed)
        control = HybridControl(robot, foot, force=("x",), ki=0.0)
        s = dyn.update(q, v)
        target = s.placement(foot).translation + 0.05
        free = control.compute(s, target, np.zeros(1))
        if free.is_singular:
            continue
        motion = CartesianTask(robot, foot).compute_motion(s, target)
        w = 2.0 * np.pi * control.bandwidth
        expected = w * w * motion.error + 2.0 * w * motion.rate
        expected[0] = control.damping_rate * motion.rate[0]
        a = constrained_dynamics(robot, dyn, q, v, free.tau, (), {})[0]
        np.testing.assert_allclose(motion.J @ a + motion.drift, expected, atol=1e-6 * (1.0 + np.abs(expected).max()))


@given(st.integers(0, 10_000))
@settings(max_examples=25, deadline=None)
def test_force_and_tangential_motion_are_exact_on_a_rigid_wall(seed: int) -> None:
    robot = fixed("go2")
    dyn, rng = qd.Dynamics(robot), np.random.default_rng(seed)
    q, v = random_state(robot, seed, 0.5)
    axes = pin.exp3(rng.normal(size=3))
    normal = axes[:, 0]
    J = dyn.frame_jacobian(q, "FL")[:3]
    v = v - np.linalg.pinv(J) @ (normal * (normal @ J @ v))  # along the wall
    s = dyn.update(q, v)
    control = HybridControl(robot, "FL", force=("x",), axes=axes)
    f = rng.normal(size=1) * 50.0
    target = s.placement("FL").translation + 0.03 * rng.normal(size=3)
    out = control.compute(s, target, f)
    if out.is_singular:
        return
    motion = CartesianTask(robot, "FL", axes=axes).compute_motion(s, target)
    # forward dynamics with the wall as a rigid constraint on the normal direction: one KKT row
    row = normal @ J
    K = np.block([[s.M, -row[:, None]], [row[None, :], np.zeros((1, 1))]])
    drift = float(normal @ s.drift("FL")[:3])
    x = np.linalg.solve(K, np.concatenate((robot.generalized_torques(out.tau) - s.h, [-drift])))
    w = 2.0 * np.pi * control.bandwidth
    wanted = (w * w * motion.error + 2.0 * w * motion.rate)[1:]
    scale = 1.0 + np.abs(wanted).max() + abs(x[-1])
    assert x[-1] == pytest.approx(f[0], abs=1e-8 * scale)
    np.testing.assert_allclose((motion.J @ x[:-1] + motion.drift)[1:], wanted, atol=1e-7 * scale)


def test_standing_robot_presses_with_one_foot_while_three_support_it() -> None:
    robot = unlimited_robot("anymal_c")
    feet = ("FR", "RL", "RR")
    dyn, q, v = qd.Dynamics(robot), np.array(robot.q_home), np.zeros(robot.nv)
    s = dyn.update(q, v)
    control = HybridControl(robot, "FL", force=("x",))
    f = np.array([-0.3 * robot.mass * G])
    out = control.compute(s, s.placement("FL").translation.copy(), f)
    assert out.residual < 1e-6
    assert set(out.forces) == set(feet)
    push = np.array([f[0], 0.0, 0.0])
    a, held = constrained_dynamics(robot, dyn, q, v, out.tau, feet, {"FL": push})
    np.testing.assert_allclose(dyn.frame_jacobian(q, "FL")[:3] @ a, 0.0, atol=1e-6)
    np.testing.assert_allclose(held.sum(axis=0) + push, [0.0, 0.0, robot.mass * G], atol=1e-6 * robot.mass * G)


# -- the regulator -------------------------------------------------------------------------------------------------
def test_integral_is_bounded_and_pauses_during_saturation() -> None:
    law = ForceRegulator(2, kp=0.5, ki=20.0, integral_limit=None, dt=1e-2)
    wanted, measured = np.array([10.0, -5.0]), np.array([4.0, -5.0])
    np.testing.assert_allclose(law.compute(wanted, measured), [13.0, -5.0])
    np.testing.assert_allclose(law.compute(wanted, None), wanted)
    law.integrate(wanted, measured, saturated=True)
    assert not law.integral.any()
    law.integrate(wanted, measured, saturated=False)
    np.testing.assert_allclose(law.integral, [1.2, 0.0])
    for _ in range(100):
        law.integrate(wanted, measured, saturated=False)
    np.testing.assert_allclose(law.integral, [10.0, 0.0])  # by default limited to the magnitude of the desired force
    law.reset()
    assert not law.integral.any()
    tight = ForceRegulator(1, kp=0.0, ki=20.0, integral_limit=2.0, dt=1e-2)
    for _ in range(100):
        tight.integrate(np.array([-8.0]), np.zeros(1), saturated=False)
    assert tight.integral[0] == -2.0


def test_integral_does_not_wind_up_before_contact() -> None:
    robot = fixed("go2")
    q = bent_configuration(robot)
    wall = wall_at(robot, "FL", q, gap=0.03)
    control = HybridControl(robot, "FL", force=("x",), damping_rate=400.0)
    seen, _ = press(control, wall, q, -10.0, 1.2)
    assert np.flatnonzero(seen < 0.0)[0] > 50
    assert abs(control.regulator.integral[0]) <= 10.0
    np.testing.assert_allclose(seen[-100:], -10.0, rtol=0.02)


def test_integral_is_frozen_at_torque_limits() -> None:
    robot = qd.load("go2", root="fixed")
    s = qd.Dynamics(robot).update(robot.q_home, np.zeros(robot.nv))
    for control in (HybridControl(robot, "FL", force=("x",)), ForceControl(robot, "FL", rows=("x",))):
        options = (s.placement("FL").translation.copy(),) if isinstance(control, HybridControl) else ()
        out: TaskTorque = control.compute(s, *options, np.array([-1e4]), measured=np.zeros(1))
        assert out.saturated_joints
        assert (np.abs(out.tau) <= robot.effort_limits).all()
        assert not control.regulator.integral.any()
        out = control.compute(s, *options, np.array([-10.0]), measured=np.zeros(1))
        assert not out.saturated_joints
        assert control.regulator.integral[0] == pytest.approx(-0.1)
        control.reset()
        assert not control.regulator.integral.any()


# -- passivity -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["go2", "four_link_leg", "ur5"])
@given(seed=st.integers(0, 10_000))
@settings(max_examples=15, deadline=None)
def test_feed_forward_force_is_passive(name: str, seed: int) -> None:
    robot = fixed(name)
    frame = robot.feet[0] if robot.feet else "tool0"
    dyn, rng = qd.Dynamics(robot), np.random.default_rng(seed)
    q, v = random_state(robot, seed)
    for rate, quiet in ((50.0, None), (0.0, NullSpacePosture(robot, kd=0.0))):
        control = ForceControl(robot, frame, damping_rate=rate, null_space=quiet)
        f = 30.0 * rng.normal(size=control.task.k)
        a = dyn.aba(q, v, robot.generalized_torques(control.compute(dyn.update(q, v), f).tau))
        storage = lambda q_, v_, control=control, f=f: control.storage(dyn.update(q_, v_), f)  # noqa: E731
        slope = float(along(robot.model, storage, q, v, a, 1e-3 / (1.0 + 0.1 * np.abs(a).max())))
        rounding = 1e-6 * (1.0 + abs(storage(q, v)) + np.abs(f).sum() * np.abs(v).sum())
        assert slope <= rounding
        if rate == 0.0:
            assert abs(slope) <= rounding


# -- invalid arguments ---------------------------------------------------------------------------------------------
def test_invalid_arguments_are_rejected_by_name() -> None:
    robot = qd.load("go2", root="fixed")
    for options, word in (
        ({"force": ()}, "force"),
        ({"force": ("rx",)}, "force"),
        ({"force": "x"}, "force"),
        ({"force": ("x", "x")}, "force"),
        ({"kp": -1.0}, "kp"),
        ({"ki": np.nan}, "ki"),
        ({"dt": 0.0}, "dt"),
        ({"integral_limit": -1.0}, "integral_limit"),
        ({"integral_limit": "low"}, "integral_limit"),
        ({"integral_limit": np.ones(2)}, "integral_limit"),
        ({"damping_rate": -1.0}, "damping_rate"),
        ({"bandwidth": 0.0}, "bandwidth"),
        ({"damping_ratio": np.inf}, "damping_ratio"),
        ({"axes": 2.0 * np.eye(3)}, "axes"),
        ({"axes": -np.eye(3)}, "axes"),
        ({"axes": np.eye(2)}, "axes"),
    ):
        raises(qd.ArgumentError, word, HybridControl, robot, "FL", **{"force": ("x",), **options})
    raises(qd.ArgumentError, "rows", ForceControl, robot, "FL", rows=("rx",))
    raises(qd.UnknownNameError, "FL", ForceControl, robot, "FLL")
    hybrid, pure = HybridControl(robot, "FL", force=("x",)), ForceControl(robot, "FL")
    s, at = qd.Dynamics(robot).update(robot.q_home, np.zeros(robot.nv)), np.zeros(3)
    for call, word in (
        (lambda: hybrid.compute(s, at, np.zeros(2)), "force"),
        (lambda: hybrid.compute(s, at, np.array([np.nan])), "force"),
        (lambda: hybrid.compute(s, at, np.zeros(1), measured=np.zeros(3)), "measured"),
        (lambda: hybrid.compute(s, at[:2], np.zeros(1)), "target"),
        (lambda: pure.compute(s, np.zeros(1)), "force"),
        (lambda: pure.compute(s, at, measured=at * np.nan), "measured"),
        (lambda: pure.storage(s, np.zeros(1)), "force"),
    ):
        raises(qd.ArgumentError, word, call)


def test_orientation_is_held_during_force_control() -> None:
    robot = fixed("ur5")
    dyn = qd.Dynamics(robot)
    q = bent_configuration(robot)
    place = dyn.frame_placement(q, "tool0")
    tilted = Pose.of(pin.exp3(np.array([0.05, -0.03, 0.1])) @ place.rotation, place.translation)
    control = HybridControl(robot, "tool0", force=("z",), rows=("x", "y", "z", "rx", "ry", "rz"), damping_rate=0.0)
    f = np.array([20.0])  # the table pushes up with the desired force
    end, _ = run(
        robot,
        q,
        np.zeros(robot.nv),
        lambda s, _: control.compute(s, tilted, f).tau,
        1.0,
        dt=1e-3,
        external={"tool0": np.array([0.0, 0.0, 20.0])},
    )
    got = dyn.frame_placement(end, "tool0")
    assert np.linalg.norm(pin.log3(got.rotation.T @ tilted.rotation)) < 1e-3
    np.testing.assert_allclose(got.translation[:2], place.translation[:2], atol=1e-3)
