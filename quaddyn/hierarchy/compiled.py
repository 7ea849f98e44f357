"""The whole hierarchy, compiled: equalities first, then level by level; see `active_set` for the words.

Importing this module imports numba.
"""

from __future__ import annotations

import numpy as np

from .compiled_factor import factor, least_squares, reflect_rows
from .compiled_level import FIXED, KEPT, LATER, LIMIT, OWN, gradient_scale, rounds, trial
from .jit import jit

TIED = 1e-8
VIOLATED = 1e-10
SPREAD = 1e3
UNBOUNDED = 1e100
FAR, AGAIN = 1e1, 3

# Slots of `stats`; from RANKS on, ranks of all levels, then their kkt.
ENDED, PATH, ITERATIONS, WORST, REACH, RANKS = 0, 1, 2, 3, 4, 5


def float_work(n: int, m: int, P: int) -> int:
    """How many floats `descend` wants as work, for n unknowns, at most m equalities a level and P inequalities."""
    rows = m + P + n
    return n * n * 2 + rows * (2 * n + 6) + 3 * rows + (n + 1) * rows + P * (2 * n + 12) + 8 * n


def int_work(n: int, m: int, P: int) -> int:
    """How many integers `descend` wants as work."""
    return n + 2 * (m + P + n) + 2 * P


@jit
def gather(k, K, A, b, w, C, lo, ms, ps, equal, n, M, target, mlen):  # type: ignore[no-untyped-def]
    """The objective's rows of level k, those of length 0 left out; how many."""
    m = 0
    if k == K:  # the shortest x
        for i in range(n):
            for j in range(n):
                M[i, j] = 0.0
            M[i, i] = 1.0
            target[i] = 0.0
            mlen[i] = 1.0
        return n
    for i in range(ms[k], ms[k + 1]):
        root = np.sqrt(w[i])
        s = 0.0
        for j in range(n):
            M[m, j] = root * A[i, j]
            s += M[m, j] * M[m, j]
        if s > 0.0:
            target[m] = root * b[i]
            mlen[m] = np.sqrt(s)
            m += 1
    for i in range(ps[k], ps[k + 1]):
        if equal[i]:
            s = 0.0
            for j in range(n):
                M[m, j] = C[i, j]
                s += C[i, j] * C[i, j]
            if s > 0.0:
                target[m] = lo[i]
                mlen[m] = np.sqrt(s)
                m += 1
    return m


@jit
def project(M, m, n, Q, q, out):  # type: ignore[no-untyped-def]
    """``out = M Q[:, q:]``."""
    d = n - q
    for i in range(m):
        for j in range(d):
            out[i, j] = 0.0
        for c in range(n):
            a = M[i, c]
            if a != 0.0:
                for j in range(d):
                    out[i, j] += a * Q[c, q + j]


@jit
def way_down(  # type: ignore[no-untyped-def]
    A, b, w, C, lower, upper, ms, ps, tolerance, damping, cap, guess, guessed, again, x, working, lam, stats, F, N
):  # fmt: skip
    """One way down through the levels; arguments of `descend`, and whether to start from x `again`."""
    n = x.shape[0]
    K = ms.shape[0] - 1
    P = C.shape[0]
    most = n
    for k in range(K):
        most = max(most, ms[k + 1] - ms[k] + ps[k + 1] - ps[k])
    most = most + n
    rows = most + P
    # carve the work
    at = 0
    Q = F[at : at + n * n].reshape(n, n)
    at += n * n
    V = F[at : at + n * n].reshape(n, n)
    at += n * n
    M = F[at : at + most * n].reshape(most, n)
    at += most * n
    Mz = F[at : at + most * n].reshape(most, n)
    at += most * n
    R = F[at : at + rows * n].reshape(rows, n)
    at += rows * n
    T = F[at : at + (n + 1) * rows].reshape(n + 1, rows)
    at += (n + 1) * rows
    left = F[at : at + 3 * rows].reshape(3, rows)
    at += 3 * rows
    Cz = F[at : at + P * n].reshape(P, n)
    at += P * n
    Ce = F[at : at + P * n].reshape(P, n)
    at += P * n
    target = F[at : at + most]
    at += most
    mlen = F[at : at + most]
    at += most
    r0 = F[at : at + most]
    at += most
    length = F[at : at + rows]
    at += rows
    rhs = F[at : at + rows]
    at += rows
    lo = F[at : at + P]
    at += P
    hi = F[at : at + P]
    at += P
    clen = F[at : at + P]
    at += P
    y0 = F[at : at + P]
    at += P
    ye = F[at : at + P]
    at += P
    le = F[at : at + P]
    at += P
    he = F[at : at + P]
    at += P
    ones = F[at : at + P]
    at += P
    z = F[at : at + n]
    at += n
    zn = F[at : at + n]
    at += n
    y = F[at : at + n]
    at += n
    g = F[at : at + n]
    at += n
    pivots = N[:n]
    order = N[n : n + rows]
    index = N[n + rows : n + 2 * rows]
    role = N[n + 2 * rows : n + 2 * rows + P]
    equal = N[n + 2 * rows + P : n + 2 * rows + 2 * P]

    for i in range(P):
        a = lower[i] if lower[i] > -UNBOUNDED else -np.inf
        c = upper[i] if upper[i] < UNBOUNDED else np.inf
        s = 0.0
        for j in range(n):
            s += C[i, j] * C[i, j]
        clen[i] = np.sqrt(s)
        equal[i] = 0
        if a > -np.inf and c < np.inf and c <= a + 4e-16 * abs(a):
            equal[i] = 1
            a = 0.5 * (a + c)
            c = a
        lo[i] = a
        hi[i] = c
    stats[ENDED] = 1.0
    stats[PATH] = 0.0
    stats[ITERATIONS] = 0.0
    stats[WORST] = 0.0

    # Equalities alone.
    for i in range(n):
        if not again:
            x[i] = 0.0
        for j in range(n):
            Q[i, j] = 0.0
        Q[i, i] = 1.0
    q = 0
    for k in range(K):
        if again:
            break
        d = n - q
        for i in range(P):
            working[k, i] = 0
            lam[k, i] = 0.0
        stats[RANKS + k] = 0.0
        stats[RANKS + K + 1 + k] = 0.0
        if d == 0:
            continue
        m = gather(k, K, A, b, w, C, lo, ms, ps, equal, n, M, target, mlen)
        if m == 0:
            continue
        project(M, m, n, Q, q, R)
        for i in range(m):
            s = target[i]
            for j in range(n):
                s -= M[i, j] * x[j]
            rhs[i] = s
            length[i] = mlen[i]
        if damping == 0.0:
            r = factor(R, m, 0, d, length, tolerance, V, pivots, left)
            least_squares(R, m, 0, r, pivots, rhs, y, T, order)
            Qz = Q[:, q:]
            reflect_rows(Qz, n, 0, r, d, V)
        else:
            # The rank is that of the level itself; the damped step lives in its range.
            r = factor(R, m, 0, d, length, tolerance, V, pivots, left)
            Qz = Q[:, q:]
            reflect_rows(Qz, n, 0, r, d, V)
            for i in range(r):
                for j in range(r):
                    R[m + i, j] = 0.0
                R[m + i, i] = damping
                s = 0.0
                for c in range(n):
                    s -= Q[c, q + i] * x[c]
                rhs[m + i] = damping * s
                length[m + i] = damping
            # the rows are no longer those of `factor`: a longer system, always solved by QR
            least_squares(R, m + r, 0, r, pivots, rhs, y, T, order)
        for i in range(n):
            s = 0.0
            for j in range(r):
                s += Q[i, q + j] * y[j]
            x[i] += s
        for j in range(r):
            g[j] = 0.0
        total = m if damping == 0.0 else m + r
        for i in range(total):
            s = -rhs[i]
            for j in range(r):
                s += R[i, j] * y[j]
            for j in range(r):
                g[j] += R[i, j] * s
        s = 0.0
        for j in range(r):
            s += g[j] * g[j]
        size = 0.0
        for i in range(n):
            size += x[i] * x[i]
        stats[RANKS + K + 1 + k] = np.sqrt(s) / gradient_scale(
            m, target, mlen, 0, role, working[k], lo, hi, clen, np.sqrt(size)
        )
        stats[WORST] = max(stats[WORST], stats[RANKS + K + 1 + k])
        q += r
        stats[RANKS + k] = r

    s = 0.0
    for i in range(n):
        s += x[i] * x[i]
    reach = np.sqrt(s)
    for i in range(P):
        working[K, i] = 0
        lam[K, i] = 0.0
    stats[REACH] = reach
    kept = not again
    for i in range(P):
        if equal[i] == 0 and kept:
            s = 0.0
            for j in range(n):
                s += C[i, j] * x[j]
            size = clen[i] * reach
            if s > hi[i] + KEPT * (size + abs(hi[i])) or s < lo[i] - KEPT * (size + abs(lo[i])):
                kept = False
                break
    if kept:
        return

    # Level by level.
    stats[PATH] = 1.0 if guessed else 2.0
    stats[WORST] = 0.0
    for i in range(n):
        for j in range(n):
            Q[i, j] = 0.0
        Q[i, i] = 1.0
    for i in range(P):
        role[i] = LATER
    q = 0
    for k in range(K + 1):
        d = n - q
        if d == 0 and (k == K or ps[k] == ps[k + 1]):
            # Nothing left to decide, nothing of its own to look at.
            for i in range(P):
                working[k, i] = working[k - 1, i] if k > 0 else 0
                lam[k, i] = 0.0
            stats[RANKS + k] = 0.0
            stats[RANKS + K + 1 + k] = 0.0
            continue
        m = gather(k, K, A, b, w, C, lo, ms, ps, equal, n, M, target, mlen)
        level_damping = damping if k < K else 0.0
        if level_damping > 0.0:
            for i in range(n):
                for j in range(n):
                    M[m + i, j] = 0.0
                M[m + i, i] = level_damping
                target[m + i] = 0.0
                mlen[m + i] = level_damping
        undamped = m
        if level_damping > 0.0:
            m += n
        project(M, m, n, Q, q, Mz)
        s = 0.0
        for i in range(n):
            s += x[i] * x[i]
        size = max(reach, np.sqrt(s))
        for i in range(m):
            s = -target[i]
            for j in range(n):
                s += M[i, j] * x[j]
            r0[i] = s
        if k < K:
            for i in range(ps[k], ps[k + 1]):
                role[i] = FIXED if equal[i] else OWN
        project(C, P, n, Q, q, Cz)
        for i in range(P):
            s = 0.0
            for j in range(n):
                s += C[i, j] * x[j]
            y0[i] = s
        for j in range(d):
            z[j] = 0.0
        sides = working[k]
        done = False
        kkt = 0.0
        if guessed:
            for i in range(P):
                sides[i] = 0
                if role[i] == LIMIT or role[i] == OWN:
                    v = guess[k, i]
                    if (v > 0 and hi[i] < np.inf) or (v < 0 and lo[i] > -np.inf):
                        sides[i] = v
            done, kkt = trial(
                d, m, Mz, r0, target, mlen, P, role, sides, Cz, y0, lo, hi, clen, tolerance, size, z, zn, lam[k], R,
                length, rhs, V, pivots, left, T, order, y, g, index,
            )  # fmt: skip
        if not done:
            stats[PATH] = 2.0
            shortest = np.inf
            longest = 0.0
            mine = 0
            for i in range(m):
                shortest = min(shortest, mlen[i])
                longest = max(longest, mlen[i])
            for i in range(P):
                sides[i] = 0
                if role[i] == LIMIT and k > 0:
                    sides[i] = working[k - 1, i]
                if role[i] == OWN and clen[i] > 0.0:
                    mine += 1
                    shortest = min(shortest, clen[i])
                    longest = max(longest, clen[i])
            if mine > 0 and longest > SPREAD * shortest and level_damping == 0.0:
                # If all can be kept the lengths of the rows mean nothing: try with equal ones, losing no digits.
                for i in range(m):
                    s = 1.0 / mlen[i]
                    for j in range(d):
                        Mz[i, j] *= s
                    r0[i] *= s
                    target[i] *= s
                    left[0, i] = mlen[i]
                    mlen[i] = 1.0
                for i in range(P):
                    s = 1.0 / clen[i] if clen[i] > 0.0 else 1.0
                    for j in range(d):
                        Ce[i, j] = Cz[i, j] * s
                    ye[i] = y0[i] * s
                    le[i] = lo[i] * s
                    he[i] = hi[i] * s
                    ones[i] = clen[i] * s
                ended, count, kkt = rounds(
                    d, m, Mz, r0, target, mlen, P, role, sides, Ce, ye, le, he, ones, tolerance, size, cap, z, zn,
                    lam[k], R, length, rhs, V, pivots, left, T, order, y, g, index,
                )  # fmt: skip
                stats[ITERATIONS] += count
                done = ended
                s = 0.0
                for j in range(d):
                    s += z[j] * z[j]
                far = size + np.sqrt(s)
                for i in range(m):
                    s = r0[i]
                    for j in range(d):
                        s += Mz[i, j] * z[j]
                    if abs(s) > KEPT * (far + abs(target[i])):
                        done = False
                for i in range(P):
                    if role[i] == OWN:
                        s = ye[i]
                        for j in range(d):
                            s += Ce[i, j] * z[j]
                        if s > he[i] + KEPT * (ones[i] * far + abs(he[i])) or s < le[i] - KEPT * (
                            ones[i] * far + abs(le[i])
                        ):
                            done = False
                if done:
                    for i in range(P):
                        lam[k, i] = 0.0
                else:
                    gather(k, K, A, b, w, C, lo, ms, ps, equal, n, M, target, mlen)
                    project(M, m, n, Q, q, Mz)
                    for i in range(m):
                        s = -target[i]
                        for j in range(n):
                            s += M[i, j] * x[j]
                        r0[i] = s
        if not done:
            ended, count, kkt = rounds(
                d, m, Mz, r0, target, mlen, P, role, sides, Cz, y0, lo, hi, clen, tolerance, size, cap, z, zn, lam[k],
                R, length, rhs, V, pivots, left, T, order, y, g, index,
            )  # fmt: skip
            stats[ITERATIONS] += count
            if not ended:
                stats[ENDED] = 0.0
        s = 0.0
        for j in range(d):
            s += z[j] * z[j]
        size = size + np.sqrt(s)
        scale = gradient_scale(m, target, mlen, P, role, sides, lo, hi, clen, size)
        stats[RANKS + K + 1 + k] = kkt
        stats[WORST] = max(stats[WORST], kkt)
        for i in range(n):
            s = 0.0
            for j in range(d):
                s += Q[i, q + j] * z[j]
            x[i] += s
        # What this level leaves free.
        m = undamped
        for i in range(m):
            for j in range(d):
                R[i, j] = Mz[i, j]
            length[i] = mlen[i]
        for i in range(P):
            fix = False
            if role[i] == LIMIT and sides[i] != 0:
                fix = abs(lam[k, i]) * clen[i] > TIED * scale
            elif role[i] == OWN:
                if sides[i] != 0:
                    bound = hi[i] if sides[i] > 0 else lo[i]
                    fix = lam[k, i] * sides[i] > VIOLATED * (clen[i] * size + abs(bound))
                role[i] = LIMIT
            if fix:
                role[i] = FIXED
                for j in range(d):
                    R[m, j] = Cz[i, j]
                length[m] = clen[i]
                m += 1
        r = factor(R, m, 0, d, length, tolerance, V, pivots, left)
        Qz = Q[:, q:]
        reflect_rows(Qz, n, 0, r, d, V)
        stats[RANKS + k] = r
        q += r


@jit
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
        A, b, w, C, lower, upper, ms, ps, tolerance, damping, cap, guess, guessed, False, x, working, lam, stats, F, N
    )  # fmt: skip
    for _ in range(AGAIN):
        s = 0.0
        for i in range(x.shape[0]):
            s += x[i] * x[i]
        size = np.sqrt(s)
        if stats[PATH] == 0.0 or stats[ENDED] == 0.0 or not 0.0 < FAR * size < stats[REACH]:
            return
        x0, working0, lam0, stats0 = x.copy(), working.copy(), lam.copy(), stats.copy()
        way_down(
            A, b, w, C, lower, upper, ms, ps, tolerance, damping, cap, working0, True, True, x, working, lam, stats, F,
            N,
        )  # fmt: skip
        if stats[ENDED] == 0.0:
            x[:], working[:], lam[:], stats[:] = x0, working0, lam0, stats0
            return
        stats[PATH] = stats0[PATH]
        stats[ITERATIONS] += stats0[ITERATIONS]
