"""`SafetyLimits`: limits of the safety layer, with defaults from the robot."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, fields

import numpy as np

from ..control import JointPD
from ..deprecation import renamed_attributes, renamed_fields
from ..errors import ArgumentError
from ..robot.arguments import Numbers, check_array, check_positive
from ..robot.home import JointPositions
from ..robot.robot import Robot
from ..urdf.tree import Array
from .safety_checks import LimitArrays

#: Value of an absent limit; finite, since limits are multiplied.
NO_LIMIT = 1e9
#: Speed limit of joints without one in the model [rad/s or m/s].
DEFAULT_SPEED = 100.0
#: Largest values that readings can exceed: rate of the vertical that the accelerometer corrects [rad/s], fraction of
#: the torque limit, temperature of a working motor [degrees Celsius], and multiples of the limits of the robot.
MAX_TILT_DRIFT_RATE, MAX_TRACKING_ERROR, MAX_TEMPERATURE, MAX_LIMIT_RATIO = 2.0, 2.1, 250.0, 5.0
#: Powers of ten from this value on mean that there is no limit.
MIN_UNLIMITED_VALUE = 1e3
#: Maximum of the times after which a violation is a fault [s]; longer ones would not protect the robot.
MAX_TIME = 1.0


@renamed_attributes(allowed="to_arrays")
@renamed_fields(
    effort="max_torque",
    rate="max_torque_rate",
    stiffness="max_stiffness",
    damping="max_damping",
    speed="max_speed",
    power="max_power",
    temperature="max_temperature",
    tilt="max_tilt",
    overtravel="max_overtravel",
    jump="max_position_jump",
    drift="max_tilt_drift_rate",
    following="max_torque_tracking_error",
    stale="max_reading_age",
    patience="violation_time",
    frozen="max_frozen_time",
    brake="fault_damping",
)
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SafetyLimits:
    """Limits of the safety layer; a limit per joint is one number for all joints or an array (nu,) in torque order.

    Attributes:
        max_torque: joint torque [N m or N]; None: the robot's limits.  Commands above are clamped; measured torques
            more than 10 % above are a fault.
        max_torque_rate: rate of change of the torque [N m/s]; None: from zero to the torque limit in 2 ms.  Clamped.
        max_stiffness: stiffness gain [N m/rad]; unlimited by default.  Clamped.
        max_damping: damping gain [N m s/rad]; unlimited by default.  Clamped.
        max_speed: joint speed [rad/s or m/s]; None: the robot's limits, 100 where it has none.  Torques that accelerate
            a joint are reduced from 90 % of this speed on; a higher measured speed is a fault.
        max_power: mechanical power of all motors together [W]; unlimited by default.
        max_temperature: motor temperature [degrees Celsius].
        max_tilt: angle between the base's z axis and the vertical, at most pi; pi and infinity permit every tilt [rad].
        max_overtravel: distance of a joint beyond its position limits [rad or m].
        max_position_jump: difference between a position and the integral of the velocity, within a period and in sum
            [rad or m].
        max_tilt_drift_rate: rate at which the verticals of gyroscope and accelerometer separate [rad/s].
        max_torque_tracking_error: low-pass filtered difference between measured and commanded torque, as a
            fraction of the torque limit.
        max_reading_age: time without a new reading, at most 1 s [s].
        violation_time: time for which a velocity, torque, temperature or power may exceed its limit, at most 1 s [s].
        max_frozen_time: time for which readings may be bitwise equal while the robot moves, at most 1 s [s].
        fault_damping: damping of the motors after a fault [N m s/rad]; None: that of `JointPD` for
            twice the control period, which is stable also if torques take effect a period late.
    """

    max_torque: Numbers | None = None
    max_torque_rate: Numbers | None = None
    max_stiffness: Numbers = np.inf
    max_damping: Numbers = np.inf
    max_speed: Numbers | None = None
    max_power: float = np.inf
    max_temperature: Numbers = 80.0
    max_tilt: float = 1.0
    max_overtravel: float = 0.1
    max_position_jump: Numbers = 0.05
    max_tilt_drift_rate: float = 0.15
    max_torque_tracking_error: float = 0.15
    max_reading_age: float = 0.01
    violation_time: float = 0.01
    max_frozen_time: float = 0.05
    fault_damping: Numbers | None = None

    def to_arrays(self, robot: Robot, dt: float, imu_rotation: Numbers | None = None) -> LimitArrays:
        """Returns the limits by joint and period, for the compiled layer.

        Args:
            robot: robot of the limits.
            dt: period of the loop [s].
            imu_rotation: (3, 3) rotation matrix from IMU axes to base axes; None: identity.

        Raises:
            ArgumentError: a limit of a wrong shape, NaN, or not positive, a tilt in degrees, or a time above 1 s, such
                as one in milliseconds; the message names it.

        Warns:
            RuntimeWarning: a finite limit that no reading can exceed, such as one in degrees or percent.
        """
        nu = robot.nu

        def per_joint(name: str, default: Array | None = None) -> Array:
            value = getattr(self, name)
            return _per_joint(name, default if value is None else value, nu)

        def ticks(name: str) -> int:
            time = check_positive(name, getattr(self, name))
            if time > MAX_TIME:
                raise ArgumentError(f"{name}: expected at most {MAX_TIME:g} s, got {time:g} s; pass seconds")
            return max(1, round(time / dt))

        effort = per_joint("max_torque", robot.effort_limits)
        known = np.where(np.isfinite(robot.velocity_limits), robot.velocity_limits, DEFAULT_SPEED)
        arrays = LimitArrays(
            max_torque=effort,
            max_torque_step=dt * per_joint("max_torque_rate", effort / 2e-3),
            max_speed=per_joint("max_speed", known),
            min_position=np.maximum(robot.lower_position_limits, -NO_LIMIT),
            max_position=np.minimum(robot.upper_position_limits, NO_LIMIT),
            max_temperature=per_joint("max_temperature"),
            max_stiffness=per_joint("max_stiffness"),
            max_damping=per_joint("max_damping"),
            # Damping that is stable also if torques take effect a period late.
            fault_damping=per_joint(
                "fault_damping", JointPD(robot, dt=2.0 * dt).kd if self.fault_damping is None else None
            ),
            max_position_jump=per_joint("max_position_jump"),
            is_continuous=JointPositions.actuated(robot).turning.astype(np.int64),
            imu_rotation=_validated_rotation(imu_rotation),
            max_power=min(check_positive("max_power", self.max_power, infinite=True), NO_LIMIT),
            min_cos_tilt=_min_cosine("max_tilt", self.max_tilt),
            max_overtravel=check_positive("max_overtravel", self.max_overtravel, infinite=True),
            max_tilt_drift_rate=check_positive("max_tilt_drift_rate", self.max_tilt_drift_rate, infinite=True),
            max_torque_tracking_error=check_positive(
                "max_torque_tracking_error", self.max_torque_tracking_error, infinite=True
            ),
            period=dt,
            max_reading_periods=ticks("max_reading_age"),
            violation_readings=ticks("violation_time"),
            max_frozen_readings=ticks("max_frozen_time"),
        )
        self._warn_of_ineffective_limits(robot)
        return arrays

    def _warn_of_ineffective_limits(self, robot: Robot) -> None:
        """Warns of finite limits that no reading can exceed, except powers of ten from 1000 on."""
        turning = JointPositions.actuated(robot).turning
        travel = np.where(turning, np.pi, robot.upper_position_limits - robot.lower_position_limits)
        defaults = {field.name: field.default for field in fields(self)}
        for name, largest, what, advice in (
            ("max_position_jump", travel, "range of the joint", "pass radians"),
            ("max_overtravel", np.pi, "half a turn", "pass radians"),
            ("max_speed", MAX_LIMIT_RATIO * robot.velocity_limits, "multiple of the velocity limit", "pass rad/s"),
            ("max_torque", MAX_LIMIT_RATIO * robot.effort_limits, "multiple of the effort limit", "pass N m"),
            ("max_tilt_drift_rate", MAX_TILT_DRIFT_RATE, "largest rate that is measured", "pass rad/s"),
            ("max_torque_tracking_error", MAX_TRACKING_ERROR, "largest fraction", "pass a fraction, not percent"),
            ("max_temperature", MAX_TEMPERATURE, "temperature of any motor", "pass degrees Celsius"),
        ):
            value = getattr(self, name)
            if (
                np.ndim(value) == 0 and value == defaults[name]
            ):  # defaults cause no warning, even for joints with a small range
                continue
            values = np.broadcast_to(value, (robot.nu,))
            bounds = np.broadcast_to(largest, (robot.nu,))
            digits = np.log10(np.where(np.isfinite(values), values, 1.0))
            is_unlimited = (values >= MIN_UNLIMITED_VALUE) & (digits % 1.0 == 0.0)
            void = np.flatnonzero(np.isfinite(values) & ~is_unlimited & (values > bounds))
            if void.size:
                i = int(void[0])
                joint = f" of {robot.actuated[i]}" if np.ndim(largest) else ""
                warnings.warn(
                    f"{name}: {values[i]:g} is above the {what}{joint}, {bounds[i]:.3g}, so that nothing is checked; "
                    f"{advice}, or inf for no limit",
                    RuntimeWarning,
                    stacklevel=4,
                )


def _min_cosine(name: str, angle: float) -> float:
    """Returns the cosine of an angle up to pi [rad]; that of pi for infinity."""
    checked = check_positive(name, angle, infinite=True)
    if np.pi < checked < np.inf:
        raise ArgumentError(f"{name}: expected an angle up to pi [rad], got {checked:g}; pass radians, not degrees")
    return float(np.cos(min(checked, np.pi)))


def _per_joint(name: str, value: Numbers | None, size: int) -> Array:
    """Returns (size,) from a number or as many numbers, all positive; infinity becomes `NO_LIMIT`."""
    array = check_array(name, value)
    if array.shape not in ((), (size,)):
        raise ArgumentError(f"{name}: expected one number or an array ({size},), got shape {array.shape}")
    if not (array > 0.0).all():  # also true of NaN
        raise ArgumentError(f"{name}: expected positive numbers, got {array.min():g}")
    return np.minimum(np.broadcast_to(array, (size,)).astype(np.float64), NO_LIMIT)


def _validated_rotation(imu_rotation: Numbers | None) -> Array:
    """Returns the rotation matrix (3, 3) after validating it; None: identity."""
    R = np.eye(3) if imu_rotation is None else check_array("imu_rotation", imu_rotation).astype(np.float64)
    if R.shape != (3, 3) or not np.allclose(R @ R.T, np.eye(3), atol=1e-6) or np.linalg.det(R) < 0.0:
        raise ArgumentError("imu_rotation: expected a rotation matrix (3, 3), orthonormal with determinant 1")
    return np.ascontiguousarray(R)
