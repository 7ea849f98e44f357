"""Mesh files of a URDF, read for drawing: STL, OBJ and COLLADA."""

from __future__ import annotations

from pathlib import Path

from .collada import read_collada
from .obj import read_obj
from .parts import MeshError, Part
from .stl import read_stl

#: Largest mesh file that is drawn [bytes].
MAX_BYTES = 64 * 1024 * 1024


def read_mesh(path: Path) -> tuple[Part, ...]:
    """The parts of a mesh file, by its suffix (.stl, .obj, .dae), in the file's own frame [m].

    Raises:
        MeshError: the file is missing, too large, of another format or malformed; the message says which.
    """
    try:
        if not path.is_file():
            raise MeshError("no such file")
        if path.stat().st_size > MAX_BYTES:
            raise MeshError(f"larger than {MAX_BYTES} bytes")
        data = path.read_bytes()
    except OSError as error:
        raise MeshError(f"cannot be read: {error}") from None
    match path.suffix.lower():
        case ".stl":
            return read_stl(data)
        case ".obj":
            return read_obj(data.decode("utf-8", errors="replace"), path)
        case ".dae":
            return read_collada(data, path)
        case other:
            raise MeshError(f"format {other!r} is none of .stl, .obj, .dae")
