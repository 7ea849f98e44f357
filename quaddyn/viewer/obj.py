"""Reader of Wavefront OBJ files with their MTL materials."""

from __future__ import annotations

import io
from array import array
from dataclasses import dataclass, field

import numpy as np

from ..safe_files import read_regular_file
from ..urdf.tree import Array
from .image import AdjacentFiles
from .parts import MAX_PARTS, Indices, Material, MeshError, Part, triangulate_fans

_GREY = (0.8, 0.8, 0.8)
#: Largest material file that is read [bytes].
MAX_MATERIALS = 1024 * 1024
#: Material files at most.
MAX_LIBRARIES = 16


@dataclass(slots=True)
class _Faces:
    """Faces of one material: number of corners of each, and (position, texture) index of every corner."""

    counts: array[int] = field(default_factory=lambda: array("q"))
    corners: array[int] = field(default_factory=lambda: array("q"))


def read_obj(text: str, near: AdjacentFiles) -> tuple[Part, ...]:
    """Returns the parts of an OBJ file, one per material; `near` locates its ``mtllib`` and textures.

    Raises:
        MeshError: a line cannot be read, an index is out of range, or there are too many materials.
    """
    vertices, coordinates = array("d"), array("d")
    faces: dict[str, _Faces] = {}
    materials: dict[str, Material] = {}
    libraries: set[str] = set()
    current = ""
    for number, line in enumerate(io.StringIO(text, newline=None), 1):
        word, _, rest = line.strip().partition(" ")
        try:
            if word == "v":
                x, y, z = rest.split(maxsplit=3)[:3]
                vertices.extend((float(x), float(y), float(z)))
            elif word == "vt":
                u, v = rest.split(maxsplit=2)[:2]
                coordinates.extend((float(u), float(v)))
            elif word == "f":
                here = faces.setdefault(current, _Faces())
                if len(faces) > MAX_PARTS:
                    raise MeshError(f"more than {MAX_PARTS} materials")
                before = len(here.corners)
                for corner in rest.split():
                    here.corners.extend(_corner(corner, len(vertices) // 3, len(coordinates) // 2))
                here.counts.append((len(here.corners) - before) // 2)
            elif word == "usemtl":
                current = rest.strip()
            elif word == "mtllib" and rest.strip() not in libraries:
                libraries.add(rest.strip())
                if len(libraries) > MAX_LIBRARIES:
                    raise MeshError(f"more than {MAX_LIBRARIES} material files")
                materials |= _read_mtl(rest, near)
        except (ValueError, OverflowError) as error:
            raise error if isinstance(error, MeshError) else MeshError(f"line {number}: {error}") from None
    if not faces:
        raise MeshError("no faces")
    positions = np.array(vertices, dtype=np.float64).reshape(-1, 3)
    uvs = np.array(coordinates, dtype=np.float64).reshape(-1, 2)
    return tuple(_part(each, positions, uvs, materials.get(name)) for name, each in faces.items())


def _corner(word: str, vertices: int, coordinates: int) -> tuple[int, int]:
    """Returns the indices (position, texture coordinate) of "7", "7/2", "7//3" or "7/2/3"; -1 if there is none."""
    v, vt, *_ = [*word.split("/"), ""]
    out = []
    for text, count in ((v, vertices), (vt, coordinates)):
        index = int(text or 0)
        out.append(index - 1 if index >= 0 else count + index)  # negative counts back from here
    return out[0], out[1]


def _part(faces: _Faces, positions: Array, coordinates: Array, material: Material | None) -> Part:
    """Returns the part of one material."""
    corners: Indices = np.array(faces.corners, dtype=np.int64).reshape(-1, 2)
    corners = corners[triangulate_fans(np.array(faces.counts, dtype=np.int64), len(corners)).reshape(-1)]
    uvs = None
    if material is not None and material.texture is not None and (corners[:, 1] >= 0).all():
        if corners[:, 1].max(initial=-1) >= len(coordinates):
            raise MeshError("texture coordinate index out of range")
        uvs = coordinates[corners[:, 1]]
    return Part.from_positions(positions, corners[:, 0].reshape(-1, 3), uvs, material)


def _read_mtl(reference: str, near: AdjacentFiles) -> dict[str, Material]:
    """Returns the materials of an MTL file by name; none if the file does not exist, as in other viewers."""
    path = near.find(reference)
    if path is None:
        return {}
    try:
        text = read_regular_file(path, MAX_MATERIALS).decode("utf-8", errors="replace")
    except OSError:
        return {}
    out: dict[str, Material] = {}
    name = ""
    for number, line in enumerate(io.StringIO(text, newline=None), 1):
        word, _, rest = line.strip().partition(" ")
        words = rest.split()
        if word == "newmtl":
            name = rest.strip()
            out[name] = Material((*_GREY, 1.0))
        if not name or not words:
            continue
        color, texture = out[name].color, out[name].texture
        try:
            if word == "Kd":
                red, green, blue = map(float, words[:3])
                color = (red, green, blue, color[3])
            elif word == "d":
                color = (*color[:3], float(words[-1]))
            elif word == "map_Kd":
                texture = near.find(words[-1], beside=path)
        except ValueError as error:
            raise MeshError(f"{path.name}:{number}: {error}") from None
        if not np.isfinite(color).all():
            raise MeshError(f"{path.name}:{number}: a colour that is not finite")
        out[name] = Material(color, texture)
    return out
