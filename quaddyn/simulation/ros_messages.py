"""ROS 2 messages as a table of fields, from which schemas and bytes are made: CDR and ros2msg, or JSON.

The encapsulation of CDR is that of DDS-XTypes 1.3, section 7.4.1 (XCDR1, PLAIN_CDR), as ROS 2 writes it: numbers are
aligned to their size relative to the first byte after the header of four bytes; a sequence begins with its length; the
length of a string counts its final zero byte.
"""

from __future__ import annotations

import functools
import json
import math
import struct
from collections.abc import Iterator, Mapping
from typing import Any

from ..errors import ArgumentError

#: Format character of `struct` of each number.
NUMBERS = {"bool": "?", "uint8": "B", "int32": "i", "uint32": "I", "int64": "q", "float64": "d"}

_XYZ = (("float64", "x"), ("float64", "y"), ("float64", "z"))
_HEADER = ("std_msgs/msg/Header", "header")
_VECTOR, _QUATERNION = "geometry_msgs/msg/Vector3", "geometry_msgs/msg/Quaternion"
_NAMES = ("string[]", "name")

#: Type and name of each field by message type.
MESSAGES: Mapping[str, tuple[tuple[str, str], ...]] = {
    "builtin_interfaces/msg/Time": (("int32", "sec"), ("uint32", "nanosec")),
    "std_msgs/msg/Header": (("builtin_interfaces/msg/Time", "stamp"), ("string", "frame_id")),
    "std_msgs/msg/String": (("string", "data"),),
    _VECTOR: _XYZ,
    "geometry_msgs/msg/Point": _XYZ,
    _QUATERNION: (*_XYZ, ("float64", "w")),
    "geometry_msgs/msg/Pose": (("geometry_msgs/msg/Point", "position"), (_QUATERNION, "orientation")),
    "geometry_msgs/msg/PoseStamped": (_HEADER, ("geometry_msgs/msg/Pose", "pose")),
    "geometry_msgs/msg/PoseWithCovariance": (("geometry_msgs/msg/Pose", "pose"), ("float64[36]", "covariance")),
    "geometry_msgs/msg/Twist": ((_VECTOR, "linear"), (_VECTOR, "angular")),
    "geometry_msgs/msg/TwistStamped": (_HEADER, ("geometry_msgs/msg/Twist", "twist")),
    "geometry_msgs/msg/TwistWithCovariance": (("geometry_msgs/msg/Twist", "twist"), ("float64[36]", "covariance")),
    "geometry_msgs/msg/Wrench": ((_VECTOR, "force"), (_VECTOR, "torque")),
    "geometry_msgs/msg/WrenchStamped": (_HEADER, ("geometry_msgs/msg/Wrench", "wrench")),
    "geometry_msgs/msg/Transform": ((_VECTOR, "translation"), (_QUATERNION, "rotation")),
    "geometry_msgs/msg/TransformStamped": (
        _HEADER,
        ("string", "child_frame_id"),
        ("geometry_msgs/msg/Transform", "transform"),
    ),
    "tf2_msgs/msg/TFMessage": (("geometry_msgs/msg/TransformStamped[]", "transforms"),),
    "nav_msgs/msg/Odometry": (
        _HEADER,
        ("string", "child_frame_id"),
        ("geometry_msgs/msg/PoseWithCovariance", "pose"),
        ("geometry_msgs/msg/TwistWithCovariance", "twist"),
    ),
    "sensor_msgs/msg/JointState": (
        _HEADER,
        _NAMES,
        ("float64[]", "position"),
        ("float64[]", "velocity"),
        ("float64[]", "effort"),
    ),
    "sensor_msgs/msg/Imu": (
        _HEADER,
        (_QUATERNION, "orientation"),
        ("float64[9]", "orientation_covariance"),
        (_VECTOR, "angular_velocity"),
        ("float64[9]", "angular_velocity_covariance"),
        (_VECTOR, "linear_acceleration"),
        ("float64[9]", "linear_acceleration_covariance"),
    ),
    "quaddyn/msg/Status": (_HEADER, ("string", "outcome"), ("bool", "ok"), ("float64[]", "level_residuals")),
    "quaddyn/msg/MotorCommand": (
        _HEADER,
        _NAMES,
        ("float64[]", "effort"),
        ("float64[]", "position"),
        ("float64[]", "velocity"),
        ("float64[]", "stiffness"),
        ("float64[]", "damping"),
    ),
    "quaddyn/msg/FootForces": (_HEADER, _NAMES, ("float64[]", "force")),
    "quaddyn/msg/Temperatures": (_HEADER, _NAMES, ("float64[]", "temperature")),
    "quaddyn/msg/Tick": (
        _HEADER,
        ("int64", "number"),
        ("string", "stage"),
        ("string", "fault"),
        ("string", "status"),
        ("float64[]", "velocity"),
        ("float64", "late"),
        ("string[]", "invalid"),
    ),
}


def has_header(kind: str) -> bool:
    """Returns whether messages of a type begin with a header."""
    return MESSAGES[kind][0] == _HEADER


def _element(kind: str) -> tuple[str, int | None] | None:
    """Returns the type of the elements and the length (None: variable) of an array type; None for other types."""
    if not kind.endswith("]"):
        return None
    element, _, size = kind[:-1].partition("[")
    return element, int(size) if size else None


# -- schemas -----------------------------------------------------------------------------------------------------------
def make_schema(kind: str, encoding: str) -> bytes:
    """Returns the schema of a message type, for the encoding "ros2msg" or "jsonschema"."""
    if encoding == "jsonschema":
        return json.dumps(_json_schema(kind)).encode()
    texts = []
    for name in dict.fromkeys(_nested_types(kind)):
        fields = "".join(f"{field.replace('/msg/', '/')} {label}\n" for field, label in MESSAGES[name])
        texts.append(fields if name == kind else f"MSG: {name.replace('/msg/', '/')}\n{fields}")
    return f"{'=' * 80}\n".join(texts).encode()


def _nested_types(kind: str) -> Iterator[str]:
    """Yields a message type and, recursively, those of its fields."""
    yield kind
    for field, _ in MESSAGES[kind]:
        array = _element(field)
        if (name := field if array is None else array[0]) in MESSAGES:
            yield from _nested_types(name)


def _json_schema(kind: str) -> dict[str, Any]:
    """Returns the JSON Schema of a type of a field or message."""
    if (array := _element(kind)) is not None:
        return {"type": "array", "items": _json_schema(array[0])}
    if kind in MESSAGES:
        return {"type": "object", "properties": {name: _json_schema(field) for field, name in MESSAGES[kind]}}
    return {"type": {"string": "string", "bool": "boolean", "float64": "number"}.get(kind, "integer")}


# -- JSON --------------------------------------------------------------------------------------------------------------
def encode_json(content: Mapping[str, Any]) -> bytes:
    """Returns a message as JSON; arrays and vectors with an entry that is not finite are written empty.

    JSON has no such numbers.
    """
    try:
        return json.dumps(content, allow_nan=False).encode()
    except ValueError:
        return json.dumps(_without_nonfinite(content), allow_nan=False).encode()


def _without_nonfinite(value: Any) -> Any:
    """Returns a value of a message with empty arrays and vectors in place of those that are not finite."""
    if not isinstance(value, Mapping | list | tuple):
        return value if not isinstance(value, float) or math.isfinite(value) else None
    entries = list(value.values() if isinstance(value, Mapping) else value)
    if all(isinstance(entry, float) for entry in entries) and not all(map(math.isfinite, entries)):
        return {} if isinstance(value, Mapping) else []
    if isinstance(value, Mapping):
        return {name: _without_nonfinite(entry) for name, entry in value.items()}
    return [_without_nonfinite(entry) for entry in entries]


# -- CDR ---------------------------------------------------------------------------------------------------------------
def encode_cdr(kind: str, content: Mapping[str, Any]) -> bytes:
    """Returns the little-endian CDR of a message, with the encapsulation header of four bytes.

    Args:
        kind: type of the message, a key of `MESSAGES`.
        content: values by name of the field.

    Raises:
        KeyError: a field without a value.
        ArgumentError: a value of another type or length than its field.
    """
    body = bytearray()
    _write_message(body, kind, content)
    return b"\x00\x01\x00\x00" + bytes(body)


@functools.cache
def numeric_leaves(kind: str) -> tuple[tuple[str, ...], ...] | None:
    """Returns the paths to the numbers of a type that consists of float64 alone; None for other types."""
    paths: list[tuple[str, ...]] = []
    for field, name in MESSAGES[kind]:
        inner = ((),) if field == "float64" else numeric_leaves(field) if field in MESSAGES else None
        if inner is None:
            return None
        paths += ((name, *path) for path in inner)
    return tuple(paths)


def _write_message(body: bytearray, kind: str, content: Mapping[str, Any]) -> None:
    """Appends the fields of a message."""
    if (paths := numeric_leaves(kind)) is not None:  # a block of numbers, written at once
        _write_numbers(body, "d", [functools.reduce(lambda at, name: at[name], path, content) for path in paths], kind)
        return
    for field, name in MESSAGES[kind]:
        value = content[name]
        if (array := _element(field)) is None:
            _write_value(body, field, value, f"{kind}.{name}")
            continue
        element, size = array
        if size is None:
            _write_numbers(body, "I", [len(value)], name)
        elif len(value) != size:
            raise ArgumentError(f"{kind}.{name}: expected {size} entries, got {len(value)}")
        if element in NUMBERS:
            _write_numbers(body, NUMBERS[element], value, f"{kind}.{name}")
        else:
            for entry in value:
                _write_value(body, element, entry, f"{kind}.{name}")


def _write_value(body: bytearray, kind: str, value: Any, label: str) -> None:
    """Appends a number, string or message."""
    if kind in MESSAGES:
        _write_message(body, kind, value)
    elif kind == "string":
        text = value.encode("utf-8", "surrogateescape")
        _write_numbers(body, "I", [len(text) + 1], label)
        body += text + b"\0"
    else:
        _write_numbers(body, NUMBERS[kind], [value], label)


def _write_numbers(body: bytearray, code: str, values: Any, label: str) -> None:
    """Appends numbers of one type, aligned to their size."""
    if len(values):
        body += bytes(-len(body) % struct.calcsize(f"<{code}"))
        try:
            body += struct.pack(f"<{len(values)}{code}", *values)
        except struct.error as error:
            raise ArgumentError(f"{label}: {error}") from None


def decode_cdr(kind: str, data: bytes) -> dict[str, Any]:
    """Returns the fields of a message in CDR, big- or little-endian; the inverse of `encode_cdr`.

    Args:
        kind: type of the message, a key of `MESSAGES`.
        data: bytes of the message, with the encapsulation header.

    Raises:
        ArgumentError: the bytes are not a message of this type.
    """
    try:
        if data[0] != 0 or data[1] not in (0, 1):
            raise ValueError(f"the encapsulation {data[:2].hex()} is not plain CDR")
        return _Decoder(data, "<" if data[1] else ">").message(kind)
    except (struct.error, ValueError, IndexError, UnicodeDecodeError) as error:
        raise ArgumentError(f"not a message of type {kind}: {error}") from None


class _Decoder:
    """Reader of the bytes of one message, after the encapsulation header."""

    def __init__(self, data: bytes, order: str) -> None:
        self._data, self._order, self._at = data, order, 4

    def message(self, kind: str) -> dict[str, Any]:
        """Reads the fields of a message."""
        return {name: self._value(field) for field, name in MESSAGES[kind]}

    def _value(self, kind: str) -> Any:
        if (array := _element(kind)) is not None:
            element, size = array
            count = self._numbers("I", 1)[0] if size is None else size
            if element in NUMBERS:
                return self._numbers(NUMBERS[element], count)
            if count > len(self._data):
                raise ValueError(f"{count} entries do not fit into {len(self._data)} bytes")
            return [self._value(element) for _ in range(count)]
        if kind in MESSAGES:
            return self.message(kind)
        if kind == "string":
            (length,) = self._numbers("I", 1)
            end = self._at + length
            if length < 1 or end > len(self._data) or self._data[end - 1]:
                raise ValueError("a string is damaged")
            text, self._at = self._data[self._at : end - 1].decode("utf-8", "surrogateescape"), end
            return text
        return self._numbers(NUMBERS[kind], 1)[0]

    def _numbers(self, code: str, count: int) -> list[Any]:
        if count == 0:
            return []
        size = struct.calcsize(f"<{code}")
        self._at += -(self._at - 4) % size
        if self._at + count * size > len(self._data):
            raise ValueError("the data end too early")
        values = struct.unpack_from(f"{self._order}{count}{code}", self._data, self._at)
        self._at += count * size
        return list(values)
