"""`RobotServer`: the robot's side of a shared memory, with a watchdog that does not trust the other side."""

from __future__ import annotations

from collections.abc import Callable

from ..deprecation import renamed_attributes, renamed_parameters
from ..errors import ArgumentError
from ..robot.arguments import number
from ..strict_attributes import StrictAttributes
from . import safety_checks as checks
from .clock import Clock, SystemClock
from .faults import Fault
from .motor_command import MotorCommand
from .packet_channel import LinkQuality, PacketChannel
from .safety import Safety
from .safety_limits import SafetyLimits
from .shared_memory import SharedMemory
from .simulated_interface import SimulatedInterface

#: Entries of `SharedMemory.status`.
TICKS, COMMANDS, SILENT, LATE, TIME, FAULT, SILENCES = range(7)


@renamed_attributes(silent="periods_since_command", waiting="is_waiting")
class RobotServer(StrictAttributes, fixed=("interface", "memory", "dt")):
    """Plays a simulated robot for another process: takes commands, steps, hands out readings, once per period.

    A safety layer of its own stands before the motors, so that nothing that the other process writes gets around the
    limits, and a watchdog counts periods without a new command: after `watchdog` of them the motors are damped.  The
    next command is followed again, as long as none was missing for more than `resume_timeout`: a machine that stalls
    for moments need not bring the robot down.  Beyond that it is a fault, "link lost".

    Any fault damps the motors, whatever commands ask for, and every reading says so, until a command asks for damping
    alone, or for nothing at all; then the layer begins anew.  What is still wrong is found again at once.

    Args:
        interface: the robot.
        memory: where readings go and commands come from.
        dt: period [s].
        watchdog: periods without a new command before the motors are damped.
        resume_timeout: how long commands may be missing before that is a fault [s]; 0: at once.  By default as long as
            a Go2 that is damped in mid-trot sinks by 4 mm.
        link_quality: of the link in both directions; a perfect one by default.
        seed: of the link.

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
        if not number("dt", dt) > 0.0:
            raise ArgumentError(f"dt: expected a positive period [s], got {dt}")
        if not watchdog >= 1:
            raise ArgumentError(f"watchdog: expected 1 period or more, got {watchdog}")
        if not 0.0 <= number("resume_timeout", resume_timeout) < float("inf"):
            raise ArgumentError(f"resume_timeout: expected a time, 0 or more [s], got {resume_timeout}")
        self.interface, self.memory, self.dt = interface, memory, float(dt)
        self._watchdog, self._patience = int(watchdog), int(resume_timeout / dt + 1e-9)
        link_quality = LinkQuality() if link_quality is None else link_quality
        self._up, self._down = (
            PacketChannel[tuple[int, bytes]](link_quality, seed),
            PacketChannel[tuple[int, MotorCommand]](link_quality, seed + 1),
        )
        # What is asked of a link with latency is late, and measured torques with it: limits are what counts here.
        self.safety = Safety(
            interface.robot, dt=self.dt, limits=SafetyLimits(max_torque_tracking_error=1e9, max_reading_age=1.0)
        )
        self._command = MotorCommand.from_damping(self.safety.limit_arrays.fault_damping)
        self._seen = self._taken = self._silent = self._silences = self._readings = self._ticks = 0
        self._reading = interface.read()
        self._publish(interface.now())

    @property
    def fault(self) -> Fault | None:
        """For which the motors are damped; None while commands are followed."""
        return self.safety.fault

    @property
    def periods_since_command(self) -> int:
        """Periods since the last new command."""
        return self._silent

    @property
    def is_waiting(self) -> bool:
        """Whether motors are damped since commands are missing, and follow again as soon as one comes."""
        return self.fault is None and self._silent >= self._watchdog

    def tick(self) -> None:
        """One period: commands that have arrived, the motors, the motion, the reading that it ends in."""
        now = self.interface.now()
        self._receive(now)
        report = self.safety.filter_command(self._reading, None if self.is_waiting else self._command, now=now)
        self.interface.write(report.command)
        self.interface.sleep_until(now + self.dt)
        self._ticks += 1
        status = self.memory.status
        status[TICKS], status[COMMANDS], status[TIME] = self._ticks, self._taken, self.interface.now()
        status[SILENT], status[SILENCES] = self._silent, self._silences
        status[FAULT] = checks.LINK_LOSS if self.is_waiting else self._state
        self._reading = self.interface.read()
        self._publish(now + self.dt)

    @renamed_parameters(going="keep_running")
    def serve(self, *, clock: Clock | None = None, keep_running: Callable[[], bool] = lambda: True) -> None:
        """Tick in real time for as long as `keep_running` says so."""
        clock = SystemClock() if clock is None else clock
        start, k = clock.now(), 0
        while keep_running():
            self.tick()
            k += 1
            late = clock.now() - (start + k * self.dt)
            if late > 0.0:  # time that is lost is not made up for: the robot would run faster than it does
                self.memory.status[LATE] += 1.0
                start += late
            clock.sleep_until(start + k * self.dt)

    @property
    def _state(self) -> int:
        return checks.NO_FAULT if self.fault is None else self.fault.code

    def _publish(self, now: float) -> None:
        self._readings += 1
        self._up.send(
            now, (self._readings, self.memory.packets.encode_reading(self._readings, self._reading, self._state))
        )
        for sequence, packet in self._up.receive(now):
            self.memory.write_packet(packet, sequence)

    def _receive(self, now: float) -> None:
        found = self.memory.read_command()
        # What answers a reading that has not been is no command of this robot.
        if found is not None and found[0] != self._seen and found[1] <= self._reading.time + checks.MAX_CLOCK_ADVANCE:
            self._seen = found[0]
            self._down.send(now, (found[0], found[2]))
        arrived = [each for each in self._down.receive(now) if each[0] > self._taken]
        if arrived:
            self._taken, self._command = max(arrived, key=lambda each: each[0])
            self._silent = 0
            if self.fault is not None and not (self._command.tau.any() or self._command.stiffness.any()):
                self.safety.reset()
        elif self._taken:
            self._silent += 1
            self._silences += int(self._silent == self._watchdog)
            if self._silent >= self._watchdog and self._silent > self._patience:
                self.safety.raise_fault(checks.LINK_LOSS, f"no new one for {self._silent} periods")
