"""`ContactSchedule`: contacts made and broken by name, tick by tick.

A contact that is named for the first time is made over a while, one that is no longer named is broken over as long.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from ..urdf.tree import Array
from .contacts import Changes, ContactSettings
from .named import known_names
from .ramps import carried, make_ramps, set_ramp, switch_contact
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
        self._sets: dict[tuple[str, ...], frozenset[str]] = {}
        self.rewire(settings, tasks, default)
        self.start()

    def rewire(
        self, settings: Mapping[str, ContactSettings], tasks: Mapping[str, FootTask], default: Iterable[str]
    ) -> None:
        """Other contacts and tasks; contacts that stay are as much there as they were."""
        before, names = self.ramps, self.names
        self.names, self._default = tuple(settings), frozenset(default)
        self.ramps = make_ramps(len(settings))
        for c, name in enumerate(self.names):
            if name in names:
                for to, of in zip(self.ramps, before, strict=True):
                    to[c] = of[names.index(name)]
        self._each = [(c, name, s, tasks.get(name)) for c, (name, s) in enumerate(settings.items())]
        self._sets.clear()
        self._changes.shares += 1
        self.settled = False
        self.asked: tuple[str, ...] | None = None

    def start(self) -> None:
        """No contacts; those of the next tick are made at once."""
        for c, *_ in self._each:
            set_ramp(self.ramps, c, False)
        self._changes.shares += 1
        self.asked = None
        self.settled = self._started = False

    def ask(
        self, contacts: Iterable[str] | None, *, step: float, weight: float, forces: Mapping[str, Array] | None
    ) -> None:
        """One tick on.

        Args:
            contacts: names of those that are to be; None for the default.
            step: change of an activation per tick; inf switches at once.
            weight: of the robot [N].
            forces: by contact, of the tick before.

        Raises:
            UnknownNameError: a contact that is not known.
        """
        wanted, ramps = self._wanted(contacts), self.ramps
        self._changes.shares += 1
        self.asked = contacts if isinstance(contacts, tuple) or contacts is None else tuple(wanted)
        at_once, self.settled = step == np.inf or not self._started, True
        load = weight / max(1, len(wanted))
        for c, name, settings, task in self._each:
            on, force = name in wanted, None if forces is None else forces.get(name)
            point = settings.contact.unilateral and settings.contact.kind == "point"
            there = 0.0 if at_once or force is None else float(carried(force, settings.normal, point))
            made = switch_contact(ramps, c, on, at_once, step, load, there)
            self.settled &= at_once or bool(ramps.activation[c] == on)
            if made and self._started and task is not None and settings.held:
                task.forget()
        self._started = True

    def _wanted(self, contacts: Iterable[str] | None) -> frozenset[str]:
        if contacts is None:
            return self._default
        known = self._sets.get(contacts) if type(contacts) is tuple else None
        if known is None:
            names = known_names(contacts, self.names)
            known = frozenset(names)
            if len(self._sets) < SETS:
                self._sets[names] = known
        return known
