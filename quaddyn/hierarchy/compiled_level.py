"""One level of the hierarchy, compiled: the working set held exactly, and the rounds of its active set.

The same steps as `active_set`, in the coordinates z of the level's freedom, ``x = x0 + Z z``: rows come as ``M Z`` and
``C Z`` with their values at x0, so that a round costs what the freedom has left of the problem.
Importing this module imports numba.
"""

from __future__ import annotations

import numpy as np

from .compiled_factor import factor, least_squares, multipliers, reflect_back, reflect_rows
from .jit import jit

KEPT = 1e-12
INDEPENDENT = 1e-12
SIGN = 1e-14

# What a row of C is to the level being solved.
LATER, LIMIT, OWN, FIXED = 0, 1, 2, 3


@jit
def equations(  # type: ignore[no-untyped-def]
    d, m, Mz, r0, mlen, P, role, sides, Cz, y0, lo, hi, clen, tolerance, z, zn, lam, R, length, rhs, V, pivots, left, T,
    order, y, g, index,
):  # fmt: skip
    """The optimum ``zn`` with the working set held, from z; (stationarity, rank of the objective).

    `lam` takes the multipliers of held limits and the slacks of own rows, 0 elsewhere.
    """
    h = 0
    for i in range(P):
        lam[i] = 0.0
        if role[i] == LIMIT and sides[i] != 0:
            s = (hi[i] if sides[i] > 0 else lo[i]) - y0[i]
            for j in range(d):
                R[h, j] = Cz[i, j]
                s -= Cz[i, j] * z[j]
            rhs[h] = s
            length[h] = clen[i]
            index[h] = i
            h += 1
    rh = 0
    if h > 0:
        rh = factor(R, h, 0, d, length, INDEPENDENT, V, pivots, left)
        least_squares(R, h, 0, rh, pivots, rhs, y, T, order)
    R2 = R[h:]
    length2 = length[h:]
    rhs2 = rhs[h:]
    for i in range(m):
        s = -r0[i]
        for j in range(d):
            R2[i, j] = Mz[i, j]
            s -= Mz[i, j] * z[j]
        rhs2[i] = s
        length2[i] = mlen[i]
    m2 = m
    for i in range(P):
        if role[i] == OWN and sides[i] != 0:
            s = (hi[i] if sides[i] > 0 else lo[i]) - y0[i]
            for j in range(d):
                R2[m2, j] = Cz[i, j]
                s -= Cz[i, j] * z[j]
            rhs2[m2] = s
            length2[m2] = clen[i]
            index[h + m2] = i
            m2 += 1
    if rh > 0:
        reflect_rows(R2, m2, 0, rh, d, V)
        for i in range(m2):
            s = 0.0
            for j in range(rh):
                s += R2[i, j] * y[j]
            rhs2[i] -= s
    r = factor(R2, m2, rh, d, length2, tolerance, V, pivots, left)
    least_squares(R2, m2, rh, r, pivots, rhs2, y, T, order)
    for j in range(rh + r):
        zn[j] = y[j]
        g[j] = 0.0
    for j in range(rh + r, d):
        zn[j] = 0.0
    reflect_back(zn, 0, rh + r, d, V)
    for j in range(d):
        zn[j] += z[j]
    for i in range(m2):
        s = -rhs2[i]
        for j in range(rh, rh + r):
            s += R2[i, j] * y[j]
        if i >= m:
            lam[index[h + i]] = s
        for j in range(rh + r):
            g[j] += R2[i, j] * s
    stationarity = 0.0
    for j in range(rh, rh + r):
        stationarity += g[j] * g[j]
    if rh > 0:
        for i in range(h):
            rhs[i] = 0.0
        multipliers(R, 0, rh, pivots, g, rhs)
        for i in range(h):
            lam[index[i]] = rhs[i]
    return np.sqrt(stationarity), r


@jit
def first_block(d, P, role, sides, Cz, y0, lo, hi, clen, reach, z, zn):  # type: ignore[no-untyped-def]
    """How far the way from z to zn is open: (share, row that blocks or -1, side)."""
    length = 0.0
    for j in range(d):
        length += zn[j] * zn[j]
    length = reach + np.sqrt(length)
    best = -1
    best_side = 0
    best_share = 2.0
    for i in range(P):
        if (role[i] == LIMIT or role[i] == OWN) and sides[i] == 0:
            end = y0[i]
            for j in range(d):
                end += Cz[i, j] * zn[j]
            if end > hi[i] + KEPT * (clen[i] * length + abs(hi[i])):
                side = 1
                bound = hi[i]
            elif end < lo[i] - KEPT * (clen[i] * length + abs(lo[i])):
                side = -1
                bound = lo[i]
            else:
                continue
            start = y0[i]
            for j in range(d):
                start += Cz[i, j] * z[j]
            move = end - start
            share = 0.0
            if move * side > 0.0:
                share = min(max((bound - start) / move, 0.0), 1.0)
            if share < best_share:
                best_share = share
                best = i
                best_side = side
    return best_share, best, best_side


@jit
def worst_sign(P, role, sides, lo, hi, clen, size, scale, lam, lowest):  # type: ignore[no-untyped-def]
    """The row whose multiplier or slack has most the wrong sign, or the first such row if `lowest`; -1 if none."""
    best = -1
    most = 0.0
    for i in range(P):
        if sides[i] == 0:
            continue
        wrong = -lam[i] * sides[i]
        if role[i] == LIMIT:
            if wrong * clen[i] <= SIGN * scale:
                continue
        elif role[i] == OWN:
            bound = hi[i] if sides[i] > 0 else lo[i]
            if wrong <= KEPT * (clen[i] * size + abs(bound)):
                continue
        else:
            continue
        if wrong * clen[i] > most:
            most = wrong * clen[i]
            best = i
            if lowest:
                break
    return best


@jit
def gradient_scale(m, target, mlen, P, role, sides, lo, hi, clen, size):  # type: ignore[no-untyped-def]
    """Size of the terms of the objective's gradient."""
    scale = 1e-300
    for i in range(m):
        scale += mlen[i] * (abs(target[i]) + mlen[i] * size)
    for i in range(P):
        if role[i] == OWN and sides[i] != 0:
            scale += clen[i] * (abs(hi[i] if sides[i] > 0 else lo[i]) + clen[i] * size)
    return scale


@jit
def rounds(  # type: ignore[no-untyped-def]
    d, m, Mz, r0, target, mlen, P, role, sides, Cz, y0, lo, hi, clen, tolerance, reach, cap, z, zn, lam, R, length, rhs,
    V, pivots, left, T, order, y, g, index,
):  # fmt: skip
    """Active-set rounds from a z that keeps the limits; ends with the optimum in z: (ended, rounds, kkt)."""
    stuck = 0
    count = 0
    size = reach
    for j in range(d):
        size += abs(z[j])
    for i in range(P):
        if role[i] == OWN:
            s = y0[i]
            for j in range(d):
                s += Cz[i, j] * z[j]
            sides[i] = 0
            if s > hi[i] + KEPT * (clen[i] * size + abs(hi[i])):
                sides[i] = 1
            elif s < lo[i] - KEPT * (clen[i] * size + abs(lo[i])):
                sides[i] = -1
    kkt = 0.0
    for _ in range(cap):
        stationarity, _rank = equations(
            d, m, Mz, r0, mlen, P, role, sides, Cz, y0, lo, hi, clen, tolerance, z, zn, lam, R, length, rhs, V, pivots,
            left, T, order, y, g, index,
        )  # fmt: skip
        share, row, side = first_block(d, P, role, sides, Cz, y0, lo, hi, clen, reach, z, zn)
        if row >= 0:
            count += 1
            for j in range(d):
                z[j] += share * (zn[j] - z[j])
            sides[row] = side
            stuck = stuck + 1 if share == 0.0 else 0
            continue
        size = 0.0
        for j in range(d):
            z[j] = zn[j]
            size += z[j] * z[j]
        size = reach + np.sqrt(size)
        scale = gradient_scale(m, target, mlen, P, role, sides, lo, hi, clen, size)
        kkt = stationarity / scale
        row = worst_sign(P, role, sides, lo, hi, clen, size, scale, lam, stuck > 20)
        if row < 0:
            return True, count, kkt
        count += 1
        sides[row] = 0
    return False, count, kkt


@jit
def trial(  # type: ignore[no-untyped-def]
    d, m, Mz, r0, target, mlen, P, role, sides, Cz, y0, lo, hi, clen, tolerance, reach, z, zn, lam, R, length, rhs, V,
    pivots, left, T, order, y, g, index,
):  # fmt: skip
    """Whether the given working set is the optimum's; then z is the optimum: (accepted, kkt)."""
    stationarity, _rank = equations(
        d, m, Mz, r0, mlen, P, role, sides, Cz, y0, lo, hi, clen, tolerance, z, zn, lam, R, length, rhs, V, pivots,
        left, T, order, y, g, index,
    )  # fmt: skip
    size = 0.0
    for j in range(d):
        size += zn[j] * zn[j]
    size = reach + np.sqrt(size)
    for i in range(P):
        if role[i] == LIMIT and sides[i] != 0:
            bound = hi[i] if sides[i] > 0 else lo[i]
            s = y0[i] - bound
            for j in range(d):
                s += Cz[i, j] * zn[j]
            if abs(s) > KEPT * (clen[i] * size + abs(bound)):
                return False, 0.0
    _share, row, _side = first_block(d, P, role, sides, Cz, y0, lo, hi, clen, reach, z, zn)
    if row >= 0:
        return False, 0.0
    scale = gradient_scale(m, target, mlen, P, role, sides, lo, hi, clen, size)
    if worst_sign(P, role, sides, lo, hi, clen, size, scale, lam, False) >= 0:
        return False, 0.0
    for j in range(d):
        z[j] = zn[j]
    return True, stationarity / scale
