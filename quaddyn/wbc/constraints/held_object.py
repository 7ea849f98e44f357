"""`HeldObject`: something that hands hold, with its inertia and the forces at each of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from ...contact.contact_kinematics import grasp_map
from ...deprecation import renamed_attributes
from ...dynamics import State
from ...errors import ArgumentError, UnknownNameError
from ...robot.arguments import check_vector, number, positive, several
from ...robot.robot import Robot
from ...urdf.tree import Array, frozen
from ..block import Scalar, Vector
from ..codes import HELD_OBJECT
from ..contacts import ContactSettings, make_contact_frame
from ..element import Layout, ReferenceResolver, RowCounts
from ..scales import scales
from .constraint import Constraint
from .held_object_rows import ALONG

AXES = ("x", "y", "z", "rx", "ry", "rz")
#: Singular value of a map of contact forces up to which it counts as zero, as a fraction of the largest: rounding.
RANK_TOLERANCE = 1e-9
#: Distance of a contact from the middle of all below which it is there, as a fraction of the largest: rounding.
MIDDLE_TOLERANCE = 1e-9


@renamed_attributes(squeeze="internal_forces")
class HeldObject(Constraint, fixed=("frame", "contacts")):
    r"""A rigid object that contacts of hands hold: it moves with a frame, and needs the forces of all of them.

    With o its centre of mass, fixed to the frame, and f_c, m_c the force and moment on the robot at p_c, Newton's and
    Euler's equations of the object are

    .. math::

        m\,(\ddot o - g) + \sum_c f_c = 0, \qquad
        I \dot\omega + \omega \times I \omega + \sum_c \big( m_c + (p_c - o) \times f_c \big) = 0

    and no other hand moves along it, J the Jacobian of the hand less that of the object's point there, d the damping:

    .. math::

        J a + \dot J v = -d\, J v

    Each contact is `Contact.force_only`, since what it touches is not the world, and pushes within its cone, or pulls
    too where it is not unilateral; a surface faces the object along its -z and turns with the hand.  While contacts are
    made or broken the object counts in proportion to the least of their shares, as if it stood on something that gives
    way, and hands may move until their contacts are made.

    Forces that only squeeze the object are left free: the null space of the grasp map G, ``sum_c G_c f_c``.  A
    `ForceTask` on these contacts decides about them, as least squares under these rows make ``f = G^+ w + (1 - G^+ G)
    f*``: the least forces that carry the object, and of the references what squeezes.  `squeeze` makes references.

    Source: Murray, Li, Sastry 1994, *A Mathematical Introduction to Robotic Manipulation*, chapters 5 and 6; Williams,
    Khatib 1993, "The virtual linkage: a model for internal forces in multi-grasp manipulation".

    Args:
        robot: the robot.
        contacts: names of those that hold it.
        frame: of the robot, to which the object is fixed; that of the hand in which it lies.
        mass: [kg].
        com: (3,) its centre of mass in the frame [m].
        inertia: (3, 3) about its centre of mass, in the frame's axes [kg m^2].
        damping: [1/s]; ``10 sqrt(g / l)`` by default.
        name: by which the controller knows it.

    Attributes:
        frame, contacts: as given.
        mass, com, inertia, damping: as given; may be set at any time.

    Raises:
        UnknownNameError: no such frame.
        ArgumentError: no contacts, numbers out of range, or an inertia that no body has.
    """

    code = HELD_OBJECT
    unit = "N"
    mass, damping = Scalar(0), Scalar(1)
    com = Vector(2, 4, 0, finite=True)

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
        self.frame, self.contacts = frame, several("contacts", contacts, "names of contacts")
        if not self.contacts or len(set(self.contacts)) < len(self.contacts):
            raise ArgumentError(f"contacts: expected names, each once, got {contacts!r}")
        self.labels = tuple(self.contacts)
        self.mass = positive("mass", mass, zero=True)
        self.inertia = np.zeros((3, 3)) if inertia is None else inertia
        self.damping = 10.0 * scales(robot).frequency if damping is None else positive("damping", damping, zero=True)
        self.com = check_vector("com", com, (3,), "in the frame")
        self._hands: tuple[ContactSettings, ...] = ()

    @property
    def inertia(self) -> Array:
        """(3, 3) about its centre of mass, in the frame's axes [kg m^2]; may be set."""
        return frozen(np.array(self.block[5:]).reshape(3, 3))

    @inertia.setter
    def inertia(self, value: ArrayLike) -> None:
        given = np.array(value, dtype=np.float64)
        if given.shape != (3, 3) or not np.isfinite(given).all() or not np.allclose(given, given.T):
            raise ArgumentError(f"inertia: expected a symmetric matrix (3, 3), got {value!r}")
        moments = np.linalg.eigvalsh(given)
        if moments[0] < -1e-12 or moments[0] + moments[1] < moments[2] - 1e-9 * abs(moments[2]):
            raise ArgumentError(f"inertia: no body has the principal moments {moments}")
        self.block[5:] = given.ravel()

    def validate_contacts(self, contacts: Mapping[str, ContactSettings]) -> None:
        """That contacts of a controller can hold it.

        Raises:
            UnknownNameError: one that is needed is not among them.
            ArgumentError: one holds to the world, or on a spring.
        """
        for name in self.contacts:
            if name not in contacts:
                raise UnknownNameError(f"contact of {self.name!r}", name, contacts)
            if contacts[name].role != "force":
                raise ArgumentError(
                    f"contact {name!r} of {self.name!r}: expected force_only=True and no stiffness, since what it "
                    "touches is not the world"
                )

    def bind_contacts(self, contacts: Mapping[str, ContactSettings]) -> None:
        """Be held by these contacts from now on; raises as `check`."""
        self.validate_contacts(contacts)
        self._hands = tuple(contacts[name] for name in self.contacts)

    def bind(self, references: ReferenceResolver) -> tuple[int, int]:
        """The frame, and the list of the contacts, each with 1 if it moves against the frame by itself, else 0."""
        hands, own = list[int](), self._joint(self.frame)
        for hand in self._hands:
            hands += [references.contact_number(hand.name), int(self._joint(hand.frame) != own)]
        return references.add_frame(self.frame), references.add_index_list(hands)

    def _joint(self, frame: str) -> int:
        """The joint that carries a frame."""
        assert self.robot is not None
        return int(self.robot.model.frames[self.robot.frame_id(frame)].parentJoint)

    @classmethod
    def declare_layout(cls, counts: RowCounts) -> Layout:
        """Mass, damping, centre and inertia; six rows of the object, and up to six of each hand."""
        lists = range(counts.entries - 2 * counts.rows + 1)
        return Layout(
            counts.rows,
            14,
            first=range(counts.frames),
            second=lists,
            equalities=ALONG + 6 * counts.rows,
            hands=counts.rows,
        )

    def row_name(self, contact: str, row: int) -> str:
        """Name of a row, for explanations."""
        return f"{self.name} {AXES[row]}" if row < ALONG else f"{contact} along {self.name} {AXES[row - ALONG]}"

    def row_unit(self, row: int) -> str:
        """Its unit."""
        return "N" if row < 3 else "N m" if row < ALONG else "m/s^2"

    def internal_forces(self, s: State, force: float) -> dict[str, Array]:
        """Forces on the hands that press them apart, as the object does that they squeeze, and that move it nowhere.

        Args:
            s: the state.
            force: of two hands, each one's, along the line between the contacts [N]; of more, towards their middle
                before what would move the object is taken out.

        Returns:
            (3,) or (6,) by contact, world axes [N, N m]: references for a `ForceTask` about these contacts.

        Raises:
            ArgumentError: no number, or contacts that are all at one place; or it has not met a controller.
        """
        if not np.isfinite(size := number("force", force)):
            raise ArgumentError(f"force: expected a finite number [N], got {force}")
        hands = [make_contact_frame(s, settings, 0, 1.0, np.inf) for settings in self._hands]
        if not hands:
            raise ArgumentError(f"internal_forces: {self.name!r} is not in a controller yet, whose contacts hold it")
        points = np.array([hand.point for hand in hands])
        away = points - points.mean(axis=0)
        lengths = np.linalg.norm(away, axis=1)
        if not lengths.min() > MIDDLE_TOLERANCE * lengths.max():
            raise ArgumentError(f"internal_forces: expected contacts at several places, got {list(self.contacts)}")
        G = np.hstack([grasp_map(lever, hand.size) for lever, hand in zip(away, hands, strict=True)])
        apart = size * away / lengths[:, np.newaxis]
        whole = np.concatenate([np.append(f, np.zeros(hand.size - 3)) for f, hand in zip(apart, hands, strict=True)])
        whole -= np.linalg.pinv(G, rcond=RANK_TOLERANCE) @ (G @ whole)
        parts = np.split(whole, np.cumsum([hand.size for hand in hands])[:-1])
        return dict(zip(self.contacts, parts, strict=True))
