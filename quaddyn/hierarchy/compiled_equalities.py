"""The levels' equalities alone: where all limits allow what they say, the hierarchy is solved.

Importing this module imports numba.
"""

from __future__ import annotations

import numpy as np

from .compiled_factor import factor, least_squares, reflect
from .compiled_rows import combine, gather, project
from .compiled_work import (
    CLEN,
    COUNT,
    CT,
    EQUAL,
    FLOOR,
    GG,
    GIVEN,
    HI,
    KEPT,
    LEFT,
    LENGTH,
    LO,
    LOWER,
    MM,
    ORDER,
    PIVOTS,
    PROBLEM,
    QQ,
    RANKS,
    RHS,
    RR,
    TT,
    UPPER,
    VV,
    WORK,
    WORST,
    YY,
)  # fmt: skip
from .jit import inner, outlined
from .lanes import dots, total

UNBOUNDED = 1e100
#: Least singular value, relative to the longest row, beyond which the rank needs no closer look.
SURE = 1e-6


@inner
def take(lower, upper, P, U, N):  # type: ignore[no-untyped-def]
    """Bounds in LO and HI, equal ones in EQUAL."""
    lo, hi, equal = U[LO], U[HI], N[EQUAL]
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


@inner
def lie(C, B, U):  # type: ignore[no-untyped-def]
    """Inequalities as columns in CT, their lengths in CLEN, their bounds once more in LOWER and UPPER."""
    Ct, clen = B[CT], U[CLEN]
    P, n = C.shape
    for i in range(P):
        row = C[i]
        s = 0.0
        for j in range(n):
            s += row[j] * row[j]
            Ct[j, i] = row[j]
        clen[i] = np.sqrt(s)
        U[LOWER, i] = U[LO, i]
        U[UPPER, i] = U[HI, i]


@inner
def damp(r, m, q, n, damping, x, mlen, B, U):  # type: ignore[no-untyped-def]
    """Rows that pull r directions of the freedom to ``x = 0``, below m others."""
    Q, R, length, rhs = B[QQ], B[RR], U[LENGTH], U[RHS]
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


@inner
def decided(R, m, d, tolerance, mlen, rhs, y, T, pivots, order, w):  # type: ignore[no-untyped-def]
    """Whether m rows decide all d directions beyond doubt; if so, y is what they want.

    The least singular value is at least ``1 / |R^-1|`` (Frobenius).  Where `factor` finds less than full rank it is at
    most sqrt(m) times the tolerance times the longest row.
    """
    if m <= d:
        return False
    longest = 0.0
    for i in range(m):
        longest = max(longest, mlen[i])
    least_squares(R, m, 0, d, pivots, mlen, rhs, y, T, order)
    square = 0.0
    for c in range(d):
        w[c] = 1.0 / T[c, c]
        square += w[c] * w[c]
        for i in range(c - 1, -1, -1):
            s = 0.0
            for j in range(i + 1, c + 1):
                s -= T[j, i] * w[j]
            w[i] = s / T[i, i]
            square += w[i] * w[i]
    return 1.0 > max(SURE, np.sqrt(m) * tolerance) * longest * np.sqrt(square)


@outlined(f"void(f8, f8, {PROBLEM}, f8[::1], f8[::1], {WORK})")
def equalities(tolerance, damping, A, b, w, C, ms, ps, x, stats, B, U, N):  # type: ignore[no-untyped-def]
    """Solve by equalities alone: ranks and kkt of every level in `stats`, the basis in QQ, level after level."""
    n, K = x.shape[0], ms.shape[0] - 1
    Q, V, R, T = B[QQ], B[VV], B[RR], B[TT]
    left, rhs, y = U[LEFT : LEFT + 3], U[RHS], U[YY]
    pivots, order = N[PIVOTS], N[ORDER]
    res = left[0]
    for i in range(n):
        x[i] = 0.0
        for j in range(n):
            Q[i, j] = 0.0
        Q[i, i] = 1.0
    q = 0
    for k in range(K + 1):
        N[COUNT, k] = -1
    for k in range(K):
        d = n - q
        stats[RANKS + k] = 0.0
        stats[RANKS + K + 1 + k] = 0.0
        if d == 0:
            continue
        m = gather(k, A, b, w, C, ms, ps, B, U, N)
        if m == 0:
            continue
        M, target, mlen = B[MM + k], U[GIVEN + 2 * k], U[GIVEN + 2 * k + 1]
        project(M, m, n, Q, q, R)
        combine(M, m, n, x, 1.0, target, rhs)
        r, rows = d, m
        if damping > 0.0 or not decided(R, m, d, tolerance, mlen, rhs, y, T, pivots, order, U[GG]):
            # The rank is that of the level itself; a damped step lives in its range.
            r = factor(R, m, 0, d, mlen, tolerance, V, pivots, left)
            reflect(Q[q:], n, 0, r, d, V)
            if damping == 0.0:
                least_squares(R, m, 0, r, pivots, mlen, rhs, y, T, order)
            else:
                damp(r, m, q, n, damping, x, mlen, B, U)
                rows = m + r
                least_squares(R, rows, 0, r, pivots, U[LENGTH], rhs, y, T, order)
        for j in range(r):
            a = y[j]
            basis = Q[q + j]
            for i in range(n):
                x[i] += a * basis[i]
        total(res, y, R, r, rows)
        for i in range(rows):
            res[i] -= rhs[i]
        square = 0.0
        dots(U[GG], R, res, r, rows)
        for j in range(r):
            square += U[GG, j] * U[GG, j]
        size = 0.0
        for i in range(n):
            size += x[i] * x[i]
        unit = 1e-300
        size = np.sqrt(size)
        for i in range(m):
            unit += mlen[i] * ((2.0 + FLOOR) * abs(target[i]) + abs(res[i]) + FLOOR * mlen[i] * size)
        stats[RANKS + K + 1 + k] = np.sqrt(square) / unit
        stats[WORST] = max(stats[WORST], stats[RANKS + K + 1 + k])
        q += r
        stats[RANKS + k] = r
    stats[RANKS + K] = n - q
    stats[RANKS + 2 * K + 1] = 0.0


@inner
def within(C, reach, x, U, N):  # type: ignore[no-untyped-def]
    """Whether x keeps all limits."""
    lo, hi, equal = U[LO], U[HI], N[EQUAL]
    P, n = C.shape
    for i in range(P):
        row = C[i]
        y = 0.0
        square = 0.0
        for j in range(n):
            y += row[j] * x[j]
            square += row[j] * row[j]
        size = np.sqrt(square) * reach
        if y > hi[i] + KEPT * (size + abs(hi[i])) or y < lo[i] - KEPT * (size + abs(lo[i])):
            if equal[i] == 0:
                return False
    return True
