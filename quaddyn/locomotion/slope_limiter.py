"""`SlopeVerdict`: what of a command the slope under the robot allows."""

from __future__ import annotations

import math
from collections.abc import Generator

import numpy as np

from ..urdf.tree import Array
from .friction_model import PYRAMID_FACE_RATIO, FrictionModel
from .gait import Gait
from .slope_statics import GROUND_FRICTION, SlopeStatics

#: Ground that rises by less is not looked into.
MIN_SLOPE = 0.1
#: A verdict holds until the slope, seen from the robot, has changed by so much, or the command by so much [sqrt(g l)].
MIN_SLOPE_CHANGE, MIN_VELOCITY_CHANGE = 0.03, 0.03
#: The shares of a command that are tried one after the other; none is left of who can do no such share.
VELOCITY_FRACTIONS = 1.0, 0.75, 0.5, 0.25
#: Who was stopped by friction that slips have shown goes on where so many times as much is counted on.
RELEASE_FRICTION_RATIO = 1.5


class SlopeLimiter:
    """Cuts a command to what friction and torques allow on the slope that the robot is on.

    *Friction*: with the lesser of what is told and what slips have shown, the weight must be in the pyramid about the
    ground's normal; friction that is only assumed forbids nothing, for ground on which a robot stands has shown that it
    has more.  *Legs*: `SlopeStatics` at the ends of the strides, for the whole command and then for smaller shares of
    it.  That takes milliseconds, so it is worked out in the background, one leg a tick; until then, what was found
    before holds.

    Args:
        statics: of the robot; None for legs that have none, or no quick ones.
        speed_scale: of speed, ``sqrt(g l)`` [m/s].
    """

    __slots__ = ("_evaluated_case", "_evaluation", "_is_sliding", "_result", "_speed_scale", "_statics")

    def __init__(self, statics: SlopeStatics | None, speed_scale: float) -> None:
        self._statics, self._speed_scale = statics, speed_scale
        self.reset()

    def reset(self) -> None:
        """Forget the slope."""
        self._evaluated_case: tuple[Gait, Array, Array] | None = None
        self._result = 1.0, ""
        self._evaluation: Generator[None, None, tuple[float, str]] | None = None
        self._is_sliding = False

    def clamp_velocity(
        self, gait: Gait, velocity: Array, friction_model: FrictionModel, yaw: float, torque_limits: Array
    ) -> tuple[Array, str]:
        """The part of a velocity that the slope allows, cut in all components alike, and what cuts it ("": nothing).

        Args:
            gait: to walk with.
            velocity: (3,) forward and leftward speed [m/s] and yaw rate [rad/s], heading frame; within reach.
            friction_model: normal and friction of the ground.
            yaw: of the heading frame [rad].
            torque_limits: (nu,) of the motors [N m].
        """
        x, y, z = friction_model.normal.tolist()
        steep = math.hypot(x, y) / z
        if steep < MIN_SLOPE:
            if self._evaluated_case is not None or self._is_sliding:
                self.reset()
            return velocity, ""
        if not velocity.any():
            return velocity, ""
        need = steep / PYRAMID_FACE_RATIO
        self._is_sliding = friction_model.known_friction < need or friction_model.slip_bound < need * (
            RELEASE_FRICTION_RATIO if self._is_sliding else 1.0
        )
        if self._is_sliding:
            return np.zeros(3), GROUND_FRICTION
        c, s = math.cos(yaw), math.sin(yaw)
        self._advance_evaluation(gait, velocity, np.array([-(c * x + s * y) / z, (s * x - c * y) / z]), torque_limits)
        share, why = self._result
        return share * velocity, why

    def _advance_evaluation(self, gait: Gait, velocity: Array, uphill: Array, torque_limits: Array) -> None:
        """One part of the judgement, if there is anything to judge."""
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
        if self._evaluated_case is None:
            return True
        before, speed, slope = self._evaluated_case
        moved, turned = np.abs(velocity - speed).max(), np.abs(uphill - slope).max()
        return gait != before or bool(turned > MIN_SLOPE_CHANGE or moved > MIN_VELOCITY_CHANGE * self._speed_scale)

    @staticmethod
    def _evaluate_fractions(
        statics: SlopeStatics, gait: Gait, velocity: Array, uphill: Array, torque_limits: Array
    ) -> Generator[None, None, tuple[float, str]]:
        """The largest share of a command that legs can do, and what keeps them from all of it."""
        first = yield from statics.evaluate_legs(gait, np.zeros(3), uphill, torque_limits)
        if first:
            return 0.0, first
        for share in VELOCITY_FRACTIONS:
            why = yield from statics.evaluate_legs(gait, share * velocity, uphill, torque_limits)
            if not why:
                return share, first
            first = first or why
        return 0.0, first
