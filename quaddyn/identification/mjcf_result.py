"""Identified parameters as attributes of an MJCF: inertias of bodies, damping, friction loss and armature of joints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from xml.etree.ElementTree import Element, indent, tostring  # for writing only

import defusedxml.ElementTree
import numpy as np

from ..errors import ArgumentError, ModelError
from ..robot.robot import Robot
from ..simulation import Actuators
from ..simulation.mujoco_model import body_name, make_specification
from ..urdf.tree import Array, Inertial, Pose

#: Attributes of a joint for viscous friction, Coulomb friction and rotor inertia.
LOSS_ATTRIBUTES = ("damping", "frictionloss", "armature")


def write_mjcf(robot: Robot, losses: Mapping[str, Array]) -> str:
    """Returns a robot as MJCF without meshes, with the inertias of its bodies.

    Args:
        robot: the robot.
        losses: by joint (3,) viscous friction, Coulomb friction and rotor inertia in SI units.

    Raises:
        ModelError: MuJoCo is not installed, or rejects the robot.
    """
    specification = make_specification(robot, (), Actuators(robot), joint_stops=True)
    specification.compile()
    bodies = {body_name(body): (body.inertial, Pose.identity()) for body in robot.bodies if body.inertial.mass > 0.0}
    return _write(specification.to_xml(), bodies, (), losses)


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
