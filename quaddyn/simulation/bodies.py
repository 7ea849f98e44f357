"""The tree of bodies and joints of a plant as plain numbers, for compiled code, and pushes on it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import pinocchio as pin
from numpy.typing import NDArray

from ..compiling import IntVector, Matrix, Vector
from ..errors import QuaddynError
from ..robot.coupling import Coupling
from ..urdf.tree import Array

#: Kinds of joints.
REVOLUTE, CONTINUOUS, PRISMATIC, PLANAR, FREE = range(5)
#: By what their names in Pinocchio begin with; the first that fits counts.
KINDS = {
    "JointModelRUB": CONTINUOUS, "JointModelRevoluteUnbounded": CONTINUOUS, "JointModelR": REVOLUTE,
    "JointModelFreeFlyer": FREE, "JointModelPlanar": PLANAR, "JointModelP": PRISMATIC,
}  # fmt: skip
#: Entries of an inertia: mass, first moments, and moments of inertia xx, xy, xz, yy, yz, zz.
INERTIA = 10


class Bodies(NamedTuple):
    """A tree of n - 1 joints, each with the body that it carries; number 0 is the world.

    The Jacobian has nr rows, one for each speed of each joint.  A joint that mimics another has the entries of q and v
    of that one, and its row is of that one's speed, so that several rows may be of one entry of v.

    Attributes:
        kind: (n,) of each joint, `REVOLUTE` and what follows it.
        parent: (n,) the joint before each.
        q: (n,) first entry of q.
        v: (n,) first entry of v.
        size: (n,) number of entries of v.
        row: (n,) first row of the Jacobian.
        gear, bias: (n,) the joint is at ``gear * q + bias``.
        coupled: whether joints mimic others.
        own: (nr,) the entry of v whose row it is.
        above: (nr,) the row before each, -1 at the root.
        placements: (n, 12) in the joint before: the rotation column by column, then the translation [m].
        axes: (n, 3) of rotation or translation, in the joint's frame.
        inertias: (n, 10) about the joint's origin in its axes, see `INERTIA`.
        tree: (nv,) the degree of freedom before each, -1 at the root: M has entries between those in one line alone.
            Where joints mimic others all are in one line.
        armature: (nv,) rotor inertia.
        gravity: (3,) [m/s^2].
    """

    kind: IntVector
    parent: IntVector
    q: IntVector
    v: IntVector
    size: IntVector
    row: IntVector
    gear: Vector
    bias: Vector
    coupled: bool
    own: IntVector
    above: IntVector
    placements: Matrix
    axes: Matrix
    inertias: Matrix
    tree: IntVector
    armature: Vector
    gravity: Vector


class Pushes(NamedTuple):
    """Forces on m points of the robot.

    Attributes:
        joints: (m,) that carry the points.
        last: (m,) the last row of the Jacobian that moves each, -1 for none.
        points: (m, 3) in the joints' frames [m].
        wrenches: (m, 6) force and moment, world axes [N, N m].
    """

    joints: IntVector
    last: IntVector
    points: Matrix
    wrenches: Matrix


def bodies_of(model: pin.Model, armature: Array, coupling: Coupling | None = None) -> Bodies:
    """The tree of a Pinocchio model.

    Args:
        model: of all joints.
        armature: (nv,).
        coupling: how joints follow others.

    Raises:
        QuaddynError: a joint of another kind.
    """
    joints = list(model.joints)
    kinds = [0, *(_kind(joint.shortname()) for joint in joints[1:])]
    axes = np.zeros((len(joints), 3))
    placements = np.zeros((len(joints), 12))
    inertias = np.zeros((len(joints), INERTIA))
    for i in range(len(joints)):
        at, body = model.jointPlacements[i], model.inertias[i]
        placements[i] = [*at.rotation.ravel(order="F"), *at.translation]
        if i == 0:
            continue  # what is bolted to the world
        lever = body.lever
        about = body.inertia + body.mass * (lever @ lever * np.eye(3) - np.outer(lever, lever))
        inertias[i] = [body.mass, *(body.mass * lever), *about[np.triu_indices(3)]]
        if kinds[i] in (REVOLUTE, CONTINUOUS, PRISMATIC):
            axes[i] = _axis(model, i, angular=kinds[i] != PRISMATIC)
        else:
            axes[i, 2] = 1.0

    def integers(values: Iterable[int]) -> NDArray[np.int64]:
        return np.array(list(values), dtype=np.int64)

    q, v = (np.array([max(at, 0) for at in each], dtype=np.int64) for each in (model.idx_qs, model.idx_vs))
    gear, offset, row, above = np.ones(len(joints)), np.zeros(len(joints)), v, model.createData().parents_fromRow
    own, tree = np.arange(model.nv, dtype=np.int64), integers(above)
    if coupling is not None:
        for i in range(1, len(joints)):
            gear[i], offset[i] = coupling.q_scale[q[i]], coupling.q_offset[q[i]]
        q, v, own = (
            np.array(each, dtype=np.int64) for each in (coupling.q_from[q], coupling.v_from[v], coupling.v_from)
        )
        tree = np.arange(-1, len(coupling.v_index) - 1, dtype=np.int64)
    return Bodies(
        integers(kinds),
        integers(model.parents),
        q,
        v,
        integers(joint.nv for joint in joints),
        row,
        gear,
        offset,
        coupling is not None,
        own,
        integers(above),
        placements,
        axes,
        inertias,
        tree,
        armature.copy(),
        model.gravity.linear.copy(),
    )


def _kind(name: str) -> int:
    for start, kind in KINDS.items():
        if name.startswith(start):
            return kind
    raise QuaddynError(f"joints of Pinocchio's kind {name} cannot be simulated")


def _axis(model: pin.Model, i: int, *, angular: bool) -> Array:
    """Of a joint, in its own frame."""
    data, joint = model.createData(), model.joints[i]
    pin.computeJointJacobians(model, data, pin.neutral(model))
    J = pin.getJointJacobian(model, data, i, pin.LOCAL).reshape(6, -1)
    column = J[:, joint.idx_v]
    return np.asarray(column[3:] if angular else column[:3])


def last_mover(model: pin.Model, joint: int) -> int:
    """The last row of the Jacobian that moves what a joint carries, -1 for the world."""
    return int(model.joints[joint].idx_v + model.joints[joint].nv - 1) if joint else -1


def no_pushes(count: int = 0) -> Pushes:
    """Room for that many."""
    integers = np.zeros((2, count), dtype=np.int64)
    return Pushes(integers[0], integers[1], np.zeros((count, 3)), np.zeros((count, 6)))
