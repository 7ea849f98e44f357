"""Forward kinematics: placements, twists, accelerations and Jacobians of bodies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .algebra import Ad, Array, ad, inverse
from .configuration import joint_motion
from .model import Model


@dataclass(frozen=True, eq=False)
class BodyPlacements:
    """Placements of the bodies of a model at one configuration.

    Attributes:
        model: the model.
        T_world: for each body, (4, 4) placement in the world.
        X: for each body, (6, 6) map of twists from its parent's (the world's for a root) to its own frame,
            ``X_{i<-p} = Ad(T_pi^-1)``.
    """

    model: Model
    T_world: tuple[Array, ...]
    X: tuple[Array, ...]

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """Complex during a complex step, else float."""
        return self.X[0].dtype if self.X else np.dtype(float)


def place_bodies(model: Model, q: Array) -> BodyPlacements:
    """Returns the placements of all bodies, ``T_i = T_p T_p,joint T_joint(q_i)`` (Lynch and Park 2017, section 4.1)."""
    T_world: list[Array] = []
    X: list[Array] = []
    for body in model.bodies:
        T = body.T @ joint_motion(body, q[body.q])
        X.append(Ad(inverse(T)))
        T_world.append(T_world[body.parent] @ T if body.parent >= 0 else T)
    return BodyPlacements(model, tuple(T_world), tuple(X))


def twists(at: BodyPlacements, v: Array) -> list[Array]:
    """Returns the twist (6,) of each body in its own frame: ``V_i = X_{i<-p} V_p + S_i dq_i`` (source A, section 2)."""
    V: list[Array] = []
    for body, X in zip(at.model.bodies, at.X, strict=True):
        joint_twist = body.S @ v[body.v]
        V.append(X @ V[body.parent] + joint_twist if body.parent >= 0 else joint_twist)
    return V


def accelerations(at: BodyPlacements, V: list[Array], v: Array, a: Array, A_world: Array) -> list[Array]:
    """Returns the derivative (6,) of each body's twist (source A, section 2).

    ``A_i = X_{i<-p} A_p + V_i x S_i dq_i + S_i ddq_i``.

    Args:
        at: placements of the bodies at q.
        V: twists of the bodies.
        v: (nv,) joint velocities.
        a: (nv,) joint accelerations.
        A_world: (6,) acceleration of the world: zero, or ``-A_G`` to include gravity.
    """
    A: list[Array] = []
    for body, X, V_i in zip(at.model.bodies, at.X, V, strict=True):
        A_parent = A[body.parent] if body.parent >= 0 else A_world
        A.append(X @ A_parent + ad(V_i) @ (body.S @ v[body.v]) + body.S @ a[body.v])
    return A


def body_jacobians(at: BodyPlacements) -> list[Array]:
    """Returns the body Jacobian (6, nv) of each body, ``V_i = J_i dq``.

    The columns of joint j are ``X_{i<-j} S_j`` if joint j moves body i, otherwise 0 (source A, section 3).
    """
    J: list[Array] = []
    for body, X in zip(at.model.bodies, at.X, strict=True):
        J_i = np.zeros((6, at.model.nv), dtype=at.dtype)
        if body.parent >= 0:
            J_i += X @ J[body.parent]
        J_i[:, body.v] += body.S
        J.append(J_i)
    return J


def body_jacobian_rates(at: BodyPlacements, V: list[Array], v: Array, J: list[Array]) -> list[Array]:
    """Returns the componentwise derivative (6, nv) of each body Jacobian along the motion.

    Since ``d/dt X_{i<-p} = -[S_i dq_i x] X_{i<-p}`` (source D, eta) and S is constant,
    ``Jdot_i = X_{i<-p} Jdot_p - [S_i dq_i x] X_{i<-p} J_p``.
    """
    rates: list[Array] = []
    for body, X in zip(at.model.bodies, at.X, strict=True):
        rate = np.zeros((6, at.model.nv), dtype=np.result_type(at.dtype, v))
        if body.parent >= 0:
            rate += X @ rates[body.parent] - ad(body.S @ v[body.v]) @ X @ J[body.parent]
        rates.append(rate)
    return rates
