"""`Fault`: why the safety layer has stopped a robot, in plain words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..robot.robot import Robot
from . import safety_checks as checks

#: By code: name, and words with {joint}, {value}, {allowed}.
KINDS: dict[int, tuple[str, str]] = {
    checks.CONTROLLER_FAILED: ("controller failed", "the controller raised an exception: {what}"),
    checks.CONTROLLER_LATE: ("controller late", "the controller missed its deadline too often: {what}"),
    checks.LINK_LOST: ("link lost", "commands do not reach the robot: {what}"),
    checks.STOPPED: ("stopped", "stopped by the operator{what}"),
    checks.STALE: ("stale reading", "no new reading for {value:.4g} s, allowed are {allowed:.4g} s"),
    checks.NOT_A_NUMBER: ("reading not a number", "{sensor} reads NaN or infinity"),
    checks.JUMP: ("encoder jumps", "joint {joint}: the position jumped by {value:+.3g} rad beside its velocity"),
    checks.FROZEN_JOINT: ("encoder frozen", "joint {joint}: {value:.0f} readings in a row are equal while others move"),
    checks.CONTRADICTION: (
        "encoder contradicts itself",
        "joint {joint}: position and velocity have drifted {value:+.3g} rad apart, allowed are {allowed:.3g} rad",
    ),
    checks.FROZEN_GYRO: ("gyroscope frozen", "the gyroscope gave {value:.0f} equal readings while joints move"),
    checks.FROZEN_ACCELEROMETER: (
        "accelerometer frozen",
        "the accelerometer gave {value:.0f} equal readings while joints move",
    ),
    checks.IMU_CONTRADICTION: (
        "IMU contradicts itself",
        "gyroscope and accelerometer disagree about the vertical by {value:.3g} rad/s, allowed are {allowed:.3g} rad/s",
    ),
    checks.TILT: ("tilted", "the trunk leans by {angle:.0f} degrees, allowed are {angle_allowed:.0f}"),
    checks.POSITION: ("position limit", "joint {joint}: {value:.3g} rad beyond its position limit"),
    checks.SPEED: ("velocity limit", "joint {joint}: {value:+.3g} rad/s, the limit is {allowed:.3g} rad/s"),
    checks.TORQUE: ("torque limit", "joint {joint}: measured {value:+.3g} N m, the limit is {allowed:.3g} N m"),
    checks.NOT_FOLLOWING: (
        "motor does not follow",
        "joint {joint}: the measured torque is {value:+.3g} N m off what was asked for, allowed are {allowed:.3g} N m",
    ),
    checks.TEMPERATURE: ("temperature limit", "joint {joint}: {value:.0f} degrees Celsius, the limit is {allowed:.0f}"),
    checks.POWER: ("power limit", "the motors give {value:.0f} W in all, the limit is {allowed:.0f} W"),
    checks.COMMAND: ("command not a number", "joint {joint}: the command is NaN, infinite, or has a negative gain"),
    checks.ROBOT_STOPPED: ("robot stopped", "the robot's side has damped its motors and waits for damping: {what}"),
    checks.GAVE_UP: ("controller gave up", "{what}"),
    checks.MISSING: ("sensor missing", "there are no {kind} in the readings any more, as there were before"),
}
#: By index of a sensor that is missing.
SENSORS = {checks.TORQUES: "torques", checks.FEET: "foot forces", checks.TEMPERATURES: "temperatures"}
#: Codes by name.
CODES = {name: code for code, (name, _) in KINDS.items()}


def named(code: int) -> str:
    """Name of a code, as another process tells it; "" of 0."""
    return KINDS[code][0] if code in KINDS else f"fault {code}" if code else ""


@dataclass(frozen=True, slots=True)
class Fault:
    """What was found first; it stays until the safety layer is reset.

    Attributes:
        code: of `quaddyn.runtime.safety_checks`.
        name: in two or three words, such as "encoder jumps".
        reason: in a sentence, with joint and numbers.
        joint: name of the joint that it is about; None where it is about none.
        time: at which it was found, by the caller's clock [s].
    """

    code: int
    name: str
    reason: str
    joint: str | None
    time: float

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"

    @classmethod
    def of(
        cls, code: int, index: int, value: float, allowed: float, robot: Robot, *, what: str = "", time: float = 0.0
    ) -> Fault:
        """From the numbers of the compiled layer.

        Args:
            code: of the kind.
            index: of a joint in torque order, -1 for the IMU, or of a sensor that is missing.
            value: what was found.
            allowed: what is allowed.
            robot: whose joints these are.
            what: what others have said about it.
            time: [s].
        """
        name, words = KINDS[code]
        about = "{joint}" in words or "{sensor}" in words
        joint = robot.actuated[index] if about and 0 <= index < robot.nu else None
        angle, angle_allowed = (float(np.rad2deg(np.arccos(np.clip(x, -1.0, 1.0)))) for x in (value, allowed))
        reason = words.format(
            joint=joint,
            sensor="the IMU" if joint is None else f"joint {joint}",
            value=value,
            allowed=allowed,
            angle=angle,
            angle_allowed=angle_allowed,
            what=what,
            kind=SENSORS.get(index),
        )
        return cls(code, name, reason, joint, time)
