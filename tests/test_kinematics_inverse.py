"""Numeric inverse kinematics: any frames of any robot, within limits, with a report of convergence."""

import numpy as np
import pinocchio as pin
import pytest
from raising import raises

import quaddyn as qd
from quaddyn.kinematics import LegKinematics, inverse_kinematics
from quaddyn.urdf.tree import Pose


def random_configuration_within_limits(robot, rng):
    """A configuration inside the limits, the root at home."""
    low = np.where(np.isfinite(robot.lower), robot.lower, -1.0)
    high = np.where(np.isfinite(robot.upper), robot.upper, 1.0)
    q = rng.uniform(low, high)
    start = {"free": 7, "planar": 4, "fixed": 0}[robot.root]
    q[:start] = robot.q_home[:start]
    return robot.algorithms.normalize(robot.model, q)


@pytest.mark.parametrize("name", ["ur5", "panda", "z1", "xarm7", "rx90"])
def test_placements_of_an_arm_are_reached_within_its_limits(name):
    robot, rng = qd.load(name), np.random.default_rng(0)
    dyn, frame = qd.Dynamics(robot), robot.tree.joints[-1].child
    for _ in range(4):
        wanted = dyn.frame_placement(random_configuration_within_limits(robot, rng), frame)
        s = inverse_kinematics(robot, {frame: wanted}, restarts=40)
        assert s.converged and s.status == "converged" and s.errors[frame] <= 1e-10
        found = dyn.frame_placement(s.q, frame)
        np.testing.assert_allclose(found.translation, wanted.translation, atol=2e-10)
        np.testing.assert_allclose(found.rotation, wanted.rotation, atol=4e-10)
        assert (s.q >= robot.lower).all() and (s.q <= robot.upper).all()


@pytest.mark.parametrize("name", ["go2", "anymal_c", "hyq", "solo12"])
@pytest.mark.parametrize("root", ["free", "planar"])
def test_base_and_four_feet_reach_their_targets(name, root):
    robot = qd.load(name, root=root)
    dyn, q0 = qd.Dynamics(robot), robot.q_home
    base = robot.tree.root.name
    targets = {foot: dyn.frame_placement(q0, foot).translation for foot in robot.feet}
    pose = dyn.frame_placement(q0, base)
    pitched = pose.rotation @ pin.rpy.rpyToMatrix(0.0, 0.08, 0.0)
    lower = pose.translation + np.array([0.01, 0.0, -0.02])
    s = inverse_kinematics(robot, {base: Pose.of(pitched, lower), **targets})
    assert s.converged and s.starts == 1
    for foot, p in targets.items():
        np.testing.assert_allclose(dyn.frame_placement(s.q, foot).translation, p, atol=1e-10)
    np.testing.assert_allclose(dyn.frame_placement(s.q, base).rotation, pitched, atol=1e-9)


@pytest.mark.parametrize("name", ["go2", "hyq", "quadruped"])
def test_numeric_solution_equals_closed_form_and_moves_only_given_joints(name):
    robot, rng = qd.load(name), np.random.default_rng(1)
    for foot in robot.feet:
        leg = LegKinematics(robot, foot)
        p = leg.forward(leg.q_home) + 0.02 * rng.normal(size=3) * (leg.n > 2)
        root = np.array(pin.neutral(robot.model))[:7]
        q0 = np.concatenate((root, robot.q_home[7:]))
        s = inverse_kinematics(robot, {foot: p}, q0=q0, joints=leg.joints, move_root=False, tolerance=1e-12)
        assert s.converged
        places = [robot.configuration_index(joint) for joint in leg.joints]
        angles = [
            np.arctan2(s.q[i + 1], s.q[i]) if robot.tree.joints_by_name[j].type == "continuous" else s.q[i]
            for i, j in zip(places, leg.joints, strict=True)
        ]
        np.testing.assert_allclose(leg.inverse(p).q, angles, atol=1e-8)
        others = np.setdiff1d(
            np.arange(robot.nq),
            [
                *places,
                *(
                    i + 1
                    for i, j in zip(places, leg.joints, strict=True)
                    if robot.tree.joints_by_name[j].type == "continuous"
                ),
            ],
        )
        np.testing.assert_array_equal(s.q[others], q0[others])


def test_an_unreachable_target_is_reported_and_gives_the_nearest_point():
    robot = qd.load("two_link_leg")
    s = inverse_kinematics(robot, {"leg": [0.0, 0.0, -2.5]}, q0=np.array([-1.0, 0.5]), max_iterations=300)
    assert not s.converged and s.status == "stationary" and s.starts == 11
    assert s.errors["leg"] == pytest.approx(0.5, abs=1e-9)


def test_limits_are_respected_and_may_be_ignored(go2):
    leg = LegKinematics(go2, "FL")
    p = leg.forward(np.array([0.0, 0.5, 0.0]))  # straight: beyond the calf's limit
    q0 = np.concatenate((pin.neutral(go2.model)[:7], go2.q_home[7:]))
    options = {"q0": q0, "joints": leg.joints, "move_root": False, "tolerance": 1e-6, "restarts": 3}
    kept = inverse_kinematics(go2, {"FL": p}, **options)
    assert not kept.converged and (kept.q >= go2.lower).all() and (kept.q <= go2.upper).all()
    assert inverse_kinematics(go2, {"FL": p}, respect_limits=False, **options).converged


def test_restarts_are_reproducible_from_seed():
    robot = qd.load("panda")
    target = qd.Dynamics(robot).frame_placement(
        random_configuration_within_limits(robot, np.random.default_rng(7)), "panda_hand"
    )
    q0 = np.clip(np.full(robot.nq, 2.5), robot.lower, robot.upper)
    a, b = (inverse_kinematics(robot, {"panda_hand": target}, q0=q0, seed=3) for _ in range(2))
    np.testing.assert_array_equal(a.q, b.q)
    assert a.starts == b.starts


def test_a_start_outside_the_limits_is_moved_inside():
    robot = qd.load("three_link_leg")
    s = inverse_kinematics(robot, {"leg": [0.1, 0.0, -0.4]}, q0=np.array([3.0, 3.0, 3.0]))
    assert s.converged and (s.q >= robot.lower).all() and (s.q <= robot.upper).all()


NAN = [np.nan, 0.0, 0.0]


@pytest.mark.parametrize(
    ("targets", "options", "error", "word"),
    [
        ({}, {}, qd.ArgumentError, "targets"),
        ({"FX": [0, 0, 0]}, {}, qd.UnknownNameError, "frame 'FX'"),
        ({"FL": [0, 0]}, {}, qd.ArgumentError, r"targets\['FL'\]"),
        ({"FL": NAN}, {}, qd.ArgumentError, r"targets\['FL'\]"),
        ({"FL": "there"}, {}, qd.ArgumentTypeError, r"targets\['FL'\]"),
        ({"FL": 2.0 * np.eye(4)}, {}, qd.ArgumentError, "expected a placement"),
        ({"FL": [0, 0, 0]}, {"joints": ["knee"]}, qd.UnknownNameError, "joint 'knee'"),
        ({"FL": [0, 0, 0]}, {"joints": "FL_hip_joint"}, qd.ArgumentTypeError, "joints"),
        ({"FL": [0, 0, 0]}, {"joints": [], "move_root": False}, qd.ArgumentError, "expected at least one joint"),
        ({"FL": [0, 0, 0]}, {"q0": np.zeros(3)}, qd.ArgumentError, "q0"),
        ({"FL": [0, 0, 0]}, {"q0": np.zeros(19)}, qd.ArgumentError, "norm"),
        ({"FL": [0, 0, 0]}, {"damping": 0.0}, qd.ArgumentError, "damping"),
        ({"FL": [0, 0, 0]}, {"tolerance": np.nan}, qd.ArgumentError, "tolerance"),
        ({"FL": [0, 0, 0]}, {"max_iterations": 0}, qd.ArgumentError, "max_iterations"),
        ({"FL": [0, 0, 0]}, {"max_iterations": 1.5}, qd.ArgumentError, "max_iterations"),
        ({"FL": [0, 0, 0]}, {"restarts": None}, qd.ArgumentError, "restarts"),
        ({"FL": [0, 0, 0]}, {"seed": -1}, qd.ArgumentError, "seed"),
        ({"FL": [0, 0, 0]}, {"tolerance": "tight"}, qd.ArgumentTypeError, "tolerance"),
        ({"FL": [0, 0, 1e200]}, {}, qd.ArgumentError, r"targets\['FL'\].*1e\+08"),
    ],
)
def test_wrong_arguments_are_named(targets, options, error, word):
    raises(error, word, inverse_kinematics, qd.load("go2"), targets, **options)
