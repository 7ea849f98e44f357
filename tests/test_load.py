"""`load`: every source, every override, and a model equal to Pinocchio's own import of the same file."""

from __future__ import annotations

import concurrent.futures
import copy
import dataclasses
import importlib.util
import json
import pickle
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pinocchio as pin
import pytest
import urdf_editing
import urdf_text
from hypothesis import given, settings
from hypothesis import strategies as st
from pinocchio.visualize import MeshcatVisualizer
from raising import raises
from slow_parameters import others_slow
from urdf_editing import FEET, Segment, Urdf, X, Y, Z, dog, leg_names
from urdf_text import inertial
from xacro_stand_in import provide_xacro

import quaddyn as qd
from quaddyn.control import CartesianImpedance, JointPD
from quaddyn.robot import saving, validation
from quaddyn.robot.bodies import combine_inertials, merge_fixed_links, pseudo_inertia
from quaddyn.robot.catalogue import example_robot_folder, find_entry
from quaddyn.robot.saving import from_record, to_record
from quaddyn.urdf import parse
from quaddyn.urdf.mjcf import has_mujoco
from quaddyn.urdf.reader import rotation_from_rpy
from quaddyn.urdf.srdf import read_poses
from quaddyn.urdf.tree import Inertial, Limits, Pose
from quaddyn.wbc import ComTask, VelocityController

SMALL = leg_names("small_quadruped")
EXAMPLES = sorted(p.relative_to(example_robot_folder()).as_posix() for p in example_robot_folder().rglob("*.urdf"))
# Files without a valid rigid-body model: no moving joint, no link, bodies without mass or with inconsistent inertia,
# and fingers that mimic joints which their file does not have.
REFUSED = {
    "alex_description/urdf/alex_psyonic_hands.urdf": "mimics a joint that does not exist",
    "hector_description/robots/quadrotor_base.urdf": "no moving joint",
    "iris_description/robots/iris_simple.urdf": "no moving joint",
    "ur_description/urdf/ur3.urdf": "no <link>",
    "human_description/robots/human.urdf": "no mass",
    "icub_description/robots/icub.urdf": "not positive definite",
    "romeo_description/urdf/romeo.urdf": "no mass",
    "romeo_description/urdf/romeo_small.urdf": "moments of inertia",
    "romeo_description/urdf/romeo_laas_small.urdf": "moments of inertia",
}
#: Axes such as "0 1 6e-17": rounding decides whether they are frame axes, and with it the type of the joint.
ROUNDED_AXES = {"icub_description/robots/icub_reduced.urdf"}
#: One file of each kind: arms, hands, humanoids, wheels and wings, roots of every kind.
QUICK = {
    path for path in EXAMPLES if Path(path).stem in (
        "anymal-kinova", "hextilt_flying_arm_5", "iris", "panda", "pr2", "talos_reduced", "tiago_dual",
        "allegro_right_hand", "alexander_v1.lowerBodyOnly", "centauro", "so100", "xarm7", "TwoDofs",
    )
}  # fmt: skip


@pytest.fixture(scope="module")
def small() -> qd.Robot:
    return qd.load("small_quadruped")


# -- the model --------------------------------------------------------------------------------------------------
def assert_equal_models(robot: qd.Robot, expected: pin.Model) -> None:
    """Same joints, placements, inertias, frames and limits; limits missing in the expected model may differ."""
    model = robot.model
    assert list(model.names) == list(expected.names)
    assert list(model.parents) == list(expected.parents)
    assert (model.nq, model.nv) == (expected.nq, expected.nv)
    for i in range(expected.njoints):
        assert model.joints[i].shortname() == expected.joints[i].shortname()
        assert (model.joints[i].idx_q, model.joints[i].idx_v) == (expected.joints[i].idx_q, expected.joints[i].idx_v)
        np.testing.assert_allclose(
            model.jointPlacements[i].homogeneous, expected.jointPlacements[i].homogeneous, rtol=0, atol=1e-12
        )
        theirs = expected.inertias[i].matrix()
        np.testing.assert_allclose(
            model.inertias[i].matrix(), theirs, rtol=0, atol=1e-12 * max(1.0, float(np.abs(theirs).max()))
        )
    assert model.nframes == expected.nframes + len(robot.feet)
    for ours, theirs in zip(model.frames, expected.frames, strict=False):
        assert (ours.name, ours.type, ours.parentJoint) == (theirs.name, theirs.type, theirs.parentJoint)
        assert ours.parentFrame == theirs.parentFrame
        np.testing.assert_allclose(ours.placement.homogeneous, theirs.placement.homogeneous, rtol=0, atol=1e-12)
    written = {j.name: j for j in robot.tree.joints}
    for i in range(1, expected.njoints):
        joint, v, q = expected.joints[i], expected.joints[i].idx_v, expected.joints[i].idx_q
        if joint.nv != 1:
            continue
        limits = written[expected.names[i]].limits
        pairs = [
            (model.upperEffortLimit[v], expected.upperEffortLimit[v], limits.effort),
            (model.upperVelocityLimit[v], expected.upperVelocityLimit[v], limits.velocity),
        ]
        if joint.nq == 1:
            pairs.append((model.lowerPositionLimit[q], expected.lowerPositionLimit[q], limits.lower))
            pairs.append((model.upperPositionLimit[q], expected.upperPositionLimit[q], limits.upper))
        for ours, theirs, said in pairs:
            assert ours == said
            assert ours == theirs or (np.isinf(ours) and (abs(theirs) >= 1e6 or theirs == 0.0))


@pytest.mark.parametrize("path", others_slow((p for p in EXAMPLES if p not in REFUSED.keys() | ROUNDED_AXES), QUICK))
def test_model_with_fixed_root_equals_pinocchio_import(path: str) -> None:
    file = example_robot_folder() / path
    assert_equal_models(qd.load(file, root="fixed"), pin.buildModelFromUrdf(str(file)))


@pytest.mark.parametrize(
    "name",
    others_slow(
        [*urdf_editing.QUADRUPEDS, "bolt", "ur5", "z1", "finger_edu"],
        ["go2", "anymal_b_kinova", "hyq", "solo8", "bolt", "ur5"],
    ),
)
def test_model_with_free_root_equals_pinocchio_import(name: str) -> None:
    robot = qd.load(name, root="free")
    urdf = Urdf.of(name)
    if urdf.base == "world":  # which the root replaces
        urdf.root.remove(next(j for j in urdf.joints if urdf_editing.below(j, "parent").attrib["link"] == "world"))
        urdf.root.remove(urdf.link("world"))
    expected = pin.buildModelFromXML(str(urdf), pin.JointModelFreeFlyer())
    assert_equal_models(robot, expected)
    np.testing.assert_array_equal(robot.model.gravity.vector, expected.gravity.vector)


@pytest.mark.parametrize("path", REFUSED)
def test_file_without_a_valid_robot_is_rejected_with_a_reason(path: str) -> None:
    with pytest.raises(qd.ModelError, match=REFUSED[path]) as caught:
        qd.load(example_robot_folder() / path, root="fixed")
    assert Path(path).name in str(caught.value)


@pytest.mark.parametrize("name", ["go2", "small_quadruped", "solo8", "two_link_leg"])
def test_planar_root_equals_free_root_constrained_to_its_plane(name: str) -> None:
    # tau = S^T rnea(S v, S a + dS v), with the map S from planar velocities to those of the free base.
    source = name
    if name == "two_link_leg":  # its base has no mass, which a floating base requires
        source = str(Urdf.of(name).add_link("ballast", 1.0).add_joint("weight", "fixed", "base", "ballast"))
    free, planar = qd.load(source, root="free"), qd.load(source, root="planar")
    assert (planar.nq, planar.nv) == (free.nq - 4, free.nv - 3)
    assert list(planar.model.names)[1:4] == ["root_x", "root_z", "root_pitch"]
    rng, n = np.random.default_rng(1), free.nv - 6
    a_data, b_data = free.model.createData(), planar.model.createData()
    for _ in range(5):
        x, z, pitch = rng.uniform(-1, 1, 3)
        joints = rng.uniform(-1, 1, n)
        v, a = rng.normal(size=(2, 3 + n))
        R = pin.rpy.rpyToMatrix(0.0, float(pitch), 0.0)
        S = np.zeros((6 + n, 3 + n))
        S[:3, :2], S[4, 2], S[6:, 3:] = R.T[:, [0, 2]], 1.0, np.eye(n)
        moved = np.zeros(6 + n)
        moved[:3] = -np.cross([0, v[2], 0], S[:3, :2] @ v[:2])
        q_free = np.r_[x, 0, z, pin.Quaternion(R).coeffs(), joints]
        q_planar = np.r_[x, z, pitch, joints]
        tau = pin.rnea(planar.model, b_data, q_planar, v, a)
        expected = S.T @ pin.rnea(free.model, a_data, q_free, S @ v, S @ a + moved)
        np.testing.assert_allclose(tau, expected, rtol=0, atol=1e-11 * max(1.0, np.abs(expected).max()))
        M = S.T @ pin.crba(free.model, a_data, q_free) @ S
        np.testing.assert_allclose(pin.crba(planar.model, b_data, q_planar), M, rtol=0, atol=1e-11 * np.abs(M).max())
        pin.framesForwardKinematics(free.model, a_data, q_free)
        pin.framesForwardKinematics(planar.model, b_data, q_planar)
        for link in (x.name for x in free.tree.links):
            np.testing.assert_allclose(
                b_data.oMf[planar.frame_id(link)].homogeneous, a_data.oMf[free.frame_id(link)].homogeneous, atol=1e-12
            )


@pytest.mark.parametrize("axis", [X, Y, Z, (0.0, 0.0, -1.0), (0.6, 0.0, 0.8), (-0.48, 0.6, 0.64)])
def test_planar_joint_moves_in_the_plane_normal_to_its_axis(axis: tuple[float, float, float]) -> None:
    urdf = Urdf.of("two_link_leg").add_link("puck", 1.0, (0.1, 0.2, 0.3))
    placed = (0.1, -0.2, 0.3), (0.4, -0.3, 0.2)
    urdf.add_joint("slide", "planar", "base", "puck", *placed, axis=axis)
    robot = qd.load(str(urdf))
    data, rng = robot.model.createData(), np.random.default_rng(2)
    start = pin.SE3(pin.rpy.rpyToMatrix(*placed[1]), np.array(placed[0]))
    pin.framesForwardKinematics(robot.model, data, pin.neutral(robot.model))
    np.testing.assert_allclose(data.oMf[robot.frame_id("puck")].homogeneous, start.homogeneous, atol=1e-14)
    for _ in range(5):
        q = pin.integrate(robot.model, pin.neutral(robot.model), rng.normal(size=robot.nv))
        pin.framesForwardKinematics(robot.model, data, q)
        T = start.actInv(data.oMf[robot.frame_id("puck")])
        assert np.linalg.norm(T.translation) > 0.1
        assert T.translation @ axis == pytest.approx(0.0, abs=1e-13)  # moves in the plane
        np.testing.assert_allclose(T.rotation @ axis, axis, atol=1e-13)  # and turns about its normal


# -- sources ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", qd.CATALOGUE)
def test_every_name_of_the_catalogue_loads(name: str) -> None:
    robot = qd.load(name)
    entry = qd.CATALOGUE[name]
    assert robot.nu > 0
    assert robot.mass > 0.0
    assert len(robot.feet) == {"quadruped": 4, "biped": 2, "leg": 1}.get(entry.kind.split()[0], len(robot.feet))
    assert robot.root == (entry.root or "free")
    checks = robot.report.check_results
    assert checks["smallest eigenvalue of M (unit diagonal)"] > 1e4 * validation.MIN_EIGENVALUE
    assert checks["RNEA(ABA) error"] < 1e-2 * validation.MAX_ROUND_TRIP_ERROR


@pytest.mark.parametrize("name", ["small_quadruped", "hyq", "rx90"])
def test_name_path_and_text_give_the_same_robot(name: str) -> None:
    path = find_entry(name).path
    root = qd.load(name).root
    same = [qd.load(x, root=root) for x in (name, path, str(path), path.read_text(encoding="utf-8"))]
    for other in same[1:]:
        assert other.model == same[0].model
        np.testing.assert_array_equal(other.q_home, same[0].q_home)
        assert other.actuated == same[0].actuated
        assert {k: v.joints for k, v in other.legs.items()} == {k: v.joints for k, v in same[0].legs.items()}
        for quantity in ("lower", "upper", "effort_limits", "velocity_limits", "damping", "friction", "armature"):
            np.testing.assert_array_equal(getattr(other, quantity), getattr(same[0], quantity))


def test_text_may_begin_with_a_declaration_a_byte_order_mark_or_blanks() -> None:
    text = find_entry("small_quadruped").path.read_text(encoding="utf-8")
    assert text.startswith("<?xml")
    for before in ("", "\ufeff", "\n \t", "\ufeff\n"):
        assert qd.load(before + text).mass == pytest.approx(2.41)


@pytest.mark.parametrize(
    ("typo", "meant"), [("go3", "go2"), ("anymal", "anymal_c"), ("solo", "solo12"), ("Go2", "go2")]
)
def test_unknown_name_lists_near_matches(typo: str, meant: str) -> None:
    with pytest.raises(qd.UnknownNameError) as caught:
        qd.load(typo)
    assert repr(meant) in str(caught.value)
    assert meant in caught.value.known


@pytest.mark.parametrize("source", [None, 3, b"<robot/>", ["go2"]])
def test_source_of_another_type_raises(source: object) -> None:
    raises(qd.ArgumentError, "source", qd.load, source)


@pytest.mark.parametrize("source", ["missing.urdf", "/", "", "\n", ".", "a\0b.urdf", "x" * 300, "x" * 5000 + ".urdf"])
def test_source_that_does_not_exist_raises(source: str) -> None:
    with pytest.raises((qd.ModelError, qd.UnknownNameError)):
        qd.load(source)


def test_unknown_root_type_raises() -> None:
    raises(qd.ArgumentError, "root", qd.load, "go2", root="floating")


# -- limits in files --------------------------------------------------------------------------------------------
JOINT = "FL_calf_joint"


def with_limit(**attributes: str | None) -> Urdf:
    urdf = Urdf.of("small_quadruped")
    limit = urdf_editing.below(urdf.joint(JOINT), "limit")
    for name, value in attributes.items():
        if value is None:
            limit.attrib.pop(name)
        else:
            limit.attrib[name] = value
    return urdf


def limits_of(robot: qd.Robot) -> tuple[float, float, float, float]:
    q, u = robot.configuration_index(JOINT), robot.actuated.index(JOINT)
    return (
        float(robot.lower[q]),
        float(robot.upper[q]),
        float(robot.velocity_limits[u]),
        float(robot.effort_limits[u]),
    )


def test_effort_of_zero_is_a_passive_joint() -> None:
    robot = qd.load(str(with_limit(effort="0")))
    assert JOINT not in robot.actuated
    assert robot.nu == 11
    assert robot.feet == FEET
    assert any("passive" in f.reason and JOINT in str(f.where) for f in robot.report)
    tau = np.arange(1.0, 12.0)
    full = robot.generalized_torques(tau)
    assert full[robot.velocity_index(JOINT)] == 0.0
    np.testing.assert_array_equal(full[robot.actuated_index], tau)
    assert JOINT in qd.load(str(with_limit(effort="0")), limits={JOINT: {"effort": 5.0}}).actuated
    assert JOINT in qd.load(str(with_limit(effort="0")), actuated=robot.joint_names).actuated


def test_mimic_joint_is_dependent_and_reported() -> None:
    urdf = Urdf.of("small_quadruped")
    urdf_editing.SubElement(urdf.joint("FR_calf_joint"), "mimic", joint=JOINT, multiplier="1", offset="0")
    robot = qd.load(str(urdf))
    assert (robot.nv, robot.model.nv) == (17, 18)
    notes = [f for f in robot.report.findings if "FR_calf_joint" in str(f.where)]
    assert any("'FR_calf_joint' is at 1 *" in f.reason for f in notes)
    assert any("no stance is computed" in f.reason for f in notes)  # of a leg whose joints are not independent


# -- overrides --------------------------------------------------------------------------------------------------
def test_limits_by_argument_override_the_file(small: qd.Robot) -> None:
    robot = qd.load("small_quadruped", limits={JOINT: {"effort": 3.0, "upper": -0.5}})
    lower, _, velocity, _ = limits_of(small)
    assert limits_of(robot) == (lower, -0.5, velocity, 3.0)
    assert robot.tree.joints_by_name[JOINT].limits.effort == 3.0
    assert robot.model.upperEffortLimit[robot.velocity_index(JOINT)] == 3.0
    for quantity in ("effort", "upper"):
        assert "argument" in robot.report.provenance[f"{JOINT}.{quantity}"]
    for quantity in ("lower", "velocity"):
        assert "small_quadruped.urdf" in robot.report.provenance[f"{JOINT}.{quantity}"]
    others = [n for n in robot.actuated if n != JOINT]
    where = [robot.actuated.index(n) for n in others]
    np.testing.assert_array_equal(robot.effort_limits[where], small.effort_limits[where])


def test_limits_record_keeps_the_file_values_of_omitted_fields(small: qd.Robot) -> None:
    lower, upper, velocity, effort = limits_of(small)
    for limits, expected in (
        (Limits(effort=3.0), (lower, upper, velocity, 3.0)),
        (Limits(lower=-2.0, velocity=np.inf), (-2.0, upper, np.inf, effort)),
        (Limits(), (lower, upper, velocity, effort)),
        (Limits(-2.0, -0.4, 7.0, 8.0), (-2.0, -0.4, 7.0, 8.0)),
        (pickle.loads(pickle.dumps(Limits(velocity=float("inf")))), (lower, upper, np.inf, effort)),
        (
            copy.deepcopy(dataclasses.replace(small.tree.joints_by_name[JOINT].limits, upper=np.inf)),
            (lower, np.inf, velocity, effort),
        ),
    ):
        robot = qd.load("small_quadruped", limits={JOINT: limits})
        assert limits_of(robot) == expected, limits
        again = from_record(to_record(robot))
        assert limits_of(again) == expected, limits


@pytest.mark.parametrize("quantity", ["damping", "friction", "armature"])
def test_losses_and_armature_by_argument_override_the_file(quantity: str) -> None:
    every = qd.load("small_quadruped", **{quantity: 0.03})  # type: ignore[arg-type]
    np.testing.assert_array_equal(getattr(every, quantity), [*[0.0] * 6, *[0.03] * 12])
    one = qd.load("small_quadruped", **{quantity: {JOINT: 0.7}})  # type: ignore[arg-type]
    plain = qd.load("small_quadruped")
    expected = getattr(plain, quantity).copy()
    expected[one.velocity_index(JOINT)] = 0.7
    np.testing.assert_array_equal(getattr(one, quantity), expected)
    assert one.report.provenance[f"{JOINT}.{quantity}"] == f"argument {quantity}"
    assert "argument" not in one.report.provenance[f"FR_calf_joint.{quantity}"]
    in_model = {"damping": "damping", "friction": "upperDryFrictionLimit", "armature": "armature"}[quantity]
    np.testing.assert_array_equal(getattr(one.model, in_model), expected)


def test_actuated_argument_selects_and_orders_the_joints(small: qd.Robot) -> None:
    wanted = ("RR_calf_joint", "FL_hip_joint", "RL_thigh_joint")
    robot = qd.load("small_quadruped", actuated=wanted)
    assert robot.actuated == wanted
    assert robot.nu == 3
    full = robot.generalized_torques(np.array([1.0, 2.0, 3.0]))
    assert [full[robot.velocity_index(n)] for n in wanted] == [1.0, 2.0, 3.0]
    assert np.count_nonzero(full) == 3
    expected = [small.effort_limits[small.actuated.index(n)] for n in wanted]
    np.testing.assert_array_equal(robot.effort_limits, expected)


def test_legs_by_argument_replace_detection() -> None:
    given = {"FL": SMALL["RR"].joints, "one": SMALL["FL"].joints[1:]}
    robot = qd.load("small_quadruped", legs=given)
    assert {k: leg.joints for k, leg in robot.legs.items()} == given
    assert robot.feet == ("FL", "one")
    assert robot.legs["FL"].foot.frame == "RR_foot"
    assert robot.frame_id("one") == robot.model.getFrameId("one", pin.FrameType.OP_FRAME)


def test_legs_that_end_before_the_foot_are_rejected_unless_the_foot_is_named() -> None:
    for joints in (SMALL["FL"].joints[:1], SMALL["FL"].joints[:2]):
        with pytest.raises(qd.ArgumentError, match=rf"^legs\['FL'\]: .*{SMALL['FL'].joints[len(joints)]}.*feet="):
            qd.load("small_quadruped", legs={"FL": joints})
    robot = qd.load("small_quadruped", legs={"FL": SMALL["FL"].joints[:2]}, feet={"FL": "FL_thigh"})
    assert robot.legs["FL"].joints == SMALL["FL"].joints[:2] and robot.legs["FL"].foot.frame == "FL_thigh"


def test_empty_legs_argument_disables_leg_detection() -> None:
    robot = qd.load("small_quadruped", legs={})
    assert robot.feet == ()
    assert robot.root == "free"


def test_feet_by_name_or_record_override_detection(small: qd.Robot) -> None:
    by_name = qd.load("small_quadruped", feet={"FL": "FL_calf"})
    assert by_name.legs["FL"].foot.frame == "FL_calf"
    assert by_name.legs["FR"].foot.frame == "FR_foot"
    assert "argument" in by_name.report.provenance["FL.frame"]
    foot = qd.Foot("FL", "FL_foot", 0.03, np.array([0.0, 0.01, 0.02]))
    record = qd.load("small_quadruped", feet={"FL": foot})
    assert record.legs["FL"].foot.radius == 0.03
    np.testing.assert_array_equal(record.legs["FL"].foot.offset, [0.0, 0.01, 0.02])
    assert "argument" in record.report.provenance["FL.radius"]
    assert "argument" in record.report.provenance["FL.frame"]
    placed = record.model.frames[record.frame_id("FL")].placement
    carrier = small.model.frames[small.frame_id("FL_foot")].placement
    np.testing.assert_allclose(placed.translation, carrier.act(np.array([0.0, 0.01, 0.02])), rtol=0, atol=1e-15)
    foot.offset[0] = 9.0  # the caller's array is copied
    assert record.legs["FL"].foot.offset[0] == 0.0


def test_home_by_argument_overrides_the_default(small: qd.Robot) -> None:
    q = np.array(small.q_home)
    q[2], q[7:] = 1.0, q[7:] * 0.9
    robot = qd.load("small_quadruped", q_home=q)
    np.testing.assert_array_equal(robot.q_home, q)
    q[2] = 5.0
    assert robot.q_home[2] == 1.0
    assert not robot.q_home.flags.writeable


def test_knee_direction_per_leg_is_used_if_limits_allow_it() -> None:
    bends = {"FL": "forward", "FR": "forward", "RL": "backward", "RR": "backward"}
    robot = qd.load("anymal_c", knee_direction=bends)
    assert {k: leg.knee_direction for k, leg in robot.legs.items()} == bends


def test_knee_direction_that_violates_limits_is_reported() -> None:
    robot = qd.load("small_quadruped", knee_direction="forward")  # its joint limits do not allow it
    assert {leg.knee_direction for leg in robot.legs.values()} == {"backward"}
    assert any("bend" in f.reason for f in robot.report.warnings)


WRONG: dict[str, tuple[dict[str, Any], type[Exception]]] = {
    "legs: unknown joint": ({"legs": {"FL": ("FL_hip_joint", "knee")}}, qd.UnknownNameError),
    "legs: no chain": ({"legs": {"FL": ("FL_hip_joint", "FR_thigh_joint")}}, qd.ArgumentError),
    "legs: foot first": ({"legs": {"FL": ("FL_calf_joint", "FL_thigh_joint")}}, qd.ArgumentError),
    "legs: empty": ({"legs": {"FL": ()}}, qd.ArgumentError),
    "legs: string": ({"legs": {"FL": "FL_hip_joint"}}, qd.ArgumentError),
    "legs: no mapping": ({"legs": ["FL_hip_joint"]}, qd.ArgumentError),
    "legs: one joint, two legs": ({"legs": {"a": SMALL["FL"].joints, "b": SMALL["FL"].joints}}, qd.ArgumentError),
    "legs: name of no use": ({"legs": {"": SMALL["FL"].joints}}, qd.ArgumentError),
    "legs: reserved name": ({"legs": {"universe": SMALL["FL"].joints}}, qd.ArgumentError),
    "feet: unknown leg": ({"feet": {"LF": "FL_foot"}}, qd.UnknownNameError),
    "feet: unknown link": ({"feet": {"FL": "toe"}}, qd.UnknownNameError),
    "feet: another leg's link": ({"feet": {"FL": "FR_foot"}}, qd.UnknownNameError),
    "feet: negative radius": ({"feet": {"FL": qd.Foot("FL", "FL_foot", -0.1, np.zeros(3))}}, qd.ArgumentError),
    "feet: nan radius": ({"feet": {"FL": qd.Foot("FL", "FL_foot", np.nan, np.zeros(3))}}, qd.ArgumentError),
    "feet: offset of two": ({"feet": {"FL": qd.Foot("FL", "FL_foot", 0.1, np.zeros(2))}}, qd.ArgumentError),
    "feet: nan offset": ({"feet": {"FL": qd.Foot("FL", "FL_foot", 0.1, np.full(3, np.nan))}}, qd.ArgumentError),
    "feet: no name": ({"feet": {"FL": 3}}, qd.ArgumentError),
    "knee_direction: unknown leg": ({"knee_direction": {"LF": "forward"}}, qd.UnknownNameError),
    "knee_direction: unknown way": ({"knee_direction": "sideways"}, qd.ArgumentError),
    "actuated: unknown": ({"actuated": ("FL_hip_joint", "knee")}, qd.UnknownNameError),
    "actuated: twice": ({"actuated": ("FL_hip_joint", "FL_hip_joint")}, qd.ArgumentError),
    "actuated: string": ({"actuated": "FL_hip_joint"}, qd.ArgumentError),
    "limits: unknown joint": ({"limits": {"knee": {"effort": 1.0}}}, qd.UnknownNameError),
    "limits: unknown key": ({"limits": {JOINT: {"torque": 1.0}}}, qd.ArgumentError),
    "limits: crossed": ({"limits": {JOINT: {"lower": 1.0, "upper": -1.0}}}, qd.ArgumentError),
    "limits: nan": ({"limits": {JOINT: {"effort": np.nan}}}, qd.ArgumentError),
    "limits: negative": ({"limits": {JOINT: {"effort": -1.0}}}, qd.ArgumentError),
    "limits: text": ({"limits": {JOINT: {"effort": "strong"}}}, qd.ArgumentError),
    "limits: a number": ({"limits": {JOINT: 3.0}}, qd.ArgumentError),
    "limits: no mapping": ({"limits": 3.0}, qd.ArgumentError),
    "damping: unknown joint": ({"damping": {"knee": 0.1}}, qd.UnknownNameError),
    "damping: negative": ({"damping": -0.1}, qd.ArgumentError),
    "friction: nan": ({"friction": {JOINT: np.nan}}, qd.ArgumentError),
    "friction: text": ({"friction": "little"}, qd.ArgumentError),
    "armature: inf": ({"armature": np.inf}, qd.ArgumentError),
    "armature: list": ({"armature": [0.1] * 12}, qd.ArgumentError),
    "q_home: short": ({"q_home": np.zeros(12)}, qd.ArgumentError),
    "q_home: nan": ({"q_home": np.full(19, np.nan)}, qd.ArgumentError),
    "q_home: no quaternion": ({"q_home": np.zeros(19)}, qd.ArgumentError),
    "q_home: text": ({"q_home": "standing"}, qd.ArgumentError),
    "repair: unknown": ({"repair": ("everything",)}, qd.ArgumentError),
    "repair: string": ({"repair": "inertia"}, qd.ArgumentError),
    "packages: no folder": ({"packages": ("nowhere",)}, qd.ArgumentError),
    "packages: no such folder": ({"packages": "nowhere"}, qd.ArgumentError),
    "packages: a number": ({"packages": 3}, qd.ArgumentTypeError),
    "packages: numbers": ({"packages": (3,)}, qd.ArgumentTypeError),
    "actuated: a number": ({"actuated": 3}, qd.ArgumentTypeError),
    "repair: a number": ({"repair": 3}, qd.ArgumentTypeError),
    "knee_direction: a number": ({"knee_direction": 3}, qd.ArgumentTypeError),
}


@pytest.mark.parametrize("case", list(WRONG))
def test_invalid_argument_raises_and_is_named(case: str) -> None:
    kwargs, error = WRONG[case]
    raises(error, case.split(":")[0].removesuffix("s"), qd.load, "small_quadruped", **kwargs)


@pytest.mark.parametrize("joint", ["FL", "FR"])
def test_home_with_a_continuous_joint_off_the_circle_raises(joint: str) -> None:
    urdf = Urdf.of("small_quadruped").unlimit(f"{joint}_calf_joint")
    robot = qd.load(str(urdf))
    q = np.array(robot.q_home)
    q[robot.configuration_index(f"{joint}_calf_joint")] += 0.1
    raises(qd.ArgumentError, "q_home", qd.load, str(urdf), q_home=q)


DOG = qd.load("small_quadruped")


# -- maps -------------------------------------------------------------------------------------------------------
@settings(max_examples=30, deadline=None)
@given(names=st.permutations(DOG.actuated), seed=st.integers(0, 2**32 - 1))
def test_joint_permutation_maps_torques_to_any_order_and_back(names: list[str], seed: int) -> None:
    robot = DOG
    tau = np.random.default_rng(seed).normal(size=robot.nu)
    to = robot.joint_permutation(names)
    theirs = tau[to]
    assert dict(zip(names, theirs, strict=True)) == dict(zip(robot.actuated, tau, strict=True))
    back = np.empty_like(tau)
    back[to] = theirs
    np.testing.assert_array_equal(back, tau)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda n: n[:-1], qd.ArgumentError),
        (lambda n: [*n, n[0]], qd.ArgumentError),
        (lambda n: [*n[:-1], n[0]], qd.ArgumentError),
        (lambda n: [*n[:-1], "RR_claf_joint"], qd.UnknownNameError),
        (lambda n: [*n[:-1], 3], qd.UnknownNameError),
        (lambda n: [], qd.ArgumentError),
    ],
)
def test_joint_permutation_requires_every_joint_once(
    change: Callable[[list[str]], list[Any]], error: type[Exception], small: qd.Robot
) -> None:
    with pytest.raises(error):
        small.joint_permutation(change(list(small.actuated)))


@pytest.mark.parametrize("root", ["free", "planar", "fixed"])
@pytest.mark.parametrize("kind", ["revolute", "continuous"])
def test_indices_agree_with_the_model(root: str, kind: str) -> None:
    plan = (Segment(X, (0, 0.06, 0), (-0.8, 0.8)), Segment(Y, (0, 0, -0.2), (-1.6, 1.6)), Segment(Y, (0, 0, -0.2)))
    plan = (*plan[:2], dataclasses.replace(plan[2], kind=kind, limit=(-2.6, 2.6) if kind == "revolute" else None))
    robot = qd.load(str(dog(plan)), root=root)
    assert robot.joint_names == tuple(n for n in robot.model.names if n != "universe" and not n.startswith("root_"))
    for name in robot.joint_names:
        joint = robot.model.joints[robot.model.getJointId(name)]
        assert (robot.configuration_index(name), robot.velocity_index(name)) == (joint.idx_q, joint.idx_v)
        unit = np.zeros(robot.nu)
        unit[robot.actuated.index(name)] = 1.0
        assert robot.generalized_torques(unit)[joint.idx_v] == 1.0
    assert robot.actuated == robot.joint_names
    np.testing.assert_array_equal(robot.actuated_index, [robot.velocity_index(n) for n in robot.actuated])


@pytest.mark.parametrize(
    "tau",
    [
        *(np.zeros(11), np.zeros((12, 1)), 0.0, np.zeros(18), ["0"] * 12, [None] * 12),
        *(np.zeros(12, dtype=complex), np.zeros(12, dtype=bool), np.full(12, np.nan)),
    ],
)
def test_generalized_torques_accepts_only_one_finite_real_number_per_motor(tau: object, small: qd.Robot) -> None:
    raises(qd.ArgumentError, "tau", small.generalized_torques, tau)


def test_one_value_of_limits_holds_for_all_joints_with_motors(small: qd.Robot) -> None:
    text = with_limit(effort="0")
    robot = qd.load(str(text), limits=qd.Limits(effort=7.0))
    assert JOINT not in robot.actuated and len(robot.actuated) == small.nu - 1
    np.testing.assert_array_equal(robot.effort_limits, 7.0)
    np.testing.assert_array_equal(robot.velocity_limits, np.delete(small.velocity_limits, small.actuated.index(JOINT)))


@pytest.mark.parametrize(
    ("losses", "reasons"),
    [
        ({"friction": 23.0}, ["friction=23 of 12 joints .* takes more than 50 % of the effort limit"]),
        ({"armature": {JOINT: 50.0}}, [rf"armature=50 of 1 joints \({JOINT}\) needs more than 5 s"]),
        ({"damping": 500.0}, ["damping=500 of 12 joints .* below 2 % of its velocity limit"]),
        ({"friction": 5.0, "armature": 0.3, "damping": 3.0}, []),
    ],
)
def test_losses_that_the_motors_cannot_overcome_are_reported(losses: dict[str, Any], reasons: list[str]) -> None:
    found = [
        f.reason for f in qd.load("go2", **losses).report.warnings if re.match("friction|armature|damping", f.reason)
    ]
    assert len(found) == len(reasons)
    for reason, text in zip(reasons, found, strict=True):
        assert re.match(reason, text), text


@pytest.mark.parametrize(
    ("element", "attribute", "value", "reason"),
    [
        ("link", "mass", "1.4", "the mass of link FL_thigh is 1.4 kg, and that of FR_thigh, .* 0.14 kg"),
        ("joint", "limit", "0.04", "the effort limit of joint FL_thigh_joint is 0.04 N m, and that of FR_thigh_joint"),
        ("joint", "origin", "0.15 0.05 0.02", "the hips of legs .L and .R are .* from being mirror images"),
        ("link", "mass", "0.2", ""),
        ("joint", "limit", "3", ""),
        ("joint", "origin", "0.15 0.06 0.001", ""),
    ],
)
def test_a_leg_unlike_that_on_the_other_side_is_reported(element: str, attribute: str, value: str, reason: str) -> None:
    urdf = Urdf.of("small_quadruped")
    if element == "link":
        urdf_editing.below(urdf.link("FL_thigh"), "inertial/mass").attrib["value"] = value
    else:
        joint = urdf.joint("FL_hip_joint" if attribute == "origin" else "FL_thigh_joint")
        urdf_editing.below(joint, attribute).attrib["xyz" if attribute == "origin" else "effort"] = value
    found = [f.reason for f in qd.load(str(urdf)).report.warnings if "unless the legs" in f.advice]
    assert len(found) == bool(reason)
    assert not reason or re.match(reason, found[0]), found


def test_an_unknown_frame_names_the_root_link_and_the_error_can_be_pickled(small: qd.Robot) -> None:
    with pytest.raises(qd.UnknownNameError) as caught:
        small.frame_id("pelvis")
    for error in (caught.value, pickle.loads(pickle.dumps(caught.value))):
        assert f"the root link is '{small.bodies[0].name}'; known:" in str(error)


@pytest.mark.parametrize("method", ["frame_id", "velocity_index", "configuration_index"])
@pytest.mark.parametrize("name", ["FL_claf_joint", "", None, 3, ["FL"]])
def test_unknown_name_raises_in_every_lookup(method: str, name: object, small: qd.Robot) -> None:
    with pytest.raises(qd.UnknownNameError) as caught:
        getattr(small, method)(name)
    if name == "FL_claf_joint":
        assert "'FL_calf_joint'" in str(caught.value)


def test_foot_name_and_file_frame_are_aliases(small: qd.Robot) -> None:
    frames = small.model.frames
    for foot in FEET:
        named, own = frames[small.frame_id(foot)], frames[small.frame_id(f"{foot}_foot")]
        assert named.parentJoint == own.parentJoint
        np.testing.assert_array_equal(named.placement.homogeneous, own.placement.homogeneous)


# -- frozen -----------------------------------------------------------------------------------------------------
def arrays_of(value: object, path: str = "robot", seen: set[int] | None = None) -> list[tuple[str, np.ndarray]]:
    """Every array that can be reached from a record."""
    seen = set() if seen is None else seen
    if id(value) in seen:
        return []
    seen.add(id(value))
    if isinstance(value, np.ndarray):
        return [(path, value)]
    if dataclasses.is_dataclass(value):
        parts = [(f.name, getattr(value, f.name)) for f in dataclasses.fields(value)]
    elif hasattr(value, "items"):
        parts = [(str(k), v) for k, v in value.items()]
    elif isinstance(value, tuple | list):
        parts = [(str(i), v) for i, v in enumerate(value)]
    else:
        return []
    return [found for name, part in parts for found in arrays_of(part, f"{path}.{name}", seen)]


TWINS: dict[str, Callable[[qd.Robot], qd.Robot]] = {
    "itself": lambda r: r,
    "pickle": lambda r: pickle.loads(pickle.dumps(r)),
    "old pickle": lambda r: pickle.loads(pickle.dumps(r, protocol=2)),
    "deepcopy": copy.deepcopy,
    "copy": copy.copy,
    "replace": lambda r: dataclasses.replace(r, name="twin"),
}


@pytest.mark.parametrize("twin", TWINS)
def test_no_array_of_a_robot_can_be_written(twin: str, small: qd.Robot) -> None:
    found = arrays_of(TWINS[twin](small))
    assert len(found) > 100
    assert [path for path, array in found if array.flags.writeable] == []


@pytest.mark.parametrize("twin", TWINS)
@pytest.mark.parametrize("name", ["small_quadruped", "anymal_c"])
def test_copies_preserve_all_properties(twin: str, name: str) -> None:
    robot = qd.load(name)
    other = TWINS[twin](robot)
    assert other.model == robot.model
    assert other.frame_names == robot.frame_names
    assert [other.frame_id(n) for n in other.frame_names] == [robot.frame_id(n) for n in robot.frame_names]
    assert (other.actuated, other.joint_names, other.feet) == (robot.actuated, robot.joint_names, robot.feet)
    assert {k: leg.joints for k, leg in other.legs.items()} == {k: leg.joints for k, leg in robot.legs.items()}
    assert dict(other.report.provenance) == dict(robot.report.provenance)
    assert other.report.findings == robot.report.findings
    assert other.mass == robot.mass
    ours, theirs = dict(arrays_of(robot)), dict(arrays_of(other))
    assert ours.keys() == theirs.keys()
    for path, array in ours.items():
        np.testing.assert_array_equal(theirs[path], array)


def test_robot_cannot_be_changed(small: qd.Robot) -> None:
    for name in ("name", "q_home", "actuated", "model", "legs", "novel"):
        with pytest.raises((dataclasses.FrozenInstanceError, AttributeError, TypeError)):
            setattr(small, name, None)
    for mapping in (small.legs, small.report.provenance, small.report.check_results):
        with pytest.raises(TypeError):
            mapping["FL"] = 1.0  # type: ignore[index]


def test_generalized_torques_and_joint_permutation_return_copies(small: qd.Robot) -> None:
    for _ in range(2):
        out, to = small.generalized_torques(np.zeros(12)), small.joint_permutation(small.actuated)
        assert not out.any()
        np.testing.assert_array_equal(to, range(12))
        out[:], to[:] = 1.0, 0


def test_loading_twice_gives_equal_robots_without_shared_mutable_state() -> None:
    a, _, b = qd.load("go2"), qd.load("go2", damping=0.5, limits={JOINT: {"effort": 1.0}}), qd.load("go2")
    assert a.model == b.model
    assert a.model is not b.model
    np.testing.assert_array_equal(a.q_home, b.q_home)


def test_robots_can_be_loaded_in_parallel_threads() -> None:
    names = ["small_quadruped", "hyq", "solo8"] * 2
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        together = list(pool.map(qd.load, names))
    for name, robot in zip(names, together, strict=True):
        alone = qd.load(name)
        assert robot.model == alone.model
        np.testing.assert_array_equal(robot.q_home, alone.q_home)


# -- the report -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["go2", "anymal_c", "small_quadruped"])
def test_every_resolved_number_has_its_provenance(name: str) -> None:
    robot = qd.load(name)
    for joint in robot.joint_names:
        for quantity in ("lower", "upper", "velocity", "effort", "damping", "friction", "armature"):
            assert robot.tree.file in robot.report.provenance[f"{joint}.{quantity}"]
    for foot in robot.feet:
        assert robot.report.provenance[f"{foot}.frame"] == "geometry"
        assert robot.tree.file in robot.report.provenance[f"{foot}.radius"]


def test_strict_loading_raises_for_warnings() -> None:
    text = str(with_limit(velocity="0"))
    assert qd.load(text).report.warnings
    raises(qd.ModelError, JOINT, qd.load, text, strict=True)


def test_home_outside_the_limits_is_reported() -> None:
    robot = qd.load("small_quadruped")
    q = np.array(robot.q_home)
    q[robot.configuration_index("FL_calf_joint")] = 1.0
    warned = [
        f
        for f in qd.load("small_quadruped", q_home=q).report.warnings
        if "q_home is 1 for this joint, outside" in f.reason
    ]
    assert [f.where.element for f in warned] == ['<joint name="FL_calf_joint">']


def test_an_unexpanded_macro_is_reported() -> None:
    text = find_entry("small_quadruped").path.read_text(encoding="utf-8")
    start = text.index("<robot")
    head = text[start : text.index(">", start)]
    text = text.replace(head, head + ' xmlns:xacro="http://wiki.ros.org/xacro"', 1)
    robot = qd.load(text.replace("</robot>", '<xacro:arm parent="base"/></robot>'))
    assert any("macro that was not expanded" in f.reason for f in robot.report.warnings)


def test_losses_of_multi_dof_joints_are_ignored_with_a_finding() -> None:
    body = urdf_text.link("ball", inertial())
    loose = urdf_text.joint("loose", "base", "ball", kind="floating", more='<dynamics damping="0.3"/>')
    text = find_entry("small_quadruped").path.read_text(encoding="utf-8").replace("</robot>", f"{body}{loose}</robot>")
    robot = qd.load(text)
    assert any("not supported" in f.reason for f in robot.report.warnings)
    first = robot.velocity_index("loose")
    assert not robot.damping[first : first + 6].any()


@pytest.mark.parametrize("kind", ["visual", "collision"])
def test_geometry_models_equal_those_of_pinocchio(kind: str) -> None:
    path = Path(__file__).parents[1] / "robots" / "small_quadruped.urdf"
    robot = qd.load(path)
    reference = pin.buildModelFromUrdf(str(path), pin.JointModelFreeFlyer())
    expected = pin.buildGeomFromUrdf(reference, str(path), getattr(pin.GeometryType, kind.upper()))
    found = getattr(robot, f"{kind}_model")
    assert sorted(g.name for g in found.geometryObjects) == sorted(g.name for g in expected.geometryObjects)
    q = robot.q_home
    places = {}
    for model, geometry in ((robot.model, found), (reference, expected)):
        data, scratch = model.createData(), geometry.createData()
        pin.updateGeometryPlacements(model, data, geometry, scratch, q)
        for item, place in zip(geometry.geometryObjects, scratch.oMg, strict=True):
            places.setdefault(item.name, []).append((place.homogeneous, type(item.geometry).__name__, item.meshPath))
    for (ours, shape, word), (theirs, other, path_given) in places.values():
        np.testing.assert_allclose(ours, theirs, atol=1e-12)
        assert (shape, word) == (other, path_given)


def test_geometry_models_include_meshes() -> None:
    go2 = qd.load("go2")
    visual, collision = go2.visual_model, go2.collision_model
    assert visual.ngeoms >= 17 and all(Path(g.meshPath).is_file() for g in visual.geometryObjects)
    collision.addCollisionPair(
        pin.CollisionPair(collision.getGeometryId("FL_calf_0"), collision.getGeometryId("FR_calf_0"))
    )
    data, scratch = go2.model.createData(), collision.createData()
    pin.computeDistances(go2.model, data, collision, scratch, go2.q_home)
    assert 0.1 < scratch.distanceResults[0].min_distance < 0.5
    assert MeshcatVisualizer(go2.model, collision, visual).visual_model is visual


def test_from_pinocchio_is_load_with_a_model() -> None:
    original = qd.load("solo8")
    robot = qd.Robot.from_pinocchio(original.model, damping=0.5)
    assert list(robot.model.names) == list(original.model.names) and robot.feet == original.feet
    assert (robot.damping[6:] == 0.5).all() and robot.mass == pytest.approx(original.mass)
    with pytest.raises(qd.ModelError):
        qd.Robot.from_pinocchio(pin.Model())


@pytest.mark.parametrize("name", ["ur5", "solo8", "double_pendulum_continuous"])
def test_pinocchio_model_is_loaded_with_its_joints_limits_and_masses(name: str) -> None:
    original = qd.load(name, **({} if name == "solo8" else {"armature": 0.01, "damping": 0.2, "friction": 0.1}))
    robot = qd.load(original.model)
    assert robot.root == original.root and list(robot.model.names) == list(original.model.names)
    assert robot.feet == original.feet and robot.actuated == original.actuated
    for what in ("lower", "upper", "velocity_limits", "effort_limits", "damping", "friction", "armature"):
        np.testing.assert_array_equal(getattr(robot, what), getattr(original, what))
    q, v = np.array(original.q_home), np.linspace(-1.0, 1.0, original.nv)
    for frame in set(original.frame_names) - set(original.feet):  # a model has no shapes that would place feet
        placement = qd.Dynamics(robot).frame_placement(q, frame).homogeneous
        np.testing.assert_allclose(placement, qd.Dynamics(original).frame_placement(q, frame).homogeneous, atol=1e-14)
    tau, expected = (qd.Dynamics(each).rnea(q, v, v) for each in (robot, original))
    np.testing.assert_allclose(tau, expected, atol=1e-12 * max(1.0, np.abs(expected).max()))


def test_pinocchio_models_with_unsupported_joints_or_order_are_rejected() -> None:
    model = pin.Model()
    joint = model.addJoint(0, pin.JointModelSpherical(), pin.SE3.Identity(), "ball")
    model.appendBodyToJoint(joint, pin.Inertia.Random(), pin.SE3.Identity())
    raises(qd.ModelError, r"joint 'ball' of the pinocchio\.Model: a JointModelSpherical", qd.load, model)
    model = pin.Model()
    for name in ("b", "a"):
        joint = model.addJoint(0, pin.JointModelRX(), pin.SE3.Identity(), name)
        model.appendBodyToJoint(joint, pin.Inertia.FromSphere(1.0, 0.1), pin.SE3.Identity())
    raises(qd.ModelError, "not in the order in which Pinocchio imports", qd.load, model)


def test_limits_in_degrees_and_leg_joints_without_motors_are_reported() -> None:
    with pytest.warns(RuntimeWarning, match="limits: .* -150 .. -30 rad of 'FL_calf_joint' .* degrees") as said:
        robot = qd.load("go2", limits={"FL_calf_joint": {"lower": -150.0, "upper": -30.0}})
    (finding,) = [str(each) for each in robot.report.warnings if "seem to be in degrees" in str(each)]
    assert finding.startswith("warning: limits: the position limits") and said[0].filename == __file__
    qd.load("go2", limits={"FL_calf_joint": {"effort": 20.0}})
    assert not any("seem to be in degrees" in str(finding) for finding in qd.load("go2").report.findings)
    passive = qd.load("go2", limits={"RR_calf_joint": {"effort": 0.0}})
    raises(qd.ArgumentError, r"leg joints RR_calf_joint of .* have no motors", qd.LocomotionController, passive)


def test_angles_of_origins_in_degrees_give_one_warning() -> None:
    source = qd.load("ur5").source
    text = source.decode() if isinstance(source, bytes) else source
    assert text is not None
    assert 'rpy="0' in text
    findings = qd.load(text.replace('rpy="0', 'rpy="90'), root="fixed").report.findings
    assert sum("seems to be in degrees" in str(finding) for finding in findings) == 1
    assert not any("seems to be in degrees" in str(finding) for finding in qd.load("ur5").report.findings)


# -- files with missing or superfluous elements are loaded with a finding instead of rejected with misleading advice --
INERTIAL = '<inertial><mass value="1"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial>'
BOX = '<visual><geometry><box size="1 1 1"/></geometry></visual>'
FLOATING = (
    '<robot name="r"><link name="ground">{}</link>'
    f'<link name="base">{INERTIAL}</link><link name="arm">{INERTIAL}</link>'
    '<joint name="free" type="floating"><parent link="ground"/><child link="base"/></joint>'
    '<joint name="hinge" type="continuous"><parent link="base"/><child link="arm"/><axis xyz="0 1 0"/></joint></robot>'
)


@pytest.mark.parametrize("shape", ["", BOX, BOX.replace("visual", "collision")])
def test_geometry_above_a_floating_joint_belongs_to_the_world(shape: str) -> None:
    robot = qd.load(FLOATING.format(shape))
    assert (robot.root, robot.nv, robot.mass, robot.tree.root.name) == ("free", 7, 2.0, "base")
    assert bool(shape) == any("belong to the world" in f.reason for f in robot.report.warnings)
    held = qd.load(FLOATING.format(shape), root="fixed", strict=not shape)
    assert held.nv == 1


def test_joints_without_limits_are_reported() -> None:
    robot = qd.load(FLOATING.format(""))
    assert np.isinf(robot.effort_limits).all()
    for kind in ("effort", "velocity"):
        (found,) = [f for f in robot.report if f"no {kind} limit" in f.reason]
        assert "1 joints (hinge)" in found.reason and found.level == "note"
    assert not any("no effort limit for" in f.reason for f in qd.load("go2").report)


def test_lowest_of_several_spheres_is_the_foot_in_any_order() -> None:
    for spheres in (((0.02, -0.01), (0.03, -0.01)), ((0.01, -0.02), (0.05, -0.01))):
        radii = set()
        for order in (spheres, spheres[::-1]):
            urdf = Urdf.of("small_quadruped")
            for leg in SMALL.values():
                urdf.clear_shapes(leg.foot)
                for radius, z in order:
                    urdf.add_shape(leg.foot, "sphere", (0, 0, z), radius=str(radius))
            robot = qd.load(str(urdf))
            radii.add((float(robot.q_home[2]), robot.legs["FL"].foot.radius))
        assert len(radii) == 1, radii


@pytest.mark.parametrize("name", ["go2", "anymal_c", "small_quadruped"])
def test_home_does_not_depend_on_the_order_of_elements_in_a_link(name: str) -> None:
    urdf = Urdf.of(name)
    straight = qd.load(str(urdf))
    for link in urdf.links:
        link[:] = reversed(list(link))
    turned = qd.load(str(urdf))
    np.testing.assert_array_equal(turned.q_home, straight.q_home)
    assert [leg.foot.radius for leg in turned.legs.values()] == [leg.foot.radius for leg in straight.legs.values()]


def test_random_configurations_are_within_a_meter_of_home_and_within_limits() -> None:
    robot, rng = qd.load("small_quadruped"), np.random.default_rng(0)
    drawn = np.array([robot.random_configuration(rng) for _ in range(200)])
    off = drawn[:, :3] - robot.q_home[:3]
    assert (off.min(0) < -0.9).all() and (off.max(0) > 0.9).all() and np.abs(off).max() <= 1.0
    np.testing.assert_allclose(np.linalg.norm(drawn[:, 3:7], axis=1), 1.0, atol=1e-12)
    assert ((drawn[:, 7:] >= robot.lower[7:]) & (drawn[:, 7:] <= robot.upper[7:])).all()
    planar = qd.load("small_quadruped", root="planar")
    drawn = np.array([planar.random_configuration(rng) for _ in range(200)])
    off = drawn[:, :3] - [*planar.q_home[:2], 0.0]
    assert (off.min(0) < (-0.9, -0.9, -2.8)).all() and (off.max(0) > (0.9, 0.9, 2.8)).all()
    assert (np.abs(off).max(0) <= (1.0, 1.0, np.pi)).all()


def test_error_names_the_first_invalid_entry_and_counts_the_others() -> None:
    robot, q = qd.load("two_link_leg"), np.zeros(2)
    for bad, said in (([np.nan, 1.0], r"q\[0\] = nan$"), ([np.inf, np.nan], r"q\[0\] = inf \(and 1 more\)$")):
        raises(qd.ArgumentError, said, robot.integrate, bad, q)


# -- sources of robots, and objects that can be copied ----------------------------------------------------------------


def package(name: str, files: dict[str, str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes a package of this name importable for the duration of a test."""
    (folder / name).mkdir(parents=True)
    for file, text in files.items():
        (folder / name / file).write_text(text, encoding="utf-8")
    for module in [m for m in sys.modules if m.split(".")[0] == name]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.syspath_prepend(str(folder))


def test_unexpanded_macros_are_reported_with_advice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "xacro" else find(name, *rest))
    plain = urdf_text.urdf(urdf_text.link("base", inertial(2.0)))
    macro = plain.replace('"2.0"', '"${m}"').replace("<link", '<xacro:property name="m" value="2"/><link')
    macro = macro.replace("<robot", '<robot xmlns:xacro="http://www.ros.org/wiki/xacro"')
    for file in ("robot.urdf.xacro", "robot.urdf"):
        (tmp_path / file).write_text(macro, encoding="utf-8")
        raises(qd.ModelError, f"run xacro {file}.*pip install xacro", qd.load, tmp_path / file)
    raises(qd.ModelError, "run xacro", qd.load, macro)
    raises(qd.ModelError, "run xacro", qd.load, plain.replace('"2.0"', '"$(arg m)"'))
    assert qd.load(plain + '<!-- <mass value="${m}"/> -->', root="free").mass == 2.0


def test_error_of_xacro_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("no such macro")

    provide_xacro(monkeypatch)
    monkeypatch.setattr("xacro.process_file", fail)
    (tmp_path / "robot.urdf.xacro").touch()
    raises(qd.ModelError, "no such macro", qd.load, tmp_path / "robot.urdf.xacro")


def test_names_of_robot_descriptions_can_be_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    urdf = tmp_path / "repository" / "thing" / "thing.urdf"
    urdf.parent.mkdir(parents=True)
    urdf.write_text(urdf_text.urdf(urdf_text.link("base", inertial(2.0))), encoding="utf-8")
    mjcf = urdf.with_name("thing.xml")
    mjcf.write_text('<mujoco><worldbody><body><geom size="1" mass="3"/></body></worldbody></mujoco>', encoding="utf-8")
    files = {
        "__init__.py": "",
        "thing_description.py": f"URDF_PATH = {str(urdf)!r}\nPACKAGE_PATH = {str(urdf.parent)!r}\n",
        "mjcf_description.py": f"MJCF_PATH = {str(mjcf)!r}\n",
        "sdf_description.py": "SDF_PATH = 'thing.sdf'\n",
        "away_description.py": "raise OSError('no network')\n",
    }
    package("robot_descriptions", files, tmp_path / "lib", monkeypatch)
    assert qd.load("thing_description", root="free").mass == 2.0
    if has_mujoco():
        assert qd.load("mjcf_description", root="free").mass == 3.0
    else:
        raises(qd.ModelError, "MuJoCo, which reads MJCF files", qd.load, "mjcf_description", root="free")
    for name, word in (("sdf_description", "neither as a URDF nor as an MJCF"), ("away_description", "no network")):
        raises(qd.ModelError, word, qd.load, name)
    raises(qd.UnknownNameError, "nothing_description", qd.load, "nothing_description")
    raises(qd.UnknownNameError, "'go2'", qd.load, "go22")


def test_pickling_error_names_the_alternative() -> None:
    robot = qd.load("go2")
    sim = qd.Simulation(robot)
    state = qd.Dynamics(robot).update(robot.q_home, np.zeros(robot.nv))
    cannot = (
        sim, qd.WholeBodyController(robot), qd.LocomotionController(robot), state, qd.Viewer(robot, serve=False),
        qd.MujocoPlant(robot),
    )  # fmt: skip
    for thing in cannot:
        for call in (pickle.dumps, copy.copy, copy.deepcopy):
            raises(TypeError, "cannot be copied or pickled", call, thing)
    for thing in (
        robot, qd.Dynamics(robot), JointPD(robot), ComTask(robot), sim.checkpoint(), VelocityController(robot),
        CartesianImpedance(robot, "FL", stiffness=1.0), robot.decompose(robot.q_home),
    ):  # fmt: skip
        assert type(pickle.loads(pickle.dumps(thing))) is type(thing)


# -- a robot is restored from plain data bit for bit ------------------------------------------------------------------
ARRAYS = ("q_home", "lower", "upper", "velocity_limits", "effort_limits", "damping", "friction", "armature")


def save_and_restore(robot: qd.Robot) -> qd.Robot:
    return from_record(json.loads(json.dumps(to_record(robot))))


def assert_same_robot(a: qd.Robot, b: qd.Robot) -> None:
    assert a.model == b.model and a.actuated == b.actuated and a.name == b.name
    assert all(np.array_equal(getattr(a, name), getattr(b, name)) for name in ARRAYS)
    assert list(a.legs) == list(b.legs)
    for leg, other in zip(a.legs.values(), b.legs.values(), strict=True):
        assert (leg.joints, leg.side, leg.knee_sign, leg.knee_direction) == (
            other.joints,
            other.side,
            other.knee_sign,
            other.knee_direction,
        )
        assert leg.foot.radius == other.foot.radius and np.array_equal(leg.foot.offset, other.foot.offset)


@pytest.mark.parametrize("name", ["go2", "anymal_c", "kinova", "bolt"])
def test_restored_robot_needs_neither_its_file_nor_its_meshes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    robot = qd.load(name)
    with monkeypatch.context() as patch:
        patch.setattr(saving, "_find_in_catalogue", lambda urdf: None)
        assert_same_robot(robot, save_and_restore(robot))
    if name == "go2":
        meshes = [g.shape.path for link in save_and_restore(robot).tree.links for g in link.visuals]
        assert meshes and all(path is not None for path in meshes)  # the file of the catalogue is found again


def test_overrides_are_preserved() -> None:
    robot = qd.load(
        "go2",
        limits={"FL_calf_joint": {"effort": 12.3}},
        damping=0.1,
        friction={"FR_hip_joint": 0.2},
        armature=0.01,
        knee_direction="forward",
        actuated=qd.load("go2").actuated[::-1],
    )
    assert_same_robot(robot, save_and_restore(robot))


BAD = urdf_text.urdf(
    urdf_text.link("a"), urdf_text.link("b", inertial(moments="1 0.1 0.1")), urdf_text.joint("j", "a", "b")
)


def test_repairs_are_applied_again() -> None:
    assert_same_robot(*(2 * [qd.load("two_link_leg")]))
    robot = qd.load(BAD, repair=("inertia",))
    assert_same_robot(robot, save_and_restore(robot))


def test_invalid_records_are_rejected() -> None:
    good = to_record(qd.load("two_link_leg"))
    for wrong, why in (
        ({"format": 7}, "format 7"),
        ({"limits": {"joint": {"torque": 1.0}}}, "not a record"),
        ({"feet": 3}, "not a record"),
        ({"actuated": ["missing_joint"]}, "missing_joint"),
    ):
        raises(qd.QuaddynError, why, from_record, {**good, **wrong})
    raises(qd.ArgumentError, "not a record", from_record, {"format": 1})


def test_sources_of_other_robots_are_rejected_by_name_and_other_masses_reported(tmp_path: Path) -> None:
    robot = qd.load("go2")
    log = qd.Simulation(robot, dt=2e-3).run(lambda plant: np.zeros(robot.nu), duration=0.004)
    log.save(tmp_path / "log.npz")
    log = qd.simulation.Log.load(tmp_path / "log.npz")
    assert_same_robot(log.robot(source="go2"), robot)
    for source, reason in (
        ("missing", "'missing' is not the robot .* unknown robot 'missing'"),
        ("a1", "'a1' is another robot than 'go2_description': joint 'FL_hip_joint' has another placement"),
        ("anymal_c", "'anymal_c' is not the robot"),
    ):
        raises(qd.ArgumentError, rf"^source: {reason}", log.robot, source=source)
    heavier = from_record(to_record(qd.robot.with_payload(robot, 3.0)))
    with pytest.warns(RuntimeWarning, match=r"other masses .* 16.09 kg instead of 19.08 kg"):
        from_record(to_record(heavier), source="go2")


# -- named poses of a robot -------------------------------------------------------------------------------------------
SRDF = """<robot name="dog"><group name="all"/>
<group_state name="low" group="all"><joint name="FL_thigh_joint" value="0.7"/>
<joint name="nothing" value="1"/></group_state>
<group_state name="low" group="others"><joint name="FL_shank_joint" value="-1.4"/></group_state>
<group_state name="placed">
<joint name="root_joint" value="1 2 0.5 0 0 0.7071067811865476 0.7071067811865476"/></group_state>
</robot>"""


def posed(robot: qd.Robot, pose: str, name: str) -> float:
    return float(robot.poses[pose][robot.configuration_index(name)])


@pytest.mark.parametrize("place", ["dog.srdf", "../srdf/dog.srdf", "../srdf/r.srdf"])
def test_srdf_beside_a_urdf_gives_named_poses(tmp_path: Path, place: str) -> None:
    (tmp_path / "package.xml").write_text("<package/>", encoding="utf-8")
    file = tmp_path / "urdf" / "r.urdf"
    file.parent.mkdir()
    file.write_text(str(dog()), encoding="utf-8")
    assert qd.load(file).poses == {}
    srdf = file.parent / place
    srdf.parent.mkdir(exist_ok=True)
    srdf.write_text(SRDF, encoding="utf-8")
    robot = qd.load(file, strict=True)
    assert set(robot.poses) == {"low", "placed"}
    assert posed(robot, "low", "FL_thigh_joint") == 0.7 and posed(robot, "low", "FL_shank_joint") == -1.4
    assert posed(robot, "low", "FR_shank_joint") == robot.q_home[robot.configuration_index("FR_shank_joint")]
    np.testing.assert_allclose(robot.poses["placed"][:7], [1, 2, 0.5, 0, 0, 0.5**0.5, 0.5**0.5], atol=1e-15)
    s = qd.Dynamics(robot).update(robot.poses["low"], np.zeros(robot.nv))
    lowest = [s.placement(n).translation[2] - leg.foot.radius for n, leg in robot.legs.items()]
    assert min(lowest) == pytest.approx(0.0, abs=1e-12)
    assert not robot.poses["low"].flags.writeable
    for same in (pickle.loads(pickle.dumps(robot)), from_record(to_record(robot)), qd.robot.with_payload(robot, 0.5)):
        assert {n: q.tolist() for n, q in same.poses.items()} == {n: q.tolist() for n, q in robot.poses.items()}
    assert qd.load(file, base=(0.0, 0.0, np.pi)).poses == {}


def test_damaged_srdf_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "r.urdf").write_text(str(dog()), encoding="utf-8")
    (tmp_path / "r.srdf").write_text(SRDF.replace("-1.4", "low"), encoding="utf-8")
    robot = qd.load(tmp_path / "r.urdf")
    (warning,) = [w for w in robot.report.warnings if w.where.element == "named poses"]
    assert "value='low'" in warning.reason and robot.poses == {}


def test_catalogue_name_and_path_of_its_file_have_the_same_poses() -> None:
    named, file = qd.load("talos"), qd.load(find_entry("talos").path)
    assert list(named.poses) == list(file.poses) == ["half_sitting"]
    np.testing.assert_array_equal(named.poses["half_sitting"], file.poses["half_sitting"])
    assert posed(named, "half_sitting", "leg_left_4_joint") == pytest.approx(0.859, abs=1e-2)


def test_keyframes_of_an_mjcf_are_poses() -> None:
    pytest.importorskip("mujoco")
    keys = '<key name="home" qpos=".1 .2"/><key name="bent" qpos="1 -2"/><key qpos="0 0"/>'
    robot = qd.load(
        '<mujoco><worldbody><body><joint name="a" axis="0 1 0"/><geom size=".1"/><body pos="0 0 1"><joint name="b" '
        f'axis="0 1 0"/><geom size=".1"/></body></body></worldbody><keyframe>{keys}</keyframe></mujoco>'
    )
    assert set(robot.poses) == {"home", "bent"}
    np.testing.assert_allclose(robot.configuration(joints={"a": 1.0, "b": -2.0}), robot.poses["bent"])
    np.testing.assert_allclose(robot.q_home, robot.poses["home"])


def test_poses_of_a_text_need_numbers() -> None:
    assert set(read_poses(SRDF)) == {"low", "placed"}
    for value in ("", "x", "nan"):
        raises(qd.ModelError, "expected the position of the joint", read_poses, SRDF.replace('0.7"', f'{value}"', 1))


# -- validation of models ---------------------------------------------------------------------------------------------
ROMEO = "romeo_description/urdf/romeo_small.urdf"


def chain(*links: tuple[float, float], kind: str = "revolute", axis: str = "0 1 0", size: float = 0.5) -> str:
    """A serial chain of (mass, moment of inertia) links."""
    parts = [urdf_text.link("l0")]
    for i, (mass, moment) in enumerate(links, start=1):
        place = f"0 0 {-size if i > 1 else 0}"
        parts.append(urdf_text.link(f"l{i}", inertial(mass, f"0 0 {-size / 2}", moment) if mass or moment else ""))
        parts.append(urdf_text.joint(f"j{i}", f"l{i - 1}", f"l{i}", axis, place, kind=kind, ends="-1 1"))
    return urdf_text.urdf(*parts, name="chain")


def test_inconsistent_composite_body_is_rejected_and_can_be_repaired() -> None:
    path = example_robot_folder() / ROMEO
    with pytest.raises(qd.ModelError, match=r"physically impossible .* pass repair=") as caught:
        qd.load(path)
    assert "romeo_small.urdf:" in str(caught.value)
    robot = qd.load(path, repair=("inertia",))
    repaired = [f for f in robot.report.warnings if "repair=" in f.reason]
    assert repaired
    for body in robot.bodies[1:]:
        moments = np.linalg.eigvalsh(pseudo_inertia(body.inertial))
        assert moments[0] >= -1e-12 * moments[-1]


def test_repair_changes_only_the_inertia_of_the_model() -> None:
    path = example_robot_folder() / ROMEO
    robot = qd.load(path, repair=("inertia",))
    file = merge_fixed_links(parse(path.read_bytes()))
    assert robot.mass == pytest.approx(sum(b.inertial.mass for b in file), rel=1e-15)
    for body in robot.bodies[1:]:
        assert body.joint is not None
        ours = robot.model.inertias[robot.model.getJointId(body.joint.name)]
        assert ours.inertia == pytest.approx(body.inertial.inertia, abs=1e-15)
        assert ours.lever == pytest.approx(body.inertial.com, abs=1e-15)


def test_repair_does_not_change_a_valid_robot() -> None:
    repaired, plain = qd.load("go2", repair=("inertia",)), qd.load("go2")
    assert [str(f) for f in repaired.report] == [str(f) for f in plain.report]
    for a, b in zip(repaired.model.inertias, plain.model.inertias, strict=True):
        assert a.toDynamicParameters() == pytest.approx(b.toDynamicParameters(), abs=1e-15)


def test_massless_bodies_are_accepted_only_if_allowed_and_with_mass_below_them() -> None:
    with pytest.raises(qd.ModelError, match=r"l1.*has no mass.*allow_massless=True"):
        qd.load(chain((0, 0), (1, 0.1)).replace("0 1 0", "1 0 0", 1))
    robot = qd.load(chain((0, 0), (1, 0.1)).replace("0 1 0", "1 0 0", 1), allow_massless=True)
    tau = np.array([0.3, -0.2])
    zero = np.zeros(2)
    dyn = qd.Dynamics(robot)
    q = np.array([0.4, 0.3])
    assert dyn.rnea(q, zero, dyn.aba(q, zero, tau)) == pytest.approx(tau, abs=1e-12)
    raises(qd.ModelError, "joint 'j2'", qd.load, chain((1, 0.1), (0, 0)), allow_massless=True)


def test_motion_that_moves_no_mass_is_refused() -> None:
    """A point mass on its own axis of rotation."""
    point = chain((1, 0), size=0.0)
    raises(qd.ModelError, r"joint 'j1' has the diagonal entry 0 in the mass matrix", qd.load, point)


def test_redundant_joints_are_rejected() -> None:
    same = chain((1e-9, 1e-12), (1, 0.1), kind="prismatic")
    raises(qd.ModelError, r"not positive definite|disagree", qd.load, same.replace('value="1e-09"', 'value="1e-14"'))


def test_tiny_mass_with_large_inertia_is_rejected() -> None:
    raises(qd.ModelError, "mass 1e-09 kg and an inertia too large for it", qd.load, chain((1e-9, 1.0)))


def test_ineffective_limits_are_reported() -> None:
    (reason,) = [f.reason for f in qd.load("solo12").report.warnings if "too large to have an effect" in f.reason]
    assert "effort=1000" in reason and "velocity=1000" in reason and "and 7 more" in reason
    assert not [f for f in qd.load("anymal_c").report.warnings if "too large to have an effect" in f.reason]


def test_combining_parts_keeps_mass_com_and_kinetic_energy() -> None:
    rng = np.random.default_rng(7)
    parts = []
    for _ in range(4):
        A = rng.standard_normal((3, 3))
        sigma = A @ A.T
        inertial = Inertial(float(rng.uniform(0.1, 2)), rng.standard_normal(3), np.trace(sigma) * np.eye(3) - sigma)
        parts.append((inertial, Pose.of(rotation_from_rpy(*rng.uniform(-3, 3, 3)), rng.standard_normal(3))))
    whole = combine_inertials(parts)
    v, w = rng.standard_normal(3), rng.standard_normal(3)
    energy = 0.0
    for inertial, pose in parts:
        velocity = v + np.cross(w, pose.apply(inertial.com))
        turned = pose.rotation @ inertial.inertia @ pose.rotation.T
        energy += 0.5 * inertial.mass * velocity @ velocity + 0.5 * w @ turned @ w
    about = v + np.cross(w, whole.com)
    assert 0.5 * whole.mass * about @ about + 0.5 * w @ whole.inertia @ w == pytest.approx(energy, rel=1e-13)


def test_samples_are_valid_configurations_of_every_joint_kind() -> None:
    robot = qd.load(example_robot_folder() / "kinova_description/robots/kinova.urdf", root="free")
    q = validation.sample_near_neutral(robot.model, np.random.default_rng(1))
    assert pin.isNormalized(robot.model, q, 1e-12)
