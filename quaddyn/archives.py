"""Reading of NPZ archives of any origin without pickles, in memory bounded by the size of the file."""

from __future__ import annotations

import os
import zipfile
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from .errors import ArgumentError

#: Bytes that an archive may contain for each byte of its file: the maximum that deflate can compress.
MAX_COMPRESSION_RATIO = 1100


def read_arrays(file: IO[bytes], max_bytes: int | None = None) -> dict[str, NDArray[Any]]:
    """Returns the arrays of an NPZ archive, without pickles.

    Args:
        file: opened file, at its start.
        max_bytes: largest size of the arrays [bytes]; None for `MAX_COMPRESSION_RATIO` times the size of the file.

    Raises:
        ArgumentError: the arrays are larger.
        Exception: one of `quaddyn.safe_files.DAMAGED_ARCHIVE_ERRORS`: the archive is damaged, or not an archive.
    """
    limit = MAX_COMPRESSION_RATIO * file.seek(0, os.SEEK_END) if max_bytes is None else max_bytes
    file.seek(0)
    with zipfile.ZipFile(file) as members:
        if sum(member.file_size for member in members.infolist()) > limit:
            raise ArgumentError(f"the archive is larger than {limit} bytes when unpacked, which is not accepted")
    file.seek(0)
    with np.load(file, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}
