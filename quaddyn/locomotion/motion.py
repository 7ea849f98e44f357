"""`CentroidalState`: the quantities that a locomotion tick takes from the robot's state.

The module also compares the motion of the robot between ticks with its velocity: it estimates the time between ticks,
and detects states in another convention.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..compiler import (
    IntVector,
    Mat3,
    Matrix,
    Record,
    Vec3,
    Vector,
    compiled,
    entry,
    mat3,
    quat,
    rotation_of,
    vec3,
)
from ..dynamics.state_terms import make_tick_terms
from ..urdf.tree import Array
from ..wbc import WholeBodyController
from ..wbc.controller_model import make_terms
from ..wbc.tick_data import RigidBodyTerms, frame_origin
from .morphology import FEET, BodyParameters
from .state_fields import StateField

Vector3 = tuple[float, float, float]


class Motion(Record):
    """Center of mass, trunk and feet of the robot at one tick, world axes."""

    com: Vec3  # center of mass of the robot with its estimated payload [m]
    velocity: Vec3  # of the robot's center of mass [m/s]
    R_base: Mat3  # attitude of the base
    axes: Mat3  # heading axes of the trunk: columns forward, left and up
    yaw: float  # of the forward direction [rad]
    feet: Matrix  # (4, 3) centers of the foot spheres [m]
    angular_velocity: Vec3  # of the base [rad/s]
    payload_shift: Vec3  # center of mass with payload minus that of the robot [m]; an input of `read_motion`


@compiled()
def set_attitude(motion: Motion, R_base: Mat3, heading: Mat3) -> None:
    """Sets attitude, heading axes and yaw angle; `heading` is the rotation from heading axes to the base frame."""
    axes = R_base @ heading
    motion.R_base = R_base
    motion.axes = axes
    motion.yaw = math.atan2(axes[1, 0], axes[0, 0])


@compiled()
def trunk_up(motion: Motion) -> Vec3:
    """Returns the upward axis of the trunk, world."""
    axes = motion.axes
    return vec3(axes[0, 2], axes[1, 2], axes[2, 2])


@entry("motion of the robot")
def read_motion(
    q: Vector,
    v: Vector,
    terms: RigidBodyTerms,
    foot_frames: IntVector,
    body: BodyParameters,
    motion: Motion,
) -> None:
    """Reads the motion of a robot with a free root from the terms of the whole-body controller.

    Args:
        q: (nq,) configuration: position [m] and quaternion of the base, then joint positions.
        v: (nv,) velocity: linear [m/s] and angular [rad/s] velocity of the base, base axes, then joint velocities.
        terms: rigid-body terms at (q, v).
        foot_frames: (4,) indices of the feet in `terms.frames`.
        body: parameters of the robot.
        motion: takes the result.
    """
    R_base = rotation_of(quat(q[3], q[4], q[5], q[6]))
    set_attitude(motion, R_base, body.heading)
    motion.angular_velocity = R_base @ vec3(v[3], v[4], v[5])
    motion.com = vec3(terms.com) + motion.payload_shift
    motion.velocity = vec3(terms.com_velocity)
    for foot in range(4):
        motion.feet[foot] = frame_origin(terms, foot_frames[foot])


def allocate_motion() -> Motion:
    """Returns a motion of zeros."""
    return Motion.allocate(feet=(4, 3))


class CentroidalState:
    """Center of mass, heading and feet of the robot at one tick, in world axes.

    Arrays and vectors are copies of the record's, so that they may be kept when the record changes.

    Args:
        motion: the record of compiled functions.

    Attributes:
        state: the record.
        com: center of mass of the robot with its estimated payload [m].
        velocity: velocity of the robot's center of mass [m/s].
        axes: (3, 3) heading axes of the trunk: columns forward, left and up.
        yaw: yaw angle of the forward direction [rad].
        feet: (4, 3) centers of the foot spheres [m].
    """

    __slots__ = ("_axes", "_com", "_feet", "_velocity", "state")

    yaw = StateField[float]()

    def __init__(self, motion: Motion) -> None:
        # Views of the arrays are faster to read than the attributes of the record.
        self.state = motion
        self._com, self._velocity, _, axes, _, self._feet, *_ = motion
        self._axes = axes.reshape(3, 3)

    @property
    def com(self) -> Vector3:
        """Center of mass of the robot with its estimated payload [m]."""
        x, y, z = self._com.tolist()
        return x, y, z

    @property
    def velocity(self) -> Vector3:
        """Velocity of the robot's center of mass [m/s]."""
        x, y, z = self._velocity.tolist()
        return x, y, z

    @property
    def axes(self) -> Array:
        """(3, 3) heading axes of the trunk: columns forward, left and up."""
        axes: Array = self._axes.copy()
        return axes

    @property
    def feet(self) -> Array:
        """(4, 3) centers of the foot spheres [m]."""
        feet: Array = self._feet.copy()
        return feet


def find_motion_terms(wbc: WholeBodyController) -> tuple[RigidBodyTerms, IntVector, Callable[[Array, Array], Any]]:
    """Returns the rigid-body terms from which a motion is read, and how they are computed.

    They are the terms of the controller, which computes them at every tick, or terms of their own if a foot is not in
    those.

    Args:
        wbc: whole-body controller of a quadruped.

    Returns:
        The terms; (4,) index of each foot in their frames; and the function that computes them at (q, v).
    """
    robot, solver = wbc.robot, wbc.solver
    frames = [robot.frame_id(name) for name in solver.tables.frames]
    feet = [robot.frame_id(foot) for foot in FEET]
    if set(feet) <= set(frames):
        return solver.data.terms, np.array([frames.index(foot) for foot in feet]), solver.update_terms
    own = make_tick_terms(robot, FEET)
    terms = make_terms(own, FEET)
    return terms, np.arange(len(FEET)), lambda q, v: own.compute(q, v, terms.values)


#: Range of the ratio of the measured period to that of the controller in which they agree.
MIN_RATIO, MAX_RATIO = 0.75, 1.33
#: Minimum fraction of the squared displacements that a period must explain: a state that jumps has no period.
MIN_EXPLAINED_FRACTION = 0.95
#: Minimum time [s] and displacement [m] of the center of mass from which a period is computed.
MIN_TIME, MIN_DISPLACEMENT = 0.2, 0.003


#: Minimum error of the displacements of the base by its velocity, as a fraction of the squared displacements, at which
#: they contradict each other.  A rotation by 30 deg between the axes of both exceeds it.
CONTRADICTION_FRACTION = 0.25


class StateConvention(enum.IntEnum):
    """Conventions of the state that the motion between ticks shows."""

    EXPECTED = 0
    WORLD_VELOCITY = 1  # linear velocity of the base in world axes
    W_FIRST = 2  # quaternion (w, x, y, z)


class TickDisplacements(Record):
    """Sums over the displacements of center of mass and base between ticks."""

    dt: float  # control period [s]
    has_last: bool  # whether there was a tick before
    last_position: Vec3  # of the center of mass at the last tick, world [m]
    last_velocity: Vec3  # likewise [m/s]
    ticks: int
    displacement: float  # sum of the squared displacements [m^2]
    product: float  # sum of the products of displacement and mean velocity [m^2/s]
    speed: float  # sum of the squared mean velocities [m^2/s^2]
    other_period: float  # last measured period that differs from `dt` [s]; 0 if there was none
    convention: StateConvention  # last that was detected
    last_base: Vec3  # position of the base at the last tick, world [m]
    base_velocity: Mat3  # linear velocity of the base at the last tick, a row for each convention, world [m/s]
    base_displacement: float  # sum of the squared displacements of the base [m^2]
    base_errors: Vec3  # sums of their squared differences from velocity times `dt`, for each convention [m^2]


@compiled()
def restart_sums(sums: TickDisplacements) -> None:
    """Restarts the sums."""
    sums.ticks = 0
    sums.displacement, sums.product, sums.speed = 0.0, 0.0, 0.0
    sums.base_displacement = 0.0
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
        sums.base_displacement += step @ step
        sums.base_errors += vec3(error @ error, error_world @ error_world, error_w_first @ error_w_first)
    sums.last_base = position
    sums.base_velocity = velocity


@compiled()
def find_convention(sums: TickDisplacements, motion: Motion, q: Vector) -> StateConvention:
    """Returns the convention that explains the displacements of the base, if the expected one contradicts them.

    An upright robot at yaw 0 whose quaternion has w first seems to lie on its back, and both other conventions explain
    its displacements; then it is the quaternion.
    """
    displacement, errors = sums.base_displacement, sums.base_errors
    if errors[0] <= CONTRADICTION_FRACTION * displacement:
        return StateConvention.EXPECTED
    max_error = (1.0 - MIN_EXPLAINED_FRACTION) * displacement
    has_world_velocity, has_w_first = errors[1] < max_error, errors[2] < max_error
    if has_world_velocity and has_w_first:
        axes = rotation_of(quat(q[4], q[5], q[6], q[3])) @ (motion.R_base.T @ motion.axes)
        has_w_first = axes[2, 2] > motion.axes[2, 2]
    if has_w_first:
        return StateConvention.W_FIRST
    return StateConvention.WORLD_VELOCITY if has_world_velocity else StateConvention.EXPECTED


@entry("period of the ticks")
def measure_tick_period(sums: TickDisplacements, motion: Motion, q: Vector, v: Vector) -> float:
    """Updates the sums by one tick, and returns the measured period [s] if it differs from the control period, else 0.

    The displacements of the center of mass between ticks are compared with its velocity times the control period.  The
    period is that of the last fifth of a second or more.  Those of the base are compared with the velocity in other
    conventions; if one of them is detected, `sums.convention` is set and no period is returned.

    Args:
        sums: the sums.
        motion: motion of the robot at (q, v).
        q: (nq,) configuration, see `read_motion`.
        v: (nv,) velocity, see `read_motion`.
    """
    add_base_displacement(sums, q, v)
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
    convention = find_convention(sums, motion, q)
    if convention != StateConvention.EXPECTED:
        sums.convention = convention
        restart_sums(sums)
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
