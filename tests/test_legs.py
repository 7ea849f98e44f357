"""Legs, feet and the home stance are found from geometry, on real quadrupeds and on edited URDFs."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
import urdf_editing
import urdf_text
from raising import raises
from slow_parameters import others_slow
from urdf_editing import CORNERS, FEET, HIP, PLAIN, SHANK, THIGH, LegNames, Segment, Urdf, X, Y, Z, dog, leg_names
from urdf_text import collision, inertial

import quaddyn as qd
from quaddyn.robot.catalogue import example_robot_folder
from quaddyn.robot.foot_geometry import find_foot_sphere, is_wheel
from quaddyn.robot.limbs import find_limbs, leg_forward_and_left
from quaddyn.robot.stance import stance


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
@pytest.mark.parametrize("seed", others_slow([0, 1], [0]))
def test_names_and_order_of_the_file_do_not_matter(
    name: str, seed: int, quadruped_files: Callable[[str], Urdf]
) -> None:
    urdf = quadruped_files(name)
    every = [x.attrib["name"] for x in (*urdf.links, *urdf.joints)]
    shuffled = np.random.default_rng(seed).permutation(len(every))
    new = {n: f"n{k}" for n, k in zip(every, shuffled, strict=True)}
    plain = qd.load(str(quadruped_files(name)))
    robot = qd.load(str(urdf.rename(new.__getitem__).shuffle(seed)))
    assert_standing_legs(robot, leg_names(name), new.__getitem__)
    for old in plain.joint_names:
        a, b = plain.configuration_index(old), robot.configuration_index(new[old])
        assert plain.q_home[a] == pytest.approx(robot.q_home[b], abs=1e-9)


@pytest.mark.parametrize("name", MACHINES)
def test_legs_with_continuous_joints_stand(name: str, quadruped_files: Callable[[str], Urdf]) -> None:
    urdf = quadruped_files(name)
    legs = leg_names(name)
    for leg in legs.values():
        for joint in leg.joints:
            urdf.unlimit(joint)
    robot = qd.load(str(urdf))
    assert robot.nq == 7 + 2 * sum(len(leg.joints) for leg in legs.values())
    assert_standing_legs(robot, legs)


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
    assert robot.feet == FEET
    assert_level(robot, robot.q_home)
    assert_inside_limits(robot, robot.q_home)
    assert_bent(robot, robot.q_home)
    assert_balanced(robot, robot.q_home)


@pytest.mark.parametrize("name", ["small_quadruped", "anymal_b", "solo8"])
def test_base_frame_may_face_along_y(name: str, quadruped_files: Callable[[str], Urdf]) -> None:
    assert_standing_legs(qd.load(str(quadruped_files(name).turn_base(math.pi / 2))), leg_names(name))


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
    assert_level(robot, robot.q_home)
    assert_balanced(robot, robot.q_home)
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


@pytest.mark.parametrize(
    "plan",
    [PLAIN, TWO, ANKLE, YAW, PITCH_FIRST, WHEEL, BENT],
    ids=["roll-pitch-knee", "hip-knee", "ankle", "yaw-roll-pitch-knee", "pitch-roll-knee", "wheel", "bent at zero"],
)
def test_legs_of_other_kinematic_structure_stand(plan: tuple[Segment, ...]) -> None:
    robot = qd.load(str(dog(plan)))
    assert_standing_legs(robot, expected_legs(plan))
    assert all(leg.n == len(plan) for leg in robot.legs.values())


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
def test_wheel_has_the_radius_of_its_shape_or_of_a_disc_with_its_inertia(shape: str, guess: str) -> None:
    mass, radius = 0.5, 0.08
    disc = inertial(mass, moments=f"1e-3 {0.5 * mass * radius**2} 1e-3")
    wheel = urdf_text.link("w", disc, collision(shape) if shape else "")
    robot = qd.load(urdf_text.urdf(urdf_text.link("a"), wheel, urdf_text.joint("j", "a", "w", kind="continuous")))
    found = find_foot_sphere(robot.bodies[-1])
    assert found.radius == pytest.approx(radius) and guess in found.guess


@pytest.mark.parametrize(("inertia", "balanced"), [("0.01", True), ("1", False)])
def test_inertia_larger_than_the_shapes_does_not_make_a_bar_a_wheel(inertia: str, balanced: bool) -> None:
    com = "0.004 0 0" if balanced else "0.05 0 0"
    bar = urdf_text.link("w", inertial(1.0, com, float(inertia)), collision('box size="0.2 0.01 0.02"', com))
    robot = qd.load(urdf_text.urdf(urdf_text.link("a"), bar, urdf_text.joint("j", "a", "w", kind="continuous")))
    assert is_wheel(robot.bodies[-1]) == balanced


@pytest.mark.parametrize("plan", [SLIDE, SLIDE_TWO], ids=["roll-pitch-slide", "pitch-slide"])
def test_legs_with_sliding_shanks_stand(plan: tuple[Segment, ...]) -> None:
    robot = qd.load(str(dog(plan)))
    assert_legs(robot, expected_legs(plan))
    assert_level(robot, robot.q_home)
    assert_inside_limits(robot, robot.q_home)
    assert_balanced(robot, robot.q_home)


@pytest.mark.parametrize("kind", ["continuous", "revolute"])
def test_legs_without_position_limits_stand(kind: str) -> None:
    plan = tuple(dataclasses.replace(s, limit=None, kind=kind) for s in PLAIN)
    assert_standing_legs(qd.load(str(dog(plan))), expected_legs(plan))


def test_front_and_rear_legs_may_differ_in_length() -> None:
    long = (HIP, *(dataclasses.replace(s, to=(0.0, 0.0, -0.27)) for s in (THIGH, SHANK)))
    assert_standing_legs(qd.load(str(dog({"FL": PLAIN, "FR": PLAIN, "RL": long, "RR": long}))), expected_legs(PLAIN))


@pytest.mark.parametrize("up", [0.08, -0.08])
def test_hips_may_sit_at_different_heights(up: float) -> None:
    hips = {k: (x, y, up if k[0] == "R" else 0.0) for k, (x, y, _) in CORNERS.items()}
    assert_standing_legs(qd.load(str(dog(hips=hips))), expected_legs(PLAIN))


@pytest.mark.parametrize("limit", [(-1.6, -1.45), (-0.9, -0.8), (-2.5, -2.2)])
def test_legs_bend_to_match_a_leg_with_tight_limits(limit: tuple[float, float]) -> None:
    tight = (HIP, THIGH, dataclasses.replace(SHANK, limit=limit))
    assert_standing_legs(qd.load(str(dog({**dict.fromkeys(FEET, PLAIN), "RL": tight}))), expected_legs(PLAIN))


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


@pytest.mark.parametrize("part", ["roll", "knees"])
def test_axes_may_be_tilted(part: str) -> None:
    c, s = math.cos(0.17), math.sin(0.17)
    if part == "roll":
        plan = (dataclasses.replace(HIP, axis=(c, 0, s)), THIGH, SHANK)
    else:
        plan = (HIP, *(dataclasses.replace(x, axis=(0, c, s)) for x in (THIGH, SHANK)))
    assert_standing_legs(qd.load(str(dog(plan))), expected_legs(plan))


@pytest.mark.parametrize("place", [(0.5, 0, 0.1), (-0.45, 0, 0.1), (0, 0.08, 0.1)], ids=["head", "tail", "left"])
def test_home_stance_balances_an_added_load(place: tuple[float, float, float]) -> None:
    robot = qd.load(str(dog().add_link("load", 8.0).add_joint("bolt", "fixed", "trunk", "load", place)))
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
    assert_level(robot, robot.q_home)
    assert_inside_limits(robot, robot.q_home)
    assert_balanced(robot, robot.q_home)


def test_legs_with_continuous_hips_do_not_cross() -> None:
    # A leg rotated by half a turn about its roll or yaw joint also reaches the ground, but on the wrong side.
    plan = tuple(dataclasses.replace(s, limit=None, kind="continuous") for s in YAW)
    robot = qd.load(str(dog(plan)))
    feet = dict(zip(robot.legs, feet_at(robot, robot.q_home), strict=True))
    assert feet["FL"][1] > 0.06 > -0.06 > feet["FR"][1]
    assert feet["RL"][1] > 0.06 > -0.06 > feet["RR"][1]


def test_hips_may_stand_close_to_each_other() -> None:
    narrow = {k: (3.0 * x, y / 2, z) for k, (x, y, z) in CORNERS.items()}
    assert_standing_legs(qd.load(str(dog(hips=narrow))), expected_legs(PLAIN))


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
EXTRAS: dict[str, Callable[[Urdf], Urdf]] = {
    "lidar": lambda u: with_chain(u, "lidar", (0.0, 0, 0.1), Segment(Z, (0, 0, 0.03), None, "continuous")),
    "tail of one": lambda u: with_chain(u, "tail", (-0.22, 0, 0.02), *TAIL[:1]),
    "tail of two": lambda u: with_chain(u, "tail", (-0.22, 0, 0.02), *TAIL[:2]),
    "tail of three": lambda u: with_chain(u, "tail", (-0.22, 0, 0.02), *TAIL),
    "head of two": lambda u: with_chain(u, "head", (0.22, 0, 0.05), Segment(Z, (0, 0, 0.05)), Segment(Y, (0.1, 0, 0))),
    "two ears": lambda u: with_chain(
        with_chain(u, "lear", (0.2, 0.04, 0.1), Segment(Y, (0, 0, 0.05)), Segment(Y, (0, 0, 0.05))),
        "rear",
        (0.2, -0.04, 0.1),
        Segment(Y, (0, 0, 0.05)),
        Segment(Y, (0, 0, 0.05)),
    ),
    "arm": lambda u: with_chain(u, "arm", (0.12, 0, 0.1), *ARM),
    "arm with gripper": lambda u: (
        with_chain(u, "arm", (0.12, 0, 0.1), *ARM)
        .add_link("left_finger", 0.02, size=0.02)
        .add_joint("left", "prismatic", "arm5", "left_finger", (0.04, 0.01, 0), axis=Y, limit=(0.0, 0.03))
        .add_link("right_finger", 0.02, size=0.02)
        .add_joint("right", "prismatic", "arm5", "right_finger", (0.04, -0.01, 0), axis=Y, limit=(-0.03, 0.0))
    ),
    "two arms like legs": lambda u: with_chain(
        with_chain(u, "larm", (0.2, 0.06, 0.1), *ARM_LIKE_LEG), "rarm", (0.2, -0.06, 0.1), *ARM_LIKE_LEG
    ),
    "two arms amidships": lambda u: with_chain(
        with_chain(u, "larm", (0.0, 0.06, 0.1), *ARM_LIKE_LEG), "rarm", (0.0, -0.06, 0.1), *ARM_LIKE_LEG
    ),
    "two arms": lambda u: with_chain(with_chain(u, "larm", (0.2, 0.06, 0.1), *ARM), "rarm", (0.2, -0.06, 0.1), *ARM),
}


@pytest.mark.parametrize("extra", EXTRAS)
def test_tails_arms_and_sensors_are_not_legs(extra: str) -> None:
    assert_standing_legs(qd.load(str(EXTRAS[extra](dog()))), expected_legs(PLAIN))


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
def example(path: str, *, mimic: bool = True) -> qd.Robot:
    return qd.load(example_robot_folder() / path, mimic=mimic)


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
    robot = example(path)
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
    assert example(path, mimic=False).feet == ()


def test_hexapod_has_six_legs() -> None:
    hips = {f"{row}{side}": (x, y, 0.0) for row, x in zip("FMR", (0.3, 0.0, -0.3), strict=True) for side, y in
            (("L", 0.1), ("R", -0.1))}  # fmt: skip
    robot = qd.load(str(dog(hips=hips)))
    assert robot.feet == ("FL", "FR", "ML", "MR", "RL", "RR")
    assert_level(robot, robot.q_home)
    assert_inside_limits(robot, robot.q_home)


def test_robot_with_two_legs_is_a_biped() -> None:
    robot = qd.load(str(dog(hips={"FL": (0, 0.1, 0), "FR": (0, -0.1, 0)})))
    assert robot.feet == ("L", "R")
    assert robot.legs["L"].foot.frame == "FL_foot"
    assert_level(robot, robot.q_home)


# -- stance by height -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["small_quadruped", "go2", "anymal_c", "hyq", "solo8"])
@pytest.mark.parametrize("share", [0.75, 0.9, 1.0, 1.1])
def test_stance_has_the_requested_height(name: str, share: float) -> None:
    robot = load(name)
    height = share * float(robot.q_home[2])
    q = stance(robot, height=height)
    assert q[2] == pytest.approx(height, abs=1e-12)
    assert_level(robot, q)
    assert_inside_limits(robot, q)
    assert_balanced(robot, q)


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
