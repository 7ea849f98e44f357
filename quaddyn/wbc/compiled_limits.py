"""Limits of torques and joints, and rows that elements have given themselves, on the compiled dense path.

Importing this module imports numba.
"""

from __future__ import annotations

from ..hierarchy.jit import inner, outlined
from .compiled_elements import most_acceleration
from .compiled_maps import copy, hide


@inner
def torque_rows(p, z, rate, before, scale, torques, lengths, d, hidden, C, lower, upper):  # type: ignore[no-untyped-def]
    """Limits of torques, or of their change since the tick `before`; `lengths` of the torques."""
    for i in range(torques.shape[0]):
        bound, middle = z[i], 0.0
        if rate > 0.0:
            bound *= rate
            middle = before[i]
        elif not bound < 1e17:
            continue
        s = copy(torques[i], lengths[i], d, scale, hidden, C[p])
        lower[p] = scale * (middle - bound) - s
        upper[p] = scale * (middle + bound) - s
        p += 1
    return p


@inner
def bound_rows(p, z, entries, motors, q, v, scale, full, d, hidden, C, lower, upper):  # type: ignore[no-untyped-def]
    """Joint bounds; z: horizon, recovery, viability, then per joint lower, upper, fastest, most."""
    nu = motors.shape[0]
    for i in range(nu):
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


@outlined("f8(f8[::1], i8, f8[:,::1], f8[:,::1], f8[::1], f8, i8, b1, f8[::1])")
def own_row(z, moved, full, torques, lengths, mass, d, hidden, row):  # type: ignore[no-untyped-def]
    """A row that an element has given itself, z: level, lower, upper, weight, then over accelerations, forces, torques.

    Args:
        z: the numbers.
        moved: number of accelerations.
        full: see `compiled_memory.kept`.
        torques: likewise.
        lengths: likewise.
        mass: of the robot.
        d: number of unknowns.
        hidden: as of `copy`.
        row: takes it.

    Returns:
        The constant.
    """
    f = z[3]
    s, length, square = 0.0, 0.0, 0.0
    for j in range(d):
        row[j] = 0.0
    count = full.shape[0]
    for c in range(count + torques.shape[0]):
        a = f * z[4 + c]
        if a == 0.0:
            continue
        source = full[c] if c < count else torques[c - count]
        if moved <= c < count:
            a *= mass
        for j in range(d):
            row[j] += a * source[j]
        s += a * source[d]
        length += abs(a) * lengths[c]
    if hidden:
        for j in range(d):
            square += row[j] * row[j]
        row[d] = hide(length, square)
    return s
