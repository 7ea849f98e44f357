"""Reading of URDF text: the tree contains all elements of the file; ignored elements are reported."""

from __future__ import annotations

import copy
import dataclasses
import math
import pickle
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
from expected_outputs import check_expected_file
from hypothesis import given
from hypothesis import strategies as st
from raising import raises
from slow_parameters import NIGHT
from urdf_text import chain, star

import quaddyn as qd
from quaddyn.urdf import MeshFinder, parse
from quaddyn.urdf import xml as xml_reader
from quaddyn.urdf.loops import rotation_of_z_to
from quaddyn.urdf.reader import rotation_from_rpy
from quaddyn.urdf.srdf import disabled_collisions
from quaddyn.urdf.tree import (
    JOINT_NQ,
    JOINT_NV,
    BoxShape,
    CapsuleShape,
    CylinderShape,
    Finding,
    MeshShape,
    Pose,
    SphereShape,
    Tree,
    Where,
    first_largest,
)
from quaddyn.urdf.xml import read_xml, shorten

INERTIAL = '<inertial><mass value="1"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial>'


def pendulum(joint: str = "", link: str = INERTIAL, kind: str = "revolute", extra: str = "") -> str:
    limit = '<limit lower="-1" upper="2" effort="3" velocity="4"/>'
    inner = joint or f'<axis xyz="0 1 0"/>{limit}'
    return (
        f'<robot name="pendulum"><link name="base"/><link name="arm">{link}</link>'
        f'<joint name="hinge" type="{kind}"><parent link="base"/><child link="arm"/>{inner}</joint>{extra}</robot>'
    )


def reasons(text: str) -> list[str]:
    return [f.reason for f in parse(text).findings]


def test_every_number_of_a_joint_is_read() -> None:
    inner = (
        '<origin xyz="1 2 3" rpy="0 0 1.5"/><axis xyz="0 0 -1"/><limit lower="-1" upper="2" effort="3" velocity="4"/>'
        '<dynamics damping="0.1" friction="0.2" armature="0.3"/>'
    )
    joint = parse(pendulum(inner)).joints_by_name["hinge"]
    assert joint.placement.translation.tolist() == [1, 2, 3]
    assert joint.placement.rotation == pytest.approx(rotation_from_rpy(0, 0, 1.5))
    assert joint.axis.tolist() == [0, 0, -1]
    assert (joint.limits.lower, joint.limits.upper, joint.limits.effort, joint.limits.velocity) == (-1, 2, 3, 4)
    assert (joint.damping, joint.friction, joint.armature) == (0.1, 0.2, 0.3)
    assert (joint.nq, joint.nv) == (1, 1)


def records(value: object) -> Iterator[object]:
    """Yields all records of a parsed value, itself included."""
    if isinstance(value, tuple):
        for each in value:
            yield from records(each)
    elif dataclasses.is_dataclass(value):
        yield value
        for field in dataclasses.fields(value):
            yield from records(getattr(value, field.name))


def test_parsed_records_are_immutable() -> None:
    shapes = ('<sphere radius="1"/>', '<box size="1 1 1"/>', '<cylinder radius="1" length="1"/>',
              '<capsule radius="1" length="1"/>', '<mesh filename="none.stl"/>')  # fmt: skip
    links = INERTIAL + "".join(f"<visual><geometry>{shape}</geometry></visual>" for shape in shapes)
    other = (
        f'<link name="hand">{INERTIAL}</link><joint name="wrist" type="revolute"><parent link="arm"/>'
        '<child link="hand"/><axis xyz="0 1 0"/><limit lower="-1" upper="1" effort="1" velocity="1"/>'
        '<mimic joint="hinge"/></joint>'
    )
    found = list(records(parse(pendulum(link=links, extra=other))))
    assert {type(each).__name__ for each in found} >= {
        "Tree", "Link", "Joint", "Limits", "Mimic", "Geometry", "Pose", "Inertial", "Where", "Finding",
        "SphereShape", "BoxShape", "CylinderShape", "CapsuleShape", "MeshShape",
    }  # fmt: skip
    for each in found:
        for field in dataclasses.fields(each):  # type: ignore[arg-type]
            with pytest.raises(dataclasses.FrozenInstanceError):
                setattr(each, field.name, None)
            value = getattr(each, field.name)
            assert not isinstance(value, np.ndarray) or not value.flags.writeable


def test_joints_have_the_number_of_coordinates_of_pinocchio() -> None:
    models = {
        "revolute": pin.JointModelRX(), "continuous": pin.JointModelRUBX(), "prismatic": pin.JointModelPX(),
        "floating": pin.JointModelFreeFlyer(), "planar": pin.JointModelPlanar(),
    }  # fmt: skip
    sizes = {kind: (JOINT_NQ[kind], JOINT_NV[kind]) for kind in JOINT_NQ}
    assert sizes == {"fixed": (0, 0)} | {kind: (model.nq, model.nv) for kind, model in models.items()}


def test_every_element_has_its_line_number() -> None:
    text = pendulum().replace("<link", "\n<link").replace("<joint", "\n<joint")
    tree = parse(text, file="p.urdf")
    assert str(tree.links_by_name["base"].where) == 'p.urdf:2: <link name="base">'
    assert str(tree.joints_by_name["hinge"].where) == 'p.urdf:4: <joint name="hinge">'


def test_shapes_are_read() -> None:
    shapes = {
        '<sphere radius="0.1"/>': SphereShape(0.1),
        '<box size="1 2 3"/>': BoxShape((1, 2, 3)),
        '<cylinder radius="0.1" length="2"/>': CylinderShape(0.1, 2),
        '<capsule radius="0.1" length="2"/>': CapsuleShape(0.1, 2),
        '<mesh filename="package://a/b.stl" scale="1 -1 1"/>': MeshShape("package://a/b.stl", None, (1, -1, 1)),
    }
    for element, shape in shapes.items():
        link = f'{INERTIAL}<visual><geometry>{element}</geometry><material name="red"/></visual>'
        material = '<material name="red"><color rgba="1 0 0 1"/></material>'
        (visual,) = parse(pendulum(link=link, extra=material)).links_by_name["arm"].visuals
        assert visual.shape == shape
        assert visual.rgba == (1, 0, 0, 1)


def test_missing_meshes_of_one_folder_are_one_finding_and_contact_tags_of_bullet_are_accepted() -> None:
    def mesh(name: str) -> str:
        return f'<visual><geometry><mesh filename="package://p/{name}.stl"/></geometry></visual>'

    link = INERTIAL + "".join(mesh(f"meshes/{i}") for i in range(30)) + mesh("meshes/3") + mesh("other/a")
    many, one = reasons(pendulum(link=link + '<contact><lateral_friction value="1"/></contact>'))
    assert (
        many
        == "filename='package://p/meshes/0.stl' and 29 more in 'package://p/meshes': the file is not in the package "
        "roots"
    )
    assert one == "filename='package://p/other/a.stl': the file is not in the package roots"


@given(st.tuples(*[st.floats(-math.pi, math.pi)] * 3))
def test_rpy_angles_are_rotations_about_fixed_axes(rpy: tuple[float, float, float]) -> None:
    def turn(axis: int, angle: float) -> np.ndarray:
        R = np.eye(3)
        i, j = [(1, 2), (2, 0), (0, 1)][axis]
        R[i, i] = R[j, j] = math.cos(angle)
        R[i, j], R[j, i] = -math.sin(angle), math.sin(angle)
        return R

    expected = turn(2, rpy[2]) @ turn(1, rpy[1]) @ turn(0, rpy[0])
    assert np.abs(rotation_from_rpy(*rpy) - expected).max() < 1e-15


def test_poses_compose_and_invert() -> None:
    a = Pose.of(rotation_from_rpy(0.1, 0.2, 0.3), [1, 2, 3])
    b = Pose.of(rotation_from_rpy(-1, 0.5, 2), [0, -1, 1])
    assert (a @ b).homogeneous == pytest.approx(a.homogeneous @ b.homogeneous, abs=1e-15)
    assert (a @ a.inverse()).homogeneous == pytest.approx(np.eye(4), abs=1e-15)
    point = np.array([0.3, -0.2, 0.7])
    assert a.apply(point) == pytest.approx((a.homogeneous @ np.append(point, 1))[:3], abs=1e-15)


def test_copied_trees_are_equal_and_read_only() -> None:
    tree = parse(pendulum())
    for twin in (pickle.loads(pickle.dumps(tree)), copy.deepcopy(tree)):
        joint = twin.joints_by_name["hinge"]
        assert joint.axis.tolist() == tree.joints_by_name["hinge"].axis.tolist()
        with pytest.raises(ValueError, match="read-only"):
            joint.axis[0] = 1.0


def test_links_are_ordered_depth_first_and_children_by_joint_name() -> None:
    body = "".join(f'<link name="{n}"/>' for n in "abcd")
    joints = "".join(
        f'<joint name="{name}" type="fixed"><parent link="{p}"/><child link="{c}"/></joint>'
        for name, p, c in (("z", "a", "b"), ("Y", "a", "c"), ("x", "c", "d"))
    )
    tree = parse(f'<robot name="r">{body}{joints}</robot>')
    assert [x.name for x in tree.links] == ["a", "c", "d", "b"]  # bytewise: "Y" < "z"
    assert [j.child for j in tree.joints] == ["c", "d", "b"]


def test_unconfined_finder_opens_files_above_the_package_but_no_hidden_ones_and_no_links(tmp_path: Path) -> None:
    package, outside = tmp_path / "pkg", tmp_path / "b.stl"
    for folder in (package / "urdf", package / "meshes", tmp_path / ".hidden"):
        folder.mkdir(parents=True)
    for file in (outside, package / "meshes" / "a.stl", tmp_path / ".hidden" / "c.stl"):
        file.touch()
    (package / "meshes" / "link.stl").symlink_to(outside)
    near = MeshFinder(package / "urdf", [], confined=False)
    assert near.find("../../b.stl") == (outside, tmp_path, "") and near.outside == {"../../b.stl": outside}
    for uri in (
        "../meshes/link.stl",
        "../../.hidden/c.stl",
        str(outside),
        f"file://{outside}",
        "../" * 40 + "etc/hosts",
    ):
        assert near.find(uri)[2] == "the file is outside the package roots and is not opened", uri
    for uri in (
        "meshes/a.stl",
        "/home/me/ws/pkg/meshes/a.stl",
        r"C:\ws\other\meshes\a.stl",
        "package:/pkg/meshes/a.stl",
    ):
        assert MeshFinder(package / "urdf", []).find(uri)[0] == package / "meshes" / "a.stl", uri


def test_first_largest_returns_the_first_of_tied_values() -> None:
    noisy = [0.5, 1.0, 1.0 + 4e-16, 1.0 - 1e-12, 0.9999]
    assert first_largest(noisy) == 1 and first_largest(-np.array(noisy)) == 0
    assert first_largest([0.0, 1e-17, -1e-17], 1.0) == 0 and first_largest([0.0, 1e-17]) == 1
    assert first_largest([-np.inf, -np.inf]) == 0 and first_largest([1.0, np.inf, np.inf]) == 1
    assert first_largest([-np.inf, 3.0, 3.0]) == 1


# -- findings and errors of the urdf reader, and the bounds at which they occur ---------------------------------------
AXIS = '<axis xyz="0 1 0"/>'
LIMIT = '<limit lower="-1" upper="2" effort="3" velocity="4"/>'


def limit(numbers: str) -> str:
    return pendulum(f"{AXIS}<limit {numbers}/>")


def shape(text: str, tag: str = "visual") -> str:
    return pendulum(link=f"{INERTIAL}<{tag}><geometry>{text}</geometry></{tag}>")


def moments(x: float, y: float, z: float) -> str:
    own = INERTIAL.replace('ixx="1"', f'ixx="{x!r}"').replace('iyy="1"', f'iyy="{y!r}"')
    return pendulum(link=own.replace('izz="1"', f'izz="{z!r}"'))


def origin(numbers: str) -> str:
    return pendulum(f"<origin {numbers}/>{AXIS}{LIMIT}")


def tag(text: str) -> str:
    return pendulum(extra=text)


def loop(inner: str, kind: str = "spherical", name: str = "l") -> str:
    return tag(f'<loop_joint name="{name}" type="{kind}">{inner}</loop_joint>')


ENDS = '<link1 link="base"/><link2 link="arm" xyz="1 2 3"/>'
MASSLESS = pendulum(link=INERTIAL.replace('mass value="1"', 'mass value="0"'))
BALL = '<ball_constraint_body_A name="base"/><ball_constraint_p_AP value="0 0 1"/>'

TEXTS = [
    pendulum(),
    pendulum(link=f"{INERTIAL}<inertail/>"),
    pendulum(f'<axis xyz="0 1 0" unit="m"/>{LIMIT}'),
    pendulum(f'{AXIS}<limit lower="-1" uper="2" effort="3" velocity="4"/>'),
    pendulum(link=f'{INERTIAL}<mass value="1"/>'),
    pendulum(link=f"{INERTIAL}<visual/><collision><geometry/></collision>"),
    shape('<sphere radius="0"/>'),
    shape('<sphere radius="0"/>', "collision"),
    shape('<box size="1 0 1"/>', "collision"),
    shape('<cylinder radius="1" length="-1"/>'),
    tag('<material name="m"><color rgba="1, 0.5 0"/></material>'),
    tag('<material name="m"><color rgba="red"/></material>'),
    shape('<mesh filename=" "/>'),
    tag('<macro xmlns="http://ros.org/xacro"/>'),
    tag('<macro xmlns="http://elsewhere.org"/>'),
    pendulum(f"{AXIS}{AXIS}{LIMIT}"),
    MASSLESS,
    moments(0.0, 0.0, 0.0),
    moments(1.0, 1.0, -1.0),
    moments(1.0, 1.0, 3.0),
    moments(-1.1e-9, 1.0, 1.0),
    moments(-0.9e-9, 1.0, 1.0),
    moments(-1.8e-9, 2.0, 2.0),
    moments(0.5, 0.5, 1.0 + 1.1e-9),
    moments(0.5, 0.5, 1.0 + 0.9e-9),
    shape('<sphere radius="1"/><sphere radius="1"/>'),
    shape('<mesh filename="a.stl"/>'),
    shape('<mesh filename="p/a.stl"/><odd/>'),
    pendulum('<dynamics damping="1"/>', kind="floating"),
    pendulum(f'{AXIS}<dynamics damping="1"/>', kind="planar"),
    pendulum('<dynamics damping="1"/>', kind="fixed"),
    pendulum(f'<axis xyz="0 1.0011 0"/>{LIMIT}'),
    pendulum(f'<axis xyz="0 1.0009 0"/>{LIMIT}'),
    pendulum(f'<axis xyz="0 0.001 0"/>{LIMIT}'),
    pendulum(AXIS),
    pendulum(AXIS, kind="prismatic"),
    pendulum(AXIS, kind="continuous"),
    limit('lower="-1" upper="2" effort="0" velocity="0"'),
    limit('lower="-1" upper="2" effort="3" velocity="0"'),
    limit('lower="-1" upper="2" effort="0" velocity="4"'),
    limit('lower="-1" upper="2"'),
    limit('effort="3" velocity="4"'),
    limit('lower="-1" effort="3" velocity="4"'),
    limit('upper="1" effort="3" velocity="4"'),
    limit('lower="1" upper="1" effort="3" velocity="4"'),
    tag(
        '<transmission><joint name="hinge"/><actuator><mechanicalReduction>x</mechanicalReduction></actuator>'
        "</transmission>"
    ),
    tag(
        '<transmission><joint name="hinge"/></transmission><transmission name="t"><joint name="hinge">'
        "<mechanicalReduction>2</mechanicalReduction></joint></transmission>"
    ),
    "<robot",
    "",
    "<a\0/>",
    '<robot name="\ud800"/>',
    "<!DOCTYPE robot><robot/>",
    "<sdf/>",
    "<robot/>",
    pendulum(f'<axis xyz="0 1 0"/><axis xyz="0 0 1"/>{LIMIT}'),
    pendulum().replace('<parent link="base"/>', ""),
    pendulum().replace('<child link="arm"/>', "<child/>"),
    pendulum(f'<axis xyz="0 1"/>{LIMIT}'),
    pendulum(f'<axis xyz=""/>{LIMIT}'),
    limit('lower=" " upper="2" effort="3" velocity="4"'),
    pendulum(f'<axis xyz="0 x 0"/>{LIMIT}'),
    origin('xyz="0 0 1000.1"'),
    origin('rpy="0 0 1e999"'),
    pendulum().replace('name="arm"', 'name=""', 1),
    pendulum().replace('name="arm"', 'name="universe"', 1),
    pendulum(link=INERTIAL.replace('mass value="1"', 'mass value="-1"')),
    shape('<sphere radius="1"/><sphere radius="2"/>', "collision"),
    shape("<cone/>", "collision"),
    shape('<cylinder radius="1" length="-1"/>', "collision"),
    shape('<box size="1 -1 1"/>', "collision"),
    shape('<mesh filename=" "/>', "collision"),
    shape('<mesh filename="a.stl" scale="1 1"/>', "collision"),
    pendulum(kind="hinge"),
    pendulum(f'{AXIS}{LIMIT}<dynamics friction="-0.5"/>'),
    pendulum(f'<axis xyz="0 0.00099 0"/>{LIMIT}'),
    limit('lower="2" upper="1" effort="3" velocity="4"'),
    limit('lower="1e6" upper="1e7" effort="3" velocity="4"'),
    limit('lower="-1e7" upper="-1e6" effort="3" velocity="4"'),
    limit('lower="-1" upper="2" effort="-3" velocity="4"'),
    tag('<link name="arm"/>'),
    pendulum().replace('child link="arm"', 'child link="ram"'),
    pendulum().replace('parent link="base"', 'parent link="bas"'),
    tag('<joint name="again" type="fixed"><parent link="base"/><child link="arm"/></joint>'),
    tag("".join(f'<link name="{n}"/>' for n in "cdefg")),
    pendulum().replace('parent link="base"', 'parent link="arm"').replace('<link name="base"/>', ""),
    tag('<link name="c"/><joint name="round" type="fixed"><parent link="c"/><child link="c"/></joint>'),
    loop(ENDS, "screw"),
    loop(f'{ENDS}<axis xyz="0 0.001 0"/>', "revolute"),
    loop('<link1 link="base"/>'),
    loop(ENDS.replace("arm", "ram")),
    loop(ENDS).replace("</robot>", f'<loop_joint name="l" type="fixed">{ENDS}</loop_joint></robot>'),
    tag(f"<ball_constraint>{BALL}</ball_constraint>"),
]


def outcome(text: str) -> list[str]:
    """The findings of a text, or the error, without the advice after a semicolon."""
    try:
        return [str(finding).split("; ")[0] for finding in parse(text).findings]
    except qd.ModelError as error:
        return [f"error: {str(error).split('; ')[0]}"]


def test_findings_and_errors_state_location_and_problem() -> None:
    lines = [line for k, text in enumerate(TEXTS) for line in (f"text {k}", *outcome(text))]
    check_expected_file("urdf", "\n".join(lines))


def test_texts_of_locations_and_findings_omit_missing_parts() -> None:
    assert str(Where("a.urdf", 0, "")) == "a.urdf" and str(Where("a.urdf", 7, "")) == "a.urdf:7"
    assert str(Where("a.urdf", 0, "<link>")) == "a.urdf: <link>"
    assert str(Finding("note", Where("a.urdf", 7, "<link>"), "odd")) == "note: a.urdf:7: <link>: odd"


@pytest.mark.parametrize(
    ("inside", "beyond"),
    [
        (origin('xyz="1000 -1000 0"'), origin('xyz="-1000.1 0 0"')),
        (origin('rpy="10000 -10000 0"'), origin('rpy="0 -10000.1 0"')),
        (pendulum(link=INERTIAL.replace('mass value="1"', 'mass value="1e6"')),
         pendulum(link=INERTIAL.replace('mass value="1"', 'mass value="1000001"'))),
        (pendulum(f'{AXIS}{LIMIT}<dynamics damping="1e6"/>'), pendulum(f'{AXIS}{LIMIT}<dynamics damping="1000001"/>')),
        (shape('<sphere radius="1e3"/>', "collision"), shape('<sphere radius="1000.1"/>', "collision")),
        (shape('<box size="1e3 1e3 1e3"/>', "collision"), shape('<box size="1 1 1000.1"/>', "collision")),
        (shape('<mesh filename="a" scale="1e6 -1e6 1"/>', "collision"),
         shape('<mesh filename="a" scale="1000001 1 1"/>', "collision")),
        (loop(ENDS + '<axis xyz="0 0.0011 0"/>', "revolute"), loop(ENDS + '<axis xyz="0 1000.1 0"/>', "revolute")),
        (loop('<link1 link="base" rpy="1e4 0 0"/><link2 link="arm"/>'),
         loop('<link1 link="base" rpy="10000.1 0 0"/><link2 link="arm"/>')),
        (pendulum().replace('"arm"', f'"{"a" * 256}"'), pendulum().replace('"arm"', f'"{"a" * 257}"')),
        (pendulum().replace('"arm"', '"a b~\u00e9"'), pendulum().replace('"arm"', '"a\x7fb"')),
        (pendulum().replace('"arm"', '"a b"'), pendulum().replace('"arm"', '"a&#9;b"')),
    ],
)  # fmt: skip
def test_bounds_have_their_documented_values_and_are_inclusive(inside: str, beyond: str) -> None:
    parse(inside)
    raises(qd.ModelError, r"exceeds|control characters", parse, beyond)


def limits(text: str) -> tuple[float, float, float, float]:
    found = parse(text).joints_by_name["hinge"].limits
    return found.lower, found.upper, found.velocity, found.effort


def test_limits_of_a_million_or_more_mean_unlimited() -> None:
    most = "1.7976931348623157e308"
    for big in ("1e6", most):
        assert limits(limit(f'lower="-{big}" upper="{big}" effort="{big}" velocity="{big}"')) == (
            -math.inf, math.inf, math.inf, math.inf,
        )  # fmt: skip
    assert limits(limit('lower="-999999" upper="999999" effort="999998" velocity="999997"')) == (
        -999999.0, 999999.0, 999997.0, 999998.0,
    )  # fmt: skip
    assert limits(limit('lower="-1e6" upper="-999999" effort="3" velocity="4"'))[:2] == (-math.inf, -999999.0)
    assert limits(limit('lower="999999" upper="1e6" effort="3" velocity="4"'))[:2] == (999999.0, math.inf)


def test_zero_velocity_limits_mean_unlimited_and_zero_effort_only_with_them() -> None:
    assert limits(limit('lower="-1" upper="2" effort="0" velocity="0"')) == (-1.0, 2.0, math.inf, math.inf)
    assert limits(limit('lower="-1" upper="2" effort="3" velocity="0"')) == (-1.0, 2.0, math.inf, 3.0)
    assert limits(limit('lower="-1" upper="2" effort="0" velocity="4"')) == (-1.0, 2.0, 4.0, 0.0)
    assert limits(limit('effort="3" velocity="4"')) == (-math.inf, math.inf, 4.0, 3.0)
    assert limits(limit('lower="-1" effort="3" velocity="4"')) == (-1.0, 0.0, 4.0, 3.0)
    wheel = pendulum(f'{AXIS}<limit lower="-1" upper="1" effort="3" velocity="4"/>', kind="continuous")
    assert limits(wheel) == (-math.inf, math.inf, 4.0, 3.0)
    assert limits(pendulum(AXIS)) == limits(pendulum(AXIS, kind="continuous")) == (-math.inf, *[math.inf] * 3)


def test_omitted_values_have_the_defaults_of_the_specification() -> None:
    joint = parse(pendulum(f'{LIMIT}<mimic joint="hinge"/>')).joints_by_name["hinge"]
    assert (
        joint.axis.tolist()
        == parse(pendulum(f"<axis/>{LIMIT}")).joints_by_name["hinge"].axis.tolist()
        == [1.0, 0.0, 0.0]
    )
    assert joint.mimic is not None and (joint.mimic.multiplier, joint.mimic.offset) == (1.0, 0.0)
    assert (joint.damping, joint.friction, joint.armature, joint.at_home, joint.loop) == (0.0, 0.0, 0.0, 0.0, None)
    assert joint.placement.homogeneous.tolist() == np.eye(4).tolist()
    assert not joint.independent and parse(pendulum()).joints_by_name["hinge"].independent
    turned = parse(origin('rpy="0 0 1"')).joints_by_name["hinge"].placement
    moved = parse(origin('xyz="0 0 1"')).joints_by_name["hinge"].placement
    assert turned.translation.tolist() == [0.0, 0.0, 0.0] and moved.rotation.tolist() == np.eye(3).tolist()
    np.testing.assert_array_equal(turned.rotation, rotation_from_rpy(0.0, 0.0, 1.0))
    fixed = parse(pendulum('<axis xyz="0 0 0"/><mimic joint="x"/><limit effort="-1"/>', kind="fixed")).joints_by_name[
        "hinge"
    ]
    assert fixed.mimic is None and fixed.limits.effort == math.inf
    tree = parse(pendulum().replace(' name="pendulum"', ""))
    assert tree.name == "robot" and tree.root.name == "base" and tree.root.inertial is None
    assert [j.name for j in tree.children["base"]] == ["hinge"] and tree.children["arm"] == ()
    assert tree.parent_joint["arm"].name == "hinge"


def read_color(material: str, known: str = "", tag: str = "visual") -> object:
    link = f'{INERTIAL}<{tag}><geometry><sphere radius="1"/></geometry>{material}</{tag}>'
    found = parse(pendulum(link=link, extra=known)).links_by_name["arm"]
    (one,) = found.visuals or found.collisions
    return one.rgba


def test_color_of_an_element_takes_precedence_over_its_named_material() -> None:
    red, blue = '<color rgba="1 0 0 0.5"/>', '<color rgba="0 0 1 1"/>'
    known = f'<material name="m">{blue}</material>'
    assert read_color(f'<material name="m">{red}</material>', known) == (1.0, 0.0, 0.0, 0.5)
    assert read_color('<material name="m"/>', known) == (0.0, 0.0, 1.0, 1.0)
    assert read_color('<material name="n"/>', known) is read_color("", known) is None
    assert read_color('<material name="m"><color/></material>') == (0.5, 0.5, 0.5, 1.0)
    assert read_color('<material name="m"/>', known, "collision") is None


def test_visual_and_collision_shapes_keep_their_placements() -> None:
    both = (
        '<visual><origin xyz="1 2 3"/><geometry><box size="1 2 3"/></geometry></visual>'
        '<collision><origin xyz="3 2 1"/><geometry><capsule radius="1" length="2"/></geometry></collision>'
    )
    link = parse(pendulum(link=INERTIAL + both)).links_by_name["arm"]
    assert [v.shape for v in link.visuals] == [BoxShape((1.0, 2.0, 3.0))]
    assert [c.shape for c in link.collisions] == [CapsuleShape(1.0, 2.0)]
    assert link.visuals[0].placement.translation.tolist() == [1.0, 2.0, 3.0]
    assert link.collisions[0].placement.translation.tolist() == [3.0, 2.0, 1.0]


@pytest.mark.parametrize(
    ("make", "most", "expected"),
    [
        (
            lambda n: chain(n + 1),
            128,
            '<text>:1: <joint name="j128">: the chain of joints from the root to this joint has more than 128 '
            "joints; shorten the chain",
        ),
        (star, 2000, "<text>: the file has 2001 links, but at most 2000 are accepted"),
        pytest.param(
            lambda n: pendulum(link=INERTIAL + '<visual><geometry><sphere radius="1"/></geometry></visual>' * n),
            20_000,
            "<text>: the file has 20001 <visual> and <collision> elements, but at most 20000 are accepted",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_files_up_to_the_stated_size_are_read_and_larger_ones_are_not(make, most: int, expected: str) -> None:
    assert isinstance(parse(make(most)), Tree)
    with pytest.raises(qd.ModelError) as caught:
        parse(make(most + 1))
    assert str(caught.value) == expected


def test_number_and_nesting_depth_of_elements_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert xml_reader.MAX_ELEMENTS == 200_000
    most = 200_000 if NIGHT else 2_000
    monkeypatch.setattr(xml_reader, "MAX_ELEMENTS", most)
    assert len(read_xml("<a>" * 63 + "<b/>" + "</a>" * 63, "f").children_with_tag("a")) == 1
    with pytest.raises(qd.ModelError, match=r"<b>: elements are nested more than 64 deep; reduce the nesting$"):
        read_xml("<a>" * 64 + "<b/>" + "</a>" * 64, "f")
    assert len(read_xml(f"<r>{'<a/>' * (most - 1)}</r>", "f").children) == most - 1
    with pytest.raises(
        qd.ModelError,
        match=rf"f:1: <a>: the file has more than {most} elements, which is not accepted; remove elements "
        "that are not needed$",
    ):
        read_xml(f"<r>{'<a/>' * most}</r>", "f")


def test_documents_are_read_up_to_sixteen_megabytes() -> None:
    most = 16 * 1024 * 1024
    assert read_xml(b"<r/>" + b" " * (most - 4), "f").tag == "r"
    for text in (b"<r/>" + b" " * (most - 3), "<r/>" + " " * (most - 3)):
        with pytest.raises(qd.ModelError) as caught:
            read_xml(text, "f")
        assert str(caught.value) == (
            "f: the file has 16777217 bytes, but at most 16777216 are accepted; move meshes into separate files"
        )


def test_long_texts_are_truncated_and_long_words_are_shortened() -> None:
    (short, long) = read_xml(f"<r><a>12&amp;3</a><a>{'x' * 200}</a></r>", "f")
    assert short.text == "12&3" and long.text == "x" * 64
    pieces = "".join(f"{'y' * 40}<!-- -->" for _ in range(3))
    assert read_xml(f"<r>{pieces}</r>", "f").text == "y" * 80
    assert shorten("x" * 400) == "x" * 400
    assert shorten("a" * 200 + "b" * 101 + "c" * 100) == f"{'a' * 200} ... {'c' * 100}"
    assert shorten("abcdefghi", 8) == "abcd ... hi"


def test_elements_are_equal_only_if_their_whole_content_is_equal() -> None:
    one, *others = read_xml(
        '<r><a x="1" y="2"><b/><c/></a><a y="2" x="1"> <b/>t<c/></a><a x="1" y="2"><b/><d/></a><a x="1" y="2"><b/></a>'
        '<a x="1"><b/><c/></a><b x="1" y="2"><b/><c/></b></r>',
        "f",
    )
    assert [one.equals(other) for other in others] == [True, False, False, False, False]


def test_findings_are_in_line_order() -> None:
    text = pendulum(f'<axis xyz="0 2 0"/>{LIMIT}', extra="\n<odd/>").replace("<link", "\n<link", 1)
    assert [finding.where.line for finding in parse(text).findings] == [2, 3]


@pytest.mark.parametrize("axis", [(0, 0, 1), (0, 0, -1), (1, 0, 0), (0, -1, 0), (0.6, 0, -0.8), (-0.48, 0.6, 0.64)])
def test_rotation_of_z_to_an_axis_is_the_smallest(axis: tuple[float, float, float]) -> None:
    R = rotation_of_z_to(np.array(axis, dtype=float))
    np.testing.assert_allclose(R[:, 2], axis, atol=1e-15)
    np.testing.assert_allclose(R @ R.T, np.eye(3), atol=1e-15)
    assert np.linalg.det(R) == pytest.approx(1.0)
    assert np.trace(R) == pytest.approx(1.0 + 2.0 * axis[2])  # the angle is that between z and the axis
    assert not R.flags.writeable


def test_loops_are_read_with_their_frames() -> None:
    (one,) = parse(loop(ENDS)).loops
    assert (one.kind, one.link_a, one.link_b, one.dependent) == ("point", "base", "arm", ())
    assert one.placement_a.homogeneous.tolist() == np.eye(4).tolist()
    assert one.placement_b.translation.tolist() == [1.0, 2.0, 3.0]
    (default,) = parse(loop(ENDS, "revolute")).loops
    assert default.kind == "revolute" and default.placement_a.rotation[:, 2] == pytest.approx([1.0, 0.0, 0.0])
    ends = ENDS.replace('link="arm"', 'link="arm" rpy="0 0 1"')
    (turned,) = parse(loop(ends + '<axis xyz="0 3 0"/>', "continuous")).loops
    assert turned.placement_a.rotation[:, 2] == pytest.approx([0.0, 1.0, 0.0])
    assert turned.placement_b.rotation[:, 2] == pytest.approx(rotation_from_rpy(0.0, 0.0, 1.0)[:, 1])
    (weld,) = parse(loop(ENDS, "fixed").replace('type="fixed"', 'type="fixed" dependent=" a  b "')).loops
    assert weld.kind == "weld" and weld.dependent == ("a", "b")
    ball = BALL + '<ball_constraint_body_B name="arm"/><ball_constraint_p_BQ value="1 0 0"/>'
    first, second = parse(tag(f"<ball_constraint>{ball}</ball_constraint>" * 2)).loops
    assert (first.name, second.name) == ("ball_constraint_1", "ball_constraint_2")
    assert (first.link_a, first.link_b, first.kind) == ("base", "arm", "point")
    assert first.placement_a.translation.tolist() == [0.0, 0.0, 1.0]
    assert first.placement_b.translation.tolist() == [1.0, 0.0, 0.0]


def transmissions(*texts: str) -> list[tuple[str, float]]:
    tags = "".join(f"<transmission>{text}</transmission>" for text in texts)
    return [(each.joints[0], each.ratios[0][0]) for each in parse(tag(tags)).transmissions]


def test_transmissions_of_one_joint_and_one_motor_are_read() -> None:
    def gear(value: str) -> str:
        return f"<mechanicalReduction>{value}</mechanicalReduction>"

    joint = '<joint name="hinge"/>'
    assert transmissions(f"{joint}<actuator>{gear('5')}</actuator>") == [("hinge", 5.0)]
    assert transmissions(f'<joint name="hinge">{gear("-2")}</joint><actuator>{gear("5")}</actuator>') == [
        ("hinge", 5.0)
    ]
    assert transmissions(f"{joint}{gear('1e-3')}") == [("hinge", 1e-3)]
    assert transmissions(joint) == [("hinge", 1.0)]
    for odd in ("0", "x", "inf", "nan"):
        assert transmissions(f"{joint}{gear(odd)}", f"{joint}{gear('3')}") == [("hinge", 3.0)]
    assert transmissions("<joint/>", joint * 2, f"{joint}<actuator/><actuator/>", "<actuator/>") == []
    assert transmissions(f"{joint}{gear('2')}", f"{joint}{gear('2')}") == [("hinge", 2.0)]


def test_disabled_pairs_of_an_srdf_are_read_in_order(tmp_path: Path) -> None:
    text = '<robot name="r"><disable_collisions link1="a" link2="b" reason="Never"/><group/>{}</robot>'
    pairs = text.format('<disable_collisions link1="b" link2="c"/>')
    file = tmp_path / "r.srdf"
    file.write_text(pairs, encoding="utf-8")
    assert disabled_collisions(pairs) == disabled_collisions(file) == disabled_collisions(f"\n{pairs}")
    assert disabled_collisions(pairs) == (("a", "b", "Never"), ("b", "c", ""))
    with pytest.raises(qd.ModelError) as caught:
        disabled_collisions(text.format('<disable_collisions link1="b"/>'))
    assert (
        str(caught.value)
        == "<text>:1: <disable_collisions>: expected the attributes link1 and link2, got {'link1': 'b'}"
    )
    for tag in ("group", "sdf"):
        file.write_text(f"<{tag}/>", encoding="utf-8")
        with pytest.raises(qd.ModelError) as caught:
            disabled_collisions(file)
        assert str(caught.value) == f"{file}: expected <robot>, got <{tag}>; is this an SRDF?"


def test_pairs_disabled_by_default_in_an_srdf_can_be_enabled() -> None:
    text = '<robot name="r">{}</robot>'
    default = text.format(
        '<disable_default_collisions link="b"/><enable_collisions link1="c" link2="b"/><joint_property/>'
    )
    assert disabled_collisions(default, "abc") == (("b", "a", "by default"),)
    for odd, says in (
        ('<disable_colisions link1="a" link2="b"/>', "did you mean <disable_collisions>?"),
        ('<Enable_Collisions link1="a" link2="b"/>', "did you mean <enable_collisions>?"),
        ('|disable_collisions link1="a" link2="b"/>', "text was found outside of all elements: '|disable_collisions"),
        ("<disable_default_collisions/>", "expected the attributes link, got {}"),
    ):
        with pytest.raises(qd.ModelError) as caught:
            disabled_collisions(text.format(odd))
        assert says in str(caught.value)


def test_mesh_names_are_searched_up_to_their_length_limits(tmp_path: Path) -> None:
    finder = MeshFinder(tmp_path, [])
    (tmp_path / "a.stl").touch()
    here = (tmp_path / "a.stl", tmp_path, "")
    no_file = (None, None, "this is not a file name")
    none = (None, None, "the file is not in the package roots")
    assert finder.find("a.stl") == finder.find("./" * 64 + "a.stl") == finder.find(str(here[0])) == here
    assert finder.find("./" * 65 + "a.stl") == finder.find("a.stl\0") == finder.find("x" * 4097) == no_file
    assert finder.find("x" * 4096) == (None, None, "the file cannot be opened: File name too long") or (
        finder.find("x" * 4096) == none
    )
    assert (
        finder.find(".") == none and finder.find("..")[2] == "the file is outside the package roots and is not opened"
    )
    assert finder.find("http://a.stl") == finder.find("package://") == finder.find("file://") == none
    assert finder.find("package:///a.stl") == finder.find("file://a.stl") == finder.find("file:a.stl") == here
    assert finder.find(f"file://{here[0]}") == here
    assert finder.find(f"package://{tmp_path.name}/a.stl") == finder.find(f"model://{tmp_path.name}/a.stl") == here
    folder = tmp_path / "deep" / "er"
    folder.mkdir(parents=True)
    other = MeshFinder(folder, [tmp_path])
    assert other.roots == (tmp_path, folder) and MeshFinder(None, []).roots == ()
    assert other.find("../../a.stl")[2] == "" and MeshFinder(folder, []).find("../../a.stl")[2] == (
        "the file is outside the package roots and is not opened"
    )
    assert (
        MeshFinder(folder, []).find("package://deep/../a.stl")[2]
        == "the file is outside the package roots and is not opened"
    )
    (folder / "link.stl").symlink_to("own.stl")
    (folder / "own.stl").touch()
    assert other.find("link.stl") == (folder / "own.stl", tmp_path, "")


def test_inertia_is_rotated_into_the_axes_of_the_link() -> None:
    link = (
        '<inertial><origin xyz="0.1 0 0" rpy="0 0 0.5"/><mass value="2"/>'
        '<inertia ixx="1" ixy="0" ixz="0" iyy="2" iyz="0" izz="2.5"/></inertial>'
    )
    inertial = parse(pendulum(link=link)).links_by_name["arm"].inertial
    c, s = np.cos(0.5), np.sin(0.5)
    expected = [[c * c + 2 * s * s, -c * s, 0], [-c * s, s * s + 2 * c * c, 0], [0, 0, 2.5]]
    assert inertial is not None and inertial.inertia == pytest.approx(np.array(expected), abs=1e-15)
