"""Finder of the files of mesh URIs within the package roots, and on request in the folders near that of the file."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import unquote

from ..safe_files import read_regular_file

#: Maximum number of slashes of a URI.
MAX_SLASHES = 64
#: Number of folders above that of the file that are searched for a package.xml; files are up to two below ``urdf/``.
MAX_PARENT_FOLDERS = 3
#: Pattern of the name in a package.xml, and maximum number of bytes that are read of it.
PACKAGE_NAME, MAX_MANIFEST = re.compile(rb"<name>\s*([\w.-]+)\s*</name>"), 100_000
#: Names of mesh folders beside the folder of the file, in packages without a package.xml.
MESH_FOLDERS = ("meshes", "assets")
#: Drive of a path of Windows.
_DRIVE = re.compile(r"^/*[A-Za-z]:/+")
#: Number of folders above that of the file below which an unconfined finder opens files by relative names.
MAX_LEVELS_ABOVE = 4
#: Maximum number of folders in a message.
MAX_LISTED_FOLDERS = 4


class MeshFinder:
    """Resolves ``package://``, ``model://``, ``file://``, absolute and relative mesh URIs.

    A backslash is read as a slash.  A file that is not found is searched again with escapes such as ``%20`` decoded,
    and then without regard to case.

    Args:
        folder: the folder of the URDF file, None for URDF text.  Relative names start there, and a
            ``package://NAME/...`` URI also matches a folder called NAME above it.  The package that the file belongs
            to is a root as well: the nearest folder above with a ``package.xml``, else the one above `folder` where it
            has a folder ``meshes`` or ``assets``.
        roots: package roots: folders that hold packages, or are packages.
        confined: whether only files in the roots are found.  Otherwise relative names such as ``../common/a.xml`` are
            also found outside the roots, up to `MAX_LEVELS_ABOVE` folders above `folder`, but neither through links nor
            in hidden folders; `outside` lists them.
    """

    def __init__(self, folder: Path | None, roots: Iterable[str | Path], *, confined: bool = True) -> None:
        self.confined = confined
        #: Paths of found files outside the roots, by the URIs that name them.
        self.outside: dict[str, Path] = {}
        self.folder = Path(os.path.realpath(folder)) if folder is not None else None
        self.roots = tuple(Path(os.path.realpath(r)) for r in roots)
        if self.folder is not None:
            self.roots += (self.folder, *_package_of(self.folder))
        self._above = () if self.folder is None else (self.folder, *self.folder.parents)
        # The topmost folder is none of them: everything is below it.
        self._near = () if confined else self._above[:-1][: MAX_LEVELS_ABOVE + 1]
        self._names = {root: name for root in self.roots if (name := _manifest_name(root))}
        self._cache: dict[str, tuple[Path | None, Path | None, str]] = {}
        self._folders: dict[str, str] = {}
        self._listings: dict[str, dict[str, str]] = {}

    def find(self, uri: str) -> tuple[Path | None, Path | None, str]:
        """Returns the file of `uri` and the package root that contains it, or None, None and the reason."""
        if uri not in self._cache:
            try:
                self._cache[uri] = self._find(uri)
            except OSError as error:  # a name too long for the file system, a folder that may not be read
                self._cache[uri] = None, None, f"the file cannot be opened: {error.strerror}"
        return self._cache[uri]

    def advice(self, uri: str) -> str:
        """Returns a remedy for a `uri` that is not found: the folder to pass, and the folders that were searched."""
        uri = uri.replace("\\", "/")
        if "\0" in uri or len(uri) > 4096 or uri.count("/") > MAX_SLASHES:
            return "correct the name"
        for candidate, _ in self._candidates(uri):
            try:
                if Path(candidate).is_file():
                    return f"pass packages=[{str(Path(os.path.realpath(candidate)).parent)!r}] to allow it to be opened"
            except OSError:
                break
        scheme, inside = _split_scheme(uri)
        package, _, inner = inside.partition("/")
        if scheme in ("package", "model") and package and inner:
            advice = f"pass packages= with the folder {package!r} or its parent folder"
        else:
            advice = "pass packages= with a folder that contains the file"
        if not self.roots:
            return advice
        searched_folders = ", ".join(str(root) for root in self.roots[:MAX_LISTED_FOLDERS])
        return f"{advice} (looked in: {searched_folders}{', ...' if len(self.roots) > MAX_LISTED_FOLDERS else ''})"

    def package(self, name: str) -> Path | None:
        """Returns the folder of the ROS package of this name, or None.

        It is one of the given folders, a subfolder of one, or a folder above the file.
        """
        if not name or "/" in name or name in (".", ".."):
            return None
        for root in self.roots:
            if name in (root.name, self._names.get(root)):
                return root
            if (root / name).is_dir():
                return root / name
        return next((above for above in self._above if above.name == name), None)

    def _find(self, uri: str) -> tuple[Path | None, Path | None, str]:
        if "\0" in uri or len(uri) > 4096 or uri.count("/") > MAX_SLASHES:
            return None, None, "this is not a file name"
        outside = False
        plain = uri.replace("\\", "/")
        unquoted = unquote(plain).strip().replace("\0", "")
        for spelling in dict.fromkeys((uri, plain, unquoted)):
            for candidate, root in self._candidates(spelling):
                if not os.path.lexists(candidate):  # one system call; resolving links takes one per folder
                    continue
                resolved = self._real(candidate)  # resolves links before the check
                containing_root = next(
                    (package_root for package_root in (root, *self.roots) if _is_inside(resolved, package_root)), None
                )
                if containing_root is None and self._is_near(candidate, resolved):
                    self.outside[uri] = Path(resolved)
                    return Path(resolved), Path(resolved).parent, ""
                if containing_root is None:
                    outside = True
                elif Path(resolved).is_file():
                    return Path(resolved), containing_root, ""
        for spelling in dict.fromkeys((plain, unquoted)) if not outside else ():
            for candidate, root in self._candidates(spelling):
                path = self._in_other_case(candidate, root)
                if path is not None:
                    return path, root, ""
        return (
            None,
            None,
            "the file is outside the package roots and is not opened"
            if outside
            else "the file is not in the package roots",
        )

    def _is_near(self, candidate: str, resolved: str) -> bool:
        """Returns whether an unconfined finder opens a file outside the roots, with its links resolved."""
        start = f"{self.folder}/"
        if not self._near or not candidate.startswith(start) or os.path.normpath(candidate) != resolved:
            return False
        is_hidden = any(part.startswith(".") and part != ".." for part in candidate[len(start) :].split("/"))
        return not is_hidden and _is_inside(resolved, self._near[-1]) and Path(resolved).is_file()

    def _real(self, name: str) -> str:
        """Returns the path with links resolved; the result is cached for each folder."""
        folder, _, base = name.rpartition("/")
        if base in ("", ".", ".."):
            return os.path.realpath(name)
        if folder not in self._folders:
            self._folders[folder] = os.path.realpath(folder or "/")
        path = f"{self._folders[folder].rstrip('/')}/{base}"
        return os.path.realpath(path) if Path(path).is_symlink() else path

    def _in_other_case(self, candidate: str, root: Path) -> Path | None:
        """Returns the file inside `root` whose name differs from `candidate` in case alone; None if there is none."""
        start = f"{root}/"
        if not candidate.startswith(start):
            return None
        path = str(root)
        for part in candidate[len(start) :].split("/"):
            if part in ("", "."):
                continue
            child_path = f"{path}/{part}"
            if part != ".." and not os.path.lexists(child_path):
                child_path = f"{path}/{self._listed(path).get(part.lower(), '')}"
            path = child_path
            if path.endswith("/") or not _is_inside(os.path.normpath(path), root):
                return None
        resolved = os.path.realpath(path)
        return Path(resolved) if _is_inside(resolved, root) and Path(resolved).is_file() else None

    def _listed(self, folder: str) -> dict[str, str]:
        """Returns the names in a folder by lower-case name, the first of equal ones; none if it is not a folder."""
        if folder not in self._listings:
            try:
                names = sorted((entry.name for entry in os.scandir(folder)), reverse=True)
            except OSError:
                names = []
            self._listings[folder] = {name.lower(): name for name in names}
        return self._listings[folder]

    def _candidates(self, uri: str) -> Iterator[tuple[str, Path]]:
        scheme, inside = _split_scheme(uri)
        if scheme in ("package", "model"):
            package, _, inner = inside.partition("/")
            for root in self.roots:
                yield f"{root}/{inside.lstrip('/')}", root
                if package and package in (root.name, self._names.get(root)):
                    yield f"{root}/{inner}", root
            for above in self._above if package else ():
                if above.name == package:
                    yield f"{above}/{inner}", above
            for root in self.roots if package and inner else ():
                if root in self._above:  # the package of the file under another folder name, as after a download
                    yield f"{root}/{inner}", root
        elif scheme in ("", "file"):
            for root in self.roots:
                yield inside if inside.startswith("/") else f"{self.folder or root}/{inside}", root
            # Names relative to the package, and paths of another computer: what follows the package or its mesh folder.
            parts = [part for part in inside.split("/") if part]
            for root in self.roots if ".." not in parts else ():
                yield f"{root}/{'/'.join(parts)}", root
                for k, part in enumerate(parts[:-1]):
                    if part in (root.name, self._names.get(root)):
                        yield f"{root}/{'/'.join(parts[k + 1 :])}", root
                    elif part in MESH_FOLDERS and inside.startswith("/"):
                        yield f"{root}/{'/'.join(parts[k:])}", root


def _split_scheme(uri: str) -> tuple[str, str]:
    """Returns the scheme of a URI, "" without one, and the rest.

    ``file:/a`` is read as ``file:///a``, ``package:/a`` as ``package://a``, and ``C:/a`` as an absolute path.
    """
    scheme, separator, rest = uri.partition("://")
    if separator:
        rest = rest.removeprefix("localhost") if rest.startswith("localhost/") else rest
        return scheme.lower(), _DRIVE.sub("/", rest) if scheme.lower() == "file" else rest
    if uri[:9].lower() == "package:/":
        return "package", uri[9:]
    uri = _DRIVE.sub("/", uri)
    return ("file", uri[5:]) if uri[:5].lower() == "file:" else ("", uri)


def _is_inside(path: str, root: Path) -> bool:
    return os.path.commonpath((path, root)) == str(root)


def _package_of(folder: Path) -> tuple[Path, ...]:
    """Returns the package above `folder` that contains it, as a tuple; () if there is none."""
    for above in (folder, *folder.parents[:MAX_PARENT_FOLDERS]):
        if (above / "package.xml").is_file():
            return () if above == folder else (above,)
    above = folder.parent
    return (above,) if above != Path(above.anchor) and any((above / name).is_dir() for name in MESH_FOLDERS) else ()


def _manifest_name(root: Path) -> str | None:
    """Returns the name in the package.xml of a root, or None."""
    try:
        match = PACKAGE_NAME.search(read_regular_file(root / "package.xml", MAX_MANIFEST))
    except (OSError, ValueError):
        return None
    return match.group(1).decode() if match else None
