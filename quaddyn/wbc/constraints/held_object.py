"""`HeldObject`: an object held by several hands, with its inertia and the contact forces on it.

Its rows are the equations of motion of the object, and the motion of the hands relative to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ...compiler import Matrix, Vector, compiled, local
from ...contact.contact_set import grasp_map
from ...deprecation import renamed_attributes
from ...dynamics import State
from ...errors import ArgumentError, UnknownNameError
from ...robot.arguments import check_number, check_positive, check_sequence, check_vector
from ...robot.robot import Robot
from ...urdf.tree import Array, frozen
from ..contact_points import add_centripetal, add_cross, compute_contact_lever, rotate, shift_jacobian
from ..contact_settings import ContactSettings, make_contact_frame
from ..element import ElementKind, Layout, ReferenceResolver, RowCounts, ScalarParameter, VectorParameter, scales
from ..row_writing import (
    Item,
    add_force_term,
    add_motion_equality,
    finish_equality,
    project_motion_row,
    tag_equality_contact,
)
from ..tick_data import FrameKinematics, TickContext, frame_kinematics
from .constraint import Constraint

#: Rows 0 to 5 are the equations of motion of the object; the rows of each hand start here.
FIRST_HAND_ROW = 6


class HeldObjectParameters(NamedTuple):
    """Parameters of `HeldObject`, in the order of its block."""

    mass: float  # [kg]
    damping: float  # [1/s]
    com: Vector  # (3,) in the frame [m]
    inertia: Vector  # (9,) about it, row by row [kg m^2]


@compiled()
def held_object_parameters(z: Vector) -> HeldObjectParameters:
    """Returns views of the parameters at the beginning of z."""
    return HeldObjectParameters(z[0], z[1], z[2:5], z[5:14])


@compiled()
def compute_point_kinematics(frame: FrameKinematics, lever: Vector, J: Matrix, drift: Vector) -> None:
    """Computes Jacobian over the frame's chain, and drift, of the body's point at `lever` from the frame's origin."""
    shift_jacobian(frame, lever, J)
    drift[:6] = frame.drift[:6]
    add_cross(frame.drift[3:], lever, drift)
    add_centripetal(frame.velocity[3:], lever, drift)


@compiled(inline=False)
def rotate_inertia(R: Matrix, given: Vector, out: Matrix) -> None:
    """Computes ``out = R I R^T``, I (9,) row by row."""
    for i in range(3):
        for j in range(3):
            total = 0.0
            for k in range(3):
                total += R[i, k] * (given[3 * k] * R[j, 0] + given[3 * k + 1] * R[j, 1] + given[3 * k + 2] * R[j, 2])
            out[i, j] = total


@compiled(separate="held objects")
def write_held_object_rows(item: Item, t: TickContext) -> None:
    """Writes the equations of motion of the object, and the rows of every hand that moves relative to its frame."""
    activation = 0.0
    for h in range(item.size):
        contact_activation = t.contacts.activation[t.model.index[item.second + 2 * h]]
        if contact_activation > 0.0:
            activation = contact_activation if activation == 0.0 else min(activation, contact_activation)
    if activation == 0.0:
        return
    write_object_rows(item, t, activation)
    for h in range(item.size):
        c, moves = t.model.index[item.second + 2 * h], t.model.index[item.second + 2 * h + 1]
        if moves != 0 and t.contacts.activation[c] >= 1.0:
            write_hand_rows(item, t, c)


@compiled(inline=False)
def write_object_rows(item: Item, t: TickContext, activation: float) -> None:
    """Writes Newton's and Euler's equations about the center of mass, scaled by the activation of the contacts."""
    p, frame = held_object_parameters(item.parameters), frame_kinematics(t.terms, t.model, item.first)
    J, inertia, chain, row = t.work.J, t.work.matrix3, frame.chain, t.work.vectors[4]
    com_lever, drift, angular_momentum, bias_wrench, arm, lever = (
        local(3),
        local(6),
        local(3),
        local(6),
        local(3),
        local(3),
    )
    rotate(frame.rotation, p.com, com_lever)
    compute_point_kinematics(frame, com_lever, J, drift)
    rotate_inertia(frame.rotation, p.inertia, inertia)
    for i in range(3):
        bias_wrench[i] = p.mass * (drift[i] - t.model.gravity[i])
        bias_wrench[3 + i] = inertia[i, 0] * drift[3] + inertia[i, 1] * drift[4] + inertia[i, 2] * drift[5]
    rotate(inertia, frame.velocity[3:], angular_momentum)
    add_cross(frame.velocity[3:], angular_momentum, bias_wrench[3:])
    for i in range(6):
        for k in range(len(chain)):
            if i < 3:
                row[k] = activation * p.mass * J[i, k]
            else:
                inertia_row = inertia[i - 3]
                row[k] = activation * (inertia_row[0] * J[3, k] + inertia_row[1] * J[4, k] + inertia_row[2] * J[5, k])
        A = t.rows.A[t.rows.n_equalities]
        length = project_motion_row(t, A, row, chain)
        for h in range(item.size):
            c = t.model.index[item.second + 2 * h]
            if t.contacts.activation[c] > 0.0:
                hand = frame_kinematics(t.terms, t.model, t.contacts.frame[c])
                compute_contact_lever(t.contacts, hand, c, arm, lever)
                for k in range(3):
                    lever[k] += hand.origin[k] - frame.origin[k] - com_lever[k]
                if i < t.contacts.size[c]:
                    length += add_force_term(t, A, c, i, 1.0)
                if i >= 3:  # lever x f
                    j, k = (i - 2) % 3, (i - 1) % 3
                    length += add_force_term(t, A, c, k, lever[j]) + add_force_term(t, A, c, j, -lever[k])
        weight = 1.0 / t.model.mass if i < 3 else 1.0 / (t.model.mass * t.model.length)
        finish_equality(t.rows, t.maps.n, -activation * bias_wrench[i], length, weight, item.element_index, i)


@compiled(inline=False)
def write_hand_rows(item: Item, t: TickContext, c: int) -> None:
    """Writes the rows by which contact c does not move relative to the object."""
    p, frame = held_object_parameters(item.parameters), frame_kinematics(t.terms, t.model, item.first)
    hand, points, J, object_jacobian = (
        frame_kinematics(t.terms, t.model, t.contacts.frame[c]),
        t.points,
        t.work.J,
        t.work.J_other,
    )
    arm, lever, drift = local(3), local(3), local(6)
    compute_contact_lever(t.contacts, hand, c, arm, lever)
    for k in range(3):
        lever[k] += hand.origin[k] - frame.origin[k]
    compute_point_kinematics(frame, lever, object_jacobian, drift)
    for i in range(t.contacts.size[c]):
        for j in range(len(t.v)):
            J[i, j] = 0.0
        for k in range(len(frame.chain)):
            J[i, frame.chain[k]] -= object_jacobian[i, k]
        for k in range(len(hand.chain)):
            J[i, hand.chain[k]] += points.jacobian[c, i, k]
        speed = 0.0
        for j in range(len(t.v)):
            speed += J[i, j] * t.v[j]
        target = -p.damping * speed - (points.drift[c, i] - drift[i])
        add_motion_equality(t, J[i], t.work.all_velocities, target, 1.0, item.element_index, FIRST_HAND_ROW + i)
        tag_equality_contact(t.rows, c)


AXES = ("x", "y", "z", "rx", "ry", "rz")
#: Singular value of a grasp map below which it is zero, relative to the largest.
RANK_TOLERANCE = 1e-9
#: Distance of a contact from the center of all contacts below which it is zero, relative to the largest.
CENTER_TOLERANCE = 1e-9


@renamed_attributes(squeeze="internal_forces")
class HeldObject(Constraint, fixed=("frame", "contacts")):
    r"""A rigid object that several contacts hold: it moves with a frame and is carried by the forces of all contacts.

    With o its center of mass, fixed to the frame, and f_c, m_c the force and moment on the robot at p_c, Newton's and
    Euler's equations of the object are

    .. math::

        m\,(\ddot o - g) + \sum_c f_c = 0, \qquad
        I \dot\omega + \omega \times I \omega + \sum_c \big( m_c + (p_c - o) \times f_c \big) = 0

    and no other hand moves relative to it, with J the Jacobian of the hand minus that of the object's point there, and
    d the damping:

    .. math::

        J a + \dot J v = -d\, J v

    Each contact has `Contact.force_only`, since it is not with the environment.  It pushes within its cone, or also
    pulls if it is not unilateral; a surface faces the object along its -z axis and rotates with the hand.  While
    contacts are made or broken, the equations of the object are scaled by the smallest of their activations, as if a
    compliant support carried a part of the object, and hands may move until their contacts are made.

    Internal forces, which squeeze the object without moving it, are free: they are the null space of the grasp map G,
    ``sum_c G_c f_c``.  A `ForceTask` on these contacts determines them, as least squares below these rows result in
    ``f = G^+ w + (1 - G^+ G) f*``: the smallest forces that carry the object, plus the internal part of the references.
    `internal_forces` computes such references.

    Source: Murray, Li, Sastry 1994, *A Mathematical Introduction to Robotic Manipulation*, chapters 5 and 6; Williams,
    Khatib 1993, "The virtual linkage: a model for internal forces in multi-grasp manipulation".

    Args:
        robot: the robot.
        contacts: names of the contacts that hold the object.
        frame: name of the robot's frame to which the object is fixed: the frame of one of the hands.
        mass: mass of the object [kg].
        com: (3,) center of mass of the object in the frame [m].
        inertia: (3, 3) inertia of the object about its center of mass, in the axes of the frame [kg m^2]; zero if None.
        damping: d [1/s]; ``10 sqrt(g / l)`` with l the leg length if None.
        name: name of the constraint in the controller.

    Attributes:
        frame, contacts: as given.
        mass: mass of the object [kg]; may be set at any time.
        com: (3,) center of mass in the frame [m]; may be set at any time.
        damping: d [1/s], the default if None was given; may be set at any time.

    Raises:
        UnknownNameError: the frame does not exist.
        ArgumentError: no contacts, numbers out of range, or an inertia that is physically impossible.
    """

    unit = "N"
    mass, damping = ScalarParameter(0), ScalarParameter(1)
    com = VectorParameter(2, 4, 0, finite=True)

    def __init__(
        self,
        robot: Robot,
        contacts: Sequence[str],
        frame: str,
        mass: float,
        *,
        com: ArrayLike = (0.0, 0.0, 0.0),
        inertia: ArrayLike | None = None,
        damping: float | None = None,
        name: str = "object",
    ) -> None:
        super().__init__(name, 14, robot=robot)
        robot.frame_id(frame)
        self.frame, self.contacts = frame, check_sequence("contacts", contacts, "names of contacts")
        if not self.contacts or len(set(self.contacts)) < len(self.contacts):
            raise ArgumentError(f"contacts: expected at least one contact name, each once, got {contacts!r}")
        self.labels = tuple(self.contacts)
        self.mass = check_positive("mass", mass, zero=True)
        self.inertia = np.zeros((3, 3)) if inertia is None else inertia
        self.damping = (
            10.0 * scales(robot).frequency if damping is None else check_positive("damping", damping, zero=True)
        )
        self.com = check_vector("com", com, (3,), "in the frame")
        self._hands: tuple[ContactSettings, ...] = ()

    @property
    def inertia(self) -> Array:
        """(3, 3) inertia about the center of mass, in the axes of the frame [kg m^2]; may be set."""
        return frozen(np.array(self.block[5:]).reshape(3, 3))

    @inertia.setter
    def inertia(self, value: ArrayLike) -> None:
        given = np.array(value, dtype=np.float64)
        if given.shape != (3, 3) or not np.isfinite(given).all() or not np.allclose(given, given.T):
            raise ArgumentError(f"inertia: expected a symmetric matrix (3, 3), got {value!r}")
        moments = np.linalg.eigvalsh(given)
        if moments[0] < -1e-12 or moments[0] + moments[1] < moments[2] - 1e-9 * abs(moments[2]):
            raise ArgumentError(f"inertia: expected principal moments that a rigid body can have, got {moments}")
        self.block[5:] = given.ravel()

    def validate_contacts(self, contacts: Mapping[str, ContactSettings]) -> None:
        """Checks that contacts of a controller can hold the object.

        Args:
            contacts: settings of the contacts by name.

        Raises:
            UnknownNameError: a contact of the object is not among them.
            ArgumentError: a contact of the object is not ``force_only``, or has a stiffness.
        """
        for name in self.contacts:
            if name not in contacts:
                raise UnknownNameError(f"contact of {self.name!r}", name, contacts)
            if contacts[name].role != "force":
                raise ArgumentError(
                    f"contacts: {name!r} of {self.name!r}: expected force_only=True and no stiffness, because the "
                    "contact is with the object and not with the environment"
                )

    def bind_contacts(self, contacts: Mapping[str, ContactSettings]) -> None:
        """Validates the contacts of a controller, and uses them from now on.

        Args:
            contacts: settings of the contacts by name.
        """
        self.validate_contacts(contacts)
        self._hands = tuple(contacts[name] for name in self.contacts)

    def bind(self, references: ReferenceResolver) -> tuple[int, int]:
        """Returns the number of the frame and the position of the list of hands.

        The list has, for each contact, its number and whether it moves relative to the frame.
        """
        hands, object_joint = list[int](), self._find_joint(self.frame)
        for hand in self._hands:
            hands += [references.contact_number(hand.name), int(self._find_joint(hand.frame) != object_joint)]
        return references.add_frame(self.frame), references.add_index_list(hands)

    def _find_joint(self, frame: str) -> int:
        """Returns the joint that moves a frame."""
        assert self.robot is not None
        return int(self.robot.model.frames[self.robot.frame_id(frame)].parentJoint)

    @classmethod
    def declare_layout(cls, counts: RowCounts) -> Layout:
        """Returns a layout of 14 parameters, six rows of the object, and up to six rows per hand."""
        lists = range(counts.entries - 2 * counts.rows + 1)
        return Layout(
            counts.rows,
            14,
            first=range(counts.frames),
            second=lists,
            equalities=FIRST_HAND_ROW + 6 * counts.rows,
            hands=counts.rows,
        )

    def row_name(self, contact: str, row: int) -> str:
        """Returns the name of a row for explanations."""
        return (
            f"{self.name} {AXES[row]}"
            if row < FIRST_HAND_ROW
            else f"{contact} along {self.name} {AXES[row - FIRST_HAND_ROW]}"
        )

    def row_unit(self, row: int) -> str:
        """Returns the unit of a row."""
        return "N" if row < 3 else "N m" if row < FIRST_HAND_ROW else "m/s^2"

    def internal_forces(self, s: State, force: float) -> dict[str, Array]:
        """Computes forces on the hands that squeeze the object without moving it, as references for a `ForceTask`.

        Args:
            s: the state.
            force: squeezing force [N].  Of two hands, the force of each along the line between the contacts; of more
                hands, the force of each toward their center, before the part that would move the object is removed.

        Returns:
            (3,) or (6,) by contact, on the robot, world axes [N, N m].

        Raises:
            ArgumentError: the force is not finite, all contacts are at the same point, or the object is not in a
                controller.
        """
        if not np.isfinite(force_size := check_number("force", force)):
            raise ArgumentError(f"force: expected a finite number [N], got {force}")
        hands = [make_contact_frame(s, settings, 0, 1.0, np.inf) for settings in self._hands]
        if not hands:
            raise ArgumentError(
                f"internal_forces: element {self.name!r} does not belong to a controller yet; pass it to a "
                "WholeBodyController first"
            )
        points = np.array([hand.point for hand in hands])
        levers = points - points.mean(axis=0)
        lengths = np.linalg.norm(levers, axis=1)
        if not lengths.min() > CENTER_TOLERANCE * lengths.max():
            raise ArgumentError(
                f"internal_forces: expected contacts at different points, got {list(self.contacts)} at one point"
            )
        G = np.hstack([grasp_map(lever, hand.size) for lever, hand in zip(levers, hands, strict=True)])
        squeezing_forces = force_size * levers / lengths[:, np.newaxis]
        forces = np.concatenate(
            [np.append(f, np.zeros(hand.size - 3)) for f, hand in zip(squeezing_forces, hands, strict=True)]
        )
        forces -= np.linalg.pinv(G, rcond=RANK_TOLERANCE) @ (G @ forces)
        parts = np.split(forces, np.cumsum([hand.size for hand in hands])[:-1])
        return dict(zip(self.contacts, parts, strict=True))


HeldObject.kind = ElementKind(110, write_held_object_rows)
