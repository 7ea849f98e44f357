"""Strict priorities on plain matrices: source E's worked example, strictness, rank and damping."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from raising import raises

import quaddyn as qd
from quaddyn.hierarchy import solve_equal_priority, solve_prioritized, solve_single_task
from quaddyn.kinematics.inverse import frame_task, joint_task

S3 = np.sqrt(3.0)
J_E = 0.5 * np.array([[0.0, -S3, -S3], [-4.0, -3.0, -1.0]])
W_E = np.ones(2)
J_2 = np.eye(3)[:2]
W_2 = np.zeros(2)
ANGLES = np.array([np.pi / 6, np.pi / 3, np.pi / 3])


def rounded(x):
    return np.round(x, 4).tolist()


def matrices():
    return (J_E, W_E), (J_2, W_2)


def on_the_robot():
    robot = qd.load("planar_3r")
    s = qd.Dynamics(robot).update(ANGLES, np.zeros(3))
    return frame_task(s, "tool", np.ones(2), rows=("x", "z")), joint_task(s, {"joint1": 0.0, "joint2": 0.0})


@pytest.mark.parametrize("example", [matrices, on_the_robot])
def test_solvers_reproduce_source_e_to_the_printed_digits(example):
    first, second = example()
    single = solve_single_task(*first)
    assert rounded(single.x) == [0.0688, -0.5602, -0.5945]
    assert single.errors[0] < 1e-28
    assert round(float(np.sum((second[1] - second[0] @ single.x) ** 2)), 4) == 0.3185
    equal = solve_equal_priority([first, second])
    assert rounded(equal.x) == [-0.1335, -0.0667, -1.1325]
    assert rounded(equal.errors) == [0.0059, 0.0223] and equal.ranks == (3,)
    strict = solve_prioritized([first, second])
    assert rounded(strict.x) == [-0.1691, -0.0845, -1.0702]
    assert strict.errors[0] < 1e-28 and round(strict.errors[1], 4) == 0.0357
    assert strict.ranks == (2, 1)


def test_planar_arm_has_the_jacobian_of_source_e():
    np.testing.assert_allclose(on_the_robot()[0][0], J_E, atol=1e-15)


def test_textbook_formula_violates_the_first_task_at_machine_tolerance_and_solver_does_not():
    """``J_2 N_1`` has a singular value of 6.5e-16; a pseudo-inverse that does not truncate it violates task 1."""
    pinv = np.linalg.pinv(J_E)
    N = np.eye(3) - pinv @ J_E
    assert 0.0 < np.linalg.svd(J_2 @ N)[1][1] < 1e-14
    naive = pinv @ W_E + N @ np.linalg.pinv(J_2 @ N, rcond=0.0) @ (W_2 - J_2 @ pinv @ W_E)
    assert np.sum((W_E - J_E @ naive) ** 2) > 1e-3
    for tolerance in (1e-14, 1e-9, 1e-3):
        assert solve_prioritized(matrices(), rank_tolerance=tolerance).errors[0] < 1e-28


def random_task(rng, n, *, deficient=False):
    m = int(rng.integers(1, n + 1))
    J = rng.normal(size=(m, n))
    if deficient and m > 1:
        J[-1] = J[0] * rng.normal()
    return J, rng.normal(size=m)


@settings(deadline=None, max_examples=200)
@given(st.integers(0, 2**32 - 1), st.booleans(), st.sampled_from([0.0, 1e-3, 0.5]))
def test_lower_tasks_do_not_change_the_residual_of_the_first(seed, deficient, damping):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 9))
    first, *others = [random_task(rng, n, deficient=deficient) for _ in range(4)]
    alone = solve_prioritized([first], damping=damping)
    scale = 1.0 + np.abs(alone.x).max()
    for levels in range(1, 4):
        below = solve_prioritized([first, *others[:levels]], damping=damping)
        assert abs(np.linalg.norm(below.residuals[0]) - np.linalg.norm(alone.residuals[0])) <= 1e-12 * scale
        np.testing.assert_allclose(below.residuals[0], alone.residuals[0], atol=2e-12 * scale)


@settings(deadline=None, max_examples=100)
@given(st.integers(0, 2**32 - 1))
def test_every_level_is_the_least_squares_optimum_in_the_null_space_of_the_levels_above(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 9))
    tasks = [random_task(rng, n) for _ in range(3)]
    solution = solve_prioritized(tasks)
    for k, (J, _) in enumerate(tasks):
        above = np.vstack([np.zeros((1, n)), *(A for A, _ in tasks[:k])])
        rank = np.linalg.matrix_rank(above)
        Z = np.linalg.svd(above)[2][rank:].T
        # No motion in the null space of the levels above reduces the residual.
        gradient = Z.T @ J.T @ solution.residuals[k]
        assert np.abs(gradient).max(initial=0.0) < 1e-8 * (1.0 + np.abs(solution.x).max())
    assert sum(solution.ranks) <= n


def test_single_task_solution_equals_the_pseudo_inverse():
    rng = np.random.default_rng(0)
    for shape in [(3, 5), (5, 3), (4, 4)]:
        J, w = rng.normal(size=shape), rng.normal(size=shape[0])
        np.testing.assert_allclose(solve_single_task(J, w).x, np.linalg.pinv(J) @ w, atol=1e-12)


def test_damped_solution_equals_damped_least_squares_and_is_bounded():
    J, w = np.array([[1.0, 0.0], [0.0, 1e-6]]), np.ones(2)
    for damping in (1e-3, 0.1):
        expected = J.T @ np.linalg.solve(J @ J.T + damping**2 * np.eye(2), w)
        x = solve_single_task(J, w, damping=damping).x
        np.testing.assert_allclose(x, expected, rtol=1e-12)
        assert np.abs(x[1]) <= 0.5 / damping
    assert solve_single_task(J, w).x[1] == pytest.approx(1e6)


def test_task_without_remaining_freedom_has_rank_zero_and_no_effect():
    first = (np.eye(3), np.ones(3))
    solution = solve_prioritized([first, (np.ones((1, 3)), np.array([7.0]))])
    assert solution.ranks == (3, 0)
    np.testing.assert_allclose(solution.x, np.ones(3), atol=1e-15)


def test_zero_task_has_rank_zero_and_empty_tasks_have_no_effect():
    assert solve_single_task(np.zeros((2, 3)), np.ones(2)).ranks == (0,)
    assert solve_prioritized([(np.zeros((0, 3)), np.zeros(0)), (np.eye(3), np.ones(3))]).ranks == (0, 3)


@pytest.mark.parametrize(
    ("tasks", "word"),
    [
        ([], "at least one"),
        ([(np.eye(2), np.ones(3))], r"tasks\[0\]"),
        ([(np.eye(2), np.ones(2)), (np.eye(3), np.ones(3))], r"tasks\[1\].*columns"),
        ([(np.eye(2), np.array([1.0, np.nan]))], "finite"),
        ([(np.ones(2), np.ones(2))], r"J \(m, n\)"),
        (["ab"], "pair"),
    ],
)
def test_invalid_tasks_are_rejected_by_name(tasks, word):
    for solve in (solve_prioritized, solve_equal_priority):
        raises(qd.ArgumentError, word, solve, tasks)


@pytest.mark.parametrize("option", [{"damping": -1.0}, {"damping": np.nan}, {"rank_tolerance": 1.0}])
def test_options_out_of_range_are_rejected_by_name(option):
    raises(qd.ArgumentError, next(iter(option)), solve_single_task, np.eye(2), np.ones(2), **option)


def test_invalid_robot_tasks_are_rejected_by_name():
    s = qd.Dynamics(qd.load("planar_3r")).update(ANGLES, np.zeros(3))
    raises(qd.ArgumentError, "rows", frame_task, s, "tool", np.ones(2), rows=("x", "up"))
    raises(qd.ArgumentError, "velocity", frame_task, s, "tool", np.ones(3), rows=("x", "z"))
    with pytest.raises(qd.UnknownNameError):
        frame_task(s, "tol", np.ones(3))
    with pytest.raises(qd.UnknownNameError):
        joint_task(s, {"joint9": 0.0})
    raises(qd.ArgumentError, "rates", joint_task, s, {})
    for call, word in (
        (lambda: frame_task(s, "tool", np.ones(1), rows="x"), "rows"),
        (lambda: frame_task(s, "tool", np.full(3, np.nan)), "velocity"),
        (lambda: frame_task(s, "tool", "fast"), "velocity"),
        (lambda: joint_task(s, {"joint1": np.nan}), "rates"),
        (lambda: joint_task(s, {"joint1": "fast"}), "rates"),
    ):
        raises(qd.ArgumentError, word, call)
