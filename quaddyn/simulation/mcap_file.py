"""Logs as MCAP files, which Foxglove and PlotJuggler open: JSON messages in the form of ROS 2's.

=====================  ==================================  =====================================================
topic                  schema                              what
=====================  ==================================  =====================================================
/joint_states          sensor_msgs/msg/JointState          position, velocity, effort (torque) of actuated joints
/base                  geometry_msgs/msg/PoseStamped       of a free base in the world
/base_velocity         geometry_msgs/msg/TwistStamped      of a free base, in its own axes
/contact/NAME          geometry_msgs/msg/WrenchStamped     force of the ground on a foot, sphere or link, world axes
/status                quaddyn/msg/Status                  outcome of whole-body control, what each level lost
=====================  ==================================  =====================================================
"""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any, Protocol

from ..errors import QuaddynError
from ..urdf.tree import Array

NUMBER: dict[str, Any] = {"type": "number"}
NUMBERS: dict[str, Any] = {"type": "array", "items": NUMBER}
WORDS: dict[str, Any] = {"type": "array", "items": {"type": "string"}}


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


STAMP = _object(sec={"type": "integer"}, nanosec={"type": "integer"})
HEADER = _object(stamp=STAMP, frame_id={"type": "string"})
VECTOR = _object(x=NUMBER, y=NUMBER, z=NUMBER)
QUATERNION = _object(x=NUMBER, y=NUMBER, z=NUMBER, w=NUMBER)

#: JSON Schema of each kind of message.
SCHEMAS = {
    "sensor_msgs/msg/JointState": _object(
        header=HEADER, name=WORDS, position=NUMBERS, velocity=NUMBERS, effort=NUMBERS
    ),
    "geometry_msgs/msg/PoseStamped": _object(header=HEADER, pose=_object(position=VECTOR, orientation=QUATERNION)),
    "geometry_msgs/msg/TwistStamped": _object(header=HEADER, twist=_object(linear=VECTOR, angular=VECTOR)),
    "geometry_msgs/msg/WrenchStamped": _object(header=HEADER, wrench=_object(force=VECTOR, torque=VECTOR)),
    "quaddyn/msg/Status": _object(header=HEADER, outcome={"type": "string"}, ok={"type": "boolean"}, lost=NUMBERS),
}


class Run(Protocol):
    """What is written of a `quaddyn.simulation.Log`, which see."""

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
    def lost(self) -> Array: ...  # noqa: D102
    @property
    def joints(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def positions(self) -> Array: ...  # noqa: D102
    @property
    def velocities(self) -> Array: ...  # noqa: D102
    @property
    def base(self) -> Array | None: ...  # noqa: D102


def write(log: Run, path: str | os.PathLike[str]) -> Path:
    """Write a log.

    Raises:
        QuaddynError: the package mcap is not installed.
        OSError: the file cannot be written.
    """
    try:
        from mcap.writer import Writer
    except ImportError:
        raise QuaddynError("mcap is not installed; pip install 'quaddyn[mcap]' brings it") from None
    with Path(path).open("wb") as file:
        writer = Writer(file)
        writer.start(profile="", library="quaddyn")
        schemas = {
            name: writer.register_schema(name=name, encoding="jsonschema", data=json.dumps(schema).encode())
            for name, schema in SCHEMAS.items()
        }
        channels: dict[str, int] = {}
        positions, velocities = log.positions.tolist(), log.velocities.tolist()
        for i, seconds in enumerate(log.time.tolist()):
            at = round(seconds * 1e9)
            for topic, schema, frame, content in _messages(log, i, positions[i], velocities[i]):
                if topic not in channels:
                    channels[topic] = writer.register_channel(
                        topic=topic, message_encoding="json", schema_id=schemas[schema]
                    )
                stamp = {"sec": at // 10**9, "nanosec": at % 10**9}
                data = json.dumps({"header": {"stamp": stamp, "frame_id": frame}, **content}).encode()
                writer.add_message(channel_id=channels[topic], log_time=at, publish_time=at, data=data, sequence=i)
        writer.finish()
    return Path(path)


def _messages(
    log: Run, i: int, positions: list[float], velocities: list[float]
) -> list[tuple[str, str, str, dict[str, Any]]]:
    """Topic, schema, frame and content of each message of tick i."""
    joints = {
        "name": list(log.joints),
        "position": positions,
        "velocity": velocities,
        "effort": log.tau[i].tolist(),
    }
    out: list[tuple[str, str, str, dict[str, Any]]] = [("/joint_states", "sensor_msgs/msg/JointState", "", joints)]
    if log.base is not None:
        place, twist = log.base[i].tolist(), log.v[i, :6].tolist()
        pose = {"position": _xyz(place), "orientation": dict(zip("xyzw", place[3:], strict=True))}
        out.append(("/base", "geometry_msgs/msg/PoseStamped", "world", {"pose": pose}))
        moving = {"linear": _xyz(twist), "angular": _xyz(twist[3:])}
        out.append(("/base_velocity", "geometry_msgs/msg/TwistStamped", "base", {"twist": moving}))
    for sphere, force in zip(log.spheres, log.forces[i].tolist(), strict=True):
        wrench = {"force": _xyz(force), "torque": _xyz([0.0, 0.0, 0.0])}
        out.append((f"/contact/{sphere}", "geometry_msgs/msg/WrenchStamped", "world", {"wrench": wrench}))
    if any(log.status):
        lost = [x for x in log.lost[i].tolist() if math.isfinite(x)] if log.lost.size else []
        said = {"outcome": log.status[i], "ok": log.status[i] == "solved", "lost": lost}
        out.append(("/status", "quaddyn/msg/Status", "", said))
    return out


def _xyz(values: list[float]) -> dict[str, float]:
    return dict(zip("xyz", values[:3], strict=True))
