"""Robots with dependent joints, by closed loops, mimic tags or both: one mechanism in its independent coordinates."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import test_loops
import test_mimic
from loop_robots import ankle, knee_leg

import quaddyn as qd
from quaddyn.dynamics import joint_placements, kinematic_tree
from quaddyn.robot.saving import from_record, to_record
from quaddyn.simulation import terms

STEP = 1e-6
#: File and root of each robot, by name.
ROBOTS = {
    "knee": (knee_leg(), "fixed"),
    "floating knee": (knee_leg(), "free"),
    "ankle": (ankle(), "fixed"),
    "gripper": (test_loops.machine("gripper"), "fixed"),
    "belt": (test_loops.machine("belt"), "fixed"),
    "toe": (test_loops.machine("toe"), "fixed"),
    "floating gripper": (test_loops.machine("gripper"), "free"),
    "mimics": (test_mimic.machine(), "fixed"),
    "floating mimics": (test_mimic.machine(), "free"),
}


@pytest.fixture(scope="module", params=ROBOTS)
def robot(request: pytest.FixtureRequest) -> qd.Robot:
    text, root = ROBOTS[request.param]
    return qd.load(text, root=root, armature=0.01)


@pytest.fixture(scope="module")
def state(robot: qd.Robot) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    return robot.random_configuration(4), rng.normal(size=robot.nv), rng.normal(size=robot.nv)


def test_dynamics_agree_with_the_reference(robot: qd.Robot) -> None:
    """The reference solves closed loops with multipliers on the open tree, and reads mimic tags by its own code."""
    report = qd.cross_check(robot, samples=3, seed=1, tolerance=1e-10)
    assert report.passed, str(report)


def test_coupling_map_and_its_drift_agree_with_finite_differences(robot: qd.Robot, state: tuple) -> None:
    q, v, _ = state
    ends = [robot.coupling.at(robot.integrate(q, v, side * STEP)) for side in (-1.0, 1.0)]
    here = robot.coupling.at(q)
    rates = (ends[1].velocity(v) - ends[0].velocity(v)) / (2 * STEP)
    np.testing.assert_allclose(rates, here.drift(v), atol=1e-7)
    np.testing.assert_allclose((ends[1].G - ends[0].G) / (2 * STEP), here.rate(v), atol=1e-7)
    if robot.loops:
        follow, q_follow = robot.coupling.v_from < 0, robot.coupling.q_from < 0  # of the dependent joints
        assert follow.sum() == q_follow.sum() == len(robot.coupling.followers)
        np.testing.assert_allclose((ends[1].q - ends[0].q)[q_follow] / (2 * STEP), here.velocity(v)[follow], atol=1e-8)


def test_motion_agrees_with_finite_differences(robot: qd.Robot, state: tuple) -> None:
    q, v, tau = state
    dyn, frame = qd.Dynamics(robot), robot.bodies[-1].name
    a, C = dyn.aba(q, v, tau), dyn.coriolis(q, v)
    before, after = (robot.integrate(q, v, side * STEP) for side in (-1.0, 1.0))
    np.testing.assert_allclose((dyn.crba(after) - dyn.crba(before)) / (2 * STEP), C + C.T, atol=1e-7)
    np.testing.assert_allclose(C @ v + dyn.gravity(q), dyn.nle(q, v), atol=1e-11)
    J = (dyn.frame_jacobian(after, frame) - dyn.frame_jacobian(before, frame)) / (2 * STEP)
    np.testing.assert_allclose(J @ v, dyn.frame_drift(q, v, frame), atol=1e-7)
    # Power: without friction and contacts, energy changes by v . tau.
    ends = [sum(dyn.energy(robot.integrate(q, v + 0.5 * h * a, h), v + h * a)) for h in (-STEP, STEP)]
    assert (ends[1] - ends[0]) / (2 * STEP) == pytest.approx(v @ tau, abs=1e-6)


def test_state_gives_the_results_of_stateless_calls_in_any_order(robot: qd.Robot, state: tuple) -> None:
    q, v, _ = state
    dyn, frame = qd.Dynamics(robot), robot.bodies[-1].name
    s = dyn.update(q, v)
    for _ in range(2):  # before and after the energy is computed
        np.testing.assert_allclose(s.drift(frame), dyn.frame_drift(q, v, frame), atol=1e-11)
        np.testing.assert_allclose(s.jacobian(frame), dyn.frame_jacobian(q, frame), atol=1e-12)
        assert s.energy == pytest.approx(dyn.energy(q, v), abs=1e-12)
    np.testing.assert_allclose(s.gravity, dyn.gravity(q), atol=1e-11)


def test_terms_of_the_embedded_plant_equal_dynamics(robot: qd.Robot, state: tuple) -> None:
    q, v, _ = state
    dyn, tree = qd.Dynamics(robot), kinematic_tree.make_kinematic_tree(robot.model, robot.armature, robot.coupling)
    found = terms.make_step_terms(tree)
    joint_placements.place_joints(tree, q, found.joints)
    terms.compute_inertia(tree, found)
    terms.compute_bias(tree, v, found)
    np.testing.assert_allclose(np.triu(found.M), np.triu(dyn.crba(q)), atol=1e-12)
    np.testing.assert_allclose(found.h, dyn.nle(q, v), atol=1e-11)


def test_records_and_pickles_restore_the_same_robot(robot: qd.Robot, state: tuple) -> None:
    expected = qd.Dynamics(robot).rnea(*state)
    for back in (from_record(to_record(robot)), pickle.loads(pickle.dumps(robot))):
        for name in ("q_home", "lower", "upper", "damping", "friction", "armature"):
            np.testing.assert_allclose(getattr(back, name), getattr(robot, name), atol=1e-12)
        np.testing.assert_allclose(qd.Dynamics(back).rnea(*state), expected, atol=1e-10)
