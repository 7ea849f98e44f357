"""`ControlLoop`: reads sensors, computes commands, filters them by the safety layer and writes them at a fixed rate."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from ..deprecation import renamed_attributes, renamed_fields, renamed_parameters
from ..errors import ArgumentError, ArgumentTypeError
from ..robot.arguments import check_number
from ..simulation.sensors import Measurement
from ..strict_attributes import StrictAttributes
from ..urdf.tree import Array
from .clock import Clock, check_clock
from .controller import Controller
from .faults import Fault
from .interface import RobotInterface
from .loop_statistics import LateTick, LoopStatistics
from .motor_command import MotorCommand
from .operator import Operator, Request
from .realtime import RealTimeOptions
from .safety import Safety
from .safety_checks import FaultCode
from .stages import Stage, StageMachine
from .time_stamps import TimeStampFilter


class OverrunPolicy(enum.Enum):
    """Reaction to ticks that end after the next deadline; missed deadlines are skipped in any case.

    REPEAT: the motors hold the last command.  DECAY: the command is blended into damping in proportion to the missed
    deadlines until it becomes a fault; ticks in time restore it.  STOP: the first missed deadline is a fault.
    """

    REPEAT = "repeat"
    DECAY = "decay"
    STOP = "stop"


@renamed_fields(begun="start_time", wanted="controller_command", reset="was_reset", estimate="estimated_state")
@dataclass(frozen=True, slots=True, eq=False)
class LoopTick:
    """Data of one tick of the loop, as a recorder receives it.

    Attributes:
        number: number of the tick, from 0.
        deadline, start_time: scheduled and actual start by the loop's clock [s].
        measurement: reading of this tick.
        stage: stage of the stage machine.
        request: request of the operator.
        controller_command: command of the controller; damping or zero in stages without the controller.
        command: command that was written.
        fault: latched fault; None without one.
        was_reset: whether the controller was reset at this tick.
        status: status of the controller.
        estimated_state: configuration q (nq,) and velocity v (nv,) that the controller estimated; None without an
            estimate.
    """

    number: int
    deadline: float
    start_time: float
    measurement: Measurement
    stage: Stage
    request: Request
    controller_command: MotorCommand
    command: MotorCommand
    fault: Fault | None
    was_reset: bool
    status: str = ""
    estimated_state: tuple[Array, Array] | None = None


class Recorder(ABC):
    """Receiver of every tick of a loop; see `Recording`."""

    @abstractmethod
    def record(self, tick: LoopTick) -> None:
        """Stores a tick.  It must not block; an exception ends only the recording."""


@dataclass(frozen=True, slots=True)
class LoopReport:
    """Result of a run of the loop.

    Attributes:
        statistics: times of its ticks.
        stage: stage at the end.
        fault: fault that was latched at the end, or None.
        real_time: one line for each real-time option that was requested, with the result.
        end_reason: why the run ended, such as "the duration of 2 s has passed".
        stage_reason: why the robot was not in the stage that the operator requested; "" if it was.
        silences: how many times during the run the watchdog of the robot has damped the motors, because no command
            arrived in time, see `RobotInterface.silences`.
        stamp_unit: unit in which time stamps of readings seem to be, such as "milliseconds", if readings were rejected
            because of it; otherwise "".
        velocity_limit: how and why the controller limited the requested velocity at the end; "" if it did not.
    """

    statistics: LoopStatistics
    stage: Stage
    fault: Fault | None
    real_time: tuple[str, ...]
    end_reason: str = ""
    stage_reason: str = ""
    silences: int = 0
    stamp_unit: str = ""
    velocity_limit: str = ""

    def __str__(self) -> str:
        end = f"ended in {self.stage.value!r}" + (f", because {self.end_reason}" if self.end_reason else "")
        fault = "no fault" if self.fault is None else str(self.fault)
        lines = [str(self.statistics), f"{end}; {fault}", *filter(None, (self.stage_reason,)), *self.real_time]
        if self.velocity_limit:
            lines.insert(2, f"the requested velocity was limited: {self.velocity_limit}")
        if self.silences:
            cause = "ticks were late" if self.statistics.overruns else "commands were lost, or its period is shorter"
            lines.insert(
                1,
                f"the watchdog of the robot damped the motors {self.silences} times, because no command arrived in "
                f"time: {cause}",
            )
        if self.stamp_unit:
            lines.insert(
                1,
                f"readings were rejected, because their time stamps seem to be in {self.stamp_unit}; pass seconds as "
                "Measurement.time",
            )
        for text, count in self.statistics.read_errors.items():
            lines.insert(1, f"read() failed {count} times with {text}")
        return "\n".join(lines)


@renamed_attributes(end="request_stop")
class ControlLoop(StrictAttributes, fixed=("interface", "controller", "dt", "operator", "safety", "clock", "overrun")):
    """Control loop: runs a controller on a robot at absolute deadlines, and filters its commands by the safety layer.

    Everything is compiled and the controller computes trial ticks before the first command is written.  The last
    command of a run is damping, also after an exception or Ctrl-C.

    Args:
        interface: the robot.
        controller: controller of the same robot; its `dt` is the period of the loop.
        operator: source of requests; None: one that requests damping only.
        safety: safety layer of the same robot and period; None: one with default limits.
        clock: object of a class derived from `Clock`; None: the system clock.  A simulated robot is its own clock: pass
            its interface.
        overrun: reaction to missed deadlines, a value of `OverrunPolicy`.
        decay_ticks: number of missed deadlines over which a command decays to damping.
        real_time: options of the operating system; None: the defaults of `RealTimeOptions`.
        recorder: receiver of the ticks; None: none.

    Raises:
        ArgumentError: parts of different robots or periods, or an option out of range.
        ArgumentTypeError: `interface`, `controller` or `clock` is not an instance of its base class.
    """

    @renamed_parameters(decay="decay_ticks")
    def __init__(
        self,
        interface: RobotInterface,
        controller: Controller,
        *,
        operator: Operator | None = None,
        safety: Safety | None = None,
        clock: Clock | None = None,
        overrun: str = "decay",
        decay_ticks: int = 10,
        real_time: RealTimeOptions | None = None,
        recorder: Recorder | None = None,
    ) -> None:
        if not isinstance(interface, RobotInterface):
            raise ArgumentTypeError(f"interface: expected a RobotInterface, got {type(interface).__name__}")
        if not isinstance(controller, Controller):
            raise ArgumentTypeError(f"controller: expected a Controller, got {type(controller).__name__}")
        self.interface, self.controller, self.dt = interface, controller, check_number("dt", controller.dt)
        self.operator = Operator() if operator is None else operator
        self.safety = Safety(interface.robot, dt=self.dt) if safety is None else safety
        for name, component in (("controller", controller), ("safety", self.safety)):
            if component.robot is not interface.robot:
                raise ArgumentError(
                    f"{name}: belongs to another robot than the interface; load the robot once and use that Robot "
                    "object for both"
                )
        if self.safety.dt != self.dt:
            raise ArgumentError(
                f"safety: expected the period of the controller, {self.dt:g} s, got {self.safety.dt:g} s"
            )
        if overrun not in [each.value for each in OverrunPolicy]:
            raise ArgumentError(f"overrun: expected one of repeat, decay, stop, got {overrun!r}")
        if not decay_ticks >= 1:
            raise ArgumentError(f"decay_ticks: expected 1 or more missed deadlines, got {decay_ticks}")
        self.clock, self.overrun = check_clock(clock), OverrunPolicy(overrun)
        clock_step = self.clock.step_time
        nearest = max(round(self.dt / clock_step), 1) * clock_step if clock_step > 0.0 else self.dt
        if abs(nearest - self.dt) > 1e-6 * self.dt:
            raise ArgumentError(
                f"controller: its period of {self.dt:g} s is not a multiple of the clock's step of {clock_step:g} s, "
                f"so that ticks cannot be aligned; construct it with dt={nearest:g}"
            )
        self._decay_ticks, self._real_time, self._recorder = int(decay_ticks), real_time or RealTimeOptions(), recorder
        self._stage_machine, self._damping_command = (
            StageMachine(),
            MotorCommand.from_damping(self.safety.limit_arrays.fault_damping),
        )
        self._zero_command = MotorCommand.zero(interface.robot.nu)
        self._pending_overruns, self._stop_requested, self._is_warm, self._next_deadline = 0.0, False, False, -np.inf
        self._time_stamp_filter, self._last_request = TimeStampFilter(bounded=True), Request(Stage.OFF, (0.0, 0.0, 0.0))
        self.recording_error: Exception | None = None

    @property
    def stage(self) -> Stage:
        """Present stage."""
        return self._stage_machine.stage

    def request_stop(self) -> None:
        """Ends the run after the present tick; may be called from any thread."""
        self._stop_requested = True

    def run(self, seconds: float = np.inf) -> LoopReport:
        """Runs for a time or until `request_stop`; may be called again.

        A run that starts within one period of the end of the last one by the loop's clock, as with a simulated robot,
        whose time does not advance between runs, continues it. Otherwise the motors were damped in between, by the last
        command and then by the watchdog of the robot, so that this run starts with damping; if the operator requests
        RUN, the robot stands up again as soon as it follows commands.  A fault stays until a reset.

        Args:
            seconds: duration by the loop's clock [s]; infinite by default.

        Raises:
            ArgumentError: a time that is not positive.
            ArgumentTypeError: the first reading is no `Measurement`; later ones count as no reading.
        """
        if not check_number("seconds", seconds) > 0.0:
            raise ArgumentError(f"seconds: expected a positive time [s], got {seconds}")
        if not self._is_warm:  # once, since it may reset the controller
            self.controller.warmup()
            self.safety.warmup()
            self._is_warm = True
        statistics, dt = LoopStatistics.empty(), self.dt
        count = np.inf if np.isinf(seconds) else max(1, round(seconds / dt))
        self._stop_requested = False
        with self._real_time.applied() as real_time_results:
            last = self._read()  # an exception here occurs before anything is written
            previous_silences = self.interface.silences
            start = self._first_deadline(self.clock.now())
            previous_start, k = start - dt, 0
            try:
                while k < count and not self._stop_requested:
                    deadline = start + k * dt
                    self.clock.sleep_until(deadline)
                    start_time = self.clock.now()
                    last = self._tick(k, deadline, start_time, last, statistics)
                    end_time = self.clock.now()
                    statistics.ticks += 1
                    statistics.period.add(start_time - previous_start)
                    statistics.latency.add(start_time - deadline)
                    statistics.compute.add(end_time - start_time)
                    previous_start, k = start_time, k + 1
                    n_missed = int((end_time - deadline) / dt + 1e-9)
                    if n_missed >= 1:
                        statistics.add_late_tick(
                            LateTick(k - 1, max(0.0, start_time - deadline), end_time - start_time, n_missed)
                        )
                    self._handle_overrun(n_missed)
                    k += max(0, n_missed - 1)
            finally:
                self._next_deadline = start + k * dt
                self._write(self._zero_command if self.stage is Stage.OFF else self._damping_command, statistics)
        end_reason = "request_stop was called" if self._stop_requested else f"the duration of {seconds:g} s has passed"
        silences = self.interface.silences - previous_silences
        return LoopReport(
            statistics,
            self.stage,
            self.safety.fault,
            real_time_results,
            end_reason,
            self._explain_stage(),
            silences,
            self._time_stamp_filter.likely_unit,
            self.controller.velocity_limit if self.stage is Stage.RUN else "",
        )

    def _explain_stage(self) -> str:
        """Returns why the robot is not in the stage that the operator requested; "" if it is."""
        goal = self._last_request.target_stage
        if goal is self.stage:
            return ""
        if self.safety.fault is not None:
            reason = f"the fault {self.safety.fault.name!r} damps the motors until a reset"
        elif self.interface.stop_reason:
            reason = f"the robot has stopped: {self.interface.stop_reason}"
        else:
            reason = "the present stage is not completed"
        return f"not in the requested stage {goal.value!r}, because {reason}"

    def _first_deadline(self, now: float) -> float:
        """Returns the first deadline of a run: the next one of the last run, or now if that has passed."""
        if now <= self._next_deadline + self.dt:
            return self._next_deadline
        if self.stage.is_controlled:
            self._stage_machine.stage = Stage.DAMP
        return now

    # -- parts of a tick ---------------------------------------------------------------------------------------
    def _read(self) -> Measurement:
        """Returns the newest reading of the interface; raises an `ArgumentTypeError` if it is no `Measurement`."""
        measurement = self.interface.read()
        if not isinstance(measurement, Measurement):
            raise ArgumentTypeError(
                f"read: expected a Measurement from {type(self.interface).__name__}.read(), got "
                f"{type(measurement).__name__}"
            )
        return measurement

    def _tick(
        self, k: int, deadline: float, start_time: float, last: Measurement, statistics: LoopStatistics
    ) -> Measurement:
        """Performs one tick, from reading to writing, and returns the reading that was used."""
        try:
            measurement = self._read()
        except Exception as error:
            statistics.add_read_error(error)
            measurement = last  # the safety layer checks its age
        if not self._time_stamp_filter.accept(measurement.time, start_time):
            statistics.read_failures += int(measurement.time != last.time)
            measurement = last
        request = self._last_request = self.operator.poll(start_time)
        if request.reset_fault:
            self.safety.reset()
            self._pending_overruns = 0.0
        if request.stop_reason:
            self.safety.raise_fault(FaultCode.OPERATOR_STOP, f": {request.stop_reason}")
        previous_stage, robot_stop_reason = self._stage_machine.stage, self.interface.stop_reason
        if robot_stop_reason and previous_stage.is_controlled:
            self.safety.raise_fault(FaultCode.ROBOT_STOP, robot_stop_reason)
        # A robot that has stopped accepts commands again only after damping.
        goal = (
            Stage.DAMP
            if robot_stop_reason and not previous_stage.is_controlled and request.target_stage is Stage.RUN
            else request.target_stage
        )
        fault = self.safety.fault is not None or bool(request.stop_reason)
        stage = self._stage_machine.advance(goal, is_settled=self._is_settled(), fault=fault)
        needs_reset = stage is Stage.STAND_UP and previous_stage is Stage.DAMP
        controller_command = self._controller_command(measurement, stage, request, needs_reset)
        report = self.safety.filter_command(measurement, self._decay_to_damping(controller_command), now=start_time)
        command = self._zero_command if stage is Stage.OFF and report.fault is None else report.command
        if report.fault is not None:
            self._stage_machine.advance(request.target_stage, is_settled=True, fault=True)
        self._write(command, statistics)
        if self._recorder is not None:
            fields = (
                k,
                deadline,
                start_time,
                measurement,
                stage,
                request,
                controller_command,
                command,
                report.fault,
                needs_reset,
            )
            try:
                controller_state = (
                    (self.controller.status, self.controller.estimated_state) if stage.is_controlled else ("", None)
                )
                self._recorder.record(LoopTick(*fields, *controller_state))
            except Exception as error:
                self.recording_error, self._recorder = error, None
        return measurement

    def _is_settled(self) -> bool:
        """Returns whether the present stage is completed."""
        return self.controller.is_settled if self._stage_machine.stage.is_controlled else True

    def _controller_command(
        self, measurement: Measurement, stage: Stage, request: Request, needs_reset: bool
    ) -> MotorCommand:
        """Returns the command of the controller; damping or zero torque in stages without it and after a failure."""
        if not stage.is_controlled:
            return self._zero_command if stage is Stage.OFF else self._damping_command
        try:
            if needs_reset:
                self.controller.reset(measurement)
            command = self.controller.compute(measurement, stage, request.velocity)
            if failure := self.controller.failure_reason:
                self.safety.raise_fault(FaultCode.CONTROLLER_ABORT, failure)
            return command
        except Exception as error:
            self.safety.raise_fault(FaultCode.CONTROLLER_FAILURE, f"{type(error).__name__}: {error}")
            return self._damping_command

    def _decay_to_damping(self, command: MotorCommand) -> MotorCommand:
        """Returns the command blended into damping in proportion to the missed deadlines."""
        if self._pending_overruns <= 0.0 or self.overrun is not OverrunPolicy.DECAY:
            return command
        fraction = max(0.0, 1.0 - self._pending_overruns / self._decay_ticks)
        damping = fraction * command.damping + (1.0 - fraction) * self._damping_command.damping
        velocity = (
            np.where(damping > 0.0, fraction * command.damping / np.maximum(damping, 1e-12), 0.0) * command.velocity
        )
        return MotorCommand(fraction * command.tau, command.position, velocity, fraction * command.stiffness, damping)

    def _handle_overrun(self, n_missed: int) -> None:
        """Applies the overrun policy after a tick that missed this number of deadlines."""
        if n_missed < 1:
            self._pending_overruns = max(0.0, self._pending_overruns - 1.0)
            return
        self._pending_overruns += n_missed
        if self.overrun is OverrunPolicy.STOP or (
            self.overrun is OverrunPolicy.DECAY and self._pending_overruns >= self._decay_ticks
        ):
            self.safety.raise_fault(
                FaultCode.CONTROLLER_OVERRUN, f"{n_missed} deadlines missed in one tick of {self.dt:g} s"
            )

    def _write(self, command: MotorCommand, statistics: LoopStatistics) -> None:
        """Writes a command; an exception becomes a fault."""
        try:
            self.interface.write(command)
        except Exception as error:
            statistics.write_failures += 1
            self.safety.raise_fault(
                FaultCode.LINK_LOSS, f"writing the command failed with {type(error).__name__}: {error}"
            )
