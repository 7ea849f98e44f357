"""Where a mesh URI points, confined to package roots: nothing outside them is ever opened."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

#: Slashes of a URI at most.
MAX_FOLDERS = 64


class MeshFinder:
    """Resolves ``package://``, ``file://``, absolute and relative mesh URIs.

    Args:
        folder: the folder of the URDF file, None for URDF text.  Relative names start there, and a
            ``package://NAME/...`` URI also matches a folder called NAME above it.
        roots: package roots: folders that hold packages, or are packages.
    """

    def __init__(self, folder: Path | None, roots: Iterable[str | Path]) -> None:
        self.folder = Path(os.path.realpath(folder)) if folder is not None else None
        self.roots = tuple(Path(os.path.realpath(r)) for r in roots)
        if self.folder is not None:
            self.roots += (self.folder,)
        self._cache: dict[str, tuple[Path | None, Path | None, str]] = {}
        self._folders: dict[str, str] = {}

    def find(self, uri: str) -> tuple[Path | None, Path | None, str]:
        """The file behind `uri` and the package root that holds it, or None, None and the reason."""
        if uri not in self._cache:
            try:
                self._cache[uri] = self._find(uri)
            except OSError as error:  # a name too long for the file system, a folder that may not be read
                self._cache[uri] = None, None, f"cannot be opened: {error.strerror}"
        return self._cache[uri]

    def _find(self, uri: str) -> tuple[Path | None, Path | None, str]:
        if "\0" in uri or len(uri) > 4096 or uri.count("/") > MAX_FOLDERS:
            return None, None, "not a file name"
        outside = False
        for candidate, root in self._candidates(uri):
            if not os.path.lexists(candidate):  # one question to the system; following links takes one a folder
                continue
            real = self._real(candidate)  # follows links before judging
            if os.path.commonpath((real, root)) != str(root):
                outside = True
            else:
                path = Path(real)
                if path.is_file():
                    return path, root, ""
        return None, None, "outside the package roots, not opened" if outside else "no such file in the package roots"

    def _real(self, name: str) -> str:
        """The path with links resolved; folders are resolved once, since meshes lie side by side."""
        folder, _, base = name.rpartition("/")
        if base in ("", ".", ".."):
            return os.path.realpath(name)
        if folder not in self._folders:
            self._folders[folder] = os.path.realpath(folder or "/")
        path = f"{self._folders[folder].rstrip('/')}/{base}"
        return os.path.realpath(path) if Path(path).is_symlink() else path

    def _candidates(self, uri: str) -> Iterable[tuple[str, Path]]:
        scheme, separator, rest = uri.partition("://")
        if separator and scheme in ("package", "model"):  # an empty package name would match the root folder
            package, _, inner = rest.partition("/")
            if not package:
                return
            for root in self.roots:
                yield f"{root}/{rest}", root
                if root.name == package:
                    yield f"{root}/{inner}", root
            if self.folder is not None:
                for above in (self.folder, *self.folder.parents):
                    if above.name == package:
                        yield f"{above}/{inner}", above
        elif separator and scheme == "file":
            for root in self.roots if rest.startswith("/") else ():
                yield rest, root
        elif not separator:
            for root in self.roots:
                yield uri if uri.startswith("/") else f"{self.folder or root}/{uri}", root
