"""`ForceTask`: wanted contact forces, on any level; with no reference, the regularization of forces."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import ClassVar

import numpy as np

from ..errors import ArgumentError, ArgumentTypeError, UnknownNameError
from ..robot.arguments import floats, several
from ..robot.robot import Robot
from ..urdf.tree import Array
from .block import Block, Scalar
from .contacts import ContactFrame
from .tick import Rows, Tick

AXES = ("x", "y", "z", "rx", "ry", "rz")


class ForceTask(Block):
    """Contact forces near their references: zero where none is set, which makes them small.

    Rows are ``f = f*`` per component, world axes.  On a compliant contact, whose force is not chosen, the rows make the
    contact point move along the normal such that the force comes to its reference:
    ``a_n = -bandwidth^2 (f*_n - f_n) / stiffness - 2 bandwidth v_n``.

    Args:
        robot: the robot.
        name: by which the controller knows the task.
        contacts: names of the contacts it is about; all by default.
        weight: against the other rows of its level [m/s^2 per N]; 1 / mass by default.
        bandwidth: of the force on compliant contacts [rad/s].

    Attributes:
        weight, bandwidth: as given.
        block: (3 + 4 feet,) weight, bandwidth, number of references; per foot whether the task is about it; the
            references of the feet.
    """

    code: ClassVar[int] = 20
    weight, bandwidth = Scalar(0), Scalar(1, zero=False)

    def __init__(
        self,
        robot: Robot,
        name: str = "forces",
        *,
        contacts: Sequence[str] | None = None,
        weight: float | None = None,
        bandwidth: float = 20.0,
    ) -> None:
        self.robot, self.name = robot, name
        self._contacts = None if contacts is None else several("contacts", contacts, "names of contacts")
        self._attach(np.zeros(3 + 4 * len(robot.feet)))
        self.weight = 1.0 / robot.mass if weight is None else weight
        self.bandwidth = bandwidth
        self._wanted: Mapping[str, Array] = {}
        self._known = self.contacts
        for i, foot in enumerate(robot.feet):
            self.block[3 + i] = self.contacts is None or foot in self.contacts

    @property
    def contacts(self) -> tuple[str, ...] | None:
        """Names of the contacts that it is about, None for all."""
        return self._contacts

    def meet(self, known: Collection[str]) -> None:
        """Take only names of these contacts from now on.

        Raises:
            UnknownNameError: the task is about others, or wants forces of others.
        """
        for name in (*(self._contacts or ()), *self._wanted):
            if name not in known:
                raise UnknownNameError(f"contact of {self.name!r}", name, known)
        self._known = tuple(known) if self._contacts is None else self._contacts

    @property
    def wanted(self) -> Mapping[str, Array]:
        """The references: (3,) or (6,) by contact, on the robot, world axes [N, N m]."""
        return dict(self._wanted)

    @property
    def told(self) -> Mapping[str, Array]:
        """The references themselves, never changed but replaced; set it to return to them."""
        return self._wanted

    @told.setter
    def told(self, value: Mapping[str, Array]) -> None:
        self._wanted = value
        self._encode()

    def reference(self, forces: Mapping[str, Array] | None = None) -> None:
        """Set all references; contacts left out want zero.

        Args:
            forces: (3,) or (6,) by contact, on the robot, world axes [N, N m].

        Raises:
            UnknownNameError: a contact that the task is not about.
            ArgumentError: a shape that is neither, or an entry that is not finite.
        """
        wanted = {}
        if not isinstance(forces, Mapping | None):
            raise ArgumentTypeError(f"{self.name}.reference: expected forces by contact, got {type(forces).__name__}")
        for name, value in (forces or {}).items():
            if self._known is not None and name not in self._known:
                raise UnknownNameError(f"contact of {self.name!r}", name, self._known)
            force = np.array(floats(f"{self.name}.reference[{name!r}]", value))
            if force.shape not in ((3,), (6,)) or not math.isfinite(np.vdot(force, force)):
                raise ArgumentError(f"{self.name}.reference[{name!r}]: expected (3,) or (6,) finite, got {value}")
            wanted[name] = force
        self.told = wanted

    def forget(self) -> None:
        """Back to zero references."""
        self.told = {}

    def _encode(self) -> None:
        start = 3 + len(self.robot.feet)
        self.block[2] = len(self._wanted)
        self.block[start:] = 0.0
        for i, foot in enumerate(self.robot.feet):
            if foot in self._wanted:
                self.block[start + 3 * i : start + 3 * i + 3] = self._wanted[foot][:3]

    def error(self, contact: ContactFrame, force: Array) -> Array:
        """(size,) reference minus `force` on one contact [N, N m]."""
        return self._reference(contact) - force

    def _reference(self, contact: ContactFrame) -> Array:
        out = np.zeros(contact.size)
        given = self._wanted.get(contact.name)
        if given is not None:
            n = min(len(given), contact.size)
            out[:n] = given[:n]
        return out

    def rows(self, tick: Tick) -> list[Rows]:
        """The task's rows at one instant."""
        out = []
        for contact in tick.contacts:
            if self.contacts is not None and contact.name not in self.contacts:
                continue
            if contact.settings.role == "compliant":
                if contact.name in self._wanted:
                    out.append(self._compliant(tick, contact))
                continue
            wanted = self._reference(contact)
            names = tuple(f"{contact.name} force {axis}" for axis in AXES[: contact.size])
            block = tick.force_rows(contact, np.eye(contact.size))
            weights = np.full(contact.size, self.weight)
            out.append(Rows(names, "N", wanted, wanted, force=block, weights=weights))
        return out

    def _compliant(self, tick: Tick, contact: ContactFrame) -> Rows:
        n, w, stiffness = contact.settings.normal, self.bandwidth, contact.settings.contact.stiffness
        assert stiffness is not None
        lacking = float(n @ self._reference(contact)[:3]) - contact.spring_force()
        wanted = -w * w * lacking / stiffness - 2.0 * w * float(n @ contact.velocity[:3])
        wanted -= float(n @ contact.drift[:3])
        row = (n @ contact.jacobian[:3])[None, :]
        value = np.array([wanted])
        return Rows((f"{contact.name} force",), "m/s^2", value, value, acceleration=row, weights=np.ones(1))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"
