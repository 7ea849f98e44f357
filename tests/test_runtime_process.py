"""Two processes: packets, lock-free rings, bad links, and a watchdog independent of the controller."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from raising import raises
from slow_parameters import others_slow

import quaddyn as qd
from quaddyn.errors import FileAccessError
from quaddyn.runtime import (
    Clock,
    Controller,
    ControlLoop,
    LinkQuality,
    MotorCommand,
    Operator,
    PacketError,
    Packets,
    PlantInterface,
    RealTimeOptions,
    RobotProcess,
    RobotServer,
    Safety,
    SafetyLimits,
    SharedMemory,
    SharedMemoryInterface,
    Stage,
    UdpInterface,
    udp,
)
from quaddyn.runtime.motor_command import COMMAND_FIELDS
from quaddyn.runtime.packet_channel import PacketChannel
from quaddyn.runtime.robot_process import PLANTS, make_plant
from quaddyn.runtime.safety_checks import MAX_CLOCK_ADVANCE, FaultCode
from quaddyn.runtime.shared_memory import SLOTS, StatusEntry
from quaddyn.runtime.time_stamps import RESTART_TIME, TimeStampFilter
from quaddyn.simulation import Actuators, Measurement, Simulation

DT = 2e-3


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[SharedMemory]:
    made = SharedMemory(tmp_path / "ring", 12, 4, create=True)
    yield made
    made.close()


def some_reading(time: float) -> Measurement:
    rng = np.random.default_rng(0)
    return Measurement(time, *(rng.standard_normal(n) for n in (12, 12, 3, 3)), foot_forces=rng.random(4))


def test_packets_are_decoded_to_the_encoded_values() -> None:
    packets, reading = Packets(12, 4), some_reading(0.25)
    data = packets.encode_reading(7, reading, 3)
    sequence, found, state = packets.decode_reading(data)
    assert (sequence, found.time, state, len(data)) == (7, 0.25, 3, packets.reading_size)
    for name in ("position", "velocity", "gyro", "accelerometer", "foot_forces"):
        assert np.array_equal(getattr(found, name), getattr(reading, name))
    assert found.torque is None and found.temperature is None
    # Sensors are missing only if all of their values are.
    torque = np.where(np.arange(12) < 3, np.nan, 1.0)
    some = replace(reading, torque=torque, temperature=torque[::-1].copy(), foot_forces=np.full(4, np.nan))
    _, found, _ = packets.decode_reading(packets.encode_reading(8, some))
    np.testing.assert_array_equal([found.torque, found.temperature], [some.torque, some.temperature])
    assert found.foot_forces is None
    command = MotorCommand.from_targets(*np.random.default_rng(1).random((4, 12)), tau=np.arange(12.0))
    sequence, stamp, got = packets.decode_command(packets.encode_command(9, 0.5, command))
    assert (sequence, stamp) == (9, 0.5)
    assert all(np.array_equal(getattr(got, n), getattr(command, n)) for n in COMMAND_FIELDS)


def test_invalid_packets_are_rejected() -> None:
    packets, data = Packets(12, 4), Packets(12, 4).encode_reading(1, some_reading(0.0))
    for at in (16, 24, 32, 40, len(data) - 1):  # number, time, state, contents
        damaged = bytearray(data)
        damaged[at] ^= 4
        raises(PacketError, "CRC", packets.decode_reading, bytes(damaged))
    for wrong, why in (
        (data[:-8], "expected kind 1"),
        (data[:20], "expected at least a header"),
        (b"UDP " + data[4:], "at the beginning"),
        (data[:4] + b"\x01" + data[5:], "version 1"),
        (Packets(8, 4).encode_reading(1, Measurement(0.0, *(np.zeros(n) for n in (8, 8, 3, 3)))), "8 joints"),
    ):
        raises(PacketError, why, packets.decode_reading, wrong)
    raises(PacketError, "expected kind 2", packets.decode_command, data)


def test_ring_returns_the_newest_packet_and_never_a_partial_one(memory: SharedMemory) -> None:
    other = SharedMemory(memory.path, 12, 4)
    assert other.read_reading() is None and other.read_command() is None
    for k in range(200):  # more entries than the ring has
        memory.write_reading(some_reading(k * DT))
    sequence, found, _ = other.read_reading()
    assert sequence == 200 and found.time == 199 * DT
    # A slot whose writer was interrupted is rejected.
    packet = memory.packets.encode_reading(201, some_reading(0.0))
    memory.write_packet(packet[: len(packet) // 2] + bytes(len(packet) - len(packet) // 2), 201)
    assert other.read_reading() is None
    # So is one that still has the packet of the last round.
    memory.write_packet(memory.packets.encode_reading(201, some_reading(0.0)), 201 + SLOTS)
    assert other.read_reading() is None
    memory.write_reading(some_reading(1.0))
    assert other.read_reading()[1].time == 1.0
    other.close()
    raises(qd.QuaddynError, "8 joints", SharedMemory, memory.path, 8, 4)


#: Files that other users could have created or can write to, by words of the error.
OTHERS: dict[str, Callable[[Path], object]] = {
    "symbolic link": lambda path: (path.rename(f"{path}-moved"), path.symlink_to(f"{path}-moved")),
    "hard link": lambda path: os.link(path, f"{path}-too"),
    "mode 0666": lambda path: path.chmod(0o666),
    "mode 0620": lambda path: path.chmod(0o620),
    "regular file": lambda path: (path.unlink(), os.mkfifo(path)),
    "user 12345": lambda path: os.chown(path, 12345, -1),
}


@pytest.mark.parametrize("create", [False, True])
@pytest.mark.parametrize("what", OTHERS)
def test_shared_memory_owned_or_writable_by_other_users_is_rejected(
    what: str, create: bool, memory: SharedMemory
) -> None:
    if what.startswith("user") and os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    memory.write_reading(some_reading(0.5))
    OTHERS[what](memory.path)
    raises(FileAccessError, rf"^{memory.path}: .*{what}", SharedMemory, memory.path, 12, 4, create=create)
    assert memory.read_reading()[1].time == 0.5  # nothing was overwritten


def test_creating_shared_memory_overwrites_only_shared_memory(memory: SharedMemory, tmp_path: Path) -> None:
    (tmp_path / "letter").write_text("dear robot", encoding="utf-8")
    with pytest.raises(qd.QuaddynError, match="letter: the file exists and is not shared memory"):
        SharedMemory(tmp_path / "letter", 12, 4, create=True)
    assert (tmp_path / "letter").read_text(encoding="utf-8") == "dear robot"
    (tmp_path / "empty").write_bytes(b"")
    memory.write_reading(some_reading(0.5))
    for path in (tmp_path / "empty", memory.path):
        again = SharedMemory(path, 12, 4, create=True)
        assert again.read_reading() is None and not again.status.any()
        again.close()
    assert memory.read_reading() is None  # of the same file: what is mapped stays valid


def test_shared_memory_is_removed_unless_replaced_by_another_file(memory: SharedMemory, tmp_path: Path) -> None:
    memory.path.rename(tmp_path / "moved")
    memory.path.write_text("of somebody else", encoding="utf-8")
    memory.remove()
    assert memory.path.read_text(encoding="utf-8") == "of somebody else"
    (tmp_path / "moved").replace(memory.path)
    memory.remove()
    memory.remove()
    assert not memory.path.exists()


def test_a_process_that_cannot_be_started_leaves_no_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)  # no /dev/shm: temporary files
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(TypeError):
        RobotProcess("small_quadruped", dt=object())
    assert not list(tmp_path.iterdir())


def test_a_link_has_the_requested_quality_and_is_reproducible() -> None:
    quality = LinkQuality(latency=2e-3, jitter=3e-3, loss=0.1, duplication=0.05)
    arrivals = []
    for seed in (3, 3, 4):
        link, found = PacketChannel[int](quality, seed), []
        for k in range(4000):
            link.send(k * 1e-3, k)
            found += [(k * 1e-3, each) for each in link.receive(k * 1e-3)]
        arrivals.append(found)
        assert 0.08 < link.lost / link.sent < 0.12 and 0.03 < link.repeated / link.sent < 0.06
    assert arrivals[0] == arrivals[1] != arrivals[2]
    delays = np.array([at - 1e-3 * each for at, each in arrivals[0]])
    assert delays.min() >= 2e-3 - 1e-9 and delays.max() <= 6e-3 + 1e-9  # to the next poll
    delays_of = {
        each: {round(at - 1e-3 * each, 6) for at, n in arrivals[0] if n == each} for _, each in arrivals[0][:900]
    }
    assert any(len(found) == 2 for found in delays_of.values())  # a repeated packet has another delay
    for wrong in ({"loss": 1.0}, {"latency": -1.0}, {"duplication": np.nan}):
        raises(qd.ArgumentError, next(iter(wrong)), LinkQuality, **wrong)


def test_late_or_repeated_commands_are_ignored(go2: qd.Robot, memory: SharedMemory) -> None:
    server = RobotServer(PlantInterface(Simulation(go2, dt=DT)), memory, dt=DT, watchdog=3, resume_timeout=0.0)
    side = SharedMemoryInterface(go2, memory.path)
    for _ in range(10):
        server.tick()  # no command has arrived yet, which is not a fault
    assert server.fault is None
    for _ in range(5):
        side.write(MotorCommand.zero(12))
        server.tick()
        assert server.periods_since_command == 0
    for silent in (1, 2, 3):
        server.tick()
        assert server.periods_since_command == silent and (server.fault is not None) == (silent == 3)
    side.read()
    assert side.stop_reason == server.fault.name == "link lost" and "3 periods" in server.fault.reason
    side.write(MotorCommand.from_torques(np.ones(12)))
    server.tick()
    assert server.fault is not None and not server.interface.command.tau.any()  # it must begin with damping
    side.write(MotorCommand.from_damping(np.ones(12)))
    server.tick()
    side.read()
    assert server.fault is None and side.stop_reason == ""
    side.write(MotorCommand.from_torques(np.ones(12)))
    server.tick()
    assert np.allclose(server.interface.command.tau, 1.0)
    side.close()


def test_time_lost_by_a_late_period_is_not_caught_up(
    go2: qd.Robot, memory: SharedMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    class LateClock(Clock):
        """Clock that advances by 5 periods during the first one."""

        time, waits = 10.0, 0

        def now(self) -> float:
            return self.time

        def sleep_until(self, deadline: float) -> None:
            self.waits += self.time < deadline
            self.time = max(self.time, deadline)

    server, clock = RobotServer(PlantInterface(Simulation(go2, dt=DT)), memory, dt=DT), LateClock()
    durations = iter([5.0 * DT, 0.0, 0.0, 0.0])
    monkeypatch.setattr(RobotServer, "tick", lambda _: setattr(clock, "time", clock.time + next(durations)))
    left = iter([True] * 4)
    server.serve(clock=clock, keep_running=lambda: next(left, False))
    assert clock.time == pytest.approx(10.0 + 8.0 * DT) and clock.waits == 3
    assert memory.status[StatusEntry.LATE] == 1.0


def test_reading_arrives_at_the_first_period_after_the_latency_of_the_link(go2: qd.Robot, memory: SharedMemory) -> None:
    link = LinkQuality(latency=0.5 * DT)
    server = RobotServer(PlantInterface(Simulation(go2, dt=DT)), memory, dt=DT, link_quality=link)
    for k in range(3):
        server.tick()
        assert SharedMemoryInterface(go2, memory.path).read().time == pytest.approx(k * DT)


def test_duplicated_packets_do_not_reset_the_watchdog(go2: qd.Robot, memory: SharedMemory) -> None:
    quality = LinkQuality(latency=DT, jitter=6.0 * DT, duplication=0.99)
    server = RobotServer(
        PlantInterface(Simulation(go2, dt=DT)), memory, dt=DT, resume_timeout=1.0, link_quality=quality
    )
    for number in range(6):
        memory.write_command(0.0, MotorCommand.zero(12))
        silent = []
        for _ in range(9):
            server.tick()
            silent.append(server.periods_since_command)
        assert number == 0 or silent.count(0) == 1, silent  # before the first command the watchdog is inactive
    assert server._command_channel.repeated >= 5
    assert server._command_channel.sent == 6  # the link repeats packets, but every command is sent only once


def test_commands_without_the_time_stamp_of_a_reading_are_ignored(go2: qd.Robot, memory: SharedMemory) -> None:
    server = RobotServer(PlantInterface(Simulation(go2, dt=DT)), memory, dt=DT)
    memory.write_command(0.0, MotorCommand.zero(12))
    server.tick()
    for silent, stamp in enumerate((np.nan, np.inf, -1.0, 0.1, 1e300), start=1):
        memory.write_command(stamp, MotorCommand.from_torques(np.ones(12)))
        server.tick()
        assert server.periods_since_command == silent and not server.interface.command.tau.any()
    memory.write_command(server.interface.now(), MotorCommand.from_torques(np.ones(12)))
    server.tick()
    assert server.periods_since_command == 0 and server.interface.command.tau.any()


def test_short_silence_damps_the_motors_until_the_next_command(go2: qd.Robot, memory: SharedMemory) -> None:
    server = RobotServer(PlantInterface(Simulation(go2, dt=DT)), memory, dt=DT, watchdog=2, resume_timeout=0.012)
    side, hold = SharedMemoryInterface(go2, memory.path), HoldController(go2)
    hold.reset(side.read())
    for silent in (1, 2, 6, 7):  # 12 ms are 6 periods
        for _ in range(5):
            side.write(hold.compute(side.read(), Stage.RUN))
            server.tick()
        assert not server.is_waiting and server.interface.command.stiffness.all()
        for _ in range(silent):
            server.tick()
        given = server.interface.command
        damped = not (given.tau.any() or given.stiffness.any()) and bool((given.damping > 0.0).all())
        assert damped == (silent >= 2) == bool(memory.status[StatusEntry.FAULT]) and server.is_waiting == (
            silent in (2, 6)
        )
        side.read()
        assert side.stop_reason == ("link lost" if silent == 7 else "")
    assert memory.status[StatusEntry.SILENCES] == 3
    side.write(hold.compute(side.read(), Stage.RUN))
    server.tick()
    assert server.fault.name == "link lost" and not server.interface.command.stiffness.any()
    side.close()
    raises(qd.ArgumentError, "resume", RobotServer, server.interface, memory, dt=DT, resume_timeout=np.inf)


def test_faults_are_detected_without_commands(go2: qd.Robot, memory: SharedMemory) -> None:
    server = RobotServer(PlantInterface(Simulation(go2, dt=DT)), memory, dt=DT)
    memory.write_command(0.0, MotorCommand.from_torques(np.ones(12)))
    for _ in range(5):
        server.tick()
    assert server.is_waiting
    server._reading = replace(server._reading, time=server._reading.time + DT, position=np.full(12, np.nan))
    server.tick()
    assert server.fault.name == "reading not a number" and not server.is_waiting


def test_commands_of_the_other_process_are_limited(go2: qd.Robot, memory: SharedMemory) -> None:
    server = RobotServer(PlantInterface(Simulation(go2, dt=DT)), memory, dt=DT)
    side = SharedMemoryInterface(go2, memory.path)
    raises(qd.ArgumentError, "finite", side.write, MotorCommand.from_torques(np.full(12, np.nan)))
    side.write(MotorCommand.from_targets(np.full(12, 9.0), np.zeros(12), np.full(12, 1e3), np.zeros(12)))
    server.tick()
    m = side.read()
    given = server.interface.command.compute_torque(m.position, m.velocity)
    assert (np.abs(given) <= go2.effort_limits + 1e3 * np.abs(m.velocity) * DT + 1e-9).all()
    memory.write_command(0.0, MotorCommand.from_torques(np.full(12, np.nan)))  # a process without checks
    server.tick()
    assert server.safety.fault.name == "command not a number" and not server.interface.command.tau.any()
    side.close()


class ServedInterface(SharedMemoryInterface, Clock):
    """A robot behind shared memory whose process ticks, once a period, while the loop waits."""

    def __init__(self, server: RobotServer) -> None:
        super().__init__(server.interface.robot, server.memory.path)
        self.server = server

    def now(self) -> float:
        return self.server.interface.now()

    def sleep_until(self, time: float) -> None:
        while self.now() < time - 0.5 * DT:
            self.server.tick()


class HoldController(Controller):
    """Controller that holds the joints at their initial positions."""

    def __init__(self, robot: qd.Robot) -> None:
        self.robot, self.dt, self.resets, self.hold = robot, DT, 0, np.zeros(12)

    def reset(self, measurement: Measurement) -> None:
        self.hold, self.resets = measurement.position, self.resets + 1

    def compute(self, measurement: Measurement, stage: Stage, velocity: object = None) -> MotorCommand:
        return MotorCommand.from_targets(self.hold, *np.outer([0.0, 60.0, 2.0], np.ones(12)))


class LateController(HoldController):
    """Controller whose computation takes some periods now and then."""

    server: RobotServer
    late_periods: dict[int, int]
    calls = 0

    def compute(self, measurement: Measurement, stage: Stage, velocity: object = None) -> MotorCommand:
        self.calls += 1
        for _ in range(self.late_periods.get(self.calls, 0)):
            self.server.tick()
        return super().compute(measurement, stage, velocity)


def test_report_of_a_loop_counts_interruptions_that_are_no_fault(go2: qd.Robot, memory: SharedMemory) -> None:
    server = RobotServer(PlantInterface(Simulation(go2, dt=DT)), memory, dt=DT)
    side, operator, controller = ServedInterface(server), Operator(), LateController(go2)
    controller.server, controller.late_periods = server, {20: 1, 40: 3, 60: 5, 120: 4}
    loop = ControlLoop(side, controller, operator=operator, clock=side, overrun="repeat")
    operator.walk()
    report = loop.run(100 * DT)
    assert report.fault is None and report.silences == 2, report
    assert "watchdog of the robot damped the motors 2 times" in str(report) and "ticks were late" in str(report)
    assert loop.run(100 * DT).silences == 1 and loop.run(20 * DT).silences == 0


@pytest.mark.parametrize("latency", others_slow([0.0, 2.5 * DT], [2.5 * DT]))
def test_run_after_a_pause_begins_with_damping_and_resumes_control(
    latency: float, go2: qd.Robot, memory: SharedMemory
) -> None:
    link = LinkQuality(latency=latency)
    server = RobotServer(PlantInterface(Simulation(go2, dt=DT)), memory, dt=DT, watchdog=3, link_quality=link)
    for _ in range(5):
        server.tick()  # the first reading is on its way
    side, operator, hold = ServedInterface(server), Operator(), HoldController(go2)
    safety = Safety(go2, dt=DT, limits=SafetyLimits(max_torque_tracking_error=1e9, max_reading_age=0.05))
    calm = RealTimeOptions(disable_gc=False)  # disabling the garbage collector takes 0.3 s per run
    loop = ControlLoop(side, hold, operator=operator, clock=side, safety=safety, real_time=calm)
    operator.walk()
    for _ in range(2):  # without a pause it continues
        report = loop.run(0.05)
        assert report.stage is Stage.RUN and report.fault is None and hold.resets == 1
    assert server.interface.command.stiffness.any()
    for _ in range(30):  # no command arrives
        server.tick()
    assert server.fault.name == "link lost" and not server.interface.command.stiffness.any()
    side.read()
    assert side.stop_reason == "link lost"
    loop.run(DT)
    assert loop.stage is Stage.DAMP and hold.resets == 1  # no command was rejected by the robot
    report = loop.run(0.05)
    assert report.fault is None and report.stage is Stage.RUN and hold.resets == 2
    assert server.fault is None and server.interface.command.stiffness.any()
    # A robot that stops during a run is a fault of the loop as well, with its reason.
    server.safety.raise_fault(FaultCode.LINK_LOSS, "nobody there")
    report = loop.run(0.05)
    assert report.stage is Stage.DAMP and report.fault.name == "robot stopped" and "link lost" in report.fault.reason
    assert server.fault is None  # because of the damping command
    operator.reset()
    loop.run(DT)
    operator.walk()
    assert loop.run(0.05).stage is Stage.RUN and server.interface.command.stiffness.any()
    side.close()


CONTROLLER = """
import sys, time
import quaddyn as qd
from quaddyn.runtime import MotorCommand, SharedMemoryInterface
robot = qd.load("go2")
side, last = SharedMemoryInterface(robot, sys.argv[1]), -1.0
hold = robot.q_home[7:]
while True:
    m = side.read()
    if m.time != last:
        side.write(MotorCommand.from_targets(hold, 0.0 * hold, 60.0 + 0.0 * hold, 2.0 + 0.0 * hold))
        last = m.time
    time.sleep(1e-4)
"""


def test_robot_of_a_killed_controller_is_damped_within_two_periods(go2: qd.Robot, memory: SharedMemory) -> None:
    """The robot process counts its own periods, which the test advances: no system clock is involved."""
    server = RobotServer(PlantInterface(Simulation(go2, dt=DT)), memory, dt=DT, watchdog=2)
    process = subprocess.Popen([sys.executable, "-c", CONTROLLER, str(memory.path)])
    try:
        waited = time.monotonic()
        while (found := memory.read_command()) is None or found[0] < 5:
            assert process.poll() is None and time.monotonic() - waited < 120.0
            before = 0 if found is None else found[0]
            server.tick()
            limit = time.monotonic() + 120.0
            while ((now := memory.read_command()) is None or now[0] == before) and time.monotonic() < limit:
                time.sleep(1e-3)  # waits for its command
        server.tick()
        assert server.fault is None and server.interface.command.stiffness.all()
        os.kill(process.pid, signal.SIGKILL)
        process.wait(60.0)
        server.tick()  # may use the last command sent
        if server.periods_since_command == 0:
            server.tick()
        assert server.periods_since_command == 1 and not server.is_waiting
        server.tick()
        given = server.interface.command
        assert server.periods_since_command == 2 and server.is_waiting
        assert not given.tau.any() and not given.stiffness.any() and (given.damping > 0.0).all()
        for _ in range(14):
            server.tick()
        assert server.fault.name == "link lost"  # permanently after 30 ms
    finally:
        process.kill()
        process.wait(60.0)


def test_robot_process_has_the_given_actuators(go2: qd.Robot) -> None:
    motors = Actuators(
        go2,
        effort=9.0,
        corner_speed=2.0,
        no_load_speed=5.0,
        viscous=0.1,
        coulomb=0.2,
        rotor_inertia=0.01,
        delay=0.004,
        backlash=0.01,
    )
    there = make_plant(qd.load("go2"), "embedded", DT, json.loads(json.dumps(motors.constructor_arguments))).actuators
    assert there.constructor_arguments == motors.constructor_arguments
    np.testing.assert_array_equal(there.motor_side_inertia, motors.motor_side_inertia)
    free = Actuators(go2, effort=np.inf).constructor_arguments
    assert Actuators(go2, **json.loads(json.dumps(free))).constructor_arguments == free


@pytest.mark.parametrize("plant", PLANTS)
def test_robot_that_sinks_without_commands_has_no_fault(go2: qd.Robot, plant: str) -> None:
    side, safety = PlantInterface(make_plant(go2, plant, DT)), Safety(go2, dt=DT)
    damped = MotorCommand.from_damping(np.full(12, 2.0))
    for _ in range(600):
        side.write(safety.filter_command(side.read(), damped).command)
        side.step()
    assert side.plant.q[2] < 0.1 and safety.fault is None


def test_robot_process_runs_in_real_time_and_terminates() -> None:
    late = Actuators(qd.load("go2"), delay=0.004, no_load_speed=np.inf)
    with RobotProcess("go2", dt=0.01, actuators=late, link_quality=LinkQuality(latency=0.01), seed=1) as process:
        side = process.interface()
        first = side.read()
        limit = time.monotonic() + 60.0
        while side.read().time < first.time + 0.05:
            side.write(MotorCommand.zero(12))
            assert time.monotonic() < limit
        path = process.path
        assert process.status()["commands"] > 0 and process.status()["fault"] in ("", "link lost")
        side.close()
    assert not path.exists()
    raises(qd.ArgumentError, "plant", RobotProcess, "go2", plant="gazebo")
    raises(qd.ArgumentError, "actuators", RobotProcess, "solo12", actuators=late)


# -- a robot behind udp on this machine, and the handling of time stamps by interfaces --------------------------------
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
