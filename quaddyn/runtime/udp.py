"""`UdpInterface`: a robot behind UDP, with the packets of `quaddyn.runtime.packets`, one a datagram."""

from __future__ import annotations

import ipaddress
import select
import socket
import time

from ..deprecation import renamed_attributes, renamed_parameters
from ..errors import ArgumentError, QuaddynError
from ..robot.robot import Robot
from ..simulation.sensors import Measurement
from ..strict_attributes import StrictAttributes
from .faults import fault_name
from .interface import RobotInterface
from .motor_command import MotorCommand
from .packets import PacketError, Packets
from .time_stamps import TimeStampFilter

#: Datagrams that are taken in one call, so that a flood costs a tick a fraction of a millisecond.
MOST = 64


@renamed_attributes(refused="rejected_datagrams")
class UdpInterface(RobotInterface, StrictAttributes, fixed=("robot", "peer")):
    """Readings from a robot and commands to it as datagrams; only those of the peer count, and only newer ones.

    The socket is connected to the peer, so that the system drops what strangers send before it takes room or time.

    Args:
        robot: whose joints these are.
        peer: address and port of the robot; addresses that are not of this machine must be given as such, no name is
            looked up.
        port: to listen at; 0 for a free one, see `port`.
        bind: address to listen at; this machine alone by default.
        patience: how long the first `read` waits for a reading [s].

    Attributes:
        robot: as given.
        peer: as given.
        rejected_datagrams: number of datagrams from the peer that were not packets of this robot, or whose time stamp
            was invalid or not later than the last one; overtaken datagrams are not counted.

    Raises:
        ArgumentError: an address that is none.
        OSError: the port cannot be opened, or the peer cannot be reached from `bind`.
    """

    @renamed_parameters(patience="timeout")
    def __init__(
        self,
        robot: Robot,
        peer: tuple[str, int],
        *,
        port: int = 0,
        bind: str = "127.0.0.1",
        timeout: float = 1.0,
    ) -> None:
        for name, address in (("peer", peer[0]), ("bind", bind)):
            try:
                ipaddress.IPv4Address(address)
            except ValueError:
                raise ArgumentError(f"{name}: expected an IPv4 address such as 192.168.1.2, got {address!r}") from None
        self.robot, self.peer, self.rejected_datagrams = robot, (str(peer[0]), int(peer[1])), 0
        self._packets, self._patience = Packets(robot.nu, len(robot.feet)), float(timeout)
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            self._socket.bind((bind, port))
            self._socket.connect(self.peer)
        except OSError:
            self._socket.close()
            raise
        self._socket.setblocking(False)
        self._newest: Measurement | None = None
        self._stamps = TimeStampFilter()
        self._received = self._sent = self._state = 0

    @property
    def port(self) -> int:
        """That is listened at."""
        return int(self._socket.getsockname()[1])

    def read(self) -> Measurement:
        """The newest reading that has arrived.

        Raises:
            QuaddynError: none has come yet.
        """
        self._drain()
        if self._newest is None:
            select.select([self._socket], [], [], self._patience)
            self._drain()
        if self._newest is None:
            (peer, theirs), (here, port) = self.peer, self._socket.getsockname()
            others = (
                f"; {self.rejected_datagrams} datagrams were rejected_datagrams: they are no packets of it"
                if self.rejected_datagrams
                else ""
            )
            raise QuaddynError(
                f"UDP: no reading has come from {peer}:{theirs} yet; does {self.robot.name} send them to "
                f"{here}:{port}?{others}"
            )
        return self._newest

    @property
    def stop_reason(self) -> str:
        """Name of the fault for which the robot has damped its motors; "" for none."""
        return fault_name(self._state)

    def write(self, command: MotorCommand) -> None:
        """Send a command; errors as of `MotorCommand.validated`."""
        self._sent += 1
        stamp = 0.0 if self._newest is None else self._newest.time
        data = self._packets.encode_command(self._sent, stamp, command.validated(self.robot.nu))
        try:
            self._socket.send(data)
        except ConnectionError:  # of an earlier one, as in `_drain`; this one was not sent
            self._socket.send(data)

    def close(self) -> None:
        """Close the port."""
        self._socket.close()

    def _drain(self) -> None:
        """Take at most `MOST` datagrams that have arrived and keep the newest reading; older ones are not read."""
        arrived = list[bytes]()
        for _ in range(MOST):
            try:
                data, sender = self._socket.recvfrom(self._packets.reading_size + 1)
            except BlockingIOError:
                break
            except ConnectionError:  # the answer of a peer that is not there yet
                continue
            if sender == self.peer and len(data) == self._packets.reading_size:
                arrived.append(data)
            else:  # strangers' may have come before the socket was connected
                self.rejected_datagrams += 1
        for data in sorted(arrived, key=self._packets.sequence_number, reverse=True):
            if self._packets.sequence_number(data) <= self._received:  # what was overtaken on its way is old
                break
            try:
                sequence, measurement, state = self._packets.decode_reading(data)
            except PacketError:
                self.rejected_datagrams += 1
                continue
            if self._stamps.accept(measurement.time, time.monotonic()):
                self._received, self._newest, self._state = sequence, measurement, state
                break
            self.rejected_datagrams += 1
