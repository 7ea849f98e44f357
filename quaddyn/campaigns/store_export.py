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
from .campaign import Failure
from .store import Store, StoredCase

if TYPE_CHECKING:
    import pandas

_ROWS_AT_ONCE = 10_000
_METADATA_COLUMNS = ("number", "error", "killed_workers", "seconds", "time", "worker", "package", "model")


def column_names(store: Store) -> list[str]:
    """Returns the names of the columns: metadata, "case." and each field, "record." and each entry of any record."""
    case = [f"case.{f.name}" for f in dataclasses.fields(store.campaign.Case)]
    record = {name: None for row in store.rows() if not isinstance(row.result, Failure) for name in row.result}
    return [_METADATA_COLUMNS[0], *case, *(f"record.{name}" for name in record), *_METADATA_COLUMNS[1:]]


def iterate_rows(store: Store) -> Iterator[dict[str, Any]]:
    """Yields the rows as mappings of `column_names` without missing values; tuples are written as JSON."""
    return map(_flat, store.rows())


def write_csv(store: Store, path: str | os.PathLike[str]) -> None:
    """Write a store as CSV (RFC 4180); floats with all their digits, so that they are read as the same bits."""
    with _atomic_file(path) as part, part.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, column_names(store), restval="")
        writer.writeheader()
        writer.writerows(iterate_rows(store))


def write_parquet(store: Store, path: str | os.PathLike[str]) -> None:
    """Write a store as Parquet.

    Columns of whole numbers, numbers, bools and words; where a name has several kinds of values in different records,
    they are words.

    Raises:
        CampaignError: pyarrow is missing.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise CampaignError('Parquet needs pyarrow: pip install "quaddyn[export]"') from error
    kinds = _column_types(store)
    types = {int: pyarrow.int64(), float: pyarrow.float64(), bool: pyarrow.bool_(), str: pyarrow.string()}
    schema = pyarrow.schema([(name, types[kinds[name]]) for name in column_names(store)])
    with _atomic_file(path) as part, pyarrow.parquet.ParquetWriter(part, schema) as writer:
        rows = iterate_rows(store)
        while some := list(itertools.islice(rows, _ROWS_AT_ONCE)):
            data = {
                name: [None if (v := row.get(name)) is None else _convert(kinds[name], v) for row in some]
                for name in schema.names
            }
            writer.write_table(pyarrow.table(data, schema=schema))


def to_frame(store: Store) -> pandas.DataFrame:
    """Returns a store as a pandas frame.

    Raises:
        CampaignError: pandas is missing.
    """
    try:
        import pandas
    except ImportError as error:
        raise CampaignError('frames need pandas: pip install "quaddyn[export]"') from error
    return pandas.DataFrame.from_records(list(iterate_rows(store)), columns=column_names(store))


def _flat(row: StoredCase) -> dict[str, Any]:
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
    """One type for each column that all its values have, or can be written as."""
    kinds: dict[str, set[type]] = {name: set() for name in column_names(store)}
    for row in iterate_rows(store):
        for name, value in row.items():
            if value is not None:
                wide = type(value) is int and not -(2**63) <= value < 2**63
                kinds[name].add(str if wide else type(value))
    return {name: _common_type(found) for name, found in kinds.items()}


def _common_type(kinds: set[type]) -> type:
    if kinds == {int, float}:
        return float
    return kinds.pop() if len(kinds) == 1 else str


def _convert(kind: type, value: Any) -> Any:
    return kind(value) if type(value) is not kind else value


@contextlib.contextmanager
def _atomic_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A file beside `path` that takes its place when it is complete."""
    target = Path(path)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as folder:
        part = Path(folder) / target.name
        yield part
        part.replace(target)
