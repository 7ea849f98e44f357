"""Writes the URDF of a ``pin.Model`` that was built elsewhere."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from xml.etree.ElementTree import Element, SubElement

import numpy as np
import pinocchio as pin

from ..errors import ModelError
from ..urdf.tree import FILE_ANGLE_TOLERANCE, Array

#: Frames that are links of the document, and the kind of joint that holds one.
BODY_FRAME, FIXED_JOINT_FRAME = pin.FrameType.BODY, pin.FrameType.FIXED_JOINT


def write_urdf(model: pin.Model) -> tuple[str, str]:
    """Returns the URDF of a model, and its root: "free" or "fixed".

    Every joint of the model becomes one of the document, with its limits, damping, friction and rotor inertia, and
    every frame of type BODY becomes a link.  The mass properties of a joint are those of the first link on it.

    Args:
        model: joints with one degree of freedom, on a free flyer or a fixed base.

    Raises:
        ModelError: a joint of another kind.
    """
    floats = model.njoints > 1 and model.joints[1].shortname() == "JointModelFreeFlyer"
    robot = Element("robot", name=model.name or "robot")
    links = _body_frames_by_joint(model)
    names = {frame.name for frame in model.frames if frame.type == BODY_FRAME}
    carriers = {}
    for j in range(model.njoints):
        if j == 0 and floats:
            continue
        at_joint_frame = [i for i in links.get(j, []) if model.frames[i].placement.isIdentity(1e-15)]
        carriers[j] = (
            model.frames[at_joint_frame[0]].name if at_joint_frame else _unique_name(f"{model.names[j]}_link", names)
        )
        link = SubElement(robot, "link", name=carriers[j])
        if model.inertias[j].mass > 0.0:
            _inertial_element(link, model.inertias[j])
        for i in links.get(j, []):
            frame = model.frames[i]
            if frame.name != carriers[j]:
                SubElement(robot, "link", name=frame.name)
                _joint_element(
                    robot, _fixed_joint_name(model, i, names), "fixed", carriers[j], frame.name, frame.placement
                )
    for j in range(2 if floats else 1, model.njoints):
        _moving_joint_element(robot, model, j, carriers[model.parents[j]], carriers[j])
    return ElementTree.tostring(robot, encoding="unicode"), "free" if floats else "fixed"


def check_joint_order(given: pin.Model, made: pin.Model, file: str) -> None:
    """Rejects a model whose joint order differs from that of the robot built from it, because q would differ.

    Args:
        given: the model from which the document was written.
        made: the model of the robot.
        file: name of the document, for messages.

    Raises:
        ModelError: the orders differ.
    """
    first = 2 if given.njoints > 1 and given.joints[1].shortname() == "JointModelFreeFlyer" else 1
    for ours, theirs in zip(list(made.names)[first:], list(given.names)[first:], strict=False):
        if ours != theirs:
            raise ModelError(
                f"{file}: the joints are not in the order in which Pinocchio imports a URDF (expected {ours!r}, got "
                f"{theirs!r}); build the model so that the children of each joint are added in the order of their "
                "names"
            )


def _body_frames_by_joint(model: pin.Model) -> dict[int, list[int]]:
    """Returns the frames of type BODY on each joint, in their order."""
    found: dict[int, list[int]] = {}
    for i, frame in enumerate(model.frames):
        if frame.type == BODY_FRAME:
            found.setdefault(frame.parentJoint, []).append(i)
    return found


def _unique_name(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def _fixed_joint_name(model: pin.Model, link: int, names: set[str]) -> str:
    """Returns the name of the fixed joint that holds a link."""
    parent = model.frames[model.frames[link].parentFrame]
    return parent.name if parent.type == FIXED_JOINT_FRAME else _unique_name(f"{model.frames[link].name}_fixed", names)


def _joint_element(robot: Element, name: str, kind: str, parent: str, child: str, placement: pin.SE3) -> Element:
    joint = SubElement(robot, "joint", name=name, type=kind)
    SubElement(joint, "parent", link=parent)
    SubElement(joint, "child", link=child)
    SubElement(
        joint,
        "origin",
        xyz=_format_numbers(placement.translation),
        rpy=_format_numbers(pin.rpy.matrixToRpy(placement.rotation)),
    )
    return joint


def _moving_joint_element(robot: Element, model: pin.Model, j: int, parent: str, child: str) -> None:
    """Writes the j-th joint of the model."""
    joint, name = model.joints[j], model.names[j]
    motion = _joint_axis(model, j)
    if motion is None:
        raise ModelError(
            f"joint {name!r} of the pinocchio.Model: a {joint.shortname()} is not supported; expected revolute and "
            "prismatic joints, after a free flyer or a fixed base"
        )
    kind, axis = motion
    q, v = joint.idx_q, joint.idx_v
    lower, upper = float(model.lowerPositionLimit[q]), float(model.upperPositionLimit[q])
    endless = joint.nq == 2 or not (np.isfinite(lower) and np.isfinite(upper))
    if kind == "revolute" and joint.nq == 2:
        kind = "continuous"
    element = _joint_element(robot, name, kind, parent, child, model.jointPlacements[j])
    SubElement(element, "axis", xyz=_format_numbers(axis))
    limits = {} if endless else {"lower": lower, "upper": upper}
    limits |= {"effort": float(model.upperEffortLimit[v]), "velocity": float(model.upperVelocityLimit[v])}
    SubElement(element, "limit", {what: repr(value) for what, value in limits.items() if np.isfinite(value)})
    losses = {"damping": model.damping[v], "friction": model.upperDryFrictionLimit[v], "armature": model.armature[v]}
    SubElement(element, "dynamics", {what: repr(float(value)) for what, value in losses.items() if value})


def _joint_axis(model: pin.Model, j: int) -> tuple[str, Array] | None:
    """Returns whether a joint is revolute or prismatic, and its axis; None for other joints."""
    joint = model.joints[j]
    if joint.nv != 1 or "Mimic" in joint.shortname() or "Helical" in joint.shortname():
        return None
    data = joint.createData()
    joint.calc(data, pin.neutral(model), np.zeros(model.nv))
    along, about = np.split(np.asarray(data.S).ravel(), 2)
    if not (about.any() or along.any()) or (about.any() and along.any()):
        return None
    axis = about if about.any() else along
    clean = np.where(np.abs(axis) < FILE_ANGLE_TOLERANCE, 0.0, axis)
    return "revolute" if about.any() else "prismatic", clean


def _inertial_element(link: Element, inertia: pin.Inertia) -> None:
    element = SubElement(link, "inertial")
    SubElement(element, "origin", xyz=_format_numbers(inertia.lever), rpy="0 0 0")
    SubElement(element, "mass", value=repr(float(inertia.mass)))
    entries = {"ixx": (0, 0), "ixy": (0, 1), "ixz": (0, 2), "iyy": (1, 1), "iyz": (1, 2), "izz": (2, 2)}
    SubElement(element, "inertia", {name: repr(float(inertia.inertia[at])) for name, at in entries.items()})


def _format_numbers(values: Array) -> str:
    return " ".join(repr(float(x) + 0.0) for x in values)
