"""Results of a campaign in one SQLite file, kept through any death of the program.

Only the client writes.  The journal is a write-ahead log: readers may look on while a campaign runs, and what was
committed stays whatever happens next.  The writer always has a transaction open, so a second one is refused, and the
lock ends with its process.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from ..errors import CampaignError, StoreError
from ..version import __version__
from .campaign import Campaign, Failure, Record
from .plain import decode, decode_record, encode, key
from .registry import find
from .work import Outcome, Worker

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
#: Committed this often [s]: what a lost machine loses of work.
COMMIT_EVERY = 0.2


class Row(NamedTuple):
    """A case of a store and what became of it.

    Attributes:
        number: of the case in this store, as in ``runs.db#17``.
        case: of the type of the campaign's cases.
        result: its record, or why there is none.
        seconds: CPU time that it took [s].
        time: it arrived, seconds since 1970 [s].
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
    """Results of one campaign; made by `Store.open` to write and `Store.read` to look."""

    def __init__(self, connection: sqlite3.Connection, path: str, campaign: Campaign[Any]) -> None:
        self.path, self.campaign = path, campaign
        self._connection = connection
        self._workers: dict[tuple[str, str], int] = {}
        self._session: int | None = None
        self._uncommitted: float | None = None
        self._model = ""

    @classmethod
    def open(cls, path: str | os.PathLike[str], campaign: Campaign[Any], *, force: bool = False) -> Self:
        """Make a store, or go on with one.

        Args:
            path: of the file, on a disk of this machine; ":memory:" for none.
            campaign: whose results it holds.
            force: go on although the results in it come from another version or model.

        Raises:
            StoreError: it is of another campaign, version or model, is damaged, or another process writes to it.
        """
        name = os.fspath(path)
        with _explained(name):
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
                    _check_whole(connection, name)
                model = campaign.model_hash()
                _check_same(connection, name, campaign.name, model, force=force)
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
        """Look at a store, also while a campaign writes to it.

        Args:
            path: of the file.
            campaign: kind of campaign; by default the registered one of the name in the store, else the class that
                wrote it, if its module can be imported here.

        Raises:
            StoreError: there is none, it is damaged, or of another campaign.
            UnknownNameError, CampaignError: its kind of campaign cannot be found.
        """
        name = os.fspath(path)
        if not Path(name).is_file():
            raise StoreError(f"{name}: no such file")
        with _explained(name):
            uri = f"{Path(name).absolute().as_uri()}?mode=ro"
            connection = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)
            try:
                _check_format(connection, name)
                (found,) = connection.execute("SELECT campaign FROM about").fetchone()
                kind = campaign if campaign is not None else find(found, _origin(connection))
                if kind.name != found:
                    raise StoreError(f"{name} holds results of campaign {found!r}, not {kind.name!r}")
                query = "SELECT options FROM sessions ORDER BY id DESC LIMIT 1"
                return cls(connection, name, decode(kind, connection.execute(query).fetchone()[0]))
            except BaseException:
                connection.close()
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __len__(self) -> int:
        with _explained(self.path):
            return int(self._connection.execute("SELECT count(*) FROM results").fetchone()[0])

    def __contains__(self, text: str) -> bool:
        """Whether the case that `encode` wrote is there."""
        with _explained(self.path):
            query = "SELECT 1 FROM results WHERE key = ?"
            return self._connection.execute(query, (key(text),)).fetchone() is not None

    def check(self, worker: Worker) -> None:
        """Refuse a worker that computes something else.

        Raises:
            CampaignError: it has another version of this package or another model.
        """
        if worker.package != __version__:
            raise CampaignError(f"worker {worker.name} has quaddyn {worker.package}, this is {__version__}")
        if worker.model != self._model:
            raise CampaignError(f"worker {worker.name} has another model: its robot file or options differ from here")

    def add(self, texts: Sequence[str], outcomes: Sequence[Outcome], worker: Worker) -> None:
        """Keep outcomes of encoded cases; a case that is there stays as it is."""
        number, now = self._worker(worker), time.time()
        self._insert(
            (key(text), text, o.record, o.error, False, o.trace, o.seconds, now, number, self._session)
            for text, o in zip(texts, outcomes, strict=True)
        )

    def add_poison(self, text: str, error: str, trace: str) -> None:
        """Keep that the workers of an encoded case die, and how the last one did."""
        self._insert([(key(text), text, None, error, True, trace, 0.0, time.time(), None, self._session)])

    def _insert(self, rows: Iterable[tuple[object, ...]]) -> None:
        with _explained(self.path):
            self._connection.executemany(
                'INSERT INTO results (key, "case", record, error, poison, trace, seconds, time, worker, session) '
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO NOTHING",
                rows,
            )
        if self._uncommitted is None:
            self._uncommitted = time.monotonic()

    def _worker(self, worker: Worker) -> int:
        known = self._workers.get(worker[:2])
        if known is None:
            with _explained(self.path):
                query = "INSERT INTO workers (name, processor) VALUES (?, ?)"
                known = self._workers[worker[:2]] = self._connection.execute(query, worker[:2]).lastrowid or 0
        return known

    def commit(self, *, now: bool = True) -> None:
        """Make safe what was added; without `now` only if the oldest of it is `COMMIT_EVERY` old."""
        if self._uncommitted is None or (not now and time.monotonic() < self._uncommitted + COMMIT_EVERY):
            return
        self._uncommitted = None
        with _explained(self.path):
            self._connection.execute("COMMIT")
            self._connection.execute("BEGIN IMMEDIATE")

    def close(self) -> None:
        """Make safe what was added, and let go of the file."""
        try:
            self.commit()
        finally:
            self._connection.close()

    def rows(self) -> Iterator[Row]:
        """All cases in order of arrival."""
        return self._rows("ORDER BY number")

    def row(self, number: int) -> Row:
        """One case.

        Raises:
            StoreError: there is none of this number.
        """
        for found in self._rows("WHERE number = ?", number):
            return found
        raise StoreError(f"{self.path}#{number}: no such case; it holds {len(self)}, numbered from 1")

    def find(self, text: str) -> Row | None:
        """The case that `encode` wrote, if it is there."""
        return next(self._rows("WHERE key = ?", key(text)), None)

    def processors(self) -> list[str]:
        """The different processors of its workers."""
        with _explained(self.path):
            return [p for (p,) in self._connection.execute("SELECT DISTINCT processor FROM workers ORDER BY 1")]

    def _rows(self, condition: str, *values: object) -> Iterator[Row]:
        query = (
            'SELECT number, "case", record, error, poison, trace, seconds, time, name, package, model FROM results '
            "JOIN sessions ON sessions.id = session LEFT JOIN workers ON workers.id = worker " + condition
        )
        with _explained(self.path):
            for number, case, record, error, poison, trace, *rest in self._connection.execute(query, values):
                result = decode_record(record) if record is not None else Failure(error, bool(poison), trace or "")
                seconds, at, worker, package, model = rest
                there = decode(self.campaign.Case, case)
                yield Row(number, there, result, seconds, at, worker or "", package, model)


def _check_whole(connection: sqlite3.Connection, path: str) -> None:
    (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise StoreError(f"{path} is damaged: {found}")


def _check_format(connection: sqlite3.Connection, path: str) -> None:
    try:
        (found,) = connection.execute("SELECT format FROM about").fetchone()
    except sqlite3.OperationalError as error:
        if "no such table" not in str(error):
            raise
        raise StoreError(f"{path} is no store of a campaign") from error
    if found != FORMAT:
        raise StoreError(f"{path} is written in format {found}; this version reads format {FORMAT}")


def _origin(connection: sqlite3.Connection) -> str | None:
    """The "module:class" of the campaign, which the first stores did not keep."""
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'origin'").fetchone():
        return None
    return str(connection.execute("SELECT kind FROM origin").fetchone()[0])


def _check_same(connection: sqlite3.Connection, path: str, campaign: str, model: str, *, force: bool) -> None:
    (found,) = connection.execute("SELECT campaign FROM about").fetchone()
    if found != campaign:
        raise StoreError(f"{path} holds results of campaign {found!r}, not {campaign!r}")
    if force:
        return
    for was_package, was_model in connection.execute("SELECT DISTINCT package, model FROM sessions"):
        if was_package != __version__:
            raise StoreError(
                f"{path} holds results of quaddyn {was_package}, this is {__version__}; "
                "start another store, or force it"
            )
        if was_model != model:
            raise StoreError(
                f"{path} holds results of another model or other options ({was_model[:8]}, now {model[:8]}); "
                "start another store, or force it"
            )


@contextlib.contextmanager
def _explained(path: str) -> Iterator[None]:
    """SQLite's errors as ours."""
    try:
        yield
    except sqlite3.Error as error:
        text = str(error)
        if "locked" in text or "busy" in text:
            why = "another process writes to it"
        elif "full" in text or ("I/O" in text and _no_space(path)):
            why = "no space left on its disk; what was committed is kept: make room and resume"
        elif "malformed" in text or "not a database" in text or "disk I/O" in text:
            why = f"damaged, or no store of a campaign ({text})"
        else:
            why = text
        raise StoreError(f"{path}: {why}") from error


def _no_space(path: str) -> bool:
    """Whether an input or output error means that: SQLite's shared memory is a file beside the store."""
    try:
        return shutil.disk_usage(Path(path).absolute().parent).free < 1 << 16
    except OSError:
        return False
