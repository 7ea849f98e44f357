"""Archives of arrays (NPZ) from anywhere: read in memory bounded by the size of the file, without pickles."""

from __future__ import annotations

import os
import zipfile
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from .errors import ArgumentError

#: Bytes that an archive may hold for each byte of its file: what deflate can do at most.
PACKED = 1100


def read_arrays(file: IO[bytes], most: int | None = None) -> dict[str, NDArray[Any]]:
    """The arrays of an NPZ archive, without pickles.

    Args:
        file: opened, at its start.
        most: that they may take [bytes]; by default `PACKED` times the size of the file.

    Raises:
        ArgumentError: they would take more.
        Exception: one of `quaddyn.safe_files.DAMAGE`: the archive is damaged, or none.
    """
    limit = PACKED * file.seek(0, os.SEEK_END) if most is None else most
    file.seek(0)
    with zipfile.ZipFile(file) as members:
        if sum(member.file_size for member in members.infolist()) > limit:
            raise ArgumentError(f"larger than {limit} bytes when unpacked")
    file.seek(0)
    with np.load(file, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}
