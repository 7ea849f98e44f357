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
from ..robot.robot import Robot
from ..robot.saving import to_record
from ..safe_files import DAMAGED_ARCHIVE_ERRORS, open_regular_file

#: Format of the files that `save` writes, and the formats that `load` reads.
FORMAT, READABLE_FORMATS = 3, (1, 2, 3)
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
    """Writes a record, a dataclass of numbers, strings, arrays, tuples and other such records, and returns the path."""
    arrays: dict[str, Any] = {}
    text = json.dumps({"format": FORMAT, "record": _to_json(record, arrays)})
    with Path(path).open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, meta=np.frombuffer(text.encode(), dtype=np.uint8), **arrays)
    return Path(path)


def load(path: str | os.PathLike[str], kinds: Iterable[type]) -> Any:
    """Reads a record that `save` wrote.

    Args:
        path: file to read.
        kinds: classes that may occur in the file: first that of the record, then those within it.

    Raises:
        ArgumentError: the file does not contain such a record.
        OSError: the file cannot be opened.
    """
    record_class, classes = next(iter(kinds)), {kind.__name__: kind for kind in kinds}
    message = f"{path}: the file is not a {record_class.__name__.lower()} saved by quaddyn, or it is damaged"
    with open_regular_file(path) as file:
        try:
            arrays = read_arrays(file)
            meta = json.loads(arrays.pop("meta").tobytes())
            if meta["format"] not in READABLE_FORMATS:
                raise ArgumentError(
                    f"the file has format {meta['format']}, but this version of quaddyn reads formats up to {FORMAT}"
                )
            record = _from_json(meta["record"], arrays, classes)
        except ArgumentError as error:
            raise ArgumentError(f"{path}: {error}") from None
        except DAMAGED_ARCHIVE_ERRORS:
            raise ArgumentError(message) from None
    if not isinstance(record, record_class):
        raise ArgumentError(message)
    return record


def _to_json(value: Any, arrays: dict[str, Any]) -> Any:
    """Returns a value as JSON data; its arrays are added to `arrays`, and the data contain their names."""
    if isinstance(value, np.ndarray):
        name = f"a{len(arrays)}"
        arrays[name] = value
        return {"array": name}
    if isinstance(value, tuple):
        return {"tuple": [_to_json(item, arrays) for item in value]}
    if isinstance(value, Robot):
        return {"robot": json.dumps(to_record(value))}
    if is_dataclass(value):
        return {type(value).__name__: {f.name: _to_json(getattr(value, f.name), arrays) for f in fields(value)}}
    if isinstance(value, np.generic):
        return value.item()
    return value


def _from_json(value: Any, arrays: dict[str, Any], classes: Mapping[str, type]) -> Any:
    """Returns the value that `_to_json` converted; `classes` are the dataclasses by name."""
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "array":
        array = arrays[content]
        array.flags.writeable = False
        return array
    if kind == "robot":  # built when it is needed, see `Log.robot`
        return str(content)
    if kind == "tuple":
        return tuple(_from_json(item, arrays, classes) for item in content)
    kind = RENAMED_CLASSES.get(str(kind), str(kind))
    new_names = RENAMED_FIELDS.get(kind, {})
    return classes[kind](
        **{new_names.get(name, name): _from_json(item, arrays, classes) for name, item in content.items()}
    )
