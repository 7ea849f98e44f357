"""The levels' equalities alone: where all limits allow what they say, the hierarchy is solved.

Importing this module imports numba.
"""

from __future__ import annotations

import numpy as np

from .compiled_factor import factor, least_squares, reflect
from .compiled_rows import combine, gather, project, values
from .compiled_work import (
    CLEN,
    CT,
    EQUAL,
    HI,
    KEPT,
    LEFT,
    LENGTH,
    LO,
    MLEN,
    MM,
    ORDER,
    PIVOTS,
    PROBLEM,
    QQ,
    RANKS,
    RHS,
    RR,
    TARGET,
    TT,
    VV,
    WORK,
    WORST,
    Y0,
    YY,
)  # fmt: skip
from .jit import inner, outlined

UNBOUNDED = 1e100


@outlined(f"void(f8[:,::1], f8[::1], f8[::1], {WORK})")
def take(C, lower, upper, B, U, N):  # type: ignore[no-untyped-def]
    """Inequalities as everything that follows wants them: in CT, LO, HI and CLEN; equal bounds in EQUAL."""
    Ct, lo, hi, clen, y0, equal = B[CT], U[LO], U[HI], U[CLEN], U[Y0], N[EQUAL]
    P, n = C.shape
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


@inner
def damp(r, m, q, n, damping, x, B, U):  # type: ignore[no-untyped-def]
    """Rows that pull r directions of the freedom to ``x = 0``, below m others."""
    Q, R, length, rhs = B[QQ], B[RR], U[LENGTH], U[RHS]
    for i in range(m):
        length[i] = U[MLEN, i]
    for i in range(r):
        for j in range(r):
            R[j, m + i] = 0.0
        R[i, m + i] = damping
        s = 0.0
        for c in range(n):
            s -= Q[q + i, c] * x[c]
        rhs[m + i] = damping * s
        length[m + i] = damping


@outlined(f"void(f8, f8, {PROBLEM}, f8[::1], f8[::1], {WORK})")
def equalities(tolerance, damping, A, b, w, C, ms, ps, x, stats, B, U, N):  # type: ignore[no-untyped-def]
    """Solve by equalities alone: ranks and kkt of every level in `stats`, the basis in QQ, level after level."""
    n, K = x.shape[0], ms.shape[0] - 1
    Q, V, M, R, T = B[QQ], B[VV], B[MM], B[RR], B[TT]
    left, target, mlen, rhs, y = U[LEFT : LEFT + 4], U[TARGET], U[MLEN], U[RHS], U[YY]
    pivots, order = N[PIVOTS], N[ORDER]
    res = left[0]
    for i in range(n):
        x[i] = 0.0
        for j in range(n):
            Q[i, j] = 0.0
        Q[i, i] = 1.0
    q = 0
    for k in range(K):
        d = n - q
        stats[RANKS + k] = 0.0
        stats[RANKS + K + 1 + k] = 0.0
        if d == 0:
            continue
        m = gather(k, A, b, w, C, ms, ps, B, U, N)
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
            damp(r, m, q, n, damping, x, B, U)
            total = m + r
            least_squares(R, total, 0, r, pivots, U[LENGTH], rhs, y, T, order)
        for j in range(r):
            a = y[j]
            basis = Q[q + j]
            for i in range(n):
                x[i] += a * basis[i]
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
        scale = 1e-300
        size = np.sqrt(size)
        for i in range(m):
            scale += mlen[i] * (abs(target[i]) + mlen[i] * size)
        stats[RANKS + K + 1 + k] = np.sqrt(square) / scale
        stats[WORST] = max(stats[WORST], stats[RANKS + K + 1 + k])
        q += r
        stats[RANKS + k] = r
    stats[RANKS + K] = n - q
    stats[RANKS + 2 * K + 1] = 0.0


@outlined(f"b1(i8, i8, f8, f8[::1], {WORK})")
def within(n, P, reach, x, B, U, N):  # type: ignore[no-untyped-def]
    """Whether x keeps all limits."""
    lo, hi, clen, at, equal = U[LO], U[HI], U[CLEN], U[LEFT], N[EQUAL]
    values(n, P, B[CT], U[Y0], x, at)
    for i in range(P):
        if equal[i] == 0:
            s = at[i]
            size = clen[i] * reach
            if s > hi[i] + KEPT * (size + abs(hi[i])) or s < lo[i] - KEPT * (size + abs(lo[i])):
                return False
    return True
