"""`RobotServer`: serves a robot in shared memory, with a watchdog that damps the motors without commands."""

from __future__ import annotations

from collections.abc import Callable

from ..deprecation import renamed_attributes, renamed_parameters
from ..errors import ArgumentError
from ..robot.arguments import check_number
from ..strict_attributes import StrictAttributes
from .clock import Clock, check_clock
from .faults import Fault
from .motor_command import MotorCommand
from .packet_channel import LinkQuality, PacketChannel
from .safety import Safety
from .safety_checks import MAX_CLOCK_ADVANCE, FaultCode
from .safety_limits import SafetyLimits
from .shared_memory import SharedMemory, StatusEntry
from .simulated_interface import SimulatedInterface


@renamed_attributes(silent="periods_since_command", waiting="is_waiting")
class RobotServer(StrictAttributes, fixed=("interface", "memory", "dt")):
    """Serves a simulated robot to another process: takes commands, steps, and publishes a reading, once per period.

    A separate safety layer before the motors enforces the limits on all commands of the other process.  A watchdog
    counts periods without a new command and damps the motors after `watchdog` of them.  Commands are followed again
    when they return within `resume_timeout`, so that a short stall of the other process does not stop the robot; a
    longer silence is the fault "link lost".

    Any fault damps the motors, whatever is commanded, and every reading reports it, until a command requests only
    damping or zero torque.  The safety layer is then reset; a persisting cause raises the fault again.

    Args:
        interface: the robot.
        memory: shared memory for readings and commands.
        dt: period [s].
        watchdog: number of periods without a new command before the motors are damped.
        resume_timeout: longest time without commands that is not a fault [s]; 0: any.  By default the time in which a
            Go2 that is damped in mid-trot sinks by 4 mm.
        link_quality: quality of the link in both directions; None: perfect.
        seed: seed of the link.

    Raises:
        ArgumentError: an option out of range.
    """

    @renamed_parameters(resume="resume_timeout", quality="link_quality")
    def __init__(
        self,
        interface: SimulatedInterface,
        memory: SharedMemory,
        *,
        dt: float,
        watchdog: int = 2,
        resume_timeout: float = 0.03,
        link_quality: LinkQuality | None = None,
        seed: int = 0,
    ) -> None:
        if not check_number("dt", dt) > 0.0:
            raise ArgumentError(f"dt: expected a positive period [s], got {dt}")
        if not watchdog >= 1:
            raise ArgumentError(f"watchdog: expected a number of periods of at least 1, got {watchdog}")
        if not 0.0 <= check_number("resume_timeout", resume_timeout) < float("inf"):
            raise ArgumentError(f"resume_timeout: expected a time, 0 or more [s], got {resume_timeout}")
        self.interface, self.memory, self.dt = interface, memory, float(dt)
        self._watchdog, self._max_silent_periods = int(watchdog), int(resume_timeout / dt + 1e-9)
        link_quality = LinkQuality() if link_quality is None else link_quality
        self._reading_channel, self._command_channel = (
            PacketChannel[tuple[int, bytes]](link_quality, seed),
            PacketChannel[tuple[int, MotorCommand]](link_quality, seed + 1),
        )
        # Over a link with latency, torques do not track and readings are late: only the hard limits apply here.
        self.safety = Safety(
            interface.robot, dt=self.dt, limits=SafetyLimits(max_torque_tracking_error=1e9, max_reading_age=1.0)
        )
        self._command = MotorCommand.from_damping(self.safety.limit_arrays.fault_damping)
        self._last_received = self._last_applied = self._periods_without_command = self._n_silences = self._readings = (
            self._ticks
        ) = 0
        self._reading = interface.read()
        self._publish(interface.now())

    @property
    def fault(self) -> Fault | None:
        """Fault for which the motors are damped; None while commands are followed."""
        return self.safety.fault

    @property
    def periods_since_command(self) -> int:
        """Number of periods since the last new command."""
        return self._periods_without_command

    @property
    def is_waiting(self) -> bool:
        """Whether the motors are damped because commands are missing, and follow the next command."""
        return self.fault is None and self._periods_without_command >= self._watchdog

    def tick(self) -> None:
        """Runs one period: receives commands, filters and applies them, simulates, publishes the reading."""
        now = self.interface.now()
        self._receive(now)
        report = self.safety.filter_command(self._reading, None if self.is_waiting else self._command, now=now)
        self.interface.write(report.command)
        self.interface.sleep_until(now + self.dt)
        self._ticks += 1
        status = self.memory.status
        status[StatusEntry.TICKS], status[StatusEntry.COMMANDS] = self._ticks, self._last_applied
        status[StatusEntry.TIME] = self.interface.now()
        status[StatusEntry.SILENT], status[StatusEntry.SILENCES] = self._periods_without_command, self._n_silences
        status[StatusEntry.FAULT] = FaultCode.LINK_LOSS if self.is_waiting else self._state
        self._reading = self.interface.read()
        self._publish(now + self.dt)

    @renamed_parameters(going="keep_running")
    def serve(self, *, clock: Clock | None = None, keep_running: Callable[[], bool] = lambda: True) -> None:
        """Runs periods in real time while `keep_running` returns True.

        Args:
            clock: None: the system clock.
            keep_running: called before each period; by default always true.

        Raises:
            ArgumentTypeError: `clock` is not a `Clock`.
        """
        clock = check_clock(clock)
        start, k = clock.now(), 0
        while keep_running():
            self.tick()
            k += 1
            late = clock.now() - (start + k * self.dt)
            if late > 0.0:  # lost time is not caught up: the robot would move faster than real time
                self.memory.status[StatusEntry.LATE] += 1.0
                start += late
            clock.sleep_until(start + k * self.dt)

    @property
    def _state(self) -> int:
        """Code of the latched fault; 0 without one."""
        return FaultCode.NO_FAULT if self.fault is None else self.fault.code

    def _publish(self, now: float) -> None:
        """Sends the reading, and writes those that have arrived into the shared memory."""
        self._readings += 1
        self._reading_channel.send(
            now, (self._readings, self.memory.packets.encode_reading(self._readings, self._reading, self._state))
        )
        for sequence, packet in self._reading_channel.receive(now):
            self.memory.write_packet(packet, sequence)

    def _receive(self, now: float) -> None:
        """Applies the newest command that has arrived, or counts a period without one."""
        found = self.memory.read_command()
        # A command with a stamp in the future does not answer a reading of this robot.
        if found is not None and found[0] != self._last_received and found[1] <= self._reading.time + MAX_CLOCK_ADVANCE:
            self._last_received = found[0]
            self._command_channel.send(now, (found[0], found[2]))
        arrived = [each for each in self._command_channel.receive(now) if each[0] > self._last_applied]
        if arrived:
            self._last_applied, self._command = max(arrived, key=lambda each: each[0])
            self._periods_without_command = 0
            if self.fault is not None and not (self._command.tau.any() or self._command.stiffness.any()):
                self.safety.reset()
        elif self._last_applied:
            self._periods_without_command += 1
            self._n_silences += int(self._periods_without_command == self._watchdog)
            if (
                self._periods_without_command >= self._watchdog
                and self._periods_without_command > self._max_silent_periods
            ):
                self.safety.raise_fault(
                    FaultCode.LINK_LOSS, f"no new command for {self._periods_without_command} periods"
                )
