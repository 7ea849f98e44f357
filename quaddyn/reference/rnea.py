"""Inverse dynamics by the recursive Newton-Euler algorithm: motions outward, forces inward.

Sources: source A, items 1, 2 and 6 (open-chain lecture, chapter 9); Lynch and Park 2017, section 8.3; Featherstone,
*Rigid Body Dynamics Algorithms* (RBDA), 2008, section 5.3.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .algebra import Array, ad
from .kinematics import BodyPlacements, accelerations, twists

Wrenches = Sequence[Array]


def rnea(at: BodyPlacements, v: Array, a: Array, *, wrenches: Wrenches | None = None) -> Array:
    """Returns ``tau = M a + C v + g - sum_i J_i^T F_i`` (nv,).

    Outward ``V_i``, ``A_i``, then ``F_i = I_i A_i + V_i x* I_i V_i - F_ext,i`` with ``V x* = -ad(V)^T``; inward
    ``tau_i = S_i^T F_i`` and ``F_p += X_{i<-p}^T F_i``.  Rotors add ``Ia ddq``.  Gravity is an upward acceleration of
    the world, ``A_0 = -A_G``.

    Args:
        at: the model at q.
        v: (nv,) joint velocities.
        a: (nv,) joint accelerations.
        wrenches: for each body, (6,) wrench on the robot in the body's frame (``F_ext`` in source A's recursion); None
            without external forces.
    """
    model = at.model
    V = twists(at, v)
    A = accelerations(at, V, v, a, -np.concatenate([np.zeros(3), model.gravity]))
    F = []
    for i, body in enumerate(model.bodies):
        F_i = body.G @ A[i] - ad(V[i]).T @ (body.G @ V[i])
        if wrenches is not None:
            F_i = F_i - wrenches[i]
        F.append(F_i)
    tau = np.zeros(model.nv, dtype=np.result_type(at.dtype, v, a))
    for i, body in reversed(list(enumerate(model.bodies))):
        tau[body.v] += body.S.T @ F[i]
        if body.parent >= 0:
            F[body.parent] = F[body.parent] + at.X[i].T @ F[i]
    return np.asarray(tau + model.armature * a)


def nle(at: BodyPlacements, v: Array, *, wrenches: Wrenches | None = None) -> Array:
    """Returns the nonlinear effects ``h = RNEA(q, v, 0, F_ext)`` (nv,) (source A, 6)."""
    return rnea(at, v, np.zeros(at.model.nv), wrenches=wrenches)
