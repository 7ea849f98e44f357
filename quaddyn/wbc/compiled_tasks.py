"""Rows of motion tasks on the compiled dense path.

A task's numbers z lie as `quaddyn.wbc.task.LAYOUT` says; `found` (3, 6) holds what is: error, velocity and drift of its
rows.  Importing this module imports numba.
"""

from __future__ import annotations

import numpy as np

from ..hierarchy.jit import inner, outlined
from .compiled_frames import DRIFT, FRAME, ORIGIN, SPEED, SPIN, SPIN_DRIFT, cross
from .compiled_legs import log3
from .compiled_maps import combine, copy

# Codes of the kinds, as the classes have them.
COM, POSITION, FOOT, ORIENTATION, POSE, RELATIVE, POSTURE, JOINTS = 1, 2, 3, 4, 5, 6, 7, 8

ERROR, VELOCITY, BIAS = 0, 1, 2


@inner
def capture(code, size, z, q, com, F, G):  # type: ignore[no-untyped-def]
    """A task wants from now on what is found: the centre of mass, q, its frame F, or F as another one, G, sees it."""
    p = z[1 + 6 * size :]
    z[0] = 1.0
    if code == COM:
        for i in range(3):
            p[i] = com[i]
    elif code == POSTURE:
        for i in range(q.shape[0]):
            p[i] = q[i]
    elif code == ORIENTATION:
        for i in range(9):
            p[i] = F[i]
    elif code == RELATIVE:
        for i in range(3):
            p[i] = 0.0
            for k in range(3):
                p[i] += G[3 * k + i] * (F[ORIGIN + k] - G[ORIGIN + k])
            for j in range(3):
                s = 0.0
                for k in range(3):
                    s += G[3 * k + i] * F[3 * k + j]
                p[3 + 3 * i + j] = s
    else:
        for i in range(3):
            p[i] = F[ORIGIN + i]
        if code == POSE:
            for i in range(9):
                p[3 + i] = F[i]


@inner
def desired(z, size, found, i):  # type: ignore[no-untyped-def]
    """Wanted acceleration of a row: reference and feedback."""
    wanted = z[1 + 5 * size + i] + z[1 + 2 * size + i] * (z[1 + 4 * size + i] - found[VELOCITY, i])
    if z[0] != 0.0:
        wanted += z[1 + size + i] * found[ERROR, i]
    return wanted


@outlined("i8(i8, f8[::1], i8, f8[:,::1], i8[::1], f8[:,::1], f8[:,::1], f8[::1], i8, b1, f8[:,::1], f8[::1])")
def motion_rows(m, z, size, J, chain, found, full, lengths, d, hidden, A, b):  # type: ignore[no-untyped-def]
    """Rows of a task with Jacobian J (6, ...) over its chain; the number of equalities so far."""
    for i in range(size):
        if z[1 + 3 * size + i] != 0.0:
            f = z[1 + i]
            wanted = desired(z, size, found, i) - found[BIAS, i]
            b[m] = f * wanted - combine(J[i], chain[1:], chain[0], full, lengths, d, f, hidden, A[m])
            m += 1
    return m


@outlined(
    "i8(i8, f8[::1], f8, f8[:,::1], i8[::1], f8[:,::1], f8[:,::1], f8[:,::1], f8[::1], i8[::1], f8[:,::1], f8[::1], "
    "i8, b1, f8[:,::1], f8[::1])"
)
def shared_rows(  # type: ignore[no-untyped-def]
    m, z, share, J, chain, found, Jc, aims, row, everything, full, lengths, d, hidden, A, b
):  # fmt: skip
    """Rows that pass from a foot's task to its contact; see `FootTask.shared_rows`.  Jc and aims (2, 3) are its own."""
    for i in range(3):
        own, f = 1.0 - share, z[1 + i] / (1.0 - share)
        wanted = own * (desired(z, 3, found, i) - found[BIAS, i]) + share * (aims[1, i] - aims[0, i])
        for j in range(everything[0]):
            row[j] = share * Jc[i, j]
        for j in range(chain[0]):
            row[chain[1 + j]] += own * J[i, j]
        b[m] = f * wanted - combine(row, everything[1:], everything[0], full, lengths, d, f, hidden, A[m])
        m += 1
    return m


@outlined("i8(i8, f8[::1], i8, i8[::1], f8[::1], f8[::1], f8[:,::1], f8[::1], i8, b1, f8[:,::1], f8[::1])")
def posture_rows(m, z, size, index, q, v, full, lengths, d, hidden, A, b):  # type: ignore[no-untyped-def]
    """Rows of a posture; per joint where it is in v, in q, and how many entries of q it has."""
    first = 1 + 6 * size
    for i in range(size):
        if z[1 + 3 * size + i] == 0.0:
            continue
        jv, jq = index[3 * i], index[3 * i + 1]
        wanted = z[1 + 5 * size + i] + z[1 + 2 * size + i] * (z[1 + 4 * size + i] - v[jv])
        if z[0] != 0.0:
            error = z[first + jq] - q[jq]
            if index[3 * i + 2] == 2:  # an angle without end, as cosine and sine
                x, y = z[first + jq], z[first + jq + 1]
                error = np.arctan2(q[jq] * y - q[jq + 1] * x, q[jq] * x + q[jq + 1] * y)
            wanted += z[1 + size + i] * error
        b[m] = z[1 + i] * wanted - copy(full[jv], lengths[jv], d, z[1 + i], hidden, A[m])
        m += 1
    return m


@outlined("void(i8, i8, f8[::1], f8[::1], i8, f8[:,::1], f8[:,::1], f8[:,::1])")
def of_frame(code, size, z, F, count, J, found, turn):  # type: ignore[no-untyped-def]
    """What is of a task on one frame; its Jacobian J (6, count ...) loses the rows that the task does not have."""
    spin = 3  # where the rows about turning begin
    if code == ORIENTATION:
        spin = 0
        for i in range(3):
            for j in range(count):
                J[i, j] = J[3 + i, j]
    else:
        for i in range(3):
            found[ERROR, i] = z[1 + 6 * size + i] - F[ORIGIN + i]
            found[VELOCITY, i] = F[SPEED + i]
            found[BIAS, i] = F[DRIFT + i]
    if code == ORIENTATION or code == POSE:
        for i in range(3):
            for j in range(3):
                turn[i, j] = F[3 * i + j]
            found[ERROR, spin + i] = 0.0
            found[VELOCITY, spin + i] = F[SPIN + i]
            found[BIAS, spin + i] = F[SPIN_DRIFT + i]
        if z[0] != 0.0:
            first = 1 + 6 * size + spin
            log3(z[first : first + 9], turn, found[ERROR, spin : spin + 3])


@inner
def spread(chain, J):  # type: ignore[no-untyped-def]
    """A Jacobian's columns from side by side to where they belong; chains ascend."""
    for i in range(6):
        for j in range(chain[0], J.shape[1]):
            J[i, j] = 0.0
        for k in range(chain[0] - 1, -1, -1):
            j = chain[1 + k]
            if j != k:
                J[i, j] = J[i, k]
                J[i, k] = 0.0


@inner
def turned(G, x, y, z, out):  # type: ignore[no-untyped-def]
    """A vector of the world in the axes of a frame."""
    for i in range(3):
        out[i] = G[i] * x + G[3 + i] * y + G[6 + i] * z


@outlined("void(f8[::1], f8[::1], f8[::1], i8[::1], i8[::1], f8[:,::1], f8[:,::1], f8[:,::1], f8[:,::1], f8[::1])")
def of_frames(z, F, G, chain, other, J, Jo, found, turn, vec):  # type: ignore[no-untyped-def]
    """What is of a frame F as another one, G, sees it, in that one's axes.

    J and Jo are the frames' own Jacobians over their chains; J takes the one that is wanted, over all velocities.
    """
    r, spin, seen, x, y = vec[0:3], G[SPIN:DRIFT], vec[3:6], vec[6:9], vec[9:12]
    spread(chain, J)
    spread(other, Jo)
    for i in range(3):
        r[i] = F[ORIGIN + i] - G[ORIGIN + i]
    for j in range(J.shape[1]):
        for i in range(6):
            J[i, j] -= Jo[i, j]
        J[0, j] += r[1] * Jo[5, j] - r[2] * Jo[4, j]
        J[1, j] += r[2] * Jo[3, j] - r[0] * Jo[5, j]
        J[2, j] += r[0] * Jo[4, j] - r[1] * Jo[3, j]
        turned(G, J[0, j], J[1, j], J[2, j], x)
        turned(G, J[3, j], J[4, j], J[5, j], y)
        for i in range(3):
            J[i, j] = x[i]
            J[3 + i, j] = y[i]
    cross(spin, r, x)
    for i in range(3):
        seen[i] = F[SPEED + i] - G[SPEED + i] - x[i]
    turned(G, seen[0], seen[1], seen[2], found[VELOCITY, 0:3])
    turned(G, F[SPIN] - G[SPIN], F[SPIN + 1] - G[SPIN + 1], F[SPIN + 2] - G[SPIN + 2], found[VELOCITY, 3:6])
    cross(spin, x, y)
    for i in range(3):
        y[i] = F[DRIFT + i] - G[DRIFT + i] - y[i]
    cross(G[SPIN_DRIFT:FRAME], r, x)
    for i in range(3):
        y[i] -= x[i]
    cross(spin, seen, x)
    turned(G, y[0] - 2.0 * x[0], y[1] - 2.0 * x[1], y[2] - 2.0 * x[2], found[BIAS, 0:3])
    cross(spin, F[SPIN:DRIFT], x)
    for i in range(3):
        y[i] = F[SPIN_DRIFT + i] - G[SPIN_DRIFT + i] - x[i]
    turned(G, y[0], y[1], y[2], found[BIAS, 3:6])
    turned(G, r[0], r[1], r[2], x)
    for i in range(3):
        found[ERROR, i] = z[37 + i] - x[i]
        found[ERROR, 3 + i] = 0.0
        for j in range(3):
            turn[i, j] = G[i] * F[j] + G[3 + i] * F[3 + j] + G[6 + i] * F[6 + j]
    if z[0] != 0.0:
        log3(z[40:49], turn, found[ERROR, 3:6])
