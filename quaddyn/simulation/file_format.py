"""Formats of logs, recognized by the first bytes of a file, for errors about names that end in another format."""

from __future__ import annotations

import os
from pathlib import Path
from types import MappingProxyType

from ..errors import ArgumentError
from ..safe_files import open_regular_file

#: First bytes of a recording of a control loop, see `quaddyn.runtime.Recording`.
RECORDING_MAGIC = b"QDRLOG"
RECORDING = "a recording of a control loop"
#: Names of formats by the first bytes of their files, and formats by the suffixes that they need.
FORMATS = MappingProxyType(
    {
        b"PK\x03\x04": "an NPZ archive",
        b"\x89MCAP0\r\n": "an MCAP file",
        b"PAR1": "a Parquet file",
        b"SQLite format 3\0": "a database of rosbag2",
        b"#ROSBAG": "a bag of ROS 1",
        RECORDING_MAGIC: RECORDING,
    }
)
SUFFIX_FORMATS = MappingProxyType(
    {
        ".csv": "text",
        ".npz": "an NPZ archive",
        ".mcap": "an MCAP file",
        ".parquet": "a Parquet file",
        ".db3": "a database of rosbag2",
        ".bag": "a bag of ROS 1",
    }
)
#: Number of bytes that are read.
HEAD_SIZE = 4096


def recognize_format(path: str | os.PathLike[str]) -> str:
    """Returns the format of a file as a noun with its article, such as "an MCAP file"; "text", "XML" or "unknown data".

    Raises:
        OSError: the file cannot be read.
    """
    with open_regular_file(path) as file:
        head = file.read(HEAD_SIZE)
    for magic, name in FORMATS.items():
        if head.startswith(magic):
            return name
    if not head:
        return "an empty file"
    if any(byte < 32 and byte not in b"\t\n\r\f" for byte in head):
        return "unknown data"
    return "XML" if head.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"<") else "text"


def check_format(path: str | os.PathLike[str]) -> None:
    """Raises unless the content of a file is of the format in which its name ends; other endings are not checked.

    Raises:
        ArgumentError: another format; the message names the file, the format, and the suffix for it.
        OSError: the file cannot be read.
    """
    ending = Path(path).suffix.lower()
    expected = SUFFIX_FORMATS.get(ending)
    if expected is None or (found := recognize_format(path)) == expected:
        return
    suffixes = [suffix for suffix, name in SUFFIX_FORMATS.items() if name == found]
    if suffixes and found != "text":
        advice = f"rename the file to end in {suffixes[0]}"
    elif found == RECORDING:
        advice = "read it with quaddyn.runtime.load_recording"
    else:
        advice = f"pass {'a table, whose columns are separated by commas' if expected == 'text' else expected}"
    if found == "text":
        advice = f"rename a table to end in .csv, or {advice}"
    raise ArgumentError(f"{path}: the name ends in {ending}, but the content is {found}; {advice}")
