"""The whole hierarchy, compiled: equalities first, then level by level; see `active_set` for the words.

Between the two stands a guess: which limits would be active if the levels were one weighted sum (`nearest`).  It is
looked for on the last level alone first, then with one level more after the other, until the limits can be kept; what
it says is then verified exactly, level by level, or improved upon by the rounds of the active set.

Importing this module imports numba.
"""

from __future__ import annotations

import numpy as np

from .compiled_factor import factor, least_squares, reflect
from .compiled_level import FIXED, KEPT, LATER, LIMIT, OWN, gradient_scale, rounds, trial, values
from .compiled_nearest import nearest, triangle
from .jit import jit

TIED = 1e-8
VIOLATED = 1e-10
SPREAD = 1e3
UNBOUNDED = 1e100
FAR, AGAIN = 1e1, 3

#: Weight of a level against the one above it in the guess.
FAINT = 1e-3
#: Share of the largest multiplier beyond which a row of the guess is taken to press on the guess's first level.
HEAVY = 1e-4

# Slots of `stats`; from RANKS on, ranks of all levels, then their kkt.
ENDED, PATH, ITERATIONS, WORST, REACH, RANKS = 0, 1, 2, 3, 4, 5


def float_work(n: int, m: int, P: int) -> int:
    """How many floats `descend` wants as work, for n unknowns, levels of at most m rows of any kind, P inequalities."""
    most = max(m, n) + n
    rows = most + P
    return n * (6 * n + 3 * most + 5 * P + rows + 10) + (n + 2) * rows + 8 * rows + 4 * most + 16 * P


def int_work(n: int, m: int, P: int) -> int:
    """How many integers `descend` wants as work."""
    most = max(m, n) + n
    return 3 * n + 2 * (most + P) + 3 * P + 64


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
        row = A[i]
        for j in range(n):
            s += row[j] * row[j]
        s = root * np.sqrt(s)
        if s > 0.0:
            for j in range(n):
                M[j, m] = root * row[j]
            target[m] = root * b[i]
            mlen[m] = s
            m += 1
    for i in range(ps[k], ps[k + 1]):
        if equal[i]:
            s = 0.0
            for j in range(n):
                M[j, m] = C[i, j]
                s += C[i, j] * C[i, j]
            if s > 0.0:
                target[m] = lo[i]
                mlen[m] = np.sqrt(s)
                m += 1
    return m


@jit
def project(M, m, n, Q, q, out):  # type: ignore[no-untyped-def]
    """Columns of the m rows M in the basis ``Q[q:]``."""
    for j in range(n - q):
        to = out[j]
        basis = Q[q + j]
        for i in range(m):
            to[i] = 0.0
        for c in range(n):
            a = basis[c]
            if a != 0.0:
                column = M[c]
                for i in range(m):
                    to[i] += a * column[i]


@jit
def combine(M, m, n, x, f, y0, out):  # type: ignore[no-untyped-def]
    """``out = f (y0 - M x)`` over m rows."""
    for i in range(m):
        out[i] = y0[i]
    for c in range(n):
        a = x[c]
        column = M[c]
        for i in range(m):
            out[i] -= a * column[i]
    if f != 1.0:
        for i in range(m):
            out[i] *= f


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
    M = F[at : at + most * n].reshape(n, most)
    at += most * n
    Mz = F[at : at + most * n].reshape(n, most)
    at += most * n
    R = F[at : at + rows * n].reshape(n, rows)
    at += rows * n
    T = F[at : at + (n + 2) * rows].reshape(n + 2, rows)
    at += (n + 2) * rows
    left = F[at : at + 4 * rows].reshape(4, rows)
    at += 4 * rows
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
    Ct = F[at : at + P * n].reshape(n, P)
    at += P * n
    y = F[at : at + n]
    at += n
    g = F[at : at + n]
    at += n
    pivots = N[:n]
    order = N[n : n + rows]
    role = N[n + rows : n + rows + P]
    equal = N[n + rows + P : n + rows + 2 * P]

    for i in range(P):
        a = lower[i] if lower[i] > -UNBOUNDED else -np.inf
        c = upper[i] if upper[i] < UNBOUNDED else np.inf
        equal[i] = 0
        if a > -np.inf and c < np.inf and c <= a + 4e-16 * abs(a):
            equal[i] = 1
            a = 0.5 * (a + c)
            c = a
        lo[i] = a
        hi[i] = c
        clen[i] = 0.0
        y0[i] = 0.0
    for j in range(n):
        column = Ct[j]
        for i in range(P):
            column[i] = C[i, j]
        for i in range(P):
            clen[i] += column[i] * column[i]
    for i in range(P):
        clen[i] = np.sqrt(clen[i])
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
        combine(M, m, n, x, 1.0, target, rhs)
        # The rank is that of the level itself; a damped step lives in its range.
        r = factor(R, m, 0, d, mlen, tolerance, V, pivots, left)
        reflect(Q[q:], n, 0, r, d, V, left[3])
        total = m
        if damping == 0.0:
            least_squares(R, m, 0, r, pivots, mlen, rhs, y, T, order)
        else:
            for i in range(m):
                length[i] = mlen[i]
            for i in range(r):
                for j in range(r):
                    R[j, m + i] = 0.0
                R[i, m + i] = damping
                s = 0.0
                for c in range(n):
                    s -= Q[q + i, c] * x[c]
                rhs[m + i] = damping * s
                length[m + i] = damping
            total = m + r
            least_squares(R, total, 0, r, pivots, length, rhs, y, T, order)
        for j in range(r):
            a = y[j]
            basis = Q[q + j]
            for i in range(n):
                x[i] += a * basis[i]
        res = left[0]
        for i in range(total):
            res[i] = -rhs[i]
        for j in range(r):
            a = y[j]
            column = R[j]
            for i in range(total):
                res[i] += a * column[i]
        square = 0.0
        for j in range(r):
            s = 0.0
            column = R[j]
            for i in range(total):
                s += column[i] * res[i]
            square += s * s
        size = 0.0
        for i in range(n):
            size += x[i] * x[i]
        scale = gradient_scale(m, target, mlen, 0, role, working[k], lo, hi, clen, np.sqrt(size))
        stats[RANKS + K + 1 + k] = np.sqrt(square) / scale
        stats[WORST] = max(stats[WORST], stats[RANKS + K + 1 + k])
        q += r
        stats[RANKS + k] = r
    size = 0.0
    for i in range(n):
        size += x[i] * x[i]
    reach = np.sqrt(size)
    for i in range(P):
        working[K, i] = 0
        lam[K, i] = 0.0
    stats[REACH] = reach
    stats[RANKS + K] = n - q
    stats[RANKS + 2 * K + 1] = 0.0
    values(n, P, Ct, y0, x, left[0])
    kept = not again
    for i in range(P):
        if equal[i] == 0 and kept:
            s = left[0, i]
            size = clen[i] * reach
            if s > hi[i] + KEPT * (size + abs(hi[i])) or s < lo[i] - KEPT * (size + abs(lo[i])):
                kept = False
    if kept:
        return

    # The rest of the work.
    H = F[at : at + P * n].reshape(n, P)
    at += P * n
    Cz = F[at : at + P * n].reshape(n, P)
    at += P * n
    Ce = F[at : at + P * n].reshape(n, P)
    at += P * n
    J = F[at : at + n * n].reshape(n, n)
    at += n * n
    Rg = F[at : at + n * n].reshape(n, n)
    at += n * n
    W = F[at : at + n * n].reshape(n, n)
    at += n * n
    hlen = F[at : at + P]
    at += P
    hrhs = F[at : at + P]
    at += P
    ye = F[at : at + P]
    at += P
    le = F[at : at + P]
    at += P
    he = F[at : at + P]
    at += P
    ones = F[at : at + P]
    at += P
    start = F[at : at + P]
    at += P
    end = F[at : at + P]
    at += P
    mu = F[at : at + P]
    at += P
    zero = F[at : at + P]
    at += P
    z = F[at : at + n]
    at += n
    zn = F[at : at + n]
    at += n
    along = F[at : at + n]
    at += n
    two = F[at : at + 2 * n].reshape(2, n)
    at += 2 * n
    plain = F[at : at + n]
    at += n
    for i in range(n):
        plain[i] = x[i]
    index = N[n + rows + 2 * P : n + 2 * rows + 2 * P]
    active = N[n + 2 * rows + 2 * P : 2 * n + 2 * rows + 2 * P]
    hold = N[2 * n + 2 * rows + 2 * P : 2 * n + 2 * rows + 3 * P]
    for i in range(P):
        zero[i] = 0.0
        role[i] = LATER

    # The guess: levels s and below as one weighted sum, all limits of level s and above kept.
    first = 0
    found = False
    if damping == 0.0 and not again:
        s_ = K - 1
        while s_ >= 0 and not found:
            if stats[RANKS + s_] > 0.0:
                q = 0
                for k in range(s_):
                    q += int(stats[RANKS + k])
                d = n - q
                for i in range(d):
                    for j in range(d):
                        W[i, j] = 0.0
                block = 0
                weight = 1.0
                size = 1.0
                good = True
                for k in range(s_, K):
                    r = int(stats[RANKS + k])
                    if r > 0:
                        m = gather(k, K, A, b, w, C, lo, ms, ps, equal, n, M, target, mlen)
                        project(M, m, n, Q, q, Mz)
                        got = triangle(Mz, m, block, block + r, 0.0 if k == s_ else weight * size, W)
                        if k == s_:
                            size = got
                        if not got > 0.0:
                            good = False
                        block += r
                        weight *= FAINT
                for i in range(block, d):
                    W[i, i] = weight * size
                # C Q = G W, blocks from the last to the first
                project(Ct, P, n, Q, q, Cz)
                top = d
                if good and block < d:
                    for c in range(block, d):
                        f = 1.0 / W[c, c]
                        for i in range(P):
                            Cz[c, i] *= f
                    top = block
                k = K - 1
                while good and k >= s_:
                    r = int(stats[RANKS + k])
                    if r > 0:
                        low = top - r
                        for c in range(low, top):
                            column = Cz[c]
                            for e in range(low, c):
                                f = W[e, c]
                                before = Cz[e]
                                for i in range(P):
                                    column[i] -= f * before[i]
                            f = 1.0 / W[c, c]
                            for i in range(P):
                                column[i] *= f
                        for c in range(low):
                            column = Cz[c]
                            for e in range(low, top):
                                f = W[e, c]
                                before = Cz[e]
                                for i in range(P):
                                    column[i] -= f * before[i]
                        top = low
                    k -= 1
                if good:
                    for i in range(P):
                        role[i] = LATER
                    for k in range(s_ + 1):
                        for i in range(ps[k], ps[k + 1]):
                            role[i] = FIXED if equal[i] else LIMIT
                    values(n, P, Ct, zero, x, y0)
                    found, count = nearest(
                        d, P, role, Cz, y0, lo, hi, clen, reach, z, hold, mu, J, Rg, active, hlen, start, along, two
                    )
                    stats[ITERATIONS] += count
                if found:
                    first = s_
                    # W w = u, blocks from the first to the last
                    low = 0
                    for k in range(s_, K + 1):
                        r = int(stats[RANKS + k]) if k < K else d - block
                        for i in range(low, low + r):
                            t = z[i]
                            for j in range(low):
                                t -= W[i, j] * zn[j]
                            zn[i] = t
                        for i in range(low + r - 1, low - 1, -1):
                            t = zn[i]
                            for j in range(i + 1, low + r):
                                t -= W[i, j] * zn[j]
                            zn[i] = t / W[i, i]
                        low += r
                    for j in range(d):
                        a = zn[j]
                        basis = Q[q + j]
                        for i in range(n):
                            x[i] += a * basis[i]
            s_ -= 1

    # Level by level, from the guess's first or from the top; from the top, too, if the guess has led astray.
    while True:
        stats[ENDED] = 1.0
        stats[PATH] = 1.0 if guessed and not found else 2.0
        patience = min(cap, 2 * n + 10) if found else cap
        if not found:
            stats[WORST] = 0.0
            first = 0
            q = 0
            for i in range(n):
                x[i] = plain[i]
                for j in range(n):
                    Q[i, j] = 0.0
                Q[i, i] = 1.0
            for i in range(P):
                role[i] = LATER
        heavy = 0.0
        if found:
            for i in range(P):
                heavy = max(heavy, mu[i] * clen[i])
        for k in range(first, K + 1):
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
            undamped = m
            if level_damping > 0.0:
                for i in range(n):
                    for j in range(n):
                        M[j, m + i] = 0.0
                    M[i, m + i] = level_damping
                    target[m + i] = 0.0
                    mlen[m + i] = level_damping
                m += n
            project(M, m, n, Q, q, Mz)
            combine(M, m, n, x, -1.0, target, r0)
            s = 0.0
            for i in range(n):
                s += x[i] * x[i]
            size = max(reach, np.sqrt(s))
            if k < K:
                for i in range(ps[k], ps[k + 1]):
                    role[i] = FIXED if equal[i] else OWN
            project(Ct, P, n, Q, q, Cz)
            values(n, P, Ct, zero, x, y0)
            for j in range(d):
                z[j] = 0.0
            sides = working[k]
            done = False
            kkt = 0.0
            if guessed or found:
                for i in range(P):
                    sides[i] = 0
                    if role[i] == LIMIT or role[i] == OWN:
                        v = hold[i] if found else guess[k, i]
                        if (v > 0 and hi[i] < np.inf) or (v < 0 and lo[i] > -np.inf):
                            sides[i] = v
                            if found and k == first and k < K - 1 and mu[i] * clen[i] <= HEAVY * heavy:
                                sides[i] = 0
                done, kkt = trial(
                    d, m, Mz, r0, target, mlen, P, role, sides, Cz, y0, lo, hi, clen, tolerance, size, z, zn, lam[k], H,
                    hlen, hrhs, R, length, rhs, V, pivots, left, T, order, y, g, index, start, end,
                )  # fmt: skip
                if found and k == first and not done and k < K - 1:
                    for i in range(P):
                        if role[i] == LIMIT:
                            sides[i] = hold[i]
            if not done:
                stats[PATH] = 2.0
                shortest = np.inf
                longest = 0.0
                mine = 0
                for i in range(m):
                    shortest = min(shortest, mlen[i])
                    longest = max(longest, mlen[i])
                for i in range(P):
                    if found:
                        sides[i] = hold[i] if role[i] == LIMIT else 0
                    else:
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
                            Mz[j, i] *= s
                        r0[i] *= s
                        target[i] *= s
                        mlen[i] = 1.0
                    for i in range(P):
                        s = 1.0 / clen[i] if clen[i] > 0.0 else 1.0
                        for j in range(d):
                            Ce[j, i] = Cz[j, i] * s
                        ye[i] = y0[i] * s
                        le[i] = lo[i] * s
                        he[i] = hi[i] * s
                        ones[i] = clen[i] * s
                    ended, count, kkt = rounds(
                        d, m, Mz, r0, target, mlen, P, role, sides, Ce, ye, le, he, ones, tolerance, size, cap, z, zn,
                        lam[k], H, hlen, hrhs, R, length, rhs, V, pivots, left, T, order, y, g, index, start, end,
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
                            s += Mz[j, i] * z[j]
                        if abs(s) > KEPT * (far + abs(target[i])):
                            done = False
                    values(d, P, Ce, ye, z, end)
                    for i in range(P):
                        if role[i] == OWN:
                            s = end[i]
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
                        combine(M, m, n, x, -1.0, target, r0)
            if not done:
                ended, count, kkt = rounds(
                    d, m, Mz, r0, target, mlen, P, role, sides, Cz, y0, lo, hi, clen, tolerance, size, patience, z, zn,
                    lam[k], H, hlen, hrhs, R, length, rhs, V, pivots, left, T, order, y, g, index, start, end,
                )  # fmt: skip
                stats[ITERATIONS] += count
                if not ended:
                    stats[ENDED] = 0.0
                    if found:
                        break
            s = 0.0
            for j in range(d):
                s += z[j] * z[j]
            size = size + np.sqrt(s)
            scale = gradient_scale(m, target, mlen, P, role, sides, lo, hi, clen, size)
            stats[RANKS + K + 1 + k] = kkt
            stats[WORST] = max(stats[WORST], kkt)
            for j in range(d):
                a = z[j]
                basis = Q[q + j]
                for i in range(n):
                    x[i] += a * basis[i]
            # What this level leaves free.
            m = undamped
            for i in range(m):
                length[i] = mlen[i]
            fixed = 0
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
                    index[fixed] = i
                    length[m + fixed] = clen[i]
                    fixed += 1
                if sides[i] != 0:
                    hold[i] = sides[i]
            for j in range(d):
                to = R[j]
                column = Mz[j]
                for i in range(m):
                    to[i] = column[i]
                for i in range(fixed):
                    to[m + i] = Cz[j, index[i]]
            r = factor(R, m + fixed, 0, d, length, tolerance, V, pivots, left)
            reflect(Q[q:], n, 0, r, d, V, left[3])
            stats[RANKS + k] = r
            q += r
        if found and stats[ENDED] == 0.0:
            found = False
            continue
        break


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
