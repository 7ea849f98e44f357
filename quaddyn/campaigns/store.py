"""`Store`: results of a campaign in one SQLite file, which survive a crash of the program.

Only the client writes.  The journal is a write-ahead log: the store can be read while a campaign runs, and committed
results are preserved.  The writer always holds a transaction, so that a second writer is rejected; the lock ends with
its process.

Export of a store as a table with one row per case: CSV, Parquet, or a pandas frame.
"""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import itertools
import json
import os
import re
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from ..deprecation import renamed_parameters
from ..errors import ArgumentError, CampaignError, StoreError, UnknownNameError
from ..extras import import_extra
from ..safe_files import file_errors
from ..version import __version__
from .campaign import (
    Campaign,
    Failure,
    Outcome,
    Record,
    Worker,
    current_name,
    decode,
    decode_record,
    encode,
    find,
    key,
    shorten,
)

if TYPE_CHECKING:
    import pandas


FORMAT = 1
MEMORY = ":memory:"
_SCHEMA = """
CREATE TABLE about (format INTEGER NOT NULL, campaign TEXT NOT NULL);
CREATE TABLE origin (kind TEXT NOT NULL);
CREATE TABLE sessions (
    id INTEGER PRIMARY KEY, started REAL NOT NULL, package TEXT NOT NULL, model TEXT NOT NULL, options TEXT NOT NULL
);
CREATE TABLE workers (id INTEGER PRIMARY KEY, name TEXT NOT NULL, processor TEXT NOT NULL);
CREATE TABLE results (
    number INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, "case" TEXT NOT NULL,
    record TEXT, error TEXT, poison INTEGER NOT NULL, trace TEXT,
    seconds REAL NOT NULL, time REAL NOT NULL, worker INTEGER, session INTEGER NOT NULL
);
CREATE VIEW runs AS
    SELECT results.number, "case", json_extract("case", '$.seed') AS seed, record, error, poison, trace, seconds, time,
           workers.name AS worker, processor, package, model, options
    FROM results JOIN sessions ON sessions.id = session LEFT JOIN workers ON workers.id = worker;
"""


def _normalize_whitespace(text: str) -> str:
    """Returns a definition with normalized white space."""
    return " ".join(text.split())


#: Definition of each table, as SQLite stores it.
_TABLES = {
    re.split(r"\W+", text, maxsplit=3)[2]: text
    for text in map(_normalize_whitespace, _SCHEMA.rstrip(";\n").split(";\n"))
    if text.startswith("CREATE TABLE")
}
#: Interval of commits [s], which bounds the work lost in a crash of the machine.
COMMIT_INTERVAL = 0.2


class StoredCase(NamedTuple):
    """Case of a store with its result.

    Attributes:
        number: number of the case in this store, as in ``runs.db#17``.
        case: the case, of the type of the campaign's cases.
        result: its record, or the reason for which there is none.
        seconds: CPU time [s].
        time: time of arrival, since 1970 [s].
        worker: host and process id; "" if its workers died.
        package: version of this package.
        model: the campaign's `model_hash`.
    """

    number: int
    case: Any
    result: Record | Failure
    seconds: float
    time: float
    worker: str
    package: str
    model: str


class Store:
    """Results of one campaign in an SQLite file; opened by `Store.open` for writing and `Store.read` for reading.

    Args:
        connection: connection to the database.
        path: path of the file.
        campaign: campaign of the results.
    """

    def __init__(self, connection: sqlite3.Connection, path: str, campaign: Campaign[Any]) -> None:
        self.path, self.campaign = path, campaign
        self._connection = connection
        self._workers: dict[tuple[str, str], int] = {}
        self._session: int | None = None
        self._uncommitted: float | None = None
        self._model = ""

    @classmethod
    @renamed_parameters(force="ignore_mismatch")
    def open(cls, path: str | os.PathLike[str], campaign: Campaign[Any], *, ignore_mismatch: bool = False) -> Self:
        """Creates a store, or opens one to continue it.

        Args:
            path: path of the file, on a local disk; ":memory:" for memory.
            campaign: campaign of the results.
            ignore_mismatch: continue although the stored results are of another version or model.

        Raises:
            StoreError: a store of another campaign, version or model, a damaged file, or another process writes to it.
        """
        name = os.fspath(path)
        with _sqlite_errors(name):
            connection = sqlite3.connect(name, isolation_level=None, check_same_thread=False, timeout=1.0)
            try:
                new = not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
                if not new:
                    _check_format(connection, name)
                connection.execute("PRAGMA journal_mode=WAL")
                connection.execute("PRAGMA synchronous=FULL")
                connection.execute("BEGIN IMMEDIATE")
                if new:
                    for statement in _SCHEMA.split(";\n"):
                        connection.execute(statement)
                    connection.execute("INSERT INTO about VALUES (?, ?)", (FORMAT, campaign.name))
                    origin = f"{type(campaign).__module__}:{type(campaign).__qualname__}"
                    connection.execute("INSERT INTO origin VALUES (?)", (origin,))
                else:
                    _check_integrity(connection, name)
                model = campaign.model_hash()
                _check_campaign_and_version(connection, name, campaign.name, model, ignore_mismatch=ignore_mismatch)
                store = cls(connection, name, campaign)
                store._model = model
                store._session = connection.execute(
                    "INSERT INTO sessions (started, package, model, options) VALUES (?, ?, ?, ?)",
                    (time.time(), __version__, model, encode(campaign)),
                ).lastrowid
                connection.execute("COMMIT")
                connection.execute("BEGIN IMMEDIATE")
            except BaseException:
                connection.close()
                raise
        return store

    @classmethod
    def read(cls, path: str | os.PathLike[str], campaign: type[Campaign[Any]] | None = None) -> Self:
        """Opens a store for reading, also while a campaign writes to it.

        Args:
            path: path of the file.
            campaign: type of the campaign; None: the registered one of the name in the store.  No module is imported
                because a store names it, since stores may come from anywhere.

        Raises:
            StoreError: no such file, a damaged one, or a store of another or an unregistered campaign.
        """
        name = os.fspath(path)
        if not Path(name).is_file():
            raise StoreError(f"{name}: the file does not exist")
        with _sqlite_errors(name):
            uri = f"{Path(name).absolute().as_uri()}?mode=ro"
            connection = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)
            try:
                found = _check_format(connection, name)
                kind = campaign if campaign is not None else _find_registered(connection, name, found)
                if kind.name != current_name(found):
                    raise StoreError(f"{name}: the store contains results of campaign {found!r}, not of {kind.name!r}")
                options = _query_value(connection, name, "SELECT options FROM sessions ORDER BY id DESC LIMIT 1")
                with _decoding_errors(f"{name}: options"):
                    return cls(connection, name, decode(kind, options))
            except BaseException:
                connection.close()
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        with _sqlite_errors(self.path):
            return int(self._connection.execute("SELECT count(*) FROM results").fetchone()[0])

    def __contains__(self, text: str) -> bool:
        """Returns whether the store has the case with this encoded text."""
        with _sqlite_errors(self.path):
            query = "SELECT 1 FROM results WHERE key = ?"
            return self._connection.execute(query, (key(text),)).fetchone() is not None

    def check(self, worker: Worker) -> None:
        """Rejects a worker with another version of this package or another model.

        Raises:
            CampaignError: version or model differ from those of the store.
        """
        if worker.package != __version__:
            raise CampaignError(
                f"worker {worker.name}: has quaddyn {worker.package}, but this process has {__version__}; install "
                "the same version on all machines"
            )
        if worker.model != self._model:
            raise CampaignError(
                f"worker {worker.name}: has another robot model than this process, because its robot file or options "
                "differ"
            )

    def add(self, texts: Sequence[str], outcomes: Sequence[Outcome], worker: Worker) -> None:
        """Adds outcomes of encoded cases; a case that is stored already is not changed."""
        number, now = self._worker_id(worker), time.time()
        self._insert(
            (key(text), text, o.record, o.error, False, o.trace, o.seconds, now, number, self._session)
            for text, o in zip(texts, outcomes, strict=True)
        )

    def add_killed_case(self, text: str, error: str, trace: str) -> None:
        """Stores that the workers of an encoded case died, and how the last one did."""
        self._insert([(key(text), text, None, error, True, trace, 0.0, time.time(), None, self._session)])

    def _insert(self, rows: Iterable[tuple[object, ...]]) -> None:
        """Inserts rows of results; rows of cases that are stored already are ignored."""
        with _sqlite_errors(self.path):
            self._connection.executemany(
                'INSERT INTO results (key, "case", record, error, poison, trace, seconds, time, worker, session) '
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO NOTHING",
                rows,
            )
        if self._uncommitted is None:
            self._uncommitted = time.monotonic()

    def _worker_id(self, worker: Worker) -> int:
        """Returns the row id of a worker, which is inserted at the first call."""
        known = self._workers.get(worker[:2])
        if known is None:
            with _sqlite_errors(self.path):
                query = "INSERT INTO workers (name, processor) VALUES (?, ?)"
                known = self._workers[worker[:2]] = self._connection.execute(query, worker[:2]).lastrowid or 0
        return known

    def commit(self, *, now: bool = True) -> None:
        """Commits the added results; without `now` only if the oldest is older than `COMMIT_INTERVAL`."""
        if self._uncommitted is None or (not now and time.monotonic() < self._uncommitted + COMMIT_INTERVAL):
            return
        self._uncommitted = None
        with _sqlite_errors(self.path):
            self._connection.execute("COMMIT")
            self._connection.execute("BEGIN IMMEDIATE")

    def close(self) -> None:
        """Commits the added results and closes the file."""
        try:
            self.commit()
        finally:
            self._connection.close()

    def rows(self) -> Iterator[StoredCase]:
        """Yields all cases in order of arrival."""
        return self._rows("ORDER BY number")

    def row(self, number: int) -> StoredCase:
        """Returns the case of a number.

        Raises:
            StoreError: no such case.
        """
        for found in self._rows("WHERE number = ?", number):
            return found
        raise StoreError(
            f"{self.path}#{number}: the case does not exist; the store contains {len(self)} cases, numbered from 1"
        )

    def find(self, text: str) -> StoredCase | None:
        """Returns the stored case with this encoded text; None if there is none."""
        return next(self._rows("WHERE key = ?", key(text)), None)

    def processors(self) -> list[str]:
        """Returns the different processors of the workers."""
        with _sqlite_errors(self.path):
            found = [p for (p,) in self._connection.execute("SELECT DISTINCT processor FROM workers ORDER BY 1")]
        if not all(isinstance(p, str) for p in found):
            raise StoreError(f"{self.path}: the store is damaged: the name of a processor is not a text")
        return found

    def _rows(self, condition: str, *values: object) -> Iterator[StoredCase]:
        """Yields the stored cases that satisfy an SQL condition.

        Raises:
            StoreError: a damaged row.
        """
        query = (
            'SELECT number, "case", record, error, poison, trace, seconds, time, name, package, model FROM results '
            "JOIN sessions ON sessions.id = session LEFT JOIN workers ON workers.id = worker " + condition
        )
        with _sqlite_errors(self.path):
            last = 0
            for number, case, *rest in self._connection.execute(query, values):
                where = f"{self.path}#{number}"
                if number <= last:
                    raise StoreError(f"{where}: the store is damaged: the number of this case follows #{last}")
                last = number
                record, error, poison, trace, seconds, arrival_time, worker, package, model = _check_row_types(
                    where, rest
                )
                with _decoding_errors(where):
                    decoded_case = decode(self.campaign.Case, case)
                    result = (
                        self._read_record(record) if record is not None else Failure(error, bool(poison), trace or "")
                    )
                yield StoredCase(number, decoded_case, result, seconds, arrival_time, worker or "", package, model)

    def _read_record(self, text: object) -> Record:
        """Decodes a record; entries with names of earlier versions get their present names."""
        renamed = self.campaign.renamed_entries
        return {renamed.get(name, name): value for name, value in decode_record(text).items()}


#: Types of the columns of a row after its case, by name; a row has a record or an error.
_COLUMN_TYPES: dict[str, Any] = {
    "record": str | None, "error": str | None, "poison": int, "trace": str | None, "seconds": float, "time": float,
    "worker": str | None, "package": str, "model": str,
}  # fmt: skip


def _check_row_types(where: str, values: Sequence[Any]) -> Sequence[Any]:
    """Returns the values of a row after checking their types, which SQLite does not enforce.

    Raises:
        StoreError: a value of another type.
    """
    for value, (name, kind) in zip(values, _COLUMN_TYPES.items(), strict=True):
        if not isinstance(value, kind):
            raise StoreError(f"{where}: the store is damaged: {name} has the type {type(value).__name__}")
    if values[0] is None and values[1] is None:
        raise StoreError(f"{where}: the store is damaged: the case has neither a record nor an error")
    return values


@contextlib.contextmanager
def _decoding_errors(where: str) -> Iterator[None]:
    """Context that converts decoding errors to `StoreError` with the path of the store."""
    try:
        yield
    except ArgumentError as error:
        raise StoreError(f"{where}: {error}") from error


def _query_value(connection: sqlite3.Connection, path: str, query: str, kind: type[Any] = str) -> Any:
    """Returns the first value of the result of a query.

    Raises:
        StoreError: no result, or a value of another type.
    """
    found = connection.execute(query).fetchone()
    if found is None or type(found[0]) is not kind:
        raise StoreError(
            f"{path}: the file is damaged or not a store of a campaign ({query} returns no {kind.__name__})"
        )
    return found[0]


def _check_integrity(connection: sqlite3.Connection, path: str) -> None:
    """Raises an error if the file is damaged, by the quick check of SQLite."""
    (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise StoreError(f"{path}: the store is damaged: {found}")


def _check_format(connection: sqlite3.Connection, path: str) -> str:
    """Returns the name of a store's campaign after checking its format.

    Tables are read only if their definitions are those of this module: a foreign file may define views under the same
    names that never end.

    Raises:
        StoreError: not a store, or of another format.
    """
    connection.execute("PRAGMA trusted_schema=OFF")
    found = {}
    for kind, name, table, text in connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master"):
        if table in _TABLES and text is not None:  # automatic indices of SQLite have no text
            found[kind, name] = _normalize_whitespace(text)
    if ("table", "about") not in found:
        raise StoreError(f"{path}: the file is not a store of a campaign")
    expected = {("table", name): text for name, text in _TABLES.items()}
    found.setdefault(("table", "origin"), _TABLES["origin"])  # the first version had no such table
    if found != expected:
        wrong = sorted({name for (_, name), _ in found.items() ^ expected.items()})
        raise StoreError(
            f"{path}: the file is not a store of a campaign, because these tables or indices have another "
            f"definition: {', '.join(map(repr, wrong[:4]))}"
        )
    number = _query_value(connection, path, "SELECT format FROM about", int)
    if number != FORMAT:
        raise StoreError(f"{path}: the store has format {number}, but this version of quaddyn reads format {FORMAT}")
    return str(_query_value(connection, path, "SELECT campaign FROM about"))


def _find_registered(connection: sqlite3.Connection, path: str, name: str) -> type[Campaign[Any]]:
    """Returns the registered campaign class of a store, or raises an error with advice."""
    try:
        return find(name)
    except UnknownNameError as error:
        origin_note = ""
        if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'origin'").fetchone():
            origin = _query_value(connection, path, "SELECT kind FROM origin")
            origin_note = f" (its class was {origin})" if re.fullmatch(r"[\w.]{1,100}:[\w.]{1,100}", origin) else ""
        raise StoreError(
            f"{path}: the campaign of the store is not registered{origin_note}: {error}; pass its class by "
            "--campaign module:class, or in Python by Store.read(path, campaign)"
        ) from error


def _check_campaign_and_version(
    connection: sqlite3.Connection, path: str, campaign: str, model: str, *, ignore_mismatch: bool
) -> None:
    """Raises an error if the results of a store are of another campaign, version or model."""
    found = _query_value(connection, path, "SELECT campaign FROM about")
    if current_name(found) != campaign:
        raise StoreError(f"{path}: the store contains results of campaign {found!r}, not of {campaign!r}")
    if ignore_mismatch:
        return
    for was_package, was_model in connection.execute("SELECT DISTINCT package, model FROM sessions"):
        if difference := describe_mismatch(str(was_package), str(was_model), model):
            raise StoreError(
                f"{path}: the store contains results of {difference}; use another store, or ignore the mismatch "
                "(--ignore-mismatch)"
            )


def describe_mismatch(package: str, model: str, current_model: str) -> str:
    """Returns the difference between stored results and present ones, as text; "" if version and model are the same.

    Args:
        package: version of this package that computed the results.
        model: `Campaign.model_hash` of the results.
        current_model: the present `Campaign.model_hash`.
    """
    if package != __version__:
        return f"quaddyn {package[:40]}, but this is quaddyn {__version__}"
    if model != current_model:
        return f"another robot model or other options (hash {model[:8]!r}, now {current_model[:8]!r})"
    return ""


@contextlib.contextmanager
def _sqlite_errors(path: str) -> Iterator[None]:
    """Context that converts errors of SQLite to `StoreError` with the path of the store and the cause."""
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError) as error:  # SQLite's messages quote names of a damaged file
        text = shorten(error)
        if "locked" in text or "busy" in text:
            reason = "another process is writing to the store"
        elif "full" in text or ("I/O" in text and _no_space(path)):
            reason = "no space is left on the disk; committed results are stored: free some space and resume"
        elif "malformed" in text or "not a database" in text or "disk I/O" in text:
            reason = f"the file is damaged or not a store of a campaign ({text})"
        else:
            reason = text
        raise StoreError(f"{path}: {reason}") from error


def _no_space(path: str) -> bool:
    """Returns whether the disk is full, which SQLite may report as an input or output error."""
    try:
        return shutil.disk_usage(Path(path).absolute().parent).free < 1 << 16
    except OSError:
        return False


_ROWS_PER_CHUNK = 10_000
_METADATA_COLUMNS = ("number", "error", "killed_workers", "seconds", "time", "worker", "package", "model")


def column_names(store: Store) -> list[str]:
    """Returns the names of the columns: metadata, "case." and each field, "record." and each entry of any record."""
    case = [f"case.{f.name}" for f in dataclasses.fields(store.campaign.Case)]
    record = {name: None for row in store.rows() if not isinstance(row.result, Failure) for name in row.result}
    return [_METADATA_COLUMNS[0], *case, *(f"record.{name}" for name in record), *_METADATA_COLUMNS[1:]]


def iterate_rows(store: Store) -> Iterator[dict[str, Any]]:
    """Yields the rows as mappings of `column_names` without missing values; tuples are written as JSON."""
    return map(_flatten, store.rows())


def write_csv(store: Store, path: str | os.PathLike[str]) -> None:
    """Writes a store as CSV (RFC 4180), with all digits of floats, so that reading them restores the same bits.

    The names of the columns end in units where the campaign states them, such as "case.push [m/s]".
    """
    with _atomic_file(path) as part, part.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, column_names(store), restval="")
        units = {"seconds": "s", "time": "s since 1970"}
        for kind in ("case", "record"):
            units |= {f"{kind}.{name}": unit for name, unit in store.campaign.units.items()}
        writer.writerow({name: f"{name} [{units[name]}]" if name in units else name for name in writer.fieldnames})
        writer.writerows(iterate_rows(store))


def write_parquet(store: Store, path: str | os.PathLike[str]) -> None:
    """Writes a store as Parquet, with columns of integers, floats, booleans and strings.

    An entry whose type differs between records becomes a column of strings.

    Raises:
        CampaignError: pyarrow is not installed.
    """
    pyarrow = import_extra("pyarrow", "export", error=CampaignError)
    parquet = import_extra("pyarrow.parquet", "export", error=CampaignError)
    kinds = _column_types(store)
    types = {int: pyarrow.int64(), float: pyarrow.float64(), bool: pyarrow.bool_(), str: pyarrow.string()}
    schema = pyarrow.schema([(name, types[kinds[name]]) for name in column_names(store)])
    with _atomic_file(path) as part, parquet.ParquetWriter(part, schema) as writer:
        rows = iterate_rows(store)
        while chunk := list(itertools.islice(rows, _ROWS_PER_CHUNK)):
            data = {
                name: [None if (v := row.get(name)) is None else _convert(kinds[name], v) for row in chunk]
                for name in schema.names
            }
            writer.write_table(pyarrow.table(data, schema=schema))


def to_frame(store: Store) -> pandas.DataFrame:
    """Returns a store as a pandas frame.

    Raises:
        CampaignError: pandas is not installed.
    """
    pandas = import_extra("pandas", "export", error=CampaignError)
    return pandas.DataFrame.from_records(list(iterate_rows(store)), columns=column_names(store))


def _flatten(row: StoredCase) -> dict[str, Any]:
    """Returns a stored case as a mapping from column names to values."""
    flat: dict[str, Any] = {"number": row.number}
    for f in dataclasses.fields(row.case):
        value = getattr(row.case, f.name)
        flat[f"case.{f.name}"] = json.dumps(value) if isinstance(value, tuple) else value
    if isinstance(row.result, Failure):
        flat.update(error=row.result.error, killed_workers=row.result.killed_workers)
    else:
        flat.update((f"record.{name}", value) for name, value in row.result.items())
        flat.update(error=None, killed_workers=False)
    flat.update(seconds=row.seconds, time=row.time, worker=row.worker, package=row.package, model=row.model)
    return flat


def _column_types(store: Store) -> dict[str, type]:
    """Returns the type of each column, to which all its values can be converted."""
    kinds: dict[str, set[type]] = {name: set() for name in column_names(store)}
    for row in iterate_rows(store):
        for name, value in row.items():
            if value is not None:
                exceeds_int64 = type(value) is int and not -(2**63) <= value < 2**63
                kinds[name].add(str if exceeds_int64 else type(value))
    return {name: _common_type(types) for name, types in kinds.items()}


def _common_type(kinds: set[type]) -> type:
    """Returns the type to which values of all `kinds` can be converted."""
    if kinds == {int, float}:
        return float
    return kinds.pop() if len(kinds) == 1 else str


def _convert(kind: type, value: Any) -> Any:
    """Returns a value, converted to `kind` if it is of another type."""
    return kind(value) if type(value) is not kind else value


@contextlib.contextmanager
def _atomic_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Context with a temporary file in the folder of `path`, which replaces `path` at the end."""
    target = Path(path)
    with file_errors(), tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as folder:
        temporary = Path(folder) / target.name
        yield temporary
        temporary.replace(target)
