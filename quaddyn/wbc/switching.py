"""Contacts made and broken: how much of each there is, tick by tick.

A contact that is named for the first time is made over a while, one that is no longer named is broken over as long.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from ..urdf.tree import Array
from .contacts import Changes, ContactSettings
from .motion import FootTask
from .named import known_names

#: How many sets of contacts are kept in mind.
SETS = 64


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


class Switchboard:
    """The contacts of a controller on their way to those that are to be.

    Args:
        settings: contacts by name.
        tasks: that guide feet, by frame: a contact that is fully made takes the foot from its task.
        default: the contacts where none are named.
        changes: counts what happens here.

    Attributes:
        switches: by name.
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
        self._settings, self._changes, self._default = settings, changes, frozenset(default)
        self.switches = {name: Switch() for name in settings}
        self._each = [(name, self.switches[name], s, tasks.get(s.frame)) for name, s in settings.items()]
        self._sets: dict[tuple[str, ...], frozenset[str]] = {}
        self.start()

    def start(self) -> None:
        """No contacts; those of the next tick are made at once."""
        for switch in self.switches.values():
            switch.set(False)
        self._changes.shares += 1
        self.asked: tuple[str, ...] | None = None
        self.settled = self._started = False

    @property
    def made(self) -> set[str]:
        """Frames whose contacts are made."""
        return {settings.frame for _, switch, settings, _ in self._each if switch.share >= 1.0}

    def ask(
        self, contacts: Iterable[str] | None, *, step: float, weight: float, forces: Mapping[str, Array] | None
    ) -> None:
        """One tick on.

        Args:
            contacts: names of those that are to be; None for the default.
            step: change of a share per tick; inf switches at once.
            weight: of the robot [N].
            forces: by contact, of the tick before.

        Raises:
            UnknownNameError: a contact that is not known.
        """
        wanted = self._wanted(contacts)
        self._changes.shares += 1
        self.asked = contacts if isinstance(contacts, tuple) or contacts is None else tuple(wanted)
        at_once, self.settled = step == np.inf or not self._started, True
        load = weight / max(1, len(wanted))
        for name, switch, settings, task in self._each:
            was, on = switch.share, name in wanted
            if not at_once:
                force = None if forces is None else forces.get(name)
                switch.advance(on, step, load, 0.0 if force is None else float(force[:3] @ settings.normal))
                self.settled &= switch.share == on
            elif was != on:
                switch.set(on)
            if was < 1.0 <= switch.share and self._started and task is not None and settings.held:
                task.forget()
        self._started = True

    def _wanted(self, contacts: Iterable[str] | None) -> frozenset[str]:
        if contacts is None:
            return self._default
        known = self._sets.get(contacts) if type(contacts) is tuple else None
        if known is None:
            names = known_names(contacts, self.switches)
            known = frozenset(names)
            if len(self._sets) < SETS:
                self._sets[names] = known
        return known
