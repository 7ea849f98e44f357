"""`Capability`: what a gait can do on a robot, on level ground and on slopes."""

from __future__ import annotations

import math

import numpy as np

from ..errors import ArgumentError, QuaddynError
from ..robot.arguments import number
from ..robot.robot import Robot
from ..urdf.tree import Array
from ..wbc import JointBounds
from .gait import Gait
from .grip import Grip
from .jump_dynamics import JumpDynamics
from .jump_planner import JumpPlanner
from .leg_limits import LegLimits
from .leg_room import LegRoom
from .motor_guard import MotorGuard
from .poses import Poses
from .proportions import Proportions
from .slope_statics import FRICTION, SlopeStatics
from .slope_verdict import SlopeVerdict
from .trunk import CROUCH

#: Largest speed on ground of known friction, as a multiple of that at which a force towards the centre of mass would
#: leave the friction cone at the ends of a stance.
FRICTION_SPEED = 2.0


class Capability:
    """Limits of velocities, of slopes and of gaits with flight phases.

    Args:
        robot: a quadruped.
        proportions: of the robot.
        guard: knows the limits of the motors.
        bounds: of the joints; None for those of the file alone.
        quick: how many times larger accelerations joints may have in a jump.

    Attributes:
        legs: what of a velocity they can do on level ground.
        quick: as given.
        crouch: how much lower the trunk is on slopes that are only felt, times the sine of their angle [l].
    """

    __slots__ = ("_bounds", "_guard", "_jumps", "_p", "_robot", "_slope", "_statics", "crouch", "legs", "quick")

    def __init__(
        self, robot: Robot, proportions: Proportions, guard: MotorGuard, bounds: JointBounds | None, quick: float
    ) -> None:
        self._robot, self._p, self._guard, self._bounds, self.quick = robot, proportions, guard, bounds, quick
        self._jumps: JumpPlanner | None = None
        self._statics = _statics(robot, proportions)
        closed = self._statics if self._statics is not None and self._statics.quick else None
        poses = None if closed is None else closed.poses
        self.legs = LegLimits(proportions, LegRoom(robot, proportions, poses))
        self.crouch = CROUCH if self._statics is None else self._statics.crouch
        self._slope = SlopeVerdict(closed, proportions.speed)

    def reset(self) -> None:
        """Forget the slope under the robot."""
        self._slope.reset()

    def on_ground(self, gait: Gait, velocity: Array, grip: Grip, yaw: float) -> tuple[Array, str]:
        """The part of a velocity that the ground under the robot allows, and what cuts it; see `SlopeVerdict.within`.

        On ground whose friction is known, by argument or by slips, speed is limited: in a stance of duration T the hips
        pass over a foot from ``v T / 2`` behind to as much ahead, where a force that points at the centre of mass at
        height h has the horizontal fraction ``v T / (2 h)``.  The centre of pressure moves along with the robot between
        two feet, so that `FRICTION_SPEED` times the speed at which that equals the coefficient is possible.

        Args:
            gait: to walk with.
            velocity: (3,) forward and leftward speed [m/s] and yaw rate [rad/s], heading frame; within reach.
            grip: normal and friction of the ground.
            yaw: of the heading frame [rad].
        """
        velocity, why = self._slope.within(gait, velocity, grip, yaw, self._guard.limits)
        known = min(grip.known, grip.shown)
        x, y, turn = velocity.tolist()
        speed = self.legs.speed(x, y, turn)
        if math.isinf(known) or not speed:
            return velocity, why
        p = self._p
        fastest = FRICTION_SPEED * 2.0 * p.height * known / (gait.duty * gait.period * p.time)
        return (velocity, why) if speed <= fastest else (fastest / speed * velocity, FRICTION)

    def slope_limit(self, gait: Gait, velocity: Array, angle: float, direction: float, friction: float) -> str:
        """What keeps the robot from a gait on a slope, "" where nothing does; see `SlopeStatics.limit`.

        Args:
            gait: to walk with.
            velocity: (3,) forward and leftward speed [m/s] and yaw rate [rad/s], heading frame; within reach.
            angle: of the slope [rad].
            direction: uphill, from the robot's forward direction [rad].
            friction: Coulomb's coefficient of the ground.

        Raises:
            ArgumentError: an angle that is not in [0, pi / 2), or a friction below 0.
        """
        angle, direction = number("angle", angle), number("direction", direction)
        friction = number("friction", friction)
        if not (0.0 <= angle < 0.5 * math.pi and math.isfinite(direction) and friction >= 0.0):
            raise ArgumentError(
                "angle, direction, friction: expected a slope in [0, pi/2) rad, a finite direction and a friction of 0 "
                f"or more, got {angle}, {direction}, {friction}"
            )
        statics = self._statics or SlopeStatics(self._robot, self._p)
        return statics.limit(gait, velocity, angle, direction, friction, self._guard.limits)

    @property
    def jumps(self) -> JumpPlanner:
        """Of single jumps, made at first use.

        Raises:
            QuaddynError: legs whose kinematics are refused, as of joints that follow others.
        """
        if self._jumps is None:
            robot, p = self._robot, self._p
            poses = Poses(robot) if self._statics is None else self._statics.poses
            dynamics = JumpDynamics(robot, p, self._guard, self._bounds, poses, self.quick)
            self._jumps = JumpPlanner(p, dynamics, robot.name)
        return self._jumps

    def require(self, gait: Gait, friction: float) -> None:
        """Refuse gaits for which motors are too weak or joints are too slow.

        Args:
            gait: to move with.
            friction: Coulomb's coefficient of the ground.

        Raises:
            ArgumentError: so it is.
        """
        self.legs.within(gait, np.zeros(3))  # its footprint is looked at now, rather than in a tick
        swing = 1e3 * (1.0 - gait.duty) * gait.period * self._p.time
        why, what = self.legs.swinging(gait), f"whose feet are in the air for {swing:.0f} ms"
        if not (why or gait.thrust.steady):
            why = self.slope_limit(gait, np.zeros(3), 0.0, 0.0, friction)
        if why and not gait.thrust.steady:
            what = f"which pushes off with {float(gait.thrust.push.max()):.1f} times the weight"
        if why:
            raise ArgumentError(f"gait: {self._robot.name!r} cannot do {gait.name!r}, {what}: {why}")


def _statics(robot: Robot, proportions: Proportions) -> SlopeStatics | None:
    """None for legs whose kinematics are refused, as of joints that follow others."""
    try:
        return SlopeStatics(robot, proportions)
    except QuaddynError:
        return None
