"""Reading files that somebody else wrote: regular ones only, and no more of them than was asked for."""

from __future__ import annotations

import errno
import lzma
import os
import stat
import struct
import tokenize
import zipfile
import zlib
from typing import IO

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
