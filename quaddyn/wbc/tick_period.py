"""Comparison of the motion of a robot between control ticks with its velocity.

It estimates the time between ticks, and detects states in another convention: a base velocity in world axes, or a
quaternion with w first.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable

import numpy as np

from ..compiler import Mat3, Record, Vec3, Vector, compiled, entry, mat3, quat, rotation_of, vec3
from ..robot.robot import Robot
from ..urdf.tree import Array

#: Range of the ratio of the measured period to that of the controller in which they agree.
MIN_RATIO, MAX_RATIO = 0.75, 1.33
#: Minimum fraction of the squared displacements that a period must explain: a state that jumps has no period.
MIN_EXPLAINED_FRACTION = 0.95
#: Minimum time [s] and displacement [m] of the center of mass from which a period is computed.
MIN_TIME, MIN_DISPLACEMENT = 0.2, 0.003
#: Minimum squared distance from first to last position, as a fraction of that of a motion at constant velocity.
MIN_STEADY_FRACTION = 0.03


#: Minimum error of the displacements of the base by its velocity, as a fraction of the squared displacements, at which
#: they contradict each other.  A rotation of 30 deg between their axes exceeds it.
CONTRADICTION_FRACTION = 0.25

#: Number of periods in which a lane must agree with its velocity, and the time after which another lane is compared if
#: a lane does not move [s].
MAX_LANE_EVALUATIONS, MAX_LANE_TIME = 3, 0.5


class StateConvention(enum.IntEnum):
    """Conventions of the state that the motion between ticks shows."""

    EXPECTED = 0
    WORLD_VELOCITY = 1  # linear velocity of the base in world axes
    W_FIRST = 2  # quaternion (w, x, y, z)


class TickDisplacements(Record):
    """Sums over the displacements of center of mass and base between ticks."""

    dt: float  # control period [s]
    has_floating_base: bool  # whether q and v begin with position, quaternion and velocity of a base
    up: Vec3  # upward direction in the nominal attitude of the base, base axes
    has_last: bool  # whether there was a tick before
    last_position: Vec3  # of the center of mass at the last tick, world [m]
    last_velocity: Vec3  # likewise [m/s]
    ticks: int
    displacement: Vec3  # sum of the displacements [m]
    squared_displacement: float  # sum of their squares [m^2]
    product: float  # sum of the products of displacement and mean velocity [m^2/s]
    squared_speed: float  # sum of the squared mean velocities [m^2/s^2]
    other_period: float  # last measured period that differs from `dt` [s]; 0 if there was none
    convention: StateConvention  # last that was detected
    last_base: Vec3  # position of the base at the last tick, world [m]
    base_velocity: Mat3  # linear velocity of the base at the last tick, a row for each convention, world [m/s]
    squared_base_displacement: float  # sum of the squared displacements of the base [m^2]
    base_errors: Vec3  # sums of their squared differences from velocity times `dt`, for each convention [m^2]


@compiled()
def restart_sums(sums: TickDisplacements) -> None:
    """Restarts the sums."""
    sums.ticks = 0
    sums.displacement = vec3(0.0, 0.0, 0.0)
    sums.squared_displacement, sums.product, sums.squared_speed = 0.0, 0.0, 0.0
    sums.squared_base_displacement = 0.0
    sums.base_errors = vec3(0.0, 0.0, 0.0)


@entry("period of the ticks")
def reset_tick_period(sums: TickDisplacements) -> None:
    """Resets the estimate."""
    sums.has_last = False
    sums.other_period = 0.0
    sums.convention = StateConvention.EXPECTED
    restart_sums(sums)


@compiled()
def add_base_displacement(sums: TickDisplacements, q: Vector, v: Vector) -> None:
    """Adds the displacement of the base since the last tick, and its errors by the velocity in each convention."""
    position, linear = vec3(q[0], q[1], q[2]), vec3(v[0], v[1], v[2])
    expected = rotation_of(quat(q[3], q[4], q[5], q[6])) @ linear
    w_first = rotation_of(quat(q[4], q[5], q[6], q[3])) @ linear
    velocity = mat3(expected, linear, w_first)
    if sums.has_last:
        step = position - sums.last_base
        mean = 0.5 * sums.dt * (velocity + sums.base_velocity)
        error, error_world, error_w_first = step - mean[0], step - mean[1], step - mean[2]
        sums.squared_base_displacement += step @ step
        sums.base_errors += vec3(error @ error, error_world @ error_world, error_w_first @ error_w_first)
    sums.last_base = position
    sums.base_velocity = velocity


@compiled()
def find_convention(sums: TickDisplacements, q: Vector) -> StateConvention:
    """Returns the convention that explains the displacements of the base, if the expected one contradicts them.

    An upright robot at yaw 0 whose quaternion has w first seems to lie on its back, and both other conventions explain
    its displacements; then it is the quaternion.
    """
    displacement, errors = sums.squared_base_displacement, sums.base_errors
    if errors[0] <= CONTRADICTION_FRACTION * displacement:
        return StateConvention.EXPECTED
    max_error = (1.0 - MIN_EXPLAINED_FRACTION) * displacement
    has_world_velocity, has_w_first = errors[1] < max_error, errors[2] < max_error
    if has_world_velocity and has_w_first:
        up, up_w_first = (
            rotation_of(quat(q[3], q[4], q[5], q[6])) @ sums.up,
            rotation_of(quat(q[4], q[5], q[6], q[3])) @ sums.up,
        )
        has_w_first = up_w_first[2] > up[2]
    if has_w_first:
        return StateConvention.W_FIRST
    return StateConvention.WORLD_VELOCITY if has_world_velocity else StateConvention.EXPECTED


@compiled(inline=False)
def measure_tick_period(sums: TickDisplacements, position: Vec3, velocity: Vec3, q: Vector, v: Vector) -> float:
    """Updates the sums by one tick, and returns the measured period [s] if it differs from the control period, else 0.

    The displacements of the center of mass between ticks are compared with its velocity times the control period.  The
    period is that of the last fifth of a second or more.  Those of the base are compared with the velocity in other
    conventions; if one of them is detected, `sums.convention` is set and no period is returned.

    Args:
        sums: the sums.
        position: center of mass, world [m].
        velocity: velocity of the center of mass, world [m/s].
        q: (nq,) configuration.
        v: (nv,) velocity.
    """
    if sums.has_floating_base:
        add_base_displacement(sums, q, v)
    step, mean_velocity = position - sums.last_position, 0.5 * (velocity + sums.last_velocity)
    had_last = sums.has_last
    sums.last_position = position
    sums.last_velocity = velocity
    sums.has_last = True
    if not had_last:
        return 0.0
    sums.displacement += step
    sums.squared_displacement += step @ step
    sums.product += step @ mean_velocity
    sums.squared_speed += mean_velocity @ mean_velocity
    sums.ticks += 1
    # The distance is at most the root of the number of displacements times the sum of their squares.
    if sums.ticks * sums.dt < MIN_TIME or sums.ticks * sums.squared_displacement < MIN_DISPLACEMENT * MIN_DISPLACEMENT:
        return 0.0
    convention = find_convention(sums, q) if sums.has_floating_base else StateConvention.EXPECTED
    if convention != StateConvention.EXPECTED:
        sums.convention = convention
        restart_sums(sums)
        return 0.0
    # Vibrations, such as those of contacts, do not appear in the velocities at the ticks; their displacements cancel.
    distance = sums.displacement @ sums.displacement
    is_steady = distance > MIN_STEADY_FRACTION * sums.ticks * sums.squared_displacement
    is_explained = sums.product * sums.product > MIN_EXPLAINED_FRACTION * sums.squared_speed * sums.squared_displacement
    period = sums.product / sums.squared_speed if is_steady and is_explained else sums.dt
    restart_sums(sums)
    if period < MIN_RATIO * sums.dt or period > MAX_RATIO * sums.dt:
        sums.other_period = period
        return period
    return 0.0


@entry("period of the ticks")
def has_inconsistent_motion(sums: TickDisplacements, com: Vector, velocity: Vector, q: Vector, v: Vector) -> bool:
    """Calls `measure_tick_period` from Python; returns whether another period or convention was ever measured.

    Args:
        sums: the sums.
        com: (3,) center of mass, world [m].
        velocity: (3,) velocity of the center of mass, world [m/s].
        q: (nq,) configuration.
        v: (nv,) velocity.
    """
    measure_tick_period(sums, vec3(com), vec3(velocity), q, v)
    return sums.other_period != 0.0 or sums.convention != StateConvention.EXPECTED


#: Warnings of a state whose motion between ticks shows another convention.
STATE_CONVENTION_WARNINGS = {
    StateConvention.WORLD_VELOCITY: (
        "v: the base moves between ticks as if its linear velocity v[:3] were in world axes; pass it in base axes, "
        "R.T @ v[:3] with the rotation R of the base"
    ),
    StateConvention.W_FIRST: (
        "q: the base moves between ticks as if its quaternion q[3:7] were (w, x, y, z); pass it as (x, y, z, w)"
    ),
}


def describe_inconsistent_motion(sums: TickDisplacements) -> str:
    """Returns one sentence about another period or another convention that was measured; "" if there was none."""
    if sums.convention != StateConvention.EXPECTED:
        return STATE_CONVENTION_WARNINGS[StateConvention(sums.convention)]
    if sums.other_period:
        return (
            f"dt: the controller was made with dt={sums.dt:g} s, but the motion between its calls corresponds to "
            f"a period of {sums.other_period:.2g} s; call it every dt, or make it with the actual period"
        )
    return ""


def make_tick_displacements(robot: Robot, dt: float) -> TickDisplacements:
    """Creates the sums for a controller of `robot` with the control period `dt` [s]."""
    sums = TickDisplacements.allocate()
    sums.dt, sums.has_floating_base = dt, robot.root == "free"
    if sums.has_floating_base:
        sums.up = rotation_of(quat(*robot.q_home[3:7].tolist())).T @ vec3(0.0, 0.0, 1.0)
    return sums


class LaneMotionCheck:
    """Comparison of the motion of lanes between ticks with their velocity, one lane after the other.

    All lanes are computed by the same calls, so that one lane that moves is sufficient: the check ends after some
    periods in which the motion of a lane agreed with its velocity.

    Args:
        robot: robot of each lane.
        dt: control period [s].

    Attributes:
        is_active: whether further ticks are compared.
    """

    def __init__(self, robot: Robot, dt: float) -> None:
        self._sums = make_tick_displacements(robot, dt)
        self._is_inconsistent: Callable[..., bool] | None = None
        self._position, self._velocity = np.zeros(3), np.zeros(3)
        self._lane, self._evaluations, self._has_free_root = 0, 0, robot.root == "free"
        self.is_active = self._has_free_root or robot.nq == robot.nv >= 3

    def update(self, q: Array, v: Array) -> str:
        """Compares one tick, and returns a sentence about another period or convention, "" if there is none.

        Args:
            q: (n, nq) configurations.
            v: (n, nv) velocities.
        """
        sums, lane = self._sums, self._lane
        q_lane, v_lane = q[lane], v[lane]
        position, velocity = self._position, self._velocity
        if not math.isfinite(float(np.vdot(q_lane, q_lane) + np.vdot(v_lane, v_lane))):
            self._begin((lane + 1) % len(q))
            return ""
        position[:], velocity[:] = q_lane[:3], v_lane[:3]
        if self._has_free_root:  # numbers, since products of short arrays would take ten times as long
            (x, y, z, w), (a, b, c) = q_lane[3:7].tolist(), v_lane[:3].tolist()
            i, j, k = 2.0 * (y * c - z * b), 2.0 * (z * a - x * c), 2.0 * (x * b - y * a)
            velocity[:] = a + w * i + y * k - z * j, b + w * j + z * i - x * k, c + w * k + x * j - y * i
        if self._is_inconsistent is None:
            self._is_inconsistent = has_inconsistent_motion.bind(sums)
        ticks = sums.ticks
        if self._is_inconsistent(position, velocity, q_lane, v_lane):
            self.is_active = False
            return f"lane {lane}: {describe_inconsistent_motion(sums)}"
        if ticks and not sums.ticks:
            self._evaluations += 1
            self.is_active = self._evaluations < MAX_LANE_EVALUATIONS
        elif sums.ticks * sums.dt > MAX_LANE_TIME:
            self._begin((lane + 1) % len(q))
        return ""

    def _begin(self, lane: int) -> None:
        """Starts the comparison of another lane."""
        self._lane = lane
        reset_tick_period.python(self._sums)
