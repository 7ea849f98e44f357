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
from ..hierarchy.jit import entry
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

__all__ = ["FACES", "tick"]

# What `tick` returns.
SOLVED, SINGULAR, NOT_SOLVED, NOT_GIVEN = 0, 1, 2, 3

# Slots of `extra`.
GRAVITY, MASS, LENGTH, LEGS, OFFSET, BEFORE, HAS_BEFORE, PERIOD = 0, 3, 4, 5, 53, 62, 74, 75
EXTRA = 76

# Slots of `answer`: torques, accelerations, forces, then the rest, and ranks from RANK on.
TAU, ACCELERATION, FORCE, VIOLATION, KKT, ROWS, RANK = 0, 12, 30, 42, 43, 44, 45


@entry
def tick(  # type: ignore[no-untyped-def]
    q, v, M, h, geometry, index, program, told, own, numbers, contacts, extra, last, guessed, tolerance, cap, working,
    answer, F, N, W,
):  # fmt: skip
    """From state to torques.

    Args:
        q: (nq,), free-flyer first.
        v: (18,).
        M: (18, 18).
        h: (18,).
        geometry: (4, 12, 3) per leg, of each joint in the body before it: rotations (3, 3, 3), positions (3, 3).
        index: (3, 4, 3) where a leg's joints are in q, in v and among the actuated ones.
        program: (elements, 4) level, code, where its numbers begin, leg or number of faces.
        told: the motion tasks' numbers, one after the other.
        own: those of other elements.
        numbers: takes both.
        contacts: (4, FACES + 3 * faces).
        extra: (EXTRA,) gravity (3), mass, length, per leg the axes of its joints (3, 3) and its foot in the last body
            (3), rotation of the base's frame in its body (9), torques of the tick before (12) and whether there was
            one, period.
        last: flat, working sets of the last tick.
        guessed: whether they fit.
        tolerance: of rank.
        cap: rounds per level.
        working: flat, takes this tick's.
        answer: (RANK + levels,) takes torques (12), acceleration (18), forces (4, 3), largest violation of level 0,
            KKT residual, number of inequalities, ranks of the levels and of the one that shortens.
        F: floats of the solver.
        N: its integers.
        W: work.

    Returns:
        What became of it.
    """
    for i in range(told.shape[0]):
        numbers[i] = told[i]
    for i in range(own.shape[0]):
        numbers[told.shape[0] + i] = own[i]
    mass, length = extra[MASS], extra[LENGTH]
    fixed = extra[LEGS:OFFSET].reshape(4, 4, 3)
    offset = extra[OFFSET:BEFORE].reshape(3, 3)
    before = extra[BEFORE:HAS_BEFORE]
    has_before, dt = extra[HAS_BEFORE], extra[PERIOD]
    elements = program.shape[0]
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
    # How many rows there may be, and what has not been given.
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
            if code < FORCES and numbers[program[e, 2]] == 0.0:
                if code != FOOT or contacts[program[e, 3], SHARE] < 1.0:
                    return NOT_GIVEN
        else:
            P += 4 * program[e, 3] if code == FRICTION else 4 if code == NORMAL else 12
    K += 1  # the shortest (a, f), where freedom is left

    width = 8 * (n // 8 + 1)  # of rows over (u, 1)
    at = 0
    base = W[at : at + KNOWN_BASE * 3].reshape(KNOWN_BASE, 3)
    at += KNOWN_BASE * 3
    legs = W[at : at + 12 * KNOWN].reshape(4, KNOWN, 3)
    at += 12 * KNOWN
    work = W[at : at + 27].reshape(9, 3)
    at += 27
    blocks = W[at : at + 288].reshape(6, 6, 8)
    at += 288
    Ab = W[at : at + 6 * width].reshape(6, width)
    at += 6 * width
    Al = W[at : at + 12 * width].reshape(12, width)
    at += 12 * width
    Tau = W[at : at + 12 * width].reshape(12, width)
    at += 12 * width
    look(q, v, M, mass, damping, index, geometry, contacts, fixed, base, legs)
    if not reduce(M, h, mass, n, force, joint, index[1], contacts, legs, Ab, Al, Tau, blocks):
        return SINGULAR

    A = W[at : at + E * n].reshape(E, n)
    at += E * n
    C = W[at : at + P * n].reshape(P, n)
    at += P * n
    b, ones = W[at : at + E], W[at + E : at + 2 * E]
    at += 2 * E
    lower, upper = W[at : at + P], W[at + P : at + 2 * P]
    at += 2 * P
    x = W[at : at + n]
    at += n
    stats = W[at : at + RANKS + 2 * K + 2]
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
                m = com(m, n, z, force, base, extra, A, b)
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
    lam = W[at : at + size].reshape(K + 1, p)
    at += size
    descend(
        A[:m], b[:m], ones[:m], C[:p], lower[:p], upper[:p], ms, ps, tolerance, 0.0, cap,
        last[:size].reshape(K + 1, p), guessed, x, working[:size].reshape(K + 1, p), lam, stats, F, N[10 + 2 * K :],
    )  # fmt: skip

    violation = 0.0
    for i in range(ps[1]):
        s = 0.0
        for j in range(n):
            s += C[i, j] * x[j]
        violation = max(violation, s - upper[i], lower[i] - s)
    tau, a, f = answer[TAU:ACCELERATION], answer[ACCELERATION:FORCE], answer[FORCE:VIOLATION]
    moved = recover(M, h, mass, n, force, index, contacts, legs, Ab, Al, x, tau, a, f, blocks)
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
