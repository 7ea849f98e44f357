"""Strict hierarchies recorded from whole-body ticks, with their solutions."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

from bench_wbc import GAITS, REGIMES, QuaddynRunner, record

import quaddyn as qd
from quaddyn.hierarchy import Level
from quaddyn.wbc import Command

__all__ = ["GAITS", "REGIMES", "levels_of", "recorded"]


def recorded(robot: qd.Robot, gait: str, regime: str, count: int, seed: int) -> Iterator[Command]:
    """Commands of one robot for a gait ("stand", "trot") and regime ("calm", "saturated", "hard")."""
    r = record(robot, gait, regime, count, seed)
    ours = QuaddynRunner(robot, r, bounds=True)
    for k in range(count):
        ours.limits.limits[:] = r["effort"][k]
        ours.set_references(k)
        yield ours.wbc.compute(ours.dyn.update(r["q"][k].copy(), r["v"][k].copy()), ours.stand[k])


def levels_of(command: Command) -> list[Level]:
    """The levels of the command's problem."""
    return [
        Level(rows.A, rows.b, C=rows.C, lower=rows.lower, upper=rows.upper)
        for rows in command.details.problem.matrices()
    ]
