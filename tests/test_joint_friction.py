"""Whole-body control compensates joint friction along the desired motion, includes it in all torques and reports it."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
from numpy_wbc import assert_same_rows, numpy_tick
from raising import raises

import quaddyn as qd
from quaddyn.wbc import JointFriction, LinearConstraint, WholeBodyController, default_constraints, replay
from quaddyn.wbc.element import scales


@pytest.fixture(scope="module")
def robot_with_friction() -> qd.Robot:
    """A robot with dry and viscous friction in all joints."""
    return qd.load("small_quadruped", friction=0.12, damping=0.03)


class Law:
    """The law of `JointFriction` in NumPy, tick by tick."""

    def __init__(self, robot: qd.Robot, dt: float) -> None:
        unit = scales(robot)
        self.robot, self.dt, self.time = robot, dt, 0.4 * np.sqrt(unit.length / unit.gravity)
        self.limit = np.full(robot.nv, np.inf)
        self.limit[robot.actuated_index] = robot.velocity_limits
        self.expected: np.ndarray | None = None

    def __call__(self, v: np.ndarray) -> np.ndarray:
        """Computes the friction at the desired velocity and stores that velocity."""
        w = v if self.expected is None else v + self.time / (self.time + self.dt) * (self.expected - v)
        self.wanted = np.clip(w, -self.limit, self.limit)
        x = np.clip(self.wanted / 0.1, -1.0, 1.0)
        return np.asarray(self.robot.damping * self.wanted + self.robot.friction * x * (3.0 - x * x) / 2.0)

    def after(self, a: np.ndarray) -> None:
        """Updates the expected velocity from the computed accelerations."""
        self.expected = self.wanted + self.dt * a


@pytest.mark.parametrize("passive", [(), ("FL_calf_joint",)])
def test_rows_and_torques_include_friction_at_desired_velocity(passive: tuple[str, ...]) -> None:
    """Compares the equations of motion of actuated and passive joints with plain matrices."""
    given = {"friction": 0.12, "damping": 0.03}
    robot = qd.load("small_quadruped", **given)
    robot = qd.load("small_quadruped", actuated=[n for n in robot.actuated if n not in passive], **given)
    own = LinearConstraint("own", -1.0, 1.0, torque=np.eye(robot.nu)[4:5], acceleration=np.eye(robot.nv)[6:7])
    wbc = WholeBodyController(robot, constraints=[*default_constraints(robot, 1e-3), own])
    wbc.tasks.torque.limits = 2.0
    dyn, law, rng = qd.Dynamics(robot), Law(robot, wbc.dt), np.random.default_rng(0)
    law.limit[:] = 0.4  # exceeded in both directions
    wbc.tasks["joint friction"].velocity = law.limit
    q, v, before = robot.q_home.copy(), np.zeros(robot.nv), None
    for k in range(40):
        if k == 20:
            v = v + 0.5 * rng.normal(size=robot.nv)
        s = dyn.update(q, v)
        c = wbc.compute(s, robot.feet[: 4 - k // 30])
        r = law(v)
        np.testing.assert_allclose(c.friction_torque, r[robot.actuated_index], atol=1e-13)
        found = numpy_tick(wbc, s, before, r)
        assert_same_rows(c.details.problem, found.problem)
        a, _, tau = found.unknowns.recover(c.details.x)
        np.testing.assert_allclose(c.tau, tau, atol=1e-9)
        np.testing.assert_allclose(c.acceleration, a, atol=1e-9)
        law.after(c.acceleration)
        before = c.tau
        stuck = 0.5 * rng.normal(size=robot.nv) if k % 7 == 0 else 0.0  # acceleration error of the plant
        v = v + wbc.dt * (c.acceleration + stuck)
        q = pin.integrate(robot.model, q, wbc.dt * v)
    assert np.abs(c.friction_torque).max() > 0.1
    assert v.min() < -0.4 and v.max() > 0.4


def test_frictionless_robot_has_same_torques_without_friction_constraint(go2: qd.Robot) -> None:
    assert not go2.friction.any() and not go2.damping.any()
    constraints = [e for e in default_constraints(go2, 1e-3) if not isinstance(e, JointFriction)]
    with_, without = WholeBodyController(go2), WholeBodyController(go2, constraints=constraints)
    dyn, rng = qd.Dynamics(go2), np.random.default_rng(1)
    for k in range(20):
        q = pin.integrate(go2.model, go2.q_home, 0.1 * rng.normal(size=go2.nv))
        s = dyn.update(q, rng.normal(size=go2.nv))
        one, other = (wbc.compute(s, go2.feet[: 4 - k % 3]) for wbc in (with_, without))
        assert one.tau.tobytes() == other.tau.tobytes() and one.status == other.status
        assert not one.friction_torque.any()


def test_friction_torque_is_explained_saved_and_reset(robot_with_friction: qd.Robot, tmp_path: Path) -> None:
    wbc, dyn = WholeBodyController(robot_with_friction), qd.Dynamics(robot_with_friction)
    q, v = robot_with_friction.q_home, 0.4 * np.eye(robot_with_friction.nv)[8]
    first = wbc.compute(dyn.update(q, v))
    line = first.explain().splitlines()[-1]
    assert (
        line == f"compensation of joint friction requires torques up to {0.12 + 0.03 * 0.4:.3g} N m "
        f"({robot_with_friction.actuated[2]})"
    )
    wbc.compute(dyn.update(q, v))
    third = wbc.compute(dyn.update(q, v))
    assert not np.array_equal(third.friction_torque, first.friction_torque)  # the measured velocity lags
    wbc.save_tick(tmp_path / "tick.npz")
    again = replay(tmp_path / "tick.npz")
    assert again.identical
    for copy in (again.command, pickle.loads(pickle.dumps(third))):
        np.testing.assert_array_equal(copy.friction_torque, third.friction_torque)
        assert copy.explain() == third.explain()
    wbc.reset()
    assert wbc.compute(dyn.update(q, v)).tau.tobytes() == first.tau.tobytes()
    wbc.tasks.joint_friction.compensation_fraction = 0.0
    for velocity in (v, -v):
        ignored = wbc.compute(dyn.update(q, velocity))
        assert not ignored.friction_torque.any()
        assert ignored.explain().splitlines()[-1] == (
            "joint friction that is not compensated causes torque errors up to 0.132 N m "
            f"({robot_with_friction.actuated[2]})"
        )


def test_friction_that_is_set_later_starts_at_the_measured_velocity(robot_with_friction: qd.Robot) -> None:
    wbc, dyn = WholeBodyController(robot_with_friction), qd.Dynamics(robot_with_friction)
    v, friction = 0.4 * np.eye(robot_with_friction.nv)[8], wbc.tasks.joint_friction
    friction.damping[8] = friction.coulomb[8] = 0.0
    wbc.compute(dyn.update(robot_with_friction.q_home, v))
    friction.damping[8] = 1.0
    command = wbc.compute(dyn.update(robot_with_friction.q_home, v))
    assert command.friction_torque[2] == pytest.approx(0.4)


def test_invalid_friction_parameters_are_rejected(robot_with_friction: qd.Robot) -> None:
    friction = JointFriction(
        robot_with_friction, coulomb=0.2, damping=np.arange(robot_with_friction.nv), time_constant=0.0
    )
    assert friction.coulomb[7] == 0.2 and friction.damping[7] == 7.0 and friction.time_constant == 0.0
    for name in ("coulomb", "damping"):
        for bad in (-1.0, np.nan, np.inf, np.zeros(3)):
            raises(qd.ArgumentError, name, setattr, friction, name, bad)
    raises(qd.ArgumentError, "compensation_fraction", JointFriction, robot_with_friction, compensation_fraction=-0.1)
    raises(qd.ArgumentError, "stiction_speed", JointFriction, robot_with_friction, stiction_speed=0.0)
