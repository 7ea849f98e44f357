"""One level of the hierarchy, compiled: its optimum with a working set held exactly.

In the coordinates z of the level's freedom, ``x = x0 + Z z``: rows come as ``M Z`` and ``C Z`` with their values at x0,
so that it costs what the freedom has left of the problem.  Matrices are stored transposed, as in `compiled_factor`.
Importing this module imports numba.
"""

from __future__ import annotations

from .compiled_factor import factor, least_squares, multipliers, reflect, reflect_back
from .compiled_work import (
    GG,
    HH,
    HLEN,
    HRHS,
    INDEX,
    LEFT,
    LENGTH,
    LIMIT,
    MLEN,
    MZ,
    ORDER,
    OWN,
    PIVOTS,
    R0,
    RHS,
    ROLE,
    RR,
    TT,
    VV,
    WORK,
    YY,
    ZN,
    ZZ,
)
from .jit import outlined
from .lanes import copied, dots, total

INDEPENDENT = 1e-12


@outlined(f"i8(i8, i8, i8, f8, i8, i8, i1[::1], f8[::1], {WORK})")
def equations(d, m, P, tolerance, rows, bounds, sides, lam, B, U, N):  # type: ignore[no-untyped-def]
    """The optimum ``zn`` with the working set held, from z; in how many directions that decides.

    Args:
        d: unknowns.
        m: rows of the objective.
        P: inequalities.
        tolerance: of rank.
        rows: matrix of the inequalities, CZ or CE.
        bounds: the first of their vectors, Y0 or YE.
        sides: (P,) working set.
        lam: (P,) takes the multipliers of held limits and the slacks of own rows, 0 elsewhere.
        B: matrices.
        U: vectors.
        N: integers.
    """
    Mz, R, V, T, H, Cz = B[MZ], B[RR], B[VV], B[TT], B[HH], B[rows]
    y0, lo, hi, clen = U[bounds], U[bounds + 1], U[bounds + 2], U[bounds + 3]
    left, r0, mlen, length, rhs = U[LEFT : LEFT + 3], U[R0], U[MLEN], U[LENGTH], U[RHS]
    hlen, hrhs, y, g, z, zn = U[HLEN], U[HRHS], U[YY], U[GG], U[ZZ], U[ZN]
    pivots, order, role, index = N[PIVOTS], N[ORDER], N[ROLE], N[INDEX]
    h = 0
    for i in range(P):
        lam[i] = 0.0
        if role[i] == LIMIT and sides[i] != 0:
            hrhs[h] = (hi[i] if sides[i] > 0 else lo[i]) - y0[i]
            hlen[h] = clen[i]
            index[h] = i
            h += 1
    rh = 0
    if h > 0:
        for j in range(d):
            a = z[j]
            for i in range(h):
                H[j, i] = Cz[j, index[i]]
                hrhs[i] -= a * H[j, i]
        rh = factor(H, h, 0, d, hlen, INDEPENDENT, V, pivots, left)
        least_squares(H, h, 0, rh, pivots, hlen, hrhs, y, T, order)
    for i in range(m):
        rhs[i] = -r0[i]
        length[i] = mlen[i]
    m2 = m
    for i in range(P):
        if role[i] == OWN and sides[i] != 0:
            rhs[m2] = (hi[i] if sides[i] > 0 else lo[i]) - y0[i]
            length[m2] = clen[i]
            index[h + m2] = i
            m2 += 1
    copied(R, Mz, d, m)
    for j in range(d):
        for i in range(m, m2):
            R[j, i] = Cz[j, index[h + i]]
    res = left[0]
    total(res, z, R, d, m2)
    for i in range(m2):
        rhs[i] -= res[i]
    if rh > 0:
        reflect(R, m2, 0, rh, d, V)
        total(res, y, R, rh, m2)
        for i in range(m2):
            rhs[i] -= res[i]
    r = factor(R, m2, rh, d, length, tolerance, V, pivots, left)
    least_squares(R, m2, rh, r, pivots, length, rhs, y, T, order)
    for j in range(rh + r):
        zn[j] = y[j]
    for j in range(rh + r, d):
        zn[j] = 0.0
    reflect_back(zn, 0, rh + r, d, V)
    for j in range(d):
        zn[j] += z[j]
    total(res, y[rh:], R[rh:], r, m2)
    for i in range(m2):
        res[i] -= rhs[i]
    for i in range(m, m2):
        lam[index[h + i]] = res[i]
    if rh > 0:
        dots(g, R, res, rh, m2)
        for i in range(h):
            hrhs[i] = 0.0
        multipliers(H, 0, rh, pivots, g, hrhs)
        for i in range(h):
            lam[index[i]] = hrhs[i]
    return rh + r
