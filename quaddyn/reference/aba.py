"""Forward dynamics by the articulated-body algorithm, and by solving with M."""

from __future__ import annotations

import numpy as np

from .algebra import Array, ad
from .kinematics import BodyPlacements, twists
from .mass import crba
from .rnea import Wrenches, nle


def aba(at: BodyPlacements, v: Array, tau: Array, *, wrenches: Wrenches | None = None) -> Array:
    """Returns the joint accelerations (nv,) by articulated bodies (source A, 7; Featherstone, RBDA 2008, table 7.1).

    Outward, the twist ``V_i``, the bias ``c_i = V_i x S_i dq_i`` and the bias force ``p_i = V_i x* I_i V_i - F_ext,i``.
    Inward, with ``U = I^A S``, ``D = S^T U`` (plus the rotor) and ``u = tau - S^T p^A``, the parent receives
    ``I^a = I^A - U D^-1 U^T`` and ``p^a = p^A + I^a c + U D^-1 u``.  Outward again, ``a' = X A_p + c``,
    ``ddq = D^-1 (u - U^T a')`` and ``A = a' + S ddq``; the world accelerates with ``-A_G``.

    Args:
        at: the model at q.
        v: (nv,) joint velocities.
        tau: (nv,) generalized forces.
        wrenches: for each body, (6,) wrench on the robot in the body's frame; None without external forces.
    """
    if at.model.coupled:  # mimic joints couple branches, which the recursion from leaves to root cannot represent
        return forward_by_mass(at, v, tau, wrenches=wrenches)
    bodies, n = at.model.bodies, len(at.model.bodies)
    V = twists(at, v)
    c = [ad(V[i]) @ (body.S @ v[body.v]) for i, body in enumerate(bodies)]
    p = [-ad(V[i]).T @ (body.G @ V[i]) for i, body in enumerate(bodies)]
    if wrenches is not None:
        p = [p_i - w for p_i, w in zip(p, wrenches, strict=True)]
    inertia: list[Array] = [body.G for body in bodies]
    U, D, u = [np.zeros(0)] * n, [np.zeros(0)] * n, [np.zeros(0)] * n
    for i, body in reversed(list(enumerate(bodies))):
        U[i] = inertia[i] @ body.S
        D[i] = body.S.T @ U[i] + np.diag(at.model.armature[body.v])
        u[i] = tau[body.v] - body.S.T @ p[i]
        if body.parent >= 0:
            I_a = inertia[i] - U[i] @ np.linalg.solve(D[i], U[i].T)
            p_a = p[i] + I_a @ c[i] + U[i] @ np.linalg.solve(D[i], u[i])
            inertia[body.parent] = inertia[body.parent] + at.X[i].T @ I_a @ at.X[i]
            p[body.parent] = p[body.parent] + at.X[i].T @ p_a
    a = np.zeros(at.model.nv, dtype=np.result_type(at.dtype, v, tau))
    A: list[Array] = []
    for i, body in enumerate(bodies):
        above = A[body.parent] if body.parent >= 0 else np.concatenate([np.zeros(3), -at.model.gravity])
        A_i = at.X[i] @ above + c[i]
        a[body.v] = np.linalg.solve(D[i], u[i] - U[i].T @ A_i)
        A.append(A_i + body.S @ a[body.v])
    return a


def forward_by_mass(at: BodyPlacements, v: Array, tau: Array, *, wrenches: Wrenches | None = None) -> Array:
    """Returns ``ddq = M^-1 (tau - h)`` (nv,), with external forces in h (source A, 6)."""
    return np.asarray(np.linalg.solve(crba(at), tau - nle(at, v, wrenches=wrenches)))
