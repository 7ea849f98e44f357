"""Compiled motion of the path reference toward the velocity command, with limits for a robot that lags behind."""

import math

from ..compiler import Record, Vector, compiled, entry, local
from .friction_model import PYRAMID_FACE_RATIO
from .gait import clamp
from .ground_plane import GroundState, compute_horizontal_projection
from .morphology import BodyParameters
from .path_reference import PathState
from .velocity_limits import GaitLimits, LegLimits, clamp_velocity, compute_max_hip_speed

#: Maximum distance of the path reference from the robot [l], and time constant with which a larger one is reduced
#: [sqrt(l/g)].
MAX_REFERENCE_LEAD, REFERENCE_WAIT_TIME = 0.08, 0.3
#: Lag of the robot that persists is compensated by a faster path reference: time constant [sqrt(l/g)]; fraction of the
#: commanded speed below which a lag is ignored (from twice that on, it is compensated completely); maximum compensation
#: as a fraction of the commanded speed; the same for gaits with flight phases, in which heavy legs push the robot back
#: in every cycle.
LAG_COMPENSATION_TIME, LAG_DEADBAND_FRACTION, MAX_LAG_COMPENSATION, MAX_FLIGHT_LAG_COMPENSATION = 4.0, 0.05, 0.5, 1.0
#: Maximum yaw angle of the path reference relative to the robot [rad].
MAX_YAW_LEAD = 0.2
#: Fraction of the reference speed below which the robot is blocked, time constant of both speeds [sqrt(l/g)], and
#: minimum reference speed for which this is evaluated [sqrt(g l)].
MIN_PROGRESS_FRACTION, PROGRESS_TIME, MIN_MEASURED_SPEED = 0.5, 4.0, 0.05
#: Fraction of the command that is followed during the transition to a gait with end support.
TRANSITION_SPEED_FRACTION = 0.6
#: Acceleration [g] and yaw acceleration [g/l] of the path reference.
ACCELERATION, YAW_ACCELERATION = 0.12, 0.1
#: Fraction of the friction limit that the acceleration may use.
TURN_FRICTION_FRACTION = 0.45
#: Smallest distance that is divided by [m].
MIN_DISTANCE = 1e-12


class SteeringState(Record):
    """Averages of the motion of path reference and robot, and the conditions of the present tick.

    The distance of the path reference from a robot that cannot keep up is limited.  If the robot lags behind all the
    time, for example under a load or on soft ground, the path reference moves faster than the command so that the robot
    reaches the commanded velocity.  If an obstacle or slipping feet block the robot, or if it has less than half of the
    reference speed for any reason, the path reference never moves faster than the command.
    """

    dt: float  # control period [s]
    mean_lag: Vector  # (2,) mean velocity with which the path reference waits, heading frame [m/s]
    mean_reference_speed: float  # [m/s]
    mean_robot_speed: float  # along the path reference [m/s]
    friction: float  # coefficient that the contact constraints assume
    is_transitioning: bool  # whether a gait transition is in progress; the lag of the robot is then ignored
    is_obstructed: bool  # whether an obstacle or slipping feet block the robot


@entry("steering")
def set_conditions(steering: SteeringState, friction: float, is_transitioning: bool, is_obstructed: bool) -> None:
    """Sets the conditions of the tick for `update_steering`."""
    steering.friction = friction
    steering.is_transitioning, steering.is_obstructed = is_transitioning, is_obstructed


@entry("steering")
def reset_steering(steering: SteeringState) -> None:
    """Resets all averages."""
    steering.mean_lag[:] = 0.0
    steering.mean_reference_speed, steering.mean_robot_speed = 0.0, 0.0


@compiled()
def wrap_angle(angle: float) -> float:
    """Returns the angle in [-pi, pi] that differs by full turns [rad]."""
    return angle - 2.0 * math.pi * math.floor(angle / (2.0 * math.pi) + 0.5)


@entry("steering")
def update_speed_averages(steering: SteeringState, body: BodyParameters, path: PathState, u: float, v: float) -> None:
    """Updates the averages of the reference speed and of the robot's speed along it by one tick.

    Args:
        steering: state of the steering.
        body: parameters of the robot.
        path: the path reference.
        u: velocity of the center of mass along world x [m/s].
        v: velocity of the center of mass along world y [m/s].
    """
    x, y, c, s = path.velocity[0], path.velocity[1], math.cos(path.yaw), math.sin(path.yaw)
    speed = math.sqrt(x * x + y * y)
    progress = ((c * u + s * v) * x + (c * v - s * u) * y) / speed if speed > 0.0 else 0.0
    alpha = min(1.0, steering.dt / (PROGRESS_TIME * body.time_scale))
    steering.mean_reference_speed += alpha * (speed - steering.mean_reference_speed)
    steering.mean_robot_speed += alpha * (progress - steering.mean_robot_speed)


@entry("steering")
def is_blocked(steering: SteeringState, body: BodyParameters) -> bool:
    """Returns whether the robot is much slower than the path reference."""
    speed = steering.mean_reference_speed
    return speed > MIN_MEASURED_SPEED * body.speed_scale and steering.mean_robot_speed < MIN_PROGRESS_FRACTION * speed


@compiled()
def compensate_lag(
    steering: SteeringState, body: BodyParameters, legs: LegLimits, gait: GaitLimits, velocity: Vector
) -> None:
    """Changes a velocity (3,) so that a robot that lags behind the path reference reaches it."""
    u, v = steering.mean_lag[0], steering.mean_lag[1]
    speed = compute_max_hip_speed(legs, velocity[0], velocity[1], velocity[2])
    lag = math.sqrt(u * u + v * v)
    if lag > LAG_DEADBAND_FRACTION * speed and speed > 0.0:
        has_constant_force = gait.timing.has_constant_force
        max_compensation = MAX_LAG_COMPENSATION if has_constant_force else MAX_FLIGHT_LAG_COMPENSATION
        fraction = min(1.0, lag / (LAG_DEADBAND_FRACTION * speed) - 1.0, max_compensation * speed / lag)
        velocity[0] -= fraction * u
        velocity[1] -= fraction * v
        clamp_velocity(body, legs, gait, velocity, 1.0)


@entry("steering")
def update_steering(
    steering: SteeringState,
    body: BodyParameters,
    legs: LegLimits,
    gait: GaitLimits,
    path: PathState,
    ground: GroundState,
    command: Vector,
) -> None:
    """Moves the velocity of the path reference toward the command, within the acceleration limits.

    Args:
        steering: state of the steering, with the conditions of the tick.
        body: parameters of the robot.
        legs: limits of its legs.
        gait: gait to move with.
        path: the path reference; its velocity is written.
        ground: plane of the feet, along which velocities are commanded.
        command: (3,) forward and leftward speed [m/s] and yaw rate [rad/s], heading frame, clamped.
    """
    velocity, dt = local(3), steering.dt
    velocity[:] = command
    if steering.is_transitioning:
        steering.mean_lag[:] = 0.0
        if gait.has_end_support:
            for i in range(3):
                velocity[i] *= TRANSITION_SPEED_FRACTION
    if steering.is_obstructed or (gait.timing.has_constant_force and is_blocked(steering, body)):
        steering.mean_lag[:] = 0.0
    compensate_lag(steering, body, legs, gait, velocity)
    forward_x, forward_y, leftward_y = compute_horizontal_projection(ground, path.yaw)
    velocity[0] = forward_x * velocity[0] + forward_y * velocity[1]
    velocity[1] *= leftward_y
    friction_limit = TURN_FRICTION_FRACTION * PYRAMID_FACE_RATIO * steering.friction
    max_change = min(ACCELERATION, friction_limit) * body.gravity * dt
    for i in range(2):
        path.velocity[i] += clamp(velocity[i] - path.velocity[i], -max_change, max_change)
    max_change = YAW_ACCELERATION / (body.time_scale * body.time_scale) * dt
    path.velocity[2] += clamp(velocity[2] - path.velocity[2], -max_change, max_change)


@entry("steering")
def limit_reference_lead(
    steering: SteeringState, body: BodyParameters, path: PathState, error_x: float, error_y: float, yaw: float
) -> None:
    """Limits position and heading of the path reference relative to the robot.

    Args:
        steering: state of the steering.
        body: parameters of the robot.
        path: the path reference; position and yaw are written.
        error_x: error of the divergent component along world x [m].
        error_y: error along world y [m].
        yaw: yaw angle of the robot's heading [rad].
    """
    lead, dt = math.sqrt(error_x * error_x + error_y * error_y), steering.dt
    excess = max(0.0, 1.0 - MAX_REFERENCE_LEAD * body.length / max(lead, MIN_DISTANCE))
    fraction = excess * min(1.0, dt / (REFERENCE_WAIT_TIME * body.time_scale))
    x, y = fraction * error_x, fraction * error_y
    path.position[0] += x
    path.position[1] += y
    # In the heading frame: the direction of the lag turns with the robot.
    c, s, alpha = math.cos(path.yaw) / dt, math.sin(path.yaw) / dt, dt / (LAG_COMPENSATION_TIME * body.time_scale)
    steering.mean_lag[0] += (c * x + s * y - steering.mean_lag[0]) * alpha
    steering.mean_lag[1] += (c * y - s * x - steering.mean_lag[1]) * alpha
    yaw_lead = wrap_angle(path.yaw - yaw)
    path.yaw -= yaw_lead - clamp(yaw_lead, -MAX_YAW_LEAD, MAX_YAW_LEAD)


def allocate_steering_state(dt: float) -> SteeringState:
    """Returns the state of a steering of the control period `dt` [s], without averages."""
    state = SteeringState.allocate(mean_lag=2)
    state.dt = dt
    return state
