"""Solutions of hostile ticks compared with optima to 300 digits; more ticks: benchmarks/hostile_ticks.py."""

from __future__ import annotations

import numpy as np
from exact_optimum import costs, excess, optimum
from hostile_ticks import hostile, of_controller

from quaddyn.wbc.tick_problem import LevelRows


def rows(A: object, b: object, C: object, lower: object, upper: object) -> LevelRows:
    return LevelRows(*(np.array(part, dtype=np.float64) for part in (A, b, C, lower, upper)))


def test_exact_optimum_equals_solutions_by_hand() -> None:
    none = np.zeros((0, 2)), np.zeros(0)
    levels = [
        rows(*none, np.eye(2), [-1.0, -1.0], [1.0, 1.0]),
        rows([[1.0, 0.0], [1.0, 1e-7]], [0.0, 2.0], *none, none[1]),
        rows([[0.0, 1.0]], [0.0], *none, none[1]),
    ]
    found = optimum(levels, np.zeros(2))
    assert found is not None
    np.testing.assert_allclose(found[0], [1.0 - 5e-8, 1.0], atol=1e-15)
    np.testing.assert_allclose(found[1], [0.0, np.sqrt(2.0) * (1.0 - 5e-8), 1.0], rtol=1e-15, atol=1e-20)
    np.testing.assert_allclose(costs(levels, found[0]), found[1], atol=1e-15)
    # a limit that ends the flat direction is detected, and so is a violated one
    short = excess(levels, np.array([1.0, 0.0]))
    assert short is not None and short[0] == 0.0 and 5e-8 < short[1] < 1.5e-7
    beyond = excess(levels, np.array([1.0, 1.5]))
    assert beyond is not None and beyond[0] == 0.5


def test_hostile_ticks_are_strict_optima() -> None:
    seen = set()
    for command in hostile("anymal_b_kinova", 5, 3, ticks=2):
        over = excess(command.details.problem.matrices(), command.details.x)
        assert over is not None and command.status.outcome in ("solved", "infeasible")
        assert max(over[:2]) <= 1e-9 and max(over) <= 1e-6
        seen.add(command.status.outcome)
    assert seen == {"solved", "infeasible"}


def test_active_set_iterations_suffice_for_large_robots() -> None:
    """Level 0 of Centauro's second tick takes over 800 changes of the active set."""
    _, command = of_controller("centauro", 5, 0, ticks=2)
    assert command.status.outcome == "infeasible" and command.status.kkt <= 1e-9
    over = excess(command.details.problem.matrices(), command.details.x)
    assert over is not None and max(over) <= 1e-9
