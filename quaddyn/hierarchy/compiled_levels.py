"""Level by level, each within what those above it leave: a working set is tried, and else the active set's rounds run.

Importing this module imports numba.
"""

from __future__ import annotations

import numpy as np

from .compiled_leave import arrive
from .compiled_level import rounds, trial
from .compiled_rows import combine, length, project, values
from .compiled_work import (
    CE,
    CLEN,
    COUNT,
    CT,
    CZ,
    END,
    ENDED,
    EQUAL,
    FIXED,
    GIVEN,
    HE,
    HI,
    HOLD,
    ITERATIONS,
    KEPT,
    LE,
    LIMIT,
    LO,
    MLEN,
    MM,
    MU,
    MZ,
    ONES,
    OWN,
    PATH,
    QQ,
    R0,
    RANKS,
    REACH,
    ROLE,
    TARGET,
    WORK,
    Y0,
    YE,
    ZERO,
    ZZ,
)  # fmt: skip
from .jit import inner, outlined

SPREAD = 1e3
#: Share of the largest multiplier beyond which a row of the guess is taken to press on the guess's first level.
HEAVY = 1e-4


@inner
def face(k, q, damping, x, B, U, N):  # type: ignore[no-untyped-def]
    """The objective of level k as seen from x in the freedom from q on: MZ, R0, TARGET and MLEN; how many rows."""
    n, m = x.shape[0], N[COUNT, k]
    Q, Mz, target, mlen, r0 = B[QQ], B[MZ], U[TARGET], U[MLEN], U[R0]
    for i in range(m):
        target[i] = U[GIVEN + 2 * k, i]
        mlen[i] = U[GIVEN + 2 * k + 1, i]
    project(B[MM + k], m, n, Q, q, Mz)
    combine(B[MM + k], m, n, x, -1.0, target, r0)
    if not damping > 0.0:
        return m
    for i in range(n):
        for j in range(n - q):
            Mz[j, m + i] = damping * Q[q + j, i]
        target[m + i] = 0.0
        mlen[m + i] = damping
        r0[m + i] = damping * x[i]
    return m + n


@outlined(f"i8(i8, i8, f8, i8[::1], f8[::1], {WORK})")
def enter(k, q, damping, ps, x, B, U, N):  # type: ignore[no-untyped-def]
    """Level k as seen from x in the freedom from q on: `face`, CZ, Y0 and ROLE, z = 0; the number of its rows."""
    n, K = x.shape[0], ps.shape[0] - 1
    P, role, equal = ps[K], N[ROLE], N[EQUAL]
    m = face(k, q, damping, x, B, U, N)
    if k < K:
        for i in range(ps[k], ps[k + 1]):
            role[i] = FIXED if equal[i] else OWN
    project(B[CT], P, n, B[QQ], q, B[CZ])
    values(n, P, B[CT], U[ZERO], x, U[Y0])
    for j in range(n - q):
        U[ZZ, j] = 0.0
    return m


@inner
def propose(P, told, heaviest, sides, U, N):  # type: ignore[no-untyped-def]
    """The working set to try: what was told of the level's limits, without light rows if there is a heaviest."""
    lo, hi, clen, mu, role = U[LO], U[HI], U[CLEN], U[MU], N[ROLE]
    for i in range(P):
        v = told[i]  # may be what it writes to
        sides[i] = 0
        if role[i] == LIMIT or role[i] == OWN:
            if (v > 0 and hi[i] < np.inf) or (v < 0 and lo[i] > -np.inf):
                if heaviest < 0.0 or mu[i] * clen[i] > HEAVY * heaviest:
                    sides[i] = v


@outlined(f"Tuple((b1, i8, i8))(i8, i8, i8, f8, f8, i8, i1[::1], f8[::1], {WORK})")
def evened(d, m, P, tolerance, size, cap, sides, lam, B, U, N):  # type: ignore[no-untyped-def]
    """Rounds with rows of equal length: (whether everything can be kept, rounds, directions decided).

    If all can be kept the lengths of the rows mean nothing, and no digits are lost to long ones.
    """
    Mz, Cz, Ce, role = B[MZ], B[CZ], B[CE], N[ROLE]
    r0, target, mlen, z, end = U[R0], U[TARGET], U[MLEN], U[ZZ], U[END]
    le, he, ones = U[LE], U[HE], U[ONES]
    for i in range(m):
        s = 1.0 / mlen[i]
        for j in range(d):
            Mz[j, i] *= s
        r0[i] *= s
        target[i] *= s
        mlen[i] = 1.0
    for i in range(P):
        s = 1.0 / U[CLEN, i] if U[CLEN, i] > 0.0 else 1.0
        for j in range(d):
            Ce[j, i] = Cz[j, i] * s
        U[YE, i] = U[Y0, i] * s
        le[i] = U[LO, i] * s
        he[i] = U[HI, i] * s
        ones[i] = U[CLEN, i] * s
    done, count, decided = rounds(d, m, P, tolerance, size, cap, CE, YE, sides, lam, B, U, N)
    s = 0.0
    for j in range(d):
        s += z[j] * z[j]
    far = size + np.sqrt(s)
    for i in range(m):
        s = r0[i]
        for j in range(d):
            s += Mz[j, i] * z[j]
        if abs(s) > KEPT * (far + abs(target[i])):
            done = False
    values(d, P, Ce, U[YE], z, end)
    for i in range(P):
        if role[i] == OWN:
            s = end[i]
            room = KEPT * ones[i] * far
            if s > he[i] + room + KEPT * abs(he[i]) or s < le[i] - room - KEPT * abs(le[i]):
                done = False
    return done, count, decided


@inner
def uneven(m, P, U, N):  # type: ignore[no-untyped-def]
    """Whether a level with inequalities of its own has rows of very different lengths."""
    shortest = np.inf
    longest = 0.0
    mine = 0
    for i in range(m):
        shortest = min(shortest, U[MLEN, i])
        longest = max(longest, U[MLEN, i])
    for i in range(P):
        if N[ROLE, i] == OWN and U[CLEN, i] > 0.0:
            mine += 1
            shortest = min(shortest, U[CLEN, i])
            longest = max(longest, U[CLEN, i])
    return mine > 0 and longest > SPREAD * shortest


@outlined(
    f"i8(i8, i8, b1, b1, b1, f8, f8, f8, i8, i8, i8[::1], i1[:,::1], f8[::1], i1[:,::1], f8[:,::1], f8[::1], {WORK})"
)
def level(  # type: ignore[no-untyped-def]
    k, q, found, foremost, guessed, tolerance, damping, heaviest, cap, patience, ps, told, x, working, lam,
    stats, B, U, N,
):  # fmt: skip
    """Level k solved from x in the freedom from q on: the rank that it takes.

    Args:
        k: which.
        q: where its freedom begins in the basis.
        found: whether HOLD has a guess of the working set.
        foremost: whether k is the guess's first level.
        guessed: else, whether `told` has one.
        tolerance: of rank.
        damping: of the level.
        heaviest: largest multiplier of the guess.
        cap: rounds at most.
        patience: rounds at most before a guess is given up.
        ps: where the levels' inequalities begin and end.
        told: working sets to try.
        x: (n,) where it starts and ends.
        working: takes the working set.
        lam: takes the multipliers.
        stats: takes rank, kkt and whether rounds ended.
        B: matrices.
        U: vectors.
        N: integers.
    """
    n, P = x.shape[0], ps[-1]
    role, hold = N[ROLE], N[HOLD]
    sides, multipliers = working[k], lam[k]
    d = n - q
    reach = stats[REACH]
    size = max(reach, length(x))
    m = enter(k, q, damping, ps, x, B, U, N)
    done = False
    even = False
    decided = 0
    if found:
        propose(P, hold, heaviest if foremost else -1.0, sides, U, N)
    elif guessed:
        propose(P, told[k], -1.0, sides, U, N)
    if found or guessed:
        done, decided = trial(d, m, P, tolerance, size, sides, multipliers, B, U, N)
    if not done:
        stats[PATH] = 2.0
        for i in range(P):
            sides[i] = 0
            if role[i] == LIMIT:
                if found:
                    bound = U[HI, i] if hold[i] > 0 else U[LO, i]
                    # The guess's point has been left: rounds begin with what is reached where they begin.
                    if hold[i] != 0 and abs(U[Y0, i] - bound) <= KEPT * (U[CLEN, i] * size + abs(bound)):
                        sides[i] = hold[i]
                elif k > 0:
                    sides[i] = working[k - 1, i]
        if damping == 0.0 and uneven(m, P, U, N):
            done, count, decided = evened(d, m, P, tolerance, size, cap, sides, multipliers, B, U, N)
            stats[ITERATIONS] += count
            if done:
                even = True
                for i in range(P):
                    multipliers[i] = 0.0
            else:
                face(k, q, 0.0, x, B, U, N)
    if not done:
        done, count, decided = rounds(d, m, P, tolerance, size, patience, CZ, Y0, sides, multipliers, B, U, N)
        stats[ITERATIONS] += count
        if not done:
            stats[ENDED] = 0.0
            if found:
                return 0
    return arrive(k, q, m, P, decided, even, damping > 0.0, tolerance, x, sides, multipliers, stats, B, U, N)


@inner
def rest(k, n, q, ps, working, lam, stats):  # type: ignore[no-untyped-def]
    """Whether level k has nothing left to decide and nothing of its own to look at; if so, it is done."""
    K, P = working.shape[0] - 1, working.shape[1]
    if q < n or (k < K and ps[k] < ps[k + 1]):
        return False
    for i in range(P):
        working[k, i] = working[k - 1, i] if k > 0 else 0
        lam[k, i] = 0.0
    stats[RANKS + k] = 0.0
    stats[RANKS + K + 1 + k] = 0.0
    return True
