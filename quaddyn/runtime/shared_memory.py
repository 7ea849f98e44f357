"""`SharedMemory`: lock-free exchange of readings and commands between two processes."""

from __future__ import annotations

import enum
import mmap
import os
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ..deprecation import renamed_attributes
from ..errors import ArgumentError, QuaddynError
from ..operating_system import read_at
from ..robot.robot import Robot
from ..safe_files import open_private_file, remove_if_same
from ..simulation.sensors import Measurement
from ..strict_attributes import StrictAttributes
from .faults import fault_name
from .interface import RobotInterface
from .motor_command import MotorCommand
from .packets import PacketError, Packets
from .time_stamps import TimeStampFilter

MAGIC, VERSION = b"QDRING", 2
#: Magic, version, slots, joints, feet; then the status, and the newest sequence number of each ring.
HEAD = struct.Struct("<6sHIII")
STATUS, NEWEST, BEGIN = 32, 96, 128
#: Number of packets in a ring: a reader that is interrupted while it copies finds a newer one.
SLOTS = 64
#: Number of attempts of a reader.
TRIES = 8


class StatusEntry(enum.IntEnum):
    """Indices of the entries of `SharedMemory.status`."""

    TICKS = 0  # periods so far
    COMMANDS = 1  # number of the last applied command
    SILENT = 2  # periods since the last new command
    LATE = 3  # periods that ended late
    TIME = 4  # the robot's clock [s]
    FAULT = 5  # code of the fault, 0 without one
    SILENCES = 6  # intervals without a command


@renamed_attributes(reading="read_reading", command="read_command", put_reading="write_packet")
class SharedMemory:
    """File that two processes map: a ring of readings, a ring of commands, and eight status values.

    There are no locks.  Each ring has one writer, which writes a packet (see `packets`) into the next slot and then the
    packet's sequence number into the head.  A reader copies the newest packet and validates its CRC and sequence
    number, so that a slot that is overwritten meanwhile is detected.

    Args:
        path: path of the file; in ``/dev/shm`` it is never written to a disk.
        nu: number of joints.
        nf: number of feet.
        create: whether to create the file, or clear an existing one; otherwise it must exist.

    Raises:
        QuaddynError: the file is of another version or robot.
        OSError: it cannot be opened.
    """

    def __init__(self, path: str | os.PathLike[str], nu: int, nf: int, *, create: bool = False) -> None:
        self.path, self.packets = Path(path), Packets(nu, nf)
        self._sizes = self.packets.reading_size, self.packets.command_size
        self._at = BEGIN, BEGIN + SLOTS * self._sizes[0]
        size = self._at[1] + SLOTS * self._sizes[1]
        head = HEAD.pack(MAGIC, VERSION, SLOTS, nu, nf)
        file = open_private_file(self.path, create=create)
        try:
            self._file, found = os.fstat(file), read_at(file, HEAD.size, 0)
            if create:
                if found.strip(b"\0") and not found.startswith(MAGIC):
                    raise QuaddynError(
                        f"{self.path}: the file exists and is not shared memory of quaddyn, so that it is not "
                        "overwritten; pass another path"
                    )
                os.ftruncate(file, size)  # without truncating to zero first: the other side may have mapped the file
            elif found != head or self._file.st_size != size:
                raise QuaddynError(
                    f"{self.path}: the file is not shared memory of version {VERSION} for a robot with {nu} joints "
                    f"and {nf} feet; use the same robot and the same version of quaddyn in both processes"
                )
            self._map = mmap.mmap(file, size)
        finally:
            os.close(file)
        if create:
            self._map[:] = bytes(size)
            self._map[: HEAD.size] = head
        self.status = np.frombuffer(self._map, dtype=np.float64, count=8, offset=STATUS)
        self._newest = memoryview(self._map)[NEWEST : NEWEST + 16].cast("Q")  # faster than an array

    def write_reading(self, measurement: Measurement, state: int = 0) -> int:
        """Writes a reading with the fault code of the robot, 0 for none; returns its sequence number."""
        sequence = self._newest[0] + 1
        self.write_packet(self.packets.encode_reading(sequence, measurement, state), sequence)
        return sequence

    def write_packet(self, packet: bytes, sequence: int) -> None:
        """Writes an encoded reading with its sequence number."""
        self._put(0, packet, sequence)

    def write_command(self, time: float, command: MotorCommand) -> int:
        """Writes a command with the time stamp [s] of the reading that it answers; returns its sequence number."""
        sequence = self._newest[1] + 1
        self._put(1, self.packets.encode_command(sequence, time, command), sequence)
        return sequence

    def read_reading(self) -> tuple[int, Measurement, int] | None:
        """Returns sequence number, reading and fault code of the newest reading; None before the first one."""
        return self._take(0, self.packets.decode_reading)

    def read_command(self) -> tuple[int, float, MotorCommand] | None:
        """Returns sequence number, time stamp and command of the newest command; None before the first one."""
        return self._take(1, self.packets.decode_command)

    def remove(self) -> None:
        """Removes the file unless another one has replaced it; existing mappings stay valid."""
        remove_if_same(self.path, self._file)

    def close(self) -> None:
        """Unmaps the file, without removing it."""
        del self.status, self._newest
        self._map.close()

    def _put(self, ring: int, packet: bytes, sequence: int) -> None:
        """Writes a packet into its slot of a ring, then its sequence number."""
        size = self._sizes[ring]
        at = self._at[ring] + (sequence % SLOTS) * size
        self._map[at : at + size] = packet
        self._newest[ring] = sequence

    def _take(self, ring: int, read: Callable[[bytes], tuple[int, Any, Any]]) -> tuple[int, Any, Any] | None:
        """Returns the newest packet of a ring, decoded by `read`."""
        size = self._sizes[ring]
        for _ in range(TRIES):
            sequence = self._newest[ring]
            if sequence == 0:
                return None
            at = self._at[ring] + (sequence % SLOTS) * size
            try:
                found = read(self._map[at : at + size])
                if found[0] == sequence:
                    return found
            except PacketError:
                pass  # overwritten while it was copied
        return None


class SharedMemoryInterface(RobotInterface, StrictAttributes, fixed=("robot", "memory")):
    """Robot that another process serves, see `RobotServer`.

    Args:
        robot: the same robot as in the other process.
        path: path of the shared memory.

    Raises:
        FileAccessError, QuaddynError: a file that `SharedMemory` rejects.
        OSError: the file does not exist.
    """

    def __init__(self, robot: Robot, path: str | os.PathLike[str]) -> None:
        if not isinstance(robot, Robot):
            raise ArgumentError(f"robot: expected a Robot from quaddyn.load, got {type(robot).__name__}")
        self.robot, self.memory = robot, SharedMemory(path, robot.nu, len(robot.feet))
        self._newest: Measurement | None = None
        self._stamps, self._state = TimeStampFilter(), 0

    def read(self) -> Measurement:
        """Returns the newest reading whose time stamp is later than that of the previous one.

        Raises:
            QuaddynError: no reading has arrived yet.
        """
        found = self.memory.read_reading()
        if found is not None:
            _, measurement, self._state = found
            if self._stamps.accept(measurement.time, time.monotonic()):
                self._newest = measurement
        if self._newest is None:
            raise QuaddynError(f"{self.memory.path}: no reading has arrived yet; is the robot's process running?")
        return self._newest

    @property
    def stop_reason(self) -> str:
        """Name of the fault for which the other process has damped the motors; "" for none."""
        return fault_name(self._state)

    @property
    def silences(self) -> int:
        """Number of intervals without commands that the watchdog of the other process has detected."""
        return int(self.memory.status[StatusEntry.SILENCES])

    def write(self, command: MotorCommand) -> None:
        """Sets the command that the motors follow from now on.

        Raises:
            ArgumentError: see `MotorCommand.validated`.
        """
        stamp = 0.0 if self._newest is None else self._newest.time
        self.memory.write_command(stamp, command.validated(self.robot.nu))

    def close(self) -> None:
        """Unmaps the memory."""
        self.memory.close()
