"""Kinematic loops as arrays for compiled code, and the workspace to close them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..compiler import IntMatrix, IntVector, Matrix, Vector


class Closures(NamedTuple):
    """All loops of a robot as arrays, for compiled code; loops that share joints form a group.

    With n joints in m loops.  ``K = de/dx`` is the constraint Jacobian of a group; K_y and K_z are its columns of the
    independent and of the dependent joints, see `loop_solver`.

    Attributes:
        joints, loops: (groups + 1,) index of the first joint and of the first loop of each group.
        size: (groups,) characteristic length of a group [m], by which lengths are divided.
        q, v: (n,) indices in q_all and v_all of each joint, parents before children.
        own: (n,) index in v of an independent joint, -1 for a dependent joint.
        column: (n,) column of the joint in K_z if it is dependent, in K_y if it is independent.
        parent: (n,) the previous joint, -1 for the body from which the group starts.
        slides: (n,) 1 for a prismatic, 0 for a revolute joint.
        placements: (n, 12) placement in the previous joint: rotation column by column, then translation [m].
        axes: (n, 3) unit axis in the joint frame.
        home: (n,) coordinates at home, the start of the straight line along which a configuration is reached.
        sides: (m, 2) the joints that carry frames A and B of each loop, -1 as in `parent`.
        frames: (2 m, 12) frames A and B of each loop in the frames of these joints; for a gear, the row of A begins
            with multiplier and offset of ``x_B = multiplier x_A + offset``.
        rows: (m,) number of constraints of each loop: 3 for a point, 5 for a revolute joint about z of both frames, 6
            for a weld, 1 for a gear.
        q_index, v_index: (nq,), (nv,) indices of the entries of q and v in q_all and v_all.
    """

    joints: IntVector
    loops: IntVector
    size: Vector
    q: IntVector
    v: IntVector
    own: IntVector
    column: IntVector
    parent: IntVector
    slides: IntVector
    placements: Matrix
    axes: Matrix
    home: Vector
    sides: IntMatrix
    frames: Matrix
    rows: IntVector
    q_index: IntVector
    v_index: IntVector


class ClosureWorkspace(NamedTuple):
    """Workspace to close loops.

    Attributes:
        x, before, rate: (n,) coordinates, those at the last step, and their rates along the line.
        at: (n,) coordinates at which the joints are placed.
        poses: (n, 12) placements of the joints.
        motions: (n, 12) velocity, acceleration, angular velocity and angular acceleration of the joints' bodies.
        ends: (2, 12) frames A and B.
        K: (m, n) constraint Jacobian of one group, columns by joint.
        e: (m,) residuals.
        Kz, last: (m, n) columns of the dependent joints, and those at the last step.
        Q: (m, n) Householder vectors and triangle of K_z.
        pivots: (n,) diagonal of the triangle.
        right: (m,) right-hand sides.
        correction: (n,) corrections of the dependent joints.
    """

    x: Vector
    before: Vector
    rate: Vector
    at: Vector
    poses: Matrix
    motions: Matrix
    ends: Matrix
    K: Matrix
    e: Vector
    Kz: Matrix
    last: Matrix
    Q: Matrix
    pivots: Vector
    right: Vector
    correction: Vector


def make_closure_workspace(closures: Closures) -> ClosureWorkspace:
    """Returns a workspace for these loops."""
    n, m = len(closures.q), int(closures.rows.sum())
    zeros = np.zeros
    return ClosureWorkspace(
        zeros(n), zeros(n), zeros(n), zeros(n), zeros((n, 12)), zeros((n, 12)), zeros((2, 12)), zeros((m, n)), zeros(m),
        zeros((m, n)), zeros((m, n)), zeros((m, n)), zeros(n), zeros(m), zeros(n),
    )  # fmt: skip


def empty_closures() -> Closures:
    """Returns the arrays of a robot without loops."""
    none, start, rows = np.zeros(0, dtype=np.int64), np.zeros(1, dtype=np.int64), np.zeros((0, 12))
    nothing = np.zeros(0)
    return Closures(
        start, start, nothing, none, none, none, none, none, none, rows, np.zeros((0, 3)), nothing,
        np.zeros((0, 2), dtype=np.int64), rows, none, none, none,
    )  # fmt: skip
