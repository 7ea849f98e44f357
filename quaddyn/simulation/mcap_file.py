"""MCAP files of ROS 2 messages: CDR for Foxglove, PlotJuggler and rosbag2, or JSON."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from ..errors import ArgumentError
from ..extras import import_extra
from ..safe_files import DAMAGED_ARCHIVE_ERRORS, open_regular_file
from .ros_messages import MESSAGES, decode_cdr, encode_cdr, encode_json, has_header, make_schema

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
    """Writes the messages of ticks as an MCAP file.

    Args:
        path: file to write.
        ticks: time [s] and messages of each tick, in order.
        encoding: "ros2" or "json".
        attachments: attached files by name.
        latched: topics whose last message late subscribers receive.
        metadata: texts by name of the channel of a topic, by topic; None: none.

    Returns:
        The path of the file.

    Raises:
        ArgumentError: another encoding.
        QuaddynError: the package mcap is not installed.
        OSError: the file cannot be written.
    """
    if encoding not in ENCODINGS:
        raise ArgumentError(f'encoding: expected "ros2" or "json", got {encoding!r}')
    message_encoding, schema_encoding, profile = ENCODINGS[encoding]
    mcap = import_extra("mcap.writer", "mcap")
    with Path(path).open("wb") as file:
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
