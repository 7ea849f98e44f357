"""`ContactSchedule`: contacts made and broken by name, tick by tick.

A contact that is named for the first time is made over a while, one that is no longer named is broken over as long.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from ..compiler import IntVector
from ..urdf.tree import Array
from .contacts import Changes, ContactSettings
from .named import known_names
from .ramps import MADE, SETTLED, make_ramps, set_ramp
from .tasks import FootTask

#: How many sets of contacts are kept in mind.
SETS = 64


class ContactSchedule:
    """The ramps of a controller's contacts: towards 1 for those that are asked for, towards 0 for the others.

    Args:
        settings: contacts by name.
        tasks: that guide feet, by contact: one that is fully made takes the foot from its task.
        default: the contacts where none are named.
        changes: counts what happens here.

    Attributes:
        ramps: of each contact, in the order of their names.
        names: of the contacts.
        asked: what was asked for last.
        settled: whether all have arrived.
    """

    def __init__(
        self,
        settings: Mapping[str, ContactSettings],
        tasks: Mapping[str, FootTask],
        default: Iterable[str],
        changes: Changes,
    ) -> None:
        self._changes = changes
        self.names: tuple[str, ...] = ()
        self.ramps = make_ramps(0)
        self._sets: dict[tuple[str, ...], IntVector] = {}
        self.rewire(settings, tasks, default)
        self.start()

    def rewire(
        self, settings: Mapping[str, ContactSettings], tasks: Mapping[str, FootTask], default: Iterable[str]
    ) -> None:
        """Other contacts and tasks; contacts that stay are as much there as they were."""
        before, names = self.ramps, self.names
        self.names = tuple(settings)
        self._usual = self._of(default)
        self.ramps = make_ramps(len(settings))
        for c, name in enumerate(self.names):
            if name in names:
                for to, of in zip(self.ramps, before, strict=True):
                    to[c] = of[names.index(name)]
        self._guided = [(c, s, tasks[name]) for c, (name, s) in enumerate(settings.items()) if name in tasks]
        self._sets.clear()
        self._changes.shares += 1
        self.settled = False
        self.asked: tuple[str, ...] | None = None

    def start(self) -> None:
        """No contacts; those of the next tick are made at once."""
        for c in range(len(self.names)):
            set_ramp(self.ramps, c, False)
        self._changes.shares += 1
        self.asked = None
        self.settled = self._started = False

    def ask(
        self,
        contacts: Iterable[str] | None,
        switch: Callable[[IntVector, float, Array | None], int],
        step: float,
        values: Array | None,
    ) -> None:
        """One tick on.

        Args:
            contacts: names of those that are to be; None for the default.
            switch: as `TickSolver.switch`.
            step: change of an activation per tick; inf switches at once.
            values: the answer of the tick before, None before the first.

        Raises:
            UnknownNameError: a contact that is not known.
        """
        wanted = self._wanted(contacts)
        self._changes.shares += 1
        self.asked = contacts if contacts is None or isinstance(contacts, tuple) else self._names(wanted)
        came = switch(wanted, step if self._started else math.inf, values)
        self.settled = bool(came & SETTLED)
        if self._started and came & MADE:
            for c, settings, task in self._guided:
                if self.ramps.made[c] and settings.is_motion_constrained:
                    task.clear_references()
        self._started = True

    def _names(self, wanted: IntVector) -> tuple[str, ...]:
        return tuple(name for name, on in zip(self.names, wanted.tolist(), strict=True) if on)

    def _of(self, wanted: Iterable[str]) -> IntVector:
        """(contacts,) 1 for each that is wanted."""
        names = frozenset(wanted)
        return np.array([name in names for name in self.names], dtype=np.int64)

    def _wanted(self, contacts: Iterable[str] | None) -> IntVector:
        """(contacts,) 1 for each that is to be."""
        known = self._sets.get(contacts) if type(contacts) is tuple else None
        if known is None:
            if contacts is None:
                return self._usual
            names = known_names(contacts, self.names)
            known = self._of(names)
            if len(self._sets) < SETS:
                self._sets[names] = known
        return known
