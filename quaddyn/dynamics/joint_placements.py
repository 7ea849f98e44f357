"""Placements and Jacobian of all joints of any kinematic tree; compiled loops over the tree as data.

Vectors are in world axes.  Spatial vectors are about one point, the origin of the first joint, linear part first, so
that no digits are lost far from the world's origin.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..compiler import IntVector, Matrix, Tensor, Vector, compiled, cross, local, vec3
from ..robot.loop_arrays import ClosureWorkspace, make_closure_workspace
from ..robot.loop_geometry import compose
from ..robot.loop_solver import close_all
from ..robot.robot import Robot
from .joint_motions import compute_joint_placement
from .kinematic_tree import JointType, KinematicTree, make_kinematic_tree


class PlacedJoints(NamedTuple):
    """Placements of the world (index 0) and n - 1 joints, and their Jacobian; for nr see `KinematicTree`.

    Attributes:
        poses: (n, 12) placements of the joints: rotation column by column, then translation [m].
        origin: (3,) reference point of spatial vectors [m].
        J: (nr, 6) rows of the Jacobian: linear velocity of the body's point at `origin`, angular velocity; world axes.
        q_all: configuration of all joints; empty without closed loops.
        G: (nv_all, nv) with ``v_all = G v``; empty without closed loops.
        closing: scratch.
    """

    poses: Matrix
    origin: Vector
    J: Matrix
    q_all: Vector
    G: Matrix
    closing: ClosureWorkspace


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
    """Joint placements, and Jacobian about the world's origin, of a robot without mimic joints and loops.

    Attributes:
        tree: kinematic tree.
        joints: placements and Jacobian about the origin of the first joint.
        columns: (nv, 6) columns of the world Jacobian, one a row, linear before angular; see `State.kinematic_arrays`.
        placements: (n, 4, 3) view of `PlacedJoints.poses`, the world first: columns of the rotation, then origin [m].
    """

    tree: KinematicTree
    joints: PlacedJoints
    columns: Matrix
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
