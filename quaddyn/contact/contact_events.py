"""Touchdown and lift-off events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from ..deprecation import renamed_attributes, renamed_parameters
from ..errors import ArgumentError, UnknownNameError
from ..robot.arguments import check_number, check_sequence, check_type

#: Number of events that are stored: about ten minutes of a trot.
MAX_HISTORY = 10_000


@dataclass(frozen=True, slots=True)
class ContactEvent:
    """A touchdown or lift-off of one contact.

    Attributes:
        time: time of detection [s].
        name: name of the contact.
        kind: "touchdown" or "lift_off".
    """

    time: float
    name: str
    kind: Literal["touchdown", "lift_off"]


@renamed_attributes(touching="in_contact")
class ContactEvents:
    """Converts contact states over time into touchdown and lift-off events.

    The contact states come from the caller: a simulator's contact impulses, a robot's
    `quaddyn.estimation.TouchdownDetector`, or the phase of a contact schedule.

    Args:
        names: names of the contacts; none is in contact at the start.

    Attributes:
        history: the events since the last reset, at most the last `MAX_HISTORY`.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._in_contact = dict.fromkeys(check_sequence("names", names, "names of contacts"), False)
        self._time = -float("inf")
        self.history: list[ContactEvent] = []

    @property
    def in_contact(self) -> tuple[str, ...]:
        """Names of the contacts that are closed."""
        return tuple(name for name, is_closed in self._in_contact.items() if is_closed)

    @renamed_parameters(touching="in_contact")
    def update(self, time: float, in_contact: Mapping[str, bool]) -> tuple[ContactEvent, ...]:
        """Updates the contact states and returns the events of those that changed.

        Args:
            time: current time [s], not earlier than that of the last update.
            in_contact: contact state by name; contacts that are left out keep their state.

        Raises:
            UnknownNameError: no such contact.
            ArgumentError: time decreases or is NaN, or `in_contact` is not a mapping.
        """
        time = check_number("time", time)
        check_type("in_contact", in_contact, Mapping, "a mapping from contact names to bool")
        if not time >= self._time:
            raise ArgumentError(f"time: expected at least the time of the previous call, {self._time}, got {time}")
        for name in in_contact:
            if name not in self._in_contact:
                raise UnknownNameError("contact", name, self._in_contact)
        self._time = time
        events = tuple(
            ContactEvent(time, name, "touchdown" if is_closed else "lift_off")
            for name, is_closed in in_contact.items()
            if bool(is_closed) != self._in_contact[name]
        )
        for event in events:
            self._in_contact[event.name] = event.kind == "touchdown"
        self.history.extend(events)
        del self.history[:-MAX_HISTORY]
        return events

    def reset(self) -> None:
        """Opens all contacts and clears the history."""
        self._in_contact = dict.fromkeys(self._in_contact, False)
        self._time = -float("inf")
        self.history = []
