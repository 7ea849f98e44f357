"""Recognition of legs and of the forward direction: four small files, and the kinds of robot that they represent."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
import urdf_text
from hypothesis import given, settings
from hypothesis import strategies as st
from raising import raises
from slow_parameters import others_slow
from urdf_editing import CORNERS, FEET, HIP, SHANK, THIGH, Segment, Urdf, X, Y, Z, dog
from urdf_text import collision, inertial

import quaddyn as qd
from quaddyn.locomotion.morphology import Morphology
from quaddyn.robot.bodies import merge_fixed_links
from quaddyn.robot.catalogue import example_robot_folder
from quaddyn.robot.leg_recognition import classify_names, positions_from_names, recognize_legs
from quaddyn.robot.limbs import find_limbs
from quaddyn.robot.saving import from_record, to_record
from quaddyn.urdf.reader import parse

CASES = Path(__file__).parent / "cases"
BACKWARD = [[-1, 0, 0], [0, -1, 0], [0, 0, 1]]


def case(name: str) -> Urdf:
    return Urdf.parse(CASES / name / "robot.urdf")


def warned(robot: qd.Robot, words: str) -> bool:
    return any(words in str(finding) for finding in robot.report.warnings)


def verdict(robot: qd.Robot) -> str:
    """The finding on legs in the validation report."""
    return next(f.reason for f in robot.report if f.where.element == "legs" and "score" in f.reason)


def lowest_points(robot: qd.Robot) -> np.ndarray:
    """(feet,) heights of the lowest points of the feet at home [m]."""
    s = qd.Dynamics(robot).update(robot.q_home, np.zeros(robot.nv))
    return np.array([s.placement(name).translation[2] - leg.foot.radius for name, leg in robot.legs.items()])


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
    np.testing.assert_allclose(lowest_points(robot), 0.0, rtol=0, atol=1e-9)
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
    np.testing.assert_allclose(lowest_points(robot), 0.0, atol=1e-9)


def test_quadruped_with_front_left_right_and_rear_leg_stands() -> None:
    robot = qd.load(CASES / "quadruped_plus" / "robot.urdf")
    assert robot.root == "free"
    assert first_joints(robot) == {"F": "front_yaw", "L": "left_yaw", "R": "right_yaw", "B": "rear_yaw"}
    np.testing.assert_allclose(lowest_points(robot), 0.0, rtol=0, atol=1e-9)
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
        urdf, new = nameless(case(name), seed)
        assert found_legs(urdf) == {leg: new[joint] for leg, joint in legs.items()}


def test_base_frame_determines_the_heading_without_names() -> None:
    urdf, new = nameless(case("quadruped_backwards"))
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
    assert np.abs(lowest_points(robot)).max() < 1e-9


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
        assert leg.foot.radius == 0.015 and leg.foot.offset.tolist() == [0.02, 0.0, -0.035]
    assert np.abs(lowest_points(robot)).max() < 1e-9
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


def test_eight_legs_are_not_a_quadruped_and_doubled_chains_are_uncertain() -> None:
    rows = {f"{k}{side}": (0.3 - 0.2 * k, y, 0.0) for k in range(4) for side, y in (("L", 0.15), ("R", -0.15))}
    assert qd.load(str(dog(hips=rows))).feet == ()
    halves = {f"{leg}{k}": (x, y * (1.0 + 0.3 * k), z) for leg, (x, y, z) in CORNERS.items() for k in (0, 1)}
    robot = qd.load(str(dog((THIGH, SHANK), hips=halves)))
    assert set(robot.feet) == set(FEET) and warned(robot, "the legs are uncertain")


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
    assert np.ptp(lowest_points(robot)) < 1e-9
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
