"""Two Coriolis matrices: many matrices C have the same product ``C v``; each function states which one it returns.

`coriolis_closed_form` is that of source A.  `coriolis_by_bodies` is consistent with Christoffel's symbols, from body
Jacobians, on every robot; Pinocchio returns the same.  With both ``Mdot = C + C^T``: ``Mdot - 2 C`` is skew-symmetric.
"""

from __future__ import annotations

import numpy as np

from .algebra import Array, ad, skew
from .kinematics import BodyPlacements, body_jacobian_rates, body_jacobians, twists


def coriolis_closed_form(at: BodyPlacements, v: Array) -> Array:
    """Returns C (nv, nv) of the closed form (source A, 4), which is not Christoffel's.

    ``C = sum_i J_i^T (I_i Jdot_i + I_i [V_i x] J_i + [V_i x*] I_i J_i)``; the middle term does not contribute to ``C
    v``, as ``V x V = 0``, but makes ``Mdot - 2 C`` skew-symmetric.
    """
    V, J = twists(at, v), body_jacobians(at)
    rates = body_jacobian_rates(at, V, v, J)
    C = np.zeros((at.model.nv, at.model.nv), dtype=np.result_type(at.dtype, v))
    for body, V_i, J_i, rate in zip(at.model.bodies, V, J, rates, strict=True):
        C += J_i.T @ (body.G @ rate + body.G @ ad(V_i) @ J_i - ad(V_i).T @ body.G @ J_i)
    return C


def coriolis_by_bodies(at: BodyPlacements, v: Array) -> Array:
    """Returns the Christoffel-consistent C (nv, nv) of a tree, as Pinocchio does (Echeandia and Wensing 2021).

    ``C = sum_i J_i^T (I_i Jring_i + B_i J_i)`` where ``Jring = Jdot + [V x] J`` is the absolute derivative of the body
    Jacobian, ``B = 1/2 ([V x*] I - I [V x] + [h]~)``, ``h = I V``, and ``[h]~ U = U x* h`` for every twist U.
    """
    V, J = twists(at, v), body_jacobians(at)
    rates = body_jacobian_rates(at, V, v, J)
    C = np.zeros((at.model.nv, at.model.nv), dtype=np.result_type(at.dtype, v))
    for body, V_i, J_i, rate in zip(at.model.bodies, V, J, rates, strict=True):
        B = 0.5 * (-ad(V_i).T @ body.G - body.G @ ad(V_i) + dual_of_momentum(body.G @ V_i))
        C += J_i.T @ (body.G @ (rate + ad(V_i) @ J_i) + B @ J_i)
    return C


def dual_of_momentum(h: Array) -> Array:
    """Returns the matrix (6, 6) that maps a twist U to ``U x* h = -ad(U)^T h``, for a momentum h.

    With h = (n, f), of angular part n and linear part f, the matrix is ``-[[[n], [f]], [[f], 0]]``; it is [h]~ above.
    """
    out = np.zeros((6, 6), dtype=h.dtype)
    out[:3, :3] = -skew(h[:3])
    out[:3, 3:] = out[3:, :3] = -skew(h[3:])
    return out
