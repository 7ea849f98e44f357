"""`ContactSet`: a robot's contacts, switched by name; what of them moves, pushes and supports at a state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from ..dynamics import State
from ..errors import ArgumentError, ArgumentTypeError, UnknownNameError
from ..robot.arguments import check_sequence, check_vector
from ..robot.robot import Robot
from ..strict_attributes import StrictAttributes
from ..urdf.tree import Array
from .center_of_pressure import pressure_point
from .contact import FACES, Contact
from .contact_kinematics import cross_matrix, drift, jacobian, lever, levers
from .friction_cones import cone_margin, pyramid
from .solvers.compliant_solver import CompliantSolver
from .solvers.problem import ContactProblem
from .support import support_polygon


class ContactSet(StrictAttributes, fixed=("robot",)):
    """Named contacts of one robot, any of which may be switched on and off at any time.

    The members are fixed when the set is made; switching changes no array but the answers'.  Rows are those of the
    active members in the order of the set: three for a point, six (linear before angular) for a surface, in world axes.

    A point is the material point of the body that touches now, below the sphere's centre.  While a sphere rolls, that
    point changes; the rolling condition ``jacobian v = 0`` differentiates with the lever fixed in the world, so that
    ``drift`` holds no centripetal term for it: ``d/dt (jacobian v) = jacobian a + drift`` exactly.

    Args:
        robot: any robot.
        contacts: its members; all are active at the start.

    Raises:
        ArgumentTypeError: something else than contacts of a robot.
        ArgumentError: two of one name.
        UnknownNameError: a contact's frame does not exist.
    """

    def __init__(self, robot: Robot, contacts: Iterable[Contact]) -> None:
        if not isinstance(robot, Robot):
            raise ArgumentTypeError(f"robot: expected a Robot from quaddyn.load, got {type(robot).__name__}")
        members: dict[str, Contact] = {}
        for contact in check_sequence("contacts", contacts, "contacts"):
            if not isinstance(contact, Contact):
                raise ArgumentTypeError(f"contacts: expected Contact, got {type(contact).__name__}")
            if contact.name in members:
                raise ArgumentError(f"contacts: every name once, got {contact.name!r} twice")
            robot.frame_id(contact.frame)
            members[contact.name] = contact
        self.robot = robot
        self._members = members
        self._active = dict.fromkeys(members, True)

    @classmethod
    def of_feet(cls, robot: Robot, feet: Iterable[str] | None = None, **options: object) -> ContactSet:
        """The feet of a robot, all by default; `options` as the attributes of `Contact`."""
        names = robot.feet if feet is None else check_sequence("feet", feet, "names of feet")
        return cls(robot, [Contact.of_foot(robot, foot, **options) for foot in names])

    # -- who -------------------------------------------------------------------------------------------------
    @property
    def names(self) -> tuple[str, ...]:
        """All members."""
        return tuple(self._members)

    @property
    def active(self) -> tuple[str, ...]:
        """Members that are on."""
        return tuple(name for name, on in self._active.items() if on)

    def switch(self, name: str, on: bool) -> None:
        """Turn one member on or off.

        Raises:
            UnknownNameError: no such member.
        """
        self._active[self[name].name] = bool(on)

    def activate(self, names: Iterable[str]) -> None:
        """Turn exactly these members on.

        Raises:
            UnknownNameError: no such member; nothing has changed then.
        """
        wanted = {self[name].name for name in check_sequence("names", names, "names of contacts")}
        self._active = {name: name in wanted for name in self._members}

    def __getitem__(self, name: str) -> Contact:
        """A member, on or off.

        Raises:
            UnknownNameError: no such member.
        """
        try:
            return self._members[name]
        except (KeyError, TypeError):
            raise UnknownNameError("contact", name, self._members) from None

    def __iter__(self) -> Iterator[Contact]:
        """Active members."""
        return (self._members[name] for name in self.active)

    def __len__(self) -> int:
        """Number of active members."""
        return sum(self._active.values())

    @property
    def rows(self) -> int:
        """Rows of the stacked Jacobian."""
        return sum(contact.rows for contact in self)

    def slices(self) -> dict[str, slice]:
        """Where each active member's rows are."""
        out, start = {}, 0
        for contact in self:
            out[contact.name] = slice(start, start + contact.rows)
            start += contact.rows
        return out

    # -- motion ----------------------------------------------------------------------------------------------
    def positions(self, s: State) -> dict[str, Array]:
        """(3,) contact point, or centre of the surface, by active member, world axes [m]."""
        return {c.name: s.placement(c.frame).translation + lever(s, c) for c in self}

    def jacobian(self, s: State, *, motion_only: bool = False) -> Array:
        """(rows, nv) stacked Jacobian: velocities of the contacts = jacobian v; forces enter as its transpose.

        Args:
            s: the state.
            motion_only: leave out the members that are `Contact.force_only`.

        Raises:
            StaleStateError: the Dynamics of `s` was updated again.
            ArgumentError: `s` belongs to another robot.
        """
        self._check(s)
        blocks = [jacobian(s, c, lever(s, c)) for c in self if not (motion_only and c.force_only)]
        return np.vstack(blocks) if blocks else np.zeros((0, self.robot.nv))

    def drift(self, s: State, *, motion_only: bool = False) -> Array:
        """(rows,) accelerations of the contacts at ``a = 0``: ``d/dt (jacobian v) = jacobian a + drift``."""
        self._check(s)
        out = []
        for c in self:
            if motion_only and c.force_only:
                continue
            out.append(drift(s, c, *levers(s, c)))
        return np.concatenate(out) if out else np.zeros(0)

    # -- forces ----------------------------------------------------------------------------------------------
    def generalized(self, s: State, forces: Mapping[str, Array]) -> Array:
        """(nv,) ``sum_i J_i^T f_i`` [N m, N].

        Args:
            s: the state.
            forces: (3,) or, for a surface, (6,) by active member, on the robot, world axes [N, N m].

        Raises:
            UnknownNameError: a name that is no active member.
            ArgumentError: a force of the wrong shape or not finite.
        """
        self._check(s)
        out = np.zeros(self.robot.nv)
        for name, force in forces.items():
            if name not in self.active:
                raise UnknownNameError("active contact", name, self.active)
            contact = self._members[name]
            force = check_vector(f"forces[{name!r}]", force, (contact.rows,), f"a {contact.kind} contact")
            out += jacobian(s, contact, lever(s, contact)).T @ force
        return out

    def pyramid(self, s: State, *, faces: int = FACES, inner: bool = True) -> Array:
        """(m, rows) matrix A of all active members' friction pyramids, ``A f <= 0`` for the stacked forces f.

        Args:
            s: the state, which gives surfaces their attitude.
            faces: of each pyramid; surfaces always have 4.
            inner: see `quaddyn.contact.pyramid`, also for what an inner pyramid gives away.
        """
        self._check(s)
        blocks = []
        for c in self:
            axes = c.axes_at(s.placement(c.frame).rotation)
            blocks.append(pyramid(c, faces=4 if c.kind == "surface" else faces, inner=inner, axes=axes))
        out = np.zeros((sum(len(b) for b in blocks), self.rows))
        row = 0
        for block, columns in zip(blocks, self.slices().values(), strict=True):
            out[row : row + len(block), columns] = block
            row += len(block)
        return out

    def cone_margins(self, forces: Mapping[str, Array]) -> dict[str, float]:
        """``mu f_n - |f_t|`` [N] by member that has a force; negative where it pulls or slips.

        Raises:
            UnknownNameError: a name that is no active member.
            ArgumentError: a force of the wrong shape or not finite.
        """
        out = {}
        for name, force in forces.items():
            if name not in self.active:
                raise UnknownNameError("active contact", name, self.active)
            contact = self._members[name]
            force = check_vector(f"forces[{name!r}]", force, (contact.rows,), f"a {contact.kind} contact")
            out[name] = cone_margin(contact, force)
        return out

    def center_of_pressure(self, s: State, name: str, wrench: Array) -> Array | None:
        """Where a surface's pressure acts (`quaddyn.contact.center_of_pressure`), world axes [m].

        Args:
            s: the state.
            name: an active or inactive surface.
            wrench: (6,) force and moment about the surface's centre, on the robot, world axes [N, N m].

        Returns:
            (3,) in the plane of the surface; None where nothing presses.  It lies outside the rectangle if the wrench
            asks for a pull.
        """
        self._check(s)
        contact = self[name]
        if contact.kind != "surface":
            raise ArgumentError(f"name: expected a surface, got {name!r}, a point")
        wrench = check_vector("wrench", wrench, (6,), "force before moment")
        T = s.placement(contact.frame)
        return pressure_point(T.translation + T.rotation @ contact.offset, contact.axes_at(T.rotation)[2], wrench)

    def support_polygon(self, s: State) -> Array:
        """(m, 2) convex hull of the active unilateral contacts, seen from above, counter-clockwise [m]."""
        self._check(s)
        points = []
        for c in self:
            if not c.unilateral:
                continue
            T = s.placement(c.frame)
            corners = T.translation + c.corners @ T.rotation.T
            points.append((corners - c.radius * c.normal)[:, :2])
        return support_polygon(np.vstack(points) if points else np.zeros((0, 2)))

    # -- solving ---------------------------------------------------------------------------------------------
    def problem(
        self,
        s: State,
        free: Array,
        *,
        offset: Array | None = None,
        guess: Array | None = None,
        passive: bool = False,
    ) -> ContactProblem:
        """The contact problem of the active members at a state; a surface counts as its four corners.

        Args:
            s: the state, at the start of the step.
            free: (nv,) velocity at the end of the step without contact impulses, ``v + dt aba(q, v, tau)`` [rad/s,
            m/s].
            offset: (k,) as in `ContactProblem`.
            guess: (k, 3) as in `ContactProblem`, in contact frames.
            passive: hand the velocities at the start over, so that no contact does positive work.

        Returns:
            k contacts in their own frames (`axes`, repeated for the corners of a surface).
        """
        self._check(s)
        rows: list[Array] = []
        friction: list[float] = []
        for c in self:
            T, J = s.placement(c.frame), s.jacobian(c.frame)
            for corner in c.corners:
                arm = T.rotation @ corner - c.radius * c.normal
                rows.append(c.axes @ (J[:3] - cross_matrix(arm) @ J[3:]))
                friction.append(c.friction)
        J_all = np.vstack(rows) if rows else np.zeros((0, self.robot.nv))
        return ContactProblem.from_jacobian(
            J_all,
            np.asarray(np.linalg.inv(s.M), dtype=np.float64),
            free,
            np.array(friction),
            offset=offset,
            before=np.array(s.v) if passive else None,
            guess=guess,
        )

    def compliant_solver(self, dt: float, *, stiction_speed: float = 1e-2) -> CompliantSolver:
        """A `CompliantSolver` for `problem` of the active members, from their stiffness and damping.

        A surface's are shared equally by its four corners.

        Args:
            dt: length of the step [s].
            stiction_speed: as there [m/s].

        Raises:
            ArgumentError: an active member has no stiffness.
        """
        k: list[float] = []
        c: list[float] = []
        for contact in self:
            if contact.stiffness is None:
                raise ArgumentError(f"stiffness: expected one of every active contact, got None of {contact.name!r}")
            share = len(contact.corners)
            k += share * [contact.stiffness / share]
            c += share * [contact.damping / share]
        if not k:
            return CompliantSolver(1.0, dt=dt, stiction_speed=stiction_speed)
        return CompliantSolver(np.array(k), np.array(c), dt=dt, stiction_speed=stiction_speed)

    def _check(self, s: State) -> None:
        if not isinstance(s, State):
            raise ArgumentTypeError(f"s: expected a State from Dynamics.update, got {type(s).__name__}")
        if s.robot is not self.robot:
            raise ArgumentError(
                f"s: expected a state of {self.robot.name!r}, got one of another robot, {s.robot.name!r}"
            )

    def __repr__(self) -> str:
        return f"ContactSet({self.robot.name!r}, active={self.active} of {self.names})"
