"""What one may do to a controller between ticks without anything going wrong in silence."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import quaddyn as qd
from quaddyn.wbc import TorqueRate, WholeBodyController, default_constraints, replay


@pytest.mark.parametrize("fast", [True, False])
def test_warmup_leaves_no_trace(fast: bool, tmp_path: Path) -> None:
    """Neither references at the home stance nor anything of a tick that is over: there, or anywhere else."""
    robot = qd.load("go2")
    constraints = [*default_constraints(robot, 1e-3), TorqueRate(robot, 100.0)]
    wbc = WholeBodyController(robot, fast=fast, constraints=constraints)
    wbc.tasks["com"].reference(np.array([3.0, 2.0, 0.3]))
    before = wbc.numbers.copy()
    wbc.warmup(quiet=True)
    np.testing.assert_array_equal(wbc.numbers, before)
    wbc.tasks["com"].forget()
    away = robot.q_home.copy()
    away[:3] += (3.0, 2.0, 0.0)
    state = qd.Dynamics(robot).update(away, np.zeros(robot.nv))
    command = wbc.compute(state)
    assert np.abs(command.acceleration).max() < 1e-9  # it holds what it found
    wbc.compute(state)
    wbc.warmup(quiet=True)
    wbc.save_tick(tmp_path / "tick.npz")
    assert replay(tmp_path / "tick.npz").identical
