"""`Safety`: stands between controller and motors, knows neither, and ends faults in damping."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..attributes import StrictAttributes
from ..control import JointPD
from ..errors import ArgumentError, ArgumentTypeError
from ..robot.arguments import Numbers, floats, number
from ..robot.joint_positions import JointPositions
from ..robot.robot import Robot
from ..simulation.sensors import Measurement
from ..urdf.tree import Array, FrozenArrays, frozen
from . import safety_checks as checks
from .faults import Fault
from .motor_command import MotorCommand
from .safety_checks import Reading, SafetyLimits, SafetyMemory
from .safety_core import Asked, guard

#: What stands for no limit, since limits are multiplied.
BOUNDLESS = 1e9
#: Of joints whose record has none [rad/s or m/s].
DEFAULT_SPEED = 100.0
NOTES = ("torque", "torque rate", "velocity", "position", "gain", "lost foot")


@dataclass(frozen=True, slots=True, eq=False)
class SafetyReport(FrozenArrays):
    """What a tick of the safety layer has made of a command.

    Attributes:
        command: what the motors are to get.
        fault: that is latched; None while all is well.
        feet: (nf,) which foot sensors are to be believed; empty where there are none.
    """

    command: MotorCommand
    fault: Fault | None
    feet: np.ndarray[tuple[int], np.dtype[np.bool_]]


class Safety(StrictAttributes, fixed=("robot", "dt", "limits")):
    """Checks readings and commands at every tick; commands are cut at limits, faults end in damping until a reset.

    What is *cut* goes on: gains, torque, its rate, torques that drive a joint that is as fast as it may be or that
    stands at a stop.  `cuts` counts it.  A foot sensor that is stuck or reads NaN is left out, and the robot goes on
    by its gait's schedule.

    What is a *fault* ends in damping at once, and stays: readings that are not finite, stale, frozen, that jump or
    contradict each other; positions, velocities, torques, temperatures and power beyond limits; motors that do not
    do what they are asked for; a trunk that leans; a command that is not finite; and whatever others `raise_fault`.

    It knows no controller and no dynamics, and is compiled; `quaddyn.runtime.export_safety` writes it as C99.

    Args:
        robot: any robot.
        dt: period of the loop [s].
        effort: torque limits [N m]; the record's by default.
        speed: velocity limits [rad/s]; the record's by default, 100 rad/s where it has none.
        rate: of torques [N m/s]; by default the whole effort in 2 ms.
        power: of all motors [W]; none by default.
        temperature: [degrees Celsius].
        tilt: largest angle between the base's vertical axis and the vertical [rad].
        overtravel: how far beyond position limits is a fault [rad or m].
        jump: how far a position may be from where its velocity leads within a period [rad or m].
        drift: rate at which gyroscope and accelerometer may disagree about the vertical [rad/s].
        following: how far measured torques may stay off what is asked for, as a share of the effort limits.
        stiffness, damping: largest gains [N m/rad, N m s/rad]; none by default.
        brake: damping of the reaction [N m s/rad]; that of `JointPD` by default.
        stale: how long a reading may be the last one [s].
        patience: how long a velocity, torque, temperature or power may be beyond its limit [s].
        frozen: how long readings may be equal to the last bit while the robot moves [s].
        imu: (3, 3) rotation from the IMU's axes to the base's; none by default.

    Limits by joint are numbers for all or (nu,) in torque order.

    Raises:
        ArgumentError: a limit of another shape, NaN, or not positive.
    """

    def __init__(
        self,
        robot: Robot,
        *,
        dt: float,
        effort: Numbers | None = None,
        speed: Numbers | None = None,
        rate: Numbers | None = None,
        power: float = np.inf,
        temperature: Numbers = 80.0,
        tilt: float = 1.0,
        overtravel: float = 0.1,
        jump: Numbers = 0.05,
        drift: float = 0.15,
        following: float = 0.15,
        stiffness: Numbers = np.inf,
        damping: Numbers = np.inf,
        brake: Numbers | None = None,
        stale: float = 0.01,
        patience: float = 0.01,
        frozen: float = 0.05,
        imu: Numbers | None = None,
    ) -> None:
        if not isinstance(robot, Robot):
            raise ArgumentTypeError(f"robot: expected a Robot from quaddyn.load, got {type(robot).__name__}")
        self.robot, self.dt = robot, _positive("dt", dt)
        nu = robot.nu
        most = _each("effort", robot.effort_limits if effort is None else effort, nu)
        known = np.where(np.isfinite(robot.velocity_limits), robot.velocity_limits, DEFAULT_SPEED)
        if brake is None:
            brake = JointPD(robot, dt=self.dt).kd
        self.limits = SafetyLimits(
            effort=most,
            rate=self.dt * (most / 2e-3 if rate is None else _each("rate", rate, nu)),
            speed=_each("speed", known if speed is None else speed, nu),
            lower=np.maximum(robot.lower_position_limits, -BOUNDLESS),
            upper=np.minimum(robot.upper_position_limits, BOUNDLESS),
            temperature=_each("temperature", temperature, nu),
            stiffness=_each("stiffness", stiffness, nu),
            damping=_each("damping", damping, nu),
            brake=_each("brake", brake, nu),
            jump=_each("jump", jump, nu),
            turning=JointPositions.actuated(robot).turning.astype(np.int64),
            imu=_rotation(imu),
            power=min(_positive("power", power), BOUNDLESS),
            tilt=float(np.cos(_positive("tilt", tilt))),
            overtravel=_positive("overtravel", overtravel),
            drift=_positive("drift", drift),
            following=_positive("following", following),
            period=self.dt,
            stale=self._ticks("stale", stale),
            patience=self._ticks("patience", patience),
            frozen=self._ticks("frozen", frozen),
        )
        none = [np.zeros(nu) for _ in range(5)]
        self._asked = Asked(*none)
        self.reset()

    def _ticks(self, name: str, seconds: float) -> int:
        return max(1, round(_positive(name, seconds) / self.dt))

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
            notes=np.zeros(len(NOTES), dtype=np.int64),
            latched=np.zeros(2, dtype=np.int64),
            details=np.zeros(2),
        )
        self._fault: Fault | None = None
        self._raised: tuple[int, str] = (checks.NOTHING, "")
        self._time = -np.inf

    def warmup(self) -> None:
        """Compile what is compiled at first use."""
        guard.ready()

    @property
    def fault(self) -> Fault | None:
        """That is latched; None while all is well."""
        return self._fault

    @property
    def cuts(self) -> dict[str, int]:
        """How often something was cut, by what: joints times ticks since the last reset, and ticks with a foot lost."""
        return dict(zip(NOTES, self.memory.notes.tolist(), strict=True))

    def raise_fault(self, code: int, what: str) -> None:
        """Say what others have found; the next tick latches it, unless there is a fault already.

        Args:
            code: `CONTROLLER_FAILED`, `CONTROLLER_LATE`, `LINK_LOST` or `STOPPED` of `safety_checks`.
            what: in words.

        Raises:
            ArgumentError: another code.
        """
        if code not in (checks.CONTROLLER_FAILED, checks.CONTROLLER_LATE, checks.LINK_LOST, checks.STOPPED):
            raise ArgumentError(f"code: expected one that others may raise, got {code}")
        if self._raised[0] == checks.NOTHING:
            self._raised = code, what

    def examine(self, measurement: Measurement, command: MotorCommand, *, now: float = 0.0) -> SafetyReport:
        """One tick; once per period, with the newest reading and the command that it led to.

        What has another shape than the robot is a fault, too: nothing here raises.

        Args:
            measurement: the newest reading; the same time stamp as at the last tick means that there is no newer one.
            command: what the controller asks for.
            now: the caller's time, for the fault's [s].
        """
        fresh = bool(measurement.time != self._time)
        elapsed = measurement.time - self._time if fresh and np.isfinite(self._time) else self.dt
        if fresh and np.isfinite(measurement.time):
            self._time = measurement.time
        reading = self._reading(measurement)
        asked = self._asked
        try:
            for name in Asked._fields:
                getattr(asked, name)[:] = getattr(command, name)
        except (ValueError, TypeError):
            asked.tau[:] = np.nan
        raised, what = self._raised
        code = guard(self.limits, reading, asked, self.memory, fresh, float(elapsed), raised)
        if code != checks.NOTHING and self._fault is None:
            index, (value, allowed) = int(self.memory.latched[1]), self.memory.details.tolist()
            self._fault = Fault.of(code, index, value, allowed, self.robot, what=what, time=now)
        believed = self.memory.same_feet < self.limits.frozen
        given = MotorCommand(*(frozen(part) for part in asked))
        return SafetyReport(given, self._fault, believed if len(reading.feet) else believed[:0])

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
    """An array of a reading; NaN where it is none of this size."""
    if value is None and optional:
        return np.zeros(0)
    try:
        array = np.ascontiguousarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        return np.full(size, np.nan)
    return array if array.shape == (size,) else np.full(size, np.nan)


def _each(name: str, value: Numbers, size: int) -> Array:
    """(size,) from a number or as many, all positive; what is infinite becomes `BOUNDLESS`."""
    array = floats(name, value)
    if array.shape not in ((), (size,)):
        raise ArgumentError(f"{name}: expected a number or {size} of them, got shape {array.shape}")
    if not (array > 0.0).all():  # also true of NaN
        raise ArgumentError(f"{name}: expected positive numbers, got {array.min():g}")
    return np.minimum(np.broadcast_to(array, (size,)).astype(np.float64), BOUNDLESS)


def _positive(name: str, value: float) -> float:
    if not (found := number(name, value)) > 0.0:
        raise ArgumentError(f"{name}: expected a positive number, got {value}")
    return found


def _rotation(imu: Numbers | None) -> Array:
    R = np.eye(3) if imu is None else floats("imu", imu).astype(np.float64)
    if R.shape != (3, 3) or not np.allclose(R @ R.T, np.eye(3), atol=1e-6) or np.linalg.det(R) < 0.0:
        raise ArgumentError("imu: expected a rotation matrix (3, 3)")
    return np.ascontiguousarray(R)
