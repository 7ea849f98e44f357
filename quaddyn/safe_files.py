"""Opening of files that another user may have written or replaced.

Files to be read must be regular files, of which at most a given number of bytes is read; files that are shared with
another process of the same user must belong to that user alone.
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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from .errors import ArgumentError, FileAccessError, FileError, FolderPathError, MissingFileError
from .operating_system import effective_user, is_writable_by_others, open_flags

#: Errors on reading an open archive of arrays that is damaged, encrypted or compressed in an unknown way: archives
#: raise several kinds of errors, and so do their members.
DAMAGED_ARCHIVE_ERRORS = (
    KeyError, ValueError, TypeError, AttributeError, IndexError, EOFError, NotImplementedError, RuntimeError,
    MemoryError, OverflowError, SyntaxError, OSError, struct.error, tokenize.TokenError, lzma.LZMAError,
    zipfile.BadZipFile, zlib.error,
)  # fmt: skip


def check_ending(path: str | os.PathLike[str], endings: Sequence[str]) -> Path:
    """Returns the path of a file whose name must end in one of `endings`, such as ".csv"; capitals are accepted.

    Raises:
        ArgumentError: another ending; the message names the file and the endings.
    """
    if Path(path).suffix.lower() not in endings:
        *others, last = endings
        raise ArgumentError(
            f"{path}: expected a file name that ends in {', '.join(others)}{' or ' if others else ''}{last}"
        )
    return Path(path)


@contextmanager
def file_errors() -> Iterator[None]:
    """Context in which errors of the operating system about files become `FileError` of the fitting class."""
    try:
        yield
    except FileError:
        raise
    except OSError as error:
        kinds = (MissingFileError, FolderPathError, FileAccessError)
        kind = next((kind for kind in kinds if isinstance(error, kind.__bases__[1])), FileError)
        arguments = error.args if error.errno is None else (error.errno, error.strerror, error.filename)
        raise kind(*arguments) from None


def open_regular_file(path: str | os.PathLike[str], max_size: int | None = None) -> IO[bytes]:
    """Opens a file for reading without waiting; checks its descriptor, so that no pipe or device can block.

    Args:
        path: path of the file.
        max_size: largest size [bytes]; None for any.

    Raises:
        FileError: the file cannot be opened, is not a regular file, or is larger; ``strerror`` states which.
    """
    with file_errors():
        descriptor = os.open(path, os.O_RDONLY | open_flags("O_NONBLOCK", "O_CLOEXEC"))
    try:
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            raise FolderPathError(errno.EISDIR, "the path is a folder; pass the path of a file", str(path))
        if not stat.S_ISREG(status.st_mode):
            raise FileError(
                errno.EINVAL, "the path is not a regular file; copy its content into a regular file", str(path)
            )
        if max_size is not None and status.st_size > max_size:
            raise FileError(
                errno.EFBIG, f"the file has {status.st_size} bytes, but at most {max_size} are accepted", str(path)
            )
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_regular_file(path: str | os.PathLike[str], max_size: int) -> bytes:
    """Reads the bytes of a regular file.

    Args:
        path: path of the file.
        max_size: largest size [bytes].

    Raises:
        FileError: as `open_regular_file`, or the file cannot be read.
    """
    with open_regular_file(path, max_size) as file:
        return file.read(os.fstat(file.fileno()).st_size)  # allocates the size of the file, not more


def belongs_to_another_user(status: os.stat_result) -> bool:
    """Returns whether a file or folder belongs to another user than this process's."""
    return effective_user() not in (None, status.st_uid)


def open_private_file(path: str | os.PathLike[str], *, create: bool = False) -> int:
    """Opens a file of this user for reading and writing; rejects a file to which other users have access for writing.

    The checks use the descriptor of the opened file, so that another process cannot replace the file after the checks.

    Args:
        path: path of the file.
        create: whether to create a missing file, for this user alone.

    Returns:
        The file's descriptor, which the caller closes.

    Raises:
        FileAccessError: a symbolic link, not a regular file, a file with several names (hard links) or of another user,
            or one whose mode allows others to write to it.
        OSError: the file cannot be opened.
    """
    if Path(path).is_symlink():  # on systems without O_NOFOLLOW
        raise FileAccessError(f"{path}: the path is a symbolic link; pass the path of the file itself")
    flags = os.O_RDWR | (os.O_CREAT if create else 0) | open_flags("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC")
    try:
        descriptor = os.open(path, flags, 0o600)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise FileAccessError(f"{path}: the path is a symbolic link; pass the path of the file itself") from None
        raise
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise FileAccessError(f"{path}: the path is not a regular file; pass the path of a regular file")
        if status.st_nlink > 1:
            raise FileAccessError(
                f"{path}: the file has {status.st_nlink} names (hard links), so that other users could access it; "
                "pass the path of another file"
            )
        if belongs_to_another_user(status):
            raise FileAccessError(
                f"{path}: the file belongs to user {status.st_uid}, but this process runs as user {effective_user()}; "
                "run both processes as the same user"
            )
        if is_writable_by_others(status):
            raise FileAccessError(
                f"{path}: the mode {stat.S_IMODE(status.st_mode):04o} allows other users to write to the file; "
                f"change it with: chmod go-w {path}"
            )
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def remove_if_same(path: str | os.PathLike[str], status: os.stat_result) -> None:
    """Removes the file with this status (`os.fstat`) from its path; a file that has replaced it there stays."""
    with suppress(FileNotFoundError):
        if os.path.samestat(os.lstat(path), status):
            Path(path).unlink()
