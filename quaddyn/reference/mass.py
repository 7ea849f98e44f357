"""Joint-space inertia M by composite bodies, and by definition."""

from __future__ import annotations

import numpy as np

from .algebra import Array
from .kinematics import BodyPlacements, body_jacobians


def mass_by_jacobians(at: BodyPlacements) -> Array:
    """Returns ``M = sum_i J_i^T I_i J_i`` (nv, nv), with rotor inertia on the diagonal (source A, 4)."""
    bodies = zip(body_jacobians(at), at.model.bodies, strict=True)
    M = sum((J.T @ body.G @ J for J, body in bodies), np.zeros((at.model.nv, at.model.nv)))
    return np.asarray(M + np.diag(at.model.armature))


def crba(at: BodyPlacements) -> Array:
    """Returns M (nv, nv) by composite rigid bodies (source A, 7; Featherstone, RBDA 2008, table 6.2).

    Inward, each body's composite inertia ``I^c_p += X_{i<-p}^T I^c_i X_{i<-p}``.  The force that moves a subtree along
    S_i, ``F = I^c_i S_i``, gives ``M_ii = S_i^T F`` and, transmitted to every ancestor joint j, ``M_ji = S_j^T F``.
    """
    bodies = at.model.bodies
    composite: list[Array] = [body.G for body in bodies]
    M = np.zeros((at.model.nv, at.model.nv), dtype=at.dtype)
    for i, body in reversed(list(enumerate(bodies))):
        F = composite[i] @ body.S
        if body.parent >= 0:
            composite[body.parent] = composite[body.parent] + at.X[i].T @ composite[i] @ at.X[i]
        M[body.v, body.v] += body.S.T @ F
        j = i
        while bodies[j].parent >= 0:
            F = at.X[j].T @ F
            j = bodies[j].parent
            shared = bodies[j].S.T @ F
            M[bodies[j].v, body.v] += shared
            M[body.v, bodies[j].v] += shared.T
    return np.asarray(M + np.diag(at.model.armature))
