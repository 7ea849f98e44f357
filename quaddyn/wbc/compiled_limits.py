"""Limits of torques and joints, and rows that elements have given themselves, on the compiled dense path.

Importing this module imports numba.
"""

from __future__ import annotations

from ..hierarchy.jit import inner
from .compiled_elements import most_acceleration
from .compiled_maps import copy, hide


@inner
def torque_length(o, M, lengths, Jc, mass):  # type: ignore[no-untyped-def]
    """How long the row of a torque is over all unknowns."""
    length = 0.0
    for j in range(M.shape[0]):
        length += abs(M[o, j]) * lengths[j]
    for c in range(Jc.shape[0]):
        length += mass * abs(Jc[c, o])
    return length


@inner
def torque_rows(p, z, rate, before, scale, torques, M, lengths, Jc, mass, motors, d, hidden, C, lower, upper):  # type: ignore[no-untyped-def]
    """Limits of torques, or of their change since the tick `before`."""
    for i in range(motors.shape[0]):
        bound, middle = z[i], 0.0
        if rate > 0.0:
            bound *= rate
            middle = before[i]
        elif not bound < 1e17:
            continue
        if p < C.shape[0]:
            length = torque_length(motors[i], M, lengths, Jc, mass) if hidden else 0.0
            s = copy(torques[i], length, d, scale, hidden, C[p])
            lower[p] = scale * (middle - bound) - s
            upper[p] = scale * (middle + bound) - s
        p += 1
    return p


@inner
def bound_rows(p, z, entries, motors, q, v, scale, full, d, hidden, C, lower, upper):  # type: ignore[no-untyped-def]
    """Joint bounds; z: horizon, recovery, viability, then per joint lower, upper, fastest, most."""
    nu = motors.shape[0]
    for i in range(nu):
        if p < C.shape[0]:
            angle, rate, a, fastest = q[entries[i]], v[motors[i]], z[3 + 3 * nu + i], z[3 + 2 * nu + i]
            high = most_acceleration(z[3 + nu + i] - angle, rate, fastest, a, z[0], z[1], z[2])
            low = -most_acceleration(angle - z[3 + i], -rate, fastest, a, z[0], z[1], z[2])
            if low > high:
                low = min(max(-rate / z[0], -a), a)
                high = low
            s = copy(full[motors[i]], 1.0, d, scale, hidden, C[p])
            lower[p] = scale * low - s
            upper[p] = scale * high - s
        p += 1
    return p


@inner
def other_rows(  # type: ignore[no-untyped-def]
    m, p, level, others, full, torques, lengths, M, Jc, motors, mass, d, hidden, A, b, C, lower, upper
):  # fmt: skip
    """Rows that elements have given themselves."""
    nv, nf, nu = M.shape[0], Jc.shape[0], motors.shape[0]
    for i in range(others.shape[0]):
        z = others[i]
        if z[0] != level:
            continue
        equal = z[1] == z[2]
        if (equal and m < A.shape[0]) or (not equal and p < C.shape[0]):
            row, f = A[m] if equal else C[p], z[3]
            s, length, square = 0.0, 0.0, 0.0
            for j in range(d):
                row[j] = 0.0
            for c in range(nv + nf + nu):
                a = f * z[4 + c]
                if a == 0.0:
                    continue
                source = full[c] if c < nv + nf else torques[c - nv - nf]
                if nv <= c < nv + nf:
                    a *= mass
                for j in range(d):
                    row[j] += a * source[1 + j]
                s += a * source[0]
                if c < nv + nf:
                    length += abs(a) * lengths[c]
                else:
                    length += abs(a) * torque_length(motors[c - nv - nf], M, lengths, Jc, mass)
            if hidden:
                for j in range(d):
                    square += row[j] * row[j]
                row[d] = hide(length, square)
            if equal:
                b[m] = f * z[1] - s
            else:
                lower[p] = f * z[1] - s
                upper[p] = f * z[2] - s
        if equal:
            m += 1
        else:
            p += 1
    return m, p
