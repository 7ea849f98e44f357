"""The rank-revealing factorization of `factor`, compiled: in place, without memory of its own.

Matrices are stored transposed, ``R[j, i]`` being column j of row i: the rows lie side by side, and inner loops run
along them (`lanes`).  Importing this module imports numba.
"""

from __future__ import annotations

import numpy as np

from .jit import inner, outlined
from .lanes import WIDTH, copied, mirror, scaled, squares, tail, turn

EPS = 2.220446049250313e-16

#: Rows whose lengths differ by less need not be sorted for least squares.
EVEN = 1e3


@inner
def reflect(R, m, c, r, d, V):  # type: ignore[no-untyped-def]
    """Turn m rows into the basis of the r reflectors from column c on."""
    for k in range(c, c + r):
        turn(R[k:], V[k, k:], d - k, m)


@outlined("i8(f8[:,::1], i8, i8, i8, f8[::1], f8, f8[:,::1], i8[::1], f8[:,::1])")
def factor(R, m, c, d, lengths, tolerance, V, pivots, left):  # type: ignore[no-untyped-def]
    """Pivoted Householder factorization of m rows in columns c to d, in place; how many are independent.

    Afterwards ``R[c + k, i]`` are the rows in the basis of the reflectors ``V[c + k, c + k : d]``, pivot row k has
    zeros beyond column ``c + k``, and what other rows keep beyond the last reflector is below the tolerance.

    Args:
        R: (>= d, >= m) columns of the rows, in the coordinates of what is free.
        m: number of rows.
        c: first free column; those before it are not looked at.
        d: end of the columns.
        lengths: (>= m,) of the rows before any projection.
        tolerance: relative remainder beyond which a row is independent.
        V: (>= d, >= d) takes the reflectors, of length 1.
        pivots: (>= d,) takes the independent rows, counted from c.
        left: (3, >= m) work.
    """
    now, before, least = left[0], left[1], left[2]
    longest = 0.0
    for i in range(m):
        longest = max(longest, lengths[i])
    share = max(tolerance, 8.0 * EPS)
    squares(now, R[c:], d - c, m)
    for i in range(m):
        before[i] = now[i]
        a = max(share * lengths[i], 16.0 * EPS * longest)
        least[i] = a * a
    r = 0
    summed = 0
    while r < min(m, d - c):
        k = c + r
        best = -1
        most = 0.0
        for i in range(m):
            if now[i] > most and now[i] > least[i]:
                most = now[i]
                best = i
        if best < 0:
            if summed == r:
                break
            # What was subtracted from down to nothing may hide a remainder of 1e-8: sum once more.
            summed = r
            squares(now, R[k:], d - k, m)
            for i in range(m):
                before[i] = now[i]
            continue
        rest, v = R[k:], V[k, k:]
        total = 0.0
        for j in range(d - k):
            a = rest[j, best]
            v[j] = a
            total += a * a
        # The running remainder loses digits as it shrinks: take it anew before it decides anything.
        if most < 1e-6 * before[best] or not total > least[best]:
            before[best] = total
            now[best] = total
            if not total > least[best] or total < 0.5 * most:
                continue
        norm = np.sqrt(total)
        head = v[0]
        signed = norm if head >= 0.0 else -norm
        v[0] = head + signed
        # |v|^2 = 2 norm (norm + |head|)
        scaled(v, v, 1.0 / np.sqrt(2.0 * norm * (norm + abs(head))), d - k)
        turn(rest, v, d - k, m)
        column = rest[0]
        for i in range(m):
            now[i] -= column[i] * column[i]
        for j in range(d - k):
            rest[j, best] = 0.0
        column[best] = -signed
        now[best] = -1.0  # and it stays there: the row is zero from here on
        pivots[k] = best
        r += 1
    return r


@inner
def reflect_back(z, c, r, d, V):  # type: ignore[no-untyped-def]
    """A vector ``z[c:d]`` out of the basis of r reflectors."""
    for k in range(c + r - 1, c - 1, -1):
        v, y = V[k, k:], z[k:]
        s = 0.0
        for j in range(d - k):
            s += y[j] * v[j]
        s *= 2.0
        for j in range(d - k):
            y[j] -= s * v[j]


@outlined("void(f8[:,::1], i8, i8, i8, i8[::1], f8[::1], f8[::1], f8[::1], f8[:,::1], i8[::1])")
def least_squares(R, m, c, r, pivots, lengths, rhs, y, T, order):  # type: ignore[no-untyped-def]
    """``y[c : c + r]`` with the least ``|R y - rhs|`` over m rows; the rows come from `factor`, of rank r.

    Args:
        R: columns of the rows.
        m: number of rows.
        c: first column.
        r: rank.
        pivots: as `factor` left them.
        lengths: (>= m,) of the rows.
        rhs: (>= m,).
        y: takes the solution.
        T: (>= r + 2, >= m) work; takes the triangle, if there are more rows than r.
        order: (>= m,) work, integers.
    """
    if m == r:  # every row independent: forward substitution in the order of the pivots
        for k in range(c, c + r):
            i = pivots[k]
            s = rhs[i]
            for j in range(c, k):
                s -= R[j, i] * y[j]
            y[k] = s / R[k, i]
        return
    longest = 0.0
    shortest = np.inf
    for i in range(m):
        longest = max(longest, lengths[i])
        shortest = min(shortest, lengths[i])
    if longest <= EVEN * shortest:
        copied(T, R[c:], r, m)
        for i in range(m):
            T[r, i] = rhs[i]
    else:
        # Long rows first: Householder QR is then stable row by row, however differently the rows are scaled.
        for i in range(m):
            big = 0.0
            for j in range(c, c + r):
                big = max(big, abs(R[j, i]))
            T[r, i] = big
            p = i
            while p > 0 and T[r, order[p - 1]] < big:
                order[p] = order[p - 1]
                p -= 1
            order[p] = i
        for j in range(r):
            for i in range(m):
                T[j, i] = R[c + j, order[i]]
        for i in range(m):
            T[r, i] = rhs[order[i]]
    end = WIDTH * ((m + WIDTH - 1) // WIDTH)
    for j in range(r + 1):
        for i in range(m, end):
            T[j, i] = 0.0
    u = T[r + 1]  # the reflector, zeros before its head
    for k in range(r):
        v = T[k]
        norm = np.sqrt(tail(u, v, k, m))
        head = u[k]
        signed = norm if head >= 0.0 else -norm
        u[k] = head + signed
        half = 1.0 / (norm * (norm + abs(head)))
        mirror(T[k + 1 :], u, half, r - k, m)
        v[k] = -signed
    for k in range(r - 1, -1, -1):
        s = T[r, k]
        for j in range(k + 1, r):
            s -= T[j, k] * y[c + j]
        y[c + k] = s / T[k, k]


@inner
def multipliers(R, c, r, pivots, gradient, out):  # type: ignore[no-untyped-def]
    """``out[i]`` of the pivot rows with ``sum_i R[c : c + r, i] out[i] = -gradient[c : c + r]``; destroys gradient."""
    for k in range(c + r - 1, c - 1, -1):
        i = pivots[k]
        lam = -gradient[k] / R[k, i]
        out[i] = lam
        for j in range(c, k):
            gradient[j] += R[j, i] * lam
