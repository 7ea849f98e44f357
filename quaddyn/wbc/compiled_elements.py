"""The rows of a compiled tick's levels, element by element; the same rows, units and weights as on the dense path.

Lanes (`hierarchy.lanes`) may write into the row that follows, which is written later.

Importing this module imports numba.
"""

from __future__ import annotations

import numpy as np

from ..hierarchy.jit import inner, outlined
from ..hierarchy.lanes import add, clear, scaled
from .compiled_legs import BASE, DRIFT, LEG, ORIGINS, REST, STATE, TURNS, log3, point_jacobian
from .compiled_reduction import (
    CAP,
    COM_AT,
    COM_SPEED,
    FACES,
    LARGEST,
    LEAST,
    NORMAL_AXIS,
    ORIGIN,
    SHARE,
    SPIN,
)  # fmt: skip

# Codes of the elements, as the classes have them.
COM, FOOT, ORIENTATION, POSTURE, FORCES = 1, 3, 4, 7, 20
CONTACT, FRICTION, NORMAL, TORQUE, RATE, BOUNDS = 101, 102, 103, 104, 105, 107


@inner
def most_acceleration(room, v, fastest, a, h, recovery, viable):  # type: ignore[no-untyped-def]
    """Largest acceleration of a joint with `room` to its upper limit; see `JointBounds`."""
    high = min(a, (fastest - v) / h)
    if np.isfinite(room):
        stop = -v / h
        end = 2.0 * (room - h * v) / (h * h)
        if end > stop:
            position = end
        else:
            position = stop
            if v > 0.0:
                position = min(stop, -v * v / max(2.0 * max(room, 0.0), 1e-12))
        high = min(high, position)
        if viable > 0.0:
            b = h * (2.0 * v + a * h)
            root = b * b - 4.0 * h * h * (v * v - 2.0 * a * (room - h * v))
            allowed = stop
            if root >= 0.0:
                allowed = (-b + np.sqrt(root)) / (2.0 * h * h)
            high = min(high, max(allowed, stop))
        if room < 0.0:
            high = min(high, (room / recovery - v) / h)
    return max(high, -a)


@outlined("void(i8, f8[::1], f8[::1], f8[:,::1], f8[:,::1], f8[:,::1])")
def capture(code, z, q, base, offset, at):  # type: ignore[no-untyped-def]
    """The reference position of a task that was given none: what is found."""
    z[0] = 1.0
    if code == COM:
        for i in range(3):
            z[19 + i] = base[COM_AT, i]
    elif code == FOOT:
        for i in range(3):
            z[19 + i] = at[STATE, i]
    elif code == ORIENTATION:
        for i in range(3):
            for j in range(3):
                s = base[i, 0] * offset[0, j] + base[i, 1] * offset[1, j] + base[i, 2] * offset[2, j]
                z[19 + 3 * i + j] = s
    else:
        for i in range(q.shape[0]):
            z[73 + i] = q[i]


@inner
def com(m, c, z, force, base, gravity, A, b):  # type: ignore[no-untyped-def]
    """The equations of motion say it: what forces the world exerts, the centre of mass follows."""
    for i in range(3):
        if z[1 + 9 + i] == 0.0:
            continue
        weight = z[1 + i]
        row = A[m]
        clear(row, c)
        for k in range(force.shape[0]):
            if force[k] >= 0:
                row[force[k] + i] = weight
        error = 0.0
        if z[0] != 0.0:
            error = z[19 + i] - base[COM_AT, i]
        wanted = z[16 + i] + z[7 + i] * (z[13 + i] - base[COM_SPEED, i]) + z[4 + i] * error
        b[m] = weight * (wanted - gravity[i])
        m += 1
    return m


@outlined("i8(i8, i8, f8[::1], f8[:,::1], f8[:,::1], f8[:,::1], f8[:,::1], f8[:,::1], f8[::1])")
def orientation(m, c, z, base, offset, Ab, work, A, b):  # type: ignore[no-untyped-def]
    """A frame of the base, turned by `offset`, against the world."""
    turned, error = work[:3], work[3]
    for i in range(3):
        for j in range(3):
            turned[i, j] = base[i, 0] * offset[0, j] + base[i, 1] * offset[1, j] + base[i, 2] * offset[2, j]
        error[i] = 0.0
    if z[0] != 0.0:
        log3(z[19:28], turned, error)
    for i in range(3):
        if z[10 + i] == 0.0:
            continue
        weight = z[1 + i]
        r0, r1, r2 = weight * base[i, 0], weight * base[i, 1], weight * base[i, 2]
        row, a3, a4, a5 = A[m], Ab[3], Ab[4], Ab[5]
        scaled(row, a3, r0, c)
        add(row, r1, a4, c)
        add(row, r2, a5, c)
        wanted = z[16 + i] + z[7 + i] * (z[13 + i] - base[SPIN, i]) + z[4 + i] * error[i]
        b[m] = weight * wanted - (r0 * a3[c] + r1 * a4[c] + r2 * a5[c])
        m += 1
    return m


@outlined("i8(i8, i8, f8[::1], f8, i8, f8[:,::1], f8[:,::1], f8[:,::1], f8[:,::1], f8[:,::1], f8[::1])")
def foot(m, c, z, share, joint, base, at, Ab, work, A, b):  # type: ignore[no-untyped-def]
    """A foot in the air, or one that shares its three rows with a contact that comes or goes."""
    Jb, Jl = work[:6], work[6:9]
    point_jacobian(at[STATE], base, base[ORIGIN], at[ORIGINS:TURNS], at[TURNS:STATE], Jb, Jl)
    for i in range(3):
        if share == 0.0 and z[10 + i] == 0.0:
            continue
        weight = z[1 + i] / (1.0 - share)
        error = 0.0
        if z[0] != 0.0:
            error = z[19 + i] - at[STATE, i]
        wanted = z[16 + i] + z[7 + i] * (z[13 + i] - at[STATE + 1, i]) + z[4 + i] * error - at[STATE + 2, i]
        wanted *= 1.0 - share
        if share > 0.0:
            wanted += share * (at[REST, i] - at[DRIFT, i])
            for j in range(6):
                Jb[j, i] = (1.0 - share) * Jb[j, i] + share * at[BASE + j, i]
            for j in range(3):
                Jl[j, i] = (1.0 - share) * Jl[j, i] + share * at[LEG + j, i]
        row = A[m]
        clear(row, c)
        s = wanted
        for f in range(6):
            line = Ab[f]
            add(row, weight * Jb[f, i], line, c)
            s -= Jb[f, i] * line[c]
        b[m] = weight * s
        for f in range(3):
            row[joint + f] += weight * Jl[f, i]
        m += 1
    return m


@inner
def posture(m, c, z, q, v, index, Al, A, b):  # type: ignore[no-untyped-def]
    """Given, six rows of 12, then a whole configuration."""
    for k in range(index.shape[1]):
        for i in range(3):
            o = index[2, k, i]
            if z[1 + 36 + o] == 0.0:
                continue
            weight = z[1 + o]
            error = 0.0
            if z[0] != 0.0:
                error = z[73 + index[0, k, i]] - q[index[0, k, i]]
            wanted = z[61 + o] + z[25 + o] * (z[49 + o] - v[index[1, k, i]]) + z[13 + o] * error
            row, line = A[m], Al[3 * k + i]
            scaled(row, line, weight, c)
            b[m] = weight * (wanted - line[c])
            m += 1
    return m


@inner
def forces(m, c, z, mass, force, A, b):  # type: ignore[no-untyped-def]
    """Weight, bandwidth, how many are wanted, which contacts it is about (4), wanted (4, 3)."""
    for k in range(force.shape[0]):
        if force[k] >= 0 and z[3 + k] != 0.0:
            for i in range(3):
                row = A[m]
                clear(row, c)
                row[force[k] + i] = z[0] * mass
                b[m] = z[0] * z[7 + 3 * k + i]
                m += 1
    return m


@inner
def shortest(m, c, force, Al, A, b):  # type: ignore[no-untyped-def]
    """What dense unknowns there are, (a_A, f / mass): the shortest, where freedom is left."""
    for i in range(Al.shape[0]):
        line = Al[i]
        scaled(A[m], line, 1.0, c)
        b[m] = -line[c]
        m += 1
    for k in range(force.shape[0]):
        if force[k] >= 0:
            for i in range(3):
                clear(A[m], c)
                A[m, force[k] + i] = 1.0
                b[m] = 0.0
                m += 1
    return m


@inner
def limit(C, p, line, scale, c, lower, upper, low, high):  # type: ignore[no-untyped-def]
    """``scale low <= scale (line u + constant) <= scale high``."""
    scaled(C[p], line, scale, c)
    lower[p] = scale * (low - line[c])
    upper[p] = scale * (high - line[c])


@outlined("i8(i8, i8, i8, i8, f8, i8[::1], f8[:,::1], f8[:,::1], f8[::1], f8[::1])")
def pressed(code, p, c, faces, mass, force, contacts, C, lower, upper):  # type: ignore[no-untyped-def]
    """Friction pyramids, or bounds of normal forces."""
    for k in range(force.shape[0]):
        if force[k] < 0:
            continue
        rows, first = (faces, FACES) if code == FRICTION else (1, NORMAL_AXIS)
        for o in range(rows):
            row = C[p]
            clear(row, c)
            for i in range(3):
                row[force[k] + i] = contacts[k, first + 3 * o + i]
            lower[p] = -np.inf
            upper[p] = 0.0
            if code == NORMAL:
                most = min(contacts[k, LARGEST], contacts[k, CAP])
                lower[p] = min(contacts[k, LEAST] * contacts[k, SHARE], most) / mass
                upper[p] = most / mass
            p += 1
    return p


@outlined(
    "i8(i8, i8, i8, f8[::1], f8[::1], f8[::1], f8, f8, f8, f8[::1], i8[:,:,::1], f8[:,::1], f8[:,::1], f8[:,::1], "
    "f8[::1], f8[::1])"
)
def driven(code, p, c, z, q, v, mass, length, dt, before, index, Al, Tau, C, lower, upper):  # type: ignore[no-untyped-def]
    """Limits of torques, of their rates, or of the joints' accelerations."""
    weight = 1.0 / (mass * length)
    for k in range(index.shape[1]):
        for i in range(3):
            o = index[2, k, i]
            if code == BOUNDS:
                # horizon, recovery, viability, then per joint lower, upper, fastest, most
                at, rate, a = q[index[0, k, i]], v[index[1, k, i]], z[39 + o]
                high = most_acceleration(z[15 + o] - at, rate, z[27 + o], a, z[0], z[1], z[2])
                low = -most_acceleration(at - z[3 + o], -rate, z[27 + o], a, z[0], z[1], z[2])
                if low > high:
                    low = min(max(-rate / z[0], -a), a)
                    high = low
                limit(C, p, Al[3 * k + i], length, c, lower, upper, low, high)
                p += 1
            elif code == RATE:
                limit(C, p, Tau[3 * k + i], weight, c, lower, upper, before[o] - z[o] * dt, before[o] + z[o] * dt)
                p += 1
            elif z[o] < 1e17:
                limit(C, p, Tau[3 * k + i], weight, c, lower, upper, -z[o], z[o])
                p += 1
    return p
