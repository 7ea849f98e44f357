"""Compiled detection of a robot that does not follow the velocity command."""

import math

from ..compiler import Record, Vec3, Vector, compiled, entry, norm, vec3
from .morphology import BodyParameters
from .motion import Motion
from .velocity_limits import LimitReason, scale_velocity

#: Time constant of the speed averages [sqrt(l/g)], and fraction of the commanded speed below which there is no
#: progress.
AVERAGING_TIME, MIN_PROGRESS_FRACTION = 20.0, 0.1
#: Minimum average of the commanded speed, as a fraction of the present one, at which progress is evaluated.
MIN_AVERAGING_FRACTION = 1.0 - math.exp(-1.0)
#: Minimum commanded speed at which progress is evaluated [sqrt(g l)]: below it the sway of the trunk dominates.
MIN_MONITORED_SPEED = 0.01
#: Minimum average as in `MIN_AVERAGING_FRACTION`, from which a robot is evaluated that its torque limits slow down.
MIN_LIMITED_FRACTION = 0.5
#: Fraction of the ticks with a torque at its limit above which torques limit a robot, and fraction of the commanded
#: speed below which it does not follow the command.
MAX_SATURATED_FRACTION, FOLLOWING_FRACTION = 0.2, 0.5
#: Relative change of the command above which it counts as a new one.
COMMAND_CHANGE_FRACTION = 0.5


class ProgressState(Record):
    """Averages of the commanded and of the measured speed, over the last steps.

    Both are averaged with the time constant `AVERAGING_TIME`.  The speed is ``|(v_x, v_y, l omega)|``; of the robot's
    velocity only the component along the command counts.  A robot below `MIN_PROGRESS_FRACTION` of the commanded speed
    is stuck: its trunk rests on an obstacle, a wall blocks it, or its feet slip.  The command is then ignored, and the
    robot stands instead of stepping in place, until the direction or the magnitude of the command changes.  A faster
    robot below `FOLLOWING_FRACTION` of the commanded speed whose torques are at their limits in many ticks continues to
    walk, and `LimitReason.JOINT_TORQUE` is reported.
    """

    alpha: float  # control period divided by the averaging time
    command: Vec3  # that is averaged: forward and leftward speed, and yaw rate times l [m/s]
    mean_commanded: float  # [m/s]
    mean_measured: float  # along the command [m/s]
    mean_saturation: float  # fraction of the ticks with a torque at its limit
    is_saturated: bool  # whether a torque of the last tick is at its limit
    is_stuck: bool  # whether the command is ignored


@compiled()
def restart_averages(progress: ProgressState, command: Vec3) -> None:
    """Restarts the averages for another command (3,) [m/s]."""
    progress.command = command
    progress.mean_commanded, progress.mean_measured, progress.mean_saturation = 0.0, 0.0, 0.0
    progress.is_stuck = False


@entry("progress of the robot")
def reset_progress(progress: ProgressState) -> None:
    """Resets the averages, so that every command is accepted again."""
    restart_averages(progress, vec3(0.0, 0.0, 0.0))
    progress.is_saturated = False


@entry("progress of the robot")
def filter_command(
    progress: ProgressState, body: BodyParameters, velocity: Vector, motion: Motion, yaw_rate: float
) -> LimitReason:
    """Updates the averages by one tick, ignores the command of a stuck robot, and detects motors that are too weak.

    Args:
        progress: state of the monitor.
        body: parameters of the robot.
        velocity: (3,) forward and leftward speed [m/s] and yaw rate [rad/s], heading frame, clamped so far; set to zero
            if the command is ignored.
        motion: present motion of the robot.
        yaw_rate: measured yaw rate [rad/s].

    Returns:
        `LimitReason.NO_PROGRESS` if the command is ignored, `LimitReason.JOINT_TORQUE` if the robot does not follow it
        because of its torque limits, else `LimitReason.NONE`.
    """
    command = vec3(velocity[0], velocity[1], body.length * velocity[2])
    speed = norm(command)
    if norm(command - progress.command) > COMMAND_CHANGE_FRACTION * norm(progress.command):
        restart_averages(progress, command)
    if not progress.is_stuck and not speed < MIN_MONITORED_SPEED * body.speed_scale:
        c, s, u, v = math.cos(motion.yaw), math.sin(motion.yaw), motion.velocity[0], motion.velocity[1]
        measured = vec3(c * u + s * v, c * v - s * u, body.length * yaw_rate)
        progress.mean_commanded += (speed - progress.mean_commanded) * progress.alpha
        progress.mean_measured += (measured @ command / speed - progress.mean_measured) * progress.alpha
        progress.mean_saturation += (float(progress.is_saturated) - progress.mean_saturation) * progress.alpha
        average, fraction = progress.mean_commanded / speed, progress.mean_measured / progress.mean_commanded
        progress.is_stuck = average >= MIN_AVERAGING_FRACTION and fraction < MIN_PROGRESS_FRACTION
        is_saturated = progress.mean_saturation > MAX_SATURATED_FRACTION * average
        if average >= MIN_LIMITED_FRACTION and fraction < FOLLOWING_FRACTION and is_saturated and not progress.is_stuck:
            return LimitReason.JOINT_TORQUE
    if not progress.is_stuck:
        return LimitReason.NONE
    scale_velocity(velocity, 0.0)
    return LimitReason.NO_PROGRESS


def allocate_progress(dt: float, time_scale: float) -> ProgressState:
    """Returns a record without averages for the control period `dt` [s] and the unit of time ``sqrt(l / g)`` [s]."""
    state = ProgressState.allocate()
    state.alpha = dt / (AVERAGING_TIME * time_scale)
    return state
