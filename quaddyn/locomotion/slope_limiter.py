"""`SlopeLimiter`: limits of the velocity on the slope under the robot."""

from __future__ import annotations

import enum
import math
from collections.abc import Generator

import numpy as np

from ..compiler import Record, Vector, compiled, entry
from ..urdf.tree import Array
from .friction_model import (
    PYRAMID_FACE_RATIO,
    FrictionState,
    compute_ground_slope,
    compute_known_friction,
    compute_slip_bound,
)
from .gait import Gait, GaitParameters
from .morphology import BodyParameters
from .slope_statics import SlopeStatics
from .velocity_limits import (
    GaitLimits,
    LegLimits,
    LimitReason,
    clamp_velocity_by_friction,
    is_zero_velocity,
    scale_velocity,
)

#: Minimum slope that is evaluated.
MIN_SLOPE = 0.1
#: Change of the slope in the heading frame, and of the command [sqrt(g l)], after which the evaluation is repeated.
MIN_SLOPE_CHANGE, MIN_VELOCITY_CHANGE = 0.03, 0.03
#: Ratio of assumed to slip-estimated friction above which a stopped command is released.
RELEASE_FRICTION_RATIO = 1.5


class SlopeEvaluation(enum.IntEnum):
    """What the evaluation of the legs has to do in this tick."""

    NONE = 0
    START = 1
    CONTINUE = 2


class SlopeState(Record):
    """Slope under the robot, and the velocity that it allows."""

    min_velocity_change: float  # after which the evaluation is repeated [m/s]
    is_steep: bool  # whether the slope limits velocities at present
    is_sliding: bool  # whether the friction of the ground is insufficient
    uphill: Vector  # (2,) slope forward and leftward
    has_evaluated: bool  # whether the following case was evaluated, or is being evaluated
    is_evaluating: bool
    evaluated_gait: GaitParameters
    evaluated_velocity: Vector  # (3,) heading frame [m/s, rad/s]
    evaluated_uphill: Vector  # (2,)
    fraction: float  # of the velocity, which the last evaluation allows
    reason: LimitReason  # of the last evaluation


@entry("limits on slopes")
def reset_slope(slope: SlopeState) -> None:
    """Resets the evaluation."""
    slope.is_steep = False
    slope.is_sliding = False
    slope.has_evaluated = False
    slope.is_evaluating = False
    slope.fraction = 1.0
    slope.reason = LimitReason.NONE


@compiled()
def is_same_gait(a: GaitParameters, b: GaitParameters) -> bool:
    """Returns whether two gaits have the same parameters."""
    if a.period != b.period or a.duty_factor != b.duty_factor:
        return False
    for i in range(2):
        if a.footprint_scale[i] != b.footprint_scale[i]:
            return False
    for foot in range(4):
        if a.phase_offsets[foot] != b.phase_offsets[foot]:
            return False
    return True


@compiled()
def has_case_changed(slope: SlopeState, gait: GaitParameters, velocity: Vector) -> bool:
    """Returns whether gait, velocity (3,) or slope differ enough from the last evaluated ones."""
    if not slope.has_evaluated or not is_same_gait(slope.evaluated_gait, gait):
        return True
    for i in range(2):
        if abs(slope.uphill[i] - slope.evaluated_uphill[i]) > MIN_SLOPE_CHANGE:
            return True
    for i in range(3):
        if abs(velocity[i] - slope.evaluated_velocity[i]) > slope.min_velocity_change:
            return True
    return False


@entry("limits on slopes")
def update_slope(
    slope: SlopeState,
    gait: GaitParameters,
    velocity: Vector,
    yaw: float,
    friction: FrictionState,
) -> SlopeEvaluation:
    """Updates the slope under the robot, and returns what the evaluation of the legs has to do in this tick.

    A second call in the same tick changes nothing.

    Args:
        slope: state of the limiter.
        gait: gait to walk with.
        velocity: (3,) forward and leftward speed [m/s] and yaw rate [rad/s], heading frame, clamped so far.
        yaw: yaw angle of the heading frame [rad].
        friction: friction and normals of the contacts.
    """
    tangent = compute_ground_slope(friction)
    if tangent < MIN_SLOPE:
        reset_slope(slope)
        return SlopeEvaluation.NONE
    slope.is_steep = True
    if is_zero_velocity(velocity):
        return SlopeEvaluation.NONE
    required_friction = tangent / PYRAMID_FACE_RATIO
    min_slip_bound = required_friction * (RELEASE_FRICTION_RATIO if slope.is_sliding else 1.0)
    slope.is_sliding = (
        compute_known_friction(friction) < required_friction or compute_slip_bound(friction) < min_slip_bound
    )
    if slope.is_sliding:
        return SlopeEvaluation.NONE
    c, s, x, y, z = math.cos(yaw), math.sin(yaw), friction.normal[0], friction.normal[1], friction.normal[2]
    slope.uphill[0], slope.uphill[1] = -(c * x + s * y) / z, (s * x - c * y) / z
    if slope.is_evaluating:
        return SlopeEvaluation.CONTINUE
    return SlopeEvaluation.START if has_case_changed(slope, gait, velocity) else SlopeEvaluation.NONE


@entry("limits on slopes")
def begin_evaluation(slope: SlopeState, gait: GaitParameters, velocity: Vector) -> None:
    """Stores the case that is evaluated from now on."""
    slope.has_evaluated = True
    slope.is_evaluating = True
    slope.evaluated_gait.copy_from(gait)
    slope.evaluated_velocity[:] = velocity
    slope.evaluated_uphill[:] = slope.uphill


@entry("limits on slopes")
def clamp_velocity_on_slope(slope: SlopeState, velocity: Vector) -> LimitReason:
    """Scales a velocity (3,) down for the slope, after `update_slope`, and returns the reason."""
    if not slope.is_steep or is_zero_velocity(velocity):
        return LimitReason.NONE
    if slope.is_sliding:
        scale_velocity(velocity, 0.0)
        return LimitReason.GROUND_FRICTION
    scale_velocity(velocity, slope.fraction)
    return slope.reason


@entry("limits on slopes")
def clamp_velocity_on_ground(
    slope: SlopeState,
    body: BodyParameters,
    legs: LegLimits,
    gait: GaitLimits,
    velocity: Vector,
    friction: FrictionState,
) -> LimitReason:
    """Scales a velocity down for the slope and the friction of the ground, after `update_slope`; returns the reason.

    Args:
        slope: state of the slope limiter.
        body: parameters of the robot.
        legs: limits of its legs.
        gait: gait to walk with.
        velocity: (3,) forward and leftward speed [m/s] and yaw rate [rad/s], heading frame, clamped so far; written.
        friction: friction and normals of the contacts.
    """
    slope_reason = clamp_velocity_on_slope(slope, velocity)
    ground_friction = min(compute_known_friction(friction), compute_slip_bound(friction))
    friction_reason = clamp_velocity_by_friction(body, legs, gait, velocity, ground_friction)
    return slope_reason if friction_reason == LimitReason.NONE else friction_reason


def allocate_slope_state() -> SlopeState:
    """Returns the state of a limiter on level ground."""
    slope = SlopeState.allocate(
        uphill=2,
        evaluated_gait={"phase_offsets": 4, "footprint_scale": 2},
        evaluated_velocity=3,
        evaluated_uphill=2,
    )
    slope.fraction = 1.0
    return slope


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

    __slots__ = ("_evaluation", "_statics", "leg_reason", "state")

    def __init__(self, statics: SlopeStatics | None, speed_scale: float) -> None:
        self._statics, self.state = statics, allocate_slope_state()
        self.state.min_velocity_change = MIN_VELOCITY_CHANGE * speed_scale
        self.reset()

    def reset(self) -> None:
        """Resets the evaluation."""
        reset_slope.python(self.state)
        self._evaluation: Generator[None, None, tuple[float, str]] | None = None
        self.leg_reason = ""

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
