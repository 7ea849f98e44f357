"""What a step that is taken in several pieces leaves behind: one list of contacts, one status."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from numpy.typing import NDArray

from ..urdf.tree import Array
from .contact_step import Contacts

#: Statuses of a contact solve, from good to bad.
STATUSES = ("free", "solved", "passive", "retried", "inaccurate")


class Start(NamedTuple):
    """Where a step, or a part of one, begins.

    Attributes:
        q: (nq,).
        v: (nv,).
        before: (nv,) velocity as long before as the step is.
        kinetic: energy [J].
        potential: energy [J].
    """

    q: Array
    v: Array
    before: Array
    kinetic: float
    potential: float


class Piece(NamedTuple):
    """A step, or a part of one.

    Attributes:
        q: (nq,) at its end.
        v: (nv,) at its end.
        kinetic: energy at its end [J].
        potential: energy at its end [J].
        work: as `Work` has it, without the error [J].
        made: energy that appeared without work [J].
        error: of it, what the scheme does not merely move to and fro [J].
        contacts: how many.
        residual: of the contact law [m/s].
        status: of the contact solve.
        speed: the largest, NaN if there is one.
    """

    q: Array
    v: Array
    kinetic: float
    potential: float
    work: tuple[float, float, float, float, float]
    made: float
    error: float
    contacts: int
    residual: float
    status: str
    speed: float


class Collected:
    """Contacts of several pieces of a step: the impulses of each are added up, places are those of its last piece."""

    def __init__(self) -> None:
        self._entries: dict[int, list[Any]] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, k: int, contacts: Contacts) -> None:
        """Take note of the k contacts of a piece."""
        near = contacts.touching
        for i in range(k):
            impulse, sphere = contacts.world[i].copy(), int(near.spheres[i])
            key = int(contacts.keys[i])
            if key in self._entries:
                impulse += self._entries[key][0]
            place = near.gaps[i], near.normals[i].copy(), near.friction[i], sphere, near.surfaces[i]
            self._entries[key] = [impulse, contacts.centers[sphere].copy(), *place]

    def write(self, contacts: Contacts) -> int:
        """Show them as those of one step; returns how many they are, for which there must be room."""
        near: tuple[NDArray[Any], ...] = contacts.touching
        for i, (key, (impulse, center, *place)) in enumerate(self._entries.items()):
            contacts.keys[i], contacts.world[i] = key, impulse
            for column, value in zip(near, place, strict=True):
                column[i] = value
            contacts.centers[place[3]] = center
        contacts.held[0] = len(self._entries)
        return len(self._entries)


def worst(statuses: list[str]) -> str:
    """Of several statuses."""
    return STATUSES[max(STATUSES.index(each) for each in statuses)]


def summed(pieces: list[Piece]) -> Piece:
    """The step that the pieces make up."""
    last = pieces[-1]
    return last._replace(
        work=tuple(math.fsum(each) for each in zip(*(piece.work for piece in pieces), strict=True)),  # type: ignore[arg-type]
        made=float(sum(piece.made for piece in pieces)),
        error=float(sum(piece.error for piece in pieces)),
        residual=max(piece.residual for piece in pieces),
        status=worst([piece.status for piece in pieces]),
    )
