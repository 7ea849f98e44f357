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
16      uint64   sequence number, from 1, one more with every packet of its kind
24      float64  time stamp: of a reading the robot's, of a command that of the reading it answers; finite and not
                 negative, or the packet is none [s]
32      uint64   of a reading: 0 where the robot follows commands, otherwise it has damped its motors by itself, for
                 the fault of this code in `faults.KINDS`, until a command asks for damping alone; of a command: 0
======  =======  ==================================================================================================

A reading goes on with position (nu), velocity (nu), gyroscope (3), accelerometer (3), torque (nu), foot forces (nf) and
temperature (nu); a sensor that the robot does not have is all NaN.  A command goes on with tau, position, velocity,
stiffness and damping, (nu) each.  Units and orders are those of `Measurement` and `MotorCommand`.
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
#: Its part that the CRC is of.
SIGNED = struct.Struct("<QdQ")


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
        nu: as given.
        nf: as given.
        reading_size, command_size: sizes of packets [bytes].
    """

    def __init__(self, nu: int, nf: int) -> None:
        self.nu, self.nf = nu, nf
        self._parts = {"position": nu, "velocity": nu, "gyro": 3, "accelerometer": 3}
        self._optional = {"torque": nu, "foot_forces": nf, "temperature": nu}
        numbers = sum(self._parts.values()) + sum(self._optional.values())
        self.reading_size, self.command_size = HEADER.size + 8 * numbers, HEADER.size + 40 * nu

    def encode_reading(self, sequence: int, measurement: Measurement, state: int = 0) -> bytes:
        """Returns a reading as a packet; `state` is the fault code of the robot's side, see the module."""
        parts = [getattr(measurement, name) for name in self._parts]
        for name, size in self._optional.items():
            value = getattr(measurement, name)
            parts.append(np.full(size, np.nan) if value is None else value)
        return self._packed(READING, sequence, measurement.time, state, parts)

    def encode_command(self, sequence: int, time: float, command: MotorCommand) -> bytes:
        """Returns a command as a packet, with the time stamp [s] of the reading that it answers."""
        parts = [command.tau, command.position, command.velocity, command.stiffness, command.damping]
        return self._packed(COMMAND, sequence, time, 0, parts)

    def sequence_number(self, data: bytes) -> int:
        """Returns the sequence number in bytes of the size of a packet, without validation."""
        return int.from_bytes(data[16:24], "little")

    def decode_reading(self, data: bytes) -> tuple[int, Measurement, int]:
        """Returns sequence number, reading and fault code of the robot's side of a packet.

        Raises:
            PacketError: not a packet of this robot, or damaged.
        """
        sequence, time, state, numbers = self._unpacked(READING, data)
        at, found = 0, dict[str, Array | None]()
        for name, size in (self._parts | self._optional).items():
            part = numbers[at : at + size]
            # A sensor that is there reads a number first, as a rule: only then is all of it looked at.
            missing = name in self._optional and (not size or (part[0] != part[0] and bool(np.isnan(part).all())))
            found[name] = None if missing else part
            at += size
        return sequence, Measurement(time, **found), state  # type: ignore[arg-type]

    def decode_command(self, data: bytes) -> tuple[int, float, MotorCommand]:
        """Returns sequence number, time stamp [s] and command of a packet.

        Raises:
            PacketError: not a packet of this robot, or damaged.
        """
        sequence, time, _, numbers = self._unpacked(COMMAND, data)
        return sequence, time, MotorCommand(*numbers.reshape(5, self.nu))

    def _packed(self, kind: int, sequence: int, time: float, state: int, parts: list[Array]) -> bytes:
        body = SIGNED.pack(sequence, time, state) + np.concatenate(parts).astype("<f8", copy=False).tobytes()
        return struct.pack("<4sHHHHI", MAGIC, VERSION, kind, self.nu, self.nf, zlib.crc32(body)) + body

    def _unpacked(self, kind: int, data: bytes) -> tuple[int, float, int, Array]:
        size = self.reading_size if kind == READING else self.command_size
        if len(data) < HEADER.size:
            raise PacketError(f"packet: {len(data)} bytes, shorter than a header")
        magic, version, found, nu, nf, crc, sequence, time, state = HEADER.unpack_from(data)
        if magic != MAGIC:
            raise PacketError(f"packet: begins with {magic!r}, not with {MAGIC!r}")
        if version != VERSION:
            raise PacketError(f"packet: of version {version}, this is version {VERSION}")
        if (found, nu, nf) != (kind, self.nu, self.nf) or len(data) != size:
            raise PacketError(
                f"packet: kind {found} of {nu} joints and {nf} feet in {len(data)} bytes, expected kind {kind} of "
                f"{self.nu} and {self.nf} in {size}"
            )
        if zlib.crc32(data[16:]) != crc:
            raise PacketError("packet: damaged, its CRC does not match")
        if not is_stamp(time):
            raise PacketError(f"packet: its time stamp is {time}, expected a finite time, 0 or more [s]")
        numbers = np.frombuffer(bytes(data), dtype="<f8", offset=HEADER.size).astype(np.float64, copy=False)
        numbers.flags.writeable = False
        return sequence, time, state, numbers
