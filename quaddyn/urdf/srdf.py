"""SRDF files: which pairs of links need no collision check."""

from __future__ import annotations

import difflib
import os
from collections.abc import Collection

from ..errors import ModelError
from ..safe_files import read_regular_file
from .xml import MAX_BYTES, XmlElement, read_xml

#: Elements that say which pairs are looked at, and their attributes (MoveIt's documentation of SRDF).
PAIRS = {
    "disable_collisions": ("link1", "link2"),
    "enable_collisions": ("link1", "link2"),
    "disable_default_collisions": ("link",),
}


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


def _read_links(element: XmlElement) -> tuple[str, ...]:
    keys = PAIRS[element.tag]
    found = tuple(element.attrib.get(key, "") for key in keys)
    if not all(found):
        raise ModelError(f"{element.where}: expected the attributes {' and '.join(keys)}, got {element.attrib}")
    return found
