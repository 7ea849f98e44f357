"""A guess of what the levels hold: which limits would be active if they were one weighted sum.

It is looked for on the last level alone first, then with one level more after the other, until the limits can be kept;
what it says is then verified exactly, level by level.
Importing this module imports numba.
"""

from __future__ import annotations

from .compiled_nearest import nearest, triangle
from .compiled_rows import values
from .compiled_work import (
    ALONG,
    CLEN,
    COUNT,
    CT,
    CZ,
    END,
    EQUAL,
    FIXED,
    HLEN,
    ITERATIONS,
    LATER,
    LEFT,
    LIMIT,
    MM,
    MZ,
    QQ,
    RANKS,
    ROLE,
    WORK,
    WW,
    Y0,
    ZERO,
    ZN,
    ZZ,
)  # fmt: skip
from .jit import inner, outlined
from .lanes import blend, squares, total

#: Weight of a level against the one above it.
FAINT = 1e-3
#: Share of a row's length that counts as none of it.
DECIDED = 1e-10


@outlined(f"b1(i8, i8, i8, i8, f8, {WORK})")
def weighted(k, q, r, n, weight, B, U, N):  # type: ignore[no-untyped-def]
    """Level k's r rows of W, the first in row q; False if it has lost its rank."""
    Q, Mz, m = B[QQ], B[MZ], N[COUNT, k]
    for j in range(q + r):
        total(Mz[j], Q[j], B[MM + k], n, m)
    return triangle(Mz, m, q, q + r, weight, B[WW], U[LEFT])


@outlined(f"void(i8, i8, i8, i8, i8, {WORK})")
def normals(q, r, end, n, P, B, U, N):  # type: ignore[no-untyped-def]
    """Columns q to q + r of G, with ``C Q = G W``; those of the rows of W up to `end` must be there.

    A limit that the levels above have decided has rounding for a normal: no step changes it, and it has none.
    """
    Q, W, G, less, square, free = B[QQ], B[WW], B[CZ], U[ALONG], U[HLEN], U[END]
    for c in range(q, q + r):
        total(G[c], Q[c], B[CT], n, P)
    squares(square, G[q:], r, P)
    for i in range(P):
        free[i] += square[i]
        if free[i] <= (DECIDED * U[CLEN, i]) ** 2:
            for c in range(q, q + r):
                G[c, i] = 0.0
    for c in range(q, q + r):
        column = G[c]
        for e in range(q, end):
            less[e - q] = -W[e, c]
        blend(column, column, less, G[q:], c - q, P)
        if end > q + r:
            blend(column, column, less[r:], G[q + r :], end - q - r, P)
        f = 1.0 / W[c, c]
        for i in range(P):
            column[i] *= f


@inner
def unweighted(first, K, n, q, stats, B, U, x):  # type: ignore[no-untyped-def]
    """The guess's step u added to x: ``W w = u``, blocks from the first to the last."""
    W, Q, u, step = B[WW], B[QQ], U[ZZ], U[ZN]
    low = q
    for k in range(first, K):
        r = int(stats[RANKS + k])
        for i in range(low, low + r):
            t = u[i - q]
            for j in range(q, low):
                t -= W[i, j] * step[j]
            step[i] = t
        for i in range(low + r - 1, low - 1, -1):
            t = step[i]
            for j in range(i + 1, low + r):
                t -= W[i, j] * step[j]
            step[i] = t / W[i, i]
        low += r
    for i in range(low, n):
        step[i] = u[i - q]
    for j in range(q, n):
        a = step[j]
        basis = Q[j]
        for i in range(n):
            x[i] += a * basis[i]


@outlined(f"i8(f8, i8[::1], f8[::1], f8[::1], {WORK})")
def touched(reach, ps, x, stats, B, U, N):  # type: ignore[no-untyped-def]
    """The first level that limits touch, with x moved to the guess's point, sets in HOLD, multipliers in MU; or -1.

    All limits of that level and of those above it are kept by the point.  The sum of squares of the levels is
    ``|W (y - y0)|^2`` in the coordinates y of the basis, W triangular level by level: what a level more adds stands
    before what is there.
    """
    n, K = x.shape[0], ps.shape[0] - 1
    P, role, equal = ps[K], N[ROLE], N[EQUAL]
    q = n - int(stats[RANKS + K])
    end = q
    weight = 1.0
    for i in range(P):
        U[END, i] = 0.0
    for i in range(q, n):  # what no level decides: the identity, beside which nothing stands
        for j in range(q, n):
            B[WW, i, j] = 0.0
        B[WW, i, i] = 1.0
    normals(q, n - q, n, n, P, B, U, N)
    values(n, P, B[CT], U[ZERO], x, U[Y0])
    for first in range(K - 1, -1, -1):
        r = int(stats[RANKS + first])
        if r == 0:
            continue
        q -= r
        weight /= FAINT
        if not weighted(first, q, r, n, weight, B, U, N):
            return -1
        normals(q, r, end, n, P, B, U, N)
        for i in range(P):
            role[i] = LATER
        for k in range(first + 1):
            for i in range(ps[k], ps[k + 1]):
                role[i] = FIXED if equal[i] else LIMIT
        found, count = nearest(q, n, P, reach, B, U, N)
        stats[ITERATIONS] += count
        if found:
            unweighted(first, K, n, q, stats, B, U, x)
            return first
    return -1
