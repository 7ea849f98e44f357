"""SRDF files: pairs of links that need no collision check, and named poses."""

from __future__ import annotations

import difflib
import math
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from ..errors import ModelError
from ..safe_files import read_regular_file
from .tree import Array
from .xml import MAX_BYTES, XmlElement, read_xml

#: Elements that say which pairs are looked at, and their attributes (MoveIt's documentation of SRDF).
PAIRS = {
    "disable_collisions": ("link1", "link2"),
    "enable_collisions": ("link1", "link2"),
    "disable_default_collisions": ("link",),
}


@dataclass(frozen=True, slots=True)
class NamedPose:
    """Group state of an SRDF, or keyframe of an MJCF."""

    joints: Mapping[str, float]  # joint positions by joint name [rad or m]
    position: Array | None = None  # (3,) position of a floating base, world [m]; None if it is not given
    orientation: Array | None = None  # (3, 3) rotation matrix of a floating base; None if it is not given


def read_poses(source: str | os.PathLike[str]) -> dict[str, NamedPose]:
    """Returns the ``<group_state>`` elements of an SRDF file by name; states of one name complete each other.

    A joint with seven values is a floating base: its position and its quaternion (x, y, z, w).

    Args:
        source: path of the file, or its text if it begins with "<".

    Raises:
        ModelError: not an SRDF, or a value that is not a number.
        OSError: the file cannot be read.
    """
    states: dict[str, dict[str, list[float]]] = {}
    for state in _read_root(source).children_with_tag("group_state"):
        joints = states.setdefault(state.attrib.get("name", ""), {})
        for joint in state.children_with_tag("joint"):
            try:
                values = [float(x) for x in joint.attrib["value"].split()]
            except (KeyError, ValueError):
                values = []
            if not values or not all(map(math.isfinite, values)):
                given = joint.attrib.get("value")
                raise ModelError(f"{joint.where}: value={given!r}: expected the position of the joint as a number")
            joints[joint.attrib.get("name", "")] = values
    out = {}
    for name, joints in states.items():
        base = next((x for x in joints.values() if len(x) == 7 and math.hypot(*x[3:]) > 0.5), None)
        single = {joint: x[0] for joint, x in joints.items() if len(x) == 1}
        if base is None:
            out[name] = NamedPose(single)
            continue
        x, y, z, w = np.array(base[3:]) / math.hypot(*base[3:])
        K = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
        out[name] = NamedPose(single, np.array(base[:3]), np.eye(3) + 2.0 * w * K + 2.0 * K @ K)
    return out


def disabled_collisions(
    source: str | os.PathLike[str], links: Collection[str] = ()
) -> tuple[tuple[str, str, str], ...]:
    """Returns the pairs of links that an SRDF file excludes from collision checks.

    These are the pairs of ``<disable_collisions link1 link2 reason>``, and of ``<disable_default_collisions link>``
    with all other links, less those of ``<enable_collisions link1 link2>``.

    Args:
        source: path of the file, or its text if it begins with "<".
        links: all links of the robot.

    Returns:
        One (link, link, reason) per pair, the reason "" where the file gives none.

    Raises:
        ModelError: not an SRDF, an element without links, or one whose name is nearly that of one of these.
        OSError: the file cannot be read.
    """
    root = _read_root(source)
    out: dict[frozenset[str], tuple[str, str, str]] = {}
    for each in root:
        if each.tag in PAIRS:
            continue
        near = difflib.get_close_matches(each.tag.lower(), PAIRS, 1, 0.8)
        if near or {"link1", "link2"} <= set(each.attrib):
            meant = near[0] if near else "disable_collisions"
            raise ModelError(f"{each.where}: the element is unknown in SRDF; did you mean <{meant}>?")
    for each in root.children_with_tag("disable_default_collisions"):
        (link,) = _read_links(each)
        for other in links:
            if other != link:
                out[frozenset((link, other))] = link, other, "by default"
    for each in root.children_with_tag("disable_collisions"):
        one, two = _read_links(each)
        out[frozenset((one, two))] = one, two, each.attrib.get("reason", "")
    for each in root.children_with_tag("enable_collisions"):
        out.pop(frozenset(_read_links(each)), None)
    return tuple(out.values())


def _read_root(source: str | os.PathLike[str]) -> XmlElement:
    """Returns the root element of an SRDF file or text."""
    if isinstance(source, str) and source.lstrip().startswith("<"):
        root, file = read_xml(source, "<text>"), "<text>"
    else:
        root, file = read_xml(read_regular_file(source, MAX_BYTES), str(source)), str(source)
    if root.tag != "robot":
        raise ModelError(f"{file}: expected <robot>, got <{root.tag}>; is this an SRDF?")
    if root.text.strip():
        raise ModelError(
            f"{file}: text was found outside of all elements: {root.text.strip()[:40]!r}; is a '<' missing?"
        )
    return root


def _read_links(element: XmlElement) -> tuple[str, ...]:
    keys = PAIRS[element.tag]
    found = tuple(element.attrib.get(key, "") for key in keys)
    if not all(found):
        raise ModelError(f"{element.where}: expected the attributes {' and '.join(keys)}, got {element.attrib}")
    return found
