"""Data sets on disk: CSV or NPZ, validated, and read in chunks of constant memory; and logs in other formats.

An NPZ holds arrays ``q v a tau`` and ``f FOOT``, and the names of the joints in the order of tau.  A CSV names each
column: ``q 0`` and so on, ``v 0``, ``a 0``, ``tau JOINT`` (or ``tau 0`` and so on in the order of `Robot.actuated`),
and ``f FOOT 0`` for a force at the frame, ``g FOOT 0`` for one at the ground.  Columns may be in any order, but the
components of one force must be in ascending order.  Filtered samples also have ``direction`` (columns ``direction 0``
and so on) and ``noise_bandwidth``, see `Samples`.  A column or array ``t`` is ignored.  Logs are read as a whole by
`quaddyn.simulation.log_files.read_columns` and have no accelerations, see `samples_from_columns`.
"""

from __future__ import annotations

import csv
import io
import os
import re
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, cast

import numpy as np

from ..errors import ArgumentError
from ..robot.robot import Robot
from ..safe_files import DAMAGED_ARCHIVE_ERRORS, check_ending, file_errors, open_regular_file
from ..simulation.log_files import SUFFIXES, check_format, read_columns, read_csv_header, recognize_format
from ..urdf.tree import Array
from .log_samples import samples_from_columns
from .samples import ForceApplication, Samples

#: Endings of files of samples.
SAMPLE_ENDINGS = (".csv", ".npz")
#: Samples per chunk.
CHUNK_SAMPLES = 16384

_FORCE = re.compile(r"f (.+) ([0-5])")

#: Columns of filtered samples only, see `Samples`.
_FILTERED = ("direction", "noise_bandwidth")
#: Characters of a CSV's first line, and of every other one a column, at most.
_MAX_HEADER_CHARACTERS, _MAX_ENTRY_CHARACTERS = 1 << 20, 64
#: Times that an archive may be larger unpacked than packed: motion is no better than ten times.
_MAX_COMPRESSION_RATIO = 200
#: Names in an array of names, and letters in one of them, at most.
_MAX_NAMES, _MAX_NAME_LENGTH = 10_000, 256


def save_samples(path: str | os.PathLike[str], robot: Robot, samples: Samples) -> None:
    """Writes samples as CSV or NPZ, according to the ending of the file name.

    Args:
        path: ends in .csv or .npz.
        robot: the robot of the samples.
        samples: the samples.

    Raises:
        ArgumentError: another ending, or samples that are not of this robot.
    """
    target = check_ending(path, SAMPLE_ENDINGS)
    samples.check(robot)
    filtered = {} if samples.direction is None else {"direction": samples.direction}
    if samples.noise_bandwidth != 1.0:
        filtered["noise_bandwidth"] = np.full((len(samples), 1), samples.noise_bandwidth)
    if target.suffix.lower() == ".npz":
        arrays = {"q": samples.q, "v": samples.v, "a": samples.a, "tau": samples.tau}
        arrays |= {f"f {name}": f for name, f in samples.forces.items()} | filtered
        arrays = {name: np.ascontiguousarray(x) for name, x in arrays.items()}  # rows, as they are read
        metadata = {"joints": np.array(robot.actuated, dtype=np.str_), "place": np.array(samples.force_application)}
        with file_errors(), target.open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays, **metadata)
        return
    names = [f"{x} {i}" for x, n in (("q", robot.nq), ("v", robot.nv), ("a", robot.nv)) for i in range(n)]
    names += [f"tau {joint}" for joint in robot.actuated]
    # The letter distinguishes forces on the ground from those at frames.
    prefix = "f" if samples.force_application == "frame" else "g"
    names += [f"{prefix} {name} {i}" for name, f in samples.forces.items() for i in range(f.shape[1])]
    names += [f"{name} {i}" for name, x in filtered.items() for i in range(x.shape[1])]
    parts = [samples.q, samples.v, samples.a, samples.tau, *samples.forces.values(), *filtered.values()]
    table = np.concatenate(parts, axis=1)
    with file_errors(), target.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerow(names)
        np.savetxt(file, table, delimiter=",", fmt="%.17g")


def load_samples(
    path: str | os.PathLike[str],
    robot: Robot,
    *,
    names: Mapping[str, str] | None = None,
    cutoff: float | None = None,
    start: float = -np.inf,
    end: float = np.inf,
) -> Samples:
    """Reads all samples of a file.

    Args:
        path: data set or log, see `stream_samples`.
        robot: the robot of the samples.
        names: names of the robot by names in the file, see `samples_from_columns`; None: they are equal.
        cutoff: of logs, frequency of the low-pass [Hz]; inf: none; None: a tenth of the sampling rate.
        start: of logs, time of the first row that is used [s]; -inf: that of the log.
        end: of logs, time of the last row that is used [s]; inf: that of the log.

    Raises:
        ArgumentError: not a data set of this robot; the message names the file and the error.
        OSError: the file cannot be read.
    """
    return Samples.concatenate(list(stream_samples(path, robot, names=names, cutoff=cutoff, start=start, end=end)))


def stream_samples(
    path: str | os.PathLike[str],
    robot: Robot,
    *,
    chunk: int = CHUNK_SAMPLES,
    progress: Callable[[float], object] | None = None,
    names: Mapping[str, str] | None = None,
    cutoff: float | None = None,
    start: float = -np.inf,
    end: float = np.inf,
) -> Iterator[Samples]:
    """Reads the samples of a file in chunks; of a data set, in memory that does not depend on the size of the file.

    Args:
        path: data set of `save_samples` (.csv or .npz), or a log: .csv, .npz of `Log.save`, .parquet, .mcap, .db3, .bag
            or a folder of rosbag2.  For a recording of a control loop, pass ``load_recording(path).columns()`` to
            `samples_from_columns`.
        robot: the robot of the samples.
        chunk: largest number of samples at once.
        progress: called with the fraction read so far, 0 to 1; None for no reports.
        names: names of the robot by names in the file, see `samples_from_columns`; None: they are equal.
        cutoff: of logs, frequency of the low-pass [Hz]; inf: none; None: a tenth of the sampling rate.
        start: of logs, time of the first row that is used [s]; -inf: that of the log.
        end: of logs, time of the last row that is used [s]; inf: that of the log.

    Yields:
        Validated samples; at least one chunk.

    Raises:
        ArgumentError: not a data set of this robot; the message names the file and the error.
        OSError: the file cannot be read.
    """
    source, names = Path(path), names or {}
    if chunk < 1:
        raise ArgumentError(f"chunk: expected at least 1 sample, got {chunk}")
    if is_log(source, names):
        columns = read_columns(source)
        log = samples_from_columns(robot, columns, names=names, cutoff=cutoff, start=start, end=end, source=str(source))
        parts: Iterator[tuple[Samples, float]] = (
            (log[i : i + chunk], min(1.0, (i + chunk) / len(log))) for i in range(0, len(log), chunk)
        )
    else:
        parts = (_stream_npz if source.suffix.lower() == ".npz" else _stream_csv)(source, robot, chunk, names)
    done = 0
    for samples, fraction in parts:
        try:
            samples.check(robot)
        except (ArgumentError, KeyError) as error:
            raise ArgumentError(f"{source}: from sample {done}: {error}") from None
        done += len(samples)
        if progress is not None:
            progress(fraction)
        yield samples
    if not done:
        raise ArgumentError(f"{source}: the file contains no samples")


def is_log(path: str | os.PathLike[str], names: Mapping[str, str] | None = None) -> bool:
    """Returns whether a file is a log instead of a data set of samples.

    Args:
        path: file, or folder of rosbag2.
        names: names of the robot by names in the file, see `samples_from_columns`; None: they are equal.

    Raises:
        ArgumentError: a file with another ending, or a damaged archive.
        OSError: the file cannot be read.
    """
    source = Path(path)
    ending = source.suffix.lower()
    if source.is_dir() or ending not in (".csv", ".npz"):
        if not source.is_dir() and ending not in SUFFIXES:
            raise ArgumentError(
                f"path: expected a name ending in {', '.join(SUFFIXES)}, got {source.name!r}, whose content is "
                f"{recognize_format(source)}; of a recording of a control loop, pass load_recording(path).columns() to "
                "samples_from_columns"
            )
        return True
    if ending == ".npz":
        with _open_archive(source) as archive:
            return {"meta.npy", "q.npy"} & set(archive.namelist()) == {"meta.npy"}
    return any(_rename(name, names or {}).startswith("position ") for name in read_csv_header(source))


def configuration_size(path: str | os.PathLike[str], names: Mapping[str, str] | None = None) -> int | None:
    """Returns the number of coordinates of q in a data set, without reading its samples; None if it has no q.

    Args:
        path: ends in .csv or .npz.
        names: names of the robot by names in the file, see `samples_from_columns`; None: they are equal.

    Raises:
        ArgumentError: another ending, or a file that is damaged.
        OSError: the file cannot be read.
    """
    source = check_ending(path, SAMPLE_ENDINGS)
    if source.suffix.lower() == ".csv":
        header = [_rename(name, names or {}) for name in read_csv_header(source)]
        return sum(re.fullmatch(r"q \d+", name) is not None for name in header) or None
    with _open_archive(source) as archive, ExitStack() as stack:
        if "q.npy" not in archive.namelist():
            return None
        shape = _open_array(f"{source}: array 'q'", archive, "q", stack)[1]
        return shape[1] if len(shape) == 2 else None


def _rename(name: str, names: Mapping[str, str]) -> str:
    """Returns the name of a column with names of the robot, see `samples_from_columns`."""
    return names.get(name) or " ".join(names.get(word, word) for word in name.split(" "))


@contextmanager
def _open_archive(path: Path) -> Iterator[zipfile.ZipFile]:
    """Opens an NPZ file."""
    check_format(path)
    with ExitStack() as stack:
        raw = stack.enter_context(open_regular_file(path))
        try:
            archive = stack.enter_context(zipfile.ZipFile(raw))
        except DAMAGED_ARCHIVE_ERRORS as error:
            raise ArgumentError(f"{path}: the file is not an NPZ archive: {error}") from None
        yield archive


def _make_samples(
    columns: Mapping[str, Array], tau: Array, forces: Mapping[str, Array], application: ForceApplication
) -> Samples:
    """Returns samples with the columns of `_FILTERED` that the file has; the noise bandwidth is a mean."""
    q, v, a = (columns[x] for x in ("q", "v", "a"))
    bandwidth = float(np.mean(columns["noise_bandwidth"])) if "noise_bandwidth" in columns else 1.0
    return Samples(q, v, a, tau, forces, application, bandwidth, columns.get("direction"))


# -- CSV -----------------------------------------------------------------------------------------------------------
def _stream_csv(path: Path, robot: Robot, chunk: int, names: Mapping[str, str]) -> Iterator[tuple[Samples, float]]:
    """Yields chunks of a CSV file and the fraction read so far."""
    with open_regular_file(path) as raw, io.TextIOWrapper(raw, encoding="utf-8-sig", newline="") as file:
        size = max(os.fstat(raw.fileno()).st_size, 1)
        _read_lines(path, file, 1, _MAX_HEADER_CHARACTERS)
        header = [_rename(name, names) for name in read_csv_header(path)]
        columns, forces, force_application = _assign_columns(path, robot, header)
        line = 2
        while lines := _read_lines(path, file, chunk, _MAX_ENTRY_CHARACTERS * (1 + len(header))):
            rows = [(number, text) for number, text in enumerate(lines, start=line) if not text.isspace()]
            line += len(lines)
            if not rows:
                continue
            table = _parse_numbers(path, rows, len(header))
            arrays = {x: np.ascontiguousarray(table[:, c]) for x, c in columns.items()}
            f = {name: np.ascontiguousarray(table[:, c]) for name, c in forces.items()}
            yield _make_samples(arrays, arrays["tau"], f, force_application), raw.tell() / size


def _read_line(path: Path, file: io.TextIOWrapper, max_characters: int) -> str:
    """Returns the next line, which must be shorter than `max_characters`."""
    line = file.readline(max_characters)
    if len(line) == max_characters and not line.endswith("\n"):
        raise ArgumentError(
            f"{path}: a line has {max_characters} characters or more; the file is not a table of numbers"
        )
    return line


def _read_lines(path: Path, file: io.TextIOWrapper, count: int, max_characters: int) -> list[str]:
    """Returns up to `count` lines."""
    out: list[str] = []
    try:
        while len(out) < count and (line := _read_line(path, file, max_characters)):
            out.append(line)
    except UnicodeDecodeError as error:
        raise ArgumentError(f"{path}: the file is not text: {error}") from None
    return out


def _parse_numbers(path: Path, rows: list[tuple[int, str]], columns: int) -> Array:
    """Converts lines, given with their numbers in the file, to a table."""
    try:
        table = np.loadtxt([line for _, line in rows], delimiter=",", ndmin=2, comments=None)
    except ValueError:
        table = np.zeros((0, 0))
    if table.shape == (len(rows), columns):
        return np.asarray(table, dtype=np.float64)
    for number, line in rows:  # find the first wrong line, for the message
        entries = line.strip().split(",")
        if len(entries) != columns:
            raise ArgumentError(f"{path}:{number}: expected {columns} numbers, got {len(entries)}")
        for word in entries:
            try:
                float(word)
            except ValueError:
                raise ArgumentError(f"{path}:{number}: {word.strip()[:40]!r} is not a number") from None
    raise ArgumentError(f"{path}: lines {rows[0][0]} to {rows[-1][0]} are not a table of numbers")


def _assign_columns(
    path: Path, robot: Robot, header: list[str]
) -> tuple[dict[str, list[int]], dict[str, list[int]], ForceApplication]:
    """Returns the column indices of q, v, a and tau, those of each force, and where the forces act."""
    column_by_name = {name: i for i, name in enumerate(header)}
    if len(column_by_name) != len(header):
        raise ArgumentError(f"{path}: column {Counter(header).most_common(1)[0][0]!r} occurs twice")
    expected = {x: [f"{x} {i}" for i in range(n)] for x, n in (("q", robot.nq), ("v", robot.nv), ("a", robot.nv))}
    by_index = "tau 0" in column_by_name and "0" not in robot.actuated  # as the columns q, v and a
    expected["tau"] = [f"tau {joint}" for joint in (range(robot.nu) if by_index else robot.actuated)]
    for x, n in (("direction", robot.nv), ("noise_bandwidth", 1)):
        if f"{x} 0" in column_by_name:
            expected[x] = [f"{x} {i}" for i in range(n)]
    missing = [name for names in expected.values() for name in names if name not in column_by_name]
    separator = next((c for c in ";\t" if len(header) == 1 and c in header[0]), None)
    if separator is not None:
        raise ArgumentError(f"{path}: expected columns separated by commas, but this file seems to use {separator!r}")
    if missing:
        shown = f"{', '.join(map(repr, header[:6]))}{' ...' if len(header) > 6 else ''}"
        raise ArgumentError(
            f"{path}: column {missing[0]!r} of {robot.name} is missing ({len(missing)} in all); it has {shown}; "
            "samples need the columns 'q 0', 'v 0', 'a 0' and so on, and 'tau 0' or 'tau JOINT' and so on; map the "
            "names of a log to 'time [s]', 'position JOINT [rad]' and so on (names=, --column)"
        )
    forces: dict[str, list[int]] = {}
    prefixes = set()
    known = {name for names in expected.values() for name in names}
    for i, name in enumerate(header):
        match = _FORCE.fullmatch("f" + name[1:]) if name[:2] in ("f ", "g ") else None
        if match is not None:
            prefixes.add(name[0])
            forces.setdefault(match[1], []).append(i)
            if len(forces[match[1]]) != int(match[2]) + 1:
                raise ArgumentError(f"{path}: expected the columns 0, 1, 2 of the force {match[1]!r} in this order")
        elif name not in known and name != "t":
            raise ArgumentError(f"{path}: column {name!r} is unknown for {robot.name}")
    if len(prefixes) > 1:
        raise ArgumentError(
            f"{path}: the file mixes forces at frames (columns f) and on the ground (columns g); use only one kind"
        )
    columns = {x: [column_by_name[name] for name in names] for x, names in expected.items()}
    return columns, forces, "ground" if prefixes == {"g"} else "frame"


# -- NPZ -----------------------------------------------------------------------------------------------------------
def _stream_npz(path: Path, robot: Robot, chunk: int, names: Mapping[str, str]) -> Iterator[tuple[Samples, float]]:
    """Yields chunks of an NPZ file and the fraction read so far."""
    with ExitStack() as stack:
        archive = stack.enter_context(_open_archive(path))
        compressed_size, uncompressed_size = path.stat().st_size, sum(m.file_size for m in archive.infolist())
        if uncompressed_size > _MAX_COMPRESSION_RATIO * compressed_size:
            raise ArgumentError(
                f"{path}: the archive expands from {compressed_size} to {uncompressed_size} bytes, which is rejected "
                "as a possible attack; if this is intended, store the arrays uncompressed"
            )
        members = [n.removesuffix(".npy") for n in archive.namelist() if n.endswith(".npy")]
        for name in ("q", "v", "a", "tau"):
            if name not in members:
                raise ArgumentError(
                    f"{path}: array {name!r} is missing; the file contains {', '.join(map(repr, members[:12]))}"
                )
        for name in members:
            if name not in ("q", "v", "a", "tau", "t", "joints", "place", *_FILTERED) and not name.startswith("f "):
                raise ArgumentError(f"{path}: array {name!r} is unknown; forces are named 'f FOOT'")
        order: list[int] | slice = slice(None)
        if "joints" in members:
            joints = [names.get(x, x) for x in map(str, _read_names(path, archive, "joints").ravel())]
            if sorted(joints) != sorted(robot.actuated):
                raise ArgumentError(
                    f"{path}: the joints of the file, {joints}, are not those of {robot.name}, {list(robot.actuated)}"
                )
            order = [joints.index(joint) for joint in robot.actuated]
        force_application = str(_read_names(path, archive, "place")) if "place" in members else "frame"
        arrays = {n: _ArchiveArray(path, archive, n, stack) for n in members if n not in ("t", "joints", "place")}
        counts = {n: array.rows for n, array in arrays.items()}
        if len(set(counts.values())) > 1:
            raise ArgumentError(f"{path}: the arrays differ in their number of samples: {counts}")
        total = counts["q"]
        for start in range(0, total, chunk):
            count = min(chunk, total - start)
            chunk_arrays = {n: array.read(count) for n, array in arrays.items()}
            tau = (
                chunk_arrays["tau"]
                if chunk_arrays["tau"].shape[1] != robot.nu
                else np.ascontiguousarray(chunk_arrays["tau"][:, order])
            )
            forces = {n[2:]: x for n, x in chunk_arrays.items() if n.startswith("f ")}
            yield (
                _make_samples(chunk_arrays, tau, forces, cast(ForceApplication, force_application)),
                (start + count) / total,
            )


class _ArchiveArray:
    """One array of an NPZ archive, read row by row."""

    def __init__(self, path: Path, archive: zipfile.ZipFile, name: str, stack: ExitStack) -> None:
        self._label = f"{path}: array {name!r}"
        self._file, shape, fortran, dtype = _open_array(self._label, archive, name, stack)
        if dtype.kind not in "fiu" or len(shape) != 2 or (fortran and min(shape) > 1):
            order = "Fortran" if fortran else "C"
            raise ArgumentError(
                f"{self._label}: expected real numbers of shape (N, n) in C order, "
                f"got {dtype} of shape {shape}, {order}"
            )
        self.rows, self._width, self._dtype = shape[0], shape[1], dtype

    def read(self, count: int) -> Array:
        """Returns the next `count` rows."""
        data = _read_bytes(self._label, self._file, count * self._width * self._dtype.itemsize)
        return np.frombuffer(data, dtype=self._dtype).reshape(count, self._width).astype(np.float64)


def _read_names(path: Path, archive: zipfile.ZipFile, name: str) -> np.ndarray[tuple[int, ...], np.dtype[np.str_]]:
    """Reads an array of names."""
    label = f"{path}: array {name!r}"
    with ExitStack() as stack:
        file, shape, _, dtype = _open_array(label, archive, name, stack)
        count = int(np.prod(shape, dtype=object))
        if dtype.kind != "U" or not 0 <= count <= _MAX_NAMES or dtype.itemsize > 4 * _MAX_NAME_LENGTH:
            raise ArgumentError(f"{label}: expected names, got {dtype} of shape {shape}")
        out = np.frombuffer(_read_bytes(label, file, count * dtype.itemsize), dtype=np.uint8)
    names = out.view(dtype) if dtype.itemsize else np.full(count, "")
    return np.asarray(names, dtype=np.str_).reshape(shape)


def _open_array(
    label: str, archive: zipfile.ZipFile, name: str, stack: ExitStack
) -> tuple[IO[bytes], tuple[int, ...], bool, np.dtype[np.generic]]:
    """Returns the data of an array as a stream, its shape, whether it is in Fortran order, and its dtype."""
    try:
        file = stack.enter_context(archive.open(f"{name}.npy"))
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read(file)
        stored_size = archive.getinfo(f"{name}.npy").file_size - file.tell()
    except DAMAGED_ARCHIVE_ERRORS as error:
        raise ArgumentError(f"{label}: {error}") from None
    expected_size = int(np.prod(shape, dtype=object)) * dtype.itemsize
    if expected_size != stored_size and not dtype.hasobject:
        raise ArgumentError(
            f"{label}: damaged, {dtype} of shape {shape} requires {expected_size} bytes, but {stored_size} are stored"
        )
    return file, shape, fortran, dtype


def _read_bytes(label: str, file: IO[bytes], count: int) -> bytes:
    """Reads exactly `count` bytes."""
    try:
        data = file.read(count)
    except DAMAGED_ARCHIVE_ERRORS as error:
        raise ArgumentError(f"{label}: damaged: {error}") from None
    if len(data) != count:
        raise ArgumentError(f"{label}: damaged, the data end too early")
    return data
