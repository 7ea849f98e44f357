"""Leaving a level of the hierarchy: x moved to its optimum, the certificate, and the basis of what is still free.

Importing this module imports numba.
"""

from __future__ import annotations

from .compiled_certificate import certify, settle, spent
from .compiled_factor import factor, reflect
from .compiled_level import gradient_scale
from .compiled_rows import length, values
from .compiled_work import (
    CE,
    CLEN,
    CZ,
    END,
    FIXED,
    HH,
    HI,
    HLEN,
    HOLD,
    INDEX,
    LEFT,
    LENGTH,
    LIMIT,
    LO,
    MLEN,
    MZ,
    OWN,
    PIVOTS,
    QQ,
    RANKS,
    REACH,
    ROLE,
    RR,
    TARGET,
    VIOLATED,
    VV,
    WORK,
    WORST,
    Y0,
    YE,
    ZZ,
)  # fmt: skip
from .jit import inner, outlined
from .lanes import copied

TIED = 1e-8


@inner
def apart(h, tolerance, B, U, N):  # type: ignore[no-untyped-def]
    """Whether h limits that `equations` held, every one a pivot, are independent by the tolerance of rank."""
    H, hlen, pivots = B[HH], U[HLEN], N[PIVOTS]
    for k in range(h):
        i = pivots[k]
        if not abs(H[k, i]) > tolerance * hlen[i]:
            return False
    return True


@outlined(f"i8(i8, i8, i8, i8, i8, f8, f8, f8, i1[::1], f8[::1], {WORK})")
def leave(n, q, m, P, decided, tolerance, size, scale, sides, lam, B, U, N):  # type: ignore[no-untyped-def]
    """The rank of the level with what it holds fixed; the basis turned, so that what follows it is still free.

    If `equations` held just what is now fixed, its reflectors are those of the basis; `decided` is how many, or -1.
    """
    Mz, Cz, R = B[MZ], B[CZ], B[RR]
    lo, hi, clen, length = U[LO], U[HI], U[CLEN], U[LENGTH]
    role, hold, index = N[ROLE], N[HOLD], N[INDEX]
    d = n - q
    fixed = 0
    held = 0
    for i in range(P):
        fix = False
        if role[i] == LIMIT and sides[i] != 0:
            fix = abs(lam[i]) * clen[i] > TIED * scale
            held += 1
        elif role[i] == OWN:
            if sides[i] != 0:
                bound = hi[i] if sides[i] > 0 else lo[i]
                fix = lam[i] * sides[i] > VIOLATED * (clen[i] * size + abs(bound))
                decided = -1
            role[i] = LIMIT
        if fix:
            role[i] = FIXED
            index[fixed] = i
            fixed += 1
        elif role[i] == LIMIT:
            settle(i, size, U)
        if sides[i] != 0:
            hold[i] = sides[i]
    r = decided
    if decided < 0 or fixed < held or not apart(held, tolerance, B, U, N):
        for i in range(m):
            length[i] = U[MLEN, i]
        for i in range(fixed):
            length[m + i] = clen[index[i]]
        copied(R, Mz, d, m)
        for j in range(d):
            for i in range(fixed):
                R[j, m + i] = Cz[j, index[i]]
        r = factor(R, m + fixed, 0, d, length, tolerance, B[VV], N[PIVOTS], U[LEFT : LEFT + 3])
    reflect(B[QQ][q:], n, 0, r, d, B[VV])
    for i in range(P):
        if role[i] == LIMIT and sides[i] != 0 and lam[i] != 0.0 and spent(i, n, q + r, scale, sides, lam, B, U):
            role[i] = FIXED
    return r


@outlined(f"i8(i8, i8, i8, i8, i8, b1, b1, f8, f8[::1], i1[::1], f8[::1], f8[::1], {WORK})")
def arrive(k, q, m, P, decided, even, damped, tolerance, x, sides, lam, stats, B, U, N):  # type: ignore[no-untyped-def]
    """From x to the optimum z of level k in the freedom from q on: the rank that it takes.

    Args:
        k: which.
        q: where its freedom begins in the basis.
        m: rows of the objective.
        P: inequalities.
        decided: directions, the first in the basis of the reflectors VV.
        even: whether by rows of equal length.
        damped: whether the last n rows are for damping.
        tolerance: of rank.
        x: (n,) where it starts and ends.
        sides: (P,) the working set.
        lam: (P,) the multipliers.
        stats: takes kkt.
        B: matrices.
        U: vectors.
        N: integers.
    """
    n, K = x.shape[0], (stats.shape[0] - RANKS - 2) // 2
    role, z, d = N[ROLE], U[ZZ], n - q
    for j in range(d):
        a = z[j]
        basis = B[QQ, q + j]
        for i in range(n):
            x[i] += a * basis[i]
    size = max(stats[REACH], length(x))
    rows, bounds = (CE, YE) if even else (CZ, Y0)
    lo, hi, clen = U[bounds + 1], U[bounds + 2], U[bounds + 3]
    scale = gradient_scale(m, U[TARGET], U[MLEN], P, role, sides, lo, hi, clen, size)
    kkt = certify(d, m, P, decided, size, scale, tolerance, rows, bounds, sides, lam, B, U, N)
    if even:
        values(d, P, B[CZ], U[Y0], z, U[END])
    stats[RANKS + K + 1 + k] = kkt
    stats[WORST] = max(stats[WORST], kkt)
    if even or damped:
        decided = -1  # by other rows than the level's
    if damped:
        m -= n
    return leave(n, q, m, P, decided, tolerance, size, scale, sides, lam, B, U, N)
