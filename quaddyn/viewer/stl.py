"""Reader of STL files, binary and ASCII."""

from __future__ import annotations

import re

import numpy as np

from .parts import MeshError, Part

_FACET = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])
# Each digit can be matched in one way only: otherwise a long word that is not a number would take quadratic time.
_NUMBER = rb"([-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?)"
_VERTEX = re.compile(rb"vertex\s+" + _NUMBER + rb"\s+" + _NUMBER + rb"\s+" + _NUMBER)


def read_stl(data: bytes) -> tuple[Part, ...]:
    """Returns the part of an STL file; its facet normals are ignored in favor of the order of the corners.

    Raises:
        MeshError: neither binary (84 bytes and 50 per facet) nor ASCII with vertices.
    """
    count = int.from_bytes(data[80:84], "little")
    if len(data) >= 84 and len(data) == 84 + 50 * count:  # the word "solid" also begins some binary files
        corners = np.frombuffer(data, _FACET, count, 84)["corners"].reshape(-1, 3)
    elif data.lstrip()[:5].lower() == b"solid":
        words = (float(word) for match in _VERTEX.finditer(data) for word in match.groups())
        with np.errstate(over="ignore"):  # numbers that are not finite are rejected by `Part`
            corners = np.fromiter(words, dtype=np.float64).astype(np.float32).reshape(-1, 3)
    else:
        raise MeshError(
            f"the file is not an STL file: it has {len(data)} bytes, but its header specifies {84 + 50 * count}"
        )
    if len(corners) == 0 or len(corners) % 3:
        raise MeshError(f"the STL file has {len(corners)} vertices, which is not a positive multiple of 3")
    return (Part.from_positions(corners, np.arange(len(corners)).reshape(-1, 3), None, None),)
