"""Joints of type ``spherical``, an extension of Bullet: each becomes three hinges, as the ball joints of an MJCF do."""

from __future__ import annotations

import re
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from .tree import Finding, Where
from .xml import read_xml

#: Attribute of a joint of this type, in a document of any encoding that contains ASCII.
_SPHERICAL = re.compile(rb"""type\s*=\s*["']\s*spherical\s*["']""")
#: Axes of the hinges by the suffix of their names, from the parent outward.
_AXES = {"x": "1 0 0", "y": "0 1 0", "z": "0 0 1"}


def has_spherical_joints(data: bytes | str) -> bool:
    """Returns whether a URDF may have joints of type spherical."""
    return _SPHERICAL.search(data.encode(errors="replace") if isinstance(data, str) else data) is not None


def replace_spherical_joints(data: bytes | str, name: str) -> tuple[str | bytes, tuple[Finding, ...]]:
    """Returns the URDF with three continuous joints for each spherical one, and a warning.

    The joint ``J`` becomes ``J_x``, ``J_y`` and ``J_z`` with axes x, y and z of its frame, connected by links without
    mass.  Its effort and velocity limits become those of each hinge; its other limits are left out.

    Raises:
        ModelError: the document is not well-formed XML.
    """
    read_xml(data, name)  # rejects entities and excessive documents
    root = ElementTree.fromstring(data, ElementTree.XMLParser(target=ElementTree.TreeBuilder(insert_comments=True)))
    balls = [joint for joint in root.findall("joint") if joint.get("type", "").strip() == "spherical"]
    for joint in balls:
        _replace_joint(root, joint)
    if not balls:
        return data, ()
    names = ", ".join(joint.get("name", "").rpartition("_")[0] for joint in balls[:4]) + (", ..." if balls[4:] else "")
    reason = (
        f"type='spherical' is an extension of Bullet: the {len(balls)} joints ({names}) become three hinges each, "
        "about x, y and z, without position limits; the second one must stay away from 90 degrees, where the mass "
        "matrix is singular"
    )
    return ElementTree.tostring(root, encoding="unicode"), (Finding("warning", Where(name, 0, "<joint>"), reason),)


def _replace_joint(root: Element, joint: Element) -> None:
    """Makes the hinge about z of a spherical joint, and inserts the other two hinges and their links before it."""
    name, parent = joint.get("name", ""), joint.find("parent")
    origin, limit = joint.find("origin"), joint.find("limit")
    limits: dict[str, str] = {}
    if limit is not None:
        limits = {key: value for key, value in limit.attrib.items() if key in ("effort", "velocity")}
    for tag in ("origin", "limit", "axis", "dynamics", "mimic"):
        for element in joint.findall(tag):
            joint.remove(element)
    position = list(root).index(joint)
    link = parent.get("link", "") if parent is not None else ""
    for suffix in "xy":
        hinge = Element("joint", name=f"{name}_{suffix}", type="continuous")
        if suffix == "x" and origin is not None:
            hinge.append(origin)
        SubElement(hinge, "parent", link=link)
        link = f"{name}_{suffix}_link"
        SubElement(hinge, "child", link=link)
        _finish_hinge(hinge, suffix, limits)
        root[position:position] = [Element("link", name=link), hinge]
        position += 2
    if parent is not None:
        parent.set("link", link)
    joint.set("name", f"{name}_z")
    joint.set("type", "continuous")
    _finish_hinge(joint, "z", limits)


def _finish_hinge(hinge: Element, suffix: str, limits: dict[str, str]) -> None:
    """Adds the axis and the limits of a hinge."""
    SubElement(hinge, "axis", xyz=_AXES[suffix])
    if limits:
        SubElement(hinge, "limit", limits)
