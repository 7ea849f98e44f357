"""Touchdown and lift-off: the moments at which contacts begin and end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from ..errors import ArgumentError, ArgumentTypeError, UnknownNameError
from ..robot.arguments import check_number, check_sequence

#: So many events are remembered: some ten minutes of a trot.
HISTORY = 10_000


@dataclass(frozen=True, slots=True)
class ContactEvent:
    """A contact that began or ended.

    Attributes:
        time: when it was seen [s].
        name: of the contact.
        kind: "touchdown" or "lift_off".
    """

    time: float
    name: str
    kind: Literal["touchdown", "lift_off"]


class ContactEvents:
    """Turns a stream of "touches, touches not" into events.

    What touches is for the source to say: a plant by its contact impulses, a robot by
    `quaddyn.estimation.TouchdownDetector`, a schedule by its phase.

    Args:
        names: of the contacts, all in the air at the start.

    Attributes:
        history: the events since the last reset, the last `HISTORY` at most.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._touching = dict.fromkeys(check_sequence("names", names, "names of contacts"), False)
        self._time = -float("inf")
        self.history: list[ContactEvent] = []

    @property
    def touching(self) -> tuple[str, ...]:
        """Contacts on the ground."""
        return tuple(name for name, on in self._touching.items() if on)

    def update(self, time: float, touching: Mapping[str, bool]) -> tuple[ContactEvent, ...]:
        """What changed.

        Args:
            time: now [s], no earlier than the last one.
            touching: whether each contact touches; those left out stay as they are.

        Raises:
            UnknownNameError: no such contact.
            ArgumentError: time runs backwards, or is NaN, or `touching` is no mapping.
        """
        time = check_number("time", time)
        if not isinstance(touching, Mapping):
            raise ArgumentTypeError(f"touching: expected a mapping of names, got {type(touching).__name__}")
        if not time >= self._time:
            raise ArgumentError(f"time: expected no less than the last one, {self._time}, got {time}")
        for name in touching:
            if name not in self._touching:
                raise UnknownNameError("contact", name, self._touching)
        self._time = time
        events = tuple(
            ContactEvent(time, name, "touchdown" if on else "lift_off")
            for name, on in touching.items()
            if bool(on) != self._touching[name]
        )
        for event in events:
            self._touching[event.name] = event.kind == "touchdown"
        self.history.extend(events)
        del self.history[:-HISTORY]
        return events

    def reset(self) -> None:
        """All in the air, no history."""
        self._touching = dict.fromkeys(self._touching, False)
        self._time = -float("inf")
        self.history = []
