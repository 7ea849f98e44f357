"""Placements and Jacobian of all joints of any kinematic tree; compiled loops over the tree as data.

Vectors are in world axes.  Spatial vectors are about one point, the origin of the first joint, linear part first, so
that no digits are lost far from the world's origin.

The placement of a joint at q, and the integration of q with v on the manifold, are defined as in Pinocchio.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..compiler import IntVector, Matrix, Tensor, Vector, compiled, cross, local, vec3
from ..robot.loop_solver import (
    ClosureWorkspace,
    close_all,
    compose,
    drift_all,
    make_closure_workspace,
    rotation_about,
)
from ..robot.robot import Robot
from .kinematic_tree import JointType, KinematicTree, make_kinematic_tree

#: Angle below which the exponential map is computed by a series [rad].
SMALL_ANGLE = 0.3


@compiled(inline=False)
def compute_joint_placement(kind: int, axis: Vector, q: Vector, out: Vector) -> None:
    """Computes the placement (12,) of a joint's frame at q relative to its frame at zero."""
    x, y, z, c, s = axis[0], axis[1], axis[2], 1.0, 0.0
    out[9], out[10], out[11] = 0.0, 0.0, 0.0
    if kind == JointType.REVOLUTE:
        c, s = math.cos(q[0]), math.sin(q[0])
    elif kind == JointType.CONTINUOUS:
        c, s = q[0], q[1]
    elif kind == JointType.PLANAR:
        c, s = q[2], q[3]
        out[9], out[10] = q[0], q[1]
    elif kind == JointType.PRISMATIC:
        out[9], out[10], out[11] = x * q[0], y * q[0], z * q[0]
    else:
        out[9], out[10], out[11] = q[0], q[1], q[2]
        _compute_quaternion_rotation(q[3:], out)
        return
    rotation_about(axis, c, s, out)


@compiled()
def _compute_quaternion_rotation(quaternion: Vector, out: Vector) -> None:
    """Computes the rotation of a unit quaternion (x, y, z, w), column by column."""
    x, y, z, w = quaternion[0], quaternion[1], quaternion[2], quaternion[3]
    out[0], out[1], out[2] = 1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y + w * z), 2.0 * (x * z - w * y)
    out[3], out[4], out[5] = 2.0 * (x * y - w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z + w * x)
    out[6], out[7], out[8] = 2.0 * (x * z + w * y), 2.0 * (y * z - w * x), 1.0 - 2.0 * (x * x + y * y)


@compiled(inline=False)
def integrate_configuration(bodies: KinematicTree, q: Vector, v: Vector, h: float, out: Vector) -> None:
    """Computes ``out = q (+) h v``; `out` must be a different array."""
    for i in range(1, len(bodies.kind)):
        kind = bodies.kind[i]
        q_joint, v_joint, q_next = q[bodies.q[i] :], v[bodies.v[i] :], out[bodies.q[i] :]
        if kind == JointType.FREE:
            _integrate_free(q_joint, v_joint, h, q_next)
        elif kind == JointType.PLANAR:
            _integrate_planar(q_joint, v_joint, h, q_next)
        elif kind == JointType.CONTINUOUS:
            _rotate_unit_vector(q_joint, h * v_joint[0], q_next)
        else:
            q_next[0] = q_joint[0] + h * v_joint[0]


@compiled()
def _rotate_unit_vector(direction: Vector, angle: float, out: Vector) -> None:
    """Rotates (cos, sin) by an angle [rad]; the result has unit norm."""
    c, s = math.cos(angle), math.sin(angle)
    x, y = c * direction[0] - s * direction[1], s * direction[0] + c * direction[1]
    scale = 1.5 - 0.5 * (x * x + y * y)
    out[0], out[1] = scale * x, scale * y


@compiled()
def _compute_exponential_coefficients(angle: float) -> tuple[float, float]:
    """Returns ``(1 - cos a) / a^2`` and ``(a - sin a) / a^3``, the coefficients of the exponential map."""
    square = angle * angle
    if angle > SMALL_ANGLE:
        half = math.sin(0.5 * angle)
        return 2.0 * half * half / square, (angle - math.sin(angle)) / (square * angle)
    first = 1.0 - square / 12.0 * (1.0 - square / 30.0 * (1.0 - square / 56.0 * (1.0 - square / 90.0)))
    second = 1.0 - square / 20.0 * (1.0 - square / 42.0 * (1.0 - square / 72.0 * (1.0 - square / 110.0)))
    return 0.5 * first, second / 6.0


@compiled()
def _integrate_planar(q: Vector, v: Vector, h: float, out: Vector) -> None:
    """Integrates a planar joint, position and (cos, sin), with the velocity v in the joint's axes over a time h [s]."""
    x, y, angle = h * v[0], h * v[1], h * v[2]
    cosine_term, sine_term = _compute_exponential_coefficients(abs(angle))
    sine_ratio, cosine_ratio = 1.0 - angle * angle * sine_term, angle * cosine_term  # sin a / a, (1 - cos a) / a
    u, w = sine_ratio * x - cosine_ratio * y, cosine_ratio * x + sine_ratio * y
    out[0] = q[0] + q[2] * u - q[3] * w
    out[1] = q[1] + q[3] * u + q[2] * w
    _rotate_unit_vector(q[2:], angle, out[2:])


@compiled()
def _integrate_free(q: Vector, v: Vector, h: float, out: Vector) -> None:
    """Integrates a free joint, position and quaternion, with the velocity v in the joint's axes over a time h [s]."""
    R, u = local(9), local(3)
    x, y, z, a, b, c = h * v[0], h * v[1], h * v[2], h * v[3], h * v[4], h * v[5]
    angle = math.sqrt(a * a + b * b + c * c)
    first, second = _compute_exponential_coefficients(angle)
    axis_x, axis_y, axis_z = b * z - c * y, c * x - a * z, a * y - b * x
    u[0] = x + first * axis_x + second * (b * axis_z - c * axis_y)
    u[1] = y + first * axis_y + second * (c * axis_x - a * axis_z)
    u[2] = z + first * axis_z + second * (a * axis_y - b * axis_x)
    _compute_quaternion_rotation(q[3:], R)
    for k in range(3):
        out[k] = q[k] + R[k] * u[0] + R[3 + k] * u[1] + R[6 + k] * u[2]
    # sin(a / 2) / a = (1 - (a / 2)^2 (a / 2 - sin(a / 2)) / (a / 2)^3) / 2
    quarter = 0.25 * angle * angle
    _, half_sine = _compute_exponential_coefficients(0.5 * angle)
    vector_scale, w = 0.5 * (1.0 - quarter * half_sine), math.cos(0.5 * angle)
    i, j, k_, l_ = q[3], q[4], q[5], q[6]
    a, b, c = vector_scale * a, vector_scale * b, vector_scale * c
    qx = w * i + l_ * a + j * c - k_ * b
    qy = w * j + l_ * b + k_ * a - i * c
    qz = w * k_ + l_ * c + i * b - j * a
    qw = l_ * w - i * a - j * b - k_ * c
    scale = 1.5 - 0.5 * (qx * qx + qy * qy + qz * qz + qw * qw)
    if qx * i + qy * j + qz * k_ + qw * l_ < 0.0:
        scale = -scale
    out[3], out[4], out[5], out[6] = scale * qx, scale * qy, scale * qz, scale * qw


class PlacedJoints(NamedTuple):
    """Placements of the world (index 0) and n - 1 joints, and their Jacobian; for nr see `KinematicTree`."""

    poses: Matrix  # (n, 12) placements of the joints: rotation column by column, then translation [m]
    origin: Vector  # (3,) reference point of spatial vectors [m]
    # (nr, 6) rows of the Jacobian: linear velocity of the body's point at `origin`, angular velocity; world axes
    J: Matrix
    q_all: Vector  # configuration of all joints; empty without closed loops
    G: Matrix  # (nv_all, nv) with ``v_all = G v``; empty without closed loops
    closing: ClosureWorkspace  # scratch


def make_placed_joints(bodies: KinematicTree) -> PlacedJoints:
    """Returns buffers for a kinematic tree."""
    n, nv, nr = len(bodies.kind), len(bodies.dof_parent), len(bodies.row_dof)
    poses = np.zeros((n, 12))
    poses[0, [0, 4, 8]] = 1.0
    n_dependent = int((bodies.follows_q >= 0).sum())
    return PlacedJoints(
        poses=poses,
        origin=np.zeros(3),
        J=np.zeros((nr, 6)),
        q_all=np.zeros(len(bodies.closures.q_index) + n_dependent),
        G=np.zeros((len(bodies.closures.v_index) + n_dependent, nv)),
        closing=make_closure_workspace(bodies.closures),
    )


def closure_functions(joints: PlacedJoints) -> list[Callable[..., Any]]:
    """Returns the separately compiled functions that closed loops need, none for robots without."""
    return [close_all, drift_all] if len(joints.q_all) else []


@compiled(inline=False)
def place_joints(bodies: KinematicTree, q: Vector, joints: PlacedJoints) -> None:
    """Writes placements, `origin` and Jacobian at q (nq,) to `joints`."""
    poses, origin = joints.poses, joints.origin
    joint_frame, motion, position = local(12), local(12), local(1)
    if len(joints.q_all) > 0:
        close_all(bodies.closures, joints.closing, q, joints.q_all, joints.G)
    for i in range(1, len(bodies.kind)):
        compose(poses[bodies.parent[i]], bodies.placements[i], joint_frame)
        if bodies.follows_q[i] >= 0:
            position[0] = joints.q_all[bodies.follows_q[i]]
            compute_joint_placement(bodies.kind[i], bodies.axes[i], position, motion)
        elif bodies.multiplier[i] != 1.0 or bodies.offset[i] != 0.0:
            position[0] = bodies.multiplier[i] * q[bodies.q[i]] + bodies.offset[i]
            compute_joint_placement(bodies.kind[i], bodies.axes[i], position, motion)
        else:
            compute_joint_placement(bodies.kind[i], bodies.axes[i], q[bodies.q[i] :], motion)
        compose(joint_frame, motion, poses[i])
        if i == 1:
            for a in range(3):
                origin[a] = poses[1, 9 + a]
        write_jacobian_rows(bodies.kind[i], bodies.axes[i], poses[i], origin, joints.J[bodies.row[i] :])
        if bodies.multiplier[i] != 1.0:
            for a in range(6):
                joints.J[bodies.row[i], a] *= bodies.multiplier[i]
        if bodies.follows_v[i] >= 0:
            _distribute_rows(
                joints.G[bodies.follows_v[i]], bodies.row_dof, bodies.row[i], bodies.dof_count[i], joints.J
            )


@compiled()
def _distribute_rows(G_row: Vector, row_dof: IntVector, row: int, n_dofs: int, J: Matrix) -> None:
    """Expands the Jacobian row of a dependent joint to one row for each degree of freedom that moves it.

    Args:
        G_row: (nv,) velocity of the joint per velocity of each degree of freedom, the row of `PlacedJoints.G`.
        row_dof: (nr,) degree of freedom of each row of J.
        row: first row of the joint.
        n_dofs: number of its rows.
        J: (nr, 6) Jacobian; row `row` is that of the joint, and is overwritten as the others.
    """
    joint_row = local(6)
    for a in range(6):
        joint_row[a] = J[row, a]
    for d in range(row, row + n_dofs):
        for a in range(6):
            J[d, a] = G_row[row_dof[d]] * joint_row[a]


@compiled()
def write_jacobian_rows(kind: int, axis: Vector, pose: Vector, origin: Vector, J: Matrix) -> None:
    """Writes the Jacobian rows of one joint."""
    world_axis = local(3)
    if kind == JointType.FREE:
        for d in range(3):
            _write_translation(pose[3 * d : 3 * d + 3], J[d])
            _write_rotation(pose[3 * d : 3 * d + 3], pose, origin, J[3 + d])
    elif kind == JointType.PLANAR:
        _write_translation(pose[0:3], J[0])
        _write_translation(pose[3:6], J[1])
        _write_rotation(pose[6:9], pose, origin, J[2])
    else:
        for a in range(3):
            world_axis[a] = pose[a] * axis[0] + pose[3 + a] * axis[1] + pose[6 + a] * axis[2]
        if kind == JointType.PRISMATIC:
            _write_translation(world_axis, J[0])
        else:
            _write_rotation(world_axis, pose, origin, J[0])


@compiled()
def _write_translation(axis: Vector, out: Vector) -> None:
    """Writes the spatial velocity (6,) of a unit translation along an axis."""
    for a in range(3):
        out[a], out[3 + a] = axis[a], 0.0


@compiled()
def _write_rotation(axis: Vector, pose: Vector, origin: Vector, out: Vector) -> None:
    """Writes the spatial velocity (6,) about `origin` of a unit rotation about an axis through a joint's origin."""
    x, y, z = pose[9] - origin[0], pose[10] - origin[1], pose[11] - origin[2]
    out[0], out[1], out[2] = y * axis[2] - z * axis[1], z * axis[0] - x * axis[2], x * axis[1] - y * axis[0]
    out[3], out[4], out[5] = axis[0], axis[1], axis[2]


@compiled()
def transform_point(pose: Vector, point: Vector, out: Vector) -> None:
    """Transforms a point (3,) [m] from a joint's frame, with a placement (12,), to the world."""
    for a in range(3):
        out[a] = pose[a] * point[0] + pose[3 + a] * point[1] + pose[6 + a] * point[2] + pose[9 + a]


# -- about the world's origin ----------------------------------------------------------------------------------------
class WorldJacobian(NamedTuple):
    """Joint placements, and Jacobian about the world's origin, of a robot without mimic joints and loops."""

    tree: KinematicTree  # kinematic tree
    joints: PlacedJoints  # placements and Jacobian about the origin of the first joint
    # (nv, 6) columns of the world Jacobian, one a row, linear before angular; see `State.kinematic_arrays`
    columns: Matrix
    # (n, 4, 3) view of `PlacedJoints.poses`, the world first: columns of the rotation, then origin [m]
    placements: Tensor


def make_world_jacobian(robot: Robot) -> WorldJacobian:
    """Returns buffers for a robot whose joints are independent."""
    tree = make_kinematic_tree(robot.model, np.array(robot.model.armature, dtype=np.float64))
    joints = make_placed_joints(tree)
    return WorldJacobian(tree, joints, np.zeros((robot.nv, 6)), joints.poses.reshape(-1, 4, 3))


@compiled(inline=False)
def compute_world_jacobian(jacobian: WorldJacobian, q: Vector) -> None:
    """Computes placements and world Jacobian of the joints at q (nq,)."""
    joints, columns = jacobian.joints, jacobian.columns
    place_joints(jacobian.tree, q, joints)
    origin = vec3(joints.origin)
    for d in range(columns.shape[0]):
        row, column = joints.J[d], columns[d]
        column[0:3] = vec3(row[0:3]) - cross(vec3(row[3:6]), origin)
        column[3:6] = vec3(row[3:6])
