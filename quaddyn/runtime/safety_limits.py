"""`SafetyLimits`: what the safety layer allows, as people say it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..control import JointPD
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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SafetyLimits:
    """What is cut, and what is a fault; limits by joint are one number for all or (nu,) in torque order.

    Attributes:
        effort: torques [N m or N]; the robot's by default.  Cut; measured ones 10 % beyond are a fault.
        rate: change of torques [N m/s]; by default the whole effort in 2 ms.  Cut.
        stiffness: largest gain [N m/rad]; none by default.  Cut.
        damping: largest gain [N m s/rad]; none by default.  Cut.
        speed: [rad/s or m/s]; the robot's by default, 100 where it has none.  Torques that drive are cut from 90 % on;
            beyond is a fault.
        power: of all motors [W]; none by default.
        temperature: of a motor [degrees Celsius].
        tilt: largest angle between the base's vertical axis and the vertical [rad].
        overtravel: how far a joint may be beyond its position limits [rad or m].
        jump: how far a position may be from where velocities lead, within a period and in sum [rad or m].
        drift: rate at which gyroscope and accelerometer may disagree about the vertical [rad/s].
        following: how far measured torques may stay off what is asked for, as a share of the effort limits.
        stale: how long a reading may be the last one [s].
        patience: how long a velocity, torque, temperature or power may be beyond its limit [s].
        frozen: how long readings may be equal to the last bit while the robot moves [s].
        brake: damping that a fault ends in [N m s/rad]; that of `JointPD` by default.
    """

    effort: Numbers | None = None
    rate: Numbers | None = None
    stiffness: Numbers = np.inf
    damping: Numbers = np.inf
    speed: Numbers | None = None
    power: float = np.inf
    temperature: Numbers = 80.0
    tilt: float = 1.0
    overtravel: float = 0.1
    jump: Numbers = 0.05
    drift: float = 0.15
    following: float = 0.15
    stale: float = 0.01
    patience: float = 0.01
    frozen: float = 0.05
    brake: Numbers | None = None

    def allowed(self, robot: Robot, dt: float, imu: Numbers | None = None) -> Allowed:
        """By joint and period, as the compiled layer takes them.

        Args:
            robot: that they are for.
            dt: period of the loop [s].
            imu: (3, 3) rotation from the IMU's axes to the base's; none by default.

        Raises:
            ArgumentError: a limit of another shape, NaN, or not positive; names it.
        """
        nu = robot.nu

        def each(name: str, default: Array | None = None) -> Array:
            value = getattr(self, name)
            return _each(name, default if value is None else value, nu)

        def ticks(name: str) -> int:
            return max(1, round(positive(name, getattr(self, name)) / dt))

        effort = each("effort", robot.effort_limits)
        known = np.where(np.isfinite(robot.velocity_limits), robot.velocity_limits, DEFAULT_SPEED)
        return Allowed(
            effort=effort,
            rate=dt * each("rate", effort / 2e-3),
            speed=each("speed", known),
            lower=np.maximum(robot.lower_position_limits, -BOUNDLESS),
            upper=np.minimum(robot.upper_position_limits, BOUNDLESS),
            temperature=each("temperature"),
            stiffness=each("stiffness"),
            damping=each("damping"),
            brake=each("brake", JointPD(robot, dt=dt).kd if self.brake is None else None),
            jump=each("jump"),
            turning=JointPositions.actuated(robot).turning.astype(np.int64),
            imu=_rotation(imu),
            power=min(positive("power", self.power, infinite=True), BOUNDLESS),
            tilt=float(np.cos(positive("tilt", self.tilt, infinite=True))),
            overtravel=positive("overtravel", self.overtravel, infinite=True),
            drift=positive("drift", self.drift, infinite=True),
            following=positive("following", self.following, infinite=True),
            period=dt,
            stale=ticks("stale"),
            patience=ticks("patience"),
            frozen=ticks("frozen"),
        )


def _each(name: str, value: Numbers | None, size: int) -> Array:
    """(size,) from a number or as many, all positive; what is infinite becomes `BOUNDLESS`."""
    array = floats(name, value)
    if array.shape not in ((), (size,)):
        raise ArgumentError(f"{name}: expected a number or {size} of them, got shape {array.shape}")
    if not (array > 0.0).all():  # also true of NaN
        raise ArgumentError(f"{name}: expected positive numbers, got {array.min():g}")
    return np.minimum(np.broadcast_to(array, (size,)).astype(np.float64), BOUNDLESS)


def _rotation(imu: Numbers | None) -> Array:
    R = np.eye(3) if imu is None else floats("imu", imu).astype(np.float64)
    if R.shape != (3, 3) or not np.allclose(R @ R.T, np.eye(3), atol=1e-6) or np.linalg.det(R) < 0.0:
        raise ArgumentError("imu: expected a rotation matrix (3, 3)")
    return np.ascontiguousarray(R)
