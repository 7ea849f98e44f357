"""One tick of a base on four independent legs of three joints, compiled from state to torques.

Twelve unknowns u whatever the contacts: per leg its contact force over the robot's mass, if its contact is made, or its
joint accelerations, if it is free (both, six, while a contact comes or goes).  A made contact does not move, which
gives the joint accelerations of its leg from the base's, ``a_l = J_l^-1 (w - J_b a_b)``; the base's come from the six
rows of the equations of motion without a motor.  Torques, accelerations and forces are then affine in u
(`compiled_reduction`), and the levels are those of the dense path over fewer unknowns (`compiled_elements`).

Importing this module imports numba, and compiles what is not in numba's cache.
"""

from __future__ import annotations

import numpy as np

from ..hierarchy.compiled import ENDED, RANKS, WORST, descend
from ..hierarchy.jit import entry, matrix
from ..hierarchy.lanes import WIDTH
from .compiled_elements import (
    BOUNDS,
    COM,
    CONTACT,
    FOOT,
    FORCES,
    FRICTION,
    NORMAL,
    ORIENTATION,
    POSTURE,
    RATE,
    TORQUE,
    capture,
    com,
    driven,
    foot,
    forces,
    orientation,
    posture,
    pressed,
    shortest,
)  # fmt: skip
from .compiled_legs import KNOWN
from .compiled_reduction import FACES, KNOWN_BASE, SHARE, look, recover, reduce

__all__ = ["FACES", "KNOWN", "tick"]

# What `tick` returns.
SOLVED, SINGULAR, NOT_SOLVED = 0, 1, 2

# Slots of the fixed floats: gravity, mass, length, control period, tolerance of rank, and the torques of the tick
# before with whether there was one; then, side by side, rotation of the base's frame in its body (9), per joint of a
# leg rotation and position in the body before it (4, 12, 3), their axes and the foot's centre (4, 4, 3), bodies
# (13, 10), armature (18), contacts (4, FACES + 3 * faces).
GRAVITY, MASS, LENGTH, PERIOD, TOLERANCE, BEFORE, HAS_BEFORE, OFFSET = 0, 3, 4, 5, 6, 7, 19, 20
GEOMETRY, FIXED, BODIES, ARMATURE, CONTACTS = 29, 173, 221, 351, 369

# Slots of the fixed integers: number of elements, of floats for the contacts, rounds per level; where a leg's joints
# are in q, in v and among the actuated ones (3, 4, 3); the program.
ELEMENTS, WIDE, CAP, INDEX, PROGRAM = 0, 1, 2, 3, 39

# Slots of `answer`: torques, accelerations, forces, then the rest, and ranks from RANK on.
TAU, ACCELERATION, FORCE, VIOLATION, KKT, ROWS, RANK = 0, 12, 30, 42, 43, 44, 45


@entry
def tick(q, v, numbers, constants, table, last, guessed, working, answer, F, N):  # type: ignore[no-untyped-def]
    """From state to torques.

    Args:
        q: (19,), free-flyer first.
        v: (18,).
        numbers: of the elements, one after the other; those of tasks without a reference take what is found.
        constants: see GRAVITY to CONTACTS.
        table: see ELEMENTS to PROGRAM; the program is (elements, 4) level, code, where the element's numbers begin, leg
            or number of faces.
        last: flat, working sets of the last tick.
        guessed: whether they fit.
        working: flat, takes this tick's.
        answer: (RANK + levels + numbers,) takes torques (12), acceleration (18), forces (4, 3), largest violation of
            level 0, KKT residual, number of inequalities, ranks of the levels and of the one that shortens; then a
            copy of `numbers`.
        F: work.
        N: integer work.

    Returns:
        What became of it.
    """
    if q.shape[0] != 19 or v.shape[0] != 18:
        return NOT_SOLVED
    gravity, mass, length, dt = constants[GRAVITY:MASS], constants[MASS], constants[LENGTH], constants[PERIOD]
    before, has_before = constants[BEFORE:HAS_BEFORE], constants[HAS_BEFORE]
    offset, geometry = matrix(constants, OFFSET, 3, 3), constants[GEOMETRY:FIXED].reshape(4, 12, 3)
    fixed, bodies = constants[FIXED:BODIES].reshape(4, 4, 3), matrix(constants, BODIES, 13, 10)
    armature, contacts = constants[ARMATURE:CONTACTS], matrix(constants, CONTACTS, 4, table[WIDE])
    elements, index = table[ELEMENTS], table[INDEX:PROGRAM].reshape(3, 4, 3)
    program = matrix(table, PROGRAM, elements, 4)
    force, joint = N[:4], N[4:8]

    # Who decides what.
    n = 0
    made = 0
    for k in range(4):
        share = contacts[k, SHARE]
        force[k] = -1
        joint[k] = -1
        if share > 0.0:
            force[k] = n
            n += 3
        if share < 1.0:
            joint[k] = n
            n += 3
        else:
            made += 1
    # How many rows there may be.
    K = 0
    E = 24
    P = 0
    damping = 0.0
    for e in range(elements):
        level, code = program[e, 0], program[e, 1]
        K = max(K, level + 1)
        if code == CONTACT:
            damping = numbers[program[e, 2]]
        elif code <= FORCES:
            E += 12
        else:
            P += 4 * program[e, 3] if code == FRICTION else 4 if code == NORMAL else 12
    K += 1  # the shortest (a, f), where freedom is left

    width = WIDTH * (n // WIDTH + 1)  # of rows over (u, 1)
    at = 0
    base = matrix(F, at, KNOWN_BASE, 3)
    at += KNOWN_BASE * 3
    legs = F[at : at + 12 * KNOWN].reshape(4, KNOWN, 3)
    at += 12 * KNOWN
    M = matrix(F, at, 7, 6)
    at += 42
    work = matrix(F, at, 9, 3)
    at += 27
    blocks = F[at : at + 288].reshape(6, 6, 8)
    at += 288
    Ab = matrix(F, at, 6, width)
    at += 6 * width
    Al = matrix(F, at, 12, width)
    at += 12 * width
    Tau = matrix(F, at, 12, width)
    at += 12 * width
    look(q, v, damping, gravity, index, geometry, contacts, fixed, bodies, armature, base, legs, M)
    if not reduce(M, mass, n, force, joint, contacts, legs, Ab, Al, Tau, blocks):
        return SINGULAR
    for e in range(elements):
        code = program[e, 1]
        if code < FORCES and numbers[program[e, 2]] == 0.0:
            k = program[e, 3]
            if code != FOOT or contacts[k, SHARE] < 1.0:
                capture(code, numbers[program[e, 2] :], q, base, offset, legs[k])
    tail = answer.shape[0] - numbers.shape[0]
    unset = 0
    for i in range(numbers.shape[0]):
        answer[tail + i] = numbers[i]
        unset += numbers[i] != numbers[i]
    if unset > 0:
        return NOT_SOLVED

    A = matrix(F, at, E, n)
    at += E * n + WIDTH
    C = matrix(F, at, P, n)
    at += P * n + WIDTH
    b, ones = F[at : at + E], F[at + E : at + 2 * E]
    at += 2 * E
    lower, upper = F[at : at + P], F[at + P : at + 2 * P]
    at += 2 * P
    x, u = F[at : at + n], F[at : at + width]
    at += width
    stats = F[at : at + RANKS + 2 * K + 2]
    at += RANKS + 2 * K + 2
    ms, ps = N[8 : 9 + K], N[9 + K : 10 + 2 * K]
    m = 0
    p = 0
    for level in range(K - 1):
        ms[level] = m
        ps[level] = p
        for e in range(elements):
            if program[e, 0] != level:
                continue
            code = program[e, 1]
            z = numbers[program[e, 2] :]
            if code == COM:
                m = com(m, n, z, force, base, gravity, A, b)
            elif code == ORIENTATION:
                m = orientation(m, n, z, base, offset, Ab, work, A, b)
            elif code == FOOT:
                k = program[e, 3]
                if contacts[k, SHARE] < 1.0:
                    m = foot(m, n, z, contacts[k, SHARE], joint[k], base, legs[k], Ab, work, A, b)
            elif code == POSTURE:
                m = posture(m, n, z, q, v, index, Al, A, b)
            elif code == FORCES:
                m = forces(m, n, z, mass, force, A, b)
            elif code == FRICTION or code == NORMAL:
                p = pressed(code, p, n, program[e, 3], mass, force, contacts, C, lower, upper)
            elif code == TORQUE or code == BOUNDS or (code == RATE and has_before != 0.0):
                p = driven(code, p, n, z, q, v, mass, length, dt, before, index, Al, Tau, C, lower, upper)
    ms[K - 1] = m
    ps[K - 1] = p
    m = shortest(m, n, force, Al, A, b)
    ms[K] = m
    ps[K] = p
    for i in range(m):
        ones[i] = 1.0
    size = (K + 1) * p
    lam = matrix(F, at, K + 1, p)
    at += size
    descend(
        A[:m], b[:m], ones[:m], C[:p], lower[:p], upper[:p], ms, ps, constants[TOLERANCE], 0.0, table[CAP],
        matrix(last, 0, K + 1, p), guessed, x, matrix(working, 0, K + 1, p), lam, stats, F[at:],
        N[10 + 2 * K :],
    )  # fmt: skip

    violation = 0.0
    for i in range(ps[1]):
        s = 0.0
        for j in range(n):
            s += C[i, j] * x[j]
        violation = max(violation, s - upper[i], lower[i] - s)
    u[n] = 1.0
    for j in range(n + 1, width):
        u[j] = 0.0
    tau, a, f = answer[TAU:ACCELERATION], answer[ACCELERATION:FORCE], answer[FORCE:VIOLATION]
    moved = recover(M, mass, n, force, index, contacts, legs, Ab, Al, u, tau, a, f, blocks)
    answer[VIOLATION] = max(violation, moved)
    answer[KKT] = stats[WORST]
    answer[ROWS] = p
    for k in range(K):
        answer[RANK + k] = stats[RANKS + k]
    answer[RANK] += 3 * made
    s = answer[VIOLATION] + stats[WORST]
    for i in range(VIOLATION):
        s += abs(answer[i])
    if stats[ENDED] == 0.0 or not np.isfinite(s):
        return NOT_SOLVED
    return SOLVED
