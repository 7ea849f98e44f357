"""`with_inertials`: a robot with other inertias, friction and rotor inertia, and the URDF with these values.

`with_payload` adds a payload to a robot.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any
from xml.etree import ElementTree

import defusedxml.ElementTree
import numpy as np

from ..deprecation import renamed_parameters
from ..errors import ArgumentError, ModelError, UnknownNameError
from ..urdf.tree import LIMITS, Array, Inertial, Pose, frozen
from . import validation
from .arguments import check_number, check_vector
from .bodies import combine_inertials, merge_fixed_links
from .model import add_feet, build_pinocchio_model, independent_joint_losses
from .robot import Robot
from .validation import find_payload_unit_errors

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


@renamed_parameters(place="position", size="diameter")
def with_payload(
    robot: Robot,
    mass: float,
    position: Sequence[float] | Array = (0.0, 0.0, 0.0),
    *,
    link: str | None = None,
    diameter: float = 0.0,
) -> Robot:
    """Returns a robot with a ball fixed to one of its links; all else, its home configuration included, is unchanged.

    `Robot.source` contains the payload as well: the inertia of the link there is that of link and ball.

    Args:
        robot: the robot that carries the payload.
        mass: mass of the ball [kg]; negative if the robot is lighter than its file states.
        position: (3,) center of the ball in the axes of the link [m].
        link: name of the link that carries the ball.  None: the root link.
        diameter: diameter of the ball [m], used only for its inertia; 0 for a point mass.

    Returns:
        A new `Robot`; the given one is unchanged.

    Raises:
        ArgumentError: a value that is not finite, or a negative diameter.
        UnknownNameError: no such link.
        ModelError: the total mass and inertia of the link, and of links fixed to it, are physically impossible.

    Warns:
        RuntimeWarning: a mass, distance or diameter so large for the robot that it seems to be in another unit.
    """
    mass, diameter = check_number("mass", mass), check_number("diameter", diameter)
    at = check_vector("position", position, (3,), "in the link's axes")
    if not (np.isfinite(mass) and 0.0 <= diameter < np.inf):
        raise ArgumentError(
            f"mass, diameter: expected a finite mass and a diameter of 0 or more, got {mass}, {diameter}"
        )
    name = robot.bodies[0].name if link is None else link
    carriers = {body_link.name: (body, pose) for body in robot.bodies for body_link, pose in body.links}
    if name not in carriers:
        raise UnknownNameError("link", name, carriers)
    body, pose = carriers[name]
    if mass == 0.0:
        return robot
    body_mass = body.inertial.mass
    if body_mass + mass <= 0.0:
        raise ModelError(
            f"mass: {mass:g} kg would make the total mass zero or negative: link {name!r} and the links fixed to it "
            f"have {body_mass:.4g} kg"
        )
    for text in find_payload_unit_errors(
        robot.tree, mass, {"position": float(np.linalg.norm(at)), "diameter": diameter}
    ):
        warnings.warn(text, RuntimeWarning, stacklevel=3)
    ball = Inertial(mass, frozen(pose.apply(at)), frozen(0.1 * mass * diameter**2 * np.eye(3)))
    whole = combine_inertials(((body.inertial, Pose.identity()), (ball, Pose.identity())))
    try:
        loaded = with_inertials(robot, {body.name: whole}, said="payload")
    except ModelError as error:
        raise ModelError(
            f"mass: with {mass:g} kg at {at.tolist()} m, link {name!r} has an impossible inertia; choose another "
            f"mass, position or diameter ({error})"
        ) from None
    provenance = {**loaded.report.provenance, f"{name}.payload": f"argument mass: {mass:g} kg"}
    return replace(loaded, report=replace(loaded.report, provenance=provenance), poses=robot.poses)
