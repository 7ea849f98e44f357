"""Forward kinematics: placements, twists, accelerations and Jacobians of bodies.

Configurations have joint placements, and move along a tangent vector.  The layout of q is Pinocchio's: one number for
revolute and prismatic joints, (cos, sin) for continuous ones, (x, y, cos, sin) for planar ones, and (x, y, z,
quaternion x, y, z, w) for floating ones and the free root.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .algebra import (
    Ad,
    Array,
    ad,
    exp,
    inverse,
    quaternion_exp,
    quaternion_product,
    quaternion_rotation,
    rigid_motion,
    rotation,
    rotation_to,
    swap,
)
from .model import Body, Model


def joint_motion(body: Body, q: Array) -> Array:
    """Returns the placement (4, 4) of a body's frame in its joint frame at the joint's coordinates `q`."""
    zero, one = np.zeros(3), np.eye(3)
    if body.kind == "revolute":
        angle = body.mimic_multiplier * q[0] + body.mimic_offset
        return rigid_motion(rotation(body.axis, np.cos(angle), np.sin(angle)), zero)
    if body.kind == "continuous":
        return rigid_motion(rotation(body.axis, q[0], q[1]), zero)
    if body.kind == "prismatic":
        return rigid_motion(one, body.axis * (body.mimic_multiplier * q[0] + body.mimic_offset))
    if body.kind == "floating":
        return rigid_motion(quaternion_rotation(q[3:]), q[:3])
    R = rotation_to(body.axis)
    return rigid_motion(rotation(body.axis, q[2], q[3]), R[:, 0] * q[0] + R[:, 1] * q[1])


def neutral(model: Model) -> Array:
    """Returns the configuration (nq,) at which every body's frame coincides with its joint frame."""
    q = np.zeros(model.nq)
    for body in model.bodies:
        if body.kind == "floating":
            q[body.q.stop - 1] = 1.0
        elif body.kind in ("continuous", "planar"):
            q[body.q.stop - 2] = 1.0
    return q


def integrate(model: Model, q: Array, v: Array) -> Array:
    """Returns the configuration (nq,) after unit time at the constant velocity `v` (nv,) from `q`.

    On each joint ``T(q') = T(q) exp(S v)`` (Lynch and Park 2017, section 3.3.3, with body twists).
    """
    out = np.array(q, dtype=np.result_type(q, v))
    for body in model.bodies:
        out[body.q] = _integrate_joint(body, q[body.q], v[body.v])
    return out


def _integrate_joint(body: Body, q: Array, v: Array) -> Array:
    if body.kind in ("revolute", "prismatic"):
        return q + v
    if body.kind == "continuous":
        return _rotate_cos_sin(q, v[0])
    if body.kind == "floating":
        step = exp(swap() @ v)
        return np.concatenate(
            [q[:3] + quaternion_rotation(q[3:]) @ step[:3, 3], quaternion_product(q[3:], quaternion_exp(v[3:]))]
        )
    # Along its x axis in the moving plane, as complex numbers do: the twist (v_x, v_y, omega) of SE(2).
    step = exp(np.array([0.0, 0.0, v[2], v[0], v[1], 0.0]))[:2, 3]
    c, s = q[2], q[3]
    return np.array([q[0] + c * step[0] - s * step[1], q[1] + s * step[0] + c * step[1], *_rotate_cos_sin(q[2:], v[2])])


def _rotate_cos_sin(cs: Array, angle: Any) -> Array:
    """Returns cosine and sine (2,) of an angle increased by `angle` [rad]."""
    (c, s), x, y = cs, np.cos(angle), np.sin(angle)
    return np.array([c * x - s * y, s * x + c * y])


def random_configuration(model: Model, rng: np.random.Generator, *, beyond: float = 0.0, reach: float = 1.0) -> Array:
    """Returns a random configuration (nq,).

    Args:
        model: the model.
        rng: random generator.
        beyond: distance by which a joint may exceed its range, as a fraction of the range.  Joints without limits and
            (cos, sin) pairs take any angle; prismatic joints without limits lie within `reach`.
        reach: half size of the cube in which a root is placed [m].
    """
    q = neutral(model)
    for body in model.bodies:
        if body.is_mimic:
            continue
        if body.kind in ("revolute", "prismatic"):
            far = np.pi if body.kind == "revolute" else reach
            low = body.lower if np.isfinite(body.lower) else max(-far, min(body.upper, far) - 2 * far)
            high = body.upper if np.isfinite(body.upper) else max(far, low + far)
            margin = beyond * (high - low)
            q[body.q] = rng.uniform(low - margin, high + margin)
        elif body.kind == "continuous":
            q[body.q] = _rotate_cos_sin(np.array([1.0, 0.0]), rng.uniform(-np.pi, np.pi))
        elif body.kind == "planar":
            q[body.q] = [
                *rng.uniform(-reach, reach, 2),
                *_rotate_cos_sin(np.array([1.0, 0.0]), rng.uniform(-np.pi, np.pi)),
            ]
        else:
            u = rng.normal(size=4)
            q[body.q] = [*rng.uniform(-reach, reach, 3), *(u / np.sqrt(u @ u))]
    return q


@dataclass(frozen=True, eq=False)
class BodyPlacements:
    """Placements of the bodies of a model at one configuration."""

    model: Model  # the model
    T_world: tuple[Array, ...]  # for each body, (4, 4) placement in the world
    # for each body, (6, 6) map of twists from its parent's (the world's for a root) to its own frame, ``X_{i<-p} =
    # Ad(T_pi^-1)``
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
