"""What contacts say on the compiled dense path: where they are, what they want, and the limits of their forces.

Importing this module imports numba.
"""

from __future__ import annotations

import numpy as np

from ..hierarchy.jit import outlined
from .compiled_frames import DRIFT, FRAME, ORIGIN, SPEED, SPIN, SPIN_DRIFT, cross, point_jacobian
from .compiled_maps import combine, copy
from .compiled_memory import BIAS, FORCE, MOTION, STRICT, WISH

# A contact's numbers; the rows of its friction pyramid follow, six entries each.
(
    SHARE, CAP, ROLE, SIZE, RADIUS, LEAST, LARGEST, HEIGHT, STIFFNESS, DAMPING, PUSHES, COUNT, AT, SHARED, TURNED,
    AXIS, OFFSET, FACES,
) = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 18, 21)  # fmt: skip
UNILATERAL, BILATERAL, COMPLIANT, FORCED = 0, 1, 2, 3


@outlined("void(f8[::1], i8, i8[::1], f8[::1], f8[:,::1], f8, b1, f8[:,::1], f8[:,::1], f8[:,::1], f8[::1])")
def contact_point(z, first, chain, F, J, damping, motions, Jc, aims, work, vec):  # type: ignore[no-untyped-def]
    """One contact's point.

    Args:
        z: the contact's numbers.
        first: where its force begins.
        chain: of its frame, see `compiled_memory.sections`.
        F: (FRAME,) its frame.
        J: (nv, 6) as of `motions`.
        damping: of the motion that a contact has when it is made [1/s].
        motions: whether anything wants contacts to hold.
        Jc: (nf, nv) takes the Jacobian.
        aims: (3, nf) takes what is wanted.
        work: (6, nv).
        vec: (24,) work.
    """
    size, role = int(z[SIZE]), int(z[ROLE])
    arm, lever, point, speed = vec[0:3], vec[3:6], vec[6:9], vec[9:15]
    turns = False
    for i in range(3):
        arm[i] = F[3 * i] * z[OFFSET] + F[3 * i + 1] * z[OFFSET + 1] + F[3 * i + 2] * z[OFFSET + 2]
        lever[i] = arm[i] - z[RADIUS] * z[AXIS + i]
        point[i] = F[ORIGIN + i] + lever[i]
        turns = turns or z[OFFSET + i] != 0.0
    point_jacobian(chain, J, point, work)
    cross(F[SPIN:DRIFT], lever, speed[0:3])
    bias = aims[BIAS, first : first + size]
    cross(F[SPIN_DRIFT:FRAME], lever, bias)
    for i in range(3):
        speed[i] += F[SPEED + i]
        speed[3 + i] = F[SPIN + i]
        bias[i] += F[DRIFT + i]
        if size == 6:
            bias[3 + i] = F[SPIN_DRIFT + i]
    if turns:  # the arm turns with the body, the sphere's radius does not
        cross(F[SPIN:DRIFT], arm, vec[15:18])
        cross(F[SPIN:DRIFT], vec[15:18], vec[18:21])
        for i in range(3):
            bias[i] += vec[18 + i]
    pressing = 0.0
    if role == COMPLIANT:
        depth, closing = z[HEIGHT], 0.0
        for i in range(3):
            depth -= z[AXIS + i] * point[i]
            closing += z[AXIS + i] * speed[i]
        if depth > 0.0:
            pressing = max(0.0, z[STIFFNESS] * depth - z[DAMPING] * closing)
    for i in range(size):
        c = first + i
        for j in range(Jc.shape[1]):
            Jc[c, j] = 0.0
        for j in range(chain[0]):
            Jc[c, chain[1 + j]] = work[i, j]
        aims[WISH, c] = -damping * speed[i]
        aims[STRICT, c] = 0.0
        if role == COMPLIANT:
            aims[WISH, c] = pressing * z[AXIS + i] if i < 3 else 0.0
            aims[STRICT, c] = FORCE
        elif role <= BILATERAL and z[SHARE] >= 1.0:
            aims[STRICT, c] = MOTION
        if not motions:
            aims[STRICT, c] = 0.0


@outlined("i8(i8, f8[::1], f8[::1], f8[:,::1], i8[::1], i8, b1, f8[::1], f8[:,::1], f8[::1], f8[::1])")
def friction_rows(p, z, R, forces, axes, d, hidden, spare, C, lower, upper):  # type: ignore[no-untyped-def]
    """The pyramid of a contact, `forces` from its first component on; the number of inequalities so far."""
    size = int(z[SIZE])
    row, lengths = spare[:6], spare[6:12]
    for i in range(6):
        lengths[i] = 1.0
    for o in range(int(z[COUNT])):
        y = z[FACES + 6 * o : FACES + 6 * o + 6]
        for i in range(6):
            row[i] = y[i]
        if z[TURNED] != 0.0:
            for i in range(3):
                row[i] = R[3 * i] * y[0] + R[3 * i + 1] * y[1] + R[3 * i + 2] * y[2]
                row[3 + i] = R[3 * i] * y[3] + R[3 * i + 1] * y[4] + R[3 * i + 2] * y[5]
        upper[p] = -combine(row, axes, size, forces, lengths, d, 1.0, hidden, C[p])
        lower[p] = -np.inf
        p += 1
    return p


@outlined("i8(i8, f8[::1], f8[:,::1], i8[::1], i8, f8, f8, b1, f8[::1], f8[:,::1], f8[::1], f8[::1])")
def normal_rows(p, z, forces, axes, d, mass, length, hidden, spare, C, lower, upper):  # type: ignore[no-untyped-def]
    """Bounds of a contact's normal force, or of a grip's components; as `friction_rows`."""
    cap = min(z[LARGEST], z[CAP])
    if z[PUSHES] != 0.0:
        for i in range(3):
            spare[i] = 1.0
        s = combine(z[AXIS:OFFSET], axes, 3, forces, spare, d, 1.0, hidden, C[p])
        lower[p] = min(z[LEAST] * z[SHARE], cap) / mass - s
        upper[p] = cap / mass - s
        p += 1
    elif cap < np.inf:  # a grip fades in and out on every axis
        for i in range(int(z[SIZE])):
            bound = (cap if i < 3 else cap * length) / mass
            s = copy(forces[i], 1.0, d, 1.0, hidden, C[p])
            lower[p] = -bound - s
            upper[p] = bound - s
            p += 1
    return p


@outlined(
    "i8(i8, f8[::1], f8[::1], f8, f8, i8, f8[:,::1], f8[:,::1], f8[::1], f8[:,::1], f8[:,::1], f8[::1], f8[::1], "
    "i8[::1], i8, f8, b1, f8[:,::1], f8[::1])"
)
def force_rows(  # type: ignore[no-untyped-def]
    m, z, y, weight, bandwidth, first, aims, Jc, v, forces, full, lengths, row, axes, d, mass, hidden, A, b
):  # fmt: skip
    """What a force task wants of one contact; y: whether it has a reference, the reference; the equalities so far.

    Of a compliant contact, whose force is not chosen, it wants that the force comes to the reference by motion.
    """
    if int(z[ROLE]) != COMPLIANT:
        for i in range(int(z[SIZE])):
            b[m] = weight * y[1 + i] - copy(forces[first + i], 1.0, d, weight * mass, hidden, A[m])
            m += 1
    elif y[0] != 0.0:
        nv = v.shape[0]
        lacking, along, speed = 0.0, 0.0, 0.0
        for j in range(nv):
            row[j] = 0.0
        for i in range(3):
            a, c = z[AXIS + i], first + i
            lacking += a * (y[1 + i] - aims[WISH, c])
            along += a * aims[BIAS, c]
            for j in range(nv):
                row[j] += a * Jc[c, j]
        for j in range(nv):
            speed += row[j] * v[j]
        wanted = -bandwidth * bandwidth * lacking / z[STIFFNESS] - 2.0 * bandwidth * speed - along
        b[m] = wanted - combine(row, axes, nv, full, lengths, d, 1.0, hidden, A[m])
        m += 1
    return m
