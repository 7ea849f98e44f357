"""`Safety`: stands between controller and motors, knows neither, and ends faults in damping."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..deprecation import renamed_attributes, renamed_fields, renamed_parameters
from ..errors import ArgumentError, ArgumentTypeError
from ..robot.arguments import Numbers, number
from ..robot.robot import Robot
from ..simulation.sensors import Measurement
from ..strict_attributes import StrictAttributes
from ..urdf.tree import Array, FrozenArrays, frozen
from . import safety_checks as checks
from .faults import Fault
from .motor_command import MotorCommand
from .safety_checks import Reading, SafetyMemory
from .safety_filter import Asked, guard
from .safety_limits import SafetyLimits

#: Codes of what the layer does not find itself.
OTHERS = (
    checks.CONTROLLER_FAILED,
    checks.CONTROLLER_LATE,
    checks.LINK_LOST,
    checks.STOPPED,
    checks.ROBOT_STOPPED,
    checks.GAVE_UP,
)
FLOAT, NO_SENSOR = np.dtype(np.float64), np.zeros(0)
NOTES = ("torque", "torque rate", "velocity", "position", "gain", "lost foot")


@renamed_fields(feet="valid_foot_sensors")
@dataclass(frozen=True, slots=True, eq=False)
class SafetyReport(FrozenArrays):
    """What a tick of the safety layer has made of a command.

    Attributes:
        command: what the motors are to get.
        fault: that is latched; None while all is well.
        valid_foot_sensors: (nf,) which foot sensors are to be believed; empty where there are none.
    """

    command: MotorCommand
    fault: Fault | None
    valid_foot_sensors: np.ndarray[tuple[int], np.dtype[np.bool_]]


@renamed_attributes(examine="filter_command", cuts="clamp_counts", allowed="limit_arrays")
class Safety(StrictAttributes, fixed=("robot", "dt", "limits", "limit_arrays")):
    """Checks readings and commands at every tick; commands are cut at limits, faults end in damping until a reset.

    What is *cut* goes on: gains, torque, its rate, torques that drive a joint that is as fast as it may be or that
    stands at a stop.  `cuts` counts it.  A foot sensor that is stuck or reads NaN is left out, and the robot goes on
    by its gait's schedule.

    What is a *fault* ends in damping at once, and stays: readings that are not finite, stale, frozen, that jump or
    contradict each other; sensors that were there and are no more; positions, velocities, torques, temperatures and
    power beyond limits; motors that do not do what they are asked for; a trunk that leans; a command that is not
    finite; and whatever others `raise_fault`.

    It knows no controller and no dynamics, and is compiled; `quaddyn.runtime.export_safety` writes it as C99.

    Args:
        robot: any robot.
        dt: period of the loop [s].
        limits: what is allowed; those of the robot's record and `SafetyLimits`' defaults by default.
        imu_rotation: (3, 3) rotation from the IMU's axes to the base's; none by default.

    Attributes:
        robot: as given.
        dt: as given [s].
        limits: as given.
        allowed: the limits by joint and period, as the compiled layer takes them.

    Raises:
        ArgumentError: a limit of another shape, NaN, or not positive.
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
        self.robot, self.dt, self.limits = robot, number("dt", dt), limits
        if not self.dt > 0.0:
            raise ArgumentError(f"dt: expected a positive period [s], got {dt}")
        self.limit_arrays = limits.to_arrays(robot, self.dt, imu_rotation)
        self._damp = MotorCommand.from_damping(self.limit_arrays.brake)
        self._asked = Asked(*(np.zeros(robot.nu) for _ in range(5)))
        self.reset()

    def reset(self) -> None:
        """Forget everything, a latched fault included: the next reading is a first one."""
        nu, nf = self.robot.nu, len(self.robot.feet)
        self.memory = SafetyMemory(
            position=np.zeros(nu),
            velocity=np.zeros(nu),
            gyro=np.zeros(3),
            accelerometer=np.zeros(3),
            feet=np.zeros(nf),
            asked=np.zeros(nu),
            drift=np.zeros(nu),
            lag=np.zeros(nu),
            up=np.zeros(3),
            lean=np.zeros(3),
            joints=np.zeros((nu, 4), dtype=np.int64),
            counts=np.zeros(5, dtype=np.int64),
            same_feet=np.zeros(nf, dtype=np.int64),
            present=np.zeros(3, dtype=np.int64),
            notes=np.zeros(len(NOTES), dtype=np.int64),
            latched=np.zeros(2, dtype=np.int64),
            details=np.zeros(2),
            stamps=np.zeros(2),
        )
        self._fault: Fault | None = None
        self._raised: tuple[int, str] = (checks.NOTHING, "")

    def warmup(self) -> None:
        """Compile what is compiled at first use."""
        guard.compile()

    @property
    def fault(self) -> Fault | None:
        """That is latched; None while all is well."""
        return self._fault

    @property
    def clamp_counts(self) -> dict[str, int]:
        """How often something was cut, by what: joints times ticks since the last reset, and ticks with a foot lost."""
        return dict(zip(NOTES, self.memory.notes.tolist(), strict=True))

    def raise_fault(self, code: int, what: str) -> None:
        """Say what others have found; the next tick latches it, unless there is a fault already.

        Args:
            code: one of `OTHERS`, which are codes of `safety_checks`.
            what: in words.

        Raises:
            ArgumentError: another code.
        """
        if code not in OTHERS:
            raise ArgumentError(f"code: expected one that others may raise, got {code}")
        if self._raised[0] == checks.NOTHING:
            self._raised = code, what

    def filter_command(
        self, measurement: Measurement, command: MotorCommand | None, *, now: float = 0.0
    ) -> SafetyReport:
        """One tick; once per period, with the newest reading and the command that it led to.

        What has another shape than the robot is a fault, too: nothing here raises.

        Args:
            measurement: the newest reading.  A time stamp that is not later than that of the last reading that
                counted means that there is no newer one; so does one that is NaN, infinite or negative, and one that
                goes on by 50 ms more than `now` does.
            command: what the controller asks for; None where nothing has come: motors are damped at this tick, and no
                fault is latched for it.
            now: the caller's time, also for the fault's [s]; where it stands still, calls are counted, one a period.
        """
        reading = self._reading(measurement)
        asked = self._asked
        wanted = self._damp if command is None else command
        try:
            asked.tau[:] = wanted.tau
            asked.position[:] = wanted.position
            asked.velocity[:] = wanted.velocity
            asked.stiffness[:] = wanted.stiffness
            asked.damping[:] = wanted.damping
        except (ValueError, TypeError):
            asked.tau[:] = np.nan
        raised, what = self._raised
        if command is None and raised == checks.NOTHING:
            raised = checks.UNCOMMANDED
        code = guard(self.limit_arrays, reading, asked, self.memory, _stamp(measurement.time), float(now), raised)
        if code != checks.NOTHING and self._fault is None:
            index, (value, allowed) = int(self.memory.latched[1]), self.memory.details.tolist()
            self._fault = Fault.of(code, index, value, allowed, self.robot, what=what, time=now)
        believed = self.memory.same_feet < self.limit_arrays.frozen
        given = MotorCommand(*frozen(asked))
        return SafetyReport(given, self._fault, believed if self.memory.present[checks.FEET] else believed[:0])

    def _reading(self, m: Measurement) -> Reading:
        nu, nf = self.robot.nu, len(self.robot.feet)
        imu = self.robot.root == "free"  # what is fixed needs none
        return Reading(
            _part(m.position, nu),
            _part(m.velocity, nu),
            _part(m.gyro if imu else None, 3, optional=not imu),
            _part(m.accelerometer if imu else None, 3, optional=not imu),
            _part(m.torque, nu, optional=True),
            _part(m.foot_forces, nf, optional=True),
            _part(m.temperature, nu, optional=True),
        )


def _part(value: object, size: int, *, optional: bool = False) -> Array:
    """An array of a reading; infinite where it is none of this size: NaN alone would say that there is no sensor."""
    if type(value) is np.ndarray and value.dtype is FLOAT and value.shape == (size,) and value.flags.c_contiguous:
        return value
    if value is None and optional:
        return NO_SENSOR
    try:
        array = np.ascontiguousarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        return np.full(size, np.inf)
    return array if array.shape == (size,) else np.full(size, np.inf)


def _stamp(value: object) -> float:
    """A time stamp; NaN where it is no number."""
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return math.nan
