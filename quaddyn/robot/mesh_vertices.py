"""Vertices of STL and OBJ files, to determine the size of a foot."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..urdf.tree import Array

#: Larger meshes are not read for this purpose: a foot is small, and loading must stay quick.
MAX_FOOT_MESH_BYTES = 300_000


def read_vertices(path: Path) -> Array | None:
    """Returns the vertices (N, 3) of an .stl (binary or text) or .obj file; None for other or invalid files."""
    data = path.read_bytes()
    points: Array | None = None
    try:
        if path.suffix.lower() == ".obj":
            points = _read_text_lines(data, b"v ")
        elif path.suffix.lower() == ".stl":
            points = _read_stl(data)
    except ValueError:
        return None
    if points is None or points.size == 0 or not np.isfinite(points).all():
        return None
    return points


def _read_stl(data: bytes) -> Array:
    count = int.from_bytes(data[80:84], "little") if len(data) >= 84 else -1
    if len(data) != 84 + 50 * count:  # the size is the only sure sign of the binary form
        return _read_text_lines(data, b"vertex ")
    triangles = np.frombuffer(data, dtype=np.dtype([("v", "<f4", (4, 3)), ("attribute", "<u2")]), offset=84)
    return triangles["v"][:, 1:].reshape(-1, 3).astype(np.float64)


def _read_text_lines(data: bytes, key: bytes) -> Array:
    words = [w for line in data.splitlines() if line.lstrip().startswith(key) for w in line.split()[1:4]]
    return np.array(list(map(float, words))).reshape(-1, 3)
