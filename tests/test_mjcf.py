"""A robot loaded from MJCF is the same as in MuJoCo."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import re
from pathlib import Path
from typing import Any

import numpy as np
import pinocchio as pin
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from raising import raises
from slow_parameters import others_slow
from typer.testing import CliRunner
from urdf_editing import CORNERS, dog

import quaddyn as qd
from quaddyn.cli import app
from quaddyn.robot.saving import from_record, to_record
from quaddyn.simulation.mujoco_model import make_coordinate_map
from quaddyn.urdf.mjcf import import_mujoco, is_mjcf
from quaddyn.urdf.mjcf_document import rpy_from_rotation
from quaddyn.urdf.reader import rotation_from_rpy
from quaddyn.urdf.tree import Array, CylinderShape, MeshShape, SphereShape

mujoco = pytest.importorskip("mujoco")

LEG = """<body name="{n}_hip" pos="{x} {y} 0"><joint name="{n}_hx" axis="1 0 0" pos="0 .01 0"/>
<geom type="sphere" size=".03" mass=".5"/>
<body name="{n}_thigh" pos="0 {dy} 0"><joint name="{n}_hy" axis="0 1 0"/>
<geom type="capsule" fromto="0 0 0 0 0 -.2" size=".02" mass="1"/>
<body name="{n}_shank" pos="0 0 -.2"><joint class="knee" name="{n}_kn" axis="0 1 0" ref="-20"/>
<geom type="capsule" fromto="0 0 0 0 0 -.2" size=".01" mass=".2" contype="0" conaffinity="0" group="1"/>
<geom type="sphere" size=".02" pos="0 0 -.2" mass=".05" group="3"/></body></body></body>"""
FEET = {"FL": (0.2, 0.1), "FR": (0.2, -0.1), "RL": (-0.2, 0.1), "RR": (-0.2, -0.1)}
JOINTS = [f"{foot}_{joint}" for foot in FEET for joint in ("hx", "hy", "kn")]
QUADRUPED = (
    '<mujoco model="dog"><compiler angle="degree"/><default><joint armature=".01" damping=".2" frictionloss=".1" '
    'range="-90 90"/><default class="leg"><default class="knee"><joint range="-150 -10"/></default></default></default>'
    '<worldbody><geom type="plane" size="1 1 1"/><body name="trunk" pos="0 0 .4" childclass="leg"><freejoint/>'
    '<geom type="box" size=".2 .1 .05" mass="8"/><site name="imu" pos=".1 0 .02" euler="0 0 90"/>'
    + "".join(LEG.format(n=n, x=x, y=y, dy=0.7 * y) for n, (x, y) in FEET.items())
    + "</body></worldbody><actuator>"
    + "".join(f'<motor joint="{name}" gear="2" ctrlrange="-15 15"/>' for name in JOINTS)
    + "</actuator>{}</mujoco>"
)
ARM = """<mujoco><compiler angle="radian" eulerseq="zyx"/><worldbody>
<body name="base" pos=".1 .2 .3" axisangle="1 2 3 .7"><geom type="cylinder" size=".1 .05" mass="3"/>
<body name="shoulder" pos="0 0 .1" quat=".5 .1 -.3 .2"><joint name="x" axis="1 .2 0" pos=".1 .2 .3" ref=".4"
 armature=".1" damping="2" range="-1 2"/><joint name="y" axis="0 1 0" pos="0 0 -.1" armature=".2"/>
<joint name="s" type="slide" axis="0 .6 .8" ref=".2" range="-.3 .5"/>
<inertial pos=".01 .02 .03" quat=".9 .1 .2 .3" mass="2" diaginertia=".01 .02 .025"/>
<body name="fore" pos=".4 0 0" euler=".1 .2 1.5707963267948966"><joint name="z" axis="0 0 1" frictionloss=".3"/>
<geom type="ellipsoid" size=".1 .05 .04" pos=".1 0 0"/><geom type="box" size=".02 .03 .04" zaxis="1 1 0" density="500"/>
<body pos=".1 0 0"><joint type="hinge" axis="0 1 1"/><geom type="capsule" fromto="0 0 0 .1 .1 0" size=".02"/></body>
<body name="tool" pos="0 .1 .1" xyaxes="0 1 0 0 0 1"><geom size=".02" mass=".1"/></body></body></body></body>
</worldbody></mujoco>"""


def mujoco_dynamics(robot: qd.Robot, model: Any, q: Array, v: Array, a: Array) -> tuple[Array, Array]:
    """M (nv, nv) and inverse dynamics (nv,) with viscous friction by MuJoCo, in Pinocchio's coordinates."""
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)
    data = mujoco.MjData(model)
    free = model.njnt and model.jnt_type[0] == mujoco.mjtJoint.mjJNT_FREE
    way = make_coordinate_map(model, robot, root_joint=0 if free else "root_joint")
    way.to_mujoco(q, v, data.qpos, data.qvel)
    T = np.zeros((model.nv, robot.nv))  # qvel = T v
    for k, e in enumerate(np.eye(robot.nv)):
        way.to_mujoco(q, e, data.qpos.copy(), T[:, k])
    qacc = T @ a
    if free:  # the world's acceleration of the base's origin
        qacc[:3] += T[:3, :3] @ np.cross(v[3:6], v[:3])
    data.qacc = qacc
    mujoco.mj_inverse(model, data)
    full = np.zeros((model.nv, model.nv))
    for row, e in zip(full, np.eye(model.nv), strict=True):
        mujoco.mj_mulM(model, data, row, e)
    return T.T @ full @ T, T.T @ data.qfrc_inverse


@pytest.mark.parametrize("text", [QUADRUPED.replace("{}", ""), ARM], ids=["quadruped", "arm"])
def test_mass_matrix_and_inverse_dynamics_equal_mujoco(text: str) -> None:
    robot = qd.load(text)
    spec = mujoco.MjSpec.from_string(text)
    for joint in spec.joints:
        if joint.name or joint.type == mujoco.mjtJoint.mjJNT_FREE:
            continue
        joint.name = next(n for n in robot.model.names if n.endswith("_joint") and n.startswith("body_"))
    model = spec.compile()
    dynamics = qd.Dynamics(robot)
    rng = np.random.default_rng(0)
    for _ in range(3):
        q = pin.integrate(robot.model, robot.q_home, rng.uniform(-0.5, 0.5, robot.nv))
        v, a = rng.standard_normal((2, robot.nv))
        M, tau = mujoco_dynamics(robot, model, q, v, a)
        np.testing.assert_allclose(dynamics.crba(q), M, rtol=0.0, atol=1e-12 * np.abs(M).max())
        np.testing.assert_allclose(dynamics.rnea(q, v, a) + robot.damping * v, tau, atol=1e-12 * np.abs(tau).max())
    assert qd.cross_check(robot, samples=2).passed


def test_a_quadruped_has_its_limits_losses_legs_and_sites() -> None:
    robot = qd.load(QUADRUPED.replace("{}", ""))
    assert robot.root == "free" and set(robot.feet) == set(FEET) and robot.name == "dog"
    assert (robot.effort_limits == 30.0).all() and np.isinf(robot.velocity_limits).all()
    moving = slice(6, None)
    assert (robot.armature[moving] == 0.01).all() and (robot.damping[moving] == 0.2).all()
    assert (robot.friction[moving] == 0.1).all() and not robot.armature[:6].any()
    limits = robot.tree.joints_by_name["FL_kn"].limits
    np.testing.assert_allclose([limits.lower, limits.upper], np.deg2rad([-150.0, -10.0]))
    assert {leg.foot.radius for leg in robot.legs.values()} == {0.02}
    placement = qd.Dynamics(robot).frame_placement(robot.q_home, "imu")
    np.testing.assert_allclose(placement.translation - robot.q_home[:3], (0.1, 0.0, 0.02), atol=1e-15)
    shank = robot.tree.links_by_name["FL_shank"]
    assert len(shank.visuals) == len(shank.collisions) == 1
    assert not robot.report.warnings


BALL = (
    '<body name="upper" pos="0 0 1"><joint name="hip" type="ball" pos="0 .1 0"/><geom type="box" size=".1 .05 .2" '
    'pos=".1 0 -.2" mass="2"/><body name="lower" pos=".1 0 -.4"><joint name="knee" axis="0 1 0"/>'
    '<geom type="capsule" fromto="0 0 0 .1 0 -.4" size=".03" mass="1"/></body></body>'
)


def test_ball_joint_becomes_three_hinges_with_the_same_dynamics() -> None:
    pose = (0.8, 0.3, -0.4, 0.33, 0.5)
    text = scene(BALL, f'<keyframe><key name="home" qpos="{" ".join(map(str, pose))}"/></keyframe>')
    robot, model = qd.load(text), mujoco.MjModel.from_xml_string(text)
    assert robot.actuated[:3] == ("hip_x", "hip_y", "hip_z") and robot.nv == 4
    dynamics, data = qd.Dynamics(robot), mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    v = np.array([0.3, -1.2, 0.7, 2.0])
    data.qvel[:3] = dynamics.frame_velocity(robot.q_home, v, "upper", reference="local")[3:]
    data.qvel[3] = v[3]
    model.opt.enableflags |= int(mujoco.mjtEnableBit.mjENBL_ENERGY)
    mujoco.mj_forward(model, data)
    s = dynamics.update(robot.q_home, v)
    placement = s.placement("lower")
    np.testing.assert_allclose(placement.translation, data.body("lower").xpos, atol=1e-12)
    np.testing.assert_allclose(placement.rotation, data.body("lower").xmat.reshape(3, 3), atol=1e-12)
    assert 0.5 * v @ s.M @ v == pytest.approx(data.energy[1], rel=1e-10)
    assert qd.cross_check(robot, samples=2).passed


def test_saved_robot_and_rotated_robot_equal_the_original(tmp_path: Path) -> None:
    robot = qd.load(QUADRUPED.replace("{}", ""))
    again = from_record(to_record(robot))
    assert again.model == robot.model and (again.q_home == robot.q_home).all()
    turned = qd.load(QUADRUPED.replace("{}", ""), base=(0.0, 0.0, np.pi))
    assert turned.mass == pytest.approx(robot.mass)


HOME = '<keyframe><key name="home" qpos="1 2 .5 1 0 0 0 {}"/></keyframe>'


def test_the_keyframe_home_is_the_home_configuration() -> None:
    robot = qd.load(QUADRUPED.replace("{}", HOME.format("0 .9 -1.8 " * 4)))
    np.testing.assert_allclose(robot.q_home[7:], [0.0, 0.9, -1.8] * 4)
    moved = re.search(r"the base is moved by (\S+) m", str(next(f for f in robot.report if "keyframe" in f.reason)))
    assert moved is not None and float(moved[1]) == pytest.approx(robot.q_home[2] - 0.5, rel=1e-2)
    feet = qd.Dynamics(robot).update(robot.q_home, np.zeros(robot.nv))
    assert all(abs(feet.placement(foot).translation[2] - 0.02) < 1e-12 for foot in FEET)


@pytest.mark.parametrize(
    ("joints", "words"),
    [
        ("0 .9 -3 " * 4, "in it joint 'FL_kn' is at -3, outside"),
        ("0 .9 -1.8 " * 3 + "0 0 -1.8", "heights of the feet differ"),
    ],
)
def test_home_keyframe_without_a_valid_stance_is_ignored(joints: str, words: str) -> None:
    robot = qd.load(QUADRUPED.replace("{}", HOME.format(joints)))
    assert words in str(robot.report)
    np.testing.assert_array_equal(robot.q_home, qd.load(QUADRUPED.replace("{}", "")).q_home)


def scene(bodies: str, rest: str = "") -> str:
    return f"<mujoco><worldbody>{bodies}</worldbody>{rest}</mujoco>"


LINK = '<body name="{n}" pos="0 0 .1"><joint name="{n}j" axis="0 1 0"/><geom size=".1" mass="1"/>{inner}</body>'
CHAIN = LINK.format(n="a", inner=LINK.format(n="b", inner=LINK.format(n="c", inner="")))


@pytest.mark.parametrize(
    ("actuators", "efforts"),
    [
        ("", [np.inf] * 3),
        ('<motor joint="bj"/>', [np.inf]),
        ('<motor joint="bj" gear="-3" ctrlrange="-2 2"/>', [6.0]),
        ('<motor joint="bj" ctrlrange="-9 9" forcerange="-2 2"/>', [2.0]),
        ('<motor joint="bj" gear="5" forcerange="-2 1"/>', [5.0]),
        ('<general joint="bj" gainprm="4" ctrlrange="-2 2"/>', [8.0]),
        ('<position joint="bj" kp="9" ctrlrange="-2 2"/>', [np.inf]),
        ('<position joint="bj" kp="9" forcerange="-7 7"/><velocity joint="bj" kv="1" forcerange="-2 2"/>', [9.0]),
        ('<motor joint="aj" forcerange="-1 1"/><motor joint="cj" forcerange="-3 3"/>', [1.0, 3.0]),
    ],
)
def test_actuators_give_effort_limits(actuators: str, efforts: list[float]) -> None:
    robot = qd.load(scene(CHAIN, f"<actuator>{actuators}</actuator>"))
    np.testing.assert_array_equal(robot.effort_limits, efforts)


@pytest.mark.skipif(not hasattr(mujoco.MjModel, "nactuator"), reason="actuators have one control each before MuJoCo 4")
def test_actuators_with_several_controls_precede_motors() -> None:
    ball = '<body name="other"><joint name="ball" type="ball"/><geom size=".1" mass="1"/></body>'
    driven = '<orientation joint="ball" input="quat" kp="1"/><motor joint="bj" gear="-3" ctrlrange="-2 2"/>'
    robot = qd.load(scene(ball + CHAIN, f"<actuator>{driven}</actuator>"))
    assert dict(zip(robot.actuated, robot.effort_limits, strict=True))["bj"] == 6.0


def test_body_with_a_free_joint_and_most_joints_is_the_robot() -> None:
    moving = f'<body name="trunk"><freejoint/><geom size=".1" mass="1"/>{CHAIN}</body>'
    other = '<body name="other"><joint name="oj"/><geom size=".1" mass="1"/></body>'
    motors = "".join(f'<motor joint="{name}"/>' for name in ("aj", "bj", "oj"))
    robot = qd.load(scene(moving + other, f"<actuator>{motors}</actuator>"))
    assert robot.root == "free" and robot.actuated == ("aj", "bj")
    assert any("not part of the robot and left out: 'other'" in f.reason for f in robot.report.warnings)
    more = other.replace("<geom", '<joint name="ok" axis="1 0 0"/><joint name="ol" axis="0 1 0"/><geom')
    with pytest.raises(qd.ModelError, match="2 bodies attached to the world may be the robot"):
        qd.load(scene(moving + more, f"<actuator>{motors}</actuator>"))


def test_joint_force_limit_is_applied_to_actuators() -> None:
    text = scene(
        CHAIN.replace('"bj"', '"bj" actuatorfrcrange="-4 4"'), '<actuator><motor joint="bj" gear="9"/></actuator>'
    )
    np.testing.assert_array_equal(qd.load(text).effort_limits, [4.0])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            scene(CHAIN, '<tendon><fixed name="t" armature="1"><joint joint="aj" coef="1"/></fixed></tendon>'),
            '"t">: a tendon with inertia is not supported; remove its armature',
        ),
        (
            scene("".join(f'<body name="{n}"><freejoint/><geom size="1"/></body>' for n in "ab")),
            r"2 bodies attached to the world may be the robot \('a', 'b'\), .*; pass .* body=",
        ),
        (scene('<geom size="1"/>'), "has no <body>"),
        ("<mujoco><worldbod/></mujoco>", "MuJoCo rejects the file: .*unrecognized element"),
        (scene('<body><joint/></body>'), "MuJoCo rejects the file: .*mass and inertia of moving bodies"),
    ],
)  # fmt: skip
def test_features_without_urdf_equivalent_are_rejected(text: str, words: str) -> None:
    raises(qd.ModelError, words, qd.load, text)


def test_radians_read_as_degrees_raise_a_warning() -> None:
    text = QUADRUPED.format("").replace("-90 90", "-1.6 1.6").replace("-150 -10", "-2.6 -0.2").replace("-20", "-.3")
    (warning,) = [w for w in qd.load(text).report.warnings if "read as degrees" in w.reason]
    assert "12 revolute joints" in warning.reason and 'angle="radian"' in warning.advice
    assert not [w for w in qd.load(QUADRUPED.format("")).report.warnings if "read as degrees" in w.reason]


def test_body_selects_one_of_several_robots() -> None:
    arm = '<body name="arm"><geom size="1"/><body><joint axis="0 1 0"/><geom size="1" mass="3"/></body></body>'
    text = scene("".join(f'<body name="{n}"><freejoint/><geom size="1"/></body>' for n in "ab") + arm)
    robot = qd.load(text, body="b")
    assert (robot.root, robot.nv, robot.bodies[0].name) == ("free", 6, "b")
    assert qd.load(text, body="arm").nv == 1 and "left out: 'a', 'b'" in str(qd.load(text, body="arm").report)
    raises(qd.UnknownNameError, r"unknown body attached to the world 'c'.*a, b, arm", qd.load, text, body="c")
    raises(qd.ArgumentError, r"body='trunk': .* is not an MJCF", qd.load, "go2", body="trunk")


@pytest.mark.parametrize("left", [None, importlib.machinery.ModuleSpec("mujoco", None)], ids=["nothing", "namespace"])
def test_without_mujoco_the_message_says_what_to_install(
    left: importlib.machinery.ModuleSpec | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where an incomplete removal has left a namespace package."""
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: left if name == "mujoco" else find(name, *rest)
    )
    raises(qd.ModelError, r"<text>: MuJoCo, which reads MJCF files.*pip install 'quaddyn\[mujoco\]'", qd.load, ARM)
    raises(qd.QuaddynError, "MuJoCo is not installed", import_mujoco)


def test_forces_of_tendons_are_left_out_with_a_warning_and_their_joints_have_no_motor() -> None:
    fixed = '<tendon><fixed name="t"{}><joint joint="aj" coef="1"/><joint joint="bj" coef="1"/></fixed></tendon>'
    motors = '<actuator><motor name="grasp" tendon="t"/><motor joint="cj" ctrlrange="-3 3"/></actuator>'
    joints = [f'<body name="{n}"><joint name="{n}j"/><geom size="1"/></body>' for n in "abc"]
    plain = qd.load(scene("".join(joints)))
    robot = qd.load(scene("".join(joints), fixed.format(' stiffness="5" damping="1"') + motors))
    assert robot.actuated == ("cj",) and robot.effort_limits.tolist() == [3.0] and plain.nu == 3
    M = (qd.Dynamics(each).crba(each.q_home) for each in (robot, plain))
    np.testing.assert_array_equal(next(M), next(M))
    assert "actuators grasp are left out" in str(robot.report) and "aj, bj have no motor" in str(robot.report)
    assert "springs, damping of the tendons t are left out" in str(robot.report)
    with pytest.raises(qd.ModelError, match="tendon"):
        qd.load(scene("".join(joints), fixed.format(' stiffness="5"') + motors), strict=True)
    spatial = '<tendon><spatial name="s" stiffness="1"><site site="a"/><site site="b"/></spatial></tendon>'
    ball = '<body><joint name="hip" type="ball"/><geom size="1"/><site name="a"/><site name="b" pos="1 0 0"/></body>'
    assert "springs of the tendons s are left out" in str(qd.load(scene(ball, spatial)).report)


def test_passive_tendon_is_ignored_and_driven_tendon_limits_effort_of_coupled_joints() -> None:
    tendon = '<tendon><fixed name="t"><joint joint="aj" coef=".5"/><joint joint="bj" coef=".5"/></fixed></tendon>'
    assert qd.load(scene(CHAIN, tendon)).nv == 3
    limited = qd.load(scene(CHAIN, tendon.replace('name="t"', 'name="t" limited="true" range="-1 1"')))
    assert limited.nv == 3 and "limits of the tendons t are left out" in str(limited.report)
    tied = '<equality><joint joint1="bj" joint2="aj" polycoef=".1 2 0 0 0"/></equality>'
    driven = '<actuator><general tendon="t" forcerange="-8 8"/></actuator>'
    robot = qd.load(scene(CHAIN, tendon + tied + driven))
    assert robot.nv == 2 and robot.actuated == ("aj",)
    mimic = robot.tree.joints_by_name["bj"].mimic
    assert mimic is not None and (mimic.joint, mimic.multiplier, mimic.offset) == ("aj", 2.0, 0.1)
    np.testing.assert_allclose(robot.effort_limits, [8.0 * (0.5 + 2.0 * 0.5)])


FOUR_BARS = (
    '<body name="crank"><joint name="j1" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 0 0 .1" size=".01"/>'
    '<body name="rod" pos="0 0 .1"><joint name="j2" axis="0 1 0"/>'
    '<geom type="capsule" fromto="0 0 0 .3 0 0" size=".01"/></body></body>'
    '<body name="rocker" pos=".3 0 0"><joint name="j3" axis="0 1 0"/>'
    '<geom type="capsule" fromto="0 0 0 0 0 .1" size=".01"/></body>'
)


@pytest.mark.parametrize(
    "constraint",
    [
        '<connect name="pin" body1="rod" body2="rocker" anchor=".3 0 0"/>',
        '<connect name="pin" site1="one" site2="two"/>',
    ],
)
def test_connect_constraints_close_loops(constraint: str) -> None:
    bodies = FOUR_BARS.replace('name="j2" axis="0 1 0"/>', 'name="j2" axis="0 1 0"/><site name="one" pos=".3 0 0"/>')
    bodies = bodies.replace('name="j3" axis="0 1 0"/>', 'name="j3" axis="0 1 0"/><site name="two" pos="0 0 .1"/>')
    robot = qd.load(scene(f'<body name="frame"><geom size=".1"/>{bodies}</body>', f"<equality>{constraint}</equality>"))
    assert robot.nv == 1 and len(robot.loops) == 1
    assert qd.load(scene(bodies, f"<equality>{constraint}</equality>"), loops=False).nv == 3


def test_constraints_with_the_world_are_ignored_and_reported() -> None:
    text = scene(CHAIN, '<equality><weld name="hold" body1="c"/></equality>')
    assert 'name="hold">: the constraint is left out, because it closes a loop with the world' in str(
        qd.load(text).report
    )


TETRAHEDRON = "v 1 0 0\nv 2 0 0\nv 1 1 0\nv 1 0 3\nf 1 3 2\nf 1 4 3\nf 1 2 4\nf 2 3 4\n"


@pytest.mark.parametrize("weighed", [False, True])
@pytest.mark.parametrize(
    "mesh",
    ['scale="2 1 .5"', 'scale="2 1 .5" refpos=".3 .2 .1"', 'scale="2 2 2" refpos=".3 0 0" refquat=".5 .5 .1 .2"'],
)
def test_meshes_are_placed_as_in_mujoco(tmp_path: Path, mesh: str, weighed: bool) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "t.obj").write_text(TETRAHEDRON, encoding="utf-8")
    file = tmp_path / "scene.xml"
    inertial = "" if weighed else '<inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>'
    file.write_text(
        f'<mujoco><compiler meshdir="parts"/><asset><mesh name="m" file="t.obj" {mesh}/></asset><worldbody>'
        f'<body name="b"><joint/>{inertial}'
        '<geom type="mesh" mesh="m" pos=".1 .2 .3" quat=".3 .4 .5 .6"/></body></worldbody></mujoco>',
        encoding="utf-8",
    )
    link = qd.load(file).tree.links_by_name["b"]
    shape, model = link.visuals[0].shape, mujoco.MjModel.from_xml_path(str(file))
    assert isinstance(shape, MeshShape) and shape.path == tmp_path / "parts" / "t.obj" and len(link.collisions) == 1
    points = np.array([(1, 0, 0), (2, 0, 0), (1, 1, 0), (1, 0, 3)]) * shape.scale
    turn = np.zeros(9)
    mujoco.mju_quat2Mat(turn, model.geom_quat[0])
    expected = model.geom_pos[0] + model.mesh_vert @ turn.reshape(3, 3).T
    np.testing.assert_allclose(link.visuals[0].placement.apply(points), expected, atol=1e-6)  # single precision


@pytest.mark.parametrize("scale", ["1 2 2", "2 1 2", "2 2 1"])
def test_rotated_meshes_of_unequal_scale_are_left_out(tmp_path: Path, scale: str) -> None:
    (tmp_path / "t.obj").write_text(TETRAHEDRON, encoding="utf-8")
    file = tmp_path / "scene.xml"
    mesh = f'<mesh name="m" file="t.obj" scale="{scale}" refquat=".5 .5 .1 .2"/>'
    parts = '<joint/><inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/><geom type="mesh" mesh="m"/>'
    world = f'<worldbody><body name="b">{parts}</body></worldbody>'
    file.write_text(f"<mujoco><asset>{mesh}</asset>{world}</mujoco>", encoding="utf-8")
    assert not qd.load(file).tree.links_by_name["b"].visuals


def test_visual_mesh_may_be_missing_but_not_a_mesh_with_mass(tmp_path: Path) -> None:
    text = scene(CHAIN.replace('size=".1"', 'type="mesh" mesh="m"', 1), '<asset><mesh name="m" file="m.stl"/></asset>')
    file = tmp_path / "scene.xml"
    file.write_text(text, encoding="utf-8")
    raises(qd.ModelError, r'"m">: file=.m.stl.: .* not in the package roots, and MuJoCo .* of body .a.', qd.load, file)
    inertial = '<inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/><geom type="mesh"'
    file.write_text(text.replace('<geom type="mesh"', inertial), encoding="utf-8")
    assert "not in the package roots" in str(qd.load(file).report)


def test_files_are_opened_only_in_package_roots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own" / "deep").mkdir(parents=True)
    (tmp_path / "away.xml").write_text(scene(CHAIN), encoding="utf-8")
    (tmp_path / "own" / "near.xml").write_text('<mujoco><include file="deep/in.xml"/></mujoco>', encoding="utf-8")
    (tmp_path / "own" / "deep" / "in.xml").write_text(scene(CHAIN), encoding="utf-8")
    (tmp_path / "own" / "link.xml").symlink_to(tmp_path / "away.xml")
    for name, tag in (("include", '<include file="{}"/>'), ("model", '<asset><model name="m" file="{}"/></asset>')):
        file = tmp_path / "own" / f"{name}.xml"
        body = '<worldbody><attach model="m" body="a" prefix="p"/></worldbody>' if name == "model" else ""
        file.write_text(f"<mujoco>{tag.format('near.xml')}{body}</mujoco>", encoding="utf-8")
        assert qd.load(file).nv == 3
        for outside in ("../away.xml", str(tmp_path / "away.xml"), "link.xml"):
            file.write_text(f"<mujoco>{tag.format(outside)}{body}</mujoco>", encoding="utf-8")
            raises(qd.ModelError, "outside the package roots and is not opened", qd.load, file, strict=True)
            if outside == "../away.xml":
                (warning,) = [w for w in qd.load(file).report.warnings if "outside the package roots" in w.reason]
                assert outside in warning.reason and repr(str(tmp_path)) in warning.advice
            else:
                raises(qd.ModelError, "outside the package roots and is not opened", qd.load, file)
            robot = qd.load(file, packages=(tmp_path,))
            assert robot.nv == 3 and not robot.report.warnings
    file.write_text('<mujoco><include file="model.xml"/></mujoco>', encoding="utf-8")
    raises(qd.ModelError, "a second time", qd.load, file)


def test_images_are_not_needed_and_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assets = '<asset><texture name="t" type="2d" file="no.png"/><material name="m" texture="t" rgba="1 0 0 1"/>'
    assets += '<hfield name="h" file="no.png" size="1 1 1 1"/></asset><compiler settotalmass="6"/>'
    text = scene('<geom type="hfield" hfield="h"/>' + CHAIN.replace('size=".1"', 'size=".1" material="m"'), assets)
    monkeypatch.chdir(tmp_path)
    robot = qd.load(text)
    assert robot.tree.links_by_name["a"].visuals[0].rgba == (1.0, 0.0, 0.0, 1.0) and robot.mass == pytest.approx(6.0)
    assert not list(tmp_path.iterdir())


def test_bodies_that_are_not_part_of_the_robot_are_reported() -> None:
    ball = '<body name="ball"><freejoint/><geom size=".1"/></body><body name="table"><geom size=".1"/></body>'
    robot = qd.load(scene(ball + CHAIN, '<actuator><motor joint="aj"/></actuator>'))
    assert (
        robot.nv == 3
        and "2 bodies attached to the world are not part of the robot and left out: 'ball', 'table'"
        in str(robot.report)
    )
    sprung = qd.load(scene(CHAIN.replace('"bj"', '"bj" stiffness="3"'), '<option gravity="0 0 -1"/>'))
    assert "springs of 1 joints (bj)" in str(sprung.report) and "gravity=0.0 0.0 -1.0" in str(sprung.report)


@pytest.mark.parametrize("name", ["world", "a", "joint"])
def test_conflicting_names_are_made_unique(name: str) -> None:
    text = scene(CHAIN.replace("<geom", f'<site name="{name}"/><geom', 1).replace('"aj"', '"a"').replace('"cj"', '""'))
    assert qd.load(text).nv == 3


def test_mjcf_is_recognized_by_its_first_tag() -> None:
    mjcf = (ARM, b"\xef\xbb\xbf<?xml version='1.0'?>\n<!-- <robot> --><mujoco/>", " <mujoco\n model='a'/>")
    others = ("<robot><mujoco/></robot>", "<mujocoinclude/>", "<!-- <mujoco> --><robot/>", "", b"\0", " " * 100_000)
    assert all(map(is_mjcf, mjcf)) and not any(map(is_mjcf, others))


@settings(max_examples=50, deadline=None)
@given(
    st.floats(-3.1, 3.1),
    st.sampled_from([0.0, np.pi / 2, -np.pi / 2, np.pi / 2 - 1e-8, np.pi / 2 - 1e-12, 1.0]),
    st.floats(-3.1, 3.1),
)
def test_rpy_angles_reproduce_the_rotation(roll: float, pitch: float, yaw: float) -> None:
    rotation = rotation_from_rpy(roll, pitch, yaw)
    np.testing.assert_allclose(rotation_from_rpy(*rpy_from_rotation(rotation)), rotation, atol=1e-14)


def test_convert_writes_a_urdf_whose_meshes_are_found(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "t.obj").write_text(TETRAHEDRON, encoding="utf-8")
    text = scene(CHAIN.replace('size=".1"', 'type="mesh" mesh="t"', 1), '<asset><mesh file="t.obj"/></asset>')
    (tmp_path / "there" / "scene.xml").write_text(text, encoding="utf-8")
    (tmp_path / "robot").mkdir()
    out = tmp_path / "robot" / "r.urdf"
    done = CliRunner().invoke(app, ["convert", str(tmp_path / "there" / "scene.xml"), "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert "../there/t.obj" in out.read_text(encoding="utf-8")
    robot, original = qd.load(out, packages=(tmp_path,)), qd.load(tmp_path / "there" / "scene.xml")
    assert robot.model == original.model
    assert next(iter(robot.tree.links_by_name["a"].visuals)).shape.path == tmp_path / "there" / "t.obj"  # type: ignore[union-attr]
    done = CliRunner().invoke(app, ["convert", "go2"])
    assert qd.load(done.output).model == qd.load("go2", packages=()).model
    named = scene(CHAIN, '<keyframe><key name="crouch" qpos=".1 .2 .3"/></keyframe>')
    (tmp_path / "named.xml").write_text(named, encoding="utf-8")
    done = CliRunner().invoke(app, ["convert", str(tmp_path / "named.xml"), "--out", str(out)])
    assert done.exit_code == 0 and "left out: the poses crouch" in " ".join(done.output.split())
    done = CliRunner().invoke(app, ["convert", "go2", "--out", str(tmp_path / "go2.sdf")])
    assert done.exit_code == 2 and not (tmp_path / "go2.sdf").exists()


def test_convert_copies_meshes_of_package_uris_next_to_the_urdf(tmp_path: Path) -> None:
    """The URDF loads after its folder is moved, without the package."""
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    done = CliRunner().invoke(app, ["convert", "go2", "--out", str(here / "dog.urdf")])
    assert done.exit_code == 0 and "meshes copied to dog_meshes" in done.output
    here.rename(there)
    assert "package:" not in (there / "dog.urdf").read_text()
    robot, original = qd.load(there / "dog.urdf"), qd.load("go2")
    mine, theirs = (
        [each.shape for link in r.tree.links for each in (*link.visuals, *link.collisions)] for r in (robot, original)
    )
    for a, b in zip(mine, theirs, strict=True):
        if isinstance(b, MeshShape):
            assert a.path is not None and a.path.is_relative_to(there) and b.path is not None
            assert a.path.read_bytes() == b.path.read_bytes() and a.path.suffix == b.path.suffix
    (tmp_path / "lost.urdf").write_text((there / "dog.urdf").read_text().replace("dog_meshes/", "package://absent/"))
    done = CliRunner().invoke(app, ["convert", str(tmp_path / "lost.urdf"), "--out", str(tmp_path / "out.urdf")])
    assert done.exit_code == 0 and "not copied: the meshes package://absent/" in " ".join(done.output.split())
    text = re.sub(r'filename="(dog_meshes[^"]*)"', rf"filename = '{there}/\1'", (there / "dog.urdf").read_text())
    (tmp_path / "quoted.urdf").write_text(text)
    done = CliRunner().invoke(app, ["convert", str(tmp_path / "quoted.urdf"), "--out", str(tmp_path / "out.urdf")])
    assert done.exit_code == 0 and str(there) not in (tmp_path / "out.urdf").read_text()


def test_convert_writes_capsules_as_shapes_that_other_programs_read(tmp_path: Path) -> None:
    """A foot at the end of a capsule, one that lies across, and a capsule of length 0."""
    capsules = (
        '<visual name="v"><origin xyz="1 2 3" rpy="0 1.5707963267948966 0"/><geometry>'
        '<capsule radius="0.02" length="0.4"/></geometry><material name="m"><color rgba="1 0 0 1"/></material></visual>'
        '<!-- comment --><collision><geometry><capsule radius="0.03" length="0"/></geometry></collision>'
    )
    urdf = dog(radius=None)
    for leg in CORNERS:
        urdf.add_shape(f"{leg}_shank", "capsule", (0, 0, -0.1), radius="0.01", length="0.2")
    text = str(urdf).replace("</link>", capsules + "</link>", 1)
    out = tmp_path / "dog.urdf"
    (tmp_path / "in.urdf").write_text(text, encoding="utf-8")
    done = CliRunner().invoke(app, ["convert", str(tmp_path / "in.urdf"), "--out", str(out)])
    assert done.exit_code == 0, done.output
    written = out.read_text(encoding="utf-8")
    assert "<capsule" not in written and "<!-- comment -->" in written
    robot, again = qd.load(text), qd.load(out)
    assert again.model == robot.model
    for name, leg in robot.legs.items():
        assert again.legs[name].foot.radius == leg.foot.radius == 0.01
        np.testing.assert_allclose(again.legs[name].foot.offset, leg.foot.offset, atol=1e-15)
    first = next(link for link in again.tree.links if link.visuals)
    centers = [shape.placement.translation for shape in first.visuals[-3:]]
    assert [shape.shape for shape in first.visuals[-3:]] == [CylinderShape(0.02, 0.4), *[SphereShape(0.02)] * 2]
    np.testing.assert_allclose(centers, [[1, 2, 3], [1.2, 2, 3], [0.8, 2, 3]], atol=1e-15)
    assert first.collisions[-1].shape == SphereShape(0.03) and {v.rgba for v in first.visuals[-3:]} == {(1, 0, 0, 1)}


@pytest.mark.parametrize("name", others_slow(["go2", "panda", "solo12", "ur5", "anymal_c"], ["go2", "panda"]))
def test_convert_writes_an_mjcf_of_the_same_robot(name: str, tmp_path: Path) -> None:
    """Panda has mimic joints; Go2 and ANYmal have meshes in Collada, UR5 fixed links with other axes."""
    out = tmp_path / f"{name}.xml"
    done = CliRunner().invoke(app, ["convert", name, "--out", str(out)])
    assert done.exit_code == 0 and "left out: velocity limits" in done.output, done.output
    robot, again = qd.load(name), qd.load(out)
    assert again.actuated == robot.actuated and again.feet == robot.feet and again.root == robot.root
    assert {link.name for link in robot.tree.links} <= {link.name for link in again.tree.links} | {"world"}
    for quantity in ("damping", "friction", "armature", "lower", "upper", "effort_limits"):
        np.testing.assert_array_equal(getattr(again, quantity), getattr(robot, quantity), quantity)
    np.testing.assert_allclose(again.q_home, robot.q_home, atol=1e-14)
    for foot, leg in robot.legs.items():
        assert again.legs[foot].foot.radius == pytest.approx(leg.foot.radius, abs=1e-12)
    rng, first, second = np.random.default_rng(0), qd.Dynamics(robot), qd.Dynamics(again)
    for _ in range(5):
        q = robot.algorithms.integrate(robot.model, robot.q_home, 0.3 * rng.standard_normal(robot.nv))
        v = rng.standard_normal(robot.nv)
        for one, other in ((first.crba(q), second.crba(q)), (first.nle(q, v), second.nle(q, v))):
            assert np.abs(one - other).max() <= 1e-12 * np.abs(one).max()
    model = mujoco.MjModel.from_xml_path(str(out))
    assert model.body_mass.sum() == pytest.approx(robot.mass, rel=1e-3) and model.nu == robot.nu
    drawn = {link.name for link in robot.tree.links if link.visuals}
    assert {model.body(int(model.geom_bodyid[g])).name for g in range(model.ngeom) if model.geom_group[g] == 2} >= drawn
