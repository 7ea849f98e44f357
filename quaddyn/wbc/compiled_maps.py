"""The unknowns of a tick, compiled: what the equations of motion and the contacts leave free, as affine maps.

A map is a matrix whose rows say what something is over ``(1, y)``: its first column is the constant, the next d belong
to the unknowns y.  Rows have room up to the next multiple of `WIDTH`, see `quaddyn.hierarchy.lanes`.

Importing this module imports numba.
"""

from __future__ import annotations

import numpy as np

from ..hierarchy.jit import inner, outlined
from ..hierarchy.lanes import WIDTH, blend, mirror, total


def stride(n: int) -> int:
    """Columns of a map over n unknowns, and of what is as long."""
    return WIDTH * ((n + WIDTH) // WIDTH)


@outlined("b1(f8[:,::1])")
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


@inner
def scale(row, f, m):  # type: ignore[no-untyped-def]
    """``row *= f`` over the first m entries."""
    for j in range(m):
        row[j] *= f


@outlined("void(f8[:,::1], f8[:,::1], i8, f8[::1])")
def substitute(L, G, m, share):  # type: ignore[no-untyped-def]
    """``G <- (L L^T)^-1 G`` over the first m columns of G's rows."""
    n = L.shape[0]
    for i in range(n):
        for k in range(i):
            share[k] = -L[i, k]
        blend(G[i], G[i], share, G, i, m)
        scale(G[i], 1.0 / L[i, i], m)
    for i in range(n - 1, -1, -1):
        for k in range(i + 1, n):
            share[k - i - 1] = -L[k, i]
        blend(G[i], G[i], share, G[i + 1 :], n - 1 - i, m)
        scale(G[i], 1.0 / L[i, i], m)


@outlined("i8(i8, i8, f8, f8[:,::1], f8[::1], f8[:,::1], f8[:,::1], f8[:,::1], f8[:,::1], i8[::1])")
def null_space(r, n, tolerance, E, e, X, V, Y, spare, order):  # type: ignore[no-untyped-def]
    """All x with ``E x = e`` as the map X: the shortest one, and an orthonormal basis of the directions left.

    Householder reflections from the right, the longest remaining row first; rows that others imply, to `tolerance`
    relative to their length, are left out and may be contradicted.

    Args:
        r: number of rows.
        n: number of unknowns.
        tolerance: relative, of rank.
        E: (r, stride), overwritten.
        e: (r,).
        X: (n, stride) takes the map.
        V: (r, stride) work.
        Y: (n + 1, stride) work.
        spare: (3, stride or more) work.
        order: (r,) work.

    Returns:
        Size of y.
    """
    size, share, y = spare[0], spare[1], spare[2]
    width = E.shape[1]
    for i in range(r):
        s = 0.0
        for j in range(n):
            s += E[i, j] * E[i, j]
        size[i] = s
        order[i] = i
        for j in range(n, width):
            E[i, j] = 0.0
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
        row, u = E[order[k]], V[k]
        for j in range(width):
            u[j] = row[j] if j >= k else 0.0
        # I - share u u^T, u = the rest of the row with its first entry moved away from zero
        length = np.sqrt(best)
        head = row[k]
        corner = -length if head > 0.0 else length
        u[k] = head - corner
        share[k] = 1.0 / (length * (length + abs(head)))
        mirror(E, u, share[k], r, n)
        s = e[order[k]]
        for j in range(k):
            s -= row[j] * y[j]
        y[k] = s / corner
        rank += 1
    # reflections undone: of the particular solution and of the unit vectors beyond the rank
    d = n - rank
    for i in range(d + 1):
        row = Y[i]
        for j in range(width):
            row[j] = 0.0
        if i > 0:
            row[rank + i - 1] = 1.0
    for j in range(rank):
        Y[0, j] = y[j]
    for k in range(rank - 1, -1, -1):
        mirror(Y, V[k], share[k], d + 1, n)
    for i in range(d + 1):
        row = Y[i]
        for j in range(n):
            X[j, i] = row[j]
    return d


@inner
def hide(length, square):  # type: ignore[no-untyped-def]
    """What a row has lost of its length where contacts are solved beforehand: a column of its own.

    The solver fixes that unknown to zero and sees rows as long as they were: which directions count as dependent is a
    matter of that length, and a row of which only rounding is left must count for nothing.
    """
    return np.sqrt(max(length * length - square, 0.0))


@outlined("f8(f8[::1], i8, f8[:,::1], f8[::1], i8, f8, b1, f8[::1], f8[::1])")
def combine(c, count, full, lengths, d, f, hidden, spare, to):  # type: ignore[no-untyped-def]
    """``to = f c @ full`` over the unknowns, its hidden length after them if it has one; the constant, likewise."""
    total(spare, c, full, count, d + 1)
    s = 0.0
    for j in range(d):
        a = f * spare[1 + j]
        to[j] = a
        s += a * a
    if hidden:
        length = 0.0
        for i in range(count):
            length += abs(c[i]) * lengths[i]
        to[d] = hide(f * length, s)
    return f * spare[0]


@outlined("f8(f8[::1], f8, i8, f8, b1, f8[::1])")
def copy(source, length, d, f, hidden, to):  # type: ignore[no-untyped-def]
    """``to = f source`` over the unknowns, its hidden length after them if it has one; the constant, likewise."""
    s = 0.0
    for j in range(d):
        a = f * source[1 + j]
        to[j] = a
        s += a * a
    if hidden:
        to[d] = hide(f * length, s)
    return f * source[0]
