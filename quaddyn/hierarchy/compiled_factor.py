"""The rank-revealing factorization of `factor`, compiled: in place, without memory of its own.

Importing this module imports numba.
"""

from __future__ import annotations

import numpy as np

from .jit import jit

EPS = 2.220446049250313e-16


@jit
def factor(R, m, c, d, lengths, tolerance, V, pivots, left):  # type: ignore[no-untyped-def]
    """Pivoted Householder factorization of rows ``R[:m, c:d]``, in place; how many are independent.

    Afterwards ``R[i, c + k]`` are the rows in the basis of the reflectors ``V[c + k, c + k : d]``, pivot row k has
    zeros beyond column ``c + k``, and what other rows keep beyond the last reflector is below the tolerance.

    Args:
        R: (>= m, >= d) rows in the coordinates of what is free.
        m: number of rows.
        c: first free column; those before it are not looked at.
        d: end of the columns.
        lengths: (>= m,) of the rows before any projection.
        tolerance: relative remainder beyond which a row is independent.
        V: (>= d, >= d) takes the reflectors, of length 1.
        pivots: (>= d,) takes the independent rows, counted from c.
        left: (3, >= m) work.
    """
    longest = 0.0
    for i in range(m):
        longest = max(longest, lengths[i])
    share = max(tolerance, 8.0 * EPS)
    for i in range(m):
        total = 0.0
        for j in range(c, d):
            total += R[i, j] * R[i, j]
        left[0, i] = total
        left[1, i] = total
        least = max(share * lengths[i], 16.0 * EPS * longest)
        left[2, i] = least * least
    r = 0
    while r < min(m, d - c):
        k = c + r
        best = -1
        most = 0.0
        for i in range(m):
            if left[0, i] > most and left[0, i] > left[2, i]:
                # The running remainder loses digits as it shrinks: take it anew before it decides anything.
                if left[0, i] < 1e-6 * left[1, i]:
                    total = 0.0
                    for j in range(k, d):
                        total += R[i, j] * R[i, j]
                    left[0, i] = total
                    left[1, i] = total
                    if not (total > most and total > left[2, i]):
                        continue
                most = left[0, i]
                best = i
        if best < 0:
            break
        total = 0.0
        for j in range(k, d):
            total += R[best, j] * R[best, j]
        if not total > left[2, best]:
            left[0, best] = total
            left[1, best] = total
            continue
        norm = np.sqrt(total)
        head = R[best, k]
        signed = norm if head >= 0.0 else -norm
        # |v|^2 = 2 norm (norm + |head|)
        scale = 1.0 / np.sqrt(2.0 * norm * (norm + abs(head)))
        for j in range(k, d):
            V[k, j] = R[best, j] * scale
        V[k, k] = (head + signed) * scale
        for i in range(m):
            if left[0, i] < 0.0:
                continue
            s = 0.0
            for j in range(k, d):
                s += R[i, j] * V[k, j]
            s *= 2.0
            for j in range(k, d):
                R[i, j] -= s * V[k, j]
            left[0, i] = max(left[0, i] - R[i, k] * R[i, k], 0.0)
        R[best, k] = -signed
        for j in range(k + 1, d):
            R[best, j] = 0.0
        left[0, best] = -1.0
        pivots[k] = best
        r += 1
    return r


@jit
def reflect_rows(R, m, c, r, d, V):  # type: ignore[no-untyped-def]
    """Rows ``R[:m, c:d]`` into the basis of r reflectors."""
    for i in range(m):
        for k in range(c, c + r):
            s = 0.0
            for j in range(k, d):
                s += R[i, j] * V[k, j]
            s *= 2.0
            for j in range(k, d):
                R[i, j] -= s * V[k, j]


@jit
def reflect_back(z, c, r, d, V):  # type: ignore[no-untyped-def]
    """A vector ``z[c:d]`` out of the basis of r reflectors."""
    for k in range(c + r - 1, c - 1, -1):
        s = 0.0
        for j in range(k, d):
            s += z[j] * V[k, j]
        s *= 2.0
        for j in range(k, d):
            z[j] -= s * V[k, j]


@jit
def least_squares(R, m, c, r, pivots, rhs, y, T, order):  # type: ignore[no-untyped-def]
    """``y[c : c + r]`` with the least ``|R[:m, c : c + r] y - rhs|``; the rows come from `factor`, of rank r.

    Args:
        R: the rows.
        m: number of rows.
        c: first column.
        r: rank.
        pivots: as `factor` left them.
        rhs: (>= m,).
        y: takes the solution.
        T: (>= r + 1, >= m) work.
        order: (>= m,) work, integers.
    """
    if m == r:  # every row independent: forward substitution in the order of the pivots
        for k in range(c, c + r):
            i = pivots[k]
            s = rhs[i]
            for j in range(c, k):
                s -= R[i, j] * y[j]
            y[k] = s / R[i, k]
        return
    # Long rows first: Householder QR is then stable row by row, however differently the rows are scaled.
    for i in range(m):
        big = 0.0
        for j in range(c, c + r):
            big = max(big, abs(R[i, j]))
        T[r, i] = big
        p = i
        while p > 0 and T[r, order[p - 1]] < big:
            order[p] = order[p - 1]
            p -= 1
        order[p] = i
    for j in range(r):
        for i in range(m):
            T[j, i] = R[order[i], c + j]
    for i in range(m):
        T[r, i] = rhs[order[i]]
    for k in range(r):
        total = 0.0
        for i in range(k, m):
            total += T[k, i] * T[k, i]
        norm = np.sqrt(total)
        head = T[k, k]
        signed = norm if head >= 0.0 else -norm
        T[k, k] = head + signed
        half = norm * (norm + abs(head))
        for j in range(k + 1, r + 1):
            s = 0.0
            for i in range(k, m):
                s += T[k, i] * T[j, i]
            s /= half
            for i in range(k, m):
                T[j, i] -= s * T[k, i]
        y[c + k] = -signed  # the diagonal, until the substitution takes its place
    for k in range(r - 1, -1, -1):
        s = T[r, k]
        for j in range(k + 1, r):
            s -= T[j, k] * y[c + j]
        y[c + k] = s / y[c + k]


@jit
def multipliers(R, c, r, pivots, gradient, out):  # type: ignore[no-untyped-def]
    """``out[i]`` of the pivot rows with ``sum_i R[i, c : c + r] out[i] = -gradient[c : c + r]``; destroys gradient."""
    for k in range(c + r - 1, c - 1, -1):
        i = pivots[k]
        lam = -gradient[k] / R[i, k]
        out[i] = lam
        for j in range(c, k):
            gradient[j] += R[i, j] * lam
