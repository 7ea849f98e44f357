"""Position, Jacobian and acceleration of contacts at a state, in world axes."""

from __future__ import annotations

import numpy as np

from ..dynamics import State
from ..errors import UnknownNameError
from ..urdf.tree import Array
from .contact import Contact


def split_contact_lever(s: State, contact: Contact) -> tuple[Array, Array]:
    """Returns the components of the lever from the frame's origin to the contact [m]: fixed in world, fixed in body."""
    return -contact.radius * contact.normal, s.placement(contact.frame).rotation @ contact.offset


def compute_contact_lever(s: State, contact: Contact) -> Array:
    """Returns the vector (3,) from the frame's origin to the contact [m]."""
    in_world, in_body = split_contact_lever(s, contact)
    return np.asarray(in_world + in_body)


def compute_contact_jacobian(s: State, contact: Contact, lever: Array) -> Array:
    """Computes the Jacobian (rows, nv) of a contact point at a vector `lever` from the frame's origin, world axes."""
    J = s.jacobian(contact.frame)
    if lever.any():
        J = np.vstack((J[:3] - cross_matrix(lever) @ J[3:], J[3:]))
    return J[: contact.rows]


def compute_contact_drift(s: State, contact: Contact, fixed: Array, rotating: Array) -> Array:
    """Computes the acceleration (rows,) of a contact point at ``a = 0``.

    Args:
        s: the state.
        contact: the contact.
        fixed: (3,) component of the lever that is fixed in the world [m].
        rotating: (3,) component of the lever that rotates with the body [m].
    """
    out, angular_velocity = s.drift(contact.frame).copy(), s.velocity(contact.frame)[3:]
    out[:3] += cross_matrix(out[3:]) @ (fixed + rotating)
    if rotating.any():
        omega_cross = cross_matrix(angular_velocity)
        out[:3] += omega_cross @ (omega_cross @ rotating)
    return out[: contact.rows]


def grasp_map(lever: Array, size: int) -> Array:
    """Returns the matrix (6, size) from a force, or wrench, at `lever` to force and moment about the frame's origin.

    Source: Murray, Li and Sastry 1994, *A Mathematical Introduction to Robotic Manipulation*, section 5.2.
    """
    out = np.eye(6)[:, :size].copy()
    out[3:, :3] = cross_matrix(lever)
    return out


def cross_matrix(u: Array) -> Array:
    """Returns the matrix (3, 3) of the cross product ``u x``."""
    x, y, z = u
    return np.array(((0.0, -z, y), (z, 0.0, -x), (-y, x, 0.0)))


def contact_jacobian(s: State, foot: str) -> Array:
    """Returns the Jacobian (3, nv) of the lowest point of a foot's sphere, world axes.

    The point c + (0, 0, -r) of the sphere moves with ``v_c + omega x (0, 0, -r)`` [m/s]; a force there has the moment
    of the same lever about the sphere's center.

    Args:
        s: the state.
        foot: one of ``s.robot.feet``.

    Raises:
        UnknownNameError: no such foot.
        StaleStateError: the Dynamics of `s` was updated again.
    """
    if foot not in s.robot.legs:
        raise UnknownNameError("foot", foot, s.robot.feet)
    J = s.jacobian(foot)
    radius = s.robot.legs[foot].foot.radius
    return np.asarray(J[:3] + radius * np.stack((-J[4], J[3], 0.0 * J[3])))
