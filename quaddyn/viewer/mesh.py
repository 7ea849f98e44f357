"""Reader of mesh files of a URDF for drawing: STL, OBJ and COLLADA."""

from __future__ import annotations

from pathlib import Path

from ..safe_files import read_regular_file
from .collada import read_collada
from .image import AdjacentFiles
from .obj import read_obj
from .parts import MeshError, Part
from .stl import read_stl

#: Largest mesh file that is drawn [bytes].
MAX_BYTES = 64 * 1024 * 1024


def read_mesh(path: Path, root: Path | None = None) -> tuple[Part, ...]:
    """Returns the parts of a mesh file in its own frame [m]; its suffix (.stl, .obj, .dae) selects the format.

    Args:
        path: mesh file.
        root: package root that contains it; materials and textures outside of it are not opened. None: only those in
            the folder of the file are opened.

    Raises:
        MeshError: the file does not exist, is too large, of another format or malformed; the message states which.
    """
    try:
        data = read_regular_file(path, MAX_BYTES)
    except FileNotFoundError:
        raise MeshError("the file does not exist") from None
    except OSError as error:
        raise MeshError(f"the file cannot be read: {error.strerror}") from None
    match path.suffix.lower():
        case ".stl":
            return read_stl(data)
        case ".obj":
            return read_obj(data.decode("utf-8", errors="replace"), AdjacentFiles(path, root))
        case ".dae":
            return read_collada(data, AdjacentFiles(path, root))
        case other:
            raise MeshError(f"the format {other!r} is not supported; use .stl, .obj or .dae")
