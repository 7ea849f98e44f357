"""Cartesian impedance: stiffness, modal damping, passivity, null-space posture, inertia shaping, invalid arguments."""

from __future__ import annotations

import os

import numpy as np
import pinocchio as pin
import pytest
from control_scene import constrained_dynamics, random_state, run, unlimited_robot
from finite_differences import along
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from raising import raises
from slow_parameters import others_slow

import quaddyn as qd
from quaddyn.control import CartesianImpedance, NullSpacePosture, TaskTorque, distribute_load, gravity_compensation
from quaddyn.control.cartesian_task import CartesianTask, inverse_right_jacobian, inverse_right_jacobian_rate
from quaddyn.control.gains import as_gain_matrix, compute_modal_damping
from quaddyn.control.operational_space import compute_operational_space
from quaddyn.urdf.tree import Pose

Array = np.ndarray
#: (robot, root, frame): legs of two to four joints, legs of quadrupeds, arms with and without redundancy
LIMBS = (
    ("two_link_leg", "fixed", "leg"),
    ("three_link_leg", "fixed", "leg"),
    ("four_link_leg", "fixed", "leg"),
    ("go2", "fixed", "FL"),
    ("solo8", "fixed", "RR"),
    ("anymal_c", "fixed", "RL"),
    ("ur5", "fixed", "tool0"),
    ("panda", "fixed", "panda_hand_tcp"),
)
SEEDS = st.integers(0, 10_000)


def mass_at(robot: qd.Robot, frame: str, q: Array, rows: tuple[str, ...]) -> Array:
    """Task inertia (J M^-1 J^T)^-1, computed independently of the code under test."""
    dyn, index = qd.Dynamics(robot), ["x y z rx ry rz".split().index(row) for row in rows]
    J = dyn.frame_jacobian(q, frame)[index]
    return np.linalg.inv(J @ dyn.mass_inverse(q) @ J.T)


def psd(seed: int, k: int, size: float, rank: int | None = None) -> Array:
    B = np.random.default_rng(seed).normal(size=(k, rank or k))
    return size * B @ B.T / k


# -- components ----------------------------------------------------------------------------------------------------
@given(SEEDS, st.floats(0.0, 2.0))
@settings(max_examples=50 if "QUADDYN_SLOW" in os.environ else 25, deadline=None)
def test_every_mode_has_the_requested_damping_ratio(seed: int, ratio: float) -> None:
    k = 1 + seed % 6
    inertia, K = psd(seed, k, 3.0) + 0.1 * np.eye(k), psd(seed + 1, k, 500.0) + np.eye(k)
    R = np.linalg.cholesky(inertia)
    D, w = compute_modal_damping(R, np.linalg.inv(R), K, ratio)
    np.testing.assert_allclose(D, D.T, atol=1e-9 * max(np.abs(D).max(), 1.0))
    # independent computation: the roots of det(inertia s^2 + D s + K)
    companion = np.block([[np.zeros((k, k)), np.eye(k)], [-np.linalg.solve(inertia, K), -np.linalg.solve(inertia, D)]])
    roots = np.linalg.eigvals(companion)
    expected = np.concatenate([np.roots((1.0, 2.0 * ratio * x, x * x)) for x in w])
    for root in expected:  # rounding splits double roots (ratio 1) by its square root
        assert np.abs(roots - root).min() < 1e-5 * w[-1] * max(1.0, ratio)


@pytest.mark.parametrize(("name", "root", "frame"), LIMBS)
def test_task_inertia_matches_the_formula_and_null_space_forces_do_not_accelerate_the_task(
    name: str, root: str, frame: str
) -> None:
    robot = unlimited_robot(name, root)
    dyn, rng = qd.Dynamics(robot), np.random.default_rng(0)
    for seed in range(5):
        q, v = random_state(robot, seed)
        s = dyn.update(q, v)
        task = CartesianTask(robot, frame)
        motion = task.compute_motion(s, s.placement(frame).translation)
        space = compute_operational_space(s, motion.J, task.is_angular)
        if space.is_singular:
            continue
        np.testing.assert_allclose(space.inertia, mass_at(robot, frame, q, task.rows), rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(space.root @ space.inverse_root, np.eye(task.k), atol=1e-9)
        tau = space.null_space_force(rng.normal(size=robot.nv))
        np.testing.assert_allclose(motion.J @ np.linalg.solve(s.M, tau), 0.0, atol=1e-8 * (1.0 + np.abs(tau).max()))
        np.testing.assert_allclose(motion.J @ space.null_space_velocity(v), 0.0, atol=1e-9)


def test_task_inertia_in_stance_includes_the_contact_constraints() -> None:
    robot = unlimited_robot("go2")
    dyn, rng = qd.Dynamics(robot), np.random.default_rng(1)
    feet = ("FR", "RL", "RR")
    q, v = random_state(robot, 4)
    s = dyn.update(q, v)
    task = CartesianTask(robot, "FL")
    motion = task.compute_motion(s, np.zeros(3))
    space = compute_operational_space(s, motion.J, task.is_angular, feet)
    F = rng.normal(size=3)
    # change of J a due to J^T F, with the stance feet held by a dense KKT system
    bare = dict(fext={})
    still = constrained_dynamics(robot, dyn, q, v, np.zeros(robot.nu), feet, **bare)[0]
    pushed = constrained_dynamics(robot, dyn, q, v, np.zeros(robot.nu), feet, {"FL": F})[0]
    np.testing.assert_allclose(space.inertia @ (motion.J @ (pushed - still)), F, atol=1e-8)
    # a_0, the acceleration due to the stance constraints alone
    J = np.vstack([s.jacobian(foot)[:3] for foot in feet])
    drift = np.concatenate([s.drift(foot)[:3] for foot in feet])
    np.testing.assert_allclose(J @ space.stance_acceleration, -drift, atol=1e-9)
    np.testing.assert_allclose(J @ space.constrained_inverse, 0.0, atol=1e-9)


@given(SEEDS, st.floats(1e-6, 3.0))
@settings(max_examples=50 if "QUADDYN_SLOW" in os.environ else 25, deadline=None)
def test_rotation_jacobian_agrees_with_pinocchio_and_its_rate_with_its_derivative(seed: int, angle: float) -> None:
    rng = np.random.default_rng(seed)
    e, rate = rng.normal(size=(2, 3))
    e *= angle / np.linalg.norm(e)
    np.testing.assert_allclose(inverse_right_jacobian(e), pin.Jlog3(pin.exp3(e)), atol=1e-7)
    h = 1e-5
    numeric = (inverse_right_jacobian(e + h * rate) - inverse_right_jacobian(e - h * rate)) / (2 * h)
    np.testing.assert_allclose(inverse_right_jacobian_rate(e, rate), numeric, atol=1e-7)


@pytest.mark.parametrize("seed", range(4))
def test_error_rate_and_drift_are_derivatives_of_one_another(seed: int) -> None:
    robot = unlimited_robot("panda")
    rng = np.random.default_rng(seed)
    axes = pin.exp3(rng.normal(size=3))
    task = CartesianTask(robot, "panda_hand_tcp", ("x", "rz", "y", "ry", "z", "rx"), axes=axes)
    dyn = qd.Dynamics(robot)
    q, v = random_state(robot, seed)
    a = rng.normal(size=robot.nv)
    place = dyn.frame_placement(q, "panda_hand_tcp")
    target = Pose.of(pin.exp3(rng.normal(size=3)) @ place.rotation, place.translation + rng.normal(size=3))
    motion = task.compute_motion(dyn.update(q, v), target)
    kept = motion.J, motion.drift, motion.rate
    error = lambda q_, v_: task.compute_motion(dyn.update(q_, v_), target).error  # noqa: E731
    rate = lambda q_, v_: task.compute_motion(dyn.update(q_, v_), target).rate  # noqa: E731
    np.testing.assert_allclose(along(robot, error, q, v, a), kept[2], atol=1e-8)
    np.testing.assert_allclose(kept[2], -kept[0] @ v, atol=1e-10)
    np.testing.assert_allclose(along(robot, rate, q, v, a), -kept[0] @ a - kept[1], atol=1e-7)


def test_rate_and_acceleration_of_a_moving_target_are_in_row_coordinates() -> None:
    robot = unlimited_robot("ur5")
    dyn, rng = qd.Dynamics(robot), np.random.default_rng(5)
    q, v = random_state(robot, 5)
    p, w = rng.normal(size=(2, 3))
    R0, alpha = pin.exp3(rng.normal(size=3)), rng.normal(size=3)
    task = CartesianTask(robot, "tool0", ("x", "rx", "ry", "rz"))

    def at(t: float) -> tuple[Pose, Array, Array]:
        # constant axis: angular velocity (1 + t) alpha, angle t + t^2 / 2
        turn = pin.exp3((t + 0.5 * t * t) * alpha) @ R0
        return Pose.of(turn, p + t * w), np.concatenate((w, (1.0 + t) * alpha)), np.concatenate((np.zeros(3), alpha))

    def motion(t: float) -> tuple[Array, Array, Array]:
        s = dyn.update(robot.algorithms.integrate(robot.model, q, t * v), v)
        m = task.compute_motion(s, *at(t))
        return m.error, m.rate, m.acceleration - m.drift

    h = 1e-4
    before, now, after = motion(-h), motion(0.0), motion(h)
    np.testing.assert_allclose((after[0] - before[0]) / (2 * h), now[1], atol=1e-6)
    np.testing.assert_allclose((after[1] - before[1]) / (2 * h), now[2], atol=1e-5)


# -- passivity -----------------------------------------------------------------------------------------------------
def pose_target(robot: qd.Robot, frame: str, q: Array, seed: int) -> Pose:
    rng = np.random.default_rng(seed + 77)
    place = qd.Dynamics(robot).frame_placement(q, frame)
    return Pose.of(pin.exp3(0.6 * rng.normal(size=3)) @ place.rotation, place.translation + 0.1 * rng.normal(size=3))


CASES = [
    *((name, root, frame, None, ()) for name, root, frame in LIMBS),
    ("panda", "fixed", "panda_hand_tcp", ("x", "y", "z", "rx", "ry", "rz"), ()),
    ("ur5", "fixed", "tool0", ("z", "rx", "ry"), ()),
    ("go2", "free", "FL", None, ("FR", "RL", "RR")),
    ("anymal_c", "free", "base", ("x", "y", "z", "rx", "ry", "rz"), ("FL", "FR", "RL", "RR")),
    ("solo12", "planar", "FL", None, ("FR", "RL", "RR")),
]


#: Two legs, and all kinds of rows and roots.
QUICK = [CASES[0], CASES[3], *CASES[8:]]


@pytest.mark.parametrize(("name", "root", "frame", "rows", "feet"), others_slow(CASES, QUICK))
@given(seed=SEEDS)
@settings(max_examples=12, deadline=None)
@pytest.mark.filterwarnings("ignore:q. .* is far beyond its limits:RuntimeWarning")  # drawn for any range
def test_storage_function_decreases_by_the_dissipated_power(
    name: str, root: str, frame: str, rows: tuple[str, ...] | None, feet: tuple[str, ...], seed: int
) -> None:
    robot = ROBOTS.setdefault((name, root), unlimited_robot(name, root))
    dyn = qd.Dynamics(robot)
    q, v = random_state(robot, seed)
    if feet:  # a velocity compatible with the stance feet
        J = np.vstack([dyn.frame_jacobian(q, foot)[:3] for foot in feet])
        v = v - np.linalg.pinv(J, rcond=1e-9) @ (J @ v)
    task = CartesianTask(robot, frame, rows)
    target = pose_target(robot, frame, q, seed)
    target = target if any(task.is_angular) else target.translation
    K = psd(seed, task.k, 10.0 ** (seed % 4), rank=1 + seed % task.k)
    D = psd(seed + 1, task.k, 10.0)
    impedance = CartesianImpedance(robot, frame, rows=rows, stiffness=K, damping=None if seed % 2 else D)
    quiet = NullSpacePosture(robot, kd=0.0)
    frictionless = CartesianImpedance(robot, frame, rows=rows, stiffness=K, damping=np.zeros(task.k), null_space=quiet)

    def slope(controller: CartesianImpedance) -> tuple[float, float]:
        answer = controller.compute(dyn.update(q, v), target, stance=feet or None)
        assume(not feet or answer.residual < 1e-6)
        a = constrained_dynamics(robot, dyn, q, v, answer.tau, feet, {})[0]
        storage = lambda q_, v_: controller.storage(dyn.update(q_, v_), target)  # noqa: E731
        dV = along(robot, storage, q, v, a, 1e-3 / (1.0 + 0.1 * np.abs(a).max()))
        scale = abs(float(answer.tau @ v[robot.actuated_index])) + controller.storage(dyn.update(q, v), target)
        return float(dV), 1e-6 * (1.0 + scale)

    dV, rounding = slope(impedance)
    assert dV <= rounding
    dV, rounding = slope(frictionless)  # springs alone conserve energy
    assert abs(dV) <= rounding


def test_storage_function_with_shaped_inertia_is_spring_and_shaped_kinetic_energy() -> None:
    robot = unlimited_robot("two_link_leg", "fixed")
    q, v = random_state(robot, 3)
    s = qd.Dynamics(robot).update(q, v)
    K, inertia = np.diag((500.0, 300.0)), np.array([[3.0, 0.5], [0.5, 2.0]])
    impedance = CartesianImpedance(robot, "leg", rows=("x", "z"), stiffness=K, inertia=inertia)
    target = s.placement("leg").translation + np.array([0.03, 0.0, -0.02])
    speed = s.jacobian("leg")[[0, 2]] @ v
    expected = 0.5 * np.array([0.03, -0.02]) @ K @ (0.03, -0.02) + 0.5 * speed @ inertia @ speed
    assert impedance.storage(s, target) == pytest.approx(expected, rel=1e-12)


ROBOTS: dict[tuple[str, str], qd.Robot] = {}


@pytest.mark.parametrize("seed", others_slow(range(2), [0]))
@pytest.mark.parametrize("capacity", [0.0, 0.02, None])
def test_storage_function_including_energy_tank_never_increases(seed: int, capacity: float | None) -> None:
    robot = unlimited_robot("four_link_leg")
    q, v = random_state(robot, seed, 0.5)
    sought = robot.algorithms.integrate(robot.model, q, 0.4 * np.random.default_rng(seed).normal(size=4))
    start = qd.Dynamics(robot).frame_placement(q, "leg").translation + np.array([0.02, 0.0, -0.03])
    dt = 1e-4
    springs = NullSpacePosture(robot, sought, kp=5.0, kd=0.05, tank_capacity=capacity, dt=dt)
    impedance = CartesianImpedance(robot, "leg", stiffness=800.0, damping_ratio=0.2, null_space=springs)
    storage, tank, watch = [], [], qd.Dynamics(robot)

    def each(t: float, q_: Array, v_: Array, _: object) -> None:
        storage.append(impedance.storage(watch.update(q_, v_), start))
        tank.append(springs.tank_energy)

    run(robot, q, v, lambda s, _: impedance.compute(s, start).tau, 0.1, period=dt, dt=dt, each=each)
    initial = storage[0] - springs.tank_capacity
    growth = np.diff(storage)
    assert growth[growth > 0.0].sum() < 0.01 * initial  # error of the explicit integrator in 1,000 steps
    assert storage[-1] < storage[0] - 0.3 * initial
    assert min(tank) >= 0.0
    if capacity is None:
        assert min(tank) < max(tank)
    impedance.reset()
    assert springs.tank_energy == springs.tank_capacity


@pytest.mark.parametrize("capacity", [1e-4, 50.0])
def test_energy_of_null_space_springs_is_taken_from_the_tank(capacity: float) -> None:
    robot = unlimited_robot("four_link_leg")
    drained = 0
    for seed in range(20):
        q, v = random_state(robot, seed)
        s = qd.Dynamics(robot).update(q, v)
        springs = NullSpacePosture(robot, random_state(robot, seed + 50)[0], kp=20.0, kd=1e-3, tank_capacity=capacity)
        task = CartesianTask(robot, "leg")
        space = compute_operational_space(s, task.compute_motion(s, np.zeros(3)).J, task.is_angular)
        given_ = float(springs.force(s, space, 0.0) @ v) * springs.dt
        assert 0.0 <= springs.tank_energy <= capacity
        if springs.tank_energy < capacity:
            assert capacity - springs.tank_energy == pytest.approx(given_, rel=1e-6, abs=1e-12)
            drained += 1
        else:
            assert given_ <= 1e-12
    assert 3 < drained < 20


# -- inertia shaping -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("name", "root", "frame", "rows", "feet"), others_slow(CASES, QUICK))
def test_shaped_inertia_is_exact_at_any_state(
    name: str, root: str, frame: str, rows: tuple[str, ...] | None, feet: tuple[str, ...]
) -> None:
    robot = ROBOTS.setdefault((name, root), unlimited_robot(name, root))
    dyn = qd.Dynamics(robot)
    for seed in range(4):
        rng = np.random.default_rng(seed)
        q, v = random_state(robot, seed)
        if feet:
            J = np.vstack([dyn.frame_jacobian(q, foot)[:3] for foot in feet])
            v = v - np.linalg.pinv(J, rcond=1e-9) @ (J @ v)
        task = CartesianTask(robot, frame, rows)
        pose = pose_target(robot, frame, q, seed)
        target = pose if any(task.is_angular) else pose.translation
        Md, K = psd(seed, task.k, 2.0) + np.eye(task.k), psd(seed + 9, task.k, 200.0)
        impedance = CartesianImpedance(robot, frame, rows=rows, stiffness=K, inertia=Md, damping_ratio=0.5)
        external, velocity, acceleration = rng.normal(size=(3, 6))
        s = dyn.update(q, v)
        options = dict(velocity=velocity, acceleration=acceleration)
        answer = impedance.compute(s, target, external=external, stance=feet or None, **options)
        if answer.residual > 1e-6 or answer.is_singular:
            continue
        motion = task.compute_motion(s, target, velocity, acceleration)
        a = constrained_dynamics(robot, dyn, q, v, answer.tau, feet, {frame: external})[0]
        e_second = motion.acceleration - motion.J @ a - motion.drift
        R = np.linalg.cholesky(Md)
        D = compute_modal_damping(R, np.linalg.inv(R), K, 0.5)[0]
        left = Md @ e_second + D @ motion.rate + K @ motion.error
        if rows is None or len(rows) == 6:
            # Force on the rows that corresponds to the external wrench, with the coupling by the mobility.
            W = motion.J @ _mobility(robot, dyn, q, feet)
            pushed = np.linalg.solve(W @ motion.J.T, W @ (motion.twist_jacobian.T @ external))
            np.testing.assert_allclose(left, -pushed, atol=1e-5 * (1.0 + np.abs(left).max()))
        quiet = impedance.compute(s, target, stance=feet or None, **options)
        a = constrained_dynamics(robot, dyn, q, v, quiet.tau, feet, {})[0]
        e_second = motion.acceleration - motion.J @ a - motion.drift
        np.testing.assert_allclose(
            Md @ e_second + D @ motion.rate + K @ motion.error, 0.0, atol=1e-5 * (1.0 + np.abs(left).max())
        )


def _mobility(robot: qd.Robot, dyn: qd.Dynamics, q: Array, feet: tuple[str, ...]) -> Array:
    W = dyn.mass_inverse(q)
    if feet:
        J = np.vstack([dyn.frame_jacobian(q, foot)[:3] for foot in feet])
        W = W - W @ J.T @ np.linalg.pinv(J @ W @ J.T, rcond=1e-12, hermitian=True) @ J @ W
    return W


# -- a robot on its feet -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", others_slow(["go2", "anymal_c"], ["go2"]))
def test_swing_foot_has_the_impedance_while_the_others_stand(name: str) -> None:
    robot = unlimited_robot(name)
    feet = ("FR", "RL", "RR")
    q = np.array(robot.q_home)
    start = qd.Dynamics(robot).frame_placement(q, "FL").translation
    F = 0.03 * robot.mass * np.array([0.5, -0.3, 0.8])
    k = float(np.linalg.norm(F)) / 0.006
    # the null-space posture holds the trunk
    impedance = CartesianImpedance(robot, "FL", stiffness=k, null_space=NullSpacePosture(robot, q))
    out: list[TaskTorque] = []
    end, _ = run(
        robot,
        q,
        np.zeros(robot.nv),
        lambda s, _: out.append(impedance.compute(s, start)) or out[-1].tau,
        1.0,
        dt=1e-3,
        external={"FL": F},
        held=feet,
    )
    moved = qd.Dynamics(robot).frame_placement(end, "FL").translation - start
    assert np.linalg.norm(moved - F / k) < 0.01 * np.linalg.norm(F / k)
    assert set(out[-1].forces) == set(feet)
    assert out[-1].residual < 1e-6


def test_distributing_the_bias_force_equals_gravity_compensation(go2: qd.Robot) -> None:
    s = qd.Dynamics(go2).update(go2.q_home, 0.3 * np.ones(go2.nv))
    a, b = distribute_load(s, s.h.copy(), ("FL", "RR", "RL")), gravity_compensation(s, ("FL", "RR", "RL"))
    np.testing.assert_array_equal(a.tau, b.tau)
    assert a.margin == b.margin
    raises(qd.ArgumentError, "generalized_force", distribute_load, s, np.zeros(3))
    raises(qd.ArgumentError, "stance", distribute_load, s, s.h.copy(), "FL")


# -- hard cases ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["go2", "two_link_leg", "hyq", "ur5", "chain_4"])
@pytest.mark.parametrize("shaped", [False, True])
def test_singular_limb_gives_finite_torques_and_is_reported(name: str, shaped: bool) -> None:
    robot = qd.load(name, root="fixed", legs="leg" if name == "chain_4" else None)
    frame = robot.feet[0] if robot.feet else "tool0"
    q = robot.neutral  # all these robots are stretched in the neutral configuration
    rows = None if robot.feet else ("x", "y", "z", "rx", "ry", "rz")  # the wrist is singular
    k = 3 if rows is None else 6
    k = 2 if robot.feet == ("leg",) else k
    impedance = CartesianImpedance(
        robot, frame, rows=rows, stiffness=np.full(k, 1000.0), inertia=np.ones(k) if shaped else None
    )
    dyn, v = qd.Dynamics(robot), np.ones(robot.nv)
    place = dyn.frame_placement(q, frame)
    target = place.translation + 0.02 if rows is None else Pose.of(place.rotation, place.translation + 0.02)
    for tilt in (0.0, 1e-12, 1e-6, 1e-3):
        bend = robot.algorithms.integrate(robot.model, q, tilt * np.ones(robot.nv))
        out = impedance.compute(dyn.update(bend, v), target)
        assert out.is_singular
        assert np.isfinite(out.tau).all() and np.isfinite(out.force).all() and np.isfinite(out.frequencies).all()
        assert (np.abs(out.tau) <= robot.effort_limits).all()


def test_torques_are_clamped_and_joints_named() -> None:
    robot = qd.load("go2", root="fixed")
    s = qd.Dynamics(robot).update(robot.q_home, np.zeros(robot.nv))
    at = s.placement("FL").translation
    out = CartesianImpedance(robot, "FL", stiffness=1e5).compute(s, at + 0.1)
    assert set(out.saturated_joints) <= set(robot.legs["FL"].joints) and out.saturated_joints
    assert (np.abs(out.tau) <= robot.effort_limits).all()


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"stiffness": -1.0}, "stiffness"),
        ({"stiffness": np.nan}, "stiffness"),
        ({"stiffness": (1.0, 2.0)}, "stiffness"),
        ({"stiffness": np.array([[1.0, 0.5, 0], [0.0, 1.0, 0], [0, 0, 1]])}, "stiffness"),
        ({"stiffness": np.diag((1.0, 1.0, -1e-3))}, "stiffness"),
        ({"stiffness": "stiff"}, "stiffness"),
        ({"stiffness": [[1.0], [1.0, 2.0]]}, "stiffness"),
        ({"stiffness": 1.0, "rows": ("x", "ry")}, "stiffness.*radians"),
        ({"damping": -1.0}, "damping"),
        ({"damping_ratio": -0.1}, "damping_ratio"),
        ({"inertia": 0.0}, "inertia"),
        ({"inertia": np.diag((1.0, 1.0, 0.0))}, "inertia"),
        ({"rows": ("x", "x")}, "rows"),
        ({"rows": ()}, "rows"),
        ({"rows": ("w",)}, "rows"),
        ({"rows": "xyz"}, "rows"),
        ({"singular_tolerance": 0.0}, "singular_tolerance"),
        ({"singular_tolerance": 2.0}, "singular_tolerance"),
        ({"null_space": 1.0}, "null_space"),
    ],
)
def test_invalid_gains_and_rows_raise_errors_that_name_them(options: dict[str, object], word: str) -> None:
    robot = qd.load("go2", root="fixed")
    raises(qd.ArgumentError, word, CartesianImpedance, robot, "FL", **{"stiffness": 100.0, **options})


def test_invalid_frames_states_and_vectors_raise_errors_that_name_them() -> None:
    robot, other = qd.load("go2", root="fixed"), qd.load("solo12", root="fixed")
    raises(qd.UnknownNameError, "FL_foot", CartesianImpedance, robot, "FL_foott", stiffness=1.0)
    with pytest.raises(qd.ArgumentError, match="expected a frame that joints or the root can move"):
        CartesianImpedance(robot, robot.tree.root.name, stiffness=1.0)
    raises(qd.ArgumentTypeError, "robot", CartesianImpedance, "go2", "FL", stiffness=1.0)
    with pytest.raises(qd.ArgumentError, match="null_space"):
        CartesianImpedance(robot, "FL", stiffness=1.0, null_space=NullSpacePosture(other))
    for options, word in (
        ({"kp": 1.0}, "kp"),
        ({"posture": np.zeros(3)}, "posture"),
        ({"posture": robot.q_home, "kp": -1.0}, "kp"),
        ({"kd": np.ones(3)}, "kd"),
        ({"tank_capacity": -1.0}, "tank_capacity"),
        ({"dt": 0.0}, "dt"),
    ):
        raises(qd.ArgumentError, word, NullSpacePosture, robot, **options)
    impedance, turning = (
        CartesianImpedance(robot, "FL", stiffness=k, rows=r) for k, r in ((9.0, None), (1.0, ("ry",)))
    )
    dyn = qd.Dynamics(robot)
    s, at = dyn.update(robot.q_home, np.zeros(robot.nv)), np.zeros(3)
    skew = Pose.of(2.0 * np.eye(3), np.zeros(3))
    for call, word in (
        (lambda: impedance.compute(s, at[:2]), "target"),
        (lambda: impedance.compute(s, at * np.nan), "target"),
        (lambda: impedance.compute(s, ("a", 0.0, 0.0)), "target"),
        (lambda: turning.compute(s, at), "Pose"),
        (lambda: turning.compute(s, skew), "rotation"),
        (lambda: impedance.compute(s, at, velocity=np.zeros(2)), "velocity"),
        (lambda: impedance.compute(s, at, acceleration=at + np.inf), "acceleration"),
        (lambda: impedance.compute(s, at, external=np.zeros(4)), "external"),
        (lambda: impedance.compute("state", at), "s: expected"),
        (
            lambda: impedance.compute(qd.Dynamics(other).update(other.q_home, np.zeros(other.nv)), at),
            "s: expected a state",
        ),
        (lambda: impedance.storage(s, at[:1]), "target"),
    ):
        raises(qd.ArgumentError, word, call)
    raises(qd.UnknownNameError, "FL", impedance.compute, s, at, stance=("FLL",))
    dyn.update(robot.q_home, np.zeros(robot.nv))
    with pytest.raises(qd.StaleStateError):
        impedance.compute(s, at)


def test_gains_can_be_scalars_diagonals_or_matrices() -> None:
    np.testing.assert_array_equal(as_gain_matrix("K", 2, 2), 2.0 * np.eye(2))
    np.testing.assert_array_equal(as_gain_matrix("K", (1, 2), 2), np.diag((1.0, 2.0)))
    np.testing.assert_array_equal(as_gain_matrix("K", 0.0, 2), np.zeros((2, 2)))
    with pytest.raises(ValueError, match="read-only"):
        as_gain_matrix("K", 2.0, 2)[0, 0] = 1.0
