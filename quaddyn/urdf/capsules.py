"""Replacement of capsules in a URDF by shapes that other programs read.

The URDF specification has no capsules, and urdfdom rejects a document with one.
"""

from __future__ import annotations

from copy import deepcopy
from xml.etree.ElementTree import Element, SubElement, TreeBuilder, XMLParser, fromstring, tostring

import numpy as np

from .reader import rotation_from_rpy


def replace_capsules(text: str) -> str:
    """Returns a URDF in which each capsule is a cylinder and two spheres at its ends; others are returned unchanged."""
    if "<capsule" not in text:
        return text
    # Without the bytes of a declaration, which a str must not contain.
    robot = fromstring(text.encode("utf-8", "surrogateescape"), XMLParser(target=TreeBuilder(insert_comments=True)))
    for link in robot.iter("link"):
        for element in list(link):
            capsule = element.find("geometry/capsule")
            if capsule is not None:
                at = list(link).index(element)
                link.remove(element)
                for i, part in enumerate(_capsule_parts(element, capsule)):
                    link.insert(at + i, part)
    return tostring(robot, encoding="unicode")


def _capsule_parts(element: Element, capsule: Element) -> list[Element]:
    """Returns the <visual> or <collision> elements of cylinder, upper and lower sphere; one sphere of length 0."""
    radius, length = capsule.attrib["radius"], capsule.attrib["length"]
    half, shape = 0.5 * float(length), ("sphere", {"radius": radius})
    shapes = [(0.0, *shape)]
    if half > 0.0:
        shapes = [(0.0, "cylinder", {"radius": radius, "length": length}), (half, *shape), (-half, *shape)]
    parts = []
    for i, (height, tag, sizes) in enumerate(shapes):
        part = deepcopy(element)
        geometry = part.find("geometry")
        assert geometry is not None
        geometry.clear()
        SubElement(geometry, tag, sizes)
        if height:
            _shift_along_axis(part, height)
        if i and "name" in part.attrib:
            part.attrib["name"] += f"_end_{i}"
        parts.append(part)
    return parts


def _shift_along_axis(element: Element, height: float) -> None:
    """Moves the <origin> of a shape by `height` [m] along its z axis."""
    origin = element.find("origin")
    if origin is None:
        origin = Element("origin")
        element.insert(0, origin)
    xyz, rpy = (np.array(origin.get(key, "0 0 0").split(), dtype=np.float64) for key in ("xyz", "rpy"))
    moved = xyz + height * rotation_from_rpy(*rpy.tolist())[:, 2]
    origin.set("xyz", " ".join(map(repr, moved.tolist())))
