"""A leg of three revolute joints on a base, compiled: placements, Jacobians, drifts, inertia.

World axes, classical accelerations, moments about the base's origin.  Importing this module imports numba.
"""

from __future__ import annotations

import numpy as np

from ..hierarchy.jit import inner, outlined
from .compiled_inertia import body, weigh

# What is known of a leg, in rows of 3: origins and axes of its joints, five vectors of its foot, work; columns of the
# contact point's Jacobian, of the leg and of the base; its drift and the acceleration it is to have; BODY, of each of
# its bodies with all beyond it; entries of M that couple base (6) and joints (3), its own (3, 3), and those of h.
ORIGINS, TURNS, STATE, WORK, LEG, BASE, DRIFT, REST = 0, 3, 6, 11, 17, 20, 26, 27
BODY, COUPLED, OWN, BIAS, KNOWN = 28, 44, 50, 53, 54


@inner
def rotation(x, y, z, w, R):  # type: ignore[no-untyped-def]
    """R (3, 3) of a unit quaternion."""
    R[0, 0] = 1.0 - 2.0 * (y * y + z * z)
    R[0, 1] = 2.0 * (x * y - w * z)
    R[0, 2] = 2.0 * (x * z + w * y)
    R[1, 0] = 2.0 * (x * y + w * z)
    R[1, 1] = 1.0 - 2.0 * (x * x + z * z)
    R[1, 2] = 2.0 * (y * z - w * x)
    R[2, 0] = 2.0 * (x * z - w * y)
    R[2, 1] = 2.0 * (y * z + w * x)
    R[2, 2] = 1.0 - 2.0 * (x * x + y * y)


@inner
def product(A, B, out):  # type: ignore[no-untyped-def]
    """``out = A B``, 3 x 3."""
    for i in range(3):
        for j in range(3):
            out[i, j] = A[i, 0] * B[0, j] + A[i, 1] * B[1, j] + A[i, 2] * B[2, j]


@inner
def cross_add(a, b, out):  # type: ignore[no-untyped-def]
    """``out += a x b``."""
    out[0] += a[1] * b[2] - a[2] * b[1]
    out[1] += a[2] * b[0] - a[0] * b[2]
    out[2] += a[0] * b[1] - a[1] * b[0]


@outlined(
    "void(f8[::1], f8[::1], i8[::1], i8[::1], f8[:,::1], f8[:,::1], f8[:,::1], f8[::1], f8[::1], f8[:,::1], f8[:,::1], "
    "f8[::1])"
)
def leg(q, v, iq, iv, placed, axes, bodies, armature, gravity, base, at, momentum):  # type: ignore[no-untyped-def]
    """One leg at (q, v).

    Args:
        q: (nq,).
        v: (nv,).
        iq: (3,) where the joints are in q.
        iv: (3,) and in v.
        placed: (12, 3) rotation of each joint in the body before it, then their positions there.
        axes: (4, 3) unit axes in the joints' own coordinates, and the foot's centre in the last one's.
        bodies: (3, 10) of the joints, as `body` wants them.
        armature: (nv,).
        gravity: (>= 3,).
        base: (>= 7, 3) rotation (3), origin, its velocity, angular velocity, its acceleration at ``a = 0``.
        at: (KNOWN, 3) takes the joints' origins (3) and axes (3); of the foot's centre position, velocity, drift, of
            its body angular velocity and its drift (5); BODY and what follows.
        momentum: (3,) is increased by that of the joints' motion.
    """
    origins, turns, R, S = at[ORIGINS:TURNS], at[TURNS:STATE], at[WORK : WORK + 3], at[WORK + 3 : WORK + 6]
    p, u, c, w, g = at[STATE], at[STATE + 1], at[STATE + 2], at[STATE + 3], at[STATE + 4]
    for i in range(3):
        p[i] = base[3, i]
        u[i] = base[4, i]
        w[i] = base[5, i]
        c[i] = base[6, i]
        g[i] = 0.0
        for j in range(3):
            R[i, j] = base[i, j]
    for k in range(4):
        # along the body to the next joint, or to the foot
        a, b, d = axes[3, 0], axes[3, 1], axes[3, 2]
        if k < 3:
            a, b, d = placed[9 + k, 0], placed[9 + k, 1], placed[9 + k, 2]
        rx = R[0, 0] * a + R[0, 1] * b + R[0, 2] * d
        ry = R[1, 0] * a + R[1, 1] * b + R[1, 2] * d
        rz = R[2, 0] * a + R[2, 1] * b + R[2, 2] * d
        p[0] += rx
        p[1] += ry
        p[2] += rz
        sx = w[1] * rz - w[2] * ry
        sy = w[2] * rx - w[0] * rz
        sz = w[0] * ry - w[1] * rx
        u[0] += sx
        u[1] += sy
        u[2] += sz
        c[0] += g[1] * rz - g[2] * ry + w[1] * sz - w[2] * sy
        c[1] += g[2] * rx - g[0] * rz + w[2] * sx - w[0] * sz
        c[2] += g[0] * ry - g[1] * rx + w[0] * sy - w[1] * sx
        if k == 3:
            break
        product(R, placed[3 * k :], S)
        x, y, z = axes[k, 0], axes[k, 1], axes[k, 2]
        for i in range(3):
            origins[k, i] = p[i]
            turns[k, i] = S[i, 0] * x + S[i, 1] * y + S[i, 2] * z
        rate = v[iv[k]]
        tx, ty, tz = rate * turns[k, 0], rate * turns[k, 1], rate * turns[k, 2]
        g[0] += w[1] * tz - w[2] * ty
        g[1] += w[2] * tx - w[0] * tz
        g[2] += w[0] * ty - w[1] * tx
        w[0] += tx
        w[1] += ty
        w[2] += tz
        # Rodrigues: S exp(angle axis)
        angle = q[iq[k]]
        s = np.sin(angle)
        e = np.cos(angle)
        f = 1.0 - e
        for i in range(3):
            h0, h1, h2 = S[i, 0], S[i, 1], S[i, 2]
            along = (h0 * x + h1 * y + h2 * z) * f
            # row times the rotation: row e + axis (row . axis) (1 - e) + (row x axis) s
            R[i, 0] = h0 * e + x * along + (h1 * z - h2 * y) * s
            R[i, 1] = h1 * e + y * along + (h2 * x - h0 * z) * s
            R[i, 2] = h2 * e + z * along + (h0 * y - h1 * x) * s
        body(
            bodies[k], R, p[0] - base[3, 0], p[1] - base[3, 1], p[2] - base[3, 2], w, g, c, gravity, k, at[BODY:COUPLED]
        )  # fmt: skip
    weigh(v, iv, armature, base, origins, turns, at[BODY:COUPLED], at[COUPLED:OWN], at[OWN:BIAS], at[BIAS], momentum)


@inner
def point_jacobian(point, R0, p0, origins, turns, Jb, Jl):  # type: ignore[no-untyped-def]
    """Columns of the Jacobian of a point of the last body: Jb (6, 3) of the base, in its axes, Jl (3, 3) of the leg."""
    rx = point[0] - p0[0]
    ry = point[1] - p0[1]
    rz = point[2] - p0[2]
    for j in range(3):
        a, b, c = R0[0, j], R0[1, j], R0[2, j]
        Jb[j, 0] = a
        Jb[j, 1] = b
        Jb[j, 2] = c
        Jb[3 + j, 0] = b * rz - c * ry
        Jb[3 + j, 1] = c * rx - a * rz
        Jb[3 + j, 2] = a * ry - b * rx
        x = point[0] - origins[j, 0]
        y = point[1] - origins[j, 1]
        z = point[2] - origins[j, 2]
        a, b, c = turns[j, 0], turns[j, 1], turns[j, 2]
        Jl[j, 0] = b * z - c * y
        Jl[j, 1] = c * x - a * z
        Jl[j, 2] = a * y - b * x


@inner
def inverse3(A, out):  # type: ignore[no-untyped-def]
    """``out = A^-1``; ``|det A|`` over the product of its rows' lengths (0: singular, 1: orthogonal)."""
    c00 = A[1, 1] * A[2, 2] - A[1, 2] * A[2, 1]
    c01 = A[1, 2] * A[2, 0] - A[1, 0] * A[2, 2]
    c02 = A[1, 0] * A[2, 1] - A[1, 1] * A[2, 0]
    det = A[0, 0] * c00 + A[0, 1] * c01 + A[0, 2] * c02
    size = 1.0
    for j in range(3):
        size *= np.sqrt(A[j, 0] * A[j, 0] + A[j, 1] * A[j, 1] + A[j, 2] * A[j, 2])
    if not size > 0.0 or det == 0.0:
        return 0.0
    s = 1.0 / det
    out[0, 0] = c00 * s
    out[1, 0] = c01 * s
    out[2, 0] = c02 * s
    out[0, 1] = (A[0, 2] * A[2, 1] - A[0, 1] * A[2, 2]) * s
    out[1, 1] = (A[0, 0] * A[2, 2] - A[0, 2] * A[2, 0]) * s
    out[2, 1] = (A[0, 1] * A[2, 0] - A[0, 0] * A[2, 1]) * s
    out[0, 2] = (A[0, 1] * A[1, 2] - A[0, 2] * A[1, 1]) * s
    out[1, 2] = (A[0, 2] * A[1, 0] - A[0, 0] * A[1, 2]) * s
    out[2, 2] = (A[0, 0] * A[1, 1] - A[0, 1] * A[1, 0]) * s
    return abs(det) / size


@inner
def entry_of(W, R, i, j):  # type: ignore[no-untyped-def]
    """Entry (i, j) of ``W R^T``, W (9,) row by row, R (3, 3)."""
    return W[3 * i] * R[j, 0] + W[3 * i + 1] * R[j, 1] + W[3 * i + 2] * R[j, 2]


@inner
def log3(W, R, out):  # type: ignore[no-untyped-def]
    """Rotation vector of ``W R^T``, W (9,) row by row, R (3, 3)."""
    x = 0.5 * (entry_of(W, R, 2, 1) - entry_of(W, R, 1, 2))
    y = 0.5 * (entry_of(W, R, 0, 2) - entry_of(W, R, 2, 0))
    z = 0.5 * (entry_of(W, R, 1, 0) - entry_of(W, R, 0, 1))
    d0, d1, d2 = entry_of(W, R, 0, 0), entry_of(W, R, 1, 1), entry_of(W, R, 2, 2)
    s = np.sqrt(x * x + y * y + z * z)
    c = 0.5 * (d0 + d1 + d2 - 1.0)
    angle = np.arctan2(s, c)
    if c > -0.9:
        f = angle / s if s > 1e-7 else 1.0 + s * s / 6.0
        out[0] = f * x
        out[1] = f * y
        out[2] = f * z
        return
    # Near half a turn the axis comes from the symmetric part, its sign from the skew one.
    k = 0
    if d1 > d0:
        k = 1
    if d2 > max(d0, d1):
        k = 2
    length = 0.0
    for i in range(3):
        out[i] = 0.5 * (entry_of(W, R, i, k) + entry_of(W, R, k, i))
    out[k] -= c
    for i in range(3):
        length += out[i] * out[i]
    f = angle / np.sqrt(length)
    if x * out[0] + y * out[1] + z * out[2] < 0.0:
        f = -f
    for i in range(3):
        out[i] *= f
