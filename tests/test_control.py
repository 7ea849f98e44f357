"""Gravity and friction compensation balance the robot; default joint gains are stable on every robot."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest
from raising import raises

import quaddyn as qd
from quaddyn.control import JointPD, friction_compensation, gravity_compensation

QUADRUPEDS = ("go2", "anymal_c", "hyq", "solo8", "small_quadruped")
G = 9.81


def standing(name: str, root: str = "free") -> tuple[qd.Robot, qd.Dynamics, qd.State]:
    robot = qd.load(name, root=root)
    dyn = qd.Dynamics(robot)
    return robot, dyn, dyn.update(robot.q_home, np.zeros(robot.nv))


def unactuated(robot: qd.Robot) -> np.ndarray:
    return np.setdiff1d(np.arange(robot.nv), robot.actuated_index)


# -- gravity compensation ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", QUADRUPEDS)
@pytest.mark.parametrize("root", ["free", "planar"])
def test_gravity_compensation_gives_zero_acceleration_with_vertical_forces(name: str, root: str) -> None:
    robot, dyn, s = standing(name, root)
    hold = gravity_compensation(s)
    assert hold.residual < 1e-9 * robot.mass * G
    # independent check: forward dynamics under these torques and forces
    a = dyn.aba(robot.q_home, np.zeros(robot.nv), robot.generalized_torques(hold.tau), fext=hold.forces)
    np.testing.assert_allclose(a, 0.0, atol=1e-8)
    forces = np.array(list(hold.forces.values()))
    assert forces[:, 2].sum() == pytest.approx(robot.mass * G, rel=1e-9) and (forces[:, 2] > 0.0).all()
    assert np.linalg.norm(forces[:, :2], axis=1).max() < 1e-9 * robot.mass * G
    assert hold.margin == pytest.approx(0.6 * min(f[2] for f in hold.forces.values()))


def test_compensation_matches_inverse_dynamics_in_motion_on_three_feet() -> None:
    robot, dyn, _ = standing("go2")
    rng = np.random.default_rng(0)
    for _ in range(20):
        q = pin.integrate(robot.model, robot.q_home, 0.2 * rng.normal(size=robot.nv))
        v, a = rng.normal(size=(2, robot.nv))
        s = dyn.update(q, v)
        hold = gravity_compensation(s, ("FL", "FR", "RR"), acceleration=a)
        assert set(hold.forces) == {"FL", "FR", "RR"}
        assert hold.residual < 1e-8
        tau = dyn.rnea(q, v, a, fext=hold.forces)
        np.testing.assert_allclose(tau, robot.generalized_torques(hold.tau), atol=1e-8)


def test_compensation_forces_are_minimal_in_the_cone_weighting() -> None:
    robot, dyn, _ = standing("go2")
    rng = np.random.default_rng(1)
    s = dyn.update(pin.integrate(robot.model, robot.q_home, 0.1 * rng.normal(size=robot.nv)), np.zeros(robot.nv))
    mu = 0.5
    hold = gravity_compensation(s, friction=mu)
    weights = np.tile((1.0 / mu**2, 1.0 / mu**2, 1.0), 4)
    f = np.concatenate([hold.forces[foot] for foot in robot.feet])
    A = np.vstack([s.jacobian(foot)[:3] for foot in robot.feet])[:, :6].T
    null = np.linalg.svd(A)[2][6:].T  # internal forces, which do not accelerate the base
    np.testing.assert_allclose(A @ null, 0.0, atol=1e-12)
    np.testing.assert_allclose(null.T @ (weights * f), 0.0, atol=1e-9)  # first-order optimality


@pytest.mark.parametrize("stance", [("FL",), ("FL", "RR"), ()])
def test_too_few_feet_leave_the_least_unbalanced_force(stance: tuple[str, ...]) -> None:
    robot, _, s = standing("go2")
    hold = gravity_compensation(s, stance)
    rows = unactuated(robot)
    J = np.vstack([np.zeros((0, robot.nv)), *(s.jacobian(foot)[:3] for foot in stance)])
    f = np.concatenate([np.zeros(0), *(hold.forces[foot] for foot in stance)])
    rest = (s.h - J.T @ f)[rows]
    assert hold.residual == pytest.approx(np.abs(rest).max())
    assert hold.residual > 1e-3
    # Gauss' principle: the unbalanced force is minimal in the metric of the inverse inertia
    W = np.linalg.inv(s.M[np.ix_(rows, rows)])
    np.testing.assert_allclose(J[:, rows] @ W @ rest, 0.0, atol=1e-9)
    # the actuated rows still balance
    np.testing.assert_allclose(hold.tau, (s.h - J.T @ f)[robot.actuated_index])


def test_fixed_root_needs_gravity_torque_alone() -> None:
    robot, dyn, s = standing("go2", "fixed")
    hold = gravity_compensation(s)
    np.testing.assert_allclose(hold.tau, dyn.gravity(robot.q_home), atol=1e-12)
    assert hold.residual == 0.0
    assert not any(f.any() for f in hold.forces.values())


def test_passive_joints_are_balanced_by_foot_forces(go2: qd.Robot) -> None:
    robot = qd.load("go2", actuated=[n for n in go2.actuated if n != "FL_calf_joint"])
    dyn = qd.Dynamics(robot)
    hold = gravity_compensation(dyn.update(robot.q_home, np.zeros(robot.nv)))
    assert robot.nu == 11 and hold.tau.shape == (11,)
    assert hold.residual < 1e-9
    a = dyn.aba(robot.q_home, np.zeros(robot.nv), robot.generalized_torques(hold.tau), fext=hold.forces)
    np.testing.assert_allclose(a, 0.0, atol=1e-8)


def test_margin_is_negative_if_a_foot_would_have_to_pull() -> None:
    robot, dyn, _ = standing("go2")
    s = dyn.update(robot.q_home, np.zeros(robot.nv))
    assert gravity_compensation(s).margin > 0.0
    tip = np.zeros(robot.nv)
    tip[4] = 300.0  # a pitch acceleration that unilateral contacts cannot produce
    assert gravity_compensation(s, acceleration=tip).margin < 0.0


def test_compensation_rejects_invalid_arguments_by_name() -> None:
    robot, dyn, s = standing("go2")
    raises(qd.UnknownNameError, "FL", gravity_compensation, s, ("LF",))
    for options in (
        {"stance": ("FL", "FL")},
        {"friction": 0.0},
        {"friction": np.nan},
        {"rank_tolerance": 1.0},
        {"acceleration": np.zeros(3)},
        {"acceleration": "up"},
        {"acceleration": np.full(robot.nv, np.nan)},
    ):
        raises(qd.ArgumentError, next(iter(options)), gravity_compensation, s, **options)
    dyn.update(robot.q_home, np.zeros(robot.nv))
    with pytest.raises(qd.StaleStateError):
        gravity_compensation(s)


# -- friction compensation -----------------------------------------------------------------------------------------
def test_friction_compensation_equals_dry_and_viscous_friction() -> None:
    robot = qd.load("small_quadruped")
    assert robot.damping.any() and robot.friction.any()
    v = np.random.default_rng(0).normal(size=robot.nv)
    expected = qd.Dynamics(robot).joint_friction(v)[robot.actuated_index]
    np.testing.assert_allclose(friction_compensation(robot, v), expected, rtol=1e-12)
    assert np.abs(friction_compensation(robot, 1e-12 * v)).max() < 1e-9  # rounding errors of v cause no torque
    raises(qd.ArgumentError, "v_desired", friction_compensation, robot, np.zeros(3))
    for speed in (0.0, -1.0, np.nan, "slow"):  # speed 0 would give 0 / 0 for a joint at rest
        with pytest.raises(qd.ArgumentError, match="stiction_speed"):
            friction_compensation(robot, np.zeros(robot.nv), stiction_speed=speed)


# -- joint PD ------------------------------------------------------------------------------------------------------
def test_pd_is_a_spring_and_a_damper_plus_feedforward(go2: qd.Robot) -> None:
    kp, kd = np.arange(12.0), 0.1 * np.arange(12.0)
    pd = JointPD(go2, kp=kp, kd=kd)
    rng = np.random.default_rng(0)
    e, rate, extra = 0.1 * rng.normal(size=(3, 12))
    target, v_desired = go2.q_home.copy(), np.zeros(go2.nv)
    target[7:] += e
    v_desired[6:] = rate
    out = pd.compute(go2.q_home, np.zeros(go2.nv), target, v_desired, feedforward=extra)
    np.testing.assert_allclose(out.tau, kp * e + kd * rate + extra, atol=1e-12)
    assert out.saturated_joints == ()


def test_pd_uses_the_shortest_angle_on_continuous_joints() -> None:
    robot = qd.load("double_pendulum_continuous")
    pd = JointPD(robot, kp=1.0, kd=0.0)
    at = np.array([np.cos(3.0), np.sin(3.0), 1.0, 0.0])
    to = np.array([np.cos(-3.0), np.sin(-3.0), 1.0, 0.0])
    tau = pd.compute(at, np.zeros(2), to).tau
    np.testing.assert_allclose(tau, [2.0 * np.pi - 6.0, 0.0], atol=1e-12)


def test_pd_clamps_torques_and_names_the_joints(go2: qd.Robot) -> None:
    pd = JointPD(go2)
    extra = np.zeros(12)
    extra[3], extra[5] = 1e3, -1e3
    out = pd.compute(go2.q_home, np.zeros(go2.nv), go2.q_home, feedforward=extra)
    assert out.saturated_joints == (go2.actuated[3], go2.actuated[5])
    assert out.tau[3] == go2.effort_limits[3] and out.tau[5] == -go2.effort_limits[5]


def test_finite_arguments_give_finite_torques_or_an_overflow_error() -> None:
    robot, huge = qd.load("go2"), np.full(18, 1e308)
    out = JointPD(robot, kd=10.0).compute(robot.q_home, huge, robot.q_home)
    np.testing.assert_array_equal(out.tau, -robot.effort_limits)
    assert out.saturated_joints == robot.actuated
    q = robot.q_home.copy()
    q[7:] = -1e300
    raises(qd.ArgumentError, r"tau.*overflow", JointPD(robot, kp=1e10, kd=1e10).compute, robot.q_home, -huge, q)


@pytest.mark.parametrize("name", [*QUADRUPEDS, "b1_z1", "ur5", "finger_edu"])
@pytest.mark.parametrize("dt", [1e-3, 2e-3])
def test_default_gains_are_stable_in_discrete_time_without_contacts(name: str, dt: float) -> None:
    robot = qd.load(name)
    pd = JointPD(robot, dt=dt)
    assert (pd.kp > 0.0).all() and (pd.kd > 0.0).all()
    W = qd.Dynamics(robot).mass_inverse(robot.q_home)[np.ix_(robot.actuated_index, robot.actuated_index)]
    # semi-implicit Euler of the linearized loop: v+ = v - dt W (kp e + kd v), e+ = e + dt v+
    velocity = np.hstack([-dt * W * pd.kp, np.eye(robot.nu) - dt * W * pd.kd])
    step = np.vstack([np.hstack([np.eye(robot.nu), np.zeros((robot.nu, robot.nu))]) + dt * velocity, velocity])
    assert np.abs(np.linalg.eigvals(step)).max() < 1.0


@pytest.mark.parametrize("ratio", [0.5, 2.0])
def test_default_gains_follow_from_the_joint_inertia(ratio: float) -> None:
    """With a short period, which does not limit the gains: kd = 2 ratio I w and kp = I w^2."""
    robot, w = qd.load("ur5"), 2.0 * np.pi * 6.0 * ratio
    pd = JointPD(robot, damping_ratio=ratio, bandwidth=6.0 * ratio, dt=1e-7)
    inertia = qd.Dynamics(robot).crba(robot.q_home).diagonal()
    np.testing.assert_allclose(pd.kd, 2.0 * ratio * inertia * w, rtol=1e-9)
    np.testing.assert_allclose(pd.kp, inertia * w * w, rtol=1e-9)


def test_pd_rejects_invalid_gains_and_vectors_by_name(go2: qd.Robot) -> None:
    for options in (
        {"kp": -1.0},
        {"kd": np.full(12, np.nan)},
        {"kp": np.ones(3)},
        {"bandwidth": 0.0},
        {"damping_ratio": -1.0},
        {"dt": np.inf},
        {"kp": "stiff"},
        {"bandwidth": "wide"},
        {"dt": None},
    ):
        raises(qd.ArgumentError, next(iter(options)), JointPD, go2, **options)
    pd, q, v = JointPD(go2), go2.q_home, np.zeros(go2.nv)
    with pytest.raises(ValueError, match="read-only"):
        pd.kp[0] = 1.0
    for call in (
        ("q", lambda: pd.compute(q[:-1], v, q)),
        ("v", lambda: pd.compute(q, v * np.nan, q)),
        ("q_desired", lambda: pd.compute(q, v, v)),
        ("v_desired", lambda: pd.compute(q, v, q, q)),
        ("feedforward", lambda: pd.compute(q, v, q, feedforward=v)),
    ):
        raises(qd.ArgumentError, call[0], call[1])
