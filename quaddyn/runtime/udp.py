"""`UdpInterface`: access to a robot by UDP, with one packet of `quaddyn.runtime.packets` per datagram."""

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

#: Largest number of datagrams read per call, so that a flood costs a tick a fraction of a millisecond.
MAX_DATAGRAMS_PER_READ = 64


@renamed_attributes(refused="rejected_datagrams")
class UdpInterface(RobotInterface, StrictAttributes, fixed=("robot", "peer")):
    """Robot that sends readings and receives commands as datagrams; only newer ones of the peer are accepted.

    The socket is connected to the peer, so that the operating system drops datagrams of other senders.

    Args:
        robot: the robot.
        peer: IPv4 address and port number of the robot; host names are not resolved.
        port: local port; 0: any free port, see `port`.
        bind: local address; by default the loopback interface only.
        timeout: longest time for which the first `read` waits for a reading [s].

    Attributes:
        robot: the robot.
        peer: address and port number of the robot.
        rejected_datagrams: number of datagrams from the peer that were not packets of this robot, or whose time stamp
            was invalid or not later than the last one; overtaken datagrams are not counted.

    Raises:
        ArgumentError: not an IPv4 address.
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
        self._packets, self._timeout = Packets(robot.nu, len(robot.feet)), float(timeout)
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
        """Local port."""
        return int(self._socket.getsockname()[1])

    def read(self) -> Measurement:
        """Returns the newest reading that has arrived.

        Raises:
            QuaddynError: no reading has arrived yet.
        """
        self._drain()
        if self._newest is None:
            select.select([self._socket], [], [], self._timeout)
            self._drain()
        if self._newest is None:
            (peer, peer_port), (local_address, port) = self.peer, self._socket.getsockname()
            rejected_note = (
                f" {self.rejected_datagrams} datagrams were rejected, because they are not packets of this robot"
                if self.rejected_datagrams
                else ""
            )
            raise QuaddynError(
                f"UDP: no reading has arrived from {peer}:{peer_port} yet; does {self.robot.name} send readings to "
                f"{local_address}:{port}?{rejected_note}"
            )
        return self._newest

    @property
    def stop_reason(self) -> str:
        """Name of the fault for which the robot has damped its motors; "" for none."""
        return fault_name(self._state)

    def write(self, command: MotorCommand) -> None:
        """Sends a command in a datagram.

        Raises:
            ArgumentError: see `MotorCommand.validated`.
        """
        self._sent += 1
        stamp = 0.0 if self._newest is None else self._newest.time
        data = self._packets.encode_command(self._sent, stamp, command.validated(self.robot.nu))
        try:
            self._socket.send(data)
        except ConnectionError:  # error of an earlier datagram; this one was not sent
            self._socket.send(data)

    def close(self) -> None:
        """Closes the port."""
        self._socket.close()

    def _drain(self) -> None:
        """Reads at most `MAX_DATAGRAMS_PER_READ` datagrams and stores the newest reading; older ones are ignored."""
        arrived = list[bytes]()
        for _ in range(MAX_DATAGRAMS_PER_READ):
            try:
                data, sender = self._socket.recvfrom(self._packets.reading_size + 1)
            except BlockingIOError:
                break
            except ConnectionError:  # error of an earlier datagram to a peer that does not run yet
                continue
            if sender == self.peer and len(data) == self._packets.reading_size:
                arrived.append(data)
            else:  # of other senders, before the socket was connected
                self.rejected_datagrams += 1
        for data in sorted(arrived, key=self._packets.sequence_number, reverse=True):
            if self._packets.sequence_number(data) <= self._received:  # an overtaken datagram is old
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
