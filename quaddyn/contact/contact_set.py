"""`ContactSet`: the contacts of a robot, activated by name; their Jacobian, forces and support polygon at a state.

Positions, Jacobians and accelerations are in world axes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from ..deprecation import renamed_attributes, renamed_parameters
from ..dynamics import State
from ..errors import ArgumentError, UnknownNameError
from ..robot.arguments import check_sequence, check_type, check_vector
from ..robot.robot import Robot
from ..strict_attributes import StrictAttributes
from ..urdf.tree import Array
from .contact import DEFAULT_FACES, Contact, cone_margin, friction_pyramid
from .solvers.compliant_solver import CompliantSolver
from .solvers.problem import ContactProblem
from .support import compute_center_of_pressure, support_polygon


def split_contact_lever(s: State, contact: Contact) -> tuple[Array, Array]:
    """Returns the components of the lever from the frame's origin to the contact [m]: fixed in world, fixed in body."""
    return -contact.radius * contact.normal, s.placement(contact.frame).rotation @ contact.offset


def compute_contact_lever(s: State, contact: Contact) -> Array:
    """Returns the vector (3,) from the frame's origin to the contact [m]."""
    in_world, in_body = split_contact_lever(s, contact)
    return np.asarray(in_world + in_body)


def compute_contact_jacobian(s: State, contact: Contact, lever: Array) -> Array:
    """Computes the Jacobian (rows, nv) of a contact point at a vector `lever` from the frame's origin, world axes."""
    J = s.jacobian(contact.frame)
    if lever.any():
        J = np.vstack((J[:3] - cross_matrix(lever) @ J[3:], J[3:]))
    return J[: contact.rows]


def compute_contact_drift(s: State, contact: Contact, fixed: Array, rotating: Array) -> Array:
    """Computes the acceleration (rows,) of a contact point at ``a = 0``.

    Args:
        s: the state.
        contact: the contact.
        fixed: (3,) component of the lever that is fixed in the world [m].
        rotating: (3,) component of the lever that rotates with the body [m].
    """
    out, angular_velocity = s.drift(contact.frame).copy(), s.velocity(contact.frame)[3:]
    out[:3] += cross_matrix(out[3:]) @ (fixed + rotating)
    if rotating.any():
        omega_cross = cross_matrix(angular_velocity)
        out[:3] += omega_cross @ (omega_cross @ rotating)
    return out[: contact.rows]


def grasp_map(lever: Array, size: int) -> Array:
    """Returns the matrix (6, size) from a force, or wrench, at `lever` to force and moment about the frame's origin.

    Source: Murray, Li and Sastry 1994, *A Mathematical Introduction to Robotic Manipulation*, section 5.2.
    """
    out = np.eye(6)[:, :size].copy()
    out[3:, :3] = cross_matrix(lever)
    return out


def cross_matrix(u: Array) -> Array:
    """Returns the matrix (3, 3) of the cross product ``u x``."""
    x, y, z = u
    return np.array(((0.0, -z, y), (z, 0.0, -x), (-y, x, 0.0)))


def contact_jacobian(s: State, foot: str) -> Array:
    """Returns the Jacobian (3, nv) of the lowest point of a foot's sphere, world axes.

    The point c + (0, 0, -r) of the sphere moves with ``v_c + omega x (0, 0, -r)`` [m/s]; a force there has the moment
    of the same lever about the sphere's center.

    Args:
        s: the state.
        foot: one of ``s.robot.feet``.

    Raises:
        UnknownNameError: no such foot.
        StaleStateError: the Dynamics of `s` was updated again.
    """
    if foot not in s.robot.legs:
        raise UnknownNameError("foot", foot, s.robot.feet)
    J = s.jacobian(foot)
    radius = s.robot.legs[foot].foot.radius
    return np.asarray(J[:3] + radius * np.stack((-J[4], J[3], 0.0 * J[3])))


@renamed_attributes(
    of_feet="from_feet", switch="set_active", generalized="generalized_forces", problem="contact_problem"
)
class ContactSet(StrictAttributes, fixed=("robot",)):
    """Named contacts of one robot, which can be activated and deactivated at any time.

    The members are fixed at construction; activation changes only the returned arrays.  Rows are those of the active
    members in the order of the set: three for a point, six (linear before angular) for a surface, in world axes.

    A point is the material point of the body that is in contact now, below the sphere's center.  While a sphere rolls,
    that point changes; the rolling condition ``jacobian v = 0`` is differentiated with the lever fixed in the world, so
    that ``drift`` has no centripetal term for it: ``d/dt (jacobian v) = jacobian a + drift`` exactly.

    Args:
        robot: any robot.
        contacts: its members; all are active at the start.

    Raises:
        ArgumentTypeError: an element is not a contact.
        ArgumentError: two members have the same name.
        UnknownNameError: a contact's frame does not exist.
    """

    def __init__(self, robot: Robot, contacts: Iterable[Contact]) -> None:
        check_type("robot", robot, Robot, "a Robot from quaddyn.load")
        members: dict[str, Contact] = {}
        for contact in check_sequence("contacts", contacts, "contacts"):
            check_type("contacts", contact, Contact, "Contact objects")
            if contact.name in members:
                raise ArgumentError(f"contacts: expected every name once, got {contact.name!r} twice")
            robot.frame_id(contact.frame)
            members[contact.name] = contact
        self.robot = robot
        self._members = members
        self._active = dict.fromkeys(members, True)

    @classmethod
    def from_feet(cls, robot: Robot, feet: Iterable[str] | None = None, **options: object) -> ContactSet:
        """Returns the set of point contacts at a robot's feet.

        Args:
            robot: the robot.
            feet: names of feet; None for all.
            options: further arguments of `Contact`, the same for all feet.
        """
        names = robot.feet if feet is None else check_sequence("feet", feet, "names of feet")
        return cls(robot, [Contact.from_foot(robot, foot, **options) for foot in names])

    # -- members ---------------------------------------------------------------------------------------------
    @property
    def names(self) -> tuple[str, ...]:
        """Names of all members."""
        return tuple(self._members)

    @property
    def active(self) -> tuple[str, ...]:
        """Names of the active members."""
        return tuple(name for name, is_active in self._active.items() if is_active)

    @renamed_parameters(on="active")
    def set_active(self, name: str, active: bool) -> None:
        """Activates or deactivates one member.

        Args:
            name: name of the member.
            active: whether it is to be active.

        Raises:
            UnknownNameError: no such member.
        """
        self._active[self[name].name] = bool(active)

    def activate(self, names: Iterable[str]) -> None:
        """Activates exactly these members and deactivates all others.

        Args:
            names: names of the members to be active.

        Raises:
            UnknownNameError: no such member; the set is then unchanged.
        """
        active = {self[name].name for name in check_sequence("names", names, "names of contacts")}
        self._active = {name: name in active for name in self._members}

    def __getitem__(self, name: str) -> Contact:
        """Returns a member, active or not.

        Raises:
            UnknownNameError: no such member.
        """
        try:
            return self._members[name]
        except (KeyError, TypeError):
            raise UnknownNameError("contact", name, self._members) from None

    def __iter__(self) -> Iterator[Contact]:
        """Iterates over the active members."""
        return (self._members[name] for name in self.active)

    def __len__(self) -> int:
        """Returns the number of active members."""
        return sum(self._active.values())

    @property
    def rows(self) -> int:
        """Number of rows of the stacked Jacobian."""
        return sum(contact.rows for contact in self)

    def slices(self) -> dict[str, slice]:
        """Returns the rows of each active member in stacked arrays, as slices by name."""
        out, start = {}, 0
        for contact in self:
            out[contact.name] = slice(start, start + contact.rows)
            start += contact.rows
        return out

    # -- motion ----------------------------------------------------------------------------------------------
    def positions(self, s: State) -> dict[str, Array]:
        """Returns the contact point (3,), or the surface's center, of each active member, world axes [m]."""
        return {c.name: s.placement(c.frame).translation + compute_contact_lever(s, c) for c in self}

    def jacobian(self, s: State, *, motion_only: bool = False) -> Array:
        """Returns the stacked Jacobian (rows, nv): contact velocities = jacobian v; forces enter by its transpose.

        Args:
            s: the state.
            motion_only: whether to leave out the members that are `Contact.force_only`.

        Raises:
            StaleStateError: the Dynamics of `s` was updated again.
            ArgumentError: `s` belongs to another robot.
        """
        self._check(s)
        blocks = [
            compute_contact_jacobian(s, c, compute_contact_lever(s, c))
            for c in self
            if not (motion_only and c.force_only)
        ]
        return np.vstack(blocks) if blocks else np.zeros((0, self.robot.nv))

    def drift(self, s: State, *, motion_only: bool = False) -> Array:
        """Returns the contact accelerations (rows,) at ``a = 0``: ``d/dt (jacobian v) = jacobian a + drift``.

        Args:
            s: the state.
            motion_only: whether to leave out the members that are `Contact.force_only`.
        """
        self._check(s)
        drifts = []
        for c in self:
            if motion_only and c.force_only:
                continue
            drifts.append(compute_contact_drift(s, c, *split_contact_lever(s, c)))
        return np.concatenate(drifts) if drifts else np.zeros(0)

    # -- forces ----------------------------------------------------------------------------------------------
    def generalized_forces(self, s: State, forces: Mapping[str, Array]) -> Array:
        """Returns ``sum_i J_i^T f_i`` (nv,) [N m, N].

        Args:
            s: the state.
            forces: (3,) or, for a surface, (6,) by active member, on the robot, world axes [N, N m].

        Raises:
            UnknownNameError: a name that is not an active member.
            ArgumentError: a force of the wrong shape or not finite.
        """
        self._check(s)
        out = np.zeros(self.robot.nv)
        for name, force in forces.items():
            if name not in self.active:
                raise UnknownNameError("active contact", name, self.active)
            contact = self._members[name]
            force = check_vector(f"forces[{name!r}]", force, (contact.rows,), f"a {contact.kind} contact")
            out += compute_contact_jacobian(s, contact, compute_contact_lever(s, contact)).T @ force
        return out

    def pyramid(self, s: State, *, faces: int = DEFAULT_FACES, inner: bool = True) -> Array:
        """Returns the matrix A (m, rows) of all active members' friction pyramids, ``A f <= 0`` for stacked forces f.

        Args:
            s: the state, which gives surfaces their orientation.
            faces: number of faces of each pyramid; surfaces always have 4.
            inner: whether the pyramids are inside the cones, see `quaddyn.contact.friction_pyramid`.
        """
        self._check(s)
        blocks = []
        for c in self:
            axes = c.axes_at(s.placement(c.frame).rotation)
            blocks.append(friction_pyramid(c, faces=4 if c.kind == "surface" else faces, inner=inner, axes=axes))
        out = np.zeros((sum(len(b) for b in blocks), self.rows))
        row = 0
        for block, columns in zip(blocks, self.slices().values(), strict=True):
            out[row : row + len(block), columns] = block
            row += len(block)
        return out

    def cone_margins(self, forces: Mapping[str, Array]) -> dict[str, float]:
        """Returns ``mu f_n - |f_t|`` [N] of each given force; negative where the contact would pull or slip.

        Args:
            forces: (3,) or, for a surface, (6,) by active member, on the robot, world axes [N, N m].

        Raises:
            UnknownNameError: a name that is not an active member.
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
        """Returns the center of pressure of a surface, world axes [m].

        Args:
            s: the state.
            name: an active or inactive surface.
            wrench: (6,) force and moment about the surface's center, on the robot, world axes [N, N m].

        Returns:
            (3,) in the plane of the surface; None where the normal force is not positive.  The point is outside the
            rectangle if the wrench requires a pull.
        """
        self._check(s)
        contact = self[name]
        if contact.kind != "surface":
            raise ArgumentError(f"name: expected the name of a surface contact, got {name!r}, which is a point contact")
        wrench = check_vector("wrench", wrench, (6,), "force before moment")
        T = s.placement(contact.frame)
        return compute_center_of_pressure(
            T.translation + T.rotation @ contact.offset, contact.axes_at(T.rotation)[2], wrench
        )

    def support_polygon(self, s: State) -> Array:
        """Returns the convex hull (m, 2) of the active unilateral contacts, seen from above, counter-clockwise [m]."""
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
    @renamed_parameters(free="free_velocity", guess="initial_impulses", passive="enforce_passivity")
    def contact_problem(
        self,
        s: State,
        free_velocity: Array,
        *,
        offset: Array | None = None,
        initial_impulses: Array | None = None,
        enforce_passivity: bool = False,
    ) -> ContactProblem:
        """Returns the contact problem of the active members; a surface has one contact at each of its corners.

        Args:
            s: the state at the start of the step.
            free_velocity: (nv,) velocity at the end of the step without contact impulses, ``v + dt aba(q, v, tau)``
                [rad/s, m/s].
            offset: (k,) as in `ContactProblem` [m/s]; None for zero.
            initial_impulses: (k, 3) as in `ContactProblem`, in contact frames [N s]; None for a cold start.
            enforce_passivity: whether to pass the velocities at the start, so that no contact does positive work.

        Returns:
            k contacts in their own frames (`axes`, repeated for the corners of a surface).
        """
        self._check(s)
        rows: list[Array] = []
        friction: list[float] = []
        for c in self:
            T, J = s.placement(c.frame), s.jacobian(c.frame)
            for corner in c.corners:
                lever = T.rotation @ corner - c.radius * c.normal
                rows.append(c.axes @ (J[:3] - cross_matrix(lever) @ J[3:]))
                friction.append(c.friction)
        J_all = np.vstack(rows) if rows else np.zeros((0, self.robot.nv))
        return ContactProblem.from_jacobian(
            J_all,
            np.asarray(np.linalg.inv(s.M), dtype=np.float64),
            free_velocity,
            np.array(friction),
            offset=offset,
            previous_velocity=np.array(s.v) if enforce_passivity else None,
            initial_impulses=initial_impulses,
        )

    def compliant_solver(self, dt: float, *, stiction_speed: float = 1e-2) -> CompliantSolver:
        """Returns a `CompliantSolver` for `contact_problem`, with the stiffness and damping of the active members.

        A surface's stiffness and damping are divided equally among its corners.

        Args:
            dt: length of the step [s].
            stiction_speed: tangential speed below which friction is viscous [m/s].

        Raises:
            ArgumentError: an active member has no stiffness.
        """
        stiffnesses: list[float] = []
        dampings: list[float] = []
        for contact in self:
            if contact.stiffness is None:
                raise ArgumentError(
                    f"stiffness: expected a stiffness for every active contact, but that of {contact.name!r} is None"
                )
            n_corners = len(contact.corners)
            stiffnesses += n_corners * [contact.stiffness / n_corners]
            dampings += n_corners * [contact.damping / n_corners]
        if not stiffnesses:
            return CompliantSolver(1.0, dt=dt, stiction_speed=stiction_speed)
        return CompliantSolver(np.array(stiffnesses), np.array(dampings), dt=dt, stiction_speed=stiction_speed)

    def _check(self, s: State) -> None:
        """Raises an error unless `s` is a state of this set's robot."""
        check_type("s", s, State, "a State from Dynamics.update")
        if s.robot is not self.robot:
            raise ArgumentError(
                f"s: expected a state of robot {self.robot.name!r}, got a state of another Robot object, "
                f"{s.robot.name!r}; load the robot once and use that object everywhere"
            )

    def __repr__(self) -> str:
        return f"ContactSet({self.robot.name!r}, active={self.active} of {self.names})"
