"""Identified parameters in files: MJCF with the values as attributes, and files of actuators."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from raising import raises
from test_mjcf import ARM, QUADRUPED
from test_surface_identification import make_samples
from typer.testing import CliRunner

import quaddyn as qd
from quaddyn.cli import app
from quaddyn.identification import Identification, identify, save_samples
from quaddyn.simulation import Actuators

mujoco = pytest.importorskip("mujoco")


def heavier(robot: qd.Robot) -> qd.Robot:
    """The robot with a payload, friction and rotors that its file does not have."""
    text = robot.source if isinstance(robot.source, str) else robot.source.decode()
    root = ElementTree.fromstring(text)
    for mass in root.iter("mass"):
        mass.set("value", repr(1.2 * float(mass.get("value", "0"))))
    return qd.load(
        ElementTree.tostring(root, encoding="unicode"),
        root=robot.root,
        damping=0.4,
        friction=0.3,
        armature=0.02,
        allow_massless=True,
    )


def identified(robot: qd.Robot, count: int = 300) -> Identification:
    return identify(robot, make_samples(heavier(robot), count), torque_noise=1e-3)


@pytest.fixture(scope="module")
def arm() -> qd.Robot:
    return qd.load("ur5")


@pytest.fixture(scope="module")
def found(arm: qd.Robot) -> Identification:
    return identified(arm)


def assert_same_dynamics(a: qd.Robot, b: qd.Robot) -> None:
    assert a.actuated == b.actuated
    rng = np.random.default_rng(0)
    for what in ("damping", "friction", "armature"):
        np.testing.assert_allclose(getattr(a, what), getattr(b, what), rtol=1e-9, atol=1e-12)
    q, v, acceleration = a.random_configuration(rng), *rng.normal(size=(2, a.nv))
    expected = qd.Dynamics(b).rnea(q, v, acceleration)
    np.testing.assert_allclose(qd.Dynamics(a).rnea(q, v, acceleration), expected, atol=1e-7 * np.abs(expected).max())


def test_mjcf_of_a_robot_is_the_identified_robot(found: Identification, tmp_path: Path) -> None:
    path = found.save_mjcf(tmp_path / "found.xml")
    assert_same_dynamics(qd.load(path, root="fixed"), found.identified_robot())
    model = mujoco.MjModel.from_xml_path(str(path))
    for joint, (viscous, coulomb, rotor) in found.joint_losses.items():
        dof = model.joint(joint).dofadr[0]
        values = model.dof_damping[dof], model.dof_frictionloss[dof], model.dof_armature[dof]
        np.testing.assert_allclose(values, (viscous, coulomb, rotor), rtol=1e-12)


@pytest.mark.parametrize("text", [QUADRUPED.replace("{}", ""), ARM], ids=["quadruped", "arm"])
def test_attributes_of_an_mjcf_are_replaced_and_all_else_is_kept(text: str, tmp_path: Path) -> None:
    """Bodies with several joints, joints beside the origin, bodies without joints and without names."""
    text = text.replace("<compiler ", '<compiler inertiafromgeom="true" ')
    source = tmp_path / "robot.xml"
    source.write_text(text.replace('<body pos=".1 0 0">', '<body name="wrist" pos=".1 0 0">'), encoding="utf-8")
    robot = qd.load(source, root="fixed")
    result = identified(robot, 120)
    path = result.save_mjcf(tmp_path / "found.xml", source)
    assert_same_dynamics(qd.load(path, root=robot.root), result.identified_robot())
    before, after = (mujoco.MjModel.from_xml_path(str(each)) for each in (source, path))
    for what in ("geom_size", "geom_pos", "jnt_range", "jnt_axis", "body_pos", "body_quat", "actuator_gear"):
        np.testing.assert_array_equal(getattr(after, what), getattr(before, what))
    assert not np.allclose(after.body_mass[1:], before.body_mass[1:])


def test_mjcf_of_another_robot_is_rejected(found: Identification, tmp_path: Path) -> None:
    source = tmp_path / "other.xml"
    for text, error, message in (
        (ARM, qd.ArgumentError, "no body 'shoulder_link'"),
        ("<mujoco>", qd.ModelError, "not valid XML"),
        ('<!DOCTYPE x [<!ENTITY a "b">]><mujoco/>', qd.ModelError, "not valid XML"),
    ):
        source.write_text(text, encoding="utf-8")
        raises(error, message, found.save_mjcf, tmp_path / "found.xml", source)
    renamed = found.save_mjcf(source).read_text(encoding="utf-8").replace('"elbow_joint"', '"knee"')
    source.write_text(renamed, encoding="utf-8")
    raises(qd.ArgumentError, "no joint 'elbow_joint'", found.save_mjcf, tmp_path / "found.xml", source)


def test_file_of_actuators_gives_the_identified_friction(found: Identification, arm: qd.Robot, tmp_path: Path) -> None:
    path = found.actuators().save(tmp_path / "actuators.json")
    again = Actuators.load(path, arm)
    for name, values in found.actuators().constructor_arguments.items():
        np.testing.assert_array_equal(getattr(again, name), values)
    losses = np.array([found.joint_losses[name] for name in arm.actuated]).T
    np.testing.assert_allclose([again.damping, again.friction, again.armature], losses, rtol=1e-12)
    plain = qd.load("ur5", damping=dict(zip(arm.actuated, losses[0], strict=True)))
    expected = qd.Simulation(plain, dt=1e-3)
    without = Actuators(arm, viscous=again.viscous)
    plant = qd.Simulation(arm, dt=1e-3, actuators=without)
    for each in (plant, expected):
        each.reset(arm.q_home, np.ones(arm.nv))
        each.step(np.zeros(arm.nu))
    np.testing.assert_allclose(plant.v, expected.v, atol=1e-12)
    with pytest.raises(
        qd.ArgumentError, match=r"damping of joint 'shoulder_pan_joint' is 9, .*load the robot with damping=0"
    ):
        found.actuators(qd.load("ur5", damping=9.0))
    raises(qd.ArgumentError, "expected the joints of", found.actuators, qd.load("planar_3r"))


def test_files_of_actuators_are_validated(arm: qd.Robot, tmp_path: Path) -> None:
    path = Actuators(arm, no_load_speed=5.0, corner_speed=2.0, delay=0.01, viscous=0.1).save(tmp_path / "a.json")
    document = json.loads(path.read_text(encoding="utf-8"))
    joints = document["joints"]
    joints["elbow_joint"] = {"no_load_speed": None, "corner_speed": None, "coulomb": 2}  # changed by a user
    path.write_text(json.dumps({**document, "joints": dict(reversed(joints.items()))}), encoding="utf-8")
    again = Actuators.load(path, arm)
    i = arm.actuated.index("elbow_joint")
    assert again.no_load_speed[i] == np.inf and again.no_load_speed[i - 1] == 5.0
    assert (again.coulomb[i], again.viscous[i], again.delay[i]) == (2.0, 0.0, 0.0)
    assert again.effort[i] == arm.effort_limits[i]
    for change, message in (
        ({"viscous": -1.0}, "joint 'elbow_joint': expected numbers of at least 0"),
        ({"viscous": None}, "joint 'elbow_joint': expected numbers"),
        ({"stickiness": 1.0}, "stickiness = 1.0"),
        ({"delay": "1"}, "delay = '1'"),
        ({"delay": 10**400}, "joint 'elbow_joint': delay: the integer is beyond the range of floats"),
        ({"corner_speed": 3.0, "no_load_speed": 2.0}, "corner_speed: expected at most the no-load speed"),
    ):
        path.write_text(json.dumps({**document, "joints": {**joints, "elbow_joint": change}}), encoding="utf-8")
        with pytest.raises(qd.ArgumentError, match=message) as caught:
            Actuators.load(path, arm)
        assert str(caught.value).startswith(f"{path}: ")
    for text in ("", "[]", "{}", '{"format": 2, "joints": {}}', '{"format": 1, "joints": {"a": 1}}', "[" * 5000):
        path.write_text(text, encoding="utf-8")
        raises(qd.ArgumentError, r"expected a file of Actuators\.save with format 1", Actuators.load, path, arm)
    path.write_text('{"format": 1, "joints": {"knee": {}}}', encoding="utf-8")
    raises(qd.ArgumentError, "but 'elbow_joint' is only in the robot", Actuators.load, path, arm)


@pytest.mark.parametrize("kind", ["ur5", "mjcf"])
def test_identify_command_writes_all_formats(kind: str, arm: qd.Robot, tmp_path: Path) -> None:
    source = kind
    if kind == "mjcf":
        source = str(tmp_path / "arm.xml")
        Path(source).write_text(
            ARM.replace('<body pos=".1 0 0">', '<body name="wrist" pos=".1 0 0">'), encoding="utf-8"
        )
    robot = qd.load(source, root="fixed")
    save_samples(tmp_path / "data.npz", robot, make_samples(heavier(robot), 100))
    names = ("found.urdf", "found.xml", "found.json")
    for name in names:
        words = ["identify", str(tmp_path / "data.npz"), "--robot", source, "--root", "fixed", "--out", name]
        words[words.index(name)] = str(tmp_path / name)
        done = CliRunner().invoke(app, [*words, "--actuators", str(tmp_path / "motors.json")])
        assert done.exit_code == 0, done.output
        assert f"wrote {tmp_path / name}" in done.output and f"wrote {tmp_path / 'motors.json'}" in done.output
    parameters = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))["parameters"]
    plain = qd.load(source, root="fixed", damping=0.0, friction=0.0, armature=0.0)
    motors = Actuators.load(tmp_path / "motors.json", plain)
    assert ("load the robot with damping=0, friction=0, armature=0" in done.output) is (kind == "mjcf")
    loaded = [qd.load(tmp_path / name, root="fixed", allow_massless=True) for name in names[:2]]
    for i, joint in enumerate(robot.actuated):
        assert abs(motors.damping[robot.actuated_index[i]] - parameters[f"fv {joint}"]) < 1e-12
        for each in loaded:
            assert abs(each.damping[each.velocity_index(joint)] - parameters[f"fv {joint}"]) < 1e-12
    if kind == "mjcf":
        assert "<geom" in (tmp_path / "found.xml").read_text(encoding="utf-8"), "the geometry of the source"


def test_values_that_also_depend_on_the_file_are_marked(arm: qd.Robot) -> None:
    """Fits of the same data to two files agree in the values without a mark."""
    data = make_samples(heavier(arm), 300)
    one, two = (identify(file, data, torque_noise=1e-3, method="least_squares") for file in (arm, heavier(arm)))
    marks = np.array([one.mark_losses(joint) for joint in arm.actuated])
    losses = (np.array([found.joint_losses[joint] for joint in arm.actuated]) for found in (one, two))
    changes = np.abs(next(losses) - next(losses)) > 1e-3
    np.testing.assert_array_equal(marks == "*", changes)
    assert 0 < changes.sum() < changes.size
    masses = [np.array([x.mass for x in found.inertials.values()]) for found in (one, two)]
    assert np.abs(masses[0] - masses[1]).max() > 0.1
    assert all(one.mark_mass(body.name) == "*" == one.mark_com(body.name) for body in arm.bodies)
    assert one.total_mass is None and "sum of all masses" not in one.ambiguity
    assert one.ambiguity in str(one)
