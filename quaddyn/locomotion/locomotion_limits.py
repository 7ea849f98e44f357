"""`LocomotionLimits`: the velocities, slopes, gaits and jumps of which a robot is capable."""

from __future__ import annotations

import math

import numpy as np

from ..errors import ArgumentError, QuaddynError
from ..robot.arguments import check_number
from ..robot.robot import Robot
from ..urdf.tree import Array
from ..wbc import JointBounds
from .gait import Gait
from .jump_planner import JumpDynamics, JumpPlanner
from .morphology import Morphology
from .slope_limiter import SlopeLimiter, SlopeStatics
from .torque_limiter import TorqueLimiter
from .trunk_controller import KNOWN_SLOPE_LOWERING
from .velocity_limits import LegPoseSolver, LegWorkspace, VelocityLimits


class LocomotionLimits:
    """Limits of velocities, of slopes, of gaits with flight phases, and of jumps.

    Args:
        robot: a quadruped.
        morphology: lengths and units of the robot.
        torque_limiter: limits of the motors.
        bounds: joint bounds of the whole-body controller; None for those of the file alone.
        jump_acceleration_ratio: ratio of the joint accelerations allowed in a jump to those of `bounds`.

    Attributes:
        slope_limiter: limits of velocities on slopes.
        velocity_limits: limits of velocities on level ground.
        jump_acceleration_ratio: ratio of the joint accelerations allowed in a jump to those of `bounds`.
        slope_lowering: lowering of the trunk on slopes in blind locomotion, divided by the sine of their angle [l].
    """

    __slots__ = (
        "_bounds",
        "_jump_planner",
        "_morphology",
        "_robot",
        "_statics",
        "_torque_limiter",
        "jump_acceleration_ratio",
        "slope_limiter",
        "slope_lowering",
        "velocity_limits",
    )

    def __init__(
        self,
        robot: Robot,
        morphology: Morphology,
        torque_limiter: TorqueLimiter,
        bounds: JointBounds | None,
        jump_acceleration_ratio: float,
    ) -> None:
        self._robot, self._morphology, self._torque_limiter, self._bounds, self.jump_acceleration_ratio = (
            robot,
            morphology,
            torque_limiter,
            bounds,
            jump_acceleration_ratio,
        )
        self._jump_planner: JumpPlanner | None = None
        self._statics = _make_statics(robot, morphology)
        closed_form = self._statics if self._statics is not None and self._statics.has_closed_form else None
        poses = None if closed_form is None else closed_form.poses
        self.velocity_limits = VelocityLimits(morphology, LegWorkspace(robot, morphology, poses))
        self.slope_lowering = KNOWN_SLOPE_LOWERING if self._statics is None else self._statics.slope_lowering
        self.slope_limiter = SlopeLimiter(closed_form, morphology.speed_scale)

    def reset(self) -> None:
        """Resets the evaluation of the slope under the robot."""
        self.slope_limiter.reset()

    def slope_limit_reason(self, gait: Gait, velocity: Array, angle: float, direction: float, friction: float) -> str:
        """Returns the reason for which the robot cannot walk on a slope, "" if it can; see `SlopeStatics.limit_reason`.

        Args:
            gait: gait to walk with.
            velocity: (3,) forward and leftward speed [m/s] and yaw rate [rad/s], heading frame, clamped.
            angle: angle of the slope [rad].
            direction: uphill direction, from the robot's forward direction [rad].
            friction: friction coefficient of the ground.

        Raises:
            ArgumentError: the angle is not in [0, pi / 2), or the friction is negative.
        """
        angle, direction = check_number("angle", angle), check_number("direction", direction)
        friction = check_number("friction", friction)
        if not (0.0 <= angle < 0.5 * math.pi and math.isfinite(direction) and friction >= 0.0):
            raise ArgumentError(
                "angle, direction, friction: expected a slope in [0, pi/2) rad, a finite direction and a friction of 0 "
                f"or more, got {angle}, {direction}, {friction}"
            )
        statics = self._statics or SlopeStatics(self._robot, self._morphology)
        return statics.limit_reason(gait, velocity, angle, direction, friction, self._torque_limiter.limits)

    @property
    def jump_planner(self) -> JumpPlanner:
        """Planner of single jumps, created on first access.

        Raises:
            QuaddynError: the kinematics of the legs are not supported, for example for coupled joints.
        """
        if self._jump_planner is None:
            robot, p = self._robot, self._morphology
            poses = LegPoseSolver(robot) if self._statics is None else self._statics.poses
            dynamics = JumpDynamics(robot, p, self._torque_limiter, self._bounds, poses, self.jump_acceleration_ratio)
            self._jump_planner = JumpPlanner(p, dynamics, robot.name)
        return self._jump_planner

    def require_feasible(self, gait: Gait, friction: float) -> None:
        """Rejects gaits for which motors are too weak or joints are too slow.

        Args:
            gait: gait to move with.
            friction: friction coefficient of the ground.

        Raises:
            ArgumentError: the gait is not feasible.
        """
        self.velocity_limits.clamp_velocity(gait, np.zeros(3))  # evaluates the workspace now instead of in a tick
        swing_milliseconds = 1e3 * (1.0 - gait.duty_factor) * gait.period * self._morphology.time_scale
        reason, description = (
            self.velocity_limits.gait_limit_reason(gait),
            f"whose feet are in the air for {swing_milliseconds:.0f} ms",
        )
        if not (reason or gait.vertical_force_profile.is_constant):
            reason = self.slope_limit_reason(gait, np.zeros(3), 0.0, 0.0, friction)
        if reason and not gait.vertical_force_profile.is_constant:
            description = f"which pushes off with {float(gait.vertical_force_profile.force.max()):.1f} times the weight"
        if reason:
            raise ArgumentError(
                f"gait: {self._robot.name!r} cannot move with the gait {gait.name!r}, {description}: {reason}"
            )


def _make_statics(robot: Robot, morphology: Morphology) -> SlopeStatics | None:
    """Returns the statics on slopes; None for unsupported leg kinematics, for example coupled joints."""
    try:
        return SlopeStatics(robot, morphology)
    except QuaddynError:
        return None
