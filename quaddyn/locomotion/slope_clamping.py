"""Compiled limits of the velocity on the slope under the robot; see `SlopeLimiter`."""

import enum
import math

from ..compiler import Record, Vector, compiled, entry
from .friction_model import PYRAMID_FACE_RATIO
from .gait_timing import GaitParameters, copy_gait_parameters
from .velocity_clamping import LimitReason, scale_velocity

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


@compiled()
def reset_slope(slope: SlopeState) -> None:
    """Resets the evaluation."""
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


@compiled(inline=False)
def update_slope(
    slope: SlopeState,
    gait: GaitParameters,
    velocity: Vector,
    yaw: float,
    normal: Vector,
    known_friction: float,
    slip_bound: float,
) -> SlopeEvaluation:
    """Updates the slope under the robot, and returns what the evaluation of the legs has to do in this tick.

    A second call in the same tick changes nothing.

    Args:
        slope: state of the limiter.
        gait: gait to walk with.
        velocity: (3,) forward and leftward speed [m/s] and yaw rate [rad/s], heading frame, clamped so far.
        yaw: yaw angle of the heading frame [rad].
        normal: (3,) unit normal of the ground, world.
        known_friction: friction coefficient of the ground if it was given, else inf.
        slip_bound: upper bound of the friction coefficient from slips; inf before any slip.
    """
    x, y, z = normal[0], normal[1], normal[2]
    tangent = math.sqrt(x * x + y * y) / z
    slope.is_steep = not tangent < MIN_SLOPE
    if not slope.is_steep:
        reset_slope(slope)
        return SlopeEvaluation.NONE
    if velocity[0] == 0.0 and velocity[1] == 0.0 and velocity[2] == 0.0:
        return SlopeEvaluation.NONE
    required_friction = tangent / PYRAMID_FACE_RATIO
    min_slip_bound = required_friction * (RELEASE_FRICTION_RATIO if slope.is_sliding else 1.0)
    slope.is_sliding = known_friction < required_friction or slip_bound < min_slip_bound
    if slope.is_sliding:
        return SlopeEvaluation.NONE
    c, s = math.cos(yaw), math.sin(yaw)
    slope.uphill[0], slope.uphill[1] = -(c * x + s * y) / z, (s * x - c * y) / z
    if slope.is_evaluating:
        return SlopeEvaluation.CONTINUE
    return SlopeEvaluation.START if has_case_changed(slope, gait, velocity) else SlopeEvaluation.NONE


@compiled()
def clamp_velocity_on_slope(slope: SlopeState, velocity: Vector) -> LimitReason:
    """Scales a velocity (3,) down for the slope, after `update_slope`, and returns the reason."""
    if not slope.is_steep or (velocity[0] == 0.0 and velocity[1] == 0.0 and velocity[2] == 0.0):
        return LimitReason.NONE
    if slope.is_sliding:
        scale_velocity(velocity, 0.0)
        return LimitReason.GROUND_FRICTION
    scale_velocity(velocity, slope.fraction)
    return slope.reason


# -- entries ---------------------------------------------------------------------------------------------------------
@entry("limits on slopes")
def advance_slope_case(
    slope: SlopeState,
    gait: GaitParameters,
    velocity: Vector,
    yaw: float,
    normal: Vector,
    known_friction: float,
    slip_bound: float,
) -> int:
    """Updates the slope under the robot and returns the `SlopeEvaluation`, see `update_slope`."""
    return int(update_slope(slope, gait, velocity, yaw, normal, known_friction, slip_bound))


@entry("limits on slopes")
def begin_evaluation(slope: SlopeState, gait: GaitParameters, velocity: Vector) -> None:
    """Stores the case that is evaluated from now on."""
    slope.has_evaluated = True
    slope.is_evaluating = True
    copy_gait_parameters(slope.evaluated_gait, gait)
    slope.evaluated_velocity[:] = velocity
    slope.evaluated_uphill[:] = slope.uphill


@entry("limits on slopes")
def clamp_to_slope(slope: SlopeState, velocity: Vector) -> int:
    """Scales a velocity (3,) down for the slope and returns the `LimitReason`."""
    return int(clamp_velocity_on_slope(slope, velocity))


@entry("limits on slopes")
def reset_slope_state(slope: SlopeState) -> None:
    """Resets the evaluation."""
    slope.is_steep = False
    reset_slope(slope)


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
