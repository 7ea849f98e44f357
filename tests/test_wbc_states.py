"""Hundreds of random ticks over every set of contacts, checked by optimality conditions and the reference alone."""

from __future__ import annotations

import numpy as np
import pytest
from optimality import non_negative_least_squares, worst_residual
from wbc_states import check_random_ticks, ticks

import quaddyn as qd


@pytest.mark.parametrize(("name", "count"), [("go2", 240), ("solo12", 96), ("anymal_c", 96), ("b1_z1", 48)])
def test_random_ticks_are_finite_balanced_and_optimal_or_flagged(name: str, count: int) -> None:
    tally = check_random_ticks(qd.load(name), count, seed=0)
    print(tally)
    assert tally.nan == 0 and tally.imbalance < 1e-9
    assert tally.feasible > 0.4 * count
    assert tally.verified >= 0.995 * tally.feasible and tally.unflagged == 0
    assert tally.violation <= 1e-7
    assert tally.proved >= 0.995 * tally.infeasible


def test_active_limits_of_a_warm_start_are_attained_at_the_optimum() -> None:
    """Near a cone's apex, the warm start of an upper level kept limits active that are inactive at its optimum."""
    tally = check_random_ticks(qd.load("go2"), 17_920, 0, only={6319, 10959, 17919})
    assert tally.verified == tally.outcomes["solved"] == 3


def test_rounding_violation_of_level_0_does_not_block_lower_levels() -> None:
    tally = check_random_ticks(qd.load("anymal_c"), 3_779, 7, only={2100, 3778})
    assert tally.proved == tally.outcomes["infeasible"] == 2


def test_optimality_check_detects_a_suboptimal_solution() -> None:
    rng = np.random.default_rng(0)
    caught = 0
    for _, c in ticks(qd.load("go2"), 32, seed=1):
        if c.status.outcome == "solved":
            x = c.details.x
            wrong = x + 1e-3 * rng.normal(size=len(x))
            assert worst_residual(c.details.problem, x) < 1e-8 < worst_residual(c.details.problem, wrong)
            caught += 1
    assert caught > 10


def test_non_negative_least_squares_satisfies_its_optimality_conditions() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        A, b = rng.normal(size=(8, 12)), rng.normal(size=8)
        A[:, 3] = A[:, 4]
        x = non_negative_least_squares(A, b)
        w = A.T @ (b - A @ x)
        assert (x >= 0.0).all() and (w <= 1e-9).all() and abs(w @ x) < 1e-9
