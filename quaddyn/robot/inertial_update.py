"""`with_inertials`: a robot with other inertias, friction and rotor inertia, and the URDF with these values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any
from xml.etree import ElementTree  # for writing only; documents are read by `quaddyn.urdf`

import defusedxml.ElementTree
import numpy as np

from ..urdf.tree import LIMITS, Array, Inertial, frozen
from . import validation
from .bodies import merge_fixed_links
from .model import add_feet, build_pinocchio_model, independent_joint_losses
from .robot import Robot

#: Friction and rotor inertia of a joint, in the order of parameters.
LOSSES = ("damping", "friction", "armature")
NO_LOSSES: Mapping[str, Array] = MappingProxyType({})


def with_inertials(
    robot: Robot, inertials: Mapping[str, Inertial], losses: Mapping[str, Array] = NO_LOSSES, *, said: str
) -> Robot:
    """Returns `robot` with other inertias, friction and rotor inertia; everything else is unchanged.

    Args:
        robot: the robot.
        inertials: inertias of composite bodies by name, in the axes of their links; the others are unchanged.
        losses: by joint (3,) viscous friction, Coulomb friction and rotor inertia; the others are unchanged.
        said: origin of the values, for the report.

    Raises:
        ModelError: these values are physically impossible.
    """
    tree, inertials = robot.tree, {body.name: body.inertial for body in robot.bodies} | dict(inertials)
    links = [replace(link, inertial=inertials.get(link.name)) for link in tree.links]
    joints = []
    for joint in tree.joints:
        if joint.name in losses:
            damping, friction, armature = losses[joint.name].tolist()
            joint = replace(joint, damping=damping, friction=friction, armature=armature)
        joints.append(joint)
    new = replace(tree, links=tuple(links), joints=tuple(joints))
    bodies = merge_fixed_links(new)
    validation.validate_inertias(bodies, free=robot.root != "fixed", allow_massless=True)
    model = build_pinocchio_model(new, robot.root)
    add_feet(model, [leg.foot for leg in robot.legs.values()])
    if robot.coupling is None:
        validation.validate_model(model, tree.file)
    else:
        validation.validate_model(model, tree.file, robot.coupling, robot.q_home)
    report = robot.report
    provenance = {**report.provenance, **{f"{name}.{what}": said for name in losses for what in LOSSES}}
    damping, friction, armature = independent_joint_losses(model, robot.coupling)
    found = replace(
        robot, tree=new, bodies=bodies, model=model, damping=frozen(damping), friction=frozen(friction),
        armature=frozen(armature),
        report=replace(report, provenance=provenance),
    )  # fmt: skip
    return replace(found, source=_update_document(found, inertials))


def _update_document(robot: Robot, inertials: Mapping[str, Inertial]) -> str:
    """Returns the document with the present values; links fixed to another link lose their inertia to it."""
    root: Any = defusedxml.ElementTree.fromstring(robot.source, forbid_dtd=True)
    for link in root.iter("link"):
        for old in link.findall("inertial"):
            link.remove(old)
        found = inertials.get(link.get("name", ""))
        if found is not None and found.mass > 0.0:
            link.insert(0, _inertial_element(found))
    elements = {joint.get("name"): joint for joint in root.findall("joint")}
    for joint in robot.tree.joints:
        if joint.nv == 1 and joint.name in elements:
            losses = {what: getattr(joint, what) for what in LOSSES}
            if any(losses.values()) or elements[joint.name].find("dynamics") is not None:
                _set_attributes(elements[joint.name], "dynamics", losses)
            given = [k for k in LIMITS if robot.report.provenance.get(f"{joint.name}.{k}") == "argument limits"]
            _set_attributes(elements[joint.name], "limit", {k: getattr(joint.limits, k) for k in given})
    ElementTree.indent(root)
    text: str = ElementTree.tostring(root, encoding="unicode")
    return text + "\n"


def _set_attributes(joint: Any, tag: str, values: Mapping[str, float]) -> None:
    """Sets attributes of an element of a joint; infinite values are removed."""
    if not values:
        return
    element = joint.find(tag)
    if element is None:
        element = ElementTree.SubElement(joint, tag)
    for name, value in values.items():
        if np.isfinite(value):
            element.set(name, repr(float(value)))
        else:
            element.attrib.pop(name, None)


def _inertial_element(inertial: Inertial) -> ElementTree.Element:
    """Returns the <inertial> element of an inertia."""
    out = ElementTree.Element("inertial")
    com_text = " ".join(repr(x) for x in np.asarray(inertial.com).tolist())
    ElementTree.SubElement(out, "origin", {"xyz": com_text, "rpy": "0 0 0"})
    ElementTree.SubElement(out, "mass", {"value": repr(float(inertial.mass))})
    I = inertial.inertia  # noqa: E741  # as every textbook calls it
    axes = {"ixx": (0, 0), "ixy": (0, 1), "ixz": (0, 2), "iyy": (1, 1), "iyz": (1, 2), "izz": (2, 2)}
    ElementTree.SubElement(out, "inertia", {name: repr(float(I[at])) for name, at in axes.items()})
    return out
