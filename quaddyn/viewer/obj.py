"""Wavefront OBJ files with their MTL materials."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from .image import texture_path
from .parts import Material, MeshError, Part, fan

_GREY = (0.8, 0.8, 0.8, 1.0)


def read_obj(text: str, path: Path) -> tuple[Part, ...]:
    """The parts of an OBJ file, one a material; `path` is where its ``mtllib`` and textures are looked up.

    Raises:
        MeshError: a line cannot be read or an index is out of range.
    """
    vertices: list[list[float]] = []
    coordinates: list[list[float]] = []
    faces: dict[str, list[list[tuple[int, int]]]] = {}
    materials: dict[str, Material] = {}
    current = ""
    for number, line in enumerate(text.splitlines(), 1):
        word, _, rest = line.strip().partition(" ")
        try:
            if word == "v":
                x, y, z = rest.split()[:3]
                vertices.append([float(x), float(y), float(z)])
            elif word == "vt":
                u, v = rest.split()[:2]
                coordinates.append([float(u), float(v)])
            elif word == "f":
                face = [_corner(x, len(vertices), len(coordinates)) for x in rest.split()]
                faces.setdefault(current, []).append(face)
            elif word == "usemtl":
                current = rest.strip()
            elif word == "mtllib":
                materials |= _read_mtl(path.parent / rest.strip())
        except (ValueError, OverflowError) as error:
            raise MeshError(f"line {number}: {error}") from None
    if not faces:
        raise MeshError("no faces")
    try:
        return tuple(_part(polygons, vertices, coordinates, materials.get(name)) for name, polygons in faces.items())
    except (IndexError, OverflowError):
        raise MeshError("texture coordinate index out of range") from None


def _corner(word: str, vertices: int, coordinates: int) -> tuple[int, int]:
    """Indices (position, texture coordinate) from "7", "7/2", "7//3" or "7/2/3"; -1 where there is none."""
    v, vt, *_ = [*word.split("/"), ""]
    out = []
    for field, count in ((v, vertices), (vt, coordinates)):
        index = int(field or 0)
        out.append(index - 1 if index >= 0 else count + index)  # negative counts back from here
    return out[0], out[1]


def _part(
    polygons: list[list[tuple[int, int]]], v: list[list[float]], vt: list[list[float]], material: Material | None
) -> Part:
    corners = np.array([corner for polygon in polygons for corner in polygon], dtype=np.int64).reshape(-1, 2)
    corners = corners[fan(np.array([len(p) for p in polygons]), len(corners)).reshape(-1)]
    uvs = None
    if material is not None and material.texture is not None and (corners[:, 1] >= 0).all():
        uvs = np.array(vt)[corners[:, 1]]
    return Part.of(np.array(v), corners[:, 0].reshape(-1, 3), uvs, material)


def _read_mtl(path: Path) -> dict[str, Material]:
    """Materials of an MTL file by name; none where the file is absent, as viewers do."""
    colors: dict[str, list[float]] = {}
    opacity: dict[str, float] = {}
    textures: dict[str, Path | None] = {}
    try:
        text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    except OSError:
        text = ""
    name = ""
    for line in text.splitlines():
        word, _, rest = line.strip().partition(" ")
        if word == "newmtl":
            name = rest.strip()
            colors[name] = list(_GREY[:3])
        elif word == "Kd" and name:
            colors[name] = [float(x) for x in rest.split()[:3]]
        elif word == "d" and name:
            opacity[name] = float(rest.split()[-1])
        elif word == "map_Kd" and name and rest:
            textures[name] = texture_path(rest.split()[-1], path)
    return {
        k: Material((c[0], c[1], c[2], opacity.get(k, 1.0)), textures.get(k)) for k, c in colors.items() if len(c) == 3
    }
