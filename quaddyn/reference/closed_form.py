"""Closed form of the equations of motion: Newton's and Euler's equations of each body through its Jacobian."""

from __future__ import annotations

import numpy as np

from .algebra import Ad, Array, ad, inverse
from .kinematics import BodyPlacements, body_jacobian_rates, body_jacobians, twists
from .rnea import Wrenches


def inverse_dynamics(at: BodyPlacements, v: Array, a: Array, *, wrenches: Wrenches | None = None) -> Array:
    """Returns ``tau = sum_i J_i^T (I_i A_i + V_i x* I_i V_i - F_ext,i - F_G,i)`` (nv,) (source A, 4).

    Here ``A_i = J_i ddq + Jdot_i dq`` and the weight ``F_G,i = I_i X_{i<-0} A_G``.

    Args:
        at: the model at q.
        v: (nv,) joint velocities.
        a: (nv,) joint accelerations.
        wrenches: for each body, (6,) wrench on the robot in the body's frame; None without external forces.
    """
    V, J = twists(at, v), body_jacobians(at)
    rates = body_jacobian_rates(at, V, v, J)
    A_G = np.concatenate([np.zeros(3), at.model.gravity])
    tau = at.model.armature * a
    for i, body in enumerate(at.model.bodies):
        F = body.G @ (J[i] @ a + rates[i] @ v) - ad(V[i]).T @ body.G @ V[i]
        F = F - body.G @ Ad(inverse(at.T_world[i])) @ A_G
        tau = tau + J[i].T @ (F if wrenches is None else F - wrenches[i])
    return np.asarray(tau)


def gravity(at: BodyPlacements) -> Array:
    """Returns the gravity term ``tau_G = sum_i J_i^T I_i X_{i<-0} (-A_G)`` (nv,) (source A, 4)."""
    zero = np.zeros(at.model.nv)
    return inverse_dynamics(at, zero, zero)
