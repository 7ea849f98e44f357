"""`SlopeLimiter`: limits of the velocity on the slope under the robot."""

from __future__ import annotations

from collections.abc import Generator

import numpy as np

from ..urdf.tree import Array
from .friction_model import FrictionModel
from .gait import Gait, write_gait_parameters
from .gait_timing import GaitParameters
from .slope_clamping import (
    MIN_VELOCITY_CHANGE,
    SlopeEvaluation,
    allocate_slope_state,
    begin_evaluation,
    clamp_velocity_on_slope,
    reset_slope,
    update_slope,
)
from .slope_statics import SlopeStatics
from .velocity_clamping import LimitReason
from .velocity_limits import REASON_TEXTS

#: Fractions of a command that are tried in this order; if none is feasible, the robot stops.
VELOCITY_FRACTIONS = 1.0, 0.75, 0.5, 0.25


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

    Attributes:
        state: record of the compiled functions, with the case and the result of the evaluation.
        leg_reason: text of `LimitReason.LEGS_ON_SLOPE`, the joint or leg that limits the velocity.
    """

    __slots__ = ("_evaluation", "_gait", "_statics", "_timing", "leg_reason", "state")

    def __init__(self, statics: SlopeStatics | None, speed_scale: float) -> None:
        self._statics, self.state = statics, allocate_slope_state()
        self.state.min_velocity_change = MIN_VELOCITY_CHANGE * speed_scale
        self._gait: Gait | None = None
        self._timing = GaitParameters.allocate(phase_offsets=4, footprint_scale=2)
        self.reset()

    def reset(self) -> None:
        """Resets the evaluation."""
        reset_slope.python(self.state)
        self._evaluation: Generator[None, None, tuple[float, str]] | None = None
        self.leg_reason = ""

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
        self.update(gait, velocity, friction_model, yaw, torque_limits)
        clamped = velocity.copy()
        reason = clamp_velocity_on_slope(self.state, clamped)
        return (velocity, "") if reason == LimitReason.NONE else (clamped, self.reason_text(reason))

    def reason_text(self, reason: int) -> str:
        """Returns the text of a `LimitReason`, "" if there is none."""
        return self.leg_reason if reason == LimitReason.LEGS_ON_SLOPE else REASON_TEXTS[reason]

    def update(
        self, gait: Gait, velocity: Array, friction_model: FrictionModel, yaw: float, torque_limits: Array
    ) -> None:
        """Updates the slope under the robot, and evaluates one part of the leg limits if that is necessary.

        Args:
            gait: gait to walk with.
            velocity: (3,) forward and leftward speed [m/s] and yaw rate [rad/s], heading frame, clamped so far.
            friction_model: normal and friction of the ground.
            yaw: yaw angle of the heading frame [rad].
            torque_limits: (nu,) torque limits of the motors [N m].
        """
        if gait is not self._gait:  # the parameters are compared only, so that their unit of time does not matter
            self._gait = gait
            write_gait_parameters(self._timing, gait, 1.0)
        evaluation = update_slope(self.state, self._timing, velocity, float(yaw), friction_model.state)
        if evaluation != SlopeEvaluation.NONE:
            self.advance_evaluation(evaluation, gait, self._timing, velocity, torque_limits)

    def advance_evaluation(
        self, evaluation: int, gait: Gait, timing: GaitParameters, velocity: Array, torque_limits: Array
    ) -> None:
        """Evaluates one part of the leg limits, or starts a new evaluation.

        Args:
            evaluation: `SlopeEvaluation` of `update_slope`.
            gait: gait to walk with.
            timing: its parameters, as passed to `update_slope`.
            velocity: (3,) forward and leftward speed [m/s] and yaw rate [rad/s], heading frame, clamped so far.
            torque_limits: (nu,) torque limits of the motors [N m].
        """
        if self._statics is None or evaluation == SlopeEvaluation.NONE:
            return
        state = self.state
        if evaluation == SlopeEvaluation.START:
            begin_evaluation(state, timing, velocity)
            uphill = state.uphill.copy()
            self._evaluation = self._evaluate_fractions(self._statics, gait, velocity.copy(), uphill, torque_limits)
        assert self._evaluation is not None
        try:
            next(self._evaluation)
        except StopIteration as end:
            state.fraction, self.leg_reason = end.value
            state.reason = LimitReason.LEGS_ON_SLOPE if self.leg_reason else LimitReason.NONE
            state.is_evaluating, self._evaluation = False, None

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
