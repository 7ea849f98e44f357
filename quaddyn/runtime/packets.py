"""`Packets`: binary format of readings and commands in shared memory and over a network.

A packet is a header and float64 numbers, little-endian, without gaps.

======  =======  ==================================================================================================
offset  type     header
======  =======  ==================================================================================================
0       4 bytes  ``QDRT``
4       uint16   version of this layout, 2
6       uint16   kind: 1 a reading, 2 a command
8       uint16   nu, number of joints
10      uint16   nf, number of feet
12      uint32   CRC-32 (that of zlib) of everything from offset 16 on
16      uint64   sequence number, from 1, counted for each kind of packet
24      float64  time stamp [s]: of a reading, the time of the robot; of a command, the time of the reading that it
                 answers; packets with a negative or non-finite time stamp are rejected
32      uint64   of a reading: 0 if the robot follows commands; otherwise code of the fault (`faults.FAULT_TEXTS`) for
                 which it has damped its motors, until a command requests only damping; of a command: 0
======  =======  ==================================================================================================

The header of a reading is followed by position (nu), velocity (nu), gyroscope (3), accelerometer (3), torque (nu), foot
forces (nf) and temperature (nu); a sensor that the robot does not have is all NaN. The header of a command is followed
by tau, position, velocity, stiffness and damping, (nu) each. Units and orders: see
`Measurement` and `MotorCommand`.
"""

from __future__ import annotations

import struct
import zlib

import numpy as np

from ..deprecation import renamed_attributes
from ..errors import QuaddynError
from ..simulation.sensors import Measurement
from ..urdf.tree import Array
from .motor_command import MotorCommand
from .safety_checks import is_stamp

MAGIC, VERSION, READING, COMMAND = b"QDRT", 2, 1, 2
HEADER = struct.Struct("<4sHHHHIQdQ")
#: Part of the header that the CRC covers.
CHECKED_HEADER = struct.Struct("<QdQ")


class PacketError(QuaddynError, ValueError):
    """Bytes that are not a packet of this robot; the message has the reason."""


@renamed_attributes(
    reading="encode_reading",
    command="encode_command",
    sequence="sequence_number",
    read_reading="decode_reading",
    read_command="decode_command",
)
class Packets:
    """Encoder and decoder of the packets of one robot.

    Args:
        nu: number of joints.
        nf: number of feet.

    Attributes:
        nu: number of joints.
        nf: number of feet.
        reading_size, command_size: sizes of packets [bytes].
    """

    def __init__(self, nu: int, nf: int) -> None:
        self.nu, self.nf = nu, nf
        self._required_fields = {"position": nu, "velocity": nu, "gyro": 3, "accelerometer": 3}
        self._optional_fields = {"torque": nu, "foot_forces": nf, "temperature": nu}
        numbers = sum(self._required_fields.values()) + sum(self._optional_fields.values())
        self.reading_size, self.command_size = HEADER.size + 8 * numbers, HEADER.size + 40 * nu

    def encode_reading(self, sequence: int, measurement: Measurement, state: int = 0) -> bytes:
        """Returns a reading as a packet; `state` is the fault code of the robot, see the module."""
        values = [getattr(measurement, name) for name in self._required_fields]
        for name, size in self._optional_fields.items():
            value = getattr(measurement, name)
            values.append(np.full(size, np.nan) if value is None else value)
        return self._pack(READING, sequence, measurement.time, state, values)

    def encode_command(self, sequence: int, time: float, command: MotorCommand) -> bytes:
        """Returns a command as a packet, with the time stamp [s] of the reading that it answers."""
        values = [command.tau, command.position, command.velocity, command.stiffness, command.damping]
        return self._pack(COMMAND, sequence, time, 0, values)

    def sequence_number(self, data: bytes) -> int:
        """Returns the sequence number in bytes of the size of a packet, without validation."""
        return int.from_bytes(data[16:24], "little")

    def decode_reading(self, data: bytes) -> tuple[int, Measurement, int]:
        """Returns sequence number, reading and fault code of the robot in a packet.

        Raises:
            PacketError: not a packet of this robot, or damaged.
        """
        sequence, time, state, numbers = self._unpack(READING, data)
        start, fields = 0, dict[str, Array | None]()
        for name, size in (self._required_fields | self._optional_fields).items():
            values = numbers[start : start + size]
            # The first value of an existing sensor is usually not NaN, so that the others need no check.
            missing = name in self._optional_fields and (
                not size or (values[0] != values[0] and bool(np.isnan(values).all()))
            )
            fields[name] = None if missing else values
            start += size
        return sequence, Measurement(time, **fields), state  # type: ignore[arg-type]

    def decode_command(self, data: bytes) -> tuple[int, float, MotorCommand]:
        """Returns sequence number, time stamp [s] and command of a packet.

        Raises:
            PacketError: not a packet of this robot, or damaged.
        """
        sequence, time, _, numbers = self._unpack(COMMAND, data)
        return sequence, time, MotorCommand(*numbers.reshape(5, self.nu))

    def _pack(self, kind: int, sequence: int, time: float, state: int, parts: list[Array]) -> bytes:
        """Returns the bytes of a packet."""
        body = CHECKED_HEADER.pack(sequence, time, state) + np.concatenate(parts).astype("<f8", copy=False).tobytes()
        return struct.pack("<4sHHHHI", MAGIC, VERSION, kind, self.nu, self.nf, zlib.crc32(body)) + body

    def _unpack(self, kind: int, data: bytes) -> tuple[int, float, int, Array]:
        """Returns sequence number, time stamp, state and numbers of a packet after validating it."""
        size = self.reading_size if kind == READING else self.command_size
        if len(data) < HEADER.size:
            raise PacketError(f"packet: expected at least a header of {HEADER.size} bytes, got {len(data)} bytes")
        magic, version, packet_kind, nu, nf, crc, sequence, time, state = HEADER.unpack_from(data)
        if magic != MAGIC:
            raise PacketError(f"packet: expected {MAGIC!r} at the beginning, got {magic!r}")
        if version != VERSION:
            raise PacketError(f"packet: expected version {VERSION}, got version {version}")
        if (packet_kind, nu, nf) != (kind, self.nu, self.nf) or len(data) != size:
            raise PacketError(
                f"packet: expected kind {kind} of {self.nu} joints and {self.nf} feet in {size} bytes, got kind "
                f"{packet_kind} of {nu} joints and {nf} feet in {len(data)} bytes"
            )
        if zlib.crc32(data[16:]) != crc:
            raise PacketError("packet: the packet is damaged, because its CRC does not match")
        if not is_stamp(time):
            raise PacketError(f"packet: expected a finite time stamp, 0 or more [s], got {time}")
        numbers = np.frombuffer(bytes(data), dtype="<f8", offset=HEADER.size).astype(np.float64, copy=False)
        numbers.flags.writeable = False
        return sequence, time, state, numbers
