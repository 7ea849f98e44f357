"""MCAP files of ROS 2 messages: CDR for Foxglove, PlotJuggler and rosbag2, or JSON.

A file has these messages of a recorded robot, and a layout with which Foxglove draws it:

===================  ===============================  ==========================================================
topic                type                             content
===================  ===============================  ==========================================================
/robot_description   std_msgs/msg/String              URDF of the robot
/robot_shapes        std_msgs/msg/String              the same links with simple shapes, which need no mesh files
/tf_static           tf2_msgs/msg/TFMessage           placements of links behind fixed joints, and of a fixed root
/tf                  tf2_msgs/msg/TFMessage           placements of all other links, at most `MAX_TF_RATE` per second
/joint_states        sensor_msgs/msg/JointState       position, velocity, effort (torque) of the actuated joints
/base                geometry_msgs/msg/PoseStamped    pose of a free base in the world
/base_velocity       geometry_msgs/msg/TwistStamped   twist of a free base, in base axes
/odom                nav_msgs/msg/Odometry            both, as ROS 2 expects them
/cmd_vel             geometry_msgs/msg/TwistStamped   velocity that a locomotion controller was given
===================  ===============================  ==========================================================

Schemas (ros2msg or JSON) and bytes are made from the fields of messages in `messages.msg`.  The encapsulation of CDR
is that of DDS-XTypes 1.3, section 7.4.1 (XCDR1, PLAIN_CDR), as ROS 2 writes it: numbers are aligned to their size
relative to the first byte after the header of four bytes; a sequence begins with its length; the length of a string
counts its final zero byte.
"""

from __future__ import annotations

import functools
import importlib.resources
import json
import math
import os
import re
import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal
from xml.etree.ElementTree import Element, SubElement, tostring

import numpy as np
import pinocchio as pin

from ..dynamics import Dynamics
from ..errors import ArgumentError
from ..extras import import_extra
from ..robot.robot import Robot
from ..robot.saving import urdf_text
from ..safe_files import DAMAGED_ARCHIVE_ERRORS, file_errors, open_regular_file
from ..urdf.capsules import replace_capsules
from ..urdf.tree import Array, BoxShape, CylinderShape, Geometry, SphereShape

#: Format character of `struct` of each number.
NUMBERS = {"bool": "?", "uint8": "B", "int32": "i", "uint32": "I", "int64": "q", "float64": "d"}


def _read_definitions() -> dict[str, tuple[tuple[str, str], ...]]:
    """Returns type and name of each field by message type, from the file of definitions."""
    text = (importlib.resources.files(__package__) / "messages.msg").read_text(encoding="utf-8")
    found = {}
    for definition in text.split("MSG: ")[1:]:
        kind, *fields = definition.split("\n")
        found[kind] = tuple((field, name) for field, _, name in (line.partition(" ") for line in fields if line))
    return found


#: Type and name of each field by message type.
MESSAGES: Mapping[str, tuple[tuple[str, str], ...]] = _read_definitions()


def has_header(kind: str) -> bool:
    """Returns whether messages of a type begin with a header."""
    return MESSAGES[kind][0] == ("std_msgs/msg/Header", "header")


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


#: Topic, type, frame, and content of a message; the header is added where the type has one.
Message = tuple[str, str, str, dict[str, Any]]
#: Encoding of the messages in a file: "ros2" is CDR, which rosbag2 reads.
Encoding = Literal["ros2", "json"]
#: Message encoding, schema encoding and profile of a file by `Encoding`.
ENCODINGS = {"ros2": ("cdr", "ros2msg", "ros2"), "json": ("json", "jsonschema", "")}
#: Metadata of a channel with joint states whose effort is a command, which acts until the next message; otherwise it is
#: measured at the time of its message.
COMMANDED_EFFORT = {"effort": "command until the next message"}
#: Names in JSON files of topics that have another name in "ros2", since programs read JSON files of older versions.
JSON_TOPICS = {"/controller_commands": "/wanted"}
#: Quality of service of topics whose last message is sent to late subscribers: keep last 1, reliable, transient local.
LATCHED_QOS = (
    "- history: 1\n  depth: 1\n  reliability: 1\n  durability: 1\n  deadline: {sec: 9223372036, nsec: 854775807}\n"
    "  lifespan: {sec: 9223372036, nsec: 854775807}\n  liveliness: 1\n"
    "  liveliness_lease_duration: {sec: 9223372036, nsec: 854775807}\n  avoid_ros_namespace_conventions: false\n"
)


def make_stamp(seconds: float) -> dict[str, int]:
    """Returns a time [s] as the fields of builtin_interfaces/msg/Time."""
    nanoseconds = round(seconds * 1e9)
    return {"sec": nanoseconds // 10**9, "nanosec": nanoseconds % 10**9}


def write_messages(
    path: str | os.PathLike[str],
    ticks: Iterable[tuple[float, list[Message]]],
    *,
    encoding: Encoding = "ros2",
    attachments: Mapping[str, bytes] | None = None,
    latched: Collection[str] = (),
    metadata: Mapping[str, Mapping[str, str]] | None = None,
) -> Path:
    """Writes the messages of ticks as an MCAP file, and returns the path.

    Args:
        path: file to write.
        ticks: time [s] and messages of each tick, in order.
        encoding: "ros2" or "json".
        attachments: attached files by name.
        latched: topics whose last message late subscribers receive.
        metadata: texts by name of the channel of a topic, by topic; None: none.

    Raises:
        ArgumentError: another encoding.
        QuaddynError: the package mcap is not installed.
        OSError: the file cannot be written.
    """
    if encoding not in ENCODINGS:
        raise ArgumentError(f'encoding: expected "ros2" or "json", got {encoding!r}')
    message_encoding, schema_encoding, profile = ENCODINGS[encoding]
    mcap = import_extra("mcap.writer", "mcap")
    with file_errors(), Path(path).open("wb") as file:
        writer = mcap.Writer(file)
        writer.start(profile=profile, library="quaddyn")
        for name, data in (attachments or {}).items():
            kind = "application/json" if name.endswith(".json") else "application/xml"
            writer.add_attachment(create_time=0, log_time=0, name=name, media_type=kind, data=data)
        schemas: dict[str, int] = {}
        channels: dict[str, int] = {}
        names: set[str] = set()  # of topics; ROS 2 accepts letters, digits and underscores
        for i, (seconds, messages) in enumerate(ticks):
            nanoseconds, stamp = round(seconds * 1e9), make_stamp(seconds)
            for topic, kind, frame, content in messages:
                if kind not in schemas:
                    schema = make_schema(kind, schema_encoding)
                    schemas[kind] = writer.register_schema(name=kind, encoding=schema_encoding, data=schema)
                if topic not in channels:
                    name = (
                        JSON_TOPICS.get(topic, topic) if encoding == "json" else re.sub(r"[^A-Za-z0-9_/]", "_", topic)
                    )
                    name += "_" * (len(channels) if name in names else 0)
                    names.add(name)
                    quality = {"offered_qos_profiles": LATCHED_QOS} if topic in latched else {}
                    channels[topic] = writer.register_channel(
                        topic=name,
                        message_encoding=message_encoding,
                        schema_id=schemas[kind],
                        metadata={**quality, **(metadata or {}).get(topic, {})},
                    )
                if has_header(kind):
                    content = {"header": {"stamp": stamp, "frame_id": frame}, **content}
                data = encode_cdr(kind, content) if encoding == "ros2" else encode_json(content)
                writer.add_message(
                    channel_id=channels[topic], log_time=nanoseconds, publish_time=nanoseconds, data=data, sequence=i
                )
        writer.finish()
    return Path(path)


def read_messages(
    path: str | os.PathLike[str], kinds: Collection[str]
) -> Iterator[tuple[str, str, float, Any, Mapping[str, str]]]:
    """Yields topic, type, log time [s], fields and metadata of the channel of each message, in the order of time.

    Args:
        path: MCAP file with messages in CDR or JSON.
        kinds: types of messages to read, keys of `MESSAGES`.

    Raises:
        ArgumentError: not an MCAP file, or a message is damaged; the message names the file and the topic.
        QuaddynError: the package mcap is not installed.
        OSError: the file cannot be read.
    """
    assert set(kinds) <= set(MESSAGES)
    reader, damage = import_extra("mcap.reader", "mcap"), import_extra("mcap.exceptions", "mcap").McapError
    compression = import_extra("zstandard", "mcap").ZstdError
    with open_regular_file(path) as file:
        topic = ""
        try:
            for schema, channel, message in reader.make_reader(file).iter_messages():
                kind = "" if schema is None else schema.name
                if kind not in kinds or channel.message_encoding not in ("cdr", "json"):
                    continue
                topic, data = channel.topic, message.data
                content = decode_cdr(kind, data) if channel.message_encoding == "cdr" else json.loads(data)
                yield topic, kind, 1e-9 * message.log_time, content, channel.metadata
        except (damage, compression, *DAMAGED_ARCHIVE_ERRORS) as error:
            place = f"{path}: after topic {topic!r}" if topic else f"{path}"
            raise ArgumentError(f"{place}: the MCAP file is damaged: {str(error) or type(error).__name__}") from None


JOINTS = "sensor_msgs/msg/JointState"
IMU = "sensor_msgs/msg/Imu"
POSE = "geometry_msgs/msg/PoseStamped"
TWIST = "geometry_msgs/msg/TwistStamped"
WRENCH = "geometry_msgs/msg/WrenchStamped"
ODOMETRY = "nav_msgs/msg/Odometry"
TRANSFORMS = "tf2_msgs/msg/TFMessage"
STRING = "std_msgs/msg/String"
#: Topics whose last message describes the robot until the end of the file.
LATCHED = ("/robot_description", "/robot_shapes", "/tf_static")
WORLD = "world"
#: Largest number of messages on /tf per second.
MAX_TF_RATE = 100.0
#: Radius of the bars that are drawn for links without simple shapes [m].
BAR_RADIUS = 0.015


def make_vector(values: Sequence[float]) -> dict[str, float]:
    """Returns the first three values as a vector message with the fields x, y and z."""
    return dict(zip("xyz", values[:3], strict=True))


def make_velocity_message(velocity: Sequence[float]) -> Message:
    """Returns the message of a requested velocity: forward and leftward [m/s], yaw rate [rad/s]."""
    twist = {"linear": make_vector([*velocity[:2], 0.0]), "angular": make_vector([0.0, 0.0, velocity[2]])}
    return "/cmd_vel", TWIST, "", {"twist": twist}


def make_base_messages(q: Array, v: Array | None, child: str = "base") -> list[Message]:
    """Returns the messages of a free base.

    Args:
        q: (at least 7,) position [m] and quaternion (x, y, z, w), world axes.
        v: (at least 6,) linear [m/s] and angular velocity [rad/s], base axes; None if not known.
        child: name of the root link.
    """
    pose = {"position": make_vector(q[:3].tolist()), "orientation": dict(zip("xyzw", q[3:7].tolist(), strict=True))}
    messages: list[Message] = [("/base", POSE, WORLD, {"pose": pose})]
    if v is not None:
        twist = {"linear": make_vector(v[:3].tolist()), "angular": make_vector(v[3:6].tolist())}
        unknown = [0.0] * 36
        odometry = {
            "child_frame_id": child,
            "pose": {"pose": pose, "covariance": unknown},
            "twist": {"twist": twist, "covariance": unknown},
        }
        messages += [("/base_velocity", TWIST, child, {"twist": twist}), ("/odom", ODOMETRY, WORLD, odometry)]
    return messages


def make_imu_message(gyro: Sequence[float], accelerometer: Sequence[float]) -> Message:
    """Returns the message of an IMU without orientation, which the covariance -1 states.

    Args:
        gyro: (3,) angular velocity [rad/s].
        accelerometer: (3,) specific force [m/s^2].
    """
    content = {
        "orientation": {"x": 0.0, "y": 0.0, "z": 0.0, "w": 1.0},
        "orientation_covariance": [-1.0, *[0.0] * 8],
        "angular_velocity": make_vector(gyro),
        "angular_velocity_covariance": [0.0] * 9,
        "linear_acceleration": make_vector(accelerometer),
        "linear_acceleration_covariance": [0.0] * 9,
    }
    return "/imu", IMU, "imu", content


class RobotMessages:
    """Converter of configurations of a robot to messages that place and describe its links."""

    def __init__(self, robot: Robot) -> None:
        self.robot = robot
        self._dynamics, self._rest = Dynamics(robot), np.zeros(robot.nv)
        joints = [(WORLD, robot.tree.root.name, robot.root != "fixed")] if robot.tree.root.name != WORLD else []
        joints += [(joint.parent, joint.child, joint.type != "fixed") for joint in robot.tree.joints]
        self._moving = [(parent, child) for parent, child, moves in joints if moves]
        self._fixed = [(parent, child) for parent, child, moves in joints if not moves]
        self._last_time = -np.inf

    def describe(self, seconds: float) -> list[Message]:
        """Returns the messages of the topics `LATCHED`, at the time of the first tick [s]."""
        robot = self.robot
        return [
            ("/robot_description", STRING, "", {"data": replace_capsules(urdf_text(robot))}),
            ("/robot_shapes", STRING, "", {"data": make_simple_shapes_urdf(robot)}),
            ("/tf_static", TRANSFORMS, "", {"transforms": self._transforms(seconds, robot.q_home, self._fixed)}),
        ]

    def make_transforms(self, seconds: float, configuration: Callable[[], Array]) -> list[Message]:
        """Returns the message of /tf, unless the last one is too recent.

        Args:
            seconds: time [s].
            configuration: returns q (nq,); called only for a message.  Where it raises an `ArgumentError` or q is not
                valid, as in a damaged recording, there is no message.
        """
        if abs(seconds - self._last_time) < 1.0 / MAX_TF_RATE - 1e-6:
            return []
        with suppress(ArgumentError):
            q = np.ascontiguousarray(configuration(), dtype=np.float64)
            transforms = self._transforms(seconds, q, self._moving)
            self._last_time = seconds
            return [("/tf", TRANSFORMS, "", {"transforms": transforms})]
        return []

    def _transforms(self, seconds: float, q: Array, pairs: Iterable[tuple[str, str]]) -> list[dict[str, object]]:
        """Returns the placement of each child in its parent link as geometry_msgs/msg/TransformStamped."""
        state = self._dynamics.update(q, self._rest)
        out: list[dict[str, object]] = []
        for parent, child in pairs:
            placement = state.placement(child)
            rotation, translation = placement.rotation, placement.translation
            if parent != WORLD:
                to_parent = state.placement(parent)
                rotation = to_parent.rotation.T @ rotation
                translation = to_parent.rotation.T @ (translation - to_parent.translation)
            transform = {
                "translation": make_vector(translation.tolist()),
                "rotation": dict(zip("xyzw", pin.Quaternion(rotation).coeffs().tolist(), strict=True)),
            }
            header = {"stamp": make_stamp(seconds), "frame_id": parent}
            out.append({"header": header, "child_frame_id": child, "transform": transform})
        return out


def make_simple_shapes_urdf(robot: Robot) -> str:
    """Returns a URDF with the links and joints of a robot and simple shapes only, which viewers draw without files.

    A link is drawn by its boxes, cylinders and spheres; without any, by bars to the joints of its children, and by a
    sphere at a foot.
    """
    tree, root = robot.tree, Element("robot", name=robot.name)
    feet = {leg.foot.frame: leg.foot for leg in robot.legs.values() if leg.foot.radius > 0.0}
    for link in tree.links:
        element = SubElement(root, "link", name=link.name)
        shapes = [each for each in link.visuals if _is_simple(each)]
        shapes = shapes or [each for each in link.collisions if _is_simple(each)]
        for each in shapes:
            _add_visual(element, each.shape, each.placement.translation, each.placement.rotation)
        if shapes:
            continue
        if (foot := feet.get(link.name)) is not None:
            _add_visual(element, SphereShape(foot.radius), foot.offset, np.eye(3))
        for joint in tree.children[link.name]:
            end = joint.placement.translation
            if (length := float(np.linalg.norm(end))) > BAR_RADIUS:
                z = pin.Quaternion.FromTwoVectors(np.array([0.0, 0.0, 1.0]), end).toRotationMatrix()
                _add_visual(element, CylinderShape(BAR_RADIUS, length), 0.5 * end, z)
    for joint in tree.joints:
        element = SubElement(root, "joint", name=joint.name, type=joint.type)
        SubElement(element, "parent", link=joint.parent)
        SubElement(element, "child", link=joint.child)
        _add_origin(element, joint.placement.translation, joint.placement.rotation)
        if joint.type not in ("fixed", "floating"):
            SubElement(element, "axis", xyz=" ".join(f"{x:.9g}" for x in joint.axis))
        if joint.type in ("revolute", "prismatic"):
            limits = {"lower": joint.limits.lower, "upper": joint.limits.upper, "effort": joint.limits.effort}
            limits |= {"velocity": joint.limits.velocity}
            SubElement(element, "limit", {k: f"{float(np.clip(x, -1e9, 1e9)):.9g}" for k, x in limits.items()})
    return tostring(root, encoding="unicode")


def _is_simple(geometry: Geometry) -> bool:
    return isinstance(geometry.shape, BoxShape | CylinderShape | SphereShape)


def _add_origin(element: Element, translation: Array, rotation: Array) -> None:
    angles = pin.rpy.matrixToRpy(rotation)
    SubElement(
        element, "origin", xyz=" ".join(f"{x:.9g}" for x in translation), rpy=" ".join(f"{x:.9g}" for x in angles)
    )


def _add_visual(element: Element, shape: object, translation: Array, rotation: Array) -> None:
    """Adds a ``<visual>`` of a box, cylinder or sphere."""
    visual = SubElement(element, "visual")
    _add_origin(visual, translation, rotation)
    geometry = SubElement(visual, "geometry")
    if isinstance(shape, BoxShape):
        SubElement(geometry, "box", size=" ".join(f"{x:.9g}" for x in shape.size))
    elif isinstance(shape, CylinderShape):
        SubElement(geometry, "cylinder", radius=f"{shape.radius:.9g}", length=f"{shape.length:.9g}")
    elif isinstance(shape, SphereShape):
        SubElement(geometry, "sphere", radius=f"{shape.radius:.9g}")


def make_foxglove_layout(robot: Robot, topics: Sequence[str]) -> bytes:
    """Returns a layout for Foxglove as JSON: the robot in 3D beside plots of its joints and vertical contact forces.

    Args:
        robot: the robot.
        topics: topics of the file with contact forces, such as "/contact/FL".
    """
    plots = {
        "joint positions [rad, m]": [f"/joint_states.position[{i}]" for i in range(robot.nu)],
        "joint torques [N m, N]": [f"/joint_states.effort[{i}]" for i in range(robot.nu)],
        "vertical contact forces [N]": [f"{topic}.wrench.force.z" for topic in topics],
    }
    layout = json.loads((importlib.resources.files(__package__) / "foxglove_layout.json").read_text(encoding="utf-8"))
    panels = layout["configById"]
    panels["3D!robot"]["followTf"] = robot.tree.root.name
    panels["3D!robot"]["layers"]["robot"]["label"] = robot.name
    column: object = None
    for title, paths in reversed(plots.items()):
        if paths:
            panel = f"Plot!{title.replace(' ', '')}"
            lines = [{"value": path, "enabled": True, "timestampMethod": "receiveTime"} for path in paths]
            panels[panel] = {"paths": lines, "foxglovePanelTitle": title, "xAxisVal": "timestamp", "isSynced": True}
            column = panel if column is None else {"direction": "column", "first": panel, "second": column}
    if column is not None:
        layout["layout"] = {"direction": "row", "first": "3D!robot", "second": column, "splitPercentage": 60}
    return json.dumps(layout, indent=1).encode()
