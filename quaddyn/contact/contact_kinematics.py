"""Where a contact is on its frame, how it moves, and what accelerates it: on one state, world axes."""

from __future__ import annotations

import numpy as np

from ..dynamics import State
from ..urdf.tree import Array
from .contact import Contact


def levers(s: State, contact: Contact) -> tuple[Array, Array]:
    """From the frame's origin to the contact [m]: the parts that are fixed in the world and in the body."""
    return -contact.radius * contact.normal, s.placement(contact.frame).rotation @ contact.offset


def lever(s: State, contact: Contact) -> Array:
    """(3,) from the frame's origin to the contact, both parts [m]."""
    fixed, turning = levers(s, contact)
    return np.asarray(fixed + turning)


def jacobian(s: State, contact: Contact, at: Array) -> Array:
    """(rows, nv) of the contact, `at` from its frame's origin."""
    J = s.jacobian(contact.frame)
    if at.any():
        J = np.vstack((J[:3] - cross_matrix(at) @ J[3:], J[3:]))
    return J[: contact.rows]


def drift(s: State, contact: Contact, fixed: Array, turning: Array) -> Array:
    """(rows,) acceleration of the contact at ``a = 0``: the arm turns with the body, the sphere's radius does not."""
    out, turn = s.drift(contact.frame).copy(), s.velocity(contact.frame)[3:]
    out[:3] += cross_matrix(out[3:]) @ (fixed + turning)
    if turning.any():
        across = cross_matrix(turn)
        out[:3] += across @ (across @ turning)
    return out[: contact.rows]


def grasp_map(lever: Array, size: int) -> Array:
    """(6, size) force and moment about a point of a force, or wrench, at `lever` from it.

    Source: Murray, Li, Sastry 1994, *A Mathematical Introduction to Robotic Manipulation*, section 5.2.
    """
    out = np.eye(6)[:, :size].copy()
    out[3:, :3] = cross_matrix(lever)
    return out


def cross_matrix(u: Array) -> Array:
    """(3, 3) matrix of ``u x``."""
    x, y, z = u
    return np.array(((0.0, -z, y), (z, 0.0, -x), (-y, x, 0.0)))
