"""Independent second reader of URDF, written from its specification only, to detect errors of the package's own reader.

It reads the data of dynamics - links, inertials, joints, axes, limits, and the tags that close kinematic loops - and
rejects elements that it does not support.
It does not check whether the numbers are physically plausible.
"""

from __future__ import annotations

import math
import os
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal
from xml.etree.ElementTree import Element, ParseError

import defusedxml.ElementTree
import numpy as np
from defusedxml import DefusedXmlException

from ..errors import ModelError
from .algebra import Array, rigid_motion, roll_pitch_yaw, rotation_to

JOINT_TYPES = ("revolute", "continuous", "prismatic", "fixed", "floating", "planar")

#: Position limits of at least this size [rad or m] are treated as absent.
NO_LIMIT = 1e6

#: Treatment of a joint that mimics another.
Mimic = Literal["follow", "independent", "refuse"]


@dataclass(frozen=True, eq=False)
class LinkDescription:
    """Link: `mass` [kg], `com` (3,) [m], `inertia` (3, 3) about the com in the link's axes [kg m^2].

    `bare` is True if the file gives it neither mass nor shape.
    """

    name: str
    mass: float
    com: Array
    inertia: Array
    bare: bool


@dataclass(frozen=True, eq=False)
class JointDescription:
    """Joint: `T` (4, 4) is its frame in the parent link's; `axis` (3,) a unit vector in the joint frame.

    `lower` and `upper` [rad or m] are infinite where the file gives no range.  `damping` [N m s/rad or N s/m] and
    Coulomb `friction` [N m or N] are zero if the file gives none.

    A joint with a `leader` is at ``gear * q + bias`` if the leader, which has no leader itself, is at q.
    """

    name: str
    type: str
    parent: str
    child: str
    T: Array
    axis: Array
    lower: float
    upper: float
    damping: float
    friction: float
    leader: str | None = None
    gear: float = 1.0
    bias: float = 0.0


@dataclass(frozen=True, eq=False)
class Description:
    """Tree of links, parents before children.

    Depth first, the joints of one link sorted by name: the order of Pinocchio's importer.

    Attributes:
        name: name of the robot.
        links: the links; ``links[0]`` is the root, and ``joints[i]`` carries ``links[i + 1]``.
        joints: the joints.
    """

    name: str
    links: tuple[LinkDescription, ...]
    joints: tuple[JointDescription, ...]


def read_urdf(
    source: str | bytes | os.PathLike[str], *, mimic: Mimic = "refuse", counting: Collection[str] = ()
) -> Description:
    """Reads a URDF.

    Args:
        source: URDF text or bytes, or the path of a file.
        mimic: treatment of a joint that mimics another: "follow" couples it, "independent" ignores the coupling,
            "refuse" raises an error.
        counting: continuous joints that are read as revolute, with unbounded angles, such as those of closed loops.

    Raises:
        ModelError: invalid XML, or a URDF that this reader does not support; the message names the element.
    """
    try:
        robot = defusedxml.ElementTree.fromstring(content(source))
    except (ParseError, DefusedXmlException, OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ModelError(f"reference reader: the file is not readable XML: {reason}") from None
    if robot.tag != "robot":
        raise ModelError(f"reference reader: the root element is <{robot.tag}>, not <robot>")
    links = [_link(e) for e in robot.findall("link")]
    joints = [_joint(e, mimic) for e in robot.findall("joint")]
    joints = [replace(j, type="revolute") if j.type == "continuous" and j.name in counting else j for j in joints]
    return _order_tree(robot.get("name", ""), links, _resolve_mimic_chains(joints))


def content(source: str | bytes | os.PathLike[str]) -> str | bytes:
    """Returns the text or bytes of a URDF: `source` itself, or the content of the file at that path.

    Raises:
        OSError: the file cannot be read.
    """
    if isinstance(source, bytes):
        return source
    if isinstance(source, str) and source.lstrip("\ufeff \t\r\n").startswith("<"):
        return source.lstrip("\ufeff \t\r\n")
    return Path(source).read_bytes()


def _order_tree(name: str, links: list[LinkDescription], joints: list[JointDescription]) -> Description:
    by_name = {x.name: x for x in links}
    children: dict[str, list[JointDescription]] = {x.name: [] for x in links}
    if len(by_name) != len(links) or len({j.name for j in joints}) != len(joints):
        raise ModelError("reference reader: two links or two joints share a name")
    for joint in joints:
        if joint.parent not in by_name or joint.child not in by_name:
            raise ModelError(f"reference reader: joint {joint.name!r} names a link that does not exist")
        children[joint.parent].append(joint)
    carried = [j.child for j in joints]
    roots = [x for x in by_name if x not in set(carried)]
    if len(roots) != 1 or len(set(carried)) != len(carried):
        raise ModelError(
            f"reference reader: the links do not form a tree: the roots are {roots}, or a link has two parents"
        )
    ordered: list[JointDescription] = []
    waiting = sorted(children[roots[0]], key=lambda j: j.name.encode(), reverse=True)
    while waiting:
        joint = waiting.pop()
        ordered.append(joint)
        waiting += sorted(children[joint.child], key=lambda j: j.name.encode(), reverse=True)
    if len(ordered) != len(joints):
        raise ModelError("reference reader: the links do not form a tree: the joints have a cycle")
    return Description(name, (by_name[roots[0]], *(by_name[j.child] for j in ordered)), tuple(ordered))


def _resolve_mimic_chains(joints: list[JointDescription]) -> list[JointDescription]:
    """Resolves chains of mimics to independent leaders, whose ranges are reduced to suit all followers."""
    by_name = {j.name: j for j in joints}

    def end(joint: JointDescription, seen: tuple[str, ...]) -> tuple[str, float, float]:
        if joint.leader is None:
            return joint.name, 1.0, 0.0
        if joint.leader in seen or joint.leader not in by_name or not joint.gear:
            raise ModelError(f"reference reader: joint {joint.name!r} cannot mimic {joint.leader!r}")
        name, gear, bias = end(by_name[joint.leader], (*seen, joint.leader))
        return name, joint.gear * gear, joint.gear * bias + joint.bias

    ends = {j.name: end(j, (j.name,)) for j in joints if j.leader is not None}
    ranges = {j.name: (j.lower, j.upper) for j in joints}
    for follower, (leader, gear, bias) in ends.items():
        if not {by_name[leader].type, by_name[follower].type} <= {"revolute", "continuous", "prismatic"}:
            raise ModelError(f"reference reader: joint {follower!r} cannot mimic {leader!r}")
        low, high = sorted((x - bias) / gear for x in ranges[follower])
        lower, upper = ranges[leader]
        if max(lower, low) < min(upper, high) or lower == upper:
            ranges[leader] = max(lower, low), min(upper, high)
    coupled = {*ends, *(leader for leader, _, _ in ends.values())}
    out = []
    for j in joints:
        lower, upper = ranges[j.name]
        kind = "revolute" if j.type == "continuous" and j.name in coupled else j.type
        j = replace(j, type=kind, lower=lower, upper=upper)
        if j.leader is not None:
            leader, gear, bias = ends[j.name]
            j = replace(j, leader=leader, gear=gear, bias=bias)
        out.append(j)
    return out


def _link(element: Element) -> LinkDescription:
    inertial = element.find("inertial")
    bare = inertial is None and element.find("visual") is None and element.find("collision") is None
    name = required_attribute(element, "name")
    if inertial is None:
        return LinkDescription(name, 0.0, np.zeros(3), np.zeros((3, 3)), bare)
    T, mass, i = _origin(inertial), _child(inertial, "mass"), _child(inertial, "inertia")
    xx, xy, xz, yy, yz, zz = (numbers(i, k, 1)[0] for k in ("ixx", "ixy", "ixz", "iyy", "iyz", "izz"))
    R, own = T[:3, :3], np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    return LinkDescription(name, float(numbers(mass, "value", 1)[0]), T[:3, 3], R @ own @ R.T, bare)


def _joint(element: Element, mimic: Mimic) -> JointDescription:
    name, kind = required_attribute(element, "name"), required_attribute(element, "type")
    if kind not in JOINT_TYPES:
        raise ModelError(f"reference reader: joint {name!r} has the unknown type {kind!r}")
    mimic_element = element.find("mimic") if kind != "fixed" and mimic != "independent" else None
    if mimic_element is not None and mimic == "refuse":
        raise ModelError(f'reference reader: joint {name!r} mimics another joint, which mimic="refuse" rejects')
    parent = required_attribute(_child(element, "parent"), "link")
    child = required_attribute(_child(element, "child"), "link")
    axis = np.array([1.0, 0.0, 0.0])
    given = element.find("axis")
    if given is not None and kind not in ("fixed", "floating"):
        axis = numbers(given, "xyz", 3, (1.0, 0.0, 0.0))
        length = math.hypot(*axis)
        if not length > 0.0:
            raise ModelError(f"reference reader: joint {name!r} has an axis of length {length}")
        axis = axis / length
    lower, upper = -math.inf, math.inf
    limit = element.find("limit")
    if kind in ("revolute", "prismatic") and limit is not None and ("lower" in limit.attrib or "upper" in limit.attrib):
        lower, upper = (float(numbers(limit, k, 1, (0.0,))[0]) for k in ("lower", "upper"))
        lower = lower if abs(lower) < NO_LIMIT else -math.inf
        upper = upper if abs(upper) < NO_LIMIT else math.inf
    damping = friction = 0.0
    dynamics = element.find("dynamics")
    if dynamics is not None and kind not in ("fixed", "floating", "planar"):  # of several degrees: not modelled
        damping, friction = (float(numbers(dynamics, k, 1, (0.0,))[0]) for k in ("damping", "friction"))
    leader, gear, bias = None, 1.0, 0.0
    if mimic_element is not None:
        leader = required_attribute(mimic_element, "joint")
        gear = float(numbers(mimic_element, "multiplier", 1, (1.0,))[0])
        bias = float(numbers(mimic_element, "offset", 1, (0.0,))[0])
    placement = _origin(element)
    return JointDescription(
        name, kind, parent, child, placement, axis, lower, upper, damping, friction, leader, gear, bias
    )


def _origin(element: Element) -> Array:
    """Returns the placement (4, 4) of an element's <origin>."""
    origin = element.find("origin")
    if origin is None:
        return np.eye(4)
    rpy = numbers(origin, "rpy", 3, (0.0, 0.0, 0.0))
    return rigid_motion(roll_pitch_yaw(rpy), numbers(origin, "xyz", 3, (0.0, 0.0, 0.0)))


def _child(element: Element, tag: str) -> Element:
    found = element.find(tag)
    if found is None:
        raise ModelError(f"reference reader: <{element.tag} name={element.get('name')!r}> has no <{tag}>")
    return found


def required_attribute(element: Element, attribute: str) -> str:
    """Returns an attribute that must exist."""
    value = element.get(attribute)
    if not value:
        raise ModelError(f"reference reader: <{element.tag}> has no attribute {attribute!r}")
    return value


def numbers(element: Element, attribute: str, n: int, default: tuple[float, ...] | None = None) -> Array:
    """Returns the finite numbers (n,) of an attribute."""
    text = element.get(attribute)
    if text is None and default is not None:
        return np.array(default)
    try:
        values = np.array([float(word) for word in (text or "").split()])
    except ValueError:
        values = np.array([])
    if values.shape != (n,) or not np.isfinite(values).all():
        raise ModelError(f"reference reader: <{element.tag} {attribute}={text!r}>: expected {n} finite number(s)")
    return values


#: Kind of a loop closure by the type that the file gives.
LOOP_KINDS = {"spherical": "point", "ball": "point", "revolute": "revolute", "continuous": "revolute", "fixed": "weld"}


@dataclass(frozen=True, eq=False)
class LoopDescription:
    """Loop closure between frames (4, 4) on two links: "point", "revolute" (about the frames' z axes) or "weld"."""

    name: str
    kind: str
    link_a: str
    link_b: str
    T_a: Array
    T_b: Array


def read_loops(source: str | bytes | os.PathLike[str]) -> tuple[LoopDescription, ...]:
    """Returns the loop closures of a URDF in the order of the file.

    Raises:
        ModelError: a tag that this reader does not support.
    """
    out = []
    for element in defusedxml.ElementTree.fromstring(content(source)):
        if element.tag == "loop_joint":
            kind = LOOP_KINDS.get(required_attribute(element, "type"))
            ends = [element.find(tag) for tag in ("link1", "link2")]
            if kind is None or None in ends:
                raise ModelError(f"reference reader: loop {element.get('name')!r} has an unsupported form")
            axis_rotation, axis = np.eye(3), element.find("axis")
            if kind == "revolute":
                given = np.array([1.0, 0.0, 0.0]) if axis is None else numbers(axis, "xyz", 3)
                axis_rotation = rotation_to(given / np.sqrt(given @ given))
            links = [required_attribute(end, "link") for end in ends]
            T = [
                rigid_motion(
                    roll_pitch_yaw(numbers(end, "rpy", 3, (0.0, 0.0, 0.0))) @ axis_rotation,
                    numbers(end, "xyz", 3, (0.0, 0.0, 0.0)),
                )
                for end in ends
            ]
            out.append(LoopDescription(required_attribute(element, "name"), kind, links[0], links[1], T[0], T[1]))
        elif str(element.tag).endswith("ball_constraint"):
            parts = {str(child.tag).split("ball_constraint_")[-1]: child for child in element}
            links = [required_attribute(parts[body], "name") for body in ("body_A", "body_B")]
            T = [rigid_motion(np.eye(3), numbers(parts[point], "value", 3)) for point in ("p_AP", "p_BQ")]
            out.append(LoopDescription(f"ball_constraint_{len(out) + 1}", "point", links[0], links[1], T[0], T[1]))
    return tuple(out)
