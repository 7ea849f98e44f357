"""Machine code on disk: stored under a hash of its sources, verified when read, in the user's own folders.

A file holds a SHA-256 digest, the key that it was written under, and the code.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ..safe_files import of_another_user, read_regular, writable_by_others

_DIGEST = 32
#: Largest file that is read [bytes].
MOST_BYTES = 1 << 28


@dataclass(frozen=True, slots=True)
class Found:
    """A unit's machine code.

    Attributes:
        code: relocatable.
        seconds: that it took to make; 0 for what was shipped.
        source: "compiled", "kept" or "shipped".
        place: file, or "" if it is nowhere.
    """

    code: bytes
    seconds: float
    source: str
    place: str


def digest(*parts: object) -> str:
    """A hash of `parts`."""
    h = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else str(part).encode()
        h.update(len(data).to_bytes(8, "little") + data)
    return h.hexdigest()


def as_private(folder: Path, package: Path) -> bool:
    """Whether a folder is as protected from other users as the package itself."""
    try:
        info, reference = folder.stat(), package.stat()
    except OSError:
        return False
    return info.st_uid == reference.st_uid and not info.st_mode & ~reference.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


@dataclass(frozen=True, slots=True)
class Cache:
    """Where machine code is kept.

    Attributes:
        folder: as configured; None without a setting.
        reason: why it is not used, "" if it is.
        wanted: whether the user wants one.
    """

    folder: Path | None
    reason: str
    wanted: bool = True


def cache() -> Cache:
    """Where machine code is kept: ``$QUADDYN_CACHE`` or the user's cache folder.

    Code found there will be run, so the folder must belong to the user and be writable by nobody else.
    """
    given = os.environ.get("QUADDYN_CACHE")
    if given == "":
        return Cache(None, "QUADDYN_CACHE is empty: nothing is kept", wanted=False)
    try:
        base = Path(given) if given else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "quaddyn"
    except RuntimeError as error:
        return Cache(None, f"{error}; name one with QUADDYN_CACHE")
    try:
        base.mkdir(mode=0o700, parents=True, exist_ok=True)
        info = base.stat()
    except OSError as error:
        return Cache(base, f"cannot be made: {error}")
    if of_another_user(info):
        return Cache(base, "belongs to another user, and code found there would be run")
    if writable_by_others(info):
        return Cache(base, f"others may write to it, and code found there would be run: chmod go-w {base}")
    return Cache(base, "")


def cache_folder() -> Path | None:
    """The folder of `cache`; None where it is not used."""
    found = cache()
    return None if found.reason else found.folder


def read(path: Path, key: str) -> bytes | None:
    """What was written under `key`, if it is whole."""
    try:
        data = read_regular(path, MOST_BYTES)
    except OSError:
        return None
    head, body = data[:_DIGEST], data[_DIGEST:]
    mark = key.encode()
    if hashlib.sha256(body).digest() != head or not body.startswith(mark):
        return None
    return body[len(mark) :]


def write(path: Path, key: str, code: bytes) -> None:
    """Write whole or not at all; nothing is written where nothing can be."""
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


def cached(key: str) -> bytes | None:
    """What is kept under `key`."""
    folder = cache_folder()
    return read(folder / f"{key}.bin", key) if folder is not None else None


def place(key: str) -> str:
    """The file of what is kept under `key`, "" where nothing is kept."""
    folder = cache_folder()
    return "" if folder is None else str(folder / f"{key}.bin")


def keep(key: str, code: bytes) -> None:
    """Keep code under `key`, where a cache folder can be had."""
    folder = cache_folder()
    if folder is not None:
        write(folder / f"{key}.bin", key, code)
