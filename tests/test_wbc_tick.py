"""Terms, details and limits of compiled ticks: comparison with Pinocchio, and the inputs of a tick."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pinocchio as pin
import pytest

import quaddyn as qd
from quaddyn.wbc import (
    ContactMotion,
    FrictionPyramid,
    JointBounds,
    NormalForce,
    TorqueLimits,
)


def random_states(
    robot: qd.Robot, count: int, seed: int, spread: float = 0.15
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(seed)
    for _ in range(count):
        yield pin.integrate(robot.model, robot.q_home, spread * rng.normal(size=robot.nv)), 0.3 * rng.normal(size=18)


@pytest.mark.parametrize("name", ["solo12", "hyq", "b1", "anymal_b", "laikago"])
def test_inertia_and_bias_of_a_tick_equal_pinocchio(name: str) -> None:
    """A tick computes M and h itself: torques equal Pinocchio's inverse dynamics up to rounding at any position."""
    robot = qd.load(name)
    wbc = qd.WholeBodyController(robot, ramp_time=0.0)
    dyn = qd.Dynamics(robot)
    for k, (q, v) in enumerate(random_states(robot, 12, seed=17)):
        q[:2] += 10.0 * k
        command = wbc.compute(dyn.update(q, v), contacts=robot.feet[k % 5 :])
        s, total = dyn.update(q, v), np.zeros(robot.nv)
        for foot, force in command.forces.items():
            J = s.jacobian(foot)
            total += J[:3].T @ force + J[3:].T @ np.cross([0.0, 0.0, -robot.legs[foot].foot.radius], force)
        tau = s.M @ command.acceleration + s.h + robot.generalized_torques(command.friction_torque) - total
        scale = np.abs(s.M) @ np.abs(command.acceleration) + np.abs(s.h) + np.abs(total)
        assert (np.abs(tau - robot.generalized_torques(command.tau)) <= 1e-11 * scale.max()).all()


def test_limits_and_gains_of_constraints_can_be_set_in_place_or_as_a_whole(go2: qd.Robot) -> None:
    limits, bounds, motion = TorqueLimits(go2), JointBounds(go2, 1e-3), ContactMotion(go2)
    wbc = qd.WholeBodyController(go2, constraints=[motion, FrictionPyramid(), NormalForce(), limits, bounds])
    s = qd.Dynamics(go2).update(go2.q_home, np.full(go2.nv, 0.01))
    wbc.compute(s)
    limits.limits[:] = 4.8
    assert np.abs(wbc.compute(s).tau).max() <= 4.8 + 1e-9
    limits.limits = 5.0
    assert 4.9 < np.abs(wbc.compute(s).tau).max() <= 5.0 + 1e-9
    bounds.velocity = 0.0
    braking = wbc.compute(s).acceleration[go2.actuated_index]
    assert (braking <= 1e-9).all()
    motion.damping = 0.0
    with pytest.raises(qd.ArgumentError, match=r"limits: .* no NaN"):
        limits.limits = np.nan
    with pytest.raises(qd.ArgumentError, match="velocity: expected a number or 12"):
        bounds.velocity = np.zeros(3)
    with pytest.raises(qd.ArgumentError, match="damping: expected a finite number"):
        motion.damping = -1.0
    assert motion.damping == 0.0
    with pytest.raises(qd.ArgumentError, match="height: expected a finite"):
        wbc.contacts["FL"].surface_height = np.nan
