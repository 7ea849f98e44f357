"""`Fault`: reason for which the safety layer damps a robot, and the messages of all faults."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..robot.robot import Robot
from .safety_checks import FaultCode, OptionalSensor

#: Name and message of each fault code; messages have the fields of `Fault.from_code`.
FAULT_TEXTS: dict[int, tuple[str, str]] = {
    FaultCode.CONTROLLER_FAILURE: ("controller failed", "the controller raised an exception: {what}"),
    FaultCode.CONTROLLER_OVERRUN: ("controller late", "the controller missed its deadline too often: {what}"),
    FaultCode.LINK_LOSS: ("link lost", "commands do not reach the robot: {what}"),
    FaultCode.OPERATOR_STOP: ("stopped", "stopped by the operator{what}"),
    FaultCode.STALE_READING: ("stale reading", "no new reading for {value:.4g} s (limit {allowed:.4g} s)"),
    FaultCode.NON_FINITE_READING: ("reading not a number", "the reading of {sensor} is NaN or infinite"),
    FaultCode.ENCODER_JUMP: (
        "encoder jumps",
        "joint {joint}: the position jumped by {value:+.3g} rad more than the velocity explains",
    ),
    FaultCode.FROZEN_ENCODER: (
        "encoder frozen",
        "joint {joint}: {value:.0f} consecutive readings are equal while other joints move",
    ),
    FaultCode.ENCODER_INCONSISTENCY: (
        "encoder inconsistent",
        "joint {joint}: position and integrated velocity differ by {value:+.{digits}g} rad (limit {allowed:.{digits}g} "
        "rad)",
    ),
    FaultCode.FROZEN_GYROSCOPE: (
        "gyroscope frozen",
        "{value:.0f} consecutive readings of the gyroscope are equal while joints move",
    ),
    FaultCode.FROZEN_ACCELEROMETER: (
        "accelerometer frozen",
        "{value:.0f} consecutive readings of the accelerometer are equal while joints move",
    ),
    FaultCode.IMU_INCONSISTENCY: (
        "IMU inconsistent",
        "the rates of the vertical from gyroscope and accelerometer differ by {value:.{digits}g} rad/s (limit "
        "{allowed:.{digits}g} rad/s); check their units (rad/s, m/s^2) and axes",
    ),
    FaultCode.EXCESSIVE_TILT: (
        "tilted",
        "the trunk is tilted by {angle:.{angle_digits}g} degrees (limit {angle_allowed:.{angle_digits}g} degrees)",
    ),
    FaultCode.POSITION_LIMIT: ("position limit", "joint {joint}: {value:.{digits}g} rad beyond its position limit"),
    FaultCode.VELOCITY_LIMIT: (
        "velocity limit",
        "joint {joint}: {value:+.{digits}g} rad/s, the limit is {allowed:.{digits}g} rad/s",
    ),
    FaultCode.TORQUE_LIMIT: (
        "torque limit",
        "joint {joint}: measured {value:+.{digits}g} N m, the limit is {allowed:.{digits}g} N m",
    ),
    FaultCode.TORQUE_TRACKING_ERROR: (
        "motor does not follow",
        "joint {joint}: the measured torque differs from the command by {value:+.{digits}g} N m (limit "
        "{allowed:.{digits}g} N m)",
    ),
    FaultCode.TEMPERATURE_LIMIT: (
        "temperature limit",
        "joint {joint}: {value:.{digits}g} degrees Celsius, the limit is {allowed:.{digits}g}",
    ),
    FaultCode.POWER_LIMIT: (
        "power limit",
        "the total power of the motors is {value:.{digits}g} W, the limit is {allowed:.{digits}g} W",
    ),
    FaultCode.INVALID_COMMAND: (
        "command not a number",
        "joint {joint}: the command is NaN, infinite, or has a negative gain",
    ),
    FaultCode.ROBOT_STOP: (
        "robot stopped",
        "the robot has damped its motors and accepts commands again after a damping command: {what}",
    ),
    FaultCode.CONTROLLER_ABORT: ("controller aborted", "{what}"),
    FaultCode.MISSING_SENSOR: ("sensor missing", "the readings no longer contain {kind}"),
    FaultCode.IMU_UNIT: ("IMU unit", "{what}"),
}
#: Name of each optional sensor by its index.
SENSOR_NAMES: dict[int, str] = {
    OptionalSensor.TORQUES: "torques",
    OptionalSensor.FEET: "foot forces",
    OptionalSensor.TEMPERATURES: "temperatures",
}
#: Fault codes by name.
FAULT_CODES = {name: code for code, (name, _) in FAULT_TEXTS.items()}


def fault_name(code: int) -> str:
    """Returns the name of a fault code, as another process reports it; "" for 0."""
    if code == FaultCode.NO_COMMAND:
        return "no command yet"
    return FAULT_TEXTS[code][0] if code in FAULT_TEXTS else f"fault {code}" if code else ""


@dataclass(frozen=True, slots=True)
class Fault:
    """First fault that the safety layer has detected; it stays until a reset.

    Attributes:
        code: identifier of the fault in `quaddyn.runtime.safety_checks`.
        name: short name, such as "encoder jumps".
        reason: message with joint and values.
        joint: name of the joint concerned; None if it concerns no joint.
        time: time of detection by the caller's clock [s].
    """

    code: int
    name: str
    reason: str
    joint: str | None
    time: float

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"

    @classmethod
    def from_code(
        cls, code: int, index: int, value: float, allowed: float, robot: Robot, *, what: str = "", time: float = 0.0
    ) -> Fault:
        """Makes a fault from the code and values of the compiled safety layer.

        Args:
            code: fault code.
            index: index of a joint in torque order, -1 for the IMU, or of the missing sensor.
            value: offending value, in the unit of the quantity.
            allowed: its limit.
            robot: robot of the joints.
            what: message of the component that raised the fault; "" for faults of the layer itself.
            time: time of detection [s].
        """
        name, message = FAULT_TEXTS[code]
        has_joint = "{joint}" in message or "{sensor}" in message
        joint = robot.actuated[index] if has_joint and 0 <= index < robot.nu else None
        angle, angle_allowed = (float(np.rad2deg(np.arccos(np.clip(x, -1.0, 1.0)))) for x in (value, allowed))
        reason = message.format(
            joint=joint,
            sensor="the IMU" if joint is None else f"joint {joint}",
            value=value,
            allowed=allowed,
            angle=angle,
            angle_allowed=angle_allowed,
            digits=_count_digits(value, allowed),
            angle_digits=_count_digits(angle, angle_allowed),
            what=what,
            kind=SENSOR_NAMES.get(index),
        )
        return cls(code, name, reason, joint, time)


def _count_digits(value: float, allowed: float) -> int:
    """Returns with how many digits, 3 or more, the value is printed without exponent and differs from its limit."""
    first = max(3, *(len(f"{abs(x):.0f}") if math.isfinite(x) else 0 for x in (value, allowed)))
    return next((n for n in range(first, 15) if f"{abs(value):.{n}g}" != f"{allowed:.{n}g}"), first)
