"""Base and legs at one instant, and the equations of motion solved for twelve unknowns: see `compiled_tick`.

Importing this module imports numba.
"""

from __future__ import annotations

import numpy as np

from ..hierarchy.jit import inner, outlined
from ..hierarchy.lanes import WIDTH, add, blend, clear, dots, scaled, total
from .compiled_inertia import CENTRE, MASS, weigh_base
from .compiled_legs import (
    BASE,
    BIAS,
    BODY,
    COUPLED,
    DRIFT,
    LEG,
    ORIGINS,
    OWN,
    REST,
    STATE,
    TURNS,
    cross_add,
    inverse3,
    leg,
    point_jacobian,
    rotation,
)  # fmt: skip

#: Below these a leg or the base is near singular, and the dense path, which divides by neither, takes over.
LEG_LEAST, BASE_LEAST = 1e-3, 1e-7

# A contact's numbers: share, cap, radius, least, largest, normal (3), then the faces of its friction pyramid, 3 each.
SHARE, CAP, RADIUS, LEAST, LARGEST, NORMAL_AXIS, FACES = 0, 1, 2, 3, 4, 5, 8

# What is known of the base, in rows of 3: its rotation (3), origin, velocity, angular velocity, acceleration at a = 0;
# the centre of mass and its velocity; work.
ORIGIN, SPEED, SPIN, RATE0, COM_AT, COM_SPEED, SPARE, KNOWN_BASE = 3, 4, 5, 6, 7, 8, 9, 17


@outlined(
    "void(f8[::1], f8[::1], f8, f8[::1], i8[:,:,::1], f8[:,:,::1], f8[:,::1], f8[:,:,::1], f8[:,::1], f8[::1], "
    "f8[:,::1], f8[:,:,::1], f8[:,::1])"
)  # fmt: skip
def look(q, v, damping, gravity, index, geometry, contacts, fixed, bodies, armature, base, legs, M):  # type: ignore[no-untyped-def]
    """Where everything is, how it moves and what it weighs.

    Args:
        q: (19,).
        v: (18,).
        damping: of contacts: their points are to accelerate by minus this times their velocity.
        gravity: (>= 3,).
        index: (3, 4, 3) where the joints are, as in `compiled_tick`.
        geometry: (4, 12, 3) of the joints.
        contacts: (4, ...) the contacts' numbers.
        fixed: (4, 4, 3) per leg the axes of its joints, and its foot.
        bodies: (13, 10) the base, then leg by leg, as `compiled_inertia.body` wants them.
        armature: (18,).
        base: (KNOWN_BASE, 3) takes what is known of the base.
        legs: (4, KNOWN, 3) takes what is known of the legs.
        M: (7, 6) takes the base's own entries of M, then of h.
    """
    rotation(q[3], q[4], q[5], q[6], base)
    for i in range(3):
        s = 0.0
        t = 0.0
        for j in range(3):
            s += base[i, j] * v[j]
            t += base[i, j] * v[3 + j]
        base[ORIGIN, i] = q[i]
        base[SPEED, i] = s
        base[SPIN, i] = t
        base[RATE0, i] = 0.0
    cross_add(base[SPIN], base[SPEED], base[RATE0])
    spare = base[SPARE:].reshape(24)
    whole, momentum = spare[:16].reshape(16, 1), spare[16:]
    for i in range(3):
        momentum[i] = 0.0
    for k in range(legs.shape[0]):
        at = legs[k]
        leg(
            q, v, index[0, k], index[1, k], geometry[k], fixed[k], bodies[1 + 3 * k : 4 + 3 * k], armature, gravity,
            base, at, momentum,
        )  # fmt: skip
        if contacts[k, SHARE] > 0.0:
            arm, point, drift, rest = at[STATE + 5], at[STATE + 6], at[DRIFT], at[REST]
            for i in range(3):
                arm[i] = -contacts[k, RADIUS] * contacts[k, NORMAL_AXIS + i]  # from the foot's centre
                drift[i] = at[STATE + 2, i]
                rest[i] = at[STATE + 1, i]
            cross_add(at[STATE + 4], arm, drift)
            cross_add(at[STATE + 3], arm, rest)
            for i in range(3):
                point[i] = at[STATE, i] + arm[i]
                rest[i] *= -damping
            point_jacobian(point, base, base[ORIGIN], at[ORIGINS:TURNS], at[TURNS:STATE], at[BASE:DRIFT], at[LEG:BASE])
    weigh_base(v, armature, gravity, bodies[0], base, legs[:, BODY:COUPLED], whole, M, momentum)
    m = whole[MASS, 0]
    for i in range(3):
        base[COM_AT, i] = q[i] + whole[CENTRE + i, 0] / m
        base[COM_SPEED, i] = momentum[i] / m


@outlined("f8(f8[:,::1], f8[:,::1], i8)")
def eliminate(B, G, n):  # type: ignore[no-untyped-def]
    """``G <- B^-1 G`` for B (6, 8), G (6, >= n), with pivoting by rows; smallest pivot over the largest."""
    least = np.inf
    most = 0.0
    for k in range(6):
        p = k
        for i in range(k + 1, 6):
            if abs(B[i, k]) > abs(B[p, k]):
                p = i
        if p != k:
            for j in range(k, 6):
                B[k, j], B[p, j] = B[p, j], B[k, j]
            for j in range(n):
                G[k, j], G[p, j] = G[p, j], G[k, j]
        size = abs(B[k, k])
        least = min(least, size)
        most = max(most, size)
        if not size > 0.0:
            return 0.0
        for i in range(k + 1, 6):
            f = -B[i, k] / B[k, k]
            if f != 0.0:
                add(B[i], f, B[k], WIDTH)
                add(G[i], f, G[k], n)
    for k in range(5, -1, -1):
        scaled(G[k], G[k], 1.0 / B[k, k], n)
        for i in range(k):
            if B[i, k] != 0.0:
                add(G[i], -B[i, k], G[k], n)
    return least / most


@inner
def held(k, legs, P):  # type: ignore[no-untyped-def]
    """Joint accelerations of leg k whose contact holds: ``P[:, :6] a_b + P[:, 6]``; False near a singularity."""
    at = legs[k]
    Jl, Jb, drift, rest, inv = at[LEG:BASE], at[BASE:DRIFT], at[DRIFT], at[REST], at[STATE + 6 : STATE + 9]
    if not inverse3(Jl, inv) > LEG_LEAST:  # of the transposed, as Jl is: by columns
        return False
    for i in range(3):
        s = 0.0
        for o in range(3):
            s += inv[o, i] * (rest[o] - drift[o])
        P[i, 6] = s
        for j in range(6):
            P[i, j] = -(inv[0, i] * Jb[j, 0] + inv[1, i] * Jb[j, 1] + inv[2, i] * Jb[j, 2])
    return True


@outlined(
    "b1(f8[:,::1], f8, i8, i8[::1], i8[::1], f8[:,::1], f8[:,:,::1], f8[:,::1], f8[:,::1], f8[:,::1], f8[:,:,::1])"
)
def reduce(M, mass, c, force, joint, contacts, legs, Ab, Al, Tau, P):  # type: ignore[no-untyped-def]
    """Accelerations and torques as affine functions of the unknowns u, or False near a singularity.

    Args:
        M: (7, 6) the base's own entries of M and h.
        mass: of the robot, the unit of forces.
        c: column of constants; columns before it are those of u.
        force: (4,) first column of each contact's force, or -1.
        joint: (4,) first column of each leg's joint accelerations, or -1.
        contacts: (4, ...) the contacts' numbers.
        legs: (4, KNOWN, 3) what is known of the legs.
        Ab: (6, > c) takes the base's acceleration.
        Al: (12, > c) takes the joints', leg by leg.
        Tau: (12, > c) takes their torques.
        P: (6, 6, 8) work.
    """
    B = P[4]
    column = P[5, 0]
    for i in range(6):
        for j in range(6):
            B[i, j] = M[i, j]
        clear(Ab[i], Ab.shape[1])
        Ab[i, c] = -M[6, i]
    for k in range(legs.shape[0]):
        F = legs[k, COUPLED:OWN]
        if contacts[k, SHARE] >= 1.0:
            if not held(k, legs, P[k]):
                return False
            p0, p1, p2 = P[k, 0], P[k, 1], P[k, 2]
            for i in range(6):
                a, b, d = F[i, 0], F[i, 1], F[i, 2]
                Ab[i, c] -= a * p0[6] + b * p1[6] + d * p2[6]
                add(B[i], a, p0, WIDTH)
                add(B[i], b, p1, WIDTH)
                add(B[i], d, p2, WIDTH)
        else:
            for i in range(6):
                for m in range(3):
                    Ab[i, joint[k] + m] = -F[i, m]
        if force[k] >= 0:
            for i in range(6):
                for m in range(3):
                    Ab[i, force[k] + m] = mass * legs[k, BASE + i, m]
    if not eliminate(B, Ab, c + 1) > BASE_LEAST:
        return False
    for k in range(legs.shape[0]):
        for i in range(3):
            row = Al[3 * k + i]
            if joint[k] < 0:
                total(row, P[k, i], Ab, 6, c + 1)
                row[c] += P[k, i, 6]
            else:
                clear(row, c + 1)
                row[joint[k] + i] = 1.0
    for k in range(legs.shape[0]):
        for i in range(3):
            row = Tau[3 * k + i]
            for m in range(6):
                column[m] = legs[k, COUPLED + m, i]
            total(row, column, Ab, 6, c + 1)
            blend(row, row, legs[k, OWN + i], Al[3 * k :], 3, c + 1)
            row[c] += legs[k, BIAS, i]
            if force[k] >= 0:
                for m in range(3):
                    row[force[k] + m] -= mass * legs[k, LEG + i, m]
    return True


@outlined(
    "f8(f8[:,::1], f8, i8, i8[::1], i8[:,:,::1], f8[:,::1], f8[:,:,::1], f8[:,::1], f8[:,::1], f8[::1], f8[::1], "
    "f8[::1], f8[::1], f8[:,:,::1])"
)  # fmt: skip
def recover(M, mass, n, force, index, contacts, legs, Ab, Al, x, tau, a, f, P):  # type: ignore[no-untyped-def]
    """Torques, accelerations and forces of u = x; by how much made contacts move all the same.

    Arguments as of `reduce`; index is (3, 4, 3), of q, v and torques; x is u with a one behind it, then zeros to a
    multiple of `WIDTH`; tau (12,), a (18,) and f (12,) are taken.
    """
    iv, ia = index[1], index[2]
    B, six = P[4], P[5]
    dots(a, Ab, x, 6, n + 1)
    dots(tau, Al, x, 12, n + 1)
    for k in range(legs.shape[0]):
        for i in range(3):
            a[iv[k, i]] = tau[3 * k + i]
            f[3 * k + i] = mass * x[force[k] + i] if force[k] >= 0 else 0.0
    # The six rows once more, on what rounding leaves; then the torques.
    for i in range(6):
        s = -M[6, i]
        for j in range(6):
            s -= M[i, j] * a[j]
            B[i, j] = M[i, j]
        for k in range(legs.shape[0]):
            at = legs[k]
            for o in range(3):
                s -= at[COUPLED + i, o] * a[iv[k, o]]
            if force[k] >= 0:
                for o in range(3):
                    s += at[BASE + i, o] * f[3 * k + o]
        six[i, 0] = s
    eliminate(B, six, 1)
    for i in range(6):
        a[i] += six[i, 0]
    moved = 0.0
    for k in range(legs.shape[0]):
        at = legs[k]
        for i in range(3):
            s = at[BIAS, i]
            for j in range(6):
                s += at[COUPLED + j, i] * a[j]
            for j in range(3):
                s += at[OWN + i, j] * a[iv[k, j]]
            if force[k] >= 0:
                for j in range(3):
                    s -= at[LEG + i, j] * f[3 * k + j]
            tau[ia[k, i]] = s
        if contacts[k, SHARE] >= 1.0:
            for i in range(3):
                s = at[DRIFT, i] - at[REST, i]
                for j in range(6):
                    s += at[BASE + j, i] * a[j]
                for j in range(3):
                    s += at[LEG + j, i] * a[iv[k, j]]
                moved = max(moved, abs(s)) if np.isfinite(s) else np.inf
    return moved
