"""`Tick` and `Rows`: the data that tasks and constraints written in Python read, and the rows that they return."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..dynamics import State
from ..errors import ArgumentError
from ..robot.robot import Robot
from ..urdf.tree import Array
from .contact_settings import ContactFrame, ContactSettings, foot_contact, make_contact_frame
from .element import Scales


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """m linear rows ``lower <= A_a a + A_f f + A_tau tau <= upper`` on the unknowns of a tick.

    Rows with ``lower == upper`` are equalities, all others limits.  A matrix that is None is zero.

    Attributes:
        names: names of the rows, for explanations: "FL friction cone", "com x".
        unit: unit of the rows, such as "m/s^2".
        lower, upper: (m,) in `unit`; infinite where there is no bound.
        acceleration: A_a, (m, nv).
        force: A_f, (m, nf) over the stacked forces of the tick's contacts, on the robot, world axes.
        torque: A_tau, (m, nu).
        weights: (m,) weights, which make rows comparable if the level cannot satisfy them all; 1 if None.
    """

    names: tuple[str, ...]
    unit: str
    lower: Array
    upper: Array
    acceleration: Array | None = None
    force: Array | None = None
    torque: Array | None = None
    weights: Array | None = None

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(self.lower)

    def has_valid_shapes(self, nv: int, nf: int, nu: int) -> bool:
        """Returns whether all arrays have valid shapes; their entries are not checked."""
        m, a, f, tau, w = (len(self.names),), self.acceleration, self.force, self.torque, self.weights
        try:
            return (
                self.lower.shape == self.upper.shape == m
                and (w is None or w.shape == m)
                and (a is None or a.shape == (*m, nv))
                and (f is None or f.shape == (*m, nf))
                and (tau is None or tau.shape == (*m, nu))
            )
        except AttributeError:
            return False

    def validate(self, element: str, nv: int, nf: int, nu: int) -> None:
        """Validates rows that an element computed in Python.

        Raises:
            ArgumentError: shapes do not fit, or an entry is NaN or infinite; `lower` may be -inf and `upper` inf.
        """
        m = len(self.names)
        parts = (("lower", self.lower, (m,)), ("upper", self.upper, (m,)), ("weights", self.weights, (m,)))
        matrices = (("acceleration", self.acceleration, nv), ("force", self.force, nf), ("torque", self.torque, nu))
        for name, part, shape in (*parts, *((name, part, (m, n)) for name, part, n in matrices)):
            if part is None:
                continue
            if np.shape(part) != shape:
                raise ArgumentError(f"{element}.rows: {name}: expected shape {shape}, got {np.shape(part)}")
            x = np.asarray(part, dtype=np.float64)
            is_valid = x < np.inf if name == "lower" else x > -np.inf if name == "upper" else np.isfinite(x)
            if not is_valid.all():
                raise ArgumentError(f"{element}.rows: {name}: expected finite numbers, got {part}")


class ActiveContacts(NamedTuple):
    """Contacts that may carry force at a tick.

    Attributes:
        settings: settings of all contacts.
        contacts: for each contact that may carry force: its index, its settings, its first component in the stacked
            force vector, its activation and its cap.
        nf: size of the stacked force vector.
    """

    settings: Sequence[ContactSettings]
    contacts: Sequence[tuple[int, ContactSettings, int, float, float]]
    nf: int

    @staticmethod
    def from_activations(
        settings: Sequence[ContactSettings], activations: Sequence[tuple[float, float]]
    ) -> ActiveContacts:
        """Returns the contacts with nonzero activation; `activations` has activation and cap of each contact."""
        active, start = [], 0
        for c, (contact, (activation, cap)) in enumerate(zip(settings, activations, strict=True)):
            if activation > 0.0:
                active.append((c, contact, start, activation, cap))
                start += contact.size
        return ActiveContacts(settings, active, start)

    def columns(self) -> list[tuple[slice, int]]:
        """Returns, for each contact that may carry force, its components in the stacked force vector, and its index."""
        return [(slice(start, start + settings.size), c) for c, settings, start, _, _ in self.contacts]


class Tick:
    """The state and contacts of one tick, for elements written in Python; properties are computed when they are read.

    Attributes:
        state: state of the robot.
        dt: control period [s].
        scales: natural units of the robot.
        tau_before: (nu,) torques of the tick before [N m]; None on the first.
        acceleration_before: (nv,) accelerations of the tick before; None on the first.
        contact_damping: damping of the constraint that keeps contacts at rest [1/s]; None without one.
        nf: size of the stacked force vector of all contacts that may carry force.
    """

    __slots__ = (
        "_active_contacts",
        "_frames",
        "acceleration_before",
        "contact_damping",
        "dt",
        "nf",
        "scales",
        "state",
        "tau_before",
    )

    def __init__(
        self,
        state: State,
        active: ActiveContacts,
        dt: float,
        scales: Scales,
        tau_before: Array | None = None,
        contact_damping: float | None = None,
        acceleration_before: Array | None = None,
    ) -> None:
        self.acceleration_before = acceleration_before
        self.state, self.dt, self.scales, self.tau_before = state, dt, scales, tau_before
        self.contact_damping, self.nf, self._active_contacts = contact_damping, active.nf, active
        self._frames: tuple[ContactFrame, ...] | None = None

    @staticmethod
    def at(
        state: State,
        settings: Sequence[ContactSettings],
        activations: Sequence[tuple[float, float]],
        dt: float,
        scales: Scales,
        tau_before: Array | None,
        contact_damping: float | None = None,
    ) -> Tick:
        """Returns the tick at a state.

        Args:
            state: state of the robot.
            settings: settings of all contacts.
            activations: activation and cap of each contact.
            dt: control period [s].
            scales: natural units.
            tau_before: torques of the tick before.
            contact_damping: damping of the constraint that keeps contacts at rest [1/s].
        """
        return Tick(
            state, ActiveContacts.from_activations(settings, activations), dt, scales, tau_before, contact_damping
        )

    @property
    def robot(self) -> Robot:
        """The robot."""
        return self.state.robot

    @property
    def contacts(self) -> tuple[ContactFrame, ...]:
        """Contacts that may carry force, each with its components in the stacked force vector."""
        if self._frames is None:
            self._frames = tuple(
                make_contact_frame(self.state, settings, start, activation, cap)
                for _, settings, start, activation, cap in self._active_contacts.contacts
            )
        return self._frames

    def contact(self, name: str) -> ContactFrame | None:
        """Returns the contact of this name if it may carry force, else None."""
        for contact in self.contacts:
            if contact.name == name:
                return contact
        return None

    def foot(self, frame: str) -> ContactFrame | None:
        """Returns the contact of a foot task's foot if the contact may carry force, else None."""
        all_settings = self._active_contacts.settings
        c = foot_contact(self.robot, frame, all_settings)
        return None if c < 0 else self.contact(all_settings[c].name)

    def columns(self, name: str) -> slice | None:
        """Returns the components of a contact in the stacked force vector, None if it carries no force."""
        for _, settings, start, _, _ in self._active_contacts.contacts:
            if settings.name == name:
                return slice(start, start + settings.size)
        return None

    def force_rows(self, contact: ContactFrame, block: Array) -> Array:
        """Returns (m, nf) rows with `block` (m, contact.size) in the components of `contact`."""
        out = np.zeros((len(block), self.nf))
        out[:, contact.columns] = block
        return out
