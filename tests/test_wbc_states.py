"""Hundreds of random ticks over every set of contacts, checked by an interior-point solver and the reference."""

from __future__ import annotations

import hierarchy_problems as hp
import numpy as np
import pytest
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


def test_optimality_check_detects_a_perturbed_solution() -> None:
    rng, detected = np.random.default_rng(0), 0
    for _, c in ticks(qd.load("go2"), 32, seed=1):
        if c.status.outcome == "solved":
            perturbed = c.details.x + 1e-2 * rng.normal(size=len(c.details.x))
            verdict = hp.check_optimality(hp.levels_of(c.details.problem), perturbed)
            assert verdict.excess > 1.0 or verdict.violation > 1e-7
            detected += 1
    assert detected > 10
