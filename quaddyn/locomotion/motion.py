"""Compiled motion of center of mass, trunk and feet at one tick; see `CentroidalState`."""

import math

from ..compiler import IntVector, Mat3, Matrix, Record, Vec3, Vector, compiled, entry, mat3, quat, rotation_of, vec3
from ..wbc.tick_data import RigidBodyTerms, frame_origin
from .body_parameters import BodyParameters


class Motion(Record):
    """Center of mass, trunk and feet of the robot at one tick, world axes."""

    com: Vec3  # center of mass of the robot with its estimated payload [m]
    velocity: Vec3  # of the robot's center of mass [m/s]
    R_base: Mat3  # attitude of the base
    axes: Mat3  # heading axes of the trunk: columns forward, left and up
    yaw: float  # of the forward direction [rad]
    feet: Matrix  # (4, 3) centers of the foot spheres [m]
    angular_velocity: Vec3  # of the base [rad/s]


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
    com_shift_x: float,
    com_shift_y: float,
    motion: Motion,
) -> None:
    """Reads the motion of a robot with a free root from the terms of the whole-body controller.

    Args:
        q: (nq,) configuration: position [m] and quaternion of the base, then joint positions.
        v: (nv,) velocity: linear [m/s] and angular [rad/s] velocity of the base, base axes, then joint velocities.
        terms: rigid-body terms at (q, v).
        foot_frames: (4,) indices of the feet in `terms.frames`.
        body: parameters of the robot.
        com_shift_x: center of mass with payload minus that of the robot, world x [m].
        com_shift_y: the same, world y [m].
        motion: takes the result.
    """
    R_base = rotation_of(quat(q[3], q[4], q[5], q[6]))
    set_attitude(motion, R_base, body.heading)
    motion.angular_velocity = R_base @ vec3(v[3], v[4], v[5])
    motion.com = vec3(terms.com) + vec3(com_shift_x, com_shift_y, 0.0)
    motion.velocity = vec3(terms.com_velocity)
    for foot in range(4):
        motion.feet[foot] = frame_origin(terms, foot_frames[foot])


@entry("motion of the robot")
def write_attitude(motion: Motion, R_base: Matrix, heading: Matrix) -> None:
    """Calls `set_attitude` from Python, with (3, 3) arrays."""
    set_attitude(motion, mat3(R_base), mat3(heading))


def allocate_motion() -> Motion:
    """Returns a motion of zeros."""
    return Motion.allocate(feet=(4, 3))
