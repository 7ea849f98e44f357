"""Spatial algebra of rigid motions: twists, wrenches, their maps, and the exponential of SE(3).

Twists are ``V = (omega, v)`` and wrenches ``F = (moment, force)``, angular before linear, as in the open-chain lecture
(source A) and in Lynch and Park, *Modern Robotics*, 2017, chapter 3.  A rigid motion ``T_ab`` is a (4, 4) matrix that
maps coordinates in b to coordinates in a; ``Ad(T_ab)`` does the same with twists and ``Ad(T_ba)^T`` with wrenches.

Every function is analytic in its arguments and preserves a complex dtype, so that it can be differentiated by the
complex step (see `derivatives`); hence there are no absolute values and no norms.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Real or, under a complex step, complex entries.
Array = NDArray[Any]

#: Squared angle [rad^2] below which power series, exact to rounding, replace closed forms that divide small by small.
MAX_SERIES_ANGLE_SQUARED = 0.25


def skew(w: Array) -> Array:
    """Returns the matrix ``[w]`` (3, 3) with ``[w] u = w x u`` (Lynch and Park 2017, eq. 3.30)."""
    x, y, z = w
    return np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])


def rigid_motion(R: Array, p: Array) -> Array:
    """Returns the rigid motion (4, 4) with rotation `R` (3, 3) and translation `p` (3,)."""
    T = np.zeros((4, 4), dtype=np.result_type(R, p, float))
    T[:3, :3], T[:3, 3], T[3, 3] = R, p, 1.0
    return T


def inverse(T: Array) -> Array:
    """Returns the inverse of a rigid motion, ``(R^T, -R^T p)`` (Lynch and Park 2017, eq. 3.64)."""
    R, p = T[:3, :3], T[:3, 3]
    return rigid_motion(R.T, -R.T @ p)


def Ad(T: Array) -> Array:
    """Returns the adjoint (6, 6) ``[[R, 0], [[p] R, R]]`` that maps twists (Lynch and Park 2017, def. 3.20)."""
    R, p = T[:3, :3], T[:3, 3]
    X = np.zeros((6, 6), dtype=T.dtype)
    X[:3, :3] = X[3:, 3:] = R
    X[3:, :3] = skew(p) @ R
    return X


def ad(V: Array) -> Array:
    """Returns the matrix (6, 6) of the Lie bracket ``[V x]`` of twists (Lynch and Park 2017, section 8.2.2).

    It is ``[[[w], 0], [[v], [w]]]``.  On wrenches the dual acts: ``V x* = -ad(V)^T``.
    """
    X = np.zeros((6, 6), dtype=V.dtype)
    X[:3, :3] = X[3:, 3:] = skew(V[:3])
    X[3:, :3] = skew(V[3:])
    return X


def spatial_inertia(mass: float, com: Array, inertia: Array) -> Array:
    """Returns the spatial inertia (6, 6) of a body about the origin of its frame (Lynch and Park 2017, section 8.2.2).

    Args:
        mass: [kg].
        com: (3,) center of mass [m].
        inertia: (3, 3) about the center of mass, in the frame's axes [kg m^2].
    """
    c = skew(com)
    G = np.zeros((6, 6))
    G[:3, :3] = inertia - mass * c @ c
    G[:3, 3:] = mass * c
    G[3:, :3] = -mass * c
    G[3:, 3:] = mass * np.eye(3)
    return G


def mass_properties(G: Array) -> tuple[float, Array, Array]:
    """Returns mass [kg], center of mass (3,) [m] and inertia (3, 3) about it: the inverse of `spatial_inertia`."""
    mass, first = float(G[5, 5]), np.array([G[2, 4], G[0, 5], G[1, 3]])  # m [c] is the upper right block
    com = first / mass if mass else np.zeros(3)
    c = skew(com)
    return mass, com, G[:3, :3] + mass * c @ c


def rotation(axis: Array, c: Any, s: Any) -> Array:
    """Returns the rotation (3, 3) about a unit `axis` by the angle with cosine `c` and sine `s` (Rodrigues)."""
    W = skew(axis)
    return np.asarray(np.eye(3) + s * W + (1.0 - c) * W @ W)


def rotation_to(axis: Array) -> Array:
    """Returns the smallest rotation (3, 3) of z to a unit `axis`: axes of a plane whose z is its normal."""
    turn, c = np.cross([0.0, 0.0, 1.0], axis), float(axis[2])
    s = float(np.hypot.reduce(turn))
    if s < 1e-12:
        return np.eye(3) if c > 0.0 else np.diag([1.0, -1.0, -1.0])
    return rotation(turn / s, c, s)


def roll_pitch_yaw(rpy: Array) -> Array:
    """Returns the rotation (3, 3) ``Rz(yaw) Ry(pitch) Rx(roll)`` of URDF's fixed-axis angles [rad]."""
    x, y, z = (rotation(e, np.cos(a), np.sin(a)) for e, a in zip(np.eye(3), rpy, strict=True))
    return np.asarray(z @ y @ x)


def quaternion_rotation(xyzw: Array) -> Array:
    """Returns the rotation (3, 3) of a unit quaternion (x, y, z, w) (Lynch and Park 2017, app. B.3).

    It is ``1 + 2 w [u] + 2 [u]^2``.
    """
    U = skew(xyzw[:3])
    return np.asarray(np.eye(3) + 2.0 * xyzw[3] * U + 2.0 * U @ U)


def quaternion_product(a: Array, b: Array) -> Array:
    """Returns the Hamilton product (4,) of quaternions (x, y, z, w): the rotation of `b` first, then that of `a`."""
    u = a[3] * b[:3] + b[3] * a[:3] + np.cross(a[:3], b[:3])
    return np.array([*u, a[3] * b[3] - a[:3] @ b[:3]])


def quaternion_exp(w: Array) -> Array:
    """Returns the unit quaternion (4,) of the rotation vector `w` (3,) [rad]: ``(sin(t/2)/t w, cos(t/2))``, t = |w|."""
    cosine, sine, _, _ = trigonometric_series(w @ w / 4.0)
    return np.array([*(0.5 * sine * w), cosine])


def trigonometric_series(t2: Any) -> tuple[Any, Any, Any, Any]:
    """Returns ``cos t``, ``sin t / t``, ``(1 - cos t) / t^2`` and ``(t - sin t) / t^3`` as functions of ``t^2``."""
    if np.abs(t2) < MAX_SERIES_ANGLE_SQUARED:
        c0, c1, c2, c3 = (sum((-t2) ** k / math.factorial(2 * k + n) for k in range(9)) for n in range(4))
        return c0, c1, c2, c3
    t = np.sqrt(t2)
    return np.cos(t), np.sin(t) / t, 2.0 * np.sin(t / 2.0) ** 2 / t2, (t - np.sin(t)) / (t2 * t)


def exp(xi: Array) -> Array:
    """Returns the exponential (4, 4) of a twist (6,) = (w, v) of any length (Lynch and Park 2017, prop. 3.25).

    ``R = 1 + a [w] + b [w]^2`` and ``p = (1 + b [w] + c [w]^2) v`` with ``a = sin t / t``, ``b = (1 - cos t) / t^2``,
    ``c = (t - sin t) / t^3``, t = |w|.
    """
    w, v = xi[:3], xi[3:]
    _, a, b, c = trigonometric_series(w @ w)
    W = skew(w)
    W2 = W @ W
    return rigid_motion(np.eye(3) + a * W + b * W2, v + b * (W @ v) + c * (W2 @ v))


def log(T: Array) -> Array:
    """Returns the twist (6,) of smallest angle with ``exp(log(T)) = T``, |w| <= pi; for real motions only.

    Source: Lynch and Park 2017, section 3.3.3.2; the rotation is computed from its quaternion, which is accurate near a
    half turn, where the trace is not.
    """
    u = rotation_quaternion(T[:3, :3])
    half = np.arctan2(np.sqrt(u[:3] @ u[:3]), u[3])
    cosine, sine, _, _ = trigonometric_series(half * half)
    w = 2.0 * u[:3] / sine
    V = np.eye(3) - 0.5 * skew(w)
    if half > 0.0:  # (1 - h cot h) / (2 h)^2; with w = 0 its square does not matter
        V = V + (1.0 - cosine / sine) / (4.0 * half * half) * skew(w) @ skew(w)
    return np.concatenate([w, V @ T[:3, 3]])


def rotation_quaternion(R: Array) -> Array:
    """Returns the unit quaternion (x, y, z, w), w >= 0, of a real rotation (3, 3).

    It is computed from the largest entry (Shepperd 1978).
    """
    # Four times the outer product of the quaternion with itself; any column is a multiple of it.
    K = np.empty((4, 4))
    K[:3, :3] = R + R.T + (1.0 - np.trace(R)) * np.eye(3)
    K[:3, 3] = K[3, :3] = R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]
    K[3, 3] = 1.0 + np.trace(R)
    column = K[:, int(np.argmax(np.diag(K)))]
    u = column / np.sqrt(column @ column)
    return np.asarray(-u if u[3] < 0.0 else u)


def swap() -> Array:
    """Returns the permutation (6, 6) between angular-before-linear and linear-before-angular; its own inverse."""
    return np.roll(np.eye(6), 3, axis=0)
