"""Contacts of the controller: their settings, and their geometry at one instant.

The contact point of a spherical foot is the point of the sphere that lies deepest along the contact's normal n,
``p = c - r n``.  Its force acts there, and held still is the material point that is there now: velocity
``v_c + omega x (-r n)``.  Since p stays below the centre as the foot turns, the acceleration that rolling without
slipping forbids is ``a_c + alpha x (-r n)``, which has no term ``omega x (omega x r)``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from ..contact import Contact, pyramid
from ..contact.contact_kinematics import cross_matrix, drift, jacobian, levers
from ..contact.wrench_cones import wrench_facets
from ..deprecation import renamed_attributes
from ..dynamics import State
from ..errors import ArgumentError
from ..robot.arguments import number
from ..robot.robot import Robot
from ..strict_attributes import StrictAttributes
from ..urdf.tree import Array

#: Rows of the cone of wrenches of a rectangle.
RECTANGLE = 17

Role = Literal["unilateral", "bilateral", "compliant", "force"]


class Changes:
    """How often a controller's contacts were changed.

    Attributes:
        settings: by what is set on them.
        shares: by that, or by switching.
    """

    __slots__ = ("settings", "shares")

    def __init__(self) -> None:
        self.settings = self.shares = 0

    def set(self) -> None:
        """Something was set."""
        self.settings += 1
        self.shares += 1


@renamed_attributes(
    held="is_motion_constrained", own_friction="has_friction_override", follow="apply_default_friction",
    limit="set_normal_force_bounds", minimum="min_normal_force", maximum="max_normal_force", height="surface_height",
    faces="cone_face_rows", cone_rows="max_cone_rows",
)  # fmt: skip
class ContactSettings(StrictAttributes):
    """A `quaddyn.contact.Contact` in a controller, with what may be set at any tick.

    Its role follows from the contact: "unilateral" (pushes, neither slips nor lifts), "bilateral" (a grip: any force),
    "compliant" where it has a stiffness (the force of this instant is that of spring and damper, not chosen; motion is
    free), or "force" where it is ``force_only`` (a force may be chosen, motion is free).

    Args:
        robot: the robot.
        contact: what touches.
        friction: coefficient to use instead of the contact's, which then follows the controller's.
        changes: counts what is set here; shared by the contacts of a controller.

    Raises:
        UnknownNameError: no such frame.
    """

    def __init__(
        self, robot: Robot, contact: Contact, *, friction: float | None = None, changes: Changes | None = None
    ) -> None:
        robot.frame_id(contact.frame)
        self._contact = contact
        self._changes = Changes() if changes is None else changes
        self._faces: dict[int, Array] = {}
        self.has_friction_override = friction is None
        if friction is not None:
            self._set(friction=friction)
        self._minimum, self._maximum, self._height = 0.0, np.inf, 0.0

    def _set(self, **changes: object) -> None:
        self._contact = replace(self._contact, **changes)  # type: ignore[arg-type]  # checked by Contact itself
        self._faces = {}
        self._changes.set()

    @property
    def contact(self) -> Contact:
        """The contact as it is now."""
        return self._contact

    @property
    def name(self) -> str:
        """The contact's name."""
        return self._contact.name

    @property
    def frame(self) -> str:
        """The frame that touches."""
        return self._contact.frame

    @property
    def size(self) -> int:
        """Components of its force: 3 or 6."""
        return self._contact.rows

    @property
    def role(self) -> Role:
        """What the controller does with it; see the class."""
        if self._contact.stiffness is not None:
            return "compliant"
        if self._contact.force_only:
            return "force"
        return "unilateral" if self._contact.unilateral else "bilateral"

    @property
    def is_motion_constrained(self) -> bool:
        """Whether the contact forbids motion."""
        return self._contact.stiffness is None and not self._contact.force_only

    @property
    def normal(self) -> Array:
        """(3,) unit normal, world axes, out of the ground; set it to any direction."""
        return self._contact.normal

    @normal.setter
    def normal(self, value: object) -> None:
        self._set(normal=value)

    @property
    def friction(self) -> float:
        """Coulomb's coefficient; once set, it no longer follows the controller's."""
        return self._contact.friction

    @friction.setter
    def friction(self, value: float) -> None:
        self._set(friction=value)
        self.has_friction_override = True

    def apply_default_friction(self, friction: float) -> None:
        """Take the controller's coefficient, unless this contact has its own."""
        if not self.has_friction_override:
            self._set(friction=friction)

    def set_normal_force_bounds(self, minimum: float, maximum: float = np.inf) -> None:
        """Bounds of the normal force.

        Args:
            minimum: least [N].
            maximum: largest [N].

        Raises:
            ArgumentError: not ``0 <= minimum <= maximum``, or a NaN.
        """
        low, high = number("minimum", minimum), number("maximum", maximum)
        if not 0.0 <= low <= high or low == np.inf:
            raise ArgumentError(f"minimum, maximum: expected 0 <= minimum <= maximum, got {minimum} and {maximum}")
        self._minimum, self._maximum = low, high
        self._changes.set()

    @property
    def min_normal_force(self) -> float:
        """Least normal force [N], see `limit`; may be set."""
        return self._minimum

    @min_normal_force.setter
    def min_normal_force(self, value: float) -> None:
        self.set_normal_force_bounds(value, self._maximum)

    @property
    def max_normal_force(self) -> float:
        """Largest normal force [N], see `limit`; may be set."""
        return self._maximum

    @max_normal_force.setter
    def max_normal_force(self, value: float) -> None:
        self.set_normal_force_bounds(self._minimum, value)

    @property
    def surface_height(self) -> float:
        """Along the normal, where compliant ground begins [m]."""
        return self._height

    @surface_height.setter
    def surface_height(self, value: float) -> None:
        given = number("height", value)
        if not np.isfinite(given):
            raise ArgumentError(f"height: expected a finite number, got {value}")
        self._height = given
        self._changes.set()

    @property
    def max_cone_rows(self) -> int:
        """Most rows that `faces` has of a surface."""
        return 1 + len(wrench_facets(self._contact.polygon)) if self._contact.polygon is not None else RECTANGLE

    def cone_face_rows(self, faces: int, rotation: Array) -> Array:
        """(m, size) rows of `quaddyn.contact.pyramid`, without the normal force's own."""
        if self._contact.kind == "surface":
            rows = pyramid(self._contact, faces=4, axes=self._contact.axes_at(rotation))
            return rows[1:] if self._contact.friction > 0.0 else rows
        if faces not in self._faces:
            rows = pyramid(self._contact, faces=faces)
            self._faces[faces] = rows[:-1] if self._contact.friction > 0.0 else rows
        return self._faces[faces]

    def __repr__(self) -> str:
        return f"ContactSettings({self.name!r}, {self.role}, {self._contact.kind})"


def foot_contact(robot: Robot, frame: str, contacts: Sequence[ContactSettings]) -> int:
    """The contact that takes a foot from its task: on its frame, by its name if there are several; -1 without one."""
    wanted = robot.frame_id(frame)
    found = [c for c, settings in enumerate(contacts) if robot.frame_id(settings.frame) == wanted]
    return next((c for c in found if contacts[c].name == frame), found[0] if found else -1)


@dataclass(frozen=True, slots=True, eq=False)
class ContactFrame:
    """A contact at one instant.

    Attributes:
        settings: what it is.
        columns: its place in the stacked force vector.
        share: how much of it there is, in (0, 1].
        cap: largest normal force while it is made or broken [N].
        jacobian: (size, nv) of the contact point, world axes; forces act through its transpose.
        drift: (size,) acceleration of the contact point at ``a = 0`` [m/s^2, rad/s^2].
        velocity: (size,) of the contact point [m/s, rad/s].
        point: (3,) the contact point, world axes [m].
        rotation: (3, 3) the frame's axes in the world.
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
        """The contact's name."""
        return self.settings.name

    @property
    def size(self) -> int:
        """Components of its force."""
        return self.settings.size

    @property
    def is_motion_constrained(self) -> bool:
        """Whether the contact forbids motion."""
        return self.settings.is_motion_constrained

    def spring_force(self) -> float:
        """Normal force of a compliant contact now: ``max(0, k depth - d v_n)``, zero above the ground [N]."""
        contact = self.settings.contact
        depth = self.settings.surface_height - float(contact.normal @ self.point)
        if depth <= 0.0 or contact.stiffness is None:
            return 0.0
        return max(0.0, contact.stiffness * depth - contact.damping * float(contact.normal @ self.velocity[:3]))


def make_contact_frame(s: State, settings: ContactSettings, start: int, share: float, cap: float) -> ContactFrame:
    """The contact's geometry in the state `s`, its force from column `start` on."""
    contact = settings.contact
    fixed, turning = levers(s, contact)
    lever, velocity, pose = fixed + turning, s.velocity(contact.frame).copy(), s.placement(contact.frame)
    velocity[:3] += cross_matrix(velocity[3:]) @ lever
    return ContactFrame(
        settings=settings,
        columns=slice(start, start + settings.size),
        activation=share,
        cap=cap,
        jacobian=jacobian(s, contact, lever),
        drift=drift(s, contact, fixed, turning),
        velocity=velocity[: settings.size],
        point=pose.translation + lever,
        rotation=pose.rotation,
    )


def coefficient(friction: float) -> float:
    """A coefficient of friction, checked."""
    mu = number("friction", friction)
    if not 0.0 <= mu <= 10.0:
        raise ArgumentError(f"friction: expected a coefficient in [0, 10], got {friction}")
    return mu
