"""Contacts of a controller: their settings, and their geometry in one state.

The contact point of a spherical foot is the point of the sphere that lies deepest along the contact normal n,
``p = c - r n`` with center c and radius r.  The contact force acts there.  A closed contact keeps the material point of
the foot at p at rest: its velocity is ``v_c + omega x (-r n)``.  Since p stays below the center while the foot rotates,
rolling without slipping forbids the acceleration ``a_c + alpha x (-r n)``, without a term ``omega x (omega x r)``.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from ..contact import Contact, friction_pyramid
from ..contact.contact import compute_wrench_cone
from ..contact.contact_set import (
    compute_contact_drift,
    compute_contact_jacobian,
    cross_matrix,
    split_contact_lever,
)
from ..deprecation import renamed_attributes
from ..dynamics import State
from ..errors import ArgumentError
from ..robot.arguments import check_number
from ..robot.robot import Robot
from ..strict_attributes import StrictAttributes
from ..urdf.tree import Array

#: Rows of the cone of wrenches of a rectangle.
RECTANGLE_CONE_ROWS = 17

Role = Literal["unilateral", "bilateral", "compliant", "force"]


class ChangeCounter:
    """Counters of changes to the contacts of a controller; the solver copies the contacts again after a change.

    Attributes:
        settings: number of changes of contact settings.
        activations: number of changes of contact settings or activations.
    """

    __slots__ = ("activations", "settings")

    def __init__(self) -> None:
        self.settings = self.activations = 0

    def count_settings_change(self) -> None:
        """Counts one change of contact settings."""
        self.settings += 1
        self.activations += 1


@renamed_attributes(
    held="is_motion_constrained", own_friction="has_friction_override", follow="apply_default_friction",
    limit="set_normal_force_bounds", minimum="min_normal_force", maximum="max_normal_force", height="surface_height",
    faces="cone_face_rows", cone_rows="max_cone_rows",
)  # fmt: skip
class ContactSettings(StrictAttributes):
    """A `quaddyn.contact.Contact` of a controller, with the settings that may be changed between ticks.

    The role of the contact in the optimization follows from the `Contact`:

    - "unilateral": the contact pushes only, and its point neither slips nor lifts off;
    - "bilateral": the contact transmits any force, like a grip, and its point does not move;
    - "compliant" (the contact has a stiffness): the force is that of spring and damper in the current state, not an
      unknown, and the point may move;
    - "force" (``force_only``): the force is an unknown, and the point may move.

    Args:
        robot: the robot.
        contact: frame and geometry of the contact.
        friction: Coulomb friction coefficient that replaces the contact's and follows the controller's; None to keep
            the contact's own coefficient.
        changes: counter of changes, shared by the contacts of a controller; a new one if None.

    Raises:
        UnknownNameError: the frame of the contact does not exist.
    """

    def __init__(
        self, robot: Robot, contact: Contact, *, friction: float | None = None, changes: ChangeCounter | None = None
    ) -> None:
        robot.frame_id(contact.frame)
        self._contact = contact
        self._changes = ChangeCounter() if changes is None else changes
        self._faces: dict[int, Array] = {}
        self.has_friction_override = friction is None
        if friction is not None:
            self._set(friction=friction)
        self._minimum, self._maximum, self._height = 0.0, np.inf, 0.0

    def _set(self, **changes: object) -> None:
        """Replaces fields of the contact."""
        self._contact = replace(self._contact, **changes)  # type: ignore[arg-type]  # checked by Contact itself
        self._faces = {}
        self._changes.count_settings_change()

    def set_valid(self, **changes: object) -> None:
        """Sets fields of the contact to values that are known to be valid, without checks, for internal use.

        Args:
            changes: ``normal``, a read-only unit vector (3,) in world axes, or ``friction``, dimensionless.
        """
        contact = copy.copy(self._contact)
        for name, value in changes.items():
            object.__setattr__(contact, name, value)
        # Fields of these settings are written directly, which takes less time than with the checks of their names.
        object.__setattr__(self, "_contact", contact)
        object.__setattr__(self, "_faces", {})
        self._changes.count_settings_change()

    @property
    def contact(self) -> Contact:
        """The contact with its current settings."""
        return self._contact

    @property
    def name(self) -> str:
        """Name of the contact."""
        return self._contact.name

    @property
    def frame(self) -> str:
        """Name of the frame of the contact."""
        return self._contact.frame

    @property
    def size(self) -> int:
        """Number of components of the contact force: 3 for a point, 6 for a surface."""
        return self._contact.rows

    @property
    def role(self) -> Role:
        """Role of the contact in the optimization; see the class."""
        if self._contact.stiffness is not None:
            return "compliant"
        if self._contact.force_only:
            return "force"
        return "unilateral" if self._contact.unilateral else "bilateral"

    @property
    def is_motion_constrained(self) -> bool:
        """Whether the contact prescribes that its point does not move (roles "unilateral" and "bilateral")."""
        return self._contact.stiffness is None and not self._contact.force_only

    @property
    def normal(self) -> Array:
        """(3,) unit normal in world axes, out of the ground.  A vector of any length may be assigned."""
        return self._contact.normal

    @normal.setter
    def normal(self, value: object) -> None:
        self._set(normal=value)

    @property
    def friction(self) -> float:
        """Coulomb friction coefficient, dimensionless.  Once set, it no longer follows that of the controller."""
        return self._contact.friction

    @friction.setter
    def friction(self, value: float) -> None:
        self._set(friction=value)
        self.has_friction_override = True

    def apply_default_friction(self, friction: float) -> None:
        """Sets the friction coefficient of the controller, unless this contact has a separate one.

        Args:
            friction: Coulomb friction coefficient, dimensionless.
        """
        if not self.has_friction_override:
            self._set(friction=friction)

    def set_normal_force_bounds(self, minimum: float, maximum: float = np.inf) -> None:
        """Sets the bounds of the normal force.

        Args:
            minimum: smallest normal force [N].
            maximum: largest normal force [N], may be infinite.

        Raises:
            ArgumentError: not ``0 <= minimum <= maximum``, or a NaN.
        """
        low, high = check_number("minimum", minimum), check_number("maximum", maximum)
        if not 0.0 <= low <= high or low == np.inf:
            raise ArgumentError(
                f"minimum, maximum: expected normal forces with 0 <= minimum <= maximum [N], got {minimum} and "
                f"{maximum}"
            )
        self._minimum, self._maximum = low, high
        self._changes.count_settings_change()

    @property
    def min_normal_force(self) -> float:
        """Smallest normal force [N], see `set_normal_force_bounds`; may be set."""
        return self._minimum

    @min_normal_force.setter
    def min_normal_force(self, value: float) -> None:
        self.set_normal_force_bounds(value, self._maximum)

    @property
    def max_normal_force(self) -> float:
        """Largest normal force [N], see `set_normal_force_bounds`; may be set."""
        return self._maximum

    @max_normal_force.setter
    def max_normal_force(self, value: float) -> None:
        self.set_normal_force_bounds(self._minimum, value)

    @property
    def surface_height(self) -> float:
        """Position of the undeformed surface of compliant ground along the contact normal [m]; may be set."""
        return self._height

    @surface_height.setter
    def surface_height(self, value: float) -> None:
        given = check_number("surface_height", value)
        if not np.isfinite(given):
            raise ArgumentError(f"surface_height: expected a finite number, got {value}")
        self._height = given
        self._changes.count_settings_change()

    @property
    def max_cone_rows(self) -> int:
        """Largest number of rows that `cone_face_rows` returns for this contact as a surface."""
        return (
            1 + len(compute_wrench_cone(self._contact.polygon))
            if self._contact.polygon is not None
            else RECTANGLE_CONE_ROWS
        )

    def cone_face_rows(self, faces: int, rotation: Array) -> Array:
        """Returns the rows of the friction cone without the row of the normal force; see `friction_pyramid`.

        Args:
            faces: number of faces of the friction pyramid of a point; surfaces have four.
            rotation: (3, 3) rotation of the contact frame in the world.

        Returns:
            (m, size) rows C of ``C f <= 0``.
        """
        if self._contact.kind == "surface":
            rows = friction_pyramid(self._contact, faces=4, axes=self._contact.axes_at(rotation))
            return rows[1:] if self._contact.friction > 0.0 else rows
        if faces not in self._faces:
            rows = friction_pyramid(self._contact, faces=faces)
            self._faces[faces] = rows[:-1] if self._contact.friction > 0.0 else rows
        return self._faces[faces]

    def __repr__(self) -> str:
        return f"ContactSettings({self.name!r}, {self.role}, {self._contact.kind})"


def foot_contact(robot: Robot, frame: str, contacts: Sequence[ContactSettings]) -> int:
    """Returns the index of the contact that replaces the `FootTask` of a foot when it is closed.

    This is the contact on the frame of the foot; if there are several, the one with the name of the frame.

    Args:
        robot: the robot.
        frame: name of the frame of the foot.
        contacts: all contacts of the controller.

    Returns:
        Index in `contacts`, -1 if no contact is on the frame.
    """
    frame_id = robot.frame_id(frame)
    on_frame = [c for c, settings in enumerate(contacts) if robot.frame_id(settings.frame) == frame_id]
    return next((c for c in on_frame if contacts[c].name == frame), on_frame[0] if on_frame else -1)


@dataclass(frozen=True, slots=True, eq=False)
class ContactFrame:
    """Position, velocity, Jacobian and acceleration at ``a = 0`` of a contact point at one state.

    Attributes:
        settings: settings of the contact.
        columns: components of the contact force in the stacked force vector.
        activation: activation of the contact, in (0, 1].
        cap: largest normal force while the contact is made or broken [N].
        jacobian: (size, nv) Jacobian of the contact point, world axes; forces act through its transpose.
        drift: (size,) acceleration of the contact point at ``a = 0`` [m/s^2, rad/s^2].
        velocity: (size,) velocity of the contact point [m/s, rad/s].
        point: (3,) contact point, world axes [m].
        rotation: (3, 3) rotation of the frame in the world.
    """

    settings: ContactSettings
    columns: slice
    activation: float
    cap: float
    jacobian: Array
    drift: Array
    velocity: Array
    point: Array
    rotation: Array

    @property
    def name(self) -> str:
        """Name of the contact."""
        return self.settings.name

    @property
    def size(self) -> int:
        """Number of components of the contact force: 3 or 6."""
        return self.settings.size

    @property
    def is_motion_constrained(self) -> bool:
        """Whether the contact prescribes that its point does not move."""
        return self.settings.is_motion_constrained

    def spring_force(self) -> float:
        """Returns the normal force of a compliant contact, ``max(0, k depth - d v_n)`` [N]; zero above the ground."""
        contact = self.settings.contact
        depth = self.settings.surface_height - float(contact.normal @ self.point)
        if depth <= 0.0 or contact.stiffness is None:
            return 0.0
        return max(0.0, contact.stiffness * depth - contact.damping * float(contact.normal @ self.velocity[:3]))


def make_contact_frame(s: State, settings: ContactSettings, start: int, activation: float, cap: float) -> ContactFrame:
    """Computes position, velocity, Jacobian and acceleration at ``a = 0`` of a contact point at a state.

    Args:
        s: the state.
        settings: settings of the contact.
        start: index of the first component of the contact force in the stacked force vector.
        activation: activation of the contact, in (0, 1].
        cap: largest normal force while the contact is made or broken [N].

    Returns:
        These quantities in world axes, with the other arguments.
    """
    contact = settings.contact
    fixed_lever, rotating_lever = split_contact_lever(s, contact)
    lever, velocity, pose = fixed_lever + rotating_lever, s.velocity(contact.frame).copy(), s.placement(contact.frame)
    velocity[:3] += cross_matrix(velocity[3:]) @ lever
    return ContactFrame(
        settings=settings,
        columns=slice(start, start + settings.size),
        activation=activation,
        cap=cap,
        jacobian=compute_contact_jacobian(s, contact, lever),
        drift=compute_contact_drift(s, contact, fixed_lever, rotating_lever),
        velocity=velocity[: settings.size],
        point=pose.translation + lever,
        rotation=pose.rotation,
    )


def check_friction(friction: float) -> float:
    """Validates a Coulomb friction coefficient and returns it.

    Raises:
        ArgumentError: the coefficient is not in [0, 10].
    """
    mu = check_number("friction", friction)
    if not 0.0 <= mu <= 10.0:
        raise ArgumentError(f"friction: expected a coefficient in [0, 10], got {friction}")
    return mu
