"""Further algorithms of the quantities of the reference, written out for comparison with it, without Pinocchio."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from quaddyn.errors import ArgumentError
from quaddyn.reference.algebra import Ad, Array, ad, inverse
from quaddyn.reference.algorithms import Wrenches, crba, derivative_along, derivatives_by_configuration, rnea
from quaddyn.reference.kinematics import (
    BodyPlacements,
    body_jacobian_rates,
    body_jacobians,
    place_bodies,
    twists,
)
from quaddyn.reference.model import Model


def closed_form_inverse_dynamics(at: BodyPlacements, v: Array, a: Array, *, wrenches: Wrenches | None = None) -> Array:
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


def closed_form_gravity(at: BodyPlacements) -> Array:
    """Returns the gravity term ``tau_G = sum_i J_i^T I_i X_{i<-0} (-A_G)`` (nv,) (source A, 4)."""
    zero = np.zeros(at.model.nv)
    return closed_form_inverse_dynamics(at, zero, zero)


def mass_by_rnea(at: BodyPlacements) -> Array:
    """Returns M (nv, nv), whose column j is ``RNEA(q, 0, e_j)`` without gravity and external forces (source A, 6)."""
    weightless = replace(at, model=replace(at.model, gravity=np.zeros(3)))
    nv = at.model.nv
    return np.stack([rnea(weightless, np.zeros(nv), e) for e in np.eye(nv)], axis=1)


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


def two_body_torque(at: BodyPlacements, v: Array, a: Array, *, wrenches: tuple[Array, Array] | None = None) -> Array:
    """(2,) torques of a two-body chain: ``tau = J_1^T (...) + J_2^T (...)``, no recursion and no gravity trick.

    With ``V_1 = S_1 dq_1``, ``V_2 = X_21 S_1 dq_1 + S_2 dq_2`` and, since ``V_1 x V_1 = 0``,
    ``A_1 = S_1 ddq_1`` and ``A_2 = X_21 S_1 ddq_1 + V_2 x S_2 dq_2 + S_2 ddq_2``::

        tau = [S_1, 0]^T         (I_1 A_1 + V_1 x* I_1 V_1 - F_1 - I_1 X_10 A_G)
            + [X_21 S_1, S_2]^T  (I_2 A_2 + V_2 x* I_2 V_2 - F_2 - I_2 X_20 A_G)

    For example, two point masses of 2 kg and 1 kg, 1 m and 3 m out, held still:

    >>> from quaddyn.reference import Reference
    >>> reference = Reference('''<robot name="r"><link name="a"/>
    ...   <link name="b"><inertial><origin xyz="0 0 -1"/><mass value="2"/>
    ...     <inertia ixx="0" iyy="0" izz="0" ixy="0" ixz="0" iyz="0"/></inertial></link>
    ...   <link name="c"><inertial><origin xyz="0 0 -1"/><mass value="1"/>
    ...     <inertia ixx="0" iyy="0" izz="0" ixy="0" ixz="0" iyz="0"/></inertial></link>
    ...   <joint name="1" type="continuous"><parent link="a"/><child link="b"/><axis xyz="0 -1 0"/></joint>
    ...   <joint name="2" type="continuous"><parent link="b"/><child link="c"/>
    ...     <origin xyz="0 0 -2"/><axis xyz="0 -1 0"/></joint></robot>''', root="fixed")
    >>> horizontal = np.array([0.0, 1.0, 1.0, 0.0])  # (cos, sin) of a quarter turn, then straight
    >>> tau = two_body_torque(reference.forward_kinematics(horizontal), np.zeros(2), np.zeros(2))
    >>> [round(x, 12) for x in tau.tolist()]  # g (2 * 1 + 1 * 3) and g (1 * 1)
    [49.05, 9.81]

    Args:
        at: a chain of two bodies with one-dof joints, at q.
        v: (2,) joint velocities.
        a: (2,) joint accelerations.
        wrenches: (6,) wrench on each body, in its frame.

    Raises:
        ArgumentError: not such a chain.
    """
    bodies = at.model.bodies
    if [b.parent for b in bodies] != [-1, 0] or at.model.nv != 2:
        raise ArgumentError(
            "two_body_torque: expected a robot that is a chain of two bodies, each with one degree of freedom"
        )
    (S_1, S_2), (I_1, I_2) = (b.S[:, 0] for b in bodies), (b.G for b in bodies)
    X_10, X_20 = (Ad(inverse(T)) for T in at.T_world)
    X_21 = X_20 @ Ad(at.T_world[0])
    F_1, F_2 = wrenches if wrenches is not None else (np.zeros(6), np.zeros(6))
    A_G = np.concatenate([np.zeros(3), at.model.gravity])

    V_1 = S_1 * v[0]
    V_2 = X_21 @ S_1 * v[0] + S_2 * v[1]
    A_1 = S_1 * a[0]
    A_2 = X_21 @ S_1 * a[0] + ad(V_2) @ S_2 * v[1] + S_2 * a[1]
    J_1 = np.stack([S_1, np.zeros(6)], axis=1)
    J_2 = np.stack([X_21 @ S_1, S_2], axis=1)
    tau = J_1.T @ (I_1 @ A_1 - ad(V_1).T @ I_1 @ V_1 - F_1 - I_1 @ X_10 @ A_G) + J_2.T @ (
        I_2 @ A_2 - ad(V_2).T @ I_2 @ V_2 - F_2 - I_2 @ X_20 @ A_G
    )
    return np.asarray(tau + at.model.armature * a)
