"""`UnitreeInterface`: Unitree's Go2 by the messages of its SDK 2, LowState and LowCmd (unitree_go, 20 motors).

Messages are objects with the fields of the vendor's IDL, as ``unitree_sdk2py`` makes them; the package itself is not
needed here.  The order of motors is FR, FL, RR, RL, and hip, thigh, calf in each leg.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import ArgumentError, QuaddynError
from ..robot.robot import Robot
from ..simulation.sensors import Measurement
from ..strict_attributes import StrictAttributes
from ..urdf.tree import frozen
from .interface import RobotInterface
from .motor_command import MotorCommand

LEGS = ("FR", "FL", "RR", "RL")
#: Memory layouts of the messages, of which the CRC is computed: little-endian, aligned to 4 bytes.
LOW_CMD = struct.Struct("<4B4IH2x" + "B3x5f3I" * 20 + "4B" + "55Bx2I")
LOW_STATE = struct.Struct("<4B4IH2x" + "13fb3x" + "B3x7fb3x3I" * 20 + "4BiH4b15H" + "8hI41B3xf2b2x2f4h2I")
#: Motor mode in which commands are followed.
SERVO = 0x01
#: Polynomial of the CRC, and distance of a joint beyond its limits in the first reading that is rejected [rad].
POLYNOMIAL, MAX_INITIAL_OVERTRAVEL = 0x04C11DB7, 0.2


def _crc_table() -> tuple[int, ...]:
    """Returns the table of the CRC by byte value."""
    out = []
    for byte in range(256):
        crc = byte << 24
        for _ in range(8):
            crc = (crc << 1) ^ (POLYNOMIAL if crc & 0x80000000 else 0)
        out.append(crc & 0xFFFFFFFF)
    return tuple(out)


CRC_TABLE = _crc_table()


def crc32(data: bytes) -> int:
    """Returns the CRC-32/MPEG-2 of 32-bit words: most significant bit first, initially all ones, not inverted."""
    crc = 0xFFFFFFFF
    for at in range(0, len(data), 4):
        for byte in reversed(data[at : at + 4]):
            crc = ((crc << 8) & 0xFFFFFFFF) ^ CRC_TABLE[(crc >> 24) ^ byte]
    return crc


def command_crc(message: Any) -> int:
    """Returns the CRC of a LowCmd message."""
    m = message
    parts: list[Any] = [*m.head, m.level_flag, m.frame_reserve, *m.sn, *m.version, m.bandwidth]
    for motor in m.motor_cmd:
        parts += [motor.mode, motor.q, motor.dq, motor.tau, motor.kp, motor.kd, *motor.reserve]
    parts += [m.bms_cmd.off, *m.bms_cmd.reserve, *m.wireless_remote, *m.led, *m.fan, m.gpio, m.reserve, 0]
    return crc32(LOW_CMD.pack(*parts)[:-4])


def state_crc(message: Any) -> int:
    """Returns the CRC of a LowState message."""
    m, imu, bms = message, message.imu_state, message.bms_state
    parts: list[Any] = [*m.head, m.level_flag, m.frame_reserve, *m.sn, *m.version, m.bandwidth]
    parts += [*imu.quaternion, *imu.gyroscope, *imu.accelerometer, *imu.rpy, imu.temperature]
    for motor in m.motor_state:
        parts += [motor.mode, motor.q, motor.dq, motor.ddq, motor.tau_est, motor.q_raw, motor.dq_raw, motor.ddq_raw]
        parts += [motor.temperature, motor.lost, *motor.reserve]
    parts += [bms.version_high, bms.version_low, bms.status, bms.soc, bms.current, bms.cycle]
    parts += [*bms.bq_ntc, *bms.mcu_ntc, *bms.cell_vol]
    parts += [*m.foot_force, *m.foot_force_est, m.tick, *m.wireless_remote, m.bit_flag, m.adc_reel]
    parts += [m.temperature_ntc1, m.temperature_ntc2, m.power_v, m.power_a, *m.fan_frequency, m.reserve, 0]
    return crc32(LOW_STATE.pack(*parts)[:-4])


class UnitreeInterface(RobotInterface, StrictAttributes, fixed=("robot", "motors")):
    """Access to a Go2, or a robot with the same messages.

    Args:
        robot: a quadruped with three joints per leg.
        receive: returns the newest LowState, or None before the first one; may return the same one again.
        publish: sends a LowCmd.
        command: a LowCmd that is filled in at every `write`, as the vendor's package makes it: head, mode and version
            set.

    Attributes:
        robot: the robot.
        motors: (nu,) motor number of each joint, in torque order.

    Raises:
        ArgumentError: a robot with other legs.
    """

    def __init__(
        self, robot: Robot, receive: Callable[[], Any], publish: Callable[[Any], object], command: Any
    ) -> None:
        if set(robot.legs) != set(LEGS) or any(leg.n != 3 for leg in robot.legs.values()) or robot.nu != 12:
            raise ArgumentError(
                f"robot: expected four legs of three joints each, got {robot.name!r} with {robot.nu} joints"
            )
        self.robot = robot
        number = {joint: 3 * i + k for i, leg in enumerate(LEGS) for k, joint in enumerate(robot.legs[leg].joints)}
        self.motors = np.array([number[joint] for joint in robot.actuated], dtype=np.intp)
        self._feet = [LEGS.index(foot) for foot in robot.feet]
        self._receive, self._publish, self._message = receive, publish, command
        self._first = True
        self._last_reading: tuple[Any, Measurement] | None = None

    def read(self) -> Measurement:
        """Returns the newest reading; its time stamp is the message's tick [ms] in seconds.

        Raises:
            QuaddynError: no message has arrived, its CRC is wrong, or joints are far beyond their limits, as with a
                wrong order of motors.
        """
        state = self._receive()
        if state is None:
            raise QuaddynError("LowState: no message has arrived yet")
        if self._last_reading is not None and self._last_reading[0] is state:
            return self._last_reading[1]
        if (computed_crc := state_crc(state)) != state.crc:
            raise QuaddynError(
                f"LowState: the message is damaged: its CRC is {state.crc:#010x}, expected {computed_crc:#010x}"
            )
        motors, imu = [state.motor_state[i] for i in self.motors.tolist()], state.imu_state
        measurement = Measurement(
            1e-3 * float(state.tick),
            frozen([motor.q for motor in motors]),
            frozen([motor.dq for motor in motors]),
            frozen(imu.gyroscope),
            frozen(imu.accelerometer),
            frozen([motor.tau_est for motor in motors]),
            frozen([float(state.foot_force[i]) for i in self._feet]),
            frozen([float(motor.temperature) for motor in motors]),
        )
        if self._first:
            self._check_positions(measurement)
            self._first = False
        self._last_reading = state, measurement
        return measurement

    def write(self, command: MotorCommand) -> None:
        """Sends a command as a LowCmd message with its CRC.

        Raises:
            ArgumentError: see `MotorCommand.validated`.
        """
        validated = command.validated(self.robot.nu)
        targets = zip(
            validated.position, validated.velocity, validated.tau, validated.stiffness, validated.damping, strict=True
        )
        for number, (q, dq, tau, kp, kd) in zip(self.motors.tolist(), targets, strict=True):
            motor = self._message.motor_cmd[number]
            motor.mode = SERVO
            motor.q, motor.dq, motor.tau, motor.kp, motor.kd = float(q), float(dq), float(tau), float(kp), float(kd)
        self._message.crc = command_crc(self._message)
        self._publish(self._message)

    def _check_positions(self, m: Measurement) -> None:
        """Raises an error if a joint of the first reading is far beyond its limits."""
        robot = self.robot
        beyond = np.maximum(robot.lower_position_limits - m.position, m.position - robot.upper_position_limits)
        worst = int(np.argmax(beyond))
        if beyond[worst] > MAX_INITIAL_OVERTRAVEL:
            raise QuaddynError(
                f"LowState: joint {robot.actuated[worst]} measures {m.position[worst]:+.2f} rad, which is "
                f"{beyond[worst]:.2f} rad beyond its limits; is the order of the motors FR, FL, RR, RL, each with "
                "hip, thigh, calf?"
            )
