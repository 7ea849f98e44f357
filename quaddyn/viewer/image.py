"""Texture images: only small local PNG and JPEG files next to their mesh are ever read."""

from __future__ import annotations

import base64
from pathlib import Path
from urllib.parse import unquote, urlsplit

#: Largest texture that is drawn [bytes].
MAX_BYTES = 16 * 1024 * 1024
_MAGIC = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg"}


def texture_path(reference: str, mesh: Path) -> Path | None:
    """The image that `mesh` refers to, or None where that is not a file in the mesh's folder or the folder above.

    A mesh file is foreign data: a reference to another host or to the rest of the disk must not be followed.
    """
    parts = urlsplit(reference.strip().replace("\\", "/"))
    if parts.netloc or parts.scheme not in ("", "file"):
        return None
    try:
        path = (mesh.parent / unquote(parts.path)).resolve()
        root = mesh.parent.resolve().parent
        return path if path.is_relative_to(root) and path.is_file() and path.stat().st_size <= MAX_BYTES else None
    except (OSError, ValueError):
        return None


def data_uri(path: Path) -> str | None:
    """The image as a ``data:`` URI, or None when the file is neither PNG nor JPEG."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    kind = next((v for k, v in _MAGIC.items() if data.startswith(k)), None)
    return None if kind is None else f"data:{kind};base64,{base64.b64encode(data).decode()}"
