"""Legs, feet and the home stance are found from geometry, on real quadrupeds and on edited URDFs."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
import urdf_editing
import urdf_text
from hypothesis import given, settings
from hypothesis import strategies as st
from raising import raises
from slow_parameters import others_slow
from urdf_editing import (
    CORNERS,
    FEET,
    HIP,
    PLAIN,
    SHANK,
    THIGH,
    LegNames,
    Segment,
    Urdf,
    Vector,
    X,
    Y,
    Z,
    dog,
    leg_names,
)
from urdf_text import collision, inertial

import quaddyn as qd
from quaddyn.locomotion.morphology import Morphology
from quaddyn.robot.bodies import merge_fixed_links
from quaddyn.robot.catalogue import example_robot_folder
from quaddyn.robot.foot_geometry import find_foot_sphere, is_wheel
from quaddyn.robot.leg_recognition import classify_names, positions_from_names, recognize_legs
from quaddyn.robot.limbs import find_limbs, leg_forward_and_left
from quaddyn.robot.saving import from_record, to_record
from quaddyn.robot.stance import stance
from quaddyn.urdf.reader import parse


# -- what standing means ----------------------------------------------------------------------------------------
def forward_kinematics(robot: qd.Robot, q: np.ndarray) -> pin.Data:
    data = robot.model.createData()
    pin.framesForwardKinematics(robot.model, data, q)
    return data


def feet_at(robot: qd.Robot, q: np.ndarray) -> np.ndarray:
    """(feet, 3) centers of the contact spheres, computed from the frames of the file and the offsets in them."""
    data = forward_kinematics(robot, q)
    out = []
    for leg in robot.legs.values():
        T = data.oMf[robot.model.getFrameId(leg.foot.frame, pin.FrameType.BODY)]
        out.append(T.act(np.array(leg.foot.offset)))
        named = data.oMf[robot.model.getFrameId(leg.foot.name, pin.FrameType.OP_FRAME)]
        np.testing.assert_allclose(named.translation, out[-1], rtol=0, atol=1e-12)
        np.testing.assert_array_equal(named.rotation, T.rotation)
    return np.array(out)


def assert_level(robot: qd.Robot, q: np.ndarray) -> None:
    """Every foot's sphere touches z = 0."""
    lowest = feet_at(robot, q)[:, 2] - [leg.foot.radius for leg in robot.legs.values()]
    size = max(1.0, q[2] if robot.root == "free" else 1.0)
    np.testing.assert_allclose(lowest, 0.0, rtol=0, atol=1e-9 * size)


def assert_inside_limits(robot: qd.Robot, q: np.ndarray) -> None:
    bounded = np.isfinite(robot.lower) | np.isfinite(robot.upper)
    assert np.all(robot.lower[bounded] < q[bounded])
    assert np.all(q[bounded] < robot.upper[bounded])
    pin.normalize(robot.model, unit := q.copy())
    np.testing.assert_allclose(unit, q, rtol=0, atol=1e-12)  # quaternion and (cos, sin) pairs are of length 1


def assert_bent(robot: qd.Robot, q: np.ndarray) -> None:
    """No leg is near a singularity: its foot can move vertically and longitudinally."""
    data, feet = robot.model.createData(), dict(zip(robot.legs, feet_at(robot, q), strict=True))
    forward = (feet["FL"] - feet["RL"]) * (1, 1, 0)
    plane = np.array([forward / np.linalg.norm(forward), (0, 0, 1)])
    for leg in robot.legs.values():
        J = pin.computeFrameJacobian(
            robot.model, data, q, robot.frame_id(leg.foot.name), pin.ReferenceFrame.LOCAL_WORLD_ALIGNED
        )[:3, [robot.velocity_index(j) for j in leg.joints]]
        sigma = np.linalg.svd(plane @ J, compute_uv=False)
        assert sigma[1] > 0.2 * sigma[0], f"{leg.name} is nearly singular"
        assert leg.knee_direction in ("forward", "backward")


def assert_balanced(robot: qd.Robot, q: np.ndarray, margin: float = 0.1) -> None:
    """The center of mass is inside FL, RL, RR, FR, at least `margin` times the shorter side from each edge."""
    feet, com = feet_at(robot, q), pin.centerOfMass(robot.model, robot.model.createData(), q)
    corners = dict(zip(robot.legs, feet[:, :2], strict=True))
    loop = [corners[name] for name in ("FL", "RL", "RR", "FR")]  # counter-clockwise from above
    edges = [b - a for a, b in zip(loop, loop[1:] + loop[:1], strict=True)]
    side = min(float(np.linalg.norm(e)) for e in edges)
    for edge, corner in zip(edges, loop, strict=True):
        off = (edge[0] * (com[1] - corner[1]) - edge[1] * (com[0] - corner[0])) / np.linalg.norm(edge)
        assert off > margin * side


def assert_stands(robot: qd.Robot) -> None:
    q = robot.q_home
    assert robot.feet == FEET
    assert [robot.legs[x].side for x in FEET] == ["left", "right", "left", "right"]
    assert_level(robot, q)
    assert_inside_limits(robot, q)
    assert_bent(robot, q)
    assert_balanced(robot, q)
    height = {"free": 2, "planar": 1}.get(robot.root)
    if height is not None:
        assert q[height] > 0.0
        others = np.delete(q[: {"free": 7, "planar": 3}[robot.root]], height)
        np.testing.assert_array_equal(others, [0, 0, 0, 0, 0, 1] if robot.root == "free" else [0, 0])


def assert_legs(robot: qd.Robot, expected: Mapping[str, LegNames], rename: Callable[[str], str] = str) -> None:
    assert {k: (leg.joints, leg.foot.frame) for k, leg in robot.legs.items()} == {
        k: (tuple(map(rename, leg.joints)), rename(leg.foot)) for k, leg in expected.items()
    }


def assert_grounded(robot: qd.Robot) -> None:
    """All feet are on the ground, and the center of mass is between those of a quadruped."""
    assert_level(robot, robot.q_home)
    assert_inside_limits(robot, robot.q_home)
    if set(robot.feet) == set(FEET):
        assert_balanced(robot, robot.q_home)


def assert_standing_legs(robot: qd.Robot, expected: Mapping[str, LegNames], rename: Callable[[str], str] = str) -> None:
    assert_legs(robot, expected, rename)
    assert_stands(robot)


def leg_length_change(robot: qd.Robot, leg: qd.Leg, sign: int) -> float:
    """Change of the distance from hip to foot [m] when the knee's coordinate changes by `sign` * 1e-4 rad."""
    v = np.zeros(robot.nv)
    v[robot.velocity_index(leg.knee)] = sign * 1e-4
    lengths = []
    for q in (robot.q_home, pin.integrate(robot.model, robot.q_home, v)):
        data = forward_kinematics(robot, q)
        joints = [data.oMi[robot.model.getJointId(j)].translation for j in leg.joints]
        hip = joints[leg.joints.index(leg.knee) - 1]
        lengths.append(float(np.linalg.norm(data.oMf[robot.frame_id(leg.name)].translation - hip)))
    return lengths[1] - lengths[0]


@functools.cache
def load(name: str, root: str = "free") -> qd.Robot:
    """A robot of the catalogue (immutable)."""
    return qd.load(name, root=root)


@pytest.fixture(scope="module")
def quadruped_files() -> Callable[[str], Urdf]:
    cache: dict[str, Urdf] = {}

    def get(name: str) -> Urdf:
        if name not in cache:
            cache[name] = Urdf.of(name)
        return cache[name].copy()

    return get


# -- real quadrupeds --------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", urdf_editing.QUADRUPEDS)
def test_quadruped_has_the_legs_that_its_file_names(name: str) -> None:
    robot = load(name)
    assert robot.root == "free"
    assert_legs(robot, leg_names(name))
    for leg in robot.legs.values():
        assert leg.knee in leg.joints[1:]
        assert 0.01 < leg.foot.radius < 0.2
        source = robot.report.provenance[f"{leg.name}.radius"]
        assert robot.tree.file in source
        assert "sphere" in source or "depth" in source or "end" in source


HOMES = [(name, root) for root in ("free", "planar", "fixed") for name in urdf_editing.QUADRUPEDS]
KINDS = {"go2", "anymal_b_kinova", "hyq", "solo8", "centauro"}


@pytest.mark.parametrize(
    ("name", "root"), others_slow(HOMES, [each for each in HOMES if "free" in each or each[0] in KINDS])
)
def test_quadruped_stands_at_home(name: str, root: str) -> None:
    robot = load(name, root)
    if root != "fixed":
        assert_stands(robot)
        return
    assert_inside_limits(robot, robot.q_home)
    free = load(name)
    np.testing.assert_allclose(robot.q_home, free.q_home[7:], rtol=0, atol=1e-9)


def test_every_quadruped_of_the_catalogue_is_tested() -> None:
    kinds = {k: e.kind for k, e in qd.CATALOGUE.items()}
    assert sorted(k for k, kind in kinds.items() if kind.startswith("quadruped")) == sorted(urdf_editing.QUADRUPEDS)


@pytest.mark.parametrize("name", urdf_editing.QUADRUPEDS)
def test_knee_sign_is_the_direction_of_knee_flexion(name: str) -> None:
    robot = load(name)
    for leg in robot.legs.values():
        assert leg_length_change(robot, leg, leg.knee_sign) < 0 < leg_length_change(robot, leg, -leg.knee_sign)


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_knee_direction_option_sets_the_knee_bend(direction: str, quadruped_files: Callable[[str], Urdf]) -> None:
    robot = qd.load(str(quadruped_files("anymal_c")), knee_direction=direction)
    data = forward_kinematics(robot, robot.q_home)
    for leg in robot.legs.values():
        hip, knee = (data.oMi[robot.model.getJointId(j)].translation for j in leg.joints[1:])
        foot = data.oMf[robot.frame_id(leg.name)].translation
        share = (hip[2] - knee[2]) / (hip[2] - foot[2])
        ahead = knee[0] - (hip[0] + share * (foot[0] - hip[0]))
        assert leg.knee_direction == direction
        assert (ahead > 0.01) == (direction == "forward")
    assert_stands(robot)


def test_planar_home_equals_free_home_in_the_plane() -> None:
    free, planar = qd.load("go2"), qd.load("go2", root="planar")
    np.testing.assert_allclose(planar.q_home, np.r_[0, free.q_home[2], 0, free.q_home[7:]], rtol=0, atol=1e-12)


# -- the same machine, written otherwise ------------------------------------------------------------------------
MACHINES = ("small_quadruped", "anymal_b", "hyq", "solo8")


@pytest.mark.parametrize("name", MACHINES)
def test_flipped_joint_axes_change_only_signs(name: str, quadruped_files: Callable[[str], Urdf]) -> None:
    urdf, plain = quadruped_files(name), qd.load(str(quadruped_files(name)))
    flipped = [j for i, leg in enumerate(leg_names(name).values()) for k, j in enumerate(leg.joints) if (i + k) % 2]
    for joint in flipped:
        urdf.flip_axis(joint)
    robot = qd.load(str(urdf))
    assert_standing_legs(robot, leg_names(name))
    for leg in plain.legs.values():
        sign = -1 if leg.knee in flipped else 1
        assert robot.legs[leg.name].knee_sign == sign * leg.knee_sign
        assert robot.legs[leg.name].knee_direction == leg.knee_direction
    signs = [-1 if j in flipped else 1 for j in robot.joint_names]
    np.testing.assert_allclose(robot.q_home[7:], signs * plain.q_home[7:], rtol=0, atol=1e-8)


#: Robot, and shifts of the zero positions of roll (outward), pitch and knee [rad]: arbitrary, folded and spread legs.
ZERO_POSES = [
    *((name, (0.0, -0.5 * shift, shift)) for name in MACHINES for shift in (0.7, -1.2)),
    ("small_quadruped", (0.0, 1.57, -2.6)),
    *(("small_quadruped", (roll, 0.0, 0.0)) for roll in (0.5, -0.6)),
]


@pytest.mark.parametrize(("name", "shifts"), ZERO_POSES)
def test_legs_are_found_with_any_zero_pose(
    name: str, shifts: tuple[float, float, float], quadruped_files: Callable[[str], Urdf]
) -> None:
    urdf = quadruped_files(name)
    for leg, names in leg_names(name).items():
        roll, pitch, knee = shifts
        urdf.shift_zero(names.joints[-1], knee).shift_zero(names.joints[-2], pitch)
        if roll:
            urdf.shift_zero(names.joints[0], roll if leg.endswith("L") else -roll)
    assert_standing_legs(qd.load(str(urdf)), leg_names(name))


@pytest.mark.parametrize(
    ("name", "factor"),
    [("small_quadruped", 0.05), ("small_quadruped", 20.0), ("anymal_b", 0.05), ("anymal_b", 0.3), ("anymal_b", 15.0)],
)
def test_legs_and_home_scale_with_the_robot(name: str, factor: float, quadruped_files: Callable[[str], Urdf]) -> None:
    plain, robot = qd.load(str(quadruped_files(name))), qd.load(str(quadruped_files(name).scale(factor)))
    assert_standing_legs(robot, leg_names(name))
    np.testing.assert_allclose(robot.q_home[7:], plain.q_home[7:], rtol=0, atol=1e-6)
    assert robot.q_home[2] == pytest.approx(factor * plain.q_home[2], rel=1e-6)
    for foot in FEET:
        assert robot.legs[foot].foot.radius == pytest.approx(factor * plain.legs[foot].foot.radius, rel=1e-9)


@pytest.mark.parametrize("shift", [(0.6, 0.0, 0.0), (-0.6, 0.3, 0.2), (0.0, -0.5, -0.4)])
@pytest.mark.parametrize("name", ["small_quadruped", "hyq"])
def test_base_frame_may_lie_outside_the_legs(
    name: str, shift: tuple[float, float, float], quadruped_files: Callable[[str], Urdf]
) -> None:
    robot = qd.load(str(quadruped_files(name).turn_base(0.0, shift)))
    assert_legs(robot, leg_names(name))
    assert_grounded(robot)
    assert_bent(robot, robot.q_home)


def test_planar_root_of_a_robot_facing_along_y_is_reported(quadruped_files: Callable[[str], Urdf]) -> None:
    for urdf, sideways in ((quadruped_files("solo8"), False), (quadruped_files("solo8").turn_base(math.pi / 2), True)):
        robot = qd.load(str(urdf), root="planar")
        assert any("faces along y" in f.reason for f in robot.report.warnings) == sideways


@pytest.mark.parametrize("name", ["small_quadruped", "go2", "anymal_b"])
def test_knees_may_be_made_to_point_forward(name: str, quadruped_files: Callable[[str], Urdf]) -> None:
    urdf = quadruped_files(name)
    for leg in leg_names(name).values():
        urdf.limit(leg.joints[1], lower=-1.6, upper=1.6).limit(leg.joints[2], lower=0.3, upper=2.7)
    robot = qd.load(str(urdf))
    assert_standing_legs(robot, leg_names(name))
    assert {leg.knee_direction for leg in robot.legs.values()} == {"forward"}


@pytest.mark.parametrize("front", ["forward", "backward"])
def test_front_and_rear_knees_may_point_in_opposite_directions(
    front: str, quadruped_files: Callable[[str], Urdf]
) -> None:
    # Front knees backward and rear ones forward make an X in a side view, the opposite an O.
    urdf, bends = quadruped_files("small_quadruped"), {}
    for name, leg in leg_names("small_quadruped").items():
        bends[name] = front if name[0] == "F" else {"forward": "backward", "backward": "forward"}[front]
        low, high = (0.3, 2.7) if bends[name] == "forward" else (-2.7, -0.3)
        urdf.limit(leg.joints[1], lower=-1.6, upper=1.6).limit(leg.joints[2], lower=low, upper=high)
    robot = qd.load(str(urdf))
    assert_stands(robot)
    assert {k: leg.knee_direction for k, leg in robot.legs.items()} == bends


# -- worlds and dummies above the base --------------------------------------------------------------------------
@pytest.mark.parametrize(
    "rpy", [(0, 0, 0), urdf_editing.turned(0.5), urdf_editing.turned(1.0), (0.3, -0.4, 2.0), (math.pi / 2, 0, 0)]
)
def test_world_link_is_replaced_by_the_root(
    rpy: tuple[float, float, float], quadruped_files: Callable[[str], Urdf]
) -> None:
    plain = qd.load(str(quadruped_files("small_quadruped")))
    robot = qd.load(str(quadruped_files("small_quadruped").under("world", "fixed", (1.0, -2.0, 0.7), rpy)))
    assert robot.root == "free"
    assert robot.tree.root.name == "base"
    assert_legs(robot, leg_names("small_quadruped"))
    np.testing.assert_allclose(robot.q_home, plain.q_home, rtol=0, atol=1e-9)
    assert any("world" in f.reason for f in robot.report)


@pytest.mark.parametrize(
    "rpy", [(0, 0, 0), urdf_editing.turned(0.5), urdf_editing.turned(1.0), urdf_editing.turned(0.15)]
)
def test_sides_of_the_legs_are_correct_with_a_base_fixed_to_the_world(
    rpy: tuple[float, float, float], quadruped_files: Callable[[str], Urdf]
) -> None:
    urdf = quadruped_files("small_quadruped").under("world", "fixed", (1.0, -2.0, 0.7), rpy)
    robot = qd.load(str(urdf), root="fixed")
    assert robot.nv == 12
    assert_legs(robot, leg_names("small_quadruped"))
    placed = forward_kinematics(robot, robot.q_home).oMf[robot.frame_id("base")]
    np.testing.assert_allclose(placed.translation, [1.0, -2.0, 0.7], rtol=0, atol=1e-15)
    np.testing.assert_allclose(placed.rotation, pin.rpy.rpyToMatrix(*map(float, rpy)), rtol=0, atol=1e-15)


@pytest.mark.parametrize("top", ["world", "odom", "map"])
def test_floating_joint_of_the_file_is_the_root(top: str, quadruped_files: Callable[[str], Urdf]) -> None:
    plain = qd.load("small_quadruped")
    for root in (None, "free"):
        robot = qd.load(str(quadruped_files("small_quadruped").under(top, "floating", (0.0, 0.0, 0.4))), root=root)
        assert (robot.root, robot.nq, robot.nv) == ("free", 19, 18)
        assert_legs(robot, leg_names("small_quadruped"))
        np.testing.assert_allclose(robot.q_home, plain.q_home, rtol=0, atol=1e-12)
    assert qd.load(str(quadruped_files("small_quadruped").under(top, "floating")), root="fixed").nv == 12
    assert qd.load(str(quadruped_files("small_quadruped").under(top, "floating")), root="planar").nv == 15


@pytest.mark.parametrize("name", ["small_quadruped", "anymal_b"])
def test_base_footprint_and_dummy_base_are_part_of_the_trunk(name: str, quadruped_files: Callable[[str], Urdf]) -> None:
    urdf = quadruped_files(name).under("base_dummy", "fixed").under("base_footprint", "fixed", (0, 0, 0.3))
    robot = qd.load(str(urdf))
    assert robot.tree.root.name == "base_footprint"
    assert robot.nv == load(name).nv
    assert_legs(robot, leg_names(name))
    assert_grounded(robot)
    assert robot.q_home[2] + 0.3 == pytest.approx(load(name).q_home[2], abs=1e-9)


# -- feet -------------------------------------------------------------------------------------------------------
SMALL = leg_names("small_quadruped")
LENGTH = 0.13  # of the small dog's shank


def footless(urdf: Urdf) -> tuple[Urdf, list[str]]:
    """The small dog without foot links and shank shapes, and the names of its shanks."""
    for leg in SMALL.values():
        urdf.remove(leg.foot).clear_shapes(urdf.carried(leg.joints[-1]))
    return urdf, [urdf.carried(leg.joints[-1]) for leg in SMALL.values()]


# collision shape at the end of the shank -> where the sphere's center and radius should be, in the shank
ENDS: dict[str, tuple[tuple[str, tuple[float, float, float], dict[str, str]], float, float]] = {
    "sphere": (("sphere", (0, 0, -LENGTH), {"radius": "0.02"}), -LENGTH, 0.02),
    "capsule": (("capsule", (0, 0, -LENGTH / 2), {"radius": "0.01", "length": str(LENGTH)}), -LENGTH, 0.01),
    "cylinder": (
        ("cylinder", (0, 0, -LENGTH / 2), {"radius": "0.01", "length": str(LENGTH)}),
        -LENGTH + 0.01,
        0.01,
    ),
    "box": (("box", (0, 0, -LENGTH / 2), {"size": f"0.02 0.02 {LENGTH}"}), -LENGTH + 0.01, 0.01),
}


@pytest.mark.parametrize("shape", ENDS)
def test_end_of_the_last_link_is_the_foot_if_no_foot_link_exists(
    shape: str, quadruped_files: Callable[[str], Urdf]
) -> None:
    (tag, place, sizes), height, radius = ENDS[shape]
    urdf, shanks = footless(quadruped_files("small_quadruped"))
    for shank in shanks:
        urdf.add_shape(shank, tag, place, **sizes)
    robot = qd.load(str(urdf))
    assert_standing_legs(robot, {k: dataclasses.replace(SMALL[k], foot=s) for k, s in zip(FEET, shanks, strict=True)})
    for leg in robot.legs.values():
        assert leg.foot.radius == pytest.approx(radius, abs=1e-12)
        np.testing.assert_allclose(leg.foot.offset, [0, 0, height], rtol=0, atol=1e-12)
        assert "geometry" in robot.report.provenance[f"{leg.name}.frame"]


# shapes of the shank at a foot frame without shapes: tag, position, sizes -> radius, height of the center, warning
FRAMED: dict[str, tuple[str, float, dict[str, str], float, float, str]] = {
    "sphere": ("sphere", -LENGTH + 0.002, {"radius": "0.02"}, 0.02, -LENGTH + 0.002, ""),
    "capsule": ("capsule", -LENGTH / 2, {"radius": "0.01", "length": str(LENGTH)}, 0.01, -LENGTH, ""),
    "cylinder": ("cylinder", -LENGTH / 2, {"radius": "0.01", "length": str(LENGTH + 0.03)}, 0.015, -LENGTH, ""),
    "mesh": ("mesh", 0.0, {"filename": "shank.stl"}, 0.02, -LENGTH, ""),
    "sole": ("box", -LENGTH - 0.01, {"size": "0.1 0.1 0.02"}, 0.02, -LENGTH, ""),
    "frame at the end": ("box", -LENGTH / 2, {"size": f"0.02 0.02 {LENGTH}"}, 0.0, -LENGTH, ""),
    "frame far from the end": ("box", -LENGTH, {"size": "0.02 0.02 0.16"}, 0.0, -LENGTH, "0.08 m beyond the frame"),
    "unread mesh": ("mesh", 0.0, {"filename": "shank.dae"}, 0.0, -LENGTH, "shank.dae' is not found"),
}


@pytest.mark.parametrize("shape", FRAMED)
def test_foot_frame_without_shapes_has_the_radius_of_the_shapes_of_its_body(
    shape: str, tmp_path: Path, quadruped_files: Callable[[str], Urdf]
) -> None:
    tag, height, sizes, radius, center, warning = FRAMED[shape]
    corners = np.array([(x, y, z) for x in (-0.004, 0.004) for y in (-0.004, 0.004) for z in (0.0, -LENGTH - 0.02)])
    (tmp_path / "shank.stl").write_bytes(mesh_file("binary stl", corners))
    urdf = quadruped_files("small_quadruped")
    for leg in SMALL.values():
        shank = urdf.carried(leg.joints[-1])
        urdf.clear_shapes(leg.foot).clear_shapes(shank).add_shape(shank, tag, (0, 0, height), **sizes)
    (tmp_path / "dog.urdf").write_text(str(urdf), encoding="utf-8")
    robot = qd.load(tmp_path / "dog.urdf")
    assert_stands(robot)
    for name, leg in robot.legs.items():
        assert leg.foot.frame == SMALL[name].foot
        assert leg.foot.radius == pytest.approx(radius, abs=1e-8)
        assert leg.foot.offset[2] == pytest.approx(center + LENGTH, abs=1e-12)
    found = [str(each) for each in robot.report.warnings if "contact point" in str(each)]
    assert len(found) == bool(warning) and all(warning in each for each in found)


def test_without_any_shape_the_foot_is_a_point_beyond_the_center_of_mass(
    quadruped_files: Callable[[str], Urdf],
) -> None:
    urdf, _ = footless(quadruped_files("small_quadruped"))
    robot = qd.load(str(urdf))
    assert_stands(robot)
    for leg in robot.legs.values():
        assert leg.foot.radius == 0.0
        assert 0.05 < -leg.foot.offset[2] < 0.2
        assert "center of mass" in robot.report.provenance[f"{leg.name}.radius"]


def mesh_file(kind: str, corners: np.ndarray) -> bytes:
    """A mesh through these corners, each in at least one triangle."""
    if kind == "obj":
        lines = [*(f"v {x} {y} {z}" for x, y, z in corners), "f 1 2 3", "f 4 5 6", "f 6 7 8", ""]
        return "\n".join(lines).encode()
    triangles = corners[[[0, 1, 2], [3, 4, 5], [5, 6, 7]]]
    if kind == "text stl":
        lines = [f"vertex {x} {y} {z}" for x, y, z in triangles.reshape(-1, 3)]
        loops = ("\n".join(["facet", "outer loop", *lines[i : i + 3], "endloop", "endfacet"]) for i in (0, 3, 6))
        return "\n".join(["solid shank", *loops, "endsolid", ""]).encode()
    facets = (np.vstack((np.zeros(3), t)).astype("<f4").tobytes() + b"\0\0" for t in triangles)
    return bytes(80) + len(triangles).to_bytes(4, "little") + b"".join(facets)


@pytest.mark.parametrize(
    ("kind", "scale"), [("obj", 1.0), ("obj", 0.001), ("text stl", 1.0), ("binary stl", 1.0), ("binary stl", 0.001)]
)
def test_foot_is_at_the_end_of_the_mesh_of_the_last_link(
    kind: str, scale: float, tmp_path: Path, quadruped_files: Callable[[str], Urdf]
) -> None:
    corners = np.array([(x, y, z) for x in (-0.008, 0.008) for y in (-0.008, 0.008) for z in (0.0, -LENGTH)])
    file = tmp_path / f"shank.{kind.split()[-1]}"
    file.write_bytes(mesh_file(kind, corners / scale))
    urdf, shanks = footless(quadruped_files("small_quadruped"))
    for shank in shanks:
        urdf.add_shape(shank, "mesh", filename=file.name, scale=urdf_editing.words((scale, scale, scale)))
    (tmp_path / "dog.urdf").write_text(str(urdf), encoding="utf-8")
    robot = qd.load(tmp_path / "dog.urdf")
    assert_stands(robot)
    for leg in robot.legs.values():
        assert leg.foot.offset[2] - leg.foot.radius == pytest.approx(-LENGTH, abs=1e-7 if "binary" in kind else 1e-9)
        assert "end of the last link's shape" in robot.report.provenance[f"{leg.name}.radius"]


ROUND: dict[str, tuple[str, tuple[float, float, float], dict[str, str]]] = {
    "box": ("box", (0, 0, 0), {"size": "0.05 0.03 0.036"}),
    "roller": ("cylinder", (math.pi / 2, 0, 0), {"radius": "0.018", "length": "0.04"}),
    "stub": ("cylinder", (0, 0, 0), {"radius": "0.01", "length": "0.036"}),
    "capsule": ("capsule", (0, 0, 0), {"radius": "0.008", "length": "0.02"}),
}


@pytest.mark.parametrize("shape", ROUND)
def test_foot_sphere_reaches_as_low_as_the_collision_shape(shape: str, quadruped_files: Callable[[str], Urdf]) -> None:
    (tag, rpy, sizes), urdf = ROUND[shape], quadruped_files("small_quadruped")
    for leg in SMALL.values():
        urdf.clear_shapes(leg.foot).add_shape(leg.foot, tag, rpy=rpy, **sizes)
    robot = qd.load(str(urdf))
    assert_standing_legs(robot, SMALL)
    for leg in robot.legs.values():
        assert leg.foot.radius == pytest.approx(0.018, abs=1e-12)
        assert "depth of the collision shape" in robot.report.provenance[f"{leg.name}.radius"]


def test_sphere_beside_the_foot_frame_keeps_its_offset(quadruped_files: Callable[[str], Urdf]) -> None:
    urdf, offset = quadruped_files("small_quadruped"), (0.004, 0.002, 0.01)
    for leg in SMALL.values():
        urdf.clear_shapes(leg.foot).add_shape(leg.foot, "sphere", offset, radius="0.018")
    robot = qd.load(str(urdf))
    assert_standing_legs(robot, SMALL)
    for leg in robot.legs.values():
        np.testing.assert_array_equal(leg.foot.offset, offset)
        assert leg.foot.radius == 0.018


@pytest.mark.parametrize("beyond", [(0, 0, 0), (0, 0, -0.015), (0.0, 0.01, 0.0)])
def test_frames_beyond_the_foot_are_not_the_foot(
    beyond: tuple[float, float, float], quadruped_files: Callable[[str], Urdf]
) -> None:
    urdf = quadruped_files("small_quadruped")
    for name, leg in SMALL.items():
        urdf.add_link(f"{name}_contact_point").add_joint(
            f"a_{name}", "fixed", leg.foot, f"{name}_contact_point", beyond
        )
    assert_standing_legs(qd.load(str(urdf)), SMALL)


def test_sensors_on_the_shank_are_not_the_foot(quadruped_files: Callable[[str], Urdf]) -> None:
    urdf = quadruped_files("small_quadruped")
    for name, leg in SMALL.items():
        shank = urdf.carried(leg.joints[-1])
        urdf.add_link(f"{name}_imu", 0.002, size=0.01)
        urdf.add_joint(f"a_{name}", "fixed", shank, f"{name}_imu", (0.02, 0, -0.07)).add_shape(
            f"{name}_imu", "box", size="0.01 0.01 0.01"
        )
    assert_standing_legs(qd.load(str(urdf)), SMALL)


def test_link_named_like_a_foot_is_only_a_warning(quadruped_files: Callable[[str], Urdf]) -> None:
    hip = {"FL_hip": "FL", "RR_hip": "FL_hip"}
    urdf = quadruped_files("small_quadruped").rename(lambda n: hip.get(n, n))
    robot = qd.load(str(urdf))
    assert_standing_legs(robot, SMALL)
    assert any("'FL'" in f.reason for f in robot.report.warnings)
    assert robot.frame_id("FL") == robot.model.getFrameId("FL", pin.FrameType.OP_FRAME)


def test_joints_may_be_named_like_links(quadruped_files: Callable[[str], Urdf]) -> None:
    urdf = quadruped_files("small_quadruped").rename(lambda n: n.removesuffix("_joint"))
    robot = qd.load(str(urdf))
    assert_standing_legs(robot, SMALL, lambda n: n.removesuffix("_joint"))
    assert robot.model.frames[robot.frame_id("FL_calf")].type == pin.FrameType.BODY


# -- other legs -------------------------------------------------------------------------------------------------
TWO = (Segment(Y, (0, 0, -0.2), (-1.6, 1.6)), Segment(Y, (0, 0, -0.2), (-2.6, 2.6)))
ANKLE = (
    HIP,
    Segment(Y, (0, 0, -0.15), (-1.6, 1.6)),
    Segment(Y, (0, 0, -0.15), (-2.6, 2.6)),
    Segment(Y, (0, 0, -0.1), (-1.6, 1.6)),
)
YAW = (Segment(Z, (0, 0, -0.03), (-0.7, 0.7)), *PLAIN)
SLIDE = (HIP, Segment(Y, (0, 0, -0.2), (-1.2, 1.2)), Segment(Z, (0, 0, -0.15), (-0.1, 0.1), "prismatic"))
SLIDE_TWO = (Segment(Y, (0, 0, -0.2), (-1.2, 1.2)), Segment(Z, (0, 0, -0.15), (-0.1, 0.1), "prismatic"))
PITCH_FIRST = (
    Segment(Y, (0, 0.05, 0), (-1.6, 1.6)),
    Segment(X, (0, 0.0, -0.2), (-0.8, 0.8)),
    Segment(Y, (0, 0, -0.2), (-2.6, 2.6)),
)
WHEEL = (*PLAIN, Segment(Y, (0, 0, 0), None, "continuous", "wheel"))
BENT = (HIP, Segment(Y, (-0.1, 0, -0.17), (-1.2, 1.2)), Segment(Y, (0.1, 0, -0.17), (-1.0, 1.0)))


def expected_legs(plan: tuple[Segment, ...]) -> dict[str, LegNames]:
    return {
        leg: LegNames(tuple(f"{leg}_{s.name or i}_joint" for i, s in enumerate(plan)), f"{leg}_foot") for leg in FEET
    }


def differing_legs(other: tuple[Segment, ...], *legs: str) -> Urdf:
    return dog({**dict.fromkeys(FEET, PLAIN), **dict.fromkeys(legs, other)})


def tilted(angle: float, *segments: Segment) -> list[Segment]:
    """Segments with axes that are not parallel to those of the base."""
    c, s = math.cos(angle), math.sin(angle)
    return [dataclasses.replace(x, axis=(c, 0, s) if x.axis == X else (0, c, s)) for x in segments]


def moved_hips(change: Callable[[str, float, float], Vector]) -> Urdf:
    return dog(hips={k: change(k, x, y) for k, (x, y, _) in CORNERS.items()})


def loaded(place: Vector) -> Urdf:
    return dog().add_link("load", 8.0).add_joint("bolt", "fixed", "trunk", "load", place)


LONG = (HIP, *(dataclasses.replace(s, to=(0.0, 0.0, -0.27)) for s in (THIGH, SHANK)))
STRUCTURES: dict[str, tuple[Segment, ...]] = {
    "roll-pitch-knee": PLAIN,
    "hip-knee": TWO,
    "ankle": ANKLE,
    "yaw-roll-pitch-knee": YAW,
    "pitch-roll-knee": PITCH_FIRST,
    "wheel": WHEEL,
    "bent at zero": BENT,
    "tilted roll axes": (*tilted(0.17, HIP), THIGH, SHANK),
    "tilted knee axes": (HIP, *tilted(0.17, THIGH, SHANK)),
    **{
        f"{kind} without limits": tuple(dataclasses.replace(s, limit=None, kind=kind) for s in PLAIN)
        for kind in ("continuous", "revolute")
    },
}
DOGS: dict[str, Urdf] = {
    "long rear legs": differing_legs(LONG, "RL", "RR"),
    "high rear hips": moved_hips(lambda k, x, y: (x, y, 0.08 * (k[0] == "R"))),
    "low rear hips": moved_hips(lambda k, x, y: (x, y, -0.08 * (k[0] == "R"))),
    "narrow": moved_hips(lambda k, x, y: (3.0 * x, y / 2, 0.0)),
    **{
        f"knee between {limit}": differing_legs((HIP, THIGH, dataclasses.replace(SHANK, limit=limit)), "RL")
        for limit in ((-1.6, -1.45), (-0.9, -0.8), (-2.5, -2.2))
    },
    **{f"load at {at}": loaded(at) for at in ((0.5, 0, 0.1), (-0.45, 0, 0.1), (0, 0.08, 0.1))},
}


@pytest.mark.parametrize("name", STRUCTURES)
def test_legs_of_other_kinematic_structure_stand(name: str) -> None:
    robot = qd.load(str(dog(STRUCTURES[name])))
    assert_standing_legs(robot, expected_legs(STRUCTURES[name]))
    assert all(leg.n == len(STRUCTURES[name]) for leg in robot.legs.values())


@pytest.mark.parametrize("plan", [SLIDE, SLIDE_TWO], ids=["roll-pitch-slide", "pitch-slide"])
def test_legs_with_sliding_shanks_stand(plan: tuple[Segment, ...]) -> None:
    robot = qd.load(str(dog(plan)))
    assert_legs(robot, expected_legs(plan))
    assert_grounded(robot)


def test_legs_at_the_sides_of_a_cross_bend_outward_for_either_sign_of_their_axes() -> None:
    robot = qd.load(Path(__file__).with_name("cases") / "quadruped_plus" / "robot.urdf")
    forward, left, bend_sideways = np.array(X), np.array(Y), 0
    for limb in find_limbs(robot.bodies):
        for sign in (1.0, -1.0):
            ahead, aside = leg_forward_and_left(
                dataclasses.replace(limb, bending_axis=sign * limb.bending_axis), forward, left
            )
            if abs(limb.origin[1]) > abs(limb.origin[0]):
                bend_sideways += 1
                assert ahead @ limb.origin > 0.9 * np.linalg.norm(limb.origin[:2])
                np.testing.assert_allclose(np.cross(ahead, aside), [0.0, 0.0, 1.0], atol=1e-9)
            else:
                assert ahead is forward and aside is left
    assert bend_sideways == 4


@pytest.mark.parametrize(
    ("shape", "guess"),
    [
        ("", "no shape gives the radius of the wheel"),
        ('box size="0.16 0.05 0.12"', ""),
        ('box size="0.12 0.05 0.16"', ""),
        ('sphere radius="0.08"', ""),
    ],
)
def test_wheel_has_the_contact_of_its_shape_or_of_a_disc_with_its_inertia(shape: str, guess: str) -> None:
    mass, radius = 0.5, 0.08
    disc = inertial(mass, "0 0.05 0", moments=f"1e-3 {0.5 * mass * radius**2} 1e-3")
    wheel = urdf_text.link("w", disc, collision(shape) if shape else "")
    robot = qd.load(urdf_text.urdf(urdf_text.link("a"), wheel, urdf_text.joint("j", "a", "w", kind="continuous")))
    found = find_foot_sphere(robot.bodies[-1])
    assert found.radius == pytest.approx(radius) and guess in found.guess
    assert np.abs(found.offset) == pytest.approx([0.0, 0.0 if shape else 0.05, 0.0])


@pytest.mark.parametrize(("inertia", "balanced"), [("0.01", True), ("1", False)])
def test_inertia_larger_than_the_shapes_does_not_make_a_bar_a_wheel(inertia: str, balanced: bool) -> None:
    com = "0.004 0 0" if balanced else "0.05 0 0"
    bar = urdf_text.link("w", inertial(1.0, com, float(inertia)), collision('box size="0.2 0.01 0.02"', com))
    robot = qd.load(urdf_text.urdf(urdf_text.link("a"), bar, urdf_text.joint("j", "a", "w", kind="continuous")))
    assert is_wheel(robot.bodies[-1]) == balanced


def test_separate_rotor_joints_do_not_break_leg_detection() -> None:
    urdf = dog()
    for leg in FEET:
        urdf.add_link(f"{leg}_rotor", 0.05, size=0.03)
        urdf.add_joint(f"{leg}_rotor_joint", "continuous", f"{leg}_thigh", f"{leg}_rotor", (0, 0.02, 0), axis=Y)
    robot = qd.load(str(urdf))
    assert robot.nv == 6 + 16
    assert_standing_legs(robot, expected_legs(PLAIN))


@pytest.mark.parametrize(
    "rear",
    [
        ANKLE,
        (*ANKLE, Segment(X, (0, 0, -0.04), (-0.5, 0.5))),
        (
            *PLAIN[:2],
            dataclasses.replace(SHANK, to=(0, 0, -0.17)),
            Segment(Z, (0, 0, -0.03), (-0.02, 0.02), "prismatic"),
        ),
    ],
    ids=["ankle", "ankle with roll", "spring"],
)
def test_rear_legs_may_have_more_joints(rear: tuple[Segment, ...]) -> None:
    robot = qd.load(str(dog({"FL": PLAIN, "FR": PLAIN, "RL": rear, "RR": rear})))
    assert_legs(robot, {k: v for k, v in expected_legs(PLAIN).items() if k[0] == "F"} | {
        k: v for k, v in expected_legs(rear).items() if k[0] == "R"
    })  # fmt: skip
    assert_stands(robot)


@pytest.mark.parametrize("seed", others_slow(range(20), range(8)))
def test_random_quadrupeds_with_random_conventions_stand(seed: int) -> None:
    # Random joints, axis signs, zero poses, limits, base frames and orders of elements.
    rng = np.random.default_rng(seed)
    a, b, c, wide, long = rng.uniform((0.15, 0.15, 0.05, 0.03, 0.15), (0.4, 0.4, 0.15, 0.3, 0.8))
    hip = dataclasses.replace(HIP, to=(rng.uniform(-0.08, 0.08), rng.uniform(0.02, 0.1), 0.0))
    thigh = dataclasses.replace(THIGH, to=(0.0, rng.uniform(-0.02, 0.05), -a))
    shank = dataclasses.replace(SHANK, to=(rng.uniform(-0.1, 0.1) * b, 0.0, -b))
    toe, yaw = Segment(Y, (0, 0, -c), (-1.6, 1.6)), Segment(Z, (0, 0, -0.03), (-0.7, 0.7))
    plan = [(hip, thigh, shank), (thigh, shank), (hip, thigh, shank, toe), (yaw, hip, thigh, shank)][seed % 4]
    hips = {k: (np.sign(x) * long, np.sign(y) * wide, 0.0) for k, (x, y, _) in CORNERS.items()}
    urdf = dog(plan, hips=hips, radius=rng.choice([0.02, 0.04]))
    zero, expected = rng.uniform(-1.2, 1.2, 4), expected_legs(plan)
    unlimited, rename = rng.random() < 0.4, {}
    for leg in expected.values():
        for joint, segment, angle in zip(leg.joints, plan, zero[-len(plan) :], strict=True):
            if segment.axis == Y:
                urdf.shift_zero(joint, angle)
            if rng.random() < 0.5:
                urdf.flip_axis(joint)
            if unlimited:
                urdf.unlimit(joint)
    if rng.random() < 0.3:
        urdf.turn_base(math.pi / 2)
    names = [x.attrib["name"] for x in (*urdf.links, *urdf.joints)]
    rename = dict(zip(names, (f"n{i}" for i in rng.permutation(len(names))), strict=True))
    robot = qd.load(str(urdf.rename(rename.__getitem__).shuffle(seed)))
    assert_legs(robot, expected, rename.__getitem__)
    assert_grounded(robot)


def test_legs_with_continuous_hips_do_not_cross() -> None:
    # A leg rotated by half a turn about its roll or yaw joint also reaches the ground, but on the wrong side.
    plan = tuple(dataclasses.replace(s, limit=None, kind="continuous") for s in YAW)
    robot = qd.load(str(dog(plan)))
    feet = dict(zip(robot.legs, feet_at(robot, robot.q_home), strict=True))
    assert feet["FL"][1] > 0.06 > -0.06 > feet["FR"][1]
    assert feet["RL"][1] > 0.06 > -0.06 > feet["RR"][1]


# -- what else hangs from the trunk -----------------------------------------------------------------------------
def with_chain(urdf: Urdf, name: str, at: tuple[float, float, float], *segments: Segment) -> Urdf:
    parent = urdf.base
    for i, s in enumerate(segments):
        urdf.add_link(f"{name}{i}", 0.1, np.array(s.to) / 2.0, 0.03)
        urdf.add_joint(f"{name}{i}_joint", s.kind, parent, f"{name}{i}", at, axis=s.axis, limit=s.limit)
        at, parent = s.to, f"{name}{i}"  # type: ignore[assignment]
    return urdf


TAIL = (Segment(Y, (-0.08, 0, 0)), Segment(Z, (-0.08, 0, 0)), Segment(Y, (-0.08, 0, 0)))
ARM = (
    Segment(Z, (0, 0, 0.08)),
    Segment(Y, (0.05, 0, 0.2)),
    Segment(Y, (0.2, 0, 0.0)),
    Segment(X, (0.05, 0, 0)),
    Segment(Y, (0.05, 0, 0)),
    Segment(X, (0.04, 0, 0)),
)
ARM_LIKE_LEG = (HIP, Segment(Y, (0, 0, 0.2)), Segment(Y, (0, 0, 0.2)))


def with_pair(urdf: Urdf, x: float, *segments: Segment) -> Urdf:
    """Adds a left and a right chain."""
    return with_chain(with_chain(urdf, "left", (x, 0.06, 0.1), *segments), "right", (x, -0.06, 0.1), *segments)


DOGS |= {
    "lidar": with_chain(dog(), "lidar", (0.0, 0, 0.1), Segment(Z, (0, 0, 0.03), None, "continuous")),
    **{f"tail of {n}": with_chain(dog(), "tail", (-0.22, 0, 0.02), *TAIL[:n]) for n in (1, 2, 3)},
    "head of two": with_chain(dog(), "head", (0.22, 0, 0.05), Segment(Z, (0, 0, 0.05)), Segment(Y, (0.1, 0, 0))),
    "two ears": with_pair(dog(), 0.2, Segment(Y, (0, 0, 0.05)), Segment(Y, (0, 0, 0.05))),
    "arm": with_chain(dog(), "arm", (0.12, 0, 0.1), *ARM),
    "arm with gripper": (
        with_chain(dog(), "arm", (0.12, 0, 0.1), *ARM)
        .add_link("left_finger", 0.02, size=0.02)
        .add_joint("left", "prismatic", "arm5", "left_finger", (0.04, 0.01, 0), axis=Y, limit=(0.0, 0.03))
        .add_link("right_finger", 0.02, size=0.02)
        .add_joint("right", "prismatic", "arm5", "right_finger", (0.04, -0.01, 0), axis=Y, limit=(-0.03, 0.0))
    ),
    "two arms like legs": with_pair(dog(), 0.2, *ARM_LIKE_LEG),
    "two arms amidships": with_pair(dog(), 0.0, *ARM_LIKE_LEG),
    "two arms": with_pair(dog(), 0.2, *ARM),
}


@pytest.mark.parametrize("name", DOGS)
def test_dogs_of_other_shape_or_with_tails_arms_and_sensors_stand_on_their_legs(name: str) -> None:
    assert_standing_legs(qd.load(str(DOGS[name])), expected_legs(PLAIN))


def test_forty_dummy_links_do_not_change_the_legs(quadruped_files: Callable[[str], Urdf]) -> None:
    urdf, plain, parent = quadruped_files("small_quadruped"), qd.load("small_quadruped"), "base"
    for i in range(40):
        urdf.add_link(f"mast_{i}").add_joint(f"mast_{i}_joint", "fixed", parent, f"mast_{i}", (0, 0, 0.05))
        parent = f"mast_{i}" if i % 3 else parent
    robot = qd.load(str(urdf))
    assert_legs(robot, SMALL)
    np.testing.assert_array_equal(robot.q_home, plain.q_home)
    assert robot.mass == plain.mass


@pytest.mark.parametrize("spine", [Y, Z, X], ids=["pitch", "yaw", "roll"])
@pytest.mark.parametrize("behind", ["RL RR", "FL FR"])
def test_legs_on_both_sides_of_a_spine_stand(spine: tuple[float, float, float], behind: str) -> None:
    moved = behind.split()
    sign = -1.0 if moved[0][0] == "R" else 1.0
    hips = {k: (0.2 * sign if k in moved else x, y, z) for k, (x, y, z) in CORNERS.items()}
    urdf = Urdf.of("small_quadruped")
    urdf = dog(hips=hips, parents=dict.fromkeys(moved, "half"))
    urdf.add_link("half", 4.0, (0.1 * sign, 0, 0), 0.2).add_joint(
        "spine", "revolute", "trunk", "half", axis=spine, limit=(-0.4, 0.4)
    )
    robot = qd.load(str(urdf))
    assert_legs(robot, expected_legs(PLAIN))
    assert robot.q_home[robot.configuration_index("spine")] == 0.0
    assert_stands(robot)


# -- what is no quadruped ---------------------------------------------------------------------------------------


BIPEDS = [
    "talos_data/robots/talos_reduced.urdf",
    "simple_humanoid_description/urdf/simple_humanoid.urdf",
    "g1_description/urdf/g1_29dof_rev_1_0.urdf",
    "g1_description/urdf/g1_29dof_with_hand_rev_1_0.urdf",
    "alexander_description/urdf/alexander_v1.lowerBodyOnly.urdf",
    "bolt_description/robots/bolt.urdf",
]


@pytest.mark.parametrize("path", others_slow(BIPEDS, [BIPEDS[1], BIPEDS[2], BIPEDS[5]]))
def test_biped_stands_on_its_two_legs(path: str) -> None:
    robot = qd.load(example_robot_folder() / path)
    assert robot.feet == ("L", "R")
    for side, word in (("L", "left"), ("R", "right")):
        assert robot.legs[side].side == word
        hints = (word, f"leg_{word}", f"{word[0]}_", f"f{word[0]}_", f"{word[0]}leg")
        assert all(j.lower().startswith(hints) for j in robot.legs[side].joints), robot.legs[side].joints
        assert not any(w in j.lower() for j in robot.legs[side].joints for w in ("hand", "arm", "shoulder", "wrist"))


@pytest.mark.parametrize(
    "path",
    [
        "allegro_hand_description/urdf/allegro_right_hand.urdf",
        "allegro_hand_description/urdf/allegro_left_hand.urdf",
        "alex_description/urdf/alex_psyonic_hands.urdf",
        "baxter_description/urdf/baxter.urdf",
        "tiago_description/robots/tiago.urdf",
        "tiago_description/robots/tiago_dual.urdf",
        "pr2_description/urdf/pr2.urdf",
        "iris_description/robots/iris.urdf",
    ],
)
def test_hands_and_arms_have_no_legs(path: str) -> None:
    assert qd.load(example_robot_folder() / path, mimic=False).feet == ()


def test_robot_with_two_legs_is_a_biped() -> None:
    robot = qd.load(str(dog(hips={"FL": (0, 0.1, 0), "FR": (0, -0.1, 0)})))
    assert robot.feet == ("L", "R")
    assert robot.legs["L"].foot.frame == "FL_foot"
    assert_level(robot, robot.q_home)


def test_robots_with_six_or_eight_legs_are_no_quadrupeds_and_doubled_chains_are_uncertain() -> None:
    hips = {f"{row}{side}": (x, y, 0.0) for row, x in zip("FMR", (0.3, 0.0, -0.3), strict=True)
            for side, y in (("L", 0.1), ("R", -0.1))}  # fmt: skip
    robot = qd.load(str(dog(hips=hips)))
    assert robot.feet == ("FL", "FR", "ML", "MR", "RL", "RR")
    assert_grounded(robot)
    rows = {f"{k}{side}": (0.3 - 0.2 * k, y, 0.0) for k in range(4) for side, y in (("L", 0.15), ("R", -0.15))}
    assert qd.load(str(dog(hips=rows))).feet == ()
    halves = {f"{leg}{k}": (x, y * (1.0 + 0.3 * k), z) for leg, (x, y, z) in CORNERS.items() for k in (0, 1)}
    robot = qd.load(str(dog((THIGH, SHANK), hips=halves)))
    assert set(robot.feet) == set(FEET) and warned(robot, "the legs are uncertain")


# -- stance by height -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["small_quadruped", "go2", "anymal_c", "hyq", "solo8"])
@pytest.mark.parametrize("share", [0.75, 0.9, 1.0, 1.1])
def test_stance_has_the_requested_height(name: str, share: float) -> None:
    robot = load(name)
    height = share * float(robot.q_home[2])
    q = stance(robot, height=height)
    assert q[2] == pytest.approx(height, abs=1e-12)
    assert_grounded(dataclasses.replace(robot, q_home=q))


@pytest.mark.parametrize("height", [-0.3, 0.0, 0.02, 0.5, 1e300, math.nan, math.inf, "tall"])
def test_height_out_of_reach_raises(height: float) -> None:
    raises(qd.ArgumentError, "height", stance, load("go2"), height=height)


def test_default_stance_is_home() -> None:
    robot = qd.load("small_quadruped")
    np.testing.assert_allclose(stance(robot), robot.q_home, rtol=0, atol=1e-12)


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_stance_bends_knees_in_the_requested_direction(direction: str) -> None:
    robot = qd.load("anymal_c")
    q = stance(robot, knee_direction=dict.fromkeys(FEET, direction))
    assert_level(robot, q)
    moved = dataclasses.replace(robot, q_home=q)
    expected = qd.load("anymal_c", knee_direction=direction)
    np.testing.assert_allclose(moved.q_home, expected.q_home, rtol=0, atol=1e-8)


def test_unknown_leg_or_knee_direction_raises() -> None:
    robot = qd.load("small_quadruped")
    raises(qd.UnknownNameError, "knee_direction", stance, robot, knee_direction={"LF": "forward"})
    raises(qd.ArgumentError, "knee_direction", stance, robot, knee_direction={"FL": "sideways"})
    raises(qd.ArgumentError, "no legs", stance, qd.load("panda"))


def test_home_without_a_level_stance_is_reported() -> None:
    stiff = (HIP, THIGH, dataclasses.replace(SHANK, limit=(-2.6, -2.55)))
    hips = {k: (x, y, 0.3 if k == "RL" else z) for k, (x, y, z) in CORNERS.items()}
    robot = qd.load(str(dog({**dict.fromkeys(FEET, PLAIN), "RL": stiff}, hips=hips)))
    assert any("no level stance" in f.reason for f in robot.report.warnings)
    assert_inside_limits(robot, robot.q_home)
    raises(qd.ArgumentError, "cannot stand level", stance, robot)


def test_world_link_with_moving_joint_or_other_children_is_rejected_on_a_moving_root(
    quadruped_files: Callable[[str], Urdf],
) -> None:
    hinged = quadruped_files("small_quadruped").under("world", "fixed")
    hinged.above("base").attrib["type"] = "continuous"
    crowded = quadruped_files("small_quadruped").under("world", "fixed")
    crowded.add_link("table", 5.0).add_joint("stand", "fixed", "world", "table")
    for urdf in (hinged, crowded):
        for root in ("free", "planar"):
            raises(qd.ModelError, "world", qd.load, str(urdf), root=root)
        for root in (None, "fixed"):
            robot = qd.load(str(urdf), root=root)
            assert robot.root == "fixed"
            assert set(robot.feet) == set(FEET)


# -- rounding and the last digits of a file decide nothing ---------------------------------------------------------
RIGHT_ANGLES = ("1.57", "1.570796", "1.5708", "1.5707963267948966", "-1.5707963267948966")


def radial_leg_urdf(angles: tuple[str, str, str, str]) -> str:
    """Four legs that point away from the corners of the base, each with a yaw joint at the hip and two pitch joints."""
    body, ball = inertial(0.3, "0.08 0 0", 0.0005), collision('sphere radius="0.02"', "0.2 0 0")
    parts = [urdf_text.link("base", inertial(3, moments=0.02))]
    for name, (x, y), angle in zip("abcd", ((1, 1), (1, -1), (-1, 1), (-1, -1)), angles, strict=True):
        yaw, hip, knee = f"{name}1", f"{name}2", f"{name}3"
        parts += [urdf_text.link(yaw, body), urdf_text.link(hip, body), urdf_text.link(knee, body, ball)]
        place = f"{0.1 * x} {0.1 * y} 0", f"0 0 {angle}"
        parts.append(urdf_text.joint(f"{name}_yaw", "base", yaw, "0 0 1", *place, ends="-1.2 2.2", effort=20))
        parts.append(urdf_text.joint(f"{name}_hip", yaw, hip, "0 1 0", "0.05 0 0", ends="-1.2 2.2", effort=20))
        parts.append(urdf_text.joint(f"{name}_knee", hip, knee, "0 1 0", "0.15 0 0", ends="0 2.2", effort=20))
    return urdf_text.urdf(*parts, name="spider")


def test_facing_direction_does_not_depend_on_digits_of_45_degree_angles() -> None:
    found = set()
    for quarter, more in (("0.785398", "2.356194"), (".7854", "2.3562"), ("0.785", "2.356"), (math.pi / 4, 2.35619449)):
        robot = qd.load(radial_leg_urdf((f"{quarter}", f"-{quarter}", f"{more}", f"-{more}")), root="free")
        found.add(tuple((name, leg.joints[0]) for name, leg in robot.legs.items()))
    assert found == {(("FL", "a_yaw"), ("FR", "b_yaw"), ("RL", "c_yaw"), ("RR", "d_yaw"))}


def single_leg_urdf(shapes: str) -> str:
    """URDF of two links below the base; `shapes` are those of the second link."""
    body = inertial(1.0, "0 0 -0.1", 0.01)
    joints = urdf_text.joint("j1", "l0", "l1"), urdf_text.joint("j2", "l1", "l2", xyz="0 0 -0.2")
    links = [urdf_text.link(f"l{i}", body, shapes if i == 2 else "") for i in range(3)]
    return urdf_text.urdf(*links, *joints, name="lone")


def contact_of(source: str | Path) -> tuple[float, ...]:
    """Contact point (3,) of a leg in its last link, rounded to a nanometer [m]."""
    return tuple((qd.load(source, root="fixed", legs="leg").legs["leg"].foot.offset.round(9) + 0.0).tolist())


@pytest.mark.parametrize(
    "shape",
    ['cylinder radius="0.02" length="0.08"', 'capsule radius="0.02" length="0.04"', 'box size="0.02 0.03 0.08"'],
    ids=["cylinder", "capsule", "box"],
)
def test_shape_across_the_leg_has_its_contact_in_the_middle(shape: str) -> None:
    place = '<collision><origin xyz="0 0 -0.2" rpy="{} 0 0"/><geometry><{}/></geometry></collision>'
    assert {contact_of(single_leg_urdf(place.format(angle, shape))) for angle in RIGHT_ANGLES} == {(0.0, 0.0, -0.2)}


def test_flat_mesh_has_its_contact_in_the_middle_in_any_file_orientation(tmp_path: Path) -> None:
    corners = np.array([[x, y, z] for x in (-0.03, 0.05) for y in (-0.02, 0.02) for z in (0.0, -0.2)])
    found = set()
    for rpy in ((0, 0, 0), (math.pi / 2, 0, 0), (0, math.pi / 2, 0), (0, 0, 0.3), (0.3, 0.2, 0.1), (math.pi, 0, 0.1)):
        (tmp_path / "foot.obj").write_bytes(mesh_file("obj", corners @ pin.rpy.rpyToMatrix(*rpy)))
        turned = f'<origin rpy="{rpy[0]!r} {rpy[1]!r} {rpy[2]!r}"/><geometry><mesh filename="foot.obj"/></geometry>'
        (tmp_path / "leg.urdf").write_text(single_leg_urdf(f"<collision>{turned}</collision>"), encoding="utf-8")
        found.add(contact_of(tmp_path / "leg.urdf"))
    assert found == {(0.01, 0.0, -0.2)}


def test_contact_of_a_sole_is_in_the_middle_of_its_equal_spheres_or_frames() -> None:
    ball = '<collision><origin xyz="{!r} {!r} -0.2"/><geometry><sphere radius="0.01"/></geometry></collision>'
    for k in range(8):
        noise = 1.0 + 2e-16 * np.random.default_rng(k).standard_normal((4, 2))
        places = np.array([(x, y) for x in (-0.03, 0.03) for y in (-0.02, 0.02)]) * noise
        assert contact_of(single_leg_urdf("".join(ball.format(x, y) for x, y in places.tolist()))) == (0.0, 0.0, -0.2)
    corners = {f"corner_{k}": (x, y) for k, (x, y) in enumerate(itertools.product((-0.02, 0.1), (-0.03, 0.04)))}
    frames = "".join(
        f'<link name="{name}"/><joint name="at_{name}" type="fixed"><parent link="l2"/><child link="{name}"/>'
        f'<origin xyz="{x} {y} -0.2"/></joint>'
        for name, (x, y) in corners.items()
    )
    robot = qd.load(single_leg_urdf("").replace("</robot>", frames + "</robot>"), legs="leg")
    np.testing.assert_allclose(robot.legs["leg"].foot.offset, (0.04, 0.005, -0.2), atol=1e-12)
    assert any("the contact of foot leg is a point of radius 0 (middle of the frames" in str(f) for f in robot.report)
    upright = re.sub(r"xyz=\"(\S+) (\S+) -0.2", r'xyz="\1 0 \2', frames)  # frames in the plane of the leg
    robot = qd.load(single_leg_urdf("").replace("</robot>", upright + "</robot>"), legs="leg")
    assert robot.legs["leg"].foot.frame in corners


# -- recognition of legs and of the forward direction -----------------------------------------------------------------
CASES = Path(__file__).parent / "cases"
BACKWARD = [[-1, 0, 0], [0, -1, 0], [0, 0, 1]]


def warned(robot: qd.Robot, words: str) -> bool:
    return any(words in str(finding) for finding in robot.report.warnings)


def verdict(robot: qd.Robot) -> str:
    """The finding on legs in the validation report."""
    return next(f.reason for f in robot.report if f.where.element == "legs" and "score" in f.reason)


def found_legs(urdf: Urdf) -> dict[str, str]:
    """The first joints of the legs, without loading the robot."""
    bodies = merge_fixed_links(parse(str(urdf)))
    legs = recognize_legs(bodies, find_limbs(bodies), "").best.legs
    return {name: limb.chain.joints[0].name for name, limb in legs.items()}


def first_joints(robot: qd.Robot) -> dict[str, str]:
    return {name: leg.joints[0] for name, leg in robot.legs.items()}


# -- the four files ---------------------------------------------------------------------------------------------------
def test_humanoid_with_arms_in_front_is_a_biped() -> None:
    file = CASES / "humanoid_arms_ahead" / "robot.urdf"
    start = time.process_time()
    robot = qd.load(file)
    assert time.process_time() - start < 1.0
    assert first_joints(robot) == {"L": "l_hip_yaw", "R": "r_hip_yaw"}
    assert [leg.knee for leg in robot.legs.values()] == ["l_knee", "r_knee"]
    assert_level(robot, robot.q_home)
    assert "arm 'l_shoulder_pitch' to 'l_wrist_roll'" in verdict(robot) and "margin" in verdict(robot)
    raises(qd.ArgumentError, "requires a quadruped", qd.LocomotionController, robot)


def test_locomotion_rejects_locked_legs() -> None:
    robot = qd.load(CASES / "locked_legs" / "robot.urdf")
    assert set(robot.feet) == set(FEET)
    raises(qd.ArgumentError, r"leg FL .* is locked: 'FL_hip_joint', .*limits=", qd.LocomotionController, robot)


def test_leg_names_determine_the_heading_of_a_reversed_base() -> None:
    file = CASES / "quadruped_backwards" / "robot.urdf"
    robot = qd.load(file)
    assert first_joints(robot) == {name: f"{name}_hip_joint" for name in FEET}
    assert warned(robot, f"faces along -x, not along x; legs are named and moved accordingly; pass base={BACKWARD}")
    heading = Morphology.from_robot(robot).heading
    np.testing.assert_allclose(heading, BACKWARD, rtol=0, atol=0)
    s = qd.Dynamics(robot).update(robot.q_home, np.zeros(robot.nv))
    assert (s.placement("FL").translation - s.placement("RR").translation) @ heading[:, 0] > 0.3
    turned = qd.load(file, base=BACKWARD)
    assert first_joints(turned) == first_joints(robot) and not warned(turned, "is rotated")
    np.testing.assert_allclose(Morphology.from_robot(turned).heading, np.eye(3), rtol=0, atol=0)


@pytest.mark.parametrize("names", [("front1", "front2", "rear1", "rear2"), ("left1", "right1", "left2", "right2")])
def test_names_of_rows_or_sides_alone_show_a_reversed_base(names: Sequence[str]) -> None:
    text = (CASES / "quadruped_backwards" / "robot.urdf").read_text(encoding="utf-8")
    for old, new in zip(FEET, names, strict=True):
        text = text.replace(f"{old}_", f"{new}_")
    robot = qd.load(text)
    assert first_joints(robot) == {foot: f"{name}_hip_joint" for foot, name in zip(FEET, names, strict=True)}
    assert warned(robot, "faces along -x, not along x")


def test_robot_that_faces_along_y_by_its_knees_is_reported() -> None:
    robot = qd.load(CASES / "quadruped_backwards" / "robot.urdf", base=[0.0, 0.0, -math.pi / 2.0])
    assert first_joints(robot) == {name: f"{name}_hip_joint" for name in FEET}
    assert warned(robot, "faces along y, not along x; pass base=[[0, 1, 0], [-1, 0, 0], [0, 0, 1]]")


def spider(angles: Sequence[float], names: Sequence[str]) -> str:
    """Robot with legs of three joints that point outward at angles [degrees] about z: yaw, lift and knee."""
    parts = [urdf_text.link("body", box_inertial(2.0, (0.2, 0.2, 0.05)))]
    for angle, name in zip(np.radians(angles), names, strict=True):
        parent, at, turn = "body", f"{0.12 * math.cos(angle)} {0.12 * math.sin(angle)} 0", f"0 0 {angle}"
        for part, axis, length, pitch in (
            ("a", "0 0 1", 0.04, -0.5),
            ("b", "0 1 0", 0.08, 1.7),
            ("c", "0 1 0", 0.12, 0),
        ):
            foot = collision('sphere radius="0.01"', f"{length} 0 0") if part == "c" else ""
            parts.append(urdf_text.link(f"{name}_{part}", box_inertial(0.05, (length, 0.02, 0.02)), foot))
            parts.append(urdf_text.joint(f"{name}_j{part}", parent, f"{name}_{part}", axis, at, turn, ends="-1 1"))
            parent, at, turn = f"{name}_{part}", f"{length} 0 0", f"0 {pitch} 0"
    return urdf_text.urdf(*parts, name="spider")


def box_inertial(mass: float, size: tuple[float, float, float]) -> str:
    """Mass properties of a box."""
    x, y, z = (mass / 12 * length * length for length in size)
    return inertial(mass, moments=f"{y + z} {x + z} {x + y}")


@pytest.mark.parametrize("turn", [0.0, 90.0, 180.0, 270.0])
def test_names_determine_the_heading_of_sprawling_legs(turn: float) -> None:
    robot = qd.load(spider(np.add([40.0, -40.0, 140.0, -140.0], turn), ("lf", "rf", "lh", "rh")))
    assert first_joints(robot) == {"FL": "lf_ja", "FR": "rf_ja", "RL": "lh_ja", "RR": "rh_ja"}
    heading = Morphology.from_robot(robot).heading[:, 0]
    np.testing.assert_allclose(heading[:2], [math.cos(math.radians(turn)), math.sin(math.radians(turn))], atol=1e-12)
    assert warned(robot, "the base frame is rotated") is (turn != 0.0)


@pytest.mark.parametrize("turn", [0.0, 30.0])
def test_hexapods_with_sprawling_legs_are_recognized(turn: float) -> None:
    robot = qd.load(spider(np.arange(30.0, 390.0, 60.0) + turn, tuple("ABCDEF")))
    assert (robot.root, sorted(robot.feet)) == ("free", ["FL", "FR", "ML", "MR", "RL", "RR"])
    assert_grounded(robot)


def test_quadruped_with_front_left_right_and_rear_leg_stands() -> None:
    robot = qd.load(CASES / "quadruped_plus" / "robot.urdf")
    assert robot.root == "free"
    assert first_joints(robot) == {"F": "front_yaw", "L": "left_yaw", "R": "right_yaw", "B": "rear_yaw"}
    assert_level(robot, robot.q_home)
    angles = np.array([[robot.q_home[robot.configuration_index(j)] for j in x.joints] for x in robot.legs.values()])
    np.testing.assert_allclose(angles, angles[[0, 0, 0, 0]], rtol=0, atol=1e-9)  # all four legs stand alike
    assert [leg.side for leg in robot.legs.values()] == ["center", "left", "right", "center"]
    raises(qd.ArgumentError, "requires a quadruped", qd.LocomotionController, robot)


@pytest.mark.slow
def test_robot_walks_toward_its_front_legs() -> None:
    ends = []
    for base in (None, BACKWARD):
        robot = qd.load(CASES / "quadruped_backwards" / "robot.urdf", base=base)
        sim, controller, dynamics = qd.Simulation(robot), qd.LocomotionController(robot), qd.Dynamics(robot)
        for _ in range(800):
            sim.step(controller.compute(dynamics.update(sim.q, sim.v), (0.3, 0.0, 0.0)).tau)
        ends.append(sim.q[:3].copy())
    assert ends[1][0] > 0.03
    np.testing.assert_allclose(ends[0], ends[1] * (-1, -1, 1), rtol=0, atol=1e-5)


# -- kinds of robot ---------------------------------------------------------------------------------------------------
def nameless(urdf: Urdf, seed: int = 0) -> tuple[Urdf, dict[str, str]]:
    """The file with meaningless names in another order, and the map from old to new names."""
    every = [x.attrib["name"] for x in (*urdf.links, *urdf.joints)]
    new = dict(zip(every, (f"n{k}" for k in np.random.default_rng(seed).permutation(len(every))), strict=True))
    return urdf.rename(new.__getitem__).shuffle(seed), new


@pytest.mark.parametrize("seed", others_slow([0, 1, 2], [0]))
def test_legs_are_recognized_without_names(seed: int) -> None:
    for name, legs in (
        ("humanoid_arms_ahead", {"L": "l_hip_yaw", "R": "r_hip_yaw"}),
        ("quadruped_plus", {"F": "front_yaw", "L": "left_yaw", "R": "right_yaw", "B": "rear_yaw"}),
    ):
        urdf, new = nameless(Urdf.parse(CASES / name / "robot.urdf"), seed)
        assert found_legs(urdf) == {leg: new[joint] for leg, joint in legs.items()}


def test_base_frame_determines_the_heading_without_names() -> None:
    urdf, new = nameless(Urdf.parse(CASES / "quadruped_backwards" / "robot.urdf"))
    robot = qd.load(str(urdf))
    assert first_joints(robot)["FL"] == new["RR_hip_joint"] and not warned(robot, "is rotated")


def humanoid(arms_ahead: float = 0.0, arm: float = 0.25, shoulder: float = 0.45) -> Urdf:
    """Legs of six joints at a pelvis, and arms of four joints (two segments of length `arm` [m]) at a fixed chest."""
    leg = (
        Segment(Z, (0, 0, -0.05)), Segment(X, (0, 0, -0.05)), Segment(Y, (0, 0, -0.35)), Segment(Y, (0, 0, -0.35)),
        Segment(Y, (0, 0, -0.03)), Segment(X, (0.03, 0, -0.05)),
    )  # fmt: skip
    limb = (Segment(Y, (0, 0.03, 0)), Segment(X, (0, 0, -arm)), Segment(Z, (0, 0, -0.02)), Segment(Y, (0, 0, -arm)))
    hips = {"aL": (0.0, 0.1, 0.0), "aR": (0.0, -0.1, 0.0)}
    shoulders = {"bL": (arms_ahead, 0.2, shoulder), "bR": (arms_ahead, -0.2, shoulder)}
    plan = {**dict.fromkeys(hips, leg), **dict.fromkeys(shoulders, limb)}
    parents = dict.fromkeys(shoulders, "chest")
    urdf = dog(plan, hips={**hips, **shoulders}, parents=parents).add_link("chest", 10.0, (0, 0, 0.3), 0.3)
    return urdf.add_joint("neck", "fixed", "trunk", "chest")


@given(ahead=st.floats(-0.3, 0.3), arm=st.floats(0.15, 0.4), shoulder=st.floats(0.3, 0.7), order=st.integers(0, 9))
@settings(max_examples=8, deadline=None, derandomize=True)
def test_humanoids_are_never_recognized_as_quadrupeds(ahead: float, arm: float, shoulder: float, order: int) -> None:
    urdf, new = nameless(humanoid(ahead, arm, shoulder), order)
    assert found_legs(urdf) == {"L": new["aL_0_joint"], "R": new["aR_0_joint"]}


TURNS = {"y": (math.pi / 2, 0, 0), "-y": (-math.pi / 2, 0, 0), "x": (0, -math.pi / 2, 0), "-x": (0, math.pi / 2, 0)}


@pytest.mark.parametrize("axis", others_slow(TURNS, ["y"]))
@pytest.mark.parametrize("named", [True, False])
def test_tilted_base_frame_is_reported_with_the_correcting_rotation(axis: str, named: bool) -> None:
    plain = qd.load(str(dog()))
    turn = pin.rpy.rpyToMatrix(*TURNS[axis])  # from the rotated base frame to the upright one
    urdf = dog().turn_base_by(turn.T)
    if not named:
        urdf, _ = nameless(urdf)
    lying = qd.load(str(urdf))
    assert lying.feet == ()
    found = next(f for f in lying.report.warnings if "the base frame is rotated" in f.reason)
    assert f"vertical axis is {axis}, not z" in found.reason
    base = np.array(eval(found.advice.split("base=")[1].split(", or")[0]))
    robot = qd.load(str(urdf), base=base)
    assert robot.feet == FEET and robot.root == "free" and not warned(robot, "is rotated")
    np.testing.assert_allclose(robot.q_home[:3], plain.q_home[:3], rtol=0, atol=1e-9)
    if named:
        assert first_joints(robot) == first_joints(plain)
        np.testing.assert_allclose(robot.q_home, plain.q_home, rtol=0, atol=1e-6)


def test_base_argument_rotates_model_reference_contacts_and_records() -> None:
    turn = pin.rpy.rpyToMatrix(0.3, -0.4, 2.0)
    plain, urdf = qd.load(str(dog())), dog().turn_base_by(turn.T)
    robot = qd.load(str(urdf), base=turn)
    assert first_joints(robot) == first_joints(plain)
    np.testing.assert_allclose(robot.q_home, plain.q_home, rtol=0, atol=1e-9)
    states = [qd.Dynamics(r).update(r.q_home, np.zeros(r.nv)) for r in (robot, plain)]
    np.testing.assert_allclose(states[0].M, states[1].M, rtol=0, atol=1e-9)
    for foot in FEET:
        np.testing.assert_allclose(*(s.placement(foot).translation for s in states), rtol=0, atol=1e-9)
    np.testing.assert_allclose(states[0].placement("trunk").rotation, turn, rtol=0, atol=1e-9)  # the frame of the file
    assert qd.cross_check(robot, samples=2, n_derivative_samples=0).passed
    again = from_record(to_record(robot))
    np.testing.assert_array_equal(again.q_home, robot.q_home)
    again = from_record(to_record(robot), source=str(urdf))  # the unchanged file
    np.testing.assert_allclose(again.legs["FL"].foot.offset, robot.legs["FL"].foot.offset, atol=1e-12)
    placements = [list(r.model.jointPlacements)[1:] for r in (again, robot)]
    assert all(a.isApprox(b, 1e-12) for a, b in zip(*placements, strict=True))


@pytest.mark.parametrize(("top", "kind"), [("world", "fixed"), ("world", "floating"), ("odom", "floating")])
def test_base_argument_rotates_robots_attached_to_a_world_link(top: str, kind: str) -> None:
    urdf = dog().turn_base(math.pi).under(top, kind)
    for root in ("free", "fixed"):
        robot = qd.load(str(urdf).encode().decode(), root=root, base=(0, 0, math.pi))
        assert first_joints(robot) == first_joints(qd.load(str(dog()))) and not warned(robot, "is rotated")


@pytest.mark.parametrize(
    "base", [(1, 2), np.diag([1, 1, -1]), np.diag([2, 1, 1]), [[1, 0, 0], [0, 1, 0], [0, 0, math.nan]], "up", {}]
)
def test_base_argument_must_be_a_rotation(base: object) -> None:
    raises(qd.ArgumentError, "base", qd.load, "small_quadruped", base=base)


def test_link_named_turned_base_is_rejected_with_the_base_argument() -> None:
    urdf = dog().add_link("turned_base").add_joint("there", "fixed", "trunk", "turned_base")
    raises(qd.ModelError, "turned_base", qd.load, str(urdf), base=(0, 0, 1))


def test_leg_names_that_contradict_positions_raise_a_warning() -> None:
    other = {"FL": "FR", "FR": "FL", "RL": "RR", "RR": "RL"}
    urdf = dog().rename(lambda name: other.get(name[:2], name[:2]) + name[2:])
    robot = qd.load(str(urdf))
    assert first_joints(robot) == {name: f"{other[name]}_roll_joint" for name in FEET}
    assert warned(robot, "contradict their positions")


def test_legs_argument_overrides_recognition() -> None:
    text = str(humanoid())
    assert qd.load(text, legs="none").feet == () and qd.load(text, legs="none").root == "fixed"
    assert qd.load(text, legs="quadruped").feet == ()  # the robot does not have four legs
    assert qd.load("small_quadruped", legs="biped").feet == ("L", "R")
    given_legs = {side: [f"a{side}_{k}_joint" for k in (2, 3, 4, 5)] for side in "LR"}
    assert qd.load(text, legs=given_legs).root == "free"
    raises(qd.UnknownNameError, "biped", qd.load, text, legs="bipedal")


def test_names_in_the_legs_argument_determine_the_heading() -> None:
    joints = {name: [f"{name}_{part}_joint" for part in ("roll", "thigh", "shank")] for name in FEET}
    turned = dict(zip(FEET, (joints["RR"], joints["RL"], joints["FR"], joints["FL"]), strict=True))
    heading = Morphology.from_robot(qd.load(str(dog()), legs=turned)).heading
    np.testing.assert_allclose(heading, BACKWARD, rtol=0, atol=0)


def test_hip_and_ankle_roll_joints_are_not_knees() -> None:
    slanted = (0.0, 0.96, 0.28)  # a hip that is not quite parallel to the knee
    leg = (
        Segment(slanted, (0, 0, -0.02)), Segment(X, (0, 0, -0.05)), Segment(Z, (0, 0, -0.35)),
        Segment(Y, (0, 0, -0.35)), Segment(X, (0, 0, -0.03)), Segment(Y, (0, 0, -0.05)),
    )  # fmt: skip
    for foot in (
        -0.05,
        -0.1,
    ):  # the ankle pitch is exactly parallel to the knee, with the height of the foot as a lever
        leg = (*leg[:-1], Segment(Y, (0.06, 0, foot)))
        limbs = find_limbs(merge_fixed_links(parse(str(dog(leg, hips={"FL": (0, 0.1, 0), "FR": (0, -0.1, 0)})))))
        assert [limb.chain.joints[limb.knee].name for limb in limbs] == ["FL_3_joint", "FR_3_joint"]


@pytest.mark.parametrize(("knee", "direction"), [((-2.4, 0.3), "forward"), ((-2.4, 2.4), "backward")])
def test_knees_that_are_overstretched_backward_bend_forward(knee: tuple[float, float], direction: str) -> None:
    low, high = -knee[1], -knee[0]
    robot = qd.load(str(dog((HIP, THIGH, Segment(Y, (0.0, 0.0, -0.2), (low, high))))))
    assert {leg.knee_direction for leg in robot.legs.values()} == {direction}
    assert_level(robot, robot.q_home)


def test_legs_hang_from_a_trunk_that_six_joints_of_the_file_move() -> None:
    urdf = dog().add_link("ground")
    names = ["ground", *(f"virtual_{k}" for k in range(5)), "trunk"]
    for name in names[1:-1]:
        urdf.add_link(name)
    for k, (parent, child) in enumerate(itertools.pairwise(names)):
        kind = "prismatic" if k < 3 else "revolute"
        axis = ((1, 0, 0), (0, 1, 0), (0, 0, 1))[k % 3]
        urdf.add_joint(f"base_{k}", kind, parent, child, (0, 0, 0), axis=axis, limit=(-2.0, 2.0))
    robot = qd.load(str(urdf), allow_massless=True)
    assert robot.root == "fixed" and robot.feet == FEET and robot.nv == 18
    assert "other limbs" not in verdict(robot)


def test_sole_of_a_biped_is_level_at_home_and_its_contact_is_on_the_sole() -> None:
    robot = qd.load("closed_leg_biped")
    s = qd.Dynamics(robot).update(robot.q_home, np.zeros(robot.nv))
    for leg in robot.legs.values():
        np.testing.assert_allclose(s.placement(leg.name).rotation, np.eye(3), atol=1e-9)
        assert s.placement(leg.name).translation[2] == pytest.approx(leg.foot.radius, abs=1e-9)
        assert leg.foot.radius == 0.015 and leg.foot.offset.tolist() == [0.02, 0.0, -0.035]
    assert robot.legs["L"].knee == "left_knee_joint" and robot.legs["L"].knee_direction == "forward"


@pytest.mark.parametrize("name", ["g1", "talos"])
def test_humanoids_stand_at_home_with_level_soles_and_an_upright_torso(name: str) -> None:
    robot = qd.load(name)
    at_zero = qd.Dynamics(robot)
    R = {leg: at_zero.frame_placement(robot.neutral, leg).rotation for leg in robot.feet}
    for leg in robot.feet:
        up = at_zero.frame_placement(robot.q_home, leg).rotation @ R[leg].T @ np.array(Z, dtype=float)
        np.testing.assert_allclose(up, Z, atol=1e-6)
    arms = [n for n in robot.joint_names if not any(n in leg.joints for leg in robot.legs.values())]
    q = np.array([robot.q_home[robot.configuration_index(n)] for n in arms])
    limits = [robot.tree.joints_by_name[n].limits for n in arms]
    assert all(abs(x) < 0.1 or abs(x) < 0.1 + min(abs(b.lower), abs(b.upper)) for x, b in zip(q, limits, strict=True))
    assert {leg.knee_direction for leg in robot.legs.values()} == {"forward"}


def test_limb_whose_axes_intersect_at_its_foot_is_none() -> None:
    axes = (Segment(X, (0, 0, 0)), Segment(Y, (0, 0, 0)), Segment(Z, (0, 0, 0)))
    robot = qd.load(str(dog(axes, hips={"a": (0, 0, 0)}, radius=None)), root="fixed")
    assert robot.feet == ()


def test_upper_bodies_carts_and_wrists_have_no_legs() -> None:
    arms = (HIP, THIGH, Segment(Z, (0, 0, -0.05)), SHANK)
    urdf = dog(arms, hips={"L": (0, 0.2, 0.5), "R": (0, -0.2, 0.5)})
    assert found_legs(urdf) == {} and found_legs(nameless(urdf)[0]) == {}
    cart = dog((Segment(X, (0, 0, 0), kind="prismatic"), Segment(Y, (0, 0, 0.5))), hips={"a": (0, 0, 0)})
    assert found_legs(cart) == {}
    yaw_first = (Segment(Z, (0, 0, 0.1)), Segment(Y, (0, 0, 0.2)), Segment(Y, (0.2, 0, 0)))
    assert found_legs(dog(yaw_first, hips={"a": (0, 0, 0)})) == {}


def test_single_chain_is_a_leg_by_its_names_or_below_a_moving_base() -> None:
    def chain() -> Urdf:
        return dog((THIGH, SHANK), hips={"a": (0, 0, 0)})

    assert found_legs(chain()) == {"leg": "a_thigh_joint"}
    unnamed = str(nameless(chain())[0])
    robot = qd.load(unnamed)
    assert robot.feet == () and "reaches a score of 0.20; best choice: leg: leg from" in verdict(robot)
    assert qd.load(unnamed, legs="leg").feet == ("leg",)
    hopper = qd.load(str(nameless(chain().under("odom", "floating"))[0]))
    assert hopper.feet == ("leg",) and warned(hopper, "the legs are uncertain, because the score is low")
    arm = chain().rename(lambda name: name.replace("thigh", "shoulder").replace("shank", "elbow").replace("foot", "x"))
    assert qd.load(str(arm.under("odom", "floating"))).feet == ()


def planar(
    plan: tuple[Segment, ...], hips: dict[str, tuple[float, float, float]], base: str = "xzy", mass: float = 0.0
) -> Urdf:
    """Legs below a trunk that two slides and a hinge of the file move."""
    urdf = dog(plan, hips=hips)
    names = ["ground", *(f"ground_{axis}" for axis in base[:2]), "trunk"]
    for name in names[:-1]:
        urdf.add_link(name, mass, size=0.01)
    for k, (parent, child) in enumerate(itertools.pairwise(names)):
        axis = tuple(int(base[k] == each) for each in "xyz")
        kind = "revolute" if k == 2 else "prismatic"
        urdf.add_joint(f"base_{k}", kind, parent, child, (0, 0, 0), axis=axis, limit=(-2.0, 2.0))
    return urdf


def test_legs_below_a_planar_base_of_the_file() -> None:
    hips = {"a": (-0.2, 0.0, 0.0), "b": (0.2, 0.0, 0.0)}
    robot = qd.load(str(planar((THIGH, SHANK), hips)), allow_massless=True)
    assert first_joints(robot) == {"F": "b_thigh_joint", "B": "a_thigh_joint"} and robot.root == "fixed"
    assert np.ptp(feet_at(robot, robot.q_home)[:, 2]) < 1e-9
    light = qd.load(str(planar((THIGH, SHANK), hips, mass=1e-3)))
    assert first_joints(light) == first_joints(robot) and light.root == "fixed"
    assert found_legs(planar((THIGH, SHANK), hips, mass=5.0)) == {}
    together = {"left": (0.0, 0.0, 0.0), "other": (0.0, 0.0, 0.0)}
    assert found_legs(planar((THIGH, SHANK), together)) == {"L": "left_thigh_joint", "R": "other_thigh_joint"}
    assert found_legs(planar((THIGH, SHANK), {"right": (0, 0, 0), "x": (0, 0, 0)}))["L"] == "x_thigh_joint"
    assert found_legs(planar((THIGH, SHANK), {"a": (0, 0, 0)})) == {"leg": "a_thigh_joint"}
    for base in ("xyz", "xyx", "xzz"):  # not in the sagittal plane: a cart, and slides without their normal
        assert found_legs(planar((THIGH, SHANK), hips, base)) == {}


def test_lying_biped_is_reported_as_rotated() -> None:
    urdf = humanoid().rename(lambda name: name.replace("aL", "left_leg_").replace("aR", "right_leg_"))
    lying = qd.load(str(urdf.turn_base_by(pin.rpy.rpyToMatrix(*TURNS["y"]).T)))
    found = next(f for f in lying.report.warnings if "the base frame is rotated" in f.reason)
    assert "a biped whose vertical axis is y, not z" in found.reason and lying.feet == ()


@pytest.mark.parametrize(("effort", "placeholder"), [(1.0, True), (20.0, False), (0.0, False), (math.inf, False)])
def test_effort_limits_too_low_for_the_weight_are_reported(effort: float, placeholder: bool) -> None:
    joints = qd.load(str(dog())).joint_names
    robot = qd.load(str(dog()), limits={name: {"effort": effort} for name in joints})
    assert (
        warned(robot, f"the effort limits of the legs, {effort:g} N m at most, seem to be placeholders") == placeholder
    )


def test_robot_without_limbs_of_several_joints_says_why_it_has_no_legs() -> None:
    robot = qd.load(str(dog((THIGH,))))
    reasons = [f.reason for f in robot.report if f.where.element == "legs"]
    assert robot.feet == () and len(reasons) == 1
    assert reasons[0].startswith("no legs: no limb on the trunk is a chain of 2 to 7 joints")


REAL = {
    "go2_description/urdf/go2.urdf": ("FL_hip_joint", "FR_hip_joint", "RL_hip_joint", "RR_hip_joint"),
    "solo_description/robots/solo.urdf": ("FL_HFE", "FR_HFE", "HL_HFE", "HR_HFE"),
    "centauro_description/urdf/centauro.urdf": ("hip_yaw_1", "hip_yaw_2", "hip_yaw_3", "hip_yaw_4"),
    "g1_description/urdf/g1_29dof_rev_1_0.urdf": ("left_hip_pitch_joint", "right_hip_pitch_joint"),
    "bolt_description/robots/bolt.urdf": ("FL_HAA", "FR_HAA"),
    "talos_data/robots/talos_reduced.urdf": ("leg_left_1_joint", "leg_right_1_joint"),
    "baxter_description/urdf/baxter.urdf": (),
    "pr2_description/urdf/pr2.urdf": (),
}


@pytest.mark.parametrize("path", others_slow(REAL, [*REAL][:4]))
def test_legs_of_real_robots_are_recognized_without_names_and_mirrored(path: str) -> None:
    urdf, new = nameless(Urdf.parse(example_robot_folder() / path))
    for mimic in urdf.root.iter("mimic"):
        mimic.attrib["joint"] = new[mimic.attrib["joint"]]
    joints = [new[name] for name in REAL[path]]
    feet = FEET if len(joints) == 4 else ("L", "R")[: len(joints)]
    assert found_legs(urdf) == dict(zip(feet, joints, strict=True))
    mirrored = (
        [joint for pair in zip(joints[::2], joints[1::2], strict=True) for joint in reversed(pair)] if joints else []
    )
    assert found_legs(urdf.mirror()) == dict(zip(feet, mirrored, strict=True))


@pytest.mark.parametrize(
    ("path", "legs"),
    [
        ("icub_description/robots/icub_reduced.urdf", {"L": "l_hip_pitch", "R": "r_hip_pitch"}),
        ("romeo_description/urdf/romeo_small.urdf", {"L": "LHipYaw", "R": "RHipYaw"}),
        ("alex_description/urdf/alex_nub_hands.urdf", {}),
        ("baxter_description/urdf/baxter.urdf", {}),
    ],
)
def test_real_humanoids_have_two_legs_and_upper_bodies_none(path: str, legs: dict[str, str]) -> None:
    robot = qd.load(example_robot_folder() / path, allow_massless=True, repair=["inertia"])
    assert first_joints(robot) == legs
    assert ("other limbs: " in verdict(robot)) and "arm" in verdict(robot)
    assert warned(robot, "faces along -x") == ("icub" in path)


def test_names_classify_legs_arms_and_positions() -> None:
    for name in ("LF_HAA", "rleg_joint0", "lHipYaw", "thigh_fl", "LLEG_HIP_R", "front_left_foot"):
        assert classify_names([name]) == 1, name
    for name in ("l_shoulder", "RightWristYaw", "gripper_left", "robot_arm", "cart_to_pole"):
        assert classify_names([name]) == -1, name
    for name in ("linkes_Kniegelenk", "cadera_izquierda", "左前大腿", "hanche_arrière_gauche", "ushiro_ashi"):
        assert classify_names([name]) == 1, name
    for name in ("Schultergelenk", "codo_brazo", "épaule", "右肘"):
        assert classify_names([name]) == -1, name
    for name in ("base_footprint", "joint_3", "charm", "alarm", "panel"):
        assert classify_names([name]) == 0, name
    places = {
        "LF_HAA": (1, 1), "RH_KFE": (-1, -1), "hl.hx": (-1, 1), "front_right_knee": (1, -1),
        "motor_back_leftR": (-1, 1), "rl_calf": (-1, 1), "RR_hip": (-1, -1), "torso_to_abduct_fr_j": (1, -1),
        "l_hip_pitch": (0, 1), "8": (0, 0), "LLEG_HIP_R": (0, 1), "RHipYaw": (0, -1), "j_pelvis_l": (0, 1),
        "BL_HFE": (-1, 1), "MR_hip": (0, -1), "vl_knie": (1, 1), "HinterRechtsHuefte": (-1, -1),
        "pata_delantera_izquierda": (1, 1), "arrière_droite_cuisse": (-1, -1), "右后_膝": (-1, -1),
        "mae_hidari": (1, 1),
        "zampa_anteriore_sinistra": (1, 1), "perna_traseira_direita": (-1, -1),
    }  # fmt: skip
    assert positions_from_names({name: [name] for name in places}) == places
    # "HR" is a joint that rolls the hip here, not a right hind leg.
    assert positions_from_names({"a": ["LL_HR", "LL_KFE"], "b": ["LR_HR", "LR_KFE"]})["a"] == (0, 0)
