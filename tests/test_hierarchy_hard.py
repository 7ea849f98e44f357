"""Hard hierarchies: extreme units, many levels, contradictions, and warm starts from other problems."""

from __future__ import annotations

from typing import Any

import hierarchy_problems as hp
import numpy as np
import pytest

from quaddyn.compiler import interpret
from quaddyn.hierarchy import HierarchySolver, Level, least_violation, level_solver, solve, working_set_changes


def solve_verified(levels: list[Level]) -> np.ndarray:
    solution = solve(levels)
    assert solution.verified and np.isfinite(solution.x).all()
    return solution.x


@pytest.mark.parametrize("unit", [1e-6, 1e-3, 1e3, 1e6])
@pytest.mark.parametrize("kind", ["generic", "conflicting", "degenerate", "cones"])
def test_units_of_rows_and_unknowns_do_not_matter(kind: str, unit: float) -> None:
    rng = np.random.default_rng([3, hp.KINDS.index(kind)])
    for _ in range(4):
        levels = hp.problem(kind, rng)
        x = solve(levels).x
        rows = [
            Level(unit * v.A, unit * v.b, weights=v.weights, C=unit * v.C, lower=unit * v.lower, upper=unit * v.upper)
            for v in levels
        ]
        unknowns = [
            Level(v.A / unit, v.b, weights=v.weights, C=v.C / unit, lower=v.lower, upper=v.upper) for v in levels
        ]
        for scaled, factor in ((rows, 1.0), (unknowns, unit)):
            np.testing.assert_allclose(solve(scaled).x / factor, x, atol=1e-7 * (1.0 + np.abs(x).max()))


def test_problem_with_forty_levels_is_solved() -> None:
    rng = np.random.default_rng(4)
    A, b = rng.normal(size=(40, 20)), rng.normal(size=40)
    limits = Level(C=np.eye(20), lower=np.full(20, -1.0), upper=np.full(20, 1.0))
    x = solve_verified([limits, *(Level(A[k : k + 1], b[k : k + 1]) for k in range(39))])
    assert np.abs(x).max() <= 1.0 + 1e-12
    assert abs(A[0] @ x - b[0]) < 1e-10


def test_degenerate_problems_are_solved() -> None:
    free = Level(C=[[1.0]], lower=[-np.inf], upper=[np.inf])
    for levels, expected in (
        ([Level([[2.0], [2.0]], [2.0, 4.0]), Level([[1.0]], [9.0])], 1.5),
        ([free, Level(np.zeros((0, 1)), []), Level([[1e-6]], [1e-6])], 1.0),
        ([Level(C=[[1.0]], lower=[3.0], upper=[-1.0]), free], 1.0),
    ):
        np.testing.assert_allclose(solve_verified(levels), [expected], atol=1e-12)
    same = Level(np.ones((30, 2)), np.arange(30.0), C=np.ones((30, 2)), upper=np.full(30, 5.0))
    x = solve_verified([same, Level([[1.0, -1.0]], [2.0])])
    assert x[0] - x[1] == pytest.approx(2.0)
    # equal numbers of equalities (mean 14.5) and limits (5)
    assert x.sum() == pytest.approx((14.5 + 5.0) / 2.0)


def test_warm_start_from_another_problem_does_not_change_the_solution() -> None:
    rng = np.random.default_rng(5)
    solver = HierarchySolver(8, [(2, 12), (4, 6), (8, 0)])
    for _ in range(60):
        levels = []
        for m, p in ((2, 12), (4, 6), (8, 0)):
            scale = 10.0 ** rng.integers(-2, 3)
            C = np.round(rng.normal(size=(p, 8)), 1)
            lower = -scale * rng.random(p) * (rng.random(p) < 0.7)
            levels.append(Level(rng.normal(size=(m, 8)), scale * rng.normal(size=m), C=C, lower=lower))
        solver.load(levels)
        warm = solver.solve()
        cold = solve(levels)
        assert warm.verified and cold.verified
        np.testing.assert_allclose(warm.x, cold.x, atol=1e-8 * (1.0 + np.abs(cold.x).max()))


@pytest.mark.parametrize("slope", [1e-6, 1e-8, 3e-9])
def test_direction_with_small_singular_value_is_resolved(slope: float) -> None:
    """The remaining norm of a row must be summed, because 1 - 1e-16 loses it."""
    A, b = np.array([[1.0, 0.0, 0.0], [1.0, slope, 0.0]]), np.array([0.0, slope])
    answer = solve([Level(A, b)])
    assert answer.levels[0].rank == 2
    np.testing.assert_allclose(answer.x, [0.0, 1.0, 0.0], atol=1e-7)
    limited = [Level(A, b, C=np.eye(3), lower=np.full(3, -0.5), upper=np.full(3, 0.5)), Level([[0.0, 0.0, 1.0]], [9.0])]
    np.testing.assert_allclose(solve_verified(limited), [0.25 * slope, 0.5, 0.5], atol=1e-12)


@pytest.mark.parametrize("flat", [1e-5, 1e-6])
@pytest.mark.parametrize("told", [-1, 0, 1])
def test_limit_with_a_small_multiplier_of_wrong_sign_is_released(flat: float, told: int) -> None:
    """A gradient of 1e-6 next to terms of 1e8 changes x by a large amount, which lower levels must not use."""
    box = Level(C=np.eye(3), lower=np.full(3, -600.0), upper=np.full(3, 600.0))
    rows = Level([[300.0, 0.0, 0.0], [300.0, flat, 0.0]], [1.5e5, 1.5e5 + 2.0])
    last = Level([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], [0.0, 1e3])
    levels = [box, rows, last]
    best = (600.0 * flat - 2.0) ** 2 / 2.0
    solver = HierarchySolver(3, [(0, 3), (2, 0), (2, 0)])
    solver.load(levels)
    solver.working_sets = np.array([[0, 0, 0], [0, told, 0], [0, told, 1], [0, told, 1]], dtype=np.int8)
    warm = solver.solve()
    for answer in (warm, *(solve(levels, warm_start=start) for start in (None, warm))):
        assert answer.verified
        assert answer.x[1] == pytest.approx(600.0) and answer.x[2] == pytest.approx(600.0)
        assert answer.levels[1].residual @ answer.levels[1].residual == pytest.approx(best, rel=1e-9)


def nearly_parallel_limits(seed: int, inward: float = 0.0) -> tuple[list[Level], np.ndarray]:
    """Problem with two limits parallel to within 1e-8 and a target far beyond their intersection, and its solution.

    A third limit crosses the intersection; the target is inside of it by `inward`.
    """
    rng = np.random.default_rng([13, seed])
    Q, vertex = np.linalg.qr(rng.normal(size=(5, 5)))[0], rng.normal(size=5)
    C = np.vstack((Q[0], Q[0] + 1e-8 * Q[1], Q[2]))
    b, target = C @ vertex, vertex - 1e3 * Q[1] - inward * Q[2]
    limits = Level(C=C, lower=[-np.inf, b[1], -np.inf], upper=[b[0], np.inf, b[2]])
    return [limits, Level(np.eye(5), target)], vertex - inward * Q[2]


def test_nearly_dependent_limits_with_large_multipliers_are_solved() -> None:
    """Multipliers of nearly dependent limits are 1e8 times as large as the gradient that they balance."""
    for seed in range(8):
        levels, best = nearly_parallel_limits(seed, inward=1.0)
        answer = solve(levels)
        assert answer.verified
        np.testing.assert_allclose(answer.x, best, atol=1e-4)  # relative to a target distance of 1e3


def test_multiplier_of_wrong_sign_is_detected_next_to_large_multipliers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Signs are checked only if the rounding error of the gradient exceeds 1e-9, as in most of these problems."""
    compute_kkt_residual, found, first = level_solver.compute_kkt_residual, [], []

    def kept(*given: Any) -> float:
        found.append(compute_kkt_residual(*given))
        return float(found[-1])

    monkeypatch.setattr(level_solver, "compute_kkt_residual", kept)
    monkeypatch.setattr(working_set_changes, "find_wrong_multiplier", lambda *_: -1)  # the third limit stays active
    monkeypatch.setattr(
        working_set_changes, "find_small_wrong_multiplier", lambda s, work, decided, size: (-1, decided)
    )
    for seed in range(8):
        levels, _ = nearly_parallel_limits(seed, inward=1e-4)
        solver = HierarchySolver(5, [(0, 3), (5, 0)])
        solver.load(levels)
        solver.working_sets = np.array([[0, 0, 0], [1, -1, 1], [1, -1, 1]], dtype=np.int8)
        found.clear()
        with interpret():
            solver.solve()
        first.append(found[0])
    assert np.median(first) > 1e-9


def test_violation_within_rounding_of_a_huge_iterate_is_resolved_at_the_solution() -> None:
    """Nearly singular equalities lead to a huge intermediate x, where 1e-4 is rounding; the solution is small."""
    limits = Level([[1.0, 0.0]], [1e-4], C=np.eye(2), lower=[-1.0, -1.0], upper=[0.0, 1.0])
    np.testing.assert_allclose(solve_verified([limits, Level([[0.0, 1e-7]], [1.0])]), [5e-5, 1.0], atol=1e-12)


@pytest.mark.parametrize("changed", range(6))
def test_least_violation_iteration_stops_when_it_cycles(changed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the violated rows depend on rounding, Newton's method ends without a full step.

    It can cycle, depending on the last digits, which are varied here.
    """
    shares, search = [], least_violation.search_step_length

    def kept(*given: Any) -> float:
        shares.append(search(*given))
        return float(shares[-1])

    rng = np.random.default_rng([12, hp.KINDS.index("infeasible")])
    levels = [hp.problem("infeasible", rng) for _ in range(5)][-1]
    last_digits = np.random.default_rng([34, changed])
    for level in levels if changed else []:
        for part in (level.A, level.b, level.C):
            part *= 1.0 + 2.0**-52 * last_digits.integers(-1, 2, size=part.shape)
    monkeypatch.setattr(least_violation, "search_step_length", kept)
    with interpret():
        assert solve(levels).verified
    assert 10 <= len(shares) < least_violation.MAX_NEWTON_STEPS / 2
