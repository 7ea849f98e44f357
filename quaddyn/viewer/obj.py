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

_DEFAULT_COLOR = (0.8, 0.8, 0.8)
#: Largest material file that is read [bytes].
MAX_MATERIAL_BYTES = 1024 * 1024
#: Maximum number of material files.
MAX_LIBRARIES = 16


@dataclass(slots=True)
class _Faces:
    """Faces of one material: number of corners of each, and (position, texture) index of every corner."""

    counts: array[int] = field(default_factory=lambda: array("q"))
    corners: array[int] = field(default_factory=lambda: array("q"))


def read_obj(text: str, adjacent_files: AdjacentFiles) -> tuple[Part, ...]:
    """Returns the parts of an OBJ file, one per material; `adjacent_files` locates its ``mtllib`` and textures.

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
                group = faces.setdefault(current, _Faces())
                if len(faces) > MAX_PARTS:
                    raise MeshError(f"the file has more than {MAX_PARTS} materials, which is not accepted")
                n_before = len(group.corners)
                for corner in rest.split():
                    group.corners.extend(_parse_corner(corner, len(vertices) // 3, len(coordinates) // 2))
                group.counts.append((len(group.corners) - n_before) // 2)
            elif word == "usemtl":
                current = rest.strip()
            elif word == "mtllib" and rest.strip() not in libraries:
                libraries.add(rest.strip())
                if len(libraries) > MAX_LIBRARIES:
                    raise MeshError(
                        f"the file refers to more than {MAX_LIBRARIES} material files, which is not accepted"
                    )
                materials |= _read_mtl(rest, adjacent_files)
        except (ValueError, OverflowError) as error:
            raise error if isinstance(error, MeshError) else MeshError(f"line {number}: {error}") from None
    if not faces:
        raise MeshError("the file contains no faces")
    positions = np.array(vertices, dtype=np.float64).reshape(-1, 3)
    uvs = np.array(coordinates, dtype=np.float64).reshape(-1, 2)
    return tuple(_make_part(group_faces, positions, uvs, materials.get(name)) for name, group_faces in faces.items())


def _parse_corner(word: str, vertices: int, coordinates: int) -> tuple[int, int]:
    """Returns the indices (position, texture coordinate) of "7", "7/2", "7//3" or "7/2/3"; -1 if there is none."""
    v, vt, *_ = [*word.split("/"), ""]
    indices = []
    for text, count in ((v, vertices), (vt, coordinates)):
        index = int(text or 0)
        indices.append(index - 1 if index >= 0 else count + index)  # negative indices count back from the last one read
    return indices[0], indices[1]


def _make_part(faces: _Faces, positions: Array, coordinates: Array, material: Material | None) -> Part:
    """Returns the part that consists of the faces of one material."""
    corners: Indices = np.array(faces.corners, dtype=np.int64).reshape(-1, 2)
    corners = corners[triangulate_fans(np.array(faces.counts, dtype=np.int64), len(corners)).reshape(-1)]
    uvs = None
    if material is not None and material.texture is not None and (corners[:, 1] >= 0).all():
        if corners[:, 1].max(initial=-1) >= len(coordinates):
            raise MeshError("the index of a texture coordinate is out of range")
        uvs = coordinates[corners[:, 1]]
    return Part.from_positions(positions, corners[:, 0].reshape(-1, 3), uvs, material)


def _read_mtl(reference: str, adjacent_files: AdjacentFiles) -> dict[str, Material]:
    """Returns the materials of an MTL file by name; none if the file does not exist, as in other viewers."""
    path = adjacent_files.find(reference)
    if path is None:
        return {}
    try:
        text = read_regular_file(path, MAX_MATERIAL_BYTES).decode("utf-8", errors="replace")
    except OSError:
        return {}
    materials: dict[str, Material] = {}
    name = ""
    for number, line in enumerate(io.StringIO(text, newline=None), 1):
        word, _, rest = line.strip().partition(" ")
        words = rest.split()
        if word == "newmtl":
            name = rest.strip()
            materials[name] = Material((*_DEFAULT_COLOR, 1.0))
        if not name or not words:
            continue
        color, texture = materials[name].color, materials[name].texture
        try:
            if word == "Kd":
                red, green, blue = map(float, words[:3])
                color = (red, green, blue, color[3])
            elif word == "d":
                color = (*color[:3], float(words[-1]))
            elif word == "map_Kd":
                texture = adjacent_files.find(words[-1], beside=path)
        except ValueError as error:
            raise MeshError(f"{path.name}:{number}: {error}") from None
        if not np.isfinite(color).all():
            raise MeshError(f"{path.name}:{number}: the color is not finite")
        materials[name] = Material(color, texture)
    return materials
