"""Contacts of the controller: what each is, how much of it there is while it is made or broken, and its geometry.

The contact point of a spherical foot is the point of the sphere that lies deepest along the contact's normal n,
``p = c - r n``.  Its force acts there, and held still is the material point that is there now: velocity
``v_c + omega x (-r n)``.  Since p stays below the centre as the foot turns, the acceleration that rolling without
slipping forbids is ``a_c + alpha x (-r n)``, which has no term ``omega x (omega x r)``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from ..dynamics import State
from ..errors import ArgumentError
from ..robot.arguments import number
from ..robot.robot import Robot
from ..urdf.tree import Array, frozen

Kind = Literal["unilateral", "bilateral", "compliant", "force"]
KINDS: tuple[Kind, ...] = ("unilateral", "bilateral", "compliant", "force")


class Contact:
    """A place where the robot can touch the world; its numbers may be set at any tick.

    Args:
        robot: the robot.
        name: the contact's name, a foot's by default.
        frame: frame of the robot that touches; `name` by default.
        kind: "unilateral" (pushes, does not slip, does not lift), "bilateral" (a grip: no limit on the force's
            direction), "compliant" (the force of this instant is that of a spring and damper, not chosen; motion is
            free) or "force" (a force may be chosen, motion is free: a hand that pushes something that gives way).
        surface: True for a contact that also carries moments: 6 components instead of 3.
        half_size: (2,) half lengths of a surface along the frame's x and y [m]; bound the centre of pressure.
        radius: of the sphere that touches [m]; a foot's own by default, else 0.
        normal: (3,) unit normal of the ground, world axes, out of the ground.
        friction: Coulomb's coefficient; the controller's by default (None).
        minimum, maximum: least and largest normal force [N].
        stiffness: of a compliant contact [N/m].
        damping: of a compliant contact [N s/m].
        height: along the normal, where a compliant ground begins [m].

    Raises:
        ArgumentError: a number out of range.
        UnknownNameError: no such frame.
    """

    def __init__(
        self,
        robot: Robot,
        name: str,
        *,
        frame: str | None = None,
        kind: Kind = "unilateral",
        surface: bool = False,
        half_size: Array | tuple[float, float] = (0.05, 0.05),
        radius: float | None = None,
        normal: Array | tuple[float, float, float] = (0.0, 0.0, 1.0),
        friction: float | None = None,
        minimum: float = 0.0,
        maximum: float = np.inf,
        stiffness: float = 1e4,
        damping: float = 0.0,
        height: float = 0.0,
    ) -> None:
        if kind not in KINDS:
            raise ArgumentError(f"kind: expected one of {', '.join(map(repr, KINDS))}; got {kind!r}")
        self.name, self.frame = name, name if frame is None else frame
        robot.frame_id(self.frame)
        if radius is None:
            radius = robot.legs[self.frame].foot.radius if self.frame in robot.legs and not surface else 0.0
        self.kind, self.surface, self.radius = kind, bool(surface), number("radius", radius)
        if not (np.isfinite(self.radius) and self.radius >= 0.0):
            raise ArgumentError(f"radius: expected a length [m], got {radius}")
        self.half_size = np.asarray(half_size, dtype=np.float64)
        if self.half_size.shape != (2,) or not (np.isfinite(self.half_size).all() and (self.half_size > 0.0).all()):
            raise ArgumentError(f"half_size: expected two positive lengths [m], got {half_size}")
        self.stiffness, self.damping, self.height = (
            number("stiffness", stiffness),
            number("damping", damping),
            number("height", height),
        )
        if not (0.0 < self.stiffness < np.inf and 0.0 <= self.damping < np.inf and np.isfinite(self.height)):
            raise ArgumentError(f"stiffness, damping, height: {stiffness}, {damping}, {height} are out of range")
        self._minimum, self._maximum = 0.0, np.inf
        self.limit(minimum, maximum)
        self.normal = normal  # type: ignore[assignment]  # the setter takes anything array-like
        self.friction = friction

    @property
    def size(self) -> int:
        """Components of its force: 3 or 6."""
        return 6 if self.surface else 3

    @property
    def normal(self) -> Array:
        """(3,) unit normal, world axes, out of the ground."""
        return self._normal

    @normal.setter
    def normal(self, value: Array) -> None:
        normal = np.asarray(value, dtype=np.float64)
        if normal.shape != (3,) or not np.isfinite(normal).all() or not np.linalg.norm(normal) > 0.0:
            raise ArgumentError(f"normal: expected a finite, non-zero vector (3,), got {value}")
        self._normal = frozen(normal / np.linalg.norm(normal))
        first = np.eye(3)[0 if abs(self._normal[0]) < 0.9 else 1]
        first = first - (first @ self._normal) * self._normal
        first /= np.linalg.norm(first)
        self._tangents = frozen(np.stack((first, np.cross(self._normal, first))))

    @property
    def tangents(self) -> Array:
        """(2, 3) unit vectors that span the ground, the first along world x where that is possible."""
        return self._tangents

    @property
    def friction(self) -> float | None:
        """Coulomb's coefficient, None for the controller's."""
        return self._friction

    @friction.setter
    def friction(self, value: float | None) -> None:
        if value is not None:
            value = number("friction", value)
            if not 0.0 <= value <= 10.0:
                raise ArgumentError(f"friction: expected a coefficient in [0, 10], got {value}")
        self._friction = value

    @property
    def minimum(self) -> float:
        """Least normal force [N]."""
        return self._minimum

    @property
    def maximum(self) -> float:
        """Largest normal force [N]."""
        return self._maximum

    def limit(self, minimum: float, maximum: float) -> None:
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

    def __repr__(self) -> str:
        return f"Contact({self.name!r}, {self.kind}, {'surface' if self.surface else 'point'})"


class Switch:
    """How much of a contact there is: 0 apart, 1 made, in between while it is made or broken.

    Making, the normal force may not exceed ``F s / (1 - s)``, which grows from 0 without bound as the share s goes from
    0 to 1; breaking, ``f s``, with f the force at the moment of release.  F is the weight over the number of contacts.
    A change of mind half-way starts at the bound it finds, with what is left of the way for s.
    """

    __slots__ = ("cap", "making", "offset", "share", "start", "unit")

    def __init__(self) -> None:
        self.share, self.making = 0.0, False
        self.cap, self.offset, self.start, self.unit = 0.0, 0.0, 0.0, 0.0

    def advance(self, wanted: bool, step: float, load: float, force: float) -> None:
        """One tick on.

        Args:
            wanted: whether the contact is to be.
            step: change of the share per tick; 1 or more switches at once.
            load: F [N].
            force: normal force of the tick before [N].
        """
        if wanted != self.making:
            self.making = wanted
            self.start = self.share
            self.offset = min(self.cap, max(force, 0.0)) if not wanted else self.cap
            self.unit = load
        if wanted:
            # a share within rounding of 1 is 1: the last step of a ramp must not be a spurious tick
            self.share = 1.0 if self.share + step > 1.0 - 1e-9 else self.share + step
            if self.share < 1.0:
                progress = (self.share - self.start) / (1.0 - self.start)
                self.cap = self.offset + self.unit * progress / (1.0 - progress)
            else:
                self.cap = np.inf
        elif self.share > 0.0:
            self.share = 0.0 if self.share - step < 1e-9 else self.share - step
            self.cap = self.offset * self.share / self.start

    def set(self, wanted: bool) -> None:
        """Made or apart at once."""
        self.making, self.share = wanted, float(wanted)
        self.cap, self.offset, self.start, self.unit = (np.inf if wanted else 0.0), 0.0, 0.0, 0.0

    @property
    def numbers(self) -> tuple[float, ...]:
        """Its whole state, for a file."""
        return (self.share, float(self.making), self.cap, self.offset, self.start, self.unit)

    @numbers.setter
    def numbers(self, value: tuple[float, ...]) -> None:
        self.share, making, self.cap, self.offset, self.start, self.unit = map(float, value)
        self.making = bool(making)


@dataclass(frozen=True, slots=True, eq=False)
class ContactFrame:
    """A contact at one instant.

    Attributes:
        contact: what it is.
        columns: its place in the stacked force vector.
        share: how much of it there is, in (0, 1].
        cap: largest normal force while it is made or broken [N].
        friction: Coulomb's coefficient.
        jacobian: (size, nv) of the contact point, world axes; forces act through its transpose.
        drift: (size,) acceleration of the contact point at ``a = 0`` [m/s^2, rad/s^2].
        velocity: (size,) of the contact point [m/s, rad/s].
        point: (3,) the contact point, world axes [m].
        rotation: (3, 3) the frame's axes in the world.
    """

    contact: Contact
    columns: slice
    share: float
    cap: float
    friction: float
    jacobian: Array
    drift: Array
    velocity: Array
    point: Array
    rotation: Array

    @property
    def name(self) -> str:
        """The contact's name."""
        return self.contact.name

    @property
    def size(self) -> int:
        """Components of its force."""
        return self.contact.size

    @property
    def held(self) -> bool:
        """Whether the contact forbids motion."""
        return self.contact.kind in ("unilateral", "bilateral")

    def spring_force(self) -> float:
        """Normal force of a compliant contact now: ``max(0, k depth - d v_n)``, zero above the ground [N]."""
        contact = self.contact
        depth = contact.height - float(contact.normal @ self.point)
        if depth <= 0.0:
            return 0.0
        return max(0.0, contact.stiffness * depth - contact.damping * float(contact.normal @ self.velocity[:3]))


def place(s: State, contact: Contact, start: int, share: float, cap: float, friction: float) -> ContactFrame:
    """The contact's geometry in the state `s`, its force from column `start` on."""
    J, drift, velocity = s.jacobian(contact.frame), s.drift(contact.frame), s.velocity(contact.frame)
    pose = s.placement(contact.frame)
    lever = -contact.radius * contact.normal
    n = contact.size
    if contact.radius:
        across = skew(lever)
        J, drift, velocity = J.copy(), drift.copy(), velocity.copy()
        J[:3] -= across @ J[3:]
        drift[:3] -= across @ drift[3:]
        velocity[:3] -= across @ velocity[3:]
    return ContactFrame(
        contact=contact,
        columns=slice(start, start + n),
        share=share,
        cap=cap,
        friction=friction if contact.friction is None else contact.friction,
        jacobian=J[:n],
        drift=drift[:n],
        velocity=velocity[:n],
        point=pose.translation + lever,
        rotation=pose.rotation,
    )


def skew(u: Array) -> Array:
    """(3, 3) matrix of ``u x``."""
    return np.array([[0.0, -u[2], u[1]], [u[2], 0.0, -u[0]], [-u[1], u[0], 0.0]])
