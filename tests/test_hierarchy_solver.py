"""Strict solver with inequalities: independent optimality checks, strictness, certificates, hard problems."""

from types import SimpleNamespace

import hierarchy_problems as hp
import numpy as np
import pytest
from raising import raises

from quaddyn.errors import ArgumentError
from quaddyn.hierarchy import Level, solve, solve_prioritized
from quaddyn.hierarchy.level_solver import is_implied_limit


def certificate_error(levels, solution):
    """Largest relative violation of the optimality conditions, from the published multipliers alone."""
    x, worst = solution.x, 0.0
    frozen = np.zeros((0, levels[0].n))
    for k, (level, out) in enumerate(zip(levels, solution.levels, strict=True)):
        Z = hp.null_space(frozen)
        terms = [(level.A.T * level.weights) @ (level.A @ x - level.b)]
        terms += [levels[j].C.T @ out.multipliers[j] for j in range(k + 1)]
        lengths = np.linalg.norm(level.A, axis=1)
        size = (level.weights * lengths) @ (np.abs(level.b) + lengths * np.linalg.norm(x)) + 1e-9
        lengths = np.linalg.norm(level.C, axis=1)
        size += lengths @ lengths * np.linalg.norm(x) + sum(float(np.linalg.norm(term)) for term in terms)
        worst = max(worst, float(np.linalg.norm(Z.T @ np.sum(terms, axis=0))) / size)
        for j in range(k + 1):
            press = out.multipliers[j]
            y = levels[j].C @ x
            lower, upper = hp.merged(levels[j])
            assert (press[y < upper - 1e-7 * (1 + np.abs(y))] <= 1e-9 * size).all()
            assert (press[y > lower + 1e-7 * (1 + np.abs(y))] >= -1e-9 * size).all()
        # The violation of a level is the multiplier of its own inequalities, the last entry.
        np.testing.assert_allclose(
            out.multipliers[k][~(level.lower > level.upper)],
            out.violation[~(level.lower > level.upper)],
            atol=1e-7 * (1 + np.abs(level.C @ x).max(initial=0.0)),
        )
        tied = [levels[j].C[np.abs(out.multipliers[j]) > 1e-6 * size] for j in range(k + 1)]
        frozen = np.vstack(
            [frozen, level.A[level.weights > 0], level.C[(out.violation != 0.0) | (out.active == 2)], *tied]
        )
    return worst


@pytest.mark.parametrize("kind", hp.KINDS)
def test_solutions_are_lexicographic_optima(kind):
    pytest.importorskip("piqp")
    rng = np.random.default_rng([7, hp.KINDS.index(kind)])
    for _ in range(24):
        levels = hp.problem(kind, rng)
        solution, n = solve(levels), levels[0].n
        verdict = hp.check_optimality([*levels, Level(np.eye(n), np.zeros(n))], solution.x)  # of minimum norm
        assert verdict.excess <= 1.0 and verdict.violation <= 1e-10, solution.status
        assert solution.verified and not verdict.doubtful
        for level, out in zip(levels, solution.levels, strict=True):
            np.testing.assert_allclose(out.residual, level.b - level.A @ solution.x, atol=1e-12)
            assert out.feasible == (not out.violation.any() and (level.lower <= level.upper).all())


@pytest.mark.parametrize("kind", [k for k in hp.KINDS if k != "badly scaled"])
def test_multipliers_satisfy_the_optimality_conditions(kind):
    rng = np.random.default_rng([8, hp.KINDS.index(kind)])
    for _ in range(12):
        levels = hp.problem(kind, rng)
        solution = solve(levels)
        assert certificate_error(levels, solution) <= 1e-9
        assert solution.kkt <= 1e-12


@pytest.mark.parametrize("damping", [0.0, 0.3])
def test_solution_without_inequalities_equals_null_space_projection(damping):
    rng = np.random.default_rng(1)
    for _ in range(50):
        n = int(rng.integers(1, 15))
        tasks = []
        for _ in range(int(rng.integers(1, 5))):
            m, r = int(rng.integers(1, n + 2)), int(rng.integers(1, n + 1))
            tasks.append((rng.normal(size=(m, r)) @ rng.normal(size=(r, n)), rng.normal(size=m)))
        ours = solve([Level(J, w) for J, w in tasks], damping=damping)
        projection = solve_prioritized(tasks, damping=damping)
        np.testing.assert_allclose(ours.x, projection.x, atol=1e-9 * (1 + np.abs(projection.x).max()))
        assert tuple(level.rank for level in ours.levels) == projection.ranks
        assert ours.solver_path == "equalities" and ours.status == "optimal"


@pytest.mark.parametrize("kind", hp.KINDS)
def test_damping_is_equivalent_to_weak_equalities_with_target_zero(kind):
    rng, damping = np.random.default_rng([11, hp.KINDS.index(kind)]), 0.2
    for _ in range(3):
        level = hp.problem(kind, rng)[0]
        A, b = np.vstack((level.A, damping * np.eye(level.n))), np.append(level.b, np.zeros(level.n))
        weights = np.append(level.weights, np.ones(level.n))
        plain = Level(A, b, weights=weights, C=level.C, lower=level.lower, upper=level.upper)
        np.testing.assert_allclose(solve([level], damping=damping).x, solve([plain]).x, atol=1e-12)


def test_infeasible_first_level_has_least_violation_and_is_flagged():
    """x >= 1 and x <= -1 give x = 0 in least squares; the second level uses the remaining freedom."""
    walls = Level(C=[[1.0, 0.0], [1.0, 0.0]], lower=[1.0, -np.inf], upper=[np.inf, -1.0])
    solution = solve([walls, Level([[1.0, 1.0]], [5.0])])
    np.testing.assert_allclose(solution.x, [0.0, 5.0], atol=1e-14)
    assert solution.status == "infeasible" and not solution.levels[0].feasible
    np.testing.assert_allclose(solution.levels[0].violation, [-1.0, 1.0], atol=1e-14)
    assert solution.levels[0].active.tolist() == [-1, 1]
    crossed = solve([Level(C=[[1.0, 0.0]], lower=[1.0], upper=[-1.0]), Level([[1.0, 1.0]], [5.0])])
    np.testing.assert_allclose(crossed.x, [0.0, 5.0], atol=1e-14)
    assert crossed.status == "infeasible"


def test_inequality_on_a_lower_level_limits_only_the_levels_below():
    position = Level([[1.0, 0.0]], [2.0])
    wish = Level(C=[[1.0, 0.0], [0.0, 1.0]], lower=[-1.0, -1.0], upper=[1.0, 1.0])
    reach = Level([[0.0, 1.0]], [3.0])
    first = solve([position, wish, reach])
    np.testing.assert_allclose(first.x, [2.0, 1.0], atol=1e-14)
    np.testing.assert_allclose(first.levels[1].violation, [1.0, 0.0], atol=1e-14)
    assert first.status == "optimal" and not first.levels[1].feasible
    np.testing.assert_allclose(first.levels[2].multipliers[1], [0.0, 2.0], atol=1e-13)
    last = solve([position, reach, wish])
    np.testing.assert_allclose(last.x, [2.0, 3.0], atol=1e-14)


def test_warm_start_does_not_change_the_solution():
    rng = np.random.default_rng(3)
    warm = 0
    for kind in ("generic", "conflicting", "box", "all levels bounded", "infeasible"):
        for _ in range(8):
            levels = hp.problem(kind, rng)
            cold = solve(levels)
            moved = [Level(v.A, v.b + 1e-6, weights=v.weights, C=v.C, lower=v.lower, upper=v.upper) for v in levels]
            a, b = solve(moved, warm_start=cold), solve(moved)
            np.testing.assert_allclose(a.x, b.x, atol=1e-9 * (1 + np.abs(b.x).max()))
            assert a.verified
            warm += a.solver_path in ("warm", "equalities")
    assert warm >= 36


@pytest.mark.parametrize("huge", [np.inf, 1.7976931348623157e308, 1e100])
def test_huge_bounds_count_as_infinite(huge):
    solution = solve([Level(C=np.eye(2), lower=[-huge, -huge], upper=[huge, 0.5]), Level(np.eye(2), [3.0, 3.0])])
    np.testing.assert_allclose(solution.x, [3.0, 0.5], atol=1e-14)


def test_empty_levels_and_zero_rows_have_no_effect():
    nothing = Level(np.zeros((0, 3)), [])
    zeros = Level(np.zeros((2, 3)), [1.0, 2.0], C=np.zeros((1, 3)), lower=[1.0])
    solution = solve([nothing, zeros, Level(np.eye(3), [1.0, 2.0, 3.0]), nothing])
    np.testing.assert_allclose(solution.x, [1.0, 2.0, 3.0], atol=1e-14)
    assert [level.rank for level in solution.levels] == [0, 0, 3, 0]
    assert solution.levels[1].violation.tolist() == [-1.0] and solution.verified


def test_iteration_limit_is_flagged_and_keeps_higher_levels():
    rng = np.random.default_rng(6)
    flagged = 0
    for _ in range(10):
        levels = hp.problem("all levels bounded", rng)
        n = levels[0].n
        wide = np.full(n, 1e6)
        levels.insert(0, Level(rng.normal(size=(1, n)), rng.normal(size=1), C=np.eye(n), lower=-wide, upper=wide))
        short, full = solve(levels, max_iterations=1), solve(levels)
        assert np.isfinite(short.x).all()
        if short.status == "inaccurate":
            flagged += 1
            assert not short.verified
            assert short.levels[0].error <= full.levels[0].error + 1e-9
    assert flagged >= 3


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"A": [[np.nan]], "b": [1.0]}, "finite"),
        ({"A": [[1.0]], "b": [np.inf]}, "finite"),
        ({"A": [[1.0]]}, "pass both or neither"),
        ({}, "neither"),
        ({"A": [1.0], "b": [1.0]}, "matrix"),
        ({"A": [[1.0]], "b": [1.0, 2.0]}, "b: expected shape"),
        ({"A": [[1.0]], "b": [1.0], "weights": [-1.0]}, "weights"),
        ({"A": [[1.0]], "b": [1.0], "C": [[1.0, 2.0]]}, "C: expected 1 columns"),
        ({"C": [[1.0]], "lower": [np.nan]}, "lower"),
        ({"C": [[1.0]], "upper": [-np.inf]}, "upper"),
        ({"A": [[1.0]], "b": [1.0], "upper": [1.0]}, "C, whose rows they bound, is missing"),
        ({"A": [["x"]], "b": [1.0]}, "A: expected a matrix of numbers"),
    ],
)
def test_invalid_level_is_rejected(arguments, words):
    raises(ArgumentError, words, Level, **arguments)


def test_options_out_of_range_are_rejected():
    level = Level(np.eye(2), np.zeros(2))
    for wrong in ({"damping": -1.0}, {"rank_tolerance": 1.0}, {"max_iterations": 0}):
        raises(ArgumentError, next(iter(wrong)), solve, [level], **wrong)
    raises(ArgumentError, "at least one", solve, [])
    raises(ArgumentError, r"levels\[1\]", solve, [level, Level(np.eye(3), np.zeros(3))])
    raises(ArgumentError, "warm", solve, [level, level], warm_start=solve([level]))


@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize(
    ("multiplier", "side", "free", "implied"),
    [
        (1e-13, 1, 1e-9, True),
        (-1e-6, -1, 1e-9, True),
        (1e-6, -1, 1e-9, False),  # wrong sign: the limit is not active
        (1e-15, 1, 1e-9, False),  # multiplier within rounding
        (1e-9, 1, 1e-5, False),  # the levels below still move it
        (1e-2, 1, 1e-9, False),  # large multiplier: the remaining violation is noticeable
    ],
)
def test_limit_with_small_multiplier_is_implied_if_lower_levels_cannot_move_it_in_any_unit(
    unit: float, multiplier: float, side: int, free: float, implied: bool
) -> None:
    row = unit * np.array([1.0, 0.0, free])
    h = SimpleNamespace(n=3, work=SimpleNamespace(basis=np.eye(3), C=row[:, None]))
    level = SimpleNamespace(multipliers=[multiplier / unit], sides=[side], C_norms=[np.linalg.norm(row)])
    assert bool(is_implied_limit(h, level, 0, 2, 1.0)) is implied
