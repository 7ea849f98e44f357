"""Records in files: an archive of arrays and one JSON text, without pickles."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..archives import read_arrays
from ..errors import ArgumentError
from ..safe_files import DAMAGED_ARCHIVE_ERRORS, open_regular_file

#: Format of the files that `save` writes, and the formats that `load` reads.
FORMAT, READABLE_FORMATS = 2, (1, 2)
#: New names of the classes and of their fields that files of format 1 hold under an old name.
RENAMED_CLASSES = {"Push": "ActivePush", "TouchingPoint": "ContactPoint"}
RENAMED_FIELDS = {
    "Log": {
        "joints": "joint_names",
        "lost": "level_residuals",
        "places": "joint_slices",
        "ratio": "steps_per_tick",
        "start": "initial_checkpoint",
        "units": "joint_units",
    }
}


def save(record: object, path: str | os.PathLike[str]) -> Path:
    """Writes a record: a dataclass of numbers, strings, arrays, tuples and other such records."""
    arrays: dict[str, Any] = {}
    text = json.dumps({"format": FORMAT, "record": _packed(record, arrays)})
    with Path(path).open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, meta=np.frombuffer(text.encode(), dtype=np.uint8), **arrays)
    return Path(path)


def load(path: str | os.PathLike[str], kinds: Iterable[type]) -> Any:
    """Reads a record.

    Args:
        path: file to read.
        kinds: classes that may occur in the file: first that of the record, then those within it.

    Raises:
        ArgumentError: the file does not contain such a record.
        OSError: the file cannot be opened.
    """
    first, known = next(iter(kinds)), {kind.__name__: kind for kind in kinds}
    wrong = f"{path}: not a {first.__name__.lower()} that was saved by this package"
    with open_regular_file(path) as file:
        try:
            arrays = read_arrays(file)
            meta = json.loads(arrays.pop("meta").tobytes())
            if meta["format"] not in READABLE_FORMATS:
                raise ArgumentError(f"format {meta['format']}, this version reads up to format {FORMAT}")
            found = _unpacked(meta["record"], arrays, known)
        except ArgumentError as error:
            raise ArgumentError(f"{path}: {error}") from None
        except DAMAGED_ARCHIVE_ERRORS:
            raise ArgumentError(wrong) from None
    if not isinstance(found, first):
        raise ArgumentError(wrong)
    return found


def _packed(value: Any, arrays: dict[str, Any]) -> Any:
    """Returns a value as JSON data, with its arrays stored in `arrays`."""
    if isinstance(value, np.ndarray):
        name = f"a{len(arrays)}"
        arrays[name] = value
        return {"array": name}
    if isinstance(value, tuple):
        return {"tuple": [_packed(item, arrays) for item in value]}
    if is_dataclass(value):
        return {type(value).__name__: {f.name: _packed(getattr(value, f.name), arrays) for f in fields(value)}}
    if isinstance(value, np.generic):
        return value.item()
    return value


def _unpacked(value: Any, arrays: dict[str, Any], known: Mapping[str, type]) -> Any:
    """Returns the value of JSON data and arrays."""
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "array":
        array = arrays[content]
        array.flags.writeable = False
        return array
    if kind == "tuple":
        return tuple(_unpacked(item, arrays, known) for item in content)
    kind = RENAMED_CLASSES.get(str(kind), str(kind))
    new_names = RENAMED_FIELDS.get(kind, {})
    return known[kind](**{new_names.get(name, name): _unpacked(item, arrays, known) for name, item in content.items()})
