"""Kinematic loops as plain numbers, for compiled code, and the memory to close them in."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..compiler import IntMatrix, IntVector, Matrix, Vector


class Closures(NamedTuple):
    """All loops of a robot as numbers, for compiled code.  Loops that share joints form a group.

    Attributes:
        joints, loops: (groups + 1,) where the joints and the loops of each group begin.
        size: (groups,) length [m] that closes the scale of a group.
        q, v: (n,) entries of q_all and v_all of each joint, parents before children.
        own: (n,) its entry of v, -1 for a dependent joint.
        column: (n,) its column of K_z, or of K_y.
        parent: (n,) the joint before, -1 for the body that the group starts from.
        slides: (n,) 1 where prismatic, 0 where revolute.
        placements: (n, 12) in the joint before: rotation column by column, then translation [m].
        axes: (n, 3) unit, in the joint's frame.
        home: (n,) coordinates that the line to a configuration begins at.
        sides: (m, 2) the joints that carry frames A and B of each loop, -1 as in `parent`.
        frames: (2 m, 12) these frames in their joints; multiplier and offset of a gear, of which joint B follows A.
        rows: (m,) constraints: 3 for a point, 5 for a revolute joint about z of both frames, 6 for a weld, 1 for a
            gear.
        q_index, v_index: (nq,), (nv,) where the entries of q and v are in q_all and v_all.
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
    """Memory to close loops.

    Attributes:
        x, before, rate: (n,) coordinates, those at the last step, and their rates along the line.
        at: (n,) coordinates at which the joints are placed.
        poses: (n, 12) of the joints.
        motions: (n, 12) of the joints' origins and bodies: velocity, acceleration, angular velocity and acceleration.
        ends: (2, 12) frames A and B.
        K: (m, n) of one group, columns by joint.
        e: (m,) residuals.
        Kz, last: (m, n) columns of the dependent joints, and those at the last step.
        Q: (m, n) reflectors and triangle of K_z.
        pivots: (n,) diagonal of the triangle.
        right: (m,) right-hand sides.
        correction: (n,) of the dependent joints.
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
    """For these loops."""
    n, m = len(closures.q), int(closures.rows.sum())
    zeros = np.zeros
    return ClosureWorkspace(
        zeros(n), zeros(n), zeros(n), zeros(n), zeros((n, 12)), zeros((n, 12)), zeros((2, 12)), zeros((m, n)), zeros(m),
        zeros((m, n)), zeros((m, n)), zeros((m, n)), zeros(n), zeros(m), zeros(n),
    )  # fmt: skip


def empty_closures() -> Closures:
    """Of a robot without loops."""
    none, start, rows = np.zeros(0, dtype=np.int64), np.zeros(1, dtype=np.int64), np.zeros((0, 12))
    nothing = np.zeros(0)
    return Closures(
        start, start, nothing, none, none, none, none, none, none, rows, np.zeros((0, 3)), nothing,
        np.zeros((0, 2), dtype=np.int64), rows, none, none, none,
    )  # fmt: skip
