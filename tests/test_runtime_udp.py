"""A robot behind UDP on this machine, and the handling of time stamps by interfaces."""

from __future__ import annotations

import contextlib
import itertools
import select
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from raising import raises

import quaddyn as qd
from quaddyn.runtime import MotorCommand, Packets, SharedMemory, SharedMemoryInterface, UdpInterface, udp
from quaddyn.runtime.safety_checks import MAX_CLOCK_ADVANCE, FaultCode
from quaddyn.runtime.time_stamps import RESTART_TIME, TimeStampFilter
from quaddyn.simulation import Measurement

Sent = Callable[[float], float]


@pytest.fixture
def peer() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        made.bind(("127.0.0.1", 0))
        made.settimeout(30.0)
        yield made


def test_readings_and_commands_are_exchanged_and_old_or_foreign_datagrams_ignored(peer: socket.socket) -> None:
    leg = qd.load("two_link_leg")
    packets = Packets(leg.nu, len(leg.feet))
    side = UdpInterface(leg, peer.getsockname(), timeout=0.01)
    home = ("127.0.0.1", side.port)
    raises(qd.QuaddynError, rf"no reading has arrived from .*; does .* to 127\.0\.0\.1:{side.port}\?$", side.read)
    side._timeout = 30.0

    def reading(sequence: int, state: int = 0) -> bytes:
        zero = np.zeros(leg.nu)
        measurement = Measurement(0.1 * sequence, zero + sequence, zero, np.zeros(3), np.zeros(3))
        return packets.encode_reading(sequence, measurement, state)

    peer.sendto(reading(3, FaultCode.LINK_LOSS), home)
    assert side.read().position[0] == 3.0 and side.stop_reason == "link lost"
    for data in (reading(2), reading(3), b"hello", reading(4)[:-1]):  # out of order, repeated, foreign, truncated
        peer.sendto(data, home)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        stranger.bind(("127.0.0.1", 0))
        stranger.sendto(reading(9), home)
    for _ in range(100):
        assert side.read().position[0] == 3.0
    peer.sendto(reading(5), home)
    while side.read().position[0] != 5.0:
        pass
    assert side.stop_reason == "" and side.rejected_datagrams == 2  # of the peer; datagrams of others do not arrive
    side.write(MotorCommand.from_torques(np.full(leg.nu, 2.0)))
    sequence, stamp, command = packets.decode_command(peer.recv(65535))
    assert (sequence, stamp) == (1, 0.5) and (command.tau == 2.0).all()
    side.close()


@pytest.fixture(params=["udp", "shared memory"])
def sent(request: pytest.FixtureRequest, peer: socket.socket, tmp_path: Path) -> Iterator[Sent]:
    """A function that sends a reading with a time stamp and returns the time that the interface reads."""
    leg, count = qd.load("two_link_leg"), itertools.count(1)
    if request.param == "udp":
        side: UdpInterface | SharedMemoryInterface = UdpInterface(leg, peer.getsockname())
        packets, home = Packets(leg.nu, len(leg.feet)), ("127.0.0.1", side.port)

        def put(m: Measurement) -> None:
            peer.sendto(packets.encode_reading(next(count), m), home)
            select.select([side._socket], [], [], 30.0)
    else:
        ring = SharedMemory(tmp_path / "ring", leg.nu, len(leg.feet), create=True)
        side, put = SharedMemoryInterface(leg, ring.path), ring.write_reading  # type: ignore[assignment]

    def send(stamp: float) -> float:
        put(Measurement(stamp, np.zeros(2), np.zeros(2), np.zeros(3), np.zeros(3)))
        return side.read().time

    yield send
    side.close()


@pytest.mark.parametrize("stamp", [np.nan, np.inf, -np.inf, -1.0, 0.3, 0.2])
def test_readings_with_invalid_time_stamps_are_ignored(sent: Sent, stamp: float) -> None:
    assert sent(0.3) == 0.3
    for _ in range(70):  # more than a ring holds
        assert sent(stamp) == 0.3
    assert sent(0.302) == 0.302


def test_clock_that_was_set_back_is_accepted_after_one_second(sent: Sent, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [50.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    assert sent(1e9) == 1e9 and sent(0.1) == 1e9
    now[0] += 1.1
    assert sent(np.nan) == 1e9 and sent(0.2) == 0.2 and sent(0.1) == 0.2


@pytest.mark.parametrize("bounded", [False, True])
def test_time_stamps_must_advance_but_at_most_with_the_clock_if_that_bounds_them(bounded: bool) -> None:
    stamps, ahead = TimeStampFilter(bounded=bounded), 10.0 + MAX_CLOCK_ADVANCE
    assert stamps.accept(5.0, 10.0)
    assert not any(stamps.accept(stamp, 10.5) for stamp in (5.0, 4.9, np.nan, np.inf))
    assert stamps.accept(ahead - 4.49, 10.5) is not bounded
    assert stamps.accept(ahead - 4.48, 10.6)


@pytest.mark.parametrize(("passed", "restarts"), [(RESTART_TIME, False), (RESTART_TIME + 1e-6, True), (-0.1, True)])
def test_robot_may_restart_its_clock_after_a_second_without_new_stamps(passed: float, restarts: bool) -> None:
    """Or if the caller's clock was reset; a stamp that repeats is never new."""
    for stamp in (5.0, np.nan, -1.0, 1.0):
        stamps = TimeStampFilter()
        assert stamps.accept(5.0, 20.0)
        assert stamps.accept(stamp, 20.0 + passed) is (restarts and stamp == 1.0)


def flooded(leg: qd.Robot, flood: socket.socket, peer: socket.socket, data: bytes) -> UdpInterface:
    """An interface whose peer has sent a reading after more datagrams from `flood` than a socket buffers."""
    side = UdpInterface(leg, peer.getsockname(), timeout=0.01)
    for _ in range(4000):
        with contextlib.suppress(BlockingIOError):
            flood.sendto(data, ("127.0.0.1", side.port))
    zero = np.zeros(leg.nu)
    reading = Packets(leg.nu, len(leg.feet)).encode_reading(7, Measurement(0.7, zero, zero, np.zeros(3), np.zeros(3)))
    peer.sendto(reading, ("127.0.0.1", side.port))
    return side


@pytest.mark.parametrize("size", [1, 200, 1400])
def test_flood_of_foreign_datagrams_causes_no_loss_of_readings(peer: socket.socket, size: int) -> None:
    """Foreign datagrams neither fill the socket buffer nor are processed."""
    leg = qd.load("two_link_leg")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        stranger.bind(("127.0.0.1", 0))
        side = flooded(leg, stranger, peer, bytes(size))
        assert side.read().time == 0.7 and side.rejected_datagrams == 0
        side.close()


def test_datagrams_read_per_tick_are_bounded_during_a_flood_of_the_peer(peer: socket.socket) -> None:
    leg, calls = qd.load("two_link_leg"), list[int]()
    packets = Packets(leg.nu, len(leg.feet))
    damaged = bytearray(packets.encode_reading(99, Measurement(0.0, *(np.zeros(n) for n in (leg.nu, leg.nu, 3, 3)))))
    damaged[-1] ^= 1
    peer.settimeout(0.0)
    side = flooded(leg, peer, peer, bytes(damaged))
    receive = side._socket
    side._socket = SimpleNamespace(  # type: ignore[assignment]
        recvfrom=lambda size: (calls.append(size), receive.recvfrom(size))[1], close=receive.close
    )
    side._drain()
    assert len(calls) == udp.MAX_DATAGRAMS_PER_READ == side.rejected_datagrams
    assert set(calls) == {packets.reading_size + 1}
    side.close()


def test_the_newest_reading_of_a_backlog_is_used_in_any_order_of_arrival(peer: socket.socket) -> None:
    leg = qd.load("two_link_leg")
    packets, side = Packets(leg.nu, len(leg.feet)), UdpInterface(leg, peer.getsockname())
    for sequence in (3, 1, 5, 2, 4):
        reading = Measurement(0.1 * sequence, *(np.zeros(n) for n in (leg.nu, leg.nu, 3, 3)))
        peer.sendto(packets.encode_reading(sequence, reading), ("127.0.0.1", side.port))
    damaged = bytearray(packets.encode_reading(6, reading))
    damaged[-1] ^= 1
    peer.sendto(bytes(damaged), ("127.0.0.1", side.port))
    assert side.read().time == 0.5 and side.rejected_datagrams == 1
    side.close()


def test_commands_are_sent_to_a_peer_that_starts_later() -> None:
    """The system reports that a datagram was not received; the next one is sent nevertheless."""
    leg = qd.load("two_link_leg")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as found:
        found.bind(("127.0.0.1", 0))
        address = found.getsockname()
    side, command = UdpInterface(leg, address), MotorCommand.zero(leg.nu)
    side.write(command)
    side.write(command)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
        peer.bind(address)
        peer.settimeout(30.0)
        side.write(command)
        assert Packets(leg.nu, len(leg.feet)).decode_command(peer.recv(65535))[0] == 3
    side.close()


def test_host_names_are_not_resolved() -> None:
    leg = qd.load("two_link_leg")
    raises(qd.ArgumentError, "peer", UdpInterface, leg, ("robot.local", 9000))
    raises(qd.ArgumentError, "bind", UdpInterface, leg, ("127.0.0.1", 9000), bind="everywhere")


@pytest.mark.parametrize(
    "stranger", [("127.0.0.1", 8999), ("127.0.0.1", 9001), ("127.0.0.0", 9000), ("127.0.0.2", 9000)]
)
def test_only_the_address_and_port_of_the_peer_are_accepted(stranger: tuple[str, int]) -> None:
    leg, zero = qd.load("two_link_leg"), np.zeros(2)
    side, peer = UdpInterface(leg, ("127.0.0.1", 9000)), ("127.0.0.1", 9000)
    with side._socket:
        data = Packets(2, len(leg.feet)).encode_reading(1, Measurement(0.0, zero, zero, np.zeros(3), np.zeros(3)))
        waiting = [(data, stranger), (data, peer)]

        def recvfrom(size: int) -> tuple[bytes, tuple[str, int]]:
            if not waiting:
                raise BlockingIOError
            return waiting.pop(0)

        side._socket = SimpleNamespace(recvfrom=recvfrom, close=side._socket.close)  # type: ignore[assignment]
        side._drain()
        assert (side.rejected_datagrams, side._received, waiting) == (1, 1, [])
