"""A guess of what the levels hold: which limits would be active if they were one weighted sum.

It is looked for on the last level alone first, then with one level more after the other, until the limits can be kept;
what it says is then verified exactly, level by level.
Importing this module imports numba.
"""

from __future__ import annotations

from .compiled_nearest import nearest, triangle
from .compiled_rows import gather, project, values
from .compiled_work import (
    ALONG,
    CLEN,
    CT,
    CZ,
    EQUAL,
    FIXED,
    ITERATIONS,
    LATER,
    LEFT,
    LIMIT,
    MM,
    MZ,
    PROBLEM,
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
from .lanes import blend

#: Weight of a level against the one above it.
FAINT = 1e-3
#: Share of a row's length that counts as none of it.
DECIDED = 1e-10


@outlined(f"b1(i8, i8, {PROBLEM}, f8[::1], {WORK})")
def weighted(first, q, A, b, w, C, ms, ps, stats, B, U, N):  # type: ignore[no-untyped-def]
    """Levels from `first` on as one triangle W over the basis from q on; False if one of them has lost its rank."""
    n, K = A.shape[1], ms.shape[0] - 1
    d = n - q
    W = B[WW]
    for i in range(d):
        for j in range(d):
            W[i, j] = 0.0
    block = 0
    weight = 1.0
    size = 1.0
    for k in range(first, K):
        r = int(stats[RANKS + k])
        if r > 0:
            m = gather(k, A, b, w, C, ms, ps, B, U, N)
            project(B[MM], m, n, B[QQ], q, B[MZ])
            got = triangle(B[MZ], m, block, block + r, 0.0 if k == first else weight * size, W, U[LEFT])
            if k == first:
                size = got
            if not got > 0.0:
                return False
            block += r
            weight *= FAINT
    for i in range(block, d):
        W[i, i] = weight * size
    return True


@outlined(f"void(i8, i8, i8, i8, i8, f8[::1], {WORK})")
def normals(first, K, n, q, P, stats, B, U, N):  # type: ignore[no-untyped-def]
    """G in CZ with ``C Q = G W``, blocks of W from the last to the first."""
    W, Cz, less = B[WW], B[CZ], U[ALONG]
    project(B[CT], P, n, B[QQ], q, Cz)
    for i in range(P):
        # A limit that the levels above have decided has rounding for a normal: no step changes it.
        s = 0.0
        for j in range(n - q):
            s += Cz[j, i] * Cz[j, i]
        if s <= (DECIDED * U[CLEN, i]) ** 2:
            for j in range(n - q):
                Cz[j, i] = 0.0
    top = n - q
    for k in range(K, first - 1, -1):
        r = int(stats[RANKS + k])
        low = top - r
        if k == K:  # a multiple of the identity, beside which nothing stands
            for c in range(low, top):
                f = 1.0 / W[c, c]
                for i in range(P):
                    Cz[c, i] *= f
            top = low
            continue
        for c in range(low, top):
            column = Cz[c]
            for e in range(low, c):
                less[e - low] = -W[e, c]
            blend(column, column, less, Cz[low:], c - low, P)
            f = 1.0 / W[c, c]
            for i in range(P):
                column[i] *= f
        for c in range(low):
            for e in range(low, top):
                less[e - low] = -W[e, c]
            blend(Cz[c], Cz[c], less, Cz[low:], top - low, P)
        top = low


@inner
def unweighted(first, K, n, q, stats, B, U, x):  # type: ignore[no-untyped-def]
    """The guess's step u added to x: ``W w = u``, blocks from the first to the last."""
    W, Q, u, step = B[WW], B[QQ], U[ZZ], U[ZN]
    low = 0
    for k in range(first, K + 1):
        r = int(stats[RANKS + k])
        for i in range(low, low + r):
            t = u[i]
            for j in range(low):
                t -= W[i, j] * step[j]
            step[i] = t
        for i in range(low + r - 1, low - 1, -1):
            t = step[i]
            for j in range(i + 1, low + r):
                t -= W[i, j] * step[j]
            step[i] = t / W[i, i]
        low += r
    for j in range(n - q):
        a = step[j]
        basis = Q[q + j]
        for i in range(n):
            x[i] += a * basis[i]


@outlined(f"i8(f8, {PROBLEM}, f8[::1], f8[::1], {WORK})")
def touched(reach, A, b, w, C, ms, ps, x, stats, B, U, N):  # type: ignore[no-untyped-def]
    """The first level that limits touch, with x moved to the guess's point, sets in HOLD, multipliers in MU; or -1.

    All limits of that level and of those above it are kept by the point.
    """
    n, K, P = x.shape[0], ms.shape[0] - 1, C.shape[0]
    role, equal = N[ROLE], N[EQUAL]
    q = n - int(stats[RANKS + K])
    for first in range(K - 1, -1, -1):
        r = int(stats[RANKS + first])
        if r == 0:
            continue
        q -= r
        if not weighted(first, q, A, b, w, C, ms, ps, stats, B, U, N):
            continue
        normals(first, K, n, q, P, stats, B, U, N)
        for i in range(P):
            role[i] = LATER
        for k in range(first + 1):
            for i in range(ps[k], ps[k + 1]):
                role[i] = FIXED if equal[i] else LIMIT
        values(n, P, B[CT], U[ZERO], x, U[Y0])
        found, count = nearest(n - q, P, reach, B, U, N)
        stats[ITERATIONS] += count
        if found:
            unweighted(first, K, n, q, stats, B, U, x)
            return first
    return -1
