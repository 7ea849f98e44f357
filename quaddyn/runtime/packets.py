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
from ..simulation.sensors import Measurement, reading_layout
from ..urdf.tree import Array
from .motor_command import MotorCommand
from .safety_checks import is_stamp

MAGIC, VERSION, READING, COMMAND, FLOAT = b"QDRT", 2, 1, 2, np.dtype("<f8")
#: The header: the part that is the same in all packets of a kind, the CRC, and the part that the CRC covers.
HEADER, KIND_HEADER, CHECKED_HEADER = struct.Struct("<4sHHHHIQdQ"), struct.Struct("<4sHHHH"), struct.Struct("<QdQ")
#: Offset of the checksum (CRC) in a packet, and offset of the first byte that the checksum covers.
CRC, CHECKED = KIND_HEADER.size, HEADER.size - CHECKED_HEADER.size


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
        self._n_sensors = reading_layout(nu, nf)["temperature"].stop
        self.reading_size, self.command_size = HEADER.size + 8 * self._n_sensors, HEADER.size + 40 * nu
        self._kind_headers = {kind: KIND_HEADER.pack(MAGIC, VERSION, kind, nu, nf) for kind in (READING, COMMAND)}

    def encode_reading(self, sequence: int, measurement: Measurement, state: int = 0) -> bytes:
        """Returns a reading as a packet; `state` is the fault code of the robot, see the module."""
        return self._pack(READING, sequence, measurement.time, state, measurement.packed(self.nu, self.nf))

    def encode_command(self, sequence: int, time: float, command: MotorCommand) -> bytes:
        """Returns a command as a packet, with the time stamp [s] of the reading that it answers."""
        return self._pack(COMMAND, sequence, time, 0, command.packed(self.nu))

    def sequence_number(self, data: bytes) -> int:
        """Returns the sequence number in bytes of the size of a packet, without validation."""
        return int.from_bytes(data[16:24], "little")

    def decode_reading(self, data: bytes) -> tuple[int, Measurement, int]:
        """Returns sequence number, reading and fault code of the robot in a packet.

        Raises:
            PacketError: not a packet of this robot, or damaged.
        """
        sequence, time, state = self._unpack(READING, self.reading_size, data)
        numbers = np.ndarray((self._n_sensors,), FLOAT, data, HEADER.size)
        return sequence, Measurement.from_packed(time, self.nu, self.nf, numbers), state

    def decode_command(self, data: bytes) -> tuple[int, float, MotorCommand]:
        """Returns sequence number, time stamp [s] and command of a packet.

        Raises:
            PacketError: not a packet of this robot, or damaged.
        """
        sequence, time, _ = self._unpack(COMMAND, self.command_size, data)
        return sequence, time, MotorCommand.from_packed(np.ndarray((5, self.nu), FLOAT, data, HEADER.size))

    def _pack(self, kind: int, sequence: int, time: float, state: int, values: Array) -> bytes:
        """Returns the bytes of a packet."""
        body = CHECKED_HEADER.pack(sequence, time, state) + values.tobytes()
        return self._kind_headers[kind] + zlib.crc32(body).to_bytes(4, "little") + body

    def _unpack(self, kind: int, size: int, data: bytes) -> tuple[int, float, int]:
        """Returns sequence number, time stamp and state of a packet after validating it."""
        if data[:CRC] != self._kind_headers[kind] or len(data) != size:
            raise PacketError(self._explain_kind(kind, size, data))
        if zlib.crc32(data[CHECKED:]) != int.from_bytes(data[CRC:CHECKED], "little"):
            raise PacketError("packet: the packet is damaged, because its CRC does not match")
        header: tuple[int, float, int] = CHECKED_HEADER.unpack_from(data, CHECKED)
        if not is_stamp(header[1]):
            raise PacketError(f"packet: expected a finite time stamp, 0 or more [s], got {header[1]}")
        return header

    def _explain_kind(self, kind: int, size: int, data: bytes) -> str:
        """Returns why bytes are not a packet of a kind and of this robot."""
        if len(data) < HEADER.size:
            return f"packet: expected at least a header of {HEADER.size} bytes, got {len(data)} bytes"
        magic, version, packet_kind, nu, nf = KIND_HEADER.unpack_from(data)
        if magic != MAGIC:
            return f"packet: expected {MAGIC!r} at the beginning, got {magic!r}"
        if version != VERSION:
            return f"packet: expected version {VERSION}, got version {version}"
        return (
            f"packet: expected kind {kind} of {self.nu} joints and {self.nf} feet in {size} bytes, got kind "
            f"{packet_kind} of {nu} joints and {nf} feet in {len(data)} bytes"
        )
