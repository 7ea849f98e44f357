"""Recordings as MCAP files for Foxglove and PlotJuggler, with one JSON message of each kind per tick.

================  ===========================  ======================================================================
topic             schema                       content
================  ===========================  ======================================================================
/joint_states     sensor_msgs/msg/JointState   position, velocity, effort (measured torque) of the actuated joints
/joint_commands   quaddyn/msg/MotorCommand     command that was written to the motors
/wanted           quaddyn/msg/MotorCommand     command of the controller, before the safety layer
/imu              sensor_msgs/msg/Imu          angular velocity and specific force, IMU axes
/feet             quaddyn/msg/FootForces       if the robot has foot sensors
/temperatures     quaddyn/msg/Temperatures     if the motors measure them
/base             geometry_msgs/msg/PoseStamped  estimated pose of a free base
/tick             quaddyn/msg/Tick             stage, fault, status of the controller, requested velocity, latency
================  ===========================  ======================================================================

A list with a non-finite entry is written as an empty list, since JSON has no such number, and /tick lists its name in
`invalid`. The URDF is attached as robot.urdf, all other metadata of the recording as about.json.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..simulation.mcap_file import HEADER, IMU, JOINTS, NUMBER, NUMBERS, POSE, WORDS, Message, make_schema, write_ticks
from .recording import COMMAND_FIELDS, STAGES

MOTORS, FEET, HEAT, TICK = (f"quaddyn/msg/{name}" for name in ("MotorCommand", "FootForces", "Temperatures", "Tick"))
TEXT = {"type": "string"}
SCHEMAS = {
    MOTORS: make_schema(header=HEADER, name=WORDS, **dict.fromkeys(("effort", *COMMAND_FIELDS[1:]), NUMBERS)),
    FEET: make_schema(header=HEADER, name=WORDS, force=NUMBERS),
    HEAT: make_schema(header=HEADER, name=WORDS, temperature=NUMBERS),
    TICK: make_schema(
        header=HEADER,
        number={"type": "integer"},
        stage=TEXT,
        fault=TEXT,
        status=TEXT,
        velocity=NUMBERS,
        late=NUMBER,
        invalid=WORDS,
    ),
}


def write(about: Mapping[str, Any], records: np.ndarray[Any, Any], path: str | os.PathLike[str]) -> Path:
    """Writes the records of a recording; times are seconds since the earliest record.

    Raises:
        QuaddynError: the package mcap is not installed.
        OSError: the file cannot be written.
    """
    robot = {name: value for name, value in about["robot"].items() if name != "urdf"}
    attachments = {
        "robot.urdf": about["robot"]["urdf"].encode("utf-8", "surrogateescape"),
        "about.json": json.dumps({**about, "robot": robot}).encode(),
    }
    return write_ticks(path, _ticks(about, records), schemas=SCHEMAS, attachments=attachments)


def _ticks(metadata: Mapping[str, Any], records: np.ndarray[Any, Any]) -> Iterator[tuple[float, list[Message]]]:
    """Yields the time since the earliest record [s] and the messages of each record."""
    is_measured = {name: bool(np.isfinite(records[name]).any()) for name in ("torque", "foot_forces", "temperature")}
    first = records["begun"].min(initial=np.inf)
    for record in records:
        yield float(record["begun"] - first), _messages(metadata, record, is_measured)


def _messages(metadata: Mapping[str, Any], record: Any, is_measured: Mapping[str, bool]) -> list[Message]:
    """Returns topic, schema, frame and content of each message of a tick.

    Args:
        metadata: metadata of the recording.
        record: record of the tick.
        is_measured: whether the recording has measured torques, foot forces and temperatures, by name of the field.
    """
    invalid: list[str] = []

    def finite(name: str) -> list[float]:
        if np.isfinite(record[name]).all():
            values: list[float] = record[name].tolist()
            return values
        invalid.append(name)
        return []

    def xyz(name: str) -> dict[str, float]:
        return dict(zip("xyz", finite(name), strict=False))

    joints = metadata["joints"]
    joint_states = {"name": joints, "position": finite("position"), "velocity": finite("velocity")}
    joint_states["effort"] = finite("torque") if is_measured["torque"] else []
    out: list[Message] = [
        ("/joint_states", JOINTS, "", joint_states),
        ("/imu", IMU, "imu", {"angular_velocity": xyz("gyro"), "linear_acceleration": xyz("accelerometer")}),
    ]
    for topic, prefix in (("/joint_commands", "command"), ("/wanted", "wanted")):
        command = {"effort" if name == "tau" else name: finite(f"{prefix}_{name}") for name in COMMAND_FIELDS}
        out.append((topic, MOTORS, "", {"name": joints, **command}))
    if is_measured["foot_forces"]:
        out.append(("/feet", FEET, "", {"name": metadata["feet"], "force": finite("foot_forces")}))
    if is_measured["temperature"]:
        out.append(("/temperatures", HEAT, "", {"name": joints, "temperature": finite("temperature")}))
    if metadata["robot"]["root"] == "free" and np.isfinite(record["q"]).all():
        q = record["q"].tolist()
        pose = {
            "position": dict(zip("xyz", q, strict=False)),
            "orientation": dict(zip("xyzw", q[3:7], strict=True)),
        }
        out.append(("/base", POSE, "world", {"pose": pose}))
    tick = {
        "number": int(record["last"]),
        "stage": STAGES[record["stage"]].value,
        "fault": record["reason"].decode("ascii"),
        "status": record["status"].decode("ascii"),
        "velocity": finite("velocity_wanted"),
        "late": float(record["begun"] - record["deadline"]),
        "invalid": invalid,
    }
    return [*out, ("/tick", TICK, "", tick)]
