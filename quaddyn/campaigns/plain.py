"""Plain values as text and back, bit for bit: cases, options and records in a store."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from typing import Any, TypeVar

from ..errors import ArgumentError, ArgumentTypeError

T = TypeVar("T")
#: What cases and options may hold: these, and tuples of them.  Records hold no tuples.
Plain = float | int | bool | str | None


def encode(value: object) -> str:
    """A frozen dataclass of plain values as JSON; the same value gives the same text.

    Floats are written with the digits that give the same bits again; infinities and NaN as Python's JSON writes them.

    Raises:
        ArgumentTypeError: a field holds something else; the message names it.
    """
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        raise ArgumentTypeError(f"{type(value).__qualname__}: expected a dataclass of plain values")
    kind = type(value).__qualname__
    return _text({f.name: _checked(getattr(value, f.name), f"{kind}.{f.name}") for f in dataclasses.fields(value)})


def decode(kind: type[T], text: str) -> T:
    """The dataclass that `encode` wrote.

    Raises:
        ArgumentError: the text does not fit the dataclass.
    """
    try:
        values = json.loads(text)
        return kind(**{name: _tuples(value) for name, value in values.items()})
    except (TypeError, ValueError, AttributeError) as error:
        raise ArgumentError(f"{text!r} is no {kind.__qualname__}: {error}") from error


def key(text: str) -> bytes:
    """16 bytes by which a store knows an encoded case."""
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def encode_record(record: Mapping[str, object]) -> str:
    """A record as JSON; numpy's scalars become Python's.

    Raises:
        ArgumentTypeError: an entry is no number, word, bool or None; the message names it.
    """
    if not isinstance(record, Mapping):
        raise ArgumentTypeError(f"record: expected a mapping of names to plain values, got {type(record).__qualname__}")
    plain: dict[str, Plain] = {}
    for name, value in record.items():
        item = value.item() if hasattr(value, "item") and getattr(value, "shape", None) == () else value
        if not isinstance(name, str) or not (item is None or isinstance(item, (bool, int, float, str))):
            raise ArgumentTypeError(f"record[{name!r}]: expected a number, text, bool or None, got {value!r}")
        plain[name] = item
    return _text(plain)


def decode_record(text: str) -> dict[str, Plain]:
    """The record that `encode_record` wrote."""
    found = json.loads(text)
    assert isinstance(found, dict)
    return found


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _checked(value: object, where: str) -> object:
    if isinstance(value, tuple):
        return [_checked(item, f"{where}[{i}]") for i, item in enumerate(value)]
    if value is None or type(value) in (bool, int, float, str):
        return value
    raise ArgumentTypeError(f"{where}: expected str, int, float, bool, None or a tuple of them, got {value!r}")


def _tuples(value: Any) -> Any:
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value
