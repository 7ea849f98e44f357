"""The small inputs of `tests/cases`, each with the result that its README states."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
from raising import raises
from urdf_text import inertial
from xacro_stand_in import provide_xacro

import quaddyn as qd
from quaddyn.locomotion import LocomotionController

CASES = Path(__file__).parent / "cases"


def test_mesh_uris_are_resolved_relative_to_their_package() -> None:
    for file in ("parent.urdf", "triple.urdf"):
        robot = qd.load(CASES / "mesh_uris" / "pk" / "urdf" / file)
        assert [leg.foot.radius for leg in robot.legs.values()] == pytest.approx([0.02] * 4)
        assert not any("foot.obj" in finding.reason for finding in robot.report.warnings)
        assert qd.load(CASES / "mesh_uris" / "pk" / "urdf" / file, strict=True).q_home[2] == robot.q_home[2]


def test_xacro_find_resolves_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    provide_xacro(monkeypatch)
    file = CASES / "xacro_find" / "pk" / "urdf" / "robot.xacro"
    for packages in ((), (CASES / "xacro_find",), (CASES / "xacro_find" / "pk",)):
        robot = qd.load(file, packages=packages)
        assert robot.tree.joints_by_name["j"].child == "b" and robot.mass == 1.0
    (tmp_path / "macros.xacro").write_text('<robot name="r"/>', encoding="utf-8")
    with pytest.raises(qd.ModelError, match=r"no <link>; if it only defines macros, load the file that includes it"):
        qd.load(tmp_path / "macros.xacro")


def test_invalid_visual_elements_are_warnings() -> None:
    folder = CASES / "appearance_refuses"
    plain = qd.Dynamics(qd.load(folder / "plain.urdf")).crba([0.3])
    assert plain == pytest.approx(np.array([[0.01]]))
    for file in sorted(folder.glob("*.urdf")):
        robot = qd.load(file)
        assert qd.Dynamics(robot).crba([0.3]) == pytest.approx(plain)
        known = qd.load(folder / "plain.urdf").report.warnings
        new = [w for w in robot.report.warnings if w.reason not in {k.reason for k in known}]
        assert len(new) == {"plain": 0, "scale1": 2}.get(file.stem, 1), new
        if file.stem == "point_contact":
            raises(qd.ModelError, r"of size 0|radius 0", qd.load, file, strict=True)
        else:
            qd.load(file, strict=True)


def test_tags_of_other_tools_are_ignored_with_a_note() -> None:
    robot = qd.load(CASES / "foreign_tags" / "robot.urdf", strict=True)
    assert not robot.report.warnings
    (note,) = [f for f in robot.report if "ignored, because only other tools" in f.reason]
    assert all(tag in note.reason for tag in ("<ros2_control>", "<sensor>", "<mujoco>", "<material>"))


def test_unknown_tags_and_default_namespaces_are_passed_over_but_not_misspelled_tags() -> None:
    text = (CASES / "root_joint_name" / "robot.urdf").read_text(encoding="utf-8")
    head, tag, rest = text.partition("<robot")
    name, end, rest = rest.partition(">")
    strange = "<webots><link/></webots><made_up_by_a_tool/>"
    file = f"{head}<!-- <robot> -->{tag} xmlns='http://drake.mit.edu'{name}{end}{strange}{rest}"
    robot = qd.load(file, strict=True)
    (note,) = [f for f in robot.report if "ignored, because only other tools" in f.reason]
    assert "<webots>" in note.reason and "<made_up_by_a_tool>" in note.reason
    with pytest.raises(qd.ModelError, match=r"unknown element <joit> in <robot>"):
        qd.load(file.replace("made_up_by_a_tool", "joit"), strict=True)
    with pytest.raises(qd.ModelError, match=r"has no mass; .*<inertal> in <link> is ignored: is it misspelled\?"):
        qd.load(file.replace("inertial>", "inertal>"))


def test_link_with_mass_above_a_floating_joint_raises_a_warning() -> None:
    text = (CASES / "quadruped_backwards" / "robot.urdf").read_text(encoding="utf-8")
    joint = '<joint name="float" type="floating"><parent link="ground"/><child link="trunk"/></joint>'
    for body in (inertial(), ""):
        robot = qd.load(text.replace("</robot>", f'<link name="ground">{body}</link>{joint}</robot>'))
        assert robot.root == "free" and robot.nv == qd.load(text).nv + 6 * bool(body)
        assert any("'ground' has a mass and moves freely" in w.reason for w in robot.report.warnings) is bool(body)


def test_limits_in_degrees_raise_a_warning() -> None:
    robot = qd.load(CASES / "limits_in_degrees" / "robot.urdf")
    (warning,) = [w for w in robot.report.warnings if "degrees" in w.reason]
    assert "FL_hip_joint" in warning.reason and "12 joints" in warning.reason and "radians" in warning.advice


def test_dimensions_in_millimeters_raise_a_warning() -> None:
    (warning,) = qd.load(CASES / "millimetres" / "robot.urdf").report.warnings
    assert "millimeters" in warning.advice and "reaches 469 m" in warning.reason


@pytest.mark.parametrize(
    ("old", "new", "names", "unit"),
    [
        (r'(RL_calf"/><origin xyz="0 0 )-0.2', r"\g<1>-200", "joint 'RL_calf_joint' is 200 m", "millimeters"),
        (r'(<sphere radius=")[^"]*', r"\g<1>22", "shape of link 'FL_foot' is 22 m", "centimeters or inches"),
        (
            r'(name="\w\w_calf".*?<mass value=")0.2',
            r"\g<1>200",
            "FL_calf, FR_calf, RL_calf, RR_calf",
            "masses .* grams",
        ),
        (
            r'(RR_thigh"/><origin xyz="0 )-?0.08',
            r"\g<1>-8",
            "origin of joint 'RR_thigh_joint' is at 8 m",
            "another unit",
        ),
        (
            r'(RR_thigh"><inertial><origin xyz="0 0 )-0.1',
            r"\g<1>-10",
            "center of mass of body 'RR_thigh'",
            "another unit",
        ),
        (r'(<sphere radius=")[^"]*', r"\g<1>2", "feet FL, FR, RL, RR is 2 m", "seems to be in millimeters"),
        (r'(<sphere radius=")[^"]*', r"\g<1>2e-5", "feet FL, FR, RL, RR is 2e-05 m", "meters twice"),
        (r'(i[xyz][xyz]="0\.\d+)"', r'\g<1>e6"', "moved by the root", "kg mm.2"),
    ],
    ids=["one origin", "feet", "calves", "hip", "thigh", "large feet", "small feet", "inertias"],
)
def test_wrong_units_in_a_part_of_the_file_are_located(old: str, new: str, names: str, unit: str) -> None:
    text, count = re.subn(old, new, (CASES / "quadruped_backwards" / "robot.urdf").read_text(encoding="utf-8"))
    assert count
    try:
        said = " ".join(f"{w.reason}; {w.advice}" for w in qd.load(text).report.warnings)
    except qd.ModelError as error:
        said = str(error)
    assert re.search(names, said) and re.search(unit, said), said


def test_loop_with_a_massless_rod_is_solved() -> None:
    file = CASES / "loop_massless_rod" / "robot.urdf"
    for options in ({}, {"allow_massless": True}):
        robot = qd.load(file, **options)
        assert robot.actuated == ("motor",)
        assert qd.Dynamics(robot).crba([0.3]).item() == pytest.approx(0.002871, abs=5e-7)
    assert qd.cross_check(robot, samples=5).passed
    raises(qd.ModelError, "joint 'pin'", qd.load, file, loops=False, allow_massless=True)


def test_wheel_radius_without_mesh_is_assumed_with_a_warning() -> None:
    robot = qd.load(CASES / "wheels_of_dae" / "robot.urdf")
    (warning,) = [w for w in robot.report.warnings if "is assumed, not read" in w.reason]
    assert "FL, FR, RL, RR" in warning.reason and "'wheel.dae' is not found" in warning.reason
    for (
        leg
    ) in robot.legs.values():  # wheel about the center of mass on the axle, with the radius of a disc of its inertia
        assert np.abs(leg.foot.offset) == pytest.approx([0.0, 0.05, 0.0])
        assert leg.foot.radius == pytest.approx(np.sqrt(2.0 * 0.001 / 0.6))
    raises(qd.ModelError, "strict=True", qd.load, CASES / "wheels_of_dae" / "robot.urdf", strict=True)


def test_driven_wheels_are_rejected_by_locomotion() -> None:
    robot = qd.load(CASES / "wheels_trot" / "robot.urdf", strict=True)
    assert {leg.foot.radius for leg in robot.legs.values()} == {0.07}
    raises(qd.ArgumentError, r"does not support wheels.*FL_wheel_joint.*type=\"fixed\"", LocomotionController, robot)
    text = (CASES / "wheels_trot" / "robot.urdf").read_text(encoding="utf-8")
    held = qd.load(text.replace('type="continuous"', 'type="fixed"'))
    assert [leg.foot.radius for leg in held.legs.values()] == pytest.approx([0.07] * 4)
    LocomotionController(held)


def test_spherical_joint_has_the_dynamics_of_a_ball_joint() -> None:
    body = inertial(2, "0.02 -0.1 0.05", "0.02 0.03 0.04", "0.001 0 0.002")
    text = (
        '<robot name="r"><link name="base"/><!-- a comment -->'
        '<joint name="ball" type="spherical"><parent link="base"/><child link="arm"/><origin xyz="0.1 0 0.3" '
        'rpy="0.2 0.1 0"/><axis xyz="0 0 1"/><limit effort="9" lower="0.2" upper="0.8" twist="0.3"/></joint>'
        f'<link name="arm">{body}</link></robot>'
    )
    robot = qd.load(text)
    assert robot.joint_names == ("ball_x", "ball_y", "ball_z") and list(robot.effort_limits) == [9.0] * 3
    (warning,) = [w for w in robot.report.warnings if "spherical" in w.reason]
    assert "ball" in warning.reason and qd.cross_check(robot, samples=2).passed
    x, y, z = angles = np.array([0.4, -0.7, 1.1])
    dynamics = qd.Dynamics(robot)
    q = robot.configuration(joints=dict(zip(robot.joint_names, angles, strict=True)))
    turn = pin.utils.rotate("x", x) @ pin.utils.rotate("y", y) @ pin.utils.rotate("z", z)
    at = dynamics.frame_placement(q, "arm")
    np.testing.assert_allclose(at.rotation, pin.rpy.rpyToMatrix(0.2, 0.1, 0.0) @ turn, atol=1e-15)
    body = robot.bodies[-1].inertial
    about_joint = pin.Inertia(body.mass, body.com, body.inertia).matrix()[3:, 3:]
    J = at.rotation.T @ dynamics.frame_jacobian(q, "arm")[3:]
    np.testing.assert_allclose(dynamics.crba(q), J.T @ about_joint @ J, atol=1e-14)
