"""Contacts of a step that is taken in several pieces: compiled; the impulses of each are added up."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..compiler import IntVector, Matrix, Vector, compiled
from .collisions import Touching
from .contact_data import Contacts, room_for_touching


class Collected(NamedTuple):
    """Up to n contacts.

    Attributes:
        touching: where they were in the last piece that had them.
        centers: (n, 3) of their spheres there [m].
        world: (n, 3) impulses of all pieces, world axes [N s].
        keys: (n,) which contacts these are.
        held: (1,) how many.
        worst: (1,) the worst status of a piece.
    """

    touching: Touching
    centers: Matrix
    world: Matrix
    keys: IntVector
    held: IntVector
    worst: IntVector


def room_for_pieces(n: int) -> Collected:
    """For n contacts, none to begin with."""
    i = np.int64
    return Collected(
        room_for_touching(n), np.zeros((n, 3)), np.zeros((n, 3)), np.zeros(n, i), np.zeros(1, i), np.zeros(1, i)
    )


@compiled()
def position(key: int, collected: Collected) -> int:
    """Where a contact is noted, or how many are if it is not."""
    for p in range(collected.held[0]):
        if collected.keys[p] == key:
            return p
    count: int = collected.held[0]
    return count


@compiled()
def copy_place(a: Touching, i: int, b: Touching, j: int) -> None:
    """Entry j of b becomes entry i of a."""
    b.gaps[j], b.friction[j], b.spheres[j], b.surfaces[j] = a.gaps[i], a.friction[i], a.spheres[i], a.surfaces[i]
    copy_point(a.normals[i], b.normals[j])


@compiled()
def copy_point(a: Vector, b: Vector) -> None:
    """``b = a``."""
    for k in range(3):
        b[k] = a[k]


@compiled(inline=False)
def collect(k: int, status: int, contacts: Contacts, collected: Collected) -> bool:
    """Take note of the k contacts of a piece; False, and nothing is changed, where there is not room for all."""
    new = 0
    for i in range(k):
        if position(contacts.keys[i], collected) == collected.held[0]:
            new += 1
    if collected.held[0] + new > len(collected.keys):
        return False
    collected.worst[0] = max(collected.worst[0], status)
    for i in range(k):
        p: int = position(contacts.keys[i], collected)
        if p == collected.held[0]:
            collected.held[0] += 1
            collected.keys[p] = contacts.keys[i]
            for a in range(3):
                collected.world[p, a] = 0.0
        for a in range(3):
            collected.world[p, a] += contacts.world[i, a]
        copy_place(contacts.touching, i, collected.touching, p)
        if contacts.touching.spheres[i] >= 0:  # not a joint's stop
            copy_point(contacts.centers[contacts.touching.spheres[i]], collected.centers[p])
    return True


@compiled(inline=False)
def show(collected: Collected, contacts: Contacts) -> tuple[int, int]:
    """Make them those of one step, for which there is room: how many, and the status."""
    count = collected.held[0]
    for p in range(count):
        contacts.keys[p] = collected.keys[p]
        copy_point(collected.world[p], contacts.world[p])
        copy_place(collected.touching, p, contacts.touching, p)
        if collected.touching.spheres[p] >= 0:
            copy_point(collected.centers[p], contacts.centers[collected.touching.spheres[p]])
    contacts.held[0] = count
    return count, collected.worst[0]
