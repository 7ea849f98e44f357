"""The working sets of the problem before, tried first: where they are right again, nothing needs to be looked for.

Importing this module imports numba.
"""

from __future__ import annotations

from .compiled_leave import arrive
from .compiled_level import trial
from .compiled_levels import enter, propose, rest
from .compiled_rows import gather, length, values
from .compiled_work import (
    CLEN,
    CT,
    END,
    EQUAL,
    FIXED,
    HI,
    JJ,
    KEPT,
    LATER,
    LIMIT,
    LO,
    LOWER,
    PATH,
    PLAIN,
    PROBLEM,
    QQ,
    RANKS,
    REACH,
    ROLE,
    UPPER,
    WORK,
    ZERO,
)  # fmt: skip
from .jit import inner, outlined


@inner
def beyond(i, size, U):  # type: ignore[no-untyped-def]
    """The side on which the value END of inequality i is violated, 0 if it is kept."""
    value, lo, hi, terms = U[END, i], U[LO, i], U[HI, i], U[CLEN, i] * size
    if value > hi + KEPT * (terms + abs(hi)):
        return 1
    if value < lo - KEPT * (terms + abs(lo)):
        return -1
    return 0


@inner
def likely(told, reach, P, U, N):  # type: ignore[no-untyped-def]
    """Whether at least half of what is violated was held."""
    violated = 0
    held = 0
    for i in range(P):
        side = beyond(i, reach, U)
        if side != 0 and N[EQUAL, i] == 0:
            violated += 1
            for k in range(told.shape[0]):
                if told[k, i] == side:
                    held += 1
                    break
    return 0 < violated <= 2 * held


@outlined(f"b1(f8, {PROBLEM}, i1[:,::1], f8[::1], i1[:,::1], f8[:,::1], f8[::1], f8[::1], {WORK})")
def remembered(tolerance, A, b, w, C, ms, ps, told, x, working, lam, stats, saved, B, U, N):  # type: ignore[no-untyped-def]
    """Whether the working sets `told` are those of the optimum; if so, all is done, if not, all is as before.

    From the first level that held anything each holds what it held, while other limits wait.  If the last x keeps
    them all, it is the optimum: every level's, under weaker limits, which it reached without breaking the others.

    Args:
        tolerance: of rank.
        A: as `descend` says, and so b, w, C, ms and ps.
        b: see there.
        w: see there.
        C: see there.
        ms: see there.
        ps: see there.
        told: working sets.
        x: (n,) the solution of the equalities alone; takes the solution.
        working: takes the working sets.
        lam: takes the multipliers.
        stats: takes the rest.
        saved: as long, work.
        B: matrices.
        U: vectors.
        N: integers.
    """
    n, K, P = x.shape[0], ms.shape[0] - 1, C.shape[0]
    Q, before, role, equal, reach = B[QQ], B[JJ], N[ROLE], N[EQUAL], stats[REACH]
    values(n, P, B[CT], U[ZERO], x, U[END])
    if not likely(told, reach, P, U, N):
        return False
    for i in range(stats.shape[0]):
        saved[i] = stats[i]
    for i in range(n):
        for j in range(n):
            before[i, j] = Q[i, j]
    good = True
    started = False
    q = 0
    for k in range(K + 1):
        sides = told[k]
        for i in range(P):
            started |= sides[i] != 0
        if not started:
            q += int(stats[RANKS + k])
            continue
        if rest(k, n, q, ps, working, lam, stats):
            continue
        for i in range(ps[k]):
            if equal[i] != 0 or role[i] == FIXED:
                role[i] = FIXED
            else:
                role[i] = LIMIT if sides[i] != 0 else LATER
        size = max(reach, length(x))
        gather(k, A, b, w, C, ms, ps, B, U, N)
        m = enter(k, q, 0.0, ps, x, B, U, N)
        propose(P, sides, -1.0, working[k], U, N)
        good, decided = trial(n - q, m, P, tolerance, size, working[k], lam[k], B, U, N)
        if not good:
            break
        r = arrive(k, q, m, P, decided, False, False, tolerance, x, working[k], lam[k], stats, B, U, N)
        stats[RANKS + k] = r
        q += r
    values(n, P, B[CT], U[ZERO], x, U[END])
    size = max(reach, length(x))
    for i in range(P):
        if role[i] != FIXED and beyond(i, size, U) != 0:
            good = False
    if good:
        stats[PATH] = 1.0
        return True
    for i in range(stats.shape[0]):
        stats[i] = saved[i]
    for i in range(n):
        x[i] = U[PLAIN, i]
        for j in range(n):
            Q[i, j] = before[i, j]
    for i in range(P):
        role[i] = LATER
        U[LO, i] = U[LOWER, i]
        U[HI, i] = U[UPPER, i]
        for k in range(K + 1):
            working[k, i] = 0
            lam[k, i] = 0.0
    return False
