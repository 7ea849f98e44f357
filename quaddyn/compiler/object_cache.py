"""Cache of machine code on disk: files named by a hash of their sources, verified when read, in the user's own folder.

A file holds a SHA-256 digest, the key that it was written under, and the code.

Fingerprints of machine code: hashes of the sources of modules and of all that they import from the same package.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ..operating_system import describe_os_error, is_writable_by_others
from ..safe_files import belongs_to_another_user, read_regular_file

_DIGEST = 32
#: Maximum size of a file that is read [bytes].
MAX_FILE_SIZE = 1 << 28


@dataclass(frozen=True, slots=True)
class CachedObject:
    """Machine code of a unit.

    Attributes:
        code: relocatable machine code.
        seconds: time that it took to compile [s]; 0 for prebuilt code.
        source: "compiled", "cached" (read from the cache) or "prebuilt" (shipped with the package).
        path: file of the machine code, or "" if it is not on disk.
    """

    code: bytes
    seconds: float
    source: str
    path: str


def hash_parts(*parts: object) -> str:
    """Returns a SHA-256 hash (hexadecimal) of a sequence of parts, each converted to text unless it is bytes."""
    h = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else str(part).encode()
        h.update(len(data).to_bytes(8, "little") + data)
    return h.hexdigest()


def is_as_private(folder: Path, package: Path) -> bool:
    """Returns whether a folder is protected from other users at least as well as the package itself."""
    try:
        info, reference = folder.stat(), package.stat()
    except OSError:
        return False
    return info.st_uid == reference.st_uid and not info.st_mode & ~reference.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


@dataclass(frozen=True, slots=True)
class CacheFolder:
    """Folder in which machine code is cached.

    Attributes:
        folder: path as configured; None without one.
        reason: why the folder is not used; "" if it is.
        is_enabled: whether the user has not disabled caching.
    """

    folder: Path | None
    reason: str
    is_enabled: bool = True


def find_cache_folder() -> CacheFolder:
    """Returns the cache folder, ``$QUADDYN_CACHE`` or the user's cache folder, with the reason if it cannot be used.

    Code found there is executed, so the folder must belong to the user and must not be writable by others.
    """
    given = os.environ.get("QUADDYN_CACHE")
    if given == "":
        return CacheFolder(
            None, "the environment variable QUADDYN_CACHE is empty, so that nothing is cached", is_enabled=False
        )
    try:
        base = Path(given) if given else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "quaddyn"
    except RuntimeError as error:
        return CacheFolder(None, f"{error}; set the environment variable QUADDYN_CACHE to a folder")
    try:
        base.mkdir(mode=0o700, parents=True, exist_ok=True)
        info = base.stat()
    except OSError as error:
        return CacheFolder(base, f"the folder cannot be created: {describe_os_error(error)}")
    if belongs_to_another_user(info):
        return CacheFolder(base, "the folder belongs to another user, whose code would be executed")
    if is_writable_by_others(info):
        return CacheFolder(
            base,
            "other users can write to the folder, and code in it would be executed; change this with: chmod go-w "
            f"{base}",
        )
    return CacheFolder(base, "")


def cache_folder() -> Path | None:
    """Returns the path of the cache folder, or None if there is none that can be used."""
    found = find_cache_folder()
    return None if found.reason else found.folder


def read_object(path: Path, key: str) -> bytes | None:
    """Returns the content of a file that was written under `key`; None if it is missing, damaged or of another key."""
    try:
        data = read_regular_file(path, MAX_FILE_SIZE)
    except OSError:
        return None
    head, body = data[:_DIGEST], data[_DIGEST:]
    mark = key.encode()
    if hashlib.sha256(body).digest() != head or not body.startswith(mark):
        return None
    return body[len(mark) :]


def write_object(path: Path, key: str, code: bytes) -> None:
    """Writes a file completely or not at all; where nothing can be written, nothing happens."""
    body = key.encode() + code
    try:
        handle, name = tempfile.mkstemp(dir=path.parent)
    except OSError:
        return
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(hashlib.sha256(body).digest() + body)
        Path(name).replace(path)
    except OSError:
        with suppress(OSError):
            Path(name).unlink()


def load_object(key: str) -> bytes | None:
    """Returns the cached content for a key, or None."""
    folder = cache_folder()
    return read_object(folder / f"{key}.bin", key) if folder is not None else None


def cache_path(key: str) -> str:
    """Returns the path of the file for a key, or "" without a cache folder."""
    folder = cache_folder()
    return "" if folder is None else str(folder / f"{key}.bin")


def store_object(key: str, code: bytes) -> None:
    """Stores content under a key if there is a cache folder."""
    folder = cache_folder()
    if folder is not None:
        write_object(folder / f"{key}.bin", key, code)


_PACKAGE = Path(__file__).resolve().parents[1]

#: ``from ..subpackage.module import names``, also over several lines in parentheses, or ``import module``.
IMPORT = re.compile(r"^ *(?:from (\.*)([\w.]*) import (\((?:#.*|[^)#])*\)|.*)|import (.*))", re.MULTILINE)


@cache
def fingerprint(*files: Path) -> str:
    """Returns a hash of modules, of all that they import (`sources`), and of the compiler's own sources."""
    compiler_sources = frozenset(Path(__file__).parent.glob("*.py"))
    return hash_parts(*(f"{each.name} {_digest(each)}" for each in sorted(sources(*files) | compiler_sources)))


def sources(*files: Path) -> frozenset[Path]:
    """Returns modules and, recursively, the modules that they import from this package, their own, or their folder."""
    found: frozenset[Path] = frozenset()
    left = frozenset(files)
    while left:
        found |= left
        left = frozenset().union(*map(_imported, left)) - found
    return found


@cache
def _content(file: Path) -> bytes:
    """Returns the content of a file, read once per process."""
    return file.read_bytes()


@cache
def _digest(file: Path) -> str:
    """Returns a hash of a file's content."""
    return hash_parts(_content(file))


@cache
def _imported(file: Path) -> frozenset[Path]:
    """Returns the files that a module imports directly."""
    root, package = _outermost(file.parent)
    installed = root == _PACKAGE.parent  # then what lies beside the package is others' packages
    found = frozenset[Path]()
    for dots, module, names, plain in IMPORT.findall(_content(file).decode()):
        for name in re.findall(r"(?:^|,)\s*([\w.]+)", plain) if plain else (module,):
            top = name.partition(".")[0]
            if dots:
                found |= _modules(file.parents[len(dots) - 1], name, names)
            elif top == _PACKAGE.name:
                found |= _modules(_PACKAGE.parent, name, names)
            elif top == package or not installed:
                found |= _modules(root, name, names)
    return found


@cache
def _outermost(folder: Path) -> tuple[Path, str]:
    """Returns the folder that contains a folder's outermost package, and its name; (folder, "") outside of packages."""
    package = ""
    while (folder / "__init__.py").is_file():
        folder, package = folder.parent, folder.name
    return folder, package


@cache
def _modules(folder: Path, name: str, names: str) -> frozenset[Path]:
    """Returns the files of a module below a folder; for a package also its modules among the imported `names`."""
    path = folder.joinpath(*name.split("."))
    found = [path.with_suffix(".py")]
    if path.is_dir():
        found = [path / f"{each}.py" for each in ("__init__", *re.findall(r"\w+", names))]
    return frozenset(each for each in found if each.is_file())
