"""Positions and velocities of points on the robot's bodies, in restricted Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..compiler import IntMatrix, IntVector, Matrix, Tensor, Vector, compiled
from ..robot.robot import Robot
from ..urdf.tree import Array


class BodyPoints(NamedTuple):
    """Points that are fixed on bodies of a robot, as arrays for compiled code."""

    joint: IntVector  # (n,) index of the joint that moves the body; 0 for the world
    position: Matrix  # (n, 3) position in the joint frame [m]
    chain: IntMatrix  # (n, 1 + nv) number of the velocities that move a point, and their indices


def make_body_points(robot: Robot, frame_points: Sequence[tuple[str, Array]]) -> BodyPoints:
    """Creates the arrays of points on a robot with independent joints.

    Args:
        robot: the robot.
        frame_points: name of a frame and position (3,) in it [m], for each point.
    """
    model, n = robot.model, len(frame_points)
    points = BodyPoints(np.zeros(n, np.int64), np.zeros((n, 3)), np.zeros((n, 1 + robot.nv), np.int64))
    for i, (name, position) in enumerate(frame_points):
        frame = model.frames[robot.frame_id(name)]
        points.joint[i] = frame.parentJoint
        points.position[i] = frame.placement.translation + frame.placement.rotation @ position
        moving = sorted(model.idx_vs[j] + k for j in model.supports[frame.parentJoint] for k in range(model.nvs[j]))
        points.chain[i, 0], points.chain[i, 1 : 1 + len(moving)] = len(moving), moving
    return points


@compiled()
def compute_position(points: BodyPoints, joint_placements: Tensor, i: int, out: Vector) -> None:
    """Computes the position of point i, world axes [m]; `joint_placements` see `State.kinematic_arrays`."""
    at, x = joint_placements[points.joint[i]], points.position[i]
    for r in range(3):
        out[r] = at[0, r] * x[0] + at[1, r] * x[1] + at[2, r] * x[2] + at[3, r]


@compiled()
def compute_body_velocity(points: BodyPoints, columns: Matrix, v: Vector, i: int, at: Vector, out: Vector) -> None:
    """Computes the velocity (6,) of the body of point i at a position, linear before angular, world axes.

    Args:
        points: points of the robot.
        columns: columns of the world Jacobian, see `State.kinematic_arrays`.
        v: (nv,) velocity.
        i: index of the point.
        at: (3,) position, world axes [m].
        out: (6,) velocity; written.
    """
    for r in range(6):
        out[r] = 0.0
    for c in range(1, points.chain[i, 0] + 1):
        k = points.chain[i, c]
        for r in range(6):
            out[r] += columns[k, r] * v[k]
    out[0] += out[4] * at[2] - out[5] * at[1]
    out[1] += out[5] * at[0] - out[3] * at[2]
    out[2] += out[3] * at[1] - out[4] * at[0]
