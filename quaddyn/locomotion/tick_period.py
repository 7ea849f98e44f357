"""Compiled estimate of the time between ticks from the motion of the robot."""

from ..compiler import Record, Vec3, compiled, entry
from .motion import Motion

#: Range of the ratio of the measured period to that of the controller in which they agree.
MIN_RATIO, MAX_RATIO = 0.75, 1.33
#: Minimum fraction of the squared displacements that a period must explain: a state that jumps has no period.
MIN_EXPLAINED_FRACTION = 0.95
#: Minimum time [s] and displacement [m] of the center of mass from which a period is computed.
MIN_TIME, MIN_DISPLACEMENT = 0.2, 0.003


class TickDisplacements(Record):
    """Sums over the displacements of the center of mass between ticks."""

    dt: float  # control period [s]
    has_last: bool  # whether there was a tick before
    last_position: Vec3  # of the center of mass at the last tick, world [m]
    last_velocity: Vec3  # likewise [m/s]
    ticks: int
    displacement: float  # sum of the squared displacements [m^2]
    product: float  # sum of the products of displacement and mean velocity [m^2/s]
    speed: float  # sum of the squared mean velocities [m^2/s^2]
    other_period: float  # last measured period that differs from `dt` [s]; 0 if there was none


@compiled()
def restart_sums(sums: TickDisplacements) -> None:
    """Restarts the sums."""
    sums.ticks = 0
    sums.displacement, sums.product, sums.speed = 0.0, 0.0, 0.0


@entry("period of the ticks")
def reset_tick_period(sums: TickDisplacements) -> None:
    """Resets the estimate."""
    sums.has_last = False
    sums.other_period = 0.0
    restart_sums(sums)


@entry("period of the ticks")
def measure_tick_period(sums: TickDisplacements, motion: Motion) -> float:
    """Updates the sums by one tick, and returns the measured period [s] if it differs from the control period, else 0.

    The displacements of the center of mass between ticks are compared with its velocity times the control period.  The
    period is that of the last fifth of a second or more.
    """
    position, velocity = motion.com, motion.velocity
    step, mean_velocity = position - sums.last_position, 0.5 * (velocity + sums.last_velocity)
    had_last = sums.has_last
    sums.last_position = position
    sums.last_velocity = velocity
    sums.has_last = True
    if not had_last:
        return 0.0
    sums.displacement += step @ step
    sums.product += step @ mean_velocity
    sums.speed += mean_velocity @ mean_velocity
    sums.ticks += 1
    # The distance is at most the root of the number of displacements times the sum of their squares.
    if sums.ticks * sums.dt < MIN_TIME or sums.ticks * sums.displacement < MIN_DISPLACEMENT * MIN_DISPLACEMENT:
        return 0.0
    is_explained = sums.product * sums.product > MIN_EXPLAINED_FRACTION * sums.speed * sums.displacement
    period = sums.product / sums.speed if is_explained else sums.dt
    restart_sums(sums)
    if period < MIN_RATIO * sums.dt or period > MAX_RATIO * sums.dt:
        sums.other_period = period
        return period
    return 0.0


def make_tick_displacements(dt: float) -> TickDisplacements:
    """Creates the sums for the control period `dt` [s]."""
    sums = TickDisplacements.allocate()
    sums.dt = dt
    return sums
