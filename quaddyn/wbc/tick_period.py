"""Comparison of the motion of a robot between control ticks with its velocity.

It estimates the time between ticks, and detects states in another convention: a base velocity in world axes, or a
quaternion with w first, velocities in another unit, of opposite sign, or in another order.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable

import numpy as np

from ..compiler import Mat3, Matrix, Record, Vec3, Vector, compiled, entry, mat3, quat, rotation_of, vec3
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

#: Minimum excursion of a coordinate [rad or m], and maximum speed of one without velocity [rad/s or m/s], at which
#: the changes of all coordinates are compared with the velocity; number of these comparisons.
MIN_EXCURSION, MAX_COORDINATE_SPEED, MAX_COMPARISONS = 0.03, 50.0, 10
#: Minimum squared correlation of change and velocity at which one determines the other up to a factor, and that below
#: which they contradict each other.
MIN_CORRELATION, MAX_CONTRADICTING_CORRELATION = 0.9, 0.5
#: Relative tolerance of a conversion of units, and minimum fraction of the squared change of all joints of a compared
#: joint.
UNIT_TOLERANCE, MIN_JOINT_FRACTION = 0.2, 0.01
#: Minimum ratio of two units, or of its inverse: contacts change velocities within a tick, so that the change of slow
#: joints is up to 1.5 times the mean of the velocities before and after it.
MIN_UNIT_RATIO = 2.5
#: Ratios of change and velocity of units: degrees per second, revolutions per minute.
DEGREE, RPM = math.pi / 180.0, math.pi / 30.0


class StateConvention(enum.IntEnum):
    """Conventions of the state that the motion between ticks shows."""

    EXPECTED = 0
    WORLD_VELOCITY = 1  # linear velocity of the base in world axes
    W_FIRST = 2  # quaternion (w, x, y, z)
    JOINT_ZERO = 3  # joint velocities that are zero
    JOINT_SIGN = 4  # of opposite sign
    JOINT_DEGREES = 5  # in deg/s
    JOINT_RPM = 6  # in revolutions per minute
    JOINT_SCALE = 7  # in another unit
    ONE_JOINT_SIGN = 8  # of opposite sign, of one joint
    JOINT_ORDER = 9  # in another order
    ANGULAR_ZERO = 10  # angular velocity of the base, likewise
    ANGULAR_SIGN = 11
    ANGULAR_DEGREES = 12
    ANGULAR_RPM = 13
    ANGULAR_SCALE = 14
    ANGULAR_FIRST = 15  # angular velocity of the base before its linear velocity
    LINEAR_SCALE = 16  # linear velocity of the base in another unit


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
    has_scalar_joints: bool  # whether each joint has one coordinate and one velocity
    comparisons: int  # of the changes of all coordinates with the velocity
    coordinate_ticks: int
    velocity_index: int  # among the velocities, of the joint that `convention` concerns
    other_index: int  # of the velocity that describes its motion; of `StateConvention.JOINT_ORDER`
    joint_scale: float  # change of all joints divided by their velocity at the last comparison; 0 if it is unknown
    scale: float  # change divided by velocity, of a convention in another unit
    last_q: Vector  # (nq,) at the last tick
    last_v: Vector  # (nv,) likewise
    step: Vector  # (nv,) change of the coordinates since the last tick: base in base axes, joints
    net_change: Vector  # (nv,) sum of the changes
    excursion: Vector  # (nv,) maximum of its magnitude
    squared_change: Vector  # (nv,) sum of the squared changes
    squared_rate: Vector  # (nv,) sum of the squared mean velocities times dt
    change_products: Matrix  # (nv, nv) sum of the products of change (row) and mean velocity times dt (column)


@compiled()
def restart_sums(sums: TickDisplacements) -> None:
    """Restarts the sums."""
    sums.ticks = 0
    sums.displacement = vec3(0.0, 0.0, 0.0)
    sums.squared_displacement, sums.product, sums.squared_speed = 0.0, 0.0, 0.0
    sums.squared_base_displacement = 0.0
    sums.base_errors = vec3(0.0, 0.0, 0.0)


@compiled()
def restart_comparison(sums: TickDisplacements) -> None:
    """Restarts the comparison of the changes of all coordinates."""
    sums.coordinate_ticks = 0
    sums.net_change[:] = 0.0
    sums.excursion[:] = 0.0
    sums.squared_change[:] = 0.0
    sums.squared_rate[:] = 0.0
    for i in range(len(sums.step)):
        for j in range(len(sums.step)):
            sums.change_products[i, j] = 0.0


@entry("period of the ticks")
def reset_tick_period(sums: TickDisplacements) -> None:
    """Resets the estimate."""
    sums.has_last = False
    sums.other_period = 0.0
    sums.convention = StateConvention.EXPECTED
    sums.comparisons, sums.joint_scale = 0, 0.0
    restart_sums(sums)
    restart_comparison(sums)


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


@compiled()
def compute_step(sums: TickDisplacements, q: Vector) -> None:
    """Computes the changes of all coordinates since the last tick."""
    step, last, base = sums.step, sums.last_q, 0
    if sums.has_floating_base:
        base = 6
        moved = vec3(q[0] - last[0], q[1] - last[1], q[2] - last[2])
        linear = rotation_of(quat(q[3], q[4], q[5], q[6])).T @ moved
        x, y, z, w = last[3], last[4], last[5], last[6]
        sign = 2.0 if w * q[6] + x * q[3] + y * q[4] + z * q[5] > 0.0 else -2.0
        step[0], step[1], step[2] = linear[0], linear[1], linear[2]
        step[3] = sign * (w * q[3] - x * q[6] - y * q[5] + z * q[4])
        step[4] = sign * (w * q[4] + x * q[5] - y * q[6] - z * q[3])
        step[5] = sign * (w * q[5] - x * q[4] + y * q[3] - z * q[6])
    offset = len(q) - len(step)
    for i in range(base, len(step)):
        step[i] = q[i + offset] - last[i + offset]


@compiled()
def sum_products(sums: TickDisplacements, begin: int, end: int, shift: int) -> float:
    """Returns the sum of the products of changes begin to end and mean velocities shift before them."""
    total = 0.0
    for i in range(begin, end):
        total += sums.change_products[i, i - shift]
    return total


@compiled()
def sum_range(values: Vector, begin: int, end: int) -> float:
    """Returns the sum of values begin to end."""
    total = 0.0
    for i in range(begin, end):
        total += values[i]
    return total


@compiled()
def compute_scale(sums: TickDisplacements, begin: int, end: int) -> float:
    """Returns the ratio of change and velocity of coordinates begin to end; 0 if they are not proportional."""
    change, rate = sum_range(sums.squared_change, begin, end), sum_range(sums.squared_rate, begin, end)
    product = sum_products(sums, begin, end, 0)
    return product / rate if product * product > MIN_CORRELATION * change * rate and rate > 0.0 else 0.0


@compiled()
def has_same_scale(scale: float) -> bool:
    """Returns whether a ratio of change and velocity is that of the expected velocity."""
    return MIN_RATIO < scale and scale < MAX_RATIO


@compiled()
def has_other_unit(scale: float) -> bool:
    """Returns whether a ratio of change and velocity, greater than zero, is large or small enough for another unit."""
    return scale > MIN_UNIT_RATIO or scale * MIN_UNIT_RATIO < 1.0


@compiled()
def find_group_convention(sums: TickDisplacements, begin: int, end: int, kind: int) -> int:
    """Returns the convention of velocities begin to end as a whole: `kind` plus 0 (zero) to 4 (scale), or 0."""
    largest, steadiest = 0.0, 0.0
    for i in range(begin, end):
        largest = max(largest, sums.excursion[i])
        net = sums.net_change[i]
        if sums.squared_change[i] > 0.0:
            steadiest = max(steadiest, net * net / sums.squared_change[i])
    if largest < MIN_EXCURSION:
        return 0
    if sum_range(sums.squared_rate, begin, end) == 0.0:
        return kind if steadiest > MIN_STEADY_FRACTION * sums.coordinate_ticks else 0
    scale = compute_scale(sums, begin, end)
    sums.scale = scale
    if scale == 0.0 or has_same_scale(scale):
        return 0
    if scale < 0.0:
        return kind + 1
    if abs(scale / DEGREE - 1.0) < UNIT_TOLERANCE:
        return kind + 2
    if abs(scale / RPM - 1.0) < UNIT_TOLERANCE:
        return kind + 3
    # A factor of all velocities is another period.
    is_reference = begin > 0 and has_same_scale(compute_scale(sums, 0, 3))
    return kind + 4 if is_reference and has_other_unit(scale) else 0


@compiled()
def find_joint_convention(sums: TickDisplacements, begin: int) -> StateConvention:
    """Returns whether single joint velocities, from `begin` on, have the opposite sign or another order."""
    n, misplaced = len(sums.step), 0
    min_change = MIN_JOINT_FRACTION * sum_range(sums.squared_change, begin, n)
    for i in range(begin, n):
        change, own = sums.squared_change[i], sums.change_products[i, i]
        if change <= min_change or sums.excursion[i] < MIN_EXCURSION:
            continue
        if own * own > MIN_CORRELATION * change * sums.squared_rate[i]:
            if own < 0.0:
                sums.velocity_index = i
                return StateConvention.ONE_JOINT_SIGN
        elif own <= 0.0 or own * own < MAX_CONTRADICTING_CORRELATION * change * sums.squared_rate[i]:
            for j in range(begin, n):
                product, rate = sums.change_products[i, j], sums.squared_rate[j]
                if product > 0.0 and product * product > MIN_EXPLAINED_FRACTION * change * rate:
                    if has_same_scale(product / rate):
                        sums.velocity_index, sums.other_index = i, j
                        misplaced += 1
                        break
    return StateConvention.JOINT_ORDER if misplaced >= 2 else StateConvention.EXPECTED


@compiled(inline=False)
def find_velocity_convention(sums: TickDisplacements) -> StateConvention:
    """Returns the convention of velocities that the changes of all coordinates show."""
    base, n = 6 if sums.has_floating_base else 0, len(sums.step)
    found = find_group_convention(sums, base, n, int(StateConvention.JOINT_ZERO))
    sums.joint_scale = compute_scale(sums, base, n)
    if found == 0:
        found = int(find_joint_convention(sums, base))
    if found == 0 and base > 0:
        product = sum_products(sums, 3, 6, 3)
        change, rate = sum_range(sums.squared_change, 3, 6), sum_range(sums.squared_rate, 0, 3)
        is_explained = product > 0.0 and product * product > MIN_CORRELATION * change * rate
        # A base whose linear and angular velocity are the same moves as both say.
        if is_explained and compute_scale(sums, 3, 6) == 0.0 and has_same_scale(product / rate):
            return StateConvention.ANGULAR_FIRST
        found = find_group_convention(sums, 3, 6, int(StateConvention.ANGULAR_ZERO))
    return StateConvention(found)


@compiled(inline=False)
def compare_coordinates(sums: TickDisplacements, q: Vector, v: Vector) -> None:
    """Compares the changes of all coordinates with the velocity, for some tenths of a second of motion."""
    n, has_jumped = len(sums.step), False
    if sums.has_last:
        compute_step(sums, q)
        max_speed = MAX_COORDINATE_SPEED
        for i in range(n):
            max_speed = max(max_speed, 2.0 * abs(v[i]))
        for i in range(n):
            has_jumped = has_jumped or abs(sums.step[i]) > max_speed * sums.dt
        if has_jumped:
            restart_comparison(sums)
        else:
            sums.coordinate_ticks += 1
            half, excursion = 0.5 * sums.dt, 0.0
            for i in range(n):
                rate, step = half * (v[i] + sums.last_v[i]), sums.step[i]
                sums.squared_rate[i] += rate * rate
                sums.squared_change[i] += step * step
                sums.net_change[i] += step
                sums.excursion[i] = max(sums.excursion[i], abs(sums.net_change[i]))
                if i >= 3 or not sums.has_floating_base:
                    excursion = max(excursion, sums.excursion[i])
                for j in range(n):
                    sums.change_products[j, i] += rate * sums.step[j]
            if sums.coordinate_ticks * sums.dt >= MIN_TIME and excursion > MIN_EXCURSION:
                convention = find_velocity_convention(sums)
                if sums.convention == StateConvention.EXPECTED:
                    sums.convention = convention
                sums.comparisons += 1
                restart_comparison(sums)
    sums.last_q[:] = q
    sums.last_v[:] = v


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
    if sums.has_scalar_joints and sums.comparisons < MAX_COMPARISONS:
        compare_coordinates(sums, q, v)
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
    if convention != StateConvention.EXPECTED or sums.convention != StateConvention.EXPECTED:
        if sums.convention == StateConvention.EXPECTED:
            sums.convention = convention
        restart_sums(sums)
        return 0.0
    # Vibrations, such as those of contacts, do not appear in the velocities at the ticks; their displacements cancel.
    distance = sums.displacement @ sums.displacement
    is_steady = distance > MIN_STEADY_FRACTION * sums.ticks * sums.squared_displacement
    is_explained = sums.product * sums.product > MIN_EXPLAINED_FRACTION * sums.squared_speed * sums.squared_displacement
    period = sums.product / sums.squared_speed if is_steady and is_explained else sums.dt
    has_other_period = not has_same_scale(period / sums.dt)
    if has_other_period and sums.has_scalar_joints and sums.comparisons == 0 and sums.ticks * sums.dt < MAX_LANE_TIME:
        return 0.0  # the joints are to show first whether it is the period or the velocity
    restart_sums(sums)
    if has_other_period and sums.has_floating_base and has_same_scale(sums.joint_scale):
        if has_other_unit(period / sums.dt):
            sums.convention, sums.scale = StateConvention.LINEAR_SCALE, period / sums.dt
    elif has_other_period:
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
    StateConvention.ANGULAR_FIRST: (
        "v: the base turns between ticks as if v[:3] were its angular velocity; pass the linear velocity first, then "
        "the angular one, both in base axes"
    ),
    StateConvention.LINEAR_SCALE: (
        "v: the base moves between ticks {scale:.2g} times as fast as its linear velocity v[:3]; pass it in m/s"
    ),
    StateConvention.ONE_JOINT_SIGN: "v: q[{q}] changes between ticks as if v[{v}] had the opposite sign; negate it",
    StateConvention.JOINT_ORDER: (
        "v: joints change between ticks as if v had another order than q: the rate of q[{q}] is v[{other}]; pass v in "
        "the order of q"
    ),
}
#: Ends of these warnings for velocities as a whole, in the order of their conventions.
GROUP_WARNINGS = (
    "as if v[{v}] were not zero; pass the measured velocity, or the difference of q divided by dt",
    "as if v[{v}] had the opposite sign; negate it",
    "as if v[{v}] were in deg/s; pass rad/s",
    "as if v[{v}] were in revolutions per minute; pass rad/s",
    "{scale:.2g} times as fast as v[{v}]; pass rad/s or m/s",
)


def describe_inconsistent_motion(sums: TickDisplacements) -> str:
    """Returns one sentence about another period or another convention that was measured; "" if there was none."""
    convention = StateConvention(sums.convention)
    if convention in STATE_CONVENTION_WARNINGS:
        offset = 1 if sums.has_floating_base else 0
        return STATE_CONVENTION_WARNINGS[convention].format(
            q=sums.velocity_index + offset, v=sums.velocity_index, other=sums.other_index, scale=sums.scale
        )
    if convention >= StateConvention.ANGULAR_ZERO:
        end = GROUP_WARNINGS[convention - StateConvention.ANGULAR_ZERO]
        return "v: the base turns between ticks " + end.format(v="3:6", scale=sums.scale)
    if convention >= StateConvention.JOINT_ZERO:
        end = GROUP_WARNINGS[convention - StateConvention.JOINT_ZERO]
        return "v: the joints move between ticks " + end.format(
            v="6:" if sums.has_floating_base else ":", scale=sums.scale
        )
    if sums.other_period:
        return (
            f"dt: the controller was made with dt={sums.dt:g} s, but the motion between its calls corresponds to "
            f"a period of {sums.other_period:.2g} s; call it every dt, or make it with the actual period"
        )
    return ""


def make_tick_displacements(robot: Robot, dt: float) -> TickDisplacements:
    """Creates the sums for a controller of `robot` with the control period `dt` [s]."""
    nq, nv = robot.nq, robot.nv
    names = ("last_v", "step", "net_change", "excursion", "squared_change", "squared_rate")
    sums = TickDisplacements.allocate(last_q=nq, change_products=(nv, nv), **dict.fromkeys(names, nv))
    sums.dt, sums.has_floating_base = dt, robot.root == "free"
    sums.has_scalar_joints = nq == nv + int(sums.has_floating_base)
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
