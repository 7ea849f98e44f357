"""Unknown payloads are estimated and compensated."""

from __future__ import annotations

import numpy as np
import pytest
from raising import raises
from slow_parameters import NIGHT

import quaddyn as qd
from quaddyn.dynamics import State
from quaddyn.locomotion import LocomotionController
from quaddyn.locomotion.estimators import (
    MAX_PAYLOAD_FRACTION,
    MAX_PAYLOAD_OFFSET,
    MIN_PAYLOAD_FRACTION,
    PayloadCompensation,
)
from quaddyn.locomotion.morphology import FEET, Morphology
from quaddyn.robot import Robot, with_payload

DT = 2e-3 if NIGHT else 4e-3  # [s]
PLACE = np.array([0.03, -0.02, 0.05])


def at_home(robot: Robot) -> State:
    return qd.Dynamics(robot).update(np.array(robot.q_home), np.zeros(robot.nv))


def test_feet_carry_the_payload_at_its_position(solo12: Robot) -> None:
    load = PayloadCompensation(solo12, Morphology.from_robot(solo12), DT)
    load.mass = 0.4 * solo12.mass
    load.first_moment = load.mass * PLACE
    state, push = at_home(solo12), np.array([0.3, -0.2, 9.81])
    forces = {foot: 0.25 * solo12.mass * push for foot in FEET}
    tau = load.torques(state, forces)
    base = state.placement(solo12.bodies[0].name)
    at = base.translation + base.rotation @ PLACE
    total, moment = np.zeros(3), np.zeros(3)
    for foot in FEET:
        own = [solo12.actuated_index[solo12.actuated.index(joint)] for joint in solo12.legs[foot].joints]
        more = -np.linalg.solve(state.jacobian(foot)[:3, own].T, tau[np.array(own) - 6])
        assert more[2] > 0.0
        total += more
        moment += np.cross(state.placement(foot).translation - at, more)
    np.testing.assert_allclose(total, load.mass * push, rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(moment, 0.0, atol=1e-3 * load.mass)
    # On one diagonal, the moment about the line between the feet is not compensated; the forces do not change.
    two = {foot: 2.0 * forces[foot] for foot in ("FL", "RR")}
    assert np.isfinite(load.torques(state, two)).all()
    assert not load.torques(state, {}).any()


def test_center_of_mass_includes_the_payload(solo12: Robot) -> None:
    load, mass = PayloadCompensation(solo12, Morphology.from_robot(solo12), DT), 0.3 * solo12.mass
    load.mass, load.first_moment = mass, mass * PLACE
    real = qd.Dynamics(with_payload(solo12, mass, PLACE))
    state = at_home(solo12)
    wanted = real.center_of_mass(np.array(solo12.q_home)) - state.com
    np.testing.assert_allclose(load.com_shift(state), wanted[:2], atol=1e-12)


def test_payload_estimate_is_bounded_and_reset(solo12: Robot) -> None:
    p = Morphology.from_robot(solo12)
    state, dynamics = at_home(solo12), qd.Dynamics(solo12)
    for share in (5.0, -0.9):  # for any torques
        load = PayloadCompensation(solo12, p, 0.01)
        feet = np.vstack([state.jacobian(foot)[:3] for foot in FEET])
        own = solo12.actuated_index
        up = np.tile([0.0, 0.0, 0.25 * (1.0 + share) * solo12.mass * p.gravity], 4)
        tau = (state.gravity - feet.T @ up)[own]
        for _ in range(250):
            load.update(dynamics.update(np.array(solo12.q_home), np.zeros(solo12.nv)), tau)
        assert load.mass == pytest.approx(
            (MAX_PAYLOAD_FRACTION if share > 0.0 else MIN_PAYLOAD_FRACTION) * p.mass, rel=0.02
        )
        estimate = load._estimator.estimate  # the clamped payload is at the same place, or as near as is assumed
        offset = estimate.com * min(1.0, MAX_PAYLOAD_OFFSET * p.length / max(np.linalg.norm(estimate.com), 1e-9))
        np.testing.assert_allclose(load.first_moment / load.mass, offset, atol=0.02 * p.length)
        assert np.linalg.norm(load.first_moment) <= 1.001 * abs(load.mass) * MAX_PAYLOAD_OFFSET * p.length
        load.reset()
        assert load.mass == 0.0
        assert not load.first_moment.any()


def test_unknown_payload_option_is_rejected(solo12: Robot) -> None:
    raises(qd.UnknownNameError, "payload", LocomotionController, solo12, payload="guessed")
