"""Mesh files of a URDF, read for drawing: STL, OBJ and COLLADA."""

from __future__ import annotations

from pathlib import Path

from ..safe_files import read_regular
from .collada import read_collada
from .image import Neighbours
from .obj import read_obj
from .parts import MeshError, Part
from .stl import read_stl

#: Largest mesh file that is drawn [bytes].
MAX_BYTES = 64 * 1024 * 1024


def read_mesh(path: Path, root: Path | None = None) -> tuple[Part, ...]:
    """The parts of a mesh file, by its suffix (.stl, .obj, .dae), in the file's own frame [m].

    Args:
        path: of the file.
        root: the package root that holds it; materials and textures outside of it are not opened.  Without one, only
            those in the file's own folder are.

    Raises:
        MeshError: the file is missing, too large, of another format or malformed; the message says which.
    """
    try:
        data = read_regular(path, MAX_BYTES)
    except FileNotFoundError:
        raise MeshError("no such file") from None
    except OSError as error:
        raise MeshError(f"cannot be read: {error.strerror}") from None
    match path.suffix.lower():
        case ".stl":
            return read_stl(data)
        case ".obj":
            return read_obj(data.decode("utf-8", errors="replace"), Neighbours(path, root))
        case ".dae":
            return read_collada(data, Neighbours(path, root))
        case other:
            raise MeshError(f"format {other!r} is none of .stl, .obj, .dae")
