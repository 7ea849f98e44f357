"""Serialization of plain values as JSON, exact to the bit: cases, options and records of a store."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import types
import typing
from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar

from ..deprecation import RENAMED
from ..errors import ArgumentError, ArgumentTypeError

T = TypeVar("T")
#: Types of the values of cases and options, which may also be tuples of them, and of records, which may not.
PlainValue = float | int | bool | str | None
#: Maximum number of characters of a text of a file in an error message.
MAX_SHOWN_CHARACTERS = 200


def encode(value: object) -> str:
    """Encodes a frozen dataclass of plain values as JSON; equal values give equal texts.

    Floats are written with enough digits to give the same bits; infinities and NaN as Python's JSON writes them.

    Raises:
        ArgumentTypeError: a field holds another type; the message names it.
    """
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        raise ArgumentTypeError(
            f"{type(value).__qualname__}: expected a dataclass whose fields are numbers, texts, None, or tuples of them"
        )
    kind = type(value).__qualname__
    return _to_json(
        {f.name: _to_json_value(getattr(value, f.name), f"{kind}.{f.name}") for f in dataclasses.fields(value)}
    )


def decode(kind: type[T], text: object) -> T:
    """Decodes a dataclass that `encode` wrote, also under field names of an earlier version.

    Args:
        kind: the dataclass.
        text: JSON text.

    Raises:
        ArgumentError: the text does not match the dataclass or the types of its fields.
    """
    try:
        values = {
            _current_field_name(kind, name): _lists_to_tuples(value) for name, value in _decode_object(text).items()
        }
        _check_fields(kind, values)
        return kind(**values)
    except Exception as error:  # a dataclass may reject its fields by any exception
        raise ArgumentError(f"{shorten(text)} is not a {kind.__qualname__}: {shorten(error)}") from error


def _current_field_name(kind: type[Any], name: str) -> str:
    """Returns the current name of a field that may have the name of an earlier version."""
    return RENAMED.get(f"{kind.__module__}.{kind.__qualname__}({name})", name)


def key(text: str) -> bytes:
    """Returns the 16 bytes by which a store identifies an encoded case."""
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def encode_record(record: Mapping[str, object]) -> str:
    """Encodes a record as JSON; NumPy scalars become Python scalars.

    Raises:
        ArgumentTypeError: an entry is not a number, text, bool or None; the message names it.
    """
    if not isinstance(record, Mapping):
        raise ArgumentTypeError(f"record: expected a mapping of names to plain values, got {type(record).__qualname__}")
    plain: dict[str, PlainValue] = {}
    for name, value in record.items():
        item = value.item() if hasattr(value, "item") and getattr(value, "shape", None) == () else value
        if not isinstance(name, str) or not (item is None or isinstance(item, (bool, int, float, str))):
            raise ArgumentTypeError(f"record[{name!r}]: expected a number, text, bool or None, got {value!r}")
        plain[name] = item
    return _to_json(plain)


def decode_record(text: object) -> dict[str, PlainValue]:
    """Decodes a record that `encode_record` wrote.

    Raises:
        ArgumentError: the text is not a record.
    """
    try:
        found = _decode_object(text)
        if wrong := [name for name, value in found.items() if not isinstance(value, PlainValue)]:
            raise ArgumentTypeError(f"record[{wrong[0]!r}]: expected a number, text, bool or None")
    except (ValueError, RecursionError) as error:
        raise ArgumentError(f"{shorten(text)} is not a record: {shorten(error)}") from error
    return found


def _decode_object(text: object) -> dict[str, Any]:
    """Decodes a JSON object.

    Raises:
        ValueError, RecursionError: the text is not a JSON object.
    """
    if not isinstance(text, str):
        raise ArgumentTypeError(f"expected text, got {type(text).__name__}")
    found = json.loads(text)
    if not isinstance(found, dict):
        raise ArgumentTypeError(f"expected a JSON object, got {type(found).__name__}")
    return found


def shorten(text: object) -> str:
    """Returns a text for messages: at most `MAX_SHOWN_CHARACTERS` characters, control characters escaped."""
    shown = str(text) if isinstance(text, Exception) else repr(text)
    shown = "".join(c if c.isprintable() else repr(c)[1:-1] for c in shown[: MAX_SHOWN_CHARACTERS + 1])
    return shown if len(shown) <= MAX_SHOWN_CHARACTERS else f"{shown[:MAX_SHOWN_CHARACTERS]}..."


@cache
def _field_types(kind: type[Any]) -> dict[str, tuple[Any, Any]]:
    """Returns the annotation and default of each field by name; {} if annotations cannot be resolved."""
    try:
        hints = typing.get_type_hints(kind)
    except Exception:  # names that are imported only for type checking
        return {}
    fields = dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ()
    return {field.name: (hints.get(field.name, Any), field.default) for field in fields}


def _check_fields(kind: Any, values: Mapping[str, object]) -> None:
    """Rejects values whose types differ from the annotations of the fields of a dataclass.

    Raises:
        ArgumentTypeError: a value of another type; the message names the field.
    """
    hints = _field_types(kind)
    for name, value in values.items():
        hint, default = hints.get(name, (Any, None))
        if type(value) is not hint and not _has_type(value, hint) and value != default:
            expected = hint.__name__ if isinstance(hint, type) else hint
            raise ArgumentTypeError(f"{name}: expected {expected}, got the value {shorten(value)}")


def _has_type(value: object, hint: Any) -> bool:
    """Returns whether a plain value is of an annotated type; numbers may be of any numeric type."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return any(_has_type(value, each) for each in inner)
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        if len(inner) == 2 and inner[1] is Ellipsis:
            return all(_has_type(each, inner[0]) for each in value)
        return len(value) == len(inner) and all(map(_has_type, value, inner))
    if hint in (bool, int, float):
        return isinstance(value, (bool, int, float))
    if hint in (str, tuple):
        return isinstance(value, hint)
    return value is None if hint is type(None) else True


def _to_json(value: object) -> str:
    """Returns a value as compact JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _to_json_value(value: object, where: str) -> object:
    """Returns a plain value with tuples as lists, or raises an error that names the field `where`."""
    if isinstance(value, tuple):
        return [_to_json_value(item, f"{where}[{i}]") for i, item in enumerate(value)]
    if value is None or type(value) in (bool, int, float, str):
        return value
    raise ArgumentTypeError(f"{where}: expected str, int, float, bool, None or a tuple of them, got {value!r}")


def _lists_to_tuples(value: Any) -> Any:
    """Returns a decoded value with lists as tuples."""
    return tuple(_lists_to_tuples(item) for item in value) if isinstance(value, list) else value
