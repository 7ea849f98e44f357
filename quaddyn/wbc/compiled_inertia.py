"""Inertia and bias forces of a base with legs of three revolute joints, compiled: M and h by composite rigid bodies.

World axes, moments about the base's origin; what belongs to the base's velocity is in the base's axes, as in Pinocchio.
Importing this module imports numba.
"""

from __future__ import annotations

from ..hierarchy.jit import inner

# What is known of a body: mass, mass times the position of its centre, inertia (xx, xy, xz, yy, yz, zz), and the force
# and moment that its motion takes at ``a = 0``, its weight taken off.
MASS, CENTRE, INERTIA, FORCE, MOMENT, OF_BODY = 0, 1, 4, 10, 13, 16


@inner
def body(y, R, x0, x1, x2, w, g, c, gravity, j, out):  # type: ignore[no-untyped-def]
    """A body alone; see MASS to OF_BODY.

    Args:
        y: (10,) mass, its centre, and its inertia about that (xx, xy, xz, yy, yz, zz), in its own axes.
        R: (3, 3) its rotation.
        x0: its origin.
        x1: likewise.
        x2: likewise.
        w: (3,) its angular velocity.
        g: (3,) its angular acceleration at ``a = 0``.
        c: (3,) the acceleration of its origin.
        gravity: (>= 3,).
        j: column of `out` to write to.
        out: (OF_BODY, ...).
    """
    m = y[0]
    r0 = R[0, 0] * y[1] + R[0, 1] * y[2] + R[0, 2] * y[3]
    r1 = R[1, 0] * y[1] + R[1, 1] * y[2] + R[1, 2] * y[3]
    r2 = R[2, 0] * y[1] + R[2, 1] * y[2] + R[2, 2] * y[3]
    # R I, then R I R^T
    a00 = R[0, 0] * y[4] + R[0, 1] * y[5] + R[0, 2] * y[6]
    a01 = R[0, 0] * y[5] + R[0, 1] * y[7] + R[0, 2] * y[8]
    a02 = R[0, 0] * y[6] + R[0, 1] * y[8] + R[0, 2] * y[9]
    a10 = R[1, 0] * y[4] + R[1, 1] * y[5] + R[1, 2] * y[6]
    a11 = R[1, 0] * y[5] + R[1, 1] * y[7] + R[1, 2] * y[8]
    a12 = R[1, 0] * y[6] + R[1, 1] * y[8] + R[1, 2] * y[9]
    a20 = R[2, 0] * y[4] + R[2, 1] * y[5] + R[2, 2] * y[6]
    a21 = R[2, 0] * y[5] + R[2, 1] * y[7] + R[2, 2] * y[8]
    a22 = R[2, 0] * y[6] + R[2, 1] * y[8] + R[2, 2] * y[9]
    xx = a00 * R[0, 0] + a01 * R[0, 1] + a02 * R[0, 2]
    xy = a00 * R[1, 0] + a01 * R[1, 1] + a02 * R[1, 2]
    xz = a00 * R[2, 0] + a01 * R[2, 1] + a02 * R[2, 2]
    yy = a10 * R[1, 0] + a11 * R[1, 1] + a12 * R[1, 2]
    yz = a10 * R[2, 0] + a11 * R[2, 1] + a12 * R[2, 2]
    zz = a20 * R[2, 0] + a21 * R[2, 1] + a22 * R[2, 2]
    # Newton: the centre's acceleration.  Euler, about the centre: I g + w x I w.
    s0 = w[1] * r2 - w[2] * r1
    s1 = w[2] * r0 - w[0] * r2
    s2 = w[0] * r1 - w[1] * r0
    f0 = m * (c[0] + g[1] * r2 - g[2] * r1 + w[1] * s2 - w[2] * s1 - gravity[0])
    f1 = m * (c[1] + g[2] * r0 - g[0] * r2 + w[2] * s0 - w[0] * s2 - gravity[1])
    f2 = m * (c[2] + g[0] * r1 - g[1] * r0 + w[0] * s1 - w[1] * s0 - gravity[2])
    k0 = xx * w[0] + xy * w[1] + xz * w[2]
    k1 = xy * w[0] + yy * w[1] + yz * w[2]
    k2 = xz * w[0] + yz * w[1] + zz * w[2]
    d0, d1, d2 = x0 + r0, x1 + r1, x2 + r2
    out[FORCE, j] = f0
    out[FORCE + 1, j] = f1
    out[FORCE + 2, j] = f2
    out[MOMENT, j] = xx * g[0] + xy * g[1] + xz * g[2] + w[1] * k2 - w[2] * k1 + d1 * f2 - d2 * f1
    out[MOMENT + 1, j] = xy * g[0] + yy * g[1] + yz * g[2] + w[2] * k0 - w[0] * k2 + d2 * f0 - d0 * f2
    out[MOMENT + 2, j] = xz * g[0] + yz * g[1] + zz * g[2] + w[0] * k1 - w[1] * k0 + d0 * f1 - d1 * f0
    out[MASS, j] = m
    out[CENTRE, j] = m * d0
    out[CENTRE + 1, j] = m * d1
    out[CENTRE + 2, j] = m * d2
    out[INERTIA, j] = xx + m * (d1 * d1 + d2 * d2)
    out[INERTIA + 1, j] = xy - m * d0 * d1
    out[INERTIA + 2, j] = xz - m * d0 * d2
    out[INERTIA + 3, j] = yy + m * (d0 * d0 + d2 * d2)
    out[INERTIA + 4, j] = yz - m * d1 * d2
    out[INERTIA + 5, j] = zz + m * (d0 * d0 + d1 * d1)


@inner
def momentum_of(whole, j, u0, u1, u2, t0, t1, t2):  # type: ignore[no-untyped-def]
    """Linear and angular momentum of body j that turns at t while what is at the reference point moves at u."""
    m, x, y, z = whole[MASS, j], whole[CENTRE, j], whole[CENTRE + 1, j], whole[CENTRE + 2, j]
    xy, xz, yz = whole[INERTIA + 1, j], whole[INERTIA + 2, j], whole[INERTIA + 4, j]
    return (
        m * u0 + t1 * z - t2 * y,
        m * u1 + t2 * x - t0 * z,
        m * u2 + t0 * y - t1 * x,
        whole[INERTIA, j] * t0 + xy * t1 + xz * t2 + y * u2 - z * u1,
        xy * t0 + whole[INERTIA + 3, j] * t1 + yz * t2 + z * u0 - x * u2,
        xz * t0 + yz * t1 + whole[INERTIA + 5, j] * t2 + x * u1 - y * u0,
    )


@inner
def power_of(whole, j, u0, u1, u2, t0, t1, t2):  # type: ignore[no-untyped-def]
    """Of the force and moment on body j along such a motion: an entry of h, for a joint's unit speed."""
    s = u0 * whole[FORCE, j] + u1 * whole[FORCE + 1, j] + u2 * whole[FORCE + 2, j]
    return s + t0 * whole[MOMENT, j] + t1 * whole[MOMENT + 1, j] + t2 * whole[MOMENT + 2, j]


@inner
def weigh(v, iv, armature, base, origins, turns, whole, coupled, own, bias, momentum):  # type: ignore[no-untyped-def]
    """A leg's share of M and h, and its joints' share of the momentum.

    Composite rigid bodies (Featherstone 2008, chapter 6): what moves with joint j is one body; that body's momentum at
    unit speed of the joint is a column of M, and what force it takes at ``a = 0`` tells h.

    Args:
        v: (nv,).
        iv: (3,) where the joints are in v.
        armature: (nv,).
        base: (>= 4, 3) rotation (3), origin.
        origins: (3, 3) of the joints.
        turns: (3, 3) their axes.
        whole: (OF_BODY, 3) the bodies alone; each takes those beyond it, too.
        coupled: (6, 3) takes the entries of M that couple base and joints, in the base's axes.
        own: (3, 3) takes those of the joints.
        bias: (3,) takes those of h.
        momentum: (3,) is increased by that of the joints' motion.
    """
    for r in range(OF_BODY):
        whole[r, 1] += whole[r, 2]
        whole[r, 0] += whole[r, 1]
    for j in range(3):
        t0, t1, t2 = turns[j, 0], turns[j, 1], turns[j, 2]
        r0, r1, r2 = origins[j, 0] - base[3, 0], origins[j, 1] - base[3, 1], origins[j, 2] - base[3, 2]
        # velocity of what is at the base's origin, as if it moved with the joint
        u0, u1, u2 = r1 * t2 - r2 * t1, r2 * t0 - r0 * t2, r0 * t1 - r1 * t0
        p0, p1, p2, l0, l1, l2 = momentum_of(whole, j, u0, u1, u2, t0, t1, t2)
        for i in range(3):  # into the base's axes
            coupled[i, j] = base[0, i] * p0 + base[1, i] * p1 + base[2, i] * p2
            coupled[3 + i, j] = base[0, i] * l0 + base[1, i] * l1 + base[2, i] * l2
        bias[j] = power_of(whole, j, u0, u1, u2, t0, t1, t2)
        own[j, j] = t0 * l0 + t1 * l1 + t2 * l2 + u0 * p0 + u1 * p1 + u2 * p2 + armature[iv[j]]
        for i in range(j):
            a0, a1, a2 = turns[i, 0], turns[i, 1], turns[i, 2]
            b0, b1, b2 = origins[i, 0] - base[3, 0], origins[i, 1] - base[3, 1], origins[i, 2] - base[3, 2]
            s = a0 * l0 + a1 * l1 + a2 * l2
            s += (b1 * a2 - b2 * a1) * p0 + (b2 * a0 - b0 * a2) * p1 + (b0 * a1 - b1 * a0) * p2
            own[i, j] = s
            own[j, i] = s
        rate = v[iv[j]]
        momentum[0] += rate * p0
        momentum[1] += rate * p1
        momentum[2] += rate * p2


@inner
def weigh_base(v, armature, gravity, y, base, legs, whole, M, momentum):  # type: ignore[no-untyped-def]
    """The base's own entries of M and h, and its share of the momentum; the robot's mass and centre in `whole`.

    Args:
        v: (>= 6,).
        armature: (>= 6,).
        gravity: (3,).
        y: (10,) the base, as `body` wants it.
        base: (>= 7, 3) rotation (3), origin, velocity, angular velocity, acceleration at ``a = 0``.
        legs: (4, OF_BODY, ...) the legs, in column 0.
        whole: (OF_BODY, 1) takes the robot as one body.
        M: (7, 6) takes entries of M, then of h, in the base's axes.
        momentum: (3,) is increased by that of the base's motion.
    """
    still = momentum[3:6]
    for i in range(3):
        still[i] = 0.0
    body(y, base, 0.0, 0.0, 0.0, base[5], still, base[6], gravity, 0, whole)
    for k in range(4):
        for r in range(OF_BODY):
            whole[r, 0] += legs[k, r, 0]
    m, x, y0, z = whole[MASS, 0], whole[CENTRE, 0], whole[CENTRE + 1, 0], whole[CENTRE + 2, 0]
    xx, xy, xz = whole[INERTIA, 0], whole[INERTIA + 1, 0], whole[INERTIA + 2, 0]
    yy, yz, zz = whole[INERTIA + 3, 0], whole[INERTIA + 4, 0], whole[INERTIA + 5, 0]
    c0 = base[0, 0] * x + base[1, 0] * y0 + base[2, 0] * z
    c1 = base[0, 1] * x + base[1, 1] * y0 + base[2, 1] * z
    c2 = base[0, 2] * x + base[1, 2] * y0 + base[2, 2] * z
    for i in range(3):
        b0, b1, b2 = base[0, i], base[1, i], base[2, i]
        a0 = b0 * xx + b1 * xy + b2 * xz
        a1 = b0 * xy + b1 * yy + b2 * yz
        a2 = b0 * xz + b1 * yz + b2 * zz
        for j in range(3):
            M[i, j] = 0.0
            M[3 + i, 3 + j] = a0 * base[0, j] + a1 * base[1, j] + a2 * base[2, j]
        M[i, i] = m + armature[i]
        M[3 + i, 3 + i] += armature[3 + i]
        M[i, 3 + i] = 0.0
        M[3 + i, i] = 0.0
        M[6, i] = b0 * whole[FORCE, 0] + b1 * whole[FORCE + 1, 0] + b2 * whole[FORCE + 2, 0]
        M[6, 3 + i] = b0 * whole[MOMENT, 0] + b1 * whole[MOMENT + 1, 0] + b2 * whole[MOMENT + 2, 0]
    M[0, 4] = M[4, 0] = c2
    M[0, 5] = M[5, 0] = -c1
    M[1, 3] = M[3, 1] = -c2
    M[1, 5] = M[5, 1] = c0
    M[2, 3] = M[3, 2] = c1
    M[2, 4] = M[4, 2] = -c0
    u, w = base[4], base[5]
    momentum[0] += m * u[0] + w[1] * z - w[2] * y0
    momentum[1] += m * u[1] + w[2] * x - w[0] * z
    momentum[2] += m * u[2] + w[0] * y0 - w[1] * x
