"""`Safety`: layer between controller and motors that limits commands and damps the motors after a fault."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..deprecation import renamed_attributes, renamed_fields, renamed_parameters
from ..errors import ArgumentError, ArgumentTypeError
from ..robot.arguments import Numbers, check_number
from ..robot.robot import Robot
from ..simulation.sensors import Measurement, reading_layout
from ..strict_attributes import StrictAttributes
from ..urdf.tree import FrozenArrays
from .faults import Fault
from .imu_units import ImuUnitCheck
from .motor_command import MotorCommand
from .safety_checks import FaultCode, SafetyMemory, SensorArrays
from .safety_filter import CommandArrays, filter_command
from .safety_limits import SafetyLimits

#: Codes of faults that are detected outside of the layer.
EXTERNAL_FAULTS = (
    FaultCode.CONTROLLER_FAILURE,
    FaultCode.CONTROLLER_OVERRUN,
    FaultCode.LINK_LOSS,
    FaultCode.OPERATOR_STOP,
    FaultCode.ROBOT_STOP,
    FaultCode.CONTROLLER_ABORT,
    FaultCode.IMU_UNIT,
)
NO_SENSOR = np.zeros(0)
CLAMP_NAMES = ("torque", "torque rate", "velocity", "position", "gain", "lost foot")


@renamed_fields(feet="valid_foot_sensors")
@dataclass(frozen=True, slots=True, eq=False)
class SafetyReport(FrozenArrays):
    """Result of one tick of the safety layer.

    Attributes:
        command: command for the motors.
        fault: the latched fault; None without one.
        valid_foot_sensors: (nf,) booleans, True for a valid foot sensor; empty without foot sensors.
    """

    command: MotorCommand
    fault: Fault | None
    valid_foot_sensors: NDArray[np.bool_]


@renamed_attributes(examine="filter_command", cuts="clamp_counts", allowed="limit_arrays")
class Safety(StrictAttributes, fixed=("robot", "dt", "limits", "limit_arrays")):
    """Safety layer: checks sensor readings and limits commands at every tick, independently of the controller.

    *Limited* commands continue: gains, torques, torque rates, torques that accelerate a joint at its speed limit or
    push it into its position limit are clamped and counted in `clamp_counts`.  A spring torque that is above the
    torque limit by itself is replaced by the clamped torque, such a feed-forward torque is clamped.  A foot sensor that
    is frozen or reads NaN is ignored.

    A *fault* switches the motors to damping from the same tick on until `reset`: readings that are not finite, stale,
    frozen, jumping or inconsistent; sensors that stop reporting; positions, velocities, torques, temperatures and power
    beyond their limits; measured torques that do not track the command; a tilted trunk; a command that is not finite;
    and faults raised by `raise_fault`.  An accelerometer in another unit is a fault from the next tick on.

    The layer contains no controller and no dynamics.  It is compiled; `quaddyn.runtime.export_safety` writes it as C99.

    Args:
        robot: any robot.
        dt: period of the loop [s].
        limits: limits of the layer; None: the limits of the robot model and the defaults of `SafetyLimits`.
        imu_rotation: (3, 3) rotation matrix from IMU axes to base axes; None: identity.

    Attributes:
        robot: the robot.
        dt: period of the loop [s].
        limits: limits of the layer, by default those of the robot model.
        limit_arrays: the limits by joint and period, for the compiled layer.

    Raises:
        ArgumentError: a limit of a wrong shape, NaN, or not positive.
    """

    @renamed_parameters(imu="imu_rotation")
    def __init__(
        self, robot: Robot, *, dt: float, limits: SafetyLimits | None = None, imu_rotation: Numbers | None = None
    ) -> None:
        if not isinstance(robot, Robot):
            raise ArgumentTypeError(f"robot: expected a Robot from quaddyn.load, got {type(robot).__name__}")
        limits = SafetyLimits() if limits is None else limits
        if not isinstance(limits, SafetyLimits):
            raise ArgumentTypeError(f"limits: expected SafetyLimits, got {type(limits).__name__}")
        self.robot, self.dt, self.limits = robot, check_number("dt", dt), limits
        if not self.dt > 0.0:
            raise ArgumentError(f"dt: expected a positive period [s], got {dt}")
        self.limit_arrays = limits.to_arrays(robot, self.dt, imu_rotation)
        self._damping_command = MotorCommand.from_damping(self.limit_arrays.fault_damping)
        nu, nf, has_imu = robot.nu, len(robot.feet), robot.root == "free"  # a fixed base needs no IMU
        self.memory = SafetyMemory.allocate(
            position=nu, velocity=nu, gyro=3, accelerometer=3, feet=nf, commanded_torque=nu, position_drift=nu,
            torque_error=nu, vertical=3, tilt_drift_rate=3, overspeed=nu, overtorque=nu, overheat=nu,
            encoder_repeats=nu, foot_repeats=nf,
        )  # fmt: skip
        self._sizes = nu, nf
        # Without a limit of tilt and its drift, nothing depends on the unit of the accelerometer.
        self._checks_imu = has_imu and (limits.max_tilt < math.pi or math.isfinite(limits.max_tilt_drift_rate))
        # Each tick is copied here, to memory that the compiled layer is bound to.
        layout = reading_layout(nu, nf)
        self._reading, self._command = np.zeros(layout["temperature"].stop), np.zeros((5, nu))
        sensors = [self._reading[part] for part in layout.values()]
        if not has_imu:
            sensors[2:4] = NO_SENSOR, NO_SENSOR
        records = self.limit_arrays, SensorArrays(*sensors), CommandArrays(*self._command), self.memory
        self._records = records
        self._filter: Callable[[float, float, int], int] | None = None
        self._valid_feet = dict[int, NDArray[np.bool_]]()  # by the mask of invalid ones
        self.reset()

    def reset(self) -> None:
        """Clears all state and a latched fault; the next reading is treated as the first."""
        self.memory.block[:] = 0
        self._fault: Fault | None = None
        self._raised: tuple[FaultCode, str] = (FaultCode.NO_FAULT, "")
        gravity = float(np.linalg.norm(self.robot.model.gravity.linear))
        self._imu_units = ImuUnitCheck(gravity if self._checks_imu else 0.0, self.dt)

    def warmup(self) -> None:
        """Compiles the layer, which otherwise happens at the first tick."""
        self._bind_filter()

    def _bind_filter(self) -> Callable[[float, float, int], int]:
        """Returns the compiled layer, bound to the memory of this object."""
        self._filter = filter_command.bind(*self._records)
        return self._filter

    @property
    def fault(self) -> Fault | None:
        """The latched fault; None without one."""
        return self._fault

    @property
    def clamp_counts(self) -> dict[str, int]:
        """Numbers of clamped commands since the last reset by kind: joints times ticks (foot sensors: ticks)."""
        return dict(zip(CLAMP_NAMES, map(int, self.memory.clamp_counts), strict=True))

    def raise_fault(self, code: int, what: str) -> None:
        """Raises a fault that was detected elsewhere; the next tick latches it unless a fault is latched already.

        Args:
            code: one of `EXTERNAL_FAULTS`, see `safety_checks.FaultCode`.
            what: message.

        Raises:
            ArgumentError: another code.
        """
        if code not in EXTERNAL_FAULTS:
            raise ArgumentError(f"code: expected one of EXTERNAL_FAULTS, got {code}")
        if self._raised[0] == FaultCode.NO_FAULT:
            self._raised = FaultCode(code), what

    def filter_command(
        self, measurement: Measurement, command: MotorCommand | None, *, now: float = 0.0
    ) -> SafetyReport:
        """Runs one tick: checks the newest reading and limits the command; call it once per period.

        Arrays of a wrong shape are a fault; no exception is raised.

        Args:
            measurement: the newest reading.  It is not new if its time stamp is not later than that of the last
                accepted reading, is NaN, infinite or negative, or has advanced by 50 ms more than `now`.
            command: command of the controller; None if none has arrived: motors are damped at this tick without a
                fault.
            now: the caller's clock, also for the time of a fault [s]; if it does not advance, each call counts as one
                period.
        """
        memory, (nu, nf) = self.memory, self._sizes
        n_accepted = memory.n_accepted
        self._reading[:] = measurement.packed(nu, nf)
        self._command[:] = (self._damping_command if command is None else command).packed(nu)
        raised, what = self._raised
        if command is None and raised == FaultCode.NO_FAULT:
            raised = FaultCode.NO_COMMAND
        code = (self._filter or self._bind_filter())(_time_stamp(measurement.time), float(now), int(raised))
        if code != FaultCode.NO_FAULT and self._fault is None:
            self._fault = Fault.from_code(
                code, memory.fault_index, memory.fault_value, memory.fault_limit, self.robot, what=what, time=now
            )
        elif not self._imu_units.is_completed and memory.n_accepted != n_accepted:
            if reason := self._imu_units.update(measurement):
                self.raise_fault(FaultCode.IMU_UNIT, reason)
        filtered = MotorCommand.from_packed(self._command.copy())
        return SafetyReport(filtered, self._fault, self._find_valid_feet(memory))

    def _find_valid_feet(self, memory: SafetyMemory) -> NDArray[np.bool_]:
        """Returns which foot sensors are valid (nf,), empty without foot sensors; read-only."""
        mask = memory.invalid_feet if memory.has_feet else -1
        if mask not in self._valid_feet:
            n_sensors = len(memory.feet) if memory.has_feet else 0
            self._valid_feet[mask] = np.array([not mask >> i & 1 for i in range(n_sensors)], dtype=bool)
            self._valid_feet[mask].flags.writeable = False
        return self._valid_feet[mask]


def _time_stamp(value: object) -> float:
    """Returns a time stamp; NaN if it is not a number."""
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return math.nan
