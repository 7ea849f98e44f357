"""Files that somebody else may have written or put there.

Files to be read are regular ones, of which no more is read than was asked for; files that are shared with another
process of the same user belong to that user alone.
"""

from __future__ import annotations

import errno
import lzma
import os
import stat
import struct
import tokenize
import zipfile
import zlib
from contextlib import suppress
from pathlib import Path
from typing import IO

from .errors import FileAccessError

#: What reading an opened archive of arrays raises that is damaged, encrypted or packed in a way unknown here: archives
#: have errors of several kinds, and so has what is in them.
DAMAGE = (
    KeyError, ValueError, TypeError, AttributeError, IndexError, EOFError, NotImplementedError, RuntimeError,
    MemoryError, OverflowError, SyntaxError, OSError, struct.error, tokenize.TokenError, lzma.LZMAError,
    zipfile.BadZipFile, zlib.error,
)  # fmt: skip


def open_regular(path: str | os.PathLike[str], most: int | None = None) -> IO[bytes]:
    """Open a file for reading; without waiting, and judged by its descriptor, so that no pipe or device can hang us.

    Args:
        path: of the file.
        most: largest size [bytes]; None for any.

    Raises:
        OSError: it cannot be opened, is no regular file, or is larger; ``strerror`` says which.
    """
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    try:
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            raise OSError(errno.EISDIR, "it is a folder; name a file in it", str(path))
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file; copy its content into one", str(path))
        if most is not None and status.st_size > most:
            raise OSError(errno.EFBIG, f"{status.st_size} bytes; at most {most} are read", str(path))
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_regular(path: str | os.PathLike[str], most: int) -> bytes:
    """The bytes of a regular file.

    Args:
        path: of the file.
        most: largest size [bytes].

    Raises:
        OSError: as `open_regular`, or it cannot be read.
    """
    with open_regular(path, most) as file:
        return file.read(os.fstat(file.fileno()).st_size)  # as much memory is taken as is asked for


def of_another_user(status: os.stat_result) -> bool:
    """Whether a file or folder belongs to another user than this process's."""
    return hasattr(os, "geteuid") and status.st_uid != os.geteuid()


def writable_by_others(status: os.stat_result) -> bool:
    """Whether the mode of a file or folder lets its group or everybody write to it."""
    return bool(status.st_mode & (stat.S_IWGRP | stat.S_IWOTH))


def open_own(path: str | os.PathLike[str], *, create: bool = False) -> int:
    """Open a file for reading and writing that no other user can have put there, or can write to.

    The file is judged by its descriptor, so that none can take its place meanwhile.

    Args:
        path: of the file.
        create: make the file where there is none, for this user alone.

    Returns:
        Its descriptor, which the caller closes.

    Raises:
        FileAccessError: a symbolic link, not a regular file, a file with several names (hard links) or of another user,
            or one that its mode lets others write to.
        OSError: it cannot be opened.
    """
    flags = os.O_RDWR | (os.O_CREAT if create else 0)
    for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC"):
        flags |= getattr(os, name, 0)
    try:
        descriptor = os.open(path, flags, 0o600)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise FileAccessError(f"{path}: a symbolic link; give the path of the file itself") from None
        raise
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise FileAccessError(f"{path}: not a regular file; give the path of one")
        if status.st_nlink > 1:
            raise FileAccessError(f"{path}: a file with {status.st_nlink} names (hard links); give the path of another")
        if of_another_user(status):
            raise FileAccessError(
                f"{path}: belongs to user {status.st_uid}, but this process is of user {os.geteuid()}; let both sides "
                "be of the same user"
            )
        if writable_by_others(status):
            raise FileAccessError(
                f"{path}: mode {stat.S_IMODE(status.st_mode):04o} lets other users write to it; chmod go-w {path}"
            )
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def remove_same(path: str | os.PathLike[str], status: os.stat_result) -> None:
    """Remove the file of this status (`os.fstat`) from its path; what has taken its place there meanwhile stays."""
    with suppress(FileNotFoundError):
        if os.path.samestat(os.lstat(path), status):
            Path(path).unlink()
