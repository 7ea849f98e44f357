"""`CentroidalState`: the quantities that a locomotion tick takes from the robot's state."""

from __future__ import annotations

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
    quat,
    rotation_of,
    vec3,
)
from ..dynamics.state_terms import make_tick_terms
from ..urdf.tree import Array
from ..wbc import WholeBodyController
from ..wbc.controller_model import make_terms
from ..wbc.tick_data import RigidBodyTerms, frame_origin, frame_velocity
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
    foot_velocities: Matrix  # (4, 3) of these centers [m/s]
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
        motion.foot_velocities[foot] = frame_velocity(terms, foot_frames[foot])


def allocate_motion() -> Motion:
    """Returns a motion of zeros."""
    return Motion.allocate(feet=(4, 3), foot_velocities=(4, 3))


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
