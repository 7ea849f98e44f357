"""Quantities of the whole robot: center of mass, momentum, energy.  Links fixed to the world are not included."""

from __future__ import annotations

import numpy as np

from .algebra import Ad, Array, inverse, rigid_motion, swap
from .kinematics import BodyPlacements, accelerations, body_jacobians, twists


def mass(at: BodyPlacements) -> float:
    """Returns the total mass of the moving bodies [kg]."""
    return sum(body.mass for body in at.model.bodies)


def center_of_mass(at: BodyPlacements) -> Array:
    """Returns the center of mass (3,) in the world [m]: ``sum_i m_i T_i c_i / sum_i m_i``."""
    bodies = zip(at.model.bodies, at.T_world, strict=True)
    return np.asarray(sum(b.mass * (T[:3, :3] @ b.com + T[:3, 3]) for b, T in bodies) / mass(at))


def com_jacobian(at: BodyPlacements) -> Array:
    """Returns the Jacobian (3, nv) of the center of mass, world axes: the mass-weighted mean of the bodies'."""
    total = np.zeros((3, at.model.nv), dtype=at.dtype)
    for body, T, J in zip(at.model.bodies, at.T_world, body_jacobians(at), strict=True):
        total += body.mass * T[:3, :3] @ (Ad(rigid_motion(np.eye(3), -body.com)) @ J)[3:]
    return total / mass(at)


def com_drift(at: BodyPlacements, v: Array) -> Array:
    """Returns the acceleration (3,) of the center of mass at zero joint acceleration [m/s^2]: ``dJ/dt v``."""
    V = twists(at, v)
    A = accelerations(at, V, v, np.zeros(at.model.nv), np.zeros(6))
    total = np.zeros(3)
    for body, T, V_i, A_i in zip(at.model.bodies, at.T_world, V, A, strict=True):
        X = Ad(rigid_motion(np.eye(3), -body.com))
        V_c, A_c = X @ V_i, X @ A_i
        total = total + body.mass * T[:3, :3] @ (A_c[3:] + np.cross(V_c[:3], V_c[3:]))
    return np.asarray(total / mass(at))


def centroidal_momentum(at: BodyPlacements, v: Array) -> Array:
    """Returns the linear momentum, and the angular momentum about the center of mass, (6,), world axes.

    Each body's momentum ``I_i V_i`` is transformed like a wrench to the center of mass (Orin, Goswami, Lee 2013).
    """
    here = rigid_motion(np.eye(3), center_of_mass(at))
    total = np.zeros(6)
    for body, T, V in zip(at.model.bodies, at.T_world, twists(at, v), strict=True):
        total = total + Ad(inverse(T) @ here).T @ (body.G @ V)
    return np.asarray(swap() @ total)


def kinetic_energy(at: BodyPlacements, v: Array) -> float:
    """Returns the kinetic energy of bodies and rotors, ``sum_i 1/2 V_i^T I_i V_i + 1/2 Ia v^2`` [J]."""
    bodies = zip(at.model.bodies, twists(at, v), strict=True)
    return float(0.5 * (sum(V @ body.G @ V for body, V in bodies) + v @ (at.model.armature * v)))


def potential_energy(at: BodyPlacements) -> float:
    """Returns the potential energy ``- m g . c`` [J], zero with all mass at the world's origin."""
    return float(-mass(at) * at.model.gravity @ center_of_mass(at))
