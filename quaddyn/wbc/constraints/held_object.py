"""`HeldObject`: something that hands hold, with its inertia and the forces at each of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from ...contact import Contact
from ...contact.geometry import cross_matrix, drift, jacobian, levers
from ...dynamics import State
from ...errors import ArgumentError, UnknownNameError
from ...robot.arguments import check_vector, number, positive, several
from ...robot.robot import Robot
from ...urdf.tree import Array, frozen
from ..contacts import ContactFrame, ContactSettings, place
from ..scales import scales
from ..tick import Rows, Tick
from .constraint import Constraint

AXES = ("x", "y", "z", "rx", "ry", "rz")


class HeldObject(Constraint, fixed=("frame", "contacts", "mass", "com", "inertia", "damping")):
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

    Rows are computed with NumPy; controllers with them are not exported to C.

    Args:
        robot: the robot.
        contacts: names of those that hold it.
        frame: of the robot, to which the object is fixed; that of the hand in which it lies.
        mass: [kg].
        com: (3,) its centre of mass in the frame [m].
        inertia: (3, 3) about its centre of mass, in the frame's axes [kg m^2].
        damping: [1/s]; ``10 sqrt(g / l)`` by default.
        name: by which the controller knows it.

    Raises:
        UnknownNameError: no such frame.
        ArgumentError: no contacts, numbers out of range, or an inertia that no body has.
    """

    unit = "N"

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
        super().__init__(name, robot=robot)
        robot.frame_id(frame)
        self.frame, self.contacts = frame, several("contacts", contacts, "names of contacts")
        if not self.contacts or len(set(self.contacts)) < len(self.contacts):
            raise ArgumentError(f"contacts: expected names, each once, got {contacts!r}")
        self.mass = positive("mass", mass, zero=True)
        given = np.zeros((3, 3)) if inertia is None else np.array(inertia, dtype=np.float64)
        if given.shape != (3, 3) or not np.isfinite(given).all() or not np.allclose(given, given.T):
            raise ArgumentError(f"inertia: expected a symmetric matrix (3, 3), got {inertia!r}")
        moments = np.linalg.eigvalsh(given)
        if moments[0] < -1e-12 or moments[0] + moments[1] < moments[2] - 1e-9 * abs(moments[2]):
            raise ArgumentError(f"inertia: no body has the principal moments {moments}")
        self.inertia = frozen(given)
        self.damping = 10.0 * scales(robot).frequency if damping is None else positive("damping", damping, zero=True)
        at = check_vector("com", com, (3,), "in the frame")
        self.com = frozen(at)
        self._length = scales(robot).length
        self._hands: tuple[ContactSettings, ...] = ()

    def check(self, known: Mapping[str, ContactSettings]) -> None:
        """That contacts of a controller can hold it.

        Raises:
            UnknownNameError: one that is needed is not among them.
            ArgumentError: one holds to the world, or on a spring.
        """
        for name in self.contacts:
            if name not in known:
                raise UnknownNameError(f"contact of {self.name!r}", name, known)
            if known[name].role != "force":
                raise ArgumentError(
                    f"contact {name!r} of {self.name!r}: expected force_only=True and no stiffness, since what it "
                    "touches is not the world"
                )

    def meet(self, known: Mapping[str, ContactSettings]) -> None:
        """Be held by these contacts from now on; raises as `check`."""
        self.check(known)
        self._hands = tuple(known[name] for name in self.contacts)

    def rows(self, tick: Tick) -> list[Rows]:
        """The object's equations of motion, and the motion of every hand along it."""
        hands = [contact for contact in tick.contacts if contact.name in self.contacts]
        if not hands:
            return []
        s, share = tick.state, min(hand.share for hand in hands)
        J, bias, o = self._fixed_point(s, self.com)
        R, omega = s.placement(self.frame).rotation, s.velocity(self.frame)[3:]
        inertia = R @ self.inertia @ R.T
        M = np.zeros((6, 6))
        M[:3, :3], M[3:, 3:] = self.mass * np.eye(3), inertia
        bias[:3] -= s.robot.model.gravity.linear
        load = M @ bias
        load[3:] += np.cross(omega, inertia @ omega)
        G = np.zeros((6, tick.nf))
        for hand in hands:
            G[:, hand.columns] = _grasp(hand.point - o, hand.size)
        weights = np.array([1.0, 1.0, 1.0, *3 * (1.0 / self._length,)]) / tick.scales.mass
        rows = []
        for part, unit in ((slice(0, 3), "N"), (slice(3, 6), "N m")):
            names, wanted = tuple(f"{self.name} {axis}" for axis in AXES[part]), -share * load[part]
            rows.append(Rows(names, unit, wanted, wanted, share * (M @ J)[part], G[part], weights=weights[part]))
        for hand in hands:
            rows += self._grip(s, hand)
        return rows

    def _grip(self, s: State, hand: ContactFrame) -> list[Rows]:
        """A hand does not move along the object; none of the hand that it is fixed to, and while a contact is made."""
        model, contact = s.robot.model, hand.settings.contact
        frames = [model.frames[s.robot.frame_id(name)].parentJoint for name in (contact.frame, self.frame)]
        if hand.share < 1.0 or frames[0] == frames[1]:
            return []
        T = s.placement(self.frame)
        J, bias, _ = self._fixed_point(s, T.rotation.T @ (hand.point - T.translation))
        J, gap = hand.jacobian - J[: hand.size], hand.drift - bias[: hand.size]
        wanted = -self.damping * (J @ s.v) - gap
        names = tuple(f"{hand.name} along {self.name} {axis}" for axis in AXES[: hand.size])
        return [Rows(names, "m/s^2", wanted, wanted, J)]

    def _fixed_point(self, s: State, at: Array) -> tuple[Array, Array, Array]:
        """(6, nv) Jacobian, (6,) drift and (3,) place of the object's point at `at` in its frame."""
        point = Contact(name="point", frame=self.frame, kind="surface", half_size=np.ones(2), offset=at)
        fixed, turning = levers(s, point)
        there = s.placement(self.frame).translation + turning
        return jacobian(s, point, turning), drift(s, point, fixed, turning), np.asarray(there)

    def squeeze(self, s: State, force: float) -> dict[str, Array]:
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
        size = number("force", force)
        if not np.isfinite(size):
            raise ArgumentError(f"force: expected a finite number [N], got {force}")
        hands = [place(s, settings, 0, 1.0, np.inf) for settings in self._hands]
        if not hands:
            raise ArgumentError(f"squeeze: {self.name!r} is not in a controller yet, whose contacts hold it")
        points = np.array([hand.point for hand in hands])
        away = points - points.mean(axis=0)
        lengths = np.linalg.norm(away, axis=1)
        if not lengths.min() > 0.0:
            raise ArgumentError(f"squeeze: expected contacts at several places, got {list(self.contacts)}")
        G = np.hstack([_grasp(lever, hand.size) for lever, hand in zip(away, hands, strict=True)])
        forces = [np.zeros(hand.size) for hand in hands]
        for f, lever, length in zip(forces, away, lengths, strict=True):
            f[:3] = size * lever / length
        whole = np.concatenate(forces)
        whole -= np.linalg.pinv(G) @ (G @ whole)
        parts = np.split(whole, np.cumsum([hand.size for hand in hands])[:-1])
        return dict(zip(self.contacts, parts, strict=True))


def _grasp(lever: Array, size: int) -> Array:
    """(6, size) force and moment about a point of a force, or wrench, at `lever` from it."""
    out = np.eye(6)[:, :size].copy()
    out[3:, :3] = cross_matrix(lever)
    return out
