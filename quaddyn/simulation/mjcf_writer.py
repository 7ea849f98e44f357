"""MJCF documents of robots: `write_mjcf` writes a new one, `update_mjcf` replaces values in an existing one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from xml.etree.ElementTree import Element, SubElement, indent, tostring

import defusedxml.ElementTree
import numpy as np

from ..errors import ArgumentError, ModelError
from ..robot.robot import Robot
from ..urdf.tree import (
    Array,
    BoxShape,
    CapsuleShape,
    CylinderShape,
    Geometry,
    Inertial,
    MeshShape,
    Pose,
    SphereShape,
)
from .actuators import Actuators
from .mujoco_model import body_name, make_coordinate_map, make_specification, mujoco_quaternion

#: Attributes of a joint for viscous friction, Coulomb friction and rotor inertia.
LOSS_ATTRIBUTES = ("damping", "frictionloss", "armature")


#: Attributes of geoms that are only drawn, and of those that only collide, as MuJoCo's own models have them.
VISUAL = {"group": "2", "contype": "0", "conaffinity": "0"}
COLLISION = {"group": "3"}


def write_mjcf(
    robot: Robot, losses: Mapping[str, Array] | None = None, *, mesh_files: Mapping[MeshShape, str] | None = None
) -> str:
    """Returns a robot as MJCF, with all digits of its numbers.

    The document contains bodies, joints with limits, friction and rotor inertia, motors with effort limits, closed
    loops, mimic joints and the home configuration as keyframe "home".  MJCF has no velocity limits.

    Args:
        robot: the robot.
        losses: by joint (3,) viscous friction, Coulomb friction and rotor inertia in SI units; None: those of the
            robot.
        mesh_files: file of each mesh (.stl or .obj), relative to the folder of the document; meshes that are missing
            are left out.  None: without links that are attached to others, and without shapes.

    Raises:
        ModelError: MuJoCo is not installed, or rejects the robot.
    """
    joints = {body.joint.name: body.joint for body in robot.bodies if body.joint is not None}
    if losses is None:
        losses = {
            name: np.array([joint.damping, joint.friction, joint.armature])
            for name, joint in joints.items()
            if joint.nv == 1
        }
    specification = make_specification(robot, (), Actuators(robot), joint_stops=True)
    model = specification.compile()
    inertials = {body_name(body): (body.inertial, Pose.identity()) for body in robot.bodies if body.inertial.mass > 0.0}
    root = _parse(_write(specification.to_xml(), inertials, (), losses))
    elements = {element.get("name"): element for element in root.iter("body")}
    files = mesh_files or {}
    assets = Element("asset")
    names = {
        shape: SubElement(assets, "mesh", name=f"mesh {i}", file=file, scale=_text(shape.scale)).get("name", "")
        for i, (shape, file) in enumerate(files.items())
    }
    for body in robot.bodies:
        element = elements[body_name(body)]
        _place(element, body.placement)
        for joint in element.findall("joint"):  # MuJoCo writes six digits
            own = joints.get(joint.get("name", ""))
            if own is not None and own.nv == 1:
                joint.set("axis", _text(own.axis))
                if joint.get("range") is not None:
                    q = robot.configuration_index(own.name)
                    joint.set("range", _text(np.clip([robot.lower[q], robot.upper[q]], -1e6, 1e6)))
        if mesh_files is None:
            continue
        for link, placement in body.links:
            owner = element
            if link.name != body.name:  # a body without a joint, which keeps the name and frame of the link
                owner = SubElement(element, "body", name=link.name)
                _place(owner, placement)
            own_placement = placement if owner is element else Pose.identity()
            for geometries, attributes in ((link.visuals, VISUAL), (link.collisions, COLLISION)):
                for geometry in geometries:
                    _add_geom(owner, geometry, own_placement, names, attributes)
    for motor, effort in zip(root.iter("general"), Actuators(robot).effort.tolist(), strict=True):
        if motor.get("forcerange") is not None:
            motor.set("forcerange", _text([-effort, effort]))
    if len(assets):
        root.insert(1, assets)
    qpos = np.array(model.qpos0)
    make_coordinate_map(model, robot).to_mujoco(robot.q_home, np.zeros(robot.nv), qpos, np.zeros(model.nv))
    SubElement(SubElement(root, "keyframe"), "key", name="home", qpos=_text(qpos))
    indent(root)
    return tostring(root, encoding="unicode") + "\n"


def _text(numbers: Any) -> str:
    """Returns numbers as the text of an attribute, with all digits."""
    return " ".join(map(repr, np.asarray(numbers, dtype=np.float64).tolist()))


def _place(element: Element, placement: Pose) -> None:
    """Sets the placement of a body."""
    element.set("pos", _text(placement.translation))
    element.set("quat", _text(mujoco_quaternion(placement.rotation)))


def _add_geom(
    owner: Element, geometry: Geometry, placement: Pose, names: Mapping[MeshShape, str], attributes: Mapping[str, str]
) -> None:
    """Adds a shape as a geom, at a placement in the body; meshes without a name are left out."""
    match shape := geometry.shape:
        case SphereShape():
            kind = {"type": "sphere", "size": _text([shape.radius])}
        case BoxShape():
            kind = {"type": "box", "size": _text(0.5 * np.array(shape.size))}
        case CylinderShape():
            kind = {"type": "cylinder", "size": _text([shape.radius, 0.5 * shape.length])}
        case CapsuleShape():
            kind = {"type": "capsule", "size": _text([shape.radius, 0.5 * shape.length])}
        case MeshShape():
            if shape not in names:
                return
            kind = {"type": "mesh", "mesh": names[shape]}
    geom = SubElement(owner, "geom", {**kind, **attributes})
    _place(geom, placement @ geometry.placement)
    if geometry.rgba is not None:
        geom.set("rgba", _text(geometry.rgba))


def update_mjcf(
    document: bytes | str, robot: Robot, inertials: Mapping[str, Inertial], losses: Mapping[str, Array]
) -> str:
    """Returns an MJCF with other inertias and joint attributes; all else is unchanged, apart from comments.

    The inertia of bodies without joints is that of the body that carries them.

    Args:
        document: the MJCF from which the robot was loaded, in one file.
        robot: the robot.
        inertials: inertias of composite bodies of the robot, by name, in the axes of their joint frames.
        losses: by joint (3,) viscous friction, Coulomb friction and rotor inertia in SI units.

    Raises:
        ArgumentError: a body or joint of the robot is not in the document.
    """
    root = _parse(document)
    names = {element.get("name") for element in root.iter("body")}
    bodies: dict[str, tuple[Inertial, Pose]] = {}
    merged = []
    for body in robot.bodies:
        if body.name not in inertials or inertials[body.name].mass <= 0.0:
            continue
        own = [(link.name, placement) for link, placement in body.links if link.name in names]
        if not own:
            raise ArgumentError(
                f"source: the MJCF has no body {body.name!r}; expected the file from which {robot.name!r} was loaded, "
                "without <include> and <attach>"
            )
        bodies[own[0][0]] = inertials[body.name], own[0][1]
        merged += [name for name, _ in own[1:]]
    return _write(tostring(root, encoding="unicode"), bodies, merged, losses)


def _parse(document: bytes | str) -> Any:
    try:
        return defusedxml.ElementTree.fromstring(document, forbid_dtd=True)
    except (defusedxml.ElementTree.ParseError, defusedxml.DefusedXmlException, ValueError) as error:
        raise ModelError(f"source: the MJCF is not valid XML: {error}") from None


def _write(
    document: str,
    bodies: Mapping[str, tuple[Inertial, Pose]],
    merged: list[str] | tuple[()],
    losses: Mapping[str, Array],
) -> str:
    """Writes inertias, given with the placement of the MJCF body in their frame, and joint attributes.

    The inertia of the bodies `merged` becomes zero.
    """
    root, missing = _parse(document), set(losses)
    for compiler in root.iter("compiler"):
        if compiler.get("inertiafromgeom") == "true":  # it would replace the inertias
            compiler.set("inertiafromgeom", "auto")
    for element in root.iter("body"):
        name = element.get("name", "")
        if name in bodies or name in merged:
            for old in element.findall("inertial"):
                element.remove(old)
            element.insert(0, _inertial_element(*bodies[name]) if name in bodies else _no_inertia())
        for joint in element.findall("joint"):
            joint_name = joint.get("name") or f"{name}_joint"
            if joint_name in losses:
                missing.discard(joint_name)
                for attribute, value in zip(LOSS_ATTRIBUTES, losses[joint_name].tolist(), strict=True):
                    joint.set(attribute, repr(value))
    if missing:
        raise ArgumentError(
            f"source: the MJCF has no joint {min(missing)!r}; expected the file from which the robot was loaded, "
            "without <include> and <attach>"
        )
    indent(root)
    return tostring(root, encoding="unicode") + "\n"


def _inertial_element(inertial: Inertial, placement: Pose) -> Element:
    """Returns the <inertial> of an inertia, expressed in a frame at `placement`."""
    rotation = placement.rotation
    com = rotation.T @ (inertial.com - placement.translation)
    moments = rotation.T @ inertial.inertia @ rotation
    upper = [moments[i, j] for i, j in ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))]
    values = {"pos": com.tolist(), "mass": [float(inertial.mass)], "fullinertia": np.array(upper).tolist()}
    return Element("inertial", {name: " ".join(map(repr, numbers)) for name, numbers in values.items()})


def _no_inertia() -> Element:
    return Element("inertial", {"pos": "0 0 0", "mass": "0", "diaginertia": "0 0 0"})
