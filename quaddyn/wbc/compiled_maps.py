"""The unknowns of a tick, compiled: what the equations of motion and the contacts leave free, as affine maps.

A map is a matrix of at least ``n + 1`` columns; it uses the first d for an unknown of d entries, and column n for the
constant.

Importing this module imports numba.
"""

from __future__ import annotations

import numpy as np

from ..hierarchy.jit import jit


@jit
def cholesky(L):  # type: ignore[no-untyped-def]
    """The lower triangle of L becomes its Cholesky factor; whether it has one."""
    n = L.shape[0]
    for j in range(n):
        s = L[j, j]
        for k in range(j):
            s -= L[j, k] * L[j, k]
        if not s > 0.0:
            return False
        L[j, j] = np.sqrt(s)
        f = 1.0 / L[j, j]
        for i in range(j + 1, n):
            s = L[i, j]
            for k in range(j):
                s -= L[i, k] * L[j, k]
            L[i, j] = s * f
    return True


@jit
def substitute(L, G):  # type: ignore[no-untyped-def]
    """``G <- (L L^T)^-1 G``, rows of G (n, m)."""
    n, m = G.shape
    for i in range(n):
        row = G[i]
        for k in range(i):
            add(row, -L[i, k], G[k], m)
        f = 1.0 / L[i, i]
        for j in range(m):
            row[j] *= f
    for i in range(n - 1, -1, -1):
        row = G[i]
        for k in range(i + 1, n):
            add(row, -L[k, i], G[k], m)
        f = 1.0 / L[i, i]
        for j in range(m):
            row[j] *= f


@jit
def add(to, f, row, m):  # type: ignore[no-untyped-def]
    """``to += f row`` over the first m entries."""
    if f != 0.0:
        for j in range(m):
            to[j] += f * row[j]


@jit
def null_space(E, e, n, tolerance, X, V, order):  # type: ignore[no-untyped-def]
    """All x with ``E x = e`` as ``X [y, 1]``: the shortest one, and an orthonormal basis of the directions left.

    Householder reflections from the right, the longest remaining row first; rows that others imply, to `tolerance`
    relative to their length, are left out and may be contradicted.

    Args:
        E: (r, n), overwritten.
        e: (r,).
        n: number of unknowns.
        tolerance: relative, of rank.
        X: (n, n + 1 or more) takes the map.
        V: (3, max(r, n)) work.
        order: (r,) work.

    Returns:
        Size of y.
    """
    r = E.shape[0]
    size, scale, y = V[0], V[1], V[2]
    for i in range(r):
        s = 0.0
        for j in range(n):
            s += E[i, j] * E[i, j]
        size[i] = s
        order[i] = i
    rank = 0
    for k in range(min(r, n)):
        best, at = 0.0, -1
        for i in range(k, r):
            row = E[order[i]]
            s = 0.0
            for j in range(k, n):
                s += row[j] * row[j]
            if s > best and s > tolerance * tolerance * size[order[i]]:
                best, at = s, i
        if at < 0:
            break
        order[k], order[at] = order[at], order[k]
        row = E[order[k]]
        # I - scale u u^T, u = the rest of the row with its first entry moved away from zero; u stays in the row
        length = np.sqrt(best)
        head = row[k]
        corner = -length if head > 0.0 else length
        row[k] = head - corner
        f = 1.0 / (length * (length + abs(head)))
        scale[k] = f
        for i in range(k + 1, r):
            other = E[order[i]]
            s = 0.0
            for j in range(k, n):
                s += row[j] * other[j]
            s *= f
            for j in range(k, n):
                other[j] -= s * row[j]
        # forward substitution: what the row wants, less what earlier directions give it
        s = e[order[k]]
        for j in range(k):
            s -= E[order[k], j] * y[j]
        y[k] = s / corner
        rank += 1
    # reflections undone: of the particular solution and of the unit vectors beyond the rank
    d = n - rank
    for i in range(n):
        for j in range(d):
            X[i, j] = 0.0
        X[i, n] = y[i] if i < rank else 0.0
    for j in range(d):
        X[rank + j, j] = 1.0
    w = V[2]
    for k in range(rank - 1, -1, -1):
        row = E[order[k]]
        f = scale[k]
        s = 0.0
        for j in range(d):
            w[j] = 0.0
        for i in range(k, n):
            a = row[i]
            s += a * X[i, n]
            source = X[i]
            for j in range(d):
                w[j] += a * source[j]
        for i in range(k, n):
            a = f * row[i]
            X[i, n] -= a * s
            to = X[i]
            for j in range(d):
                to[j] -= a * w[j]
    return d
