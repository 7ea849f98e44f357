"""Solutions of whole-body ticks are strict optima according to an independent interior-point solver."""

from __future__ import annotations

import hierarchy_problems as hp
import pytest
from recorded_problems import GAITS, REGIMES, levels_of, recorded

import quaddyn as qd


@pytest.mark.parametrize("name", ["go2", "solo12", "anymal_c"])
@pytest.mark.parametrize("gait", GAITS)
def test_recorded_ticks_are_lexicographic_optima(name: str, gait: str) -> None:
    pytest.importorskip("piqp")
    robot = qd.load(name)
    judged = 0
    for regime in REGIMES:
        for command in recorded(robot, gait, regime, 6, seed=7):
            verdict = hp.check_optimality(levels_of(command), command.details.x)
            assert verdict.excess <= 1.0 and verdict.violation <= 1e-7 and verdict.doubtful == 0
            assert command.status.outcome in ("solved", "infeasible") and command.status.kkt <= 1e-9
            judged += 1
    assert judged == 18


def test_optimality_check_detects_a_perturbed_recorded_solution() -> None:
    pytest.importorskip("piqp")
    for command in recorded(qd.load("go2"), "trot", "hard", 3, seed=7):
        x = command.details.x.copy()
        x[0] += 1e-2
        verdict = hp.check_optimality(levels_of(command), x)
        assert verdict.excess > 1.0 or verdict.violation > 1e-7
