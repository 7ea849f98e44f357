r"""Recursive forward dynamics on a Lie group (source D), derived here and stated for any tree.

**Motion.**  Body i hangs below its parent p by ``g_pi = g_pi(0) exp(xi_i q_i)`` with the twist xi_i in the body's own
frame; the same motion is ``exp(Ad(g_pi(0)) xi_i q_i) g_pi(0)``, with the twist in the parent's.  Since
``V_i = (g_i^-1 dg_i/dt)`` for ``g_i = g_p g_pi``,

    V_i = Ad(g_pi^-1) V_p + xi_i dq_i.                                                               (1)

Differentiating, with ``d/dt Ad(g_pi^-1) = -ad(xi_i dq_i) Ad(g_pi^-1)`` and ``ad(x) x = 0``,

    dV_i = Ad(g_pi^-1) dV_p + xi_i ddq_i + eta_i,     eta_i = ad(V_i - xi_i dq_i) xi_i dq_i.          (2)

**Force.**  Let F_i be the wrench through joint i.  Newton and Euler say ``M_i dV_i - ad(V_i)^T M_i V_i = F_i + F_ext,i
- sum_c Ad(g_ic^-1)^T F_c`` over the children c, and the joint adds ``tau_i = xi_i^T F_i + Ia_i ddq_i`` of its rotor.

**Claim**: ``F_i = Mh_i dV_i + B_i``, where Mh and B do not depend on any acceleration.  It holds at the tips.  If it
holds for a child c, put (2) into it and ask for its ddq_c by ``tau_c = xi_c^T F_c + Ia_c ddq_c``:

    ddq_c = Psi_c (tau_c - xi_c^T Mh_c (Ad dV_i + eta_c) - xi_c^T B_c),   Psi_c = (xi_c^T Mh_c xi_c + Ia_c)^-1.  (3)

Back into ``F_c = Mh_c (Ad dV_i + eta_c + xi_c ddq_c) + B_c`` this gives ``F_c = Pi_c Ad dV_i + beta_c`` with

    Pi_c   = Mh_c - Mh_c xi_c Psi_c xi_c^T Mh_c,                                                      (4)
    beta_c = B_c + Mh_c (eta_c + xi_c Psi_c (tau_c - xi_c^T (Mh_c eta_c + B_c))),                     (5)

hence the claim for the parent, with

    Mh_i = M_i + sum_c Ad(g_ic^-1)^T Pi_c Ad(g_ic^-1),                                                (6)
    B_i  = -ad(V_i)^T M_i V_i - F_ext,i + sum_c Ad(g_ic^-1)^T beta_c.                                 (7)

This is what source D computes on a chain.  F_ext acts on the body.  Gravity is the world's acceleration
``dV_0 = (0, -gravity)``.  For joints of several degrees of freedom xi is (6, n) and g_pi the joint's own motion.
"""

from __future__ import annotations

import numpy as np

from .algebra import Ad, Array, ad, exp, inverse
from .configuration import joint_motion
from .model import Body, Model


def relative_motion(body: Body, q: Array) -> Array:
    """Returns ``g_pi(q)`` (4, 4): ``exp(Ad(g(0)) xi q) g(0)`` for joints with an exponential coordinate."""
    if body.kind in ("revolute", "continuous", "prismatic"):
        angle = q[0] if body.kind != "continuous" else np.arctan2(q[1], q[0])
        return exp(Ad(body.T) @ body.S[:, 0] * angle) @ body.T
    return body.T @ joint_motion(body, q)


def forward_dynamics(model: Model, q: Array, v: Array, tau: Array, *, wrenches: list[Array] | None = None) -> Array:
    """Returns the joint accelerations (nv,) by equations (1) to (7) of this module (source D).

    Args:
        model: the model.
        q: (nq,) configuration.
        v: (nv,) joint velocities.
        tau: (nv,) generalized forces.
        wrenches: for each body, (6,) wrench on the robot in the body's frame; None without external forces.
    """
    bodies = model.bodies
    world = np.concatenate([np.zeros(3), -model.gravity])
    Ads: list[Array] = []
    V: list[Array] = []
    eta: list[Array] = []
    for body in bodies:
        X, own = Ad(inverse(relative_motion(body, q[body.q]))), body.S @ v[body.v]
        Ads.append(X)
        V.append(X @ V[body.parent] + own if body.parent >= 0 else own)  # (1)
        eta.append(ad(V[-1] - own) @ own)  # (2)
    Mh = [body.G for body in bodies]
    B = [-ad(V_i).T @ body.G @ V_i for body, V_i in zip(bodies, V, strict=True)]
    if wrenches is not None:
        B = [B_i - F for B_i, F in zip(B, wrenches, strict=True)]
    Psi = [np.zeros((0, 0))] * len(bodies)
    for i, body in reversed(list(enumerate(bodies))):
        xi = body.S
        Psi[i] = np.linalg.inv(xi.T @ Mh[i] @ xi + np.diag(model.armature[body.v]))
        if body.parent < 0:
            continue
        Pi = Mh[i] - Mh[i] @ xi @ Psi[i] @ xi.T @ Mh[i]  # (4)
        beta = B[i] + Mh[i] @ (eta[i] + xi @ Psi[i] @ (tau[body.v] - xi.T @ (Mh[i] @ eta[i] + B[i])))  # (5)
        Mh[body.parent] = Mh[body.parent] + Ads[i].T @ Pi @ Ads[i]  # (6)
        B[body.parent] = B[body.parent] + Ads[i].T @ beta  # (7)
    a = np.zeros(model.nv)
    dV: list[Array] = []
    for i, body in enumerate(bodies):
        above = Ads[i] @ (dV[body.parent] if body.parent >= 0 else world) + eta[i]
        a[body.v] = Psi[i] @ (tau[body.v] - body.S.T @ (Mh[i] @ above + B[i]))  # (3)
        dV.append(above + body.S @ a[body.v])
    return a
