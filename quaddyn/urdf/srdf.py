"""SRDF files: which pairs of links need no collision check."""

from __future__ import annotations

import os

from ..errors import ModelError
from ..files import read_regular
from .xml import MAX_BYTES, read_xml


def disabled_collisions(source: str | os.PathLike[str]) -> tuple[tuple[str, str, str], ...]:
    """The ``<disable_collisions link1 link2 reason>`` elements of an SRDF file.

    Args:
        source: path of the file, or its text if it begins with "<".

    Returns:
        (link, link, reason) each, the reason "" where the file gives none.

    Raises:
        ModelError: not an SRDF, or an element without links.
        OSError: the file cannot be read.
    """
    if isinstance(source, str) and source.lstrip().startswith("<"):
        root, file = read_xml(source, "<text>"), "<text>"
    else:
        root, file = read_xml(read_regular(source, MAX_BYTES), str(source)), str(source)
    if root.tag != "robot":
        raise ModelError(f"{file}: expected <robot>, got <{root.tag}>; is this an SRDF?")
    out = []
    for each in root.all("disable_collisions"):
        links = each.attrib.get("link1", ""), each.attrib.get("link2", "")
        if not all(links):
            raise ModelError(f"{each.where}: expected link1 and link2, got {each.attrib}")
        out.append((*links, each.attrib.get("reason", "")))
    return tuple(out)
