"""The compiled core, called as Python: array indices, reference norms, buffer sizes, and `feasible_only`."""

from __future__ import annotations

import hierarchy_problems as hp
import numpy as np
import pytest
from slow_parameters import others_slow

from quaddyn.hierarchy import HierarchySolver, Level
from quaddyn.hierarchy.core import solve_hierarchy, solve_until_verified
from quaddyn.hierarchy.workspace import (
    HierarchyProblem,
    SolutionBuffers,
    SolverSettings,
    is_verified,
    make_solution_buffers,
    make_workspace,
)

DEFAULT = SolverSettings()


def stack_levels(levels: list[Level]) -> HierarchyProblem:
    """Problem with the norms of its rows as reference norms; weights are multiplied into the rows."""
    root = np.sqrt(np.concatenate([level.weights for level in levels]))
    A, C = root[:, None] * np.vstack([level.A for level in levels]), np.vstack([level.C for level in levels])
    b = root * np.concatenate([level.b for level in levels])
    lower, upper = (np.concatenate([getattr(level, name) for level in levels]) for name in ("lower", "upper"))
    starts = [np.concatenate([[0], np.cumsum(sizes)]) for sizes in zip(*((len(v.A), len(v.C)) for v in levels))]  # noqa: B905
    return HierarchyProblem(
        A.shape[1], A, b, np.linalg.norm(A, axis=1), C, lower, upper, np.linalg.norm(C, axis=1), *starts
    )


def solve_core(
    problem: HierarchyProblem,
    settings: SolverSettings = DEFAULT,
    room: int = 0,
    extra: int = 0,
    guess: np.ndarray | None = None,
    is_compact: bool = False,
) -> SolutionBuffers:
    """Solution in buffers for problems larger by `room` unknowns and rows, and by `extra` levels."""
    n, p, K = problem.A.shape[1], len(problem.C), len(problem.A_start) - 1
    rows = int(np.diff(problem.A_start).max())
    counts = np.diff(problem.A_start) + np.diff(problem.C_start) + np.minimum(problem.C_start[:-1], n)
    solution = make_solution_buffers(n + room, p + room, K + extra)
    told = np.zeros((K + 1, p), dtype=np.int8) if guess is None else guess
    with np.errstate(all="ignore"):
        solve_hierarchy(
            problem,
            settings,
            told,
            guess is not None,
            solution,
            make_workspace(
                n + room,
                rows + room,
                len(problem.A) + room,
                p + room,
                K + extra,
                has_damping=settings.damping > 0.0,
                compact_rows=max(1, counts.max(), n + min(p, n)) if is_compact else 0,
            ),
        )
    return solution


DAMPED = [(kind, damping) for kind in hp.KINDS for damping in (0.0, 0.1)]


@pytest.mark.parametrize(("kind", "damping"), others_slow(DAMPED, [("conflicting", 0.0), ("equal bounds", 0.1)]))
def test_python_and_machine_code_agree(kind: str, damping: float) -> None:
    rng = np.random.default_rng([21, hp.KINDS.index(kind)])
    levels = hp.problem(kind, rng)
    problem, settings = stack_levels(levels), SolverSettings(damping=damping)
    solver = HierarchySolver(levels[0].n, [(len(v.A), len(v.C)) for v in levels])
    solver.load(levels)
    x = solver.run(damping=damping).copy()
    cold = solve_core(problem, settings)
    warm = solve_core(problem, settings, guess=cold.working_sets.copy())
    for ours in (cold, warm):
        assert np.abs(ours.x - x).max() <= 1e-12 * (1.0 + np.abs(x).max())
    wide = solve_core(problem, settings, room=9, extra=2, guess=np.pad(cold.working_sets, ((0, 2), (0, 9))))
    assert np.array_equal(wide.x[: len(x)], warm.x)
    for guess, expected in ((None, cold), (cold.working_sets.copy(), warm)):
        compact = solve_core(problem, settings, guess=guess, is_compact=True)
        for part, same in zip(compact, expected, strict=True):
            assert np.array_equal(part, same)


def test_rows_that_are_zero_up_to_rounding_have_rank_zero() -> None:
    A = np.array([[1.0, 0.0], [0.0, 1e-14]])
    one, start, none = np.ones(2), np.array([0, 1, 2]), np.zeros(0)
    problem = HierarchyProblem(2, A, one, one, np.zeros((0, 2)), none, none, none, start, np.zeros(3, dtype=np.int64))
    assert solve_core(problem).ranks.tolist() == [1.0, 0.0, 1.0]
    assert solve_core(problem._replace(A_norms=np.array([1.0, 1e-14]))).ranks.tolist() == [1.0, 1.0, 0.0]
    assert solve_core(problem._replace(A_norms=np.array([0.0, 1e-14]))).ranks.tolist() == [0.0, 1.0, 1.0]


def test_reference_norms_are_equivalent_to_an_unknown_fixed_at_zero() -> None:
    rng = np.random.default_rng(22)
    for _ in range(6):
        n = 7
        A, C = rng.normal(size=(9, n)), rng.normal(size=(12, n))
        A[1] = A[0] + 1e-15 * rng.normal(size=n)
        hidden_A, hidden_C = rng.random(9), rng.random(12)
        b, lower = rng.normal(size=9), -rng.random(12)
        b[1] = b[0]
        upper = np.full(12, np.inf)
        starts = np.array([0, 3, 9]), np.array([0, 12, 12])
        lengths = np.hypot(np.linalg.norm(A, axis=1), hidden_A), np.hypot(np.linalg.norm(C, axis=1), hidden_C)
        short = solve_core(HierarchyProblem(A.shape[1], A, b, lengths[0], C, lower, upper, lengths[1], *starts))
        fixed = np.eye(n + 1)[n:]
        levels = [
            Level(fixed, [0.0]),
            Level(np.hstack([A, hidden_A[:, None]])[:3], b[:3], C=np.hstack([C, hidden_C[:, None]]), lower=lower),
            Level(np.hstack([A, hidden_A[:, None]])[3:], b[3:]),
        ]
        long = solve_core(stack_levels(levels))
        assert np.abs(long.x[:n] - short.x).max() <= 1e-10 * (1.0 + np.abs(short.x).max())
        assert long.ranks[1:].tolist() == short.ranks.tolist()


def test_infeasible_level_0_ends_the_solve_with_feasible_only() -> None:
    box = Level([[1.0, 1.0, 0.0]], [5.0], C=np.eye(3), lower=[-1.0] * 3, upper=[1.0] * 3)
    below = Level(np.eye(3), [0.0, 0.0, 9.0])
    ask = SolverSettings(feasible_only=True)
    stopped = solve_core(stack_levels([box, below]), ask)
    assert stopped.summary.is_infeasible and stopped.ranks[1] == 0.0 and is_verified(stopped, 3)
    np.testing.assert_allclose(stopped.x[:2], [2.0, 2.0], atol=1e-12)  # the least squares solution of level 0
    whole = solve_core(stack_levels([box, below]))
    assert not whole.summary.is_infeasible and whole.x[2] == pytest.approx(1.0)
    assert not solve_core(stack_levels([box, below]), ask._replace(infeasibility_tolerance=1.1)).summary.is_infeasible
    met = [Level([[1.0, 1.0, 0.0]], [1.5], C=box.C, lower=box.lower, upper=box.upper), below]
    kept = solve_core(stack_levels(met), ask)
    assert not kept.summary.is_infeasible and kept.x[2] == pytest.approx(1.0)
    assert not solve_core(stack_levels(met), ask, guess=kept.working_sets.copy()).summary.is_infeasible
    contradiction = [Level([[1.0], [1.0]], [0.0, 1.0]), Level([[1.0]], [9.0])]
    assert solve_core(stack_levels(contradiction), ask).summary.is_infeasible


def test_solve_until_verified_returns_whether_the_solution_is_verified() -> None:
    rng = np.random.default_rng(23)
    for cap, good in ((500, True), (1, False)):
        problem = stack_levels(hp.problem("infeasible", rng))
        n, p, K = problem.A.shape[1], len(problem.C), len(problem.A_start) - 1
        solution, work = make_solution_buffers(n, p, K), make_workspace(n, len(problem.A), len(problem.A), p, K)
        guess = rng.integers(-1, 2, size=(K + 1, p)).astype(np.int8)
        with np.errstate(all="ignore"):
            assert (
                solve_until_verified(problem, SolverSettings(max_iterations=cap), guess, True, solution, work) == good
            )
        assert np.isfinite(solution.x).all()
