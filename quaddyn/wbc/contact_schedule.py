"""`ContactSchedule`: the contacts that a controller makes and breaks, tick by tick.

A contact that is named for the first time is made over a ramp; one that is no longer named is broken over a ramp.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from ..compiler import IntVector
from ..urdf.tree import Array
from .contact_ramps import ALL_RAMPS_ENDED, CONTACT_COMPLETED, make_ramps, set_ramp
from .contact_settings import ChangeCounter, ContactSettings
from .elements import check_contact_names
from .tasks import FootTask

#: Largest number of cached masks of requested contacts.
MAX_CACHED_MASKS = 64


class ContactSchedule:
    """Schedule of a controller's contacts: the activation goes to 1 for requested contacts, and to 0 for the others.

    Args:
        settings: contacts by name.
        tasks: foot tasks by contact; the task of a foot is inactive while the contact is closed.
        default: contacts that are requested if none are named.
        changes: counter of changes.

    Attributes:
        ramps: ramps of all contacts, in the order of their names.
        names: names of the contacts.
        requested_contacts: names of the contacts of the last request.
        is_settled: whether all ramps are at their ends.
    """

    def __init__(
        self,
        settings: Mapping[str, ContactSettings],
        tasks: Mapping[str, FootTask],
        default: Iterable[str],
        changes: ChangeCounter,
    ) -> None:
        self._changes = changes
        self.names: tuple[str, ...] = ()
        self.ramps = make_ramps(0)
        self._mask_cache: dict[tuple[str, ...], IntVector] = {}
        self.replace_contacts(settings, tasks, default)
        self.deactivate_all()

    def replace_contacts(
        self, settings: Mapping[str, ContactSettings], tasks: Mapping[str, FootTask], default: Iterable[str]
    ) -> None:
        """Replaces contacts and tasks; contacts that remain keep their activation."""
        old_ramps, old_names = self.ramps, self.names
        self.names = tuple(settings)
        self._default_mask = self._make_mask(default)
        self.ramps = make_ramps(len(settings))
        for c, name in enumerate(self.names):
            if name in old_names:
                for new, old in zip(self.ramps, old_ramps, strict=True):
                    new[c] = old[old_names.index(name)]
        self._foot_tasks = [(c, s, tasks[name]) for c, (name, s) in enumerate(settings.items()) if name in tasks]
        self._mask_cache.clear()
        self._changes.activations += 1
        self.is_settled = False
        self.requested_contacts: tuple[str, ...] | None = None

    def deactivate_all(self) -> None:
        """Deactivates all contacts; contacts requested at the next tick are activated at once, without a ramp."""
        for c in range(len(self.names)):
            set_ramp(self.ramps, c, False)
        self._changes.activations += 1
        self.requested_contacts = None
        self.is_settled = self._has_ticked = False

    def request_contacts(
        self,
        contacts: Iterable[str] | None,
        advance_ramps: Callable[[IntVector, float, Array | None], int],
        step: float,
        values: Array | None,
    ) -> None:
        """Advances the ramps by one tick toward the requested contacts.

        Args:
            contacts: names of the requested contacts; None for the default.
            advance_ramps: function that advances the ramps, `TickSolver.advance_contacts`.
            step: change of an activation per tick; inf switches at once.
            values: result of the tick before, None before the first.

        Raises:
            UnknownNameError: the contact does not exist.
        """
        requested = self._request_mask(contacts)
        self._changes.activations += 1
        self.requested_contacts = (
            contacts if contacts is None or isinstance(contacts, tuple) else self._names_of_mask(requested)
        )
        flags = advance_ramps(requested, step if self._has_ticked else math.inf, values)
        self.is_settled = bool(flags & ALL_RAMPS_ENDED)
        if self._has_ticked and flags & CONTACT_COMPLETED:
            for c, settings, task in self._foot_tasks:
                if self.ramps.was_completed[c] and settings.is_motion_constrained:
                    task.clear_references()
        self._has_ticked = True

    def _names_of_mask(self, requested: IntVector) -> tuple[str, ...]:
        """Returns the names of the contacts whose entry in `requested` is not zero."""
        return tuple(name for name, is_requested in zip(self.names, requested.tolist(), strict=True) if is_requested)

    def _make_mask(self, requested: Iterable[str]) -> IntVector:
        """Returns (contacts,) 1 for each contact in `requested`, else 0."""
        names = frozenset(requested)
        return np.array([name in names for name in self.names], dtype=np.int64)

    def _request_mask(self, contacts: Iterable[str] | None) -> IntVector:
        """Returns (contacts,) 1 for each requested contact, else 0."""
        mask = self._mask_cache.get(contacts) if type(contacts) is tuple else None
        if mask is None:
            if contacts is None:
                return self._default_mask
            names = check_contact_names(contacts, self.names)
            mask = self._make_mask(names)
            if len(self._mask_cache) < MAX_CACHED_MASKS:
                self._mask_cache[names] = mask
        return mask
