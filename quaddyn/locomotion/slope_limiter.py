"""`SlopeLimiter`: limits of the velocity on the slope under the robot."""

from __future__ import annotations

import math
from collections.abc import Generator

import numpy as np

from ..urdf.tree import Array
from .friction_model import PYRAMID_FACE_RATIO, FrictionModel
from .gait import Gait
from .slope_statics import GROUND_FRICTION, SlopeStatics

#: Minimum slope that is evaluated.
MIN_SLOPE = 0.1
#: Change of the slope in the heading frame, and of the command [sqrt(g l)], after which the evaluation is repeated.
MIN_SLOPE_CHANGE, MIN_VELOCITY_CHANGE = 0.03, 0.03
#: Fractions of a command that are tried in this order; if none is feasible, the robot stops.
VELOCITY_FRACTIONS = 1.0, 0.75, 0.5, 0.25
#: Ratio of assumed to slip-estimated friction above which a stopped command is released.
RELEASE_FRICTION_RATIO = 1.5


class SlopeLimiter:
    """Limiter of velocities by friction and torques on the slope under the robot.

    *Friction*: with the smaller of the given friction and that of slips, the weight must be in the friction pyramid
    about the ground normal; a friction that is only assumed does not limit, since ground on which a robot stands has
    enough friction.  *Legs*: `SlopeStatics` at the ends of the strides, for the whole command and then for smaller
    fractions of it.  That takes milliseconds, and is evaluated in the background, one leg per tick; meanwhile the last
    result holds.

    Args:
        statics: static conditions of the robot; None where the leg kinematics have no closed form.
        speed_scale: unit of speed, ``sqrt(g l)`` [m/s].
    """

    __slots__ = ("_evaluated_case", "_evaluation", "_is_sliding", "_result", "_speed_scale", "_statics")

    def __init__(self, statics: SlopeStatics | None, speed_scale: float) -> None:
        self._statics, self._speed_scale = statics, speed_scale
        self.reset()

    def reset(self) -> None:
        """Resets the evaluation."""
        self._evaluated_case: tuple[Gait, Array, Array] | None = None
        self._result = 1.0, ""
        self._evaluation: Generator[None, None, tuple[float, str]] | None = None
        self._is_sliding = False

    def clamp_velocity(
        self, gait: Gait, velocity: Array, friction_model: FrictionModel, yaw: float, torque_limits: Array
    ) -> tuple[Array, str]:
        """Returns the velocity scaled down for the slope, and the reason ("" if it was not limited).

        Args:
            gait: gait to walk with.
            velocity: (3,) forward and leftward speed [m/s] and yaw rate [rad/s], heading frame, clamped so far.
            friction_model: normal and friction of the ground.
            yaw: yaw angle of the heading frame [rad].
            torque_limits: (nu,) torque limits of the motors [N m].
        """
        x, y, z = friction_model.normal.tolist()
        slope = math.hypot(x, y) / z
        if slope < MIN_SLOPE:
            if self._evaluated_case is not None or self._is_sliding:
                self.reset()
            return velocity, ""
        if not velocity.any():
            return velocity, ""
        required_friction = slope / PYRAMID_FACE_RATIO
        self._is_sliding = (
            friction_model.known_friction < required_friction
            or friction_model.slip_bound < required_friction * (RELEASE_FRICTION_RATIO if self._is_sliding else 1.0)
        )
        if self._is_sliding:
            return np.zeros(3), GROUND_FRICTION
        c, s = math.cos(yaw), math.sin(yaw)
        self._advance_evaluation(gait, velocity, np.array([-(c * x + s * y) / z, (s * x - c * y) / z]), torque_limits)
        fraction, reason = self._result
        return fraction * velocity, reason

    def _advance_evaluation(self, gait: Gait, velocity: Array, uphill: Array, torque_limits: Array) -> None:
        """Evaluates one part of the leg limits, or starts a new evaluation if the case has changed."""
        if self._statics is None:
            return
        if self._evaluation is None and self._has_changed(gait, velocity, uphill):
            self._evaluated_case = gait, velocity, uphill
            self._evaluation = self._evaluate_fractions(self._statics, gait, velocity, uphill, torque_limits)
        if self._evaluation is not None:
            try:
                next(self._evaluation)
            except StopIteration as end:
                self._result, self._evaluation = end.value, None

    def _has_changed(self, gait: Gait, velocity: Array, uphill: Array) -> bool:
        """Returns whether gait, velocity (3,) or slope (2,) differ enough from the last evaluated ones."""
        if self._evaluated_case is None:
            return True
        last_gait, last_velocity, last_uphill = self._evaluated_case
        velocity_change, slope_change = np.abs(velocity - last_velocity).max(), np.abs(uphill - last_uphill).max()
        return gait != last_gait or bool(
            slope_change > MIN_SLOPE_CHANGE or velocity_change > MIN_VELOCITY_CHANGE * self._speed_scale
        )

    @staticmethod
    def _evaluate_fractions(
        statics: SlopeStatics, gait: Gait, velocity: Array, uphill: Array, torque_limits: Array
    ) -> Generator[None, None, tuple[float, str]]:
        """Returns the largest feasible fraction of a command, and the reason against the whole command; a generator."""
        first_reason = yield from statics.evaluate_legs(gait, np.zeros(3), uphill, torque_limits)
        if first_reason:
            return 0.0, first_reason
        for fraction in VELOCITY_FRACTIONS:
            reason = yield from statics.evaluate_legs(gait, fraction * velocity, uphill, torque_limits)
            if not reason:
                return fraction, first_reason
            first_reason = first_reason or reason
        return 0.0, first_reason
