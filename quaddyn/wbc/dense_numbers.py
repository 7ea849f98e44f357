"""`Numbers`: what a compiled tick of the dense path is told beside the state and the elements' own numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..dynamics import State
from ..urdf.tree import Array
from .contacts import Changes, ContactSettings
from .dense_program import Program
from .parts import Parts

ROLES = ("unilateral", "bilateral", "compliant", "force")


class Numbers:
    """Numbers of contacts, of what force tasks want of them, and a few more.

    Args:
        parts: of the controller.
        program: its tables.
        changes: counts what is set on contacts.

    Attributes:
        block: all of them, as `compiled_memory.heard` carves it.
        contacts: per contact (contact, least, largest force, height) of the last tick, for those who ask later.
        shares: likewise its share and cap.
        columns: where each contact's force lies among all forces.
        forces: how many forces there are.
    """

    def __init__(self, parts: Parts, program: Program, changes: Changes) -> None:
        from . import compiled_contacts, compiled_memory  # they import numba

        self._slots, self._memory, self._program, self._changes = compiled_contacts, compiled_memory, program, changes
        self._settings = tuple(parts.settings.values())
        count, width = len(self._settings), int(program.table[compiled_memory.CONTACT])
        wishes = 8 * len(program.force_tasks)
        self.block = np.zeros(compiled_memory.BEFORE + parts.robot.nu + count * (width + wishes) + 3 * parts.robot.nv)
        self._extra, self._contacts, told, self._com_jacobian = compiled_memory.heard(self.block, program.table)
        self._each = [
            (name, settings.size, row, parts.switches[name])
            for (name, settings), row in zip(parts.settings.items(), self._contacts, strict=True)
        ]
        self._wishes = told.reshape(len(program.force_tasks), count, 8)
        self._told: list[Mapping[str, Array] | None] = [None] * len(program.force_tasks)
        self._seen = self._taken = -1
        self.contacts: tuple[Any, ...] = ()
        self.shares: tuple[tuple[float, float], ...] = ()
        self.columns: dict[str, slice] = {}
        self.forces = 0

    def write(self, state: State, before: Array | None) -> None:
        """All of them, at one tick.

        Args:
            state: the robot's state.
            before: (nu,) torques of the tick before, None on the first.
        """
        if self._seen != self._changes.shares:
            self._look()
            self._seen = self._changes.shares
        for i, task in enumerate(self._program.force_tasks):
            if task.told is not self._told[i]:  # never changed, but replaced
                self._wish(i)
        memory, extra = self._memory, self._extra
        if self._program.rated:
            extra[memory.HAS_BEFORE] = before is not None
            if before is not None:
                extra[memory.BEFORE :] = before
        if self._program.drifts:
            extra[memory.COM_BIAS : memory.COM_SPEED] = state.com_drift
            extra[memory.COM_SPEED : memory.BEFORE] = state.com_velocity
            self._com_jacobian[:] = state.com_jacobian.T

    def _wish(self, i: int) -> None:
        """What a force task wants."""
        task = self._program.force_tasks[i]
        self._told[i] = told = task.told
        self._wishes[i] = 0.0
        for settings, row in zip(self._settings, self._wishes[i], strict=True):
            row[0] = task.contacts is None or settings.name in task.contacts
            if settings.name in told:
                row[1] = 1.0
                row[2 : 2 + len(told[settings.name])] = told[settings.name]

    def _look(self) -> None:
        """The contacts' numbers after a change."""
        if self._taken != self._changes.settings:
            self._taken = self._changes.settings
            self.contacts = tuple([(s.contact, s.minimum, s.maximum, s.height) for s in self._settings])
            for i, settings in enumerate(self._settings):
                self._take(i, settings)
        shares, columns, forces = [], {}, 0
        for name, size, row, switch in self._each:
            row[0], row[1] = share, cap = switch.share, switch.cap
            shares.append((share, cap))
            if share > 0.0:
                columns[name] = slice(forces, forces + size)
                forces += size
        self.shares, self.columns, self.forces = tuple(shares), columns, forces

    def _take(self, i: int, s: ContactSettings) -> None:
        slots, contact, row, faces = self._slots, s.contact, self._contacts[i], self._program.faces
        rows = s.faces(faces, np.eye(3)) if faces and contact.unilateral else np.zeros((0, s.size))
        row[slots.ROLE], row[slots.SIZE] = ROLES.index(s.role), s.size
        row[slots.RADIUS], row[slots.LEAST], row[slots.LARGEST] = contact.radius, s.minimum, s.maximum
        row[slots.HEIGHT], row[slots.STIFFNESS], row[slots.DAMPING] = (
            s.height,
            contact.stiffness or 0.0,
            contact.damping,
        )
        row[slots.PUSHES], row[slots.COUNT], row[slots.AT] = contact.unilateral, len(rows), self._program.frames[i]
        row[slots.SHARED] = self._program.shared[i] if s.size == 3 else -1
        row[slots.TURNED] = contact.kind == "surface"
        row[slots.AXIS : slots.OFFSET], row[slots.OFFSET : slots.FACES] = contact.normal, contact.offset
        row[slots.FACES : slots.FACES + 6 * len(rows)].reshape(-1, 6)[:, : s.size] = rows
