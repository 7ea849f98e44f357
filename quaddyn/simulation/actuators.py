"""`Actuators`: what a robot's motors really deliver of the torque they are asked for, and what they lose and weigh."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..compiler import ByteVector, Vector, compiled, entry
from ..deprecation import renamed_attributes
from ..errors import ArgumentError, ArgumentTypeError
from ..robot.arguments import check_vector
from ..robot.configuration import simple_joints
from ..robot.robot import Robot
from ..strict_attributes import StrictAttributes
from ..urdf.tree import Array, frozen

#: Width of a limit without a corner, and least share of a torque that is more than none.
SHARP = 1e-9
#: Longest delay [s]; a plant keeps the torques of as long.
MAX_DELAY = 1.0


class TorqueSpeedLimits(NamedTuple):
    """The torque-speed lines of `Actuators` for compiled code.

    Attributes:
        max_torque: (nu,) largest torque [N m or N].
        no_load_speed: (nu,) speed at which no torque drives any more [rad/s or m/s].
        derating_range: (nu,) how much less the corner speed is [rad/s or m/s].
        is_speed_limited: (nu,) whether there is such a speed.
    """

    max_torque: Vector
    no_load_speed: Vector
    derating_range: Vector
    is_speed_limited: ByteVector


@compiled()
def limit_motor_torques(motors: TorqueSpeedLimits, tau: Vector, turning: Vector, out: Vector) -> None:
    """The torques that motors give, into `out` (nu,), of those that arrive while they turn at these speeds (nu,)."""
    for j in range(len(out)):
        given = min(max(tau[j], -motors.max_torque[j]), motors.max_torque[j])
        if motors.is_speed_limited[j]:
            speed = turning[j]
            share = min((motors.no_load_speed[j] - abs(speed)) / motors.derating_range[j], 1.0)
            most = motors.max_torque[j] * max(share, SHARP) if share > 0.0 else 0.0  # inf stays inf, but for nothing
            if given * speed > 0.0:
                given = min(max(given, -most), most)
        out[j] = given


@entry("motors")
def limit_motor_torques_entry(motors: TorqueSpeedLimits, tau: Vector, turning: Vector, out: Vector) -> None:
    """`limit_motor_torques`."""
    limit_motor_torques(motors, tau, turning, out)


@renamed_attributes(
    arguments="constructor_arguments", deliver="apply_limits", motors="torque_speed_limits", rotor="motor_side_inertia"
)
class Actuators(
    StrictAttributes,
    fixed=(
        "robot", "effort", "no_load_speed", "corner_speed", "delay", "backlash", "damping", "friction", "armature",
        "viscous", "coulomb", "rotor_inertia", "motor_side_inertia", "torque_speed_limits",
    ),
):  # fmt: skip
    """Motors with gears at the actuated joints.

    A motor delivers any torque up to its effort limit at low speed.  Beyond the corner speed its own voltage eats up
    what drives it, and the torque that it can give *in the direction of motion* falls linearly, to nothing at the
    no-load speed (the line of a DC motor at constant voltage); braking keeps the full torque.

    A torque takes effect `delay` after it was asked for, before that there is none; where the delay is no whole number
    of a plant's steps, the mean over the step is the right one.  This is the drive's own delay: where springs and
    dampers make up a torque, they are late, too.

    Friction and rotor inertia come on top of what the robot's record says of its joints.

    A gear with backlash lets its motor turn by so much before it moves the joint, from stop to stop.  Motor and joint
    are then two masses with a gap, whose teeth are rigid and meet without bouncing (Nordin and Gutman 2002,
    "Controlling mechanical systems with backlash: a survey", without their elastic shaft).  Rotor inertia, the record's
    armature of the joint and the friction given here are on the motor's side of the gap; the record's friction is on
    the joint's.  Encoders sit on the motors, as in most legged robots: `Sensors` read where the motor is, gear ratio
    divided out, and a plant's ``q`` is where the joint is.  Plants begin in the middle of the gaps.

    Args:
        robot: any robot.
        effort: largest torque [N m or N]; the record's ``effort_limits`` by default.
        corner_speed: up to which the full torque drives [rad/s or m/s]; the no-load speed (a sharp limit) by default.
        no_load_speed: at which no torque drives any more; none by default.
        viscous: friction in proportion to speed [N m s/rad or N s/m].
        coulomb: friction against any motion [N m or N].
        rotor_inertia: of the rotor, seen at the joint (times the gear ratio squared) [kg m^2 or kg].
        delay: from a torque that is asked for to the one that acts, 1 s at most [s].
        backlash: of the gear, seen at the joint, from stop to stop [rad or m]; only with inertia on the motor's side.

    Each is a number for all joints or (nu,) in torque order.

    Attributes:
        effort, corner_speed, no_load_speed, delay, backlash: (nu,) read-only.
        damping, friction, armature: (nv,) of the robot's joints with those of the motors, read-only.
        viscous, coulomb, rotor_inertia: (nu,) of the motors alone, read-only.
        motor_side_inertia: (nu,) inertia on the motor's side, the record's armature included, read-only.
        torque_speed_limits: torque-speed lines for compiled code.

    Raises:
        ArgumentError: a value that is negative, NaN or of another shape, a corner beyond the no-load speed, a delay
            that is too long, or backlash without inertia on the motor's side.
    """

    def __init__(
        self,
        robot: Robot,
        *,
        effort: Array | float | None = None,
        corner_speed: Array | float | None = None,
        no_load_speed: Array | float = np.inf,
        viscous: Array | float = 0.0,
        coulomb: Array | float = 0.0,
        rotor_inertia: Array | float = 0.0,
        delay: Array | float = 0.0,
        backlash: Array | float = 0.0,
    ) -> None:
        if not isinstance(robot, Robot):
            raise ArgumentTypeError(f"robot: expected a Robot from quaddyn.load, got {type(robot).__name__}")
        self.robot, nu = robot, robot.nu
        self.effort = _each("effort", robot.effort_limits if effort is None else effort, nu, bounded=False)
        self.no_load_speed = _each("no_load_speed", no_load_speed, nu, bounded=False)
        self.corner_speed = self.no_load_speed
        if corner_speed is not None:
            self.corner_speed = _each("corner_speed", corner_speed, nu, bounded=False)
            if (self.corner_speed > self.no_load_speed).any():
                raise ArgumentError(f"corner_speed: {corner_speed} is beyond the no-load speed {no_load_speed}")
        self.delay = _each("delay", delay, nu, bounded=True)
        if (self.delay > MAX_DELAY).any():
            raise ArgumentError(f"delay: expected {MAX_DELAY:g} s at most, got {delay}; is it in seconds?")
        index, added, of_motors = robot.actuated_index, [], []
        for name, value, own in (
            ("viscous", viscous, robot.damping),
            ("coulomb", coulomb, robot.friction),
            ("rotor_inertia", rotor_inertia, robot.armature),
        ):
            total, each = own.copy(), _each(name, value, nu, bounded=True)
            total[index] += each
            added.append(frozen(total))
            of_motors.append(each)
        self.damping, self.friction, self.armature = added
        self.viscous, self.coulomb, self.rotor_inertia = of_motors
        joints = simple_joints(robot.bodies)
        self.motor_side_inertia = frozen(
            self.rotor_inertia + np.array([joints[name].armature for name in robot.actuated])
        )
        self.backlash = _each("backlash", backlash, nu, bounded=True)
        wanting = (self.backlash > 0.0) & (self.motor_side_inertia == 0.0)
        massless = [name for name, bad in zip(robot.actuated, wanting, strict=True) if bad]
        if massless:
            raise ArgumentError(
                f"backlash: needs inertia on the motor's side, of which {', '.join(massless)} "
                f"{'has' if len(massless) == 1 else 'have'} none; give rotor_inertia"
            )
        limited = np.isfinite(self.no_load_speed)
        no_load = np.where(limited, self.no_load_speed, 1.0)
        fall = np.where(limited, np.maximum(no_load - self.corner_speed, SHARP), 1.0)
        self.torque_speed_limits = TorqueSpeedLimits(np.array(self.effort), no_load, fall, limited.astype(np.int8))

    @property
    def constructor_arguments(self) -> dict[str, list[float]]:
        """Keyword arguments of `Actuators` that make the same motors for another robot with the same joints."""
        names = ("effort", "corner_speed", "no_load_speed", "viscous", "coulomb", "rotor_inertia", "delay", "backlash")
        return {name: getattr(self, name).tolist() for name in names}

    def apply_limits(self, tau: Array, v: Array) -> Array:
        """The torques that motors give of those that arrive.

        Args:
            tau: (nu,) asked for, `delay` ago [N m].
            v: (nv,) velocity; motors turn as their joints do.

        Returns:
            (nu,) [N m].

        Raises:
            ArgumentError: wrong shape or type, or not finite.
        """
        out = np.empty(self.robot.nu)
        tau = check_vector("tau", tau, out.shape, f"nu of {self.robot.name}")
        v = check_vector("v", v, (self.robot.nv,), f"nv of {self.robot.name}")
        limit_motor_torques_entry(
            self.torque_speed_limits, np.ascontiguousarray(tau), v[self.robot.actuated_index], out
        )
        return out


def _each(name: str, value: Any, size: int, *, bounded: bool) -> Array:
    """(size,) from a number or as many; `bounded`: infinity is no value."""
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise ArgumentTypeError(f"{name}: expected a number or {size} of them, got {str(value)[:60]!r}") from None
    if array.shape not in ((), (size,)) or not (array >= 0.0).all() or (bounded and not np.isfinite(array).all()):
        what = "finite and not negative" if bounded else "not negative"
        raise ArgumentError(f"{name}: expected a number or {size} of them, {what}, got {value}")
    return frozen(np.broadcast_to(array, (size,)))
