"""`SafetyLimits`: what the safety layer allows, as people say it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..control import JointPD
from ..deprecation import renamed_attributes, renamed_fields
from ..errors import ArgumentError
from ..robot.arguments import Numbers, floats, positive
from ..robot.joint_positions import JointPositions
from ..robot.robot import Robot
from ..urdf.tree import Array
from .safety_checks import Allowed

#: What stands for no limit, since limits are multiplied.
BOUNDLESS = 1e9
#: Of joints whose record has none [rad/s or m/s].
DEFAULT_SPEED = 100.0


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
    """What is cut, and what is a fault; limits by joint are one number for all or (nu,) in torque order.

    Attributes:
        max_torque: torques [N m or N]; the robot's by default.  Cut; measured ones 10 % beyond are a fault.
        max_torque_rate: change of torques [N m/s]; by default the whole effort in 2 ms.  Cut.
        max_stiffness: largest gain [N m/rad]; none by default.  Cut.
        max_damping: largest gain [N m s/rad]; none by default.  Cut.
        max_speed: joint speed [rad/s or m/s]; the robot's limits by default, 100 where it has none.  Torques that
            accelerate a joint are reduced from 90 % of this speed on; a higher speed is a fault.
        max_power: of all motors [W]; none by default.
        max_temperature: of a motor [degrees Celsius].
        max_tilt: largest angle between the base's vertical axis and the vertical [rad].
        max_overtravel: how far a joint may be beyond its position limits [rad or m].
        max_position_jump: how far a position may be from where velocities lead, within a period and in sum [rad or m].
        max_tilt_drift_rate: rate at which gyroscope and accelerometer may disagree about the vertical [rad/s].
        max_torque_tracking_error: low-passed difference between measured and commanded torques, divided by the torque
            limits.
        max_reading_age: how long a reading may be the last one [s].
        violation_time: how long a velocity, torque, temperature or power may be beyond its limit [s].
        max_frozen_time: how long readings may be equal to the last bit while the robot moves [s].
        fault_damping: damping that a fault ends in [N m s/rad]; that of `JointPD` by default.
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

    def to_arrays(self, robot: Robot, dt: float, imu_rotation: Numbers | None = None) -> Allowed:
        """By joint and period, as the compiled layer takes them.

        Args:
            robot: that they are for.
            dt: period of the loop [s].
            imu_rotation: (3, 3) rotation from the IMU's axes to the base's; none by default.

        Raises:
            ArgumentError: a limit of another shape, NaN, or not positive; names it.
        """
        nu = robot.nu

        def each(name: str, default: Array | None = None) -> Array:
            value = getattr(self, name)
            return _each(name, default if value is None else value, nu)

        def ticks(name: str) -> int:
            return max(1, round(positive(name, getattr(self, name)) / dt))

        effort = each("max_torque", robot.effort_limits)
        known = np.where(np.isfinite(robot.velocity_limits), robot.velocity_limits, DEFAULT_SPEED)
        return Allowed(
            effort=effort,
            rate=dt * each("max_torque_rate", effort / 2e-3),
            speed=each("max_speed", known),
            lower=np.maximum(robot.lower_position_limits, -BOUNDLESS),
            upper=np.minimum(robot.upper_position_limits, BOUNDLESS),
            temperature=each("max_temperature"),
            stiffness=each("max_stiffness"),
            damping=each("max_damping"),
            brake=each("fault_damping", JointPD(robot, dt=dt).kd if self.fault_damping is None else None),
            jump=each("max_position_jump"),
            turning=JointPositions.actuated(robot).turning.astype(np.int64),
            imu=_rotation(imu_rotation),
            power=min(positive("max_power", self.max_power, infinite=True), BOUNDLESS),
            tilt=float(np.cos(positive("max_tilt", self.max_tilt, infinite=True))),
            overtravel=positive("max_overtravel", self.max_overtravel, infinite=True),
            drift=positive("max_tilt_drift_rate", self.max_tilt_drift_rate, infinite=True),
            following=positive("max_torque_tracking_error", self.max_torque_tracking_error, infinite=True),
            period=dt,
            stale=ticks("max_reading_age"),
            patience=ticks("violation_time"),
            frozen=ticks("max_frozen_time"),
        )


def _each(name: str, value: Numbers | None, size: int) -> Array:
    """(size,) from a number or as many, all positive; what is infinite becomes `BOUNDLESS`."""
    array = floats(name, value)
    if array.shape not in ((), (size,)):
        raise ArgumentError(f"{name}: expected a number or {size} of them, got shape {array.shape}")
    if not (array > 0.0).all():  # also true of NaN
        raise ArgumentError(f"{name}: expected positive numbers, got {array.min():g}")
    return np.minimum(np.broadcast_to(array, (size,)).astype(np.float64), BOUNDLESS)


def _rotation(imu_rotation: Numbers | None) -> Array:
    R = np.eye(3) if imu_rotation is None else floats("imu_rotation", imu_rotation).astype(np.float64)
    if R.shape != (3, 3) or not np.allclose(R @ R.T, np.eye(3), atol=1e-6) or np.linalg.det(R) < 0.0:
        raise ArgumentError("imu_rotation: expected a rotation matrix (3, 3)")
    return np.ascontiguousarray(R)
