"""`KinematicTree`: bodies and joints of a plant as arrays for compiled code, and `PointForces` on it."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import pinocchio as pin
from numpy.typing import NDArray

from ..compiler import IntVector, Matrix, Vector
from ..errors import QuaddynError
from ..robot.coupling import MimicCoupling
from ..robot.loop_solver import Closures, empty_closures
from ..robot.loops import LoopCoupling
from ..urdf.tree import Array

IntArray = NDArray[np.int64]


class JointType(enum.IntEnum):
    """Type of a joint."""

    REVOLUTE = 0
    CONTINUOUS = 1
    PRISMATIC = 2
    PLANAR = 3
    FREE = 4


#: Type of a joint by the beginning of its name in Pinocchio; the first match applies.
KINDS = {
    "JointModelRUB": JointType.CONTINUOUS, "JointModelRevoluteUnbounded": JointType.CONTINUOUS,
    "JointModelR": JointType.REVOLUTE, "JointModelFreeFlyer": JointType.FREE, "JointModelPlanar": JointType.PLANAR,
    "JointModelP": JointType.PRISMATIC,
}  # fmt: skip
#: Entries of an inertia: mass, first moments, and moments of inertia xx, xy, xz, yy, yz, zz.
INERTIA = 10


class KinematicTree(NamedTuple):
    """Tree of n - 1 joints, each with the body that it carries; number 0 is the world.

    The Jacobian has nr rows, one for each degree of freedom of each joint. A mimic joint has the entries of q and v of
    the joint that it follows, so that several rows may belong to one entry of v. A joint that depends on others through
    closed loops has a row for each entry of v that moves it.

    Attributes:
        kind: (n,) kind of each joint, see `JointType`.
        parent: (n,) parent joint of each joint.
        q: (n,) first entry of q.
        v: (n,) first entry of v.
        dof_count: (n,) number of entries of v.
        row: (n,) first row of the Jacobian.
        multiplier, offset: (n,) the position of the joint is ``multiplier * q + offset``.
        coupled: whether there are mimic joints or closed loops.
        row_dof: (nr,) entry of v to which each row belongs.
        parent_row: (nr,) next row of each row on the path to the root, -1 at the root.
        placements: (n, 12) placement in the frame of the parent: rotation column by column, then translation [m].
        axes: (n, 3) axis of rotation or translation in the joint's frame.
        inertias: (n, 10) inertia about the joint's origin in its axes, see `INERTIA`.
        root_inertia: (10,) that of number 1, in the same memory; lanes replace it.
        dof_parent: (nv,) next degree of freedom of each one on the path to the root, -1 at the root. M has nonzero
            entries only along such paths; with mimic joints or closed loops all degrees of freedom are on one path.
        armature: (nv,) rotor inertia [kg m^2 or kg].
        gravity: (3,) acceleration of gravity [m/s^2].
        closures: closed loops.
        follows_q, follows_v: (n,) entries in the full coordinates of dependent joints in loops, -1 for other joints.
        rotors: (n,) rotor inertia of dependent joints in loops [kg m^2 or kg].
    """

    kind: IntVector
    parent: IntVector
    q: IntVector
    v: IntVector
    dof_count: IntVector
    row: IntVector
    multiplier: Vector
    offset: Vector
    coupled: bool
    row_dof: IntVector
    parent_row: IntVector
    placements: Matrix
    axes: Matrix
    inertias: Matrix
    root_inertia: Vector
    dof_parent: IntVector
    armature: Vector
    gravity: Vector
    closures: Closures
    follows_q: IntVector
    follows_v: IntVector
    rotors: Vector


class PointForces(NamedTuple):
    """Forces on m points of the robot."""

    joints: IntVector  # (m,) joint that carries each point
    last: IntVector  # (m,) last row of the Jacobian that moves the point, -1 for none
    points: Matrix  # (m, 3) position in the joint's frame [m]
    wrenches: Matrix  # (m, 6) force and moment, world axes [N, N m]


def make_kinematic_tree(
    model: pin.Model, armature: Array, coupling: MimicCoupling | LoopCoupling | None = None
) -> KinematicTree:
    """Returns the kinematic tree of a Pinocchio model.

    Args:
        model: model with all joints.
        armature: (nv,) rotor inertia of the independent joints [kg m^2 or kg].
        coupling: dependence of mimic joints or closed loops on the independent joints; None for neither.

    Raises:
        QuaddynError: a joint of an unsupported kind.
    """
    joints = list(model.joints)
    kinds = [0, *(_find_joint_kind(joint.shortname()) for joint in joints[1:])]
    axes = np.zeros((len(joints), 3))
    placements = np.zeros((len(joints), 12))
    inertias = np.zeros((len(joints), INERTIA))
    for i in range(len(joints)):
        placement, body = model.jointPlacements[i], model.inertias[i]
        placements[i] = [*placement.rotation.ravel(order="F"), *placement.translation]
        if i == 0:
            continue  # bodies fixed to the world
        inertias[i] = inertia_entries(body)
        if kinds[i] in (JointType.REVOLUTE, JointType.CONTINUOUS, JointType.PRISMATIC):
            axes[i] = _find_joint_axis(model, i, angular=kinds[i] != JointType.PRISMATIC)
        else:
            axes[i, 2] = 1.0

    def integers(values: Iterable[int]) -> NDArray[np.int64]:
        return np.array(list(values), dtype=np.int64)

    q, v = (
        np.array([max(placement, 0) for placement in indices], dtype=np.int64)
        for indices in (model.idx_qs, model.idx_vs)
    )
    multiplier = np.ones(len(joints))
    offset = np.zeros(len(joints))
    row = v
    parent_row = model.createData().parents_fromRow
    row_dof = np.arange(model.nv, dtype=np.int64)
    dof_count = integers(joint.nv for joint in joints)
    follows, rotors = np.full((2, len(joints)), -1, dtype=np.int64), np.zeros(len(joints))
    if isinstance(coupling, LoopCoupling):
        q, v, row, row_dof, parent_row = _make_loop_rows(model, coupling, q, v, dof_count, follows)
        rotors[follows[1] >= 0] = model.armature[follows[1][follows[1] >= 0]]
    elif coupling is not None:
        for i in range(1, len(joints)):
            multiplier[i], offset[i] = coupling.q_scale[q[i]], coupling.q_offset[q[i]]
        q, v, row_dof = (
            np.array(indices, dtype=np.int64) for indices in (coupling.q_from[q], coupling.v_from[v], coupling.v_from)
        )
    return KinematicTree(
        integers(kinds),
        integers(model.parents),
        q,
        v,
        dof_count,
        row,
        multiplier,
        offset,
        coupling is not None,
        row_dof,
        integers(parent_row),
        placements,
        axes,
        inertias,
        inertias[1] if len(joints) > 1 else np.zeros(INERTIA),
        find_dof_parents(model, coupling),
        armature.copy(),
        model.gravity.linear.copy(),
        coupling.closures if isinstance(coupling, LoopCoupling) else empty_closures(),
        follows[0],
        follows[1],
        rotors,
    )


def find_dof_parents(model: pin.Model, coupling: MimicCoupling | LoopCoupling | None) -> IntVector:
    """Returns `KinematicTree.dof_parent` of a Pinocchio model; for the arguments see `make_kinematic_tree`."""
    if coupling is not None:
        return np.arange(-1, len(coupling.v_index) - 1, dtype=np.int64)
    return np.array(model.createData().parents_fromRow[: model.nv], dtype=np.int64)


def inertia_entries(body: pin.Inertia) -> Array:
    """Returns the inertia of a body about its origin (10,), see `INERTIA`."""
    lever = body.lever
    inertia_at_origin = body.inertia + body.mass * (lever @ lever * np.eye(3) - np.outer(lever, lever))
    return np.array([body.mass, *(body.mass * lever), *inertia_at_origin[np.triu_indices(3)]])


def _make_loop_rows(
    model: pin.Model, loops: LoopCoupling, q: IntArray, v: IntArray, dof_count: IntArray, follows: IntArray
) -> tuple[IntArray, IntArray, IntArray, IntArray, IntArray]:
    """Returns entries of q and v, first row, entry of v of each row, and preceding row, for a model with closed loops.

    A dependent joint has the entries of the first independent joint that moves it, and a row for each joint that moves
    it: `dof_count` and `follows` are filled in.
    """
    first_row, row_dof, parent_row = np.zeros(len(dof_count), dtype=np.int64), list[int](), list[int]()
    q_index, v_index = np.zeros_like(first_row), np.zeros_like(first_row)
    for i in range(1, len(dof_count)):
        movers = [int(loops.v_from[v[i] + k]) for k in range(dof_count[i])]
        q_index[i], v_index[i] = loops.q_from[q[i]], movers[0]
        if movers[0] < 0:
            follows[:, i] = q[i], v[i]
            movers = loops.chain([int(v[i])])
            dof_count[i], v_index[i] = len(movers), movers[0]
            q_index[i] = loops.q_from[q[next(j for j in range(1, len(v)) if loops.v_from[v[j]] == movers[0])]]
        first_row[i] = len(row_dof)
        parent = int(model.parents[i])
        parent_row += [int(first_row[parent] + dof_count[parent]) - 1 if parent else -1]
        parent_row += range(len(row_dof), len(row_dof) + len(movers) - 1)
        row_dof += movers
    return q_index, v_index, first_row, np.array(row_dof, dtype=np.int64), np.array(parent_row, dtype=np.int64)


def _find_joint_kind(name: str) -> int:
    """Returns the kind of a joint from its name in Pinocchio."""
    for start, kind in KINDS.items():
        if name.startswith(start):
            return kind
    raise QuaddynError(f"robot: joints of the Pinocchio type {name} are not supported in simulations")


def _find_joint_axis(model: pin.Model, i: int, *, angular: bool) -> Array:
    """Returns the axis (3,) of a joint in its own frame."""
    data, joint = model.createData(), model.joints[i]
    pin.computeJointJacobians(model, data, pin.neutral(model))
    J = pin.getJointJacobian(model, data, i, pin.LOCAL).reshape(6, -1)
    column = J[:, joint.idx_v]
    return np.asarray(column[3:] if angular else column[:3])


def last_moving_row(bodies: KinematicTree, joint: int) -> int:
    """Returns the last row of `PlacedJoints.J` on the path from the root to the body of a joint; -1 for the world."""
    return int(bodies.row[joint] + bodies.dof_count[joint] - 1) if joint else -1


def make_point_forces(count: int = 0) -> PointForces:
    """Returns buffers for `count` forces on points of the robot, all zero."""
    integers = np.zeros((2, count), dtype=np.int64)
    return PointForces(integers[0], integers[1], np.zeros((count, 3)), np.zeros((count, 6)))
