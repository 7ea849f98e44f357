"""Three Coriolis matrices: many matrices C have the same product ``C v``; each function states which one it returns.

`coriolis_closed_form` is that of source A.  `coriolis_by_bodies` is consistent with Christoffel's symbols, from body
Jacobians, on every robot; Pinocchio returns the same.  `coriolis_christoffel` is Christoffel's by definition, for
robots with coordinates: on fixed bases.  With each of them ``Mdot = C + C^T``: ``Mdot - 2 C`` is skew-symmetric.
"""

from __future__ import annotations

import numpy as np

from ..errors import ArgumentError
from .algebra import Array, ad, skew
from .derivatives import derivative_along, derivatives_by_configuration
from .kinematics import BodyPlacements, body_jacobian_rates, body_jacobians, place_bodies, twists
from .mass import crba
from .model import Model


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


def coriolis_christoffel(model: Model, q: Array, v: Array) -> Array:
    """Returns ``C_ij = sum_k Gamma_ijk dq_k`` (nv, nv) by definition (source A, 5).

    ``Gamma_ijk = 1/2 (dM_ij/dq_k + dM_ik/dq_j - dM_jk/dq_i)``; the derivatives of M are exact, by complex steps.
    Christoffel's symbols require coordinates; a floating or planar joint has quasi-velocities instead.

    Raises:
        ArgumentError: the model has a floating or planar joint (a planar root is made of one-dof joints and has none).
    """
    for body in model.bodies:
        if body.kind in ("floating", "planar"):
            raise ArgumentError(
                "robot: the Coriolis matrix from Christoffel symbols requires v = dq/dt, which does not hold for "
                f"the {body.kind} joint {body.joint!r}"
            )
    dM = derivatives_by_configuration(model, lambda x: crba(place_bodies(model, x)), q)
    gamma = 0.5 * (dM + dM.transpose(0, 2, 1) - dM.transpose(2, 0, 1))
    return np.asarray(gamma @ v)


def mass_rate(model: Model, q: Array, v: Array) -> Array:
    """Returns dM/dt (nv, nv) along the motion, exact, by one complex step."""
    return derivative_along(model, lambda x: crba(place_bodies(model, x)), q, v)
