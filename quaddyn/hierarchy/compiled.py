"""The whole hierarchy, compiled: equalities first, then level by level; see `active_set` for the words.

Between the two stand the working sets of the problem before (`compiled_recall`), and a guess: which limits would be
active if the levels were one weighted sum (`compiled_guess`).  What they say is then verified exactly, level by level,
or improved upon by the rounds of the active set.

Importing this module imports numba, and compiles what is not in numba's cache.
"""

from __future__ import annotations

from .compiled_equalities import equalities, lie, take, within
from .compiled_guess import touched
from .compiled_levels import level, rest
from .compiled_recall import remembered
from .compiled_rows import gather, length
from .compiled_work import (
    CLEN,
    ENDED,
    HI,
    INTEGERS,
    ITERATIONS,
    LATER,
    LO,
    LOWER,
    MATRICES,
    MU,
    PATH,
    PLAIN,
    PROBLEM,
    QQ,
    RANKS,
    REACH,
    ROLE,
    UPPER,
    VECTORS,
    WORK,
    WORST,
    ZERO,
    float_work,
    int_work,
    most_rows,
)  # fmt: skip
from .jit import ahead, entry, inner, matrices, matrix, outlined

__all__ = ["ENDED", "ITERATIONS", "PATH", "RANKS", "REACH", "WORST", "descend", "float_work", "int_work"]

FAR, AGAIN = 1e1, 3

#: `most_rows`, for compiled code.
_rows = inner(most_rows)


@outlined(
    f"void(i8, f8, f8, i8, b1, {PROBLEM}, i1[:,::1], f8[::1], i1[:,::1], f8[:,::1], f8[::1], {WORK})"
)  # fmt: skip
def downwards(  # type: ignore[no-untyped-def]
    first, tolerance, damping, cap, guessed, A, b, w, C, ms, ps, told, x, working, lam, stats, B, U, N
):  # fmt: skip
    """Level by level from the guess's first; from the top if that is -1, or if the guess has led astray."""
    n, K, P = x.shape[0], ms.shape[0] - 1, C.shape[0]
    found = first >= 0
    q = 0
    for k in range(first):
        q += int(stats[RANKS + k])
    heaviest = 0.0
    if found:
        for i in range(P):
            heaviest = max(heaviest, U[MU, i] * U[CLEN, i])
    while True:
        stats[ENDED] = 1.0
        stats[PATH] = 1.0 if guessed and not found else 2.0
        patience = min(cap, 2 * n + 10) if found else cap
        start = first
        if not found:
            stats[WORST] = 0.0
            start = 0
            q = 0
            for i in range(n):
                x[i] = U[PLAIN, i]
                for j in range(n):
                    B[QQ, i, j] = 0.0
                B[QQ, i, i] = 1.0
            for i in range(P):
                N[ROLE, i] = LATER
                U[LO, i] = U[LOWER, i]
                U[HI, i] = U[UPPER, i]
        for k in range(start, K + 1):
            if rest(k, n, q, ps, working, lam, stats):
                continue
            gather(k, A, b, w, C, ms, ps, B, U, N)
            r = level(
                k, q, found, k == first and k < K - 1, guessed, tolerance, damping if k < K else 0.0, heaviest, cap,
                patience, ps, told, x, working, lam, stats, B, U, N,
            )  # fmt: skip
            if found and stats[ENDED] == 0.0:
                break
            stats[RANKS + k] = r
            q += r
        if not (found and stats[ENDED] == 0.0):
            return
        found = False


@outlined(
    f"void(f8, f8, i8, b1, b1, {PROBLEM}, f8[::1], f8[::1], i1[:,::1], f8[::1], i1[:,::1], f8[:,::1], f8[::1], "
    "f8[::1], i8[::1])"
)
def way_down(  # type: ignore[no-untyped-def]
    tolerance, damping, cap, guessed, again, A, b, w, C, ms, ps, lower, upper, told, x, working, lam, stats, F, Z
):  # fmt: skip
    """One way down through the levels; arguments of `descend`, and whether to start from x `again`."""
    n, K, P = x.shape[0], ms.shape[0] - 1, C.shape[0]
    most = n
    for k in range(K):
        most = max(most, ms[k + 1] - ms[k] + ps[k + 1] - ps[k])
    rows = _rows(n, most, P, K)
    begin = ahead(F)
    end = begin + (MATRICES + K) * (n + 2) * rows
    B, U = matrices(F, begin, MATRICES + K, n + 2, rows), matrix(F, end, VECTORS + 2 * K, rows)
    N = matrix(Z, 0, INTEGERS, rows)
    stats[ENDED] = 1.0
    stats[PATH] = 0.0
    stats[ITERATIONS] = 0.0
    stats[WORST] = 0.0
    if not again:
        for k in range(K + 1):
            for i in range(P):
                working[k, i] = 0
                lam[k, i] = 0.0
    take(lower, upper, P, U, N)
    if not again:
        equalities(tolerance, damping, A, b, w, C, ms, ps, x, stats, B, U, N)
    reach = length(x)
    stats[REACH] = reach
    if not again and within(C, reach, x, U, N):
        return
    lie(C, B, U)
    for i in range(n):
        U[PLAIN, i] = x[i]
    for i in range(P):
        U[ZERO, i] = 0.0
        N[ROLE, i] = LATER
    first = -1
    if damping == 0.0 and not again:
        saved = F[F.shape[0] - stats.shape[0] :]
        if guessed and remembered(tolerance, A, b, w, C, ms, ps, told, x, working, lam, stats, saved, B, U, N):
            return
        first = touched(reach, ps, x, stats, B, U, N)
    downwards(
        first, tolerance, damping, cap, guessed, A, b, w, C, ms, ps, told, x, working, lam, stats, B, U, N
    )  # fmt: skip


@inner
def exchange(x, working, lam, stats, saved, held, out):  # type: ignore[no-untyped-def]
    """An answer put away, or taken back."""
    n, m = x.shape[0], stats.shape[0]
    for i in range(n):
        if out:
            saved[i] = x[i]
        else:
            x[i] = saved[i]
    for i in range(m):
        if out:
            saved[n + i] = stats[i]
        else:
            stats[i] = saved[n + i]
    at = 0
    for k in range(working.shape[0]):
        for i in range(working.shape[1]):
            if out:
                held[at] = working[k, i]
                saved[n + m + at] = lam[k, i]
            else:
                working[k, i] = held[at]
                lam[k, i] = saved[n + m + at]
            at += 1


@entry
def descend(  # type: ignore[no-untyped-def]
    A, b, w, C, lower, upper, ms, ps, tolerance, damping, cap, guess, guessed, x, working, lam, stats, F, N
):  # fmt: skip
    """Solve; every array is the caller's.

    Args:
        A: (m, n) equalities of all levels, stacked.
        b: (m,).
        w: (m,) weights.
        C: (p, n) inequalities of all levels, stacked.
        lower: (p,).
        upper: (p,).
        ms: (K + 1,) where the levels' equalities begin and end.
        ps: (K + 1,) likewise the inequalities.
        tolerance: of rank.
        damping: as in `solve`.
        cap: rounds per level.
        guess: (K + 1, p) working sets to try first.
        guessed: whether to.
        x: (n,) takes the solution.
        working: (K + 1, p) takes the working sets.
        lam: (K + 1, p) takes multipliers.
        stats: (RANKS + 2 K + 2,) takes the rest.
        F: work, `float_work`.
        N: work, `int_work`.
    """
    way_down(
        tolerance, damping, cap, guessed, False, A, b, w, C, ms, ps, lower, upper, guess, x, working, lam, stats, F, N
    )  # fmt: skip
    n, K, P = x.shape[0], ms.shape[0] - 1, C.shape[0]
    sets = (K + 1) * P
    saved, held = F[F.shape[0] - n - sets - stats.shape[0] :], N[N.shape[0] - sets :]
    for _ in range(AGAIN):
        if stats[PATH] == 0.0 or stats[ENDED] == 0.0 or not 0.0 < FAR * length(x) < stats[REACH]:
            return
        exchange(x, working, lam, stats, saved, held, True)
        path, count = stats[PATH], stats[ITERATIONS]
        way_down(
            tolerance, damping, cap, True, True, A, b, w, C, ms, ps, lower, upper, working, x, working, lam, stats, F,
            N,
        )  # fmt: skip
        if stats[ENDED] == 0.0:
            exchange(x, working, lam, stats, saved, held, False)
            return
        stats[PATH] = path
        stats[ITERATIONS] += count
