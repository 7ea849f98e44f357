"""Archives of arrays (NPZ) from anywhere: read in memory bounded by the size of the file, without pickles."""

from __future__ import annotations

import os
import zipfile
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

#: Bytes that an archive may hold for each byte of its file: what deflate can do at most.
PACKED = 1100


def read_arrays(file: IO[bytes], most: int | None = None) -> dict[str, NDArray[Any]]:
    """The arrays of an NPZ archive, without pickles.

    Args:
        file: opened, at its start.
        most: that they may take [bytes]; by default `PACKED` times the size of the file.

    Raises:
        ValueError: they would take more; one of `quaddyn.files.DAMAGE` where the archive is damaged or none.
    """
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    with zipfile.ZipFile(file) as members:
        unpacked = sum(member.file_size for member in members.infolist())
        if unpacked > (PACKED * size if most is None else most):
            raise ValueError(f"{unpacked} bytes are packed in {size}")
    file.seek(0)
    with np.load(file, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}
