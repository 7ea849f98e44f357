"""Messages of a recording for an MCAP file, one of each kind per tick, besides those of every robot.

====================  ==========================  =========================================================
topic                 type                        content
====================  ==========================  =========================================================
/joint_states         sensor_msgs/msg/JointState  position, velocity, effort (torque, see below) of joints
/joint_commands       quaddyn/msg/MotorCommand    command that was written to the motors
/controller_commands  quaddyn/msg/MotorCommand    command before the safety layer; in JSON, /wanted
/imu                  sensor_msgs/msg/Imu         angular velocity and specific force, IMU axes
/feet                 quaddyn/msg/FootForces      if the robot has foot sensors
/temperatures         quaddyn/msg/Temperatures    if the motors measure them
/cmd_vel              geometry_msgs/TwistStamped  requested velocity
/tick                 quaddyn/msg/Tick            stage, fault, status, requested velocity, latency
====================  ==========================  =========================================================

The effort is the measured torque, or, without torque sensors, that of the command; the metadata of the channel say so.
Values that are not finite are NaN in CDR; in JSON, their list is empty.  /tick lists their fields in `invalid`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..simulation.mcap_file import JOINTS, Message, make_base_messages, make_imu_message, make_velocity_message
from .motor_command import COMMAND_FIELDS
from .recording import STAGES

MOTORS, FEET, HEAT, TICK = (f"quaddyn/msg/{name}" for name in ("MotorCommand", "FootForces", "Temperatures", "Tick"))


def make_tick_messages(
    metadata: Mapping[str, Any],
    record: Any,
    is_measured: Mapping[str, bool],
    commanded_torques: Sequence[float],
    root_link: str,
) -> list[Message]:
    """Returns topic, schema, frame and content of each message of a tick.

    Args:
        metadata: metadata of the recording.
        record: record of the tick.
        is_measured: whether the recording has measured torques, foot forces and temperatures, by name of the field.
        commanded_torques: (nu,) torques of the command at the reading, PD terms included [N m or N].
        root_link: name of the root link.
    """
    invalid: list[str] = []

    def values(name: str) -> list[float]:
        if not np.isfinite(record[name]).all():
            invalid.append(name)
        return list(record[name].tolist())

    joints = metadata["joints"]
    joint_states = {"name": joints, "position": values("position"), "velocity": values("velocity")}
    joint_states["effort"] = values("torque") if is_measured["torque"] else list(commanded_torques)
    out: list[Message] = [
        ("/joint_states", JOINTS, "", joint_states),
        make_imu_message(values("gyro"), values("accelerometer")),
    ]
    for topic, prefix in (("/joint_commands", "command"), ("/controller_commands", "wanted")):
        command = {"effort" if name == "tau" else name: values(f"{prefix}_{name}") for name in COMMAND_FIELDS}
        out.append((topic, MOTORS, "", {"name": joints, **command}))
    if is_measured["foot_forces"]:
        out.append(("/feet", FEET, "", {"name": metadata["feet"], "force": values("foot_forces")}))
    if is_measured["temperature"]:
        out.append(("/temperatures", HEAT, "", {"name": joints, "temperature": values("temperature")}))
    if metadata["robot"]["root"] == "free" and np.isfinite(record["q"]).all():
        out += make_base_messages(record["q"], record["v"] if np.isfinite(record["v"]).all() else None, root_link)
    if np.isfinite(record["velocity_wanted"]).all():
        out.append(make_velocity_message(record["velocity_wanted"].tolist()))
    tick = {
        "number": int(record["last"]),
        "stage": STAGES[record["stage"]].value,
        "fault": record["reason"].decode("ascii"),
        "status": record["status"].decode("ascii"),
        "velocity": values("velocity_wanted"),
        "late": float(record["begun"] - record["deadline"]),
        "invalid": invalid,
    }
    return [*out, ("/tick", TICK, "", tick)]
