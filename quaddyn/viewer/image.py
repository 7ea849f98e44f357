"""Files to which a mesh file refers: materials and small local PNG and JPEG images, confined to its surroundings."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from ..safe_files import read_regular_file

#: Largest texture that is drawn [bytes].
MAX_BYTES = 16 * 1024 * 1024
_MAGIC = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg"}


@dataclass(frozen=True, slots=True)
class AdjacentFiles:
    """Files to which a mesh file may refer: in its folder and the folder above, but not outside its package root.

    Mesh files are untrusted: references to other hosts or to the rest of the disk must not be followed.

    Attributes:
        mesh: mesh file.
        root: package root that contains it; None: only files in the folder of the mesh.
    """

    mesh: Path
    root: Path | None = None

    def find(self, reference: str, beside: Path | None = None) -> Path | None:
        """Returns the regular file of a reference relative to the mesh or to the file `beside`, or None."""
        try:
            parts = urlsplit(reference.strip().replace("\\", "/"))
            if parts.netloc or parts.scheme not in ("", "file"):
                return None
            folder = self.mesh.parent.resolve()
            path = ((beside or self.mesh).parent / unquote(parts.path)).resolve()
            top_folder = folder.parent if self.root is not None and folder != self.root.resolve() else folder
            return path if path.is_relative_to(top_folder) and path.is_file() else None
        except (OSError, ValueError):
            return None


def encode_image_uri(path: Path) -> str | None:
    """Returns the image as a ``data:`` URI, or None if the file is neither PNG nor JPEG, or too large."""
    try:
        data = read_regular_file(path, MAX_BYTES)
    except OSError:
        return None
    media_type = next((name for magic, name in _MAGIC.items() if data.startswith(magic)), None)
    return None if media_type is None else f"data:{media_type};base64,{base64.b64encode(data).decode()}"
