"""Logs as MCAP files, which Foxglove and PlotJuggler open: JSON messages in the form of ROS 2's.

=====================  ==================================  =====================================================
topic                  schema                              content
=====================  ==================================  =====================================================
/joint_states          sensor_msgs/msg/JointState          position, velocity, effort (torque) of actuated joints
/base                  geometry_msgs/msg/PoseStamped       pose of a free base in the world
/base_velocity         geometry_msgs/msg/TwistStamped      twist of a free base, in base axes
/contact/NAME          geometry_msgs/msg/WrenchStamped     force of the ground on a foot, sphere or link, world axes
/status                quaddyn/msg/Status                  outcome of whole-body control, residual of each level
=====================  ==================================  =====================================================
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from ..errors import QuaddynError
from ..urdf.tree import Array

NUMBER: dict[str, Any] = {"type": "number"}
NUMBERS: dict[str, Any] = {"type": "array", "items": NUMBER}
WORDS: dict[str, Any] = {"type": "array", "items": {"type": "string"}}


def make_schema(**properties: Any) -> dict[str, Any]:
    """Returns the JSON Schema of an object with these properties."""
    return {"type": "object", "properties": properties}


STAMP = make_schema(sec={"type": "integer"}, nanosec={"type": "integer"})
HEADER = make_schema(stamp=STAMP, frame_id={"type": "string"})
VECTOR = make_schema(x=NUMBER, y=NUMBER, z=NUMBER)
QUATERNION = make_schema(x=NUMBER, y=NUMBER, z=NUMBER, w=NUMBER)

#: Topic, name of the schema, frame, and content of a message; its header is added.
Message = tuple[str, str, str, dict[str, Any]]
JOINTS, IMU, POSE = "sensor_msgs/msg/JointState", "sensor_msgs/msg/Imu", "geometry_msgs/msg/PoseStamped"
#: JSON Schema of each kind of message.
SCHEMAS = {
    JOINTS: make_schema(header=HEADER, name=WORDS, position=NUMBERS, velocity=NUMBERS, effort=NUMBERS),
    POSE: make_schema(header=HEADER, pose=make_schema(position=VECTOR, orientation=QUATERNION)),
    "geometry_msgs/msg/TwistStamped": make_schema(header=HEADER, twist=make_schema(linear=VECTOR, angular=VECTOR)),
    "geometry_msgs/msg/WrenchStamped": make_schema(header=HEADER, wrench=make_schema(force=VECTOR, torque=VECTOR)),
    IMU: make_schema(header=HEADER, angular_velocity=VECTOR, linear_acceleration=VECTOR),
    "quaddyn/msg/Status": make_schema(
        header=HEADER, outcome={"type": "string"}, ok={"type": "boolean"}, level_residuals=NUMBERS
    ),
}


class McapSource(Protocol):
    """Quantities that are written to an MCAP file, such as those of a `quaddyn.simulation.Log`."""

    @property
    def time(self) -> Array: ...  # noqa: D102
    @property
    def v(self) -> Array: ...  # noqa: D102
    @property
    def tau(self) -> Array: ...  # noqa: D102
    @property
    def forces(self) -> Array: ...  # noqa: D102
    @property
    def spheres(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def status(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def level_residuals(self) -> Array: ...  # noqa: D102
    @property
    def joint_names(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def positions(self) -> Array: ...  # noqa: D102
    @property
    def velocities(self) -> Array: ...  # noqa: D102
    @property
    def base(self) -> Array | None: ...  # noqa: D102


def write_log(log: McapSource, path: str | os.PathLike[str]) -> Path:
    """Writes a log as an MCAP file.

    Args:
        log: log to write.
        path: file to write.

    Returns:
        The path of the file.

    Raises:
        QuaddynError: the package mcap is not installed.
        OSError: the file cannot be written.
    """
    positions, velocities = log.positions.tolist(), log.velocities.tolist()
    times = enumerate(log.time.tolist())
    return write_ticks(path, ((seconds, _make_messages(log, i, positions[i], velocities[i])) for i, seconds in times))


def write_ticks(
    path: str | os.PathLike[str],
    ticks: Iterable[tuple[float, list[Message]]],
    *,
    schemas: Mapping[str, Any] | None = None,
    attachments: Mapping[str, bytes] | None = None,
) -> Path:
    """Writes the messages of ticks as an MCAP file.

    Args:
        path: file to write.
        ticks: time [s] and messages of each tick, in order.
        schemas: JSON Schemas by name in addition to `SCHEMAS`.
        attachments: attached files by name.

    Returns:
        The path of the file.

    Raises:
        QuaddynError: the package mcap is not installed.
        OSError: the file cannot be written.
    """
    try:
        from mcap.writer import Writer
    except ImportError:
        raise QuaddynError("mcap is not installed; install it with: pip install 'quaddyn[mcap]'") from None
    with Path(path).open("wb") as file:
        writer = Writer(file)
        writer.start(profile="", library="quaddyn")
        schema_ids = {
            name: writer.register_schema(name=name, encoding="jsonschema", data=json.dumps(message_schema).encode())
            for name, message_schema in {**SCHEMAS, **(schemas or {})}.items()
        }
        for name, data in (attachments or {}).items():
            kind = "application/json" if name.endswith(".json") else "application/xml"
            writer.add_attachment(create_time=0, log_time=0, name=name, media_type=kind, data=data)
        channels: dict[str, int] = {}
        for i, (seconds, messages) in enumerate(ticks):
            nanoseconds = round(seconds * 1e9)
            for topic, kind, frame, content in messages:
                if topic not in channels:
                    channels[topic] = writer.register_channel(
                        topic=topic, message_encoding="json", schema_id=schema_ids[kind]
                    )
                stamp = {"sec": nanoseconds // 10**9, "nanosec": nanoseconds % 10**9}
                data = json.dumps({"header": {"stamp": stamp, "frame_id": frame}, **content}).encode()
                writer.add_message(
                    channel_id=channels[topic], log_time=nanoseconds, publish_time=nanoseconds, data=data, sequence=i
                )
        writer.finish()
    return Path(path)


def _make_messages(log: McapSource, i: int, positions: list[float], velocities: list[float]) -> list[Message]:
    """Returns topic, schema, frame and content of each message of tick i."""
    joints = {
        "name": list(log.joint_names),
        "position": positions,
        "velocity": velocities,
        "effort": log.tau[i].tolist(),
    }
    messages: list[Message] = [("/joint_states", JOINTS, "", joints)]
    if log.base is not None:
        base_pose, twist = log.base[i].tolist(), log.v[i, :6].tolist()
        pose = {
            "position": _make_vector_message(base_pose),
            "orientation": dict(zip("xyzw", base_pose[3:], strict=True)),
        }
        messages.append(("/base", POSE, "world", {"pose": pose}))
        base_twist = {"linear": _make_vector_message(twist), "angular": _make_vector_message(twist[3:])}
        messages.append(("/base_velocity", "geometry_msgs/msg/TwistStamped", "base", {"twist": base_twist}))
    for sphere, force in zip(log.spheres, log.forces[i].tolist(), strict=True):
        wrench = {"force": _make_vector_message(force), "torque": _make_vector_message([0.0, 0.0, 0.0])}
        messages.append((f"/contact/{sphere}", "geometry_msgs/msg/WrenchStamped", "world", {"wrench": wrench}))
    if any(log.status):
        residuals = [x for x in log.level_residuals[i].tolist() if math.isfinite(x)] if log.level_residuals.size else []
        status = {"outcome": log.status[i], "ok": log.status[i] == "solved", "level_residuals": residuals}
        messages.append(("/status", "quaddyn/msg/Status", "", status))
    return messages


def _make_vector_message(values: list[float]) -> dict[str, float]:
    """Returns the first three values as a vector message with the fields x, y and z."""
    return dict(zip("xyz", values[:3], strict=True))
