"""Export of a store as a table with one row per case: CSV, Parquet, or a pandas frame."""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import itertools
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import CampaignError
from ..extras import import_extra
from .campaign import Failure
from .store import Store, StoredCase

if TYPE_CHECKING:
    import pandas

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
    """Writes a store as CSV (RFC 4180), with all digits of floats, so that reading them restores the same bits."""
    with _atomic_file(path) as part, part.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, column_names(store), restval="")
        writer.writeheader()
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
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as folder:
        temporary = Path(folder) / target.name
        yield temporary
        temporary.replace(target)
