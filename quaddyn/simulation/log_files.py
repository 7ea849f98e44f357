"""Logs of any origin as columns of numbers: CSV, Parquet, MCAP, bags of ROS, and logs of simulations.

The columns have the names of `Log.columns`.  From messages: JointState gives positions, velocities and torques ("tau"
if the metadata of an MCAP channel say that the effort is a command, otherwise "torque"), Odometry the base, and
WrenchStamped the contact force of the foot that ends the name of its topic.

Formats are recognized by the first bytes of a file, for errors about names that end in another format.
"""

from __future__ import annotations

import csv
import functools
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, TextIO

import numpy as np

from ..errors import ArgumentError
from ..extras import import_extra
from ..safe_files import open_regular_file
from ..urdf.tree import Array
from .log import BASE_COLUMNS, Log
from .mcap_file import COMMANDED_EFFORT, JOINTS, MESSAGES, ODOMETRY, WRENCH, numeric_leaves, read_messages

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


#: Types of the messages that are read.
MESSAGE_TYPES = (JOINTS, ODOMETRY, WRENCH)
#: Suffixes of files that `read_columns` reads, besides folders of rosbag2.
SUFFIXES = (".csv", ".npz", ".parquet", ".mcap", ".db3", ".bag")
_POSE, _TWIST = "geometry_msgs/msg/Pose", "geometry_msgs/msg/Twist"
#: Topics that are preferred if there are several of one type.
DEFAULT_TOPICS = {JOINTS: "/joint_states", ODOMETRY: "/odom"}


def read_columns(path: str | os.PathLike[str]) -> dict[str, Array]:
    """Reads the columns of numbers of a log; columns of text are left out.

    Args:
        path: file that ends in .csv, .parquet (extra: export), .mcap (extra: mcap), .db3 or .bag, or folder of rosbag2
            (extra: rosbags), or .npz of `quaddyn.simulation.Log.save`.

    Returns:
        (n,) values by name of the column.

    Raises:
        ArgumentError: another ending, or the file is damaged; the message names the file and the column or topic.
        QuaddynError: a package that the format needs is not installed.
        OSError: the file cannot be read.
    """
    source = Path(path)
    ending = source.suffix.lower()
    if not source.is_dir():
        check_format(source)
    elif not (source / "metadata.yaml").is_file():
        raise ArgumentError(f"{source}: the folder is not a bag of rosbag2, because it has no file metadata.yaml")
    if source.is_dir() or ending in (".mcap", ".db3", ".bag"):
        messages = (
            read_messages(source, MESSAGE_TYPES) if ending == ".mcap" and not source.is_dir() else _read_bag(source)
        )
        try:
            return _columns_of_messages(source, messages)
        except ArgumentError:
            raise
        except (
            KeyError,
            TypeError,
            ValueError,
            IndexError,
            AttributeError,
            OverflowError,
        ) as error:  # JSON has any content
            raise ArgumentError(
                f"{source}: a message lacks a field, or has one of another type ({type(error).__name__}: {error})"
            ) from None
    if ending == ".npz":
        return Log.load(source).columns()
    if ending == ".csv":
        return _read_csv(source)
    if ending == ".parquet":
        return _read_parquet(source)
    raise ArgumentError(f"path: expected a folder of rosbag2 or a name ending in {', '.join(SUFFIXES)}, got {path!s}")


# -- tables ------------------------------------------------------------------------------------------------------------
def read_csv_header(path: str | os.PathLike[str]) -> list[str]:
    """Returns the names of the columns of a CSV file.

    Raises:
        ArgumentError: the first line is not a header; the message names the file.
        OSError: the file cannot be read.
    """
    check_format(path)
    with open_regular_file(path) as raw:
        try:
            header = next(csv.reader([raw.readline(1 << 20).decode("utf-8-sig")]), [])
        except (csv.Error, UnicodeDecodeError) as error:
            raise ArgumentError(f"{path}: the first line is not a CSV header: {error}") from None
    return [name.strip() for name in header]


def _read_csv(path: Path) -> dict[str, Array]:
    """Reads the columns of a CSV file whose first entry that is not empty is a number; empty entries become NaN."""
    header = read_csv_header(path)
    if repeated := [name for i, name in enumerate(header) if name in header[:i]]:
        raise ArgumentError(f"{path}: column {repeated[0]!r} occurs twice")
    numeric: list[int] = []
    try:
        numeric, empty = _classify_columns(path, len(header))
        if not numeric:
            raise ArgumentError(f"{path}: the table contains no numbers")
        try:
            table = _read_table(path, numeric, None)
        except ValueError:  # slower, and reads empty entries
            table = _read_table(path, numeric, lambda word: float(word) if word.strip() else np.nan)
    except ArgumentError:
        raise
    except (csv.Error, ValueError) as error:
        raise ArgumentError(_find_wrong_entry(path, header, numeric) or f"{path}: not a table: {error}") from None
    columns = {header[i]: np.ascontiguousarray(table[:, k]) for k, i in enumerate(numeric)}
    return columns | {header[i]: np.full(len(table), np.nan) for i in empty}


def _classify_columns(path: Path, count: int) -> tuple[list[int], list[int]]:
    """Returns the indices of the columns of numbers, and of those without any entry."""
    numeric, empty = [], set(range(count))
    with _open_text(path) as file:
        rows = csv.reader(file)
        next(rows, None)
        for row in rows:
            begun = [i for i in empty if i < len(row) and row[i].strip()]
            numeric += [i for i in begun if _is_number(row[i])]
            empty -= set(begun)
            if not empty:
                break
    return sorted(numeric), sorted(empty)


def _read_table(path: Path, numeric: list[int], converter: Callable[[str], float] | None) -> Array:
    """Returns the values (n, k) of some columns of a CSV file."""
    options: dict[str, Any] = {"delimiter": ",", "skiprows": 1, "ndmin": 2, "quotechar": '"', "comments": None}
    with _open_text(path) as file:
        return np.loadtxt(file, usecols=numeric, converters=converter, **options)


def _open_text(path: Path) -> TextIO:
    """Opens a table; bytes that are not text become characters that no number has."""
    return path.open(encoding="utf-8-sig", errors="replace", newline="")


def _find_wrong_entry(path: Path, header: list[str], numeric: list[int]) -> str:
    """Returns a message that names the first entry that is not a number; "" without one."""
    with _open_text(path) as file, suppress(csv.Error):
        for number, row in enumerate(csv.reader(file), start=1):
            for i in numeric if number > 1 and row else ():
                word = row[i] if i < len(row) else ""
                if not _is_number(word) and (word.strip() or i >= len(row)):
                    return f"{path}:{number}: column {header[i]!r}: {word[:40]!r} is not a number"
    return ""


def _is_number(word: str) -> bool:
    """Returns whether a word is a number, "nan" and "inf" included."""
    try:
        float(word)
    except ValueError:
        return False
    return True


def _read_parquet(path: Path) -> dict[str, Array]:
    """Reads the numeric columns of a Parquet file; missing values become NaN."""
    parquet, pyarrow = import_extra("pyarrow.parquet", "export"), import_extra("pyarrow", "export")
    with open_regular_file(path) as file:
        try:
            table = parquet.read_table(file)
        except (pyarrow.ArrowException, ValueError, OSError) as error:
            raise ArgumentError(f"{path}: the file is not Parquet, or it is damaged: {error}") from None
    kinds = pyarrow.types
    return {
        field.name: np.asarray(table.column(i).cast(pyarrow.float64()).to_numpy(), dtype=np.float64)
        for i, field in enumerate(table.schema)
        if kinds.is_integer(field.type) or kinds.is_floating(field.type)
    }


# -- messages ----------------------------------------------------------------------------------------------------------
def _read_bag(path: Path) -> Iterator[tuple[str, str, float, Any, Mapping[str, str]]]:
    """Yields topic, type, time [s] and fields of the messages of a bag, as `read_messages`, without metadata."""
    highlevel, typesys = import_extra("rosbags.highlevel", "rosbags"), import_extra("rosbags.typesys", "rosbags")
    path.stat()  # the error of a missing file
    try:
        types = typesys.get_typestore(typesys.Stores.ROS2_HUMBLE)  # of bags without definitions
        with highlevel.AnyReader([path], default_typestore=types) as reader:
            connections = [each for each in reader.connections if each.msgtype in MESSAGE_TYPES]
            for connection, stamp, data in reader.messages(connections) if connections else ():
                message = reader.deserialize(data, connection.msgtype)
                yield connection.topic, connection.msgtype, 1e-9 * stamp, _fields(connection.msgtype, message), {}
    except ArgumentError:
        raise
    except Exception as error:  # the package has several error classes, and passes on those of its parsers
        raise ArgumentError(f"{path}: the bag cannot be read: {error}") from None


def _fields(kind: str, message: Any) -> dict[str, Any]:
    """Returns the fields of a message object by name, as `decode_cdr`."""
    return {
        name: _fields(field, getattr(message, name)) if field in MESSAGES else getattr(message, name)
        for field, name in MESSAGES[kind]
    }


def _columns_of_messages(
    path: Path, messages: Iterable[tuple[str, str, float, Any, Mapping[str, str]]]
) -> dict[str, Array]:
    """Returns the columns of joints, base and contact forces at the times of the joint states."""
    received: dict[tuple[str, str], list[tuple[float, Any]]] = defaultdict(list)
    channels: dict[str, Mapping[str, str]] = {}  # metadata by topic
    for topic, kind, logged, content, metadata in messages:
        stamp = content["header"]["stamp"]
        seconds = stamp["sec"] + 1e-9 * stamp["nanosec"]
        received[kind, topic].append((seconds or logged, content))
        channels[topic] = metadata
    joints = _choose(path, received, JOINTS)
    if joints is None:
        raise ArgumentError(f"{path}: the file contains no messages of type {JOINTS}")
    topic, entries = joints
    times = np.array([seconds for seconds, _ in entries])
    names = list(entries[0][1]["name"])
    columns: dict[str, Array] = {}
    effort = "tau" if COMMANDED_EFFORT.items() <= channels[topic].items() else "torque"
    for quantity, field in (("position", "position"), ("velocity", "velocity"), (effort, "effort")):
        rows = [content[field] for _, content in entries]
        for i, ((_, content), row) in enumerate(zip(entries, rows, strict=True)):
            if list(content["name"]) != names or len(row) not in (0, len(names)) or len(row) != len(rows[0]):
                raise ArgumentError(
                    f"{path}: topic {topic!r}: message {i} has {len(content['name'])} names and {len(row)} entries of "
                    f"{field}; expected the {len(names)} names and {len(rows[0])} entries of the first message"
                )
        if len(rows[0]):
            columns |= {f"{quantity} {name}": x for name, x in zip(names, np.array(rows, dtype=float).T, strict=True)}
    others: dict[str, tuple[Array, Array]] = {}
    if (odometry := _choose(path, received, ODOMETRY)) is not None:
        poses = [(s, m["pose"]["pose"], m["twist"]["twist"]) for s, m in odometry[1]]
        table = np.array([[*_numbers(_POSE, pose), *_numbers(_TWIST, twist)] for _, pose, twist in poses])
        signs = np.cumprod(np.where(np.r_[1.0, np.einsum("ij,ij->i", table[1:, 3:7], table[:-1, 3:7])] < 0, -1.0, 1.0))
        table[:, 3:7] *= signs[:, None]  # for the interpolation; both signs are one orientation
        stamps = np.array([s for s, *_ in poses])
        others |= {name: (stamps, x) for name, x in zip(BASE_COLUMNS["free"], table.T, strict=True)}
    for (kind, each), wrenches in received.items():
        if kind == WRENCH:
            forces = np.array([[m["wrench"]["force"][axis] for axis in "xyz"] for _, m in wrenches])
            stamps = np.array([s for s, _ in wrenches])
            others |= {f"force {each.rsplit('/', 1)[-1]} {a}": (stamps, forces[:, i]) for i, a in enumerate("xyz")}
    covered = np.ones(len(times), dtype=bool)
    for name, (stamps, values) in others.items():
        if (np.diff(stamps) < 0.0).any():
            raise ArgumentError(f"{path}: the time stamps of {name!r} are not in order")
        covered &= (times >= stamps[0] - 1e-9) & (times <= stamps[-1] + 1e-9)
        columns[name] = values if np.array_equal(stamps, times) else np.interp(times, stamps, values)
    if not covered.any():
        raise ArgumentError(f"{path}: the topics of joints, base and forces have no time in common")
    columns["time [s]"] = times
    return {name: column[covered] for name, column in columns.items()}


def _choose(path: Path, received: Any, kind: str) -> tuple[str, list[tuple[float, Any]]] | None:
    """Returns the topic of a type and its messages; None without one."""
    topics = [topic for each, topic in received if each == kind]
    if len(topics) > 1 and DEFAULT_TOPICS[kind] not in topics:
        raise ArgumentError(f"{path}: expected one topic of type {kind}, got {', '.join(map(repr, sorted(topics)))}")
    if not topics:
        return None
    topic = DEFAULT_TOPICS[kind] if DEFAULT_TOPICS[kind] in topics else topics[0]
    return topic, received[kind, topic]


def _numbers(kind: str, content: Any) -> list[float]:
    """Returns the numbers of a message of a type in `MESSAGES` in the order of the fields of the type."""
    return [float(functools.reduce(lambda at, name: at[name], path, content)) for path in numeric_leaves(kind) or ()]
