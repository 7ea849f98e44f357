"""One tick of any robot, compiled from state to torques: the dense path.

There are two ways.  Contacts that hold are not left to the solver where they can be met: the first way solves their
rows of level 0 beforehand (`null_space`), and what is decided is what they leave free.  The second way leaves
everything to the solver, and is taken where the first has not led to an answer without fault.

Importing this module imports numba, and compiles what is not in numba's cache.
"""

from __future__ import annotations

import numpy as np

from ..hierarchy.compiled import ENDED, RANKS, WORST, descend
from ..hierarchy.jit import entry, inner, matrix
from .compiled_answer import recover, violation
from .compiled_bodies import inertia
from .compiled_contacts import AT, SHARE, SIZE, contact_point
from .compiled_frames import frame, motions
from .compiled_maps import maps
from .compiled_memory import (
    ACTUATED,
    BEFOREHAND,
    BOLTED,
    DAMPING,
    GOOD,
    GRAVITY,
    KKT,
    LEVELS,
    LIMITS,
    MASS,
    MOST,
    PASSIVE,
    ROWS_AT,
    TAU,
    TOLD,
    TOLERANCE,
    UNKNOWNS,
    VIOLATION,
    heard,
    integers,
    kept,
    mapping,
    part,
    rows,
    sections,
    seen,
    solving,
)
from .compiled_rows import hold, holding, levels

__all__ = ["tick"]

# What `tick` returns; VIOLATED if level 0 is not met, which may be the best that can be done.
SOLVED, VIOLATED, NOT_SOLVED = 0, 1, 2

#: Violation of level 0 [m/s^2] and KKT residual up to which contacts solved beforehand stand.
KEPT = 1e-9

#: KKT residual up to which an answer stands; beyond it a warm start is taken back first.
VERIFIED = 1e-9

#: Violation of level 0 [m/s^2] up to which it counts as met.
MET = 1e-6

#: Rounds of the active set per level.
ROUNDS = 500


@entry
def tick(  # type: ignore[no-untyped-def]
    JT, placed, q, v, numbers, told, others, table, constants, beforehand, sets, F, N, answer
):  # fmt: skip
    """From a state to torques; `compiled_memory` tells where what lies in the arrays.

    Args:
        JT: (nv, 6) columns of the world Jacobian, one a row.
        placed: (joints, 4, 3) the columns of each joint's rotation in the world, then its origin.
        q: (nq,).
        v: (nv,).
        numbers: of all elements, one after the other; tasks without a reference take what is found.
        told: what else may change between ticks.
        others: (rows, 4 + nv + nf + nu) rows of other elements: level, lower, upper, weight, then over accelerations,
            forces of the contacts that are there, torques.
        table: integers, of robot and elements.
        constants: numbers, likewise.
        beforehand: whether to try the first way.
        sets: (4, ...) per way the working sets that the last tick was told, and those that it found.
        F: work.
        N: integers: memory of the last tick, and work.
        answer: takes violation of level 0, KKT residual, rank of what was solved beforehand, torques (nu,),
            accelerations (nv,), forces (nf,), ranks of the levels as the solver found them, numbers.

    Returns:
        What became of it.
    """
    joints, frame_joints, chains, motors, passive, program, _ = sections(table)
    _, contacts, _, _ = heard(told, table)
    nu, free, nc, K = table[ACTUATED], table[PASSIVE], contacts.shape[0], table[LEVELS]
    nv, mass, tolerance = nu + free, constants[MASS], constants[TOLERANCE]

    # Who pushes, and where its force begins.
    nf = 0
    for k in range(nc):
        if contacts[k, SHARE] > 0.0:
            nf += int(contacts[k, SIZE])
    column, ms, ps, last, order, ints, _ = integers(N, nc, nf, K)
    nf = 0
    for k in range(nc):
        column[k] = -1
        if contacts[k, SHARE] > 0.0:
            column[k] = nf
            nf += int(contacts[k, SIZE])

    nj, moved = joints.shape[0], frame_joints.shape[0]
    M, h, L, Jc, aims, full, torques, lengths, at = kept(F, nv, nu, nf)
    twist, drifts, whole, com, frames, J, Jo, found, turn, vec, at = seen(F, at, nv, nj, moved)
    motions(joints, JT, v, twist, drifts)
    bodies, begin = part(constants, BOLTED + 12 * moved, nj, 10)
    JO = matrix(J[0], 0, nv, 6)
    inertia(
        joints, JT, placed, twist, drifts, bodies, constants[begin:], constants[GRAVITY:], whole, JO, vec, M, h, com
    )  # fmt: skip
    for i in range(moved):
        bolted, _ = part(constants, BOLTED + 12 * i, 4, 3)
        frame(frame_joints[i], bolted, placed, twist, drifts, frames[i])
    hold(program, numbers, contacts, q, com, frames)
    end, known = answer.shape[0] - numbers.shape[0], True
    for i in range(numbers.shape[0]):
        answer[end + i] = numbers[i]
        known &= numbers[i] == numbers[i]
    if not known:  # a NaN
        return NOT_SOLVED
    held, damping = holding(program, numbers)
    for k in range(nc):
        if column[k] >= 0:
            f = int(contacts[k, AT])
            contact_point(contacts[k], column[k], chains[f], frames[f], JT, damping, held, Jc, aims, J, vec)
    share = mapping(F, at, nv, nu, nf)[5]
    begin = mapping(F, at, nv, nu, nf)[8]
    lack, begin = part(F, begin, free, 8)

    outcome = NOT_SOLVED
    N[TOLD], N[TOLD + 1] = 0, 0
    for way in range(0 if beforehand else 1, 2):
        hidden = way == 0
        d = maps(M, h, Jc, aims, motors, passive, mass, tolerance, hidden, L, full, torques, lengths, F, at, order)
        n = d + 1 if hidden else d
        if n < 1:
            return NOT_SOLVED
        A, b, w, C, lower, upper, end = rows(F, begin, n, table[MOST], table[LIMITS])
        N[ROWS_AT], N[UNKNOWNS] = begin, n
        levels(
            M, JT, placed, com, q, v, numbers, told, others, table, constants, column, d, hidden, Jc, aims, full,
            torques, lengths, frames, J, Jo, found, turn, vec, A, b, C, lower, upper, ms, ps,
        )  # fmt: skip
        m, p = ms[K], ps[K]
        for i in range(m):
            w[i] = 1.0
        y, lam, stats, floats, _ = solving(F, end, n, p, K)
        was, now = matrix(sets[2 * way], 0, K + 1, p), matrix(sets[2 * way + 1], 0, K + 1, p)
        warm = remembered(way, N, ps, last[way], was, now)
        for _ in range(2):
            descend(
                A[:m], b[:m], w[:m], C[:p], lower[:p], upper[:p], ms, ps, tolerance, constants[DAMPING], ROUNDS, was,
                warm, y, now, lam, stats, floats, ints,
            )  # fmt: skip
            if not warm or (stats[ENDED] == 1.0 and stats[WORST] <= VERIFIED):
                break
            warm = False
            N[TOLD + way] = 0
        finite = recover(M, h, y, motors, passive, mass, L, Jc, full, d, lack, share, answer)
        N[GOOD + way] = 1 if finite and stats[ENDED] == 1.0 else 0
        if not finite or stats[ENDED] == 0.0:
            continue
        worst = violation(
            y, answer[TAU + nu :], d, ms[1], ps[1], mass, hidden, Jc, aims, A, b, C, lower, upper
        )  # fmt: skip
        answer[VIOLATION] = worst
        answer[KKT] = stats[WORST]
        answer[BEFOREHAND] = nu + nf - n if hidden else 0
        for k in range(K):
            answer[TAU + nu + nv + nf + k] = stats[RANKS + k]
        if hidden and worst <= KEPT and stats[WORST] <= KEPT:
            return SOLVED
        if not hidden and stats[WORST] <= VERIFIED and np.isfinite(worst):
            outcome = SOLVED if worst <= MET else VIOLATED
    return outcome


@inner
def remembered(way, N, ps, last, was, now):  # type: ignore[no-untyped-def]
    """Whether the last tick's working sets fit this one; they are then in `was`, and this tick's `ps` in `last`."""
    warm = N[GOOD + way] == 1
    for k in range(ps.shape[0]):
        warm = warm and last[k] == ps[k]
        last[k] = ps[k]
    if warm:
        for k in range(was.shape[0]):
            for i in range(was.shape[1]):
                was[k, i] = now[k, i]
    N[TOLD + way] = 1 if warm else 0
    return warm
