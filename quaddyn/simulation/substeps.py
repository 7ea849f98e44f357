"""Contacts of a step that is split into substeps, whose impulses are summed; compiled."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..compiler import IntVector, Matrix, Record, compiled
from .contact_data import SphereContacts, make_collision_buffer
from .step_memory import ContactStatus
from .terrain import CollisionBuffer


class SubstepSummary(Record):
    """Number and worst status of the contacts of all substeps of a step."""

    n_contacts: int  # number of stored contacts
    worst_status: ContactStatus  # worst result of their solves


class SubstepContacts(NamedTuple):
    """Up to n contacts of all substeps of a step.

    Attributes:
        collisions: geometry of each contact in the last substep that had it.
        centers: (n, 3) sphere centers there [m].
        world_impulses: (n, 3) sum of the impulses of all substeps, world axes [N s].
        keys: (n,) identifier of each contact.
        summary: number of contacts, and the worst status of a substep.
    """

    collisions: CollisionBuffer
    centers: Matrix
    world_impulses: Matrix
    keys: IntVector
    summary: SubstepSummary


def make_substep_buffers(n: int) -> SubstepContacts:
    """Returns empty buffers for n contacts."""
    return SubstepContacts(
        make_collision_buffer(n), np.zeros((n, 3)), np.zeros((n, 3)), np.zeros(n, np.int64), SubstepSummary.allocate()
    )


@compiled()
def find_contact(key: int, accumulated: SubstepContacts) -> int:
    """Returns the index of the contact `key`, or the number of contacts if there is none."""
    for p in range(accumulated.summary.n_contacts):
        if accumulated.keys[p] == key:
            return p
    count: int = accumulated.summary.n_contacts
    return count


@compiled()
def copy_contact(a: CollisionBuffer, i: int, b: CollisionBuffer, j: int) -> None:
    """Copies contact i of `a` to entry j of `b`."""
    b.gaps[j], b.friction[j], b.spheres[j], b.surfaces[j] = a.gaps[i], a.friction[i], a.spheres[i], a.surfaces[i]
    b.normals[j] = a.normals[i]


@compiled(inline=False)
def accumulate_contacts(k: int, status: int, contacts: SphereContacts, accumulated: SubstepContacts) -> bool:
    """Adds the k contacts of a substep; returns False, and changes nothing, if the buffers are too small."""
    new, summary = 0, accumulated.summary
    for i in range(k):
        if find_contact(contacts.keys[i], accumulated) == summary.n_contacts:
            new += 1
    if summary.n_contacts + new > len(accumulated.keys):
        return False
    summary.worst_status = ContactStatus(max(summary.worst_status, status))
    for i in range(k):
        p: int = find_contact(contacts.keys[i], accumulated)
        if p == summary.n_contacts:
            summary.n_contacts += 1
            accumulated.keys[p] = contacts.keys[i]
            for a in range(3):
                accumulated.world_impulses[p, a] = 0.0
        for a in range(3):
            accumulated.world_impulses[p, a] += contacts.world_impulses[i, a]
        copy_contact(contacts.collisions, i, accumulated.collisions, p)
        if contacts.collisions.spheres[i] >= 0:  # not a joint's stop
            accumulated.centers[p] = contacts.centers[contacts.collisions.spheres[i]]
    return True


@compiled(inline=False)
def publish_step(accumulated: SubstepContacts, contacts: SphereContacts) -> tuple[int, ContactStatus]:
    """Copies the accumulated contacts to `contacts`; returns their number and the worst solver status."""
    count = accumulated.summary.n_contacts
    for p in range(count):
        contacts.keys[p] = accumulated.keys[p]
        contacts.world_impulses[p] = accumulated.world_impulses[p]
        copy_contact(accumulated.collisions, p, contacts.collisions, p)
        if accumulated.collisions.spheres[p] >= 0:
            contacts.centers[accumulated.collisions.spheres[p]] = accumulated.centers[p]
    contacts.stored.n_contacts = count
    return count, accumulated.summary.worst_status
