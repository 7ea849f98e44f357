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
from hypothesis import given
from hypothesis import strategies as st

from quaddyn.urdf import MeshFinder, parse
from quaddyn.urdf.reader import rotation_from_rpy
from quaddyn.urdf.tree import (
    JOINT_NQ,
    JOINT_NV,
    BoxShape,
    CapsuleShape,
    CylinderShape,
    MeshShape,
    Pose,
    SphereShape,
    first_largest,
)

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


def test_inertia_is_rotated_into_the_axes_of_the_link() -> None:
    link = (
        '<inertial><origin xyz="0.1 0 0" rpy="0 0 1.5707963267948966"/><mass value="2"/>'
        '<inertia ixx="1" ixy="0" ixz="0" iyy="2" iyz="0" izz="2.5"/></inertial>'
    )
    inertial = parse(pendulum(link=link)).links_by_name["arm"].inertial
    assert inertial is not None
    assert inertial.mass == 2.0
    assert inertial.com.tolist() == [0.1, 0, 0]
    assert inertial.inertia == pytest.approx(np.diag([2.0, 1.0, 2.5]), abs=1e-15)


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
    for xml, shape in shapes.items():
        link = f'{INERTIAL}<visual><geometry>{xml}</geometry><material name="red"/></visual>'
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
